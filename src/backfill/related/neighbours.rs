//! The last phases: sorts the similar pairs both ways, and scans them for centers (section 5).

use super::datasets::{CENTERS, NEIGHBOURS, SIMILAR};
use super::rows::CenterRow;
use super::work::{BuildSizes, RelatedBuild};
use crate::backfill::checkpoint::Checkpoint;
use crate::backfill::context::Context;
use crate::backfill::error::BackfillError;
use crate::backfill::jobs::{Job, run_jobs};
use crate::extsort::MergeReader;
use crate::related::Centers;

/// Sorts the similar pairs by their first bag and by their second one.
pub(super) fn sort(checkpoint: &mut Checkpoint<RelatedBuild>, context: &Context) -> Result<(), BackfillError> {
    let files = checkpoint.open_dataset(SIMILAR)?;
    // A job for each thread, so that there are few files to merge.
    let share = files.len().div_ceil(SORT_JOBS).max(1);
    let jobs = files.chunks(share).enumerate().map(|(at, files)| {
        let files = files.to_vec();
        Job::new(format!("sort-{at:05}"), move |context: &Context| {
            let mut sorter = context.sorter(NEIGHBOURS, at);
            for file in files {
                context.check_stop()?;
                let mut pairs = file.read_all();
                while let Some(pair) = pairs.next_row()? {
                    sorter.push(pair)?;
                    sorter.push(pair.reversed())?;
                }
            }
            sorter.finish()
        })
    });
    run_jobs(jobs.collect(), checkpoint, context)
}

/// Jobs that sort.
const SORT_JOBS: usize = 8;

/// Finds the center of every bag in one scan.
pub(super) fn center(
    checkpoint: &mut Checkpoint<RelatedBuild>,
    context: &Context,
    n_bags: u32,
) -> Result<(), BackfillError> {
    let files = checkpoint.open_dataset(NEIGHBOURS)?;
    let job = Job::new("center", move |context: &Context| {
        let mut rows = MergeReader::new(&files, None, None)?;
        let mut centers = Centers::new(n_bags);
        let mut n_rows = 0u64;
        while let Some(row) = rows.next_row()? {
            centers.push(row.of, row.neighbour);
            n_rows += 1;
            if n_rows.is_multiple_of(1 << 20) {
                context.check_stop()?;
            }
        }
        let mut writer = CENTERS.create(&context.folder, "all")?;
        for center in centers.finish() {
            writer.push(CenterRow(center))?;
        }
        Ok(vec![writer.finish()?])
    });
    run_jobs(vec![job], checkpoint, context)
}

/// Counts the clusters around the centers.
pub(super) fn count_clusters(
    checkpoint: &Checkpoint<RelatedBuild>,
    n_bags: u32,
    sizes: &mut BuildSizes,
) -> Result<(), BackfillError> {
    let mut n_members = vec![0u32; n_bags as usize];
    for file in checkpoint.open_dataset(CENTERS)? {
        let mut rows = file.read_all();
        while let Some(CenterRow(center)) = rows.next_row()? {
            n_members[center as usize] += 1;
        }
    }
    sizes.clusters = n_members.iter().filter(|n| **n > 0).count() as u64;
    sizes.clusters_of_related = n_members.iter().filter(|n| **n > 1).count() as u64;
    sizes.largest = n_members.iter().copied().max().map_or(0, u64::from);
    Ok(())
}
