//! Reads a folder of sketch files.

use super::columns::{Row, rows, sketch_schema};
use super::footer::{InputNumber, RowsHash, RowsHasher, SketchFooter, StoredFooter};
use crate::document::Seed;
use crate::intake::SketchedRecord;
use crate::ports::{Chunk, SourceError};
use crate::sketch::SketchRule;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows that are decoded at once.
const BATCH_ROWS: usize = 256;

/// Bytes that are hashed at once.
const HASH_BYTES: usize = 1 << 20;

/// A folder that does not hold the sketches of all inputs of one kind, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum SketchFileError {
    /// The system refuses.
    #[error("cannot read {path}: {error}; check the path and its permissions")]
    Io {
        /// The folder or file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The folder holds no Parquet file.
    #[error("{0} holds no sketch files; make them with `lookalike sketch --parquet`")]
    Empty(PathBuf),
    /// A file that holds no sketches, or those of another version.
    #[error("{path} is no sketch file: {why}; sketch its input again, or remove the file")]
    NoSketches {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Two files that cannot be loaded together.
    #[error("{a} and {b} have {difference}; sketch the inputs of both by one configuration, into one folder")]
    Unlike {
        /// A file.
        a: PathBuf,
        /// Another one.
        b: PathBuf,
        /// What differs.
        difference: &'static str,
    },
    /// Inputs without a file.
    #[error(
        "{folder} lacks the sketches of {n_missing} of {of} inputs, the first of them number {first}; sketch these, too"
    )]
    Missing {
        /// The folder.
        folder: PathBuf,
        /// How many inputs there are.
        of: u32,
        /// How many of them have no file.
        n_missing: u32,
        /// The first one's number.
        first: u32,
    },
}

/// The sketch files of all inputs, in the order of the inputs' numbers.
#[derive(Debug)]
pub struct SketchFiles {
    files: Vec<(PathBuf, SketchFooter)>,
    shared: SketchFooter,
    digest: String,
}

impl SketchFiles {
    /// Opens the folder of the sketches of all inputs.
    ///
    /// # Errors
    /// [`SketchFileError`] where an input has no file, a file is damaged, or files do not belong together.
    pub fn open(folder: &Path) -> Result<Self, SketchFileError> {
        let files = parquet_files(folder)?.into_iter().map(|path| Ok((path.clone(), open_file(&path)?.1)));
        Self::of(folder, files)
    }

