//! `lookalike migrate`: a new store by another rule, from what the store keeps or its inputs, beside the process that writes to it.

use super::args::MigrateArgs;
use super::backfill::{context, memory_limit, open_checkpoint, page_input, reading, usage_error, work_folder};
use super::exit::{Exit, ending, usage};
use super::output::{OutputMode, unreadable_text};
use super::output_path::{check_new_store, check_output};
use super::telemetry;
use super::wiring::{refuse_star, watch_signals};
use crate::backfill::{
    self, BackfillError, BackfillInput, BackfillSpec, Checkpoint, Handover, KeptInput, PageInput, PhaseProgress,
    Report, Takeover,
};
use crate::config::Config;
use crate::dedup::KeptLog;
use crate::document::FetchTime;
use crate::files::{input_files, url_of};
use crate::ports::{Outgoing, RelatedView, Sink, SinkError, Snapshot};
use crate::store::{self, RocksLoader, RocksStore};
use crate::wire::{Event, EventBody, Reason};
use anyhow::Result;
use indicatif::HumanCount;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The view of the old store, in the folder of the work.
const VIEW: &str = "old";

/// What a migration did.
#[derive(Serialize)]
struct MigrateSummary {
    /// Sightings that the new store has, marks of loss aside.
    n_sightings: u64,
    /// Sightings that it lacks, because their pages are neither in the inputs nor kept as texts.
    n_missing: u64,
    n_documents: u64,
    n_clusters: u64,
    store: PathBuf,
}

/// Makes a store by the configured rule from what the old one keeps.
pub(super) fn migrate(mut config: Config, args: &MigrateArgs, mode: OutputMode) -> Result<Exit> {
    refuse_star(
        &config,
        "such a store; or migrate with \"components\", and `recluster --policy star` shows the stars in it",
    )?;
    let old_path = std::mem::replace(&mut config.store.path, args.to.clone());
    args.page_defaults.override_in(&mut config)?;
    let old = RocksStore::open_read_only(&old_path, &config.store_settings())?;
    let inputs = inputs(&old, args, mode)?;
    args.missing.as_deref().map_or(Ok(()), |missing| check_output("--missing", missing, &inputs))?;
    check_old(&config, &old, &inputs, mode)?;
    let spec = spec(&config, &old, &inputs)?;
    drop(old);
    telemetry::start_logs(&config.log)?;
    let shutdown = watch_signals()?;
    let memory = memory_limit(args.memory);
    let folder = work_folder(&config.store.path);
    check_new_store("--to", &args.to)?;
    if !Checkpoint::exists(&folder) && !backfill::is_free(&config.store.path) {
        return Err(usage(format!("--to {}: it is there already; name another folder", args.to.display())));
    }
    let checkpoint = open_checkpoint(&config, &folder, spec, memory)?;
    if !backfill::is_free(&config.store.path) {
        // Killed at the very end: the view of the old store may be gone.
        return told(&backfill::finish(checkpoint, &config.store.path).map_err(usage_error)?, &config, args, mode);
    }
    let view = view(&config, &old_path, &folder)?;
    let takeover = Takeover { progress: view.progress()?, sweeps: view.sweeps()? };
    let end = Handover {
        events: args.missing.as_deref().map(|path| Box::new(MissingFile::new(path)) as Box<dyn Sink>),
        start_times: view.beginnings()?,
        takeover: Some(takeover),
        ..Handover::default()
    };
    let mut progress = telemetry::Progress::new(config.log.progress_seconds, mode.hides_progress());
    let reads_texts = has_same_texts(&config, &view);
    let texts = config.text_rule();
    let pages = (!inputs.is_empty())
        .then(|| page_input(&config, inputs, checkpoint.ingested().progress_map(), &mut progress))
        .transpose()?;
    let inputs = pages.map(|pages| PageInput { texts, ..pages });
    let input = BackfillInput::Kept(Box::new(KeptInput { store: Arc::new(view), texts, inputs, reads_texts }));
    let phases = Arc::new(PhaseProgress::default());
    let context = context(&config, folder, memory, &shutdown, &phases);
    let loader = RocksLoader::new(config.store_settings(), config.rule(), checkpoint.seed()?);
    let shown = progress.start_backfill(phases);
    let report = backfill::run(checkpoint, &context, input, &loader, &config.store.path, end);
    shown.finish();
    match report {
        Err(BackfillError::Stopped) if shutdown.load(Ordering::Relaxed) => {
            Err(ending(Exit::Interrupted, BackfillError::Stopped.to_string()))
        }
        report => told(&report.map_err(usage_error)?, &config, args, mode),
    }
}

