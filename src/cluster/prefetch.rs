//! Looks up, ahead of the decisions over a batch, what they will ask the store. Any number of threads may.

use super::candidates::BatchIndex;
use super::index_query::IndexQuery;
use super::rule::MatchRule;
use super::view::View;
use crate::sketch::{Shingle, SketchedContent};
use rustc_hash::FxHashSet;
use std::sync::{Arc, PoisonError, RwLock};

/// Knows what a [`Decider`](super::Decider) will ask, as far as that can be foreseen: a shingle that becomes common
/// meanwhile makes it ask for others.
#[derive(Clone, Debug)]
pub struct Prefetcher {
    rule: MatchRule,
    n_index: usize,
    common: Arc<RwLock<FxHashSet<Shingle>>>,
}

impl Prefetcher {
    pub(super) fn new(rule: MatchRule, n_index: usize, common: Arc<RwLock<FxHashSet<Shingle>>>) -> Self {
        Prefetcher { rule, n_index, common }
    }

    /// Loads the lists that the decisions over `contents` can be expected to need, in one request of each kind. `batch` must hold
    /// what the store knows of their equivalences.
    ///
    /// # Errors
    /// The view's error.
    pub fn load<'a, V: View>(
        &self,
        contents: impl Iterator<Item = &'a SketchedContent>,
        batch: &mut BatchIndex,
        view: &V,
    ) -> Result<(), V::Error> {
        let (mut pages, mut supers) = (Vec::new(), Vec::new());
        let common = self.common.read().unwrap_or_else(PoisonError::into_inner);
        for content in contents {
            if !batch.has_equal(&content.equivalences) {
                let is_common = |shingle| common.contains(&shingle);
                pages.push(IndexQuery::new(&content.index, self.n_index, &self.rule, is_common));
                supers.extend_from_slice(&content.super_shingles);
            }
        }
        drop(common);
        batch.load_for(&pages, &supers, view)
    }
}
