//! Union-find over documents, in memory; every change yields the rows to write.
//!
//! A union changes two rows, whatever the sizes. The root of the smaller tree becomes a child of the larger tree's
//! root. The root keeps the cluster's name, its smallest document, which need not be the root itself. Two rings
//! (document → next document of its cluster) list the members; swapping the successors of the two roots joins them.

use super::counts::{ClusterCounts, Counter, EqualCluster};
use crate::document::{ClusterId, DocumentId};

/// One document's node in the forest, as stored. Documents that stand alone have no row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterRow {
    /// The document.
    pub document: DocumentId,
    /// Its parent in the tree; a root is its own parent.
    pub parent: DocumentId,
    /// The next member in the ring.
    pub next: DocumentId,
    /// At a root, the cluster's size in documents; elsewhere 0.
    pub size: u32,
    /// At a root, the cluster's smallest document; elsewhere 0.
    pub name: DocumentId,
}

/// Two clusters became one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merge {
    /// The name that ends: the larger.
    pub loser: ClusterId,
    /// The name that stays: the smaller.
    pub winner: ClusterId,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    /// At a root the cluster's name, elsewhere the parent.
    link: u32,
    next: u32,
    /// At a root the cluster's size, elsewhere 0.
    size: u32,
}

/// Documents in a chunk. Memory grows by chunks, because a vector that doubles needs three times its size on the
/// way.
const CHUNK: usize = 1 << 20;

/// The clusters of all documents: 12 bytes a document, 1.2 GB for 100 million.
#[derive(Clone, Debug, Default)]
pub struct Clusters {
    chunks: Vec<Vec<Node>>,
    n_merges: usize,
    counter: Counter,
}

impl Clusters {
    /// Creates `n_documents` documents, each alone.
    pub fn alone(n_documents: usize) -> Self {
        let mut clusters = Clusters::default();
        for _ in 0..n_documents {
            clusters.push();
        }
        clusters
    }

    /// Restores a stored row. Returns `None` if the row contradicts itself or names documents out of range.
    pub fn restore(&mut self, row: &ClusterRow) -> Option<()> {
        let within = 1..=self.n_documents() as u32;
        let is_root = row.parent == row.document;
        let named = [row.document, row.parent, row.next, if is_root { row.name } else { row.parent }];
        if !named.iter().all(|document| within.contains(&document.0)) || is_root != (row.size > 0) {
            return None;
        }
        let link = if is_root { row.name } else { row.parent };
        *self.node_mut(row.document.0) = Node { link: link.0, next: row.next.0, size: row.size };
        self.n_merges += usize::from(!is_root);
        self.counter.restore(ClusterId(row.name.0), row.size);
        Some(())
    }

