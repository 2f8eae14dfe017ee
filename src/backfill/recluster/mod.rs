//! The last phase alone: other thresholds and other ways to cluster, from the sketches of a store and never from pages.
//!
//! Candidates are the pairs that share enough of a list, as in the stream, and the links that the store has. Below the
//! threshold that a store was made with it finds what shares `cluster.min_shared` index shingles or a super shingle.
//! Under a rule that ignores common shingles those count that are common now, and not when a document came.

pub(in crate::backfill) mod cluster_diff;

use crate::backfill::context::Context;
use crate::backfill::error::BackfillError;
use crate::backfill::phases::lists::neighbours;
use crate::backfill::phases::pair_formation::Lists;
use crate::backfill::rows::{Pair, Posting};
use crate::cluster::{Clusters, Link, MatchRule};
use crate::document::DocumentId;
use crate::extsort::{FinishedFile, MergeReader, RunFile, RunFileWriter, Sorter};
use crate::ports::{LinkView, Snapshot, StoreError};
use crate::sketch::{Shingle, Sketch, compare};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet};
use std::str::FromStr;
use std::sync::Arc;

/// Pairs that are compared at once.
const BATCH_PAIRS: usize = 1 << 15;

/// Rows in a file of lists, about.
const LIST_ROWS: u64 = 4 << 20;

/// How links make clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReclusterPolicy {
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

impl FromStr for ReclusterPolicy {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "components" => Ok(ReclusterPolicy::Components),
            "star" => Ok(ReclusterPolicy::Star),
            "center" => Ok(ReclusterPolicy::Center),
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
struct FoundLink {
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
    context: &Context,
    rule: LinkRule,
    policy: ReclusterPolicy,
) -> Result<Reclustered, BackfillError> {
    let StoreLists { neighbours, lists } = StoreLists::of(store, context, policy)?;
    let mut anew = Reclustering::of(store, context, rule, policy)?;
    // As in a backfill: what is in one cluster by its neighbours is not paired with all else that is.
    let mut pairs = MergeReader::new(&neighbours, None, None)?;
    while let Some(pair) = pairs.next()? {
        anew.take(pair)?;
    }
    anew.compare()?;
    let mut names = anew.names();
    for (from, to) in lists.stretches(context, &names)? {
        lists.pairs(context, &names, from, to)?.each(|pair| anew.take(pair))?;
        anew.compare()?;
        names = anew.names();
    }
    let (n, mut links) = (store.n_documents(), anew.links);
    let names = match policy {
        ReclusterPolicy::Components => names.into_iter().map(DocumentId).collect(),
        ReclusterPolicy::Star => around_middles(star(n, &links), &mut links),
        ReclusterPolicy::Center => around_middles(center(n, &mut links), &mut links),
    };
    let links = links.into_iter().map(|FoundLink { later, earlier, resemblance }| Link {
        document: later,
        to: earlier,
        resemblance,
    });
    Ok(Reclustered { names, links: links.collect() })
}

/// The names of clusters that are made around documents. Of the links those stay that tie a member to its middle.
fn around_middles(around: CenterOf, links: &mut Vec<FoundLink>) -> Vec<DocumentId> {
    let middle = |document: DocumentId| around[document.0 as usize - 1];
    links.retain(|link| middle(link.later) == link.earlier.0 || middle(link.earlier) == link.later.0);
    named(around)
}

/// The lists of a store that pair documents.
struct StoreLists {
    /// Pairs of neighbours, sorted; none where every pair counts.
    neighbours: Vec<Arc<RunFile<Pair>>>,
    lists: Lists,
}

impl StoreLists {
    fn of<S: Snapshot + LinkView>(
        store: &S,
        context: &Context,
        policy: ReclusterPolicy,
    ) -> Result<Self, BackfillError> {
        let mut index = ListWriter::new(context, "lists");
        let mut supers = ListWriter::new(context, "superlists");
        let mut near = Sorter::new(&context.folder, "neighbours".to_string(), context.sorter_bytes(), false);
        let mut failed = None;
        let mut keep = |documents: &[DocumentId], is_super: bool| {
            let mut keep = || {
                context.check()?;
                if documents.len() < 2 {
                    return Ok(());
                }
                if policy == ReclusterPolicy::Components {
                    neighbours(documents, is_super).try_for_each(|pair| near.push(pair))?;
                }
                if is_super { supers.push(documents) } else { index.push(documents) }
            };
            // What has failed once stays so.
            if failed.is_none() {
                failed = keep().err();
            }
            failed.is_none()
        };
        store.each_list(&mut keep)?;
        // A link nominates, as a super shingle of its two documents would.
        store.each_link(&mut |link| keep(&[link.document.min(link.to), link.document.max(link.to)], true))?;
        failed.map_or(Ok(()), Err)?;
        let near = near.finish()?;
        let neighbours =
            near.iter().map(|piece| RunFile::open(&context.folder, piece, false)).collect::<Result<_, _>>()?;
        let limit = store.rule().cluster.common_limit;
        Ok(StoreLists { neighbours, lists: Lists::new(index.finish()?, supers.finish()?, limit) })
    }
}

/// Writes lists to files, several of them, because each is read by one thread.
struct ListWriter<'a> {
    context: &'a Context,
    name: &'static str,
    n_lists: Shingle,
    n_rows: u64,
    under_way: Option<RunFileWriter<Posting>>,
    pieces: Vec<FinishedFile>,
}

