//! Decides <document, document, count>: which pairs share enough, and which of them resemble each other.
//!
//! The clusters are those of the links: pairs that share enough index shingles or a super shingle, and resemble each
//! other. A pair within one cluster cannot change the clusters and is skipped. The order of the pairs therefore
//! decides only which links are found and what they cost.
//!
//! 1. Neighbours in the lists (see [`super::lists`]): at most as many pairs as postings, sorted and merged.
//! 2. Documents and the representatives of their common shingles: a few pairs a document.
//! 3. All other pairs of different clusters, for as many documents at a time as their pairs fit in memory. What one
//!    range joins, the next one need not form.

use super::common_shingles::CommonShingles;
use super::pair_formation::{FormedPairs, Lists};
use crate::backfill::checkpoint::Checkpoint;
use crate::backfill::context::Context;
use crate::backfill::datasets::{Dataset, DatasetFile, LINKS, NEIGHBOUR_PAIRS, PAIR_RANGES, REPRESENTATIVE_PAIRS};
use crate::backfill::error::BackfillError;
use crate::backfill::found_links::found_links;
use crate::backfill::jobs::{Job, Steps, run_jobs};
use crate::backfill::min_shared::MinShared;
use crate::backfill::report::ClusterSizes;
use crate::backfill::rows::{DocumentRange, LinkRow, Pair};
use crate::backfill::sketch_cache::{SketchCache, open_sketches};
use crate::backfill::sketching::in_order;
use crate::backfill::usage::{Meter, Phase};
use crate::cluster::{Clusters, MatchRule};
use crate::document::{ClusterId, DocumentId};
use crate::extsort::{MergeReader, RunFile};
use crate::sketch::Rule;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;

/// The stages, named so that they sort in their order (see [`Steps::resume`]).
const NEIGHBOURS_STAGE: &str = "decide-1-neighbours";
const REPRESENTATIVES_STAGE: &str = "decide-2-representatives";
const REST_STAGE: &str = "decide-3-rest";

/// Pairs that are not worth a thread of their own.
const PAIRS_PER_THREAD_MIN: usize = 64;

/// Pairs that are decided together, and batches of them in a step.
const BATCH_PAIRS: usize = 1 << 14;
const STEP_BATCHES: usize = 256;

/// Decides pairs and joins their clusters.
pub(in crate::backfill) struct PairDecider<'a> {
    context: &'a Context,
    rule: MatchRule,
    sketch_rule: Rule,
    common: &'a CommonShingles,
    /// One cache for each thread.
    caches: Vec<SketchCache>,
    min_shared: Arc<MinShared>,
    /// The clusters so far.
    pub clusters: Clusters,
    /// The links that joined two clusters, in the order in which they were found.
    pub links: Vec<LinkRow>,
    /// Pairs of sketches compared in this run.
    pub n_compared: u64,
}

impl<'a> PairDecider<'a> {
    /// Restores the clusters from the links of the finished steps.
    pub fn resume(
        checkpoint: &Checkpoint,
        context: &'a Context,
        common: &'a CommonShingles,
    ) -> Result<Self, BackfillError> {
        let (sketches, min_shared) = open_sketches(checkpoint)?;
        let (clusters, links) = found_links(checkpoint)?;
        Ok(PairDecider {
            context,
            rule: checkpoint.rule().cluster.clone(),
            sketch_rule: checkpoint.rule().sketch.rule,
            common,
            caches: (0..context.n_threads).map(|_| SketchCache::new(&sketches, context)).collect(),
            min_shared: Arc::new(min_shared),
            clusters,
            links,
            n_compared: 0,
        })
    }

    /// Decides the pairs of neighbours.
    pub fn decide_neighbours(&mut self, checkpoint: &mut Checkpoint) -> Result<(), BackfillError> {
        self.decide_sorted(checkpoint, NEIGHBOURS_STAGE, NEIGHBOUR_PAIRS, false)
    }

    /// Decides the pairs of documents and representatives.
    pub fn decide_representatives(&mut self, checkpoint: &mut Checkpoint) -> Result<(), BackfillError> {
        self.decide_sorted(checkpoint, REPRESENTATIVES_STAGE, REPRESENTATIVE_PAIRS, true)
    }

