//! The rows of the intermediate files: pages, documents, postings, pairs, and what the store is loaded with.

use crate::cluster::Relation;
use crate::codec::{decode_array, decode_bytes, decode_varint, encode_bytes, encode_varint};
use crate::document::{DocumentId, FetchTime, Fingerprint};
use crate::extsort::{Row, SortedRow};
use crate::ports::{MissingUrl, StoredSighting};
use crate::sketch::{Equivalences, Shingle};
use crate::sweep::{Observation, Seen};
use crate::wire::{Reason, Rejection};
use std::cmp::Ordering;

/// A record of the input.
#[derive(Clone, Debug, PartialEq)]
pub struct PageRow {
    /// The position of the record's source in the manifest's list.
    pub source: u32,
    /// The record's partition.
    pub partition: i32,
    /// The record's offset.
    pub offset: i64,
    /// What the record is.
    pub outcome: Outcome,
}

/// What a record is.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A page.
    Page(Visit),
    /// A record that is no page.
    Rejected(Rejection),
}

/// A visit to a URL and what it found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// The URL.
    pub url: String,
    /// The URL's fingerprint.
    pub key: Fingerprint,
    /// The fingerprint of the URL's host.
    pub host: u64,
    /// When, what and on which sweep.
    pub observation: Observation,
    /// How the content equals its document. [`Relation::New`] means that it brought the document, and `None` that the
    /// visit found no content.
    pub relation: Option<Relation>,
}

/// The relations by their number in a page's row.
const RELATIONS: [Relation; 5] =
    [Relation::Identical, Relation::Lexical, Relation::Shingle, Relation::Near, Relation::New];
const NO_RELATION: u8 = 5;
const REJECTED: u8 = 6;

fn encode_flag(flag: bool, out: &mut Vec<u8>) {
    out.push(u8::from(flag));
}

fn decode_flag(bytes: &mut &[u8]) -> Option<bool> {
    match decode_array(bytes)? {
        [0] => Some(false),
        [1] => Some(true),
        _ => None,
    }
}

fn encode_text(text: Option<&str>, out: &mut Vec<u8>) {
    encode_flag(text.is_some(), out);
    encode_bytes(text.unwrap_or_default().as_bytes(), out);
}

fn decode_string(bytes: &mut &[u8]) -> Option<String> {
    String::from_utf8(decode_bytes(bytes)?.to_vec()).ok()
}

fn decode_text(bytes: &mut &[u8]) -> Option<Option<String>> {
    let is_some = decode_flag(bytes)?;
    let text = decode_string(bytes)?;
    Some(is_some.then_some(text))
}

fn encode_observation(observation: &Observation, out: &mut Vec<u8>) {
    out.extend(observation.fetched_at.0.to_le_bytes());
    encode_text(observation.sweep.as_deref(), out);
    match &observation.seen {
        Seen::Lost => out.push(0),
        Seen::Gone => out.push(1),
        Seen::Redirect(target) => {
            out.push(2);
            encode_bytes(target.as_bytes(), out);
        }
        Seen::Document(document) => {
            out.push(3);
            out.extend(document.0.to_le_bytes());
        }
    }
}

fn decode_observation(bytes: &mut &[u8]) -> Option<Observation> {
    let fetched_at = FetchTime(i64::from_le_bytes(decode_array(bytes)?));
    let sweep = decode_text(bytes)?;
    let seen = match decode_array(bytes)? {
        [0] => Seen::Lost,
        [1] => Seen::Gone,
        [2] => Seen::Redirect(decode_string(bytes)?),
        [3] => Seen::Document(DocumentId(u32::from_le_bytes(decode_array(bytes)?))),
        _ => return None,
    };
    Some(Observation { fetched_at, seen, sweep })
}

