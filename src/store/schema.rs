//! The bytes on disk: keys and values of every column family, format version 2.
//!
//! Numbers in keys and rows are big-endian, so that keys sort like numbers. A fingerprint takes 16 bytes, a document
//! 4 bytes, a super shingle 8 bytes, any other shingle as many bytes as its bits need (5 at 40 bits). A time takes
//! 8 bytes: microseconds since 1970 with the sign bit flipped, so that earlier times sort first. A varint is LEB128.
//! Documents are numbered from 1; 0 means none.
//!
//! | column family | key | value |
//! |---|---|---|
//! | `meta` | a name, see [`meta`] | |
//! | `offsets` | source, `00`, partition (4) | next offset (8), chain (8) |
//! | `docs` | document | fingerprint of the first URL (16), checksum of the postings (8), varints: words, bytes, index shingles, super shingles, mod shingles; sketch ([`crate::sketch::encode`]) |
//! | `equal` | equivalence fingerprint | document |
//! | `urls` | URL fingerprint | URL |
//! | `sightings` | URL fingerprint, time, kind (1), length of sweep (4), sweep, then by kind: 0 lost, 1 gone: nothing; 2 redirect: the target; 3 page: document | empty |
//! | `standings` (sightings by document) | document, time, URL fingerprint, sweep | empty |
//! | `states` | URL fingerprint | host fingerprint (8), found (1), the newest sighting as in `sightings` (length (4), time to end), and the last copy in the same form, or nothing if there is none or it is the newest sighting |
//! | `sought` (missing URLs) | document, time, URL fingerprint | empty |
//! | `sweeps` | name | first time, last time, pages (8), gone (8), closed (1), lost (8) |
//! | `clusters` | document | parent, next in ring, size, name (4 each), the last two 0 unless it is a root; no row: a cluster of one |
//! | `links` | later document, earlier document | resemblance (8, IEEE 754) |
//! | `supers` | run (4), super shingle | the lists of super shingles up to this one, packed: see below |
//! | `postings` | run (4), shingle | the lists of shingles up to this one, packed: see below |
//! | `supers`, `postings` | run (4), as many `ff` as a shingle has bytes, number (4) | 0: the blocks of the run's filter (8) and the keys in it (8); from 1 on: 1,024 blocks of 64 bytes each. Little-endian |
//! | `mod-postings` | mod shingle, document | empty |
//! | `pending` | first document of a batch | for each document of the batch: varint n, n shingles; varint n, n super shingles; varint n, n mod shingles |
//! | `pending` | first document of a batch, `01` | for each document of the batch: varint n, n equivalence fingerprints |
//! | `common` | shingle | empty |
//! | `said` | document | what it says: [`crate::related::Said::encode`] |
//! | `fragments` | target (8), host (4), said (8) | a document that says it |
//! | `redirects` | target (8), fingerprint of a URL that redirects there, or once did | empty |
//! | `bags` | target (8) | for each term: term (4), weight (1) |
//! | `champions` | term (4), 255 - weight (1), target (8) | more targets of the same term and weight, ascending (8 each) |
//! | `terms` | term (4) | bags of content and bags of anchors that hold it (4 each) |
//! | `neighbours` | target (8) | center (8); for each of the nearest: target (8), similarity (4, IEEE 754) |
//! | `centers` | center (8), member (8) | empty |
//! | `texts` | document | length of its text in bytes (4), the text in one zstd frame: see below |
//! | `outbox` | sequence number (8) | key, event, and the original of a rejected message: see below |
//!
//! **Outbox.** A row is a list of fields, each after its length (4; `ffffffff`: no field). First come the key and the
//! event. For a rejected message follow the original's key and value, its time (8), what is left out (1: nothing, 2:
//! the value, with its length (8), 3: the headers), and its headers as pairs of name and value. For a page that
//! arrived late, `fffffffe` follows the event, and then the present state of the URL: nothing if the page changes
//! nothing, else a cluster (4; 0: none) and a sighting as in `sightings` (time to end).
//!
//! **Texts.** The family is there once texts were kept (`store.keep_text`). A document has a row if it came with a body meanwhile. Of a
//! text over the limit only the length is kept. The canonical form of a text is that of its document.
//!
//! **Lists.** A list has the documents with one shingle, at most one more than the common limit. They ascend: the first as a
//! varint, then the difference of each next one. A row of `supers` or `postings` is a block of lists, in the order of their
//! shingles, none of them behind that of the key. For each list: how far its shingle is from the one before, the first from 0
//! (varint); how many bytes its documents take (varint); the documents. A run has the lists of some documents in row, so that the
//! list of a shingle is what the runs have of it, one after the other. Only the runs that `meta/posting-runs` names count (see
//! `store::posting_runs`).
//!
//! **Derived families.** `equal`, `supers`, `postings` and `mod-postings` are indexes over the documents. A batch writes
//! what it adds to them as two rows of `pending`. It also stays in memory until RocksDB ingests it as a sorted run (see
//! `store::runs`). A look-up combines these families with the part of `pending` above `meta/indexed-up-to`. What is in
//! both is harmless. The limit of a list holds for both together, because the decision sees both.
//!
//! **Related pages.** The families from `said` to `centers` are there only where pages are read for related pages. A target is the first 8
//! bytes of a URL's fingerprint. `fragments` is derived from `said`, and what may not be in a run yet is read from the
//! rows of `said` above `meta/indexed-up-to`. `redirects` leads back from where a row of `states` redirects; a row counts only
//! while that redirect stands. A build rewrites all of these families except `said`.
//!
//! **Mod postings.** Each posting of a mod shingle is a key of its own, because only queries read it. These lists
//! have no limit on disk; readers apply one.
//!
//! **Invariants**
//!
//! - Documents are dense from 1 to `meta/documents`, but for `meta/forgotten` of them, which no row names.
//! - Every document in `standings`, `equal`, `postings`, `supers` and `mod-postings` is in `docs`.
//! - A document is in as many lists of each derived family, `pending` included, as its row in `docs` says. The
//!   shingles of these lists give its checksum.
//! - Every document above `meta/indexed-up-to` is in exactly one row of `pending` with its postings, and either in one
//!   with its equivalence fingerprints or in `equal`.
//! - `sightings` and `standings` hold the same sightings of documents.
//! - Each row of `states` is [`UrlState::from_history`] the URL's sightings, apart from `found`.
//! - `meta/counts`, where its event number is `meta/next-seq`, and the last row of each document in `meta/equal/…` are what
//!   the other rows add up to.
//! - `sought` holds the last copy of every URL with [`UrlState::missing_copy`].
//! - Every row of `texts` is of a document, and its text has the words of that document.
//! - Parents form trees.
//! - `outbox` holds the events from `meta/published` to `meta/next-seq`, or none for a store without a sink; and before
//!   them, where events are kept, those from `meta/kept-from` on. Of a kept event that tells of something forgotten, the
//!   row is left without a key and without bytes.

