//! Files and pipes as sources of records and sinks of events and tables.
//!
//! ```text
//! path or stdin ─▶ compression ─▶ format ─▶ jsonl ┐
//!                  gzip, zstd     sniffed   warc  ┼▶ source: skip records read before, number, chain
//!                                        parquet  ┘
//! ```

mod chain;
mod compression;
mod events;
mod format;
mod http_body;
mod inputs;
mod jsonl;
mod new_file;
mod page_columns;
mod parquet_reader;
mod parquet_writer;
mod read_error;
mod record_reader;
mod source;
mod stream;
mod warc;
mod warc_date;
mod warc_stream;

pub use events::{EventFile, EventStdout};
pub use http_body::decode_content;
pub use inputs::{InputError, input_files};
pub use new_file::NewFile;
pub use parquet_writer::{ColumnKind, ParquetWriter};
pub use source::{FileSource, Input, ReadProgress};
pub use warc::parse_warc_page;
