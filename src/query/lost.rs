//! Lost and found: where the content of a URL stands now (Broder 1997, section 1.1).

use super::answers::UrlSighting;
use super::similar::hundredths;
use crate::document::{ClusterId, DocumentId, FetchTime, Fingerprint, host_of};
use crate::ports::{Snapshot, StoreError};
use crate::sketch::{Sketch, compare};
use crate::sweep::{
    Evidence, LastCopy, Observation, PlaceScores, Ranking, Seen, UrlState, documents_between, path_likeness,
    site_likeness,
};
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// URLs of one question that are looked up together; more are answered in parts.
const URLS_TOGETHER_MAX: usize = 4096;

/// Documents of a cluster whose places are looked at: beyond it, the last copy's own and the first of the others.
const MEMBERS_MAX: usize = 4096;

/// Places of one document that are looked at: the newest.
const PLACES_OF_DOCUMENT_MAX: usize = 64;

/// Documents whose sketches are held against the last copy: those that the other signs speak for most.
const COMPARED_MAX: usize = 256;

/// Redirects that are followed one after the other.
const REDIRECTS_MAX: usize = 8;

/// How lost URLs are looked for.
#[derive(Clone, Debug)]
pub struct LostSearch {
    /// What makes one place better than another.
    pub ranking: Ranking,
    /// Answers a URL, at most.
    pub limit: usize,
}

impl Default for LostSearch {
    fn default() -> Self {
        LostSearch { ranking: Ranking::default(), limit: 10 }
    }
}

/// A place where a lost content stands now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FoundPlace {
    /// Where.
    pub url: String,
    /// When it was last seen there; none where a redirect leads to what was never seen.
    pub last_seen: Option<FetchTime>,
    /// On which sweep.
    pub sweep: Option<String>,
    /// The document that stands there.
    pub document: Option<DocumentId>,
    /// Its estimated resemblance to the last copy, in hundredths; none where they were not compared.
    pub resemblance: Option<f64>,
    /// How much of the last copy is in it.
    pub contains: Option<f64>,
    /// How much of it is in the last copy.
    pub contained: Option<f64>,
    /// How it is known.
    pub evidence: Evidence,
    /// What the answers are ordered by, 0 to 1, in hundredths.
    pub score: f64,
}

/// Where the content of a URL stands now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LostAnswer {
    /// The URL asked for.
    pub url: String,
    /// Its newest sighting; none where it was never seen.
    pub newest: Option<Observation>,
    /// Its newest sighting that had a content: the last copy.
    pub last_seen: Option<UrlSighting>,
    /// Where that stands, best first; none where nothing later is known.
    pub answers: Vec<String>,
    /// The same places, with date and evidence.
    pub details: Vec<FoundPlace>,
}

/// Follows a URL's last copy to where it, or something that resembles it, stands now.
///
/// # Errors
/// [`StoreError`]
pub fn lost(snapshot: &impl Snapshot, url: &str, search: &LostSearch) -> Result<LostAnswer, StoreError> {
    let mut answers = lost_together(snapshot, &[url.to_string()], search)?;
    Ok(answers.pop().unwrap_or_else(|| LostAnswer::unknown(url)))
}

/// The same for many URLs, in their order. What they have in common is read once.
///
/// # Errors
/// [`StoreError`]
pub fn lost_many(
    snapshot: &impl Snapshot,
    urls: &[String],
    search: &LostSearch,
    mut each: impl FnMut(LostAnswer) -> bool,
) -> Result<(), StoreError> {
    for urls in urls.chunks(URLS_TOGETHER_MAX) {
        for answer in lost_together(snapshot, urls, search)? {
            if !each(answer) {
                return Ok(());
            }
        }
    }
    Ok(())
}

impl LostAnswer {
    fn unknown(url: &str) -> Self {
        LostAnswer { url: url.to_string(), newest: None, last_seen: None, answers: Vec::new(), details: Vec::new() }
    }
}

/// Answers cluster by cluster, so that each is read once and then forgotten.
fn lost_together(
    snapshot: &impl Snapshot,
    urls: &[String],
    search: &LostSearch,
) -> Result<Vec<LostAnswer>, StoreError> {
    let asked = asked(snapshot, urls)?;
    let mut by_cluster: Vec<(Option<ClusterId>, usize)> =
        asked.iter().enumerate().map(|(at, asked)| (asked.cluster, at)).collect();
    by_cluster.sort_unstable();
    let mut answers: Vec<Option<LostAnswer>> = urls.iter().map(|_| None).collect();
    for group in by_cluster.chunk_by(|a, b| a.0 == b.0) {
        let of_cluster: Vec<&LostUrl> = group.iter().map(|(_, at)| &asked[*at]).collect();
        let mut pool = Pool::of(snapshot, &of_cluster)?;
        for ((_, at), asked) in group.iter().zip(of_cluster) {
            answers[*at] = Some(pool.answer(snapshot, asked, search)?);
        }
    }
    Ok(answers.into_iter().flatten().collect())
}

