//! Tables as Parquet, row group by row group.

use crate::document::FetchTime;
use arrow_array::builder::{
    ArrayBuilder, BooleanBuilder, Float64Builder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use serde_json::Value;
use std::io::{self, Write};
use std::sync::Arc;

/// Rows that become one batch of columns.
const BATCH_ROWS: usize = 4096;

/// The size of a row group: what is in memory until it is written.
const ROW_GROUP_ROWS: usize = 1 << 17;
const ROW_GROUP_BYTES: usize = 64 << 20;

/// The program that files name as their writer.
pub(super) const CREATED_BY: &str = concat!("lookalike ", env!("CARGO_PKG_VERSION"));

const TIME_ZONE: &str = "UTC";

/// What the cells of a column hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// A string.
    Text,
    /// A moment, as RFC 3339; a timestamp of microseconds in UTC in Parquet.
    Time,
    /// A whole number from 0 to 2⁶³ − 1; a signed number in Parquet, which every reader knows.
    Number,
    /// A fraction.
    Share,
    /// True or false.
    Flag,
}

/// A Parquet file under way. Memory holds a row group.
pub struct ParquetWriter<W: Write + Send> {
    writer: ArrowWriter<W>,
    schema: Arc<Schema>,
    columns: Vec<ColumnBuilder>,
    n_rows: usize,
}

/// The cells of a column that are not in a batch yet.
enum ColumnBuilder {
    Text(StringBuilder),
    Time(TimestampMicrosecondBuilder),
    Number(Int64Builder),
    Share(Float64Builder),
    Flag(BooleanBuilder),
}

impl<W: Write + Send> ParquetWriter<W> {
    /// Begins a file with these columns. Every column may have nulls.
    ///
    /// # Errors
    /// Where the beginning of the file cannot be written.
    pub fn new(out: W, columns: &[(&str, ColumnKind)]) -> io::Result<Self> {
        let fields: Vec<Field> = columns.iter().map(|(name, kind)| Field::new(*name, data_type(*kind), true)).collect();
        let schema = Arc::new(Schema::new(fields));
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
            .set_max_row_group_bytes(Some(ROW_GROUP_BYTES))
            .set_created_by(CREATED_BY.into())
            .build();
        let writer = ArrowWriter::try_new(out, Arc::clone(&schema), Some(properties)).map_err(io_error)?;
        let columns = columns.iter().map(|(_, kind)| ColumnBuilder::new(*kind)).collect();
        Ok(ParquetWriter { writer, schema, columns, n_rows: 0 })
    }

    /// Writes a row: a cell for each column.
    ///
    /// # Errors
    /// Where a cell is not what its column holds, or writing fails.
    pub fn write(&mut self, cells: &[Value]) -> io::Result<()> {
        if cells.len() != self.columns.len() {
            return Err(io::Error::other(format!("{} cells for {} columns", cells.len(), self.columns.len())));
        }
        for (at, (column, cell)) in self.columns.iter_mut().zip(cells).enumerate() {
            column.append(cell).ok_or_else(|| {
                io::Error::other(format!("column {}: {cell} is of another kind", self.schema.field(at).name()))
            })?;
        }
        self.n_rows += 1;
        if self.n_rows >= BATCH_ROWS { self.write_batch() } else { Ok(()) }
    }

    fn write_batch(&mut self) -> io::Result<()> {
        self.n_rows = 0;
        let columns = self.columns.iter_mut().map(ColumnBuilder::finish).collect();
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(io::Error::other)?;
        self.writer.write(&batch).map_err(io_error)
    }

    /// Writes what is still in memory and the end of the file; returns what was written to.
    ///
    /// # Errors
    /// Where writing fails.
    pub fn finish(mut self) -> io::Result<W> {
        if self.n_rows > 0 {
            self.write_batch()?;
        }
        self.writer.into_inner().map_err(io_error)
    }
}

impl ColumnBuilder {
    fn new(kind: ColumnKind) -> Self {
        match kind {
            ColumnKind::Text => ColumnBuilder::Text(StringBuilder::new()),
            ColumnKind::Time => {
                ColumnBuilder::Time(TimestampMicrosecondBuilder::new().with_data_type(data_type(ColumnKind::Time)))
            }
            ColumnKind::Number => ColumnBuilder::Number(Int64Builder::new()),
            ColumnKind::Share => ColumnBuilder::Share(Float64Builder::new()),
            ColumnKind::Flag => ColumnBuilder::Flag(BooleanBuilder::new()),
        }
    }

