//! The whole store at a glance: its numbers, and all its clusters as rows.

use crate::document::{ClusterId, DocumentId, FetchTime};
use crate::ports::{Snapshot, StoreError};
use crate::sweep::Sighting;
use serde::Serialize;
use std::collections::{HashMap, HashSet};

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

/// Calls `each` with every sighting that had a content, until it says stop (false).
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

/// The sightings after one, `most` at most, in the order of [`export`] and without those of nothing; and where more
/// follow, the last one looked at, be it one of nothing.
///
/// # Errors
/// [`StoreError`]
pub fn export_page(
    snapshot: &impl Snapshot,
    after: Option<&Sighting>,
    most: usize,
) -> Result<(Vec<ExportRow>, Option<Sighting>), StoreError> {
    let mut sightings = Vec::new();
    snapshot.each_sighting_after(after, &mut |sighting| {
        sightings.push(sighting);
        sightings.len() <= most
    })?;
    let has_more = sightings.len() > most;
    sightings.truncate(most);
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
    pub urls: u64,
    /// Sightings of pages: (URL, time, sweep, document).
    pub sightings: u64,
    /// Sightings of nothing.
    pub gone: u64,
    /// Sweeps that have a name.
    pub sweeps: u64,
    /// Distinct documents.
    pub documents: u64,
    /// Clusters, those of a single document included.
    pub clusters: u64,
    /// Clusters of two documents or more: pages that resemble each other.
    pub clusters_of_similar: u64,
    /// Documents in them.
    pub documents_in_clusters_of_similar: u64,
    /// Clusters of one document that was seen at two URLs or more: equal pages only.
    pub clusters_of_equal: u64,
    /// URLs that carry them.
    pub urls_in_clusters_of_equal: u64,
    /// Documents in the largest cluster.
    pub largest: u64,
    /// Its name.
    pub largest_cluster: Option<ClusterId>,
    /// Events that the store has numbered.
    pub events: u64,
    /// Bytes on disk.
    pub bytes_on_disk: u64,
}

/// Counts a store through: a scan over its sightings.
///
/// # Errors
/// [`StoreError`]
pub fn status(snapshot: &impl Snapshot) -> Result<Status, StoreError> {
    let mut status = Status {
        documents: u64::from(snapshot.n_documents()),
        events: snapshot.next_seq(),
        bytes_on_disk: snapshot.n_bytes_on_disk(),
        ..Status::default()
    };
    let n_urls_of = count_sightings(snapshot, &mut status)?;
    let mut clusters = snapshot.clusters()?;
    status.clusters = clusters.n_clusters() as u64;
    for document in (1..=snapshot.n_documents()).map(DocumentId) {
        let name = clusters.cluster_of(document);
        if name.0 != document.0 {
            continue;
        }
        let size = u64::from(clusters.size_of(document));
        if size > status.largest {
            (status.largest, status.largest_cluster) = (size, Some(name));
        }
        let n_urls = n_urls_of.get(&document).copied().unwrap_or(0);
        if size > 1 {
            status.clusters_of_similar += 1;
            status.documents_in_clusters_of_similar += size;
        } else if n_urls > 1 {
            status.clusters_of_equal += 1;
            status.urls_in_clusters_of_equal += n_urls;
        }
    }
    Ok(status)
}

/// Counts sightings, and at how many URLs each document was seen.
fn count_sightings(snapshot: &impl Snapshot, status: &mut Status) -> Result<HashMap<DocumentId, u64>, StoreError> {
    let mut n_urls_of: HashMap<DocumentId, u64> = HashMap::new();
    let mut sweeps = HashSet::new();
    let mut url = String::new();
    let mut documents_of_url = HashSet::new();
    snapshot.each_sighting(&mut |sighting| {
        if sighting.url != url {
            status.urls += 1;
            url.clone_from(&sighting.url);
            documents_of_url.clear();
        }
        match sighting.moment.seen.document() {
            None => status.gone += 1,
            Some(document) => {
                status.sightings += 1;
                if documents_of_url.insert(document) {
                    *n_urls_of.entry(document).or_default() += 1;
                }
            }
        }
        sweeps.extend(sighting.moment.sweep);
        true
    })?;
    status.sweeps = sweeps.len() as u64;
    Ok(n_urls_of)
}
