//! The rows of the intermediate files of a build in a store.

use super::rows::{Counts, decode_counts, encode_counts};
use crate::codec::{
    decode_array, decode_string, decode_string_after, decode_varint, encode_bytes, encode_string_after, encode_varint,
};
use crate::document::DocumentId;
use crate::extsort::{Row, SortedRow};
use crate::related::{FragmentKey, Target, Term};

/// A fragment of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeptFragment {
    /// The URL that it is about.
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

/// A fragment of a document with its words. Rows sort by their fields.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StoreFragment {
    /// The URL that it is about.
    pub target: Target,
    /// What tells fragments about one URL apart.
    pub key: FragmentKey,
    /// Whether it names another URL, which redirects to this one. Of equal fragments one that names the URL itself counts.
    pub is_moved: bool,
    /// A document that says it.
    pub document: DocumentId,
    /// The URL that it names.
    pub url: String,
    /// The words, joined by single spaces.
    pub words: String,
}

impl Row for StoreFragment {
    fn encode(&self, previous: Option<&Self>, out: &mut Vec<u8>) {
        KeptFragment { target: self.target, key: self.key, document: self.document }.encode(None, out);
        out.push(u8::from(self.is_moved));
        encode_string_after(&self.url, previous.map_or("", |row| &row.url), out);
        encode_bytes(self.words.as_bytes(), out);
    }

    fn decode(previous: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        let KeptFragment { target, key, document } = KeptFragment::decode(None, bytes)?;
        let is_moved = decode_array(bytes)? == [1];
        let url = decode_string_after(previous.map_or("", |row| &row.url), bytes)?;
        Some(StoreFragment { target, key, is_moved, document, url, words: decode_string(bytes)? })
    }
}

impl SortedRow for StoreFragment {
    /// One host says the same about one URL once.
    fn absorb(&mut self, next: &Self) -> bool {
        (self.target, self.key) == (next.target, next.key)
    }

    fn n_heap_bytes(&self) -> usize {
        self.url.capacity() + self.words.capacity()
    }
}

/// The counted terms of a URL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CountsRow {
    /// The URL's target.
    pub target: Target,
    /// The URL.
    pub url: String,
    /// The terms of its page.
    pub content: Counts,
    /// The terms of what others say about it.
    pub anchors: Counts,
}

impl Row for CountsRow {
    fn encode(&self, _: Option<&Self>, out: &mut Vec<u8>) {
        out.extend(self.target.0.to_le_bytes());
        encode_bytes(self.url.as_bytes(), out);
        encode_counts(&self.content, out);
        encode_counts(&self.anchors, out);
    }

    fn decode(_: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        let target = Target(u64::from_le_bytes(decode_array(bytes)?));
        Some(CountsRow {
            target,
            url: decode_string(bytes)?,
            content: decode_counts(bytes)?,
            anchors: decode_counts(bytes)?,
        })
    }
}

impl SortedRow for CountsRow {}

/// The nearest neighbours of a URL, and its center.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NearestRow {
    /// The URL.
    pub target: Target,
    /// The center of its cluster.
    pub center: Target,
    /// The neighbours, best first, each with the bits of its similarity.
    pub nearest: Vec<(Target, u32)>,
}

impl Row for NearestRow {
    fn encode(&self, _: Option<&Self>, out: &mut Vec<u8>) {
        out.extend(self.target.0.to_le_bytes());
        out.extend(self.center.0.to_le_bytes());
        encode_varint(self.nearest.len() as u64, out);
        for (target, similarity) in &self.nearest {
            out.extend(target.0.to_le_bytes());
            out.extend(similarity.to_le_bytes());
        }
    }

    fn decode(_: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        let mut target = || Some(Target(u64::from_le_bytes(decode_array(bytes)?)));
        let (target, center) = (target()?, target()?);
        let n = decode_varint(bytes)? as usize;
        let mut nearest = Vec::with_capacity(n.min(bytes.len()));
        for _ in 0..n {
            let target = Target(u64::from_le_bytes(decode_array(bytes)?));
            nearest.push((target, u32::from_le_bytes(decode_array(bytes)?)));
        }
        Some(NearestRow { target, center, nearest })
    }
}

impl SortedRow for NearestRow {
    fn n_heap_bytes(&self) -> usize {
        self.nearest.capacity() * size_of::<(Target, u32)>()
    }
}

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
