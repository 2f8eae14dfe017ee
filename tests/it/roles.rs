//! The promises of `run --role`: sketchers and an owner do what one process does, whichever of them dies.
//!
//! ```sh
//! deploy/kafka-local.sh start
//! LOOKALIKE_TEST_KAFKA=127.0.0.1:19092 cargo test --release --test it roles
//! ```
//! Without the variable, every test passes without a check, and says so.

use crate::harness::broker::*;
use crate::harness::process::{LONG, Process};
use crate::harness::{World, records_of_every_kind, sample_lines, text};
use lookalike::wire::Event;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::producer::{BaseProducer, Producer};
use rdkafka::{Offset, TopicPartitionList};
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The topics of a crawl, and the settings of all processes on them.
struct Crawl {
    pages: Topic,
    sketches: Topic,
    events: Topic,
    dead_letters: Topic,
    /// Of the owner: its folder holds the store.
    owner: World,
}

impl Crawl {
    fn new(n_partitions: i32) -> Option<Self> {
        let pages = topic(n_partitions)?;
        let (sketches, events) = (topic(n_partitions)?, topic(1)?);
        let dead_letters = Topic { brokers: pages.brokers.clone(), name: format!("{}.dlq", pages.name) };
        dead_letters.create(1);
        let owner = World::new();
        Some(Crawl { pages, sketches, events, dead_letters, owner })
    }

    fn config(&self) -> String {
        let Crawl { pages, sketches, events, .. } = self;
        format!(
            "input.from = \"kafka\"\nlog.level = \"warn\"\n[kafka]\nbrokers = \"{}\"\ntopic = \"{}\"\nsketches_topic = \"{}\"\n\
             events_topic = \"{}\"\nassignments_topic = \"\"\nmerges_topic = \"\"\ngroup = \"{}-group\"\n\
             [kafka.properties]\n\"session.timeout.ms\" = \"6000\"\n\"heartbeat.interval.ms\" = \"500\"\n",
            pages.brokers, pages.name, sketches.name, events.name, pages.name
        )
    }

    fn command(&self, world: &World, subcommand: &str) -> Command {
        // Another process may be reading it, and the world of a sketcher may be gone before it does.
        let config = self.owner.path("roles.toml");
        if !config.exists() {
            self.owner.write("roles.toml", self.config());
        }
        let mut command = world.command(subcommand);
        command.arg("--config").arg(config).stderr(Stdio::piped());
        command
    }

    /// A sketcher under a name, which keeps its partitions when it returns.
    fn sketcher(&self, name: &str) -> Process {
        self.sketcher_in(&World::new().with("kafka.member", name))
    }

    fn sketcher_in(&self, world: &World) -> Process {
        Process::start(self.command(world, "run -q --role sketcher"))
    }

    fn owner(&self) -> Process {
        Process::start(self.command(&self.owner, "run -q --role owner"))
    }

    fn events(&self) -> Vec<Event> {
        let seen = see_all(&self.events.brokers, &self.events.name);
        let events: Vec<Event> = seen.iter().map(|seen| serde_json::from_str(seen.text()).expect("an event")).collect();
        assert!(seen.iter().zip(0..).all(|(seen, seq)| seen.seq() == seq), "each event once, in order");
        events
    }

