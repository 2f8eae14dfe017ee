//! Compares any document with another one, or with the store.
//!
//! A client can ask adaptively: change a word, ask again, keep what brings a stored page nearer. So an answer holds
//! only what [`compare_redacted`] estimates, rounded, and never counts of shared shingles. What a client can still
//! learn of a sketch that way makes no match without the [`Confirmation`](crate::sketch::Confirmation), which no
//! answer depends on.

use crate::document::{ClusterId, DocumentId, Fingerprint};
use crate::ports::{Snapshot, StoreError, StoredDocument, StoredSighting};
use crate::sketch::{Estimate, ModCounts, Rule, Shingle, Sketch, SketchedContent, compare_redacted};
use crate::sweep::Sighting;
use serde::Serialize;
use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;

/// Documents compared because of their mod shingles alone, at most: those that share most. A long page made of much
/// quoted parts could have hundreds of thousands.
const MOD_CANDIDATES_MAX: usize = 10_000;

/// Documents compared for each one asked for, and at least: those that share most index shingles. A document that
/// shares less than so many others resembles less than they, but by chance.
const COMPARED_EACH: usize = 32;
const COMPARED_LEAST: usize = 256;

/// Documents read in one batch.
const BATCH: usize = 1024;

/// A containment with a larger standard error is unknown: twenty points either way tell nothing.
const CONTAINMENT_ERROR_MAX: f64 = 0.2;

/// How two documents A and B relate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// r(A, B), 0 to 1.
    pub resemblance: f64,
    /// One standard error of the resemblance; 0: exact.
    pub error: f64,
    /// How much of A is in B, 0 to 1; none: the sketches do not tell.
    pub containment_of_a_in_b: Option<f64>,
    /// How much of B is in A, 0 to 1; none: the sketches do not tell.
    pub containment_of_b_in_a: Option<f64>,
    /// One standard error of how much of A is in B; 0: exact.
    pub error_of_a_in_b: f64,
    /// One standard error of how much of B is in A; 0: exact.
    pub error_of_b_in_a: f64,
}

/// Compares two sketches of one rule. Both must have shingles: without any there is nothing to compare.
pub fn compare_sketches(a: &Sketch, b: &Sketch, rule: Rule) -> Comparison {
    Comparison::from_estimate(&compare_redacted(a, b, rule))
}

/// What to say of a text of `n_words` words that nothing can be like, because a shingle has `w`.
pub fn nothing_to_compare(name: &str, n_words: u32, w: usize) -> String {
    match n_words {
        0 => format!("nothing to compare: {name} has no words"),
        n => format!("nothing to compare: {name} has {n} words, fewer than the {w} of a shingle"),
    }
}

/// Rounds a share to the nearest hundredth.
pub(super) fn hundredths(share: f64) -> f64 {
    (share * 100.0).round() / 100.0
}

/// Rounds an error up to the next hundredth.
fn hundredths_up(error: f64) -> f64 {
    (error * 100.0).ceil() / 100.0
}

impl Comparison {
    /// The estimate as an answer holds it: estimated shares in hundredths, errors rounded up, exact shares as they
    /// are.
    pub(super) fn from_estimate(estimate: &Estimate) -> Self {
        let share = |share: f64, error: f64| if error == 0.0 { share } else { hundredths(share) };
        let containment = |of: f64, error: f64| (error <= CONTAINMENT_ERROR_MAX).then(|| share(of, error));
        let [error_of_a, error_of_b] = [estimate.containment_error_of_first, estimate.containment_error_of_second];
        Comparison {
            resemblance: share(estimate.resemblance, estimate.error),
            error: hundredths_up(estimate.error),
            containment_of_a_in_b: containment(estimate.containment_of_first, error_of_a),
            containment_of_b_in_a: containment(estimate.containment_of_second, error_of_b),
            error_of_a_in_b: hundredths_up(error_of_a),
            error_of_b_in_a: hundredths_up(error_of_b),
        }
    }

    /// The same with exact shares in hundredths, too.
    pub(super) fn in_hundredths(self) -> Self {
        Comparison {
            resemblance: hundredths(self.resemblance),
            containment_of_a_in_b: self.containment_of_a_in_b.map(hundredths),
            containment_of_b_in_a: self.containment_of_b_in_a.map(hundredths),
            ..self
        }
    }

