//! The page of a URL: where it is now, its cluster over the sweeps, the pages that resemble it, and those about the same.

use super::super::answer::Answer;
use super::super::error::HttpError;
use super::super::request::QueryRequest;
use super::super::service::Service;
use super::frame::page;
use super::html::{Html, site_and_path};
use super::related::RelatedPages;
use super::sheet::{Format, SightingRow, sheet};
use super::timeline::{Timeline, Versions, Window, day, outside_links};
use crate::document::DocumentId;
use crate::ports::{Snapshot, Snapshots, StoreError, StoredDocument};
use crate::query::{
    self, ClusterAnswer, FormerPlace, FoundPlace, LostAnswer, LostSearch, Sweep, UrlAnswer, UrlSighting,
};
use crate::sweep::{Evidence, Observation, Seen};
use axum::http::StatusCode;
use std::collections::BTreeSet;

/// Documents of a cluster that are read, and their newest sightings, each document's share: a cluster may have a million.
const DOCUMENTS_MAX: usize = 400;
const SIGHTINGS_MAX: usize = 4_000;

/// Places and versions shown.
const FOUND_MAX: usize = 10;
const VERSIONS_MAX: usize = 40;

/// The page of a URL, or its table; none where the store knows nothing about it.
///
/// # Errors
/// [`HttpError`]
pub(super) fn url_page<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    request: &QueryRequest,
    url: &str,
    format: Option<Format>,
) -> Result<Option<Answer>, HttpError> {
    let (history, related) = (query::url(snapshot, url)?, RelatedPages::of_url(snapshot, url)?);
    if history.sightings.is_empty() && !related.is_known() {
        return Ok(None);
    }
    let copy = history.sightings.iter().rev().find(|sighting| sighting.moment.seen.document().is_some());
    let document = copy.and_then(|copy| copy.moment.seen.document());
    if let Some(format) = format {
        return over_time(snapshot, url, document, format).map(Some);
    }
    let mut html = Html::default();
    html.raw("<h1>").url(url).raw("</h1>");
    if history.sightings.is_empty() {
        html.raw("<p>This URL was never seen, but other pages link to it.</p>");
        related.show(&mut html);
        return Ok(Some(page(service, snapshot, StatusCode::OK, url, url, html)));
    }
    let archive_url = service.settings.archive_url.as_str();
    html.raw("<p class=\"links\">");
    outside_links(&mut html, archive_url, url, copy.map(|copy| copy.moment.fetched_at));
    if let Some(document) = document {
        html.raw(" <a href=\"/content?of=");
        // There a number names a document, also where it is a URL.
        match url.parse::<u32>() {
            Ok(_) => html.text(document),
            Err(_) => html.query(url),
        };
        html.raw("\">what counts</a>");
    }
    html.raw(" <a href=\"/v1/url?url=").query(url).raw("\">JSON</a></p>");
    let search = LostSearch { ranking: service.ranking.clone(), limit: FOUND_MAX + 1 };
    let (lost, sweeps) = (query::lost(snapshot, url, &search)?, query::sweeps(snapshot)?);
    now(&mut html, &history, &lost, &sweeps);
    if let Some(document) = document {
        let cluster = query::cluster_glance(snapshot, document, DOCUMENTS_MAX, SIGHTINGS_MAX)?;
        let versions = Versions::new(&cluster);
        html.raw("<section aria-labelledby=\"over-time\"><h2 id=\"over-time\">Over the sweeps</h2>");
        html.raw(
            "<p class=\"note\">The newest sweep first. Each letter is one version of the text; the same letter is the ",
        );
        html.raw("same text. A framed letter leads to what changed there. Cluster ")
            .text(cluster.cluster)
            .raw(", <a href=\"/?format=csv&amp;url=")
            .query(url)
            .raw("\">as CSV</a>, <a href=\"/?format=json&amp;url=")
            .query(url)
            .raw("\">as JSON</a>.</p>");
        let newest_sweep = sweeps.last().map(|sweep| sweep.name.as_str());
        let (cluster, versions, window) = (&cluster, &versions, Window::from_request(request)?);
        Timeline { cluster, versions, own: url, newest_sweep, archive_url, window }.show(&mut html, snapshot)?;
        if cluster.documents.len() == DOCUMENTS_MAX || cluster.sightings.len() >= SIGHTINGS_MAX {
            html.raw("<p class=\"note\">The cluster is large: only a part of it is shown, the newest sightings of ");
            html.count(cluster.documents.len() as u64, "document", "documents").raw(".</p>");
        }
        html.raw("</section>");
        resembling(&mut html, snapshot, cluster, versions, &history, document)?;
        html.raw("<p><a href=\"/reuse?url=").query(url).raw("\">Pages that hold this text or a part of it</a></p>");
    }
    related.show(&mut html);
    Ok(Some(page(service, snapshot, StatusCode::OK, url, url, html)))
}