    /// Waits until so many records have their events.
    fn await_events(&self, n_records: usize, processes: &mut [&mut Process]) {
        let until = Instant::now() + LONG;
        loop {
            let n = self.events().iter().filter(|event| event.kind().is_terminal()).count();
            if n >= n_records {
                return;
            }
            processes.iter_mut().for_each(|process| process.check_alive());
            assert!(Instant::now() < until, "only {n} of {n_records} records have their events");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn lines(&self) -> Vec<String> {
        see_all(&self.events.brokers, &self.events.name).iter().map(|seen| seen.text().to_string()).collect()
    }

    /// The same pages through one process, without roles, on a store and topics of its own.
    fn plain(&self, pages: &Topic) -> Vec<String> {
        let plain = Crawl {
            pages: Topic { brokers: pages.brokers.clone(), name: pages.name.clone() },
            sketches: topic(1).expect("a broker"),
            events: topic(1).expect("a broker"),
            dead_letters: topic(1).expect("a broker"),
            owner: World::new().with("kafka.dead_letters", false).with("kafka.group", format!("{}-plain", pages.name)),
        };
        let mut process = Process::start(plain.command(&plain.owner, "run -q"));
        plain.await_events(self.n_terminal(), &mut [&mut process]);
        process.stop();
        let lines = plain.lines();
        // The topic of pages is another crawl's.
        std::mem::forget(plain.pages);
        lines
    }

    fn n_terminal(&self) -> usize {
        self.events().iter().filter(|event| event.kind().is_terminal()).count()
    }

    /// Moves the sketchers' group, which must have no members, as an operator does.
    fn rewind(&self, partition: i32, offset: i64) {
        let consumer: BaseConsumer =
            self.pages.config().set("group.id", format!("{}-group", self.pages.name)).create().expect("a consumer");
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.pages.name, partition, Offset::Offset(offset)).expect("an offset");
        let until = Instant::now() + PATIENCE;
        // A member that was killed stays for the length of its session.
        while let Err(error) = consumer.commit(&list, CommitMode::Sync) {
            assert!(Instant::now() < until, "{error}");
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    fn recreate_sketches(&self) {
        self.recreate_sketches_for(16 << 20);
    }

    /// The topic takes messages of so many bytes at most.
    fn recreate_sketches_for(&self, bytes_max: usize) {
        self.sketches.delete();
        std::thread::sleep(Duration::from_secs(1));
        self.sketches.create_for(1, bytes_max);
    }
}

fn send(topic: &Topic, partition: i32, lines: &[String]) {
    topic.send_json(partition, &lines.iter().map(String::as_str).collect::<Vec<_>>());
}

fn group_offset(crawl: &Crawl, partition: i32) -> Option<i64> {
    crawl.pages.group_offset(partition)
}

/// The core of it: one partition, one sketcher, one owner, and what a plain run says of the same records.
#[test]
fn one_partition_gives_the_very_events_of_run() {
    let Some(crawl) = Crawl::new(1) else { return };
    let lines = [records_of_every_kind(), sample_lines(), records_of_every_kind()].concat();
    send(&crawl.pages, 0, &lines);
    let (mut sketcher, mut owner) = (crawl.sketcher("one"), crawl.owner());
    crawl.await_events(lines.len(), &mut [&mut sketcher, &mut owner]);
    sketcher.stop();
    owner.stop();
    assert_eq!(group_offset(&crawl, 0), Some(lines.len() as i64), "what is acknowledged is committed at the end");
    assert_eq!(crawl.lines(), crawl.plain(&crawl.pages));
    let letters = see_all(&crawl.pages.brokers, &crawl.dead_letters.name);
    let values: Vec<&str> = letters.iter().map(Seen::text).collect();
    let rejected = [&records_of_every_kind()[2], &records_of_every_kind()[6]];
    assert_eq!(values, [rejected, rejected].concat(), "each rejected record is a dead letter once, as it came");
    assert_eq!(letters[1].header("lookalike-offset"), Some("6"));
}

/// Lost once: the stream, for good. A sketcher stopped at a rejected record that its topic refuses, where the crawler
/// packs better: for its value, or for its headers. What comes behind it stays behind it.
#[test]
fn rejected_records_that_the_topic_refuses_go_with_less_of_the_original() {
    let Some(crawl) = Crawl::new(1) else { return };
    crawl.recreate_sketches_for(9 << 20);
    let mut state: u64 = 0x2545_f491_4f6c_dd1d;
    let mut digit = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from_digit((state >> 60) as u32, 16).expect("a digit")
    };
    let hex: String = (0..12 << 20).map(|_| digit()).collect();
    let broken = format!(r#"{{"url":"http://a/9","body":"{hex}"#);
    let lines = records_of_every_kind();
    let plain = |at: usize| Sent { value: Some(lines[at].as_str()), ..Sent::default() };
    let many = [("x", hex.as_bytes())];
    let mut sent = vec![
        plain(0),
        Sent { key: Some("k"), value: Some(&broken), headers: &[("x", b"1")], ..Sent::default() },
        plain(1),
        Sent { key: Some("k"), value: Some("no JSON either"), headers: &many, ..Sent::default() },
    ];
    sent.extend((2..lines.len()).map(plain));
    let mut config = crawl.pages.config();
    config.set("compression.type", "zstd").set("message.max.bytes", "100000000").set("enable.idempotence", "true");
    let producer: BaseProducer = config.create().expect("a producer");
    sent.iter().for_each(|message| message.send(&producer, &crawl.pages.name, 0));
    producer.flush(PATIENCE).expect("delivered");
    let (mut sketcher, mut owner) = (crawl.sketcher("one"), crawl.owner());
    crawl.await_events(sent.len(), &mut [&mut sketcher, &mut owner]);
    sketcher.stop();
    owner.stop();
    assert_eq!(group_offset(&crawl, 0), Some(sent.len() as i64));
    assert_eq!(crawl.lines(), crawl.plain(&crawl.pages));
    let letters = see_all(&crawl.pages.brokers, &crawl.dead_letters.name);
    let shown: Vec<_> = letters
        .iter()
        .map(|seen| (seen.key.as_deref(), seen.value.as_deref(), seen.header("x"), seen.header("lookalike-left-out")))
        .collect();
    let expected = [
        (Some("k"), None, Some("1"), Some("value")),
        (None, None, None, Some("all")),
        (None, Some(lines[2].as_str()), None, None),
        (None, Some(lines[6].as_str()), None, None),
    ];
    assert_eq!(shown, expected);
}

/// Lost if this fails: records, when sketchers are killed and partitions move; or records twice.
#[test]
fn killed_sketchers_lose_and_double_nothing() {
    let Some(crawl) = Crawl::new(3) else { return };
    let lines = [records_of_every_kind(), sample_lines()].concat();
    let mut n_sent = 0;
    let mut owner = crawl.owner();
    let mut sketchers: Vec<Process> = ["a", "b", "c"].into_iter().map(|name| crawl.sketcher(name)).collect();
    let mut state: u64 = 0x2545_f491_4f6c_dd1d;
    for (round, part) in lines.chunks(lines.len().div_ceil(6)).enumerate() {
        for (partition, lines) in part.chunks(part.len().div_ceil(3)).enumerate() {
            send(&crawl.pages, partition as i32, lines);
            n_sent += lines.len();
        }
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        std::thread::sleep(Duration::from_millis((state >> 33) % 1_500));
        let at = round % 3;
        let name = ["a", "b", "c"][at];
        sketchers.remove(at).kill();
        if round == 4 {
            // Its partition moves to the others before it comes back.
            std::thread::sleep(Duration::from_secs(8));
        }
        sketchers.insert(at, crawl.sketcher(name));
        if round == 2 {
            owner.kill();
            owner = crawl.owner();
        }
    }
    crawl.await_events(n_sent, &mut [&mut owner]);
    sketchers.into_iter().for_each(Process::stop);
    owner.stop();
    let told = crawl.lines();
    let mut places: Vec<(i64, i64)> = Vec::new();
    let mut in_order = Vec::new();
    let mut next = BTreeMap::new();
    for line in &told {
        let event: Value = serde_json::from_str(line).expect("JSON");
        if event.get("offset").is_some() {
            let place = (event["partition"].as_i64().expect("a number"), event["offset"].as_i64().expect("a number"));
            if places.last() != Some(&place) {
                places.push(place);
                let next = next.entry(place.0).or_insert(0);
                assert_eq!(place.1, *next, "in the order of each partition, each once");
                *next += 1;
                in_order.push(place);
            }
        }
    }
    assert_eq!(in_order.len(), lines.len());
    // The pages once more, in the order that the events tell, through one process.
    let of: Vec<Seen> = see_all(&crawl.pages.brokers, &crawl.pages.name);
    let of: BTreeMap<(i64, i64), &str> =
        of.iter().map(|seen| ((i64::from(seen.partition), seen.offset), seen.text())).collect();
    let replayed = topic(1).expect("a broker");
    replayed.send_json(0, &in_order.iter().map(|place| of[place]).collect::<Vec<_>>());
    let without_place = |line: &String| {
        let mut event: Value = serde_json::from_str(line).expect("JSON");
        let fields = event.as_object_mut().expect("an object");
        ["source", "partition", "offset"].into_iter().for_each(|name| drop(fields.remove(name)));
        event
    };
    let expected: Vec<Value> = crawl.plain(&replayed).iter().map(without_place).collect();
    assert_eq!(told.iter().map(without_place).collect::<Vec<_>>(), expected);
}

/// The topic of sketches is a cache: what was deleted is sketched again.
#[test]
fn a_hole_stops_the_owner_and_says_how_to_go_on() {
    let Some(crawl) = Crawl::new(1) else { return };
    let lines = sample_lines();
    send(&crawl.pages, 0, &lines[..100]);
    let (mut sketcher, mut owner) = (crawl.sketcher("one"), crawl.owner());
    crawl.await_events(100, &mut [&mut sketcher, &mut owner]);
    owner.stop();
    send(&crawl.pages, 0, &lines[100..200]);
    crate::harness::wait_until("the sketches are there", || group_offset(&crawl, 0) == Some(200));
    crawl.sketches.delete_records_below(0, 150);
    let output = crawl.owner().end();
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(17), "{told}");
    assert_says(
        &told,
        &["partition 0", "--to-offset 100 ", &format!("--topic {}:0", crawl.pages.name), &crawl.sketches.name],
    );
    assert_eq!(crawl.n_terminal(), 100, "nothing behind the hole was taken");
    sketcher.stop();
    crawl.rewind(0, 100);
    let (mut sketcher, mut owner) = (crawl.sketcher("one"), None);
    crate::harness::wait_until("the sketches are there again", || {
        sketcher.check_alive();
        see_all(&crawl.sketches.brokers, &crawl.sketches.name).len() == 150
    });
    let owner = owner.insert(crawl.owner());
    crawl.await_events(200, &mut [&mut sketcher, owner]);
    assert_eq!(crawl.lines(), crawl.plain(&crawl.pages));
}

/// Lost if this fails: clusters, which sketches of other rules tear apart, or a record whose sketch is refused.
#[test]
fn sketches_of_another_rule_are_refused() {
    let Some(crawl) = Crawl::new(1) else { return };
    let lines = sample_lines();
    send(&crawl.pages, 0, &lines[..50]);
    let (mut sketcher, mut owner) = (crawl.sketcher("one"), crawl.owner());
    crawl.await_events(50, &mut [&mut sketcher, &mut owner]);
    sketcher.stop();
    let other = World::new().with("sketch.w", 7);
    let foreign = crawl.sketcher_in(&other);
    send(&crawl.pages, 0, &lines[50..80]);
    let output = owner.end();
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(18), "{told}");
    assert_says(&told, &["partition 0", "other settings", "[sketch]", "offset 50"]);
    foreign.stop();
    crawl.recreate_sketches();
    crawl.rewind(0, 50);
    let (mut sketcher, mut owner) = (crawl.sketcher("one"), crawl.owner());
    crawl.await_events(80, &mut [&mut sketcher, &mut owner]);
    sketcher.stop();
    owner.stop();
    // What another program left in the topic is refused, too.
    crawl.sketches.send_json(0, &["no sketch"]);
    let output = crawl.owner().end();
    assert_eq!(output.status.code(), Some(18), "{}", text(&output.stderr));
    assert_eq!(crawl.lines(), crawl.plain(&crawl.pages));
}

/// Lost once: peace. A sketcher whose name another one took ended with 1, so that supervisors started both for ever.
#[test]
fn of_two_sketchers_of_one_name_the_earlier_leaves() {
    let Some(crawl) = Crawl::new(1) else { return };
    let lines = sample_lines();
    send(&crawl.pages, 0, &lines[..50]);
    let (mut earlier, mut owner) = (crawl.sketcher("one"), crawl.owner());
    crawl.await_events(50, &mut [&mut earlier, &mut owner]);
    let mut later = crawl.sketcher("one");
    let output = earlier.end();
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(13), "{told}");
    assert_says(&told, &["kafka.member", "\"one\""]);
    send(&crawl.pages, 0, &lines[50..80]);
    crawl.await_events(80, &mut [&mut later, &mut owner]);
    later.stop();
    owner.stop();
    assert_eq!(crawl.lines(), crawl.plain(&crawl.pages));
}

