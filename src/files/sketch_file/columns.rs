//! A sketched record as a row of columns.

use crate::document::{FetchTime, Fingerprint};
use crate::intake::{SketchedPage, SketchedRecord};
use crate::sketch::{Equivalences, Shingle, SketchedContent, decode, encode};
use crate::wire::{Origin, Reason, Rejection};
use arrow_array::builder::{
    BinaryBuilder, FixedSizeBinaryBuilder, Int64Builder, ListBuilder, StringBuilder, TimestampMicrosecondBuilder,
};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, BinaryArray, FixedSizeBinaryArray, ListArray, RecordBatch, StringArray};
use arrow_schema::{ArrowError, DataType, Field, Schema, TimeUnit};
use std::sync::{Arc, LazyLock};

/// Bytes of a fingerprint, the most significant first.
const FINGERPRINT_BYTES: i32 = 16;

const TIME_ZONE: &str = "UTC";

/// What a record is, as a word.
const PAGE: &str = "page";
const GONE: &str = "gone";
const REDIRECT: &str = "redirect";
const REJECTED: &str = "rejected";
const UNREADABLE: &str = "unreadable";

static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some(TIME_ZONE.into()));
    let fingerprint = DataType::FixedSizeBinary(FINGERPRINT_BYTES);
    let shingles = || DataType::List(Arc::new(Field::new_list_field(DataType::Int64, true)));
    let required = |name: &str, kind: DataType| Field::new(name, kind, false);
    let optional = |name: &str, kind: DataType| Field::new(name, kind, true);
    Arc::new(Schema::new(vec![
        required("record", DataType::Int64),
        required("record_bytes", DataType::Int64),
        required("chain", DataType::Int64),
        required("kind", DataType::Utf8),
        optional("url", DataType::Utf8),
        optional("fetched_at", time),
        optional("sweep", DataType::Utf8),
        optional("redirect_to", DataType::Utf8),
        optional("reason", DataType::Utf8),
        optional("message", DataType::Utf8),
        optional("identical", fingerprint.clone()),
        optional("lexical", fingerprint.clone()),
        optional("shingle", fingerprint),
        optional("n_words", DataType::Int64),
        optional("n_bytes", DataType::Int64),
        optional("sketch", DataType::Binary),
        optional("index", shingles()),
        optional("super_shingles", shingles()),
        optional("mod_shingles", shingles()),
    ]))
});

/// The columns of a sketch file. Shingles are the bits of unsigned numbers in signed ones, which every reader knows.
pub fn sketch_schema() -> Arc<Schema> {
    Arc::clone(&SCHEMA)
}

/// A row that is read back.
pub(super) enum Row {
    Record(Box<SketchedRecord>),
    Unreadable(String),
}

/// Rows of sketched records under way.
#[derive(Default)]
pub(super) struct SketchColumns {
    n_rows: usize,
    record: Int64Builder,
    record_bytes: Int64Builder,
    chain: Int64Builder,
    kind: StringBuilder,
    url: StringBuilder,
    fetched_at: TimestampMicrosecondBuilder,
    sweep: StringBuilder,
    redirect_to: StringBuilder,
    reason: StringBuilder,
    message: StringBuilder,
    content: ContentColumns,
}

/// The columns of what a page holds, under way: those of [`sketch_schema`] from `identical` to `mod_shingles`.
pub struct ContentColumns {
    identical: FixedSizeBinaryBuilder,
    lexical: FixedSizeBinaryBuilder,
    shingle: FixedSizeBinaryBuilder,
    n_words: Int64Builder,
    n_bytes: Int64Builder,
    sketch: BinaryBuilder,
    index: ListBuilder<Int64Builder>,
    super_shingles: ListBuilder<Int64Builder>,
    mod_shingles: ListBuilder<Int64Builder>,
    encoded: Vec<u8>,
}

impl Default for ContentColumns {
    fn default() -> Self {
        let fingerprints = || FixedSizeBinaryBuilder::new(FINGERPRINT_BYTES);
        ContentColumns {
            identical: fingerprints(),
            lexical: fingerprints(),
            shingle: fingerprints(),
            n_words: Int64Builder::new(),
            n_bytes: Int64Builder::new(),
            sketch: BinaryBuilder::new(),
            index: ListBuilder::default(),
            super_shingles: ListBuilder::default(),
            mod_shingles: ListBuilder::default(),
            encoded: Vec::new(),
        }
    }
}

impl SketchColumns {
    /// Rows so far.
    pub(super) fn n_rows(&self) -> usize {
        self.n_rows
    }

