//! `/`: the store at a glance, or what a person looks for in it: a URL, a part of one, or a text.

use super::super::answer::Answer;
use super::super::error::HttpError;
use super::super::request::QueryRequest;
use super::super::service::Service;
use super::overview::{moves_sheet, overview_page};
use super::reuse::pages_with_text;
use super::search::search_page;
use super::sheet::Format;
use super::url::url_page;
use crate::ports::{Snapshot, Snapshots};

/// `/`: the box of every page leads here.
pub(in super::super) fn home<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    request: &QueryRequest,
) -> Result<Answer, HttpError> {
    let (wanted, format) = (request.given("url").unwrap_or("").trim(), Format::from_request(request)?);
    if wanted.is_empty() {
        return match format {
            Some(format) => moves_sheet(service, format),
            None => overview_page(service, snapshot),
        };
    }
    if let Some(page) = url_page(service, snapshot, request, wanted, format)? {
        return Ok(page);
    }
    if wanted.split_whitespace().count() >= snapshot.rule().sketch.w {
        if format.is_some() {
            let message = "the pages that hold a text are no table here; POST /v1/reuse gives them as JSON";
            return Err(HttpError::bad_request("bad-parameter", message));
        }
        return pages_with_text(service, snapshot, wanted.into());
    }
    search_page(service, snapshot, request, wanted, format)
}
