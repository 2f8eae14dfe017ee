//! The newest postings and equivalence fingerprints, kept in memory until the store has ingested them as runs.

use super::fragment::BufferedFragment;
use super::schema::PostingKind;
use crate::document::{DocumentId, Fingerprint};
use crate::related::{FragmentKey, Target};
use crate::sketch::Shingle;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::Arc;

/// An upper bound on the memory of one posting. Up to 39 bytes are the shingle's share of a hash table with slots of
/// 17 bytes that is at least seven sixteenths full; 8 are the posting. Writing a run takes 16 more per shingle.
const POSTING_BYTES: usize = 48;

/// An upper bound on the memory of an equivalence fingerprint: a slot of 25 bytes in a hash table at least seven
/// sixteenths full.
const EQUAL_BYTES: usize = 58;

/// An upper bound on the memory of a fragment: a list of its own with a slot of 33 bytes in a hash table at least seven
/// sixteenths full, and its place in the sorted run.
const FRAGMENT_BYTES: usize = 200;

/// Ends a chain.
const NONE: u32 = u32::MAX;

/// The number of shards of a map. A hash table that grows moves all its entries, and nobody can read the buffer until it is
/// done. That takes a quarter of a second for the two million keys of a part, and some milliseconds for a shard.
const SHARDS: usize = 64;

/// Chains walked at once: enough to overlap as many cache misses as the processor can.
const CHAINS_TOGETHER: usize = 32;

/// A hash map in shards that grow one after the other.
struct ShardedMap<K, V>([FxHashMap<K, V>; SHARDS]);

/// A key, some of whose bits choose its shard.
trait ShardKey: Eq + Hash {
    fn bits(&self) -> u64;
}

impl ShardKey for Shingle {
    /// The low bits: the shingles that index a page are its smallest, so that their high bits are mostly zero.
    fn bits(&self) -> u64 {
        *self
    }
}

impl ShardKey for Halves {
    fn bits(&self) -> u64 {
        self.1
    }
}

fn shard_of(key: &impl ShardKey) -> usize {
    key.bits() as usize % SHARDS
}

impl<K, V> Default for ShardedMap<K, V> {
    fn default() -> Self {
        ShardedMap(std::array::from_fn(|_| FxHashMap::default()))
    }
}

impl<K: ShardKey, V> ShardedMap<K, V> {
    fn get(&self, key: &K) -> Option<&V> {
        self.0[shard_of(key)].get(key)
    }

    fn entry(&mut self, key: K) -> Entry<'_, K, V> {
        self.0[shard_of(&key)].entry(key)
    }

    fn insert(&mut self, key: K, value: V) {
        self.0[shard_of(&key)].insert(key, value);
    }

    /// What `each` makes of all entries. A list that grew as they come, from shards of which none says how many follow, would be
    /// copied each time that it doubles.
    fn map<T>(&self, each: impl Fn((&K, &V)) -> T) -> Vec<T> {
        let mut all = Vec::with_capacity(self.len());
        all.extend(self.0.iter().flatten().map(each));
        all
    }

    fn len(&self) -> usize {
        self.0.iter().map(FxHashMap::len).sum()
    }
}

/// A map from shingles to documents. The postings of a shingle form a chain from newest to oldest, so that a document
/// costs no allocation.
#[derive(Default)]
pub(super) struct Chains {
    /// The newest posting of each shingle.
    heads: ShardedMap<Shingle, u32>,
    /// Each posting: its document, and the index of the next older posting of the same shingle.
    postings: Vec<(DocumentId, u32)>,
}

impl Chains {
    fn add(&mut self, shingle: Shingle, document: DocumentId) {
        let head = self.heads.entry(shingle).or_insert(NONE);
        let before = std::mem::replace(head, self.postings.len() as u32);
        self.postings.push((document, before));
    }

    /// The newest posting of each shingle, or [`NONE`]. Nearly every look-up misses the caches. In this loop the
    /// misses overlap, because no look-up depends on another.
    fn heads_of(&self, shingles: &[Shingle]) -> Vec<u32> {
        shingles.iter().map(|shingle| self.heads.get(shingle).copied().unwrap_or(NONE)).collect()
    }