    /// The files of a folder that somebody else lists, each with the metadata of its end: keys and values.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn from_metadata(
        folder: &Path,
        files: Vec<(PathBuf, HashMap<String, String>)>,
    ) -> Result<Self, SketchFileError> {
        let files = files.into_iter().map(|(path, metadata)| {
            let footer = StoredFooter::decode(|key| metadata.get(key).map(String::as_str));
            let footer = footer.map_err(|why| SketchFileError::NoSketches { path: path.clone(), why })?;
            Ok((path, footer))
        });
        Self::of(folder, files)
    }

    fn of(
        folder: &Path,
        found: impl Iterator<Item = Result<(PathBuf, StoredFooter), SketchFileError>>,
    ) -> Result<Self, SketchFileError> {
        let mut files: BTreeMap<InputNumber, (PathBuf, SketchFooter)> = BTreeMap::new();
        let mut rows: BTreeMap<InputNumber, RowsHash> = BTreeMap::new();
        let mut by_name: HashMap<String, InputNumber> = HashMap::new();
        for file in found {
            let (path, StoredFooter { footer, rows: rows_hash }) = file?;
            let first = files.values().next();
            let other = first.and_then(|known| Some((known, difference(&known.1, &footer)?)));
            let same_number = files.get(&footer.input).map(|known| (known, "the same number"));
            let same_name = by_name.get(&footer.name).and_then(|number| Some((files.get(number)?, "the same input")));
            if let Some(((a, _), difference)) = other.or(same_number).or(same_name) {
                return Err(SketchFileError::Unlike { a: a.clone(), b: path, difference });
            }
            by_name.insert(footer.name.clone(), footer.input);
            rows.insert(footer.input, rows_hash);
            files.insert(footer.input, (path, footer));
        }
        let files: Vec<_> = files.into_values().collect();
        let shared = files.first().ok_or_else(|| SketchFileError::Empty(folder.to_path_buf()))?.1.clone();
        let of = shared.input.of;
        let first = (1..).zip(&files).find(|(number, (_, footer))| footer.input.number != *number);
        let first = first.map_or(files.len() as u32 + 1, |(number, _)| number);
        let n_missing = of - files.len() as u32;
        if n_missing > 0 {
            return Err(SketchFileError::Missing { folder: folder.to_path_buf(), of, n_missing, first });
        }
        let mut hasher = RowsHasher::default();
        rows.values().for_each(|rows| hasher.append(&rows.hash.0.to_be_bytes()));
        Ok(SketchFiles { files, shared, digest: format!("{:032x}", hasher.finish().hash.0) })
    }

    /// Names the rows of all files: the same records with the same sketches in the same order have the same digest.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The inputs in their order: the path of each file, and the name of its input.
    pub fn inputs(&self) -> impl Iterator<Item = (&Path, &str)> {
        self.files.iter().map(|(path, footer)| (path.as_path(), footer.name.as_str()))
    }

    /// The version of the canonical form and the rule of all sketches.
    pub fn rule(&self) -> (u32, &SketchRule) {
        (self.shared.canonical_version, &self.shared.rule)
    }

    /// The settings that changed how records were read, as text.
    pub fn reading(&self) -> &str {
        &self.shared.reading
    }

    /// Whether all sketches were made with this seed.
    pub fn are_of(&self, seed: &Seed) -> bool {
        self.shared.is_of(seed)
    }

    /// The files in the order of their inputs.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.files.iter().map(|(path, _)| path.clone()).collect()
    }

    /// The records of all inputs, in their order. Nothing follows an error.
    pub fn into_chunks(self) -> impl Iterator<Item = Result<Chunk<SketchedRecord>, SourceError>> + Send {
        type Chunks = Box<dyn Iterator<Item = Result<Chunk<SketchedRecord>, SourceError>> + Send>;
        self.files.into_iter().flat_map(|(path, footer)| match OpenFile::open(path, footer) {
            Ok(mut file) => Box::new(std::iter::from_fn(move || file.next_chunk().transpose())) as Chunks,
            Err(error) => Box::new(std::iter::once(Err(error))),
        })
    }
}

/// The Parquet files of a folder.
fn parquet_files(folder: &Path) -> Result<Vec<PathBuf>, SketchFileError> {
    let io_error = |error| SketchFileError::Io { path: folder.to_path_buf(), error };
    let entries = fs::read_dir(folder).map_err(io_error)?;
    let mut paths =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>().map_err(io_error)?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "parquet"));
    paths.sort();
    Ok(paths)
}

/// What makes the sketches of two files unlike, if anything.
fn difference(a: &SketchFooter, b: &SketchFooter) -> Option<&'static str> {
    match () {
        () if a.canonical_version != b.canonical_version => Some("other versions of the canonical form"),
        () if a.rule != b.rule => Some("other sketch rules"),
        () if a.seed_check != b.seed_check => Some("other seeds"),
        () if a.reading != b.reading => Some("other limits, fields or sweeps"),
        () if a.input.of != b.input.of => Some("other numbers of inputs"),
        () => None,
    }
}

impl SketchFooter {
    /// Reads the footer of a sketch file.
    ///
    /// # Errors
    /// [`SketchFileError`] where it is none, or damaged.
    pub fn read(path: &Path) -> Result<Self, SketchFileError> {
        Ok(open_file(path)?.1.footer)
    }
}

