//! `/v1/explain`: why two pages are in one cluster.

use super::answer::{Answer, json};
use super::error::{HttpError, shortened};
use super::request::QueryRequest;
use super::service::Service;
use crate::document::DocumentId;
use crate::ports::{Snapshot, Snapshots};
use crate::query::{self, Explanation, NamedDocument};

/// Documents whose links are read. The links of a larger cluster are for the command line.
const DOCUMENTS_MAX: usize = 100_000;

/// `GET /v1/explain`
pub(super) fn explain<V: Snapshots>(
    _: &Service<V>,
    snapshot: &V::Snapshot,
    request: &QueryRequest,
) -> Result<Answer, HttpError> {
    json(snapshot, explanation(snapshot, [request.required("a")?, request.required("b")?])?)
}

/// How two documents, each named by a URL or its number, are connected.
pub(super) fn explanation(snapshot: &impl Snapshot, names: [&str; 2]) -> Result<Explanation, HttpError> {
    let documents = [document(snapshot, names[0])?, document(snapshot, names[1])?];
    Ok(query::explain(snapshot, names, documents, DOCUMENTS_MAX)?)
}

fn document(snapshot: &impl Snapshot, name: &str) -> Result<DocumentId, HttpError> {
    match query::named_document(snapshot, name)? {
        NamedDocument::Found(document) => Ok(document),
        NamedDocument::NeverSeen => Err(HttpError::never_seen(snapshot, name)),
        NamedDocument::NoDocument => Err(HttpError::not_found(format!("there is no document {}", shortened(name)))),
        NamedDocument::NoPage => {
            let name = shortened(name);
            let message = format!("no page was ever seen at {name}, only redirects or none; /v1/url shows them");
            Err(HttpError::not_found(message))
        }
    }
}
