//! Reports how large the store has become: documents, clusters, bytes, and an alarm where one cluster grows too far.

use super::size_alarm::SizeAlarm;
use super::stats::Stats;
use crate::cluster::{ClusterRow, Clusters};
use crate::document::ClusterId;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the store's size on disk is measured: measuring looks at every file.
const DISK_INTERVAL: Duration = Duration::from_secs(5);

/// Keeps the metrics of the store's size.
pub(super) struct StoreGauge {
    alarm: SizeAlarm,
    stats: Arc<Stats>,
    /// When the size on disk was last measured.
    measured: Option<Instant>,
}

impl StoreGauge {
    /// A gauge over clusters as they are; `cluster_size_alarm` is [`super::Settings::cluster_size_alarm`].
    pub fn new(cluster_size_alarm: u32, clusters: &Clusters, stats: Arc<Stats>) -> Self {
        StoreGauge { alarm: SizeAlarm::new(cluster_size_alarm, clusters.sizes()), stats, measured: None }
    }

    /// Reports the sizes after a batch that changed some cluster rows.
    pub fn measure(&mut self, clusters: &Clusters, rows: &[ClusterRow], n_bytes: impl FnOnce() -> u64) {
        self.stats.clusters(clusters.n_documents(), clusters.n_clusters());
        for row in rows.iter().filter(|row| row.parent == row.document) {
            if let Some(alarm) = self.alarm.grown(ClusterId(row.name.0), row.size) {
                self.stats.alarm(&alarm);
            }
        }
        self.stats.largest_cluster(self.alarm.largest());
        if self.measured.is_none_or(|measured| measured.elapsed() >= DISK_INTERVAL) {
            self.stats.store_bytes(n_bytes());
            self.measured = Some(Instant::now());
        }
    }
}
