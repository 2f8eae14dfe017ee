//! Limits: how large the parts of a record may be.

use super::rejection::{Reason, Rejection};
use crate::document::{Content, resolve};
use serde::{Deserialize, Serialize};

/// The limits for a record's parts. Records beyond them are rejected, but for texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Bytes of a body, after decompression.
    pub body_bytes_max: usize,
    /// Bytes of a URL.
    pub url_bytes_max: usize,
    /// Bytes of a sweep's name.
    pub sweep_bytes_max: usize,
    /// Words or features of a page.
    pub words_max: usize,
    /// Bytes of the text that a store keeps of a document. Pages with a longer text are taken in, without it.
    pub text_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            body_bytes_max: 8 << 20,
            url_bytes_max: 8 << 10,
            sweep_bytes_max: 256,
            words_max: 1_000_000,
            text_bytes_max: 1 << 20,
        }
    }
}

impl Limits {
    /// The longest JSON line that can hold a body at the limit: six bytes (`\u0000`) for each byte, and the other
    /// fields.
    pub fn json_bytes_max(&self) -> usize {
        self.body_bytes_max.saturating_add(self.url_bytes_max).saturating_mul(6).saturating_add(64 << 10)
    }

    /// Whether a rejection can name a URL. An empty one is none.
    pub(super) fn is_shown(&self, url: &str) -> bool {
        !url.is_empty() && url.len() <= self.url_bytes_max
    }

    /// Creates the rejection of a body over the limit.
    pub fn body_too_large(&self, n_bytes: usize) -> Rejection {
        let max = self.body_bytes_max;
        Rejection::new(
            Reason::TooLarge,
            format!("the body has {n_bytes} bytes, over limits.body_bytes_max = {max}; raise it to take such pages"),
        )
    }

    /// Creates the rejection of a page with too many words or features.
    pub(super) fn too_many_words(&self, n: usize) -> Rejection {
        let max = self.words_max;
        let message =
            format!("the page has {n} words or features, over limits.words_max = {max}; raise it to take such pages");
        Rejection::new(Reason::TooLarge, message)
    }

    /// Checks whether a text can be a sweep's name: not too long, without control characters.
    ///
    /// # Errors
    /// A [`Rejection`] that says what is wrong.
    pub fn check_sweep(&self, sweep: Option<&str>) -> Result<(), Rejection> {
        let (name, max) = (sweep.unwrap_or_default(), self.sweep_bytes_max);
        let invalid = |message: String| Err(Rejection::new(Reason::InvalidField, message));
        if name.len() > max {
            invalid(format!("the sweep's name is longer than limits.sweep_bytes_max = {max} bytes"))
        } else if name.chars().any(char::is_control) {
            invalid("the sweep's name has control characters, such as line ends; leave them out".into())
        } else {
            Ok(())
        }
    }

    /// Returns the content of a page that redirects to an absolute URL or a reference, as in a `Location` header.
    ///
    /// # Errors
    /// A [`Rejection`] if the target is missing, is the page itself, or cannot be a page's key.
    pub fn redirect(&self, url: &str, target: Option<&str>) -> Result<Content, Rejection> {
        let useless = |what: &str| Rejection::new(Reason::HttpStatus, format!("the redirect {what}"));
        let target = target.filter(|target| !target.trim().is_empty()).ok_or_else(|| useless("has no target"))?;
        let target =
            resolve(url, target).ok_or_else(|| useless("has a relative target, and the page's URL is not absolute"))?;
        self.check_url(&target)
            .map_err(|wrong| Rejection { message: format!("the redirect's target: {}", wrong.message), ..wrong })?;
        if target == url {
            return Err(useless("leads to the page itself"));
        }
        Ok(Content::Redirect(target))
    }

    /// Checks whether a text can be a page's key: not empty, not too long, without blanks and control characters.
    ///
    /// # Errors
    /// A [`Rejection`] that says what is wrong.
    pub fn check_url(&self, url: &str) -> Result<(), Rejection> {
        let invalid = |message: String| Err(Rejection::new(Reason::InvalidUrl, message));
        if url.is_empty() {
            invalid("the URL is empty".into())
        } else if url.len() > self.url_bytes_max {
            invalid(format!("the URL has {} bytes, over limits.url_bytes_max = {}", url.len(), self.url_bytes_max))
        } else if url.chars().any(|c| c.is_control() || c.is_whitespace()) {
            invalid("the URL has blanks or control characters; percent-encode them".into())
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wrong once: a limit of 2^63 - 1 bytes wrapped, and lines of 195 KB were over it.
    #[test]
    fn the_longest_line_does_not_wrap() {
        for (body_bytes_max, expected) in [(10, 114_748), (isize::MAX as usize, usize::MAX), (usize::MAX, usize::MAX)] {
            let limits = Limits { body_bytes_max, ..Limits::default() };
            assert_eq!(limits.json_bytes_max(), expected);
        }
    }
}