/// Tells what the new store holds, and how a migration that made it ends.
fn told(report: &Report, config: &Config, args: &MigrateArgs, mode: OutputMode) -> Result<Exit> {
    let summary = summary(report, &config.store.path);
    mode.summary(&summary, |summary| {
        summary_text(summary, args.missing.as_deref()) + &unreadable_text(&report.unreadable)
    })?;
    Ok(if summary.n_missing == 0 && report.unreadable.is_empty() { Exit::Done } else { Exit::Unreadable })
}

/// The inputs to read again: those that are named, or those that the old store has read and that are still there.
fn inputs(old: &RocksStore, args: &MigrateArgs, mode: OutputMode) -> Result<Vec<PathBuf>> {
    if !args.reread {
        return if args.inputs.is_empty() { Ok(Vec::new()) } else { input_files(&args.inputs).map_err(usage) };
    }
    // In the order of their names, so that the same command finds the same inputs.
    let names: BTreeSet<String> = old.progress()?.into_keys().map(|(source, _)| source).collect();
    let is_there = |name: &String| Path::new(name).is_file() || url_of(Path::new(name)).is_some();
    let (there, others): (Vec<_>, Vec<_>) = names.into_iter().partition(is_there);
    if there.is_empty() {
        let path = old.path().display();
        return Err(usage(format!(
            "--reread: {path} took its pages from no file that is still there ({}); name files that hold them",
            others.join(", ")
        )));
    }
    if !others.is_empty() {
        mode.note(&format!("not read again, because they are no files that are there: {}", others.join(", ")));
    }
    Ok(there.into_iter().map(PathBuf::from).collect())
}

/// Whether the texts that the old store keeps are those of the new rule.
fn has_same_texts(config: &Config, old: &RocksStore) -> bool {
    let (had, wanted) = (old.rule(), config.rule());
    (had.canonical_version, had.canonical) == (wanted.canonical_version, wanted.canonical)
}

/// Fails where neither inputs nor the texts of a store can give what the rule asks for, and notes what stays behind.
fn check_old(config: &Config, old: &RocksStore, inputs: &[PathBuf], mode: OutputMode) -> Result<()> {
    let path = old.path().display();
    if inputs.is_empty() && old.n_bytes_of_texts()?.is_none() {
        return Err(usage(format!(
            "{path} keeps no texts, and without them pages cannot be sketched again: name the files that hold its pages, \
             or give --reread where those it was made from are still there"
        )));
    }
    if inputs.is_empty() && !has_same_texts(config, old) {
        return Err(usage(format!(
            "{path} keeps texts by another [canonical]: what it left out of a page, and what it did not, cannot be told from \
             a text; set canonical.content as there, or name the files that hold its pages, or give --reread"
        )));
    }
    if old.has_related() {
        mode.note("what the old store read of its pages for related pages stays behind");
    }
    if KeptLog::new(old.path()).is_there() {
        mode.note("the log of pages that `dedup --store` keeps in the old store stays behind");
    }
    Ok(())
}

