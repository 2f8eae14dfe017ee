//! What an engine needs of the world: a source of records, a sink of events, a store. Adapters implement these;
//! tests put plain ones in memory in their place.

mod secret;

pub use secret::SecretReference;

use crate::cluster::{ClusterRow, Clusters, Link, MatchRule, NewDocument};
use crate::document::{ClusterId, DocumentId, FetchTime, Fingerprint, Seed};
use crate::sketch::{Equivalences, Shingle, Sketch, SketchRule};
use crate::sweep::{Observation, Seen, Sighting, SweepRow, UrlState};
use crate::wire::{Message, Origin, Record};
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How far a partition of a source has been taken in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The offset of the first record not yet taken.
    pub next_offset: i64,
    /// A chained fingerprint of the records taken, where the source can be replaced behind our back (files): the
    /// source compares it when it reads past them again. 0 elsewhere.
    pub chain: u64,
}

/// How far every (source, partition) has been taken in.
pub type ProgressMap = HashMap<(String, i32), Progress>;

/// When sources begin that nothing was taken of yet: with the first record of this time or later.
pub type StartTimes = HashMap<String, FetchTime>;

/// A record, its name, and the progress of its partition once it is taken in.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// Where it came from.
    pub origin: Origin,
    /// [`Progress::chain`] after this record.
    pub chain: u64,
    /// What it is.
    pub record: Record,
}

/// What a source has to say when asked.
#[derive(Debug)]
pub enum Polled {
    /// A record.
    Record(Incoming),
    /// Nothing just now.
    Idle,
    /// Part of the input cannot be read; the source goes on with the rest. The text names the place and what to do.
    Unreadable(String),
    /// Nothing more, ever.
    End,
}

/// Why a source or a sink stops the stream, where somebody can act on it: each has an exit code of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// None of the others; the message says what to do.
    Failed,
    /// Records were deleted before they were read.
    Overtaken,
    /// What is there now is not what the store was made from.
    Replaced,
    /// The output holds events that the store does not know: the store is an older copy, or another one.
    OldStore,
    /// Somebody read the input under our name before, and the store is new.
    NoStore,
    /// Another process has taken the output over.
    Fenced,
    /// Nobody answered for too long.
    Unreachable,
    /// Whoever was asked does not believe who we are: a wrong name or password.
    NotAuthenticated,
}

/// A source that cannot go on.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct SourceError {
    /// What kind of stop it is.
    pub stop_reason: StopReason,
    /// What happened, and what to do.
    pub message: String,
}

impl SourceError {
    /// One of no particular kind.
    pub fn new(message: impl Into<String>) -> Self {
        SourceError { stop_reason: StopReason::Failed, message: message.into() }
    }
}

/// A number that an adapter tells of itself, for the metrics endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The metric's name.
    pub name: &'static str,
    /// Its labels.
    pub labels: Vec<(&'static str, String)>,
    /// The number now.
    pub value: f64,
}

impl Reading {
    /// One of these.
    pub fn new(name: &'static str, labels: Vec<(&'static str, String)>, value: f64) -> Self {
        Reading { name, labels, value }
    }
}

/// Where records come from, partition by partition in order of their offsets.
pub trait Source: Send {
    /// The next record, waiting for it no longer than `timeout`.
    ///
    /// # Errors
    /// [`SourceError`] where the whole source is lost; what can be passed over is [`Polled::Unreadable`].
    fn poll(&mut self, timeout: Duration) -> Result<Polled, SourceError>;

    /// Is told what is durable, for those who keep score outside (Kafka's lag tools). Not a promise of anything.
    fn committed(&mut self, progress: &ProgressMap) {
        let _ = progress;
    }

    /// How far behind the source's end it is, in records, where that is known.
    fn lag(&mut self) -> Option<u64> {
        None
    }

    /// What there is to tell since it was asked last.
    fn readings(&mut self) -> Vec<Reading> {
        Vec::new()
    }
}

/// An event on its way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Its number.
    pub seq: u64,
    /// The URL that it is about: the page's, or of a `moved` event the one that is gone or lost.
    pub key: Option<String>,
    /// Its bytes: one line of JSON without the line feed.
    pub json: Vec<u8>,
    /// Of a rejected message, the message as it came, for a sink that sets such aside.
    pub original: Option<Box<Message>>,
    /// What it changes in the present state of its URL.
    pub change: PresentChange,
}

impl Outgoing {
    /// An event of no rejected message, which changes what it tells.
    pub fn new(seq: u64, key: Option<String>, json: Vec<u8>) -> Self {
        Outgoing { seq, key, json, original: None, change: PresentChange::AsTold }
    }
}

/// What stands at a URL now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Present {
    /// The URL's newest sighting ([`UrlState::newest`]).
    pub newest: Observation,
    /// The cluster of the document that it is of, where it is one of a page.
    pub cluster: Option<ClusterId>,
}

