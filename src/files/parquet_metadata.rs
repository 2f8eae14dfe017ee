//! What a Parquet file says of its columns, as it is read.

use super::input_file::InputFile;
use super::read_error::ReadError;
use arrow_schema::{DataType, Fields, Schema, TimeUnit};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::Type;
use std::sync::Arc;

/// Reads the description of a file's columns. Timestamps of 96 bits, such as Spark's, are microseconds: as nanoseconds,
/// which they are without a schema, they would wrap after 2262.
///
/// # Errors
/// [`ReadError::Parquet`] where the file is cut or damaged.
pub(super) fn parquet_metadata(file: &InputFile) -> Result<ArrowReaderMetadata, ReadError> {
    let damaged = |error: parquet::errors::ParquetError| ReadError::Parquet(error.to_string());
    let metadata = ArrowReaderMetadata::load(file, ArrowReaderOptions::new()).map_err(damaged)?;
    let leaves = metadata.parquet_schema().columns().iter();
    // Columns of lists are not read.
    let wide = leaves.filter(|leaf| leaf.physical_type() == Type::INT96 && leaf.max_rep_level() == 0);
    let paths: Vec<&[String]> = wide.map(|leaf| leaf.path().parts()).collect();
    if paths.is_empty() {
        return Ok(metadata);
    }
    let schema = metadata.schema();
    let fields = paths.iter().fold(schema.fields().clone(), |fields, path| in_microseconds(&fields, path));
    let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    let options = ArrowReaderOptions::new().with_schema(schema);
    ArrowReaderMetadata::try_new(Arc::clone(metadata.metadata()), options).map_err(damaged)
}

/// The fields, with the timestamp at a path in microseconds.
fn in_microseconds(fields: &Fields, path: &[String]) -> Fields {
    let Some((name, rest)) = path.split_first() else { return fields.clone() };
    let changed = fields.iter().map(|field| {
        let kind = match field.data_type() {
            _ if field.name() != name => None,
            DataType::Struct(inner) => Some(DataType::Struct(in_microseconds(inner, rest))),
            DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
                Some(DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))
            }
            _ => None,
        };
        kind.map_or_else(|| Arc::clone(field), |kind| Arc::new(field.as_ref().clone().with_data_type(kind)))
    });
    changed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::page_columns::NestedColumn;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{TimestampMicrosecondType, TimestampNanosecondType};
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use parquet::data_type::{Int64Type, Int96, Int96Type};
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    use std::fs::File;

    /// Wrong once: the last day of the year 9999 was read as one of 1816.
    #[test]
    fn timestamps_of_96_bits_do_not_wrap() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("days.parquet");
        let schema = "message days {
            optional int64 at (TIMESTAMP(NANOS,true));
            optional group meta { required int96 date; }
            required int96 date;
        }";
        let schema = Arc::new(parse_message_type(schema).expect("a schema"));
        let file = File::create(&path).expect("a file");
        let mut writer = SerializedFileWriter::new(file, schema, Arc::default()).expect("a writer");
        let mut group = writer.next_row_group().expect("a row group");
        // Nanoseconds of the day, the lower half first, and the Julian day.
        let day = |julian: u32| -> Int96 { vec![5000, 0, julian].into() };
        let mut column = group.next_column().expect("a column").expect("one more");
        column.typed::<Int64Type>().write_batch(&[7], Some(&[1]), None).expect("written");
        column.close().expect("closed");
        for (julian, definitions) in [(5_373_484, Some(&[1][..])), (2_440_589, None)] {
            let mut column = group.next_column().expect("a column").expect("one more");
            column.typed::<Int96Type>().write_batch(&[day(julian)], definitions, None).expect("written");
            column.close().expect("closed");
        }
        group.close().expect("closed");
        writer.close().expect("closed");

        let metadata = parquet_metadata(&InputFile::open(&path).expect("opened")).expect("Parquet");
        let file = InputFile::open(&path).expect("opened");
        let mut batches = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata).build().expect("a reader");
        let batch = batches.next().expect("a batch").expect("rows");
        let column = |path: &[&str]| {
            let path: Vec<String> = path.iter().map(ToString::to_string).collect();
            NestedColumn::find(&batch, &path).expect("a column").column
        };
        let micros = |path: &[&str]| column(path).as_primitive::<TimestampMicrosecondType>().value(0);
        assert_eq!(micros(&["meta", "date"]), 253_402_214_400_000_005);
        assert_eq!(micros(&["date"]), 86_400_000_005);
        assert_eq!(column(&["at"]).as_primitive::<TimestampNanosecondType>().value(0), 7);
    }
}
