//! Distributed text: every page that carries a text wholly or in part (Broder 1997, section 1.1).

use super::similar::{Comparison, ShingleQuery};
use crate::document::{DocumentId, Fingerprint, host_of};
use crate::ports::{Snapshot, StoreError};
use crate::sketch::SketchedContent;
use crate::sweep::{Observation, UrlState};
use serde::Serialize;
use std::collections::BTreeMap;

/// Sightings of one document that are looked at: the newest.
const SIGHTINGS_OF_DOCUMENT_MAX: usize = 1000;

/// Documents that are looked at of those that share index shingles, and of a cluster.
const DOCUMENTS_MAX: usize = 100_000;

/// An estimate with a larger standard error counts less its error: one shingle found of the two that were looked for is
/// no half of a text.
const ERROR_MAX: f64 = 0.05;

/// A URL that carries a text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReusedPage {
    /// Where.
    pub url: String,
    /// The newest sighting of the text there.
    #[serde(flatten)]
    pub moment: Observation,
    /// Whether it still stands there, as far as is known.
    pub stands: bool,
    /// Its estimated resemblance to the text, in hundredths, as all of these.
    pub resemblance: f64,
    /// How much of the text is in it.
    pub contains: f64,
    /// How much of it is in the text.
    pub contained: f64,
}

/// The URLs of a host that carry a text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostReuse {
    /// The host.
    pub host: String,
    /// Its URLs, those that carry most of the text first.
    pub carriers: Vec<ReusedPage>,
}

/// The URLs that carry a content: found by the shingles that index the store's documents, which finds what resembles it
/// and parts of it that are not much smaller; in a store that indexes mod shingles (`sketch.index_modulus`) also small
/// parts of it, and it inside much larger pages.
///
/// # Errors
/// [`StoreError`]
pub fn reuse_of_content(
    snapshot: &impl Snapshot,
    content: &SketchedContent,
    threshold: f64,
) -> Result<Vec<HostReuse>, StoreError> {
    let asked = ShingleQuery::of_content(snapshot, content)?;
    carriers(snapshot, &asked, threshold)
}

/// The URLs that carry what was last seen at a URL: those of its cluster, and those that share shingles with it as above.
/// None where nothing was ever seen there.
///
/// # Errors
/// [`StoreError`]
pub fn reuse_of_url(snapshot: &impl Snapshot, url: &str, threshold: f64) -> Result<Option<Vec<HostReuse>>, StoreError> {
    let copy = snapshot.states(&[snapshot.key_of(url)])?.pop().flatten().and_then(|state| state.copy);
    let Some(copy) = copy else { return Ok(None) };
    let Some(text) = snapshot.document(copy.document)? else { return Ok(None) };
    let found_by = snapshot.found_by(copy.document)?;
    let asked = ShingleQuery {
        sketch: &text.sketch,
        index: &found_by.index,
        mod_shingles: &found_by.mod_shingles,
        // Documents of fewer words than a shingle have no sketch, but each equals itself.
        equal: vec![copy.document],
        akin: snapshot.some_members(copy.document, DOCUMENTS_MAX)?,
    };
    carriers(snapshot, &asked, threshold).map(Some)
}

/// Whether a document carries a text, wholly or in part, or is itself carried by it. An estimate that rests on next to
/// nothing counts only as far as it is sure.
fn carries(of: &Comparison, threshold: f64) -> bool {
    let shares = [
        (of.resemblance, of.error),
        (of.containment_of_a_in_b, of.error_of_a_in_b),
        (of.containment_of_b_in_a, of.error_of_b_in_a),
    ];
    shares.iter().any(|(share, error)| *share >= threshold && (*error <= ERROR_MAX || share - error >= threshold))
}

fn carriers(snapshot: &impl Snapshot, asked: &ShingleQuery<'_>, threshold: f64) -> Result<Vec<HostReuse>, StoreError> {
    let found = asked.compared(snapshot, usize::MAX, DOCUMENTS_MAX)?;
    let found = found.into_iter().filter(|found| carries(&found.comparison, threshold));
    let found: BTreeMap<DocumentId, Comparison> = found.map(|found| (found.document, found.comparison)).collect();
    let documents: Vec<DocumentId> = found.keys().copied().collect();
    let mut newest: BTreeMap<Fingerprint, Observation> = BTreeMap::new();
    for standing in snapshot.standings(&documents, SIGHTINGS_OF_DOCUMENT_MAX)? {
        let kept = newest.entry(standing.url).or_insert_with(|| standing.moment.clone());
        if standing.moment > *kept {
            *kept = standing.moment;
        }
    }
    let keys: Vec<Fingerprint> = newest.keys().copied().collect();
    let (urls, states) = (snapshot.urls(&keys)?, snapshot.states(&keys)?);
    let mut hosts: BTreeMap<String, Vec<ReusedPage>> = BTreeMap::new();
    for ((moment, url), state) in newest.into_values().zip(urls).zip(states) {
        let Some(of) = moment.seen.document().and_then(|document| found.get(&document)) else { continue };
        let of = of.rounded();
        let stands = state.is_some_and(|UrlState { newest, .. }| newest == moment);
        let host = host_of(&url).to_string();
        let carrier = ReusedPage {
            url,
            moment,
            stands,
            resemblance: of.resemblance,
            contains: of.containment_of_a_in_b,
            contained: of.containment_of_b_in_a,
        };
        hosts.entry(host).or_default().push(carrier);
    }
    let mut hosts: Vec<HostReuse> = hosts.into_iter().map(|(host, carriers)| HostReuse { host, carriers }).collect();
    for host in &mut hosts {
        let best = |carrier: &ReusedPage| carrier.contains.max(carrier.resemblance);
        host.carriers.sort_by(|a, b| best(b).total_cmp(&best(a)).then_with(|| a.url.cmp(&b.url)));
    }
    hosts.sort_by(|a, b| b.carriers.len().cmp(&a.carriers.len()).then_with(|| a.host.cmp(&b.host)));
    Ok(hosts)
}
