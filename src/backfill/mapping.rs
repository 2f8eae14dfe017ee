//! Which clusters of an older store are which of a newer one, by the URLs where a page stands in both.
//!
//! ```text
//! <URL, cluster> of both stores, sorted ─▶ <new, old, URLs> ─▶ <old, new, URLs, of new> ─▶ a row for each pair
//!                                           counted by new       counted by old
//! ```
//! The stores have different seeds, so neither holds its URLs in the order of the other.

use super::context::Context;
use super::datasets::{Dataset, DatasetSorter};
use super::error::BackfillError;
use crate::codec::{decode_array, decode_varint, encode_varint};
use crate::document::{ClusterId, Fingerprint, Seed, url_key};
use crate::extsort::{MergeReader, Row, SortedRow};
use crate::ports::Snapshot;
use serde::Serialize;

const URL_CLUSTERS: Dataset<UrlCluster> = Dataset::plain("url-clusters");
const BY_NEW: Dataset<Shared> = Dataset::plain("clusters-by-new");
const BY_OLD: Dataset<Shared> = Dataset::plain("clusters-by-old");

/// URLs between two looks at the stop flag.
const URLS_PER_STOP_CHECK: u64 = 4096;

/// How a cluster of the older store continues in the newer one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MappingKind {
    /// Neither shares a URL with another cluster.
    Same,
    /// The old cluster came apart into several, each of which has URLs of it alone.
    Split,
    /// The new cluster has URLs of several old ones, each of which is in it alone.
    Merged,
    /// Both: the old cluster is in several new ones, and one of them has URLs of others, too.
    Mixed,
    /// Of URLs where only the older store has a page.
    OldOnly,
    /// Of URLs where only the newer store has a page.
    NewOnly,
}

/// A cluster of an older store and one of a newer store, and the URLs that they share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MappedClusters {
    /// The cluster of the older store; `None` for URLs where it has no page.
    pub old_cluster: Option<ClusterId>,
    /// The cluster of the newer store; `None` for URLs where it has no page.
    pub new_cluster: Option<ClusterId>,
    /// URLs where a page of both clusters stands now; without one of them, of the other.
    pub n_shared: u64,
    /// URLs where a page of the old cluster stands now.
    pub n_old: u64,
    /// URLs where a page of the new cluster stands now.
    pub n_new: u64,
    /// How the one continues in the other.
    pub kind: MappingKind,
}

/// A URL where a page stands, in one of the stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct UrlCluster {
    url: Fingerprint,
    is_new: bool,
    cluster: u32,
}

impl Row for UrlCluster {
    fn encode(&self, _: Option<&Self>, out: &mut Vec<u8>) {
        out.extend(self.url.0.to_le_bytes());
        encode_varint(u64::from(self.cluster) << 1 | u64::from(self.is_new), out);
    }

    fn decode(_: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        let url = Fingerprint(u128::from_le_bytes(decode_array(bytes)?));
        let number = decode_varint(bytes)?;
        Some(UrlCluster { url, is_new: number & 1 == 1, cluster: u32::try_from(number >> 1).ok()? })
    }
}

impl SortedRow for UrlCluster {}

/// Two clusters, 0 for none, in the order of the first one, and how many URLs they share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Shared {
    first: u32,
    second: u32,
    n_urls: u64,
    /// URLs of the second cluster, and how many clusters it shares URLs with, where that is counted already.
    of_second: (u64, u64),
}

impl Row for Shared {
    fn encode(&self, _: Option<&Self>, out: &mut Vec<u8>) {
        let clusters = [self.first, self.second].map(u64::from);
        let counts = [self.n_urls, self.of_second.0, self.of_second.1];
        clusters.into_iter().chain(counts).for_each(|number| encode_varint(number, out));
    }

    fn decode(_: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        let mut cluster = || u32::try_from(decode_varint(bytes)?).ok();
        let (first, second) = (cluster()?, cluster()?);
        let n_urls = decode_varint(bytes)?;
        Some(Shared { first, second, n_urls, of_second: (decode_varint(bytes)?, decode_varint(bytes)?) })
    }
}

impl SortedRow for Shared {
    fn absorb(&mut self, next: &Self) -> bool {
        let is_same = (self.first, self.second) == (next.first, next.second);
        if is_same {
            self.n_urls += next.n_urls;
        }
        is_same
    }
}

