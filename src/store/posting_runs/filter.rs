//! The filter of a run, and its rows.

use super::key::filter_key;
use crate::ports::StoreError;
use crate::store::bloom::{TOGETHER, WORDS, bits_of, block_of, fetch, has_bits};
use crate::store::rocks_error::failed;
use memmap2::MmapMut;
use rocksdb::{DB, DBRawIteratorWithThreadMode, SstFileWriter};

/// Keys per block, by the level of the run; that of the last one where it is higher. Nearly all shingles of a new page are in no run,
/// and each that a filter lets through costs a block that is read in vain: one in 240 with forty keys to a block, one in 80 with 54.
/// Small runs need fewer bits, because the filter of their [group](super::group) is asked first. It has as many bits a key as the
/// large run whose filter it becomes.
const BLOCK_KEYS: [u64; 4] = [51, 51, 40, 54];

/// The words of a block, little-endian.
type Block = [[u8; 8]; WORDS];

/// Bytes of a block.
const BLOCK_BYTES: usize = size_of::<Block>();

/// Bytes of a row.
const PORTION_BYTES: usize = 64 << 10;

/// Bytes of a large page of memory.
const PAGE_BYTES: usize = 2 << 20;

/// A key to ask filters for.
pub(super) struct Key {
    hash: u64,
    /// Its bits in each word of its block, which take as long to compute as to compare.
    bits: [u64; WORDS],
}

impl Key {
    /// The key with a hash.
    pub fn new(hash: u64) -> Self {
        Key { hash, bits: bits_of(hash) }
    }
}

/// A Bloom filter of fixed size, of blocks like those of [`Bloom`](crate::store::bloom::Bloom).
pub(super) struct RunFilter {
    /// Mapped apart from the allocator, which gives pages back to the system in pieces and then lacks large ones. Nearly every read
    /// is of another page, and a processor finds large pages without reading tables of them first.
    memory: MmapMut,
    n_blocks: usize,
    n_keys: u64,
}

impl RunFilter {
    /// An empty filter for a run of this level with so many keys.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn for_keys(n_keys: u64, level: u8) -> Result<Self, StoreError> {
        let block_keys = BLOCK_KEYS[usize::from(level).min(BLOCK_KEYS.len() - 1)];
        Self::new(n_keys / block_keys + 1, 0)
    }

    fn new(n_blocks: u64, n_keys: u64) -> Result<Self, StoreError> {
        let n_blocks = usize::try_from(n_blocks).unwrap_or(usize::MAX);
        let n_bytes = n_blocks.saturating_mul(BLOCK_BYTES);
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
        Ok(RunFilter { memory, n_blocks, n_keys })
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[..self.n_blocks * BLOCK_BYTES]
    }

    fn blocks(&self) -> &[Block] {
        self.bytes().as_chunks().0.as_chunks().0
    }

    /// How many keys were added.
    pub fn n_keys(&self) -> u64 {
        self.n_keys
    }

    /// Adds hashes.
    pub fn insert_all(&mut self, hashes: &[u64]) {
        for hashes in hashes.chunks(TOGETHER) {
            self.fetch(hashes.iter().copied());
            let (words, _) = self.memory[..self.n_blocks * BLOCK_BYTES].as_chunks_mut();
            let (blocks, _): (&mut [Block], _) = words.as_chunks_mut();
            for hash in hashes {
                let block = &mut blocks[block_of(*hash, self.n_blocks)];
                for (word, bits) in block.iter_mut().zip(bits_of(*hash)) {
                    *word = (u64::from_le_bytes(*word) | bits).to_le_bytes();
                }
            }
        }
        self.n_keys += hashes.len() as u64;
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
        fetch(self.blocks(), hashes, |block| u64::from_le_bytes(block[0]));
    }

    /// Writes the filter behind the blocks of its run: how many blocks it has (8, like all numbers here little-endian), how many
    /// lists are in it (8), and then its blocks.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn put(&self, file: &mut SstFileWriter<'_>, run: u32, width: usize) -> Result<(), StoreError> {
        let size = [(self.n_blocks as u64).to_le_bytes(), self.n_keys.to_le_bytes()].concat();
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
        let size =
            rows.item().filter(|(key, _)| *key == filter_key(run, 0, width)).and_then(|(_, size)| read_size(size));
        let Some((n_blocks, n_keys)) = size else { return Ok(None) };
        let mut filter = Self::new(n_blocks, n_keys)?;
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

/// How many blocks a filter has, and how many keys. None if that cannot be.
fn read_size(size: &[u8]) -> Option<(u64, u64)> {
    let (n_blocks, n_keys) = size.split_first_chunk::<8>()?;
    let (n_blocks, n_keys) = (u64::from_le_bytes(*n_blocks), u64::from_le_bytes(n_keys.try_into().ok()?));
    (n_blocks > 0).then_some((n_blocks, n_keys))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::bloom::spread;

    fn hashes(numbers: std::ops::Range<u64>) -> Vec<u64> {
        numbers.map(spread).collect()
    }

    fn possible(filter: &RunFilter, hashes: &[u64]) -> Vec<usize> {
        filter.possible(&hashes.iter().copied().map(Key::new).collect::<Vec<_>>())
    }

    /// A filter that lacks a key loses postings.
    #[test]
    fn a_filter_lacks_no_key_and_has_few_others() {
        let (members, others) = (hashes(0..100_000), hashes(200_000..300_000));
        for (level, one_in) in [(0, 90), (1, 90), (2, 200), (3, 70), (9, 70)] {
            let mut filter = RunFilter::for_keys(100_000, level).expect("memory");
            assert!(possible(&filter, &members).is_empty());
            members.chunks(1000).for_each(|members| filter.insert_all(members));
            assert_eq!((possible(&filter, &members).len(), filter.n_keys()), (100_000, 100_000));
            let n_found = possible(&filter, &others).len();
            assert!(n_found < others.len() / one_in, "level {level}: {n_found}");
        }
    }

    #[test]
    fn the_least_filter_works() {
        let mut filter = RunFilter::for_keys(0, 0).expect("memory");
        filter.insert_all(&hashes(0..2));
        assert_eq!(possible(&filter, &hashes(0..10)), [0, 1]);
    }

    #[test]
    fn a_size_that_cannot_be_is_none() {
        assert_eq!(read_size(&[1; 16]), Some((0x0101_0101_0101_0101, 0x0101_0101_0101_0101)));
        assert_eq!(read_size(&[0; 16]), None);
        assert_eq!(read_size(&[1; 15]), None);
        assert!(RunFilter::new(u64::MAX, 1).is_err());
    }
}
