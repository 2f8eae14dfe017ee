//! `/clusters`: the largest clusters, by host, sweep, size and kind.

use super::super::answer::Answer;
use super::super::cursor::ListRequest;
use super::super::error::HttpError;
use super::super::request::QueryRequest;
use super::super::service::Service;
use super::counted::{counted_at, not_counted};
use super::frame::page;
use super::html::{Html, site_and_path};
use crate::ports::{Snapshot, Snapshots};
use crate::query::{ListedCluster, Overview};
use axum::http::StatusCode;
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
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    All,
    Identical,
    Near,
    Moved,
}

impl Kind {
    const ALL: [(Kind, &'static str, &'static str); 4] = [
        (Kind::All, "all", "identical or near"),
        (Kind::Identical, "identical", "identical only"),
        (Kind::Near, "near", "near: with different texts"),
        (Kind::Moved, "moved", "moved: has left a URL"),
    ];

    fn name(self) -> &'static str {
        Kind::ALL.iter().find(|(kind, ..)| *kind == self).map_or("", |(_, name, _)| name)
    }
}

impl<'r> Filter<'r> {
    fn from_request(request: &'r QueryRequest) -> Result<Self, HttpError> {
        let wrong = |message: &str| HttpError::bad_request("bad-parameter", message);
        let given = |name: &str| request.given(name).map(str::trim).filter(|value| !value.is_empty());
        let kind = given("kind").unwrap_or("all");
        let kind = Kind::ALL.iter().find(|(_, name, _)| *name == kind).map(|(kind, ..)| *kind);
        let kind = kind.ok_or_else(|| wrong("kind must be all, identical, near or moved"))?;
        let size_min = if kind == Kind::Moved { 1 } else { 2 };
        let size = given("size").map_or(Ok(size_min), str::parse).map_err(|_| wrong("size must be a number"))?;
        Ok(Filter { host: given("host").unwrap_or(""), sweep: given("sweep").unwrap_or(""), size, kind })
    }

    /// The clusters that match, each with its pages that count, the largest first.
    fn rows<'o>(&self, overview: &'o Overview) -> Vec<Row<'o>> {
        let host = overview.hosts.iter().position(|row| row.name == self.host);
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
        let of_sweep = of_kind.filter(|cluster| sweep.is_none_or(|sweep| cluster.n_pages_of(sweep) > 0));
        let n_pages = |cluster: &ListedCluster| match (host, sweep) {
            (Some(host), _) => cluster.n_pages_on(host),
            (None, Some(sweep)) => cluster.n_pages_of(sweep),
            (None, None) => cluster.n_pages,
        };
        let mut rows: Vec<Row<'o>> = of_sweep.map(|cluster| Row { cluster, n_pages: n_pages(cluster) }).collect();
        rows.retain(|row| row.n_pages >= self.size.max(1));
        rows.sort_by_key(Row::position);
        rows
    }
}

/// A cluster, and its pages on the host asked about.
struct Row<'o> {
    cluster: &'o ListedCluster,
    n_pages: u32,
}

impl Row<'_> {
    fn position(&self) -> (Reverse<u32>, u32) {
        (Reverse(self.n_pages), self.cluster.cluster.0)
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
    let of = [filter.host, filter.sweep, &size, filter.kind.name()];
    let list = request.list_request::<(Reverse<u32>, u32)>(&service.settings, snapshot.seed(), &of)?;
    let list = ListRequest { limit: ROWS, ..list };
    let counted = service.counted();
    let export: Option<fn(&[Row<'_>]) -> Answer> = match request.given("format") {
        None => None,
        Some("csv") => Some(csv),
        Some("json") => Some(json),
        Some(_) => {
            let message = "format must be csv or json; leave it out for a page";
            return Err(HttpError::bad_request("bad-parameter", message));
        }
    };
    let Some(counted) = counted else {
        if export.is_some() {
            return Err(HttpError::busy("the clusters are being counted; ask again in a second"));
        }
        let mut html = Html::default();
        not_counted(html.raw("<h1>Clusters</h1>"));
        return Ok(page(service, snapshot, StatusCode::OK, "Clusters", "", html));
    };
    let rows = filter.rows(&counted.overview);
    let n_rows = rows.len();
    let (rows, next) = list.part_of(rows, Row::position);
    if let Some(export) = export {
        return Ok(export(&rows));
    }
    let mut html = Html::default();
    html.raw("<h1>Clusters</h1>");
    form(&mut html, &filter, &counted.overview);
    html.raw("<p class=\"note\">").count(n_rows as u64, "cluster", "clusters").raw(", the largest first");
    let n_listed = counted.overview.clusters.len() as u64;
    if n_listed < counted.overview.n_clusters {
        html.raw(", among the ").number(n_listed).raw(" largest of ").number(counted.overview.n_clusters);
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
    for row in largest_hosts(overview, HOSTS_MAX) {
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
    html.raw("<div><label for=\"kind\">Texts</label><select id=\"kind\" name=\"kind\">");
    for (kind, name, words) in Kind::ALL {
        html.raw("<option value=\"").raw(name).raw(if kind == filter.kind { "\" selected>" } else { "\">" });
        html.raw(words).raw("</option>");
    }
    html.raw("</select></div><button>Show</button></form>");
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
    let own = [("host", filter.host), ("sweep", filter.sweep), ("kind", filter.kind.name())];
    for (parameter, value) in own.iter().chain(more).filter(|(_, value)| !value.is_empty()) {
        html.raw("&amp;").raw(parameter).raw("=").query(value);
    }
    html.raw("\">").raw(name).raw("</a> ");
}

/// The largest clusters of all.
pub(super) fn largest_clusters(html: &mut Html, overview: &Overview, limit: usize) {
    let of_several = overview.clusters.iter().filter(|cluster| cluster.n_pages > 1);
    let rows: Vec<Row<'_>> = of_several.take(limit).map(|cluster| Row { cluster, n_pages: cluster.n_pages }).collect();
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
    for Row { cluster, n_pages } in rows {
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

/// The rows as JSON.
fn json(rows: &[Row<'_>]) -> Answer {
    let row = |Row { cluster, n_pages }: &Row<'_>| {
        serde_json::json!({
            "cluster": cluster.cluster,
            "pages": n_pages,
            "texts": cluster.n_documents,
            "hosts": cluster.n_hosts(),
            "left": cluster.n_left,
            "url": cluster.canonical,
        })
    };
    let rows: Vec<_> = rows.iter().map(row).collect();
    Answer::new("application/json", serde_json::Value::from(rows).to_string())
}

/// The rows as a table for programs.
fn csv(rows: &[Row<'_>]) -> Answer {
    let mut text = String::from("cluster,pages,texts,hosts,url\n");
    for Row { cluster, n_pages } in rows {
        let url = cluster.canonical.replace('"', "\"\"");
        let (id, n_texts, n_hosts) = (cluster.cluster, cluster.n_documents, cluster.n_hosts());
        text.push_str(&format!("{id},{n_pages},{n_texts},{n_hosts},\"{url}\"\n"));
    }
    Answer::new("text/csv; charset=utf-8", text)
}
