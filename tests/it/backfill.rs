//! A backfill leaves the store that the stream would leave, and resumes wherever it was stopped.

use crate::harness::disk::SmallDisk;
use crate::harness::{World, check_events, fold, sweeps, text};
use lookalike::document::FetchTime;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

impl World {
    fn backfill_command(&self, inputs: &[PathBuf]) -> Command {
        let mut command = self.command("backfill -q");
        command.args(["--memory", "2"]).args(inputs);
        command
    }

    /// The same with events.
    fn backfill_command_with_events(&self, inputs: &[PathBuf]) -> Command {
        let mut command = self.backfill_command(inputs);
        command.arg("--events").arg(self.path("events.jsonl"));
        command
    }

    fn backfill(&self, inputs: &[PathBuf]) {
        let output = self.backfill_command(inputs).output().expect("the program starts");
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(!self.path("store.backfill").exists(), "the work folder is removed");
    }
}

fn refused(output: Output, why: &str) {
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains(why), "{}", text(&output.stderr));
}

/// An export holds documents, clusters and sightings, so that equal exports mean equal results.
fn export(world: &World) -> String {
    world.ask("export clusters", &[])
}

/// The stats that do not depend on events. A stream emits merges, and a backfill has none.
fn stats(world: &World) -> serde_json::Value {
    let mut stats: serde_json::Value = serde_json::from_str(&world.ask("stats", &["--json"])).expect("JSON");
    let fields = stats.as_object_mut().expect("an object");
    fields.retain(|name, _| !name.contains("event") && !name.contains("bytes") && !name.contains("seq"));
    stats
}

/// Checks that two worlds answer alike.
fn same_answers(a: &World, b: &World) {
    assert_eq!(export(a), export(b));
    assert_eq!(stats(a), stats(b));
    let page = a.write("page.html", "<p>npm install installs a package and any packages that it depends on");
    let page = page.display().to_string();
    let url = "https://docs.npm.example/html/api/bin.html";
    for (question, argument) in
        [("query url", url), ("query cluster", url), ("query lost", url), ("query similar", page.as_str())]
    {
        let answers = [a, b].map(|world| world.ask(question, &[argument, "--json"]));
        assert_eq!(answers[0], answers[1], "{question}");
    }
}

