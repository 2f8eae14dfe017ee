//! Which clusters look as if a template or a chain had made them, and by which rule they would come apart.
//!
//! Resemblance counts every word, so pages that are mostly frame join one another, and single linkage joins what lies at the
//! ends of a chain (Broder 1997, section 2.2: clusters are connected components). Neither shows in a cluster's size. What
//! shows it: the pages of one text keep the name that they have in their URLs when they move or get a new version.

use super::similar::{compare_sketches, hundredths};
use crate::document::{ClusterId, DocumentId};
use crate::ports::{LinkView, Snapshot, StoreError};
use crate::sketch::{Sketch, compare};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Members of a cluster that are compared with each other: the first, and others at equal distances.
const MEMBERS_MAX: usize = 400;
/// Names of a cluster that are counted apart.
const NAMES_MAX: usize = 4096;
/// A cluster has several names if this share of its pages has another one than the most frequent.
const OTHER_NAMES_MIN: f64 = 0.25;
/// A cluster is a chain if this share of its members lies below the threshold from its center. Versions of one page drift apart,
/// so that some do in any cluster of many years.
const FAR_MIN: f64 = 0.5;
/// Parts are sound if this share of the members has the most frequent name of its part.
const PURE_MIN: f64 = 0.9;
/// Parts are of use if this share of the members whose name others have, too, stay with one of those.
const TOGETHER_MIN: f64 = 0.5;
/// Links this close to the threshold are weak.
const WEAK_WITHIN: f64 = 0.1;
/// Thresholds that are tried, in hundredths.
const STEP: u32 = 5;
const THRESHOLD_MAX: u32 = 95;

/// What makes a cluster suspicious.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// Its pages have many names: most of their words are a frame that they share.
    Template,
    /// Its pages have one name, but most do not resemble the page in the middle: a chain of versions.
    Chain,
}

/// What would take a cluster apart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Remedy {
    /// A higher threshold, under which nearly all pages of a part have one name.
    Threshold {
        /// The threshold.
        threshold: f64,
        /// Into how many parts the compared members come apart.
        n_parts: usize,
    },
    /// The policy `star`, under which each page resembles the center of its cluster.
    Star,
    /// The pages' own content instead of all their words: `canonical.content = "main"`, in a new store.
    MainContent,
}

/// A suspicious cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AuditRow {
    /// The cluster.
    pub cluster: ClusterId,
    /// What makes it suspicious.
    pub finding: Finding,
    /// Its documents.
    pub n_documents: usize,
    /// Sightings of its documents.
    pub n_sightings: u64,
    /// The different names of its pages: the last parts of the paths of their URLs, without what follows the last dot. No
    /// more than 4,096 are counted.
    pub n_names: usize,
    /// The most frequent one.
    pub top_name: String,
    /// The share of sightings with another name, in hundredths.
    pub other_names: f64,
    /// The share of members that resemble the center by less than the threshold, in hundredths. The center is the member
    /// that most others resemble.
    pub far_from_center: f64,
    /// The smallest resemblance of a link, in hundredths.
    pub weakest_link: f64,
    /// The share of links less than a tenth above the threshold, in hundredths.
    pub weak_links: f64,
    /// What would take it apart.
    pub remedy: Remedy,
    /// Two members that resemble each other least: `explain` shows the chain between them.
    pub farthest: [DocumentId; 2],
    /// Their resemblance, as `explain` says it.
    pub farthest_resemblance: f64,
}

/// Finds the suspicious clusters of `n_documents_min` documents or more, those with most pages of other names first.
///
/// # Errors
/// [`StoreError`]
pub fn audit(snapshot: &(impl Snapshot + LinkView), n_documents_min: usize) -> Result<Vec<AuditRow>, StoreError> {
    let mut clusters = snapshot.clusters()?;
    let mut large: BTreeMap<ClusterId, Cluster> = BTreeMap::new();
    let mut sizes: HashMap<ClusterId, usize> = HashMap::new();
    let documents = || (1..=snapshot.n_documents()).map(DocumentId);
    documents().for_each(|document| *sizes.entry(clusters.cluster_of(document)).or_default() += 1);
    sizes.retain(|_, size| *size >= n_documents_min.max(2));
    for document in documents() {
        let cluster = clusters.cluster_of(document);
        if sizes.contains_key(&cluster) {
            large.entry(cluster).or_default().members.push(document);
        }
    }
    large.values_mut().for_each(Cluster::choose_compared);
    snapshot.each_link(&mut |link| {
        if let Some(cluster) = large.get_mut(&clusters.cluster_of(link.document)) {
            cluster.links.push(link.resemblance);
        }
        true
    })?;
    snapshot.each_sighting(&mut |sighting| {
        if let Some(document) = sighting.moment.seen.document()
            && let Some(cluster) = large.get_mut(&clusters.cluster_of(document))
        {
            cluster.count(document, name_of(&sighting.url));
        }
        true
    })?;
    let mut rows = Vec::new();
    for (id, cluster) in large {
        rows.extend(cluster.judge(snapshot, id)?);
    }
    let n_other = |row: &AuditRow| (row.other_names * row.n_sightings as f64) as u64;
    rows.sort_by_key(|row| (row.finding, std::cmp::Reverse((n_other(row), row.n_documents)), row.cluster));
    Ok(rows)
}

