//! Lost and found: where the content of a URL stands now, or stood last (Broder 1997, section 1.1). A last copy without a
//! shingle is looked for nowhere: pages of so few words are equal by chance.

use super::answers::UrlSighting;
use super::similar::{Comparison, compare_sketches, hundredths};
use crate::document::{ClusterId, DocumentId, FetchTime, Fingerprint, host_of};
use crate::ports::{Snapshot, StoreError};
use crate::sketch::{Sketch, compare};
use crate::sweep::{
    Evidence, LastCopy, Observation, PlaceScores, Ranking, Seen, UrlState, documents_between, looks_like_html,
    path_likeness, site_likeness,
};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// URLs of one request that are looked up in one batch.
const BATCH: usize = 4096;

/// Documents of a cluster whose places are read: the last copy's own, and the first of the others.
const MEMBERS_MAX: usize = 4096;

/// Places of one document that are read: the newest.
const PLACES_OF_DOCUMENT_MAX: usize = 64;

/// Documents compared with the last copy: those that the other scores favour.
const COMPARED_MAX: usize = 256;

/// By how much two resemblances may differ and say the same: about one standard error of a sketch of usual size.
const RESEMBLANCE_ERROR: f64 = 0.05;

/// Places among which those are preferred that succeed the lost one: so many, however few are asked for.
const ALIKE_MAX: usize = 32;

/// Redirects followed one after the other, as browsers do.
const REDIRECTS_MAX: usize = 20;

/// How to look for lost URLs.
#[derive(Clone, Debug)]
pub struct LostSearch {
    /// What makes one place better than another.
    pub ranking: Ranking,
    /// Places for a URL, at most.
    pub limit: usize,
}

impl Default for LostSearch {
    fn default() -> Self {
        LostSearch { ranking: Ranking::default(), limit: 10 }
    }
}

/// A place where a lost content stands now.
///
/// In the shares A is the last copy of the lost URL, B the document at this place. All are none where the two were
/// not compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FoundPlace {
    /// Where.
    pub url: String,
    /// When it was last seen there; none where a redirect leads to a URL that was never seen.
    pub last_seen: Option<FetchTime>,
    /// On which sweep.
    pub sweep: Option<String>,
    /// The document that stands there.
    pub document: Option<DocumentId>,
    /// r(A, B), in hundredths.
    pub resemblance: Option<f64>,
    /// One standard error of the resemblance.
    pub error: Option<f64>,
    /// How much of the last copy is in the document, in hundredths.
    pub containment_of_a_in_b: Option<f64>,
    /// How much of the document is in the last copy, in hundredths.
    pub containment_of_b_in_a: Option<f64>,
    /// One standard error of how much of A is in B.
    pub error_of_a_in_b: Option<f64>,
    /// One standard error of how much of B is in A.
    pub error_of_b_in_a: Option<f64>,
    /// How the place is known.
    pub evidence: Evidence,
    /// What orders the places, 0 to 1, in hundredths.
    pub score: f64,
}

/// A place where a lost content stood later than at its URL, and stands no more.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FormerPlace {
    /// Where.
    pub url: String,
    /// When the content was last seen there.
    pub last_seen: FetchTime,
    /// On which sweep.
    pub sweep: Option<String>,
    /// The document that stood there.
    pub document: DocumentId,
    /// The newest sighting of that URL: gone, lost, redirected, or a page of another cluster.
    pub newest: Observation,
}

/// Where the content of a URL stands now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LostAnswer {
    /// The URL asked about.
    pub url: String,
    /// Its newest sighting; none where it was never seen.
    pub newest: Option<Observation>,
    /// Its newest sighting of a page: the last copy.
    pub last_seen: Option<UrlSighting>,
    /// Where that stands, best first; empty where no later place is known.
    pub answers: Vec<String>,
    /// The same places, with date and evidence.
    pub details: Vec<FoundPlace>,
    /// Where it stood later and stands no more, the latest first.
    pub former_places: Vec<FormerPlace>,
}

/// Follows a URL's last copy to where it, or something that resembles it, stands now.
///
/// # Errors
/// [`StoreError`]
pub fn lost(snapshot: &impl Snapshot, url: &str, search: &LostSearch) -> Result<LostAnswer, StoreError> {
    let mut answers = lost_batch(snapshot, &[url.to_string()], search)?;
    Ok(answers.pop().unwrap_or_else(|| LostAnswer::unknown(url)))
}

