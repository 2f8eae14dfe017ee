//! `/clusters`: the largest clusters, by host, sweep, size and kind.

use super::super::answer::Answer;
use super::super::cursor::ListRequest;
use super::super::error::HttpError;
use super::super::request::QueryRequest;
use super::super::service::Service;
use super::counted::{counted_at, not_counted};
use super::frame::page;
use super::html::{Html, site_and_path};
use super::sheet::{Columns, Format, sheet};
use crate::document::ClusterId;
use crate::ports::{Snapshot, Snapshots};
use crate::query::{ListedCluster, Overview};
use axum::http::StatusCode;
use serde::Serialize;
use std::cmp::Reverse;

/// Clusters of a page.
const ROWS: usize = 50;

/// Hosts offered, those with most pages first.
const HOSTS_MAX: usize = 100;

/// Sweeps offered.
const SWEEPS_MAX: usize = 200;

/// What a person asks to see.
struct Filter<'r> {
    host: &'r str,
    /// The sweep that saw a page of it last.
    sweep: &'r str,
    /// The least number of pages.
    size: u32,
    kind: Kind,
    sort: Sort,
}

/// A value that a person may choose: what it is, its name in a URL, and its words.
type Choice<T> = (T, &'static str, &'static str);

/// The value of a name.
fn named<T: Copy>(choices: &[Choice<T>], name: &str) -> Option<T> {
    choices.iter().find(|(_, other, _)| *other == name).map(|(value, ..)| *value)
}

/// The name of a value.
fn name_of<T: PartialEq>(choices: &[Choice<T>], value: T) -> &'static str {
    choices.iter().find(|(other, ..)| *other == value).map_or("", |(_, name, _)| name)
}

/// What the first cluster has most of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sort {
    Pages,
    Texts,
    Hosts,
    Left,
}

impl Sort {
    const ALL: [Choice<Sort>; 4] = [
        (Sort::Pages, "pages", "pages"),
        (Sort::Texts, "texts", "different texts"),
        (Sort::Hosts, "hosts", "hosts"),
        (Sort::Left, "left", "URLs that it left"),
    ];
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    All,
    Identical,
    Near,
    Moved,
}

impl Kind {
    const ALL: [Choice<Kind>; 4] = [
        (Kind::All, "all", "identical or near"),
        (Kind::Identical, "identical", "identical only"),
        (Kind::Near, "near", "near: with different texts"),
        (Kind::Moved, "moved", "moved: has left a URL"),
    ];
}

impl<'r> Filter<'r> {
    fn from_request(request: &'r QueryRequest) -> Result<Self, HttpError> {
        let wrong = |message: &str| HttpError::bad_request("bad-parameter", message);
        let given = |name: &str| request.given(name).map(str::trim).filter(|value| !value.is_empty());
        let kind = given("kind").unwrap_or("all");
        let kind = named(&Kind::ALL, kind).ok_or_else(|| wrong("kind must be all, identical, near or moved"))?;
        let size_min = if kind == Kind::Moved { 1 } else { 2 };
        let size = given("size").map_or(Ok(size_min), str::parse).map_err(|_| wrong("size must be a number"))?;
        let sort = given("sort").unwrap_or("pages");
        let sort = named(&Sort::ALL, sort).ok_or_else(|| wrong("sort must be pages, texts, hosts or left"))?;
        // The name of a sweep may begin or end with a blank; that of a host has none.
        let (host, sweep) = (given("host").unwrap_or(""), request.given("sweep").unwrap_or(""));
        Ok(Filter { host, sweep, size, kind, sort })
    }

    /// The clusters that match, each with its pages that count, the largest first.
    fn rows<'o>(&self, overview: &'o Overview) -> Vec<Row<'o>> {
        // An empty name is no filter, also where URLs without a host make a row of that name.
        let host = overview.hosts.iter().position(|row| !self.host.is_empty() && row.name == self.host);
        let sweep = overview.sweeps.iter().position(|name| name == self.sweep);
        if (host.is_none() && !self.host.is_empty()) || (sweep.is_none() && !self.sweep.is_empty()) {
            return Vec::new();
        }
        let of_kind = overview.clusters.iter().filter(|cluster| match self.kind {
            Kind::All => cluster.n_pages > 1,
            Kind::Identical => cluster.n_pages > 1 && cluster.n_documents == 1,
            Kind::Near => cluster.n_documents > 1,
            Kind::Moved => cluster.n_left > 0,
        });
        let row = |cluster: &'o ListedCluster| {
            let n_pages = match (host, sweep) {
                (None, None) => cluster.n_pages,
                (host, sweep) => cluster.n_pages_at(host, sweep),
            };
            let most = match self.sort {
                Sort::Pages => n_pages,
                Sort::Texts => cluster.n_documents,
                Sort::Hosts => cluster.n_hosts() as u32,
                Sort::Left => cluster.n_left,
            };
            Row { cluster, n_pages, most }
        };
        let mut rows: Vec<Row<'o>> = of_kind.map(row).filter(|row| row.n_pages >= self.size.max(1)).collect();
        rows.sort_by_key(Row::position);
        rows
    }
}

