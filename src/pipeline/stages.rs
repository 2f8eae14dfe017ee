//! Starts the stages of the stream, each in threads of its own name, and joins them by channels.

use super::backpressure::Backpressure;
use super::decide::{DecideStage, Decided};
use super::encode::{self, ToWrite};
use super::error::PipelineError;
use super::gatherer::{Gatherer, IdleCount};
use super::in_flight::DecidedBatch;
use super::index;
use super::ingest;
use super::look_up::{LookUp, Prepared};
use super::poison::PoisonTracker;
use super::publisher::Publisher;
use super::sequencer::Ticketed;
use super::settings::Settings;
use super::sketched_record::SketchedChunk;
use super::sketcher;
use super::stats::Stats;
use super::syncer::{self, Written};
use super::visibility::Visibility;
use super::write::{ToIndex, Writer};
use crate::cluster::Prefetcher;
use crate::document::Seed;
use crate::intake::RecordSketcher;
use crate::ports::{Outgoing, PoisonGuard, ProgressMap, Source, Store, StoreError};
use crossbeam::channel::{Receiver, Sender, bounded, unbounded};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// Records, about, in batches that wait to be synced, and as many that wait to be published.
const EVENTS_WAITING_MAX: usize = 4096;

/// The same while batches hold one record.
const SINGLES_WAITING_MAX: usize = 256;

/// Batches that may wait, however large.
const BATCHES_WAITING_MIN: usize = 4;

/// Chunks that wait for each sketcher. A few keep it busy; with more, pages fall out of the processor's caches into memory that
/// the system has to provide first.
pub(super) const CHUNKS_WAITING: usize = 2;

/// Cores for each thread that looks up, and for each that encodes, where the settings name no number of threads. Sketching a
/// page takes several times as long.
const CORES_EACH: usize = 4;

/// What the stages share.
pub(super) struct Stages<'e, S: Store> {
    pub store: &'e S,
    pub settings: &'e Settings,
    pub seed: Seed,
    pub stats: &'e Stats,
    pub poison: &'e PoisonTracker,
    pub shutdown: &'e AtomicBool,
    pub backpressure: &'e Backpressure,
    pub visibility: &'e Visibility,
}

/// A running thread of a stage.
pub(super) type Thread<'scope, T> = ScopedJoinHandle<'scope, T>;

/// A thread that is started, and what it sends on.
type Started<'scope, R, T> = Result<(Receiver<R>, Thread<'scope, T>), PipelineError>;

/// The same of a stage that may have several threads.
type SeveralStarted<'scope, R> = Result<(Receiver<R>, Vec<Thread<'scope, ()>>), PipelineError>;

/// How reading from the source ended, and the source.
type IngestEnd = (Result<(), PipelineError>, Box<dyn Source>);

