//! Moves: pairs a missing URL with the place where its last copy turns up, whichever is learnt first.

use super::missing::{MissingIndex, MissingUrl};
use super::timeline::Timeline;
use super::view::View;
use crate::cluster::{Clusters, Decision};
use crate::document::{DocumentId, FetchTime, Fingerprint};
use crate::sweep::{LastCopy, UrlState, path_likeness};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Missing URLs that one page can answer. The page's next sighting answers the rest.
const ANSWERED_MAX: usize = 1000;

/// Documents of a cluster among which a place is looked for, and places of each: the newest. `query lost` looks further.
const MEMBERS_MAX: usize = 256;
const PLACES_OF_DOCUMENT_MAX: usize = 8;

/// A missing URL and the place of its content, before their resemblance is known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FoundCopy {
    /// The page of the batch that reports it, by number.
    pub page: usize,
    /// The missing URL.
    pub from: String,
    /// Where its content stands now.
    pub to: String,
    /// The last copy.
    pub from_document: DocumentId,
    /// The document at the new place.
    pub to_document: DocumentId,
}

/// A missing URL with all that is known of it.
struct Wanted {
    missing: MissingUrl,
    state: UrlState,
    copy: LastCopy,
    url: String,
}

/// A place for a wanted copy: the page of the batch that reports it, its URL, its document.
type Place = (usize, String, DocumentId);

/// Matches missing URLs with places, for one batch.
pub(super) struct MoveFinder<'f, 'u, V> {
    pub view: &'f V,
    pub clusters: &'f mut Clusters,
    pub missing: &'f mut MissingIndex,
    pub timeline: &'f mut Timeline,
    /// The names of the batch's URLs.
    pub urls: &'f HashMap<Fingerprint, &'u str>,
}

impl<V: View> MoveFinder<'_, '_, V> {
    /// Finds what the batch answers: missing URLs whose cluster its pages belong to, and places for URLs that are missing
    /// from this batch on. What is found is missing no more. The result is sorted by page.
    pub fn find(&mut self, decisions: &[Option<Decision>]) -> Result<Vec<FoundCopy>, V::Error> {
        decisions.iter().flatten().for_each(|decision| self.missing.follow_merges(decision));
        let (no_more, now) = self.timeline.missing_changes();
        no_more.iter().for_each(|missing| self.missing.remove(self.clusters, missing));
        now.iter().for_each(|missing| self.missing.insert(self.clusters, missing));
        let answers = self.answers(decisions);
        if answers.is_empty() && now.is_empty() {
            return Ok(Vec::new());
        }
        let all: BTreeSet<MissingUrl> = answers.keys().chain(&now).copied().collect();
        let mut found = Vec::new();
        let mut rest = Vec::new();
        for wanted in self.wanted(all.into_iter().collect())? {
            let pages = answers.get(&wanted.missing).map_or(&[][..], Vec::as_slice);
            match self.best_page(&wanted, pages) {
                Some(place) => found.push(self.settle(wanted, place)),
                None => rest.push(wanted),
            }
        }
        let is_new: BTreeSet<MissingUrl> = now.into_iter().collect();
        rest.retain(|wanted| is_new.contains(&wanted.missing));
        let places = self.places_in_store(&rest)?;
        for (wanted, place) in rest.into_iter().zip(places) {
            if let Some((to, document)) = place {
                found.push(self.settle(wanted, (0, to, document)));
            }
        }
        found.sort();
        Ok(found)
    }

    /// The missing URLs whose last copy is older than a page of the batch in the same cluster, with these pages.
    fn answers(&self, decisions: &[Option<Decision>]) -> BTreeMap<MissingUrl, Vec<usize>> {
        let mut answers: BTreeMap<MissingUrl, Vec<usize>> = BTreeMap::new();
        for (at, decision) in decisions.iter().enumerate() {
            let (Some(decision), Some(sighting)) = (decision, &self.timeline.sightings[at]) else { continue };
            let stands = self.timeline.states.get(&sighting.url).is_some_and(|state| state.newest == sighting.moment);
            if !stands {
                continue;
            }
            for missing in self.missing.seen_before(decision.cluster, sighting.moment.fetched_at, ANSWERED_MAX) {
                if missing.url != sighting.url {
                    answers.entry(missing).or_default().push(at);
                }
            }
        }
        answers
    }

