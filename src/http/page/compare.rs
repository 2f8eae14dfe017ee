//! `/compare`: two documents by their sketches, or the shared passages of two texts that a person gives.

use super::super::answer::Answer;
use super::super::error::HttpError;
use super::super::request::QueryRequest;
use super::super::service::Service;
use super::frame::page;
use super::html::Html;
use super::timeline::day;
use crate::document::{Body, DocumentId, MediaType, plain_text};
use crate::ports::{Snapshot, Snapshots, StoreRule, StoredDocument};
use crate::query::{self, Passage, SharedPassages, shared_passages};
use axum::body::Body as RequestBody;
use axum::extract::{FromRequest, Multipart, Request};
use axum::http::{StatusCode, header};

/// Sightings of a document shown.
const SEEN_MAX: usize = 5;

/// `/compare`: two documents by their sketches, and the form for their texts.
pub(in super::super) fn compare<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    request: &QueryRequest,
) -> Result<Answer, HttpError> {
    let mut html = Html::default();
    html.raw("<h1>Two copies</h1>");
    let [a, b] = ["a", "b"].map(|name| request.given(name).map(|number| stored(snapshot, number)));
    let (a, b) = (a.transpose()?, b.transpose()?);
    if let (Some(a), Some(b)) = (a, b) {
        by_sketches(&mut html, snapshot, &a, &b)?;
    }
    form(&mut html);
    Ok(page(service, snapshot, StatusCode::OK, "Two copies", "", html))
}

/// A document by its number.
fn stored(snapshot: &impl Snapshot, number: &str) -> Result<(DocumentId, StoredDocument), HttpError> {
    let number = number.parse().ok().filter(|number| *number > 0);
    let id = number.map(DocumentId).ok_or_else(|| {
        HttpError::bad_request(
            "bad-parameter",
            "a and b must be document numbers; choose two versions on the page of a URL",
        )
    })?;
    let document = snapshot.document(id)?.ok_or_else(|| HttpError::not_found(format!("there is no document {id}")))?;
    Ok((id, document))
}

fn by_sketches(
    html: &mut Html,
    snapshot: &impl Snapshot,
    (a, stored_a): &(DocumentId, StoredDocument),
    (b, stored_b): &(DocumentId, StoredDocument),
) -> Result<(), HttpError> {
    for (id, document) in [(a, stored_a), (b, stored_b)] {
        if document.sketch.n_shingles == 0 {
            let (n_words, w) = (document.n_words, snapshot.rule().sketch.w);
            let message =
                format!("document {id} has {n_words} words, fewer than the {w} of a shingle; nothing to compare");
            return Err(HttpError::nothing_to_compare(message));
        }
    }
    let comparison = query::compare_sketches(&stored_a.sketch, &stored_b.sketch, snapshot.rule().sketch.rule);
    html.raw("<section aria-labelledby=\"sketches\"><h2 id=\"sketches\">By their sketches</h2>");
    html.raw("<dl class=\"facts\"><div><dt>Resemblance</dt><dd>").share(comparison.resemblance);
    html.raw("</dd></div><div><dt>First is in second</dt><dd>").known_share(comparison.containment_of_a_in_b);
    html.raw("</dd></div><div><dt>Second is in first</dt><dd>").known_share(comparison.containment_of_b_in_a);
    html.raw("</dd></div></dl>");
    if comparison.error > 0.0 {
        html.raw("<p class=\"note\">Estimated; one standard error of the resemblance is ");
        html.text(format_args!("{:.0}", comparison.error * 100.0)).raw("&nbsp;%.</p>");
    }
    html.raw("<div class=\"two\">");
    for (name, id, document) in [("First", a, stored_a), ("Second", b, stored_b)] {
        html.raw("<div><h3>").raw(name).raw(": document ").text(id).raw("</h3><p class=\"note\">");
        html.text(document.n_words).raw(" words</p><ul class=\"found\">");
        let sightings = snapshot.sightings_of_document(*id)?;
        for sighting in sightings.iter().rev().take(SEEN_MAX) {
            html.raw("<li>").link(&sighting.url).raw(" <span class=\"when\">");
            html.text(day(sighting.moment.fetched_at)).raw("</span></li>");
        }
        html.raw("</ul>");
        if sightings.len() > SEEN_MAX {
            html.raw("<p class=\"note\">and ").text(sightings.len() - SEEN_MAX).raw(" earlier sightings</p>");
        }
        html.raw("</div>");
    }
    html.raw("</div><p><a href=\"/explain?a=").text(a).raw("&amp;b=").text(b);
    html.raw("\">Why are they together, or not?</a></p></section>");
    Ok(())
}

fn form(html: &mut Html) {
    html.raw("<section aria-labelledby=\"texts\"><h2 id=\"texts\">Their shared passages</h2>");
    html.raw("<p>The store keeps no text. Paste the two pages, HTML or text, or choose their files.</p>");
    html.raw("<form action=\"/compare\" method=\"post\" enctype=\"multipart/form-data\"><div class=\"two\">");
    for (label, text, file) in [("First", "a_text", "a_file"), ("Second", "b_text", "b_file")] {
        html.raw("<fieldset><legend>")
            .raw(label)
            .raw("</legend><label for=\"")
            .raw(text)
            .raw("\">Text or HTML</label>");
        html.raw("<textarea rows=\"10\" spellcheck=\"false\" id=\"").raw(text).raw("\" name=\"").raw(text);
        html.raw("\"></textarea><label for=\"").raw(file).raw("\">or a file</label><input type=\"file\" id=\"");
        html.raw(file).raw("\" name=\"").raw(file).raw("\"></fieldset>");
    }
    html.raw("</div><p><button>Mark what they share</button></p></form></section>");
}

