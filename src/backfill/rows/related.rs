//! Rows of the build of related pages.

use super::fields::decode_string;
use crate::codec::{decode_array, decode_varint, encode_bytes, encode_varint};
use crate::document::DocumentId;
use crate::extsort::{Row, SortedRow};
use crate::related::{FragmentKey, Target, Term, TermCounts};

/// What a page says about a URL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FragmentRow {
    /// The URL.
    pub target: Target,
    /// What tells fragments about one URL apart.
    pub key: FragmentKey,
    /// A document that says it.
    pub document: DocumentId,
    /// The words, joined by single spaces.
    pub words: String,
}

impl Row for FragmentRow {
    fn encode(&self, _: Option<&Self>, out: &mut Vec<u8>) {
        out.extend(self.target.0.to_le_bytes());
        out.extend(self.key.host.to_le_bytes());
        out.extend(self.key.said.to_le_bytes());
        out.extend(self.document.0.to_le_bytes());
        encode_bytes(self.words.as_bytes(), out);
    }

    fn decode(_: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        let target = Target(u64::from_le_bytes(decode_array(bytes)?));
        let host = u32::from_le_bytes(decode_array(bytes)?);
        let key = FragmentKey { host, said: u64::from_le_bytes(decode_array(bytes)?) };
        let document = DocumentId(u32::from_le_bytes(decode_array(bytes)?));
        Some(FragmentRow { target, key, document, words: decode_string(bytes)? })
    }
}

impl SortedRow for FragmentRow {
    /// One host says the same about one URL once.
    fn absorb(&mut self, next: &Self) -> bool {
        (self.target, self.key) == (next.target, next.key)
    }

    fn n_heap_bytes(&self) -> usize {
        self.words.capacity()
    }
}

/// A fragment that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeptFragment {
    /// The URL.
    pub target: Target,
    /// What tells fragments about one URL apart.
    pub key: FragmentKey,
    /// A document that says it.
    pub document: DocumentId,
}

impl Row for KeptFragment {
    fn encode(&self, _: Option<&Self>, out: &mut Vec<u8>) {
        out.extend(self.target.0.to_le_bytes());
        out.extend(self.key.host.to_le_bytes());
        out.extend(self.key.said.to_le_bytes());
        out.extend(self.document.0.to_le_bytes());
    }

    fn decode(_: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        let target = Target(u64::from_le_bytes(decode_array(bytes)?));
        let host = u32::from_le_bytes(decode_array(bytes)?);
        let key = FragmentKey { host, said: u64::from_le_bytes(decode_array(bytes)?) };
        Some(KeptFragment { target, key, document: DocumentId(u32::from_le_bytes(decode_array(bytes)?)) })
    }
}

impl SortedRow for KeptFragment {}

/// The counted terms of a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CountsRow {
    /// The URL.
    pub target: u64,
    /// The terms of its page.
    pub content: Vec<(Term, u32)>,
    /// The terms of what others say about it.
    pub anchors: Vec<(Term, u32)>,
}

impl CountsRow {
    /// The row of a URL.
    pub fn new(target: Target, content: &TermCounts, anchors: &TermCounts) -> Self {
        let sorted = |counts: &TermCounts| {
            let mut counts: Vec<(Term, u32)> = counts.iter().map(|(term, n)| (*term, *n)).collect();
            counts.sort_unstable();
            counts
        };
        CountsRow { target: target.0, content: sorted(content), anchors: sorted(anchors) }
    }
}

impl Row for CountsRow {
    fn encode(&self, _: Option<&Self>, out: &mut Vec<u8>) {
        out.extend(self.target.to_le_bytes());
        for counts in [&self.content, &self.anchors] {
            encode_varint(counts.len() as u64, out);
            for (term, n) in counts {
                out.extend(term.0.to_le_bytes());
                encode_varint(u64::from(*n), out);
            }
        }
    }

    fn decode(_: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        let mut row = CountsRow { target: u64::from_le_bytes(decode_array(bytes)?), ..CountsRow::default() };
        for counts in [&mut row.content, &mut row.anchors] {
            for _ in 0..decode_varint(bytes)? {
                let term = Term(u32::from_le_bytes(decode_array(bytes)?));
                counts.push((term, u32::try_from(decode_varint(bytes)?).ok()?));
            }
        }
        Some(row)
    }
}

impl SortedRow for CountsRow {}

/// A URL under one of the heaviest terms of its bag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChampionRow {
    /// The term.
    pub term: Term,
    /// 255 - the weight, so that the heaviest come first.
    pub lightness: u8,
    /// The URL.
    pub target: Target,
}

impl Row for ChampionRow {
    fn encode(&self, _: Option<&Self>, out: &mut Vec<u8>) {
        out.extend(self.term.0.to_le_bytes());
        out.push(self.lightness);
        out.extend(self.target.0.to_le_bytes());
    }

    fn decode(_: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        let term = Term(u32::from_le_bytes(decode_array(bytes)?));
        let [lightness] = decode_array(bytes)?;
        Some(ChampionRow { term, lightness, target: Target(u64::from_le_bytes(decode_array(bytes)?)) })
    }
}

impl SortedRow for ChampionRow {}
