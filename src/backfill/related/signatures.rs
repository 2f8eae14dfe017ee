//! The third phase: signs the bags.

use super::datasets::{BAGS, SIGNATURES};
use super::rows::SignatureRow;
use super::work::RelatedBuild;
use crate::backfill::checkpoint::Checkpoint;
use crate::backfill::context::Context;
use crate::backfill::error::BackfillError;
use crate::backfill::jobs::{Job, run_jobs};
use crate::related::Signer;

/// Signatures in a row.
const SIGNATURES_PER_ROW: usize = 512;

/// Signs all bags.
pub(super) fn sign(checkpoint: &mut Checkpoint<RelatedBuild>, context: &Context) -> Result<(), BackfillError> {
    let rule = checkpoint.spec().rule.signature();
    let (signer, n_bytes) = (Signer::new(&rule, &checkpoint.seed()?), rule.n_bytes());
    let files = checkpoint.open_dataset(BAGS)?.into_iter().enumerate();
    let jobs = files.map(|(at, file)| {
        let mut signer = signer.clone();
        Job::new(format!("signatures-{at:05}"), move |context: &Context| {
            let mut signatures = SIGNATURES.create(&context.folder, format_args!("{at:05}"))?;
            let mut bags = file.read_all();
            let mut row = Vec::with_capacity(SIGNATURES_PER_ROW * n_bytes);
            while let Some(bag) = bags.next_row()? {
                let begin = row.len();
                row.resize(begin + n_bytes, 0);
                signer.sign_into(&bag.bag, &mut row[begin..]);
                if row.len() == SIGNATURES_PER_ROW * n_bytes {
                    signatures.push(SignatureRow(std::mem::take(&mut row)))?;
                }
            }
            if !row.is_empty() {
                signatures.push(SignatureRow(row))?;
            }
            Ok(vec![signatures.finish()?])
        })
    });
    run_jobs(jobs.collect(), checkpoint, context)
}
