//! Killed at every step of the way of a batch, and started again: the same events, the same clusters, a sound store.
//!
//! ```sh
//! cargo test --release --features failpoints --test failpoints
//! ```

#![expect(clippy::expect_used, reason = "a test that cannot go on fails")]

mod broker;
mod harness;

use broker::{Topic, see_all};
use harness::{World, fold, page, sweeps, text};
use lookalike::wire::{Event, EventType, Reason};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Output;
use std::time::{Duration, Instant};

const SIGABRT: i32 = 6;

/// Every point on the way of a batch, in its order, and after how many hits the program is killed there.
const POINTS: &[(&str, &[u32])] = &[
    ("store-made", &[0]),
    ("store-named", &[0]),
    ("runs-cleared", &[0]),
    ("record-read", &[70]),
    ("sketched", &[70]),
    ("gathered", &[4]),
    ("decided", &[4]),
    ("before-write", &[0, 4]),
    ("after-write", &[0, 4]),
    ("in-memory", &[4]),
    ("frozen", &[0, 3]),
    ("run-begun", &[4]),
    ("run-written", &[0, 4]),
    ("run-ingested", &[0, 3]),
    ("run-complete", &[2]),
    ("run-noted", &[2]),
    ("applied", &[4]),
    ("handed-over", &[4]),
    ("before-sync", &[0, 4]),
    ("after-sync", &[0, 4]),
    ("released", &[0, 4]),
    ("before-publish", &[0, 4]),
    ("events-written", &[0, 4]),
    ("after-publish", &[4]),
    ("finishing", &[0]),
    ("finished", &[0]),
];

/// Every batch of postings becomes a run, of two families.
fn world() -> World {
    World::new().with("pipeline.batch_records_max", 16).with("store.delta_mib", 0).with("sketch.index_modulus", 25)
}

fn killed_at(world: &World, point: &str, n_passed: u32) -> Output {
    let mut command = world.run_command(&sweeps()[..1]);
    command.env("FAILPOINTS", format!("{point}={n_passed}*off->return"));
    command.output().expect("the program starts")
}

fn check(world: &World, unharmed: &World, what: &str) {
    world.run(&sweeps()[..1]);
    let events = |world: &World| fs::read(world.path("events.jsonl")).expect("events");
    assert!(events(world) == events(unharmed), "{what}: the events differ");
    assert_eq!(world.partition(), fold(&unharmed.events()), "{what}");
    let verified = world.command("verify").output().expect("starts");
    assert!(verified.status.success(), "{what}: {}", text(&verified.stdout));
}

fn unharmed() -> World {
    let unharmed = world();
    unharmed.run(&sweeps()[..1]);
    unharmed
}

#[test]
fn killed_at_every_point() {
    let unharmed = unharmed();
    for (point, hits) in POINTS {
        for n_passed in *hits {
            let (world, what) = (world(), format!("{point} after {n_passed}"));
            let output = killed_at(&world, point, *n_passed);
            let signal = output.status.signal();
            assert_eq!(signal, Some(SIGABRT), "{what} was not hit: {}", text(&output.stderr));
            check(&world, &unharmed, &what);
        }
    }
}

/// What is durable and not yet out goes out when the program starts; killed then, it goes out when it starts again.
#[test]
fn killed_while_catching_up() {
    let unharmed = unharmed();
    for point in ["catching-up", "events-written", "caught-up"] {
        let world = world();
        assert_eq!(killed_at(&world, "before-publish", 2).status.signal(), Some(SIGABRT));
        assert_eq!(killed_at(&world, point, 0).status.signal(), Some(SIGABRT), "{point} was not hit");
        check(&world, &unharmed, point);
    }
}

/// Every point on the way of closing a sweep, which marks 2200 URLs in three batches and then closes, and the hits after
/// which it is killed there.
const CLOSING_POINTS: &[(&str, &[u32])] = &[
    ("before-write", &[0, 1, 2, 3]),
    ("after-write", &[0, 2, 3]),
    ("before-sync", &[1, 2, 3]),
    ("after-sync", &[0, 1, 3]),
    ("events-written", &[0, 1, 2, 3]),
];

