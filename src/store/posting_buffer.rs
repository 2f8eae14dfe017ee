//! The newest postings, in memory until a run of them is in the store.

use super::schema::{PostingKind, postings_of};
use crate::cluster::NewDocument;
use crate::document::DocumentId;
use crate::sketch::Shingle;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a posting takes in memory at most: 17 bytes for a shingle's place in a table that is never less than seven
/// sixteenths full, 8 for the posting itself. While a run is written, its sorted shingles take 16 more.
const POSTING_BYTES: usize = 48;

/// Marks the first posting of a chain, where the store may have older ones of the shingle.
const NONE: u32 = u32::MAX;

/// Marks the first posting of a chain that is the first of its shingle altogether.
const BEGINNING: u32 = NONE - 1;

/// Chains that are walked at once: enough to keep the processor's outstanding misses busy.
const CHAINS_TOGETHER: usize = 32;

/// Shingle → documents, each shingle's postings chained from the newest to the oldest: a document costs no allocation.
#[derive(Default)]
pub(super) struct Chains {
    /// The newest posting of each shingle.
    heads: FxHashMap<Shingle, u32>,
    /// A posting's document, and the shingle's posting before it.
    postings: Vec<(DocumentId, u32)>,
}

impl Chains {
    fn add(&mut self, shingle: Shingle, document: DocumentId, begins: bool) {
        let head = self.heads.entry(shingle).or_insert(if begins { BEGINNING } else { NONE });
        let before = std::mem::replace(head, self.postings.len() as u32);
        self.postings.push((document, before));
    }

    /// The newest posting of each of some shingles, or [`NONE`]. Nearly every one of these look-ups misses the caches; here
    /// none waits for the one before it.
    fn heads_of(&self, shingles: &[Shingle]) -> Vec<u32> {
        shingles.iter().map(|shingle| self.heads.get(shingle).copied().unwrap_or(NONE)).collect()
    }

    /// Appends the documents of a chain, ascending; true where the chain is all that there is of its shingle.
    fn append(&self, head: u32, documents: &mut Vec<DocumentId>) -> bool {
        let (mut at, begin) = (head, documents.len());
        while at < BEGINNING {
            let (document, before) = self.postings[at as usize];
            documents.push(document);
            at = before;
        }
        documents[begin..].reverse();
        at == BEGINNING
    }

    /// Appends the documents of each chain to its list, ascending. The chains advance together, one step a round, because
    /// nearly every step misses the caches: the misses of one round overlap, those along one chain cannot.
    fn append_each(&self, heads: &[u32], lists: &mut [Vec<DocumentId>]) {
        for (heads, lists) in heads.chunks(CHAINS_TOGETHER).zip(lists.chunks_mut(CHAINS_TOGETHER)) {
            let begins: Vec<usize> = lists.iter().map(Vec::len).collect();
            let mut walking: Vec<(u32, usize)> =
                heads.iter().copied().zip(0..).filter(|(head, _)| *head < BEGINNING).collect();
            while !walking.is_empty() {
                walking.retain_mut(|(at, list)| {
                    let (document, before) = self.postings[*at as usize];
                    lists[*list].push(document);
                    *at = before;
                    before < BEGINNING
                });
            }
            lists.iter_mut().zip(begins).for_each(|(documents, begin)| documents[begin..].reverse());
        }
    }

    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Calls `each` with every shingle, ascending, its documents, ascending, and whether the store has no others of it.
    pub fn each<E, F>(&self, mut each: F) -> Result<(), E>
    where
        F: FnMut(Shingle, &[DocumentId], bool) -> Result<(), E>,
    {
        // The newest postings, which are nearly all, are fetched here, where no look-up waits for the one before it.
        let newest = |(shingle, head): (&Shingle, &u32)| (*shingle, self.postings[*head as usize]);
        let mut chains: Vec<(Shingle, (DocumentId, u32))> = self.heads.iter().map(newest).collect();
        chains.sort_unstable_by_key(|(shingle, _)| *shingle);
        let mut documents = Vec::new();
        for (shingle, (newest, before)) in chains {
            documents.clear();
            let begins = self.append(before, &mut documents);
            documents.push(newest);
            each(shingle, &documents, begins)?;
        }
        Ok(())
    }
}

/// The postings of documents that follow each other: what becomes a run.
#[derive(Default)]
pub(super) struct Part {
    chains: [Chains; 3],
    /// The last document.
    pub last: Option<DocumentId>,
}

impl Part {
    /// Adds a posting. `begins` says that the shingle stood in no document before, neither here nor in the store; where
    /// that is not known, it is false.
    pub fn add(&mut self, posted: PostingKind, shingle: Shingle, document: DocumentId, begins: bool) {
        self.chains(posted).add(shingle, document, begins);
    }

    fn chains(&mut self, posted: PostingKind) -> &mut Chains {
        &mut self.chains[posted as usize]
    }

