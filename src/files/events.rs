//! Event sinks: the lines of a file, or of standard output.

use super::stream::BUFFER_BYTES;
use crate::ports::{Outgoing, Sink, SinkError};
use crate::wire::EventType;
use memchr::memrchr;
use serde::Deserialize;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Bytes that are read from the file's end at once.
const BLOCK_BYTES: u64 = 64 << 10;
/// The longest event; a longer last line is not an event.
const EVENT_BYTES_MAX: u64 = 16 << 20;
/// How every event begins.
const EVENT_START: &[u8] = br#"{"type":""#;

/// A file of events, one JSON object a line. The file itself records what was published: events are appended, and
/// the last line shows how far publishing came.
pub struct EventFile {
    path: PathBuf,
    file: File,
    /// Whether the file can be read at its end and synced, unlike devices and pipes.
    is_regular: bool,
    state: FileState,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FileState {
    /// The last line may be incomplete.
    Unchecked,
    /// The last line is complete.
    Ready,
    /// The system lost data that it had accepted, so nothing it says about the file can be trusted.
    Lost,
}

/// The fields that distinguish an event from other JSON.
#[derive(Deserialize)]
struct EventLine {
    #[serde(rename = "type")]
    _kind: EventType,
    seq: u64,
}

impl EventFile {
    /// Opens or creates the file.
    ///
    /// # Errors
    /// [`SinkError`] if the system refuses.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, SinkError> {
        let path = path.into();
        let opened = Self::try_open(&path);
        let (file, is_regular) = opened.map_err(|error| failed(&path, &error))?;
        Ok(EventFile { path, file, is_regular, state: FileState::Unchecked })
    }

    fn try_open(path: &Path) -> io::Result<(File, bool)> {
        let is_new = !path.exists();
        let is_regular = path.metadata().map_or(true, |metadata| metadata.is_file());
        let file = OpenOptions::new().read(is_regular).append(true).create(true).open(path)?;
        if is_new {
            // The file's name must survive a crash as its lines do.
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            File::open(parent.unwrap_or(Path::new(".")))?.sync_all()?;
        }
        Ok((file, is_regular))
    }

    /// Returns the last event's number and cuts off an incomplete line after it, which a crash may leave.
    fn repaired(&mut self) -> Result<Option<u64>, SinkError> {
        if !self.is_regular {
            return Ok(None);
        }
        let n_bytes = self.file.seek(SeekFrom::End(0)).map_err(|error| failed(&self.path, &error))?;
        let end = self.line_end_before(n_bytes).map_err(|error| failed(&self.path, &error))?;
        let last_seq = match end {
            0 => self.check_start(n_bytes)?,
            end => Some(self.seq_of_line_before(end)?),
        };
        if end < n_bytes {
            self.cut(end).map_err(|error| failed(&self.path, &error))?;
        }
        Ok(last_seq)
    }

    /// The end of the last line before `end`; 0 if there is none.
    fn line_end_before(&mut self, end: u64) -> io::Result<u64> {
        let mut end = end;
        while end > 0 {
            let start = end.saturating_sub(BLOCK_BYTES);
            if let Some(at) = memrchr(b'\n', &self.bytes(start, end)?) {
                return Ok(start + at as u64 + 1);
            }
            end = start;
        }
        Ok(0)
    }