use crate::cluster::{ClusterCounts, ClusterRow, EqualCluster, Link, NewDocument};
use crate::codec::{decode_field, decode_varint, encode_field, encode_varint};
use crate::document::{ClusterId, DocumentId, FetchTime, Fingerprint};
use crate::history::HistoryCounts;
use crate::ports::{
    InputState, LoadDocument, MissingUrl, Neighbours, Outgoing, OutputNote, Present, PresentChange, Progress,
    StoreCounts, StoredDocument, StoredSighting,
};
use crate::related::{Bag, FragmentKey, Target, Term};
use crate::sketch::Shingle;
use crate::sweep::{LastCopy, Observation, Seen, SweepRow, UrlState};
use crate::wire::Message;
use std::sync::Arc;

/// The format that this version writes.
pub const FORMAT_VERSION: u32 = 2;

/// The oldest format that this version reads.
pub const OLDEST_READABLE_FORMAT: u32 = 2;

/// The names of the column families.
pub mod cf {
    /// Format, rules and counters.
    pub const META: &str = "meta";
    /// Progress in each source.
    pub const OFFSETS: &str = "offsets";
    /// Documents.
    pub const DOCS: &str = "docs";
    /// Equivalence fingerprints.
    pub const EQUAL: &str = "equal";
    /// URLs.
    pub const URLS: &str = "urls";
    /// Sightings by URL.
    pub const SIGHTINGS: &str = "sightings";
    /// Sightings by document.
    pub const SIGHTINGS_BY_DOCUMENT: &str = "standings";
    /// The current state of each URL.
    pub const STATES: &str = "states";
    /// Missing URLs: gone or lost, and not found elsewhere yet.
    pub const MISSING_URLS: &str = "sought";
    /// Sweeps.
    pub const SWEEPS: &str = "sweeps";
    /// The union-find forest.
    pub const CLUSTERS: &str = "clusters";
    /// Verified links.
    pub const LINKS: &str = "links";
    /// Super shingles.
    pub const SUPERS: &str = "supers";
    /// Index shingles.
    pub const POSTINGS: &str = "postings";
    /// Common shingles.
    pub const COMMON: &str = "common";
    /// Events not yet known to be published.
    pub const OUTBOX: &str = "outbox";
    /// Mod shingles, if the rule indexes them.
    pub const MOD_POSTINGS: &str = "mod-postings";
    /// Postings and equivalence fingerprints that may be in no run yet.
    pub const PENDING: &str = "pending";
    /// What documents say, where pages are read for related pages.
    pub const SAID: &str = "said";
    /// Which documents speak of a URL.
    pub const FRAGMENTS: &str = "fragments";
    /// Which URLs redirect to a URL.
    pub const REDIRECTS: &str = "redirects";
    /// The bags of URLs, by the last build.
    pub const BAGS: &str = "bags";
    /// The URLs under the heaviest terms of their bags.
    pub const CHAMPIONS: &str = "champions";
    /// In how many bags each term is.
    pub const TERMS: &str = "terms";
    /// The most similar URLs of each, and the center of its cluster.
    pub const NEIGHBOURS: &str = "neighbours";
    /// The members of clusters of related pages, by center.
    pub const CENTERS: &str = "centers";
    /// The texts of documents, in stores that keep them or once did.
    pub const TEXTS: &str = "texts";

    /// The families of related pages, which only stores have whose pages are read for them.
    pub const RELATED: [&str; 8] = [SAID, FRAGMENTS, REDIRECTS, BAGS, CHAMPIONS, TERMS, NEIGHBOURS, CENTERS];

    /// The column families of every store.
    pub const ALL: [&str; 18] = [
        META,
        OFFSETS,
        DOCS,
        EQUAL,
        URLS,
        SIGHTINGS,
        SIGHTINGS_BY_DOCUMENT,
        STATES,
        MISSING_URLS,
        SWEEPS,
        CLUSTERS,
        LINKS,
        SUPERS,
        POSTINGS,
        MOD_POSTINGS,
        PENDING,
        COMMON,
        OUTBOX,
    ];
}

