//! The forms of the pages: the texts and files that a person sends.

use super::super::error::HttpError;
use super::super::request::QueryRequest;
use axum::body::Body;
use axum::extract::{FromRequest, Multipart, Request};
use axum::http::header;

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
    let form = form.body(Body::from(request.body.clone())).map_err(|_| not_the_form())?;
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
