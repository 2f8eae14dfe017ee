//! The outputs: the inputs are read again, and the records that stay are written, file by file on all threads.

use super::errors::dedup_error;
use super::plan::Plan;
use crate::backfill::{Context, PhaseName};
use crate::cli::exit::{Exit, ending};
use crate::cli::wiring::file_source;
use crate::config::Config;
use crate::dedup::{Corpus, Decided, DedupError, Finished, ReadInput, RecordSet};
use crate::files::{CopyError, CopyFormat, CopyJob, RecordCopier};
use crate::ports::ProgressMap;
use anyhow::{Result, anyhow};
use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Writes every output that is not in its place yet.
pub(super) fn write(
    config: &Config,
    corpus: &Corpus,
    plan: &Plan,
    decided: &Decided,
    kept: &RecordSet,
    context: &Context,
) -> Result<Finished> {
    let source = file_source(config, Vec::new(), ProgressMap::new())?;
    let writes_text = plan.formats.iter().any(|format| *format != CopyFormat::Same);
    let archives = plan.inputs.iter().filter(|_| writes_text).cloned();
    let (copier, next) = (RecordCopier::new(&source, archives), AtomicUsize::new(0));
    let n_records = decided.inputs.iter().map(|input| input.n_records as u64).sum();
    context.progress.begin(PhaseName { name: "writing pages", reads_pages: false }, n_records);
    let at: HashMap<&str, usize> =
        decided.inputs.iter().enumerate().map(|(at, input)| (input.name.as_str(), at)).collect();
    let shards = Shards { corpus, plan, decided, kept, context, at };
    std::thread::scope(|scope| {
        let worker = || -> Result<()> {
            let mut copier = copier.clone();
            loop {
                let shard = next.fetch_add(1, Relaxed);
                if shard >= plan.inputs.len() {
                    return Ok(());
                }
                if let Err(error) = shards.write(shard, &mut copier) {
                    // No further output begins.
                    next.store(plan.inputs.len(), Relaxed);
                    return Err(error);
                }
            }
        };
        let workers: Vec<_> = (0..context.n_threads.min(plan.inputs.len())).map(|_| scope.spawn(worker)).collect();
        let ended: Vec<Result<()>> = workers
            .into_iter()
            .map(|worker| {
                worker.join().unwrap_or_else(|_| Err(anyhow!("a thread panicked, which is a bug in lookalike")))
            })
            .collect();
        ended.into_iter().collect::<Result<()>>()
    })?;
    let n_bytes = |path: &Path| path.metadata().map_or(0, |metadata| metadata.len());
    let n_bytes_after =
        (0..plan.inputs.len()).filter_map(|shard| corpus.output(shard)).map(|path| n_bytes(&path)).sum();
    Ok(Finished { n_bytes_before: plan.n_bytes(), n_bytes_after })
}

/// What every output needs.
struct Shards<'a> {
    corpus: &'a Corpus,
    plan: &'a Plan,
    decided: &'a Decided,
    kept: &'a RecordSet,
    context: &'a Context,
    /// Inputs with records, by name.
    at: HashMap<&'a str, usize>,
}

impl Shards<'_> {
    /// Writes an output beside its place and moves it there when it is whole.
    fn write(&self, shard: usize, copier: &mut RecordCopier) -> Result<()> {
        let plan = self.plan;
        let (Some(input), Some((name, ..)), Some(format), Some(output)) =
            (plan.inputs.get(shard), plan.spec.inputs.get(shard), plan.formats.get(shard), self.corpus.output(shard))
        else {
            return Ok(());
        };
        let at = self.at.get(name.as_str()).copied();
        let read = at.and_then(|at| self.decided.inputs.get(at)).map(ReadInput::progress).unwrap_or_default();
        if output.exists() {
            self.context.progress.advance(read.next_offset as u64);
            return Ok(());
        }
        let unfinished = self.corpus.unfinished(shard);
        let job = CopyJob {
            input,
            read,
            output: &unfinished,
            format: *format,
            text: plan.spec.text,
            wants: &|offset| at.is_some_and(|at| self.kept.contains(at, offset)),
            passed: &|n_records| {
                self.context.progress.advance(n_records);
                !self.context.stop.load(Relaxed)
            },
        };
        match copier.copy(&job) {
            // Nothing of the input could be read before either, which is reported.
            Err(CopyError::Input { .. }) if read.next_offset == 0 => Ok(()),
            Err(CopyError::Stopped) => Err(dedup_error(DedupError::Stopped)),
            Err(CopyError::Output { path, error }) => Err(dedup_error(DedupError::io(&path, error))),
            Err(error) => Err(ending(Exit::Failed, error.to_string())),
            Ok(()) => self.corpus.publish(shard).map_err(dedup_error),
        }
    }
}
