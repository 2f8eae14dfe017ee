//! The stream: from a source's records to durable clusters and published events.
//!
//! ```text
//! ingest ─▶ sketcher ×n ─▶ sequencer ─▶ applier ─▶ syncer ─▶ publisher
//! source    pure, parallel  input order  one writer  durable   and only then out
//! ```
//! Stages are threads joined by bounded channels; a gate limits the records and bytes that are under way. The first
//! stage that fails closes the gate and its channels, and every other stage ends. What others want changed, which is
//! that a sweep be closed, the applier does between two batches of pages.

mod applier;
mod backpressure;
mod cache;
mod close;
mod close_requests;
#[cfg(feature = "failpoints")]
pub(crate) mod crash_test;
mod ingest;
mod moves;
mod news;
mod poison;
mod publisher;
mod sequencer;
mod size_alarm;
mod sketcher;
mod stats;
mod syncer;
mod timeline;

pub use close::{CloseError, Closer};
pub use close_requests::CloseRequests;
pub use poison::{Machine, PoisonTracker};
pub use publisher::{PublishError, recover};
pub use stats::{FirstRejection, Stats, Summary};

use crate::cluster::Decider;
use crate::document::Seed;
use crate::intake::{FutureLimit, RecordSketcher};
use crate::ports::{PoisonGuard, SinkError, Source, SourceError, Store, StoreError};
use crate::sketch::Sketcher;
use crate::sweep::SweepCut;
use crate::wire;
use applier::Applier;
use backpressure::Backpressure;
use publisher::Publisher;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::{Builder, Scope, ScopedJoinHandle};

/// Records of batches that wait to be synced, and of such that wait to be published, more or less.
const EVENTS_WAITING_MAX: usize = 4096;

/// The same where batches are of one record at first.
const SINGLES_WAITING_MAX: usize = 256;

/// Batches that may wait, however large they are.
const BATCHES_WAITING_MIN: usize = 4;

/// Chunks of records that wait for each sketcher. A few keep it busy; with more, pages lie about until they are no longer
/// in the processor's caches, in memory that the system has to provide first.
const CHUNKS_WAITING: usize = 2;

/// The stream's sizes. Each is a limit: when it is reached, the stages before it wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Sketcher threads; 0: one for each core.
    pub sketchers: usize,
    /// Records in a micro-batch, at most.
    pub batch_records_max: usize,
    /// How long a micro-batch waits for more records.
    pub batch_latency_ms_max: u64,
    /// Records between source and store, at most.
    pub in_flight_records_max: usize,
    /// MiB of record bodies between source and sketchers, at most.
    pub in_flight_mib_max: usize,
    /// MiB of decoded sketches that the applier keeps.
    pub sketch_cache_mib: usize,
    /// MiB of what the last pages were sketched to: those that come again unchanged are not read again.
    pub repeat_cache_mib: usize,
    /// Whether a record that the program died of again and again is passed over.
    pub skip_poison_records: bool,
    /// Documents in one cluster: when one grows past it, and at each doubling, an alarm tells; 0: never.
    pub cluster_size_alarm: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            sketchers: 0,
            batch_records_max: 1024,
            batch_latency_ms_max: 100,
            in_flight_records_max: 8192,
            in_flight_mib_max: 256,
            sketch_cache_mib: 256,
            repeat_cache_mib: 64,
            skip_poison_records: true,
            cluster_size_alarm: 100_000,
        }
    }
}

impl Settings {
    /// What is wrong with them, if anything.
    pub fn problem(&self) -> Option<String> {
        let zero = |name: &str| Some(format!("{name} is 0, must be at least 1"));
        match self {
            Settings { batch_records_max: 0, .. } => zero("batch_records_max"),
            Settings { in_flight_records_max: 0, .. } => zero("in_flight_records_max"),
            Settings { in_flight_mib_max: 0, .. } => zero("in_flight_mib_max"),
            _ => None,
        }
    }
}

