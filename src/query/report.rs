//! A site or a crawl in figures: duplicates by host and section, the largest clusters with a URL for each, and what moved.

use super::audit::{AuditRow, audit};
use super::changes::{By, Changes, changes};
use super::lost::LostSearch;
use super::moves::{MoveRow, export_moves};
use super::present::present;
use crate::document::{ClusterId, DocumentId, FetchTime, host_of};
use crate::ports::{LinkView, Present, Snapshot, StoreError};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// The smallest cluster that is looked at as suspicious.
const SUSPICIOUS_MIN: usize = 10;

/// What a report is about.
#[derive(Clone, Debug)]
pub struct ReportQuestion {
    /// The URLs of this host alone.
    pub host: Option<String>,
    /// Rows of each list.
    pub limit: usize,
    /// How places of moved pages are found.
    pub search: LostSearch,
}

/// Counts of the URLs of a host, or of a section of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlaceRow {
    /// The host, or the host and the first part of the path.
    pub name: String,
    /// URLs at which a page stands.
    pub n_pages: u64,
    /// Those that another URL of their cluster could stand for: each page but one of every cluster.
    pub n_duplicates: u64,
    /// URLs whose page is gone, lost or redirected.
    pub n_dead: u64,
}

/// A cluster with two standing pages or more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandingCluster {
    /// The cluster.
    pub cluster: ClusterId,
    /// Its different texts that stand somewhere.
    pub n_documents: usize,
    /// The URL that could stand for all: HTTPS before HTTP, without a query before with one, then the shortest.
    pub canonical: String,
    /// The other URLs, in order.
    pub others: Vec<String>,
}

/// A site or a crawl in figures.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// URLs at which a page stands.
    pub n_pages: u64,
    /// Those that another URL of their cluster could stand for.
    pub n_duplicates: u64,
    /// Clusters of two standing pages or more.
    pub n_clusters: u64,
    /// URLs whose page is gone, lost or redirected.
    pub n_dead: u64,
    /// Those whose content stands elsewhere.
    pub n_moved: u64,
    /// When the first and the last sighting was.
    pub seen: Option<[FetchTime; 2]>,
    /// By host, most duplicates first.
    pub hosts: Vec<PlaceRow>,
    /// By section, most duplicates first.
    pub sections: Vec<PlaceRow>,
    /// The largest clusters first.
    pub clusters: Vec<StandingCluster>,
    /// Dead URLs whose content stands elsewhere, the surest first.
    pub moved: Vec<MoveRow>,
    /// Dead URLs whose content stands nowhere, the latest first.
    pub lost: Vec<MoveRow>,
    /// How pages change, sweep by sweep; of the whole store, whatever the host.
    pub changes: Option<Changes>,
    /// Clusters that look as if a template or a chain had made them; of the whole store, too.
    pub suspicious: Vec<AuditRow>,
}

/// Reads the whole store.
///
/// # Errors
/// [`StoreError`]
pub fn report(snapshot: &(impl Snapshot + LinkView), question: &ReportQuestion) -> Result<Report, StoreError> {
    let is_asked = |url: &str| question.host.as_ref().is_none_or(|host| host_of(url) == host);
    let mut report = Report::default();
    let (mut hosts, mut sections) = (Places::default(), Places::default());
    let mut standing: Vec<(ClusterId, DocumentId, String)> = Vec::new();
    present(snapshot, |url, Present { newest, cluster }| {
        if !is_asked(&url) {
            return true;
        }
        let [first, last] = report.seen.unwrap_or([newest.fetched_at; 2]);
        report.seen = Some([first.min(newest.fetched_at), last.max(newest.fetched_at)]);
        match newest.seen.document().zip(cluster) {
            Some((document, cluster)) => standing.push((cluster, document, url)),
            None => {
                report.n_dead += 1;
                hosts.of(host_of(&url)).n_dead += 1;
                sections.of(section_of(&url)).n_dead += 1;
            }
        }
        true
    })?;
    report.n_pages = standing.len() as u64;
    standing.sort_unstable_by(|a, b| (a.0, preference(&a.2)).cmp(&(b.0, preference(&b.2))));
    for group in standing.chunk_by(|a, b| a.0 == b.0) {
        for (at, (_, _, url)) in group.iter().enumerate() {
            for row in [hosts.of(host_of(url)), sections.of(section_of(url))] {
                row.n_pages += 1;
                row.n_duplicates += u64::from(at > 0);
            }
        }
        if let [(cluster, _, canonical), others @ ..] = group
            && !others.is_empty()
        {
            report.n_clusters += 1;
            report.n_duplicates += others.len() as u64;
            let mut documents: Vec<DocumentId> = group.iter().map(|(_, document, _)| *document).collect();
            documents.sort_unstable();
            documents.dedup();
            report.clusters.push(StandingCluster {
                cluster: *cluster,
                n_documents: documents.len(),
                canonical: canonical.clone(),
                others: others.iter().map(|(_, _, url)| url.clone()).collect(),
            });
        }
    }
    report.clusters.sort_by_key(|cluster| (Reverse(cluster.others.len()), cluster.cluster));
    report.clusters.truncate(question.limit);
    (report.hosts, report.sections) = (hosts.rows(question.limit), sections.rows(question.limit));
    add_moves(snapshot, question, &is_asked, &mut report)?;
    report.changes = Some(changes(snapshot, By::Sweep, &question.search)?);
    report.suspicious = audit(snapshot, SUSPICIOUS_MIN)?;
    report.suspicious.truncate(question.limit);
    Ok(report)
}

