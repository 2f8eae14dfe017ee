//! What the Kafka tests share: topics of their own on a real broker, and what stands in them.

#![allow(dead_code, reason = "each test binary uses a part")]

pub mod proxy;

use lookalike::document::Page;
use lookalike::kafka::{KafkaSettings, KafkaSource, RecordFormat, StartOptions};
use lookalike::pipeline::PoisonTracker;
use lookalike::ports::{Incoming, Polled, Progress, ProgressMap, Source, SourceError};
use lookalike::wire::{FieldMap, Limits, Record, Rejection};
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, Headers, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub const PATIENCE: Duration = Duration::from_secs(120);
pub const TICK: Duration = Duration::from_millis(100);

/// Values are plain JSON pages.
static JSON_PAGE: LazyLock<FieldMap> = LazyLock::new(FieldMap::default);

/// A topic of its own on the broker, deleted in the end.
pub struct Topic {
    pub brokers: String,
    pub name: String,
}

/// A new topic, or nothing where there is no broker.
pub fn topic(n_partitions: i32) -> Option<Topic> {
    static N_TOPICS: AtomicU32 = AtomicU32::new(0);
    let Ok(brokers) = std::env::var("LOOKALIKE_TEST_KAFKA") else {
        eprintln!("skipped: LOOKALIKE_TEST_KAFKA names no broker; deploy/kafka-local.sh start gives one");
        return None;
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_nanos();
    let name = format!("test-{}-{now}-{}", std::process::id(), N_TOPICS.fetch_add(1, Ordering::Relaxed));
    let topic = Topic { brokers, name };
    topic.create(n_partitions);
    Some(topic)
}

pub fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}

impl Topic {
    pub fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.brokers);
        config
    }

    pub fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.config().create().expect("an admin client")
    }

    pub fn create(&self, n_partitions: i32) {
        self.create_for(n_partitions, 16 << 20);
    }

    /// Makes the topic for messages of so many bytes at most.
    pub fn create_for(&self, n_partitions: i32, bytes_max: usize) {
        let bytes_max = bytes_max.to_string();
        let new =
            NewTopic::new(&self.name, n_partitions, TopicReplication::Fixed(1)).set("max.message.bytes", &bytes_max);
        let created = wait(self.admin().create_topics(&[new], &options())).expect("an answer");
        created.into_iter().for_each(|created| drop(created.expect("a topic")));
    }

    pub fn delete(&self) {
        let deleted = wait(self.admin().delete_topics(&[&self.name], &options())).expect("an answer");
        deleted.into_iter().for_each(|deleted| drop(deleted.expect("no topic")));
    }

    pub fn add_partitions(&self, n_in_all: usize) {
        let more = NewPartitions::new(&self.name, n_in_all);
        let added = wait(self.admin().create_partitions(&[more], &options())).expect("an answer");
        added.into_iter().for_each(|added| drop(added.expect("partitions")));
    }

    pub fn delete_records_below(&self, partition: i32, offset: i64) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.name, partition, Offset::Offset(offset)).expect("an offset");
        drop(wait(self.admin().delete_records(&list, &options())).expect("fewer records"));
    }

    pub fn producer(&self) -> BaseProducer {
        self.config().set("enable.idempotence", "true").create().expect("a producer")
    }

    /// Sends records to one partition, in order.
    pub fn send(&self, partition: i32, messages: &[Sent<'_>]) {
        let producer = self.producer();
        messages.iter().for_each(|message| message.send(&producer, &self.name, partition));
        producer.flush(PATIENCE).expect("records delivered");
    }

    pub fn send_json(&self, partition: i32, values: &[&str]) {
        let sent: Vec<Sent<'_>> = values.iter().map(|value| Sent { value: Some(value), ..Sent::default() }).collect();
        self.send(partition, &sent);
    }

    pub fn settings(&self) -> KafkaSettings {
        KafkaSettings {
            brokers: self.brokers.clone(),
            topic: self.name.clone(),
            events_topic: format!("{}-events", self.name),
            assignments_topic: String::new(),
            merges_topic: String::new(),
            dead_letters: false,
            group: format!("{}-group", self.name),
            ..KafkaSettings::default()
        }
    }

    pub fn open(&self, stored: &ProgressMap) -> Result<KafkaSource, SourceError> {
        open(&self.settings(), stored)
    }

    pub fn source(&self, stored: &ProgressMap) -> KafkaSource {
        self.open(stored).expect("a source")
    }

    pub fn raw_source(&self) -> KafkaSource {
        let settings = KafkaSettings { format: RecordFormat::Raw, ..self.settings() };
        open(&settings, &ProgressMap::new()).expect("a source")
    }

    pub fn progress(&self, offsets: &[(i32, i64)]) -> ProgressMap {
        let entry = |&(partition, next_offset): &(i32, i64)| {
            ((self.name.clone(), partition), Progress { next_offset, chain: 0 })
        };
        offsets.iter().map(entry).collect()
    }

    pub fn group_offset(&self, partition: i32) -> Option<i64> {
        let consumer: BaseConsumer = self.config().set("group.id", self.settings().group).create().expect("a consumer");
        let mut list = TopicPartitionList::new();
        list.add_partition(&self.name, partition);
        let committed = consumer.committed_offsets(list, PATIENCE).expect("offsets");
        match committed.find_partition(&self.name, partition).expect("the partition").offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        }
    }
}