/// What an event changes in the present state of its URL. A page that comes late, after one that was fetched later, is
/// told as any other, and the URL stands where it stood.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PresentChange {
    /// What the event itself tells: nearly always.
    #[default]
    AsTold,
    /// Nothing: its page comes late.
    Nothing,
    /// Its page comes late and undoes a mark of loss: this stands there now.
    To(Present),
}

/// What a store remembers of a topic that it publishes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputNote {
    /// How many partitions it had when the store first published there.
    pub n_partitions: u32,
    /// Whether it holds all that it would, had every event of the store gone there.
    pub is_whole: bool,
}

/// Topics that a store publishes to, by name.
pub type OutputNotes = HashMap<String, OutputNote>;

/// A sink that cannot take an event.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct SinkError {
    /// What kind of stop it is.
    pub stop_reason: StopReason,
    /// What happened, and what to do.
    pub message: String,
}

impl SinkError {
    /// One of no particular kind.
    pub fn new(message: impl Into<String>) -> Self {
        SinkError { stop_reason: StopReason::Failed, message: message.into() }
    }
}

/// Where events go, in the order of their sequence.
pub trait Sink: Send {
    /// The sequence number of the last event out there, where the sink can tell: whoever published it need not
    /// remember having done so.
    ///
    /// # Errors
    /// [`SinkError`] where the output cannot be read.
    fn last_seq(&mut self) -> Result<Option<u64>, SinkError>;

    /// Publishes events; when it returns, they are durable out there.
    ///
    /// # Errors
    /// [`SinkError`]; some of the events may be out there nevertheless.
    fn publish(&mut self, events: &[Outgoing]) -> Result<(), SinkError>;

    /// What there is to tell since it was asked last.
    fn readings(&mut self) -> Vec<Reading> {
        Vec::new()
    }

    /// Whether it has a use for [`Outgoing::original`]; if not, originals are not even stored.
    fn wants_originals(&self) -> bool {
        false
    }
}

/// What a process leaves behind for the next one should it die.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CrashNote {
    /// What is known of earlier deaths.
    CrashHistory,
    /// The record in hand.
    Taken,
    /// The place that is being read from.
    Reading,
    /// That the process is dying, and nobody killed it.
    Death,
}

/// What a source asks and tells where reading itself may have killed the program before.
pub trait PoisonGuard: Send + Sync {
    /// Whether no more is to be fetched at once than must be, and each place noted before.
    fn is_cautious(&self) -> bool;

    /// Notes the place that is being fetched from; none: nothing is.
    fn reading(&self, place: Option<&Origin>);

    /// Whether the program died of fetching from a place, again and again.
    fn is_poison(&self, place: &Origin) -> bool;
}

/// A few bytes of each kind that outlive the process, though not the machine.
pub trait CrashNotes: Send + Sync {
    /// What was written last; nothing where nothing was.
    ///
    /// # Errors
    /// [`StoreError`], as of [`Self::write`].
    fn read(&self, note: CrashNote) -> Result<Vec<u8>, StoreError>;

    /// Writes, all or nothing wherever the process is killed. Takes microseconds.
    ///
    /// # Errors
    /// [`StoreError`]
    fn write(&self, note: CrashNote, bytes: &[u8]) -> Result<(), StoreError>;
}

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

/// A sighting as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSighting {
    /// The URL's fingerprint.
    pub url: Fingerprint,
    /// When, what, on which sweep.
    pub moment: Observation,
}

/// A URL that is gone or lost, and nobody was told yet where its last copy is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MissingUrl {
    /// The last copy.
    pub document: DocumentId,
    /// When it was last seen there.
    pub last_seen: FetchTime,
    /// The URL's fingerprint.
    pub url: Fingerprint,
}

impl MissingUrl {
    /// What a URL's state asks the world for.
    pub fn of(url: Fingerprint, state: &UrlState) -> Option<Self> {
        state.sought().map(|copy| MissingUrl { document: copy.document, last_seen: copy.fetched_at, url })
    }
}

impl StoredSighting {
    /// The order of sightings in the store.
    pub fn cmp_stored(&self, other: &Self) -> Ordering {
        fn key(sighting: &StoredSighting) -> impl Ord + '_ {
            let Observation { fetched_at, seen, sweep } = &sighting.moment;
            let sweep = sweep.as_deref().unwrap_or("");
            let (kind, target, document) = match seen {
                Seen::Lost => (0, "", 0),
                Seen::Gone => (1, "", 0),
                Seen::Redirect(target) => (2, target.as_str(), 0),
                Seen::Document(document) => (3, "", document.0),
            };
            (sighting.url, *fetched_at, kind, sweep.len(), sweep, target, document)
        }
        key(self).cmp(&key(other))
    }
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
    /// URLs that are sought from now on.
    pub sought: Vec<MissingUrl>,
    /// URLs that are sought no more.
    pub not_sought: Vec<MissingUrl>,
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

