//! Files and pipes as sources of records and sinks of events.
//!
//! ```text
//! path or stdin ─▶ compression ─▶ format ─▶ jsonl ┐
//!                  gzip, zstd     sniffed   warc  ┴▶ source: skip what was read before, number, chain
//! ```

mod chain;
mod compression;
mod events;
mod format;
mod http_body;
mod inputs;
mod jsonl;
mod source;
mod warc;
mod warc_date;
mod warc_stream;

pub use events::{EventFile, EventStdout};
pub use http_body::undo_codings;
pub use inputs::{InputError, input_files};
pub use source::{FileSource, Input, ReadProgress};
pub use warc::page_of_warc;

use crate::wire::Record;
use std::io::{self, BufRead, Read};

/// A stream of bytes from anywhere.
type Stream = Box<dyn Read + Send>;

/// What a file holds, record by record.
trait Records: Send {
    /// Reads the next record, whose chained fingerprint follows on `chain`.
    ///
    /// # Errors
    /// [`ReadError`] where the file cannot be read any further; it is then not to be asked again.
    fn advance(&mut self, chain: u64) -> Result<Advance, ReadError>;

    /// The record that was read last, once. Apart from [`Records::advance`] because records that are only passed over
    /// need not be decoded.
    fn take(&mut self) -> Record;
}

/// Where reading on has led.
#[derive(Debug, PartialEq, Eq)]
enum Advance {
    /// To a record, with the chained fingerprint after it.
    Record(u64),
    /// Past something that is no record; the text says what.
    Gap(String),
    /// To the end of the file.
    End,
}

/// Why a file cannot be read any further.
#[derive(Debug, thiserror::Error)]
enum ReadError {
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
    fn of_message(&self) -> String {
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

/// The buffer of a reader, never empty but at its end; interrupted system calls are tried again.
fn filled<R: BufRead + ?Sized>(reader: &mut R) -> io::Result<&[u8]> {
    while let Err(error) = reader.fill_buf() {
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // Asked twice for the borrow checker's sake: a filled buffer answers at once.
    reader.fill_buf()
}
