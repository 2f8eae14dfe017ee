//! What a route answers with: a status, a body, and the moment of the store that it describes.

use super::error::HttpError;
use crate::ports::Snapshot;
use axum::body::Bytes;
use axum::http::StatusCode;
use serde::Serialize;

pub(super) const JSON: &str = "application/json";

/// What a browser or a proxy may keep of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caching {
    /// Nothing.
    Never,
    /// The whole answer, but it must ask whether it is still the same.
    Revalidate,
    /// The same, where an answer changes without any event: it is made anew and compared.
    Compare,
    /// The whole answer, for an hour: a part of this program.
    Asset,
}

impl Caching {
    pub fn header(self) -> &'static str {
        match self {
            Caching::Never => "no-store",
            Caching::Revalidate | Caching::Compare => "private, no-cache",
            Caching::Asset => "public, max-age=3600",
        }
    }
}

/// What a route answers with.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub status: StatusCode,
    pub content_type: &'static str,
    pub body: Bytes,
    /// The number of the next event of the store that it describes; none: that of the snapshot.
    pub seq: Option<u64>,
}

impl Answer {
    /// An answer that is no JSON.
    pub fn new(content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Answer { status: StatusCode::OK, content_type, body: body.into(), seq: None }
    }
}

/// A JSON object with the number of the next event of the store that it describes.
#[derive(Serialize)]
struct Sequenced<T> {
    seq: u64,
    #[serde(flatten)]
    answer: T,
}

/// The answer of one snapshot, as JSON.
pub(super) fn json(snapshot: &impl Snapshot, answer: impl Serialize) -> Result<Answer, HttpError> {
    json_at(snapshot.next_seq(), answer)
}

/// The same for a store that has advanced past the snapshot.
pub(super) fn json_at(seq: u64, answer: impl Serialize) -> Result<Answer, HttpError> {
    let body = serde_json::to_vec(&Sequenced { seq, answer }).map_err(|error| {
        tracing::error!("cannot write an answer as JSON: {error}");
        HttpError::failed("cannot write the answer; the server's log says why")
    })?;
    Ok(Answer { seq: Some(seq), ..Answer::new(JSON, body) })
}