    /// Adds a record.
    ///
    /// # Errors
    /// Where Arrow refuses a value, which it does not.
    pub(super) fn push(&mut self, record: &SketchedRecord) -> Result<(), ArrowError> {
        self.n_rows += 1;
        self.record.append_value(record.origin.offset);
        self.record_bytes.append_value(record.n_bytes as i64);
        self.chain.append_value(record.chain.cast_signed());
        match &record.outcome {
            Ok(page) => self.push_page(page),
            Err(why) => {
                self.kind.append_value(REJECTED);
                self.url.append_option(why.url.as_deref());
                self.fetched_at.append_option(why.fetched_at.map(|time| time.0));
                self.sweep.append_option(why.sweep.as_deref());
                self.redirect_to.append_null();
                self.reason.append_value(why.reason.as_str());
                self.message.append_value(&why.message);
                self.content.push(None)
            }
        }
    }

    /// Adds a part of the input that cannot be read, which comes before a record.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub(super) fn push_unreadable(&mut self, record: i64, what: &str) -> Result<(), ArrowError> {
        self.n_rows += 1;
        self.record.append_value(record);
        self.record_bytes.append_value(0);
        self.chain.append_value(0);
        self.kind.append_value(UNREADABLE);
        for column in [&mut self.url, &mut self.sweep, &mut self.redirect_to, &mut self.reason] {
            column.append_null();
        }
        self.fetched_at.append_null();
        self.message.append_value(what);
        self.content.push(None)
    }

    fn push_page(&mut self, page: &SketchedPage) -> Result<(), ArrowError> {
        let kind = match (&page.content, &page.redirect_to) {
            (Some(_), _) => PAGE,
            (None, Some(_)) => REDIRECT,
            (None, None) => GONE,
        };
        self.kind.append_value(kind);
        self.url.append_value(&page.url);
        self.fetched_at.append_value(page.fetched_at.0);
        self.sweep.append_option(page.sweep.as_deref());
        self.redirect_to.append_option(page.redirect_to.as_deref());
        self.reason.append_null();
        self.message.append_null();
        self.content.push(page.content.as_deref())
    }

    /// The rows so far as columns of [`sketch_schema`], and none are left.
    ///
    /// # Errors
    /// Where Arrow refuses the columns, which it does not.
    pub(super) fn finish(&mut self) -> Result<RecordBatch, ArrowError> {
        self.n_rows = 0;
        let columns: [ArrayRef; 10] = [
            Arc::new(self.record.finish()),
            Arc::new(self.record_bytes.finish()),
            Arc::new(self.chain.finish()),
            Arc::new(self.kind.finish()),
            Arc::new(self.url.finish()),
            Arc::new(self.fetched_at.finish().with_timezone(TIME_ZONE)),
            Arc::new(self.sweep.finish()),
            Arc::new(self.redirect_to.finish()),
            Arc::new(self.reason.finish()),
            Arc::new(self.message.finish()),
        ];
        RecordBatch::try_new(sketch_schema(), columns.into_iter().chain(self.content.finish()).collect())
    }
}

impl ContentColumns {
    /// Adds a row; nulls where there is no content.
    ///
    /// # Errors
    /// Where Arrow refuses a value, which it does not.
    pub fn push(&mut self, content: Option<&SketchedContent>) -> Result<(), ArrowError> {
        let keys = content.map(|content| &content.equivalences);
        append_key(&mut self.identical, keys.map(|keys| keys.identical))?;
        append_key(&mut self.lexical, keys.map(|keys| keys.lexical))?;
        append_key(&mut self.shingle, keys.and_then(|keys| keys.shingle))?;
        self.n_words.append_option(content.map(|content| i64::from(content.n_words)));
        self.n_bytes.append_option(content.map(|content| content.n_bytes as i64));
        match content {
            None => self.sketch.append_null(),
            Some(content) => {
                self.encoded.clear();
                encode(&content.sketch, &mut self.encoded);
                self.sketch.append_value(&self.encoded);
            }
        }
        append_shingles(&mut self.index, content.map(|content| &content.index));
        append_shingles(&mut self.super_shingles, content.map(|content| &content.super_shingles));
        append_shingles(&mut self.mod_shingles, content.map(|content| &content.mod_shingles));
        Ok(())
    }

    /// The rows so far as columns, and none are left.
    pub fn finish(&mut self) -> [ArrayRef; 9] {
        [
            Arc::new(self.identical.finish()),
            Arc::new(self.lexical.finish()),
            Arc::new(self.shingle.finish()),
            Arc::new(self.n_words.finish()),
            Arc::new(self.n_bytes.finish()),
            Arc::new(self.sketch.finish()),
            Arc::new(self.index.finish()),
            Arc::new(self.super_shingles.finish()),
            Arc::new(self.mod_shingles.finish()),
        ]
    }
}

fn append_key(column: &mut FixedSizeBinaryBuilder, key: Option<Fingerprint>) -> Result<(), ArrowError> {
    match key {
        Some(key) => column.append_value(key.0.to_be_bytes()),
        None => {
            column.append_null();
            Ok(())
        }
    }
}

