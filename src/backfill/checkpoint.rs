//! The checkpoint: a work folder and the manifest of all finished work in it, from which the next run resumes.
//!
//! A job counts as finished once a durable manifest names it, and its files are durable before that. A sync after
//! every job would take longer than the work of a small backfill. The checkpoint therefore saves what finished
//! together, at intervals ([`Checkpoint::with_interval`]). A file that is gone again by then never costs a sync.

use super::datasets::{DOCUMENTS, Dataset, DatasetFile, PAGES, ROW_OFFSETS, TEXTS};
use super::error::{BackfillError, io_error};
use super::ingest_state::IngestState;
use super::report::Report;
use super::usage::{Phase, Usage};
use crate::document::Seed;
use crate::extsort::{FinishedFile, Row, RunFile};
use crate::ports::StoreRule;
use highway::{HighwayHash, HighwayHasher};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

const MANIFEST: &str = "manifest.json";
const NEW_MANIFEST: &str = "manifest.new";
const LOCK: &str = "lock";

/// Threads that sync or remove files together.
const FILE_THREADS: usize = 8;

/// The format of the manifest and of all intermediate files. A folder of another format is refused.
const FORMAT: u32 = 8;

/// What a backfill is of. A folder that was begun with one specification never resumes with another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BackfillSpec {
    /// The rules of the store.
    pub rule: StoreRule,
    /// All settings that change how records are read, as text.
    pub reading: String,
    /// The inputs: the name and the size in bytes of each.
    pub inputs: Vec<(String, u64)>,
    /// Where the events go: a file by its absolute path, or `-`.
    #[serde(default)]
    pub events: Option<String>,
}

/// A kind of work that is done in phases, each in jobs, and resumed after a kill.
pub trait Work {
    /// What the work is of. A folder that was begun with one specification never resumes with another.
    type Spec: Clone + Serialize + DeserializeOwned;
    /// The phases.
    type Phase: Copy + Ord + Serialize + DeserializeOwned;
    /// Reports on finished work.
    type Report: Clone + Serialize + DeserializeOwned;

    /// What differs between the specification of a folder and another one. `is_read` tells that all inputs of the folder's
    /// work are read.
    fn difference(found: &Self::Spec, wanted: &Self::Spec, is_read: bool) -> Option<&'static str>;
}

/// The work that makes a store.
pub struct MakeStore;

impl Work for MakeStore {
    type Spec = BackfillSpec;
    type Phase = Phase;
    type Report = Report;

    fn difference(found: &BackfillSpec, wanted: &BackfillSpec, is_read: bool) -> Option<&'static str> {
        match () {
            () if found.rule != wanted.rule => Some("other rules"),
            () if found.reading != wanted.reading => Some("other limits, sweeps or store.keep_text"),
            () if !has_inputs(&found.inputs, &wanted.inputs, is_read) => Some("other inputs"),
            // Events that were not asked for at first may be: they are published in the end.
            () if found.events.is_some() && found.events != wanted.events => Some("another --events"),
            () => None,
        }
    }
}

/// Whether the inputs are the same. An input that is read to its end may grow: the stream reads what is new.
fn has_inputs(found: &[(String, u64)], wanted: &[(String, u64)], is_read: bool) -> bool {
    let names = |inputs: &[(String, u64)]| inputs.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    found == wanted || is_read && names(found) == names(wanted)
}

/// What a finished job left.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct FinishedJob {
    /// The job's files.
    pub files: Vec<DatasetFile>,
    /// How far a step came, where the job is one of several steps.
    pub reached: Option<(u32, u32)>,
}

#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
struct Manifest<W: Work> {
    version: u32,
    seed: String,
    spec: W::Spec,
    /// Rows in a part of a merge, about. Finished parts are known by their numbers, so that this must not change.
    part_rows: u64,
    ingested: IngestState,
    /// Finished jobs by name.
    jobs: BTreeMap<String, FinishedJob>,
    usage: BTreeMap<W::Phase, Usage>,
    /// The final report, once the work is complete.
    report: Option<W::Report>,
}

