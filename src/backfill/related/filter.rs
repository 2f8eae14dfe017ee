//! The fifth phase: keeps the candidate pairs that are similar, by their signatures or by their bags.
//!
//! Pairs come in the order of ids, but the second bag of each may be any: all bags, or signatures, that pairs name must
//! be in memory. Where they do not fit, they are divided into blocks, and the pairs are read once for each two blocks.

use super::collect::{halves, reached};
use super::datasets::{BAGS, PAIRS, SIGNATURES, SIMILAR};
use super::pages::part_rows;
use super::rows::{BagRow, NeighbourRow, PairRow, SignatureRow};
use super::work::RelatedBuild;
use crate::backfill::checkpoint::{Checkpoint, FinishedJob};
use crate::backfill::context::Context;
use crate::backfill::datasets::DatasetFile;
use crate::backfill::error::BackfillError;
use crate::extsort::{MergeReader, RunFile, split_points};
use crate::related::{Bag, PairFilter, RelatedRule, Signature};
use std::ops::Range;
use std::sync::Arc;

/// What pairs are compared by.
enum Compared {
    Bags(Vec<Bag>),
    Signatures { bytes: Vec<u8>, n_bytes: usize },
}

/// What pairs are compared by, of bags that follow each other.
struct Block {
    ids: Range<u32>,
    compared: Compared,
}

impl Block {
    /// The similarity of a bag and one of another block, as two numbers.
    fn compare(&self, id: u32, other: &Block, other_id: u32) -> (u16, u16) {
        let (at, other_at) = ((id - self.ids.start) as usize, (other_id - other.ids.start) as usize);
        match (&self.compared, &other.compared) {
            (Compared::Bags(ours), Compared::Bags(theirs)) => {
                let (a, b) = (&ours[at], &theirs[other_at]);
                let shared = a.shared(b);
                (shared as u16, (a.mass() + b.mass() - shared) as u16)
            }
            (Compared::Signatures { bytes, n_bytes }, Compared::Signatures { bytes: theirs, .. }) => {
                let signature = |bytes, at: usize| {
                    let bytes: &[u8] = bytes;
                    Signature::from_bytes(&bytes[at * n_bytes..][..*n_bytes])
                };
                let a = signature(bytes, at);
                (a.n_agreeing(&signature(theirs, other_at)) as u16, a.n_values() as u16)
            }
            _ => (0, 1),
        }
    }
}

/// The files of all bags or signatures, and how many there are.
enum Files {
    Bags(Vec<Arc<RunFile<BagRow>>>),
    Signatures(Vec<Arc<RunFile<SignatureRow>>>, usize),
}

/// Bytes of memory for a bag beside its terms, and for a term.
const BYTES_PER_BAG: u64 = 32;
const BYTES_PER_TERM: u64 = 8;

impl Files {
    fn open(checkpoint: &Checkpoint<RelatedBuild>) -> Result<Self, BackfillError> {
        let rule = &checkpoint.spec().rule;
        Ok(match rule.filter {
            PairFilter::Bags => Files::Bags(checkpoint.open_dataset(BAGS)?),
            PairFilter::Signatures => {
                Files::Signatures(checkpoint.open_dataset(SIGNATURES)?, rule.signature().n_bytes())
            }
        })
    }

    /// Bytes of memory for all of them.
    fn n_bytes(&self, checkpoint: &Checkpoint<RelatedBuild>, n_bags: u32) -> u64 {
        match self {
            Files::Bags(_) => u64::from(n_bags) * BYTES_PER_BAG + reached(checkpoint, "bags-") * BYTES_PER_TERM,
            Files::Signatures(_, n_bytes) => u64::from(n_bags) * *n_bytes as u64,
        }
    }

    fn read(&self, ids: Range<u32>) -> Result<Block, BackfillError> {
        let mut id = 0;
        let compared = match self {
            Files::Bags(files) => {
                let mut bags = Vec::with_capacity(ids.len());
                for file in files {
                    let begin = id;
                    id += file.n_rows() as u32;
                    if id <= ids.start || begin >= ids.end {
                        continue;
                    }
                    let (mut rows, mut id) = (file.read_all(), begin);
                    while let Some(row) = rows.next_row()? {
                        bags.extend(ids.contains(&id).then_some(row.bag));
                        id += 1;
                    }
                }
                Compared::Bags(bags)
            }
            Files::Signatures(files, n_bytes) => {
                let mut bytes = Vec::with_capacity(ids.len() * n_bytes);
                for file in files {
                    let mut rows = file.read_all();
                    while let Some(SignatureRow(row)) = rows.next_row()? {
                        let end = id + (row.len() / n_bytes) as u32;
                        let (from, to) = (ids.start.clamp(id, end) - id, ids.end.clamp(id, end) - id);
                        bytes.extend(&row[from as usize * n_bytes..to as usize * n_bytes]);
                        id = end;
                    }
                }
                Compared::Signatures { bytes, n_bytes: *n_bytes }
            }
        };
        Ok(Block { ids, compared })
    }
}

