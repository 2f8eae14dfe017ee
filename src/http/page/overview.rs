//! The part of `/` that shows the store at a glance.

use super::super::answer::Answer;
use super::super::error::HttpError;
use super::super::overview::{CHANGES_SIGHTINGS_MAX, Counted};
use super::super::service::Service;
use super::super::throughput::Pace;
use super::clusters::{largest_clusters, largest_hosts};
use super::counted::{counted_at, not_counted};
use super::frame::page;
use super::html::{Html, site_and_path};
use super::reuse::text_form;
use super::sheet::{Columns, Format, sheet};
use super::timeline::day;
use crate::document::{ClusterId, DocumentId};
use crate::ports::{KeptEvents, Snapshot, Snapshots, StoreError};
use crate::query::{self, ChangeRow, Changes, MoveRow, Overview, Sweep};
use crate::wire::{Event, EventType};
use axum::http::StatusCode;
use memchr::memmem;
use std::collections::VecDeque;
use std::ops::Range;

/// Clusters, hosts and moves shown.
const CLUSTERS_MAX: usize = 10;
const HOSTS_MAX: usize = 10;
const MOVES_MAX: usize = 10;

/// Merges shown, and the newest events among which they are looked for, in parts of so many bytes.
const MERGES_MAX: usize = 10;
const EVENTS_MAX: u64 = 10_000;
const EVENTS_BYTES: usize = 1 << 20;

/// What stands in every event of the type.
const MERGED: &[u8] = b"\"merged\"";

/// Sweeps shown: the newest.
const SWEEPS_MAX: usize = 12;

/// The overview, or how to fill a store that is empty.
///
/// # Errors
/// [`HttpError`]
pub(super) fn overview_page<V: Snapshots>(service: &Service<V>, snapshot: &V::Snapshot) -> Result<Answer, HttpError> {
    let mut html = Html::default();
    let sweeps = query::sweeps(snapshot)?;
    let n_documents = query::n_documents_left(snapshot)?;
    if n_documents == 0 && sweeps.is_empty() {
        empty(&mut html);
        return Ok(page(service, snapshot, StatusCode::OK, "An empty store", "", html));
    }
    html.raw("<h1>What this store holds</h1>");
    if let Some(pace) = service.pace() {
        pace_line(&mut html, pace);
    }
    let counted = service.counted();
    match &counted {
        None => not_counted(&mut html),
        Some(counted) => {
            facts(&mut html, &counted.overview, counted.changes.as_ref(), n_documents);
            html.raw("<p class=\"note\">");
            counted_at(&mut html, counted, snapshot.next_seq());
            html.raw("</p>");
            if counted.overview.n_pages > 0 {
                largest(&mut html, &counted.overview);
            }
        }
    }
    sweep_table(&mut html, &sweeps, counted.as_deref());
    if let Some(counted) = &counted {
        moves(&mut html, &counted.overview.moves, sweeps.iter().any(|sweep| sweep.row.is_closed));
        merges(&mut html, service, snapshot)?;
        hosts(&mut html, &counted.overview);
    }
    text_form(&mut html);
    Ok(page(service, snapshot, StatusCode::OK, "Overview", "", html))
}

fn empty(html: &mut Html) {
    html.raw("<h1>This store is empty</h1><section aria-labelledby=\"fill\"><h2 id=\"fill\">How to fill it</h2>");
    html.raw("<p>Stream pages into it, from files or from Kafka; this page shows them within seconds:</p>");
    html.raw("<pre>lookalike run crawl.warc.gz\nlookalike run --config kafka.toml</pre>");
    html.raw(
        "<p>Or load a whole crawl into a new store, which is faster:</p><pre>lookalike backfill crawl/</pre></section>",
    );
}

/// How fast pages come in, and how many wait.
fn pace_line(html: &mut Html, pace: Pace) {
    html.raw("<p class=\"pace\">This process has taken in ").count(pace.n_pages, "page", "pages").raw(", ");
    html.number(pace.per_second.round() as u64).raw(" a second lately");
    if let Some(n_waiting) = pace.n_waiting {
        html.raw("; ").count(n_waiting, "record waits", "records wait");
    }
    if let Some(seconds) = pace.seconds_behind {
        html.raw(", the newest one read was ").count(seconds, "second", "seconds").raw(" old");
    }
    html.raw(".</p>");
}

