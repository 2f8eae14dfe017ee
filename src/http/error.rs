//! Why a request is not answered: a status, a word that does not change, and what to do.

use crate::ports::StoreError;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// A request that is not answered.
#[derive(Clone, Debug)]
pub(super) struct HttpError {
    pub status: StatusCode,
    /// For programs.
    pub error: &'static str,
    /// For people: what is wrong and what to do.
    pub message: String,
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    error: &'a str,
    message: &'a str,
}

impl HttpError {
    pub fn new(status: StatusCode, error: &'static str, message: impl Into<String>) -> Self {
        HttpError { status, error, message: message.into() }
    }

    /// The request is wrong.
    pub fn wrong(error: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, error, message)
    }

    /// The store does not know what was asked for.
    pub fn unknown(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not-found", message)
    }

    /// There is no room now.
    pub fn busy(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message)
    }
}

impl From<StoreError> for HttpError {
    fn from(error: StoreError) -> Self {
        // Where the store lies and what fails in it is the operator's business, who has the log.
        tracing::error!("a question to the store failed: {error}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "store", "the store could not be read; the log says why")
    }
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        let told = ErrorBody { error: self.error, message: &self.message };
        let body = serde_json::to_vec(&told).unwrap_or_default();
        let mut response = (self.status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
