//! Backups of a store that may be written to meanwhile: a view of one moment, of links to its tables and copies of its logs.
//!
//! ```text
//! manifest ─▶ names ─▶ link tables, copy manifest and logs ─▶ the same manifest? ─▶ a whole view
//!    ▲                                                             │ no
//!    └─────────────────────────────────────────────────────────────┘
//! ```
//! RocksDB writes a table once and appends to its manifest before it deletes one. While the manifest stays as it is, the
//! tables that it names are there. Of the logs only the last one grows, and any beginning of it is a state that a crash
//! could have left. The log of kept pages, which `dedup` has in a folder of its own, must stay as it is meanwhile, too.

use super::db::manifest_state;
use super::open::{OpenError, RocksStore, check_there};
use super::scratch_folder::{ScratchFolder, parent_of};
use super::settings::Settings;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How often a view is tried while the writer changes its manifest.
const TRIES: u32 = 200;

/// A writer flushes for moments, and rests for seconds.
const PAUSE: Duration = Duration::from_millis(25);

/// The folder of the log of kept pages; see [`KeptLog`](crate::dedup::KeptLog).
const KEPT_LOG: &str = "dedup";

/// Ends the name of a description in that log, which is there as long as the rows that it describes are whole. They have its
/// name without the end.
const DESCRIPTION: &str = ".json";

/// The files of a store that a backup holds.
enum FileKind {
    /// Written once.
    Table,
    /// Logs, of which the highest number is the last, and small files that RocksDB writes anew.
    Growing,
    /// Which tables and logs there are.
    Manifest,
}

/// The kind of a file by its name; none where a backup does not hold it.
fn kind_of(name: &str) -> Option<FileKind> {
    let has_number = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
    match name.rsplit_once('.') {
        Some((number, "sst")) if has_number(number) => Some(FileKind::Table),
        Some((number, "log")) if has_number(number) => Some(FileKind::Growing),
        _ if name == "IDENTITY" || name.strip_prefix("OPTIONS-").is_some_and(has_number) => Some(FileKind::Growing),
        _ if name == "CURRENT" || name.strip_prefix("MANIFEST-").is_some_and(has_number) => Some(FileKind::Manifest),
        _ => None,
    }
}

/// Why there is no backup. No folder has its name then.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The folder is no store.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// The name is taken.
    #[error("{0} is there already; name a new folder")]
    Exists(PathBuf),
    /// The system lets this user not read the files of the store, or not link to them.
    #[error("{0}: this user may not read the store's files, or not link to them; run as the user that owns the store")]
    NotOwner(PathBuf),
    /// The system refuses.
    #[error("{path}: {error}; check the path, its permissions and the space on the disk, and run again")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

fn io_error(path: &Path) -> impl Fn(io::Error) -> BackupError + '_ {
    move |error| BackupError::Io { path: path.to_path_buf(), error }
}

/// What a backup holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct BackedUp {
    /// The documents.
    pub n_documents: u32,
    /// Its files.
    pub n_files: u64,
    /// Their bytes.
    pub n_bytes: u64,
    /// Bytes that it shares with the store, and that take no space of their own until the store drops them.
    pub n_bytes_shared: u64,
}

/// Makes a folder with all that a store holds at one moment. On the same file system tables are shared by links; elsewhere they
/// are copied. The folder appears when it is whole and durable, and is a store itself.
///
/// # Errors
/// [`BackupError`]
pub fn back_up(store: &Path, settings: &Settings, to: &Path) -> Result<BackedUp, BackupError> {
    check_there(store)?;
    let parent = parent_of_new(to)?;
    // Tables can be linked beside the store, whatever file system the backup goes to.
    let view = scratch_beside(store)?;
    let mut made = view_of(store, view.path())?;
    // A backup that cannot be opened is none, such as that of a store in the making.
    made.n_documents = RocksStore::open_read_only(view.path(), settings)?.n_documents();
    match fs::rename(view.path(), to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            let growing = scratch_beside(to)?;
            copy_files(view.path(), growing.path())?;
            fs::rename(growing.path(), to).map_err(io_error(to))?;
            made.n_bytes_shared = 0;
        }
        moved => moved.map_err(io_error(to))?,
    }
    sync_folder(parent)?;
    Ok(made)
}

/// Copies a backup to the place of a store, which appears when it is whole and durable. The backup stays as it is. What else
/// lies in its folder is left there.
///
/// # Errors
/// [`BackupError`]
pub fn restore(backup: &Path, store: &Path) -> Result<(), BackupError> {
    let parent = parent_of_new(store)?;
    let growing = scratch_beside(store)?;
    copy_files(backup, growing.path())?;
    fs::rename(growing.path(), store).map_err(io_error(store))?;
    sync_folder(parent)
}

/// The folder, made if need be, in which a new one is to appear whose name must be free.
fn parent_of_new(folder: &Path) -> Result<&Path, BackupError> {
    if folder.symlink_metadata().is_ok() {
        return Err(BackupError::Exists(folder.to_path_buf()));
    }
    let parent = parent_of(folder);
    fs::create_dir_all(parent).map_err(io_error(parent))?;
    Ok(parent)
}

/// A folder for work beside a path. Where there can be none, the folder that takes none is at fault.
fn scratch_beside(path: &Path) -> Result<ScratchFolder, BackupError> {
    ScratchFolder::beside(path).map_err(io_error(parent_of(path)))
}

