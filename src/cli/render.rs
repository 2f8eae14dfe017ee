//! Answers as text for people.

use crate::document::{DocumentId, FetchTime};
use crate::query::{
    Changes, ClusterAnswer, Comparison, FoundPlace, Group, HostReuse, LostAnswer, SimilarDocument, Status, Sweep,
    UrlAnswer, UrlSighting,
};
use crate::sweep::{Evidence, Observation, Seen};
use indicatif::{HumanBytes, HumanCount};
use std::fmt::Write;

/// The day, or the moment where it is not midnight.
fn date(time: FetchTime) -> String {
    let text = time.to_string();
    text.strip_suffix("T00:00:00Z").map_or(text.clone(), String::from)
}

fn when(time: FetchTime, sweep: Option<&str>) -> String {
    match sweep {
        Some(sweep) => format!("{}  {sweep}", date(time)),
        None => date(time),
    }
}

fn percent(share: f64) -> String {
    let number = format!("{:.1}", share * 100.0);
    format!("{} %", number.strip_suffix(".0").unwrap_or(&number))
}

fn standing(sighting: &UrlSighting) -> String {
    let cluster = sighting.cluster.map_or(String::new(), |cluster| format!(", cluster {cluster}"));
    format!("{}{cluster}", dated(&sighting.moment))
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
        let _ = writeln!(text, "    {}", dated(&sighting.moment));
    }
    text
}

fn dated(moment: &Observation) -> String {
    let what = match &moment.seen {
        Seen::Document(document) => format!("document {document}"),
        Seen::Redirect(target) => format!("redirect to {target}"),
        nothing => nothing.as_str().to_string(),
    };
    format!("{}  {what}", when(moment.fetched_at, moment.sweep.as_deref()))
}

/// Where a page is now.
pub(super) fn lost(answer: &LostAnswer) -> String {
    let mut text = format!("{}\n", answer.url);
    if let Some(sighting) = &answer.last_seen {
        let _ = writeln!(text, "  last seen  {}", standing(sighting));
    }
    for found in &answer.details {
        let seen = found.last_seen.map_or("never seen".into(), |time| when(time, found.sweep.as_deref()));
        let _ = writeln!(text, "  found      {}\n             {seen}{}", found.url, likeness(found));
    }
    if answer.details.is_empty() {
        text.push_str("  nothing like it stands anywhere later\n");
    }
    text
}

/// How a place is like the last copy, and how that is known.
fn likeness(found: &FoundPlace) -> String {
    let list = |documents: &[DocumentId]| documents.iter().map(DocumentId::to_string).collect::<Vec<_>>().join(", ");
    let evidence = match &found.evidence {
        Evidence::Itself => "alive".to_string(),
        Evidence::Same => "the same".to_string(),
        Evidence::Direct => "resembles it".to_string(),
        Evidence::Chain { through } => format!("through documents {}", list(through)),
        Evidence::Cluster => "of its cluster".to_string(),
        Evidence::Redirect { through } if through.is_empty() => "by a redirect".to_string(),
        Evidence::Redirect { through } => format!("by a redirect through {}", through.join(", ")),
    };
    let document = found.document.map_or(String::new(), |document| format!("  document {document}"));
    let shares = found.resemblance.zip(found.contains).map_or(String::new(), |(resemblance, contains)| {
        format!(", resemblance {}, has {} of it", percent(resemblance), percent(contains))
    });
    format!("{document}  {evidence}{shares}")
}

/// All sweeps.
pub(super) fn sweeps(sweeps: &[Sweep]) -> String {
    let mut text = String::from("begun       ended          pages     gone     lost          name\n");
    for Sweep { name, row } in sweeps {
        let closed = if row.is_closed { "closed" } else { "open" };
        let day = |time: FetchTime| date(time).chars().take(10).collect::<String>();
        let _ = writeln!(
            text,
            "{:10}  {:10}  {:>8} {:>8} {:>8}  {closed:6}  {name}",
            day(row.first),
            day(row.last),
            row.n_pages,
            row.n_gone,
            row.n_lost,
        );
    }
    text
}

