//! `lookalike run`: puts source, store and sink together and lets the stream flow.

use super::args::RunArgs;
use super::serve::Server;
use super::telemetry::{self, Metrics, Progress};
use super::{Exit, crash_handler, ending, render};
use crate::cluster::Decider;
use crate::config::{Config, InputKind};
use crate::document::{FetchTime, Seed};
use crate::files::{EventFile, EventStdout, FileSource, Input, decode_content, parse_warc_page};
use crate::http::{Token, WriteAccess};
use crate::intake::FutureLimit;
use crate::kafka::{KafkaSettings, KafkaSink, KafkaSource, Publishing, StartOptions};
use crate::pipeline::{self, CloseRequests, Pipeline, PipelineError, PoisonTracker, Stats, Summary};
use crate::ports::{Batch, CrashNotes, PoisonGuard, Sink, Snapshot, Source, Store, StoreError};
use crate::sketch::Sketcher;
use crate::store::{CrashNoteFiles, OpenError, RocksStore};
use anyhow::{Context, Result};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Takes pages in until the inputs end or a signal comes.
pub(super) fn run(mut config: Config, args: RunArgs) -> Result<Exit> {
    let begun = SystemTime::now();
    override_with(&mut config, &args);
    let metrics = config.metrics_address().map_err(|error| ending(Exit::Usage, error.to_string()))?;
    telemetry::start_logs(&config.log.level)?;
    let is_counting = metrics.is_some() || args.http_listen.is_some();
    let metrics = is_counting.then(|| Metrics::start(metrics)).transpose()?;
    let shutdown = watch_signals()?;

    let mut store = open_store(&config)?;
    store.stops_with(Arc::clone(&shutdown));
    let (changes, close_requests) = changes(&config)?;
    let metrics_of_door = metrics.as_ref().filter(|_| args.http_listen.is_some());
    let _door = metrics_of_door.map(|metrics| Server::open(&config, metrics, changes)).transpose()?;
    let mut progress = Progress::new(config.log.progress_seconds, args.quiet);
    let poison = Arc::new(poison_tracker(&config, &store)?);
    let source = open_source(&config, &args, &mut store, &poison, &mut progress)?;
    let mut sink = open_sink(&config, &store, begun, &shutdown)?;
    let next_seq = store.next_seq();
    if let Some(sink) = &mut sink {
        pipeline::recover(&store, sink.as_mut(), store.published(), next_seq)?;
    }
    let rule = config.rule();
    let stats = Arc::new(Stats::default());
    let pipeline = Pipeline {
        settings: config.pipeline.clone(),
        limits: config.limits.clone(),
        sweep_cut: config.input.sweep_cut,
        future: future_limit(&config),
        seed: *store.seed(),
        sketcher: Sketcher::new(&rule.sketch, store.seed()),
        decider: Decider::new(rule.cluster, &rule.sketch, store.clusters()?, store.common()?),
        store: &mut store,
        next_seq,
        source,
        sink,
        shutdown: Arc::clone(&shutdown),
        stats: Arc::clone(&stats),
        poison,
        close_requests,
    };
    let showing = progress.start(stats);
    let summary = pipeline.run();
    showing.finish();
    let summary = summary.map_err(|error| told_to_stop(error, &shutdown))?;
    report(&summary, &args)?;
    Ok(exit_of(&config, &summary, shutdown.load(Ordering::Relaxed)))
}

/// Who may change the store through the door, and where the pipeline hears of it.
fn changes(config: &Config) -> Result<(WriteAccess, CloseRequests)> {
    let token = Token::read(&config.http.token).map_err(|error| ending(Exit::Usage, error.to_string()))?;
    let Some(token) = token else { return Ok((WriteAccess::Nobody, CloseRequests::default())) };
    let (closer, close_requests) = CloseRequests::channel();
    Ok((WriteAccess::Trusted(token, Box::new(closer)), close_requests))
}

