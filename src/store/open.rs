//! Opening a store: what is refused, and what to do then.

use super::column_options::{database_options, families};
use super::disk_full::is_want_of_room;
use super::folder::StoreFolder;
use super::posting_buffer::PostingBuffer;
use super::runs::Runs;
use super::schema::{self, FORMAT_VERSION, Fields, OLDEST_READABLE_FORMAT, cf, meta};
use crate::document::Seed;
use crate::ports::{StoreError, StoreRule};
use rocksdb::{Cache, ColumnFamily, DB};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How often a read-only opening is tried while a writer moves files about, and the pause between two tries.
const OPEN_TRIES: u32 = 100;
const OPEN_PAUSE: Duration = Duration::from_millis(10);

/// Tries in a row that miss the same file, while the manifest stays as it is, before the file counts as lost. A writer
/// changes the manifest before it deletes anything, so that whoever looks again looks for other files.
const MISSES_MAX: u32 = 3;

/// How RocksDB is to use the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// MiB of decompressed blocks kept in memory.
    pub block_cache_mib: usize,
    /// MiB that all write buffers together may take before they are flushed.
    pub write_buffer_mib: usize,
    /// MiB of log before what it holds is flushed: it is what opening a store reads.
    pub wal_mib: usize,
    /// MiB of postings held in memory, those on their way into a file included; when they are reached, writing waits.
    pub posting_buffer_mib: usize,
    /// Threads that flush and compact.
    pub background_threads: i32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            block_cache_mib: 256,
            write_buffer_mib: 256,
            wal_mib: 64,
            posting_buffer_mib: 384,
            background_threads: 3,
        }
    }
}

/// Why a store was not opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process writes to it.
    #[error("the store {0} is in use by another process; stop that one, or give this one a store of its own")]
    Locked(PathBuf),
    /// There is no store.
    #[error("there is no store in {0}; `lookalike run --store {0} INPUT…` makes one")]
    Missing(PathBuf),
    /// Whoever made it was killed before it was done.
    #[error("the store {0} was not made to its end; `lookalike run --store {0} INPUT…` does that, and goes on with it")]
    Unmade(PathBuf),
    /// The folder holds something else.
    #[error("{0} is not empty and holds no store; give an empty or a new folder")]
    NotAStore(PathBuf),
    /// It was made by another version of the program.
    #[error("the store {path} has format {found}, this program reads {OLDEST_READABLE_FORMAT} to {FORMAT_VERSION}; {advice}", advice = if *found > FORMAT_VERSION { "use a newer program" } else { "use an older program, or make a new store from the pages" })]
    OtherFormat {
        /// The store.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// It was made with other rules.
    #[error(
        "the store {path} was made with other rules: {differences}; run with the configuration it was made with, or make a new store"
    )]
    OtherRule {
        /// The store.
        path: PathBuf,
        /// Each rule that differs: its name, the store's value and the configured one.
        differences: String,
    },
    /// It was made with another seed.
    #[error("the store {0} was made with another seed; leave store.seed empty to use the one it has")]
    OtherSeed(PathBuf),
    /// Whoever writes to it flushes faster than it can be opened.
    #[error("the store {0} changes too fast to be opened for reading; ask again, or raise store.write_buffer_mib")]
    Unsettled(PathBuf),
    /// It cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What snapshots of one store share, one after the other: the blocks in memory.
pub(super) struct ViewFiles {
    settings: Settings,
    cache: Cache,
}

impl ViewFiles {
    pub fn new(settings: &Settings) -> Self {
        ViewFiles { settings: settings.clone(), cache: Cache::new_lru_cache(settings.block_cache_mib << 20) }
    }
}

/// A store in a folder.
pub struct RocksStore {
    /// Makes the newest postings runs; none in a read-only view. Before the database, which must outlive it.
    pub(super) runs: Option<Runs>,
    pub(super) db: Arc<DB>,
    pub(super) rule: StoreRule,
    pub(super) seed: Seed,
    id: u128,
    pub(super) n_documents: u32,
    pub(super) next_seq: u64,
    pub(super) published: u64,
    /// The newest postings; in a read-only view only once they are asked for.
    delta: OnceLock<PostingBuffer>,
    delta_bytes_max: usize,
    path: PathBuf,
    /// Set from outside to end the wait for room on the disk.
    pub(super) stop: Arc<AtomicBool>,
    /// The folder while this process writes to it; none in a read-only view.
    pub(super) home: Option<StoreFolder>,
}

