//! The views: what the decisions need to read from the store.

use super::index_query::IndexQuery;
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

    /// Returns what [`postings`](Self::postings) does, but may leave lists unread that the decisions over `pages` can be expected
    /// not to need: those of a page of which fewer shingles than [`needed`](IndexQuery::needed) have documents nominate none.
    ///
    /// # Errors
    /// The store's error.
    fn postings_for(&self, shingles: &[Shingle], pages: &[IndexQuery]) -> Result<Vec<PostingList>, Self::Error> {
        let _ = pages;
        Ok(self.postings(shingles)?.into_iter().map(PostingList::Read).collect())
    }

    /// Returns, for each super shingle, the documents that have it.
    ///
    /// # Errors
    /// The store's error.
    fn supers(&self, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, Self::Error>;
}

/// The list of an index shingle, as far as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PostingList {
    /// All documents.
    Read(Vec<DocumentId>),
    /// At most [`unread_max`](super::MatchRule::unread_max) documents, if any.
    Unread(UnreadIn),
}

/// Where the documents of a list are that was left unread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UnreadIn {
    /// In a part of the store. No document is in two parts.
    Part(u32),
    /// In several parts, perhaps.
    Several,
}

impl UnreadIn {
    /// Whether as many as `n` of some lists may have the same document.
    pub fn may_share(lists: impl Iterator<Item = Self> + Clone, n: usize) -> bool {
        // Nearly always there are too few.
        if lists.clone().count() < n {
            return false;
        }
        let mut lists: Vec<Self> = lists.collect();
        lists.sort_unstable();
        let n_several = lists.iter().filter(|list| **list == UnreadIn::Several).count();
        let of_parts = lists[..lists.len() - n_several].chunk_by(PartialEq::eq).map(<[_]>::len);
        of_parts.max().unwrap_or_default() + n_several >= n
    }
}

/// The store has no document ids left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the store holds 4,294,967,295 documents, the most that it can; start another one")]
pub struct TooManyDocuments;