/// The same for many URLs, in their order, until `each` says stop (false). Each cluster is read once for a batch.
///
/// # Errors
/// [`StoreError`]
pub fn lost_many(
    snapshot: &impl Snapshot,
    urls: &[String],
    search: &LostSearch,
    mut each: impl FnMut(LostAnswer) -> bool,
) -> Result<(), StoreError> {
    for batch in urls.chunks(BATCH) {
        for answer in lost_batch(snapshot, batch, search)? {
            if !each(answer) {
                return Ok(());
            }
        }
    }
    Ok(())
}

impl LostAnswer {
    fn unknown(url: &str) -> Self {
        LostAnswer {
            url: url.to_string(),
            newest: None,
            last_seen: None,
            answers: Vec::new(),
            details: Vec::new(),
            former_places: Vec::new(),
        }
    }

    /// Whether the page still stands at the URL, as far as the store knows.
    pub fn still_stands(&self) -> bool {
        self.details.iter().any(|place| place.evidence == Evidence::Itself)
    }
}

/// Answers cluster by cluster, and forgets each before it reads the next.
fn lost_batch(snapshot: &impl Snapshot, urls: &[String], search: &LostSearch) -> Result<Vec<LostAnswer>, StoreError> {
    let lost = lost_urls(snapshot, urls)?;
    let mut by_cluster: Vec<(Option<ClusterId>, usize)> =
        lost.iter().enumerate().map(|(at, lost)| (lost.cluster, at)).collect();
    by_cluster.sort_unstable();
    let mut answers: Vec<Option<LostAnswer>> = urls.iter().map(|_| None).collect();
    for group in by_cluster.chunk_by(|a, b| a.0 == b.0) {
        let of_cluster: Vec<&LostUrl> = group.iter().map(|(_, at)| &lost[*at]).collect();
        let mut pool = Pool::read(snapshot, &of_cluster)?;
        for ((_, at), lost) in group.iter().zip(of_cluster) {
            answers[*at] = Some(pool.answer(snapshot, lost, search)?);
        }
    }
    Ok(answers.into_iter().flatten().collect())
}

/// A URL asked about, and what the store knows of it.
struct LostUrl {
    url: String,
    key: Fingerprint,
    state: Option<UrlState>,
    /// Where redirects lead from it: each URL and its state.
    aliases: Vec<(String, Option<UrlState>)>,
    /// The copy to look for: its last one, or the last one of a page that it led to and that is gone.
    copy: Option<LastCopy>,
    cluster: Option<ClusterId>,
}

fn lost_urls(snapshot: &impl Snapshot, urls: &[String]) -> Result<Vec<LostUrl>, StoreError> {
    let keys: Vec<Fingerprint> = urls.iter().map(|url| snapshot.key_of(url)).collect();
    let states = snapshot.states(&keys)?;
    urls.iter()
        .zip(keys)
        .zip(states)
        .map(|((url, key), state)| {
            let aliases = aliases(snapshot, url, state.as_ref())?;
            let copies = aliases.iter().rev().map(|(_, state)| state).chain([&state]);
            let copy = copies.flatten().find_map(|state| state.copy.clone());
            let cluster = copy.as_ref().map(|copy| snapshot.cluster_of(copy.document)).transpose()?;
            Ok(LostUrl { url: url.clone(), key, state, aliases, copy, cluster })
        })
        .collect()
}

/// Where the redirects of a URL lead, one after the other.
fn aliases(
    snapshot: &impl Snapshot,
    url: &str,
    state: Option<&UrlState>,
) -> Result<Vec<(String, Option<UrlState>)>, StoreError> {
    let mut aliases: Vec<(String, Option<UrlState>)> = Vec::new();
    let mut state = state.cloned();
    while let Some(UrlState { newest: Observation { seen: Seen::Redirect(target), .. }, .. }) = &state {
        let is_loop = target == url || aliases.iter().any(|(alias, _)| alias == target);
        if is_loop || aliases.len() == REDIRECTS_MAX {
            break;
        }
        let target = target.clone();
        state = snapshot.states(&[snapshot.key_of(&target)])?.pop().flatten();
        aliases.push((target, state.clone()));
    }
    Ok(aliases)
}

