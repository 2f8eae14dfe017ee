//! `sketch`: from texts to sketches, row by row, on all cores.

use crate::error::failed;
use crate::settings::Settings;
use crate::table::{Batches, Table, Text, Texts, column};
use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use lookalike::document::{Body, Content, FetchTime, MediaType, Page};
use lookalike::files::{ContentColumns, sketch_schema};
use lookalike::sketch::{SketchedContent, Sketcher};
use lookalike::wire::Limits;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// Rows that a thread takes at once.
const ROWS_AT_ONCE: usize = 16;

/// How long a Ctrl-C waits, at most.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// Sketches the texts of a column; one row of the result for each row of the pages, in their order.
#[pyfunction]
#[pyo3(signature = (pages, text, url, html, store, threads, settings))]
#[expect(clippy::too_many_arguments, reason = "they are those of the function in Python")]
pub(crate) fn sketch(
    py: Python<'_>,
    pages: &Bound<'_, PyAny>,
    text: &str,
    url: Option<&str>,
    html: bool,
    store: Option<PathBuf>,
    threads: usize,
    settings: &Settings,
) -> PyResult<Table> {
    let (rule, seed) = settings.rule_and_seed(store.as_deref())?;
    let sketcher = rule.sketcher(&seed);
    let mut workers = Workers {
        sketchers: vec![sketcher; threads.max(1)],
        limits: settings.config.limits.clone(),
        media_type: media_type(html),
    };
    let mut pages = Batches::of(pages)?;
    py.detach(|| {
        let (mut schema, mut sketched) = (schema(None)?, Vec::new());
        while let Some(batch) = pages.next()? {
            let rows = workers.sketch(&Texts::of(&batch, text)?, batch.num_rows())?;
            let urls = url.map(|url| column(&batch, url)).transpose()?.cloned();
            let of_batch = to_batch(urls, rows)?;
            schema = of_batch.schema();
            sketched.push(of_batch);
        }
        Ok(Table::new(schema, sketched))
    })
}

/// How a text is to be read.
pub(crate) fn media_type(html: bool) -> MediaType {
    if html { MediaType::Html } else { MediaType::PlainText }
}

/// Sketches one text.
///
/// # Errors
/// Why it has no sketch.
pub(crate) fn sketch_text(
    sketcher: &mut Sketcher,
    text: Text<'_>,
    media_type: MediaType,
    limits: &Limits,
) -> Result<SketchedContent, String> {
    let body = match text {
        Text::Text(text) => Body::Text(text.to_string()),
        Text::Bytes(bytes) => Body::Bytes { bytes: bytes.to_vec(), charset: None },
    };
    let n_bytes = body.as_bytes().len();
    if n_bytes > limits.body_bytes_max {
        return Err(limits.body_too_large(n_bytes).message);
    }
    let content = Content::Body { media_type, body };
    let page = Page { url: String::new(), fetched_at: FetchTime(0), sweep: None, content };
    let sketched = sketcher.sketch_page(&page, limits.words_max).map_err(|why| why.to_string())?;
    sketched.ok_or_else(|| "the page has no content".to_string())
}

/// A sketched row, or why it has no sketch.
type Row = Result<SketchedContent, String>;

struct Workers {
    /// One for each thread.
    sketchers: Vec<Sketcher>,
    limits: Limits,
    media_type: MediaType,
}

impl Workers {
    /// Sketches rows on all threads, and watches for signals meanwhile.
    fn sketch(&mut self, texts: &Texts, n_rows: usize) -> PyResult<Vec<Row>> {
        let (limits, media_type) = (&self.limits, self.media_type);
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let (sender, finished) = channel();
        let n_threads = n_rows.div_ceil(ROWS_AT_ONCE);
        let mut parts: Vec<(usize, Vec<Row>)> = Vec::new();
        std::thread::scope(|scope| {
            for sketcher in self.sketchers.iter_mut().take(n_threads) {
                let (sender, next, stop) = (sender.clone(), &next, &stop);
                scope.spawn(move || {
                    while !stop.load(Relaxed) {
                        let begin = next.fetch_add(ROWS_AT_ONCE, Relaxed);
                        if begin >= n_rows {
                            break;
                        }
                        let rows = begin..n_rows.min(begin + ROWS_AT_ONCE);
                        let rows = rows
                            .map(|at| {
                                let text = texts.row(at).ok_or("the text is null")?;
                                sketch_text(sketcher, text, media_type, limits)
                            })
                            .collect();
                        // The receiver is there as long as this thread.
                        let _ = sender.send((begin, rows));
                    }
                });
            }
            drop(sender);
            loop {
                match finished.recv_timeout(SIGNAL_INTERVAL) {
                    Ok(part) => parts.push(part),
                    Err(RecvTimeoutError::Disconnected) => return Ok(()),
                    Err(RecvTimeoutError::Timeout) => {}
                }
                if let Err(interrupt) = Python::attach(|py| py.check_signals()) {
                    stop.store(true, Relaxed);
                    return Err(interrupt);
                }
            }
        })?;
        parts.sort_unstable_by_key(|(begin, _)| *begin);
        Ok(parts.into_iter().flat_map(|(_, rows)| rows).collect())
    }
}

/// The columns of a sketch file that a text alone can fill, under their names and of their types.
const COLUMNS: [&str; 11] = [
    "kind",
    "message",
    "identical",
    "lexical",
    "shingle",
    "n_words",
    "n_bytes",
    "sketch",
    "index",
    "super_shingles",
    "mod_shingles",
];

/// The columns of the result.
fn schema(url: Option<&DataType>) -> PyResult<SchemaRef> {
    let of_files = sketch_schema();
    let url = url.map(|kind| Ok(Field::new("url", kind.clone(), true)));
    let columns = COLUMNS.into_iter().map(|name| of_files.field_with_name(name).cloned().map_err(failed));
    Ok(Arc::new(Schema::new(url.into_iter().chain(columns).collect::<PyResult<Vec<_>>>()?)))
}

fn to_batch(urls: Option<ArrayRef>, rows: Vec<Row>) -> PyResult<RecordBatch> {
    let (mut kinds, mut messages, mut contents) =
        (StringBuilder::new(), StringBuilder::new(), ContentColumns::default());
    for row in &rows {
        kinds.append_value(if row.is_ok() { "page" } else { "rejected" });
        messages.append_option(row.as_ref().err());
        contents.push(row.as_ref().ok()).map_err(failed)?;
    }
    let schema = schema(urls.as_ref().map(|urls| urls.data_type()))?;
    let own: [ArrayRef; 2] = [Arc::new(kinds.finish()), Arc::new(messages.finish())];
    RecordBatch::try_new(schema, urls.into_iter().chain(own).chain(contents.finish()).collect()).map_err(failed)
}
