//! Time: which page stood where and when, and where a lost one went (Broder 1997, section 1.1, "lost and found").

mod lost;

pub use lost::{Found, found};

use crate::document::{DocumentId, FetchTime};
use serde::Serialize;

/// A page stood at a URL at a time, or no longer did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sighting {
    /// Where.
    pub url: String,
    /// When.
    pub fetched_at: FetchTime,
    /// On which sweep.
    pub sweep: Option<String>,
    /// What stood there; none: nothing did.
    pub document: Option<DocumentId>,
}
