//! Match rules: when two documents belong together, and how links make clusters.

use crate::sketch::{Estimate, Rule, Shingle, Sketch, SketchForm, compare};
use serde::{Deserialize, Serialize};

/// How links make clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClusterPolicy {
    /// Connected components, as in the paper: what is linked belongs together, however long the chain. The clusters do
    /// not depend on the order in which documents come.
    #[serde(rename = "components")]
    Components,
    /// A document and those that resemble it: every member resembles the one that its cluster was made around, so that
    /// there are no chains. In a stream that is the cluster's first document, its founder; a document joins the founder
    /// that it resembles most, or founds a cluster, and clusters never merge. Which documents are founders depends on
    /// the order in which they come; the clusters depend on it where resemblance is not transitive.
    #[serde(rename = "star")]
    Star,
}

/// When two documents belong together. A store is made with one rule and keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MatchRule {
    /// Documents of this resemblance or more are linked; 0.5 in the paper.
    #[serde(rename = "threshold")]
    pub threshold: f64,
    /// A document is a candidate from this many shared index shingles on, or fewer for documents that have few.
    #[serde(rename = "min_shared")]
    pub min_shared: usize,
    /// A shingle in more documents than this is common: it nominates a few representatives of these and nobody else;
    /// 1000 in the paper.
    #[serde(rename = "common_limit")]
    pub common_limit: usize,
    /// A page is compared with this many documents at most, those first whose shared shingles stand in the fewest
    /// others, then the newest; 0: with all that share enough. Left out of what is written where it is 0.
    #[serde(rename = "comparisons_max", default, skip_serializing_if = "is_unlimited")]
    pub comparisons_max: usize,
    /// Whether common shingles are left out of the resemblance as well, as in the paper.
    #[serde(rename = "ignore_common")]
    pub ignore_common: bool,
    /// How links make clusters; components in the paper.
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
    /// What is wrong with the rule, if anything.
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

    /// How many index shingles a document with `n_indexed` of them must share with a candidate. Where both documents
    /// are indexed whole, two that resemble each other share at least threshold × the larger of them.
    pub fn shared_needed(&self, n_indexed: usize) -> usize {
        let implied = (self.threshold * n_indexed as f64).ceil() as usize;
        implied.clamp(1, self.min_shared)
    }

    /// How many comparisons a page may cost.
    pub fn n_comparisons(&self) -> usize {
        if self.comparisons_max == 0 { usize::MAX } else { self.comparisons_max }
    }

    /// The estimated resemblance of two documents where it links them. A page that only common shingles nominate for (see
    /// [`candidates_by_representatives`]) is one of a large family, and its candidates stand for many: there an estimate must be over the
    /// threshold by three standard errors, or those that are a little under it would make a false cluster of the whole
    /// family. The confirmations, where both have one, must allow the link; they count common shingles, and have no say
    /// where these are left out.
    pub fn link(
        &self,
        a: &Sketch,
        b: &Sketch,
        rule: Rule,
        is_represented: bool,
        is_common: impl Fn(Shingle) -> bool,
    ) -> Option<f64> {
        let estimate = self.estimate(a, b, rule, is_common);
        let margin = if is_represented { 3.0 * estimate.error } else { 0.0 };
        let is_link =
            estimate.resemblance >= self.threshold + margin && (self.ignore_common || a.confirms(b, self.threshold));
        is_link.then_some(estimate.resemblance)
    }

    /// What two sketches of one rule tell of their documents. `is_common` tells which shingles are; they are left out of
    /// samples where the rule says so. The other forms do not tell which shingles they are made of.
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
