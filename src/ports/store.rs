//! What the stream needs of its store.

use super::source::ProgressMap;
use crate::cluster::{self, ClusterRow, Link, MatchRule, NewDocument};
use crate::document::{DocumentId, Fingerprint};
use crate::history::{self, MissingUrl, StoredSighting};
use crate::sketch::{Shingle, SketchRule};
use crate::sweep::{SweepRow, UrlState};
use crate::wire::Outgoing;
use serde::{Deserialize, Serialize};

/// A store that cannot do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file system or RocksDB failed.
    #[error("the store failed: {0}")]
    Failed(String),
    /// Nothing but room on the disk was missing: a second try is harmless, and succeeds once there is room.
    #[error("the disk is full: {0}; free some space and run again to go on")]
    DiskFull(String),
    /// What was read cannot be.
    #[error("the store is damaged: {0}; restore it from a copy, or make a new one from the pages")]
    Damaged(String),
    /// It cannot hold more.
    #[error(transparent)]
    Full(#[from] crate::cluster::TooManyDocuments),
}

/// The rules that a store is made with and keeps: pages taken in under other ones could not be compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoreRule {
    /// The version of the canonical form.
    pub canonical_version: u32,
    /// How documents are sketched.
    pub sketch: SketchRule,
    /// When documents belong together.
    pub cluster: MatchRule,
}

/// All that one micro-batch changes: written together or not at all.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// New documents, ascending and dense, with their postings, and the fingerprint of the URL that brought each.
    pub documents: Vec<(NewDocument, Fingerprint)>,
    /// Cluster rows in their last state.
    pub rows: Vec<ClusterRow>,
    /// Links that changed a cluster.
    pub links: Vec<Link>,
    /// Shingles that became common.
    pub common: Vec<Shingle>,
    /// URLs that were never seen before, by fingerprint.
    pub urls: Vec<(Fingerprint, String)>,
    /// Sightings.
    pub sightings: Vec<StoredSighting>,
    /// The states of the URLs seen, after it.
    pub states: Vec<(Fingerprint, UrlState)>,
    /// URLs that are missing from now on.
    pub missing: Vec<MissingUrl>,
    /// URLs that are missing no more.
    pub no_longer_missing: Vec<MissingUrl>,
    /// The sweeps that pages were seen on, after it.
    pub sweeps: Vec<(String, SweepRow)>,
    /// How far the sources have been taken in.
    pub progress: ProgressMap,
    /// The sequence number that the next event gets.
    pub next_seq: u64,
    /// Events to be published; empty where nobody listens.
    pub outbox: Vec<Outgoing>,
    /// Events below this number are out and may be forgotten.
    pub published: u64,
}

/// What the stream needs of its store: the views of both decisions, and writing. A question covers a whole batch; answers
/// come in the order of the question.
pub trait Store: Send + cluster::View<Error = StoreError> + history::View<Error = StoreError> {
    /// Equivalence fingerprint → document.
    ///
    /// # Errors
    /// [`StoreError`], as for all of these.
    fn equal(&self, keys: &[Fingerprint]) -> Result<Vec<Option<DocumentId>>, StoreError>;

    /// The URL at which each document was first seen. The documents must be there.
    ///
    /// # Errors
    /// [`StoreError`]
    fn first_urls(&self, documents: &[DocumentId]) -> Result<Vec<String>, StoreError>;

    /// Writes a batch, all or nothing, on top of those before it. It need not be durable on return: a [`Syncer`] makes it so.
    /// After a crash the store holds every batch up to some batch, and nothing of those after it.
    ///
    /// # Errors
    /// As of [`Store::commit`].
    fn write(&mut self, batch: &Batch) -> Result<(), StoreError> {
        self.commit(batch)
    }

    /// Makes written batches durable, in another thread than the one that writes the next batch meanwhile.
    fn syncer(&self) -> Box<dyn Syncer> {
        Box::new(NothingToSync)
    }

    /// Writes a batch, all or nothing. When it returns, the batch is durable.
    ///
    /// # Errors
    /// [`StoreError`]; the batch is then not in the store, or the process must end.
    fn commit(&mut self, batch: &Batch) -> Result<(), StoreError>;

    /// Events written and not yet forgotten, from a sequence number on, at most `limit` of them.
    ///
    /// # Errors
    /// [`StoreError`]
    fn outbox(&self, from: u64, limit: usize) -> Result<Vec<Outgoing>, StoreError>;

    /// The bytes that it takes on disk.
    fn n_bytes(&self) -> u64;
}

/// Makes written batches durable.
pub trait Syncer: Send {
    /// When it returns, every batch is durable that had been written before.
    ///
    /// # Errors
    /// [`StoreError`]; nobody knows then what is durable, and the process must end.
    fn sync(&self) -> Result<(), StoreError>;
}

/// The syncer of a store whose batches are durable when they are written.
pub struct NothingToSync;

impl Syncer for NothingToSync {
    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
