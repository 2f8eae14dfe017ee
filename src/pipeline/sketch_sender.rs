//! Sends sketched records in the order of their arrival, and keeps count of what is acknowledged.

use super::backpressure::Backpressure;
use super::error::PipelineError;
use super::sequencer::{Sequencer, Ticketed};
use super::sketched_record::{SketchedChunk, SketchedRecord};
use super::stats::Stats;
use crate::document::Fingerprint;
use crate::intake::{SketchHeader, SketchMessage};
use crate::ports::{Acknowledged, ProgressMap, SinkError, SketchSink, StopReason};
use crossbeam::channel::{Receiver, RecvTimeoutError, Sender};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long to wait for records before looking for acknowledgements.
const ACKNOWLEDGEMENT_POLL: Duration = Duration::from_millis(5);

/// How long to wait for acknowledgements after a request to shut down. What is not acknowledged is sketched again.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// The last stage of a sketcher.
pub(super) struct SketchSender<'a> {
    sink: Box<dyn SketchSink>,
    rule: Fingerprint,
    backpressure: &'a Backpressure,
    stats: &'a Stats,
    /// What is acknowledged, by partition.
    pub acknowledged: ProgressMap,
    /// Whether the source does not know of some of it.
    is_news: bool,
    n_unacknowledged: usize,
}

impl<'a> SketchSender<'a> {
    /// A sender of sketches that are made under the settings with this id.
    pub fn new(sink: Box<dyn SketchSink>, rule: Fingerprint, backpressure: &'a Backpressure, stats: &'a Stats) -> Self {
        let acknowledged = ProgressMap::new();
        SketchSender { sink, rule, backpressure, stats, acknowledged, is_news: false, n_unacknowledged: 0 }
    }

    /// Runs until no more records come, and all of them are acknowledged.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn run(
        &mut self,
        sketched: &Receiver<Ticketed<SketchedChunk>>,
        committed: &Sender<ProgressMap>,
        shutdown: &AtomicBool,
    ) -> Result<(), PipelineError> {
        let mut sequencer = Sequencer::new();
        loop {
            match sketched.recv_timeout(ACKNOWLEDGEMENT_POLL) {
                Ok(ticketed) => sequencer.push(ticketed),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            while let Some(chunk) = sequencer.pop() {
                chunk.records.into_iter().try_for_each(|record| self.send(record))?;
            }
            self.collect(Duration::ZERO)?;
            if self.is_news {
                // A source that is busy hears of it next time.
                self.is_news = committed.try_send(self.acknowledged.clone()).is_err();
            }
        }
        self.flush(shutdown)
    }

    fn send(&mut self, record: SketchedRecord) -> Result<(), SinkError> {
        let (offset, next) = (record.origin.offset, record.next_offset());
        if let Err(rejection) = &record.outcome {
            self.stats.reject(&record.origin, rejection);
        }
        let SketchedRecord { origin, from, chain, outcome, original, .. } = record;
        let mut message = SketchMessage { header: SketchHeader { from, offset, next, chain }, outcome, original };
        let (rule, mut is_whole) = (self.rule, true);
        let mut forms = std::iter::from_fn(|| {
            if !std::mem::take(&mut is_whole) {
                message.original = Some(Box::new(message.original.as_ref()?.reduced()?));
            }
            Some(message.encode(rule))
        });
        self.n_unacknowledged += 1;
        kill_point!("sketch-sent");
        self.sink.send(&origin, next, &mut forms)
    }

    fn collect(&mut self, wait: Duration) -> Result<(), SinkError> {
        let Acknowledged { n_records, progress } = self.sink.acknowledged(wait)?;
        if n_records > 0 {
            kill_point!("sketch-acknowledged");
            self.acknowledged.extend(progress);
            self.is_news = true;
            self.n_unacknowledged -= n_records;
            self.backpressure.release_records(n_records);
            self.stats.acknowledged(n_records);
        }
        Ok(())
    }

    /// Waits for what is not acknowledged. The sink gives up on a message in time.
    fn flush(&mut self, shutdown: &AtomicBool) -> Result<(), PipelineError> {
        let mut asked_to_stop = None;
        while self.n_unacknowledged > 0 {
            self.collect(ACKNOWLEDGEMENT_POLL)?;
            let is_stopping = shutdown.load(Ordering::Relaxed);
            let since = is_stopping.then(|| *asked_to_stop.get_or_insert_with(Instant::now));
            if since.is_some_and(|since| since.elapsed() > SHUTDOWN_GRACE) {
                let message = format!(
                    "{} sketches were not acknowledged in time; start again: their pages are read again",
                    self.n_unacknowledged
                );
                return Err(SinkError { stop_reason: StopReason::Unreachable, message }.into());
            }
        }
        Ok(())
    }
}
