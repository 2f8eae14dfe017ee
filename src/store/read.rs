//! Reads the store: in batches for the stream, one by one for queries.

use super::cluster_tree::{cluster_of, cluster_row};
use super::kept_events::outbox;
use super::open::RocksStore;
use super::rocks_error::{damaged, failed};
use super::schema::{self, Fields, PostingKind, cf, meta};
use super::url_cursor::UrlCursor;
use crate::cluster::{
    ClusterPolicy, ClusterRow, Clusters, IndexQuery, Link, PostingList, add_documents, first_representatives,
};
use crate::document::{ClusterId, DocumentId, FetchTime, Fingerprint, Seed, url_key};
use crate::ports::{
    DocumentShingles, DocumentText, MissingUrl, Outgoing, OutputNotes, ProgressMap, Snapshot, StartTimes, StoreCounts,
    StoreError, StoreRule, StoredDocument, StoredSighting,
};
use crate::sketch::{Equivalences, Shingle};
use crate::sweep::{Observation, Sighting, SweepRow, UrlState, counted};
use rocksdb::{DBPinnableSlice, ReadOptions};
use rustc_hash::FxHashSet;
use std::collections::{BTreeSet, HashMap};

/// Keys per call. RocksDB looks up at most 32 keys together; for more it allocates half a kilobyte per key.
const KEYS_TOGETHER: usize = 32;

/// A callback for a key and its row; false stops the scan.
type EachRow<'a> = dyn FnMut(&[u8], &[u8]) -> Result<bool, StoreError> + 'a;

fn read_sighting(key: &[u8]) -> Result<StoredSighting, StoreError> {
    schema::read_sighting(key).ok_or_else(|| damaged("a row of sightings"))
}

