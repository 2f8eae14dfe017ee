//! The source over files and standard input, read one after the other.

use super::arc::ArcRecords;
use super::archive_record::ArchiveDefaults;
use super::compression::{Compression, Decompressed, IdleDecoders, decompressed_as};
use super::format::{FileFormat, Sniffed, sniff};
use super::gzip_members::GzipMembers;
use super::input_file::{InputFile, state_of, url_of};
use super::json_array::JsonArray;
use super::jsonl::JsonLines;
use super::layout::{InputLayout, PageSettings};
use super::originals::{Location, Originals};
use super::page_file::PageFile;
use super::parquet_reader::ParquetRecords;
use super::read_error::ReadError;
use super::record_reader::{Advance, RecordReader};
use super::stream::Stream;
use super::table::Table;
use super::wacz::WaczRecords;
use super::warc::WarcRecords;
use crate::document::FetchTime;
use crate::ports::{Incoming, Polled, Progress, ProgressMap, Reading, Source, SourceError};
use crate::wire::{FieldMap, Limits, Origin, TimeFrom, UrlFrom};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// How many records are read ahead from an input that may stall.
const AHEAD_RECORDS_MAX: usize = 8;

/// Where records come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A file or a named pipe, identified by its absolute path, or an object, identified by its URL. Reading it again
    /// yields only what is new.
    File(PathBuf),
    /// Standard input.
    Stdin {
        /// With a name, standard input counts as a file of that name, and records read before are skipped. Without
        /// one, it is called `stdin` and continues where it stopped.
        name: Option<String>,
    },
}

impl From<PathBuf> for Input {
    fn from(path: PathBuf) -> Self {
        Input::File(path)
    }
}

/// How far reading has come; can be read at any time.
#[derive(Debug, Default)]
pub struct ReadProgress {
    /// Bytes read from the inputs, before decompression.
    pub n_bytes_read: AtomicU64,
    /// Total bytes of the inputs that are files, measured when the source was created.
    pub n_bytes_total: AtomicU64,
    /// Inputs that could not be read completely.
    pub n_inputs_unreadable: AtomicU64,
    /// Pages without a time of their own, which were given another one.
    pub n_undated: Arc<AtomicU64>,
}

/// Files and standard input as a source. A record's origin is the file's absolute path, partition 0, and the
/// record's number in the file.
pub struct FileSource {
    /// The inputs not begun, the next one last.
    inputs: Vec<Input>,
    stdin: Option<Stream>,
    progress: ProgressMap,
    settings: ReadSettings,
    read: Arc<ReadProgress>,
    current: Option<OpenInput>,
}

/// What a reader of any input needs.
#[derive(Clone)]
pub(super) struct ReadSettings {
    pub(super) limits: Limits,
    pub(super) pages: PageSettings,
    pub(super) idle: IdleDecoders,
    originals: Originals,
    /// Whether files may still be written.
    may_grow: bool,
}

/// The current input.
struct OpenInput {
    name: String,
    reading: ActiveReader,
    /// The value of [`ReadProgress::n_bytes_read`] once the input ends.
    n_bytes_after: u64,
    has_faults: bool,
}

enum ActiveReader {
    Inline(Box<InputReader>),
    /// Another thread reads, because a pipe or a terminal may block longer than a poll may wait.
    Background(Receiver<Step>),
}

/// The result of one step.
enum Step {
    Record(Incoming),
    /// A record that was read before.
    Passed,
    Gap(String),
    /// The input ended; the text says why, unless it was read to its end.
    Over(Option<String>),
}

impl FileSource {
    /// Creates a source that reads the inputs in order and continues at `progress`. Records that name no sweep get
    /// `sweep`.
    pub fn new(mut inputs: Vec<Input>, progress: ProgressMap, limits: Limits, sweep: Option<String>) -> Self {
        let read = ReadProgress::default();
        let pages = PageSettings { sweep, n_undated: Arc::clone(&read.n_undated), ..PageSettings::default() };
        let n_bytes = inputs.iter().map(|input| match input {
            Input::File(path) => file_bytes(path),
            Input::Stdin { .. } => 0,
        });
        read.n_bytes_total.store(n_bytes.sum(), Relaxed);
        inputs.reverse();
        FileSource {
            inputs,
            stdin: Some(Box::new(io::stdin())),
            progress,
            settings: ReadSettings {
                limits,
                pages,
                idle: IdleDecoders::default(),
                originals: Originals::default(),
                may_grow: false,
            },
            read: Arc::new(read),
            current: None,
        }
    }

