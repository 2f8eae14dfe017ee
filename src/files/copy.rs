//! Reads inputs a second time and writes some of their records: as they came, or as pages of text.
//!
//! A further format is a variant of [`CopyFormat`], which `RecordCopier::write` turns a record into, and one of `Output`.

use super::compression::{IdleDecoders, decompressed};
use super::format::{BOM, FileFormat, sniff};
use super::input_file::InputFile;
use super::layout::InputLayout;
use super::parquet_writer::{ColumnKind, ParquetWriter};
use super::read_error::ReadError;
use super::record_reader::{Advance, RecordReader};
use super::record_writer::RecordWriter;
use super::row_copy::{RowCopy, RowCopyError};
use super::source::{FileSource, OpenRecords, ReadSettings, open_again};
use crate::document::{CanonicalRule, Content, FetchTime, Page, tidy_text};
use crate::intake::{FutureLimit, PageReader};
use crate::ports::Progress;
use serde::Serialize;
use serde_json::json;
use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

/// Records between two calls of [`CopyJob::passed`].
const RECORDS_PER_CALL: u64 = 128;

/// What records are written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyFormat {
    /// The bytes that they came as, in the format and the compression of their input; of Parquet, their rows with all
    /// columns.
    Same,
    /// JSON pages with the text that a reader sees, one a line, in the compression of their input.
    Jsonl,
    /// The same pages as Parquet.
    Parquet,
}

/// The columns of pages as Parquet. Features are a JSON array.
const PAGE_COLUMNS: [(&str, ColumnKind); 5] = [
    ("url", ColumnKind::Text),
    ("fetched_at", ColumnKind::Time),
    ("sweep", ColumnKind::Text),
    ("text", ColumnKind::Text),
    ("features", ColumnKind::Text),
];

/// Whether the records of a file can be written as they came. True for a file that cannot be read: reading it reports what
/// is wrong.
pub fn can_stay_same(path: &Path) -> bool {
    format_of_file(path).map_or(true, FileFormat::can_stay_same)
}

/// The format of a file. A table that only the names of its columns show is taken for JSON lines.
pub(super) fn format_of_file(path: &Path) -> Result<FileFormat, ReadError> {
    let stream = decompressed(Box::new(InputFile::open(path)?), &IdleDecoders::default())?;
    Ok(sniff(stream, &path.to_string_lossy(), |_| false)?.format)
}

/// An input, what is written of it, and where.
pub struct CopyJob<'a> {
    /// The input.
    pub input: &'a Path,
    /// How far the input was read: the number of its records, and the chain after them.
    pub read: Progress,
    /// The file that is written, or truncated.
    pub output: &'a Path,
    /// What the records are written as.
    pub format: CopyFormat,
    /// Which of a page's words are its text, where that is written.
    pub text: CanonicalRule,
    /// Which records are written, by their number in the input.
    pub wants: &'a dyn Fn(i64) -> bool,
    /// Called with every number of records passed. If it returns false, the copy ends.
    pub passed: &'a dyn Fn(u64) -> bool,
}

/// Why a copy ended early. The output is then incomplete.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The input cannot be read as far as before.
    #[error("{path}: {why}")]
    Input {
        /// The input.
        path: PathBuf,
        /// Why, and what to do.
        why: String,
    },
    /// The input is another one than before.
    #[error("{0} is not the file that was read before; bring that one back, or begin again in another folder")]
    Changed(PathBuf),
    /// The input's format cannot be written.
    #[error("{0}: records of this format cannot be written as they came; give --format jsonl or parquet")]
    NotSame(PathBuf),
    /// The output cannot be written.
    #[error("{path}: {error}")]
    Output {
        /// The output.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// [`CopyJob::passed`] returned false.
    #[error("stopped")]
    Stopped,
}

/// A page as text.
#[derive(Serialize)]
struct TextPage<'a> {
    url: &'a str,
    fetched_at: FetchTime,
    #[serde(skip_serializing_if = "Option::is_none")]
    sweep: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    features: Option<&'a [String]>,
}

/// Copies records of inputs.
#[derive(Clone)]
pub struct RecordCopier {
    settings: ReadSettings,
    pages: PageReader,
}

