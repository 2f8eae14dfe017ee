//! A page as the history sees it.

use super::view::StoredSighting;
use crate::cluster::Decision;
use crate::document::{FetchTime, Fingerprint};
use crate::sweep::{Observation, Seen};

/// A page as the history sees it. Without a decision nothing stands at its URL, or a redirect does.
#[derive(Clone, Copy, Debug)]
pub struct PageSighting<'p> {
    /// Where.
    pub url: &'p str,
    /// The URL's fingerprint.
    pub key: Fingerprint,
    /// When.
    pub fetched_at: FetchTime,
    /// On which sweep.
    pub sweep: Option<&'p str>,
    /// Where the URL redirects to.
    pub redirect_to: Option<&'p str>,
}

impl PageSighting<'_> {
    /// The sighting to store, given where the page belongs.
    pub(super) fn sighting(&self, decision: Option<&Decision>) -> StoredSighting {
        let seen = match (decision, self.redirect_to) {
            (Some(decision), _) => Seen::Document(decision.document),
            (None, Some(target)) => Seen::Redirect(target.to_string()),
            (None, None) => Seen::Gone,
        };
        let moment = Observation { fetched_at: self.fetched_at, seen, sweep: self.sweep.map(String::from) };
        StoredSighting { url: self.key, moment }
    }
}
