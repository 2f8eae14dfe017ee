//! What a store forgets, and what is left of its clusters then.

use crate::cluster::{ClusterRow, Link};
use crate::document::{DocumentId, Fingerprint};
use crate::sweep::{Observation, UrlState};

/// What is forgotten in one batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forgotten {
    /// The URLs of which sightings are forgotten.
    pub urls: Vec<ForgottenUrl>,
    /// The documents without a sighting that is left, ascending. They are forgotten, too.
    pub documents: Vec<DocumentId>,
    /// Documents that are left, but not at the URL where they were first seen; each with another URL of theirs.
    pub first_urls: Vec<(DocumentId, Fingerprint)>,
    /// Whether nothing else is to be forgotten. If not, the same selection finds more once this is done.
    pub is_all: bool,
}

/// A URL of which sightings are forgotten.
#[derive(Clone, Debug, PartialEq)]
pub struct ForgottenUrl {
    /// The URL's fingerprint.
    pub key: Fingerprint,
    /// The URL.
    pub url: String,
    /// The sightings that are forgotten.
    pub sightings: Vec<Observation>,
    /// Its state so far.
    pub before: UrlState,
    /// Its state by the sightings that are left; `None` if there are none, so that the URL itself is forgotten.
    pub after: Option<UrlState>,
}

/// The clusters that lose documents, as they are afterwards.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Remainders {
    /// All documents of these clusters so far, ascending, with those that are forgotten.
    pub documents: Vec<DocumentId>,
    /// The rows of those that do not stand alone then.
    pub rows: Vec<ClusterRow>,
    /// Links that span the clusters that they form.
    pub links: Vec<Link>,
}
