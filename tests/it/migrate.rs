//! A migrated store holds what the old one holds, by another rule, and goes on where it stood.

use crate::backfill::without_chains;
use crate::harness::broker::{Topic, present_in_table, present_in_topics, topic};
use crate::harness::process::{LONG, Process};
use crate::harness::{World, page, root, sample_lines, sweeps, text};
use lookalike::document::DocumentId;
use lookalike::ports::{DocumentText, Snapshot};
use lookalike::store::{RocksStore, Settings};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

fn keeping() -> World {
    World::new().with("store.keep_text", "canonical")
}

fn migrate_command(world: &World, variables: &[(&str, &str)]) -> Command {
    let mut command = world.command("migrate -q --memory 2");
    command.arg("--to").arg(world.path("new")).envs(variables.iter().copied());
    command
}

fn migrate(world: &World, variables: &[(&str, &str)]) {
    let output = migrate_command(world, variables).output().expect("starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(!world.path("new.backfill").exists(), "the work folder is removed");
    assert!(ask_new(world, "verify", &[]).starts_with("sound"));
}

/// Asks the new store.
fn ask_new(world: &World, subcommand: &str, arguments: &[&str]) -> String {
    ask_on(world, &world.path("new"), subcommand, arguments)
}

fn ask_on(world: &World, store: &Path, subcommand: &str, arguments: &[&str]) -> String {
    let output = world.command_on(subcommand, store).args(arguments).output().expect("starts");
    assert!(output.status.success(), "{subcommand}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn refused(output: &Output, why: &str) {
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains(why), "{}", text(&output.stderr));
}

/// The bytes of every file in a folder.
fn files_of(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    paths.filter(|path| path.is_file()).map(|path| (path.clone(), fs::read(&path).expect("bytes"))).collect()
}

/// A line that says of a URL that it is gone, or where it is.
fn no_page(url: &str, sweep: &str, what: &str) -> String {
    format!(r#"{{"url":"{url}","fetched_at":"2017-09-02T00:00:00Z","sweep":"{sweep}",{what}}}"#) + "\n"
}

/// A world that took the three sweeps in, closed the last two, and saw URLs gone, redirected and back again.
fn crawled() -> World {
    crawled_by(keeping())
}

fn crawled_by(world: World) -> World {
    let sweep = |world: &World, at: usize| world.run(&[sweeps()[at].clone()]);
    sweep(&world, 0);
    sweep(&world, 1);
    let events = world.path("events.jsonl").display().to_string();
    world.ask("sweep close", &["2-2015-08-01", "--events", &events]);
    sweep(&world, 2);
    world.ask("sweep close", &["3-2017-09-01", "--events", &events]);
    let bin = "https://docs.npm.example/html/api/bin.html";
    let lines = [
        no_page(bin, "4", r#""redirect_to":"https://docs.npm.example/""#),
        no_page("https://docs.npm.example/never", "4", r#""gone":true"#),
        page("https://docs.npm.example/again", "2017-09-02T00:00:01Z", "4", "what came back") + "\n",
    ];
    world.run(&[world.write("more.jsonl", lines.concat())]);
    world
}

/// What a store says of its clusters, of what stands where, of its sweeps, and of lost pages. Links may differ between the
/// stream and a batch, and with them the documents that a chain goes through.
fn answers(world: &World, store: &Path) -> Vec<String> {
    let ask = |question: &str, arguments: &[&str]| ask_on(world, store, question, arguments);
    let sized = ["--columns", "url,fetched_at,sweep,document,cluster,words,bytes"];
    let mut answers = vec![ask("export clusters", &sized), ask("export present", &[]), ask("sweep list", &["--json"])];
    answers.push(ask("query url", &["https://docs.npm.example/html/api/bin.html", "--json"]));
    let lost = fs::read_to_string(root().join("bench-data/lost.jsonl")).expect("the truth");
    for line in lost.lines().step_by(6) {
        let lost: Value = serde_json::from_str(line).expect("JSON");
        let answer = ask("query lost", &[lost["url"].as_str().expect("a URL"), "--json"]);
        answers.push(without_chains(&answer).to_string());
    }
    answers
}

fn mapping(world: &World) -> String {
    let old = world.path("store");
    ask_new(world, "export mapping", &["--memory", "1", "--from", old.to_str().expect("UTF-8")])
}

/// Lost if this fails: a store that changes its rule loses its history, the sweeps that were closed, or its names.
#[test]
fn by_the_same_rule_the_new_store_answers_as_the_old_one_does() {
    let world = crawled();
    let before = files_of(&world.path("store"));
    migrate(&world, &[]);
    assert!(files_of(&world.path("store")) == before, "the old store stays as it is, byte for byte");
    let [old, new] = ["store", "new"].map(|store| answers(&world, &world.path(store)));
    assert_eq!(old, new);
    let mapping = mapping(&world);
    let rows: Vec<&str> = mapping.lines().skip(1).collect();
    assert!(rows.len() > 100, "{mapping}");
    for row in rows {
        let cells: Vec<&str> = row.split(',').collect();
        assert_eq!((cells[0], cells[2], cells[2], cells[5]), (cells[1], cells[3], cells[4], "same"), "{row}");
    }
    // Texts are kept again, so that the new store can be migrated, too.
    let store = RocksStore::open_read_only(&world.path("new"), &Settings::default()).expect("opens");
    assert!(matches!(store.text_of(DocumentId(1)), Ok(DocumentText::Kept(_))));
}

/// Lost if this fails: pages that came while the new store was made, or a page that both the old store and `run` took in.
#[test]
fn run_goes_on_where_the_old_store_stood() {
    let world = keeping();
    world.run(&sweeps()[..1]);
    let mut migrating = migrate_command(&world, &[]).spawn().expect("starts");
    // The old store goes on meanwhile; whichever moment the new one is of, both come to the same.
    world.run(&sweeps());
    assert!(migrating.wait().expect("ended").success());
    let more = world.write("more.jsonl", page("http://new.example/", "2018-01-01T00:00:00Z", "4", "quite new") + "\n");
    let inputs: Vec<PathBuf> = sweeps().into_iter().chain([more]).collect();
    world.run(&inputs);
    let output = world.command_on("run -q", &world.path("new")).args(&inputs).output().expect("starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let [old, new] = ["store", "new"].map(|store| ask_on(&world, &world.path(store), "export clusters", &[]));
    assert_eq!(old, new);
    let sweeps_of = |store: &str| ask_on(&world, &world.path(store), "sweep list", &["--json"]);
    assert_eq!(sweeps_of("store"), sweeps_of("new"), "no page counts twice");
    assert!(ask_new(&world, "verify", &[]).starts_with("sound"));
}

/// Lost if this fails: the new store is not the one that the new rule gives.
#[test]
fn by_another_rule_the_clusters_are_those_of_the_pages() {
    for variables in [
        [("LOOKALIKE__SKETCH__W", "5"), ("LOOKALIKE__CLUSTER__THRESHOLD", "0.5")],
        [("LOOKALIKE__SKETCH__W", "10"), ("LOOKALIKE__CLUSTER__THRESHOLD", "0.8")],
        [("LOOKALIKE__SKETCH__SIZE", "600"), ("LOOKALIKE__CLUSTER__THRESHOLD", "0.35")],
    ] {
        let world = crawled();
        migrate(&world, &variables);
        let fresh = World::new();
        let mut command = fresh.command("backfill -q");
        command.args(sweeps()).arg(world.path("more.jsonl")).envs(variables);
        assert!(command.status().expect("starts").success());
        let partition = |table: &str| crate::harness::partition_of(table);
        let [new, fresh] =
            [ask_new(&world, "export clusters", &[]), fresh.ask("export clusters", &[])].map(|table| partition(&table));
        assert_eq!(new, fresh, "{variables:?}");
        assert_ne!(new, world.partition(), "{variables:?} must change something");
        assert_mapping(&world);
    }
}

/// Each URL where a page stands, and its cluster.
fn present(world: &World, store: &str) -> BTreeMap<String, String> {
    let table = ask_on(world, &world.path(store), "export present", &["--columns", "url,state,cluster"]);
    let mut rows = csv::Reader::from_reader(table.as_bytes());
    let rows = rows.records().map(|row| row.expect("a row")).filter(|row| &row[1] == "page");
    rows.map(|row| (row[0].to_string(), row[2].to_string())).collect()
}

/// Checks a mapping against one that is counted from `export present`.
fn assert_mapping(world: &World) {
    let (old, new) = (present(world, "store"), present(world, "new"));
    let urls: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let mut shared: BTreeMap<(String, String), usize> = BTreeMap::new();
    for url in urls {
        let cluster = |of: &BTreeMap<String, String>| of.get(url).cloned().unwrap_or_default();
        *shared.entry((cluster(&old), cluster(&new))).or_default() += 1;
    }
    let partners_of_old = |old: &str| shared.keys().filter(|pair| pair.0 == old && !pair.1.is_empty()).count();
    let partners_of_new = |new: &str| shared.keys().filter(|pair| pair.1 == new && !pair.0.is_empty()).count();
    let size = |of: &BTreeMap<String, String>, cluster: &str| of.values().filter(|own| *own == cluster).count();
    let mut expected: Vec<((u32, u32), String)> = shared
        .iter()
        .map(|((a, b), n)| {
            let kind = match (a.is_empty(), b.is_empty(), partners_of_old(a) > 1, partners_of_new(b) > 1) {
                (true, ..) => "new-only",
                (_, true, ..) => "old-only",
                (_, _, false, false) => "same",
                (_, _, true, false) => "split",
                (_, _, false, true) => "merged",
                (_, _, true, true) => "mixed",
            };
            let order = (a.parse().unwrap_or(0), b.parse().unwrap_or(0));
            (order, format!("{a},{b},{n},{},{},{kind}", size(&old, a), size(&new, b)))
        })
        .collect();
    expected.sort();
    let expected: Vec<String> = expected.into_iter().map(|(_, row)| row).collect();
    let found = mapping(world);
    let found: Vec<String> = found.lines().skip(1).map(String::from).collect();
    assert_eq!(found, expected);
}

/// Lost if this fails: who cannot see which sightings the new store lacks takes it for whole.
#[test]
fn sightings_without_a_text_are_told() {
    let mut world = keeping();
    for (keep_text, sweep) in ["canonical", "none", "canonical"].into_iter().zip(sweeps()) {
        world = world.with("store.keep_text", keep_text);
        world.run(std::slice::from_ref(&sweep));
        let events = world.path("events.jsonl").display().to_string();
        let name = sweep.file_name().expect("a name").to_string_lossy().replace("sweep-", "").replace(".jsonl.zst", "");
        world.ask("sweep close", &[&name, "--events", &events]);
    }
    let list = world.path("missing.jsonl");
    let output = migrate_command(&world, &[]).arg("--missing").arg(&list).arg("--json").output().expect("starts");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let summary: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(ask_new(&world, "verify", &[]).starts_with("sound"));
    let keys = |table: &str| -> BTreeMap<[String; 3], u32> {
        let mut rows = csv::Reader::from_reader(table.as_bytes());
        let rows = rows.records().map(|row| row.expect("a row"));
        rows.map(|row| ([&row[0], &row[1], &row[2]].map(String::from), row[3].parse().expect("a number"))).collect()
    };
    let old = RocksStore::open_read_only(&world.path("store"), &Settings::default()).expect("opens");
    let is_kept = |document: u32| matches!(old.text_of(DocumentId(document)), Ok(DocumentText::Kept(_)));
    let sightings = keys(&world.ask("export clusters", &[]));
    let expected: BTreeSet<_> =
        sightings.iter().filter(|(_, document)| !is_kept(**document)).map(|(key, _)| key.clone()).collect();
    let missing: BTreeSet<[String; 3]> = fs::read_to_string(&list)
        .expect("a list")
        .lines()
        .map(|line| {
            let row: Value = serde_json::from_str(line).expect("JSON");
            assert!(row["message"].as_str().is_some_and(|why| why.contains("not kept")), "{row}");
            ["url", "fetched_at", "sweep"].map(|name| row[name].as_str().unwrap_or_default().to_string())
        })
        .collect();
    assert!(missing.len() > 50, "{missing:?}");
    assert_eq!(missing, expected);
    assert_eq!(summary["n_missing"], missing.len());
    let left: BTreeSet<_> = sightings.into_keys().filter(|key| !missing.contains(key)).collect();
    assert_eq!(keys(&ask_new(&world, "export clusters", &[])).into_keys().collect::<BTreeSet<_>>(), left);
    assert_mapping(&world);
}

/// The files that [`crawled_by`] took in, in that order.
fn inputs(world: &World) -> Vec<PathBuf> {
    sweeps().into_iter().chain([world.path("more.jsonl")]).collect()
}

/// Lost if this fails: the history, sweeps and names of a store without texts, whose files are still there.
#[test]
fn without_texts_the_inputs_give_the_same_store() {
    let world = crawled_by(World::new());
    // What was forgotten does not come back, though the files have it.
    world.ask("forget -q https://docs.npm.example/html/doc/index.html", &[]);
    let before = files_of(&world.path("store"));
    let output = migrate_command(&world, &[]).args(inputs(&world)).output().expect("starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(files_of(&world.path("store")) == before, "the old store stays as it is, byte for byte");
    assert!(ask_new(&world, "verify", &[]).starts_with("sound"));
    let names = |csv: &str| crate::harness::partition_of(csv);
    let [old, new] = ["store", "new"].map(|store| {
        let ask = |question: &str, arguments: &[&str]| ask_on(&world, &world.path(store), question, arguments);
        let bin = "https://docs.npm.example/html/api/bin.html";
        let seen = serde_json::from_str::<Value>(&ask("query url", &[bin, "--json"])).expect("JSON");
        let seen: Vec<String> = seen["sightings"]
            .as_array()
            .expect("sightings")
            .iter()
            .map(|sighting| format!("{} {} {}", sighting["fetched_at"], sighting["seen"], sighting["sweep"]))
            .collect();
        (names(&ask("export clusters", &[])), ask("sweep list", &["--json"]), seen)
    });
    assert_eq!(old, new);
    // Both go on from the same place in the same files.
    let more =
        [page("http://later.example/", "2018-01-01T00:00:00Z", "5", "what came later"), String::new()].join("\n");
    let files = [inputs(&world), vec![world.write("later.jsonl", more)]].concat();
    for store in ["store", "new"] {
        let mut command = world.command_on("run -q --json", &world.path(store));
        let output = command.args(&files).output().expect("starts");
        let summary: Value = serde_json::from_slice(&output.stdout).expect("a summary");
        assert_eq!(summary["n_records"], 1, "{store}: {}", text(&output.stderr));
    }
}

/// Lost if this fails: a store cannot get another `canonical.content` without its history.
#[test]
fn the_inputs_give_what_texts_cannot() {
    let main = ("LOOKALIKE__CANONICAL__CONTENT", "main");
    let world = crawled();
    let output = migrate_command(&world, &[main]).arg("--reread").output().expect("starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let fresh = crawled_by(World::new().with("canonical.content", "main"));
    let answers = |csv: &str| crate::harness::partition_of(csv);
    assert_eq!(answers(&ask_new(&world, "export clusters", &[])), answers(&fresh.ask("export clusters", &[])));
    assert_eq!(ask_new(&world, "sweep list", &["--json"]), fresh.ask("sweep list", &["--json"]));
    assert_mapping(&world);
}

/// Lost once: the numbers of documents, which were others each time, and with them any interrupted command.
#[test]
fn files_are_read_again_in_the_order_of_their_names() {
    let world = World::new();
    let names = ["a", "b", "c", "d", "e", "f"];
    for name in names.iter().rev() {
        let words: String = (0..20).map(|n| format!("{name}{n} ")).collect();
        let line = page(&format!("http://{name}/"), "2017-09-02T00:00:00Z", "1", &words) + "\n";
        world.run(&[world.write(&format!("{name}.jsonl"), line)]);
    }
    let output = migrate_command(&world, &[]).arg("--reread").output().expect("starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    for (document, name) in (1..).zip(names) {
        let answer = ask_new(&world, "query url", &[&format!("http://{name}/"), "--json"]);
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!(answer["sightings"][0]["document"], document, "{name}");
    }
}

/// Lost if this fails: pages that neither the inputs nor texts have are missing, and nobody is told.
#[test]
fn pages_that_the_inputs_lack_come_from_texts_or_are_told() {
    let world = crawled();
    let whole = crate::harness::partition_of(&world.ask("export clusters", &[]));
    // By the same [canonical] the texts have them.
    migrate_with(&world, "new", &[], &sweeps()[1..2], 0);
    assert_eq!(crate::harness::partition_of(&ask_new(&world, "export clusters", &[])), whole);
    // By another one they do not.
    let list = world.path("missing.jsonl");
    migrate_with(&world, "other", &[("LOOKALIKE__CANONICAL__CONTENT", "main")], &sweeps()[1..2], 3);
    let missing = fs::read_to_string(&list).expect("a list");
    let n_pages = |csv: &str| csv.lines().count() - 1;
    let (all, left) = (world.ask("export clusters", &[]), ask_on(&world, &world.path("other"), "export clusters", &[]));
    assert_eq!(missing.lines().count(), n_pages(&all) - n_pages(&left));
    assert!(n_pages(&left) > 50 && missing.contains("not among the inputs"), "{missing}");
}

fn migrate_with(world: &World, to: &str, variables: &[(&str, &str)], inputs: &[PathBuf], code: i32) {
    let mut command = world.command("migrate -q --memory 2");
    command.arg("--to").arg(world.path(to)).arg("--missing").arg(world.path("missing.jsonl")).args(inputs);
    let output = command.envs(variables.iter().copied()).output().expect("starts");
    assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
    assert!(ask_on(world, &world.path(to), "verify", &[]).starts_with("sound"));
}

/// Lost if this fails: a killed migration from inputs reads a page twice, or not at all. Lost once: of one that was killed
/// while it removed its work folder, the same command said that there is no old store.
#[test]
fn a_killed_migration_from_inputs_goes_on() {
    let world = crawled();
    let (whole, mut n_kills) = (crate::harness::partition_of(&world.ask("export clusters", &[])), 0);
    loop {
        let mut command = migrate_command(&world, &[("LOOKALIKE__BACKFILL__CHECKPOINT_MS", "0")]);
        // One file is left to the texts.
        let mut process = command.args(&inputs(&world)[1..]).spawn().expect("starts");
        std::thread::sleep(Duration::from_millis(20 + 10 * n_kills));
        if let Some(status) = process.try_wait().expect("a status") {
            assert!(status.success(), "{status}");
            break;
        }
        process.kill().expect("killed");
        process.wait().expect("ended");
        // Without a manifest there is nothing to go on with: the store is whole.
        if world.path("new").exists() && !world.path("new.backfill/manifest.json").exists() {
            break;
        }
        n_kills += 1;
        assert!(n_kills < 400, "no migration ended by itself");
    }
    assert!(n_kills > 2, "{n_kills} kills are too few");
    assert_eq!(crate::harness::partition_of(&ask_new(&world, "export clusters", &[])), whole);
    assert!(ask_new(&world, "verify", &[]).starts_with("sound"));
}

/// Lost if this fails: a killed migration leaves half a store that looks whole, or mixes two moments of the old one.
#[test]
fn a_killed_migration_goes_on() {
    let world = crawled();
    let whole = world.ask("export clusters", &[]);
    let mut n_kills = 0;
    loop {
        let mut command = migrate_command(&world, &[("LOOKALIKE__BACKFILL__CHECKPOINT_MS", "0")]);
        let mut process = command.spawn().expect("starts");
        std::thread::sleep(Duration::from_millis(20 + 8 * n_kills));
        if let Some(status) = process.try_wait().expect("a status") {
            assert!(status.success(), "{status}");
            break;
        }
        process.kill().expect("killed");
        process.wait().expect("ended");
        if world.path("new").exists() && !world.path("new.backfill").exists() {
            // Killed after the last of its work.
            break;
        }
        n_kills += 1;
        assert!(n_kills < 400, "no migration ended by itself");
        if world.path("new.backfill/old").exists() {
            // From here on the new store is that of the moment when the work began.
            let url = format!("http://later.example/{n_kills}");
            world
                .run(&[world
                    .write(&format!("later-{n_kills}.jsonl"), page(&url, "2018-01-01T00:00:00Z", "5", &url) + "\n")]);
        }
    }
    assert!(n_kills > 2, "{n_kills} kills are too few");
    assert_eq!(ask_new(&world, "export clusters", &[]), whole);
    assert!(ask_new(&world, "verify", &[]).starts_with("sound"));
    assert!(!world.path("new.backfill").exists());
}

#[test]
fn what_texts_cannot_give_is_refused() {
    let world = World::new();
    world.run(&sweeps()[..1]);
    refused(&migrate_command(&world, &[]).output().expect("starts"), "keeps no texts");
    let gone = world.write("gone.jsonl", page("http://a/", "2017-01-01T00:00:00Z", "1", "a b c") + "\n");
    let elsewhere = World::new();
    elsewhere.run(std::slice::from_ref(&gone));
    fs::remove_file(gone).expect("removed");
    refused(&migrate_command(&elsewhere, &[]).arg("--reread").output().expect("starts"), "no file that is still there");
    let world = keeping();
    world.run(&sweeps()[..1]);
    let main = [("LOOKALIKE__CANONICAL__CONTENT", "main")];
    refused(&migrate_command(&world, &main).output().expect("starts"), "canonical.content");
    let star = [("LOOKALIKE__CLUSTER__POLICY", "star")];
    refused(&migrate_command(&world, &star).output().expect("starts"), "recluster --policy star");
    assert!(!world.path("new.backfill").exists() && !world.path("new").exists(), "nothing is left behind");
    migrate(&world, &[]);
    refused(&migrate_command(&world, &[]).output().expect("starts"), "is there already");
}

/// The configuration of a store that reads a topic.
fn kafka_config(world: &World, pages: &Topic, events: &Topic, state: Option<&[Topic; 2]>, name: &str) -> PathBuf {
    let config = format!(
        "input.from = \"kafka\"\nlog.level = \"warn\"\n[kafka]\nbrokers = \"{}\"\ntopic = \"{}\"\nevents_topic = \"{}\"\n\
         assignments_topic = \"{}\"\nmerges_topic = \"{}\"\ndead_letters = false\ngroup = \"{}-{name}\"\n",
        pages.brokers,
        pages.name,
        events.name,
        state.map_or("", |[assignments, _]| &assignments.name),
        state.map_or("", |[_, merges]| &merges.name),
        pages.name
    );
    world.write(&format!("{name}.toml"), config)
}

/// Sightings in a store; 0 while it is in the making.
fn n_sightings(world: &World, store: &str) -> usize {
    let output = world.command_on("export clusters", &world.path(store)).output().expect("starts");
    text(&output.stdout).lines().count().saturating_sub(1)
}

/// Lost if this fails: messages between the moment of the new store and its first `run`, or messages that it takes twice.
#[test]
fn both_stores_run_over_one_topic() {
    let (Some(pages), Some(events), Some(new_events)) = (topic(2), topic(1), topic(1)) else { return };
    let (Some(assignments), Some(merges)) = (topic(1), topic(1)) else { return };
    let state = [assignments, merges];
    let world = keeping();
    let (old_config, new_config) = (
        kafka_config(&world, &pages, &events, None, "old"),
        kafka_config(&world, &pages, &new_events, Some(&state), "new"),
    );
    let run = |store: &str, config: &Path| {
        let mut command = world.command_on("run -q", &world.path(store));
        command.arg("--config").arg(config).stderr(std::process::Stdio::piped());
        Process::start(command)
    };
    let lines = sample_lines();
    let send = |lines: &[String]| {
        for partition in 0..2 {
            let lines: Vec<&str> = lines.iter().skip(partition).step_by(2).map(String::as_str).collect();
            pages.send_json(partition as i32, &lines);
        }
    };
    let until = |store: &str, n: usize, process: &mut Process| {
        let end = Instant::now() + LONG;
        while n_sightings(&world, store) < n {
            process.check_alive();
            assert!(Instant::now() < end, "{} of {n} sightings in {store}", n_sightings(&world, store));
            std::thread::sleep(Duration::from_millis(200));
        }
    };
    send(&lines[..300]);
    let mut old = run("store", &old_config);
    until("store", 200, &mut old);
    let mut migrating = migrate_command(&world, &[]).arg("--config").arg(&new_config).spawn().expect("starts");
    send(&lines[300..500]);
    assert!(migrating.wait().expect("ended").success());
    // Events of the new store have no place behind those of the old one.
    let output = world.command_on("run -q", &world.path("new")).arg("--config").arg(&old_config).output();
    let output = output.expect("starts");
    assert_eq!(output.status.code(), Some(12), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("another store"), "{}", text(&output.stderr));
    // Where each URL stands is in no topic yet. Once it is written there, `run` goes on with the changes.
    let mut republish = world.command_on("topics republish", &world.path("new"));
    let republished = republish.arg("--config").arg(&new_config).output().expect("starts");
    assert!(republished.status.success(), "{}", text(&republished.stderr));
    let mut new = run("new", &new_config);
    send(&lines[500..]);
    until("store", lines.len(), &mut old);
    until("new", lines.len(), &mut new);
    old.stop();
    new.stop();
    let [old, new] = ["store", "new"].map(|store| {
        let sweeps = ask_on(&world, &world.path(store), "sweep list", &["--json"]);
        (crate::harness::partition_of(&ask_on(&world, &world.path(store), "export clusters", &[])), sweeps)
    });
    assert_eq!(old, new, "the same clusters, and no page counted twice");
    let told = present_in_topics(&state[0].brokers, &state[0].name, &state[1].name);
    assert_eq!(
        told,
        present_in_table(&ask_new(&world, "export present", &[])),
        "consumers of the new topic see where each URL stands"
    );
    assert!(ask_new(&world, "verify", &[]).starts_with("sound"));
}