/// What the page of a URL shows over the sweeps, as a table: all sightings of the URLs of its cluster, or of the part that is
/// shown of a large one.
fn over_time(
    snapshot: &impl Snapshot,
    url: &str,
    document: Option<DocumentId>,
    format: Format,
) -> Result<Answer, HttpError> {
    let mut urls = BTreeSet::from([url.to_string()]);
    if let Some(document) = document {
        let cluster = query::cluster_glance(snapshot, document, DOCUMENTS_MAX, SIGHTINGS_MAX)?;
        urls.extend(cluster.sightings.into_iter().map(|sighting| sighting.url));
    }
    let mut rows = Vec::new();
    for url in urls {
        for UrlSighting { moment, cluster } in query::url(snapshot, &url)?.sightings {
            rows.push(SightingRow::new(url.clone(), moment, cluster));
        }
    }
    sheet(&rows, format)
}

/// Where the content of a URL is now.
fn now(html: &mut Html, history: &UrlAnswer, lost: &LostAnswer, sweeps: &[Sweep]) {
    html.raw("<section aria-labelledby=\"now\"><h2 id=\"now\">Where it is now</h2><p class=\"state\">");
    state(html, history, lost, sweeps);
    html.raw("</p>");
    let elsewhere: Vec<&FoundPlace> = lost.details.iter().filter(|found| found.url != lost.url).collect();
    if !elsewhere.is_empty() {
        html.raw(if lost.still_stands() { "<p>Seen elsewhere since then:</p>" } else { "<p>Now at:</p>" });
        places_now(html, lost, &elsewhere);
    } else if !lost.former_places.is_empty() && !lost.still_stands() {
        former_places(html, &lost.former_places);
    } else if !lost.still_stands() {
        html.raw("<p>Nothing like it was seen elsewhere since then.</p>");
    }
    html.raw("</section>");
}

/// Whether it stands, and since when not.
fn state(html: &mut Html, history: &UrlAnswer, lost: &LostAnswer, sweeps: &[Sweep]) {
    let end_of = |newest: &Observation| end(newest, "");
    let last = history.sightings.last();
    let Some(seen) = &lost.last_seen else {
        html.raw("No page was ever seen here");
        last.into_iter().for_each(|last| _ = html.raw("; ").text(end_of(&last.moment)));
        html.raw(".");
        return;
    };
    let since = |own: &str| sweeps.iter().rev().take_while(|sweep| sweep.name != own).count();
    let n_newer = seen.moment.sweep.as_deref().map_or(0, since);
    let is_here = lost.still_stands() && n_newer == 0;
    html.raw(if is_here { "<span class=\"good\">Still here</span>, last seen on " } else { "Last seen here on " });
    html.raw("<time datetime=\"").text(seen.moment.fetched_at).raw("\">").text(day(seen.moment.fetched_at));
    html.raw("</time>");
    sweep(html, seen.moment.sweep.as_deref());
    match last.filter(|last| last.moment.seen.document().is_none()) {
        Some(gone) => _ = html.raw("; ").text(end_of(&gone.moment)).raw("."),
        None if is_here => _ = html.raw(if sweeps.is_empty() { "." } else { ", the newest." }),
        None => {
            html.raw(". ").count(n_newer as u64, "newer sweep has", "newer sweeps have");
            html.raw(
                " not seen it; it counts as lost once <a href=\"/#sweeps\">one that should have seen it</a> is closed.",
            );
        }
    }
}

fn places_now(html: &mut Html, lost: &LostAnswer, places: &[&FoundPlace]) {
    let copy = lost.last_seen.as_ref().and_then(|copy| copy.moment.seen.document());
    html.raw("<ol class=\"found\">");
    for found in places.iter().take(FOUND_MAX) {
        html.raw("<li>").link(&found.url).raw(" <span class=\"note\">");
        if let Some(seen) = found.last_seen {
            match found.sweep.as_deref() {
                Some(sweep) if sweep.contains(&day(seen)) => html.raw("sweep ").text(sweep),
                Some(sweep) => html.text(day(seen)).raw(", sweep ").text(sweep),
                None => html.text(day(seen)),
            };
            html.raw(", ");
        }
        html.text(evidence(found)).raw("</span>");
        if let Some((copy, there)) = copy.zip(found.document).filter(|(copy, there)| copy != there) {
            // A redirect needs no links between the two pages, which may be in two clusters.
            if !matches!(found.evidence, Evidence::Redirect { .. }) {
                html.raw(" <a class=\"more\" href=\"/explain?a=").text(copy).raw("&amp;b=").text(there);
                html.raw("\">Why?</a>");
            }
            html.raw(" <a class=\"more\" href=\"/compare?a=").text(copy).raw("&amp;b=").text(there);
            html.raw("\">What changed?</a>");
        }
        html.raw("</li>");
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
    history: &UrlAnswer,
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
    let earlier_here = history.sightings.iter().rev().filter_map(|sighting| sighting.moment.seen.document());
    let earlier_here = earlier_here.filter(|earlier| versions.contains(*earlier));
    let other = earlier_here.chain(versions.newest().map(|(other, ..)| other)).find(|other| *other != document);
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
            if site_and_path(&place.url).0 == site_and_path(&history.url).0 {
                html.path_link(&place.url);
            } else {
                html.link(&place.url);
            }
        }
        html.raw("</td></tr>");
    }
    html.raw("</tbody></table></div><p><button>What changed?</button> ");
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
