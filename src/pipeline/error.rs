//! Why the stream ends early.

use crate::ports::{SinkError, SourceError, StoreError};

/// Why the stream ended before its source did.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// The source cannot go on.
    #[error("pages cannot be read")]
    Source(#[from] SourceError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The sink failed.
    #[error("events cannot be published")]
    Sink(#[from] SinkError),
    /// The thread of a stage panicked.
    #[error("the stage `{0}` crashed, which is a bug; the message above says more")]
    Died(&'static str),
    /// Records were lost between source and store.
    #[error(
        "{n_read} records were read, but only {n_written} written; this is a fault of the program: run again, what is \
         missing is read then"
    )]
    Lost {
        /// Records read from the source.
        n_read: u64,
        /// Records that are durable.
        n_written: u64,
    },
    /// A batch has other events than were numbered.
    #[error("a batch has {n} events where {n_planned} were numbered, which is a bug; what was taken in is durable")]
    Miscounted {
        /// Events that were numbered.
        n_planned: u64,
        /// Events that were described.
        n: u64,
    },
    /// A stage ended before the source did, without an error.
    #[error(
        "a stage of the stream ended before the pages did, which is a bug; what was taken in is durable: run again"
    )]
    CutOff,
}
