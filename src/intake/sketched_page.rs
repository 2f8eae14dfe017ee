//! A page with its sketch, and the record that it came in.

use super::kept_text::KeptText;
use crate::document::FetchTime;
use crate::related::Said;
use crate::sketch::SketchedContent;
use crate::wire::{Origin, Rejection};
use std::sync::Arc;

/// A page with everything that clustering needs to know about it.
#[derive(Clone, Debug)]
pub struct SketchedPage {
    /// The page's URL.
    pub url: String,
    /// When the crawler saw it.
    pub fetched_at: FetchTime,
    /// The sweep that saw it.
    pub sweep: Option<String>,
    /// The content; `None` if the page no longer exists or is elsewhere. It is shared: pages of equal bytes have the same.
    pub content: Option<Arc<SketchedContent>>,
    /// Where the page is now; only without content.
    pub redirect_to: Option<String>,
    /// What the page says about itself and others, where the sketcher reads that.
    pub said: Option<Arc<Said>>,
    /// The text to keep if the page brings a document, where texts are kept.
    pub text: Option<KeptText>,
}

/// A record with what sketching it gave.
pub struct SketchedRecord {
    /// The record's source and its position there.
    pub origin: Origin,
    /// The source's chain after this record, as in `ports::Progress`.
    pub chain: u64,
    /// Bytes of the record as it came.
    pub n_bytes: usize,
    /// The page, or why the record is none.
    pub outcome: Result<SketchedPage, Rejection>,
}
