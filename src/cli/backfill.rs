//! `lookalike backfill`: connects inputs, work folder and a new store, and runs the phases.

use super::args::BackfillArgs;
use super::exit::{Exit, RUN_SHOWS_REASONS, ending, file_error, none_accepted, usage};
use super::output::{OutputMode, counted, no_pages_text, unreadable_text};
use super::output_path::{absolute, check_not_read};
use super::telemetry;
use super::wiring::{OPEN_SEED, beside, events_sink, file_source, future_limit, new_seed, refuse_star, watch_signals};
use crate::backfill::{
    self, BackfillError, BackfillInput, BackfillSpec, Checkpoint, Context, DiskSpace, GivenLinks, Handover, PageInput,
    PhaseProgress, Report,
};
use crate::config::Config;
use crate::files::{Input, InputFile, LinkFile, SketchFiles, input_files, state_of, url_of};
use crate::kafka::TopicPosition;
use crate::ports::{Progress, ProgressMap};
use crate::store::RocksLoader;
use anyhow::Result;
use indicatif::HumanBytes;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Takes whole inputs through all phases into a new store.
pub(super) fn backfill(mut config: Config, args: BackfillArgs, mode: OutputMode) -> Result<Exit> {
    let begun = Instant::now();
    args.page_defaults.override_in(&mut config)?;
    let advice = "such a store; or backfill with \"components\", and `recluster --policy star` shows the stars in it";
    refuse_star(&config, advice)?;
    args.events.as_ref().map_or(Ok(()), |events| check_not_read("--events", Path::new(events), &args.inputs))?;
    // Before the work folder is created: a mistyped path must leave nothing behind.
    let inputs = BackfillInputs::open(&mut config, &args)?;
    let events = args.events.as_deref().map(whole_name).transpose()?;
    let spec = BackfillSpec { events, ..inputs.spec(&config)? };
    telemetry::start_logs(&config.log)?;
    let shutdown = watch_signals()?;
    let start = args.then_from_kafka.as_deref().map(|start| then_from_kafka(&config, start)).transpose()?;
    let memory = memory_limit(args.memory);
    let folder = work_folder(&config.store.path);
    if !Checkpoint::exists(&folder) {
        args.events.as_deref().map_or(Ok(()), check_no_events)?;
    }
    let checkpoint = open_checkpoint(&config, &folder, spec.clone(), memory)?;
    note_disk_space(&folder, &spec.inputs, mode)?;

    let phase_progress = Arc::new(PhaseProgress::default());
    let context = context(&config, folder, memory, &shutdown, &phase_progress);
    let n_files = inputs.n_files();
    let mut progress = telemetry::Progress::new(config.log.progress_seconds, mode.hides_progress());
    let intake = match inputs {
        BackfillInputs::Pages(files) => {
            let pages = page_input(&config, files, checkpoint.ingested().progress_map(), &mut progress)?;
            BackfillInput::Pages(PageInput { texts: config.text_rule(), ..pages })
        }
        BackfillInputs::Sketched(files, links) => {
            let links = links.map(|(_, links)| GivenLinks::new(links.into_chunks()));
            BackfillInput::Sketched(Box::new(files.into_chunks()), links)
        }
    };
    let loader = RocksLoader::new(config.store_settings(), config.rule(), checkpoint.seed()?);
    let events = args.events.as_deref().map(events_sink).transpose()?;
    let end = Handover { events, ..start.unwrap_or_default() };
    let shown = progress.start_backfill(phase_progress);
    let report = backfill::run(checkpoint, &context, intake, &loader, &config.store.path, end);
    shown.finish();
    let report = match report {
        Err(BackfillError::Stopped) if shutdown.load(Ordering::Relaxed) => {
            return Err(ending(Exit::Interrupted, BackfillError::Stopped.to_string()));
        }
        report => report.map_err(usage_error)?,
    };
    mode.summary(&report, |report| {
        let table = if args.verbose { report.to_string() } else { String::new() };
        table + &summary_text(report, n_files, &config.store.path, begun.elapsed())
    })?;
    exit_of(&report)
}

/// Fails where an events file holds events: those of a store that is new are others.
fn check_no_events(path: &str) -> Result<()> {
    match events_sink(path)?.last_seq()? {
        Some(_) => {
            Err(usage(format!("--events {path} holds the events of another store; give another file, or remove it")))
        }
        None => Ok(()),
    }
}

/// The name of an events file that does not depend on the current folder.
fn whole_name(events: &str) -> Result<String> {
    if events == "-" {
        return Ok(events.into());
    }
    Ok(absolute(Path::new(events))?.to_string_lossy().into_owned())
}

/// What a backfill reads.
enum BackfillInputs {
    Pages(Vec<PathBuf>),
    Sketched(Box<SketchFiles>, Option<(PathBuf, LinkFile)>),
}

