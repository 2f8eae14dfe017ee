//! Sorted runs: writes a frozen part of the posting buffer as sorted files, one for each family, which RocksDB ingests
//! whole.
//!
//! ```text
//! frozen part ─▶ runs/FAMILY.sst ─▶ ingested, family by family ─▶ indexed-up-to raised, pending deleted up to there
//! ```
//! A kill at any step loses nothing. Until the last step `pending` still holds all of it, and ingesting a run twice
//! changes nothing.

use super::background;
use super::column_options;
use super::db::family;
use super::db::sync_log;
use super::disk_full::retry_while_full;
use super::fragment::BufferedFragment;
use super::key_filter::{Adder, Keys};
use super::posting_buffer::{Chains, Part};
use super::rocks_error::failed;
use super::schema::{self, PostingKind, cf, meta};
use crate::document::{DocumentId, Fingerprint};
use crate::ports::StoreError;
use rocksdb::{DB, IngestExternalFileOptions, SstFileWriter, WriteBatch};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// The folder of runs to ingest, inside the store's.
const FOLDER: &str = "runs";

/// Writes one run at a time, in a separate thread.
pub(super) struct Runs {
    db: Arc<DB>,
    keys: Arc<Keys>,
    folder: PathBuf,
    bits: u32,
    under_way: Option<JoinHandle<Result<(), StoreError>>>,
    /// Set when the store is closed, to end a wait for disk space.
    closing: Arc<AtomicBool>,
}

impl Runs {
    /// Clears the folder of runs, where a killed process may have left files.
    pub fn new(db: Arc<DB>, keys: Arc<Keys>, store: &Path, bits: u32) -> Result<Self, StoreError> {
        let folder = store.join(FOLDER);
        let cleared = if folder.exists() { std::fs::remove_dir_all(&folder) } else { Ok(()) };
        kill_point!("runs-cleared");
        cleared
            .and_then(|()| std::fs::create_dir(&folder))
            .map_err(|error| StoreError::Failed(format!("cannot recreate {}: {error}", folder.display())))?;
        Ok(Runs { db, keys, folder, bits, under_way: None, closing: Arc::default() })
    }

    /// Starts writing a run of a part. No run may be under way. Setting `stop` ends a wait for disk space.
    ///
    /// # Errors
    /// [`StoreError`] if no thread can be started.
    pub fn begin(&mut self, part: Arc<Part>, stop: Arc<AtomicBool>) -> Result<(), StoreError> {
        let (db, keys, folder) = (Arc::clone(&self.db), Arc::clone(&self.keys), self.folder.clone());
        let run = Run { db, keys, folder, bits: self.bits, part };
        let closing = Arc::clone(&self.closing);
        let should_stop = move || closing.load(Ordering::Relaxed) || stop.load(Ordering::Relaxed);
        let write = move || {
            background::give_way();
            retry_while_full(should_stop, || run.write_and_ingest())
        };
        let thread = std::thread::Builder::new().name("run".into()).spawn(write);
        let thread = thread.map_err(|error| StoreError::Failed(format!("cannot start a thread for a run: {error}")))?;
        self.under_way = Some(thread);
        Ok(())
    }

    /// Whether a run is still being written.
    pub fn is_busy(&self) -> bool {
        self.under_way.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Waits for the run under way. Returns whether there was one.
    pub fn finish(&mut self) -> Result<bool, StoreError> {
        let Some(thread) = self.under_way.take() else { return Ok(false) };
        let ended = thread.join();
        ended.unwrap_or_else(|_| Err(StoreError::Failed("the thread that writes runs panicked".into())))?;
        Ok(true)
    }
}

impl Drop for Runs {
    /// Waits for the run under way, which still uses the database.
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Relaxed);
        if let Err(error) = self.finish() {
            tracing::error!("cannot write the last run of postings; the next start retries it: {error}");
        }
    }
}

/// A run to be written and ingested.
struct Run {
    db: Arc<DB>,
    keys: Arc<Keys>,
    folder: PathBuf,
    bits: u32,
    part: Arc<Part>,
}

impl Run {
    fn write_and_ingest(&self) -> Result<(), StoreError> {
        // An ingested file is durable at once. The documents in its postings must be durable before.
        sync_log(&self.db)?;
        for kind in PostingKind::ALL {
            self.write_and_ingest_kind(kind)?;
        }
        self.write_and_ingest_equal()?;
        self.write_and_ingest_fragments()?;
        let Some(last) = self.part.last else { return Ok(()) };
        raise_indexed(&self.db, last)
    }

