//! Groups search results by what they carry (Broder 1997, section 1.1).

use crate::document::{ClusterId, Fingerprint};
use crate::ports::{Snapshot, StoreError};
use serde::Serialize;
use std::collections::HashMap;

/// URLs that carry versions of one content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Their cluster; none for a URL at which no page was seen, which stands alone.
    pub cluster: Option<ClusterId>,
    /// The URLs, in the order given.
    pub urls: Vec<String>,
}

/// Groups URLs, given best first, by the clusters of their last copies. Groups come in the order of their best URLs.
/// A URL given twice counts once.
///
/// # Errors
/// [`StoreError`]
pub fn group(snapshot: &impl Snapshot, urls: &[String]) -> Result<Vec<Group>, StoreError> {
    let keys: Vec<Fingerprint> = urls.iter().map(|url| snapshot.key_of(url)).collect();
    let mut groups: Vec<Group> = Vec::new();
    let (mut of_cluster, mut listed) = (HashMap::new(), std::collections::HashSet::new());
    for (url, state) in urls.iter().zip(snapshot.states(&keys)?) {
        if !listed.insert(url) {
            continue;
        }
        let copy = state.and_then(|state| state.copy);
        let cluster = copy.map(|copy| snapshot.cluster_of(copy.document)).transpose()?;
        match cluster.and_then(|cluster| of_cluster.get(&cluster).copied()) {
            Some(at) => {
                let group: &mut Group = &mut groups[at];
                group.urls.push(url.clone());
            }
            None => {
                of_cluster.extend(cluster.map(|cluster| (cluster, groups.len())));
                groups.push(Group { cluster, urls: vec![url.clone()] });
            }
        }
    }
    Ok(groups)
}
