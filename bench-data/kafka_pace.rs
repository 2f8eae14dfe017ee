//! Sends pages to Kafka, each once, and reads the committed events that they become.
//!
//! ```sh
//! cargo run --release --example kafka_pace -- --help
//! ```
//! It shares the machine with what is measured, and takes as little of it as a client can. `most` sends as fast as events come back
//! and tells the rate. `steady` sends at a given rate and tells the time from a page to its event, which begins before the page is
//! given to the producer and ends when a consumer that reads committed transactions has the event.

use clap::{Parser, Subcommand};
use rdkafka::client::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, DeliveryResult, Message};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde::Deserialize;
use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// How long events may take to come once all pages are sent.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at the clock while nothing is to be sent or to be read.
const TICK: Duration = Duration::from_millis(1);

/// Pages that have no event yet, at most, while they are sent as fast as events come back.
const UNANSWERED_MAX: u64 = 8_192;

/// Sends pages to Kafka and prints, as JSON, how soon they become committed events.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    pace: Pace,
    /// Where the brokers are
    #[arg(long, global = true, default_value = "127.0.0.1:9092")]
    brokers: String,
    /// A new topic, to which the pages go
    #[arg(long, global = true, default_value = "pages")]
    pages_topic: String,
    /// How many partitions it has
    #[arg(long, global = true, default_value_t = 4)]
    partitions: usize,
    /// The topic of events, of one partition
    #[arg(long, global = true, default_value = "events")]
    events_topic: String,
}

/// How fast pages are sent.
#[derive(Subcommand)]
enum Pace {
    /// As fast as events come back; prints the rate of the second half of the pages
    Most {
        /// JSON lines, a page each
        pages: PathBuf,
    },
    /// At a steady rate; prints how long pages took to become events
    Steady {
        /// Pages a second
        #[arg(long)]
        rate: f64,
        /// Seconds of sending before those that count
        #[arg(long)]
        warm_up: f64,
        /// Seconds of sending that count
        #[arg(long)]
        seconds: f64,
        /// JSON lines, a page each
        pages: PathBuf,
    },
}

/// What sender and reader know of each other.
#[derive(Default)]
struct Progress {
    /// Pages sent in all, once no more are.
    n_sent: AtomicU64,
    /// Pages that have an event.
    n_seen: AtomicU64,
    /// Whether one of the two has ended, or cannot go on.
    is_over: AtomicBool,
}

/// Notes that a page could not be sent.
#[derive(Default)]
struct Deliveries {
    n_failed: AtomicU64,
}

impl ClientContext for Deliveries {}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, _)) = result
            && self.n_failed.fetch_add(1, Relaxed) == 0
        {
            eprintln!("a page was not sent: {error}");
        }
    }
}

/// The place of the record that an event tells of.
#[derive(Deserialize)]
struct Place {
    partition: usize,
    offset: usize,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let progress = Progress::default();
    let (sent, seen) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let seen = read_events(&arguments, &progress);
            progress.is_over.store(true, Relaxed);
            seen
        });
        let sent = send(&arguments, &progress);
        match &sent {
            Ok(sent) => progress.n_sent.store(sent.len() as u64, Relaxed),
            Err(_) => progress.is_over.store(true, Relaxed),
        }
        (sent, reader.join())
    });
    let (sent, seen) = (sent?, seen.map_err(|_| "the reader panicked")??);
    println!("{}", arguments.pace.answer(&sent, &seen));
    Ok(())
}

impl Pace {
    fn pages(&self) -> &Path {
        match self {
            Pace::Most { pages } | Pace::Steady { pages, .. } => pages,
        }
    }

    /// Whether the next page is due, `elapsed` seconds after the first one.
    fn is_due(&self, n_sent: usize, elapsed: f64, progress: &Progress) -> bool {
        match self {
            Pace::Most { .. } => n_sent as u64 - progress.n_seen.load(Relaxed) < UNANSWERED_MAX,
            Pace::Steady { rate, .. } => (n_sent as f64) < rate * elapsed,
        }
    }

    /// Whether no more pages are to be sent.
    fn is_at_end(&self, elapsed: f64) -> bool {
        matches!(self, Pace::Steady { warm_up, seconds, .. } if elapsed >= warm_up + seconds)
    }

    /// What is known once each page that was sent has an event.
    fn answer(&self, sent: &[Instant], seen: &[Option<Instant>]) -> serde_json::Value {
        let Pace::Steady { warm_up, .. } = self else {
            let (half, last) = (sent.len() / 2, seen.iter().flatten().max());
            let seconds = sent.get(half).zip(last).map(|(middle, last)| last.duration_since(*middle).as_secs_f64());
            return serde_json::json!({ "per_second": seconds.map(|seconds| (sent.len() - half) as f64 / seconds) });
        };
        let counts_from = sent.first().map(|first| *first + Duration::from_secs_f64(*warm_up));
        let took = sent.iter().zip(seen).filter(|(sent, _)| Some(**sent) >= counts_from);
        let mut took: Vec<Duration> =
            took.filter_map(|(sent, seen)| Some(seen.as_ref()?.duration_since(*sent))).collect();
        took.sort_unstable();
        let milliseconds = |at: usize| took.get(at).map(|took| 1000.0 * took.as_secs_f64());
        serde_json::json!({
            "n_pages": took.len(),
            "p50": milliseconds(took.len() / 2),
            "p99": milliseconds(took.len() * 99 / 100),
            "longest": milliseconds(took.len().saturating_sub(1)),
        })
    }
}

