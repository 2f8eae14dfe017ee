//! Missing URLs: gone or lost, with a last copy that has not been found elsewhere.

use crate::cluster::{Clusters, Decision};
use crate::document::{ClusterId, DocumentId, FetchTime, Fingerprint};
use crate::sweep::UrlState;
use std::collections::BTreeSet;

/// A URL that is gone or lost, and whose last copy has not been reported elsewhere yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MissingUrl {
    /// The last copy.
    pub document: DocumentId,
    /// When it was last seen there.
    pub last_seen: FetchTime,
    /// The URL's fingerprint.
    pub url: Fingerprint,
}

impl MissingUrl {
    /// The missing URL that a state describes; none where a page stands there, or its move was reported.
    pub fn from_state(url: Fingerprint, state: &UrlState) -> Option<Self> {
        state.missing_copy().map(|copy| MissingUrl { document: copy.document, last_seen: copy.fetched_at, url })
    }
}

/// A missing URL under the cluster of its last copy.
type Entry = (ClusterId, FetchTime, DocumentId, Fingerprint);

/// All missing URLs, by cluster and then by when they were last seen: 40 bytes each.
#[derive(Default)]
pub(super) struct MissingIndex(BTreeSet<Entry>);

impl MissingIndex {
    /// An index of some missing URLs.
    pub fn new(missing: Vec<MissingUrl>, clusters: &mut Clusters) -> Self {
        let mut index = MissingIndex::default();
        missing.iter().for_each(|url| index.insert(clusters, url));
        index
    }

    pub fn insert(&mut self, clusters: &mut Clusters, missing: &MissingUrl) {
        self.0.insert(entry(clusters, missing));
    }

    pub fn remove(&mut self, clusters: &mut Clusters, missing: &MissingUrl) {
        self.0.remove(&entry(clusters, missing));
    }

    /// Puts the URLs of clusters that a decision merged under the winner.
    pub fn follow_merges(&mut self, decision: &Decision) {
        for merge in &decision.merges {
            let (from, to) = (first_of(merge.loser), first_of(ClusterId(merge.loser.0 + 1)));
            let moved: Vec<Entry> = self.0.range(from..to).copied().collect();
            for entry in moved {
                self.0.remove(&entry);
                self.0.insert((merge.winner, entry.1, entry.2, entry.3));
            }
        }
    }

    /// The URLs of a cluster that were last seen before a time, oldest first, at most `limit`.
    pub fn seen_before(
        &self,
        cluster: ClusterId,
        time: FetchTime,
        limit: usize,
    ) -> impl Iterator<Item = MissingUrl> + use<'_> {
        let (from, to) = (first_of(cluster), (cluster, time, DocumentId(0), Fingerprint(0)));
        let found = (from < to).then(|| self.0.range(from..to)).into_iter().flatten().take(limit);
        found.map(|(_, last_seen, document, url)| MissingUrl { document: *document, last_seen: *last_seen, url: *url })
    }
}

fn entry(clusters: &mut Clusters, missing: &MissingUrl) -> Entry {
    (clusters.cluster_of(missing.document), missing.last_seen, missing.document, missing.url)
}

fn first_of(cluster: ClusterId) -> Entry {
    (cluster, FetchTime(i64::MIN), DocumentId(0), Fingerprint(0))
}