    /// Decides the pairs of a data set, from the pair on that the last finished step reached.
    fn decide_sorted(
        &mut self,
        checkpoint: &mut Checkpoint,
        stage: &'static str,
        dataset: Dataset<Pair>,
        is_represented: bool,
    ) -> Result<(), BackfillError> {
        let mut steps = LinkSteps::resume(stage, checkpoint, self.links.len());
        if steps.is_finished(checkpoint) {
            return Ok(());
        }
        let files = checkpoint.open_dataset(dataset)?;
        self.context.progress.begin(Phase::PairMerging, files.iter().map(|file| file.n_rows()).sum());
        let (context, reached, min_shared) = (self.context, steps.reached(), Arc::clone(&self.min_shared));
        let mut n_batches = 0;
        // One thread merges the next batches while all threads decide one.
        let (decided, read) = in_order(
            context,
            |send| read_batches(context, &files, reached, &min_shared, send),
            || |batch: Vec<Pair>| batch,
            |batch| {
                self.decide(&batch, is_represented)?;
                n_batches += 1;
                match batch.last() {
                    Some(last) if n_batches % STEP_BATCHES == 0 => steps.record(checkpoint, &self.links, *last),
                    _ => Ok(()),
                }
            },
        );
        decided.and(read)?;
        steps.finish(checkpoint, &self.links)
    }

    /// Decides pairs as the stream does: compares a document with the candidates of each cluster, the best first,
    /// until one is verified. Threads share the documents out. What other documents of the batch join meanwhile makes
    /// some comparisons redundant and changes no result.
    fn decide(&mut self, pairs: &[Pair], is_represented: bool) -> Result<(), BackfillError> {
        self.context.check_stop()?;
        let clusters = &mut self.clusters;
        let candidate = |pair: &Pair| {
            let (own, other) = (clusters.cluster_of(pair.later()), clusters.cluster_of(pair.earlier()));
            (own != other).then_some(Candidate { pair: *pair, cluster: other })
        };
        let mut open: Vec<Candidate> = pairs.iter().filter_map(candidate).collect();
        // Most shared shingles first, then by age.
        open.sort_unstable_by_key(|open| (open.pair.later(), Reverse(open.pair.n_shared), open.pair.earlier()));
        let shares = shares(&open, self.context.n_threads);
        let verifier =
            Verifier { rule: &self.rule, sketch_rule: self.sketch_rule, common: self.common, is_represented };
        let verifier = &verifier;
        let verified = std::thread::scope(|scope| {
            let threads: Vec<_> = shares
                .into_iter()
                .zip(&mut self.caches)
                .map(|(share, cache)| scope.spawn(move || verifier.links_of(share, cache)))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| BackfillError::WorkerPanicked)?)
                .collect::<Result<Vec<_>, _>>()
        })?;
        for (links, n_compared) in verified {
            self.n_compared += n_compared;
            for link in links {
                if self.clusters.union(link.later, link.earlier).is_some() {
                    self.links.push(link);
                }
            }
        }
        Ok(())
    }

    /// Forms and decides all other pairs of different clusters, from the document on that the last finished step
    /// reached.
    pub fn decide_rest(&mut self, checkpoint: &mut Checkpoint) -> Result<(), BackfillError> {
        let mut steps = LinkSteps::resume(REST_STAGE, checkpoint, self.links.len());
        if steps.is_finished(checkpoint) {
            return Ok(());
        }
        let mut meter = Meter::start();
        let mut n_bytes_before = checkpoint.n_bytes_written();
        let mut lap = |checkpoint: &mut Checkpoint, phase| {
            let n_bytes = checkpoint.n_bytes_written();
            let usage = meter.lap(n_bytes.saturating_sub(std::mem::replace(&mut n_bytes_before, n_bytes)));
            checkpoint.add_usage(phase, usage);
        };
        let first = steps.reached().map_or(0, |reached| reached.later().0);
        let mut cluster_of = self.cluster_of_each();
        let ranges = self.pair_ranges(checkpoint, &cluster_of)?;
        let lists = Lists::open_mixed(checkpoint)?;
        lap(checkpoint, Phase::PairFormation);
        for range in ranges.into_iter().filter(|range| range.from >= first) {
            self.context.progress.begin(Phase::PairFormation, 0);
            let mut pairs = lists.form_pairs(self.context, &cluster_of, range)?;
            lap(checkpoint, Phase::PairFormation);
            self.context.progress.begin(Phase::PairMerging, pairs.n_shared());
            self.decide_formed(&mut pairs)?;
            steps.record(checkpoint, &self.links, Pair::new(DocumentId(range.to), DocumentId(0), 0, false))?;
            lap(checkpoint, Phase::PairMerging);
            cluster_of = self.cluster_of_each();
        }
        steps.finish(checkpoint, &self.links)?;
        lap(checkpoint, Phase::PairMerging);
        Ok(())
    }

    /// Decides the pairs of a range.
    fn decide_formed(&mut self, pairs: &mut FormedPairs) -> Result<(), BackfillError> {
        let mut batch = Vec::with_capacity(BATCH_PAIRS);
        let min_shared = Arc::clone(&self.min_shared);
        let is_candidate = |pair: &Pair| min_shared.makes_candidate(pair);
        pairs.each(self.context, is_candidate, |pair| {
            batch.push(pair);
            if batch.len() == BATCH_PAIRS {
                self.decide(&batch, false)?;
                batch.clear();
            }
            Ok(())
        })?;
        self.decide(&batch, false)
    }

    /// The ranges of documents whose pairs are formed together. A job writes them and the mixed lists, so that a resumed run
    /// forms the same pairs together and finds the same links.
    fn pair_ranges(
        &self,
        checkpoint: &mut Checkpoint,
        cluster_of: &[u32],
    ) -> Result<Vec<DocumentRange>, BackfillError> {
        let lists = Lists::open(checkpoint)?;
        let job = Job::new(PAIR_RANGES.name(), |context| {
            let (lists, mut files) = lists.mixed(context, cluster_of, &self.min_shared)?;
            let mut writer = PAIR_RANGES.create(&context.folder, 0)?;
            lists
                .document_ranges(context, cluster_of)?
                .into_iter()
                .try_for_each(|range| writer.push(range).map(|_| ()))?;
            files.push(writer.finish()?);
            Ok(files)
        });
        run_jobs(vec![job], checkpoint, self.context)?;
        let mut ranges = Vec::new();
        for file in checkpoint.open_dataset(PAIR_RANGES)? {
            let mut rows = file.read_all();
            while let Some(range) = rows.next_row()? {
                ranges.push(range);
            }
        }
        Ok(ranges)
    }

    /// The cluster of every document, as a number.
    fn cluster_of_each(&mut self) -> Vec<u32> {
        self.clusters.cluster_of_each().into_iter().map(|cluster| cluster.0).collect()
    }
}

