//! Writes the files of a run.

use super::block::{BlockWriter, is_long};
use super::filter::{Hashes, RunFilter};
use super::group::{Membership, SharedFilter};
use super::key::{RunName, block_key};
use crate::document::DocumentId;
use crate::ports::StoreError;
use crate::sketch::Shingle;
use crate::store::read_ahead::read_ahead;
use crate::store::rocks_error::failed;
use crate::store::schema::PostingKind;
use rocksdb::{Options, SstFileWriter};
use std::path::PathBuf;

/// Bytes at which the next file begins. What a file takes is free only when all of it is.
const FILE_BYTES: u64 = 256 << 20;

/// A run that is being written.
pub(in crate::store) struct RunWriter<'o> {
    name: RunName,
    size: RunSize,
    /// Where its files go, without their numbers.
    path: PathBuf,
    options: &'o Options,
    block: BlockWriter,
    file: Option<SstFileWriter<'o>>,
    files: Vec<PathBuf>,
    filter: SharedFilter,
    /// The filter of its group.
    group: Option<SharedFilter>,
    /// The filters that lack its lists.
    lacking: Vec<SharedFilter>,
    /// The filter of a group that has its lists already. But they may be longer here than in the runs that they come from.
    having: Option<SharedFilter>,
    /// What is not in those filters yet.
    hashes: Hashes,
}

/// What is known of the lists of a run before it is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunSize {
    /// The kind of its shingles.
    pub kind: PostingKind,
    /// Bytes of a shingle.
    pub width: usize,
    /// About how many lists there are.
    pub n_lists: u64,
    /// Documents of a list at most, for it to be short.
    pub short_max: u64,
}

/// The files of a run, and its filters.
pub(in crate::store) struct WrittenRun {
    pub(super) name: RunName,
    pub(super) files: Vec<PathBuf>,
    pub(super) filter: SharedFilter,
    pub(super) group: Option<SharedFilter>,
}

impl<'o> RunWriter<'o> {
    /// A run of this size. Its files are at `path`, with a number behind it.
    /// `options` are [`run_options`](crate::store::column_options::run_options).
    ///
    /// # Errors
    /// [`StoreError`]
    pub(super) fn new(
        name: RunName,
        membership: Membership,
        size: RunSize,
        path: PathBuf,
        options: &'o Options,
    ) -> Result<Self, StoreError> {
        let filter = match &membership {
            Membership::Completes(filter) => filter.clone(),
            _ => SharedFilter::new(RunFilter::for_lists(size.kind, size.n_lists, name.level, size.short_max)?),
        };
        let (lacking, having, group) = match membership {
            Membership::None => (vec![filter.clone()], None, None),
            Membership::Joins(group) => (vec![filter.clone(), group.clone()], None, Some(group)),
            Membership::Stays(group) => (vec![filter.clone()], Some(group.clone()), Some(group)),
            Membership::Completes(group) => (vec![], Some(group), None),
        };
        Ok(RunWriter {
            name,
            size,
            path,
            options,
            block: BlockWriter::default(),
            file: None,
            files: Vec::new(),
            filter,
            group,
            lacking,
            having,
            hashes: Hashes::default(),
        })
    }

    /// Adds a list. Shingles and documents must ascend.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn put(&mut self, shingle: Shingle, documents: &[DocumentId]) -> Result<(), StoreError> {
        self.block.put(shingle, documents);
        self.added(shingle, documents.len() as u64 > self.size.short_max)
    }

    /// Adds a list whose documents are packed.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn put_packed(&mut self, shingle: Shingle, documents: &[u8]) -> Result<(), StoreError> {
        self.block.put_packed(shingle, documents);
        self.added(shingle, is_long(documents, self.size.short_max))
    }

    fn added(&mut self, shingle: Shingle, is_long: bool) -> Result<(), StoreError> {
        self.hashes.push(shingle, is_long);
        if self.block.is_full() { self.put_block() } else { Ok(()) }
    }

    fn put_block(&mut self) -> Result<(), StoreError> {
        self.lacking.iter().for_each(|filter| filter.write().insert_all(&self.hashes));
        if let Some(group) = &self.having
            && !self.hashes.long.is_empty()
        {
            group.write().insert_long(&self.hashes);
        }
        self.hashes.clear();
        let Some((last, block)) = self.block.take() else { return Ok(()) };
        let mut file = match self.file.take() {
            Some(file) => file,
            None => self.next_file()?,
        };
        file.put(block_key(self.name.number, last, self.size.width), block).map_err(failed)?;
        if file.file_size() < FILE_BYTES {
            self.file = Some(file);
            return Ok(());
        }
        file.finish().map_err(failed)
    }

    fn next_file(&mut self) -> Result<SstFileWriter<'o>, StoreError> {
        let mut path = self.path.clone().into_os_string();
        path.push(format!("-{}.sst", self.files.len()));
        let path = PathBuf::from(path);
        let file = SstFileWriter::create(self.options);
        file.open(&path).map_err(failed)?;
        self.files.push(path);
        Ok(file)
    }

    /// Writes what is left, and the filter.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn finish(mut self) -> Result<WrittenRun, StoreError> {
        self.put_block()?;
        let mut file = match self.file.take() {
            Some(file) => file,
            None => self.next_file()?,
        };
        self.filter.read().put(&mut file, self.name.number, self.size.width)?;
        file.finish().map_err(failed)?;
        self.files.iter().for_each(|path| read_ahead(path));
        Ok(WrittenRun { name: self.name, files: self.files, filter: self.filter, group: self.group })
    }
}
