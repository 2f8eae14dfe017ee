//! How much two documents must share to be compared.

use super::rows::Pair;
use crate::cluster::MatchRule;
use crate::document::DocumentId;

/// How many index shingles each document must share with an earlier one to be compared: two bytes of memory a
/// document.
#[derive(Default)]
pub(super) struct MinShared(Vec<u16>);

impl MinShared {
    /// Documents of which nothing is known, which need not share anything.
    pub fn none(n_documents: u32) -> Self {
        MinShared(vec![0; n_documents as usize])
    }

    /// Adds the next document, which has so many index shingles.
    pub fn push(&mut self, rule: &MatchRule, n_index: u32) {
        self.0.push(needed(rule, n_index));
    }

    /// Sets a document that has so many index shingles.
    pub fn set(&mut self, document: DocumentId, rule: &MatchRule, n_index: u32) {
        self.0[document.0 as usize - 1] = needed(rule, n_index);
    }

    /// How many index shingles a document must share with an earlier one.
    pub fn of(&self, document: DocumentId) -> u32 {
        u32::from(self.0[document.0 as usize - 1])
    }

    /// Whether a pair is nominated, or its later document shares enough with the earlier one.
    pub fn makes_candidate(&self, pair: &Pair) -> bool {
        pair.is_nominated || pair.n_shared >= self.of(pair.later())
    }
}

fn needed(rule: &MatchRule, n_index: u32) -> u16 {
    u16::try_from(rule.shared_needed(n_index as usize)).unwrap_or(u16::MAX)
}