impl RecordCopier {
    /// Creates a copier that reads inputs as `source` does. Originals of WARC revisits are searched in `archives`: inputs are
    /// copied in any order, and some may have been copied before.
    pub fn new(source: &FileSource, archives: impl IntoIterator<Item = PathBuf>) -> Self {
        archives.into_iter().for_each(|path| source.pass_over(path));
        let settings = source.settings().clone();
        // What was accepted once is not judged again.
        let pages = PageReader::new(settings.limits.clone(), FutureLimit::NONE);
        RecordCopier { settings, pages }
    }

    /// Copies the wanted records of an input, in their order, and makes the output durable. A description of the file
    /// (`warcinfo`) always goes along where the format is [`CopyFormat::Same`].
    ///
    /// # Errors
    /// [`CopyError`]
    pub fn copy(&mut self, job: &CopyJob<'_>) -> Result<(), CopyError> {
        let mut copy = self.open(job)?;
        let (mut chain, mut n_passed) = (0, 0);
        for offset in 0..job.read.next_offset {
            let is_wanted = (job.wants)(offset);
            copy.keep_bytes(is_wanted);
            chain = match copy.next(chain).map_err(|error| unread(job, &error))? {
                Some(chain) => chain,
                None => return Err(CopyError::Changed(job.input.to_path_buf())),
            };
            self.write(&mut copy, job, offset, is_wanted)?;
            n_passed += 1;
            if n_passed == RECORDS_PER_CALL && !(job.passed)(std::mem::take(&mut n_passed)) {
                return Err(CopyError::Stopped);
            }
        }
        if chain != job.read.chain {
            return Err(CopyError::Changed(job.input.to_path_buf()));
        }
        copy.keep_bytes(false);
        // What follows was not read before, or could not be.
        let _ = copy.next(chain);
        self.write(&mut copy, job, job.read.next_offset, false)?;
        (job.passed)(n_passed);
        copy.finish(job)
    }

    /// Opens the input and creates the output.
    fn open(&self, job: &CopyJob<'_>) -> Result<OpenCopy, CopyError> {
        let (opened, layout) = open_again(job.input, &self.settings).map_err(|error| unread(job, &error))?;
        let OpenRecords { records, format, compression, had_mark } = opened;
        let is_same = job.format == CopyFormat::Same;
        if is_same && !format.can_stay_same() {
            return Err(CopyError::NotSame(job.input.to_path_buf()));
        }
        let create = || {
            Ok(match job.format {
                CopyFormat::Same if format == FileFormat::Parquet => {
                    Output::Rows(RowCopy::new(job.input.to_path_buf(), job.output.to_path_buf()))
                }
                CopyFormat::Same => {
                    let mut writer = RecordWriter::create(job.output, format, compression)?;
                    if had_mark {
                        writer.write(BOM)?;
                    }
                    Output::Records(writer)
                }
                CopyFormat::Jsonl => Output::Records(RecordWriter::create(job.output, FileFormat::Jsonl, compression)?),
                CopyFormat::Parquet => Output::Table(Box::new(ParquetWriter::new(
                    BufWriter::new(File::create(job.output)?),
                    &PAGE_COLUMNS,
                )?)),
            })
        };
        let output = create().map_err(|error| unwritten(job, error))?;
        let array = (is_same && format == FileFormat::JsonArray).then_some(0);
        Ok(OpenCopy { records, layout, output, is_same, array, bytes: Vec::new() })
    }

    /// Writes the current record if it is wanted, and what always goes along.
    fn write(&mut self, copy: &mut OpenCopy, job: &CopyJob<'_>, offset: i64, is_wanted: bool) -> Result<(), CopyError> {
        let OpenCopy { records, layout, output, .. } = copy;
        let written = match output {
            Output::Rows(rows) if offset < job.read.next_offset => {
                rows.push(is_wanted);
                Ok(())
            }
            Output::Rows(_) => Ok(()),
            Output::Records(_) if job.format == CopyFormat::Same => copy.write_bytes(is_wanted),
            // The first record may settle the layout, wanted or not.
            Output::Records(_) | Output::Table(_)
                if is_wanted || (offset < job.read.next_offset && layout.is_undecided()) =>
            {
                let record = layout.apply(records.decode(), offset, &self.settings.limits);
                if !is_wanted {
                    return Ok(());
                }
                // Only pages are wanted; that this one is none any more means that the file has changed.
                let changed = || CopyError::Changed(job.input.to_path_buf());
                let page = self.pages.page(&record).map_err(|_| changed())?;
                let page = TextPage::of(&page, &job.text).ok_or_else(changed)?;
                output.write_page(&page)
            }
            Output::Records(_) | Output::Table(_) => Ok(()),
        };
        written.map_err(|error| unwritten(job, error))
    }
}

