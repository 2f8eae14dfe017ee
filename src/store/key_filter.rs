//! Answers most look-ups of new pages without RocksDB: one Bloom filter over all keys of the families that pages are looked
//! up in.
//!
//! RocksDB has a filter for each sorted run and asks them one after another, at a quarter of a microsecond each. A new page
//! has three or four keys here, nearly all absent. One filter in front of the runs takes ten more bits a key, and asking it costs
//! the same however many runs there are. Lists of postings are looked up in [runs of their own](super::posting_runs).
//!
//! A large filter stays in a [file](super::key_filter_file) when the store is closed. Without one, the filter has the keys
//! that this process writes, and what the store held before is read once enough keys were looked up to make that worthwhile;
//! until then every look-up goes to RocksDB. Deleted keys stay in the filter, which is slower than need be, but not wrong.

use super::bloom::{Bloom, spread};
use super::db::family;
use super::key_filter_file;
use super::rocks_error::failed;
use super::schema::cf;
use crate::ports::StoreError;
use rocksdb::{DB, ReadOptions};
use std::hash::Hasher;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// The families whose keys are in the filter.
const FAMILIES: [&str; 2] = [cf::EQUAL, cf::STATES];

/// How many stored keys are read for one that was looked up. Reading a key takes less than half a microsecond; looking one up in
/// a large store takes some five more without the filter than with it.
const KEYS_PER_LOOK_UP: u64 = 16;

/// Keys from which on the filter is saved. Fewer are read in two seconds.
const SAVED_KEYS_MIN: u64 = 4 << 20;

/// Keys added at once.
const KEYS_TOGETHER: usize = 1024;

/// The hash of a key of a family, whose keys are hashes themselves, more or less.
fn hash(family: usize, key: &[u8]) -> u64 {
    let mut hasher = rustc_hash::FxHasher::default();
    hasher.write_usize(family);
    hasher.write(key);
    spread(hasher.finish())
}

/// The filter's number of a family, if its keys are in the filter.
fn number(name: &str) -> Option<usize> {
    FAMILIES.iter().position(|family| *family == name)
}

/// Whether the filter has the keys of a family.
pub(super) fn has(name: &str) -> bool {
    number(name).is_some()
}

/// The filter itself.
pub(super) struct Keys {
    bloom: Bloom,
    /// Whether it has all keys of the store.
    is_complete: AtomicBool,
    /// Said once that it is crowded.
    said_crowded: AtomicBool,
}

impl Keys {
    /// Adds keys of a family, one after the other.
    pub fn adder(&self, name: &str) -> Adder<'_> {
        Adder { keys: self, family: number(name), hashes: Vec::new() }
    }

    fn insert(&self, hashes: &[u64]) {
        self.bloom.insert(hashes);
        if self.bloom.is_crowded() && !self.said_crowded.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "the store has outgrown the filter of keys, so that look-ups get slower; raise store.key_filter_mib, to {} at \
                 least, and start again",
                (2 * self.bloom.n_bytes()) >> 20
            );
        }
    }
}

/// Adds keys of one family to the filter. They must be there before a reader may see their rows.
pub(super) struct Adder<'k> {
    keys: &'k Keys,
    /// None if the filter has no keys of the family.
    family: Option<usize>,
    hashes: Vec<u64>,
}

impl Adder<'_> {
    /// Adds a key.
    pub fn add(&mut self, key: &[u8]) {
        let Some(family) = self.family else { return };
        self.hashes.push(hash(family, key));
        if self.hashes.len() == KEYS_TOGETHER {
            self.keys.insert(&self.hashes);
            self.hashes.clear();
        }
    }

    /// Adds the last ones. Only then are all in the filter.
    pub fn finish(self) {
        self.keys.insert(&self.hashes);
    }
}

/// The filter of a store that is open for writing, and the thread that reads what the store held before.
pub(super) struct KeyFilter {
    db: Arc<DB>,
    keys: Arc<Keys>,
    is_on: bool,
    n_looked_up: AtomicU64,
    /// Reads the store's keys; none before that is worthwhile.
    reading: Mutex<Option<JoinHandle<()>>>,
    closing: Arc<AtomicBool>,
    store: PathBuf,
    saved_keys_min: u64,
    /// The sequence number of the database when the filter was read from its file.
    saved_at: Option<u64>,
}