/// The last part of a URL's path, without what follows its last dot; of a folder, the folder's name.
fn name_of(url: &str) -> &str {
    let url = url.split(['?', '#']).next().unwrap_or(url);
    let path = url.split_once("://").map_or(url, |(_, rest)| rest).split_once('/').map_or("", |(_, path)| path);
    let last = path.trim_end_matches('/').rsplit('/').next().unwrap_or(path);
    last.rsplit_once('.').map_or(last, |(stem, _)| stem)
}

/// What is read of a cluster.
#[derive(Default)]
struct Cluster {
    /// Ascending.
    members: Vec<DocumentId>,
    /// Those that are compared with each other, ascending.
    compared: Vec<DocumentId>,
    links: Vec<f64>,
    n_sightings: u64,
    names: HashMap<String, u64>,
    /// The name under which each compared document was seen first.
    name_of: HashMap<DocumentId, String>,
}

impl Cluster {
    fn choose_compared(&mut self) {
        let every = self.members.len().div_ceil(MEMBERS_MAX);
        self.compared = self.members.iter().step_by(every).copied().collect();
    }

    fn count(&mut self, document: DocumentId, name: &str) {
        self.n_sightings += 1;
        if self.names.len() < NAMES_MAX || self.names.contains_key(name) {
            *self.names.entry(name.to_string()).or_default() += 1;
        }
        if self.compared.binary_search(&document).is_ok() {
            self.name_of.entry(document).or_insert_with(|| name.to_string());
        }
    }

    fn judge(&self, snapshot: &(impl Snapshot + LinkView), id: ClusterId) -> Result<Option<AuditRow>, StoreError> {
        let (threshold, rule) = (snapshot.rule().cluster.threshold, snapshot.rule().sketch.rule);
        let members = &self.compared;
        let sketches: Vec<Arc<Sketch>> = snapshot.sketches_of(members)?;
        let likeness = Likeness::of(&sketches, |a, b| compare(a, b, rule).resemblance);
        let center = likeness.center(threshold);
        let n_far = (0..members.len()).filter(|at| likeness.get(center, *at) < threshold).count();
        let far_from_center = n_far as f64 / members.len() as f64;
        let Some((top_name, n_top)) = self.names.iter().max_by_key(|(name, n)| (**n, std::cmp::Reverse(*name))) else {
            return Ok(None);
        };
        let other_names = 1.0 - *n_top as f64 / self.n_sightings.max(1) as f64;
        let finding = match () {
            () if other_names >= OTHER_NAMES_MIN => Finding::Template,
            () if far_from_center >= FAR_MIN => Finding::Chain,
            () => return Ok(None),
        };
        let names: Vec<&str> =
            members.iter().map(|member| self.name_of.get(member).map_or("", String::as_str)).collect();
        let remedy = match finding {
            Finding::Template => likeness.threshold_for(&names, threshold).unwrap_or(Remedy::MainContent),
            Finding::Chain => Remedy::Star,
        };
        let farthest = likeness.farthest();
        let resemblance = compare_sketches(&sketches[farthest[0]], &sketches[farthest[1]], rule).resemblance;
        let n_weak = self.links.iter().filter(|link| **link < threshold + WEAK_WITHIN).count();
        let weakest = self.links.iter().copied().fold(1.0, f64::min);
        Ok(Some(AuditRow {
            cluster: id,
            finding,
            n_documents: self.members.len(),
            n_sightings: self.n_sightings,
            n_names: self.names.len(),
            top_name: top_name.clone(),
            other_names: hundredths(other_names),
            far_from_center: hundredths(far_from_center),
            weakest_link: hundredths(weakest),
            weak_links: hundredths(n_weak as f64 / self.links.len().max(1) as f64),
            remedy,
            farthest: farthest.map(|at| members[at]),
            farthest_resemblance: resemblance,
        }))
    }
}

/// How much some members resemble each other, every pair of them.
struct Likeness {
    n: usize,
    of_pairs: Vec<f64>,
}

impl Likeness {
    fn of<T>(members: &[T], resemblance: impl Fn(&T, &T) -> f64) -> Self {
        let n = members.len();
        let mut of_pairs = vec![1.0; n * n];
        for a in 0..n {
            for b in 0..a {
                // The earlier one first, as everywhere.
                let of_pair = resemblance(&members[b], &members[a]);
                of_pairs[a * n + b] = of_pair;
                of_pairs[b * n + a] = of_pair;
            }
        }
        Likeness { n, of_pairs }
    }