impl BackfillInputs {
    /// Finds the inputs. Sketches give the configuration their seed where it has none and they were made without one.
    fn open(config: &mut Config, args: &BackfillArgs) -> Result<Self> {
        let Some(folder) = &args.from_sketches else {
            return Ok(BackfillInputs::Pages(input_files(&args.inputs).map_err(usage)?));
        };
        if config.text_rule().is_some() {
            return Err(usage(
                "sketch files hold no texts: set store.keep_text to \"none\", or backfill from the pages",
            ));
        }
        let files = SketchFiles::open(folder).map_err(usage)?;
        let rule = config.rule();
        if files.rule() != (rule.canonical_version, &rule.sketch) {
            return Err(usage(format!(
                "{} holds sketches by another rule; use the configuration that they were made with",
                folder.display()
            )));
        }
        match config.seed().map_err(usage)? {
            None if files.are_of(&OPEN_SEED) => config.store.seed = "0".repeat(64),
            Some(seed) if files.are_of(&seed) => {}
            _ => {
                let folder = folder.display();
                return Err(usage(format!("{folder} holds sketches of another seed; set store.seed to that seed")));
            }
        }
        let links = args.links.clone().map(|path| {
            let links = LinkFile::open(&path, &files, &rule).map_err(usage)?;
            anyhow::Ok((path, links))
        });
        let links = links.transpose()?;
        Ok(BackfillInputs::Sketched(Box::new(files), links))
    }

    /// Files that hold records.
    fn n_files(&self) -> usize {
        match self {
            BackfillInputs::Pages(files) => files.len(),
            BackfillInputs::Sketched(files, _) => files.paths().len(),
        }
    }

    /// What an unfinished backfill must have in common with this one to be resumed.
    fn spec(&self, config: &Config) -> Result<BackfillSpec> {
        match self {
            BackfillInputs::Pages(files) => backfill_spec(config, files),
            BackfillInputs::Sketched(files, links) => {
                let links = links.iter().map(|(path, _)| path.clone());
                let paths: Vec<PathBuf> = files.paths().into_iter().chain(links).collect();
                let (reading, inputs) = (files.reading().to_string(), input_sizes(&paths)?);
                Ok(BackfillSpec { rule: config.rule(), reading, inputs, events: None })
            }
        }
    }
}

/// Bytes of memory for everything that grows with the input.
pub(super) fn memory_limit(mib: Option<u64>) -> u64 {
    mib.map_or_else(|| backfill::machine_memory() / 3, |mib| mib << 20).max(1 << 20)
}

/// What the phases work with.
pub(super) fn context(
    config: &Config,
    folder: PathBuf,
    memory: u64,
    stop: &Arc<AtomicBool>,
    progress: &Arc<PhaseProgress>,
) -> Context {
    let n_threads = match config.pipeline.sketchers {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    };
    Context { folder, n_threads, memory, stop: Arc::clone(stop), progress: Arc::clone(progress) }
}

/// Opens the work folder: a new one, or that of an unfinished backfill of the same inputs.
pub(super) fn open_checkpoint(config: &Config, folder: &Path, spec: BackfillSpec, memory: u64) -> Result<Checkpoint> {
    if !Checkpoint::exists(folder) && !backfill::is_free(&config.store.path) {
        // A kill at the very last step leaves an empty folder; one that holds anything stays.
        let _ = std::fs::remove_dir(folder);
        return Err(usage_error(BackfillError::StoreExists(config.store.path.clone())));
    }
    open_phases(config, folder, spec, memory)
}

/// Opens the folder in which the phases of a backfill work.
pub(super) fn open_phases(config: &Config, folder: &Path, spec: BackfillSpec, memory: u64) -> Result<Checkpoint> {
    let (seed, random) = (config.seed().map_err(usage)?, new_seed()?);
    let checkpoint = Checkpoint::open(folder, spec, backfill::part_rows(memory), seed, || random);
    Ok(checkpoint.map_err(usage_error)?.with_interval(Duration::from_millis(config.backfill.checkpoint_ms)))
}

/// The pages of the inputs after what was read of them.
pub(super) fn page_input(
    config: &Config,
    inputs: impl IntoIterator<Item = impl Into<Input>>,
    read: ProgressMap,
    progress: &mut telemetry::Progress,
) -> Result<PageInput> {
    let inputs = inputs.into_iter().map(Into::into).collect();
    let source = file_source(config, inputs, read)?;
    progress.reads(source.read_progress());
    Ok(PageInput {
        source: Box::new(source),
        limits: config.limits.clone(),
        sweep_cut: config.input.sweep_cut,
        future: future_limit(config),
        texts: None,
    })
}

fn exit_of(report: &Report) -> Result<Exit> {
    let counts = &report.counts;
    if counts.n_pages + counts.n_gone == 0 && counts.n_rejected > 0 {
        return Err(none_accepted(counts.n_rejected, RUN_SHOWS_REASONS));
    }
    Ok(if report.unreadable.is_empty() { Exit::Done } else { Exit::Unreadable })
}

