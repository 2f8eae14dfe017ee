//! Writes the store: one atomic RocksDB batch per micro-batch, and a separate sync of the log.

use super::db::{sync_log, synced};
use super::disk_full::retry_while_full;
use super::folder::StoreFolder;
use super::fragment::{BufferedFragment, fragments_of};
use super::key_filter::Adder;
use super::open::RocksStore;
use super::posting_buffer::BufferedPosting;
use super::rocks_error::failed;
use super::schema::{self, PostingKind, cf, meta, postings_of};
use crate::cluster::{self, ClusterRow, EqualCluster, IndexQuery, Link, PostingList, SketchView};
use crate::document::{DocumentId, Fingerprint};
use crate::history;
use crate::ports::{
    Batch, MissingUrl, Outgoing, OutputNotes, Snapshot, Store, StoreCounts, StoreError, StoredSighting, Syncer,
};
use crate::sketch::{Shingle, Sketch};
use crate::sweep::{Observation, SweepRow, UrlState};
use rocksdb::{DB, WriteBatch};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

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

    fn postings_for(&self, shingles: &[Shingle], pages: &[IndexQuery]) -> Result<Vec<PostingList>, StoreError> {
        self.lists_for(shingles, pages)
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
        self.read_newest_sightings(documents, limit_each)
    }

    fn missing_urls(&self) -> Result<Vec<MissingUrl>, StoreError> {
        self.all_missing_urls()
    }

    fn each_state(&self, each: &mut dyn FnMut(Fingerprint, UrlState)) -> Result<(), StoreError> {
        self.scan_states(each)
    }
}

impl Store for RocksStore {
    type Encoded = EncodedBatch;
    type Written = WrittenPostings;

    fn equal(&self, keys: &[Fingerprint]) -> Result<Vec<Option<DocumentId>>, StoreError> {
        self.equal_documents(keys)
    }

    fn first_url_keys(&self, documents: &[DocumentId]) -> Result<Vec<Fingerprint>, StoreError> {
        self.first_url_keys_of(documents)
    }

    fn outbox(&self, from: u64, limit: usize) -> Result<Vec<Outgoing>, StoreError> {
        self.outbox_from(from, limit)
    }

    fn n_bytes(&self) -> u64 {
        self.n_bytes_on_disk()
    }

    fn counts(&self) -> Result<(StoreCounts, Vec<EqualCluster>), StoreError> {
        self.counts_to_go_on()
    }

    fn encode(&self, batch: &Batch, events: &[Outgoing]) -> Result<EncodedBatch, StoreError> {
        Ok(EncodedBatch {
            rows: self.rows_of(batch, events)?,
            next_seq: batch.next_seq,
            last_document: batch.documents.last().map(|(document, _)| document.document),
            postings: buffered_postings(batch),
            equal: equal_fingerprints(batch),
            fragments: fragments_of(&self.seed, batch.said.iter().map(|(document, said)| (*document, &**said))),
        })
    }

    fn write(&self, batch: EncodedBatch, published: u64) -> Result<WrittenPostings, StoreError> {
        kill_point!("before-write");
        let EncodedBatch { mut rows, next_seq, last_document, postings, equal, fragments } = batch;
        let kept_from = self.put_published(published, next_seq, &mut rows)?;
        let write = || self.db.write(WriteBatch::from_data(rows.data())).map_err(failed);
        retry_while_full(|| self.should_stop(), write)?;
        kill_point!("after-write");
        if let Some(last) = last_document {
            self.n_documents.store(last.0, Ordering::Release);
        }
        self.next_seq.store(next_seq, Ordering::Release);
        self.published.store(published, Ordering::Release);
        self.keeping.written(kept_from);
        Ok(WrittenPostings { postings, equal, fragments, last_document })
    }

    fn index(&self, written: WrittenPostings) -> Result<(), StoreError> {
        self.buffer_postings(&written)
    }

    fn syncer(&self) -> Box<dyn Syncer> {
        Box::new(LogSyncer {
            db: Arc::clone(&self.db),
            next_seq: Arc::clone(&self.next_seq),
            durable: Arc::clone(&self.durable),
            stop: Arc::clone(&self.stop),
            folder: self.folder.clone(),
        })
    }

    fn commit(&self, batch: &Batch) -> Result<(), StoreError> {
        self.index(self.write(self.encode(batch, &batch.outbox)?, batch.published)?)?;
        self.syncer().sync()
    }
}

/// A batch as it is written: rows for the database, postings for the buffer.
pub struct EncodedBatch {
    rows: WriteBatch,
    next_seq: u64,
    last_document: Option<DocumentId>,
    postings: Vec<BufferedPosting>,
    equal: Vec<(Fingerprint, DocumentId)>,
    fragments: Vec<BufferedFragment>,
}

