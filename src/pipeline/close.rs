//! Closes a sweep of a store that no stream writes to.

use super::batch::{add_counts, closing_batch, open_history};
use crate::cluster::Decider;
use crate::document::Seed;
use crate::history::{ClosedSweep, SweepClosing};
use crate::ports::{Batch, Sink, SinkError, Store, StoreError};

/// Why a sweep was not closed. What was marked before stays; closing it again goes on.
#[derive(Debug, thiserror::Error)]
pub enum CloseError {
    /// No page names it.
    #[error("there is no sweep {0:?}; `lookalike sweep list` shows the sweeps there are")]
    Unknown(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The sink failed.
    #[error("events cannot be published")]
    Sink(#[from] SinkError),
}

/// Closes a sweep of a store that nothing else writes to.
pub struct OfflineCloser<'a, S: Store> {
    /// The store.
    pub store: &'a S,
    /// Decides over the store's clusters.
    pub decider: Decider,
    /// The store's secret.
    pub seed: Seed,
    /// The next event's number.
    pub next_seq: u64,
    /// Where events go; none: no events are kept.
    pub sink: Option<Box<dyn Sink>>,
}

impl<S: Store> OfflineCloser<'_, S> {
    /// Marks as lost every URL that was alive before the sweep began, on a host that the sweep visited, and was not seen
    /// until it ended. The mark is dated at the sweep's beginning, so a page of the sweep that comes late undoes it.
    ///
    /// # Errors
    /// [`CloseError`]
    pub fn close(mut self, name: &str) -> Result<ClosedSweep, CloseError> {
        let is_listening = self.sink.is_some();
        let mut history = open_history(self.store, self.seed, self.decider.clusters(), is_listening)?;
        let closing = SweepClosing::begin(self.store, name, &history)?;
        let mut closing = closing.ok_or_else(|| CloseError::Unknown(name.to_string()))?;
        let mut has_written = false;
        while let Some(batch) = closing.next(self.store, &mut self.decider, &mut history)? {
            let (mut batch, outbox) = closing_batch(name, batch, self.next_seq, is_listening);
            add_counts(&mut batch, &history, self.decider.clusters());
            self.commit(Batch { outbox, ..batch })?;
            has_written = true;
        }
        if has_written {
            self.commit(Batch { next_seq: self.next_seq, ..Batch::default() })?;
        }
        Ok(closing.closed())
    }

    /// Writes a batch, then publishes its events. The events of the batch before are out by then.
    fn commit(&mut self, mut batch: Batch) -> Result<(), CloseError> {
        batch.published = if self.sink.is_some() { self.next_seq } else { batch.next_seq };
        self.next_seq = batch.next_seq;
        self.store.commit(&batch)?;
        if let Some(sink) = &mut self.sink
            && !batch.outbox.is_empty()
        {
            sink.publish(&batch.outbox)?;
        }
        Ok(())
    }
}
