//! The promises of Kafka input, against a real broker.
//!
//! ```sh
//! deploy/kafka-local.sh start
//! LOOKALIKE_TEST_KAFKA=127.0.0.1:19092 cargo test --release --test it kafka
//! ```
//! Without the variable, every test passes without a check, and says so.

use crate::harness::broker::*;
use lookalike::document::{Body, Content, FetchTime, MediaType, Page};
use lookalike::kafka::{KafkaSettings, KafkaSource, Start, StartOptions};
use lookalike::ports::{Incoming, Polled, ProgressMap, Source, StopReason};
use lookalike::wire::{Limits, Reason, Record};
use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

#[test]
fn json_pages_come_with_their_offsets() {
    let Some(topic) = topic(1) else { return };
    topic.send_json(0, &["{}", "[1]", "not JSON"]);
    let mut source = topic.source(&ProgressMap::new());
    let taken = take(&mut source, 3);
    assert_eq!(taken.iter().map(json_in).collect::<Vec<_>>(), ["{}", "[1]", "not JSON"]);
    assert_eq!(offsets(&taken), [0, 1, 2]);
    assert!(taken.iter().all(|incoming| *incoming.origin.source == *topic.name && incoming.origin.partition == 0));
    assert_eq!(next_offsets(&source), [(0, 3)]);
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
    assert_eq!(page_in(&taken[0]), Ok(gone));
    assert_eq!(page_in(&taken[1]).map_err(|rejection| rejection.reason), Err(Reason::MissingField));
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
    let pages: Vec<Page> = taken.iter().map(|incoming| page_in(incoming).expect("a page")).collect();
    let body = |charset: Option<&str>| Body::Bytes { bytes: b"<p>hello".to_vec(), charset: charset.map(String::from) };
    assert_eq!(
        pages[0],
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
        assert_eq!(page_in(incoming).map_err(|rejection| rejection.reason), Err(*reason), "{incoming:?}");
    }
    assert!(page_in(&taken[7]).is_ok());
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
    let mut source = open(&latest, &ProgressMap::new()).expect("a source");
    assert_eq!(next_offsets(&source), [(0, 1), (1, 0)]);
    assert_no_more(&mut source);
    topic.send_json(0, &["new"]);
    assert_eq!(json_in(&take(&mut source, 1)[0]), "new");
    assert_eq!(json_in(&take(&mut topic.source(&ProgressMap::new()), 1)[0]), "old");
}

/// Even with `latest`, a partition added while the program was down must not start at its end: its first records
/// would be lost.
#[test]
fn a_partition_added_meanwhile_is_read_whole() {
    let Some(topic) = topic(2) else { return };
    topic.send_json(1, &["b0"]);
    let latest = KafkaSettings { start: Start::Latest, ..topic.settings() };
    let mut source = open(&latest, &topic.progress(&[(0, 0)])).expect("a source");
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
    assert_eq!(next_offsets(&source), [(0, 2), (1, 2)]);
}

#[test]
fn a_missing_topic_is_an_error_that_says_what_to_do() {
    let Some(topic) = topic(1) else { return };
    let missing = KafkaSettings { topic: format!("{}-missing", topic.name), ..topic.settings() };
    let error = error_of(open(&missing, &ProgressMap::new()));
    assert_says(&error, &["-missing", "create it", "kafka.topic"]);
}

#[test]
fn an_unreachable_broker_is_an_error_within_the_limit() {
    let Some(topic) = topic(1) else { return };
    let nobody = KafkaSettings { brokers: "127.0.0.1:1".into(), connect_ms_max: 1_500, ..topic.settings() };
    let begin = Instant::now();
    let error = error_of(open(&nobody, &ProgressMap::new()));
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
    assert_says(&error, &["127.0.0.1:1", "kafka.brokers", "Connection refused"]);
}

