//! The work folder: the manifest of finished pieces, so that whatever ends a backfill, the next run goes on from them.
//!
//! A piece counts once the manifest that names it is durable, and its file is so before. Syncing both after every piece
//! takes a small backfill longer than its work does: pieces are noted together, those of a second at a time
//! ([`Checkpoint::with_interval`]), and a file that is gone again by then was never waited for.

use crate::backfill::error::{BackfillError, io_error};
use crate::backfill::report::Report;
use crate::backfill::usage::{Phase, Usage};
use crate::document::Seed;
use crate::extsort::{FinishedFile, Row, RunFile};
use crate::ports::{Progress, ProgressMap, StoreRule};
use crate::sweep::SweepRow;
use highway::{HighwayHash, HighwayHasher};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const MANIFEST: &str = "manifest.json";

/// The manifest's version: a work folder of another one is refused.
const MANIFEST_VERSION: u32 = 1;

/// What a backfill is of: a folder that was begun with one goes on with no other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BackfillSpec {
    /// The rules of the store.
    pub rule: StoreRule,
    /// All that matters to how records are read, as text.
    pub reading: String,
    /// The inputs: each one's name and size in bytes.
    pub inputs: Vec<(String, u64)>,
}

/// What the first phase has taken in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IngestState {
    /// Whether the source was read to its end.
    pub is_over: bool,
    /// The names of the sources; a [`crate::backfill::rows::PageRow`] has its source's place among them.
    pub sources: Vec<String>,
    /// How far each (source, partition) was read: its next offset and chain.
    pub progress: Vec<(String, i32, i64, u64)>,
    /// What was taken in, piece by piece in the order of arrival.
    pub pieces: Vec<Segment>,
    /// Counts of what the records were.
    pub counts: Counts,
    /// The sweeps that pages were seen on.
    pub sweeps: BTreeMap<String, SweepRow>,
    /// Parts of the input that could not be read, and why.
    pub unreadable: BTreeSet<String>,
}

/// What the records were.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// All of them.
    pub n_records: u64,
    /// Their bytes, decompressed.
    pub n_bytes: u64,
    /// Pages with a content.
    pub n_pages: u64,
    /// Those equal to one before.
    pub n_equal: u64,
    /// URLs at which nothing stood, or which led elsewhere.
    pub n_gone: u64,
    /// Those that were no pages.
    pub n_rejected: u64,
}

/// A stretch of the input.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Documents before it.
    pub n_documents_before: u32,
    /// Its records.
    pub pages: FinishedFile,
    /// Its documents.
    pub documents: FinishedFile,
    /// Where its documents are in their file.
    pub places: FinishedFile,
}

impl Segment {
    /// How many documents it has.
    pub fn n_documents(&self) -> u32 {
        self.documents.n_rows as u32
    }
}

impl IngestState {
    /// How many documents there are.
    pub fn n_documents(&self) -> u32 {
        self.pieces.last().map_or(0, |last| last.n_documents_before + last.n_documents())
    }

    /// How far the sources were read.
    pub fn progress_map(&self) -> ProgressMap {
        let progress = |(source, partition, next_offset, chain): &(String, i32, i64, u64)| {
            ((source.clone(), *partition), Progress { next_offset: *next_offset, chain: *chain })
        };
        self.progress.iter().map(progress).collect()
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    version: u32,
    seed: String,
    of: BackfillSpec,
    /// Rows in a part of what is merged, about. StoreLists, because finished parts are known by their numbers.
    part_rows: u64,
    ingested: IngestState,
    /// Finished jobs: name → what they wrote.
    jobs: BTreeMap<String, Vec<FinishedFile>>,
    usage: BTreeMap<Phase, Usage>,
    /// What is told in the end, once the store is made.
    report: Option<Report>,
}

impl Manifest {
    /// Whether the inputs are the same. One that is read to its end may grow: what is new is for the stream.
    fn is_of(&self, inputs: &[(String, u64)]) -> bool {
        let names = |inputs: &[(String, u64)]| inputs.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        self.of.inputs == inputs || self.ingested.is_over && names(&self.of.inputs) == names(inputs)
    }
}

/// The folder that an unfinished backfill works in. One process at a time.
pub struct Checkpoint {
    folder: PathBuf,
    manifest: Manifest,
    /// Files of pieces that are not known to be durable.
    unsynced: Vec<String>,
    /// A file of a piece could not be synced: whatever is in it, it must not be noted.
    is_lost: bool,
    pause: Duration,
    noted_at: Instant,
    /// Locked as long as it is open.
    _lock: File,
}

impl Checkpoint {
    /// Whether a folder holds a backfill that is not finished.
    pub fn is_begun(folder: &Path) -> bool {
        folder.join(MANIFEST).exists()
    }

