//! Sweeps under `/v1/`: their list, how pages change from one to the next, and closing one.

use super::answer::{Answer, json, json_at};
use super::error::{HttpError, shortened};
use super::request::QueryRequest;
use super::service::{Service, ms};
use crate::ports::{CloseFailure, ClosingPart, Snapshot, Snapshots};
use crate::query::{self, By, ChangeRow, Changes, LostSearch, Sweep};
use axum::http::StatusCode;
use serde::Serialize;

/// A page of the sweeps, and the cursor of the next.
#[derive(Serialize)]
struct Sweeps {
    sweeps: Vec<Sweep>,
    next: Option<String>,
}

/// `/v1/sweeps`, by name: the date on which a sweep began may still change.
pub(super) fn sweeps<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    request: &QueryRequest,
) -> Result<Answer, HttpError> {
    let list = request.list_request(&service.settings, snapshot.seed(), &[])?;
    let mut sweeps = query::sweeps(snapshot)?;
    sweeps.sort_by(|a, b| a.name.cmp(&b.name));
    let (sweeps, next) = list.part_of(sweeps, |sweep: &Sweep| sweep.name.clone());
    json(snapshot, Sweeps { sweeps, next })
}

/// How the pages of the whole store change.
#[derive(Serialize)]
struct ChangeRows {
    all: ChangeRow,
    /// The first of `n_rows`.
    rows: Vec<ChangeRow>,
    n_rows: usize,
}

/// `/v1/changes`
pub(super) fn changes<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    request: &QueryRequest,
) -> Result<Answer, HttpError> {
    let by = match request.given("by") {
        None => By::All,
        Some("host") => By::Host,
        Some("sweep") => By::Sweep,
        Some(_) => {
            let message = "by must be host or sweep; leave it out for all pages";
            return Err(HttpError::bad_request("bad-parameter", message));
        }
    };
    let search = LostSearch { ranking: service.ranking.clone(), ..LostSearch::default() };
    let Changes { all, mut rows } = query::changes(snapshot, by, &search)?;
    let n_rows = rows.len();
    rows.truncate(service.settings.rows_max);
    json(snapshot, ChangeRows { all, rows, n_rows })
}

/// `POST /v1/sweeps/{name}/close`: the same as `lookalike sweep close`.
pub(super) fn close<V: Snapshots>(
    service: &Service<V>,
    _: &V::Snapshot,
    request: &QueryRequest,
) -> Result<Answer, HttpError> {
    let name = request.name()?;
    // A little less than the answer may take, so that the client learns what goes on.
    let patience = ms(service.settings.response_ms_max) * 9 / 10;
    let closer = service.admission.access.authorize(&request.headers)?;
    let closed = closer.close(name, ClosingPart::Rest, patience);
    let (closed, seq) = closed.map_err(|why| match why {
        CloseFailure::Unknown => {
            HttpError::not_found(format!("there is no sweep {:?}; /v1/sweeps lists them", shortened(name)))
        }
        CloseFailure::Busy => HttpError::busy("too many sweeps wait to be closed; ask again in a second"),
        CloseFailure::Late => HttpError::new(
            StatusCode::GATEWAY_TIMEOUT,
            "slow-answer",
            "closing the sweep takes a while and goes on; /v1/sweeps says when it is closed and how many URLs are lost",
        ),
        CloseFailure::Ended => HttpError::busy(
            "the stream ended and may have closed only a part of the sweep; `lookalike sweep close NAME`, or this request \
             to the next `lookalike run --http-listen`, continues it",
        ),
    })?;
    json_at(seq, closed)
}
