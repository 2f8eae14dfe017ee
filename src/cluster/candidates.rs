//! Candidates: the documents that might resemble a page, found by shared shingles.
//!
//! Two kinds of shingle nominate every document that has enough of them: the page's smallest uncommon shingles, and
//! its super shingles.
//!
//! A page from a template consists largely of common shingles, so those two kinds miss nine tenths of its
//! relatives. The smallest common shingles of such a page therefore nominate too, but only their representatives:
//! the first few documents that had them. This costs a few comparisons a page, whatever the size of the family.
//! Pages that resemble each other join the family through its first pages.

use super::index_query::IndexQuery;
use super::rule::MatchRule;
use super::view::{PostingList, UnreadIn, View};
use crate::document::{DocumentId, Fingerprint};
use crate::sketch::{Equivalences, Shingle};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cmp::Reverse;

/// How many documents a common shingle nominates: the first that had it.
pub const REPRESENTATIVES_MAX: usize = 16;

/// Room for this many candidates is kept from page to page.
const CANDIDATES_KEPT_MAX: usize = 4096;

/// The most representatives that one page is compared with: those that share the most shingles with it.
const REPRESENTATIVES_COMPARED_MAX: usize = 16;

/// The documents of one shingle, ascending. Most shingles are of one document or of a few, which need no memory of their own.
pub type Documents = SmallVec<[DocumentId; 4]>;

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
pub(super) fn append_capped(documents: &mut Documents, document: DocumentId, limit: usize) -> bool {
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
    pub postings: FxHashMap<Shingle, Documents>,
    /// Index shingle → where in the store there may be documents of it besides those in `postings`, because its list was
    /// [left unread](PostingList::Unread).
    pub unread: FxHashMap<Shingle, UnreadIn>,
    /// The first document that the look-up may have missed. `postings` has this one and those after it under all their shingles,
    /// also those whose list was left unread. None: no document is known to be so.
    pub first_recent: Option<DocumentId>,
    /// Super shingle → documents. A list over the limit still nominates the documents in it.
    pub supers: FxHashMap<Shingle, Documents>,
}

impl BatchIndex {
    /// Whether a document is known that a content with these fingerprints equals.
    pub fn has_equal(&self, equivalences: &Equivalences) -> bool {
        self.equal.contains_key(&equivalences.identical) || self.equal.contains_key(&equivalences.widest())
    }

    /// Loads the lists that decisions over `pages` can be expected to need, and those of some super shingles.
    pub(super) fn load_for<V: View>(
        &mut self,
        pages: &[IndexQuery],
        supers: &[Shingle],
        view: &V,
    ) -> Result<(), V::Error> {
        let index = missing(pages.iter().flat_map(|page| &page.index), &self.postings);
        if !index.is_empty() {
            // A few more come while the batch is decided, and a table that grows moves all its lists.
            self.postings.reserve(index.len() + index.len() / 16);
            for (shingle, list) in index.iter().zip(view.postings_for(&index, pages)?) {
                match list {
                    PostingList::Read(documents) => _ = self.postings.insert(*shingle, documents.into()),
                    PostingList::Unread(part) => _ = self.unread.insert(*shingle, part),
                }
            }
        }
        self.load_supers(supers, view)
    }

    /// Loads the lists of a page that are missing here. Of those that were left unread it loads the ones that could nominate a
    /// document or make a shingle common.
    pub(super) fn load_missing<V: View>(
        &mut self,
        query: &IndexQuery,
        supers: &[Shingle],
        rule: &MatchRule,
        view: &V,
    ) -> Result<(), V::Error> {
        self.load_supers(supers, view)?;
        let is_old = |list: &Documents| list.first().is_some_and(|first| self.is_old(*first));
        let (mut wanted, mut unread, mut n_old) = (Vec::new(), Vec::new(), 0);
        for shingle in &query.index {
            let list = self.postings.get(shingle);
            // Most were read, and are empty.
            if list.is_some_and(Documents::is_empty) {
                continue;
            }
            match (self.unread.get(shingle), list) {
                (Some(_), list) if list.map_or(0, Documents::len) + rule.unread_max() >= rule.common_limit => {
                    wanted.push(*shingle);
                }
                (Some(part), _) => unread.push((*part, *shingle)),
                (None, None) => wanted.push(*shingle),
                (None, Some(list)) => n_old += usize::from(is_old(list)),
            }
        }
        let has_old = |shingle| self.supers.get(shingle).is_some_and(is_old);
        let n_needed = query.needed.saturating_sub(n_old + wanted.len());
        let parts = unread.iter().map(|(part, _)| *part);
        if !unread.is_empty() && (UnreadIn::may_share(parts, n_needed) || supers.iter().any(has_old)) {
            wanted.extend(unread.into_iter().map(|(_, shingle)| shingle));
            wanted.sort_unstable();
        }
        self.load(&wanted, view)
    }

