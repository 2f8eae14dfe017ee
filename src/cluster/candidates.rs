//! Candidates: which documents might resemble a page, by the shingles they share with it.
//!
//! A page's smallest uncommon shingles nominate all documents that have enough of them, its super shingles whoever has
//! one. Of a page that is largely made of common shingles, a page of a template, that is too little: nine tenths of the
//! family of such pages would stand alone. So there its smallest common shingles nominate too, but only their
//! representatives, the first few documents that had them. Whatever the size of the family, that is a few comparisons a
//! page: the family of those that resemble each other is joined through its first pages, and where they do not, no more
//! pages are compared than the representatives.

use super::rule::MatchRule;
use super::view::View;
use crate::document::{DocumentId, Fingerprint};
use crate::sketch::Shingle;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// How many of a page's common shingles nominate, the smallest.
const COMMON_ASKED_MAX: usize = 16;

/// How many documents a common shingle nominates, the first that had it.
const REPRESENTATIVES_MAX: usize = 16;

/// How many representatives a page is compared with at most, those with most shared shingles.
const REPRESENTATIVES_COMPARED_MAX: usize = 16;

/// The shingles by which a page is looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexQuery {
    /// The smallest that are not common: they index it as well.
    pub index: Vec<Shingle>,
    /// The smallest common ones among those that were smaller; none where they could not nominate anybody.
    pub common: Vec<Shingle>,
    /// How many of the common ones a page must share with a representative.
    pub common_needed: usize,
}

impl IndexQuery {
    /// Of a page's smallest shingles, ascending, `index_size` of which index it at most.
    pub fn new(smallest: &[Shingle], index_size: usize, rule: &MatchRule, is_common: impl Fn(Shingle) -> bool) -> Self {
        let mut asked = IndexQuery::default();
        for shingle in smallest {
            if asked.index.len() == index_size {
                break;
            }
            if !is_common(*shingle) {
                asked.index.push(*shingle);
            } else if asked.common.len() < COMMON_ASKED_MAX {
                asked.common.push(*shingle);
            }
        }
        asked.common_needed = rule.shared_needed(asked.index.len() + asked.common.len());
        if rule.ignore_common || asked.common.len() < asked.common_needed {
            asked.common.clear();
        }
        asked
    }
}

/// The first documents in which a shingle stood that is common by now. Its list has ended, so they never change.
pub type Representatives = Box<[DocumentId]>;

/// The representatives in the list of a common shingle.
pub fn first_representatives(list: &[DocumentId]) -> Representatives {
    list.iter().take(REPRESENTATIVES_MAX).copied().collect()
}

/// The candidates among the representatives of a page's common shingles: those of at least `needed` of them, no more
/// than are to be compared, most shared shingles first, then by age.
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

/// A document that shares shingles with a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SharedShingles {
    pub document: DocumentId,
    /// How many index shingles they share.
    pub n_shared: usize,
    /// How much these and the super shingles that they share tell: see [`rarity`].
    pub rarity: u64,
    is_nominated: bool,
}

/// What a shingle in so many documents tells of those that have it: one that two pages share alone says more than several
/// that they share with a whole template.
fn rarity(n_documents: usize) -> u64 {
    (1 << 32) / n_documents.max(1) as u64
}

/// Adds a document to those in which a shingle stands, unless they are over the limit; true where it was added. Lists
/// are in the order of arrival and stop one past the limit, so that a list's length tells whether its shingle is common.
pub(super) fn add(documents: &mut Vec<DocumentId>, document: DocumentId, limit: usize) -> bool {
    let has_room = documents.len() <= limit;
    if has_room {
        documents.push(document);
    }
    has_room
}

/// What the store knows that matters to a batch of pages: asked for once by the batch, then kept up to date as its
/// pages are decided, so that pages of one batch see each other.
#[derive(Clone, Debug, Default)]
pub struct BatchIndex {
    /// Equivalence fingerprint → document.
    pub equal: FxHashMap<Fingerprint, DocumentId>,
    /// Index shingle → documents; lists over the limit are common and nominate only their representatives.
    pub postings: FxHashMap<Shingle, Vec<DocumentId>>,
    /// Super shingle → documents; lists over the limit keep nominating the documents they have.
    pub supers: FxHashMap<Shingle, Vec<DocumentId>>,
}