/// A URL asked for and what is known of it.
struct LostUrl {
    url: String,
    key: Fingerprint,
    state: Option<UrlState>,
    /// Where redirects lead from it: each URL and its state.
    aliases: Vec<(String, Option<UrlState>)>,
    /// The copy that is looked for: its last one, or where it led to a page that is gone that page's last one.
    copy: Option<LastCopy>,
    cluster: Option<ClusterId>,
}

fn asked(snapshot: &impl Snapshot, urls: &[String]) -> Result<Vec<LostUrl>, StoreError> {
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
    /// The URLs of the cluster that lead there.
    led_by: Option<String>,
}

/// A cluster's documents and where they stand now.
struct Pool {
    members: Vec<DocumentId>,
    places: Vec<Location>,
    /// When each sweep began: what was seen on one sweep is equally recent.
    begun: HashMap<String, FetchTime>,
    sketches: HashMap<DocumentId, Arc<Sketch>>,
    /// Read when a chain is asked for.
    links: Option<Vec<(DocumentId, DocumentId)>>,
}

impl Pool {
    /// The pool in which some URLs of one cluster look for their last copies.
    fn of(snapshot: &impl Snapshot, asked: &[&LostUrl]) -> Result<Self, StoreError> {
        let copies: Vec<&LastCopy> = asked.iter().filter_map(|asked| asked.copy.as_ref()).collect();
        let mut pool = Pool {
            members: Vec::new(),
            places: Vec::new(),
            begun: HashMap::new(),
            sketches: HashMap::new(),
            links: None,
        };
        pool.members = members(snapshot, &copies)?;
        pool.places = places(snapshot, &pool.members)?;
        let sweeps = pool.places.iter().filter_map(|place| place.moment.sweep.as_deref());
        let mut sweeps: Vec<&str> = sweeps.chain(copies.iter().filter_map(|copy| copy.sweep.as_deref())).collect();
        sweeps.sort_unstable();
        sweeps.dedup();
        let rows = sweeps.iter().zip(snapshot.sweeps_named(&sweeps)?);
        pool.begun = rows.filter_map(|(name, row)| Some((name.to_string(), row?.first))).collect();
        Ok(pool)
    }

    /// The beginning of the sweep on which something was seen; the time itself where it was on none.
    fn epoch(&self, moment: &Observation) -> FetchTime {
        moment.sweep.as_ref().and_then(|sweep| self.begun.get(sweep)).copied().unwrap_or(moment.fetched_at)
    }

    fn answer(
        &mut self,
        snapshot: &impl Snapshot,
        asked: &LostUrl,
        search: &LostSearch,
    ) -> Result<LostAnswer, StoreError> {
        let mut answer = LostAnswer::unknown(&asked.url);
        let Some(state) = &asked.state else { return Ok(answer) };
        answer.newest = Some(state.newest.clone());
        if let Some(copy) = &state.copy {
            answer.last_seen =
                Some(UrlSighting { moment: copy.moment(), cluster: Some(snapshot.cluster_of(copy.document)?) });
        }
        let mut found: Vec<FoundPlace> = asked.led_to().into_iter().collect();
        if let Some(copy) = &asked.copy {
            found.extend(self.found(snapshot, asked, copy, search)?);
        }
        let mut told = HashSet::new();
        found.retain(|found| told.insert(found.url.clone()));
        found.truncate(search.limit);
        answer.answers = found.iter().map(|found| found.url.clone()).collect();
        answer.details = found;
        Ok(answer)
    }

