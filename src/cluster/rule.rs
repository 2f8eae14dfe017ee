//! Match rules: when two documents belong together, and how links make clusters.

use crate::sketch::{Estimate, Rule, Shingle, Sketch, SketchForm, compare, compare_down_to};
use serde::{Deserialize, Serialize};

/// How links form clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClusterPolicy {
    /// Connected components, as in the paper: linked documents belong together, however long the chain. The
    /// clusters do not depend on the order of arrival.
    #[serde(rename = "components")]
    Components,
    /// A document and those that resemble it. Every member resembles the founder, the cluster's first document, so
    /// there are no chains. A new document joins the founder that it resembles most, or founds a cluster; clusters
    /// never merge. The clusters depend on the order of arrival where resemblance is not transitive.
    #[serde(rename = "star")]
    Star,
}

/// When two documents belong together. A store keeps the rule it was created with.
///
/// The serde names are part of the store's format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MatchRule {
    /// The resemblance from which documents are linked; 0.5 in the paper.
    #[serde(rename = "threshold")]
    pub threshold: f64,
    /// How many index shingles a candidate must share; documents with few shingles need fewer.
    #[serde(rename = "min_shared")]
    pub min_shared: usize,
    /// A shingle in more documents than this is common and nominates only its representatives; 1000 in the paper.
    #[serde(rename = "common_limit")]
    pub common_limit: usize,
    /// The most documents that one page is compared with: those that share the rarest shingles first, then the
    /// newest. 0 means no limit and is not written.
    #[serde(rename = "comparisons_max", default, skip_serializing_if = "is_unlimited")]
    pub comparisons_max: usize,
    /// Whether common shingles are also left out of the resemblance, as in the paper.
    #[serde(rename = "ignore_common")]
    pub ignore_common: bool,
    /// How links form clusters; components in the paper.
    #[serde(rename = "policy")]
    pub policy: ClusterPolicy,
}

fn is_unlimited(comparisons_max: &usize) -> bool {
    *comparisons_max == 0
}

impl Default for MatchRule {
    fn default() -> Self {
        MatchRule {
            threshold: 0.5,
            min_shared: 4,
            common_limit: 1000,
            comparisons_max: 128,
            ignore_common: false,
            policy: ClusterPolicy::Components,
        }
    }
}

impl MatchRule {
    /// Returns what is wrong with the rule, if anything.
    pub fn problem(&self) -> Option<String> {
        match self {
            _ if !(self.threshold > 0.0 && self.threshold <= 1.0) => {
                Some(format!("threshold is {}, must be over 0 and at most 1", self.threshold))
            }
            _ if self.min_shared == 0 => Some("min_shared is 0, must be at least 1".into()),
            _ if self.common_limit == 0 => Some("common_limit is 0, must be at least 1".into()),
            _ => None,
        }
    }

    /// Returns how many index shingles a candidate must share with a document that has `n_indexed` of them. Two
    /// documents that are indexed whole and resemble each other share at least threshold × the size of the larger.
    pub fn shared_needed(&self, n_indexed: usize) -> usize {
        let implied = (self.threshold * n_indexed as f64).ceil() as usize;
        implied.clamp(1, self.min_shared)
    }

    /// The most documents of a list that may be [left unread](super::PostingList::Unread).
    pub fn unread_max(&self) -> usize {
        self.common_limit / 2
    }

    /// The most comparisons that one page may cost.
    pub fn n_comparisons(&self) -> usize {
        if self.comparisons_max == 0 { usize::MAX } else { self.comparisons_max }
    }

    /// Returns the estimated resemblance of two documents if the rule links them.
    ///
    /// Candidates that only common shingles nominate (see `candidates_by_representatives`) stand for a large
    /// family. An estimate slightly too high would join the whole family, so there it must exceed the threshold by
    /// three standard errors.
    ///
    /// If both documents have a confirmation, it must allow the link. Confirmations count common shingles, so they
    /// have no say where the rule ignores those.
    pub fn link(
        &self,
        a: &Sketch,
        b: &Sketch,
        rule: Rule,
        is_represented: bool,
        is_common: impl Fn(Shingle) -> bool,
    ) -> Option<f64> {
        let estimate = if self.ignore_common {
            self.estimate(a, b, rule, is_common)
        } else {
            compare_down_to(a, b, rule, self.threshold)?
        };
        let margin = if is_represented { 3.0 * estimate.error } else { 0.0 };
        let is_link =
            estimate.resemblance >= self.threshold + margin && (self.ignore_common || a.confirms(b, self.threshold));
        is_link.then_some(estimate.resemblance)
    }

    /// Estimates the resemblance of two sketches of one rule. Samples leave out the shingles for which `is_common`
    /// holds if the rule ignores common shingles. The other forms do not keep whole shingles and leave out none.
    pub fn estimate(&self, a: &Sketch, b: &Sketch, rule: Rule, is_common: impl Fn(Shingle) -> bool) -> Estimate {
        let has_common = |sketch: &Sketch| match &sketch.form {
            SketchForm::Sample { values, .. } => values.iter().any(|value| is_common(*value)),
            SketchForm::Whole(_) | SketchForm::Parity(_) => false,
        };
        if !self.ignore_common || !(has_common(a) || has_common(b)) {
            return compare(a, b, rule);
        }
        let uncommon = |sketch: &Sketch| {
            let mut sketch = sketch.clone();
            if let SketchForm::Sample { values, .. } = &mut sketch.form {
                values.retain(|value| !is_common(*value));
            }
            sketch
        };
        compare(&uncommon(a), &uncommon(b), rule)
    }
}
