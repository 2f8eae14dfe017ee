//! A cluster over time: a row for each URL, a column for each sweep, and in each cell the version that stood there.

use super::html::Html;
use crate::document::{DocumentId, FetchTime};
use crate::ports::{Snapshot, StoreError};
use crate::query::ClusterAnswer;
use crate::sweep::{Seen, Sighting};
use std::collections::{BTreeMap, HashMap};

/// URLs shown, those seen last first; and sweeps shown, the newest.
const ROWS_MAX: usize = 40;
const COLUMNS_MAX: usize = 24;

/// The classes that the style sheet colours, one for each version in turn.
const COLOURS: [&str; 8] = ["v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7"];

/// The documents of a cluster as versions of one page, the oldest first.
pub(super) struct Versions {
    order: Vec<DocumentId>,
    number: HashMap<DocumentId, usize>,
    seen: HashMap<DocumentId, (FetchTime, FetchTime)>,
}

impl Versions {
    pub fn new(cluster: &ClusterAnswer) -> Self {
        let mut seen: HashMap<DocumentId, (FetchTime, FetchTime)> = HashMap::new();
        for sighting in &cluster.sightings {
            if let Some(document) = sighting.moment.seen.document() {
                let at = sighting.moment.fetched_at;
                let (first, last) = seen.entry(document).or_insert((at, at));
                (*first, *last) = ((*first).min(at), (*last).max(at));
            }
        }
        let mut order: Vec<DocumentId> = seen.keys().copied().collect();
        order.sort_by_key(|document| (seen.get(document).copied(), *document));
        let number = order.iter().enumerate().map(|(number, document)| (*document, number)).collect();
        Versions { order, number, seen }
    }

    /// The newest first.
    pub fn newest(&self) -> impl Iterator<Item = (DocumentId, FetchTime, FetchTime)> {
        let mut documents: Vec<_> =
            self.order.iter().filter_map(|document| Some((*document, self.seen.get(document)?))).collect();
        documents.sort_by_key(|(document, (_, last))| (std::cmp::Reverse(*last), *document));
        documents.into_iter().map(|(document, (first, last))| (document, *first, *last))
    }

    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// A version's sign: its letter in its colour.
    pub fn sign(&self, html: &mut Html, document: DocumentId) {
        let Some(number) = self.number.get(&document) else { return };
        html.raw("<span class=\"version ").raw(COLOURS[number % COLOURS.len()]).raw("\" title=\"document ");
        html.text(document).raw("\">").text(letters(*number)).raw("</span>");
    }
}

/// A, B, … Z, AA, AB, …
fn letters(mut number: usize) -> String {
    let mut letters = Vec::new();
    loop {
        letters.push(b'A' + (number % 26) as u8);
        match (number / 26).checked_sub(1) {
            Some(rest) => number = rest,
            None => break,
        }
    }
    letters.reverse();
    String::from_utf8(letters).unwrap_or_default()
}

/// The column of a sighting: its sweep, or its day where it has none.
fn column(sighting: &Sighting) -> String {
    sighting.moment.sweep.clone().unwrap_or_else(|| day(sighting.moment.fetched_at))
}

/// The day of a moment, in UTC.
pub(super) fn day(time: FetchTime) -> String {
    let text = time.to_string();
    text.split_once('T').map_or(text.clone(), |(day, _)| day.to_string())
}

/// The URLs of a cluster, the one of the page first, then those seen last.
fn urls<'c>(cluster: &'c ClusterAnswer, own: &'c str) -> Vec<&'c str> {
    let mut last: HashMap<&str, FetchTime> = HashMap::new();
    for sighting in &cluster.sightings {
        let at = last.entry(&sighting.url).or_insert(sighting.moment.fetched_at);
        *at = (*at).max(sighting.moment.fetched_at);
    }
    let mut urls: Vec<&str> = last.keys().copied().collect();
    urls.sort_by_key(|url| (*url != own, last.get(url).copied().map(std::cmp::Reverse), *url));
    urls
}

