//! Events that another process has published, for a process that follows it.

use super::source::SourceError;
use crate::wire::{Message, Origin};
use std::time::Duration;

/// An event as a reader of committed transactions finds it in the output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedEvent {
    /// Where it stands: the topic of events, the partition, the offset.
    pub place: Origin,
    /// Its number.
    pub seq: u64,
    /// The key, the JSON and the headers, as they came.
    pub message: Message,
}

/// Reads published events. Those of one partition of the output come in order; partitions mix.
pub trait EventReader: Send {
    /// The next event, or none within `timeout`.
    ///
    /// # Errors
    /// [`SourceError`] if the output cannot be read, or holds what is no event.
    fn poll(&mut self, timeout: Duration) -> Result<Option<PublishedEvent>, SourceError>;

    /// Whether everything that is published now was returned.
    fn is_at_end(&self) -> bool;

    /// The messages that the output holds behind those returned, as far as known; transaction markers count.
    fn n_unread(&mut self) -> u64;

    /// Stops or resumes the delivery of a partition of the output.
    fn pause(&mut self, partition: i32, is_paused: bool);

    /// The partitions of the output.
    fn n_partitions(&self) -> usize;
}
