//! Parquet: one page a row, row by row, in memory of a few batches of rows and the pages of their columns.

use super::chain::RecordHash;
use super::input_file::InputFile;
use super::layout::InputLayout;
use super::page_columns::{NestedColumn, PageField, is_there, page_columns};
use super::parquet_metadata::parquet_metadata;
use super::read_error::ReadError;
use super::record_reader::{Advance, RecordReader};
use super::row_groups::RowGroups;
use crate::document::{FetchTime, MediaType};
use crate::wire::{Reason, Record, Rejection, time_of_text};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMicrosecondType};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Int64Array, LargeBinaryArray, LargeStringArray, RecordBatch,
    TimestampMicrosecondArray,
};
use arrow_cast::cast;
use arrow_schema::{DataType, TimeUnit};
use base64::Engine as _;
use parquet::arrow::ProjectionMask;
use parquet::file::reader::Length;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;
use std::borrow::Cow;
use std::io::Read;
use std::path::Path;

/// The signature at the beginning of a file.
const SIGNATURE: &[u8] = b"PAR1";

/// Bytes of the beginning that are read, and counted, before the format is known.
const HEAD_BYTES: u64 = 64 << 10;

/// The rows of a file as JSON pages.
pub(super) struct ParquetRecords {
    batches: RowGroups,
    columns: Vec<(Vec<String>, PageField)>,
    /// Whether a time as text may have any form that a field map reads.
    reads_any_time: bool,
    count: Box<dyn Fn(u64) + Send>,
    bytes_a_row: f64,
    batch: Vec<PageColumn>,
    n_rows: usize,
    /// The row that comes next in the batch; the current one is before it.
    next: usize,
}

/// A column of a batch.
struct PageColumn {
    field: PageField,
    /// The structs around it.
    around: Vec<ArrayRef>,
    cells: Cells,
}

enum Cells {
    Text(LargeStringArray),
    Bytes(LargeBinaryArray),
    Time(TimestampMicrosecondArray),
    Number(Int64Array),
    Flag(BooleanArray),
}