/// How many pages, documents and clusters, where the store is, and how long it took.
fn summary_text(report: &Report, n_files: usize, store: &Path, elapsed: Duration) -> String {
    let (counts, sizes) = (&report.counts, &report.sizes);
    let mut text = format!(
        "{} of {} in {:.1} s: {} now holds {} in {}\n",
        counted(counts.n_pages, "page"),
        counted(n_files as u64, "file"),
        elapsed.as_secs_f64(),
        store.display(),
        counted(sizes.documents, "document"),
        counted(sizes.clusters, "cluster"),
    );
    text += &no_pages_text(counts.n_gone, counts.n_rejected, "; --events FILE lists each with its reason");
    text + &unreadable_text(&report.unreadable)
}

/// Turns the errors that another command line avoids into wrong usage.
pub(super) fn usage_error(error: BackfillError) -> anyhow::Error {
    match error {
        BackfillError::SpecMismatch { .. }
        | BackfillError::OtherFormat { .. }
        | BackfillError::FolderInUse(_)
        | BackfillError::StoreExists(_) => usage(error),
        other => other.into(),
    }
}

/// The folder lies beside the store, so that the finished store moves to its place in one step.
pub(super) fn work_folder(store: &Path) -> PathBuf {
    beside(store, ".backfill")
}

/// Less than this of a disk with room for it is not worth a line.
const NOTED_BYTES: u64 = 1 << 30;

/// Notes how much of the disk may be needed, where that is much. This is a guess; where it is wrong, finished pieces stay.
pub(super) fn note_disk_space(folder: &Path, inputs: &[(String, u64)], mode: OutputMode) -> Result<()> {
    let inputs = inputs.iter().map(|(name, n_bytes)| (*n_bytes, is_compressed(Path::new(name))));
    let room = DiskSpace::for_inputs(folder, inputs)?;
    let (needed, free, folder) = (HumanBytes(room.needed), HumanBytes(room.free), folder.display());
    if room.is_insufficient() {
        tracing::warn!(
            "{folder} may need up to {needed} of disk and {free} are free; if it fills up, free some space and run again"
        );
    } else if room.needed >= NOTED_BYTES {
        mode.note(&format!("{folder} may need up to {needed} of disk; {free} are free"));
    }
    Ok(())
}

fn is_compressed(path: &Path) -> bool {
    let mut magic = [0; 4];
    let read = InputFile::open(path).and_then(|mut file| file.read_exact(&mut magic));
    let known: [&[u8]; 5] = [&[0x1f, 0x8b], &[0x28, 0xb5, 0x2f, 0xfd], b"\xfd7zX", b"BZh", b"PK\x03\x04"];
    read.is_ok() && known.iter().any(|known| magic.starts_with(known))
}

/// What an unfinished backfill must have in common with this one to be resumed.
pub(super) fn backfill_spec(config: &Config, inputs: &[PathBuf]) -> Result<BackfillSpec> {
    // A text is written with its document, in the first phase.
    let reading = match config.text_rule() {
        Some(_) => reading(config)? + ", texts",
        None => reading(config)?,
    };
    Ok(BackfillSpec { rule: config.rule(), reading, inputs: input_sizes(inputs)?, events: None })
}

/// All settings that change how records are read, as text.
pub(super) fn reading(config: &Config) -> Result<String> {
    let of = &config.input;
    let pages = (&of.sweep, &of.fetched_at, &of.url_from, &of.fields);
    Ok(serde_json::to_string(&(&config.limits, pages, of.sweep_cut, of.future_days_max))?)
}

/// The full name and the size of each input, which must be a file or an object.
pub(super) fn input_sizes(inputs: &[PathBuf]) -> Result<Vec<(String, u64)>> {
    let input = |path: &PathBuf| -> Result<(String, u64)> {
        let unread = |error: std::io::Error| usage(file_error("read", path, &error));
        let no_file = || {
            let why = "work that goes on reads its inputs again; save them to a file, or use `run`";
            usage(format!("{} is no file but a pipe or a device: {why}", path.display()))
        };
        // A pipe has no full name, so that it would pass for a file that is missing.
        let is_pipe = |path: &Path| path.metadata().is_ok_and(|metadata| !metadata.is_file());
        if path.as_os_str() == "-" || (url_of(path).is_none() && is_pipe(path)) {
            return Err(no_file());
        }
        let whole = if url_of(path).is_some() { path.clone() } else { path.canonicalize().map_err(unread)? };
        let state = state_of(&whole).map_err(unread)?.ok_or_else(no_file)?;
        Ok((whole.to_string_lossy().into_owned(), state.n_bytes))
    };
    inputs.iter().map(input).collect()
}

/// Where `run` is to begin in the configured topic: at a time, or at `PARTITION=OFFSET,…`.
fn then_from_kafka(config: &Config, start: &str) -> Result<Handover> {
    let topic = config.kafka.topic.clone();
    let position = start.parse::<TopicPosition>();
    match position.map_err(|error| usage(format!("--then-from-kafka {start}: {error}")))? {
        TopicPosition::Time(time) => Ok(Handover { start_times: [(topic, time)].into(), ..Handover::default() }),
        TopicPosition::Offsets(offsets) => {
            let progress = |(partition, next_offset)| ((topic.clone(), partition), Progress { next_offset, chain: 0 });
            Ok(Handover { progress: offsets.into_iter().map(progress).collect(), ..Handover::default() })
        }
    }
}