/// Calls `each` with every pair of clusters that share a URL, by old cluster and then by new one; first those of URLs where
/// the older store has no page. Only URLs where a page stands now count. `key` is random: it keeps URLs apart for this work alone.
///
/// # Errors
/// [`BackfillError`], and those of `each`.
pub fn map_clusters<E: From<BackfillError>>(
    context: &Context,
    old: &impl Snapshot,
    new: &impl Snapshot,
    key: &Seed,
    mut each: impl FnMut(MappedClusters) -> Result<(), E>,
) -> Result<(), E> {
    let mut urls = context.sorter(URL_CLUSTERS, 0);
    add_urls(context, old, false, key, &mut urls)?;
    add_urls(context, new, true, key, &mut urls)?;
    let mut urls = merged(context, URL_CLUSTERS, urls)?;
    let by_new = pair_clusters(context, &mut urls)?;
    let mut by_new = merged(context, BY_NEW, by_new)?;
    let mut by_old = context.sorter(BY_OLD, 0);
    each_cluster(&mut by_new, |group, of_new| {
        for row in group {
            let Shared { first, second, n_urls, .. } = *row;
            by_old.push(Shared { first: second, second: first, n_urls, of_second: of_new })?;
        }
        context.check_stop()
    })?;
    let mut by_old = merged(context, BY_OLD, by_old)?;
    each_cluster(&mut by_old, |group, of_old| group.iter().try_for_each(|row| each(mapped(row, of_old))))
}

/// Adds the URLs where a page stands in a store.
fn add_urls(
    context: &Context,
    store: &impl Snapshot,
    is_new: bool,
    key: &Seed,
    urls: &mut DatasetSorter<'_, UrlCluster>,
) -> Result<(), BackfillError> {
    let (mut clusters, mut n_urls, mut added) = (store.clusters()?, 0u64, Ok(()));
    store.each_url(&mut |url, state| {
        n_urls += 1;
        if n_urls.is_multiple_of(URLS_PER_STOP_CHECK) {
            added = context.check_stop();
        }
        if let (Some(document), true) = (state.newest.seen.document(), added.is_ok()) {
            added = urls.push(UrlCluster { url: url_key(key, &url), is_new, cluster: clusters.cluster_of(document).0 });
        }
        added.is_ok()
    })?;
    added
}

/// Opens what a sorter has sorted.
fn merged<R: SortedRow>(
    context: &Context,
    dataset: Dataset<R>,
    sorter: DatasetSorter<'_, R>,
) -> Result<MergeReader<R>, BackfillError> {
    let files = sorter.finish()?;
    let files: Result<Vec<_>, _> = files.iter().map(|file| dataset.open(&context.folder, &file.file)).collect();
    Ok(MergeReader::new(&files?, None, None)?)
}

/// Pairs the clusters of each URL.
fn pair_clusters<'a>(
    context: &'a Context,
    urls: &mut MergeReader<UrlCluster>,
) -> Result<DatasetSorter<'a, Shared>, BackfillError> {
    let mut pairs = context.sorter(BY_NEW, 0);
    let mut next = urls.next_row()?;
    while let Some(row) = next {
        next = urls.next_row()?;
        let (old, new) = match next {
            // The older store's row comes first.
            Some(other) if other.url == row.url => {
                next = urls.next_row()?;
                (row.cluster, other.cluster)
            }
            _ if row.is_new => (0, row.cluster),
            _ => (row.cluster, 0),
        };
        pairs.push(Shared { first: new, second: old, n_urls: 1, ..Shared::default() })?;
    }
    Ok(pairs)
}

/// Calls `each` with the rows of every first cluster, its URLs, and the number of clusters that it shares them with. Rows
/// without a first cluster come one by one.
fn each_cluster<E: From<BackfillError>>(
    rows: &mut MergeReader<Shared>,
    mut each: impl FnMut(&[Shared], (u64, u64)) -> Result<(), E>,
) -> Result<(), E> {
    let mut group: Vec<Shared> = Vec::new();
    loop {
        let next = rows.next_row().map_err(BackfillError::from)?;
        let is_over =
            group.last().is_some_and(|last| last.first == 0 || next.is_none_or(|next| next.first != last.first));
        if is_over {
            let n_urls = group.iter().map(|row| row.n_urls).sum();
            let n_partners = group.iter().filter(|row| row.second != 0).count() as u64;
            each(&group, (n_urls, n_partners))?;
            group.clear();
        }
        match next {
            Some(row) => group.push(row),
            None => return Ok(()),
        }
    }
}

/// The row of an old cluster, which is the first one here, and a new one.
fn mapped(row: &Shared, of_old: (u64, u64)) -> MappedClusters {
    let Shared { first, second, n_urls, of_second } = *row;
    let cluster = |number: u32| (number != 0).then_some(ClusterId(number));
    let (old_cluster, new_cluster) = (cluster(first), cluster(second));
    let kind = match (old_cluster, new_cluster) {
        (None, _) => MappingKind::NewOnly,
        (_, None) => MappingKind::OldOnly,
        _ => match (of_old.1 > 1, of_second.1 > 1) {
            (false, false) => MappingKind::Same,
            (true, false) => MappingKind::Split,
            (false, true) => MappingKind::Merged,
            (true, true) => MappingKind::Mixed,
        },
    };
    let n_old = old_cluster.map_or(0, |_| of_old.0);
    let n_new = new_cluster.map_or(0, |_| of_second.0);
    MappedClusters { old_cluster, new_cluster, n_shared: n_urls, n_old, n_new, kind }
}
