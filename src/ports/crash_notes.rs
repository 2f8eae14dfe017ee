//! Notes that outlive a crash, and the guard that reads them back.

use super::store::StoreError;
use crate::wire::Origin;

/// A note that a process leaves for the next one in case it crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CrashNote {
    /// Earlier crashes.
    CrashHistory,
    /// The record being processed.
    Taken,
    /// The offset being fetched.
    Reading,
    /// The process is crashing by itself, not killed from outside.
    Death,
}

/// Protects a source from records that crash the program while they are fetched.
pub trait PoisonGuard: Send + Sync {
    /// Whether the source must fetch as little as possible at once, and note each offset before it fetches.
    fn is_cautious(&self) -> bool;

    /// Notes the offset that the source is about to fetch; `None` once the fetch is over.
    fn reading(&self, place: Option<&Origin>);

    /// Whether fetching this offset has crashed the program repeatedly.
    fn is_poison(&self, place: &Origin) -> bool;
}

/// Small notes that survive the end of the process, though not a power loss.
pub trait CrashNotes: Send + Sync {
    /// The last note written; empty if there is none.
    ///
    /// # Errors
    /// As for [`Self::write`].
    fn read(&self, note: CrashNote) -> Result<Vec<u8>, StoreError>;

    /// Replaces a note. A kill at any moment leaves the old note or the new one. Takes microseconds.
    ///
    /// # Errors
    /// [`StoreError`]
    fn write(&self, note: CrashNote, bytes: &[u8]) -> Result<(), StoreError>;
}