/// The name of a profile, and how to create an empty world with it.
type Profile = (&'static str, fn() -> World);

fn profiles() -> Vec<Profile> {
    vec![
        ("default", World::new),
        ("paper-1997", || World::new().with_config("paper-1997.toml")),
        ("exact", || World::new().with_config("exact.toml")),
        ("adaptive", || World::new().with("sketch.rule", "adaptive").with("sketch.size", 4096)),
        ("content", || World::new().with("canonical.content", "main")),
        ("mod shingles", || World::new().with("sketch.index_modulus", 25)),
        ("common shingles", || World::new().with("cluster.common_limit", 3)),
        ("common shingles ignored", || {
            let world = World::new().with("sketch.rule", "adaptive").with("sketch.size", 512);
            world.with("cluster.common_limit", 3).with("cluster.ignore_common", true).with("cluster.min_shared", 1)
        }),
    ]
}

#[test]
fn the_store_equals_the_streams() {
    for (name, world) in profiles() {
        let (streamed, loaded) = (world(), world());
        streamed.run(&sweeps());
        loaded.backfill(&sweeps());
        println!("{name}: {}", loaded.ask("verify", &[]));
        same_answers(&streamed, &loaded);
    }
}

/// An answer without the documents that a chain goes through. A backfill may find other links of a cluster than the
/// stream.
pub(crate) fn without_chains(answer: &str) -> serde_json::Value {
    let mut answer: serde_json::Value = serde_json::from_str(answer).expect("JSON");
    for detail in answer["details"].as_array_mut().into_iter().flatten() {
        detail["evidence"].as_object_mut().expect("evidence").remove("through");
    }
    answer
}

#[test]
fn the_stream_continues_the_backfill() {
    let (streamed, continued) = (World::new(), World::new());
    streamed.run(&sweeps());
    continued.backfill(&sweeps()[..2]);
    // The stream skips the files that the backfill has read.
    continued.run(&sweeps());
    continued.ask("verify", &[]);
    same_answers(&streamed, &continued);
    let lost = std::fs::read_to_string(crate::harness::root().join("bench-data/lost.jsonl")).expect("the truth");
    for line in lost.lines().step_by(8) {
        let lost: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let url = lost["url"].as_str().expect("a URL");
        let answers = [&streamed, &continued].map(|world| without_chains(&world.ask("query lost", &[url, "--json"])));
        assert_eq!(answers[0], answers[1], "{url}");
    }
}

/// Under the rule that a store was created with, reclustering gives the store's own clusters.
#[test]
fn reclustering_under_the_same_rule_changes_nothing() {
    for (name, world) in profiles().into_iter().filter(|(name, _)| !name.contains("ignored")) {
        let (streamed, loaded) = (world(), world());
        streamed.run(&sweeps());
        loaded.backfill(&sweeps());
        for world in [&streamed, &loaded] {
            let out = world.path("out.csv").display().to_string();
            world.ask("recluster", &["--threshold", "0.5", "--out", &out]);
            assert_eq!(std::fs::read_to_string(&out).expect("rows"), export(world), "{name}");
        }
    }
}

/// A higher threshold, stars and centers only split clusters. A containment only joins them.
#[test]
fn other_rules_split_or_join() {
    let world = World::new();
    world.run(&sweeps());
    let before = export(&world);
    let out = world.path("out.csv").display().to_string();
    let partition = |arguments: &[&str]| {
        world.ask("recluster", &[&["--out", &out], arguments].concat());
        crate::harness::partition_of(&std::fs::read_to_string(&out).expect("rows"))
    };
    let own = world.partition();
    let is_finer = |fine: &crate::harness::Partition, coarse: &crate::harness::Partition| {
        fine.len() > coarse.len() && fine.iter().all(|part| coarse.iter().any(|whole| part.is_subset(whole)))
    };
    for arguments in [
        &["--threshold", "0.8"][..],
        &["--threshold", "0.5", "--policy", "star"],
        &["--threshold", "0.5", "--policy", "center"],
        &["--threshold", "0.5", "--policy", "center-by-resemblance"],
        &["--threshold", "0.5", "--policy", "greedy"],
        &["--threshold", "0.8", "--policy", "greedy", "--representative", "popular"],
    ] {
        assert!(is_finer(&partition(arguments), &own), "{arguments:?}");
    }
    assert!(is_finer(&own, &partition(&["--threshold", "0.5", "--containment", "0.7"])));
    assert_eq!(export(&world), before, "the store does not change");
}

/// Greedy clusters are the same whatever memory the pairs have. Around first documents they are the stream's stars.
#[test]
fn greedy_clusters_do_not_depend_on_memory() {
    let world = World::new();
    world.run(&sweeps());
    let rows = |arguments: &[&str]| {
        let out = world.path("out.csv").display().to_string();
        world.ask("recluster --threshold 0.5 --policy greedy", &[&["--out", &out], arguments].concat());
        std::fs::read_to_string(&out).expect("rows")
    };
    let [first, popular] = ["first", "popular"].map(|representative| {
        let all = rows(&["--representative", representative]);
        assert_eq!(rows(&["--representative", representative, "--memory", "1"]), all, "{representative}");
        all
    });
    assert_eq!(rows(&[]), first, "the default");
    assert_ne!(first, popular);
    let star = World::new().with("cluster.policy", "star");
    star.run(&sweeps());
    assert_eq!(first, export(&star));
}

#[test]
fn only_greedy_clusters_have_representatives() {
    let world = World::new();
    world.run(&sweeps()[..1]);
    let out = world.path("out.csv").display().to_string();
    let arguments = ["--policy", "star", "--representative", "popular", "--out", &out];
    let output = world.command("recluster --threshold 0.5").args(arguments).output().expect("starts");
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("--representative needs --policy greedy"), "{told}");
    assert!(!world.path("out.csv").exists());
}