impl RocksStore {
    /// The rows of a column family under these keys, in the order of the keys.
    pub(super) fn rows<K: AsRef<[u8]>>(
        &self,
        name: &'static str,
        keys: impl IntoIterator<Item = K>,
    ) -> Result<Vec<Option<DBPinnableSlice<'_>>>, StoreError> {
        let family = self.cf(name)?;
        let keys: Vec<K> = keys.into_iter().collect();
        // RocksDB needs sorted keys, because it walks through a file from one key to the next. It sorts others
        // itself.
        let is_sorted = keys.is_sorted_by_key(AsRef::as_ref);
        let options = ReadOptions::default();
        let mut rows: Vec<Option<DBPinnableSlice<'_>>> = keys.iter().map(|_| None).collect();
        let possible = match &self.key_filter {
            Some(filter) => filter.possible(name, &keys),
            None => (0..keys.len()).collect(),
        };
        for together in possible.chunks(KEYS_TOGETHER) {
            let keys = together.iter().map(|at| &keys[*at]);
            let found = self.db.batched_multi_get_cf_opt(family, keys, is_sorted, &options);
            for (at, row) in together.iter().zip(found) {
                rows[*at] = row.map_err(failed)?;
            }
        }
        Ok(rows)
    }

    /// Calls `each` with the rows whose keys start with `prefix`, in order, until it returns false.
    pub(super) fn scan(&self, name: &'static str, prefix: &[u8], each: &mut EachRow<'_>) -> Result<(), StoreError> {
        self.scan_from(name, prefix, &mut |key, row| if key.starts_with(prefix) { each(key, row) } else { Ok(false) })
    }

    /// Calls `each` with the rows from the key `from` on, in order, until it returns false.
    pub(super) fn scan_from(&self, name: &'static str, from: &[u8], each: &mut EachRow<'_>) -> Result<(), StoreError> {
        let mut options = ReadOptions::default();
        options.set_readahead_size(if from.is_empty() { 2 << 20 } else { 0 });
        // The other kind of iterator copies each row.
        let mut rows = self.db.raw_iterator_cf_opt(self.cf(name)?, options);
        rows.seek(from);
        while let Some((key, value)) = rows.item() {
            if !each(key, value)? {
                return Ok(());
            }
            rows.next();
        }
        rows.status().map_err(failed)
    }

    /// The documents that contain each of these shingles, ascending.
    pub(super) fn lists(&self, kind: PostingKind, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, StoreError> {
        // The buffer first: what leaves it meanwhile is in runs by then.
        let buffered = self.buffered(kind, shingles)?;
        let mut lists = self.posting_runs.look_up(kind, shingles)?;
        lists.iter_mut().zip(buffered).for_each(|(list, newest)| add_documents(list, &newest));
        Ok(lists)
    }

    /// Those of index shingles, as far as `pages` can be expected to need them.
    pub(super) fn lists_for(&self, shingles: &[Shingle], pages: &[IndexQuery]) -> Result<Vec<PostingList>, StoreError> {
        let buffered = self.buffered(PostingKind::Index, shingles)?;
        let mut lists = self.posting_runs.look_up_for(shingles, &buffered, pages)?;
        for (list, newest) in lists.iter_mut().zip(buffered) {
            if let PostingList::Read(documents) = list {
                add_documents(documents, &newest);
            }
        }
        Ok(lists)
    }

    /// The documents of each shingle in the posting buffer, ascending.
    fn buffered(&self, kind: PostingKind, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, StoreError> {
        let mut buffered = vec![Vec::new(); shingles.len()];
        self.posting_buffer()?.append(kind, shingles, &mut buffered);
        Ok(buffered)
    }

    pub(super) fn equal_documents(&self, keys: &[Fingerprint]) -> Result<Vec<Option<DocumentId>>, StoreError> {
        // The buffer first: what leaves it meanwhile is in the rows by then.
        let mut documents = self.posting_buffer()?.equal(keys);
        let unknown: Vec<usize> = (0..keys.len()).filter(|at| documents[*at].is_none()).collect();
        let rows = self.rows(cf::EQUAL, unknown.iter().map(|at| schema::fingerprint_key(keys[*at])))?;
        for (at, row) in unknown.into_iter().zip(rows) {
            let read = |row: DBPinnableSlice<'_>| Fields(&row).document().ok_or_else(|| damaged("a row of equal"));
            documents[at] = row.map(read).transpose()?;
        }
        Ok(documents)
    }

    pub(super) fn stored_documents(&self, documents: &[DocumentId]) -> Result<Vec<StoredDocument>, StoreError> {
        let rows = self.rows(cf::DOCS, documents.iter().map(|document| document.0.to_be_bytes()))?;
        rows.into_iter()
            .zip(documents)
            .map(|(row, document)| {
                let row = row.ok_or_else(|| damaged(format!("document {document} is missing")))?;
                schema::read_document(&row).ok_or_else(|| damaged(format!("the row of document {document}")))
            })
            .collect()
    }

    pub(super) fn urls_of(&self, keys: &[Fingerprint]) -> Result<Vec<String>, StoreError> {
        self.rows(cf::URLS, keys.iter().map(|key| schema::fingerprint_key(*key)))?
            .into_iter()
            .map(|row| {
                row.and_then(|row| String::from_utf8(row.to_vec()).ok())
                    .ok_or_else(|| damaged("the URL of a sighting is missing"))
            })
            .collect()
    }

    pub(super) fn first_url_keys_of(&self, documents: &[DocumentId]) -> Result<Vec<Fingerprint>, StoreError> {
        let rows = self.rows(cf::DOCS, documents.iter().map(|document| document.0.to_be_bytes()))?;
        rows.into_iter()
            .zip(documents)
            .map(|(row, document)| {
                let row = row.ok_or_else(|| damaged(format!("document {document} is missing")))?;
                schema::read_first_url(&row).ok_or_else(|| damaged(format!("the row of document {document}")))
            })
            .collect()
    }

    pub(super) fn outbox_from(&self, from: u64, limit: usize) -> Result<Vec<Outgoing>, StoreError> {
        outbox(&self.db, from)?.take(limit).map(|row| row.map(|(event, _)| event)).collect()
    }

    /// The progress in each source.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn progress(&self) -> Result<ProgressMap, StoreError> {
        let mut map = ProgressMap::new();
        self.scan(cf::OFFSETS, &[], &mut |key, row| {
            let read = schema::read_progress_key(key).zip(schema::read_progress(row));
            let (key, progress) = read.ok_or_else(|| damaged("a row of offsets"))?;
            map.insert(key, progress);
            Ok(true)
        })?;
        Ok(map)
    }

    /// The start time of a source, if one is stored. It counts only for a source without progress.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn beginning(&self, source: &str) -> Result<Option<FetchTime>, StoreError> {
        let row = self.db.get_cf(self.cf(cf::META)?, [meta::BEGINNING, source.as_bytes()].concat()).map_err(failed)?;
        let time = |row: Vec<u8>| row.try_into().map(i64::from_be_bytes).map_err(|_| damaged("meta/beginning"));
        row.map(time).transpose().map(|time| time.map(FetchTime))
    }

    /// The start times of all sources that have one.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn beginnings(&self) -> Result<StartTimes, StoreError> {
        let mut times = StartTimes::new();
        self.scan(cf::META, meta::BEGINNING, &mut |key, row| {
            let source = String::from_utf8(key[meta::BEGINNING.len()..].to_vec()).ok();
            let time = row.try_into().ok().map(|time| FetchTime(i64::from_be_bytes(time)));
            let (source, time) = source.zip(time).ok_or_else(|| damaged("meta/beginning"))?;
            times.insert(source, time);
            Ok(true)
        })?;
        Ok(times)
    }

    /// What the store remembers about the topics that it publishes to.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn outputs(&self) -> Result<OutputNotes, StoreError> {
        let mut notes = OutputNotes::new();
        self.scan(cf::META, meta::OUTPUT, &mut |key, row| {
            let name = String::from_utf8(key[meta::OUTPUT.len()..].to_vec()).ok();
            let (name, note) = name.zip(schema::read_output(row)).ok_or_else(|| damaged("meta/output"))?;
            notes.insert(name, note);
            Ok(true)
        })?;
        Ok(notes)
    }

    /// Whether a cluster may have merged into another one and lost its name. The sign is a founder, a document
    /// without a link to an earlier one, in a cluster named after another document. The search stops at the first.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn has_merged(&self) -> Result<bool, StoreError> {
        if self.linked_from()?.is_some() {
            return Ok(true);
        }
        if self.rule.cluster.policy == ClusterPolicy::Star {
            return Ok(false);
        }
        let mut links = self.db.raw_iterator_cf(self.cf(cf::LINKS)?);
        let mut has_merged = false;
        self.scan(cf::CLUSTERS, &[], &mut |key, _| {
            let document = Fields(key).document().ok_or_else(|| damaged("a row of clusters"))?;
            links.seek(key);
            let is_founder = !links.key().is_some_and(|link| link.starts_with(key));
            links.status().map_err(failed)?;
            has_merged = is_founder && self.cluster_of(document)?.0 != document.0;
            Ok(!has_merged)
        })?;
        Ok(has_merged)
    }

    /// The common shingles.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn common(&self) -> Result<FxHashSet<Shingle>, StoreError> {
        let mut common = FxHashSet::default();
        let width = PostingKind::Index.width(self.rule.sketch.bits);
        self.scan(cf::COMMON, &[], &mut |key, _| {
            common.insert(Fields(key).shingle(width).ok_or_else(|| damaged("a row of common"))?);
            Ok(true)
        })?;
        Ok(common)
    }

    fn cluster_row(&self, document: DocumentId) -> Result<ClusterRow, StoreError> {
        cluster_row(&self.db, document)
    }

    /// The first documents that contain a mod shingle: at most one more than the common limit.
    fn mod_posting(&self, shingle: Shingle) -> Result<Vec<DocumentId>, StoreError> {
        let (bits, limit) = (self.rule.sketch.bits, self.rule.cluster.common_limit);
        let mut documents = Vec::new();
        self.scan(cf::MOD_POSTINGS, &schema::shingle_key(shingle, PostingKind::Mod.width(bits)), &mut |key, _| {
            let (_, document) = schema::read_mod_posting(key, bits).ok_or_else(|| damaged("a row of mod-postings"))?;
            documents.push(document);
            Ok(documents.len() <= limit)
        })?;
        self.posting_buffer()?.append(PostingKind::Mod, &[shingle], std::slice::from_mut(&mut documents));
        documents.truncate(limit + 1);
        Ok(documents)
    }

    /// Adds one to the count of each document in `shared` that contains a mod shingle.
    fn count_mod_shingle(&self, shingle: Shingle, shared: &mut HashMap<DocumentId, u32>) -> Result<(), StoreError> {
        let mut documents: Vec<DocumentId> = shared.keys().copied().collect();
        documents.sort_unstable();
        let mut newest = Vec::new();
        self.posting_buffer()?.append(PostingKind::Mod, &[shingle], std::slice::from_mut(&mut newest));
        let keys = documents.iter().map(|document| schema::mod_posting_key(shingle, *document, self.rule.sketch.bits));
        for (row, document) in self.rows(cf::MOD_POSTINGS, keys)?.into_iter().zip(documents) {
            if row.is_some() || newest.binary_search(&document).is_ok() {
                *shared.entry(document).or_default() += 1;
            }
        }
        Ok(())
    }

    pub(super) fn states_of(&self, urls: &[Fingerprint]) -> Result<Vec<Option<UrlState>>, StoreError> {
        self.rows(cf::STATES, urls.iter().map(|url| schema::fingerprint_key(*url)))?
            .into_iter()
            .map(|row| row.map(|row| schema::read_state(&row).ok_or_else(|| damaged("a row of states"))).transpose())
            .collect()
    }

    pub(super) fn history_of(&self, url: Fingerprint) -> Result<Vec<Observation>, StoreError> {
        let mut moments = Vec::new();
        self.scan(cf::SIGHTINGS, &schema::fingerprint_key(url), &mut |key, _| {
            let found = schema::read_sighting(key).ok_or_else(|| damaged("a row of sightings"))?;
            moments.push(found.moment);
            Ok(true)
        })?;
        Ok(moments)
    }

    pub(super) fn all_missing_urls(&self) -> Result<Vec<MissingUrl>, StoreError> {
        let mut all = Vec::new();
        self.scan(cf::MISSING_URLS, &[], &mut |key, _| {
            all.push(schema::read_missing_url(key).ok_or_else(|| damaged("a row of sought"))?);
            Ok(true)
        })?;
        Ok(all)
    }

    pub(super) fn scan_states(&self, each: &mut dyn FnMut(Fingerprint, UrlState)) -> Result<(), StoreError> {
        self.scan(cf::STATES, &[], &mut |key, row| {
            let read = Fields(key).fingerprint().zip(schema::read_state(row));
            let (url, state) = read.ok_or_else(|| damaged("a row of states"))?;
            each(url, state);
            Ok(true)
        })
    }

    pub(super) fn sweeps_of(&self, names: &[&str]) -> Result<Vec<Option<SweepRow>>, StoreError> {
        self.rows(cf::SWEEPS, names)?
            .into_iter()
            .map(|row| {
                row.map(|row| schema::read_sweep_row(&row).ok_or_else(|| damaged("a row of sweeps"))).transpose()
            })
            .collect()
    }

    pub(super) fn read_newest_sightings(
        &self,
        documents: &[DocumentId],
        limit_each: usize,
    ) -> Result<Vec<StoredSighting>, StoreError> {
        let mut found = Vec::new();
        let mut rows = self.db.raw_iterator_cf(self.cf(cf::SIGHTINGS_BY_DOCUMENT)?);
        for document in documents {
            let mut n_left = limit_each;
            rows.seek_for_prev(schema::end_of_sightings_by_document(*document));
            while let Some(key) = rows.key().filter(|key| key.starts_with(&document.0.to_be_bytes()) && n_left > 0) {
                found.push(schema::read_sighting_by_document(key).ok_or_else(|| damaged("a row of standings"))?);
                n_left -= 1;
                rows.prev();
            }
            rows.status().map_err(failed)?;
        }
        Ok(found)
    }

    fn links_of(&self, documents: &[DocumentId]) -> Result<Vec<Link>, StoreError> {
        let mut links = Vec::new();
        let mut rows = self.db.raw_iterator_cf(self.cf(cf::LINKS)?);
        for document in documents {
            let prefix = document.0.to_be_bytes();
            rows.seek(prefix);
            while let Some((key, row)) = rows.item().filter(|(key, _)| key.starts_with(&prefix)) {
                links.push(schema::read_link(key, row).ok_or_else(|| damaged("a row of links"))?);
                rows.next();
            }
            rows.status().map_err(failed)?;
        }
        Ok(links)
    }

    fn with_url(&self, sighting: StoredSighting) -> Result<Sighting, StoreError> {
        let url = self.urls_of(&[sighting.url])?.pop().unwrap_or_default();
        Ok(Sighting { url, moment: sighting.moment })
    }
}

