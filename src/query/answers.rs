//! What stood at a URL, what belongs to a cluster.

use crate::document::{ClusterId, DocumentId};
use crate::ports::{Snapshot, StoreError};
use crate::sweep::{Observation, Sighting};
use serde::Serialize;

/// One sighting of a URL and the cluster that its document belongs to now.
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
    /// Its name now: the smallest document, whichever document was asked for.
    pub cluster: ClusterId,
    /// Its documents, ascending.
    pub documents: Vec<DocumentId>,
    /// Their sightings, by URL and then by time.
    pub sightings: Vec<Sighting>,
}

/// The cluster of that name, or the one that a document of that number belongs to now; none where there is no such
/// document.
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
    sightings.sort_by(|a, b| (&a.url, &a.moment).cmp(&(&b.url, &b.moment)));
    Ok(Some(ClusterAnswer { cluster: snapshot.cluster_of(document)?, documents, sightings }))
}

/// Some sightings of a cluster, and how large it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClusterPage {
    /// Its name now.
    pub cluster: ClusterId,
    /// How many documents it has.
    pub n_documents: usize,
    /// Sightings, by document and then by time.
    pub sightings: Vec<Sighting>,
    /// Whether there are more.
    #[serde(skip)]
    pub has_more: bool,
}

/// The sightings of a cluster after one of them, `most` at most, without reading the others. A cluster only ever grows,
/// so that whoever goes on from the last one meets every sighting that was there.
///
/// # Errors
/// [`StoreError`]
pub fn cluster_page(
    snapshot: &impl Snapshot,
    id: ClusterId,
    after: Option<&Sighting>,
    most: usize,
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
        sightings.extend(snapshot.standings_after(*member, after, most + 1 - sightings.len())?);
        if sightings.len() > most {
            break;
        }
    }
    let has_more = sightings.len() > most;
    sightings.truncate(most);
    let cluster = snapshot.cluster_of(document)?;
    Ok(Some(ClusterPage { cluster, n_documents: documents.len(), sightings, has_more }))
}

/// What can be shown at once of the cluster of a document: some of its documents, that one among them, and of each the
/// newest sightings.
///
/// # Errors
/// [`StoreError`]
pub fn cluster_glance(
    snapshot: &impl Snapshot,
    document: DocumentId,
    most: usize,
    most_each: usize,
) -> Result<ClusterAnswer, StoreError> {
    let mut documents = snapshot.some_members(document, most)?;
    documents.sort_unstable();
    let standings = snapshot.standings(&documents, most_each)?;
    let keys: Vec<_> = standings.iter().map(|standing| standing.url).collect();
    let urls = snapshot.urls(&keys)?.into_iter();
    let mut sightings: Vec<Sighting> =
        urls.zip(standings).map(|(url, standing)| Sighting { url, moment: standing.moment }).collect();
    sightings.sort_unstable();
    Ok(ClusterAnswer { cluster: snapshot.cluster_of(document)?, documents, sightings })
}

/// The cluster that a text names: by its number or that of any document in it, or by a URL, whose newest content counts.
///
/// # Errors
/// [`StoreError`]
pub fn named_cluster(snapshot: &impl Snapshot, name: &str) -> Result<Option<ClusterId>, StoreError> {
    if let Ok(id) = name.parse() {
        return Ok(Some(ClusterId(id)));
    }
    Ok(url(snapshot, name)?.sightings.iter().rev().find_map(|sighting| sighting.cluster))
}
