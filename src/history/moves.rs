//! Moves: pairs a missing URL with the place where its last copy turns up, whichever is learnt first. A last copy without a
//! shingle proves nothing: pages of so few words are equal by chance.

use super::missing::{MissingIndex, MissingUrl};
use super::timeline::{Added, Timeline};
use super::view::{StoredSighting, View};
use crate::cluster::{Clusters, Decision};
use crate::document::{DocumentId, FetchTime, Fingerprint};
use crate::sweep::{LastCopy, UrlState, path_likeness};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

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

/// Matches missing URLs with places. Each page sees what those before it changed, so that how pages are batched changes
/// nothing.
pub(super) struct MoveFinder<'f, 'u, V> {
    pub view: &'f V,
    pub clusters: &'f mut Clusters,
    pub missing: &'f mut MissingIndex,
    pub timeline: &'f mut Timeline,
    /// The names of the batch's URLs.
    pub urls: &'f FxHashMap<Fingerprint, &'u str>,
    /// URLs that later batches will mark as lost, descending: nothing has moved there.
    pub to_be_lost: &'f [Fingerprint],
}

impl<V: View> MoveFinder<'_, '_, V> {
    /// Finds what a page answers: missing URLs whose last copy it carries, and the place of the URL that is missing from it
    /// on. What is found is missing no more. The page is the timeline's last.
    pub fn find(&mut self, added: &Added, decision: Option<&Decision>) -> Result<Vec<FoundCopy>, V::Error> {
        decision.iter().for_each(|decision| self.missing.follow_merges(decision));
        added.no_longer_missing.iter().for_each(|missing| self.missing.remove(self.clusters, missing));
        let mut found = decision.map_or(Ok(Vec::new()), |decision| self.copies_of_page(decision))?;
        if let Some(missing) = added.missing {
            found.extend(self.find_places(vec![(self.timeline.sightings.len() - 1, missing)])?);
        }
        found.sort();
        Ok(found)
    }

    /// Finds places for URLs that are missing from now on, each with the page that reports it. The result is sorted by page.
    pub fn find_places(&mut self, missing: Vec<(usize, MissingUrl)>) -> Result<Vec<FoundCopy>, V::Error> {
        missing.iter().for_each(|(_, missing)| self.missing.insert(self.clusters, missing));
        let pages: FxHashMap<Fingerprint, usize> = missing.iter().map(|(page, missing)| (missing.url, *page)).collect();
        let wanted = self.wanted(self.with_shingles(missing.into_iter().map(|(_, missing)| missing).collect())?)?;
        let places = self.places(&wanted)?;
        let mut found = Vec::new();
        for (wanted, place) in wanted.into_iter().zip(places) {
            if let (Some((to, document)), Some(page)) = (place, pages.get(&wanted.missing.url)) {
                found.push(self.settle(*page, wanted, to, document));
            }
        }
        found.sort();
        Ok(found)
    }

    /// The missing URLs whose last copy the last page carries at a later time, if that page stands.
    fn copies_of_page(&mut self, decision: &Decision) -> Result<Vec<FoundCopy>, V::Error> {
        let Some(StoredSighting { url, moment }) = self.timeline.sightings.last().and_then(Option::as_ref) else {
            return Ok(Vec::new());
        };
        let mut answered = self.missing.seen_before(decision.cluster, moment.fetched_at, ANSWERED_MAX).peekable();
        // A document without shingles is alone in its cluster, so that the first one speaks for all.
        let Some(first) = answered.peek() else { return Ok(Vec::new()) };
        if self.view.sketches(&[first.document])?.iter().any(|sketch| sketch.n_shingles == 0) {
            return Ok(Vec::new());
        }
        let answered: Vec<MissingUrl> = answered.filter(|missing| missing.url != *url).collect();
        let stands = self.timeline.states.get(url).is_some_and(|state| state.newest == *moment);
        let Some(to) = self.urls.get(url).filter(|_| stands && !answered.is_empty()) else { return Ok(Vec::new()) };
        let mut wanted = self.wanted(answered)?;
        wanted.retain(|wanted| moment.is_later_than(&wanted.copy.moment()));
        let (page, document) = (self.timeline.sightings.len() - 1, decision.document);
        Ok(wanted.into_iter().map(|wanted| self.settle(page, wanted, to.to_string(), document)).collect())
    }

    /// The missing URLs whose last copy has shingles.
    fn with_shingles(&self, mut all: Vec<MissingUrl>) -> Result<Vec<MissingUrl>, V::Error> {
        let documents: BTreeSet<DocumentId> = all.iter().map(|missing| missing.document).collect();
        let documents: Vec<DocumentId> = documents.into_iter().collect();
        let sketches = self.view.sketches(&documents)?;
        let known = documents.into_iter().zip(sketches).filter(|(_, sketch)| sketch.n_shingles > 0);
        let known: BTreeSet<DocumentId> = known.map(|(document, _)| document).collect();
        all.retain(|missing| known.contains(&missing.document));
        Ok(all)
    }