/// Progress is that of the pages, so a store goes on either way.
#[test]
fn a_store_goes_on_with_and_without_roles() {
    let Some(crawl) = Crawl::new(1) else { return };
    let lines = sample_lines();
    let mut n = 0;
    for (has_roles, until) in [(false, 60), (true, 130), (false, 200), (true, 260)] {
        send(&crawl.pages, 0, &lines[n..until]);
        n = until;
        if has_roles {
            let (mut sketcher, mut owner) = (crawl.sketcher("one"), crawl.owner());
            crawl.await_events(n, &mut [&mut sketcher, &mut owner]);
            sketcher.stop();
            owner.stop();
        } else {
            let mut plain = Process::start(crawl.command(&crawl.owner, "run -q"));
            crawl.await_events(n, &mut [&mut plain]);
            plain.stop();
        }
    }
    assert_eq!(crawl.lines(), crawl.plain(&crawl.pages));
}

#[test]
fn topics_that_do_not_fit_are_refused() {
    let Some(crawl) = Crawl::new(1) else { return };
    crawl.pages.add_partitions(2);
    for process in [crawl.sketcher("one"), crawl.owner()] {
        let output = process.end();
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert_says(&told, &["has 2 partitions", "has 1", &crawl.sketches.name]);
    }
    crawl.sketches.delete();
    let output = crawl.owner().end();
    assert_says(&text(&output.stderr), &["topics create --sketches", &crawl.sketches.name]);
    crawl.sketches.create(2);
    let without_seed = World::new().with("store.seed", "");
    let output = crawl.sketcher_in(&without_seed).end();
    assert_eq!(output.status.code(), Some(2));
    assert_says(&text(&output.stderr), &["store.seed"]);
    let output = crawl.command(&crawl.owner, "run -q --role owner --accept-gap").output().expect("runs");
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}
