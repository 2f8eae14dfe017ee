//! What is forgotten leaves the store as if it had never come, and its files.

use crate::harness::process::Process;
use crate::harness::schema::{assert_valid, event_validator};
use crate::harness::{
    Partition, World, check_events, page, related_sample, related_sample_without, sample_lines, text, wait_until,
};
use lookalike::wire::{Event, EventType};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

fn url_of(line: &str) -> String {
    let page: Value = serde_json::from_str(line).expect("JSON");
    page["url"].as_str().expect("a URL").to_string()
}

/// A world in which these pages came, in this order.
fn world_of(lines: &[String]) -> World {
    let world = World::new();
    world.run(&[world.write("pages.jsonl", lines.join("\n") + "\n")]);
    world
}

/// What a store says, without the numbers of documents.
fn contents(world: &World) -> (Partition, Vec<Value>, Value) {
    let sweeps: Vec<Value> = serde_json::from_str(&world.ask("sweep list --json", &[])).expect("JSON");
    let mut stats: Value = serde_json::from_str(&world.ask("stats --json", &[])).expect("JSON");
    for name in ["n_events", "n_bytes_on_disk", "largest_cluster"] {
        stats.as_object_mut().expect("an object").remove(name);
    }
    (world.partition(), sweeps, stats)
}

