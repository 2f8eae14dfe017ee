//! `/compare`: two documents by their sketches and kept texts, or the shared passages of two texts that a person gives.

use super::super::answer::Answer;
use super::super::compare::add_from_inputs;
use super::super::error::HttpError;
use super::super::request::QueryRequest;
use super::super::service::Service;
use super::super::text::version;
use super::differences::{folded, what_changed};
use super::form::{fields, read_inputs, text_or_file};
use super::frame::page;
use super::html::Html;
use super::timeline::{day, outside_links};
use crate::document::{Body, DocumentId, MediaType, plain_text, word_starts};
use crate::ports::{Snapshot, Snapshots, StoreRule, StoredDocument};
use crate::query::{self, Comparison, Passage, SharedPassages, TextAnswer, shared_passages};
use axum::http::StatusCode;

/// Sightings of a document shown.
const SEEN_MAX: usize = 5;

/// `/compare`: two documents by their kept texts and sketches, and the form for texts.
pub(in super::super) fn compare<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    request: &QueryRequest,
) -> Result<Answer, HttpError> {
    let mut html = Html::default();
    html.raw("<h1>Two copies</h1>");
    let given = |name: &str, sweep: &str| {
        let of = request.given(name).map(str::trim).filter(|of| !of.is_empty());
        let sweep = request.given(sweep).map(str::trim).filter(|sweep| !sweep.is_empty());
        of.map(|of| stored(snapshot, of, sweep)).transpose()
    };
    let mut has_texts = false;
    if let (Some(a), Some(b)) = (given("a", "a_sweep")?, given("b", "b_sweep")?) {
        has_texts = by_texts(&mut html, service, snapshot, request, [a.0, b.0])?;
        by_sketches(&mut html, snapshot, &service.settings.archive_url, &a, &b)?;
        html.raw("<p class=\"links\"><a href=\"/v1/compare?a=").text(a.0).raw("&amp;b=").text(b.0);
        html.raw(if has_texts { "&amp;passages=true" } else { "" });
        html.raw(if has_texts && request.flag("inputs")? { "&amp;inputs=true" } else { "" }).raw("\">As JSON</a></p>");
    }
    choose(&mut html, request);
    form(&mut html, has_texts);
    Ok(page(service, snapshot, StatusCode::OK, "Two copies", "", html))
}

/// A document by its number or URL, the version of a sweep where one is named.
fn stored(snapshot: &impl Snapshot, of: &str, sweep: Option<&str>) -> Result<(DocumentId, StoredDocument), HttpError> {
    let id = version(snapshot, of, sweep)?;
    let document = snapshot.document(id)?.ok_or_else(|| HttpError::not_found(format!("there is no document {id}")))?;
    Ok((id, document))
}

/// What changed between the kept texts of two documents, the one seen first first. Says why where a text is missing. Returns
/// whether both are there.
fn by_texts<V: Snapshots>(
    html: &mut Html,
    service: &Service<V>,
    snapshot: &V::Snapshot,
    request: &QueryRequest,
    documents: [DocumentId; 2],
) -> Result<bool, HttpError> {
    let [a, b] = documents.map(|document| query::text(snapshot, document));
    let mut texts = [a?, b?];
    let reads_inputs = request.flag("inputs")?;
    if reads_inputs {
        add_from_inputs(service, snapshot, &mut texts)?;
    }
    let [a, b] = texts;
    let mut versions = [first_seen(snapshot, a)?, first_seen(snapshot, b)?];
    versions.sort_by_key(|(day, text)| (day.clone(), text.document));
    let [(old_day, old), (new_day, new)] = &versions;
    html.raw("<section aria-labelledby=\"changes\"><h2 id=\"changes\">What changed</h2>");
    if let (Some(old_text), Some(new_text)) = (&old.text, &new.text) {
        let names = [(old_day, old), (new_day, new)]
            .map(|(day, text)| format!("document {} (first seen {day})", text.document));
        what_changed(html, names, [old_text, new_text]);
        html.raw("</section><details class=\"shared\"><summary>What both share, side by side</summary>");
        let w = snapshot.rule().sketch.w;
        let texts = [old_text, new_text].map(|text| without_blank_lines(text));
        side_by_side(html, ["Older", "Newer"], [&texts[0], &texts[1]], w);
        html.raw("</details>");
        return Ok(true);
    }
    let missing = [old, new].into_iter().filter_map(|text| Some((text, text.missing?)));
    for (TextAnswer { document, .. }, missing) in missing {
        html.raw("<p>There is no text of document ").text(document).raw(". ").text(missing.reason()).raw("</p>");
    }
    let n_inputs = service.n_inputs(snapshot)?;
    if reads_inputs {
        html.raw("<p>No input that is still there holds a record of it. ");
    } else if n_inputs > 0 {
        html.raw("<form action=\"/compare\" method=\"get\">");
        read_inputs(html, request, &["a", "a_sweep", "b", "b_sweep"], n_inputs);
        html.raw("</form><p>");
    } else {
        html.raw("<p>");
    }
    html.raw("<a href=\"#texts\">Paste both texts</a> to see word for word what they share.</p></section>");
    Ok(false)
}