/// Sends the pairs of some files that share enough, in batches and in order, from the one after `reached` on. Ends early once
/// `send` returns false.
fn read_batches(
    context: &Context,
    files: &[Arc<RunFile<Pair>>],
    reached: Option<Pair>,
    min_shared: &MinShared,
    send: &dyn Fn(Vec<Pair>) -> bool,
) -> Result<(), BackfillError> {
    let mut merge = MergeReader::new(files, reached.as_ref(), None)?;
    let mut batch = Vec::with_capacity(BATCH_PAIRS);
    while let Some(pair) = merge.next_row()? {
        context.progress.advance(1);
        if Some(pair) == reached || !min_shared.makes_candidate(&pair) {
            continue;
        }
        batch.push(pair);
        if batch.len() == BATCH_PAIRS && !send(std::mem::replace(&mut batch, Vec::with_capacity(BATCH_PAIRS))) {
            return Ok(());
        }
    }
    if !batch.is_empty() {
        send(batch);
    }
    Ok(())
}

/// Counts the clusters that the links make.
pub(in crate::backfill) fn cluster_sizes(clusters: &mut Clusters, links: &[LinkRow]) -> ClusterSizes {
    let mut sizes = ClusterSizes { documents: clusters.n_documents() as u64, ..ClusterSizes::default() };
    sizes.clusters = clusters.n_clusters() as u64;
    for row in clusters.rows().filter(|row| row.parent == row.document) {
        sizes.clusters_of_similar += 1;
        sizes.documents_in_clusters_of_similar += u64::from(row.size);
        sizes.largest = sizes.largest.max(u64::from(row.size));
    }
    let differing = links.iter().filter(|link| link.resemblance < 1.0);
    let mut differing: Vec<ClusterId> = differing.map(|link| clusters.cluster_of(link.later)).collect();
    differing.sort_unstable();
    differing.dedup();
    sizes.clusters_of_identical = sizes.clusters_of_similar - differing.len() as u64;
    sizes
}

/// A pair of different clusters, with the cluster of its earlier document.
#[derive(Clone, Copy)]
struct Candidate {
    pair: Pair,
    cluster: ClusterId,
}

/// Shares candidates out to threads. All candidates of a document go to one thread, and so do few candidates.
fn shares(mut open: &[Candidate], n_threads: usize) -> Vec<&[Candidate]> {
    let share = open.len().div_ceil(n_threads).max(PAIRS_PER_THREAD_MIN);
    let mut shares = Vec::with_capacity(n_threads);
    while open.len() > share {
        let later = open[share - 1].pair.later();
        let (first, rest) = open.split_at(open.partition_point(|candidate| candidate.pair.later() <= later));
        shares.push(first);
        open = rest;
    }
    shares.push(open);
    shares
}

