//! The stream: from a source's records to durable clusters and published events.
//!
//! ```text
//! ingest ─▶ sketcher ×n ─▶ sequencer ─▶ applier ─▶ syncer ─▶ publisher
//! source    pure, parallel  input order  one writer  durable   and only then out
//! ```
//! Stages are threads joined by bounded channels; `Backpressure` limits the records and bytes between source and store. The
//! first stage that fails ends admission and closes its channels, and every other stage ends. Sweeps are closed by the
//! applier, between two batches of pages.

mod applier;
mod backpressure;
mod batch;
mod batch_view;
mod cache;
mod close;
mod close_requests;
#[cfg(feature = "failpoints")]
pub(crate) mod crash_test;
mod error;
mod gatherer;
mod gauge;
mod ingest;
#[cfg(test)]
mod memory_store;
mod poison;
mod publisher;
mod sequencer;
mod settings;
mod size_alarm;
mod sketched_record;
mod sketcher;
mod stats;
mod syncer;

pub use close::{CloseError, OfflineCloser};
pub use close_requests::CloseRequests;
pub use error::PipelineError;
pub use poison::{Machine, PoisonTracker};
pub use publisher::{PublishError, recover};
pub use settings::Settings;
pub use stats::{FirstRejection, Stats, Summary};

use crate::cluster::Decider;
use crate::document::Seed;
use crate::intake::{FutureLimit, RecordSketcher};
use crate::ports::{PoisonGuard, Source, Store};
use crate::sketch::Sketcher;
use crate::sweep::SweepCut;
use crate::wire;
use applier::Applier;
use backpressure::Backpressure;
use gatherer::Gatherer;
use gauge::StoreGauge;
use publisher::Publisher;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// Records, about, in batches that wait to be synced, and as many that wait to be published.
const EVENTS_WAITING_MAX: usize = 4096;

/// The same while batches hold one record.
const SINGLES_WAITING_MAX: usize = 256;

/// Batches that may wait, however large.
const BATCHES_WAITING_MIN: usize = 4;

/// Chunks that wait for each sketcher. A few keep it busy; with more, pages fall out of the processor's caches into memory that
/// the system has to provide first.
const CHUNKS_WAITING: usize = 2;

/// Everything that the stream is made of.
pub struct Pipeline<'a, S: Store> {
    /// Sizes.
    pub settings: Settings,
    /// Limits of a record.
    pub limits: wire::Limits,
    /// The sweeps of pages that name none.
    pub sweep_cut: SweepCut,
    /// How far ahead of the clock pages may be dated.
    pub future: FutureLimit,
    /// The store's secret.
    pub seed: Seed,
    /// Sketches by the store's rule.
    pub sketcher: Sketcher,
    /// Decides over the store's clusters.
    pub decider: Decider,
    /// The store.
    pub store: &'a mut S,
    /// The next event's number.
    pub next_seq: u64,
    /// Where records come from.
    pub source: Box<dyn Source>,
    /// Where events go; none: no events are kept.
    pub sink: Option<Box<dyn crate::ports::Sink>>,
    /// Set from outside to end the stream cleanly.
    pub shutdown: Arc<AtomicBool>,
    /// The counts of the run.
    pub stats: Arc<Stats>,
    /// The crashes of earlier processes.
    pub poison: Arc<PoisonTracker>,
    /// Requests to close sweeps meanwhile.
    pub close_requests: CloseRequests,
}

