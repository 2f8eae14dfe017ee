//! The rows of the intermediate files: pages, documents, postings, pairs, and what the store is loaded with.

mod document;
mod fields;
mod page;
mod pairs;
mod store;

pub use document::{DocumentHead, DocumentRow, RowOffset, TextRow, sketch_bytes};
pub use page::{Outcome, PageRow, Visit};
pub use pairs::{DocumentRange, LinkRow, Pair, Posting, ShortenedIndex};
pub use store::{EquivalenceRow, SightingByDocument, SightingByUrl, UrlCount, UrlRow};