/// Verifies candidates by their sketches.
struct Verifier<'a> {
    rule: &'a MatchRule,
    sketch_rule: Rule,
    common: &'a CommonShingles,
    /// Whether only common shingles nominate the candidates.
    is_represented: bool,
}

impl Verifier<'_> {
    /// The first verified candidate of each document in each cluster, and the number of comparisons.
    fn links_of(&self, open: &[Candidate], cache: &mut SketchCache) -> Result<(Vec<LinkRow>, u64), BackfillError> {
        let (mut links, mut n_compared) = (Vec::new(), 0);
        let mut joined = HashSet::new();
        for of_document in open.chunk_by(|a, b| a.pair.later() == b.pair.later()) {
            joined.clear();
            let mut n_left = self.rule.n_comparisons();
            for Candidate { pair, cluster } in self.in_order(of_document).iter() {
                if joined.contains(cluster) {
                    continue;
                }
                if n_left == 0 {
                    break;
                }
                n_left -= 1;
                n_compared += 1;
                if let Some(resemblance) = self.link(*pair, cache)? {
                    joined.insert(*cluster);
                    links.push(LinkRow { later: pair.later(), earlier: pair.earlier(), resemblance });
                }
            }
        }
        Ok((links, n_compared))
    }

    /// The candidates of a document in the order of comparison: most shared shingles first, then the oldest. Where
    /// the rule limits the comparisons, the newest comes first instead. The stream orders such candidates by how rare
    /// their shared shingles are. Pairs do not tell that, but documents that share rare shingles were paired as
    /// neighbours already.
    fn in_order<'c>(&self, of_document: &'c [Candidate]) -> Cow<'c, [Candidate]> {
        if of_document.len() <= self.rule.n_comparisons() {
            return Cow::Borrowed(of_document);
        }
        let mut newest_first = of_document.to_vec();
        newest_first.sort_unstable_by_key(|open| (Reverse(open.pair.n_shared), Reverse(open.pair.earlier())));
        Cow::Owned(newest_first)
    }

    /// The resemblance of a pair's documents, if it makes a link.
    fn link(&self, pair: Pair, cache: &mut SketchCache) -> Result<Option<f64>, BackfillError> {
        let (later, earlier) = (cache.get_next(pair.later())?, cache.get(pair.earlier())?);
        let is_common = |shingle| self.common.is_common_for(shingle, pair.later());
        Ok(self.rule.link(&later, &earlier, self.sketch_rule, self.is_represented, is_common))
    }
}

/// Writes the links of each step, so that a resumed run does not decide its pairs again.
struct LinkSteps {
    steps: Steps,
    /// Links that finished steps have written.
    n_written: usize,
}

impl LinkSteps {
    /// Resumes a stage. All links so far must be written: a stage begins where another one ended.
    fn resume(stage: &'static str, checkpoint: &Checkpoint, n_links: usize) -> Self {
        LinkSteps { steps: Steps::resume(stage, checkpoint), n_written: n_links }
    }

    fn is_finished(&self, checkpoint: &Checkpoint) -> bool {
        self.steps.is_finished(checkpoint)
    }

    /// The pair that the last finished step reached.
    fn reached(&self) -> Option<Pair> {
        let pair = |(later, earlier)| Pair::new(DocumentId(later), DocumentId(earlier), 0, false);
        self.steps.reached().map(pair)
    }

    fn record(&mut self, checkpoint: &mut Checkpoint, links: &[LinkRow], reached: Pair) -> Result<(), BackfillError> {
        let file = self.write(checkpoint, links)?;
        self.steps.record(checkpoint, vec![file], (reached.later().0, reached.earlier().0))?;
        self.n_written = links.len();
        Ok(())
    }

    fn finish(self, checkpoint: &mut Checkpoint, links: &[LinkRow]) -> Result<(), BackfillError> {
        let file = self.write(checkpoint, links)?;
        self.steps.finish(checkpoint, vec![file])
    }

    fn write(&self, checkpoint: &Checkpoint, links: &[LinkRow]) -> Result<DatasetFile, BackfillError> {
        let mut writer = LINKS.create(checkpoint.folder(), self.steps.next_name())?;
        links[self.n_written..].iter().try_for_each(|link| writer.push(*link).map(|_| ()))?;
        writer.finish()
    }
}
