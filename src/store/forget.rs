//! Forgets: finds all rows that tell of some sightings, and deletes them in one batch.
//!
//! A document without a sighting loses its row and leaves every list. Its number is not used again, so documents are no
//! longer dense; `meta/forgotten` counts the gaps. A shingle that was common stays common: its list was cut at the limit and
//! does not name all of its documents.

use super::db::synced;
use super::disk_full::retry_while_full;
use super::open::RocksStore;
use super::posting_runs::{BlockWriter, is_block, lists_of};
use super::rocks_error::{damaged, failed};
use super::schema::{self, Fields, PostingKind, cf, meta};
use crate::document::{DocumentId, FetchTime, Fingerprint};
use crate::ports::{Forgotten, ForgottenUrl, MissingUrl, Outgoing, Remainders, Snapshot, StoreError, StoredSighting};
use crate::sweep::{Observation, Seen, Selection, SweepRow, UrlState};
use rocksdb::{BottommostLevelCompaction, CompactOptions, WriteBatch};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

impl RocksStore {
    /// Finds what a selection covers: `sightings_max` sightings, about. The store does not change.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn find_selected(&self, selection: &Selection, sightings_max: usize) -> Result<Forgotten, StoreError> {
        let mut found = Forgotten { is_all: true, ..Forgotten::default() };
        let (mut n_sightings, mut failed) = (0, None);
        self.each_url(&mut |url, before| {
            if !selection.covers(&url) {
                return true;
            }
            match self.selected_of(selection, url, before) {
                Ok(None) => {}
                Ok(Some(_)) if n_sightings >= sightings_max => found.is_all = false,
                Ok(Some(url)) => {
                    n_sightings += url.sightings.len();
                    found.urls.push(url);
                }
                Err(error) => failed = Some(error),
            }
            found.is_all && failed.is_none()
        })?;
        failed.map_or(Ok(()), Err)?;
        self.find_documents(&mut found)?;
        Ok(found)
    }

    /// Whether the store has a sighting from before a time. Reads all sightings where there is none.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn has_sighting_before(&self, time: FetchTime) -> Result<bool, StoreError> {
        let mut is_there = false;
        self.scan(cf::SIGHTINGS, &[], &mut |key, _| {
            let sighting = schema::read_sighting(key).ok_or_else(|| damaged("a row of sightings"))?;
            is_there = sighting.moment.fetched_at < time;
            Ok(!is_there)
        })?;
        Ok(is_there)
    }

    fn selected_of(
        &self,
        selection: &Selection,
        url: String,
        before: UrlState,
    ) -> Result<Option<ForgottenUrl>, StoreError> {
        let key = self.key_of(&url);
        let (sightings, left) = selection.split(self.history_of(key)?);
        if sightings.is_empty() {
            return Ok(None);
        }
        let after = UrlState::from_history(&left, before.host).map(|after| {
            // What an event has said about a loss counts while it is the loss of the same copy.
            let found = before.found && !after.is_alive() && after.copy == before.copy;
            UrlState { found, ..after }
        });
        Ok(Some(ForgottenUrl { key, url, sightings, before, after }))
    }

    /// Finds the documents without a sighting that is left, and those that are no longer where they were first seen.
    fn find_documents(&self, found: &mut Forgotten) -> Result<(), StoreError> {
        let (mut documents, mut forgotten) = (BTreeSet::new(), HashSet::new());
        for (url, moment) in found.urls.iter().flat_map(ForgottenUrl::moments) {
            if let Some(document) = moment.seen.document() {
                documents.insert(document);
                let sighting = StoredSighting { url, moment: moment.clone() };
                forgotten.insert(schema::sighting_by_document_key(document, &sighting));
            }
        }
        for document in documents {
            let first_url = self.document_row(document)?;
            let first_url = schema::read_first_url(&first_url).ok_or_else(|| damaged("a row of docs"))?;
            let (mut left, mut has_first) = (None, false);
            self.scan(cf::SIGHTINGS_BY_DOCUMENT, &document.0.to_be_bytes(), &mut |key, _| {
                if !forgotten.contains(key) {
                    let sighting =
                        schema::read_sighting_by_document(key).ok_or_else(|| damaged("a row of standings"))?;
                    has_first = sighting.url == first_url;
                    left.get_or_insert(sighting.url);
                }
                Ok(!has_first)
            })?;
            match left {
                None => found.documents.push(document),
                Some(url) if !has_first => found.first_urls.push((document, url)),
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn document_row(&self, document: DocumentId) -> Result<Vec<u8>, StoreError> {
        let row = self.db.get_cf(self.cf(cf::DOCS)?, document.0.to_be_bytes()).map_err(failed)?;
        row.ok_or_else(|| damaged(format!("document {document} is missing")))
    }

    /// Forgets, and adds the events of it to the outbox. One batch holds everything, so a crash leaves all of it or
    /// nothing. Until [`Self::compact`] the store's files may still hold what is forgotten. The store has no counts then: call
    /// [`Self::count_again`] after the last batch.
    ///
    /// # Errors
    /// [`StoreError`]; the store is then unchanged.
    pub fn forget(
        &self,
        forgotten: &Forgotten,
        remainders: &Remainders,
        events: &[Outgoing],
    ) -> Result<(), StoreError> {
        // What waits for its run would come back with the run.
        self.flush_postings()?;
        self.posting_runs.without_merging(|| self.forget_stored(forgotten, remainders, events))
    }

    fn forget_stored(
        &self,
        forgotten: &Forgotten,
        remainders: &Remainders,
        events: &[Outgoing],
    ) -> Result<(), StoreError> {
        let mut rows = WriteBatch::default();
        self.delete_sightings(forgotten, &mut rows)?;
        self.recount_sweeps(forgotten, &mut rows)?;
        self.delete_documents(forgotten, &mut rows)?;
        self.forget_said(forgotten, &mut rows)?;
        self.replace_some_clusters(remainders, &mut rows)?;
        self.redact_forgotten(forgotten, &mut rows)?;
        let (outbox, metas) = (self.cf(cf::OUTBOX)?, self.cf(cf::META)?);
        for event in events {
            rows.put_cf(outbox, event.seq.to_be_bytes(), schema::outbox_row(event));
        }
        let next_seq = events.last().map_or(self.next_seq(), |last| last.seq + 1);
        rows.put_cf(metas, meta::NEXT_SEQ, next_seq.to_be_bytes());
        let n_forgotten = self.forgotten_documents()? + forgotten.documents.len() as u32;
        rows.put_cf(metas, meta::FORGOTTEN, n_forgotten.to_be_bytes());
        self.delete_counts(&mut rows)?;
        kill_point!("forgetting");
        let write = || self.db.write_opt(WriteBatch::from_data(rows.data()), &synced()).map_err(failed);
        retry_while_full(|| self.should_stop(), write)?;
        kill_point!("forgotten");
        self.next_seq.store(next_seq, Ordering::Release);
        self.durable.fetch_max(next_seq, Ordering::Release);
        self.check_folder()
    }

    /// How many documents were forgotten.
    pub(super) fn forgotten_documents(&self) -> Result<u32, StoreError> {
        match self.db.get_cf(self.cf(cf::META)?, meta::FORGOTTEN).map_err(failed)? {
            None => Ok(0),
            Some(row) => Fields(&row).u32().ok_or_else(|| damaged("meta/forgotten")),
        }
    }

    fn delete_sightings(&self, forgotten: &Forgotten, rows: &mut WriteBatch) -> Result<(), StoreError> {
        let (urls, states, missing_urls) = (self.cf(cf::URLS)?, self.cf(cf::STATES)?, self.cf(cf::MISSING_URLS)?);
        let (sightings, by_document) = (self.cf(cf::SIGHTINGS)?, self.cf(cf::SIGHTINGS_BY_DOCUMENT)?);
        for (url, moment) in forgotten.urls.iter().flat_map(ForgottenUrl::moments) {
            let sighting = StoredSighting { url, moment: moment.clone() };
            rows.delete_cf(sightings, schema::sighting_key(&sighting));
            if let Some(document) = moment.seen.document() {
                rows.delete_cf(by_document, schema::sighting_by_document_key(document, &sighting));
            }
        }
        for ForgottenUrl { key, before, after, .. } in &forgotten.urls {
            let row_key = schema::fingerprint_key(*key);
            if let Some(missing) = MissingUrl::from_state(*key, before) {
                rows.delete_cf(missing_urls, schema::missing_url_key(&missing));
            }
            match after {
                Some(state) => {
                    rows.put_cf(states, row_key, schema::state_row(state));
                    if let Some(missing) = MissingUrl::from_state(*key, state) {
                        rows.put_cf(missing_urls, schema::missing_url_key(&missing), []);
                    }
                }
                None => {
                    rows.delete_cf(states, row_key);
                    rows.delete_cf(urls, row_key);
                }
            }
        }
        Ok(())
    }

    /// Counts the sweeps again of which sightings are forgotten. A sweep without a sighting is forgotten, too.
    fn recount_sweeps(&self, forgotten: &Forgotten, rows: &mut WriteBatch) -> Result<(), StoreError> {
        let mut lost: BTreeMap<&str, SweepRow> = BTreeMap::new();
        let mut keys = HashSet::new();
        for (url, moment) in forgotten.urls.iter().flat_map(ForgottenUrl::moments) {
            keys.insert(schema::sighting_key(&StoredSighting { url, moment: moment.clone() }));
            if let Some(name) = moment.sweep.as_deref() {
                let counts = lost.entry(name).or_insert_with(|| SweepRow::begun(moment.fetched_at));
                match moment.seen {
                    Seen::Lost => counts.n_lost += 1,
                    _ => counts.count(moment.fetched_at, moment.seen.document().is_some()),
                }
            }
        }
        if lost.is_empty() {
            return Ok(());
        }
        let mut left: BTreeMap<String, SweepRow> = BTreeMap::new();
        self.scan(cf::SIGHTINGS, &[], &mut |key, _| {
            let Observation { fetched_at, seen, sweep } =
                schema::read_sighting(key).ok_or_else(|| damaged("a row of sightings"))?.moment;
            if let Some(name) = sweep.filter(|name| seen != Seen::Lost && lost.contains_key(name.as_str()))
                && !keys.contains(key)
            {
                let row = left.entry(name).or_insert_with(|| SweepRow::begun(fetched_at));
                row.count(fetched_at, seen.document().is_some());
            }
            Ok(true)
        })?;
        let names: Vec<&str> = lost.keys().copied().collect();
        let sweeps = self.cf(cf::SWEEPS)?;
        for (name, row) in names.iter().zip(self.sweeps_of(&names)?) {
            match (row, left.get(*name), lost.get(name)) {
                (Some(row), Some(left), Some(lost)) => {
                    // A row also counts repeated pages, of which there is one sighting.
                    let row = SweepRow {
                        first: left.first,
                        last: left.last,
                        n_pages: row.n_pages.saturating_sub(lost.n_pages),
                        n_gone: row.n_gone.saturating_sub(lost.n_gone),
                        n_lost: row.n_lost.saturating_sub(lost.n_lost),
                        ..row
                    };
                    rows.put_cf(sweeps, name, schema::sweep_row(&row));
                }
                (Some(_), None, _) => rows.delete_cf(sweeps, name),
                _ => {}
            }
        }
        Ok(())
    }

    fn delete_documents(&self, forgotten: &Forgotten, rows: &mut WriteBatch) -> Result<(), StoreError> {
        let docs = self.cf(cf::DOCS)?;
        for document in &forgotten.documents {
            rows.delete_cf(docs, document.0.to_be_bytes());
        }
        self.delete_texts(&forgotten.documents, rows)?;
        for (document, url) in &forgotten.first_urls {
            let mut row = self.document_row(*document)?;
            let first_url = row.get_mut(..size_of::<Fingerprint>()).ok_or_else(|| damaged("a row of docs"))?;
            first_url.copy_from_slice(&schema::fingerprint_key(*url));
            rows.put_cf(docs, document.0.to_be_bytes(), row);
        }
        if forgotten.documents.is_empty() {
            return Ok(());
        }
        let gone: HashSet<DocumentId> = forgotten.documents.iter().copied().collect();
        self.delete_from_lists(PostingKind::Index, &gone, rows)?;
        self.delete_from_lists(PostingKind::Super, &gone, rows)?;
        let (mod_postings, equal) = (self.cf(cf::MOD_POSTINGS)?, self.cf(cf::EQUAL)?);
        self.scan(cf::MOD_POSTINGS, &[], &mut |key, _| {
            let posting = schema::read_mod_posting(key, self.rule.sketch.bits);
            let (_, document) = posting.ok_or_else(|| damaged("a row of mod-postings"))?;
            if gone.contains(&document) {
                rows.delete_cf(mod_postings, key);
            }
            Ok(true)
        })?;
        self.scan(cf::EQUAL, &[], &mut |key, row| {
            if gone.contains(&Fields(row).document().ok_or_else(|| damaged("a row of equal"))?) {
                rows.delete_cf(equal, key);
            }
            Ok(true)
        })
    }

    /// Takes documents out of the lists in runs. No run may be merged until the rows are written.
    fn delete_from_lists(
        &self,
        kind: PostingKind,
        gone: &HashSet<DocumentId>,
        rows: &mut WriteBatch,
    ) -> Result<(), StoreError> {
        let (name, family) = (kind.family(), self.cf(kind.family())?);
        let (mut documents, width) = (Vec::new(), kind.width(self.rule.sketch.bits));
        self.scan(name, &[], &mut |key, block| {
            if !is_block(key, width) {
                return Ok(true);
            }
            let (mut left, mut is_changed) = (BlockWriter::default(), false);
            for list in lists_of(block) {
                documents.clear();
                let read = list.filter(|(_, list)| schema::read_documents(list, &mut documents).is_some());
                let (shingle, _) = read.ok_or_else(|| damaged(format!("a row of {name}")))?;
                let n_before = documents.len();
                documents.retain(|document| !gone.contains(document));
                is_changed |= documents.len() < n_before;
                if !documents.is_empty() {
                    left.put(shingle, &documents);
                }
            }
            match left.take() {
                _ if !is_changed => {}
                // The key may then be of a shingle that is no longer there, which is all the same: the block has those up to it.
                Some((_, left)) => rows.put_cf(family, key, left),
                None => rows.delete_cf(family, key),
            }
            Ok(true)
        })
    }

    fn replace_some_clusters(&self, remainders: &Remainders, rows: &mut WriteBatch) -> Result<(), StoreError> {
        let (clusters, links) = (self.cf(cf::CLUSTERS)?, self.cf(cf::LINKS)?);
        for document in &remainders.documents {
            rows.delete_cf(clusters, document.0.to_be_bytes());
        }
        for link in Snapshot::links(self, &remainders.documents)? {
            rows.delete_cf(links, [link.document.0.to_be_bytes(), link.to.0.to_be_bytes()].concat());
        }
        self.put_cluster_rows(&mut remainders.rows.iter().copied(), &remainders.links, rows)
    }

    /// Writes what waits in memory for a run, and waits for it.
    fn flush_postings(&self) -> Result<(), StoreError> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(runs) = &mut *runs else { return Ok(()) };
        if runs.finish()? {
            self.thaw_postings()?;
        }
        runs.begin(self.posting_buffer_mut()?.freeze(), Arc::clone(&self.stop))?;
        runs.finish()?;
        self.thaw_postings()?;
        Ok(())
    }

    /// Rewrites all files without what is deleted. Takes a while and, for that time, as much space again as the largest
    /// family.
    ///
    /// # Errors
    /// [`StoreError`]; the store holds the same then.
    pub fn compact(&self) -> Result<(), StoreError> {
        self.redact_told()?;
        self.flush_postings()?;
        let mut options = CompactOptions::default();
        options.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
        options.set_exclusive_manual_compaction(true);
        for name in cf::ALL.into_iter().chain(self.optional_families().names()) {
            let family = self.cf(name)?;
            self.db.flush_cf(family).map_err(failed)?;
            self.db.compact_range_cf_opt::<&[u8], &[u8]>(family, None, None, &options);
        }
        // RocksDB does not return what became of a compaction.
        let n_errors = self.db.property_int_value("rocksdb.background-errors").map_err(failed)?.unwrap_or_default();
        if n_errors > 0 {
            return Err(StoreError::Failed("compaction failed; see LOG in the store's folder, and run again".into()));
        }
        self.check_folder()
    }
}

impl ForgottenUrl {
    /// The forgotten sightings, with the URL's fingerprint.
    fn moments(&self) -> impl Iterator<Item = (Fingerprint, &Observation)> {
        self.sightings.iter().map(|moment| (self.key, moment))
    }
}