    /// A document and itself.
    pub(super) const EQUAL: Comparison = Comparison {
        resemblance: 1.0,
        error: 0.0,
        containment_of_a_in_b: Some(1.0),
        containment_of_b_in_a: Some(1.0),
        error_of_a_in_b: 0.0,
        error_of_b_in_a: 0.0,
    };
}

/// The document last seen at a URL; none where no page was ever seen there.
///
/// # Errors
/// [`StoreError`]
pub fn document_at(snapshot: &impl Snapshot, url: &str) -> Result<Option<(DocumentId, StoredDocument)>, StoreError> {
    let last = snapshot.sightings_of_url(url)?.into_iter().rev().find_map(|sighting| sighting.moment.seen.document());
    match last {
        None => Ok(None),
        Some(document) => Ok(snapshot.document(document)?.map(|stored| (document, stored))),
    }
}

/// A document of the store that is like the one asked about.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SimilarDocument {
    /// The document.
    pub document: DocumentId,
    /// Its cluster.
    pub cluster: ClusterId,
    /// The document asked about is A, this one B.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// Where it was last seen.
    pub last_seen: Option<Sighting>,
}

/// The documents of the store most like a content, best first, at most `limit`.
///
/// Candidates share an index shingle with it, or a mod shingle where the store indexes them. A store with mod
/// shingles ranks by containment, either way, then by resemblance; another store by resemblance, then by
/// containment. The older document breaks a tie.
///
/// # Errors
/// [`StoreError`]
pub fn similar(
    snapshot: &impl Snapshot,
    content: &SketchedContent,
    limit: usize,
) -> Result<Vec<SimilarDocument>, StoreError> {
    let query = ShingleQuery::from_content(snapshot, content)?;
    // A document that resembles the content shares its smallest shingles, as many as index a document. The content's
    // other shingles find parts of it that are much smaller.
    let n_index = snapshot.rule().sketch.n_index();
    let mut found = query.candidates(snapshot, n_index, limit.saturating_mul(COMPARED_EACH).max(COMPARED_LEAST))?;
    rank(&mut found, snapshot.rule().sketch.index_modulus > 0);
    found.truncate(limit);
    let documents: Vec<DocumentId> = found.iter().map(|found| found.document).collect();
    let mut last_seen = last_seen(snapshot, &documents)?;
    found
        .into_iter()
        .map(|Candidate { document, estimate }| {
            Ok(SimilarDocument {
                document,
                cluster: snapshot.cluster_of(document)?,
                comparison: Comparison::from_estimate(&estimate),
                last_seen: last_seen.remove(&document),
            })
        })
        .collect()
}

/// The newest sighting of each document.
pub(super) fn last_seen(
    snapshot: &impl Snapshot,
    documents: &[DocumentId],
) -> Result<HashMap<DocumentId, Sighting>, StoreError> {
    let standings = snapshot.newest_sightings_of(documents, 1)?;
    let keys: Vec<Fingerprint> = standings.iter().map(|standing| standing.url).collect();
    let sightings = standings.into_iter().zip(snapshot.urls(&keys)?);
    Ok(sightings
        .filter_map(|(StoredSighting { moment, .. }, url)| Some((moment.seen.document()?, Sighting { url, moment })))
        .collect())
}

/// A text to compare with the store.
pub(super) struct ShingleQuery<'a> {
    pub sketch: &'a Sketch,
    /// Its shingles that find documents, ascending.
    pub index: &'a [Shingle],
    pub mod_shingles: &'a [Shingle],
    /// Documents that it equals.
    pub equal: Vec<DocumentId>,
    /// Documents to compare with it whatever they share.
    pub akin: Vec<DocumentId>,
}

/// A document compared with a text, which is A.
pub(super) struct Candidate {
    pub document: DocumentId,
    /// Unrounded, for ranking only; answers hold a [`Comparison`].
    pub estimate: Estimate,
}

impl<'a> ShingleQuery<'a> {
    /// The query for a content at hand.
    pub fn from_content(snapshot: &impl Snapshot, content: &'a SketchedContent) -> Result<Self, StoreError> {
        Ok(ShingleQuery {
            sketch: &content.sketch,
            index: &content.index,
            mod_shingles: &content.mod_shingles,
            equal: snapshot.equal_to(&content.equivalences)?,
            akin: Vec::new(),
        })
    }

