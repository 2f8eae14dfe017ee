//! The store at one moment, as queries and reclustering read it.

use super::related::RelatedView;
use super::store::{StoreCounts, StoreError, StoreRule};
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
    /// Words in the canonical form.
    pub n_words: u32,
    /// Bytes of the page that first had this content.
    pub n_bytes: u64,
    /// The fingerprint of the URL where the document was first seen.
    pub first_url: Fingerprint,
    /// The number of index shingles.
    pub n_index_shingles: u32,
    /// The number of super shingles.
    pub n_super_shingles: u32,
    /// The number of mod shingles; 0 under a rule without them.
    pub n_mod_shingles: u32,
    /// A checksum over all these shingles, independent of their order.
    pub postings_checksum: u64,
    /// The document's sketch.
    pub sketch: Arc<Sketch>,
}

/// The shingles under which a document is indexed, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DocumentShingles {
    /// The index shingles.
    pub index: Vec<Shingle>,
    /// The mod shingles; empty under a rule without them.
    pub mod_shingles: Vec<Shingle>,
}

/// What reclustering reads: the whole store, in the order in which it is stored.
pub trait LinkView {
    /// Calls `each` with every posting list until it returns false. The lists of index shingles come with `false` and
    /// hold at most one document more than the common limit; the lists of super shingles come with `true`. Documents
    /// ascend.
    ///
    /// # Errors
    /// [`StoreError`], as for every method here.
    fn each_list(&self, each: &mut dyn FnMut(&[DocumentId], bool) -> bool) -> Result<(), StoreError>;

    /// Calls `each` with every link, ordered by the later document, until it returns false.
    ///
    /// # Errors
    /// [`StoreError`]
    fn each_link(&self, each: &mut dyn FnMut(Link) -> bool) -> Result<(), StoreError>;

    /// Calls `each` with every document and the number of its index shingles.
    ///
    /// # Errors
    /// [`StoreError`]
    fn each_index_size(&self, each: &mut dyn FnMut(DocumentId, u32)) -> Result<(), StoreError>;

    /// Calls `each` with every document in the order of their numbers, its words, and the bytes of the page that first had
    /// its text.
    ///
    /// # Errors
    /// [`StoreError`]
    fn each_size(&self, each: &mut dyn FnMut(DocumentId, u32, u64)) -> Result<(), StoreError>;

    /// The shingles that are common now.
    ///
    /// # Errors
    /// [`StoreError`]
    fn common_shingles(&self) -> Result<HashSet<Shingle>, StoreError>;

    /// The sketches of documents, which must exist.
    ///
    /// # Errors
    /// [`StoreError`]
    fn sketches_of(&self, documents: &[DocumentId]) -> Result<Vec<Arc<Sketch>>, StoreError>;
}

/// The text of a document, as far as the store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentText {
    /// The text of the page that brought the document: what counts of it, without markup.
    Kept(String),
    /// It has this many bytes, which is over the limit.
    TooLong(usize),
    /// The document came while the store kept no texts, or as features.
    NotKept,
    /// The store never kept texts.
    NeverKept,
}

/// A read-only view of the store at one moment.
pub trait Snapshot {
    /// The rules that the store was created with.
    fn rule(&self) -> &StoreRule;

    /// The store's secret.
    fn seed(&self) -> &Seed;

    /// The number of documents. Their ids are 1 to this number.
    fn n_documents(&self) -> u32;

    /// The sequence number of the next event. The snapshot reflects all events before it.
    fn next_seq(&self) -> u64;

    /// The names of the sources that were read, sorted: absolute paths of files, URLs of objects, topics.
    ///
    /// # Errors
    /// [`StoreError`]
    fn sources(&self) -> Result<Vec<String>, StoreError>;

    /// What the store adds up to; none where it keeps no counts, because an older program wrote to it last.
    ///
    /// # Errors
    /// [`StoreError`]
    fn kept_counts(&self) -> Result<Option<StoreCounts>, StoreError>;

    /// What the store adds up to, counted. Reads all sightings.
    ///
    /// # Errors
    /// [`StoreError`]
    fn counted(&self) -> Result<StoreCounts, StoreError>;

