//! Any document against another one, or against the store.

use crate::document::{ClusterId, DocumentId};
use crate::ports::{Snapshot, StoreError, StoredDocument};
use crate::sketch::{Estimate, ModCounts, Rule, Sketch, SketchedContent, compare};
use crate::sweep::Sighting;
use serde::Serialize;
use std::sync::Arc;

/// Documents found by their mod shingles alone that are held against a content, at most: those that share most of them.
/// A long page made of much quoted parts could have hundreds of thousands.
const MOD_CANDIDATES_MAX: usize = 10_000;

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
    /// One standard error of how much of A is in B; 0: exact.
    pub error_of_a_in_b: f64,
    /// One standard error of how much of B is in A.
    pub error_of_b_in_a: f64,
    /// Distinct shingles of A.
    pub shingles_of_a: u32,
    /// Distinct shingles of B.
    pub shingles_of_b: u32,
    /// Sampled shingles that the resemblance rests on.
    pub shingles_compared: u32,
}

/// Compares two sketches of one rule. Two documents without shingles tell nothing: all is 0.
pub fn compare_sketches(a: &Sketch, b: &Sketch, rule: Rule) -> Comparison {
    Comparison::of(a, b, &compare(a, b, rule))
}

impl Comparison {
    fn of(a: &Sketch, b: &Sketch, estimate: &Estimate) -> Self {
        Comparison {
            resemblance: estimate.resemblance,
            error: estimate.error,
            containment_of_a_in_b: estimate.containment_of_first,
            containment_of_b_in_a: estimate.containment_of_second,
            error_of_a_in_b: estimate.containment_error_of_first,
            error_of_b_in_a: estimate.containment_error_of_second,
            shingles_of_a: a.n_shingles,
            shingles_of_b: b.n_shingles,
            shingles_compared: estimate.n_compared,
        }
    }

    /// That of documents found equal: those of fewer words than a shingle have no sketch, but can be equal.
    fn equal(self) -> Self {
        Comparison {
            resemblance: 1.0,
            containment_of_a_in_b: 1.0,
            containment_of_b_in_a: 1.0,
            error_of_a_in_b: 0.0,
            error_of_b_in_a: 0.0,
            ..self
        }
    }

    /// How much at least one of the documents is in the other, as far as is sure: a lone shingle found does not make
    /// a page contained.
    fn sure_containment(&self) -> f64 {
        let of_a = self.containment_of_a_in_b - self.error_of_a_in_b;
        of_a.max(self.containment_of_b_in_a - self.error_of_b_in_a)
    }
}

/// The sketch of what was last seen at a URL; none where nothing ever was.
///
/// # Errors
/// [`StoreError`]
pub fn sketch_of_url(view: &impl Snapshot, url: &str) -> Result<Option<Arc<Sketch>>, StoreError> {
    let last = view.sightings_of_url(url)?.into_iter().rev().find_map(|sighting| sighting.moment.seen.document());
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
    /// The mod shingles that both have; 0 in a store that does not index them.
    pub shared_mod_shingles: u32,
    /// Where it was last seen.
    pub last_seen: Option<Sighting>,
}

/// The documents of the store most like a content, best first. Candidates are documents with an index shingle in common
/// with it, or a mod shingle where the store has an index of them. Such a store ranks by containment, either way, then
/// by resemblance; another one by resemblance, then by containment; then age decides.
///
/// # Errors
/// [`StoreError`]
pub fn similar(view: &impl Snapshot, content: &SketchedContent, most: usize) -> Result<Vec<Likeness>, StoreError> {
    let shared = view.sharing(&content.index)?;
    let equal = view.equal_to(&content.equivalences)?;
    let known: Vec<DocumentId> = shared.keys().chain(&equal).copied().collect();
    let shared_mod = view.sharing_mod(&content.mod_shingles, &known, MOD_CANDIDATES_MAX)?;
    let mut found = Vec::new();
    for (document, n_shared_mod) in &shared_mod {
        if let Some(stored) = view.document(*document)? {
            let comparison = against(view, content, &stored, *n_shared_mod);
            let is_equal = equal.contains(document);
            found.push((*document, if is_equal { comparison.equal() } else { comparison }));
        }
    }
    rank(&mut found, view.rule().sketch.index_modulus > 0);
    found.truncate(most);
    found
        .into_iter()
        .map(|(document, comparison)| {
            Ok(Likeness {
                document,
                cluster: view.cluster_of(document)?,
                comparison,
                shared_index_shingles: shared.get(&document).copied().unwrap_or(0),
                shared_mod_shingles: shared_mod.get(&document).copied().unwrap_or(0),
                last_seen: view.sightings_of_document(document)?.pop(),
            })
        })
        .collect()
}

fn against(view: &impl Snapshot, content: &SketchedContent, stored: &StoredDocument, n_shared_mod: u32) -> Comparison {
    let (a, b) = (&content.sketch, &*stored.sketch);
    let counts =
        ModCounts { first: content.mod_shingles.len() as u32, second: stored.n_mod_shingles, shared: n_shared_mod };
    Comparison::of(a, b, &compare(a, b, view.rule().sketch.rule).refined(a, b, counts))
}

fn rank(found: &mut [(DocumentId, Comparison)], by_containment: bool) {
    let key = |comparison: &Comparison| {
        if by_containment {
            [comparison.sure_containment(), comparison.resemblance]
        } else {
            [comparison.resemblance, comparison.containment_of_a_in_b]
        }
    };
    found.sort_by(|(a, x), (b, y)| key(y).partial_cmp(&key(x)).unwrap_or(std::cmp::Ordering::Equal).then(a.cmp(b)));
}