/// A place where a document of the cluster stands now.
struct Location {
    url: String,
    key: Fingerprint,
    moment: Observation,
    document: DocumentId,
    /// The URL of the cluster that redirects there.
    led_by: Option<String>,
}

/// A place where a document of the cluster stood.
struct FormerLocation {
    key: Fingerprint,
    /// The newest sighting of a document of the cluster there.
    moment: Observation,
    place: FormerPlace,
}

/// A cluster's documents, and where they stand now or stood last.
struct Pool {
    members: Vec<DocumentId>,
    places: Vec<Location>,
    /// The latest first.
    former: Vec<FormerLocation>,
    /// When each sweep began: all that one sweep saw is equally recent.
    begun: HashMap<String, FetchTime>,
    sketches: HashMap<DocumentId, Arc<Sketch>>,
    /// Read only when an answer needs a chain.
    links: Option<Vec<(DocumentId, DocumentId)>>,
}

impl Pool {
    /// The pool in which some URLs of one cluster look for their last copies.
    fn read(snapshot: &impl Snapshot, lost: &[&LostUrl]) -> Result<Self, StoreError> {
        let mut copies: Vec<&LastCopy> = lost.iter().filter_map(|lost| lost.copy.as_ref()).collect();
        if let Some(first) = copies.first() {
            // A document without shingles resembles no other, so that it is alone in its cluster.
            let documents = snapshot.documents(&[first.document])?;
            if documents.iter().all(|document| document.sketch.n_shingles == 0) {
                copies.clear();
            }
        }
        let members = members(snapshot, &copies)?;
        let (places, former) = places(snapshot, &members)?;
        let sweeps = places.iter().filter_map(|place| place.moment.sweep.as_deref());
        let mut sweeps: Vec<&str> = sweeps.chain(copies.iter().filter_map(|copy| copy.sweep.as_deref())).collect();
        sweeps.sort_unstable();
        sweeps.dedup();
        let rows = sweeps.iter().zip(snapshot.sweeps_named(&sweeps)?);
        let begun = rows.filter_map(|(name, row)| Some((name.to_string(), row?.first))).collect();
        Ok(Pool { members, places, former, begun, sketches: HashMap::new(), links: None })
    }

    /// The beginning of the sweep that saw something; the moment itself where it was on none.
    fn epoch(&self, moment: &Observation) -> FetchTime {
        moment.sweep.as_ref().and_then(|sweep| self.begun.get(sweep)).copied().unwrap_or(moment.fetched_at)
    }

    fn answer(
        &mut self,
        snapshot: &impl Snapshot,
        lost: &LostUrl,
        search: &LostSearch,
    ) -> Result<LostAnswer, StoreError> {
        let mut answer = LostAnswer::unknown(&lost.url);
        let Some(state) = &lost.state else { return Ok(answer) };
        answer.newest = Some(state.newest.clone());
        if let Some(copy) = &state.copy {
            answer.last_seen =
                Some(UrlSighting { moment: copy.moment(), cluster: Some(snapshot.cluster_of(copy.document)?) });
        }
        let mut found: Vec<FoundPlace> = lost.led_to().into_iter().collect();
        if let Some(copy) = &lost.copy {
            found.extend(self.found(snapshot, lost, copy, search)?);
            let later = self.former.iter().filter(|former| former.key != lost.key);
            let later = later.filter(|former| former.moment.is_later_than(&copy.moment()));
            answer.former_places = later.take(search.limit).map(|former| former.place.clone()).collect();
        }
        let mut seen = HashSet::new();
        found.retain(|found| seen.insert(found.url.clone()));
        found.truncate(search.limit);
        answer.answers = found.iter().map(|found| found.url.clone()).collect();
        answer.details = found;
        Ok(answer)
    }

