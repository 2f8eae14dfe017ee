//! The view: what a decision asks of the store.

use crate::document::DocumentId;
use crate::sketch::{Shingle, Sketch};
use std::sync::Arc;

/// What the store knows, asked for as it is needed: by the batch where that can be foreseen (see [`Decider::learn`]).
pub trait View {
    /// What can go wrong in reading.
    type Error: From<TooManyDocuments>;

    /// The documents in which each of some shingles stands.
    ///
    /// # Errors
    /// Whatever keeps the view from reading them.
    fn postings(&mut self, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, Self::Error>;

    /// The same of super shingles.
    ///
    /// # Errors
    /// Whatever keeps the view from reading them.
    fn supers(&mut self, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, Self::Error>;

    /// The sketches of some documents, in their order.
    ///
    /// # Errors
    /// Whatever keeps the view from reading them.
    fn sketches(&mut self, documents: &[DocumentId]) -> Result<Vec<Arc<Sketch>>, Self::Error>;
}

/// The store has given out its last document id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store holds 4,294,967,295 documents, the most that it can; start another one")]
pub struct TooManyDocuments;
