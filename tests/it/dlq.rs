//! Replays of dead letters, through a real broker: each letter once, wherever the replay stops, and none for ever.
//!
//! ```sh
//! deploy/kafka-local.sh start
//! LOOKALIKE_TEST_KAFKA=127.0.0.1:19092 cargo test --release --test it dlq
//! ```
//! Without the variable, every test passes without a check, and says so.

use crate::harness::World;
use crate::harness::broker::*;
use crate::harness::schema::{assert_valid, event_validator, validator};
use lookalike::kafka::{VERSION_HEADER, dead_letter, replayed};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde_json::{Value, json};
use std::process::{Child, Output};
use std::time::Instant;

/// Topics of pages, events, assignments, merges and dead letters, and a world configured for them.
struct Trial {
    pages: Topic,
    events: Topic,
    assignments: Topic,
    merges: Topic,
    letters: Topic,
    world: World,
}

impl Trial {
    fn new(n_partitions: i32) -> Option<Self> {
        let (pages, events, assignments, merges) = (topic(n_partitions)?, topic(1)?, topic(1)?, topic(1)?);
        let letters = Topic { brokers: pages.brokers.clone(), name: format!("{}.dlq", pages.name) };
        letters.create(n_partitions);
        let world = World::new()
            .with_config("kafka.toml")
            .with("kafka.brokers", &pages.brokers)
            .with("kafka.topic", &pages.name)
            .with("kafka.events_topic", &events.name)
            .with("kafka.assignments_topic", &assignments.name)
            .with("kafka.merges_topic", &merges.name)
            .with("kafka.group", format!("{}-group", pages.name))
            .with("metrics.listen", "")
            .with("log.level", "warn");
        Some(Trial { pages, events, assignments, merges, letters, world })
    }

    /// Runs the program until it has reported this many records in all; `variables` are settings of this run.
    fn take_in(&self, n_records: usize, variables: &[(&str, &str)]) {
        let mut command = self.world.command("run -q");
        let mut process: Child = command.envs(variables.iter().copied()).spawn().expect("starts");
        let until = Instant::now() + PATIENCE;
        while self.terminal().len() < n_records {
            assert!(Instant::now() < until, "only {} of {n_records} records came", self.terminal().len());
            assert!(process.try_wait().expect("a status").is_none(), "the program ended");
            std::thread::sleep(TICK);
        }
        let ended = std::process::Command::new("kill").arg(process.id().to_string()).status().expect("kill");
        assert!(ended.success() && process.wait().expect("ended").success());
    }

    /// The terminal events: the type of each, and the position of its record.
    fn terminal(&self) -> Vec<(String, i64, i64)> {
        let seen = see_all(&self.events.brokers, &self.events.name);
        let events =
            seen.iter().map(|seen| serde_json::from_str::<lookalike::wire::Event>(seen.text()).expect("an event"));
        let terminal = events.filter(|event| event.kind().is_terminal());
        terminal
            .map(|event| {
                let kind = serde_json::to_value(event.kind()).expect("a word");
                (kind.as_str().expect("a word").to_string(), i64::from(event.partition), event.offset)
            })
            .collect()
    }

    /// Sends a dead letter of a message from partition 0.
    fn put_letter(&self, producer: &BaseProducer, value: &str, reason: &str, more: &[(&str, &str)]) {
        let own = [
            (dead_letter::SOURCE, self.pages.name.as_str()),
            (dead_letter::PARTITION, "0"),
            (dead_letter::OFFSET, "5"),
            (dead_letter::REASON, reason),
        ];
        let headers = own
            .iter()
            .chain(more)
            .fold(OwnedHeaders::new(), |headers, (key, value)| headers.insert(Header { key, value: Some(*value) }));
        let record: BaseRecord<'_, str, str> = BaseRecord::to(&self.letters.name).payload(value).headers(headers);
        producer.send(record).map_err(|(error, _)| error).expect("queued");
    }

    fn letters(&self) -> Vec<Seen> {
        see_all(&self.letters.brokers, &self.letters.name)
    }

    fn pages(&self) -> Vec<Seen> {
        see_all(&self.pages.brokers, &self.pages.name)
    }

    fn replay_output(&self, arguments: &[&str]) -> Output {
        self.world.command("dlq replay --json").args(arguments).output().expect("starts")
    }

