//! HTTP statuses: what they say about a URL.

use super::rejection::{Reason, Rejection};

/// What an HTTP status says about a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusMeaning {
    /// The page stands at the URL.
    Stands,
    /// Nothing stands at the URL any more.
    Gone,
    /// The page stands at another URL.
    Redirects,
}

impl StatusMeaning {
    /// Interprets a status.
    ///
    /// # Errors
    /// A [`Rejection`] for statuses that say nothing about the page.
    pub fn from_status(status: u16) -> Result<Self, Rejection> {
        match status {
            200..=299 => Ok(StatusMeaning::Stands),
            300..=303 | 307 | 308 => Ok(StatusMeaning::Redirects),
            404 | 410 => Ok(StatusMeaning::Gone),
            _ => Err(Rejection::new(Reason::HttpStatus, format!("HTTP status {status} brings no page"))),
        }
    }
}
