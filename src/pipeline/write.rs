//! The one writer: writes encoded batches in order.

use super::encode::{EncodedBatch, ToWrite};
use super::error::PipelineError;
use super::poison::PoisonTracker;
use super::sequencer::Sequencer;
use super::syncer::Written;
use crate::ports::Store;
use crossbeam::channel::{Receiver, Sender};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Writes.
pub(super) struct Writer<'a, S> {
    pub store: &'a S,
    /// Events below this number are out.
    pub published: &'a AtomicU64,
    /// Whether there is a sink; without one no events are kept.
    pub is_listening: bool,
    pub poison: &'a PoisonTracker,
}

/// A written batch on its way to the indexer; none after a sweep was closed.
pub(super) type ToIndex<S> = (Written, Option<<S as Store>::Written>);

impl<S: Store> Writer<'_, S> {
    /// Runs until no more batches come, or the indexer has ended.
    pub fn run(self, work: &Receiver<ToWrite<S>>, out: &Sender<ToIndex<S>>) -> Result<(), PipelineError> {
        let mut sequencer = Sequencer::new();
        for ticketed in work {
            sequencer.push(ticketed);
            while let Some(encoded) = sequencer.pop() {
                if out.send(self.write(encoded?)?).is_err() {
                    return Ok(());
                }
                kill_point!("handed-over");
            }
        }
        Ok(())
    }

    fn write(&self, batch: EncodedBatch<S::Encoded>) -> Result<ToIndex<S>, PipelineError> {
        let EncodedBatch { rows, mut outcome } = batch;
        let Some((rows, next_seq)) = rows else { return Ok((outcome, None)) };
        let begin = Instant::now();
        let published = if self.is_listening { self.published.load(Ordering::Acquire) } else { next_seq };
        let written = self.store.write(rows, published)?;
        self.poison.count_written(outcome.n_records);
        kill_point!("written");
        outcome.writing = begin.elapsed();
        Ok((outcome, Some(written)))
    }
}
