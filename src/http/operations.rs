//! What those ask who keep the service running: is it alive, is it up to date, what has it counted.

use super::error::HttpError;
use super::request::QueryRequest;
use super::service::{Answer, Service};
use super::v1::{JSON, json};
use crate::ports::{Snapshot, Snapshots, Staleness};
use axum::http::StatusCode;
use serde::Serialize;

const TEXT: &str = "text/plain; charset=utf-8";
/// Prometheus' text format.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The process answers.
pub(super) fn health<V: Snapshots>(_: &Service<V>, _: &V::Snapshot, _: &QueryRequest) -> Result<Answer, HttpError> {
    Ok(Answer { status: StatusCode::OK, content_type: TEXT, body: "ok\n".into(), seq: None })
}

#[derive(Serialize)]
struct Ready {
    ready: bool,
    #[serde(flatten)]
    staleness: Staleness,
}

/// The view is new enough to be asked.
pub(super) fn ready<V: Snapshots>(
    house: &Service<V>,
    view: &V::Snapshot,
    _: &QueryRequest,
) -> Result<Answer, HttpError> {
    let staleness = house.snapshots.staleness();
    let ready = staleness.staleness_ms <= house.settings.staleness_ms_max;
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok(Answer { status, ..json(view, Ready { ready, staleness })? })
}

/// The process' counters.
pub(super) fn metrics<V: Snapshots>(
    house: &Service<V>,
    view: &V::Snapshot,
    _: &QueryRequest,
) -> Result<Answer, HttpError> {
    let staleness = house.snapshots.staleness();
    metrics::gauge!("lookalike_http_staleness_seconds").set(staleness.staleness_ms as f64 / 1e3);
    metrics::gauge!("lookalike_http_seq").set(view.next_seq() as f64);
    Ok(Answer { status: StatusCode::OK, content_type: METRICS, body: house.metrics().into(), seq: None })
}

/// The description of the API.
pub(super) fn openapi<V: Snapshots>(_: &Service<V>, _: &V::Snapshot, _: &QueryRequest) -> Result<Answer, HttpError> {
    Ok(Answer { status: StatusCode::OK, content_type: JSON, body: super::routes::OPENAPI.into(), seq: None })
}