/// What an unfinished migration must have in common with this one to be resumed.
fn spec(config: &Config, old: &RocksStore, inputs: &[PathBuf]) -> Result<BackfillSpec> {
    let texts = config.text_rule().map_or("none".to_string(), |rule| rule.bytes_max.to_string());
    let mut reading_of_all = format!("kept texts; texts: {texts}");
    if !inputs.is_empty() {
        reading_of_all += &format!("; inputs: {}", reading(config)?);
    }
    // Inputs may grow meanwhile: what the view lacks does not count.
    let inputs = inputs.iter().map(|input| (input.display().to_string(), 0));
    let inputs = std::iter::once((format!("store {}", old.id()), 0)).chain(inputs).collect();
    Ok(BackfillSpec { rule: config.rule(), reading: reading_of_all, inputs, events: None })
}

/// Opens the old store as it was when the work began. The view is made once, before anything is read of it.
fn view(config: &Config, old: &Path, folder: &Path) -> Result<RocksStore> {
    let (path, settings) = (folder.join(VIEW), config.store_settings());
    if !path.exists() {
        store::back_up(old, &settings, &path)?;
    }
    Ok(RocksStore::open_read_only(&path, &settings)?)
}

fn summary(report: &Report, store: &Path) -> MigrateSummary {
    let counts = &report.counts;
    MigrateSummary {
        n_sightings: counts.n_records - counts.n_rejected,
        n_missing: counts.n_rejected,
        n_documents: report.sizes.documents,
        n_clusters: report.sizes.clusters,
        store: store.to_path_buf(),
    }
}

fn summary_text(summary: &MigrateSummary, missing: Option<&Path>) -> String {
    let MigrateSummary { n_sightings, n_missing, n_documents, n_clusters, store } = summary;
    let mut text = format!(
        "{} holds {} sightings, {} documents in {} clusters\n",
        store.display(),
        HumanCount(*n_sightings),
        HumanCount(*n_documents),
        HumanCount(*n_clusters)
    );
    if *n_missing > 0 {
        let listed =
            missing.map_or("--missing FILE lists such".to_string(), |path| format!("{} lists them", path.display()));
        let why = "their pages are neither in the inputs nor kept as texts";
        text += &format!("  missing {}: {why}; {listed}\n", HumanCount(*n_missing));
    }
    text
}

/// A sighting that the new store lacks.
#[derive(Serialize)]
struct MissingRow<'a> {
    url: Option<&'a str>,
    fetched_at: Option<FetchTime>,
    sweep: Option<&'a str>,
    reason: Reason,
    message: &'a str,
}

/// Lists the sightings that are rejected. The file is begun anew when the events are published, and not before: a run that
/// finds the store whole leaves it as it is.
struct MissingFile {
    path: PathBuf,
    out: Option<BufWriter<File>>,
}

impl MissingFile {
    fn new(path: &Path) -> Self {
        MissingFile { path: path.to_path_buf(), out: None }
    }

    fn failed(&self, error: &io::Error) -> SinkError {
        SinkError::new(format!("cannot write {}: {error}; check the path and run again", self.path.display()))
    }

    fn write(&mut self, events: &[Outgoing]) -> io::Result<()> {
        let Some(out) = &mut self.out else { return Ok(()) };
        for event in events {
            let event: Event = serde_json::from_slice(&event.json)?;
            let EventBody::Rejected { reason, message, .. } = &event.body else { continue };
            let (url, fetched_at, sweep) = (event.url.as_deref(), event.fetched_at, event.sweep.as_deref());
            serde_json::to_writer(&mut *out, &MissingRow { url, fetched_at, sweep, reason: *reason, message })?;
            out.write_all(b"\n")?;
        }
        out.flush()?;
        out.get_ref().sync_all()
    }
}

impl Sink for MissingFile {
    fn last_seq(&mut self) -> Result<Option<u64>, SinkError> {
        self.out = Some(BufWriter::new(File::create(&self.path).map_err(|error| self.failed(&error))?));
        Ok(None)
    }

    fn publish(&mut self, events: &[Outgoing]) -> Result<(), SinkError> {
        self.write(events).map_err(|error| self.failed(&error))
    }
}
