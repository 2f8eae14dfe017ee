//! Candidates: which documents might resemble a page, by the shingles they share with it.

use super::decide::View;
use crate::document::{DocumentId, Fingerprint};
use crate::sketch::Shingle;
use rustc_hash::FxHashMap;

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
pub struct Known {
    /// Equivalence fingerprint → document.
    pub equal: FxHashMap<Fingerprint, DocumentId>,
    /// Index shingle → documents; lists over the limit are common and nominate nobody.
    pub postings: FxHashMap<Shingle, Vec<DocumentId>>,
    /// Super shingle → documents; lists over the limit keep nominating the documents they have.
    pub supers: FxHashMap<Shingle, Vec<DocumentId>>,
}

impl Known {
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
    ) -> Vec<DocumentId> {
        let mut shared: FxHashMap<DocumentId, (usize, bool)> = FxHashMap::default();
        for shingle in index {
            let list = self.postings.get(shingle).map(Vec::as_slice).unwrap_or_default();
            if list.len() <= common_limit {
                for document in list {
                    shared.entry(*document).or_default().0 += 1;
                }
            }
        }
        for shingle in supers {
            for document in self.supers.get(shingle).into_iter().flatten() {
                shared.entry(*document).or_default().1 = true;
            }
        }
        let mut candidates: Vec<(usize, DocumentId)> = shared
            .into_iter()
            .filter(|(_, (n_shared, nominated))| *n_shared >= needed || *nominated)
            .map(|(document, (n_shared, _))| (n_shared, document))
            .collect();
        candidates.sort_unstable_by_key(|(n_shared, document)| (std::cmp::Reverse(*n_shared), *document));
        candidates.into_iter().map(|(_, document)| document).collect()
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
        let known = Known {
            postings: FxHashMap::from_iter([
                (1, list(&[1, 2])),
                (2, list(&[2, 3])),
                (3, list(&[2, 3])),
                (4, list(&[7, 8, 9])),
            ]),
            supers: FxHashMap::from_iter([(5, list(&[6]))]),
            ..Known::default()
        };
        let ids = |index: &[u64], supers: &[u64], needed| -> Vec<u32> {
            known.candidates(index, supers, needed, 2).iter().map(|document| document.0).collect()
        };
        assert_eq!(ids(&[1, 2, 3], &[], 1), [2, 3, 1]);
        assert_eq!(ids(&[1, 2, 3], &[], 2), [2, 3]);
        assert_eq!(ids(&[1, 2, 3], &[5], 3), [2, 6]);
        assert_eq!(ids(&[4, 9], &[], 1), [] as [u32; 0], "shingle 4 is common");
    }

    #[test]
    fn a_list_stops_growing_one_past_the_limit() {
        let mut list = Vec::new();
        let added: Vec<bool> = (1..=5).map(|id| add(&mut list, DocumentId(id), 2)).collect();
        assert_eq!(added, [true, true, true, false, false]);
        assert_eq!(list.len(), 3);
    }
}