#[test]
fn exported_links_carry_their_evidence() {
    let world = World::new();
    world.backfill(&sweeps());
    let n_csv = world.ask("export links", &[]).lines().skip(1).count();
    let json = world.ask("export links", &["--json"]);
    let stats = stats(&world);
    let n_merges = stats["n_documents"].as_u64().expect("a number") - stats["n_clusters"].as_u64().expect("a number");
    assert_eq!((n_csv as u64, json.lines().count() as u64), (n_merges, n_merges), "a spanning forest");
    for line in json.lines() {
        let link: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let number = |name: &str| link[name].as_f64().expect(name);
        assert!(number("resemblance") >= 0.5 && number("document") > number("to"), "{line}");
        assert!(number("containment") + 1e-9 >= number("resemblance"), "{line}");
    }
}

#[test]
fn events_of_backfill_and_stream_form_one_sequence() {
    let (streamed, world) = (World::new(), World::new());
    streamed.run(&sweeps());
    let output = world.backfill_command_with_events(&sweeps()[..2]).output().expect("starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(fold(&world.events()), world.partition());
    world.run(&sweeps());
    let sources = sweeps().into_iter().map(|path| path.display().to_string());
    check_events(&world.events(), &sources.zip([164, 255, 227]).collect::<BTreeMap<_, _>>());
    assert_eq!(fold(&world.events()), streamed.partition());
}

/// Lost once: all space on the disk, with events that the next run read as pages; and every event, where a backfill that was
/// begun with `--events` was resumed without: the file stayed empty.
#[test]
fn events_go_where_they_were_to_go_and_not_where_pages_are_read() {
    let world = World::new();
    let folder = world.path("crawl");
    std::fs::create_dir(&folder).expect("made");
    std::fs::copy(&sweeps()[0], folder.join("pages.jsonl.zst")).expect("copied");
    let begin = |events: &str| {
        let mut command = world.backfill_command(std::slice::from_ref(&folder));
        command.arg("--events").arg(world.path(events));
        command
    };
    refused(begin("crawl/events.jsonl").output().expect("starts"), "among the inputs");
    assert!(!world.path("crawl/events.jsonl").exists() && !world.path("store.backfill").exists());
    let mut process = begin("events.jsonl").spawn().expect("starts");
    while !world.path("store.backfill/manifest.json").exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    process.kill().expect("killed");
    process.wait().expect("ended");
    if !world.path("store").exists() {
        let without = world.backfill_command(std::slice::from_ref(&folder)).output().expect("starts");
        refused(without, "another --events");
        refused(begin("other.jsonl").output().expect("starts"), "another --events");
        let output = begin("events.jsonl").output().expect("starts");
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    assert_eq!(world.n_events(), 164);
    // Lost once: the first events, where the file held as many of a store that was made again, or of any other; and the whole
    // work, where the file held no events, of which it told at the end.
    std::fs::remove_dir_all(world.path("store")).expect("removed");
    let other = world.write("other.jsonl", "no event\n");
    refused(begin("events.jsonl").output().expect("starts"), "another store");
    let output = begin("other.jsonl").output().expect("starts");
    assert!(text(&output.stderr).contains("not a file of events"), "{}", text(&output.stderr));
    assert!(!world.path("store.backfill").exists() && std::fs::read(other).is_ok_and(|read| read == b"no event\n"));
}

#[test]
fn bad_records_and_unreadable_files_are_reported() {
    let world = World::new();
    let body = "one two three ".repeat(9);
    let good = format!(r#"{{"url":"http://a/","fetched_at":"2026-01-01T00:00:00Z","text":"{body}"}}"#);
    let gone = r#"{"url":"http://b/","fetched_at":"2026-01-01T00:00:00Z","gone":true}"#;
    let pages = world.write("pages.jsonl", format!("{good}\nno page\n{gone}\n{good}\n"));
    let broken = world.write("broken.jsonl.gz", b"\x1f\x8b\x08\x00broken");
    let output = world.backfill_command_with_events(&[pages, broken]).output().expect("starts");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let kinds: Vec<String> = world.events().iter().map(|event| format!("{:?}", event.kind())).collect();
    assert_eq!(kinds, ["Assigned", "Rejected", "Gone", "Assigned"]);
    world.ask("verify", &[]);
}

/// Kills each run a little later than the previous one, in any phase, until one ends by itself. Returns the kills.
fn kill_until_done(world: &World, inputs: &[PathBuf], first: Duration, step: Duration, most: u32) -> u32 {
    for n_kills in 0..most {
        let stderr_path = world.path("stderr");
        let stderr = std::fs::File::create(&stderr_path).expect("a file");
        let mut command = world.backfill_command_with_events(inputs);
        // Every second run saves each job at once, so that the next run resumes after the last job.
        command.env("LOOKALIKE__BACKFILL__CHECKPOINT_MS", if n_kills % 2 == 0 { "0" } else { "20" });
        let mut process = command.stderr(stderr).spawn().expect("the program starts");
        std::thread::sleep(first + step * n_kills);
        if let Some(status) = process.try_wait().expect("a status") {
            let stderr = std::fs::read_to_string(&stderr_path).expect("text");
            assert!(status.success(), "the run failed by itself: {status}: {stderr}");
            return n_kills;
        }
        process.kill().expect("killed");
        process.wait().expect("ended");
        // The kill came after the last step.
        if world.path("store").exists() && !world.path("store.backfill/manifest.json").exists() {
            return n_kills + 1;
        }
    }
    panic!("no run ended by itself");
}

/// The same sketches, and so the same resemblances in events, in every run.
const SEED: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

#[test]
fn a_killed_backfill_resumes() {
    let world = || World::new().with("store.seed", SEED);
    let undisturbed = world();
    let output = undisturbed.backfill_command_with_events(&sweeps()).output().expect("the program starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let events = |world: &World| std::fs::read_to_string(world.path("events.jsonl")).expect("events");
    let mut n_kills = 0;
    for (first, step) in [(4, 9), (60, 7)] {
        let world = world();
        let (first, step) = (Duration::from_millis(first), Duration::from_millis(step));
        n_kills += kill_until_done(&world, &sweeps(), first, step, 300);
        world.ask("verify", &[]);
        same_answers(&undisturbed, &world);
        // Some were published before a kill, and follow from the links that it left.
        assert_eq!(events(&undisturbed), events(&world));
    }
    println!("killed {n_kills} times");
    assert!(n_kills > 5, "{n_kills} kills are too few to find anything");
}

/// In every phase a full disk is an error that says so, and with a little more space the next run comes a little
/// further.
#[test]
fn a_full_disk_is_reported_and_with_more_space_it_resumes() {
    let undisturbed = World::new();
    undisturbed.backfill(&sweeps());
    let (world, mut n_bytes) = (World::new(), 64 << 10);
    let Some(disk) = SmallDisk::mounted_on(world.path(""), n_bytes) else {
        println!("skipped: only root may mount a small disk");
        return;
    };
    let mut n_full = 0;
    loop {
        // Every job is saved at once, so that a run never ends before the place where the previous one ended.
        let mut command = world.backfill_command(&sweeps());
        let output = command.env("LOOKALIKE__BACKFILL__CHECKPOINT_MS", "0").output().expect("the program starts");
        if output.status.success() {
            break;
        }
        let stderr = text(&output.stderr);
        assert!(stderr.contains("the disk is full"), "with {n_bytes} bytes: {}: {stderr}", output.status);
        n_full += 1;
        n_bytes += n_bytes / 16;
        disk.resize(n_bytes);
    }
    println!("full {n_full} times");
    assert!(n_full > 10, "the disk was full {n_full} times, too few to find anything");
    world.ask("verify", &[]);
    same_answers(&undisturbed, &world);
}

#[test]
fn another_input_rule_or_store_is_refused() {
    let world = World::new();
    let mut process = world.backfill_command(&sweeps()).spawn().expect("starts");
    while !world.path("store.backfill/manifest.json").exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    process.kill().expect("killed");
    process.wait().expect("ended");
    if !world.path("store").exists() {
        refused(world.backfill_command(&sweeps()[..1]).output().expect("starts"), "other inputs");
        let other_rule = world.backfill_command(&sweeps()).env("LOOKALIKE__SKETCH__W", "8").output();
        refused(other_rule.expect("starts"), "other rules");
        let other_limits = world.backfill_command(&sweeps()).env("LOOKALIKE__LIMITS__WORDS_MAX", "8").output();
        refused(other_limits.expect("starts"), "other limits");
    }
    world.backfill(&sweeps());
    // Lost once: a run that was killed while it removed its work folder left it empty, and no run could begin there.
    std::fs::create_dir(world.path("store.backfill")).expect("a folder");
    refused(world.backfill_command(&sweeps()).output().expect("starts"), "there already");
    assert!(!world.path("store.backfill").exists());
    let other = World::new();
    refused(other.backfill_command(&[world.path("nowhere.jsonl")]).output().expect("starts"), "no such file");
}

#[test]
fn the_start_in_kafka_is_checked_and_stored() {
    let world = World::new();
    refused(
        world.backfill_command(&sweeps()).args(["--then-from-kafka", "yesterday"]).output().expect("starts"),
        "PARTITION=OFFSET",
    );
    refused(
        world.backfill_command(&sweeps()).args(["--then-from-kafka", "0=-3"]).output().expect("starts"),
        "PARTITION=OFFSET",
    );
    let output = world.backfill_command(&sweeps()).args(["--then-from-kafka", "0=17,3=4"]).output().expect("starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    world.ask("verify", &[]);
}

/// The files hold what a crawler sent before the time. The stream reads the first message of that time or later and
/// all after it, resumes there when it starts again, and reads nothing of the files.
#[test]
fn the_stream_begins_in_kafka_at_a_time() {
    let Some(topic) = crate::harness::broker::topic(1) else { return };
    let world = World::new().with("input.from", "kafka").with("kafka.events_topic", "");
    let world = world.with("kafka.assignments_topic", "").with("kafka.merges_topic", "");
    let world = world.with("kafka.brokers", &topic.brokers).with("kafka.topic", &topic.name);
    let times = [10_000, 20_000, 15_000, 30_000];
    let bodies = times.map(|time| {
        let words: Vec<String> = (0..30).map(|word| format!("w{}", word * time)).collect();
        crate::harness::page(&format!("http://a/{time}"), "2026-11-21T00:00:00Z", "s", &words.join(" "))
    });
    let now_ms =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_millis() as i64;
    let sent = |at: usize| crate::harness::broker::Sent {
        value: Some(&bodies[at]),
        time_ms: Some(now_ms + times[at]),
        ..Default::default()
    };
    topic.send(0, &[sent(0), sent(1), sent(2)]);
    let since = FetchTime((now_ms + 12_000) * 1000).to_string();
    let output = world.backfill_command(&sweeps()[..1]).args(["--then-from-kafka", &since]).output().expect("starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    world.ask("verify", &[]);
    let n_documents = || stats(&world)["n_documents"].as_u64().expect("a number");
    let before = n_documents();
    run_until(&world, 2);
    assert_eq!(n_documents(), before + 2, "the stream skips the message of an earlier time");
    topic.send(0, &[sent(3)]);
    run_until(&world, 3);
    assert_eq!(n_documents(), before + 3, "the stream reads no message twice");
    world.ask("verify", &[]);
}

/// Runs the stream until it has published so many events.
fn run_until(world: &World, n_events: usize) {
    let mut process = world.run_command(&[]).spawn().expect("the program starts");
    let until = std::time::Instant::now() + Duration::from_secs(30);
    let n_published = || std::fs::read_to_string(world.path("events.jsonl")).unwrap_or_default().lines().count();
    while n_published() < n_events {
        assert!(std::time::Instant::now() < until, "{} events of {n_events}", n_published());
        std::thread::sleep(Duration::from_millis(20));
    }
    signal(&process, "TERM");
    assert!(process.wait().expect("ended").success());
    assert_eq!(n_published(), n_events);
}

fn signal(process: &std::process::Child, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &process.id().to_string()]).status();
    assert!(sent.expect("kill starts").success());
}

/// Interrupts each run a little longer after it has saved its manifest than the run before, until one ends by itself.
/// Returns the runs that said they were interrupted.
fn interrupt_until_done(world: &World, inputs: &[PathBuf]) -> u32 {
    // The manifest is a new file each time: by then, a run listens for signals, however busy the machine is.
    let manifest = || std::fs::metadata(world.path("store.backfill/manifest.json")).map(|file| file.ino()).ok();
    for n_interrupted in 0..300 {
        let before = manifest();
        let mut command = world.backfill_command(inputs);
        // Each job is saved at once.
        command.env("LOOKALIKE__BACKFILL__CHECKPOINT_MS", "0");
        let mut process = command.stderr(Stdio::piped()).spawn().expect("starts");
        while manifest() == before && process.try_wait().expect("a status").is_none() {
            std::thread::sleep(Duration::from_micros(200));
        }
        if process.try_wait().expect("a status").is_none() {
            std::thread::sleep(Duration::from_millis(n_interrupted.into()));
            signal(&process, "INT");
        }
        let output = process.wait_with_output().expect("ended");
        let stderr = text(&output.stderr);
        match output.status.code() {
            Some(130) => assert!(stderr.contains("run again"), "{stderr}"),
            // The signal came after the last step.
            Some(0) => return n_interrupted,
            _ => panic!("{}: {stderr}", output.status),
        }
    }
    panic!("no run ended by itself");
}

#[test]
fn an_interrupted_backfill_ends_cleanly_and_resumes() {
    let undisturbed = World::new();
    undisturbed.backfill(&sweeps());
    let mut n_interrupted = 0;
    // On a busy machine a run may be at its end before the signal reaches it: then another store is begun.
    for _ in 0..20 {
        let world = World::new();
        n_interrupted += interrupt_until_done(&world, &sweeps());
        world.ask("verify", &[]);
        same_answers(&undisturbed, &world);
        if n_interrupted > 10 {
            break;
        }
    }
    println!("interrupted {n_interrupted} times");
    assert!(n_interrupted > 10, "{n_interrupted} interruptions are too few to find anything");
}

/// No page, one page, one content many times, pages too short for a shingle, and one URL many times.
#[test]
fn small_and_odd_inputs_give_the_streams_store() {
    let text = |n: usize| (0..40).map(|word| format!("w{} ", word * n)).collect::<String>();
    let line =
        |n: usize, body: &str| crate::harness::page(&format!("http://a/{n}"), "2026-01-01T00:00:00Z", "1", body) + "\n";
    for (name, pages) in [
        ("nothing", String::new()),
        ("one page", line(1, &text(1))),
        ("one content", (0..3000).map(|n| line(n, &text(1))).collect()),
        ("short ones", (0..50).map(|n| line(n, &format!("page {}", n % 7))).collect()),
        ("one URL", (0..50).map(|n| line(1, &text(n % 5 + 1))).collect()),
    ] {
        let (streamed, loaded) = (World::new(), World::new());
        let inputs = [streamed.write("pages.jsonl", pages)];
        streamed.run(&inputs);
        loaded.backfill(&inputs);
        loaded.ask("verify", &[]);
        assert_eq!(export(&loaded), export(&streamed), "{name}");
        assert_eq!(stats(&loaded), stats(&streamed), "{name}");
        // The stream continues both: with no new page, then with one.
        loaded.run(&inputs);
        let more = [loaded.write("more.jsonl", line(7, &text(1)))];
        streamed.run(&more);
        loaded.run(&more);
        loaded.ask("verify", &[]);
        assert_eq!(export(&loaded), export(&streamed), "{name}");
    }
}

/// A run that resumes could not read a pipe again.
#[test]
fn a_pipe_is_refused() {
    let world = World::new();
    let pipe = world.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo starts").success());
    refused(world.backfill_command(&[pipe]).output().expect("starts"), "is no file");
    assert!(!world.path("store").exists() && !world.path("store.backfill").exists());
}

/// Two backfills of one store at the same time: the second is refused, and the first is not disturbed.
#[test]
fn a_second_one_at_the_same_time_is_refused() {
    let (undisturbed, world) = (World::new(), World::new());
    undisturbed.backfill(&sweeps());
    let mut first = world.backfill_command(&sweeps()).spawn().expect("starts");
    while !world.path("store.backfill/manifest.json").exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    signal(&first, "STOP");
    refused(world.backfill_command(&sweeps()).output().expect("starts"), "another process");
    signal(&first, "CONT");
    assert!(first.wait().expect("ended").success());
    same_answers(&undisturbed, &world);
}

/// Lost once: an input that grew after the first phase had read it was refused as another input.
#[test]
fn an_input_may_grow_after_it_is_read() {
    let (undisturbed, world) = (World::new(), World::new());
    let line = |n: usize| {
        let text = (0..40).map(|word| format!("w{} ", word * n)).collect::<String>();
        crate::harness::page(&format!("http://a/{n}"), "2026-01-01T00:00:00Z", "1", &text) + "\n"
    };
    let pages = (1..=2000).map(line).collect::<String>();
    let inputs = [world.write("pages.jsonl", &pages)];
    let mut command = world.backfill_command(&inputs);
    let mut process = command.env("LOOKALIKE__BACKFILL__CHECKPOINT_MS", "0").spawn().expect("starts");
    while !world.path("store.backfill/postings-0000-0").exists() {
        assert!(process.try_wait().expect("a status").is_none(), "too fast to be caught");
        std::thread::sleep(Duration::from_millis(1));
    }
    process.kill().expect("killed");
    process.wait().expect("ended");
    world.write("pages.jsonl", pages + &(2001..=2100).map(line).collect::<String>());
    world.backfill(&inputs);
    world.run(&inputs);
    undisturbed.run(&inputs);
    world.ask("verify", &[]);
    assert_eq!(export(&world), export(&undisturbed));
}

/// Backfills pages of these texts. Returns documents, clusters, comparisons and the peak memory in MiB.
fn backfill_family(memory: &str, texts: impl Iterator<Item = String>) -> [u64; 4] {
    let world = World::new().with("cluster.ignore_common", false);
    let lines = texts
        .enumerate()
        .map(|(n, text)| crate::harness::page(&format!("http://a/{n}"), "2026-01-01T00:00:00Z", "1", &text) + "\n");
    let pages = world.write("pages.jsonl", lines.collect::<String>());
    let output = world.command("backfill -q --json").args(["--memory", memory]).arg(pages).output().expect("starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let number = |of: &serde_json::Value| of.as_u64().expect("a number");
    let memory = report["phases"].as_array().expect("phases").iter().map(|phase| number(&phase["peak_memory"])).max();
    let sizes = &report["sizes"];
    [number(&sizes["documents"]), number(&sizes["clusters"]), number(&report["n_compared"]), memory.unwrap_or(0) >> 20]
}

/// A list of all documents has as many pairs as the square of their number. Only pairs within the common limit are
/// formed, and documents that share nothing else are not compared.
#[test]
fn a_shingle_in_a_hundred_thousand_documents() {
    const N: usize = 100_000;
    let shared = "one two three four five six seven eight nine ten";
    let own = |n: usize| (0..14).map(|word| format!(" w{n}x{word}")).collect::<String>();
    let [n_documents, n_clusters, n_compared, mib] =
        backfill_family("64", (0..N).map(|n| format!("{shared}{}", own(n))));
    println!("{n_compared} compared, peak {mib} MiB");
    assert_eq!([n_documents, n_clusters, n_compared], [N as u64, N as u64, 0]);
    assert!(mib < 64 + 150, "{mib} MiB");
}

/// A family becomes one cluster after a few comparisons for each document.
#[test]
fn a_family_of_twenty_thousand_documents() {
    const N: usize = 20_000;
    let words: Vec<String> = (0..200).map(|word| format!("w{word}")).collect();
    let texts = (0..N).map(|n| {
        let mut words = words.clone();
        words[n * 7919 % 200] = format!("own{n}");
        words.join(" ")
    });
    let [n_documents, n_clusters, n_compared, mib] = backfill_family("64", texts);
    println!("{n_compared} compared, peak {mib} MiB");
    assert_eq!([n_documents, n_clusters], [N as u64, 1]);
    assert!(n_compared < 20 * N as u64 && mib < 64 + 150, "{n_compared} comparisons, {mib} MiB");
}

/// `recluster --apply` leaves a sound store with the new clusters, its events lead to them, and the stream continues
/// from there. Applied under its own rule again, the store is as before.
#[test]
fn applied_clusters_are_in_the_store_and_its_events() {
    for policy in [
        &["components"][..],
        &["star"],
        &["center"],
        &["center-by-resemblance"],
        &["greedy"],
        &["greedy", "--representative", "popular"],
    ] {
        let world = World::new();
        world.run(&sweeps()[..2]);
        let before = export(&world);
        let out = world.path("out.csv").display().to_string();
        world.ask("recluster --apply", &[&["--out", &out, "--threshold", "0.8", "--policy"], policy].concat());
        assert_eq!(export(&world), std::fs::read_to_string(&out).expect("rows"));
        assert_ne!(export(&world), before, "{policy:?}");
        world.ask("verify", &[]);
        let applied = world.partition();
        world.run(&sweeps()[..2]);
        assert_eq!(fold(&world.events()), applied, "{policy:?}");

        world.ask("recluster --apply", &["--threshold", "0.5", "--containment", "0.7", "--out", &out]);
        world.ask("verify", &[]);
        world.run(&sweeps());
        world.ask("verify", &[]);
        let sources = sweeps().into_iter().map(|path| path.display().to_string());
        let counts: BTreeMap<_, _> = sources.zip([164, 255, 227]).collect();
        check_events(&world.events(), &counts);
        assert_eq!(fold(&world.events()), world.partition(), "{policy:?}");
    }
    let world = World::new();
    world.run(&sweeps());
    let (before, out) = (export(&world), world.path("out.csv").display().to_string());
    for threshold in ["0.8", "0.5"] {
        world.ask("recluster --apply", &["--threshold", threshold, "--out", &out]);
    }
    assert_eq!(export(&world), before);
}

/// Wrong once: `verify` called a store of stars unsound after other clusters had been applied to it.
#[test]
fn other_clusters_can_be_applied_to_stars() {
    for policy in [&["components"][..], &["star"], &["greedy", "--representative", "popular"]] {
        let world = World::new().with("cluster.policy", "star");
        world.run(&sweeps()[..2]);
        let out = world.path("out.csv").display().to_string();
        world.ask("recluster --apply", &[&["--out", &out, "--threshold", "0.6", "--policy"], policy].concat());
        world.ask("verify", &[]);
        world.run(&sweeps());
        world.ask("verify", &[]);
        assert_eq!(fold(&world.events()), world.partition(), "{policy:?}");
    }
}