#[test]
fn a_stored_offset_that_the_broker_lacks_stops_the_source() {
    let Some(topic) = topic(2) else { return };
    topic.send_json(0, &["a0", "a1", "a2", "a3"]);
    topic.delete_records_below(0, 3);
    let overtaken = error_of(topic.open(&topic.progress(&[(0, 1)])));
    assert_says(&overtaken, &["partition 0", "stored offset is 1", "3..4", "deleted 2 records"]);
    let ahead = error_of(topic.open(&topic.progress(&[(0, 4), (1, 9)])));
    assert_says(&ahead, &["partition 1", "stored offset is 9", "0..0", "recreated"]);
    let fewer = error_of(topic.open(&topic.progress(&[(0, 4), (5, 0)])));
    assert_says(&fewer, &["partition 5", "no such partition"]);
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
    assert_says(&take_error(&mut source), &["recreated", "partition 0", "offset is 3", "0..1"]);
}

/// Lost once: every record of the new topic below the old offset, silently, and after a restart as well. librdkafka
/// goes on in the new topic at its offset in the old one.
#[test]
fn a_topic_made_anew_and_filled_under_way_stops_the_source() {
    let Some(topic) = topic(2) else { return };
    topic.send_json(0, &["a0", "a1", "a2"]);
    topic.send_json(1, &["b0"]);
    let mut source = topic.source(&ProgressMap::new());
    take(&mut source, 4);
    let stored = source.positions();
    topic.delete();
    topic.create(2);
    topic.send_json(0, &["c"; 9]);
    topic.send_json(1, &["d"; 9]);
    let until = Instant::now() + PATIENCE;
    let error = loop {
        match source.poll(TICK) {
            Err(error) => break error,
            Ok(Polled::Idle) => assert!(Instant::now() < until, "the source went on"),
            Ok(other) => panic!("of the new topic: {other:?}"),
        }
    };
    assert_eq!(error.stop_reason, StopReason::Replaced);
    assert_says(&error.message, &["recreated while it was being read", "--accept-gap"]);
    assert_eq!(source.positions(), stored);
    assert_eq!(topic.open(&stored).err().expect("refused").stop_reason, StopReason::Replaced);
    let mut source = KafkaSource::open(&topic.settings(), &Limits::default(), &accepting(&stored)).expect("a source");
    let mut taken = take(&mut source, 2 + 18);
    let gaps: Vec<_> = taken.drain(..2).map(|gap| gap_in(&gap)).collect();
    assert_eq!(gaps, [(0, 3, Some(0), Reason::Replaced), (1, 1, Some(0), Reason::Replaced)]);
    assert!(taken.iter().all(|incoming| matches!(json_in(incoming), "c" | "d")));
}

/// As above, but the topic is away for so long that librdkafka reports it. Reading resumes only if the topic is the
/// same.
#[test]
fn a_topic_that_comes_back_as_another_one_stops_the_source() {
    let Some(topic) = topic(1) else { return };
    topic.send_json(0, &["a0", "a1"]);
    let properties = BTreeMap::from([("topic.metadata.propagation.max.ms".to_string(), "1".to_string())]);
    let settings = KafkaSettings { properties, ..topic.settings() };
    let mut source = open(&settings, &ProgressMap::new()).expect("a source");
    take(&mut source, 2);
    topic.delete();
    assert_no_more(&mut source);
    topic.create(1);
    topic.send_json(0, &["b"; 5]);
    assert_says(&take_error(&mut source), &["recreated while it was being read"]);
    assert_eq!(next_offsets(&source), [(0, 2)], "nothing of the new one was taken");
}

/// Lost once: compressed bodies were sketched as if they were text, or rejected.
#[test]
fn raw_bodies_are_unpacked_as_their_header_says() {
    let Some(topic) = topic(1) else { return };
    let packed = zstd::encode_all(&b"one two"[..], 0).expect("packed");
    let send = |coding: &[u8]| {
        let headers = OwnedHeaders::new().insert(Header { key: "content-encoding", value: Some(coding) });
        let record = BaseRecord::to(&topic.name).key("http://a/").payload(&packed).headers(headers);
        let producer = topic.producer();
        producer.send(record).map_err(|(error, _)| error).expect("queued");
        producer.flush(PATIENCE).expect("delivered");
    };
    send(b"zstd");
    send(b"br");
    let taken = take(&mut topic.raw_source(), 2);
    let Content::Body { body, .. } = page_in(&taken[0]).expect("a page").content else { panic!("no body") };
    assert_eq!(body.as_bytes(), b"one two");
    assert_eq!(page_in(&taken[1]).expect_err("no page").reason, Reason::ContentEncoding);
}

