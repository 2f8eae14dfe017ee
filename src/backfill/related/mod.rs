//! Related pages of a whole crawl at once (Haveliwala, Gionis and Indyk, "Scalable Techniques for Clustering the Web",
//! 2000), by sorting and merging, in the phases of the paper's table.
//!
//! ```text
//! pages ─▶ collect ─▶ signatures ─▶ pairs ─▶ filter ─▶ neighbours
//! words,   counts,    80 values     agree    similar   both ways,
//! fragments bags      a bag         in 3     enough    CENTER
//! ```
//! [`build`] begins with pages, [`build_known`] with what a caller knows about each URL. Both leave their results as files
//! in the work folder, which [`Built`] reads. After a kill the first phase starts over; all others resume after their last
//! finished job. [`count_related`] makes the bags of a store from what it keeps.

mod built;
mod collect;
mod datasets;
mod filter;
mod neighbours;
mod pages;
mod pairs;
mod recount;
mod rows;
mod signatures;
mod store;
mod store_rows;
#[cfg(test)]
mod tests;
mod url_table;
mod work;

pub use built::{Built, Neighbour};
pub use collect::{KnownUrl, KnownUrls};
pub use recount::{Difference, is_up_to_date, recount_related};
pub use store::{CountedUrls, count_related};
pub use url_table::UrlTable;
pub use work::{BuildPhase, BuildPhaseReport, BuildReport, BuildSizes, BuildSpec, RelatedBuild};

use crate::backfill::checkpoint::{Checkpoint, FinishedJob};
use crate::backfill::context::Context;
use crate::backfill::datasets::Dataset;
use crate::backfill::error::BackfillError;
use crate::backfill::jobs::measured;
use crate::backfill::sketching::PageInput;
use collect::SaidByPages;
use datasets::{BAGS, COUNTED, FRAGMENTS, NEIGHBOURS, PAGES, PAIRS, REDIRECTS, SIGNATURES, SIMILAR, STATES};

/// Bytes of memory for each row in a part, by which a checkpoint remembers the memory that a build was planned for.
const MEMORY_PER_PART_ROW: u64 = 256;

/// The rows in a part that stand for a memory limit in bytes.
pub fn part_rows(memory: u64) -> u64 {
    memory.div_ceil(MEMORY_PER_PART_ROW)
}

/// Finds the related pages among those of a source.
///
/// # Errors
/// [`BackfillError`]. What is finished stays in the work folder, and the next run resumes after it.
pub fn build(
    checkpoint: &mut Checkpoint<RelatedBuild>,
    context: &Context,
    input: PageInput,
) -> Result<BuildReport, BackfillError> {
    phase(checkpoint, context, BuildPhase::Bags, |checkpoint| {
        pages::read(checkpoint, context, input)?;
        pages::keep_newest(checkpoint, context)?;
        pages::follow_redirects(checkpoint, context)
    })?;
    release(checkpoint, BuildPhase::Bags, PAGES)?;
    release(checkpoint, BuildPhase::Bags, REDIRECTS)?;
    // Once these words are counted their files are gone.
    let said = match checkpoint.is_finished(&end_name(BuildPhase::BagSort)) {
        true => None,
        false => Some(SaidByPages::open(checkpoint)?),
    };
    build_known(checkpoint, context, said.as_ref().map(|said| said as &dyn KnownUrls))
}