    /// Appends a cell; none where it is of another kind.
    fn append(&mut self, cell: &Value) -> Option<()> {
        let is_null = cell.is_null();
        match self {
            _ if is_null => self.append_null(),
            ColumnBuilder::Text(cells) => cells.append_value(cell.as_str()?),
            ColumnBuilder::Time(cells) => cells.append_value(cell.as_str()?.parse::<FetchTime>().ok()?.0),
            ColumnBuilder::Number(cells) => cells.append_value(cell.as_i64()?),
            ColumnBuilder::Share(cells) => cells.append_value(cell.as_f64()?),
            ColumnBuilder::Flag(cells) => cells.append_value(cell.as_bool()?),
        }
        Some(())
    }

    fn append_null(&mut self) {
        match self {
            ColumnBuilder::Text(cells) => cells.append_null(),
            ColumnBuilder::Time(cells) => cells.append_null(),
            ColumnBuilder::Number(cells) => cells.append_null(),
            ColumnBuilder::Share(cells) => cells.append_null(),
            ColumnBuilder::Flag(cells) => cells.append_null(),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        let cells: &mut dyn ArrayBuilder = match self {
            ColumnBuilder::Text(cells) => cells,
            ColumnBuilder::Time(cells) => cells,
            ColumnBuilder::Number(cells) => cells,
            ColumnBuilder::Share(cells) => cells,
            ColumnBuilder::Flag(cells) => cells,
        };
        cells.finish()
    }
}

fn data_type(kind: ColumnKind) -> DataType {
    match kind {
        ColumnKind::Text => DataType::Utf8,
        ColumnKind::Time => DataType::Timestamp(TimeUnit::Microsecond, Some(TIME_ZONE.into())),
        ColumnKind::Number => DataType::Int64,
        ColumnKind::Share => DataType::Float64,
        ColumnKind::Flag => DataType::Boolean,
    }
}

/// The error of the file below, where there is one.
pub(super) fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(cause) => match cause.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(cause) => io::Error::other(cause.to_string()),
        },
        other => io::Error::other(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, Int64Type, TimestampMicrosecondType};
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use serde_json::json;

    const COLUMNS: [(&str, ColumnKind); 5] = [
        ("url", ColumnKind::Text),
        ("fetched_at", ColumnKind::Time),
        ("document", ColumnKind::Number),
        ("resemblance", ColumnKind::Share),
        ("representative", ColumnKind::Flag),
    ];

    fn row(n: i64) -> Vec<Value> {
        let time = FetchTime(n * 1_000_000).to_string();
        let mut cells =
            vec![json!(format!("http://site/{n}")), json!(time), json!(n), json!(n as f64 / 7.0), json!(n % 2 == 0)];
        if n % 5 == 0 {
            cells[(n / 5 % 5) as usize] = Value::Null;
        }
        cells
    }

    /// Every cell of every kind comes back, nulls too, over several batches.
    #[test]
    fn what_is_written_is_read_back() {
        for n_rows in [0, 1, BATCH_ROWS as i64 * 2 + 3] {
            let mut writer = ParquetWriter::new(tempfile::tempfile().expect("a file"), &COLUMNS).expect("begun");
            (0..n_rows).for_each(|n| writer.write(&row(n)).expect("written"));
            let file = writer.finish().expect("finished");
            let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("Parquet");
            assert_eq!(reader.metadata().file_metadata().num_rows(), n_rows);
            let mut found = Vec::new();
            for batch in reader.build().expect("a reader") {
                let batch = batch.expect("a batch");
                let cell = |column: usize, row: usize, value: Value| {
                    if batch.column(column).is_null(row) { Value::Null } else { value }
                };
                let [url, time, number, share, flag] = [0, 1, 2, 3, 4].map(|at| batch.column(at));
                let time = time.as_primitive::<TimestampMicrosecondType>();
                for at in 0..batch.num_rows() {
                    found.push(vec![
                        cell(0, at, json!(url.as_string::<i32>().value(at))),
                        cell(1, at, json!(FetchTime(time.value(at)).to_string())),
                        cell(2, at, json!(number.as_primitive::<Int64Type>().value(at))),
                        cell(3, at, json!(share.as_primitive::<Float64Type>().value(at))),
                        cell(4, at, json!(flag.as_boolean().value(at))),
                    ]);
                }
            }
            assert_eq!(found, (0..n_rows).map(row).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_cell_of_another_kind_is_an_error() {
        let mut writer = ParquetWriter::new(Vec::new(), &COLUMNS[..2]).expect("begun");
        let wrong = writer.write(&[json!(7), json!("2026-01-01T00:00:00Z")]).expect_err("a number as text");
        assert!(wrong.to_string().contains("column url"), "{wrong}");
        assert!(writer.write(&[json!("x"), json!("soon")]).is_err());
        assert!(writer.write(&[json!("x")]).is_err());
    }
}