fn facts(html: &mut Html, overview: &Overview, changes: Option<&Changes>, n_documents: u32) {
    html.raw("<dl class=\"facts\"><div><dt>Pages that stand</dt><dd>").number(overview.n_pages);
    html.raw(" <span class=\"note\">of ").number(overview.n_urls).raw(" URLs seen</span></dd></div>");
    if let Some(changes) = changes {
        html.raw("<div><dt>Sightings of pages</dt><dd>").number(changes.all.n_pages).raw("</dd></div>");
    }
    html.raw("<div><dt>Documents</dt><dd>").number(u64::from(n_documents)).raw("</dd></div>");
    html.raw("<div><dt>Clusters of two pages or more</dt><dd><a href=\"/clusters\">").number(overview.n_clusters);
    html.raw("</a></dd></div><div><dt>Duplicates</dt><dd>");
    html.share(overview.n_duplicates as f64 / overview.n_pages.max(1) as f64).raw(" <span class=\"note\">");
    html.count(overview.n_duplicates, "page", "pages").raw("</span></dd></div></dl>");
}

fn largest(html: &mut Html, overview: &Overview) {
    html.raw("<section aria-labelledby=\"largest\"><h2 id=\"largest\">The largest clusters</h2>");
    if overview.n_clusters == 0 {
        html.raw("<p>No two pages that stand have similar texts.</p></section>");
        return;
    }
    largest_clusters(html, overview, CLUSTERS_MAX);
    html.raw("<p><a href=\"/clusters\">All clusters, by host, size and kind</a></p></section>");
}

fn sweep_table(html: &mut Html, sweeps: &[Sweep], counted: Option<&Counted>) {
    if sweeps.is_empty() {
        return;
    }
    let changes = counted.and_then(|counted| counted.changes.as_ref());
    html.raw("<section aria-labelledby=\"sweeps\"><h2 id=\"sweeps\">Sweeps</h2>");
    if changes.is_none() {
        html.raw("<p class=\"note\">What is new, changed or moved is counted in stores of up to ");
        html.number(CHANGES_SIGHTINGS_MAX as u64)
            .raw(" sightings; <code>lookalike changes --by sweep</code> counts more.</p>");
    }
    // A narrow screen scrolls it, and nothing in it takes the focus of a keyboard.
    html.raw("<div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"Table of sweeps\">");
    html.raw("<table class=\"list sweeps\"><thead><tr><th scope=\"col\">Sweep</th>");
    html.raw("<th scope=\"col\">Began</th><th scope=\"col\" class=\"number\">Pages</th>");
    if changes.is_some() {
        html.raw("<th scope=\"col\" class=\"number\">New</th><th scope=\"col\" class=\"number\">Changed</th>");
        html.raw("<th scope=\"col\">Its pages, and those that went</th><th scope=\"col\" class=\"number\">Moved</th>");
    }
    html.raw("<th scope=\"col\" class=\"number\">Gone or lost</th></tr></thead><tbody>");
    let shown = || sweeps.iter().rev().take(SWEEPS_MAX);
    let change_of = |name: &str| changes.and_then(|changes| changes.rows.iter().find(|change| change.name == name));
    let widest = shown().filter_map(|sweep| change_of(&sweep.name)).map(|row| row.n_pages + row.n_deaths).max();
    for Sweep { name, row } in shown() {
        html.raw("<tr><th scope=\"row\"><bdi>").text(name).raw("</bdi></th><td class=\"when\">").text(day(row.first));
        html.raw("</td><td class=\"number\">").number(row.n_pages).raw("</td>");
        if changes.is_some() {
            change_cells(html, change_of(name), widest.unwrap_or(0));
        }
        html.raw("<td class=\"number\">").number(row.n_gone + row.n_lost);
        html.raw(if row.is_closed { "</td></tr>" } else { " <span class=\"note\">open</span></td></tr>" });
    }
    html.raw("</tbody></table></div><p class=\"note\">Bars: <span class=\"key new\">new</span> ");
    html.raw(
        "<span class=\"key changed\">changed</span> <span class=\"key same\">the same</span> \
         <span class=\"key moved\">moved</span> <span class=\"key lost\">gone or lost</span></p><p class=\"note\">",
    );
    if sweeps.len() > SWEEPS_MAX {
        html.raw("The newest ").text(SWEEPS_MAX).raw(" of ").number(sweeps.len() as u64);
        html.raw("; <a href=\"/v1/sweeps\">all as JSON</a>. ");
    }
    html.raw("Closing a sweep marks what it should have seen and did not as lost; an ");
    html.raw("open one counts none.</p></section>");
}

