//! Jobs: pieces of a phase that finish on their own, and the runner that skips finished ones, records and resumes.

use super::checkpoint::{Checkpoint, FinishedJob, Work};
use super::context::Context;
use super::datasets::DatasetFile;
use super::error::BackfillError;
use super::progress::PhaseName;
use super::usage::Meter;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};

type JobBody<'a> = Box<dyn FnOnce(&Context) -> Result<Vec<DatasetFile>, BackfillError> + Send + 'a>;

/// A piece of a phase. It writes files, and nothing else of it outlives the process.
pub(super) struct Job<'a> {
    name: String,
    body: JobBody<'a>,
}

impl<'a> Job<'a> {
    /// Creates a job. The checkpoint knows it by its name, which must be the same in every run.
    pub fn new(
        name: impl Into<String>,
        body: impl FnOnce(&Context) -> Result<Vec<DatasetFile>, BackfillError> + Send + 'a,
    ) -> Self {
        Job { name: name.into(), body: Box::new(body) }
    }
}

/// Runs the jobs that the checkpoint does not know as finished, on all threads, and records each one that finishes.
///
/// # Errors
/// The first error of a job. The jobs that finished before it stay finished.
pub(super) fn run_jobs<W: Work>(
    jobs: Vec<Job<'_>>,
    checkpoint: &mut Checkpoint<W>,
    context: &Context,
) -> Result<(), BackfillError> {
    let unfinished = jobs.into_iter().filter(|job| !checkpoint.is_finished(&job.name)).collect();
    context.run_parallel(
        unfinished,
        |Job { name, body }| Ok((name, body(context)?)),
        |(name, files)| checkpoint.record(name, FinishedJob { files, reached: None }),
    )
}

/// Jobs that begin before their phase: one thread runs them while other phases leave a core idle.
pub(super) struct EarlyJobs<'scope, 'a> {
    /// Those that have not begun.
    left: Arc<Mutex<VecDeque<Job<'a>>>>,
    thread: Option<ScopedJoinHandle<'scope, Result<(), BackfillError>>>,
}

impl<'scope, 'a: 'scope> EarlyJobs<'scope, 'a> {
    /// Begins jobs that the checkpoint does not know as finished. It records each one with the next save after it.
    pub fn begin(
        scope: &'scope Scope<'scope, '_>,
        jobs: Vec<Job<'a>>,
        checkpoint: &mut Checkpoint,
        context: &Context,
    ) -> Self {
        let unfinished: VecDeque<_> = jobs.into_iter().filter(|job| !checkpoint.is_finished(&job.name)).collect();
        let left = Arc::new(Mutex::new(unfinished));
        let (recorder, jobs) = (checkpoint.recorder(), Arc::clone(&left));
        // The phases that run meanwhile have most of the memory, and the display.
        let context = Context { memory: context.memory / 4, progress: Arc::default(), ..context.clone() };
        let thread = scope.spawn(move || {
            let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            while let Some(Job { name, body }) = next() {
                let files = body(&context)?;
                if recorder.send((name, FinishedJob { files, reached: None })).is_err() {
                    break;
                }
            }
            Ok(())
        });
        EarlyJobs { left, thread: Some(thread) }
    }

    /// Takes the jobs that have not begun. The thread ends with the one that it runs.
    pub fn take_left(&self) -> Vec<Job<'a>> {
        std::mem::take(&mut *self.left.lock().unwrap_or_else(PoisonError::into_inner)).into()
    }

    /// Waits for the thread and records what it finished.
    ///
    /// # Errors
    /// That of a job.
    pub fn join(mut self, checkpoint: &mut Checkpoint) -> Result<(), BackfillError> {
        let ended = self.thread.take().map(|thread| thread.join().map_err(|_| BackfillError::WorkerPanicked)?);
        checkpoint.record_elsewhere();
        ended.unwrap_or(Ok(()))
    }
}

