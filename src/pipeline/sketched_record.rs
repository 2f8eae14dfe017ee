//! Records between the sketchers and the store.

use crate::document::DocumentId;
use crate::intake::SketchedPage;
use crate::sketch::SketchedContent;
use crate::wire::{Message, Origin, Rejection};

/// The records of a [`Chunk`](super::ingest::Chunk).
pub(super) struct SketchedChunk {
    /// The records, in order.
    pub records: Vec<SketchedRecord>,
    /// Whether the source may have had more at hand when it gave them.
    pub has_more: bool,
}

/// A record ready to be looked up and decided.
pub(super) struct SketchedRecord {
    /// Where it came from.
    pub origin: Origin,
    /// Where the source stood before it.
    pub from: i64,
    /// [`crate::ports::Progress::chain`] of its partition after it.
    pub chain: u64,
    /// The sketched page, or why the record is none.
    pub outcome: Result<SketchedPage, Rejection>,
    /// The document that the page is identical to, where the store had it before the page was sketched. The page then has no
    /// content.
    pub stored: Option<DocumentId>,
    /// The original message of a rejected record, where it is kept.
    pub original: Option<Box<Message>>,
}

impl SketchedRecord {
    /// What was sketched of the page, if anything.
    pub fn content(&self) -> Option<&SketchedContent> {
        self.outcome.as_ref().ok()?.content.as_deref()
    }

    /// Whether a page stands at its URL.
    pub fn is_page(&self) -> bool {
        self.stored.is_some() || self.content().is_some()
    }

    /// Where its partition goes on after it.
    pub fn next_offset(&self) -> i64 {
        let gap_to = self.outcome.as_ref().err().and_then(|rejection| rejection.gap_to);
        gap_to.unwrap_or(self.origin.offset + 1)
    }
}
