//! The history of a URL, and the members of a cluster.

use crate::document::{ClusterId, DocumentId};
use crate::ports::{Snapshot, StoreError};
use crate::sweep::{Observation, Sighting};
use serde::Serialize;

/// One sighting of a URL, and the cluster of its document now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UrlSighting {
    /// When, what, on which sweep.
    #[serde(flatten)]
    pub moment: Observation,
    /// The document's cluster.
    pub cluster: Option<ClusterId>,
}

/// The history of a URL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UrlAnswer {
    /// The URL.
    pub url: String,
    /// Its sightings, oldest first.
    pub sightings: Vec<UrlSighting>,
}

/// The history of a URL; no sightings where it was never seen.
///
/// # Errors
/// [`StoreError`]
pub fn url(snapshot: &impl Snapshot, url: &str) -> Result<UrlAnswer, StoreError> {
    let mut sightings = Vec::new();
    for sighting in snapshot.sightings_of_url(url)? {
        let cluster = sighting.moment.seen.document().map(|document| snapshot.cluster_of(document)).transpose()?;
        sightings.push(UrlSighting { moment: sighting.moment, cluster });
    }
    Ok(UrlAnswer { url: url.to_string(), sightings })
}

/// A cluster and where its documents were seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClusterAnswer {
    /// Its name now: its smallest document.
    pub cluster: ClusterId,
    /// Its documents, ascending.
    pub documents: Vec<DocumentId>,
    /// Their sightings, by URL and then by time.
    pub sightings: Vec<Sighting>,
}

/// The cluster of that name, or the one that the document of that number belongs to now; none where the store has no
/// such document.
///
/// # Errors
/// [`StoreError`]
pub fn cluster(snapshot: &impl Snapshot, id: ClusterId) -> Result<Option<ClusterAnswer>, StoreError> {
    let document = DocumentId(id.0);
    if !(1..=snapshot.n_documents()).contains(&id.0) {
        return Ok(None);
    }
    let documents = snapshot.members(document)?;
    let mut sightings = Vec::new();
    for member in &documents {
        sightings.extend(snapshot.sightings_of_document(*member)?);
    }
    // The document was forgotten.
    if sightings.is_empty() {
        return Ok(None);
    }
    sightings.sort_by(|a, b| (&a.url, &a.moment).cmp(&(&b.url, &b.moment)));
    Ok(Some(ClusterAnswer { cluster: snapshot.cluster_of(document)?, documents, sightings }))
}

/// Some sightings of a cluster, and its size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClusterPage {
    /// Its name now.
    pub cluster: ClusterId,
    /// Documents in it.
    pub n_documents: usize,
    /// Sightings, by document and then by time.
    pub sightings: Vec<Sighting>,
    /// Whether more sightings follow.
    #[serde(skip)]
    pub has_more: bool,
}

/// At most `limit` sightings of a cluster after one of them; the others are not read. A cluster only grows, so
/// pages that continue from the last row hold every sighting that was there at first.
///
/// # Errors
/// [`StoreError`]
pub fn cluster_page(
    snapshot: &impl Snapshot,
    id: ClusterId,
    after: Option<&Sighting>,
    limit: usize,
) -> Result<Option<ClusterPage>, StoreError> {
    if !(1..=snapshot.n_documents()).contains(&id.0) {
        return Ok(None);
    }
    let document = DocumentId(id.0);
    let documents = snapshot.members(document)?;
    let from = after.and_then(|after| after.moment.seen.document());
    let first = from.map_or(0, |from| documents.partition_point(|document| *document < from));
    let mut sightings = Vec::new();
    for member in &documents[first..] {
        let after = after.filter(|_| Some(*member) == from);
        sightings.extend(snapshot.sightings_of_document_after(*member, after, limit + 1 - sightings.len())?);
        if sightings.len() > limit {
            break;
        }
    }
    // The document was forgotten.
    if sightings.is_empty() && after.is_none() {
        return Ok(None);
    }
    let has_more = sightings.len() > limit;
    sightings.truncate(limit);
    let cluster = snapshot.cluster_of(document)?;
    Ok(Some(ClusterPage { cluster, n_documents: documents.len(), sightings, has_more }))
}

/// A part of a document's cluster that fits a screen: at most `limit` of its documents, this one among them, and of each
/// the newest sightings: its share of `limit_sightings`.
///
/// # Errors
/// [`StoreError`]
pub fn cluster_glance(
    snapshot: &impl Snapshot,
    document: DocumentId,
    limit: usize,
    limit_sightings: usize,
) -> Result<ClusterAnswer, StoreError> {
    let mut documents = snapshot.some_members(document, limit)?;
    documents.sort_unstable();
    let limit_each = limit_sightings.div_ceil(documents.len().max(1));
    let standings = snapshot.newest_sightings_of(&documents, limit_each)?;
    let keys: Vec<_> = standings.iter().map(|standing| standing.url).collect();
    let urls = snapshot.urls(&keys)?.into_iter();
    let mut sightings: Vec<Sighting> =
        urls.zip(standings).map(|(url, standing)| Sighting { url, moment: standing.moment }).collect();
    sightings.sort_unstable();
    Ok(ClusterAnswer { cluster: snapshot.cluster_of(document)?, documents, sightings })
}

/// The cluster that a text names: its number, the number of any document in it, or a URL, whose newest page counts.
///
/// # Errors
/// [`StoreError`]
pub fn named_cluster(snapshot: &impl Snapshot, name: &str) -> Result<Option<ClusterId>, StoreError> {
    if let Ok(id) = name.parse() {
        return Ok(Some(ClusterId(id)));
    }
    Ok(url(snapshot, name)?.sightings.iter().rev().find_map(|sighting| sighting.cluster))
}