    /// The places that are later than the last copy, best first, after the URL itself while nothing speaks against
    /// it.
    fn found(
        &mut self,
        snapshot: &impl Snapshot,
        lost: &LostUrl,
        copy: &LastCopy,
        search: &LostSearch,
    ) -> Result<Vec<FoundPlace>, StoreError> {
        let moment = copy.moment();
        let mut places: Vec<usize> = Vec::new();
        for (at, place) in self.places.iter().enumerate() {
            if place.key != lost.key && place.moment.is_later_than(&moment) {
                places.push(at);
            }
        }
        // A later sweep visited the host and saw the content elsewhere, not here. Without sweeps a crawler cannot
        // miss a page: it only fetches some pages sooner than others.
        let is_of_walk = |place: &Location| moment.sweep.is_some() && place.moment.sweep.is_some();
        let was_missed = places
            .iter()
            .map(|at| &self.places[*at])
            .any(|place| is_of_walk(place) && host_of(&place.url) == host_of(&lost.url));
        let mut ranked = self.rank_without_reading(lost, &moment, &places, &search.ranking);
        let comparisons = self.compare(snapshot, copy.document, &ranked)?;
        for (at, scores) in &mut ranked {
            let comparison = comparisons.get(&self.places[*at].document);
            scores.resemblance = comparison.map_or(0.0, |(resemblance, _)| *resemblance);
        }
        let key = |(at, scores): &(usize, PlaceScores)| (search.ranking.score(scores), *at);
        let mut scored: Vec<(f64, usize)> = ranked.iter().map(key).collect();
        scored.sort_by(|(x, a), (y, b)| y.total_cmp(x).then_with(|| self.places[*a].url.cmp(&self.places[*b].url)));
        // Several URLs of the cluster may redirect to one.
        let mut urls = HashSet::new();
        scored.retain(|(_, at)| urls.insert(&self.places[*at].url));
        self.prefer_successors(snapshot, lost, &moment, &search.ranking, &mut scored)?;
        scored.truncate(search.limit);
        let mut found = Vec::new();
        if lost.state.as_ref().is_some_and(UrlState::is_alive) && !was_missed {
            found.push(FoundPlace::itself(&lost.url, copy));
        }
        for (score, at) in scored {
            let evidence = self.evidence(snapshot, copy.document, at, &comparisons)?;
            let place = &self.places[at];
            let comparison = comparisons.get(&place.document).map(|(_, comparison)| *comparison);
            found.push(FoundPlace::at(place, evidence, score, comparison));
        }
        Ok(found)
    }

    /// Of the best places, between which only the error of their resemblance decides, those come first where no page stood as
    /// long as the last copy did, and of these the ones in its format: a page that moves away comes to a new URL, while its
    /// text in another format may have stood beside it, or moves with it.
    fn prefer_successors(
        &self,
        snapshot: &impl Snapshot,
        lost: &LostUrl,
        copy: &Observation,
        ranking: &Ranking,
        scored: &mut [(f64, usize)],
    ) -> Result<(), StoreError> {
        let Some((best, _)) = scored.first().copied() else { return Ok(()) };
        let error = ranking.score(&PlaceScores { resemblance: RESEMBLANCE_ERROR, ..PlaceScores::default() });
        let n_alike = scored.iter().take(ALIKE_MAX).take_while(|(score, _)| best - score <= error).count();
        if n_alike < 2 {
            return Ok(());
        }
        let mut alike = Vec::with_capacity(n_alike);
        for place in &scored[..n_alike] {
            let url = &self.places[place.1].url;
            let was_there = |seen: &Observation| seen.seen.document().is_some() && !seen.is_later_than(copy);
            let is_older = snapshot.sightings_of_url(url)?.iter().any(|sighting| was_there(&sighting.moment));
            alike.push((is_older, looks_like_html(url) != looks_like_html(&lost.url), *place));
        }
        alike.sort_by_key(|(is_older, is_other_format, _)| (*is_older, *is_other_format));
        for (place, (.., better)) in scored.iter_mut().zip(alike) {
            *place = better;
        }
        Ok(())
    }

    /// The places with the scores that need no reading, best first.
    fn rank_without_reading(
        &self,
        lost: &LostUrl,
        moment: &Observation,
        places: &[usize],
        ranking: &Ranking,
    ) -> Vec<(usize, PlaceScores)> {
        let from = self.epoch(moment).0;
        let newest = places.iter().map(|at| self.epoch(&self.places[*at].moment).0).max().unwrap_or(from);
        let span = newest.saturating_sub(from).max(1) as f64;
        let scores = |at: &usize| {
            let place = &self.places[*at];
            let age = newest.saturating_sub(self.epoch(&place.moment).0) as f64;
            let scores = PlaceScores {
                recency: (1.0 - age / span).max(0.0),
                resemblance: 0.0,
                path: path_likeness(&lost.url, &place.url),
                site: site_likeness(&lost.url, &place.url),
            };
            (*at, scores)
        };
        let mut ranked: Vec<(usize, PlaceScores)> = places.iter().map(scores).collect();
        ranked.sort_by(|(a, x), (b, y)| {
            let order = ranking.score(y).total_cmp(&ranking.score(x));
            order.then_with(|| self.places[*a].url.cmp(&self.places[*b].url))
        });
        ranked
    }

