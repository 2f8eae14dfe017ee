//! A store in memory, for the tests of the stages around it.

use crate::cluster::{self, EqualCluster, SketchView};
use crate::document::{DocumentId, Fingerprint};
use crate::history;
use crate::ports::{
    Batch, MissingUrl, NothingToSync, Outgoing, ProgressMap, Store, StoreCounts, StoreError, StoredSighting, Syncer,
};
use crate::sketch::{Shingle, Sketch};
use crate::sweep::{Observation, SweepRow, UrlState};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

/// A store in memory, for the tests of the stages around it.
#[derive(Default)]
pub struct MemoryStore {
    rows: RwLock<Rows>,
    sync_fails: bool,
}

impl MemoryStore {
    /// A store whose syncs fail.
    pub fn with_failing_syncs() -> Self {
        MemoryStore { sync_fails: true, ..MemoryStore::default() }
    }

    /// A store that holds some events.
    pub fn of_events(outbox: Vec<Outgoing>) -> Self {
        MemoryStore { rows: RwLock::new(Rows { outbox, ..Rows::default() }), sync_fails: false }
    }

    /// Its rows.
    pub fn rows(&self) -> RwLockReadGuard<'_, Rows> {
        self.rows.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the store holds.
#[derive(Default)]
pub struct Rows {
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
        Ok(keys.iter().map(|key| self.rows().equal.get(key).copied()).collect())
    }

    fn first_url_keys(&self, documents: &[DocumentId]) -> Result<Vec<Fingerprint>, StoreError> {
        Ok(documents.iter().map(|document| self.rows().first_urls[document]).collect())
    }

    fn counts(&self) -> Result<(StoreCounts, Vec<EqualCluster>), StoreError> {
        Ok(Default::default())
    }

    type Encoded = (Batch, Vec<Outgoing>);
    type Written = ();

    fn encode(&self, batch: &Batch, events: &[Outgoing]) -> Result<Self::Encoded, StoreError> {
        Ok((batch.clone(), events.to_vec()))
    }

    fn write(&self, (batch, outbox): Self::Encoded, published: u64) -> Result<(), StoreError> {
        self.commit(&Batch { outbox, published, ..batch })
    }

    fn index(&self, (): ()) -> Result<(), StoreError> {
        Ok(())
    }

    fn commit(&self, batch: &Batch) -> Result<(), StoreError> {
        let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        for (document, url) in &batch.documents {
            rows.equal.extend(document.equivalences.keys().map(|key| (key, document.document)));
            rows.sketches.insert(document.document, Arc::clone(&document.sketch));
            rows.first_urls.insert(document.document, *url);
            for shingle in &document.index {
                rows.postings.entry(*shingle).or_default().push(document.document);
            }
            for shingle in &document.super_shingles {
                rows.supers.entry(*shingle).or_default().push(document.document);
            }
        }
        rows.urls.extend(batch.urls.iter().cloned());
        rows.sightings.extend(batch.sightings.iter().cloned());
        rows.states.extend(batch.states.iter().cloned());
        rows.missing.retain(|missing| !batch.no_longer_missing.contains(missing));
        rows.missing.extend(&batch.missing);
        rows.sweeps.extend(batch.sweeps.iter().cloned());
        rows.progress.extend(batch.progress.clone());
        rows.outbox.retain(|event| event.seq >= batch.published);
        rows.outbox.extend(batch.outbox.iter().cloned());
        Ok(())
    }

    fn n_bytes(&self) -> u64 {
        0
    }

    fn outbox(&self, from: u64, most: usize) -> Result<Vec<Outgoing>, StoreError> {
        Ok(self.rows().outbox.iter().filter(|event| event.seq >= from).take(most).cloned().collect())
    }
}

impl SketchView for MemoryStore {
    type Error = StoreError;

    fn sketches(&self, documents: &[DocumentId]) -> Result<Vec<Arc<Sketch>>, StoreError> {
        Ok(documents.iter().map(|document| Arc::clone(&self.rows().sketches[document])).collect())
    }
}

impl cluster::View for MemoryStore {
    fn postings(&self, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, StoreError> {
        let list = |shingle| self.rows().postings.get(shingle).cloned().unwrap_or_default();
        Ok(shingles.iter().map(list).collect())
    }

    fn supers(&self, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, StoreError> {
        let list = |shingle| self.rows().supers.get(shingle).cloned().unwrap_or_default();
        Ok(shingles.iter().map(list).collect())
    }
}

impl history::View for MemoryStore {
    fn states(&self, urls: &[Fingerprint]) -> Result<Vec<Option<UrlState>>, StoreError> {
        Ok(urls.iter().map(|url| self.rows().states.get(url).cloned()).collect())
    }

    fn observations(&self, url: Fingerprint) -> Result<Vec<Observation>, StoreError> {
        let rows = self.rows();
        let of_url = rows.sightings.iter().filter(|sighting| sighting.url == url);
        let mut moments: Vec<Observation> = of_url.map(|sighting| sighting.moment.clone()).collect();
        moments.sort();
        Ok(moments)
    }

    fn sweeps(&self, names: &[&str]) -> Result<Vec<Option<SweepRow>>, StoreError> {
        Ok(names.iter().map(|name| self.rows().sweeps.get(*name).copied()).collect())
    }

    fn urls(&self, keys: &[Fingerprint]) -> Result<Vec<String>, StoreError> {
        Ok(keys.iter().map(|key| self.rows().urls[key].clone()).collect())
    }

    fn newest_sightings(&self, documents: &[DocumentId], _: usize) -> Result<Vec<StoredSighting>, StoreError> {
        let stood = |sighting: &&StoredSighting| {
            sighting.moment.seen.document().is_some_and(|document| documents.contains(&document))
        };
        Ok(self.rows().sightings.iter().filter(stood).cloned().collect())
    }

    fn missing_urls(&self) -> Result<Vec<MissingUrl>, StoreError> {
        Ok(self.rows().missing.iter().copied().collect())
    }

    fn each_state(&self, each: &mut dyn FnMut(Fingerprint, UrlState)) -> Result<(), StoreError> {
        self.rows().states.iter().for_each(|(url, state)| each(*url, state.clone()));
        Ok(())
    }
}
