//! What the store is loaded with.

use super::fields::{decode_observation, encode_observation};
use crate::codec::{decode_array, decode_string, decode_text, decode_varint, encode_bytes, encode_text, encode_varint};
use crate::document::{DocumentId, FetchTime, Fingerprint};
use crate::extsort::{Row, SortedRow};
use crate::ports::{MissingUrl, StoredSighting};
use crate::sweep::Seen;
use std::cmp::Ordering;

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

/// A document that several URLs carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UrlCount {
    /// The document.
    pub document: DocumentId,
    /// URLs that carried it.
    pub n_urls: u32,
}

impl Row for UrlCount {
    fn encode(&self, _: Option<&Self>, out: &mut Vec<u8>) {
        encode_varint(u64::from(self.document.0), out);
        encode_varint(u64::from(self.n_urls), out);
    }

    fn decode(_: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        let document = DocumentId(u32::try_from(decode_varint(bytes)?).ok()?);
        Some(UrlCount { document, n_urls: u32::try_from(decode_varint(bytes)?).ok()? })
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
