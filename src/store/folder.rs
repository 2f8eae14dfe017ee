//! The folder of an open store, and the check that it is still the same one.

use crate::ports::StoreError;
use std::fs::metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A store's folder, identified by its `LOCK`: the one file that RocksDB neither replaces nor deletes while the store
/// is open.
#[derive(Clone, Debug)]
pub(super) struct StoreFolder {
    store: PathBuf,
    lock: (u64, u64),
}

impl StoreFolder {
    /// Remembers the folder of a store that this process has just opened.
    ///
    /// # Errors
    /// [`StoreError::Failed`] if the folder is already gone.
    pub fn new(store: &Path) -> Result<Self, StoreError> {
        let lock = lock_id(store).ok_or_else(|| gone(store))?;
        Ok(StoreFolder { store: store.to_path_buf(), lock })
    }

    /// Checks that the folder is still in its place. Without this check, writes and syncs to a deleted folder succeed
    /// and the data is lost.
    ///
    /// # Errors
    /// [`StoreError::Failed`] if the folder is gone, or another one has taken its place.
    pub fn check(&self) -> Result<(), StoreError> {
        if lock_id(&self.store) == Some(self.lock) { Ok(()) } else { Err(gone(&self.store)) }
    }
}

/// Device and inode of a store's `LOCK`.
fn lock_id(store: &Path) -> Option<(u64, u64)> {
    let lock = metadata(store.join("LOCK")).ok()?;
    Some((lock.dev(), lock.ino()))
}

fn gone(store: &Path) -> StoreError {
    StoreError::Failed(format!(
        "the folder {} was deleted, moved or replaced while it was in use; bring it back, or restore a copy, and run again",
        store.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_missing_or_replaced_folder_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let (store, away) = (folder.path().join("store"), folder.path().join("away"));
        let make = |store: &Path| {
            fs::create_dir(store).expect("made");
            fs::write(store.join("LOCK"), "").expect("written");
        };
        assert!(StoreFolder::new(&store).is_err());
        make(&store);
        let opened = StoreFolder::new(&store).expect("there");
        assert!(opened.check().is_ok());
        fs::rename(&store, &away).expect("moved");
        assert!(opened.check().is_err_and(|error| error.to_string().contains("deleted, moved or replaced")));
        make(&store);
        assert!(opened.check().is_err(), "another folder is in its place");
        fs::remove_dir_all(&store).expect("removed");
        fs::rename(&away, &store).expect("moved back");
        assert!(opened.check().is_ok());
    }
}