fn append_shingles(column: &mut ListBuilder<Int64Builder>, shingles: Option<&Vec<Shingle>>) {
    for shingle in shingles.into_iter().flatten() {
        column.values().append_value(shingle.cast_signed());
    }
    column.append(shingles.is_some());
}

/// Reads the rows of a batch whose columns are those of [`sketch_schema`]. `None` for a row that no record gives.
pub(super) fn rows(batch: &RecordBatch, source: &Arc<str>) -> Vec<Option<Row>> {
    let columns = Columns(batch);
    (0..batch.num_rows()).map(|at| columns.row(at, source)).collect()
}

/// The columns of a batch.
struct Columns<'a>(&'a RecordBatch);

impl<'a> Columns<'a> {
    fn row(&self, at: usize, source: &Arc<str>) -> Option<Row> {
        let text = |name: &str| self.text(name, at);
        let origin = Origin { source: Arc::clone(source), partition: 0, offset: self.number("record", at)? };
        let message = || text("message").map(String::from);
        let outcome = match text("kind")? {
            UNREADABLE => return Some(Row::Unreadable(message()?)),
            REJECTED => {
                let name = text("reason")?;
                let reason = Reason::ALL.into_iter().find(|reason| reason.as_str() == name)?;
                Err(Rejection {
                    url: text("url").map(String::from),
                    fetched_at: self.time(at),
                    sweep: text("sweep").map(String::from),
                    ..Rejection::new(reason, message()?)
                })
            }
            kind => {
                let (content, redirect_to) = match kind {
                    PAGE => (Some(Arc::new(self.content(at)?)), None),
                    REDIRECT => (None, Some(text("redirect_to")?.to_string())),
                    GONE => (None, None),
                    _ => return None,
                };
                let sweep = text("sweep").map(String::from);
                let (url, fetched_at) = (text("url")?.to_string(), self.time(at)?);
                Ok(SketchedPage { url, fetched_at, sweep, content, redirect_to, said: None, text: None })
            }
        };
        let n_bytes = usize::try_from(self.number("record_bytes", at)?).ok()?;
        let chain = self.number("chain", at)?.cast_unsigned();
        Some(Row::Record(Box::new(SketchedRecord { origin, chain, n_bytes, outcome })))
    }

    fn content(&self, at: usize) -> Option<SketchedContent> {
        let shingle = self.key("shingle", at);
        let sketch = self.column::<BinaryArray>("sketch").filter(|column| column.is_valid(at))?.value(at);
        Some(SketchedContent {
            equivalences: Equivalences {
                identical: self.key("identical", at)?,
                lexical: self.key("lexical", at)?,
                shingle,
            },
            sketch: Arc::new(decode(sketch).ok()?),
            index: self.shingles("index", at)?,
            mod_shingles: self.shingles("mod_shingles", at)?,
            super_shingles: self.shingles("super_shingles", at)?,
            n_words: u32::try_from(self.number("n_words", at)?).ok()?,
            n_bytes: u64::try_from(self.number("n_bytes", at)?).ok()?,
        })
    }

    fn column<T: Array + 'static>(&self, name: &str) -> Option<&'a T> {
        self.0.column_by_name(name)?.as_any().downcast_ref()
    }

    fn text(&self, name: &str, at: usize) -> Option<&'a str> {
        let column: &StringArray = self.column(name)?;
        column.is_valid(at).then(|| column.value(at))
    }

    fn number(&self, name: &str, at: usize) -> Option<i64> {
        let column = self.0.column_by_name(name)?.as_primitive_opt::<Int64Type>()?;
        column.is_valid(at).then(|| column.value(at))
    }

    fn time(&self, at: usize) -> Option<FetchTime> {
        let column = self.0.column_by_name("fetched_at")?.as_primitive_opt::<TimestampMicrosecondType>()?;
        column.is_valid(at).then(|| FetchTime(column.value(at)))
    }

    fn key(&self, name: &str, at: usize) -> Option<Fingerprint> {
        let column: &FixedSizeBinaryArray = self.column(name)?;
        let bytes = column.is_valid(at).then(|| column.value(at))?;
        Some(Fingerprint(u128::from_be_bytes(bytes.try_into().ok()?)))
    }

    /// Shingles, which must ascend.
    fn shingles(&self, name: &str, at: usize) -> Option<Vec<Shingle>> {
        let lists: &ListArray = self.column(name)?;
        let list = lists.is_valid(at).then(|| lists.value(at))?;
        let list = list.as_primitive_opt::<Int64Type>().filter(|list| list.null_count() == 0)?;
        let shingles: Vec<Shingle> = list.values().iter().map(|shingle| shingle.cast_unsigned()).collect();
        shingles.is_sorted().then_some(shingles)
    }
}
