//! What a page shows, as a table for programs.

use super::super::answer::{Answer, JSON};
use super::super::error::HttpError;
use super::super::request::QueryRequest;
use crate::document::{ClusterId, DocumentId, FetchTime};
use crate::sweep::{Observation, Seen};
use serde::Serialize;

/// How a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Csv,
    Json,
}

impl Format {
    /// The format that the request asks for; none for a page.
    ///
    /// # Errors
    /// [`HttpError`] where it asks for another.
    pub fn from_request(request: &QueryRequest) -> Result<Option<Self>, HttpError> {
        match request.given("format") {
            None => Ok(None),
            Some("csv") => Ok(Some(Format::Csv)),
            Some("json") => Ok(Some(Format::Json)),
            Some(_) => {
                let message = "format must be csv or json; leave it out for a page";
                Err(HttpError::bad_request("bad-parameter", message))
            }
        }
    }
}

/// What stood at a URL, for programs.
#[derive(Serialize)]
pub(super) struct SightingRow {
    url: String,
    fetched_at: FetchTime,
    sweep: Option<String>,
    seen: &'static str,
    document: Option<DocumentId>,
    cluster: Option<ClusterId>,
    redirects_to: Option<String>,
}

impl SightingRow {
    pub fn new(url: String, moment: Observation, cluster: Option<ClusterId>) -> Self {
        let Observation { fetched_at, sweep, seen, .. } = moment;
        let (document, name) = (seen.document(), seen.as_str());
        let redirects_to = if let Seen::Redirect(target) = seen { Some(target) } else { None };
        SightingRow { url, fetched_at, sweep, seen: name, document, cluster, redirects_to }
    }
}

/// Rows as CSV under a header, or as an array of objects.
///
/// # Errors
/// [`HttpError`] where a row cannot be written so.
pub(super) fn sheet(rows: &[impl Serialize], format: Format) -> Result<Answer, HttpError> {
    let failed = |error: String| HttpError::failed(format!("cannot write the table: {error}"));
    match format {
        Format::Json => {
            let body = serde_json::to_vec(rows).map_err(|error| failed(error.to_string()))?;
            Ok(Answer::new(JSON, body))
        }
        Format::Csv => {
            let mut csv = csv::Writer::from_writer(Vec::new());
            for row in rows {
                csv.serialize(row).map_err(|error| failed(error.to_string()))?;
            }
            let body = csv.into_inner().map_err(|error| failed(error.to_string()))?;
            Ok(Answer::new("text/csv; charset=utf-8", body))
        }
    }
}
