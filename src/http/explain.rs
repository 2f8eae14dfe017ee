//! `/v1/explain`: why two pages are in one cluster.

use super::answer::{Answer, json};
use super::error::HttpError;
use super::request::QueryRequest;
use super::service::Service;
use super::text::version;
use crate::ports::{Snapshot, Snapshots};
use crate::query::{self, Explanation};

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
    let documents = [version(snapshot, names[0], None)?, version(snapshot, names[1], None)?];
    Ok(query::explain(snapshot, names, documents, DOCUMENTS_MAX)?)
}
