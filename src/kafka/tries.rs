//! How often readers of a partition died at a place: the metadata of the group's offset tells, so that it is known wherever the
//! partition is read next.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Readers that may end where they began before the next one reads one record at a time.
const BEGUN_MAX: u32 = 2;

/// Readers that may end with one record in hand, and no other, before it is rejected.
const IN_HAND_MAX: u32 = 3;

/// What became of the readers that began at the offset of a commit. A commit of progress has no metadata: nothing happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Tries {
    /// Readers that began here, and of whom no progress is known.
    n_begun: u32,
    /// Readers that began with the next record, while they had no other in hand.
    n_in_hand: u32,
    /// Records below this offset are read one at a time.
    careful_below: i64,
}

impl Tries {
    /// Reads the metadata of a commit. What others wrote there tells nothing.
    pub(super) fn of_metadata(metadata: &str) -> Self {
        // An array of numbers would be read, too.
        if metadata.starts_with('{') { serde_json::from_str(metadata).unwrap_or_default() } else { Tries::default() }
    }

    /// The metadata of a commit.
    pub(super) fn metadata(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// One more reader begins at `next`. `ends` is behind the last record that an earlier one may have had in hand.
    pub(super) fn begun(self, next: i64, ends: i64) -> Self {
        if self.n_in_hand > 0 {
            return Tries { careful_below: self.careful_below.max(next + 1), ..self };
        }
        if self.careful_below > next {
            return self;
        }
        let n_begun = self.n_begun + 1;
        Tries { n_begun, careful_below: if n_begun > BEGUN_MAX { ends } else { 0 }, ..self }
    }

    /// Whether the record at `next` is to be the only one in hand.
    pub(super) fn is_careful(&self, next: i64) -> bool {
        next < self.careful_below
    }

    /// The next record is about to be in hand, alone.
    pub(super) fn taken(self) -> Self {
        Tries { n_begun: 0, n_in_hand: self.n_in_hand + 1, ..self }
    }

    /// The next record is another one.
    pub(super) fn passed(self) -> Self {
        Tries { n_begun: 0, n_in_hand: 0, ..self }
    }

    /// How many readers ended with the next record in hand, if they are too many.
    pub(super) fn poison(&self) -> Option<u32> {
        (self.n_in_hand >= IN_HAND_MAX).then_some(self.n_in_hand)
    }
}

/// What a member knows of the members before it.
pub(super) struct EarlierReaders {
    /// Records that a member may have in hand at once.
    pub(super) in_hand_max: usize,
    /// For partitions where it matters.
    pub(super) tries: BTreeMap<i32, Tries>,
    /// Whether one record is read at a time.
    pub(super) is_careful: bool,
    /// The partition of the one record in hand, and the offset behind it.
    pub(super) in_hand: Option<(i32, i64)>,
}

impl EarlierReaders {
    /// Knows nothing yet.
    pub(super) fn new(in_hand_max: usize) -> Self {
        EarlierReaders { in_hand_max, tries: BTreeMap::new(), is_careful: false, in_hand: None }
    }

    /// Forgets all partitions.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.in_hand_max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that begins at `next`, by what the last one left.
    fn reader(left: Tries, next: i64) -> Tries {
        Tries::of_metadata(&left.metadata()).begun(next, next + 100)
    }

    #[test]
    fn a_record_on_which_five_readers_died_is_poison_and_its_neighbours_are_not() {
        let mut left = Tries::default();
        for _ in 0..2 {
            left = reader(left, 7);
            assert!(!left.is_careful(7));
        }
        // The third takes 7, and dies with 8 in hand; so do two more.
        let mut tries = reader(left, 7);
        assert!(tries.is_careful(7) && tries.is_careful(106) && !tries.is_careful(107));
        tries = tries.taken().passed();
        for _ in 0..3 {
            assert!(tries.is_careful(8));
            assert_eq!(tries.poison(), None);
            tries = reader(tries.taken(), 8);
        }
        assert_eq!(tries.poison(), Some(3));
        tries = reader(tries.passed(), 9);
        assert_eq!((tries.poison(), tries.is_careful(9), tries.is_careful(107)), (None, true, false));
    }

    #[test]
    fn readers_that_got_somewhere_are_forgotten() {
        let mut left = Tries::default();
        for next in 0..50 {
            left = reader(if next % 2 == 0 { Tries::default() } else { left }, next);
            assert!(!left.is_careful(next), "one reader in a row got nowhere");
        }
        for others in ["", "x", "{}", "[1]", "{\"n_begun\":-1}", "moved by hand"] {
            assert_eq!(Tries::of_metadata(others), Tries::default());
        }
    }
}