/// `POST /compare`: two texts, their shared passages marked.
pub(in super::super) fn compare_texts<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    request: &QueryRequest,
) -> Result<Answer, HttpError> {
    let [a, b] = given_texts(request)?;
    let rule = snapshot.rule();
    let (a, b) = (readable(&a, "the first text", rule, service)?, readable(&b, "the second text", rule, service)?);
    let w = rule.sketch.w;
    let shared = shared_passages(&a, &b, w);
    let mut html = Html::default();
    html.raw("<h1>Shared passages</h1><dl class=\"facts\"><div><dt>Resemblance</dt><dd>").share(shared.resemblance());
    html.raw("</dd></div><div><dt>First is in second</dt><dd>").share(shared.containment_of_a_in_b());
    html.raw("</dd></div><div><dt>Second is in first</dt><dd>").share(shared.containment_of_b_in_a());
    html.raw("</dd></div></dl><p class=\"note\">")
        .text(how_many(&shared))
        .raw(" Marks show what the other text has, too, in runs of ");
    html.text(w).raw(" words or more. A number leads to the same words on the other side.</p>");
    html.raw("<div class=\"two texts\">");
    marked(&mut html, ["First", "a", "b"], &a, &shared.passages_of_a);
    marked(&mut html, ["Second", "b", "a"], &b, &shared.passages_of_b);
    html.raw("</div><p><a href=\"/compare\">Compare others</a></p>");
    Ok(page(service, snapshot, StatusCode::OK, "Shared passages", "", html))
}

fn how_many(shared: &SharedPassages) -> String {
    let words = |passages: &[Passage]| {
        let n_words: usize = passages.iter().map(|passage| passage.n_words).sum();
        let passage = if passages.len() == 1 { "passage" } else { "passages" };
        format!("{n_words} words in {} {passage}", passages.len())
    };
    format!(
        "Of {} and {} distinct shingles, {} are in both: {} of the first, {} of the second.",
        shared.n_shingles_of_a,
        shared.n_shingles_of_b,
        shared.n_shingles_shared,
        words(&shared.passages_of_a),
        words(&shared.passages_of_b),
    )
}

/// The two texts of the form: the file of each, or else the pasted text.
fn given_texts(request: &QueryRequest) -> Result<[Vec<u8>; 2], HttpError> {
    let content_type = request.content_type.as_deref().unwrap_or("");
    let form = Request::builder().header(header::CONTENT_TYPE, content_type);
    let form = form.body(RequestBody::from(request.body.clone())).map_err(|_| not_the_form())?;
    // The body is in memory, so this never waits.
    tokio::runtime::Handle::current().block_on(async {
        let mut form = Multipart::from_request(form, &()).await.map_err(|_| not_the_form())?;
        let (mut pasted, mut files) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        while let Some(field) = form.next_field().await.map_err(|_| not_the_form())? {
            let place = match field.name() {
                Some("a_text") => &mut pasted[0],
                Some("b_text") => &mut pasted[1],
                Some("a_file") => &mut files[0],
                Some("b_file") => &mut files[1],
                _ => return Err(not_the_form()),
            };
            *place = field.bytes().await.map_err(|_| not_the_form())?.to_vec();
        }
        let [a, b] = files;
        let [pasted_a, pasted_b] = pasted;
        Ok([if a.is_empty() { pasted_a } else { a }, if b.is_empty() { pasted_b } else { b }])
    })
}

fn not_the_form() -> HttpError {
    HttpError::bad_request(
        "bad-body",
        "send multipart/form-data with the fields a_text or a_file, and b_text or b_file, as the form at /compare does",
    )
}

/// The text of a body that counts in the store, without markup.
fn readable<V: Snapshots>(
    bytes: &[u8],
    name: &str,
    rule: &StoreRule,
    service: &Service<V>,
) -> Result<String, HttpError> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(HttpError::bad_request("bad-body", format!("{name} is empty; paste it, or choose a file")));
    }
    let body = Body::Bytes { bytes: bytes.to_vec(), charset: None };
    let text = plain_text(&body, MediaType::Unknown, &rule.canonical)
        .map_err(|why| HttpError::new(StatusCode::UNPROCESSABLE_ENTITY, "no-text", format!("{name}: {why}")))?;
    let words_max = service.limits.words_max;
    let n_words = crate::document::word_starts(&text).len();
    if n_words == 0 {
        return Err(HttpError::nothing_to_compare(format!("{name} has no words; nothing to compare")));
    }
    if n_words > words_max {
        let message = format!("{name} has more than limits.words_max = {words_max} words; give a part of it");
        return Err(HttpError::new(StatusCode::UNPROCESSABLE_ENTITY, "too-many-words", message));
    }
    Ok(text.into_owned())
}

/// A text with its passages marked and numbered; each number links to the same words in the other text.
fn marked(html: &mut Html, [name, own, other]: [&'static str; 3], text: &str, passages: &[Passage]) {
    html.raw("<section aria-label=\"").raw(name).raw(" text\"><h2>").raw(name).raw("</h2><div class=\"text\">");
    let mut done = 0;
    for (number, Passage { range, counterpart, .. }) in passages.iter().enumerate() {
        html.text(&text[done..range.start]).raw("<mark id=\"").raw(own).text(number + 1).raw("\"><a href=\"#");
        html.raw(other).text(counterpart + 1).raw("\" aria-label=\"passage ").text(number + 1);
        html.raw(", the same in the other text\">").text(counterpart + 1).raw("</a> ");
        html.text(&text[range.clone()]).raw("</mark>");
        done = range.end;
    }
    html.text(&text[done..]).raw("</div></section>");
}
