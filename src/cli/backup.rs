//! `lookalike backup` and `restore`: copies of a store.

use super::exit::{Exit, ending, usage};
use super::output::OutputMode;
use super::output_path::{check_new_store, check_outside_stores};
use crate::config::Config;
use crate::store::{self, BackedUp, BackupError, OpenError, RocksStore, holds_store};
use anyhow::Result;
use indicatif::{HumanBytes, HumanCount};
use std::path::Path;

/// Makes a backup of the store.
pub(super) fn backup(config: &Config, to: &Path, mode: OutputMode) -> Result<Exit> {
    // What is there already is refused in any case.
    if to.symlink_metadata().is_err() {
        check_outside_stores("the folder", to)?;
    }
    let made = store::back_up(&config.store.path, &config.store_settings(), to).map_err(backup_error)?;
    mode.summary(&made, |made| summary(made, to))?;
    Ok(Exit::Done)
}

/// Checks a backup and copies it to the store's place.
pub(super) fn restore(config: &Config, backup: &Path, mode: OutputMode) -> Result<Exit> {
    let path = &config.store.path;
    if path.symlink_metadata().is_ok() {
        return Err(backup_error(BackupError::Exists(path.clone())));
    }
    check_new_store("--store", path)?;
    if !holds_store(backup) {
        return Err(usage(format!("there is no backup in {}; check the path and its permissions", backup.display())));
    }
    let report = RocksStore::open_read_only(backup, &config.store_settings())?.check(1);
    if let Some(finding) = report.findings.first() {
        let (n, backup) = (report.n_findings, backup.display());
        return Err(ending(
            Exit::Unsound,
            format!("{backup} is not sound, {n} findings: {finding}; restore another backup"),
        ));
    }
    store::restore(backup, path).map_err(backup_error)?;
    mode.summary(&report, |report| {
        format!("{} holds {} documents and is sound\n", path.display(), HumanCount(report.n_documents.into()))
    })?;
    Ok(Exit::Done)
}

fn backup_error(error: BackupError) -> anyhow::Error {
    match error {
        BackupError::Exists(_) | BackupError::Store(OpenError::Missing(_)) => usage(error),
        other => other.into(),
    }
}

fn summary(made: &BackedUp, to: &Path) -> String {
    format!(
        "{} holds {} documents in {} files, {}, of which {} are shared with the store\n",
        to.display(),
        HumanCount(made.n_documents.into()),
        HumanCount(made.n_files),
        HumanBytes(made.n_bytes),
        HumanBytes(made.n_bytes_shared),
    )
}
