//! <document, document, count>: which pairs share enough, and what their sketches say of them.
//!
//! The partition is that of the links: pairs that share enough index shingles, or a super shingle, and resemble each
//! other. A pair whose documents are in one cluster already cannot change it and is passed over, so that the order of
//! the pairs decides only which links are found, and what they cost.
//!
//! 1. Neighbours in the lists (see [`crate::backfill::phases::lists`]): as many pairs as postings at most, sorted and merged.
//! 2. Documents and the representatives of their common shingles, a few a document.
//! 3. All other pairs of different clusters, as many documents at a time as their pairs fit in memory: what one stretch
//!    joins, the next one need not form.

use crate::backfill::checkpoint::Checkpoint;
use crate::backfill::context::Context;
use crate::backfill::error::BackfillError;
use crate::backfill::phases::lists::{CommonShingles, NEIGHBOURS, REPRESENTED, SHORTENED};
use crate::backfill::phases::pair_formation::{Formed, Lists};
use crate::backfill::rows::{LinkRow, Pair};
use crate::backfill::sketch_cache::{self, MinShared, SketchCache};
use crate::backfill::usage::{Meter, Phase};
use crate::cluster::{Clusters, MatchRule};
use crate::document::{ClusterId, DocumentId};
use crate::extsort::{FinishedFile, MergeReader, RunFileWriter};
use crate::sketch::Rule;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashSet;

/// Verified links.
const LINKS: (&str, bool) = ("links", false);
/// The pair up to which a piece of links was decided.
const REACHED: (&str, bool) = ("reached", false);

/// Fewer pairs than these are not worth a thread.
const SHARE_MIN: usize = 64;

/// Pairs that are decided at once, and how many of these batches make a piece.
const BATCH_PAIRS: usize = 1 << 14;
const PIECE_BATCHES: usize = 256;

/// Stretches of documents whose pairs are formed at once.
const STRETCHES: (&str, bool) = ("stretches", false);

/// Decides pairs and keeps the clusters.
pub(in crate::backfill) struct Pairs<'a> {
    context: &'a Context,
    rule: MatchRule,
    sketch_rule: Rule,
    common: &'a CommonShingles,
    /// SketchFiles at hand, for each thread its own.
    at_hand: Vec<SketchCache>,
    needed: MinShared,
    /// The clusters so far.
    pub clusters: Clusters,
    /// Links that changed them, in the order in which they were found.
    pub links: Vec<LinkRow>,
    /// Pairs of sketches compared in this run.
    pub n_compared: u64,
}

impl<'a> Pairs<'a> {
    /// The state after all links that were found so far.
    pub fn open(
        checkpoint: &Checkpoint,
        context: &'a Context,
        common: &'a CommonShingles,
    ) -> Result<Self, BackfillError> {
        let (sketches, needed) = sketch_cache::open(checkpoint, SHORTENED)?;
        let mut pairs = Pairs {
            context,
            rule: checkpoint.rule().cluster.clone(),
            sketch_rule: checkpoint.rule().sketch.rule,
            common,
            at_hand: (0..context.n_threads).map(|_| SketchCache::new(&sketches, context)).collect(),
            needed,
            clusters: Clusters::alone(checkpoint.ingested().n_documents() as usize),
            links: Vec::new(),
            n_compared: 0,
        };
        for run in checkpoint.runs::<LinkRow>(LINKS.0, LINKS.1)? {
            let mut links = run.read_all();
            while let Some(link) = links.next()? {
                pairs.clusters.union(link.later, link.earlier);
                pairs.links.push(link);
            }
        }
        Ok(pairs)
    }

    /// Decides neighbours.
    pub fn decide_neighbours(&mut self, checkpoint: &mut Checkpoint) -> Result<(), BackfillError> {
        self.decide_sorted(checkpoint, "near", NEIGHBOURS, false)
    }

