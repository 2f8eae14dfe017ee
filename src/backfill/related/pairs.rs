//! The fourth phase: finds the pairs of bags whose signatures agree in the values of a round (section 4,
//! `ExtractSimilarPairs`).

use super::datasets::{PAIRS, SIGNATURES};
use super::rows::{PairRow, SignatureRow};
use super::work::RelatedBuild;
use crate::backfill::checkpoint::Checkpoint;
use crate::backfill::context::Context;
use crate::backfill::error::BackfillError;
use crate::backfill::jobs::{Job, run_jobs};
use crate::extsort::RunFile;
use crate::related::{CandidateRule, KeySorter, KeyedId, Positions, Signature, pairs};
use std::ops::Range;
use std::sync::Arc;

/// Rounds of a job: the pairs of one are sorted together, so that those that several rounds find are written once.
const ROUNDS_PER_JOB: usize = 5;

/// Finds the pairs of all rounds.
pub(super) fn find(
    checkpoint: &mut Checkpoint<RelatedBuild>,
    context: &Context,
    n_bags: u32,
) -> Result<(), BackfillError> {
    let (signature_rule, rule) = (checkpoint.spec().rule.signature(), checkpoint.spec().rule.candidates());
    let files = checkpoint.open_dataset(SIGNATURES)?;
    let positions = Positions::new(&rule, &signature_rule, &checkpoint.seed()?);
    let finder = Finder { files: &files, positions: &positions, rule, n_bytes: signature_rule.n_bytes(), n_bags };
    let jobs = (0..rule.rounds).step_by(ROUNDS_PER_JOB).map(|first| {
        let (finder, end) = (&finder, (first + ROUNDS_PER_JOB).min(rule.rounds));
        Job::new(format!("pairs-{first:05}"), move |context: &Context| {
            let mut sorter = context.sorter(PAIRS, first);
            finder.find(first..end, context, |first, second| sorter.push(PairRow::new(first, second)))?;
            sorter.finish()
        })
    });
    run_jobs(jobs.collect(), checkpoint, context)
}

/// What all rounds work with.
struct Finder<'a> {
    files: &'a [Arc<RunFile<SignatureRow>>],
    positions: &'a Positions,
    rule: CandidateRule,
    /// Bytes of a signature.
    n_bytes: usize,
    n_bags: u32,
}

impl Finder<'_> {
    /// Gives the pairs of some rounds. The keys of as many rounds as fit into memory are made in one pass over the
    /// signatures; where those of one round do not fit, it takes several passes, each for a range of keys.
    fn find(
        &self,
        rounds: Range<usize>,
        context: &Context,
        mut found: impl FnMut(u32, u32) -> Result<(), BackfillError>,
    ) -> Result<(), BackfillError> {
        let memory = context.memory as usize / (2 * context.n_threads);
        let of_round = (self.n_bags as usize * size_of::<KeyedId>()).max(1);
        // The sorter takes as much as one round does.
        let n_at_once = (memory / of_round).saturating_sub(1).max(1);
        let n_slices = (2 * of_round).div_ceil(memory.max(1)) as u64;
        let mut sorter = KeySorter::default();
        let all: Vec<usize> = rounds.collect();
        for rounds in all.chunks(n_at_once) {
            for slice in 0..n_slices {
                context.check_stop()?;
                for mut keys in self.keys(rounds, slice, n_slices)? {
                    sorter.sort(&mut keys);
                    let mut failed = Ok(());
                    pairs(&keys, self.rule.reach, |first, second| {
                        if failed.is_ok() {
                            failed = found(first, second);
                        }
                    });
                    failed?;
                }
            }
        }
        Ok(())
    }

    /// The keys of some rounds that lie in a slice of all possible keys.
    fn keys(&self, rounds: &[usize], slice: u64, n_slices: u64) -> Result<Vec<Vec<KeyedId>>, BackfillError> {
        let is_inside = |key: u64| (u128::from(key) * u128::from(n_slices)) >> 64 == u128::from(slice);
        let capacity = self.n_bags as usize / n_slices as usize;
        let mut keys: Vec<Vec<KeyedId>> = rounds.iter().map(|_| Vec::with_capacity(capacity)).collect();
        let mut id = 0;
        for file in self.files {
            let mut rows = file.read_all();
            while let Some(SignatureRow(bytes)) = rows.next_row()? {
                for signature in bytes.chunks_exact(self.n_bytes).map(Signature::from_bytes) {
                    for (round, keys) in rounds.iter().zip(&mut keys) {
                        let key = self.positions.key(&signature, *round);
                        if n_slices == 1 || is_inside(key) {
                            keys.push(KeyedId { key, id });
                        }
                    }
                    id += 1;
                }
            }
        }
        Ok(keys)
    }
}
