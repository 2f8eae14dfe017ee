//! What several commands open in the same way: the store, inputs, sinks, signals.

use super::exit::{Exit, file_error, usage};
use super::output_path::check_outside_stores;
use crate::cluster::ClusterPolicy;
use crate::config::{Config, InputKind};
use crate::document::{FetchTime, Seed};
use crate::files::{EventFile, EventStdout, FileSource, Input, input_files, url_of};
use crate::intake::FutureLimit;
use crate::kafka::{KafkaSettings, KafkaSink, Publishing, check_published};
use crate::ports::{Outgoing, ProgressMap, Sink, SinkError, Snapshot, Store};
use crate::standby::difference;
use crate::store::{OpenError, RocksStore};
use anyhow::{Context, Result, anyhow};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{SystemTime, UNIX_EPOCH};

/// The seed where none is configured: fixed, so that runs on any machine print the same sketches.
pub(super) const OPEN_SEED: Seed = Seed([0; 4]);

/// Events of the outbox that are compared with what is published. The store notes often how far publishing is.
const OUTBOX_CHECK_MAX: usize = 100_000;

/// Sets the flag at the first SIGTERM or SIGINT; a second one ends the process at once.
pub(super) fn watch_signals() -> Result<Arc<AtomicBool>> {
    let shutdown = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register_conditional_shutdown(signal, Exit::Interrupted as i32, Arc::clone(&shutdown))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&shutdown)))
            .context("cannot watch for SIGTERM and SIGINT")?;
    }
    Ok(shutdown)
}

/// Opens the store to write, and creates it where there is none.
pub(super) fn open_store(config: &Config) -> Result<RocksStore> {
    let seed = config.seed().map_err(usage)?;
    let random = new_seed()?;
    let store = RocksStore::open(&config.store.path, &config.store_settings(), &config.rule(), seed, || random);
    store.map_err(|error| match error {
        OpenError::OtherRule { .. } | OpenError::OtherSeed(_) => usage(error),
        other => other.into(),
    })
}

/// Opens the store to read, also while another process writes to it. Creates nothing.
pub(super) fn open_read_only(config: &Config) -> Result<RocksStore> {
    Ok(RocksStore::open_read_only(&config.store.path, &config.store_settings())?)
}

/// A random seed for a new store.
pub(super) fn new_seed() -> Result<Seed> {
    let mut random = [0; 32];
    getrandom::fill(&mut random)
        .map_err(|error| anyhow!("cannot read system randomness for a new store's seed: {error}; set store.seed"))?;
    let (words, _) = random.as_chunks::<8>();
    Ok(Seed([0, 1, 2, 3].map(|at| u64::from_le_bytes(words[at]))))
}

/// How far ahead of this machine's clock pages may be dated.
pub(super) fn future_limit(config: &Config) -> FutureLimit {
    FutureLimit { days_max: config.input.future_days_max, now }
}

fn now() -> FetchTime {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    FetchTime(i64::try_from(since_1970.as_micros()).unwrap_or(i64::MAX))
}

/// The inputs that the command line names; standard input where it names none. Checks every path.
pub(super) fn inputs(paths: &[PathBuf], stdin_name: Option<&str>) -> Result<Vec<Input>> {
    let stdin = || Input::Stdin { name: stdin_name.map(String::from) };
    if paths.is_empty() {
        if std::io::stdin().is_terminal() {
            return Err(usage("no input: name files of pages, or pipe pages in"));
        }
        return Ok(vec![stdin()]);
    }
    let files = input_files(paths).map_err(usage)?;
    let input = |path: PathBuf| if path.as_os_str() == "-" { stdin() } else { Input::File(path) };
    Ok(files.into_iter().map(input).collect())
}

/// The pages of inputs, as the configuration says where their records hold them.
pub(super) fn file_source(config: &Config, inputs: Vec<Input>, progress: ProgressMap) -> Result<FileSource> {
    let sweep = Some(config.input.sweep.clone()).filter(|sweep| !sweep.is_empty());
    let source = FileSource::new(inputs, progress, config.limits.clone(), sweep)
        .with_fetched_at(config.fetched_at()?)
        .with_url_from(config.url_from()?)
        .with_fields(config.input.fields.clone());
    Ok(source)
}

