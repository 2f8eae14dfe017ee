//! Where reading of a partition starts, and whether the broker still has that offset.

use super::settings::Start;
use crate::document::FetchTime;
use crate::ports::{Progress, ProgressMap, StopReason};
use crate::wire::{Reason, Rejection};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// The records of a partition that a broker holds: `low..high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OffsetRange {
    /// The oldest record's offset.
    pub low: i64,
    /// The offset that the next record will get.
    pub high: i64,
}

/// The stored offset of a partition that no longer exists.
pub(super) const NOWHERE: i64 = -1;

/// Records that the store needs next and the broker no longer has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    /// The partition.
    pub partition: i32,
    /// The next offset to read.
    pub next: i64,
    /// What the broker holds instead; `None` if the topic has no such partition.
    pub held: Option<OffsetRange>,
    /// Why the records are missing.
    pub why: GapReason,
}

/// Why records are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GapReason {
    /// They were deleted, by retention or by hand.
    Overtaken,
    /// The topic was recreated, or lost its end.
    Replaced,
}

impl Gap {
    /// Why the program stops on this gap.
    pub(super) fn stop_reason(&self) -> StopReason {
        match self.why {
            GapReason::Overtaken => StopReason::Overtaken,
            GapReason::Replaced => StopReason::Replaced,
        }
    }

    /// Where reading resumes once the gap is accepted.
    pub(super) fn resume_offset(&self) -> i64 {
        self.held.map_or(NOWHERE, |held| held.low)
    }

    /// The event that reports the gap once it is accepted.
    pub(super) fn rejection(&self) -> Rejection {
        let reason = match self.why {
            GapReason::Overtaken => Reason::Overtaken,
            GapReason::Replaced => Reason::Replaced,
        };
        Rejection { gap_to: Some(self.resume_offset()), ..Rejection::new(reason, self.to_string()) }
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
            GapReason::Replaced if next > high => f.write_str("the topic was recreated or lost its end"),
            GapReason::Replaced => f.write_str("the topic was recreated: the record before that offset has changed"),
        }
    }
}

/// Checks that `next` is readable: the broker has that record, or will assign the offset next.
pub(super) fn check_held(partition: i32, next: i64, held: OffsetRange) -> Result<i64, Gap> {
    if (held.low..=held.high).contains(&next) {
        return Ok(next);
    }
    let why = if next < held.low { GapReason::Overtaken } else { GapReason::Replaced };
    Err(Gap { partition, next, held: Some(held), why })
}

/// The stored progress of one topic.
#[derive(Clone, Debug)]
pub(super) struct StoredPositions(pub BTreeMap<i32, Progress>);

impl StoredPositions {
    /// Selects the progress of `topic`.
    pub(super) fn from_progress(progress: &ProgressMap, topic: &str) -> Self {
        let ours = progress.iter().filter(|((source, _), at)| source == topic && at.next_offset != NOWHERE);
        StoredPositions(ours.map(|((_, partition), progress)| (*partition, *progress)).collect())
    }

    /// Lists a gap for each stored partition that the topic no longer has.
    pub(super) fn missing_partitions(&self, partitions: &[i32]) -> Vec<Gap> {
        let gone = self.0.iter().filter(|(partition, _)| !partitions.contains(partition));
        gone.map(|(partition, progress)| Gap {
            partition: *partition,
            next: progress.next_offset,
            held: None,
            why: GapReason::Replaced,
        })
        .collect()
    }

    /// Where reading of a partition starts. An unknown partition of a known topic was added later and is read from its
    /// oldest record: a start at its end would lose what arrived in the meantime.
    pub(super) fn start_offset(&self, partition: i32, start: Start, held: OffsetRange) -> Result<i64, Gap> {
        match (self.0.get(&partition), start) {
            (Some(progress), _) => check_held(partition, progress.next_offset, held),
            (None, Start::Latest) if self.0.is_empty() => Ok(held.high),
            (None, _) => Ok(held.low),
        }
    }
}

/// A position in a topic, as a user writes it: a time such as `2026-11-21T08:00:00Z`, or an offset for each partition
/// such as `0=1234,1=5678`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicPosition {
    /// The first record of this time or later.
    Time(FetchTime),
    /// Partition → offset.
    Offsets(BTreeMap<i32, i64>),
}

