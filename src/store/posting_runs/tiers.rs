//! The levels of runs, and how many of one become a run of the next.

use std::ops::Range;

/// From this level on, runs are large, and merged by fours. A list is rewritten once whenever the store has become four times as
/// large, and a look-up asks the filters of up to three runs of each level.
pub(super) const LARGE: u8 = 2;

/// Runs of a kind from which on a new one waits for a merge. If merging keeps up, a store of 30 million documents has about twenty at
/// most.
pub(super) const RUNS_MAX: usize = 64;

/// Runs of a level that become one of the next. Small runs are merged by eights, which rewrites their lists less often: a look-up
/// asks one filter for all of a [group](super::group), however many they are.
fn n_merged(level: u8) -> usize {
    if level < LARGE { 8 } else { 4 }
}

/// Which runs to merge next, given the level of each, from the oldest to the newest: as many as are enough of the lowest level. Where
/// that would leave enough runs of the next level, those are merged along, and so on: otherwise the lists of the newest of them would
/// be rewritten twice in a row.
pub(super) fn next_to_merge(levels: &[u8]) -> Option<Range<usize>> {
    let mut end = levels.len();
    while let Some(level) = levels[..end].last() {
        let first = first_of_level(&levels[..end]);
        if end - first >= n_merged(*level) {
            return Some(first_merged_with(&levels[..first], level.saturating_add(1))..first + n_merged(*level));
        }
        end = first;
    }
    None
}

/// The first run to merge at once with a new one of level `new`, of those before it.
fn first_merged_with(before: &[u8], new: u8) -> usize {
    let first = first_of_level(before);
    let is_enough = before.last() == Some(&new) && before.len() - first + 1 == n_merged(new);
    if is_enough { first_merged_with(&before[..first], new.saturating_add(1)) } else { before.len() }
}

/// The first of the runs at the end that are of the same level.
fn first_of_level(levels: &[u8]) -> usize {
    levels.iter().rposition(|level| Some(level) != levels.last()).map_or(0, |before| before + 1)
}

/// Parts of the posting buffer that a run of a level holds.
pub(super) fn n_parts(level: u8) -> u64 {
    (0..level).fold(1, |n, level| n.saturating_mul(n_merged(level) as u64))
}

/// The level of a run that is as large as so many parts.
pub(super) fn level_of(parts: u64) -> u8 {
    (1..u8::MAX).find(|level| n_parts(*level) > parts).unwrap_or(u8::MAX) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_the_level_of_its_size() {
        assert_eq!([0, 1, 2, 3, 4].map(n_parts), [1, 8, 64, 256, 1024]);
        for level in 0..30 {
            assert_eq!((level_of(n_parts(level)), level_of(n_parts(level + 1) - 1)), (level, level));
        }
        assert_eq!((level_of(0), n_parts(u8::MAX)), (0, u64::MAX));
    }

    #[test]
    fn the_lowest_level_with_enough_runs_is_merged_and_what_follows_from_that() {
        let next = |runs: &[(u8, usize)]| {
            let levels: Vec<u8> = runs.iter().flat_map(|(level, n)| vec![*level; *n]).collect();
            next_to_merge(&levels)
        };
        assert_eq!(next(&[]), None);
        assert_eq!(next(&[(3, 3), (2, 3), (1, 7), (0, 7)]), None);
        assert_eq!(next(&[(1, 6), (0, 8)]), Some(6..14));
        assert_eq!(next(&[(1, 7), (0, 8)]), Some(0..15));
        assert_eq!(next(&[(2, 2), (1, 7), (0, 8)]), Some(2..17));
        assert_eq!(next(&[(4, 1), (3, 2), (2, 3), (1, 7), (0, 8)]), Some(3..21));
        assert_eq!(next(&[(2, 3), (0, 8)]), Some(3..11), "there is none of level 1");
        assert_eq!(next(&[(1, 8), (0, 3)]), Some(0..8), "a higher level where the lowest has too few");
        assert_eq!(next(&[(1, 7), (0, 20)]), Some(0..15), "the oldest where merging lags behind");
        assert_eq!(next(&[(1, 9), (0, 8)]), Some(9..17), "not those that wait for a merge of their own");
    }

    /// Lost if this fails: time, for lists that are rewritten twice in a row, and look-ups in more runs.
    #[test]
    fn parts_are_rewritten_once_where_levels_fill_up_at_once() {
        let (mut levels, mut n_rewritten, mut expected) = (Vec::new(), 0, 0);
        for n in 1..=2048 {
            levels.push(0);
            while let Some(merged) = next_to_merge(&levels) {
                let level = levels[merged.start] + 1;
                n_rewritten += levels[merged.clone()].iter().map(|level| n_parts(*level)).sum::<u64>();
                levels.splice(merged, [level]);
            }
            // The run that ends here, unless it is a new one.
            expected += (1..=4).map(n_parts).rfind(|parts| n % parts == 0).unwrap_or(0);
            assert_eq!(n_rewritten, expected, "{n} parts");
            let n_runs = (0..5).map(|level| n / n_parts(level) % n_merged(level) as u64).sum::<u64>();
            assert!(levels.is_sorted_by(|a, b| a >= b) && levels.len() as u64 == n_runs, "{n} parts: {levels:?}");
        }
    }
}
