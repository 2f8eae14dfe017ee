//! What a batch tells beside each page's place: contents that changed, contents that turned up elsewhere.

use super::moves::Move;
use crate::document::DocumentId;
use crate::wire::{MoveEvidence, Moved};
use std::collections::HashMap;

/// Estimated resemblances of pairs of documents.
pub(super) type Resemblances = HashMap<(DocumentId, DocumentId), f64>;

/// What a batch tells, by the number of the page that tells it.
#[derive(Default)]
pub(super) struct News {
    /// Pages that are another document than the one before at their URL: the page, that document, its own.
    pub changed: Vec<(usize, DocumentId, DocumentId)>,
    /// Contents that turned up elsewhere, by page.
    pub moves: Vec<Move>,
    /// How alike the documents of both are.
    pub resemblances: Resemblances,
}

impl News {
    /// The pairs of documents that it speaks of.
    pub fn pairs(&self) -> impl Iterator<Item = (DocumentId, DocumentId)> {
        let changed = self.changed.iter().map(|(_, before, document)| (*before, *document));
        changed.chain(self.moves.iter().map(|found| (found.from_document, found.to_document)))
    }

    /// How alike a pair is.
    pub fn resemblance(&self, pair: (DocumentId, DocumentId)) -> f64 {
        self.resemblances.get(&pair).copied().unwrap_or(0.0)
    }

    /// The change that a page tells.
    pub fn change_of(&self, at: usize) -> Option<(DocumentId, DocumentId)> {
        let found = self.changed.binary_search_by_key(&at, |(page, ..)| *page).ok()?;
        let (_, before, document) = self.changed[found];
        Some((before, document))
    }

    /// The moves that a page tells.
    pub fn moves_of(&self, at: usize) -> &[Move] {
        let begin = self.moves.partition_point(|found| found.at < at);
        let end = self.moves.partition_point(|found| found.at <= at);
        &self.moves[begin..end]
    }
}

/// A move as its event tells it.
pub(super) fn as_told(found: &Move, resemblance: f64, threshold: f64) -> Moved<'_> {
    let evidence = if found.from_document == found.to_document {
        MoveEvidence::Same
    } else if resemblance >= threshold {
        MoveEvidence::Direct
    } else {
        MoveEvidence::Chain
    };
    let Move { from, to, from_document, to_document, .. } = found;
    Moved { from, to, from_document: *from_document, to_document: *to_document, resemblance, evidence }
}
