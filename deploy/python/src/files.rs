//! Pages on their way to the program, and its tables on their way back, as Parquet files.

use crate::error::failed;
use crate::table::{Batches, Table, Texts, column};
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use pyo3::prelude::*;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

/// Rows that are written at once, between two looks for a Ctrl-C.
const ROWS_AT_ONCE: usize = 256;

/// Bytes of rows that are held in memory, about.
const ROW_GROUP_BYTES: usize = 64 << 20;

/// Columns that name a page where none is given, the likelier first.
const ID_COLUMNS: [&str; 2] = ["id", "url"];

/// Which columns of pages hold what.
struct PageColumns<'a> {
    text: &'a str,
    html: bool,
    id: Option<&'a str>,
    fetched_at: Option<&'a str>,
}

/// Writes the columns of pages to a Parquet file: the content as `text` or `html`, and the time if one is named. Returns the
/// names of the pages, in a table of the one column `id`.
#[pyfunction]
#[pyo3(signature = (pages, path, text, html, id, fetched_at))]
pub(crate) fn write_pages(
    py: Python<'_>,
    pages: &Bound<'_, PyAny>,
    path: PathBuf,
    text: &str,
    html: bool,
    id: Option<&str>,
    fetched_at: Option<&str>,
) -> PyResult<Table> {
    let mut pages = Batches::of(pages)?;
    let columns = PageColumns { text, html, id, fetched_at };
    py.detach(|| {
        let mut ids: Vec<RecordBatch> = Vec::new();
        let (mut writer, mut n_rows) = (None, 0);
        while let Some(batch) = pages.next()? {
            let page_batch = columns.pages_of(&batch)?;
            let writer = match &mut writer {
                Some(writer) => writer,
                None => writer.insert(begin(&path, page_batch.schema())?),
            };
            write(writer, &page_batch)?;
            ids.push(columns.ids_of(&batch, n_rows)?);
            n_rows += batch.num_rows() as i64;
        }
        let schema = match ids.first() {
            Some(first) => first.schema(),
            None => Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, true)])),
        };
        let empty = || begin(&path, Arc::new(Schema::new(vec![Field::new("text", DataType::Utf8, true)])));
        writer.map_or_else(empty, Ok)?.close().map_err(failed)?;
        Ok(Table::new(schema, ids))
    })
}

fn begin(path: &PathBuf, schema: SchemaRef) -> PyResult<ArrowWriter<File>> {
    let file = File::create(path).map_err(|error| failed(format!("cannot write {}: {error}", path.display())))?;
    // The file is read once, by the program.
    let fast =
        WriterProperties::builder().set_dictionary_enabled(false).set_statistics_enabled(EnabledStatistics::None);
    ArrowWriter::try_new(file, schema, Some(fast.build())).map_err(failed)
}

/// Writes rows, and lets Python see signals in between.
fn write(writer: &mut ArrowWriter<File>, batch: &RecordBatch) -> PyResult<()> {
    for begin in (0..batch.num_rows()).step_by(ROWS_AT_ONCE) {
        Python::attach(|py| py.check_signals())?;
        let rows = batch.slice(begin, ROWS_AT_ONCE.min(batch.num_rows() - begin));
        writer.write(&rows).map_err(failed)?;
        if writer.in_progress_size() > ROW_GROUP_BYTES {
            writer.flush().map_err(failed)?;
        }
    }
    Ok(())
}

impl PageColumns<'_> {
    /// The columns that the program reads, under the names that it knows.
    fn pages_of(&self, batch: &RecordBatch) -> PyResult<RecordBatch> {
        Texts::of(batch, self.text)?;
        let content = (if self.html { "html" } else { "text" }, column(batch, self.text)?.clone());
        let time =
            self.fetched_at.map(|name| Ok::<_, PyErr>(("fetched_at", column(batch, name)?.clone()))).transpose()?;
        RecordBatch::try_from_iter_with_nullable(
            [content].into_iter().chain(time).map(|(name, cells)| (name, cells, true)),
        )
        .map_err(failed)
    }

    /// The names of the pages: those of a column, or else the numbers of the rows from `first` on.
    fn ids_of(&self, batch: &RecordBatch, first: i64) -> PyResult<RecordBatch> {
        let by_habit = || ID_COLUMNS.into_iter().find_map(|name| batch.column_by_name(name));
        let ids = match (self.id, by_habit()) {
            (Some(name), _) => column(batch, name)?.clone(),
            (None, Some(ids)) => ids.clone(),
            (None, None) => Arc::new(Int64Array::from_iter_values(first..first + batch.num_rows() as i64)),
        };
        RecordBatch::try_from_iter_with_nullable([("id", ids, true)]).map_err(failed)
    }
}

/// Reads a table of clusters that the program wrote. Its pages are named by `ids`, or else by its column `url`.
#[pyfunction]
#[pyo3(signature = (path, ids=None))]
pub(crate) fn read_clusters(py: Python<'_>, path: PathBuf, ids: Option<&Table>) -> PyResult<Table> {
    py.detach(|| {
        let file = File::open(&path).map_err(|error| failed(format!("cannot read {}: {error}", path.display())))?;
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(failed)?;
        let ids = ids.map(one_array).transpose()?;
        let (mut batches, mut n_rows) = (Vec::new(), 0);
        let mut reader = builder.build().map_err(failed)?;
        let mut schema =
            named(&RecordBatch::new_empty(arrow_array::RecordBatchReader::schema(&reader)), None)?.schema();
        while let Some(batch) = reader.next().transpose().map_err(failed)? {
            let ids = ids.as_ref().map(|ids| ids.slice(n_rows, batch.num_rows()));
            n_rows += batch.num_rows();
            let batch = named(&batch, ids)?;
            schema = batch.schema();
            batches.push(batch);
        }
        Ok(Table::new(schema, batches))
    })
}

fn one_array(ids: &Table) -> PyResult<ArrayRef> {
    let arrays: Vec<&dyn Array> = ids.batches().iter().map(|batch| batch.column(0).as_ref()).collect();
    if arrays.is_empty() { Ok(Arc::new(Int64Array::from_iter_values([]))) } else { concat(&arrays).map_err(failed) }
}

/// The rows with the names of their pages in the first column.
fn named(batch: &RecordBatch, ids: Option<ArrayRef>) -> PyResult<RecordBatch> {
    let urls = batch.column_by_name("url").cloned();
    let ids = ids.or(urls).unwrap_or_else(|| Arc::new(StringArray::new_null(batch.num_rows())));
    let schema = batch.schema();
    let others = schema.fields().iter().zip(batch.columns()).filter(|(field, _)| field.name() != "url");
    let others = others.map(|(field, cells)| (field.name().as_str(), cells.clone(), true));
    RecordBatch::try_from_iter_with_nullable([("id", ids, true)].into_iter().chain(others)).map_err(failed)
}
