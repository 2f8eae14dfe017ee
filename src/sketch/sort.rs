//! Sorting shingles. A random permutation spreads them evenly, so one pass into buckets does nearly all the work.

use super::shingle::Shingle;

/// Fewer shingles than this are sorted by comparisons.
const BUCKETED_MIN: usize = 64;

/// The most bits of a bucket's number: the counts of 2^16 buckets stay in a core's own cache.
const BUCKET_BITS_MAX: u32 = 16;

/// How many moves a shingle the insertion sort may take on average before comparisons take over. A page may consist
/// of few shingles, each repeated a thousand times; then the buckets are anything but even.
const MOVES_MAX: usize = 4;

/// Sorts shingles with buffers that one document leaves to the next.
#[derive(Clone, Debug, Default)]
pub(super) struct ShingleSorter {
    /// Where the next shingle of each bucket goes.
    places: Vec<u32>,
    bucketed: Vec<Shingle>,
}

impl ShingleSorter {
    /// Sorts shingles of `bits` bits and drops duplicates.
    pub(super) fn sort_distinct(&mut self, shingles: &mut Vec<Shingle>, bits: u32) {
        if shingles.len() < BUCKETED_MIN || u32::try_from(shingles.len()).is_err() {
            shingles.sort_unstable();
        } else {
            self.fill_buckets(shingles, bits);
            swap_neighbours(&mut self.bucketed);
            if !insert(&mut self.bucketed, MOVES_MAX * shingles.len()) {
                self.bucketed.sort_unstable();
            }
            std::mem::swap(shingles, &mut self.bucketed);
        }
        shingles.dedup();
    }

    /// Fills `bucketed` with the shingles ordered by their leading bits, with one or two buckets a shingle.
    fn fill_buckets(&mut self, shingles: &[Shingle], bits: u32) {
        let bucket_bits = (shingles.len().ilog2() + 1).min(BUCKET_BITS_MAX);
        let shift = bits - bucket_bits;
        let last = (1 << bucket_bits) - 1;
        let bucket = |shingle: Shingle| ((shingle >> shift) as usize).min(last);
        self.places.clear();
        self.places.resize(last + 1, 0);
        for shingle in shingles {
            self.places[bucket(*shingle)] += 1;
        }
        let mut begin = 0;
        for place in &mut self.places {
            begin += std::mem::replace(place, begin);
        }
        self.bucketed.resize(shingles.len(), 0);
        for shingle in shingles {
            let place = &mut self.places[bucket(*shingle)];
            self.bucketed[*place as usize] = *shingle;
            *place += 1;
        }
    }
}

/// Sorts most of a nearly sorted list: every shingle that stands one place too far right, or before one that does.
/// It has no branches, while [`insert`] has one that the processor cannot predict.
fn swap_neighbours(shingles: &mut [Shingle]) {
    let Some(mut largest) = shingles.first().copied() else { return };
    for at in 1..shingles.len() {
        let shingle = shingles[at];
        shingles[at - 1] = largest.min(shingle);
        largest = largest.max(shingle);
        shingles[at] = largest;
    }
}

/// Sorts a nearly sorted list. Returns false if that takes more than `moves_max` moves and the list is not sorted
/// yet.
fn insert(shingles: &mut [Shingle], moves_max: usize) -> bool {
    let mut n_moves = 0;
    for at in 1..shingles.len() {
        let shingle = shingles[at];
        let mut to = at;
        while to > 0 && shingles[to - 1] > shingle {
            shingles[to] = shingles[to - 1];
            to -= 1;
        }
        shingles[to] = shingle;
        n_moves += at - to;
        if n_moves > moves_max {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Seed;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[track_caller]
    fn check(shingles: &[Shingle], bits: u32) {
        let mut found = shingles.to_vec();
        ShingleSorter::default().sort_distinct(&mut found, bits);
        let expected: Vec<Shingle> = BTreeSet::from_iter(shingles.iter().copied()).into_iter().collect();
        assert_eq!(found, expected, "{} of {bits} bits", shingles.len());
    }

    #[test]
    fn many_and_repeated_shingles() {
        let number = |n: u64| Seed([1, 2, 3, 4]).derive("n", n);
        for bits in [32, 40, 64] {
            for n in [0, 1, 63, 64, 65, 1000, 40_000] {
                let all: Vec<Shingle> = (0..n).map(|n| number(n) >> (64 - bits)).collect();
                check(&all, bits);
                let repeated: Vec<Shingle> = (0..n).map(|n| number(n % 7) >> (64 - bits)).collect();
                check(&repeated, bits);
            }
            check(&vec![u64::MAX >> (64 - bits); 100], bits);
        }
    }

    /// Nothing of one document appears in the next, although they share buffers.
    #[test]
    fn buffers_are_reused() {
        let mut sorter = ShingleSorter::default();
        for n in [500, 70, 300] {
            let mut found: Vec<Shingle> = (0..n).rev().map(|n| n << 30).collect();
            sorter.sort_distinct(&mut found, 40);
            assert_eq!(found, (0..n).map(|n| n << 30).collect::<Vec<_>>());
        }
    }

    proptest! {
        #[test]
        fn buckets_agree_with_comparisons(
            bits in 32u32..=64,
            shingles in proptest::collection::vec((any::<u64>(), 0u32..64), 0..400),
        ) {
            // Small and large numbers, so that some buckets are full and others empty.
            let shingles: Vec<Shingle> = shingles.iter().map(|(n, shift)| n >> (64 - bits) >> (shift % bits)).collect();
            check(&shingles, bits);
        }
    }
}
