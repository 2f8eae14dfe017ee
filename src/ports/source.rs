//! Where input records come from.

use super::stop_reason::StopReason;
use crate::document::FetchTime;
use crate::wire::{Origin, Record};
use std::collections::HashMap;
use std::time::Duration;

/// How much of a partition the store has ingested.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The offset of the first record not yet ingested.
    pub next_offset: i64,
    /// A chained fingerprint of the ingested records. A file can change between two runs; the source compares the
    /// chain when it skips these records again. 0 for sources other than files.
    pub chain: u64,
}

/// The progress in every (source, partition).
pub type ProgressMap = HashMap<(String, i32), Progress>;

/// Where to start sources without progress: at the first record of this time or later.
pub type StartTimes = HashMap<String, FetchTime>;

/// A record from a source, with its origin.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// Source, partition and offset of the record.
    pub origin: Origin,
    /// Where the source stood in the partition before it: at the record's offset, or before offsets without records.
    pub from: i64,
    /// [`Progress::chain`] after this record.
    pub chain: u64,
    /// The record's contents.
    pub record: Record,
}

/// The answer of a source to one poll.
#[derive(Debug)]
pub enum Polled {
    /// The next record.
    Record(Incoming),
    /// No record within the timeout.
    Idle,
    /// Part of the input cannot be read; the source continues with the rest. The text names the place and what to do.
    Unreadable(String),
    /// End of input.
    End,
}

/// Some records in their order, or a part of the input that cannot be read.
#[derive(Debug)]
pub enum Chunk<R> {
    /// Records.
    Records(Vec<R>),
    /// Why a part of the input cannot be read.
    Unreadable(String),
}

impl<R> Chunk<R> {
    /// Turns every record into something else.
    pub fn map<T>(self, change: impl FnMut(R) -> T) -> Chunk<T> {
        match self {
            Chunk::Records(records) => Chunk::Records(records.into_iter().map(change).collect()),
            Chunk::Unreadable(what) => Chunk::Unreadable(what),
        }
    }
}

/// The source cannot continue.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct SourceError {
    /// The kind of failure.
    pub stop_reason: StopReason,
    /// What happened, and what to do.
    pub message: String,
}

impl SourceError {
    /// Creates an error of the kind [`StopReason::Failed`].
    pub fn new(message: impl Into<String>) -> Self {
        SourceError { stop_reason: StopReason::Failed, message: message.into() }
    }
}

/// The value of a metric that an adapter exports.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The metric's name.
    pub name: &'static str,
    /// The metric's labels.
    pub labels: Vec<(&'static str, String)>,
    /// The current value.
    pub value: f64,
}

impl Reading {
    /// Creates a reading.
    pub fn new(name: &'static str, labels: Vec<(&'static str, String)>, value: f64) -> Self {
        Reading { name, labels, value }
    }
}

/// An input of records. The records of one partition arrive in the order of their offsets.
pub trait Source: Send {
    /// Returns the next record, or [`Polled::Idle`] after `timeout`.
    ///
    /// # Errors
    /// [`SourceError`] if the whole source is lost. Input that can be skipped is [`Polled::Unreadable`] instead.
    fn poll(&mut self, timeout: Duration) -> Result<Polled, SourceError>;

    /// Stops or resumes the delivery of a partition, for a reader that has enough of it for now. A source that cannot
    /// do so goes on.
    fn pause(&mut self, partition: i32, is_paused: bool) {
        let _ = (partition, is_paused);
    }

    /// Reports durable progress to external lag monitors, such as Kafka's own tools. Recovery does not depend on it.
    fn committed(&mut self, progress: &ProgressMap) {
        let _ = progress;
    }

    /// The number of records left before the end of the source, if known.
    fn lag(&mut self) -> Option<u64> {
        None
    }

    /// The metrics that changed since the last call.
    fn readings(&mut self) -> Vec<Reading> {
        Vec::new()
    }
}
