//! `lookalike run`: connects source, store and sink, and lets the stream flow.

use super::args::{Role, RunArgs};
use super::crash_handler;
use super::exit::{Exit, ending, usage};
use super::forget::forget_old;
use super::heart::Heart;
use super::output::{self, OutputMode, rejections_text};
use super::output_path::check_not_read;
use super::page_file::sketch_file;
use super::roles;
use super::serve::Server;
use super::telemetry::{self, Metrics, Progress};
use super::wiring::{file_source, future_limit, inputs, open_sink, open_store, watch_signals};
use crate::bag_refresh;
use crate::cluster::Decider;
use crate::config::{Config, InputKind};
use crate::document::FetchTime;
use crate::files::{FollowedFolders, Input, InputError, decode_content, input_files, parse_warc_page};
use crate::http::{Token, WriteAccess};
use crate::intake::FutureLimit;
use crate::kafka::{KafkaSketchSource, KafkaSource, OwnerOptions, StartOptions, last_event};
use crate::pipeline::{self, CloseRequests, Pipeline, PipelineError, PoisonTracker, Stats, Summary};
use crate::ports::{
    Batch, CrashNotes, PoisonGuard, ProgressMap, Sink, Snapshot, Source, SourceError, StopReason, Store, StoreError,
};
use crate::query;
use crate::related::SaidReader;
use crate::store::{CrashNoteFiles, RocksStore};
use crate::watch::Watches;
use anyhow::Result;
use indicatif::{HumanBytes, HumanCount};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};

/// How often a thread that waits looks for a signal.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);

/// Takes pages in until the inputs end or a signal comes.
pub(super) fn run(mut config: Config, args: RunArgs, mode: OutputMode) -> Result<Exit> {
    let begun = SystemTime::now();
    override_with(&mut config, &args)?;
    let metrics = config.metrics_address().map_err(usage)?;
    check_role(&config, &args)?;
    if args.role == Some(Role::Sketcher) {
        return roles::sketch(&config, metrics, args.accept_gap, mode);
    }
    check_not_read("the events file", Path::new(&config.events.file), &args.inputs)?;
    // Before the store is opened: a mistyped path must not create one.
    let inputs = if args.follow { followed(&config, &args)? } else { file_inputs(&config, &args)? };
    telemetry::start_logs(&config.log)?;
    let is_counting = metrics.is_some() || args.http_listen.is_some();
    let metrics = is_counting.then(|| Metrics::start(metrics)).transpose()?;
    let shutdown = watch_signals()?;

    let mut store = open_store(&config)?;
    store.stops_with(Arc::clone(&shutdown));
    let (write_access, close_requests) = write_access(&config)?;
    let server_metrics = metrics.as_ref().filter(|_| args.http_listen.is_some());
    let open = |metrics| Server::open(&config, metrics, write_access, Some(store.writer_events()));
    let server = server_metrics.map(open).transpose()?;
    server.iter().for_each(|server| server.announce(&config));
    let stats = Arc::new(Stats::default());
    let opening = Opening { config: &config, args: &args, store: &store, begun, shutdown: &shutdown, mode };
    let flow = || opening.flow(&inputs, close_requests.clone(), &stats);
    // Opened before the heart beats: it may be refused.
    let first = flow()?;
    let heart = Heart::start(&config, &shutdown)?;
    let _watches = start_watches(&config, &store)?;
    let is_endless = args.follow || config.input.from == InputKind::Kafka;
    let summary = stream_and_forget((&config, &store, mode), first, flow, is_endless, &shutdown)?;
    // Releases the clients that wait for the writer.
    drop(close_requests);
    heart.end()?;
    let has_read = !store.progress()?.is_empty();
    let is_interrupted = shutdown.load(Ordering::Relaxed);
    mode.summary(&summary, |summary| match summary.n_records == 0 && summary.n_unreadable == 0 {
        true if !is_interrupted => nothing_new(has_read, &config.store.path),
        _ => summary_text(summary, &config.store.path),
    })?;
    if args.follow {
        return Ok(Exit::Done);
    }
    exit_of(&config, &summary, is_interrupted, mode)
}

