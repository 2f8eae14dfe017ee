//! The guard over the clusters: tells when one grows past a size that no family of pages should have.

use crate::document::ClusterId;
use rustc_hash::FxHashMap;

/// A cluster has grown past the configured size, or to twice what was told of it last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Alarm {
    /// Which.
    pub cluster: ClusterId,
    /// Its documents now.
    pub n_documents: u32,
}

/// Remembers the sizes that were told.
pub(super) struct SizeAlarm {
    /// Clusters of fewer documents are nobody's business; 0: none is.
    size_alarm: u32,
    /// The size that was told last of each cluster over it.
    told: FxHashMap<ClusterId, u32>,
    largest: u32,
}

impl SizeAlarm {
    /// Over clusters whose sizes are known already, from an earlier run.
    pub fn new(size_alarm: u32, sizes: impl Iterator<Item = (ClusterId, u32)>) -> Self {
        let mut guard = SizeAlarm { size_alarm, told: FxHashMap::default(), largest: 0 };
        for (cluster, n_documents) in sizes {
            guard.grown(cluster, n_documents);
        }
        guard
    }

    /// Takes note of a cluster's size.
    pub fn grown(&mut self, cluster: ClusterId, n_documents: u32) -> Option<Alarm> {
        self.largest = self.largest.max(n_documents);
        if self.size_alarm == 0 || n_documents < self.size_alarm {
            return None;
        }
        let told = self.told.get(&cluster).copied().unwrap_or(0);
        if n_documents < told.saturating_mul(2) {
            return None;
        }
        self.told.insert(cluster, n_documents);
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
        let mut guard = SizeAlarm::new(10, [(ClusterId(1), 25), (ClusterId(2), 9)].into_iter());
        assert_eq!(guard.largest(), 25);
        let mut told = |cluster, n| guard.grown(ClusterId(cluster), n).map(|alarm| alarm.n_documents);
        assert_eq!([26, 49, 50, 51, 99, 100].map(|n| told(1, n)), [None, None, Some(50), None, None, Some(100)]);
        assert_eq!([9, 10, 11, 30].map(|n| told(2, n)), [None, Some(10), None, Some(30)]);
        assert_eq!(SizeAlarm::new(0, std::iter::empty()).grown(ClusterId(1), u32::MAX), None);
    }
}