impl Row for PageRow {
    fn encode(&self, _: Option<&Self>, out: &mut Vec<u8>) {
        encode_varint(u64::from(self.source), out);
        out.extend(self.partition.to_le_bytes());
        out.extend(self.offset.to_le_bytes());
        match &self.outcome {
            Outcome::Rejected(why) => {
                out.push(REJECTED);
                encode_bytes(why.reason.as_str().as_bytes(), out);
                encode_bytes(why.message.as_bytes(), out);
                encode_text(why.url.as_deref(), out);
                encode_flag(why.fetched_at.is_some(), out);
                out.extend(why.fetched_at.map_or(0, |time| time.0).to_le_bytes());
                encode_text(why.sweep.as_deref(), out);
            }
            Outcome::Page(visit) => {
                let known = RELATIONS.iter().position(|known| visit.relation == Some(*known));
                out.push(known.map_or(NO_RELATION, |at| at as u8));
                encode_bytes(visit.url.as_bytes(), out);
                out.extend(visit.key.0.to_le_bytes());
                out.extend(visit.host.to_le_bytes());
                encode_observation(&visit.observation, out);
            }
        }
    }

    fn decode(_: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        let source = u32::try_from(decode_varint(bytes)?).ok()?;
        let partition = i32::from_le_bytes(decode_array(bytes)?);
        let offset = i64::from_le_bytes(decode_array(bytes)?);
        let [kind] = decode_array(bytes)?;
        let outcome = if kind == REJECTED { decode_rejection(bytes)? } else { decode_visit(kind, bytes)? };
        Some(PageRow { source, partition, offset, outcome })
    }
}

fn decode_rejection(bytes: &mut &[u8]) -> Option<Outcome> {
    let name = decode_bytes(bytes)?;
    let reason = Reason::ALL.into_iter().find(|reason| reason.as_str().as_bytes() == name)?;
    let message = decode_string(bytes)?;
    let url = decode_text(bytes)?;
    let has_time = decode_flag(bytes)?;
    let time = FetchTime(i64::from_le_bytes(decode_array(bytes)?));
    let sweep = decode_text(bytes)?;
    let fetched_at = has_time.then_some(time);
    // Files have no gaps.
    Some(Outcome::Rejected(Rejection { reason, message, url, fetched_at, sweep, gap_to: None }))
}

fn decode_visit(kind: u8, bytes: &mut &[u8]) -> Option<Outcome> {
    let relation = match kind {
        NO_RELATION => None,
        kind => Some(*RELATIONS.get(usize::from(kind))?),
    };
    Some(Outcome::Page(Visit {
        relation,
        url: decode_string(bytes)?,
        key: Fingerprint(u128::from_le_bytes(decode_array(bytes)?)),
        host: u64::from_le_bytes(decode_array(bytes)?),
        observation: decode_observation(bytes)?,
    }))
}

/// A document as the first phase leaves it. Its id is its position among all documents.
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentRow {
    /// The fingerprints that an equal content has.
    pub equivalences: Equivalences,
    /// The fingerprint of the URL that brought the document.
    pub first_url: Fingerprint,
    /// Words in the canonical form.
    pub n_words: u32,
    /// Bytes of the page that brought the document.
    pub n_bytes: u64,
    /// The sketch as [`crate::sketch::encode`] writes it.
    pub sketch: Vec<u8>,
    /// The shingles that may index the document, where the sketch does not begin with them.
    pub index: Option<Vec<Shingle>>,
    /// The super shingles, ascending.
    pub super_shingles: Vec<Shingle>,
    /// The mod shingles, ascending.
    pub mod_shingles: Vec<Shingle>,
}

fn encode_shingles(shingles: &[Shingle], out: &mut Vec<u8>) {
    encode_varint(shingles.len() as u64, out);
    let mut previous = 0;
    for shingle in shingles {
        encode_varint(shingle - previous, out);
        previous = *shingle;
    }
}

fn decode_shingles(bytes: &mut &[u8]) -> Option<Vec<Shingle>> {
    let n = decode_varint(bytes)? as usize;
    let mut shingles = Vec::with_capacity(n.min(bytes.len()));
    let mut previous: Shingle = 0;
    for _ in 0..n {
        previous = previous.checked_add(decode_varint(bytes)?)?;
        shingles.push(previous);
    }
    Some(shingles)
}

