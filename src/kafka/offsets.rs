//! Where a partition is read from, and whether the broker still has it.

use super::settings::Start;
use crate::document::FetchTime;
use crate::ports::{Progress, ProgressMap, StopReason};
use crate::wire::{Reason, Rejection};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// What a broker has of a partition: `low..high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OffsetRange {
    /// The oldest record's offset.
    pub low: i64,
    /// The offset that the next record gets.
    pub high: i64,
}

/// Stands for the offset of a partition that is no longer there.
pub(super) const NOWHERE: i64 = -1;

/// Records that the store should read next and the broker cannot give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    /// The partition.
    pub partition: i32,
    /// The offset to read next.
    pub next: i64,
    /// What there is instead; none: the partition is not there at all.
    pub held: Option<OffsetRange>,
    /// What became of them.
    pub why: GapReason,
}

/// What became of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GapReason {
    /// They were deleted, by retention or by somebody.
    Overtaken,
    /// The topic is another one now, or lost its end.
    Replaced,
}

impl Gap {
    /// How the program ends over it.
    pub(super) fn stop_reason(&self) -> StopReason {
        match self.why {
            GapReason::Overtaken => StopReason::Overtaken,
            GapReason::Replaced => StopReason::Replaced,
        }
    }

    /// Where reading goes on once it is accepted.
    pub(super) fn to(&self) -> i64 {
        self.held.map_or(NOWHERE, |held| held.low)
    }

    /// Its event, once it is accepted.
    pub(super) fn rejection(&self) -> Rejection {
        let reason = match self.why {
            GapReason::Overtaken => Reason::Overtaken,
            GapReason::Replaced => Reason::Replaced,
        };
        Rejection { gap_to: Some(self.to()), ..Rejection::new(reason, self.to_string()) }
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Gap { partition, next, held, why } = self;
        let Some(OffsetRange { low, high }) = held else {
            return write!(f, "partition {partition}: the stored offset is {next}, the topic has no such partition");
        };
        write!(f, "partition {partition}: the stored offset is {next}, the broker has {low}..{high}: ")?;
        match why {
            GapReason::Overtaken => write!(f, "retention deleted {} records before they were read", low - next),
            GapReason::Replaced if next > high => f.write_str("the topic was made anew or its end was lost"),
            GapReason::Replaced => f.write_str("the topic was made anew: the record before it is another one"),
        }
    }
}

/// Checks that `next` can be read: a record is there, or it is the one that comes next.
pub(super) fn check(partition: i32, next: i64, held: OffsetRange) -> Result<i64, Gap> {
    if (held.low..=held.high).contains(&next) {
        return Ok(next);
    }
    let why = if next < held.low { GapReason::Overtaken } else { GapReason::Replaced };
    Err(Gap { partition, next, held: Some(held), why })
}

/// What the store knows of one topic.
#[derive(Clone, Debug)]
pub(super) struct StoredPositions(pub BTreeMap<i32, Progress>);

impl StoredPositions {
    /// What it knows of `topic`.
    pub(super) fn of(progress: &ProgressMap, topic: &str) -> Self {
        let ours = progress.iter().filter(|((source, _), at)| source == topic && at.next_offset != NOWHERE);
        StoredPositions(ours.map(|((_, partition), progress)| (*partition, *progress)).collect())
    }

    /// The partitions that it knows and the topic does not have.
    pub(super) fn beyond(&self, partitions: &[i32]) -> Vec<Gap> {
        let gone = self.0.iter().filter(|(partition, _)| !partitions.contains(partition));
        gone.map(|(partition, progress)| Gap {
            partition: *partition,
            next: progress.next_offset,
            held: None,
            why: GapReason::Replaced,
        })
        .collect()
    }

    /// Where to begin a partition. One unknown in a topic that is known was added later and is read whole: to begin it
    /// at its end would lose what came in the meantime.
    pub(super) fn begin(&self, partition: i32, start: Start, held: OffsetRange) -> Result<i64, Gap> {
        match (self.0.get(&partition), start) {
            (Some(progress), _) => check(partition, progress.next_offset, held),
            (None, Start::Latest) if self.0.is_empty() => Ok(held.high),
            (None, _) => Ok(held.low),
        }
    }
}

/// Where a topic is to be read from, as a person says it: a time such as `2026-11-21T08:00:00Z`, or `0=1234,1=5678`, an
/// offset for each partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicPosition {
    /// With the first record of this time or later.
    Time(FetchTime),
    /// Partition → offset.
    Offsets(BTreeMap<i32, i64>),
}

/// What is no position in a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("give a time such as 2026-11-21T08:00:00Z, or PARTITION=OFFSET with commas between")]
pub struct NoPosition;

impl FromStr for TopicPosition {
    type Err = NoPosition;

