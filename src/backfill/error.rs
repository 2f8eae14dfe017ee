//! Why a backfill ends early. Whatever it is, finished pieces stay, and the next run goes on from them.

use crate::extsort::RunFileError;
use crate::ports::{SourceError, StoreError};
use std::io;
use std::path::{Path, PathBuf};

/// Why a backfill ended before its store was there.
#[derive(Debug, thiserror::Error)]
pub enum BackfillError {
    /// The source is lost.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A file cannot be written or read.
    #[error("{path}: {error}; run again to go on from the last finished piece")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The disk is full.
    #[error("the disk is full: {0} cannot be written; free some space, or move the folder, and run again to go on")]
    DiskFull(PathBuf),
    /// A file is not what was written.
    #[error("{0} is damaged; remove the folder it is in and begin again")]
    Damaged(PathBuf),
    /// The work folder belongs to a backfill of something else.
    #[error("{folder} holds an unfinished backfill with {difference}; finish that one, or remove the folder")]
    Other {
        /// The work folder.
        folder: PathBuf,
        /// What differs.
        difference: String,
    },
    /// The store could not be made.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// There is a store, or something else, where the store is to be.
    #[error("{0} is there already; a backfill makes a new store: give another folder, or take the pages in with `run`")]
    StoreIsThere(PathBuf),
    /// More documents than the memory limit can hold.
    #[error("{n_documents} documents need --memory {mib} MiB or more; run again with as much to go on")]
    Memory {
        /// How many there are so far.
        n_documents: u64,
        /// What they need.
        mib: u64,
    },
    /// A worker's thread died.
    #[error("a worker died; this is a fault of the program, its message is above")]
    Died,
    /// A signal asked for the end.
    #[error("stopped; run again to go on from the last finished piece")]
    Stopped,
}

/// The error of a file.
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
