//! Why a deduplication ends early.

use crate::extsort::RunFileError;
use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

/// Why a deduplication ended before its corpus was complete.
#[derive(Debug, thiserror::Error)]
pub enum DedupError {
    /// The clustered records cannot be read.
    #[error(transparent)]
    Records(Box<dyn Error + Send + Sync>),
    /// A file cannot be written or read.
    #[error("{path}: {error}; run again to resume")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The disk is full.
    #[error("the disk is full: cannot write {0}; free some space, then run again to resume")]
    DiskFull(PathBuf),
    /// A file's bytes differ from those that were written.
    #[error("{0} is damaged; remove the folder that it is in and begin again")]
    Damaged(PathBuf),
    /// The folder was begun with other inputs or options.
    #[error("{folder} was begun with {difference}; run the command that began it, or give another --out")]
    SpecMismatch {
        /// The folder.
        folder: PathBuf,
        /// What differs.
        difference: &'static str,
    },
    /// Another version of the program began the folder.
    #[error(
        "{folder} was begun by a program of format {found}, and this one reads format {expected}; finish it with the \
         version that began it, or give another --out"
    )]
    OtherFormat {
        /// The folder.
        folder: PathBuf,
        /// Its format.
        found: u32,
        /// The format of this program.
        expected: u32,
    },
    /// The folder holds something else.
    #[error("{0} is not empty and was not made by `lookalike dedup`; give a new or an empty folder")]
    NotEmpty(PathBuf),
    /// Another process works in the folder.
    #[error("another process works in {0}; wait until it ends, or stop it")]
    FolderInUse(PathBuf),
    /// A signal asked for the end.
    #[error("stopped; run again to resume")]
    Stopped,
}

/// Adds the path to an error of the system.
pub(super) fn io_error(path: &Path) -> impl Fn(io::Error) -> DedupError + '_ {
    move |error| match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => DedupError::DiskFull(path.to_path_buf()),
        _ => DedupError::Io { path: path.to_path_buf(), error },
    }
}

impl DedupError {
    /// The error of a file that the system refuses to read or write.
    pub fn io(path: &Path, error: io::Error) -> Self {
        io_error(path)(error)
    }
}

impl From<RunFileError> for DedupError {
    fn from(error: RunFileError) -> Self {
        match error {
            RunFileError::Io { path, error } => io_error(&path)(error),
            RunFileError::Damaged(path) => DedupError::Damaged(path),
        }
    }
}
