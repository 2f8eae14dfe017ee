//! What queries and clustering anew read: the store at one moment.

use super::store::{StoreError, StoreRule};
use crate::cluster::{Clusters, Link};
use crate::document::{ClusterId, DocumentId, Fingerprint, Seed, url_key};
use crate::history::StoredSighting;
use crate::sketch::{Equivalences, Shingle, Sketch};
use crate::sweep::{Sighting, SweepRow, UrlState};
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A document as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredDocument {
    /// Words in its canonical form.
    pub n_words: u32,
    /// Bytes of the page that brought it.
    pub n_bytes: u64,
    /// The fingerprint of the URL where it was first seen.
    pub first_url: Fingerprint,
    /// How many index shingles it is found by.
    pub n_index_shingles: u32,
    /// How many super shingles it is found by.
    pub n_super_shingles: u32,
    /// How many mod shingles it is found by; 0 under a rule without them.
    pub n_mod_shingles: u32,
    /// A checksum over all of these, in whatever order they are read.
    pub postings_checksum: u64,
    /// Its sketch.
    pub sketch: Arc<Sketch>,
}

/// The shingles that find a document, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DocumentShingles {
    /// Its index shingles.
    pub index: Vec<Shingle>,
    /// Its mod shingles; none under a rule without them.
    pub mod_shingles: Vec<Shingle>,
}

/// What clustering anew asks of a store: everything, in whatever order it lies there.
pub trait LinkView {
    /// Calls `each` with the list of documents, ascending, of every index shingle (one more than the common limit at most)
    /// and of every super shingle (true), until it says stop (false).
    ///
    /// # Errors
    /// [`StoreError`], as for all of these.
    fn each_list(&self, each: &mut dyn FnMut(&[DocumentId], bool) -> bool) -> Result<(), StoreError>;

    /// Calls `each` with every link, by its later document, until it says stop (false).
    ///
    /// # Errors
    /// [`StoreError`]
    fn each_link(&self, each: &mut dyn FnMut(Link) -> bool) -> Result<(), StoreError>;

    /// Calls `each` with every document and by how many index shingles it is found.
    ///
    /// # Errors
    /// [`StoreError`]
    fn each_index_size(&self, each: &mut dyn FnMut(DocumentId, u32)) -> Result<(), StoreError>;

    /// The shingles that are common now.
    ///
    /// # Errors
    /// [`StoreError`]
    fn common_shingles(&self) -> Result<HashSet<Shingle>, StoreError>;

    /// The sketches of documents that must be there.
    ///
    /// # Errors
    /// [`StoreError`]
    fn sketches_of(&self, documents: &[DocumentId]) -> Result<Vec<Arc<Sketch>>, StoreError>;
}

/// What queries ask: a read-only view of the store at one moment.
pub trait Snapshot {
    /// The rules that the store was made with.
    fn rule(&self) -> &StoreRule;

    /// The store's secret.
    fn seed(&self) -> &Seed;

    /// How many documents there are: their ids are 1 to this.
    fn n_documents(&self) -> u32;

    /// The sequence number of the next event: what the view has seen.
    fn next_seq(&self) -> u64;

    /// A document; none where it is not there.
    ///
    /// # Errors
    /// [`StoreError`], as for all of these.
    fn document(&self, document: DocumentId) -> Result<Option<StoredDocument>, StoreError>;

    /// The cluster of a document that is there, found by following the stored tree.
    ///
    /// # Errors
    /// [`StoreError`]
    fn cluster_of(&self, document: DocumentId) -> Result<ClusterId, StoreError>;

    /// The documents of the cluster that a document belongs to, ascending.
    ///
    /// # Errors
    /// [`StoreError`]
    fn members(&self, document: DocumentId) -> Result<Vec<DocumentId>, StoreError> {
        let mut members = self.some_members(document, usize::MAX)?;
        members.sort_unstable();
        Ok(members)
    }

    /// The documents of the cluster that a document belongs to, this one first, or as many of them as are asked for.
    ///
    /// # Errors
    /// [`StoreError`]
    fn some_members(&self, document: DocumentId, most: usize) -> Result<Vec<DocumentId>, StoreError>;

    /// The clusters of all documents.
    ///
    /// # Errors
    /// [`StoreError`]
    fn clusters(&self) -> Result<Clusters, StoreError>;

    /// All sightings of a URL, oldest first.
    ///
    /// # Errors
    /// [`StoreError`]
    fn sightings_of_url(&self, url: &str) -> Result<Vec<Sighting>, StoreError>;

    /// All sightings of a document, oldest first.
    ///
    /// # Errors
    /// [`StoreError`]
    fn sightings_of_document(&self, document: DocumentId) -> Result<Vec<Sighting>, StoreError>;

    /// The fingerprint by which a URL is known.
    fn key_of(&self, url: &str) -> Fingerprint {
        url_key(self.seed(), url)
    }

