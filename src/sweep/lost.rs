//! Lost and found: ranks the places where the content of a lost page is now.

use crate::document::{DocumentId, host_of, path_of};
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, VecDeque};

/// The weights for ranking the places of a content. Only their proportions matter.
///
/// The defaults are measured. The authors of two sites made 917 and 536 moves themselves, of which exact clusters
/// reach 909 and 511. The table counts how many of those come first or within five, also with one weight left out
/// (the same for three secrets of the store):
///
/// | | site of 6,331 pages: first | in five | site of 52,359 pages: first | in five |
/// |---|---|---|---|---|
/// | all | 908 | 909 | 508 | 509 |
/// | no recency | 790 | 909 | 508 | 509 |
/// | no resemblance | 908 | 909 | 509 | 509 |
/// | no path | 908 | 909 | 258 | 489 |
/// | no site (each is one) | 908 | 909 | 508 | 509 |
///
/// Recency weighs most, because people ask for a URL in order to visit it. Where many versions exist side by side,
/// the path identifies the successor and the text cannot. Resemblance weighs least: pages with one text in two
/// formats mislead it, and it decides only where the paths do not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ranking {
    /// How recently the content was seen at the place.
    pub recency: f64,
    /// How much the document at the place resembles the last copy.
    pub resemblance: f64,
    /// How similar the paths are.
    pub path: f64,
    /// How close the hosts are.
    pub site: f64,
}

impl Default for Ranking {
    fn default() -> Self {
        Ranking { recency: 8.0, resemblance: 0.5, path: 2.0, site: 1.0 }
    }
}

impl Ranking {
    /// Returns what is wrong with the weights, if anything.
    pub fn problem(&self) -> Option<String> {
        let weights = [self.recency, self.resemblance, self.path, self.site];
        let is_weight = |weight: &f64| (0.0..=1e6).contains(weight);
        if !weights.iter().all(is_weight) || weights.iter().sum::<f64>() <= 0.0 {
            return Some("recency, resemblance, path and site must be 0 to 1000000, and not all 0".into());
        }
        None
    }

    /// The weighted mean of the scores, 0 to 1.
    pub fn score(&self, signs: &PlaceScores) -> f64 {
        let weighted = self.recency * signs.recency
            + self.resemblance * signs.resemblance
            + self.path * signs.path
            + self.site * signs.site;
        weighted / (self.recency + self.resemblance + self.path + self.site)
    }
}

/// What speaks for a place, each from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PlaceScores {
    /// 1: as recent as any other place; 0: no more recent than the last copy.
    pub recency: f64,
    /// The resemblance to the last copy.
    pub resemblance: f64,
    /// See [`path_likeness`].
    pub path: f64,
    /// See [`site_likeness`].
    pub site: f64,
}

/// How a place is known to carry a lost content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Evidence {
    /// The place is the URL itself, and a page is there.
    Itself,
    /// The last copy is there, unchanged.
    Same,
    /// The document there resembles the last copy by the threshold or more.
    Direct,
    /// Other documents link the one there to the last copy; each resembles the next.
    Chain {
        /// The documents between, from the last copy on.
        through: Vec<DocumentId>,
    },
    /// The document there belongs to the last copy's cluster, which is too large to search for the documents
    /// between.
    Cluster,
    /// The URL redirects there.
    Redirect {
        /// The URLs between.
        through: Vec<String>,
    },
}

impl Evidence {
    /// The word for its kind in JSON.
    pub fn as_str(&self) -> &'static str {
        match self {
            Evidence::Itself => "itself",
            Evidence::Same => "same",
            Evidence::Direct => "direct",
            Evidence::Chain { .. } => "chain",
            Evidence::Cluster => "cluster",
            Evidence::Redirect { .. } => "redirect",
        }
    }
}

/// How similar the paths of two URLs are, 0 to 1: the mean of the similarity of the whole paths and of their last
/// segments. Each is Dice's coefficient over pairs of neighbouring characters, so that a renamed folder or a prefix
/// costs little and a common ending counts.
pub fn path_likeness(a: &str, b: &str) -> f64 {
    let (a, b) = (path_of(a), path_of(b));
    (dice(a, b) + dice(last_segment(a), last_segment(b))) / 2.0
}

fn last_segment(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or_default()
}

/// Twice the common pairs over all pairs; repeated pairs count each time.
fn dice(a: &str, b: &str) -> f64 {
    if a == b {
        return 1.0;
    }
    let (a, b) = (pairs(a), pairs(b));
    let n_all = a.len() + b.len();
    let (mut i, mut j, mut n_common) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        match a[i].cmp(&b[j]) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => {
                n_common += 1;
                i += 1;
                j += 1;
            }
        }
    }
    if n_all == 0 { 0.0 } else { 2.0 * f64::from(n_common) / n_all as f64 }
}

fn pairs(text: &str) -> Vec<(u8, u8)> {
    let bytes = text.as_bytes();
    let mut pairs: Vec<(u8, u8)> = bytes.iter().zip(bytes.iter().skip(1)).map(|(a, b)| (*a, *b)).collect();
    pairs.sort_unstable();
    pairs
}

