//! A request as the routes see it: parameters and body, with the checks that all routes share.

use super::cursor::{self, ListRequest};
use super::error::{HttpError, shortened};
use super::settings::Settings;
use crate::document::Seed;
use axum::body::Bytes;
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri, header};
use serde::de::DeserializeOwned;
use tokio::sync::OwnedSemaphorePermit;

/// Rows in a page, and answers of a ranked list, where the request names no limit.
pub(super) const ROWS: usize = 100;
pub(super) const BEST: usize = 10;

/// A request to a route.
pub(super) struct QueryRequest {
    path: &'static str,
    parameters: Vec<(String, String)>,
    /// The part of the path that the route leaves open for a name.
    name: Option<String>,
    pub headers: HeaderMap,
    /// The media type of the body.
    pub content_type: Option<String>,
    /// The body; empty in a GET.
    pub body: Bytes,
    /// The memory that the body takes, returned with the answer.
    pub _body_bytes: Option<OwnedSemaphorePermit>,
}

impl QueryRequest {
    /// Parses the head of a request. A parameter that the route does not know, or one given twice, is an error: it is
    /// misspelt more often than meant.
    ///
    /// # Errors
    /// [`HttpError`]
    pub fn parse(path: &'static str, known: &[&str], uri: &Uri, headers: &HeaderMap) -> Result<Self, HttpError> {
        let Query(parameters) = Query::<Vec<(String, String)>>::try_from_uri(uri).map_err(|error| {
            HttpError::bad_request("bad-parameter", format!("cannot read the part of the URL after `?`: {error}"))
        })?;
        for (at, (name, _)) in parameters.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                let what = if known.is_empty() { "none".to_string() } else { known.join(", ") };
                let name = shortened(name);
                return Err(HttpError::bad_request(
                    "unknown-parameter",
                    format!("{path} has no parameter {name:?}; it takes {what}"),
                ));
            }
            if parameters[..at].iter().any(|(other, _)| other == name) {
                return Err(HttpError::bad_request("bad-parameter", format!("{name} is given twice; give it once")));
            }
        }
        let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).map(String::from);
        Ok(QueryRequest {
            path,
            parameters,
            name: None,
            headers: HeaderMap::new(),
            content_type,
            body: Bytes::new(),
            _body_bytes: None,
        })
    }

    /// Reads the name in the path, percent-decoded.
    pub async fn read_name(&mut self, head: &mut Parts) {
        let name: Result<Path<String>, _> = Path::from_request_parts(head, &()).await;
        self.name = name.ok().map(|Path(name)| name);
    }

    /// The name in the path.
    ///
    /// # Errors
    /// [`HttpError`] where it is no text.
    pub fn name(&self) -> Result<&str, HttpError> {
        let wrong =
            || HttpError::bad_request("bad-path", format!("{} needs the name, percent-encoded UTF-8", self.path));
        self.name.as_deref().ok_or_else(wrong)
    }

    /// The whole question as a key: path, name and parameters, the same in whatever order the parameters came.
    pub fn question(&self) -> String {
        let mut parameters: Vec<String> =
            self.parameters.iter().map(|(name, value)| format!("\n{name}={value}")).collect();
        parameters.sort();
        format!("{}\n{}{}", self.path, self.name.as_deref().unwrap_or_default(), parameters.concat())
    }

    /// The route's path.
    pub fn path(&self) -> &'static str {
        self.path
    }

    /// A parameter that may be absent.
    pub fn given(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// A parameter that the route needs.
    ///
    /// # Errors
    /// [`HttpError`]
    pub fn required(&self, name: &str) -> Result<&str, HttpError> {
        self.given(name).filter(|value| !value.is_empty()).ok_or_else(|| {
            HttpError::bad_request(
                "missing-parameter",
                format!("{} needs the parameter {name}, percent-encoded", self.path),
            )
        })
    }

    /// The limit on rows in the answer, `default` where the request names none.
    ///
    /// # Errors
    /// [`HttpError`] where it is no number, 0, or more than the settings allow.
    pub fn rows(&self, name: &str, default: usize, settings: &Settings) -> Result<usize, HttpError> {
        let Some(given) = self.given(name) else { return Ok(default.min(settings.rows_max)) };
        let rows = given.parse().ok().filter(|rows| (1..=settings.rows_max).contains(rows));
        rows.ok_or_else(|| {
            HttpError::bad_request("bad-parameter", format!("{name} must be a number from 1 to {}", settings.rows_max))
        })
    }

    /// A parameter that is `true` or `false`; false where the request does not name it.
    ///
    /// # Errors
    /// [`HttpError`] where it is anything else.
    pub fn flag(&self, name: &str) -> Result<bool, HttpError> {
        match self.given(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(HttpError::bad_request("bad-parameter", format!("{name} must be true or false"))),
        }
    }

    /// The part of a list that `limit` and `cursor` ask for. `list` is what decides its rows beside the path. An empty
    /// cursor is an error: it comes from a client that takes the end of a list for a page of it.
    ///
    /// # Errors
    /// [`HttpError`]
    pub fn list_request<'a, P: DeserializeOwned>(
        &self,
        settings: &Settings,
        seed: &'a Seed,
        list: &[&'a str],
    ) -> Result<ListRequest<'a, P>, HttpError> {
        let limit = self.rows("limit", ROWS, settings)?;
        let question = [&[self.path()], list].concat();
        let after = self.given("cursor").map(|cursor| cursor::open(seed, &question, cursor)).transpose()?;
        Ok(ListRequest { seed, question, after, limit })
    }
}
