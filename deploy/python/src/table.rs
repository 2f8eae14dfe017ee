//! Tables: Arrow data that comes from any library, and goes to any, through the Arrow PyCapsule interface.

use crate::error::{failed, usage};
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::{Array, ArrayRef, BinaryViewArray, RecordBatch, RecordBatchIterator, StringViewArray};
use arrow_cast::cast;
use arrow_pyarrow::FromPyArrow;
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{DataType, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyIterator, PyString};
use std::sync::Arc;

/// A table of Arrow data. `pyarrow.table(…)`, `polars.DataFrame(…)` and others read it without copying.
#[pyclass(frozen, module = "lookalike._lookalike")]
pub(crate) struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Table {
    pub fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        Table { schema, batches }
    }

    pub fn batches(&self) -> &[RecordBatch] {
        &self.batches
    }
}

#[pymethods]
impl Table {
    /// The names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// How many rows the table has.
    #[getter]
    fn num_rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    fn __len__(&self) -> usize {
        self.num_rows()
    }

    fn __repr__(&self) -> String {
        let column = |field: &Arc<arrow_schema::Field>| format!("{}: {}", field.name(), field.data_type());
        let columns: Vec<String> = self.schema.fields().iter().map(column).collect();
        format!("<lookalike.Table of {} rows: {}>", self.num_rows(), columns.join(", "))
    }

    /// The columns as an Arrow C schema.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.schema.as_ref()).map_err(failed)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The rows as an Arrow C stream. The table stays as it is; every call gives all rows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface allows the producer to leave other types to the consumer.
        drop(requested_schema);
        let batches = RecordBatchIterator::new(self.batches.clone().into_iter().map(Ok), self.schema.clone());
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}

/// Batches of pages that Python gives: a table, a stream of batches, one batch, or an iterable of these.
pub(crate) enum Batches {
    Stream(RecordBatchStreamReader),
    One(Option<RecordBatch>),
    Each { iterator: Py<PyIterator>, current: Option<Box<Batches>> },
}

impl Batches {
    /// Batches of anything that speaks Arrow, or of an iterable of such things.
    pub fn of(pages: &Bound<'_, PyAny>) -> PyResult<Self> {
        if pages.hasattr("__arrow_c_stream__")? {
            return Ok(Batches::Stream(RecordBatchStreamReader::from_pyarrow_bound(pages)?));
        }
        if pages.hasattr("__arrow_c_array__")? {
            return Ok(Batches::One(Some(RecordBatch::from_pyarrow_bound(pages)?)));
        }
        match pages.try_iter() {
            Ok(iterator) if !pages.is_instance_of::<PyString>() => {
                Ok(Batches::Each { iterator: iterator.unbind(), current: None })
            }
            _ => {
                let kind = pages.get_type().name()?;
                Err(usage(format!(
                    "pages of type {kind} are no Arrow data: give a pyarrow.Table, a polars.DataFrame, or batches of them"
                )))
            }
        }
    }

    /// The next batch; none at the end. Call it without the interpreter's lock.
    pub fn next(&mut self) -> PyResult<Option<RecordBatch>> {
        loop {
            match self {
                Batches::Stream(stream) => return stream.next().transpose().map_err(failed),
                Batches::One(batch) => return Ok(batch.take()),
                Batches::Each { iterator, current } => {
                    if let Some(batches) = current
                        && let Some(batch) = batches.next()?
                    {
                        return Ok(Some(batch));
                    }
                    let item = Python::attach(|py| match iterator.bind(py).clone().next() {
                        Some(item) => Batches::of(&item?).map(Some),
                        None => Ok(None),
                    })?;
                    match item {
                        Some(item) => *current = Some(Box::new(item)),
                        None => return Ok(None),
                    }
                }
            }
        }
    }
}

/// The column of this name.
pub(crate) fn column<'b>(batch: &'b RecordBatch, name: &str) -> PyResult<&'b ArrayRef> {
    batch.column_by_name(name).ok_or_else(|| {
        let names: Vec<String> = batch.schema_ref().fields().iter().map(|field| field.name().clone()).collect();
        usage(format!("there is no column {name:?}; there are {}", names.join(", ")))
    })
}

/// A column of texts, or of their bytes.
pub(crate) enum Texts {
    Text(StringViewArray),
    Bytes(BinaryViewArray),
}

impl Texts {
    /// The texts of a column.
    pub fn of(batch: &RecordBatch, name: &str) -> PyResult<Self> {
        let column = column(batch, name)?;
        let kind = match column.data_type() {
            DataType::Dictionary(_, values) => values.as_ref(),
            kind => kind,
        };
        let to = |kind: DataType| cast(column, &kind).map_err(failed);
        match kind {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => {
                Ok(Texts::Text(StringViewArray::from(to(DataType::Utf8View)?.to_data())))
            }
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
                Ok(Texts::Bytes(BinaryViewArray::from(to(DataType::BinaryView)?.to_data())))
            }
            other => Err(usage(format!("column {name:?} has the type {other}, not text"))),
        }
    }

    /// The text of a row, or its bytes; none where it is null.
    pub fn row(&self, at: usize) -> Option<Text<'_>> {
        match self {
            Texts::Text(cells) => cells.is_valid(at).then(|| Text::Text(cells.value(at))),
            Texts::Bytes(cells) => cells.is_valid(at).then(|| Text::Bytes(cells.value(at))),
        }
    }
}

/// A text, or its bytes in a charset that is still to be found.
#[derive(Clone, Copy)]
pub(crate) enum Text<'a> {
    Text(&'a str),
    Bytes(&'a [u8]),
}