/// The `limit` documents with the highest counts. Ties go to older documents.
fn most_shared(shared: HashMap<DocumentId, u32>, limit: usize) -> HashMap<DocumentId, u32> {
    if shared.len() <= limit {
        return shared;
    }
    let mut shared: Vec<(DocumentId, u32)> = shared.into_iter().collect();
    shared.sort_unstable_by_key(|(document, n)| (std::cmp::Reverse(*n), *document));
    shared.into_iter().take(limit).collect()
}

impl Snapshot for RocksStore {
    fn rule(&self) -> &StoreRule {
        &self.rule
    }

    fn seed(&self) -> &Seed {
        &self.seed
    }

    fn n_documents(&self) -> u32 {
        self.n_documents()
    }

    fn next_seq(&self) -> u64 {
        self.next_seq()
    }

    fn sources(&self) -> Result<Vec<String>, StoreError> {
        let sources: BTreeSet<String> = self.progress()?.into_keys().map(|(source, _)| source).collect();
        Ok(sources.into_iter().collect())
    }

    fn document(&self, document: DocumentId) -> Result<Option<StoredDocument>, StoreError> {
        if (1..=self.n_documents()).contains(&document.0) {
            Ok(self.stored_documents(&[document])?.pop())
        } else {
            Ok(None)
        }
    }