/// Why the stream ended before its source did.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// The source is lost.
    #[error("pages cannot be read")]
    Source(#[from] SourceError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The sink failed.
    #[error("events cannot be published")]
    Sink(#[from] SinkError),
    /// A stage's thread died.
    #[error("the stage `{0}` died; this is a fault of the program, its message is above")]
    Died(&'static str),
    /// Records went lost between the source and the store.
    #[error(
        "{n_read} records were read, but only {n_written} written; this is a fault of the program: run again, what is \
         missing is read then"
    )]
    Lost {
        /// Records taken off the source.
        n_read: u64,
        /// Records that are durable.
        n_written: u64,
    },
    /// A stage ended before the source did, and none of them says why.
    #[error(
        "a stage of the stream ended before the pages did; this is a fault of the program. What was taken in is durable; run again"
    )]
    CutOff,
}

/// All that the stream is made of.
pub struct Pipeline<'a, S: Store> {
    /// Sizes.
    pub settings: Settings,
    /// What a record may have.
    pub limits: wire::Limits,
    /// The sweeps of pages that name none.
    pub sweep_cut: SweepCut,
    /// How far ahead of the clock pages may be dated.
    pub future: FutureLimit,
    /// The store's secret.
    pub seed: Seed,
    /// Makes sketches under the store's rule.
    pub sketcher: Sketcher,
    /// Decides over the store's clusters.
    pub decider: Decider,
    /// The store.
    pub store: &'a mut S,
    /// The next event's number.
    pub next_seq: u64,
    /// Where records come from.
    pub source: Box<dyn Source>,
    /// Where events go; none: nobody listens, and no events are kept.
    pub sink: Option<Box<dyn crate::ports::Sink>>,
    /// Set from outside to end the stream cleanly.
    pub shutdown: Arc<AtomicBool>,
    /// What is counted on the way.
    pub stats: Arc<Stats>,
    /// What earlier processes died of.
    pub tries: Arc<PoisonTracker>,
    /// Sweeps that are to be closed meanwhile.
    pub closings: CloseRequests,
}

impl<S: Store> Pipeline<'_, S> {
    /// Runs until the source ends or the shutdown is set; all that was taken from the source is then durable and
    /// published.
    ///
    /// # Errors
    /// [`PipelineError`]. What was durable stays; the next run goes on from there.
    pub fn run(self) -> Result<Summary, PipelineError> {
        let n_sketchers = match self.settings.sketchers {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n,
        };
        let gate = Backpressure::new(self.settings.in_flight_records_max, self.settings.in_flight_mib_max << 20);
        let (work_out, work_in) = crossbeam::channel::bounded(CHUNKS_WAITING * n_sketchers);
        let (done_out, done_in) = crossbeam::channel::bounded(self.settings.in_flight_records_max);
        let (committed_out, committed_in) = crossbeam::channel::bounded(64);
        let n_waiting = n_waiting(&self.settings, self.tries.is_cautious());
        let (written_out, written_in) = crossbeam::channel::bounded(n_waiting);
        let (events_out, events_in) = crossbeam::channel::bounded(n_waiting);
        let syncer = self.store.syncer();
        let publisher = Publisher::new(self.sink, self.next_seq);
        let published = publisher.published();
        let keep_originals = publisher.wants_originals();
        let mut applier = Applier::new(
            self.store,
            self.decider,
            self.seed,
            &self.settings,
            self.next_seq,
            published,
            publisher.is_listening(),
            Arc::clone(&self.stats),
            Arc::clone(&self.tries),
        );
        let tries = &*self.tries;
        let (stats, source) = (&self.stats, self.source);
        let sketcher = || RecordSketcher::new(self.sketcher.clone(), self.limits.clone(), self.sweep_cut, self.future);
        let repeats = sketcher::Repeats::new(self.settings.repeat_cache_mib << 20);
        let (gate, shutdown, repeats) = (&gate, &self.shutdown, &repeats);
        let ended = std::thread::scope(|scope| {
            let ingest = start(scope, "ingest", move || {
                let _closer = gate.closer();
                ingest::run(source, &work_out, &committed_in, gate, shutdown, stats)
            })?;
            for _ in 0..n_sketchers {
                let (work_in, done_out, sketcher) = (work_in.clone(), done_out.clone(), sketcher());
                let run = move || {
                    sketcher::run(sketcher, &work_in, &done_out, keep_originals, repeats, gate, stats, tries);
                };
                start(scope, "sketcher", run)?;
            }
            drop((work_in, done_out));
            let publish = move || {
                // Where nothing can be published any more, nothing more is to be taken in, least of all waited for.
                let _closer = gate.closer();
                publisher.run(&events_in, stats)
            };
            let publishing = start(scope, "publisher", publish)?;
            let sync = move || {
                // A failed sync ends the stream even where nothing more comes in that would notice.
                let _closer = gate.closer();
                syncer::run(&*syncer, &written_in, &committed_out, &events_out, gate, stats)
            };
            let syncing = start(scope, "syncer", sync)?;
            let applied = {
                let _closer = gate.closer();
                applier.run(&done_in, self.closings, written_out)
            };
            drop(done_in);
            let synced = syncing.join().map_err(|_| PipelineError::Died("syncer"))?;
            let published = publishing.join().map_err(|_| PipelineError::Died("publisher"))?;
            let ingested = ingest.join().map_err(|_| PipelineError::Died("ingest"))?;
            // A failing publisher, syncer or source shows up at the applier as a closed channel, and any of them at ingest as
            // a closed gate: theirs is the cause.
            published?;
            synced?;
            applied?;
            ingested?;
            applier.finish()
        });
        match &ended {
            Ok(()) => tries.done(),
            Err(PipelineError::Died(_)) => tries.died(),
            Err(_) => {}
        }
        ended?;
        accounted(self.stats.summary())
    }
}

