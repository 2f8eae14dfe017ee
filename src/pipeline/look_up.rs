//! Looks up what the decisions over a batch will ask, while earlier batches are decided and written.

use super::close_requests::CloseRequest;
use super::gatherer::{IdleCount, Next};
use super::in_flight::DecidedBatch;
use super::poison::PoisonTracker;
use super::sequencer::Ticketed;
use super::sketched_record::SketchedRecord;
use super::visibility::Visibility;
use crate::cluster::{BatchIndex, Prefetcher};
use crate::document::{DocumentId, Fingerprint, Seed, url_key};
use crate::ports::{Store, StoreError};
use crate::sketch::{Equivalences, SketchedContent};
use crate::sweep::{Observation, UrlState};
use crossbeam::channel::{Receiver, Sender};
use rustc_hash::FxHashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};

/// The decision's work, in order.
pub(super) enum Prepared {
    /// Pages, with what was looked up for them.
    Pages(Box<LookedUp>),
    /// A sweep to close.
    Close(CloseRequest),
}

/// A batch of pages with what the store knows about them. Batches that were not visible when the look-up began may be
/// missing from it.
pub(super) struct LookedUp {
    pub pages: Vec<SketchedRecord>,
    /// How many batches were visible when the look-up began.
    pub n_visible: u64,
    /// Equal documents and lists.
    pub index: BatchIndex,
    /// The fingerprint of each page's URL; none for a rejected record.
    pub urls: Vec<Option<Fingerprint>>,
    /// What is known of these URLs.
    pub histories: Histories,
}

/// What the store knows of the URLs of a batch.
#[derive(Default)]
pub(super) struct Histories {
    /// Their states; none for a URL that was never seen.
    pub states: FxHashMap<Fingerprint, Option<UrlState>>,
    /// All sightings of those whose page comes late, or back to where none stood.
    pub observations: FxHashMap<Fingerprint, Vec<Observation>>,
}

/// Looks up; each thread has its own.
pub(super) struct LookUp<'a, S> {
    pub store: &'a S,
    pub prefetcher: Prefetcher,
    pub seed: Seed,
    pub poison: &'a PoisonTracker,
    pub visibility: &'a Visibility,
    pub idle: Arc<IdleCount>,
    /// Batches that are no longer in flight. Their lists were allocated here, so that they are freed at the least cost here.
    pub retired: Receiver<DecidedBatch>,
}

impl<S: Store> LookUp<'_, S> {
    /// Runs until no more work comes, or the decisions have ended.
    pub fn run(self, work: &Mutex<Receiver<Ticketed<Next>>>, out: &Sender<Ticketed<Result<Prepared, StoreError>>>) {
        while let Some((Ticketed { ticket, item: next }, n_visible)) = self.take(work) {
            self.retired.try_iter().for_each(drop);
            let prepared = match next {
                Next::Close(request) => Ok(Prepared::Close(request)),
                Next::Pages(pages) => self.look_up(pages, n_visible).map(|found| Prepared::Pages(Box::new(found))),
            };
            kill_point!("looked-up");
            if out.send(Ticketed { ticket, item: prepared }).is_err() {
                break;
            }
        }
    }

    /// The next work, and how many batches are visible when it is taken. One thread takes work at a time, so that a later
    /// batch never counts on fewer visible ones than an earlier batch.
    fn take(&self, work: &Mutex<Receiver<Ticketed<Next>>>) -> Option<(Ticketed<Next>, u64)> {
        let work = work.lock().unwrap_or_else(PoisonError::into_inner);
        let next = self.idle.while_idle(|| work.recv()).ok()?;
        Some((next, self.visibility.n_visible()))
    }

    fn look_up(&self, pages: Vec<SketchedRecord>, n_visible: u64) -> Result<LookedUp, StoreError> {
        let _in_hand = self.poison.pick_up_single(&pages);
        let mut index = BatchIndex { equal: self.equal(&pages)?, ..BatchIndex::default() };
        self.prefetcher.load(contents(&pages), &mut index, self.store)?;
        let url_of = |page: &SketchedRecord| Some(url_key(&self.seed, &page.outcome.as_ref().ok()?.url));
        let urls: Vec<Option<Fingerprint>> = pages.iter().map(url_of).collect();
        let histories = self.histories(&pages, &urls)?;
        Ok(LookedUp { pages, n_visible, index, urls, histories })
    }

    fn histories(&self, pages: &[SketchedRecord], urls: &[Option<Fingerprint>]) -> Result<Histories, StoreError> {
        let mut keys: Vec<Fingerprint> = urls.iter().flatten().copied().collect();
        keys.sort_unstable();
        keys.dedup();
        let states = keys.iter().copied().zip(self.store.states(&keys)?).collect();
        let mut histories = Histories { states, ..Histories::default() };
        for (record, url) in pages.iter().zip(urls) {
            let (Ok(page), Some(url)) = (&record.outcome, *url) else { continue };
            let Some(Some(state)) = histories.states.get(&url) else { continue };
            // The decisions ask in few other cases, and the store then.
            let comes_back = !state.is_alive() && record.is_page();
            if page.fetched_at <= state.newest.fetched_at || comes_back {
                let Entry::Vacant(free) = histories.observations.entry(url) else { continue };
                free.insert(self.store.observations(url)?);
            }
        }
        Ok(histories)
    }

    /// The documents that the pages' contents equal. The closest equivalence decides, so a content that is identical to a document
    /// is looked up by no other.
    fn equal(&self, pages: &[SketchedRecord]) -> Result<FxHashMap<Fingerprint, DocumentId>, StoreError> {
        let mut equal = FxHashMap::default();
        let all = || contents(pages).map(|content| &content.equivalences);
        self.add_equal(all().map(|equivalences| equivalences.identical).collect(), &mut equal)?;
        let others: Vec<&Equivalences> =
            all().filter(|equivalences| !equal.contains_key(&equivalences.identical)).collect();
        // What differs in the widest equivalence differs in all.
        self.add_equal(others.iter().map(|equivalences| equivalences.widest()).collect(), &mut equal)?;
        let known = others.iter().filter(|equivalences| equal.contains_key(&equivalences.widest()));
        let lexical = known.map(|equivalences| equivalences.lexical).filter(|key| !equal.contains_key(key));
        self.add_equal(lexical.collect(), &mut equal)?;
        Ok(equal)
    }

    fn add_equal(
        &self,
        mut keys: Vec<Fingerprint>,
        equal: &mut FxHashMap<Fingerprint, DocumentId>,
    ) -> Result<(), StoreError> {
        keys.sort_unstable();
        keys.dedup();
        let documents = self.store.equal(&keys)?;
        equal.extend(keys.into_iter().zip(documents).filter_map(|(key, document)| Some((key, document?))));
        Ok(())
    }
}

/// What was sketched of a batch's pages.
pub(super) fn contents(pages: &[SketchedRecord]) -> impl Iterator<Item = &SketchedContent> {
    pages.iter().filter_map(SketchedRecord::content)
}
