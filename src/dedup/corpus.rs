//! The folder of a deduplicated corpus: what it is of, and how far the work is. It lies in a hidden folder inside, which
//! later readers of the corpus pass over.

use super::error::{DedupError, io_error};
use super::keep::Keep;
use super::records::{Counts, ReadInput, RejectedRecords};
use crate::document::CanonicalRule;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The hidden folder.
const WORK: &str = ".dedup";
const MANIFEST: &str = "manifest.json";
const LOCK: &str = "lock";
/// What the work needs and a finished corpus does not.
const SCRATCH: &str = "scratch";

/// The format of the manifest and of the files that it speaks of.
const FORMAT: u32 = 1;

/// What a corpus is of. A folder that was begun with one specification never resumes with another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CorpusSpec {
    /// The inputs, in order: absolute path, size in bytes, and the name of the output.
    pub inputs: Vec<(String, u64, String)>,
    /// The rules of clustering, as text.
    pub rule: String,
    /// All settings that change how records are read, as text.
    pub reading: String,
    /// Which page of a cluster stays.
    pub keep: Keep,
    /// What kept records are written as.
    pub format: String,
    /// Which words are the text of a page, where text is written.
    #[serde(default)]
    pub text: CanonicalRule,
    /// Where the list of removed records goes.
    pub removed: Option<String>,
    /// The store that the pages are held against.
    pub store: Option<String>,
}

impl CorpusSpec {
    /// What differs from another specification.
    fn difference(&self, other: &CorpusSpec) -> Option<&'static str> {
        match () {
            () if self.inputs != other.inputs => Some("other inputs"),
            () if self.store != other.store => Some("another --store"),
            () if self.keep != other.keep => Some("another --keep"),
            () if self.format != other.format => Some("another --format"),
            () if self.text != other.text => Some("another --text"),
            () if self.removed != other.removed => Some("another --removed"),
            () if self.rule != other.rule => Some("other rules of clustering"),
            () if self.reading != other.reading => Some("other limits, sweeps or times"),
            () => None,
        }
    }
}

/// What a store held before the pages of the corpus came.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    /// Whether there was no store.
    pub is_new: bool,
    /// Its documents.
    pub n_documents: u32,
    /// The number of its next event.
    pub next_seq: u64,
    /// Records of each input that it had read.
    pub n_read: BTreeMap<String, i64>,
}

/// Which records stay is decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decided {
    /// How many records stay and go.
    pub counts: Counts,
    /// The inputs and how far each was read.
    pub inputs: Vec<ReadInput>,
    /// Parts of the inputs that could not be read, and why.
    pub unreadable: Vec<String>,
    /// The rejected records, by reason.
    #[serde(default)]
    pub rejected: BTreeMap<String, RejectedRecords>,
}

/// The corpus is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    /// Bytes of the inputs as files.
    pub n_bytes_before: u64,
    /// Bytes of the outputs as files.
    pub n_bytes_after: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Manifest {
    version: u32,
    spec: CorpusSpec,
    begun: Option<Begun>,
    decided: Option<Decided>,
    finished: Option<Finished>,
}

/// The folder of a corpus. One process at a time holds it.
pub struct Corpus {
    folder: PathBuf,
    manifest: Manifest,
    /// Holds the lock on the folder.
    _lock: File,
}

impl Corpus {
    /// Opens a folder that was begun with this specification, or begins a new one.
    ///
    /// # Errors
    /// [`DedupError::NotEmpty`] where the folder holds something else, [`DedupError::SpecMismatch`] where it was begun
    /// with another specification, [`DedupError::OtherFormat`], and [`DedupError::FolderInUse`].
    pub fn open(folder: &Path, spec: CorpusSpec) -> Result<Self, DedupError> {
        let work = folder.join(WORK);
        if !work.join(MANIFEST).exists() && !is_free(folder)? {
            return Err(DedupError::NotEmpty(folder.to_path_buf()));
        }
        fs::create_dir_all(&work).map_err(io_error(&work))?;
        let lock_path = work.join(LOCK);
        let lock = File::create(&lock_path).map_err(io_error(&lock_path))?;
        lock.try_lock().map_err(|_| DedupError::FolderInUse(folder.to_path_buf()))?;
        let mut corpus = Corpus {
            folder: folder.to_path_buf(),
            manifest: Manifest { version: FORMAT, spec, begun: None, decided: None, finished: None },
            _lock: lock,
        };
        if work.join(MANIFEST).exists() {
            let found = read_manifest(folder, &work.join(MANIFEST))?;
            if let Some(difference) = found.spec.difference(&corpus.manifest.spec) {
                return Err(DedupError::SpecMismatch { folder: folder.to_path_buf(), difference });
            }
            corpus.manifest = found;
        } else {
            corpus.save()?;
        }
        Ok(corpus)
    }

