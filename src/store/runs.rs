//! Sorted runs: writes a frozen part of the posting buffer as sorted files, one for each family, which RocksDB ingests
//! whole.
//!
//! ```text
//! frozen part ─▶ runs/*.sst ─▶ ingested, family by family ─▶ indexed-up-to raised, runs of postings named in meta,
//!                                                           pending deleted up to there
//! ```
//! A kill at any step loses nothing. Until the last step `pending` still holds all of it. The rows of a run of postings that is not
//! named do not count, and ingesting a run of another family twice changes nothing.

use super::background;
use super::column_options;
use super::db::{family, ingest, sync_log};
use super::disk_full::retry_while_full;
use super::fragment::BufferedFragment;
use super::key_filter::{Adder, Keys};
use super::posting_buffer::Part;
use super::posting_runs::{Merger, NewRun, PostingRuns};
use super::read_ahead::read_ahead;
use super::rocks_error::failed;
use super::schema::{self, PostingKind, cf, meta};
use crate::document::{DocumentId, Fingerprint};
use crate::ports::StoreError;
use rocksdb::{DB, SstFileWriter, WriteBatch, WriteOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// The folder of runs to ingest, inside the store's.
const FOLDER: &str = "runs";

/// Writes one run at a time, in a separate thread. Another one merges runs of postings.
pub(super) struct Runs {
    db: Arc<DB>,
    keys: Arc<Keys>,
    postings: Arc<PostingRuns>,
    merger: Merger,
    folder: PathBuf,
    bits: u32,
    under_way: Option<JoinHandle<Result<(), StoreError>>>,
    /// Set when the store is closed, to end a wait for disk space.
    closing: Arc<AtomicBool>,
}

impl Runs {
    /// Clears the folder of runs, where a killed process may have left files.
    pub fn new(
        db: Arc<DB>,
        keys: Arc<Keys>,
        postings: Arc<PostingRuns>,
        store: &Path,
        bits: u32,
    ) -> Result<Self, StoreError> {
        let folder = store.join(FOLDER);
        let cleared = if folder.exists() { std::fs::remove_dir_all(&folder) } else { Ok(()) };
        kill_point!("runs-cleared");
        cleared
            .and_then(|()| std::fs::create_dir(&folder))
            .map_err(|error| StoreError::Failed(format!("cannot recreate {}: {error}", folder.display())))?;
        postings.delete_others()?;
        postings.read_filters()?;
        let merger = Merger::start(Arc::clone(&postings), &folder)?;
        Ok(Runs { db, keys, postings, merger, folder, bits, under_way: None, closing: Arc::default() })
    }

    /// Starts writing a run of a part. No run may be under way. Waits while there are too many runs of postings. Setting `stop`
    /// ends this and a wait for disk space.
    ///
    /// # Errors
    /// [`StoreError`] if no thread can be started, or why runs can no longer be merged.
    pub fn begin(&mut self, part: Arc<Part>, stop: Arc<AtomicBool>) -> Result<(), StoreError> {
        self.merger.wait_for_room(&stop)?;
        let (db, keys, folder) = (Arc::clone(&self.db), Arc::clone(&self.keys), self.folder.clone());
        let run = Run { db, keys, postings: Arc::clone(&self.postings), folder, bits: self.bits, part };
        let closing = Arc::clone(&self.closing);
        let should_stop = move || closing.load(Ordering::Relaxed) || stop.load(Ordering::Relaxed);
        let write = move || {
            background::give_way(background::RUN_NICENESS);
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
    postings: Arc<PostingRuns>,
    folder: PathBuf,
    bits: u32,
    part: Arc<Part>,
}

impl Run {
    fn write_and_ingest(&self) -> Result<(), StoreError> {
        // An ingested file is durable at once. The documents in its postings must be durable before.
        sync_log(&self.db)?;
        let mut new = self.write_and_ingest_lists(PostingKind::Index)?;
        new.extend(self.write_and_ingest_lists(PostingKind::Super)?);
        self.write_and_ingest_mod_postings()?;
        self.write_and_ingest_equal()?;
        self.write_and_ingest_fragments()?;
        self.complete(new)
    }

    fn write_and_ingest_lists(&self, kind: PostingKind) -> Result<Vec<NewRun>, StoreError> {
        let chains = self.part.chains(kind);
        if chains.is_empty() {
            return Ok(Vec::new());
        }
        kill_point!("lists-begun");
        let options = column_options::run_options(kind.family());
        let mut run = self.postings.new_run(kind, chains.n_shingles(), &self.folder, &options)?;
        chains.each(|shingle, documents| run.put(shingle, documents))?;
        let run = run.finish()?;
        kill_point!("lists-written");
        let new = self.postings.ingest(kind, run)?;
        kill_point!("lists-ingested");
        Ok(vec![new])
    }

    fn write_and_ingest_mod_postings(&self) -> Result<(), StoreError> {
        let chains = self.part.chains(PostingKind::Mod);
        if chains.is_empty() {
            return Ok(());
        }
        self.write_and_ingest_file(cf::MOD_POSTINGS, |file| {
            chains.each(|shingle, documents| {
                let key = |document: &DocumentId| schema::mod_posting_key(shingle, *document, self.bits);
                documents.iter().try_for_each(|document| file.put(&key(document), &[]))
            })
        })
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
        ingest(&self.db, family, vec![path])?;
        kill_point!("run-ingested");
        Ok(())
    }

    /// Records that runs hold all that the part's documents add to the derived families. Not synced: if the record is lost, the
    /// next start writes the runs again.
    fn complete(&self, new: Vec<NewRun>) -> Result<(), StoreError> {
        let Some(last) = self.part.last else { return Ok(()) };
        // Behind all rows that begin with the document's number.
        let beyond = [&last.0.to_be_bytes()[..], &[0xff]].concat();
        let mut rows = WriteBatch::default();
        rows.put_cf(family(&self.db, cf::META)?, meta::INDEXED_UP_TO, last.0.to_be_bytes());
        rows.delete_range_cf(family(&self.db, cf::PENDING)?, &[][..], &beyond);
        kill_point!("run-complete");
        self.postings.add(new, rows, &WriteOptions::default())?;
        kill_point!("run-noted");
        Ok(())
    }
}

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
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::cluster::{IndexQuery, NewDocument, PostingList, View};
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

    /// Document n has shingle n modulo 3, super shingle n modulo 2 and mod shingle 25.
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

    /// After a kill between two steps, the next start writes all of it again.
    #[test]
    fn a_run_that_is_ingested_and_not_noted_changes_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut store = open(folder.path(), 1);
        store.commit(&batch(1..=10)).expect("written");
        let runs = folder.path().join(FOLDER);
        for step in 0..4 {
            let part = store.posting_buffer_mut().expect("a buffer").freeze();
            let keys = Arc::clone(store.key_filter.as_ref().expect("a filter").keys());
            let (db, postings) = (Arc::clone(&store.db), Arc::clone(&store.posting_runs));
            let run = Run { db, keys, postings, folder: runs.clone(), bits: 40, part };
            match step {
                0 => drop(run.write_and_ingest_lists(PostingKind::Index).expect("taken in")),
                1 => drop(run.write_and_ingest_lists(PostingKind::Super).expect("taken in")),
                2 => run.write_and_ingest_mod_postings().expect("taken in"),
                _ => run.write_and_ingest_equal().expect("taken in"),
            }
            check(&store, 10);
            std::fs::write(runs.join("orphan.sst"), "half a file").expect("written");
            drop(run);
            drop(store);
            store = open(folder.path(), 1);
            assert_eq!(runs.read_dir().expect("a folder").count(), 0, "the start clears leftovers");
            check(&store, 10);
            check(&read_only(folder.path()), 10);
        }
        for family in [cf::POSTINGS, cf::SUPERS] {
            assert_eq!(n_rows(&store, family), 0, "the start deletes rows of runs that are not noted");
        }
        drop(store);
        let store = open(folder.path(), 0);
        store.commit(&batch(11..=12)).expect("written");
        check(&store, 12);
    }

    /// A corpus that is held against a store looks up every page there.
    #[test]
    fn a_read_only_store_reads_filters_after_many_look_ups() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = open(folder.path(), 0);
        store.commit(&batch(1..=10)).expect("written");
        let store = read_only(folder.path());
        let absent: Vec<Shingle> = (100..1100).collect();
        for _ in 0..25 {
            assert!(store.postings(&absent).expect("read").iter().all(Vec::is_empty));
            check(&store, 10);
        }
        assert!(store.posting_runs.has_filters());
    }

    fn n_rows(store: &RocksStore, name: &'static str) -> usize {
        let family = family(&store.db, name).expect("a family");
        store.db.iterator_cf(family, rocksdb::IteratorMode::Start).count()
    }

    /// Each commit makes a run of each kind, as there is no posting buffer. Without merging, a look-up would ask all of them.
    #[test]
    fn runs_are_merged_and_their_rows_deleted() {
        use std::time::{Duration, Instant};

        let folder = tempfile::tempdir().expect("a folder");
        let store = open(folder.path(), 0);
        let n = 70;
        for document in 1..=n {
            store.commit(&batch(document..=document)).expect("written");
            check(&store, document);
        }
        let until = Instant::now() + Duration::from_secs(60);
        // The last of them may still be in memory: 69 or 70 runs are 64, and five or six more. Each has a block, and two rows for its
        // filter.
        while store.posting_runs.n_runs() > 7 || n_rows(&store, cf::POSTINGS) > 7 * 3 {
            assert!(Instant::now() < until, "{} runs are left", store.posting_runs.n_runs());
            // The rows of merged runs are deleted at the next occasion.
            store.posting_runs.wake();
            std::thread::sleep(Duration::from_millis(10));
        }
        check(&store, n);
        check(&read_only(folder.path()), n);
        drop(store);
        check(&open(folder.path(), 0), n);
    }

    /// Shingle n has n documents in each batch.
    const SHINGLES: std::ops::RangeInclusive<u32> = 1..=12;

    /// A store without a posting buffer or with a small one, whose short lists have ten documents at most if the limit is 1,280.
    fn open_with(folder: &Path, common_limit: usize, posting_buffer_mib: usize) -> RocksStore {
        let mut rule = StoreRule {
            canonical_version: CANONICAL_VERSION,
            canonical: Default::default(),
            sketch: SketchRule::default(),
            cluster: Default::default(),
        };
        rule.cluster.common_limit = common_limit;
        let settings = Settings { posting_buffer_mib, ..SETTINGS };
        RocksStore::open(folder, &settings, &rule, None, || Seed([1, 2, 3, 4])).expect("opens")
    }

    fn commit_lists(store: &RocksStore) {
        let n_before = store.n_documents();
        let mut batch = batch(n_before + 1..=n_before + SHINGLES.end());
        for (new, _) in &mut batch.documents {
            new.index = SHINGLES.filter(|n| new.document.0 - n_before <= *n).map(Shingle::from).collect();
        }
        store.commit(&batch).expect("written");
    }

    /// The shingles whose lists are left unread for pages with one of them each, and that need so many.
    fn unread(store: &RocksStore, needed: usize) -> Vec<u32> {
        let page = |shingle| IndexQuery { index: vec![shingle], needed, ..IndexQuery::default() };
        let shingles: Vec<Shingle> = SHINGLES.map(Shingle::from).collect();
        let pages: Vec<IndexQuery> = shingles.iter().copied().map(page).collect();
        let lists = store.postings_for(&shingles, &pages).expect("read");
        for (list, all) in lists.iter().zip(store.postings(&shingles).expect("read")) {
            assert!(matches!(list, PostingList::Unread(_)) || *list == PostingList::Read(all));
        }
        let is_unread = |(_, list): &(u32, PostingList)| matches!(list, PostingList::Unread(_));
        SHINGLES.zip(lists).filter(is_unread).map(|(n, _)| n).collect()
    }

    /// Lost if this fails: that a shingle is common, because more documents have it than anybody has read.
    #[test]
    fn only_short_lists_are_left_unread() {
        use std::time::{Duration, Instant};

        const NONE: [u32; 0] = [];
        let folder = tempfile::tempdir().expect("a folder");
        let open = || open_with(folder.path(), 1_280, 0);
        let store = open();
        commit_lists(&store);
        drop(store);
        let mut store = open();
        assert_eq!(unread(&store, 2), (1..=10).collect::<Vec<_>>());
        assert_eq!(unread(&store, 1), NONE, "a page needs them");
        commit_lists(&store);
        drop(store);
        store = open();
        assert_eq!(unread(&store, 2), (1..=10).collect::<Vec<_>>(), "so they are in each of two runs");
        (0..6).for_each(|_| commit_lists(&store));
        drop(store);
        store = open();
        let until = Instant::now() + Duration::from_secs(60);
        while store.posting_runs.n_runs() > 1 {
            assert!(Instant::now() < until, "{} runs are left", store.posting_runs.n_runs());
            std::thread::sleep(Duration::from_millis(10));
        }
        // The merged run, which took over the filter of a group, and then the same, as a start reads it.
        for _ in 0..2 {
            assert_eq!(unread(&store, 2), [1], "the list of the second has 16 documents");
            drop(store);
            store = open();
        }
        drop(store);
        store = open_with(folder.path(), 1_280, 1);
        commit_lists(&store);
        assert_eq!(unread(&store, 2), NONE, "newer documents are in memory");
    }

    /// Half a limit of 100, shared among 64 runs, is less than one document.
    #[test]
    fn under_a_small_limit_all_lists_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = open_with(folder.path(), 100, 0);
        commit_lists(&store);
        drop(store);
        assert!(unread(&open_with(folder.path(), 100, 0), 2).is_empty());
    }

    /// Lost if this fails: postings, because a filter does not know them.
    #[test]
    fn filters_of_runs_and_groups_have_all_lists() {
        use std::time::{Duration, Instant};

        let folder = tempfile::tempdir().expect("a folder");
        let mut store = open(folder.path(), 0);
        // Ends within small groups and large ones, and where one ends; with the most runs that are left then. There is nothing to merge
        // after the start.
        for (n, n_runs) in [(7, 7), (9, 2), (60, 11), (66, 3), (140, 7)] {
            for document in store.n_documents() + 1..=n {
                store.commit(&batch(document..=document)).expect("written");
            }
            let until = Instant::now() + Duration::from_secs(60);
            while store.posting_runs.n_runs() > n_runs {
                assert!(Instant::now() < until, "{} runs are left", store.posting_runs.n_runs());
                std::thread::sleep(Duration::from_millis(10));
            }
            check(&store, n);
            for kind in [PostingKind::Index, PostingKind::Super] {
                assert_eq!(store.posting_runs.check_filters(kind), []);
                assert_eq!(store.posting_runs.check_groups(kind).expect("read"), 0, "{n} documents");
            }
            drop(store);
            store = open(folder.path(), 0);
            while !store.posting_runs.has_groups() {
                assert!(Instant::now() < until, "small runs are in no group after a start with {n} documents");
                std::thread::sleep(Duration::from_millis(10));
            }
            check(&store, n);
        }
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

    /// Lost if this fails: the service, which would wait forever for room once there are many runs.
    #[test]
    fn a_failed_merge_is_reported_and_so_is_that_none_follows() {
        use std::time::{Duration, Instant};

        let folder = tempfile::tempdir().expect("a folder");
        let store = open(folder.path(), 0);
        store.commit(&batch(1..=1)).expect("written");
        store.commit(&batch(2..=2)).expect("written");
        let family = family(&store.db, cf::POSTINGS).expect("a family");
        let key = store.db.iterator_cf(family, rocksdb::IteratorMode::Start).next().expect("a row").expect("read").0;
        store.db.put_cf(family, &key, [0xff]).expect("written");
        // One more than are merged: the last run may still be in memory.
        let all_written = (3..=9).try_for_each(|document| store.commit(&batch(document..=document)));
        assert!(matches!(all_written, Ok(()) | Err(StoreError::Damaged(_))), "{all_written:?}");
        let runs = store.runs.lock().expect("no panic");
        let merger = &runs.as_ref().expect("open for writing").merger;
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            match merger.wait_for_room(&AtomicBool::new(false)) {
                Err(StoreError::Failed(why)) if why.contains("has ended") => break,
                Ok(()) | Err(StoreError::Damaged(_)) => {
                    assert!(Instant::now() < until, "the failed merge was never reported")
                }
                Err(error) => unreachable!("{error}"),
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_malformed_block_is_an_error_and_no_crash() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = open(folder.path(), 0);
        store.commit(&batch(1..=3)).expect("written");
        drop(store);
        let store = open(folder.path(), 1);
        let family = family(&store.db, cf::POSTINGS).expect("a family");
        let key = store.db.iterator_cf(family, rocksdb::IteratorMode::Start).next().expect("a row").expect("read").0;
        // An endless number, a list longer than the block, a list without an end, a shingle behind that of the key.
        for block in [&[0xff][..], &[1, 9, 1], &[1, 1, 0xff], &[100, 1, 1]] {
            store.db.put_cf(family, &key, block).expect("written");
            assert!(matches!(store.postings(&[1]), Err(StoreError::Damaged(_))), "{block:?}");
        }
    }
}
