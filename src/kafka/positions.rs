//! Where the source stands in each partition.

use super::offsets::OffsetRange;
use crate::ports::Progress;
use std::collections::BTreeMap;

/// The partitions that are read, by number.
pub(super) type Positions = BTreeMap<i32, PartitionState>;

/// The state of a partition.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartitionState {
    /// The offset of the next record.
    pub(super) next: i64,
    /// The fingerprint of the last record; 0 if unknown.
    pub(super) chain: u64,
    /// The last known high watermark.
    pub(super) high: i64,
    /// librdkafka's own position. It counts transaction markers, which are never delivered.
    pub(super) passed: i64,
    /// The offset last committed for lag tools.
    pub(super) committed: i64,
}

impl PartitionState {
    /// A partition that is read from `next` on.
    pub(super) fn new(next: i64, held: OffsetRange) -> Self {
        PartitionState { next, chain: 0, high: held.high, passed: next, committed: -1 }
    }

    /// Whether the partition holds more records, by its last known high watermark.
    pub(super) fn holds_more(&self) -> bool {
        self.next.max(self.passed) < self.high
    }

    /// The offsets between the last record delivered and the high watermark.
    pub(super) fn lag(&self) -> u64 {
        u64::try_from(self.high - self.next.max(self.passed)).unwrap_or(0)
    }

    /// The progress to store.
    pub(super) fn progress(&self) -> Progress {
        Progress { next_offset: self.next, chain: self.chain }
    }
}
