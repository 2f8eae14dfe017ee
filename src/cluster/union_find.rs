//! Union-find over documents, in memory, each change told as rows to write.
//!
//! A merge changes two rows whatever the sizes: the smaller tree's root hangs under the larger's; the cluster's name,
//! its smallest document, is kept at the root and need not be the root; the two rings that list the members
//! (document → next document of its cluster) are joined by swapping the roots' successors.

use crate::document::{ClusterId, DocumentId};

/// One document's place in the forest, as it is stored. Documents that stand alone have no row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterRow {
    /// Whose place.
    pub document: DocumentId,
    /// The parent in the tree; itself at a root.
    pub parent: DocumentId,
    /// The next member in the ring.
    pub next: DocumentId,
    /// At a root: the cluster's size in documents.
    pub size: u32,
    /// At a root: the cluster's smallest document.
    pub name: DocumentId,
}

/// Two clusters became one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merge {
    /// The name that is gone: the larger.
    pub loser: ClusterId,
    /// The name that stays: the smaller.
    pub winner: ClusterId,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    parent: u32,
    next: u32,
    size: u32,
    name: u32,
}

/// The clusters of all documents: 16 bytes a document.
#[derive(Clone, Debug, Default)]
pub struct Clusters {
    nodes: Vec<Node>,
    n_merges: usize,
}

impl Clusters {
    /// `n_documents` documents, each alone.
    pub fn alone(n_documents: usize) -> Self {
        let mut clusters = Clusters::default();
        for _ in 0..n_documents {
            clusters.push();
        }
        clusters
    }

    /// Puts a stored row back.
    pub fn restore(&mut self, row: &ClusterRow) -> Option<()> {
        let within = 1..=self.nodes.len() as u32;
        let named = [row.document, row.parent, row.next, row.name];
        if !named.iter().all(|document| within.contains(&document.0)) {
            return None;
        }
        let node = &mut self.nodes[row.document.0 as usize - 1];
        *node = Node { parent: row.parent.0, next: row.next.0, size: row.size, name: row.name.0 };
        self.n_merges += usize::from(row.parent != row.document);
        Some(())
    }

    /// Adds a document that stands alone; `None` where 2^32 - 1 documents are there.
    pub fn push(&mut self) -> Option<DocumentId> {
        let id = u32::try_from(self.nodes.len() + 1).ok()?;
        self.nodes.push(Node { parent: id, next: id, size: 1, name: id });
        Some(DocumentId(id))
    }

    /// How many documents there are.
    pub fn n_documents(&self) -> usize {
        self.nodes.len()
    }

    /// How many clusters there are, those of one document included.
    pub fn n_clusters(&self) -> usize {
        self.nodes.len() - self.n_merges
    }

    /// The cluster of a document.
    pub fn cluster_of(&mut self, document: DocumentId) -> ClusterId {
        let root = self.root(document.0);
        ClusterId(self.node(root).name)
    }

    /// How many documents a document's cluster has.
    pub fn size_of(&mut self, document: DocumentId) -> u32 {
        let root = self.root(document.0);
        self.node(root).size
    }

    /// Joins the clusters of two documents. Returns what became of the names, and the two rows that changed; `None`
    /// where they were one already.
    pub fn union(&mut self, a: DocumentId, b: DocumentId) -> Option<(Merge, [ClusterRow; 2])> {
        let (a, b) = (self.root(a.0), self.root(b.0));
        if a == b {
            return None;
        }
        let (node_a, node_b) = (*self.node(a), *self.node(b));
        // By size; among equals the smaller name stays on top, so that the order of the arguments does not matter.
        let a_on_top = (node_a.size, std::cmp::Reverse(node_a.name)) > (node_b.size, std::cmp::Reverse(node_b.name));
        let (top, under) = if a_on_top { (a, b) } else { (b, a) };
        let merge =
            Merge { loser: ClusterId(node_a.name.max(node_b.name)), winner: ClusterId(node_a.name.min(node_b.name)) };
        let (top_next, under_next) = (self.node(top).next, self.node(under).next);
        *self.node_mut(top) =
            Node { parent: top, next: under_next, size: node_a.size + node_b.size, name: merge.winner.0 };
        let node = self.node_mut(under);
        node.parent = top;
        node.next = top_next;
        self.n_merges += 1;
        Some((merge, [self.row(top), self.row(under)]))
    }

