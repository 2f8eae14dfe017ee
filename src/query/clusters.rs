//! The whole store at a glance: its numbers, and all its clusters as rows.

use crate::document::{ClusterId, DocumentId, FetchTime};
use crate::ports::{RelatedView, Snapshot, StoreCounts, StoreError};
use crate::sweep::Sighting;
use serde::Serialize;

/// One sighting of a page, with its cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExportRow {
    /// Where.
    pub url: String,
    /// When.
    pub fetched_at: FetchTime,
    /// On which sweep; empty: on none.
    pub sweep: String,
    /// What stood there.
    pub document: DocumentId,
    /// Its cluster.
    pub cluster: ClusterId,
}

/// Calls `each` with every sighting of a page, until it says stop (false).
///
/// # Errors
/// [`StoreError`]
pub fn export(snapshot: &impl Snapshot, mut each: impl FnMut(ExportRow) -> bool) -> Result<(), StoreError> {
    let mut clusters = snapshot.clusters()?;
    snapshot.each_sighting(&mut |sighting| {
        let Some(document) = sighting.moment.seen.document() else { return true };
        each(ExportRow {
            url: sighting.url,
            fetched_at: sighting.moment.fetched_at,
            sweep: sighting.moment.sweep.unwrap_or_default(),
            document,
            cluster: clusters.cluster_of(document),
        })
    })
}

/// At most `limit` sightings after one, in the order of [`export`]; and where more follow, the last sighting read,
/// which may be one without a page.
///
/// # Errors
/// [`StoreError`]
pub fn export_page(
    snapshot: &impl Snapshot,
    after: Option<&Sighting>,
    limit: usize,
) -> Result<(Vec<ExportRow>, Option<Sighting>), StoreError> {
    let mut sightings = Vec::new();
    snapshot.each_sighting_after(after, &mut |sighting| {
        sightings.push(sighting);
        sightings.len() <= limit
    })?;
    let has_more = sightings.len() > limit;
    sightings.truncate(limit);
    let next = sightings.last().filter(|_| has_more).cloned();
    let mut rows = Vec::new();
    for Sighting { url, moment } in sightings {
        if let Some(document) = moment.seen.document() {
            let (fetched_at, sweep) = (moment.fetched_at, moment.sweep.unwrap_or_default());
            rows.push(ExportRow { url, fetched_at, sweep, document, cluster: snapshot.cluster_of(document)? });
        }
    }
    Ok((rows, next))
}

/// The numbers of Broder 1997, section 5 ("Status"), for this store.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Status {
    /// Distinct URLs.
    pub n_urls: u64,
    /// Sightings of pages: (URL, time, sweep, document).
    pub n_sightings: u64,
    /// Sightings that a URL is gone, lost or redirected.
    pub n_gone: u64,
    /// Sweeps that have a name.
    pub n_sweeps: u64,
    /// Distinct documents.
    pub n_documents: u64,
    /// Clusters, a single document included.
    pub n_clusters: u64,
    /// Clusters of two documents or more: pages that resemble each other.
    pub n_clusters_of_similar: u64,
    /// Documents in clusters of similar pages.
    pub n_documents_in_clusters_of_similar: u64,
    /// Clusters of one document that was seen at two URLs or more: equal pages only.
    pub n_clusters_of_equal: u64,
    /// URLs that carry equal pages only.
    pub n_urls_in_clusters_of_equal: u64,
    /// Documents in the largest cluster.
    pub n_documents_in_largest_cluster: u64,
    /// The largest cluster of two documents or more.
    pub largest_cluster: Option<ClusterId>,
    /// Events that the store has numbered.
    pub n_events: u64,
    /// Bytes on disk.
    pub n_bytes_on_disk: u64,
    /// URLs that the last build of related pages knows; 0: there is none.
    pub n_related_urls: u64,
    /// Bytes of kept texts, among those on disk and in memory; 0: there are none.
    pub n_bytes_of_texts: u64,
    /// Whether the store keeps these numbers. If not, an older program wrote to it last, and its sightings were counted.
    #[serde(skip)]
    pub is_kept: bool,
}

/// How many documents the store holds: those that were not forgotten.
///
/// # Errors
/// [`StoreError`]
pub fn n_documents_left(snapshot: &impl Snapshot) -> Result<u32, StoreError> {
    Ok(snapshot.n_documents().saturating_sub(snapshot.n_forgotten()?))
}

/// What the store adds up to, without counting, unless an older program wrote to it last.
///
/// # Errors
/// [`StoreError`]
pub fn status(snapshot: &(impl Snapshot + RelatedView)) -> Result<Status, StoreError> {
    let kept = snapshot.kept_counts()?;
    let is_kept = kept.is_some();
    let StoreCounts { history, clusters } = kept.map_or_else(|| snapshot.counted(), Ok)?;
    let n_documents = u64::from(n_documents_left(snapshot)?);
    let n_merges = clusters.n_documents_of_similar - clusters.n_of_similar;
    Ok(Status {
        n_urls: history.n_urls,
        n_sightings: history.n_sightings,
        n_gone: history.n_gone,
        n_sweeps: snapshot.sweeps()?.len() as u64,
        n_documents,
        n_clusters: n_documents.saturating_sub(n_merges),
        n_clusters_of_similar: clusters.n_of_similar,
        n_documents_in_clusters_of_similar: clusters.n_documents_of_similar,
        n_clusters_of_equal: clusters.n_of_equal,
        n_urls_in_clusters_of_equal: clusters.n_urls_of_equal,
        n_documents_in_largest_cluster: clusters.largest.map_or(n_documents.min(1), |(_, size)| size.into()),
        largest_cluster: clusters.largest.map(|(name, _)| name),
        n_events: snapshot.next_seq(),
        n_bytes_on_disk: snapshot.n_bytes_on_disk(),
        n_related_urls: snapshot.related_build()?.map_or(0, |build| build.n_urls),
        n_bytes_of_texts: snapshot.n_bytes_of_texts()?.unwrap_or(0),
        is_kept,
    })
}