    /// Compares the text with the documents that share something with it, by document: at most `limit` of those that
    /// share most of its first `n_index` index shingles, and those that share most mod shingles.
    pub fn candidates(
        &self,
        snapshot: &impl Snapshot,
        n_index: usize,
        limit: usize,
    ) -> Result<Vec<Candidate>, StoreError> {
        let shared = snapshot.sharing(self.index, n_index)?;
        let mut known = most_shared(&shared, limit);
        known.extend(self.equal.iter().chain(&self.akin));
        let shared_mod = snapshot.sharing_mod(self.mod_shingles, &known, MOD_CANDIDATES_MAX)?;
        let mut documents: Vec<DocumentId> = shared_mod.keys().copied().collect();
        // A list may name documents that are newer than the snapshot.
        documents.retain(|document| document.0 <= snapshot.n_documents());
        documents.sort_unstable();
        let mut candidates = Vec::with_capacity(documents.len());
        for batch in documents.chunks(BATCH) {
            for (document, stored) in batch.iter().zip(snapshot.documents(batch)?) {
                let n_shared_mod = shared_mod.get(document).copied().unwrap_or(0);
                let mut estimate = self.estimate(snapshot, &stored, n_shared_mod);
                if self.equal.contains(document) {
                    estimate = equal(estimate);
                }
                candidates.push(Candidate { document: *document, estimate });
            }
        }
        Ok(candidates)
    }

    fn estimate(&self, snapshot: &impl Snapshot, stored: &StoredDocument, n_shared_mod: u32) -> Estimate {
        let (a, b) = (self.sketch, &*stored.sketch);
        let counts = ModCounts {
            n_first: self.mod_shingles.len() as u32,
            n_second: stored.n_mod_shingles,
            n_shared: n_shared_mod,
        };
        compare_redacted(a, b, snapshot.rule().sketch.rule).refined(a, b, counts)
    }
}

/// The estimate for equal documents: those of fewer words than a shingle have an empty sketch, but can be equal.
fn equal(estimate: Estimate) -> Estimate {
    Estimate {
        resemblance: 1.0,
        error: 0.0,
        containment_of_first: 1.0,
        containment_of_second: 1.0,
        containment_error_of_first: 0.0,
        containment_error_of_second: 0.0,
        ..estimate
    }
}

/// The documents that share most, at most `limit`, the older ones first.
fn most_shared(shared: &HashMap<DocumentId, usize>, limit: usize) -> Vec<DocumentId> {
    let mut order: Vec<(Reverse<usize>, DocumentId)> =
        shared.iter().map(|(document, n)| (Reverse(*n), *document)).collect();
    if order.len() > limit {
        order.select_nth_unstable(limit);
        order.truncate(limit);
    }
    order.into_iter().map(|(_, document)| document).collect()
}

fn rank(found: &mut [Candidate], by_containment: bool) {
    let key = |Candidate { estimate, .. }: &Candidate| {
        if by_containment {
            [sure_containment(estimate), estimate.resemblance]
        } else {
            [estimate.resemblance, estimate.containment_of_first]
        }
    };
    found.sort_by(|a, b| key(b).partial_cmp(&key(a)).unwrap_or(Ordering::Equal).then(a.document.cmp(&b.document)));
}

/// How much at least one of the documents is in the other, less the error: one shared shingle does not make a page
/// contained.
fn sure_containment(estimate: &Estimate) -> f64 {
    let of_first = estimate.containment_of_first - estimate.containment_error_of_first;
    of_first.max(estimate.containment_of_second - estimate.containment_error_of_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lost once: the doubt. A containment of 100 % ± 30 was shown as 100 %.
    #[test]
    fn a_containment_that_is_a_guess_is_unknown() {
        let estimate = Estimate {
            resemblance: 0.512,
            error: 0.021,
            containment_of_first: 1.0,
            containment_of_second: 0.256,
            containment_error_of_first: 0.201,
            containment_error_of_second: 0.2,
            n_compared: 9,
        };
        let comparison = Comparison::from_estimate(&estimate);
        assert_eq!((comparison.containment_of_a_in_b, comparison.error_of_a_in_b), (None, 0.21));
        assert_eq!((comparison.containment_of_b_in_a, comparison.error_of_b_in_a), (Some(0.26), 0.2));
        assert_eq!((comparison.resemblance, comparison.error), (0.51, 0.03));
        let nothing = Estimate { containment_error_of_first: f64::INFINITY, ..estimate };
        assert_eq!(Comparison::from_estimate(&nothing).containment_of_a_in_b, None);
        assert!(
            equal(estimate).containment_of_first == 1.0
                && Comparison::from_estimate(&equal(estimate)) == Comparison::EQUAL
        );
    }
}