/// Two sweeps, of which the second lacks all pages but one; of two of the missing one stands elsewhere.
fn pages_to_close_over() -> String {
    let at = |url: String, day: usize, n: usize| {
        let text: String = (0..30).map(|word| format!("w{n}x{word} ")).collect();
        page(&url, &format!("2026-11-0{day}T00:00:00Z"), &day.to_string(), &text) + "\n"
    };
    let first = (0..2201).map(|n| at(format!("http://a/{n}"), 1, n));
    let second = (0..2201).step_by(2).map(|n| {
        let url = if n == 0 { "http://a/0".into() } else { format!("http://a/new/{n}") };
        at(url, 2, n)
    });
    first.chain(second).collect()
}

#[test]
fn killed_while_a_sweep_is_closed() {
    let folder = World::new();
    let input = folder.write("pages.jsonl", pages_to_close_over());
    let begun = || {
        let world = World::new();
        world.run(std::slice::from_ref(&input));
        world
    };
    let close = |world: &World| {
        let mut command = world.command("sweep close 2");
        command.arg("--events").arg(world.path("events.jsonl"));
        command
    };
    let events = |world: &World| fs::read(world.path("events.jsonl")).expect("events");
    let unharmed = begun();
    assert!(close(&unharmed).status().expect("starts").success());
    let n_told = |kind| unharmed.events().iter().filter(|event| event.kind == kind).count();
    assert_eq!([EventType::Lost, EventType::Moved, EventType::SweepClosed].map(n_told), [2200, 1100, 1]);
    for (point, hits) in CLOSING_POINTS {
        for n_passed in *hits {
            let (world, what) = (begun(), format!("{point} after {n_passed}"));
            let output = close(&world).env("FAILPOINTS", format!("{point}={n_passed}*off->return")).output();
            let output = output.expect("the program starts");
            assert_eq!(output.status.signal(), Some(SIGABRT), "{what} was not hit: {}", text(&output.stderr));
            // What was durable is let out by a run as well, and closing goes on behind it.
            if n_passed % 2 == 1 {
                world.run(std::slice::from_ref(&input));
            }
            assert!(close(&world).status().expect("starts").success(), "{what}");
            assert!(events(&world) == events(&unharmed), "{what}: the events differ");
            let verified = world.command("verify").output().expect("starts");
            assert!(verified.status.success(), "{what}: {}", text(&verified.stdout));
        }
    }
}

/// The places that some records kill the program at, and how often it dies at most before two such records are passed
/// over: in the second place not every death tells which of the records under way it was.
const DEADLY: [(&str, usize); 2] = [("deadly-to-sketch", 6), ("deadly-to-decide", 12)];

/// Pages of which some kill.
fn pages(deadly: &str, at: &[usize], n: usize) -> Vec<String> {
    let page_of = |number: usize| {
        let kind = if at.contains(&number) { deadly } else { "harmless" };
        let words: Vec<String> = (0..30).map(|word| format!("w{}x{word}", number / 3)).collect();
        page(&format!("http://{number}.example/{kind}"), "2026-11-21T08:00:00Z", "s", &words.join(" "))
    };
    (0..n).map(page_of).collect()
}

/// Runs a command until it no longer dies; how often it did.
fn n_deaths(mut once: impl FnMut() -> Output) -> usize {
    for n in 0..20 {
        let output = once();
        if output.status.signal() != Some(SIGABRT) {
            assert!(output.status.success(), "{}", text(&output.stderr));
            return n;
        }
    }
    panic!("it dies for ever");
}

/// The records whose events say that they kill; all others must have been taken in.
fn deadly_in(events: &[Event], n_records: usize) -> BTreeSet<i64> {
    let terminal: Vec<&Event> = events.iter().filter(|event| event.kind.is_terminal()).collect();
    assert_eq!(terminal.len(), n_records, "each record has its event");
    let (deadly, others): (Vec<&Event>, Vec<&Event>) =
        terminal.into_iter().partition(|event| event.reason == Some(Reason::Deadly));
    assert!(others.iter().all(|event| event.kind == EventType::Assigned), "{others:?}");
    deadly.iter().map(|event| event.offset).collect()
}