    /// Sets where records hold the parts of a page.
    #[must_use]
    pub fn with_fields(mut self, fields: FieldMap) -> Self {
        self.settings.pages.fields = fields;
        self
    }

    /// Sets what makes the URL of records that have none.
    #[must_use]
    pub fn with_url_from(mut self, url_from: Option<UrlFrom>) -> Self {
        self.settings.pages.url_from = url_from;
        self
    }

    /// Sets a time for records that have none; in archives, if no record before them has one.
    #[must_use]
    pub fn with_fetched_at(mut self, fetched_at: Option<TimeFrom>) -> Self {
        self.settings.pages.fetched_at = fetched_at;
        self
    }

    /// Reads files that may still be written: what may be cut is left until it is whole.
    #[must_use]
    pub(super) fn growing(mut self) -> Self {
        self.settings.may_grow = true;
        self
    }

    /// Replaces standard input.
    #[must_use]
    pub fn with_stdin(mut self, stdin: Box<dyn Read + Send>) -> Self {
        self.stdin = Some(stdin);
        self
    }

    /// Reads another input after those that are there.
    pub(super) fn add(&mut self, input: Input) {
        if let Input::File(path) = &input {
            self.read.n_bytes_total.fetch_add(file_bytes(path), Relaxed);
        }
        self.inputs.insert(0, input);
    }

    /// Passes over an input of which the store has every record. It is read once a revisit needs an original from it.
    pub(super) fn pass_over(&self, path: PathBuf) {
        let settings = self.settings.clone();
        self.settings.originals.add_unread(Box::new(move |originals| {
            let settings = ReadSettings { originals: originals.clone(), ..settings };
            let Ok((OpenRecords { mut records, .. }, _)) = open_again(&path, &settings) else { return };
            while let Ok(Advance::Record(_) | Advance::Gap(_)) = records.advance(0) {}
        }));
    }

    /// How much of an input the store, or this source, has.
    pub(super) fn next_offset(&self, name: &str) -> i64 {
        self.progress.get(&(name.to_string(), 0)).map_or(0, |progress| progress.next_offset)
    }

    /// How the inputs are read.
    pub(super) fn settings(&self) -> &ReadSettings {
        &self.settings
    }

    /// Returns the progress of reading.
    pub fn read_progress(&self) -> Arc<ReadProgress> {
        Arc::clone(&self.read)
    }

    /// Opens the next input.
    fn begin(&mut self, input: Input) -> Result<OpenInput, String> {
        let n_bytes_before = self.read.n_bytes_read.load(Relaxed);
        let (name, reading, n_bytes) = match input {
            Input::File(path) => {
                let shown = path.display().to_string();
                let (path, may_stall) = resolve_path(&path).map_err(|error| cannot_open(&shown, &error))?;
                let name = path.to_string_lossy().into_owned();
                let reading = if may_stall {
                    let is_object = url_of(&path).is_some();
                    let stream = Box::new(LazyFile::Unopened(path.clone()));
                    let path = is_object.then_some(path.as_path());
                    ActiveReader::Background(read_on_thread(self.reader(&name, stream, path, true)))
                } else {
                    let file = File::open(&path).map_err(|error| cannot_open(&shown, &error))?;
                    ActiveReader::Inline(Box::new(self.reader(&name, Box::new(file), Some(&path), true)))
                };
                (name, reading, file_bytes(&path))
            }
            Input::Stdin { name } => {
                let stdin = self.stdin.take().ok_or("standard input is given twice; give it once")?;
                let is_named = name.is_some();
                let name = name.unwrap_or_else(|| "stdin".into());
                let reader = self.reader(&name, stdin, None, is_named);
                (name, ActiveReader::Background(read_on_thread(reader)), 0)
            }
        };
        Ok(OpenInput { name, reading, n_bytes_after: n_bytes_before + n_bytes, has_faults: false })
    }

