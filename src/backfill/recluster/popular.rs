//! Greedy clustering around the most popular shingles of each cluster's members (Broder, "On the resemblance and
//! containment of documents", section 4.4).
//!
//! Documents come in order, each with its candidates among the earlier ones. It joins the cluster of a candidate whose
//! representative it resembles most, or starts one. The representative of a document alone is its own sketch.
//!
//! Memory: a few dozen bytes for each document, and representatives within a budget. They depend on at most
//! [`MEMBERS_COUNTED`] documents, so one that had to go is counted again from the store.

use super::verify::Sketches;
use crate::backfill::error::BackfillError;
use crate::backfill::rows::{LinkRow, Pair};
use crate::document::DocumentId;
use crate::sketch::Sketch;
use std::collections::HashMap;
use std::sync::Arc;

/// A representative is counted from this many members, the first ones. Later members leave it as it is: the share of
/// the members that have a shingle is then known to within 0.07, and a cluster of millions cannot drift away from the
/// documents it began with.
const MEMBERS_COUNTED: usize = 64;

/// A clustering under way.
pub(super) struct PopularClusters {
    /// Document → the first document of its cluster, itself included.
    firsts: Vec<DocumentId>,
    /// The first document of each cluster of two or more → the members that its representative is counted from.
    counted: HashMap<DocumentId, Vec<DocumentId>>,
    representatives: Representatives,
    /// Members, each with the earlier member that it resembles most among its candidates.
    links: Vec<LinkRow>,
}

/// The representatives of clusters of two or more, as far as memory allows.
struct Representatives {
    sketches: HashMap<DocumentId, Arc<Sketch>>,
    n_bytes: usize,
    n_bytes_max: usize,
}

impl PopularClusters {
    /// Begins with every document in a cluster of its own. Representatives take `n_bytes_max` of memory.
    pub fn new(n_documents: u32, n_bytes_max: usize) -> Self {
        PopularClusters {
            firsts: (1..=n_documents).map(DocumentId).collect(),
            counted: HashMap::new(),
            representatives: Representatives { sketches: HashMap::new(), n_bytes: 0, n_bytes_max },
            links: Vec::new(),
        }
    }

    /// Takes the next documents. Pairs come ordered by the later document, all pairs of a document at once.
    pub fn add(&mut self, sketches: &impl Sketches, pairs: &[Pair]) -> Result<(), BackfillError> {
        let documents = pairs.iter().flat_map(|pair| [pair.later(), pair.earlier()]).collect();
        let own = sketches.sketches_of(documents)?;
        for pairs in pairs.chunk_by(|a, b| a.later() == b.later()) {
            let candidates: Vec<DocumentId> = pairs.iter().map(|pair| pair.earlier()).collect();
            self.place(sketches, &own, pairs[0].later(), &candidates)?;
        }
        Ok(())
    }

    /// Lets a document join a cluster of its candidates. `own` has the sketches of all of them.
    fn place(
        &mut self,
        sketches: &impl Sketches,
        own: &HashMap<DocumentId, Arc<Sketch>>,
        document: DocumentId,
        candidates: &[DocumentId],
    ) -> Result<(), BackfillError> {
        let Some(sketch) = own.get(&document) else { return Ok(()) };
        let mut clusters: Vec<DocumentId> = candidates.iter().map(|candidate| self.first(*candidate)).collect();
        clusters.sort_unstable();
        clusters.dedup();
        let mut best: Option<(DocumentId, f64)> = None;
        for cluster in clusters {
            let representative = self.representative(sketches, own, cluster)?;
            let resemblance = representative.and_then(|representative| sketches.link(sketch, &representative));
            // The oldest of equals comes first and stays.
            best = match (resemblance, best) {
                (Some(resemblance), Some((_, most))) if resemblance <= most => best,
                (Some(resemblance), _) => Some((cluster, resemblance)),
                (None, best) => best,
            };
        }
        let Some((cluster, _)) = best else { return Ok(()) };
        let mut link: Option<LinkRow> = None;
        for earlier in candidates.iter().copied().filter(|candidate| self.first(*candidate) == cluster) {
            let Some(other) = own.get(&earlier) else { continue };
            let resemblance = sketches.resemblance(sketch, other);
            if link.is_none_or(|link| resemblance > link.resemblance) {
                link = Some(LinkRow { later: document, earlier, resemblance });
            }
        }
        self.links.extend(link);
        self.join(document, cluster);
        Ok(())
    }