impl<S: Store> Pipeline<'_, S> {
    /// Runs until the source ends or the shutdown is set. Every record read by then is durable, and its events are published.
    ///
    /// # Errors
    /// [`PipelineError`]. What is durable stays; the next run goes on from there.
    pub fn run(mut self) -> Result<Summary, PipelineError> {
        let n_sketchers = match self.settings.sketchers {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n,
        };
        let backpressure =
            Backpressure::new(self.settings.in_flight_records_max, self.settings.in_flight_mib_max << 20);
        let (work_out, work_in) = crossbeam::channel::bounded(CHUNKS_WAITING * n_sketchers);
        let (done_out, done_in) = crossbeam::channel::bounded(self.settings.in_flight_records_max);
        let (committed_out, committed_in) = crossbeam::channel::bounded(64);
        let n_waiting = n_waiting(&self.settings, self.poison.is_cautious());
        let (written_out, written_in) = crossbeam::channel::bounded(n_waiting);
        let (events_out, events_in) = crossbeam::channel::bounded(n_waiting);
        let syncer = self.store.syncer();
        let publisher = Publisher::new(self.sink, self.next_seq);
        let published = publisher.published();
        let keep_originals = publisher.wants_originals();
        let gauge = StoreGauge::new(self.settings.cluster_size_alarm, self.decider.clusters(), Arc::clone(&self.stats));
        let events = (self.next_seq, published, publisher.is_listening());
        let poison = Arc::clone(&self.poison);
        let mut applier =
            Applier::new(self.store, self.decider, self.seed, &self.settings, events, Arc::clone(&poison), gauge)?;
        let gatherer = Gatherer::new(done_in, self.close_requests, &self.settings, poison);
        let poison = &*self.poison;
        let (stats, source) = (&self.stats, self.source);
        let sketcher = || RecordSketcher::new(self.sketcher.clone(), self.limits.clone(), self.sweep_cut, self.future);
        let repeats = sketcher::Repeats::new(self.settings.repeat_cache_mib << 20);
        let (backpressure, shutdown, repeats) = (&backpressure, &self.shutdown, &repeats);
        let ended = std::thread::scope(|scope| {
            let ingest = start(scope, "ingest", move || {
                let _closer = backpressure.closer();
                ingest::run(source, &work_out, &committed_in, backpressure, shutdown, stats)
            })?;
            for _ in 0..n_sketchers {
                let (work_in, done_out, sketcher) = (work_in.clone(), done_out.clone(), sketcher());
                let run = move || {
                    sketcher::run(sketcher, &work_in, &done_out, keep_originals, repeats, backpressure, stats, poison);
                };
                start(scope, "sketcher", run)?;
            }
            drop((work_in, done_out));
            let publish = move || {
                // Once nothing can be published, nothing more may be admitted.
                let _closer = backpressure.closer();
                publisher.run(&events_in, stats)
            };
            let publishing = start(scope, "publisher", publish)?;
            let sync = move || {
                // A failed sync ends the stream even where no further batch would notice it.
                let _closer = backpressure.closer();
                syncer::run(&*syncer, &written_in, &committed_out, &events_out, backpressure, stats)
            };
            let syncing = start(scope, "syncer", sync)?;
            let applied = {
                let _closer = backpressure.closer();
                applier.run(gatherer, written_out)
            };
            let synced = syncing.join().map_err(|_| PipelineError::Died("syncer"))?;
            let published = publishing.join().map_err(|_| PipelineError::Died("publisher"))?;
            let ingested = ingest.join().map_err(|_| PipelineError::Died("ingest"))?;
            // A failing publisher, syncer or source closes the channels of the others: its error is the cause, so it is
            // looked at first.
            published?;
            synced?;
            applied?;
            ingested?;
            applier.finish()
        });
        match &ended {
            Ok(()) => poison.finish(),
            Err(PipelineError::Died(_)) => poison.record_crash(),
            Err(_) => {}
        }
        ended?;
        accounted(self.stats.summary())
    }
}

/// Batches that may wait to be synced, and to be published. Many small ones, so that they go out together.
fn n_waiting(settings: &Settings, are_single: bool) -> usize {
    let n = if are_single { SINGLES_WAITING_MAX } else { EVENTS_WAITING_MAX / settings.batch_records_max };
    n.max(BATCHES_WAITING_MIN)
}

