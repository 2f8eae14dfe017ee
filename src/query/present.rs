//! What stands at every URL now.

use crate::document::{ClusterId, DocumentId, FetchTime};
use crate::ports::{Present, Snapshot, StoreError};
use serde::Serialize;

/// What stands at a URL now, flat for tables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PresentRow {
    /// Where.
    pub url: String,
    /// When that was seen.
    pub fetched_at: FetchTime,
    /// On which sweep; empty: on none.
    pub sweep: String,
    /// The document, where a page stands there.
    pub document: Option<DocumentId>,
    /// Its cluster.
    pub cluster: Option<ClusterId>,
    /// `page`, `gone`, `redirect` or `lost`.
    pub state: &'static str,
}

/// Calls `each` with every URL and what stands there, by the time of fetching, until it says stop (false).
///
/// # Errors
/// [`StoreError`]
pub fn present(snapshot: &impl Snapshot, mut each: impl FnMut(String, Present) -> bool) -> Result<(), StoreError> {
    let mut clusters = snapshot.clusters()?;
    snapshot.each_url(&mut |url, state| {
        let cluster = state.newest.seen.document().map(|document| clusters.cluster_of(document));
        each(url, Present { newest: state.newest, cluster })
    })
}

/// The same as rows of a table.
///
/// # Errors
/// [`StoreError`]
pub fn export_present(snapshot: &impl Snapshot, mut each: impl FnMut(PresentRow) -> bool) -> Result<(), StoreError> {
    present(snapshot, |url, Present { newest, cluster }| {
        each(PresentRow {
            url,
            fetched_at: newest.fetched_at,
            document: newest.seen.document(),
            cluster,
            state: newest.seen.as_str(),
            sweep: newest.sweep.unwrap_or_default(),
        })
    })
}
