//! Checks documents, their sightings, and the equivalence fingerprints that lead to them.

use super::{Check, Rows, hex, hex_fingerprint, index_of};
use crate::document::{DocumentId, Fingerprint};
use crate::ports::{StoredDocument, StoredSighting};
use crate::sketch::SketchForm;
use crate::store::schema::{self, Fields, cf};
use crate::sweep::Observation;
use std::collections::HashSet;

/// What other families must hold, according to the rows of `docs`.
pub(super) struct Expected {
    pub postings: ExpectedPostings,
    /// The number of equivalence fingerprints of each document.
    pub n_equal: Vec<u8>,
    /// A sum over the sightings of each document in `standings`.
    pub sighting_sums: Vec<u64>,
}

/// The number of postings of each document, by kind, and the checksum over all of them.
pub(super) struct ExpectedPostings {
    pub counts: Vec<[u32; 3]>,
    pub checksums: Vec<u64>,
}

impl Check<'_> {
    /// Reads the documents in step with their sightings, which have the same order.
    pub(super) fn documents(&mut self) -> Expected {
        let n_documents = self.n_documents();
        let mut expected = Expected {
            postings: ExpectedPostings { counts: vec![[0; 3]; n_documents], checksums: vec![0; n_documents] },
            n_equal: vec![0; n_documents],
            sighting_sums: vec![0; n_documents],
        };
        let mut rows = self.rows(cf::DOCS);
        let mut sightings = SightingsByDocument { rows: self.rows(cf::SIGHTINGS_BY_DOCUMENT), next: None };
        self.advance(&mut sightings);
        let (mut last, mut gaps) = (0, Gaps::default());
        while let Some((key, row)) = self.next(&mut rows) {
            let Some(document) = Fields(&key).document().filter(|id| key.len() == 4 && self.is_document(*id)) else {
                let what = format!("the key is not a document from 1 to {n_documents}");
                self.add_finding(cf::DOCS, hex(&key), what);
                continue;
            };
            gaps.add(last + 1, document.0);
            last = document.0;
            let Some(stored) = schema::read_document(&row) else {
                self.add_finding(cf::DOCS, document, "the row cannot be read");
                continue;
            };
            expected.record(document, &stored);
            expected.sighting_sums[index_of(document)] = self.sum_sightings(document, &stored, &mut sightings);
        }
        gaps.add(last + 1, n_documents as u32 + 1);
        self.gaps(&gaps);
        self.skip_sightings_before(DocumentId(u32::MAX), &mut sightings);
        expected
    }

    /// As many documents may be missing as were forgotten.
    fn gaps(&mut self, gaps: &Gaps) {
        let n_forgotten = self.store.forgotten_documents().unwrap_or_default();
        if gaps.n_missing != n_forgotten {
            let what = format!(
                "{} documents are missing from here on, {n_forgotten} of them because they were forgotten",
                gaps.n_missing
            );
            self.add_finding(cf::DOCS, gaps.first.map_or(String::new(), |first| first.to_string()), what);
        }
    }

    /// Reads a document's sightings and returns their sum. One of them must be at the first URL.
    fn sum_sightings(
        &mut self,
        document: DocumentId,
        stored: &StoredDocument,
        sightings: &mut SightingsByDocument<'_>,
    ) -> u64 {
        self.skip_sightings_before(document, sightings);
        let (mut sum, mut n, mut has_first) = (0u64, 0, false);
        while let Some(sighting) = sightings.next.as_ref().filter(|next| next.moment.seen.document() == Some(document))
        {
            sum = sum.wrapping_add(sighting_hash(sighting.url, &sighting.moment));
            has_first |= sighting.url == stored.first_url;
            n += 1;
            self.advance(sightings);
        }
        if !has_first {
            let what = format!("none of its {n} sightings is at its first URL, {}", hex_fingerprint(stored.first_url));
            self.add_finding(cf::SIGHTINGS_BY_DOCUMENT, document, what);
        }
        sum
    }

    /// Skips and reports sightings of documents that are missing.
    fn skip_sightings_before(&mut self, document: DocumentId, sightings: &mut SightingsByDocument<'_>) {
        while let Some(missing) =
            sightings.next.as_ref().and_then(|next| next.moment.seen.document()).filter(|id| *id < document)
        {
            self.add_finding(cf::SIGHTINGS_BY_DOCUMENT, missing, "the document is not in docs");
            self.advance(sightings);
        }
    }

    fn advance(&mut self, sightings: &mut SightingsByDocument<'_>) {
        sightings.next = None;
        while let Some((key, _)) = self.next(&mut sightings.rows) {
            sightings.next = schema::read_sighting_by_document(&key);
            if sightings.next.is_some() {
                return;
            }
            self.add_finding(cf::SIGHTINGS_BY_DOCUMENT, hex(&key), "the key cannot be read");
        }
    }

    /// The equivalence fingerprints in `pending` above `meta/indexed-up-to`.
    fn pending_equal(&mut self) -> HashSet<(Fingerprint, DocumentId)> {
        let indexed_up_to = self.store.indexed_up_to().unwrap_or_default();
        let mut pending = HashSet::new();
        let mut rows = self.rows(cf::PENDING);
        while let Some((key, row)) = self.next(&mut rows) {
            if !schema::is_pending_equal(&key) {
                continue;
            }
            let mut add = |fingerprint, document: DocumentId| {
                if document.0 > indexed_up_to {
                    pending.insert((fingerprint, document));
                }
            };
            if schema::read_pending_equal(&key, &row, &mut add).is_none() {
                self.add_finding(cf::PENDING, hex(&key), "the row cannot be read");
            }
        }
        pending.retain(|(_, document)| self.is_document(*document));
        pending
    }

    /// As many equivalence fingerprints lead to each document as it has.
    pub(super) fn equal(&mut self, expected: &[u8]) {
        let mut found = vec![0u8; expected.len()];
        let mut count = |document| {
            let n: &mut u8 = &mut found[index_of(document)];
            *n = n.saturating_add(1);
        };
        let mut pending = self.pending_equal();
        let mut rows = self.rows(cf::EQUAL);
        while let Some((key, row)) = self.next(&mut rows) {
            let document = Fields(&row).document().filter(|id| row.len() == 4 && self.is_document(*id));
            let fingerprint = Fields(&key).fingerprint().filter(|_| key.len() == 16);
            match document.zip(fingerprint) {
                Some((document, fingerprint)) => {
                    count(document);
                    pending.remove(&(fingerprint, document));
                }
                None => self.add_finding(cf::EQUAL, hex(&key), "it does not lead to a document"),
            }
        }
        pending.into_iter().for_each(|(_, document)| count(document));
        for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
            if found != expected {
                let what = format!("{found} equivalence fingerprints lead to this document; it has {expected}");
                self.add_finding(cf::EQUAL, format!("of document {}", at + 1), what);
            }
        }
    }
}

