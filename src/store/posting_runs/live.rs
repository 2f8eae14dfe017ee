//! Which runs there are, and their rows and filters.

use super::block::{is_long, lists_of};
use super::cursor::block_at;
use super::filter::{Hashes, Key, RunFilter};
use super::group::{OpenGroup, SharedFilter};
use super::key::{LOADED_RUN, RunName, keys_of_run};
use super::lists::{Lists, Source};
use super::tiers::RUNS_MAX;
use super::writer::WrittenRun;
use crate::ports::{StoreError, StoreRule};
use crate::store::db::{family, get_meta, ingest, synced};
use crate::store::rocks_error::{damaged, failed};
use crate::store::schema::{self, Fields, PostingKind, meta};
use rocksdb::{DB, ReadOptions, WriteBatch, WriteOptions};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

/// The kinds whose lists are in runs.
pub(super) const KINDS: [PostingKind; 2] = [PostingKind::Index, PostingKind::Super];

/// Look-ups in a run of a read-only store after which its filter is read. A command that asks for a few pages is done before that.
const UNFILTERED_MAX: u64 = 20_000;

/// Bytes that a scan reads of a run at once. A merge may read more than twenty runs: all levels, where each of them fills up.
const READ_AHEAD_BYTES: usize = 512 << 10;

/// A run of one kind.
pub(super) struct PostingRun {
    pub name: RunName,
    /// In a read-only store none, until it was looked up often.
    filter: OnceLock<SharedFilter>,
    /// The filter of its group, if it has one.
    pub group: OnceLock<SharedFilter>,
    /// Look-ups without the filter.
    n_unfiltered: AtomicU64,
}

impl PostingRun {
    pub(super) fn new(name: RunName, filter: Option<SharedFilter>, group: Option<SharedFilter>) -> Self {
        let lock = |filter: Option<_>| filter.map_or_else(OnceLock::new, OnceLock::from);
        PostingRun { name, filter: lock(filter), group: lock(group), n_unfiltered: AtomicU64::new(0) }
    }

    /// About how many lists it has; none where it has no filter.
    pub fn n_lists(&self) -> u64 {
        self.filter.get().map_or(0, |filter| filter.read().n_lists())
    }

    /// Whether it is in the group with this filter.
    pub fn is_in(&self, group: &SharedFilter) -> bool {
        self.group.get().is_some_and(|other| other.is(group))
    }
}

/// A run that is written and does not count yet.
pub(in crate::store) struct NewRun {
    pub(super) kind: PostingKind,
    pub(super) run: PostingRun,
}

/// The runs of one kind, from those of the first documents to those of the last.
pub(super) type Runs = Arc<[Arc<PostingRun>]>;

/// Encodes the runs of index shingles and super shingles.
fn posting_runs_row(runs: [&[RunName]; 2]) -> Vec<u8> {
    let mut row = Vec::new();
    for runs in runs {
        row.extend((runs.len() as u32).to_be_bytes());
        for RunName { number, level } in runs {
            row.extend(number.to_be_bytes());
            row.push(*level);
        }
    }
    row
}

fn read_posting_runs(row: &[u8]) -> Option<[Vec<RunName>; 2]> {
    let mut fields = Fields(row);
    let mut read = || -> Option<Vec<RunName>> {
        let n = fields.u32()?;
        (0..n).map(|_| Some(RunName { number: fields.u32()?, level: fields.bytes::<1>()?[0] })).collect()
    };
    let runs = [read()?, read()?];
    fields.0.is_empty().then_some(runs)
}

/// The runs of a store.
pub(in crate::store) struct PostingRuns {
    pub(super) db: Arc<DB>,
    bits: u32,
    /// The most documents of lists that may be left unread.
    pub(super) unread_max: u64,
    /// The most documents that a short list has in a run: so few that even if all runs have short lists of a shingle, these may be
    /// left unread.
    pub(super) short_max: u64,
    live: [RwLock<Runs>; 2],
    /// The number of the next run. Held while the row of runs changes.
    next_number: Mutex<u32>,
    /// The groups that new runs join.
    pub(super) groups: [Mutex<Option<OpenGroup>>; 2],
    /// Wakes the thread that merges; none in a read-only store.
    wake: OnceLock<Sender<()>>,
    /// Held while runs are merged or rewritten.
    pub(super) merging: Mutex<()>,
}