    /// The report of a replay that must end with this exit code.
    fn replay(&self, arguments: &[&str], code: i32) -> Value {
        let output = self.replay_output(arguments);
        assert_eq!(output.status.code(), Some(code), "{}", crate::harness::text(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("JSON")
    }
}

const IMAGE: &[(&str, &[u8])] = &[("content-type", b"image/png"), ("x", b"1"), ("x", b"2")];

/// Configures raw pages, which use key, headers and time.
const RAW: &[(&str, &str)] = &[("LOOKALIKE__KAFKA__FORMAT", "raw")];

/// Lost once: rejected messages could be inspected, but nothing put them back. They return unchanged, to their
/// partition, and are accepted once the cause is mended.
#[test]
fn what_was_rejected_is_taken_in_once_the_cause_is_mended() {
    let Some(trial) = Trial::new(2) else { return };
    let long = "many words ".repeat(20);
    let page =
        |url| Sent { key: Some(url), value: Some(&long), time_ms: Some(1_600_000_000_000), headers: &[("x", b"1")] };
    trial.pages.send(0, &[page("http://a/"), page("http://b/")]);
    trial.pages.send(1, &[page("http://c/"), Sent { value: Some("short"), ..page("http://d/") }]);
    trial.take_in(4, &[RAW[0], ("LOOKALIKE__LIMITS__WORDS_MAX", "30")]);
    assert_eq!(trial.letters().len(), 3);

    let before = trial.pages();
    let counted = trial.replay(&["--dry-run"], 0);
    assert_eq!((&counted["replayed"], &counted["dry_run"]), (&json!({"too-large": 3}), &json!(true)));
    assert_eq!(trial.pages(), before, "a dry run sends nothing");
    let told = trial.replay(&[], 0);
    assert_eq!((&told["replayed"], &told["complete"]), (&json!({"too-large": 3}), &json!(true)));

    let mut replayed: Vec<Seen> = trial.pages().into_iter().filter(|seen| !before.contains(seen)).collect();
    // The dead letters of one partition may lie in several, which come in any order.
    replayed.sort_by(|a, b| (a.partition, &a.key).cmp(&(b.partition, &b.key)));
    let shown: Vec<_> = replayed.iter().map(|seen| (seen.partition, seen.key.as_deref().expect("a key"))).collect();
    assert_eq!(shown, [(0, "http://a/"), (0, "http://b/"), (1, "http://c/")]);
    let origins =
        [(0, 0), (0, 1), (1, 0)].map(|(partition, offset)| format!("{}[{partition}]@{offset}", trial.pages.name));
    for (seen, origin) in replayed.iter().zip(origins) {
        assert_eq!((seen.text(), seen.time_ms), (long.as_str(), Some(1_600_000_000_000)));
        let header = |name: &str, value: &str| (name.to_string(), Some(value.to_string()));
        let headers = [header("x", "1"), header(replayed::ORIGIN, &origin), header(replayed::COUNT, "1")];
        assert_eq!(seen.headers, headers, "none of those that the dead letter had");
    }

    trial.take_in(7, RAW);
    let kinds: Vec<(String, i64, i64)> = trial.terminal();
    let assigned = |of: &[(String, i64, i64)]| of.iter().filter(|(kind, _, _)| kind == "assigned").count();
    assert_eq!((assigned(&kinds), assigned(&kinds[4..])), (4, 3), "{kinds:?}");
    assert_eq!(trial.letters().len(), 3, "nothing is rejected any more");
    let nothing = trial.replay(&[], 0);
    assert_eq!(nothing["replayed"], json!({}), "it goes on where it stopped");
}

/// A page that is replayed twice is one sighting: clusters and histories stay the same.
#[test]
fn a_page_that_comes_twice_does_no_harm() {
    let Some(trial) = Trial::new(1) else { return };
    let page = crate::harness::page("http://a/", "2026-11-21T08:00:00Z", "s", "some words of a page");
    trial.pages.send_json(0, &[&page, "{}"]);
    trial.take_in(2, &[("LOOKALIKE__LIMITS__WORDS_MAX", "2")]);
    for n in [1, 2] {
        trial.replay(&["--from", "0=0", "--reason", "too-large"], 0);
        trial.take_in(2 + n, &[]);
    }
    let stats: Value = serde_json::from_str(&trial.world.ask("stats --json", &[])).expect("JSON");
    assert_eq!((&stats["n_sightings"], &stats["n_documents"]), (&json!(1), &json!(1)), "{stats}");
    trial.world.ask("verify", &[]);
}

#[test]
fn each_reason_is_remembered_for_itself() {
    let Some(trial) = Trial::new(1) else { return };
    let page = Sent { key: Some("http://a/"), value: Some("x"), headers: IMAGE, ..Sent::default() };
    let busy = Sent { headers: &[("http-status", b"503")], ..page };
    trial.pages.send(0, &[page, busy, page, busy, busy]);
    trial.take_in(5, RAW);
    assert_eq!(trial.letters().len(), 5);
    let replayed = |arguments: &[&str]| trial.replay(arguments, 0)["replayed"].clone();
    assert_eq!(replayed(&["--reason", "http-status", "--limit", "2"]), json!({"http-status": 2}));
    assert_eq!(replayed(&["--reason", "http-status", "--reason", "not-text"]), json!({"http-status": 1}));
    assert_eq!(replayed(&["--dry-run"]), json!({"media-type": 2}), "what was passed over is not forgotten");
    assert_eq!(replayed(&[]), json!({"media-type": 2}));
    assert_eq!(replayed(&[]), json!({}));
    assert_eq!(replayed(&["--from", "0=3"]), json!({"http-status": 2}), "where it is told to begin");
    assert_eq!(replayed(&["--from", "2100-01-01T00:00:00Z"]), json!({}));
    assert_eq!(replayed(&["--from", "2001-01-01T00:00:00Z", "--limit", "1"]), json!({"media-type": 1}));
    assert_eq!(replayed(&["--reason", "media-type"]), json!({"media-type": 1}), "and remembers from there");
}

/// Without a count, a message that is rejected again would circulate for ever.
#[test]
fn what_is_rejected_again_and_again_is_left_alone() {
    let Some(trial) = Trial::new(1) else { return };
    trial.pages.send(0, &[Sent { key: Some("http://a/"), value: Some("x"), headers: IMAGE, ..Sent::default() }]);
    for n in 1..=3_usize {
        trial.take_in(n, RAW);
        let letters = trial.letters();
        assert_eq!(letters.len(), n);
        if n == 3 {
            break;
        }
        assert_eq!(trial.replay(&["--replays-max", "2"], 0)["replayed"], json!({"media-type": 1}));
        let letter = letters.last().expect("a letter");
        let count = (n > 1).then(|| (n - 1).to_string());
        assert_eq!(letter.header(replayed::COUNT), count.as_deref());
    }
    let letters = trial.letters();
    let last = letters.last().expect("a letter");
    assert_eq!(last.header(replayed::COUNT), Some("2"));
    assert_eq!(last.header(replayed::ORIGIN), Some(format!("{}[0]@0", trial.pages.name).as_str()), "its first place");
    assert_eq!(last.header(dead_letter::OFFSET), Some("2"), "its last one");
    assert_eq!(last.headers.iter().filter(|(name, _)| name == replayed::COUNT).count(), 1);
    let told = trial.replay(&["--replays-max", "2"], 3);
    assert_eq!((&told["replayed"], &told["too_often"]), (&json!({}), &json!(1)));
    let told = trial.replay(&["--from", &format!("0={}", last.offset)], 0);
    assert_eq!(told["replayed"], json!({"media-type": 1}), "three are allowed by default");
}

/// A replay that was killed resumes: no letter is lost, and at most one batch is repeated.
#[test]
fn a_replay_that_is_killed_loses_nothing() {
    const N: usize = 20_000;
    let Some(trial) = Trial::new(1) else { return };
    let producer = trial.letters.producer();
    (0..N).for_each(|n| trial.put_letter(&producer, &n.to_string(), "invalid-json", &[]));
    producer.flush(PATIENCE).expect("delivered");
    let mut process = trial.world.command("dlq replay").stdout(std::process::Stdio::null()).spawn().expect("starts");
    let until = Instant::now() + PATIENCE;
    while trial.pages().is_empty() {
        assert!(Instant::now() < until, "nothing was replayed");
    }
    process.kill().expect("killed");
    process.wait().expect("ended");
    let n_before = trial.pages().len();
    assert_eq!(trial.replay(&[], 0)["complete"], json!(true));
    let pages = trial.pages();
    let mut values: Vec<usize> = pages.iter().map(|seen| seen.text().parse().expect("a number")).collect();
    let n_twice = values.len() - N;
    values.sort_unstable();
    values.dedup();
    assert_eq!(values, (0..N).collect::<Vec<_>>(), "each is there");
    assert!(n_twice <= 1_000, "{n_twice} came twice");
    println!("killed after {n_before} of {N}; {n_twice} came twice");
}

/// A replay counts and leaves letters without their value, and messages of other programs. It replays a letter that
/// crashed the program only on request.
#[test]
fn what_cannot_go_back_is_told() {
    let Some(trial) = Trial::new(1) else { return };
    let producer = trial.letters.producer();
    let letter = |reason: &str, more: &[(&str, &str)]| trial.put_letter(&producer, "{}", reason, more);
    letter("too-large", &[(dead_letter::LEFT_OUT, "value")]);
    letter("poison", &[]);
    letter("invalid-json", &[]);
    producer.flush(PATIENCE).expect("delivered");
    trial.letters.send_json(0, &["somebody else's"]);
    let told = trial.replay(&[], 3);
    assert_eq!(told["replayed"], json!({"invalid-json": 1}));
    assert_eq!((&told["not_whole"], &told["foreign"], &told["too_often"]), (&json!(1), &json!(1), &json!(0)));
    assert_eq!(trial.replay(&[], 0)["replayed"], json!({}));
    assert_eq!(trial.replay(&["--reason", "poison"], 3)["replayed"], json!({"poison": 1}));
    assert_eq!(trial.pages().len(), 2);
}

#[test]
fn what_is_wrong_is_said() {
    let Some(trial) = Trial::new(1) else { return };
    let refused = |arguments: &[&str], code: i32, parts: &[&str]| {
        let output = trial.replay_output(arguments);
        let text = crate::harness::text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert_says(&text, parts);
    };
    refused(&["--reason", "ugly"], 2, &["the reasons are", "media-type"]);
    refused(&["--from", "soon"], 2, &["PARTITION=OFFSET"]);
    refused(&["--from", "7=0"], 2, &["no partition 7", "--from"]);
    trial.letters.delete();
    refused(&[], 1, &[&trial.letters.name, "lookalike topics create"]);
    trial.letters.create(1);
    let nobody = World::new().with("kafka.brokers", "127.0.0.1:1").with("kafka.connect_ms_max", 1_500);
    let output = nobody.command("dlq replay").output().expect("starts");
    assert_eq!(output.status.code(), Some(14), "{}", crate::harness::text(&output.stderr));
}

/// Every message that the program publishes carries the version and matches the schema.
#[test]
fn all_messages_are_as_the_schema_says() {
    let Some(trial) = Trial::new(1) else { return };
    let words = |own: usize| (0..60).map(|n| if n < own { format!("own{n} ") } else { format!("all{n} ") }).collect();
    let page = |url: &str, time: &str, words: String| crate::harness::page(url, time, "s", &words);
    let other: String = (0..60).map(|n| if n < 30 { format!("own{n} ") } else { format!("other{n} ") }).collect();
    let pages = [
        page("http://a/", "2026-11-21T08:00:00Z", words(0)),
        page("http://b/", "2026-11-21T08:00:00Z", other),
        page("http://c/", "2026-11-21T08:00:00Z", words(30)),
        json!({"url": "http://a/", "fetched_at": "2026-11-21T09:00:00Z", "gone": true}).to_string(),
        "no JSON".to_string(),
    ];
    trial.pages.send_json(0, &pages.each_ref().map(String::as_str));
    trial.take_in(5, &[("LOOKALIKE__CLUSTER__THRESHOLD", "0.2")]);
    trial.replay(&[], 0);
    trial.take_in(6, &[("LOOKALIKE__CLUSTER__THRESHOLD", "0.2")]);
    let headers =
        |seen: &Seen| Value::Object(seen.headers.iter().map(|(name, value)| (name.clone(), json!(value))).collect());
    let value =
        |seen: &Seen| seen.value.as_deref().map_or(Value::Null, |text| serde_json::from_str(text).expect("JSON"));
    for (topic, values, n) in [
        (&trial.events, event_validator(), 6),
        (&trial.assignments, validator("assignment"), 4),
        (&trial.merges, validator("merge"), 1),
    ] {
        let all = see_all(&topic.brokers, &topic.name);
        assert!(all.len() >= n, "{all:?}");
        for seen in all {
            assert_valid(&values, &value(&seen), "a value");
            assert_valid(&validator("event-headers"), &headers(&seen), "its headers");
        }
    }
    let letters = trial.letters();
    assert_eq!(letters.len(), 2);
    for letter in &letters {
        assert_eq!(letter.header(VERSION_HEADER), Some("1"));
        assert_valid(&validator("dead-letter-headers"), &headers(letter), "its headers");
    }
    let replayed = trial.pages().pop().expect("a message");
    assert_valid(&validator("replay-headers"), &headers(&replayed), "its headers");
}
