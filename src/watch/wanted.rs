//! Which events a watch wants.

use crate::document::{ClusterId, DocumentId};
use crate::ports::{StoreError, WatchedDocuments};
use crate::sketch::{Rule, Sketch, compare_redacted};
use crate::wire::{Event, EventFilter};
use std::sync::Arc;

/// Standard errors by which an inaccurate share must exceed the threshold. Texts are compared with every document that comes,
/// and of many thousands some are two or three of these errors off.
const ERRORS: f64 = 4.0;

/// What an event must meet: every condition. One that is empty is met.
pub(super) struct Wanted {
    /// Its type, and what it is about.
    pub filter: EventFilter,
    /// It is about a document, or a cluster, that is in the same cluster as one of these documents now.
    pub clusters: Vec<DocumentId>,
    /// Its document carries one of these texts.
    pub texts: Vec<Arc<Sketch>>,
    /// As in [`Estimate::carries`](crate::sketch::Estimate::carries).
    pub threshold: f64,
    /// The rule of all sketches.
    pub rule: Rule,
}

impl Wanted {
    /// Whether an event is wanted.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn matches(&self, event: &Event, documents: &impl WatchedDocuments) -> Result<bool, StoreError> {
        Ok(self.filter.matches(event)
            && self.is_in_clusters(event, documents)?
            && self.carries_text(event, documents)?)
    }

    fn is_in_clusters(&self, event: &Event, documents: &impl WatchedDocuments) -> Result<bool, StoreError> {
        if self.clusters.is_empty() {
            return Ok(true);
        }
        // A cluster is named by a document.
        let named = |cluster: ClusterId| DocumentId(cluster.0);
        let Some(document) = event.document().or(event.cluster().map(named)) else { return Ok(false) };
        let cluster = documents.cluster_of(document)?;
        for watched in &self.clusters {
            if documents.cluster_of(*watched)? == cluster {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn carries_text(&self, event: &Event, documents: &impl WatchedDocuments) -> Result<bool, StoreError> {
        if self.texts.is_empty() {
            return Ok(true);
        }
        let Some(document) = event.document() else { return Ok(false) };
        let sketch = documents.sketch_of(document)?.filter(|sketch| sketch.n_shingles > 0);
        let Some(sketch) = sketch else { return Ok(false) };
        let carries = |text: &Arc<Sketch>| compare_redacted(text, &sketch, self.rule).carries(self.threshold, ERRORS);
        Ok(self.texts.iter().any(carries))
    }
}