/// A cluster, and its pages of the host and sweep asked about.
struct Row<'o> {
    cluster: &'o ListedCluster,
    n_pages: u32,
    /// What it is sorted by.
    most: u32,
}

/// A row for programs.
#[derive(Serialize)]
struct ExportedRow<'o> {
    cluster: ClusterId,
    pages: u32,
    texts: u32,
    hosts: usize,
    left: u32,
    url: &'o str,
}

impl Columns for ExportedRow<'_> {
    const NAMES: &'static [&'static str] = &["cluster", "pages", "texts", "hosts", "left", "url"];
}

impl<'o> Row<'o> {
    fn of_all(cluster: &'o ListedCluster) -> Self {
        Row { cluster, n_pages: cluster.n_pages, most: cluster.n_pages }
    }

    fn exported(&self) -> ExportedRow<'o> {
        let (cluster, pages) = (self.cluster, self.n_pages);
        ExportedRow {
            cluster: cluster.cluster,
            pages,
            texts: cluster.n_documents,
            hosts: cluster.n_hosts(),
            left: cluster.n_left,
            url: &cluster.canonical,
        }
    }
}

impl Row<'_> {
    fn position(&self) -> (Reverse<u32>, u32) {
        (Reverse(self.most), self.cluster.cluster.0)
    }
}

/// `/clusters`
pub(in super::super) fn clusters<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    request: &QueryRequest,
) -> Result<Answer, HttpError> {
    let filter = Filter::from_request(request)?;
    let size = filter.size.to_string();
    let of = [filter.host, filter.sweep, &size, name_of(&Kind::ALL, filter.kind), name_of(&Sort::ALL, filter.sort)];
    let list = request.list_request::<(Reverse<u32>, u32)>(&service.settings, snapshot.seed(), &of)?;
    let list = ListRequest { limit: ROWS, ..list };
    let counted = service.counted();
    let format = Format::from_request(request)?;
    let Some(counted) = counted else {
        if format.is_some() {
            return Err(HttpError::busy("the clusters are being counted; ask again in a second"));
        }
        let mut html = Html::default();
        not_counted(html.raw("<h1>Clusters</h1>"));
        return Ok(page(service, snapshot, StatusCode::OK, "Clusters", "", html));
    };
    let rows = filter.rows(&counted.overview);
    let n_rows = rows.len();
    let (rows, next) = list.part_of(rows, Row::position);
    if let Some(format) = format {
        let rows: Vec<_> = rows.iter().map(Row::exported).collect();
        return sheet(&rows, format);
    }
    let mut html = Html::default();
    html.raw("<h1>Clusters</h1>");
    form(&mut html, &filter, &counted.overview);
    html.raw("<p class=\"note\">").count(n_rows as u64, "cluster", "clusters");
    html.raw(if filter.sort == Sort::Pages { ", the largest first" } else { "" });
    let n_listed = counted.overview.clusters.len() as u64;
    let n_all = counted.overview.n_clusters + counted.overview.n_moved_singles;
    if n_listed < n_all {
        html.raw(", among the ").number(n_listed).raw(" largest of ").number(n_all);
    }
    counted_at(html.raw(". "), &counted, snapshot.next_seq());
    html.raw(" ");
    let cursor = ("cursor", request.given("cursor").unwrap_or(""));
    link(&mut html, &filter, &[cursor, ("format", "csv")], "As CSV");
    link(&mut html, &filter, &[cursor, ("format", "json")], "As JSON");
    html.raw("</p>");
    if rows.is_empty() {
        html.raw("<p class=\"problem\">No cluster is like this. A host is compared letter by letter.</p>");
    } else {
        table(&mut html, &counted.overview, &rows, filter.host);
    }
    html.raw("<nav class=\"pager\" aria-label=\"Parts of the list\">");
    if request.given("cursor").is_some() {
        link(&mut html, &filter, &[], "The largest");
    }
    if let Some(next) = next {
        link(&mut html, &filter, &[("cursor", &next)], "Smaller ones");
    }
    html.raw("</nav>");
    Ok(page(service, snapshot, StatusCode::OK, "Clusters", "", html))
}