    fn from_str(text: &str) -> Result<Self, NoPosition> {
        if let Ok(time) = text.parse() {
            return Ok(TopicPosition::Time(time));
        }
        let one = |one: &str| -> Option<(i32, i64)> {
            let (partition, offset) = one.split_once('=')?;
            let (partition, offset) = (partition.trim().parse().ok()?, offset.trim().parse().ok()?);
            (partition >= 0 && offset >= 0).then_some((partition, offset))
        };
        let offsets: Option<BTreeMap<i32, i64>> = text.split(',').map(one).collect();
        offsets.map(TopicPosition::Offsets).ok_or(NoPosition)
    }
}

/// A time as brokers know it, rounded up: no record of an earlier one is of this time or later. Negative numbers mean
/// something else to them.
pub(super) fn milliseconds(time: FetchTime) -> i64 {
    (time.0.max(0) + 999) / 1000
}

/// Where a partition begins that is to be read from a time on, given its first record of that time or later. An error is
/// the oldest offset held, where records were deleted of which none shows that they were older.
pub(super) fn since(found: Option<i64>, held: OffsetRange) -> Result<i64, i64> {
    let next = found.unwrap_or(held.high).max(held.low);
    if next == held.low && held.low > 0 { Err(next) } else { Ok(next) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELD: OffsetRange = OffsetRange { low: 10, high: 20 };

    fn stored(known: &[(i32, i64)]) -> StoredPositions {
        let progress = known
            .iter()
            .map(|(partition, next_offset)| {
                (("t".to_string(), *partition), Progress { next_offset: *next_offset, chain: 0 })
            })
            .chain([(("other".to_string(), 7), Progress { next_offset: 99, chain: 0 })])
            .collect();
        StoredPositions::of(&progress, "t")
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
            (&[(0, 9)], Start::Earliest, Err((9, GapReason::Overtaken))),
            (&[(0, 21)], Start::Earliest, Err((21, GapReason::Replaced))),
            (&[(0, NOWHERE)], Start::Earliest, Ok(10)),
        ] {
            let expected = expected.map_err(|(next, why)| Gap { partition: 0, next, held: Some(HELD), why });
            assert_eq!(stored(known).begin(0, start, HELD), expected, "{known:?}, {start:?}");
        }
    }

    #[test]
    fn beginnings_at_a_time() {
        let whole = OffsetRange { low: 0, ..HELD };
        for (found, held, expected) in [
            (Some(15), HELD, Ok(15)),
            (None, HELD, Ok(20)),
            // What was deleted may have been of that time as well.
            (Some(10), HELD, Err(10)),
            (None, OffsetRange { low: 20, high: 20 }, Err(20)),
            (Some(0), whole, Ok(0)),
            (None, OffsetRange { low: 0, high: 0 }, Ok(0)),
        ] {
            assert_eq!(since(found, held), expected, "{found:?}, {held:?}");
        }
        assert_eq!([-5, 0, 1, 1000, 1001].map(|time| milliseconds(FetchTime(time))), [0, 0, 1, 1, 2]);
    }

    #[test]
    fn positions() {
        let time = "2026-11-21T08:00:00Z";
        assert_eq!(time.parse(), Ok(TopicPosition::Time(time.parse().expect("a time"))));
        assert_eq!("0=12, 3=4".parse(), Ok(TopicPosition::Offsets([(0, 12), (3, 4)].into())));
        for wrong in ["", "soon", "0", "0=", "0=-1", "-1=0", "0=1,"] {
            assert_eq!(wrong.parse::<TopicPosition>(), Err(NoPosition), "{wrong}");
        }
    }

    #[test]
    fn partitions_that_are_gone() {
        let gone = stored(&[(0, 1), (2, 1)]).beyond(&[0, 1]);
        assert_eq!(gone, [Gap { partition: 2, next: 1, held: None, why: GapReason::Replaced }]);
        assert_eq!((gone[0].to(), gone[0].stop_reason()), (NOWHERE, StopReason::Replaced));
        assert_eq!(stored(&[(0, 1), (2, NOWHERE)]).beyond(&[0, 1]), []);
    }

    #[test]
    fn what_is_out_of_range_is_said() {
        let text = |next| check(3, next, HELD).expect_err("out of range").to_string();
        assert!(text(4).contains("partition 3: the stored offset is 4, the broker has 10..20"), "{}", text(4));
        assert!(text(4).contains("deleted 6 records"), "{}", text(4));
        assert!(text(44).contains("made anew"), "{}", text(44));
        let accepted = check(3, 4, HELD).expect_err("out of range").rejection();
        assert_eq!((accepted.reason, accepted.gap_to), (Reason::Overtaken, Some(10)));
    }
}