    /// The places that are later than the last copy, best first, and the URL itself while nothing speaks against it.
    fn found(
        &mut self,
        snapshot: &impl Snapshot,
        asked: &LostUrl,
        copy: &LastCopy,
        search: &LostSearch,
    ) -> Result<Vec<FoundPlace>, StoreError> {
        let moment = copy.moment();
        let mut places: Vec<usize> = Vec::new();
        for (at, place) in self.places.iter().enumerate() {
            if place.key != asked.key && place.moment.is_later_than(&moment) {
                places.push(at);
            }
        }
        // A later sweep came by the host and saw the content elsewhere, not here. Without sweeps nothing can be missed: the
        // crawler just comes by some pages sooner than others.
        let is_of_walk = |place: &Location| moment.sweep.is_some() && place.moment.sweep.is_some();
        let was_missed = places
            .iter()
            .map(|at| &self.places[*at])
            .any(|place| is_of_walk(place) && host_of(&place.url) == host_of(&asked.url));
        let mut ranked = self.cheaply_ranked(asked, &moment, &places, &search.ranking);
        let resemblances = self.compared(snapshot, copy.document, &ranked)?;
        for (at, signs) in &mut ranked {
            signs.resemblance = resemblances.get(&self.places[*at].document).map_or(0.0, |found| found[0]);
        }
        let key = |(at, signs): &(usize, PlaceScores)| (search.ranking.score(signs), *at);
        let mut scored: Vec<(f64, usize)> = ranked.iter().map(key).collect();
        scored.sort_by(|(x, a), (y, b)| y.total_cmp(x).then_with(|| self.places[*a].url.cmp(&self.places[*b].url)));
        scored.truncate(search.limit);
        let mut found = Vec::new();
        if asked.state.as_ref().is_some_and(UrlState::is_alive) && !was_missed {
            found.push(FoundPlace::itself(&asked.url, copy));
        }
        for (score, at) in scored {
            let evidence = self.evidence(snapshot, copy.document, at, &resemblances)?;
            let place = &self.places[at];
            found.push(FoundPlace::at(place, evidence, score, resemblances.get(&place.document)));
        }
        Ok(found)
    }

    /// The places with all signs that cost no reading, those that they speak for most first.
    fn cheaply_ranked(
        &self,
        asked: &LostUrl,
        moment: &Observation,
        places: &[usize],
        ranking: &Ranking,
    ) -> Vec<(usize, PlaceScores)> {
        let from = self.epoch(moment).0;
        let newest = places.iter().map(|at| self.epoch(&self.places[*at].moment).0).max().unwrap_or(from);
        let span = newest.saturating_sub(from).max(1) as f64;
        let signs = |at: &usize| {
            let place = &self.places[*at];
            let age = newest.saturating_sub(self.epoch(&place.moment).0) as f64;
            let signs = PlaceScores {
                recency: (1.0 - age / span).max(0.0),
                resemblance: 0.0,
                path: path_likeness(&asked.url, &place.url),
                site: site_likeness(&asked.url, &place.url),
            };
            (*at, signs)
        };
        let mut ranked: Vec<(usize, PlaceScores)> = places.iter().map(signs).collect();
        ranked.sort_by(|(a, x), (b, y)| {
            let order = ranking.score(y).total_cmp(&ranking.score(x));
            order.then_with(|| self.places[*a].url.cmp(&self.places[*b].url))
        });
        ranked
    }

    /// Resemblance and the two containments of the first documents, by document, against the last copy.
    fn compared(
        &mut self,
        snapshot: &impl Snapshot,
        copy: DocumentId,
        ranked: &[(usize, PlaceScores)],
    ) -> Result<HashMap<DocumentId, [f64; 3]>, StoreError> {
        let mut documents = vec![copy];
        let mut asked = HashSet::from([copy]);
        for (at, _) in ranked {
            let document = self.places[*at].document;
            if documents.len() <= COMPARED_MAX && asked.insert(document) {
                documents.push(document);
            }
        }
        let missing: Vec<DocumentId> =
            documents.iter().copied().filter(|document| !self.sketches.contains_key(document)).collect();
        let read = snapshot.documents(&missing)?;
        self.sketches.extend(missing.into_iter().zip(read.into_iter().map(|document| document.sketch)));
        let rule = snapshot.rule().sketch.rule;
        let mut compared = HashMap::from([(copy, [1.0; 3])]);
        for document in &documents[1..] {
            let (Some(a), Some(b)) = (self.sketches.get(&copy), self.sketches.get(document)) else { continue };
            let estimate = compare(a, b, rule);
            let shares = [estimate.resemblance, estimate.containment_of_first, estimate.containment_of_second];
            compared.insert(*document, shares);
        }
        Ok(compared)
    }

