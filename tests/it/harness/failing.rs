//! A store whose n-th call fails, or whose calls take any time, and an in-process pipeline over it.

use super::World;
use lookalike::cluster::{self, Decider, EqualCluster, SketchView};
use lookalike::config::Config;
use lookalike::document::{DocumentId, Fingerprint, Seed};
use lookalike::files::{EventFile, FileSource, Input};
use lookalike::history;
use lookalike::intake::FutureLimit;
use lookalike::pipeline::{self, Pipeline, Stats, Summary};
use lookalike::ports::{
    Batch, MissingUrl, Outgoing, Sink, Snapshot, Store, StoreCounts, StoreError, StoredSighting, Syncer,
};
use lookalike::sketch::{Shingle, Sketch};
use lookalike::store::RocksStore;
use lookalike::sweep::{Observation, SweepRow, UrlState};
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// Whether a failing call does nothing, or everything, before it returns the error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Failure {
    Before,
    After,
}

/// A store that counts its calls and fails the call `at`.
struct Failing {
    inner: RocksStore,
    n_calls: AtomicUsize,
    disturbance: Disturbance,
}

/// What goes wrong with the calls to a store, and the sizes of the pipeline over it.
#[derive(Clone, Copy, Debug)]
pub struct Disturbance {
    /// The call that fails.
    pub at: Option<(usize, Failure)>,
    /// Every call takes a time of its own, up to two milliseconds; another seed means other times.
    pub delays: Option<u64>,
    /// Threads of each stage that may have several.
    pub threads: usize,
    /// Records in a batch.
    pub batch: usize,
}

impl Default for Disturbance {
    fn default() -> Self {
        Disturbance { at: None, delays: None, threads: 1, batch: 40 }
    }
}

