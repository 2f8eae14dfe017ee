//! Any document against another one, or against the store.
//!
//! Whoever may ask can ask adaptively: change a word, ask again, keep what brings a stored page nearer. So an estimate is
//! told as [`compare_openly`] makes it and rounded, counts of shared shingles are not told, and whatever can still be
//! learnt of a sketch that way is no match without the [`Confirmation`](crate::sketch::Confirmation), which no answer
//! depends on.

use crate::document::{ClusterId, DocumentId, Fingerprint};
use crate::ports::{Snapshot, StoreError, StoredDocument, StoredSighting};
use crate::sketch::{Estimate, ModCounts, Rule, Shingle, Sketch, SketchedContent, compare_openly};
use crate::sweep::Sighting;
use serde::Serialize;
use std::cmp::{Ordering, Reverse};
use std::collections::HashMap;
use std::sync::Arc;

/// Documents found by their mod shingles alone that are held against a content, at most: those that share most of them.
/// A long page made of much quoted parts could have hundreds of thousands.
const MOD_CANDIDATES_MAX: usize = 10_000;

/// Documents found by index shingles that are held against a content for each one that is asked for, and at least: those
/// that share most. What shares less than so many others do resembles less than they, but by chance.
const COMPARED_EACH: usize = 32;
const COMPARED_LEAST: usize = 256;

/// Documents that are read together.
const READ_TOGETHER: usize = 1024;

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
}

