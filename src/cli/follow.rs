//! `lookalike follow`: a store that keeps in step with the one that `run` writes to, and takes over.

use super::args::{FollowArgs, Role};
use super::exit::{Exit, ending, usage};
use super::heart::{self, Heart};
use super::output::OutputMode;
use super::run::{
    Flow, Start, kafka_source, open_kafka_source, poison_tracker, start_watches, stream, stream_and_forget,
};
use super::telemetry::{self, Metrics, Progress};
use super::wiring::{future_limit, open_sink, open_store, watch_signals};
use crate::config::{Config, InputKind};
use crate::intake::FutureLimit;
use crate::kafka::{self, KafkaEventReader, KafkaHeartbeat, LastEvent, event_messages, fence, last_event};
use crate::pipeline::{CloseRequests, PoisonTracker};
use crate::ports::{SinkError, SourceError, StopReason};
use crate::standby::{ComparingSink, PublishedEvents, Silence, StandbySource, compare_outbox};
use crate::store::RocksStore;
use anyhow::{Context, Result};
use indicatif::HumanCount;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// How often to look for the first event of an owner.
const FIRST_EVENT_PAUSE: Duration = Duration::from_millis(500);

/// How often to look whether to take over, at most.
const WATCH_MAX: Duration = Duration::from_millis(200);

/// Events that a standby may be behind when it takes the output away. Before, the owner, if it lives, publishes sooner than
/// its successor could.
const BEHIND_MAX: u64 = 1_000;

/// Bytes of records of all partitions that may wait for their turn.
const WAITING_BYTES_MAX: usize = 256 << 20;

/// What following did.
#[derive(Serialize)]
struct FollowSummary {
    /// Events that were compared and found equal.
    n_events: u64,
    /// The number of the next event.
    next_seq: u64,
}

/// Follows, and takes over where it is to.
pub(super) fn follow(mut config: Config, args: &FollowArgs, mode: OutputMode) -> Result<Exit> {
    if let Some(listen) = &args.metrics_listen {
        config.metrics.listen.clone_from(listen);
    }
    let metrics = config.metrics_address().map_err(usage)?;
    check(&config, args)?;
    telemetry::start_logs(&config.log)?;
    let _metrics = metrics.map(|address| Metrics::start(Some(address))).transpose()?;
    let shutdown = watch_signals()?;
    let request = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGUSR1, Arc::clone(&request))
        .context("cannot watch for SIGUSR1")?;

    let Some(last) = first_look(&config, args, &shutdown)? else { return Ok(Exit::Done) };
    let mut store = open_standby(&config, &last)?;
    store.stops_with(Arc::clone(&shutdown));
    let store = store;
    let begun_at = store.published();
    let following = Following { config: &config, args, store: &store, shutdown: &shutdown, mode };
    let (takes_over, next_seq) = following.follow(args.once.then_some(last.seq + 1), &request)?;
    if takes_over {
        tracing::warn!("took over at event {}", store.next_seq());
        own(&following)?;
        return Ok(Exit::Done);
    }
    let summary = FollowSummary { n_events: next_seq.saturating_sub(begun_at), next_seq };
    mode.summary(&summary, |summary| {
        let FollowSummary { n_events, next_seq } = summary;
        format!(
            "{} events are the same; the next is {next_seq}, in {}\n",
            HumanCount(*n_events),
            config.store.path.display()
        )
    })?;
    Ok(if args.once && shutdown.load(Ordering::Relaxed) { Exit::Interrupted } else { Exit::Done })
}

/// Refuses what cannot be followed.
fn check(config: &Config, args: &FollowArgs) -> Result<()> {
    let problem = match () {
        () if config.input.from != InputKind::Kafka => "`follow` needs Kafka: set input.from to \"kafka\"",
        () if !config.events.file.is_empty() => "`follow` needs a topic of events: leave events.file empty",
        () if config.kafka.events_topic.is_empty() => "`follow` needs a topic of events: set kafka.events_topic",
        () if args.role == Some(Role::Sketcher) => "a sketcher has nothing to follow: give --role owner, or no role",
        () => return Ok(()),
    };
    Err(usage(problem))
}