    fn join(&mut self, document: DocumentId, cluster: DocumentId) {
        self.firsts[document.0 as usize - 1] = cluster;
        let counted = self.counted.entry(cluster).or_insert_with(|| vec![cluster]);
        if counted.len() < MEMBERS_COUNTED {
            counted.push(document);
            self.representatives.remove(cluster);
        }
    }

    /// The first document of a document's cluster, as far as the clustering has come.
    fn first(&self, document: DocumentId) -> DocumentId {
        self.firsts[document.0 as usize - 1]
    }

    fn representative(
        &mut self,
        sketches: &impl Sketches,
        own: &HashMap<DocumentId, Arc<Sketch>>,
        cluster: DocumentId,
    ) -> Result<Option<Arc<Sketch>>, BackfillError> {
        let known = self.representatives.sketches.get(&cluster).cloned();
        let Some(counted) = self.counted.get(&cluster).filter(|_| known.is_none()) else {
            return Ok(known.or_else(|| own.get(&cluster).cloned()));
        };
        let members = sketches.sketches_of(counted.clone())?;
        // Their order does not matter.
        let members: Vec<&Sketch> = members.values().map(Arc::as_ref).collect();
        let representative = Arc::new(Sketch::popular(&members));
        self.representatives.insert(cluster, &representative);
        Ok(Some(representative))
    }

    /// The cluster of every document and the links that span the clusters.
    pub fn finish(self) -> (Vec<DocumentId>, Vec<LinkRow>) {
        (self.firsts, self.links)
    }
}

impl Representatives {
    /// Keeps a representative, and forgets all others where the budget demands it.
    fn insert(&mut self, cluster: DocumentId, representative: &Arc<Sketch>) {
        if self.n_bytes + representative.n_bytes() > self.n_bytes_max {
            self.sketches.clear();
            self.n_bytes = 0;
        }
        self.n_bytes += representative.n_bytes();
        self.sketches.insert(cluster, Arc::clone(representative));
    }

