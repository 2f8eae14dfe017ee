//! What every phase works with: a folder, threads, memory, a stop flag and a progress display.

use super::datasets::{Dataset, DatasetSorter};
use super::error::BackfillError;
use super::progress::PhaseProgress;
use crate::extsort::{MergeReader, SortedRow};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};

/// Rows between two looks at the stop flag.
pub(super) const ROWS_PER_STOP_CHECK: u64 = 1 << 16;

/// How many results may wait to be finished before the threads wait, too.
const RESULTS_MAX: usize = 64;

/// Threads that mostly wait for the disk, of those that write tables: each table is synced when it is whole.
const WAITING_THREADS: usize = 2;

/// The resources of a backfill.
#[derive(Clone)]
pub struct Context {
    /// The folder of the intermediate files.
    pub folder: PathBuf,
    /// Worker threads of each phase.
    pub n_threads: usize,
    /// Bytes of memory for all that grows with the input.
    pub memory: u64,
    /// Ends the backfill early when it becomes true.
    pub stop: Arc<AtomicBool>,
    /// How far the backfill is.
    pub progress: Arc<PhaseProgress>,
}

impl Context {
    /// Returns an error once the stop flag is set.
    ///
    /// # Errors
    /// [`BackfillError::Stopped`]
    pub fn check_stop(&self) -> Result<(), BackfillError> {
        if self.stop.load(Relaxed) { Err(BackfillError::Stopped) } else { Ok(()) }
    }

    /// The same with more threads, for jobs that write tables. All threads together take as much memory.
    pub(super) fn with_waiting_threads(&self) -> Self {
        Context { n_threads: self.n_threads + WAITING_THREADS, ..self.clone() }
    }

    /// Calls `each` with every row of a merge, until somebody stops the backfill.
    ///
    /// # Errors
    /// That of the merge, that of `each`, or [`BackfillError::Stopped`].
    pub(super) fn each_row<R: SortedRow>(
        &self,
        mut merge: MergeReader<R>,
        mut each: impl FnMut(R) -> Result<(), BackfillError>,
    ) -> Result<(), BackfillError> {
        let mut n_rows = 0u64;
        while let Some(row) = merge.next_row()? {
            n_rows += 1;
            if n_rows.is_multiple_of(ROWS_PER_STOP_CHECK) {
                self.check_stop()?;
            }
            each(row)?;
        }
        Ok(())
    }

    /// Bytes that the sorters of one thread may hold together.
    pub(super) fn sorter_bytes(&self) -> usize {
        (self.memory / (4 * self.n_threads as u64)) as usize
    }

    /// A sorter for part `at` of a data set, with all the memory of its thread.
    pub(super) fn sorter<R: SortedRow>(&self, dataset: Dataset<R>, at: usize) -> DatasetSorter<'_, R> {
        self.sorter_with_eighths(dataset, at, 8)
    }

    /// A sorter with some eighths of its thread's memory, where a thread has several sorters.
    pub(super) fn sorter_with_eighths<R: SortedRow>(
        &self,
        dataset: Dataset<R>,
        at: usize,
        n_eighths: usize,
    ) -> DatasetSorter<'_, R> {
        dataset.sorter(&self.folder, format_args!("{at:04}"), self.sorter_bytes() / 8 * n_eighths)
    }

    /// Calls `work` with every item, on all threads, and `finish` with every result, one by one on this thread. Threads go on
    /// while `finish` is at it.
    ///
    /// # Errors
    /// The first error of `work` or `finish`. After it no further item begins.
    pub(super) fn run_parallel<I: Send, T: Send>(
        &self,
        items: Vec<I>,
        work: impl Fn(I) -> Result<T, BackfillError> + Sync,
        mut finish: impl FnMut(T) -> Result<(), BackfillError>,
    ) -> Result<(), BackfillError> {
        self.progress.add_total(items.len() as u64);
        let items = Mutex::new(items.into_iter());
        let next = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
        let (work, next) = (&work, &next);
        std::thread::scope(|scope| {
            let (out, results) = sync_channel(RESULTS_MAX);
            let workers: Vec<_> = (0..self.n_threads)
                .map(|_| {
                    let out = out.clone();
                    scope.spawn(move || {
                        while let Some(item) = next() {
                            let result = self.check_stop().and_then(|()| work(item));
                            let is_over = result.is_err();
                            if out.send(result).is_err() || is_over {
                                return;
                            }
                        }
                    })
                })
                .collect();
            drop(out);
            let outcome = results.iter().try_for_each(|result| {
                finish(result?)?;
                self.progress.advance(1);
                Ok(())
            });
            drop(results);
            let has_panicked = workers.into_iter().any(|worker| worker.join().is_err());
            outcome.and(if has_panicked { Err(BackfillError::WorkerPanicked) } else { Ok(()) })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn context() -> Context {
        let stop = Arc::new(AtomicBool::new(false));
        Context { folder: PathBuf::new(), n_threads: 3, memory: 1 << 20, stop, progress: Arc::default() }
    }

    #[test]
    fn every_item_is_worked_on_once() {
        let mut sum = 0;
        let add = |n: u32| {
            sum += n;
            Ok(())
        };
        context().run_parallel((1..=100).collect(), |n: u32| Ok(n * 2), add).expect("done");
        assert_eq!(sum, 10_100);
    }

    #[test]
    fn an_error_and_a_stop_end_the_run() {
        let context = context();
        let fails = |n: u32| if n == 5 { Err(BackfillError::WorkerPanicked) } else { Ok(n) };
        let failed = context.run_parallel((0..1000).collect(), fails, |_| Ok(()));
        assert!(matches!(failed, Err(BackfillError::WorkerPanicked)));
        let stops = |n| {
            if n == 7 {
                context.stop.store(true, Relaxed);
            }
            Ok(())
        };
        let stopped = context.run_parallel((0..1000).collect(), |n: u32| Ok(n), stops);
        assert!(matches!(stopped, Err(BackfillError::Stopped)));
    }
}
