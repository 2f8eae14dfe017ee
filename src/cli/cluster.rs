//! `lookalike cluster`: from files of pages to a table with the cluster of every record, without a store.

use super::args::ClusterArgs;
use super::backfill::{context, memory_limit};
use super::dedup::errors::dedup_error;
use super::dedup::{column, revisits, without_store};
use super::exit::{Exit, file_error, none_accepted, usage};
use super::output::{OutputMode, counted, no_pages_text, unreadable_text};
use super::output_path::check_output;
use super::table::{Column, TableFormat, TableWriter, chosen, column};
use super::telemetry;
use super::wiring::{beside, check_share, refuse_star, watch_signals};
use crate::backfill::{Context, PhaseName, PhaseProgress};
use crate::config::Config;
use crate::dedup::{
    ClusteredRecord, ClusteredRecords, Counts, Decision, DedupError, List, Outcome, Preference, RemovalKind,
    RemovedRecord, Workspace, decide,
};
use crate::document::FetchTime;
use crate::files::input_files;
use crate::wire::Reason;
use anyhow::Result;
use serde::Serialize;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const COLUMNS: [Column; 12] = [
    column!("source", Text),
    column!("record", Number),
    column!("url", Text),
    column!("fetched_at", Time),
    column!("document", Number),
    column!("words", Number),
    column!("cluster", Number),
    column!("keep", Flag),
    column!("kind", Text),
    column!("resemblance", Share),
    column!("reason", Text),
    column!("message", Text),
];

/// Clusters the inputs and writes the table.
pub(super) fn cluster(mut config: Config, args: &ClusterArgs, mode: OutputMode) -> Result<Exit> {
    let begun = Instant::now();
    args.page_defaults.override_in(&mut config)?;
    if let Some(threshold) = args.threshold {
        check_share("--threshold", threshold, false)?;
        config.cluster.threshold = threshold;
    }
    refuse_star(&config, "a store of them")?;
    let columns = columns(&args.columns)?;
    // Before the work folder is created: a mistyped path must leave nothing behind.
    let inputs = input_files(&args.inputs).map_err(usage)?;
    let n_inputs = inputs.len();
    check_output("--out", &args.out, &inputs)?;
    let format = TableFormat::choose(args.format, false, Some(&args.out))?;
    column::check(&config, &args.keep, &inputs)?;
    telemetry::start_logs(&config.log)?;
    let shutdown = watch_signals()?;
    let phases = Arc::new(PhaseProgress::default());
    // Beside the table, so that the same command finds it again.
    let folder = beside(&args.out, ".cluster");
    let context = context(&config, folder, memory_limit(args.memory), &shutdown, &phases);
    let clustered = without_store::cluster(&config, inputs, &context, mode)?;
    let progress = telemetry::Progress::new(config.log.progress_seconds, mode.hides_progress());
    let shown = progress.start_backfill(phases);
    let mut records = clustered.records;
    let written = decide_each(&config, records.as_mut(), &context, args).and_then(|decided| {
        write(&*records, &decided, TableWriter::create(Some(&args.out), format, columns)?, &args.out)?;
        Ok(decided.decision.counts)
    });
    shown.finish();
    let counts = written?;
    let n_clusters = counts.n_kept;
    drop(records);
    remove_work(&context.folder).map_err(|error| file_error("remove", &context.folder, &error))?;
    check_accepted(&counts, &args.out)?;
    let summary =
        ClusterSummary { out: args.out.clone(), n_inputs, n_clusters, counts, unreadable: clustered.unreadable };
    mode.summary(&summary, |summary| summary_text(summary, begun.elapsed()))?;
    Ok(if summary.unreadable.is_empty() { Exit::Done } else { Exit::Unreadable })
}

/// Removes a work folder. It loses its name first: after a kill in between, the same command must not take it for unfinished
/// work.
fn remove_work(folder: &Path) -> io::Result<()> {
    let aside = beside(folder, ".removed");
    if aside.exists() {
        fs::remove_dir_all(&aside)?;
    }
    fs::rename(folder, &aside)?;
    fs::remove_dir_all(&aside)
}

fn columns(names: &[String]) -> Result<Vec<Column>> {
    chosen(&COLUMNS, &[], names)
}

/// Which records stay, and how those that go relate to them.
struct Decided {
    decision: Decision,
    /// The records that do not stay, in the order of the inputs: 8 bytes each.
    removals: Vec<(RemovalKind, f32)>,
}

