//! The last phase alone: other thresholds and other ways to cluster, from the sketches of a store and never from pages.
//!
//! Candidates are the pairs that share enough of a list, as in the stream, and the links that the store has. Below the
//! threshold that a store was made with it finds what shares `cluster.min_shared` index shingles or a super shingle.
//! Under a rule that ignores common shingles those count that are common now, and not when a document came.

use super::error::BackfillError;
use super::means::Means;
use super::rows::Pair;
use super::runs::{Merge, Run, Sorter};
use crate::cluster::{Clusters, Link, MatchRule};
use crate::document::DocumentId;
use crate::ports::{LinkView, Snapshot, StoreError};
use crate::sketch::{Shingle, Sketch, compare};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::str::FromStr;
use std::sync::Arc;

/// Pairs that are compared at once.
const BATCH_PAIRS: usize = 1 << 15;

/// How links make clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Connected components, as in the paper: what is linked belongs together, however long the chain.
    Components,
    /// A document and those that resemble it, as in the stream's policy of this name: every member is linked with the one
    /// that its cluster was made around. Here that is, again and again, the document with most links to documents that
    /// are in no cluster yet.
    Star,
    /// By falling resemblance: of a link's documents that are both in no cluster the earlier becomes a centre; one in no
    /// cluster joins the other where that is a centre (Haveliwala, Gionis and Indyk, "Scalable techniques for
    /// clustering the web", 2000).
    Center,
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "components" => Ok(Policy::Components),
            "star" => Ok(Policy::Star),
            "center" => Ok(Policy::Center),
            _ => Err("a policy is components, star or center".into()),
        }
    }
}

/// What makes a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkRule {
    /// Two documents are linked by this resemblance or more,
    pub threshold: f64,
    /// or by this containment or more of one in the other, where it is given.
    pub containment: Option<f64>,
}

/// A link found.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Found {
    later: DocumentId,
    earlier: DocumentId,
    resemblance: f64,
}

/// Clusters made anew.
pub struct Reclustered {
    /// The cluster of every document: the smallest of its documents.
    pub names: Vec<DocumentId>,
    /// Links that span the clusters, each later document first; no two join the same.
    pub links: Vec<Link>,
}

/// Clusters a store's documents under another rule; the store stays as it is.
///
/// # Errors
/// [`BackfillError`]
pub fn recluster<S: Snapshot + LinkView + Sync>(
    store: &S,
    means: &Means,
    rule: LinkRule,
    policy: Policy,
) -> Result<Reclustered, BackfillError> {
    let mut candidates = candidates(store, means, rule.threshold)?;
    let common = store.common_shingles()?;
    let mut links = Vec::new();
    let mut batch = Vec::with_capacity(BATCH_PAIRS);
    let mut clusters = Clusters::alone(store.n_documents() as usize);
    loop {
        let pair = candidates.next()?;
        batch.extend(pair);
        if batch.len() < BATCH_PAIRS && pair.is_some() {
            continue;
        }
        if policy == Policy::Components {
            batch.retain(|pair| clusters.cluster_of(pair.later()) != clusters.cluster_of(pair.earlier()));
        }
        let found = compared(store, means, rule, &common, &batch)?;
        let joins = |link: &Found| clusters.union(link.later, link.earlier).is_some() || policy != Policy::Components;
        links.extend(found.into_iter().filter(joins));
        batch.clear();
        if pair.is_none() {
            break;
        }
    }
    let n = store.n_documents();
    let names = match policy {
        Policy::Components => (1..=n).map(|id| DocumentId(clusters.cluster_of(DocumentId(id)).0)).collect(),
        Policy::Star => around_middles(star(n, &links), &mut links),
        Policy::Center => around_middles(center(n, &mut links), &mut links),
    };
    let links = links.into_iter().map(|Found { later, earlier, resemblance }| Link {
        document: later,
        to: earlier,
        resemblance,
    });
    Ok(Reclustered { names, links: links.collect() })
}

/// The names of clusters that are made around documents. Of the links those stay that tie a member to its middle.
fn around_middles(around: Around, links: &mut Vec<Found>) -> Vec<DocumentId> {
    let middle = |document: DocumentId| around[document.0 as usize - 1];
    links.retain(|link| middle(link.later) == link.earlier.0 || middle(link.earlier) == link.later.0);
    named(around)
}

