//! `lookalike export mapping`: which clusters of an older store are which of this one.

use super::args::ExportMappingArgs;
use super::backfill::memory_limit;
use super::exit::{Exit, ending, file_error};
use super::table::{TableColumns, TableFile, column};
use super::wiring::{beside, new_seed, open_read_only, watch_signals};
use crate::backfill::{BackfillError, Context, map_clusters};
use crate::config::Config;
use crate::store::{RocksStore, ScratchFolder};
use anyhow::Result;

/// The columns of the mapping.
pub(super) const COLUMNS: TableColumns = TableColumns {
    all: &[
        column!("old_cluster", Number),
        column!("new_cluster", Number),
        column!("n_shared", Number),
        column!("n_old", Number),
        column!("n_new", Number),
        column!("kind", Text),
    ],
    default: &[],
};

/// Writes the mapping.
pub(super) fn export(config: &Config, args: &ExportMappingArgs, mut rows: TableFile) -> Result<()> {
    let old = RocksStore::open_read_only(&args.from, &config.store_settings())?;
    let new = open_read_only(config)?;
    let store = &config.store.path;
    let folder = ScratchFolder::beside(&beside(store, ".mapping"));
    let folder = folder.map_err(|error| file_error("create a folder beside", store, &error))?;
    let context = Context {
        folder: folder.path().to_path_buf(),
        n_threads: 1,
        memory: memory_limit(args.memory),
        stop: watch_signals()?,
        progress: Default::default(),
    };
    let mapped = map_clusters::<anyhow::Error>(&context, &old, &new, &new_seed()?, |row| rows.write(&row));
    drop(folder);
    mapped.map_err(|error| match error.downcast_ref() {
        Some(BackfillError::Stopped) => ending(Exit::Interrupted, "stopped; nothing was written"),
        _ => error,
    })?;
    rows.finish()
}
