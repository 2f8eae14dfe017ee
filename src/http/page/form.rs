//! The forms of the pages: the texts and files that a person sends.

use super::super::error::HttpError;
use super::super::request::QueryRequest;
use super::html::Html;
use crate::document::{Body as PageBody, Content, FetchTime, MediaType, Page};
use axum::body::Body;
use axum::extract::{DefaultBodyLimit, FromRequest, Multipart, Request};
use axum::http::header;

/// What a person gave in a field for a text and one for a file: the file where both are there.
pub(super) fn text_or_file(text: Vec<u8>, file: Vec<u8>) -> Vec<u8> {
    if file.is_empty() { text } else { file }
}

/// A page that a person gave, HTML or text. Messages call it `name`.
pub(super) fn given_page(bytes: Vec<u8>, name: &str) -> Page {
    let content = Content::Body { media_type: MediaType::Unknown, body: PageBody::Bytes { bytes, charset: None } };
    Page { url: name.into(), fetched_at: FetchTime(0), sweep: None, content }
}

/// The fields and the button of a form that asks the same question again, this time of the inputs.
pub(super) fn read_inputs(html: &mut Html, request: &QueryRequest, names: &[&'static str], n_inputs: usize) {
    for name in names {
        if let Some(value) = request.given(name) {
            html.raw("<input type=\"hidden\" name=\"").raw(name).raw("\" value=\"").text(value).raw("\">");
        }
    }
    html.raw("<input type=\"hidden\" name=\"inputs\" value=\"true\"><p><button>Read the inputs for it</button> ");
    html.raw("<span class=\"note\">").count(n_inputs as u64, "file", "files").raw(" may be read.</span></p>");
}

/// The fields of a form, in the order of `names`; empty where the form lacks one.
///
/// # Errors
/// [`HttpError`] where the body is no form, or has another field.
pub(super) fn fields<const N: usize>(request: &QueryRequest, names: [&str; N]) -> Result<[Vec<u8>; N], HttpError> {
    let not_the_form = || {
        let (path, names) = (request.path(), names.join(", "));
        let message = format!("send multipart/form-data with fields of {names}, as the form at {path} does");
        HttpError::bad_request("bad-body", message)
    };
    let content_type = request.content_type.as_deref().unwrap_or("");
    let form = Request::builder().header(header::CONTENT_TYPE, content_type);
    let mut form = form.body(Body::from(request.body.clone())).map_err(|_| not_the_form())?;
    // The body has come whole, within the limit of all bodies.
    DefaultBodyLimit::disable().apply(&mut form);
    // The body is in memory, so this never waits.
    tokio::runtime::Handle::current().block_on(async {
        let mut form = Multipart::from_request(form, &()).await.map_err(|_| not_the_form())?;
        let mut fields = [const { Vec::new() }; N];
        while let Some(field) = form.next_field().await.map_err(|_| not_the_form())? {
            let place = names.iter().position(|name| field.name() == Some(name)).ok_or_else(not_the_form)?;
            fields[place] = field.bytes().await.map_err(|_| not_the_form())?.to_vec();
        }
        Ok(fields)
    })
}