/// All pairs that are worth a comparison, sorted.
fn candidates<S: Snapshot + LinkView>(store: &S, means: &Means, threshold: f64) -> Result<Candidates, BackfillError> {
    let rule = MatchRule { threshold, ..store.rule().cluster.clone() };
    let mut needed = vec![0u16; store.n_documents() as usize];
    store.each_index_size(&mut |document, n_index| {
        let n = rule.shared_needed(n_index as usize);
        needed[document.0 as usize - 1] = u16::try_from(n).unwrap_or(u16::MAX);
    })?;
    let mut sorter = Sorter::new(&means.folder, "pairs", means.sorter_bytes(), false);
    let mut failed = None;
    let mut push = |pair| match sorter.push(pair) {
        Ok(()) => true,
        Err(error) => {
            failed = Some(error);
            false
        }
    };
    store.each_list(&mut |documents, is_super| {
        let mut pairs = documents.iter().enumerate().flat_map(|(at, later)| {
            documents[..at].iter().map(move |earlier| Pair::new(*later, *earlier, u32::from(!is_super), is_super))
        });
        means.check().is_ok() && pairs.all(&mut push)
    })?;
    store.each_link(&mut |link| push(Pair::new(link.document, link.to, 0, true)))?;
    failed.map_or_else(|| means.check(), Err)?;
    let runs =
        sorter.finish()?.iter().map(|piece| Run::open(&means.folder, piece, false)).collect::<Result<Vec<_>, _>>()?;
    Ok(Candidates { merge: Merge::new(&runs, None, None)?, needed })
}

/// Pairs that share enough, in their order.
struct Candidates {
    merge: Merge<Pair>,
    needed: Vec<u16>,
}

impl Candidates {
    fn next(&mut self) -> Result<Option<Pair>, BackfillError> {
        while let Some(pair) = self.merge.next()? {
            let needed = u32::from(self.needed[pair.later().0 as usize - 1]);
            if pair.is_nominated || pair.n_shared >= needed {
                return Ok(Some(pair));
            }
        }
        Ok(None)
    }
}

/// The links among some pairs, compared on all threads, in the order of the pairs.
fn compared<S: Snapshot + LinkView + Sync>(
    store: &S,
    means: &Means,
    rule: LinkRule,
    common: &HashSet<Shingle>,
    pairs: &[Pair],
) -> Result<Vec<Found>, BackfillError> {
    means.check()?;
    let rules = store.rule();
    let compare = |pairs: &[Pair]| -> Result<Vec<Found>, StoreError> {
        let mut documents: Vec<DocumentId> = pairs.iter().flat_map(|pair| [pair.later(), pair.earlier()]).collect();
        documents.sort_unstable();
        documents.dedup();
        let sketches = store.sketches_of(&documents)?;
        let sketches: HashMap<DocumentId, Arc<Sketch>> = documents.into_iter().zip(sketches).collect();
        let link = |pair: &Pair| {
            let (later, earlier) = (pair.later(), pair.earlier());
            let (a, b) = (sketches.get(&later)?, sketches.get(&earlier)?);
            let resemblance =
                rules.cluster.estimate(a, b, rules.sketch.rule, |shingle| common.contains(&shingle)).resemblance;
            let is_link = resemblance >= rule.threshold
                || rule.containment.is_some_and(|least| {
                    let estimate = compare(a, b, rules.sketch.rule);
                    estimate.containment_of_first.max(estimate.containment_of_second) >= least
                });
            is_link.then_some(Found { later, earlier, resemblance })
        };
        Ok(pairs.iter().filter_map(link).collect())
    };
    let compare = &compare;
    std::thread::scope(|scope| {
        let share = pairs.len().div_ceil(means.n_threads).max(1);
        let threads: Vec<_> = pairs.chunks(share).map(|pairs| scope.spawn(move || compare(pairs))).collect();
        let mut all = Vec::new();
        for thread in threads {
            all.extend(thread.join().map_err(|_| BackfillError::Died)??);
        }
        Ok(all)
    })
}

/// Document → what its cluster is made around; 0: none yet.
type Around = Vec<u32>;