impl<W: Work> Manifest<W> {
    fn new(spec: W::Spec, part_rows: u64, seed: &Seed) -> Self {
        Manifest {
            version: FORMAT,
            seed: hex(seed),
            spec,
            part_rows,
            ingested: IngestState::default(),
            jobs: BTreeMap::new(),
            usage: BTreeMap::new(),
            report: None,
        }
    }

    /// What differs between the manifest's specification and another one.
    fn difference(&self, spec: &W::Spec, seed: Option<&Seed>) -> Option<&'static str> {
        let is_other_seed = seed.is_some_and(|seed| hex(seed) != self.seed);
        W::difference(&self.spec, spec, self.ingested.is_finished).or(is_other_seed.then_some("another seed"))
    }
}

/// The work folder of an unfinished backfill. One process at a time holds it.
pub struct Checkpoint<W: Work = MakeStore> {
    folder: PathBuf,
    manifest: Manifest<W>,
    /// Files that may not be durable yet.
    unsynced: Vec<String>,
    /// A sync failed: the manifest must not name the file, whatever a second sync says.
    sync_failed: bool,
    interval: Duration,
    saved_at: Instant,
    /// Who waits for the next save.
    waiting: Option<SyncSender<()>>,
    /// Jobs that other threads finished, and that are not recorded yet.
    finished_elsewhere: Option<Receiver<(String, FinishedJob)>>,
    /// Holds the lock on the folder.
    _lock: File,
}

impl<W: Work> Checkpoint<W> {
    /// Opens a work folder, or creates it. An existing folder keeps its seed and its `part_rows`.
    ///
    /// # Errors
    /// [`BackfillError::SpecMismatch`] where the folder was begun with another specification or seed,
    /// [`BackfillError::OtherFormat`] where another version of the program began it, and
    /// [`BackfillError::FolderInUse`] where another process holds it.
    pub fn open(
        folder: &Path,
        spec: W::Spec,
        part_rows: u64,
        seed: Option<Seed>,
        new_seed: impl FnOnce() -> Seed,
    ) -> Result<Self, BackfillError> {
        fs::create_dir_all(folder).map_err(io_error(folder))?;
        let lock_path = folder.join(LOCK);
        let lock = File::create(&lock_path).map_err(io_error(&lock_path))?;
        lock.try_lock().map_err(|_| BackfillError::FolderInUse(folder.to_path_buf()))?;
        let manifest = if folder.join(MANIFEST).exists() {
            let manifest: Manifest<W> = read_manifest(folder)?;
            if let Some(difference) = manifest.difference(&spec, seed.as_ref()) {
                return Err(BackfillError::SpecMismatch { folder: folder.to_path_buf(), difference });
            }
            manifest
        } else {
            Manifest::new(spec, part_rows, &seed.unwrap_or_else(new_seed))
        };
        let mut checkpoint = Checkpoint {
            folder: folder.to_path_buf(),
            manifest,
            unsynced: Vec::new(),
            sync_failed: false,
            interval: Duration::ZERO,
            saved_at: Instant::now(),
            waiting: None,
            finished_elsewhere: None,
            _lock: lock,
        };
        checkpoint.save()?;
        Ok(checkpoint)
    }

    /// Opens the folder of complete work to read it. Any number of processes may.
    ///
    /// # Errors
    /// [`BackfillError::Incomplete`] where the work is not complete, and [`BackfillError::FolderInUse`] where a process is at
    /// it.
    pub(super) fn open_complete(folder: &Path) -> Result<Self, BackfillError> {
        let incomplete = || BackfillError::Incomplete(folder.to_path_buf());
        let lock = File::open(folder.join(LOCK)).map_err(|_| incomplete())?;
        lock.try_lock_shared().map_err(|_| BackfillError::FolderInUse(folder.to_path_buf()))?;
        let manifest: Manifest<W> = read_manifest(folder)?;
        manifest.report.is_some().then_some(()).ok_or_else(incomplete)?;
        Ok(Checkpoint {
            folder: folder.to_path_buf(),
            manifest,
            unsynced: Vec::new(),
            sync_failed: false,
            interval: Duration::ZERO,
            saved_at: Instant::now(),
            waiting: None,
            finished_elsewhere: None,
            _lock: lock,
        })
    }

