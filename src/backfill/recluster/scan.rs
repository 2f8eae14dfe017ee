//! Clusters around their first documents, formed while the documents are scanned in order.
//!
//! When the links of a document to earlier ones come, all earlier documents are settled: each is the first document of
//! a cluster or a member of one. So a document's links are needed once, and memory holds one of them.

use crate::backfill::rows::{LinkRow, Pair};
use crate::document::DocumentId;

/// Which of the clusters a document joins, if it is linked with the first documents of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// The oldest cluster. The clusters are those of CENTER, which scans the pairs <u, v> in the order of u: a
    /// document v joins the first of its neighbours u that is a center, and is a center if none of them is.
    Oldest,
    /// The cluster whose first document it resembles most; the older one of two equals.
    Closest,
}

/// A scan under way.
pub(super) struct Scan {
    choice: Choice,
    /// Document → the first document of its cluster, itself included.
    firsts: Vec<DocumentId>,
    /// Members and the first documents of their clusters.
    links: Vec<LinkRow>,
}

impl Scan {
    /// Begins with every document in a cluster of its own.
    pub fn new(n_documents: u32, choice: Choice) -> Self {
        Scan { choice, firsts: (1..=n_documents).map(DocumentId).collect(), links: Vec::new() }
    }

    /// Whether a pair may decide where its later document belongs.
    pub fn needs(&self, pair: &Pair) -> bool {
        let is_first = |document| self.first(document) == document;
        is_first(pair.earlier()) && (self.choice == Choice::Closest || is_first(pair.later()))
    }

    /// Takes the next link. Links come ordered by the later document, then by the earlier one.
    pub fn add(&mut self, link: LinkRow) {
        if self.first(link.earlier) != link.earlier {
            return;
        }
        match self.links.last_mut().filter(|last| last.later == link.later) {
            Some(last) if self.choice == Choice::Closest && link.resemblance > last.resemblance => *last = link,
            Some(_) => return,
            None => self.links.push(link),
        }
        self.firsts[link.later.0 as usize - 1] = link.earlier;
    }

    /// The first document of a document's cluster, as far as the scan has come.
    fn first(&self, document: DocumentId) -> DocumentId {
        self.firsts[document.0 as usize - 1]
    }

    /// The cluster of every document and the links that span the clusters.
    pub fn finish(self) -> (Vec<DocumentId>, Vec<LinkRow>) {
        (self.firsts, self.links)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A random graph: resemblances of pairs <earlier, later>, both from 1 to `N`.
    type Graph = BTreeMap<(u32, u32), u8>;

    const N: u32 = 24;

    fn graphs() -> impl Strategy<Value = Graph> {
        let edge = ((1..=N, 1..=N).prop_filter("a loop", |(a, b)| a != b), 50..100u8);
        let ordered = |((a, b), resemblance): ((u32, u32), u8)| ((a.min(b), a.max(b)), resemblance);
        prop::collection::vec(edge, 0..120).prop_map(move |edges| edges.into_iter().map(ordered).collect())
    }

    fn scan(graph: &Graph, choice: Choice) -> (Vec<u32>, Vec<LinkRow>) {
        let mut links: Vec<LinkRow> = graph
            .iter()
            .map(|((earlier, later), resemblance)| LinkRow {
                later: DocumentId(*later),
                earlier: DocumentId(*earlier),
                resemblance: f64::from(*resemblance) / 100.0,
            })
            .collect();
        links.sort();
        let mut scan = Scan::new(N, choice);
        for link in links {
            let before = scan.firsts.clone();
            let is_needed = scan.needs(&Pair::new(link.later, link.earlier, 0, true));
            scan.add(link);
            assert!(is_needed || scan.firsts == before, "{link:?} was not needed, but decided");
        }
        let (firsts, links) = scan.finish();
        (firsts.into_iter().map(|first| first.0).collect(), links)
    }

    /// CENTER to the letter.
    fn center(graph: &Graph) -> Vec<u32> {
        let mut pairs: Vec<(u32, u32)> = graph.keys().flat_map(|(a, b)| [(*a, *b), (*b, *a)]).collect();
        pairs.sort_unstable();
        let mut centers: BTreeMap<u32, u32> = BTreeMap::new();
        for (u, v) in pairs {
            if *centers.entry(u).or_insert(u) == u {
                centers.entry(v).or_insert(u);
            }
        }
        (1..=N).map(|id| centers.get(&id).copied().unwrap_or(id)).collect()
    }

    /// Every document against the first documents of all clusters.
    fn greedy(graph: &Graph) -> Vec<u32> {
        let mut firsts: Vec<u32> = Vec::new();
        let mut names = Vec::new();
        for id in 1..=N {
            let resembles = |first: &&u32| graph.contains_key(&(**first, id));
            let closest = firsts.iter().rev().filter(resembles).max_by_key(|first| graph[&(**first, id)]);
            let name = closest.copied().unwrap_or(id);
            if name == id {
                firsts.push(id);
            }
            names.push(name);
        }
        names
    }

    #[test]
    fn a_member_is_no_center() {
        let chain: Graph = [((1, 2), 60), ((2, 3), 90), ((3, 4), 70), ((1, 5), 60), ((3, 5), 80)].into();
        assert_eq!(scan(&chain, Choice::Oldest).0[..6], [1, 1, 3, 3, 1, 6]);
        assert_eq!(scan(&chain, Choice::Closest).0[..6], [1, 1, 3, 3, 3, 6]);
    }

    proptest! {
        #[test]
        fn the_oldest_choice_is_center(graph in graphs()) {
            prop_assert_eq!(scan(&graph, Choice::Oldest).0, center(&graph));
        }

        #[test]
        fn the_closest_choice_is_greedy(graph in graphs()) {
            prop_assert_eq!(scan(&graph, Choice::Closest).0, greedy(&graph));
        }

        /// One link for each member, to the first document of its cluster, with the graph's resemblance.
        #[test]
        fn links_span_the_clusters(graph in graphs()) {
            for choice in [Choice::Oldest, Choice::Closest] {
                let (names, links) = scan(&graph, choice);
                let members: Vec<(u32, u32)> =
                    (1..=N).zip(names).filter(|(id, name)| id != name).map(|(id, name)| (name, id)).collect();
                prop_assert_eq!(&members, &links.iter().map(|link| (link.earlier.0, link.later.0)).collect::<Vec<_>>());
                let resemblances: Vec<f64> = members.iter().map(|pair| f64::from(graph[pair]) / 100.0).collect();
                prop_assert_eq!(resemblances, links.iter().map(|link| link.resemblance).collect::<Vec<_>>());
            }
        }
    }
}
