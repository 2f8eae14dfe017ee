//! The newest postings, kept in memory until the store has ingested them as a run.

use super::schema::PostingKind;
use crate::document::DocumentId;
use crate::sketch::Shingle;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::sync::Arc;

/// An upper bound on the memory of one posting. Up to 39 bytes are the shingle's share of a hash table with slots of
/// 17 bytes that is at least seven sixteenths full; 8 are the posting. Writing a run takes 16 more per shingle.
const POSTING_BYTES: usize = 48;

/// Ends a chain whose shingle may have older postings in the store.
const NONE: u32 = u32::MAX;

/// Ends a chain that holds every posting of its shingle.
const BEGINNING: u32 = NONE - 1;

/// Chains walked at once: enough to overlap as many cache misses as the processor can.
const CHAINS_TOGETHER: usize = 32;

/// A map from shingles to documents. The postings of a shingle form a chain from newest to oldest, so that a document
/// costs no allocation.
#[derive(Default)]
pub(super) struct Chains {
    /// The newest posting of each shingle.
    heads: FxHashMap<Shingle, u32>,
    /// Each posting: its document, and the index of the next older posting of the same shingle.
    postings: Vec<(DocumentId, u32)>,
}

impl Chains {
    fn add(&mut self, shingle: Shingle, document: DocumentId, is_first: bool) {
        let head = self.heads.entry(shingle).or_insert(if is_first { BEGINNING } else { NONE });
        let before = std::mem::replace(head, self.postings.len() as u32);
        self.postings.push((document, before));
    }

    /// The newest posting of each shingle, or [`NONE`]. Nearly every look-up misses the caches. In this loop the
    /// misses overlap, because no look-up depends on another.
    fn heads_of(&self, shingles: &[Shingle]) -> Vec<u32> {
        shingles.iter().map(|shingle| self.heads.get(shingle).copied().unwrap_or(NONE)).collect()
    }

    /// Appends the documents of a chain, ascending. Returns true if the chain holds every posting of its shingle.
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

    /// Appends the documents of each chain to its list, ascending. The chains advance together, one step per round.
    /// Nearly every step misses the caches, and only misses of different chains can overlap.
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

    /// Calls `each` with every shingle, ascending, its documents, ascending, and whether the store has no other
    /// postings of that shingle.
    pub fn each<E, F>(&self, mut each: F) -> Result<(), E>
    where
        F: FnMut(Shingle, &[DocumentId], bool) -> Result<(), E>,
    {
        // Most chains have one posting. Fetching the newest posting of every chain here lets the cache misses
        // overlap.
        let newest = |(shingle, head): (&Shingle, &u32)| (*shingle, self.postings[*head as usize]);
        let mut chains: Vec<(Shingle, (DocumentId, u32))> = self.heads.iter().map(newest).collect();
        chains.sort_unstable_by_key(|(shingle, _)| *shingle);
        let mut documents = Vec::new();
        for (shingle, (newest, before)) in chains {
            documents.clear();
            let is_first = self.append(before, &mut documents);
            documents.push(newest);
            each(shingle, &documents, is_first)?;
        }
        Ok(())
    }
}

/// The postings of a range of documents: the contents of one run.
#[derive(Default)]
pub(super) struct Part {
    chains: [Chains; 3],
    /// The last document of the range.
    pub last: Option<DocumentId>,
}

impl Part {
    /// Adds a posting. `is_first` is true if this is known to be the first posting of its shingle, here and in the
    /// store.
    pub fn add(&mut self, kind: PostingKind, shingle: Shingle, document: DocumentId, is_first: bool) {
        self.chains_mut(kind).add(shingle, document, is_first);
    }

    fn chains_mut(&mut self, kind: PostingKind) -> &mut Chains {
        &mut self.chains[kind as usize]
    }

    pub fn chains(&self, kind: PostingKind) -> &Chains {
        &self.chains[kind as usize]
    }

    fn n_postings(&self) -> usize {
        self.chains.iter().map(|chains| chains.postings.len()).sum()
    }
}

/// A posting on its way into the buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct BufferedPosting {
    pub kind: PostingKind,
    pub shingle: Shingle,
    pub document: DocumentId,
    /// Whether it is known to be the first of its shingle.
    pub is_first: bool,
}

/// A growing part, and a frozen part while a run of it is written.
pub(super) struct PostingBuffer {
    growing: Part,
    frozen: Option<Arc<Part>>,
    part_postings_max: usize,
}