    /// The first documents against the last copy, by document: the resemblance, unrounded, and what an answer holds.
    fn compare(
        &mut self,
        snapshot: &impl Snapshot,
        copy: DocumentId,
        ranked: &[(usize, PlaceScores)],
    ) -> Result<HashMap<DocumentId, (f64, Comparison)>, StoreError> {
        let mut documents = vec![copy];
        let mut listed = HashSet::from([copy]);
        for (at, _) in ranked {
            let document = self.places[*at].document;
            if documents.len() <= COMPARED_MAX && listed.insert(document) {
                documents.push(document);
            }
        }
        let missing: Vec<DocumentId> =
            documents.iter().copied().filter(|document| !self.sketches.contains_key(document)).collect();
        let read = snapshot.documents(&missing)?;
        self.sketches.extend(missing.into_iter().zip(read.into_iter().map(|document| document.sketch)));
        let rule = snapshot.rule().sketch.rule;
        let mut compared = HashMap::from([(copy, (1.0, Comparison::EQUAL))]);
        for document in &documents[1..] {
            let (Some(a), Some(b)) = (self.sketches.get(&copy), self.sketches.get(document)) else { continue };
            let estimate = compare(a, b, rule);
            let comparison = compare_sketches(a, b, rule).in_hundredths();
            compared.insert(*document, (estimate.resemblance, comparison));
        }
        Ok(compared)
    }

    /// How the pool knows that a place carries the last copy's content.
    fn evidence(
        &mut self,
        snapshot: &impl Snapshot,
        copy: DocumentId,
        at: usize,
        comparisons: &HashMap<DocumentId, (f64, Comparison)>,
    ) -> Result<Evidence, StoreError> {
        let place = &self.places[at];
        if let Some(alias) = &place.led_by {
            return Ok(Evidence::Redirect { through: vec![alias.clone()] });
        }
        if place.document == copy {
            return Ok(Evidence::Same);
        }
        let threshold = snapshot.rule().cluster.threshold;
        if comparisons.get(&place.document).is_some_and(|(resemblance, _)| *resemblance >= threshold) {
            return Ok(Evidence::Direct);
        }
        if self.links.is_none() {
            let links = snapshot.links(&self.members)?;
            self.links = Some(links.into_iter().map(|link| (link.document, link.to)).collect());
        }
        let through = documents_between(self.links.as_deref().unwrap_or_default(), copy, self.places[at].document);
        Ok(through.map_or(Evidence::Cluster, |through| Evidence::Chain { through }))
    }
}

/// The documents of the cluster that all the copies belong to; of a very large cluster the copies' own and some
/// others.
fn members(snapshot: &impl Snapshot, copies: &[&LastCopy]) -> Result<Vec<DocumentId>, StoreError> {
    let mut members: Vec<DocumentId> = copies.iter().map(|copy| copy.document).collect();
    if let Some(first) = members.first() {
        members.extend(snapshot.some_members(*first, MEMBERS_MAX)?);
    }
    members.sort_unstable();
    members.dedup();
    Ok(members)
}