/// Sends pages at their pace. Returns when each was given to the producer.
fn send(arguments: &Arguments, progress: &Progress) -> Result<Vec<Instant>> {
    let mut config = ClientConfig::new();
    // A page's place follows from its number, because an idempotent producer keeps the order.
    config.set("bootstrap.servers", &arguments.brokers).set("enable.idempotence", "true");
    let producer: ThreadedProducer<Deliveries> = config.create_with_context(Deliveries::default())?;
    let (pace, path) = (&arguments.pace, arguments.pace.pages());
    let mut pages = BufReader::with_capacity(1 << 20, File::open(path)?);
    let (mut page, mut sent) = (Vec::new(), Vec::new());
    let begin = Instant::now();
    'sending: while !pace.is_at_end(begin.elapsed().as_secs_f64()) && !progress.is_over.load(Relaxed) {
        while pace.is_due(sent.len(), begin.elapsed().as_secs_f64(), progress) {
            page.clear();
            if pages.read_until(b'\n', &mut page)? == 0 {
                match pace {
                    Pace::Most { .. } => break 'sending,
                    Pace::Steady { .. } => return Err(format!("{} has too few pages", path.display()).into()),
                }
            }
            let partition = (sent.len() % arguments.partitions) as i32;
            sent.push(Instant::now());
            produce(&producer, &arguments.pages_topic, partition, page.trim_ascii_end(), &progress.is_over)?;
        }
        std::thread::sleep(TICK);
    }
    producer.flush(PATIENCE)?;
    if producer.context().n_failed.load(Relaxed) > 0 {
        return Err("not all pages were sent".into());
    }
    Ok(sent)
}

/// Gives a page to the producer, as soon as that has room.
fn produce(
    producer: &ThreadedProducer<Deliveries>,
    topic: &str,
    partition: i32,
    page: &[u8],
    is_over: &AtomicBool,
) -> Result<()> {
    let mut record: BaseRecord<'_, (), [u8]> = BaseRecord::to(topic).partition(partition).payload(page);
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) if !is_over.load(Relaxed) => {
                record = back;
                std::thread::sleep(TICK);
            }
            Err((error, _)) => return Err(error.into()),
        }
    }
}

/// When the first event of each page was there, the page's own: those that follow from it come later. Ends when every page has one
/// that was sent, which is known once all are.
fn read_events(arguments: &Arguments, progress: &Progress) -> Result<Vec<Option<Instant>>> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &arguments.brokers).set("group.id", "pace").set("enable.auto.commit", "false");
    // A broker that waits for more to send does not notice that a transaction is committed: half a second by default.
    config.set("fetch.wait.max.ms", "10").set("isolation.level", "read_committed");
    let consumer: BaseConsumer = config.create()?;
    let mut assignment = TopicPartitionList::new();
    assignment.add_partition_offset(&arguments.events_topic, 0, Offset::Beginning)?;
    consumer.assign(&assignment)?;
    let (mut seen, mut until): (Vec<Option<Instant>>, Option<Instant>) = (Vec::new(), None);
    while !progress.is_over.load(Relaxed) {
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(event)) => {
                progress.n_seen.fetch_add(u64::from(note(&event, arguments.partitions, &mut seen)?), Relaxed);
            }
            Some(Err(error)) => return Err(error.into()),
            None => {}
        }
        let (n_sent, n_seen) = (progress.n_sent.load(Relaxed), progress.n_seen.load(Relaxed));
        if n_sent == 0 {
            continue;
        }
        if n_seen >= n_sent {
            return Ok(seen);
        }
        if Instant::now() > *until.get_or_insert_with(|| Instant::now() + PATIENCE) {
            return Err(format!("{} of {n_sent} pages have no event after a minute", n_sent - n_seen).into());
        }
    }
    Ok(seen)
}

/// Notes the time of an event. Returns whether it is the first of its page.
fn note(event: &BorrowedMessage<'_>, partitions: usize, seen: &mut Vec<Option<Instant>>) -> Result<bool> {
    let Place { partition, offset } = serde_json::from_slice(event.payload().unwrap_or_default())?;
    let number = offset * partitions + partition;
    if number >= seen.len() {
        seen.resize(number + 1, None);
    }
    let is_first = seen[number].is_none();
    seen[number].get_or_insert_with(Instant::now);
    Ok(is_first)
}
