//! What all pages share: head, search box, footer, style sheet, icon, and how an error looks.

use super::super::answer::Answer;
use super::super::error::HttpError;
use super::super::request::QueryRequest;
use super::super::service::Service;
use super::html::Html;
use crate::ports::{Snapshot, Snapshots};
use crate::query;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};

const HTML: &str = "text/html; charset=utf-8";

/// `/style.css`
pub(in super::super) fn style<V: Snapshots>(
    _: &Service<V>,
    _: &V::Snapshot,
    _: &QueryRequest,
) -> Result<Answer, HttpError> {
    Ok(Answer::new("text/css; charset=utf-8", include_str!("style.css")))
}

/// `/favicon.svg`
pub(in super::super) fn favicon<V: Snapshots>(
    _: &Service<V>,
    _: &V::Snapshot,
    _: &QueryRequest,
) -> Result<Answer, HttpError> {
    Ok(Answer::new("image/svg+xml", include_str!("favicon.svg")))
}

/// An error, as a page.
pub(in super::super) fn error_page(error: HttpError) -> Response {
    let title = match error.status {
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::UNAUTHORIZED => "A token is needed",
        StatusCode::TOO_MANY_REQUESTS => "Not so often",
        status if status.is_server_error() => "No answer now",
        _ => "That did not work",
    };
    let mut html = Html::default();
    html.raw("<h1>").raw(title).raw("</h1><p class=\"problem\">").text(&error.message).raw("</p>");
    near_urls(&mut html, &error.near_urls);
    html.raw("<p><a href=\"/\">Start again</a></p>");
    let mut response = (error.status, whole(title, "", html, Html::default())).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(HTML));
    error.add_headers(headers);
    response
}

/// Links to the URLs that a person may have meant.
pub(super) fn near_urls(html: &mut Html, near_urls: &[String]) {
    if near_urls.is_empty() {
        return;
    }
    html.raw("<p>The store has this spelling:</p><ul class=\"found\">");
    for url in near_urls {
        html.raw("<li>").link(url).raw("</li>");
    }
    html.raw("</ul>");
}

/// A page with its frame; `url` fills the search box.
pub(super) fn page<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    status: StatusCode,
    title: &str,
    url: &str,
    main: Html,
) -> Answer {
    Answer { status, ..Answer::new(HTML, whole(title, url, main, foot(service, snapshot))) }
}

fn whole(title: &str, url: &str, main: Html, foot: Html) -> String {
    let mut html = Html::default();
    html.raw("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    html.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>").text(title);
    html.raw(" – Lookalike</title><link rel=\"icon\" href=\"/favicon.svg\" type=\"image/svg+xml\">");
    html.raw("<link rel=\"stylesheet\" href=\"/style.css\"></head><body>");
    html.raw("<a class=\"skip\" href=\"#main\">To the answer</a>");
    html.raw(
        "<header><div class=\"bar\"><a class=\"name\" href=\"/\"><img src=\"/favicon.svg\" alt=\"\" width=\"26\" ",
    );
    html.raw("height=\"26\">Lookalike</a><form action=\"/\" method=\"get\" role=\"search\">");
    html.raw("<label class=\"hidden-label\" for=\"url\">URL, a part of one, or a text</label>");
    html.raw("<input id=\"url\" name=\"url\" type=\"text\" required ");
    html.raw("autocomplete=\"off\" autocapitalize=\"none\" spellcheck=\"false\" placeholder=\"URL, part of one, or text\" value=\"");
    html.text(url).raw("\"><button>Find</button></form><nav aria-label=\"Pages\"><a href=\"/clusters\">Clusters</a> ");
    html.raw(
        "<a href=\"/reuse\">Copies of a text</a> <a href=\"/compare\">Compare</a> <a href=\"/explain\">Explain</a>",
    );
    html.raw("</nav></div></header>");
    html.raw("<main id=\"main\">").html(main).raw("</main><footer><div class=\"bar\">").html(foot);
    html.raw("<a href=\"/v1/openapi.json\">API</a></div></footer></body></html>\n");
    html.into_string()
}

/// How large the store is, and how new the page.
fn foot<V: Snapshots>(service: &Service<V>, snapshot: &V::Snapshot) -> Html {
    let mut html = Html::default();
    let seconds = service.snapshots.staleness().staleness_ms / 1000;
    // A page is shown even where the store cannot say how many it has forgotten.
    let n_documents = query::n_documents_left(snapshot).unwrap_or_else(|_| snapshot.n_documents());
    html.raw("<span>").number(u64::from(n_documents)).raw(" documents</span><span>");
    match seconds {
        0..5 => html.raw("up to date"),
        _ => html.number(seconds).raw("&nbsp;s behind the store"),
    };
    html.raw("</span>");
    html
}