impl KeyFilter {
    /// The saved filter of a store, or one that has none of its keys yet. Nothing may have been written since the store was
    /// opened. It takes at most `mib_max` MiB; with 0 it answers nothing.
    pub fn open(db: Arc<DB>, store: &Path, mib_max: usize) -> Self {
        let n_bytes_max = mib_max.saturating_mul(1 << 20);
        let saved = key_filter_file::load(&db, store, n_bytes_max);
        let saved_at = saved.is_some().then(|| db.latest_sequence_number());
        let is_complete = AtomicBool::new(saved.is_some());
        let bloom = saved.unwrap_or_else(|| Bloom::new(n_bytes_max));
        KeyFilter {
            saved_at,
            keys: Arc::new(Keys { bloom, is_complete, said_crowded: AtomicBool::new(false) }),
            is_on: mib_max > 0,
            db,
            n_looked_up: AtomicU64::new(0),
            reading: Mutex::default(),
            closing: Arc::default(),
            store: store.to_path_buf(),
            saved_keys_min: SAVED_KEYS_MIN,
        }
    }

    /// The filter itself, for those that write.
    pub fn keys(&self) -> &Arc<Keys> {
        &self.keys
    }

    /// The indexes of the keys that the store may hold.
    pub fn possible<K: AsRef<[u8]>>(&self, name: &str, keys: &[K]) -> Vec<usize> {
        match number(name) {
            Some(family) if self.is_complete(keys.len()) => {
                let hashes: Vec<u64> = keys.iter().map(|key| hash(family, key.as_ref())).collect();
                let found = self.keys.bloom.may_contain(&hashes);
                (0..keys.len()).filter(|at| found[*at]).collect()
            }
            _ => (0..keys.len()).collect(),
        }
    }

    /// Whether the filter has all keys. Begins to read the store once that is worthwhile.
    fn is_complete(&self, n_keys: usize) -> bool {
        if !self.is_on || self.keys.is_complete.load(Ordering::Acquire) {
            return self.is_on;
        }
        let n_before = self.n_looked_up.fetch_add(n_keys as u64, Ordering::Relaxed);
        // The number of stored keys is estimated now and then.
        let is_due = n_before == 0 || n_before / 100_000 != (n_before + n_keys as u64) / 100_000;
        if is_due {
            let n_stored = self.n_stored();
            if (n_before + n_keys as u64) * KEYS_PER_LOOK_UP >= n_stored {
                self.begin(n_stored);
            }
        }
        false
    }

    /// About how many keys the store holds.
    fn n_stored(&self) -> u64 {
        let of_family = |name| {
            let family = family(&self.db, name).ok()?;
            self.db.property_int_value_cf(family, "rocksdb.estimate-num-keys").ok()?
        };
        FAMILIES.into_iter().filter_map(of_family).sum()
    }

    /// Starts to read the store, once, which holds about so many keys.
    fn begin(&self, n_stored: u64) {
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        if reading.is_some() {
            return;
        }
        let (db, keys, closing) = (Arc::clone(&self.db), Arc::clone(&self.keys), Arc::clone(&self.closing));
        let read = move || {
            if n_stored > 0 {
                keys.bloom.reserve(n_stored + n_stored / 4);
            }
            match read(&db, &keys, &closing) {
                Ok(is_whole) => keys.is_complete.store(is_whole, Ordering::Release),
                Err(error) => tracing::warn!("look-ups stay slow, because the store's keys cannot be read: {error}"),
            }
        };
        match std::thread::Builder::new().name("key-filter".into()).spawn(read) {
            Ok(thread) => *reading = Some(thread),
            Err(error) => tracing::warn!("look-ups stay slow, because no thread can be started: {error}"),
        }
    }
}

impl Drop for KeyFilter {
    /// Ends the thread, which still uses the database, and saves a large filter.
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Relaxed);
        let thread = self.reading.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that reads the store's keys panicked");
        }
        let is_large = self.keys.is_complete.load(Ordering::Acquire) && self.keys.bloom.n_keys() >= self.saved_keys_min;
        if is_large
            && self.saved_at != Some(self.db.latest_sequence_number())
            && let Err(error) = key_filter_file::save(&self.db, &self.store, &self.keys.bloom)
        {
            tracing::warn!("cannot save the filter of keys; the next process will read the store for it: {error}");
        }
    }
}

