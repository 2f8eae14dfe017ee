//! Brokers that refuse requests, restart, and move partitions: librdkafka's mock cluster and the real program.
//!
//! The program is suspended while pages are sent and errors are queued at the brokers, and then resumes. Within half
//! a minute every page has its event; under the consumer's rule, each event counts once.
//!
//! The mock cluster shows aborted transactions to every reader, and fences no producer. So the tests drop repeats by
//! their numbers, and publish to one topic only: after an aborted transaction over two topics, a message in one of
//! them would look as if the whole batch were out. `tests/chaos.rs` uses a real broker.
//!
//! `LOOKALIKE_TEST_ERRORS=all` tries more errors of each kind of request.

use crate::harness::World;
use crate::harness::broker::{Sent, seen};
use lookalike::wire::Event;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, DefaultProducerContext, Producer};
use rdkafka::types::RDKafkaApiKey::{self, *};
use rdkafka::types::RDKafkaRespErr::{self, *};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use std::collections::BTreeSet;
use std::process::Child;
use std::time::{Duration, Instant};

/// The time within which lag must return to 0.
const WITHIN: Duration = Duration::from_secs(30);

const N_BROKERS: i32 = 3;

/// How many times each request is refused.
const N_ERRORS: usize = 3;

/// A cluster, the program that uses it, and the pages sent.
struct Trial {
    cluster: MockCluster<'static, DefaultProducerContext>,
    producer: BaseProducer,
    world: World,
    process: Child,
    n_sent: i64,
}

impl Trial {
    fn new() -> Self {
        let cluster = MockCluster::new(N_BROKERS).expect("a mock cluster");
        for topic in ["pages", "lookalike.events.v1", "pages.dlq"] {
            cluster.create_topic(topic, 1, N_BROKERS).expect("a topic");
        }
        let world = World::new()
            .with_config("kafka.toml")
            .with("kafka.brokers", cluster.bootstrap_servers())
            .with("kafka.assignments_topic", "")
            .with("kafka.merges_topic", "")
            .with("metrics.listen", "")
            .with("log.level", "off");
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", cluster.bootstrap_servers()).set("enable.idempotence", "true");
        let producer = config.create().expect("a producer");
        let process = world.command("run -q").stderr(std::process::Stdio::null()).spawn().expect("starts");
        let mut trial = Trial { cluster, producer, world, process, n_sent: 0 };
        trial.send();
        trial.await_events("before anything");
        trial
    }

    fn send(&mut self) {
        for _ in 0..3 {
            let url = format!("http://{}/", self.n_sent);
            let page = crate::harness::page(&url, "2026-11-21T08:00:00Z", "s", &format!("page {}", self.n_sent));
            Sent { value: Some(&page), ..Sent::default() }.send(&self.producer, "pages", 0);
            self.n_sent += 1;
        }
        self.producer.flush(WITHIN).expect("delivered");
    }

    /// Sends pages while an obstacle is in place.
    fn disturb(&mut self, name: &str, disturb: impl FnOnce(&Self)) {
        self.signal("STOP");
        self.send();
        disturb(self);
        self.signal("CONT");
        self.await_events(name);
    }

    fn signal(&self, name: &str) {
        let (name, id) = (format!("-{name}"), self.process.id().to_string());
        assert!(std::process::Command::new("kill").args([name, id]).status().expect("kill").success());
    }

    fn start(&mut self) {
        self.process = self.world.command("run -q").stderr(std::process::Stdio::null()).spawn().expect("starts");
    }

    /// Waits until every page has its event. Restarts a program that was fenced, or that reports unavailable brokers,
    /// as a supervisor would.
    fn await_events(&mut self, name: &str) {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.process.try_wait().expect("a status") {
                assert!(matches!(status.code(), Some(1 | 13 | 14)), "{name}: the program ended with {status}");
                self.start();
            }
            let told = self.told();
            if told.len() as i64 >= self.n_sent {
                assert_eq!(told, (0..self.n_sent).collect(), "{name}: each page has its event");
                println!("{name}: {} ms", begin.elapsed().as_millis());
                return;
            }
            let missing = self.n_sent - told.len() as i64;
            assert!(begin.elapsed() < WITHIN, "{name}: {missing} of {} pages have no event", self.n_sent);
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The offsets that have events, for a consumer that follows the rule; fails if numbers are missing.
    fn told(&self) -> BTreeSet<i64> {
        let mut seq = None;
        let mut offsets = BTreeSet::new();
        for (number, text) in self.events() {
            if seq.is_some_and(|seq| number <= seq) {
                continue;
            }
            assert_eq!(number, seq.map_or(0, |seq| seq + 1), "numbers are dense");
            seq = Some(number);
            let event: Event = serde_json::from_str(&text).expect("an event");
            if event.kind().is_terminal() {
                assert!(offsets.insert(event.offset), "offset {} has two events", event.offset);
            }
        }
        offsets
    }

    /// The numbers and texts of the events that are readable now: the errors affect this reader, too.
    fn events(&self) -> Vec<(u64, String)> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.cluster.bootstrap_servers()).set("group.id", "reader");
        config.set("enable.partition.eof", "true").set("fetch.wait.max.ms", "20");
        let consumer: BaseConsumer = config.create().expect("a consumer");
        let mut list = TopicPartitionList::new();
        list.add_partition_offset("lookalike.events.v1", 0, Offset::Beginning).expect("an offset");
        consumer.assign(&list).expect("assigned");
        let mut events = Vec::new();
        let until = Instant::now() + Duration::from_secs(3);
        while Instant::now() < until {
            match consumer.poll(Duration::from_millis(100)) {
                Some(Ok(message)) => {
                    let seen = seen(&message);
                    events.push((seen.seq(), seen.text().to_string()));
                }
                Some(Err(rdkafka::error::KafkaError::PartitionEOF(_))) => break,
                Some(Err(_)) | None => {}
            }
        }
        events
    }

    /// Queues all of these errors, one after the other, for one kind of request. With `anew`, the program starts into
    /// them.
    fn refuse(&mut self, (request, anew, errors): (RDKafkaApiKey, bool, &[RDKafkaRespErr])) {
        for error in errors {
            let name = format!("{request:?} {error:?}");
            if anew {
                self.process.kill().expect("killed");
                self.process.wait().expect("ended");
                self.send();
                self.cluster.request_errors(request, &[*error; N_ERRORS]);
                self.start();
                self.await_events(&name);
            } else {
                self.disturb(&name, |trial| trial.cluster.request_errors(request, &[*error; N_ERRORS]));
            }
            self.cluster.clear_request_errors(request);
        }
    }

    /// Stops the program in good order.
    fn end(mut self) {
        self.signal("TERM");
        assert_eq!(self.process.wait().expect("ended").code(), Some(0), "it ends in good order");
        let verified = self.world.command("verify").output().expect("starts");
        assert!(verified.status.success(), "{}", crate::harness::text(&verified.stdout));
    }
}