fn add_moves(
    snapshot: &impl Snapshot,
    question: &ReportQuestion,
    is_asked: &dyn Fn(&str) -> bool,
    report: &mut Report,
) -> Result<(), StoreError> {
    export_moves(snapshot, &question.search, |row| {
        if is_asked(&row.url) {
            let list = if row.to.is_some() { &mut report.moved } else { &mut report.lost };
            list.push(row);
        }
        true
    })?;
    report.n_moved = report.moved.len() as u64;
    report
        .moved
        .sort_by(|a, b| b.score.unwrap_or_default().total_cmp(&a.score.unwrap_or_default()).then(a.url.cmp(&b.url)));
    report.lost.sort_by(|a, b| (b.fetched_at, &a.url).cmp(&(a.fetched_at, &b.url)));
    report.moved.truncate(question.limit);
    report.lost.truncate(question.limit);
    Ok(())
}

/// What makes one URL better than another to stand for a cluster; the smallest is best.
pub(super) fn preference(url: &str) -> (bool, bool, usize, &str) {
    (!url.starts_with("https:"), url.contains('?'), url.len(), url)
}

/// The host and the first part of the path, if there is more path behind it.
fn section_of(url: &str) -> &str {
    let begin = url.find("://").map_or(0, |at| at + 3);
    let path = url[begin..].find('/').map_or(url.len(), |at| begin + at + 1);
    let end = url[path..].find('/').map_or(path, |at| path + at + 1);
    &url[begin..end]
}

/// Counts by name.
#[derive(Default)]
struct Places(HashMap<String, PlaceRow>);

impl Places {
    fn of(&mut self, name: &str) -> &mut PlaceRow {
        self.0.entry(name.to_string()).or_insert_with(|| PlaceRow { name: name.to_string(), ..PlaceRow::default() })
    }

    fn rows(self, limit: usize) -> Vec<PlaceRow> {
        let sorted: BTreeMap<String, PlaceRow> = self.0.into_iter().collect();
        let mut rows: Vec<PlaceRow> = sorted.into_values().collect();
        rows.sort_by_key(|row| Reverse((row.n_duplicates, row.n_pages)));
        rows.truncate(limit);
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_the_first_part_of_the_path() {
        for (url, section) in [
            ("https://a.example/doc/cli/x.html", "a.example/doc/"),
            ("https://a.example/x.html", "a.example/"),
            ("https://a.example", "a.example"),
            ("a/b/c", "a/b/"),
        ] {
            assert_eq!(section_of(url), section);
        }
    }

    #[test]
    fn the_url_that_stands_for_others() {
        let mut urls = ["http://a/", "https://a/?x", "https://a/long", "https://a/b", "https://a/c"];
        urls.sort_by_key(|url| preference(url));
        assert_eq!(urls, ["https://a/b", "https://a/c", "https://a/long", "https://a/?x", "http://a/"]);
    }
}