/// Adds all keys of the store. Returns false if the store is closed meanwhile.
fn read(db: &DB, keys: &Keys, closing: &AtomicBool) -> Result<bool, StoreError> {
    for name in FAMILIES {
        let mut options = ReadOptions::default();
        options.fill_cache(false);
        options.set_readahead_size(2 << 20);
        let mut rows = db.raw_iterator_cf_opt(family(db, name)?, options);
        rows.seek_to_first();
        let mut adder = keys.adder(name);
        while let Some(key) = rows.key() {
            if closing.load(Ordering::Relaxed) {
                return Ok(false);
            }
            adder.add(key);
            rows.next();
        }
        rows.status().map_err(failed)?;
        adder.finish();
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::Store;
    use crate::store::RocksStore;
    use crate::store::runs::tests::{batch, check, open};
    use rocksdb::Options;

    fn filter(store: &RocksStore) -> &KeyFilter {
        store.key_filter.as_ref().expect("a filter")
    }

    fn is_complete(store: &RocksStore) -> bool {
        filter(store).keys.is_complete.load(Ordering::Acquire)
    }

    /// Looks a key up, and waits for the thread that this starts.
    fn complete(store: &RocksStore) {
        filter(store).possible(cf::EQUAL, &[[0; 16]; 100]);
        let thread = filter(store).reading.lock().expect("unpoisoned").take();
        thread.into_iter().for_each(|thread| thread.join().expect("no panic"));
        assert!(is_complete(store));
    }

    /// Opens a store that saves a filter of any size.
    fn open_saving(path: &Path) -> RocksStore {
        let mut store = open(path, 0);
        store.key_filter.as_mut().expect("a filter").saved_keys_min = 0;
        store
    }

    /// A store of ten documents that is closed with its filter.
    fn save_ten(path: &Path) {
        let store = open_saving(path);
        store.commit(&batch(1..=10)).expect("written");
        complete(&store);
    }

    #[test]
    fn the_filter_has_what_was_stored_before_and_what_is_written_since() {
        let folder = tempfile::tempdir().expect("a folder");
        open(folder.path(), 0).commit(&batch(1..=10)).expect("written");
        let store = open(folder.path(), 0);
        store.commit(&batch(11..=20)).expect("written");
        assert!(!is_complete(&store));
        complete(&store);
        check(&store, 20);
        store.commit(&batch(21..=30)).expect("written");
        check(&store, 30);
        let absent: Vec<[u8; 16]> = (0..1000_u128).map(|n| (n << 64).to_be_bytes()).collect();
        assert!(filter(&store).possible(cf::EQUAL, &absent).len() < 50);
        assert_eq!(filter(&store).possible(cf::DOCS, &absent).len(), 1000, "the filter has no keys of this family");
    }

    /// A page is looked up in a small part of a large store: reading all its keys would take longer.
    #[test]
    fn few_look_ups_in_a_large_store_do_not_start_to_read_it() {
        let folder = tempfile::tempdir().expect("a folder");
        open(folder.path(), 0).commit(&batch(1..=100)).expect("written");
        let store = open(folder.path(), 0);
        filter(&store).possible(cf::EQUAL, &[[0; 16]]);
        assert!(filter(&store).reading.lock().expect("unpoisoned").is_none());
    }

    #[test]
    fn a_saved_filter_is_complete_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        save_ten(folder.path());
        let store = open_saving(folder.path());
        assert!(is_complete(&store));
        check(&store, 10);
        drop(store);
        let store = open_saving(folder.path());
        assert!(is_complete(&store), "nothing was written, so that the file still counts");
        store.commit(&batch(11..=20)).expect("written");
        drop(store);
        let store = open_saving(folder.path());
        assert!(is_complete(&store));
        check(&store, 20);
    }

    /// A program that knows no filter, or is killed, leaves a file that lacks its keys: they would never be found again.
    #[test]
    fn a_filter_of_another_time_does_not_count() {
        let folder = tempfile::tempdir().expect("a folder");
        save_ten(folder.path());
        let mut killed = open_saving(folder.path());
        assert!(is_complete(&killed));
        killed.key_filter = None;
        killed.commit(&batch(11..=20)).expect("written");
        drop(killed);
        assert!(folder.path().join("key-filter").exists());
        let store = open_saving(folder.path());
        assert!(!is_complete(&store));
        assert!(!folder.path().join("key-filter").exists());
        check(&store, 20);
        complete(&store);
        check(&store, 20);
    }

    #[test]
    fn without_a_filter_the_store_answers_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut store = open(folder.path(), 0);
        store.key_filter = Some(KeyFilter::open(Arc::clone(&store.db), folder.path(), 0));
        store.commit(&batch(1..=10)).expect("written");
        for _ in 0..2 {
            assert_eq!(filter(&store).possible(cf::EQUAL, &[[0; 16]]), [0]);
            assert!(filter(&store).reading.lock().expect("unpoisoned").is_none());
            check(&store, 10);
        }
    }

    #[test]
    fn a_damaged_filter_does_not_count() {
        let folder = tempfile::tempdir().expect("a folder");
        save_ten(folder.path());
        let path = folder.path().join("key-filter");
        let whole = std::fs::read(&path).expect("read");
        let flipped = |at: usize| {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            bytes
        };
        let cut = whole[..whole.len() / 2].to_vec();
        let load = || {
            let db = DB::open_cf_for_read_only(&Options::default(), folder.path(), [cf::META], false).expect("opens");
            key_filter_file::load(&db, folder.path(), usize::MAX)
        };
        for bytes in [flipped(3), flipped(20), flipped(34), flipped(100), flipped(whole.len() - 1), cut, Vec::new()] {
            std::fs::write(&path, bytes).expect("written");
            assert!(load().is_none());
            assert!(!path.exists());
        }
        std::fs::write(&path, &whole).expect("written");
        assert!(load().is_some());
    }
}
