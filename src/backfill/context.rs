//! What the phases work with: threads, memory, a way to be stopped, and a place to say how far they are.

use crate::backfill::error::BackfillError;
use crate::backfill::usage::{Meter, Phase, Usage};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};

/// How far a backfill is; may be read at any time.
#[derive(Debug, Default)]
pub struct PhaseProgress {
    phase: Mutex<Option<(Phase, Meter)>>,
    n_done: AtomicU64,
    n_total: AtomicU64,
}

impl PhaseProgress {
    /// What is under way; nothing before the first phase.
    pub fn snapshot(&self) -> Option<ProgressSnapshot> {
        let phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        let (phase, meter) = phase.as_ref()?;
        let usage = meter.so_far();
        Some(ProgressSnapshot {
            phase: *phase,
            n_done: self.n_done.load(Relaxed),
            n_total: self.n_total.load(Relaxed),
            usage,
        })
    }

    /// A phase begins, or a step of it.
    pub(super) fn begin(&self, phase: Phase, n_total: u64) {
        let mut now = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        match &*now {
            Some((before, _)) if *before == phase => {}
            _ => *now = Some((phase, Meter::start())),
        }
        self.n_done.store(0, Relaxed);
        self.n_total.store(n_total, Relaxed);
    }

    /// There is more to do than was known.
    fn expect(&self, n: u64) {
        self.n_total.fetch_add(n, Relaxed);
    }

    /// Some more of it is done.
    pub(super) fn advance(&self, n: u64) {
        self.n_done.fetch_add(n, Relaxed);
    }
}

/// What is under way.
#[derive(Clone, Copy, Debug)]
pub struct ProgressSnapshot {
    /// The phase.
    pub phase: Phase,
    /// What is done of its present step: pages of the first phase, else files, parts or pairs.
    pub n_done: u64,
    /// What there is to do, as far as it is known; 0: it is not.
    pub n_total: u64,
    /// What the phase took so far, but for the bytes.
    pub usage: Usage,
}

/// What every phase works with.
#[derive(Clone)]
pub struct Context {
    /// Where the intermediate files are.
    pub folder: PathBuf,
    /// Threads.
    pub n_threads: usize,
    /// Bytes of memory for all that grows with the input.
    pub memory: u64,
    /// Set from outside to end early.
    pub stop: Arc<AtomicBool>,
    /// How far it is.
    pub progress: Arc<PhaseProgress>,
}

impl Context {
    /// Says whether to go on.
    pub fn check(&self) -> Result<(), BackfillError> {
        if self.stop.load(Relaxed) { Err(BackfillError::Stopped) } else { Ok(()) }
    }

    /// Bytes that one sorter of one thread may hold.
    pub fn sorter_bytes(&self) -> usize {
        (self.memory / (4 * self.n_threads as u64)) as usize
    }

    /// Does some jobs on all threads. `done` is told of each as it is finished, here and one by one.
    ///
    /// # Errors
    /// The first error of a job or of `done`; no further job is begun then.
    pub fn each<J: Send, T: Send>(
        &self,
        jobs: Vec<J>,
        job: impl Fn(J) -> Result<T, BackfillError> + Sync,
        mut done: impl FnMut(T) -> Result<(), BackfillError>,
    ) -> Result<(), BackfillError> {
        self.progress.expect(jobs.len() as u64);
        let jobs = Mutex::new(jobs.into_iter());
        let take = || jobs.lock().unwrap_or_else(PoisonError::into_inner).next();
        let (job, take) = (&job, &take);
        std::thread::scope(|scope| {
            let (out, results) = sync_channel(self.n_threads);
            let workers: Vec<_> = (0..self.n_threads)
                .map(|_| {
                    let out = out.clone();
                    scope.spawn(move || {
                        while let Some(next) = take() {
                            let result = self.check().and_then(|()| job(next));
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
                done(result?)?;
                self.progress.advance(1);
                Ok(())
            });
            drop(results);
            let died = workers.into_iter().any(|worker| worker.join().is_err());
            outcome.and(if died { Err(BackfillError::Died) } else { Ok(()) })
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
    fn every_job_is_done_once() {
        let mut sum = 0;
        context()
            .each(
                (1..=100).collect(),
                |n: u32| Ok(n * 2),
                |n| {
                    sum += n;
                    Ok(())
                },
            )
            .expect("done");
        assert_eq!(sum, 10_100);
    }

    #[test]
    fn an_error_and_a_stop_end_it() {
        let context = context();
        let fails = |n: u32| if n == 5 { Err(BackfillError::Died) } else { Ok(n) };
        assert!(matches!(context.each((0..1000).collect(), fails, |_| Ok(())), Err(BackfillError::Died)));
        let stops = |n| {
            if n == 7 {
                context.stop.store(true, Relaxed);
            }
            Ok(())
        };
        assert!(matches!(context.each((0..1000).collect(), |n: u32| Ok(n), stops), Err(BackfillError::Stopped)));
    }
}