/// Whether a URL looks like one of HTML: its last segment has no extension, or one of HTML or of a program that writes it.
pub fn looks_like_html(url: &str) -> bool {
    const ENDS: [&str; 10] = ["html", "htm", "xhtml", "shtml", "php", "asp", "aspx", "jsp", "cgi", "do"];
    let extension = last_segment(path_of(url)).rsplit_once('.').map(|(_, extension)| extension);
    extension.is_none_or(|extension| ENDS.iter().any(|end| extension.eq_ignore_ascii_case(end)))
}

/// How close two hosts are, 0 to 1: the labels that their names share from the right, as a share of the longer
/// name. The same host is 1; `www.a.example` and `docs.a.example` are 2/3.
pub fn site_likeness(a: &str, b: &str) -> f64 {
    let (a, b) = (host_of(a), host_of(b));
    if a == b {
        return 1.0;
    }
    let n_common = a.rsplit('.').zip(b.rsplit('.')).take_while(|(a, b)| a == b).count();
    n_common as f64 / a.split('.').count().max(b.split('.').count()) as f64
}

/// Returns the documents between two documents of one cluster along verified links, which form a tree; `None` if no
/// links connect the two.
pub fn documents_between(
    links: &[(DocumentId, DocumentId)],
    from: DocumentId,
    to: DocumentId,
) -> Option<Vec<DocumentId>> {
    let mut neighbours: HashMap<DocumentId, Vec<DocumentId>> = HashMap::new();
    for (a, b) in links {
        neighbours.entry(*a).or_default().push(*b);
        neighbours.entry(*b).or_default().push(*a);
    }
    let mut came_from = HashMap::from([(to, to)]);
    let mut queue = VecDeque::from([to]);
    while let Some(here) = queue.pop_front() {
        if here == from {
            let next = |document: &DocumentId| came_from.get(document).copied().filter(|next| next != document);
            let mut path: Vec<DocumentId> = std::iter::successors(next(&from), next).collect();
            path.pop();
            return Some(path);
        }
        for neighbour in neighbours.get(&here).into_iter().flatten() {
            if !came_from.contains_key(neighbour) {
                came_from.insert(*neighbour, here);
                queue.push_back(*neighbour);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_sites() {
        let asked = "http://docs.a.example/html/doc/cache.html";
        let ranked = [
            "http://docs.a.example/html/doc/cache.html",
            "http://docs.a.example/html/doc/cli/cache.html",
            "http://docs.a.example/html/doc/cli/npm-cache.html",
            "http://docs.a.example/html/doc/cli/npm-build.html",
            "http://docs.a.example/",
        ];
        let likeness = ranked.map(|url| path_likeness(asked, url));
        assert!(likeness.is_sorted_by(|a, b| a > b), "{likeness:?}");
        assert_eq!((likeness[0], likeness[4]), (1.0, 0.0));
        assert_eq!(site_likeness(asked, "https://docs.a.example/x"), 1.0);
        assert_eq!(site_likeness(asked, "http://www.a.example/"), 2.0 / 3.0);
        assert_eq!(site_likeness(asked, "http://a.example/"), 2.0 / 3.0);
        assert_eq!(site_likeness(asked, "http://b.org/"), 0.0);
        assert_eq!(path_likeness("key", "other"), path_likeness("other", "key"));
    }

    #[test]
    fn a_score_is_a_weighted_mean() {
        let ranking = Ranking { recency: 2.0, resemblance: 1.0, path: 1.0, site: 0.0 };
        let signs = PlaceScores { recency: 1.0, resemblance: 0.5, path: 0.0, site: 1.0 };
        assert_eq!(ranking.score(&signs), 2.5 / 4.0);
        assert!(Ranking::default().problem().is_none());
        for wrong in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(Ranking { path: wrong, ..ranking.clone() }.problem().is_some());
        }
        assert!(Ranking { recency: 0.0, resemblance: 0.0, path: 0.0, site: 0.0 }.problem().is_some());
    }

    #[test]
    fn urls_of_html() {
        for (url, is_html) in [
            ("http://a/b.HTML?c=d.txt", true),
            ("http://a/b", true),
            ("http://a.example/", true),
            ("http://a/b.d/index.php", true),
            ("http://a/b.txt", false),
            ("http://a/b.html.adoc", false),
        ] {
            assert_eq!(looks_like_html(url), is_html, "{url}");
        }
    }

    #[test]
    fn the_documents_between() {
        let ids = |ids: &[u32]| ids.iter().map(|id| DocumentId(*id)).collect::<Vec<_>>();
        let links: Vec<_> =
            [(2, 1), (3, 2), (4, 2), (5, 4), (9, 8)].iter().map(|(a, b)| (DocumentId(*a), DocumentId(*b))).collect();
        for (from, to, between) in [
            (1, 5, Some(ids(&[2, 4]))),
            (5, 1, Some(ids(&[4, 2]))),
            (1, 2, Some(vec![])),
            (3, 3, Some(vec![])),
            (1, 9, None),
        ] {
            assert_eq!(documents_between(&links, DocumentId(from), DocumentId(to)), between, "{from} to {to}");
        }
    }
}