    /// Adds a document that stands alone. Returns `None` at the limit of 2^32 - 1 documents.
    pub fn push(&mut self) -> Option<DocumentId> {
        let id = u32::try_from(self.n_documents() + 1).ok()?;
        let node = Node { link: id, next: id, size: 1 };
        match self.chunks.last_mut().filter(|chunk| chunk.len() < CHUNK) {
            Some(chunk) => chunk.push(node),
            None => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(node);
                self.chunks.push(chunk);
            }
        }
        Some(DocumentId(id))
    }

    /// The number of documents.
    pub fn n_documents(&self) -> usize {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }

    /// The number of clusters, including those of one document.
    pub fn n_clusters(&self) -> usize {
        self.n_documents() - self.n_merges
    }

    /// What the clusters add up to; of equal pages, as far as [`Self::restore_equal`] and [`Self::add_url`] said.
    pub fn counts(&self) -> ClusterCounts {
        self.counter.counts()
    }

    /// Takes over what a store knows of documents that stand alone at several URLs.
    pub fn restore_equal(&mut self, clusters: impl IntoIterator<Item = EqualCluster>) {
        self.counter.restore_equal(clusters);
    }

    /// Counts one more URL that carries a document, which one carried before. Of a document in a larger cluster nothing is
    /// counted.
    pub fn add_url(&mut self, document: DocumentId) {
        if self.size_of(document) == 1 {
            self.counter.add_url(document);
        }
    }

    /// The documents that stand alone at several URLs and changed since this was last asked, ascending.
    pub fn take_changed_equal(&mut self) -> Vec<EqualCluster> {
        self.counter.take_changed_equal()
    }

    /// Every cluster and its size in documents.
    pub fn sizes(&self) -> impl Iterator<Item = (ClusterId, u32)> {
        let roots = self.chunks.iter().flatten().filter(|node| node.size > 0);
        roots.map(|node| (ClusterId(node.link), node.size))
    }

    /// The cluster of a document.
    pub fn cluster_of(&mut self, document: DocumentId) -> ClusterId {
        let root = self.root(document.0);
        ClusterId(self.node(root).link)
    }

    /// The cluster of every document, in the order of their ids.
    pub fn cluster_of_each(&mut self) -> Vec<ClusterId> {
        (1..=self.n_documents() as u32).map(|document| self.cluster_of(DocumentId(document))).collect()
    }

    /// The size of a document's cluster, in documents.
    pub fn size_of(&mut self, document: DocumentId) -> u32 {
        let root = self.root(document.0);
        self.node(root).size
    }

    /// Joins the clusters of two documents. Returns the names that end and stay, and the two rows that changed;
    /// `None` if the two share a cluster already.
    pub fn union(&mut self, a: DocumentId, b: DocumentId) -> Option<(Merge, [ClusterRow; 2])> {
        let (a, b) = (self.root(a.0), self.root(b.0));
        if a == b {
            return None;
        }
        let (node_a, node_b) = (*self.node(a), *self.node(b));
        // The larger tree stays on top. Among equals the smaller name does, so that the order of the arguments does
        // not matter.
        let a_on_top = (node_a.size, std::cmp::Reverse(node_a.link)) > (node_b.size, std::cmp::Reverse(node_b.link));
        let (top, under) = if a_on_top { (a, b) } else { (b, a) };
        let merge =
            Merge { loser: ClusterId(node_a.link.max(node_b.link)), winner: ClusterId(node_a.link.min(node_b.link)) };
        let (top_next, under_next) = (self.node(top).next, self.node(under).next);
        *self.node_mut(top) = Node { link: merge.winner.0, next: under_next, size: node_a.size + node_b.size };
        *self.node_mut(under) = Node { link: top, next: top_next, size: 0 };
        self.n_merges += 1;
        self.counter.unite((ClusterId(node_a.link), node_a.size), (ClusterId(node_b.link), node_b.size));
        Some((merge, [self.row(top), self.row(under)]))
    }

    /// The members of a document's cluster in no particular order, beginning with itself.
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
        (1..=self.n_documents() as u32).filter(move |document| !is_alone(*document)).map(|document| self.row(document))
    }

    fn row(&self, document: u32) -> ClusterRow {
        let Node { link, next, size } = *self.node(document);
        let (parent, name) = if size > 0 { (document, link) } else { (link, 0) };
        let [document, parent, next, name] = [document, parent, next, name].map(DocumentId);
        ClusterRow { document, parent, next, size, name }
    }

    /// Finds the root and halves the path to it. The halved path is not stored: stored trees are at most log2(n)
    /// deep.
    fn root(&mut self, mut document: u32) -> u32 {
        loop {
            let Node { link: parent, size, .. } = *self.node(document);
            if size > 0 {
                return document;
            }
            let Node { link: grandparent, size, .. } = *self.node(parent);
            if size > 0 {
                return parent;
            }
            self.node_mut(document).link = grandparent;
            document = grandparent;
        }
    }

    fn node(&self, document: u32) -> &Node {
        let at = document as usize - 1;
        &self.chunks[at / CHUNK][at % CHUNK]
    }

    fn node_mut(&mut self, document: u32) -> &mut Node {
        let at = document as usize - 1;
        &mut self.chunks[at / CHUNK][at % CHUNK]
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
            prop_assert_eq!(restored.counts(), clusters.counts());
            let similar = || expected.iter().filter(|set| set.len() > 1);
            let counts = clusters.counts();
            prop_assert_eq!(counts.n_of_similar as usize, similar().count());
            prop_assert_eq!(counts.n_documents_of_similar as usize, similar().map(BTreeSet::len).sum::<usize>());
            let name = |set: &BTreeSet<u32>| ClusterId(*set.first().expect("a member"));
            let largest = similar().max_by_key(|set| (set.len(), std::cmp::Reverse(name(set))));
            prop_assert_eq!(counts.largest, largest.map(|set| (name(set), set.len() as u32)));
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
    fn urls_are_counted_of_documents_that_stand_alone() {
        let mut clusters = Clusters::alone(3);
        let [a, b, c] = [1, 2, 3].map(DocumentId);
        clusters.restore_equal([EqualCluster { document: c, n_urls: 4 }]);
        [a, a, b, c].into_iter().for_each(|document| clusters.add_url(document));
        let equal = |counts: ClusterCounts| (counts.n_of_equal, counts.n_urls_of_equal);
        assert_eq!(equal(clusters.counts()), (3, 3 + 2 + 5));
        let of = |document, n_urls| EqualCluster { document, n_urls };
        assert_eq!(clusters.take_changed_equal(), [of(a, 3), of(b, 2), of(c, 5)]);
        clusters.union(a, b);
        clusters.add_url(a);
        assert_eq!(equal(clusters.counts()), (1, 5), "a cluster of two is none of equal pages");
        assert_eq!(clusters.take_changed_equal(), [of(a, 0), of(b, 0)]);
        assert_eq!(clusters.take_changed_equal(), []);
    }

    #[test]
    fn rows_out_of_range_are_rejected() {
        let mut clusters = Clusters::alone(3);
        let one = DocumentId(1);
        let row = ClusterRow { document: one, parent: DocumentId(4), next: one, size: 1, name: one };
        assert_eq!(clusters.restore(&row), None);
    }

    type Links = Box<dyn Iterator<Item = (u32, u32)>>;

    /// Orders in which some documents are all joined to one cluster. Descending order is the worst for trees whose
    /// root is the name: every union renames everything joined before. Joining by halves makes the deepest trees.
    fn orders(n: u32) -> [(&'static str, Links); 3] {
        let widths = (0..32).map(|place| 1 << place).take_while(move |width| *width < n);
        [
            ("ascending", Box::new((2..=n).map(|id| (id - 1, id)))),
            ("descending", Box::new((2..=n).rev().map(|id| (id - 1, id)))),
            (
                "by halves",
                Box::new(widths.flat_map(move |width| {
                    (1..=n - width).step_by(2 * width as usize).map(move |id| (id, id + width))
                })),
            ),
        ]
    }

    /// A union writes two rows, whatever it joins. The trees of those rows are shallow: few reads find a document's
    /// cluster.
    #[test]
    fn a_million_documents_are_joined_by_two_writes_each() {
        let n: u32 = 1_000_000;
        for (order, links) in orders(n) {
            let mut clusters = Clusters::alone(n as usize);
            let mut parents: Vec<u32> = (0..=n).collect();
            let mut n_rows = 0;
            for (a, b) in links {
                let (merge, rows) = clusters.union(DocumentId(a), DocumentId(b)).expect("two clusters");
                assert!(merge.winner < merge.loser);
                for row in rows {
                    n_rows += 1;
                    parents[row.document.0 as usize] = row.parent.0;
                }
            }
            assert_eq!((clusters.n_clusters(), n_rows), (1, 2 * (n - 1)), "{order}");
            assert_eq!(clusters.sizes().collect::<Vec<_>>(), [(ClusterId(1), n)], "{order}");
            let depth = |id: u32| {
                let up = |id: &u32| Some(parents[*id as usize]).filter(|parent| parent != id);
                std::iter::successors(Some(id), up).count()
            };
            let deepest = (1..=n).map(depth).max();
            assert!(deepest <= Some(n.ilog2() as usize + 2), "{order}: {deepest:?}");
        }
    }

    /// Measures the memory of a store's clusters; `LOOKALIKE_TEST_DOCUMENTS=10000000` sets the number of documents.
    #[test]
    #[cfg(target_os = "linux")]
    fn twelve_bytes_a_document() {
        let resident = || -> usize {
            let pages = std::fs::read_to_string("/proc/self/statm").expect("statm");
            pages.split(' ').nth(1).and_then(|pages| pages.parse().ok()).map_or(0, |pages: usize| pages * 4096)
        };
        assert_eq!(size_of::<Node>(), 12);
        let Some(n) = std::env::var("LOOKALIKE_TEST_DOCUMENTS").ok().and_then(|n| n.parse::<u32>().ok()) else {
            println!("not measured: LOOKALIKE_TEST_DOCUMENTS is not set");
            return;
        };
        let before = resident();
        let mut clusters = Clusters::default();
        let mut peak = 0;
        for id in 1..=n {
            clusters.push();
            if id % 3 > 0 {
                clusters.union(DocumentId(id), DocumentId(id / 2 + 1));
            }
            if id % 100_000 == 0 {
                peak = peak.max(resident() - before);
            }
        }
        let each = peak as f64 / f64::from(n);
        println!(
            "{n} documents in {} clusters: {} MiB at most, {each:.1} bytes each",
            clusters.n_clusters(),
            peak >> 20
        );
        println!("100,000,000 would take {:.2} GiB", each * 1e8 / f64::from(1 << 30));
        assert!(each * 1e8 <= f64::from(1 << 30) * 2.0);
    }
}
