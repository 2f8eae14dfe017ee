//! A cluster over time: a row for each URL, a column for each sweep, the newest first, and in each cell the version that
//! stood there.

use super::super::archive;
use super::super::error::HttpError;
use super::super::request::QueryRequest;
use super::html::{Html, site_and_path};
use crate::document::{DocumentId, FetchTime};
use crate::ports::{Snapshot, StoreError};
use crate::query::ClusterAnswer;
use crate::sweep::{Seen, Sighting};
use std::collections::{BTreeMap, HashMap, HashSet};

/// URLs and sweeps shown at once: more need links, and a screen.
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

    pub fn contains(&self, document: DocumentId) -> bool {
        self.number.contains_key(&document)
    }

    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// A version's sign, which leads to what changed since an earlier version.
    fn sign_since(&self, html: &mut Html, document: DocumentId, earlier: Option<DocumentId>) {
        let numbers = self.number.get(&document).zip(earlier.and_then(|earlier| self.number.get(&earlier)));
        let (Some((number, number_before)), Some(earlier)) = (numbers, earlier) else {
            return self.sign(html, document);
        };
        html.raw("<a class=\"since\" href=\"/compare?a=").text(earlier).raw("&amp;b=").text(document);
        html.raw("\" aria-label=\"").text(letters(*number)).raw(": what changed since ").text(letters(*number_before));
        html.raw("\">");
        self.sign(html, document);
        html.raw("</a>");
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

/// Which part of a cluster is shown: how many URLs and newest sweeps are left out before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Window {
    pub urls_from: usize,
    pub sweeps_from: usize,
}

impl Window {
    /// # Errors
    /// [`HttpError`] where a parameter is no number.
    pub fn from_request(request: &QueryRequest) -> Result<Self, HttpError> {
        let number = |name: &str| {
            let Some(given) = request.given(name) else { return Ok(0) };
            let wrong = || HttpError::bad_request("bad-parameter", format!("{name} must be a number"));
            given.parse().map_err(|_| wrong())
        };
        Ok(Window { urls_from: number("urls_from")?, sweeps_from: number("sweeps_from")? })
    }
}

/// A cluster over time, as the page of one of its URLs shows it.
pub(super) struct Timeline<'a> {
    pub cluster: &'a ClusterAnswer,
    pub versions: &'a Versions,
    /// The URL of the page.
    pub own: &'a str,
    /// The newest sweep of the store.
    pub newest_sweep: Option<&'a str>,
    pub archive_url: &'a str,
    pub window: Window,
}

/// A sweep, or a day without one, and when it began.
struct Column {
    name: String,
    at: FetchTime,
}

impl Timeline<'_> {
    /// Shows it. Cells also show what else stood at a URL before and after.
    pub fn show(&self, html: &mut Html, snapshot: &impl Snapshot) -> Result<(), StoreError> {
        let urls = urls(self.cluster, self.own);
        let first_row = self.window.urls_from.min(urls.len().saturating_sub(1));
        let shown = &urls[first_row..urls.len().min(first_row + ROWS_MAX)];
        let mut histories = Vec::new();
        for url in shown {
            histories.push((*url, snapshot.sightings_of_url(url)?));
        }
        let all = columns(&histories);
        let first = self.window.sweeps_from.min(all.len().saturating_sub(1));
        let columns = &all[first..all.len().min(first + COLUMNS_MAX)];
        let sweeps = ["Newer sweeps", "Older sweeps", "sweeps"];
        self.pager(html, sweeps, [first, columns.len(), all.len(), COLUMNS_MAX], |from| Window {
            sweeps_from: from,
            ..self.window
        });
        html.raw(
            "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Timeline\"><table class=\"timeline\">",
        );
        head(html, columns);
        let mut sites: Vec<&str> = Vec::new();
        for (url, _) in &histories {
            let (site, _) = site_and_path(url);
            if !sites.contains(&site) {
                sites.push(site);
            }
        }
        for site in sites {
            html.raw("<tbody>");
            if !site.is_empty() {
                html.raw("<tr class=\"site\"><th scope=\"rowgroup\">").url(site).raw("</th><td colspan=\"");
                html.text(columns.len()).raw("\"></td></tr>");
            }
            for (url, history) in histories.iter().filter(|(url, _)| site_and_path(url).0 == site) {
                self.row(html, url, history, columns);
            }
            html.raw("</tbody>");
        }
        html.raw("</table></div>");
        let pages = ["Previous URLs", "More URLs", "URLs"];
        self.pager(html, pages, [first_row, shown.len(), urls.len(), ROWS_MAX], |from| Window {
            urls_from: from,
            ..self.window
        });
        Ok(())
    }

    fn row(&self, html: &mut Html, url: &str, history: &[Sighting], columns: &[Column]) {
        let is_own = url == self.own;
        html.raw(if is_own { "<tr class=\"own\">" } else { "<tr>" }).raw("<th scope=\"row\"");
        if is_own {
            html.raw(" aria-current=\"true\" title=\"").text(url).raw("\">").url(site_and_path(url).1);
        } else {
            html.raw(">").path_link(url);
        }
        html.raw("<span class=\"below\">");
        let newest = history.last().map(|sighting| &sighting.moment);
        if newest.is_some_and(|newest| newest.seen.document().is_some() && newest.sweep.as_deref() == self.newest_sweep)
        {
            html.raw("<span class=\"good\">still here</span> ");
        }
        let copy = history.iter().rev().find(|sighting| sighting.moment.seen.document().is_some());
        outside_links(html, self.archive_url, url, copy.map(|copy| copy.moment.fetched_at));
        html.raw("</span></th>");
        let versions = with_earlier(history);
        for Column { name, .. } in columns {
            html.raw("<td>");
            cell(html, self.versions, versions.iter().filter(|(sighting, _)| column(sighting) == *name));
            html.raw("</td>");
        }
        html.raw("</tr>");
    }

    /// Links to the parts before and after the one shown; nothing where all is shown.
    fn pager(
        &self,
        html: &mut Html,
        [before, after, what]: [&'static str; 3],
        [first, n_shown, n_all, step]: [usize; 4],
        window: impl Fn(usize) -> Window,
    ) {
        if n_shown == n_all {
            return;
        }
        html.raw("<nav class=\"pager\" aria-label=\"").raw(what).raw("\">");
        if first > 0 {
            self.link(html, window(first.saturating_sub(step)), before);
        }
        html.raw("<span class=\"note\">")
            .text(first + 1)
            .raw("–")
            .text(first + n_shown)
            .raw(" of ")
            .text(n_all)
            .raw(" ");
        html.raw(what).raw("</span>");
        if first + n_shown < n_all {
            self.link(html, window(first + n_shown), after);
        }
        html.raw("</nav>");
    }

    fn link(&self, html: &mut Html, window: Window, name: &'static str) {
        html.raw("<a href=\"/?url=").query(self.own);
        for (parameter, value) in [("&amp;urls_from=", window.urls_from), ("&amp;sweeps_from=", window.sweeps_from)] {
            if value > 0 {
                html.raw(parameter).text(value);
            }
        }
        html.raw("\">").raw(name).raw("</a> ");
    }
}

