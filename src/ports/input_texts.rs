//! Texts that the store does not keep, from the records that it was read from.

use super::source::SourceError;
use crate::document::{CanonicalRule, DocumentId, FetchTime};
use crate::wire::Origin;
use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Instant;

/// A document whose text is looked for.
#[derive(Clone, Debug)]
pub struct SoughtText {
    /// The document.
    pub document: DocumentId,
    /// The URLs and times at which it was seen: a record of any of them has its text.
    pub places: HashSet<(String, FetchTime)>,
    /// The sweeps that saw it.
    pub sweeps: HashSet<String>,
}

/// A text that was found.
#[derive(Clone, Debug)]
pub struct FoundText {
    /// What counts of the page, without markup, as the store would keep it.
    pub text: String,
    /// The record.
    pub origin: Origin,
}

/// The inputs of a store, as far as they are still there.
pub trait InputTexts: Send + Sync {
    /// Those of a store's sources that can be read again.
    fn readable(&self, sources: Vec<String>) -> Vec<PathBuf>;

    /// Reads inputs until every text is found, or the time is up. The answer has a place for each text sought.
    ///
    /// # Errors
    /// [`SourceError`]
    fn find(
        &self,
        sought: &[SoughtText],
        inputs: Vec<PathBuf>,
        rule: &CanonicalRule,
        until: Option<Instant>,
    ) -> Result<Vec<Option<FoundText>>, SourceError>;
}
