//! Sends pages to Kafka at a steady pace, each once, and takes the time from a page to its committed event.
//!
//! ```sh
//! cargo run --release --example kafka_pace -- --help
//! ```
//! It shares the machine with what is measured, and takes as little of it as a client can. A page's time begins before it is given
//! to the producer and ends when a consumer that reads committed transactions has its event. Pages sent during the warm-up do
//! not count.

use clap::Parser;
use rdkafka::client::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, DeliveryResult, Message};
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde::Deserialize;
use std::error::Error;
use std::fs::{File, read_to_string};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// How long events may take to come once all pages are sent.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at the clock while nothing is to be sent or to be read.
const TICK: Duration = Duration::from_millis(1);

/// Sends pages at a steady pace and prints, as JSON, how long they took to become committed events.
#[derive(Parser)]
struct Arguments {
    /// Where the brokers are
    #[arg(long)]
    brokers: String,
    /// A new topic, to which the pages go
    #[arg(long)]
    pages_topic: String,
    /// How many partitions it has
    #[arg(long)]
    partitions: usize,
    /// The topic of events, of one partition
    #[arg(long)]
    events_topic: String,
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
    let (n_sent, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let (sending, seen) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let seen = read_events(&arguments, &n_sent, &is_over);
            is_over.store(true, Relaxed);
            seen
        });
        let sending = send(&arguments, &is_over);
        match &sending {
            Ok(sending) => n_sent.store(sending.sent.len() as u64, Relaxed),
            Err(_) => is_over.store(true, Relaxed),
        }
        (sending, reader.join())
    });
    let (Sending { counts_from, cores_busy, sent }, seen) = (sending?, seen.map_err(|_| "the reader panicked")??);
    let took = sent.iter().zip(&seen).filter(|(sent, _)| **sent >= counts_from);
    let mut took: Vec<Duration> = took.filter_map(|(sent, seen)| Some(seen.as_ref()?.duration_since(*sent))).collect();
    took.sort_unstable();
    let milliseconds = |at: usize| took.get(at).map(|took| 1000.0 * took.as_secs_f64());
    let answer = serde_json::json!({
        "n_pages": took.len(),
        "p50": milliseconds(took.len() / 2),
        "p99": milliseconds(took.len() * 99 / 100),
        "longest": milliseconds(took.len().saturating_sub(1)),
        "cores_busy": cores_busy,
    });
    println!("{answer}");
    Ok(())
}

/// What was sent.
struct Sending {
    /// Pages count that are sent from then on.
    counts_from: Instant,
    /// The share of the machine's cores that was busy from then on.
    cores_busy: f64,
    /// When each page was given to the producer.
    sent: Vec<Instant>,
}

/// Sends pages until their time is over.
fn send(arguments: &Arguments, is_over: &AtomicBool) -> Result<Sending> {
    let mut config = ClientConfig::new();
    // A page's place follows from its number, because an idempotent producer keeps the order.
    config.set("bootstrap.servers", &arguments.brokers).set("linger.ms", "1").set("enable.idempotence", "true");
    let producer: ThreadedProducer<Deliveries> = config.create_with_context(Deliveries::default())?;
    let mut pages = BufReader::with_capacity(1 << 20, File::open(&arguments.pages)?);
    let (mut page, mut sent, mut busy_before) = (Vec::new(), Vec::new(), None);
    let begin = Instant::now();
    loop {
        let elapsed = begin.elapsed().as_secs_f64();
        if elapsed >= arguments.warm_up + arguments.seconds {
            break;
        }
        if elapsed >= arguments.warm_up && busy_before.is_none() {
            busy_before = Some(busy_seconds()?);
        }
        while (sent.len() as f64) < arguments.rate * elapsed {
            page.clear();
            if pages.read_until(b'\n', &mut page)? == 0 {
                return Err(format!("{} has too few pages", arguments.pages.display()).into());
            }
            let partition = (sent.len() % arguments.partitions) as i32;
            sent.push(Instant::now());
            produce(&producer, &arguments.pages_topic, partition, page.trim_ascii_end(), is_over)?;
        }
        std::thread::sleep(TICK);
    }
    let n_cores = std::thread::available_parallelism()?.get() as f64;
    let busy = busy_seconds()? - busy_before.unwrap_or_default();
    producer.flush(PATIENCE)?;
    if producer.context().n_failed.load(Relaxed) > 0 {
        return Err("not all pages were sent".into());
    }
    let counts_from = begin + Duration::from_secs_f64(arguments.warm_up);
    Ok(Sending { counts_from, cores_busy: busy / arguments.seconds / n_cores, sent })
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
fn read_events(arguments: &Arguments, n_sent: &AtomicU64, is_over: &AtomicBool) -> Result<Vec<Option<Instant>>> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", &arguments.brokers).set("group.id", "pace").set("enable.auto.commit", "false");
    // A broker that waits for more to send does not notice that a transaction is committed: half a second by default.
    config.set("fetch.wait.max.ms", "10").set("isolation.level", "read_committed");
    let consumer: BaseConsumer = config.create()?;
    let mut assignment = TopicPartitionList::new();
    assignment.add_partition_offset(&arguments.events_topic, 0, Offset::Beginning)?;
    consumer.assign(&assignment)?;
    let (mut seen, mut n_seen, mut until): (Vec<Option<Instant>>, u64, Option<Instant>) = (Vec::new(), 0, None);
    while !is_over.load(Relaxed) {
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(event)) => n_seen += u64::from(note(&event, arguments.partitions, &mut seen)?),
            Some(Err(error)) => return Err(error.into()),
            None => {}
        }
        let n_sent = n_sent.load(Relaxed);
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

/// The time since the machine started in which its cores neither idled nor waited for a disk, all cores added up.
fn busy_seconds() -> Result<f64> {
    let stat = read_to_string("/proc/stat")?;
    let ticks: Vec<f64> =
        stat.split_whitespace().skip(1).take(8).map(str::parse).collect::<std::result::Result<_, _>>()?;
    let idle: f64 = ticks.iter().skip(3).take(2).sum();
    // A tick is a hundredth of a second wherever Linux tells a program of ticks.
    Ok((ticks.iter().sum::<f64>() - idle) / 100.0)
}
