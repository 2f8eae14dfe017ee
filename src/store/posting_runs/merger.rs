//! The thread that merges runs.

use super::live::{KINDS, PostingRun, PostingRuns};
use super::tiers::{RUNS_MAX, next_to_merge};
use crate::ports::StoreError;
use crate::store::background;
use crate::store::column_options;
use crate::store::disk_full::retry_while_full;
use crate::store::schema::PostingKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long to sleep before looking for room again.
const PAUSE: Duration = Duration::from_millis(10);

/// Merges runs of a store in a thread, as long as this is there.
pub(in crate::store) struct Merger {
    closing: Arc<AtomicBool>,
    runs: Arc<PostingRuns>,
    /// Why it has ended before it should.
    failure: Arc<Mutex<Option<StoreError>>>,
    thread: Option<JoinHandle<()>>,
}

struct Work {
    runs: Arc<PostingRuns>,
    folder: PathBuf,
    closing: Arc<AtomicBool>,
    /// Runs that were merged, whose rows somebody may still read.
    merged: Vec<(PostingKind, Arc<PostingRun>)>,
}

impl Merger {
    /// Starts the thread. It writes files to `folder`.
    ///
    /// # Errors
    /// [`StoreError`] if no thread can be started.
    pub fn start(runs: Arc<PostingRuns>, folder: &Path) -> Result<Self, StoreError> {
        let (wake, woken) = channel();
        // Runs may wait from before.
        let _ = wake.send(());
        runs.wakes(wake);
        let (closing, failure) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::default()));
        let folder = folder.to_path_buf();
        let mut work = Work { runs: Arc::clone(&runs), folder, closing: Arc::clone(&closing), merged: Vec::new() };
        let noted = Arc::clone(&failure);
        let thread = std::thread::Builder::new().name("merger".into()).spawn(move || {
            background::give_way(background::MERGE_NICENESS);
            if let Err(error) = work.go_on(&woken) {
                tracing::error!("runs of postings are no longer merged: {error}");
                *noted.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
        });
        let thread = thread.map_err(|error| StoreError::Failed(format!("cannot start a thread to merge: {error}")))?;
        Ok(Merger { closing, runs, failure, thread: Some(thread) })
    }

    /// Waits until there are few enough runs to add another one, or `stop` is set.
    ///
    /// # Errors
    /// What the thread has failed with, and afterwards that it has ended, for runs would then wait for a merge forever.
    pub fn wait_for_room(&self, stop: &AtomicBool) -> Result<(), StoreError> {
        loop {
            // Asked before the failure, which the thread notes before it ends.
            let has_ended = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
            if let Some(error) = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return Err(error);
            }
            if has_ended {
                return Err(StoreError::Failed("the thread that merges runs of postings has ended".into()));
            }
            if self.runs.n_runs() < RUNS_MAX || stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            std::thread::sleep(PAUSE);
        }
    }
}

impl Drop for Merger {
    /// Stops the thread, which leaves a merge that is under way undone.
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Relaxed);
        self.runs.wake();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that merges runs of postings panicked");
        }
    }
}

impl Work {
    /// Does what there is to do whenever it is woken, until the store is being closed.
    fn go_on(&mut self, woken: &Receiver<()>) -> Result<(), StoreError> {
        for kind in KINDS {
            if let Err(error) = self.runs.regroup(kind, || self.is_closing()) {
                tracing::warn!("small runs of {} share no filter, so look-ups take longer: {error}", kind.family());
            }
        }
        while woken.recv().is_ok() && !self.is_closing() {
            while !self.is_closing() && self.do_next()? {}
        }
        Ok(())
    }

    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Does one thing; false if there is nothing to do.
    fn do_next(&mut self) -> Result<bool, StoreError> {
        self.delete_merged()?;
        for kind in KINDS {
            let runs = self.runs.of(kind);
            let levels: Vec<u8> = runs.iter().map(|run| run.name.level).collect();
            if let Some(merged) = next_to_merge(&levels) {
                let runs = &runs[merged];
                let is_merged = retry_while_full(|| self.is_closing(), || self.merge(kind, runs))?;
                if is_merged {
                    self.merged.extend(runs.iter().map(|run| (kind, Arc::clone(run))));
                }
                return Ok(is_merged);
            }
        }
        Ok(false)
    }

    /// Merges runs. False, and nothing is changed, if the store is being closed meanwhile.
    fn merge(&self, kind: PostingKind, runs: &[Arc<PostingRun>]) -> Result<bool, StoreError> {
        let _merging = self.runs.merging.lock().unwrap_or_else(PoisonError::into_inner);
        kill_point!("merge-begun");
        let options = column_options::run_options(kind.family());
        let mut writer = self.runs.merged_run(kind, runs, &self.folder, &options)?;
        let mut lists = self.runs.all_of(kind, runs)?;
        while let Some((shingle, documents)) = lists.next()? {
            if self.is_closing() {
                return Ok(false);
            }
            writer.put_packed(shingle, documents)?;
        }
        drop(lists);
        let new = self.runs.ingest(kind, writer.finish()?)?;
        kill_point!("merge-ingested");
        self.runs.replace(runs, new)?;
        kill_point!("merge-noted");
        Ok(true)
    }

    /// Deletes the rows of merged runs that no reader uses any more. The next start deletes what is left.
    fn delete_merged(&mut self) -> Result<(), StoreError> {
        for (kind, run) in std::mem::take(&mut self.merged) {
            if Arc::strong_count(&run) > 1 {
                self.merged.push((kind, run));
                continue;
            }
            retry_while_full(|| self.is_closing(), || self.runs.delete_rows(kind, run.name.number))?;
            kill_point!("merged-deleted");
        }
        Ok(())
    }
}
