//! What stood at a URL, what belongs to a cluster.

use crate::document::{ClusterId, DocumentId};
use crate::ports::{Snapshot, StoreError};
use crate::sweep::{Moment, Sighting};
use serde::Serialize;

/// One sighting of a URL and the cluster that its document belongs to now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Standing {
    /// When, what, on which sweep.
    #[serde(flatten)]
    pub moment: Moment,
    /// The document's cluster.
    pub cluster: Option<ClusterId>,
}

/// The history of a URL.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UrlAnswer {
    /// The URL.
    pub url: String,
    /// Its sightings, oldest first.
    pub sightings: Vec<Standing>,
}

/// The history of a URL; no sightings where it was never seen.
///
/// # Errors
/// [`StoreError`]
pub fn url(view: &impl Snapshot, url: &str) -> Result<UrlAnswer, StoreError> {
    let mut sightings = Vec::new();
    for sighting in view.sightings_of_url(url)? {
        let cluster = sighting.moment.seen.document().map(|document| view.cluster_of(document)).transpose()?;
        sightings.push(Standing { moment: sighting.moment, cluster });
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
pub fn cluster(view: &impl Snapshot, id: ClusterId) -> Result<Option<ClusterAnswer>, StoreError> {
    let document = DocumentId(id.0);
    if !(1..=view.n_documents()).contains(&id.0) {
        return Ok(None);
    }
    let documents = view.members(document)?;
    let mut sightings = Vec::new();
    for member in &documents {
        sightings.extend(view.sightings_of_document(*member)?);
    }
    sightings.sort_by(|a, b| (&a.url, &a.moment).cmp(&(&b.url, &b.moment)));
    Ok(Some(ClusterAnswer { cluster: view.cluster_of(document)?, documents, sightings }))
}

/// The cluster that a text names: by its number or that of any document in it, or by a URL, whose newest content counts.
///
/// # Errors
/// [`StoreError`]
pub fn named_cluster(view: &impl Snapshot, name: &str) -> Result<Option<ClusterId>, StoreError> {
    if let Ok(id) = name.parse() {
        return Ok(Some(ClusterId(id)));
    }
    Ok(url(view, name)?.sightings.iter().rev().find_map(|sighting| sighting.cluster))
}
