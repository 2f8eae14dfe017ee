//! Assembles a page from parts that are read one by one.

use super::rejection::{Reason, Rejection};
use crate::document::{Content, FetchTime, Page};

/// Assembles a page. If a part is missing or wrong, the rejection has the other parts.
pub(super) fn assemble_page(
    url: Result<String, Rejection>,
    fetched_at: Result<FetchTime, Rejection>,
    sweep: Result<Option<String>, Rejection>,
    content: impl FnOnce(&str) -> Result<Content, Rejection>,
) -> Result<Page, Rejection> {
    let mut known = Rejection::new(Reason::InvalidField, "");
    known.url = url.as_ref().ok().cloned();
    known.fetched_at = fetched_at.as_ref().ok().copied();
    known.sweep = sweep.as_ref().ok().cloned().flatten();
    let whole = || {
        let url = url?;
        let content = content(&url)?;
        Ok(Page { url, fetched_at: fetched_at?, sweep: sweep?, content })
    };
    whole().map_err(|wrong: Rejection| Rejection { reason: wrong.reason, message: wrong.message, ..known })
}
