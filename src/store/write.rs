//! Writing the store: one batch for everything that a micro-batch changes, and the log synced behind it.

use super::disk_full::when_there_is_room;
use super::folder::StoreFolder;
use super::open::{RocksStore, failed};
use super::schema::{self, PostingKind, cf, meta};
use crate::cluster::{self, ClusterRow, Link, SketchView};
use crate::document::{DocumentId, Fingerprint};
use crate::history;
use crate::ports::{Batch, MissingUrl, Outgoing, OutputNotes, Snapshot, Store, StoreError, StoredSighting, Syncer};
use crate::sketch::{Shingle, Sketch};
use crate::sweep::{Observation, SweepRow, UrlState};
use rocksdb::{DB, WriteBatch, WriteOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// For what must survive a power loss as soon as it is written.
pub(super) fn synced() -> WriteOptions {
    let mut options = WriteOptions::default();
    options.set_sync(true);
    options
}

impl SketchView for RocksStore {
    type Error = StoreError;

    fn sketches(&self, documents: &[DocumentId]) -> Result<Vec<Arc<Sketch>>, StoreError> {
        Ok(self.stored_documents(documents)?.into_iter().map(|document| document.sketch).collect())
    }
}

impl cluster::View for RocksStore {
    fn postings(&self, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, StoreError> {
        self.lists(PostingKind::Index, shingles)
    }

    fn supers(&self, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, StoreError> {
        self.lists(PostingKind::Super, shingles)
    }
}

impl history::View for RocksStore {
    fn states(&self, urls: &[Fingerprint]) -> Result<Vec<Option<UrlState>>, StoreError> {
        self.states_of(urls)
    }

    fn observations(&self, url: Fingerprint) -> Result<Vec<Observation>, StoreError> {
        self.history_of(url)
    }

    fn sweeps(&self, names: &[&str]) -> Result<Vec<Option<SweepRow>>, StoreError> {
        self.sweeps_of(names)
    }

    fn urls(&self, keys: &[Fingerprint]) -> Result<Vec<String>, StoreError> {
        self.urls_of(keys)
    }

    fn newest_sightings(&self, documents: &[DocumentId], limit_each: usize) -> Result<Vec<StoredSighting>, StoreError> {
        self.newest_sightings_of(documents, limit_each)
    }

    fn missing_urls(&self) -> Result<Vec<MissingUrl>, StoreError> {
        self.all_missing_urls()
    }

    fn each_state(&self, each: &mut dyn FnMut(Fingerprint, UrlState)) -> Result<(), StoreError> {
        self.scan_states(each)
    }
}

impl Store for RocksStore {
    fn equal(&self, keys: &[Fingerprint]) -> Result<Vec<Option<DocumentId>>, StoreError> {
        self.equal_documents(keys)
    }

    fn first_urls(&self, documents: &[DocumentId]) -> Result<Vec<String>, StoreError> {
        self.first_urls_of(documents)
    }

    fn outbox(&self, from: u64, most: usize) -> Result<Vec<Outgoing>, StoreError> {
        self.outbox_from(from, most)
    }

    fn n_bytes(&self) -> u64 {
        self.n_bytes_on_disk()
    }

    fn write(&mut self, batch: &Batch) -> Result<(), StoreError> {
        kill_point!("before-write");
        when_there_is_room(|| self.gives_up(), || self.db.write(self.rows_of(batch)?).map_err(failed))?;
        kill_point!("after-write");
        self.n_documents += batch.documents.len() as u32;
        self.next_seq = batch.next_seq;
        self.published = batch.published;
        self.index(batch)
    }

    fn syncer(&self) -> Box<dyn Syncer> {
        Box::new(LogSyncer { db: Arc::clone(&self.db), stop: Arc::clone(&self.stop), home: self.home.clone() })
    }

    fn commit(&mut self, batch: &Batch) -> Result<(), StoreError> {
        self.write(batch)?;
        self.syncer().sync()
    }
}

/// Syncs the log, whoever writes to it meanwhile.
struct LogSyncer {
    db: Arc<DB>,
    /// Set from outside to end the wait for room.
    stop: Arc<AtomicBool>,
    home: Option<StoreFolder>,
}

impl Syncer for LogSyncer {
    fn sync(&self) -> Result<(), StoreError> {
        when_there_is_room(|| self.stop.load(Ordering::Relaxed), || sync_log(&self.db))?;
        self.home.as_ref().map_or(Ok(()), StoreFolder::is_there)
    }
}

/// What was written before survives a power loss once this returns. A synced write of nothing, and not a sync of the
/// file: it is part of the order of writes, so that after an append that failed for want of room it waits for the log
/// that RocksDB then begins, where a sync of the old one would fail for ever.
pub(super) fn sync_log(db: &DB) -> Result<(), StoreError> {
    kill_point!("before-sync");
    let mut nothing = WriteBatch::default();
    nothing.put_log_data([]);
    db.write_opt(nothing, &synced()).map_err(failed)?;
    kill_point!("after-sync");
    Ok(())
}

/// Rows ordered by their keys' fingerprint.
fn in_order<T>(rows: &[T], fingerprint: impl Fn(&T) -> Fingerprint) -> Vec<&T> {
    let mut rows: Vec<&T> = rows.iter().collect();
    rows.sort_by_key(|row| fingerprint(row));
    rows
}

impl RocksStore {
    /// Whether a wait for room is to end.
    pub(super) fn gives_up(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// What was written is where the next process will look for it.
    pub(super) fn is_there(&self) -> Result<(), StoreError> {
        self.home.as_ref().map_or(Ok(()), StoreFolder::is_there)
    }

    /// Remembers what is known of topics that it publishes to. When it returns, that is durable.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn note_outputs(&self, notes: &OutputNotes) -> Result<(), StoreError> {
        when_there_is_room(
            || self.gives_up(),
            || {
                let mut rows = WriteBatch::default();
                for (topic, note) in notes {
                    rows.put_cf(
                        self.cf(cf::META)?,
                        [meta::OUTPUT, topic.as_bytes()].concat(),
                        schema::output_row(*note),
                    );
                }
                self.db.write_opt(rows, &synced()).map_err(failed)
            },
        )
    }

    /// Takes a batch's postings into memory, and begins a run of them where their part of it is full. Where the run
    /// before is not done by then, this waits for it.
    fn index(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let delta = self.delta_mut()?;
        for (document, _) in &batch.documents {
            delta.add_document(document);
        }
        let is_full = delta.is_full();
        kill_point!("in-memory");
        let Some(mut runs) = self.runs.take() else { return Ok(()) };
        if (is_full || !runs.is_busy()) && runs.finish()? {
            self.delta_mut()?.thaw();
        }
        if is_full {
            runs.begin(self.delta_mut()?.freeze(), Arc::clone(&self.stop));
            kill_point!("frozen");
        }
        self.runs = Some(runs);
        Ok(())
    }

    fn rows_of(&self, batch: &Batch) -> Result<WriteBatch, StoreError> {
        let mut rows = WriteBatch::default();
        self.put_documents(batch, &mut rows)?;
        self.put_clusters(batch, &mut rows)?;
        let (common, width) = (self.cf(cf::COMMON)?, PostingKind::Index.width(self.rule.sketch.bits));
        for shingle in &batch.common {
            rows.put_cf(common, schema::shingle_key(*shingle, width), []);
        }
        self.put_sightings(batch, &mut rows)?;
        self.put_states(batch, &mut rows)?;
        self.put_progress(batch, &mut rows)?;
        Ok(rows)
    }

    fn put_documents(&self, batch: &Batch, rows: &mut WriteBatch) -> Result<(), StoreError> {
        let (docs, equal) = (self.cf(cf::DOCS)?, self.cf(cf::EQUAL)?);
        let (mut pending, mut equals) = (Vec::new(), Vec::new());
        for (document, first_url) in &batch.documents {
            let key = document.document.0.to_be_bytes();
            rows.put_cf(docs, key, schema::document_row(document, *first_url));
            equals.extend(document.equivalences.keys().map(|fingerprint| (fingerprint, key)));
            schema::put_pending(&mut pending, document, self.rule.sketch.bits);
        }
        // In order, keys come to lie beside those just put: the way to a place in a memtable is then in the caches.
        for (fingerprint, key) in in_order(&equals, |(fingerprint, _)| *fingerprint) {
            rows.put_cf(equal, schema::fingerprint_key(*fingerprint), key);
        }
        if let Some((first, _)) = batch.documents.first() {
            rows.put_cf(self.cf(cf::PENDING)?, first.document.0.to_be_bytes(), pending);
        }
        Ok(())
    }

    fn put_clusters(&self, batch: &Batch, rows: &mut WriteBatch) -> Result<(), StoreError> {
        self.put_cluster_rows(&mut batch.rows.iter().copied(), &batch.links, rows)
    }

    /// Puts rows of clusters and links.
    pub(super) fn put_cluster_rows(
        &self,
        changed: &mut dyn Iterator<Item = ClusterRow>,
        new_links: &[Link],
        rows: &mut WriteBatch,
    ) -> Result<(), StoreError> {
        let (clusters, links) = (self.cf(cf::CLUSTERS)?, self.cf(cf::LINKS)?);
        for row in changed {
            rows.put_cf(clusters, row.document.0.to_be_bytes(), schema::cluster_row(&row));
        }
        for link in new_links {
            let key = [link.document.0.to_be_bytes(), link.to.0.to_be_bytes()].concat();
            rows.put_cf(links, key, link.resemblance.to_be_bytes());
        }
        Ok(())
    }

    fn put_sightings(&self, batch: &Batch, rows: &mut WriteBatch) -> Result<(), StoreError> {
        let (urls, sightings, standings) = (self.cf(cf::URLS)?, self.cf(cf::SIGHTINGS)?, self.cf(cf::STANDINGS)?);
        for (fingerprint, url) in in_order(&batch.urls, |(fingerprint, _)| *fingerprint) {
            rows.put_cf(urls, schema::fingerprint_key(*fingerprint), url);
        }
        for sighting in in_order(&batch.sightings, |sighting| sighting.url) {
            rows.put_cf(sightings, schema::sighting_key(sighting), []);
        }
        for sighting in &batch.sightings {
            if let Some(document) = sighting.moment.seen.document() {
                rows.put_cf(standings, schema::standing_key(document, sighting), []);
            }
        }
        Ok(())
    }

    fn put_states(&self, batch: &Batch, rows: &mut WriteBatch) -> Result<(), StoreError> {
        let (states, sought, sweeps) = (self.cf(cf::STATES)?, self.cf(cf::SOUGHT)?, self.cf(cf::SWEEPS)?);
        for (url, state) in &batch.states {
            rows.put_cf(states, schema::fingerprint_key(*url), schema::state_row(state));
        }
        for no_more in &batch.no_longer_missing {
            rows.delete_cf(sought, schema::sought_key(no_more));
        }
        for now in &batch.missing {
            rows.put_cf(sought, schema::sought_key(now), []);
        }
        for (name, row) in &batch.sweeps {
            rows.put_cf(sweeps, name, schema::sweep_row(row));
        }
        Ok(())
    }

    fn put_progress(&self, batch: &Batch, rows: &mut WriteBatch) -> Result<(), StoreError> {
        let (offsets, outbox, metas) = (self.cf(cf::OFFSETS)?, self.cf(cf::OUTBOX)?, self.cf(cf::META)?);
        for ((source, partition), progress) in &batch.progress {
            rows.put_cf(offsets, schema::progress_key(source, *partition), schema::progress_row(*progress));
        }
        for event in &batch.outbox {
            rows.put_cf(outbox, event.seq.to_be_bytes(), schema::outbox_row(event));
        }
        if batch.published > self.published {
            rows.delete_range_cf(outbox, self.published.to_be_bytes(), batch.published.to_be_bytes());
        }
        let n_documents = self.n_documents + batch.documents.len() as u32;
        rows.put_cf(metas, meta::DOCUMENTS, n_documents.to_be_bytes());
        rows.put_cf(metas, meta::NEXT_SEQ, batch.next_seq.to_be_bytes());
        rows.put_cf(metas, meta::PUBLISHED, batch.published.to_be_bytes());
        Ok(())
    }
}
