//! Where a URL leads now: what links say about it is about the URL at the end of its redirects.

use crate::document::DocumentId;
use crate::ports::{Snapshot, StoreError};
use crate::related::REDIRECTS_MAX;
use crate::sweep::Seen;

/// The way from a URL through its redirects.
pub struct RedirectWay {
    /// The URLs on the way that redirect.
    pub redirecting: Vec<String>,
    /// The URL at its end; `None` where redirects lead in a circle or too far.
    pub end: Option<String>,
    /// The document that stands at the end.
    pub document: Option<DocumentId>,
}

impl RedirectWay {
    /// Follows the redirects of a URL.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn from_url(snapshot: &impl Snapshot, url: &str) -> Result<Self, StoreError> {
        let (mut url, mut redirecting) = (url.to_string(), Vec::new());
        loop {
            let state = snapshot.states(&[snapshot.key_of(&url)])?.pop().flatten();
            let seen = state.map(|state| state.newest.seen);
            let Some(Seen::Redirect(next)) = seen else {
                let document = seen.and_then(|seen| seen.document());
                return Ok(RedirectWay { redirecting, end: Some(url), document });
            };
            redirecting.push(std::mem::replace(&mut url, next));
            if redirecting.len() > REDIRECTS_MAX {
                return Ok(RedirectWay { redirecting, end: None, document: None });
            }
        }
    }
}