    pub fn of(&self, posted: PostingKind) -> &Chains {
        &self.chains[posted as usize]
    }

    fn n_postings(&self) -> usize {
        self.chains.iter().map(|chains| chains.postings.len()).sum()
    }
}

/// The part that grows, and the one before it while that is made a run.
pub(super) struct PostingBuffer {
    growing: Part,
    frozen: Option<Arc<Part>>,
    part_postings_max: usize,
}

impl PostingBuffer {
    /// An empty one that takes `n_bytes_max` of memory: half of it for each part.
    pub fn new(n_bytes_max: usize) -> Self {
        let part_postings_max = (n_bytes_max / 2 / POSTING_BYTES).max(1);
        PostingBuffer { growing: Part::default(), frozen: None, part_postings_max }
    }

    /// The part that takes postings.
    pub fn growing(&mut self) -> &mut Part {
        &mut self.growing
    }

    /// Takes the postings of a new document.
    pub fn add_document(&mut self, document: &NewDocument) {
        let mut begins = document.is_first_in_list.iter().copied();
        for (posted, shingles) in PostingKind::ALL.into_iter().zip(postings_of(document)) {
            for shingle in shingles {
                self.growing.add(posted, *shingle, document.document, begins.next().unwrap_or(false));
            }
        }
        self.growing.last = Some(document.document);
    }

    /// Whether the growing part has reached its limit.
    pub fn is_full(&self) -> bool {
        self.growing.n_postings() >= self.part_postings_max
    }

    /// Makes the growing part the frozen one, of which there must be none.
    pub fn freeze(&mut self) -> Arc<Part> {
        let frozen = Arc::new(std::mem::take(&mut self.growing));
        self.frozen = Some(Arc::clone(&frozen));
        frozen
    }

    /// Forgets the frozen part: its run is in the store.
    pub fn thaw(&mut self) {
        self.frozen = None;
    }

    /// Both parts, the older one first.
    fn parts(&self) -> impl Iterator<Item = &Part> {
        self.frozen.as_deref().into_iter().chain([&self.growing])
    }

    /// Appends to each list, which is what the store has of its shingle, the documents that it has not, ascending.
    pub fn append(&self, posted: PostingKind, shingles: &[Shingle], lists: &mut [Vec<DocumentId>]) {
        for part in self.parts() {
            let chains = part.of(posted);
            let n_before: Vec<usize> = lists.iter().map(Vec::len).collect();
            chains.append_each(&chains.heads_of(shingles), lists);
            for (documents, n_before) in lists.iter_mut().zip(n_before) {
                // A run may be in the store before the memory part it was made of is forgotten.
                if n_before > 0 && documents.get(n_before).is_some_and(|first| *first <= documents[n_before - 1]) {
                    documents.sort_unstable();
                    documents.dedup();
                }
            }
        }
    }

    /// All shingles of a family.
    pub fn shingles(&self, posted: PostingKind) -> BTreeSet<Shingle> {
        self.parts().flat_map(|part| part.of(posted).heads.keys().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn documents(delta: &PostingBuffer, shingle: Shingle) -> Vec<u32> {
        let mut lists = [Vec::new()];
        delta.append(PostingKind::Index, &[shingle], &mut lists);
        lists.concat().into_iter().map(|document| document.0).collect()
    }

    #[test]
    fn lists_ascend_over_both_parts() {
        let mut delta = PostingBuffer::new(8 * POSTING_BYTES);
        for document in 1..=4 {
            assert!(!delta.is_full());
            delta.growing().add(PostingKind::Index, u64::from(document % 2), DocumentId(document), document == 2);
        }
        assert!(delta.is_full());
        let frozen = delta.freeze();
        assert_eq!(delta.shingles(PostingKind::Index), BTreeSet::from([0, 1]));
        for document in 5..=6 {
            delta.growing().add(PostingKind::Index, u64::from(document % 2), DocumentId(document), false);
        }
        assert_eq!((documents(&delta, 0), documents(&delta, 1)), (vec![2, 4, 6], vec![1, 3, 5]));
        delta.thaw();
        assert_eq!((documents(&delta, 0), documents(&delta, 1)), (vec![6], vec![5]));
        assert_eq!(documents(&delta, 2), [] as [u32; 0]);
        let mut supers = [Vec::new()];
        delta.append(PostingKind::Super, &[0], &mut supers);
        assert_eq!(supers, [[]; 1]);
        let mut run = Vec::new();
        let each = |shingle, documents: &[DocumentId], begins| {
            run.push((shingle, documents.to_vec(), begins));
            if shingle == 1 { Err("full") } else { Ok(()) }
        };
        assert_eq!(frozen.of(PostingKind::Index).each(each), Err("full"));
        let [two, four, one, three] = [2, 4, 1, 3].map(DocumentId);
        assert_eq!(run, [(0, vec![two, four], true), (1, vec![one, three], false)]);
    }
}
