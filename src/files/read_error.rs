//! Why a file cannot be read any further, and what to do about it.

use std::io;

/// Why a file cannot be read any further.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    /// The system or the decompressor failed.
    #[error("{0}; check the file, fetch it again if it was truncated or damaged, and run again")]
    Io(#[from] io::Error),
    /// JSONL that ends within a line.
    #[error("the last line is incomplete; run again once the file has grown, or complete the line")]
    UnfinishedLine,
    /// WARC that ends within a record.
    #[error(
        "the file ends after {n_bytes} of the record's {declared} bytes; run again once the file has \
         grown, or fetch it again"
    )]
    UnfinishedRecord {
        /// How many bytes of the record's block are there.
        n_bytes: u64,
        /// How many its header promises.
        declared: u64,
    },
    /// WARC that ends within a header.
    #[error("the file ends in a record's header; run again once the file has grown, or fetch it again")]
    UnfinishedHeader,
    /// A format that cannot be read.
    #[error("it is {0}")]
    Format(&'static str),
    /// A JSON array that ends before its bracket.
    #[error("the JSON array is cut off: it ends without its closing bracket; fetch the file again, or complete it")]
    UnfinishedArray,
    /// A table that ends within a row.
    #[error("the last row is incomplete; run again once the file has grown, or complete the row")]
    UnfinishedRow,
    /// A table that may still be written and ends without a line end.
    #[error(
        "the last row has no line end, so that it may be cut; it is read once the file has grown: end it with a line end \
         if it is whole"
    )]
    UnendedRow,
    /// A file that is not what it says, or lacks what its pages need.
    #[error("{0}")]
    Unusable(String),
    /// Parquet that cannot be decoded.
    #[error("the Parquet file is cut or damaged ({0}); fetch it again")]
    Parquet(String),
    /// Another file than the one read before.
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
        /// Records in the file.
        n_found: i64,
        /// Records that were read before.
        n_records: i64,
    },
}

impl ReadError {
    /// The error for a message that holds what a file could: without advice about files.
    pub(super) fn message_text(&self) -> String {
        match self {
            ReadError::Io(error) => error.to_string(),
            ReadError::UnfinishedRecord { n_bytes, declared } => {
                format!("it ends after {n_bytes} of the record's {declared} bytes")
            }
            ReadError::UnfinishedHeader => "it ends in the record's header".into(),
            ReadError::UnfinishedLine
            | ReadError::Format(_)
            | ReadError::UnfinishedArray
            | ReadError::UnfinishedRow
            | ReadError::UnendedRow
            | ReadError::Unusable(_)
            | ReadError::Parquet(_)
            | ReadError::Replaced { .. }
            | ReadError::Shorter { .. } => self.to_string(),
        }
    }
}
