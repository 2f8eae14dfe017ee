//! The batch: takes a whole crawl through the paper's phases at once, into a new store that the stream continues.
//!
//! ```text
//! ingest ─▶ partition ─▶ lists ─▶ pairs ─▶ load
//! sketches  <shingle, document> <document, document, count>  sorted tables
//! duplicates sorted     merged    decided, union-find          ─▶ a store
//! ```
//! The phases divide, sort and merge (Broder 1997, section 4), with files for what does not fit in memory. A phase
//! consists of jobs. The [`Checkpoint`] records every finished job, and the next run resumes after it. The store
//! grows in the work folder and moves to its place when it is complete: no reader sees half a store.
//!
//! A table of the store is written as soon as nothing changes its rows: lists with the first pairs that are found in them;
//! documents, URLs and sightings while pairs are decided, which leaves cores idle at times; clusters and links in the end.
//!
//! The clusters are those of the stream. Candidates, comparison and union are the functions of [`crate::cluster`],
//! and `phases::common_shingles` computes which shingles were common when each document came.

mod checkpoint;
mod clustered;
mod context;
mod datasets;
mod dedup;
mod disk_space;
mod error;
mod found_links;
mod given_links;
mod ingest_state;
mod jobs;
mod mapping;
mod min_shared;
mod phases;
mod progress;
mod recluster;
pub mod related;
mod report;
mod rows;
mod sketch_cache;
mod sketching;
#[cfg(test)]
mod tests;
mod usage;

pub use checkpoint::{BackfillSpec, Checkpoint, MakeStore, Work};
pub use clustered::{ClusteredPages, cluster};
pub use context::Context;
pub use disk_space::DiskSpace;
pub use error::BackfillError;
pub use given_links::GivenLinks;
pub use ingest_state::{IngestState, Segment};
pub use mapping::{MappedClusters, MappingKind, map_clusters};
pub use phases::ingest::{ingest_sketched, sketched_chunks};
pub use phases::kept::KeptInput;
pub use progress::{PhaseName, PhaseProgress, ProgressSnapshot};
pub use recluster::cluster_diff::cluster_diff_events;
pub use recluster::{Forgetting, LinkRule, ReclusterPolicy, Reclustered, Representative, forget, recluster};
pub use report::{ClusterSizes, PhaseReport, RecordCounts, Report};
pub use rows::{Outcome, PageRow, Visit};
pub use sketching::{PageInput, sketch_records};
pub use usage::{Phase, Usage, machine_memory};

use crate::cluster::Clusters;
use crate::intake::SketchedRecord;
use crate::ports::{Chunk, EmptyStore, LoadMetadata, Loader, ProgressMap, Sink, SourceError, StartTimes};
use crate::sweep::SweepRow;
use clustered::{Decided, decide_pairs, merge_shingles, warn_of_disk_space};
use error::io_error;
use jobs::{EarlyJobs, measured};
use phases::common_shingles::CommonShingles;
use phases::load::FamilyTables;
use phases::{events, ingest, kept, load, pairs};
use report::phase_reports;
use std::fs;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::ScopedJoinHandle;

/// The store while it grows in the work folder.
const GROWING_STORE: &str = "store";

/// Limits on the rows in a part of a merge. A part becomes a table of the store, and a kill costs the parts under
/// way.
const PART_ROWS_MAX: u64 = 8 << 20;
const PART_ROWS_MIN: u64 = 1 << 8;

/// Bytes of memory for each row in a part.
const MEMORY_PER_PART_ROW: u64 = 256;

/// The rows in a part of a merge that suit a memory limit in bytes.
pub fn part_rows(memory: u64) -> u64 {
    (memory / MEMORY_PER_PART_ROW).clamp(PART_ROWS_MIN, PART_ROWS_MAX)
}

/// How the stream and the consumers of events continue after the backfill.
#[derive(Default)]
pub struct Handover {
    /// Where the events of all records go, in the order of the records. `None` publishes no events.
    pub events: Option<Box<dyn Sink>>,
    /// The positions at which sources begin that the backfill has not read.
    pub progress: ProgressMap,
    /// The times at which sources begin that the backfill has not read.
    pub start_times: StartTimes,
    /// What the new store takes over from an older one that held the same pages.
    pub takeover: Option<Takeover>,
}

