//! Candidates: which documents might resemble a page, by the shingles they share with it.

use super::decide::View;
use crate::document::{DocumentId, Fingerprint};
use crate::sketch::Shingle;
use std::collections::HashMap;

/// The documents in which a shingle stands, in the order of their arrival; one more than the limit at most, so that
/// its length tells whether the shingle is common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PostingList {
    /// The documents.
    pub documents: Vec<DocumentId>,
    /// Whether it differs from what the store holds.
    pub changed: bool,
}

impl PostingList {
    /// A list as the store holds it.
    pub fn stored(documents: Vec<DocumentId>) -> Self {
        PostingList { documents, changed: false }
    }

    /// Adds a document unless the list is over the limit; true where this addition puts it there.
    pub(super) fn add(&mut self, document: DocumentId, limit: usize) -> bool {
        if self.documents.len() > limit {
            return false;
        }
        self.documents.push(document);
        self.changed = true;
        self.documents.len() > limit
    }
}

/// What the store knows that matters to a batch of pages: asked for once by the batch, then kept up to date as its
/// pages are decided, so that pages of one batch see each other.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Equivalence fingerprint → document.
    pub equal: HashMap<Fingerprint, DocumentId>,
    /// Index shingle → documents; lists over the limit are common and nominate nobody.
    pub postings: HashMap<Shingle, PostingList>,
    /// Super shingle → documents; lists over the limit keep nominating the documents they have.
    pub supers: HashMap<Shingle, PostingList>,
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
            let lists = view.postings(&index)?.into_iter().map(PostingList::stored);
            self.postings.extend(index.into_iter().zip(lists));
        }
        unknown(&mut supers, &self.supers);
        if !supers.is_empty() {
            let lists = view.supers(&supers)?.into_iter().map(PostingList::stored);
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
        let mut shared: HashMap<DocumentId, (usize, bool)> = HashMap::new();
        for shingle in index {
            let list = self.postings.get(shingle).map(|list| list.documents.as_slice()).unwrap_or_default();
            if list.len() <= common_limit {
                for document in list {
                    shared.entry(*document).or_default().0 += 1;
                }
            }
        }
        for shingle in supers {
            for document in self.supers.get(shingle).map(|list| &list.documents).into_iter().flatten() {
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
fn unknown(shingles: &mut Vec<Shingle>, known: &HashMap<Shingle, PostingList>) {
    shingles.retain(|shingle| !known.contains_key(shingle));
    shingles.sort_unstable();
    shingles.dedup();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(documents: &[u32]) -> PostingList {
        PostingList::stored(documents.iter().copied().map(DocumentId).collect())
    }

    #[test]
    fn most_shared_first() {
        let known = Known {
            postings: HashMap::from([
                (1, list(&[1, 2])),
                (2, list(&[2, 3])),
                (3, list(&[2, 3])),
                (4, list(&[7, 8, 9])),
            ]),
            supers: HashMap::from([(5, list(&[6]))]),
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
        let mut list = PostingList::default();
        let crossed: Vec<bool> = (1..=5).map(|id| list.add(DocumentId(id), 2)).collect();
        assert_eq!(crossed, [false, false, true, false, false]);
        assert_eq!(list.documents.len(), 3);
    }
}
