//! The paper's applications under `/v1/` (Broder 1997, section 1.1): search results, distributed text, how pages change.

use super::cursor;
use super::error::HttpError;
use super::request::QueryRequest;
use super::service::{Answer, Service};
use super::v1::{ROWS, json, never_seen, sketch_body, urls};
use crate::ports::{Snapshot, Snapshots};
use crate::query::{self, By, ChangeRow, Changes, Group, HostReuse, LostSearch, Sweep};
use serde::Serialize;

/// The resemblance or containment from which on a page carries a text, where the request does not say.
const THRESHOLD: f64 = 0.5;

#[derive(Serialize)]
struct Groups {
    groups: Vec<Group>,
}

pub(super) fn group<V: Snapshots>(
    house: &Service<V>,
    view: &V::Snapshot,
    asked: &QueryRequest,
) -> Result<Answer, HttpError> {
    json(view, Groups { groups: query::group(view, &urls(house, asked)?)? })
}

/// A page of the URLs that carry a text, and the cursor of the next.
#[derive(Serialize)]
struct ReuseRows {
    hosts: Vec<HostReuse>,
    next: Option<String>,
}

pub(super) fn reuse_of_url<V: Snapshots>(
    house: &Service<V>,
    view: &V::Snapshot,
    asked: &QueryRequest,
) -> Result<Answer, HttpError> {
    let (url, threshold) = (asked.needed("url")?, threshold(asked)?);
    let hosts = query::reuse_of_url(view, url, threshold)?.ok_or_else(|| never_seen(url))?;
    carriers(house, view, asked, url, hosts)
}

pub(super) fn reuse_of_body<V: Snapshots>(
    house: &Service<V>,
    view: &V::Snapshot,
    asked: &QueryRequest,
) -> Result<Answer, HttpError> {
    let (threshold, content) = (threshold(asked)?, sketch_body(house, view, asked)?);
    let hosts = query::reuse_of_content(view, &content, threshold)?;
    let text = format!("{:032x}", view.seed().fingerprint("http-body", &[&asked.body]).0);
    carriers(house, view, asked, &text, hosts)
}

/// Hosts and URLs come by name: an order by how much they carry would not last while the store grows.
fn carriers<V: Snapshots>(
    house: &Service<V>,
    view: &V::Snapshot,
    asked: &QueryRequest,
    text: &str,
    hosts: Vec<HostReuse>,
) -> Result<Answer, HttpError> {
    let most = asked.rows("limit", ROWS, &house.settings)?;
    let question = [asked.path(), text, asked.given("threshold").unwrap_or("")];
    let after: Option<(String, String)> =
        asked.given("cursor").map(|cursor| cursor::open(view.seed(), &question, cursor)).transpose()?;
    let mut rows: Vec<_> = hosts
        .into_iter()
        .flat_map(|HostReuse { host, carriers }| carriers.into_iter().map(move |carrier| (host.clone(), carrier)))
        .collect();
    let position = |(host, carrier): &(String, query::ReusedPage)| (host.clone(), carrier.url.clone());
    rows.sort_by_cached_key(position);
    let (rows, next) = cursor::page(rows, after.as_ref(), most, position);
    let mut hosts: Vec<HostReuse> = Vec::new();
    for (host, carrier) in rows {
        match hosts.last_mut().filter(|last| last.host == host) {
            Some(last) => last.carriers.push(carrier),
            None => hosts.push(HostReuse { host, carriers: vec![carrier] }),
        }
    }
    let next = next.map(|next| cursor::seal(view.seed(), &question, &next));
    json(view, ReuseRows { hosts, next })
}

fn threshold(asked: &QueryRequest) -> Result<f64, HttpError> {
    let Some(given) = asked.given("threshold") else { return Ok(THRESHOLD) };
    let threshold = given.parse().ok().filter(|threshold| (0.0..=1.0).contains(threshold));
    threshold.ok_or_else(|| HttpError::wrong("bad-parameter", "threshold must be a number from 0 to 1"))
}

/// How the pages of the whole store change.
#[derive(Serialize)]
struct ChangeRows {
    all: ChangeRow,
    rows: Vec<ChangeRow>,
    /// Of which `rows` are the first.
    n_rows: usize,
}

pub(super) fn changes<V: Snapshots>(
    house: &Service<V>,
    view: &V::Snapshot,
    asked: &QueryRequest,
) -> Result<Answer, HttpError> {
    let by = match asked.given("by") {
        None => By::All,
        Some("host") => By::Host,
        Some("sweep") => By::Sweep,
        Some(_) => {
            return Err(HttpError::wrong("bad-parameter", "by must be host or sweep; leave it out for all pages"));
        }
    };
    let search = LostSearch { ranking: house.ranking.clone(), ..LostSearch::default() };
    let Changes { all, mut rows } = query::changes(view, by, &search)?;
    let n_rows = rows.len();
    rows.truncate(house.settings.rows_max);
    json(view, ChangeRows { all, rows, n_rows })
}

/// A page of the sweeps and the cursor of the next.
#[derive(Serialize)]
struct Sweeps {
    sweeps: Vec<Sweep>,
    next: Option<String>,
}

/// By name: when a sweep began may still change.
pub(super) fn sweeps<V: Snapshots>(
    house: &Service<V>,
    view: &V::Snapshot,
    asked: &QueryRequest,
) -> Result<Answer, HttpError> {
    let most = asked.rows("limit", ROWS, &house.settings)?;
    let question = [asked.path()];
    let after: Option<String> =
        asked.given("cursor").map(|cursor| cursor::open(view.seed(), &question, cursor)).transpose()?;
    let mut sweeps = query::sweeps(view)?;
    sweeps.sort_by(|a, b| a.name.cmp(&b.name));
    let (sweeps, next) = cursor::page(sweeps, after.as_ref(), most, |sweep: &Sweep| sweep.name.clone());
    let next = next.map(|next| cursor::seal(view.seed(), &question, &next));
    json(view, Sweeps { sweeps, next })
}
