//! The filter of a run, and its rows.

use super::key::filter_key;
use super::tiers::LARGE;
use crate::ports::StoreError;
use crate::sketch::Shingle;
use crate::store::bloom::{KEY_BITS, TOGETHER, WORDS, bits_of, block_of, fetch, has_bits, spread};
use crate::store::rocks_error::failed;
use crate::store::schema::PostingKind;
use memmap2::MmapMut;
use rocksdb::{DB, DBRawIteratorWithThreadMode, SstFileWriter};
use std::sync::{Mutex, PoisonError};

/// Keys per block. Nearly all shingles of a new page are in no run, and a filter lets one in 200 of those through with 42 keys to a
/// block, one in 95 with 51, and one in 60 with 58. A block is read in vain for each such super shingle, but for hardly any such
/// index shingle: see [`unneeded`](super::unneeded). Small runs are asked only for what the filter of their [group](super::group) lets
/// through. It has as many bits a key as the large run whose filter it becomes.
fn block_keys(kind: PostingKind, level: u8) -> u64 {
    match kind {
        _ if level < LARGE => 51,
        PostingKind::Index => 58,
        PostingKind::Super | PostingKind::Mod => 42,
    }
}

/// The words of a block, little-endian.
type Block = [[u8; 8]; WORDS];

/// Bytes of a block.
const BLOCK_BYTES: usize = size_of::<Block>();

/// Bytes of a row.
const PORTION_BYTES: usize = 64 << 10;

/// Bytes of a large page of memory.
const PAGE_BYTES: usize = 2 << 20;

/// Parts of a filter that several threads fill.
const PARTS: usize = 64;

/// Hashes that a thread adds to a part at once.
const PART_HASHES: usize = 1024;

/// A key to ask filters for.
pub(super) struct Key {
    hash: u64,
    /// What [`bits_of`] says, which takes as long to compute as to compare.
    bits: [(usize, u64); KEY_BITS],
}

impl Key {
    /// The key with a hash.
    pub fn new(hash: u64) -> Self {
        Key { hash, bits: bits_of(hash) }
    }

    /// The key of the list of a shingle.
    pub fn of(shingle: Shingle) -> Self {
        Key::new(spread(shingle))
    }

    /// The key under which the filter has the list with this key if it is long.
    pub fn of_long(&self) -> Self {
        Key::new(long_hash(self.hash))
    }
}

/// The hash under which a filter has a list once more if it is long.
pub(super) fn long_hash(hash: u64) -> u64 {
    spread(hash)
}

/// A Bloom filter of fixed size, of blocks like those of [`Bloom`](crate::store::bloom::Bloom).
pub(super) struct RunFilter {
    /// Mapped apart from the allocator, which gives pages back to the system in pieces and then lacks large ones. Nearly every read
    /// is of another page, and a processor finds large pages without reading tables of them first.
    memory: MmapMut,
    size: FilterSize,
}