/// The keys of the column family `meta`.
pub mod meta {
    /// The format version (4).
    pub const FORMAT: &[u8] = b"format";
    /// The store's secret seed (32).
    pub const SEED: &[u8] = b"seed";
    /// The store's random id (16).
    pub const ID: &[u8] = b"id";
    /// The rules, as JSON.
    pub const RULE: &[u8] = b"rule";
    /// The smallest resemblance that a link may have (8, IEEE 754), after reclustering.
    pub const LINKED_FROM: &[u8] = b"linked-from";
    /// The number of documents (4).
    pub const DOCUMENTS: &[u8] = b"documents";
    /// The number of documents that were forgotten (4). Their numbers are gaps in `docs`.
    pub const FORGOTTEN: &[u8] = b"forgotten";
    /// The sequence number of the next event (8).
    pub const NEXT_SEQ: &[u8] = b"next-seq";
    /// Events below this number are published (8).
    pub const PUBLISHED: &[u8] = b"published";
    /// The first event that is kept (8), and `published` as it was then (8): where another number stands there, a program
    /// that keeps no events has written since, and none are kept. The row is there only where events are kept.
    pub const KEPT_FROM: &[u8] = b"kept-from";
    /// Followed by the name of a watch: the next event to look at for it (8).
    pub const WATCH: &[u8] = b"watch/";
    /// Followed by the name of an input that was read to its end: its size (8), and when it was last changed (8), if that is
    /// known.
    pub const INPUT: &[u8] = b"input/";
    /// What the store adds up to (varints), and `next-seq` as it was then (8): see `counts_row`.
    pub const COUNTS: &[u8] = b"counts";
    /// Followed by `next-seq` as it was then (8) and a part (4): documents that stand alone at several URLs, each with the
    /// number of these, or 0 where that is no longer so. Later rows count.
    pub const EQUAL: &[u8] = b"equal/";
    /// The rule under which pages are read for related pages, as JSON.
    pub const RELATED_RULE: &[u8] = b"related-rule";
    /// The last build of related pages, as JSON.
    pub const RELATED_BUILD: &[u8] = b"related-build";
    /// There while a build of related pages is swapped in (empty).
    pub const RELATED_SWAP: &[u8] = b"related-swap";
    /// Runs hold the postings and equivalence fingerprints of all documents up to this one (4).
    pub const INDEXED_UP_TO: &[u8] = b"indexed-up-to";
    /// The runs of postings, see `store::posting_runs`: of index shingles, then of super shingles, how many there are (4), and for each,
    /// from that of the first documents, its number (4) and its level (1).
    pub const POSTING_RUNS: &[u8] = b"posting-runs";
    /// Followed by a topic: the number of partitions when the store first published there (4), and whether the topic
    /// is complete (1), see [`crate::ports::OutputNote`].
    pub const OUTPUT: &[u8] = b"output/";
    /// The tag of the file with the filter of keys (16), see `key_filter_file`.
    pub const KEY_FILTER: &[u8] = b"key-filter";
    /// Followed by a source: where to start it while it has no progress (8, microseconds since 1970).
    pub const BEGINNING: &[u8] = b"beginning/";
}

/// The three kinds of postings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostingKind {
    /// Postings of index shingles.
    Index,
    /// Postings of super shingles.
    Super,
    /// Postings of mod shingles.
    Mod,
}

impl PostingKind {
    /// Every kind, in the order of a row of `pending`.
    pub const ALL: [PostingKind; 3] = [PostingKind::Index, PostingKind::Super, PostingKind::Mod];

    /// The column family that holds these postings.
    pub fn family(self) -> &'static str {
        match self {
            PostingKind::Index => cf::POSTINGS,
            PostingKind::Super => cf::SUPERS,
            PostingKind::Mod => cf::MOD_POSTINGS,
        }
    }

    /// The number of bytes of a shingle of `bits` bits in keys and rows.
    pub(super) fn width(self, bits: u32) -> usize {
        match self {
            PostingKind::Index | PostingKind::Mod => bits.div_ceil(8) as usize,
            PostingKind::Super => 8,
        }
    }
}

