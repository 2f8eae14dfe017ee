//! Where events go.

use super::source::Reading;
use super::stop_reason::StopReason;
use crate::wire::Outgoing;
use std::collections::HashMap;

/// What a store remembers of a topic that it publishes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputNote {
    /// How many partitions it had when the store first published there.
    pub n_partitions: u32,
    /// Whether it holds all that it would, had every event of the store gone there.
    pub is_whole: bool,
}

/// Topics that a store publishes to, by name.
pub type OutputNotes = HashMap<String, OutputNote>;

/// A sink that cannot take an event.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct SinkError {
    /// What kind of stop it is.
    pub stop_reason: StopReason,
    /// What happened, and what to do.
    pub message: String,
}

impl SinkError {
    /// One of no particular kind.
    pub fn new(message: impl Into<String>) -> Self {
        SinkError { stop_reason: StopReason::Failed, message: message.into() }
    }
}

/// Where events go, in the order of their sequence.
pub trait Sink: Send {
    /// The sequence number of the last event out there, where the sink can tell: whoever published it need not
    /// remember having done so.
    ///
    /// # Errors
    /// [`SinkError`] where the output cannot be read.
    fn last_seq(&mut self) -> Result<Option<u64>, SinkError>;

    /// Publishes events; when it returns, they are durable out there.
    ///
    /// # Errors
    /// [`SinkError`]; some of the events may be out there nevertheless.
    fn publish(&mut self, events: &[Outgoing]) -> Result<(), SinkError>;

    /// What there is to tell since it was asked last.
    fn readings(&mut self) -> Vec<Reading> {
        Vec::new()
    }

    /// Whether it has a use for [`Outgoing::original`]; if not, originals are not even stored.
    fn wants_originals(&self) -> bool {
        false
    }
}