/// The columns of some histories, the newest first.
fn columns(histories: &[(&str, Vec<Sighting>)]) -> Vec<Column> {
    let mut begins: BTreeMap<String, FetchTime> = BTreeMap::new();
    for sighting in histories.iter().flat_map(|(_, history)| history) {
        let at = begins.entry(column(sighting)).or_insert(sighting.moment.fetched_at);
        *at = (*at).min(sighting.moment.fetched_at);
    }
    let mut columns: Vec<Column> = begins.into_iter().map(|(name, at)| Column { name, at }).collect();
    columns.sort_by(|a, b| (b.at, &b.name).cmp(&(a.at, &a.name)));
    columns
}

/// The head: short dates, and the names of sweeps only where days do not tell them apart.
fn head(html: &mut Html, columns: &[Column]) {
    let days: HashSet<String> = columns.iter().map(|column| day(column.at)).collect();
    html.raw("<thead><tr><th scope=\"col\">URL</th>");
    for Column { name, at } in columns {
        let day = day(*at);
        let (year, rest) = day.split_at_checked(4).unwrap_or((&day, ""));
        html.raw("<th scope=\"col\" title=\"").text(name).raw(", from ").text(at).raw("\"><time datetime=\"").text(at);
        html.raw("\"><span class=\"year\">")
            .text(year)
            .raw("</span> ")
            .text(rest.trim_start_matches('-'))
            .raw("</time>");
        if days.len() < columns.len() && *name != day {
            html.raw("<bdi class=\"sweep\">").text(name).raw("</bdi>");
        }
        html.raw("</th>");
    }
    html.raw("</tr></thead>");
}

/// Links to a URL on the web and to its copy in an archive, near a time.
pub(super) fn outside_links(html: &mut Html, archive_url: &str, url: &str, copy: Option<FetchTime>) {
    if url.starts_with("https://") || url.starts_with("http://") {
        html.outside(url, "live", url).raw(" ");
    }
    if let Some(link) = copy.and_then(|copy| archive::link(archive_url, url, copy)) {
        html.outside(&link, "archive", url);
    }
}

/// The sightings of a URL, oldest first, each with the other document that stood there before it.
fn with_earlier(history: &[Sighting]) -> Vec<(&Sighting, Option<DocumentId>)> {
    let (mut versions, mut last) = (Vec::with_capacity(history.len()), None);
    for sighting in history {
        let document = sighting.moment.seen.document();
        versions.push((sighting, last.filter(|last| document.is_some_and(|document| document != *last))));
        last = document.or(last);
    }
    versions
}

fn cell<'s>(
    html: &mut Html,
    versions: &Versions,
    sightings: impl Iterator<Item = &'s (&'s Sighting, Option<DocumentId>)>,
) {
    let mut last = None;
    for (sighting, earlier) in sightings {
        let seen = &sighting.moment.seen;
        if last == Some(seen) {
            continue;
        }
        last = Some(seen);
        match seen {
            Seen::Document(document) if versions.contains(*document) => {
                versions.sign_since(html, *document, *earlier);
            }
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