impl PostingBuffer {
    /// An empty buffer that takes at most `n_bytes_max` of memory, half of it for each part.
    pub fn new(n_bytes_max: usize) -> Self {
        let part_postings_max = (n_bytes_max / 2 / POSTING_BYTES).max(1);
        PostingBuffer { growing: Part::default(), frozen: None, part_postings_max }
    }

    /// The part that new postings go to.
    pub fn growing(&mut self) -> &mut Part {
        &mut self.growing
    }

    /// Adds the postings of new documents, the last of which is `last`.
    pub fn add(&mut self, postings: &[BufferedPosting], last: Option<DocumentId>) {
        for BufferedPosting { kind, shingle, document, is_first } in postings {
            self.growing.add(*kind, *shingle, *document, *is_first);
        }
        self.growing.last = last.or(self.growing.last);
    }

    /// Whether the growing part has reached its limit.
    pub fn is_full(&self) -> bool {
        self.growing.n_postings() >= self.part_postings_max
    }

    /// Freezes the growing part and starts an empty one. No part may be frozen already.
    pub fn freeze(&mut self) -> Arc<Part> {
        let frozen = Arc::new(std::mem::take(&mut self.growing));
        self.frozen = Some(Arc::clone(&frozen));
        frozen
    }

    /// Drops the frozen part, once the store has ingested its run.
    pub fn thaw(&mut self) {
        self.frozen = None;
    }

    /// Both parts, older first.
    fn parts(&self) -> impl Iterator<Item = &Part> {
        self.frozen.as_deref().into_iter().chain([&self.growing])
    }

    /// Completes lists read from the store: appends to each the buffered documents of its shingle, so that it
    /// ascends.
    pub fn append(&self, kind: PostingKind, shingles: &[Shingle], lists: &mut [Vec<DocumentId>]) {
        for part in self.parts() {
            let chains = part.chains(kind);
            let n_before: Vec<usize> = lists.iter().map(Vec::len).collect();
            chains.append_each(&chains.heads_of(shingles), lists);
            for (documents, n_before) in lists.iter_mut().zip(n_before) {
                // The store may hold a run whose part is not dropped yet.
                if n_before > 0 && documents.get(n_before).is_some_and(|first| *first <= documents[n_before - 1]) {
                    documents.sort_unstable();
                    documents.dedup();
                }
            }
        }
    }

    /// All buffered shingles of one kind.
    pub fn shingles(&self, kind: PostingKind) -> BTreeSet<Shingle> {
        self.parts().flat_map(|part| part.chains(kind).heads.keys().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn documents(buffer: &PostingBuffer, shingle: Shingle) -> Vec<u32> {
        let mut lists = [Vec::new()];
        buffer.append(PostingKind::Index, &[shingle], &mut lists);
        lists.concat().into_iter().map(|document| document.0).collect()
    }

    #[test]
    fn lists_ascend_over_both_parts() {
        let mut buffer = PostingBuffer::new(8 * POSTING_BYTES);
        for document in 1..=4 {
            assert!(!buffer.is_full());
            buffer.growing().add(PostingKind::Index, u64::from(document % 2), DocumentId(document), document == 2);
        }
        assert!(buffer.is_full());
        let frozen = buffer.freeze();
        assert_eq!(buffer.shingles(PostingKind::Index), BTreeSet::from([0, 1]));
        for document in 5..=6 {
            buffer.growing().add(PostingKind::Index, u64::from(document % 2), DocumentId(document), false);
        }
        assert_eq!((documents(&buffer, 0), documents(&buffer, 1)), (vec![2, 4, 6], vec![1, 3, 5]));
        buffer.thaw();
        assert_eq!((documents(&buffer, 0), documents(&buffer, 1)), (vec![6], vec![5]));
        assert_eq!(documents(&buffer, 2), [] as [u32; 0]);
        let mut supers = [Vec::new()];
        buffer.append(PostingKind::Super, &[0], &mut supers);
        assert_eq!(supers, [[]; 1]);
        let mut run = Vec::new();
        let each = |shingle, documents: &[DocumentId], begins| {
            run.push((shingle, documents.to_vec(), begins));
            if shingle == 1 { Err("full") } else { Ok(()) }
        };
        assert_eq!(frozen.chains(PostingKind::Index).each(each), Err("full"));
        let [two, four, one, three] = [2, 4, 1, 3].map(DocumentId);
        assert_eq!(run, [(0, vec![two, four], true), (1, vec![one, three], false)]);
    }
}
