//! `/v1/text`: the kept text of a document.

use super::answer::{Answer, json};
use super::error::{HttpError, shortened};
use super::request::QueryRequest;
use super::service::Service;
use crate::document::DocumentId;
use crate::ports::{Snapshot, Snapshots};
use crate::query::{self, NamedDocument};

/// `GET /v1/text`
pub(super) fn text<V: Snapshots>(
    _: &Service<V>,
    snapshot: &V::Snapshot,
    request: &QueryRequest,
) -> Result<Answer, HttpError> {
    let document = version(snapshot, request.required("of")?, request.given("sweep"))?;
    json(snapshot, query::text(snapshot, document)?)
}

/// The document of a number or a URL, or the version that a sweep saw at a URL.
pub(super) fn version(snapshot: &impl Snapshot, of: &str, sweep: Option<&str>) -> Result<DocumentId, HttpError> {
    match (query::named_version(snapshot, of, sweep)?, sweep) {
        (NamedDocument::Found(document), _) => Ok(document),
        (NamedDocument::NeverSeen, _) | (NamedDocument::NoPage, None) => Err(HttpError::no_page(snapshot, of)),
        (NamedDocument::NoDocument, _) => Err(HttpError::not_found(format!("there is no document {}", shortened(of)))),
        (NamedDocument::OtherSweep, sweep) => {
            let (of, sweep) = (shortened(of), shortened(sweep.unwrap_or_default()));
            Err(HttpError::not_found(format!("sweep {sweep} did not see document {of}")))
        }
        (NamedDocument::NoPage, Some(sweep)) => {
            let (of, sweep) = (shortened(of), shortened(sweep));
            Err(HttpError::not_found(format!("sweep {sweep} saw no page at {of}; /v1/url shows what was seen when")))
        }
    }
}