/// What a stream is opened with, at the start and each time that it was interrupted to forget.
struct Opening<'a> {
    config: &'a Config,
    args: &'a RunArgs,
    store: &'a RocksStore,
    /// A moment before the store was opened.
    begun: SystemTime,
    shutdown: &'a Arc<AtomicBool>,
    mode: OutputMode,
}

impl Opening<'_> {
    /// Opens the source and the sink where the store stands.
    fn flow(&self, inputs: &[Input], close_requests: CloseRequests, stats: &Arc<Stats>) -> Result<Flow> {
        let Opening { config, args, store, begun, shutdown, mode } = *self;
        let mut progress = Progress::new(config.log.progress_seconds, mode.hides_progress());
        let poison = Arc::new(poison_tracker(config, store)?);
        let source = match config.input.from {
            InputKind::Kafka => {
                let start = Start { role: args.role, bootstrap: args.bootstrap, accept_gap: args.accept_gap };
                let opened = open_kafka_source(config, &start, store, &poison);
                opened.map_err(|error| of_old_copy(error, config, store, begun, shutdown))?
            }
            InputKind::Files => {
                let source = file_source(config, inputs.to_vec(), store.progress()?)?;
                progress.reads(source.read_progress());
                if args.follow {
                    let between_looks = Duration::from_millis(config.input.follow_ms);
                    let notes = Box::new(store.input_notes());
                    Box::new(FollowedFolders::new(source, args.inputs.clone(), between_looks, notes)) as Box<dyn Source>
                } else {
                    Box::new(source)
                }
            }
        };
        let sink = open_sink(config, store, begun, shutdown)?;
        let (stop, stats, future) = (Arc::clone(shutdown), Arc::clone(stats), future_limit(config));
        Ok(Flow { source, sink, poison, close_requests, progress, future, stats, stop })
    }
}

/// Starts the watches, which look for texts by the store's rule.
pub(super) fn start_watches(config: &Config, store: &RocksStore) -> Result<Watches> {
    let mut sketcher = store.rule().sketcher(store.seed());
    let sketch = &store.rule().sketch;
    let mut read_text = |path: &Path| {
        let content = sketch_file(path, &mut sketcher, &config.limits).map_err(|error| error.to_string())?;
        if content.sketch.n_shingles == 0 {
            return Err(query::nothing_to_compare(&path.display().to_string(), content.n_words, sketch.w));
        }
        Ok(content.sketch)
    };
    Watches::start(&config.watch, store.writer_events(), sketch.rule, &mut read_text).map_err(usage)
}

/// Refuses what a role cannot do.
fn check_role(config: &Config, args: &RunArgs) -> Result<()> {
    let is_about_a_store = args.events.is_some() || args.http_listen.is_some() || args.bootstrap;
    let problem = match args.role {
        Some(_) if config.input.from != InputKind::Kafka => "--role needs Kafka: set input.from to \"kafka\"",
        Some(Role::Sketcher) if is_about_a_store => {
            "a sketcher has no store: --events, --http-listen and --bootstrap are for `run` without --role, or the owner"
        }
        Some(Role::Owner) if args.accept_gap => {
            "--accept-gap is for what reads pages: give it to the sketchers, or to `run` without --role; the owner takes \
             the gaps that sketchers accept"
        }
        _ => return Ok(()),
    };
    Err(usage(problem))
}

/// What flows into a store, and out of it.
pub(super) struct Flow {
    pub source: Box<dyn Source>,
    pub sink: Option<Box<dyn Sink>>,
    pub poison: Arc<PoisonTracker>,
    pub close_requests: CloseRequests,
    pub progress: Progress,
    /// How far ahead of the clock pages may be dated.
    pub future: FutureLimit,
    /// The counts of the run.
    pub stats: Arc<Stats>,
    /// When set, the stream ends cleanly.
    pub stop: Arc<AtomicBool>,
}

