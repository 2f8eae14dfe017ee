//! Distributed text: every page that carries a text wholly or in part (Broder 1997, section 1.1).

use super::similar::similar;
use crate::document::{DocumentId, Fingerprint, host_of};
use crate::ports::{Snapshot, StoreError};
use crate::sketch::{SketchedContent, compare};
use crate::sweep::{Moment, UrlState};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Sightings of one document that are looked at: the newest.
const SIGHTINGS_OF_DOCUMENT_MAX: usize = 1000;

/// A URL that carries a text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Carrier {
    /// Where.
    pub url: String,
    /// The newest sighting of the text there.
    #[serde(flatten)]
    pub moment: Moment,
    /// Whether it still stands there, as far as is known.
    pub stands: bool,
    /// Its estimated resemblance to the text.
    pub resemblance: f64,
    /// How much of the text is in it.
    pub contains: f64,
    /// How much of it is in the text.
    pub contained: f64,
}

/// The URLs of a host that carry a text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostCarriers {
    /// The host.
    pub host: String,
    /// Its URLs, those that carry most of the text first.
    pub carriers: Vec<Carrier>,
}

/// Resemblance, how much of the text is in a document, and how much of the document is in the text.
type Shares = [f64; 3];

/// The URLs that carry a content. In a store that indexes mod shingles (`sketch.index_modulus`) also those are found that
/// have it inside a much larger page.
///
/// # Errors
/// [`StoreError`]
pub fn carriers_of_content(
    view: &impl Snapshot,
    content: &SketchedContent,
    threshold: f64,
) -> Result<Vec<HostCarriers>, StoreError> {
    let found = similar(view, content, usize::MAX)?;
    let shares = found.into_iter().map(|likeness| {
        let of = likeness.comparison;
        (likeness.document, [of.resemblance, of.containment_of_a_in_b, of.containment_of_b_in_a])
    });
    carriers(view, shares.collect(), threshold)
}

/// The URLs that carry what was last seen at a URL: of the store's own documents, those of its cluster. None where nothing
/// was ever seen there.
///
/// # Errors
/// [`StoreError`]
pub fn carriers_of_url(
    view: &impl Snapshot,
    url: &str,
    threshold: f64,
) -> Result<Option<Vec<HostCarriers>>, StoreError> {
    let copy = view.states(&[view.key_of(url)])?.pop().flatten().and_then(|state| state.copy);
    let Some(copy) = copy else { return Ok(None) };
    let members = view.members(copy.document)?;
    let Some(text) = view.document(copy.document)? else { return Ok(None) };
    let mut shares: HashMap<DocumentId, Shares> = HashMap::new();
    for members in members.chunks(1024) {
        for (document, stored) in members.iter().zip(view.documents(members)?) {
            let of = compare(&text.sketch, &stored.sketch, view.rule().sketch.rule);
            shares.insert(*document, [of.resemblance, of.containment_of_first, of.containment_of_second]);
        }
    }
    // Documents of fewer words than a shingle have no sketch, but each equals itself.
    shares.insert(copy.document, [1.0; 3]);
    carriers(view, shares, threshold).map(Some)
}

fn carriers(
    view: &impl Snapshot,
    mut shares: HashMap<DocumentId, Shares>,
    threshold: f64,
) -> Result<Vec<HostCarriers>, StoreError> {
    shares.retain(|_, shares| shares.iter().any(|share| *share >= threshold));
    let mut documents: Vec<DocumentId> = shares.keys().copied().collect();
    documents.sort_unstable();
    let mut newest: BTreeMap<Fingerprint, Moment> = BTreeMap::new();
    for standing in view.standings(&documents, SIGHTINGS_OF_DOCUMENT_MAX)? {
        let kept = newest.entry(standing.url).or_insert_with(|| standing.moment.clone());
        if standing.moment > *kept {
            *kept = standing.moment;
        }
    }
    let keys: Vec<Fingerprint> = newest.keys().copied().collect();
    let (urls, states) = (view.urls(&keys)?, view.states(&keys)?);
    let mut hosts: BTreeMap<String, Vec<Carrier>> = BTreeMap::new();
    for ((moment, url), state) in newest.into_values().zip(urls).zip(states) {
        let Some(shares) = moment.seen.document().and_then(|document| shares.get(&document)) else { continue };
        let stands = state.is_some_and(|UrlState { newest, .. }| newest == moment);
        let [resemblance, contains, contained] = *shares;
        let host = host_of(&url).to_string();
        let carrier = Carrier { url, moment, stands, resemblance, contains, contained };
        hosts.entry(host).or_default().push(carrier);
    }
    let mut hosts: Vec<HostCarriers> =
        hosts.into_iter().map(|(host, carriers)| HostCarriers { host, carriers }).collect();
    for host in &mut hosts {
        let best = |carrier: &Carrier| carrier.contains.max(carrier.resemblance);
        host.carriers.sort_by(|a, b| best(b).total_cmp(&best(a)).then_with(|| a.url.cmp(&b.url)));
    }
    hosts.sort_by(|a, b| b.carriers.len().cmp(&a.carriers.len()).then_with(|| a.host.cmp(&b.host)));
    Ok(hosts)
}
