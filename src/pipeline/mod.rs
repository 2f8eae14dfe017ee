//! The stream: from a source's records to durable clusters and published events.
//!
//! ```text
//! ingest ─▶ sketcher ×n ─▶ gatherer ─▶ look-up ×n ─▶ decider ─▶ encoder ×n ─▶ writer ─▶ indexer ─▶ syncer ─▶ publisher
//! source    in parallel     batches     reads ahead   in order   rows, events  in order  readable   durable   and only then out
//! ```
//! Stages are threads joined by channels; their bounds and `Backpressure` limit the records and bytes between source and store. A
//! look-up reads the store while earlier batches are decided and written; the decider lays these over what was read
//! (`InFlight`), so that the decisions are those of one page after the other. The first stage that fails ends admission and
//! closes its channels, and every other stage ends. Sweeps are closed by the decider, between two batches of pages.

mod backpressure;
mod batch;
mod batch_view;
mod cache;
mod close;
mod close_requests;
#[cfg(feature = "failpoints")]
pub(crate) mod crash_test;
mod decide;
mod encode;
mod error;
mod gatherer;
mod gauge;
#[cfg(test)]
mod handover;
mod in_flight;
mod index;
mod ingest;
mod look_up;
#[cfg(test)]
mod memory_store;
mod poison;
mod publisher;
mod sequencer;
mod settings;
mod size_alarm;
mod sketch_sender;
mod sketch_stream;
mod sketched_record;
mod sketcher;
mod stages;
mod stats;
mod syncer;
mod visibility;
mod write;

pub use close::{CloseError, OfflineCloser};
pub use close_requests::CloseRequests;
pub use error::PipelineError;
pub use poison::{Machine, PoisonTracker};
pub use publisher::{PublishError, recover};
pub use settings::Settings;
pub use sketch_stream::SketchStream;
pub use stats::{FirstRejection, Stats, Summary};

use crate::cluster::Decider;
use crate::document::Seed;
use crate::intake::{FutureLimit, RecordSketcher, TextRule};
use crate::ports::{Batch, Source, Store};
use crate::related::SaidReader;
use crate::sketch::Sketcher;
use crate::sweep::SweepCut;
use crate::wire;
use backpressure::Backpressure;
use batch::open_history;
use batch_view::SketchCache;
use decide::DecideStage;
use gatherer::{Gatherer, IdleCount};
use gauge::StoreGauge;
use in_flight::InFlight;
use publisher::Publisher;
use stages::{Stages, joined};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use visibility::Visibility;

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
    /// Reads what pages say, where related pages are wanted.
    pub said: Option<SaidReader>,
    /// How the texts of documents are kept, where they are.
    pub texts: Option<TextRule>,
    /// Decides over the store's clusters.
    pub decider: Decider,
    /// The store.
    pub store: &'a S,
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
    pub fn run(self) -> Result<Summary, PipelineError> {
        let (poison, stats) = (Arc::clone(&self.poison), Arc::clone(&self.stats));
        let ended = self.stream();
        match &ended {
            Ok(()) => poison.finish(),
            Err(PipelineError::Died(_)) => poison.record_crash(),
            Err(_) => {}
        }
        ended?;
        accounted(stats.summary())
    }

    fn stream(mut self) -> Result<(), PipelineError> {
        let publisher = Publisher::new(self.sink.take(), self.next_seq);
        let (published, is_listening) = (publisher.published(), publisher.is_listening());
        let settings = &self.settings;
        let backpressure = Backpressure::new(settings.in_flight_records_max, settings.in_flight_mib_max << 20);
        let visibility = Visibility::default();
        let gauge = StoreGauge::new(settings.cluster_size_alarm, self.decider.clusters(), Arc::clone(&self.stats));
        let history = open_history(self.store, self.seed, self.decider.clusters(), is_listening)?;
        let prefetcher = self.decider.prefetcher();
        let (in_flight, retired) = InFlight::new();
        let stages = Stages {
            store: self.store,
            settings,
            seed: self.seed,
            stats: &self.stats,
            poison: &self.poison,
            shutdown: &self.shutdown,
            backpressure: &backpressure,
            visibility: &visibility,
        };
        let decider = DecideStage {
            store: self.store,
            decider: self.decider,
            history,
            cache: SketchCache::new(settings.sketch_cache_mib << 20, |sketch| sketch.n_bytes()),
            next_seq: self.next_seq,
            poison: &self.poison,
            gauge,
            visibility: &visibility,
            in_flight,
            closing: None,
        };
        let sketcher = || {
            RecordSketcher::new(self.sketcher.clone(), self.limits.clone(), self.sweep_cut, self.future)
                .with_said(self.said.clone())
                .with_texts(self.texts)
        };
        let repeats = sketcher::Repeats::new(settings.repeat_cache_mib << 20);
        let next_seq = std::thread::scope(|scope| {
            let (committed_out, committed_in) = crossbeam::channel::bounded(64);
            let sketching = (sketcher, &repeats, publisher.wants_originals());
            let (sketched, ingest) = stages.start_sketching(scope, self.source, committed_in, sketching)?;
            let (poison, idle) = (Arc::clone(&self.poison), Arc::new(IdleCount::default()));
            let (requests, publish_time) = (self.close_requests, publisher.time());
            let gatherer = Gatherer::new(sketched, requests, settings, poison, Arc::clone(&idle), publish_time);
            let (prepared, look_ups) = stages.start_look_ups(scope, gatherer, &idle, &prefetcher, &retired)?;
            let (decided, decider) = stages.start_decider(scope, decider, prepared)?;
            let (encoded, encoders) = stages.start_encoders(scope, &decided)?;
            drop((decided, retired));
            let (written, writer) = stages.start_writer(scope, encoded, &published, is_listening)?;
            let (indexed, indexer) = stages.start_indexer(scope, written)?;
            let (events, syncer) = stages.start_syncer(scope, indexed, committed_out)?;
            let publisher = stages.start_publisher(scope, publisher, events)?;
            // A stage that fails closes the channels of the others: the last one's error is the cause, so it is looked at
            // first, and the source's too. A stage that panicked comes before all of them.
            let (published, synced) = (joined("publisher", publisher)?, joined("syncer", syncer)?);
            let (indexed, written) = (joined("indexer", indexer)?, joined("writer", writer)?);
            let decided = joined("decider", decider)?;
            let (ingested, mut source) = joined("ingest", ingest)?;
            look_ups.into_iter().try_for_each(|thread| joined("look-up", thread))?;
            encoders.into_iter().try_for_each(|thread| joined("encoder", thread))?;
            published?;
            let durable = synced?;
            indexed?;
            written?;
            let next_seq = decided?;
            ingested?;
            // Not after an error: if the brokers are unreachable, committing the last offsets would delay the end.
            source.committed(&durable);
            Ok::<u64, PipelineError>(next_seq)
        })?;
        // How far publishing came, so that the next run need not look.
        let published = if is_listening { published.load(Ordering::Acquire) } else { next_seq };
        kill_point!("finishing");
        self.store.commit(&Batch { next_seq, published, ..Batch::default() })?;
        kill_point!("finished");
        Ok(())
    }
}

