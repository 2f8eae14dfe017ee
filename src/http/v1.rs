//! The answers under `/v1/`: the questions of [`query`](crate::query) in JSON, each with the store's sequence.

use super::cursor;
use super::error::HttpError;
use super::request::QueryRequest;
use super::service::{Answer, Service, ms};
use crate::document::{Body, Content, FetchTime, MediaType, Page};
use crate::ports::{Snapshot, Snapshots};
use crate::query::{self, ClusterPage, Comparison, ExportRow, LostAnswer, LostSearch, SimilarDocument, UrlSighting};
use crate::sketch::{Sketch, SketchedContent};
use crate::sweep::Sighting;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Instant;

/// Rows in a page, and answers of a ranked list, where the request does not say how many.
pub(super) const ROWS: usize = 100;
const BEST: usize = 10;

/// URLs of one question that are looked up between two looks at the clock.
const URLS_TOGETHER: usize = 100;

pub(super) const JSON: &str = "application/json";

/// An answer, and the number of the next event of the store that it is of.
#[derive(Serialize)]
struct Sequenced<T> {
    seq: u64,
    #[serde(flatten)]
    answer: T,
}

pub(super) fn json(view: &impl Snapshot, answer: impl Serialize) -> Result<Answer, HttpError> {
    json_of(view.next_seq(), answer)
}

/// The same of a store that is further on than the view.
pub(super) fn json_of(seq: u64, answer: impl Serialize) -> Result<Answer, HttpError> {
    let body = serde_json::to_vec(&Sequenced { seq, answer }).map_err(|error| {
        tracing::error!("an answer has no JSON form: {error}");
        HttpError::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", "the answer could not be written; the log says why")
    })?;
    Ok(Answer { status: StatusCode::OK, content_type: JSON, body: body.into(), seq: Some(seq) })
}

/// A page of a URL's history and the cursor of the next.
#[derive(Serialize)]
struct UrlRows {
    url: String,
    sightings: Vec<UrlSighting>,
    /// None: this is the last page.
    next: Option<String>,
}

pub(super) fn url<V: Snapshots>(
    house: &Service<V>,
    view: &V::Snapshot,
    asked: &QueryRequest,
) -> Result<Answer, HttpError> {
    let url = asked.needed("url")?;
    let most = asked.rows("limit", ROWS, &house.settings)?;
    let question = [asked.path(), url];
    let after = asked.given("cursor").map(|cursor| cursor::open(view.seed(), &question, cursor)).transpose()?;
    let mut answer = query::url(view, url)?;
    if answer.sightings.is_empty() {
        return Err(never_seen(url));
    }
    answer.sightings.sort_by(|a, b| a.moment.cmp(&b.moment));
    let (sightings, next) =
        cursor::page(answer.sightings, after.as_ref(), most, |row: &UrlSighting| row.moment.clone());
    let next = next.map(|next| cursor::seal(view.seed(), &question, &next));
    json(view, UrlRows { url: answer.url, sightings, next })
}

pub(super) fn never_seen(url: &str) -> HttpError {
    let url: String = url.chars().take(256).collect();
    HttpError::unknown(format!("{url} was never seen; URLs are compared byte by byte"))
}

/// A page of a cluster and the cursor of the next.
#[derive(Serialize)]
struct ClusterRows {
    #[serde(flatten)]
    page: ClusterPage,
    next: Option<String>,
}

pub(super) fn cluster<V: Snapshots>(
    house: &Service<V>,
    view: &V::Snapshot,
    asked: &QueryRequest,
) -> Result<Answer, HttpError> {
    let of = asked.needed("of")?;
    let most = asked.rows("limit", ROWS, &house.settings)?;
    let question = [asked.path(), of];
    let after: Option<Sighting> =
        asked.given("cursor").map(|cursor| cursor::open(view.seed(), &question, cursor)).transpose()?;
    let page = match query::named_cluster(view, of)? {
        Some(id) => query::cluster_page(view, id, after.as_ref(), most)?,
        None => None,
    };
    let page = page.ok_or_else(|| {
        let of: String = of.chars().take(256).collect();
        HttpError::unknown(format!("there is no cluster of {of}; give a document's number or a URL that was seen"))
    })?;
    let next = page.sightings.last().filter(|_| page.has_more);
    let next = next.map(|next| cursor::seal(view.seed(), &question, next));
    json(view, ClusterRows { page, next })
}

pub(super) fn lost<V: Snapshots>(
    house: &Service<V>,
    view: &V::Snapshot,
    asked: &QueryRequest,
) -> Result<Answer, HttpError> {
    let url = asked.needed("url")?;
    let answer = query::lost(view, url, &search(house, asked)?)?;
    if answer.newest.is_none() {
        return Err(never_seen(url));
    }
    json(view, answer)
}

fn search<V: Snapshots>(house: &Service<V>, asked: &QueryRequest) -> Result<LostSearch, HttpError> {
    Ok(LostSearch { ranking: house.ranking.clone(), limit: asked.rows("limit", BEST, &house.settings)? })
}

/// The body that asks for many URLs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Urls {
    urls: Vec<String>,
}