/// Compares two sketches of one rule. Two documents without shingles tell nothing: all is 0.
pub fn compare_sketches(a: &Sketch, b: &Sketch, rule: Rule) -> Comparison {
    Comparison::of(&compare_openly(a, b, rule)).rounded()
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
    fn of(estimate: &Estimate) -> Self {
        Comparison {
            resemblance: estimate.resemblance,
            error: estimate.error,
            containment_of_a_in_b: estimate.containment_of_first,
            containment_of_b_in_a: estimate.containment_of_second,
            error_of_a_in_b: estimate.containment_error_of_first,
            error_of_b_in_a: estimate.containment_error_of_second,
        }
    }

    /// As it is told: what is estimated in hundredths, with its errors rounded up. What is exact stays as it is.
    pub(super) fn rounded(self) -> Self {
        let share = |share: f64, error: f64| if error == 0.0 { share } else { hundredths(share) };
        Comparison {
            resemblance: share(self.resemblance, self.error),
            error: hundredths_up(self.error),
            containment_of_a_in_b: share(self.containment_of_a_in_b, self.error_of_a_in_b),
            containment_of_b_in_a: share(self.containment_of_b_in_a, self.error_of_b_in_a),
            error_of_a_in_b: hundredths_up(self.error_of_a_in_b),
            error_of_b_in_a: hundredths_up(self.error_of_b_in_a),
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
pub fn sketch_of_url(snapshot: &impl Snapshot, url: &str) -> Result<Option<Arc<Sketch>>, StoreError> {
    let last = snapshot.sightings_of_url(url)?.into_iter().rev().find_map(|sighting| sighting.moment.seen.document());
    match last {
        None => Ok(None),
        Some(document) => Ok(snapshot.document(document)?.map(|document| document.sketch)),
    }
}

/// A document of the store that is like the one asked for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SimilarDocument {
    /// The document.
    pub document: DocumentId,
    /// Its cluster.
    pub cluster: ClusterId,
    /// The document asked for is A, this one B.
    #[serde(flatten)]
    pub comparison: Comparison,
    /// Where it was last seen.
    pub last_seen: Option<Sighting>,
}

/// The documents of the store most like a content, best first. Candidates are documents with an index shingle in common
/// with it, or a mod shingle where the store has an index of them, and of these those that share most. Such a store
/// ranks by containment, either way, then by resemblance; another one by resemblance, then by containment; then age
/// decides.
///
/// # Errors
/// [`StoreError`]
pub fn similar(
    snapshot: &impl Snapshot,
    content: &SketchedContent,
    most: usize,
) -> Result<Vec<SimilarDocument>, StoreError> {
    let asked = ShingleQuery::of_content(snapshot, content)?;
    // What resembles it shares its smallest shingles, as many as index a document. The others that it brings find parts of
    // it that are much smaller.
    let n_index = snapshot.rule().sketch.n_index();
    let mut found = asked.compared(snapshot, n_index, most.saturating_mul(COMPARED_EACH).max(COMPARED_LEAST))?;
    rank(&mut found, snapshot.rule().sketch.index_modulus > 0);
    found.truncate(most);
    let documents: Vec<DocumentId> = found.iter().map(|found| found.document).collect();
    let mut last_seen = last_seen(snapshot, &documents)?;
    found
        .into_iter()
        .map(|Compared { document, comparison }| {
            Ok(SimilarDocument {
                document,
                cluster: snapshot.cluster_of(document)?,
                comparison: comparison.rounded(),
                last_seen: last_seen.remove(&document),
            })
        })
        .collect()
}

/// The newest sighting of each document.
fn last_seen(snapshot: &impl Snapshot, documents: &[DocumentId]) -> Result<HashMap<DocumentId, Sighting>, StoreError> {
    let standings = snapshot.standings(documents, 1)?;
    let keys: Vec<Fingerprint> = standings.iter().map(|standing| standing.url).collect();
    let sightings = standings.into_iter().zip(snapshot.urls(&keys)?);
    Ok(sightings
        .filter_map(|(StoredSighting { moment, .. }, url)| Some((moment.seen.document()?, Sighting { url, moment })))
        .collect())
}

/// A text that is held against the store.
pub(super) struct ShingleQuery<'a> {
    pub sketch: &'a Sketch,
    /// Its shingles that find documents, ascending.
    pub index: &'a [Shingle],
    pub mod_shingles: &'a [Shingle],
    /// Documents that it equals.
    pub equal: Vec<DocumentId>,
    /// Documents that are to be held against it whatever they share.
    pub akin: Vec<DocumentId>,
}

/// A document that was held against a text, which is A.
pub(super) struct Compared {
    pub document: DocumentId,
    /// Not yet rounded: what is ranked is not what is told.
    pub comparison: Comparison,
}

impl<'a> ShingleQuery<'a> {
    /// What is asked of a content that is at hand.
    pub fn of_content(snapshot: &impl Snapshot, content: &'a SketchedContent) -> Result<Self, StoreError> {
        Ok(ShingleQuery {
            sketch: &content.sketch,
            index: &content.index,
            mod_shingles: &content.mod_shingles,
            equal: snapshot.equal_to(&content.equivalences)?,
            akin: Vec::new(),
        })
    }

    /// The text against the documents that it has something in common with, by document: those that share most of its
    /// first `n_index` index shingles, `most` at most, and those that share most mod shingles.
    pub fn compared(&self, snapshot: &impl Snapshot, n_index: usize, most: usize) -> Result<Vec<Compared>, StoreError> {
        let shared = snapshot.sharing(self.index, n_index)?;
        let mut known = most_shared(&shared, most);
        known.extend(self.equal.iter().chain(&self.akin));
        let shared_mod = snapshot.sharing_mod(self.mod_shingles, &known, MOD_CANDIDATES_MAX)?;
        let mut documents: Vec<DocumentId> = shared_mod.keys().copied().collect();
        // A list may name documents that are newer than the snapshot.
        documents.retain(|document| document.0 <= snapshot.n_documents());
        documents.sort_unstable();
        let mut compared = Vec::with_capacity(documents.len());
        for together in documents.chunks(READ_TOGETHER) {
            for (document, stored) in together.iter().zip(snapshot.documents(together)?) {
                let comparison = self.against(snapshot, &stored, shared_mod.get(document).copied().unwrap_or(0));
                let is_equal = self.equal.contains(document);
                let comparison = if is_equal { comparison.equal() } else { comparison };
                compared.push(Compared { document: *document, comparison });
            }
        }
        Ok(compared)
    }

    fn against(&self, snapshot: &impl Snapshot, stored: &StoredDocument, n_shared_mod: u32) -> Comparison {
        let (a, b) = (self.sketch, &*stored.sketch);
        let counts =
            ModCounts { first: self.mod_shingles.len() as u32, second: stored.n_mod_shingles, shared: n_shared_mod };
        Comparison::of(&compare_openly(a, b, snapshot.rule().sketch.rule).refined(a, b, counts))
    }
}

/// The documents that share most, `most` of them at most, the older ones first.
fn most_shared(shared: &HashMap<DocumentId, usize>, most: usize) -> Vec<DocumentId> {
    let mut order: Vec<(Reverse<usize>, DocumentId)> =
        shared.iter().map(|(document, n)| (Reverse(*n), *document)).collect();
    if order.len() > most {
        order.select_nth_unstable(most);
        order.truncate(most);
    }
    order.into_iter().map(|(_, document)| document).collect()
}

fn rank(found: &mut [Compared], by_containment: bool) {
    let key = |Compared { comparison, .. }: &Compared| {
        if by_containment {
            [comparison.sure_containment(), comparison.resemblance]
        } else {
            [comparison.resemblance, comparison.containment_of_a_in_b]
        }
    };
    found.sort_by(|a, b| key(b).partial_cmp(&key(a)).unwrap_or(Ordering::Equal).then(a.document.cmp(&b.document)));
}
