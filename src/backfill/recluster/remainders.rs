//! What is left of clusters that lose documents: which of the others still belong together.

use super::cluster_diff::{ClusterDiff, diff_events};
use super::policy::{ReclusterPolicy, Representative};
use super::reclustering::recluster_parts;
use super::store_lists::Parts;
use super::verify::LinkRule;
use crate::backfill::context::Context;
use crate::backfill::error::BackfillError;
use crate::cluster::{ClusterPolicy, Clusters};
use crate::document::{ClusterId, DocumentId};
use crate::ports::{Forgotten, ForgottenUrl, LinkView, Outgoing, Present, PresentChange, Remainders, Snapshot};
use crate::sweep::UrlState;
use crate::wire::{Event, Origin, Subject};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Clusters after some documents are forgotten, and the events that tell of it.
pub struct Forgetting {
    /// What the store must replace.
    pub remainders: Remainders,
    /// One event for each URL, then those of the clusters; numbered from the store's next.
    pub events: Vec<Outgoing>,
}

/// Clusters again what forgotten documents leave of their clusters: by the links that are left, and by those that the
/// store's rule finds where these no longer suffice. Other clusters stay as they are.
///
/// # Errors
/// [`BackfillError`]
pub fn forget<S: Snapshot + LinkView + Sync>(
    store: &S,
    context: &Context,
    forgotten: &Forgotten,
) -> Result<Forgetting, BackfillError> {
    let mut old = store.clusters()?;
    let gone: HashSet<DocumentId> = forgotten.documents.iter().copied().collect();
    let (documents, parts) = affected(&mut old, &gone);
    let mut new = Clusters::alone(old.n_documents());
    let mut links = store.links(&documents)?;
    links.retain(|link| {
        let is_left = parts.contains_key(&link.document) && parts.contains_key(&link.to);
        is_left && new.union(link.document, link.to).is_some()
    });
    let split = split_clusters(&mut new, &parts);
    if !split.is_empty() {
        let parts: Parts = parts.iter().filter(|(_, cluster)| split.contains(cluster)).map(|(a, b)| (*a, *b)).collect();
        let cluster = &store.rule().cluster;
        let policy = match cluster.policy {
            ClusterPolicy::Components => ReclusterPolicy::Components,
            // The stream compares with the first document of a cluster, not with the best connected one.
            ClusterPolicy::Star => ReclusterPolicy::Greedy(Representative::First),
        };
        let rule = LinkRule { threshold: cluster.threshold, containment: None };
        let found = recluster_parts(store, context, rule, policy, Some(&parts))?.links;
        links.extend(found.into_iter().filter(|link| new.union(link.document, link.to).is_some()));
    }
    let names = Names::of(&mut old, &mut new, &parts);
    let events = events(store, forgotten, &gone, &names)?;
    Ok(Forgetting { remainders: Remainders { documents, rows: new.rows().collect(), links }, events })
}

/// All documents of clusters with a forgotten one, ascending, and those of them that are left.
fn affected(clusters: &mut Clusters, gone: &HashSet<DocumentId>) -> (Vec<DocumentId>, Parts) {
    let (mut documents, mut parts) = (BTreeSet::new(), Parts::new());
    for document in gone {
        if !documents.contains(document) {
            let cluster = clusters.cluster_of(*document);
            for member in clusters.members(*document) {
                documents.insert(member);
                if !gone.contains(&member) {
                    parts.insert(member, cluster);
                }
            }
        }
    }
    (documents.into_iter().collect(), parts)
}

/// The clusters of which several are left.
fn split_clusters(new: &mut Clusters, parts: &Parts) -> HashSet<ClusterId> {
    let mut first_names = HashMap::new();
    let mut is_split = |(document, cluster): (&DocumentId, &ClusterId)| {
        let name = new.cluster_of(*document);
        (*first_names.entry(*cluster).or_insert(name) != name).then_some(*cluster)
    };
    parts.iter().filter_map(&mut is_split).collect()
}

/// The cluster of every document, before and after.
struct Names {
    old: Vec<DocumentId>,
    new: Vec<DocumentId>,
}

impl Names {
    fn of(old: &mut Clusters, new: &mut Clusters, parts: &Parts) -> Self {
        let ids = (1..=old.n_documents() as u32).map(DocumentId);
        let old: Vec<DocumentId> = ids.map(|id| DocumentId(old.cluster_of(id).0)).collect();
        // Forgotten documents keep their cluster, so that nothing is told of them.
        let mut names = old.clone();
        for document in parts.keys() {
            names[index(*document)] = DocumentId(new.cluster_of(*document).0);
        }
        Names { old, new: names }
    }
}

