//! Opens and creates stores, and explains why a store cannot be opened.

use super::background::give_way_in_compactions;
use super::column_options::{OptionalFamilies, database_options, families};
use super::db::{family, get_meta, manifest_state, synced};
use super::folder::StoreFolder;
use super::fragment::fragments_of;
use super::keeping::Keeping;
use super::key_filter::KeyFilter;
use super::posting_buffer::PostingBuffer;
use super::posting_runs::PostingRuns;
use super::rocks_error::{damaged, failed, is_missing};
use super::runs::Runs;
use super::schema::{self, FORMAT_VERSION, Fields, OLDEST_READABLE_FORMAT, cf, meta};
use super::settings::Settings;
use crate::document::Seed;
use crate::ports::{RelatedView, StoreError, StoreRule};
use crate::related::{RelatedRule, Said};
use rocksdb::{Cache, ColumnFamily, DB};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// Attempts of a read-only opening while a writer replaces files, and the pause between two attempts.
const OPEN_TRIES: u32 = 100;
const OPEN_PAUSE: Duration = Duration::from_millis(10);

/// Consecutive attempts that miss the same file under the same manifest, before the file counts as lost. A writer
/// changes the manifest before it deletes a file, so that the next attempt opens other files.
const MISSES_MAX: u32 = 3;

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process is writing to the store.
    #[error("the store {0} is in use by another process; stop that process, or use another store")]
    Locked(PathBuf),
    /// The folder holds no store.
    #[error("there is no store in {0}; `lookalike run --store {0} INPUT…` creates one")]
    Missing(PathBuf),
    /// The system lets this process not look into the folder, or not write there.
    #[error("the store {path} cannot be {verb} ({why}); check its permissions, or run as the user that owns it")]
    Refused {
        /// The store's folder.
        path: PathBuf,
        /// What was tried: "read" or "written".
        verb: &'static str,
        /// What the system says.
        why: String,
    },
    /// The process that creates the store is not done, or was killed before it was.
    #[error(
        "the store {0} is not made yet: a `run` is creating it, so that you need only try again, or its creation was interrupted, \
         which `lookalike run --store {0} INPUT…` completes"
    )]
    Unmade(PathBuf),
    /// The folder holds something else than a store.
    #[error("{0} is not empty and holds no store; give an empty or a new folder")]
    NotAStore(PathBuf),
    /// An incompatible version of the program created the store.
    #[error("the store {path} has format {found}, this program reads formats {OLDEST_READABLE_FORMAT} to {FORMAT_VERSION}; {advice}", advice = if *found > FORMAT_VERSION { "use a newer program" } else { "use an older program, or make a new store from the pages" })]
    OtherFormat {
        /// The store's folder.
        path: PathBuf,
        /// The store's format.
        found: u32,
    },
    /// The store was created with other rules than the configured ones.
    #[error(
        "the store {path} was created with other rules: {differences}; use the configuration it was created with, or create a new store"
    )]
    OtherRule {
        /// The store's folder.
        path: PathBuf,
        /// Each rule that differs, with the store's value and the configured value.
        differences: String,
    },
    /// The store was created with another seed than the configured one.
    #[error("the store {0} was created with another seed; leave store.seed empty to use the store's own")]
    OtherSeed(PathBuf),
    /// The writer flushes so often that no attempt to open the store succeeds.
    #[error("the store {0} changes too fast to be opened for reading; try again, or raise store.write_buffer_mib")]
    Unsettled(PathBuf),
    /// Reading or writing the store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What successive snapshots of one store share: the settings and the block cache.
pub(super) struct SharedCache {
    settings: Settings,
    cache: Cache,
}

impl SharedCache {
    pub fn new(settings: &Settings) -> Self {
        SharedCache { settings: settings.clone(), cache: Cache::new_lru_cache(settings.block_cache_mib << 20) }
    }
}

