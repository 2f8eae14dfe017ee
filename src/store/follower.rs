//! Follows a store that another process writes to: opens a new read-only snapshot whenever the store has changed.
//!
//! RocksDB's own secondary instances catch up in place, so that the data changes during a query. A snapshot opened
//! here shows one moment for as long as it lives. All snapshots share the cache of decompressed blocks.

use super::open::{OpenError, RocksStore, SharedCache};
use super::settings::Settings;
use crate::document::Seed;
use crate::ports::{KeptEvents, Outgoing, Snapshots, Staleness, StoreError};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// At most one part in this many of the time goes into opening snapshots.
const OPENING_SHARE: u32 = 10;

/// Keeps the newest snapshot of a store.
pub struct Follower {
    shared: Arc<Shared>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    path: PathBuf,
    cache: SharedCache,
    seed: Seed,
    state: Mutex<State>,
}

struct State {
    snapshot: Arc<RocksStore>,
    /// The store's files before the snapshot was opened. The snapshot may lack anything written later.
    stamp: Stamp,
    /// When the snapshot last held everything.
    current_at: Instant,
    unread_log_bytes: u64,
    problem: Option<String>,
}

/// What changes with every write: the manifest, and the lengths of the logs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    manifest: Option<(String, u64)>,
    logs: Vec<(String, u64)>,
}

impl Stamp {
    fn read(path: &Path) -> Self {
        let mut logs = Vec::new();
        for file in path.read_dir().into_iter().flatten().flatten() {
            let name = file.file_name().to_string_lossy().into_owned();
            if let (true, Ok(metadata)) = (name.ends_with(".log"), file.metadata()) {
                logs.push((name, metadata.len()));
            }
        }
        logs.sort();
        Stamp { manifest: super::db::manifest_state(path), logs }
    }

    /// Bytes of logs that an older stamp does not cover.
    fn bytes_beyond(&self, other: &Stamp) -> u64 {
        let known = |name: &str| other.logs.iter().find(|(log, _)| log == name).map_or(0, |(_, length)| *length);
        self.logs.iter().map(|(name, length)| length.saturating_sub(known(name))).sum()
    }
}

impl Follower {
    /// Opens a store, then checks for changes every `interval`.
    ///
    /// # Errors
    /// [`OpenError`] if the store cannot be opened now. [`Snapshots::staleness`] reports later failures.
    pub fn open(path: &Path, settings: &Settings, interval: Duration) -> Result<Self, OpenError> {
        let cache = SharedCache::new(settings);
        let (stamp, begin) = (Stamp::read(path), Instant::now());
        let snapshot = open_with_postings(path, &cache)?;
        let shared = Arc::new(Shared {
            path: path.to_path_buf(),
            cache,
            seed: *snapshot.seed(),
            state: Mutex::new(State {
                snapshot: Arc::new(snapshot),
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
                follower.refresh();
                pause = interval.max(begin.elapsed() * (OPENING_SHARE - 1));
            }
        });
        let thread = thread.map_err(|error| StoreError::Failed(format!("cannot start a thread: {error}")))?;
        Ok(Follower { shared, stop: Some(stop), thread: Some(thread) })
    }
}

/// Opens a snapshot and loads its newest postings, so that no query waits for them.
fn open_with_postings(path: &Path, cache: &SharedCache) -> Result<RocksStore, OpenError> {
    let snapshot = RocksStore::open_snapshot(path, cache)?;
    snapshot.loaded_posting_buffer()?;
    Ok(snapshot)
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a new snapshot if the store has changed.
    fn refresh(&self) {
        let (now, begin) = (Stamp::read(&self.path), Instant::now());
        {
            let mut state = self.state();
            if now == state.stamp && state.problem.is_none() {
                state.current_at = begin;
                return;
            }
            state.unread_log_bytes = now.bytes_beyond(&state.stamp);
        }
        let opened = open_with_postings(&self.path, &self.cache).map_err(|error| error.to_string());
        let opened =
            opened.and_then(
                |snapshot| if *snapshot.seed() == self.seed { Ok(snapshot) } else { Err(self.replaced_message()) },
            );
        let mut state = self.state();
        match opened {
            Ok(snapshot) => {
                let old = std::mem::replace(&mut state.snapshot, Arc::new(snapshot));
                (state.stamp, state.current_at) = (now, begin);
                (state.unread_log_bytes, state.problem) = (0, None);
                drop(state);
                // Dropping the last reference closes the snapshot, which takes too long under the lock.
                drop(old);
            }
            Err(problem) => {
                if state.problem.as_ref() != Some(&problem) {
                    tracing::warn!("the store cannot be reopened, so queries see an old snapshot: {problem}");
                }
                state.problem = Some(problem);
            }
        }
    }

    fn replaced_message(&self) -> String {
        format!("{} is another store now; start this process again", self.path.display())
    }
}

/// The kept events of a store that another process writes.
pub struct FollowerEvents {
    shared: Arc<Shared>,
    /// The last snapshot whose contents are known to be durable.
    durable: Mutex<Weak<RocksStore>>,
}

impl Follower {
    /// Reads the events that the store keeps, of the newest snapshot.
    pub fn events(&self) -> FollowerEvents {
        FollowerEvents { shared: Arc::clone(&self.shared), durable: Mutex::default() }
    }
}

impl FollowerEvents {
    /// The newest snapshot, once its contents are durable. The writer may not have synced what is in its logs yet. Of a log
    /// that is gone by now, the rows are in a table, which RocksDB syncs before.
    fn durable(&self) -> Result<Arc<RocksStore>, StoreError> {
        let snapshot = Arc::clone(&self.shared.state().snapshot);
        let mut durable = self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        if !durable.upgrade().is_some_and(|durable| Arc::ptr_eq(&durable, &snapshot)) {
            sync_logs(&self.shared.path)
                .map_err(|error| StoreError::Failed(format!("cannot sync the store's logs: {error}")))?;
            *durable = Arc::downgrade(&snapshot);
        }
        Ok(snapshot)
    }
}

/// Makes durable what the logs of a store hold.
fn sync_logs(path: &Path) -> io::Result<()> {
    for (name, _) in Stamp::read(path).logs {
        match File::open(path.join(name)).and_then(|log| log.sync_data()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    File::open(path)?.sync_all()
}

impl KeptEvents for FollowerEvents {
    fn newest(&self) -> u64 {
        self.shared.state().snapshot.next_seq()
    }

    fn range(&self) -> Result<Option<Range<u64>>, StoreError> {
        Ok(self.durable()?.kept_range())
    }

    fn read(&self, from: u64, n_bytes: usize) -> Result<Option<Vec<Outgoing>>, StoreError> {
        self.durable()?.read_kept(from, n_bytes)
    }
}

impl Snapshots for Follower {
    type Snapshot = RocksStore;

    fn snapshot(&self) -> Arc<RocksStore> {
        Arc::clone(&self.shared.state().snapshot)
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