/// Returns the last published event. Waits for the first one, unless `--once` is given.
fn first_look(config: &Config, args: &FollowArgs, shutdown: &AtomicBool) -> Result<Option<LastEvent>> {
    loop {
        let last = last_event(&config.kafka)?;
        if last.is_some() || args.once || shutdown.load(Ordering::Relaxed) {
            return Ok(last);
        }
        std::thread::sleep(FIRST_EVENT_PAUSE);
    }
}

/// Opens the store, or makes one that is to become the owner's.
fn open_standby(config: &Config, last: &LastEvent) -> Result<RocksStore> {
    if !config.store.path.join("CURRENT").exists() {
        if config.seed().map_err(usage)?.is_none() {
            return Err(usage(
                "store.seed is empty: a new store that follows another one needs its seed. Set store.seed to it, or \
                 restore a backup of the owner's store",
            ));
        }
        if config.kafka.start == kafka::Start::Latest {
            return Err(usage(
                "kafka.start is \"latest\", and events do not tell where the owner began in partitions without a record: \
                 restore a backup of the owner's store",
            ));
        }
    }
    let mut store = open_store(config)?;
    store.adopt_id(&last.store)?;
    if store.id() != last.store {
        let why = format!(
            "topic {:?} holds events of another store ({}; this one is {}): follow with a backup of that store, or with a \
             new store",
            config.kafka.events_topic,
            last.store,
            store.id()
        );
        return Err(ending(Exit::OldStore, why));
    }
    Ok(store)
}

struct Following<'a> {
    config: &'a Config,
    args: &'a FollowArgs,
    store: &'a RocksStore,
    shutdown: &'a Arc<AtomicBool>,
    mode: OutputMode,
}

