//! The promises of the Kafka module against a real broker.
//!
//! ```sh
//! deploy/kafka-local.sh start
//! LOOKALIKE_TEST_KAFKA=127.0.0.1:19092 cargo test --release --test kafka
//! ```
//! Without the variable every test passes without having looked, and says so.

#![expect(clippy::expect_used, reason = "a test that cannot go on fails")]

mod harness;

use lookalike::document::{Body, Content, FetchTime, MediaType, Page};
use lookalike::kafka::{KafkaSettings, KafkaSink, KafkaSource, RecordFormat, SEQ_HEADER, Start, VERSION_HEADER};
use lookalike::ports::{Incoming, Outgoing, Polled, Progress, ProgressMap, Sink, Source, SourceError};
use lookalike::wire::{Event, Limits, Reason, Record, WIRE_VERSION};
use rdkafka::admin::{AdminClient, AdminOptions, NewPartitions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, Headers, OwnedHeaders};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const PATIENCE: Duration = Duration::from_secs(30);
const TICK: Duration = Duration::from_millis(100);

/// A topic of its own on the broker, deleted in the end.
struct Topic {
    brokers: String,
    name: String,
}

/// A new topic, or nothing where there is no broker.
fn topic(n_partitions: i32) -> Option<Topic> {
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

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}

impl Topic {
    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.brokers);
        config
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.config().create().expect("an admin client")
    }

    fn create(&self, n_partitions: i32) {
        let new = NewTopic::new(&self.name, n_partitions, TopicReplication::Fixed(1));
        let created = wait(self.admin().create_topics(&[new], &options())).expect("an answer");
        created.into_iter().for_each(|created| drop(created.expect("a topic")));
    }

    fn delete(&self) {
        let deleted = wait(self.admin().delete_topics(&[&self.name], &options())).expect("an answer");
        deleted.into_iter().for_each(|deleted| drop(deleted.expect("no topic")));
    }

    fn add_partitions(&self, n_in_all: usize) {
        let more = NewPartitions::new(&self.name, n_in_all);
        let added = wait(self.admin().create_partitions(&[more], &options())).expect("an answer");
        added.into_iter().for_each(|added| drop(added.expect("partitions")));
    }

    fn delete_records_below(&self, partition: i32, offset: i64) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.name, partition, Offset::Offset(offset)).expect("an offset");
        drop(wait(self.admin().delete_records(&list, &options())).expect("fewer records"));
    }

    fn producer(&self) -> BaseProducer {
        self.config().set("enable.idempotence", "true").create().expect("a producer")
    }

    /// Sends records to one partition, in order.
    fn send(&self, partition: i32, messages: &[Sent<'_>]) {
        let producer = self.producer();
        messages.iter().for_each(|message| message.send(&producer, &self.name, partition));
        producer.flush(PATIENCE).expect("records delivered");
    }

    fn send_json(&self, partition: i32, values: &[&str]) {
        let sent: Vec<Sent<'_>> = values.iter().map(|value| Sent { value: Some(value), ..Sent::default() }).collect();
        self.send(partition, &sent);
    }

    fn settings(&self) -> KafkaSettings {
        KafkaSettings {
            brokers: self.brokers.clone(),
            topic: self.name.clone(),
            events_topic: format!("{}-events", self.name),
            group: format!("{}-group", self.name),
            ..KafkaSettings::default()
        }
    }

    fn open(&self, stored: &ProgressMap) -> Result<KafkaSource, SourceError> {
        KafkaSource::open(&self.settings(), Limits::default(), stored)
    }

    fn source(&self, stored: &ProgressMap) -> KafkaSource {
        self.open(stored).expect("a source")
    }

    fn raw_source(&self) -> KafkaSource {
        let settings = KafkaSettings { format: RecordFormat::Raw, ..self.settings() };
        KafkaSource::open(&settings, Limits::default(), &ProgressMap::new()).expect("a source")
    }

    fn progress(&self, offsets: &[(i32, i64)]) -> ProgressMap {
        let entry = |&(partition, next_offset): &(i32, i64)| {
            ((self.name.clone(), partition), Progress { next_offset, chain: 0 })
        };
        offsets.iter().map(entry).collect()
    }

    /// The settings of a sink whose events go to this topic.
    fn sink_settings(&self) -> KafkaSettings {
        KafkaSettings { topic: "elsewhere".into(), events_topic: self.name.clone(), ..self.settings() }
    }

    fn sink(&self) -> KafkaSink {
        KafkaSink::open(&self.sink_settings()).expect("a sink")
    }

    fn group_offset(&self, partition: i32) -> Option<i64> {
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

fn options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(PATIENCE))
}

