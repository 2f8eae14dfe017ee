//! `lookalike report`: a site or a crawl on one page of HTML that needs nothing else.

use super::args::ReportArgs;
use super::chart;
use super::exit::{Exit, ending, file_error};
use super::output::OutputMode;
use super::output_path::check_outside_stores;
use super::wiring::{check_local, open_read_only};
use crate::config::Config;
use crate::files::NewFile;
use crate::http::Html;
use crate::query::{
    self, AuditRow, By, Finding, LostSearch, MoveRow, PlaceRow, Remedy, Report, ReportQuestion, StandingCluster,
};
use anyhow::Result;

/// Other URLs of a cluster that are shown.
const OTHERS_MAX: usize = 20;

/// Writes the report.
pub(super) fn report(config: &Config, args: &ReportArgs, mode: OutputMode) -> Result<Exit> {
    check_local("--out", &args.out)?;
    check_outside_stores("--out", &args.out)?;
    let store = open_read_only(config)?;
    let search = LostSearch { ranking: config.lost.clone(), ..LostSearch::default() };
    let question = ReportQuestion { host: args.host.clone(), limit: args.limit, search };
    let report = query::report(&store, &question)?;
    if let Some(host) = args.host.as_deref().filter(|_| report.n_pages + report.n_dead == 0) {
        let why = format!("the store has no URL of the host {host:?}; a host is compared letter by letter");
        return Err(ending(Exit::NotFound, why));
    }
    let html = page(&report, args);
    NewFile::write_whole(&args.out, html.as_bytes()).map_err(|error| file_error("write", &args.out, &error))?;
    mode.note(&format!(
        "{}: {} pages, {} duplicates, {} moved",
        args.out.display(),
        report.n_pages,
        report.n_duplicates,
        report.n_moved
    ));
    Ok(Exit::Done)
}

fn page(report: &Report, args: &ReportArgs) -> String {
    let title = args.host.as_deref().unwrap_or("This crawl");
    let mut html = Html::default();
    html.raw("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    html.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>").text(title);
    html.raw(" – duplicates and moves</title><style>")
        .raw(include_str!("report.css"))
        .raw("</style></head><body><main>");
    html.raw("<h1>").text(title).raw(": duplicates and moves</h1>");
    if let Some([first, last]) = report.seen {
        html.raw("<p class=\"note\">Pages seen from ").text(day(&first.to_string())).raw(" to ");
        html.text(day(&last.to_string())).raw(". Written by lookalike ").raw(env!("CARGO_PKG_VERSION")).raw(".</p>");
    }
    facts(&mut html, report);
    if report.n_pages + report.n_dead == 0 {
        html.raw("<p>No page was seen.</p>");
    }
    html.raw("<p class=\"note\">Of each cluster of copies and near-copies, all pages but one count as duplicates.</p>");
    places(&mut html, "Duplicates by host", "Host", &report.hosts);
    places(&mut html, "Duplicates by section", "Host and first folder", &report.sections);
    clusters(&mut html, &report.clusters, report.n_clusters);
    moved(&mut html, &report.moved, report.n_moved);
    lost(&mut html, &report.lost, report.n_dead - report.n_moved);
    suspicious(&mut html, &report.suspicious);
    if let Some(changes) = report.changes.as_ref().filter(|changes| changes.all.n_revisits > 0) {
        html.raw("<h2>How pages change</h2><p class=\"note\">Sweep by sweep, over the whole store.</p>");
        html.drawing(chart::svg(changes, By::Sweep));
    }
    html.raw("</main></body></html>\n");
    html.into_string()
}

/// The day of a time.
fn day(time: &str) -> &str {
    time.get(..10).unwrap_or(time)
}

fn facts(html: &mut Html, report: &Report) {
    html.raw("<dl>");
    for (name, number) in [
        ("pages that stand", report.n_pages),
        ("duplicates among them", report.n_duplicates),
        ("clusters of duplicates", report.n_clusters),
        ("URLs gone, lost or redirected", report.n_dead),
        ("of which the content stands elsewhere", report.n_moved),
    ] {
        html.raw("<div><dt>").raw(name).raw("</dt><dd>").number(number).raw("</dd></div>");
    }
    html.raw("</dl>");
}