#[test]
fn a_topic_deleted_under_way_stops_the_source() {
    let Some(topic) = topic(1) else { return };
    topic.send_json(0, &["a0"]);
    // librdkafka trusts a topic for this long after it first hears of it; by default for half a minute.
    let properties = BTreeMap::from([("topic.metadata.propagation.max.ms".to_string(), "1000".to_string())]);
    let settings = KafkaSettings { properties, ..topic.settings() };
    let mut source = open(&settings, &ProgressMap::new()).expect("a source");
    take(&mut source, 1);
    topic.delete();
    assert_says(&take_error(&mut source), &["no topic", &topic.name]);
}

/// Needs no broker: librdkafka's mock cluster goes down and up on command.
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
    let mut source = open(&settings, &ProgressMap::new()).expect("a source");
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

/// Failed once: a program that was started right after its topic was created ended with exit code 14.
#[test]
fn partitions_without_a_leader_for_a_moment_are_waited_for() {
    use rdkafka::types::{RDKafkaApiKey::ListOffsets, RDKafkaRespErr};
    let cluster = MockCluster::new(1).expect("a mock cluster");
    cluster.create_topic("pages", 1, 1).expect("a topic");
    let settings = KafkaSettings { brokers: cluster.bootstrap_servers(), ..KafkaSettings::default() };
    let no_leader = RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION;
    cluster.request_errors(ListOffsets, &[no_leader; 2]);
    open(&settings, &ProgressMap::new()).expect("a source");
    cluster.request_errors(ListOffsets, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED; 2]);
    open(&settings, &ProgressMap::new()).map(|_| ()).expect_err("another error is told at once");
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
    // Later records show once librdkafka has heard of them, before they are delivered.
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
    let stored = ProgressMap::new();
    let anew = StartOptions { bootstrap: true, ..accepting(&stored) };
    let mut source = KafkaSource::open(&topic.settings(), &Limits::default(), &anew).expect("a source");
    assert_eq!(offsets(&take(&mut source, 2)), [0, 1], "never read");
}

/// As after a backfill that leaves older pages to its files. Offsets do not follow the order of times: the source
/// reads everything from the first record of that time on.
#[test]
fn a_topic_that_nothing_was_taken_of_is_begun_at_a_time() {
    let Some(topic) = topic(3) else { return };
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64;
    let sent = |value, after_ms| Sent { value: Some(value), time_ms: Some(now_ms + after_ms), ..Sent::default() };
    topic.send(0, &[sent("a0", -90), sent("a1", -50), sent("a2", 0), sent("a3", -70), sent("a4", 30)]);
    topic.send(1, &[sent("b0", -20), sent("b1", -10)]);
    let none = ProgressMap::new();
    let since = Some(FetchTime(now_ms * 1000 - 999));
    let open = |stored: &ProgressMap, accept_gap| {
        let beginning = StartOptions { since, accept_gap, ..accepting(stored) };
        KafkaSource::open(&topic.settings(), &Limits::default(), &beginning)
    };
    let mut source = open(&none, false).expect("a source");
    assert_eq!(next_offsets(&source), [(0, 2), (1, 2), (2, 0)]);
    let taken = take(&mut source, 3);
    assert_eq!(taken.iter().map(json_in).collect::<Vec<_>>(), ["a2", "a3", "a4"]);
    assert_no_more(&mut source);
    topic.send(1, &[sent("b2", -5)]);
    assert_eq!(json_in(&take(&mut source, 1)[0]), "b2", "what comes after the beginning is read, however old");
    let stored = topic.progress(&[(0, 4)]);
    assert_eq!(next_offsets(&open(&stored, false).expect("a source")), [(0, 4), (1, 0), (2, 0)], "it has begun before");

    // The oldest record left is not older than the time, so the deleted ones may have been as young.
    topic.delete_records_below(0, 2);
    let refused = open(&none, false).map(|_| ()).expect_err("records may be missing");
    assert_eq!(refused.stop_reason, StopReason::Overtaken);
    assert_says(&refused.message, &["partition 0", "below 2", "--accept-gap"]);
    assert_eq!(next_offsets(&open(&none, true).expect("a source")), [(0, 2), (1, 3), (2, 0)]);
}