/// A record as a producer sends it.
#[derive(Clone, Copy, Default)]
struct Sent<'a> {
    key: Option<&'a str>,
    value: Option<&'a str>,
    headers: &'a [(&'a str, &'a [u8])],
    time_ms: Option<i64>,
}

impl Sent<'_> {
    fn send(&self, producer: &BaseProducer, topic: &str, partition: i32) {
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
fn take(source: &mut dyn Source, n: usize) -> Vec<Incoming> {
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

fn assert_no_more(source: &mut dyn Source) {
    for _ in 0..10 {
        let polled = source.poll(TICK).expect("a source that goes on");
        assert!(matches!(polled, Polled::Idle), "{polled:?}");
    }
}

/// Polls until the source cannot go on.
fn take_error(source: &mut dyn Source) -> String {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if let Err(error) = source.poll(TICK) {
            return error.to_string();
        }
    }
    panic!("the source went on");
}

fn wait_for_lag(source: &mut dyn Source, lag: u64) {
    let until = Instant::now() + PATIENCE;
    while source.lag() != Some(lag) {
        assert!(Instant::now() < until, "the lag is {:?}, not {lag}", source.lag());
        let polled = source.poll(TICK).expect("a source that goes on");
        assert!(matches!(polled, Polled::Idle), "{polled:?}");
    }
}

fn offsets(taken: &[Incoming]) -> Vec<i64> {
    taken.iter().map(|incoming| incoming.origin.offset).collect()
}

fn json_in(incoming: &Incoming) -> &str {
    match &incoming.record {
        Record::Json(bytes) => std::str::from_utf8(bytes).expect("text"),
        other => panic!("no JSON: {other:?}"),
    }
}

fn error_of(opened: Result<KafkaSource, SourceError>) -> String {
    match opened {
        Ok(_) => panic!("it opened"),
        Err(error) => error.to_string(),
    }
}

fn assert_says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}

#[test]
fn json_pages_come_with_their_offsets() {
    let Some(topic) = topic(1) else { return };
    topic.send_json(0, &["{}", "[1]", "not JSON"]);
    let mut source = topic.source(&ProgressMap::new());
    let taken = take(&mut source, 3);
    assert_eq!(taken.iter().map(json_in).collect::<Vec<_>>(), ["{}", "[1]", "not JSON"]);
    assert_eq!(offsets(&taken), [0, 1, 2]);
    assert!(taken.iter().all(|incoming| *incoming.origin.source == *topic.name && incoming.origin.partition == 0));
    assert_eq!(source.positions(), topic.progress(&[(0, 3)]));
    assert_no_more(&mut source);
}

#[test]
fn tombstones_say_that_a_url_is_gone() {
    let Some(topic) = topic(1) else { return };
    let tombstone = Sent { key: Some("http://a/"), time_ms: Some(1_600_000_000_000), ..Sent::default() };
    topic.send(0, &[tombstone, Sent { key: None, ..tombstone }]);
    let taken = take(&mut topic.source(&ProgressMap::new()), 2);
    let gone = Page {
        url: "http://a/".into(),
        fetched_at: FetchTime(1_600_000_000_000_000),
        sweep: None,
        content: Content::Gone,
    };
    assert_eq!(taken[0].record, Record::Page(Box::new(gone)));
    assert!(matches!(&taken[1].record, Record::Rejected(rejection) if rejection.reason == Reason::MissingField));
}