impl<'a> ListWriter<'a> {
    fn new(context: &'a Context, name: &'static str) -> Self {
        ListWriter { context, name, n_lists: 0, n_rows: 0, under_way: None, pieces: Vec::new() }
    }

    /// Appends a list, under a number in place of its shingle.
    fn push(&mut self, documents: &[DocumentId]) -> Result<(), BackfillError> {
        let writer = match &mut self.under_way {
            Some(writer) => writer,
            none => {
                let name = format!("{}-{}", self.name, self.pieces.len());
                none.insert(RunFileWriter::create(&self.context.folder, &name, false)?)
            }
        };
        for document in documents {
            writer.push(Posting::new(self.n_lists, *document))?;
        }
        self.n_lists += 1;
        self.n_rows += documents.len() as u64;
        if self.n_rows >= LIST_ROWS { self.end() } else { Ok(()) }
    }

    fn end(&mut self) -> Result<(), BackfillError> {
        if let Some(writer) = self.under_way.take() {
            self.pieces.push(writer.finish()?);
        }
        self.n_rows = 0;
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<Arc<RunFile<Posting>>>, BackfillError> {
        self.end()?;
        Ok(self
            .pieces
            .iter()
            .map(|piece| RunFile::open(&self.context.folder, piece, false))
            .collect::<Result<_, _>>()?)
    }
}

/// Clusters being made.
struct Reclustering<'a, S> {
    store: &'a S,
    context: &'a Context,
    rule: LinkRule,
    policy: ReclusterPolicy,
    /// Shingles that are common.
    common: HashSet<Shingle>,
    /// How many index shingles each document must share with an earlier one to be compared.
    needed: Vec<u16>,
    /// Pairs to be compared.
    batch: Vec<Pair>,
    clusters: Clusters,
    links: Vec<FoundLink>,
}

impl<'a, S: Snapshot + LinkView + Sync> Reclustering<'a, S> {
    fn of(store: &'a S, context: &'a Context, rule: LinkRule, policy: ReclusterPolicy) -> Result<Self, BackfillError> {
        let n_documents = store.n_documents() as usize;
        let nominates = MatchRule { threshold: rule.threshold, ..store.rule().cluster.clone() };
        let mut needed = vec![0u16; n_documents];
        store.each_index_size(&mut |document, n_index| {
            let n = nominates.shared_needed(n_index as usize);
            needed[document.0 as usize - 1] = u16::try_from(n).unwrap_or(u16::MAX);
        })?;
        Ok(Reclustering {
            store,
            context,
            rule,
            policy,
            common: store.common_shingles()?,
            needed,
            batch: Vec::with_capacity(BATCH_PAIRS),
            clusters: Clusters::alone(n_documents),
            links: Vec::new(),
        })
    }

    /// Takes a pair, which is worth a comparison if it shares enough.
    fn take(&mut self, pair: Pair) -> Result<(), BackfillError> {
        if pair.is_nominated || pair.n_shared >= u32::from(self.needed[pair.later().0 as usize - 1]) {
            self.batch.push(pair);
        }
        if self.batch.len() == BATCH_PAIRS { self.compare() } else { Ok(()) }
    }

    /// Compares the pairs taken; for components those that are not in one already.
    fn compare(&mut self) -> Result<(), BackfillError> {
        let (clusters, is_all) = (&mut self.clusters, self.policy != ReclusterPolicy::Components);
        self.batch.retain(|pair| is_all || clusters.cluster_of(pair.later()) != clusters.cluster_of(pair.earlier()));
        let found = compared(self.store, self.context, self.rule, &self.common, &self.batch)?;
        self.links
            .extend(found.into_iter().filter(|link| is_all || clusters.union(link.later, link.earlier).is_some()));
        self.batch.clear();
        Ok(())
    }

