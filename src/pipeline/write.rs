//! The one writer: writes encoded batches in order.

use super::encode::{Encoded, EncodedBatch, ToWrite};
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
                let done = match encoded? {
                    Encoded::Batch(batch) => self.write(*batch)?,
                    Encoded::Closed(reply, closed, next_seq) => {
                        (Written { closed: Some((reply, closed, next_seq)), ..Written::default() }, None)
                    }
                };
                if out.send(done).is_err() {
                    return Ok(());
                }
                kill_point!("handed-over");
            }
        }
        Ok(())
    }

    fn write(&self, batch: EncodedBatch<S::Encoded>) -> Result<ToIndex<S>, PipelineError> {
        let EncodedBatch { encoded, n_records, counts, deciding, progress, outbox, next_seq } = batch;
        let begin = Instant::now();
        let published = if self.is_listening { self.published.load(Ordering::Acquire) } else { next_seq };
        let written = self.store.write(encoded, published)?;
        self.poison.count_written(n_records);
        kill_point!("written");
        let writing = begin.elapsed();
        Ok((Written { n_records, counts, deciding, writing, progress, outbox, closed: None }, Some(written)))
    }
}