    /// The folder of intermediate files, which is created.
    ///
    /// # Errors
    /// [`DedupError::Io`]
    pub fn scratch(&self) -> Result<PathBuf, DedupError> {
        let scratch = self.folder.join(WORK).join(SCRATCH);
        fs::create_dir_all(&scratch).map_err(io_error(&scratch))?;
        Ok(scratch)
    }

    /// The file of the kept set.
    pub fn kept_set(&self) -> PathBuf {
        self.folder.join(WORK).join("kept")
    }

    /// The file that an output is written to before it is complete.
    pub fn unfinished(&self, input: usize) -> PathBuf {
        self.folder.join(WORK).join(format!("output-{input:06}"))
    }

    /// The file of an output.
    pub fn output(&self, input: usize) -> Option<PathBuf> {
        self.manifest.spec.inputs.get(input).map(|(_, _, name)| self.folder.join(name))
    }

    /// Moves a complete output to its place.
    ///
    /// # Errors
    /// [`DedupError::Io`]
    pub fn publish(&self, input: usize) -> Result<(), DedupError> {
        let Some(output) = self.output(input) else { return Ok(()) };
        let parent = output.parent().unwrap_or(&self.folder);
        fs::create_dir_all(parent).map_err(io_error(parent))?;
        fs::rename(self.unfinished(input), &output).map_err(io_error(&output))?;
        File::open(parent).and_then(|parent| parent.sync_all()).map_err(io_error(parent))
    }

    /// What the store held before; `None` before anything was read.
    pub fn begun(&self) -> Option<&Begun> {
        self.manifest.begun.as_ref()
    }

    /// Records what the store held before.
    ///
    /// # Errors
    /// [`DedupError::Io`] or [`DedupError::DiskFull`], as for every step.
    pub fn set_begun(&mut self, begun: Begun) -> Result<(), DedupError> {
        self.manifest.begun = Some(begun);
        self.save()
    }

    /// What was decided; `None` before that.
    pub fn decided(&self) -> Option<&Decided> {
        self.manifest.decided.as_ref()
    }

    /// Records that the decision is made. The kept set must be durable, and so must the list of removed records.
    ///
    /// # Errors
    /// [`DedupError::Io`] or [`DedupError::DiskFull`]
    pub fn set_decided(&mut self, decided: Decided) -> Result<(), DedupError> {
        self.manifest.decided = Some(decided);
        self.save()
    }

    /// Removes the intermediate files, which are no longer needed once the decision is made.
    ///
    /// # Errors
    /// [`DedupError::Io`]
    pub fn remove_scratch(&self) -> Result<(), DedupError> {
        let scratch = self.folder.join(WORK).join(SCRATCH);
        if scratch.exists() { fs::remove_dir_all(&scratch).map_err(io_error(&scratch)) } else { Ok(()) }
    }

    /// Forgets what was begun, so that the folder is free for another specification.
    ///
    /// # Errors
    /// [`DedupError::Io`]
    pub fn discard(self) -> Result<(), DedupError> {
        let work = self.folder.join(WORK);
        fs::remove_dir_all(&work).map_err(io_error(&work))
    }

    /// The end; `None` before that.
    pub fn finished(&self) -> Option<Finished> {
        self.manifest.finished
    }

    /// Records that every output is in its place, and removes what is left of the work.
    ///
    /// # Errors
    /// [`DedupError::Io`] or [`DedupError::DiskFull`]
    pub fn finish(&mut self, finished: Finished) -> Result<(), DedupError> {
        self.manifest.finished = Some(finished);
        self.save()?;
        let kept = self.kept_set();
        if kept.exists() { fs::remove_file(&kept).map_err(io_error(&kept)) } else { Ok(()) }
    }

    /// Replaces the manifest in one step.
    fn save(&self) -> Result<(), DedupError> {
        let work = self.folder.join(WORK);
        let (path, new) = (work.join(MANIFEST), work.join("manifest.new"));
        let write = || {
            let mut file = File::create(&new)?;
            file.write_all(&serde_json::to_vec_pretty(&self.manifest)?)?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            File::open(&work)?.sync_all()
        };
        write().map_err(io_error(&path))
    }
}

