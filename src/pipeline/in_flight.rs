//! Batches that are decided and may not be visible in the store yet, laid over what was read there.
//!
//! A look-up begins when some number of batches is visible, and reads those batches at least. A later batch may already be
//! in what it read, or not: every row here replaces or completes what was read, so both come to the same.

use crate::cluster::{BatchIndex, Documents, add_documents};
use crate::document::{DocumentId, Fingerprint};
use crate::history::Positions;
use crate::ports::{Batch, StoredSighting};
use crate::sketch::{Equivalences, Shingle, Sketch};
use crate::sweep::{Observation, SweepRow, UrlState};
use crossbeam::channel::{Receiver, Sender};
use std::cell::OnceCell;
use std::collections::VecDeque;
use std::mem::take;
use std::sync::Arc;

/// A decided batch.
pub(super) struct DecidedBatch {
    batch: Arc<Batch>,
    /// The lists that the batch used, as they are after it: complete, or left unread.
    index: BatchIndex,
    /// Where each new document was first seen, in their order.
    first_urls: Vec<String>,
    /// Where its sightings of each document, its sightings of each URL, and the names of its new URLs are, once that was asked.
    by_document: OnceCell<Positions<DocumentId>>,
    by_url: OnceCell<Positions<Fingerprint>>,
    names: OnceCell<Positions<Fingerprint>>,
}

impl DecidedBatch {
    fn sightings_of_document(&self, document: DocumentId) -> impl Iterator<Item = &StoredSighting> {
        let sightings = &self.batch.sightings;
        let new = || Positions::new(sightings, |sighting| sighting.moment.seen.document());
        self.by_document.get_or_init(new).of(document, sightings)
    }

    fn sightings_of_url(&self, url: Fingerprint) -> impl Iterator<Item = &StoredSighting> {
        let sightings = &self.batch.sightings;
        self.by_url.get_or_init(|| Positions::new(sightings, |sighting| Some(sighting.url))).of(url, sightings)
    }

    /// The URL behind a fingerprint, if the batch saw it first.
    fn name_of(&self, url: Fingerprint) -> Option<&str> {
        let names = &self.batch.urls;
        let found = self.names.get_or_init(|| Positions::new(names, |(key, _)| Some(*key))).of(url, names).next();
        found.map(|(_, name)| name.as_str())
    }
}

/// What a list has after those in flight were laid over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Completed {
    /// All documents.
    Whole,
    /// All documents if it was read; those in flight if it was left unread.
    AsRead,
}

/// The decided batches that some look-up may not have seen, oldest first.
pub(super) struct InFlight {
    batches: VecDeque<DecidedBatch>,
    /// Batches decided in all.
    n_decided: u64,
    retired: Sender<DecidedBatch>,
}

impl InFlight {
    /// Nothing in flight, and where the batches go that no longer are.
    pub fn new() -> (Self, Receiver<DecidedBatch>) {
        let (retired, receiver) = crossbeam::channel::unbounded();
        (InFlight { batches: VecDeque::new(), n_decided: 0, retired }, receiver)
    }

    /// How many batches are decided in all.
    pub fn n_decided(&self) -> u64 {
        self.n_decided
    }

    /// Adds a batch as it was decided. `first_urls` are those of its new documents.
    pub fn add(&mut self, batch: Arc<Batch>, index: BatchIndex, first_urls: Vec<String>) {
        let (by_document, by_url, names) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        self.batches.push_back(DecidedBatch { batch, index, first_urls, by_document, by_url, names });
        self.n_decided += 1;
    }

    /// Drops the batches that every look-up from now on has seen: the first `n_visible` of all.
    pub fn retire(&mut self, n_visible: u64) {
        let n_kept = self.n_decided.saturating_sub(n_visible) as usize;
        for batch in self.batches.drain(..self.batches.len().saturating_sub(n_kept)) {
            // If no look-up is left to take it, this frees it.
            let _ = self.retired.send(batch);
        }
    }