/// What a written batch adds to the derived families, for the buffer.
pub struct WrittenPostings {
    postings: Vec<BufferedPosting>,
    equal: Vec<(Fingerprint, DocumentId)>,
    fragments: Vec<BufferedFragment>,
    last_document: Option<DocumentId>,
}

/// How many postings a batch's documents have.
fn n_postings(batch: &Batch) -> usize {
    batch.documents.iter().flat_map(|(document, _)| postings_of(document)).map(<[_]>::len).sum()
}

/// The postings of a batch's documents.
fn buffered_postings(batch: &Batch) -> Vec<BufferedPosting> {
    let mut postings = Vec::with_capacity(n_postings(batch));
    for (document, _) in &batch.documents {
        for (kind, shingles) in PostingKind::ALL.into_iter().zip(postings_of(document)) {
            for shingle in shingles {
                postings.push(BufferedPosting { kind, shingle: *shingle, document: document.document });
            }
        }
    }
    postings
}

/// The equivalence fingerprints of a batch's documents.
fn equal_fingerprints(batch: &Batch) -> Vec<(Fingerprint, DocumentId)> {
    let mut equal = Vec::with_capacity(3 * batch.documents.len());
    equal.extend(batch.documents.iter().flat_map(|(new, _)| new.equivalences.keys().map(|key| (key, new.document))));
    equal
}

/// Syncs the log, while other threads may write to it.
struct LogSyncer {
    db: Arc<DB>,
    /// The number of the next event that is written, and of the next that is durable.
    next_seq: Arc<AtomicU64>,
    durable: Arc<AtomicU64>,
    /// When set, no sync waits for disk space any longer.
    stop: Arc<AtomicBool>,
    folder: Option<StoreFolder>,
}

impl Syncer for LogSyncer {
    fn sync(&self) -> Result<(), StoreError> {
        let next_seq = self.next_seq.load(Ordering::Acquire);
        retry_while_full(|| self.stop.load(Ordering::Relaxed), || sync_log(&self.db))?;
        self.folder.as_ref().map_or(Ok(()), StoreFolder::check)?;
        self.durable.fetch_max(next_seq, Ordering::Release);
        Ok(())
    }
}

/// About how many bytes the rows of a batch take, a little too many: a batch that has to grow is copied each time.
fn n_bytes_expected(batch: &Batch, events: &[Outgoing]) -> usize {
    let documents = batch.documents.iter().map(|(document, _)| 400 + document.sketch.n_bytes());
    let urls = batch.urls.iter().map(|(_, url)| 40 + url.len());
    let events = events.iter().map(|event| 100 + event.json.len());
    1024 + documents.chain(urls).chain(events).sum::<usize>() + 250 * batch.sightings.len()
}

/// Rows ordered by the fingerprint in their keys. A memtable insert is faster next to the previous key, whose path is still
/// in the processor's caches.
fn sorted_by_fingerprint<T>(rows: &[T], fingerprint: impl Fn(&T) -> Fingerprint) -> Vec<&T> {
    let mut rows: Vec<&T> = rows.iter().collect();
    rows.sort_by_key(|row| fingerprint(row));
    rows
}