    /// Opens a work folder, or makes one. The seed and the parts of a folder that is there are kept.
    ///
    /// # Errors
    /// [`BackfillError::Other`] where it was begun with another identity or seed.
    pub fn open(
        folder: &Path,
        of: BackfillSpec,
        part_rows: u64,
        seed: Option<Seed>,
        new_seed: impl FnOnce() -> Seed,
    ) -> Result<Self, BackfillError> {
        fs::create_dir_all(folder).map_err(io_error(folder))?;
        let lock_path = folder.join("lock");
        let lock = File::create(&lock_path).map_err(io_error(&lock_path))?;
        let other = |difference: &str| BackfillError::Other { folder: folder.into(), difference: difference.into() };
        lock.try_lock().map_err(|_| other("another process at checkpoint on it"))?;
        let path = folder.join(MANIFEST);
        let manifest = if path.exists() {
            let manifest = read_manifest(&path)?;
            let differs = seed.is_some_and(|seed| hex(&seed) != manifest.seed);
            match () {
                () if manifest.version != MANIFEST_VERSION => return Err(other("another version of the program")),
                () if manifest.of.rule != of.rule => return Err(other("other rules")),
                () if manifest.of.reading != of.reading => return Err(other("other limits or sweeps")),
                () if !manifest.is_of(&of.inputs) => return Err(other("other inputs")),
                () if differs => return Err(other("another seed")),
                () => manifest,
            }
        } else {
            Manifest {
                version: MANIFEST_VERSION,
                seed: hex(&seed.unwrap_or_else(new_seed)),
                of,
                part_rows,
                ingested: IngestState::default(),
                jobs: BTreeMap::new(),
                usage: BTreeMap::new(),
                report: None,
            }
        };
        let mut checkpoint = Checkpoint {
            folder: folder.to_path_buf(),
            manifest,
            unsynced: Vec::new(),
            is_lost: false,
            pause: Duration::ZERO,
            noted_at: Instant::now(),
            _lock: lock,
        };
        checkpoint.save()?;
        Ok(checkpoint)
    }