    /// How a place is known to carry the last copy's content.
    fn evidence(
        &mut self,
        snapshot: &impl Snapshot,
        copy: DocumentId,
        at: usize,
        resemblances: &HashMap<DocumentId, [f64; 3]>,
    ) -> Result<Evidence, StoreError> {
        let place = &self.places[at];
        if let Some(alias) = &place.led_by {
            return Ok(Evidence::Redirect { through: vec![alias.clone()] });
        }
        if place.document == copy {
            return Ok(Evidence::Same);
        }
        let threshold = snapshot.rule().cluster.threshold;
        if resemblances.get(&place.document).is_some_and(|shares| shares[0] >= threshold) {
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

/// The documents of the cluster of some copies, of which there is one at least; of a very large cluster the copies' own
/// and some others.
fn members(snapshot: &impl Snapshot, copies: &[&LastCopy]) -> Result<Vec<DocumentId>, StoreError> {
    let mut members: Vec<DocumentId> = copies.iter().map(|copy| copy.document).collect();
    if let Some(first) = members.first() {
        members.extend(snapshot.some_members(*first, MEMBERS_MAX)?);
    }
    members.sort_unstable();
    members.dedup();
    Ok(members)
}

/// Where some documents stand now, or where redirects from there lead.
fn places(snapshot: &impl Snapshot, members: &[DocumentId]) -> Result<Vec<Location>, StoreError> {
    let standings = snapshot.standings(members, PLACES_OF_DOCUMENT_MAX)?;
    let mut keys: Vec<Fingerprint> = standings.into_iter().map(|standing| standing.url).collect();
    keys.sort_unstable();
    keys.dedup();
    let urls = snapshot.urls(&keys)?;
    let mut places = Vec::new();
    for ((key, url), state) in keys.iter().zip(urls).zip(snapshot.states(&keys)?) {
        let Some(state) = state else { continue };
        match &state.newest.seen {
            Seen::Document(document) if members.binary_search(document).is_ok() => {
                let document = *document;
                places.push(Location { url, key: *key, moment: state.newest, document, led_by: None });
            }
            Seen::Redirect(_) => places.extend(end_of_redirects(snapshot, &url, &state)?),
            _ => {}
        }
    }
    Ok(places)
}

/// The page that the redirects of a URL end at, where one stands there.
fn end_of_redirects(snapshot: &impl Snapshot, url: &str, state: &UrlState) -> Result<Option<Location>, StoreError> {
    let end = aliases(snapshot, url, Some(state))?.pop();
    let Some((target, Some(UrlState { newest, .. }))) = end else { return Ok(None) };
    let Some(document) = newest.seen.document() else { return Ok(None) };
    let key = snapshot.key_of(&target);
    Ok(Some(Location { url: target, key, moment: newest, document, led_by: Some(url.to_string()) }))
}

impl LostUrl {
    /// Where the URL itself leads, if a page stands there or nothing is known of it.
    fn led_to(&self) -> Option<FoundPlace> {
        let (url, state) = self.aliases.last()?;
        if state.as_ref().is_some_and(|state| !state.is_alive()) {
            return None;
        }
        let moment = state.as_ref().map(|state| &state.newest);
        let n_between = self.aliases.len() - 1;
        let through = self.aliases[..n_between].iter().map(|(url, _)| url.clone()).collect();
        Some(FoundPlace {
            url: url.clone(),
            last_seen: moment.map(|moment| moment.fetched_at),
            sweep: moment.and_then(|moment| moment.sweep.clone()),
            document: moment.and_then(|moment| moment.seen.document()),
            resemblance: None,
            contains: None,
            contained: None,
            evidence: Evidence::Redirect { through },
            score: 1.0,
        })
    }
}

impl FoundPlace {
    fn itself(url: &str, copy: &LastCopy) -> Self {
        FoundPlace {
            url: url.to_string(),
            last_seen: Some(copy.fetched_at),
            sweep: copy.sweep.clone(),
            document: Some(copy.document),
            resemblance: Some(1.0),
            contains: Some(1.0),
            contained: Some(1.0),
            evidence: Evidence::Itself,
            score: 1.0,
        }
    }

    fn at(place: &Location, evidence: Evidence, score: f64, shares: Option<&[f64; 3]>) -> Self {
        let share = |number: usize| shares.map(|shares| hundredths(shares[number]));
        FoundPlace {
            url: place.url.clone(),
            last_seen: Some(place.moment.fetched_at),
            sweep: place.moment.sweep.clone(),
            document: Some(place.document),
            resemblance: share(0),
            contains: share(1),
            contained: share(2),
            evidence,
            score: hundredths(score),
        }
    }
}
