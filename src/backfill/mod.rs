//! The batch: a whole crawl through the paper's phases at once, into a new store that the stream goes on from.
//!
//! ```text
//! take_in ─▶ divide ─▶ lists ─▶ pairs ─▶ load
//! sketches   <shingle, document> <document, document, count>  sorted tables
//! duplicates sorted    merged    decided, union-find          ─▶ a store
//! ```
//! Divide, sort, merge (Broder 1997, section 4), with files for what does not fit into memory. Every phase works through
//! pieces; each finished piece is durable and noted in the manifest ([`Work`]), from where the next run goes on. The
//! store is made in the work folder and moved to its place when it is whole: a half-made one is never seen.
//!
//! The partition is the stream's (promise P1): candidates, comparison and union are those of [`crate::cluster`], and
//! which shingles were common when a document came is worked out exactly (see `lists`).

mod difference;
mod divide;
mod error;
mod events;
mod form;
mod known;
mod lists;
mod load;
mod means;
mod pairs;
mod recluster;
mod report;
mod room;
mod rows;
mod runs;
mod sketches;
mod take_in;
#[cfg(test)]
mod tests;
mod usage;
mod work;

pub use difference::events_of_difference;
pub use error::BackfillError;
pub use means::{Means, Now, Standing};
pub use recluster::{LinkRule, Policy, Reclustered, recluster};
pub use report::{PhaseReport, Report, Sizes};
pub use room::Room;
pub use take_in::{Intake, take_in_sketched};
pub use usage::{Phase, machine_memory};
pub use work::{Counts, Identity, Work};

use crate::cluster::Clusters;
use crate::document::ClusterId;
use crate::ports::{EmptyStore, LoadMetadata, Loader, ProgressMap, Sink, StartTimes};
use error::io_error;
use pairs::Pairs;
use rows::LinkRow;
use std::fs;
use std::path::Path;
use usage::{Meter, Usage};

/// Rows in a part of what is merged: each is a table of the store, and what a killed run loses of a phase.
const PART_ROWS_MAX: u64 = 8 << 20;
const PART_ROWS_MIN: u64 = 1 << 8;

/// How many rows a part has where so much memory may be used.
pub fn part_rows(memory: u64) -> u64 {
    (memory / 256).clamp(PART_ROWS_MIN, PART_ROWS_MAX)
}

/// What becomes of the result beside the store.
#[derive(Default)]
pub struct Ending {
    /// Where the assignments of all records go, in their order.
    pub events: Option<Box<dyn Sink>>,
    /// Where sources begin that the backfill has not read,
    pub progress: ProgressMap,
    /// or from when on.
    pub beginnings: StartTimes,
}

/// Takes a source through all phases and leaves a store in `store`, which must not be there.
///
/// # Errors
/// [`BackfillError`]. What is finished stays in the work folder, and the next run goes on from it.
pub fn run(
    mut work: Work,
    means: &Means,
    intake: Intake,
    loader: &dyn Loader,
    store: &Path,
    ending: Ending,
) -> Result<Report, BackfillError> {
    if !is_free(store) {
        // It may be this one's, which was killed as it removed the rest.
        return move_store(work, store);
    }
    phase(&mut work, means, Phase::Sketching, |work| take_in::take_in(work, means, intake))?;
    cluster_and_load(work, means, loader, store, ending)
}

/// The phases after the first, for documents that are taken in.
///
/// # Errors
/// [`BackfillError`], as for [`run`].
pub fn cluster_and_load(
    mut work: Work,
    means: &Means,
    loader: &dyn Loader,
    store: &Path,
    ending: Ending,
) -> Result<Report, BackfillError> {
    let room = Room::for_phases(&work)?;
    if room.is_short() {
        let [needed, free] = [room.needed, room.free].map(|n_bytes| n_bytes as f64 / f64::from(1 << 20));
        tracing::warn!(
            "some {needed:.1} MiB more of disk will be needed, and {free:.1} MiB are free; free some space meanwhile"
        );
    }
    let made = work.folder().join(STORE);
    if work.report().is_some() && made.exists() {
        return move_store(work, store);
    }
    std::thread::scope(|scope| {
        // Most of it is waiting for the disk, which nothing else needs meanwhile.
        let empty = scope.spawn(|| empty_store(&made, loader));
        let begun = || empty.join().map_err(|_| BackfillError::Died)?;
        let report = phases(&mut work, means, loader, begun, ending)?;
        work.set_report(report)
    })?;
    move_store(work, store)
}