/// Takes records into a store until they end or a signal comes: those of the stream `next`, and of what `reopen` opens after
/// it. Forgets before what is older than `[retention]` keeps it and, where the source has no end, between two streams what has
/// grown so old.
pub(super) fn stream_and_forget(
    (config, store, mode): (&Config, &RocksStore, OutputMode),
    mut next: Flow,
    reopen: impl Fn() -> Result<Flow>,
    is_endless: bool,
    shutdown: &Arc<AtomicBool>,
) -> Result<Summary> {
    let forget = || -> Result<bool> {
        let forgotten = forget_old(config, store, shutdown)?;
        forgotten.iter().for_each(|text| mode.note(text.trim_end()));
        Ok(forgotten.is_some())
    };
    if config.retention.days > 0
        && let Some(sink) = &mut next.sink
    {
        // Forgetting makes events. In a store that is not the output's own any more it would spoil the way back.
        pipeline::recover(store, sink.as_mut(), store.published(), store.next_seq())?;
    }
    if forget()? {
        // Two of one name would take the output from each other.
        drop(next);
        next = reopen()?;
    }
    loop {
        let (summary, is_due) = stream_while_young(config, store, next, is_endless, shutdown)?;
        if !is_due {
            return Ok(summary);
        }
        forget()?;
        next = reopen()?;
    }
}

/// Takes records into a store until they end, a signal comes, or something in the store is older than `[retention]` keeps it,
/// where the source has no end. Returns whether that is why.
fn stream_while_young(
    config: &Config,
    store: &RocksStore,
    flow: Flow,
    is_endless: bool,
    shutdown: &Arc<AtomicBool>,
) -> Result<(Summary, bool)> {
    let interval = Duration::from_millis(config.retention.every_ms);
    if !is_endless || interval.is_zero() || config.retention.days == 0 {
        return Ok((stream(config, store, flow, shutdown)?, false));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let (stream_lives, ended) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let watcher = std::thread::Builder::new().name("retention".into());
        let flags = (&*stop, &**shutdown);
        let watcher = watcher.spawn_scoped(scope, move || wait_until_old(config, store, interval, flags, &ended))?;
        let summary = stream(config, store, Flow { stop: Arc::clone(&stop), ..flow }, shutdown);
        drop(stream_lives);
        let is_due = watcher.join().unwrap_or(false) && !shutdown.load(Ordering::Relaxed);
        Ok((summary?, is_due))
    })
}

/// Looks every now and then for something that is too old, and sets `stop` once there is something, or with `shutdown`.
/// Returns whether something is there; false also once the stream has ended.
fn wait_until_old(
    config: &Config,
    store: &RocksStore,
    interval: Duration,
    (stop, shutdown): (&AtomicBool, &AtomicBool),
    ended: &Receiver<()>,
) -> bool {
    let mut looked_at = Instant::now();
    while ended.recv_timeout(SIGNAL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        if shutdown.load(Ordering::Relaxed) {
            stop.store(true, Ordering::Relaxed);
            return false;
        }
        if looked_at.elapsed() < interval {
            continue;
        }
        let before = config.retention.before(SystemTime::now());
        match before.map_or(Ok(false), |before| store.has_sighting_before(before)) {
            Ok(true) => {
                stop.store(true, Ordering::Relaxed);
                return true;
            }
            Ok(false) => {}
            Err(error) => tracing::error!("cannot look for what is older than retention.days: {error}"),
        }
        looked_at = Instant::now();
    }
    false
}

