//! The paper's applications under `/v1/` (Broder 1997, section 1.1): grouped search results, and text reuse.

use super::answer::{Answer, json};
use super::body;
use super::cursor::ListRequest;
use super::error::HttpError;
use super::request::QueryRequest;
use super::service::Service;
use crate::document::DocumentId;
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

/// Where a row stands: the document whose text it carries, none for that of a body; its host and its URL.
type Position = (Option<DocumentId>, String, String);

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
    let list = list_request(service, snapshot, request, url)?;
    let found = match list.after {
        // The URL may have another page by now: the list goes on with the text that it began with.
        Some((Some(document), ..)) if query::has_document(snapshot, document)? => {
            snapshot.document(document)?.map(|stored| (document, stored))
        }
        Some(_) => {
            let message = "the text of this list was forgotten; leave the cursor out to start again";
            return Err(HttpError::not_found(message));
        }
        None => query::document_at(snapshot, url)?,
    };
    let (document, stored) = found.ok_or_else(|| HttpError::no_page(snapshot, url))?;
    if stored.n_words == 0 {
        return Err(HttpError::nothing_to_compare("the page last seen at this URL has no words; nothing to compare"));
    }
    let hosts = query::reuse_of_document(snapshot, (document, &stored), threshold)?;
    reuse(snapshot, &list, Some(document), hosts)
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
    reuse(snapshot, &list_request(service, snapshot, request, &text)?, None, hosts)
}

/// The part that is asked for of the list of the pages that carry a text.
fn list_request<'a, V: Snapshots>(
    service: &Service<V>,
    snapshot: &'a V::Snapshot,
    request: &'a QueryRequest,
    text: &'a str,
) -> Result<ListRequest<'a, Position>, HttpError> {
    let of = [text, request.given("threshold").unwrap_or("")];
    request.list_request(&service.settings, snapshot.seed(), &of)
}

/// One page of the rows, by host and URL: an order by shares would change while the store grows.
fn reuse(
    snapshot: &impl Snapshot,
    list: &ListRequest<'_, Position>,
    document: Option<DocumentId>,
    hosts: Vec<HostReuse>,
) -> Result<Answer, HttpError> {
    let mut rows: Vec<(String, ReusedPage)> = hosts
        .into_iter()
        .flat_map(|HostReuse { host, pages }| pages.into_iter().map(move |page| (host.clone(), page)))
        .collect();
    let position = |(host, page): &(String, ReusedPage)| (document, host.clone(), page.url.clone());
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
