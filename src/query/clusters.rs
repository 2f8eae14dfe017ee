//! The whole store at a glance: its numbers, and all its clusters as rows.

use crate::document::{ClusterId, DocumentId, FetchTime};
use crate::ports::{RelatedView, Snapshot, StoreError};
use crate::sweep::Sighting;
use rustc_hash::FxHashSet;
use serde::Serialize;
use std::collections::HashSet;

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
    /// The largest cluster.
    pub largest_cluster: Option<ClusterId>,
    /// Events that the store has numbered.
    pub n_events: u64,
    /// Bytes on disk.
    pub n_bytes_on_disk: u64,
    /// URLs that the last build of related pages knows; 0: there is none.
    pub n_related_urls: u64,
    /// Bytes of kept texts, among those on disk and in memory; 0: there are none.
    pub n_bytes_of_texts: u64,
}

/// Counts the store in one scan over its sightings.
///
/// # Errors
/// [`StoreError`]
pub fn status(snapshot: &(impl Snapshot + RelatedView)) -> Result<Status, StoreError> {
    let mut status = Status {
        n_documents: u64::from(snapshot.n_documents()),
        n_events: snapshot.next_seq(),
        n_bytes_on_disk: snapshot.n_bytes_on_disk(),
        n_related_urls: snapshot.related_build()?.map_or(0, |build| build.n_urls),
        n_bytes_of_texts: snapshot.n_bytes_of_texts()?.unwrap_or(0),
        ..Status::default()
    };
    let n_urls_of = count_sightings(snapshot, &mut status)?;
    let mut clusters = snapshot.clusters()?;
    // A document without a sighting was forgotten, and is a cluster of its own no longer.
    let n_forgotten = n_urls_of.iter().skip(1).filter(|n_urls| **n_urls == 0).count() as u64;
    status.n_documents -= n_forgotten;
    status.n_clusters = (clusters.n_clusters() as u64).saturating_sub(n_forgotten);
    for document in (1..=snapshot.n_documents()).map(DocumentId) {
        let name = clusters.cluster_of(document);
        if name.0 != document.0 {
            continue;
        }
        let size = u64::from(clusters.size_of(document));
        if size > status.n_documents_in_largest_cluster {
            (status.n_documents_in_largest_cluster, status.largest_cluster) = (size, Some(name));
        }
        let n_urls = u64::from(n_urls_of[document.0 as usize]);
        if size > 1 {
            status.n_clusters_of_similar += 1;
            status.n_documents_in_clusters_of_similar += size;
        } else if n_urls > 1 {
            status.n_clusters_of_equal += 1;
            status.n_urls_in_clusters_of_equal += n_urls;
        }
    }
    Ok(status)
}

/// Counts sightings, and at how many URLs each document was seen: by its number.
fn count_sightings(snapshot: &impl Snapshot, status: &mut Status) -> Result<Vec<u32>, StoreError> {
    let mut n_urls_of = vec![0; snapshot.n_documents() as usize + 1];
    let mut sweeps = HashSet::new();
    let mut url = None;
    let mut documents_of_url = FxHashSet::default();
    snapshot.each_stored_sighting(&mut |sighting| {
        if url != Some(sighting.url) {
            status.n_urls += 1;
            url = Some(sighting.url);
            documents_of_url = FxHashSet::default();
        }
        match sighting.moment.seen.document() {
            None => status.n_gone += 1,
            Some(document) => {
                status.n_sightings += 1;
                if documents_of_url.insert(document) {
                    n_urls_of[document.0 as usize] += 1;
                }
            }
        }
        if let Some(sweep) = sighting.moment.sweep.filter(|sweep| !sweeps.contains(sweep)) {
            sweeps.insert(sweep);
        }
    })?;
    status.n_sweeps = sweeps.len() as u64;
    Ok(n_urls_of)
}
