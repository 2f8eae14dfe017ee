//! Why a request fails: a status, a word that never changes, and what to do.

use crate::ports::{Snapshot, StoreError};
use crate::query::{self, near_urls};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// Characters of a client's text that an error message repeats.
const REPEATED_MAX: usize = 256;

/// The word of the error of a request that may not read.
pub(super) const READ_TOKEN: &str = "read-token";

/// Why a request fails.
#[derive(Clone, Debug)]
pub(super) struct HttpError {
    pub status: StatusCode,
    /// For programs.
    pub error: &'static str,
    /// For people: what is wrong and what to do.
    pub message: String,
    /// URLs that the client may have meant.
    pub near_urls: Vec<String>,
    /// The first event that is still kept, where the request asks for one before it.
    pub kept_from: Option<u64>,
    /// Seconds after which the same request may be answered.
    pub retry_after: Option<u64>,
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    error: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    near_urls: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    kept_from: Option<u64>,
}

impl HttpError {
    pub fn new(status: StatusCode, error: &'static str, message: impl Into<String>) -> Self {
        HttpError { status, error, message: message.into(), near_urls: Vec::new(), kept_from: None, retry_after: None }
    }

    /// The request is wrong.
    pub fn bad_request(error: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error, message)
    }

    /// The store does not have what the request names.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", message)
    }

    /// The store does not have this URL; the error names similar ones that it has.
    pub fn never_seen(snapshot: &impl Snapshot, url: &str) -> Self {
        Self::unknown_url(snapshot, url, format!("{} was never seen", shortened(url)))
    }

    /// No page was ever seen at this URL: nothing at all, or only redirects or none.
    pub fn no_page(snapshot: &impl Snapshot, url: &str) -> Self {
        match query::url(snapshot, url) {
            Ok(history) if history.sightings.is_empty() => Self::never_seen(snapshot, url),
            Ok(_) => {
                let url = shortened(url);
                Self::not_found(format!("no page was ever seen at {url}, only redirects or none; /v1/url shows them"))
            }
            Err(error) => error.into(),
        }
    }

    /// Nothing is known of what this URL is about; the error names similar ones that the store has.
    pub fn never_said(snapshot: &impl Snapshot, url: &str) -> Self {
        let url_shown = shortened(url);
        let message = format!("nothing is known about {url_shown}: it has no words, and no page links to it");
        Self::unknown_url(snapshot, url, message)
    }

    fn unknown_url(snapshot: &impl Snapshot, url: &str, message: String) -> Self {
        let near_urls = match near_urls(snapshot, url) {
            Ok(near_urls) => near_urls,
            Err(error) => return error.into(),
        };
        let advice = match near_urls.as_slice() {
            [] => "URLs are compared byte by byte".to_string(),
            [first, ..] => format!("did you mean {}?", shortened(first)),
        };
        HttpError { near_urls, ..Self::not_found(format!("{message}; {advice}")) }
    }

    /// A page or document has no words, so nothing can be like it.
    pub fn nothing_to_compare(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "nothing-to-compare", message)
    }

    /// The server is busy.
    pub fn busy(message: impl Into<String>) -> Self {
        HttpError { retry_after: Some(1), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message) }
    }

    /// The client asks more often than it may.
    pub fn limited(retry_after: u64, message: impl Into<String>) -> Self {
        HttpError { retry_after: Some(retry_after), ..Self::new(StatusCode::TOO_MANY_REQUESTS, "limited", message) }
    }

    /// Adds the headers that an error has in whatever form it is shown. Where a token is missing, one says how it is shown: to
    /// read, a browser may ask for a password; what changes the store takes none.
    pub fn add_headers(&self, headers: &mut HeaderMap) {
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let schemes = if self.error == READ_TOKEN { "Basic realm=\"lookalike\", Bearer" } else { "Bearer" };
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(schemes));
        }
    }

    /// The server is at fault.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", message)
    }
}

/// A client's text, cut so that the answer does not grow with it.
pub(super) fn shortened(text: &str) -> String {
    text.chars().take(REPEATED_MAX).collect()
}

impl From<StoreError> for HttpError {
    fn from(error: StoreError) -> Self {
        // The path of the store, and what fails in it, are the operator's business alone.
        tracing::error!("cannot read the store: {error}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "store", "cannot read the store; the server's log says why")
    }
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        let HttpError { error, message, near_urls, kept_from, .. } = &self;
        let body = ErrorBody { error, message, near_urls, kept_from: *kept_from };
        let body = serde_json::to_vec(&body).unwrap_or_default();
        let mut response = (self.status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        self.add_headers(headers);
        response
    }
}
