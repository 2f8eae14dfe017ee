//! The stream of a sketcher: from a source's records to sketches that the owner of the store takes. It has no store.
//!
//! ```text
//! ingest ─▶ sketcher ×n ─▶ sender
//! source    pure, parallel  restores the order; tells the source what is acknowledged
//! ```

use super::backpressure::Backpressure;
use super::error::PipelineError;
use super::ingest;
use super::poison::PoisonTracker;
use super::settings::Settings;
use super::sketch_sender::SketchSender;
use super::sketcher::{self, Repeats};
use super::stages::{CHUNKS_WAITING, joined, spawn, threads};
use super::stats::{Stats, Summary};
use crate::document::Fingerprint;
use crate::intake::{FutureLimit, RecordSketcher, TextRule};
use crate::ports::{SketchSink, Source};
use crate::related::SaidReader;
use crate::sketch::Sketcher;
use crate::sweep::SweepCut;
use crate::wire::Limits;
use crossbeam::channel::bounded;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Everything that the stream of a sketcher is made of.
pub struct SketchStream {
    /// Sizes.
    pub settings: Settings,
    /// Limits of a record.
    pub limits: Limits,
    /// The sweeps of pages that name none.
    pub sweep_cut: SweepCut,
    /// How far ahead of the clock pages may be dated.
    pub future: FutureLimit,
    /// Sketches by the rule and the secret of the owner's store.
    pub sketcher: Sketcher,
    /// Reads what pages say, where related pages are wanted.
    pub said: Option<SaidReader>,
    /// How the texts of documents are kept, where they are.
    pub texts: Option<TextRule>,
    /// The id of all settings that the owner must share.
    pub rule: Fingerprint,
    /// Whether the originals of rejected messages go along, for dead letters.
    pub keeps_originals: bool,
    /// Where records come from. [`Source::committed`] tells it what is acknowledged.
    pub source: Box<dyn Source>,
    /// Where sketches go.
    pub sink: Box<dyn SketchSink>,
    /// Set from outside to end the stream cleanly.
    pub shutdown: Arc<AtomicBool>,
    /// The counts of the run.
    pub stats: Arc<Stats>,
}

impl SketchStream {
    /// Runs until the source ends or the shutdown is set.
    ///
    /// # Errors
    /// [`PipelineError`]. The source was told of nothing that is not acknowledged; the next run goes on from there.
    pub fn run(self) -> Result<Summary, PipelineError> {
        let SketchStream { settings, source, sink, shutdown, stats, .. } = self;
        let backpressure = Backpressure::new(settings.in_flight_records_max, settings.in_flight_mib_max << 20);
        let repeats = Repeats::new(settings.repeat_cache_mib << 20);
        let poison = PoisonTracker::default();
        let n_sketchers = threads(settings.sketchers, 1);
        let (work_out, work_in) = bounded(CHUNKS_WAITING * n_sketchers);
        let (done_out, done_in) = bounded(settings.in_flight_records_max);
        let (committed_out, committed_in) = bounded(1);
        let (backpressure, repeats, poison, stats_in) = (&backpressure, &repeats, &poison, &*stats);
        std::thread::scope(|scope| {
            let is_shut_down = &*shutdown;
            let ingest = spawn(scope, "ingest", move || {
                let _closer = backpressure.closer();
                let mut source = source;
                let ended =
                    ingest::run(source.as_mut(), &work_out, &committed_in, backpressure, is_shut_down, stats_in);
                (ended, source)
            })?;
            for _ in 0..n_sketchers {
                let (work_in, done_out) = (work_in.clone(), done_out.clone());
                let sketcher =
                    RecordSketcher::new(self.sketcher.clone(), self.limits.clone(), self.sweep_cut, self.future)
                        .with_said(self.said.clone())
                        .with_texts(self.texts);
                let keeps_originals = self.keeps_originals;
                let run = move || {
                    sketcher::run(
                        sketcher,
                        (),
                        &work_in,
                        &done_out,
                        keeps_originals,
                        repeats,
                        backpressure,
                        stats_in,
                        poison,
                    );
                };
                spawn(scope, "sketcher", run)?;
            }
            drop((work_in, done_out));
            let rule = self.rule;
            let sender = spawn(scope, "sender", move || {
                let _closer = backpressure.closer();
                let mut sender = SketchSender::new(sink, rule, backpressure, stats_in);
                let ended = sender.run(&done_in, &committed_out, is_shut_down);
                (ended, sender.acknowledged)
            })?;
            let (sent, acknowledged) = joined("sender", sender)?;
            let (ingested, mut source) = joined("ingest", ingest)?;
            source.committed(&acknowledged);
            drop(source);
            sent?;
            ingested
        })?;
        Ok(stats.summary())
    }
}
