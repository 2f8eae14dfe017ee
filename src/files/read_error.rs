//! Why a file cannot be read any further, and what to do about it.

use std::io;

/// Why a file cannot be read any further.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    /// The system or the decompressor says so.
    #[error("{0}; check the file, fetch it again if it was cut short or damaged, and run again")]
    Io(#[from] io::Error),
    /// JSONL that stops in the middle of a line.
    #[error("the last line is incomplete; it will be taken when the file has grown, or fix it")]
    UnfinishedLine,
    /// WARC that stops in the middle of a record.
    #[error(
        "the file ends after {n_bytes} of the record's {declared} bytes; it will be taken when the file has grown, or \
         fetch the file again"
    )]
    UnfinishedRecord {
        /// What is there of the record's block.
        n_bytes: u64,
        /// What its header promises.
        declared: u64,
    },
    /// WARC that stops in the middle of a header.
    #[error("the file ends in a record's header; it will be taken when the file has grown, or fetch the file again")]
    UnfinishedHeader,
    /// Something else than JSONL or WARC.
    #[error("it is {0}")]
    Format(&'static str),
    /// Not the file that was read before.
    #[error(
        "it is not the file that was read before: its first {n_records} records differ; give the new file another name"
    )]
    Replaced {
        /// Records that were read before.
        n_records: i64,
    },
    /// Fewer records than were read before.
    #[error(
        "it is not the file that was read before: it has only {n_found} of the {n_records} records read; give the new \
         file another name"
    )]
    Shorter {
        /// Records that are there.
        n_found: i64,
        /// Records that were read before.
        n_records: i64,
    },
}

impl ReadError {
    /// The same of a message that holds what a file could.
    pub(super) fn message_text(&self) -> String {
        match self {
            ReadError::Io(error) => error.to_string(),
            ReadError::UnfinishedRecord { n_bytes, declared } => {
                format!("it ends after {n_bytes} of the record's {declared} bytes")
            }
            ReadError::UnfinishedHeader => "it ends in the record's header".into(),
            ReadError::UnfinishedLine
            | ReadError::Format(_)
            | ReadError::Replaced { .. }
            | ReadError::Shorter { .. } => self.to_string(),
        }
    }
}