fn forget(world: &World, arguments: &[&str]) -> Value {
    let output = world.command("forget --json").args(arguments).output().expect("starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(world.ask("verify", &[]).starts_with("sound"));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// A store that forgot every fifth URL is the store that never saw them, for several choices of them.
#[test]
fn what_is_forgotten_was_never_there() {
    let lines = sample_lines();
    let urls: BTreeSet<String> = lines.iter().map(|line| url_of(line)).collect();
    for rest in [0, 3] {
        let gone: BTreeSet<&String> =
            urls.iter().enumerate().filter(|(at, _)| at % 5 == rest).map(|(_, url)| url).collect();
        let world = world_of(&lines);
        let list = world.write("urls.txt", gone.iter().map(|url| format!("{url}\n")).collect::<String>());
        let before = world.partition();
        let summary = forget(&world, &["--urls-from", list.to_str().expect("a path")]);
        assert_eq!(summary["n_urls_gone"], gone.len());
        let left: Vec<String> = lines.iter().filter(|line| !gone.contains(&url_of(line))).cloned().collect();
        let never = world_of(&left);
        assert_eq!(contents(&world), contents(&never));
        let n_before = before.iter().flatten().count();
        assert!(world.partition().iter().flatten().count() < n_before, "something was forgotten");
        // Compaction changes no answer.
        world.ask("compact", &[]);
        assert!(world.ask("verify", &[]).starts_with("sound"));
        assert_eq!(contents(&world), contents(&never));
    }
}

/// Told once: that the store is damaged and must be restored, where somebody asked for a document that was forgotten.
#[test]
fn the_number_of_a_forgotten_document_is_unknown() {
    let lines =
        ["a", "b"].map(|name| page(&format!("http://{name}/"), "2026-01-01T00:00:00Z", "1", &format!("text {name}")));
    let world = world_of(&lines);
    forget(&world, &["http://a/"]);
    for arguments in ["explain 1 2", "explain 2 1", "query text 1", "explain 3 2"] {
        let output = world.command(arguments).output().expect("starts");
        let told = text(&output.stderr);
        assert!(output.status.code() == Some(4) && told.contains("there is no document"), "{arguments}: {told}");
    }
    world.ask("explain 2 2", &[]);
}

/// Refused once: a store with related pages could not forget. It now forgets what pages say of others, and its next build is
/// that of a store that never saw them.
#[test]
fn related_pages_forget_too() {
    let gone = ["pizza", "copy", ""];
    let world = related_sample();
    world.ask("related build", &[]);
    let urls: Vec<String> = gone.iter().map(|name| format!("http://site/{name}")).collect();
    let summary = forget(&world, &urls.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!((&summary["n_urls_gone"], &summary["needs_related_build"]), (&3.into(), &true.into()));
    let never = related_sample_without(&gone);
    let related = |world: &World| {
        world.ask("related build", &[]);
        assert!(world.ask("verify", &[]).starts_with("sound"));
        ["bread", "planets", "comets", "focaccia", "pizza"].map(|name| {
            let url = format!("http://site/{name}");
            let output = world.command("query related --json").arg(url).output().expect("starts");
            let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            // Words of one weight come in the order of the seed.
            let words = |of: &Value| of.as_array().into_iter().flatten().map(Value::to_string).collect::<BTreeSet<_>>();
            let pages = answer["related"].as_array().cloned().unwrap_or_default();
            let pages: Vec<_> = pages.iter().map(|page| (page["url"].clone(), page["similarity"].clone())).collect();
            (output.status.code(), words(&answer["bag"]), pages)
        })
    };
    let answers = related(&world);
    assert_eq!(answers, related(&never));
    assert!(answers.iter().any(|(_, words, pages)| words.len() > 3 && !pages.is_empty()), "{answers:?}");
}

/// Lost if this fails: members of a cluster whose connecting page is forgotten would stay together for ever, or members
/// that resemble each other would come apart because their link ran over it.
#[test]
fn a_cluster_falls_into_what_still_belongs_together() {
    let words = |numbers: &[u32]| numbers.iter().map(|n| format!("word{n}")).collect::<Vec<_>>().join(" ");
    let all = |from: u32| (from..from + 200).collect::<Vec<_>>();
    // Neighbours of this chain share two thirds of their shingles; the ends share none.
    let chain = ["a", "b", "c", "d", "e"].map(|name| (name, all((u32::from(name.as_bytes()[0]) - 97) * 40)));
    // These three all resemble each other.
    let trio = [("x", all(1000)), ("y", all(1010)), ("z", all(1020))];
    let line = |(name, numbers): &(&str, Vec<u32>)| {
        page(&format!("http://a.example/{name}"), "2026-11-01T00:00:00Z", "1", &words(numbers))
    };
    let lines: Vec<String> = chain.iter().chain(&trio).map(line).collect();
    let world = world_of(&lines);
    let sizes = |world: &World| {
        let mut sizes: Vec<usize> = world.partition().iter().map(BTreeSet::len).collect();
        sizes.sort_unstable();
        sizes
    };
    assert_eq!(sizes(&world), [3, 5]);
    let summary = forget(&world, &["http://a.example/c", "http://a.example/x"]);
    assert_eq!(sizes(&world), [2, 2, 2]);
    assert_eq!(summary["n_documents"], 2);

    // A consumer of the events knows the same clusters.
    let more =
        world.write("more.jsonl", page("http://b.example/", "2026-11-02T00:00:00Z", "2", &words(&all(5000))) + "\n");
    world.run(&[more]);
    let events = world.events();
    let validator = event_validator();
    for event in &events {
        let json = serde_json::to_value(event).expect("JSON");
        assert_valid(&validator, &json, &json.to_string());
    }
    let path = |name: &str| world.path(name).canonicalize().expect("a path").display().to_string();
    check_events(&events, &BTreeMap::from([(path("pages.jsonl"), 8), (path("more.jsonl"), 1)]));
    assert_eq!(folded(&events), names(&world));

    // A page that comes back is new, with a number of its own.
    let again = world.write("again.jsonl", line(&chain[2]) + "\n");
    world.run(&[again]);
    let back = world.events().into_iter().rfind(|event| event.kind() == EventType::Assigned).expect("an event");
    assert_eq!(back.document().map(|document| document.0), Some(10));
    assert_eq!(sizes(&world), [1, 2, 5], "it joins again what it had joined");
    assert!(world.ask("verify", &[]).starts_with("sound"));
    assert_eq!(world.command("query cluster 3").output().expect("starts").status.code(), Some(4));
}

/// Lost once: the clusters of a store with stars, where the first page of one was forgotten. The others were gathered around the
/// best connected page, which made a cluster that the stream does not know, and `verify` called the store damaged.
#[test]
fn a_star_without_its_founder_is_that_of_a_crawl_without_it() {
    let words = |from: u32| (from..from + 200).map(|n| format!("word{n}")).collect::<Vec<_>>().join(" ");
    // All resemble the founder and "middle"; "low" and "high" do not resemble each other.
    let pages = [("founder", 41), ("low", 0), ("middle", 40), ("high", 80)];
    let line = |(name, from): &(&str, u32)| {
        page(&format!("http://a.example/{name}"), "2026-11-01T00:00:00Z", "1", &words(*from)) + "\n"
    };
    let world_of = |pages: &[(&str, u32)]| {
        let world = World::new().with("cluster.policy", "star");
        world.run(&[world.write("pages.jsonl", pages.iter().map(line).collect::<String>())]);
        world
    };
    let (world, never) = (world_of(&pages), world_of(&pages[1..]));
    assert_eq!(world.partition().len(), 1);
    forget(&world, &["http://a.example/founder"]);
    assert_eq!(contents(&world), contents(&never));
    assert_eq!(world.partition().len(), 2);
    // What comes then joins as it would have.
    for world in [&world, &never] {
        world.run(&[world.write("more.jsonl", line(&("higher", 90)))]);
        assert!(world.ask("verify", &[]).starts_with("sound"));
    }
    assert_eq!(contents(&world), contents(&never));
}

/// The URLs of each cluster, as a consumer of the events knows them.
fn folded(events: &[Event]) -> BTreeSet<BTreeSet<String>> {
    let (mut stands, mut cluster_of, mut winners) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for event in events {
        match event.kind() {
            EventType::Assigned | EventType::Reassigned | EventType::Forgotten => {
                if let (Some(document), Some(cluster)) = (event.document(), event.cluster()) {
                    cluster_of.insert(document, cluster);
                }
                if let Some(url) = &event.url {
                    stands.insert(url.clone(), event.document());
                }
            }
            EventType::Merged => {
                winners.insert(event.loser().expect("a loser"), event.winner().expect("a winner"));
            }
            EventType::Split => {
                winners.remove(&event.cluster().expect("a cluster"));
            }
            _ => {}
        }
    }
    let mut clusters: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    for (url, document) in stands {
        let Some(document) = document else { continue };
        let mut cluster = cluster_of[&document];
        while let Some(winner) = winners.get(&cluster) {
            cluster = *winner;
        }
        clusters.entry(cluster).or_default().insert(url);
    }
    clusters.into_values().collect()
}

fn names(world: &World) -> BTreeSet<BTreeSet<String>> {
    let url = |key: String| key.split(' ').next().expect("a URL").to_string();
    world.partition().into_iter().map(|cluster| cluster.into_iter().map(url).collect()).collect()
}

#[test]
fn a_part_of_the_history_can_be_forgotten() {
    let lines = sample_lines();
    let world = world_of(&lines);
    let dry = forget(&world, &["--before", "2015-01-01", "--dry-run"]);
    assert_eq!(dry["is_dry_run"], true);
    assert_eq!(contents(&world), contents(&world_of(&lines)));
    let done = forget(&world, &["--before", "2015-01-01"]);
    for name in ["n_urls", "n_urls_gone", "n_sightings", "n_documents"] {
        assert_eq!(dry[name], done[name], "{name}");
    }
    let left: Vec<String> = lines.iter().filter(|line| !line.contains("\"fetched_at\": \"2014-")).cloned().collect();
    assert!(left.len() < lines.len());
    assert_eq!(contents(&world), contents(&world_of(&left)));
    // Everything, at last.
    forget(&world, &["--before", "2030-01-01T00:00:00Z"]);
    let stats: Value = serde_json::from_str(&world.ask("stats --json", &[])).expect("JSON");
    for name in ["n_documents", "n_clusters", "n_urls", "n_sightings"] {
        assert_eq!(stats[name], 0, "{name}");
    }
    assert_eq!(forget(&world, &["--before", "2030-01-01"])["n_urls"], 0);
}

fn holds(folder: &Path, wanted: &[u8]) -> Option<String> {
    for file in fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").path()) {
        if file.is_dir() {
            if let Some(found) = holds(&file, wanted) {
                return Some(found);
            }
        } else if fs::read(&file).expect("a file").windows(wanted.len()).any(|bytes| bytes == wanted) {
            return Some(file.display().to_string());
        }
    }
    None
}

/// Lost if this fails: somebody who must delete a page finds its address in a file of the store.
#[test]
fn compaction_takes_the_bytes_away() {
    let secret = "x7q9-takedown-5d1c0e";
    let body = (0..60).map(|at| format!("nobody{at} ")).collect::<String>();
    let world = World::new();
    let line = page(&format!("http://a.example/{secret}"), "2026-11-01T00:00:00Z", "1", &body) + "\n";
    world.run(&[world.write("pages.jsonl", line)]);
    let store = world.path("store");
    world.ask("compact", &[]);
    assert!(holds(&store, secret.as_bytes()).is_some(), "the test must be able to find it");
    forget(&world, &[&format!("http://a.example/{secret}")]);
    let more = world.write("more.jsonl", page("http://b.example/", "2026-11-02T00:00:00Z", "1", &body) + "\n");
    world.run(&[more]);
    assert!(world.events().iter().any(|event| event.kind() == EventType::Forgotten));
    world.ask("compact", &[]);
    assert_eq!(holds(&store, secret.as_bytes()), None);
    assert!(world.ask("verify", &[]).starts_with("sound"));
}

#[test]
fn wrong_usage_changes_nothing_and_says_what_to_do() {
    let lines = sample_lines();
    let world = world_of(&lines[..50]);
    let before = contents(&world);
    let fails = |arguments: &[&str], code: i32, why: &str| {
        let output = world.command("forget").args(arguments).output().expect("starts");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(why), "{arguments:?}: {said}");
    };
    fails(&[], 2, "say what to forget");
    fails(&["--before", "soon"], 2, "is no time");
    fails(&["--urls-from", "/nowhere/urls.txt"], 2, "/nowhere/urls.txt");
    fails(&["--urls", "/nowhere/urls.txt"], 2, "/nowhere/urls.txt");
    fails(&["--sweep", "nosuch"], 4, "no page names sweep nosuch");
    fails(&["http://nobody.example/"], 4, "no such sightings");
    fails(&["--host", "nobody.example"], 4, "no such sightings");
    let nowhere = World::new();
    let output = nowhere.command("forget --host a.example").output().expect("starts");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(!nowhere.path("store").exists());
    assert_eq!(contents(&world), before);
}

/// Lost if this fails: what the settings say to keep, or the promise that it is deleted.
#[test]
fn a_run_forgets_what_is_older_than_its_retention() {
    let lines = sample_lines();
    let (by_run, by_command) = (world_of(&lines), world_of(&lines));
    let since_1970 = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a clock after 1970").as_secs();
    // The beginning of 2016, between two sweeps of the sample.
    let days = (since_1970 - 1_451_606_400) / 86_400;
    let by_run = by_run.with("retention.days", days);
    let run = || {
        let output = by_run.command("run").arg(by_run.path("pages.jsonl")).output().expect("starts");
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    assert!(run().contains("forgot"));
    forget(&by_command, &["--before", "2016-01-01"]);
    let left = contents(&by_run);
    assert!(left == contents(&by_command) && !left.0.is_empty());
    assert!(left.0.iter().flatten().all(|page| page.contains("2017-")), "{:?}", left.0);
    assert!(!run().contains("forgot"));
}

/// Spoilt once: a store that others had overtaken, which a newer copy of theirs would have brought up to date. It forgot what was
/// old, under numbers of events that were published, before it looked at them.
#[test]
fn a_store_that_is_not_the_outputs_own_forgets_nothing() {
    let lines = sample_lines();
    let world = World::new();
    let part = |name: &str, lines: &[String]| world.write(name, lines.join("\n") + "\n");
    world.run(&[part("first.jsonl", &lines[..200])]);
    let copied = Command::new("cp").arg("-r").args([world.path("store"), world.path("copy")]).status();
    assert!(copied.expect("runs").success());
    world.run(&[part("second.jsonl", &lines[200..])]);
    fs::remove_dir_all(world.path("store")).expect("removed");
    fs::rename(world.path("copy"), world.path("store")).expect("renamed");
    let before = contents(&world);
    let world = world.with("retention.days", 1);
    let output = world.run_command(&[world.path("first.jsonl")]).output().expect("starts");
    assert!(!output.status.success() && text(&output.stderr).contains("older copy"), "{}", text(&output.stderr));
    assert!(contents(&world) == before);
}

/// Lost if this fails: a service that nobody restarts for months keeps what its settings say to delete.
#[test]
fn a_run_without_an_end_forgets_as_pages_grow_old() {
    let world = World::new().with("input.follow_ms", 30).with("retention.days", 30).with("retention.every_ms", 100);
    let (events, folder) = (world.path("events.jsonl"), world.path("crawl"));
    fs::create_dir(&folder).expect("made");
    let add = |name: &str, lines: &[String]| {
        fs::write(folder.join(format!("{name}.open")), lines.join("\n") + "\n").expect("written");
        fs::rename(folder.join(format!("{name}.open")), folder.join(name)).expect("renamed");
    };
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a clock after 1970").as_micros() as i64;
    let today = lookalike::document::FetchTime(now).to_string();
    let line = |url: &str, time: &str| page(url, time, "1", &format!("what stands at {url}"));
    let mut command = world.run_command(std::slice::from_ref(&folder));
    let mut process = Process::start({
        command.arg("--follow");
        command
    });
    for round in 0..3 {
        let [old, new] = ["old", "new"].map(|kind| format!("http://{kind}.example/{round}"));
        add(&format!("{round}.jsonl"), &[line(&old, "2020-01-01T00:00:00Z"), line(&new, &today)]);
        let has_forgotten = || {
            let told = fs::read_to_string(&events).unwrap_or_default();
            let events = told.lines().filter(|line| line.ends_with('}'));
            let kinds = events.filter_map(|line| serde_json::from_str::<Event>(line).ok()).map(|event| event.kind());
            kinds.filter(|kind| *kind == EventType::Forgotten).count() > round
        };
        wait_until("the old page is forgotten", || {
            process.check_alive();
            has_forgotten()
        });
    }
    process.stop();
    let events = world.events();
    assert!(events.windows(2).all(|pair| pair[0].seq + 1 == pair[1].seq), "each event once");
    assert_eq!(events.iter().filter(|event| event.kind() == EventType::Assigned).count(), 6, "each page once");
    assert!(world.partition().iter().flatten().all(|page| page.contains("new.example")), "{:?}", world.partition());
    assert_eq!(world.partition().len(), 3);
    assert!(world.ask("verify", &[]).starts_with("sound"));
}