/// What the stream asks of its store. Questions come by the batch; answers are in the order of the questions.
pub trait Store: Send {
    /// Equivalence fingerprint → document.
    ///
    /// # Errors
    /// [`StoreError`], as for all of these.
    fn equal(&self, keys: &[Fingerprint]) -> Result<Vec<Option<DocumentId>>, StoreError>;

    /// Shingle → documents.
    ///
    /// # Errors
    /// [`StoreError`]
    fn postings(&self, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, StoreError>;

    /// Super shingle → documents.
    ///
    /// # Errors
    /// [`StoreError`]
    fn supers(&self, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, StoreError>;

    /// The sketches of documents that must be there.
    ///
    /// # Errors
    /// [`StoreError`]
    fn sketches(&self, documents: &[DocumentId]) -> Result<Vec<Arc<Sketch>>, StoreError>;

    /// The URL at which each of some documents, that must be there, was first seen.
    ///
    /// # Errors
    /// [`StoreError`]
    fn first_urls(&self, documents: &[DocumentId]) -> Result<Vec<String>, StoreError>;

    /// The states of URLs, by fingerprint.
    ///
    /// # Errors
    /// [`StoreError`]
    fn states(&self, urls: &[Fingerprint]) -> Result<Vec<Option<UrlState>>, StoreError>;

    /// All sightings of a URL, oldest first: only for one that comes late.
    ///
    /// # Errors
    /// [`StoreError`]
    fn history(&self, url: Fingerprint) -> Result<Vec<Observation>, StoreError>;

    /// Sweeps by name.
    ///
    /// # Errors
    /// [`StoreError`]
    fn sweeps(&self, names: &[&str]) -> Result<Vec<Option<SweepRow>>, StoreError>;

    /// URLs that were seen, in the order of their fingerprints.
    ///
    /// # Errors
    /// [`StoreError`]
    fn urls(&self, keys: &[Fingerprint]) -> Result<Vec<String>, StoreError>;

    /// The newest sightings of each of some documents, at most `most_each` of each.
    ///
    /// # Errors
    /// [`StoreError`]
    fn standings(&self, documents: &[DocumentId], most_each: usize) -> Result<Vec<StoredSighting>, StoreError>;

    /// All URLs that are sought.
    ///
    /// # Errors
    /// [`StoreError`]
    fn sought(&self) -> Result<Vec<MissingUrl>, StoreError>;

    /// Calls `each` with the state of every URL.
    ///
    /// # Errors
    /// [`StoreError`]
    fn each_state(&self, each: &mut dyn FnMut(Fingerprint, UrlState)) -> Result<(), StoreError>;

    /// Writes a batch, all or nothing, on top of those before it, and need not wait until it is durable: that it is once
    /// a [`Syncer`] that was asked afterwards says so. Whatever survives is all up to some batch.
    ///
    /// # Errors
    /// As of [`Store::commit`].
    fn write(&mut self, batch: &Batch) -> Result<(), StoreError> {
        self.commit(batch)
    }

    /// Makes durable what was written, in another thread than the one that writes the next batch meanwhile.
    fn syncer(&self) -> Box<dyn Syncer> {
        Box::new(NothingToSync)
    }

    /// Writes a batch, all or nothing. When it returns, the batch is durable.
    ///
    /// # Errors
    /// [`StoreError`]; the batch is then not in the store, or the process must end.
    fn commit(&mut self, batch: &Batch) -> Result<(), StoreError>;

    /// Events written and not yet forgotten, from a sequence number on, at most `most` of them.
    ///
    /// # Errors
    /// [`StoreError`]
    fn outbox(&self, from: u64, most: usize) -> Result<Vec<Outgoing>, StoreError>;

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
        self.seed().fingerprint("url", &[url.as_bytes()])
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

/// What closing a sweep did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClosedSweep {
    /// The sweep.
    pub sweep: String,
    /// Hosts that it visited and that have URLs it did not see.
    pub n_hosts: u64,
    /// URLs that were marked as lost.
    pub n_lost: u64,
    /// Of them, those whose content is known to stand elsewhere; none where nobody listens to events.
    pub n_moved: Option<u64>,
}

/// Why a sweep that somebody else is asked to close is not known to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseFailure {
    /// No page names it.
    Unknown,
    /// Too many others are asked for already.
    Busy,
    /// It is being closed, or will be; who asked waited no longer.
    Late,
    /// Whoever writes has ended, or ends; what was marked by then stays, and closing it again goes on.
    Ended,
}

/// Has the one who writes to a store close its sweeps.
pub trait SweepCloser: Send + Sync {
    /// Marks as lost what a sweep should have seen and did not. When it returns, that is durable, and the second number is
    /// that of the next event.
    ///
    /// # Errors
    /// [`CloseFailure`]
    fn close(&self, sweep: &str, patience: Duration) -> Result<(ClosedSweep, u64), CloseFailure>;
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