    fn write_and_ingest_kind(&self, kind: PostingKind) -> Result<(), StoreError> {
        let chains = self.part.chains(kind);
        if chains.is_empty() {
            return Ok(());
        }
        self.write_and_ingest_file(kind.family(), |file| self.write_chains(file, kind, chains))
    }

    fn write_and_ingest_equal(&self) -> Result<(), StoreError> {
        let equal = self.part.sorted_equal();
        if equal.is_empty() {
            return Ok(());
        }
        self.write_and_ingest_file(cf::EQUAL, |file| {
            let put = |(fingerprint, document): &(Fingerprint, DocumentId)| {
                file.put(&schema::fingerprint_key(*fingerprint), &document.0.to_be_bytes())
            };
            equal.iter().try_for_each(put)
        })
    }

    fn write_and_ingest_fragments(&self) -> Result<(), StoreError> {
        let fragments = self.part.sorted_fragments();
        if fragments.is_empty() {
            return Ok(());
        }
        self.write_and_ingest_file(cf::FRAGMENTS, |file| {
            let put = |(target, key, document): &BufferedFragment| {
                file.put(&schema::fragment_key(*target, *key), &document.0.to_be_bytes())
            };
            fragments.iter().try_for_each(put)
        })
    }

    fn write_and_ingest_file(
        &self,
        family: &'static str,
        write: impl FnOnce(&mut RunFile<'_>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let path = self.folder.join(format!("{family}.sst"));
        kill_point!("run-begun");
        let options = column_options::run_options(family);
        let mut file = RunFile { writer: SstFileWriter::create(&options), keys: self.keys.adder(family) };
        file.writer.open(&path).map_err(failed)?;
        write(&mut file)?;
        file.writer.finish().map_err(failed)?;
        file.keys.finish();
        read_ahead(&path);
        kill_point!("run-written");
        self.ingest(&path, family)?;
        kill_point!("run-ingested");
        Ok(())
    }

    fn write_chains(&self, file: &mut RunFile<'_>, kind: PostingKind, chains: &Chains) -> Result<(), StoreError> {
        let width = kind.width(self.bits);
        chains.each(|shingle, documents, is_first| {
            if kind == PostingKind::Mod {
                return documents
                    .iter()
                    .try_for_each(|document| file.put(&schema::mod_posting_key(shingle, *document, self.bits), &[]));
            }
            let (key, list) = (&shingle.to_be_bytes()[8 - width..], schema::documents_row(documents));
            // Most lists start in this run. Compaction copies a plain row, but has to merge the pieces of a list.
            if is_first { file.put(key, &list) } else { file.merge(key, &list) }
        })
    }

    fn ingest(&self, path: &Path, name: &'static str) -> Result<(), StoreError> {
        let mut options = IngestExternalFileOptions::default();
        options.set_move_files(true);
        let family = family(&self.db, name)?;
        self.db.ingest_external_file_cf_opts(family, &options, vec![path]).map_err(failed)
    }
}

/// Asks the system to read a run into its cache. RocksDB's writer has just dropped it from there, and otherwise the first
/// look-up of each block would wait for the disk.
#[cfg(target_os = "linux")]
fn read_ahead(path: &Path) {
    let advised = std::fs::File::open(path)
        .and_then(|file| Ok(rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::WillNeed)?));
    if let Err(error) = advised {
        tracing::debug!("{} is not read ahead: {error}", path.display());
    }
}

/// Does nothing: other systems lack the call.
#[cfg(not(target_os = "linux"))]
fn read_ahead(_: &Path) {}

/// A run that is being written, whose keys go to the filter.
struct RunFile<'r> {
    writer: SstFileWriter<'r>,
    keys: Adder<'r>,
}

impl RunFile<'_> {
    fn put(&mut self, key: &[u8], row: &[u8]) -> Result<(), StoreError> {
        self.keys.add(key);
        self.writer.put(key, row).map_err(failed)
    }

    fn merge(&mut self, key: &[u8], row: &[u8]) -> Result<(), StoreError> {
        self.keys.add(key);
        self.writer.merge(key, row).map_err(failed)
    }
}