/// URLs grouped by what they carry.
pub(super) fn groups(groups: &[Group]) -> String {
    let mut text = String::new();
    for Group { cluster, urls } in groups {
        let cluster = cluster.map_or("never seen".to_string(), |cluster| format!("cluster {cluster}"));
        let (best, others) = urls.split_first().map_or(("", &[][..]), |(best, others)| (best.as_str(), others));
        let _ = writeln!(text, "{best}  {cluster}");
        for other in others {
            let _ = writeln!(text, "  {other}");
        }
    }
    text
}

/// The pages that carry a text, host by host.
pub(super) fn carriers(hosts: &[HostReuse]) -> String {
    let mut text = String::new();
    for HostReuse { host, carriers } in hosts {
        let _ = writeln!(text, "{} ({} URLs)", if host.is_empty() { "no host" } else { host }, carriers.len());
        for carrier in carriers {
            let _ = writeln!(
                text,
                "  {}\n    {}{}  resemblance {}, has {} of the text, which has {} of it",
                carrier.url,
                when(carrier.moment.fetched_at, carrier.moment.sweep.as_deref()),
                if carrier.stands { "" } else { "  no more" },
                percent(carrier.resemblance),
                percent(carrier.contains),
                percent(carrier.contained),
            );
        }
    }
    if hosts.is_empty() {
        text.push_str("nothing carries it\n");
    }
    text
}

/// How pages change.
pub(super) fn changes(changes: &Changes) -> String {
    let mut text = String::from(
        "     urls     pages  revisits  changed         mean  born    died  moved within / between  life, days\n",
    );
    for row in std::iter::once(&changes.all).chain(&changes.rows) {
        let share = if row.revisits == 0 { 0.0 } else { row.changes as f64 / row.revisits as f64 };
        let _ = writeln!(
            text,
            "{:>9} {:>9} {:>9} {:>8} {:>7} {:>8} {:>6} {:>7} {:>13} {:>9} {:>11}  {}",
            row.urls,
            row.pages,
            row.revisits,
            row.changes,
            percent(share),
            row.mean_resemblance.map_or("–".into(), percent),
            row.births,
            row.deaths,
            row.moved_within,
            row.moved_between,
            row.median_life_days.map_or("–".into(), |days| format!("{days:.0}")),
            if std::ptr::eq(row, &changes.all) { "all" } else { row.name.as_str() },
        );
    }
    let most = changes.all.resemblance.iter().copied().max().unwrap_or(0).max(1);
    text.push_str("\nresemblance of changed pages to the version before\n");
    for (tenth, count) in changes.all.resemblance.iter().enumerate() {
        let bar = "#".repeat((count * 40).div_ceil(most) as usize);
        let _ = writeln!(text, "{:>3}–{:>3} %  {count:>8}  {bar}", tenth * 10, tenth * 10 + 10);
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
        "resemblance           {} ({})\ncontainment of A in B {} ({})\ncontainment of B in A {} ({})\n",
        percent(comparison.resemblance),
        sureness(comparison.error),
        percent(comparison.containment_of_a_in_b),
        sureness(comparison.error_of_a_in_b),
        percent(comparison.containment_of_b_in_a),
        sureness(comparison.error_of_b_in_a),
    )
}

/// The documents most like one.
pub(super) fn similar(found: &[SimilarDocument]) -> String {
    let mut text = String::from("resemblance       contained        contains  document  cluster  last seen at\n");
    for likeness in found {
        let seen = likeness.last_seen.as_ref().map_or(String::new(), |sighting| {
            format!("{} ({})", sighting.url, when(sighting.moment.fetched_at, sighting.moment.sweep.as_deref()))
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