    fn get(&self, a: usize, b: usize) -> f64 {
        self.of_pairs[a * self.n + b]
    }

    /// The member that most others resemble; the first of several.
    fn center(&self, threshold: f64) -> usize {
        let n_near = |a: &usize| (0..self.n).filter(|b| self.get(*a, *b) >= threshold).count();
        (0..self.n).max_by_key(|a| (n_near(a), std::cmp::Reverse(*a))).unwrap_or_default()
    }

    /// The two that resemble each other least.
    fn farthest(&self) -> [usize; 2] {
        let pairs = (0..self.n).flat_map(|a| (a + 1..self.n).map(move |b| [a, b]));
        pairs.min_by(|x, y| self.get(x[0], x[1]).total_cmp(&self.get(y[0], y[1]))).unwrap_or_default()
    }

    /// The connected parts at a threshold: for each member, the first of its part.
    fn parts(&self, threshold: f64) -> Vec<usize> {
        let mut part_of: Vec<Option<usize>> = vec![None; self.n];
        for first in 0..self.n {
            let mut next = vec![first];
            while let Some(at) = next.pop() {
                if part_of[at].is_none() {
                    part_of[at] = Some(first);
                    next.extend((0..self.n).filter(|b| part_of[*b].is_none() && self.get(at, *b) >= threshold));
                }
            }
        }
        part_of.into_iter().flatten().collect()
    }

    /// The lowest threshold above this one under which the parts follow the names.
    fn threshold_for(&self, names: &[&str], above: f64) -> Option<Remedy> {
        let mut n_of: HashMap<&str, usize> = HashMap::new();
        names.iter().for_each(|name| *n_of.entry(name).or_default() += 1);
        let n_of_several: usize = n_of.values().filter(|n| **n > 1).sum();
        let tried = (1..=THRESHOLD_MAX / STEP).map(|step| f64::from(step * STEP) / 100.0);
        tried.filter(|threshold| *threshold > above).find_map(|threshold| {
            let mut parts: BTreeMap<usize, HashMap<&str, usize>> = BTreeMap::new();
            for (part, name) in self.parts(threshold).into_iter().zip(names) {
                *parts.entry(part).or_default().entry(name).or_default() += 1;
            }
            let n_pure: usize = parts.values().filter_map(|names| names.values().max()).sum();
            // Nothing but single pages would have one name each, too.
            let together: usize = parts.values().flat_map(HashMap::values).filter(|n| **n > 1).sum();
            let is_sound =
                n_pure as f64 >= PURE_MIN * self.n as f64 && together as f64 >= TOGETHER_MIN * n_of_several as f64;
            is_sound.then_some(Remedy::Threshold { threshold, n_parts: parts.len() })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_last_parts_of_paths() {
        for (url, name) in [
            ("https://a.example/doc/cli/npm-pack.html", "npm-pack"),
            ("https://a.example/2.4/mod/mod_proxy.html.en", "mod_proxy.html"),
            ("https://a.example/doc/?page=/x", "doc"),
            ("https://a.example", ""),
            ("https://a.example/", ""),
            ("b/c.d#e/f", "c"),
        ] {
            assert_eq!(name_of(url), name, "{url}");
        }
    }

    /// Two groups on a line: 0 to 3 and 10 to 12; the nearer, the more alike.
    fn two_groups() -> Likeness {
        Likeness::of(&[0, 1, 2, 3, 10, 11, 12], |a: &i32, b: &i32| 1.0 - f64::from((a - b).abs()) / 14.0)
    }

    #[test]
    fn parts_follow_the_threshold() {
        let likeness = two_groups();
        assert_eq!(likeness.parts(0.1), [0; 7]);
        assert_eq!(likeness.parts(0.9), [0, 0, 0, 0, 4, 4, 4]);
        assert_eq!(likeness.parts(0.99), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(likeness.farthest(), [0, 6]);
        assert_eq!(likeness.center(0.5), 3, "the most are within seven");
    }

    #[test]
    fn the_remedy_is_the_lowest_threshold_that_separates_the_names() {
        let likeness = two_groups();
        let remedy = likeness.threshold_for(&["a", "a", "a", "a", "b", "b", "b"], 0.3);
        assert_eq!(remedy, Some(Remedy::Threshold { threshold: 0.55, n_parts: 2 }));
        // Names that no threshold separates, because the nearest pages have two.
        let likeness = Likeness::of(&[0; 10], |_, _| 1.0);
        assert_eq!(likeness.threshold_for(&["a", "b", "a", "b", "a", "b", "a", "b", "a", "b"], 0.3), None);
    }
}