/// The lines of a file, or of standard input, without blank ones and without a byte-order mark.
pub(super) fn lines(path: &Path) -> Result<Vec<String>> {
    let text =
        if path == Path::new("-") { std::io::read_to_string(std::io::stdin()) } else { std::fs::read_to_string(path) };
    let text = text.map_err(|error| file_error("read", path, &error))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    Ok(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(String::from).collect())
}

/// Opens the sink of events that the configuration names. `begun` is a moment before the store was opened.
pub(super) fn open_sink(
    config: &Config,
    store: &RocksStore,
    begun: SystemTime,
    shutdown: &Arc<AtomicBool>,
) -> Result<Option<Box<dyn Sink>>> {
    match config.events.file.as_str() {
        "" if config.input.from == InputKind::Kafka && !config.kafka.events_topic.is_empty() => {
            check_outbox(config, store)?;
            let sink = kafka_sink(&config.kafka, store, begun, shutdown)?;
            // Who was fenced just now may have published since.
            check_outbox(config, store)?;
            sink.check_events()?;
            sink.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
            store.note_outputs(&sink.notes())?;
            Ok(Some(Box::new(sink)))
        }
        "" if config.store.keep_events > 0 => Ok(Some(Box::new(StoreOnly))),
        "" => Ok(None),
        path => {
            let mut sink = events_sink(path)?;
            // What was published without a file is gone from the store: no later run can write it there.
            if Path::new(path).is_file() && store.published() > 0 && sink.last_seq()?.is_none() {
                let first = store.published();
                tracing::warn!(
                    "{path} begins at event {first}: earlier runs had no events file, or another one, and the store no longer has \
                     their events; `lookalike export present` shows where every URL stands"
                );
            }
            Ok(Some(sink))
        }
    }
}

/// The output where there is none: events stay in the store alone.
struct StoreOnly;

impl Sink for StoreOnly {
    fn last_seq(&mut self) -> Result<Option<u64>, SinkError> {
        Ok(None)
    }

    fn publish(&mut self, _: &[Outgoing]) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Fails where the topic of events holds other events than those that the store would pass over as published: it was taken
/// over from a copy of this store, which went on otherwise.
fn check_outbox(config: &Config, store: &RocksStore) -> Result<()> {
    let events = store.outbox(store.published(), OUTBOX_CHECK_MAX)?;
    Ok(check_published(&config.kafka, &store.id(), &events, difference)?)
}

/// Takes over the topics of a store's events. `begun` is a moment before the store was opened.
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

/// Opens a file of events, or standard output for `-`.
pub(super) fn events_sink(path: &str) -> Result<Box<dyn Sink>> {
    match path {
        "-" => Ok(Box::new(EventStdout::new())),
        path => {
            check_outside_stores("the events file", Path::new(path))?;
            Ok(Box::new(EventFile::open(path)?))
        }
    }
}

/// Fails where clusters depend on the order of the pages, which a batch does not have. The advice says what to do instead.
pub(super) fn refuse_star(config: &Config, advice: &str) -> Result<()> {
    if config.cluster.policy != ClusterPolicy::Star {
        return Ok(());
    }
    let why = "cluster.policy is \"star\", whose clusters depend on the order of the pages";
    Err(usage(format!("{why}: `lookalike run` makes {advice}")))
}

/// Fails where something that grows piece by piece, such as a folder, is to be in an object store.
pub(super) fn check_local(flag: &str, path: &Path) -> Result<()> {
    let why = "it is written piece by piece, so it must be on this machine; copy it with the store's own tool";
    url_of(path).map_or(Ok(()), |url| Err(usage(format!("{flag} {url}: {why}"))))
}

/// The path beside another one whose name has this end added. Of a URL, it lies in the current folder.
pub(super) fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or(path.as_os_str()).to_os_string();
    name.push(end);
    if url_of(path).is_some() { name.into() } else { path.with_file_name(name) }
}

/// Fails where a share on the command line is out of range.
pub(super) fn check_share(flag: &str, share: f64, is_zero_allowed: bool) -> Result<()> {
    let is_in_range = share <= 1.0 && (share > 0.0 || (is_zero_allowed && share == 0.0));
    let range = if is_zero_allowed { "from 0 to 1" } else { "over 0 and at most 1" };
    if is_in_range { Ok(()) } else { Err(usage(format!("{flag} {share}: it must be {range}"))) }
}
