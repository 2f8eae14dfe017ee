//! The folder of a store that is written: whether it is still the one that was opened.

use crate::ports::StoreError;
use std::fs::metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A store's folder, known by its lock: the one file that is neither replaced nor deleted as long as the store is open.
#[derive(Clone, Debug)]
pub(super) struct StoreFolder {
    store: PathBuf,
    lock: (u64, u64),
}

impl StoreFolder {
    /// The folder of a store that this process has just opened.
    ///
    /// # Errors
    /// [`StoreError::Failed`] where it is gone already.
    pub fn of(store: &Path) -> Result<Self, StoreError> {
        let lock = lock_of(store).ok_or_else(|| gone(store))?;
        Ok(StoreFolder { store: store.to_path_buf(), lock })
    }

    /// Checks that the folder is still there. Where it is not, writing and syncing go on without an error, into files that
    /// nobody will find.
    ///
    /// # Errors
    /// [`StoreError::Failed`] where it is gone, or another one.
    pub fn is_there(&self) -> Result<(), StoreError> {
        if lock_of(&self.store) == Some(self.lock) { Ok(()) } else { Err(gone(&self.store)) }
    }
}

/// Device and number of a store's lock.
fn lock_of(store: &Path) -> Option<(u64, u64)> {
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
    fn a_folder_that_is_gone_or_another_one_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let (store, away) = (folder.path().join("store"), folder.path().join("away"));
        let make = |store: &Path| {
            fs::create_dir(store).expect("made");
            fs::write(store.join("LOCK"), "").expect("written");
        };
        assert!(StoreFolder::of(&store).is_err());
        make(&store);
        let home = StoreFolder::of(&store).expect("there");
        assert!(home.is_there().is_ok());
        fs::rename(&store, &away).expect("moved");
        assert!(home.is_there().is_err_and(|error| error.to_string().contains("deleted, moved or replaced")));
        make(&store);
        assert!(home.is_there().is_err(), "it is another one");
        fs::remove_dir_all(&store).expect("removed");
        fs::rename(&away, &store).expect("moved back");
        assert!(home.is_there().is_ok());
    }
}
