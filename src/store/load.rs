//! Bulk loading: writes sorted tables, and builds a new store from them by ingestion.

use super::column_options;
use super::db;
use super::open::{OpenError, RocksStore};
use super::posting_runs::{BlockWriter, LOADED_RUN, NewRun, block_key};
use super::rocks_error::{damaged, failed};
use super::schema::{self, PostingKind, cf, meta};
use super::settings::Settings;
use crate::document::Seed;
use crate::ports::{EmptyStore, Family, LoadMetadata, LoadRow, Loader, StoreError, StoreRule, Table};
use rocksdb::{DB, Options, SstFileWriter, WriteBatch};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// The folder of tables to ingest, inside the store's.
const FOLDER: &str = "loading";

/// Builds stores with one rule and seed.
pub struct RocksLoader {
    settings: Settings,
    rule: StoreRule,
    seed: Seed,
    /// The options of each family's tables.
    options: Vec<(Family, Options)>,
}

impl RocksLoader {
    /// Creates a loader for stores with this rule and secret.
    pub fn new(settings: Settings, rule: StoreRule, seed: Seed) -> Self {
        let options = Family::ALL.map(|family| (family, column_options::table_options(family_name(family))));
        RocksLoader { settings, rule, seed, options: options.into() }
    }
}

fn family_name(family: Family) -> &'static str {
    match family {
        Family::Documents => cf::DOCS,
        Family::Equal => cf::EQUAL,
        Family::Urls => cf::URLS,
        Family::Sightings => cf::SIGHTINGS,
        Family::SightingsByDocument => cf::SIGHTINGS_BY_DOCUMENT,
        Family::States => cf::STATES,
        Family::MissingUrl => cf::MISSING_URLS,
        Family::Clusters => cf::CLUSTERS,
        Family::Links => cf::LINKS,
        Family::Postings => cf::POSTINGS,
        Family::Supers => cf::SUPERS,
        Family::ModPostings => cf::MOD_POSTINGS,
        Family::Texts => cf::TEXTS,
    }
}

/// The kind of the lists in a family.
fn posting_kind(family: Family) -> Option<PostingKind> {
    match family {
        Family::Postings => Some(PostingKind::Index),
        Family::Supers => Some(PostingKind::Super),
        _ => None,
    }
}

/// A sorted table that is being written. The first row creates the file, because RocksDB rejects a table without
/// rows.
struct SstTable<'a> {
    bits: u32,
    path: PathBuf,
    writer: SstFileWriter<'a>,
    n_rows: u64,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Table for SstTable<'_> {
    fn put(&mut self, row: LoadRow<'_>) -> Result<(), StoreError> {
        if self.n_rows == 0 {
            self.writer.open(&self.path).map_err(failed)?;
        }
        self.n_rows += 1;
        self.encode(row)?;
        self.writer.put(&self.key, &self.value).map_err(failed)
    }

    fn finish(mut self: Box<Self>) -> Result<u64, StoreError> {
        if self.n_rows > 0 {
            self.writer.finish().map_err(failed)?;
        }
        Ok(self.n_rows)
    }
}

