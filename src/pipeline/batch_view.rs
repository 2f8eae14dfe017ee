//! What a batch sees: the store, the sketches at hand, and the documents of the batch itself.

use super::cache::Cache;
use crate::cluster::{self, NewDocument, SketchView};
use crate::document::{DocumentId, Fingerprint};
use crate::history::{self, MissingUrl, StoredSighting};
use crate::ports::{Store, StoreError};
use crate::sketch::{Shingle, Sketch};
use crate::sweep::{Observation, SweepRow, UrlState};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::sync::Arc;

/// Decoded sketches.
pub(super) type SketchCache = Cache<DocumentId, Arc<Sketch>>;

/// The view of one batch, for both decisions.
pub(super) struct BatchView<'v, S: Store> {
    pub store: &'v S,
    cache: RefCell<&'v mut SketchCache>,
    /// Sketches that the store does not have yet.
    fresh: RefCell<FxHashMap<DocumentId, Arc<Sketch>>>,
}

impl<'v, S: Store> BatchView<'v, S> {
    /// A view before any decision of the batch.
    pub fn new(store: &'v S, cache: &'v mut SketchCache) -> Self {
        BatchView { store, cache: RefCell::new(cache), fresh: RefCell::default() }
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
        let mut found: Vec<Option<Arc<Sketch>>> =
            documents.iter().map(|document| fresh.get(document).cloned().or_else(|| cache.get(*document))).collect();
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
        self.store.postings(shingles)
    }

    fn supers(&self, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, StoreError> {
        self.store.supers(shingles)
    }
}

impl<S: Store> history::View for BatchView<'_, S> {
    fn states(&self, urls: &[Fingerprint]) -> Result<Vec<Option<UrlState>>, StoreError> {
        self.store.states(urls)
    }

    fn observations(&self, url: Fingerprint) -> Result<Vec<Observation>, StoreError> {
        self.store.observations(url)
    }

    fn sweeps(&self, names: &[&str]) -> Result<Vec<Option<SweepRow>>, StoreError> {
        self.store.sweeps(names)
    }

    fn urls(&self, keys: &[Fingerprint]) -> Result<Vec<String>, StoreError> {
        self.store.urls(keys)
    }

    fn newest_sightings(&self, documents: &[DocumentId], limit_each: usize) -> Result<Vec<StoredSighting>, StoreError> {
        self.store.newest_sightings(documents, limit_each)
    }

    fn missing_urls(&self) -> Result<Vec<MissingUrl>, StoreError> {
        self.store.missing_urls()
    }

    fn each_state(&self, each: &mut dyn FnMut(Fingerprint, UrlState)) -> Result<(), StoreError> {
        self.store.each_state(each)
    }
}