pub(super) fn failed(error: rocksdb::Error) -> StoreError {
    match error.kind() {
        rocksdb::ErrorKind::Corruption => StoreError::Damaged(error.into_string()),
        _ if is_want_of_room(error.as_ref()) => StoreError::DiskFull(error.into_string()),
        _ => StoreError::Failed(error.into_string()),
    }
}

pub(super) fn damaged(what: impl Into<String>) -> StoreError {
    StoreError::Damaged(what.into())
}

impl RocksStore {
    /// Opens a store to write to it, or makes one. `seed` matters only to a new store, or must be that of the old.
    ///
    /// # Errors
    /// [`OpenError`], each with what to do.
    pub fn open(
        path: &Path,
        settings: &Settings,
        rule: &StoreRule,
        seed: Option<Seed>,
        new_seed: impl FnOnce() -> Seed,
    ) -> Result<Self, OpenError> {
        if !path.join("CURRENT").exists() && !is_unmade(path) {
            return Err(OpenError::NotAStore(path.to_path_buf()));
        }
        let mut options = database_options(settings);
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        let cache = Cache::new_lru_cache(settings.block_cache_mib << 20);
        let db = DB::open_cf_descriptors(&options, path, families(&cache)).map_err(|error| open_error(path, error))?;
        if get_meta(&db, meta::FORMAT)?.is_none() {
            kill_point!("store-made");
            initialise(&db, rule, seed.unwrap_or_else(new_seed))?;
            kill_point!("store-named");
        }
        let mut store = Self::of(db, path, settings)?;
        if store.rule != *rule {
            return Err(OpenError::OtherRule { path: path.to_path_buf(), differences: differences(&store.rule, rule) });
        }
        if seed.is_some_and(|seed| seed != store.seed) {
            return Err(OpenError::OtherSeed(path.to_path_buf()));
        }
        store.delta()?;
        store.runs = Some(Runs::new(Arc::clone(&store.db), path, store.rule.sketch.bits)?);
        store.home = Some(StoreFolder::of(path)?);
        Ok(store)
    }

    /// Opens a store to read what it holds now, whether or not another process writes to it.
    ///
    /// # Errors
    /// [`OpenError`], each with what to do.
    pub fn open_read_only(path: &Path, settings: &Settings) -> Result<Self, OpenError> {
        Self::open_view(path, &ViewFiles::new(settings))
    }

    /// The same, with what all snapshots of the store share.
    pub(super) fn open_view(path: &Path, files: &ViewFiles) -> Result<Self, OpenError> {
        let settings = &files.settings;
        if !path.join("CURRENT").exists() {
            return Err(OpenError::Missing(path.to_path_buf()));
        }
        let options = database_options(settings);
        let (mut missed, mut missing, mut n_misses) = (None, None, 0);
        for _ in 0..OPEN_TRIES {
            let before = manifest_state(path);
            let opened = DB::open_cf_descriptors_read_only(&options, path, families(&files.cache), false);
            let is_settled = manifest_state(path) == before;
            match opened {
                // Between the list of files and the log that goes on from it nothing may have been flushed: what was in
                // a log that is gone since would be missing from the view.
                Ok(db) if is_settled && before.is_some() => return Self::of(db, path, settings),
                Ok(_) => {}
                // A file went before it was opened; RocksDB calls it by several names.
                Err(error) if is_missing(&error) => {
                    let is_same = missing.replace(error.clone()).as_ref() == Some(&error);
                    n_misses = if is_same && is_settled { n_misses + 1 } else { 1 };
                    if n_misses == MISSES_MAX {
                        return Err(open_error(path, error));
                    }
                }
                // A log went, or one that is not there any more is missed: damage only if it stays so.
                Err(error) if error.to_string().contains("WAL") => missed = Some(error),
                // The families are made one after the other.
                Err(error) if error.to_string().contains("Column family not found") => {
                    return Err(OpenError::Unmade(path.to_path_buf()));
                }
                Err(error) => return Err(open_error(path, error)),
            }
            std::thread::sleep(OPEN_PAUSE);
        }
        Err(missed.map_or(OpenError::Unsettled(path.to_path_buf()), |error| open_error(path, error)))
    }