/// A store in a folder.
pub struct RocksStore {
    /// Writes full posting buffers as runs; `None` in a read-only store. Declared before `db`, which must outlive it.
    pub(super) runs: Mutex<Option<Runs>>,
    /// Knows keys that the store does not hold; `None` in a read-only store. Declared before `db`, like `runs`.
    pub(super) key_filter: Option<KeyFilter>,
    pub(super) db: Arc<DB>,
    pub(super) rule: StoreRule,
    pub(super) seed: Seed,
    id: u128,
    pub(super) n_documents: AtomicU32,
    pub(super) next_seq: Arc<AtomicU64>,
    /// Events below this number are durable.
    pub(super) durable: Arc<AtomicU64>,
    pub(super) published: AtomicU64,
    /// Which events stay after they were published.
    pub(super) keeping: Keeping,
    /// The newest postings. A read-only store loads them at their first use.
    posting_buffer: OnceLock<RwLock<PostingBuffer>>,
    posting_buffer_bytes_max: usize,
    /// All other postings.
    pub(super) posting_runs: Arc<PostingRuns>,
    path: PathBuf,
    /// When set, no write waits for disk space any longer.
    pub(super) stop: Arc<AtomicBool>,
    /// The folder, to notice when it disappears; `None` in a read-only store.
    pub(super) folder: Option<StoreFolder>,
}

/// Whether a folder holds a store, or the beginning of one.
pub fn holds_store(folder: &Path) -> bool {
    folder.join("CURRENT").exists()
}

impl RocksStore {
    /// Opens a store for writing, or creates it. An existing store must have this `seed`, if one is given. A new
    /// store gets `seed`, or else `new_seed()`.
    ///
    /// # Errors
    /// [`OpenError`], whose message says what to do.
    pub fn open(
        path: &Path,
        settings: &Settings,
        rule: &StoreRule,
        seed: Option<Seed>,
        new_seed: impl FnOnce() -> Seed,
    ) -> Result<Self, OpenError> {
        if !holds_store(path) && !is_unmade(path) {
            return Err(OpenError::NotAStore(path.to_path_buf()));
        }
        let mut options = database_options(settings, path);
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        give_way_in_compactions();
        let cache = Cache::new_lru_cache(settings.block_cache_mib << 20);
        let stored = stored_families(path);
        let related = stored.related || settings.related.is_some();
        let optional = OptionalFamilies { related, redirects: related, texts: stored.texts || settings.keeps_texts };
        let families = families(&cache, optional);
        let db = DB::open_cf_descriptors(&options, path, families).map_err(|error| open_error(path, error))?;
        if get_meta(&db, meta::FORMAT)?.is_none() {
            kill_point!("store-made");
            initialise(&db, rule, seed.unwrap_or_else(new_seed))?;
            kill_point!("store-named");
        }
        let mut store = Self::from_db(db, path, settings)?;
        let key_filter = KeyFilter::open(Arc::clone(&store.db), path, settings.key_filter_mib);
        if store.rule != *rule {
            return Err(OpenError::OtherRule { path: path.to_path_buf(), differences: differences(&store.rule, rule) });
        }
        if seed.is_some_and(|seed| seed != store.seed) {
            return Err(OpenError::OtherSeed(path.to_path_buf()));
        }
        if let Some(wanted) = &settings.related {
            store.check_reading(wanted)?;
        }
        let published = store.published();
        store.keeping.begin(&store.db, published)?;
        store.loaded_posting_buffer()?;
        let (db, keys, postings) = (&store.db, key_filter.keys(), &store.posting_runs);
        let runs = Runs::new(Arc::clone(db), Arc::clone(keys), Arc::clone(postings), path, store.rule.sketch.bits)?;
        store.runs = Mutex::new(Some(runs));
        store.key_filter = Some(key_filter);
        store.folder = Some(StoreFolder::new(path)?);
        Ok(store)
    }

