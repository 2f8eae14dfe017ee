//! Jobs: pieces of a phase that finish on their own, and the runner that skips finished ones, records and resumes.

use super::checkpoint::{Checkpoint, FinishedJob, Work};
use super::context::Context;
use super::datasets::DatasetFile;
use super::error::BackfillError;
use super::progress::PhaseName;
use super::usage::Meter;

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
    use std::sync::Mutex;

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