/// The error of a text that is no [`TopicPosition`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("give a time such as 2026-11-21T08:00:00Z, or PARTITION=OFFSET pairs separated by commas")]
pub struct ParsePositionError;

impl FromStr for TopicPosition {
    type Err = ParsePositionError;

    fn from_str(text: &str) -> Result<Self, ParsePositionError> {
        if let Ok(time) = text.parse() {
            return Ok(TopicPosition::Time(time));
        }
        let parse_pair = |pair: &str| -> Option<(i32, i64)> {
            let (partition, offset) = pair.split_once('=')?;
            let (partition, offset) = (partition.trim().parse().ok()?, offset.trim().parse().ok()?);
            (partition >= 0 && offset >= 0).then_some((partition, offset))
        };
        let offsets: Option<BTreeMap<i32, i64>> = text.split(',').map(parse_pair).collect();
        offsets.map(TopicPosition::Offsets).ok_or(ParsePositionError)
    }
}

/// Converts a time to the brokers' milliseconds. Rounds up, so that no earlier record qualifies; clamps at 0, because
/// brokers give negative numbers other meanings.
pub(super) fn milliseconds(time: FetchTime) -> i64 {
    (time.0.max(0) + 999) / 1000
}

/// Where a partition starts when it is read from a time on; `found` is its first record of that time or later.
///
/// # Errors
/// The oldest offset held, if records were deleted and none of those held is older than the time: some of the deleted
/// records may have been that young.
pub(super) fn start_at_time(found: Option<i64>, held: OffsetRange) -> Result<i64, i64> {
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
        StoredPositions::from_progress(&progress, "t")
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
            assert_eq!(stored(known).start_offset(0, start, HELD), expected, "{known:?}, {start:?}");
        }
    }

    #[test]
    fn beginnings_at_a_time() {
        let whole = OffsetRange { low: 0, ..HELD };
        for (found, held, expected) in [
            (Some(15), HELD, Ok(15)),
            (None, HELD, Ok(20)),
            // The deleted records may have been of that time, too.
            (Some(10), HELD, Err(10)),
            (None, OffsetRange { low: 20, high: 20 }, Err(20)),
            (Some(0), whole, Ok(0)),
            (None, OffsetRange { low: 0, high: 0 }, Ok(0)),
        ] {
            assert_eq!(start_at_time(found, held), expected, "{found:?}, {held:?}");
        }
        assert_eq!([-5, 0, 1, 1000, 1001].map(|time| milliseconds(FetchTime(time))), [0, 0, 1, 1, 2]);
    }

    #[test]
    fn positions() {
        let time = "2026-11-21T08:00:00Z";
        assert_eq!(time.parse(), Ok(TopicPosition::Time(time.parse().expect("a time"))));
        assert_eq!("0=12, 3=4".parse(), Ok(TopicPosition::Offsets([(0, 12), (3, 4)].into())));
        for wrong in ["", "soon", "0", "0=", "0=-1", "-1=0", "0=1,"] {
            assert_eq!(wrong.parse::<TopicPosition>(), Err(ParsePositionError), "{wrong}");
        }
    }

    #[test]
    fn partitions_that_are_gone() {
        let gone = stored(&[(0, 1), (2, 1)]).missing_partitions(&[0, 1]);
        assert_eq!(gone, [Gap { partition: 2, next: 1, held: None, why: GapReason::Replaced }]);
        assert_eq!((gone[0].resume_offset(), gone[0].stop_reason()), (NOWHERE, StopReason::Replaced));
        assert_eq!(stored(&[(0, 1), (2, NOWHERE)]).missing_partitions(&[0, 1]), []);
    }

    #[test]
    fn a_gap_names_the_offset_and_what_the_broker_has() {
        let text = |next| check_held(3, next, HELD).expect_err("out of range").to_string();
        assert!(text(4).contains("partition 3: the stored offset is 4, the broker has 10..20"), "{}", text(4));
        assert!(text(4).contains("deleted 6 records"), "{}", text(4));
        assert!(text(44).contains("recreated"), "{}", text(44));
        let accepted = check_held(3, 4, HELD).expect_err("out of range").rejection();
        assert_eq!((accepted.reason, accepted.gap_to), (Reason::Overtaken, Some(10)));
    }
}