/// Records that runs hold all that documents up to `last` add to the derived families. Not synced: if the record is lost, the next
/// start writes the run again.
fn raise_indexed(db: &DB, last: DocumentId) -> Result<(), StoreError> {
    // Behind all rows that begin with the document's number.
    let beyond = [&last.0.to_be_bytes()[..], &[0xff]].concat();
    let mut rows = WriteBatch::default();
    rows.put_cf(family(db, cf::META)?, meta::INDEXED_UP_TO, last.0.to_be_bytes());
    rows.delete_range_cf(family(db, cf::PENDING)?, &[][..], &beyond);
    kill_point!("run-complete");
    db.write(rows).map_err(failed)?;
    kill_point!("run-noted");
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::cluster::NewDocument;
    use crate::cluster::View;
    use crate::document::{CANONICAL_VERSION, Seed};
    use crate::ports::{Batch, Snapshot, Store, StoreRule};
    use crate::sketch::{Equivalences, Shingle, Sketch, SketchForm, SketchRule};
    use crate::store::{RocksStore, Settings};
    use std::collections::HashMap;

    const SETTINGS: Settings = Settings {
        block_cache_mib: 8,
        write_buffer_mib: 8,
        wal_mib: 8,
        posting_buffer_mib: 0,
        key_filter_mib: 16,
        background_threads: 1,
        keep_events: 0,
        related: None,
        keeps_texts: false,
    };

    pub fn open(path: &Path, posting_buffer_mib: usize) -> RocksStore {
        let sketch = SketchRule { index_modulus: 25, ..SketchRule::default() };
        let rule = StoreRule {
            canonical_version: CANONICAL_VERSION,
            canonical: Default::default(),
            sketch,
            cluster: Default::default(),
        };
        let settings = Settings { posting_buffer_mib, ..SETTINGS };
        RocksStore::open(path, &settings, &rule, None, || Seed([1, 2, 3, 4])).expect("opens")
    }

    /// Document n has shingle n modulo 3, super shingle n modulo 2 and mod shingle 25. The first documents with a
    /// shingle or super shingle are known to be the first.
    pub fn batch(ids: std::ops::RangeInclusive<u32>) -> Batch {
        let document = |id: u32| {
            let fingerprint = |kind: u128| Fingerprint(kind << 32 | u128::from(id));
            let new = NewDocument {
                document: DocumentId(id),
                equivalences: Equivalences { identical: fingerprint(1), lexical: fingerprint(2), shingle: None },
                sketch: Arc::new(Sketch { n_shingles: 1, form: SketchForm::Whole(vec![7]), confirmation: None }),
                index: vec![Shingle::from(id % 3)],
                super_shingles: vec![Shingle::from(id % 2)],
                mod_shingles: vec![25],
                is_first_in_list: vec![id <= 3, id <= 2],
                n_words: 10,
                n_bytes: 100,
            };
            (new, Fingerprint(1))
        };
        Batch { documents: ids.map(document).collect(), ..Batch::default() }
    }

    pub fn check(store: &RocksStore, n: u32) {
        let ids = |of: &dyn Fn(u32) -> bool| (1..=n).filter(|id| of(*id)).map(DocumentId).collect::<Vec<_>>();
        let by_thirds = [0, 1, 2].map(|rest| ids(&|id| id % 3 == rest));
        assert_eq!(store.postings(&[0, 1, 2, 3]).expect("read"), [&by_thirds[..], &[vec![]]].concat());
        assert_eq!(store.supers(&[0, 1]).expect("read"), [ids(&|id| id % 2 == 0), ids(&|id| id % 2 == 1)]);
        let shared: HashMap<DocumentId, u32> = (1..=n).map(|id| (DocumentId(id), 1)).collect();
        assert_eq!(store.sharing_mod(&[25, 50], &[], 1000).expect("read"), shared);
        let keys: Vec<Fingerprint> = (1..=n + 1).map(|id| Fingerprint(2 << 32 | u128::from(id))).collect();
        let equal: Vec<Option<DocumentId>> = (1..=n + 1).map(|id| (id <= n).then_some(DocumentId(id))).collect();
        assert_eq!(store.equal(&keys).expect("read"), equal);
    }

    fn is_in_runs(store: &RocksStore) -> bool {
        let family = family(&store.db, cf::PENDING).expect("a family");
        store.db.iterator_cf(family, rocksdb::IteratorMode::Start).next().is_none()
    }

    fn read_only(path: &Path) -> RocksStore {
        RocksStore::open_read_only(path, &SETTINGS).expect("opens")
    }

    #[test]
    fn postings_are_the_same_in_memory_in_runs_and_in_both() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = open(folder.path(), 1);
        store.commit(&batch(1..=10)).expect("written");
        check(&store, 10);
        check(&read_only(folder.path()), 10);
        drop(store);
        let store = open(folder.path(), 0);
        assert!(!is_in_runs(&store));
        for n in [20, 21, 30] {
            store.commit(&batch(store.n_documents() + 1..=n)).expect("written");
            check(&store, n);
            check(&read_only(folder.path()), n);
        }
        drop(store);
        let store = open(folder.path(), 1);
        assert!(is_in_runs(&store));
        store.commit(&batch(31..=40)).expect("written");
        check(&store, 40);
        check(&read_only(folder.path()), 40);
    }

    /// After a kill between two steps, the next start ingests the whole run again.
    #[test]
    fn ingesting_a_run_twice_changes_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut store = open(folder.path(), 1);
        store.commit(&batch(1..=10)).expect("written");
        let runs = folder.path().join(FOLDER);
        let steps = PostingKind::ALL.into_iter().map(Some).chain([None]);
        for kind in steps {
            let part = store.posting_buffer_mut().expect("a buffer").freeze();
            let keys = Arc::clone(store.key_filter.as_ref().expect("a filter").keys());
            let run = Run { db: Arc::clone(&store.db), keys, folder: runs.clone(), bits: 40, part };
            kind.map_or_else(|| run.write_and_ingest_equal(), |kind| run.write_and_ingest_kind(kind))
                .expect("taken in");
            check(&store, 10);
            std::fs::write(runs.join("orphan.sst"), "half a file").expect("written");
            drop(run);
            drop(store);
            store = open(folder.path(), 1);
            assert_eq!(runs.read_dir().expect("a folder").count(), 0, "the start clears leftovers");
            check(&store, 10);
            check(&read_only(folder.path()), 10);
        }
        drop(store);
        let store = open(folder.path(), 0);
        store.commit(&batch(11..=12)).expect("written");
        check(&store, 12);
        store.db.compact_range_cf::<&[u8], &[u8]>(family(&store.db, cf::POSTINGS).expect("a family"), None, None);
        check(&store, 12);
    }

    /// The niceness of each thread of this process that compacts.
    #[cfg(target_os = "linux")]
    fn niceness_of_compactors() -> Vec<i32> {
        let threads = std::fs::read_dir("/proc/self/task").expect("a list of threads").flatten();
        let niceness = |thread: std::fs::DirEntry| {
            let stat = std::fs::read_to_string(thread.path().join("stat")).ok()?;
            let (name, fields) = stat.rsplit_once(") ")?;
            // The 19th of all fields; the second is the name.
            name.ends_with("(rocksdb:low").then(|| fields.split(' ').nth(16)?.parse().ok())?
        };
        threads.filter_map(niceness).collect()
    }

    /// Pages were up to half a second late while RocksDB compacted.
    #[cfg(target_os = "linux")]
    #[test]
    fn compactions_give_way() {
        use std::time::{Duration, Instant};

        let folder = tempfile::tempdir().expect("a folder");
        let store = open(folder.path(), 0);
        let until = Instant::now() + Duration::from_secs(60);
        while niceness_of_compactors().iter().all(|niceness| *niceness < 19) {
            assert!(Instant::now() < until, "none gives way: {:?}", niceness_of_compactors());
            let next = store.n_documents() + 1;
            store.commit(&batch(next..=next)).expect("written");
            store.db.compact_range::<&[u8], &[u8]>(None, None);
        }
        check(&store, store.n_documents());
    }

    #[test]
    fn a_malformed_list_is_an_error_and_no_crash() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = open(folder.path(), 1);
        let family = family(&store.db, cf::POSTINGS).expect("a family");
        for list in [&[0xff][..], &[1]] {
            store.db.merge_cf(family, [0, 0, 0, 0, 1], list).expect("written");
        }
        assert!(matches!(store.postings(&[1]), Err(StoreError::Damaged(_))));
    }
}
