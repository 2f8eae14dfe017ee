//! Sorting ids by 64-bit keys. Keys of signatures are evenly spread, so two passes into buckets do nearly all the work.

/// An id, and the key under which it meets others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyedId {
    /// The key.
    pub key: u64,
    /// The id.
    pub id: u32,
}

/// Bits of the number of a bucket of the first pass, at most: a core can write to this many places at once.
const OUTER_BITS_MAX: u32 = 10;

/// Bits of the number of a bucket of the second pass, at most: their counts stay in a core's own cache.
const INNER_BITS_MAX: u32 = 15;

/// How many moves a record the insertion sort may take on average before comparisons take over: where many keys are
/// equal, the buckets are anything but even.
const MOVES_MAX: usize = 8;

/// Sorts ids by keys with buffers that one round leaves to the next: as many bytes as the records of a round.
#[derive(Clone, Debug, Default)]
pub struct KeySorter {
    scattered: Vec<KeyedId>,
    outer_ends: Vec<u32>,
    inner_ends: Vec<u32>,
}

impl KeySorter {
    /// Sorts fewer than 2^32 records by key, and by id under one key. They may come in any order; evenly spread keys
    /// are sorted fastest.
    pub fn sort(&mut self, records: &mut [KeyedId]) {
        let outer_bits = (bits_of(records.len()) / 2).clamp(1, OUTER_BITS_MAX);
        self.scattered.resize(records.len(), KeyedId::default());
        scatter(records, &mut self.scattered, 0, outer_bits, &mut self.outer_ends);
        let mut begin = 0;
        for end in &self.outer_ends {
            let range = begin..*end as usize;
            begin = range.end;
            let (from, to) = (&self.scattered[range.clone()], &mut records[range]);
            scatter(from, to, outer_bits, bits_of(from.len()).min(INNER_BITS_MAX), &mut self.inner_ends);
            if !insert(to, MOVES_MAX * from.len()) {
                to.sort_unstable();
            }
        }
    }
}

/// Bits of the number of a bucket for one or two of `n` records each; 1 for fewer than four.
fn bits_of(n: usize) -> u32 {
    n.max(2).ilog2()
}

/// Orders records by `bits` bits of their keys, without the `skipped` leading ones. `ends` gets the end of each bucket.
fn scatter(from: &[KeyedId], to: &mut [KeyedId], skipped: u32, bits: u32, ends: &mut Vec<u32>) {
    let bucket = |record: &KeyedId| (record.key << skipped >> (u64::BITS - bits)) as usize;
    ends.clear();
    ends.resize(1 << bits, 0);
    for record in from {
        ends[bucket(record)] += 1;
    }
    let mut begin = 0;
    for end in &mut *ends {
        begin += std::mem::replace(end, begin);
    }
    for record in from {
        let place = &mut ends[bucket(record)];
        to[*place as usize] = *record;
        *place += 1;
    }
}

/// Sorts nearly sorted records. Returns false if that takes more than `moves_max` moves and they are not sorted yet.
fn insert(records: &mut [KeyedId], moves_max: usize) -> bool {
    let mut n_moves = 0;
    for at in 1..records.len() {
        let record = records[at];
        let mut to = at;
        while to > 0 && records[to - 1] > record {
            records[to] = records[to - 1];
            to -= 1;
        }
        records[to] = record;
        n_moves += at - to;
        if n_moves > moves_max {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::signature::mix;
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(sorter: &mut KeySorter, mut records: Vec<KeyedId>) {
        let mut expected = records.clone();
        expected.sort();
        sorter.sort(&mut records);
        assert!(records == expected, "{} records", records.len());
    }

    /// Ids fall, so that a sort that forgets them fails. One sorter serves all: nothing of one list appears in the next.
    #[test]
    fn even_and_repeated_keys() {
        let mut sorter = KeySorter::default();
        for n in [100_000, 0, 1, 2, 3, 4, 63, 1000, 40_000] {
            for n_keys in [u64::MAX, 7, 1] {
                let record = |id: u32| KeyedId { key: mix(u64::from(id) % n_keys), id };
                check(&mut sorter, (0..n).rev().map(record).collect());
            }
            check(&mut sorter, (0..n).rev().map(|id| KeyedId { key: u64::from(id / 3), id }).collect());
        }
    }

    proptest! {
        #[test]
        fn buckets_agree_with_comparisons(
            records in proptest::collection::vec((any::<u64>(), 0u32..64, 0u32..4), 0..400),
        ) {
            // Small and large keys, so that some buckets are full and others empty.
            let record = |(key, shift, id): (u64, u32, u32)| KeyedId { key: key >> shift, id };
            check(&mut KeySorter::default(), records.into_iter().map(record).collect());
        }
    }
}
