//! Copies rows of a Parquet file: all of their columns, as they came.

use super::input_file::InputFile;
use super::parquet_writer::{CREATED_BY, io_error};
use super::read_error::ReadError;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReaderBuilder, RowSelection, RowSelector};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::properties::WriterProperties;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::PathBuf;

/// Rows that are copied at once.
const BATCH_ROWS: usize = 1024;

/// Bytes of a row group: what is in memory until it is written.
const ROW_GROUP_BYTES: usize = 128 << 20;

/// The key under which each writer stores Arrow's description of the columns, so that it is not copied.
const ARROW_SCHEMA: &str = "ARROW:schema";

/// A copy of some rows, which are known before any is written.
pub(super) struct RowCopy {
    input: PathBuf,
    output: PathBuf,
    rows: Vec<RowSelector>,
}

/// Why rows could not be copied.
pub(super) enum RowCopyError {
    Input(ReadError),
    Output(io::Error),
}

impl RowCopy {
    /// Begins a copy of no rows.
    pub(super) fn new(input: PathBuf, output: PathBuf) -> Self {
        RowCopy { input, output, rows: Vec::new() }
    }

    /// Says whether the next row is wanted.
    pub(super) fn push(&mut self, is_wanted: bool) {
        match self.rows.last_mut() {
            Some(run) if run.skip != is_wanted => run.row_count += 1,
            _ => self.rows.push(RowSelector { row_count: 1, skip: !is_wanted }),
        }
    }

    /// Writes the wanted rows in the compression of the input, and makes the output durable. What the file says of itself,
    /// such as the schema of a library, goes along.
    pub(super) fn finish(self) -> Result<(), RowCopyError> {
        let damaged = |error: &dyn std::fmt::Display| RowCopyError::Input(ReadError::Parquet(error.to_string()));
        let file = InputFile::open(&self.input).map_err(|error| RowCopyError::Input(error.into()))?;
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).map_err(|error| damaged(&error))?;
        let schema = reader.schema().clone();
        let properties = properties(reader.metadata());
        let rows = RowSelection::from(self.rows);
        let batches =
            reader.with_row_selection(rows).with_batch_size(BATCH_ROWS).build().map_err(|error| damaged(&error))?;
        let out = File::create(&self.output).map_err(RowCopyError::Output)?;
        let written = |error| RowCopyError::Output(io_error(error));
        let mut writer = ArrowWriter::try_new(BufWriter::new(out), schema, Some(properties)).map_err(written)?;
        for batch in batches {
            writer.write(&batch.map_err(|error| damaged(&error))?).map_err(written)?;
        }
        let out = writer.into_inner().map_err(written)?;
        let file = out.into_inner().map_err(|error| RowCopyError::Output(error.into_error()))?;
        file.sync_all().map_err(RowCopyError::Output)
    }
}

fn properties(input: &ParquetMetaData) -> WriterProperties {
    let column = input.row_groups().first().and_then(|group| group.columns().first());
    let compression = column.map_or(Compression::ZSTD(ZstdLevel::default()), |column| column.compression());
    let pairs = input.file_metadata().key_value_metadata().into_iter().flatten();
    let pairs = pairs.filter(|pair| pair.key != ARROW_SCHEMA).cloned().collect();
    WriterProperties::builder()
        .set_compression(compression)
        .set_max_row_group_bytes(Some(ROW_GROUP_BYTES))
        .set_created_by(CREATED_BY.into())
        .set_key_value_metadata(Some(pairs))
        .build()
}
