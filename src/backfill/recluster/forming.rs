//! Clusters while they form under each policy: which pairs they need, what becomes of a link, and what memory holds.

use super::centers::{clusters_by_resemblance, star_clusters};
use super::policy::{ReclusterPolicy, Representative};
use super::popular::PopularClusters;
use super::scan::{Choice, Scan};
use crate::backfill::context::Context;
use crate::backfill::rows::{LinkRow, Pair};
use crate::cluster::Clusters;
use crate::document::DocumentId;

/// Clusters under way.
pub(super) enum Forming {
    /// Links join clusters at once. Memory holds one link for each document.
    Components { clusters: Clusters, links: Vec<LinkRow> },
    /// Clusters form when all links are known. Memory holds them, 16 bytes each.
    FromAll { links: Vec<LinkRow>, form: fn(u32, &mut Vec<LinkRow>) -> Vec<DocumentId> },
    /// Links come in order. Memory holds one for each document.
    Scan(Scan),
    /// Pairs come in order and are compared with representatives, not with each other.
    Popular(PopularClusters),
}

impl Forming {
    /// Begins with every document alone.
    pub fn new(policy: ReclusterPolicy, n_documents: u32, context: &Context) -> Self {
        let from_all = |form| Forming::FromAll { links: Vec::new(), form };
        match policy {
            ReclusterPolicy::Components => {
                Forming::Components { clusters: Clusters::alone(n_documents as usize), links: Vec::new() }
            }
            ReclusterPolicy::Star => from_all(star_clusters),
            ReclusterPolicy::CenterByResemblance => from_all(clusters_by_resemblance),
            ReclusterPolicy::Center => Forming::Scan(Scan::new(n_documents, Choice::Oldest)),
            ReclusterPolicy::Greedy(Representative::First) => Forming::Scan(Scan::new(n_documents, Choice::Closest)),
            // Pairs take a quarter of the memory, too.
            ReclusterPolicy::Greedy(Representative::Popular) => {
                Forming::Popular(PopularClusters::new(n_documents, (context.memory / 4) as usize))
            }
        }
    }

    /// Whether a pair may change the clusters.
    pub fn needs(&mut self, pair: &Pair) -> bool {
        match self {
            Forming::Components { clusters, .. } => {
                clusters.cluster_of(pair.later()) != clusters.cluster_of(pair.earlier())
            }
            Forming::Scan(scan) => scan.needs(pair),
            Forming::FromAll { .. } | Forming::Popular(_) => true,
        }
    }

    /// Takes the next link.
    pub fn add(&mut self, link: LinkRow) {
        match self {
            Forming::Components { clusters, links } => {
                if clusters.union(link.later, link.earlier).is_some() {
                    links.push(link);
                }
            }
            Forming::FromAll { links, .. } => links.push(link),
            Forming::Scan(scan) => scan.add(link),
            // These clusters find their links themselves.
            Forming::Popular(_) => {}
        }
    }

    /// The cluster of every document, named by its smallest document, and the links that span the clusters.
    pub fn finish(self, n_documents: u32) -> (Vec<DocumentId>, Vec<LinkRow>) {
        match self {
            Forming::Components { mut clusters, links } => {
                let names = clusters.cluster_of_each().into_iter().map(|cluster| DocumentId(cluster.0)).collect();
                (names, links)
            }
            Forming::FromAll { mut links, form } => (form(n_documents, &mut links), links),
            Forming::Scan(scan) => scan.finish(),
            Forming::Popular(clusters) => clusters.finish(),
        }
    }
}
