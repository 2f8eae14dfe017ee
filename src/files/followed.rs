//! A source over folders that fill: files are taken in as they become whole.

use super::input_file::{state_of, url_of};
use super::inputs::files_there;
use super::source::{FileSource, Input, resolve_path};
use crate::document::FetchTime;
use crate::ports::{InputNotes, InputState, Polled, ProgressMap, Reading, Source, SourceError, StoreError};
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How the names of files end that a program still writes: Heritrix, browsers, curl, rsync, editors.
const UNFINISHED: &[&str] = &["open", "part", "partial", "filepart", "tmp", "temp", "crdownload", "swp"];

/// Folders and patterns that are looked at again and again. What is new in them is read, file by file, in the order of names
/// at each look. A file is whole when it has not changed since the look before, or for as long as lies between two looks. One
/// that changes later is read again, and what was read of it is skipped. Objects of a store are whole when they are there,
/// and never change.
///
/// A file that the store has to its end is not opened again, neither by the next process.
pub struct FollowedFolders {
    files: FileSource,
    paths: Vec<PathBuf>,
    between_looks: Duration,
    next_look: Instant,
    notes: Box<dyn InputNotes>,
    seen: Look,
    /// The file that is read.
    current: Option<Followed>,
    /// Files that were read to their end, and whose last records are perhaps not durable yet.
    ended: VecDeque<Followed>,
    /// The names of files of which records were read here.
    read_here: HashSet<String>,
    /// What was said to be unreadable at the last look.
    unreadable: HashSet<String>,
}

/// A file in one of its states.
#[derive(Clone, Debug)]
struct Followed {
    /// Its name as a source of records.
    name: String,
    state: InputState,
    /// Whether some of it could not be read.
    has_faults: bool,
    /// The records that the store or this process had of it before, and once it is read.
    n_before: i64,
    n_records: i64,
}

impl FollowedFolders {
    /// Follows what `paths` name, and takes in what `files` does not know yet; `files` has no inputs of its own.
    pub fn new(files: FileSource, paths: Vec<PathBuf>, between_looks: Duration, notes: Box<dyn InputNotes>) -> Self {
        FollowedFolders {
            files: files.growing(),
            paths,
            between_looks,
            next_look: Instant::now(),
            notes,
            seen: Look::default(),
            current: None,
            ended: VecDeque::new(),
            read_here: HashSet::new(),
            unreadable: HashSet::new(),
        }
    }

    /// Looks for files, and lines up those that are whole.
    fn look(&mut self) {
        self.next_look = Instant::now() + self.between_looks;
        let (files, failed) = files_there(&self.paths);
        let failed: HashSet<String> = failed.iter().map(ToString::to_string).collect();
        for news in failed.difference(&self.unreadable) {
            tracing::warn!("{news}");
        }
        self.unreadable = failed;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unchanged_since = now.saturating_sub(self.between_looks).as_micros();
        let unchanged_since = FetchTime(i64::try_from(unchanged_since).unwrap_or(i64::MAX));
        let is_news = |path: &PathBuf| url_of(path).is_none() || !self.seen.taken.contains_key(path);
        let files = files.into_iter().filter(|path| !is_unfinished(path) && is_news(path));
        // Pipes and devices have no state.
        let states = files.filter_map(|path| state_of(&path).ok().flatten().map(|state| (path, state))).collect();
        self.seen.take_whole(states, unchanged_since);
    }

    /// Begins the next file, unless the store has all of it.
    fn begin(&mut self, path: PathBuf, state: InputState) -> Result<(), SourceError> {
        // One that is gone by now, or may not be read, is told of by whoever opens it.
        let resolved = resolve_path(&path).map_or_else(|_| path.clone(), |(resolved, _)| resolved);
        let name = resolved.to_string_lossy().into_owned();
        let noted = self.notes.taken_in(&name).map_err(lost)?;
        if noted.is_some_and(|noted| noted == state || url_of(&path).is_some()) {
            self.files.pass_over(path);
            return Ok(());
        }
        tracing::info!("reading {name}");
        let n_before = self.files.next_offset(&name);
        self.current = Some(Followed { name, state, has_faults: false, n_before, n_records: n_before });
        self.files.add(Input::File(path));
        Ok(())
    }

