//! Which inputs a store has taken in to their end, so that they need not be read again.

use super::store::StoreError;
use crate::document::FetchTime;

/// The size of an input, and when it was last changed. A file with another state holds other bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputState {
    /// Its size.
    pub n_bytes: u64,
    /// When it was last changed, where that is known.
    pub changed_at: Option<FetchTime>,
}

/// Notes of the inputs that were read to their end. A lost note costs reading: what the store has of an input is skipped.
pub trait InputNotes: Send {
    /// The state of an input when it was last read to its end; none where it was not.
    ///
    /// # Errors
    /// [`StoreError`]
    fn taken_in(&self, input: &str) -> Result<Option<InputState>, StoreError>;

    /// Notes that all records of an input in this state are durable.
    ///
    /// # Errors
    /// [`StoreError`]
    fn note_taken_in(&self, input: &str, state: InputState) -> Result<(), StoreError>;
}
