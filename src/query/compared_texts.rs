//! Two texts against each other, word for word.

use super::passages::{Passage, SharedPassages, shared_passages};
use crate::document::DocumentId;
use crate::wire::Origin;
use serde::Serialize;

/// Two texts against each other, exactly.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedTexts {
    /// The resemblance r(A, B).
    pub resemblance: f64,
    /// How much of A is in B.
    pub containment_of_a_in_b: f64,
    /// How much of B is in A.
    pub containment_of_b_in_a: f64,
    /// Where A comes from.
    pub a: TextOrigin,
    /// Where B comes from.
    pub b: TextOrigin,
    /// What both have, in the order of A.
    pub passages: Vec<PassageRow>,
}

/// Where a text comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "from")]
pub enum TextOrigin {
    /// A file.
    File,
    /// The store, which keeps it.
    Store {
        /// Its document.
        document: DocumentId,
    },
    /// A record of an input.
    Input {
        /// Its document.
        document: DocumentId,
        /// The input.
        source: String,
        /// The partition of a topic; 0 in a file.
        partition: i32,
        /// The number of the record.
        offset: i64,
    },
}

/// A run of words that both texts have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PassageRow {
    /// Words in it.
    pub n_words: usize,
    /// Where A has it, in bytes of its text.
    pub a_begin: usize,
    /// Where it ends there.
    pub a_end: usize,
    /// Where B has it, or more around it.
    pub b_begin: usize,
    /// Where that ends.
    pub b_end: usize,
    /// As it stands in A.
    pub text: String,
}

impl TextOrigin {
    /// A record of an input.
    pub fn of_record(document: DocumentId, record: &Origin) -> Self {
        let Origin { source, partition, offset } = record;
        TextOrigin::Input { document, source: source.to_string(), partition: *partition, offset: *offset }
    }
}

impl ComparedTexts {
    /// Compares two texts by their shingles of `w` words.
    pub fn new([a, b]: [&str; 2], origins: [TextOrigin; 2], w: usize) -> Self {
        let shared = shared_passages(a, b, w);
        let [a_origin, b_origin] = origins;
        ComparedTexts {
            resemblance: shared.resemblance(),
            containment_of_a_in_b: shared.containment_of_a_in_b(),
            containment_of_b_in_a: shared.containment_of_b_in_a(),
            a: a_origin,
            b: b_origin,
            passages: rows(a, &shared),
        }
    }
}

fn rows(a: &str, SharedPassages { passages_of_a, passages_of_b, .. }: &SharedPassages) -> Vec<PassageRow> {
    let row = |Passage { range, n_words, counterpart }: &Passage| {
        let other = passages_of_b.get(*counterpart).map_or(0..0, |other| other.range.clone());
        let text = a[range.clone()].to_string();
        let (a_begin, a_end) = (range.start, range.end);
        PassageRow { n_words: *n_words, a_begin, a_end, b_begin: other.start, b_end: other.end, text }
    };
    passages_of_a.iter().map(row).collect()
}