    /// Checks that pages were read for related pages as they will be; where they never were, notes how they will be.
    fn check_reading(&self, wanted: &RelatedRule) -> Result<(), OpenError> {
        let Some(stored) = self.reading_rule()? else {
            let rule = serde_json::to_vec(wanted).map_err(|error| StoreError::Failed(error.to_string()))?;
            let mut rows = rocksdb::WriteBatch::default();
            rows.put_cf(self.cf(cf::META)?, meta::RELATED_RULE, rule);
            return Ok(self.db.write_opt(rows, &synced()).map_err(failed)?);
        };
        let differences = stored.reading_differences(wanted);
        if differences.is_empty() {
            return Ok(());
        }
        Err(OpenError::OtherRule { path: self.path.clone(), differences: differences.join(", ") })
    }

    /// Opens the current contents of a store for reading, even while another process writes to it.
    ///
    /// # Errors
    /// [`OpenError`], whose message says what to do.
    pub fn open_read_only(path: &Path, settings: &Settings) -> Result<Self, OpenError> {
        Self::open_snapshot(path, &SharedCache::new(settings))
    }

    /// Like [`Self::open_read_only`], with a block cache that several snapshots share.
    pub(super) fn open_snapshot(path: &Path, shared: &SharedCache) -> Result<Self, OpenError> {
        let settings = &shared.settings;
        check_there(path)?;
        let options = database_options(settings, path);
        let (mut log_error, mut last_missing, mut n_misses, mut is_unmade) = (None, None, 0, false);
        for _ in 0..OPEN_TRIES {
            let before = manifest_state(path);
            let opened = {
                let families = families(&shared.cache, stored_families(path));
                DB::open_cf_descriptors_read_only(&options, path, families, false)
            };
            let is_settled = manifest_state(path) == before;
            match opened {
                // RocksDB lists the files first and reads the logs later. After a flush in between, the rows of a log
                // deleted meanwhile would be missing from the snapshot.
                Ok(db) if is_settled && before.is_some() => match Self::from_db(db, path, settings) {
                    // Its families are there already.
                    Err(OpenError::NotAStore(_)) => is_unmade = true,
                    opened => return opened,
                },
                Ok(_) => {}
                // The writer deleted a file before it was opened here. RocksDB may name the same file in several
                // ways.
                Err(error) if is_missing(&error) => {
                    let is_same = last_missing.replace(error.clone()).as_ref() == Some(&error);
                    n_misses = if is_same && is_settled { n_misses + 1 } else { 1 };
                    if n_misses == MISSES_MAX {
                        return Err(open_error(path, error));
                    }
                }
                // A log disappeared during the opening. It is damage only if every attempt fails.
                Err(error) if error.to_string().contains("WAL") => log_error = Some(error),
                // A new store creates its column families one after the other, which takes a moment.
                Err(error) if error.to_string().contains("Column family not found") => is_unmade = true,
                Err(error) => return Err(open_error(path, error)),
            }
            std::thread::sleep(OPEN_PAUSE);
        }
        if is_unmade {
            return Err(OpenError::Unmade(path.to_path_buf()));
        }
        Err(log_error.map_or(OpenError::Unsettled(path.to_path_buf()), |error| open_error(path, error)))
    }

    fn from_db(db: DB, path: &Path, settings: &Settings) -> Result<Self, OpenError> {
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
        let rule: StoreRule = serde_json::from_slice(&rule).map_err(|error| damaged(format!("meta/rule: {error}")))?;
        let seed = get_meta(&db, meta::SEED)?.and_then(|row| read_seed(&row)).ok_or_else(|| damaged("meta/seed"))?;
        let id = get_meta(&db, meta::ID)?.and_then(|row| Fields(&row).bytes()).map(u128::from_be_bytes);
        let id = id.ok_or_else(|| damaged("meta/id"))?;
        let db = Arc::new(db);
        Ok(RocksStore {
            posting_runs: Arc::new(PostingRuns::read(&db, &rule)?),
            runs: Mutex::default(),
            key_filter: None,
            keeping: Keeping::read(&db, published, settings.keep_events)?,
            db,
            rule,
            seed,
            id,
            n_documents: n_documents.into(),
            next_seq: Arc::new(next_seq.into()),
            durable: Arc::new(next_seq.into()),
            published: published.into(),
            posting_buffer: OnceLock::new(),
            posting_buffer_bytes_max: settings.posting_buffer_mib << 20,
            path,
            stop: Arc::default(),
            folder: None,
        })
    }

