//! What others may ask of the one writer.

use crate::history::ClosedSweep;
use std::time::Duration;

/// Why a sweep that somebody else is asked to close is not known to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseFailure {
    /// No page names it.
    Unknown,
    /// Too many others are asked for already.
    Busy,
    /// It is being closed, or will be; who asked waited no longer.
    Late,
    /// Whoever writes has ended, or ends; what was marked by then stays, and closing it again goes on.
    Ended,
}

/// Has the one who writes to a store close its sweeps.
pub trait SweepCloser: Send + Sync {
    /// Marks as lost what a sweep should have seen and did not. When it returns, that is durable, and the second number is
    /// that of the next event.
    ///
    /// # Errors
    /// [`CloseFailure`]
    fn close(&self, sweep: &str, patience: Duration) -> Result<(ClosedSweep, u64), CloseFailure>;
}
