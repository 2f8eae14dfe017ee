//! The links that a backfill has found so far, and the clusters that they make.

use super::checkpoint::Checkpoint;
use super::datasets::LINKS;
use super::error::BackfillError;
use super::rows::LinkRow;
use crate::cluster::Clusters;

/// Reads the links of the finished steps, in the order in which they were found.
///
/// # Errors
/// [`BackfillError`] if a file cannot be read.
pub(super) fn found_links(checkpoint: &Checkpoint) -> Result<(Clusters, Vec<LinkRow>), BackfillError> {
    let mut clusters = Clusters::alone(checkpoint.ingested().n_documents() as usize);
    let mut links = Vec::new();
    for file in checkpoint.open_dataset(LINKS)? {
        let mut rows = file.read_all();
        while let Some(link) = rows.next_row()? {
            clusters.union(link.later, link.earlier);
            links.push(link);
        }
    }
    Ok((clusters, links))
}
