//! Checks clusters: trees with correct sizes and names, rings that list the members, links that span the clusters.

use super::{Check, hex, index_of};
use crate::cluster::ClusterPolicy;
use crate::document::DocumentId;
use crate::store::schema::{self, Fields, cf};

/// The greatest depth of a tree of 2^32 documents under union by size.
const DEPTH_MAX: usize = 32;

/// The stored union-find forest.
struct Forest {
    /// Each document's parent, next in ring, size and name.
    rows: Vec<[u32; 4]>,
    /// Each document's root; 0 if it has none.
    roots: Vec<u32>,
}

impl Check<'_> {
    pub(super) fn clusters(&mut self) {
        let forest = self.forest();
        self.sizes_and_names(&forest);
        self.rings(&forest);
        self.links(&forest);
    }

    fn forest(&mut self) -> Forest {
        let n_documents = self.store.n_documents();
        let mut all: Vec<[u32; 4]> = (1..=n_documents).map(|id| [id, id, 1, id]).collect();
        let mut rows = self.rows(cf::CLUSTERS);
        while let Some((key, row)) = self.next(&mut rows) {
            let document = Fields(&key).document().filter(|id| key.len() == 4 && self.is_document(*id));
            let row = document.and_then(|id| schema::read_cluster_row(id, &row).filter(|_| row.len() == 16));
            let Some(row) = row else {
                self.add_finding(cf::CLUSTERS, hex(&key), "the row cannot be read, or its document does not exist");
                continue;
            };
            let is_root = row.parent == row.document;
            if ![row.parent, row.next].into_iter().all(|id| self.is_document(id)) {
                self.add_finding(cf::CLUSTERS, row.document, "its parent or next document does not exist");
            } else if !is_root && (row.size, row.name.0) != (0, 0) {
                self.add_finding(cf::CLUSTERS, row.document, "it is not a root, but has a size or a name");
            } else {
                all[index_of(row.document)] = [row.parent.0, row.next.0, row.size, row.name.0];
            }
        }
        let mut roots = vec![0; all.len()];
        for id in 1..=n_documents {
            let mut root = id;
            let found = (0..=DEPTH_MAX).any(|_| {
                let parent = all[root as usize - 1][0];
                parent == std::mem::replace(&mut root, parent)
            });
            if found {
                roots[id as usize - 1] = root;
            } else {
                self.add_finding(cf::CLUSTERS, id, "its tree has no root: the parents form a cycle");
            }
        }
        Forest { rows: all, roots }
    }

    fn sizes_and_names(&mut self, forest: &Forest) {
        let mut counted = vec![(0u32, 0u32); forest.rows.len()];
        for (at, root) in forest.roots.iter().enumerate().filter(|(_, root)| **root > 0) {
            let (n, least) = &mut counted[*root as usize - 1];
            if *n == 0 {
                *least = at as u32 + 1;
            }
            *n += 1;
        }
        for (at, ((n, least), [_, _, size, name])) in counted.iter().zip(&forest.rows).enumerate() {
            if *n > 0 && size != n {
                self.add_finding(cf::CLUSTERS, at + 1, format!("its size is {size}, but its tree has {n} documents"));
            }
            if *n > 0 && name != least {
                self.add_finding(
                    cf::CLUSTERS,
                    at + 1,
                    format!("its name is {name}, but its smallest document is {least}"),
                );
            }
        }
    }

    /// Each ring lists every document of one tree exactly once.
    fn rings(&mut self, forest: &Forest) {
        let mut listed = vec![false; forest.rows.len()];
        for (at, root) in forest.roots.iter().enumerate() {
            if *root as usize != at + 1 {
                continue;
            }
            let mut here = at;
            loop {
                listed[here] = true;
                let next = forest.rows[here][1] as usize - 1;
                if next == at {
                    break;
                }
                if listed[next] || forest.roots[next] != *root {
                    let what =
                        format!("the next document of its ring is {}, which {}", next + 1, ring_fault(listed[next]));
                    self.add_finding(cf::CLUSTERS, here + 1, what);
                    break;
                }
                here = next;
            }
        }
        for (at, _) in listed.iter().enumerate().filter(|(at, listed)| !**listed && forest.roots[*at] > 0) {
            self.add_finding(cf::CLUSTERS, at + 1, format!("no ring lists it; its root is {}", forest.roots[at]));
        }
    }

    /// The smallest resemblance of a reclustering's links; `None` if the clusters are those of the stream.
    fn linked_from(&mut self) -> Option<f64> {
        let linked_from = self.store.linked_from();
        linked_from.unwrap_or_else(|error| {
            self.add_finding(cf::META, "linked-from", super::unreadable(&error));
            None
        })
    }

    /// The links form a forest whose trees are the clusters.
    fn links(&mut self, forest: &Forest) {
        let roots = &forest.roots;
        let mut parents: Vec<u32> = (0..roots.len() as u32).collect();
        let (of_rule, reclustered) = (self.store.rule.cluster.clone(), self.linked_from());
        let threshold = reclustered.unwrap_or(of_rule.threshold).min(of_rule.threshold);
        // Reclustering may form other clusters than the stream's.
        let is_star = of_rule.policy == ClusterPolicy::Star && reclustered.is_none();
        let mut rows = self.rows(cf::LINKS);
        while let Some((key, row)) = self.next(&mut rows) {
            let mut fields = Fields(&key);
            let ends = fields.document().zip(fields.document()).filter(|_| key.len() == 8);
            let Some((a, b)) = ends.filter(|(a, b)| b < a && self.is_document(*a) && self.is_document(*b)) else {
                self.add_finding(cf::LINKS, hex(&key), "the key is not a later and an earlier document");
                continue;
            };
            let resemblance = Fields(&row).bytes().map(f64::from_be_bytes);
            if !resemblance.is_some_and(|r| (threshold..=1.0).contains(&r)) {
                self.add_finding(cf::LINKS, link(a, b), format!("its resemblance is not between {threshold} and 1"));
            }
            let founder = forest.rows[roots[index_of(b)].saturating_sub(1) as usize][3];
            if is_star && b.0 != founder {
                self.add_finding(
                    cf::LINKS,
                    link(a, b),
                    "under the policy star every link must lead to the founder of the cluster",
                );
            }
            if roots[index_of(a)] != roots[index_of(b)] {
                self.add_finding(cf::LINKS, link(a, b), "it joins documents of two different clusters");
            }
            let (top, under) = (top(&mut parents, index_of(a)), top(&mut parents, index_of(b)));
            if top == under {
                self.add_finding(cf::LINKS, link(a, b), "it closes a cycle of links");
            }
            parents[under] = top as u32;
        }
        let mut linked = vec![0; roots.len()];
        for (document, root) in roots.iter().enumerate().filter(|(_, root)| **root > 0) {
            let of_links = top(&mut parents, document) as u32 + 1;
            let first = &mut linked[*root as usize - 1];
            if *first == 0 {
                *first = of_links;
            } else if *first != of_links {
                self.add_finding(cf::LINKS, document + 1, "no links join it to the rest of its cluster");
            }
        }
    }
}

fn ring_fault(is_listed: bool) -> &'static str {
    if is_listed { "an earlier step of the ring has listed" } else { "belongs to another cluster" }
}

fn link(later: DocumentId, earlier: DocumentId) -> String {
    format!("{later}-{earlier}")
}

/// The root of a tree of links, with path halving.
fn top(parents: &mut [u32], mut at: usize) -> usize {
    while parents[at] as usize != at {
        parents[at] = parents[parents[at] as usize];
        at = parents[at] as usize;
    }
    at
}