/// Every record read must have been written. Otherwise a stage that ends early without an error would look like success.
fn accounted(summary: Summary) -> Result<Summary, PipelineError> {
    let (n_read, n_written) = (summary.n_records_read, summary.n_records);
    if n_read == n_written { Ok(summary) } else { Err(PipelineError::Lost { n_read, n_written }) }
}

/// Starts a stage in a thread of its own name, by which profilers and `top -H` show it.
fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &'static str,
    stage: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, PipelineError> {
    Builder::new().name(name.into()).spawn_scoped(scope, stage).map_err(|_| PipelineError::Died(name))
}

#[cfg(test)]
mod tests {
    use super::memory_store::MemoryStore;
    use super::*;

    #[test]
    fn records_that_went_lost_are_no_success() {
        let summary = |n_records| Summary { n_records_read: 3, n_records, ..Summary::default() };
        assert!(accounted(summary(3)).is_ok());
        assert!(matches!(accounted(summary(2)), Err(PipelineError::Lost { n_read: 3, n_written: 2 })));
    }

    use crate::cluster::{Clusters, MatchRule};
    use crate::ports::{Incoming, Polled, SourceError};
    use crate::sketch::SketchRule;
    use crate::wire::{Origin, Record};
    use std::time::Duration;

    /// Pages that come one by one, with pauses in which every other stage could end.
    struct Slow(std::ops::Range<i64>);

    impl Source for Slow {
        fn poll(&mut self, _: Duration) -> Result<Polled, SourceError> {
            std::thread::sleep(Duration::from_millis(20));
            let Some(offset) = self.0.next() else { return Ok(Polled::End) };
            let json = format!(
                r#"{{"url": "http://a.example/{offset}", "fetched_at": "2026-11-21T00:00:00Z", "body": "word"}}"#
            );
            let origin = Origin { source: "slow".into(), partition: 0, offset };
            Ok(Polled::Record(Incoming { origin, chain: 0, record: Record::Json(json.into_bytes()) }))
        }
    }

    /// Lost once: without a sink, all pages after the publisher had ended, silently.
    #[test]
    fn without_a_sink_every_page_is_taken_in() {
        let mut store = MemoryStore::default();
        let summary = pipeline(&mut store, Slow(0..5)).run().expect("runs");
        assert_eq!((summary.n_records_read, summary.n_records), (5, 5));
        assert_eq!(store.urls.len(), 5);
    }

    /// Pages, then silence.
    struct Endless(Slow);

    impl Source for Endless {
        fn poll(&mut self, timeout: Duration) -> Result<Polled, SourceError> {
            self.0.poll(timeout).map(|polled| if matches!(polled, Polled::End) { Polled::Idle } else { polled })
        }
    }

    /// Once a failed sync went unnoticed until the next batch, and for ever where none came.
    #[test]
    fn a_failed_sync_ends_the_stream_where_nothing_more_comes() {
        let mut store = MemoryStore { sync_fails: true, ..MemoryStore::default() };
        let ended = pipeline(&mut store, Endless(Slow(0..1))).run();
        assert!(matches!(ended, Err(PipelineError::Store(_))), "{ended:?}");
    }

    fn pipeline(store: &mut MemoryStore, source: impl Source + 'static) -> Pipeline<'_, MemoryStore> {
        let (seed, rule) = (Seed([1, 2, 3, 4]), SketchRule::default());
        Pipeline {
            settings: Settings::default(),
            limits: wire::Limits::default(),
            sweep_cut: SweepCut::None,
            future: FutureLimit::NONE,
            seed,
            sketcher: Sketcher::new(&rule, &seed),
            decider: Decider::new(MatchRule::default(), &rule, Clusters::default(), Default::default()),
            store,
            next_seq: 0,
            source: Box::new(source),
            sink: None,
            shutdown: Arc::default(),
            stats: Arc::default(),
            poison: Arc::default(),
            close_requests: CloseRequests::default(),
        }
    }
}
