//! Clusters a store's documents, as a whole or some of them: forms pairs, compares them, follows the policy.

use super::forming::Forming;
use super::policy::ReclusterPolicy;
use super::store_lists::{Parts, StoreLists};
use super::verify::{Comparer, LinkRule};
use crate::backfill::context::Context;
use crate::backfill::error::BackfillError;
use crate::backfill::min_shared::MinShared;
use crate::backfill::rows::{LinkRow, Pair};
use crate::cluster::{Link, MatchRule};
use crate::document::DocumentId;
use crate::extsort::MergeReader;
use crate::ports::{LinkView, Snapshot};

/// Pairs that are compared together, and the rest of those of the last document among them.
const BATCH_PAIRS: usize = 1 << 15;

/// New clusters.
pub struct Reclustered {
    /// The cluster of every document, named by its smallest document.
    pub names: Vec<DocumentId>,
    /// Links that span the clusters, the later document first. No two join the same documents.
    pub links: Vec<Link>,
}

/// Clusters a store's documents under another rule. The store does not change.
///
/// # Errors
/// [`BackfillError`]
pub fn recluster<S: Snapshot + LinkView + Sync>(
    store: &S,
    context: &Context,
    rule: LinkRule,
    policy: ReclusterPolicy,
) -> Result<Reclustered, BackfillError> {
    recluster_parts(store, context, rule, policy, None)
}

/// Like [`recluster`]. Of `parts`, only documents of one part may be linked, and all others stay alone.
pub(super) fn recluster_parts<S: Snapshot + LinkView + Sync>(
    store: &S,
    context: &Context,
    rule: LinkRule,
    policy: ReclusterPolicy,
    parts: Option<&Parts>,
) -> Result<Reclustered, BackfillError> {
    // As in a backfill, neighbours come first: the other pairs of the clusters that they make need not be formed.
    let StoreLists { neighbours, lists } =
        StoreLists::copy(store, context, policy == ReclusterPolicy::Components, parts)?;
    let mut reclustering = Reclustering::new(store, context, rule, policy)?;
    let mut pairs = MergeReader::new(&neighbours, None, None)?;
    while let Some(pair) = pairs.next_row()? {
        reclustering.add(pair)?;
    }
    reclustering.compare_batch()?;
    let mut names = reclustering.names();
    // Under the other policies a document may leave its cluster for another: all lists form pairs.
    let lists = match policy {
        ReclusterPolicy::Components => lists.mixed(context, &names, &reclustering.min_shared)?.0,
        _ => lists,
    };
    for range in lists.document_ranges(context, &names)? {
        lists.form_pairs(context, &names, range)?.each(context, |_| true, |pair| reclustering.add(pair))?;
        reclustering.compare_batch()?;
        names = reclustering.names();
    }
    let (names, links) = reclustering.forming.finish(store.n_documents());
    let link = |LinkRow { later, earlier, resemblance }: LinkRow| Link { document: later, to: earlier, resemblance };
    Ok(Reclustered { names, links: links.into_iter().map(link).collect() })
}

/// Clusters under way.
struct Reclustering<'a, S> {
    comparer: Comparer<'a, S>,
    min_shared: MinShared,
    /// Candidates that are not compared yet: all pairs of each later document, in order.
    batch: Vec<Pair>,
    forming: Forming,
}

impl<'a, S: Snapshot + LinkView + Sync> Reclustering<'a, S> {
    fn new(store: &'a S, context: &'a Context, rule: LinkRule, policy: ReclusterPolicy) -> Result<Self, BackfillError> {
        let nominating_rule = MatchRule { threshold: rule.threshold, ..store.rule().cluster.clone() };
        let mut min_shared = MinShared::none(store.n_documents());
        store.each_index_size(&mut |document, n_index| min_shared.set(document, &nominating_rule, n_index))?;
        Ok(Reclustering {
            comparer: Comparer { store, context, rule, common: store.common_shingles()? },
            min_shared,
            batch: Vec::with_capacity(BATCH_PAIRS),
            forming: Forming::new(policy, store.n_documents(), context),
        })
    }

    /// Adds a pair to the batch if it shares enough. Compares a full batch once a document's pairs are complete.
    fn add(&mut self, pair: Pair) -> Result<(), BackfillError> {
        let is_other = self.batch.last().is_some_and(|last| last.later() != pair.later());
        if is_other && self.batch.len() >= BATCH_PAIRS {
            self.compare_batch()?;
        }
        if self.min_shared.makes_candidate(&pair) {
            self.batch.push(pair);
        }
        Ok(())
    }

    fn compare_batch(&mut self) -> Result<(), BackfillError> {
        if let Forming::Popular(clusters) = &mut self.forming {
            self.comparer.context.check_stop()?;
            clusters.add(&self.comparer, &self.batch)?;
        } else {
            self.batch.retain(|pair| self.forming.needs(pair));
            self.comparer.links(&self.batch)?.into_iter().for_each(|link| self.forming.add(link));
        }
        self.batch.clear();
        Ok(())
    }

    /// The clusters so far, whose own pairs are not needed. Under policies that need every pair each document is
    /// alone.
    fn names(&mut self) -> Vec<u32> {
        match &mut self.forming {
            Forming::Components { clusters, .. } => {
                clusters.cluster_of_each().into_iter().map(|cluster| cluster.0).collect()
            }
            _ => (1..=self.comparer.store.n_documents()).collect(),
        }
    }
}
