//! One column of inputs, which need not be a part of a page: what `dedup --keep COLUMN` goes by.

use super::copy::format_of_file;
use super::format::FileFormat;
use super::input_file::InputFile;
use super::page_columns::{NestedColumn, column_at, is_there};
use super::parquet_metadata::parquet_metadata;
use super::read_error::ReadError;
use super::record_reader::Advance;
use super::source::{FileSource, OpenRecords, ReadSettings, open_again};
use crate::document::FetchTime;
use crate::wire::{Record, read_value_at, time_of_digits};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, TimestampMicrosecondType};
use arrow_array::{Array, RecordBatch};
use arrow_cast::cast;
use arrow_schema::{DataType, TimeUnit};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Rows of a table that are decoded at once.
const BATCH_ROWS: usize = 4096;

/// Reads a column of inputs.
pub struct ColumnReader {
    settings: ReadSettings,
    column: String,
}

/// Why a column cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ColumnError {
    /// The input has no such column, so that no record has a value.
    #[error("{path}: {why}")]
    Missing {
        /// The input.
        path: PathBuf,
        /// Which columns it has, or what to do.
        why: String,
    },
    /// The input cannot be read.
    #[error("{path}: {why}")]
    Input {
        /// The input.
        path: PathBuf,
        /// Why, and what to do.
        why: String,
    },
}

/// Why a column cannot be read, whatever the input.
enum Problem {
    Missing(String),
    Read(ReadError),
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Self {
        Problem::Read(error)
    }
}

impl ColumnReader {
    /// Creates a reader of inputs that `source` reads, for the column of a name or at a JSON pointer.
    pub fn new(source: &FileSource, column: &str) -> Self {
        ColumnReader { settings: source.settings().clone(), column: column.into() }
    }

    /// Calls `each` with the value of each of the first `n_records` records, in their order, until it returns false. Numbers
    /// count as they are, `true` as 1, times as microseconds since 1970; texts are read as one of these. What is neither is
    /// none.
    ///
    /// # Errors
    /// [`ColumnError`] where the input cannot be read, or has no such column; a WARC file has none at all.
    pub fn read(
        &self,
        input: &Path,
        n_records: i64,
        each: &mut dyn FnMut(Option<f64>) -> bool,
    ) -> Result<(), ColumnError> {
        self.read_file(input, n_records, each).map_err(|problem| {
            let path = input.to_path_buf();
            match problem {
                Problem::Missing(why) => ColumnError::Missing { path, why },
                Problem::Read(error) => ColumnError::Input { path, why: error.to_string() },
            }
        })
    }

    fn read_file(
        &self,
        input: &Path,
        n_records: i64,
        each: &mut dyn FnMut(Option<f64>) -> bool,
    ) -> Result<(), Problem> {
        match format_of_file(input)? {
            FileFormat::Parquet => self.read_table(input, n_records, each),
            FileFormat::Jsonl | FileFormat::JsonArray | FileFormat::Table(_) => {
                self.read_records(input, n_records, each)
            }
            FileFormat::Page(_) | FileFormat::Warc | FileFormat::Arc | FileFormat::Zip => {
                let why = format!(
                    "records of this format have no column {}; give --keep longest, newest or first",
                    self.column
                );
                Err(Problem::Missing(why))
            }
        }
    }

    fn read_records(
        &self,
        input: &Path,
        n_records: i64,
        each: &mut dyn FnMut(Option<f64>) -> bool,
    ) -> Result<(), Problem> {
        let (OpenRecords { mut records, .. }, _) = open_again(input, &self.settings)?;
        let (mut chain, mut n) = (0, 0);
        while n < n_records {
            match records.advance(chain)? {
                Advance::Record(next) => chain = next,
                Advance::Gap(_) => continue,
                Advance::End => break,
            }
            n += 1;
            let value = match records.decode() {
                Record::Json(json) => read_value_at(&json, &self.column).as_ref().and_then(value_of),
                _ => None,
            };
            if !each(value) {
                break;
            }
        }
        Ok(())
    }

