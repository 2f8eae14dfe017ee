//! `page_text`: the text of an HTML page.

use crate::error::usage;
use lookalike::document::{Body, CanonicalRule, MediaType, PageContent, tidy_text};
use pyo3::prelude::*;

/// A page as text, or as the bytes received.
#[derive(FromPyObject)]
pub(crate) enum Page {
    Text(String),
    Bytes(Vec<u8>),
}

/// Returns the text of an HTML page: all of it, or its own content.
#[pyfunction]
pub(crate) fn page_text(py: Python<'_>, page: Page, content: &str, charset: Option<String>) -> PyResult<String> {
    let content = match content {
        "all" => PageContent::All,
        "main" => PageContent::Main,
        other => return Err(usage(format!("content is \"all\" or \"main\", not \"{other}\""))),
    };
    let body = match page {
        Page::Text(text) => Body::Text(text),
        Page::Bytes(bytes) => Body::Bytes { bytes, charset },
    };
    py.detach(|| {
        let text = tidy_text(&body, MediaType::Html, &CanonicalRule { content });
        text.map(|text| text.into_owned()).map_err(|error| usage(error.to_string()))
    })
}
