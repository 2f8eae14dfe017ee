//! From a document back to the shingles that index it.
//!
//! A document's row holds the sketch, not the index shingles. But the sketch gives narrow ranges in which the
//! shingles lie. In these ranges of the posting families, the keys whose rows name the document are its shingles. The
//! bitmap of a large document lacks about a third of them; the rest suffices for a search.

use super::open::RocksStore;
use super::rocks_error::{damaged, failed};
use super::schema::{self, PostingKind, cf};
use crate::document::DocumentId;
use crate::ports::{DocumentShingles, StoreError};
use crate::sketch::Shingle;
use std::ops::RangeInclusive;

/// Posting lists to read for one document, at most: about a second. A page of 300 words in a store of ten million
/// documents takes a tenth of that. For a page of many thousand words, some shingles may be missed.
const LISTS_MAX: usize = 2_000_000;

/// Mod postings to look up for one document, at most: about a second.
const LOOK_UPS_MAX: usize = 300_000;

impl RocksStore {
    pub(super) fn shingles_of(&self, document: DocumentId) -> Result<DocumentShingles, StoreError> {
        let Some(stored) = self.stored_documents(&[document])?.pop() else { return Ok(DocumentShingles::default()) };
        let ranges = stored.sketch.ranges(self.rule.sketch.bits);
        if document.0 > self.indexed_up_to()? {
            let mut found = self.pending_shingles_of(document)?;
            // Once a run holds these postings, look-ups go by range. The answer must not change then.
            for shingles in [&mut found.index, &mut found.mod_shingles] {
                shingles.retain(|shingle| is_in(&ranges, *shingle));
            }
            return Ok(found);
        }
        let index = self.index_shingles_in(&ranges, document, stored.n_index_shingles as usize)?;
        let mod_shingles = self.mod_shingles_in(&ranges, document, stored.n_mod_shingles as usize)?;
        Ok(DocumentShingles { index, mod_shingles })
    }

    /// The shingles of a document whose postings are in no run yet.
    fn pending_shingles_of(&self, wanted: DocumentId) -> Result<DocumentShingles, StoreError> {
        let mut found = DocumentShingles::default();
        let mut rows = self.db.raw_iterator_cf(self.cf(cf::PENDING)?);
        rows.seek_for_prev(wanted.0.to_be_bytes());
        if rows.key().is_some_and(schema::is_pending_equal) {
            rows.prev();
        }
        if let Some((key, row)) = rows.item() {
            let read =
                schema::read_pending(key, row, self.rule.sketch.bits, &mut |kind, shingle, document| match kind {
                    PostingKind::Index if document == wanted => found.index.push(shingle),
                    PostingKind::Mod if document == wanted => found.mod_shingles.push(shingle),
                    _ => {}
                });
            read.ok_or_else(|| damaged("a row of pending"))?;
        }
        rows.status().map_err(failed)?;
        Ok(found)
    }

    /// The first `limit` index shingles of a document in these ranges.
    fn index_shingles_in(
        &self,
        ranges: &[RangeInclusive<Shingle>],
        document: DocumentId,
        limit: usize,
    ) -> Result<Vec<Shingle>, StoreError> {
        let (mut found, mut n_left, mut documents) = (Vec::new(), LISTS_MAX, Vec::new());
        let mut lists = self.posting_runs.lists(PostingKind::Index)?;
        for range in ranges {
            if found.len() == limit || n_left == 0 {
                break;
            }
            lists.seek(*range.start())?;
            while n_left > 0
                && let Some((shingle, list)) = lists.next()?
                && shingle <= *range.end()
            {
                n_left -= 1;
                documents.clear();
                schema::read_documents(list, &mut documents).ok_or_else(|| damaged("a list of postings"))?;
                if documents.binary_search(&document).is_ok() {
                    found.push(shingle);
                }
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    /// The first `limit` mod shingles of a document in these ranges. A mod shingle may have millions of keys, so the
    /// search jumps to the one key that would name the document.
    fn mod_shingles_in(
        &self,
        ranges: &[RangeInclusive<Shingle>],
        document: DocumentId,
        limit: usize,
    ) -> Result<Vec<Shingle>, StoreError> {
        let bits = self.rule.sketch.bits;
        let (mut found, mut n_left) = (Vec::new(), LOOK_UPS_MAX);
        let mut rows = self.db.raw_iterator_cf(self.cf(cf::MOD_POSTINGS)?);
        for range in ranges {
            let mut next = Some(*range.start());
            while let Some(from) = next.filter(|from| range.contains(from) && n_left > 0 && found.len() < limit) {
                n_left -= 1;
                rows.seek(schema::mod_posting_key(from, document, bits));
                let Some(key) = rows.key() else { break };
                let posting = schema::read_mod_posting(key, bits).ok_or_else(|| damaged("a row of mod-postings"))?;
                let (shingle, other) = posting;
                if other == document && range.contains(&shingle) {
                    found.push(shingle);
                }
                let is_before = shingle > from && other < document;
                next = if is_before { Some(shingle) } else { shingle.checked_add(1) };
            }
            rows.status().map_err(failed)?;
        }
        Ok(found)
    }
}

/// Whether a shingle lies in one of the ranges, which ascend.
fn is_in(ranges: &[RangeInclusive<Shingle>], shingle: Shingle) -> bool {
    let at = ranges.partition_point(|range| *range.end() < shingle);
    ranges.get(at).is_some_and(|range| range.contains(&shingle))
}
