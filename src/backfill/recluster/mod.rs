//! Clusters a store's documents under another threshold or policy, from its sketches and without its pages.
//!
//! Candidates are the pairs that share enough of a list, as in the stream, and the store's links. Below the threshold
//! that the store was created with, candidates share `cluster.min_shared` index shingles or a super shingle. Under a
//! rule that ignores common shingles, a shingle counts as common if it is common now, not when a document came.

pub(in crate::backfill) mod cluster_diff;
mod policy;
mod store_lists;
mod verify;

pub use policy::ReclusterPolicy;
pub use verify::LinkRule;

use crate::backfill::context::Context;
use crate::backfill::error::BackfillError;
use crate::backfill::rows::{LinkRow, Pair};
use crate::cluster::{Clusters, Link, MatchRule};
use crate::document::DocumentId;
use crate::extsort::MergeReader;
use crate::ports::{LinkView, Snapshot};
use crate::sketch::Shingle;
use policy::{center_clusters, star_clusters};
use std::collections::HashSet;
use store_lists::StoreLists;
use verify::verified_links;

/// Pairs that are compared together.
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
    // As in a backfill, neighbours come first: the other pairs of the clusters that they make need not be formed.
    let StoreLists { neighbours, lists } = StoreLists::copy(store, context, policy == ReclusterPolicy::Components)?;
    let mut reclustering = Reclustering::new(store, context, rule, policy)?;
    let mut pairs = MergeReader::new(&neighbours, None, None)?;
    while let Some(pair) = pairs.next_row()? {
        reclustering.add(pair)?;
    }
    reclustering.compare_batch()?;
    let mut names = reclustering.names();
    for range in lists.document_ranges(context, &names)? {
        lists.form_pairs(context, &names, range)?.each(|pair| reclustering.add(pair))?;
        reclustering.compare_batch()?;
        names = reclustering.names();
    }
    let (n_documents, mut links) = (store.n_documents(), reclustering.links);
    let names = match policy {
        ReclusterPolicy::Components => names.into_iter().map(DocumentId).collect(),
        ReclusterPolicy::Star => star_clusters(n_documents, &mut links),
        ReclusterPolicy::Center => center_clusters(n_documents, &mut links),
    };
    let link = |LinkRow { later, earlier, resemblance }: LinkRow| Link { document: later, to: earlier, resemblance };
    Ok(Reclustered { names, links: links.into_iter().map(link).collect() })
}

/// Clusters under way.
struct Reclustering<'a, S> {
    store: &'a S,
    context: &'a Context,
    rule: LinkRule,
    policy: ReclusterPolicy,
    /// The common shingles.
    common: HashSet<Shingle>,
    /// How many index shingles each document must share with an earlier one to be compared.
    min_shared: Vec<u16>,
    /// Candidates that are not compared yet.
    batch: Vec<Pair>,
    clusters: Clusters,
    links: Vec<LinkRow>,
}

impl<'a, S: Snapshot + LinkView + Sync> Reclustering<'a, S> {
    fn new(store: &'a S, context: &'a Context, rule: LinkRule, policy: ReclusterPolicy) -> Result<Self, BackfillError> {
        let n_documents = store.n_documents() as usize;
        let nominating_rule = MatchRule { threshold: rule.threshold, ..store.rule().cluster.clone() };
        let mut min_shared = vec![0u16; n_documents];
        store.each_index_size(&mut |document, n_index| {
            let n = nominating_rule.shared_needed(n_index as usize);
            min_shared[document.0 as usize - 1] = u16::try_from(n).unwrap_or(u16::MAX);
        })?;
        Ok(Reclustering {
            store,
            context,
            rule,
            policy,
            common: store.common_shingles()?,
            min_shared,
            batch: Vec::with_capacity(BATCH_PAIRS),
            clusters: Clusters::alone(n_documents),
            links: Vec::new(),
        })
    }

    /// Adds a pair to the batch if it shares enough. Compares a full batch.
    fn add(&mut self, pair: Pair) -> Result<(), BackfillError> {
        if pair.is_nominated || pair.n_shared >= u32::from(self.min_shared[pair.later().0 as usize - 1]) {
            self.batch.push(pair);
        }
        if self.batch.len() == BATCH_PAIRS { self.compare_batch() } else { Ok(()) }
    }

    /// Compares the batch. Components skip pairs that are in one cluster already.
    fn compare_batch(&mut self) -> Result<(), BackfillError> {
        let (clusters, keeps_all) = (&mut self.clusters, self.policy != ReclusterPolicy::Components);
        self.batch.retain(|pair| keeps_all || clusters.cluster_of(pair.later()) != clusters.cluster_of(pair.earlier()));
        let links = verified_links(self.store, self.context, self.rule, &self.common, &self.batch)?;
        let joins = |link: &LinkRow| keeps_all || clusters.union(link.later, link.earlier).is_some();
        self.links.extend(links.into_iter().filter(joins));
        self.batch.clear();
        Ok(())
    }

    /// The clusters so far, whose own pairs are not needed. Under policies that need every pair each document is
    /// alone.
    fn names(&mut self) -> Vec<u32> {
        let ids = 1..=self.store.n_documents();
        match self.policy {
            ReclusterPolicy::Components => ids.map(|id| self.clusters.cluster_of(DocumentId(id)).0).collect(),
            ReclusterPolicy::Star | ReclusterPolicy::Center => ids.collect(),
        }
    }
}