#[derive(Serialize)]
struct ManyLost {
    lost: Vec<LostAnswer>,
}

pub(super) fn lost_many<V: Snapshots>(
    house: &Service<V>,
    view: &V::Snapshot,
    asked: &QueryRequest,
) -> Result<Answer, HttpError> {
    let (urls, search) = (urls(house, asked)?, search(house, asked)?);
    let most = BEST * house.settings.rows_max;
    if urls.len() * search.limit > most {
        let message =
            format!("{} URLs with {} places each are over {most} rows; ask for less", urls.len(), search.limit);
        return Err(HttpError::wrong("bad-parameter", message));
    }
    let (begin, mut lost) = (Instant::now(), Vec::new());
    for urls in urls.chunks(URLS_TOGETHER) {
        if begin.elapsed() >= ms(house.settings.response_ms_max) {
            // Nobody waits for it any more.
            return Err(house.slow());
        }
        query::lost_many(view, urls, &search, |answer| {
            lost.push(answer);
            true
        })?;
    }
    json(view, ManyLost { lost })
}

pub(super) fn urls<V: Snapshots>(house: &Service<V>, asked: &QueryRequest) -> Result<Vec<String>, HttpError> {
    let Urls { urls } = serde_json::from_slice(&asked.body).map_err(|error| {
        HttpError::wrong("bad-body", format!(r#"the body must be {{"urls": ["http://…", …]}}: {error}"#))
    })?;
    let most = house.settings.rows_max;
    if urls.len() > most {
        return Err(HttpError::wrong(
            "bad-body",
            format!("{} URLs are over http.rows_max = {most}; ask in parts", urls.len()),
        ));
    }
    Ok(urls)
}

#[derive(Serialize)]
struct Similar {
    similar: Vec<SimilarDocument>,
}

pub(super) fn similar<V: Snapshots>(
    house: &Service<V>,
    view: &V::Snapshot,
    asked: &QueryRequest,
) -> Result<Answer, HttpError> {
    let most = asked.rows("limit", BEST, &house.settings)?;
    let content = sketch_body(house, view, asked)?;
    json(view, Similar { similar: query::similar(view, &content, most)? })
}

/// The sketch of a page that is a request's body.
pub(super) fn sketch_body<V: Snapshots>(
    house: &Service<V>,
    view: &V::Snapshot,
    asked: &QueryRequest,
) -> Result<SketchedContent, HttpError> {
    let content_type = asked.content_type.as_deref().unwrap_or("");
    let (media_type, charset) = MediaType::parse(content_type).ok_or_else(|| {
        let content_type: String = content_type.chars().take(64).collect();
        HttpError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "media-type",
            format!("{content_type} is no text; send the page itself with content-type text/html or text/plain"),
        )
    })?;
    let body = Body::Bytes { bytes: asked.body.to_vec(), charset };
    let content = Content::Body { media_type, body };
    let page = Page { url: String::new(), fetched_at: FetchTime(0), sweep: None, content };
    match house.sketch(view, |sketcher| sketcher.sketch_page(&page, house.limits.words_max)) {
        Ok(Some(content)) => Ok(content),
        Ok(None) => Err(HttpError::wrong("bad-body", "the body is empty; send a page")),
        Err(why) => Err(HttpError::new(StatusCode::UNPROCESSABLE_ENTITY, "no-sketch", why.to_string())),
    }
}

#[derive(Serialize)]
struct Compared<'a> {
    a: &'a str,
    b: &'a str,
    #[serde(flatten)]
    comparison: Comparison,
}

pub(super) fn compare<V: Snapshots>(
    _: &Service<V>,
    view: &V::Snapshot,
    asked: &QueryRequest,
) -> Result<Answer, HttpError> {
    let (a, b) = (asked.needed("a")?, asked.needed("b")?);
    let sketch = |url: &str| -> Result<Arc<Sketch>, HttpError> {
        query::sketch_of_url(view, url)?.ok_or_else(|| never_seen(url))
    };
    let comparison = query::compare_sketches(&*sketch(a)?, &*sketch(b)?, view.rule().sketch.rule);
    json(view, Compared { a, b, comparison })
}

pub(super) fn stats<V: Snapshots>(_: &Service<V>, view: &V::Snapshot, _: &QueryRequest) -> Result<Answer, HttpError> {
    json(view, query::status(view)?)
}

#[derive(Serialize)]
struct Clusters {
    sightings: Vec<ExportRow>,
    next: Option<String>,
}

pub(super) fn clusters<V: Snapshots>(
    house: &Service<V>,
    view: &V::Snapshot,
    asked: &QueryRequest,
) -> Result<Answer, HttpError> {
    let most = asked.rows("limit", ROWS, &house.settings)?;
    let question = [asked.path()];
    let after: Option<Sighting> =
        asked.given("cursor").map(|cursor| cursor::open(view.seed(), &question, cursor)).transpose()?;
    let (sightings, next) = query::export_page(view, after.as_ref(), most)?;
    let next = next.map(|next| cursor::seal(view.seed(), &question, &next));
    json(view, Clusters { sightings, next })
}