impl RunFilter {
    /// An empty filter for a run of this level with so many lists, those of more than `short_max` documents being long.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn for_lists(kind: PostingKind, n_lists: u64, level: u8, short_max: u64) -> Result<Self, StoreError> {
        let n_blocks = usize::try_from(n_lists / block_keys(kind, level)).unwrap_or(usize::MAX).saturating_add(1);
        Self::new(FilterSize { n_blocks, n_lists: 0, short_max })
    }

    fn new(size: FilterSize) -> Result<Self, StoreError> {
        let n_bytes = size.n_blocks.saturating_mul(BLOCK_BYTES);
        // The system puts on large pages what is as long as some of them.
        let n_bytes = if n_bytes < PAGE_BYTES {
            n_bytes
        } else {
            n_bytes.checked_next_multiple_of(PAGE_BYTES).unwrap_or(n_bytes)
        };
        let mapped = MmapMut::map_anon(n_bytes);
        let memory =
            mapped.map_err(|error| StoreError::Failed(format!("no memory for the filter of a run: {error}")))?;
        #[cfg(target_os = "linux")]
        if let Err(error) = memory.advise(memmap2::Advice::HugePage) {
            tracing::debug!("no large pages for the filter of a run: {error}");
        }
        Ok(RunFilter { memory, size })
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[..self.size.n_blocks * BLOCK_BYTES]
    }

    fn blocks(&self) -> &[Block] {
        self.bytes().as_chunks().0.as_chunks().0
    }

    fn blocks_mut(&mut self) -> &mut [Block] {
        let n_bytes = self.size.n_blocks * BLOCK_BYTES;
        self.memory[..n_bytes].as_chunks_mut().0.as_chunks_mut().0
    }

    /// How many lists were added.
    pub fn n_lists(&self) -> u64 {
        self.size.n_lists
    }

    /// The documents of the longest list that counts as short.
    pub fn short_max(&self) -> u64 {
        self.size.short_max
    }

    /// Adds lists.
    pub fn insert_all(&mut self, Hashes { all, long }: &Hashes) {
        self.insert(all);
        self.insert(long);
        self.size.n_lists += all.len() as u64;
    }

    /// Adds that some of its lists are long.
    pub fn insert_long(&mut self, Hashes { long, .. }: &Hashes) {
        self.insert(long);
    }

    fn insert(&mut self, hashes: &[u64]) {
        let n_blocks = self.size.n_blocks;
        insert(self.blocks_mut(), 0, n_blocks, hashes);
    }

    /// Adds the lists that `scan` finds on each of some threads.
    ///
    /// # Errors
    /// The first error of `scan`.
    pub fn insert_on_threads(
        &mut self,
        n_threads: usize,
        scan: impl Fn(&mut dyn FnMut(&Hashes)) -> Result<(), StoreError> + Sync,
    ) -> Result<(), StoreError> {
        let n_blocks = self.size.n_blocks;
        let n_each = n_blocks.div_ceil(PARTS);
        // A thread takes a part for many lists at once, and seldom waits for one.
        let parts: Vec<_> = self.blocks_mut().chunks_mut(n_each).map(Mutex::new).collect();
        let insert_in = |part: usize, hashes: &mut Vec<u64>| {
            let mut blocks = parts[part].lock().unwrap_or_else(PoisonError::into_inner);
            insert(&mut blocks, part * n_each, n_blocks, hashes);
            hashes.clear();
        };
        let scan_all = || {
            let mut waiting = vec![Vec::new(); parts.len()];
            let mut n_lists = 0;
            scan(&mut |Hashes { all, long }| {
                n_lists += all.len() as u64;
                for hash in all.iter().chain(long) {
                    let part = block_of(*hash, n_blocks) / n_each;
                    waiting[part].push(*hash);
                    if waiting[part].len() == PART_HASHES {
                        insert_in(part, &mut waiting[part]);
                    }
                }
            })?;
            (0..).zip(&mut waiting).for_each(|(part, hashes)| insert_in(part, hashes));
            Ok(n_lists)
        };
        let n_lists = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..n_threads).map(|_| scope.spawn(scan_all)).collect();
            let panicked = |_| Err(StoreError::Failed("a thread that fills a filter panicked".into()));
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).sum::<Result<u64, _>>()
        })?;
        self.size.n_lists += n_lists;
        Ok(())
    }

    /// Where in `keys` those are that the filter may contain.
    pub fn possible(&self, keys: &[Key]) -> Vec<usize> {
        let mut found = Vec::new();
        for (first, keys) in (0..).step_by(TOGETHER).zip(keys.chunks(TOGETHER)) {
            self.fetch(keys.iter().map(|key| key.hash));
            found.extend((first..).zip(keys).filter(|(_, key)| self.may_contain(key)).map(|(at, _)| at));
        }
        found
    }

    /// Whether the filter may contain a key.
    pub fn may_contain(&self, key: &Key) -> bool {
        let blocks = self.blocks();
        let block = &blocks[block_of(key.hash, blocks.len())];
        has_bits(&key.bits, |at| u64::from_le_bytes(block[at]))
    }

    fn fetch(&self, hashes: impl Iterator<Item = u64>) {
        let blocks = self.blocks();
        fetch(hashes, |hash| u64::from_le_bytes(blocks[block_of(hash, blocks.len())][0]));
    }

    /// Writes the filter behind the blocks of its run: its size, and then its blocks.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn put(&self, file: &mut SstFileWriter<'_>, run: u32, width: usize) -> Result<(), StoreError> {
        let size = self.size.row();
        for (at, row) in (0..).zip(std::iter::once(&size[..]).chain(self.bytes().chunks(PORTION_BYTES))) {
            file.put(filter_key(run, at, width), row).map_err(failed)?;
        }
        Ok(())
    }

    /// Reads the filter of a run. None where its rows are damaged or missing, or cannot be read: then `rows` says why.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn read(
        rows: &mut DBRawIteratorWithThreadMode<'_, DB>,
        run: u32,
        width: usize,
    ) -> Result<Option<Self>, StoreError> {
        rows.seek(filter_key(run, 0, width));
        let size = rows
            .item()
            .filter(|(key, _)| *key == filter_key(run, 0, width))
            .and_then(|(_, size)| FilterSize::read(size));
        let Some(size) = size else { return Ok(None) };
        let mut filter = Self::new(size)?;
        Ok(filter.fill(rows, run, width).map(|()| filter))
    }

    fn fill(&mut self, rows: &mut DBRawIteratorWithThreadMode<'_, DB>, run: u32, width: usize) -> Option<()> {
        let n_bytes = self.bytes().len();
        for (at, bytes) in (1..).zip(self.memory[..n_bytes].chunks_mut(PORTION_BYTES)) {
            rows.next();
            let (_, portion) = rows.item().filter(|(key, _)| *key == filter_key(run, at, width))?;
            if portion.len() != bytes.len() {
                return None;
            }
            bytes.copy_from_slice(portion);
        }
        Some(())
    }
}

