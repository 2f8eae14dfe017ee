//! Text reuse: the pages that carry a text wholly or in part (Broder 1997, section 1.1).

use super::similar::{Comparison, ShingleQuery};
use crate::document::{DocumentId, Fingerprint, host_of};
use crate::ports::{Snapshot, StoreError, StoredDocument};
use crate::sketch::SketchedContent;
use crate::sweep::{Observation, UrlState};
use serde::Serialize;
use std::collections::BTreeMap;

/// Sightings read of one document: the newest.
const SIGHTINGS_OF_DOCUMENT_MAX: usize = 1000;

/// Documents compared of those that share index shingles, and of a cluster.
const DOCUMENTS_MAX: usize = 100_000;

/// Standard errors by which an inaccurate share must exceed the threshold. The documents share index shingles with the text.
const ERRORS: f64 = 1.0;

/// A URL that carries a text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReusedPage {
    /// Where.
    pub url: String,
    /// The newest sighting of the text there.
    #[serde(flatten)]
    pub moment: Observation,
    /// Whether it still stands there, as far as the store knows.
    pub stands: bool,
    /// The text asked about is A, this page B.
    #[serde(flatten)]
    pub comparison: Comparison,
}

/// The URLs of a host that carry a text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostReuse {
    /// The host.
    pub host: String,
    /// Its pages, those that carry most of the text first.
    pub pages: Vec<ReusedPage>,
}

/// The URLs that carry a content.
///
/// The store's index finds what resembles the content and parts of it that are not much smaller. A store that
/// indexes mod shingles (`sketch.index_modulus`) also finds small parts of it, and much larger pages around it.
///
/// # Errors
/// [`StoreError`]
pub fn reuse_of_content(
    snapshot: &impl Snapshot,
    content: &SketchedContent,
    threshold: f64,
) -> Result<Vec<HostReuse>, StoreError> {
    let query = ShingleQuery::from_content(snapshot, content)?;
    reuse(snapshot, &query, threshold)
}

/// The URLs that carry the text of a document: those of its cluster, and those found as by [`reuse_of_content`].
///
/// # Errors
/// [`StoreError`]
pub fn reuse_of_document(
    snapshot: &impl Snapshot,
    (document, stored): (DocumentId, &StoredDocument),
    threshold: f64,
) -> Result<Vec<HostReuse>, StoreError> {
    let found_by = snapshot.document_shingles(document)?;
    let query = ShingleQuery {
        sketch: &stored.sketch,
        index: &found_by.index,
        mod_shingles: &found_by.mod_shingles,
        // A document of fewer words than a shingle has an empty sketch, but equals itself.
        equal: vec![document],
        akin: snapshot.some_members(document, DOCUMENTS_MAX)?,
    };
    reuse(snapshot, &query, threshold)
}

fn reuse(snapshot: &impl Snapshot, query: &ShingleQuery<'_>, threshold: f64) -> Result<Vec<HostReuse>, StoreError> {
    let candidates = query.candidates(snapshot, usize::MAX, DOCUMENTS_MAX)?;
    let found: BTreeMap<DocumentId, Comparison> = candidates
        .into_iter()
        .filter(|candidate| candidate.estimate.carries(threshold, ERRORS))
        .map(|candidate| (candidate.document, Comparison::from_estimate(&candidate.estimate)))
        .collect();
    let documents: Vec<DocumentId> = found.keys().copied().collect();
    let mut newest: BTreeMap<Fingerprint, Observation> = BTreeMap::new();
    for standing in snapshot.newest_sightings_of(&documents, SIGHTINGS_OF_DOCUMENT_MAX)? {
        let kept = newest.entry(standing.url).or_insert_with(|| standing.moment.clone());
        if standing.moment > *kept {
            *kept = standing.moment;
        }
    }
    let keys: Vec<Fingerprint> = newest.keys().copied().collect();
    let (urls, states) = (snapshot.urls(&keys)?, snapshot.states(&keys)?);
    let mut pages: Vec<ReusedPage> = Vec::new();
    for ((moment, url), state) in newest.into_values().zip(urls).zip(states) {
        let Some(comparison) = moment.seen.document().and_then(|document| found.get(&document)) else { continue };
        let stands = state.is_some_and(|UrlState { newest, .. }| newest == moment);
        pages.push(ReusedPage { url, moment, stands, comparison: *comparison });
    }
    Ok(by_host(pages))
}

/// Hosts with most pages first; of a host the pages that carry most first.
fn by_host(pages: Vec<ReusedPage>) -> Vec<HostReuse> {
    let mut hosts: BTreeMap<String, Vec<ReusedPage>> = BTreeMap::new();
    for page in pages {
        hosts.entry(host_of(&page.url).to_string()).or_default().push(page);
    }
    let mut hosts: Vec<HostReuse> = hosts.into_iter().map(|(host, pages)| HostReuse { host, pages }).collect();
    let best = |ReusedPage { comparison, .. }: &ReusedPage| {
        comparison.containment_of_a_in_b.unwrap_or(0.0).max(comparison.resemblance)
    };
    for host in &mut hosts {
        host.pages.sort_by(|a, b| best(b).total_cmp(&best(a)).then_with(|| a.url.cmp(&b.url)));
    }
    hosts.sort_by(|a, b| b.pages.len().cmp(&a.pages.len()).then_with(|| a.host.cmp(&b.host)));
    hosts
}
