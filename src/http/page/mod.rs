//! The page for people: one URL, its cluster over the sweeps, where it is now, what resembles it, and two copies side by
//! side. Made here, whole: it needs no script, and its policy forbids any.

mod compare;
mod html;
mod timeline;

pub(super) use compare::{compare, compare_texts};

use super::error::HttpError;
use super::request::QueryRequest;
use super::service::{Answer, Service};
use crate::document::DocumentId;
use crate::ports::{Snapshot, Snapshots, StoreError};
use crate::query::{self, ClusterAnswer, FoundPlace, LostAnswer, LostSearch, UrlAnswer};
use crate::sketch::Sketch;
use crate::sweep::{Evidence, Seen};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use html::Html;
use timeline::{Versions, day, timeline};

const HTML: &str = "text/html; charset=utf-8";

/// Documents of a cluster that are looked at, and the newest places of each: a cluster may have a million.
const DOCUMENTS_MAX: usize = 400;
const PLACES_MAX: usize = 40;

/// Answers and versions shown at most.
const FOUND_MAX: usize = 10;
const VERSIONS_MAX: usize = 40;

/// The style sheet.
pub(super) fn style<V: Snapshots>(_: &Service<V>, _: &V::Snapshot, _: &QueryRequest) -> Result<Answer, HttpError> {
    let body = include_str!("style.css");
    Ok(Answer { status: StatusCode::OK, content_type: "text/css; charset=utf-8", body: body.into(), seq: None })
}

/// What is not answered, on a page.
pub(super) fn refuse(refusal: HttpError) -> Response {
    let mut html = Html::default();
    html.raw("<h1>Not answered</h1><p class=\"problem\">").text(&refusal.message).raw("</p>");
    html.raw("<p><a href=\"/\">Begin again</a></p>");
    let status = refusal.status;
    let mut response = (status, whole("Not answered", "", html, Html::default())).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(HTML));
    response
}

