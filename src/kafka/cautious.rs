//! Reading where reading may have crashed the program: librdkafka decompresses whole batches before any inspection.
//!
//! A hostile batch expands by a factor of a thousand. In cautious mode the source fetches from one partition at a time,
//! one batch after the other, and notes the position before each fetch. A position noted at one crash after another is
//! skipped: `packed_end` finds the end of its batch without decompressing it.

use crate::ports::PoisonGuard;
use std::sync::Arc;

/// The state of a source in cautious mode.
pub(super) struct CautiousReader {
    pub(super) guard: Arc<dyn PoisonGuard>,
    /// The partition being fetched from.
    pub(super) current: Option<i32>,
}

impl CautiousReader {
    /// Creates a reader if the guard asks for caution.
    pub(super) fn new_if_needed(guard: &Arc<dyn PoisonGuard>) -> Option<Self> {
        guard.is_cautious().then(|| CautiousReader { guard: Arc::clone(guard), current: None })
    }

    /// Forgets the current partition; the source then assigns one again, from its present position.
    pub(super) fn reset(&mut self) {
        self.current = None;
    }
}
