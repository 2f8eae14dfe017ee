//! Files and pipes as sources of records and sinks of events.
//!
//! ```text
//! path or stdin ─▶ compression ─▶ format ─▶ jsonl ┐
//!                  gzip, zstd     sniffed   warc  ┴▶ source: skip records read before, number, chain
//!                                                  copy: some of the records again, as they came ─▶ record writer
//! ```

mod chain;
mod compression;
mod copy;
mod events;
mod format;
mod http_body;
mod inputs;
mod jsonl;
mod read_error;
mod record_reader;
mod record_writer;
mod source;
mod stream;
mod warc;
mod warc_date;
mod warc_stream;

pub use copy::{CopyError, CopyFormat, CopyJob, RecordCopier};
pub use events::{EventFile, EventStdout};
pub use http_body::decode_content;
pub use inputs::{InputError, NamedFile, input_files, named_files};
pub use source::{FileSource, Input, ReadProgress};
pub use warc::parse_warc_page;
