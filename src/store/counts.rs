//! What a store adds up to, kept with every batch; and the count of all its rows, where that is missing.
//!
//! `meta/counts` holds the number of the next event as it was then. Where another number stands in `meta/next-seq`, a program
//! has written since that keeps no counts, and they are counted again.

use super::db::{get_meta, synced};
use super::open::RocksStore;
use super::rocks_error::{damaged, failed};
use super::schema::{self, cf, meta};
use crate::cluster::EqualCluster;
use crate::document::DocumentId;
use crate::history::HistoryCounts;
use crate::ports::{Batch, Snapshot, StoreCounts, StoreError};
use rocksdb::WriteBatch;
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;

/// Documents in a row of `meta/equal/…` that holds all of them.
const EQUAL_IN_ROW: usize = 100_000;

/// Rows of `meta/equal/…` from which they are written anew: one comes with every batch.
const EQUAL_ROWS_MAX: usize = 10_000;

/// All counts of a store, and the documents that stand alone at several URLs.
type Counted = (StoreCounts, Vec<EqualCluster>);

impl RocksStore {
    /// Adds the counts after a batch to its rows.
    pub(super) fn put_counts(&self, batch: &Batch, rows: &mut WriteBatch) -> Result<(), StoreError> {
        let Some(counts) = &batch.counts else { return Ok(()) };
        let metas = self.cf(cf::META)?;
        rows.put_cf(metas, meta::COUNTS, schema::counts_row(counts, batch.next_seq));
        if !batch.equal_clusters.is_empty() {
            let row = schema::equal_clusters_row(&batch.equal_clusters);
            rows.put_cf(metas, schema::equal_clusters_key(batch.next_seq, 0), row);
        }
        Ok(())
    }

    /// The counts that the store keeps; none where an older program wrote to it last.
    pub(super) fn counts_if_kept(&self) -> Result<Option<StoreCounts>, StoreError> {
        let Some(row) = get_meta(&self.db, meta::COUNTS)? else {
            // Nothing was written yet.
            let is_empty = self.n_documents() == 0 && self.next_seq() == 0;
            return Ok(is_empty.then(StoreCounts::default));
        };
        let (counts, seq) = schema::read_counts(&row).ok_or_else(|| damaged("meta/counts"))?;
        Ok((seq == self.next_seq()).then_some(counts))
    }

    /// The counts and the documents that stand alone at several URLs. Counts a store that keeps none, and keeps them from
    /// then on.
    pub(super) fn counts_to_go_on(&self) -> Result<Counted, StoreError> {
        let Some(counts) = self.counts_if_kept()? else {
            tracing::info!(
                "the store lacks the counts of `stats`, as an older program leaves it: all its sightings are counted once"
            );
            return self.count_again();
        };
        let (clusters, n_rows) = self.equal_clusters()?;
        if n_rows > EQUAL_ROWS_MAX {
            self.replace_counts(&counts, &clusters)?;
        }
        Ok((counts, clusters))
    }

    /// Counts all rows, and keeps the counts.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn count_again(&self) -> Result<Counted, StoreError> {
        let counted = self.count()?;
        self.replace_counts(&counted.0, &counted.1)?;
        Ok(counted)
    }

    /// Takes the counts away, in the batch that makes them wrong.
    pub(super) fn delete_counts(&self, rows: &mut WriteBatch) -> Result<(), StoreError> {
        rows.delete_cf(self.cf(cf::META)?, meta::COUNTS);
        Ok(())
    }

    /// Keeps these counts instead of those before.
    pub(super) fn replace_counts(&self, counts: &StoreCounts, clusters: &[EqualCluster]) -> Result<(), StoreError> {
        let (mut rows, metas, seq) = (WriteBatch::default(), self.cf(cf::META)?, self.next_seq());
        self.scan(cf::META, meta::EQUAL, &mut |key, _| {
            rows.delete_cf(metas, key);
            Ok(true)
        })?;
        for (part, clusters) in clusters.chunks(EQUAL_IN_ROW).enumerate() {
            let key = schema::equal_clusters_key(seq, part as u32);
            rows.put_cf(metas, key, schema::equal_clusters_row(clusters));
        }
        rows.put_cf(metas, meta::COUNTS, schema::counts_row(counts, seq));
        self.db.write_opt(rows, &synced()).map_err(failed)
    }

    /// The documents that stand alone at several URLs, as they are kept, and in how many rows. Later rows count.
    pub(super) fn equal_clusters(&self) -> Result<(Vec<EqualCluster>, usize), StoreError> {
        let (mut clusters, mut n_rows) = (BTreeMap::new(), 0);
        self.scan(cf::META, meta::EQUAL, &mut |_, row| {
            n_rows += 1;
            for EqualCluster { document, n_urls } in
                schema::read_equal_clusters(row).ok_or_else(|| damaged("a row of meta/equal"))?
            {
                match n_urls {
                    0 => clusters.remove(&document),
                    n_urls => clusters.insert(document, n_urls),
                };
            }
            Ok(true)
        })?;
        let clusters = clusters.into_iter().map(|(document, n_urls)| EqualCluster { document, n_urls });
        Ok((clusters.collect(), n_rows))
    }

    /// Counts all rows: in one scan over the sightings, with 16 bytes of memory for each document.
    pub(super) fn count(&self) -> Result<Counted, StoreError> {
        let (history, n_urls_of) = self.count_sightings()?;
        let mut clusters = self.clusters()?;
        let several = n_urls_of.iter().zip(0..).skip(1).filter(|(n_urls, _)| **n_urls > 1);
        let alone = several.filter(|(_, id)| clusters.size_of(DocumentId(*id)) == 1);
        let equal: Vec<EqualCluster> =
            alone.map(|(n_urls, id)| EqualCluster { document: DocumentId(id), n_urls: *n_urls }).collect();
        clusters.restore_equal(equal.iter().copied());
        Ok((StoreCounts { history, clusters: clusters.counts() }, equal))
    }

    /// Counts sightings, and at how many URLs each document was seen: by its number.
    fn count_sightings(&self) -> Result<(HistoryCounts, Vec<u32>), StoreError> {
        let mut counts = HistoryCounts::default();
        let mut n_urls_of = vec![0; self.n_documents() as usize + 1];
        let (mut url, mut documents_of_url) = (None, FxHashSet::default());
        let mut out_of_range = None;
        self.each_stored_sighting(&mut |sighting| {
            if url != Some(sighting.url) {
                counts.n_urls += 1;
                url = Some(sighting.url);
                documents_of_url = FxHashSet::default();
            }
            let Some(document) = sighting.moment.seen.document() else {
                counts.n_gone += 1;
                return;
            };
            counts.n_sightings += 1;
            if documents_of_url.insert(document) {
                match n_urls_of.get_mut(document.0 as usize) {
                    Some(n_urls) => *n_urls += 1,
                    None => out_of_range = Some(document),
                }
            }
        })?;
        match out_of_range {
            Some(document) => Err(damaged(format!("a sighting of document {document}, which is missing"))),
            None => Ok((counts, n_urls_of)),
        }
    }
}
