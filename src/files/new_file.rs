//! Files that get their name only once they are whole.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file under way, beside its final name. [`NewFile::finish`] gives it the name; dropped before, it leaves nothing.
#[derive(Debug)]
pub struct NewFile {
    file: File,
    /// None for a device or a pipe, which is written directly, and once the file has its name.
    growing: Option<PathBuf>,
    path: PathBuf,
}

impl NewFile {
    /// Begins a file that will have this path, and replaces what has it. A device or a pipe of this name is written
    /// directly.
    ///
    /// # Errors
    /// Where the system refuses to create the file.
    pub fn create(path: &Path) -> io::Result<Self> {
        match path.metadata() {
            Ok(metadata) if !metadata.is_file() => {
                let file = File::options().write(true).open(path)?;
                Ok(NewFile { file, growing: None, path: path.to_path_buf() })
            }
            there => {
                // A link stays; the file that it leads to is replaced.
                let path = if there.is_ok() { path.canonicalize()? } else { path.to_path_buf() };
                let mut name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?.to_os_string();
                name.push(format!(".{}.part", std::process::id()));
                let growing = path.with_file_name(name);
                Ok(NewFile { file: File::create(&growing)?, growing: Some(growing), path })
            }
        }
    }

    /// Writes a whole file.
    ///
    /// # Errors
    /// As of [`NewFile::create`] and [`NewFile::finish`], or where the disk is full.
    pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = Self::create(path)?;
        file.write_all(bytes)?;
        file.finish()
    }

    /// Makes the file durable and gives it its name.
    ///
    /// # Errors
    /// Where the system refuses; no file has the name then that did not have it before.
    pub fn finish(mut self) -> io::Result<()> {
        if let Some(growing) = &self.growing {
            self.file.sync_all()?;
            rename_durably(growing, &self.path)?;
            self.growing = None;
        }
        Ok(())
    }
}

/// Gives a file that is durable another name in its folder, which is durable then, too.
///
/// # Errors
/// Where the system refuses.
pub fn rename_durably(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(growing) = &self.growing {
            // Whatever ended the writing is reported by the writer.
            let _ = fs::remove_file(growing);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_name_only_when_it_is_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out.csv");
        let names = || fs::read_dir(folder.path()).expect("a folder").count();
        for (text, is_finished) in [("cut", false), ("first", true), ("cut again", false), ("second", true)] {
            let before = fs::read_to_string(&path).ok();
            let mut file = NewFile::create(&path).expect("created");
            file.write_all(text.as_bytes()).expect("written");
            assert_eq!(fs::read_to_string(&path).ok(), before, "half a file has no name");
            if is_finished {
                file.finish().expect("finished");
                assert_eq!(fs::read_to_string(&path).expect("whole"), text);
            } else {
                drop(file);
                assert_eq!(fs::read_to_string(&path).ok(), before);
            }
            assert_eq!(names(), usize::from(path.exists()), "nothing stays beside it");
        }
        assert!(NewFile::create(&folder.path().join("no/folder")).is_err());
    }

    #[test]
    fn a_device_is_written_directly() {
        let mut file = NewFile::create(Path::new("/dev/null")).expect("opened");
        file.write_all(b"x").expect("written");
        file.finish().expect("finished");
        assert!(!Path::new("/dev/null").metadata().expect("there").is_file());
    }
}