/// Adds hashes whose blocks are among these, the first of which is number `first` of `n_blocks`.
fn insert(blocks: &mut [Block], first: usize, n_blocks: usize, hashes: &[u64]) {
    let at = |hash| block_of(hash, n_blocks) - first;
    for hashes in hashes.chunks(TOGETHER) {
        fetch(hashes.iter().copied(), |hash| u64::from_le_bytes(blocks[at(hash)][0]));
        for hash in hashes {
            let block = &mut blocks[at(*hash)];
            for (word, bit) in bits_of(*hash) {
                block[word] = (u64::from_le_bytes(block[word]) | bit).to_le_bytes();
            }
        }
    }
}

/// What the first row of a filter says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FilterSize {
    n_blocks: usize,
    n_lists: u64,
    /// The documents of the longest list that is not in the filter as a long one.
    short_max: u64,
}

impl FilterSize {
    /// The three numbers, with eight bytes each, little-endian.
    fn row(self) -> Vec<u8> {
        [self.n_blocks as u64, self.n_lists, self.short_max].map(u64::to_le_bytes).concat()
    }

    /// None if that cannot be. Filters that were written before they knew long lists lack the last number.
    fn read(row: &[u8]) -> Option<Self> {
        let (numbers, rest) = row.as_chunks();
        let numbers: Vec<u64> = numbers.iter().copied().map(u64::from_le_bytes).collect();
        let (n_blocks, n_lists, short_max) = match (&numbers[..], rest) {
            ([n_blocks, n_lists], []) => (*n_blocks, *n_lists, u64::MAX),
            ([n_blocks, n_lists, short_max], []) => (*n_blocks, *n_lists, *short_max),
            _ => return None,
        };
        let n_blocks = usize::try_from(n_blocks).ok().filter(|n_blocks| *n_blocks > 0)?;
        Some(FilterSize { n_blocks, n_lists, short_max })
    }
}

/// The hashes of some lists.
#[derive(Debug, Default)]
pub(super) struct Hashes {
    /// Those of the shingles.
    pub all: Vec<u64>,
    /// [Those](long_hash) of the long lists.
    pub long: Vec<u64>,
}

impl Hashes {
    /// Adds the list of a shingle.
    pub fn push(&mut self, shingle: Shingle, is_long: bool) {
        let hash = spread(shingle);
        self.all.push(hash);
        if is_long {
            self.long.push(long_hash(hash));
        }
    }

