//! A Bloom filter that grows by layers (Almeida et al., "Scalable Bloom Filters", 2007), each of blocks as large as a cache
//! line (Putze, Sanders and Singler, "Cache-, Hash- and Space-Efficient Bloom Filters", 2007).

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// Words of a block.
pub(super) const WORDS: usize = 8;

/// Bits of a key, in as many words of its block. With the ten bits of memory that a key has in a full layer, eight would let through
/// hardly less; with six, which it has in a filter at its limit, they would let through half as many again.
pub(super) const KEY_BITS: usize = 5;

/// Keys per block of a full layer: ten bits for each key. One absent key in a hundred then seems to be there.
const BLOCK_KEYS: usize = 51;

/// Blocks of the first layer, at least: 1 MiB.
const BLOCKS_MIN: usize = 1 << 14;

/// How many times as large as all layers before it together a new layer is. Every layer lets some absent keys through, and costs
/// a read from memory for each key.
const GROWTH: usize = 7;

/// Keys whose blocks are read at once.
pub(super) const TOGETHER: usize = 64;

/// Spreads what differs in a number over all its bits, as the hashes of a filter must be (the finalizer of MurmurHash3).
pub(super) fn spread(number: u64) -> u64 {
    let mut hash = (number ^ number >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ hash >> 33
}

/// The block of a key among so many, by the upper bits of its hash.
pub(super) fn block_of(hash: u64, n_blocks: usize) -> usize {
    ((u128::from(hash) * n_blocks as u128) >> 64) as usize
}

/// The bits of a key: for each, which word of its block it is in, and that word with this bit alone. They must not follow from what
/// chooses the block.
pub(super) fn bits_of(hash: u64) -> [(usize, u64); KEY_BITS] {
    let hash = hash.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
    let (first, places) = (hash as usize, hash >> 3);
    std::array::from_fn(|at| (first.wrapping_add(at) % WORDS, 1 << (places >> (6 * at) & 63)))
}

/// Whether a block has all bits of a key. `word` gives a word of it.
pub(super) fn has_bits(bits: &[(usize, u64); KEY_BITS], word: impl Fn(usize) -> u64) -> bool {
    bits.iter().fold(0, |absent, (at, bit)| absent | !word(*at) & bit) == 0
}

/// Reads the blocks of many keys into the processor's caches. Nearly all come from memory, and this loop is short enough to wait
/// for a dozen at once. `first_word` gives the first word of the block of a hash.
pub(super) fn fetch(hashes: impl Iterator<Item = u64>, first_word: impl Fn(u64) -> u64) {
    std::hint::black_box(hashes.map(first_word).fold(0, |all, word| all ^ word));
}

/// A cache line.
#[repr(align(64))]
#[derive(Default)]
struct Block([AtomicU64; WORDS]);

/// A filter of fixed size.
struct Layer {
    blocks: Vec<Block>,
    n_keys: AtomicUsize,
}

impl Layer {
    fn new(n_blocks: usize) -> Self {
        let mut blocks = Vec::new();
        blocks.resize_with(n_blocks, Block::default);
        Layer { blocks, n_keys: AtomicUsize::new(0) }
    }

    fn block(&self, hash: u64) -> &[AtomicU64; WORDS] {
        &self.blocks[block_of(hash, self.blocks.len())].0
    }

    fn fetch(&self, hashes: &[u64]) {
        fetch(hashes.iter().copied(), |hash| self.block(hash)[0].load(Ordering::Relaxed));
    }

    fn may_contain(&self, hash: u64) -> bool {
        let block = self.block(hash);
        has_bits(&bits_of(hash), |at| block[at].load(Ordering::Relaxed))
    }

    fn insert(&self, hash: u64) {
        let block = self.block(hash);
        for (word, bit) in bits_of(hash) {
            block[word].fetch_or(bit, Ordering::Relaxed);
        }
        self.n_keys.fetch_add(1, Ordering::Relaxed);
    }

    fn is_full(&self) -> bool {
        self.n_keys.load(Ordering::Relaxed) >= self.blocks.len() * BLOCK_KEYS
    }
}

/// The blocks of all layers.
fn n_blocks(layers: &[Layer]) -> usize {
    layers.iter().map(|layer| layer.blocks.len()).sum()
}

/// A set of hashes that never forgets one, and takes about one in thirty others for a member, or more once it has reached its
/// largest size.
pub(super) struct Bloom {
    /// New keys go to the last.
    layers: RwLock<Vec<Layer>>,
    blocks_max: usize,
}

impl Bloom {
    /// An empty set that may take so many bytes.
    pub fn new(n_bytes_max: usize) -> Self {
        Bloom { layers: RwLock::default(), blocks_max: n_bytes_max / size_of::<Block>() }
    }

    /// For each hash, whether the set may contain it.
    pub fn may_contain(&self, hashes: &[u64]) -> Vec<bool> {
        let mut found = vec![false; hashes.len()];
        for layer in &*self.layers() {
            for (hashes, found) in hashes.chunks(TOGETHER).zip(found.chunks_mut(TOGETHER)) {
                layer.fetch(hashes);
                hashes.iter().zip(found).for_each(|(hash, found)| *found |= layer.may_contain(*hash));
            }
        }
        found
    }

    /// Adds hashes.
    pub fn insert(&self, hashes: &[u64]) {
        for hashes in hashes.chunks(TOGETHER) {
            // What is there already, or seems to be, needs no room.
            let found = self.may_contain(hashes);
            let layers = self.layers_with_room();
            let Some(last) = layers.last() else { continue };
            hashes.iter().zip(found).filter(|(_, found)| !found).for_each(|(hash, _)| last.insert(*hash));
        }
    }

    /// Makes room for so many keys at once, so that they do not fill one layer after the other.
    pub fn reserve(&self, n_keys: u64) {
        let n_blocks = usize::try_from(n_keys).unwrap_or(usize::MAX) / BLOCK_KEYS;
        let mut layers = self.layers.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(n_blocks) = self.n_blocks_next(&layers, n_blocks) {
            layers.push(Layer::new(n_blocks));
        }
    }

    /// The blocks of a new layer, if so many are wanted; none where there is no room for another one.
    fn n_blocks_next(&self, layers: &[Layer], wanted: usize) -> Option<usize> {
        let n_blocks = n_blocks(layers);
        let n_free = self.blocks_max.saturating_sub(n_blocks);
        // A small last layer would soon contain everything.
        (n_free > n_blocks / 4).then(|| wanted.max(BLOCKS_MIN).min(n_free))
    }

    /// How many keys were added.
    pub fn n_keys(&self) -> u64 {
        self.layers().iter().map(|layer| layer.n_keys.load(Ordering::Relaxed) as u64).sum()
    }

    /// How many bytes it takes.
    pub fn n_bytes(&self) -> usize {
        n_blocks(&self.layers()) * size_of::<Block>()
    }

    /// Whether the set is at its largest size and takes more than every fourth hash for a member.
    pub fn is_crowded(&self) -> bool {
        self.layers()
            .last()
            .is_some_and(|last| last.n_keys.load(Ordering::Relaxed) > 3 * last.blocks.len() * BLOCK_KEYS)
    }

    fn layers(&self) -> RwLockReadGuard<'_, Vec<Layer>> {
        self.layers.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The layers, of which the last is not full, unless there is no room for another one.
    fn layers_with_room(&self) -> RwLockReadGuard<'_, Vec<Layer>> {
        let layers = self.layers();
        if layers.last().is_some_and(|last| !last.is_full()) {
            return layers;
        }
        let Some(n_blocks) = self.n_blocks_next(&layers, GROWTH * n_blocks(&layers)) else { return layers };
        let n_layers = layers.len();
        drop(layers);
        // Allocating a large layer takes a while, so do it without holding the lock.
        let next = Layer::new(n_blocks);
        let mut layers = self.layers.write().unwrap_or_else(PoisonError::into_inner);
        if layers.len() == n_layers {
            layers.push(next);
        }
        drop(layers);
        self.layers()
    }

    /// Writes the set: the number of layers (4), then for each the number of its blocks (8) and keys (8), and its words (8
    /// each), all little-endian.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let layers = self.layers();
        out.write_all(&(layers.len() as u32).to_le_bytes())?;
        for layer in &*layers {
            out.write_all(&(layer.blocks.len() as u64).to_le_bytes())?;
            out.write_all(&(layer.n_keys.load(Ordering::Relaxed) as u64).to_le_bytes())?;
            for word in layer.blocks.iter().flat_map(|block| &block.0) {
                out.write_all(&word.load(Ordering::Relaxed).to_le_bytes())?;
            }
        }
        Ok(())
    }

    /// Reads a set that was written in `n_bytes`, and that may grow to `n_bytes_max`.
    ///
    /// # Errors
    /// Those of `input`, and [`io::ErrorKind::InvalidData`], also if it is too large.
    pub fn read(input: &mut impl Read, n_bytes: u64, n_bytes_max: usize) -> io::Result<Self> {
        let Bloom { blocks_max, .. } = Self::new(n_bytes_max.min(usize::try_from(n_bytes).unwrap_or(usize::MAX)));
        let (mut layers, mut n_blocks_left) = (Vec::new(), blocks_max as u64);
        let mut n_layers = [0; 4];
        input.read_exact(&mut n_layers)?;
        for _ in 0..u32::from_le_bytes(n_layers) {
            let (n_blocks, n_keys) = (read_word(input)?, read_word(input)?);
            // A damaged number must not take all memory.
            if !(1..=n_blocks_left).contains(&n_blocks) {
                return Err(io::ErrorKind::InvalidData.into());
            }
            n_blocks_left -= n_blocks;
            let mut layer = Layer { n_keys: AtomicUsize::new(n_keys as usize), ..Layer::new(n_blocks as usize) };
            for word in layer.blocks.iter_mut().flat_map(|block| &mut block.0) {
                *word.get_mut() = read_word(input)?;
            }
            layers.push(layer);
        }
        Ok(Bloom { layers: RwLock::new(layers), ..Self::new(n_bytes_max) })
    }
}