    /// Sets the flag that ends every wait for disk space. Writes that wait then fail.
    pub fn stops_with(&mut self, stop: Arc<AtomicBool>) {
        self.stop = stop;
    }

    /// The store's secret.
    pub fn seed(&self) -> &Seed {
        &self.seed
    }

    /// The store's random id, which only its copies share.
    pub fn id(&self) -> String {
        format!("{:032x}", self.id)
    }

    /// How many documents there are.
    pub(super) fn n_documents(&self) -> u32 {
        self.n_documents.load(Ordering::Acquire)
    }

    /// Gives a store that holds nothing yet the id of another one, whose events it is to follow. False, and no change, where
    /// it holds something.
    ///
    /// # Errors
    /// [`StoreError`], also if `id` is none.
    pub fn adopt_id(&mut self, id: &str) -> Result<bool, StoreError> {
        if self.n_documents() > 0 || self.next_seq() > 0 || !self.progress()?.is_empty() {
            return Ok(false);
        }
        let id =
            u128::from_str_radix(id, 16).map_err(|error| StoreError::Failed(format!("{id:?} is no id: {error}")))?;
        let mut rows = rocksdb::WriteBatch::default();
        rows.put_cf(self.cf(cf::META)?, meta::ID, id.to_be_bytes());
        self.db.write_opt(rows, &synced()).map_err(failed)?;
        self.id = id;
        Ok(true)
    }

    /// The next event's sequence number.
    pub fn next_seq(&self) -> u64 {
        self.next_seq.load(Ordering::Acquire)
    }