    /// Remembers a file that is read. One with faults is not noted, so that another process tries it again.
    fn end(&mut self) {
        let Some(mut current) = self.current.take() else { return };
        current.n_records = self.files.next_offset(&current.name);
        if current.n_records > current.n_before {
            self.read_here.insert(current.name.clone());
        }
        if current.has_faults {
            return;
        }
        if self.ended.is_empty() && !self.read_here.contains(&current.name) {
            warn_unnoted(self.notes.note_taken_in(&current.name, current.state));
        } else {
            self.ended.push_back(current);
        }
    }

    /// Notes the files of which all is durable, given how far the one that is behind all that is durable has come.
    fn note_durable(&mut self, progress: &ProgressMap) -> Result<(), StoreError> {
        let durable = |file: &Followed| progress.get(&(file.name.clone(), 0)).map(|progress| progress.next_offset);
        // Records become durable in the order of reading: with one of a file, all those of the files before it. What was read of
        // it in an earlier state came before some of them, and proves nothing.
        let is_begun = |file: &Followed| durable(file) > Some(file.n_before);
        let n_before = match &self.current {
            Some(current) if is_begun(current) => self.ended.len(),
            _ => self.ended.iter().rposition(is_begun).unwrap_or(0),
        };
        let is_whole = |file: &&Followed| durable(file) >= Some(file.n_records);
        let n_whole = n_before + self.ended.iter().skip(n_before).take_while(is_whole).count();
        self.ended.drain(..n_whole).try_for_each(|file| self.notes.note_taken_in(&file.name, file.state))
    }
}

impl Source for FollowedFolders {
    fn poll(&mut self, timeout: Duration) -> Result<Polled, SourceError> {
        let deadline = Instant::now() + timeout;
        loop {
            if self.current.is_some() {
                match self.files.poll(deadline.saturating_duration_since(Instant::now()))? {
                    Polled::End => self.end(),
                    Polled::Unreadable(what) => {
                        self.current.iter_mut().for_each(|current| current.has_faults = true);
                        return Ok(Polled::Unreadable(what));
                    }
                    polled => return Ok(polled),
                }
            } else if let Some((path, state)) = self.seen.next.pop_front() {
                self.begin(path, state)?;
            } else if Instant::now() >= self.next_look {
                self.look();
            } else if Instant::now() >= deadline {
                return Ok(Polled::Idle);
            } else {
                std::thread::sleep(self.next_look.min(deadline).saturating_duration_since(Instant::now()));
            }
        }
    }

    fn committed(&mut self, progress: &ProgressMap) {
        warn_unnoted(self.note_durable(progress));
    }

    fn readings(&mut self) -> Vec<Reading> {
        self.files.readings()
    }
}

/// Warns of a note that could not be taken, as while the disk is full.
fn warn_unnoted(noted: Result<(), StoreError>) {
    if let Err(error) = noted {
        tracing::warn!("cannot note which files are read to their end; the next start reads them again: {error}");
    }
}

fn lost(error: StoreError) -> SourceError {
    SourceError::new(error.to_string())
}

/// Whether a name says that a file is still written.
fn is_unfinished(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    name.ends_with('~') || name.rsplit_once('.').is_some_and(|(_, end)| UNFINISHED.contains(&end))
}

/// Which files are whole, and which of them were not taken yet.
#[derive(Debug, Default)]
struct Look {
    /// Files that were there at the last look and are not taken, each with its state.
    waiting: HashMap<PathBuf, InputState>,
    /// Files that were taken, each with the state that it had.
    taken: HashMap<PathBuf, InputState>,
    /// Files that are taken and not begun.
    next: VecDeque<(PathBuf, InputState)>,
}