/// Fills an empty folder with a view of the store.
fn view_of(store: &Path, view: &Path) -> Result<BackedUp, BackupError> {
    for _ in 0..TRIES {
        let before = manifest_state(store);
        let kept_before = descriptions(store).map_err(io_error(store))?;
        let made = before.as_ref().map(|manifest| try_view(store, view, manifest)).transpose();
        match made {
            Ok(Some(made))
                if manifest_state(store) == before
                    && descriptions(store).is_ok_and(|descriptions| descriptions == kept_before) =>
            {
                sync_folder(view)?;
                return Ok(made);
            }
            // Where fs.protected_hardlinks is on, nobody but the owner may link.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(BackupError::NotOwner(store.to_path_buf()));
            }
            // A file that was listed is deleted: the manifest has changed.
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io_error(view)(error)),
            _ => {}
        }
        fs::remove_dir_all(view).and_then(|()| fs::create_dir(view)).map_err(io_error(view))?;
        std::thread::sleep(PAUSE);
    }
    Err(OpenError::Unsettled(store.to_path_buf()).into())
}

fn try_view(store: &Path, view: &Path, (current, n_manifest): &(String, u64)) -> io::Result<BackedUp> {
    let mut made = BackedUp::default();
    let mut add = |n_bytes: u64, is_shared: bool| {
        made.n_files += 1;
        made.n_bytes += n_bytes;
        made.n_bytes_shared += if is_shared { n_bytes } else { 0 };
    };
    // Logs are listed before any is copied: those that come later continue the last one that is listed.
    for name in names(store)? {
        let (from, to) = (store.join(&name), view.join(&name));
        match kind_of(&name) {
            Some(FileKind::Table) => {
                fs::hard_link(&from, &to)?;
                add(from.metadata()?.len(), true);
            }
            Some(FileKind::Growing) => add(copy(&from, &to)?, false),
            Some(FileKind::Manifest) | None => {}
        }
    }
    let manifest = current.trim_end();
    add(copy_start(&store.join(manifest), &view.join(manifest), *n_manifest)?, false);
    fs::write(view.join("CURRENT"), current)?;
    File::open(view.join("CURRENT"))?.sync_all()?;
    add(current.len() as u64, false);
    for n_bytes in copy_kept_log(store, view)? {
        add(n_bytes, false);
    }
    Ok(made)
}

/// The descriptions in a store's log of kept pages, with their sizes and when they were written; none where there is no log.
fn descriptions(store: &Path) -> io::Result<Vec<(String, u64, SystemTime)>> {
    let log = store.join(KEPT_LOG);
    if !log.exists() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for name in names(&log)?.into_iter().filter(|name| name.ends_with(DESCRIPTION)) {
        match log.join(&name).metadata() {
            Ok(metadata) => found.push((name, metadata.len(), metadata.modified()?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    found.sort();
    Ok(found)
}

/// Copies the log of kept pages from one store's folder to another's. Returns the lengths of its files.
fn copy_kept_log(from: &Path, to: &Path) -> io::Result<Vec<u64>> {
    let descriptions = descriptions(from)?;
    let (from, to) = (from.join(KEPT_LOG), to.join(KEPT_LOG));
    if descriptions.is_empty() {
        return Ok(Vec::new());
    }
    fs::create_dir(&to)?;
    let mut lengths = Vec::new();
    for (description, ..) in descriptions {
        for name in [description.trim_end_matches(DESCRIPTION), &description] {
            lengths.push(copy(&from.join(name), &to.join(name))?);
        }
    }
    File::open(&to)?.sync_all()?;
    Ok(lengths)
}

/// The names of a folder's files, without those of folders.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(names)
}

/// Copies the beginning of a file, and makes the copy durable. Returns its length.
fn copy_start(from: &Path, to: &Path, n_bytes_max: u64) -> io::Result<u64> {
    let mut out = File::create(to)?;
    let n_bytes = io::copy(&mut io::Read::take(File::open(from)?, n_bytes_max), &mut out)?;
    out.sync_all()?;
    Ok(n_bytes)
}

/// Copies a whole file, as [`copy_start`] does.
fn copy(from: &Path, to: &Path) -> io::Result<u64> {
    copy_start(from, to, u64::MAX)
}

/// Copies the files of a backup, which no process writes to.
fn copy_files(from: &Path, to: &Path) -> Result<(), BackupError> {
    let names = names(from).map_err(io_error(from))?;
    for name in names.into_iter().filter(|name| kind_of(name).is_some()) {
        copy(&from.join(&name), &to.join(&name)).map_err(io_error(&to.join(&name)))?;
    }
    copy_kept_log(from, to).map_err(io_error(&to.join(KEPT_LOG)))?;
    sync_folder(to)
}

fn sync_folder(folder: &Path) -> Result<(), BackupError> {
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io_error(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lost once: which folder cannot be written to. The message named a folder for work inside it instead.
    #[test]
    fn a_folder_that_takes_no_other_is_named() {
        let outer = tempfile::tempdir().expect("a folder");
        let gone = outer.path().join("gone");
        let error = scratch_beside(&gone.join("store")).expect_err("no folder");
        assert!(matches!(&error, BackupError::Io { path, .. } if *path == gone), "{error}");
    }
}
