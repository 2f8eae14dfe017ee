//! Why a backfill ends early. Finished jobs stay finished, and the next run resumes after them.

use crate::extsort::RunFileError;
use crate::ports::{SourceError, StoreError};
use std::io;
use std::path::{Path, PathBuf};

/// Why a backfill ended before its store was complete.
#[derive(Debug, thiserror::Error)]
pub enum BackfillError {
    /// The source failed.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A file cannot be written or read.
    #[error("{path}: {error}; run again to resume after the last finished job")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The disk is full.
    #[error("the disk is full: cannot write {0}; free some space or move the folder, then run again to resume")]
    DiskFull(PathBuf),
    /// A file's bytes differ from those that were written.
    #[error("{0} is damaged; remove its folder and begin again")]
    Damaged(PathBuf),
    /// The work folder belongs to a backfill with another specification.
    #[error("{folder} holds an unfinished backfill with {difference}; finish that one, or remove the folder")]
    SpecMismatch {
        /// The work folder.
        folder: PathBuf,
        /// What differs.
        difference: &'static str,
    },
    /// Another version of the program began the backfill, and its files have another format.
    #[error(
        "{folder} holds an unfinished backfill of format {found}, and this program reads format {expected}; \
         finish it with the version that began it, or remove the folder"
    )]
    OtherFormat {
        /// The work folder.
        folder: PathBuf,
        /// The format of its manifest.
        found: u32,
        /// The format of this program.
        expected: u32,
    },
    /// Another process works in the folder.
    #[error("another process works in {0}; wait until it ends, or stop it")]
    FolderInUse(PathBuf),
    /// The folder holds no complete work.
    #[error("{0} holds no complete build; make one with `lookalike related build`, or wait until it is done")]
    Incomplete(PathBuf),
    /// More URLs than ids.
    #[error("{0} URLs have bags, more than 32 bits can number; build from a part of the pages")]
    TooManyUrls(u64),
    /// Links that were found elsewhere do not belong to these documents.
    #[error(
        "document {later} and document {earlier} make no link here: {why}; make the links again from these sketches"
    )]
    UnfitLink {
        /// The later document.
        later: u32,
        /// The earlier document.
        earlier: u32,
        /// What is wrong.
        why: &'static str,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store's path is taken.
    #[error(
        "{0} is there already, and a backfill creates a new store; \
         name another folder, or add the pages to this store with `lookalike run`"
    )]
    StoreExists(PathBuf),
    /// The memory limit is too small for the documents.
    #[error(
        "more than {n_documents} documents do not fit in this --memory; run again with --memory {mib} to resume: it holds \
         twice as many"
    )]
    MemoryLimit {
        /// Documents that fit.
        n_documents: u64,
        /// The memory for twice as many.
        mib: u64,
    },
    /// A worker thread panicked.
    #[error("a worker thread panicked, which is a bug in lookalike; the message above names the place")]
    WorkerPanicked,
    /// A signal asked for the end.
    #[error("stopped; run again to resume after the last finished job")]
    Stopped,
}

/// Adds the path to an error of the system.
pub(super) fn io_error(path: &Path) -> impl Fn(io::Error) -> BackfillError + '_ {
    move |error| match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => BackfillError::DiskFull(path.to_path_buf()),
        _ => BackfillError::Io { path: path.to_path_buf(), error },
    }
}

impl From<RunFileError> for BackfillError {
    fn from(error: RunFileError) -> Self {
        match error {
            RunFileError::Io { path, error } => io_error(&path)(error),
            RunFileError::Damaged(path) => BackfillError::Damaged(path),
        }
    }
}