/// Finds the related pages among URLs about which a caller knows the words. A build that resumes needs none where its
/// bags are sorted.
///
/// # Errors
/// [`BackfillError`], as for [`build`].
pub fn build_known(
    checkpoint: &mut Checkpoint<RelatedBuild>,
    context: &Context,
    known: Option<&dyn KnownUrls>,
) -> Result<BuildReport, BackfillError> {
    if let Some(report) = checkpoint.report() {
        return Ok(report.clone());
    }
    if let Some(known) = known {
        phase(checkpoint, context, BuildPhase::BagSort, |checkpoint| {
            collect::count(checkpoint, context, known)?;
            collect::weigh(checkpoint, context)
        })?;
    }
    release(checkpoint, BuildPhase::BagSort, STATES)?;
    release(checkpoint, BuildPhase::BagSort, FRAGMENTS)?;
    release(checkpoint, BuildPhase::BagSort, COUNTED)?;
    let n_bags: u64 = checkpoint.files_of(BAGS.name()).map(|file| file.n_rows).sum();
    // The largest number stands for no center.
    let n_bags = u32::try_from(n_bags).ok().filter(|n| *n < u32::MAX).ok_or(BackfillError::TooManyUrls(n_bags))?;
    cluster(checkpoint, context, n_bags)?;
    let mut sizes = BuildSizes {
        urls: u64::from(n_bags),
        terms: collect::reached(checkpoint, "bags-"),
        candidate_pairs: collect::reached(checkpoint, "filter-"),
        pairs: checkpoint.files_of(NEIGHBOURS.name()).map(|file| file.n_rows).sum::<u64>() / 2,
        ..BuildSizes::default()
    };
    neighbours::count_clusters(checkpoint, n_bags, &mut sizes)?;
    let report = BuildReport {
        counts: checkpoint.ingested().counts.clone(),
        unreadable: checkpoint.ingested().unreadable.iter().cloned().collect(),
        sizes,
        phases: work::phase_reports(checkpoint.usage()),
    };
    // The files are the result, so that they must be durable before the report.
    checkpoint.save()?;
    checkpoint.set_report(report.clone())?;
    Ok(report)
}

/// Runs the phases after the bags.
fn cluster(checkpoint: &mut Checkpoint<RelatedBuild>, context: &Context, n_bags: u32) -> Result<(), BackfillError> {
    // A build that resumes with another limit must divide its work in the same way.
    let memory = checkpoint.part_rows().saturating_mul(MEMORY_PER_PART_ROW);
    phase(checkpoint, context, BuildPhase::Signatures, |checkpoint| signatures::sign(checkpoint, context))?;
    phase(checkpoint, context, BuildPhase::Pairs, |checkpoint| pairs::find(checkpoint, context, n_bags))?;
    phase(checkpoint, context, BuildPhase::Filter, |checkpoint| filter::filter(checkpoint, context, n_bags, memory))?;
    release(checkpoint, BuildPhase::Filter, PAIRS)?;
    release(checkpoint, BuildPhase::Filter, SIGNATURES)?;
    phase(checkpoint, context, BuildPhase::Sort, |checkpoint| neighbours::sort(checkpoint, context))?;
    release(checkpoint, BuildPhase::Sort, SIMILAR)?;
    phase(checkpoint, context, BuildPhase::Center, |checkpoint| neighbours::center(checkpoint, context, n_bags))
}

fn end_name(phase: BuildPhase) -> String {
    format!("end-{}", phase.paper().0)
}

/// Runs a phase unless it is finished, measures it, and records its end.
fn phase(
    checkpoint: &mut Checkpoint<RelatedBuild>,
    context: &Context,
    phase: BuildPhase,
    body: impl FnOnce(&mut Checkpoint<RelatedBuild>) -> Result<(), BackfillError>,
) -> Result<(), BackfillError> {
    if checkpoint.is_finished(&end_name(phase)) {
        return Ok(());
    }
    measured(checkpoint, context, phase, body)?;
    checkpoint.record(end_name(phase), FinishedJob::default())
}

/// Removes the files of a data set that nothing reads after a phase.
fn release<R>(
    checkpoint: &mut Checkpoint<RelatedBuild>,
    after: BuildPhase,
    dataset: Dataset<R>,
) -> Result<(), BackfillError> {
    if checkpoint.is_finished(&end_name(after)) { checkpoint.release(dataset) } else { Ok(()) }
}