/// Batches that may wait to be synced, and to be published. Many small ones, so that they can go out together.
fn n_waiting(settings: &Settings, are_single: bool) -> usize {
    let n = if are_single { SINGLES_WAITING_MAX } else { EVENTS_WAITING_MAX / settings.batch_records_max };
    n.max(BATCHES_WAITING_MIN)
}

/// What was read must have been written. A stage that ends too early without a word would otherwise be a success.
fn accounted(summary: Summary) -> Result<Summary, PipelineError> {
    let (n_read, n_written) = (summary.n_records_read, summary.n_records);
    if n_read == n_written { Ok(summary) } else { Err(PipelineError::Lost { n_read, n_written }) }
}

/// Starts a stage in a thread of its name, which is how profilers and `top -H` tell them apart.
fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: &'static str,
    stage: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, PipelineError> {
    Builder::new().name(name.into()).spawn_scoped(scope, stage).map_err(|_| PipelineError::Died(name))
}

#[cfg(test)]
mod tests {
    use super::applier::tests::MemoryStore;
    use super::*;

    #[test]
    fn records_that_went_lost_are_no_success() {
        let summary = |records| Summary { records_read: 3, records, ..Summary::default() };
        assert!(accounted(summary(3)).is_ok());
        assert!(matches!(accounted(summary(2)), Err(PipelineError::Lost { n_read: 3, n_written: 2 })));
    }

    use crate::cluster::{Clusters, MatchRule};
    use crate::ports::{Incoming, Polled};
    use crate::sketch::SketchRule;
    use crate::wire::{Origin, Record};
    use std::time::Duration;

    /// Pages that come one by one, with time between them for every other stage to end.
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

    /// Lost once: all pages that came after the publisher had found that there was nobody to publish to, without a word.
    #[test]
    fn with_nobody_listening_every_page_is_taken_in() {
        let mut store = MemoryStore::default();
        let summary = pipeline(&mut store, Slow(0..5)).run().expect("runs");
        assert_eq!((summary.n_records_read, summary.n_records), (5, 5));
        assert_eq!(store.urls.len(), 5);
    }

    /// Pages, and then nothing more for ever.
    struct Endless(Slow);

    impl Source for Endless {
        fn poll(&mut self, timeout: Duration) -> Result<Polled, SourceError> {
            self.0.poll(timeout).map(|polled| if matches!(polled, Polled::End) { Polled::Idle } else { polled })
        }
    }

    /// Once nobody would have noticed a failed sync until the next batch came, and where none came, never.
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
            tries: Arc::default(),
            closings: CloseRequests::default(),
        }
    }
}