/// The gap that a source reports first, and its reason.
fn gap_in(incoming: &Incoming) -> (i32, i64, Option<i64>, Reason) {
    let Record::Rejected(rejection) = &incoming.record else { panic!("no gap: {incoming:?}") };
    (incoming.origin.partition, incoming.origin.offset, rejection.gap_to, rejection.reason)
}

#[test]
fn an_accepted_gap_is_told_exactly_and_reading_goes_on_behind_it() {
    let Some(topic) = topic(2) else { return };
    topic.send_json(0, &["a0", "a1", "a2", "a3"]);
    topic.send_json(1, &["b0"]);
    topic.delete_records_below(0, 3);
    let stored = topic.progress(&[(0, 1), (1, 7), (5, 4)]);
    let refused = topic.open(&stored).err().expect("refused");
    assert_eq!(refused.stop_reason, StopReason::Replaced);
    assert_says(&refused.message, &["--accept-gap"]);
    assert_eq!(topic.open(&topic.progress(&[(0, 1)])).err().expect("refused").stop_reason, StopReason::Overtaken);
    let mut source = KafkaSource::open(&topic.settings(), &Limits::default(), &accepting(&stored)).expect("a source");
    assert_eq!(next_offsets(&source), [], "no partition goes on before its gap is durable");
    let mut taken = take(&mut source, 5);
    let gaps: Vec<_> = taken.drain(..3).map(|gap| gap_in(&gap)).collect();
    assert_eq!(
        gaps,
        [(5, 4, Some(-1), Reason::Replaced), (0, 1, Some(3), Reason::Overtaken), (1, 7, Some(0), Reason::Replaced)]
    );
    let mut rest: Vec<&str> = taken.iter().map(json_in).collect();
    rest.sort_unstable();
    assert_eq!(rest, ["a3", "b0"]);
    // A partition that is gone for good is not reported again.
    let after = topic.progress(&[(0, 4), (1, 1), (5, -1)]);
    assert_no_more(&mut topic.source(&after));
}

/// Missed once: the new topic was longer than the old one, so its offsets gave nothing away.
#[test]
fn a_topic_made_anew_and_longer_is_told_by_its_records() {
    let Some(topic) = topic(2) else { return };
    topic.send_json(0, &["a0", "a1"]);
    topic.send_json(1, &["b0", "b1"]);
    let mut source = topic.source(&ProgressMap::new());
    take(&mut source, 4);
    let stored = source.positions();
    assert!(topic.open(&stored).is_ok(), "the same topic");
    topic.delete();
    topic.create(2);
    topic.send_json(0, &["c0", "c1", "c2"]);
    topic.send_json(1, &["d0", "d1", "d2"]);
    let refused = topic.open(&stored).err().expect("refused");
    assert_eq!(refused.stop_reason, StopReason::Replaced);
    assert_says(&refused.message, &["partition 0", "partition 1", "recreated"]);
    // Without the record there is no evidence against the topic.
    topic.delete_records_below(0, 2);
    topic.delete_records_below(1, 2);
    assert!(topic.open(&stored).is_ok());
}

#[test]
fn a_new_store_under_an_old_group_is_refused() {
    let Some(topic) = topic(1) else { return };
    topic.send_json(0, &["a0", "a1"]);
    let mut source = topic.source(&ProgressMap::new());
    take(&mut source, 2);
    source.committed(&topic.progress(&[(0, 2)]));
    drop(source);
    let refused = topic.open(&ProgressMap::new()).err().expect("refused");
    assert_eq!(refused.stop_reason, StopReason::NoStore);
    assert_says(&refused.message, &["--bootstrap", "-group", "up to 2"]);
    let stored = ProgressMap::new();
    let anew = StartOptions { bootstrap: true, ..accepting(&stored) };
    let mut source = KafkaSource::open(&topic.settings(), &Limits::default(), &anew).expect("a source");
    assert_eq!(offsets(&take(&mut source, 2)), [0, 1]);
}

