//! An input that can be read from any place: a file of this machine, or an object of a store or of the web.

use super::compression::{IdleDecoders, decompressed};
use crate::document::FetchTime;
#[cfg(feature = "object-store")]
use crate::objects::{Object, ObjectFile};
use crate::ports::InputState;
use bytes::Bytes;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{ChunkReader, Length};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::UNIX_EPOCH;

/// The URL that a path is, if it is one. `file://` is not: it names a path.
pub fn url_of(path: &Path) -> Option<&str> {
    let text = path.to_str()?;
    let (scheme, _) = text.split_once("://")?;
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    (is_scheme && !scheme.eq_ignore_ascii_case("file")).then_some(text)
}

/// The path that a `file://` URL names; any other path as it is.
pub(super) fn local_path(path: &Path) -> &Path {
    path.to_str()
        .and_then(|text| text.strip_prefix("file://"))
        .filter(|path| path.starts_with('/'))
        .map_or(path, Path::new)
}

/// An input that is open.
#[derive(Debug)]
pub enum InputFile {
    /// A file of this machine, a pipe or a device.
    Local(File),
    /// An object of a store or of the web.
    #[cfg(feature = "object-store")]
    Object(ObjectFile),
}

impl InputFile {
    /// Opens a file, or an object by its URL.
    ///
    /// # Errors
    /// Where there is none, or it cannot be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        match url_of(path) {
            None => Ok(InputFile::Local(File::open(path)?)),
            #[cfg(feature = "object-store")]
            Some(url) => Ok(InputFile::Object(ObjectFile::new(Object::find(url)?))),
            #[cfg(not(feature = "object-store"))]
            Some(_) => Err(no_objects()),
        }
    }
}

/// Opens a file or an object of text, without its compression.
///
/// # Errors
/// As [`InputFile::open`], or where its first bytes cannot be read.
pub fn open_text(path: &Path) -> io::Result<Box<dyn Read + Send>> {
    decompressed(Box::new(InputFile::open(path)?), &IdleDecoders::default())
}

/// What a program says that was built without object stores.
#[cfg(not(feature = "object-store"))]
pub(crate) fn no_objects() -> io::Error {
    let what =
        "this program was built without object stores; build it with the feature object-store, or fetch the file";
    io::Error::new(io::ErrorKind::Unsupported, what)
}

/// What is known of an input that is a file or an object; none of a pipe or a device.
///
/// # Errors
/// Where there is no such input, or it cannot be asked.
pub fn state_of(path: &Path) -> io::Result<Option<InputState>> {
    match url_of(path) {
        None => {
            let metadata = path.metadata()?;
            let micros = || i64::try_from(metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?.as_micros()).ok();
            Ok(metadata.is_file().then(|| InputState { n_bytes: metadata.len(), changed_at: micros().map(FetchTime) }))
        }
        #[cfg(feature = "object-store")]
        Some(url) => {
            let object = Object::find(url)?;
            Ok(Some(InputState { n_bytes: object.n_bytes(), changed_at: Some(FetchTime(object.changed_at())) }))
        }
        #[cfg(not(feature = "object-store"))]
        Some(_) => Err(no_objects()),
    }
}

impl Read for InputFile {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            InputFile::Local(file) => file.read(out),
            #[cfg(feature = "object-store")]
            InputFile::Object(file) => file.read(out),
        }
    }
}

impl Seek for InputFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            InputFile::Local(file) => file.seek(to),
            #[cfg(feature = "object-store")]
            InputFile::Object(file) => file.seek(to),
        }
    }
}

impl Length for InputFile {
    fn len(&self) -> u64 {
        match self {
            InputFile::Local(file) => Length::len(file),
            #[cfg(feature = "object-store")]
            InputFile::Object(file) => file.n_bytes(),
        }
    }
}

impl ChunkReader for InputFile {
    type T = BufReader<InputFile>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        Ok(BufReader::new(match self {
            InputFile::Local(file) => {
                let mut file = file.try_clone()?;
                file.seek(SeekFrom::Start(start))?;
                InputFile::Local(file)
            }
            #[cfg(feature = "object-store")]
            InputFile::Object(file) => InputFile::Object(file.at(start)),
        }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let mut bytes = Vec::with_capacity(length);
        let n_read = self.get_read(start)?.take(length as u64).read_to_end(&mut bytes)?;
        if n_read != length {
            return Err(ParquetError::EOF(format!("there are {n_read} of {length} bytes at {start}")));
        }
        Ok(bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_urls_are_told_apart() {
        for url in ["s3://bucket/a", "https://host/a%20b", "HTTP://host", "az+x://b"] {
            assert_eq!(url_of(Path::new(url)), Some(url));
        }
        for path in ["a/b", "/a://b", "file:///a/b", "", "://a", "1://a", "a:/b"] {
            assert_eq!(url_of(Path::new(path)), None, "{path}");
        }
        assert_eq!(local_path(Path::new("file:///a/b")), Path::new("/a/b"));
        assert_eq!(local_path(Path::new("file://host/b")), Path::new("file://host/b"));
        assert_eq!(local_path(Path::new("a/b")), Path::new("a/b"));
    }
}