/// Keeps the similar pairs.
pub(super) fn filter(
    checkpoint: &mut Checkpoint<RelatedBuild>,
    context: &Context,
    n_bags: u32,
    memory: u64,
) -> Result<(), BackfillError> {
    let rule = checkpoint.spec().rule.clone();
    let files = Files::open(checkpoint)?;
    let pairs = checkpoint.open_dataset(PAIRS)?;
    let n_pairs = pairs.iter().map(|file| file.n_rows()).sum();
    let points = split_points(&pairs, part_rows(n_pairs), |pair| PairRow::new(pair.first(), 0));
    let blocks = blocks(files.n_bytes(checkpoint, n_bags), n_bags, memory);
    for (at, firsts) in blocks.iter().enumerate() {
        // A build that resumes may have all of them.
        let mut first_block = None;
        for (other_at, seconds) in blocks.iter().enumerate().skip(at) {
            let name = |part: usize| format!("filter-{at:03}-{other_at:03}-{part:05}");
            let parts: Vec<(usize, PairRow, Option<PairRow>)> =
                parts(&points, firsts).into_iter().filter(|(part, ..)| !checkpoint.is_finished(&name(*part))).collect();
            if parts.is_empty() {
                continue;
            }
            let first_block = match &mut first_block {
                Some(block) => block,
                none => none.insert(files.read(firsts.clone())?),
            };
            let read = if at == other_at { None } else { Some(files.read(seconds.clone())?) };
            let (first_block, second_block) = (&*first_block, read.as_ref().unwrap_or(first_block));
            let filter = |(part, from, to): (usize, PairRow, Option<PairRow>)| {
                let mut pairs = MergeReader::new(&pairs, Some(&from), to)?;
                let mut similar = SIMILAR.create(&context.folder, format_args!("{at:03}-{other_at:03}-{part:05}"))?;
                let mut n_compared = 0;
                while let Some(pair) = pairs.next_row()? {
                    if second_block.ids.contains(&pair.second()) {
                        n_compared += 1;
                        if let Some(row) = similar_pair(pair, first_block, second_block, &rule) {
                            similar.push(row)?;
                        }
                    }
                }
                Ok((part, similar.finish()?, n_compared))
            };
            context.run_parallel(parts, filter, |(part, file, n_compared): (usize, DatasetFile, u64)| {
                checkpoint.record(name(part), FinishedJob { files: vec![file], reached: Some(halves(n_compared)) })
            })?;
        }
    }
    Ok(())
}

fn similar_pair(pair: PairRow, firsts: &Block, seconds: &Block, rule: &RelatedRule) -> Option<NeighbourRow> {
    let (of, neighbour) = (pair.first(), pair.second());
    let (shared, either) = firsts.compare(of, seconds, neighbour);
    let row = NeighbourRow { of, neighbour, shared, either };
    (row.similarity() >= rule.min_similarity).then_some(row)
}

/// Divides all ids into blocks of which two fit into half of the memory, or one where that is all.
fn blocks(n_bytes: u64, n_bags: u32, memory: u64) -> Vec<Range<u32>> {
    let memory = (memory / 2).max(1);
    let n_blocks = if n_bytes <= memory { 1 } else { (2 * n_bytes).div_ceil(memory) };
    let size = u64::from(n_bags).div_ceil(n_blocks).max(1) as usize;
    (0..n_bags).step_by(size).map(|start| start..start.saturating_add(size as u32).min(n_bags)).collect()
}

/// The parts of the pairs whose first bag is in a block: number, begin, end.
fn parts(points: &[PairRow], firsts: &Range<u32>) -> Vec<(usize, PairRow, Option<PairRow>)> {
    let (begin, end) = (PairRow::new(firsts.start, 0), PairRow::new(firsts.end, 0));
    let inner = points.iter().copied().filter(|point| *point > begin && *point < end);
    let starts: Vec<PairRow> = std::iter::once(begin).chain(inner).collect();
    let ends = starts[1..].iter().copied().chain([end]);
    starts.iter().copied().zip(ends).enumerate().map(|(part, (from, to))| (part, from, Some(to))).collect()
}
