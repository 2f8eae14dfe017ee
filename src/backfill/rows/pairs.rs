//! From postings to links: the rows of the phases that count and compare.

use crate::codec::{decode_array, decode_varint, encode_varint};
use crate::document::DocumentId;
use crate::extsort::{Row, SortedRow};
use crate::sketch::Shingle;
use std::cmp::Ordering;

/// <shingle, document>: the document in the low 32 bits, the shingle above them, so that one comparison orders both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Posting(u128);

impl Posting {
    /// Creates the posting of a shingle in a document.
    pub fn new(shingle: Shingle, document: DocumentId) -> Self {
        Posting(u128::from(shingle) << 32 | u128::from(document.0))
    }

    /// The shingle.
    pub fn shingle(self) -> Shingle {
        (self.0 >> 32) as u64
    }

    /// The document.
    pub fn document(self) -> DocumentId {
        DocumentId(self.0 as u32)
    }

    /// The first posting that the shingle can have.
    pub fn first_of_shingle(self) -> Self {
        Posting(self.0 >> 32 << 32)
    }
}

impl Row for Posting {
    /// Lists are read from some shingle on, of small files in several parts.
    const BLOCK_BYTES: usize = 16 << 10;

    fn encode(&self, previous: Option<&Self>, out: &mut Vec<u8>) {
        let (shingle, document) = previous.map_or((0, 0), |previous| (previous.shingle(), previous.document().0));
        let step = self.shingle() - shingle;
        encode_varint(step, out);
        encode_varint(u64::from(self.document().0 - if step == 0 { document } else { 0 }), out);
    }

    fn decode(previous: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        let (shingle, document) = previous.map_or((0, 0), |previous| (previous.shingle(), previous.document().0));
        let step = decode_varint(bytes)?;
        let number = u32::try_from(decode_varint(bytes)?).ok()?;
        let document = if step == 0 { document.checked_add(number)? } else { number };
        Some(Posting::new(shingle.checked_add(step)?, DocumentId(document)))
    }
}

impl SortedRow for Posting {}

/// A document with fewer index shingles than its [`RowOffset`] says, because too many are common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortenedIndex {
    /// The document.
    pub document: DocumentId,
    /// Index shingles.
    pub n_index: u32,
}

impl Row for ShortenedIndex {
    fn encode(&self, _: Option<&Self>, out: &mut Vec<u8>) {
        encode_varint(u64::from(self.document.0), out);
        encode_varint(u64::from(self.n_index), out);
    }

    fn decode(_: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        let document = DocumentId(u32::try_from(decode_varint(bytes)?).ok()?);
        Some(ShortenedIndex { document, n_index: u32::try_from(decode_varint(bytes)?).ok()? })
    }
}

/// <document, document, count>: two documents, how many shingles they share, and whether a super shingle nominates
/// them.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    documents: u64,
    /// Index shingles in common, as far as they are counted.
    pub n_shared: u32,
    /// Whether a super shingle, a representative or a link nominates the pair.
    pub is_nominated: bool,
}

impl Pair {
    /// Creates the pair of a later document and an earlier one.
    pub fn new(later: DocumentId, earlier: DocumentId, n_shared: u32, is_nominated: bool) -> Self {
        Pair { documents: u64::from(later.0) << 32 | u64::from(earlier.0), n_shared, is_nominated }
    }

    /// The later document.
    pub fn later(self) -> DocumentId {
        DocumentId((self.documents >> 32) as u32)
    }

    /// The earlier document.
    pub fn earlier(self) -> DocumentId {
        DocumentId(self.documents as u32)
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        self.documents == other.documents
    }
}

impl Eq for Pair {}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Pair {
    fn cmp(&self, other: &Self) -> Ordering {
        self.documents.cmp(&other.documents)
    }
}

impl Row for Pair {
    fn encode(&self, previous: Option<&Self>, out: &mut Vec<u8>) {
        let (later, earlier) = previous.map_or((0, 0), |previous| (previous.later().0, previous.earlier().0));
        let step = self.later().0 - later;
        encode_varint(u64::from(step), out);
        encode_varint(u64::from(self.earlier().0 - if step == 0 { earlier } else { 0 }), out);
        encode_varint(u64::from(self.n_shared) << 1 | u64::from(self.is_nominated), out);
    }

    fn decode(previous: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        let (later, earlier) = previous.map_or((0, 0), |previous| (previous.later().0, previous.earlier().0));
        let step = u32::try_from(decode_varint(bytes)?).ok()?;
        let number = u32::try_from(decode_varint(bytes)?).ok()?;
        let earlier = if step == 0 { earlier.checked_add(number)? } else { number };
        let counts = decode_varint(bytes)?;
        let later = DocumentId(later.checked_add(step)?);
        Some(Pair::new(later, DocumentId(earlier), u32::try_from(counts >> 1).ok()?, counts & 1 == 1))
    }
}

impl SortedRow for Pair {
    fn absorb(&mut self, next: &Self) -> bool {
        let is_same = *self == *next;
        if is_same {
            self.n_shared += next.n_shared;
            self.is_nominated |= next.is_nominated;
        }
        is_same
    }
}

/// A verified link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkRow {
    /// The later document.
    pub later: DocumentId,
    /// The earlier document.
    pub earlier: DocumentId,
    /// The resemblance of the two.
    pub resemblance: f64,
}

impl Eq for LinkRow {}

impl PartialOrd for LinkRow {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for LinkRow {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.later, self.earlier).cmp(&(other.later, other.earlier))
    }
}

impl Row for LinkRow {
    fn encode(&self, _: Option<&Self>, out: &mut Vec<u8>) {
        out.extend(self.later.0.to_le_bytes());
        out.extend(self.earlier.0.to_le_bytes());
        out.extend(self.resemblance.to_le_bytes());
    }

    fn decode(_: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        Some(LinkRow {
            later: DocumentId(u32::from_le_bytes(decode_array(bytes)?)),
            earlier: DocumentId(u32::from_le_bytes(decode_array(bytes)?)),
            resemblance: f64::from_le_bytes(decode_array(bytes)?),
        })
    }
}

impl SortedRow for LinkRow {}

/// A range of documents: those after `from`, up to `to` inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DocumentRange {
    /// The document before the first one, or 0.
    pub from: u32,
    /// The last document.
    pub to: u32,
}

impl Row for DocumentRange {
    fn encode(&self, _: Option<&Self>, out: &mut Vec<u8>) {
        out.extend(self.from.to_le_bytes());
        out.extend(self.to.to_le_bytes());
    }

    fn decode(_: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        let from = u32::from_le_bytes(decode_array(bytes)?);
        Some(DocumentRange { from, to: u32::from_le_bytes(decode_array(bytes)?) })
    }
}