/// Names each cluster by its smallest document.
fn named(around: Around) -> Vec<DocumentId> {
    let mut names: HashMap<u32, u32> = HashMap::new();
    let own = |at: usize, around: u32| if around == 0 { at as u32 + 1 } else { around };
    for (at, middle) in around.iter().enumerate() {
        names.entry(own(at, *middle)).or_insert(at as u32 + 1);
    }
    around.iter().enumerate().map(|(at, middle)| DocumentId(names[&own(at, *middle)])).collect()
}

fn star(n_documents: u32, links: &[Found]) -> Around {
    let mut linked: Vec<Vec<u32>> = vec![Vec::new(); n_documents as usize + 1];
    for Found { later, earlier, .. } in links {
        linked[later.0 as usize].push(earlier.0);
        linked[earlier.0 as usize].push(later.0);
    }
    let mut around: Around = vec![0; n_documents as usize];
    let mut queue: BinaryHeap<(usize, Reverse<u32>)> =
        (1..=n_documents).map(|id| (linked[id as usize].len(), Reverse(id))).collect();
    while let Some((n, Reverse(id))) = queue.pop() {
        if around[id as usize - 1] != 0 {
            continue;
        }
        let free: Vec<u32> =
            linked[id as usize].iter().copied().filter(|other| around[*other as usize - 1] == 0).collect();
        if free.len() < n {
            queue.push((free.len(), Reverse(id)));
            continue;
        }
        around[id as usize - 1] = id;
        free.into_iter().for_each(|other| around[other as usize - 1] = id);
    }
    around
}

fn center(n_documents: u32, links: &mut [Found]) -> Around {
    links.sort_by(|a, b| {
        let ids = |link: &Found| (link.later, link.earlier);
        b.resemblance.total_cmp(&a.resemblance).then_with(|| ids(a).cmp(&ids(b)))
    });
    let mut around: Around = vec![0; n_documents as usize];
    for Found { later, earlier, .. } in links.iter().copied() {
        let [of_later, of_earlier] = [later, earlier].map(|document| around[document.0 as usize - 1]);
        let (later, earlier) = (later.0, earlier.0);
        match (of_earlier, of_later) {
            (0, 0) => (around[earlier as usize - 1], around[later as usize - 1]) = (earlier, earlier),
            (of, 0) if of == earlier => around[later as usize - 1] = earlier,
            (0, of) if of == later => around[earlier as usize - 1] = later,
            _ => {}
        }
    }
    around
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(of: &[(u32, u32, f64)]) -> Vec<Found> {
        let link = |(earlier, later, resemblance): &(u32, u32, f64)| Found {
            later: DocumentId(*later),
            earlier: DocumentId(*earlier),
            resemblance: *resemblance,
        };
        of.iter().map(link).collect()
    }

    fn names(around: Around) -> Vec<u32> {
        named(around).into_iter().map(|document| document.0).collect()
    }

    /// A chain 1–2–3–4–5 and a document of its own.
    const CHAIN: [(u32, u32, f64); 4] = [(1, 2, 0.6), (2, 3, 0.9), (3, 4, 0.7), (4, 5, 0.8)];

    #[test]
    fn stars_are_made_around_those_with_most_links() {
        assert_eq!(names(star(6, &links(&CHAIN))), [1, 1, 1, 4, 4, 6]);
        let hub = [(1, 4, 0.6), (2, 4, 0.6), (3, 4, 0.6), (3, 5, 0.9)];
        assert_eq!(names(star(5, &links(&hub))), [1, 1, 1, 1, 5]);
    }

    #[test]
    fn centres_take_the_closest_first() {
        // 2 and 3 first, 2 the centre; then 4 and 5; 3 is no centre for 4, and 1 joins 2.
        assert_eq!(names(center(6, &mut links(&CHAIN))), [1, 1, 1, 4, 4, 6]);
        let hub = [(1, 4, 0.6), (2, 4, 0.6), (3, 4, 0.6), (3, 5, 0.9)];
        assert_eq!(
            names(center(5, &mut links(&hub))),
            [1, 2, 3, 1, 3],
            "among equals 1 comes before 3, and 4 joins it"
        );
    }
}
