//! Look-ups under `/v1/`: the questions of [`query`] in JSON, each with the store's sequence number.

use super::answer::{Answer, json};
use super::body;
use super::error::{HttpError, shortened};
use super::request::{BEST, QueryRequest};
use super::service::{Service, ms};
use crate::document::ClusterId;
use crate::ports::{Snapshot, Snapshots};
use crate::query::{self, ClusterPage, ExportRow, LostAnswer, LostSearch, SimilarDocument, UrlSighting};
use crate::sweep::{Observation, Sighting};
use serde::Serialize;
use std::time::Instant;

/// URLs looked up between two looks at the clock.
const BATCH: usize = 100;

/// A page of a URL's history, and the cursor of the next.
#[derive(Serialize)]
struct UrlRows {
    url: String,
    sightings: Vec<UrlSighting>,
    next: Option<String>,
}

/// `GET /v1/url`
pub(super) fn url<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    request: &QueryRequest,
) -> Result<Answer, HttpError> {
    let url = request.required("url")?;
    let list = request.list_request::<Observation>(&service.settings, snapshot.seed(), &[url])?;
    let mut answer = query::url(snapshot, url)?;
    if answer.sightings.is_empty() {
        return Err(HttpError::never_seen(snapshot, url));
    }
    answer.sightings.sort_by(|a, b| a.moment.cmp(&b.moment));
    let (sightings, next) = list.part_of(answer.sightings, |row: &UrlSighting| row.moment.clone());
    json(snapshot, UrlRows { url: answer.url, sightings, next })
}

/// A page of a cluster, and the cursor of the next.
#[derive(Serialize)]
struct ClusterRows {
    #[serde(flatten)]
    page: ClusterPage,
    next: Option<String>,
}

/// `GET /v1/cluster`
pub(super) fn cluster<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    request: &QueryRequest,
) -> Result<Answer, HttpError> {
    let of = request.required("of")?;
    let list = request.list_request::<Sighting>(&service.settings, snapshot.seed(), &[of])?;
    let id = match list.after.as_ref().and_then(|after| after.moment.seen.document()) {
        // The URL may have a page of another cluster by now: the list goes on in the one that it began in.
        Some(document) if query::has_document(snapshot, document)? => Some(ClusterId(document.0)),
        _ => query::named_cluster(snapshot, of)?,
    };
    let page = match id {
        Some(id) => query::cluster_page(snapshot, id, list.after.as_ref(), list.limit)?,
        None => None,
    };
    let page = page.ok_or_else(|| {
        let of = shortened(of);
        HttpError::not_found(format!("there is no cluster of {of}; name a document's number or a URL that was seen"))
    })?;
    let next = list.cursor(page.sightings.last().filter(|_| page.has_more));
    json(snapshot, ClusterRows { page, next })
}

/// `GET /v1/lost`
pub(super) fn lost<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    request: &QueryRequest,
) -> Result<Answer, HttpError> {
    let url = request.required("url")?;
    let answer = query::lost(snapshot, url, &search(service, request)?)?;
    if answer.newest.is_none() {
        return Err(HttpError::never_seen(snapshot, url));
    }
    json(snapshot, answer)
}

fn search<V: Snapshots>(service: &Service<V>, request: &QueryRequest) -> Result<LostSearch, HttpError> {
    Ok(LostSearch { ranking: service.ranking.clone(), limit: request.rows("limit", BEST, &service.settings)? })
}

#[derive(Serialize)]
struct ManyLost {
    lost: Vec<LostAnswer>,
}

/// `POST /v1/lost`
pub(super) fn lost_many<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    request: &QueryRequest,
) -> Result<Answer, HttpError> {
    let (urls, search) = (body::urls(service, request)?, search(service, request)?);
    let rows_max = BEST * service.settings.rows_max;
    if urls.len() * search.limit > rows_max {
        let message = format!(
            "{} URLs with {} places each are more than {rows_max} rows; ask for less",
            urls.len(),
            search.limit
        );
        return Err(HttpError::bad_request("bad-parameter", message));
    }
    let (begin, mut lost) = (Instant::now(), Vec::new());
    for urls in urls.chunks(BATCH) {
        if begin.elapsed() >= ms(service.settings.response_ms_max) {
            // The client has its 504 already.
            return Err(service.slow());
        }
        query::lost_many(snapshot, urls, &search, |answer| {
            lost.push(answer);
            true
        })?;
    }
    json(snapshot, ManyLost { lost })
}

#[derive(Serialize)]
struct Similar {
    similar: Vec<SimilarDocument>,
}

/// `POST /v1/similar`
pub(super) fn similar<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    request: &QueryRequest,
) -> Result<Answer, HttpError> {
    let limit = request.rows("limit", BEST, &service.settings)?;
    let content = body::sketch(service, snapshot, &body::page(request)?)?;
    json(snapshot, Similar { similar: query::similar(snapshot, &content, limit)? })
}

/// `GET /v1/stats`
pub(super) fn stats<V: Snapshots>(
    _: &Service<V>,
    snapshot: &V::Snapshot,
    _: &QueryRequest,
) -> Result<Answer, HttpError> {
    json(snapshot, query::status(snapshot)?)
}

#[derive(Serialize)]
struct Clusters {
    sightings: Vec<ExportRow>,
    next: Option<String>,
}

/// `GET /v1/clusters`
pub(super) fn clusters<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    request: &QueryRequest,
) -> Result<Answer, HttpError> {
    let list = request.list_request::<Sighting>(&service.settings, snapshot.seed(), &[])?;
    let (sightings, next) = query::export_page(snapshot, list.after.as_ref(), list.limit)?;
    let next = list.cursor(next.as_ref());
    json(snapshot, Clusters { sightings, next })
}