    /// Decides documents and the representatives of their common shingles.
    pub fn decide_represented(&mut self, checkpoint: &mut Checkpoint) -> Result<(), BackfillError> {
        self.decide_sorted(checkpoint, "represented", REPRESENTED, true)
    }

    /// Decides sorted pairs, from the pair on that was reached.
    fn decide_sorted(
        &mut self,
        checkpoint: &mut Checkpoint,
        stage: &'static str,
        (name, is_compressed): (&str, bool),
        is_represented: bool,
    ) -> Result<(), BackfillError> {
        let mut pieces = LinkPieces::of(checkpoint, stage)?;
        if pieces.is_over(checkpoint) {
            return Ok(());
        }
        let runs = checkpoint.runs::<Pair>(name, is_compressed)?;
        self.context.progress.begin(Phase::PairMerging, runs.iter().map(|run| run.n_rows()).sum());
        let mut merge = MergeReader::new(&runs, pieces.reached.as_ref(), None)?;
        let (mut batch, mut n_batches) = (Vec::with_capacity(BATCH_PAIRS), 0);
        while let Some(pair) = merge.next()? {
            self.context.progress.advance(1);
            if Some(pair) == pieces.reached || !self.is_candidate(pair) {
                continue;
            }
            batch.push(pair);
            if batch.len() == BATCH_PAIRS {
                self.decide(&batch, is_represented)?;
                n_batches += 1;
                if n_batches % PIECE_BATCHES == 0 {
                    pieces.record(checkpoint, &self.links, pair)?;
                }
                batch.clear();
            }
        }
        self.decide(&batch, is_represented)?;
        pieces.end(checkpoint, &self.links)
    }

    fn is_candidate(&self, pair: Pair) -> bool {
        pair.is_nominated || self.needed.is_met(pair.later(), pair.n_shared)
    }