impl BatchIndex {
    /// Asks the view for the lists that are not known yet.
    pub(super) fn learn<V: View>(
        &mut self,
        mut index: Vec<Shingle>,
        mut supers: Vec<Shingle>,
        view: &mut V,
    ) -> Result<(), V::Error> {
        unknown(&mut index, &self.postings);
        if !index.is_empty() {
            let lists = view.postings(&index)?;
            self.postings.extend(index.into_iter().zip(lists));
        }
        unknown(&mut supers, &self.supers);
        if !supers.is_empty() {
            let lists = view.supers(&supers)?;
            self.supers.extend(supers.into_iter().zip(lists));
        }
        Ok(())
    }

    /// The candidates for a document with these index and super shingles: those with at least `needed` shared index
    /// shingles, or any super shingle in common. Most shared shingles first, then by age.
    pub(super) fn candidates(
        &self,
        index: &[Shingle],
        supers: &[Shingle],
        needed: usize,
        common_limit: usize,
    ) -> Vec<SharedShingles> {
        let mut shared: FxHashMap<DocumentId, SharedShingles> = FxHashMap::default();
        let of = |document: DocumentId| SharedShingles { document, n_shared: 0, rarity: 0, is_nominated: false };
        for shingle in index {
            let list = self.postings.get(shingle).map(Vec::as_slice).unwrap_or_default();
            if list.len() <= common_limit {
                for document in list {
                    let entry = shared.entry(*document).or_insert_with(|| of(*document));
                    entry.n_shared += 1;
                    entry.rarity += rarity(list.len());
                }
            }
        }
        for shingle in supers {
            let list = self.supers.get(shingle).map(Vec::as_slice).unwrap_or_default();
            for document in list {
                let entry = shared.entry(*document).or_insert_with(|| of(*document));
                entry.is_nominated = true;
                entry.rarity += rarity(list.len());
            }
        }
        let mut enough: Vec<SharedShingles> =
            shared.into_values().filter(|shared| shared.n_shared >= needed || shared.is_nominated).collect();
        enough.sort_unstable_by_key(|shared| (Reverse(shared.n_shared), shared.document));
        enough
    }
}

/// Sorts and thins a question to what is not known yet.
fn unknown(shingles: &mut Vec<Shingle>, known: &FxHashMap<Shingle, Vec<DocumentId>>) {
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
            known.candidates(index, supers, needed, 2).iter().map(|shared| shared.document.0).collect()
        };
        assert_eq!(ids(&[1, 2, 3], &[], 1), [2, 3, 1]);
        assert_eq!(ids(&[1, 2, 3], &[], 2), [2, 3]);
        assert_eq!(ids(&[1, 2, 3], &[5], 3), [2, 6]);
        assert_eq!(ids(&[4, 9], &[], 1), [] as [u32; 0], "shingle 4 is common");
    }

    /// Lost once, where not all may be compared: a page's version, which shares with it what nobody else has, behind
    /// hundreds of pages of its template, which share as many shingles.
    #[test]
    fn a_shingle_that_few_have_tells_more_than_several_that_many_have() {
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
        let shared = known.candidates(&[1, 2, 3, 4], &[], 1, 100);
        let rarest = shared.iter().max_by_key(|shared| shared.rarity);
        assert_eq!(rarest.map(|shared| (shared.document, shared.n_shared)), Some((DocumentId(1), 1)));
    }

    #[test]
    fn a_list_stops_growing_one_past_the_limit() {
        let mut list = Vec::new();
        let added: Vec<bool> = (1..=5).map(|id| add(&mut list, DocumentId(id), 2)).collect();
        assert_eq!(added, [true, true, true, false, false]);
        assert_eq!(list.len(), 3);
    }
}