#[test]
fn raw_pages_are_made_of_key_value_and_headers() {
    let Some(topic) = topic(1) else { return };
    let page = Sent {
        key: Some("http://a/"),
        value: Some("<p>hello"),
        headers: &[
            ("content-type", b"text/html; charset=utf-8"),
            ("fetch-time", b"2014-08-01T00:00:00Z"),
            ("http-status", b"200"),
            ("sweep", b"first"),
            ("sweep", b"last"),
        ],
        time_ms: Some(1_600_000_000_000),
    };
    let bare = Sent { headers: &[], ..page };
    let not_found = Sent { headers: &[("http-status", b"404")], ..page };
    topic.send(0, &[page, bare, not_found, Sent { value: None, ..bare }]);
    let taken = take(&mut topic.raw_source(), 4);
    let pages: Vec<&Page> = taken
        .iter()
        .map(|incoming| match &incoming.record {
            Record::Page(page) => &**page,
            other => panic!("no page: {other:?}"),
        })
        .collect();
    let body = |charset: Option<&str>| Body::Bytes { bytes: b"<p>hello".to_vec(), charset: charset.map(String::from) };
    assert_eq!(
        *pages[0],
        Page {
            url: "http://a/".into(),
            fetched_at: "2014-08-01T00:00:00Z".parse().expect("a time"),
            sweep: Some("last".into()),
            content: Content::Body { media_type: MediaType::Html, body: body(Some("utf-8")) },
        }
    );
    assert_eq!((pages[1].fetched_at, &pages[1].sweep), (FetchTime(1_600_000_000_000_000), &None));
    assert_eq!(pages[1].content, Content::Body { media_type: MediaType::Unknown, body: body(None) });
    assert_eq!((&pages[2].content, &pages[3].content), (&Content::Gone, &Content::Gone));
}

#[test]
fn bad_raw_records_are_rejected_and_the_stream_goes_on() {
    let Some(topic) = topic(1) else { return };
    let good = Sent { key: Some("http://a/"), value: Some("x"), ..Sent::default() };
    let bad = [
        (Sent { key: None, ..good }, Reason::MissingField),
        (Sent { key: Some("http://a b/"), ..good }, Reason::InvalidUrl),
        (Sent { headers: &[("fetch-time", b"soon")], ..good }, Reason::InvalidTime),
        (Sent { headers: &[("http-status", b"ok")], ..good }, Reason::InvalidField),
        (Sent { headers: &[("http-status", b"503")], ..good }, Reason::HttpStatus),
        (Sent { headers: &[("content-type", b"image/png")], ..good }, Reason::MediaType),
        (Sent { headers: &[("sweep", b"\xff")], ..good }, Reason::InvalidField),
    ];
    topic.send(0, &bad.map(|(sent, _)| sent));
    topic.send(0, &[good]);
    let taken = take(&mut topic.raw_source(), 8);
    for (incoming, (_, reason)) in taken.iter().zip(&bad) {
        assert!(
            matches!(&incoming.record, Record::Rejected(rejection) if rejection.reason == *reason),
            "{reason:?}: {incoming:?}"
        );
    }
    assert!(matches!(taken[7].record, Record::Page(_)));
    assert_eq!(offsets(&taken), (0..8).collect::<Vec<i64>>());
}

#[test]
fn reading_goes_on_where_the_store_stopped() {
    let Some(topic) = topic(2) else { return };
    topic.send_json(0, &["a0", "a1", "a2", "a3"]);
    topic.send_json(1, &["b0", "b1"]);
    let mut source = topic.source(&topic.progress(&[(0, 3), (1, 2)]));
    assert_eq!(json_in(&take(&mut source, 1)[0]), "a3");
    assert_no_more(&mut source);
    topic.send_json(1, &["b2"]);
    let taken = take(&mut source, 1);
    assert_eq!((json_in(&taken[0]), taken[0].origin.partition, taken[0].origin.offset), ("b2", 1, 2));
}