/// The day on which a document was first seen, before its text.
fn first_seen(snapshot: &impl Snapshot, text: TextAnswer) -> Result<(String, TextAnswer), HttpError> {
    let first = snapshot.sightings_of_document_after(text.document, None, 1)?;
    Ok((first.first().map_or_else(String::new, |first| day(first.moment.fetched_at)), text))
}

fn by_sketches(
    html: &mut Html,
    snapshot: &impl Snapshot,
    archive_url: &str,
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
    shares(html, &comparison, [stored_a.n_words, stored_b.n_words]);
    if comparison.error > 0.0 {
        html.raw("<p class=\"note\">Estimated; one standard error of the resemblance is ");
        html.text(format_args!("{:.0}", comparison.error * 100.0)).raw("&nbsp;%.</p>");
    }
    html.raw("<div class=\"two\">");
    for (name, id, document) in [("First", a, stored_a), ("Second", b, stored_b)] {
        html.raw("<div><h3>").raw(name).raw(": document ").text(id).raw("</h3><p class=\"note\">");
        html.count(document.n_words.into(), "word", "words").raw("</p><ul class=\"found\">");
        let sightings = snapshot.sightings_of_document(*id)?;
        for sighting in sightings.iter().rev().take(SEEN_MAX) {
            html.raw("<li>").link(&sighting.url).raw(" <span class=\"when\">");
            html.text(day(sighting.moment.fetched_at)).raw("</span> ");
            outside_links(html, archive_url, &sighting.url, Some(sighting.moment.fetched_at));
            html.raw("</li>");
        }
        html.raw("</ul>");
        if sightings.len() > SEEN_MAX {
            let n_more = (sightings.len() - SEEN_MAX) as u64;
            html.raw("<p class=\"note\">and ").count(n_more, "earlier sighting", "earlier sightings").raw("</p>");
        }
        html.raw("</div>");
    }
    html.raw("</div><p><a href=\"/explain?a=").text(a).raw("&amp;b=").text(b);
    html.raw("\">Why are they together, or not?</a></p></section>");
    Ok(())
}

/// The shares in a sentence.
fn shares(html: &mut Html, comparison: &Comparison, [n_words_a, n_words_b]: [u32; 2]) {
    let lacking = |share: f64| format!("{:.0}\u{a0}%", ((1.0 - share) * 100.0).ceil());
    html.raw("<p class=\"state\">");
    match (comparison.containment_of_a_in_b, comparison.containment_of_b_in_a) {
        (Some(1.0), Some(1.0)) => _ = html.raw("The same passages stand in both. "),
        (Some(a), Some(b)) => {
            html.text(lacking(a)).raw(" of the first is not in the second, and ").text(lacking(b));
            html.raw(" of the second is not in the first. ");
        }
        _ => {}
    }
    html.count(n_words_a.into(), "word", "words").raw(" became ").number(n_words_b.into()).raw(".</p>");
}

/// The form for two pages of the store.
fn choose(html: &mut Html, request: &QueryRequest) {
    html.raw("<section aria-labelledby=\"two-pages\"><h2 id=\"two-pages\">Two pages of the store</h2>");
    html.raw("<form action=\"/compare\" method=\"get\"><div class=\"two\">");
    for (name, sweep, label) in
        [("a", "a_sweep", "First URL, or a document\u{2019}s number"), ("b", "b_sweep", "Second")]
    {
        html.raw("<div>");
        for (name, label) in [(name, label), (sweep, "as seen in the sweep (empty: the newest)")] {
            html.raw("<label for=\"").raw(name).raw("\">").raw(label).raw("</label><input type=\"text\" ");
            html.raw("autocomplete=\"off\" autocapitalize=\"none\" spellcheck=\"false\" class=\"wide\" id=\"");
            html.raw(name).raw("\" name=\"").raw(name).raw("\" value=\"").text(request.given(name).unwrap_or(""));
            html.raw("\">");
        }
        html.raw("</div>");
    }
    html.raw("</div><p><button>What changed?</button></p></form></section>");
}

