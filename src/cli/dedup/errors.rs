//! The exit codes that the errors of a deduplication bring.

use crate::backfill::BackfillError;
use crate::cli::backfill::usage_error;
use crate::cli::exit::{Exit, ending, file_error, usage};
use crate::dedup::DedupError;

/// Gives errors the exit codes that they bring.
pub(in crate::cli) fn dedup_error(error: DedupError) -> anyhow::Error {
    match error {
        DedupError::SpecMismatch { .. }
        | DedupError::OtherFormat { .. }
        | DedupError::FolderInUse(_)
        | DedupError::NotEmpty(_) => usage(error),
        DedupError::Stopped => ending(Exit::Interrupted, error.to_string()),
        DedupError::Io { path, error } => file_error("write or read", &path, &error),
        other => other.into(),
    }
}

/// The same for errors of the phases.
pub(super) fn phase_error(error: BackfillError) -> anyhow::Error {
    match error {
        BackfillError::Stopped => ending(Exit::Interrupted, error.to_string()),
        other => usage_error(other),
    }
}