    fn text_of(&self, document: DocumentId) -> Result<DocumentText, StoreError> {
        self.read_text(document)
    }

    fn n_bytes_of_texts(&self) -> Result<Option<u64>, StoreError> {
        self.size_of_texts()
    }

    fn cluster_of(&self, document: DocumentId) -> Result<ClusterId, StoreError> {
        cluster_of(&self.db, document)
    }

    fn some_members(&self, document: DocumentId, limit: usize) -> Result<Vec<DocumentId>, StoreError> {
        let mut members = vec![document];
        let mut next = self.cluster_row(document)?.next;
        while next != document && members.len() < limit {
            if members.len() > self.n_documents() as usize {
                return Err(damaged(format!("the ring of document {document} does not close")));
            }
            members.push(next);
            next = self.cluster_row(next)?.next;
        }
        Ok(members)
    }

    fn kept_counts(&self) -> Result<Option<StoreCounts>, StoreError> {
        self.counts_if_kept()
    }

    fn counted(&self) -> Result<StoreCounts, StoreError> {
        Ok(self.count()?.0)
    }

    fn n_forgotten(&self) -> Result<u32, StoreError> {
        self.forgotten_documents()
    }

    fn clusters(&self) -> Result<Clusters, StoreError> {
        let mut clusters = Clusters::alone(self.n_documents() as usize);
        self.scan(cf::CLUSTERS, &[], &mut |key, row| {
            let row = Fields(key).document().and_then(|document| schema::read_cluster_row(document, row));
            row.and_then(|row| clusters.restore(&row)).ok_or_else(|| damaged("a row of clusters"))?;
            Ok(true)
        })?;
        Ok(clusters)
    }

