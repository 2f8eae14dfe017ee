//! Copies rows of a Parquet file: all of their columns, in the types in which they are stored.

use super::input_file::InputFile;
use super::parquet_writer::{CREATED_BY, io_error};
use super::read_error::ReadError;
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use parquet::basic::{Compression, ZstdLevel};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::column::writer::ColumnWriterImpl;
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::PathBuf;
use std::sync::Arc;

/// Rows that are copied at once.
const BATCH_ROWS: usize = 256;

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

    /// Writes the wanted rows in the compression of the input, and makes the output durable. Values are copied as they are
    /// stored: as Arrow's, those of some types would become others. What the file says of itself, such as the schema of a
    /// library, goes along.
    pub(super) fn finish(self) -> Result<(), RowCopyError> {
        let input = InputFile::open(&self.input).map_err(|error| RowCopyError::Input(error.into()))?;
        let reader = SerializedFileReader::new(input).map_err(damaged)?;
        let schema = reader.metadata().file_metadata().schema_descr().root_schema_ptr();
        let properties = Arc::new(properties(reader.metadata()));
        let out = BufWriter::new(File::create(&self.output).map_err(RowCopyError::Output)?);
        let mut writer = SerializedFileWriter::new(out, schema, properties).map_err(unwritten)?;
        let mut rows = RowSelection::from(self.rows);
        for number in 0..reader.num_row_groups() {
            let group = reader.get_row_group(number).map_err(damaged)?;
            let of_group = rows.split_off(group.metadata().num_rows().max(0) as usize);
            if of_group.selects_any() {
                copy_group(&*group, &of_group, writer.next_row_group().map_err(unwritten)?)?;
            }
        }
        let out = writer.into_inner().map_err(unwritten)?;
        let file = out.into_inner().map_err(|error| RowCopyError::Output(error.into_error()))?;
        file.sync_all().map_err(RowCopyError::Output)
    }
}

fn damaged(error: ParquetError) -> RowCopyError {
    RowCopyError::Input(ReadError::Parquet(error.to_string()))
}

fn unwritten(error: ParquetError) -> RowCopyError {
    RowCopyError::Output(io_error(error))
}

/// Copies rows of a row group, column by column.
fn copy_group(
    group: &dyn RowGroupReader,
    rows: &RowSelection,
    mut out: SerializedRowGroupWriter<'_, BufWriter<File>>,
) -> Result<(), RowCopyError> {
    for number in 0..group.num_columns() {
        let reader = group.get_column_reader(number).map_err(damaged)?;
        let Some(mut column) = out.next_column().map_err(unwritten)? else { break };
        match reader {
            ColumnReader::BoolColumnReader(reader) => copy_column(reader, column.typed(), rows)?,
            ColumnReader::Int32ColumnReader(reader) => copy_column(reader, column.typed(), rows)?,
            ColumnReader::Int64ColumnReader(reader) => copy_column(reader, column.typed(), rows)?,
            ColumnReader::Int96ColumnReader(reader) => copy_column(reader, column.typed(), rows)?,
            ColumnReader::FloatColumnReader(reader) => copy_column(reader, column.typed(), rows)?,
            ColumnReader::DoubleColumnReader(reader) => copy_column(reader, column.typed(), rows)?,
            ColumnReader::ByteArrayColumnReader(reader) => copy_column(reader, column.typed(), rows)?,
            ColumnReader::FixedLenByteArrayColumnReader(reader) => copy_column(reader, column.typed(), rows)?,
        }
        column.close().map_err(unwritten)?;
    }
    out.close().map_err(unwritten)?;
    Ok(())
}

fn copy_column<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    writer: &mut ColumnWriterImpl<'_, T>,
    rows: &RowSelection,
) -> Result<(), RowCopyError> {
    let (mut values, mut definitions, mut repetitions) = (Vec::new(), Vec::new(), Vec::new());
    for run in rows.iter() {
        let mut n_left = run.row_count;
        while n_left > 0 {
            let n_passed = if run.skip {
                reader.skip_records(n_left).map_err(damaged)?
            } else {
                values.clear();
                definitions.clear();
                repetitions.clear();
                let n_wanted = n_left.min(BATCH_ROWS);
                let (n_read, ..) = reader
                    .read_records(n_wanted, Some(&mut definitions), Some(&mut repetitions), &mut values)
                    .map_err(damaged)?;
                writer.write_batch(&values, levels(&definitions), levels(&repetitions)).map_err(unwritten)?;
                n_read
            };
            if n_passed == 0 {
                return Err(damaged(ParquetError::EOF("a column ends before its rows".into())));
            }
            n_left -= n_passed;
        }
    }
    Ok(())
}

/// Levels as they are written; a column without nulls and lists has none.
fn levels(levels: &[i16]) -> Option<&[i16]> {
    (!levels.is_empty()).then_some(levels)
}