    /// Documents that were forgotten: their numbers are left out.
    ///
    /// # Errors
    /// [`StoreError`]
    fn n_forgotten(&self) -> Result<u32, StoreError>;

    /// A document, or `None` if it does not exist.
    ///
    /// # Errors
    /// [`StoreError`], as for every method here.
    fn document(&self, document: DocumentId) -> Result<Option<StoredDocument>, StoreError>;

    /// The text of a document, or why it is not there.
    ///
    /// # Errors
    /// [`StoreError`]
    fn text_of(&self, document: DocumentId) -> Result<DocumentText, StoreError>;

    /// Bytes on disk of all texts, about; `None` where the store never kept any.
    ///
    /// # Errors
    /// [`StoreError`]
    fn n_bytes_of_texts(&self) -> Result<Option<u64>, StoreError>;

    /// The cluster of a document, which must exist. Follows the stored tree to its root.
    ///
    /// # Errors
    /// [`StoreError`]
    fn cluster_of(&self, document: DocumentId) -> Result<ClusterId, StoreError>;

    /// The documents in the same cluster as `document`, ascending.
    ///
    /// # Errors
    /// [`StoreError`]
    fn members(&self, document: DocumentId) -> Result<Vec<DocumentId>, StoreError> {
        let mut members = self.some_members(document, usize::MAX)?;
        members.sort_unstable();
        Ok(members)
    }

    /// At most `limit` documents in the same cluster as `document`, which comes first.
    ///
    /// # Errors
    /// [`StoreError`]
    fn some_members(&self, document: DocumentId, limit: usize) -> Result<Vec<DocumentId>, StoreError>;

    /// The clusters of all documents.
    ///
    /// # Errors
    /// [`StoreError`]
    fn clusters(&self) -> Result<Clusters, StoreError>;

    /// All sightings of a URL, oldest first, without the marks of loss that do not count ([`counted`](crate::sweep::counted)).
    ///
    /// # Errors
    /// [`StoreError`]
    fn sightings_of_url(&self, url: &str) -> Result<Vec<Sighting>, StoreError>;

    /// All sightings of a document, oldest first.
    ///
    /// # Errors
    /// [`StoreError`]
    fn sightings_of_document(&self, document: DocumentId) -> Result<Vec<Sighting>, StoreError>;

    /// The fingerprint of a URL, under which the store keeps it.
    fn key_of(&self, url: &str) -> Fingerprint {
        url_key(self.seed(), url)
    }

    /// The states of URLs, in the order of `urls`; `None` for a URL that was never seen.
    ///
    /// # Errors
    /// [`StoreError`]
    fn states(&self, urls: &[Fingerprint]) -> Result<Vec<Option<UrlState>>, StoreError>;

    /// The URLs with these fingerprints, in the order of `keys`. They must exist.
    ///
    /// # Errors
    /// [`StoreError`]
    fn urls(&self, keys: &[Fingerprint]) -> Result<Vec<String>, StoreError>;

    /// Documents by id, in the order of `documents`. They must exist.
    ///
    /// # Errors
    /// [`StoreError`]
    fn documents(&self, documents: &[DocumentId]) -> Result<Vec<StoredDocument>, StoreError>;

    /// The newest sightings of each document, at most `limit_each` for one document.
    ///
    /// # Errors
    /// [`StoreError`]
    fn newest_sightings_of(
        &self,
        documents: &[DocumentId],
        limit_each: usize,
    ) -> Result<Vec<StoredSighting>, StoreError>;

    /// At most `limit` sightings of a document, oldest first, starting after the sighting `after`.
    ///
    /// # Errors
    /// [`StoreError`]
    fn sightings_of_document_after(
        &self,
        document: DocumentId,
        after: Option<&Sighting>,
        limit: usize,
    ) -> Result<Vec<Sighting>, StoreError>;

    /// The links from these documents to earlier ones.
    ///
    /// # Errors
    /// [`StoreError`]
    fn links(&self, documents: &[DocumentId]) -> Result<Vec<Link>, StoreError>;

