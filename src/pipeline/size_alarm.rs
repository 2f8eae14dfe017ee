//! Raises an alarm when a cluster grows past a size that no family of pages should have.

use crate::document::ClusterId;
use rustc_hash::FxHashMap;

/// A cluster has grown past the configured size, or to twice its size at the last alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Alarm {
    /// The cluster.
    pub cluster: ClusterId,
    /// Its documents now.
    pub n_documents: u32,
}

/// Remembers the sizes at which alarms were raised.
pub(super) struct SizeAlarm {
    /// Smaller clusters raise no alarm; 0: none does.
    size_alarm: u32,
    /// The size of each large cluster at its last alarm.
    reported: FxHashMap<ClusterId, u32>,
    largest: u32,
}

impl SizeAlarm {
    /// An alarm over clusters whose sizes are known from an earlier run.
    pub fn new(size_alarm: u32, sizes: impl Iterator<Item = (ClusterId, u32)>) -> Self {
        let mut alarm = SizeAlarm { size_alarm, reported: FxHashMap::default(), largest: 0 };
        for (cluster, n_documents) in sizes {
            alarm.grown(cluster, n_documents);
        }
        alarm
    }

    /// Records the size of a cluster that grew; the alarm, if it raises one.
    pub fn grown(&mut self, cluster: ClusterId, n_documents: u32) -> Option<Alarm> {
        self.largest = self.largest.max(n_documents);
        if self.size_alarm == 0 || n_documents < self.size_alarm {
            return None;
        }
        let reported = self.reported.get(&cluster).copied().unwrap_or(0);
        if n_documents < reported.saturating_mul(2) {
            return None;
        }
        self.reported.insert(cluster, n_documents);
        Some(Alarm { cluster, n_documents })
    }

    /// Documents in the largest cluster.
    pub fn largest(&self) -> u32 {
        self.largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_told_when_it_passes_the_size_and_at_each_doubling() {
        let mut alarm = SizeAlarm::new(10, [(ClusterId(1), 25), (ClusterId(2), 9)].into_iter());
        assert_eq!(alarm.largest(), 25);
        let mut reported = |cluster, n| alarm.grown(ClusterId(cluster), n).map(|alarm| alarm.n_documents);
        assert_eq!([26, 49, 50, 51, 99, 100].map(|n| reported(1, n)), [None, None, Some(50), None, None, Some(100)]);
        assert_eq!([9, 10, 11, 30].map(|n| reported(2, n)), [None, Some(10), None, Some(30)]);
        assert_eq!(SizeAlarm::new(0, std::iter::empty()).grown(ClusterId(1), u32::MAX), None);
    }
}