    fn sightings_of_url(&self, url: &str) -> Result<Vec<Sighting>, StoreError> {
        let history = self.history_of(url_key(&self.seed, url))?;
        let counted = counted(&history).into_iter().cloned();
        Ok(counted.map(|moment| Sighting { url: url.to_string(), moment }).collect())
    }

    fn sightings_of_document(&self, document: DocumentId) -> Result<Vec<Sighting>, StoreError> {
        let mut sightings = Vec::new();
        self.scan(cf::SIGHTINGS_BY_DOCUMENT, &document.0.to_be_bytes(), &mut |key, _| {
            let found = schema::read_sighting_by_document(key).ok_or_else(|| damaged("a row of standings"))?;
            sightings.push(self.with_url(found)?);
            Ok(true)
        })?;
        Ok(sightings)
    }

    fn each_sighting_after(
        &self,
        after: Option<&Sighting>,
        each: &mut dyn FnMut(Sighting) -> bool,
    ) -> Result<(), StoreError> {
        let after = after.map(|Sighting { url, moment }| {
            let url = url_key(&self.seed, url);
            schema::sighting_key(&StoredSighting { url, moment: moment.clone() })
        });
        let after = after.unwrap_or_default();
        let mut urls = UrlCursor::new(self);
        self.scan_from(cf::SIGHTINGS, &after, &mut |key, _| {
            if key == after {
                return Ok(true);
            }
            let found = read_sighting(key)?;
            let url = urls.url(found.url)?.to_string();
            Ok(each(Sighting { url, moment: found.moment }))
        })
    }