    /// A reader of a stream. `path` is that of a file or an object; pipes and standard input have none.
    fn reader(&self, name: &str, stream: Stream, path: Option<&Path>, has_a_past: bool) -> InputReader {
        let taken = self.progress.get(&(name.to_string(), 0)).copied().unwrap_or_default();
        let read = Arc::clone(&self.read);
        let stream = Box::new(CountingStream { stream, read: Arc::clone(&read) });
        let file = path.map(|path| OpenFile { path: path.to_path_buf(), read });
        InputReader::new(name, stream, file, taken, has_a_past, self.settings.clone())
    }

    fn unreadable(&self, had_faults: bool, text: String) -> Polled {
        self.read.n_inputs_unreadable.fetch_add(u64::from(!had_faults), Relaxed);
        Polled::Unreadable(text)
    }

    /// Applies the result of a step. Returns what the poll yields, if anything.
    fn accept(&mut self, mut current: OpenInput, step: Step) -> Option<Polled> {
        let polled = match step {
            Step::Record(incoming) => {
                let progress = Progress { next_offset: incoming.origin.offset + 1, chain: incoming.chain };
                self.progress.insert((current.name.clone(), 0), progress);
                Some(Polled::Record(incoming))
            }
            Step::Passed => None,
            Step::Gap(text) => {
                let had_faults = std::mem::replace(&mut current.has_faults, true);
                Some(self.unreadable(had_faults, text))
            }
            Step::Over(why) => {
                self.read.n_bytes_read.fetch_max(current.n_bytes_after, Relaxed);
                return why.map(|why| self.unreadable(current.has_faults, why));
            }
        };
        self.current = Some(current);
        polled
    }
}

impl Source for FileSource {
    fn poll(&mut self, timeout: Duration) -> Result<Polled, SourceError> {
        let deadline = Instant::now() + timeout;
        loop {
            let Some(mut current) = self.current.take() else {
                let Some(input) = self.inputs.pop() else { return Ok(Polled::End) };
                match self.begin(input) {
                    Ok(current) => self.current = Some(current),
                    Err(text) => return Ok(self.unreadable(false, text)),
                }
                continue;
            };
            let step = match &mut current.reading {
                ActiveReader::Inline(reader) => reader.step(),
                ActiveReader::Background(steps) => {
                    match steps.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                        Ok(step) => step,
                        Err(RecvTimeoutError::Timeout) => {
                            self.current = Some(current);
                            return Ok(Polled::Idle);
                        }
                        Err(RecvTimeoutError::Disconnected) => {
                            let name = &current.name;
                            return Err(SourceError::new(format!("the thread that reads {name} has died")));
                        }
                    }
                }
            };
            if let Some(polled) = self.accept(current, step) {
                return Ok(polled);
            }
            if Instant::now() >= deadline {
                return Ok(Polled::Idle);
            }
        }
    }

    fn readings(&mut self) -> Vec<Reading> {
        vec![Reading::new("lookalike_undated_pages_total", Vec::new(), self.read.n_undated.load(Relaxed) as f64)]
    }
}

/// Returns a file's absolute path, and whether reading may block, as of a pipe, a device or an object. The path of the
/// shell's `<(…)` cannot be resolved and stays as it is.
pub(super) fn resolve_path(path: &Path) -> io::Result<(PathBuf, bool)> {
    if url_of(path).is_some() {
        return Ok((path.to_path_buf(), true));
    }
    let kind = path.metadata()?.file_type();
    if kind.is_file() || kind.is_dir() {
        return Ok((path.canonicalize()?, false));
    }
    Ok((path.canonicalize().or_else(|_| std::path::absolute(path))?, true))
}

fn cannot_open(path: &str, error: &io::Error) -> String {
    format!("{path}: {error}; check the path and its permissions, and run again")
}

fn file_bytes(path: &Path) -> u64 {
    state_of(path).ok().flatten().map_or(0, |state| state.n_bytes)
}

/// Reads to the end on another thread. A thread whose stream never ends lives as long as the process.
fn read_on_thread(mut reader: InputReader) -> Receiver<Step> {
    let (sender, receiver): (SyncSender<Step>, _) = sync_channel(AHEAD_RECORDS_MAX);
    std::thread::spawn(move || {
        loop {
            let step = reader.step();
            let is_over = matches!(step, Step::Over(_));
            if sender.send(step).is_err() || is_over {
                return;
            }
        }
    });
    receiver
}

