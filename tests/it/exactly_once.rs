//! The promises of Kafka output, against a real broker: every event once, whichever process dies, and one publisher
//! only.
//!
//! ```sh
//! deploy/kafka-local.sh start
//! LOOKALIKE_TEST_KAFKA=127.0.0.1:19092 cargo test --release --test it exactly_once
//! ```
//! Without the variable, every test passes without a check, and says so.

use crate::harness::broker::proxy::Proxy;
use crate::harness::broker::*;
use lookalike::kafka::{KafkaSettings, KafkaSink, Publishing, SEQ_HEADER, STORE_HEADER, VERSION_HEADER, dead_letter};
use lookalike::ports::{Outgoing, OutputNotes, Sink, SinkError, StopReason};
use lookalike::wire::{Event, EventType, Message, MessageFault, WIRE_VERSION};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use std::collections::{BTreeMap, HashMap};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime};

/// Settings that publish events to this topic, and nothing else.
fn events_only(topic: &Topic) -> KafkaSettings {
    KafkaSettings { topic: "elsewhere".into(), events_topic: topic.name.clone(), ..topic.settings() }
}

fn open_sink(settings: &KafkaSettings, store: &str, next_seq: u64) -> Result<KafkaSink, SinkError> {
    open_sink_since(SystemTime::now(), settings, store, next_seq)
}

fn open_sink_since(
    begun: SystemTime,
    settings: &KafkaSettings,
    store: &str,
    next_seq: u64,
) -> Result<KafkaSink, SinkError> {
    let publishing = Publishing {
        store,
        next_seq,
        published: 0,
        has_pages: false,
        has_merged: false,
        outputs: OutputNotes::new(),
        started_at: begun,
    };
    KafkaSink::open(settings, &publishing, Arc::new(AtomicBool::new(false)))
}

/// A sink for the store that has the topic's name.
fn sink(topic: &Topic, next_seq: u64) -> KafkaSink {
    open_sink(&events_only(topic), &topic.name, next_seq).expect("a sink")
}

fn refusal(opened: Result<KafkaSink, SinkError>) -> SinkError {
    opened.err().expect("a refusal")
}

