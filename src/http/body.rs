//! Request bodies: a page to compare, or a list of URLs.

use super::error::{HttpError, shortened};
use super::request::QueryRequest;
use super::service::Service;
use crate::document::{Body, Content, FetchTime, MediaType, Page};
use crate::ports::Snapshots;
use crate::sketch::SketchedContent;
use axum::http::StatusCode;
use serde::Deserialize;

/// The body of a request about many URLs.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Urls {
    urls: Vec<String>,
}

/// The URLs in a request's body.
///
/// # Errors
/// [`HttpError`] where the body is something else, or names more URLs than the settings allow.
pub(super) fn urls<V: Snapshots>(service: &Service<V>, request: &QueryRequest) -> Result<Vec<String>, HttpError> {
    let Urls { urls } = serde_json::from_slice(&request.body).map_err(|error| {
        HttpError::bad_request("bad-body", format!(r#"the body must be {{"urls": ["http://…", …]}}: {error}"#))
    })?;
    let limit = service.settings.rows_max;
    if urls.len() > limit {
        let message = format!("{} URLs are more than http.rows_max = {limit}; send them in parts", urls.len());
        return Err(HttpError::bad_request("bad-body", message));
    }
    Ok(urls)
}

/// The page that is a request's body.
///
/// # Errors
/// [`HttpError`] where the body is no text by its media type.
pub(super) fn page(request: &QueryRequest) -> Result<Page, HttpError> {
    let content_type = request.content_type.as_deref().unwrap_or("");
    let (media_type, charset) = MediaType::parse(content_type).ok_or_else(|| {
        let content_type = shortened(content_type);
        let message = format!("{content_type:?} is no text; send the page with content-type text/html or text/plain");
        HttpError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media-type", message)
    })?;
    let body = Body::Bytes { bytes: request.body.to_vec(), charset };
    let content = Content::Body { media_type, body };
    Ok(Page { url: String::new(), fetched_at: FetchTime(0), sweep: None, content })
}

/// The sketch of a page that is a request's body.
///
/// # Errors
/// [`HttpError`] where the page is no text, has too many words or none.
pub(super) fn sketch<V: Snapshots>(
    service: &Service<V>,
    snapshot: &V::Snapshot,
    page: &Page,
) -> Result<SketchedContent, HttpError> {
    let sketched = service.sketch(snapshot, |sketcher| sketcher.sketch_page(page, service.limits.words_max));
    match sketched {
        Ok(Some(content)) if content.n_words > 0 => Ok(content),
        Ok(_) => Err(HttpError::nothing_to_compare("the page in the body has no words; nothing to compare")),
        Err(why) => Err(HttpError::new(StatusCode::UNPROCESSABLE_ENTITY, "no-sketch", why.to_string())),
    }
}