    /// The clusters so far, which need no more pairs of their own; each document alone where every pair counts.
    fn names(&mut self) -> Vec<u32> {
        let ids = 1..=self.store.n_documents();
        match self.policy {
            ReclusterPolicy::Components => ids.map(|id| self.clusters.cluster_of(DocumentId(id)).0).collect(),
            ReclusterPolicy::Star | ReclusterPolicy::Center => ids.collect(),
        }
    }
}

/// The links among some pairs, compared on all threads, in the order of the pairs.
fn compared<S: Snapshot + LinkView + Sync>(
    store: &S,
    context: &Context,
    rule: LinkRule,
    common: &HashSet<Shingle>,
    pairs: &[Pair],
) -> Result<Vec<FoundLink>, BackfillError> {
    context.check()?;
    let rules = store.rule();
    let compare = |pairs: &[Pair]| -> Result<Vec<FoundLink>, StoreError> {
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
            let resembles = |least: f64| rules.cluster.ignore_common || a.confirms(b, least);
            let is_link = (resemblance >= rule.threshold && resembles(rule.threshold))
                || rule.containment.is_some_and(|least| {
                    let estimate = compare(a, b, rules.sketch.rule);
                    estimate.containment_of_first.max(estimate.containment_of_second) >= least
                        && resembles(resemblance_of_contained(a, b, least))
                });
            is_link.then_some(FoundLink { later, earlier, resemblance })
        };
        Ok(pairs.iter().filter_map(link).collect())
    };
    let compare = &compare;
    std::thread::scope(|scope| {
        let share = pairs.len().div_ceil(context.n_threads).max(1);
        let threads: Vec<_> = pairs.chunks(share).map(|pairs| scope.spawn(move || compare(pairs))).collect();
        let mut all = Vec::new();
        for thread in threads {
            all.extend(thread.join().map_err(|_| BackfillError::Died)??);
        }
        Ok(all)
    })
}

/// The resemblance of two documents where so much of the smaller is in the larger.
fn resemblance_of_contained(a: &Sketch, b: &Sketch, containment: f64) -> f64 {
    let (n_a, n_b) = (f64::from(a.n_shingles), f64::from(b.n_shingles));
    let common = containment * n_a.min(n_b);
    common / (n_a + n_b - common).max(1.0)
}

/// Document → what its cluster is made around; 0: none yet.
type CenterOf = Vec<u32>;

/// Names each cluster by its smallest document.
fn named(around: CenterOf) -> Vec<DocumentId> {
    let mut names: HashMap<u32, u32> = HashMap::new();
    let own = |at: usize, around: u32| if around == 0 { at as u32 + 1 } else { around };
    for (at, middle) in around.iter().enumerate() {
        names.entry(own(at, *middle)).or_insert(at as u32 + 1);
    }
    around.iter().enumerate().map(|(at, middle)| DocumentId(names[&own(at, *middle)])).collect()
}

fn star(n_documents: u32, links: &[FoundLink]) -> CenterOf {
    let mut linked: Vec<Vec<u32>> = vec![Vec::new(); n_documents as usize + 1];
    for FoundLink { later, earlier, .. } in links {
        linked[later.0 as usize].push(earlier.0);
        linked[earlier.0 as usize].push(later.0);
    }
    let mut around: CenterOf = vec![0; n_documents as usize];
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

fn center(n_documents: u32, links: &mut [FoundLink]) -> CenterOf {
    links.sort_by(|a, b| {
        let ids = |link: &FoundLink| (link.later, link.earlier);
        b.resemblance.total_cmp(&a.resemblance).then_with(|| ids(a).cmp(&ids(b)))
    });
    let mut around: CenterOf = vec![0; n_documents as usize];
    for FoundLink { later, earlier, .. } in links.iter().copied() {
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

    fn links(of: &[(u32, u32, f64)]) -> Vec<FoundLink> {
        let link = |(earlier, later, resemblance): &(u32, u32, f64)| FoundLink {
            later: DocumentId(*later),
            earlier: DocumentId(*earlier),
            resemblance: *resemblance,
        };
        of.iter().map(link).collect()
    }

    fn names(around: CenterOf) -> Vec<u32> {
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