/// The phases after the first, which leave a store in the work folder, in what `begun` gives.
fn phases<'a>(
    work: &mut Work,
    means: &Means,
    loader: &dyn Loader,
    begun: impl FnOnce() -> Result<Box<dyn EmptyStore + 'a>, BackfillError>,
    ending: Ending,
) -> Result<Report, BackfillError> {
    let common = phase(work, means, Phase::ShingleMerging, |work| {
        divide::divide_documents(work, means)?;
        lists::find_common(work, means)
    })?;
    phase(work, means, Phase::PairFormation, |work| {
        lists::form_lists(work, means)?;
        lists::form_represented(work, means, &common)
    })?;
    let mut pairs = phase(work, means, Phase::PairMerging, |work| {
        let mut pairs = Pairs::open(work, means, &common)?;
        pairs.decide_neighbours(work)?;
        pairs.decide_represented(work)?;
        Ok(pairs)
    })?;
    pairs.decide_rest(work)?;
    let Pairs { mut clusters, links, n_compared, .. } = pairs;
    let sizes = phase(work, means, Phase::ClusterFormation, |_| Ok(Sizes::of(&mut clusters, &links)))?;
    phase(work, means, Phase::Load, |work| {
        load::write_tables(work, means, loader, &common, &clusters, &links)?;
        load_store(work, begun()?, &common, &ending)?;
        match ending.events {
            Some(mut sink) => {
                // What is told of is not to be found again, in another order, by a run that goes on.
                work.save()?;
                events::publish(work, means, &mut clusters, &links, sink.as_mut())
            }
            None => Ok(()),
        }
    })?;
    Ok(Report::of(work, sizes, n_compared))
}

/// Measures a phase, also one that ends early.
fn phase<T>(
    work: &mut Work,
    means: &Means,
    phase: Phase,
    body: impl FnOnce(&mut Work) -> Result<T, BackfillError>,
) -> Result<T, BackfillError> {
    let (mut meter, n_bytes) = (Meter::start(), work.n_bytes_in_all());
    means.standing.begin(phase, 0);
    let result = body(work);
    let usage: Usage = meter.lap(work.n_bytes_in_all().saturating_sub(n_bytes));
    work.add_usage(phase, usage);
    if result.is_err() {
        // Why it ended is told, and not that this could not be noted either, as on a full disk.
        let _ = work.save();
    }
    result
}

/// Whether a store may be made in a folder: there is none, or nothing in it.
pub fn is_free(store: &Path) -> bool {
    fs::read_dir(store).map_or(!store.exists(), |mut entries| entries.next().is_none())
}

const STORE: &str = "store";

/// Makes an empty store, in place of what a run that was killed has left there.
fn empty_store<'a>(folder: &Path, loader: &'a dyn Loader) -> Result<Box<dyn EmptyStore + 'a>, BackfillError> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(io_error(folder))?;
    }
    Ok(loader.begin(folder)?)
}

fn load_store(
    work: &Work,
    empty: Box<dyn EmptyStore + '_>,
    common: &lists::Common,
    ending: &Ending,
) -> Result<(), BackfillError> {
    let mut progress = work.taken().progress_map();
    progress.extend(ending.progress.clone());
    let rest = LoadMetadata {
        n_documents: work.taken().n_documents(),
        common: common.shingles(),
        sweeps: work.taken().sweeps.clone().into_iter().collect(),
        progress,
        start_times: ending.beginnings.clone(),
        next_seq: work.taken().counts.n_records,
    };
    Ok(empty.load(&load::tables(work), &rest)?)
}

/// Moves the store to its place, which is one step, and removes all else. Killed between the two, the store is there and
/// only the rest is to be done.
fn move_store(work: Work, store: &Path) -> Result<Report, BackfillError> {
    let made = work.folder().join(STORE);
    let report = work.report().cloned().filter(|_| is_free(store) || !made.exists());
    let Some(report) = report else { return Err(BackfillError::StoreIsThere(store.to_path_buf())) };
    if made.exists() {
        fs::rename(&made, store).map_err(io_error(store))?;
    }
    let parent = store.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::File::open(parent).and_then(|parent| parent.sync_all()).map_err(io_error(parent))?;
    work.remove()?;
    Ok(report)
}

impl Sizes {
    /// What the clusters are like.
    fn of(clusters: &mut Clusters, links: &[LinkRow]) -> Self {
        let mut sizes = Sizes { documents: clusters.n_documents() as u64, ..Sizes::default() };
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
}