#[test]
fn each_of_two_partitions_keeps_its_order() {
    let Some(topic) = topic(2) else { return };
    let values: Vec<String> = (0..500).map(|n| n.to_string()).collect();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    topic.send_json(0, &values);
    topic.send_json(1, &values);
    let taken = take(&mut topic.source(&ProgressMap::new()), 1000);
    for partition in [0, 1] {
        let of_partition: Vec<&Incoming> =
            taken.iter().filter(|incoming| incoming.origin.partition == partition).collect();
        assert_eq!(of_partition.iter().map(|incoming| json_in(incoming)).collect::<Vec<_>>(), values);
        assert!(of_partition.iter().zip(0..).all(|(incoming, offset)| incoming.origin.offset == offset));
    }
}

#[test]
fn an_unknown_topic_is_begun_where_start_says() {
    let Some(topic) = topic(2) else { return };
    topic.send_json(0, &["old"]);
    let latest = KafkaSettings { start: Start::Latest, ..topic.settings() };
    let mut source = KafkaSource::open(&latest, Limits::default(), &ProgressMap::new()).expect("a source");
    assert_eq!(source.positions(), topic.progress(&[(0, 1), (1, 0)]));
    assert_no_more(&mut source);
    topic.send_json(0, &["new"]);
    assert_eq!(json_in(&take(&mut source, 1)[0]), "new");
    assert_eq!(json_in(&take(&mut topic.source(&ProgressMap::new()), 1)[0]), "old");
}

/// With `latest`, a partition added while the program was down would have begun at its end, without what had come.
#[test]
fn a_partition_added_meanwhile_is_read_whole() {
    let Some(topic) = topic(2) else { return };
    topic.send_json(1, &["b0"]);
    let latest = KafkaSettings { start: Start::Latest, ..topic.settings() };
    let mut source = KafkaSource::open(&latest, Limits::default(), &topic.progress(&[(0, 0)])).expect("a source");
    assert_eq!(json_in(&take(&mut source, 1)[0]), "b0");
}

#[test]
fn a_new_partition_is_noticed() {
    let Some(topic) = topic(1) else { return };
    topic.send_json(0, &["a0"]);
    let mut source = topic.source(&ProgressMap::new());
    assert_eq!(json_in(&take(&mut source, 1)[0]), "a0");
    topic.add_partitions(2);
    topic.send_json(1, &["b0", "b1"]);
    let taken = take(&mut source, 2);
    assert_eq!(taken.iter().map(json_in).collect::<Vec<_>>(), ["b0", "b1"]);
    topic.send_json(0, &["a1"]);
    assert_eq!(json_in(&take(&mut source, 1)[0]), "a1");
    assert_eq!(source.positions(), topic.progress(&[(0, 2), (1, 2)]));
}

#[test]
fn a_missing_topic_is_an_error_that_says_what_to_do() {
    let Some(topic) = topic(1) else { return };
    let missing = KafkaSettings { topic: format!("{}-missing", topic.name), ..topic.settings() };
    let error = error_of(KafkaSource::open(&missing, Limits::default(), &ProgressMap::new()));
    assert_says(&error, &["-missing", "create it", "kafka.topic"]);
    let Err(error) = KafkaSink::open(&topic.settings()) else { panic!("there is no such topic") };
    assert_says(&error.to_string(), &["-events", "create it", "kafka.events_topic"]);
}

#[test]
fn an_unreachable_broker_is_an_error_within_the_limit() {
    let Some(topic) = topic(1) else { return };
    let nobody = KafkaSettings { brokers: "127.0.0.1:1".into(), connect_ms_max: 1_500, ..topic.settings() };
    let begin = Instant::now();
    let error = error_of(KafkaSource::open(&nobody, Limits::default(), &ProgressMap::new()));
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    assert_says(&error, &["127.0.0.1:1", "kafka.brokers", "Connection refused"]);
    let Err(error) = KafkaSink::open(&nobody) else { panic!("nobody is there") };
    assert_says(&error.to_string(), &["127.0.0.1:1", "kafka.brokers", "Connection refused"]);
}

