//! `lookalike dedup`: from pages to a corpus with one page for each cluster, and the list of those that go.
//!
//! ```text
//! inputs ─▶ clusters (without_store: the phases of a backfill; with_store: a backfill or a run) ─▶ decision
//!      └──▶ outputs: the records that stay, read again ◀─────────────────────────────────────────────┘
//! ```

mod clustered;
pub(super) mod column;
pub(super) mod errors;
mod outputs;
mod plan;
pub(super) mod revisits;
mod summary;
mod with_store;
pub(super) mod without_store;

use super::args::{CorpusFormat, DedupArgs};
use super::backfill::{context, memory_limit};
use super::exit::{Exit, ending, none_accepted};
use super::output::{OutputMode, RowWriter};
use super::telemetry;
use super::wiring::{check_share, watch_signals};
use crate::backfill::{Context, PhaseName, PhaseProgress};
use crate::config::Config;
use crate::dedup::{
    Corpus, Counts, Decided, DedupError, Finished, KnownPages, List, Preference, REMOVED_COLUMNS, RecordSet,
    RemovedRecord, Workspace, decide,
};
use crate::files::rename_durably;
use anyhow::Result;
use clustered::Clustered;
use errors::dedup_error;
use plan::{Plan, is_csv, unfinished};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use summary::{DedupSummary, rejections, summary_text};

/// Clusters the inputs, decides which pages stay, and writes those.
pub(super) fn dedup(mut config: Config, store: Option<&Path>, args: &DedupArgs, mode: OutputMode) -> Result<Exit> {
    let begun = Instant::now();
    args.page_defaults.override_in(&mut config)?;
    args.threshold.map_or(Ok(()), |share| check_share("--threshold", share, false))?;
    args.containment.map_or(Ok(()), |share| check_share("--containment", share, false))?;
    if let Some(threshold) = args.threshold {
        config.cluster.threshold = threshold;
    }
    // Before the folder is created: a mistyped path must leave nothing behind.
    let plan = Plan::new(&config, store, args)?;
    column::check(&config, &args.keep, &plan.inputs)?;
    telemetry::start_logs(&config.log)?;
    let shutdown = watch_signals()?;
    let mut corpus = Corpus::open(&args.out, plan.spec.clone()).map_err(dedup_error)?;
    if let Some(finished) = corpus.finished() {
        mode.note(&format!("{} is finished already", args.out.display()));
        // A kill can hit between the last two steps of the end.
        corpus.finish(finished).map_err(dedup_error)?;
        return report(&corpus, &plan, finished, mode, None);
    }
    let phases = Arc::new(PhaseProgress::default());
    let scratch = corpus.scratch().map_err(dedup_error)?;
    let context = context(&config, scratch, memory_limit(args.memory), &shutdown, &phases);
    if corpus.decided().is_none() {
        let clustered = match (store, args.containment) {
            (None, None) => without_store::cluster(&config, plan.inputs.clone(), &context, mode)?,
            (store, _) => with_store::cluster(&config, store, &plan, &mut corpus, &context, args, mode)?,
        };
        let progress = telemetry::Progress::new(config.log.progress_seconds, mode.hides_progress());
        let shown = progress.start_backfill(Arc::clone(&phases));
        let decided = decide_and_list(&config, clustered, &mut corpus, &context, args);
        shown.finish();
        decided?;
    }
    corpus.remove_scratch().map_err(dedup_error)?;
    let Some(decided) = corpus.decided().cloned() else { return Err(ending(Exit::Failed, "nothing was decided")) };
    if let Some(why) = nothing_accepted(&decided) {
        // With a store the records count as read, and the folder says so.
        if store.is_none() {
            corpus.discard().map_err(dedup_error)?;
        }
        return Err(why);
    }
    let kept = RecordSet::read(&corpus.kept_set()).map_err(dedup_error)?;
    let progress = telemetry::Progress::new(config.log.progress_seconds, mode.hides_progress());
    let shown = progress.start_backfill(phases);
    let written = outputs::write(&config, &corpus, &plan, &decided, &kept, &context);
    shown.finish();
    let finished = written?;
    corpus.finish(finished).map_err(dedup_error)?;
    report(&corpus, &plan, finished, mode, Some(begun))
}