fn read_word(input: &mut impl Read) -> io::Result<u64> {
    let mut word = [0; 8];
    input.read_exact(&mut word)?;
    Ok(u64::from_le_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Well spread hashes.
    fn hashes(numbers: std::ops::Range<u64>) -> Vec<u64> {
        let mix = |number: u64| {
            (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32).wrapping_mul(0xc4ce_b9fe_1a85_ec53)
        };
        numbers.map(mix).collect()
    }

    /// A set with layers of so many blocks.
    fn with_layers(n_blocks: &[usize], n_bytes_max: usize) -> Bloom {
        let layers = n_blocks.iter().map(|n_blocks| Layer::new(*n_blocks)).collect();
        Bloom { layers: RwLock::new(layers), ..Bloom::new(n_bytes_max) }
    }

    fn n_found(bloom: &Bloom, hashes: &[u64]) -> usize {
        bloom.may_contain(hashes).into_iter().filter(|found| *found).count()
    }

    /// Filters are in files, and a later version must find the same keys in them.
    #[test]
    fn a_key_keeps_its_block_and_its_bits() {
        let hash = 0x0123_4567_89ab_cdef;
        assert_eq!((block_of(hash, 1000), spread(hash)), (4, 0x87cb_fbfe_8902_2cea));
        assert_eq!(bits_of(hash), [(5, 1 << 29), (6, 1 << 13), (7, 1 << 47), (0, 1 << 61), (1, 1 << 52)]);
        assert_eq!(bits_of(1), [(2, 1 << 41), (3, 1 << 63), (4, 1 << 50), (5, 1 << 13), (6, 1 << 47)]);
    }

    #[test]
    fn no_key_is_lost_over_many_layers_and_few_others_are_found() {
        let (members, others) = (hashes(0..200_000), hashes(200_000..400_000));
        let bloom = with_layers(&[16], usize::MAX);
        for members in members.chunks(1000) {
            bloom.insert(members);
            bloom.insert(members);
        }
        assert_eq!(n_found(&bloom, &members), members.len());
        assert!(bloom.n_keys() <= 200_000, "what is added twice takes room once");
        assert_eq!(bloom.layers().len(), 2, "the second is of the least size");
        assert!(n_found(&bloom, &others) < others.len() / 50);
    }

    #[test]
    fn a_full_filter_takes_one_in_thirty_for_a_member() {
        let (members, others) = (hashes(0..100_000), hashes(200_000..300_000));
        let bloom = with_layers(&[100_000 / 3 / BLOCK_KEYS + 1; 3], usize::MAX);
        let layers = bloom.layers();
        members.iter().zip((0..3).cycle()).for_each(|(hash, at)| layers[at].insert(*hash));
        drop(layers);
        assert_eq!(n_found(&bloom, &members), members.len());
        assert!(n_found(&bloom, &others) < others.len() / 25, "{}", n_found(&bloom, &others));
    }

    #[test]
    fn a_filter_of_its_largest_size_finds_ever_more_and_loses_none() {
        let (members, others) = (hashes(0..60_000), hashes(200_000..300_000));
        let bloom = with_layers(&[100], 200 * 64);
        bloom.insert(&members[..12_000]);
        let n_blocks: Vec<usize> = bloom.layers().iter().map(|layer| layer.blocks.len()).collect();
        assert_eq!(n_blocks, [100, 100], "not a third layer for the last two thousand");
        assert!(n_found(&bloom, &others) < others.len() / 10, "{}", n_found(&bloom, &others));
        assert!(!bloom.is_crowded());
        bloom.insert(&members[12_000..]);
        assert!(bloom.is_crowded());
        assert_eq!(n_found(&bloom, &members), members.len());
    }

    #[test]
    fn a_small_rest_is_no_layer() {
        let members = hashes(0..20_000);
        let bloom = with_layers(&[100, 100], 210 * 64);
        bloom.insert(&members);
        assert_eq!(bloom.layers().len(), 2, "it would soon contain everything");
        assert_eq!(n_found(&bloom, &members), members.len());
    }

    /// Several threads may find the last layer full at once.
    #[test]
    fn threads_insert_at_once() {
        let bloom = with_layers(&[1], usize::MAX);
        let of_thread = |thread: u64| hashes(thread * 20_000..(thread + 1) * 20_000);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (bloom, hashes) = (&bloom, of_thread(thread));
                scope.spawn(move || hashes.chunks(7).for_each(|hashes| bloom.insert(hashes)));
            }
        });
        let all: Vec<u64> = (0..4).flat_map(of_thread).collect();
        assert_eq!(n_found(&bloom, &all), all.len());
    }

    #[test]
    fn a_written_set_is_read_again_and_a_cut_one_is_not() {
        let bloom = with_layers(&[1, 3], usize::MAX);
        let members = hashes(0..100);
        bloom.insert(&members);
        let mut file = Vec::new();
        bloom.write(&mut file).expect("written");
        let read = |file: &[u8]| Bloom::read(&mut &file[..], file.len() as u64, usize::MAX);
        let again = read(&file).expect("read");
        assert_eq!((n_found(&again, &members), again.n_keys()), (100, bloom.n_keys()));
        assert_eq!(again.layers().len(), 2);
        assert!((0..file.len()).all(|end| read(&file[..end]).is_err()));
        let mut huge = file.clone();
        huge[4..12].fill(0xff);
        assert!(read(&huge).is_err(), "more blocks than the file has bytes");
        let mut empty = file.clone();
        empty[4..12].fill(0);
        assert!(read(&empty).is_err(), "a layer without blocks");
        assert!(Bloom::read(&mut &file[..], file.len() as u64, 3 * 64).is_err(), "more than it may have");
    }
}
