//! What a consumer of events must be told when clusters are made anew.

use crate::backfill::error::BackfillError;
use crate::cluster::Merge;
use crate::document::{ClusterId, DocumentId};
use crate::ports::{Outgoing, Snapshot};
use crate::wire::{Event, Origin, Subject};
use std::collections::BTreeSet;

/// How one partition becomes another.
#[derive(Debug, Default, PartialEq)]
struct ClusterDiff {
    /// Documents that give a cluster its name now and did not before.
    splits: Vec<ClusterId>,
    /// Names that are gone.
    merges: Vec<Merge>,
    /// Documents of clusters that came apart. Where their parts belong cannot be told by names alone: a consumer may know
    /// a document under any name that its cluster ever had.
    reassigned: Vec<DocumentId>,
}

impl ClusterDiff {
    /// From one cluster of every document to another, each named by its smallest document.
    fn between(old: &[DocumentId], new: &[DocumentId]) -> Self {
        let at = |document: DocumentId| document.0 as usize - 1;
        // Cluster → whether its documents have different clusters now.
        let mut came_apart = vec![false; old.len()];
        for (old, name) in old.iter().zip(new) {
            came_apart[at(*old)] |= new[at(*old)] != *name;
        }
        let mut difference = ClusterDiff::default();
        for (id, (was, is)) in (1..).map(DocumentId).zip(old.iter().zip(new)) {
            match (id == *was, id == *is) {
                (false, true) => difference.splits.push(ClusterId(id.0)),
                (true, false) => difference.merges.push(Merge { loser: ClusterId(id.0), winner: ClusterId(is.0) }),
                _ => {}
            }
            if came_apart[at(*was)] {
                difference.reassigned.push(id);
            }
        }
        difference
    }
}

/// The events that take a consumer from the clusters of a store to new ones: names that are back, names that are gone, and
/// the cluster of every document of a cluster that came apart, once for each URL at which it stands now, or once
/// without a URL. They are numbered from `seq`.
///
/// # Errors
/// [`BackfillError`]
pub fn cluster_diff_events<S: Snapshot>(
    store: &S,
    old: &[DocumentId],
    new: &[DocumentId],
    seq: u64,
) -> Result<Vec<Outgoing>, BackfillError> {
    let ClusterDiff { splits, merges, reassigned } = ClusterDiff::between(old, new);
    let origin = Origin { source: "recluster".into(), partition: 0, offset: 0 };
    let nobody = Subject { url: None, fetched_at: None, sweep: None };
    let mut events = Vec::new();
    let mut push = |key: Option<&str>, make: &dyn Fn(u64) -> Event| {
        let seq = seq + events.len() as u64;
        events.push(Outgoing::new(seq, key.map(String::from), make(seq).to_json()));
    };
    splits.iter().for_each(|cluster| push(None, &|seq| Event::split(seq, &origin, *cluster)));
    merges.iter().for_each(|merge| push(None, &|seq| Event::merged(seq, &origin, nobody, *merge)));
    let cluster_of = |document: DocumentId| ClusterId(new[document.0 as usize - 1].0);
    let mut untold: BTreeSet<DocumentId> = reassigned.iter().copied().collect();
    store.each_url(&mut |url, state| {
        if let Some(document) = state.newest.seen.document()
            && reassigned.binary_search(&document).is_ok()
        {
            untold.remove(&document);
            let (fetched_at, sweep) = (Some(state.newest.fetched_at), state.newest.sweep.as_deref());
            let subject = Subject { url: Some(&url), fetched_at, sweep };
            let cluster = cluster_of(document);
            push(Some(&url), &|seq| Event::reassigned(seq, &origin, subject, document, cluster));
        }
        true
    })?;
    for document in untold {
        push(None, &|seq| Event::reassigned(seq, &origin, nobody, document, cluster_of(document)));
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(old: [u32; 6], new: [u32; 6]) -> ClusterDiff {
        ClusterDiff::between(&old.map(DocumentId), &new.map(DocumentId))
    }

    #[test]
    fn clusters_that_stay_whole_cost_a_merge_at_most() {
        assert_eq!(between([1, 1, 3, 3, 5, 5], [1, 1, 3, 3, 5, 5]), ClusterDiff::default());
        let merges = vec![Merge { loser: ClusterId(3), winner: ClusterId(1) }];
        assert_eq!(between([1, 1, 3, 3, 5, 5], [1, 1, 1, 1, 5, 5]), ClusterDiff { merges, ..ClusterDiff::default() });
    }

    #[test]
    fn all_documents_of_a_cluster_that_came_apart_are_told() {
        let difference = between([1, 1, 1, 1, 5, 5], [1, 2, 1, 2, 5, 5]);
        let reassigned = [1, 2, 3, 4].map(DocumentId).to_vec();
        assert_eq!(difference, ClusterDiff { splits: vec![ClusterId(2)], merges: vec![], reassigned });
        // 6 leaves 5, whose name goes as 5 itself joins 1.
        let difference = between([1, 1, 3, 3, 5, 5], [1, 1, 3, 3, 1, 6]);
        let merges = vec![Merge { loser: ClusterId(5), winner: ClusterId(1) }];
        let reassigned = [5, 6].map(DocumentId).to_vec();
        assert_eq!(difference, ClusterDiff { splits: vec![ClusterId(6)], merges, reassigned });
    }
}
