//! The store as the stream sees it: the views of both decisions, and batches of writes.

use super::source::ProgressMap;
use crate::cluster::{self, ClusterCounts, ClusterRow, EqualCluster, Link, MatchRule, NewDocument};
use crate::document::{CanonicalRule, DocumentId, Fingerprint, Seed};
use crate::history::{self, HistoryCounts, MissingUrl, StoredSighting};
use crate::intake::KeptText;
use crate::related::Said;
use crate::sketch::{Shingle, SketchRule, Sketcher};
use crate::sweep::{SweepRow, UrlState};
use crate::wire::Outgoing;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The store cannot do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file system or RocksDB failed.
    #[error("the store failed: {0}")]
    Failed(String),
    /// Only disk space is missing. A retry is harmless, and succeeds once there is space.
    #[error("the disk is full: {0}; free some space and run again to go on")]
    DiskFull(String),
    /// The store holds bytes that the program never writes.
    #[error("the store is damaged: {0}; restore it from a copy, or make a new one from the pages")]
    Damaged(String),
    /// The store has no document ids left.
    #[error(transparent)]
    Full(#[from] crate::cluster::TooManyDocuments),
}

/// The rules that a store is created with. They never change, because documents sketched under different rules are
/// not comparable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoreRule {
    /// The version of the canonical form, [`CanonicalRule::version`].
    pub canonical_version: u32,
    /// Which words of a page count. The default is not written.
    #[serde(rename = "canonical", default, skip_serializing_if = "CanonicalRule::is_default")]
    pub canonical: CanonicalRule,
    /// How documents are sketched.
    pub sketch: SketchRule,
    /// When two documents belong to one cluster.
    pub cluster: MatchRule,
}

impl StoreRule {
    /// Creates a sketcher of pages for a store with this rule and a seed.
    pub fn sketcher(&self, seed: &Seed) -> Sketcher {
        Sketcher::new(&self.sketch, seed).reading(&self.canonical)
    }
}

/// What a store adds up to: what `stats` shows without counting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreCounts {
    /// Its histories.
    pub history: HistoryCounts,
    /// Its clusters.
    pub clusters: ClusterCounts,
}

/// Everything that one micro-batch changes. The store writes all of it or nothing.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// New documents with their postings, each with the fingerprint of its first URL; ids are dense and ascend.
    pub documents: Vec<(NewDocument, Fingerprint)>,
    /// What documents say about themselves and others, where that is read.
    pub said: Vec<(DocumentId, Arc<Said>)>,
    /// The texts of documents, where they are kept.
    pub texts: Vec<(DocumentId, KeptText)>,
    /// Cluster rows in their final state.
    pub rows: Vec<ClusterRow>,
    /// Links that changed a cluster.
    pub links: Vec<Link>,
    /// Shingles that became common.
    pub common: Vec<Shingle>,
    /// URLs never seen before, by fingerprint.
    pub urls: Vec<(Fingerprint, String)>,
    /// Sightings.
    pub sightings: Vec<StoredSighting>,
    /// The states, after this batch, of the URLs it touches.
    pub states: Vec<(Fingerprint, UrlState)>,
    /// URLs that become missing.
    pub missing: Vec<MissingUrl>,
    /// URLs that stop being missing.
    pub no_longer_missing: Vec<MissingUrl>,
    /// The rows, after this batch, of the sweeps it touches.
    pub sweeps: Vec<(String, SweepRow)>,
    /// What the store adds up to after this batch; none where the batch changes nothing of it.
    pub counts: Option<StoreCounts>,
    /// Documents whose number of URLs is counted, after this batch.
    pub equal_clusters: Vec<EqualCluster>,
    /// Progress in each source.
    pub progress: ProgressMap,
    /// The sequence number of the next event.
    pub next_seq: u64,
    /// Events to publish; empty without a sink.
    pub outbox: Vec<Outgoing>,
    /// Events below this number are published, and the outbox may drop them.
    pub published: u64,
}

/// What the stream needs from its store. Each call covers a whole batch; answers come in the order of the keys. Any
/// number of threads may read and encode while one writes and one indexes. A read sees at least the batches that were
/// indexed when it began.
pub trait Store: Send + Sync + cluster::View<Error = StoreError> + history::View<Error = StoreError> {
    /// A batch with its events, as it is written.
    type Encoded: Send;
    /// What is left to do for a batch that is written.
    type Written: Send;

    /// The documents with these equivalence fingerprints.
    ///
    /// # Errors
    /// [`StoreError`], as for every method here.
    fn equal(&self, keys: &[Fingerprint]) -> Result<Vec<Option<DocumentId>>, StoreError>;

    /// The key of the URL where each document was first seen. The documents must exist.
    ///
    /// # Errors
    /// [`StoreError`]
    fn first_url_keys(&self, documents: &[DocumentId]) -> Result<Vec<Fingerprint>, StoreError>;

    /// The URL where each document was first seen. The documents must exist.
    ///
    /// # Errors
    /// [`StoreError`]
    fn first_urls(&self, documents: &[DocumentId]) -> Result<Vec<String>, StoreError> {
        self.urls(&self.first_url_keys(documents)?)
    }

    /// What the store adds up to, and the documents that stand alone at several URLs. A store without counts, as an older
    /// program leaves it, is counted, which reads all sightings; from then on it has them.
    ///
    /// # Errors
    /// [`StoreError`]
    fn counts(&self) -> Result<(StoreCounts, Vec<EqualCluster>), StoreError>;

    /// Encodes a batch without its outbox, and the events that belong there.
    ///
    /// # Errors
    /// [`StoreError`]
    fn encode(&self, batch: &Batch, events: &[Outgoing]) -> Result<Self::Encoded, StoreError>;

    /// Writes a batch, all or nothing, after all earlier batches; one thread at a time. Events below `published` are
    /// published. The batch may not be durable on return: a [`Syncer`] makes it so. After a crash the store holds a
    /// prefix of the batches written.
    ///
    /// # Errors
    /// As for [`Store::commit`].
    fn write(&self, batch: Self::Encoded, published: u64) -> Result<Self::Written, StoreError>;

    /// Makes the postings of a written batch readable, after those of all earlier batches; one thread at a time. Only
    /// then every read sees the whole batch.
    ///
    /// # Errors
    /// [`StoreError`]
    fn index(&self, written: Self::Written) -> Result<(), StoreError>;

    /// A handle that makes written batches durable from another thread, while the writer writes the next.
    fn syncer(&self) -> Box<dyn Syncer> {
        Box::new(NothingToSync)
    }

    /// Writes a batch, all or nothing. On return the batch is durable.
    ///
    /// # Errors
    /// [`StoreError`]; the batch is then not in the store, or the process must end.
    fn commit(&self, batch: &Batch) -> Result<(), StoreError>;

    /// At most `limit` events of the outbox, from a sequence number on.
    ///
    /// # Errors
    /// [`StoreError`]
    fn outbox(&self, from: u64, limit: usize) -> Result<Vec<Outgoing>, StoreError>;

    /// The store's size on disk, in bytes.
    fn n_bytes(&self) -> u64;
}

/// Makes written batches durable.
pub trait Syncer: Send {
    /// On return, every batch written before the call is durable.
    ///
    /// # Errors
    /// [`StoreError`]; it is then unknown what is durable, and the process must end.
    fn sync(&self) -> Result<(), StoreError>;
}

/// The syncer of a store that writes durably at once.
pub struct NothingToSync;

impl Syncer for NothingToSync {
    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
