//! Bulk loading: how a new store is built from sorted tables instead of batches.

use super::source::{ProgressMap, StartTimes};
use super::store::{StoreCounts, StoreError};
use crate::cluster::{ClusterRow, EqualCluster, Link};
use crate::document::{DocumentId, Fingerprint};
use crate::history::{MissingUrl, StoredSighting};
use crate::intake::KeptText;
use crate::sketch::Shingle;
use crate::sweep::{SweepRow, UrlState};
use std::path::{Path, PathBuf};

/// A kind of row in a bulk load, with the order in which its rows come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// [`LoadRow::Document`], by document.
    Documents,
    /// [`LoadRow::Equal`], by fingerprint.
    Equal,
    /// [`LoadRow::Url`], by fingerprint.
    Urls,
    /// [`LoadRow::Sighting`], as [`StoredSighting::cmp_stored`] orders them.
    Sightings,
    /// [`LoadRow::SightingByDocument`], by document, time, URL fingerprint and sweep.
    SightingsByDocument,
    /// [`LoadRow::State`], by URL fingerprint.
    States,
    /// [`LoadRow::MissingUrl`], in the order of [`MissingUrl`].
    MissingUrl,
    /// [`LoadRow::Cluster`], by document.
    Clusters,
    /// [`LoadRow::Link`], by later document, then earlier document.
    Links,
    /// [`LoadRow::List`] of index shingles, by shingle.
    Postings,
    /// [`LoadRow::List`] of super shingles, by shingle.
    Supers,
    /// [`LoadRow::Posting`], by mod shingle and document.
    ModPostings,
    /// [`LoadRow::Text`], by document.
    Texts,
}

impl Family {
    /// Every family.
    pub const ALL: [Family; 13] = [
        Family::Documents,
        Family::Equal,
        Family::Urls,
        Family::Sightings,
        Family::SightingsByDocument,
        Family::States,
        Family::MissingUrl,
        Family::Clusters,
        Family::Links,
        Family::Postings,
        Family::Supers,
        Family::ModPostings,
        Family::Texts,
    ];
}

/// A document to load, with its sketch already encoded.
#[derive(Clone, Copy, Debug)]
pub struct LoadDocument<'a> {
    /// The document's id.
    pub document: DocumentId,
    /// The fingerprint of the URL where the document was first seen.
    pub first_url: Fingerprint,
    /// The index shingles.
    pub index: &'a [Shingle],
    /// The super shingles.
    pub super_shingles: &'a [Shingle],
    /// The mod shingles.
    pub mod_shingles: &'a [Shingle],
    /// Words in the canonical form.
    pub n_words: u32,
    /// Bytes of the page that first had this content.
    pub n_bytes: u64,
    /// The sketch, encoded by [`crate::sketch::encode`].
    pub sketch: &'a [u8],
}

/// A row of a [`Family`].
#[derive(Clone, Copy, Debug)]
pub enum LoadRow<'a> {
    /// A document.
    Document(&'a LoadDocument<'a>),
    /// An equivalence fingerprint and the document it identifies.
    Equal(Fingerprint, DocumentId),
    /// A URL and its fingerprint.
    Url(Fingerprint, &'a str),
    /// A sighting, keyed by URL.
    Sighting(&'a StoredSighting),
    /// A sighting of a document, keyed by document.
    SightingByDocument(DocumentId, &'a StoredSighting),
    /// The current state of a URL.
    State(Fingerprint, &'a UrlState),
    /// A missing URL.
    MissingUrl(&'a MissingUrl),
    /// A document's node in the union-find forest.
    Cluster(&'a ClusterRow),
    /// A link between two documents.
    Link(&'a Link),
    /// A shingle and the documents that contain it, ascending; at most one more than the common limit.
    List(Shingle, &'a [DocumentId]),
    /// A mod shingle and one document that contains it.
    Posting(Shingle, DocumentId),
    /// The text of a document.
    Text(DocumentId, &'a KeptText),
}

/// A sorted table file that is being written.
pub trait Table {
    /// Appends a row of the table's family. Rows must come in the order of the family's keys.
    ///
    /// # Errors
    /// [`StoreError`]
    fn put(&mut self, row: LoadRow<'_>) -> Result<(), StoreError>;

    /// Finishes the file, makes it durable and returns the number of rows. A table without rows leaves no file.
    ///
    /// # Errors
    /// [`StoreError`]
    fn finish(self: Box<Self>) -> Result<u64, StoreError>;
}

/// The contents of a new store that do not come as tables.
#[derive(Clone, Debug, Default)]
pub struct LoadMetadata {
    /// The number of documents.
    pub n_documents: u32,
    /// The common shingles.
    pub common: Vec<Shingle>,
    /// The sweeps, by name.
    pub sweeps: Vec<(String, SweepRow)>,
    /// Progress in each source.
    pub progress: ProgressMap,
    /// Start times of sources without progress.
    pub start_times: StartTimes,
    /// The sequence number of the next event. All earlier events count as published.
    pub next_seq: u64,
    /// What the tables add up to.
    pub counts: StoreCounts,
    /// The documents that stand alone at several URLs.
    pub equal_clusters: Vec<EqualCluster>,
}

/// Builds a whole store from sorted tables.
pub trait Loader: Sync {
    /// Creates a table in a new file.
    ///
    /// # Errors
    /// [`StoreError`]
    fn table(&self, family: Family, file: &Path) -> Result<Box<dyn Table + '_>, StoreError>;

    /// Creates an empty store in a new folder.
    ///
    /// # Errors
    /// [`StoreError`]
    fn begin(&self, folder: &Path) -> Result<Box<dyn EmptyStore + '_>, StoreError>;
}

/// A new store, not loaded yet.
pub trait EmptyStore: Send {
    /// Ingests all tables of some families. The table files also stay in place, so that a failed load can be repeated.
    ///
    /// # Errors
    /// [`StoreError`]; the folder then holds no usable store.
    fn ingest(&mut self, tables: &[(Family, Vec<PathBuf>)]) -> Result<(), StoreError>;

    /// Writes the metadata, once all tables are ingested. On return the store is durable and closed.
    ///
    /// # Errors
    /// [`StoreError`]; the folder then holds no usable store.
    fn complete(self: Box<Self>, metadata: &LoadMetadata) -> Result<(), StoreError>;
}