    /// Loads the lists of a page that were left unread. Returns whether there are any.
    pub(super) fn load_unread<V: View>(&mut self, query: &IndexQuery, view: &V) -> Result<bool, V::Error> {
        let is_unread = |shingle: &Shingle| self.unread.contains_key(shingle);
        let unread: Vec<Shingle> = query.index.iter().copied().filter(is_unread).collect();
        self.load(&unread, view)?;
        Ok(!unread.is_empty())
    }

    fn load<V: View>(&mut self, shingles: &[Shingle], view: &V) -> Result<(), V::Error> {
        if shingles.is_empty() {
            return Ok(());
        }
        for (shingle, mut list) in shingles.iter().zip(view.postings(shingles)?) {
            let known = self.postings.entry(*shingle).or_default();
            add_documents(&mut list, known);
            *known = list.into();
            self.unread.remove(shingle);
        }
        Ok(())
    }

    /// Whether lists that were left unread may have a document.
    fn is_old(&self, document: DocumentId) -> bool {
        self.first_recent.is_none_or(|recent| document < recent)
    }

    fn load_supers<V: View>(&mut self, supers: &[Shingle], view: &V) -> Result<(), V::Error> {
        let supers = missing(supers.iter(), &self.supers);
        if !supers.is_empty() {
            let lists = view.supers(&supers)?;
            self.supers.extend(supers.into_iter().zip(lists.into_iter().map(Documents::from)));
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

/// Adds documents to a list. Both ascend, and may overlap.
pub fn add_documents(list: &mut Vec<DocumentId>, documents: &[DocumentId]) {
    let overlap = documents.first().is_some_and(|first| list.last() >= Some(first));
    list.extend_from_slice(documents);
    if overlap {
        list.sort_unstable();
        list.dedup();
    }
}

/// Those of some shingles that `known` does not contain, ascending.
fn missing<'s>(shingles: impl Iterator<Item = &'s Shingle>, known: &FxHashMap<Shingle, Documents>) -> Vec<Shingle> {
    let mut missing: Vec<Shingle> = shingles.filter(|shingle| !known.contains_key(shingle)).copied().collect();
    missing.sort_unstable();
    missing.dedup();
    missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::view::{SketchView, TooManyDocuments};
    use crate::sketch::Sketch;
    use std::sync::Arc;

    fn list(documents: &[u32]) -> Documents {
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

    /// Document 7 has every index shingle, and no super shingle that is not known.
    struct Document7;

    impl SketchView for Document7 {
        type Error = TooManyDocuments;

        fn sketches(&self, _: &[DocumentId]) -> Result<Vec<Arc<Sketch>>, TooManyDocuments> {
            Ok(Vec::new())
        }
    }

    impl View for Document7 {
        fn postings(&self, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, TooManyDocuments> {
            Ok(vec![list(&[7]).into_vec(); shingles.len()])
        }

        fn supers(&self, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, TooManyDocuments> {
            Ok(vec![Vec::new(); shingles.len()])
        }
    }

    /// Candidates are ordered by what they share, also those that a super shingle nominates.
    #[test]
    fn unread_lists_are_read_for_a_page_with_candidates() {
        let read = |supers: &[u64], needed, first_recent| {
            let mut known = BatchIndex {
                first_recent: Some(DocumentId(first_recent)),
                postings: FxHashMap::from_iter([(1, list(&[])), (2, list(&[9]))]),
                unread: FxHashMap::from_iter([(3, UnreadIn::Part(0)), (4, UnreadIn::Part(1))]),
                supers: FxHashMap::from_iter([(5, list(&[7]))]),
                ..BatchIndex::default()
            };
            let query = IndexQuery { index: vec![1, 2, 3, 4], needed, ..IndexQuery::default() };
            known.load_missing(&query, supers, &MatchRule::default(), &Document7).expect("loads");
            let mut read: Vec<Shingle> =
                known.postings.into_iter().filter(|(_, at)| at[..] == [DocumentId(7)]).map(|(at, _)| at).collect();
            read.sort_unstable();
            read
        };
        const NONE: [Shingle; 0] = [];
        assert_eq!(read(&[6], 3, 10), NONE, "3 and 4 are not of one document");
        assert_eq!(read(&[6], 2, 10), [3, 4]);
        assert_eq!(read(&[6], 2, 9), NONE, "the only document of 2 is in flight");
        assert_eq!(read(&[5, 6], 3, 10), [3, 4]);
        assert_eq!(read(&[5, 6], 3, 7), NONE, "the only candidate is in flight");
    }

    #[test]
    fn a_list_stops_growing_one_past_the_limit() {
        let mut list = Documents::new();
        let added: Vec<bool> = (1..=5).map(|id| append_capped(&mut list, DocumentId(id), 2)).collect();
        assert_eq!(added, [true, true, true, false, false]);
        assert_eq!(list.len(), 3);
    }
}