/// A time that only the seed and the number of the call decide; none for most calls.
fn delay(seed: u64, n: usize) -> Duration {
    let mixed = (n as u64 ^ seed.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    Duration::from_micros(if mixed.is_multiple_of(3) { mixed % 2000 } else { 0 })
}

impl Failing {
    fn wait(&self, n: usize) {
        if let Some(seed) = self.disturbance.delays {
            std::thread::sleep(delay(seed, n));
        }
    }

    fn call<T>(&self, act: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
        let n = self.n_calls.fetch_add(1, Ordering::Relaxed);
        self.wait(n);
        let planted = || Err(StoreError::Failed("planted".into()));
        match self.disturbance.at {
            Some((at, Failure::Before)) if at == n => planted(),
            Some((at, Failure::After)) if at == n => act().and_then(|_| planted()),
            _ => act(),
        }
    }
}

impl SketchView for Failing {
    type Error = StoreError;

    fn sketches(&self, documents: &[DocumentId]) -> Result<Vec<Arc<Sketch>>, StoreError> {
        self.call(|| self.inner.sketches(documents))
    }
}

impl cluster::View for Failing {
    fn postings(&self, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, StoreError> {
        self.call(|| self.inner.postings(shingles))
    }

    fn supers(&self, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, StoreError> {
        self.call(|| self.inner.supers(shingles))
    }
}

impl history::View for Failing {
    fn states(&self, urls: &[Fingerprint]) -> Result<Vec<Option<UrlState>>, StoreError> {
        self.call(|| history::View::states(&self.inner, urls))
    }

    fn observations(&self, url: Fingerprint) -> Result<Vec<Observation>, StoreError> {
        self.call(|| self.inner.observations(url))
    }

    fn sweeps(&self, names: &[&str]) -> Result<Vec<Option<SweepRow>>, StoreError> {
        self.call(|| history::View::sweeps(&self.inner, names))
    }

    fn urls(&self, keys: &[Fingerprint]) -> Result<Vec<String>, StoreError> {
        self.call(|| history::View::urls(&self.inner, keys))
    }

    fn newest_sightings(&self, documents: &[DocumentId], limit_each: usize) -> Result<Vec<StoredSighting>, StoreError> {
        self.call(|| self.inner.newest_sightings(documents, limit_each))
    }

    fn missing_urls(&self) -> Result<Vec<MissingUrl>, StoreError> {
        self.call(|| self.inner.missing_urls())
    }

    fn each_state(&self, each: &mut dyn FnMut(Fingerprint, UrlState)) -> Result<(), StoreError> {
        self.call(|| self.inner.each_state(each))
    }
}

impl Store for Failing {
    fn counts(&self) -> Result<(StoreCounts, Vec<EqualCluster>), StoreError> {
        self.call(|| Store::counts(&self.inner))
    }

    fn equal(&self, keys: &[Fingerprint]) -> Result<Vec<Option<DocumentId>>, StoreError> {
        // Sketchers call in any order, and leave it to the look-up to report errors.
        if std::thread::current().name() == Some("sketcher") {
            self.wait(keys.first().map_or(0, |key| key.0 as usize));
            return self.inner.equal(keys);
        }
        self.call(|| self.inner.equal(keys))
    }

    fn first_url_keys(&self, documents: &[DocumentId]) -> Result<Vec<Fingerprint>, StoreError> {
        self.call(|| self.inner.first_url_keys(documents))
    }

    type Encoded = <RocksStore as Store>::Encoded;
    type Written = <RocksStore as Store>::Written;

    fn encode(&self, batch: &Batch, events: &[Outgoing]) -> Result<Self::Encoded, StoreError> {
        self.call(|| self.inner.encode(batch, events))
    }

    fn write(&self, batch: Self::Encoded, published: u64) -> Result<Self::Written, StoreError> {
        self.call(|| self.inner.write(batch, published))
    }

    fn index(&self, written: Self::Written) -> Result<(), StoreError> {
        self.call(|| self.inner.index(written))
    }

    fn syncer(&self) -> Box<dyn Syncer> {
        self.inner.syncer()
    }

    fn commit(&self, batch: &Batch) -> Result<(), StoreError> {
        self.call(|| self.inner.commit(batch))
    }

    fn outbox(&self, from: u64, most: usize) -> Result<Vec<Outgoing>, StoreError> {
        self.call(|| self.inner.outbox(from, most))
    }

    fn n_bytes(&self) -> u64 {
        self.inner.n_bytes()
    }
}

/// Runs the pipeline once over a world's store. Returns the result and the number of calls.
pub fn flow(world: &World, inputs: &[PathBuf], disturbance: Disturbance) -> (Result<Summary, Box<dyn Error>>, usize) {
    let config = Config::load(&[]).expect("the default");
    let rule = config.rule();
    let seed: Seed = format!("{:064x}", 7).parse().expect("a seed");
    let inner = RocksStore::open(&world.path("store"), &config.store_settings(), &rule, Some(seed), || seed);
    let store = Failing { inner: inner.expect("opens"), n_calls: AtomicUsize::new(0), disturbance };
    let progress = store.inner.progress().expect("progress");
    let inputs = inputs.iter().cloned().map(Input::File).collect();
    let source = FileSource::new(inputs, progress, config.limits.clone(), None);
    let mut sink = EventFile::open(world.path("events.jsonl")).expect("events");
    let (next_seq, published) = (store.inner.next_seq(), store.inner.published());
    let (clusters, common) = (store.inner.clusters().expect("clusters"), store.inner.common().expect("common"));
    let result = pipeline::recover(&store, &mut sink, published, next_seq).map_err(Box::from).and_then(|()| {
        let pipeline = Pipeline {
            settings: pipeline::Settings {
                sketchers: disturbance.threads,
                look_ups: disturbance.threads,
                encoders: disturbance.threads,
                batch_records_max: disturbance.batch,
                batch_latency_ms_max: 10_000,
                ..config.pipeline.clone()
            },
            limits: config.limits.clone(),
            sweep_cut: config.input.sweep_cut,
            future: FutureLimit::NONE,
            seed,
            sketcher: rule.sketcher(&seed),
            said: None,
            texts: None,
            decider: Decider::new(rule.cluster, &rule.sketch, clusters, common),
            store: &store,
            next_seq,
            source: Box::new(source),
            sink: Some(Box::new(sink) as Box<dyn Sink>),
            shutdown: Arc::new(AtomicBool::new(false)),
            stats: Arc::new(Stats::default()),
            poison: Arc::default(),
            close_requests: pipeline::CloseRequests::default(),
        };
        pipeline.run().map_err(Box::from)
    });
    (result, store.n_calls.into_inner())
}