    /// Appends the documents of a chain, ascending.
    fn append(&self, head: u32, documents: &mut Vec<DocumentId>) {
        let (mut at, begin) = (head, documents.len());
        while at < NONE {
            let (document, before) = self.postings[at as usize];
            documents.push(document);
            at = before;
        }
        documents[begin..].reverse();
    }

    /// Appends the documents of each chain to its list, ascending. The chains advance together, one step per round.
    /// Nearly every step misses the caches, and only misses of different chains can overlap.
    fn append_each(&self, heads: &[u32], lists: &mut [Vec<DocumentId>]) {
        for (heads, lists) in heads.chunks(CHAINS_TOGETHER).zip(lists.chunks_mut(CHAINS_TOGETHER)) {
            let begins: Vec<usize> = lists.iter().map(Vec::len).collect();
            let mut walking: Vec<(u32, usize)> =
                heads.iter().copied().zip(0..).filter(|(head, _)| *head < NONE).collect();
            while !walking.is_empty() {
                walking.retain_mut(|(at, list)| {
                    let (document, before) = self.postings[*at as usize];
                    lists[*list].push(document);
                    *at = before;
                    before < NONE
                });
            }
            lists.iter_mut().zip(begins).for_each(|(documents, begin)| documents[begin..].reverse());
        }
    }

    pub fn is_empty(&self) -> bool {
        self.postings.is_empty()
    }

    /// How many shingles have postings.
    pub fn n_shingles(&self) -> u64 {
        self.heads.len() as u64
    }

    /// Calls `each` with every shingle, ascending, and its documents, ascending.
    pub fn each<E, F>(&self, mut each: F) -> Result<(), E>
    where
        F: FnMut(Shingle, &[DocumentId]) -> Result<(), E>,
    {
        // Most chains have one posting. Fetching the newest posting of every chain here lets the cache misses
        // overlap.
        let newest = |(shingle, head): (&Shingle, &u32)| (*shingle, self.postings[*head as usize]);
        let mut chains: Vec<(Shingle, (DocumentId, u32))> = self.heads.map(newest);
        chains.sort_unstable_by_key(|(shingle, _)| *shingle);
        let mut documents = Vec::new();
        for (shingle, (newest, before)) in chains {
            documents.clear();
            self.append(before, &mut documents);
            documents.push(newest);
            each(shingle, &documents)?;
        }
        Ok(())
    }
}

/// The two halves of an equivalence fingerprint, which need less room than one number of 16 bytes.
type Halves = (u64, u64);

fn halves(fingerprint: Fingerprint) -> Halves {
    ((fingerprint.0 >> 64) as u64, fingerprint.0 as u64)
}

/// The postings and equivalence fingerprints of a range of documents: the contents of one run of each family.
#[derive(Default)]
pub(super) struct Part {
    chains: [Chains; 3],
    equal: ShardedMap<Halves, DocumentId>,
    fragments: FxHashMap<Target, Vec<(FragmentKey, DocumentId)>>,
    n_fragments: usize,
    /// The last document of the range.
    pub last: Option<DocumentId>,
}

impl Part {
    /// Adds a posting.
    pub fn add(&mut self, kind: PostingKind, shingle: Shingle, document: DocumentId) {
        self.chains_mut(kind).add(shingle, document);
    }

    fn chains_mut(&mut self, kind: PostingKind) -> &mut Chains {
        &mut self.chains[kind as usize]
    }

    pub fn chains(&self, kind: PostingKind) -> &Chains {
        &self.chains[kind as usize]
    }

    /// Adds an equivalence fingerprint.
    pub fn add_equal(&mut self, fingerprint: Fingerprint, document: DocumentId) {
        self.equal.insert(halves(fingerprint), document);
    }

    /// All equivalence fingerprints, ascending, with their documents.
    pub fn sorted_equal(&self) -> Vec<(Fingerprint, DocumentId)> {
        let mut all = self.equal.map(|((high, low), document)| (Fingerprint::from_halves(*high, *low), *document));
        all.sort_unstable();
        all
    }

