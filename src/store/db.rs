//! What every part of the store does with the database itself.

use super::rocks_error::{damaged, failed};
use super::schema::cf;
use crate::ports::StoreError;
use rocksdb::{ColumnFamily, DB, IngestExternalFileOptions, WriteBatch, WriteOptions};
use std::path::{Path, PathBuf};

/// A column family by name.
pub(super) fn family<'a>(db: &'a DB, name: &'static str) -> Result<&'a ColumnFamily, StoreError> {
    db.cf_handle(name).ok_or_else(|| damaged(format!("the column family {name} is missing")))
}

/// A row of `meta`.
pub(super) fn get_meta(db: &DB, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
    db.get_cf(family(db, cf::META)?, key).map_err(failed)
}

/// Options for a write that must survive a power loss once it returns.
pub(super) fn synced() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.set_sync(true);
    options
}

/// Makes all earlier writes durable. This is a synced write of nothing rather than a sync of the log file. After an
/// append has failed on a full disk, RocksDB starts a new log: a write waits for it, but a sync of the old log would
/// fail forever.
pub(super) fn sync_log(db: &DB) -> Result<(), StoreError> {
    kill_point!("before-sync");
    let mut nothing = WriteBatch::default();
    nothing.put_log_data([]);
    db.write_opt(nothing, &synced()).map_err(failed)?;
    kill_point!("after-sync");
    Ok(())
}

/// Lets RocksDB take over sorted files as rows of a family. They are there on return, durable, and the files are gone from
/// their place.
pub(super) fn ingest(db: &DB, name: &'static str, files: Vec<PathBuf>) -> Result<(), StoreError> {
    let mut options = IngestExternalFileOptions::default();
    options.set_move_files(true);
    db.ingest_external_file_cf_opts(family(db, name)?, &options, files).map_err(failed)
}

/// The manifest's name and length. Every flush and compaction appends to the manifest before it deletes a file.
pub(super) fn manifest_state(path: &Path) -> Option<(String, u64)> {
    let name = std::fs::read_to_string(path.join("CURRENT")).ok()?;
    let length = std::fs::metadata(path.join(name.trim_end())).ok()?.len();
    Some((name, length))
}