    /// The members of a document's cluster, in no particular order, beginning with itself.
    pub fn members(&self, document: DocumentId) -> impl Iterator<Item = DocumentId> {
        let mut at = Some(document.0);
        std::iter::from_fn(move || {
            let here = at?;
            let next = self.node(here).next;
            at = (next != document.0).then_some(next);
            Some(DocumentId(here))
        })
    }

    /// The rows of all documents that do not stand alone, ascending: what a store of these clusters holds.
    pub fn rows(&self) -> impl Iterator<Item = ClusterRow> {
        let is_alone = |document: u32| self.node(document).next == document;
        (1..=self.nodes.len() as u32).filter(move |document| !is_alone(*document)).map(|document| self.row(document))
    }

    fn row(&self, document: u32) -> ClusterRow {
        let node = self.node(document);
        ClusterRow {
            document: DocumentId(document),
            parent: DocumentId(node.parent),
            next: DocumentId(node.next),
            size: node.size,
            name: DocumentId(node.name),
        }
    }

    /// The root, halving the path to it on the way. The halved path is not written: the stored trees are at most
    /// log2(n) deep anyway.
    fn root(&mut self, mut document: u32) -> u32 {
        loop {
            let parent = self.node(document).parent;
            if parent == document {
                return document;
            }
            let grandparent = self.node(parent).parent;
            self.node_mut(document).parent = grandparent;
            document = grandparent;
        }
    }

    fn node(&self, document: u32) -> &Node {
        &self.nodes[document as usize - 1]
    }

    fn node_mut(&mut self, document: u32) -> &mut Node {
        &mut self.nodes[document as usize - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// The plain reference: sets, joined one by one.
    fn components(n: u32, links: &[(u32, u32)]) -> BTreeSet<BTreeSet<u32>> {
        let mut sets: Vec<BTreeSet<u32>> = (1..=n).map(|id| BTreeSet::from([id])).collect();
        for (a, b) in links {
            let at = |sets: &[BTreeSet<u32>], id| sets.iter().position(|set| set.contains(id));
            let (at_a, at_b) = (at(&sets, a), at(&sets, b));
            if at_a != at_b {
                let joined = sets.remove(at_a.expect("a set"));
                let at_b = at(&sets, b).expect("a set");
                sets[at_b].extend(joined);
            }
        }
        sets.into_iter().collect()
    }

    fn links() -> impl Strategy<Value = Vec<(u32, u32)>> {
        proptest::collection::vec((1u32..30, 1u32..30), 0..60)
    }

    proptest! {
        #[test]
        fn clusters_are_components(links in links()) {
            let mut clusters = Clusters::alone(29);
            let mut rows = BTreeMap::new();
            let mut losers = BTreeSet::new();
            for (a, b) in &links {
                if let Some((merge, changed)) = clusters.union(DocumentId(*a), DocumentId(*b)) {
                    prop_assert!(merge.winner < merge.loser);
                    prop_assert!(losers.insert(merge.loser.0), "a loser is merged once");
                    rows.extend(changed.map(|row| (row.document, row)));
                }
            }
            let expected = components(29, &links);
            prop_assert_eq!(clusters.n_clusters(), expected.len());
            let mut restored = Clusters::alone(29);
            for row in rows.values() {
                restored.restore(row).expect("a row");
            }
            prop_assert_eq!(restored.n_clusters(), expected.len());
            for set in expected {
                let name = ClusterId(*set.first().expect("a member"));
                for id in &set {
                    let id = DocumentId(*id);
                    prop_assert_eq!(clusters.cluster_of(id), name);
                    prop_assert_eq!(restored.cluster_of(id), name);
                    prop_assert_eq!(restored.size_of(id) as usize, set.len());
                    let members: BTreeSet<u32> = restored.members(id).map(|member| member.0).collect();
                    prop_assert_eq!(&members, &set);
                }
            }
        }
    }

    #[test]
    fn rows_out_of_range_are_refused() {
        let mut clusters = Clusters::alone(3);
        let one = DocumentId(1);
        let row = ClusterRow { document: one, parent: DocumentId(4), next: one, size: 1, name: one };
        assert_eq!(clusters.restore(&row), None);
    }
}
