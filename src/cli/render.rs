//! Answers as text for people.

use crate::document::{DocumentId, FetchTime};
use crate::query::{
    ChainLink, Changes, ClusterAnswer, Comparison, Connection, Explanation, FoundPlace, Group, HostReuse, LinkKind,
    LostAnswer, NearUrl, RelatedAnswer, RelatedCluster, RelatedTo, ReusedPage, SharedWord, SimilarDocument, Status,
    Sweep, TextAnswer, UrlAnswer, UrlSighting,
};
use crate::sweep::{Evidence, Observation, Seen};
use indicatif::{HumanBytes, HumanCount};
use std::fmt::Write;

/// The day of a moment; the whole moment where it is not midnight.
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

pub(super) fn percent(share: f64) -> String {
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

/// Related pages, best first, each with the words that it shares.
pub(super) fn related(answered: &RelatedTo<'_>) -> String {
    let words =
        |words: &[SharedWord]| words.iter().take(8).map(|shared| shared.word.as_str()).collect::<Vec<_>>().join(", ");
    let RelatedAnswer { bag, n_fragments, built_up_to, related } = &answered.answer;
    if bag.is_empty() && *n_fragments == 0 {
        return format!(
            "{}: nothing is known about it: it has no words but those that most pages have, and no page links to it\n",
            answered.of
        );
    }
    let mut text = format!("{}: {}\n", answered.of, words(bag));
    let _ = match n_fragments {
        0 => writeln!(text, "  no page links to it"),
        n => writeln!(text, "  {} passages of pages that link to it", HumanCount(*n as u64)),
    };
    if built_up_to.is_none() {
        text += "  no answers yet: `lookalike related build` makes them\n";
    } else if related.is_empty() {
        text += "  nothing is related to it\n";
    }
    for page in related {
        let cluster = page.cluster.map_or(String::new(), |cluster| format!("  cluster {cluster}"));
        let _ = writeln!(text, "  {:>5}  {}{cluster}", format!("{:.2}", page.similarity), page.url);
        let _ = writeln!(text, "         {}", words(&page.shared));
        if let Some(from) = page.linked_from.first() {
            let _ = writeln!(text, "         linked from {from}");
        }
    }
    text
}

/// A cluster of related pages.
pub(super) fn related_cluster(cluster: &RelatedCluster) -> String {
    let RelatedCluster { of, center, members, nearest } = cluster;
    let mut text = format!("the cluster of {of}\n  center  {center}\n");
    for member in members {
        let _ = writeln!(text, "          {member}");
    }
    let _ = writeln!(text, "nearest to {of}");
    for NearUrl { url, similarity } in nearest {
        let _ = writeln!(text, "  {:>6}  {url}", format!("{similarity:.2}"));
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
    if answer.newest.is_none() {
        return text + "  never seen; URLs are compared byte by byte\n";
    }
    if let Some(sighting) = &answer.last_seen {
        let _ = writeln!(text, "  last seen  {}", standing(sighting));
    }
    for found in &answer.details {
        if found.evidence == Evidence::Itself {
            text.push_str("  still here\n");
            continue;
        }
        let seen = found.last_seen.map_or("never seen".into(), |time| when(time, found.sweep.as_deref()));
        let _ = writeln!(text, "  now at     {}\n             {seen}{}", found.url, likeness(found));
    }
    if answer.details.is_empty() {
        for place in &answer.former_places {
            let seen = when(place.last_seen, place.sweep.as_deref());
            let _ = writeln!(text, "  was at     {}\n             on {seen}, {}", place.url, end(&place.newest));
        }
        if answer.former_places.is_empty() {
            text.push_str("  nothing like it was seen anywhere later\n");
        }
    }
    text
}

/// What ended the time of a page at a place.
fn end(newest: &Observation) -> String {
    let time = date(newest.fetched_at);
    match (&newest.seen, &newest.sweep) {
        (Seen::Lost, Some(sweep)) => format!("lost there in {sweep}"),
        (Seen::Lost, None) => format!("lost there on {time}"),
        (Seen::Gone, _) => format!("gone there on {time}"),
        (Seen::Redirect(target), _) => format!("redirected to {target} on {time}"),
        (Seen::Document(document), _) => format!("document {document} is there since {time}"),
    }
}

/// How a place is like the last copy, and what shows it.
fn likeness(found: &FoundPlace) -> String {
    let list = |documents: &[DocumentId]| documents.iter().map(DocumentId::to_string).collect::<Vec<_>>().join(", ");
    let evidence = match &found.evidence {
        Evidence::Itself => "still here".to_string(),
        Evidence::Same => "the same".to_string(),
        Evidence::Direct => "resembles it".to_string(),
        Evidence::Chain { through } => format!("through documents {}", list(through)),
        Evidence::Cluster => "in its cluster".to_string(),
        Evidence::Redirect { through } if through.is_empty() => "by a redirect".to_string(),
        Evidence::Redirect { through } => format!("by a redirect through {}", through.join(", ")),
    };
    let document = found.document.map_or(String::new(), |document| format!("  document {document}"));
    let shares = found.resemblance.map_or(String::new(), |resemblance| {
        format!(", resemblance {}, has {} of it", percent(resemblance), known(found.containment_of_a_in_b))
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
        let cluster = cluster.map_or("no page".to_string(), |cluster| format!("cluster {cluster}"));
        let (best, others) = urls.split_first().map_or(("", &[][..]), |(best, others)| (best.as_str(), others));
        let _ = writeln!(text, "{best}  {cluster}");
        for other in others {
            let _ = writeln!(text, "  {other}");
        }
    }
    text
}

/// The pages that carry a text, host by host.
pub(super) fn reuse(hosts: &[HostReuse]) -> String {
    let mut text = String::new();
    for HostReuse { host, pages } in hosts {
        let _ = writeln!(text, "{} ({} URLs)", if host.is_empty() { "no host" } else { host }, pages.len());
        for ReusedPage { url, moment, stands, comparison } in pages {
            let _ = writeln!(
                text,
                "  {url}\n    {}{}  resemblance {}; {} of the text is in it, {} of it is in the text",
                when(moment.fetched_at, moment.sweep.as_deref()),
                if *stands { "" } else { "  no more" },
                percent(comparison.resemblance),
                known(comparison.containment_of_a_in_b),
                known(comparison.containment_of_b_in_a),
            );
        }
    }
    if hosts.is_empty() {
        text.push_str("no page carries it\n");
    }
    text
}

/// How the pages change.
pub(super) fn changes(changes: &Changes) -> String {
    let mut text = String::from(
        "     urls     pages  revisits  changed         mean  births  deaths  moved within / between  then lost  life, days\n",
    );
    for row in std::iter::once(&changes.all).chain(&changes.rows) {
        let share = if row.n_revisits == 0 { 0.0 } else { row.n_changes as f64 / row.n_revisits as f64 };
        let _ = writeln!(
            text,
            "{:>9} {:>9} {:>9} {:>8} {:>7} {:>8} {:>7} {:>7} {:>13} {:>9} {:>10} {:>11}  {}",
            row.n_urls,
            row.n_pages,
            row.n_revisits,
            row.n_changes,
            percent(share),
            row.mean_resemblance.map_or("–".into(), percent),
            row.n_births,
            row.n_deaths,
            row.n_moved_within,
            row.n_moved_between,
            row.n_moved_then_lost,
            row.median_life_days.map_or("–".into(), |days| format!("{days:.0}")),
            if std::ptr::eq(row, &changes.all) { "all" } else { row.name.as_str() },
        );
    }
    text.push_str(MOVES);
    let most = changes.all.n_changes_by_resemblance.iter().copied().max().unwrap_or(0).max(1);
    text.push_str("\nresemblance of changed pages to the version before\n");
    for (tenth, count) in changes.all.n_changes_by_resemblance.iter().enumerate() {
        let bar = "#".repeat((count * 40).div_ceil(most) as usize);
        let _ = writeln!(text, "{:>3}–{:>3} %  {count:>8}  {bar}", tenth * 10, tenth * 10 + 10);
    }
    text
}

/// Why the moves of the table are not the `moved` events.
const MOVES: &str = "\nmoved: URLs without a page now whose content stands elsewhere, on their host or only between hosts; then \
                     lost: it stood\nelsewhere, and that place is gone, too. `moved` events count every move when it happens, \
                     but no redirects, and stay when\nthe page comes back.\n";

/// A share; unknown where the sketches do not tell.
fn known(share: Option<f64>) -> String {
    share.map_or("unknown".into(), percent)
}

/// A share and its standard error, if it has one.
fn estimate(share: Option<f64>, error: f64) -> String {
    match share {
        None => known(share),
        Some(share) if error == 0.0 => percent(share),
        Some(share) => format!("{} ± {:.0}", percent(share), error * 100.0),
    }
}

/// The same for a line of its own.
fn estimate_in_words(share: Option<f64>, error: f64) -> String {
    match share {
        None => format!("unknown (the error is over 20 points: ± {})", percent(error)),
        Some(share) if error == 0.0 => format!("{} (exact)", percent(share)),
        Some(share) => format!("{} (± {})", percent(share), percent(error)),
    }
}

/// Two documents against each other.
pub(super) fn comparison(comparison: &Comparison) -> String {
    format!(
        "resemblance           {}\ncontainment of A in B {}\ncontainment of B in A {}\n",
        estimate_in_words(Some(comparison.resemblance), comparison.error),
        estimate_in_words(comparison.containment_of_a_in_b, comparison.error_of_a_in_b),
        estimate_in_words(comparison.containment_of_b_in_a, comparison.error_of_b_in_a),
    )
}

/// The documents most like one, which is A; each document found is B.
pub(super) fn similar(found: &[SimilarDocument]) -> String {
    let mut text = String::from("resemblance          A in B          B in A  document  cluster  last seen at\n");
    for SimilarDocument { document, cluster, comparison, last_seen } in found {
        let seen = last_seen.as_ref().map_or(String::new(), |sighting| {
            format!("{} ({})", sighting.url, when(sighting.moment.fetched_at, sighting.moment.sweep.as_deref()))
        });
        let _ = writeln!(
            text,
            "{:>11}  {:>14}  {:>14}  {document:>8}  {cluster:>7}  {seen}",
            percent(comparison.resemblance),
            estimate(comparison.containment_of_a_in_b, comparison.error_of_a_in_b),
            estimate(comparison.containment_of_b_in_a, comparison.error_of_b_in_a),
        );
    }
    text
}

/// Why two pages are in one cluster.
pub(super) fn explanation(explanation: &Explanation) -> String {
    let Explanation { a, b, connection, weakest, links, comparison } = explanation;
    let mut text = match (connection, weakest) {
        (Connection::SameDocument, _) => format!("the same document, {}: their texts are equal\n", a.document),
        (Connection::OtherCluster, _) => {
            format!("not in one cluster: A is in cluster {}, B in cluster {}\n", a.cluster, b.cluster)
        }
        (_, Some(link)) => {
            let n_links = if links.len() == 1 { "one link".to_string() } else { format!("{} links", links.len()) };
            let ChainLink { from, to, .. } = link;
            format!(
                "in cluster {} by {n_links}; the weakest, {}, is between documents {from} and {to}\n",
                a.cluster,
                likeness_of_link(link)
            )
        }
        (_, None) => format!("both in cluster {}, which is too large to look for their links\n", a.cluster),
    };
    let direct = comparison.as_ref().map_or("nothing to compare: too few words".to_string(), |comparison| {
        format!("resemblance {}", estimate_in_words(Some(comparison.resemblance), comparison.error))
    });
    let _ = writeln!(text, "directly: {direct}\n");
    let mut page = |name: &str, document: DocumentId, url: &str| {
        let _ = writeln!(text, "{name}document {document}  {url}");
    };
    page("A  ", a.document, &a.url);
    for link in links {
        let mark = if weakest.as_ref().is_some_and(|weakest| weakest.from == link.from) { ", the weakest" } else { "" };
        let name = if link.to == b.document { "B  " } else { "   " };
        page(&format!("     {}{mark}\n{name}", likeness_of_link(link)), link.to, &link.to_url);
    }
    if links.is_empty() {
        page("B  ", b.document, &b.url);
    }
    text
}

/// The resemblance of a link, and what it rests on.
fn likeness_of_link(link: &ChainLink) -> String {
    match (link.kind, link.containment) {
        (LinkKind::Equal, _) => format!("{}, equal", percent(link.resemblance)),
        (LinkKind::Near, _) => format!("{}, near", percent(link.resemblance)),
        (LinkKind::Contained, share) => {
            format!("{}, contained: {} of one is in the other", percent(link.resemblance), known(share))
        }
    }
}

/// A kept text with a line end.
pub(super) fn kept_text(answer: &TextAnswer) -> String {
    let text = answer.text.as_deref().unwrap_or_default();
    if text.ends_with('\n') { text.to_string() } else { format!("{text}\n") }
}

/// The paper's section 5 ("Status"), with the numbers of this store.
pub(super) fn status(status: &Status) -> String {
    let n = |count: u64| HumanCount(count).to_string();
    let related = match status.n_related_urls {
        0 => String::new(),
        n_urls => format!("{} URLs in the last build of related pages\n", n(n_urls)),
    };
    let texts = match status.n_bytes_of_texts {
        0 => String::new(),
        n_bytes => format!("{} of kept texts\n", HumanBytes(n_bytes)),
    };
    let text = format!(
        "{} URLs in {} sweeps: {} sightings of pages, and {} that a URL is gone, redirected or lost\n\
         {} documents in {} clusters\n\
         {} clusters of similar documents hold {} documents; the largest{} holds {}\n\
         {} clusters of equal pages only hold {} URLs\n\
         {} events, {} on disk\n",
        n(status.n_urls),
        n(status.n_sweeps),
        n(status.n_sightings),
        n(status.n_gone),
        n(status.n_documents),
        n(status.n_clusters),
        n(status.n_clusters_of_similar),
        n(status.n_documents_in_clusters_of_similar),
        status.largest_cluster.map(|name| format!(" ({name})")).unwrap_or_default(),
        n(status.n_documents_in_largest_cluster),
        n(status.n_clusters_of_equal),
        n(status.n_urls_in_clusters_of_equal),
        n(status.n_events),
        HumanBytes(status.n_bytes_on_disk),
    );
    let note = match status.is_kept {
        true => "",
        false => {
            "counted just now, from all sightings: the store keeps no counts; the next `run` counts once and keeps them\n"
        }
    };
    text + &related + &texts + note
}
