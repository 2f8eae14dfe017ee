//! `/reuse`: the pages that hold a text, or that of a URL, wholly or in part.

use super::super::answer::Answer;
use super::super::body;
use super::super::error::HttpError;
use super::super::request::QueryRequest;
use super::super::reuse::THRESHOLD;
use super::super::service::Service;
use super::form::{fields, given_page, text_or_file};
use super::frame::page;
use super::html::{Html, site_and_path};
use super::timeline::day;
use crate::ports::Snapshots;
use crate::query::{self, HostReuse, ReusedPage};
use axum::http::StatusCode;

/// Pages of a host shown, and hosts.
const PAGES_MAX: usize = 50;
const HOSTS_MAX: usize = 50;

const TITLE: &str = "Pages that hold a text";

/// `GET /reuse`: the form, or the pages that hold the text last seen at a URL.
pub(in super::super) fn reuse_of_url<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    request: &QueryRequest,
) -> Result<Answer, HttpError> {
    let url = request.given("url").unwrap_or("").trim();
    let mut html = Html::default();
    html.raw("<h1>").raw(TITLE).raw("</h1>");
    if !url.is_empty() {
        let last = query::document_at(snapshot, url)?;
        let (document, stored) = last.ok_or_else(|| HttpError::no_page(snapshot, url))?;
        let hosts = query::reuse_of_document(snapshot, (document, &stored), THRESHOLD)?;
        html.raw("<p>The text last seen at ")
            .link(url)
            .raw(". <a href=\"/v1/reuse?url=")
            .query(url)
            .raw("\">JSON</a></p>");
        found(&mut html, &hosts);
    }
    text_form(&mut html);
    Ok(page(service, snapshot, StatusCode::OK, TITLE, url, html))
}

/// `POST /reuse`: the pages that hold the text of the form.
pub(in super::super) fn reuse_of_text<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    request: &QueryRequest,
) -> Result<Answer, HttpError> {
    let [text, file] = fields(request, ["text", "file"])?;
    pages_with_text(service, snapshot, text_or_file(text, file))
}

/// The pages that hold a text, or HTML.
///
/// # Errors
/// [`HttpError`]
pub(super) fn pages_with_text<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    text: Vec<u8>,
) -> Result<Answer, HttpError> {
    let asked = given_page(text, "");
    let hosts = query::reuse_of_content(snapshot, &body::sketch(service, snapshot, &asked)?, THRESHOLD)?;
    let mut html = Html::default();
    html.raw("<h1>").raw(TITLE).raw("</h1>");
    found(&mut html, &hosts);
    text_form(&mut html);
    Ok(page(service, snapshot, StatusCode::OK, TITLE, "", html))
}

/// The form for a text.
pub(super) fn text_form(html: &mut Html) {
    html.raw("<section aria-labelledby=\"by-text\"><h2 id=\"by-text\">Which pages hold this text?</h2>");
    html.raw("<form action=\"/reuse\" method=\"post\" enctype=\"multipart/form-data\">");
    html.raw("<label for=\"text\">Text or HTML: a page or a part of one</label>");
    html.raw("<textarea rows=\"5\" spellcheck=\"false\" id=\"text\" name=\"text\"></textarea>");
    html.raw("<p class=\"line\"><label for=\"file\">or a file</label><input type=\"file\" id=\"file\" name=\"file\">");
    html.raw("<button>Find pages</button></p></form></section>");
}

fn found(html: &mut Html, hosts: &[HostReuse]) {
    let n_pages: usize = hosts.iter().map(|host| host.pages.len()).sum();
    if n_pages == 0 {
        html.raw("<p class=\"problem\">No page holds half of it, or is half made of it.</p>");
        return;
    }
    html.raw("<p class=\"note\">").count(n_pages as u64, "page holds", "pages hold").raw(" half of it or more, or ");
    html.raw(if n_pages == 1 { "is" } else { "are" }).raw(" half made of it. Those that hold most come first.</p>");
    html.raw("<div class=\"scroll\"><table class=\"list\"><thead><tr><th scope=\"col\">Page</th>");
    html.raw(
        "<th scope=\"col\">Holds of the text</th><th scope=\"col\">Resemblance</th><th scope=\"col\">Seen last</th>",
    );
    html.raw("</tr></thead>");
    for HostReuse { host, pages } in hosts.iter().take(HOSTS_MAX) {
        let site = pages.first().map_or("", |page| site_and_path(&page.url).0);
        html.raw("<tbody><tr class=\"site\"><th scope=\"rowgroup\">");
        match (site, host.as_str()) {
            ("", "") => html.raw("URLs without a host"),
            ("", host) => html.url(host),
            (site, _) => html.url(site),
        };
        html.raw("</th><td colspan=\"3\" class=\"note\">").count(pages.len() as u64, "page", "pages");
        if pages.len() > PAGES_MAX {
            html.raw(", ").text(PAGES_MAX).raw(" shown");
        }
        html.raw("</td></tr>");
        pages.iter().take(PAGES_MAX).for_each(|page| row(html, site, page));
        html.raw("</tbody>");
    }
    html.raw("</table></div>");
    if hosts.len() > HOSTS_MAX {
        html.raw("<p class=\"note\">").count((hosts.len() - HOSTS_MAX) as u64, "more host", "more hosts");
        html.raw("; <code>POST /v1/reuse</code> has all.</p>");
    }
}

fn row(html: &mut Html, site: &str, ReusedPage { url, moment, stands, comparison }: &ReusedPage) {
    html.raw("<tr><th scope=\"row\">");
    if site_and_path(url).0 == site {
        html.path_link(url)
    } else {
        html.link(url)
    };
    html.raw("</th><td>").known_share(comparison.containment_of_a_in_b).raw("</td><td>");
    html.share(comparison.resemblance).raw("</td><td class=\"when\">").text(day(moment.fetched_at));
    html.raw(if *stands { "</td></tr>" } else { " <span class=\"gone\">no more</span></td></tr>" });
}
