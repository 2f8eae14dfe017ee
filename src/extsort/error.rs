//! The errors of run files.

use std::io;
use std::path::{Path, PathBuf};

/// A run file cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum RunFileError {
    /// The system reports an error.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The file's bytes differ from those that were written.
    #[error("{0} is damaged")]
    Damaged(PathBuf),
}

impl RunFileError {
    /// Adds the path to an error of the system.
    pub(super) fn io(path: &Path) -> impl Fn(io::Error) -> Self + '_ {
        move |error| RunFileError::Io { path: path.to_path_buf(), error }
    }
}
