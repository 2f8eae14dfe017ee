//! Clusters without a store: the phases from the pages to the links, and what they leave, to be read record by record.

use super::checkpoint::Checkpoint;
use super::context::Context;
use super::datasets::{DOCUMENTS, PAGES};
use super::disk_space::DiskSpace;
use super::error::BackfillError;
use super::given_links::{GivenLinks, TakenLinks};
use super::ingest_state::IngestState;
use super::jobs::{measured, run_jobs};
use super::phases::common_shingles::CommonShingles;
use super::phases::ingest::ingest;
use super::phases::pairs::PairDecider;
use super::phases::{common_shingles, lists, partition};
use super::rows::{LinkRow, PageRow};
use super::sketch_cache::{SketchCache, open_sketches};
use super::sketching::PageInput;
use super::usage::Phase;
use crate::cluster::Clusters;
use crate::document::DocumentId;
use crate::ports::Loader;
use crate::sketch::{Estimate, compare};
use std::sync::Arc;

/// Takes the pages of a source through the phases up to the clusters. No store is loaded, and the work folder
/// stays.
///
/// # Errors
/// [`BackfillError`]. Finished jobs stay in the work folder, and the next run resumes after them.
pub fn cluster(
    mut checkpoint: Checkpoint,
    context: &Context,
    input: PageInput,
) -> Result<ClusteredPages, BackfillError> {
    measured(&mut checkpoint, context, Phase::Sketching, |checkpoint| ingest(checkpoint, context, input))?;
    warn_of_disk_space(&checkpoint)?;
    let common = merge_shingles(&mut checkpoint, context, true, None)?;
    let mut clusters = decide_pairs(&mut checkpoint, context, None, common)?.clusters;
    // A caller may store decisions that follow from the clusters. A resumed run must find the same ones.
    checkpoint.save()?;
    let clusters = clusters.cluster_of_each().into_iter().map(|cluster| DocumentId(cluster.0)).collect();
    let sketches = SketchCache::new(&open_sketches(&checkpoint)?.0, context);
    Ok(ClusteredPages { checkpoint, clusters, sketches })
}

/// Pages and their clusters, in a work folder.
pub struct ClusteredPages {
    checkpoint: Checkpoint,
    clusters: Vec<DocumentId>,
    sketches: SketchCache,
}

impl ClusteredPages {
    /// What was read.
    pub fn ingested(&self) -> &IngestState {
        self.checkpoint.ingested()
    }

    /// The cluster of every document, in the order of their ids, named by its smallest document.
    pub fn clusters(&self) -> &[DocumentId] {
        &self.clusters
    }

    /// The words of every document, in the order of their ids.
    ///
    /// # Errors
    /// [`BackfillError`] where the work folder cannot be read.
    pub fn n_words(&self) -> Result<Vec<u32>, BackfillError> {
        let mut n_words = Vec::with_capacity(self.clusters.len());
        for segment in &self.ingested().segments {
            let mut rows = DOCUMENTS.open(self.checkpoint.folder(), &segment.documents)?.read_all();
            while let Some(row) = rows.next_row()? {
                n_words.push(row.n_words);
            }
        }
        Ok(n_words)
    }

    /// Calls `each` with every record, in the order of arrival.
    ///
    /// # Errors
    /// [`BackfillError`] where the work folder cannot be read, or the error of `each`.
    pub fn each_page<E: From<BackfillError>>(&self, mut each: impl FnMut(PageRow) -> Result<(), E>) -> Result<(), E> {
        for segment in &self.ingested().segments {
            let mut rows = PAGES.open(self.checkpoint.folder(), &segment.pages)?.read_all();
            while let Some(row) = rows.next_row().map_err(BackfillError::from)? {
                each(row)?;
            }
        }
        Ok(())
    }

    /// Compares documents by their sketches.
    ///
    /// # Errors
    /// [`BackfillError`] where the work folder cannot be read.
    pub fn compare(&mut self, a: DocumentId, b: DocumentId) -> Result<Estimate, BackfillError> {
        let rule = self.checkpoint.rule().sketch.rule;
        Ok(compare(&*self.sketches.get(a)?, &*self.sketches.get(b)?, rule))
    }
}

/// What the phases of shingles and pairs leave.
pub(super) struct Decided {
    pub common: Arc<CommonShingles>,
    pub clusters: Clusters,
    pub links: Vec<LinkRow>,
    /// Pairs of sketches compared in this run.
    pub n_compared: u64,
}

/// Runs the phases that sort and merge shingles, and finds the common ones. `finds_pairs` tells whether pairs are searched for
/// in the lists, which are then written. With a loader, the same passes write the store's tables of lists, and sort the pages
/// for the other tables.
pub(super) fn merge_shingles(
    checkpoint: &mut Checkpoint,
    context: &Context,
    finds_pairs: bool,
    loader: Option<&dyn Loader>,
) -> Result<Arc<CommonShingles>, BackfillError> {
    let common = measured(checkpoint, context, Phase::ShingleMerging, |checkpoint| {
        let mut jobs = partition::document_jobs(checkpoint);
        if loader.is_some() {
            jobs.extend(partition::page_jobs(checkpoint));
        }
        run_jobs(jobs, checkpoint, context)?;
        run_jobs(vec![common_shingles::common_shingles_job(checkpoint)?], checkpoint, context)?;
        CommonShingles::read(checkpoint)
    })?;
    if finds_pairs {
        measured(checkpoint, context, Phase::PairFormation, |checkpoint| {
            run_jobs(lists::list_jobs(checkpoint, loader)?, checkpoint, &context.with_waiting_threads())
        })?;
    }
    Ok(Arc::new(common))
}

/// Runs the phases from the lists to the links. Where links are given, they replace the search for pairs.
pub(super) fn decide_pairs(
    checkpoint: &mut Checkpoint,
    context: &Context,
    given: Option<GivenLinks>,
    common: Arc<CommonShingles>,
) -> Result<Decided, BackfillError> {
    if let Some(given) = given {
        let decided =
            measured(checkpoint, context, Phase::PairMerging, |checkpoint| given.take(checkpoint, context, &common))?;
        let TakenLinks { clusters, links, n_compared } = decided;
        return Ok(Decided { common, clusters, links, n_compared });
    }
    measured(checkpoint, context, Phase::PairFormation, |checkpoint| {
        run_jobs(vec![lists::representative_pairs_job(checkpoint, &common)?], checkpoint, context)
    })?;
    let mut decider = measured(checkpoint, context, Phase::PairMerging, |checkpoint| {
        let mut decider = PairDecider::resume(checkpoint, context, &common)?;
        decider.decide_neighbours(checkpoint)?;
        decider.decide_representatives(checkpoint)?;
        Ok(decider)
    })?;
    decider.decide_rest(checkpoint)?;
    let PairDecider { clusters, links, n_compared, .. } = decider;
    Ok(Decided { common, clusters, links, n_compared })
}

/// Warns where the phases after the first may fill the disk.
pub(super) fn warn_of_disk_space(checkpoint: &Checkpoint) -> Result<(), BackfillError> {
    let disk_space = DiskSpace::for_phases(checkpoint)?;
    if disk_space.is_insufficient() {
        let [needed, free] = [disk_space.needed, disk_space.free].map(|n_bytes| n_bytes as f64 / f64::from(1 << 20));
        tracing::warn!(
            "the backfill may need {needed:.1} MiB more of disk, and {free:.1} MiB are free; free some space"
        );
    }
    Ok(())
}