fn event(seq: u64, key: Option<&str>) -> Outgoing {
    Outgoing::new(seq, key.map(String::from), format!(r#"{{"seq":{seq}}}"#).into_bytes())
}

fn events(seqs: std::ops::Range<u64>) -> Vec<Outgoing> {
    seqs.map(|seq| event(seq, Some(&format!("http://{}/", seq % 20)))).collect()
}

fn seqs(topic: &Topic) -> Vec<u64> {
    let mut seqs: Vec<u64> = see_all(&topic.brokers, &topic.name).iter().map(Seen::seq).collect();
    seqs.sort_unstable();
    seqs
}

fn all(until: u64) -> Vec<u64> {
    (0..until).collect()
}

#[test]
fn events_go_out_in_order_with_their_headers() {
    let Some(topic) = topic(1) else { return };
    let mut sink = sink(&topic, 0);
    assert_eq!(sink.last_seq().expect("no error"), None);
    sink.publish(&[]).expect("nothing published");
    let keys = [Some("http://a/"), None, Some("http://b/")];
    let events: Vec<Outgoing> = (0..300).zip(keys.into_iter().cycle()).map(|(seq, key)| event(seq, key)).collect();
    sink.publish(&events[..100]).expect("published");
    sink.publish(&events[100..]).expect("published");
    assert_eq!(sink.last_seq().expect("no error"), Some(299));
    let seen = see_all(&topic.brokers, &topic.name);
    assert_eq!(seen.len(), 300);
    for (seen, event) in seen.iter().zip(&events) {
        assert_eq!(seen.key, event.key);
        assert_eq!(seen.text().as_bytes(), event.json);
        assert_eq!(seen.header(SEQ_HEADER), Some(event.seq.to_string().as_str()));
        assert_eq!(seen.header(STORE_HEADER), Some(topic.name.as_str()));
        assert_eq!(seen.header(VERSION_HEADER), Some(WIRE_VERSION.to_string().as_str()));
    }
}

#[test]
fn events_of_one_url_stay_in_order_in_one_partition() {
    let Some(topic) = topic(3) else { return };
    sink(&topic, 0).publish(&events(0..200)).expect("published");
    let mut places: BTreeMap<String, Vec<(i32, u64)>> = BTreeMap::new();
    for seen in see_all(&topic.brokers, &topic.name) {
        places.entry(seen.key.clone().expect("a key")).or_default().push((seen.partition, seen.seq()));
    }
    assert_eq!(places.len(), 20);
    for of_key in places.values() {
        assert!(of_key.iter().all(|(partition, _)| *partition == of_key[0].0), "{of_key:?}");
        assert!(of_key.is_sorted() && of_key.len() == 10, "{of_key:?}");
    }
}

/// More events than librdkafka's queue holds, so that publishing must wait for room.
#[test]
fn a_full_queue_is_waited_for() {
    let Some(topic) = topic(1) else { return };
    let properties = BTreeMap::from([("queue.buffering.max.messages".to_string(), "10".to_string())]);
    let settings = KafkaSettings { properties, ..events_only(&topic) };
    open_sink(&settings, &topic.name, 0).expect("a sink").publish(&events(0..200)).expect("published");
    assert_eq!(seqs(&topic), all(200));
}

#[test]
fn a_missing_topic_and_an_unreachable_broker_are_told() {
    let Some(topic) = topic(1) else { return };
    let missing = refusal(open_sink(&topic.settings(), "s", 0));
    assert_says(&missing.message, &["-events", "lookalike topics create", "kafka.events_topic"]);
    let nobody = KafkaSettings { brokers: "127.0.0.1:1".into(), connect_ms_max: 1_500, ..events_only(&topic) };
    let begin = Instant::now();
    let unreachable = refusal(open_sink(&nobody, "s", 0));
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    assert_eq!(unreachable.stop_reason, StopReason::Unreachable);
    assert_says(&unreachable.message, &["127.0.0.1:1", "kafka.brokers", "Connection refused"]);
}

#[test]
fn the_tail_is_found_in_any_partition_and_behind_whatever_was_aborted() {
    let Some(topic) = topic(3) else { return };
    sink(&topic, 0).publish(&events(0..50)).expect("published");
    assert_eq!(sink(&topic, 50).last_seq().expect("no error"), Some(49));
    // Each partition ends with a long row of events from aborted transactions.
    let undone: BaseProducer =
        topic.config().set("transactional.id", format!("{}-undone", topic.name)).create().expect("a producer");
    undone.init_transactions(PATIENCE).expect("a producer id");
    for _ in 0..3 {
        undone.begin_transaction().expect("a transaction");
        for at in 0..6_000 {
            let headers = OwnedHeaders::new()
                .insert(Header { key: SEQ_HEADER, value: Some("999") })
                .insert(Header { key: STORE_HEADER, value: Some(&topic.name) });
            let record: BaseRecord<'_, str, str> =
                BaseRecord::to(&topic.name).partition(at % 3).payload("x").headers(headers);
            undone.send(record).map_err(|(error, _)| error).expect("queued");
        }
        undone.flush(PATIENCE).expect("delivered");
        undone.abort_transaction(PATIENCE).expect("aborted");
    }
    assert_eq!(sink(&topic, 50).last_seq().expect("no error"), Some(49));
    assert_eq!(seqs(&topic), all(50));
}

#[test]
fn a_dead_owners_half_batch_is_never_seen_and_goes_out_again() {
    let Some(topic) = topic(2) else { return };
    sink(&topic, 0).publish(&events(0..10)).expect("published");
    // A process killed between its last message and the end of the transaction leaves this behind.
    let dead: BaseProducer =
        topic.config().set("transactional.id", format!("lookalike-{}", topic.name)).create().expect("a producer");
    dead.init_transactions(PATIENCE).expect("a producer id");
    dead.begin_transaction().expect("a transaction");
    for event in events(10..20) {
        let seq = event.seq.to_string();
        let headers = OwnedHeaders::new()
            .insert(Header { key: SEQ_HEADER, value: Some(&seq) })
            .insert(Header { key: STORE_HEADER, value: Some(&topic.name) });
        let record: BaseRecord<'_, str, [u8]> =
            BaseRecord::to(&topic.name).key("http://1/").payload(&event.json[..]).headers(headers);
        dead.send(record).map_err(|(error, _)| error).expect("queued");
    }
    dead.flush(PATIENCE).expect("delivered");
    let mut heir = sink(&topic, 20);
    assert_eq!(heir.last_seq().expect("no error"), Some(9), "the half batch was undone");
    heir.publish(&events(10..20)).expect("published");
    assert_eq!(seqs(&topic), all(20));
    assert!(dead.commit_transaction(PATIENCE).is_err(), "the dead one was fenced");
    assert_eq!(seqs(&topic), all(20));
}

#[test]
fn who_is_fenced_stops_and_publishes_nothing() {
    let Some(topic) = topic(1) else { return };
    let mut zombie = sink(&topic, 0);
    zombie.publish(&events(0..5)).expect("published");
    let mut owner = sink(&topic, 5);
    let fenced = zombie.publish(&events(5..8)).expect_err("fenced");
    assert_eq!(fenced.stop_reason, StopReason::Fenced, "{fenced}");
    owner.publish(&events(5..10)).expect("the owner goes on");
    assert_eq!(zombie.publish(&events(5..8)).expect_err("fenced").stop_reason, StopReason::Fenced);
    owner.publish(&events(10..12)).expect("nobody fenced the owner");
    assert_eq!(seqs(&topic), all(12));
}

/// Lost once: a publisher was suspended until its connections broke, so it could not learn that it was fenced. It
/// took a new epoch and fenced its successor; then both stopped.
#[test]
fn who_cannot_ask_whether_it_is_fenced_fences_nobody() {
    let Some(topic) = topic(1) else { return };
    let (host, port) = topic.brokers.rsplit_once(':').expect("a port");
    let proxy = Proxy::start(port.parse().expect("a number"));
    let settings = KafkaSettings { brokers: format!("{host}:{}", proxy.port), ..events_only(&topic) };
    let mut zombie = open_sink(&settings, &topic.name, 0).expect("a sink");
    zombie.publish(&events(0..5)).expect("published");
    let mut owner = sink(&topic, 5);
    proxy.hold(true);
    std::thread::scope(|scope| {
        let publishing = scope.spawn(|| zombie.publish(&events(5..8)));
        // Longer than a message is retried, and longer than one attempt to abort once took.
        std::thread::sleep(Duration::from_secs(14));
        proxy.hold(false);
        assert_eq!(publishing.join().expect("no panic").expect_err("fenced").stop_reason, StopReason::Fenced);
    });
    owner.publish(&events(5..10)).expect("the owner goes on");
    assert_eq!(seqs(&topic), all(10));
}

/// Lost once: a process suspended during its start took the output over from its successor, or stopped as if its
/// store were an old copy.
#[test]
fn an_output_that_moved_on_since_the_process_began_tells_of_another_one() {
    let Some(topic) = topic(1) else { return };
    let begun = SystemTime::now() - Duration::from_secs(1);
    let mut owner = sink(&topic, 0);
    owner.publish(&events(0..10)).expect("published");
    let late = open_sink_since(begun, &events_only(&topic), &topic.name, 5);
    assert_eq!(refusal(late).stop_reason, StopReason::Fenced);
    owner.publish(&events(10..12)).expect("nobody fenced the owner");
}

#[test]
fn an_older_copy_and_another_store_are_refused_and_nobody_is_fenced() {
    let Some(topic) = topic(2) else { return };
    let mut owner = sink(&topic, 0);
    owner.publish(&events(0..10)).expect("published");
    let settings = events_only(&topic);
    let older = refusal(open_sink(&settings, &topic.name, 10 - 1));
    assert_eq!(older.stop_reason, StopReason::OldStore);
    assert_says(&older.message, &["up to 9", "before 9", "lookalike follow --once", "replay"]);
    let other = refusal(open_sink(&settings, "another", 100));
    assert_eq!(other.stop_reason, StopReason::OldStore);
    assert_says(&other.message, &["another store", &topic.name]);
    owner.publish(&events(10..12)).expect("nobody fenced the owner");
    assert_eq!(seqs(&topic), all(12));
}

#[test]
fn a_topic_of_something_else_is_refused() {
    let Some(topic) = topic(1) else { return };
    topic.send_json(0, &["{}"]);
    let refused = refusal(open_sink(&events_only(&topic), "s", 0));
    assert_says(&refused.message, &["offset 0", "no event of ours"]);
}

/// Incompressible bytes.
fn noise(n: usize) -> Vec<u8> {
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..n).map(|_| next()).collect()
}

#[test]
fn an_event_that_the_broker_refuses_is_told_and_none_of_its_batch_is_seen() {
    let Some(topic) = topic(1) else { return };
    let mut sink = sink(&topic, 0);
    let too_large = Outgoing { json: noise(20 << 20), ..event(1, None) };
    let error = sink.publish(&[event(0, None), too_large]).expect_err("too large");
    assert_eq!(error.stop_reason, StopReason::Failed);
    assert_says(&error.message, &["event 1", &topic.name]);
    assert!(seqs(&topic).is_empty());
    // A second attempt with events that fit publishes them once.
    self::sink(&topic, 2).publish(&[event(0, None), event(1, None)]).expect("published");
    assert_eq!(seqs(&topic), all(2));
}

#[test]
fn brokers_that_are_gone_are_an_error_within_the_limit() {
    let Some(topic) = topic(1) else { return };
    let settings = KafkaSettings { delivery_ms_max: 3_000, connect_ms_max: 1_000, ..events_only(&topic) };
    let mut sink = open_sink(&settings, &topic.name, 0).expect("a sink");
    topic.delete();
    let begin = Instant::now();
    let error = sink.publish(&[event(0, None)]).expect_err("no topic");
    assert!(begin.elapsed() < Duration::from_secs(25), "{:?}", begin.elapsed());
    assert_says(&error.message, &[&topic.name]);
}

/// Topics for everything that the program publishes.
struct OutputTopics {
    pages: Topic,
    events: Topic,
    assignments: Topic,
    merges: Topic,
    dead_letters: Topic,
}

impl OutputTopics {
    fn new(n_partitions: i32) -> Option<Self> {
        Self::with_letters_of(1 << 20, n_partitions)
    }

    /// The topic of dead letters takes messages of so many bytes at most.
    fn with_letters_of(bytes_max: usize, n_partitions: i32) -> Option<Self> {
        let (pages, events) = (topic(n_partitions)?, topic(n_partitions)?);
        let (assignments, merges) = (topic(n_partitions)?, topic(n_partitions)?);
        let dead_letters = Topic { brokers: pages.brokers.clone(), name: format!("{}.dlq", pages.name) };
        dead_letters.create_for(1, bytes_max);
        Some(OutputTopics { pages, events, assignments, merges, dead_letters })
    }

    fn settings(&self) -> KafkaSettings {
        KafkaSettings {
            events_topic: self.events.name.clone(),
            assignments_topic: self.assignments.name.clone(),
            merges_topic: self.merges.name.clone(),
            dead_letters: true,
            ..self.pages.settings()
        }
    }

    fn world(&self) -> crate::harness::World {
        crate::harness::World::new()
            .with_config("kafka.toml")
            .with("kafka.brokers", &self.pages.brokers)
            .with("kafka.topic", &self.pages.name)
            .with("kafka.events_topic", &self.events.name)
            .with("kafka.assignments_topic", &self.assignments.name)
            .with("kafka.merges_topic", &self.merges.name)
            .with("kafka.group", format!("{}-group", self.pages.name))
            .with("metrics.listen", "")
            .with("log.level", "warn")
    }

    /// All events by number; fails if a number is repeated or stays missing. A transaction reaches the partitions one after
    /// the other, and they are read one after the other: while a process publishes, a number may be missing for a moment.
    fn events(&self) -> Vec<Event> {
        let until = Instant::now() + PATIENCE;
        loop {
            let mut seen = see_all(&self.events.brokers, &self.events.name);
            for pair in seen.windows(2) {
                assert!(
                    pair[0].partition != pair[1].partition || pair[0].seq() < pair[1].seq(),
                    "numbers rise: {pair:?}"
                );
            }
            seen.sort_by_key(Seen::seq);
            let numbers: Vec<u64> = seen.iter().map(Seen::seq).collect();
            assert!(numbers.is_sorted_by(|a, b| a < b), "each event once: {numbers:?}");
            if numbers == all(numbers.len() as u64) {
                return seen.iter().map(|seen| serde_json::from_str(seen.text()).expect("an event")).collect();
            }
            assert!(Instant::now() < until, "no event missing: {numbers:?}");
        }
    }

    /// Waits until every record has its terminal event.
    fn await_events(&self, n_records: usize) -> Vec<Event> {
        let until = Instant::now() + PATIENCE;
        loop {
            let events = self.events();
            let n_terminal = events.iter().filter(|event| event.kind().is_terminal()).count();
            if n_terminal >= n_records {
                return events;
            }
            assert!(Instant::now() < until, "only {n_terminal} of {n_records} records have their events");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The clusters according to the two compacted topics: URL → cluster.
    fn present(&self) -> BTreeMap<String, u64> {
        let mut winners: HashMap<u64, u64> = HashMap::new();
        for seen in see_all(&self.merges.brokers, &self.merges.name) {
            let value: serde_json::Value = serde_json::from_str(seen.text()).expect("JSON");
            let loser = seen.key.expect("a key").parse().expect("a cluster");
            assert_eq!(value["loser"], loser);
            assert!(winners.insert(loser, value["winner"].as_u64().expect("a cluster")).is_none(), "merged once");
        }
        let mut clusters = BTreeMap::new();
        for seen in see_all(&self.assignments.brokers, &self.assignments.name) {
            let url = seen.key.clone().expect("a key");
            let Some(value) = &seen.value else {
                clusters.remove(&url);
                continue;
            };
            let value: serde_json::Value = serde_json::from_str(value).expect("JSON");
            assert_eq!(value["url"], *url);
            let mut cluster = value["cluster"].as_u64().expect("a cluster");
            while let Some(winner) = winners.get(&cluster) {
                cluster = *winner;
            }
            clusters.insert(url, cluster);
        }
        clusters
    }
}

/// Asserts that the compacted topics hold the store's present state: no more, no less, and every field.
fn assert_present(outputs: &OutputTopics, world: &crate::harness::World) -> PresentState {
    let told = present_in_topics(&outputs.pages.brokers, &outputs.assignments.name, &outputs.merges.name);
    assert_eq!(
        told,
        present_in_table(&world.ask("export present", &[])),
        "the compacted topics tell the present state"
    );
    told
}

/// Runs the program until all records have their events.
fn take_in(outputs: &OutputTopics, world: &crate::harness::World, n_records: usize) {
    let mut process = start(world);
    outputs.await_events(n_records);
    assert_eq!(terminate(&mut process).0, Some(0));
}

fn text_of(family: &str) -> String {
    (0..30).map(|at| format!("{family}{at} ")).collect()
}

/// A record of a URL that is gone since `time`.
fn gone(url: &str, fetched_at: &str, sweep: &str) -> String {
    serde_json::json!({"url": url, "fetched_at": fetched_at, "sweep": sweep, "body": null}).to_string()
}

/// Lost if this fails: who reads the compacted topic keeps pages that were to be forgotten.
#[test]
fn forgotten_pages_leave_the_compacted_topic() {
    let Some(outputs) = OutputTopics::new(2) else { return };
    let time = "2026-01-01T00:00:00Z";
    let page = |url: &str, time: &str, family: &str| crate::harness::page(url, time, "january", &text_of(family));
    let send = |lines: &[String]| outputs.pages.send_json(0, &lines.iter().map(String::as_str).collect::<Vec<_>>());
    let world = outputs.world();
    send(&[page("http://a/", time, "a"), page("http://copy/", time, "a"), page("http://b/", time, "b")]);
    take_in(&outputs, &world, 3);
    world.ask("forget", &["http://a/"]);
    let publish = |url: &str| {
        let process = start(&world);
        let until = Instant::now() + PATIENCE;
        let is_told = |event: &Event| event.kind() == EventType::Forgotten && event.url.as_deref() == Some(url);
        while !outputs.events().iter().any(is_told) {
            assert!(Instant::now() < until, "no event tells that {url} is forgotten");
        }
        kill(process);
    };
    publish("http://a/");
    // The kill may have come before the state followed the event.
    take_in(&outputs, &world, 3);
    let present = assert_present(&outputs, &world);
    assert_eq!(present.keys().map(String::as_str).collect::<Vec<_>>(), ["http://b/", "http://copy/"]);
    let of_a = |seen: &Seen| seen.key.as_deref() == Some("http://a/");
    let assignments = see_all(&outputs.assignments.brokers, &outputs.assignments.name);
    assert!(assignments.iter().rfind(|seen| of_a(seen)).expect("a record").value.is_none(), "a tombstone comes last");
    // Each event went out once, and a page that comes back is new.
    let n_events = outputs.events().len();
    send(&[page("http://a/", "2026-02-01T00:00:00Z", "new")]);
    take_in(&outputs, &world, 4);
    assert_eq!(outputs.events()[n_events..].iter().map(Event::kind).collect::<Vec<_>>(), [EventType::Assigned]);
    assert_eq!(assert_present(&outputs, &world).len(), 3);
}

/// Lost once: the present of every URL with a late record. A page fetched in June, followed by the page of January,
/// left January's in the compacted topic; a late 404 recorded that the URL had no page. With 3 % of late records, 346
/// of 7,224 URLs were wrong. The consumer example must be right, too.
#[test]
fn what_comes_late_changes_nothing_that_stands() {
    let Some(outputs) = OutputTopics::new(2) else { return };
    let (early, late, last) = ("2026-01-01T00:00:00Z", "2026-06-01T00:00:00.5Z", "2026-09-01T00:00:00Z");
    let page =
        |url: &str, time: &str, sweep: &str, family: &str| crate::harness::page(url, time, sweep, &text_of(family));
    let moved = |url: &str, time: &str| {
        serde_json::json!({"url": url, "fetched_at": time, "http_status": 301, "redirect_to": "http://new/"})
            .to_string()
    };
    let send = |lines: &[String]| outputs.pages.send_json(0, &lines.iter().map(String::as_str).collect::<Vec<_>>());
    let world = outputs.world().with("pipeline.batch_records_max", 2);
    send(&[
        page("http://a/", late, "june", "new"),
        page("http://a/", early, "january", "old"),
        page("http://b/", late, "june", "b"),
        gone("http://b/", early, "january"),
        gone("http://c/", late, "june"),
        page("http://c/", early, "january", "c"),
        moved("http://d/", late),
        page("http://d/", early, "january", "d"),
        page("http://e/", late, "june", "e"),
        moved("http://e/", early),
        // At the same time, a page wins over a mark, and of two pages the later document wins, in either order of
        // arrival.
        page("http://f/", late, "june", "f"),
        gone("http://f/", late, "june"),
        page("http://g/", late, "june", "g"),
        page("http://g/", late, "june", "b"),
        page("http://only/", early, "january", "only"),
        page("http://h/2", early, "january", "h"),
    ]);
    take_in(&outputs, &world, 16);
    let present = assert_present(&outputs, &world);
    assert_eq!(present["http://a/"][0], late);
    let urls: Vec<&str> = present.keys().map(String::as_str).collect();
    let stand = ["http://a/", "http://b/", "http://e/", "http://f/", "http://g/", "http://h/2", "http://only/"];
    assert_eq!(urls, stand);

    // A sweep is closed without two of the URLs. Then one of its pages arrives, fetched before the URL's first known
    // page. It undoes one of the two marks, and the URL's present is neither that page nor the mark.
    send(&[page("http://h/1", last, "september", "h1"), page("http://only/2", last, "september", "o2")]);
    take_in(&outputs, &world, 18);
    world.ask("sweep close", &["september"]);
    let present = assert_present(&outputs, &world);
    assert!(!present.contains_key("http://only/") && !present.contains_key("http://h/2"));
    send(&[page("http://only/", "2025-12-31T00:00:00Z", "september", "older"), gone("http://h/2", early, "another")]);
    take_in(&outputs, &world, 20);
    let present = assert_present(&outputs, &world);
    assert_eq!(present["http://only/"][..2], [early, "january"], "the newest that is not undone");
    assert!(!present.contains_key("http://h/2"), "a late record of another sweep undoes nothing");
    assert_consumer_agrees(&outputs, &world);
}

/// Asserts that the consumer example shows the store's present state.
fn assert_consumer_agrees(outputs: &OutputTopics, world: &crate::harness::World) {
    if !python("import confluent_kafka").status().is_ok_and(|status| status.success()) {
        eprintln!("not looked at: there is no Python with the package confluent-kafka");
        return;
    }
    let state = world.path("present.sqlite");
    assert_says(&consume(outputs, &state, "--until-end"), &["0 dropped"]);
    let stored = present_in_table(&world.ask("export present", &[]));
    let clusters: BTreeMap<String, u64> =
        stored.into_iter().map(|(url, [.., cluster])| (url, cluster.parse().expect("a cluster"))).collect();
    assert_eq!(shown(&consume(outputs, &state, "--show")), clusters);
}

/// The output of the consumer example.
fn consume(outputs: &OutputTopics, state: &std::path::Path, option: &str) -> String {
    let output = std::process::Command::new("python3")
        .arg(crate::harness::root().join("deploy/consumer.py"))
        .args(["--brokers", &outputs.events.brokers, "--topic", &outputs.events.name, option, "--state"])
        .arg(state)
        .output()
        .expect("starts");
    assert!(output.status.success(), "{}", crate::harness::text(&output.stderr));
    crate::harness::text(&output.stdout)
}

fn shown(lines: &str) -> BTreeMap<String, u64> {
    let columns = lines.lines().map(|line| line.split_once('\t').expect("two columns"));
    columns.map(|(cluster, url)| (url.to_string(), cluster.parse().expect("a cluster"))).collect()
}

/// Lost once: topics that were deleted and recreated, or renamed, held part of the state, and no message said so. The
/// advice after exit 12 led straight there.
#[test]
fn topics_that_lack_the_state_are_told_and_filled_from_the_store() {
    let Some(outputs) = OutputTopics::new(2) else { return };
    let counts = send_sample(&outputs.pages);
    // The third page shares one half with each of the others, and merges their clusters.
    for (at, words) in [0..40, 20..60, 10..50].into_iter().enumerate() {
        let text: String = words.map(|word| format!("w{word} ")).collect();
        let page = crate::harness::page(&format!("http://merged/{at}"), "2026-11-21T08:00:00Z", "s", &text);
        outputs.pages.send_json(0, &[&page]);
    }
    let n_records = (counts[0] + counts[1]) as usize + 3;
    let world = outputs.world();
    take_in(&outputs, &world, n_records);
    let whole = assert_present(&outputs, &world);
    assert!(!see_all(&outputs.merges.brokers, &outputs.merges.name).is_empty());
    for topic in [&outputs.assignments, &outputs.merges] {
        topic.delete();
        topic.create(3);
    }
    outputs.pages.send_json(0, &[&gone("http://nowhere/", "2026-11-21T00:00:00Z", "s")]);
    let log = world.path("log");
    let file = std::fs::File::create(&log).expect("a log");
    let mut process = world.command("run -q").stderr(file).spawn().expect("starts");
    outputs.await_events(n_records + 1);
    assert_eq!(terminate(&mut process).0, Some(0));
    let warned = std::fs::read_to_string(&log).expect("a log");
    assert_says(&warned, &["part of the present state", "topics republish assignments", "topics republish merges"]);
    let filled = world.ask("topics republish", &[]);
    assert_says(&filled, &[&outputs.assignments.name, &outputs.merges.name]);
    assert_eq!(assert_present(&outputs, &world), whole);
    // The warning is not repeated, and later events are published once.
    outputs.pages.send_json(0, &["{}"]);
    let mut process =
        world.command("run -q").stderr(std::fs::File::create(&log).expect("a log")).spawn().expect("starts");
    outputs.await_events(n_records + 2);
    assert_eq!(terminate(&mut process).0, Some(0));
    assert_eq!(std::fs::read_to_string(&log).expect("a log"), "");
    assert_present(&outputs, &world);
    // Writing the state again changes nothing.
    world.ask("topics republish assignments", &[]);
    assert_eq!(assert_present(&outputs, &world), whole);
    // The clusters come apart again, and one URL shows an older page that arrived late.
    outputs
        .pages
        .send_json(0, &[&crate::harness::page("http://merged/2", "2025-11-21T08:00:00Z", "s", &text_of("late"))]);
    take_in(&outputs, &world, n_records + 3);
    world.ask("recluster --threshold 0.99 --apply", &["--out", &world.path("strict.csv").display().to_string()]);
    outputs.pages.send_json(0, &["{}"]);
    take_in(&outputs, &world, n_records + 4);
    assert_ne!(assert_present(&outputs, &world), whole);
    assert_consumer_agrees(&outputs, &world);
}

/// Lost once: published events whose topic was lost. The store still had them, and dropped them at the next start.
#[test]
fn events_that_the_store_still_has_go_into_a_new_topic() {
    let Some(outputs) = OutputTopics::new(1) else { return };
    let world = outputs.world().with("pipeline.batch_records_max", 4);
    let page = |at: usize| {
        crate::harness::page(&format!("http://{at}/"), "2026-11-21T08:00:00Z", "s", &text_of(&format!("p{at}")))
    };
    let send = |range: std::ops::Range<usize>| {
        let pages: Vec<String> = range.map(page).collect();
        outputs.pages.send_json(0, &pages.iter().map(String::as_str).collect::<Vec<_>>());
    };
    send(0..20);
    let process = start(&world);
    let told = outputs.await_events(20);
    kill(process);
    outputs.events.delete();
    outputs.events.create(1);
    let refused = world.command("run -q").output().expect("starts");
    assert_eq!(refused.status.code(), Some(1));
    let why = crate::harness::text(&refused.stderr);
    let kept_from: usize = why
        .rsplit_once("events-from ")
        .and_then(|(_, rest)| rest.split('`').next()?.parse().ok())
        .unwrap_or_else(|| panic!("no advice: {why}"));
    let republish =
        |from: usize| world.command(&format!("topics republish events-from {from}")).output().expect("starts");
    if kept_from > 0 {
        let older = republish(kept_from - 1);
        assert_eq!(older.status.code(), Some(4));
        assert_says(&crate::harness::text(&older.stderr), &[&format!("has only events {kept_from}")]);
    }
    let done = republish(kept_from);
    assert!(done.status.success(), "{}", crate::harness::text(&done.stderr));
    let again = republish(kept_from);
    assert!(matches!(again.status.code(), Some(2 | 4)), "{}", crate::harness::text(&again.stderr));
    send(20..25);
    let mut process = start(&world);
    let until = Instant::now() + PATIENCE;
    let events = || -> Vec<Event> {
        let seen = see_all(&outputs.events.brokers, &outputs.events.name);
        seen.iter().map(|seen| serde_json::from_str(seen.text()).expect("an event")).collect()
    };
    while events().iter().filter(|event| event.kind().is_terminal()).count() < 25 - kept_from {
        assert!(Instant::now() < until, "no events come");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(terminate(&mut process).0, Some(0));
    let events = events();
    assert_eq!(events[..20 - kept_from], told[kept_from..], "they kept their numbers and bytes");
    assert!(events.windows(2).all(|pair| pair[0].seq + 1 == pair[1].seq), "each once");
    assert_present(&outputs, &world);
}

/// Wrong once: a store restored from before its first record was taken for a new one, and the advice was to start over.
#[test]
fn a_copy_from_before_the_first_record_is_an_older_copy() {
    let Some(outputs) = OutputTopics::new(1) else { return };
    let world = outputs.world();
    // The store is there, and has read nothing of the topic.
    let empty = world.write("empty.jsonl", "");
    let made = world.command("run -q").env("LOOKALIKE__INPUT__FROM", "files").arg(empty).output().expect("starts");
    assert!(world.path("store").exists(), "{}", crate::harness::text(&made.stderr));
    let backup = world.path("backup").display().to_string();
    world.ask("backup -q", &[&backup]);
    outputs.pages.send_json(0, &[&crate::harness::page("http://a/", "2026-11-21T08:00:00Z", "s", &text_of("a"))]);
    take_in(&outputs, &world, 1);
    std::fs::remove_dir_all(world.path("store")).expect("removed");
    world.ask("restore -q", &[&backup]);
    let refused = world.command("run -q").output().expect("starts");
    let why = crate::harness::text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(12), "{why}");
    assert_says(&why, &["older copy", "lookalike follow --once"]);
    // A new store is still one.
    std::fs::remove_dir_all(world.path("store")).expect("removed");
    let refused = world.command("run -q").output().expect("starts");
    assert_eq!(refused.status.code(), Some(15), "{}", crate::harness::text(&refused.stderr));
}

/// Lost once: added partitions silently moved the keys of a compacted topic. The old state stayed in the old
/// partitions for ever, beside the new.
#[test]
fn more_partitions_of_a_compacted_topic_are_refused() {
    let Some(outputs) = OutputTopics::new(2) else { return };
    let world = outputs.world();
    outputs.pages.send_json(0, &[&crate::harness::page("http://a/", "2026-11-21T08:00:00Z", "s", &text_of("a"))]);
    take_in(&outputs, &world, 1);
    let again = world.command("run -q").stderr(std::process::Stdio::piped()).spawn();
    let mut again = again.expect("starts");
    outputs.pages.send_json(0, &["{}"]);
    outputs.await_events(2);
    assert_eq!(terminate(&mut again).0, Some(0));
    let told = crate::harness::text(&again.wait_with_output().expect("its log").stderr);
    assert_eq!(told, "", "clusters that never merged leave an empty topic, and that is as it should be");
    outputs.assignments.add_partitions(3);
    let refused = world.command("run -q").output().expect("starts");
    assert_eq!(refused.status.code(), Some(1));
    let parts = ["3 partitions, and had 2", "kafka.assignments_topic", "topics republish assignments"];
    assert_says(&crate::harness::text(&refused.stderr), &parts);
    let looked_at = world.command("topics create").output().expect("starts");
    assert_eq!(looked_at.status.code(), Some(1));
    assert_says(&crate::harness::text(&looked_at.stdout), &["has 3 partitions, and had 2"]);
    // A recreated topic holds nothing in a wrong partition.
    outputs.assignments.delete();
    outputs.assignments.create(3);
    world.ask("topics republish", &["assignments"]);
    assert_present(&outputs, &world);
    outputs.events.add_partitions(3);
    let log = world.path("log");
    let mut process =
        world.command("run -q").stderr(std::fs::File::create(&log).expect("a log")).spawn().expect("starts");
    outputs.pages.send_json(0, &["{}"]);
    outputs.await_events(3);
    assert_eq!(terminate(&mut process).0, Some(0));
    assert_says(&std::fs::read_to_string(&log).expect("a log"), &["has 3 partitions, and had 2", "lookalike-seq"]);
}

fn start(world: &crate::harness::World) -> Child {
    world.command("run -q").spawn().expect("the program starts")
}

fn kill(mut process: Child) {
    process.kill().expect("killed");
    process.wait().expect("ended");
}

/// Stops the process with SIGTERM; returns its exit code and how long it took.
fn terminate(process: &mut Child) -> (Option<i32>, Duration) {
    let begin = Instant::now();
    let ended = std::process::Command::new("kill").arg(process.id().to_string()).status().expect("kill");
    assert!(ended.success());
    (process.wait().expect("ended").code(), begin.elapsed())
}

/// The sample's first two sweeps, for two partitions.
fn send_sample(pages: &Topic) -> [i64; 2] {
    let sample = crate::harness::sweeps().into_iter().take(2).flat_map(|path| {
        let file = std::fs::File::open(path).expect("a sweep");
        let text = std::io::read_to_string(zstd::Decoder::new(file).expect("zstd")).expect("text");
        text.lines().map(String::from).collect::<Vec<_>>()
    });
    let (even, odd): (Vec<_>, Vec<_>) = sample.enumerate().partition(|(at, _)| at % 2 == 0);
    let counts = [even.len() as i64, odd.len() as i64];
    for (partition, lines) in [(0, even), (1, odd)] {
        let lines: Vec<&str> = lines.iter().map(|(_, line)| line.as_str()).collect();
        pages.send_json(partition, &lines);
    }
    counts
}

/// Pages in one topic, events in others, and the program between them killed and restarted again and again, then
/// stopped. Nothing is lost, nothing is repeated, and the compacted topics agree with the store.
#[test]
fn the_whole_way_through_a_broker() {
    let Some(outputs) = OutputTopics::new(2) else { return };
    let counts = send_sample(&outputs.pages);
    let n_records = (counts[0] + counts[1]) as usize;
    let world = outputs.world().with("pipeline.batch_records_max", 16);
    for n_events in [1, 100, 250] {
        let process = start(&world);
        let until = Instant::now() + PATIENCE;
        while outputs.events().len() < n_events {
            assert!(Instant::now() < until, "no events come");
        }
        kill(process);
    }
    let mut process = start(&world);
    let told = outputs.await_events(n_records);
    let (code, elapsed) = terminate(&mut process);
    assert_eq!(code, Some(0), "SIGTERM ends it in good order");
    assert!(elapsed < Duration::from_secs(10), "{elapsed:?}");
    assert_eq!(outputs.events(), told, "nothing came after");

    let mut by_partition: BTreeMap<i32, Vec<i64>> = BTreeMap::new();
    for event in told.iter().filter(|event| event.kind().is_terminal()) {
        by_partition.entry(event.partition).or_default().push(event.offset);
    }
    for (partition, n) in [(0, counts[0]), (1, counts[1])] {
        assert_eq!(by_partition[&partition], (0..n).collect::<Vec<i64>>(), "partition {partition}: each record once");
    }
    let from_files = crate::harness::World::new();
    from_files.run(&crate::harness::sweeps()[..2]);
    assert_eq!(world.partition(), from_files.partition());
    assert_eq!(crate::harness::fold(&told), from_files.partition());
    assert_eq!(outputs.present(), clusters_of(&world), "the compacted topics tell the store's present state");
}

/// The consumer example: its readers rely on it, so it must be right.
#[test]
fn the_example_consumer_takes_each_event_in_once() {
    let Some(outputs) = OutputTopics::new(2) else { return };
    if !python("import confluent_kafka").status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: there is no Python with the package confluent-kafka");
        return;
    }
    let counts = send_sample(&outputs.pages);
    let world = outputs.world();
    let mut process = start(&world);
    let n_events = outputs.await_events((counts[0] + counts[1]) as usize).len();
    assert_eq!(terminate(&mut process).0, Some(0));
    let state = world.path("state.sqlite");
    let consume = |option: &str| consume(&outputs, &state, option);
    assert_says(&consume("--until-end"), &[&format!("{n_events} events taken in, 0 dropped")]);
    assert_says(&consume("--until-end"), &["0 events taken in, 0 dropped"]);
    // As after a return to older offsets: every event arrives again, and the example drops it.
    let back = format!(
        "import sqlite3; db = sqlite3.connect({state:?}); db.execute('UPDATE progress SET next_offset = 0'); db.commit()"
    );
    assert!(python(&back).status().expect("starts").success());
    assert_says(&consume("--until-end"), &[&format!("0 events taken in, {n_events} dropped")]);
    assert_eq!(shown(&consume("--show")), outputs.present());
}

fn python(program: &str) -> std::process::Command {
    let mut python = std::process::Command::new("python3");
    python.args(["-c", program]).stderr(std::process::Stdio::null());
    python
}

/// The present of each URL according to the store: URL → cluster.
fn clusters_of(world: &crate::harness::World) -> BTreeMap<String, u64> {
    let csv = world.ask("export clusters", &[]);
    let mut latest: BTreeMap<String, (String, u64)> = BTreeMap::new();
    for row in csv::Reader::from_reader(csv.as_bytes()).records() {
        let row = row.expect("a row");
        let (time, cluster) = (row[1].to_string(), row[4].parse().expect("a cluster"));
        let standing = latest.entry(row[0].to_string()).or_insert_with(|| (time.clone(), cluster));
        if standing.0 <= time {
            *standing = (time, cluster);
        }
    }
    latest.into_iter().map(|(url, (_, cluster))| (url, cluster)).collect()
}

#[test]
fn dead_letters_are_the_originals_with_where_and_why() {
    let Some(outputs) = OutputTopics::new(1) else { return };
    let odd = Sent {
        key: Some("http://a/"),
        value: Some("no JSON"),
        headers: &[("x", b"1"), ("x", b"2")],
        time_ms: Some(1_600_000_000_000),
    };
    let page = crate::harness::page("http://b/", "2026-11-21T08:00:00Z", "s", "some words");
    outputs.pages.send(0, &[Sent { value: Some(&page), ..Sent::default() }, odd, Sent { key: None, ..odd }]);
    let world = outputs.world();
    let mut process = start(&world);
    let events = outputs.await_events(3);
    assert_eq!(terminate(&mut process).0, Some(0));
    let letters = see_all(&outputs.dead_letters.brokers, &outputs.dead_letters.name);
    assert_eq!(letters.len(), 2);
    let letter = &letters[0];
    assert_eq!((letter.key.as_deref(), letter.text()), (Some("http://a/"), "no JSON"));
    assert_eq!(letter.time_ms, Some(1_600_000_000_000));
    let header = |value: &str| ("x".to_string(), Some(value.to_string()));
    assert_eq!(letter.headers[..2], [header("1"), header("2")], "its own headers come first, as they were");
    assert_eq!(letter.header(dead_letter::SOURCE), Some(outputs.pages.name.as_str()));
    assert_eq!((letter.header(dead_letter::PARTITION), letter.header(dead_letter::OFFSET)), (Some("0"), Some("1")));
    assert_eq!(letter.header(dead_letter::REASON), Some("invalid-json"));
    assert!(letter.header(dead_letter::MESSAGE).is_some_and(|message| !message.is_empty()));
    assert_eq!(letter.header(dead_letter::LEFT_OUT), None);
    assert_eq!(letter.seq(), 1, "it bears the number of its event");
    assert_eq!(events[1].reason().map(lookalike::wire::Reason::as_str), Some("invalid-json"));
    assert_eq!(letters[1].key, None);
}

/// The event of a rejected message.
fn rejected(seq: u64, original: Message) -> Outgoing {
    let json = format!(
        r#"{{"type":"rejected","seq":{seq},"source":"t","partition":0,"offset":{seq},"url":null,"fetched_at":null,"sweep":null,"reason":"too-large","message":"m"}}"#
    );
    Outgoing { original: Some(Box::new(original)), ..Outgoing::new(seq, None, json.into_bytes()) }
}

/// Lost once: the stream, where the headers of a rejected message were too large for the topic, and not only its value.
/// The broker refuses a message, and so does librdkafka where it has more than kafka.fetch_bytes_max.
#[test]
fn a_dead_letter_that_is_too_large_goes_with_less_of_its_original() {
    for fetch_bytes_max in [64 << 20, 1 << 20] {
        let Some(outputs) = OutputTopics::new(1) else { return };
        let settings = KafkaSettings { fetch_bytes_max, ..outputs.settings() };
        let mut sink = open_sink(&settings, &outputs.pages.name, 0).expect("a sink");
        let original = |value: Option<Vec<u8>>, header: Vec<u8>| Message {
            key: Some(b"k".to_vec()),
            value,
            headers: vec![("x".to_string(), Some(header))],
            ..Message::default()
        };
        let unkept = Message { fault: Some(MessageFault::TooLarge(1 << 30)), ..original(None, noise(9)) };
        sink.publish(&[
            rejected(0, original(Some(b"small".to_vec()), noise(9))),
            rejected(1, original(Some(noise(2 << 20)), noise(9))),
            rejected(2, unkept),
            rejected(3, original(Some(b"not json".to_vec()), noise(2 << 20))),
            rejected(4, original(Some(b"small".to_vec()), noise(9))),
        ])
        .expect("published");
        let letters = see_all(&outputs.dead_letters.brokers, &outputs.dead_letters.name);
        let shown: Vec<_> = letters
            .iter()
            .map(|seen| {
                (
                    seen.seq(),
                    seen.key.as_deref(),
                    seen.value.as_deref(),
                    seen.header("x").is_some(),
                    seen.header(dead_letter::LEFT_OUT),
                )
            })
            .collect();
        let expected = [
            (0, Some("k"), Some("small"), true, None),
            (1, Some("k"), None, true, Some("value")),
            (2, Some("k"), None, true, Some("value")),
            (3, None, None, false, Some("all")),
            (4, Some("k"), Some("small"), true, None),
        ];
        assert_eq!(shown, expected, "{fetch_bytes_max}");
        assert_eq!(outputs.events().len(), 5);
    }
}

/// Lost once: the values of all letters that were sent together, because the broker refused the batch of them.
#[test]
fn dead_letters_that_fit_one_by_one_keep_their_values() {
    const N: u64 = 100;
    let Some(outputs) = OutputTopics::with_letters_of(100_000, 1) else { return };
    let mut sink = open_sink(&outputs.settings(), &outputs.pages.name, 0).expect("a sink");
    let n_bytes = |seq: u64| if seq == 50 { 200_000 } else { 5_000 };
    let events: Vec<Outgoing> =
        (0..N).map(|seq| rejected(seq, Message { value: Some(noise(n_bytes(seq))), ..Message::default() })).collect();
    sink.publish(&events).expect("published");
    let letters = see_all(&outputs.dead_letters.brokers, &outputs.dead_letters.name);
    let shown: Vec<_> = letters.iter().map(|seen| (seen.seq(), seen.header(dead_letter::LEFT_OUT))).collect();
    let expected: Vec<_> = (0..N).map(|seq| (seq, (seq == 50).then_some("value"))).collect();
    assert_eq!(shown, expected);
    assert!(letters.iter().all(|letter| letter.value.is_some() == (letter.seq() != 50)));
    assert_eq!(seqs(&outputs.events), all(N));
}

/// Lost once: the stream, for good. A message whose headers have 12 MB fits the topic of pages, packed by zstd, and not
/// the dead-letter topic, packed by lz4.
#[test]
fn one_message_with_huge_headers_does_not_stop_the_stream() {
    let Some(outputs) = OutputTopics::with_letters_of(9 << 20, 1) else { return };
    let hex: String = noise(6 << 20).iter().map(|byte| format!("{byte:02x}")).collect();
    let mut config = outputs.pages.config();
    config.set("compression.type", "zstd").set("message.max.bytes", "100000000");
    let producer: BaseProducer = config.create().expect("a producer");
    let headers: &[(&str, &[u8])] = &[("x", hex.as_bytes())];
    let page = crate::harness::page("http://a/", "2026-11-21T08:00:00Z", "s", "some words");
    Sent { value: Some("not json"), headers, ..Sent::default() }.send(&producer, &outputs.pages.name, 0);
    Sent { value: Some(&page), ..Sent::default() }.send(&producer, &outputs.pages.name, 0);
    producer.flush(PATIENCE).expect("delivered");
    let world = outputs.world();
    let mut process = start(&world);
    let kinds: Vec<EventType> = outputs.await_events(2).iter().map(Event::kind).collect();
    assert_eq!(kinds, [EventType::Rejected, EventType::Assigned]);
    assert_eq!(terminate(&mut process).0, Some(0));
    let letters = see_all(&outputs.dead_letters.brokers, &outputs.dead_letters.name);
    assert_eq!(letters.len(), 1);
    assert_eq!((letters[0].value.as_deref(), letters[0].header(dead_letter::LEFT_OUT)), (None, Some("all")));
    assert_eq!(letters[0].header(dead_letter::REASON), Some("invalid-json"));
}

#[test]
fn a_zombie_on_a_copied_store_is_fenced() {
    let Some(outputs) = OutputTopics::new(1) else { return };
    let world = outputs.world().with("pipeline.batch_records_max", 4);
    let page =
        |at: usize| crate::harness::page(&format!("http://{at}/"), "2026-11-21T08:00:00Z", "s", &format!("page {at}"));
    let send = |range: std::ops::Range<usize>| {
        let pages: Vec<String> = range.map(page).collect();
        outputs.pages.send_json(0, &pages.iter().map(String::as_str).collect::<Vec<_>>());
    };
    send(0..20);
    let mut zombie = start(&world);
    outputs.await_events(20);
    signal(&zombie, "STOP");
    copy(&world.path("store"), &world.path("copy"));
    let mut owner = world.command_on("run -q", &world.path("copy")).spawn().expect("starts");
    send(20..40);
    let told = outputs.await_events(40);
    signal(&zombie, "CONT");
    assert_eq!(zombie.wait().expect("ended").code(), Some(13), "the zombie stops with the exit code of the fenced");
    send(40..50);
    assert_eq!(outputs.await_events(50)[..told.len()], told, "the zombie published nothing");
    assert_eq!(terminate(&mut owner).0, Some(0), "the owner goes on unharmed");
    // The store that stayed behind is now an older copy.
    let older = world.command("run -q").output().expect("starts");
    assert_eq!(older.status.code(), Some(12), "{}", crate::harness::text(&older.stderr));
}

/// All events about one URL go to one partition: that it is gone, and where its content moved.
#[test]
fn a_move_is_keyed_by_the_url_that_is_gone() {
    let Some(outputs) = OutputTopics::new(1) else { return };
    let world = outputs.world();
    let words = (0..40).map(|at| format!("word{at}")).collect::<Vec<_>>().join(" ");
    let page =
        |url: &str, day: u32| crate::harness::page(url, &format!("2026-11-0{day}T00:00:00Z"), &day.to_string(), &words);
    let gone = r#"{"url":"http://a/","fetched_at":"2026-11-02T00:00:00Z","gone":true}"#;
    outputs.pages.send_json(0, &[&page("http://a/", 1), gone, &page("http://b/", 3)]);
    let mut process = start(&world);
    outputs.await_events(3);
    assert_eq!(terminate(&mut process).0, Some(0));
    let seen = see_all(&outputs.events.brokers, &outputs.events.name);
    let keys: Vec<_> =
        seen.iter().map(|seen| (seen.key.as_deref(), seen.text().contains(r#""type":"moved""#))).collect();
    let (a, b) = (Some("http://a/"), Some("http://b/"));
    assert_eq!(keys, [(a, false), (a, false), (b, false), (a, true)]);
}

#[test]
fn a_second_process_on_one_store_is_refused_and_the_first_goes_on() {
    let Some(outputs) = OutputTopics::new(1) else { return };
    let world = outputs.world();
    outputs.pages.send_json(0, &["{}"]);
    let mut first = start(&world);
    outputs.await_events(1);
    let second = world.command("run -q").output().expect("starts");
    assert_eq!(second.status.code(), Some(1));
    assert!(
        crate::harness::text(&second.stderr).contains("in use by another process"),
        "{}",
        crate::harness::text(&second.stderr)
    );
    outputs.pages.send_json(0, &["[]"]);
    outputs.await_events(2);
    assert_eq!(terminate(&mut first).0, Some(0));
}

#[test]
fn gaps_end_the_program_with_codes_of_their_own_and_are_events_when_accepted() {
    let Some(outputs) = OutputTopics::new(1) else { return };
    let world = outputs.world();
    outputs.pages.send_json(0, &["{}"; 5]);
    let mut process = start(&world);
    outputs.await_events(5);
    assert_eq!(terminate(&mut process).0, Some(0));
    outputs.pages.send_json(0, &["{}"; 5]);
    outputs.pages.delete_records_below(0, 8);
    let refused = world.command("run -q").output().expect("starts");
    assert_eq!(refused.status.code(), Some(10), "{}", crate::harness::text(&refused.stderr));
    let mut process = world.command("run -q --accept-gap").spawn().expect("starts");
    let events = outputs.await_events(5 + 1 + 2);
    assert_eq!(terminate(&mut process).0, Some(0));
    assert_eq!((events[5].offset, events[5].gap_to(), events[6].offset), (5, Some(8), 8));
    assert_eq!(events[5].reason().map(lookalike::wire::Reason::as_str), Some("overtaken"));
    // An accepted gap is not reported again.
    let mut process = start(&world);
    outputs.pages.send_json(0, &["{}"]);
    assert_eq!(outputs.await_events(9).len(), 9);
    assert_eq!(terminate(&mut process).0, Some(0));
    outputs.pages.delete();
    outputs.pages.create(1);
    let refused = world.command("run -q").output().expect("starts");
    assert_eq!(refused.status.code(), Some(11), "{}", crate::harness::text(&refused.stderr));
    let elsewhere = world.command_on("run -q", &world.path("new")).output().expect("starts");
    assert_eq!(
        elsewhere.status.code(),
        Some(12),
        "a new store and old events: {}",
        crate::harness::text(&elsewhere.stderr)
    );
}

/// Lost once: as in `kafka.rs`, and neither the program's exit nor an event reported it. And `verify` took a
/// partition that was gone for good for a fault of the store.
#[test]
fn a_topic_made_anew_under_a_running_program_ends_it_and_is_an_exact_gap_when_accepted() {
    let Some(outputs) = OutputTopics::new(2) else { return };
    let world = outputs.world();
    outputs.pages.send_json(0, &["{}"; 3]);
    let mut process = start(&world);
    outputs.await_events(3);
    outputs.pages.delete();
    outputs.pages.create(1);
    outputs.pages.send_json(0, &["[]"; 8]);
    assert_eq!(process.wait().expect("ended").code(), Some(11));
    assert_eq!(outputs.events().len(), 3, "nothing of the new topic was taken");
    let refused = world.command("run -q").output().expect("starts");
    assert_eq!(refused.status.code(), Some(11), "{}", crate::harness::text(&refused.stderr));
    let mut process = world.command("run -q --accept-gap").spawn().expect("starts");
    let events = outputs.await_events(3 + 2 + 8);
    assert_eq!(terminate(&mut process).0, Some(0));
    let place = |event: &Event| (event.partition, event.offset, event.gap_to());
    assert_eq!(events[3..5].iter().map(place).collect::<Vec<_>>(), [(1, 0, Some(-1)), (0, 3, Some(0))]);
    assert!(events[3..5].iter().all(|event| event.reason() == Some(lookalike::wire::Reason::Replaced)));
    assert_eq!(events[5..].iter().map(place).collect::<Vec<_>>(), (0..8).map(|at| (0, at, None)).collect::<Vec<_>>());
    world.ask("verify", &[]);
}

/// Connects with TLS and a password, read from a file or the environment. The password appears nowhere: not in
/// librdkafka's full log, not in the configuration, not in the error when it is wrong.
#[test]
fn tls_and_passwords_work_and_are_told_nobody() {
    let Ok(folder) = std::env::var("LOOKALIKE_TEST_KAFKA_SECRETS") else {
        eprintln!(
            "skipped: LOOKALIKE_TEST_KAFKA_SECRETS names no folder; deploy/kafka-local.sh start --secure makes one"
        );
        return;
    };
    let Some(outputs) = OutputTopics::new(1) else { return };
    let (host, port) = outputs.pages.brokers.rsplit_once(':').expect("a port");
    let secure = format!("{host}:{}", port.parse::<u16>().expect("a number") + 2);
    let password = std::fs::read_to_string(format!("{folder}/password")).expect("a password");
    let password = password.trim();
    let world =
        outputs.world().with("kafka.brokers", secure).with("log.level", "debug").with("kafka.connect_ms_max", 3000);
    let command = |subcommand: &str, mechanism: &str, from: &str, secret: &str| {
        let config = world.path("secure.toml");
        let properties = [
            ("security.protocol", "SASL_SSL"),
            ("ssl.ca.location", &format!("{folder}/ca.pem")),
            ("sasl.mechanisms", mechanism),
            ("sasl.username", "lookalike"),
            ("sasl.password", from),
            ("debug", "security,broker,conf"),
        ];
        let lines = properties.map(|(name, value)| format!("{name:?} = {value:?}\n")).concat();
        std::fs::write(&config, format!("[kafka.properties]\n{lines}")).expect("written");
        let mut command = world.command(subcommand);
        command.arg("--config").arg(config).env("LOOKALIKE_PASSWORD", secret);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        command
    };
    let from_file = format!("file:{folder}/password");
    let ways = [("PLAIN", from_file.as_str()), ("PLAIN", "env:LOOKALIKE_PASSWORD"), ("PLAIN", password)];
    for (n, (mechanism, from)) in ways.into_iter().chain([("SCRAM-SHA-256", from_file.as_str())]).enumerate() {
        outputs.pages.send_json(0, &["{}"]);
        let mut process = command("run -q", mechanism, from, password).spawn().expect("starts");
        outputs.await_events(n + 1);
        assert_eq!(terminate(&mut process).0, Some(0));
        let told = crate::harness::text(&process.wait_with_output().expect("its log").stderr);
        assert!(told.to_lowercase().contains("sasl") && !told.contains(password), "{told}");
        let shown = command("config show", mechanism, from, password).output().expect("starts");
        let shown = crate::harness::text(&[shown.stdout, shown.stderr].concat());
        assert!(shown.contains("sasl.password") && !shown.contains(password), "{shown}");
    }
    for mechanism in ["PLAIN", "SCRAM-SHA-256"] {
        let refused = command("run -q", mechanism, "env:LOOKALIKE_PASSWORD", "not-the-password").output();
        let refused = refused.expect("starts");
        let told = crate::harness::text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(16), "{mechanism}: {told}");
        assert!(told.contains("uthentication failed") && told.contains("reject the user name or password"), "{told}");
        assert!(!told.contains("not-the-password"), "{mechanism}: {told}");
    }
}

/// The program's memory limit in the bomb test, in bytes.
const MEMORY_MAX: u64 = 512 << 20;

/// Sends one batch that has a few megabytes and decompresses to more than the program may use.
fn send_bomb(pages: &Topic, codec: &str) -> usize {
    let n = 33;
    let mut config = pages.config();
    config.set("compression.type", codec).set("linger.ms", "60000").set("batch.size", "1000000000");
    config.set("message.max.bytes", "1000000000").set("queue.buffering.max.kbytes", "1000000");
    let bomber: BaseProducer = config.create().expect("a producer");
    let large = "0".repeat(16 << 20);
    (0..n).for_each(|_| Sent { value: Some(&large), ..Sent::default() }.send(&bomber, &pages.name, 0));
    bomber.flush(PATIENCE).expect("delivered");
    n
}

/// Lost once: every start ended in a crash, for ever. librdkafka decompresses a batch before it can be inspected, and
/// dies when memory runs out. LOOKALIKE_BOMBS=gzip,lz4,zstd adds codecs; the default is gzip alone.
#[test]
fn a_bomb_is_an_exact_gap_and_its_neighbours_are_taken_in() {
    for codec in std::env::var("LOOKALIKE_BOMBS").as_deref().unwrap_or("gzip").split(',') {
        let Some(outputs) = OutputTopics::new(2) else { return };
        let world = outputs.world().with_config("small.toml");
        outputs.pages.send_json(0, &["{}", "{}"]);
        let end = 2 + send_bomb(&outputs.pages, codec) as i64;
        outputs.pages.send_json(0, &["{}"]);
        outputs.pages.send_json(1, &["{}"; 3]);
        let (mut n_deaths, mut running, until) = (0, None, Instant::now() + 3 * PATIENCE);
        let limit = format!("--data={MEMORY_MAX}");
        loop {
            let mut process: Child = running.take().unwrap_or_else(|| {
                let command = world.command("run -q");
                let mut limited = std::process::Command::new("prlimit");
                limited.arg(&limit).arg(command.get_program()).args(command.get_args());
                limited.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
                limited.spawn().expect("prlimit, of util-linux")
            });
            if process.try_wait().expect("a status").is_some() {
                n_deaths += 1;
            } else {
                running = Some(process);
            }
            let events = outputs.events();
            let mut told: Vec<_> = events.iter().map(|event| (event.partition, event.offset, event.gap_to())).collect();
            told.sort_unstable();
            if told.len() == 7 {
                let one = |partition, offset| (partition, offset, None);
                let expected = [one(0, 0), one(0, 1), (0, 2, Some(end)), one(0, end), one(1, 0), one(1, 1), one(1, 2)];
                assert_eq!(told, expected, "{codec}");
                break;
            }
            assert!(Instant::now() < until, "{codec}: after {n_deaths} deaths there is only {told:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
        println!("{codec}: {n_deaths} deaths");
        assert_eq!(terminate(&mut running.expect("it goes on")).0, Some(0));
    }
}

#[test]
fn topics_are_made_and_looked_at() {
    let Some(pages) = topic(1) else { return };
    let name = |kind: &str| format!("{}-{kind}", pages.name);
    let made: Vec<Topic> = ["e", "a", "m"]
        .map(|kind| Topic { brokers: pages.brokers.clone(), name: name(kind) })
        .into_iter()
        .chain([Topic { brokers: pages.brokers.clone(), name: format!("{}.dlq", pages.name) }])
        .collect();
    let world = crate::harness::World::new()
        .with("kafka.brokers", &pages.brokers)
        .with("kafka.topic", &pages.name)
        .with("kafka.events_topic", &made[0].name)
        .with("kafka.assignments_topic", &made[1].name)
        .with("kafka.merges_topic", &made[2].name);
    let create = |world: &crate::harness::World| {
        world.command("topics create --output-partitions 2 --replication 1").output().expect("starts")
    };
    let output = create(&world);
    assert!(output.status.success(), "{}", crate::harness::text(&output.stderr));
    let shown = crate::harness::text(&output.stdout);
    assert_eq!(shown.matches(": created").count(), 4, "{shown}");
    assert_eq!(shown.matches(": exists").count(), 1, "{shown}");
    let again = create(&world);
    let shown = crate::harness::text(&again.stdout);
    assert_eq!(shown.matches(": exists").count(), 5, "{shown}{}", crate::harness::text(&again.stderr));
    assert!(again.status.success());
    // A pages topic must not be a state topic: compaction loses pages, and its absence loses state.
    let mixed = create(&world.with("kafka.merges_topic", &pages.name).with("kafka.topic", &made[2].name));
    assert_eq!(mixed.status.code(), Some(1));
    assert_eq!(
        crate::harness::text(&mixed.stdout).matches("cleanup.policy").count(),
        2,
        "{}",
        crate::harness::text(&mixed.stdout)
    );
    drop(Topic { brokers: pages.brokers.clone(), name: format!("{}.dlq", made[2].name) });
}

fn signal(process: &Child, name: &str) {
    let sent = std::process::Command::new("kill").arg(format!("-{name}")).arg(process.id().to_string()).status();
    assert!(sent.expect("kill").success());
}

fn copy(from: &std::path::Path, to: &std::path::Path) {
    let copied = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(copied.expect("cp").success());
}
