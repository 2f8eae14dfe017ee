//! Reads inputs a second time and writes some of their records: as the bytes that they came as, or as JSON pages of text.

use super::compression::{decompressed_as, peek};
use super::format::{BOM, FileFormat, sniff};
use super::read_error::ReadError;
use super::record_reader::{Advance, RecordReader};
use super::record_writer::RecordWriter;
use super::source::{FileSource, ReadSettings, reader_of};
use crate::document::{Content, FetchTime, MediaType, Page, plain_text};
use crate::intake::{FutureLimit, PageReader};
use crate::ports::Progress;
use crate::wire::Record;
use serde::Serialize;
use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Records between two calls of [`CopyJob::passed`].
const RECORDS_PER_CALL: u64 = 128;

/// What records are written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyFormat {
    /// The bytes that they came as, in the format and the compression of their input.
    Same,
    /// JSON pages with the text that a reader sees, one a line, in the compression of their input.
    Jsonl,
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
    /// The input's format has no records of bytes.
    #[error("{0}: records of this format cannot be written as they came; give --format jsonl")]
    NoBytes(PathBuf),
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
    /// Creates a copier that reads inputs as `source` does.
    pub fn new(source: &FileSource) -> Self {
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
            copy.records.keep_bytes(is_wanted);
            chain = match copy.next(chain).map_err(|error| unread(job, &error))? {
                Some(chain) => chain,
                None => return Err(CopyError::Changed(job.input.to_path_buf())),
            };
            self.write(&mut copy, job, is_wanted)?;
            n_passed += 1;
            if n_passed == RECORDS_PER_CALL && !(job.passed)(std::mem::take(&mut n_passed)) {
                return Err(CopyError::Stopped);
            }
        }
        if chain != job.read.chain {
            return Err(CopyError::Changed(job.input.to_path_buf()));
        }
        copy.records.keep_bytes(false);
        // What follows was not read before, or could not be.
        let _ = copy.next(chain);
        self.write(&mut copy, job, false)?;
        (job.passed)(n_passed);
        copy.writer.finish().map_err(|error| unwritten(job, error))
    }

    /// Opens the input and creates the output.
    fn open(&self, job: &CopyJob<'_>) -> Result<OpenCopy, CopyError> {
        let opened = || -> Result<_, ReadError> {
            let (compression, stream) =
                decompressed_as(Box::new(File::open(job.input)?), &self.settings.idle)?;
            let (head, stream) = peek(stream, BOM.len())?;
            let (format, stream) = sniff(stream)?;
            Ok((compression, head.starts_with(BOM), format, stream))
        };
        let (compression, has_mark, format, stream) = opened().map_err(|error| unread(job, &error))?;
        let records = reader_of(format, stream, &self.settings);
        let is_same = job.format == CopyFormat::Same;
        if is_same && !records.has_bytes() {
            return Err(CopyError::NoBytes(job.input.to_path_buf()));
        }
        let written = if is_same { format } else { FileFormat::Jsonl };
        let create = || {
            let mut writer = RecordWriter::create(job.output, written, compression)?;
            if is_same && has_mark {
                writer.write(BOM)?;
            }
            Ok(writer)
        };
        Ok(OpenCopy { records, writer: create().map_err(|error| unwritten(job, error))?, bytes: Vec::new() })
    }

    /// Writes the current record if it is wanted, and what always goes along.
    fn write(&mut self, copy: &mut OpenCopy, job: &CopyJob<'_>, is_wanted: bool) -> Result<(), CopyError> {
        let OpenCopy { records, writer, bytes } = copy;
        match job.format {
            CopyFormat::Same => {
                records.take_bytes(bytes);
                bytes.drain(..).try_for_each(|record| writer.write(&record))
            }
            CopyFormat::Jsonl if is_wanted => {
                let record = records.decode();
                let line = self.line(&record);
                // Only pages are wanted; that this one is none any more means that the file has changed.
                writer.write(&line.ok_or_else(|| CopyError::Changed(job.input.to_path_buf()))?)
            }
            CopyFormat::Jsonl => Ok(()),
        }
        .map_err(|error| unwritten(job, error))
    }

    /// The line of a page.
    fn line(&mut self, record: &Record) -> Option<Vec<u8>> {
        let page = self.pages.page(record).ok()?;
        let Page { url, fetched_at, sweep, content } = &*page;
        let (text, features) = match content {
            Content::Body { body, media_type } => (Some(tidied(plain_text(body, *media_type).ok()?, *media_type)), None),
            Content::Features(features) => (None, Some(features.as_slice())),
            Content::Gone | Content::Redirect(_) => return None,
        };
        let page = TextPage { url, fetched_at: *fetched_at, sweep: sweep.as_deref(), text, features };
        let mut line = serde_json::to_vec(&page).ok()?;
        line.push(b'\n');
        Some(line)
    }
}

/// An input and its output.
struct OpenCopy {
    records: Box<dyn RecordReader>,
    writer: RecordWriter,
    bytes: Vec<Vec<u8>>,
}

impl OpenCopy {
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

/// Text without the blanks that only lay out its markup: one blank or one line feed for each run of them. Plain text
/// stays as it is.
fn tidied(text: Cow<'_, str>, media_type: MediaType) -> Cow<'_, str> {
    if media_type == MediaType::PlainText {
        return text;
    }
    let mut tidy = String::with_capacity(text.len());
    let mut blank = None;
    for c in text.chars() {
        match c {
            '\n' | '\r' => blank = Some('\n'),
            ' ' | '\t' | '\u{c}' | '\u{a0}' => blank = blank.or(Some(' ')),
            c => {
                tidy.extend(blank.take().filter(|_| !tidy.is_empty()));
                tidy.push(c);
            }
        }
    }
    tidy.into()
}

fn unread(job: &CopyJob<'_>, error: &ReadError) -> CopyError {
    CopyError::Input { path: job.input.to_path_buf(), why: error.to_string() }
}

fn unwritten(job: &CopyJob<'_>, error: io::Error) -> CopyError {
    CopyError::Output { path: job.output.to_path_buf(), error }
}
