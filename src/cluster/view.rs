//! The views: what the decisions need to read from the store.

use crate::document::DocumentId;
use crate::sketch::{Shingle, Sketch};
use std::sync::Arc;

/// Reads sketches, as both decisions need them: where a page belongs, and what changes in the history of its URL.
pub trait SketchView {
    /// What can go wrong in reading.
    type Error;

    /// Returns the sketches of `documents`, in the same order.
    ///
    /// # Errors
    /// The store's error.
    fn sketches(&self, documents: &[DocumentId]) -> Result<Vec<Arc<Sketch>>, Self::Error>;
}

/// The store as a decision sees it. `Decider::prefetch` reads what it can foresee by the batch; the rest is read
/// on demand.
pub trait View: SketchView<Error: From<TooManyDocuments>> {
    /// Returns, for each shingle, the documents that it indexes.
    ///
    /// # Errors
    /// The store's error.
    fn postings(&self, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, Self::Error>;

    /// Returns, for each super shingle, the documents that have it.
    ///
    /// # Errors
    /// The store's error.
    fn supers(&self, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, Self::Error>;
}

/// The store has no document ids left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store holds 4,294,967,295 documents, the most that it can; start another one")]
pub struct TooManyDocuments;
