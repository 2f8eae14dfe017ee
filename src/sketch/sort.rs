//! Sorting shingles: numbers that a random permutation has spread evenly, for which one pass into buckets does nearly
//! all of the work that comparisons would.

use super::shingle::Shingle;

/// Fewer than this are sorted by comparisons.
const BUCKETED_MIN: usize = 64;

/// Bits of a bucket's number, at most: the counts of 2^16 buckets stay in a core's own cache.
const BUCKET_BITS_MAX: u32 = 16;

/// Numbers are put in order by moving each before those that are larger; where that takes more moves than so many a
/// number, they are sorted by comparisons. A page may be made of few shingles, each of them a thousand times, and then
/// the buckets are anything but even.
const MOVES_MAX: usize = 4;

/// Buffers for [`ShingleSorter::sort_distinct`], kept from one document to the next.
#[derive(Clone, Debug, Default)]
pub(super) struct ShingleSorter {
    /// Where the next number of each bucket is to stand.
    places: Vec<u32>,
    bucketed: Vec<Shingle>,
}

impl ShingleSorter {
    /// Sorts numbers of `bits` bits and drops those that are there already.
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

    /// Fills `bucketed` with the numbers in the order of their first bits: one bucket or two for each number.
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

/// Brings most of the numbers that are nearly in order into order: all that stand one place too far to the right, or
/// before numbers that do. Without branches, where [`insert`] has one that no processor can foretell.
fn swap_neighbours(shingles: &mut [Shingle]) {
    let Some(mut largest) = shingles.first().copied() else { return };
    for at in 1..shingles.len() {
        let shingle = shingles[at];
        shingles[at - 1] = largest.min(shingle);
        largest = largest.max(shingle);
        shingles[at] = largest;
    }
}

/// Sorts numbers that are nearly in order; false where it takes more than `moves_max` moves, and they are not yet.
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
    fn many_and_repeated_ones() {
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

    /// The same buffers for one document after the other: nothing of one is found in the next.
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
        fn as_by_comparisons(
            bits in 32u32..=64,
            shingles in proptest::collection::vec((any::<u64>(), 0u32..64), 0..400),
        ) {
            // Small ones and large ones, so that some buckets are full and others empty.
            let shingles: Vec<Shingle> = shingles.iter().map(|(n, shift)| n >> (64 - bits) >> (shift % bits)).collect();
            check(&shingles, bits);
        }
    }
}
