//! Notes that outlive the process: a file of a page for each kind, written in place.
//!
//! A page: the length of the note (u32, big-endian), the note, and whatever was there before. It is written by one call
//! within one page of memory, which a kill cannot cut in two, and never synced: what a process died of is not asked after
//! the power was cut.

use crate::ports::{CrashNote, CrashNotes, StoreError};
use std::fs::{File, create_dir_all};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of the file of a note.
const PAGE: usize = 4096;

/// Where in a store's folder the notes are.
const FOLDER: &str = "notes";

/// The note of a death, with its length: what whoever dies writes to [`CrashNoteFiles::death_of`], without any help.
pub const DEATH: [u8; 5] = [0, 0, 0, 1, b'+'];

/// The notes of a store.
pub struct CrashNoteFiles([File; 4]);

impl CrashNoteFiles {
    /// Opens, or makes, the notes of the store in a folder.
    ///
    /// # Errors
    /// [`StoreError::Failed`] where the files cannot be.
    pub fn of(store: &Path) -> Result<Self, StoreError> {
        create_dir_all(store.join(FOLDER)).map_err(failed)?;
        let file = |name: &str| opened(store, name);
        Ok(CrashNoteFiles([file("past")?, file("taken")?, file("reading")?, file("death")?]))
    }

    /// The file of [`CrashNote::Death`] in the store of a folder, to write [`DEATH`] to where it stands: at its beginning.
    ///
    /// # Errors
    /// As of [`Self::of`], which is to come first.
    pub fn death_of(store: &Path) -> Result<File, StoreError> {
        opened(store, "death")
    }

    fn file(&self, note: CrashNote) -> &File {
        let [past, taken, reading, death] = &self.0;
        match note {
            CrashNote::CrashHistory => past,
            CrashNote::Taken => taken,
            CrashNote::Reading => reading,
            CrashNote::Death => death,
        }
    }
}

fn opened(store: &Path, name: &str) -> Result<File, StoreError> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    options.open(store.join(FOLDER).join(name)).map_err(failed)
}

fn failed(error: std::io::Error) -> StoreError {
    StoreError::Failed(format!("the store's notes: {error}"))
}

impl CrashNotes for CrashNoteFiles {
    fn read(&self, note: CrashNote) -> Result<Vec<u8>, StoreError> {
        let mut page = Vec::new();
        let mut file = self.file(note);
        std::io::Seek::rewind(&mut file).map_err(failed)?;
        std::io::Read::read_to_end(&mut file, &mut page).map_err(failed)?;
        let Some((length, rest)) = page.split_first_chunk::<4>() else { return Ok(Vec::new()) };
        Ok(rest.get(..u32::from_be_bytes(*length) as usize).unwrap_or_default().to_vec())
    }

    fn write(&self, note: CrashNote, bytes: &[u8]) -> Result<(), StoreError> {
        if bytes.len() + 4 > PAGE {
            return Err(StoreError::Failed(format!("a note of {} bytes is too long", bytes.len())));
        }
        let page = [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat();
        self.file(note).write_all_at(&page, 0).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_last_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let kept = |note| CrashNoteFiles::of(folder.path()).expect("opened").read(note).expect("read");
        assert_eq!(kept(CrashNote::CrashHistory), b"");
        let notes = CrashNoteFiles::of(folder.path()).expect("opened");
        for text in ["a long note", "short", ""] {
            notes.write(CrashNote::Taken, text.as_bytes()).expect("written");
            assert_eq!((kept(CrashNote::Taken), kept(CrashNote::CrashHistory)), (text.as_bytes().to_vec(), Vec::new()));
        }
        assert!(notes.write(CrashNote::CrashHistory, &[0; PAGE]).is_err());
        std::io::Write::write_all(&mut CrashNoteFiles::death_of(folder.path()).expect("opened"), &DEATH)
            .expect("written");
        assert_eq!((kept(CrashNote::Death), kept(CrashNote::CrashHistory)), (b"+".to_vec(), Vec::new()));
        std::fs::write(folder.path().join("notes/past"), [0, 0, 1, 0, 1]).expect("written");
        assert_eq!(kept(CrashNote::CrashHistory), b"", "one that is cut short is none");
    }
}