    /// All that is known of missing URLs, one question of each kind.
    fn wanted(&self, all: Vec<MissingUrl>) -> Result<Vec<Wanted>, V::Error> {
        let keys: Vec<Fingerprint> = all.iter().map(|missing| missing.url).collect();
        let (states, names) = (self.states(&keys)?, self.names(&keys)?);
        let whole = |missing: MissingUrl| {
            let state = states.get(&missing.url)?.clone();
            let copy = state.missing_copy()?.clone();
            let url = names.get(&missing.url)?.clone();
            Some(Wanted { missing, state, copy, url })
        };
        Ok(all.into_iter().filter_map(whole).collect())
    }

    /// Where the last copies, or members of their clusters, were seen later: of several places the one with the most similar
    /// path, then the newest.
    fn places(&mut self, wanted: &[Wanted]) -> Result<Vec<Option<(String, DocumentId)>>, V::Error> {
        let members_of = |wanted: &Wanted| self.clusters.members(wanted.missing.document).take(MEMBERS_MAX);
        let documents: BTreeSet<DocumentId> = wanted.iter().flat_map(members_of).collect();
        let documents: Vec<DocumentId> = documents.into_iter().collect();
        let mut places_of: FxHashMap<DocumentId, BTreeSet<Fingerprint>> = FxHashMap::default();
        let mut keys = BTreeSet::new();
        let mut sightings = self.view.newest_sightings(&documents, PLACES_OF_DOCUMENT_MAX)?;
        sightings.extend(self.timeline.sightings_of(&documents).cloned());
        for sighting in StoredSighting::newest_of_each(sightings, PLACES_OF_DOCUMENT_MAX) {
            let Some(document) = sighting.moment.seen.document() else { continue };
            places_of.entry(document).or_default().insert(sighting.url);
            keys.insert(sighting.url);
        }
        let keys: Vec<Fingerprint> = keys.into_iter().collect();
        let (states, names) = (self.states(&keys)?, self.names(&keys)?);
        let place = |wanted: &Wanted| {
            let members: BTreeSet<DocumentId> = members_of(wanted).collect();
            let copy = wanted.copy.moment();
            let mut best: Option<(f64, FetchTime, &String, DocumentId)> = None;
            for key in members.iter().filter_map(|document| places_of.get(document)).flatten() {
                let (Some(state), Some(url)) = (states.get(key), names.get(key)) else { continue };
                let document = state.newest.seen.document().filter(|document| members.contains(document));
                let Some(document) = document else { continue };
                let is_to_be_lost = self.to_be_lost.binary_search_by(|other| key.cmp(other)).is_ok();
                if *key == wanted.missing.url || is_to_be_lost || !state.newest.is_later_than(&copy) {
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

    /// The states of URLs, as the batch leaves them so far.
    fn states(&self, keys: &[Fingerprint]) -> Result<FxHashMap<Fingerprint, UrlState>, V::Error> {
        let of_batch = |key: &Fingerprint| Some((*key, self.timeline.states.get(key)?.clone()));
        let mut states: FxHashMap<Fingerprint, UrlState> = keys.iter().filter_map(of_batch).collect();
        let unread: Vec<Fingerprint> = keys.iter().copied().filter(|key| !states.contains_key(key)).collect();
        let read = unread.iter().zip(self.view.states(&unread)?);
        states.extend(read.filter_map(|(key, state)| Some((*key, state?))));
        Ok(states)
    }

    /// The URLs behind fingerprints.
    fn names(&self, keys: &[Fingerprint]) -> Result<FxHashMap<Fingerprint, String>, V::Error> {
        let unnamed: Vec<Fingerprint> = keys.iter().copied().filter(|url| !self.urls.contains_key(url)).collect();
        let mut names: FxHashMap<Fingerprint, String> = FxHashMap::default();
        if !unnamed.is_empty() {
            names.extend(unnamed.iter().copied().zip(self.view.urls(&unnamed)?));
        }
        names.extend(keys.iter().filter_map(|key| Some((*key, self.urls.get(key)?.to_string()))));
        Ok(names)
    }

    /// Takes a URL off the missing ones.
    fn settle(&mut self, page: usize, wanted: Wanted, to: String, to_document: DocumentId) -> FoundCopy {
        self.missing.remove(self.clusters, &wanted.missing);
        self.timeline.mark_found(wanted.missing, wanted.state);
        FoundCopy { page, from: wanted.url, to, from_document: wanted.missing.document, to_document }
    }
}