    /// Decides pairs as the stream does: a document is compared with the candidates of each cluster, the best first, until
    /// one is verified. The documents are shared out to the threads; what another document in hand joins meanwhile costs
    /// comparisons that tell nothing new, and changes nothing.
    fn decide(&mut self, pairs: &[Pair], is_represented: bool) -> Result<(), BackfillError> {
        self.context.check()?;
        let clusters = &mut self.clusters;
        let candidate = |pair: &Pair| {
            let (own, other) = (clusters.cluster_of(pair.later()), clusters.cluster_of(pair.earlier()));
            (own != other).then_some(Candidate { pair: *pair, cluster: other })
        };
        let mut open: Vec<Candidate> = pairs.iter().filter_map(candidate).collect();
        // Most shared shingles first, then by age.
        open.sort_unstable_by_key(|open| (open.pair.later(), Reverse(open.pair.n_shared), open.pair.earlier()));
        let shares = shares(&open, self.context.n_threads);
        let deciding =
            Deciding { rule: &self.rule, sketch_rule: self.sketch_rule, common: self.common, is_represented };
        let deciding = &deciding;
        let decided = std::thread::scope(|scope| {
            let threads: Vec<_> = shares
                .into_iter()
                .zip(&mut self.at_hand)
                .map(|(share, at_hand)| scope.spawn(move || deciding.links_of(share, at_hand)))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| BackfillError::Died)?)
                .collect::<Result<Vec<_>, _>>()
        })?;
        for (links, n_compared) in decided {
            self.n_compared += n_compared;
            for link in links {
                if self.clusters.union(link.later, link.earlier).is_some() {
                    self.links.push(link);
                }
            }
        }
        Ok(())
    }

    /// Forms and decides all pairs of different clusters that the lists name, from the document on that was reached.
    pub fn decide_rest(&mut self, checkpoint: &mut Checkpoint) -> Result<(), BackfillError> {
        let mut pieces = LinkPieces::of(checkpoint, "rest")?;
        if pieces.is_over(checkpoint) {
            return Ok(());
        }
        let mut meter = Meter::start();
        let lists = Lists::of(checkpoint)?;
        let first = pieces.reached.map_or(0, |reached| reached.later().0 as usize);
        let mut names = self.names();
        let stretches = self.stretches(checkpoint, &lists, &names)?;
        checkpoint.add_usage(Phase::PairFormation, meter.lap(0));
        for (from, to) in stretches.into_iter().filter(|(from, _)| *from >= first) {
            self.context.progress.begin(Phase::PairFormation, 0);
            let mut formed = lists.pairs(self.context, &names, from, to)?;
            checkpoint.add_usage(Phase::PairFormation, meter.lap(0));
            self.context.progress.begin(Phase::PairMerging, formed.n_pairs());
            self.decide_formed(&mut formed)?;
            pieces.record(checkpoint, &self.links, Pair::new(DocumentId(to as u32), DocumentId(0), 0, false))?;
            checkpoint.add_usage(Phase::PairMerging, meter.lap(0));
            names = self.names();
        }
        pieces.end(checkpoint, &self.links)
    }

    /// Decides the pairs of a stretch.
    fn decide_formed(&mut self, formed: &mut Formed) -> Result<(), BackfillError> {
        let mut batch = Vec::with_capacity(BATCH_PAIRS);
        formed.each(|pair| {
            self.context.progress.advance(u64::from(pair.n_shared) + u64::from(pair.is_nominated));
            if self.is_candidate(pair) {
                batch.push(pair);
            }
            if batch.len() == BATCH_PAIRS {
                self.decide(&batch, false)?;
                batch.clear();
            }
            Ok(())
        })?;
        self.decide(&batch, false)
    }

    /// The stretches of documents whose pairs are formed at once. They are put down, so that a run that goes on forms the
    /// same pairs at once, and finds the same links.
    fn stretches(
        &self,
        checkpoint: &mut Checkpoint,
        lists: &Lists,
        names: &[u32],
    ) -> Result<Vec<(usize, usize)>, BackfillError> {
        let (name, is_compressed) = STRETCHES;
        if !checkpoint.is_done(name) {
            let stretches = lists.stretches(self.context, names)?;
            let mut writer = RunFileWriter::create(checkpoint.folder(), &format!("{name}-0"), is_compressed)?;
            for (from, to) in stretches {
                writer.push(Pair::new(DocumentId(to as u32), DocumentId(from as u32), 0, false))?;
            }
            checkpoint.record(name, vec![writer.finish()?])?;
        }
        let mut stretches = Vec::new();
        for run in checkpoint.runs::<Pair>(name, is_compressed)? {
            let mut rows = run.read_all();
            while let Some(row) = rows.next()? {
                stretches.push((row.earlier().0 as usize, row.later().0 as usize));
            }
        }
        Ok(stretches)
    }

    /// The cluster of every document.
    pub fn names(&mut self) -> Vec<u32> {
        let n = self.clusters.n_documents() as u32;
        (1..=n).map(|document| self.clusters.cluster_of(DocumentId(document)).0).collect()
    }
}

/// A pair to be decided, and the cluster of its earlier document.
#[derive(Clone, Copy)]
struct Candidate {
    pair: Pair,
    cluster: ClusterId,
}

/// Shares candidates out to threads, those of one document to one; few are left to one thread.
fn shares(mut open: &[Candidate], n_threads: usize) -> Vec<&[Candidate]> {
    let share = open.len().div_ceil(n_threads).max(SHARE_MIN);
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

/// What decides.
struct Deciding<'a> {
    rule: &'a MatchRule,
    sketch_rule: Rule,
    common: &'a CommonShingles,
    /// Whether only common shingles nominate these pairs.
    is_represented: bool,
}