fn override_with(config: &mut Config, args: &RunArgs) {
    if let Some(events) = &args.events {
        config.events.file.clone_from(events);
    }
    if let Some(sweep) = &args.sweep {
        config.input.sweep.clone_from(sweep);
    }
    if let Some(time) = args.fetched_at {
        config.input.fetched_at = time.to_string();
    }
    if let Some(listen) = &args.http_listen {
        config.http.listen.clone_from(listen);
    }
    if let Some(listen) = &args.metrics_listen {
        config.metrics.listen.clone_from(listen);
    }
}

/// Of a stream that was told to stop while it waited for room on the disk, that it was; else the error as it is.
fn told_to_stop(error: PipelineError, shutdown: &AtomicBool) -> anyhow::Error {
    match error {
        PipelineError::Store(StoreError::DiskFull(_)) if shutdown.load(Ordering::Relaxed) => {
            ending(Exit::Interrupted, error.to_string())
        }
        other => other.into(),
    }
}

/// The first SIGTERM or SIGINT drains and ends; a second one ends at once.
pub(super) fn watch_signals() -> Result<Arc<AtomicBool>> {
    let shutdown = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register_conditional_shutdown(signal, Exit::Interrupted as i32, Arc::clone(&shutdown))?;
        signal_hook::flag::register(signal, Arc::clone(&shutdown))?;
    }
    Ok(shutdown)
}

/// The store, to be written.
pub(super) fn open_store(config: &Config) -> Result<RocksStore> {
    let seed = config.seed().map_err(|error| ending(Exit::Usage, error.to_string()))?;
    let random = new_seed()?;
    RocksStore::open(&config.store.path, &config.store_settings(), &config.rule(), seed, || random).map_err(|error| {
        match error {
            OpenError::OtherRule { .. } | OpenError::OtherSeed(_) => ending(Exit::Usage, error.to_string()),
            other => other.into(),
        }
    })
}

/// What processes that wrote to the store before died of, where that is to be asked.
fn poison_tracker(config: &Config, store: &RocksStore) -> Result<PoisonTracker> {
    if !config.pipeline.skip_poison_records {
        return Ok(PoisonTracker::default());
    }
    let notes =
        notes_of(config).inspect_err(|error| tracing::warn!("what kills the program cannot be noted: {error:#}"));
    Ok(PoisonTracker::begin(
        notes.ok(),
        &store.progress()?,
        config.pipeline.in_flight_records_max,
        crash_handler::machine(),
    ))
}

fn notes_of(config: &Config) -> Result<Box<dyn CrashNotes>> {
    let notes = CrashNoteFiles::open(&config.store.path)?;
    crash_handler::note_deaths(CrashNoteFiles::open_death_note(&config.store.path)?)?;
    Ok(Box::new(notes))
}

/// A secret for a new store.
pub(super) fn new_seed() -> Result<Seed> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|error| anyhow::anyhow!("there is no randomness for a new store: {error}"))?;
    let (words, _) = random.as_chunks::<8>();
    Ok(Seed([0, 1, 2, 3].map(|at| u64::from_le_bytes(words[at]))))
}

fn open_source(
    config: &Config,
    args: &RunArgs,
    store: &mut RocksStore,
    poison: &Arc<PoisonTracker>,
    progress: &mut Progress,
) -> Result<Box<dyn Source>> {
    if config.input.from == InputKind::Kafka {
        if !args.inputs.is_empty() {
            return Err(ending(Exit::Usage, "input.from is \"kafka\", so no files can be given"));
        }
        let beginning = StartOptions {
            stored: &store.progress()?,
            since: store.beginning(&config.kafka.topic)?,
            bootstrap: args.bootstrap,
            accept_gap: args.accept_gap,
            poison_guard: Arc::clone(poison) as Arc<dyn PoisonGuard>,
            warc: parse_warc_page,
            undo: decode_content,
        };
        let source = KafkaSource::open(&config.kafka, &config.limits, &beginning)?;
        // Where an unknown partition begins is decided once: after a restart "latest" would be somewhere else.
        let (next_seq, published) = (store.next_seq(), store.published());
        store.commit(&Batch { progress: source.positions(), next_seq, published, ..Batch::default() })?;
        return Ok(Box::new(source));
    }
    let sweep = Some(config.input.sweep.clone()).filter(|sweep| !sweep.is_empty());
    let source = FileSource::new(
        inputs(&args.inputs, args.stdin_name.as_deref())?,
        store.progress()?,
        config.limits.clone(),
        sweep,
    )
    .with_fetched_at(config.fetched_at()?);
    progress.reads(source.read_progress());
    Ok(Box::new(source))
}

