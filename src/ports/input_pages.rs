//! Pages that the store took in, from the records that it was read from.

use super::source::SourceError;
use super::store::StoreError;
use crate::document::{DocumentId, FetchTime, Page};
use crate::wire::Origin;
use std::collections::HashSet;
use std::path::PathBuf;
use std::time::Instant;

/// A document of which a page is looked for.
#[derive(Clone, Debug)]
pub struct SoughtPage {
    /// The document.
    pub document: DocumentId,
    /// The URLs and times at which it was seen: a record of any of them may be a page of it.
    pub places: HashSet<(String, FetchTime)>,
    /// The sweeps that saw it.
    pub sweeps: HashSet<String>,
}

/// A page that was found.
#[derive(Clone, Debug)]
pub struct FoundPage {
    /// The page, which has a body.
    pub page: Page,
    /// Its record.
    pub origin: Origin,
}

/// Whether a page is one of a document. Its URL and time do not tell: a crawl may see a URL twice at one time, and somebody
/// may have rewritten the file.
pub type IsPageOf<'a> = &'a mut dyn FnMut(&Page, DocumentId) -> Result<bool, StoreError>;

/// The inputs of a store, as far as they are still there.
pub trait InputPages: Send + Sync {
    /// Those of a store's sources that can be read again.
    fn readable(&self, sources: Vec<String>) -> Vec<PathBuf>;

    /// Reads inputs until a page of every document is found, by its place and by `is_page_of`, or the time is up. The answer
    /// has a place for each document.
    ///
    /// # Errors
    /// [`SourceError`], also for one of the store
    fn find(
        &self,
        sought: &[SoughtPage],
        inputs: Vec<PathBuf>,
        is_page_of: IsPageOf<'_>,
        until: Option<Instant>,
    ) -> Result<Vec<Option<FoundPage>>, SourceError>;
}
