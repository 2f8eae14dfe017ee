//! The disk space that a backfill needs: a guess before it starts, and an estimate once the documents are known.

use super::checkpoint::Checkpoint;
use super::error::{BackfillError, io_error};
use std::path::Path;

/// Bytes on disk for each byte of a compressed input. A site in zstd took 3.
const BYTES_PER_COMPRESSED_BYTE: u64 = 8;
/// Bytes of a plain input for each byte on disk. The HTML of that site took 28.
const PLAIN_BYTES_PER_BYTE: u64 = 8;

/// Bytes beside the sketches for each document, each index shingle and each page. 30 million synthetic documents took
/// a little less, intermediate files and store together.
const BYTES_PER_DOCUMENT: u64 = 160;
const BYTES_PER_POSTING: u64 = 20;
const BYTES_PER_PAGE: u64 = 230;

/// Bytes of a sketch for each of its shingles.
const SKETCH_BYTES_PER_SHINGLE: u64 = 5;

/// Disk space, needed and free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// Bytes that the backfill may need.
    pub needed: u64,
    /// Bytes that are free.
    pub free: u64,
}

impl DiskSpace {
    /// Guesses from the inputs: the size in bytes of each, and whether it is compressed. Sizes tell little: HTML
    /// needs a tenth of the guess.
    ///
    /// # Errors
    /// [`BackfillError::Io`] where the system does not report the free space.
    pub fn for_inputs(folder: &Path, inputs: impl Iterator<Item = (u64, bool)>) -> Result<Self, BackfillError> {
        let needed = |(n_bytes, is_compressed)| {
            if is_compressed { n_bytes * BYTES_PER_COMPRESSED_BYTE } else { n_bytes / PLAIN_BYTES_PER_BYTE }
        };
        Ok(DiskSpace { needed: inputs.map(needed).sum(), free: free(folder)? })
    }

    /// Estimates what the phases after the first need. They write every sketch once more.
    pub(super) fn for_phases(checkpoint: &Checkpoint) -> Result<Self, BackfillError> {
        let ingested = checkpoint.ingested();
        let sketches: u64 = ingested.segments.iter().map(|segment| segment.documents.n_bytes).sum();
        let n_documents = u64::from(ingested.n_documents());
        let n_postings = match checkpoint.rule().sketch.index_size {
            // All shingles of the sketches are indexed.
            0 => sketches / SKETCH_BYTES_PER_SHINGLE,
            n => n_documents * n as u64,
        };
        let needed = sketches
            + n_documents * BYTES_PER_DOCUMENT
            + n_postings * BYTES_PER_POSTING
            + ingested.counts.n_pages * BYTES_PER_PAGE;
        let written = checkpoint.n_bytes_written() - checkpoint.n_bytes_ingested();
        Ok(DiskSpace { needed: needed.saturating_sub(written), free: free(checkpoint.folder())? })
    }

    /// Whether the disk may become full.
    pub fn is_insufficient(self) -> bool {
        self.needed > self.free
    }
}

fn free(folder: &Path) -> Result<u64, BackfillError> {
    let disk = rustix::fs::statvfs(folder).map_err(|error| io_error(folder)(error.into()))?;
    Ok(disk.f_bavail * disk.f_frsize)
}
