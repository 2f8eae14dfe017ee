//! What other threads ask of the one writer of a store.

use crate::history::ClosedSweep;
use std::time::Duration;

/// Why a request to close a sweep ended without a confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseFailure {
    /// No page names the sweep.
    Unknown,
    /// Too many close requests are waiting.
    Busy,
    /// The caller's patience ran out. The writer still closes the sweep.
    Late,
    /// The writer has stopped or is stopping. URLs marked so far stay marked; closing the sweep again resumes.
    Ended,
}

/// How much of closing a sweep is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClosingPart {
    /// All that is left to do.
    Rest,
    /// The next batch: it marks some URLs, or ends the sweep where none are left.
    Batch,
}

/// Asks the writer of a store to close a sweep.
pub trait SweepCloser: Send + Sync {
    /// Marks as lost what `part` says of the URLs that the sweep should have seen and did not. On return the result is
    /// durable. The number returned is the sequence number of the next event.
    ///
    /// # Errors
    /// [`CloseFailure`]
    fn close(&self, sweep: &str, part: ClosingPart, patience: Duration) -> Result<(ClosedSweep, u64), CloseFailure>;
}