impl Drop for Topic {
    fn drop(&mut self) {
        let _ = wait(self.admin().delete_topics(&[&self.name], &options()));
    }
}

pub fn options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(PATIENCE))
}

/// A record as a producer sends it.
#[derive(Clone, Copy, Default)]
pub struct Sent<'a> {
    pub key: Option<&'a str>,
    pub value: Option<&'a str>,
    pub headers: &'a [(&'a str, &'a [u8])],
    pub time_ms: Option<i64>,
}

impl Sent<'_> {
    pub fn send(&self, producer: &BaseProducer, topic: &str, partition: i32) {
        let headers = self
            .headers
            .iter()
            .fold(OwnedHeaders::new(), |headers, (key, value)| headers.insert(Header { key, value: Some(*value) }));
        let mut record: BaseRecord<'_, str, str> = BaseRecord::to(topic).partition(partition).headers(headers);
        record.key = self.key;
        record.payload = self.value;
        record.timestamp = self.time_ms;
        producer.send(record).map_err(|(error, _)| error).expect("a queued record");
    }
}

/// The next `n` records.
pub fn take(source: &mut dyn Source, n: usize) -> Vec<Incoming> {
    let until = Instant::now() + PATIENCE;
    let mut taken = Vec::new();
    while taken.len() < n {
        assert!(Instant::now() < until, "only {} of {n} records came", taken.len());
        match source.poll(TICK).expect("a source that goes on") {
            Polled::Record(incoming) => taken.push(incoming),
            Polled::Idle => {}
            other => panic!("no record: {other:?}"),
        }
    }
    taken
}

pub fn assert_no_more(source: &mut dyn Source) {
    for _ in 0..10 {
        let polled = source.poll(TICK).expect("a source that goes on");
        assert!(matches!(polled, Polled::Idle), "{polled:?}");
    }
}

/// Polls until the source cannot go on.
pub fn take_error(source: &mut dyn Source) -> String {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if let Err(error) = source.poll(TICK) {
            return error.to_string();
        }
    }
    panic!("the source went on");
}

pub fn wait_for_lag(source: &mut dyn Source, lag: u64) {
    let until = Instant::now() + PATIENCE;
    while source.lag() != Some(lag) {
        assert!(Instant::now() < until, "the lag is {:?}, not {lag}", source.lag());
        let polled = source.poll(TICK).expect("a source that goes on");
        assert!(matches!(polled, Polled::Idle), "{polled:?}");
    }
}

pub fn offsets(taken: &[Incoming]) -> Vec<i64> {
    taken.iter().map(|incoming| incoming.origin.offset).collect()
}

/// The value of a message, as it came.
pub fn json_in(incoming: &Incoming) -> &str {
    match &incoming.record {
        Record::Message(message, _) => std::str::from_utf8(message.value.as_deref().expect("a value")).expect("text"),
        other => panic!("no message: {other:?}"),
    }
}

/// What a message brings.
pub fn page_in(incoming: &Incoming) -> Result<Page, Rejection> {
    match &incoming.record {
        Record::Message(message, format) => message.page(format, &Limits::default()),
        other => panic!("no message: {other:?}"),
    }
}

/// A source that knows nothing of WARC and takes no liberties.
pub fn open(settings: &KafkaSettings, stored: &ProgressMap) -> Result<KafkaSource, SourceError> {
    let beginning = StartOptions { accept_gap: false, ..accepting(stored) };
    KafkaSource::open(settings, &Limits::default(), &beginning)
}

/// The same, accepting gaps.
pub fn accepting(stored: &ProgressMap) -> StartOptions<'_> {
    let poison_guard = Arc::<PoisonTracker>::default();
    let (warc, undo) = (|_: &[u8], _: &Limits| panic!("no WARC here"), lookalike::files::decode_content);
    StartOptions {
        stored,
        since: None,
        bootstrap: false,
        accept_gap: true,
        poison_guard,
        fields: &JSON_PAGE,
        warc,
        undo,
    }
}

/// The offsets that a source goes on from, without the fingerprints of the records before them.
pub fn next_offsets(source: &KafkaSource) -> Vec<(i32, i64)> {
    let mut next: Vec<(i32, i64)> =
        source.positions().into_iter().map(|((_, partition), progress)| (partition, progress.next_offset)).collect();
    next.sort_unstable();
    next
}

pub fn error_of(opened: Result<KafkaSource, SourceError>) -> String {
    match opened {
        Ok(_) => panic!("it opened"),
        Err(error) => error.to_string(),
    }
}

pub fn assert_says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}

/// A message as anybody reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub partition: i32,
    pub offset: i64,
    pub key: Option<String>,
    pub value: Option<String>,
    pub headers: Vec<(String, Option<String>)>,
    pub time_ms: Option<i64>,
}

