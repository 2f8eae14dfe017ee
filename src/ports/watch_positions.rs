//! Where the watches of kept events go on after a restart.

use super::store::StoreError;

/// Remembers how far those who take kept events are.
pub trait WatchPositions: Send + Sync {
    /// The number of the next event for a watch of this name; none before its first note.
    ///
    /// # Errors
    /// [`StoreError`]
    fn position(&self, watch: &str) -> Result<Option<u64>, StoreError>;

    /// Notes the number of the next event for a watch. The note outlives the process; of what it followed in the store, it
    /// never outlives a power loss alone.
    ///
    /// # Errors
    /// [`StoreError`]
    fn note_position(&self, watch: &str, next: u64) -> Result<(), StoreError>;
}
