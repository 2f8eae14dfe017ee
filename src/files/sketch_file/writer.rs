//! Writes a sketch file.

use super::columns::{SketchColumns, sketch_schema};
use super::footer::{RowsHasher, SketchFooter, StoredFooter};
use crate::files::new_file::NewFile;
use crate::files::parquet_writer::{CREATED_BY, io_error};
use crate::intake::SketchedRecord;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;
use std::io::{self, Write};
use std::path::Path;

/// Rows that become one batch of columns.
const BATCH_ROWS: usize = 1024;

/// The size of a row group: what is in memory until it is written.
const ROW_GROUP_ROWS: usize = 1 << 16;
const ROW_GROUP_BYTES: usize = 32 << 20;

/// A sketch file under way: has its name only once it is whole. The same records give the same bytes.
pub struct SketchFileWriter {
    writer: ArrowWriter<HashedFile>,
    footer: SketchFooter,
    columns: SketchColumns,
    next_record: i64,
}

/// A file under way and the hash of what is written to it.
struct HashedFile {
    file: NewFile,
    hasher: RowsHasher,
}

impl Write for HashedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.file.write(bytes)?;
        self.hasher.append(&bytes[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl SketchFileWriter {
    /// Begins the file of an input's sketches in a folder.
    ///
    /// # Errors
    /// Where the file cannot be created or written.
    pub fn create(folder: &Path, footer: SketchFooter) -> io::Result<Self> {
        let file = NewFile::create(&folder.join(footer.file_name()))?;
        let out = HashedFile { file, hasher: RowsHasher::default() };
        let writer = ArrowWriter::try_new(out, sketch_schema(), Some(properties())).map_err(io_error)?;
        Ok(SketchFileWriter { writer, footer, columns: SketchColumns::default(), next_record: 0 })
    }

    /// Adds the next record.
    ///
    /// # Errors
    /// Where writing fails.
    pub fn record(&mut self, record: &SketchedRecord) -> io::Result<()> {
        self.next_record = record.origin.offset + 1;
        self.columns.push(record).map_err(io::Error::other)?;
        self.write_full_batch()
    }

    /// Adds a part of the input that cannot be read.
    ///
    /// # Errors
    /// Where writing fails.
    pub fn unreadable(&mut self, what: &str) -> io::Result<()> {
        self.columns.push_unreadable(self.next_record, what).map_err(io::Error::other)?;
        self.write_full_batch()
    }

    fn write_full_batch(&mut self) -> io::Result<()> {
        if self.columns.n_rows() < BATCH_ROWS { Ok(()) } else { self.write_batch() }
    }

    fn write_batch(&mut self) -> io::Result<()> {
        let batch = self.columns.finish().map_err(io::Error::other)?;
        self.writer.write(&batch).map_err(io_error)
    }

    /// Writes the end, makes the file durable and gives it its name.
    ///
    /// # Errors
    /// Where writing fails; there is no file of this name then.
    pub fn finish(mut self) -> io::Result<()> {
        self.write_batch()?;
        self.writer.flush().map_err(io_error)?;
        self.writer.sync()?;
        let rows = self.writer.inner().hasher.finish();
        for (key, value) in (StoredFooter { footer: self.footer, rows }).encode().map_err(io::Error::other)? {
            self.writer.append_key_value_metadata(KeyValue::new(key.to_string(), value));
        }
        self.writer.into_inner().map_err(io_error)?.file.finish()
    }
}

/// Most columns hold random numbers: only those of words are worth a dictionary, and only those that ascend are worth
/// their differences.
fn properties() -> WriterProperties {
    let column = |path: &[&str]| ColumnPath::new(path.iter().map(ToString::to_string).collect());
    let builder = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_max_row_group_bytes(Some(ROW_GROUP_BYTES))
        .set_created_by(CREATED_BY.into())
        .set_statistics_enabled(EnabledStatistics::None)
        .set_dictionary_enabled(false);
    let with_words =
        |builder: WriterPropertiesBuilder, name: &str| builder.set_column_dictionary_enabled(column(&[name]), true);
    let builder = ["kind", "sweep", "reason"].into_iter().fold(builder, with_words);
    let ascending = |builder: WriterPropertiesBuilder, path: &[&str]| {
        builder.set_column_encoding(column(path), Encoding::DELTA_BINARY_PACKED)
    };
    let ascending_columns: [&[&str]; 4] =
        [&["record"], &["fetched_at"], &["index", "list", "item"], &["mod_shingles", "list", "item"]];
    ascending_columns.into_iter().fold(builder, ascending).build()
}
