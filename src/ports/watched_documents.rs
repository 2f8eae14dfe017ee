//! What watches ask the store about the document of an event.

use super::store::StoreError;
use crate::document::{ClusterId, DocumentId};
use crate::sketch::Sketch;
use std::sync::Arc;

/// Reads documents while another thread writes the store.
pub trait WatchedDocuments: Send + Sync {
    /// The sketch of a document; none where there is no such document.
    ///
    /// # Errors
    /// [`StoreError`], as for [`Self::cluster_of`].
    fn sketch_of(&self, document: DocumentId) -> Result<Option<Arc<Sketch>>, StoreError>;

    /// The cluster that a document is in now. A number that no document has is a cluster of its own.
    ///
    /// # Errors
    /// [`StoreError`]
    fn cluster_of(&self, document: DocumentId) -> Result<ClusterId, StoreError>;
}
