//! Moves: a URL that is gone or lost, and the place where its last copy turns up, whichever is learnt first.

use super::timeline::Timeline;
use crate::cluster::{Clusters, Decision};
use crate::document::{ClusterId, DocumentId, FetchTime, Fingerprint};
use crate::ports::{MissingUrl, Store, StoreError};
use crate::sweep::{LastCopy, UrlState, path_likeness};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Sought URLs that one page can answer. The page's next sighting answers the rest.
const MET_MAX: usize = 1000;

/// Documents of a cluster that are looked at for a place, and places of each: the newest. `query lost` looks further.
const MEMBERS_MAX: usize = 256;
const PLACES_OF_DOCUMENT_MAX: usize = 8;

/// A content that turned up elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Move {
    /// The page of the batch that tells it: by its number.
    pub at: usize,
    /// The URL that is gone.
    pub from: String,
    /// Where the content stands now.
    pub to: String,
    /// The last copy.
    pub from_document: DocumentId,
    /// What stands at the new place.
    pub to_document: DocumentId,
}

/// The URLs that are sought, by cluster and by when they were last seen: 40 bytes each.
#[derive(Default)]
pub(super) struct Moves {
    sought: BTreeSet<(ClusterId, FetchTime, DocumentId, Fingerprint)>,
}

/// A sought URL with all that is known of it.
struct Wanted {
    sought: MissingUrl,
    state: UrlState,
    copy: LastCopy,
    url: String,
}

impl Moves {
    /// What a store seeks.
    pub fn of_store<S: Store>(store: &S, clusters: &mut Clusters) -> Result<Self, StoreError> {
        let mut moves = Moves::default();
        for sought in store.sought()? {
            moves.sought.insert(entry(clusters, &sought));
        }
        Ok(moves)
    }

    /// Finds what a batch's pages answer: sought URLs whose cluster they belong to, and places for the URLs that are gone
    /// since. What is found is sought no more.
    pub fn follow<S: Store>(
        &mut self,
        store: &S,
        clusters: &mut Clusters,
        timeline: &mut Timeline,
        decisions: &[Option<Decision>],
        urls: &HashMap<Fingerprint, &str>,
    ) -> Result<Vec<Move>, StoreError> {
        decisions.iter().flatten().for_each(|decision| self.rename(decision));
        let (no_more, now) = timeline.sought_changes();
        for sought in &no_more {
            self.sought.remove(&entry(clusters, sought));
        }
        self.sought.extend(now.iter().map(|sought| entry(clusters, sought)));
        let met = self.met(timeline, decisions);
        if met.is_empty() && now.is_empty() {
            return Ok(Vec::new());
        }
        let all: BTreeSet<MissingUrl> = met.keys().chain(&now).copied().collect();
        let wanted = wanted(store, timeline, urls, all.into_iter().collect())?;
        let mut moves: Vec<Move> = Vec::new();
        let mut rest = Vec::new();
        for wanted in wanted {
            let pages = met.get(&wanted.sought).map_or(&[][..], Vec::as_slice);
            match best_page(&wanted, pages, timeline, urls) {
                Some(found) => self.found(clusters, timeline, wanted, found, &mut moves),
                None => rest.push(wanted),
            }
        }
        let is_new: BTreeSet<MissingUrl> = now.into_iter().collect();
        rest.retain(|wanted| is_new.contains(&wanted.sought));
        let places = elsewhere(store, clusters, timeline, &rest)?;
        for (wanted, place) in rest.into_iter().zip(places) {
            if let Some((to, to_document)) = place {
                let at = timeline.last_page_of(wanted.sought.url).unwrap_or(0);
                self.found(clusters, timeline, wanted, (at, to, to_document), &mut moves);
            }
        }
        moves.sort();
        Ok(moves)
    }

    fn rename(&mut self, decision: &Decision) {
        for merge in &decision.merges {
            let (from, to) = (first_of(merge.loser), first_of(ClusterId(merge.loser.0 + 1)));
            let moved: Vec<_> = self.sought.range(from..to).copied().collect();
            for entry in moved {
                self.sought.remove(&entry);
                self.sought.insert((merge.winner, entry.1, entry.2, entry.3));
            }
        }
    }

    /// The sought URLs whose last copy is older than a page of the batch in the same cluster, with these pages.
    fn met(&self, timeline: &Timeline, decisions: &[Option<Decision>]) -> BTreeMap<MissingUrl, Vec<usize>> {
        let mut met: BTreeMap<MissingUrl, Vec<usize>> = BTreeMap::new();
        for (at, decision) in decisions.iter().enumerate() {
            let (Some(decision), Some(sighting)) = (decision, &timeline.sightings[at]) else { continue };
            let stands = timeline.states.get(&sighting.url).is_some_and(|state| state.newest == sighting.moment);
            let from = first_of(decision.cluster);
            let to = (decision.cluster, sighting.moment.fetched_at, DocumentId(0), Fingerprint(0));
            if !stands || from >= to {
                continue;
            }
            for (_, last_seen, document, url) in self.sought.range(from..to).take(MET_MAX) {
                if *url != sighting.url {
                    let sought = MissingUrl { document: *document, last_seen: *last_seen, url: *url };
                    met.entry(sought).or_default().push(at);
                }
            }
        }
        met
    }

