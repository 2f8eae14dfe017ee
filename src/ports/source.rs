//! Where records come from.

use super::stop_reason::StopReason;
use crate::document::FetchTime;
use crate::wire::{Origin, Record};
use std::collections::HashMap;
use std::time::Duration;

/// How far a partition of a source has been taken in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The offset of the first record not yet taken.
    pub next_offset: i64,
    /// A chained fingerprint of the records taken, where the source can be replaced behind our back (files): the
    /// source compares it when it reads past them again. 0 elsewhere.
    pub chain: u64,
}

/// How far every (source, partition) has been taken in.
pub type ProgressMap = HashMap<(String, i32), Progress>;

/// When sources begin that nothing was taken of yet: with the first record of this time or later.
pub type StartTimes = HashMap<String, FetchTime>;

/// A record, its name, and the progress of its partition once it is taken in.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// Where it came from.
    pub origin: Origin,
    /// [`Progress::chain`] after this record.
    pub chain: u64,
    /// What it is.
    pub record: Record,
}

/// What a source has to say when asked.
#[derive(Debug)]
pub enum Polled {
    /// A record.
    Record(Incoming),
    /// Nothing just now.
    Idle,
    /// Part of the input cannot be read; the source goes on with the rest. The text names the place and what to do.
    Unreadable(String),
    /// Nothing more, ever.
    End,
}

/// A source that cannot go on.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct SourceError {
    /// What kind of stop it is.
    pub stop_reason: StopReason,
    /// What happened, and what to do.
    pub message: String,
}

impl SourceError {
    /// One of no particular kind.
    pub fn new(message: impl Into<String>) -> Self {
        SourceError { stop_reason: StopReason::Failed, message: message.into() }
    }
}

/// A number that an adapter tells of itself, for the metrics endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The metric's name.
    pub name: &'static str,
    /// Its labels.
    pub labels: Vec<(&'static str, String)>,
    /// The number now.
    pub value: f64,
}

impl Reading {
    /// One of these.
    pub fn new(name: &'static str, labels: Vec<(&'static str, String)>, value: f64) -> Self {
        Reading { name, labels, value }
    }
}

/// Where records come from, partition by partition in order of their offsets.
pub trait Source: Send {
    /// The next record, waiting for it no longer than `timeout`.
    ///
    /// # Errors
    /// [`SourceError`] where the whole source is lost; what can be passed over is [`Polled::Unreadable`].
    fn poll(&mut self, timeout: Duration) -> Result<Polled, SourceError>;

    /// Is told what is durable, for those who keep score outside (Kafka's lag tools). Not a promise of anything.
    fn committed(&mut self, progress: &ProgressMap) {
        let _ = progress;
    }

    /// How far behind the source's end it is, in records, where that is known.
    fn lag(&mut self) -> Option<u64> {
        None
    }

    /// What there is to tell since it was asked last.
    fn readings(&mut self) -> Vec<Reading> {
        Vec::new()
    }
}
