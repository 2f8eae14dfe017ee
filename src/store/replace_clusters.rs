//! Replaces all clusters at once, after reclustering.

use super::db::synced;
use super::disk_full::retry_while_full;
use super::open::RocksStore;
use super::rocks_error::{damaged, failed};
use super::schema::{self, Fields, cf, meta};
use crate::cluster::{Clusters, Link};
use crate::ports::{Outgoing, StoreError};
use rocksdb::WriteBatch;
use std::sync::atomic::Ordering;

/// Sorts after every key of the families `clusters` and `links`.
const END: [u8; 9] = [0xff; 9];

impl RocksStore {
    /// Replaces all clusters and the links that span them, and adds the events of the difference to the outbox. One
    /// batch holds everything, so a crash leaves either the old clusters or the new ones. `linked_from` is the
    /// smallest resemblance that the new links may have.
    ///
    /// # Errors
    /// [`StoreError`]; the store is then unchanged.
    pub fn replace_clusters(
        &mut self,
        clusters: &Clusters,
        links: &[Link],
        linked_from: f64,
        events: &[Outgoing],
    ) -> Result<(), StoreError> {
        let next_seq = events.last().map_or(self.next_seq(), |last| last.seq + 1);
        let rows = || -> Result<WriteBatch, StoreError> {
            let mut rows = WriteBatch::default();
            for family in [cf::CLUSTERS, cf::LINKS] {
                rows.delete_range_cf(self.cf(family)?, [].as_slice(), END.as_slice());
            }
            self.put_cluster_rows(&mut clusters.rows(), links, &mut rows)?;
            let (outbox, metas) = (self.cf(cf::OUTBOX)?, self.cf(cf::META)?);
            for event in events {
                rows.put_cf(outbox, event.seq.to_be_bytes(), schema::outbox_row(event));
            }
            rows.put_cf(metas, meta::NEXT_SEQ, next_seq.to_be_bytes());
            rows.put_cf(metas, meta::LINKED_FROM, linked_from.to_be_bytes());
            self.delete_counts(&mut rows)?;
            Ok(rows)
        };
        retry_while_full(|| self.should_stop(), || self.db.write_opt(rows()?, &synced()).map_err(failed))?;
        self.next_seq.store(next_seq, Ordering::Release);
        self.count_again()?;
        self.check_folder()
    }

    /// The smallest resemblance that a link may have, if reclustering has replaced the clusters of the stream.
    pub(super) fn linked_from(&self) -> Result<Option<f64>, StoreError> {
        let Some(row) = self.db.get_cf(self.cf(cf::META)?, meta::LINKED_FROM).map_err(failed)? else { return Ok(None) };
        let bytes = Fields(&row).bytes().filter(|_| row.len() == 8);
        Ok(Some(bytes.map(f64::from_be_bytes).ok_or_else(|| damaged("meta/linked-from"))?))
    }
}