    /// All that is known of missing URLs, one question of each kind.
    fn wanted(&self, all: Vec<MissingUrl>) -> Result<Vec<Wanted>, V::Error> {
        let keys = || all.iter().map(|missing| missing.url);
        let unread: Vec<Fingerprint> = keys().filter(|url| !self.timeline.states.contains_key(url)).collect();
        let states: HashMap<Fingerprint, Option<UrlState>> =
            unread.iter().copied().zip(self.view.states(&unread)?).collect();
        let unnamed: Vec<Fingerprint> = keys().filter(|url| !self.urls.contains_key(url)).collect();
        let names: HashMap<Fingerprint, String> = unnamed.iter().copied().zip(self.view.urls(&unnamed)?).collect();
        let whole = |missing: MissingUrl| {
            let key = missing.url;
            let state = self.timeline.states.get(&key).or_else(|| states.get(&key)?.as_ref())?.clone();
            let copy = state.missing_copy()?.clone();
            let url = self.urls.get(&key).map(|url| url.to_string()).or_else(|| names.get(&key).cloned())?;
            Some(Wanted { missing, state, copy, url })
        };
        Ok(all.into_iter().filter_map(whole).collect())
    }

    /// Of the batch's pages that carry the content at a later time, the one with the most similar path.
    fn best_page(&self, wanted: &Wanted, pages: &[usize]) -> Option<Place> {
        let copy = wanted.copy.moment();
        let mut best: Option<(f64, usize, &str, DocumentId)> = None;
        for at in pages {
            let Some(sighting) = &self.timeline.sightings[*at] else { continue };
            let document = sighting.moment.seen.document();
            let Some((url, document)) = self.urls.get(&sighting.url).zip(document) else { continue };
            let likeness = path_likeness(&wanted.url, url);
            if sighting.moment.is_later_than(&copy) && best.is_none_or(|(other, ..)| likeness > other) {
                best = Some((likeness, *at, url, document));
            }
        }
        best.map(|(_, at, url, document)| (at, url.to_string(), document))
    }

    /// Where the last copies, or members of their clusters, were seen later: of several places the one with the most similar
    /// path, then the newest.
    fn places_in_store(&self, wanted: &[Wanted]) -> Result<Vec<Option<(String, DocumentId)>>, V::Error> {
        let members_of = |wanted: &Wanted| self.clusters.members(wanted.missing.document).take(MEMBERS_MAX);
        let documents: BTreeSet<DocumentId> = wanted.iter().flat_map(members_of).collect();
        let documents: Vec<DocumentId> = documents.into_iter().collect();
        let mut places_of: HashMap<DocumentId, BTreeSet<Fingerprint>> = HashMap::new();
        let mut keys = BTreeSet::new();
        for sighting in self.view.newest_sightings(&documents, PLACES_OF_DOCUMENT_MAX)? {
            let Some(document) = sighting.moment.seen.document() else { continue };
            places_of.entry(document).or_default().insert(sighting.url);
            keys.insert(sighting.url);
        }
        let keys: Vec<Fingerprint> = keys.into_iter().collect();
        let states: HashMap<Fingerprint, Option<UrlState>> =
            keys.iter().copied().zip(self.view.states(&keys)?).collect();
        let names: HashMap<Fingerprint, String> = keys.iter().copied().zip(self.view.urls(&keys)?).collect();
        let place = |wanted: &Wanted| {
            let members: BTreeSet<DocumentId> = members_of(wanted).collect();
            let copy = wanted.copy.moment();
            let mut best: Option<(f64, FetchTime, &String, DocumentId)> = None;
            for key in members.iter().filter_map(|document| places_of.get(document)).flatten() {
                let state = self.timeline.states.get(key).or_else(|| states.get(key)?.as_ref());
                let (Some(state), Some(url)) = (state, names.get(key)) else { continue };
                let document = state.newest.seen.document().filter(|document| members.contains(document));
                let Some(document) = document else { continue };
                if *key == wanted.missing.url || !state.newest.is_later_than(&copy) {
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

    /// Takes a URL off the missing ones. The later of the two pages reports the move: the one that made the URL missing, or the
    /// one at the new place.
    fn settle(&mut self, wanted: Wanted, (page, to, to_document): Place) -> FoundCopy {
        self.missing.remove(self.clusters, &wanted.missing);
        let page = self.timeline.last_page_at(wanted.missing.url).unwrap_or(0).max(page);
        self.timeline.mark_found(wanted.missing, wanted.state);
        FoundCopy { page, from: wanted.url, to, from_document: wanted.missing.document, to_document }
    }
}