    fn read_table(
        &self,
        input: &Path,
        n_records: i64,
        each: &mut dyn FnMut(Option<f64>) -> bool,
    ) -> Result<(), Problem> {
        let damaged = |error: &dyn std::fmt::Display| Problem::Read(ReadError::Parquet(error.to_string()));
        let file = InputFile::open(input).map_err(ReadError::from)?;
        let metadata = parquet_metadata(&file)?;
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata);
        let leaves = builder.parquet_schema().columns();
        let paths: Vec<Vec<String>> = leaves.iter().map(|leaf| leaf.path().parts().to_vec()).collect();
        let missing = || {
            let there = paths.iter().map(|path| path.join(".")).collect::<Vec<_>>().join(", ");
            Problem::Missing(format!("there is no column {}; the file has {there}", self.column))
        };
        let at = column_at(&paths, &self.column).filter(|at| leaves[*at].max_rep_level() == 0).ok_or_else(missing)?;
        let mask = ProjectionMask::leaves(builder.parquet_schema(), [at]);
        let batches = builder.with_projection(mask).with_batch_size(BATCH_ROWS).with_limit(n_records.max(0) as usize);
        for batch in batches.build().map_err(|error| damaged(&error))? {
            let values =
                values_of(&batch.map_err(|error| damaged(&error))?, &paths[at]).map_err(|error| damaged(&error))?;
            for value in values {
                if !each(value) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// What a JSON value counts as.
fn value_of(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64().map(value_of_number),
        Value::Bool(is_so) => Some(f64::from(*is_so)),
        Value::String(text) => value_of_text(text),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
    .filter(|value| !value.is_nan())
}

fn value_of_text(text: &str) -> Option<f64> {
    let text = text.trim();
    let number = text.parse::<f64>().ok().filter(|number| !number.is_nan()).map(value_of_number);
    number.or_else(|| text.parse::<FetchTime>().ok().map(|time| time.0 as f64))
}

/// What a number counts as: one of 14 digits that is a time, as that time.
fn value_of_number(number: f64) -> f64 {
    time_of_digits(number).and_then(Result::ok).map_or(number, |time| time.0 as f64)
}

/// The values of the single column of a batch.
fn values_of(batch: &RecordBatch, path: &[String]) -> Result<Vec<Option<f64>>, arrow_schema::ArrowError> {
    let nothing = vec![None; batch.num_rows()];
    let Some(NestedColumn { column, around }) = NestedColumn::find(batch, path) else { return Ok(nothing) };
    let kind = match column.data_type() {
        DataType::Dictionary(_, values) => (**values).clone(),
        kind => kind.clone(),
    };
    let values: Vec<Option<f64>> = match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let texts = cast(&column, &DataType::LargeUtf8)?;
            texts.as_string::<i64>().iter().map(|text| text.and_then(value_of_text)).collect()
        }
        DataType::Timestamp(..) | DataType::Date32 | DataType::Date64 => {
            let times = cast(&column, &DataType::Timestamp(TimeUnit::Microsecond, None))?;
            times.as_primitive::<TimestampMicrosecondType>().iter().map(|time| time.map(|time| time as f64)).collect()
        }
        kind if kind.is_numeric() || kind == DataType::Boolean => {
            let numbers = cast(&column, &DataType::Float64)?;
            numbers
                .as_primitive::<Float64Type>()
                .iter()
                .map(|number| number.filter(|number| !number.is_nan()).map(value_of_number))
                .collect()
        }
        _ => nothing,
    };
    Ok(values.into_iter().enumerate().map(|(row, value)| value.filter(|_| is_there(&around, row))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_counts_as_a_value() {
        for (value, expected) in [
            (json!(3), Some(3.0)),
            (json!(-0.5), Some(-0.5)),
            (json!(true), Some(1.0)),
            (json!(" 12.5 "), Some(12.5)),
            (json!("1970-01-01T00:00:01Z"), Some(1e6)),
            (json!("19700101000001"), Some(1e6)),
            (json!(19_700_101_000_001_u64), Some(1e6)),
            (json!("1970010100000"), Some(1_970_010_100_000.0)),
            (json!(99_999_999_999_999_u64), Some(99_999_999_999_999.0)),
            (json!("good"), None),
            (json!("NaN"), None),
            (json!(null), None),
            (json!([1]), None),
        ] {
            assert_eq!(value_of(&value), expected, "{value}");
        }
    }
}