impl Seen {
    /// The last header of a name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().rev().find(|(other, _)| other == name)?.1.as_deref()
    }

    pub fn seq(&self) -> u64 {
        self.header(lookalike::kafka::SEQ_HEADER).expect("a number").parse().expect("a number")
    }

    pub fn text(&self) -> &str {
        self.value.as_deref().expect("a value")
    }
}

/// A message as anybody reads it.
pub fn seen(message: &impl Message) -> Seen {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers = message.headers().map_or_else(Vec::new, |headers| {
        headers.iter().map(|header| (header.key.to_string(), header.value.map(text))).collect()
    });
    Seen {
        partition: message.partition(),
        offset: message.offset(),
        key: message.key().map(text),
        value: message.payload().map(text),
        headers,
        time_ms: message.timestamp().to_millis(),
    }
}

fn is_lost_connection(error: &KafkaError) -> bool {
    use RDKafkaErrorCode::{AllBrokersDown, BrokerTransportFailure};
    matches!(error.rdkafka_error_code(), Some(AllBrokersDown | BrokerTransportFailure))
}

/// All that a reader of committed transactions finds in a topic now, partition by partition.
pub fn see_all(brokers: &str, topic: &str) -> Vec<Seen> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("group.id", "plain")
        .set("isolation.level", "read_committed")
        .set("enable.partition.eof", "true")
        .set("fetch.wait.max.ms", "20")
        .create()
        .expect("a consumer");
    let metadata = consumer.fetch_metadata(Some(topic), PATIENCE).expect("metadata");
    let mut list = TopicPartitionList::new();
    let mut unread: Vec<i32> = metadata.topics()[0].partitions().iter().map(|partition| partition.id()).collect();
    for partition in &unread {
        list.add_partition_offset(topic, *partition, Offset::Beginning).expect("an offset");
    }
    consumer.assign(&list).expect("an assignment");
    let mut all = Vec::new();
    let until = Instant::now() + PATIENCE;
    while !unread.is_empty() {
        match consumer.poll(PATIENCE).expect("the end of a topic") {
            Ok(message) => all.push(seen(&message)),
            Err(KafkaError::PartitionEOF(partition)) => unread.retain(|other| *other != partition),
            // A broker that stalls may lose its connections; the client reconnects.
            Err(error) if is_lost_connection(&error) && Instant::now() < until => {}
            Err(error) => panic!("{topic} cannot be read: {error}"),
        }
    }
    all.sort_by_key(|seen| (seen.partition, seen.offset));
    all
}

/// URL → when, on which sweep, document and cluster of the page that stands there.
pub type PresentState = BTreeMap<String, [String; 4]>;

/// The present state as the two compacted topics tell it to who reads all of them: the last message of a key counts.
pub fn present_in_topics(brokers: &str, assignments: &str, merges: &str) -> PresentState {
    let value = |seen: &Seen| seen.value.as_deref().map(|text| serde_json::from_str(text).expect("JSON"));
    let last = |topic: &str| {
        let mut last: BTreeMap<String, (i32, Option<serde_json::Value>)> = BTreeMap::new();
        for seen in see_all(brokers, topic) {
            let before = last.insert(seen.key.clone().expect("a key"), (seen.partition, value(&seen)));
            assert!(before.is_none_or(|(partition, _)| partition == seen.partition), "a key in two partitions");
        }
        last.into_iter().filter_map(|(key, (_, value))| Some((key, value?))).collect::<BTreeMap<_, _>>()
    };
    let winners: BTreeMap<u64, u64> = last(merges)
        .into_iter()
        .map(|(loser, value)| (loser.parse().expect("a cluster"), value["winner"].as_u64().expect("a cluster")))
        .collect();
    let present = last(assignments).into_iter().map(|(url, value)| {
        assert_eq!(value["url"], *url);
        let mut cluster = value["cluster"].as_u64().expect("a cluster");
        while let Some(winner) = winners.get(&cluster) {
            cluster = *winner;
        }
        let text = |name: &str| value[name].as_str().unwrap_or_default().to_string();
        let document = value["document"].as_u64().expect("a document");
        (url, [text("fetched_at"), text("sweep"), document.to_string(), cluster.to_string()])
    });
    present.collect()
}

/// The same as a table of `export present` tells it.
pub fn present_in_table(csv: &str) -> PresentState {
    let mut rows = csv::Reader::from_reader(csv.as_bytes());
    let header = ["url", "fetched_at", "sweep", "document", "cluster", "state"];
    assert_eq!(rows.headers().expect("a header"), &header[..]);
    let rows = rows.records().map(|row| row.expect("a row"));
    let page = |row: csv::StringRecord| {
        assert_eq!(&row[5] == "page", !row[3].is_empty() && !row[4].is_empty(), "{row:?}");
        let fields = [1, 2, 3, 4].map(|at| row[at].to_string());
        (&row[5] == "page").then(|| (row[0].to_string(), fields))
    };
    rows.filter_map(page).collect()
}