/// The form for two texts.
fn form(html: &mut Html, has_texts: bool) {
    html.raw("<section aria-labelledby=\"texts\"><h2 id=\"texts\">Two texts of your own</h2>");
    html.raw("<p>Paste two pages, HTML or text, or choose their files, and see word for word what they share. ");
    if !has_texts {
        html.raw("The links to an archive lead to earlier copies.");
    }
    html.raw("</p>");
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
    let [a_text, b_text, a_file, b_file] = fields(request, ["a_text", "b_text", "a_file", "b_file"])?;
    let [a, b] = [(a_text, a_file), (b_text, b_file)].map(|(text, file)| text_or_file(text, file));
    let rule = snapshot.rule();
    let (a, b) = (readable(&a, "the first text", rule, service)?, readable(&b, "the second text", rule, service)?);
    let w = rule.sketch.w;
    let mut html = Html::default();
    html.raw("<h1>Shared passages</h1>");
    side_by_side(&mut html, ["First", "Second"], [&a, &b], w);
    html.raw("<p><a href=\"/compare\">Compare others</a></p>");
    Ok(page(service, snapshot, StatusCode::OK, "Shared passages", "", html))
}

/// Two texts beside each other, with the passages that both have marked.
fn side_by_side(html: &mut Html, names: [&'static str; 2], [a, b]: [&str; 2], w: usize) {
    let shared = shared_passages(a, b, w);
    let (first, second) = (names[0], names[1]);
    html.raw("<dl class=\"facts\"><div><dt>Resemblance</dt><dd>").share(shared.resemblance());
    html.raw("</dd></div><div><dt>").raw(first).raw(" is in ").raw(second).raw("</dt><dd>");
    html.share(shared.containment_of_a_in_b()).raw("</dd></div><div><dt>").raw(second).raw(" is in ").raw(first);
    html.raw("</dt><dd>").share(shared.containment_of_b_in_a()).raw("</dd></div></dl><p class=\"note\">");
    html.text(how_many(&shared)).raw(" Marks show what the other text has, too, in runs of ").text(w);
    html.raw(" words or more. A number leads to the same words on the other side.</p><div class=\"two texts\">");
    marked(html, [first, "a", "b"], a, &shared.passages_of_a);
    marked(html, [second, "b", "a"], b, &shared.passages_of_b);
    html.raw("</div>");
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
    let n_words = word_starts(&text).len();
    if n_words == 0 {
        return Err(HttpError::nothing_to_compare(format!("{name} has no words; nothing to compare")));
    }
    if n_words > words_max {
        let message = format!("{name} has more than limits.words_max = {words_max} words; give a part of it");
        return Err(HttpError::new(StatusCode::UNPROCESSABLE_ENTITY, "too-many-words", message));
    }
    Ok(without_blank_lines(&text))
}

/// A text with at most one blank line in a row, and none at either end. Markup leaves many.
fn without_blank_lines(text: &str) -> String {
    let (mut out, mut n_blank) = (String::with_capacity(text.len()), 0);
    for line in text.lines().map(str::trim_end) {
        if line.trim_start().is_empty() {
            n_blank += 1;
            continue;
        }
        if !out.is_empty() {
            out.push_str(if n_blank > 0 { "\n\n" } else { "\n" });
        }
        n_blank = 0;
        out.push_str(line);
    }
    out
}

/// A text with its passages marked and numbered; each number links to the same words in the other text. What is between
/// their ends is folded away where a passage is long: it did not change.
fn marked(html: &mut Html, [name, own, other]: [&'static str; 3], text: &str, passages: &[Passage]) {
    html.raw("<section aria-label=\"").raw(name).raw(" text\"><h2>").raw(name).raw("</h2><div class=\"text\">");
    let mut done = 0;
    for (number, Passage { range, counterpart, .. }) in passages.iter().enumerate() {
        html.text(&text[done..range.start]).raw("<mark id=\"").raw(own).text(number + 1).raw("\"><a href=\"#");
        html.raw(other).text(counterpart + 1).raw("\" aria-label=\"passage ").text(number + 1);
        html.raw(", the same as ").text(counterpart + 1).raw(" in the other text\">");
        html.text(counterpart + 1).raw("</a> ");
        folded(html, &text[range.clone()]);
        html.raw("</mark>");
        done = range.end;
    }
    html.text(&text[done..]).raw("</div></section>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_are_few() {
        for (text, expected) in [
            ("a\n\n\n \n  b  \nc\n\n", "a\n\n  b\nc"),
            ("\n\n\t\n", ""),
            ("a", "a"),
            (" \n a \r\n\r\n\r\nb", " a\n\nb"),
        ] {
            assert_eq!(without_blank_lines(text), expected, "{text:?}");
        }
    }
}