/// Where some documents stand now, or where redirects from there lead; and where they stood and stand no more.
fn places(
    snapshot: &impl Snapshot,
    members: &[DocumentId],
) -> Result<(Vec<Location>, Vec<FormerLocation>), StoreError> {
    let mut newest_copies: HashMap<Fingerprint, Observation> = HashMap::new();
    for standing in snapshot.newest_sightings_of(members, PLACES_OF_DOCUMENT_MAX)? {
        let newest = newest_copies.entry(standing.url).or_insert_with(|| standing.moment.clone());
        if standing.moment > *newest {
            *newest = standing.moment;
        }
    }
    let mut keys: Vec<Fingerprint> = newest_copies.keys().copied().collect();
    keys.sort_unstable();
    let urls = snapshot.urls(&keys)?;
    let (mut places, mut former) = (Vec::new(), Vec::new());
    for ((key, url), state) in keys.iter().zip(urls).zip(snapshot.states(&keys)?) {
        let Some(state) = state else { continue };
        let place = match &state.newest.seen {
            Seen::Document(document) if members.binary_search(document).is_ok() => Some(Location {
                url: url.clone(),
                key: *key,
                moment: state.newest.clone(),
                document: *document,
                led_by: None,
            }),
            Seen::Redirect(_) => end_of_redirects(snapshot, &url, &state)?,
            _ => None,
        };
        let copy = newest_copies.remove(key);
        match place {
            Some(place) => places.push(place),
            None => former.extend(copy.and_then(|copy| FormerLocation::new(*key, url, copy, state.newest))),
        }
    }
    former.sort_by(|a, b| (Reverse(&a.moment), &a.place.url).cmp(&(Reverse(&b.moment), &b.place.url)));
    Ok((places, former))
}

/// The page that the redirects of a URL end at, where one stands there.
fn end_of_redirects(snapshot: &impl Snapshot, url: &str, state: &UrlState) -> Result<Option<Location>, StoreError> {
    let end = aliases(snapshot, url, Some(state))?.pop();
    let Some((target, Some(UrlState { newest, .. }))) = end else { return Ok(None) };
    let Some(document) = newest.seen.document() else { return Ok(None) };
    let key = snapshot.key_of(&target);
    Ok(Some(Location { url: target, key, moment: newest, document, led_by: Some(url.to_string()) }))
}

impl FormerLocation {
    fn new(key: Fingerprint, url: String, moment: Observation, newest: Observation) -> Option<Self> {
        let document = moment.seen.document()?;
        let (last_seen, sweep) = (moment.fetched_at, moment.sweep.clone());
        Some(FormerLocation { key, moment, place: FormerPlace { url, last_seen, sweep, document, newest } })
    }
}

impl LostUrl {
    /// Where the URL itself leads, if a page stands there or the store knows nothing of it.
    fn led_to(&self) -> Option<FoundPlace> {
        let (url, state) = self.aliases.last()?;
        if state.as_ref().is_some_and(|state| !state.is_alive()) {
            return None;
        }
        let moment = state.as_ref().map(|state| &state.newest);
        let n_between = self.aliases.len() - 1;
        let through = self.aliases[..n_between].iter().map(|(url, _)| url.clone()).collect();
        let place = FoundPlace {
            url: url.clone(),
            last_seen: moment.map(|moment| moment.fetched_at),
            sweep: moment.and_then(|moment| moment.sweep.clone()),
            document: moment.and_then(|moment| moment.seen.document()),
            resemblance: None,
            error: None,
            containment_of_a_in_b: None,
            containment_of_b_in_a: None,
            error_of_a_in_b: None,
            error_of_b_in_a: None,
            evidence: Evidence::Redirect { through },
            score: 1.0,
        };
        Some(place)
    }
}

impl FoundPlace {
    fn itself(url: &str, copy: &LastCopy) -> Self {
        let moment = copy.moment();
        let place =
            Location { url: url.to_string(), key: Fingerprint(0), moment, document: copy.document, led_by: None };
        Self::at(&place, Evidence::Itself, 1.0, Some(Comparison::EQUAL))
    }

    fn at(place: &Location, evidence: Evidence, score: f64, comparison: Option<Comparison>) -> Self {
        FoundPlace {
            url: place.url.clone(),
            last_seen: Some(place.moment.fetched_at),
            sweep: place.moment.sweep.clone(),
            document: Some(place.document),
            resemblance: comparison.map(|comparison| comparison.resemblance),
            error: comparison.map(|comparison| comparison.error),
            containment_of_a_in_b: comparison.and_then(|comparison| comparison.containment_of_a_in_b),
            containment_of_b_in_a: comparison.and_then(|comparison| comparison.containment_of_b_in_a),
            error_of_a_in_b: comparison.map(|comparison| comparison.error_of_a_in_b),
            error_of_b_in_a: comparison.map(|comparison| comparison.error_of_b_in_a),
            evidence,
            score: hundredths(score),
        }
    }
}