    /// Events below this sequence number are published.
    pub fn published(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    /// The store's folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The newest postings.
    pub(super) fn posting_buffer(&self) -> Result<RwLockReadGuard<'_, PostingBuffer>, StoreError> {
        Ok(self.loaded_posting_buffer()?.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The newest postings, to add more.
    pub(super) fn posting_buffer_mut(&self) -> Result<RwLockWriteGuard<'_, PostingBuffer>, StoreError> {
        Ok(self.loaded_posting_buffer()?.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// The newest postings and equivalence fingerprints, read from `pending` at the first call.
    pub(super) fn loaded_posting_buffer(&self) -> Result<&RwLock<PostingBuffer>, StoreError> {
        if let Some(buffer) = self.posting_buffer.get() {
            return Ok(buffer);
        }
        let buffer = RwLock::new(self.read_pending_postings()?);
        Ok(self.posting_buffer.get_or_init(|| buffer))
    }

    /// Reads what `pending` holds and no run may hold.
    fn read_pending_postings(&self) -> Result<PostingBuffer, StoreError> {
        let mut buffer = PostingBuffer::new(self.posting_buffer_bytes_max);
        let (first, bits) = (self.indexed_up_to()?.saturating_add(1), self.rule.sketch.bits);
        self.scan_from(cf::PENDING, &first.to_be_bytes(), &mut |key, row| {
            let part = buffer.growing();
            let last = if schema::is_pending_equal(key) {
                schema::read_pending_equal(key, row, &mut |fingerprint, document| part.add_equal(fingerprint, document))
            } else {
                let mut add = |kind, shingle, document| part.add(kind, shingle, document);
                schema::read_pending(key, row, bits, &mut add)
            };
            part.last = Some(last.ok_or_else(|| damaged("a row of pending"))?);
            Ok(true)
        })?;
        if self.has_related() {
            self.scan_from(cf::SAID, &first.to_be_bytes(), &mut |key, row| {
                let document = Fields(key).document().filter(|_| key.len() == 4);
                let (document, said) = document.zip(Said::decode(row)).ok_or_else(|| damaged("a row of said"))?;
                buffer.growing().add_fragments(&fragments_of(&self.seed, [(document, &said)]));
                Ok(true)
            })?;
        }
        Ok(buffer)
    }

    /// The last document whose postings, and those of all documents before it, are in runs.
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

/// Which families a store has beside those of every store. A folder without a store has none.
fn stored_families(path: &Path) -> OptionalFamilies {
    let names = DB::list_cf(&rocksdb::Options::default(), path).unwrap_or_default();
    let has = |family: &str| names.iter().any(|name| name == family);
    OptionalFamilies { related: has(cf::SAID), redirects: has(cf::REDIRECTS), texts: has(cf::TEXTS) }
}

/// Writes the rows that turn an empty database into a store, in one batch.
fn initialise(db: &DB, rule: &StoreRule, seed: Seed) -> Result<(), StoreError> {
    let family = family(db, cf::META)?;
    let rule = serde_json::to_vec(rule).map_err(|error| StoreError::Failed(error.to_string()))?;
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|error| StoreError::Failed(format!("cannot read system randomness: {error}")))?;
    let mut batch = rocksdb::WriteBatch::default();
    batch.put_cf(family, meta::ID, id);
    batch.put_cf(family, meta::SEED, seed.0.map(u64::to_be_bytes).concat());
    batch.put_cf(family, meta::RULE, rule);
    batch.put_cf(family, meta::FORMAT, FORMAT_VERSION.to_be_bytes());
    db.write_opt(batch, &synced()).map_err(failed)
}

fn read_seed(row: &[u8]) -> Option<Seed> {
    let mut fields = Fields(row);
    Some(Seed([fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?]))
}

fn open_error(path: &Path, error: rocksdb::Error) -> OpenError {
    let message = error.to_string();
    if let Some(refusal) = refusal(path, &message) {
        refusal
    } else if message.contains("lock") && error.kind() == rocksdb::ErrorKind::IOError {
        OpenError::Locked(path.to_path_buf())
    } else if is_missing(&error) && path.join("CURRENT").exists() {
        OpenError::Store(damaged(message))
    } else if message.contains("Too many open files") {
        OpenError::Store(StoreError::Failed(message + "; raise the limit of open files (`ulimit -n`) and run again"))
    } else {
        OpenError::Store(failed(error))
    }
}

/// Fails where a folder holds no store, or does not show whether it does.
pub(super) fn check_there(path: &Path) -> Result<(), OpenError> {
    match path.join("CURRENT").try_exists() {
        Ok(true) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            Err(refused(path, "read", "permission denied"))
        }
        Ok(false) | Err(_) => Err(OpenError::Missing(path.to_path_buf())),
    }
}

fn refused(path: &Path, verb: &'static str, why: &str) -> OpenError {
    OpenError::Refused { path: path.to_path_buf(), verb, why: why.into() }
}

/// Why a store cannot be opened that the system keeps this process out of; none where RocksDB says something else.
fn refusal(path: &Path, message: &str) -> Option<OpenError> {
    let why = ["Permission denied", "Read-only file system"].into_iter().find(|why| message.contains(why))?;
    let is_readable = std::fs::File::open(path.join("CURRENT")).is_ok() || !holds_store(path);
    Some(refused(path, if is_readable { "written" } else { "read" }, &why.to_lowercase()))
}

/// Whether a folder without `CURRENT` is missing, empty, or left by an interrupted creation. A store that has lost
/// its `CURRENT` still has logs or tables.
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

/// Lists the rules that differ, for the error message.
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
        rules
            .iter()
            .find(|(other, _)| other == name)
            .map_or("off (false, 0 or \"all\")".to_string(), |(_, value)| value.clone())
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
