//! Any document against another one, or against the store.

use crate::document::{ClusterId, DocumentId};
use crate::ports::{Snapshot, StoreError};
use crate::sketch::{Rule, Sketch, SketchedContent, compare};
use crate::sweep::Sighting;
use serde::Serialize;
use std::collections::HashSet;
use std::sync::Arc;

/// How two documents relate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// r(A, B), 0 to 1.
    pub resemblance: f64,
    /// One standard error of the resemblance; 0: exact.
    pub error: f64,
    /// How much of A is in B, 0 to 1.
    pub containment_of_a_in_b: f64,
    /// How much of B is in A, 0 to 1.
    pub containment_of_b_in_a: f64,
    /// Distinct shingles of A.
    pub shingles_of_a: u32,
    /// Distinct shingles of B.
    pub shingles_of_b: u32,
    /// Sampled shingles that the resemblance rests on.
    pub shingles_compared: u32,
}

/// Compares two sketches of one rule. Two documents without shingles tell nothing: all is 0.
pub fn compare_sketches(a: &Sketch, b: &Sketch, rule: Rule) -> Comparison {
    let estimate = compare(a, b, rule);
    Comparison {
        resemblance: estimate.resemblance,
        error: estimate.error,
        containment_of_a_in_b: estimate.containment_of_first,
        containment_of_b_in_a: estimate.containment_of_second,
        shingles_of_a: a.n_shingles,
        shingles_of_b: b.n_shingles,
        shingles_compared: estimate.n_compared,
    }
}

/// The sketch of what was last seen at a URL; none where nothing ever was.
///
/// # Errors
/// [`StoreError`]
pub fn sketch_of_url(view: &impl Snapshot, url: &str) -> Result<Option<Arc<Sketch>>, StoreError> {
    let last = view.sightings_of_url(url)?.into_iter().rev().find_map(|sighting| sighting.document);
    match last {
        None => Ok(None),
        Some(document) => Ok(view.document(document)?.map(|document| document.sketch)),
    }
}

/// A document of the store that is like the one asked for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Likeness {
    /// The document.
    pub document: DocumentId,
    /// Its cluster.
    pub cluster: ClusterId,
    /// The document asked for is A, this one B.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// The index shingles that both have.
    pub shared_index_shingles: usize,
    /// Where it was last seen.
    pub last_seen: Option<Sighting>,
}

/// The documents of the store most like a content, best first: by resemblance, then by containment, then by age.
/// Candidates are documents with an index shingle in common with it.
///
/// # Errors
/// [`StoreError`]
pub fn similar(view: &impl Snapshot, content: &SketchedContent, most: usize) -> Result<Vec<Likeness>, StoreError> {
    let shared = view.sharing(&content.index)?;
    let equal: HashSet<DocumentId> = view.equal_to(&content.equivalences)?.into_iter().collect();
    let rule = view.rule().sketch.rule;
    let mut found = Vec::new();
    for document in shared.keys().chain(equal.iter().filter(|document| !shared.contains_key(document))) {
        let Some(stored) = view.document(*document)? else { continue };
        let mut comparison = compare_sketches(&content.sketch, &stored.sketch, rule);
        if equal.contains(document) {
            // Documents of fewer words than a shingle have no sketch, but can be equal.
            comparison.resemblance = 1.0;
            comparison.containment_of_a_in_b = 1.0;
            comparison.containment_of_b_in_a = 1.0;
        }
        found.push((*document, comparison));
    }
    found.sort_by(|(a, x), (b, y)| {
        let key = |comparison: &Comparison| (comparison.resemblance, comparison.containment_of_a_in_b);
        key(y).partial_cmp(&key(x)).unwrap_or(std::cmp::Ordering::Equal).then(a.cmp(b))
    });
    found.truncate(most);
    found
        .into_iter()
        .map(|(document, comparison)| {
            Ok(Likeness {
                document,
                cluster: view.cluster_of(document)?,
                comparison,
                shared_index_shingles: shared.get(&document).copied().unwrap_or(0),
                last_seen: view.sightings_of_document(document)?.pop(),
            })
        })
        .collect()
}
