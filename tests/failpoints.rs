//! Kills the program at every step of a batch and restarts it: the events and clusters stay the same, the store
//! sound.
//!
//! ```sh
//! cargo test --release --features failpoints --test failpoints
//! ```

#![expect(clippy::expect_used, reason = "a test that cannot go on fails")]

#[path = "it/harness/mod.rs"]
mod harness;

use harness::broker::{Topic, see_all};
use harness::server::{Server, try_response};
use harness::{World, fold, page, sweeps, text};
use lookalike::wire::{Event, EventType, Reason};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const SIGABRT: i32 = 6;
const SIGKILL: i32 = 9;

/// The exit code of a program whose main thread panicked.
const PANICKED: i32 = 101;

/// The kill points of a batch, in order, with the numbers of hits that pass before the kill.
const POINTS: &[(&str, &[u32])] = &[
    ("store-made", &[0]),
    ("store-named", &[0]),
    ("runs-cleared", &[0]),
    ("record-read", &[70]),
    ("sketched", &[70]),
    ("gathered", &[4]),
    ("looked-up", &[4]),
    ("decided", &[4]),
    ("encoded", &[4]),
    ("before-write", &[0, 4]),
    ("after-write", &[0, 4]),
    ("written", &[4]),
    ("in-memory", &[4]),
    ("frozen", &[0, 3]),
    ("lists-begun", &[0, 3]),
    ("lists-written", &[0, 3]),
    ("lists-ingested", &[0, 3]),
    ("run-begun", &[4]),
    ("run-written", &[0, 4]),
    ("run-ingested", &[0, 3]),
    ("run-complete", &[2]),
    ("run-noted", &[2]),
    ("indexed", &[4]),
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

/// A world without a posting buffer: every batch becomes a run of postings, of super shingles and of equivalence fingerprints.
fn world() -> World {
    World::new()
        .with("pipeline.batch_records_max", 16)
        .with("store.posting_buffer_mib", 0)
        .with("sketch.index_modulus", 25)
}

fn killed_at(world: &World, point: &str, n_passed: u32) -> Output {
    let mut command = world.run_command(&sweeps()[..1]);
    command.env("FAILPOINTS", format!("{point}={n_passed}*off->return"));
    command.output().expect("the program starts")
}

fn check(world: &World, unharmed: &World, what: &str) {
    world.run(&sweeps()[..1]);
    assert_same_events_and_sound(world, unharmed, what);
    assert_eq!(world.partition(), fold(&unharmed.events()), "{what}");
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

/// The kill points of a merge of runs of postings, with the numbers of hits that pass before the kill: some of index shingles, some
/// of super shingles, some of merged runs.
const MERGE_POINTS: &[(&str, &[u32])] = &[
    ("merge-begun", &[0, 9, 16]),
    ("merge-ingested", &[0, 9, 16]),
    ("merge-noted", &[0, 9, 16]),
    ("merged-deleted", &[0, 15, 100]),
];

/// A run of each kind for every document, so that many are merged.
fn merging_world() -> World {
    world().with("pipeline.batch_records_max", 1)
}

/// The golden pages, and as many as it takes until merged runs are merged.
fn merging_pages() -> Vec<u8> {
    let golden = fs::read(harness::root().join("tests/golden/pages.jsonl")).expect("pages");
    let more = (0..70).map(|n| {
        let words: Vec<String> = (0..30).map(|word| format!("w{}", 30 * n + word)).collect();
        page(&format!("http://more.example/{n}"), "2026-11-30T00:00:00Z", "more", &words.join(" ")) + "\n"
    });
    [golden, more.collect::<String>().into_bytes()].concat()
}

fn merging_command(world: &World) -> Command {
    let mut command = world.command("run -q --json --stdin-name pages");
    command.arg("--events").arg(world.path("events.jsonl")).arg("-").stdin(Stdio::piped()).stdout(Stdio::null());
    command
}

/// Takes in all pages.
fn run_merging(world: &World) {
    let mut child = merging_command(world).spawn().expect("starts");
    child.stdin.take().expect("a pipe").write_all(&merging_pages()).expect("written");
    assert!(child.wait().expect("ended").success());
}

#[test]
fn killed_while_merging() {
    let unharmed = merging_world();
    run_merging(&unharmed);
    for (point, hits) in MERGE_POINTS {
        for n_passed in *hits {
            let (world, what) = (merging_world(), format!("{point} after {n_passed}"));
            let mut command = merging_command(&world);
            let mut child =
                command.env("FAILPOINTS", format!("{point}={n_passed}*off->return")).spawn().expect("starts");
            // Runs are merged in the background, so the input stays open until the kill.
            let mut stdin = child.stdin.take().expect("a pipe");
            stdin.write_all(&merging_pages()).expect("written");
            let until = Instant::now() + Duration::from_secs(60);
            let status = loop {
                if let Some(status) = child.try_wait().expect("a status") {
                    break status;
                }
                if Instant::now() > until {
                    child.kill().expect("killed");
                }
                std::thread::sleep(Duration::from_millis(10));
            };
            assert_eq!(status.signal(), Some(SIGABRT), "{what} was not hit");
            drop(stdin);
            run_merging(&world);
            assert_same_events_and_sound(&world, &unharmed, &what);
        }
    }
}

/// A start publishes events that are durable but not published. A kill then leaves them to the next start.
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

/// The kill points of `forget`. It writes a run of what waits in memory first.
const FORGET_POINTS: [&str; 3] = ["run-complete", "forgetting", "forgotten"];

/// A killed `forget` has forgotten everything or nothing, and the same command ends it.
#[test]
fn killed_while_forgetting() {
    let forget = ["--host", "docs.npm.example", "--before", "2015-01-01"];
    let clusters = |world: &World| world.ask("export clusters", &[]);
    let whole = unharmed();
    let before = clusters(&whole);
    whole.ask("forget", &forget);
    let after = clusters(&whole);
    assert_ne!(before, after);
    for (point, expected) in FORGET_POINTS.map(|point| (point, if point == "forgotten" { &after } else { &before })) {
        let world = world();
        // Its postings wait in memory, so that `forget` has a run to write.
        let mut run = world.run_command(&sweeps()[..1]);
        assert!(run.env("LOOKALIKE__STORE__POSTING_BUFFER_MIB", "64").status().expect("starts").success());
        let mut command = world.command("forget");
        let output = command.args(forget).env("FAILPOINTS", format!("{point}=return")).output().expect("starts");
        assert_eq!(output.status.signal(), Some(SIGABRT), "{point} was not hit: {}", text(&output.stderr));
        assert!(world.ask("verify", &[]).starts_with("sound"), "{point}");
        assert_eq!(&clusters(&world), expected, "{point}");
        // Once it is done, there is nothing to forget.
        let again = world.command("forget").args(forget).output().expect("starts");
        assert_eq!(again.status.code(), Some(if expected == &after { 4 } else { 0 }), "{}", text(&again.stderr));
        assert_eq!(clusters(&world), after, "{point}");
        assert!(world.ask("verify", &[]).starts_with("sound"), "{point}");
    }
}

/// The kill points at which a build of related pages takes the place of the last one: seven families.
const RELATED_POINTS: &[(&str, &[u32])] = &[("related-taken-away", &[0]), ("related-ingested", &[0, 1, 2, 3, 4, 5, 6])];

/// A killed build leaves the last one or none, and the next one makes it whole. Once, half a build answered: its bags
/// were there, its frequencies were not; and once, no kill came before the families that were added later were swapped in.
#[test]
fn killed_while_related_pages_are_built() {
    let world = world().with("related.on", true);
    world.run(&sweeps()[..1]);
    world.ask("related build --clusters", &[]);
    let ask = || world.ask("query related --json https://docs.npm.example/html/doc/cache.html", &[]);
    let clusters = || ["export related", "export centers"].map(|export| world.ask(export, &[]));
    let (whole, whole_clusters) = (ask(), clusters());
    assert!(whole.contains("similarity"), "{whole}");
    assert!(whole_clusters.iter().all(|rows| rows.lines().count() > 10), "{whole_clusters:?}");
    for (point, hits) in RELATED_POINTS {
        for n_passed in *hits {
            let what = format!("{point} after {n_passed}");
            let mut command = world.command("related build --clusters");
            let output = command.env("FAILPOINTS", format!("{point}={n_passed}*off->return")).output().expect("starts");
            assert_eq!(output.status.signal(), Some(SIGABRT), "{what} was not hit: {}", text(&output.stderr));
            assert!(world.ask("verify", &[]).starts_with("sound"), "{what}");
            assert!(!ask().contains("similarity"), "{what}: half a build answers");
            let refused = world.command("export centers").output().expect("starts");
            assert_eq!(refused.status.code(), Some(4), "{what}: {}", text(&refused.stdout));
            world.ask("related build --clusters", &[]);
            assert_eq!((ask(), clusters()), (whole.clone(), whole_clusters.clone()), "{what}");
        }
    }
}

/// The kill points of closing a sweep, with the numbers of hits that pass before the kill. Closing marks 2200 URLs in
/// three batches, and then closes the sweep.
const CLOSING_POINTS: &[(&str, &[u32])] = &[
    ("before-write", &[0, 1, 2, 3]),
    ("after-write", &[0, 2, 3]),
    ("before-sync", &[1, 2, 3]),
    ("after-sync", &[0, 1, 3]),
    ("events-written", &[0, 1, 2, 3]),
];

/// Pages of two sweeps. The second sweep lacks all pages but one; half of the missing pages have moved.
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

/// A world whose store has ingested these pages.
fn taken_in(input: &PathBuf) -> World {
    let world = World::new();
    world.run(std::slice::from_ref(input));
    world
}

fn assert_same_events_and_sound(world: &World, unharmed: &World, what: &str) {
    let events = |world: &World| fs::read(world.path("events.jsonl")).expect("events");
    assert!(events(world) == events(unharmed), "{what}: the events differ");
    let verified = world.command("verify").output().expect("starts");
    assert!(verified.status.success(), "{what}: {}", text(&verified.stdout));
}

#[test]
fn killed_while_a_sweep_is_closed() {
    let folder = World::new();
    let input = folder.write("pages.jsonl", pages_to_close_over());
    let close = |world: &World| {
        let mut command = world.command("sweep close 2");
        command.arg("--events").arg(world.path("events.jsonl"));
        command
    };
    let unharmed = taken_in(&input);
    assert!(close(&unharmed).status().expect("starts").success());
    let n_told = |kind| unharmed.events().iter().filter(|event| event.kind() == kind).count();
    assert_eq!([EventType::Lost, EventType::Moved, EventType::SweepClosed].map(n_told), [2200, 1100, 1]);
    for (point, hits) in CLOSING_POINTS {
        for n_passed in *hits {
            let (world, what) = (taken_in(&input), format!("{point} after {n_passed}"));
            let output = close(&world).env("FAILPOINTS", format!("{point}={n_passed}*off->return")).output();
            let output = output.expect("the program starts");
            assert_eq!(output.status.signal(), Some(SIGABRT), "{what} was not hit: {}", text(&output.stderr));
            // A run in between publishes the durable events too, and closing continues after it.
            if n_passed % 2 == 1 {
                world.run(std::slice::from_ref(&input));
            }
            assert!(close(&world).status().expect("starts").success(), "{what}");
            assert_same_events_and_sound(&world, &unharmed, &what);
        }
    }
}

/// The kill points of closing a sweep in a running service, which syncs and publishes everything written at once.
const CLOSING_RUNNING_POINTS: &[(&str, &[u32])] = &[
    ("before-write", &[0, 1, 3]),
    ("after-write", &[0, 2, 3]),
    ("before-sync", &[0]),
    ("after-sync", &[0]),
    ("released", &[0]),
    ("before-publish", &[0]),
    ("events-written", &[0]),
    ("after-publish", &[0]),
];

/// A kill interrupts a running service that closes a sweep. Asked again, the next service or the command continues.
#[test]
fn killed_while_a_running_service_closes_a_sweep() {
    let folder = World::new();
    let input = folder.write("pages.jsonl", pages_to_close_over());
    let begun = || taken_in(&input).with("http.token", "env:TOKEN_OF_TESTS");
    // A service that waits for pages, asked to close the sweep.
    let close = |world: &World, failpoints: &str| {
        let mut command = world.run_command(&[]);
        command.args(["--stdin-name", "none", "--http-listen", "127.0.0.1:0"]).env("FAILPOINTS", failpoints);
        command.env("TOKEN_OF_TESTS", "a-token-of-the-tests").stdin(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("starts");
        let pipe = process.stdin.take();
        let mut server = Server::from_process(process);
        let mut stream = server.connect();
        let request = "POST /v1/sweeps/2/close HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer a-token-of-the-tests\r\n\
                       connection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).expect("sent");
        let answer = try_response(stream);
        drop(pipe);
        (answer, server.process.wait().expect("ended"))
    };
    let unharmed = begun();
    let mut command = unharmed.command("sweep close 2");
    assert!(command.arg("--events").arg(unharmed.path("events.jsonl")).status().expect("starts").success());
    for (point, hits) in CLOSING_RUNNING_POINTS {
        for n_passed in *hits {
            let (world, what) = (begun(), format!("{point} after {n_passed}"));
            let (_, ended) = close(&world, &format!("{point}={n_passed}*off->return"));
            assert_eq!(ended.signal(), Some(SIGABRT), "{what} was not hit");
            let (answer, ended) = close(&world, "");
            assert!(ended.success() && answer.is_some_and(|answer| answer.status == 200), "{what}");
            assert_same_events_and_sound(&world, &unharmed, &what);
        }
    }
}

/// Where a poison record crashes the program, the kinds of crash, and the largest number of crashes before the
/// program skips two such records. At the second place, not every crash reveals which of the records in flight caused
/// it.
const POISON: [(&str, &[&str], usize); 2] =
    [("poison-to-sketch", &["abort", "overflow", "panic"], 6), ("poison-to-decide", &["abort", "panic"], 12)];

/// Pages, of which those at `at` are poison.
fn pages(poison: &str, at: &[usize], n: usize) -> Vec<String> {
    let page_of = |number: usize| {
        let kind = if at.contains(&number) { poison } else { "harmless" };
        let words: Vec<String> = (0..30).map(|word| format!("w{}x{word}", number / 3)).collect();
        page(&format!("http://{number}.example/{kind}"), "2026-11-21T08:00:00Z", "s", &words.join(" "))
    };
    (0..n).map(page_of).collect()
}

/// Whether a program died by a signal or by a panic, be it in a stage of the stream, which ends the others in good order.
fn is_death(output: &Output) -> bool {
    let stage_died = || text(&output.stderr).contains("crashed, which is a bug");
    output.status.signal().is_some() || output.status.code() == Some(PANICKED) || stage_died()
}

/// Runs a command until it no longer crashes, and returns the number of crashes.
fn n_deaths(mut once: impl FnMut() -> Output) -> usize {
    for n in 0..20 {
        let output = once();
        if !is_death(&output) {
            assert!(output.status.success(), "{}", text(&output.stderr));
            return n;
        }
    }
    panic!("it dies for ever");
}

/// The records that the events reject as poison. All other records must be assigned.
fn poison_in(events: &[Event], n_records: usize) -> BTreeSet<i64> {
    let terminal: Vec<&Event> = events.iter().filter(|event| event.kind().is_terminal()).collect();
    assert_eq!(terminal.len(), n_records, "each record has its event");
    let (poison, others): (Vec<&Event>, Vec<&Event>) =
        terminal.into_iter().partition(|event| event.reason() == Some(Reason::Poison));
    assert!(others.iter().all(|event| event.kind() == EventType::Assigned), "{others:?}");
    poison.iter().map(|event| event.offset).collect()
}

/// A world with an input of 200 pages, two of them poison.
struct Beset {
    world: World,
    input: PathBuf,
    /// The kill point and the kind of crash.
    failpoint: String,
}

impl Beset {
    fn by(point: &str, how: &str) -> Self {
        let world = world();
        let input = world.write("pages.jsonl", pages(point, &[90, 130], 200).join("\n"));
        Beset { world, input, failpoint: format!("{point}=return({how})") }
    }

    /// Runs the program once, started by another program if `by_way_of` names one.
    fn run(&self, by_way_of: &[String]) -> Output {
        let run = self.world.run_command(std::slice::from_ref(&self.input));
        let words = by_way_of.iter().map(OsStr::new).chain([run.get_program()]).chain(run.get_args());
        let words: Vec<&OsStr> = words.collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("FAILPOINTS", &self.failpoint).output().expect("it starts")
    }

    /// Runs the program until it no longer crashes, and checks that it skips exactly the two poison pages.
    fn outlives(&self, by_way_of: &[String], n_most: usize) {
        let n = n_deaths(|| self.run(by_way_of));
        assert!((3..=n_most).contains(&n), "{}: {n} deaths", self.failpoint);
        self.has_passed_over(&[90, 130]);
    }

    fn has_passed_over(&self, poison: &[i64]) {
        let events = self.world.events();
        assert_eq!(poison_in(&events, 200), BTreeSet::from_iter(poison.iter().copied()), "{}", self.failpoint);
        assert_eq!(self.world.partition(), fold(&events), "{}", self.failpoint);
        let verified = self.world.command("verify").output().expect("starts");
        assert!(verified.status.success(), "{}: {}", self.failpoint, text(&verified.stdout));
    }
}

/// Lost once: everything after a poison page, which crashed the program again after every start.
#[test]
fn a_page_that_kills_is_passed_over() {
    for (point, ways, n_most) in POISON {
        ways.iter().for_each(|how| Beset::by(point, how).outlives(&[], n_most));
    }
    let limit = ["prlimit", &format!("--as={MEMORY_MAX}")].map(String::from);
    Beset::by("poison-to-sketch", "memory").outlives(&limit, 6);
}

/// The memory limit for crashes by memory, in bytes.
const MEMORY_MAX: u64 = 1 << 30;

/// A control group with limited memory. The kernel kills a process that exceeds the limit.
struct ControlGroup(PathBuf);

impl ControlGroup {
    /// Creates the group, or returns `None` without root or control groups.
    fn make() -> Option<Self> {
        let name = format!("lookalike-{}", std::process::id());
        let versions = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        versions.into_iter().find_map(|(root, limit)| {
            let group = Path::new(root).join(&name);
            fs::create_dir(&group).ok()?;
            let group = ControlGroup(group);
            let mut limit = fs::File::options().write(true).open(group.0.join(limit)).ok()?;
            limit.write_all(MEMORY_MAX.to_string().as_bytes()).ok().map(|()| group)
        })
    }

    /// A command line that starts another program in the group.
    fn enter(&self) -> Vec<String> {
        let enter = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", self.0.display());
        ["sh", "-c", &enter, "sh"].map(String::from).to_vec()
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let removed = fs::remove_dir(&self.0);
        removed.unwrap_or_else(|error| println!("{} stays: {error}", self.0.display()));
    }
}

/// Lost once: a page that was being processed each time a user killed the program. The kernel sends the same signal
/// to a program that exceeds its memory, and there the page is the cause.
#[test]
fn a_kill_from_outside_is_no_page_s_fault_and_one_for_memory_is() {
    let killed = Beset { failpoint: "poison-to-sketch=return(kill)".into(), ..Beset::by("poison-to-sketch", "") };
    for _ in 0..12 {
        assert_eq!(killed.run(&[]).status.signal(), Some(SIGKILL));
    }
    let unharmed = Beset { failpoint: String::new(), ..killed };
    assert_eq!(n_deaths(|| unharmed.run(&[])), 0);
    unharmed.has_passed_over(&[]);
    let Some(group) = ControlGroup::make() else {
        eprintln!(
            "skipped: no group of processes with limited memory can be made, which takes root and control groups"
        );
        return;
    };
    Beset::by("poison-to-sketch", "memory").outlives(&group.enter(), 6);
}

/// A poison message on Kafka becomes a dead letter with the original record.
#[test]
fn a_message_that_kills_is_a_dead_letter() {
    let Some(input) = harness::broker::topic(2) else { return };
    let outputs = [("events_topic", "events"), ("assignments_topic", "assignments"), ("merges_topic", "merges")];
    let mut world = world().with_config("kafka.toml").with("metrics.listen", "").with("kafka.brokers", &input.brokers);
    world = world.with("kafka.topic", &input.name).with("kafka.group", &input.name).with("log.level", "warn");
    for (field, name) in outputs {
        world = world.with(&format!("kafka.{field}"), format!("{}-{name}", input.name));
    }
    let made = world.command("topics create --replication 1").output().expect("starts");
    assert!(made.status.success(), "{}", text(&made.stderr));
    let of = |name: &str| Topic { brokers: input.brokers.clone(), name: format!("{}{name}", input.name) };
    let made = [of("-events"), of("-assignments"), of("-merges"), of(".dlq")];
    let pages = pages("poison-to-sketch", &[90], 200);
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
            command.env("FAILPOINTS", "poison-to-sketch=return").spawn().expect("starts")
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
    assert_eq!((n_deaths, poison_in(&events, 200)), (3, BTreeSet::from([90])));
    let letters = see_all(&input.brokers, &made[3].name);
    let told: Vec<_> = letters.iter().map(|seen| (seen.text(), seen.header("lookalike-reason"))).collect();
    assert_eq!(told, [(values[90], Some("poison"))]);
}

/// The kill points of a sketcher, with the numbers of hits that pass before the kill.
const SKETCHER_POINTS: &[(&str, &[u32])] = &[("sketch-sent", &[0, 30]), ("sketch-acknowledged", &[0])];

/// A sketcher that is killed between sending and committing sends records again, and the owner takes each once.
#[test]
fn a_killed_sketcher_leaves_no_hole() {
    const N_PAGES: i64 = 60;
    for (point, hits) in SKETCHER_POINTS {
        for n_passed in *hits {
            let Some(pages) = harness::broker::topic(1) else { return };
            let [sketches, events] = [(); 2].map(|()| harness::broker::topic(1).expect("a topic"));
            let settings = [
                ("input.from", "kafka"),
                ("log.level", "warn"),
                ("kafka.brokers", pages.brokers.as_str()),
                ("kafka.topic", pages.name.as_str()),
                ("kafka.group", pages.name.as_str()),
                ("kafka.member", "one"),
                ("kafka.sketches_topic", sketches.name.as_str()),
                ("kafka.events_topic", events.name.as_str()),
                ("kafka.assignments_topic", ""),
                ("kafka.merges_topic", ""),
                ("kafka.dead_letters", "false"),
            ];
            let world = settings.into_iter().fold(World::new(), |world, (key, value)| world.with(key, value));
            let words = |at: i64| (0..60).map(|n| format!("word{} ", at * 100 + n)).collect::<String>();
            let values: Vec<String> = (0..N_PAGES)
                .map(|at| page(&format!("http://a.example/{at}"), "2026-11-01T00:00:00Z", "1", &words(at)))
                .collect();
            pages.send_json(0, &values.iter().map(String::as_str).collect::<Vec<_>>());
            let run = |role: &str| world.command(&format!("run -q --role {role}"));
            let failpoint = format!("{point}={n_passed}*off->return");
            let mut killed = run("sketcher").env("FAILPOINTS", failpoint).spawn().expect("starts");
            assert_eq!(harness::ended(&mut killed).signal(), Some(SIGABRT), "{point} after {n_passed}");
            let mut both = ["sketcher", "owner"].map(|role| run(role).spawn().expect("starts"));
            let told = || -> Vec<Event> {
                let seen = see_all(&events.brokers, &events.name);
                seen.iter().map(|seen| serde_json::from_str(seen.text()).expect("an event")).collect()
            };
            let until = Instant::now() + Duration::from_secs(60);
            while (told().len() as i64) < N_PAGES {
                assert!(Instant::now() < until, "{point} after {n_passed}: {} events", told().len());
                std::thread::sleep(Duration::from_millis(100));
            }
            for process in &mut both {
                process.kill().and_then(|()| process.wait()).expect("killed");
            }
            let offsets: Vec<i64> = told().iter().map(|event| event.offset).collect();
            assert_eq!(offsets, (0..N_PAGES).collect::<Vec<_>>(), "{point} after {n_passed}");
        }
    }
}

/// Lost if this fails: all that follows a record on which sketchers die, whichever of them reads its partition. They have no
/// store, so that each must learn from the brokers how the others ended.
#[test]
fn a_message_that_kills_one_sketcher_after_the_other_is_a_dead_letter() {
    let Some(input) = harness::broker::topic(2) else { return };
    let [sketches, events, letters] = ["sketches", "events", "dlq"].map(|name| {
        let made = Topic { brokers: input.brokers.clone(), name: format!("{}.{name}", input.name) };
        made.create(if name == "sketches" { 2 } else { 1 });
        made
    });
    let settings = [
        ("input.from", "kafka"),
        ("log.level", "warn"),
        ("kafka.brokers", input.brokers.as_str()),
        ("kafka.topic", input.name.as_str()),
        ("kafka.group", input.name.as_str()),
        ("kafka.sketches_topic", sketches.name.as_str()),
        ("kafka.events_topic", events.name.as_str()),
        ("kafka.assignments_topic", ""),
        ("kafka.merges_topic", ""),
    ];
    let world = settings.into_iter().fold(World::new(), |world, (key, value)| world.with(key, value));
    let config = world.write("session.toml", "[kafka.properties]\n\"session.timeout.ms\" = \"6000\"\n");
    let start = |role: &str, name: &str| {
        let mut command = world.command(&format!("run -q --role {role}"));
        command.arg("--config").arg(&config).env("LOOKALIKE__KAFKA__MEMBER", name);
        command.env("FAILPOINTS", "poison-to-sketch=return").spawn().expect("starts")
    };
    let pages = pages("poison-to-sketch", &[90], 200);
    let values: Vec<&str> = pages.iter().map(String::as_str).collect();
    input.send_json(0, &values[..100]);
    input.send_json(1, &values[100..]);
    // The second one gets the partitions when the brokers have given the first one up.
    let names = ["one", "one", "two"];
    let (mut owner, mut sketcher, mut n_deaths) = (start("owner", ""), start("sketcher", names[0]), 0);
    let told = || -> Vec<Event> {
        let seen = see_all(&events.brokers, &events.name);
        seen.iter().map(|seen| serde_json::from_str(seen.text()).expect("an event")).collect()
    };
    let until = Instant::now() + Duration::from_secs(120);
    while told().iter().filter(|event| event.kind().is_terminal()).count() < 200 {
        if let Some(status) = sketcher.try_wait().expect("a status") {
            assert_eq!(status.signal(), Some(SIGABRT), "{status}");
            n_deaths += 1;
            sketcher = start("sketcher", names[n_deaths % names.len()]);
        }
        assert!(Instant::now() < until, "after {n_deaths} deaths it is not done");
        std::thread::sleep(Duration::from_millis(50));
    }
    for process in [&mut owner, &mut sketcher] {
        process.kill().and_then(|()| process.wait()).expect("killed");
    }
    assert_eq!((n_deaths, poison_in(&told(), 200)), (5, BTreeSet::from([90])));
    let letters = see_all(&letters.brokers, &letters.name);
    let told: Vec<_> = letters.iter().map(|seen| (seen.text(), seen.header("lookalike-reason"))).collect();
    assert_eq!(told, [(values[90], Some("poison"))]);
}

/// The sources name exactly the kill points of these lists.
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
    tried.extend(MERGE_POINTS.iter().map(|(point, _)| *point));
    tried.extend(RELATED_POINTS.iter().map(|(point, _)| *point));
    tried.extend(POISON.map(|(point, ..)| point));
    tried.extend(FORGET_POINTS);
    tried.extend(SKETCHER_POINTS.iter().map(|(point, _)| *point));
    tried.sort_unstable();
    tried.dedup();
    assert_eq!(named, tried);
}
