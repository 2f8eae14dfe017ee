//! What the history asks of the store.

use super::missing::MissingUrl;
use crate::cluster::SketchView;
use crate::document::{DocumentId, Fingerprint};
use crate::sweep::{Observation, Seen, SweepRow, UrlState};
use std::cmp::{Ordering, Reverse};

/// A sighting whose URL is known by its fingerprint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSighting {
    /// The URL's fingerprint.
    pub url: Fingerprint,
    /// When, what, on which sweep.
    pub moment: Observation,
}

impl StoredSighting {
    /// The order of sightings in the store.
    pub fn cmp_stored(&self, other: &Self) -> Ordering {
        fn key(sighting: &StoredSighting) -> impl Ord + '_ {
            let Observation { fetched_at, seen, sweep } = &sighting.moment;
            let sweep = sweep.as_deref().unwrap_or("");
            let (kind, target, document) = match seen {
                Seen::Lost => (0, "", 0),
                Seen::Gone => (1, "", 0),
                Seen::Redirect(target) => (2, target.as_str(), 0),
                Seen::Document(document) => (3, "", document.0),
            };
            (sighting.url, *fetched_at, kind, sweep.len(), sweep, target, document)
        }
        key(self).cmp(&key(other))
    }

    /// The newest sightings of each document, at most `limit_each` of each, newest first. Sightings that come twice count
    /// once.
    pub fn newest_of_each(mut all: Vec<Self>, limit_each: usize) -> Vec<Self> {
        all.sort_by_cached_key(|sighting| {
            let Observation { fetched_at, seen, sweep } = &sighting.moment;
            Reverse((seen.document(), *fetched_at, sighting.url, sweep.clone().unwrap_or_default()))
        });
        all.dedup();
        let document_of = |sighting: &Self| sighting.moment.seen.document();
        let of_each = all.chunk_by(|a, b| document_of(a) == document_of(b));
        of_each.flat_map(|same| same.iter().take(limit_each)).cloned().collect()
    }
}

/// The store as the history sees it. A question covers a whole batch; answers come in the order of the question.
pub trait View: SketchView {
    /// The states of URLs; none for a URL that was never seen.
    ///
    /// # Errors
    /// The view's own, as for all of these.
    fn states(&self, urls: &[Fingerprint]) -> Result<Vec<Option<UrlState>>, Self::Error>;

    /// All sightings of a URL, oldest first. Asked only for a URL whose new sighting comes late, or where a page
    /// comes back.
    ///
    /// # Errors
    /// The view's own.
    fn observations(&self, url: Fingerprint) -> Result<Vec<Observation>, Self::Error>;

    /// Sweeps by name; none for a sweep without pages.
    ///
    /// # Errors
    /// The view's own.
    fn sweeps(&self, names: &[&str]) -> Result<Vec<Option<SweepRow>>, Self::Error>;

    /// The URLs behind fingerprints that are in the store.
    ///
    /// # Errors
    /// The view's own.
    fn urls(&self, keys: &[Fingerprint]) -> Result<Vec<String>, Self::Error>;

    /// The newest sightings of each document, at most `limit_each` of each, in no order.
    ///
    /// # Errors
    /// The view's own.
    fn newest_sightings(&self, documents: &[DocumentId], limit_each: usize)
    -> Result<Vec<StoredSighting>, Self::Error>;

    /// Every URL whose last copy is missing.
    ///
    /// # Errors
    /// The view's own.
    fn missing_urls(&self) -> Result<Vec<MissingUrl>, Self::Error>;

    /// Calls `each` with the state of every URL, in no order.
    ///
    /// # Errors
    /// The view's own.
    fn each_state(&self, each: &mut dyn FnMut(Fingerprint, UrlState)) -> Result<(), Self::Error>;
}