    fn each_stored_sighting(&self, each: &mut dyn FnMut(StoredSighting)) -> Result<(), StoreError> {
        self.scan_from(cf::SIGHTINGS, &[], &mut |key, _| {
            each(read_sighting(key)?);
            Ok(true)
        })
    }

    fn states(&self, urls: &[Fingerprint]) -> Result<Vec<Option<UrlState>>, StoreError> {
        self.states_of(urls)
    }

    fn urls(&self, keys: &[Fingerprint]) -> Result<Vec<String>, StoreError> {
        self.urls_of(keys)
    }

    fn documents(&self, documents: &[DocumentId]) -> Result<Vec<StoredDocument>, StoreError> {
        self.stored_documents(documents)
    }

    fn newest_sightings_of(
        &self,
        documents: &[DocumentId],
        limit_each: usize,
    ) -> Result<Vec<StoredSighting>, StoreError> {
        self.read_newest_sightings(documents, limit_each)
    }

    fn sightings_of_document_after(
        &self,
        document: DocumentId,
        after: Option<&Sighting>,
        limit: usize,
    ) -> Result<Vec<Sighting>, StoreError> {
        let prefix = document.0.to_be_bytes();
        let from = after.map_or(prefix.to_vec(), |Sighting { url, moment }| {
            let url = url_key(&self.seed, url);
            schema::sighting_by_document_key(document, &StoredSighting { url, moment: moment.clone() })
        });
        let mut sightings = Vec::new();
        self.scan_from(cf::SIGHTINGS_BY_DOCUMENT, &from, &mut |key, _| {
            if !key.starts_with(&prefix) || sightings.len() == limit {
                return Ok(false);
            }
            if after.is_none() || key != from {
                let found = schema::read_sighting_by_document(key).ok_or_else(|| damaged("a row of standings"))?;
                sightings.push(self.with_url(found)?);
            }
            Ok(true)
        })?;
        Ok(sightings)
    }

    fn links(&self, documents: &[DocumentId]) -> Result<Vec<Link>, StoreError> {
        self.links_of(documents)
    }