fn decide_each(
    config: &Config,
    records: &mut dyn ClusteredRecords,
    context: &Context,
    args: &ClusterArgs,
) -> Result<Decided> {
    let values = column::values(config, &args.keep, records.inputs(), context)?;
    let revisits = revisits::revisits(config, &args.keep, records.inputs(), context)?;
    context.progress.begin(PhaseName { name: "choosing pages", reads_pages: false }, 0);
    let work = Workspace { folder: &context.folder, memory: context.memory, stop: &context.stop };
    let mut removals = Vec::new();
    let mut each = |record: &RemovedRecord<'_>| {
        removals.push((record.kind, record.resemblance.unwrap_or_default() as f32));
        Ok(())
    };
    let list = List { each: &mut each, with_containment: false };
    let preference = Preference { keep: &args.keep, values: &values, revisits: &revisits };
    let decision = decide(records, preference, None, &work, Some(list)).map_err(dedup_error)?;
    Ok(Decided { decision, removals })
}

/// A row of the table: a record of the inputs. The order of the fields is that of the columns.
#[derive(Serialize)]
struct ClusterRow<'a> {
    /// The input, by its absolute path.
    source: &'a str,
    /// The record's number in it, from 0.
    record: i64,
    url: Option<&'a str>,
    fetched_at: Option<FetchTime>,
    document: Option<u32>,
    /// Of the document.
    words: Option<u32>,
    /// The smallest document of the cluster.
    cluster: Option<u32>,
    /// Whether the page stays, of its cluster this one alone.
    keep: bool,
    kind: Kind,
    /// To the page of the cluster that stays, estimated.
    resemblance: Option<f64>,
    reason: Option<Reason>,
    message: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Kind {
    Kept(&'static str),
    Removed(RemovalKind),
}

/// Writes a row for each record, in the order of the inputs.
fn write(records: &dyn ClusteredRecords, decided: &Decided, mut table: TableWriter, out: &Path) -> Result<()> {
    let failed = |error| DedupError::io(out, error);
    let (inputs, clusters) = (records.inputs(), records.clusters());
    let n_words = if table.has("words") { records.n_words().map_err(dedup_error)? } else { Vec::new() };
    let Decided { decision: Decision { kept, .. }, removals } = decided;
    let mut removals = removals.iter();
    records
        .each_record(&mut |record| {
            let ClusteredRecord { input, offset, url, outcome } = &record;
            let source = inputs.get(*input as usize).map_or("", |input| &input.name);
            let keep = kept.contains(*input as usize, *offset);
            let (kind, resemblance) = match keep {
                true => (Kind::Kept("kept"), Some(1.0)),
                false => removals.next().map_or((Kind::Kept(""), None), removed),
            };
            let (document, fetched_at) = match outcome {
                Outcome::Page { document, fetched_at } => (Some(document.0), Some(*fetched_at)),
                _ => (None, None),
            };
            let cluster = document.and_then(|document| Some(clusters.get(document as usize - 1)?.0));
            let rejection = if let Outcome::Rejected(why) = outcome { Some(why) } else { None };
            let row = ClusterRow {
                source,
                record: *offset,
                url: url.as_deref(),
                fetched_at,
                document,
                words: document.and_then(|document| n_words.get(document as usize - 1).copied()),
                cluster,
                keep,
                kind,
                resemblance,
                reason: rejection.map(|why| why.reason),
                message: rejection.map(|why| why.message.as_str()),
            };
            table.write(&row).map_err(failed)
        })
        .map_err(dedup_error)?;
    table.finish().map_err(failed).map_err(dedup_error)
}

/// How a record that goes relates to the page that stays. The estimate is rounded to four places, which the list of
/// single precision keeps.
fn removed((kind, resemblance): &(RemovalKind, f32)) -> (Kind, Option<f64>) {
    let is_page = matches!(kind, RemovalKind::Identical | RemovalKind::Near);
    (Kind::Removed(*kind), is_page.then(|| (f64::from(*resemblance) * 1e4).round() / 1e4))
}

/// Fails if no record was accepted.
fn check_accepted(counts: &Counts, out: &Path) -> Result<()> {
    if counts.n_records == 0 || counts.n_rejected < counts.n_records {
        return Ok(());
    }
    Err(none_accepted(counts.n_rejected, format_args!("{} has the reasons", out.display())))
}

/// What was clustered, for programs.
#[derive(Serialize)]
struct ClusterSummary {
    out: PathBuf,
    n_inputs: usize,
    n_clusters: u64,
    #[serde(flatten)]
    counts: Counts,
    unreadable: Vec<String>,
}

/// The same for people.
fn summary_text(summary: &ClusterSummary, elapsed: Duration) -> String {
    let ClusterSummary { out, n_inputs, n_clusters, counts, unreadable } = summary;
    let mut text = format!(
        "{} of {} in {:.1} s: {} in {}\n",
        counted(counts.n_pages, "page"),
        counted(*n_inputs as u64, "file"),
        elapsed.as_secs_f64(),
        counted(*n_clusters, "cluster"),
        out.display(),
    );
    text += &no_pages_text(counts.n_gone + counts.n_redirected, counts.n_rejected, "; the table has the reasons");
    text + &unreadable_text(unreadable)
}
