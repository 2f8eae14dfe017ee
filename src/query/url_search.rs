//! URLs by a part of them. No index holds parts, so a search looks through a bounded number of URLs at a time.

use crate::document::Fingerprint;
use crate::ports::{Snapshot, StoreError};
use crate::sweep::Observation;
use memchr::memmem::Finder;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// URLs that one search looks through.
const URLS_MAX: usize = 100_000;

/// Where a search continues.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SearchPosition {
    /// The last URL of the parts of the store that are done, in the order of the store.
    done: Option<String>,
    /// The last match shown of the part after it, in the order of matches.
    shown: Option<String>,
}

/// A URL that matches, and its newest sighting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlMatch {
    /// The URL.
    pub url: String,
    /// What stands there.
    pub newest: Observation,
}

/// Matches of one search.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UrlMatches {
    /// In alphabetical order.
    pub matches: Vec<UrlMatch>,
    /// How many more were found than these.
    pub n_more: usize,
    /// URLs that were looked through.
    pub n_searched: usize,
    /// Where the search continues; none: the store has no more.
    pub next: Option<SearchPosition>,
}

/// The words of a search, in lower case.
struct Words(Vec<Finder<'static>>);

impl Words {
    fn new(text: &str) -> Self {
        Words(text.split_whitespace().map(|word| Finder::new(&word.to_lowercase()).into_owned()).collect())
    }

    /// Whether a URL holds all of them, whatever the case. `lower` is a buffer.
    fn are_in(&self, url: &str, lower: &mut String) -> bool {
        lower.clear();
        if url.is_ascii() {
            lower.push_str(url);
            lower.make_ascii_lowercase();
        } else {
            lower.push_str(&url.to_lowercase());
        }
        self.0.iter().all(|word| word.find(lower.as_bytes()).is_some())
    }
}

/// Finds the URLs that hold each word of `text`, whatever the case. Looks through at most 100,000 URLs after a position,
/// in the order of the store, and returns the first `limit` that match.
///
/// # Errors
/// [`StoreError`]
pub fn find_urls(
    snapshot: &impl Snapshot,
    text: &str,
    after: Option<&SearchPosition>,
    limit: usize,
) -> Result<UrlMatches, StoreError> {
    let words = Words::new(text);
    let mut lower = String::new();
    let after = after.cloned().unwrap_or_default();
    let (mut n_searched, mut n_found, mut last, mut has_more) = (0, 0, None, false);
    let mut found: BTreeSet<String> = BTreeSet::new();
    snapshot.each_url_after(after.done.as_deref(), &mut |url| {
        if n_searched == URLS_MAX {
            has_more = true;
            return false;
        }
        n_searched += 1;
        if n_searched == URLS_MAX {
            last = Some(url.to_string());
        }
        let is_new = after.shown.as_ref().is_none_or(|shown| url > shown.as_str());
        if is_new && words.are_in(url, &mut lower) {
            n_found += 1;
            found.insert(url.to_string());
            if found.len() > limit {
                found.pop_last();
            }
        }
        true
    })?;
    let n_more = n_found - found.len();
    let next = match found.last().filter(|_| n_more > 0) {
        Some(shown) => Some(SearchPosition { shown: Some(shown.clone()), ..after }),
        None => last.filter(|_| has_more).map(|done| SearchPosition { done: Some(done), shown: None }),
    };
    let urls: Vec<String> = found.into_iter().collect();
    let keys: Vec<Fingerprint> = urls.iter().map(|url| snapshot.key_of(url)).collect();
    let states = snapshot.states(&keys)?;
    let matches = urls.into_iter().zip(states);
    let matches = matches.filter_map(|(url, state)| Some(UrlMatch { url, newest: state?.newest })).collect();
    Ok(UrlMatches { matches, n_more, n_searched, next })
}
