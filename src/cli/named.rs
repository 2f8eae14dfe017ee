//! What a command line names of a store: documents by number, pages by URL and sweep.

use super::exit::{Exit, ending};
use crate::document::DocumentId;
use crate::ports::Snapshot;
use crate::query::{self, NamedDocument};
use anyhow::{Error, Result};

/// The document of a number or a URL, or the version that a sweep saw at a URL.
pub(super) fn version(snapshot: &impl Snapshot, of: &str, sweep: Option<&str>) -> Result<DocumentId> {
    match (query::named_version(snapshot, of, sweep)?, sweep) {
        (NamedDocument::Found(document), _) => Ok(document),
        (NamedDocument::NeverSeen, _) | (NamedDocument::NoPage, None) => Err(no_page(snapshot, of)),
        (NamedDocument::NoDocument, _) => Err(ending(Exit::NotFound, format!("there is no document {of}"))),
        (NamedDocument::OtherSweep, sweep) => {
            let message = format!("sweep {} did not see document {of}", sweep.unwrap_or_default());
            Err(ending(Exit::NotFound, message))
        }
        (NamedDocument::NoPage, Some(sweep)) => {
            let message = format!("sweep {sweep} saw no page at {of}; `query url` shows what was seen when");
            Err(ending(Exit::NotFound, message))
        }
    }
}

/// The error for a URL at which no page was ever seen: nothing at all, or only redirects or none.
pub(super) fn no_page(snapshot: &impl Snapshot, url: &str) -> Error {
    match query::url(snapshot, url) {
        Ok(history) if history.sightings.is_empty() => never_seen(snapshot, url),
        Ok(_) => {
            let message = format!("no page was ever seen at {url}, only redirects or none; `query url` shows them");
            ending(Exit::NotFound, message)
        }
        Err(error) => error.into(),
    }
}

/// The error for a URL that the store does not have; it names similar ones that it has.
pub(super) fn never_seen(snapshot: &impl Snapshot, url: &str) -> Error {
    query::never_seen(snapshot, url).map_or_else(Error::from, |message| ending(Exit::NotFound, message))
}