impl<'e, S: Store> Stages<'e, S> {
    /// Starts reading from the source, and the sketchers. The thread returns the source, so that the last batches can be
    /// reported to it.
    pub fn start_sketching<'scope>(
        &self,
        scope: &'scope Scope<'scope, 'e>,
        source: Box<dyn Source>,
        committed: Receiver<ProgressMap>,
        (sketcher, repeats, keep_originals): (impl Fn() -> RecordSketcher, &'e sketcher::Repeats, bool),
    ) -> Started<'scope, Ticketed<SketchedChunk>, IngestEnd> {
        let &Stages { store, settings, backpressure, shutdown, stats, poison, .. } = self;
        let n_sketchers = threads(settings.sketchers, 1);
        let (work_out, work_in) = bounded(CHUNKS_WAITING * n_sketchers);
        // Backpressure limits what waits here. A bounded channel with room for as much would be a mebibyte, written at the start.
        let (done_out, done_in) = unbounded();
        let ingest = self.start(scope, "ingest", move || {
            let mut source = source;
            let ended = ingest::run(source.as_mut(), &work_out, &committed, backpressure, shutdown, stats);
            (ended, source)
        })?;
        for _ in 0..n_sketchers {
            let (work_in, done_out, sketcher) = (work_in.clone(), done_out.clone(), sketcher());
            let run = move || {
                let out = &done_out;
                sketcher::run(sketcher, store, &work_in, out, keep_originals, repeats, backpressure, stats, poison);
            };
            spawn(scope, "sketcher", run)?;
        }
        Ok((done_in, ingest))
    }

    /// Starts gathering batches, and the look-ups.
    pub fn start_look_ups<'scope>(
        &self,
        scope: &'scope Scope<'scope, 'e>,
        gatherer: Gatherer,
        idle: &Arc<IdleCount>,
        prefetcher: &Prefetcher,
        retired: &Receiver<DecidedBatch>,
    ) -> SeveralStarted<'scope, Ticketed<Result<Prepared, StoreError>>> {
        let &Stages { store, settings, seed, visibility, poison, .. } = self;
        let n_look_ups = threads(settings.look_ups, CORES_EACH);
        let (work_out, work_in) = bounded(0);
        let work_in = Arc::new(Mutex::new(work_in));
        let (prepared_out, prepared_in) = bounded(n_look_ups);
        let gather = self.start(scope, "gatherer", move || {
            gatherer.run(&work_out);
        })?;
        let mut look_ups = vec![gather];
        for _ in 0..n_look_ups {
            let (work_in, prepared_out) = (Arc::clone(&work_in), prepared_out.clone());
            let (prefetcher, idle, retired) = (prefetcher.clone(), Arc::clone(idle), retired.clone());
            let look_up = LookUp { store, prefetcher, seed, poison, visibility, idle, retired };
            look_ups.push(self.start(scope, "look-up", move || {
                look_up.run(&work_in, &prepared_out);
            })?);
        }
        Ok((prepared_in, look_ups))
    }

    /// Starts the decider.
    pub fn start_decider<'scope>(
        &self,
        scope: &'scope Scope<'scope, 'e>,
        decider: DecideStage<'e, S>,
        prepared: Receiver<Ticketed<Result<Prepared, StoreError>>>,
    ) -> Started<'scope, Ticketed<Decided>, Result<u64, PipelineError>> {
        let (decided_out, decided_in) = bounded(1);
        let decider = self.start(scope, "decider", move || decider.run(&prepared, &decided_out))?;
        Ok((decided_in, decider))
    }

    /// Starts the encoders.
    pub fn start_encoders<'scope>(
        &self,
        scope: &'scope Scope<'scope, 'e>,
        decided: &Receiver<Ticketed<Decided>>,
    ) -> SeveralStarted<'scope, ToWrite<S>> {
        let &Stages { store, settings, poison, .. } = self;
        let n_encoders = threads(settings.encoders, CORES_EACH);
        let (encoded_out, encoded_in) = bounded(n_encoders);
        let mut encoders = Vec::new();
        for _ in 0..n_encoders {
            let (decided, encoded_out) = (decided.clone(), encoded_out.clone());
            encoders.push(self.start(scope, "encoder", move || {
                encode::run(store, poison, &decided, &encoded_out);
            })?);
        }
        Ok((encoded_in, encoders))
    }

    /// Starts the writer. Events below `published` are out; without a sink none are kept.
    pub fn start_writer<'scope>(
        &self,
        scope: &'scope Scope<'scope, 'e>,
        encoded: Receiver<ToWrite<S>>,
        published: &'e AtomicU64,
        is_listening: bool,
    ) -> Started<'scope, ToIndex<S>, Result<(), PipelineError>> {
        let &Stages { store, poison, .. } = self;
        let (written_out, written_in) = bounded(1);
        let writer = Writer { store, published, is_listening, poison };
        let writer = self.start(scope, "writer", move || writer.run(&encoded, &written_out))?;
        Ok((written_in, writer))
    }

    /// Starts the indexer.
    pub fn start_indexer<'scope>(
        &self,
        scope: &'scope Scope<'scope, 'e>,
        written: Receiver<ToIndex<S>>,
    ) -> Started<'scope, Written, Result<(), PipelineError>> {
        let &Stages { store, visibility, .. } = self;
        let (indexed_out, indexed_in) = bounded(self.n_waiting());
        let indexer =
            self.start(scope, "indexer", move || Ok(index::run(store, visibility, &written, &indexed_out)?))?;
        Ok((indexed_in, indexer))
    }

    /// Starts the syncer.
    pub fn start_syncer<'scope>(
        &self,
        scope: &'scope Scope<'scope, 'e>,
        indexed: Receiver<Written>,
        committed: Sender<ProgressMap>,
    ) -> Started<'scope, Vec<Outgoing>, Result<ProgressMap, PipelineError>> {
        let &Stages { store, backpressure, stats, .. } = self;
        let (events_out, events_in) = bounded(self.n_waiting());
        let syncer = store.syncer();
        let syncing = self.start(scope, "syncer", move || {
            Ok(syncer::run(&*syncer, &indexed, &committed, &events_out, backpressure, stats)?)
        })?;
        Ok((events_in, syncing))
    }

    /// Starts the publisher.
    pub fn start_publisher<'scope>(
        &self,
        scope: &'scope Scope<'scope, 'e>,
        publisher: Publisher,
        events: Receiver<Vec<Outgoing>>,
    ) -> Result<Thread<'scope, Result<(), PipelineError>>, PipelineError> {
        let &Stages { stats, .. } = self;
        self.start(scope, "publisher", move || Ok(publisher.run(&events, stats)?))
    }

    /// Starts a thread of a stage. Once it ends, nothing more is admitted: a stage that failed ends the stream even where
    /// nothing more comes that another stage could notice it by.
    fn start<'scope, T: Send + 'scope>(
        &self,
        scope: &'scope Scope<'scope, 'e>,
        name: &'static str,
        stage: impl FnOnce() -> T + Send + 'scope,
    ) -> Result<Thread<'scope, T>, PipelineError> {
        let backpressure = self.backpressure;
        spawn(scope, name, move || {
            let _closer = backpressure.closer();
            stage()
        })
    }

    /// Batches that may wait to be synced, and to be published. Many small ones, so that they go out together.
    fn n_waiting(&self) -> usize {
        let n_together = EVENTS_WAITING_MAX / self.settings.batch_records();
        let n = if self.poison.is_cautious() { SINGLES_WAITING_MAX } else { n_together };
        n.max(BATCHES_WAITING_MIN)
    }
}

/// How many threads a stage has: as configured, or one for each `cores_each` cores.
pub(super) fn threads(configured: usize, cores_each: usize) -> usize {
    match configured {
        0 => std::thread::available_parallelism().map_or(1, usize::from).div_ceil(cores_each),
        n => n,
    }
}

/// Starts a thread of a name by which profilers and `top -H` show it.
pub(super) fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &'static str,
    stage: impl FnOnce() -> T + Send + 'scope,
) -> Result<Thread<'scope, T>, PipelineError> {
    Builder::new().name(name.into()).spawn_scoped(scope, stage).map_err(|_| PipelineError::Died(name))
}

/// What a thread returned.
pub(super) fn joined<T>(name: &'static str, thread: Thread<'_, T>) -> Result<T, PipelineError> {
    thread.join().map_err(|_| PipelineError::Died(name))
}