#[test]
fn a_stored_offset_that_the_broker_lacks_stops_the_source() {
    let Some(topic) = topic(2) else { return };
    topic.send_json(0, &["a0", "a1", "a2", "a3"]);
    topic.delete_records_below(0, 3);
    let overtaken = error_of(topic.open(&topic.progress(&[(0, 1)])));
    assert_says(&overtaken, &["partition 0", "stored offset is 1", "3..4", "deleted 2 records"]);
    let ahead = error_of(topic.open(&topic.progress(&[(0, 4), (1, 9)])));
    assert_says(&ahead, &["partition 1", "stored offset is 9", "0..0", "made anew"]);
    let fewer = error_of(topic.open(&topic.progress(&[(0, 4), (5, 0)])));
    assert_says(&fewer, &["partition 5", "has only 2"]);
    assert_eq!(offsets(&take(&mut topic.source(&topic.progress(&[(0, 3)])), 1)), [3]);
}

#[test]
fn a_topic_made_anew_under_way_stops_the_source() {
    let Some(topic) = topic(1) else { return };
    topic.send_json(0, &["a0", "a1", "a2"]);
    let mut source = topic.source(&ProgressMap::new());
    take(&mut source, 3);
    topic.delete();
    topic.create(1);
    topic.send_json(0, &["b0"]);
    assert_says(&take_error(&mut source), &["partition 0", "stored offset is 3", "0..1"]);
}

#[test]
fn a_topic_deleted_under_way_stops_the_source() {
    let Some(topic) = topic(1) else { return };
    topic.send_json(0, &["a0"]);
    // librdkafka believes in a topic for so long after it first heard of it; half a minute if not told.
    let properties = BTreeMap::from([("topic.metadata.propagation.max.ms".to_string(), "1000".to_string())]);
    let settings = KafkaSettings { properties, ..topic.settings() };
    let mut source = KafkaSource::open(&settings, Limits::default(), &ProgressMap::new()).expect("a source");
    take(&mut source, 1);
    topic.delete();
    assert_says(&take_error(&mut source), &["no topic", &topic.name]);
}

/// Needs no broker: the mock cluster of librdkafka comes and goes as it is told.
#[test]
fn a_broker_that_is_away_for_a_while_is_waited_for() {
    let cluster = MockCluster::new(1).expect("a mock cluster");
    cluster.create_topic("pages", 1, 1).expect("a topic");
    let brokers = cluster.bootstrap_servers();
    let producer: BaseProducer = ClientConfig::new().set("bootstrap.servers", &brokers).create().expect("a producer");
    let send = |value: &str| {
        Sent { value: Some(value), ..Sent::default() }.send(&producer, "pages", 0);
        producer.flush(PATIENCE).expect("a record delivered");
    };
    send("before");
    let settings = KafkaSettings { brokers, ..KafkaSettings::default() };
    let mut source = KafkaSource::open(&settings, Limits::default(), &ProgressMap::new()).expect("a source");
    assert_eq!(json_in(&take(&mut source, 1)[0]), "before");
    cluster.broker_down(1).expect("the broker down");
    for _ in 0..3 {
        assert_no_more(&mut source);
    }
    cluster.broker_up(1).expect("the broker up");
    send("after");
    let taken = take(&mut source, 1);
    assert_eq!((json_in(&taken[0]), taken[0].origin.offset), ("after", 1));
}

