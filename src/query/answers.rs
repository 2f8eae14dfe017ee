//! What stood at a URL, what belongs to a cluster, where a lost page is now.

use crate::document::{ClusterId, DocumentId};
use crate::ports::{Snapshot, StoreError};
use crate::sweep::{Found, Moment, Sighting, found};
use serde::Serialize;
use std::collections::HashMap;

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

/// Where the content of a URL stands now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LostAnswer {
    /// The URL asked for.
    pub url: String,
    /// Its newest sighting that had a content.
    pub last_seen: Option<Standing>,
    /// Where a document of the same cluster was last seen, and not before `last_seen`: most recent first. The URL
    /// itself is among them only while nothing more recent is.
    pub answers: Vec<Found>,
}

/// Follows a URL's last content to where it, or something that resembles it, was seen last.
///
/// # Errors
/// [`StoreError`]
pub fn lost(view: &impl Snapshot, asked: &str) -> Result<LostAnswer, StoreError> {
    let last_seen = url(view, asked)?.sightings.into_iter().rfind(|sighting| sighting.cluster.is_some());
    let mut answers = Vec::new();
    if let Some((document, fetched_at)) =
        last_seen.as_ref().and_then(|last: &Standing| Some((last.moment.seen.document()?, last.moment.fetched_at)))
    {
        let members = view.members(document)?;
        let mut latest: HashMap<String, Sighting> = HashMap::new();
        for member in &members {
            for sighting in view.sightings_of_document(*member)? {
                if !latest.contains_key(&sighting.url)
                    && let Some(newest) = view.sightings_of_url(&sighting.url)?.pop()
                {
                    latest.insert(sighting.url, newest);
                }
            }
        }
        answers = found(&members, &latest);
        let is_newer = answers.first().is_some_and(|newest| newest.last_seen > fetched_at);
        answers.retain(|found| found.last_seen >= fetched_at && !(is_newer && found.url == asked));
    }
    Ok(LostAnswer { url: asked.to_string(), last_seen, answers })
}