impl Deciding<'_> {
    /// The first verified candidate of each document in each cluster, and how many were compared.
    fn links_of(&self, open: &[Candidate], at_hand: &mut SketchCache) -> Result<(Vec<LinkRow>, u64), BackfillError> {
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
                if let Some(resemblance) = self.link(*pair, at_hand)? {
                    joined.insert(*cluster);
                    links.push(LinkRow { later: pair.later(), earlier: pair.earlier(), resemblance });
                }
            }
        }
        Ok((links, n_compared))
    }

    /// A document's candidates in the order in which they are compared: as they are, most shared shingles first and then
    /// by age, or the newest first where not all may be compared. The stream orders those by how rare the shared shingles
    /// are, which pairs do not tell; what few documents share has paired them as neighbours already.
    fn in_order<'c>(&self, of_document: &'c [Candidate]) -> Cow<'c, [Candidate]> {
        if of_document.len() <= self.rule.n_comparisons() {
            return Cow::Borrowed(of_document);
        }
        let mut newest_first = of_document.to_vec();
        newest_first.sort_unstable_by_key(|open| (Reverse(open.pair.n_shared), Reverse(open.pair.earlier())));
        Cow::Owned(newest_first)
    }

    /// The resemblance of a pair's documents where they are linked.
    fn link(&self, pair: Pair, at_hand: &mut SketchCache) -> Result<Option<f64>, BackfillError> {
        let (later, earlier) = (at_hand.get(pair.later())?, at_hand.get(pair.earlier())?);
        let is_common = |shingle| self.common.is_for(shingle, pair.later());
        Ok(self.rule.link(&later, &earlier, self.sketch_rule, self.is_represented, is_common))
    }
}

/// The links as they are put down, so that what was decided is not decided again.
struct LinkPieces {
    stage: &'static str,
    n: usize,
    /// How many links are put down.
    n_links: usize,
    /// Up to which pair.
    reached: Option<Pair>,
}

impl LinkPieces {
    fn of(checkpoint: &Checkpoint, stage: &'static str) -> Result<Self, BackfillError> {
        let mut pieces = LinkPieces { stage, n: 0, n_links: 0, reached: None };
        while checkpoint.is_done(&pieces.job()) {
            let name = format!("{}-{stage}-{:05}", REACHED.0, pieces.n);
            for run in checkpoint.runs::<Pair>(&name, REACHED.1)? {
                pieces.reached = run.read_all().next()?;
            }
            pieces.n += 1;
        }
        pieces.n_links = checkpoint.pieces(LINKS.0).map(|piece| piece.n_rows as usize).sum();
        Ok(pieces)
    }

    fn job(&self) -> String {
        format!("decide-{}/{:05}", self.stage, self.n)
    }

    fn last_job(&self) -> String {
        format!("decide-{}/over", self.stage)
    }

    fn is_over(&self, checkpoint: &Checkpoint) -> bool {
        checkpoint.is_done(&self.last_job())
    }

    fn record(&mut self, checkpoint: &mut Checkpoint, links: &[LinkRow], reached: Pair) -> Result<(), BackfillError> {
        let name = format!("{}-{}-{:05}-0", REACHED.0, self.stage, self.n);
        let mut writer = RunFileWriter::create(checkpoint.folder(), &name, REACHED.1)?;
        writer.push(reached)?;
        let pieces = vec![self.write_links(checkpoint, links)?, writer.finish()?];
        checkpoint.record(&self.job(), pieces)?;
        (self.n, self.n_links) = (self.n + 1, links.len());
        Ok(())
    }

    fn end(mut self, checkpoint: &mut Checkpoint, links: &[LinkRow]) -> Result<(), BackfillError> {
        let pieces = vec![self.write_links(checkpoint, links)?];
        self.n_links = links.len();
        checkpoint.record(&self.last_job(), pieces)
    }

    fn write_links(&self, checkpoint: &Checkpoint, links: &[LinkRow]) -> Result<FinishedFile, BackfillError> {
        let name = format!("{}-{}-{:05}", LINKS.0, self.stage, self.n);
        let mut writer = RunFileWriter::create(checkpoint.folder(), &name, LINKS.1)?;
        links[self.n_links..].iter().try_for_each(|link| writer.push(*link).map(|_| ()))?;
        Ok(writer.finish()?)
    }
}
