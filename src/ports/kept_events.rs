//! The events that a store keeps after they were published, for those who read them there.

use super::store::StoreError;
use crate::wire::Outgoing;
use std::ops::Range;

/// Reads the events that a store keeps. They are durable: no crash takes back what was read here.
pub trait KeptEvents: Send + Sync {
    /// The number of the next event, as far as is known without any work; not all before it need be durable.
    fn newest(&self) -> u64;

    /// The numbers of the events that are there: of the first one, and of the next that will come. None where the store
    /// keeps no events.
    ///
    /// # Errors
    /// [`StoreError`], as for [`Self::read`].
    fn range(&self) -> Result<Option<Range<u64>>, StoreError>;

    /// The events from a number on, without a gap: as many as take some `n_bytes` in the store, and one at least. Empty
    /// where none follow yet; `None` where the first one is not kept any more. A forgotten event has no bytes.
    ///
    /// # Errors
    /// [`StoreError`]
    fn read(&self, from: u64, n_bytes: usize) -> Result<Option<Vec<Outgoing>>, StoreError>;
}