impl<'a> TextPage<'a> {
    /// The text of a page that counts by a rule; none where there is no page any more.
    fn of(page: &'a Page, rule: &CanonicalRule) -> Option<Self> {
        let Page { url, fetched_at, sweep, content } = page;
        let (text, features) = match content {
            Content::Body { body, media_type } => (Some(tidy_text(body, *media_type, rule).ok()?), None),
            Content::Features(features) => (None, Some(features.as_slice())),
            Content::Gone | Content::Redirect(_) => return None,
        };
        Some(TextPage { url, fetched_at: *fetched_at, sweep: sweep.as_deref(), text, features })
    }
}

/// What is written.
enum Output {
    /// Records one after the other.
    Records(RecordWriter),
    /// Pages as rows.
    Table(Box<ParquetWriter<BufWriter<File>>>),
    /// Rows of the input.
    Rows(RowCopy),
}

impl Output {
    /// Writes a page of text.
    fn write_page(&mut self, page: &TextPage<'_>) -> io::Result<()> {
        match self {
            Output::Records(writer) => {
                let mut line = serde_json::to_vec(page)?;
                line.push(b'\n');
                writer.write(&line)
            }
            Output::Table(table) => {
                let TextPage { url, fetched_at, sweep, text, features } = page;
                let features = features.map(serde_json::to_string).transpose()?;
                table.write(&[json!(url), json!(fetched_at), json!(sweep), json!(text), json!(features)])
            }
            Output::Rows(_) => Ok(()),
        }
    }
}

/// An input and its output.
struct OpenCopy {
    records: Box<dyn RecordReader>,
    layout: InputLayout,
    output: Output,
    is_same: bool,
    /// The elements written, if the output is a JSON array.
    array: Option<u64>,
    bytes: Vec<Vec<u8>>,
}

impl OpenCopy {
    /// Keeps the bytes of the next record if they are written as they came. Kept and never taken, they would pile up.
    fn keep_bytes(&mut self, next: bool) {
        if self.is_same {
            self.records.keep_bytes(next);
        }
    }

    /// Writes the bytes of the current record if it is wanted, and what always goes along.
    fn write_bytes(&mut self, is_wanted: bool) -> io::Result<()> {
        let Output::Records(writer) = &mut self.output else { return Ok(()) };
        self.records.take_bytes(is_wanted, &mut self.bytes);
        for record in self.bytes.drain(..) {
            if let Some(n) = &mut self.array {
                writer.write(if *n == 0 { b"[\n" } else { b",\n" })?;
                *n += 1;
            }
            writer.write(&record)?;
        }
        Ok(())
    }

    /// Ends the output and makes it durable.
    fn finish(self, job: &CopyJob<'_>) -> Result<(), CopyError> {
        let written = match (self.output, self.array) {
            (Output::Records(mut writer), array) => {
                let end: &[u8] = match array {
                    Some(0) => b"[]\n",
                    Some(_) => b"\n]\n",
                    None => b"",
                };
                let ended = if end.is_empty() { Ok(()) } else { writer.write(end) };
                ended.and_then(|()| writer.finish())
            }
            (Output::Table(table), _) => table.finish().and_then(|out| out.into_inner()?.sync_all()),
            (Output::Rows(rows), _) => match rows.finish() {
                Err(RowCopyError::Input(error)) => return Err(unread(job, &error)),
                Err(RowCopyError::Output(error)) => Err(error),
                Ok(()) => Ok(()),
            },
        };
        written.map_err(|error| unwritten(job, error))
    }

    /// Moves to the next record. Returns the chain after it, or `None` at the end.
    fn next(&mut self, chain: u64) -> Result<Option<u64>, ReadError> {
        loop {
            match self.records.advance(chain)? {
                Advance::Record(chain) => return Ok(Some(chain)),
                Advance::Gap(_) => {}
                Advance::End => return Ok(None),
            }
        }
    }
}

