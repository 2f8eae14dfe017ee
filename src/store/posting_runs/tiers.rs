//! The levels of runs, and how many of one become a run of the next.

/// From this level on, runs are large, and merged by fours. A list is rewritten once whenever the store has become four times as
/// large, and a look-up asks the filters of up to three runs of each level.
pub(super) const LARGE: u8 = 2;

/// Runs of a kind from which on a new one waits for a merge. If merging keeps up, a store of 30 million documents has about twenty at
/// most.
pub(super) const RUNS_MAX: usize = 64;

/// Runs of a level that become one of the next. Small runs are merged by eights, which rewrites their lists less often: a look-up
/// asks one filter for all of a [group](super::group), however many they are.
pub(super) fn n_merged(level: u8) -> usize {
    if level < LARGE { 8 } else { 4 }
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
}
