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

/// A row of a table whose columns have names, so that a table without rows has a header, too.
pub(super) trait Columns: Serialize {
    /// The names of the fields, in their order.
    const NAMES: &'static [&'static str];
}

impl Columns for SightingRow {
    const NAMES: &'static [&'static str] =
        &["url", "fetched_at", "sweep", "seen", "document", "cluster", "redirects_to"];
}

/// Rows as CSV under a header, or as an array of objects.
///
/// # Errors
/// [`HttpError`] where a row cannot be written so.
pub(super) fn sheet<R: Columns>(rows: &[R], format: Format) -> Result<Answer, HttpError> {
    let failed = |error: String| HttpError::failed(format!("cannot write the table: {error}"));
    match format {
        Format::Json => {
            let body = serde_json::to_vec(rows).map_err(|error| failed(error.to_string()))?;
            Ok(Answer::new(JSON, body))
        }
        Format::Csv => {
            let mut csv = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
            csv.write_record(R::NAMES).map_err(|error| failed(error.to_string()))?;
            for row in rows {
                csv.serialize(row).map_err(|error| failed(error.to_string()))?;
            }
            let body = csv.into_inner().map_err(|error| failed(error.to_string()))?;
            Ok(Answer::new("text/csv; charset=utf-8", body))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header that is written by hand must not say other names than the fields have.
    #[test]
    fn the_header_holds_the_names_of_the_fields() {
        let moment = Observation { fetched_at: FetchTime(0), sweep: None, seen: Seen::Gone };
        let mut csv = csv::Writer::from_writer(Vec::new());
        csv.serialize(SightingRow::new("http://a/".into(), moment, None)).expect("a row");
        let written = String::from_utf8(csv.into_inner().expect("a table")).expect("text");
        assert_eq!(written.lines().next(), Some(SightingRow::NAMES.join(",").as_str()));
    }
}
