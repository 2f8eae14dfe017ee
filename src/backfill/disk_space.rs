//! How much room on the disk a backfill needs: a guess before it starts, a better one once its documents are known.

use crate::backfill::checkpoint::Checkpoint;
use crate::backfill::error::{BackfillError, io_error};
use std::path::Path;

/// Bytes for each byte of a compressed input; of one that is not, a byte for so many. Seen: 3 for each of a site in zstd, a
/// byte for 28 of its HTML.
const FOR_COMPRESSED: u64 = 8;
const PLAIN: u64 = 8;

/// Bytes beside the sketches of a document for itself, for each shingle that indexes it, and for each page, rounded up from
/// what 30 million made-up documents took, files on the way and store together.
const A_DOCUMENT: u64 = 160;
const A_POSTING: u64 = 20;
const A_PAGE: u64 = 230;

/// The room that there is and the room that is needed, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// As much may be needed, about.
    pub needed: u64,
    /// As much is free.
    pub free: u64,
}

impl DiskSpace {
    /// Before anything is read: for inputs of so many bytes, each compressed or not. Guessed from their sizes, which tell
    /// little; HTML takes a tenth of it.
    ///
    /// # Errors
    /// [`BackfillError::Io`] where the system does not tell what is free.
    pub fn for_inputs(folder: &Path, inputs: impl Iterator<Item = (u64, bool)>) -> Result<Self, BackfillError> {
        let of = |(n_bytes, is_compressed)| if is_compressed { n_bytes * FOR_COMPRESSED } else { n_bytes / PLAIN };
        Ok(DiskSpace { needed: inputs.map(of).sum(), free: free(folder)? })
    }

    /// For the phases after the first, in which every document's sketch is written once more.
    pub(super) fn for_phases(checkpoint: &Checkpoint) -> Result<Self, BackfillError> {
        let ingested = checkpoint.ingested();
        let sketches: u64 = ingested.pieces.iter().map(|piece| piece.documents.n_bytes).sum();
        let n_documents = u64::from(ingested.n_documents());
        let n_postings = match checkpoint.rule().sketch.index_size {
            // All shingles of the sketches; one takes five bytes of them.
            0 => sketches / 5,
            n => n_documents * n as u64,
        };
        let needed = sketches + n_documents * A_DOCUMENT + n_postings * A_POSTING + ingested.counts.n_pages * A_PAGE;
        let written = checkpoint.n_bytes_in_all() - checkpoint.n_bytes_ingested();
        Ok(DiskSpace { needed: needed.saturating_sub(written), free: free(checkpoint.folder())? })
    }

    /// Whether it may not do.
    pub fn is_insufficient(self) -> bool {
        self.needed > self.free
    }
}

fn free(folder: &Path) -> Result<u64, BackfillError> {
    let disk = rustix::fs::statvfs(folder).map_err(|error| io_error(folder)(error.into()))?;
    Ok(disk.f_bavail * disk.f_frsize)
}
