//! The filter of keys in a file of the store's folder, from one writing process to the next.
//!
//! ```text
//! file  lookalike keys 2 (16), tag (16), sequence number (8), filter, CRC-32 of all before (4)
//! meta  key-filter: tag (16)
//! ```
//! A filter that lacks a key would hide a row. So the file counts only if the row with its tag is the last thing that was
//! written to the database, by its sequence number: after a kill, a power loss, or writes of a program that knows no such
//! file it does not, and the keys are read again.

use super::bloom::Bloom;
use super::db::{family, get_meta};
use super::rocks_error::failed;
use super::schema::{cf, meta};
use crate::ports::StoreError;
use rocksdb::DB;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

/// The name of the file.
const NAME: &str = "key-filter";

/// The name while it is written.
const GROWING: &str = "key-filter.part";

const MAGIC: &[u8; 16] = b"lookalike keys 2";

/// Passes bytes on and sums them up.
struct Summed<F> {
    file: F,
    sum: crc32fast::Hasher,
}

impl<F: Write> Write for Summed<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n_bytes = self.file.write(bytes)?;
        self.sum.update(&bytes[..n_bytes]);
        Ok(n_bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl<F: Read> Read for Summed<F> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let n_bytes = self.file.read(bytes)?;
        self.sum.update(&bytes[..n_bytes]);
        Ok(n_bytes)
    }
}

/// Saves a filter that has all keys. Nothing may be written to the database afterwards.
///
/// # Errors
/// [`StoreError`]; the file then does not count.
pub(super) fn save(db: &DB, store: &Path, bloom: &Bloom) -> Result<(), StoreError> {
    let mut tag = [0; 16];
    getrandom::fill(&mut tag).map_err(|error| StoreError::Failed(format!("cannot read system randomness: {error}")))?;
    let (growing, path) = (store.join(GROWING), store.join(NAME));
    // The row takes the next number.
    let write = || -> io::Result<()> {
        let file = write_file(File::create(&growing)?, &tag, db.latest_sequence_number() + 1, bloom)?;
        file.sync_all()?;
        fs::rename(&growing, &path)
    };
    if let Err(error) = write() {
        let _ = fs::remove_file(&growing);
        return Err(StoreError::Failed(format!("{}: {error}", path.display())));
    }
    db.put_cf(family(db, cf::META)?, meta::KEY_FILTER, tag).map_err(failed)
}

fn write_file(file: File, tag: &[u8; 16], number: u64, bloom: &Bloom) -> io::Result<File> {
    let mut summed = BufWriter::new(Summed { file, sum: crc32fast::Hasher::new() });
    summed.write_all(MAGIC)?;
    summed.write_all(tag)?;
    summed.write_all(&number.to_le_bytes())?;
    bloom.write(&mut summed)?;
    let Summed { mut file, sum } = summed.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.write_all(&sum.finalize().to_le_bytes())?;
    Ok(file)
}

/// Reads the filter of a store, if it counts and takes no more than `n_bytes_max`. Any other file is removed. Nothing may
/// have been written since the store was opened.
pub(super) fn load(db: &DB, store: &Path, n_bytes_max: usize) -> Option<Bloom> {
    let path = store.join(NAME);
    let file = File::open(&path).ok()?;
    let tag = get_meta(db, meta::KEY_FILTER).ok().flatten();
    let bloom = tag.and_then(|tag| read_file(file, &tag, db.latest_sequence_number(), n_bytes_max).ok());
    if bloom.is_none() {
        tracing::debug!("{} is of another time", path.display());
        let _ = fs::remove_file(&path);
    }
    bloom
}

fn read_file(file: File, tag: &[u8], number: u64, n_bytes_max: usize) -> io::Result<Bloom> {
    let n_bytes = file.metadata()?.len();
    let before_sum = file.take(n_bytes.saturating_sub(4));
    let mut summed = BufReader::new(Summed { file: before_sum, sum: crc32fast::Hasher::new() });
    let mut head = [0; 40];
    summed.read_exact(&mut head)?;
    if head[..16] != *MAGIC || head[16..32] != *tag || head[32..] != number.to_le_bytes() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let bloom = Bloom::read(&mut summed, n_bytes, n_bytes_max)?;
    let Summed { file, sum } = summed.into_inner();
    let mut end = [0; 4];
    file.into_inner().read_exact(&mut end)?;
    if end != sum.finalize().to_le_bytes() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(bloom)
}
