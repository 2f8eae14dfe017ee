//! `/`: a URL, where it is now, its cluster over the sweeps, the pages that resemble it, and those about the same.

use super::super::answer::Answer;
use super::super::error::HttpError;
use super::super::request::QueryRequest;
use super::super::service::Service;
use super::frame::{near_urls, page};
use super::html::Html;
use super::related::RelatedPages;
use super::timeline::{Versions, day, timeline};
use crate::document::DocumentId;
use crate::ports::{Snapshot, Snapshots, StoreError, StoredDocument};
use crate::query::{self, ClusterAnswer, FormerPlace, FoundPlace, LostAnswer, LostSearch, UrlAnswer};
use crate::sweep::{Evidence, Observation, Seen};
use axum::http::StatusCode;

/// Documents of a cluster that are read, and the newest places of each: a cluster may have a million.
const DOCUMENTS_MAX: usize = 400;
const PLACES_MAX: usize = 40;

/// Places and versions shown.
const FOUND_MAX: usize = 10;
const VERSIONS_MAX: usize = 40;

/// Rows looked through for an example to start with.
const EXAMPLES_MAX: usize = 200;

/// `/`: the box for a URL, and what the store knows of the one in it.
pub(in super::super) fn home<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    request: &QueryRequest,
) -> Result<Answer, HttpError> {
    let url = request.given("url").unwrap_or("").trim();
    let mut html = Html::default();
    if url.is_empty() {
        welcome(&mut html, snapshot)?;
        return Ok(page(service, snapshot, StatusCode::OK, "Where else is this page?", "", html));
    }
    let (history, related) = (query::url(snapshot, url)?, RelatedPages::of_url(snapshot, url)?);
    html.raw("<h1>").url(url).raw("</h1>");
    if history.sightings.is_empty() && related.is_known() {
        html.raw("<p>This URL was never seen, but other pages link to it.</p>");
        related.show(&mut html);
        return Ok(page(service, snapshot, StatusCode::OK, url, url, html));
    }
    if history.sightings.is_empty() {
        html.raw("<p class=\"problem\">This URL was never seen. URLs are compared byte by byte.</p>");
        near_urls(&mut html, &query::near_urls(snapshot, url)?);
        return Ok(page(service, snapshot, StatusCode::NOT_FOUND, url, url, html));
    }
    let search = LostSearch { ranking: service.ranking.clone(), limit: FOUND_MAX + 1 };
    let lost = query::lost(snapshot, url, &search)?;
    now(&mut html, &history, &lost);
    let newest = history.sightings.iter().rev().find_map(|sighting| sighting.moment.seen.document());
    if let Some(document) = newest {
        let cluster = query::cluster_glance(snapshot, document, DOCUMENTS_MAX, PLACES_MAX)?;
        let versions = Versions::new(&cluster);
        html.raw("<section aria-labelledby=\"over-time\"><h2 id=\"over-time\">Over the sweeps</h2>");
        html.raw("<p class=\"note\">Each letter is one version of the text. The same letter is the same text.</p>");
        timeline(&mut html, snapshot, &cluster, &versions, url)?;
        html.raw("</section>");
        resembling(&mut html, snapshot, &cluster, &versions, document)?;
    }
    related.show(&mut html);
    Ok(page(service, snapshot, StatusCode::OK, url, url, html))
}

fn welcome(html: &mut Html, snapshot: &impl Snapshot) -> Result<(), StoreError> {
    html.raw("<div class=\"welcome\"><h1>Where else is this page?</h1>");
    html.raw(
        "<p>Type a URL that was crawled, in the box above. You get its copies and versions over the sweeps, where it ",
    );
    html.raw("is now, and the pages that resemble it.</p>");
    let (examples, _) = query::export_page(snapshot, None, EXAMPLES_MAX)?;
    let last = examples.iter().max_by_key(|row| (row.cluster.0 != row.document.0, row.fetched_at));
    if let Some(example) = last {
        html.raw("<p>For example: ").link(&example.url).raw("</p>");
    }
    html.raw("</div>");
    Ok(())
}