/// The contribution of one posting to its document's checksum, which is the sum and so independent of the order.
pub fn posting_checksum(kind: PostingKind, shingle: Shingle) -> u64 {
    // The mixer of SplitMix64: each input bit changes about half of the output bits.
    let mut mixed = shingle.wrapping_add((kind as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The shingles of a new document, in the order of [`PostingKind::ALL`].
pub(super) fn postings_of(document: &NewDocument) -> [&[Shingle]; 3] {
    [&document.index, &document.super_shingles, &document.mod_shingles]
}

/// A cursor over the fields of a row.
pub(super) struct Fields<'a>(pub &'a [u8]);

impl Fields<'_> {
    pub fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.bytes().map(u32::from_be_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.bytes().map(u64::from_be_bytes)
    }

    pub fn fingerprint(&mut self) -> Option<Fingerprint> {
        self.bytes().map(|bytes| Fingerprint(u128::from_be_bytes(bytes)))
    }

    pub fn time(&mut self) -> Option<FetchTime> {
        self.u64().map(|sortable| FetchTime((sortable ^ (1 << 63)) as i64))
    }

    pub fn document(&mut self) -> Option<DocumentId> {
        self.u32().map(DocumentId)
    }

    pub fn varint(&mut self) -> Option<u64> {
        decode_varint(&mut self.0)
    }

    /// A shingle of `width` bytes.
    pub fn shingle(&mut self, width: usize) -> Option<Shingle> {
        let (bytes, rest) = self.0.split_at_checked(width)?;
        self.0 = rest;
        Some(bytes.iter().fold(0, |shingle, byte| shingle << 8 | Shingle::from(*byte)))
    }
}

/// Appends the last `width` bytes of a shingle. The bytes before them are 0.
pub(super) fn put_shingle(row: &mut Vec<u8>, shingle: Shingle, width: usize) {
    row.extend_from_slice(&shingle.to_be_bytes()[8 - width..]);
}

pub(super) fn fragment_key(target: Target, key: FragmentKey) -> Vec<u8> {
    [&target.0.to_be_bytes()[..], &key.host.to_be_bytes(), &key.said.to_be_bytes()].concat()
}

pub(super) fn read_fragment(key: &[u8], row: &[u8]) -> Option<(Target, FragmentKey, DocumentId)> {
    let mut fields = Fields(key);
    let (target, host, said) = (Target(fields.u64()?), fields.u32()?, fields.u64()?);
    let document = Fields(row).document().filter(|_| row.len() == 4 && fields.0.is_empty())?;
    Some((target, FragmentKey { host, said }, document))
}

pub(super) fn redirect_key(to: Target, from: Fingerprint) -> Vec<u8> {
    [&to.0.to_be_bytes()[..], &fingerprint_key(from)].concat()
}

pub(super) fn read_redirect_key(key: &[u8]) -> Option<(Target, Fingerprint)> {
    let mut fields = Fields(key);
    let redirect = (Target(fields.u64()?), fields.fingerprint()?);
    fields.0.is_empty().then_some(redirect)
}

pub(super) fn bag_row(bag: &Bag) -> Vec<u8> {
    let mut row = Vec::with_capacity(5 * bag.weights().len());
    for (term, weight) in bag.weights() {
        row.extend(term.0.to_be_bytes());
        row.push(*weight);
    }
    row
}

pub(super) fn read_bag(row: &[u8]) -> Option<Bag> {
    let (entries, rest) = row.as_chunks::<5>();
    let weight = |[a, b, c, d, weight]: &[u8; 5]| (Term(u32::from_be_bytes([*a, *b, *c, *d])), *weight);
    rest.is_empty().then(|| Bag::new(entries.iter().map(weight).collect()))
}

pub(super) fn neighbours_row(neighbours: &Neighbours) -> Vec<u8> {
    let mut row = Vec::with_capacity(8 + 12 * neighbours.nearest.len());
    row.extend(neighbours.center.0.to_be_bytes());
    for (target, similarity) in &neighbours.nearest {
        row.extend(target.0.to_be_bytes());
        row.extend(similarity.to_be_bytes());
    }
    row
}

pub(super) fn read_neighbours(row: &[u8]) -> Option<Neighbours> {
    let mut fields = Fields(row);
    let mut neighbours = Neighbours { center: Target(fields.u64()?), nearest: Vec::new() };
    while !fields.0.is_empty() {
        neighbours.nearest.push((Target(fields.u64()?), f32::from_be_bytes(fields.bytes()?)));
    }
    Some(neighbours)
}

pub(super) fn member_key(center: Target, member: Target) -> [u8; 16] {
    ((u128::from(center.0) << 64) | u128::from(member.0)).to_be_bytes()
}

pub(super) fn read_member_key(key: &[u8]) -> Option<(Target, Target)> {
    let mut fields = Fields(key);
    let member = (Target(fields.u64()?), Target(fields.u64()?));
    fields.0.is_empty().then_some(member)
}

pub(super) fn champion_key(term: Term, weight: u8, target: Target) -> Vec<u8> {
    [&term.0.to_be_bytes()[..], &[u8::MAX - weight], &target.0.to_be_bytes()].concat()
}

/// The URLs of a row, ascending, with their term and weight.
pub(super) fn read_champions(key: &[u8], row: &[u8]) -> Option<(Term, u8, impl Iterator<Item = Target>)> {
    let mut fields = Fields(key);
    let (term, [weight], first) = (Term(fields.u32()?), fields.bytes()?, Target(fields.u64()?));
    let (others, rest) = row.as_chunks::<8>();
    let others = others.iter().map(|target| Target(u64::from_be_bytes(*target)));
    (fields.0.is_empty() && rest.is_empty()).then_some((term, u8::MAX - weight, std::iter::once(first).chain(others)))
}

pub(super) fn fingerprint_key(fingerprint: Fingerprint) -> [u8; 16] {
    fingerprint.0.to_be_bytes()
}

/// A row of `meta/input/…`.
pub(super) fn input_state_row(state: InputState) -> Vec<u8> {
    let mut row = state.n_bytes.to_be_bytes().to_vec();
    row.extend(state.changed_at.map(sortable).as_ref().map_or(&[][..], |time| time));
    row
}

/// Reads what [`input_state_row`] makes.
pub(super) fn read_input_state(row: &[u8]) -> Option<InputState> {
    let mut fields = Fields(row);
    let n_bytes = fields.u64()?;
    let changed_at = if fields.0.is_empty() { None } else { Some(fields.time()?) };
    fields.0.is_empty().then_some(InputState { n_bytes, changed_at })
}

/// A row of `meta/counts`.
pub(super) fn counts_row(counts: &StoreCounts, next_seq: u64) -> Vec<u8> {
    let StoreCounts { history, clusters } = counts;
    let (largest, size) = clusters.largest.map_or((0, 0), |(name, size)| (name.0, size));
    let mut row = next_seq.to_be_bytes().to_vec();
    for number in [
        history.n_urls,
        history.n_sightings,
        history.n_gone,
        clusters.n_of_similar,
        clusters.n_documents_of_similar,
        clusters.n_of_equal,
        clusters.n_urls_of_equal,
        largest.into(),
        size.into(),
    ] {
        encode_varint(number, &mut row);
    }
    row
}

/// Reads what [`counts_row`] makes.
pub(super) fn read_counts(row: &[u8]) -> Option<(StoreCounts, u64)> {
    let mut fields = Fields(row);
    let next_seq = fields.u64()?;
    let history = HistoryCounts { n_urls: fields.varint()?, n_sightings: fields.varint()?, n_gone: fields.varint()? };
    let mut clusters = ClusterCounts {
        n_of_similar: fields.varint()?,
        n_documents_of_similar: fields.varint()?,
        n_of_equal: fields.varint()?,
        n_urls_of_equal: fields.varint()?,
        largest: None,
    };
    let (largest, size) = (fields.varint()?.try_into().ok()?, fields.varint()?.try_into().ok()?);
    clusters.largest = (size > 0).then_some((ClusterId(largest), size));
    fields.0.is_empty().then_some((StoreCounts { history, clusters }, next_seq))
}

/// The key of a row of `meta/equal/…`.
pub(super) fn equal_clusters_key(next_seq: u64, part: u32) -> Vec<u8> {
    [meta::EQUAL, &next_seq.to_be_bytes(), &part.to_be_bytes()].concat()
}

/// A row of `meta/equal/…`; the documents ascend.
pub(super) fn equal_clusters_row(clusters: &[EqualCluster]) -> Vec<u8> {
    let (mut row, mut last) = (Vec::new(), 0);
    for EqualCluster { document, n_urls } in clusters {
        encode_varint((document.0 - last).into(), &mut row);
        encode_varint((*n_urls).into(), &mut row);
        last = document.0;
    }
    row
}

/// Reads what [`equal_clusters_row`] makes.
pub(super) fn read_equal_clusters(row: &[u8]) -> Option<Vec<EqualCluster>> {
    let (mut fields, mut clusters, mut last) = (Fields(row), Vec::new(), 0u32);
    while !fields.0.is_empty() {
        last = last.checked_add(fields.varint()?.try_into().ok()?)?;
        clusters.push(EqualCluster { document: DocumentId(last), n_urls: fields.varint()?.try_into().ok()? });
    }
    Some(clusters)
}

fn sortable(time: FetchTime) -> [u8; 8] {
    ((time.0 as u64) ^ (1 << 63)).to_be_bytes()
}

fn kind_of(seen: &Seen) -> u8 {
    match seen {
        Seen::Lost => 0,
        Seen::Gone => 1,
        Seen::Redirect(_) => 2,
        Seen::Document(_) => 3,
    }
}

/// Bytes of an observation of a document whose sweep has a name of usual length.
const MOMENT_BYTES: usize = 40;

/// Appends an observation as the end of a key. Keys sort like observations, except that shorter sweep names come
/// first.
fn push_moment(moment: &Observation, key: &mut Vec<u8>) {
    let sweep = moment.sweep.as_deref().unwrap_or("").as_bytes();
    key.extend(sortable(moment.fetched_at));
    key.push(kind_of(&moment.seen));
    key.extend((sweep.len() as u32).to_be_bytes());
    key.extend(sweep);
    match &moment.seen {
        Seen::Lost | Seen::Gone => {}
        Seen::Redirect(target) => key.extend(target.as_bytes()),
        Seen::Document(document) => key.extend(document.0.to_be_bytes()),
    }
}

fn read_moment(bytes: &[u8]) -> Option<Observation> {
    let mut fields = Fields(bytes);
    let fetched_at = fields.time()?;
    let [kind] = fields.bytes()?;
    let sweep_length = fields.u32()?;
    let (sweep, rest) = fields.0.split_at_checked(sweep_length as usize)?;
    let seen = match kind {
        0 if rest.is_empty() => Seen::Lost,
        1 if rest.is_empty() => Seen::Gone,
        2 => Seen::Redirect(String::from_utf8(rest.to_vec()).ok()?),
        3 => Seen::Document(DocumentId(u32::from_be_bytes(rest.try_into().ok()?))),
        _ => return None,
    };
    Some(Observation { fetched_at, seen, sweep: read_sweep(sweep)? })
}

pub(super) fn sighting_key(sighting: &StoredSighting) -> Vec<u8> {
    let mut key = Vec::with_capacity(16 + MOMENT_BYTES);
    key.extend(fingerprint_key(sighting.url));
    push_moment(&sighting.moment, &mut key);
    key
}

pub(super) fn read_sighting(key: &[u8]) -> Option<StoredSighting> {
    let mut fields = Fields(key);
    Some(StoredSighting { url: fields.fingerprint()?, moment: read_moment(fields.0)? })
}

pub(super) fn sighting_by_document_key(document: DocumentId, sighting: &StoredSighting) -> Vec<u8> {
    let sweep = sighting.moment.sweep.as_deref().unwrap_or("").as_bytes();
    let time = sortable(sighting.moment.fetched_at);
    [&document.0.to_be_bytes(), &time[..], &fingerprint_key(sighting.url), sweep].concat()
}

/// Sorts after every sighting of a document.
pub(super) fn end_of_sightings_by_document(document: DocumentId) -> Vec<u8> {
    [&document.0.to_be_bytes(), &[0xff; 25][..]].concat()
}

pub(super) fn read_link(key: &[u8], row: &[u8]) -> Option<Link> {
    let mut fields = Fields(key);
    let (document, to) = (fields.document()?, fields.document()?);
    Some(Link { document, to, resemblance: f64::from_be_bytes(row.try_into().ok()?) })
}

pub(super) fn read_sighting_by_document(key: &[u8]) -> Option<StoredSighting> {
    let mut fields = Fields(key);
    let (document, fetched_at, url) = (fields.document()?, fields.time()?, fields.fingerprint()?);
    let moment = Observation { fetched_at, seen: Seen::Document(document), sweep: read_sweep(fields.0)? };
    Some(StoredSighting { url, moment })
}

pub(super) fn state_row(state: &UrlState) -> Vec<u8> {
    let mut row = Vec::with_capacity(13 + 2 * MOMENT_BYTES);
    row.extend(state.host.to_be_bytes());
    row.push(u8::from(state.found));
    let at = row.len();
    row.extend([0; 4]);
    push_moment(&state.newest, &mut row);
    let n_newest = (row.len() - at - 4) as u32;
    row[at..at + 4].copy_from_slice(&n_newest.to_be_bytes());
    // Usually the newest sighting is the last copy.
    if let Some(copy) = state.copy.as_ref().map(LastCopy::moment).filter(|copy| *copy != state.newest) {
        push_moment(&copy, &mut row);
    }
    row
}

pub(super) fn read_state(row: &[u8]) -> Option<UrlState> {
    let mut fields = Fields(row);
    let host = fields.u64()?;
    let [found] = fields.bytes()?;
    let n_newest = fields.u32()?;
    let (newest, copy) = fields.0.split_at_checked(n_newest as usize)?;
    let newest = read_moment(newest)?;
    let copy = match copy {
        [] => LastCopy::from_observation(&newest),
        copy => Some(LastCopy::from_observation(&read_moment(copy)?)?),
    };
    Some(UrlState { newest, copy, host, found: found != 0 })
}

pub(super) fn missing_url_key(missing: &MissingUrl) -> Vec<u8> {
    [&missing.document.0.to_be_bytes(), &sortable(missing.last_seen)[..], &fingerprint_key(missing.url)].concat()
}

pub(super) fn read_missing_url(key: &[u8]) -> Option<MissingUrl> {
    let mut fields = Fields(key);
    let missing = MissingUrl { document: fields.document()?, last_seen: fields.time()?, url: fields.fingerprint()? };
    fields.0.is_empty().then_some(missing)
}

pub(super) fn sweep_row(row: &SweepRow) -> Vec<u8> {
    let mut bytes =
        [sortable(row.first), sortable(row.last), row.n_pages.to_be_bytes(), row.n_gone.to_be_bytes()].concat();
    bytes.push(u8::from(row.is_closed));
    bytes.extend(row.n_lost.to_be_bytes());
    bytes
}

pub(super) fn read_sweep_row(row: &[u8]) -> Option<SweepRow> {
    let mut fields = Fields(row);
    let (first, last, n_pages, n_gone) = (fields.time()?, fields.time()?, fields.u64()?, fields.u64()?);
    let [closed] = fields.bytes()?;
    Some(SweepRow { first, last, n_pages, n_gone, is_closed: closed != 0, n_lost: fields.u64()? })
}

fn read_sweep(bytes: &[u8]) -> Option<Option<String>> {
    let sweep = std::str::from_utf8(bytes).ok()?;
    Some((!sweep.is_empty()).then(|| sweep.to_string()))
}

pub(super) fn progress_key(source: &str, partition: i32) -> Vec<u8> {
    [source.as_bytes(), &[0], &partition.to_be_bytes()].concat()
}

pub(super) fn read_progress_key(key: &[u8]) -> Option<(String, i32)> {
    let (source, partition) = key.split_last_chunk::<4>()?;
    let source = source.strip_suffix(&[0])?;
    Some((String::from_utf8(source.to_vec()).ok()?, i32::from_be_bytes(*partition)))
}

pub(super) fn progress_row(progress: Progress) -> Vec<u8> {
    [progress.next_offset.to_be_bytes(), progress.chain.to_be_bytes()].concat()
}

pub(super) fn read_progress(row: &[u8]) -> Option<Progress> {
    let mut fields = Fields(row);
    Some(Progress { next_offset: fields.u64()? as i64, chain: fields.u64()? })
}

pub(super) fn cluster_row(row: &ClusterRow) -> Vec<u8> {
    [row.parent.0, row.next.0, row.size, row.name.0].map(u32::to_be_bytes).concat()
}

pub(super) fn read_cluster_row(document: DocumentId, row: &[u8]) -> Option<ClusterRow> {
    let mut fields = Fields(row);
    Some(ClusterRow {
        document,
        parent: fields.document()?,
        next: fields.document()?,
        size: fields.u32()?,
        name: fields.document()?,
    })
}

/// Appends a list of documents, which must ascend.
pub(super) fn put_documents(row: &mut Vec<u8>, documents: &[DocumentId]) {
    let mut previous = 0;
    for document in documents {
        encode_varint(u64::from(document.0 - previous), row);
        previous = document.0;
    }
}

/// Decodes a list and appends its documents.
pub(super) fn read_documents(row: &[u8], documents: &mut Vec<DocumentId>) -> Option<()> {
    let mut fields = Fields(row);
    let mut previous = 0u32;
    while !fields.0.is_empty() {
        previous = previous.checked_add(u32::try_from(fields.varint()?).ok()?)?;
        documents.push(DocumentId(previous));
    }
    Some(())
}

pub(super) fn document_row(document: &NewDocument, first_url: Fingerprint) -> Vec<u8> {
    let mut row = Vec::with_capacity(48 + document.sketch.n_bytes());
    put_document_head(&mut row, first_url, postings_of(document), document.n_words, document.n_bytes);
    crate::sketch::encode(&document.sketch, &mut row);
    row
}

/// Like [`document_row`], for a document whose sketch is already encoded.
pub(super) fn put_loaded_document(row: &mut Vec<u8>, document: &LoadDocument<'_>) {
    let postings = [document.index, document.super_shingles, document.mod_shingles];
    put_document_head(row, document.first_url, postings, document.n_words, document.n_bytes);
    row.extend(document.sketch);
}

/// Appends the part of a document's row before the sketch.
fn put_document_head(row: &mut Vec<u8>, first_url: Fingerprint, postings: [&[Shingle]; 3], n_words: u32, n_bytes: u64) {
    row.extend(fingerprint_key(first_url));
    let shares = PostingKind::ALL
        .into_iter()
        .zip(postings)
        .flat_map(|(kind, shingles)| shingles.iter().map(move |shingle| posting_checksum(kind, *shingle)));
    row.extend(shares.fold(0, u64::wrapping_add).to_be_bytes());
    encode_varint(u64::from(n_words), row);
    encode_varint(n_bytes, row);
    for shingles in postings {
        encode_varint(shingles.len() as u64, row);
    }
}

pub(super) fn read_document(row: &[u8]) -> Option<StoredDocument> {
    let mut fields = Fields(row);
    let (first_url, postings_checksum) = (fields.fingerprint()?, fields.u64()?);
    let mut count = || fields.varint().and_then(|number| u32::try_from(number).ok());
    let n_words = count()?;
    let n_bytes = fields.varint()?;
    let mut count = || fields.varint().and_then(|number| u32::try_from(number).ok());
    let (n_index_shingles, n_super_shingles, n_mod_shingles) = (count()?, count()?, count()?);
    let sketch = Arc::new(crate::sketch::decode(fields.0).ok()?);
    Some(StoredDocument {
        n_words,
        n_bytes,
        first_url,
        n_index_shingles,
        n_super_shingles,
        n_mod_shingles,
        postings_checksum,
        sketch,
    })
}

/// Reads only the first URL, which suffices for most look-ups.
pub(super) fn read_first_url(row: &[u8]) -> Option<Fingerprint> {
    Fields(row).fingerprint()
}

/// Reads only the number of index shingles.
pub(super) fn read_index_size(row: &[u8]) -> Option<u32> {
    let mut fields = Fields(row);
    let _ = (fields.fingerprint()?, fields.u64()?, fields.varint()?, fields.varint()?);
    u32::try_from(fields.varint()?).ok()
}

/// Reads only the words of a document, and the bytes of the page that first had its text.
pub(super) fn read_size(row: &[u8]) -> Option<(u32, u64)> {
    let mut fields = Fields(row);
    let _ = (fields.fingerprint()?, fields.u64()?);
    Some((u32::try_from(fields.varint()?).ok()?, fields.varint()?))
}

/// Appends a document's postings to its batch's row of `pending`.
pub(super) fn put_pending(row: &mut Vec<u8>, document: &NewDocument, bits: u32) {
    for (kind, shingles) in PostingKind::ALL.into_iter().zip(postings_of(document)) {
        let width = kind.width(bits);
        encode_varint(shingles.len() as u64, row);
        for shingle in shingles {
            put_shingle(row, *shingle, width);
        }
    }
}

/// Calls `each` with every posting of a row of `pending`, and returns the last document of the row.
pub(super) fn read_pending(
    key: &[u8],
    row: &[u8],
    bits: u32,
    each: &mut dyn FnMut(PostingKind, Shingle, DocumentId),
) -> Option<DocumentId> {
    let mut document = Fields(key).document()?;
    let mut fields = Fields(row);
    loop {
        for kind in PostingKind::ALL {
            let width = kind.width(bits);
            for _ in 0..fields.varint()? {
                each(kind, fields.shingle(width)?, document);
            }
        }
        if fields.0.is_empty() {
            return Some(document);
        }
        document.0 = document.0.checked_add(1)?;
    }
}

/// The key of the row of `pending` with the equivalence fingerprints of a batch.
pub(super) fn pending_equal_key(first: DocumentId) -> [u8; 5] {
    let [a, b, c, d] = first.0.to_be_bytes();
    [a, b, c, d, 1]
}

/// Whether a row of `pending` holds equivalence fingerprints, and not postings.
pub(super) fn is_pending_equal(key: &[u8]) -> bool {
    key.len() == 5 && key[4] == 1
}

pub(super) fn put_pending_equal(row: &mut Vec<u8>, document: &NewDocument) {
    encode_varint(document.equivalences.keys().count() as u64, row);
    document.equivalences.keys().for_each(|fingerprint| row.extend(fingerprint_key(fingerprint)));
}

/// Calls `each` with every equivalence fingerprint of a row of `pending`, and returns the last document of the row.
pub(super) fn read_pending_equal(
    key: &[u8],
    row: &[u8],
    each: &mut dyn FnMut(Fingerprint, DocumentId),
) -> Option<DocumentId> {
    let mut document = Fields(key).document()?;
    let mut fields = Fields(row);
    loop {
        for _ in 0..fields.varint()? {
            each(fields.fingerprint()?, document);
        }
        if fields.0.is_empty() {
            return Some(document);
        }
        document.0 = document.0.checked_add(1)?;
    }
}

pub(super) fn shingle_key(shingle: Shingle, width: usize) -> Vec<u8> {
    let mut key = Vec::with_capacity(width);
    put_shingle(&mut key, shingle, width);
    key
}

pub(super) fn mod_posting_key(shingle: Shingle, document: DocumentId, bits: u32) -> Vec<u8> {
    let mut key = shingle_key(shingle, PostingKind::Mod.width(bits));
    key.extend(document.0.to_be_bytes());
    key
}

pub(super) fn read_mod_posting(key: &[u8], bits: u32) -> Option<(Shingle, DocumentId)> {
    let mut fields = Fields(key);
    let posting = (fields.shingle(PostingKind::Mod.width(bits))?, fields.document()?);
    fields.0.is_empty().then_some(posting)
}

/// Takes the place of a field's length. It marks an event that leaves its URL in another state than it reports.
const CHANGE: u32 = u32::MAX - 1;

pub(super) fn outbox_row(event: &Outgoing) -> Vec<u8> {
    let mut row = Vec::with_capacity(event.json.len() + 128);
    encode_field(event.key.as_deref().map(str::as_bytes), &mut row);
    encode_field(Some(&event.json), &mut row);
    put_change(&mut row, &event.change);
    if let Some(original) = &event.original {
        original.encode(&mut row);
    }
    row
}

fn put_change(row: &mut Vec<u8>, change: &PresentChange) {
    if *change == PresentChange::AsTold {
        return;
    }
    row.extend(CHANGE.to_be_bytes());
    if let PresentChange::To(Present { newest, cluster }) = change {
        row.extend(cluster.map_or(0, |cluster| cluster.0).to_be_bytes());
        push_moment(newest, row);
    }
}

/// Reads the change of state after an event. Only events without an original have one.
fn read_change(fields: &mut Fields<'_>) -> Option<PresentChange> {
    let Some(rest) = fields.0.strip_prefix(&CHANGE.to_be_bytes()) else { return Some(PresentChange::AsTold) };
    fields.0 = &[];
    if rest.is_empty() {
        return Some(PresentChange::Nothing);
    }
    let mut rest = Fields(rest);
    let cluster = rest.u32().map(|id| (id > 0).then_some(ClusterId(id)))?;
    Some(PresentChange::To(Present { newest: read_moment(rest.0)?, cluster }))
}

pub(super) fn output_row(note: OutputNote) -> Vec<u8> {
    [&note.n_partitions.to_be_bytes()[..], &[u8::from(note.is_whole)]].concat()
}

pub(super) fn read_output(row: &[u8]) -> Option<OutputNote> {
    let mut fields = Fields(row);
    let (n_partitions, [is_whole]) = (fields.u32()?, fields.bytes()?);
    (fields.0.is_empty() && is_whole < 2).then_some(OutputNote { n_partitions, is_whole: is_whole == 1 })
}

pub(super) fn read_outbox(key: &[u8], row: &[u8]) -> Option<Outgoing> {
    let seq = Fields(key).u64()?;
    let mut fields = Fields(row);
    let key = decode_field(&mut fields.0)?.map(|key| String::from_utf8(key.to_vec())).transpose().ok()?;
    let json = decode_field(&mut fields.0)??.to_vec();
    let change = read_change(&mut fields)?;
    let original = if fields.0.is_empty() { None } else { Some(Box::new(Message::decode(fields.0)?)) };
    Some(Outgoing { seq, key, json, original, change })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sketch::{Equivalences, Sketch, SketchForm};
    use crate::wire::MessageFault;

    #[test]
    fn rows_round_trip() {
        for seen in [Seen::Lost, Seen::Gone, Seen::Redirect("http://b/".into()), Seen::Document(DocumentId(7))] {
            for sweep in [None, Some("2026-47".to_string())] {
                let moment = Observation { fetched_at: FetchTime(-5), sweep, seen: seen.clone() };
                let sighting = StoredSighting { url: Fingerprint(99), moment: moment.clone() };
                assert_eq!(read_sighting(&sighting_key(&sighting)).as_ref(), Some(&sighting));
                if let Some(document) = seen.document() {
                    assert_eq!(
                        read_sighting_by_document(&sighting_by_document_key(document, &sighting)),
                        Some(sighting)
                    );
                }
                let copy = LastCopy { fetched_at: FetchTime(-9), sweep: None, document: DocumentId(3) };
                for copy in [LastCopy::from_observation(&moment), Some(copy)] {
                    let state = UrlState { newest: moment.clone(), copy, host: 5, found: true };
                    // A page is its own last copy, unless an older sighting of it has a larger sweep name.
                    if seen.document().is_none() || state.copy.is_some() {
                        assert_eq!(read_state(&state_row(&state)), Some(state));
                    }
                }
            }
        }
        let missing = MissingUrl { document: DocumentId(3), last_seen: FetchTime(-7), url: Fingerprint(4) };
        assert_eq!(read_missing_url(&missing_url_key(&missing)), Some(missing));
        let row = SweepRow { is_closed: true, n_lost: 4, n_gone: 3, ..SweepRow::begun(FetchTime(1)) };
        assert_eq!(read_sweep_row(&sweep_row(&row)), Some(row));
        assert_eq!(read_progress_key(&progress_key("/a b", -1)), Some(("/a b".into(), -1)));
        let progress = Progress { next_offset: 12, chain: 34 };
        assert_eq!(read_progress(&progress_row(progress)), Some(progress));
        for key in [None, Some("".to_string()), Some("http://a/".to_string())] {
            let plain = Message::default();
            let full = Message {
                key: Some(vec![]),
                value: Some(vec![0; 300]),
                headers: vec![("a".into(), None), ("a".into(), Some(vec![255]))],
                time_ms: Some(-1),
                fault: None,
            };
            let faulty = |fault| Message { fault: Some(fault), ..Message::default() };
            let faults = [MessageFault::TooLarge(1 << 40), MessageFault::HeaderName, MessageFault::Bare].map(faulty);
            let messages = [plain, full].into_iter().chain(faults);
            for original in messages.map(|message| Some(Box::new(message))).chain([None]) {
                let event = Outgoing { original, ..Outgoing::new(3, key.clone(), b"{}".to_vec()) };
                assert_eq!(read_outbox(&3u64.to_be_bytes(), &outbox_row(&event)), Some(event));
            }
            let newest = Observation { fetched_at: FetchTime(-5), sweep: Some("s".into()), seen: Seen::Gone };
            let to = |cluster| PresentChange::To(Present { newest: newest.clone(), cluster });
            for change in [PresentChange::Nothing, to(None), to(Some(ClusterId(7)))] {
                let event = Outgoing { change, ..Outgoing::new(3, key.clone(), b"{}".to_vec()) };
                assert_eq!(read_outbox(&3u64.to_be_bytes(), &outbox_row(&event)), Some(event));
            }
        }
    }

    #[test]
    fn notes_of_outputs_round_trip() {
        for is_whole in [false, true] {
            let note = OutputNote { n_partitions: 300, is_whole };
            assert_eq!(read_output(&output_row(note)), Some(note));
        }
        assert_eq!(read_output(&[0, 0, 0, 1, 2]), None);
    }

    #[test]
    fn lists_round_trip_and_malformed_rows_are_rejected() {
        for ids in [&[][..], &[1], &[1, 2, 0x0102_0304, u32::MAX]] {
            let documents: Vec<DocumentId> = ids.iter().copied().map(DocumentId).collect();
            let mut read = Vec::new();
            let mut row = Vec::new();
            put_documents(&mut row, &documents);
            assert_eq!(read_documents(&row, &mut read), Some(()));
            assert_eq!(read, documents);
        }
        for row in [&[0x80][..], &[0xff; 5], &[0xff; 11], &[0xff, 0xff, 0xff, 0xff, 0x0f, 1]] {
            assert_eq!(read_documents(row, &mut Vec::new()), None, "{row:?}");
        }
    }

    fn document(id: u32, index: Vec<Shingle>) -> NewDocument {
        let equivalences = Equivalences { identical: Fingerprint(1), lexical: Fingerprint(2), shingle: None };
        NewDocument {
            document: DocumentId(id),
            equivalences,
            sketch: Arc::new(Sketch { n_shingles: 3, form: SketchForm::Whole(vec![1, 2, 3]), confirmation: None }),
            index,
            super_shingles: vec![u64::MAX],
            mod_shingles: vec![],
            n_words: 300,
            n_bytes: 1 << 40,
        }
    }

    #[test]
    fn documents_round_trip() {
        let new = document(5, vec![7, 8]);
        let read = read_document(&document_row(&new, Fingerprint(9))).expect("a document");
        assert_eq!((read.n_words, read.n_bytes, read.first_url), (300, 1 << 40, Fingerprint(9)));
        assert_eq!((read.n_index_shingles, read.n_super_shingles, read.n_mod_shingles), (2, 1, 0));
        assert_eq!(read.sketch, new.sketch);
        let checksum = [(PostingKind::Super, u64::MAX), (PostingKind::Index, 8), (PostingKind::Index, 7)]
            .map(|(kind, shingle)| posting_checksum(kind, shingle));
        assert_eq!(read.postings_checksum, checksum.into_iter().fold(0, u64::wrapping_add));
    }

    #[test]
    fn pending_postings_round_trip() {
        for bits in [32, 40, 64] {
            let mut row = Vec::new();
            put_pending(&mut row, &document(5, vec![7, u64::MAX >> (64 - bits)]), bits);
            put_pending(&mut row, &document(6, vec![]), bits);
            let mut read = Vec::new();
            let key = 5u32.to_be_bytes();
            let last = read_pending(&key, &row, bits, &mut |kind, shingle, id| read.push((kind, shingle, id.0)));
            assert_eq!(last, Some(DocumentId(6)));
            let top = u64::MAX >> (64 - bits);
            let expected = [
                (PostingKind::Index, 7, 5),
                (PostingKind::Index, top, 5),
                (PostingKind::Super, u64::MAX, 5),
                (PostingKind::Super, u64::MAX, 6),
            ];
            assert_eq!(read, expected);
            row.pop();
            assert_eq!(read_pending(&key, &row, bits, &mut |_, _, _| {}), None);
            let posting = read_mod_posting(&mod_posting_key(top, DocumentId(6), bits), bits);
            assert_eq!(posting, Some((top, DocumentId(6))));
        }
    }

    #[test]
    fn times_sort_as_keys() {
        let key = |time| sortable(FetchTime(time));
        assert!(key(-1) < key(0) && key(0) < key(1) && key(i64::MIN) < key(-1));
    }
}