/// What a new store takes over from an older one, all of whose pages it was offered.
#[derive(Default)]
pub struct Takeover {
    /// How far each source is read. It stands instead of the positions of what the first phase read.
    pub progress: ProgressMap,
    /// The sweeps, of which it tells whether they are closed and how many URLs were lost then.
    pub sweeps: Vec<(String, SweepRow)>,
}

/// What the first phase reads.
pub enum BackfillInput {
    /// Pages, which it sketches.
    Pages(PageInput),
    /// Records that were sketched elsewhere, and the links between their documents where these were found, too.
    Sketched(SketchedChunks, Option<GivenLinks>),
    /// What an older store keeps of its pages.
    Kept(Box<KeptInput>),
}

/// Sketched records, some at a time.
pub type SketchedChunks = Box<dyn Iterator<Item = Result<Chunk<SketchedRecord>, SourceError>> + Send>;

/// Takes the pages of a source through all phases into a new store at `store`.
///
/// # Errors
/// [`BackfillError`]. Finished jobs stay in the work folder, and the next run resumes after them.
pub fn run(
    mut checkpoint: Checkpoint,
    context: &Context,
    input: BackfillInput,
    loader: &dyn Loader,
    store: &Path,
    handover: Handover,
) -> Result<Report, BackfillError> {
    if !is_free(store) {
        return finish(checkpoint, store);
    }
    let mut links = None;
    measured(&mut checkpoint, context, Phase::Sketching, |checkpoint| match input {
        BackfillInput::Pages(pages) => ingest::ingest(checkpoint, context, pages),
        BackfillInput::Sketched(chunks, given) => {
            links = given;
            ingest_sketched(checkpoint, context, chunks)
        }
        BackfillInput::Kept(input) => kept::ingest_kept(checkpoint, context, *input),
    })?;
    cluster_and_load(checkpoint, context, links, loader, store, handover)
}

/// Takes ingested pages through the phases after the first. Given links replace the search for pairs.
///
/// # Errors
/// [`BackfillError`], as for [`run`].
pub fn cluster_and_load(
    mut checkpoint: Checkpoint,
    context: &Context,
    links: Option<GivenLinks>,
    loader: &dyn Loader,
    store: &Path,
    handover: Handover,
) -> Result<Report, BackfillError> {
    warn_of_disk_space(&checkpoint)?;
    let growing = checkpoint.folder().join(GROWING_STORE);
    if checkpoint.report().is_some() && growing.exists() {
        return finish(checkpoint, store);
    }
    std::thread::scope(|scope| {
        // A new store mostly waits for the disk, which the phases before the load leave idle.
        let (first_tables, written) = sync_channel(1);
        let growing = &growing;
        let new_store = scope.spawn(move || create_store(growing, loader, written));
        let new_store = || new_store.join().map_err(|_| BackfillError::WorkerPanicked)?;
        let common = merge_shingles(&mut checkpoint, context, links.is_none(), Some(loader))?;
        // Where the store failed, its error comes when it is needed.
        let _ = first_tables.send(load::first_tables(&checkpoint, context));
        let early = load::early_table_jobs(&checkpoint, loader, &common)?;
        let early = EarlyJobs::begin(scope, early, &mut checkpoint, context);
        let decided = decide_pairs(&mut checkpoint, context, links, common)?;
        let report = load_store(&mut checkpoint, context, decided, loader, early, new_store, handover)?;
        checkpoint.set_report(report)
    })?;
    finish(checkpoint, store)
}

