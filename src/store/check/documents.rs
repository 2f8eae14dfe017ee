//! The documents, what stands of them, and the equivalence fingerprints that find them.

use super::{Check, Rows, at, hex, shown};
use crate::document::{DocumentId, Fingerprint};
use crate::ports::{StoredDocument, StoredSighting};
use crate::sketch::SketchForm;
use crate::store::schema::{self, Fields, cf};
use crate::sweep::Observation;

/// What the rows of the documents say that other families hold.
pub(super) struct Expected {
    pub postings: ExpectedPostings,
    /// How many equivalence fingerprints each has.
    pub n_equal: Vec<u8>,
    /// A sum over the sightings of each document, from `standings`.
    pub standings: Vec<u64>,
}

/// What each document adds to the lists, family by family, and the checksum over it.
pub(super) struct ExpectedPostings {
    pub counts: Vec<[u32; 3]>,
    pub checksums: Vec<u64>,
}

impl Check<'_> {
    /// Reads the documents, and beside them their standings, which lie in the same order.
    pub(super) fn documents(&mut self) -> Expected {
        let n_documents = self.n_documents();
        let mut expected = Expected {
            postings: ExpectedPostings { counts: vec![[0; 3]; n_documents], checksums: vec![0; n_documents] },
            n_equal: vec![0; n_documents],
            standings: vec![0; n_documents],
        };
        let mut rows = self.rows(cf::DOCS);
        let mut standings = Standings { rows: self.rows(cf::STANDINGS), next: None };
        self.advance(&mut standings);
        let mut last = 0;
        while let Some((key, row)) = self.next(&mut rows) {
            let Some(document) = Fields(&key).document().filter(|id| key.len() == 4 && self.is_document(*id)) else {
                let what = format!("the key is no document of 1 to {n_documents}");
                self.find(cf::DOCS, hex(&key), what);
                continue;
            };
            self.gap(last + 1, document.0);
            last = document.0;
            let Some(stored) = schema::read_document(&row) else {
                self.find(cf::DOCS, document, "the row cannot be read");
                continue;
            };
            expected.take(document, &stored);
            expected.standings[at(document)] = self.standings_of(document, &stored, &mut standings);
        }
        self.gap(last + 1, n_documents as u32 + 1);
        self.standings_before(DocumentId(u32::MAX), &mut standings);
        expected
    }

    /// The documents from one number up to another one are not there.
    fn gap(&mut self, from: u32, to: u32) {
        if from < to {
            self.find(cf::DOCS, from, format!("{} documents are missing from here on", to - from));
        }
    }

    /// Reads a document's standings and sums them up. Its first URL is among them.
    fn standings_of(&mut self, document: DocumentId, stored: &StoredDocument, standings: &mut Standings<'_>) -> u64 {
        self.standings_before(document, standings);
        let (mut sum, mut n, mut has_first) = (0u64, 0, false);
        while let Some(standing) = standings.next.as_ref().filter(|next| next.moment.seen.document() == Some(document))
        {
            sum = sum.wrapping_add(sighting_share(standing.url, &standing.moment));
            has_first |= standing.url == stored.first_url;
            n += 1;
            self.advance(standings);
        }
        if !has_first {
            let what = format!("it never stood at its first URL, {}, but {n} times elsewhere", shown(stored.first_url));
            self.find(cf::STANDINGS, document, what);
        }
        sum
    }

    /// Passes over the standings of documents that are not there.
    fn standings_before(&mut self, document: DocumentId, standings: &mut Standings<'_>) {
        while let Some(missing) =
            standings.next.as_ref().and_then(|next| next.moment.seen.document()).filter(|id| *id < document)
        {
            self.find(cf::STANDINGS, missing, "the document is not in docs");
            self.advance(standings);
        }
    }

    fn advance(&mut self, standings: &mut Standings<'_>) {
        standings.next = None;
        while let Some((key, _)) = self.next(&mut standings.rows) {
            standings.next = schema::read_standing(&key);
            if standings.next.is_some() {
                return;
            }
            self.find(cf::STANDINGS, hex(&key), "the key cannot be read");
        }
    }

    /// Every document is found by each of its equivalence fingerprints, and they find nothing else.
    pub(super) fn equal(&mut self, expected: &[u8]) {
        let mut found = vec![0u8; expected.len()];
        let mut rows = self.rows(cf::EQUAL);
        while let Some((key, row)) = self.next(&mut rows) {
            let document = Fields(&row).document().filter(|id| row.len() == 4 && self.is_document(*id));
            match document {
                Some(document) if key.len() == 16 => {
                    let n = &mut found[at(document)];
                    *n = n.saturating_add(1);
                }
                _ => self.find(cf::EQUAL, hex(&key), "it leads to no document"),
            }
        }
        for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
            if found != expected {
                let what = format!("{found} equivalence fingerprints lead to this document; it has {expected}");
                self.find(cf::EQUAL, format!("of document {}", at + 1), what);
            }
        }
    }
}

impl Expected {
    fn take(&mut self, document: DocumentId, stored: &StoredDocument) {
        let StoredDocument { n_index_shingles, n_super_shingles, n_mod_shingles, .. } = *stored;
        self.postings.counts[at(document)] = [n_index_shingles, n_super_shingles, n_mod_shingles];
        self.postings.checksums[at(document)] = stored.postings_checksum;
        let has_shingles = match &stored.sketch.form {
            SketchForm::Sample { values, .. } => !values.is_empty(),
            SketchForm::Whole(_) | SketchForm::Parity(_) => stored.sketch.n_shingles > 0,
        };
        self.n_equal[at(document)] = 2 + u8::from(has_shingles);
    }
}

/// The standings, one ahead.
struct Standings<'s> {
    rows: Rows<'s>,
    next: Option<StoredSighting>,
}

/// The share of one sighting in its document's sum.
pub(super) fn sighting_share(url: Fingerprint, moment: &Observation) -> u64 {
    use std::hash::{Hash, Hasher};
    let mut hasher = std::hash::DefaultHasher::new();
    (url, moment.fetched_at, &moment.sweep).hash(&mut hasher);
    hasher.finish()
}