/// After an error of the phases meanwhile no further job begins.
impl Drop for EarlyJobs<'_, '_> {
    fn drop(&mut self) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Measures a phase, whether it succeeds or fails.
pub(super) fn measured<W: Work<Phase: Into<PhaseName>>, T>(
    checkpoint: &mut Checkpoint<W>,
    context: &Context,
    phase: W::Phase,
    body: impl FnOnce(&mut Checkpoint<W>) -> Result<T, BackfillError>,
) -> Result<T, BackfillError> {
    let (mut meter, n_bytes_before) = (Meter::start(), checkpoint.n_bytes_written());
    context.progress.begin(phase, 0);
    let result = body(checkpoint);
    let usage = meter.lap(checkpoint.n_bytes_written().saturating_sub(n_bytes_before));
    checkpoint.add_usage(phase, usage);
    if result.is_err() {
        // The phase's own error matters more than a failed save, which may follow from it, as on a full disk.
        let _ = checkpoint.save();
    }
    result
}

/// The jobs of a stage that run one after the other, because each changes what the next one works with.
pub(super) struct Steps {
    stage: &'static str,
    n_finished: usize,
    reached: Option<(u32, u32)>,
}

impl Steps {
    /// Resumes a stage after its last finished step. The names of stages sort in the order in which they run, so that
    /// the checkpoint lists the files of all stages in the order in which they were written.
    pub fn resume(stage: &'static str, checkpoint: &Checkpoint) -> Self {
        let mut steps = Steps { stage, n_finished: 0, reached: None };
        while let Some(step) = checkpoint.job(&steps.next_name()) {
            steps.reached = step.reached;
            steps.n_finished += 1;
        }
        steps
    }

    /// The name of the next step, which no other step of any stage has.
    pub fn next_name(&self) -> String {
        format!("{}-{:05}", self.stage, self.n_finished)
    }

    fn last_name(&self) -> String {
        format!("{}-end", self.stage)
    }

    /// Whether the stage is finished.
    pub fn is_finished(&self, checkpoint: &Checkpoint) -> bool {
        checkpoint.is_finished(&self.last_name())
    }

    /// The position in the stage's input that the last finished step reached.
    pub fn reached(&self) -> Option<(u32, u32)> {
        self.reached
    }

    /// Records that the next step is finished and how far it came.
    pub fn record(
        &mut self,
        checkpoint: &mut Checkpoint,
        files: Vec<DatasetFile>,
        reached: (u32, u32),
    ) -> Result<(), BackfillError> {
        self.reached = Some(reached);
        checkpoint.record(self.next_name(), FinishedJob { files, reached: self.reached })?;
        self.n_finished += 1;
        Ok(())
    }