impl Expected {
    fn record(&mut self, document: DocumentId, stored: &StoredDocument) {
        let StoredDocument { n_index_shingles, n_super_shingles, n_mod_shingles, .. } = *stored;
        self.postings.counts[index_of(document)] = [n_index_shingles, n_super_shingles, n_mod_shingles];
        self.postings.checksums[index_of(document)] = stored.postings_checksum;
        let has_shingles = match &stored.sketch.form {
            SketchForm::Sample { values, .. } => !values.is_empty(),
            SketchForm::Whole(_) | SketchForm::Parity(_) => stored.sketch.n_shingles > 0,
        };
        self.n_equal[index_of(document)] = 2 + u8::from(has_shingles);
    }
}

/// Documents without a row.
#[derive(Default)]
struct Gaps {
    first: Option<u32>,
    n_missing: u32,
}

impl Gaps {
    /// Adds those from one id up to but excluding another.
    fn add(&mut self, from: u32, to: u32) {
        if from < to {
            self.first.get_or_insert(from);
            self.n_missing += to - from;
        }
    }
}

/// The family `standings`, read one row ahead.
struct SightingsByDocument<'s> {
    rows: Rows<'s>,
    next: Option<StoredSighting>,
}

/// The contribution of one sighting to its document's sum.
pub(super) fn sighting_hash(url: Fingerprint, moment: &Observation) -> u64 {
    use std::hash::{Hash, Hasher};
    let mut hasher = std::hash::DefaultHasher::new();
    (url, moment.fetched_at, &moment.sweep).hash(&mut hasher);
    hasher.finish()
}
