//! What a page says of the counts of the whole store: of which moment they are.

use super::super::overview::Counted;
use super::html::Html;

/// Says that nothing is counted yet.
pub(super) fn not_counted(html: &mut Html) {
    html.raw("<p class=\"problem\">The store is being counted for the first time since this server started. ");
    html.raw("Load the page again in a moment. If it stays so, the server\u{2019}s log says why.</p>");
}

/// Says of which moment a count is.
pub(super) fn counted_at(html: &mut Html, counted: &Counted, seq: u64) {
    if counted.overview.seq == seq {
        html.raw("Counted over the whole store, up to date.");
    } else {
        html.raw("Counted over the whole store ")
            .count(counted.at.elapsed().as_secs(), "second", "seconds")
            .raw(" ago.");
    }
}