fn index(document: DocumentId) -> usize {
    document.0 as usize - 1
}

fn events<S: Snapshot>(
    store: &S,
    forgotten: &Forgotten,
    gone: &HashSet<DocumentId>,
    names: &Names,
) -> Result<Vec<Outgoing>, BackfillError> {
    let origin = Origin { source: "forget".into(), partition: 0, offset: 0 };
    let cluster_of = |document: DocumentId| ClusterId(names.new[index(document)].0);
    let mut events: Vec<Outgoing> = Vec::new();
    for (seq, ForgottenUrl { url, after, .. }) in (store.next_seq()..).zip(&forgotten.urls) {
        let newest = after.as_ref().map(|after| after.newest.clone());
        let document = newest.as_ref().and_then(|newest| newest.seen.document());
        let subject = Subject {
            url: Some(url),
            fetched_at: newest.as_ref().map(|newest| newest.fetched_at),
            sweep: newest.as_ref().and_then(|newest| newest.sweep.as_deref()),
        };
        let stands = document.map(|document| (document, cluster_of(document)));
        let event = Event::forgotten(seq, &origin, subject, stands);
        let mut outgoing = Outgoing::new(seq, Some(url.clone()), event.to_json());
        if let Some(newest) = newest {
            outgoing.change = PresentChange::To(Present { newest, cluster: document.map(cluster_of) });
        }
        events.push(outgoing);
    }
    let touched: HashMap<&str, &ForgottenUrl> = forgotten.urls.iter().map(|url| (url.url.as_str(), url)).collect();
    let mut diff = ClusterDiff::between(&names.old, &names.new);
    diff.reassigned.retain(|document| !gone.contains(document));
    let next_seq = store.next_seq() + events.len() as u64;
    let left = |each: &mut dyn FnMut(String, UrlState) -> bool| {
        store.each_url(&mut |url, state| match touched.get(url.as_str()) {
            None => each(url, state),
            Some(ForgottenUrl { after: None, .. }) => true,
            Some(ForgottenUrl { after: Some(state), .. }) => each(url, state.clone()),
        })
    };
    events.extend(diff_events(&origin, &diff, &names.new, next_seq, left)?);
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids<const N: usize>(ids: [u32; N]) -> Vec<DocumentId> {
        ids.map(DocumentId).to_vec()
    }

    /// Clusters of six documents, and what is left of them without some.
    fn names_without(links: &[(u32, u32)], gone: &[u32], left: &[(u32, u32)]) -> Names {
        let [mut old, mut new] = [links, left].map(|links| {
            let mut clusters = Clusters::alone(6);
            for (a, b) in links {
                clusters.union(DocumentId(*a), DocumentId(*b));
            }
            clusters
        });
        let gone: HashSet<DocumentId> = gone.iter().copied().map(DocumentId).collect();
        let (_, parts) = affected(&mut old, &gone);
        Names::of(&mut old, &mut new, &parts)
    }

    #[test]
    fn what_is_left_is_named_by_its_smallest_document() {
        let names = names_without(&[(1, 2), (2, 3), (4, 5)], &[1], &[(2, 3)]);
        assert_eq!(names.new, ids([1, 2, 2, 4, 4, 6]));
        let names = names_without(&[(1, 2), (2, 3)], &[2], &[]);
        assert_eq!(names.new, ids([1, 1, 3, 4, 5, 6]));
        for names in [names_without(&[(1, 2)], &[1, 2], &[]), names_without(&[(1, 2), (2, 3)], &[2], &[(1, 3)])] {
            assert_eq!(names.new, names.old, "nothing is told of a document that is forgotten");
        }
    }

    #[test]
    fn only_clusters_in_several_parts_are_looked_at_again() {
        let mut old = Clusters::alone(6);
        let mut new = Clusters::alone(6);
        for (a, b) in [(1, 2), (2, 3), (4, 5), (5, 6)] {
            old.union(DocumentId(a), DocumentId(b));
        }
        new.union(DocumentId(4), DocumentId(6));
        let gone = [DocumentId(2), DocumentId(5)].into();
        let (documents, parts) = affected(&mut old, &gone);
        assert_eq!((documents, parts.len()), (ids([1, 2, 3, 4, 5, 6]), 4));
        assert_eq!(split_clusters(&mut new, &parts), [ClusterId(1)].into());
    }
}