    /// The same, with pieces noted at the earliest so long after those before: as much work may be lost by a kill, beside
    /// what is under way. Otherwise each is noted at once.
    #[must_use]
    pub fn with_interval(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The secret of the store to be.
    pub fn seed(&self) -> Result<Seed, BackfillError> {
        self.manifest.seed.parse().map_err(|_| BackfillError::Damaged(self.folder.join(MANIFEST)))
    }

    /// The rules of the store to be.
    pub fn rule(&self) -> &StoreRule {
        &self.manifest.of.rule
    }

    /// Rows in a part of what is merged, about.
    pub fn part_rows(&self) -> u64 {
        self.manifest.part_rows
    }

    /// What was taken in so far.
    pub fn ingested(&self) -> &IngestState {
        &self.manifest.ingested
    }

    /// Notes what was taken in, its last piece included, if that is new.
    pub fn record_ingested(&mut self, ingested: IngestState) -> Result<(), BackfillError> {
        for piece in ingested.pieces.iter().skip(self.manifest.ingested.pieces.len()) {
            let files = [&piece.pages, &piece.documents, &piece.places];
            self.unsynced.extend(files.map(|file| file.name.clone()));
        }
        self.manifest.ingested = ingested;
        self.save_when_due()
    }

    /// Whether a job is finished.
    pub fn is_done(&self, job: &str) -> bool {
        self.manifest.jobs.contains_key(job)
    }

    /// Notes that a job is finished, and what it wrote.
    pub fn record(&mut self, job: &str, pieces: Vec<FinishedFile>) -> Result<(), BackfillError> {
        self.unsynced.extend(pieces.iter().map(|piece| piece.name.clone()));
        self.manifest.jobs.insert(job.to_string(), pieces);
        self.save_when_due()
    }

    /// What all finished jobs wrote under a name: files called the name, `-` and more.
    pub fn pieces(&self, name: &str) -> impl Iterator<Item = &FinishedFile> {
        let is_of =
            move |piece: &&FinishedFile| piece.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'));
        self.manifest.jobs.values().flatten().filter(is_of)
    }

    /// Opens all files of a name.
    pub fn runs<R: Row>(&self, name: &str, is_compressed: bool) -> Result<Vec<Arc<RunFile<R>>>, BackfillError> {
        let open = |piece| Ok(RunFile::open(&self.folder, piece, is_compressed)?);
        self.pieces(name).map(open).collect()
    }

    /// The bytes of all files of a name.
    pub fn n_bytes(&self, name: &str) -> u64 {
        self.pieces(name).map(|piece| piece.n_bytes).sum()
    }

    /// The bytes of all files.
    pub fn n_bytes_in_all(&self) -> u64 {
        self.all_pieces().map(|piece| piece.n_bytes).sum()
    }

    /// The bytes of all files by what they hold, the largest first.
    pub fn files(&self) -> Vec<(String, u64)> {
        let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
        for piece in self.all_pieces() {
            let name = piece.name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-');
            *by_name.entry(name).or_default() += piece.n_bytes;
        }
        let mut files: Vec<(String, u64)> = by_name.into_iter().map(|(name, n)| (name.to_string(), n)).collect();
        files.sort_by_key(|(_, n_bytes)| std::cmp::Reverse(*n_bytes));
        files
    }

    /// The bytes of what was taken in.
    pub fn n_bytes_ingested(&self) -> u64 {
        let ingested = self.manifest.ingested.pieces.iter();
        ingested.map(|piece| piece.pages.n_bytes + piece.documents.n_bytes + piece.places.n_bytes).sum()
    }

    fn all_pieces(&self) -> impl Iterator<Item = &FinishedFile> {
        let ingested = self.manifest.ingested.pieces.iter();
        let ingested = ingested.flat_map(|piece| [&piece.pages, &piece.documents, &piece.places]);
        ingested.chain(self.manifest.jobs.values().flatten())
    }

    /// What a phase took so far.
    pub fn usage(&self) -> &BTreeMap<Phase, Usage> {
        &self.manifest.usage
    }

    /// Adds what a phase took. It is not worth a sync of its own, and kept with what is noted next.
    pub fn add_usage(&mut self, phase: Phase, usage: Usage) {
        self.manifest.usage.entry(phase).or_default().add(usage);
    }

    /// What is told in the end; none while the store is not made.
    pub fn report(&self) -> Option<&Report> {
        self.manifest.report.as_ref()
    }

    /// Notes that the store is made and what is told of it. Nothing else in the folder is needed from then on.
    pub fn set_report(&mut self, report: Report) -> Result<(), BackfillError> {
        self.manifest.report = Some(report);
        self.unsynced.clear();
        self.save()
    }

    fn save_when_due(&mut self) -> Result<(), BackfillError> {
        if self.noted_at.elapsed() < self.pause { Ok(()) } else { self.save() }
    }

    /// Makes all pieces durable.
    fn sync(&mut self) -> Result<(), BackfillError> {
        let sync = |path: &Path| File::open(path).and_then(|file| file.sync_all()).map_err(io_error(path));
        if self.unsynced.is_empty() {
            return Ok(());
        }
        // IndexQuery again after it has failed, the system may well say that a file is synced whose bytes are gone.
        self.is_lost = true;
        self.unsynced.iter().try_for_each(|name| sync(&self.folder.join(name)))?;
        sync(&self.folder)?;
        self.is_lost = false;
        self.unsynced.clear();
        Ok(())
    }

    /// Makes all pieces durable, and then the manifest that names them.
    pub fn save(&mut self) -> Result<(), BackfillError> {
        let (path, new) = (self.folder.join(MANIFEST), self.folder.join("manifest.new"));
        if self.is_lost {
            return Err(io_error(&path)(std::io::Error::other("a file that it would name could not be synced")));
        }
        self.sync()?;
        // A manifest has no map with odd keys: writing it as JSON cannot fail.
        let json = serde_json::to_vec(&self.manifest).unwrap_or_default();
        let write = || -> std::io::Result<()> {
            let mut file = File::create(&new)?;
            writeln!(file, "{:016x}", HighwayHasher::default().hash64(&json))?;
            file.write_all(&json)?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            File::open(&self.folder)?.sync_all()
        };
        write().map_err(io_error(&path))?;
        // From the end of it: a slow disk gets as much time for other things.
        self.noted_at = Instant::now();
        Ok(())
    }

    /// Removes the folder: the store is there. The manifest goes last, because it knows that.
    pub fn remove(self) -> Result<(), BackfillError> {
        for entry in fs::read_dir(&self.folder).map_err(io_error(&self.folder))? {
            let path = entry.map_err(io_error(&self.folder))?.path();
            if path.is_file() && !path.ends_with(MANIFEST) {
                fs::remove_file(&path).map_err(io_error(&path))?;
            }
        }
        fs::remove_dir_all(&self.folder).map_err(io_error(&self.folder))
    }
}

fn read_manifest(path: &Path) -> Result<Manifest, BackfillError> {
    let text = fs::read_to_string(path).map_err(io_error(path))?;
    let damaged = || BackfillError::Damaged(path.to_path_buf());
    let (checksum, json) = text.split_once('\n').ok_or_else(damaged)?;
    if format!("{:016x}", HighwayHasher::default().hash64(json.as_bytes())) != checksum {
        return Err(damaged());
    }
    serde_json::from_str(json).map_err(|_| damaged())
}

fn hex(seed: &Seed) -> String {
    seed.0.map(|word| format!("{word:016x}")).concat()
}