fn properties(input: &ParquetMetaData) -> WriterProperties {
    let column = input.row_groups().first().and_then(|group| group.columns().first());
    let compression = column.map_or(Compression::ZSTD(ZstdLevel::default()), |column| column.compression());
    WriterProperties::builder()
        .set_compression(compression)
        .set_created_by(CREATED_BY.into())
        .set_key_value_metadata(input.file_metadata().key_value_metadata().cloned())
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::data_type::{
        ByteArray, ByteArrayType, FixedLenByteArray, FixedLenByteArrayType, Int64Type, Int96, Int96Type,
    };
    use parquet::file::metadata::KeyValue;
    use parquet::schema::parser::parse_message_type;
    use std::path::Path;

    const SCHEMA: &str = "message pages {
        required int64 number;
        optional int96 day;
        optional fixed_len_byte_array(12) span (INTERVAL);
        optional fixed_len_byte_array(16) id (UUID);
        optional binary json (JSON);
        optional int64 at (TIME(MICROS,true));
        optional group names (LIST) { repeated group list { optional binary element (STRING); } }
    }";

    fn append<T: DataType>(
        group: &mut SerializedRowGroupWriter<'_, File>,
        values: &[T::T],
        definitions: Option<&[i16]>,
        repetitions: Option<&[i16]>,
    ) {
        let mut column = group.next_column().expect("a column").expect("one more");
        column.typed::<T>().write_batch(values, definitions, repetitions).expect("written");
        column.close().expect("closed");
    }

    /// Writes row groups of these numbers, with other columns in the rows of even ones.
    fn write(path: &Path, groups: &[Vec<i64>]) {
        let schema = Arc::new(parse_message_type(SCHEMA).expect("a schema"));
        let own_words = KeyValue::new("ARROW:schema".to_string(), "words of a library".to_string());
        let properties = Arc::new(WriterProperties::builder().set_key_value_metadata(Some(vec![own_words])).build());
        let file = File::create(path).expect("a file");
        let mut writer = SerializedFileWriter::new(file, schema, properties).expect("a writer");
        for numbers in groups {
            let mut group = writer.next_row_group().expect("a row group");
            let even: Vec<i64> = numbers.iter().copied().filter(|number| number % 2 == 0).collect();
            let is_there: Vec<i16> = numbers.iter().map(|number| i16::from(number % 2 == 0)).collect();
            // From the last day of the year 9999 on.
            let days: Vec<Int96> = even.iter().map(|number| vec![7, 8, 5_373_484 + *number as u32].into()).collect();
            let bytes = |n_bytes: usize| -> Vec<FixedLenByteArray> {
                even.iter().map(|number| vec![*number as u8; n_bytes].into()).collect()
            };
            let json: Vec<ByteArray> = even.iter().map(|number| format!("[{number}]").into_bytes().into()).collect();
            let names = even.iter().flat_map(|number| [*number, -*number]);
            let names: Vec<ByteArray> = names.map(|name| name.to_string().into_bytes().into()).collect();
            let of_list = |even: &[i16], odd: &[i16]| -> Vec<i16> {
                is_there.iter().flat_map(|is_there| if *is_there == 1 { even.to_vec() } else { odd.to_vec() }).collect()
            };
            append::<Int64Type>(&mut group, numbers, None, None);
            append::<Int96Type>(&mut group, &days, Some(&is_there), None);
            append::<FixedLenByteArrayType>(&mut group, &bytes(12), Some(&is_there), None);
            append::<FixedLenByteArrayType>(&mut group, &bytes(16), Some(&is_there), None);
            append::<ByteArrayType>(&mut group, &json, Some(&is_there), None);
            append::<Int64Type>(&mut group, &even, Some(&is_there), None);
            let (definitions, repetitions) = (of_list(&[3, 3], &[0]), of_list(&[0, 1], &[0]));
            append::<ByteArrayType>(&mut group, &names, Some(&definitions), Some(&repetitions));
            group.close().expect("closed");
        }
        writer.close().expect("closed");
    }

    fn cells<T: DataType>(mut reader: ColumnReaderImpl<T>) -> String {
        let (mut values, mut definitions, mut repetitions) = (Vec::new(), Vec::new(), Vec::new());
        reader
            .read_records(10_000, Some(&mut definitions), Some(&mut repetitions), &mut values)
            .expect("a whole column");
        format!("{values:?} {definitions:?} {repetitions:?}")
    }

    /// The schema, what the file says of itself, and the cells of each row group and column.
    fn read(path: &Path) -> (String, Vec<String>) {
        let reader = SerializedFileReader::new(File::open(path).expect("a file")).expect("Parquet");
        let file = reader.metadata().file_metadata();
        let head = format!("{:?} {:?}", file.schema(), file.key_value_metadata());
        let mut all = Vec::new();
        for number in 0..reader.num_row_groups() {
            let group = reader.get_row_group(number).expect("a row group");
            all.extend((0..group.num_columns()).map(
                |column| match group.get_column_reader(column).expect("a column") {
                    ColumnReader::Int64ColumnReader(reader) => cells(reader),
                    ColumnReader::Int96ColumnReader(reader) => cells(reader),
                    ColumnReader::ByteArrayColumnReader(reader) => cells(reader),
                    ColumnReader::FixedLenByteArrayColumnReader(reader) => cells(reader),
                    _ => panic!("no such column was written"),
                },
            ));
        }
        (head, all)
    }

    /// Wrong once: timestamps of 96 bits after 2262, and the months of intervals; days, UUIDs, JSON and times of day lost their
    /// types.
    #[test]
    fn rows_keep_their_values_and_types() {
        let folder = tempfile::tempdir().expect("a folder");
        let (input, output, expected) =
            (folder.path().join("in"), folder.path().join("out"), folder.path().join("expected"));
        write(&input, &[(0..1000).collect(), (1000..1010).collect(), (1010..2000).collect()]);
        let is_wanted = |number: &i64| number % 3 > 0 && !(1000..1010).contains(number) && !(400..700).contains(number);
        let mut copy = RowCopy::new(input.clone(), output.clone());
        (0..2000).for_each(|number| copy.push(is_wanted(&number)));
        assert!(copy.finish().is_ok());
        write(&expected, &[(0..1000).filter(is_wanted).collect(), (1010..2000).filter(is_wanted).collect()]);
        assert!(read(&output) == read(&expected));
        // What follows the last row that was read before does not go along.
        let mut copy = RowCopy::new(input, output.clone());
        (0..5).for_each(|_| copy.push(true));
        assert!(copy.finish().is_ok());
        write(&expected, &[(0..5).collect()]);
        assert!(read(&output) == read(&expected));
    }
}