/// When a file was last changed.
pub(super) fn file_time(path: &Path) -> Option<FetchTime> {
    state_of(path).ok()??.changed_at
}

/// A file that an input is, for formats that are not read from their beginning.
pub(super) struct OpenFile {
    pub(super) path: PathBuf,
    pub(super) read: Arc<ReadProgress>,
}

impl OpenFile {
    /// Where the records of the file's stream are.
    fn location(&self, compression: Compression, members: Option<GzipMembers>) -> Option<Location> {
        matches!(compression, Compression::None | Compression::Gzip).then(|| Location {
            path: self.path.as_path().into(),
            from: 0,
            members,
        })
    }
}

/// Reads one input: numbers its records, chains them, and skips those read before.
struct InputReader {
    name: Arc<str>,
    /// `Some` until the first step, which opens it.
    stream: Option<Stream>,
    file: Option<OpenFile>,
    records: Option<Box<dyn RecordReader>>,
    layout: InputLayout,
    settings: ReadSettings,
    /// The number of the next record, and the chain before it.
    at: Progress,
    /// The records read before, which are skipped.
    past: Option<Progress>,
    /// Whether the input may still be written.
    may_grow: bool,
}

impl InputReader {
    fn new(
        name: &str,
        stream: Stream,
        file: Option<OpenFile>,
        taken: Progress,
        has_a_past: bool,
        settings: ReadSettings,
    ) -> Self {
        let past = Some(taken).filter(|taken| has_a_past && taken.next_offset > 0);
        let at = if has_a_past { Progress::default() } else { taken };
        let name: Arc<str> = name.into();
        let time = file.as_ref().and_then(|file| file_time(&file.path));
        let layout = InputLayout::new(Arc::clone(&name), time, settings.pages.clone());
        InputReader { name, stream: Some(stream), file, records: None, layout, settings, at, past, may_grow: false }
    }

    fn step(&mut self) -> Step {
        self.try_step().unwrap_or_else(|error| Step::Over(Some(self.with_place(&error))))
    }

    /// Prefixes a text with the place.
    fn with_place(&self, text: &dyn std::fmt::Display) -> String {
        format!("{}: record {}: {text}", self.name, self.at.next_offset)
    }

    fn try_step(&mut self) -> Result<Step, ReadError> {
        if let Some(stream) = self.stream.take() {
            let opened = open_records(stream, &self.name, self.file.as_ref(), &mut self.layout, &self.settings)?;
            // An object is whole when it is there, and a compressed stream when it ends.
            let is_plain_file = self.file.as_ref().is_some_and(|file| url_of(&file.path).is_none());
            self.may_grow = self.settings.may_grow && is_plain_file && opened.compression == Compression::None;
            self.records = Some(opened.records);
        }
        let Some(records) = &mut self.records else { return Ok(Step::Over(None)) };
        let chain = match records.advance(self.at.chain)? {
            Advance::Record(chain) => chain,
            Advance::Gap(text) => return Ok(Step::Gap(self.with_place(&text))),
            Advance::End => {
                let (n_found, past) = (self.at.next_offset, self.past);
                let shorter = past.map(|past| ReadError::Shorter { n_found, n_records: past.next_offset });
                return shorter.map_or(Ok(Step::Over(None)), Err);
            }
        };
        let offset = self.at.next_offset;
        if self.may_grow && self.past.is_none() && records.may_be_cut() {
            return Err(ReadError::UnendedRow);
        }
        self.at = Progress { next_offset: offset + 1, chain };
        let Some(past) = self.past else {
            let origin = Origin { source: Arc::clone(&self.name), partition: 0, offset };
            let record = self.layout.apply(records.decode(), offset, &self.settings.limits);
            return Ok(Step::Record(Incoming { from: origin.offset, origin, chain, record }));
        };
        if self.layout.is_undecided() {
            // The same record settles the layout, however much was read before.
            let _ = self.layout.apply(records.decode(), offset, &self.settings.limits);
        }
        if self.at.next_offset == past.next_offset {
            if chain != past.chain {
                return Err(ReadError::Replaced { n_records: past.next_offset });
            }
            self.past = None;
        }
        Ok(Step::Passed)
    }
}