impl PostingRuns {
    /// The runs that `meta` names, of a store with this rule.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn read(db: &Arc<DB>, rule: &StoreRule) -> Result<Self, StoreError> {
        let names = match get_meta(db, meta::POSTING_RUNS)? {
            None => Default::default(),
            Some(row) => read_posting_runs(&row).ok_or_else(|| damaged("meta/posting-runs"))?,
        };
        let next = names.iter().flatten().map(|name| name.number + 1).max().unwrap_or(LOADED_RUN + 1);
        let run = |name| Arc::new(PostingRun::new(name, None, None));
        let unread_max = rule.cluster.unread_max() as u64;
        Ok(PostingRuns {
            db: Arc::clone(db),
            bits: rule.sketch.bits,
            unread_max,
            // Where even one would be too many, no list is long, and none is left unread.
            short_max: Some(unread_max / RUNS_MAX as u64).filter(|short_max| *short_max > 0).unwrap_or(u64::MAX),
            live: names.map(|names| RwLock::new(names.into_iter().map(run).collect())),
            next_number: Mutex::new(next),
            groups: Default::default(),
            wake: OnceLock::new(),
            merging: Mutex::default(),
        })
    }

    /// Lets `wake` wake the thread that merges.
    pub(super) fn wakes(&self, wake: Sender<()>) {
        // A store has one such thread.
        let _ = self.wake.set(wake);
    }

    /// The number of bytes of a shingle of this kind.
    pub(super) fn width(&self, kind: PostingKind) -> usize {
        kind.width(self.bits)
    }

    /// Reads the filters of all runs.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn read_filters(&self) -> Result<(), StoreError> {
        for kind in KINDS {
            let with_filter = |run: &Arc<PostingRun>| {
                let filter = SharedFilter::new(self.read_filter(kind, run.name.number)?);
                Ok(Arc::new(PostingRun::new(run.name, Some(filter), None)))
            };
            let runs = self.of(kind).iter().map(with_filter).collect::<Result<_, StoreError>>()?;
            *self.live[kind as usize].write().unwrap_or_else(PoisonError::into_inner) = runs;
        }
        Ok(())
    }

    /// Whether the filters of all runs of index shingles are in memory.
    #[cfg(test)]
    pub fn has_filters(&self) -> bool {
        self.of(PostingKind::Index).iter().all(|run| run.filter.get().is_some())
    }

    /// How many lists of runs the filters of their groups lack.
    #[cfg(test)]
    pub fn check_groups(&self, kind: PostingKind) -> Result<usize, StoreError> {
        let mut n = 0;
        for run in &*self.of(kind) {
            if let Some(group) = run.group.get() {
                n += self.n_missing(kind, run.name.number, &group.read())?;
            }
        }
        Ok(n)
    }

    fn read_filter(&self, kind: PostingKind, run: u32) -> Result<RunFilter, StoreError> {
        let mut rows = self.rows(kind, true)?;
        let filter = RunFilter::read(&mut rows, run, self.width(kind))?;
        rows.status().map_err(failed)?;
        filter.ok_or_else(|| damaged(format!("the filter of run {run} of {}", kind.family())))
    }

    /// Checks the filter of each run. Returns what is wrong with those that lack lists or cannot be read.
    pub fn check_filters(&self, kind: PostingKind) -> Vec<(RunName, String)> {
        let n_missing = |run| self.n_missing(kind, run, &self.read_filter(kind, run)?);
        let check = |name: RunName| match n_missing(name.number) {
            Ok(0) => None,
            Ok(n) => Some((name, format!("its filter lacks {n} lists"))),
            Err(error) => Some((name, format!("its filter cannot be checked: {error}"))),
        };
        self.of(kind).iter().filter_map(|run| check(run.name)).collect()
    }

    /// How many lists of a run a filter lacks; a long one counts once more if it does not have it as a long one.
    fn n_missing(&self, kind: PostingKind, run: u32, filter: &RunFilter) -> Result<usize, StoreError> {
        let mut n = 0;
        self.each_block(kind, run, &mut |hashes| {
            let long = if filter.short_max() == self.short_max { &hashes.long[..] } else { &[] };
            let keys: Vec<Key> = hashes.all.iter().chain(long).copied().map(Key::new).collect();
            n += keys.len() - filter.possible(&keys).len();
        })?;
        Ok(n)
    }

    /// Calls `each` with the hashes of the lists of each block of a run.
    pub(super) fn each_block(
        &self,
        kind: PostingKind,
        run: u32,
        each: &mut dyn FnMut(&Hashes),
    ) -> Result<(), StoreError> {
        let (from, to) = keys_of_run(run);
        self.each_block_between(kind, run, (&from, &to), each)
    }

    /// Calls `each` with the hashes of every block of a run between two keys, the second of which is not included.
    ///
    /// # Errors
    /// [`StoreError`]
    pub(super) fn each_block_between(
        &self,
        kind: PostingKind,
        run: u32,
        (from, to): (&[u8], &[u8]),
        each: &mut dyn FnMut(&Hashes),
    ) -> Result<(), StoreError> {
        let width = self.width(kind);
        let mut hashes = Hashes::default();
        let mut rows = self.rows(kind, true)?;
        rows.seek(from);
        while rows.key().is_some_and(|key| key < to)
            && let Some((_, block)) = block_at(&rows, run, kind, width)?
        {
            hashes.clear();
            for list in lists_of(block) {
                let (shingle, documents) = list.ok_or_else(|| damaged(format!("a block of {}", kind.family())))?;
                hashes.push(shingle, is_long(documents, self.short_max));
            }
            each(&hashes);
            rows.next();
        }
        rows.status().map_err(failed)
    }

    /// Lets RocksDB ingest the files of a run. It does not count before it is added or has replaced others.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn ingest(&self, kind: PostingKind, run: WrittenRun) -> Result<NewRun, StoreError> {
        ingest(&self.db, kind.family(), run.files)?;
        Ok(NewRun { kind, run: PostingRun::new(run.name, Some(run.filter), run.group) })
    }

    pub(super) fn rows(
        &self,
        kind: PostingKind,
        is_scan: bool,
    ) -> Result<rocksdb::DBRawIteratorWithThreadMode<'_, DB>, StoreError> {
        let mut options = ReadOptions::default();
        if is_scan {
            options.fill_cache(false);
            options.set_readahead_size(READ_AHEAD_BYTES);
        }
        Ok(self.db.raw_iterator_cf_opt(family(&self.db, kind.family())?, options))
    }

    /// The runs of a kind.
    pub(super) fn of(&self, kind: PostingKind) -> Runs {
        Arc::clone(&self.live[kind as usize].read().unwrap_or_else(PoisonError::into_inner))
    }

    fn names_of(&self, kind: PostingKind) -> Vec<RunName> {
        self.of(kind).iter().map(|run| run.name).collect()
    }

    /// The most runs of a kind.
    pub fn n_runs(&self) -> usize {
        KINDS.into_iter().map(|kind| self.of(kind).len()).max().unwrap_or_default()
    }

    /// A number for a new run.
    pub(super) fn new_number(&self) -> u32 {
        let mut next = self.next_number();
        *next += 1;
        *next - 1
    }

    fn next_number(&self) -> MutexGuard<'_, u32> {
        self.next_number.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds runs of the newest documents, in one batch with `rows`.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn add(&self, new: Vec<NewRun>, rows: WriteBatch, options: &WriteOptions) -> Result<(), StoreError> {
        let new: Vec<_> = new.into_iter().map(|NewRun { kind, run }| (kind, Arc::new(run))).collect();
        let changed = |kind: PostingKind| {
            let added = new.iter().filter(|(other, _)| *other == kind).map(|(_, run)| Arc::clone(run));
            self.of(kind).iter().cloned().chain(added).collect()
        };
        self.change(changed, rows, options)?;
        self.wake();
        Ok(())
    }

    /// Wakes the thread that merges, if there is one.
    pub fn wake(&self) {
        if let Some(wake) = self.wake.get() {
            // It is gone where the store is being closed or the thread has failed.
            let _ = wake.send(());
        }
    }

    /// Puts a merged run in the place of those it was merged from. Durable on return.
    pub(super) fn replace(&self, merged: &[Arc<PostingRun>], NewRun { kind, run }: NewRun) -> Result<(), StoreError> {
        let run = Arc::new(run);
        let changed = |of: PostingKind| {
            let runs = self.of(of);
            if of != kind {
                return runs;
            }
            let is_merged = |run: &Arc<PostingRun>| merged.iter().any(|other| Arc::ptr_eq(run, other));
            let at = runs.iter().position(is_merged).unwrap_or(runs.len());
            let before = runs[..at].iter().cloned();
            let after = runs[at..].iter().filter(|run| !is_merged(run)).cloned();
            before.chain([Arc::clone(&run)]).chain(after).collect()
        };
        self.change(changed, WriteBatch::default(), &synced())
    }

    fn change(
        &self,
        changed: impl Fn(PostingKind) -> Runs,
        mut rows: WriteBatch,
        options: &WriteOptions,
    ) -> Result<(), StoreError> {
        let _changing = self.next_number();
        let runs = KINDS.map(changed);
        let names = runs.each_ref().map(|runs| runs.iter().map(|run| run.name).collect::<Vec<_>>());
        let row = posting_runs_row([&names[0], &names[1]]);
        rows.put_cf(family(&self.db, schema::cf::META)?, meta::POSTING_RUNS, row);
        self.db.write_opt(rows, options).map_err(failed)?;
        for (live, runs) in self.live.iter().zip(runs) {
            *live.write().unwrap_or_else(PoisonError::into_inner) = runs;
        }
        Ok(())
    }

    /// The filter of a run. In a read-only store it is none until so many keys were looked up that reading it is worth while.
    pub(super) fn filter_of<'r>(
        &self,
        kind: PostingKind,
        run: &'r PostingRun,
        n_keys: usize,
    ) -> Result<Option<&'r SharedFilter>, StoreError> {
        if let Some(filter) = run.filter.get() {
            return Ok(Some(filter));
        }
        if run.n_unfiltered.fetch_add(n_keys as u64, Ordering::Relaxed) < UNFILTERED_MAX {
            return Ok(None);
        }
        let filter = SharedFilter::new(self.read_filter(kind, run.name.number)?);
        Ok(Some(run.filter.get_or_init(|| filter)))
    }

    /// All lists of a kind, from the first.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn all(&self, kind: PostingKind) -> Result<Lists<'_>, StoreError> {
        self.all_of(kind, &self.of(kind))
    }

    /// All lists of some runs, from the first. Once this returns, their rows may be deleted.
    pub(super) fn all_of(&self, kind: PostingKind, runs: &[Arc<PostingRun>]) -> Result<Lists<'_>, StoreError> {
        let mut lists = self.joined(kind, runs, true)?;
        lists.seek(0)?;
        Ok(lists)
    }

    /// The lists of a kind, to seek in.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn lists(&self, kind: PostingKind) -> Result<Lists<'_>, StoreError> {
        self.joined(kind, &self.of(kind), false)
    }

    fn joined(&self, kind: PostingKind, runs: &[Arc<PostingRun>], is_scan: bool) -> Result<Lists<'_>, StoreError> {
        let width = self.width(kind);
        let sources = runs.iter().map(|run| Ok(Source::new(self.rows(kind, is_scan)?, kind, run.name.number, width)));
        Ok(Lists::new(sources.collect::<Result<_, StoreError>>()?))
    }

    /// Runs `act`, which rewrites rows of runs, while none is merged.
    pub fn without_merging<T>(&self, act: impl FnOnce() -> T) -> T {
        let _merging = self.merging.lock().unwrap_or_else(PoisonError::into_inner);
        act()
    }

    /// Deletes the rows of runs that are not in use: of a killed process, which had not noted them yet, or noted that they
    /// are merged.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn delete_others(&self) -> Result<(), StoreError> {
        for kind in KINDS {
            let live: Vec<u32> = self.names_of(kind).into_iter().map(|name| name.number).collect();
            let mut next = Some(0_u32);
            while let Some(from) = next {
                let mut rows = self.rows(kind, false)?;
                rows.seek(from.to_be_bytes());
                let found =
                    rows.key().map(|key| Fields(key).u32().ok_or_else(|| damaged(kind.family()))).transpose()?;
                rows.status().map_err(failed)?;
                drop(rows);
                let Some(number) = found else { break };
                if !live.contains(&number) {
                    self.delete_rows(kind, number)?;
                }
                let mut next_number = self.next_number();
                *next_number = (*next_number).max(number + 1);
                next = number.checked_add(1);
            }
        }
        Ok(())
    }

    /// Deletes the rows of a run.
    pub(super) fn delete_rows(&self, kind: PostingKind, number: u32) -> Result<(), StoreError> {
        let family = family(&self.db, kind.family())?;
        let (from, to) = keys_of_run(number);
        self.db.delete_file_in_range_cf(family, &from, &to).map_err(failed)?;
        // Rewritten rows may be in a file with those of other runs, or in no file yet.
        let mut rows = self.rows(kind, false)?;
        rows.seek(from);
        if rows.key().is_some_and(|key| key.starts_with(&from)) {
            self.db.delete_range_cf(family, &from, &to).map_err(failed)?;
        }
        rows.status().map_err(failed)
    }
}