/// Shows a cluster over time. Cells also show what else stood at a URL before and after.
pub(super) fn timeline(
    html: &mut Html,
    snapshot: &impl Snapshot,
    cluster: &ClusterAnswer,
    versions: &Versions,
    own: &str,
) -> Result<(), StoreError> {
    let urls = urls(cluster, own);
    let shown = &urls[..urls.len().min(ROWS_MAX)];
    let mut histories = Vec::new();
    for url in shown {
        histories.push((*url, snapshot.sightings_of_url(url)?));
    }
    let mut begins: BTreeMap<String, FetchTime> = BTreeMap::new();
    for sighting in histories.iter().flat_map(|(_, history)| history) {
        let at = begins.entry(column(sighting)).or_insert(sighting.moment.fetched_at);
        *at = (*at).min(sighting.moment.fetched_at);
    }
    let mut columns: Vec<(FetchTime, String)> = begins.into_iter().map(|(name, at)| (at, name)).collect();
    columns.sort();
    let n_earlier = columns.len().saturating_sub(COLUMNS_MAX);
    let columns = &columns[n_earlier..];

    html.raw("<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Timeline\"><table class=\"timeline\">");
    html.raw("<thead><tr><th scope=\"col\">URL</th>");
    for (at, name) in columns {
        html.raw("<th scope=\"col\" title=\"from ").text(at).raw("\">").text(name).raw("</th>");
    }
    html.raw("</tr></thead><tbody>");
    for (url, history) in &histories {
        let is_own = *url == own;
        html.raw(if is_own {
            "<tr class=\"own\"><th scope=\"row\" aria-current=\"true\">"
        } else {
            "<tr><th scope=\"row\">"
        });
        if is_own {
            html.url(url)
        } else {
            html.link(url)
        };
        html.raw("</th>");
        for (_, name) in columns {
            html.raw("<td>");
            cell(html, versions, history.iter().filter(|sighting| column(sighting) == *name));
            html.raw("</td>");
        }
        html.raw("</tr>");
    }
    html.raw("</tbody></table></div>");
    more(html, urls.len() - shown.len(), n_earlier);
    Ok(())
}

fn more(html: &mut Html, n_urls: usize, n_sweeps: usize) {
    if n_urls > 0 {
        html.raw("<p class=\"note\">").text(n_urls).raw(" URLs seen less recently are not shown.</p>");
    }
    if n_sweeps > 0 {
        html.raw("<p class=\"note\">").text(n_sweeps).raw(" earlier sweeps are not shown.</p>");
    }
}

fn cell<'s>(html: &mut Html, versions: &Versions, sightings: impl Iterator<Item = &'s Sighting>) {
    let mut last = None;
    for sighting in sightings {
        let seen = &sighting.moment.seen;
        if last == Some(seen) {
            continue;
        }
        last = Some(seen);
        match seen {
            Seen::Document(document) if versions.number.contains_key(document) => versions.sign(html, *document),
            Seen::Document(_) => _ = html.raw("<span class=\"other\" title=\"a page of another cluster\">other</span>"),
            Seen::Redirect(target) => {
                html.raw("<span class=\"gone\" title=\"to ").text(target).raw("\">redirect</span>");
            }
            Seen::Gone | Seen::Lost => _ = html.raw("<span class=\"gone\">").text(seen.as_str()).raw("</span>"),
        }
    }
    if last.is_none() {
        html.raw("<span class=\"unseen\" aria-label=\"not seen\">·</span>");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_letters_as_columns_of_a_sheet() {
        for (number, expected) in [(0, "A"), (25, "Z"), (26, "AA"), (51, "AZ"), (52, "BA"), (701, "ZZ"), (702, "AAA")] {
            assert_eq!(letters(number), expected);
        }
    }
}