/// What a cell holds.
enum Cell<'a> {
    Text(Cow<'a, str>),
    Bytes(&'a [u8]),
    Number(i64),
    Flag(bool),
}

impl ParquetRecords {
    /// Opens a file, which is read at any place: its columns are described at its end. The layout becomes that of JSON
    /// pages. `count` hears of bytes that are read.
    ///
    /// # Errors
    /// [`ReadError`] where it is no Parquet file, is cut or damaged, or has no columns of pages.
    pub(super) fn open(
        path: &Path,
        count: Box<dyn Fn(u64) + Send>,
        layout: &mut InputLayout,
    ) -> Result<Self, ReadError> {
        let mut file = InputFile::open(path)?;
        let mut signature = [0; SIGNATURE.len()];
        file.read_exact(&mut signature)?;
        if signature != SIGNATURE {
            return Err(ReadError::Format("a Parquet file that is compressed as a whole; decompress it"));
        }
        let n_bytes = file.len().saturating_sub(HEAD_BYTES);
        let metadata = parquet_metadata(&file)?;
        let n_rows_total = metadata.metadata().file_metadata().num_rows().max(1) as u64;
        let leaves = metadata.parquet_schema().columns();
        // Values in lists and maps are several a row.
        let single: Vec<usize> = (0..leaves.len()).filter(|at| leaves[*at].max_rep_level() == 0).collect();
        let paths: Vec<Vec<String>> = single.iter().map(|at| leaves[*at].path().parts().to_vec()).collect();
        let found = match page_columns(&paths, layout.fields(), layout.fallback()) {
            // FineWeb-Edu has no time but that of its dump, which its preset knows.
            Err(_) if layout.recognise_columns(paths.iter().filter_map(|path| path.first().map(String::as_str))) => {
                page_columns(&paths, layout.fields(), layout.fallback())?
            }
            found => found?,
        };
        let reads_any_time = !layout.fields().is_plain();
        layout.settle_as_page();
        let mask = ProjectionMask::leaves(metadata.parquet_schema(), found.iter().map(|(at, _)| single[*at]));
        let columns = found.into_iter().map(|(at, field)| (paths[at].clone(), field)).collect();
        let batches = RowGroups::new(path, &metadata, &mask)?;
        let bytes_a_row = n_bytes as f64 / n_rows_total as f64;
        let (batch, n_rows, next) = (Vec::new(), 0, 0);
        Ok(ParquetRecords { batches, columns, reads_any_time, count, bytes_a_row, batch, n_rows, next })
    }

    /// Decodes the next rows; false at the end.
    fn read_batch(&mut self) -> Result<bool, ReadError> {
        let Some(batch) = self.batches.next()? else { return Ok(false) };
        let columns = self.columns.iter().map(|(path, field)| PageColumn::new(&batch, path, *field));
        self.batch = columns.collect::<Result<_, _>>()?;
        (self.n_rows, self.next) = (batch.num_rows(), 0);
        (self.count)((self.n_rows as f64 * self.bytes_a_row) as u64);
        Ok(true)
    }
}

impl RecordReader for ParquetRecords {
    fn advance(&mut self, chain: u64) -> Result<Advance, ReadError> {
        while self.next >= self.n_rows {
            if !self.read_batch()? {
                return Ok(Advance::End);
            }
        }
        let mut hash = RecordHash::after(chain);
        for column in &self.batch {
            let cell = column.cell(self.next);
            hash.append(column.field.hashed_name().as_bytes());
            let bytes = cell.as_ref().map(Cell::bytes);
            hash.append(&bytes.as_ref().map_or(u64::MAX, |bytes| bytes.len() as u64).to_le_bytes());
            hash.append(bytes.as_deref().unwrap_or_default());
        }
        self.next += 1;
        Ok(Advance::Record(hash.finish()))
    }

    fn decode(&mut self) -> Record {
        let row = JsonRow { columns: &self.batch, at: self.next - 1, reads_any_time: self.reads_any_time };
        // A row of text always has a JSON form.
        serde_json::to_vec(&row).map_or_else(
            |error| Record::Rejected(Rejection::new(Reason::InvalidJson, format!("the row has no JSON form: {error}"))),
            Record::Json,
        )
    }
}

impl PageColumn {
    fn new(batch: &RecordBatch, path: &[String], field: PageField) -> Result<Self, ReadError> {
        let name = || path.join(".");
        let missing = || ReadError::Unusable(format!("column {} is not where the schema says", name()));
        let NestedColumn { column, around } = NestedColumn::find(batch, path).ok_or_else(missing)?;
        let wrong = |wanted: &str| {
            ReadError::Unusable(format!("column {} has the type {}, not {wanted}", name(), column.data_type()))
        };
        let value_type = match column.data_type() {
            DataType::Dictionary(_, values) => (**values).clone(),
            other => other.clone(),
        };
        let to = |kind: DataType| cast(&column, &kind).map_err(|error| damaged(&error));
        let cells = match (field, value_type) {
            (PageField::HttpStatus, kind) if kind.is_integer() => {
                Cells::Number(to(DataType::Int64)?.as_primitive::<Int64Type>().clone())
            }
            (PageField::HttpStatus, _) => return Err(wrong("a whole number")),
            (PageField::Gone, DataType::Boolean) => Cells::Flag(to(DataType::Boolean)?.as_boolean().clone()),
            (PageField::Gone, _) => return Err(wrong("true or false")),
            // An id may be a number.
            (PageField::Id, kind) if kind.is_integer() => {
                Cells::Text(to(DataType::LargeUtf8)?.as_string::<i64>().clone())
            }
            (_, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => {
                Cells::Text(to(DataType::LargeUtf8)?.as_string::<i64>().clone())
            }
            (PageField::FetchedAt, DataType::Timestamp(..) | DataType::Date32 | DataType::Date64) => {
                let times = to(DataType::Timestamp(TimeUnit::Microsecond, None))?;
                Cells::Time(times.as_primitive::<TimestampMicrosecondType>().clone())
            }
            (PageField::FetchedAt, _) => return Err(wrong("a timestamp, a date or text")),
            (_, DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_)) => {
                Cells::Bytes(to(DataType::LargeBinary)?.as_binary::<i64>().clone())
            }
            _ => return Err(wrong("text")),
        };
        Ok(PageColumn { field, around, cells })
    }

    fn cell(&self, row: usize) -> Option<Cell<'_>> {
        let cells: &dyn Array = match &self.cells {
            Cells::Text(cells) => cells,
            Cells::Bytes(cells) => cells,
            Cells::Time(cells) => cells,
            Cells::Number(cells) => cells,
            Cells::Flag(cells) => cells,
        };
        if cells.is_null(row) || !is_there(&self.around, row) {
            return None;
        }
        Some(match &self.cells {
            Cells::Text(cells) => Cell::Text(cells.value(row).into()),
            Cells::Bytes(cells) => match std::str::from_utf8(cells.value(row)) {
                Ok(text) => Cell::Text(text.into()),
                Err(_) => Cell::Bytes(cells.value(row)),
            },
            Cells::Time(cells) => Cell::Text(FetchTime(cells.value(row)).to_string().into()),
            Cells::Number(cells) => Cell::Number(cells.value(row)),
            Cells::Flag(cells) => Cell::Flag(cells.value(row)),
        })
    }
}