/// All but the last two errors of a list, or all errors on request.
fn chosen(errors: &[RDKafkaRespErr]) -> &[RDKafkaRespErr] {
    let all = std::env::var("LOOKALIKE_TEST_ERRORS").is_ok_and(|which| which == "all");
    if all { errors } else { &errors[..errors.len() - 2] }
}

fn try_all(requests: &[(RDKafkaApiKey, bool, &[RDKafkaRespErr])]) {
    let mut trial = Trial::new();
    for (request, anew, errors) in requests {
        trial.refuse((*request, *anew, chosen(errors)));
    }
    trial.end();
}

#[test]
fn refused_fetches_are_tried_again() {
    try_all(&[(
        Fetch,
        false,
        &[
            RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
            RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART,
            RD_KAFKA_RESP_ERR_FENCED_LEADER_EPOCH,
            RD_KAFKA_RESP_ERR_OFFSET_NOT_AVAILABLE,
            RD_KAFKA_RESP_ERR__TRANSPORT,
            RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR,
            RD_KAFKA_RESP_ERR_UNKNOWN_LEADER_EPOCH,
        ],
    )]);
}

#[test]
fn refused_messages_are_sent_again() {
    try_all(&[(
        Produce,
        false,
        &[
            RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
            RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
            RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
            RD_KAFKA_RESP_ERR__TRANSPORT,
            RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER,
            RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR,
        ],
    )]);
}

#[test]
fn refused_ends_of_transactions_are_found_out() {
    try_all(&[
        (
            EndTxn,
            false,
            &[
                RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
                RD_KAFKA_RESP_ERR_NOT_COORDINATOR,
                RD_KAFKA_RESP_ERR__TRANSPORT,
                RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH,
                RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE,
                RD_KAFKA_RESP_ERR_CONCURRENT_TRANSACTIONS,
            ],
        ),
        (
            AddPartitionsToTxn,
            false,
            &[
                RD_KAFKA_RESP_ERR_CONCURRENT_TRANSACTIONS,
                RD_KAFKA_RESP_ERR_NOT_COORDINATOR,
                RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
            ],
        ),
    ]);
}

#[test]
fn a_start_is_tried_again() {
    try_all(&[
        (
            FindCoordinator,
            true,
            &[
                RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE,
                RD_KAFKA_RESP_ERR__TRANSPORT,
                RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
                RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION,
            ],
        ),
        (
            InitProducerId,
            true,
            &[
                RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS,
                RD_KAFKA_RESP_ERR_CONCURRENT_TRANSACTIONS,
                RD_KAFKA_RESP_ERR_NOT_COORDINATOR,
                RD_KAFKA_RESP_ERR__TRANSPORT,
            ],
        ),
        (
            Metadata,
            true,
            &[
                RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE,
                RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART,
                RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION,
                RD_KAFKA_RESP_ERR__TRANSPORT,
            ],
        ),
    ]);
}

#[test]
fn leaders_move_and_brokers_come_and_go() {
    let mut trial = Trial::new();
    for topic in ["pages", "lookalike.events.v1", "lookalike.assignments.v1"] {
        for leader in [1, 2, 3] {
            let name = format!("{topic} moves to broker {leader}");
            trial.disturb(&name, |trial| trial.cluster.partition_leader(topic, 0, Some(leader)).expect("moved"));
        }
    }
    for broker in 1..=N_BROKERS {
        trial.signal("STOP");
        trial.send();
        trial.cluster.broker_down(broker).expect("down");
        trial.signal("CONT");
        std::thread::sleep(Duration::from_millis(1_500));
        trial.cluster.broker_up(broker).expect("up");
        trial.await_events(&format!("broker {broker} was away"));
    }
    trial.end();
}