/// Where the content of a URL is now.
fn now(html: &mut Html, history: &UrlAnswer, lost: &LostAnswer) {
    html.raw("<section aria-labelledby=\"now\"><h2 id=\"now\">Where it is now</h2>");
    let last = history.sightings.last();
    let gone = last.filter(|last| last.moment.seen.document().is_none());
    if let Some(seen) = &lost.last_seen {
        html.raw("<p class=\"state\">");
        html.raw(if lost.still_stands() {
            "<span class=\"good\">Still here</span>, last seen on "
        } else {
            "Last seen here on "
        });
        html.raw("<time datetime=\"").text(seen.moment.fetched_at).raw("\">").text(day(seen.moment.fetched_at));
        html.raw("</time>");
        sweep(html, seen.moment.sweep.as_deref());
        if let Some(gone) = gone {
            html.raw("; ").text(end(&gone.moment, ""));
        }
        html.raw(".</p>");
    }
    let elsewhere: Vec<&FoundPlace> = lost.details.iter().filter(|found| found.url != lost.url).collect();
    if !elsewhere.is_empty() {
        html.raw(if lost.still_stands() { "<p>Seen elsewhere since then:</p>" } else { "<p>Now at:</p>" });
        places_now(html, &elsewhere);
    } else if !lost.former_places.is_empty() && !lost.still_stands() {
        former_places(html, &lost.former_places);
    } else if !lost.still_stands() {
        html.raw("<p>Nothing like it was seen elsewhere since then.</p>");
    }
    html.raw("</section>");
}

fn places_now(html: &mut Html, places: &[&FoundPlace]) {
    html.raw("<ol class=\"found\">");
    for found in places.iter().take(FOUND_MAX) {
        html.raw("<li>").link(&found.url).raw(" <span class=\"note\">");
        if let Some(seen) = found.last_seen {
            html.text(day(seen));
            sweep(html, found.sweep.as_deref());
            html.raw(", ");
        }
        html.text(evidence(found)).raw("</span></li>");
    }
    html.raw("</ol>");
}

fn former_places(html: &mut Html, places: &[FormerPlace]) {
    html.raw("<p>It moved, and is lost there, too:</p><ol class=\"found former\">");
    for place in places {
        html.raw("<li>was at ").link(&place.url).raw(" <span class=\"note\">on ").text(day(place.last_seen));
        sweep(html, place.sweep.as_deref());
        html.raw("; ").text(end(&place.newest, " there")).raw("</span></li>");
    }
    html.raw("</ol>");
}

/// What ended the time of a page at its URL, or `there`.
fn end(newest: &Observation, there: &str) -> String {
    let day = day(newest.fetched_at);
    match (&newest.seen, &newest.sweep) {
        (Seen::Lost, Some(sweep)) => format!("lost{there} in sweep {sweep}"),
        (Seen::Lost, None) => format!("lost{there} on {day}"),
        (Seen::Gone, _) => format!("gone{there} on {day}"),
        (Seen::Redirect(target), _) => format!("redirected to {target} on {day}"),
        (Seen::Document(_), _) => format!("another page{there} on {day}"),
    }
}

/// How a place is known to carry the content, in words.
fn evidence(found: &FoundPlace) -> String {
    let alike = found.resemblance.map(|r| format!(", {:.0}\u{a0}% alike", (r * 100.0).floor())).unwrap_or_default();
    match &found.evidence {
        Evidence::Itself => "the page itself".into(),
        Evidence::Same => "the same text".into(),
        Evidence::Direct => format!("resembles it{alike}"),
        Evidence::Chain { through } if through.len() == 1 => format!("resembles it through one version between{alike}"),
        Evidence::Chain { through } => format!("resembles it through {} versions between{alike}", through.len()),
        Evidence::Cluster => format!("in the same cluster{alike}"),
        Evidence::Redirect { .. } => "by a redirect".into(),
    }
}