    /// Adds fragments.
    pub fn add_fragments(&mut self, fragments: &[BufferedFragment]) {
        for (target, key, document) in fragments {
            self.fragments.entry(*target).or_default().push((*key, *document));
        }
        self.n_fragments += fragments.len();
    }

    /// All fragments, ascending; of those that several documents say, the one of the first.
    pub fn sorted_fragments(&self) -> Vec<BufferedFragment> {
        let of_one = |(target, said): (&Target, &Vec<(FragmentKey, DocumentId)>)| {
            let target = *target;
            said.iter().map(move |(key, document)| (target, *key, *document)).collect::<Vec<_>>()
        };
        let mut all: Vec<BufferedFragment> = self.fragments.iter().flat_map(of_one).collect();
        all.sort_unstable();
        all.dedup_by_key(|(target, key, _)| (*target, *key));
        all
    }

    /// An upper bound on the memory that it takes.
    fn n_bytes(&self) -> usize {
        let n_postings: usize = self.chains.iter().map(|chains| chains.postings.len()).sum();
        n_postings * POSTING_BYTES + self.equal.len() * EQUAL_BYTES + self.n_fragments * FRAGMENT_BYTES
    }
}

/// A posting on its way into the buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct BufferedPosting {
    pub kind: PostingKind,
    pub shingle: Shingle,
    pub document: DocumentId,
}

/// A growing part, and a frozen part while its runs are written.
pub(super) struct PostingBuffer {
    growing: Part,
    frozen: Option<Arc<Part>>,
    part_bytes_max: usize,
}

impl PostingBuffer {
    /// An empty buffer that takes at most `n_bytes_max` of memory, half of it for each part.
    pub fn new(n_bytes_max: usize) -> Self {
        PostingBuffer { growing: Part::default(), frozen: None, part_bytes_max: (n_bytes_max / 2).max(1) }
    }

    /// The part that new postings go to.
    pub fn growing(&mut self) -> &mut Part {
        &mut self.growing
    }

    /// Adds the postings, equivalence fingerprints and fragments of new documents, the last of which is `last`.
    pub fn add(
        &mut self,
        postings: &[BufferedPosting],
        equal: &[(Fingerprint, DocumentId)],
        fragments: &[BufferedFragment],
        last: Option<DocumentId>,
    ) {
        for BufferedPosting { kind, shingle, document } in postings {
            self.growing.add(*kind, *shingle, *document);
        }
        equal.iter().for_each(|(fingerprint, document)| self.growing.add_equal(*fingerprint, *document));
        self.growing.add_fragments(fragments);
        self.growing.last = last.or(self.growing.last);
    }

    /// The fragments about a URL, in no order.
    pub fn fragments(&self, target: Target) -> Vec<(FragmentKey, DocumentId)> {
        self.parts().filter_map(|part| part.fragments.get(&target)).flatten().copied().collect()
    }

    /// Whether the growing part has reached its limit.
    pub fn is_full(&self) -> bool {
        self.growing.n_bytes() >= self.part_bytes_max
    }

    /// Freezes the growing part and starts an empty one. No part may be frozen already.
    pub fn freeze(&mut self) -> Arc<Part> {
        let frozen = Arc::new(std::mem::take(&mut self.growing));
        self.frozen = Some(Arc::clone(&frozen));
        frozen
    }

