//! What those ask who keep the service running: is it alive, is it up to date, what has it counted.

use super::asked::Asked;
use super::house::{Answer, House};
use super::refusal::Refusal;
use super::v1::{JSON, json};
use crate::ports::{Freshness, Snapshot, Views};
use axum::http::StatusCode;
use serde::Serialize;

const TEXT: &str = "text/plain; charset=utf-8";
/// Prometheus' text format.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The process answers.
pub(super) fn health<V: Views>(_: &House<V>, _: &V::View, _: &Asked) -> Result<Answer, Refusal> {
    Ok(Answer { status: StatusCode::OK, content_type: TEXT, body: "ok\n".into(), seq: None })
}

#[derive(Serialize)]
struct Ready {
    ready: bool,
    #[serde(flatten)]
    freshness: Freshness,
}

/// The view is new enough to be asked.
pub(super) fn ready<V: Views>(house: &House<V>, view: &V::View, _: &Asked) -> Result<Answer, Refusal> {
    let freshness = house.views.freshness();
    let ready = freshness.behind_ms <= house.settings.behind_ms_max;
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok(Answer { status, ..json(view, Ready { ready, freshness })? })
}

/// The process' counters.
pub(super) fn metrics<V: Views>(house: &House<V>, view: &V::View, _: &Asked) -> Result<Answer, Refusal> {
    let freshness = house.views.freshness();
    metrics::gauge!("lookalike_http_behind_seconds").set(freshness.behind_ms as f64 / 1e3);
    metrics::gauge!("lookalike_http_seq").set(view.next_seq() as f64);
    Ok(Answer { status: StatusCode::OK, content_type: METRICS, body: house.metrics().into(), seq: None })
}

/// The description of the API.
pub(super) fn openapi<V: Views>(_: &House<V>, _: &V::View, _: &Asked) -> Result<Answer, Refusal> {
    Ok(Answer { status: StatusCode::OK, content_type: JSON, body: super::routes::OPENAPI.into(), seq: None })
}