    /// Sweeps by name; `None` for a sweep without pages.
    ///
    /// # Errors
    /// [`StoreError`]
    fn sweeps_named(&self, names: &[&str]) -> Result<Vec<Option<SweepRow>>, StoreError>;

    /// All sweeps, ordered by name.
    ///
    /// # Errors
    /// [`StoreError`]
    fn sweeps(&self) -> Result<Vec<(String, SweepRow)>, StoreError>;

    /// Calls `each` with every URL and its state, ordered by URL fingerprint, until it returns false.
    ///
    /// # Errors
    /// [`StoreError`]
    fn each_url(&self, each: &mut dyn FnMut(String, UrlState) -> bool) -> Result<(), StoreError>;

    /// Calls `each` with every URL after `after`, which need not exist, in the same order, until it returns false. Reads no
    /// states.
    ///
    /// # Errors
    /// [`StoreError`]
    fn each_url_after(&self, after: Option<&str>, each: &mut dyn FnMut(&str) -> bool) -> Result<(), StoreError>;

    /// Calls `each` with every sighting, ordered by URL fingerprint and time, until it returns false.
    ///
    /// # Errors
    /// [`StoreError`]
    fn each_sighting(&self, each: &mut dyn FnMut(Sighting) -> bool) -> Result<(), StoreError> {
        self.each_sighting_after(None, each)
    }

    /// Like [`Self::each_sighting`], but starts after the sighting `after`, which need not exist.
    ///
    /// # Errors
    /// [`StoreError`]
    fn each_sighting_after(
        &self,
        after: Option<&Sighting>,
        each: &mut dyn FnMut(Sighting) -> bool,
    ) -> Result<(), StoreError>;

    /// Calls `each` with every sighting in the same order. Reads no URLs.
    ///
    /// # Errors
    /// [`StoreError`]
    fn each_stored_sighting(&self, each: &mut dyn FnMut(StoredSighting)) -> Result<(), StoreError>;

    /// The documents that share index shingles with `index`, each with the number it shares. The search looks up the
    /// shingles in order, until it has seen `uncommon_limit` uncommon ones. A common shingle contributes only the
    /// first few of its documents.
    ///
    /// # Errors
    /// [`StoreError`]
    fn sharing(&self, index: &[Shingle], uncommon_limit: usize) -> Result<HashMap<DocumentId, usize>, StoreError>;

    /// The documents that share mod shingles with `mod_shingles`, each with the number it shares. Keeps the `limit`
    /// documents that share most, and all documents in `known`. Common shingles find no documents, but count in the
    /// numbers.
    ///
    /// # Errors
    /// [`StoreError`]
    fn sharing_mod(
        &self,
        mod_shingles: &[Shingle],
        known: &[DocumentId],
        limit: usize,
    ) -> Result<HashMap<DocumentId, u32>, StoreError>;

    /// The shingles under which a document is indexed. The document must exist. For a very long document some
    /// shingles may be missing.
    ///
    /// # Errors
    /// [`StoreError`]
    fn document_shingles(&self, document: DocumentId) -> Result<DocumentShingles, StoreError>;

    /// The documents equal to a content by any of the three equivalences, each once, ascending.
    ///
    /// # Errors
    /// [`StoreError`]
    fn equal_to(&self, equivalences: &Equivalences) -> Result<Vec<DocumentId>, StoreError>;

    /// The store's size on disk, in bytes.
    fn n_bytes_on_disk(&self) -> u64;
}

/// How far a snapshot may lag behind the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Staleness {
    /// Milliseconds since the snapshot last held everything in the store.
    pub staleness_ms: u64,
    /// Bytes of the store's logs that the snapshot does not hold, at the last check.
    pub unread_log_bytes: u64,
    /// Why there is no newer snapshot, if opening one failed.
    pub problem: Option<String>,
}

/// Read-only snapshots of a store that another process or thread writes to.
pub trait Snapshots: Send + Sync + 'static {
    /// The type of a snapshot.
    type Snapshot: Snapshot + RelatedView + Send + Sync + 'static;

    /// The newest snapshot.
    fn snapshot(&self) -> Arc<Self::Snapshot>;

    /// How far the newest snapshot lags behind.
    fn staleness(&self) -> Staleness;
}