    /// Records that the stage is finished.
    pub fn finish(self, checkpoint: &mut Checkpoint, files: Vec<DatasetFile>) -> Result<(), BackfillError> {
        checkpoint.record(self.last_name(), FinishedJob { files, reached: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backfill::datasets::PAIR_RANGES;
    use crate::backfill::rows::DocumentRange;
    use crate::backfill::tests::{open_checkpoint, rule};
    use crate::cluster::MatchRule;
    use std::sync::mpsc;

    /// Runs jobs of these names, and fails in one of them. Returns those that ran.
    fn run_named(names: &[&str], failing: &str, checkpoint: &mut Checkpoint, context: &Context) -> Vec<String> {
        let ran = Mutex::new(Vec::new());
        let job = |name: &str| {
            let (name, ran, fails) = (name.to_string(), &ran, name == failing);
            Job::new(name.clone(), move |context| {
                if fails {
                    return Err(BackfillError::Stopped);
                }
                ran.lock().expect("a lock").push(name.clone());
                let mut writer = PAIR_RANGES.create(&context.folder, &name)?;
                writer.push(DocumentRange { from: 0, to: 1 })?;
                Ok(vec![writer.finish()?])
            })
        };
        let result = run_jobs(names.iter().map(|name| job(name)).collect(), checkpoint, context);
        assert_eq!(result.is_err(), names.contains(&failing));
        let mut ran = ran.into_inner().expect("a lock");
        ran.sort();
        ran
    }

    #[test]
    fn a_later_run_skips_what_an_earlier_one_finished() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut checkpoint, context) = open_checkpoint(folder.path(), &rule(0, MatchRule::default()), 1 << 20);
        let context = Context { n_threads: 1, ..context };
        assert_eq!(run_named(&["a", "b", "c", "d"], "c", &mut checkpoint, &context), ["a", "b"]);
        drop(checkpoint);
        let (mut checkpoint, _) = open_checkpoint(folder.path(), &rule(0, MatchRule::default()), 1 << 20);
        assert_eq!(run_named(&["a", "b", "c", "d"], "", &mut checkpoint, &context), ["c", "d"]);
        assert_eq!(run_named(&["a", "b", "c", "d"], "", &mut checkpoint, &context), [""; 0]);
        assert_eq!(checkpoint.open_dataset(PAIR_RANGES).expect("opens").len(), 4);
    }

    /// A job that tells when it begins, and waits for a permission to end.
    fn waiting_job<'a>(name: &str, begun: mpsc::Sender<()>, may_end: mpsc::Receiver<()>) -> Job<'a> {
        Job::new(name, move |_| {
            begun.send(()).expect("sent");
            may_end.recv().map_err(|_| BackfillError::Stopped)?;
            Ok(Vec::new())
        })
    }

    #[test]
    fn early_jobs_are_recorded_wherever_they_ran() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut checkpoint, context) = open_checkpoint(folder.path(), &rule(0, MatchRule::default()), 1 << 20);
        checkpoint.record("known".into(), FinishedJob::default()).expect("recorded");
        std::thread::scope(|scope| {
            let ((begun, is_begun), (allow, may_end)) = (mpsc::channel(), mpsc::channel());
            let other = |name: &str| Job::new(name, |_: &Context| Ok(Vec::new()));
            let jobs = vec![other("known"), other("first"), waiting_job("second", begun, may_end), other("third")];
            let early = EarlyJobs::begin(scope, jobs, &mut checkpoint, &context);
            is_begun.recv().expect("the second begins");
            checkpoint.save().expect("saved");
            assert!(checkpoint.is_finished("first"), "a save records what is finished");
            let left = early.take_left();
            assert_eq!(left.iter().map(|job| job.name.as_str()).collect::<Vec<_>>(), ["third"]);
            run_jobs(left, &mut checkpoint, &context).expect("run");
            assert!(!checkpoint.is_finished("second"));
            allow.send(()).expect("sent");
            early.join(&mut checkpoint).expect("no error");
        });
        checkpoint.save().expect("saved");
        drop(checkpoint);
        let (checkpoint, _) = open_checkpoint(folder.path(), &rule(0, MatchRule::default()), 1 << 20);
        assert!(["first", "second", "third"].iter().all(|name| checkpoint.is_finished(name)));
    }

    #[test]
    fn an_early_job_that_fails_is_not_recorded_and_begins_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut checkpoint, context) = open_checkpoint(folder.path(), &rule(0, MatchRule::default()), 1 << 20);
        std::thread::scope(|scope| {
            let ((begun, _is_begun), (_, may_end)) = (mpsc::channel(), mpsc::channel());
            let jobs = vec![waiting_job("fails", begun, may_end), Job::new("next", |_: &Context| panic!("it begins"))];
            let early = EarlyJobs::begin(scope, jobs, &mut checkpoint, &context);
            assert!(matches!(early.join(&mut checkpoint), Err(BackfillError::Stopped)));
        });
        assert!(!checkpoint.is_finished("fails") && !checkpoint.is_finished("next"));
    }

    #[test]
    fn steps_resume_where_the_last_one_ended() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut checkpoint, _) = open_checkpoint(folder.path(), &rule(0, MatchRule::default()), 1 << 20);
        let mut steps = Steps::resume("stage", &checkpoint);
        assert_eq!((steps.reached(), steps.next_name().as_str()), (None, "stage-00000"));
        steps.record(&mut checkpoint, Vec::new(), (7, 3)).expect("recorded");
        steps.record(&mut checkpoint, Vec::new(), (9, 1)).expect("recorded");
        drop(checkpoint);
        let (mut checkpoint, _) = open_checkpoint(folder.path(), &rule(0, MatchRule::default()), 1 << 20);
        let steps = Steps::resume("stage", &checkpoint);
        assert_eq!((steps.reached(), steps.next_name().as_str()), (Some((9, 1)), "stage-00002"));
        assert!(!steps.is_finished(&checkpoint));
        steps.finish(&mut checkpoint, Vec::new()).expect("recorded");
        assert!(Steps::resume("stage", &checkpoint).is_finished(&checkpoint));
    }
}