    fn bytes(&mut self, start: u64, end: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.file.seek(SeekFrom::Start(start))?;
        (&mut self.file).take(end - start).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// A file without a line feed may only be the beginning of the first event.
    fn check_start(&mut self, n_bytes: u64) -> Result<Option<u64>, SinkError> {
        let start = self.bytes(0, n_bytes.min(EVENT_START.len() as u64)).map_err(|error| failed(&self.path, &error))?;
        if EVENT_START.starts_with(&start) { Ok(None) } else { Err(self.foreign("it begins otherwise")) }
    }

    fn seq_of_line_before(&mut self, end: u64) -> Result<u64, SinkError> {
        let floor = (end - 1).saturating_sub(EVENT_BYTES_MAX);
        let start = self.line_start(floor, end - 1).map_err(|error| failed(&self.path, &error))?;
        if start == floor && floor > 0 {
            return Err(self.foreign("its last line is too long"));
        }
        let line = self.bytes(start, end).map_err(|error| failed(&self.path, &error))?;
        match serde_json::from_slice::<EventLine>(&line) {
            Ok(event) => Ok(event.seq),
            Err(error) => Err(self.foreign(&format!("its last line: {error}"))),
        }
    }

    /// The beginning of the line that ends at `end`, searched down to `floor`.
    fn line_start(&mut self, floor: u64, end: u64) -> io::Result<u64> {
        let mut end = end;
        while end > floor {
            let start = end.saturating_sub(BLOCK_BYTES).max(floor);
            if let Some(at) = memrchr(b'\n', &self.bytes(start, end)?) {
                return Ok(start + at as u64 + 1);
            }
            end = start;
        }
        Ok(floor)
    }

    fn sync(&mut self) -> Result<(), SinkError> {
        self.file.sync_data().map_err(|error| {
            // A second attempt would succeed and mean nothing: the system forgets what it could not write.
            self.state = FileState::Lost;
            failed(&self.path, &error)
        })
    }

    fn cut(&mut self, n_bytes: u64) -> io::Result<()> {
        self.file.set_len(n_bytes)?;
        self.file.sync_data()
    }

    fn foreign(&self, why: &str) -> SinkError {
        SinkError::new(format!(
            "{} is not a file of events ({why}); nothing was written to it: give another path, or remove it",
            self.path.display()
        ))
    }
}

impl Sink for EventFile {
    fn last_seq(&mut self) -> Result<Option<u64>, SinkError> {
        if self.state == FileState::Lost {
            return Err(lost(&self.path));
        }
        if self.state == FileState::Unchecked && self.is_regular {
            // A killed process may have left lines that only the system's memory holds. What is published is forgotten.
            self.sync()?;
        }
        let last_seq = self.repaired()?;
        self.state = FileState::Ready;
        Ok(last_seq)
    }

