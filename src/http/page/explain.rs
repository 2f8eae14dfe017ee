//! `/explain`: why two pages are in one cluster.

use super::super::answer::Answer;
use super::super::error::HttpError;
use super::super::explain::explanation;
use super::super::request::QueryRequest;
use super::super::service::Service;
use super::frame::page;
use super::html::Html;
use crate::document::DocumentId;
use crate::ports::Snapshots;
use crate::query::{ChainLink, Connection, Explanation, LinkKind};
use axum::http::StatusCode;

/// Links shown.
const LINKS_MAX: usize = 200;

/// `/explain`: a form for two URLs, and the links between the two in it.
pub(in super::super) fn explain<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    request: &QueryRequest,
) -> Result<Answer, HttpError> {
    let [a, b] = ["a", "b"].map(|name| request.given(name).unwrap_or("").trim());
    let mut html = Html::default();
    html.raw("<h1>Why are they together?</h1>");
    if !a.is_empty() && !b.is_empty() {
        answer(&mut html, &explanation(snapshot, [a, b])?);
        html.raw("<p class=\"links\"><a href=\"/v1/explain?a=")
            .query(a)
            .raw("&amp;b=")
            .query(b)
            .raw("\">As JSON</a></p>");
    }
    form(&mut html, a, b);
    Ok(page(service, snapshot, StatusCode::OK, "Why are they together?", "", html))
}

fn form(html: &mut Html, a: &str, b: &str) {
    html.raw("<section aria-labelledby=\"two-pages\"><h2 id=\"two-pages\">Two pages</h2>");
    html.raw("<form action=\"/explain\" method=\"get\"><div class=\"two\">");
    for (name, label, value) in [("a", "First URL, or a document\u{2019}s number", a), ("b", "Second", b)] {
        html.raw("<div><label for=\"").raw(name).raw("\">").raw(label).raw("</label><input type=\"text\" required ");
        html.raw("autocomplete=\"off\" autocapitalize=\"none\" spellcheck=\"false\" class=\"wide\" id=\"");
        html.raw(name).raw("\" name=\"").raw(name).raw("\" value=\"").text(value).raw("\"></div>");
    }
    html.raw("</div><p><button>Explain</button></p></form></section>");
}

fn answer(html: &mut Html, explanation: &Explanation) {
    let Explanation { a, b, connection, weakest, links, comparison } = explanation;
    html.raw("<section aria-labelledby=\"chain\"><h2 id=\"chain\">The links between them</h2><p class=\"state\">");
    match (connection, weakest) {
        (Connection::SameDocument, _) => {
            html.raw("Both are the same document, number ").text(a.document).raw(": their texts are equal.</p>");
        }
        (Connection::OtherCluster, _) => {
            html.raw("They are not in one cluster: the first is in cluster ").text(a.cluster);
            html.raw(", the second in cluster ").text(b.cluster).raw(".</p>");
        }
        (_, Some(link)) => {
            html.raw("Both are in cluster ").text(a.cluster).raw(". The weakest link between them is ");
            html.share(link.resemblance).raw(", between documents ").text(link.from).raw(" and ").text(link.to);
            html.raw(". Without it they would be in two clusters.</p>");
        }
        (_, None) => {
            html.raw("Both are in cluster ").text(a.cluster).raw(", which is too large to look for their links here. ");
            html.raw("<code>lookalike explain</code> finds them.</p>");
        }
    }
    html.raw("<p>Compared directly, they resemble each other by ");
    match comparison {
        Some(comparison) => html.share(comparison.resemblance).raw(".</p>"),
        None => html.raw("an unknown share: one has too few words.</p>"),
    };
    html.raw("<ol class=\"chain\">");
    document(html, a.document, &a.url);
    for link in links.iter().take(LINKS_MAX) {
        let is_weakest = weakest.as_ref().is_some_and(|weakest| weakest.from == link.from);
        html.raw(if is_weakest { "<li class=\"link weakest\">" } else { "<li class=\"link\">" });
        link_text(html, link, is_weakest);
        html.raw("</li>");
        document(html, link.to, &link.to_url);
    }
    if links.is_empty() {
        document(html, b.document, &b.url);
    }
    html.raw("</ol>");
    if links.len() > LINKS_MAX {
        html.raw("<p class=\"note\">")
            .text(links.len() - LINKS_MAX)
            .raw(" more links follow; /v1/explain has all.</p>");
    }
    html.raw("</section>");
}

fn document(html: &mut Html, document: DocumentId, url: &str) {
    html.raw("<li>").link(url).raw(" <span class=\"note\">document ").text(document).raw("</span></li>");
}

fn link_text(html: &mut Html, link: &ChainLink, is_weakest: bool) {
    html.share(link.resemblance).raw(match link.kind {
        LinkKind::Equal => " <span class=\"note\">equal",
        LinkKind::Near => " <span class=\"note\">near",
        LinkKind::Contained => " <span class=\"note\">contained",
    });
    if let (LinkKind::Contained, Some(share)) = (link.kind, link.containment) {
        html.text(format_args!(": {:.0}\u{a0}% of one is in the other", share * 100.0));
    }
    html.raw(if is_weakest { ", the weakest</span>" } else { "</span>" });
}
