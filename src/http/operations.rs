//! Routes for operators: liveness, readiness, metrics, and the description of the API.

use super::answer::{Answer, JSON, json};
use super::error::HttpError;
use super::request::QueryRequest;
use super::service::Service;
use crate::ports::{Snapshot, Snapshots, Staleness};
use axum::http::StatusCode;
use serde::Serialize;

const TEXT: &str = "text/plain; charset=utf-8";
/// Prometheus' text format.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The description of the API, written by hand; tests compare it with the routes and with their answers.
pub(super) const OPENAPI: &str = include_str!("openapi.json");

/// `/healthz`: the process answers.
pub(super) fn health<V: Snapshots>(_: &Service<V>, _: &V::Snapshot, _: &QueryRequest) -> Result<Answer, HttpError> {
    Ok(Answer::new(TEXT, "ok\n"))
}

#[derive(Serialize)]
struct Ready {
    ready: bool,
    #[serde(flatten)]
    staleness: Staleness,
}

/// `/readyz`: whether the snapshot is new enough.
pub(super) fn ready<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    _: &QueryRequest,
) -> Result<Answer, HttpError> {
    let mut staleness = service.snapshots.staleness();
    if !service.admission.access.is_open() {
        // It names the store's place, and anybody may ask here.
        staleness.problem = staleness.problem.map(|_| "the server's log says why".into());
    }
    let ready = staleness.staleness_ms <= service.settings.staleness_ms_max;
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok(Answer { status, ..json(snapshot, Ready { ready, staleness })? })
}

/// `/metrics`: the counters of the process.
pub(super) fn metrics<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    _: &QueryRequest,
) -> Result<Answer, HttpError> {
    let staleness = service.snapshots.staleness();
    metrics::gauge!("lookalike_http_staleness_seconds").set(staleness.staleness_ms as f64 / 1e3);
    metrics::gauge!("lookalike_http_seq").set(snapshot.next_seq() as f64);
    Ok(Answer::new(METRICS, service.metrics()))
}

/// `/v1/openapi.json`: the description of the API.
pub(super) fn openapi<V: Snapshots>(_: &Service<V>, _: &V::Snapshot, _: &QueryRequest) -> Result<Answer, HttpError> {
    Ok(Answer::new(JSON, OPENAPI))
}