/// The cells of what changed in a sweep.
fn change_cells(html: &mut Html, row: Option<&ChangeRow>, widest: u64) {
    let Some(row) = row else {
        html.raw("<td></td><td></td><td></td><td></td>");
        return;
    };
    html.raw("<td class=\"number\">").number(row.n_births).raw("</td><td class=\"number\">").number(row.n_changes);
    html.raw("</td><td>");
    bar(html, row, widest);
    html.raw("</td><td class=\"number\">").number(row.n_moved_within + row.n_moved_between).raw("</td>");
}

/// New, changed and equal pages, and behind them the pages that went, as a bar; the numbers stand beside it. All bars of a table
/// have one scale, to the widest of them.
fn bar(html: &mut Html, row: &ChangeRow, widest: u64) {
    let n_same = row.n_pages.saturating_sub(row.n_births + row.n_changes);
    let n_moved = (row.n_moved_within + row.n_moved_between).min(row.n_deaths);
    let parts = [
        ("new", row.n_births),
        ("changed", row.n_changes),
        ("same", n_same),
        ("moved", n_moved),
        ("lost", row.n_deaths - n_moved),
    ];
    html.raw("<svg class=\"bar-of\" viewBox=\"0 0 100 10\" preserveAspectRatio=\"none\" aria-hidden=\"true\">");
    let mut from = 0.0;
    for (class, n) in parts {
        let width = n as f64 / widest.max(1) as f64 * 100.0;
        html.raw("<rect class=\"").raw(class).raw("\" x=\"").text(format_args!("{from:.2}")).raw("\" width=\"");
        html.text(format_args!("{width:.2}")).raw("\" height=\"10\"></rect>");
        from += width;
    }
    html.raw("</svg>");
}

/// The clusters that became one last, as the kept events tell.
fn merges<V: Snapshots>(html: &mut Html, service: &Service<V>, snapshot: &V::Snapshot) -> Result<(), HttpError> {
    html.raw("<section aria-labelledby=\"merges\"><h2 id=\"merges\">Merged last</h2>");
    let Some(kept) = service.events.range()? else {
        html.raw("<p class=\"note\">The store keeps no events. With <code>store.keep_events</code> the clusters that became ");
        html.raw("one last stand here.</p></section>");
        return Ok(());
    };
    let merged = newest_merges(&*service.events, kept)?;
    if merged.is_empty() {
        html.raw("<p>No two clusters became one lately.</p></section>");
        return Ok(());
    }
    html.raw("<ul class=\"moves\">");
    for event in merged {
        let (Some(url), Some(loser), Some(winner)) = (&event.url, event.loser(), event.winner()) else { continue };
        html.raw("<li>Cluster ").text(loser).raw(" joined ").text(winner);
        if let Some(at) = event.fetched_at {
            html.raw(" <span class=\"note\">").text(day(at)).raw("</span>");
        }
        html.raw("<br>by the page at ").link(url);
        let name = |cluster: ClusterId| DocumentId(cluster.0);
        if snapshot.document(name(loser))?.is_some() && snapshot.document(name(winner))?.is_some() {
            html.raw(" <a class=\"more\" href=\"/explain?a=")
                .text(loser)
                .raw("&amp;b=")
                .text(winner)
                .raw("\">Why?</a>");
        }
        html.raw("</li>");
    }
    html.raw("</ul></section>");
    Ok(())
}

