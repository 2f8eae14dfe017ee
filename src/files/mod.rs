//! Files and pipes as sources of records and sinks of events and tables.
//!
//! ```text
//! path, URL     ─▶ compression ─▶ format ─▶ jsonl, json_array, table, page_file ┐
//! or stdin         gzip, zstd,    sniffed   warc, arc, wacz ─▶ archive_record    ┼▶ source: skip records read before,
//!                  xz, bzip2               parquet                            ┘      number, chain, apply the layout
//!                                           copy: some of the records again, as they came ─▶ record writer
//! sketch_file: sketched records ⇄ Parquet
//! ```

mod arc;
mod archive_record;
mod chain;
mod column_values;
mod compression;
mod copy;
mod events;
mod followed;
mod format;
mod gzip_members;
mod http_body;
mod input_file;
mod inputs;
mod json_array;
mod jsonl;
mod layout;
mod link_file;
mod new_file;
mod originals;
mod page_columns;
mod page_file;
mod parquet_metadata;
mod parquet_reader;
mod parquet_writer;
mod read_error;
mod record_reader;
mod record_writer;
mod revisits;
mod row_copy;
mod row_groups;
mod sketch_file;
mod source;
mod stream;
mod table;
mod wacz;
mod warc;
mod warc_date;
mod warc_stream;

pub use column_values::{ColumnError, ColumnReader};
pub use copy::{CopyError, CopyFormat, CopyJob, RecordCopier, can_stay_same};
pub use events::{EventFile, EventStdout};
pub use followed::FollowedFolders;
pub use http_body::decode_content;
#[cfg(not(feature = "object-store"))]
pub(crate) use input_file::no_objects;
pub use input_file::{InputFile, open_text, state_of, url_of};
pub use inputs::{InputError, NamedFile, input_files, is_found_by, named_files};
pub use link_file::{LinkFile, LinkFileError, LinkFooter, link_schema};
pub use new_file::{NewFile, rename_durably};
pub use parquet_writer::{ColumnKind, ParquetWriter};
pub use revisits::read_revisits;
pub use sketch_file::{
    ContentColumns, InputNumber, SketchFileError, SketchFileWriter, SketchFiles, SketchFooter, sketch_schema,
};
pub use source::{FileSource, Input, ReadProgress};
pub use warc::parse_warc_page;