impl Row for DocumentRow {
    fn encode(&self, _: Option<&Self>, out: &mut Vec<u8>) {
        encode_bytes(&self.sketch, out);
        for key in [Some(self.equivalences.identical), Some(self.equivalences.lexical), self.equivalences.shingle] {
            encode_flag(key.is_some(), out);
            out.extend(key.map_or(0, |key| key.0).to_le_bytes());
        }
        out.extend(self.first_url.0.to_le_bytes());
        encode_varint(u64::from(self.n_words), out);
        encode_varint(self.n_bytes, out);
        encode_flag(self.index.is_some(), out);
        encode_shingles(self.index.as_deref().unwrap_or_default(), out);
        encode_shingles(&self.super_shingles, out);
        encode_shingles(&self.mod_shingles, out);
    }

    fn decode(_: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        let sketch = decode_bytes(bytes)?.to_vec();
        let mut key = || {
            let is_some = decode_flag(bytes)?;
            let key = Fingerprint(u128::from_le_bytes(decode_array(bytes)?));
            Some(is_some.then_some(key))
        };
        let equivalences = Equivalences { identical: key()??, lexical: key()??, shingle: key()? };
        let first_url = Fingerprint(u128::from_le_bytes(decode_array(bytes)?));
        let n_words = u32::try_from(decode_varint(bytes)?).ok()?;
        let n_bytes = decode_varint(bytes)?;
        let has_index = decode_flag(bytes)?;
        let index = decode_shingles(bytes)?;
        Some(DocumentRow {
            equivalences,
            first_url,
            n_words,
            n_bytes,
            sketch,
            index: has_index.then_some(index),
            super_shingles: decode_shingles(bytes)?,
            mod_shingles: decode_shingles(bytes)?,
        })
    }
}

/// The sketch in the bytes of a document's row. It comes first, so that a reader can stop behind it.
pub fn sketch_bytes(mut row: &[u8]) -> Option<&[u8]> {
    decode_bytes(&mut row)
}

/// Where a document's row begins in its file, and how many shingles index the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowOffset {
    /// Bytes from the start of the file.
    pub offset: u32,
    /// Index shingles, if none is common.
    pub n_index: u32,
}

impl Row for RowOffset {
    fn encode(&self, previous: Option<&Self>, out: &mut Vec<u8>) {
        encode_varint(u64::from(self.offset - previous.map_or(0, |previous| previous.offset)), out);
        encode_varint(u64::from(self.n_index), out);
    }

    fn decode(previous: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        let step = u32::try_from(decode_varint(bytes)?).ok()?;
        let offset = previous.map_or(0, |previous| previous.offset).checked_add(step)?;
        Some(RowOffset { offset, n_index: u32::try_from(decode_varint(bytes)?).ok()? })
    }
}

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

/// An equivalence fingerprint and its document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EquivalenceRow {
    /// The fingerprint.
    pub key: Fingerprint,
    /// The document.
    pub document: DocumentId,
}

impl Row for EquivalenceRow {
    fn encode(&self, _: Option<&Self>, out: &mut Vec<u8>) {
        out.extend(self.key.0.to_le_bytes());
        out.extend(self.document.0.to_le_bytes());
    }

    fn decode(_: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        let key = Fingerprint(u128::from_le_bytes(decode_array(bytes)?));
        Some(EquivalenceRow { key, document: DocumentId(u32::from_le_bytes(decode_array(bytes)?)) })
    }
}

impl SortedRow for EquivalenceRow {
    /// Two fingerprints of a document may be the same one, where its features came sorted.
    fn absorb(&mut self, next: &Self) -> bool {
        self == next
    }
}

/// A URL and its fingerprint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UrlRow {
    /// The fingerprint.
    pub key: Fingerprint,
    /// The URL.
    pub url: String,
}

impl Row for UrlRow {
    fn encode(&self, _: Option<&Self>, out: &mut Vec<u8>) {
        out.extend(self.key.0.to_le_bytes());
        encode_bytes(self.url.as_bytes(), out);
    }