    fn remove(&mut self, cluster: DocumentId) {
        if let Some(outdated) = self.sketches.remove(&cluster) {
            self.n_bytes -= outdated.n_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sketch::{Rule, SketchRule, compare};
    use proptest::prelude::*;

    /// Documents by their shingles, compared exactly.
    struct Documents(Vec<Vec<u64>>);

    const THRESHOLD: f64 = 0.4;

    impl Documents {
        fn sketch(&self, document: DocumentId) -> Sketch {
            let rule = SketchRule { rule: Rule::All, ..SketchRule::default() };
            rule.sketch(&mut self.0[document.0 as usize - 1].clone())
        }

        /// The clusters, the links, and all pairs in batches of `n_documents` documents.
        fn clusters(&self, n_documents: usize, n_bytes_max: usize) -> (Vec<u32>, Vec<LinkRow>) {
            let ids = || (1..=self.0.len() as u32).map(DocumentId);
            let pairs_of = |later: DocumentId| {
                ids().take_while(move |earlier| *earlier < later).map(move |earlier| Pair::new(later, earlier, 1, true))
            };
            let mut clusters = PopularClusters::new(self.0.len() as u32, n_bytes_max);
            for batch in ids().collect::<Vec<_>>().chunks(n_documents) {
                let pairs: Vec<Pair> = batch.iter().copied().flat_map(pairs_of).collect();
                clusters.add(self, &pairs).expect("sketches");
            }
            let (names, links) = clusters.finish();
            (names.into_iter().map(|name| name.0).collect(), links)
        }

        /// Every document against the representatives of all clusters, each counted from scratch.
        fn greedy(&self) -> Vec<u32> {
            let mut clusters: Vec<Vec<DocumentId>> = Vec::new();
            for document in (1..=self.0.len() as u32).map(DocumentId) {
                let resemblance = |members: &Vec<DocumentId>| {
                    let members: Vec<Sketch> =
                        members.iter().take(MEMBERS_COUNTED).map(|member| self.sketch(*member)).collect();
                    let representative = Sketch::popular(&members.iter().collect::<Vec<_>>());
                    self.resemblance(&representative, &self.sketch(document))
                };
                let closest = clusters.iter_mut().rev().max_by(|a, b| resemblance(a).total_cmp(&resemblance(b)));
                match closest.filter(|closest| resemblance(closest) >= THRESHOLD) {
                    Some(closest) => closest.push(document),
                    None => clusters.push(vec![document]),
                }
            }
            let mut names = vec![0; self.0.len()];
            clusters
                .iter()
                .flatten()
                .zip(clusters.iter().flat_map(|members| members.iter().map(|_| members[0].0)))
                .for_each(|(member, name)| names[member.0 as usize - 1] = name);
            names
        }
    }

    impl Sketches for Documents {
        fn sketches_of(&self, documents: Vec<DocumentId>) -> Result<HashMap<DocumentId, Arc<Sketch>>, BackfillError> {
            Ok(documents.into_iter().map(|document| (document, Arc::new(self.sketch(document)))).collect())
        }

        fn resemblance(&self, a: &Sketch, b: &Sketch) -> f64 {
            compare(a, b, Rule::All).resemblance
        }

        fn link(&self, a: &Sketch, b: &Sketch) -> Option<f64> {
            Some(self.resemblance(a, b)).filter(|resemblance| *resemblance >= THRESHOLD)
        }
    }

    /// Shingles that most members have move the representative away from the first document.
    #[test]
    fn a_cluster_follows_its_members() {
        let chain = Documents(vec![
            vec![1, 2, 4, 8],
            vec![1, 2, 4, 16],
            vec![2, 4, 8, 16],
            vec![2, 4, 16, 32],
            vec![4, 16, 32, 64],
        ]);
        let (names, links) = chain.clusters(5, 1 << 20);
        assert_eq!(
            names,
            [1, 1, 1, 1, 5],
            "2, 4, 8 and 16 are the most popular when the fourth comes, and when the fifth does"
        );
        assert!(chain.link(&chain.sketch(DocumentId(1)), &chain.sketch(DocumentId(4))).is_none());
        let links: Vec<(u32, u32, f64)> =
            links.iter().map(|link| (link.later.0, link.earlier.0, link.resemblance)).collect();
        assert_eq!(links, [(2, 1, 0.6), (3, 1, 0.6), (4, 2, 0.6)]);
    }

    /// The first members decide: after them no majority of others moves the representative.
    #[test]
    fn later_members_leave_the_representative() {
        let template = |nth: u64| vec![1, 2, 3, 4, 5, 6, 7, 8, 100 + nth];
        let other = |nth: u64| vec![1, 2, 3, 4, 5, 6, 21, 22, 1000 + nth];
        let n_counted = MEMBERS_COUNTED as u64;
        let mut documents: Vec<Vec<u64>> = (0..n_counted).map(template).chain((0..3 * n_counted).map(other)).collect();
        documents.push(vec![1, 2, 3, 21, 22, 23, 24]);
        let (names, _) = Documents(documents).clusters(50, 1 << 20);
        let (last, others) = names.split_last().expect("documents");
        assert!(others.iter().all(|name| *name == 1));
        assert_eq!(*last as usize, names.len());
    }

    proptest! {
        /// As with all representatives counted from scratch, whatever the batches and the memory.
        #[test]
        fn the_clusters_are_those_of_every_comparison(
            documents in prop::collection::vec(prop::collection::btree_set(0u64..14, 3..8), 1..40),
            n_documents in 1usize..40,
            n_bytes_max in prop::sample::select(vec![0usize, 200, 1 << 20]),
        ) {
            let documents = Documents(documents.into_iter().map(|shingles| shingles.into_iter().collect()).collect());
            let (names, links) = documents.clusters(n_documents, n_bytes_max);
            prop_assert_eq!(&names, &documents.greedy());
            let members: Vec<u32> = (1..).zip(&names).filter(|(id, name)| id != *name).map(|(id, _)| id).collect();
            prop_assert_eq!(members, links.iter().map(|link| link.later.0).collect::<Vec<_>>());
            let name = |document: DocumentId| names[document.0 as usize - 1];
            prop_assert!(links.iter().all(|link| name(link.later) == name(link.earlier) && link.earlier < link.later));
        }
    }
}
