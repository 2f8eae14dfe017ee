//! Where published events go.

use super::source::Reading;
use super::stop_reason::StopReason;
use crate::wire::Outgoing;
use std::collections::HashMap;

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
