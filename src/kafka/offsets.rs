//! Where a partition is read from, and whether the broker still has it.

use super::settings::Start;
use crate::ports::ProgressMap;
use std::collections::BTreeMap;
use std::fmt;

/// What a broker has of a partition: `low..high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    /// The oldest record's offset.
    pub low: i64,
    /// The offset that the next record gets.
    pub high: i64,
}

/// An offset that the broker cannot give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OutOfRange {
    /// The partition.
    pub partition: i32,
    /// The offset to read next.
    pub next: i64,
    /// What there is instead.
    pub held: Held,
}

impl fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OutOfRange { partition, next, held: Held { low, high } } = self;
        write!(f, "partition {partition}: the stored offset is {next}, the broker has {low}..{high}: ")?;
        if next < low {
            write!(f, "retention deleted {} records before they were read", low - next)
        } else {
            f.write_str("the topic was made anew or its end was lost")
        }
    }
}

/// Checks that `next` can be read: a record is there, or it is the one that comes next.
pub(super) fn check(partition: i32, next: i64, held: Held) -> Result<i64, OutOfRange> {
    if (held.low..=held.high).contains(&next) { Ok(next) } else { Err(OutOfRange { partition, next, held }) }
}

/// What the store knows of one topic.
#[derive(Clone, Debug)]
pub(super) struct Stored(BTreeMap<i32, i64>);

impl Stored {
    /// What it knows of `topic`.
    pub(super) fn of(progress: &ProgressMap, topic: &str) -> Self {
        let ours = progress.iter().filter(|((source, _), _)| source == topic);
        Stored(ours.map(|((_, partition), progress)| (*partition, progress.next_offset)).collect())
    }

    /// A partition that it knows and the topic does not have.
    pub(super) fn beyond(&self, partitions: &[i32]) -> Option<i32> {
        self.0.keys().copied().find(|partition| !partitions.contains(partition))
    }

    /// Where to begin a partition. One unknown in a topic that is known was added later and is read whole: to begin it
    /// at its end would lose what came in the meantime.
    pub(super) fn begin(&self, partition: i32, start: Start, held: Held) -> Result<i64, OutOfRange> {
        match (self.0.get(&partition), start) {
            (Some(next), _) => check(partition, *next, held),
            (None, Start::Latest) if self.0.is_empty() => Ok(held.high),
            (None, _) => Ok(held.low),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::Progress;

    const HELD: Held = Held { low: 10, high: 20 };

    fn stored(known: &[(i32, i64)]) -> Stored {
        let progress = known
            .iter()
            .map(|(partition, next_offset)| {
                (("t".to_string(), *partition), Progress { next_offset: *next_offset, chain: 0 })
            })
            .chain([(("other".to_string(), 7), Progress { next_offset: 99, chain: 0 })])
            .collect();
        Stored::of(&progress, "t")
    }

    #[test]
    fn beginnings() {
        for (known, start, expected) in [
            (&[][..], Start::Earliest, Ok(10)),
            (&[], Start::Latest, Ok(20)),
            (&[(0, 10)], Start::Latest, Ok(10)),
            (&[(0, 15)], Start::Earliest, Ok(15)),
            (&[(0, 20)], Start::Earliest, Ok(20)),
            (&[(1, 15)], Start::Latest, Ok(10)),
            (&[(0, 9)], Start::Earliest, Err(9)),
            (&[(0, 21)], Start::Earliest, Err(21)),
        ] {
            let expected = expected.map_err(|next| OutOfRange { partition: 0, next, held: HELD });
            assert_eq!(stored(known).begin(0, start, HELD), expected, "{known:?}, {start:?}");
        }
    }

    #[test]
    fn partitions_that_are_gone() {
        assert_eq!(stored(&[(0, 1), (2, 1)]).beyond(&[0, 1]), Some(2));
        assert_eq!(stored(&[(0, 1)]).beyond(&[0, 1]), None);
    }

    #[test]
    fn what_is_out_of_range_is_said() {
        let text = |next| OutOfRange { partition: 3, next, held: HELD }.to_string();
        assert!(text(4).contains("partition 3: the stored offset is 4, the broker has 10..20"), "{}", text(4));
        assert!(text(4).contains("deleted 6 records"), "{}", text(4));
        assert!(text(44).contains("made anew"), "{}", text(44));
    }
}
