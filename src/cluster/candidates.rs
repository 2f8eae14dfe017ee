//! Candidates: the documents that might resemble a page, found by shared shingles.
//!
//! Two kinds of shingle nominate every document that has enough of them: the page's smallest uncommon shingles, and
//! its super shingles.
//!
//! A page from a template consists largely of common shingles, so those two kinds miss nine tenths of its
//! relatives. The smallest common shingles of such a page therefore nominate too, but only their representatives:
//! the first few documents that had them. This costs a few comparisons a page, whatever the size of the family.
//! Pages that resemble each other join the family through its first pages.

use super::rule::MatchRule;
use super::view::View;
use crate::document::{DocumentId, Fingerprint};
use crate::sketch::{Equivalences, Shingle};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// How many of a page's common shingles nominate documents; the smallest do.
const COMMON_QUERIED_MAX: usize = 16;

/// How many documents a common shingle nominates: the first that had it.
pub const REPRESENTATIVES_MAX: usize = 16;

/// Room for this many candidates is kept from page to page.
const CANDIDATES_KEPT_MAX: usize = 4096;

/// The most representatives that one page is compared with: those that share the most shingles with it.
const REPRESENTATIVES_COMPARED_MAX: usize = 16;

/// The shingles that look a page up in the index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexQuery {
    /// The smallest uncommon shingles, ascending. They also index the page.
    pub index: Vec<Shingle>,
    /// The common shingles that are smaller than the last of `index`; empty if there are fewer than
    /// `common_needed`.
    pub common: Vec<Shingle>,
    /// How many shingles of `common` a representative must have.
    pub common_needed: usize,
}

impl IndexQuery {
    /// Creates the query from a page's smallest shingles, ascending. At most `index_size` of them index the page.
    pub fn new(smallest: &[Shingle], index_size: usize, rule: &MatchRule, is_common: impl Fn(Shingle) -> bool) -> Self {
        let mut query = IndexQuery::default();
        for shingle in smallest {
            if query.index.len() == index_size {
                break;
            }
            if !is_common(*shingle) {
                query.index.push(*shingle);
            } else if query.common.len() < COMMON_QUERIED_MAX {
                query.common.push(*shingle);
            }
        }
        query.common_needed = rule.shared_needed(query.index.len() + query.common.len());
        if rule.ignore_common || query.common.len() < query.common_needed {
            query.common.clear();
        }
        query
    }
}

/// The first documents that had a shingle which is now common. The shingle's list is full, so they never change.
pub type Representatives = Box<[DocumentId]>;

/// Returns the representatives in the list of a common shingle.
pub fn first_representatives(list: &[DocumentId]) -> Representatives {
    list.iter().take(REPRESENTATIVES_MAX).copied().collect()
}

/// Returns the documents that represent at least `needed` of a page's common shingles, up to the limit for
/// comparisons. Documents that share more shingles come first; older documents come first among equals.
pub fn candidates_by_representatives<'r>(
    common: impl Iterator<Item = &'r Representatives>,
    needed: usize,
) -> Vec<DocumentId> {
    let mut shared: FxHashMap<DocumentId, usize> = FxHashMap::default();
    for document in common.flat_map(|representatives| representatives.iter()) {
        *shared.entry(*document).or_default() += 1;
    }
    let enough = shared.into_iter().filter(|(_, n_shared)| *n_shared >= needed);
    let mut candidates: Vec<(DocumentId, usize)> = enough.collect();
    candidates.sort_unstable_by_key(|(document, n_shared)| (Reverse(*n_shared), *document));
    candidates.into_iter().take(REPRESENTATIVES_COMPARED_MAX).map(|(document, _)| document).collect()
}

/// What a document shares with a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SharedShingles {
    /// How many index shingles.
    pub n_shared: u32,
    /// Whether any super shingle.
    is_nominated: bool,
    /// The sum of [`rarity`] over all shared index shingles and super shingles.
    pub rarity: u64,
}

/// What documents share with a page; kept from page to page, because its memory is at hand in the processor's caches.
pub(super) type SharedByDocument = FxHashMap<DocumentId, SharedShingles>;

/// Weighs a shingle by how few documents have it. A shingle that only two pages share counts more than several that
/// a whole template shares.
fn rarity(n_documents: usize) -> u64 {
    (1 << 32) / n_documents.max(1) as u64
}

/// Appends a document to a shingle's list unless the list is over the limit, and returns whether it did. Lists are
/// in the order of arrival and stop one past the limit, so that the length alone shows whether a shingle is common.
pub(super) fn append_capped(documents: &mut Vec<DocumentId>, document: DocumentId, limit: usize) -> bool {
    let has_room = documents.len() <= limit;
    if has_room {
        documents.push(document);
    }
    has_room
}

/// The part of the store's index that concerns one batch of pages. It is loaded once for the batch and updated
/// after each decision, so that the pages of a batch see each other.
#[derive(Clone, Debug, Default)]
pub struct BatchIndex {
    /// Equivalence fingerprint → document.
    pub equal: FxHashMap<Fingerprint, DocumentId>,
    /// Index shingle → documents. A list over the limit belongs to a common shingle and nominates only its
    /// representatives.
    pub postings: FxHashMap<Shingle, Vec<DocumentId>>,
    /// Super shingle → documents. A list over the limit still nominates the documents in it.
    pub supers: FxHashMap<Shingle, Vec<DocumentId>>,
}