/// A whole page around its main part.
fn whole(title: &str, asked: &str, main: Html, foot: Html) -> String {
    let mut html = Html::default();
    html.raw("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    html.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    html.raw("<title>")
        .text(title)
        .raw(" – Lookalike</title><link rel=\"stylesheet\" href=\"/style.css\"></head><body>");
    html.raw("<a class=\"skip\" href=\"#main\">To the answer</a>");
    html.raw("<header><a class=\"name\" href=\"/\">Lookalike</a><form action=\"/\" method=\"get\" role=\"search\">");
    html.raw("<label for=\"url\">URL</label><input id=\"url\" name=\"url\" type=\"text\" inputmode=\"url\" required ");
    html.raw("autocomplete=\"off\" autocapitalize=\"none\" spellcheck=\"false\" placeholder=\"https://…\" value=\"");
    html.text(asked).raw("\"><button>Where else is it?</button></form>");
    html.raw("<nav><a href=\"/compare\">Compare two texts</a></nav></header>");
    html.raw("<main id=\"main\">").html(main).raw("</main><footer>").html(foot);
    html.raw("<a href=\"/v1/openapi.json\">API</a></footer></body></html>\n");
    html.into_string()
}

/// How new the answer is.
fn foot<V: Snapshots>(house: &Service<V>, view: &V::Snapshot) -> Html {
    let mut html = Html::default();
    html.text(view.n_documents()).raw(" documents, events to ").text(view.next_seq()).raw(", ");
    let seconds = house.snapshots.staleness().staleness_ms / 1000;
    html.text(format_args!("{seconds}\u{a0}s")).raw(" behind. ");
    html
}

fn page<V: Snapshots>(
    house: &Service<V>,
    view: &V::Snapshot,
    status: StatusCode,
    title: &str,
    asked: &str,
    main: Html,
) -> Answer {
    let body = whole(title, asked, main, foot(house, view)).into();
    Answer { status, content_type: HTML, body, seq: None }
}

/// `/`: the box for a URL, and what is known of the one in it.
pub(super) fn home<V: Snapshots>(
    house: &Service<V>,
    view: &V::Snapshot,
    asked: &QueryRequest,
) -> Result<Answer, HttpError> {
    let url = asked.given("url").unwrap_or("").trim();
    let mut html = Html::default();
    if url.is_empty() {
        welcome(&mut html, view)?;
        return Ok(page(house, view, StatusCode::OK, "Where else is it?", "", html));
    }
    let history = query::url(view, url)?;
    html.raw("<h1>").url(url).raw("</h1>");
    if history.sightings.is_empty() {
        html.raw("<p class=\"problem\">It was never seen here. URLs are compared byte by byte: with or without ");
        html.raw("<code>www.</code>, a slash at the end, <code>https</code> – each is another one.</p>");
        return Ok(page(house, view, StatusCode::NOT_FOUND, url, url, html));
    }
    let search = LostSearch { ranking: house.ranking.clone(), limit: FOUND_MAX + 1 };
    let lost = query::lost(view, url, &search)?;
    let newest = history.sightings.iter().rev().find_map(|sighting| sighting.moment.seen.document());
    let glance = |document| query::cluster_glance(view, document, DOCUMENTS_MAX, PLACES_MAX);
    now(&mut html, &history, &lost);
    if let Some(document) = newest {
        let cluster = glance(document)?;
        let versions = Versions::of(&cluster);
        html.raw("<section aria-labelledby=\"over-time\"><h2 id=\"over-time\">Over the sweeps</h2>");
        html.raw("<p class=\"note\">Each letter is one version of the text; the same letter is the same text.</p>");
        timeline(&mut html, view, &cluster, &versions, url)?;
        html.raw("</section>");
        resembling(&mut html, view, &cluster, &versions, document)?;
    }
    Ok(page(house, view, StatusCode::OK, url, url, html))
}

fn welcome(html: &mut Html, view: &impl Snapshot) -> Result<(), StoreError> {
    html.raw("<h1>Where else is this page?</h1>");
    html.raw("<p>Give a URL that was crawled. You get its copies and versions over the sweeps, where it is now, ");
    html.raw("and the pages that resemble it.</p>");
    let (examples, _) = query::export_page(view, None, 200)?;
    let last = examples.iter().max_by_key(|row| (row.cluster.0 != row.document.0, row.fetched_at));
    if let Some(example) = last {
        html.raw("<p>For example: ").link(&example.url).raw("</p>");
    }
    Ok(())
}

/// Where the content of a URL is now.
fn now(html: &mut Html, history: &UrlAnswer, lost: &LostAnswer) {
    html.raw("<section aria-labelledby=\"now\"><h2 id=\"now\">Where it is now</h2>");
    let last = history.sightings.last();
    let is_gone = last.is_some_and(|last| last.moment.seen.document().is_none());
    if let Some(seen) = &lost.last_seen {
        html.raw("<p>Last seen here on <time datetime=\"").text(seen.moment.fetched_at).raw("\">");
        html.text(day(seen.moment.fetched_at)).raw("</time>");
        sweep(html, seen.moment.sweep.as_deref());
        if let Some(gone) = last.filter(|_| is_gone) {
            html.raw("; on ").text(day(gone.moment.fetched_at)).raw(" it was ");
            html.text(if let Seen::Redirect(_) = gone.moment.seen { "redirected" } else { gone.moment.seen.as_str() });
        }
        html.raw(".</p>");
    }
    let elsewhere: Vec<&FoundPlace> = lost.details.iter().filter(|found| found.url != lost.url).collect();
    if elsewhere.is_empty() {
        html.raw("<p>Nothing like it was seen elsewhere since then.</p></section>");
        return;
    }
    html.raw("<p>Since then:</p><ol class=\"found\">");
    for found in elsewhere.iter().take(FOUND_MAX) {
        html.raw("<li>").link(&found.url).raw(" <span class=\"note\">");
        if let Some(seen) = found.last_seen {
            html.text(day(seen));
            sweep(html, found.sweep.as_deref());
            html.raw(", ");
        }
        html.text(known_by(found)).raw("</span></li>");
    }
    html.raw("</ol></section>");
}

/// How a place is known to carry the content, in words.
fn known_by(found: &FoundPlace) -> String {
    let alike = found.resemblance.map(|r| format!(", {:.0}\u{a0}% alike", (r * 100.0).floor())).unwrap_or_default();
    match &found.evidence {
        Evidence::Itself => "the page itself".into(),
        Evidence::Same => "the same text".into(),
        Evidence::Direct => format!("resembles it{alike}"),
        Evidence::Chain { through } if through.len() == 1 => format!("resembles it through one version between{alike}"),
        Evidence::Chain { through } => format!("resembles it through {} versions between{alike}", through.len()),
        Evidence::Cluster => format!("of the same cluster{alike}"),
        Evidence::Redirect { .. } => "redirected there".into(),
    }
}

fn sweep(html: &mut Html, sweep: Option<&str>) {
    if let Some(sweep) = sweep {
        html.raw(", sweep ").text(sweep);
    }
}

/// The versions of a cluster against the one that stands, or last stood, at the URL: two can be chosen.
fn resembling(
    html: &mut Html,
    view: &impl Snapshot,
    cluster: &ClusterAnswer,
    versions: &Versions,
    document: DocumentId,
) -> Result<(), StoreError> {
    let Some(own) = view.document(document)? else { return Ok(()) };
    html.raw("<section aria-labelledby=\"alike\"><h2 id=\"alike\">Pages that resemble it</h2>");
    if versions.len() < 2 {
        html.raw("<p>No other text resembles it. The cluster has one document, number ")
            .text(document)
            .raw(".</p></section>");
        return Ok(());
    }
    html.raw("<form action=\"/compare\" method=\"get\"><div class=\"scroll\"><table class=\"versions\">");
    html.raw("<thead><tr><th scope=\"col\">Version</th><th scope=\"col\">First</th><th scope=\"col\">Second</th>");
    html.raw("<th scope=\"col\">Seen</th><th scope=\"col\">Words</th><th scope=\"col\">Resemblance</th>");
    html.raw("<th scope=\"col\">Where last</th></tr></thead><tbody>");
    let other = versions.newest().map(|(other, ..)| other).find(|other| *other != document);
    for (version, first, last) in versions.newest().take(VERSIONS_MAX) {
        let Some(stored) = view.document(version)? else { continue };
        html.raw("<tr><th scope=\"row\">");
        versions.sign(html, version);
        html.raw("</th>");
        choice(html, "a", "first", version, version == document);
        choice(html, "b", "second", version, Some(version) == other);
        html.raw("<td class=\"when\">").text(day(first));
        if day(first) != day(last) {
            html.raw(" to ").text(day(last));
        }
        html.raw("</td><td class=\"number\">").text(stored.n_words).raw("</td><td>");
        if version == document {
            html.raw("<span class=\"note\">this page</span>");
        } else {
            html.share(likeness(view, &own.sketch, &stored.sketch));
        }
        html.raw("</td><td>");
        let place = cluster.sightings.iter().filter(|sighting| sighting.moment.seen.document() == Some(version));
        if let Some(place) = place.max_by_key(|sighting| sighting.moment.fetched_at) {
            html.link(&place.url);
        }
        html.raw("</td></tr>");
    }
    html.raw("</tbody></table></div><p><button>Compare these two</button>");
    if versions.len() > VERSIONS_MAX {
        html.raw(" <span class=\"note\">")
            .text(versions.len() - VERSIONS_MAX)
            .raw(" older versions are not shown</span>");
    }
    html.raw("</p></form></section>");
    Ok(())
}

fn choice(html: &mut Html, name: &'static str, place: &'static str, version: DocumentId, is_chosen: bool) {
    html.raw("<td class=\"choice\"><input type=\"radio\" name=\"").raw(name).raw("\" value=\"").text(version);
    html.raw("\" aria-label=\"document ").text(version).raw(" as the ").raw(place).raw("\"");
    html.raw(if is_chosen { " checked>" } else { ">" }).raw("</td>");
}

fn likeness(view: &impl Snapshot, a: &Sketch, b: &Sketch) -> f64 {
    query::compare_sketches(a, b, view.rule().sketch.rule).resemblance
}