    fn of(db: DB, path: &Path, settings: &Settings) -> Result<Self, OpenError> {
        let path = path.to_path_buf();
        let Some(format) = get_meta(&db, meta::FORMAT)? else {
            return Err(OpenError::NotAStore(path));
        };
        let found = Fields(&format).u32().ok_or_else(|| damaged("meta/format"))?;
        if !(OLDEST_READABLE_FORMAT..=FORMAT_VERSION).contains(&found) {
            return Err(OpenError::OtherFormat { path, found });
        }
        let number = |key| -> Result<u64, StoreError> {
            match get_meta(&db, key)? {
                None => Ok(0),
                Some(row) => Fields(&row).u64().ok_or_else(|| damaged(String::from_utf8_lossy(key))),
            }
        };
        let (next_seq, published) = (number(meta::NEXT_SEQ)?, number(meta::PUBLISHED)?);
        let n_documents = match get_meta(&db, meta::DOCUMENTS)? {
            None => 0,
            Some(row) => Fields(&row).u32().ok_or_else(|| damaged("meta/documents"))?,
        };
        let rule = get_meta(&db, meta::RULE)?.ok_or_else(|| damaged("meta/rule"))?;
        let rule = serde_json::from_slice(&rule).map_err(|error| damaged(format!("meta/rule: {error}")))?;
        let seed = get_meta(&db, meta::SEED)?.and_then(|row| read_seed(&row)).ok_or_else(|| damaged("meta/seed"))?;
        let id = get_meta(&db, meta::ID)?.and_then(|row| Fields(&row).bytes()).map(u128::from_be_bytes);
        let id = id.ok_or_else(|| damaged("meta/id"))?;
        Ok(RocksStore {
            runs: None,
            db: Arc::new(db),
            rule,
            seed,
            id,
            n_documents,
            next_seq,
            published,
            delta: OnceLock::new(),
            delta_bytes_max: settings.posting_buffer_mib << 20,
            path,
            stop: Arc::default(),
            home: None,
        })
    }

    /// Whoever sets `stop` ends every wait for room on the disk: what could not be written then fails.
    pub fn stops_with(&mut self, stop: Arc<AtomicBool>) {
        self.stop = stop;
    }

    /// The store's secret.
    pub fn seed(&self) -> &Seed {
        &self.seed
    }

    /// The store's own name: no other has it, but for its copies.
    pub fn id(&self) -> String {
        format!("{:032x}", self.id)
    }

    /// The next event's sequence number.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Events below this number are out.
    pub fn published(&self) -> u64 {
        self.published
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The newest postings, read from `pending` when they are first asked for.
    pub(super) fn delta(&self) -> Result<&PostingBuffer, StoreError> {
        if let Some(delta) = self.delta.get() {
            return Ok(delta);
        }
        let delta = self.pending_delta()?;
        Ok(self.delta.get_or_init(|| delta))
    }

    /// The newest postings of a store that is written.
    pub(super) fn delta_mut(&mut self) -> Result<&mut PostingBuffer, StoreError> {
        self.delta()?;
        self.delta.get_mut().ok_or_else(|| damaged("the newest postings"))
    }

    /// What `pending` holds that may be in no run.
    fn pending_delta(&self) -> Result<PostingBuffer, StoreError> {
        let mut delta = PostingBuffer::new(self.delta_bytes_max);
        let (first, bits) = (self.indexed_up_to()?.saturating_add(1), self.rule.sketch.bits);
        self.scan_from(cf::PENDING, &first.to_be_bytes(), &mut |key, row| {
            let part = delta.growing();
            let last = schema::read_pending(key, row, bits, &mut |posted, shingle, document| {
                part.add(posted, shingle, document, false);
            });
            part.last = Some(last.ok_or_else(|| damaged("a row of pending"))?);
            Ok(true)
        })?;
        Ok(delta)
    }

    /// The postings of the documents up to this one are in runs.
    pub(super) fn indexed_up_to(&self) -> Result<u32, StoreError> {
        match get_meta(&self.db, meta::INDEXED_UP_TO)? {
            None => Ok(0),
            Some(row) => Fields(&row).u32().ok_or_else(|| damaged("meta/indexed-up-to")),
        }
    }

    pub(super) fn cf(&self, name: &'static str) -> Result<&ColumnFamily, StoreError> {
        family(&self.db, name)
    }
}

pub(super) fn family<'a>(db: &'a DB, name: &'static str) -> Result<&'a ColumnFamily, StoreError> {
    db.cf_handle(name).ok_or_else(|| damaged(format!("there is no column family {name}")))
}

fn get_meta(db: &DB, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
    db.get_cf(family(db, cf::META)?, key).map_err(failed)
}

/// Writes what makes a folder a store, at once.
fn initialise(db: &DB, rule: &StoreRule, seed: Seed) -> Result<(), StoreError> {
    let family = family(db, cf::META)?;
    let rule = serde_json::to_vec(rule).map_err(|error| StoreError::Failed(error.to_string()))?;
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|error| StoreError::Failed(format!("there is no randomness: {error}")))?;
    let mut batch = rocksdb::WriteBatch::default();
    batch.put_cf(family, meta::ID, id);
    batch.put_cf(family, meta::SEED, seed.0.map(u64::to_be_bytes).concat());
    batch.put_cf(family, meta::RULE, rule);
    batch.put_cf(family, meta::FORMAT, FORMAT_VERSION.to_be_bytes());
    db.write_opt(batch, &super::write::synced()).map_err(failed)
}

