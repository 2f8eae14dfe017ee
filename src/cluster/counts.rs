//! What clusters add up to, kept while they grow: counting them again would take a look at every document.

use crate::document::{ClusterId, DocumentId};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;

/// What the clusters of a store add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterCounts {
    /// Clusters of two documents or more.
    pub n_of_similar: u64,
    /// Documents in them.
    pub n_documents_of_similar: u64,
    /// Clusters of one document that several URLs carried.
    pub n_of_equal: u64,
    /// These URLs.
    pub n_urls_of_equal: u64,
    /// The largest cluster of two documents or more, and its documents; of several, the one with the smallest name.
    pub largest: Option<(ClusterId, u32)>,
}

/// A document that stands alone, and how many URLs carried it: two or more, or 0 once that is no longer so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EqualCluster {
    /// The document.
    pub document: DocumentId,
    /// URLs that carried it.
    pub n_urls: u32,
}

/// Keeps the counts of growing clusters.
#[derive(Clone, Debug, Default)]
pub(super) struct Counter {
    counts: ClusterCounts,
    /// The URLs of documents that stand alone at several: 16 bytes or so each.
    equal: FxHashMap<u32, u32>,
    /// Those that changed since they were last taken.
    changed: FxHashSet<u32>,
}

impl Counter {
    pub fn counts(&self) -> ClusterCounts {
        self.counts
    }

    /// Counts a stored row; `size` is 0 unless it is a root.
    pub fn restore(&mut self, name: ClusterId, size: u32) {
        self.counts.n_documents_of_similar += 1;
        if size > 0 {
            self.counts.n_of_similar += 1;
            self.grow(name, size);
        }
    }

    /// Takes over what a store knows of documents that stand alone at several URLs.
    pub fn restore_equal(&mut self, clusters: impl IntoIterator<Item = EqualCluster>) {
        for EqualCluster { document, n_urls } in clusters {
            self.counts.n_of_equal += 1;
            self.counts.n_urls_of_equal += u64::from(n_urls);
            self.equal.insert(document.0, n_urls);
        }
    }

    /// Counts one more URL of a document that stands alone. One URL carried it before, at least.
    pub fn add_url(&mut self, document: DocumentId) {
        let n_urls = self.equal.entry(document.0).or_insert(1);
        *n_urls += 1;
        let is_first = *n_urls == 2;
        self.counts.n_of_equal += u64::from(is_first);
        self.counts.n_urls_of_equal += if is_first { 2 } else { 1 };
        self.changed.insert(document.0);
    }

    /// Counts the union of two clusters, given by the name and size of each.
    pub fn unite(&mut self, a: (ClusterId, u32), b: (ClusterId, u32)) {
        let (mut n_alone, name) = (0, a.0.min(b.0));
        for (cluster, size) in [a, b] {
            if size == 1 {
                n_alone += 1;
                self.end_of_equal(cluster.0);
            }
        }
        self.counts.n_documents_of_similar += n_alone;
        self.counts.n_of_similar = self.counts.n_of_similar + n_alone - 1;
        self.grow(name, a.1 + b.1);
    }

    /// The documents whose URLs were counted or count no more, since the last time, ascending.
    pub fn take_changed_equal(&mut self) -> Vec<EqualCluster> {
        let n_urls = |document| self.equal.get(&document).copied().unwrap_or(0);
        let changed = self.changed.iter().map(|id| EqualCluster { document: DocumentId(*id), n_urls: n_urls(*id) });
        let mut changed: Vec<EqualCluster> = changed.collect();
        changed.sort_unstable();
        self.changed.clear();
        changed
    }

    fn grow(&mut self, name: ClusterId, size: u32) {
        let order = |(name, size): (ClusterId, u32)| (size, Reverse(name));
        if self.counts.largest.is_none_or(|largest| order((name, size)) > order(largest)) {
            self.counts.largest = Some((name, size));
        }
    }

    fn end_of_equal(&mut self, document: u32) {
        if self.equal.is_empty() {
            return;
        }
        if let Some(n_urls) = self.equal.remove(&document) {
            self.counts.n_of_equal -= 1;
            self.counts.n_urls_of_equal -= u64::from(n_urls);
            self.changed.insert(document);
        }
    }
}