/// Takes records into a store until they end or the flow is stopped, which `shutdown` says where a signal did it.
pub(super) fn stream(config: &Config, store: &RocksStore, flow: Flow, shutdown: &AtomicBool) -> Result<Summary> {
    let Flow { source, mut sink, poison, close_requests, progress, future, stats, stop } = flow;
    let next_seq = store.next_seq();
    if let Some(sink) = &mut sink {
        pipeline::recover(store, sink.as_mut(), store.published(), next_seq)?;
    }
    let rule = config.rule();
    let pipeline = Pipeline {
        settings: config.pipeline.clone(),
        limits: config.limits.clone(),
        sweep_cut: config.input.sweep_cut,
        future,
        seed: *store.seed(),
        sketcher: rule.sketcher(store.seed()),
        said: config.related.on.then(|| SaidReader::new(&config.related, store.seed())),
        texts: config.text_rule(),
        decider: Decider::new(rule.cluster, &rule.sketch, store.clusters()?, store.common()?),
        store,
        next_seq,
        source,
        sink,
        shutdown: stop,
        stats: Arc::clone(&stats),
        poison,
        close_requests,
    };
    let shown = progress.start(stats);
    let refresh_ms = if config.related.on { config.related.refresh_ms } else { 0 };
    let summary = refreshing(store, Duration::from_millis(refresh_ms), || pipeline.run());
    shown.finish();
    summary?.map_err(|error| stopped_or_failed(error, shutdown))
}

/// Runs the stream, and beside it keeps bags of related pages up to date. Where that fails, the stream goes on: it ends by
/// itself where the store is what failed.
fn refreshing<T>(store: &RocksStore, interval: Duration, stream: impl FnOnce() -> T) -> Result<T> {
    if interval.is_zero() {
        return Ok(stream());
    }
    let (stopped, stop) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let refresher = std::thread::Builder::new().name("refresher".into());
        refresher.spawn_scoped(scope, move || {
            if let Err(error) = bag_refresh::refresh_bags(store, interval, &stop) {
                tracing::error!("bags of related pages are no longer brought up to date: {error}");
            }
        })?;
        let result = stream();
        drop(stopped);
        Ok(result)
    })
}

/// Who may change the store over HTTP, and where the pipeline receives the requests.
fn write_access(config: &Config) -> Result<(WriteAccess, CloseRequests)> {
    let token = Token::read("http.token", &config.http.token).map_err(usage)?;
    let Some(token) = token else { return Ok((WriteAccess::Disabled, CloseRequests::default())) };
    let (closer, close_requests) = CloseRequests::channel();
    Ok((WriteAccess::Trusted(token, Box::new(closer)), close_requests))
}

fn override_with(config: &mut Config, args: &RunArgs) -> Result<()> {
    if let Some(events) = &args.events {
        config.events.file.clone_from(events);
    }
    args.page_defaults.override_in(config)?;
    if let Some(listen) = &args.http_listen {
        config.http.listen.clone_from(listen);
    }
    if let Some(listen) = &args.metrics_listen {
        config.metrics.listen.clone_from(listen);
    }
    Ok(())
}

/// A signal that comes while the stream waits for room on the disk ends it as any signal does.
fn stopped_or_failed(error: PipelineError, shutdown: &AtomicBool) -> anyhow::Error {
    match error {
        PipelineError::Store(StoreError::DiskFull(_)) if shutdown.load(Ordering::Relaxed) => {
            ending(Exit::Interrupted, error.to_string())
        }
        other => other.into(),
    }
}

/// Tracks which records former processes died of; nothing where the configuration turns that off.
pub(super) fn poison_tracker(config: &Config, store: &RocksStore) -> Result<PoisonTracker> {
    if !config.pipeline.skip_poison_records {
        return Ok(PoisonTracker::default());
    }
    let notes = crash_notes(config).inspect_err(|error| {
        tracing::warn!("cannot keep crash notes, so no record will be skipped as poison: {error:#}")
    });
    Ok(PoisonTracker::begin(
        notes.ok(),
        &store.progress()?,
        config.pipeline.in_flight_records_max,
        crash_handler::machine(),
    ))
}

fn crash_notes(config: &Config) -> Result<Box<dyn CrashNotes>> {
    let notes = CrashNoteFiles::open(&config.store.path)?;
    crash_handler::note_crashes(CrashNoteFiles::open_death_note(&config.store.path)?)?;
    Ok(Box::new(notes))
}

