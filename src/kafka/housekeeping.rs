//! What the source remembers between two rounds of housekeeping.

use super::client::Throttle;
use crate::ports::Reading;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The interval of housekeeping: commits, statistics, new partitions, a lost topic.
const HOUSEKEEPING_INTERVAL: Duration = Duration::from_secs(1);

/// The shortest interval between warnings about transient trouble.
const WARNING_INTERVAL: Duration = Duration::from_secs(5);

/// How often to retry the assignment of new partitions.
const ASSIGNMENT_INTERVAL: Duration = Duration::from_secs(10);

/// The time limit of one check whether an unknown topic is back.
pub(super) const TOPIC_CHECK_MAX: Duration = Duration::from_millis(500);

/// How long brokers may not know the topic before it counts as lost. After a restart of a broker, ignorance is
/// normal.
pub(super) const TOPIC_LOST_AFTER: Duration = Duration::from_secs(10);

/// The chores of a source: when they are due, and what waits for them.
pub(super) struct Housekeeping {
    pub(super) interval: Throttle,
    pub(super) warnings: Throttle,
    pub(super) assignment_retries: Throttle,
    /// Partitions of the topic that are not assigned yet.
    pub(super) new_partitions: Vec<i32>,
    /// Offsets to commit for lag tools, by partition.
    pub(super) to_commit: BTreeMap<i32, i64>,
    pub(super) readings: Vec<Reading>,
    /// When the last record was sent, in milliseconds since 1970.
    pub(super) last_sent_ms: Option<i64>,
    pub(super) unreachable_since: Option<Instant>,
    /// Since when the brokers have not known the topic. Until it is back, nothing is assigned: it may come back as
    /// another topic.
    pub(super) topic_unknown_since: Option<Instant>,
}

impl Housekeeping {
    /// Nothing waits, and everything is due.
    pub(super) fn new() -> Self {
        Housekeeping {
            interval: Throttle::every(HOUSEKEEPING_INTERVAL),
            warnings: Throttle::every(WARNING_INTERVAL),
            assignment_retries: Throttle::every(ASSIGNMENT_INTERVAL),
            new_partitions: Vec::new(),
            to_commit: BTreeMap::new(),
            readings: Vec::new(),
            last_sent_ms: None,
            unreachable_since: None,
            topic_unknown_since: None,
        }
    }
}