fn unread(job: &CopyJob<'_>, error: &ReadError) -> CopyError {
    CopyError::Input { path: job.input.to_path_buf(), why: error.to_string() }
}

fn unwritten(job: &CopyJob<'_>, error: io::Error) -> CopyError {
    CopyError::Output { path: job.output.to_path_buf(), error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::PageContent;
    use crate::files::Input;
    use crate::files::compression::tests::{gzip, zstd};
    use crate::ports::{Polled, ProgressMap, Source};
    use crate::wire::Limits;
    use std::time::Duration;

    const LIMITS: Limits =
        Limits { body_bytes_max: 1000, url_bytes_max: 40, sweep_bytes_max: 10, words_max: 100, text_bytes_max: 100 };

    fn source(inputs: Vec<Input>) -> FileSource {
        FileSource::new(inputs, ProgressMap::new(), LIMITS, None)
    }

    /// How far a source reads a file.
    fn read(path: &Path) -> Progress {
        let mut source = source(vec![Input::File(path.to_path_buf())]);
        let mut progress = Progress::default();
        loop {
            match source.poll(Duration::from_secs(9)).expect("a source") {
                Polled::Record(record) => {
                    progress = Progress { next_offset: record.origin.offset + 1, chain: record.chain };
                }
                Polled::End => return progress,
                Polled::Idle | Polled::Unreadable(_) => {}
            }
        }
    }

    fn copy(path: &Path, read: Progress, format: CopyFormat, wanted: &[i64]) -> Result<Vec<u8>, CopyError> {
        copy_text(path, read, (format, PageContent::All), wanted)
    }

    fn copy_text(
        path: &Path,
        read: Progress,
        (format, content): (CopyFormat, PageContent),
        wanted: &[i64],
    ) -> Result<Vec<u8>, CopyError> {
        let output = path.with_extension("copy");
        let job = CopyJob {
            input: path,
            read,
            output: &output,
            format,
            text: CanonicalRule { content },
            wants: &|offset| wanted.contains(&offset),
            passed: &|_| true,
        };
        RecordCopier::new(&source(Vec::new()), []).copy(&job)?;
        let file = Box::new(File::open(output).expect("opens"));
        let mut stream = decompressed(file, &Default::default()).expect("opens");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("whole");
        Ok(bytes)
    }

    /// Copies the wanted records of a file in every compression.
    fn check(bytes: &[u8], wanted: &[i64], expected: &[u8]) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        for pack in [|bytes: &[u8]| bytes.to_vec(), gzip, zstd] {
            std::fs::write(&path, pack(bytes)).expect("written");
            let found = copy(&path, read(&path), CopyFormat::Same, wanted).expect("copied");
            let [found, expected] = [&found, expected].map(String::from_utf8_lossy);
            assert_eq!(found, expected, "{wanted:?} of {:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn lines_come_as_they_were() {
        let long = format!("{{\"x\":\"{}\"}}", "y".repeat(200_000));
        let text = format!("{{\"a\":1}}\r\n\n  \n {{ }} \n{long}\nno json\n{{\"last\":\"\\u00e9\"}}");
        check(text.as_bytes(), &[], b"");
        check(text.as_bytes(), &[0], b"{\"a\":1}\r\n");
        check(text.as_bytes(), &[1, 3], b" { } \nno json\n");
        check(text.as_bytes(), &[0, 4], b"{\"a\":1}\r\n{\"last\":\"\\u00e9\"}");
        check(b"", &[0], b"");
        check(b"\xef\xbb\xbf[1]\n[2]\n", &[1], b"\xef\xbb\xbf[2]\n");
    }

    fn record(version: &str, kind: &str, block: &str) -> String {
        format!("{version}\r\nWARC-Type: {kind}\r\nContent-Length: {}\r\n\r\n{block}\r\n\r\n", block.len())
    }

    #[test]
    fn warc_records_come_as_they_were() {
        let info = record("WARC/1.0", "warcinfo", "software: x");
        let other = record("WARC/1.1", "warcinfo", "software: y");
        let [request, metadata] = ["request", "metadata"].map(|kind| record("WARC/1.0", kind, &"x".repeat(300_000)));
        // Some writers begin in lower case. Blocks may look like records.
        let pages = [
            record("WARC/1.0", "response", "HTTP/1.1 200 OK\r\n\r\nWARC/1.0\r\n\r\n"),
            record("warc/1.0", "response", &"a block\r\n\r\n".repeat(900)),
            record("WARC/1.1", "resource", ""),
            record("WARC/1.0", "conversion", "the last"),
        ];
        let [a, b, c, d] = &pages;
        let whole = [&info, &request, a, &metadata, b, &other, c, &request, d, &info].map(String::as_str).concat();
        check(whole.as_bytes(), &[], [&info, &other, &info].map(String::as_str).concat().as_bytes());
        for wanted in [&[0][..], &[1], &[2], &[3], &[0, 1, 2, 3]] {
            let page = |at: usize| if wanted.contains(&(at as i64)) { pages[at].as_str() } else { "" };
            let expected = [&info, page(0), page(1), &other, page(2), page(3), &info].concat();
            check(whole.as_bytes(), wanted, expected.as_bytes());
        }
        // What is between records stays away, and a wrong length costs that record alone.
        let gap = [info.as_str(), a, "garbage\r\nmore\r\n", c, d].concat();
        check(gap.as_bytes(), &[1, 2], [info.as_str(), c, d].concat().as_bytes());
    }

    #[test]
    fn another_file_than_before_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let write = |text: &str| std::fs::write(&path, text).expect("written");
        write("[1]\n[2]\n");
        let before = read(&path);
        for text in ["[1]\n[3]\n", "[1]\n", ""] {
            write(text);
            let copied = copy(&path, before, CopyFormat::Same, &[0]);
            assert!(matches!(copied, Err(CopyError::Changed(_))), "{text:?}: {copied:?}");
        }
        // What a file gained since then was not read, and is not written.
        write("[1]\n[2]\n[3]\n");
        assert_eq!(copy(&path, before, CopyFormat::Same, &[1, 2]).expect("copied"), b"[2]\n");
    }

    #[test]
    fn the_text_is_that_of_the_content_where_it_is_wanted() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let story = "<p>The rains came late this year, and with them came the cranes.</p>\n<p>They left in autumn.</p>";
        let body =
            format!("<title>Cranes</title><nav><a href='/'>Home</a></nav><main>{story}</main><footer>(c)</footer>");
        let line = serde_json::json!({
            "url": "http://a/", "fetched_at": "2026-01-01T00:00:00Z", "content_type": "text/html", "body": body,
        });
        std::fs::write(&path, format!("{line}\n")).expect("written");
        for (content, expected) in [
            (PageContent::Main, "The rains came late this year, and with them came the cranes.\nThey left in autumn."),
            (
                PageContent::All,
                "Cranes Home The rains came late this year, and with them came the cranes.\nThey left in autumn. (c)",
            ),
        ] {
            let copied = copy_text(&path, read(&path), (CopyFormat::Jsonl, content), &[0]).expect("copied");
            let page: serde_json::Value = serde_json::from_slice(&copied).expect("JSON");
            assert_eq!(page["text"], expected, "{content:?}");
        }
    }

    #[test]
    fn text_is_tidied_where_it_was_markup() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let page =
            |content: &str| format!("{{\"url\":\"http://a/\",\"fetched_at\":\"2026-01-01T00:00:00Z\",{content}}}\n");
        let html =
            page(r#""sweep":"s","body":"<title> A\n  b</title>\n\n<p>c&nbsp; d</p> ","content_type":"text/html""#);
        let pages = [html, page(r#""text":"  a\n\n b ""#), page(r#""features":["x","y"]"#)].concat();
        std::fs::write(&path, pages).expect("written");
        let copied = copy(&path, read(&path), CopyFormat::Jsonl, &[0, 1, 2]).expect("copied");
        let head = r#"{"url":"http://a/","fetched_at":"2026-01-01T00:00:00Z","#;
        let expected = [r#""sweep":"s","text":"A\nb\nc d"}"#, r#""text":"  a\n\n b "}"#, r#""features":["x","y"]}"#];
        let expected: String = expected.into_iter().map(|rest| format!("{head}{rest}\n")).collect();
        assert_eq!(String::from_utf8_lossy(&copied), expected);
    }
}