    /// The states of URLs, in their order.
    ///
    /// # Errors
    /// [`StoreError`]
    fn states(&self, urls: &[Fingerprint]) -> Result<Vec<Option<UrlState>>, StoreError>;

    /// URLs that were seen, in the order of their fingerprints.
    ///
    /// # Errors
    /// [`StoreError`]
    fn urls(&self, keys: &[Fingerprint]) -> Result<Vec<String>, StoreError>;

    /// Documents that are there, in their order.
    ///
    /// # Errors
    /// [`StoreError`]
    fn documents(&self, documents: &[DocumentId]) -> Result<Vec<StoredDocument>, StoreError>;

    /// The newest sightings of each of some documents, at most `most_each` of each.
    ///
    /// # Errors
    /// [`StoreError`]
    fn standings(&self, documents: &[DocumentId], most_each: usize) -> Result<Vec<StoredSighting>, StoreError>;

    /// The sightings of a document after one of them, oldest first, at most `most`.
    ///
    /// # Errors
    /// [`StoreError`]
    fn standings_after(
        &self,
        document: DocumentId,
        after: Option<&Sighting>,
        most: usize,
    ) -> Result<Vec<Sighting>, StoreError>;

    /// The links of some documents to earlier ones.
    ///
    /// # Errors
    /// [`StoreError`]
    fn links(&self, documents: &[DocumentId]) -> Result<Vec<Link>, StoreError>;

    /// Sweeps by name.
    ///
    /// # Errors
    /// [`StoreError`]
    fn sweeps_named(&self, names: &[&str]) -> Result<Vec<Option<SweepRow>>, StoreError>;

    /// All sweeps, by name.
    ///
    /// # Errors
    /// [`StoreError`]
    fn sweeps(&self) -> Result<Vec<(String, SweepRow)>, StoreError>;

    /// Calls `each` with every URL and what its sightings add up to, by URL fingerprint, until it says stop (false).
    ///
    /// # Errors
    /// [`StoreError`]
    fn each_url(&self, each: &mut dyn FnMut(String, UrlState) -> bool) -> Result<(), StoreError>;

    /// Calls `each` with every sighting, by URL fingerprint and then by time, until it says stop (false).
    ///
    /// # Errors
    /// [`StoreError`]
    fn each_sighting(&self, each: &mut dyn FnMut(Sighting) -> bool) -> Result<(), StoreError> {
        self.each_sighting_after(None, each)
    }

    /// The same from after one of them on, whether or not that one is there.
    ///
    /// # Errors
    /// [`StoreError`]
    fn each_sighting_after(
        &self,
        after: Option<&Sighting>,
        each: &mut dyn FnMut(Sighting) -> bool,
    ) -> Result<(), StoreError>;

    /// The documents that have some of these index shingles, and how many each has. Shingles are looked up in their order
    /// until `most_uncommon` of them were not common; of the documents that have a common one the first few are found.
    ///
    /// # Errors
    /// [`StoreError`]
    fn sharing(&self, index: &[Shingle], most_uncommon: usize) -> Result<HashMap<DocumentId, usize>, StoreError>;

    /// The documents that have some of these mod shingles, `most` at most, those with most of them first; a shingle that
    /// is common finds none. All that are `known` are in the answer as well. With each document, how many of the
    /// shingles it has, the common ones included.
    ///
    /// # Errors
    /// [`StoreError`]
    fn sharing_mod(
        &self,
        mod_shingles: &[Shingle],
        known: &[DocumentId],
        most: usize,
    ) -> Result<HashMap<DocumentId, u32>, StoreError>;

    /// The shingles that find a document which is there. Of a very long one some may be missing.
    ///
    /// # Errors
    /// [`StoreError`]
    fn found_by(&self, document: DocumentId) -> Result<DocumentShingles, StoreError>;

    /// The documents that a content equals, by any of the three equivalences, each once.
    ///
    /// # Errors
    /// [`StoreError`]
    fn equal_to(&self, equivalences: &Equivalences) -> Result<Vec<DocumentId>, StoreError>;

    /// The bytes that the store takes on disk.
    fn n_bytes_on_disk(&self) -> u64;
}

/// How far a view may be behind the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Staleness {
    /// Milliseconds since the view was last known to hold all that the store holds.
    pub staleness_ms: u64,
    /// Bytes of the store's logs that the view does not hold, when that was last looked at.
    pub unread_log_bytes: u64,
    /// Why there is no newer view, where there should be one.
    pub problem: Option<String>,
}

/// Snapshots of a store that another process, or another thread, writes to: each is of one moment and only reads.
pub trait Snapshots: Send + Sync + 'static {
    /// A view.
    type Snapshot: Snapshot + Send + Sync + 'static;

    /// The newest view.
    fn snapshot(&self) -> Arc<Self::Snapshot>;

    /// How far it is behind.
    fn staleness(&self) -> Staleness;
}
