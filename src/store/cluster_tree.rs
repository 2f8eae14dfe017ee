//! The trees of clusters, read row by row.

use super::db::family;
use super::rocks_error::{damaged, failed};
use super::schema::{self, cf};
use crate::cluster::ClusterRow;
use crate::document::{ClusterId, DocumentId};
use crate::ports::StoreError;
use rocksdb::DB;

/// A document's row of clusters; without one it is a cluster of its own.
pub(super) fn cluster_row(db: &DB, document: DocumentId) -> Result<ClusterRow, StoreError> {
    match db.get_cf(family(db, cf::CLUSTERS)?, document.0.to_be_bytes()).map_err(failed)? {
        None => Ok(ClusterRow { document, parent: document, next: document, size: 1, name: document }),
        Some(row) => schema::read_cluster_row(document, &row).ok_or_else(|| damaged("a row of clusters")),
    }
}

/// The cluster of a document: the name at the root of its tree.
pub(super) fn cluster_of(db: &DB, document: DocumentId) -> Result<ClusterId, StoreError> {
    let mut row = cluster_row(db, document)?;
    // Union by size keeps every tree at most 32 deep.
    for _ in 0..=32 {
        if row.parent == row.document {
            return Ok(ClusterId(row.name.0));
        }
        row = cluster_row(db, row.parent)?;
    }
    Err(damaged(format!("the tree above document {document} has no root")))
}
