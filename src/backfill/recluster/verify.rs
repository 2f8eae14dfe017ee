//! Compares pairs of a store's documents under a new rule.

use crate::backfill::context::Context;
use crate::backfill::error::BackfillError;
use crate::backfill::rows::{LinkRow, Pair};
use crate::document::DocumentId;
use crate::ports::{LinkView, Snapshot};
use crate::sketch::{Shingle, Sketch, compare};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What makes a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkRule {
    /// This resemblance or more links two documents.
    pub threshold: f64,
    /// This containment or more, of either document in the other, links them, too. `None` ignores containment.
    pub containment: Option<f64>,
}

/// Sketches, and what makes two of them a link.
pub(super) trait Sketches {
    /// The sketches of documents, which must exist.
    fn sketches_of(&self, documents: Vec<DocumentId>) -> Result<HashMap<DocumentId, Arc<Sketch>>, BackfillError>;

    /// The estimated resemblance of two sketches.
    fn resemblance(&self, a: &Sketch, b: &Sketch) -> f64;

    /// The estimated resemblance of two sketches, if the rule links them.
    fn link(&self, a: &Sketch, b: &Sketch) -> Option<f64>;
}

/// Compares the documents of a store under a new rule.
pub(super) struct Comparer<'a, S> {
    pub store: &'a S,
    pub context: &'a Context,
    pub rule: LinkRule,
    /// The common shingles.
    pub common: HashSet<Shingle>,
}

impl<S: Snapshot + LinkView + Sync> Comparer<'_, S> {
    /// Compares pairs on all threads. Returns the links, in the order of the pairs.
    pub fn links(&self, pairs: &[Pair]) -> Result<Vec<LinkRow>, BackfillError> {
        self.context.check_stop()?;
        let verify = |pairs: &[Pair]| -> Result<Vec<LinkRow>, BackfillError> {
            let documents = pairs.iter().flat_map(|pair| [pair.later(), pair.earlier()]).collect();
            let sketches = self.sketches_of(documents)?;
            let link = |pair: &Pair| {
                let (later, earlier) = (pair.later(), pair.earlier());
                let resemblance = self.link(sketches.get(&later)?, sketches.get(&earlier)?)?;
                Some(LinkRow { later, earlier, resemblance })
            };
            Ok(pairs.iter().filter_map(link).collect())
        };
        let verify = &verify;
        std::thread::scope(|scope| {
            let share = pairs.len().div_ceil(self.context.n_threads).max(1);
            let threads: Vec<_> = pairs.chunks(share).map(|pairs| scope.spawn(move || verify(pairs))).collect();
            let mut all = Vec::new();
            for thread in threads {
                all.extend(thread.join().map_err(|_| BackfillError::WorkerPanicked)??);
            }
            Ok(all)
        })
    }
}

impl<S: Snapshot + LinkView> Sketches for Comparer<'_, S> {
    fn sketches_of(&self, mut documents: Vec<DocumentId>) -> Result<HashMap<DocumentId, Arc<Sketch>>, BackfillError> {
        documents.sort_unstable();
        documents.dedup();
        let sketches = self.store.sketches_of(&documents)?;
        Ok(documents.into_iter().zip(sketches).collect())
    }

    fn resemblance(&self, a: &Sketch, b: &Sketch) -> f64 {
        let rules = self.store.rule();
        rules.cluster.estimate(a, b, rules.sketch.rule, |shingle| self.common.contains(&shingle)).resemblance
    }

    fn link(&self, a: &Sketch, b: &Sketch) -> Option<f64> {
        let (rule, rules) = (self.rule, self.store.rule());
        let resemblance = self.resemblance(a, b);
        let is_confirmed = |least: f64| rules.cluster.ignore_common || a.confirms(b, least);
        let is_link = (resemblance >= rule.threshold && is_confirmed(rule.threshold))
            || rule.containment.is_some_and(|least| {
                let estimate = compare(a, b, rules.sketch.rule);
                estimate.containment_of_first.max(estimate.containment_of_second) >= least
                    && is_confirmed(resemblance_at_containment(a, b, least))
            });
        is_link.then_some(resemblance)
    }
}

/// The resemblance of two documents where this share of the smaller one is in the larger one.
fn resemblance_at_containment(a: &Sketch, b: &Sketch, containment: f64) -> f64 {
    let (n_a, n_b) = (f64::from(a.n_shingles), f64::from(b.n_shingles));
    let n_common = containment * n_a.min(n_b);
    n_common / (n_a + n_b - n_common).max(1.0)
}