impl Look {
    /// Takes the files that are whole and new, or changed since they were taken: those whose state is the one of the look before,
    /// and those that have not changed since a time. `there` are all files, each with its state.
    fn take_whole(&mut self, there: Vec<(PathBuf, InputState)>, unchanged_since: FetchTime) {
        let before = std::mem::take(&mut self.waiting);
        for (path, state) in there {
            if self.taken.get(&path) == Some(&state) {
                continue;
            }
            let is_old = state.changed_at.is_some_and(|changed_at| changed_at <= unchanged_since);
            if is_old || before.get(&path) == Some(&state) || url_of(&path).is_some() {
                self.taken.insert(path.clone(), state);
                self.next.push_back((path, state));
            } else {
                self.waiting.insert(path, state);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::Progress;
    use crate::wire::Limits;
    use std::sync::{Arc, Mutex};

    fn state(n_bytes: u64, changed_at: i64) -> InputState {
        InputState { n_bytes, changed_at: Some(FetchTime(changed_at)) }
    }

    /// Lost if this fails: the end of a file that was taken in while its crawler still wrote it, or the file.
    #[test]
    fn a_file_is_taken_once_it_stays_as_it_is_and_again_when_it_changes() {
        let mut seen = Look::default();
        let mut look = |there: &[(&str, InputState)], unchanged_since| {
            seen.take_whole(
                there.iter().map(|(path, state)| (path.into(), *state)).collect(),
                FetchTime(unchanged_since),
            );
            seen.next.drain(..).map(|(path, _)| path.display().to_string()).collect::<Vec<_>>()
        };
        let none: [&str; 0] = [];
        assert_eq!(look(&[("b", state(5, 3)), ("a", state(7, 10))], 4), ["b"]);
        assert_eq!(look(&[("b", state(5, 3)), ("a", state(9, 11))], 5), none);
        assert_eq!(look(&[("b", state(5, 3)), ("a", state(9, 11))], 6), ["a"]);
        assert_eq!(look(&[("b", state(6, 12)), ("a", state(9, 11))], 7), none);
        assert_eq!(look(&[("a", state(9, 11))], 8), none);
        assert_eq!(look(&[("b", state(6, 12)), ("a", state(9, 11))], 9), none);
        assert_eq!(look(&[("b", state(6, 12)), ("a", state(9, 11))], 10), ["b"]);
        assert_eq!(look(&[("s3://crawl/c", state(1, 99))], 10), ["s3://crawl/c"]);
    }

    #[derive(Clone, Default)]
    struct Notes(Arc<Mutex<Vec<String>>>);

    impl InputNotes for Notes {
        fn taken_in(&self, _: &str) -> Result<Option<InputState>, StoreError> {
            Ok(None)
        }

        fn note_taken_in(&self, input: &str, _: InputState) -> Result<(), StoreError> {
            self.0.lock().expect("locked").push(input.to_string());
            Ok(())
        }
    }

    /// Lost once: the records of "g", after a kill. "f" was touched while much of it waited to be written, and the first of
    /// its records that became durable passed for a record read after "g".
    #[test]
    fn a_file_is_noted_when_its_records_are_durable() {
        let file = |name: &str, n_before, n_records| Followed {
            name: name.to_string(),
            state: state(1, 1),
            has_faults: false,
            n_before,
            n_records,
        };
        let source = FileSource::new(Vec::new(), ProgressMap::new(), Limits::default(), None);
        let notes = Notes::default();
        let mut followed = FollowedFolders::new(source, Vec::new(), Duration::ZERO, Box::new(notes.clone()));
        let noted_after = |durable: &[(&str, i64)], followed: &mut FollowedFolders| {
            let progress = |(name, next_offset): &(&str, i64)| {
                ((name.to_string(), 0), Progress { next_offset: *next_offset, ..Progress::default() })
            };
            followed.note_durable(&durable.iter().map(progress).collect()).expect("noted");
            std::mem::take(&mut *notes.0.lock().expect("locked"))
        };
        followed.ended.extend([file("f", 0, 8000), file("empty", 0, 0), file("g", 0, 10)]);
        followed.current = Some(file("f", 8000, 8000));
        let none: [&str; 0] = [];
        assert_eq!(noted_after(&[("f", 100)], &mut followed), none);
        assert_eq!(noted_after(&[("g", 9)], &mut followed), ["f", "empty"]);
        // Read again without news.
        let again = followed.current.take().expect("a file");
        followed.ended.push_back(again);
        assert_eq!(noted_after(&[("f", 8000)], &mut followed), none);
        assert_eq!(noted_after(&[("g", 10), ("f", 8000)], &mut followed), ["g", "f"]);
        // A later file proves all before it.
        followed.ended.extend([file("g", 10, 12), file("empty", 0, 0)]);
        followed.current = Some(file("h", 0, 0));
        assert_eq!(noted_after(&[("h", 1)], &mut followed), ["g", "empty"]);
    }

    #[test]
    fn names_of_unfinished_files() {
        for name in ["1.warc.gz.open", "x.PART", "x.jsonl~", "x.tmp"] {
            assert!(is_unfinished(Path::new(name)), "{name}");
        }
        for name in ["open", "1.warc.gz", "part.jsonl"] {
            assert!(!is_unfinished(Path::new(name)), "{name}");
        }
    }
}