    /// Takes the frozen part out, once the store has ingested its run. Dropping the part takes a while, so release the buffer
    /// first.
    pub fn thaw(&mut self) -> Option<Arc<Part>> {
        self.frozen.take()
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

    /// The buffered documents behind equivalence fingerprints.
    pub fn equal(&self, fingerprints: &[Fingerprint]) -> Vec<Option<DocumentId>> {
        let find = |fingerprint: &Fingerprint| {
            let key = halves(*fingerprint);
            let frozen = || self.frozen.as_ref().and_then(|part| part.equal.get(&key));
            self.growing.equal.get(&key).or_else(frozen).copied()
        };
        fingerprints.iter().map(find).collect()
    }

    /// All buffered shingles of one kind.
    pub fn shingles(&self, kind: PostingKind) -> BTreeSet<Shingle> {
        self.parts().flat_map(|part| part.chains(kind).heads.map(|(shingle, _)| *shingle)).collect()
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
    fn equivalence_fingerprints_are_found_in_both_parts_and_counted() {
        let [one, two, three] = [1, 2 << 64, 3 << 64 | 3].map(Fingerprint);
        let mut buffer = PostingBuffer::new(4 * EQUAL_BYTES);
        buffer.growing().add_equal(two, DocumentId(2));
        assert!(!buffer.is_full());
        buffer.growing().add_equal(one, DocumentId(1));
        assert!(buffer.is_full());
        let frozen = buffer.freeze();
        assert_eq!(frozen.sorted_equal(), [(one, DocumentId(1)), (two, DocumentId(2))]);
        buffer.growing().add_equal(three, DocumentId(3));
        let found = |buffer: &PostingBuffer| buffer.equal(&[one, two, three, Fingerprint(2)]);
        assert_eq!(found(&buffer), [Some(DocumentId(1)), Some(DocumentId(2)), Some(DocumentId(3)), None]);
        buffer.thaw();
        assert_eq!(found(&buffer), [None, None, Some(DocumentId(3)), None]);
    }

    /// A single hash table stopped every look-up for a quarter of a second when it grew. Shards help only if each gets its
    /// share, even of small numbers, which the shingles that index pages are.
    #[test]
    fn keys_are_spread_over_all_shards() {
        let mut buffer = PostingBuffer::new(1 << 30);
        let n = 100 * SHARDS as u32;
        let fingerprint = |n: u32| Fingerprint(u128::from(n).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835));
        for document in 0..n {
            buffer.growing().add(PostingKind::Index, u64::from(document), DocumentId(document));
            buffer.growing().add_equal(fingerprint(document), DocumentId(document));
        }
        let part = buffer.freeze();
        let (heads, equal) = (&part.chains(PostingKind::Index).heads, &part.equal);
        let largest = |lens: &mut dyn Iterator<Item = usize>| lens.max();
        assert_eq!((heads.len(), equal.len()), (n as usize, n as usize));
        assert_eq!(largest(&mut heads.0.iter().map(FxHashMap::len)), Some(100));
        assert!(largest(&mut equal.0.iter().map(FxHashMap::len)) < Some(200));
        assert_eq!(buffer.shingles(PostingKind::Index).len(), n as usize);
        assert_eq!(documents(&buffer, 5), [5]);
    }

    #[test]
    fn lists_ascend_over_both_parts() {
        let mut buffer = PostingBuffer::new(8 * POSTING_BYTES);
        for document in 1..=4 {
            assert!(!buffer.is_full());
            buffer.growing().add(PostingKind::Index, u64::from(document % 2), DocumentId(document));
        }
        assert!(buffer.is_full());
        let frozen = buffer.freeze();
        assert_eq!(buffer.shingles(PostingKind::Index), BTreeSet::from([0, 1]));
        for document in 5..=6 {
            buffer.growing().add(PostingKind::Index, u64::from(document % 2), DocumentId(document));
        }
        assert_eq!((documents(&buffer, 0), documents(&buffer, 1)), (vec![2, 4, 6], vec![1, 3, 5]));
        buffer.thaw();
        assert_eq!((documents(&buffer, 0), documents(&buffer, 1)), (vec![6], vec![5]));
        assert_eq!(documents(&buffer, 2), [] as [u32; 0]);
        let mut supers = [Vec::new()];
        buffer.append(PostingKind::Super, &[0], &mut supers);
        assert_eq!(supers, [[]; 1]);
        let mut run = Vec::new();
        let each = |shingle, documents: &[DocumentId]| {
            run.push((shingle, documents.to_vec()));
            if shingle == 1 { Err("full") } else { Ok(()) }
        };
        assert_eq!(frozen.chains(PostingKind::Index).each(each), Err("full"));
        let [two, four, one, three] = [2, 4, 1, 3].map(DocumentId);
        assert_eq!(run, [(0, vec![two, four]), (1, vec![one, three])]);
    }
}