fn sweep(html: &mut Html, sweep: Option<&str>) {
    if let Some(sweep) = sweep {
        html.raw(", sweep ").text(sweep);
    }
}

/// The versions of a cluster against the one that stands, or last stood, at the URL; a person chooses two.
fn resembling(
    html: &mut Html,
    snapshot: &impl Snapshot,
    cluster: &ClusterAnswer,
    versions: &Versions,
    document: DocumentId,
) -> Result<(), StoreError> {
    let Some(own) = snapshot.document(document)? else { return Ok(()) };
    html.raw("<section aria-labelledby=\"alike\"><h2 id=\"alike\">Pages that resemble it</h2>");
    if versions.len() < 2 {
        html.raw("<p>No other text resembles it. Its cluster has one document, number ").text(document);
        html.raw(".</p></section>");
        return Ok(());
    }
    html.raw("<form action=\"/compare\" method=\"get\"><div class=\"scroll\"><table class=\"versions\">");
    html.raw("<thead><tr><th scope=\"col\">Version</th><th scope=\"col\">First</th><th scope=\"col\">Second</th>");
    html.raw("<th scope=\"col\">Seen</th><th scope=\"col\">Words</th><th scope=\"col\">Resemblance</th>");
    html.raw("<th scope=\"col\">Where last</th></tr></thead><tbody>");
    let other = versions.newest().map(|(other, ..)| other).find(|other| *other != document);
    for (version, first, last) in versions.newest().take(VERSIONS_MAX) {
        let Some(stored) = snapshot.document(version)? else { continue };
        html.raw("<tr><th scope=\"row\">");
        versions.sign(html, version);
        html.raw("</th>");
        choice(html, "a", "first", version, version == document);
        choice(html, "b", "second", version, Some(version) == other);
        html.raw("<td class=\"when\">").text(day(first));
        if day(first) != day(last) {
            html.raw(" to ").text(day(last));
        }
        html.raw("</td><td class=\"number\">").number(u64::from(stored.n_words)).raw("</td><td>");
        if version == document {
            html.raw("<span class=\"note\">this page</span>");
        } else {
            resemblance(html, snapshot, &own, &stored);
        }
        html.raw("</td><td>");
        let place = cluster.sightings.iter().filter(|sighting| sighting.moment.seen.document() == Some(version));
        if let Some(place) = place.max_by_key(|sighting| sighting.moment.fetched_at) {
            html.link(&place.url);
        }
        html.raw("</td></tr>");
    }
    html.raw("</tbody></table></div><p><button>Compare these two</button> ");
    html.raw("<button class=\"second\" formaction=\"/explain\">Why are they together?</button>");
    if versions.len() > VERSIONS_MAX {
        let n_more = versions.len() - VERSIONS_MAX;
        html.raw(" <span class=\"note\">").text(n_more).raw(" older versions are not shown</span>");
    }
    html.raw("</p></form></section>");
    Ok(())
}

fn resemblance(html: &mut Html, snapshot: &impl Snapshot, a: &StoredDocument, b: &StoredDocument) {
    if a.sketch.n_shingles == 0 || b.sketch.n_shingles == 0 {
        html.raw("<span class=\"note\">too short to compare</span>");
        return;
    }
    html.share(query::compare_sketches(&a.sketch, &b.sketch, snapshot.rule().sketch.rule).resemblance);
}

fn choice(html: &mut Html, name: &'static str, place: &'static str, version: DocumentId, is_chosen: bool) {
    html.raw("<td class=\"choice\"><input type=\"radio\" name=\"").raw(name).raw("\" value=\"").text(version);
    html.raw("\" aria-label=\"document ").text(version).raw(" as the ").raw(place).raw("\"");
    html.raw(if is_chosen { " checked>" } else { ">" }).raw("</td>");
}