/// The files to read; none with Kafka.
fn file_inputs(config: &Config, args: &RunArgs) -> Result<Vec<Input>> {
    match config.input.from {
        InputKind::Files => inputs(&args.inputs, args.stdin_name.as_deref()),
        InputKind::Kafka if args.inputs.is_empty() => Ok(Vec::new()),
        InputKind::Kafka => Err(usage("input.from is \"kafka\": name no files, or set it to \"files\"")),
    }
}

/// Checks what `--follow` is to follow. Returns no inputs: the source finds them.
fn followed(config: &Config, args: &RunArgs) -> Result<Vec<Input>> {
    if config.input.from != InputKind::Files {
        return Err(usage("--follow needs folders: set input.from to \"files\""));
    }
    if config.input.follow_ms == 0 {
        return Err(usage("input.follow_ms is 0, must be at least 1"));
    }
    for path in &args.inputs {
        match input_files(std::slice::from_ref(path)) {
            _ if path.as_os_str() == "-" => {
                return Err(usage("--follow: standard input is read to its end anyway; name folders"));
            }
            // They may fill.
            Ok(_) | Err(InputError::EmptyFolder(_) | InputError::NoMatch(_)) => {}
            Err(error) => return Err(usage(error)),
        }
    }
    Ok(Vec::new())
}

/// How `run` is to begin with a topic.
#[derive(Clone, Copy, Default)]
pub(super) struct Start {
    /// The part of the work.
    pub role: Option<Role>,
    /// Whether a new store may begin although the group has read the topic.
    pub bootstrap: bool,
    /// Whether records that are gone are skipped.
    pub accept_gap: bool,
}

/// Opens the topic of pages, or of sketches for the owner, from the store's place in it.
pub(super) fn open_kafka_source(
    config: &Config,
    start: &Start,
    store: &RocksStore,
    poison: &Arc<PoisonTracker>,
) -> Result<Box<dyn Source>> {
    let (stored, since) = (store.progress()?, store.beginning(&config.kafka.topic)?);
    let (source, progress) = kafka_source(config, start, store, (&stored, since), poison)?;
    // Where an unknown partition begins is decided once: after a restart "latest" would be somewhere else.
    let (next_seq, published) = (store.next_seq(), store.published());
    store.commit(&Batch { progress, next_seq, published, ..Batch::default() })?;
    Ok(source)
}

/// The error of a source that takes the store for new; or that of the output, where that holds the store's own events: the
/// store is a copy from before its first record then, and to start over would be wrong advice.
fn of_old_copy(
    error: anyhow::Error,
    config: &Config,
    store: &RocksStore,
    begun: SystemTime,
    shutdown: &Arc<AtomicBool>,
) -> anyhow::Error {
    let is_taken_for_new =
        error.downcast_ref::<SourceError>().is_some_and(|error| error.stop_reason == StopReason::NoStore);
    if !is_taken_for_new || !config.events.file.is_empty() || config.kafka.events_topic.is_empty() {
        return error;
    }
    match last_event(&config.kafka) {
        Ok(Some(last)) if last.store == store.id() => open_sink(config, store, begun, shutdown).err().unwrap_or(error),
        _ => error,
    }
}

/// The topic of pages, or of sketches for the owner, from a place on; and where it begins.
pub(super) fn kafka_source(
    config: &Config,
    start: &Start,
    store: &RocksStore,
    (stored, since): (&ProgressMap, Option<FetchTime>),
    poison: &Arc<PoisonTracker>,
) -> Result<(Box<dyn Source>, ProgressMap)> {
    let options = StartOptions {
        stored,
        since,
        bootstrap: start.bootstrap,
        accept_gap: start.accept_gap,
        poison_guard: Arc::clone(poison) as Arc<dyn PoisonGuard>,
        fields: &config.input.fields,
        warc: parse_warc_page,
        undo: decode_content,
    };
    if start.role == Some(Role::Owner) {
        let options = OwnerOptions { rule: roles::sketch_rule_id(config, store.seed())?, start: options };
        let source = KafkaSketchSource::open(&config.kafka, &config.limits, &options)?;
        let progress = source.positions();
        return Ok((Box::new(source), progress));
    }
    let source = KafkaSource::open(&config.kafka, &config.limits, &options)?;
    let progress = source.positions();
    Ok((Box::new(source), progress))
}