impl RocksStore {
    /// Whether waits for disk space must end.
    pub(super) fn should_stop(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Checks that the store's folder is still in its place, where the next process will look for it.
    pub(super) fn check_folder(&self) -> Result<(), StoreError> {
        self.folder.as_ref().map_or(Ok(()), StoreFolder::check)
    }

    /// Stores what is known about topics that the store publishes to. Durable on return.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn note_outputs(&self, notes: &OutputNotes) -> Result<(), StoreError> {
        retry_while_full(
            || self.should_stop(),
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

    /// Adds a batch's postings and equivalence fingerprints to the buffer. When the growing part is full, waits for the
    /// previous run and starts the next.
    fn buffer_postings(&self, written: &WrittenPostings) -> Result<(), StoreError> {
        let mut buffer = self.posting_buffer_mut()?;
        buffer.add(&written.postings, &written.equal, &written.fragments, written.last_document);
        let is_full = buffer.is_full();
        drop(buffer);
        kill_point!("in-memory");
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(runs) = &mut *runs else { return Ok(()) };
        if (is_full || !runs.is_busy()) && runs.finish()? {
            self.thaw_postings()?;
        }
        if is_full {
            runs.begin(self.posting_buffer_mut()?.freeze(), Arc::clone(&self.stop))?;
            kill_point!("frozen");
        }
        Ok(())
    }

    /// Drops the frozen part of the buffer, whose run is ingested.
    pub(super) fn thaw_postings(&self) -> Result<(), StoreError> {
        // The buffer is released at the end of this statement.
        let thawed = self.posting_buffer_mut()?.thaw();
        drop(thawed);
        Ok(())
    }

    fn rows_of(&self, batch: &Batch, events: &[Outgoing]) -> Result<WriteBatch, StoreError> {
        let mut rows = WriteBatch::with_capacity_bytes(n_bytes_expected(batch, events));
        self.put_documents(batch, &mut rows)?;
        self.put_said(&batch.said, &mut rows)?;
        self.put_texts(&batch.texts, &mut rows)?;
        self.put_clusters(batch, &mut rows)?;
        let (common, width) = (self.cf(cf::COMMON)?, PostingKind::Index.width(self.rule.sketch.bits));
        for shingle in &batch.common {
            rows.put_cf(common, schema::shingle_key(*shingle, width), []);
        }
        self.put_sightings(batch, &mut rows)?;
        self.put_states(batch, &mut rows)?;
        self.put_counts(batch, &mut rows)?;
        self.put_progress(batch, events, &mut rows)?;
        Ok(rows)
    }

    fn put_documents(&self, batch: &Batch, rows: &mut WriteBatch) -> Result<(), StoreError> {
        let docs = self.cf(cf::DOCS)?;
        // Each shingle takes 8 bytes at most, and each document three lengths and three fingerprints of 16 bytes.
        let mut pending = Vec::with_capacity(8 * n_postings(batch) + 3 * batch.documents.len());
        let mut pending_equal = Vec::with_capacity(49 * batch.documents.len());
        for (document, first_url) in &batch.documents {
            let key = document.document.0.to_be_bytes();
            rows.put_cf(docs, key, schema::document_row(document, *first_url));
            schema::put_pending(&mut pending, document, self.rule.sketch.bits);
            schema::put_pending_equal(&mut pending_equal, document);
        }
        if let Some((first, _)) = batch.documents.first() {
            let family = self.cf(cf::PENDING)?;
            rows.put_cf(family, first.document.0.to_be_bytes(), pending);
            rows.put_cf(family, schema::pending_equal_key(first.document), pending_equal);
        }
        Ok(())
    }

    fn put_clusters(&self, batch: &Batch, rows: &mut WriteBatch) -> Result<(), StoreError> {
        self.put_cluster_rows(&mut batch.rows.iter().copied(), &batch.links, rows)
    }

    /// Adds rows of clusters and links.
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
        let (urls, sightings, by_document) =
            (self.cf(cf::URLS)?, self.cf(cf::SIGHTINGS)?, self.cf(cf::SIGHTINGS_BY_DOCUMENT)?);
        for (fingerprint, url) in sorted_by_fingerprint(&batch.urls, |(fingerprint, _)| *fingerprint) {
            rows.put_cf(urls, schema::fingerprint_key(*fingerprint), url);
        }
        for sighting in sorted_by_fingerprint(&batch.sightings, |sighting| sighting.url) {
            rows.put_cf(sightings, schema::sighting_key(sighting), []);
        }
        for sighting in &batch.sightings {
            if let Some(document) = sighting.moment.seen.document() {
                rows.put_cf(by_document, schema::sighting_by_document_key(document, sighting), []);
            }
        }
        Ok(())
    }

    fn put_states(&self, batch: &Batch, rows: &mut WriteBatch) -> Result<(), StoreError> {
        let (states, missing_urls, sweeps) = (self.cf(cf::STATES)?, self.cf(cf::MISSING_URLS)?, self.cf(cf::SWEEPS)?);
        let mut adder = self.key_filter.as_ref().map(|filter| filter.keys().adder(cf::STATES));
        for (url, state) in &batch.states {
            let key = schema::fingerprint_key(*url);
            adder.iter_mut().for_each(|adder| adder.add(&key));
            rows.put_cf(states, key, schema::state_row(state));
            self.put_redirect(*url, state, rows)?;
        }
        adder.into_iter().for_each(Adder::finish);
        for url in &batch.no_longer_missing {
            rows.delete_cf(missing_urls, schema::missing_url_key(url));
        }
        for url in &batch.missing {
            rows.put_cf(missing_urls, schema::missing_url_key(url), []);
        }
        for (name, row) in &batch.sweeps {
            rows.put_cf(sweeps, name, schema::sweep_row(row));
        }
        Ok(())
    }

    fn put_progress(&self, batch: &Batch, events: &[Outgoing], rows: &mut WriteBatch) -> Result<(), StoreError> {
        let (offsets, outbox, metas) = (self.cf(cf::OFFSETS)?, self.cf(cf::OUTBOX)?, self.cf(cf::META)?);
        for ((source, partition), progress) in &batch.progress {
            rows.put_cf(offsets, schema::progress_key(source, *partition), schema::progress_row(*progress));
        }
        for event in events {
            rows.put_cf(outbox, event.seq.to_be_bytes(), schema::outbox_row(event));
        }
        // Documents are numbered from 1, so the last one's number is their count.
        if let Some((last, _)) = batch.documents.last() {
            rows.put_cf(metas, meta::DOCUMENTS, last.document.0.to_be_bytes());
        }
        rows.put_cf(metas, meta::NEXT_SEQ, batch.next_seq.to_be_bytes());
        Ok(())
    }
}
