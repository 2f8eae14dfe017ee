//! The part of `/` with the pages about the same as a URL: why they are, and who links to them.

use super::html::Html;
use crate::ports::{RelatedView, Snapshot, StoreError};
use crate::query::{self, RelatedAnswer, RelatedPage, RelatedQuestion, SharedWord};

/// Pages shown, and words of the page asked about.
const RELATED_MAX: usize = 10;
const WORDS_MAX: usize = 12;

/// What is known of the pages related to one.
pub(super) enum RelatedPages {
    /// The store keeps nothing for them.
    NotKept,
    /// Nothing is known of what the page is about.
    Unknown,
    /// The answer.
    Known(RelatedAnswer),
}

impl RelatedPages {
    /// Asks about a URL.
    pub fn of_url(snapshot: &(impl Snapshot + RelatedView), url: &str) -> Result<Self, StoreError> {
        if !snapshot.has_related() {
            return Ok(RelatedPages::NotKept);
        }
        let answer = query::related(snapshot, RelatedQuestion::Url(url), RELATED_MAX, false)?;
        Ok(answer.map_or(RelatedPages::Unknown, RelatedPages::Known))
    }

    /// Whether anything is known of what the page is about.
    pub fn is_known(&self) -> bool {
        matches!(self, RelatedPages::Known(_))
    }

    /// Shows them; nothing where the store keeps nothing.
    pub fn show(&self, html: &mut Html) {
        let answer = match self {
            RelatedPages::NotKept => return,
            RelatedPages::Unknown => None,
            RelatedPages::Known(answer) => Some(answer),
        };
        html.raw("<section aria-labelledby=\"related\"><h2 id=\"related\">Related pages</h2>");
        match answer {
            None => {
                _ = html.raw("<p>Nothing tells what this page is about: it has no words, and no page links to it.</p>")
            }
            Some(answer) => known(html, answer),
        }
        html.raw("</section>");
    }
}

fn known(html: &mut Html, answer: &RelatedAnswer) {
    if !answer.bag.is_empty() {
        html.raw("<p class=\"note\">Its words, and those around links to it: ");
        words(html, &answer.bag[..answer.bag.len().min(WORDS_MAX)]);
        html.raw(".</p>");
    }
    if answer.built_up_to.is_none() {
        html.raw("<p>There are none yet: <code>lookalike related build</code> finds them.</p>");
    } else if answer.related.is_empty() {
        html.raw("<p>No other page shares its words.</p>");
    } else {
        html.raw("<ol class=\"found related\">");
        for page in &answer.related {
            one(html, page);
        }
        html.raw("</ol>");
    }
}

fn one(html: &mut Html, page: &RelatedPage) {
    html.raw("<li>").link(&page.url).raw(" ").share(page.similarity).raw("<br><span class=\"note\">");
    html.raw("In common: ");
    words(html, &page.shared);
    html.raw(".");
    if let Some(from) = page.linked_from.first() {
        html.raw(" Linked from ").link(from).raw(".");
    }
    html.raw("</span></li>");
}

/// Words, each isolated from the direction of the others.
fn words(html: &mut Html, words: &[SharedWord]) {
    for (at, shared) in words.iter().enumerate() {
        html.raw(if at == 0 { "<bdi>" } else { ", <bdi>" }).text(&shared.word).raw("</bdi>");
    }
}