/// Runs the phases after the links are decided. The last one fills the store that `new_store` returns.
fn load_store<'a>(
    checkpoint: &mut Checkpoint,
    context: &Context,
    decided: Decided,
    loader: &'a dyn Loader,
    early: EarlyJobs<'_, 'a>,
    new_store: impl FnOnce() -> Result<Box<dyn EmptyStore + 'a>, BackfillError>,
    mut handover: Handover,
) -> Result<Report, BackfillError> {
    let Decided { common, mut clusters, links, n_compared } = decided;
    let sizes =
        measured(checkpoint, context, Phase::ClusterFormation, |_| Ok(pairs::cluster_sizes(&mut clusters, &links)))?;
    measured(checkpoint, context, Phase::Load, |checkpoint| {
        let (ingested, events) = (checkpoint.ingested().clone(), handover.events.take());
        let cluster_of = if events.is_some() { clusters.cluster_of_each() } else { Vec::new() };
        let publish = |mut sink: Box<dyn Sink>, saved: Receiver<()>| match saved.recv() {
            Ok(()) => events::publish(context, &ingested, &cluster_of, &links, sink.as_mut()),
            Err(_) => Ok(()),
        };
        std::thread::scope(|scope| {
            // An output mostly waits, and the tables do not need it. But the events depend on the order of the links: a resumed
            // run must find the saved links, not others.
            let publisher = events.map(|sink| {
                let saved = checkpoint.save_soon();
                scope.spawn(|| publish(sink, saved))
            });
            let loaded = (|| {
                load::write_tables(checkpoint, context, loader, early, &clusters, &links)?;
                checkpoint.save_when_due()?;
                let metadata = load_metadata(checkpoint, &common, &mut clusters, &handover)?;
                let mut store = new_store()?;
                store.ingest(&load::other_tables(checkpoint, context))?;
                Ok(store.complete(&metadata)?)
            })();
            checkpoint.end_wait();
            let join =
                |publisher: ScopedJoinHandle<'_, _>| publisher.join().map_err(|_| BackfillError::WorkerPanicked)?;
            loaded.and(publisher.map_or(Ok(()), join))
        })
    })?;
    Ok(Report {
        counts: checkpoint.ingested().counts.clone(),
        unreadable: checkpoint.ingested().unreadable.iter().cloned().collect(),
        sizes,
        phases: phase_reports(checkpoint.usage()),
        files: checkpoint.n_bytes_by_dataset(),
        n_compared,
    })
}

/// Whether a path is free for a store: nothing is there, or an empty folder.
pub fn is_free(store: &Path) -> bool {
    fs::read_dir(store).map_or(!store.exists(), |mut entries| entries.next().is_none())
}

/// Creates a store, and ingests the first tables once they are written. What a killed run left in the folder goes.
fn create_store<'a>(
    folder: &Path,
    loader: &'a dyn Loader,
    first_tables: Receiver<FamilyTables>,
) -> Result<Box<dyn EmptyStore + 'a>, BackfillError> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(io_error(folder))?;
    }
    let mut store = loader.begin(folder)?;
    // None come where a phase fails.
    if let Ok(tables) = first_tables.recv() {
        store.ingest(&tables)?;
    }
    Ok(store)
}

/// What the store keeps beside its tables.
fn load_metadata(
    checkpoint: &Checkpoint,
    common: &CommonShingles,
    clusters: &mut Clusters,
    handover: &Handover,
) -> Result<LoadMetadata, BackfillError> {
    let (counts, equal_clusters) = load::counts(checkpoint, clusters)?;
    let ingested = checkpoint.ingested();
    let takeover = handover.takeover.as_ref();
    let mut progress = takeover.map_or_else(|| ingested.progress_map(), |takeover| takeover.progress.clone());
    progress.extend(handover.progress.clone());
    let mut sweeps = ingested.sweeps.clone();
    for (name, SweepRow { is_closed, n_lost, .. }) in takeover.into_iter().flat_map(|takeover| &takeover.sweeps) {
        if let Some(row) = sweeps.get_mut(name) {
            (row.is_closed, row.n_lost) = (*is_closed, *n_lost);
        }
    }
    Ok(LoadMetadata {
        n_documents: ingested.n_documents(),
        common: common.index_shingles(),
        sweeps: sweeps.into_iter().collect(),
        progress,
        start_times: handover.start_times.clone(),
        next_seq: ingested.counts.n_records,
        counts,
        equal_clusters,
    })
}

/// Moves the store to its place in one step, then removes the work folder. After a kill between the two the store is in its
/// place, and anything but the manifest may be gone from the folder, which is removed then.
///
/// # Errors
/// [`BackfillError::StoreExists`] where another store is there.
pub fn finish(checkpoint: Checkpoint, store: &Path) -> Result<Report, BackfillError> {
    let growing = checkpoint.folder().join(GROWING_STORE);
    let report = checkpoint.report().cloned().filter(|_| is_free(store) || !growing.exists());
    let Some(report) = report else { return Err(BackfillError::StoreExists(store.to_path_buf())) };
    if growing.exists() {
        fs::rename(&growing, store).map_err(io_error(store))?;
    }
    let parent = store.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::File::open(parent).and_then(|parent| parent.sync_all()).map_err(io_error(parent))?;
    checkpoint.remove()?;
    Ok(report)
}