/// Whether nothing is in a folder but what a kill right at the beginning leaves, or there is no folder.
fn is_free(folder: &Path) -> Result<bool, DedupError> {
    let names = |folder: &Path| -> Result<Vec<PathBuf>, DedupError> {
        let entries = fs::read_dir(folder).map_err(io_error(folder))?;
        entries.map(|entry| Ok(entry.map_err(io_error(folder))?.path())).collect()
    };
    if !folder.exists() {
        return Ok(true);
    }
    let work = folder.join(WORK);
    if names(folder)?.iter().any(|path| *path != work) {
        return Ok(false);
    }
    let begun = [work.join(LOCK), work.join("manifest.new")];
    Ok(!work.exists() || names(&work)?.iter().all(|path| begun.contains(path)))
}

fn read_manifest(folder: &Path, path: &Path) -> Result<Manifest, DedupError> {
    /// The one field that every format has.
    #[derive(Deserialize)]
    struct Version {
        version: u32,
    }
    let bytes = fs::read(path).map_err(io_error(path))?;
    let damaged = |_| DedupError::Damaged(path.to_path_buf());
    let Version { version } = serde_json::from_slice(&bytes).map_err(damaged)?;
    if version != FORMAT {
        return Err(DedupError::OtherFormat { folder: folder.to_path_buf(), found: version, expected: FORMAT });
    }
    serde_json::from_slice(&bytes).map_err(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> CorpusSpec {
        CorpusSpec {
            inputs: vec![("/a.jsonl".into(), 7, "a.jsonl".into())],
            rule: "rule".into(),
            reading: "reading".into(),
            keep: Keep::First,
            format: "same".into(),
            text: CanonicalRule::default(),
            removed: None,
            store: None,
        }
    }

    #[test]
    fn another_specification_folder_or_process_is_refused() {
        let outer = tempfile::tempdir().expect("a folder");
        let folder = outer.path().join("out");
        let mut first = Corpus::open(&folder, spec()).expect("begun");
        assert!(matches!(Corpus::open(&folder, spec()), Err(DedupError::FolderInUse(_))));
        let unreadable = vec!["x".into()];
        let decided = Decided { counts: Counts::default(), inputs: Vec::new(), unreadable, rejected: BTreeMap::new() };
        first.set_decided(decided.clone()).expect("saved");
        drop(first);
        assert_eq!(Corpus::open(&folder, spec()).expect("opens").decided(), Some(&decided));
        type Change = fn(&mut CorpusSpec);
        let others: [(&str, Change); 7] = [
            ("other inputs", |spec| spec.inputs[0].1 = 8),
            ("another --store", |spec| spec.store = Some("/s".into())),
            ("another --keep", |spec| spec.keep = Keep::Newest),
            ("another --format", |spec| spec.format = "jsonl".into()),
            ("another --removed", |spec| spec.removed = Some("/r".into())),
            ("other rules of clustering", |spec| spec.rule = "other".into()),
            ("other limits, sweeps or times", |spec| spec.reading = "other".into()),
        ];
        for (expected, change) in others {
            let mut other = spec();
            change(&mut other);
            let Err(DedupError::SpecMismatch { difference, .. }) = Corpus::open(&folder, other) else {
                panic!("{expected} is not refused")
            };
            assert_eq!(difference, expected);
        }
        fs::write(folder.join(WORK).join(MANIFEST), r#"{"version":9}"#).expect("written");
        assert!(matches!(Corpus::open(&folder, spec()), Err(DedupError::OtherFormat { found: 9, .. })));
        fs::write(folder.join(WORK).join(MANIFEST), "{").expect("written");
        assert!(matches!(Corpus::open(&folder, spec()), Err(DedupError::Damaged(_))));
    }

    #[test]
    fn a_folder_with_anything_in_it_is_refused() {
        let outer = tempfile::tempdir().expect("a folder");
        fs::write(outer.path().join("mine"), "").expect("written");
        assert!(matches!(Corpus::open(outer.path(), spec()), Err(DedupError::NotEmpty(_))));
        assert!(!outer.path().join(WORK).exists());
        fs::remove_file(outer.path().join("mine")).expect("removed");
        // What a kill leaves before the manifest is written.
        fs::create_dir(outer.path().join(WORK)).expect("made");
        fs::write(outer.path().join(WORK).join(LOCK), "").expect("written");
        assert!(Corpus::open(outer.path(), spec()).is_ok());
    }
}