/// How far ahead of this machine's clock pages may be dated.
pub(super) fn future_limit(config: &Config) -> FutureLimit {
    FutureLimit { days_max: config.input.future_days_max, now }
}

fn now() -> FetchTime {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    FetchTime(i64::try_from(since_1970.as_micros()).unwrap_or(i64::MAX))
}

/// What the command line names as input; standard input where it names nothing.
pub(super) fn inputs(paths: &[PathBuf], stdin_name: Option<&str>) -> Result<Vec<Input>> {
    let stdin = || Input::Stdin { name: stdin_name.map(String::from) };
    if paths.is_empty() {
        if std::io::stdin().is_terminal() {
            return Err(ending(Exit::Usage, "no input: name JSONL or WARC files, or pipe pages in"));
        }
        return Ok(vec![stdin()]);
    }
    let input = |path: &PathBuf| {
        if path.as_os_str() == "-" { stdin() } else { Input::File(path.clone()) }
    };
    Ok(paths.iter().map(input).collect())
}

/// Where events go; `begun` is a moment before the store was opened.
pub(super) fn open_sink(
    config: &Config,
    store: &RocksStore,
    begun: SystemTime,
    shutdown: &Arc<AtomicBool>,
) -> Result<Option<Box<dyn Sink>>> {
    match config.events.file.as_str() {
        "" if config.input.from == InputKind::Kafka && !config.kafka.events_topic.is_empty() => {
            let sink = kafka_sink(&config.kafka, store, begun, shutdown)?;
            sink.check_events()?;
            sink.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
            store.note_outputs(&sink.notes())?;
            Ok(Some(Box::new(sink)))
        }
        "" => Ok(None),
        path => events_sink(path).map(Some),
    }
}

/// The topics that a store's events go to, taken over; `begun` is a moment before the store was opened.
pub(super) fn kafka_sink(
    settings: &KafkaSettings,
    store: &RocksStore,
    begun: SystemTime,
    shutdown: &Arc<AtomicBool>,
) -> Result<KafkaSink> {
    let publishing = Publishing {
        store: &store.id(),
        next_seq: store.next_seq(),
        published: store.published(),
        has_pages: store.n_documents() > 0,
        has_merged: store.has_merged()?,
        outputs: store.outputs()?,
        started_at: begun,
    };
    Ok(KafkaSink::open(settings, &publishing, Arc::clone(shutdown))?)
}

/// A file of events, or standard output.
pub(super) fn events_sink(path: &str) -> Result<Box<dyn Sink>> {
    match path {
        "-" => Ok(Box::new(EventStdout::new())),
        path => Ok(Box::new(EventFile::open(path).with_context(|| format!("the events file {path}"))?)),
    }
}

fn report(summary: &Summary, args: &RunArgs) -> Result<()> {
    if args.json {
        println!("{}", serde_json::to_string(summary)?);
    } else if !args.quiet {
        eprint!("{}", render::summary(summary));
    }
    Ok(())
}

fn exit_of(config: &Config, summary: &Summary, interrupted: bool) -> Exit {
    match config.input.from {
        InputKind::Kafka => Exit::Done,
        InputKind::Files if interrupted => Exit::Interrupted,
        InputKind::Files if summary.n_unreadable > 0 => Exit::Unreadable,
        InputKind::Files => Exit::Done,
    }
}
