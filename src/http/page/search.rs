//! The part of `/` that finds URLs by a part of them.

use super::super::answer::Answer;
use super::super::error::HttpError;
use super::super::request::QueryRequest;
use super::super::service::Service;
use super::frame::{near_urls, page};
use super::html::Html;
use super::sheet::{Format, SightingRow, sheet};
use super::timeline::day;
use crate::ports::{Snapshot, Snapshots, StoreError};
use crate::query::{self, SearchPosition, UrlMatch, UrlMatches};
use crate::sweep::Seen;
use axum::http::StatusCode;

/// The URLs that hold each word of a text, as a page or a table.
///
/// # Errors
/// [`HttpError`]
pub(super) fn search_page<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    request: &QueryRequest,
    text: &str,
    format: Option<Format>,
) -> Result<Answer, HttpError> {
    let list = request.list_request::<SearchPosition>(&service.settings, snapshot.seed(), &[text])?;
    let found = query::find_urls(snapshot, text, list.after.as_ref(), list.limit)?;
    if let Some(format) = format {
        return sheet(&rows(snapshot, found)?, format);
    }
    let mut html = Html::default();
    html.raw("<h1>URLs with “<bdi>").text(text).raw("</bdi>”</h1>");
    let near = if list.after.is_none() { query::near_urls(snapshot, text)? } else { Vec::new() };
    near_urls(&mut html, &near);
    let is_found = !found.matches.is_empty();
    if !is_found && found.next.is_none() {
        html.raw("<p class=\"problem\">");
        html.raw(if list.after.is_none() { "No URL that was seen holds this" } else { "No further URL holds this" });
        html.raw(". To find the pages that hold a text, give ").text(snapshot.rule().sketch.w);
        html.raw(" of its words or more.</p>");
    } else {
        matches(&mut html, &found);
        if is_found {
            html.raw("<p class=\"note\">");
            for (format, name) in [("csv", "As CSV"), ("json", "As JSON")] {
                html.raw("<a href=\"/?format=").raw(format).raw("&amp;url=").query(text);
                if let Some(cursor) = request.given("cursor") {
                    html.raw("&amp;cursor=").query(cursor);
                }
                html.raw("\">").raw(name).raw("</a> ");
            }
            html.raw("</p>");
        }
    }
    if let Some(cursor) = list.cursor(found.next.as_ref()) {
        html.raw("<p><a href=\"/?url=").query(text).raw("&amp;cursor=").query(&cursor);
        html.raw(if found.n_more > 0 { "\">More matches</a></p>" } else { "\">Search on</a></p>" });
    }
    let status = if is_found || list.after.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND };
    Ok(page(service, snapshot, status, text, text, html))
}

/// The matches for programs.
fn rows(snapshot: &impl Snapshot, found: UrlMatches) -> Result<Vec<SightingRow>, StoreError> {
    let row = |UrlMatch { url, newest }| {
        let document = newest.seen.document();
        let cluster = document.map(|document| snapshot.cluster_of(document)).transpose()?;
        Ok(SightingRow::new(url, newest, cluster))
    };
    found.matches.into_iter().map(row).collect()
}

fn matches(html: &mut Html, found: &UrlMatches) {
    html.raw("<p class=\"note\">").count((found.matches.len() + found.n_more) as u64, "match", "matches");
    html.raw(" among ").count(found.n_searched as u64, "URL", "URLs").raw(" looked through");
    if found.n_more > 0 {
        html.raw("; the first ").text(found.matches.len()).raw(" of them");
    }
    html.raw(".</p><div class=\"scroll\"><table class=\"list\"><thead><tr><th scope=\"col\">URL</th>");
    html.raw("<th scope=\"col\">State</th><th scope=\"col\">Last seen</th></tr></thead><tbody>");
    for UrlMatch { url, newest } in &found.matches {
        html.raw("<tr><th scope=\"row\">").link(url).raw("</th><td>");
        match &newest.seen {
            Seen::Document(_) => html.raw("page"),
            other => html.raw("<span class=\"gone\">").text(other.as_str()).raw("</span>"),
        };
        html.raw("</td><td class=\"when\">").text(day(newest.fetched_at)).raw("</td></tr>");
    }
    html.raw("</tbody></table></div>");
}
