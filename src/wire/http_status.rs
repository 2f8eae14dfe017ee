//! HTTP statuses: what they say about a URL.

use super::rejection::{Reason, Rejection};

/// What an HTTP status says about a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusMeaning {
    /// The page is at the URL.
    Present,
    /// The page no longer exists.
    Gone,
    /// The page is at another URL.
    Redirect,
}

impl StatusMeaning {
    /// Interprets a status.
    ///
    /// # Errors
    /// A [`Rejection`] for statuses that say nothing about the page.
    pub fn from_status(status: u16) -> Result<Self, Rejection> {
        match status {
            200..=299 => Ok(StatusMeaning::Present),
            300..=303 | 307 | 308 => Ok(StatusMeaning::Redirect),
            404 | 410 => Ok(StatusMeaning::Gone),
            _ => Err(Rejection::new(Reason::HttpStatus, format!("HTTP status {status} brings no page"))),
        }
    }
}