    fn publish(&mut self, events: &[Outgoing]) -> Result<(), SinkError> {
        match self.state {
            FileState::Ready => {}
            FileState::Unchecked => drop(self.last_seq()?),
            FileState::Lost => return Err(lost(&self.path)),
        }
        if let Err(error) = write_lines(&self.file, events) {
            self.state = FileState::Unchecked;
            return Err(failed(&self.path, &error));
        }
        kill_point!("events-written");
        if self.is_regular { self.sync() } else { Ok(()) }
    }
}

fn failed(path: &Path, error: &io::Error) -> SinkError {
    SinkError::new(format!(
        "{}: {error}; see to the disk, the path and its permissions, and start again",
        path.display()
    ))
}

fn lost(path: &Path) -> SinkError {
    SinkError::new(format!(
        "{}: the system failed to keep what was written; see to the disk and start again",
        path.display()
    ))
}

/// Writes a line for each event. One buffer for all of them would be fresh memory, which the system clears page by page.
fn write_lines(out: impl Write, events: &[Outgoing]) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, out);
    for event in events {
        out.write_all(&event.json)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

/// Standard output, or any other stream, as a sink. It does not know which events it received before.
pub struct EventStdout {
    out: Box<dyn Write + Send>,
}

impl EventStdout {
    /// Creates a sink for standard output.
    pub fn new() -> Self {
        Self::to(Box::new(io::stdout()))
    }

    /// Creates a sink for another stream.
    pub fn to(out: Box<dyn Write + Send>) -> Self {
        EventStdout { out }
    }
}

impl Default for EventStdout {
    fn default() -> Self {
        Self::new()
    }
}

impl Sink for EventStdout {
    fn last_seq(&mut self) -> Result<Option<u64>, SinkError> {
        Ok(None)
    }

    fn publish(&mut self, events: &[Outgoing]) -> Result<(), SinkError> {
        write_lines(&mut self.out, events)
            .map_err(|error| SinkError::new(format!("standard output: {error}; its reader has closed it")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(seq: u64, filler: usize) -> Outgoing {
        let url = "u".repeat(filler);
        let json = format!(r#"{{"type":"gone","seq":{seq},"source":"s","partition":0,"offset":0,"url":"{url}"}}"#);
        Outgoing::new(seq, None, json.into_bytes())
    }

    fn line(seq: u64, filler: usize) -> Vec<u8> {
        [&event(seq, filler).json[..], b"\n"].concat()
    }

    /// Writes `before`, asks for the last number, and publishes event 9.
    fn check(name: &str, before: &[u8], expected: Result<(Option<u64>, &[u8]), &str>) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("events.jsonl");
        std::fs::write(&path, before).expect("written");
        let mut sink = EventFile::open(&path).expect("opened");
        match (sink.last_seq(), expected) {
            (Ok(found), Ok((last_seq, kept))) => {
                assert_eq!(found, last_seq, "{name}");
                sink.publish(&[event(9, 0)]).expect("published");
                assert_eq!(std::fs::read(&path).expect("read"), [kept, &line(9, 0)].concat(), "{name}");
                assert_eq!(sink.last_seq().expect("read"), Some(9));
            }
            (Err(error), Err(why)) => {
                assert!(error.to_string().contains(why), "{name}: {error}");
                sink.publish(&[event(9, 0)]).expect_err("refused");
                assert_eq!(std::fs::read(&path).expect("read"), before, "{name}");
            }
            (found, expected) => panic!("{name}: {found:?} is not {expected:?}"),
        }
    }

    #[test]
    fn the_last_event_is_found_and_the_tail_repaired() {
        let block = BLOCK_BYTES as usize;
        let two = [line(7, 3), line(8, 5)].concat();
        let giant = line(8, 5 * block);
        check("empty", b"", Ok((None, b"")));
        check("one", &line(0, 0), Ok((Some(0), &line(0, 0))));
        check("two", &two, Ok((Some(8), &two)));
        check("a giant line", &giant, Ok((Some(8), &giant)));
        for tail in [&line(9, 0)[..1], &line(9, 0)[..20], line(9, 0).trim_ascii_end(), &vec![b'x'; 3 * block], &[0; 99]]
        {
            check("a tail", &[&two, tail].concat(), Ok((Some(8), &two)));
            check("a tail after a giant line", &[&giant, tail].concat(), Ok((Some(8), &giant)));
        }
        for cut in 1..line(0, 0).len() {
            check("the first event cut", &line(0, 0)[..cut], Ok((None, b"")));
        }
        for filler in (block - 200..block + 200).step_by(7) {
            let bytes = [line(7, filler), line(8, 0)].concat();
            check("around the block", &bytes, Ok((Some(8), &bytes)));
            check("around the block", &[&bytes, &b"{"[..]].concat(), Ok((Some(8), &bytes)));
        }
    }

    #[test]
    fn other_files_are_left_alone() {
        for (name, bytes) in [
            ("text", &b"dear diary\n"[..]),
            ("text without a line end", b"dear diary"),
            ("JSON", b"{\"seq\":\"x\"}\n"),
            ("pages", b"{\"url\":\"http://a/\",\"seq\":1}\n"),
            ("pages and a tail", b"{\"url\":\"http://a/\"}\n{"),
            ("an empty line", b"\n"),
        ] {
            check(name, bytes, Err("not a file of events"));
        }
        let endless = [vec![b'x'; EVENT_BYTES_MAX as usize + 10], b"\n".to_vec()].concat();
        check("an endless line", &endless, Err("too long"));
    }

    #[test]
    fn a_new_file_is_created_and_continued() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("events.jsonl");
        for seq in 0..3_u64 {
            let mut sink = EventFile::open(&path).expect("opened");
            assert_eq!(sink.last_seq().expect("read"), seq.checked_sub(1));
            sink.publish(&[event(seq, 0)]).expect("published");
            sink.publish(&[]).expect("published");
        }
        assert_eq!(std::fs::read(&path).expect("read"), [line(0, 0), line(1, 0), line(2, 0)].concat());
        assert!(EventFile::open(folder.path().join("none/events.jsonl")).is_err());
        assert!(EventFile::open(folder.path()).is_err());
    }

    #[test]
    fn a_device_accepts_events_until_it_is_full() {
        let mut sink = EventFile::open("/dev/null").expect("opened");
        assert_eq!(sink.last_seq().expect("nothing"), None);
        sink.publish(&[event(0, 0)]).expect("published");
        let mut sink = EventFile::open("/dev/full").expect("opened");
        assert!(sink.publish(&[event(0, 0)]).expect_err("full").to_string().contains("/dev/full"));
    }

    #[test]
    fn a_closed_pipe_is_an_error() {
        let (reader, writer) = io::pipe().expect("a pipe");
        let mut sink = EventStdout::to(Box::new(writer));
        assert_eq!(sink.last_seq().expect("nothing"), None);
        sink.publish(&[event(0, 0)]).expect("published");
        drop(reader);
        assert!(sink.publish(&[event(1, 0)]).expect_err("closed").to_string().contains("closed"));
    }
}
