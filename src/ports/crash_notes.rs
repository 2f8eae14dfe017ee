//! What outlives a crash: notes for the next process, and who reads them.

use super::store::StoreError;
use crate::wire::Origin;

/// What a process leaves behind for the next one should it die.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CrashNote {
    /// What is known of earlier deaths.
    CrashHistory,
    /// The record in hand.
    Taken,
    /// The place that is being read from.
    Reading,
    /// That the process is dying, and nobody killed it.
    Death,
}

/// What a source asks and tells where reading itself may have killed the program before.
pub trait PoisonGuard: Send + Sync {
    /// Whether no more is to be fetched at once than must be, and each place noted before.
    fn is_cautious(&self) -> bool;

    /// Notes the place that is being fetched from; none: nothing is.
    fn reading(&self, place: Option<&Origin>);

    /// Whether the program died of fetching from a place, again and again.
    fn is_poison(&self, place: &Origin) -> bool;
}

/// A few bytes of each kind that outlive the process, though not the machine.
pub trait CrashNotes: Send + Sync {
    /// What was written last; nothing where nothing was.
    ///
    /// # Errors
    /// [`StoreError`], as of [`Self::write`].
    fn read(&self, note: CrashNote) -> Result<Vec<u8>, StoreError>;

    /// Writes, all or nothing wherever the process is killed. Takes microseconds.
    ///
    /// # Errors
    /// [`StoreError`]
    fn write(&self, note: CrashNote, bytes: &[u8]) -> Result<(), StoreError>;
}
