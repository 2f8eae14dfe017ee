//! A store in memory, for the tests of the stages around it.

use crate::cluster::{self, SketchView};
use crate::document::{DocumentId, Fingerprint};
use crate::history;
use crate::ports::{
    Batch, MissingUrl, NothingToSync, Outgoing, ProgressMap, Store, StoreError, StoredSighting, Syncer,
};
use crate::sketch::{Shingle, Sketch};
use crate::sweep::{Observation, SweepRow, UrlState};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// A store in memory, for the tests of the stages around it.
#[derive(Default)]
pub struct MemoryStore {
    pub equal: HashMap<Fingerprint, DocumentId>,
    pub postings: HashMap<Shingle, Vec<DocumentId>>,
    pub supers: HashMap<Shingle, Vec<DocumentId>>,
    pub sketches: HashMap<DocumentId, Arc<Sketch>>,
    pub first_urls: HashMap<DocumentId, Fingerprint>,
    pub urls: HashMap<Fingerprint, String>,
    pub outbox: Vec<Outgoing>,
    pub sightings: Vec<StoredSighting>,
    pub states: HashMap<Fingerprint, UrlState>,
    pub missing: BTreeSet<MissingUrl>,
    pub sweeps: BTreeMap<String, SweepRow>,
    pub progress: ProgressMap,
    pub sync_fails: bool,
}

struct FailingSync;

impl Syncer for FailingSync {
    fn sync(&self) -> Result<(), StoreError> {
        Err(StoreError::Failed("fsync".into()))
    }
}

impl Store for MemoryStore {
    fn syncer(&self) -> Box<dyn Syncer> {
        if self.sync_fails { Box::new(FailingSync) } else { Box::new(NothingToSync) }
    }

    fn equal(&self, keys: &[Fingerprint]) -> Result<Vec<Option<DocumentId>>, StoreError> {
        Ok(keys.iter().map(|key| self.equal.get(key).copied()).collect())
    }

    fn first_urls(&self, documents: &[DocumentId]) -> Result<Vec<String>, StoreError> {
        Ok(documents.iter().map(|document| self.urls[&self.first_urls[document]].clone()).collect())
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), StoreError> {
        for (document, url) in &batch.documents {
            self.equal.extend(document.equivalences.keys().map(|key| (key, document.document)));
            self.sketches.insert(document.document, Arc::clone(&document.sketch));
            self.first_urls.insert(document.document, *url);
            for shingle in &document.index {
                self.postings.entry(*shingle).or_default().push(document.document);
            }
            for shingle in &document.super_shingles {
                self.supers.entry(*shingle).or_default().push(document.document);
            }
        }
        self.urls.extend(batch.urls.iter().cloned());
        self.sightings.extend(batch.sightings.iter().cloned());
        self.states.extend(batch.states.iter().cloned());
        self.missing.retain(|missing| !batch.no_longer_missing.contains(missing));
        self.missing.extend(&batch.missing);
        self.sweeps.extend(batch.sweeps.iter().cloned());
        self.progress.extend(batch.progress.clone());
        self.outbox.retain(|event| event.seq >= batch.published);
        self.outbox.extend(batch.outbox.iter().cloned());
        Ok(())
    }

    fn n_bytes(&self) -> u64 {
        0
    }

    fn outbox(&self, from: u64, most: usize) -> Result<Vec<Outgoing>, StoreError> {
        Ok(self.outbox.iter().filter(|event| event.seq >= from).take(most).cloned().collect())
    }
}

impl SketchView for MemoryStore {
    type Error = StoreError;

    fn sketches(&self, documents: &[DocumentId]) -> Result<Vec<Arc<Sketch>>, StoreError> {
        Ok(documents.iter().map(|document| Arc::clone(&self.sketches[document])).collect())
    }
}

impl cluster::View for MemoryStore {
    fn postings(&self, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, StoreError> {
        let list = |shingle| self.postings.get(shingle).cloned().unwrap_or_default();
        Ok(shingles.iter().map(list).collect())
    }

    fn supers(&self, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, StoreError> {
        let list = |shingle| self.supers.get(shingle).cloned().unwrap_or_default();
        Ok(shingles.iter().map(list).collect())
    }
}

impl history::View for MemoryStore {
    fn states(&self, urls: &[Fingerprint]) -> Result<Vec<Option<UrlState>>, StoreError> {
        Ok(urls.iter().map(|url| self.states.get(url).cloned()).collect())
    }

    fn observations(&self, url: Fingerprint) -> Result<Vec<Observation>, StoreError> {
        let of_url = self.sightings.iter().filter(|sighting| sighting.url == url);
        let mut moments: Vec<Observation> = of_url.map(|sighting| sighting.moment.clone()).collect();
        moments.sort();
        Ok(moments)
    }

    fn sweeps(&self, names: &[&str]) -> Result<Vec<Option<SweepRow>>, StoreError> {
        Ok(names.iter().map(|name| self.sweeps.get(*name).copied()).collect())
    }

    fn urls(&self, keys: &[Fingerprint]) -> Result<Vec<String>, StoreError> {
        Ok(keys.iter().map(|key| self.urls[key].clone()).collect())
    }

    fn newest_sightings(&self, documents: &[DocumentId], _: usize) -> Result<Vec<StoredSighting>, StoreError> {
        let stood = |sighting: &&StoredSighting| {
            sighting.moment.seen.document().is_some_and(|document| documents.contains(&document))
        };
        Ok(self.sightings.iter().filter(stood).cloned().collect())
    }

    fn missing_urls(&self) -> Result<Vec<MissingUrl>, StoreError> {
        Ok(self.missing.iter().copied().collect())
    }

    fn each_state(&self, each: &mut dyn FnMut(Fingerprint, UrlState)) -> Result<(), StoreError> {
        self.states.iter().for_each(|(url, state)| each(*url, state.clone()));
        Ok(())
    }
}
