//! A request as the routes see it: parameters and body, checked for what all have in common.

use super::error::HttpError;
use super::settings::Settings;
use axum::body::Bytes;
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri, header};
use tokio::sync::OwnedSemaphorePermit;

/// What was asked.
pub(super) struct QueryRequest {
    path: &'static str,
    parameters: Vec<(String, String)>,
    /// What stands in the path where the route leaves a place for a name.
    name: Option<String>,
    /// Those of a request that changes something; else none.
    pub headers: HeaderMap,
    /// How the body is to be read.
    pub content_type: Option<String>,
    /// The body; empty in a GET.
    pub body: Bytes,
    /// The body's share of what all may take; given back when the question is answered.
    pub _room: Option<OwnedSemaphorePermit>,
}

impl QueryRequest {
    /// Takes a request's head apart. A parameter that the route does not know, or one given twice, is refused: it would
    /// be misspelt more often than meant.
    ///
    /// # Errors
    /// [`HttpError`]
    pub fn parse(path: &'static str, known: &[&str], uri: &Uri, headers: &HeaderMap) -> Result<Self, HttpError> {
        let Query(parameters) = Query::<Vec<(String, String)>>::try_from_uri(uri).map_err(|error| {
            HttpError::wrong("bad-parameter", format!("the part of the URL after `?` cannot be read: {error}"))
        })?;
        for (at, (name, _)) in parameters.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                let what = if known.is_empty() { "none".to_string() } else { known.join(", ") };
                let name: String = name.chars().take(64).collect();
                return Err(HttpError::wrong(
                    "unknown-parameter",
                    format!("{path} knows no parameter {name:?}; it takes {what}"),
                ));
            }
            if parameters[..at].iter().any(|(other, _)| other == name) {
                return Err(HttpError::wrong("bad-parameter", format!("{name} is given twice; give it once")));
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
            _room: None,
        })
    }

    /// Reads the name in the path, percent-decoded.
    pub async fn read_name(&mut self, head: &mut Parts) {
        let name: Result<Path<String>, _> = Path::from_request_parts(head, &()).await;
        self.name = name.ok().map(|Path(name)| name);
    }

    /// The name in the path, which must be there.
    ///
    /// # Errors
    /// [`HttpError`] where it is not text.
    pub fn in_path(&self) -> Result<&str, HttpError> {
        let wrong = || HttpError::wrong("bad-path", format!("{} needs the name, percent-encoded UTF-8", self.path));
        self.name.as_deref().ok_or_else(wrong)
    }

    /// The question whole, as a key: path and parameters, whatever order they came in.
    pub fn question(&self) -> String {
        let mut parameters: Vec<String> =
            self.parameters.iter().map(|(name, value)| format!("\n{name}={value}")).collect();
        parameters.sort();
        self.path.to_string() + &parameters.concat()
    }

    /// The route's path.
    pub fn path(&self) -> &'static str {
        self.path
    }

    /// A parameter that may be absent.
    pub fn given(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// A parameter that must be there.
    ///
    /// # Errors
    /// [`HttpError`]
    pub fn needed(&self, name: &str) -> Result<&str, HttpError> {
        self.given(name).filter(|value| !value.is_empty()).ok_or_else(|| {
            HttpError::wrong("missing-parameter", format!("{} needs the parameter {name}, percent-encoded", self.path))
        })
    }

    /// How many rows are wanted at most, `usual` where the request does not say.
    ///
    /// # Errors
    /// [`HttpError`] where it is no number, 0, or more than the settings allow.
    pub fn rows(&self, name: &str, usual: usize, settings: &Settings) -> Result<usize, HttpError> {
        let Some(given) = self.given(name) else { return Ok(usual.min(settings.rows_max)) };
        let rows = given.parse().ok().filter(|rows| (1..=settings.rows_max).contains(rows));
        rows.ok_or_else(|| {
            HttpError::wrong("bad-parameter", format!("{name} must be a number from 1 to {}", settings.rows_max))
        })
    }
}
