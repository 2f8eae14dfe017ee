//! The kinds of RocksDB's errors: damage, a full disk, a missing file, anything else.

use super::disk_full::is_disk_full;
use crate::ports::StoreError;

/// The error of the store for one of RocksDB.
pub(super) fn failed(error: rocksdb::Error) -> StoreError {
    match error.kind() {
        rocksdb::ErrorKind::Corruption => StoreError::Damaged(error.into_string()),
        _ if is_disk_full(error.as_ref()) => StoreError::DiskFull(error.into_string()),
        _ => StoreError::Failed(error.into_string()),
    }
}

/// The error for rows or files that cannot be right.
pub(super) fn damaged(what: impl Into<String>) -> StoreError {
    StoreError::Damaged(what.into())
}

/// Whether a file is missing.
pub(super) fn is_missing(error: &rocksdb::Error) -> bool {
    error.as_ref().contains("No such file")
}
