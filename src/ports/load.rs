//! What loading a new store at once needs.

use super::source::{ProgressMap, StartTimes};
use super::store::StoreError;
use crate::cluster::{ClusterRow, Link};
use crate::document::{DocumentId, Fingerprint};
use crate::history::{MissingUrl, StoredSighting};
use crate::sketch::Shingle;
use crate::sweep::{SweepRow, UrlState};
use std::path::{Path, PathBuf};

/// A family of rows that a new store is loaded with.
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
    /// [`LoadRow::Standing`], by document, time, URL's fingerprint and sweep.
    Standings,
    /// [`LoadRow::State`], by URL's fingerprint.
    States,
    /// [`LoadRow::MissingUrl`], as they are ordered.
    MissingUrl,
    /// [`LoadRow::Cluster`], by document.
    Clusters,
    /// [`LoadRow::Link`], by the later document and then the earlier.
    Links,
    /// [`LoadRow::List`] of index shingles, by shingle.
    Postings,
    /// [`LoadRow::List`] of super shingles, by shingle.
    Supers,
    /// [`LoadRow::Posting`], by mod shingle and document.
    ModPostings,
}

impl Family {
    /// All of them.
    pub const ALL: [Family; 12] = [
        Family::Documents,
        Family::Equal,
        Family::Urls,
        Family::Sightings,
        Family::Standings,
        Family::States,
        Family::MissingUrl,
        Family::Clusters,
        Family::Links,
        Family::Postings,
        Family::Supers,
        Family::ModPostings,
    ];
}

/// A document as it is loaded: its sketch is in its bytes already.
#[derive(Clone, Copy, Debug)]
pub struct LoadDocument<'a> {
    /// Which.
    pub document: DocumentId,
    /// The fingerprint of the URL that brought it.
    pub first_url: Fingerprint,
    /// The shingles that index it.
    pub index: &'a [Shingle],
    /// Its super shingles.
    pub super_shingles: &'a [Shingle],
    /// Its mod shingles.
    pub mod_shingles: &'a [Shingle],
    /// Its words.
    pub n_words: u32,
    /// The bytes of the page that brought it.
    pub n_bytes: u64,
    /// What [`crate::sketch::encode`] makes of its sketch.
    pub sketch: &'a [u8],
}

/// A row of a [`Family`].
#[derive(Clone, Copy, Debug)]
pub enum LoadRow<'a> {
    /// A document.
    Document(&'a LoadDocument<'a>),
    /// An equivalence fingerprint and its document.
    Equal(Fingerprint, DocumentId),
    /// A URL under its fingerprint.
    Url(Fingerprint, &'a str),
    /// A sighting.
    Sighting(&'a StoredSighting),
    /// A sighting of a document.
    Standing(DocumentId, &'a StoredSighting),
    /// What a URL's sightings add up to.
    State(Fingerprint, &'a UrlState),
    /// A URL that is sought.
    MissingUrl(&'a MissingUrl),
    /// A document's place in the forest of clusters.
    Cluster(&'a ClusterRow),
    /// A link.
    Link(&'a Link),
    /// A shingle and the documents in which it stands, ascending, one more than the common limit at most.
    List(Shingle, &'a [DocumentId]),
    /// A mod shingle and a document in which it stands.
    Posting(Shingle, DocumentId),
}

/// A sorted file of rows being written.
pub trait Table {
    /// Appends a row of the table's family; rows come in the order of the family's keys.
    ///
    /// # Errors
    /// [`StoreError`]
    fn put(&mut self, row: LoadRow<'_>) -> Result<(), StoreError>;

    /// Ends the file, which is durable then, and says how many rows it has; with none there is no file.
    ///
    /// # Errors
    /// [`StoreError`]
    fn finish(self: Box<Self>) -> Result<u64, StoreError>;
}

/// What a new store holds beside its tables.
#[derive(Clone, Debug, Default)]
pub struct LoadMetadata {
    /// How many documents there are.
    pub n_documents: u32,
    /// Shingles that are common.
    pub common: Vec<Shingle>,
    /// The sweeps that pages were seen on.
    pub sweeps: Vec<(String, SweepRow)>,
    /// How far the sources have been taken in.
    pub progress: ProgressMap,
    /// When sources begin that nothing was taken of.
    pub beginnings: StartTimes,
    /// The sequence number that the next event gets; those below it are out.
    pub next_seq: u64,
}

/// Makes a whole store at once, of files that are sorted already.
pub trait Loader: Sync {
    /// Begins a table in a file that is not there.
    ///
    /// # Errors
    /// [`StoreError`]
    fn table(&self, family: Family, file: &Path) -> Result<Box<dyn Table + '_>, StoreError>;

    /// Makes an empty store in a folder that is not there.
    ///
    /// # Errors
    /// [`StoreError`]
    fn begin(&self, folder: &Path) -> Result<Box<dyn EmptyStore + '_>, StoreError>;
}

/// A store that nothing is in yet.
pub trait EmptyStore: Send {
    /// Takes in the tables and the rest. The tables' files stay where they are as well. When it returns, the store is
    /// durable, and closed.
    ///
    /// # Errors
    /// [`StoreError`]; what is in the folder is then no store.
    fn load(self: Box<Self>, tables: &[(Family, Vec<PathBuf>)], rest: &LoadMetadata) -> Result<(), StoreError>;
}
