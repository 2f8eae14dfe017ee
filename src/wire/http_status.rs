//! What an HTTP status says of a URL.

use super::rejection::{Reason, Rejection};

/// What an HTTP status says of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusMeaning {
    /// The page stands there.
    Stands,
    /// Nothing stands there any more.
    Gone,
    /// It stands elsewhere.
    Redirects,
}

impl StatusMeaning {
    /// What an HTTP status says of a URL.
    ///
    /// # Errors
    /// A [`Rejection`] for the statuses that say nothing of it.
    pub fn from_status(status: u16) -> Result<Self, Rejection> {
        match status {
            200..=299 => Ok(StatusMeaning::Stands),
            300..=303 | 307 | 308 => Ok(StatusMeaning::Redirects),
            404 | 410 => Ok(StatusMeaning::Gone),
            _ => Err(Rejection::new(Reason::HttpStatus, format!("HTTP status {status} brings no page"))),
        }
    }
}