/// Every record read must have been written. Otherwise a stage that ends early without an error would look like success.
fn accounted(summary: Summary) -> Result<Summary, PipelineError> {
    let (n_read, n_written) = (summary.n_records_read, summary.n_records);
    if n_read == n_written { Ok(summary) } else { Err(PipelineError::Lost { n_read, n_written }) }
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
    use crate::ports::{Incoming, Polled, ProgressMap, SourceError};
    use crate::sketch::SketchRule;
    use crate::wire::{Origin, Record};
    use std::sync::Mutex;
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
            Ok(Polled::Record(Incoming { origin, from: offset, chain: 0, record: Record::Json(json.into_bytes()) }))
        }
    }

    /// Lost once: without a sink, all pages after the publisher had ended, silently.
    #[test]
    fn without_a_sink_every_page_is_taken_in() {
        let store = MemoryStore::default();
        let summary = pipeline(&store, Slow(0..5)).run().expect("runs");
        assert_eq!((summary.n_records_read, summary.n_records), (5, 5));
        assert_eq!(store.rows().urls.len(), 5);
    }

    /// Records the progress that the pipeline reports.
    struct Recording {
        pages: Slow,
        committed: Arc<Mutex<ProgressMap>>,
    }

    impl Source for Recording {
        fn poll(&mut self, timeout: Duration) -> Result<Polled, SourceError> {
            self.pages.poll(timeout)
        }

        fn committed(&mut self, progress: &ProgressMap) {
            self.committed.lock().expect("no panic").extend(progress.clone());
        }
    }

    /// Lost once: the progress of the last batches. After a clean stop the consumer group lagged behind, and a group that had
    /// read a single batch looked as if it had never read, so a missing store was not recognised.
    #[test]
    fn the_last_batch_is_reported_to_the_source() {
        let store = MemoryStore::default();
        let committed: Arc<Mutex<ProgressMap>> = Arc::default();
        let source = Recording { pages: Slow(0..3), committed: Arc::clone(&committed) };
        pipeline(&store, source).run().expect("the stream ends without an error");
        let committed = committed.lock().expect("no panic");
        let next_offsets: Vec<i64> = committed.values().map(|progress| progress.next_offset).collect();
        assert_eq!(next_offsets, [3]);
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
        let store = MemoryStore::with_failing_syncs();
        let ended = pipeline(&store, Endless(Slow(0..1))).run();
        assert!(matches!(ended, Err(PipelineError::Store(_))), "{ended:?}");
    }

    fn pipeline(store: &MemoryStore, source: impl Source + 'static) -> Pipeline<'_, MemoryStore> {
        let (seed, rule) = (Seed([1, 2, 3, 4]), SketchRule::default());
        Pipeline {
            settings: Settings::default(),
            limits: wire::Limits::default(),
            sweep_cut: SweepCut::None,
            future: FutureLimit::NONE,
            seed,
            sketcher: Sketcher::new(&rule, &seed),
            said: None,
            texts: None,
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
