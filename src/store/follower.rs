//! A view that follows a store which another process writes to: opened anew, read-only, when the store has changed.
//!
//! RocksDB's own secondary instances catch up in place, under the feet of those who read. An opened view is of one
//! moment to its end; what is decompressed in memory is shared by all snapshots.

use super::open::{OpenError, RocksStore, Settings, ViewFiles};
use crate::document::Seed;
use crate::ports::{Snapshots, Staleness};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Of the time, no more than one part in this many goes into opening snapshots.
const OPENING_SHARE: u32 = 10;

/// Keeps the newest view of a store.
pub struct Follower {
    shared: Arc<Shared>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    path: PathBuf,
    files: ViewFiles,
    seed: Seed,
    state: Mutex<State>,
}

struct State {
    view: Arc<RocksStore>,
    /// How the store's files looked before the view was opened: whatever was written later may be missing from it.
    stamp: Stamp,
    /// When the view was last known to hold everything.
    current_at: Instant,
    unread_log_bytes: u64,
    problem: Option<String>,
}

/// What changes with every write: the manifest, and the logs' lengths.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    manifest: Option<(String, u64)>,
    logs: Vec<(String, u64)>,
}

impl Stamp {
    fn of(path: &Path) -> Self {
        let mut logs = Vec::new();
        for file in path.read_dir().into_iter().flatten().flatten() {
            let name = file.file_name().to_string_lossy().into_owned();
            if let (true, Ok(about)) = (name.ends_with(".log"), file.metadata()) {
                logs.push((name, about.len()));
            }
        }
        logs.sort();
        Stamp { manifest: super::open::manifest_state(path), logs }
    }

    /// The bytes of logs that another stamp does not know of.
    fn bytes_beyond(&self, other: &Stamp) -> u64 {
        let known = |name: &str| other.logs.iter().find(|(log, _)| log == name).map_or(0, |(_, length)| *length);
        self.logs.iter().map(|(name, length)| length.saturating_sub(known(name))).sum()
    }
}

impl Follower {
    /// Opens a store, and from then on looks every `interval` whether there is more in it.
    ///
    /// # Errors
    /// [`OpenError`] where it cannot be opened now. Later failures are told by [`Snapshots::staleness`].
    pub fn open(path: &Path, settings: &Settings, interval: Duration) -> Result<Self, OpenError> {
        let files = ViewFiles::new(settings);
        let (stamp, begin) = (Stamp::of(path), Instant::now());
        let view = open_warm(path, &files)?;
        let shared = Arc::new(Shared {
            path: path.to_path_buf(),
            files,
            seed: *view.seed(),
            state: Mutex::new(State {
                view: Arc::new(view),
                stamp,
                current_at: begin,
                unread_log_bytes: 0,
                problem: None,
            }),
        });
        let (stop, stopped) = channel();
        let follower = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("follower".into()).spawn(move || {
            let mut pause = interval;
            while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                let begin = Instant::now();
                follower.look();
                pause = interval.max(begin.elapsed() * (OPENING_SHARE - 1));
            }
        });
        let thread =
            thread.map_err(|error| crate::ports::StoreError::Failed(format!("no thread to follow: {error}")))?;
        Ok(Follower { shared, stop: Some(stop), thread: Some(thread) })
    }
}

/// Opens a view with its newest postings in memory, so that nobody who asks has to wait for them.
fn open_warm(path: &Path, files: &ViewFiles) -> Result<RocksStore, OpenError> {
    let view = RocksStore::open_view(path, files)?;
    view.delta()?;
    Ok(view)
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks whether the store has changed, and opens it anew if so.
    fn look(&self) {
        let (now, begin) = (Stamp::of(&self.path), Instant::now());
        {
            let mut state = self.state();
            if now == state.stamp && state.problem.is_none() {
                state.current_at = begin;
                return;
            }
            state.unread_log_bytes = now.bytes_beyond(&state.stamp);
        }
        let opened = open_warm(&self.path, &self.files).map_err(|error| error.to_string());
        let opened = opened.and_then(|view| if *view.seed() == self.seed { Ok(view) } else { Err(self.replaced()) });
        let mut state = self.state();
        match opened {
            Ok(view) => {
                let old = std::mem::replace(&mut state.view, Arc::new(view));
                (state.stamp, state.current_at) = (now, begin);
                (state.unread_log_bytes, state.problem) = (0, None);
                drop(state);
                // Closing it, where nobody reads it any more, takes a moment.
                drop(old);
            }
            Err(problem) => {
                if state.problem.as_ref() != Some(&problem) {
                    tracing::warn!("the view of the store stays as it was: {problem}");
                }
                state.problem = Some(problem);
            }
        }
    }

    fn replaced(&self) -> String {
        format!("{} is another store now; start this process again", self.path.display())
    }
}

impl Snapshots for Follower {
    type Snapshot = RocksStore;

    fn snapshot(&self) -> Arc<RocksStore> {
        Arc::clone(&self.shared.state().view)
    }

    fn staleness(&self) -> Staleness {
        let state = self.shared.state();
        Staleness {
            staleness_ms: u64::try_from(state.current_at.elapsed().as_millis()).unwrap_or(u64::MAX),
            unread_log_bytes: state.unread_log_bytes,
            problem: state.problem.clone(),
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
