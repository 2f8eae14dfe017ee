//! Crash notes in files: one file per note, at most one page long, written in place.
//!
//! A file holds the length of the note (u32, big-endian), the note, and leftovers of longer notes. Each note is
//! written by one call and fits in one page of memory, so a kill cannot tear it. Nothing is synced: after a power
//! loss no crash needs an explanation.

use crate::ports::{CrashNote, CrashNotes, StoreError};
use std::fs::{File, create_dir_all};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The largest note, with its length.
const PAGE: usize = 4096;

/// The folder of the notes, inside the store's.
const FOLDER: &str = "notes";

/// The bytes of [`CrashNote::Death`], with their length. A crash handler writes them as they are to the file of
/// [`CrashNoteFiles::open_death_note`], because it cannot allocate memory.
pub const DEATH: [u8; 5] = [0, 0, 0, 1, b'+'];

/// The notes of a store.
pub struct CrashNoteFiles([File; 4]);

impl CrashNoteFiles {
    /// Opens the notes of the store in a folder, or creates them.
    ///
    /// # Errors
    /// [`StoreError::Failed`] if a file can neither be opened nor created.
    pub fn open(store: &Path) -> Result<Self, StoreError> {
        create_dir_all(store.join(FOLDER)).map_err(failed)?;
        let file = |name: &str| open_note(store, name);
        Ok(CrashNoteFiles([file("past")?, file("taken")?, file("reading")?, file("death")?]))
    }

    /// Opens the file of [`CrashNote::Death`], positioned at its start, for writing [`DEATH`]. Call [`Self::open`]
    /// first, which creates the folder.
    ///
    /// # Errors
    /// As for [`Self::open`].
    pub fn open_death_note(store: &Path) -> Result<File, StoreError> {
        open_note(store, "death")
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

fn open_note(store: &Path, name: &str) -> Result<File, StoreError> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    options.open(store.join(FOLDER).join(name)).map_err(failed)
}

fn failed(error: std::io::Error) -> StoreError {
    StoreError::Failed(format!("cannot read or write the folder {FOLDER} in the store: {error}"))
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
            return Err(StoreError::Failed(format!(
                "a crash note has {} bytes, more than the limit of {}",
                bytes.len(),
                PAGE - 4
            )));
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
        let kept = |note| CrashNoteFiles::open(folder.path()).expect("opened").read(note).expect("read");
        assert_eq!(kept(CrashNote::CrashHistory), b"");
        let notes = CrashNoteFiles::open(folder.path()).expect("opened");
        for text in ["a long note", "short", ""] {
            notes.write(CrashNote::Taken, text.as_bytes()).expect("written");
            assert_eq!((kept(CrashNote::Taken), kept(CrashNote::CrashHistory)), (text.as_bytes().to_vec(), Vec::new()));
        }
        assert!(notes.write(CrashNote::CrashHistory, &[0; PAGE]).is_err());
        std::io::Write::write_all(&mut CrashNoteFiles::open_death_note(folder.path()).expect("opened"), &DEATH)
            .expect("written");
        assert_eq!((kept(CrashNote::Death), kept(CrashNote::CrashHistory)), (b"+".to_vec(), Vec::new()));
        std::fs::write(folder.path().join("notes/past"), [0, 0, 1, 0, 1]).expect("written");
        assert_eq!(kept(CrashNote::CrashHistory), b"", "a truncated note reads as empty");
    }
}