/// A page that killed the program killed it again after every start, for ever.
#[test]
fn a_page_that_kills_is_passed_over() {
    for (point, n_most) in DEADLY {
        let world = world().with("pipeline.passes_over_deadly", true);
        let input = world.path("pages.jsonl");
        fs::write(&input, pages(point, &[90, 130], 200).join("\n")).expect("written");
        let n = n_deaths(|| {
            let mut command = world.run_command(std::slice::from_ref(&input));
            command.env("FAILPOINTS", format!("{point}=return")).output().expect("the program starts")
        });
        assert!((3..=n_most).contains(&n), "{point}: {n} deaths");
        assert_eq!(deadly_in(&world.events(), 200), BTreeSet::from([90, 130]), "{point}");
        assert_eq!(world.partition(), fold(&world.events()), "{point}");
        let verified = world.command("verify").output().expect("starts");
        assert!(verified.status.success(), "{point}: {}", text(&verified.stdout));
    }
}

/// The same through a broker, whose dead letters hold the record as it came.
#[test]
fn a_message_that_kills_is_a_dead_letter() {
    let Some(input) = broker::topic(2) else { return };
    let outputs = [("events_topic", "events"), ("assignments_topic", "assignments"), ("merges_topic", "merges")];
    let mut world = world().with_config("kafka.toml").with("metrics.listen", "").with("kafka.brokers", &input.brokers);
    world = world.with("pipeline.passes_over_deadly", true);
    world = world.with("kafka.topic", &input.name).with("kafka.group", &input.name).with("log.level", "warn");
    for (field, name) in outputs {
        world = world.with(&format!("kafka.{field}"), format!("{}-{name}", input.name));
    }
    let made = world.command("topics create --replication 1").output().expect("starts");
    assert!(made.status.success(), "{}", text(&made.stderr));
    let of = |name: &str| Topic { brokers: input.brokers.clone(), name: format!("{}{name}", input.name) };
    let made = [of("-events"), of("-assignments"), of("-merges"), of(".dlq")];
    let pages = pages("deadly-to-sketch", &[90], 200);
    let values: Vec<&str> = pages.iter().map(String::as_str).collect();
    input.send_json(0, &values[..100]);
    input.send_json(1, &values[100..]);
    let mut n_deaths = 0;
    let mut process = None;
    let until = Instant::now() + Duration::from_secs(60);
    while see_all(&input.brokers, &made[0].name).iter().filter(|seen| !seen.text().contains("\"merged\"")).count() < 200
    {
        let mut running: std::process::Child = process.take().unwrap_or_else(|| {
            let mut command = world.command("run -q");
            command.env("FAILPOINTS", "deadly-to-sketch=return").spawn().expect("starts")
        });
        match running.try_wait().expect("a status") {
            Some(status) => {
                assert_eq!(status.signal(), Some(SIGABRT), "{status}");
                n_deaths += 1;
            }
            None => process = Some(running),
        }
        assert!(Instant::now() < until, "after {n_deaths} deaths it is not done");
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut process = process.expect("it goes on");
    process.kill().and_then(|()| process.wait()).expect("killed");
    let events = see_all(&input.brokers, &made[0].name);
    let events: Vec<Event> = events.iter().map(|seen| serde_json::from_str(seen.text()).expect("an event")).collect();
    assert_eq!((n_deaths, deadly_in(&events, 200)), (3, BTreeSet::from([90])));
    let letters = see_all(&input.brokers, &made[3].name);
    let told: Vec<_> = letters.iter().map(|seen| (seen.text(), seen.header("lookalike-reason"))).collect();
    assert_eq!(told, [(values[90], Some("deadly"))]);
}

/// The first list and the deadly places are the list of the sources.
#[test]
fn every_point_is_tried() {
    let mut named = Vec::new();
    let mut folders = vec![harness::root().join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let source = fs::read_to_string(path).expect("text");
                let names = source.split("kill_point!(\"").skip(1).filter_map(|rest| rest.split('"').next());
                named.extend(names.map(String::from));
            }
        }
    }
    named.sort();
    let mut tried: Vec<&str> = POINTS.iter().map(|(point, _)| *point).chain(["catching-up", "caught-up"]).collect();
    tried.extend(DEADLY.map(|(point, _)| point));
    tried.sort_unstable();
    assert_eq!(named, tried);
}