    /// Saves at most once per interval. A kill costs that much finished work, beside the unfinished. Without an
    /// interval every job is saved at once.
    #[must_use]
    pub fn with_interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// The work folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The seed of the store.
    ///
    /// # Errors
    /// [`BackfillError::Damaged`] where the manifest holds no seed.
    pub fn seed(&self) -> Result<Seed, BackfillError> {
        self.manifest.seed.parse().map_err(|_| BackfillError::Damaged(self.folder.join(MANIFEST)))
    }

    /// Rows in a part of a merge, about.
    pub fn part_rows(&self) -> u64 {
        self.manifest.part_rows
    }

    /// What the first phase has ingested.
    pub fn ingested(&self) -> &IngestState {
        &self.manifest.ingested
    }

    /// Records what the first phase has ingested, with the files of new segments.
    pub(super) fn record_ingested(&mut self, ingested: IngestState) -> Result<(), BackfillError> {
        for segment in ingested.segments.iter().skip(self.manifest.ingested.segments.len()) {
            self.unsynced.extend(segment.files().map(|file| file.name.clone()));
        }
        self.manifest.ingested = ingested;
        self.save_when_due()
    }

    /// Whether a job is finished.
    pub(super) fn is_finished(&self, job: &str) -> bool {
        self.manifest.jobs.contains_key(job)
    }

    /// What a job left, if it is finished.
    pub(super) fn job(&self, name: &str) -> Option<&FinishedJob> {
        self.manifest.jobs.get(name)
    }

    /// What the finished jobs left whose names begin with a text.
    pub(super) fn jobs_named(&self, begin: &str) -> impl Iterator<Item = &FinishedJob> {
        let jobs = self.manifest.jobs.iter().filter(move |(name, _)| name.starts_with(begin));
        jobs.map(|(_, job)| job)
    }

    /// Records a finished job.
    pub(super) fn record(&mut self, name: String, job: FinishedJob) -> Result<(), BackfillError> {
        self.add_job(name, job);
        self.save_when_due()
    }

    fn add_job(&mut self, name: String, job: FinishedJob) {
        self.unsynced.extend(job.files.iter().map(|file| file.file.name.clone()));
        self.manifest.jobs.insert(name, job);
    }

    /// Where another thread sends the jobs that it finishes. They are recorded by the next save, or by
    /// [`Self::record_elsewhere`].
    pub(super) fn recorder(&mut self) -> Sender<(String, FinishedJob)> {
        let (sender, finished) = channel();
        self.finished_elsewhere = Some(finished);
        sender
    }

    /// Records what other threads have finished so far.
    pub(super) fn record_elsewhere(&mut self) {
        let Some(finished) = self.finished_elsewhere.take() else { return };
        finished.try_iter().for_each(|(name, job)| self.add_job(name, job));
        self.finished_elsewhere = Some(finished);
    }

    /// The files that finished jobs left of a data set, in the order of the jobs' names.
    pub(super) fn files_of<'a>(&'a self, dataset: &'a str) -> impl Iterator<Item = &'a FinishedFile> {
        let files = self.manifest.jobs.values().flat_map(|job| &job.files);
        files.filter(move |file| file.dataset == dataset).map(|file| &file.file)
    }

    /// Opens the files that finished jobs left of a data set.
    pub(super) fn open_dataset<R: Row>(&self, dataset: Dataset<R>) -> Result<Vec<Arc<RunFile<R>>>, BackfillError> {
        self.files_of(dataset.name()).map(|file| dataset.open(&self.folder, file)).collect()
    }