/// An input that is opened.
pub(super) struct OpenRecords {
    pub(super) records: Box<dyn RecordReader>,
    pub(super) format: FileFormat,
    pub(super) compression: Compression,
    /// Whether it begins with a byte order mark.
    pub(super) had_mark: bool,
}

/// Opens the records of an input that was read before.
pub(super) fn open_again(input: &Path, settings: &ReadSettings) -> Result<(OpenRecords, InputLayout), ReadError> {
    let (path, _) = resolve_path(input)?;
    let (name, time) = (path.to_string_lossy().into_owned(), file_time(&path));
    let mut layout = InputLayout::new(name.as_str().into(), time, settings.pages.clone());
    let stream = Box::new(InputFile::open(&path)?);
    let file = OpenFile { path, read: Default::default() };
    Ok((open_records(stream, &name, Some(&file), &mut layout, settings)?, layout))
}

/// Recognises the compression and the format of a stream, and opens its records. A table settles the layout.
pub(super) fn open_records(
    stream: Stream,
    name: &str,
    file: Option<&OpenFile>,
    layout: &mut InputLayout,
    settings: &ReadSettings,
) -> Result<OpenRecords, ReadError> {
    let ReadSettings { limits, pages, idle, originals, .. } = settings;
    layout.check()?;
    let Decompressed { stream, compression, members } = decompressed_as(stream, idle)?;
    let names_column = |column: &str| layout.fields().names_column(column);
    let Sniffed { format, had_mark, stream } = sniff(stream, name, names_column)?;
    let location = || file.and_then(|file| file.location(compression, members));
    let defaults = || ArchiveDefaults {
        sweep: pages.sweep.clone(),
        fetched_at: layout.fetched_at(),
        n_undated: Arc::clone(&pages.n_undated),
        originals: originals.clone(),
    };
    let records: Box<dyn RecordReader> = match format {
        FileFormat::Jsonl => Box::new(JsonLines::new(stream, limits)),
        FileFormat::JsonArray => Box::new(JsonArray::new(stream, limits)),
        FileFormat::Table(delimiter) => Box::new(Table::open(stream, delimiter, limits)?),
        FileFormat::Page(media_type) => {
            let time = layout.fetched_at().or(layout.file_time());
            Box::new(PageFile::new(stream, media_type, name, time, pages.sweep.clone(), limits))
        }
        FileFormat::Warc => Box::new(WarcRecords::new(stream, limits, defaults()).at(location())),
        FileFormat::Arc => Box::new(ArcRecords::new(stream, limits, defaults())),
        FileFormat::Zip => {
            let file = file.ok_or(ReadError::Format(
                "a zip archive, such as WACZ, which cannot be read from a pipe; save it to a file",
            ))?;
            let read = Arc::clone(&file.read);
            let counting = move |stream| Box::new(CountingStream { stream, read: Arc::clone(&read) }) as Stream;
            Box::new(WaczRecords::open(&file.path, Box::new(counting), idle, limits, defaults())?)
        }
        FileFormat::Parquet => {
            let file = file.ok_or(ReadError::Format("Parquet in a pipe, which is read from its end; give the file"))?;
            let read = Arc::clone(&file.read);
            let count = Box::new(move |n| {
                read.n_bytes_read.fetch_add(n, Relaxed);
            });
            Box::new(ParquetRecords::open(&file.path, count, layout)?)
        }
    };
    if let Some(columns) = records.columns() {
        layout.settle(columns)?;
    }
    Ok(OpenRecords { records, format, compression, had_mark })
}

/// A file that opens at the first read, because opening a pipe waits for its writer, and an object for its store.
enum LazyFile {
    Unopened(PathBuf),
    Open(InputFile),
}

impl Read for LazyFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            LazyFile::Open(file) => file.read(buffer),
            LazyFile::Unopened(path) => {
                let mut file = InputFile::open(path)?;
                let n = file.read(buffer);
                *self = LazyFile::Open(file);
                n
            }
        }
    }
}