#[test]
fn lag_is_what_is_left_to_read() {
    let Some(topic) = topic(2) else { return };
    topic.send_json(0, &["a0", "a1", "a2"]);
    topic.send_json(1, &["b0"]);
    let mut source = topic.source(&topic.progress(&[(0, 1), (1, 0)]));
    assert_eq!(source.lag(), Some(3));
    take(&mut source, 3);
    assert_eq!(source.lag(), Some(0));
    // What comes later shows once librdkafka has heard of it, before it is taken.
    topic.send_json(1, &["b1", "b2"]);
    let until = Instant::now() + PATIENCE;
    let mut most = 0;
    let mut n_taken = 0;
    while n_taken < 2 {
        assert!(Instant::now() < until, "only {n_taken} records came");
        std::thread::sleep(Duration::from_millis(1_500));
        n_taken += usize::from(matches!(source.poll(TICK), Ok(Polled::Record(_))));
        most = most.max(source.lag().unwrap_or_default());
    }
    assert_eq!(most, 1, "one was left when the first was taken");
    wait_for_lag(&mut source, 0);
}

#[test]
fn only_committed_transactions_are_read_and_their_markers_are_no_lag() {
    let Some(topic) = topic(1) else { return };
    let producer: BaseProducer = topic.config().set("transactional.id", &topic.name).create().expect("a producer");
    producer.init_transactions(PATIENCE).expect("a producer id");
    for (value, commits) in [("kept", true), ("undone", false), ("kept too", true)] {
        producer.begin_transaction().expect("a transaction");
        Sent { value: Some(value), ..Sent::default() }.send(&producer, &topic.name, 0);
        producer.flush(PATIENCE).expect("a record delivered");
        let ended = if commits { producer.commit_transaction(PATIENCE) } else { producer.abort_transaction(PATIENCE) };
        ended.expect("an end");
    }
    let mut source = topic.source(&ProgressMap::new());
    let taken = take(&mut source, 2);
    assert_eq!(taken.iter().map(json_in).collect::<Vec<_>>(), ["kept", "kept too"]);
    assert_eq!(offsets(&taken), [0, 4]);
    wait_for_lag(&mut source, 0);
    let mut resumed = topic.source(&source.positions());
    assert_no_more(&mut resumed);
    wait_for_lag(&mut resumed, 0);
}

#[test]
fn lag_tools_are_told_and_nobody_else() {
    let Some(topic) = topic(1) else { return };
    topic.send_json(0, &["a0", "a1"]);
    let mut source = topic.source(&ProgressMap::new());
    take(&mut source, 2);
    assert_eq!(topic.group_offset(0), None);
    source.committed(&topic.progress(&[(0, 1)]));
    let until = Instant::now() + PATIENCE;
    while topic.group_offset(0) != Some(1) {
        assert!(Instant::now() < until, "nothing was committed");
        source.poll(TICK).expect("a source that goes on");
    }
    source.committed(&topic.progress(&[(0, 2)]));
    drop(source);
    assert_eq!(topic.group_offset(0), Some(2), "committed when dropped");
    assert_eq!(offsets(&take(&mut topic.source(&ProgressMap::new()), 2)), [0, 1], "never read");
}