impl SstTable<'_> {
    /// Encodes a row as key and value. Documents, the longest rows, reuse the buffers.
    fn encode(&mut self, row: LoadRow<'_>) -> Result<(), StoreError> {
        let (key, value) = match row {
            // `ListTable` takes these.
            LoadRow::List(..) => return Err(damaged("a list in a table of other rows")),
            LoadRow::Document(document) => {
                self.key.clear();
                self.key.extend(document.document.0.to_be_bytes());
                self.value.clear();
                schema::put_loaded_document(&mut self.value, document);
                return Ok(());
            }
            LoadRow::Equal(key, document) => (schema::fingerprint_key(key).to_vec(), document.0.to_be_bytes().to_vec()),
            LoadRow::Url(key, url) => (schema::fingerprint_key(key).to_vec(), url.as_bytes().to_vec()),
            LoadRow::Sighting(sighting) => (schema::sighting_key(sighting), Vec::new()),
            LoadRow::SightingByDocument(document, sighting) => {
                (schema::sighting_by_document_key(document, sighting), Vec::new())
            }
            LoadRow::State(url, state) => (schema::fingerprint_key(url).to_vec(), schema::state_row(state)),
            LoadRow::MissingUrl(missing) => (schema::missing_url_key(missing), Vec::new()),
            LoadRow::Cluster(row) => (row.document.0.to_be_bytes().to_vec(), schema::cluster_row(row)),
            LoadRow::Link(link) => {
                let key = [link.document.0.to_be_bytes(), link.to.0.to_be_bytes()].concat();
                (key, link.resemblance.to_be_bytes().to_vec())
            }
            LoadRow::Text(document, text) => (document.0.to_be_bytes().to_vec(), text.as_row().to_vec()),
            LoadRow::Posting(shingle, document) => (schema::mod_posting_key(shingle, document, self.bits), Vec::new()),
        };
        (self.key, self.value) = (key, value);
        Ok(())
    }
}

/// A table of lists, which are packed into blocks of the first run.
struct ListTable<'a> {
    width: usize,
    path: PathBuf,
    writer: SstFileWriter<'a>,
    n_lists: u64,
    block: BlockWriter,
}

impl Table for ListTable<'_> {
    fn put(&mut self, row: LoadRow<'_>) -> Result<(), StoreError> {
        let LoadRow::List(shingle, documents) = row else {
            return Err(damaged("a row that is no list in a table of lists"));
        };
        if self.n_lists == 0 {
            self.writer.open(&self.path).map_err(failed)?;
        }
        self.n_lists += 1;
        self.block.put(shingle, documents);
        if self.block.is_full() { self.put_block() } else { Ok(()) }
    }

    fn finish(mut self: Box<Self>) -> Result<u64, StoreError> {
        if self.n_lists > 0 {
            self.put_block()?;
            self.writer.finish().map_err(failed)?;
        }
        Ok(self.n_lists)
    }
}

impl ListTable<'_> {
    fn put_block(&mut self) -> Result<(), StoreError> {
        let Some((last, block)) = self.block.take() else { return Ok(()) };
        self.writer.put(block_key(LOADED_RUN, last, self.width), block).map_err(failed)
    }
}

impl Loader for RocksLoader {
    fn table(&self, family: Family, file: &Path) -> Result<Box<dyn Table + '_>, StoreError> {
        let options = self.options.iter().find(|(name, _)| *name == family);
        let (_, options) = options.ok_or_else(|| damaged(format!("no table options for the family {family:?}")))?;
        let (writer, path) = (SstFileWriter::create(options), file.to_path_buf());
        let Some(kind) = posting_kind(family) else {
            let (key, value) = (Vec::new(), Vec::new());
            return Ok(Box::new(SstTable { bits: self.rule.sketch.bits, path, writer, n_rows: 0, key, value }));
        };
        let width = kind.width(self.rule.sketch.bits);
        Ok(Box::new(ListTable { width, path, writer, n_lists: 0, block: BlockWriter::default() }))
    }

    fn begin(&self, folder: &Path) -> Result<Box<dyn EmptyStore + '_>, StoreError> {
        let opened = RocksStore::open(folder, &self.settings, &self.rule, Some(self.seed), || self.seed);
        let store = opened.map_err(|error| match error {
            OpenError::Store(error) => error,
            other => StoreError::Failed(other.to_string()),
        })?;
        if store.n_documents() > 0 {
            return Err(StoreError::Failed(format!(
                "{} already holds a store with documents; give an empty or a new folder",
                folder.display()
            )));
        }
        Ok(Box::new(NewStore { folder: folder.to_path_buf(), store, runs: Vec::new() }))
    }
}

/// A store that was just created.
struct NewStore {
    folder: PathBuf,
    store: RocksStore,
    /// The runs of ingested lists.
    runs: Vec<NewRun>,
}