impl Cell<'_> {
    fn bytes(&self) -> Cow<'_, [u8]> {
        match self {
            Cell::Text(text) => text.as_bytes().into(),
            Cell::Bytes(bytes) => (*bytes).into(),
            Cell::Number(number) => number.to_le_bytes().to_vec().into(),
            Cell::Flag(is_so) => vec![u8::from(*is_so)].into(),
        }
    }
}

/// A row as a JSON page. A null body says that the page is gone, as in a JSON page; any other null is a missing field.
struct JsonRow<'a> {
    columns: &'a [PageColumn],
    at: usize,
    reads_any_time: bool,
}

/// The content type of bytes, which a column of HTML or text is for, whatever the row says; their charset is what it says.
/// None for bytes of another kind, and where the row says that they are no text.
fn content_type_of_bytes(cells: &[(PageField, Option<Cell<'_>>)]) -> Option<String> {
    let kind = cells.iter().find_map(|(field, cell)| match (field, cell) {
        (PageField::Html, Some(Cell::Bytes(_))) => Some("text/html"),
        (PageField::Text, Some(Cell::Bytes(_))) => Some("text/plain"),
        _ => None,
    })?;
    let of_row = cells.iter().find(|(field, _)| *field == PageField::ContentType);
    let charset = match of_row {
        Some((_, Some(cell))) => MediaType::parse(&String::from_utf8_lossy(&cell.bytes()))?.1,
        _ => None,
    };
    Some(charset.map_or_else(|| kind.to_string(), |charset| format!("{kind}; charset={charset}")))
}

impl Serialize for JsonRow<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut page = serializer.serialize_map(None)?;
        let cells: Vec<_> = self.columns.iter().map(|column| (column.field, column.cell(self.at))).collect();
        let has_text = cells.iter().any(|(field, cell)| *field == PageField::Text && cell.is_some());
        let content_type = content_type_of_bytes(&cells);
        if let Some(content_type) = &content_type {
            page.serialize_entry(PageField::ContentType.name(), content_type)?;
        }
        for (field, cell) in cells {
            let name = field.name();
            match (field, cell) {
                (PageField::Features, Some(_)) if has_text => {}
                (PageField::ContentType, _) if content_type.is_some() => {}
                (PageField::Features, Some(Cell::Text(text))) => {
                    // What is no JSON is rejected as a text: it is no array.
                    let features = serde_json::from_str(&text).unwrap_or_else(|_| Value::String(text.into_owned()));
                    page.serialize_entry(name, &features)?;
                }
                (PageField::FetchedAt, Some(Cell::Text(text))) if self.reads_any_time => {
                    let time = time_of_text(&text).map(|time| time.to_string());
                    page.serialize_entry(name, &time.map_or(text, Cow::from))?;
                }
                (_, Some(Cell::Text(text))) => page.serialize_entry(name, &text)?,
                (_, Some(Cell::Number(number))) => page.serialize_entry(name, &number)?,
                (_, Some(Cell::Flag(is_so))) => page.serialize_entry(name, &is_so)?,
                (PageField::Text | PageField::Html | PageField::Body, Some(Cell::Bytes(bytes))) => {
                    page.serialize_entry("body_base64", &base64::engine::general_purpose::STANDARD.encode(bytes))?;
                }
                (_, Some(Cell::Bytes(bytes))) => page.serialize_entry(name, &String::from_utf8_lossy(bytes))?,
                (PageField::Html | PageField::Body, None) => page.serialize_entry("body", &None::<&str>)?,
                (_, None) => {}
            }
        }
        page.end()
    }
}

fn damaged(error: &impl std::fmt::Display) -> ReadError {
    ReadError::Parquet(error.to_string())
}