/// A table's head; the first column holds text. A narrow screen scrolls the table, for a keyboard, too.
fn head(html: &mut Html, name: &'static str, columns: &[&'static str]) {
    html.raw("<div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"")
        .raw(name)
        .raw("\"><table><thead><tr>");
    for (at, column) in columns.iter().enumerate() {
        html.raw(if at == 0 { "<th scope=\"col\">" } else { "<th scope=\"col\" class=\"number\">" })
            .raw(column)
            .raw("</th>");
    }
    html.raw("</tr></thead><tbody>");
}

fn end(html: &mut Html) {
    html.raw("</tbody></table></div>");
}

fn places(html: &mut Html, title: &'static str, what: &'static str, rows: &[PlaceRow]) {
    if rows.is_empty() {
        return;
    }
    html.raw("<h2>").raw(title).raw("</h2>");
    head(html, title, &[what, "pages", "duplicates", "share", "gone or moved"]);
    for row in rows {
        html.raw("<tr><td>").url(&row.name).raw("</td><td class=\"number\">").number(row.n_pages);
        html.raw("</td><td class=\"number\">").number(row.n_duplicates).raw("</td><td class=\"number\">");
        html.share(row.n_duplicates as f64 / row.n_pages.max(1) as f64).raw("</td><td class=\"number\">");
        html.number(row.n_dead).raw("</td></tr>");
    }
    end(html);
}

fn clusters(html: &mut Html, clusters: &[StandingCluster], n_clusters: u64) {
    if clusters.is_empty() {
        return;
    }
    html.raw("<h2>The largest clusters, and a URL for each</h2><p class=\"note\">The URL is what the other pages could name as ");
    html.raw("canonical: HTTPS before HTTP, no query before a query, then the shortest. ").number(n_clusters);
    html.raw(" clusters have two pages or more.</p>");
    head(html, "Table of clusters", &["canonical URL, and the others", "pages", "texts", "cluster"]);
    for cluster in clusters {
        html.raw("<tr><td>").live_link(&cluster.canonical).raw("<details><summary>the others</summary><ul>");
        for other in cluster.others.iter().take(OTHERS_MAX) {
            html.raw("<li>").live_link(other).raw("</li>");
        }
        html.raw("</ul>");
        if cluster.others.len() > OTHERS_MAX {
            html.raw("<p class=\"note\">and ").number((cluster.others.len() - OTHERS_MAX) as u64).raw(" more</p>");
        }
        html.raw("</details></td><td class=\"number\">").number(cluster.others.len() as u64 + 1);
        html.raw("</td><td class=\"number\">").number(cluster.n_documents as u64).raw("</td><td class=\"number\">");
        html.text(cluster.cluster).raw("</td></tr>");
    }
    end(html);
}

fn moved(html: &mut Html, rows: &[MoveRow], n_moved: u64) {
    if rows.is_empty() {
        return;
    }
    html.raw("<h2>Where pages have gone</h2><p class=\"note\">")
        .number(n_moved)
        .raw(" URLs are gone, lost or redirected, and ");
    html.raw("what stood there stands elsewhere: links and redirects could lead there. The surest first.</p>");
    head(html, "Table of moves", &["URL, and where its content is", "resemblance", "score"]);
    for row in rows {
        html.raw("<tr><td>").url(&row.url).raw(" <span class=\"note\">").raw(row.state).raw(" ");
        html.text(day(&row.fetched_at.to_string()))
            .raw("</span><br>→ ")
            .live_link(row.to.as_deref().unwrap_or_default());
        html.raw("</td><td class=\"number\">");
        row.resemblance.into_iter().for_each(|resemblance| {
            html.share(resemblance);
        });
        html.raw("</td><td class=\"number\">")
            .text(format_args!("{:.2}", row.score.unwrap_or_default()))
            .raw("</td></tr>");
    }
    end(html);
}

fn lost(html: &mut Html, rows: &[MoveRow], n_lost: u64) {
    if rows.is_empty() {
        return;
    }
    html.raw("<h2>Pages that stand nowhere any more</h2><p class=\"note\">").number(n_lost);
    html.raw(" URLs are gone, lost or redirected, and no page of this crawl has their content. The latest first.</p>");
    head(html, "Table of lost pages", &["URL", "state", "seen last"]);
    for row in rows {
        html.raw("<tr><td>").url(&row.url).raw("</td><td class=\"number\">").raw(row.state);
        html.raw("</td><td class=\"number\">");
        let last = row.last_seen.map(|time| time.to_string()).unwrap_or_default();
        html.text(day(&last)).raw("</td></tr>");
    }
    end(html);
}

fn suspicious(html: &mut Html, rows: &[AuditRow]) {
    if rows.is_empty() {
        return;
    }
    html.raw("<h2>Clusters to doubt</h2><p class=\"note\">A template that many pages share, or a chain of versions, may have made ");
    html.raw("these clusters of the whole store; <code>lookalike audit</code> says more.</p>");
    head(
        html,
        "Table of doubtful clusters",
        &["what it looks like", "documents", "weakest link", "what takes it apart", "cluster"],
    );
    for row in rows {
        html.raw("<tr><td>");
        match row.finding {
            Finding::Template => html.number(row.n_names as u64).raw(" names, the first of them ").url(&row.top_name),
            Finding::Chain => html.raw("a chain of versions of ").url(&row.top_name),
        };
        html.raw("</td><td class=\"number\">").number(row.n_documents as u64).raw("</td><td class=\"number\">");
        html.text(format_args!("{:.2}", row.weakest_link)).raw("</td><td class=\"number\">");
        match row.remedy {
            Remedy::Threshold { threshold, .. } => html.raw("threshold ").text(threshold),
            Remedy::Star => html.raw("policy star"),
            Remedy::MainContent => html.raw("main content"),
        };
        html.raw("</td><td class=\"number\">").text(row.cluster).raw("</td></tr>");
    }
    end(html);
}