impl EmptyStore for NewStore {
    fn ingest(&mut self, tables: &[(Family, Vec<PathBuf>)]) -> Result<(), StoreError> {
        let NewStore { folder, store, runs } = self;
        let loading = folder.join(FOLDER);
        fs::create_dir(&loading).map_err(failed_at(&loading))?;
        // One thread per family: each ingestion waits for the disk several times.
        let load_family = |family, files: &[PathBuf]| {
            ingest(&store.db, &loading, family, files)?;
            posting_kind(family).map(|kind| store.posting_runs.loaded(kind, &loading)).transpose()
        };
        let ingested = std::thread::scope(|scope| {
            let (tables, load_family) = (tables.iter().filter(|(_, files)| !files.is_empty()), &load_family);
            let threads: Vec<_> =
                tables.map(|(family, files)| scope.spawn(move || load_family(*family, files))).collect();
            let panicked = |_| Err(StoreError::Failed("a thread that ingests tables panicked".into()));
            let runs = threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked));
            runs.filter_map(Result::transpose).collect::<Result<Vec<NewRun>, _>>()
        })?;
        runs.extend(ingested);
        fs::remove_dir(&loading).map_err(failed_at(&loading))
    }

    fn complete(self: Box<Self>, metadata: &LoadMetadata) -> Result<(), StoreError> {
        let NewStore { store, runs, .. } = *self;
        store.write_metadata(metadata, runs)?;
        // The numbers as a later opening of the store reads them.
        store.n_documents.store(metadata.n_documents, Ordering::Release);
        store.next_seq.store(metadata.next_seq, Ordering::Release);
        store.replace_counts(&metadata.counts, &metadata.equal_clusters)?;
        Ok(())
    }
}

/// Ingests the tables of a family. The files also stay in place, so that a failed load can be repeated.
fn ingest(db: &DB, folder: &Path, family: Family, files: &[PathBuf]) -> Result<(), StoreError> {
    let mut linked = Vec::new();
    for file in files {
        // RocksDB moves the files it ingests.
        let link = folder.join(file.file_name().unwrap_or(file.as_os_str()));
        fs::hard_link(file, &link).map_err(failed_at(file))?;
        linked.push(link);
    }
    db::ingest(db, family_name(family), linked)
}

fn failed_at(path: &Path) -> impl Fn(io::Error) -> StoreError + '_ {
    move |error| match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::DiskFull(path.display().to_string()),
        _ => StoreError::Failed(format!("{}: {error}", path.display())),
    }
}

impl RocksStore {
    /// Writes the metadata, which completes a loaded store, in one batch.
    fn write_metadata(&self, metadata: &LoadMetadata, runs: Vec<NewRun>) -> Result<(), StoreError> {
        let mut rows = WriteBatch::default();
        let (common, width) = (self.cf(cf::COMMON)?, PostingKind::Index.width(self.rule.sketch.bits));
        for shingle in &metadata.common {
            rows.put_cf(common, schema::shingle_key(*shingle, width), []);
        }
        for (name, row) in &metadata.sweeps {
            rows.put_cf(self.cf(cf::SWEEPS)?, name, schema::sweep_row(row));
        }
        for ((source, partition), progress) in &metadata.progress {
            let key = schema::progress_key(source, *partition);
            rows.put_cf(self.cf(cf::OFFSETS)?, key, schema::progress_row(*progress));
        }
        let metas = self.cf(cf::META)?;
        for (source, time) in &metadata.start_times {
            rows.put_cf(metas, [meta::BEGINNING, source.as_bytes()].concat(), time.0.to_be_bytes());
        }
        rows.put_cf(metas, meta::DOCUMENTS, metadata.n_documents.to_be_bytes());
        rows.put_cf(metas, meta::INDEXED_UP_TO, metadata.n_documents.to_be_bytes());
        rows.put_cf(metas, meta::NEXT_SEQ, metadata.next_seq.to_be_bytes());
        rows.put_cf(metas, meta::PUBLISHED, metadata.next_seq.to_be_bytes());
        self.posting_runs.add(runs, rows, &db::synced())
    }
}