    fn decode(_: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        let key = Fingerprint(u128::from_le_bytes(decode_array(bytes)?));
        Some(UrlRow { key, url: decode_string(bytes)? })
    }
}

impl SortedRow for UrlRow {
    fn absorb(&mut self, next: &Self) -> bool {
        self.key == next.key
    }

    fn n_heap_bytes(&self) -> usize {
        self.url.capacity()
    }
}

/// A sighting and the fingerprint of its URL's host, in the order of the store's sightings by URL.
#[derive(Clone, Debug)]
pub struct SightingByUrl {
    /// The sighting.
    pub sighting: StoredSighting,
    /// The fingerprint of the URL's host.
    pub host: u64,
}

impl PartialEq for SightingByUrl {
    fn eq(&self, other: &Self) -> bool {
        self.sighting == other.sighting
    }
}

impl Eq for SightingByUrl {}

impl PartialOrd for SightingByUrl {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SightingByUrl {
    fn cmp(&self, other: &Self) -> Ordering {
        self.sighting.cmp_stored(&other.sighting)
    }
}

impl Row for SightingByUrl {
    fn encode(&self, _: Option<&Self>, out: &mut Vec<u8>) {
        out.extend(self.sighting.url.0.to_le_bytes());
        encode_observation(&self.sighting.moment, out);
        out.extend(self.host.to_le_bytes());
    }

    fn decode(_: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        let url = Fingerprint(u128::from_le_bytes(decode_array(bytes)?));
        let moment = decode_observation(bytes)?;
        let host = u64::from_le_bytes(decode_array(bytes)?);
        Some(SightingByUrl { sighting: StoredSighting { url, moment }, host })
    }
}

impl SortedRow for SightingByUrl {
    fn absorb(&mut self, next: &Self) -> bool {
        self == next
    }

    fn n_heap_bytes(&self) -> usize {
        let target = if let Seen::Redirect(target) = &self.sighting.moment.seen { target.capacity() } else { 0 };
        target + self.sighting.moment.sweep.as_ref().map_or(0, String::capacity)
    }
}

/// A sighting of a document, in the order of the store's sightings by document.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SightingByDocument {
    /// The document.
    pub document: DocumentId,
    /// When the page was fetched.
    pub fetched_at: FetchTime,
    /// The URL's fingerprint.
    pub url: Fingerprint,
    /// The sweep of the visit.
    pub sweep: Option<String>,
}

impl Row for SightingByDocument {
    fn encode(&self, _: Option<&Self>, out: &mut Vec<u8>) {
        out.extend(self.document.0.to_le_bytes());
        out.extend(self.fetched_at.0.to_le_bytes());
        out.extend(self.url.0.to_le_bytes());
        encode_text(self.sweep.as_deref(), out);
    }

    fn decode(_: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        Some(SightingByDocument {
            document: DocumentId(u32::from_le_bytes(decode_array(bytes)?)),
            fetched_at: FetchTime(i64::from_le_bytes(decode_array(bytes)?)),
            url: Fingerprint(u128::from_le_bytes(decode_array(bytes)?)),
            sweep: decode_text(bytes)?,
        })
    }
}

impl SortedRow for SightingByDocument {
    fn absorb(&mut self, next: &Self) -> bool {
        self == next
    }

    fn n_heap_bytes(&self) -> usize {
        self.sweep.as_ref().map_or(0, String::capacity)
    }
}

impl Row for MissingUrl {
    fn encode(&self, _: Option<&Self>, out: &mut Vec<u8>) {
        out.extend(self.document.0.to_le_bytes());
        out.extend(self.last_seen.0.to_le_bytes());
        out.extend(self.url.0.to_le_bytes());
    }

    fn decode(_: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        Some(MissingUrl {
            document: DocumentId(u32::from_le_bytes(decode_array(bytes)?)),
            last_seen: FetchTime(i64::from_le_bytes(decode_array(bytes)?)),
            url: Fingerprint(u128::from_le_bytes(decode_array(bytes)?)),
        })
    }
}

impl SortedRow for MissingUrl {}

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
