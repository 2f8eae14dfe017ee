//! Neighbours and clusters of related pages, as the last build found them (Haveliwala, Gionis and Indyk 2000, section 5).

use super::redirects::RedirectWay;
use super::target_names::TargetNames;
use crate::ports::{Neighbours, RelatedView, Snapshot, StoreError};
use crate::related::Target;
use serde::Serialize;

/// The cluster of related pages that a URL is in, by the last build that looked for clusters (section 5).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RelatedCluster {
    /// The URL asked about; where it redirects, the URL where it leads.
    pub of: String,
    /// The center: every other URL of the cluster is similar to it.
    pub center: String,
    /// The other URLs, at most as many as were asked for.
    pub members: Vec<String>,
    /// The URLs most similar to the one asked about, in whatever clusters they are, best first.
    pub nearest: Vec<NearUrl>,
}

/// A URL and how similar it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NearUrl {
    /// The URL.
    pub url: String,
    /// The similarity of the bags, 0 to 1.
    pub similarity: f64,
}

/// What to do about a store in which no build looked for clusters.
pub const NO_RELATED_CLUSTERS: &str =
    "no build of related pages looked for clusters here; `lookalike related build --clusters` does";

/// Whether the last build looked for clusters.
///
/// # Errors
/// [`StoreError`]
pub fn has_related_clusters(snapshot: &impl RelatedView) -> Result<bool, StoreError> {
    Ok(snapshot.related_build()?.is_some_and(|build| build.clusters.is_some()))
}

/// The cluster of related pages that a URL is in; `None` where it is similar to no other.
///
/// # Errors
/// [`StoreError`]
pub fn related_cluster<S: Snapshot + RelatedView>(
    snapshot: &S,
    url: &str,
    limit: usize,
) -> Result<Option<RelatedCluster>, StoreError> {
    let Some(names) = TargetNames::new(snapshot)? else { return Ok(None) };
    let Some(url) = RedirectWay::from_url(snapshot, url)?.end else { return Ok(None) };
    let target = Target::of(snapshot.seed(), &url);
    let Some(Neighbours { center, nearest }) = snapshot.neighbours(target)? else { return Ok(None) };
    let Some(center_url) = names.url(center)? else { return Ok(None) };
    let mut members = Vec::new();
    for member in snapshot.related_members(center, limit)? {
        members.extend(names.url(member)?);
    }
    let mut near = Vec::with_capacity(nearest.len());
    for (target, similarity) in nearest {
        near.extend(names.url(target)?.map(|url| NearUrl { url, similarity: rounded(similarity) }));
    }
    Ok(Some(RelatedCluster { of: url, center: center_url, members, nearest: near }))
}

/// A URL and one that is related to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RelatedPair {
    /// The URL.
    pub url: String,
    /// The other one.
    pub related: String,
    /// The similarity of the bags, 0 to 1.
    pub similarity: f64,
}

/// A URL and the center of its cluster of related pages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RelatedCenter {
    /// The URL.
    pub url: String,
    /// The center.
    pub center: String,
}

/// Gives the neighbours of every URL, the best first, until `each` returns false.
///
/// # Errors
/// [`StoreError`]
pub fn export_related<S: Snapshot + RelatedView>(
    snapshot: &S,
    each: &mut dyn FnMut(RelatedPair) -> bool,
) -> Result<(), StoreError> {
    each_named(snapshot, |names, url, Neighbours { nearest, .. }| {
        for (target, similarity) in nearest {
            let Some(related) = names.url(target)? else { continue };
            if !each(RelatedPair { url: url.clone(), related, similarity: rounded(similarity) }) {
                return Ok(false);
            }
        }
        Ok(true)
    })
}

/// Gives the center of every URL that is similar to another, until `each` returns false.
///
/// # Errors
/// [`StoreError`]
pub fn export_centers<S: Snapshot + RelatedView>(
    snapshot: &S,
    each: &mut dyn FnMut(RelatedCenter) -> bool,
) -> Result<(), StoreError> {
    each_named(snapshot, |names, url, Neighbours { center, .. }| {
        let Some(center) = names.url(center)? else { return Ok(true) };
        Ok(each(RelatedCenter { url, center }))
    })
}

fn each_named<S: Snapshot + RelatedView>(
    snapshot: &S,
    mut each: impl FnMut(&TargetNames<'_, S>, String, Neighbours) -> Result<bool, StoreError>,
) -> Result<(), StoreError> {
    let Some(names) = TargetNames::new(snapshot)? else { return Ok(()) };
    let mut outcome = Ok(());
    snapshot.each_neighbours(&mut |target, neighbours| {
        let named = names.url(target).and_then(|url| url.map_or(Ok(true), |url| each(&names, url, neighbours)));
        let goes_on = *named.as_ref().unwrap_or(&false);
        outcome = named.map(|_| ());
        goes_on
    })?;
    outcome
}

/// Six digits distinguish any two similarities of whole weights.
fn rounded(similarity: f32) -> f64 {
    (f64::from(similarity) * 1e6).round() / 1e6
}
