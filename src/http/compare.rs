//! `/v1/compare`: two documents by their sketches, and word for word.

use super::answer::{Answer, json};
use super::error::HttpError;
use super::request::QueryRequest;
use super::service::Service;
use super::text::version;
use crate::document::DocumentId;
use crate::ports::{Snapshot, Snapshots, StoredDocument};
use crate::query::{self, ComparedTexts, Comparison, MissingText, TextAnswer, TextOrigin};
use crate::wire::Origin;
use serde::Serialize;

#[derive(Serialize)]
struct Compared<'a> {
    a: &'a str,
    b: &'a str,
    #[serde(flatten)]
    comparison: Comparison,
    /// Where the request asks for passages.
    #[serde(skip_serializing_if = "Option::is_none")]
    texts: Option<ComparedTexts>,
}

/// `GET /v1/compare`
pub(super) fn compare<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    request: &QueryRequest,
) -> Result<Answer, HttpError> {
    let (a, b) = (request.required("a")?, request.required("b")?);
    let (with_passages, with_inputs) = (request.flag("passages")?, request.flag("inputs")?);
    let document = |name: &str, of: &str, sweep: &str| -> Result<(DocumentId, StoredDocument), HttpError> {
        let id = version(snapshot, of, request.given(sweep))?;
        let document = snapshot.document(id)?;
        let document = document.ok_or_else(|| HttpError::not_found(format!("there is no document {id}")))?;
        if document.sketch.n_shingles == 0 {
            let (n_words, w) = (document.n_words, snapshot.rule().sketch.w);
            let message = format!("{name} has {n_words} words, fewer than the {w} of a shingle; nothing to compare");
            return Err(HttpError::nothing_to_compare(message));
        }
        Ok((id, document))
    };
    let ((id_a, stored_a), (id_b, stored_b)) = (document("a", a, "a_sweep")?, document("b", b, "b_sweep")?);
    let comparison = query::compare_sketches(&stored_a.sketch, &stored_b.sketch, snapshot.rule().sketch.rule);
    let texts = with_passages.then(|| compare_texts(service, snapshot, [id_a, id_b], with_inputs)).transpose()?;
    json(snapshot, Compared { a, b, comparison, texts })
}

fn compare_texts<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    [a, b]: [DocumentId; 2],
    with_inputs: bool,
) -> Result<ComparedTexts, HttpError> {
    let mut texts = [query::text(snapshot, a)?, query::text(snapshot, b)?];
    let records = if with_inputs { add_from_inputs(service, snapshot, &mut texts)? } else { [None, None] };
    let text = |TextAnswer { document, text, missing, .. }: &TextAnswer| {
        text.clone().ok_or_else(|| {
            let why = missing.map_or("", MissingText::reason);
            let what_to_do = match with_inputs {
                true => "No input that is still there holds a record of it.",
                false => "With inputs=true it is looked for in the inputs.",
            };
            HttpError::not_found(format!("there is no text of document {document}. {why} {what_to_do}"))
        })
    };
    let [text_a, text_b] = [text(&texts[0])?, text(&texts[1])?];
    let origin = |document, record: &Option<Origin>| match record {
        Some(record) => TextOrigin::of_record(document, record),
        None => TextOrigin::Store { document },
    };
    let origins = [origin(a, &records[0]), origin(b, &records[1])];
    Ok(ComparedTexts::new([&text_a, &text_b], origins, snapshot.rule().sketch.w))
}

/// Looks in the inputs for the texts that the store does not keep, and returns the records that hold them.
///
/// # Errors
/// [`HttpError`]
pub(super) fn add_from_inputs<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    texts: &mut [TextAnswer; 2],
) -> Result<[Option<Origin>; 2], HttpError> {
    let mut records = [None, None];
    let mut missing: Vec<_> = texts.iter_mut().zip(&mut records).filter(|(text, _)| text.text.is_none()).collect();
    let sought = missing.iter().map(|(text, _)| query::sought_page(snapshot, text.document));
    let sought = sought.collect::<Result<Vec<_>, _>>()?;
    if sought.is_empty() {
        return Ok(records);
    }
    let found = service.pages_in_inputs(snapshot, &sought)?;
    for ((text, record), found) in missing.iter_mut().zip(found) {
        if let Some(found) = found {
            let found_text = query::text_of_page(&found.page, &snapshot.rule().canonical);
            let found_text = found_text.map_err(HttpError::nothing_to_compare)?;
            (text.text, text.missing, **record) = (Some(found_text), None, Some(found.origin));
        }
    }
    Ok(records)
}