    /// Bytes of the segments.
    pub(super) fn n_bytes_ingested(&self) -> u64 {
        self.segment_files().map(|file| file.n_bytes).sum()
    }

    /// Bytes of all files.
    pub(super) fn n_bytes_written(&self) -> u64 {
        let files = self.manifest.jobs.values().flat_map(|job| &job.files);
        self.n_bytes_ingested() + files.map(|file| file.file.n_bytes).sum::<u64>()
    }

    /// Bytes of all files by data set, the largest first.
    pub(super) fn n_bytes_by_dataset(&self) -> Vec<(String, u64)> {
        let mut by_dataset: BTreeMap<&str, u64> = BTreeMap::new();
        for segment in &self.manifest.ingested.segments {
            let names = [PAGES.name(), DOCUMENTS.name(), ROW_OFFSETS.name(), TEXTS.name()];
            for (name, file) in names.into_iter().zip(segment.files()) {
                *by_dataset.entry(name).or_default() += file.n_bytes;
            }
        }
        for file in self.manifest.jobs.values().flat_map(|job| &job.files) {
            *by_dataset.entry(file.dataset.as_str()).or_default() += file.file.n_bytes;
        }
        let mut by_dataset: Vec<(String, u64)> =
            by_dataset.into_iter().map(|(name, n)| (name.to_string(), n)).collect();
        by_dataset.sort_by_key(|(_, n_bytes)| Reverse(*n_bytes));
        by_dataset
    }

    fn segment_files(&self) -> impl Iterator<Item = &FinishedFile> {
        self.manifest.ingested.segments.iter().flat_map(|segment| segment.files())
    }

    /// What each phase took so far.
    pub(super) fn usage(&self) -> &BTreeMap<W::Phase, Usage> {
        &self.manifest.usage
    }

    /// Adds to what a phase took. The next save writes it; it is not worth one of its own.
    pub(super) fn add_usage(&mut self, phase: W::Phase, usage: Usage) {
        self.manifest.usage.entry(phase).or_default().add(usage);
    }

    /// The final report, or `None` while the work is incomplete.
    pub(super) fn report(&self) -> Option<&W::Report> {
        self.manifest.report.as_ref()
    }

    /// Records that the work is complete. Files that no saved job names are not needed from then on.
    pub(super) fn set_report(&mut self, report: W::Report) -> Result<(), BackfillError> {
        self.manifest.report = Some(report);
        self.unsynced.clear();
        self.save()
    }

    /// The specification of the work.
    pub(super) fn spec(&self) -> &W::Spec {
        &self.manifest.spec
    }

    /// Forgets the files of a data set that no later job reads, and removes them. The jobs stay finished.
    pub(super) fn release<R>(&mut self, dataset: Dataset<R>) -> Result<(), BackfillError> {
        let mut released = Vec::new();
        for job in self.manifest.jobs.values_mut() {
            let (gone, kept) =
                std::mem::take(&mut job.files).into_iter().partition(|file| file.dataset == dataset.name());
            job.files = kept;
            released.extend(gone);
        }
        self.unsynced.retain(|name| released.iter().all(|gone: &DatasetFile| gone.file.name != *name));
        self.save()?;
        for DatasetFile { file, .. } in released {
            let path = self.folder.join(&file.name);
            fs::remove_file(&path).map_err(io_error(&path))?;
        }
        Ok(())
    }

    /// Saves if the interval is over, or somebody waits.
    pub(super) fn save_when_due(&mut self) -> Result<(), BackfillError> {
        if self.waiting.is_none() && self.saved_at.elapsed() < self.interval { Ok(()) } else { self.save() }
    }

    /// Has the next finished job saved with all before it. What is returned receives a message then, and an error if
    /// [`Self::end_wait`] comes first.
    pub(super) fn save_soon(&mut self) -> Receiver<()> {
        let (waiting, saved) = sync_channel(1);
        self.waiting = Some(waiting);
        saved
    }