    fn found(
        &mut self,
        clusters: &mut Clusters,
        timeline: &mut Timeline,
        wanted: Wanted,
        (at, to, to_document): (usize, String, DocumentId),
        moves: &mut Vec<Move>,
    ) {
        self.sought.remove(&entry(clusters, &wanted.sought));
        let at = timeline.last_page_of(wanted.sought.url).unwrap_or(0).max(at);
        timeline.mark_found(wanted.sought, wanted.state);
        moves.push(Move { at, from: wanted.url, to, from_document: wanted.sought.document, to_document });
    }
}

fn entry(clusters: &mut Clusters, sought: &MissingUrl) -> (ClusterId, FetchTime, DocumentId, Fingerprint) {
    (clusters.cluster_of(sought.document), sought.last_seen, sought.document, sought.url)
}

fn first_of(cluster: ClusterId) -> (ClusterId, FetchTime, DocumentId, Fingerprint) {
    (cluster, FetchTime(i64::MIN), DocumentId(0), Fingerprint(0))
}

/// All that is known of sought URLs, in one question of each kind.
fn wanted<S: Store>(
    store: &S,
    timeline: &Timeline,
    urls: &HashMap<Fingerprint, &str>,
    all: Vec<MissingUrl>,
) -> Result<Vec<Wanted>, StoreError> {
    let unknown: Vec<Fingerprint> =
        all.iter().map(|sought| sought.url).filter(|url| !timeline.states.contains_key(url)).collect();
    let states: HashMap<Fingerprint, Option<UrlState>> = unknown.iter().copied().zip(store.states(&unknown)?).collect();
    let unnamed: Vec<Fingerprint> = all.iter().map(|sought| sought.url).filter(|url| !urls.contains_key(url)).collect();
    let names: HashMap<Fingerprint, String> = unnamed.iter().copied().zip(store.urls(&unnamed)?).collect();
    let whole = |sought: MissingUrl| {
        let state = timeline.states.get(&sought.url).or_else(|| states.get(&sought.url)?.as_ref())?.clone();
        let copy = state.sought()?.clone();
        let url = urls.get(&sought.url).map(|url| url.to_string()).or_else(|| names.get(&sought.url).cloned())?;
        Some(Wanted { sought, state, copy, url })
    };
    Ok(all.into_iter().filter_map(whole).collect())
}

/// Of the batch's pages that carry a sought content later, the one whose path is most like.
fn best_page(
    wanted: &Wanted,
    pages: &[usize],
    timeline: &Timeline,
    urls: &HashMap<Fingerprint, &str>,
) -> Option<(usize, String, DocumentId)> {
    let copy = wanted.copy.moment();
    let mut best: Option<(f64, usize, &str, DocumentId)> = None;
    for at in pages {
        let Some(sighting) = &timeline.sightings[*at] else { continue };
        let Some((url, document)) = urls.get(&sighting.url).zip(sighting.moment.seen.document()) else { continue };
        let likeness = path_likeness(&wanted.url, url);
        if sighting.moment.is_later_than(&copy) && best.is_none_or(|(other, ..)| likeness > other) {
            best = Some((likeness, *at, url, document));
        }
    }
    best.map(|(_, at, url, document)| (at, url.to_string(), document))
}

/// Where the last copies of some URLs, or what belongs to their clusters, were seen later: of several places the one
/// whose path is most like, and then the newest.
fn elsewhere<S: Store>(
    store: &S,
    clusters: &Clusters,
    timeline: &Timeline,
    wanted: &[Wanted],
) -> Result<Vec<Option<(String, DocumentId)>>, StoreError> {
    let members_of = |wanted: &Wanted| clusters.members(wanted.sought.document).take(MEMBERS_MAX);
    let documents: BTreeSet<DocumentId> = wanted.iter().flat_map(members_of).collect();
    let documents: Vec<DocumentId> = documents.into_iter().collect();
    let mut places_of: HashMap<DocumentId, BTreeSet<Fingerprint>> = HashMap::new();
    let mut keys = BTreeSet::new();
    for standing in store.standings(&documents, PLACES_OF_DOCUMENT_MAX)? {
        let Some(document) = standing.moment.seen.document() else { continue };
        places_of.entry(document).or_default().insert(standing.url);
        keys.insert(standing.url);
    }
    let keys: Vec<Fingerprint> = keys.into_iter().collect();
    let states: HashMap<Fingerprint, Option<UrlState>> = keys.iter().copied().zip(store.states(&keys)?).collect();
    let names: HashMap<Fingerprint, String> = keys.iter().copied().zip(store.urls(&keys)?).collect();
    let place = |wanted: &Wanted| {
        let members: BTreeSet<DocumentId> = members_of(wanted).collect();
        let copy = wanted.copy.moment();
        let mut best: Option<(f64, FetchTime, &String, DocumentId)> = None;
        for key in members.iter().filter_map(|document| places_of.get(document)).flatten() {
            let state = timeline.states.get(key).or_else(|| states.get(key)?.as_ref());
            let (Some(state), Some(url)) = (state, names.get(key)) else { continue };
            let Some(document) = state.newest.seen.document().filter(|document| members.contains(document)) else {
                continue;
            };
            if *key == wanted.sought.url || !state.newest.is_later_than(&copy) {
                continue;
            }
            let rank = (path_likeness(&wanted.url, url), state.newest.fetched_at);
            if best.is_none_or(|(likeness, time, ..)| rank > (likeness, time)) {
                best = Some((rank.0, rank.1, url, document));
            }
        }
        best.map(|(_, _, url, document)| (url.clone(), document))
    };
    Ok(wanted.iter().map(place).collect())
}
