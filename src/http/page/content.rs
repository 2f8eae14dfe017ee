//! `/content`: which blocks of a page are its content, and why.

use super::super::answer::Answer;
use super::super::error::HttpError;
use super::super::request::QueryRequest;
use super::super::service::Service;
use super::super::text::version;
use super::form::{fields, given_page, read_inputs, text_or_file};
use super::frame::page;
use super::html::Html;
use crate::document::{Page, PageContent};
use crate::ports::{Snapshot, Snapshots};
use crate::query::{self, ContentExplanation, explain_content};
use axum::http::StatusCode;

const TITLE: &str = "What counts of a page";

/// Blocks shown, and characters of each.
const BLOCKS_MAX: usize = 2_000;
const CHARS_MAX: usize = 300;

/// `GET /content`: the blocks of the page at a URL, from the inputs, and a form for a page.
pub(in super::super) fn content_of_url<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    request: &QueryRequest,
) -> Result<Answer, HttpError> {
    let of = request.given("of").unwrap_or("").trim();
    let mut html = Html::default();
    html.raw("<h1>").raw(TITLE).raw("</h1>");
    if !of.is_empty() {
        let sweep = request.given("sweep").filter(|sweep| !sweep.is_empty());
        let document = version(snapshot, of, sweep)?;
        if request.flag("inputs")? {
            let mut sought = query::sought_page(snapshot, document)?;
            // Pages of one document may differ in their markup.
            if sought.places.iter().any(|(url, _)| url == of) {
                sought.places.retain(|(url, _)| url == of);
            }
            match service.pages_in_inputs(snapshot, &[sought])?.pop().flatten() {
                Some(found) => answer(&mut html, &explanation(&found.page, snapshot)?),
                None => _ = html.raw("<p>No input that is still there holds a record of it.</p>"),
            }
        } else {
            offer(&mut html, request, service.n_inputs(snapshot)?);
        }
    }
    form(&mut html);
    Ok(page(service, snapshot, StatusCode::OK, TITLE, of, html))
}

/// `POST /content`: the blocks of the page in the form.
pub(in super::super) fn content_of_page<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    request: &QueryRequest,
) -> Result<Answer, HttpError> {
    let [pasted, file] = fields(request, ["text", "file"])?;
    let bytes = text_or_file(pasted, file);
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(HttpError::bad_request("bad-body", "the page is empty; paste it, or choose a file"));
    }
    let given = given_page(bytes, "the page");
    let mut html = Html::default();
    html.raw("<h1>").raw(TITLE).raw("</h1>");
    answer(&mut html, &explanation(&given, snapshot)?);
    html.raw("<p><a href=\"/content\">Another page</a></p>");
    Ok(page(service, snapshot, StatusCode::OK, TITLE, "", html))
}

fn explanation(page: &Page, snapshot: &impl Snapshot) -> Result<ContentExplanation, HttpError> {
    let explained = explain_content(page, &snapshot.rule().canonical);
    explained.map_err(|why| HttpError::new(StatusCode::UNPROCESSABLE_ENTITY, "no-blocks", why))
}

/// Blocks are markup, which the store does not keep.
fn offer(html: &mut Html, request: &QueryRequest, n_inputs: usize) {
    if n_inputs == 0 {
        html.raw("<p>The store keeps no markup, and its inputs are not there. Give the page below.</p>");
        return;
    }
    html.raw("<p>The store keeps no markup.</p><form action=\"/content\" method=\"get\">");
    read_inputs(html, request, &["of", "sweep"], n_inputs);
    html.raw("</form>");
}

fn answer(html: &mut Html, page: &ContentExplanation) {
    html.raw("<section aria-labelledby=\"blocks\"><h2 id=\"blocks\">").url(&page.url).raw("</h2><p class=\"state\">");
    let (main, all) = (page.n_words_main as u64, page.n_words_all as u64);
    match (page.content, page.main_is_all) {
        (_, true) => {
            html.raw("All ").count(all, "word counts", "words count").raw(": the content would be next to nothing.")
        }
        (PageContent::Main, false) => html.number(main).raw(" of ").count(all, "word counts", "words count").raw("."),
        (PageContent::All, false) => {
            html.raw("All ").count(all, "word counts", "words count").raw(" in this store. With ");
            html.raw("<code>canonical.content = \"main\"</code>, ").number(main).raw(" would.")
        }
    };
    html.raw("</p><div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"Table of blocks\">");
    html.raw("<table class=\"list blocks\"><thead><tr><th scope=\"col\">Content?</th><th scope=\"col\">Why</th>");
    html.raw("<th scope=\"col\" class=\"number\">Words</th><th scope=\"col\">Block</th></tr></thead><tbody>");
    for block in page.blocks.iter().take(BLOCKS_MAX) {
        html.raw(if block.is_content { "<tr class=\"counts\"><td>yes" } else { "<tr><td>no" }).raw("</td><td>");
        html.raw(block.why).raw("</td><td class=\"number\">").number(block.n_words as u64).raw("</td><td><bdi>");
        match block.text.char_indices().nth(CHARS_MAX) {
            Some((end, _)) => html.text(&block.text[..end]).raw("…"),
            None => html.text(&block.text),
        };
        html.raw("</bdi></td></tr>");
    }
    html.raw("</tbody></table></div>");
    if page.blocks.len() > BLOCKS_MAX {
        let n_more = (page.blocks.len() - BLOCKS_MAX) as u64;
        html.raw("<p class=\"note\">and ").count(n_more, "block", "blocks").raw(" more</p>");
    }
    html.raw("</section>");
}

fn form(html: &mut Html) {
    html.raw("<section aria-labelledby=\"page\"><h2 id=\"page\">A page of your own</h2>");
    html.raw("<form action=\"/content\" method=\"post\" enctype=\"multipart/form-data\">");
    html.raw("<label for=\"text\">HTML</label><textarea rows=\"10\" spellcheck=\"false\" id=\"text\" name=\"text\">");
    html.raw("</textarea><label for=\"file\">or a file</label><input type=\"file\" id=\"file\" name=\"file\">");
    html.raw("<p><button>Show its blocks</button></p></form></section>");
}
