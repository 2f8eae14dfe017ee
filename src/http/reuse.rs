//! The paper's applications under `/v1/` (Broder 1997, section 1.1): grouped search results, and text reuse.

use super::answer::{Answer, json};
use super::body;
use super::error::HttpError;
use super::request::QueryRequest;
use super::service::Service;
use crate::ports::{Snapshot, Snapshots};
use crate::query::{self, Group, HostReuse, ReusedPage};
use serde::Serialize;

/// The resemblance or containment from which on a page carries a text, where the request names none.
pub(super) const THRESHOLD: f64 = 0.5;

#[derive(Serialize)]
struct Groups {
    groups: Vec<Group>,
}

/// `POST /v1/group`
pub(super) fn group<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    request: &QueryRequest,
) -> Result<Answer, HttpError> {
    json(snapshot, Groups { groups: query::group(snapshot, &body::urls(service, request)?)? })
}

/// A page of the URLs that carry a text, and the cursor of the next.
#[derive(Serialize)]
struct ReuseRows {
    hosts: Vec<HostReuse>,
    next: Option<String>,
}

/// `GET /v1/reuse`
pub(super) fn reuse_of_url<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    request: &QueryRequest,
) -> Result<Answer, HttpError> {
    let (url, threshold) = (request.required("url")?, threshold(request)?);
    let document = query::document_at(snapshot, url)?.ok_or_else(|| HttpError::never_seen(snapshot, url))?;
    if document.n_words == 0 {
        return Err(HttpError::nothing_to_compare("the page last seen at this URL has no words; nothing to compare"));
    }
    let hosts = query::reuse_of_url(snapshot, url, threshold)?.unwrap_or_default();
    reuse(service, snapshot, request, url, hosts)
}

/// `POST /v1/reuse`
pub(super) fn reuse_of_body<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    request: &QueryRequest,
) -> Result<Answer, HttpError> {
    let (threshold, content) = (threshold(request)?, body::sketch(service, snapshot, &body::page(request)?)?);
    let hosts = query::reuse_of_content(snapshot, &content, threshold)?;
    let text = format!("{:032x}", snapshot.seed().fingerprint("http-body", &[&request.body]).0);
    reuse(service, snapshot, request, &text, hosts)
}

/// One page of the rows, by host and URL: an order by shares would change while the store grows.
fn reuse<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    request: &QueryRequest,
    text: &str,
    hosts: Vec<HostReuse>,
) -> Result<Answer, HttpError> {
    let of = [text, request.given("threshold").unwrap_or("")];
    let list = request.list_request(&service.settings, snapshot.seed(), &of)?;
    let mut rows: Vec<(String, ReusedPage)> = hosts
        .into_iter()
        .flat_map(|HostReuse { host, pages }| pages.into_iter().map(move |page| (host.clone(), page)))
        .collect();
    let position = |(host, page): &(String, ReusedPage)| (host.clone(), page.url.clone());
    rows.sort_by_cached_key(position);
    let (rows, next) = list.part_of(rows, position);
    let mut hosts: Vec<HostReuse> = Vec::new();
    for (host, page) in rows {
        match hosts.last_mut().filter(|last| last.host == host) {
            Some(last) => last.pages.push(page),
            None => hosts.push(HostReuse { host, pages: vec![page] }),
        }
    }
    json(snapshot, ReuseRows { hosts, next })
}

fn threshold(request: &QueryRequest) -> Result<f64, HttpError> {
    let Some(given) = request.given("threshold") else { return Ok(THRESHOLD) };
    let threshold = given.parse().ok().filter(|threshold| (0.0..=1.0).contains(threshold));
    threshold.ok_or_else(|| HttpError::bad_request("bad-parameter", "threshold must be a number from 0 to 1"))
}
