//! Where the originals of WARC revisits are: by the digest of what they hold, in the files that were read.

use super::gzip_members::GzipMembers;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most originals whose place is kept: 2 million, which take some 100 MiB. Revisits of later ones are rejected.
const ORIGINALS_MAX: usize = 2 << 20;
/// The most bytes that are unpacked in vain to reach an original: archives begin a gzip member with each record.
const SKIP_BYTES_MAX: u64 = 1 << 20;

/// Where the records of a stream are in its file.
#[derive(Clone)]
pub(super) struct Location {
    pub(super) path: Arc<Path>,
    /// Where the stream begins in the file.
    pub(super) from: u64,
    /// The members of the stream, if it is compressed.
    pub(super) members: Option<GzipMembers>,
}

/// Where a record is.
#[derive(Clone)]
pub(super) struct Place {
    pub(super) path: Arc<Path>,
    /// Where to begin to read the file, packed or not.
    pub(super) from: u64,
    /// Unpacked bytes before the record.
    pub(super) n_skipped: u64,
}

impl Location {
    /// The place of the record that begins at an unpacked position of the stream, unless it would take long to reach.
    pub(super) fn place(&self, position: u64) -> Option<Place> {
        let (from, n_skipped) = match &self.members {
            None => (self.from + position, 0),
            Some(members) => {
                let (packed, unpacked) = members.before(position)?;
                (self.from + packed, position - unpacked)
            }
        };
        (n_skipped <= SKIP_BYTES_MAX).then(|| Place { path: Arc::clone(&self.path), from, n_skipped })
    }
}

/// The places of originals by the digest of their payload, for all inputs of a source. Memory is bounded, and a digest
/// is kept as a hash: after reading the record at a place, compare the digests.
#[derive(Clone, Default)]
pub(super) struct Originals {
    places: Arc<Mutex<Places>>,
    /// Files that hold originals and were not read, because what needs their pages has them. Locked while they are read, so
    /// that others that need an original wait for them.
    unread: Arc<Mutex<Vec<ReadFile>>>,
}

#[derive(Default)]
struct Places {
    hasher: RandomState,
    by_digest: HashMap<u64, Place>,
}

/// Reads a file for the places of its originals alone.
pub(super) type ReadFile = Box<dyn FnOnce(&Originals) + Send>;

impl Originals {
    /// Keeps the place of an original; of several with one digest, the first.
    pub(super) fn insert(&self, digest: &str, place: Place) {
        let mut places = self.places();
        let key = places.hasher.hash_one(digest);
        if places.by_digest.len() < ORIGINALS_MAX {
            places.by_digest.entry(key).or_insert(place);
        }
    }

    /// Keeps a file in mind that is read once an original is not found elsewhere.
    pub(super) fn add_unread(&self, read: ReadFile) {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner).push(read);
    }

    /// Where a record with this digest may be. Reads the files that were not read, if it must.
    pub(super) fn get(&self, digest: &str) -> Option<Place> {
        self.known(digest).or_else(|| {
            let mut unread = self.unread.lock().unwrap_or_else(PoisonError::into_inner);
            if !unread.is_empty() {
                tracing::info!(
                    "a revisit has its original in one of {} files that are read again for it",
                    unread.len()
                );
                unread.drain(..).for_each(|read| read(self));
            }
            self.known(digest)
        })
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self, digest: &str) -> Option<Place> {
        let places = self.places();
        places.by_digest.get(&places.hasher.hash_one(digest)).cloned()
    }
}