    /// The first document in flight.
    pub fn first_document(&self) -> Option<DocumentId> {
        self.batches.iter().find_map(|decided| Some(decided.batch.documents.first()?.0.document))
    }

    fn newest_first(&self) -> impl Iterator<Item = &DecidedBatch> {
        self.batches.iter().rev()
    }

    /// Completes what was looked up for a batch of some contents.
    pub fn complete<'c>(&self, index: &mut BatchIndex, contents: impl Iterator<Item = &'c Equivalences>) {
        if self.batches.is_empty() {
            return;
        }
        let known = |key: &Fingerprint| self.newest_first().find_map(|decided| decided.index.equal.get(key)).copied();
        for equivalences in contents.filter(|equivalences| known(&equivalences.widest()).is_some()) {
            index.equal.extend(equivalences.keys().filter_map(|key| Some((key, known(&key)?))));
        }
        for (shingle, list) in &mut index.postings {
            self.complete_posting(*shingle, list);
        }
        index.unread.retain(|shingle, _| {
            let mut list = Documents::new();
            let completed = self.complete_posting(*shingle, &mut list);
            if completed == Completed::Whole || !list.is_empty() {
                index.postings.insert(*shingle, list);
            }
            completed == Completed::AsRead
        });
        for (shingle, list) in &mut index.supers {
            self.complete_super(*shingle, list);
        }
    }

    /// Completes the list of an index shingle. Only a batch that used a list can have added to it. It knows all of it, or, where
    /// it left it unread, the documents in flight at least.
    pub fn complete_posting(&self, shingle: Shingle, list: &mut Documents) -> Completed {
        let newest = self.newest_first().find_map(|decided| {
            let newest = decided.index.postings.get(&shingle)?;
            Some((newest, decided.index.unread.contains_key(&shingle)))
        });
        match newest {
            Some((newest, false)) => {
                list.clone_from(newest);
                Completed::Whole
            }
            Some((newest, true)) => {
                let mut documents = take(list).into_vec();
                add_documents(&mut documents, newest);
                *list = documents.into();
                Completed::AsRead
            }
            None => Completed::AsRead,
        }
    }

    /// Completes the list of a super shingle.
    pub fn complete_super(&self, shingle: Shingle, list: &mut Documents) {
        if let Some(newest) = self.newest_first().find_map(|decided| decided.index.supers.get(&shingle)) {
            list.clone_from(newest);
        }
    }

    /// The batch of a document and its position there.
    fn position_of(&self, document: DocumentId) -> Option<(&DecidedBatch, usize)> {
        self.newest_first().find_map(|decided| {
            let (first, _) = decided.batch.documents.first()?;
            let at = document.0.checked_sub(first.document.0)? as usize;
            (at < decided.batch.documents.len()).then_some((decided, at))
        })
    }

    /// The sketch of a document in flight.
    pub fn sketch(&self, document: DocumentId) -> Option<&Arc<Sketch>> {
        let (decided, at) = self.position_of(document)?;
        Some(&decided.batch.documents[at].0.sketch)
    }

    /// Where a document in flight was first seen.
    pub fn first_url(&self, document: DocumentId) -> Option<&str> {
        let (decided, at) = self.position_of(document)?;
        decided.first_urls.get(at).map(String::as_str)
    }

    /// The newest state of a URL, where a batch in flight touched it.
    pub fn state(&self, url: Fingerprint) -> Option<&UrlState> {
        self.newest_first().find_map(|decided| {
            let states = &decided.batch.states;
            let at = states.binary_search_by_key(&url, |(other, _)| *other).ok()?;
            Some(&states[at].1)
        })
    }

    /// The newest row of a sweep, where a batch in flight touched it.
    pub fn sweep(&self, name: &str) -> Option<SweepRow> {
        self.newest_first()
            .find_map(|decided| decided.batch.sweeps.iter().find(|(other, _)| other == name).map(|(_, row)| *row))
    }

    /// The URL behind a fingerprint, if a batch in flight saw it first.
    pub fn url(&self, key: Fingerprint) -> Option<&str> {
        self.newest_first().find_map(|decided| decided.name_of(key))
    }

    /// The sightings of a URL. A batch that has any has the state of the URL, too.
    fn sightings_of(&self, url: Fingerprint) -> impl Iterator<Item = &StoredSighting> {
        let has_state =
            move |decided: &&DecidedBatch| decided.batch.states.binary_search_by_key(&url, |(other, _)| *other).is_ok();
        self.batches.iter().filter(has_state).flat_map(move |decided| decided.sightings_of_url(url))
    }

    /// Adds the sightings of a URL that are in flight to those in the store; oldest first, each once.
    pub fn complete_observations(&self, url: Fingerprint, stored: Vec<Observation>) -> Vec<Observation> {
        let n_stored = stored.len();
        let mut all: Vec<StoredSighting> = stored.into_iter().map(|moment| StoredSighting { url, moment }).collect();
        all.extend(self.sightings_of(url).cloned());
        if all.len() > n_stored {
            all.sort_unstable_by(StoredSighting::cmp_stored);
            all.dedup();
        }
        all.into_iter().map(|sighting| sighting.moment).collect()
    }

    /// Adds the sightings of some documents that are in flight to those in the store, and keeps the newest of each.
    pub fn complete_newest(
        &self,
        documents: &[DocumentId],
        limit_each: usize,
        mut all: Vec<StoredSighting>,
    ) -> Vec<StoredSighting> {
        let n_stored = all.len();
        for decided in &self.batches {
            all.extend(documents.iter().flat_map(|document| decided.sightings_of_document(*document)).cloned());
        }
        if all.len() == n_stored {
            return all;
        }
        StoredSighting::newest_of_each(all, limit_each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::UnreadIn;
    use crate::document::FetchTime;
    use crate::sweep::Seen;
    use proptest::prelude::*;

    const N_SHINGLES: u64 = 6;

    /// One batch: the shingles it uses, those among them that its document gets, how many batches more than the last one's its
    /// look-up counts on, and how many more it sees of each shingle; which lists it leaves unread, and which of those it reads
    /// when it decides.
    type Step = (Vec<bool>, Vec<bool>, usize, Vec<usize>, Vec<bool>, Vec<bool>);

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let flags = || proptest::collection::vec(any::<bool>(), N_SHINGLES as usize);
        let seen = proptest::collection::vec(0usize..6, N_SHINGLES as usize);
        proptest::collection::vec((flags(), flags(), 0usize..3, seen, flags(), flags()), 1..30)
    }

    fn sighting(url: u128, time: i64, document: u32) -> StoredSighting {
        let seen = Seen::Document(DocumentId(document));
        let moment = Observation { fetched_at: FetchTime(time), seen, sweep: None };
        StoredSighting { url: Fingerprint(url), moment }
    }

    fn in_flight(sightings: Vec<StoredSighting>) -> InFlight {
        let (mut in_flight, _) = InFlight::new();
        let state = |sighting: &StoredSighting| {
            UrlState::from_history(std::slice::from_ref(&sighting.moment), 0).map(|state| (sighting.url, state))
        };
        let mut states: Vec<(Fingerprint, UrlState)> = sightings.iter().filter_map(state).collect();
        states.sort_unstable_by_key(|(url, _)| *url);
        states.dedup_by_key(|(url, _)| *url);
        let batch = Batch { sightings, states, ..Batch::default() };
        in_flight.add(Arc::new(batch), BatchIndex::default(), Vec::new());
        in_flight
    }

    proptest! {
        /// Whatever a look-up saw beyond the batches that it counts on, the decisions use the lists of all earlier batches. Of a
        /// list that it left unread they have what the look-up had not seen, and all of it once they read it.
        #[test]
        fn lists_are_those_after_the_batch_before(steps in steps()) {
            let (mut in_flight, _retired) = InFlight::new();
            // The lists after each number of batches.
            let mut truth: Vec<Vec<Documents>> = vec![vec![Documents::new(); N_SHINGLES as usize]];
            let mut n_visible = 0;
            for (n, (used, added, advance, seen, unread, read)) in steps.into_iter().enumerate() {
                n_visible = (n_visible + advance).min(n);
                let mut index = BatchIndex::default();
                for shingle in (0..N_SHINGLES).filter(|shingle| used[*shingle as usize]) {
                    let version = (n_visible + seen[shingle as usize]).min(n);
                    if unread[shingle as usize] {
                        index.unread.insert(shingle, UnreadIn::Several);
                    } else {
                        index.postings.insert(shingle, truth[version][shingle as usize].clone());
                    }
                    index.supers.insert(shingle, truth[version][shingle as usize].clone());
                }
                in_flight.retire(n_visible as u64);
                in_flight.complete(&mut index, std::iter::empty());
                for shingle in (0..N_SHINGLES).filter(|shingle| used[*shingle as usize]) {
                    let list = index.postings.entry(shingle).or_default();
                    let truth_of = |version: usize| &truth[version][shingle as usize];
                    if index.unread.contains_key(&shingle) {
                        prop_assert!(truth_of(n).ends_with(list), "batch {}: {:?}", n, list);
                        prop_assert!(list.len() >= truth_of(n).len() - truth_of(n_visible).len(), "batch {}: {:?}", n, list);
                        if read[shingle as usize] {
                            let mut stored = truth_of((n_visible + seen[shingle as usize]).min(n)).clone();
                            in_flight.complete_posting(shingle, &mut stored);
                            let mut stored = stored.into_vec();
                            add_documents(&mut stored, list);
                            *list = stored.into();
                            index.unread.remove(&shingle);
                        }
                    }
                    if !index.unread.contains_key(&shingle) {
                        prop_assert_eq!(&*list, truth_of(n), "batch {} with {} visible", n, n_visible);
                    }
                }
                for (shingle, list) in &index.supers {
                    prop_assert_eq!(list, &truth[n][*shingle as usize], "batch {} with {} visible", n, n_visible);
                }
                let mut after = truth[n].clone();
                for (shingle, list) in index.postings.iter_mut().chain(&mut index.supers) {
                    if added[*shingle as usize] {
                        list.push(DocumentId(n as u32 + 1));
                    }
                }
                for (shingle, list) in &index.supers {
                    after[*shingle as usize].clone_from(list);
                }
                truth.push(after);
                in_flight.add(Arc::default(), index, Vec::new());
            }
        }
    }

    #[test]
    fn what_is_stored_and_in_flight_counts_once() {
        let all = [sighting(7, 1, 3), sighting(7, 2, 3), sighting(8, 3, 3), sighting(7, 4, 5)];
        let in_flight = in_flight(all[1..].to_vec());
        let stored = all[..2].iter().map(|sighting| sighting.moment.clone()).collect();
        let moments: Vec<i64> =
            in_flight.complete_observations(Fingerprint(7), stored).iter().map(|moment| moment.fetched_at.0).collect();
        assert_eq!(moments, [1, 2, 4]);
        let newest = in_flight.complete_newest(&[DocumentId(3)], 2, all[..2].to_vec());
        assert_eq!(newest, [all[2].clone(), all[1].clone()]);
        assert_eq!(in_flight.complete_newest(&[DocumentId(4)], 2, Vec::new()), []);
    }

    #[test]
    fn urls_are_named_by_the_batch_that_saw_them_first() {
        let (mut in_flight, _retired) = InFlight::new();
        for urls in [vec![(7, "a"), (8, "b")], vec![(9, "c")]] {
            let urls = urls.into_iter().map(|(key, url)| (Fingerprint(key), url.to_string())).collect();
            in_flight.add(Arc::new(Batch { urls, ..Batch::default() }), BatchIndex::default(), Vec::new());
        }
        let names = [7, 8, 9, 10].map(|key| in_flight.url(Fingerprint(key)));
        assert_eq!(names, [Some("a"), Some("b"), Some("c"), None]);
        in_flight.retire(1);
        assert_eq!(in_flight.url(Fingerprint(7)), None);
    }
}