    /// Ends the wait for the next save, whether it came or not.
    pub(super) fn end_wait(&mut self) {
        self.waiting = None;
    }

    /// Makes all files durable.
    fn sync_files(&mut self) -> Result<(), BackfillError> {
        let sync = |path: &Path| File::open(path).and_then(|file| file.sync_all()).map_err(io_error(path));
        if self.unsynced.is_empty() {
            return Ok(());
        }
        // After a failed sync the system may report success for a file whose bytes are gone.
        self.sync_failed = true;
        let sync_named = |name: &String| sync(&self.folder.join(name));
        // The file system writes what waits for it at the same time together.
        each_on_threads(&self.unsynced, sync_named)?;
        sync(&self.folder)?;
        self.sync_failed = false;
        self.unsynced.clear();
        Ok(())
    }

    /// Makes all files durable, then the manifest that names them.
    pub(super) fn save(&mut self) -> Result<(), BackfillError> {
        self.record_elsewhere();
        let path = self.folder.join(MANIFEST);
        if self.sync_failed {
            return Err(io_error(&path)(io::Error::other(
                "not saved, because the sync of a file that it names failed",
            )));
        }
        self.sync_files()?;
        write_manifest(&self.folder, &self.manifest).map_err(io_error(&path))?;
        // The interval begins when the save ends, so that a slow disk gets as much time for other work.
        self.saved_at = Instant::now();
        if let Some(waiting) = self.waiting.take() {
            // Who no longer waits has failed.
            let _ = waiting.send(());
        }
        Ok(())
    }

    /// Removes the folder once the store is in its place. The manifest goes last, because it says that the store is
    /// complete.
    pub(super) fn remove(self) -> Result<(), BackfillError> {
        let entries = fs::read_dir(&self.folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let paths = entries.map_err(io_error(&self.folder))?.into_iter().map(|entry| entry.path());
        let paths: Vec<PathBuf> = paths.filter(|path| !path.ends_with(MANIFEST)).collect();
        each_on_threads(&paths, |path| {
            let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
            removed.map_err(io_error(path))
        })?;
        fs::remove_dir_all(&self.folder).map_err(io_error(&self.folder))
    }
}

impl Checkpoint {
    /// Whether a folder holds an unfinished backfill.
    pub fn exists(folder: &Path) -> bool {
        folder.join(MANIFEST).exists()
    }

    /// The rules of the store.
    pub fn rule(&self) -> &StoreRule {
        &self.manifest.spec.rule
    }
}

/// Calls `each` with every item, on several threads, because it waits for the file system.
fn each_on_threads<I: Sync>(
    items: &[I],
    each: impl Fn(&I) -> Result<(), BackfillError> + Sync,
) -> Result<(), BackfillError> {
    let each = &each;
    std::thread::scope(|scope| {
        let shares = items.chunks(items.len().div_ceil(FILE_THREADS).max(1));
        let threads: Vec<_> = shares.map(|share| scope.spawn(move || share.iter().try_for_each(each))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| BackfillError::WorkerPanicked)?)
    })
}

fn checksum_line(json: &[u8]) -> String {
    format!("{:016x}", HighwayHasher::default().hash64(json))
}

/// Replaces the manifest in one step.
fn write_manifest(folder: &Path, manifest: &impl Serialize) -> io::Result<()> {
    let json = serde_json::to_vec(manifest)?;
    let new = folder.join(NEW_MANIFEST);
    let mut file = File::create(&new)?;
    writeln!(file, "{}", checksum_line(&json))?;
    file.write_all(&json)?;
    file.sync_all()?;
    fs::rename(&new, folder.join(MANIFEST))?;
    File::open(folder)?.sync_all()
}

