//! Folders for work that is worth nothing once its process has ended.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The folder in which a path lies.
pub(super) fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// An empty folder that is removed unless it is renamed. It is locked as long as its process works on it. On file systems that
/// lock no folders it is not, and nothing but its own process removes it.
#[derive(Debug)]
pub struct ScratchFolder {
    folder: PathBuf,
    _lock: Option<File>,
}

impl ScratchFolder {
    /// Makes a folder beside a path, named after it, and removes those that killed processes left there.
    ///
    /// # Errors
    /// Where the system refuses to create a folder there.
    pub fn beside(path: &Path) -> io::Result<Self> {
        remove_abandoned(path);
        let mut name = path.file_name().unwrap_or(path.as_os_str()).to_os_string();
        name.push(format!(".{}.part", std::process::id()));
        let folder = path.with_file_name(name);
        loop {
            fs::create_dir(&folder)?;
            let lock = File::open(&folder).and_then(|lock| lock.lock().map(|()| lock)).ok();
            // Before it is locked, another process may take it for abandoned.
            if folder.exists() {
                return Ok(ScratchFolder { folder, _lock: lock });
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.folder
    }
}

/// Removes the scratch folders that killed processes left beside a path. A folder that is still in use is locked.
fn remove_abandoned(path: &Path) {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else { return };
    for entry in fs::read_dir(parent_of(path)).into_iter().flatten().flatten() {
        let sibling = entry.file_name();
        let number =
            sibling.to_str().and_then(|sibling| sibling.strip_prefix(name)?.strip_prefix('.')?.strip_suffix(".part"));
        if number.is_some_and(|number| number.parse::<u32>().is_ok())
            && File::open(entry.path()).is_ok_and(|folder| folder.try_lock().is_ok())
        {
            // What stays takes space, and nothing else.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // Nothing is there once it is renamed.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lost once: the space of a copy for each backup that was killed.
    #[test]
    fn what_killed_processes_left_is_removed_and_nothing_else() {
        let outer = tempfile::tempdir().expect("a folder");
        let folder = |name: &str| outer.path().join(name);
        for name in ["store.17.part", "store.18.part", "store.x.part", "store.19", "other.17.part"] {
            fs::create_dir(folder(name)).expect("made");
            fs::write(folder(name).join("table"), "rows").expect("written");
        }
        let at_work = File::open(folder("store.18.part")).expect("a folder");
        at_work.try_lock().expect("locked");
        let scratch = ScratchFolder::beside(&folder("store")).expect("a folder");
        assert!(!folder("store.17.part").exists());
        for name in ["store.18.part", "store.x.part", "store.19", "other.17.part"] {
            assert!(folder(name).exists(), "{name}");
        }
        remove_abandoned(&folder("store"));
        assert!(scratch.folder.exists(), "a process does not remove its own");
        drop(at_work);
        fs::rename(&scratch.folder, folder("backup")).expect("renamed");
        drop(scratch);
        remove_abandoned(&folder("store"));
        assert!(!folder("store.18.part").exists() && folder("backup").exists());
    }
}