    /// Removes all.
    pub fn clear(&mut self) {
        self.all.clear();
        self.long.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    const KINDS: [PostingKind; 2] = [PostingKind::Index, PostingKind::Super];

    /// The hashes of some shingles, of which every tenth has a long list.
    fn hashes(numbers: std::ops::Range<u64>) -> Hashes {
        let mut hashes = Hashes::default();
        numbers.for_each(|number| hashes.push(number, number % 10 == 0));
        hashes
    }

    fn n_possible(filter: &RunFilter, hashes: &[u64]) -> usize {
        filter.possible(&hashes.iter().copied().map(Key::new).collect::<Vec<_>>()).len()
    }

    /// A filter that lacks a key loses postings.
    #[test]
    fn a_filter_lacks_no_key_and_has_few_others() {
        let (members, others) = (hashes(0..100_000), hashes(200_000..300_000));
        for (kind, level) in KINDS.into_iter().flat_map(|kind| [0, 1, LARGE, 3, 9].map(|level| (kind, level))) {
            let mut filter = RunFilter::for_lists(kind, 110_000, level, 7).expect("memory");
            assert_eq!(n_possible(&filter, &members.all), 0);
            (0..100).for_each(|at| filter.insert_all(&hashes(at * 1000..(at + 1) * 1000)));
            assert_eq!((n_possible(&filter, &members.all), filter.n_lists()), (100_000, 100_000));
            assert_eq!(n_possible(&filter, &members.long), 10_000);
            let one_in = [[90, 55], [90, 170]][kind as usize][usize::from(level >= LARGE)];
            let n_found = n_possible(&filter, &others.all);
            assert!(n_found < others.all.len() / one_in, "{kind:?}, level {level}: {n_found}");
            let short: Vec<u64> = members.all.iter().copied().map(long_hash).collect();
            let n_long = n_possible(&filter, &short);
            assert!((10_000..10_000 + 90_000 / one_in).contains(&n_long), "{kind:?}, level {level}: {n_long}");
        }
    }

    /// A list that one thread adds must not be lost to what another does.
    #[test]
    fn threads_fill_a_filter_as_one_does() {
        let mut alone = RunFilter::for_lists(PostingKind::Index, 50_000, 1, 7).expect("memory");
        (0..50).for_each(|at| alone.insert_all(&hashes(at * 1000..(at + 1) * 1000)));
        let mut together = RunFilter::for_lists(PostingKind::Index, 50_000, 1, 7).expect("memory");
        let next = AtomicU64::new(0);
        let scan = |each: &mut dyn FnMut(&Hashes)| {
            while let Some(at) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|at| *at < 50) {
                each(&hashes(at * 1000..(at + 1) * 1000));
            }
            Ok(())
        };
        together.insert_on_threads(3, scan).expect("added");
        assert!(together.bytes() == alone.bytes());
        assert_eq!(together.n_lists(), 50_000);
        let fails = |_: &mut dyn FnMut(&Hashes)| Err(StoreError::Failed("in vain".into()));
        assert!(together.insert_on_threads(2, fails).is_err());
    }

    #[test]
    fn the_least_filter_works() {
        let mut filter = RunFilter::for_lists(PostingKind::Index, 0, 0, 500).expect("memory");
        filter.insert_all(&hashes(1..3));
        assert_eq!(filter.possible(&(1..11).map(Key::of).collect::<Vec<_>>()), [0, 1]);
    }

    #[test]
    fn a_size_that_cannot_be_is_none() {
        let size = FilterSize { n_blocks: 1, n_lists: 2, short_max: 3 };
        assert_eq!(FilterSize::read(&size.row()), Some(size));
        assert_eq!(FilterSize::read(&size.row()[..16]), Some(FilterSize { short_max: u64::MAX, ..size }));
        assert_eq!(FilterSize::read(&[0; 24]), None);
        for n in [0, 8, 15, 17, 23, 32] {
            assert_eq!(FilterSize::read(&vec![1; n]), None, "{n}");
        }
        assert!(RunFilter::new(FilterSize { n_blocks: usize::MAX, ..size }).is_err());
    }
}