fn exit_of(config: &Config, summary: &Summary, is_interrupted: bool, mode: OutputMode) -> Result<Exit> {
    let n_accepted = summary.n_assigned() + summary.n_gone;
    match config.input.from {
        InputKind::Kafka => Ok(Exit::Done),
        InputKind::Files if is_interrupted => Ok(Exit::Interrupted),
        InputKind::Files if n_accepted == 0 && summary.n_rejected() > 0 => {
            let reasons = if mode.is_silent() { rejections(summary) } else { String::new() };
            let reasons = if reasons.is_empty() { "; the reasons are above".into() } else { format!(":\n{reasons}") };
            Err(ending(Exit::Unreadable, format!("no record was accepted{}", reasons.trim_end())))
        }
        InputKind::Files if summary.n_unreadable > 0 => Ok(Exit::Unreadable),
        InputKind::Files => Ok(Exit::Done),
    }
}

/// What a run says that came to the end of its inputs and took nothing from them, into a store that has read a record or not.
fn nothing_new(has_read: bool, store: &Path) -> String {
    let store = store.display();
    if has_read {
        format!("nothing new: {store} already holds every record of these inputs\n")
    } else {
        format!("no page was read: these inputs hold no record, and {store} is empty\n")
    }
}

/// What a run did.
fn summary_text(summary: &Summary, store: &Path) -> String {
    let mut text = String::new();
    let seconds = summary.seconds.max(0.001);
    let _ = writeln!(
        text,
        "{} records in {seconds:.1} s ({:.0} a second, {} of pages), into {}",
        HumanCount(summary.n_records),
        summary.n_records as f64 / seconds,
        HumanBytes(summary.n_bytes_read),
        store.display(),
    );
    let n = |relations: &[&str]| {
        HumanCount(relations.iter().filter_map(|relation| summary.assigned.get(relation)).sum::<u64>())
    };
    let _ = writeln!(
        text,
        "  accepted {}: {} new, {} near a known document, {} equal to one ({} identical, {} lexical, {} shingle)",
        HumanCount(summary.n_assigned()),
        n(&["new"]),
        n(&["near"]),
        n(&["identical", "lexical", "shingle"]),
        n(&["identical"]),
        n(&["lexical"]),
        n(&["shingle"]),
    );
    let _ = writeln!(
        text,
        "  gone or redirected {}, clusters merged {}",
        HumanCount(summary.n_gone),
        HumanCount(summary.n_merged)
    );
    if summary.n_rejected() > 0 {
        let _ = writeln!(text, "  rejected {}", HumanCount(summary.n_rejected()));
        text += &rejections(summary);
    }
    text + &unreadable_text(summary)
}

/// How many parts of the input could not be read. The log names each; where it is off, this does.
fn unreadable_text(summary: &Summary) -> String {
    let n = summary.n_unreadable;
    if n > 0 && tracing::enabled!(tracing::Level::ERROR) {
        return format!("  unreadable {}: see the errors above\n", HumanCount(n));
    }
    let mut text = output::unreadable_text(&summary.unreadable);
    let n_more = n.saturating_sub(summary.unreadable.len() as u64);
    if n_more > 0 {
        let _ = writeln!(text, "  and {} more", HumanCount(n_more));
    }
    text
}

fn rejections(summary: &Summary) -> String {
    rejections_text(summary.rejected.iter().map(|(reason, n)| {
        let first = summary.first_rejections.get(reason);
        (*reason, *n, first.map(|first| (first.offset, first.source.as_str(), first.message.as_str())))
    }))
}