fn read_seed(row: &[u8]) -> Option<Seed> {
    let mut fields = Fields(row);
    Some(Seed([fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?]))
}

/// Whether a file is not there that was looked for.
fn is_missing(error: &rocksdb::Error) -> bool {
    error.as_ref().contains("No such file")
}

fn open_error(path: &Path, error: rocksdb::Error) -> OpenError {
    let message = error.to_string();
    if message.contains("lock") && error.kind() == rocksdb::ErrorKind::IOError {
        OpenError::Locked(path.to_path_buf())
    } else if is_missing(&error) && path.join("CURRENT").exists() {
        OpenError::Store(damaged(message))
    } else if message.contains("Too many open files") {
        OpenError::Store(StoreError::Failed(message + "; raise the limit of open files (`ulimit -n`), and run again"))
    } else {
        OpenError::Store(failed(error))
    }
}

/// Whether a folder without a store is empty, or holds only what a making leaves that was killed before it was done. A
/// store that has lost its `CURRENT` is neither: it has logs or tables.
fn is_unmade(path: &Path) -> bool {
    let Ok(mut files) = path.read_dir() else { return true };
    files.all(|file| {
        file.is_ok_and(|file| {
            let name = file.file_name();
            let name = name.to_string_lossy();
            matches!(&*name, "LOCK" | "LOG" | "IDENTITY" | "MANIFEST-000001")
                || name.starts_with("LOG.old.")
                || name.ends_with(".dbtmp")
        })
    })
}

/// The manifest's name and length: every flush and compaction appends to it before it deletes anything.
pub(super) fn manifest_state(path: &Path) -> Option<(String, u64)> {
    let name = std::fs::read_to_string(path.join("CURRENT")).ok()?;
    let length = std::fs::metadata(path.join(name.trim_end())).ok()?.len();
    Some((name, length))
}

/// Which rules differ, for the message.
fn differences(stored: &StoreRule, wanted: &StoreRule) -> String {
    let flat = |rule: &StoreRule| -> Vec<(String, String)> {
        let mut flat = Vec::new();
        if let Ok(value) = serde_json::to_value(rule) {
            flatten("", &value, &mut flat);
        }
        flat
    };
    let (stored, wanted) = (flat(stored), flat(wanted));
    let mut names: Vec<&String> = stored.iter().chain(&wanted).map(|(name, _)| name).collect();
    names.sort();
    names.dedup();
    let value = |rules: &[(String, String)], name: &str| {
        rules.iter().find(|(other, _)| other == name).map_or("off (false or 0)".to_string(), |(_, value)| value.clone())
    };
    names
        .into_iter()
        .map(|name| (name, value(&stored, name), value(&wanted, name)))
        .filter(|(_, stored, wanted)| stored != wanted)
        .map(|(name, stored, wanted)| format!("{name} is {stored} there and {wanted} here"))
        .collect::<Vec<_>>()
        .join(", ")
}

fn flatten(prefix: &str, value: &serde_json::Value, out: &mut Vec<(String, String)>) {
    if let serde_json::Value::Object(fields) = value {
        for (name, value) in fields {
            let dot = if prefix.is_empty() { "" } else { "." };
            flatten(&format!("{prefix}{dot}{name}"), value, out);
        }
    } else {
        out.push((prefix.to_string(), value.to_string()));
    }
}
