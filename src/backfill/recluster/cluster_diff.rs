//! The events that take a consumer from a store's clusters to new ones.

use crate::backfill::error::BackfillError;
use crate::cluster::Merge;
use crate::document::{ClusterId, DocumentId};
use crate::ports::{Outgoing, Snapshot, StoreError};
use crate::sweep::UrlState;
use crate::wire::{Event, Origin, Subject};
use std::collections::BTreeSet;

/// The changes from one set of clusters to another.
#[derive(Debug, Default, PartialEq)]
pub(super) struct ClusterDiff {
    /// Names that only the new clusters have.
    pub splits: Vec<ClusterId>,
    /// Names that only the old clusters had, each with the new cluster of its document.
    pub merges: Vec<Merge>,
    /// Documents of clusters that split. Names alone do not tell where their parts belong: a consumer may know a
    /// document under any name that its cluster ever had.
    pub reassigned: Vec<DocumentId>,
}

impl ClusterDiff {
    /// Compares the old and the new cluster of every document. Clusters are named by their smallest documents.
    pub fn between(old: &[DocumentId], new: &[DocumentId]) -> Self {
        let at = |document: DocumentId| document.0 as usize - 1;
        // Indexed by old cluster.
        let mut is_split = vec![false; old.len()];
        for (old, name) in old.iter().zip(new) {
            is_split[at(*old)] |= new[at(*old)] != *name;
        }
        let mut diff = ClusterDiff::default();
        for (id, (was, is)) in (1..).map(DocumentId).zip(old.iter().zip(new)) {
            match (id == *was, id == *is) {
                (false, true) => diff.splits.push(ClusterId(id.0)),
                (true, false) => diff.merges.push(Merge { loser: ClusterId(id.0), winner: ClusterId(is.0) }),
                _ => {}
            }
            if is_split[at(*was)] {
                diff.reassigned.push(id);
            }
        }
        diff
    }
}

/// The events that take a consumer from a store's clusters to new ones: new names, lost names, and the cluster of
/// every document whose old cluster split. A document's event comes once for each URL at which the document stands
/// now, or once without a URL. The events are numbered from `seq`.
///
/// # Errors
/// [`BackfillError`]
pub fn cluster_diff_events<S: Snapshot>(
    store: &S,
    old: &[DocumentId],
    new: &[DocumentId],
    seq: u64,
) -> Result<Vec<Outgoing>, BackfillError> {
    let origin = Origin { source: "recluster".into(), partition: 0, offset: 0 };
    diff_events(&origin, &ClusterDiff::between(old, new), new, seq, |each| store.each_url(each))
}

/// The events of a difference. `each_url` calls its argument with every URL and its state.
pub(super) fn diff_events(
    origin: &Origin,
    ClusterDiff { splits, merges, reassigned }: &ClusterDiff,
    new: &[DocumentId],
    seq: u64,
    each_url: impl FnOnce(&mut dyn FnMut(String, UrlState) -> bool) -> Result<(), StoreError>,
) -> Result<Vec<Outgoing>, BackfillError> {
    let no_subject = Subject { url: None, fetched_at: None, sweep: None };
    let mut events = Vec::new();
    let mut push = |key: Option<&str>, make: &dyn Fn(u64) -> Event| {
        let seq = seq + events.len() as u64;
        events.push(Outgoing::new(seq, key.map(String::from), make(seq).to_json()));
    };
    splits.iter().for_each(|cluster| push(None, &|seq| Event::split(seq, origin, *cluster)));
    merges.iter().for_each(|merge| push(None, &|seq| Event::merged(seq, origin, no_subject, *merge)));
    // Without it, no URL need be read, of which a store has many.
    if reassigned.is_empty() {
        return Ok(events);
    }
    let cluster_of = |document: DocumentId| ClusterId(new[document.0 as usize - 1].0);
    let mut without_url: BTreeSet<DocumentId> = reassigned.iter().copied().collect();
    each_url(&mut |url, state| {
        if let Some(document) = state.newest.seen.document()
            && reassigned.binary_search(&document).is_ok()
        {
            without_url.remove(&document);
            let (fetched_at, sweep) = (Some(state.newest.fetched_at), state.newest.sweep.as_deref());
            let subject = Subject { url: Some(&url), fetched_at, sweep };
            let cluster = cluster_of(document);
            push(Some(&url), &|seq| Event::reassigned(seq, origin, subject, document, cluster));
        }
        true
    })?;
    for document in without_url {
        push(None, &|seq| Event::reassigned(seq, origin, no_subject, document, cluster_of(document)));
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
    fn whole_clusters_need_a_merge_at_most() {
        assert_eq!(between([1, 1, 3, 3, 5, 5], [1, 1, 3, 3, 5, 5]), ClusterDiff::default());
        let merges = vec![Merge { loser: ClusterId(3), winner: ClusterId(1) }];
        assert_eq!(between([1, 1, 3, 3, 5, 5], [1, 1, 1, 1, 5, 5]), ClusterDiff { merges, ..ClusterDiff::default() });
    }

    #[test]
    fn all_documents_of_a_split_cluster_are_reassigned() {
        let diff = between([1, 1, 1, 1, 5, 5], [1, 2, 1, 2, 5, 5]);
        let reassigned = [1, 2, 3, 4].map(DocumentId).to_vec();
        assert_eq!(diff, ClusterDiff { splits: vec![ClusterId(2)], merges: vec![], reassigned });
        // 6 leaves 5, and the name 5 is lost because 5 itself joins 1.
        let diff = between([1, 1, 3, 3, 5, 5], [1, 1, 3, 3, 1, 6]);
        let merges = vec![Merge { loser: ClusterId(5), winner: ClusterId(1) }];
        let reassigned = [5, 6].map(DocumentId).to_vec();
        assert_eq!(diff, ClusterDiff { splits: vec![ClusterId(6)], merges, reassigned });
    }
}