fn event(seq: u64, key: Option<&str>) -> Outgoing {
    Outgoing { seq, key: key.map(String::from), json: format!(r#"{{"seq":{seq}}}"#).into_bytes() }
}

/// An event as anybody reads it.
#[derive(Debug, PartialEq)]
struct Seen {
    partition: i32,
    key: Option<String>,
    value: String,
    headers: BTreeMap<String, String>,
}

fn see(topic: &Topic, n_partitions: i32, n: usize) -> Vec<Seen> {
    let consumer: BaseConsumer = topic.config().set("group.id", "plain").create().expect("a consumer");
    let mut list = TopicPartitionList::new();
    for partition in 0..n_partitions {
        list.add_partition_offset(&topic.name, partition, Offset::Beginning).expect("an offset");
    }
    consumer.assign(&list).expect("an assignment");
    (0..n).map(|_| seen(&consumer.poll(PATIENCE).expect("an event").expect("no error"))).collect()
}

fn seen(message: &impl Message) -> Seen {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
    let headers = message.headers().expect("headers");
    Seen {
        partition: message.partition(),
        key: message.key().map(text),
        value: text(message.payload().expect("a value")),
        headers: headers
            .iter()
            .map(|header| (header.key.to_string(), text(header.value.expect("a header's value"))))
            .collect(),
    }
}

#[test]
fn events_go_out_in_order_with_their_headers() {
    let Some(topic) = topic(1) else { return };
    let mut sink = topic.sink();
    assert_eq!(sink.last_seq().expect("no error"), None);
    sink.publish(&[]).expect("nothing published");
    let keys = [Some("http://a/"), None, Some("http://b/")];
    let events: Vec<Outgoing> = (0..300).zip(keys.into_iter().cycle()).map(|(seq, key)| event(seq, key)).collect();
    sink.publish(&events[..100]).expect("published");
    sink.publish(&events[100..]).expect("published");
    for (seen, event) in see(&topic, 1, 300).iter().zip(&events) {
        assert_eq!(seen.key, event.key);
        assert_eq!(seen.value.as_bytes(), event.json);
        assert_eq!(seen.headers[SEQ_HEADER], event.seq.to_string());
        assert_eq!(seen.headers[VERSION_HEADER], WIRE_VERSION.to_string());
    }
}

#[test]
fn events_of_one_url_stay_in_order_in_one_partition() {
    let Some(topic) = topic(3) else { return };
    let keys: Vec<String> = (0..20).map(|n| format!("http://{n}/")).collect();
    let events: Vec<Outgoing> = (0..200).zip(keys.iter().cycle()).map(|(seq, key)| event(seq, Some(key))).collect();
    topic.sink().publish(&events).expect("published");
    let mut places: BTreeMap<String, Vec<(i32, u64)>> = BTreeMap::new();
    for seen in see(&topic, 3, 200) {
        let seq = seen.headers[SEQ_HEADER].parse().expect("a number");
        places.entry(seen.key.expect("a key")).or_default().push((seen.partition, seq));
    }
    assert_eq!(places.len(), 20);
    for of_key in places.values() {
        assert!(of_key.iter().all(|(partition, _)| *partition == of_key[0].0), "{of_key:?}");
        assert!(of_key.is_sorted() && of_key.len() == 10, "{of_key:?}");
    }
}

/// More than librdkafka's queue holds, so that publishing has to wait for room.
#[test]
fn a_full_queue_is_waited_for() {
    let Some(topic) = topic(1) else { return };
    let properties = BTreeMap::from([("queue.buffering.max.messages".to_string(), "10".to_string())]);
    let settings = KafkaSettings { properties, ..topic.sink_settings() };
    let events: Vec<Outgoing> = (0..200).map(|seq| event(seq, None)).collect();
    KafkaSink::open(&settings).expect("a sink").publish(&events).expect("published");
    assert_eq!(see(&topic, 1, 200)[199].headers[SEQ_HEADER], "199");
}

#[test]
fn an_event_that_is_not_delivered_is_an_error_and_the_next_ones_can_be() {
    let Some(topic) = topic(1) else { return };
    let mut sink = topic.sink();
    let too_large = Outgoing { json: vec![b' '; 2 << 20], ..event(1, None) };
    let error = sink.publish(&[event(0, None), too_large]).expect_err("too large");
    assert_says(&error.to_string(), &["event 1", &topic.name]);
    sink.publish(&[event(2, None)]).expect("published");
    let seen = see(&topic, 1, 2);
    assert_eq!([&seen[0].headers[SEQ_HEADER], &seen[1].headers[SEQ_HEADER]], ["0", "2"]);
}

#[test]
fn events_to_a_topic_that_went_away_are_an_error() {
    let Some(topic) = topic(1) else { return };
    let settings = KafkaSettings { delivery_ms_max: 3_000, ..topic.sink_settings() };
    let mut sink = KafkaSink::open(&settings).expect("a sink");
    topic.delete();
    let error = sink.publish(&[event(0, None)]).expect_err("no topic");
    assert_says(&error.to_string(), &["not delivered", &topic.name]);
}

/// The events in a topic's one partition, by their numbers, until they are `n` different ones: after a crash some may
/// be there twice.
fn see_events(topic: &Topic, n: usize) -> Vec<Event> {
    let consumer: BaseConsumer = topic.config().set("group.id", "plain").create().expect("a consumer");
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(&topic.name, 0, Offset::Beginning).expect("an offset");
    consumer.assign(&list).expect("an assignment");
    let mut events: BTreeMap<u64, Event> = BTreeMap::new();
    while events.len() < n {
        let value = seen(&consumer.poll(PATIENCE).expect("an event").expect("no error")).value;
        let event: Event = serde_json::from_str(&value).expect("an event");
        let earlier = events.insert(event.seq, event.clone());
        assert!(earlier.is_none_or(|earlier| earlier == event), "a repeated event is the same event");
    }
    events.into_values().collect()
}

/// Pages in one topic, events in another, the program between them killed and started again; then it is told to end.
#[test]
fn the_whole_way_through_a_broker() {
    let Some(pages) = topic(2) else { return };
    let events = topic(1).expect("a broker");
    let sample = harness::sweeps().into_iter().take(2).flat_map(|path| {
        let file = std::fs::File::open(path).expect("a sweep");
        let text = std::io::read_to_string(zstd::Decoder::new(file).expect("zstd")).expect("text");
        text.lines().map(String::from).collect::<Vec<_>>()
    });
    let (even, odd): (Vec<_>, Vec<_>) = sample.enumerate().partition(|(at, _)| at % 2 == 0);
    let (n_even, n_odd) = (even.len() as i64, odd.len() as i64);
    let n_records = even.len() + odd.len();
    for (partition, lines) in [(0, even), (1, odd)] {
        let lines: Vec<&str> = lines.iter().map(|(_, line)| line.as_str()).collect();
        pages.send_json(partition, &lines);
    }

    let world = harness::World::new()
        .with_config("kafka.toml")
        .with("kafka.brokers", &pages.brokers)
        .with("kafka.topic", &pages.name)
        .with("kafka.events_topic", &events.name)
        .with("kafka.group", format!("{}-group", pages.name))
        .with("metrics.listen", "")
        .with("pipeline.batch_records_max", 16);
    let start = || world.command("run -q").spawn().expect("the program starts");
    let mut killed = start();
    see_events(&events, 100);
    killed.kill().expect("killed");
    killed.wait().expect("ended");

    let mut process = start();
    let mut n_events = n_records;
    let told = loop {
        let told = see_events(&events, n_events);
        let n_merged = told.iter().filter(|event| !event.kind.is_terminal()).count();
        if n_events == n_records + n_merged {
            break told;
        }
        n_events = n_records + n_merged;
    };
    let ended = std::process::Command::new("kill").arg(process.id().to_string()).status().expect("kill");
    assert!(ended.success());
    assert_eq!(process.wait().expect("ended").code(), Some(0), "SIGTERM ends it in good order");

    let mut by_partition: BTreeMap<i32, Vec<Event>> = BTreeMap::new();
    told.iter().for_each(|event| by_partition.entry(event.partition).or_default().push(event.clone()));
    for (partition, n) in [(0, n_even), (1, n_odd)] {
        let offsets: Vec<i64> = by_partition[&partition]
            .iter()
            .filter(|event| event.kind.is_terminal())
            .map(|event| event.offset)
            .collect();
        assert_eq!(offsets, (0..n).collect::<Vec<i64>>(), "partition {partition}: each record once, in order");
    }
    assert!(told.iter().enumerate().all(|(at, event)| event.seq == at as u64));
    let from_files = harness::World::new();
    from_files.run(&harness::sweeps()[..2]);
    assert_eq!(world.partition(), from_files.partition());
    assert_eq!(harness::fold(&told), from_files.partition());
}