    fn sweeps_named(&self, names: &[&str]) -> Result<Vec<Option<SweepRow>>, StoreError> {
        self.sweeps_of(names)
    }

    fn sweeps(&self) -> Result<Vec<(String, SweepRow)>, StoreError> {
        let mut sweeps = Vec::new();
        self.scan(cf::SWEEPS, &[], &mut |name, row| {
            let name = String::from_utf8(name.to_vec()).ok();
            sweeps.push(name.zip(schema::read_sweep_row(row)).ok_or_else(|| damaged("a row of sweeps"))?);
            Ok(true)
        })?;
        Ok(sweeps)
    }

    fn each_url(&self, each: &mut dyn FnMut(String, UrlState) -> bool) -> Result<(), StoreError> {
        let mut urls = UrlCursor::new(self);
        self.scan(cf::STATES, &[], &mut |key, row| {
            let read = Fields(key).fingerprint().zip(schema::read_state(row));
            let (url, state) = read.ok_or_else(|| damaged("a row of states"))?;
            Ok(each(urls.url(url)?.to_string(), state))
        })
    }

    fn each_url_after(&self, after: Option<&str>, each: &mut dyn FnMut(&str) -> bool) -> Result<(), StoreError> {
        let after = after.map(|url| schema::fingerprint_key(url_key(&self.seed, url)));
        let after = after.map_or(Vec::new(), Vec::from);
        self.scan_from(cf::URLS, &after, &mut |key, row| {
            if key == after {
                return Ok(true);
            }
            Ok(each(std::str::from_utf8(row).map_err(|_| damaged("a row of urls"))?))
        })
    }

    fn sharing(&self, index: &[Shingle], uncommon_limit: usize) -> Result<HashMap<DocumentId, usize>, StoreError> {
        let (mut shared, mut n_left, mut rest) = (HashMap::new(), uncommon_limit, index);
        while n_left > 0 && !rest.is_empty() {
            let (next, after) = rest.split_at(n_left.min(rest.len()));
            for list in self.lists(PostingKind::Index, next)? {
                let is_common = list.len() > self.rule.cluster.common_limit;
                n_left -= usize::from(!is_common);
                let finds = if is_common { &*first_representatives(&list) } else { &list };
                for document in finds {
                    *shared.entry(*document).or_default() += 1;
                }
            }
            rest = after;
        }
        Ok(shared)
    }

    fn sharing_mod(
        &self,
        mod_shingles: &[Shingle],
        known: &[DocumentId],
        limit: usize,
    ) -> Result<HashMap<DocumentId, u32>, StoreError> {
        let (mut shared, mut common) = (HashMap::new(), Vec::new());
        for shingle in mod_shingles {
            let documents = self.mod_posting(*shingle)?;
            if documents.len() > self.rule.cluster.common_limit {
                common.push(*shingle);
                continue;
            }
            for document in documents {
                *shared.entry(document).or_default() += 1;
            }
        }
        let of_known: Vec<_> =
            known.iter().map(|document| (*document, shared.get(document).copied().unwrap_or(0))).collect();
        let mut shared = most_shared(shared, limit);
        shared.extend(of_known);
        // Common shingles find no documents, but a containment counts all shingles.
        for shingle in common {
            self.count_mod_shingle(shingle, &mut shared)?;
        }
        Ok(shared)
    }

    fn document_shingles(&self, document: DocumentId) -> Result<DocumentShingles, StoreError> {
        self.shingles_of(document)
    }

    fn equal_to(&self, equivalences: &Equivalences) -> Result<Vec<DocumentId>, StoreError> {
        let keys: Vec<Fingerprint> = equivalences.keys().collect();
        let mut documents: Vec<DocumentId> = self.equal_documents(&keys)?.into_iter().flatten().collect();
        documents.sort_unstable();
        documents.dedup();
        Ok(documents)
    }

    fn n_bytes_on_disk(&self) -> u64 {
        let Ok(files) = self.path().read_dir() else { return 0 };
        files.flatten().filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
    }
}
