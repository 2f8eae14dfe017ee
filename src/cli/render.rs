//! Answers as text for people.

use crate::pipeline::Summary;
use crate::query::{ClusterAnswer, Comparison, Likeness, LostAnswer, Standing, Status, UrlAnswer};
use crate::sweep::Sighting;
use indicatif::{HumanBytes, HumanCount};
use std::fmt::Write;

/// The day, or the moment where it is not midnight.
fn date(time: crate::document::FetchTime) -> String {
    let text = time.to_string();
    text.strip_suffix("T00:00:00Z").map_or(text.clone(), String::from)
}

fn when(time: crate::document::FetchTime, sweep: Option<&str>) -> String {
    match sweep {
        Some(sweep) => format!("{}  {sweep}", date(time)),
        None => date(time),
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// What a run did.
pub(super) fn summary(summary: &Summary) -> String {
    let mut text = String::new();
    let seconds = summary.seconds.max(0.001);
    let _ = writeln!(
        text,
        "{} records in {seconds:.1} s ({:.0} a second, {} of pages)",
        HumanCount(summary.records),
        summary.records as f64 / seconds,
        HumanBytes(summary.bytes_read)
    );
    let n = |relation| HumanCount(summary.assigned.get(relation).copied().unwrap_or(0));
    let _ = writeln!(
        text,
        "  assigned {}: {} new, {} near a known document, {} equal to one ({} identical, {} lexical, {} shingle)",
        HumanCount(summary.n_assigned()),
        n("new"),
        n("near"),
        HumanCount(
            ["identical", "lexical", "shingle"].iter().filter_map(|relation| summary.assigned.get(relation)).sum()
        ),
        n("identical"),
        n("lexical"),
        n("shingle"),
    );
    let _ = writeln!(text, "  gone {}, clusters merged {}", HumanCount(summary.gone), HumanCount(summary.merged));
    if summary.n_rejected() > 0 {
        let reasons: Vec<String> =
            summary.rejected.iter().map(|(reason, n)| format!("{} {reason}", HumanCount(*n))).collect();
        let _ = writeln!(text, "  rejected {}: {}", HumanCount(summary.n_rejected()), reasons.join(", "));
    }
    for what in &summary.unreadable {
        let _ = writeln!(text, "  unreadable: {what}");
    }
    text
}

fn standing(sighting: &Standing) -> String {
    let what = match (sighting.document, sighting.cluster) {
        (Some(document), Some(cluster)) => format!("document {document}, cluster {cluster}"),
        _ => "gone".to_string(),
    };
    format!("{}  {what}", when(sighting.fetched_at, sighting.sweep.as_deref()))
}

/// The history of a URL.
pub(super) fn url(answer: &UrlAnswer) -> String {
    let mut text = format!("{}\n", answer.url);
    for sighting in &answer.sightings {
        let _ = writeln!(text, "  {}", standing(sighting));
    }
    text
}

/// A cluster, URL by URL.
pub(super) fn cluster(answer: &ClusterAnswer) -> String {
    let mut text = format!(
        "cluster {}: {} documents, {} sightings\n",
        answer.cluster,
        answer.documents.len(),
        answer.sightings.len()
    );
    let mut url = "";
    for sighting in &answer.sightings {
        if sighting.url != url {
            url = &sighting.url;
            let _ = writeln!(text, "  {url}");
        }
        let _ = writeln!(text, "    {}", dated(sighting));
    }
    text
}

fn dated(sighting: &Sighting) -> String {
    let document = sighting.document.map_or("gone".to_string(), |document| format!("document {document}"));
    format!("{}  {document}", when(sighting.fetched_at, sighting.sweep.as_deref()))
}

/// Where a page is now.
pub(super) fn lost(answer: &LostAnswer) -> String {
    let mut text = format!("{}\n", answer.url);
    if let Some(sighting) = &answer.last_seen {
        let _ = writeln!(text, "  last seen  {}", standing(sighting));
    }
    for found in &answer.answers {
        let seen = when(found.last_seen, found.sweep.as_deref());
        let _ = writeln!(text, "  found      {}\n             {seen}  document {}", found.url, found.document);
    }
    if answer.answers.is_empty() {
        text.push_str("  nothing like it stands anywhere\n");
    }
    text
}

/// How sure a share is.
fn sureness(error: f64) -> String {
    if error == 0.0 { "exact".to_string() } else { format!("± {}", percent(error)) }
}

/// A share and its standard error, if it has one.
fn estimate(share: f64, error: f64) -> String {
    if error == 0.0 { percent(share) } else { format!("{} ± {:.1}", percent(share), error * 100.0) }
}

/// Two documents against each other.
pub(super) fn comparison(comparison: &Comparison) -> String {
    format!(
        "resemblance           {} ({}, {} shingles compared)\ncontainment of A in B {} ({})\ncontainment of B in A {} ({})\nshingles              {} in A, {} in B\n",
        percent(comparison.resemblance),
        sureness(comparison.error),
        comparison.shingles_compared,
        percent(comparison.containment_of_a_in_b),
        sureness(comparison.error_of_a_in_b),
        percent(comparison.containment_of_b_in_a),
        sureness(comparison.error_of_b_in_a),
        comparison.shingles_of_a,
        comparison.shingles_of_b,
    )
}

/// The documents most like one.
pub(super) fn similar(found: &[Likeness]) -> String {
    let mut text = String::from("resemblance       contained        contains  document  cluster  last seen at\n");
    for likeness in found {
        let seen = likeness.last_seen.as_ref().map_or(String::new(), |sighting| {
            format!("{} ({})", sighting.url, when(sighting.fetched_at, sighting.sweep.as_deref()))
        });
        let _ = writeln!(
            text,
            "{:>11}  {:>14}  {:>14}  {:>8}  {:>7}  {seen}",
            percent(likeness.comparison.resemblance),
            estimate(likeness.comparison.containment_of_a_in_b, likeness.comparison.error_of_a_in_b),
            estimate(likeness.comparison.containment_of_b_in_a, likeness.comparison.error_of_b_in_a),
            likeness.document,
            likeness.cluster,
        );
    }
    text
}

/// The paper's paragraph, with this store's numbers.
pub(super) fn status(status: &Status) -> String {
    let n = |count: u64| HumanCount(count).to_string();
    format!(
        "{} sightings of {} URLs in {} sweeps, {} of them gone\n\
         {} documents in {} clusters\n\
         {} clusters of similar documents hold {} documents; the largest{} holds {}\n\
         {} clusters of equal pages only hold {} URLs\n\
         {} events, {} on disk\n",
        n(status.sightings + status.gone),
        n(status.urls),
        n(status.sweeps),
        n(status.gone),
        n(status.documents),
        n(status.clusters),
        n(status.clusters_of_similar),
        n(status.documents_in_clusters_of_similar),
        status.largest_cluster.map(|name| format!(" ({name})")).unwrap_or_default(),
        n(status.largest),
        n(status.clusters_of_equal),
        n(status.urls_in_clusters_of_equal),
        n(status.events),
        HumanBytes(status.bytes_on_disk),
    )
}
