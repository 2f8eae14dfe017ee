//! What the decisions over a batch see: what was looked up for it, earlier batches in flight, its own documents, and the store
//! for the rest.

use super::cache::Cache;
use super::in_flight::InFlight;
use super::look_up::Histories;
use crate::cluster::{self, Documents, NewDocument, SketchView};
use crate::document::{DocumentId, Fingerprint};
use crate::history::{self, MissingUrl, StoredSighting};
use crate::ports::{Store, StoreError};
use crate::sketch::{Shingle, Sketch};
use crate::sweep::{Observation, SweepRow, UrlState};
use std::cell::RefCell;
use std::sync::Arc;

/// Decoded sketches.
pub(super) type SketchCache = Cache<DocumentId, Arc<Sketch>>;

/// The view of one batch, for both decisions.
pub(super) struct BatchView<'v, S: Store> {
    store: &'v S,
    in_flight: &'v InFlight,
    cache: RefCell<&'v mut SketchCache>,
    /// What was looked up of the batch's URLs.
    histories: &'v Histories,
    /// The sketches of the batch's own documents, whose ids are dense.
    fresh: RefCell<Vec<(DocumentId, Arc<Sketch>)>>,
}

impl<'v, S: Store> BatchView<'v, S> {
    /// A view before any decision of the batch.
    pub fn new(store: &'v S, in_flight: &'v InFlight, cache: &'v mut SketchCache, histories: &'v Histories) -> Self {
        BatchView { store, in_flight, cache: RefCell::new(cache), histories, fresh: RefCell::default() }
    }

    /// Adds documents of the batch.
    pub fn add_fresh(&self, documents: &[NewDocument]) {
        self.fresh.borrow_mut().extend(documents.iter().map(|new| (new.document, Arc::clone(&new.sketch))));
    }

    /// Keeps the batch's own sketches for the batches after it.
    pub fn keep_fresh(self) {
        let cache = self.cache.into_inner();
        for (document, sketch) in self.fresh.into_inner() {
            cache.insert(document, sketch);
        }
    }
}

impl<S: Store> SketchView for BatchView<'_, S> {
    type Error = StoreError;

    fn sketches(&self, documents: &[DocumentId]) -> Result<Vec<Arc<Sketch>>, StoreError> {
        let (fresh, mut cache) = (self.fresh.borrow(), self.cache.borrow_mut());
        let of_batch = |document: DocumentId| {
            let (first, _) = fresh.first()?;
            fresh.get(document.0.checked_sub(first.0)? as usize).map(|(_, sketch)| sketch)
        };
        let at_hand = |document: &DocumentId| {
            let own = of_batch(*document).or_else(|| self.in_flight.sketch(*document));
            own.cloned().or_else(|| cache.get(*document))
        };
        let mut found: Vec<Option<Arc<Sketch>>> = documents.iter().map(at_hand).collect();
        let missing: Vec<usize> = (0..found.len()).filter(|at| found[*at].is_none()).collect();
        let unread: Vec<DocumentId> = missing.iter().map(|at| documents[*at]).collect();
        for (at, sketch) in missing.into_iter().zip(self.store.sketches(&unread)?) {
            cache.insert(documents[at], Arc::clone(&sketch));
            found[at] = Some(sketch);
        }
        Ok(found.into_iter().flatten().collect())
    }
}

impl<S: Store> cluster::View for BatchView<'_, S> {
    fn postings(&self, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, StoreError> {
        let complete = |shingle, list: &mut Documents| _ = self.in_flight.complete_posting(shingle, list);
        Ok(completed(shingles, self.store.postings(shingles)?, complete))
    }

    fn supers(&self, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, StoreError> {
        let complete = |shingle, list: &mut Documents| self.in_flight.complete_super(shingle, list);
        Ok(completed(shingles, self.store.supers(shingles)?, complete))
    }
}

/// The lists of some shingles, each completed.
fn completed(
    shingles: &[Shingle],
    lists: Vec<Vec<DocumentId>>,
    complete: impl Fn(Shingle, &mut Documents),
) -> Vec<Vec<DocumentId>> {
    let of_shingle = |(shingle, list): (&Shingle, Vec<DocumentId>)| {
        let mut list = Documents::from(list);
        complete(*shingle, &mut list);
        list.into_vec()
    };
    shingles.iter().zip(lists).map(of_shingle).collect()
}

/// Answers a question of many keys: what is known here first, one question to the store for the rest.
fn answered<K: Copy, V>(
    keys: &[K],
    known: impl Fn(K) -> Option<V>,
    ask: impl FnOnce(&[K]) -> Result<Vec<V>, StoreError>,
) -> Result<Vec<V>, StoreError> {
    let mut answers: Vec<Option<V>> = keys.iter().map(|key| known(*key)).collect();
    let unknown: Vec<usize> = (0..answers.len()).filter(|at| answers[*at].is_none()).collect();
    if !unknown.is_empty() {
        let asked: Vec<K> = unknown.iter().map(|at| keys[*at]).collect();
        for (at, answer) in unknown.into_iter().zip(ask(&asked)?) {
            answers[at] = Some(answer);
        }
    }
    let mut all = Vec::with_capacity(answers.len());
    all.extend(answers.into_iter().flatten());
    Ok(all)
}

impl<S: Store> history::View for BatchView<'_, S> {
    fn states(&self, urls: &[Fingerprint]) -> Result<Vec<Option<UrlState>>, StoreError> {
        let known = |url| {
            let in_flight = self.in_flight.state(url).map(|state| Some(state.clone()));
            in_flight.or_else(|| self.histories.states.get(&url).cloned())
        };
        answered(urls, known, |urls| self.store.states(urls))
    }

    fn observations(&self, url: Fingerprint) -> Result<Vec<Observation>, StoreError> {
        let looked_up = self.histories.observations.get(&url).cloned();
        let stored = looked_up.map_or_else(|| self.store.observations(url), Ok)?;
        Ok(self.in_flight.complete_observations(url, stored))
    }

    fn sweeps(&self, names: &[&str]) -> Result<Vec<Option<SweepRow>>, StoreError> {
        answered(names, |name| self.in_flight.sweep(name).map(Some), |names| self.store.sweeps(names))
    }

    fn urls(&self, keys: &[Fingerprint]) -> Result<Vec<String>, StoreError> {
        answered(keys, |key| self.in_flight.url(key).map(str::to_string), |keys| self.store.urls(keys))
    }

    fn newest_sightings(&self, documents: &[DocumentId], limit_each: usize) -> Result<Vec<StoredSighting>, StoreError> {
        let stored = self.store.newest_sightings(documents, limit_each)?;
        Ok(self.in_flight.complete_newest(documents, limit_each, stored))
    }

    fn missing_urls(&self) -> Result<Vec<MissingUrl>, StoreError> {
        self.store.missing_urls()
    }

    fn each_state(&self, each: &mut dyn FnMut(Fingerprint, UrlState)) -> Result<(), StoreError> {
        self.store.each_state(each)
    }
}