/// Decides which records stay, and makes that durable with the list of those that go.
fn decide_and_list(
    config: &Config,
    clustered: Clustered,
    corpus: &mut Corpus,
    context: &Context,
    args: &DedupArgs,
) -> Result<()> {
    let Clustered { mut records, known, unreadable, n_read_before } = clustered;
    let values = column::values(config, &args.keep, records.inputs(), context)?;
    let revisits = match args.format {
        None | Some(CorpusFormat::Same) => revisits::revisits(config, &args.keep, records.inputs(), context)?,
        // Written as text, a revisit has the content of its original.
        Some(CorpusFormat::Jsonl | CorpusFormat::Parquet) => RecordSet::default(),
    };
    context.progress.begin(PhaseName { name: "choosing pages", reads_pages: false }, 0);
    let work = Workspace { folder: &context.folder, memory: context.memory, stop: &context.stop };
    let known = known.as_ref().map(|known| KnownPages {
        log: &known.log,
        n_documents: known.begun.n_documents,
        batch: known.begun.next_seq,
    });
    let mut list = args.removed.as_deref().map(RemovedList::create).transpose()?;
    let decision = {
        let mut each = |record: &RemovedRecord<'_>| list.as_mut().map_or(Ok(()), |list| list.write(record));
        let with_containment = args.containment.is_some();
        let list = args.removed.is_some().then_some(List { each: &mut each, with_containment });
        let preference = Preference { keep: &args.keep, values: &values, revisits: &revisits };
        decide(records.as_mut(), preference, known.as_ref(), &work, list).map_err(dedup_error)?
    };
    list.map_or(Ok(()), RemovedList::finish)?;
    decision.kept.write(&corpus.kept_set()).map_err(dedup_error)?;
    let counts = Counts { n_read_before, ..decision.counts };
    let inputs = records.inputs().to_vec();
    corpus.set_decided(Decided { counts, inputs, unreadable, rejected: decision.rejected }).map_err(dedup_error)
}

/// The list of removed records under way, beside the place where it will be. A device or a pipe is written directly.
struct RemovedList<'a> {
    path: &'a Path,
    growing: Option<PathBuf>,
    rows: RowWriter,
}

impl<'a> RemovedList<'a> {
    fn create(path: &'a Path) -> Result<Self> {
        let is_device = path.metadata().is_ok_and(|metadata| !metadata.is_file());
        let growing = (!is_device).then(|| unfinished(path));
        let rows = RowWriter::create(Some(growing.as_deref().unwrap_or(path)), !is_csv(path)?, &REMOVED_COLUMNS)?;
        Ok(RemovedList { path, growing, rows })
    }

    fn write(&mut self, record: &RemovedRecord<'_>) -> Result<(), DedupError> {
        self.rows.write(record).map_err(|error| DedupError::io(self.path, error))
    }

    /// Makes the list durable and moves it to its place.
    fn finish(self) -> Result<()> {
        let finish = || {
            self.rows.finish()?;
            let Some(growing) = &self.growing else { return Ok(()) };
            File::open(growing)?.sync_all()?;
            rename_durably(growing, self.path)
        };
        finish().map_err(|error| dedup_error(DedupError::io(self.path, error)))
    }
}

/// The error where no record was accepted, instead of an empty corpus.
fn nothing_accepted(decided: &Decided) -> Option<anyhow::Error> {
    let Decided { counts, rejected, .. } = decided;
    let is_empty = counts.n_records > 0 && counts.n_rejected == counts.n_records;
    let reasons = || format!("by reason:\n{}", rejections(rejected).trim_end());
    is_empty.then(|| none_accepted(counts.n_rejected, reasons()))
}

fn report(corpus: &Corpus, plan: &Plan, finished: Finished, mode: OutputMode, begun: Option<Instant>) -> Result<Exit> {
    let Some(decided) = corpus.decided() else { return Ok(Exit::Done) };
    let summary = DedupSummary::new(plan, decided, finished);
    mode.summary(&summary, |summary| summary_text(summary, begun.map(|begun| begun.elapsed())))?;
    Ok(if decided.unreadable.is_empty() { Exit::Done } else { Exit::Unreadable })
}