/// Counts the bytes read from a stream.
struct CountingStream {
    stream: Stream,
    read: Arc<ReadProgress>,
}

impl Read for CountingStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.stream.read(buffer)?;
        self.read.n_bytes_read.fetch_add(n as u64, Relaxed);
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::compression::tests::{gzip, zstd};
    use crate::wire::Record;
    use std::io::Write;

    const WAIT: Duration = Duration::from_secs(30);

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn new() -> Self {
            Folder(tempfile::tempdir().expect("a folder"))
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().canonicalize().expect("a folder").join(name)
        }

        fn file(&self, name: &str, bytes: &[u8]) -> Input {
            std::fs::write(self.path(name), bytes).expect("written");
            Input::File(self.path(name))
        }
    }

    /// What a source yields until its end (`offset:record` for records, `!text` for what cannot be read), and the
    /// progress.
    fn read_all(mut source: FileSource, mut progress: ProgressMap) -> (Vec<String>, ProgressMap) {
        let mut outcomes = Vec::new();
        loop {
            match source.poll(WAIT).expect("a source") {
                Polled::Record(Incoming { origin, chain, record, .. }) => {
                    let shown = match record {
                        Record::Json(json) => String::from_utf8(json).expect("text"),
                        Record::Page(page) => page.url,
                        Record::Rejected(rejection) => rejection.reason.as_str().into(),
                        other => panic!("{other:?}"),
                    };
                    outcomes.push(format!("{}:{shown}", origin.offset));
                    let taken = Progress { next_offset: origin.offset + 1, chain };
                    progress.insert((origin.source.to_string(), origin.partition), taken);
                }
                Polled::Unreadable(text) => outcomes.push(format!("!{text}")),
                Polled::Idle => {}
                Polled::End => break,
            }
        }
        assert!(matches!(source.poll(WAIT), Ok(Polled::End)));
        (outcomes, progress)
    }

    fn read(inputs: Vec<Input>, progress: &ProgressMap) -> (Vec<String>, ProgressMap) {
        read_all(FileSource::new(inputs, progress.clone(), Limits::default(), None), progress.clone())
    }

    fn read_stdin(name: Option<&str>, bytes: &'static [u8], progress: &ProgressMap) -> (Vec<String>, ProgressMap) {
        let inputs = vec![Input::Stdin { name: name.map(String::from) }];
        let source = FileSource::new(inputs, progress.clone(), Limits::default(), None);
        read_all(source.with_stdin(Box::new(bytes)), progress.clone())
    }

    fn check(found: &[String], expected: &[&str]) {
        let agree = |(found, expected): (&String, &&str)| match expected.strip_prefix('!') {
            Some(part) => found.starts_with('!') && found.contains(part),
            None => found == expected,
        };
        assert!(
            found.len() == expected.len() && found.iter().zip(expected).all(agree),
            "{found:?} is not {expected:?}"
        );
    }

    #[test]
    fn files_are_read_one_after_the_other() {
        let folder = Folder::new();
        let inputs = vec![
            folder.file("b", b"[1]\n[2]\n"),
            Input::File(folder.path("missing")),
            folder.file("empty", b""),
            Input::File(folder.path("")),
            folder.file("a", &gzip(b"[3]\n")),
            folder.file("parquet", b"PAR1"),
            folder.file("z", &zstd(b"[4]\n")),
            folder.file("cut", &gzip(b"[5]\n[6]\n")[..20]),
        ];
        let source = FileSource::new(inputs, ProgressMap::new(), Limits::default(), None);
        let counts = source.read_progress();
        let total = counts.n_bytes_total.load(Relaxed);
        let (outcomes, progress) = read_all(source, ProgressMap::new());
        check(
            &outcomes[..7],
            &["0:[1]", "1:[2]", "!missing: No such file", "!record 0: Is a directory", "0:[3]", "!Parquet", "0:[4]"],
        );
        assert!(
            outcomes[7..].last().is_some_and(|text| text.starts_with('!') && text.contains("fetch it again")),
            "{outcomes:?}"
        );
        assert_eq!(progress[&(folder.path("b").display().to_string(), 0)].next_offset, 2);
        assert_eq!(counts.n_inputs_unreadable.load(Relaxed), 4);
        assert_eq!(counts.n_bytes_read.load(Relaxed), total);
    }

    #[test]
    fn a_grown_file_yields_what_is_new() {
        let folder = Folder::new();
        let mut progress = ProgressMap::new();
        for (text, expected) in [
            ("[0]\n[1]\n", &["0:[0]", "1:[1]"][..]),
            ("[0]\n[1]\n", &[]),
            ("[0]\n[1]\n\n[2", &["!record 2: the last line is incomplete"]),
            ("[0]\n[1]\n\n[2]", &["2:[2]"]),
            ("[0]\r\n[1]\r\n[2]\r\n[3]\r\n", &["3:[3]"]),
        ] {
            for pack in [|text: &str| text.as_bytes().to_vec(), |text: &str| gzip(text.as_bytes())] {
                let (outcomes, after) = read(vec![folder.file("f", &pack(text))], &progress);
                check(&outcomes, expected);
                if pack("") != b"" {
                    progress = after;
                }
            }
        }
    }

    #[test]
    fn a_replaced_file_is_rejected_and_the_next_one_read() {
        let folder = Folder::new();
        let (_, progress) = read(vec![folder.file("f", b"[0]\n[1]\n[2]\n")], &ProgressMap::new());
        for (text, expected) in [
            ("[9]\n[1]\n[2]\n[3]\n", "its first 3 records differ"),
            ("[0]\n[1]\n[9]\n", "its first 3 records differ"),
            ("[0]\n[1]\n", "only 2 of the 3 records"),
            ("", "only 0 of the 3 records"),
        ] {
            let inputs = vec![folder.file("f", text.as_bytes()), folder.file("g", b"[5]\n")];
            check(&read(inputs, &progress).0, &[&format!("!{expected}"), "0:[5]"]);
        }
    }

    #[test]
    fn a_file_given_twice_is_read_once() {
        let folder = Folder::new();
        let file = folder.file("f", b"[0]\n");
        check(&read(vec![file.clone(), file], &ProgressMap::new()).0, &["0:[0]"]);
    }

    #[test]
    fn standard_input_continues_or_counts_as_a_named_file() {
        let (outcomes, progress) = read_stdin(None, b"[0]\n[1]\n", &ProgressMap::new());
        check(&outcomes, &["0:[0]", "1:[1]"]);
        check(&read_stdin(None, b"[0]\n", &progress).0, &["2:[0]"]);

        let (outcomes, progress) = read_stdin(Some("crawl"), b"[0]\n[1]\n", &ProgressMap::new());
        check(&outcomes, &["0:[0]", "1:[1]"]);
        check(&read_stdin(Some("crawl"), b"[0]\n[1]\n[2]\n", &progress).0, &["2:[2]"]);
        check(&read_stdin(Some("crawl"), b"[9]\n[1]\n", &progress).0, &["!records differ"]);
        assert!(progress.contains_key(&("crawl".to_string(), 0)));

        let twice = vec![Input::Stdin { name: None }, Input::Stdin { name: None }];
        let source = FileSource::new(twice, ProgressMap::new(), Limits::default(), None);
        check(&read_all(source.with_stdin(Box::new(&b"[0]\n"[..])), ProgressMap::new()).0, &["0:[0]", "!given twice"]);
    }

    #[test]
    fn a_silent_pipe_does_not_block() {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        let inputs = vec![Input::Stdin { name: None }];
        let mut source =
            FileSource::new(inputs, ProgressMap::new(), Limits::default(), None).with_stdin(Box::new(reader));
        assert!(matches!(source.poll(Duration::from_millis(5)), Ok(Polled::Idle)));
        writer.write_all(b"{\"url\":\"http://a/\"}\n{").expect("written");
        assert!(matches!(source.poll(WAIT), Ok(Polled::Record(_))));
        assert!(matches!(source.poll(Duration::from_millis(5)), Ok(Polled::Idle)));
        writer.write_all(b"}\n").expect("written");
        assert!(matches!(source.poll(WAIT), Ok(Polled::Record(_))));
        drop(writer);
        assert!(matches!(source.poll(WAIT), Ok(Polled::End)));
    }
}