#[test]
fn brokers_that_stay_away_stop_the_source() {
    let cluster = MockCluster::new(1).expect("a mock cluster");
    cluster.create_topic("pages", 1, 1).expect("a topic");
    let settings =
        KafkaSettings { brokers: cluster.bootstrap_servers(), delivery_ms_max: 3_000, ..KafkaSettings::default() };
    let mut source = open(&settings, &ProgressMap::new()).expect("a source");
    assert_no_more(&mut source);
    cluster.broker_down(1).expect("the broker down");
    let begin = Instant::now();
    let error = loop {
        match source.poll(TICK) {
            Ok(_) => assert!(begin.elapsed() < PATIENCE, "the source went on"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.stop_reason, StopReason::Unreachable);
    assert_says(&error.message, &["kafka.delivery_ms_max", "nothing is lost"]);
}

#[test]
fn librdkafka_tells_of_itself() {
    let Some(topic) = topic(1) else { return };
    topic.send_json(0, &["a0", "a1"]);
    let mut source = topic.source(&ProgressMap::new());
    take(&mut source, 1);
    let until = Instant::now() + PATIENCE;
    let mut names = std::collections::BTreeSet::new();
    while !(names.contains("lookalike_kafka_broker_up") && names.contains("lookalike_lag_seconds")) {
        assert!(Instant::now() < until, "only {names:?}");
        drop(source.poll(TICK).expect("a source that goes on"));
        names.extend(source.readings().into_iter().map(|reading| reading.name));
    }
}

/// A batch of a few kilobytes that decompresses to more than a response may hold must not stop its partition for
/// ever.
#[test]
fn a_batch_that_cannot_be_unpacked_is_an_exact_gap() {
    let Some(topic) = topic(2) else { return };
    let mut config = topic.config();
    config.set("compression.type", "zstd").set("linger.ms", "1000").set("batch.size", "100000000");
    config.set("message.max.bytes", "100000000").set("queue.buffering.max.kbytes", "100000");
    let bomber: BaseProducer = config.create().expect("a producer");
    let large = "0".repeat(1 << 20);
    let bomb = |n: usize| {
        (0..n).for_each(|_| Sent { value: Some(&large), ..Sent::default() }.send(&bomber, &topic.name, 0));
        bomber.flush(PATIENCE).expect("delivered");
    };
    topic.send_json(0, &["a0", "a1"]);
    bomb(5);
    bomb(3);
    topic.send_json(0, &["a10"]);
    bomb(4);
    topic.send_json(1, &["b0", "b1"]);
    let settings = KafkaSettings { fetch_bytes_max: 1 << 20, ..topic.settings() };
    let mut source = open(&settings, &ProgressMap::new()).expect("a source");
    let mut taken = take(&mut source, 8);
    taken.sort_by_key(|incoming| (incoming.origin.partition, incoming.origin.offset));
    let told: Vec<_> = taken
        .iter()
        .map(|incoming| match &incoming.record {
            Record::Rejected(gap) => (incoming.origin.offset, gap.gap_to, gap.reason.as_str()),
            _ => (incoming.origin.offset, None, json_in(incoming)),
        })
        .collect();
    let expected = [
        (0, None, "a0"),
        (1, None, "a1"),
        (2, Some(7), "undecodable"),
        (7, Some(10), "undecodable"),
        (10, None, "a10"),
        (11, Some(15), "undecodable"),
        (0, None, "b0"),
        (1, None, "b1"),
    ];
    assert_eq!(told, expected);
    assert_no_more(&mut source);
    assert_eq!(next_offsets(&source), [(0, 15), (1, 2)]);
    topic.send_json(0, &["a15"]);
    assert_eq!(offsets(&take(&mut source, 1)), [15]);
}