/// The newest `merged` events among the last ones, the newest first.
fn newest_merges(events: &dyn KeptEvents, kept: Range<u64>) -> Result<Vec<Event>, StoreError> {
    let mut next = kept.start.max(kept.end.saturating_sub(EVENTS_MAX));
    let mut merged = VecDeque::new();
    while next < kept.end {
        let Some(part) = events.read(next, EVENTS_BYTES)?.filter(|part| !part.is_empty()) else { break };
        for event in &part {
            next = event.seq + 1;
            if memmem::find(&event.json, MERGED).is_some()
                && let Ok(event) = serde_json::from_slice::<Event>(&event.json)
                && event.kind() == EventType::Merged
            {
                merged.push_front(event);
                merged.truncate(MERGES_MAX);
            }
        }
    }
    Ok(merged.into())
}

impl Columns for MoveRow {
    const NAMES: &'static [&'static str] = &[
        "url",
        "state",
        "fetched_at",
        "sweep",
        "document",
        "last_seen",
        "to",
        "to_document",
        "to_last_seen",
        "resemblance",
        "evidence",
        "score",
    ];
}

/// What moved last, as a table for programs.
///
/// # Errors
/// [`HttpError`] where it is not counted yet.
pub(super) fn moves_sheet<V: Snapshots>(service: &Service<V>, format: Format) -> Result<Answer, HttpError> {
    match service.counted() {
        Some(counted) => sheet(&counted.overview.moves, format),
        None => Err(HttpError::busy("the store is being counted; ask again in a second")),
    }
}

fn moves(html: &mut Html, moves: &[MoveRow], has_closed: bool) {
    html.raw("<section aria-labelledby=\"moves\"><h2 id=\"moves\">Moved last</h2>");
    if moves.is_empty() {
        html.raw("<p>No page that is gone or lost stands elsewhere.");
        if !has_closed {
            html.raw(
                " No sweep is closed yet, so that nothing counts as lost: <code>lookalike sweep close NAME</code>.",
            );
        }
        html.raw("</p></section>");
        return;
    }
    html.raw("<ul class=\"moves\">");
    for row in moves.iter().take(MOVES_MAX) {
        let to = row.to.as_deref().unwrap_or_default();
        html.raw("<li>");
        html.link(&row.url).raw(" <span class=\"note\">").raw(row.state).raw(" ").text(day(row.fetched_at));
        html.raw("</span><br><span aria-hidden=\"true\">→</span> ");
        if site_and_path(&row.url).0 == site_and_path(to).0 {
            html.path_link(to)
        } else {
            html.link(to)
        };
        if let Some(resemblance) = row.resemblance {
            html.raw(" ").share(resemblance);
        }
        html.raw("</li>");
    }
    html.raw("</ul><p class=\"note\"><a href=\"/?format=csv\">As CSV</a> <a href=\"/?format=json\">As JSON</a>; ");
    html.raw("<code>lookalike export moves</code> has all.</p></section>");
}

fn hosts(html: &mut Html, overview: &Overview) {
    if overview.hosts.len() < 2 {
        return;
    }
    html.raw("<section aria-labelledby=\"hosts-title\"><h2 id=\"hosts-title\">Hosts</h2><div class=\"scroll\">");
    html.raw("<table class=\"list\"><thead><tr><th scope=\"col\">Host</th>");
    html.raw("<th scope=\"col\" class=\"number\">Pages</th><th scope=\"col\"><span class=\"hidden-label\">Clusters</span></th>");
    html.raw("</tr></thead><tbody>");
    for row in largest_hosts(overview, HOSTS_MAX) {
        if row.name.is_empty() {
            html.raw("<tr><th scope=\"row\" class=\"note\">URLs without a host</th><td class=\"number\">");
            html.number(row.n_pages).raw("</td><td></td></tr>");
            continue;
        }
        html.raw("<tr><th scope=\"row\"><a href=\"/?url=").query(&row.name).raw("\">").url(&row.name);
        html.raw("</a></th><td class=\"number\">").number(row.n_pages).raw("</td><td><a href=\"/clusters?host=");
        html.query(&row.name)
            .raw("\" aria-label=\"largest clusters of ")
            .text(&row.name)
            .raw("\">largest clusters</a></td></tr>");
    }
    html.raw("</tbody></table></div>");
    if overview.hosts.len() > HOSTS_MAX {
        html.raw("<p class=\"note\">The largest of ").count(overview.hosts.len() as u64, "host", "hosts").raw(".</p>");
    }
    html.raw("</section>");
}
