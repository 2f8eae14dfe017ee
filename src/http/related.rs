//! Related pages under `/v1/`: what else is about this? (Haveliwala, Gionis and Indyk 2000.)

use super::answer::{Answer, json};
use super::body;
use super::error::HttpError;
use super::request::{BEST, QueryRequest};
use super::service::Service;
use crate::ports::{RelatedView, Snapshot, Snapshots};
use crate::query::{self, NO_RELATED, NO_RELATED_CLUSTERS, RelatedQuestion, RelatedTo};
use crate::related::SaidReader;

/// `GET /v1/related`
pub(super) fn related_to_url<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    request: &QueryRequest,
) -> Result<Answer, HttpError> {
    let (url, limit, copies) = (request.required("url")?, limit(service, request)?, request.flag("copies")?);
    if !snapshot.has_related() {
        return Err(HttpError::not_found(NO_RELATED));
    }
    let answer = query::related(snapshot, RelatedQuestion::Url(url), limit, copies)?;
    let answer = answer.ok_or_else(|| HttpError::never_said(snapshot, url))?;
    json(snapshot, RelatedTo { of: url, answer })
}

/// `POST /v1/related`
pub(super) fn related_to_body<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    request: &QueryRequest,
) -> Result<Answer, HttpError> {
    let (limit, copies) = (limit(service, request)?, request.flag("copies")?);
    let rule = snapshot.related_rule()?.ok_or_else(|| HttpError::not_found(NO_RELATED))?;
    let page = body::page(request)?;
    // Refuses what every other question about a page refuses.
    body::sketch(service, snapshot, &page)?;
    let said = SaidReader::new(&rule, snapshot.seed()).read(&page).unwrap_or_default();
    let answer = query::related(snapshot, RelatedQuestion::Said(&said), limit, copies)?;
    let answer = answer.ok_or_else(|| {
        HttpError::nothing_to_compare("the page in the body has only words that every page has; nothing to compare")
    })?;
    json(snapshot, answer)
}

/// `GET /v1/related/cluster`
pub(super) fn cluster_of_url<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    request: &QueryRequest,
) -> Result<Answer, HttpError> {
    let (url, limit) = (request.required("url")?, limit(service, request)?);
    if !query::has_related_clusters(snapshot)? {
        return Err(HttpError::not_found(NO_RELATED_CLUSTERS));
    }
    let cluster = query::related_cluster(snapshot, url, limit)?;
    json(snapshot, cluster.ok_or_else(|| HttpError::not_found("the last build found nothing similar to the URL"))?)
}

fn limit<V: Snapshots>(service: &Service<V>, request: &QueryRequest) -> Result<usize, HttpError> {
    request.rows("limit", BEST, &service.settings)
}