impl Following<'_> {
    /// Follows to the end, if one is given; otherwise until a signal comes, or until it is to take over, which gives true.
    /// Also returns the number of the first event that is not compared.
    fn follow(&self, end: Option<u64>, request: &AtomicBool) -> Result<(bool, u64)> {
        let from = self.store.published();
        let published = Arc::new(PublishedEvents::from(from));
        end.into_iter().for_each(|end| published.set_end(end));
        let mut reader = KafkaEventReader::open(&self.config.kafka, from)?;
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reading = std::thread::Builder::new().name("events".into());
            reading.spawn_scoped(scope, || published.read(&mut reader, &stop))?;
            let watching = std::thread::Builder::new().name("watch".into());
            let watching = watching.spawn_scoped(scope, || end.is_none() && self.watch(&published, request, &stop))?;
            let followed = self.follow_published(&published);
            stop.store(true, Ordering::Relaxed);
            let takes_over = watching.join().unwrap_or(false);
            followed.map(|()| (takes_over && !self.shutdown.load(Ordering::Relaxed), published.next()))
        })
    }

    /// Compares what the store has, then takes pages and compares what they give.
    fn follow_published(&self, published: &Arc<PublishedEvents>) -> Result<()> {
        let Following { config, args, store, shutdown, mode } = *self;
        let next_seq = store.next_seq();
        let sink = ComparingSink::new(Arc::clone(published), Box::new(event_messages(&config.kafka, &store.id())));
        if !compare_outbox(store, &sink, next_seq, shutdown)? {
            return Ok(());
        }
        let stored = store.progress()?;
        let earliest = Config {
            kafka: kafka::KafkaSettings { start: kafka::Start::Earliest, ..config.kafka.clone() },
            ..config.clone()
        };
        let start = Start { role: args.role, bootstrap: true, accept_gap: true };
        // A record that killed the owner is told as poison; the others it survived.
        let poison = Arc::new(PoisonTracker::default());
        let (pages, positions) = kafka_source(&earliest, &start, store, (&stored, None), &poison)?;
        let (closer, close_requests) = CloseRequests::channel();
        let topic = (config.kafka.topic.as_str(), &stored);
        let bytes_max = WAITING_BYTES_MAX / positions.len().max(1);
        let source = StandbySource::new(pages, topic, Arc::clone(published), next_seq, Box::new(closer), bytes_max);
        let flow = Flow {
            source: Box::new(source),
            sink: Some(Box::new(sink)),
            poison,
            close_requests,
            progress: Progress::new(config.log.progress_seconds, mode.hides_progress()),
            // The owner's clock decided, and its events tell what.
            future: FutureLimit::NONE,
            stats: Arc::default(),
            stop: Arc::clone(shutdown),
        };
        stream(config, store, flow, shutdown)?;
        Ok(())
    }

    /// Watches the owner. True once it is time to take over, and the output is taken away from it.
    fn watch(&self, published: &PublishedEvents, request: &AtomicBool, stop: &AtomicBool) -> bool {
        let after_ms = self.config.kafka.takeover_after_ms;
        let heartbeat = match (after_ms > 0).then(|| KafkaHeartbeat::open(&self.config.kafka)).transpose() {
            Ok(heartbeat) => heartbeat,
            Err(error) => {
                published.fail(source_error(error));
                return false;
            }
        };
        let mut silence = Silence::new(Duration::from_millis(after_ms));
        let pause = heart::interval(after_ms).min(WATCH_MAX).max(WATCH_MAX / 2);
        while !stop.load(Ordering::Relaxed) && !self.shutdown.load(Ordering::Relaxed) {
            std::thread::sleep(pause);
            let is_silent = heartbeat.as_ref().is_some_and(|heartbeat| {
                let beat = heartbeat.read().map(|beat| beat.map(|beat| format!("{} {}", beat.generation, beat.text)));
                silence.observe(Instant::now(), beat.map_err(|_| ()))
            });
            if !(is_silent || request.load(Ordering::Relaxed)) || published.lag() > BEHIND_MAX {
                continue;
            }
            let why = if is_silent { "the owner is silent" } else { "somebody asked for it" };
            tracing::warn!("{why}: taking over");
            let taken = fence(&self.config.kafka, &self.store.id(), self.shutdown)
                .and_then(|()| last_event(&self.config.kafka));
            match taken {
                Ok(last) => {
                    published.set_end(last.map_or(0, |last| last.seq + 1));
                    return true;
                }
                Err(error) if error.stop_reason == StopReason::Unreachable => {
                    tracing::warn!("cannot take over yet: {error}");
                }
                Err(error) => {
                    published.fail(source_error(error));
                    return false;
                }
            }
        }
        false
    }
}

fn source_error(error: SinkError) -> SourceError {
    SourceError { stop_reason: error.stop_reason, message: error.message }
}

/// Goes on as `run` does.
fn own(following: &Following<'_>) -> Result<()> {
    let Following { config, args, store, shutdown, mode } = *following;
    let heart = Heart::start(config, shutdown)?;
    let begun = SystemTime::now();
    let stats = Arc::default();
    let flow = || {
        let poison = Arc::new(poison_tracker(config, store)?);
        let source = open_kafka_source(config, &Start { role: args.role, ..Start::default() }, store, &poison)?;
        let sink = open_sink(config, store, begun, shutdown)?;
        let progress = Progress::new(config.log.progress_seconds, mode.hides_progress());
        let close_requests = CloseRequests::default();
        let (future, stats, stop) = (future_limit(config), Arc::clone(&stats), Arc::clone(shutdown));
        Ok(Flow { source, sink, poison, close_requests, progress, future, stats, stop })
    };
    let first = flow()?;
    // Hooks have one sender: the owner, which this is now.
    let _watches = start_watches(config, store)?;
    stream_and_forget((config, store, mode), first, flow, true, shutdown)?;
    heart.end()
}