fn read_manifest<M: DeserializeOwned>(folder: &Path) -> Result<M, BackfillError> {
    /// The one field that every format has.
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let path = folder.join(MANIFEST);
    let bytes = fs::read(&path).map_err(io_error(&path))?;
    let damaged = || BackfillError::Damaged(path.clone());
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(damaged)?;
    let (checksum, json) = (&bytes[..end], &bytes[end + 1..]);
    if checksum_line(json).as_bytes() != checksum {
        return Err(damaged());
    }
    let Version { version } = serde_json::from_slice(json).map_err(|_| damaged())?;
    if version != FORMAT {
        return Err(BackfillError::OtherFormat { folder: folder.to_path_buf(), found: version, expected: FORMAT });
    }
    serde_json::from_slice(json).map_err(|_| damaged())
}

fn hex(seed: &Seed) -> String {
    seed.0.map(|word| format!("{word:016x}")).concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backfill::tests::{open_checkpoint, rule};
    use crate::cluster::MatchRule;

    fn open(folder: &Path) -> Result<Checkpoint, BackfillError> {
        let rule = rule(0, MatchRule::default());
        let spec = BackfillSpec { rule, reading: String::new(), inputs: Vec::new(), events: None };
        Checkpoint::open(folder, spec, 8, None, || Seed([9; 4]))
    }

    #[test]
    fn another_specification_seed_or_process_is_refused() {
        let outer = tempfile::tempdir().expect("a folder");
        let (first, _) = open_checkpoint(outer.path(), &rule(0, MatchRule::default()), 1 << 20);
        let folder = first.folder().to_path_buf();
        assert!(matches!(open(&folder), Err(BackfillError::FolderInUse(_))));
        drop(first);
        assert_eq!(open(&folder).expect("opens").seed().expect("a seed").0, [1, 2, 3, 4], "the folder keeps its seed");
        let spec = |index_size, reading: &str, input: &str| BackfillSpec {
            rule: rule(index_size, MatchRule::default()),
            reading: reading.into(),
            inputs: if input.is_empty() { Vec::new() } else { vec![(input.into(), 1)] },
            events: None,
        };
        for (spec, seed, expected) in [
            (spec(7, "", ""), None, "other rules"),
            (spec(0, "other", ""), None, "other limits, sweeps or store.keep_text"),
            (spec(0, "", "other"), None, "other inputs"),
            (spec(0, "", ""), Some(Seed([9; 4])), "another seed"),
        ] {
            let refused = <Checkpoint>::open(&folder, spec, 8, seed, || Seed([9; 4]));
            let Err(BackfillError::SpecMismatch { difference, .. }) = refused else {
                panic!("{expected} is not refused")
            };
            assert_eq!(difference, expected);
        }
    }

    /// The first format's manifest has other fields: it must be refused by its version, before any other field is
    /// read.
    #[test]
    fn another_format_is_refused_by_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let json = br#"{"version":1,"seed":"","of":{},"taken":{},"jobs":{}}"#;
        let manifest = [checksum_line(json).as_bytes(), b"\n", json].concat();
        fs::write(folder.path().join(MANIFEST), manifest).expect("written");
        let error = open(folder.path()).err().expect("refused");
        assert!(matches!(error, BackfillError::OtherFormat { found: 1, expected: FORMAT, .. }), "{error}");
        assert!(error.to_string().contains("format 1"), "{error}");
    }

    #[test]
    fn a_changed_manifest_is_damaged() {
        let folder = tempfile::tempdir().expect("a folder");
        drop(open(folder.path()).expect("opens"));
        let path = folder.path().join(MANIFEST);
        let whole = fs::read(&path).expect("a manifest");
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x80;
            fs::write(&path, bytes).expect("written");
            assert!(matches!(open(folder.path()), Err(BackfillError::Damaged(_))), "byte {at}");
        }
        fs::write(&path, b"").expect("written");
        assert!(matches!(open(folder.path()), Err(BackfillError::Damaged(_))), "empty");
    }
}