impl BatchIndex {
    /// Whether a document is known that a content with these fingerprints equals.
    pub fn has_equal(&self, equivalences: &Equivalences) -> bool {
        self.equal.contains_key(&equivalences.widest())
    }

    /// Loads the lists that are missing here from the view.
    pub(super) fn load_missing<V: View>(
        &mut self,
        mut index: Vec<Shingle>,
        mut supers: Vec<Shingle>,
        view: &V,
    ) -> Result<(), V::Error> {
        retain_missing(&mut index, &self.postings);
        if !index.is_empty() {
            let lists = view.postings(&index)?;
            self.postings.extend(index.into_iter().zip(lists));
        }
        retain_missing(&mut supers, &self.supers);
        if !supers.is_empty() {
            let lists = view.supers(&supers)?;
            self.supers.extend(supers.into_iter().zip(lists));
        }
        Ok(())
    }

    /// Returns the documents that share at least `needed` index shingles or one super shingle with a page.
    /// Documents that share more index shingles come first; older documents come first among equals. `shared` must be
    /// empty, and is when this returns.
    pub(super) fn candidates(
        &self,
        index: &[Shingle],
        supers: &[Shingle],
        (needed, common_limit): (usize, usize),
        shared: &mut SharedByDocument,
    ) -> Vec<(DocumentId, SharedShingles)> {
        for list in index.iter().filter_map(|shingle| self.postings.get(shingle)) {
            if list.len() > common_limit {
                continue;
            }
            let rarity = rarity(list.len());
            for document in list {
                let entry = shared.entry(*document).or_default();
                entry.n_shared += 1;
                entry.rarity += rarity;
            }
        }
        for list in supers.iter().filter_map(|shingle| self.supers.get(shingle)) {
            let rarity = rarity(list.len());
            for document in list {
                let entry = shared.entry(*document).or_default();
                entry.is_nominated = true;
                entry.rarity += rarity;
            }
        }
        let is_enough = |shared: &SharedShingles| shared.n_shared as usize >= needed || shared.is_nominated;
        let mut enough: Vec<_> = shared.drain().filter(|(_, shared)| is_enough(shared)).collect();
        if shared.capacity() > 2 * CANDIDATES_KEPT_MAX {
            shared.shrink_to(CANDIDATES_KEPT_MAX);
        }
        enough.sort_unstable_by_key(|(document, shared)| (Reverse(shared.n_shared), *document));
        enough
    }
}

/// Sorts `shingles` and keeps those that `known` does not contain.
fn retain_missing(shingles: &mut Vec<Shingle>, known: &FxHashMap<Shingle, Vec<DocumentId>>) {
    shingles.retain(|shingle| !known.contains_key(shingle));
    shingles.sort_unstable();
    shingles.dedup();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(documents: &[u32]) -> Vec<DocumentId> {
        documents.iter().copied().map(DocumentId).collect()
    }

    #[test]
    fn most_shared_first() {
        let known = BatchIndex {
            postings: FxHashMap::from_iter([
                (1, list(&[1, 2])),
                (2, list(&[2, 3])),
                (3, list(&[2, 3])),
                (4, list(&[7, 8, 9])),
            ]),
            supers: FxHashMap::from_iter([(5, list(&[6]))]),
            ..BatchIndex::default()
        };
        let ids = |index: &[u64], supers: &[u64], needed| -> Vec<u32> {
            let found = known.candidates(index, supers, (needed, 2), &mut FxHashMap::default());
            found.iter().map(|(document, _)| document.0).collect()
        };
        assert_eq!(ids(&[1, 2, 3], &[], 1), [2, 3, 1]);
        assert_eq!(ids(&[1, 2, 3], &[], 2), [2, 3]);
        assert_eq!(ids(&[1, 2, 3], &[5], 3), [2, 6]);
        assert_eq!(ids(&[4, 9], &[], 1), [] as [u32; 0], "shingle 4 is common");
    }

    /// Lost once, when `comparisons_max` left no room for all: an older version of the page. It shared one shingle
    /// that no other page had, but hundreds of pages of the same template shared as many shingles and came first.
    #[test]
    fn a_rare_shingle_outweighs_several_frequent_ones() {
        let template: Vec<u32> = (10..60).collect();
        let known = BatchIndex {
            postings: FxHashMap::from_iter([
                (1, list(&[1])),
                (2, list(&template)),
                (3, list(&template)),
                (4, list(&template)),
            ]),
            supers: FxHashMap::default(),
            ..BatchIndex::default()
        };
        let shared = known.candidates(&[1, 2, 3, 4], &[], (1, 100), &mut FxHashMap::default());
        let rarest = shared.iter().max_by_key(|(_, shared)| shared.rarity);
        assert_eq!(rarest.map(|(document, shared)| (*document, shared.n_shared)), Some((DocumentId(1), 1)));
    }

    #[test]
    fn a_list_stops_growing_one_past_the_limit() {
        let mut list = Vec::new();
        let added: Vec<bool> = (1..=5).map(|id| append_capped(&mut list, DocumentId(id), 2)).collect();
        assert_eq!(added, [true, true, true, false, false]);
        assert_eq!(list.len(), 3);
    }
}
