//! Where published events go.

use super::source::{ProgressMap, Reading};
use super::stop_reason::StopReason;
use crate::wire::{Origin, Outgoing};
use std::collections::HashMap;
use std::time::Duration;

/// What a store remembers about a topic that it publishes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputNote {
    /// The number of partitions when the store first published there.
    pub n_partitions: u32,
    /// Whether the topic is complete, as if every event of the store had gone there.
    pub is_whole: bool,
}

/// The topics that a store publishes to, by name.
pub type OutputNotes = HashMap<String, OutputNote>;

/// The sink cannot accept an event.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct SinkError {
    /// The kind of failure.
    pub stop_reason: StopReason,
    /// What happened, and what to do.
    pub message: String,
}

impl SinkError {
    /// Creates an error of the kind [`StopReason::Failed`].
    pub fn new(message: impl Into<String>) -> Self {
        SinkError { stop_reason: StopReason::Failed, message: message.into() }
    }
}

/// An output for events, which arrive in the order of their sequence numbers.
pub trait Sink: Send {
    /// The sequence number of the last event in the output, if the sink can find out. A process that crashed after
    /// publishing learns here what it published.
    ///
    /// # Errors
    /// [`SinkError`] if the output cannot be read.
    fn last_seq(&mut self) -> Result<Option<u64>, SinkError>;

    /// Publishes events. On return they are durable in the output.
    ///
    /// # Errors
    /// [`SinkError`]; some of the events may be in the output nevertheless.
    fn publish(&mut self, events: &[Outgoing]) -> Result<(), SinkError>;

    /// The metrics that changed since the last call.
    fn readings(&mut self) -> Vec<Reading> {
        Vec::new()
    }

    /// Whether the sink uses [`Outgoing::original`]. Otherwise the store does not keep originals.
    fn wants_originals(&self) -> bool {
        false
    }
}

/// What the output of sketches has confirmed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acknowledged {
    /// Records.
    pub n_records: usize,
    /// Behind the last of them in each partition. Everything that was sent before it is confirmed, too.
    pub progress: ProgressMap,
}

/// An output for sketched records, for the process that owns the store.
pub trait SketchSink: Send {
    /// Sends the message of a record: the first of its forms, or, where that is too large for the output, the next one. The
    /// messages of one partition arrive in the order in which they were sent. `next` is where the partition goes on after
    /// the record.
    ///
    /// # Errors
    /// [`SinkError`]; the message may be in the output nevertheless.
    fn send(&mut self, origin: &Origin, next: i64, forms: &mut dyn Iterator<Item = Vec<u8>>) -> Result<(), SinkError>;

    /// What was confirmed since the last call; waits at most `wait` for it.
    ///
    /// # Errors
    /// [`SinkError`] once a message could not be delivered.
    fn acknowledged(&mut self, wait: Duration) -> Result<Acknowledged, SinkError>;
}