fn open_file(path: &Path) -> Result<(ParquetRecordBatchReaderBuilder<File>, StoredFooter), SketchFileError> {
    let file = File::open(path).map_err(|error| SketchFileError::Io { path: path.to_path_buf(), error })?;
    let no_sketches = |why: String| SketchFileError::NoSketches { path: path.to_path_buf(), why };
    let builder = ParquetRecordBatchReaderBuilder::try_new(file)
        .map_err(|error| no_sketches(format!("it is cut or damaged ({error})")))?;
    let pairs = builder.metadata().file_metadata().key_value_metadata();
    let value =
        |key: &str| pairs.into_iter().flatten().find(|pair| pair.key == key).and_then(|pair| pair.value.as_deref());
    let footer = StoredFooter::decode(value).map_err(no_sketches)?;
    if builder.schema().fields() != sketch_schema().fields() {
        return Err(no_sketches("it has other columns".into()));
    }
    Ok((builder, footer))
}

/// Fails where the rows are not those that were written.
fn check_rows(path: &Path, expected: &RowsHash) -> Result<(), SourceError> {
    let unread = |error: io::Error| SourceError::new(format!("cannot read {}: {error}; run again", path.display()));
    let mut file = File::open(path).map_err(unread)?.take(expected.n_bytes);
    let (mut hasher, mut buffer) = (RowsHasher::default(), vec![0; HASH_BYTES]);
    loop {
        match file.read(&mut buffer).map_err(unread)? {
            0 if hasher.finish() == *expected => return Ok(()),
            0 => return Err(damaged(path, "its rows have changed since they were written")),
            n => hasher.append(&buffer[..n]),
        }
    }
}

/// The file that is being read.
struct OpenFile {
    path: PathBuf,
    source: Arc<str>,
    rule: SketchRule,
    batches: ParquetRecordBatchReader,
    decoded: VecDeque<Chunk<SketchedRecord>>,
    n_rows: u64,
}

impl OpenFile {
    fn open(path: PathBuf, footer: SketchFooter) -> Result<Self, SourceError> {
        let (builder, found) = open_file(&path).map_err(|error| SourceError::new(error.to_string()))?;
        if found.footer != footer {
            return Err(SourceError::new(format!("{} was replaced while it was read; run again", path.display())));
        }
        check_rows(&path, &found.rows)?;
        let batches = builder.with_batch_size(BATCH_ROWS).build();
        let batches = batches.map_err(|error| damaged(&path, &error.to_string()))?;
        let source = footer.name.as_str().into();
        Ok(OpenFile { path, source, rule: footer.rule, batches, decoded: VecDeque::new(), n_rows: 0 })
    }

    /// Some more records; `None` at the end.
    fn next_chunk(&mut self) -> Result<Option<Chunk<SketchedRecord>>, SourceError> {
        while self.decoded.is_empty() {
            let batch = self.batches.next().transpose().map_err(|error| damaged(&self.path, &error.to_string()))?;
            let Some(batch) = batch else { return Ok(None) };
            for row in rows(&batch, &self.source) {
                self.n_rows += 1;
                match (row, self.decoded.back_mut()) {
                    (Some(Row::Unreadable(what)), _) => self.decoded.push_back(Chunk::Unreadable(what)),
                    (Some(Row::Record(record)), last) if is_possible(&self.rule, &record) => match last {
                        Some(Chunk::Records(records)) => records.push(*record),
                        _ => self.decoded.push_back(Chunk::Records(vec![*record])),
                    },
                    _ => return Err(damaged(&self.path, &format!("row {} is none of a sketch file", self.n_rows))),
                }
            }
        }
        Ok(self.decoded.pop_front())
    }
}

/// Whether a rule can have made the index of a record.
fn is_possible(rule: &SketchRule, record: &SketchedRecord) -> bool {
    let content = record.outcome.as_ref().ok().and_then(|page| page.content.as_ref());
    content.is_none_or(|content| {
        let is_in_range = content.index.last().is_none_or(|last| rule.bits == 64 || last >> rule.bits == 0);
        is_in_range && content.index.len() <= rule.index_candidates()
    })
}

fn damaged(path: &Path, why: &str) -> SourceError {
    SourceError::new(format!("{} is damaged ({why}); remove it and sketch its input again", path.display()))
}