fn form(html: &mut Html, filter: &Filter<'_>, overview: &Overview) {
    html.raw("<form class=\"filters\" action=\"/clusters\" method=\"get\"><div><label for=\"host\">Host</label>");
    html.raw("<input type=\"text\" id=\"host\" name=\"host\" list=\"hosts\" autocomplete=\"off\" ");
    html.raw("autocapitalize=\"none\" spellcheck=\"false\" placeholder=\"any\" value=\"").text(filter.host);
    html.raw("\"><datalist id=\"hosts\">");
    for row in largest_hosts(overview, HOSTS_MAX).iter().filter(|row| !row.name.is_empty()) {
        html.raw("<option value=\"").text(&row.name).raw("\"></option>");
    }
    html.raw(
        "</datalist></div><div><label for=\"sweep\">Seen last by the sweep</label><input type=\"text\" id=\"sweep\" ",
    );
    html.raw("name=\"sweep\" list=\"sweeps\" autocomplete=\"off\" autocapitalize=\"none\" spellcheck=\"false\" ");
    html.raw("placeholder=\"any\" value=\"").text(filter.sweep).raw("\"><datalist id=\"sweeps\">");
    for name in overview.sweeps.iter().take(SWEEPS_MAX) {
        html.raw("<option value=\"").text(name).raw("\"></option>");
    }
    html.raw("</datalist></div><div><label for=\"size\">Pages, at least</label><input type=\"number\" id=\"size\" ");
    html.raw("name=\"size\" min=\"1\" value=\"").text(filter.size).raw("\"></div>");
    select(html, ["kind", "Texts"], &Kind::ALL, filter.kind);
    select(html, ["sort", "First those with most"], &Sort::ALL, filter.sort);
    html.raw("<button>Show</button></form>");
}

/// A field in which a person chooses one of several values.
fn select<T: PartialEq>(html: &mut Html, [id, label]: [&'static str; 2], choices: &[Choice<T>], chosen: T) {
    html.raw("<div><label for=\"").raw(id).raw("\">").raw(label).raw("</label><select id=\"").raw(id);
    html.raw("\" name=\"").raw(id).raw("\">");
    for (choice, name, words) in choices {
        html.raw("<option value=\"").raw(name).raw(if *choice == chosen { "\" selected>" } else { "\">" });
        html.raw(words).raw("</option>");
    }
    html.raw("</select></div>");
}

/// The hosts with most pages.
pub(super) fn largest_hosts(overview: &Overview, limit: usize) -> Vec<&crate::query::HostRow> {
    let mut hosts: Vec<_> = overview.hosts.iter().collect();
    hosts.sort_by_key(|row| (Reverse(row.n_pages), &row.name));
    hosts.truncate(limit);
    hosts
}

/// A link to the clusters of a filter, with more parameters where they are not empty.
fn link(html: &mut Html, filter: &Filter<'_>, more: &[(&'static str, &str)], name: &'static str) {
    html.raw("<a href=\"/clusters?size=").text(filter.size);
    let own = [
        ("host", filter.host),
        ("sweep", filter.sweep),
        ("kind", name_of(&Kind::ALL, filter.kind)),
        ("sort", name_of(&Sort::ALL, filter.sort)),
    ];
    for (parameter, value) in own.iter().chain(more).filter(|(_, value)| !value.is_empty()) {
        html.raw("&amp;").raw(parameter).raw("=").query(value);
    }
    html.raw("\">").raw(name).raw("</a> ");
}

/// The largest clusters of all.
pub(super) fn largest_clusters(html: &mut Html, overview: &Overview, limit: usize) {
    let of_several = overview.clusters.iter().filter(|cluster| cluster.n_pages > 1);
    let rows: Vec<Row<'_>> = of_several.take(limit).map(Row::of_all).collect();
    table(html, overview, &rows, "");
}

fn table(html: &mut Html, overview: &Overview, rows: &[Row<'_>], host: &str) {
    let (has_hosts, host) = match overview.hosts.as_slice() {
        [only] => (false, only.name.as_str()),
        _ => (true, host),
    };
    html.raw("<div class=\"scroll\"><table class=\"list clusters\"><thead><tr><th scope=\"col\">Cluster of</th>");
    html.raw("<th scope=\"col\" class=\"number\">Pages</th><th scope=\"col\" class=\"number\">Texts</th>");
    html.raw(if has_hosts { "<th scope=\"col\" class=\"number\">Hosts</th>" } else { "" }).raw("</tr></thead><tbody>");
    for Row { cluster, n_pages, .. } in rows {
        let (site, _) = site_and_path(&cluster.canonical);
        html.raw("<tr><th scope=\"row\">");
        if !host.is_empty() && site.ends_with(&format!("://{host}")) {
            html.path_link(&cluster.canonical);
        } else {
            html.link(&cluster.canonical);
        }
        html.raw("</th><td class=\"number\">").number(u64::from(*n_pages)).raw("</td><td class=\"number\">");
        match cluster.n_documents {
            1 => _ = html.raw("<span class=\"note\">identical</span>"),
            n => _ = html.number(u64::from(n)),
        }
        html.raw("</td>");
        if has_hosts {
            html.raw("<td class=\"number\">").number(cluster.n_hosts() as u64).raw("</td>");
        }
        html.raw("</tr>");
    }
    html.raw("</tbody></table></div>");
}
