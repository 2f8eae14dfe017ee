//! Sketches that were made elsewhere give the store that the pages give.

use crate::harness::{World, page, sweeps, text};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

impl World {
    fn sketch_command(&self, arguments: &[&str], inputs: &[PathBuf]) -> Command {
        let mut command = self.command_without_store("sketch -q");
        command.arg("--parquet").arg(self.path("sketches")).args(arguments).args(inputs);
        command
    }

    fn sketch(&self, arguments: &[&str], inputs: &[PathBuf]) {
        let output = self.sketch_command(arguments, inputs).output().expect("the program starts");
        assert!(output.status.success(), "{}", text(&output.stderr));
    }

    fn load_command(&self) -> Command {
        let mut command = self.command("backfill -q --memory 4");
        command.arg("--from-sketches").arg(self.path("sketches")).arg("--events").arg(self.path("events.jsonl"));
        command
    }

    fn load(&self) {
        let output = self.load_command().output().expect("the program starts");
        assert!(output.status.success(), "{}", text(&output.stderr));
    }

    fn backfill_with_events(&self, inputs: &[PathBuf]) -> Output {
        let mut command = self.command("backfill -q --memory 4");
        command.arg("--events").arg(self.path("events.jsonl")).args(inputs);
        command.output().expect("the program starts")
    }

    /// The names and bytes of the sketch files.
    fn sketch_files(&self) -> Vec<(String, Vec<u8>)> {
        let files = fs::read_dir(self.path("sketches")).expect("a folder").map(|file| file.expect("a file"));
        let mut files: Vec<_> = files
            .map(|file| (text(file.file_name().as_encoded_bytes()), fs::read(file.path()).expect("bytes")))
            .collect();
        files.sort();
        files
    }
}

/// Events without the store, whose name is random.
fn events(world: &World) -> Vec<serde_json::Value> {
    let lines = fs::read_to_string(world.path("events.jsonl")).expect("events");
    let event = |line: &str| {
        let mut event: serde_json::Value = serde_json::from_str(line).expect("JSON");
        event.as_object_mut().expect("an object").remove("store");
        event
    };
    lines.lines().map(event).collect()
}

/// Everything that can be seen of two stores is equal.
fn assert_same(a: &World, b: &World) {
    for question in ["export clusters", "export links --json", "export present --json", "sweep list"] {
        assert_eq!(a.ask(question, &[]), b.ask(question, &[]), "{question}");
    }
    assert_eq!(events(a), events(b));
    a.ask("verify", &[]);
}

/// Pages, gone pages, redirects, bad records and a file that ends within a record.
fn mixed_inputs(world: &World) -> Vec<PathBuf> {
    let body = "one two three four five six seven eight nine ten ".repeat(9);
    let lines: Vec<String> = (0..3000)
        .map(|n| match n % 7 {
            0 => format!(r#"{{"url":"http://a/{n}","fetched_at":"2026-01-01T00:00:00Z","gone":true}}"#),
            1 => format!(r#"{{"url":"http://a/{n}","fetched_at":"2026-01-01T00:00:00Z","redirect_to":"http://b/"}}"#),
            2 => "no page".to_string(),
            3 => format!(r#"{{"url":"http://a/{n}","body":"no time"}}"#),
            _ => format!(
                r#"{{"url":"http://a/{}","fetched_at":"2026-01-02T00:00:00Z","sweep":"s{}","text":"{body} {}"}}"#,
                n % 100,
                n % 3,
                n / 50
            ),
        })
        .collect();
    let cut = world.write("cut.jsonl", lines[..50].join("\n") + "\n{\"url\":");
    vec![world.write("pages.jsonl", lines.join("\n") + "\n"), cut, world.write("empty.jsonl", "")]
}

#[test]
fn sketches_give_the_store_that_their_pages_give() {
    type Profile = (&'static str, fn() -> World);
    let profiles: [Profile; 4] = [
        ("default", World::new),
        ("paper-1997", || World::new().with_config("paper-1997.toml")),
        ("mod shingles", || World::new().with("sketch.index_modulus", 25)),
        ("content", || World::new().with("canonical.content", "main")),
    ];
    for (name, world) in profiles {
        println!("{name}");
        let (whole, loaded) = (world(), world());
        assert!(whole.backfill_with_events(&sweeps()).status.success());
        loaded.sketch(&[], &sweeps());
        loaded.load();
        assert_same(&whole, &loaded);
        // The stream goes on behind the inputs of the sketches.
        let n_events = loaded.n_events();
        loaded.run(&sweeps());
        assert_eq!(loaded.n_events(), n_events, "nothing is new");
    }
}

#[test]
fn records_of_every_kind_come_through() {
    let (whole, loaded) = (World::new(), World::new());
    let inputs = mixed_inputs(&whole);
    assert_eq!(whole.backfill_with_events(&inputs).status.code(), Some(3), "a file is cut");
    let output = loaded.sketch_command(&[], &inputs).output().expect("starts");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("the last line is incomplete"), "{}", text(&output.stderr));
    let output = loaded.load_command().output().expect("starts");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("the last line is incomplete"), "{}", text(&output.stderr));
    assert_same(&whole, &loaded);
}

/// Any number of commands may sketch, in any order and more than once: the files have the same bytes.
#[test]
fn files_do_not_depend_on_who_makes_them() {
    let (together, apart) = (World::new(), World::new());
    together.sketch(&[], &sweeps());
    let files = together.sketch_files();
    assert_eq!(files.len(), 3);
    for (number, input) in sweeps().iter().enumerate().rev() {
        apart.sketch(&["--number", &format!("{}/3", number + 1)], std::slice::from_ref(input));
    }
    assert!(files == apart.sketch_files(), "other bytes");
    // What is there is not made again.
    let mut again = together.command_without_store("sketch --json");
    let output = again.arg("--parquet").arg(together.path("sketches")).args(sweeps()).output().expect("starts");
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&summary["n_inputs"], &summary["n_inputs_there"]), (&0.into(), &3.into()), "{summary}");
    // With one thread, too.
    let alone = World::new().with("pipeline.sketchers", 1);
    alone.sketch(&[], &sweeps());
    assert!(files == alone.sketch_files(), "one thread makes other bytes");
}

/// Lost once: an input that was edited and kept its size was passed over, and its old pages were loaded.
#[test]
fn what_changed_is_sketched_again() {
    let world = World::new();
    let line =
        |word: &str| page("http://a/1", "2026-11-21T00:00:00Z", "1", &format!("one {word} three four five")) + "\n";
    let input = world.write("pages.jsonl", line("two"));
    world.sketch(&[], std::slice::from_ref(&input));
    let before = world.sketch_files();
    world.sketch(&[], std::slice::from_ref(&input));
    assert!(before == world.sketch_files(), "nothing changed");
    let written_at = world.path("sketches").join(&before[0].0).metadata().expect("a file").modified().expect("a time");
    world.write("pages.jsonl", line("six"));
    let edited = fs::File::options().append(true).open(&input).expect("a file");
    edited.set_modified(written_at + Duration::from_secs(1)).expect("dated");
    world.sketch(&[], std::slice::from_ref(&input));
    assert!(before != world.sketch_files(), "the old pages");
    // Refused once, as if it were another input.
    world.write("pages.jsonl", line("two") + &line("six"));
    world.sketch(&[], std::slice::from_ref(&input));
}

/// A pipe stands in for a file that is somewhere else.
#[test]
fn standard_input_has_a_name() {
    let world = World::new();
    let sweep = &sweeps()[0];
    let pipe = || fs::File::open(sweep).expect("a file");
    let unnamed = world.sketch_command(&[], &["-".into()]).stdin(pipe()).output().expect("starts");
    assert_eq!(unnamed.status.code(), Some(2), "{}", text(&unnamed.stderr));
    assert!(text(&unnamed.stderr).contains("--name"), "{}", text(&unnamed.stderr));
    let named = ["--number", "1/1", "--name", "s3://crawl/1.jsonl.zst"];
    assert!(world.sketch_command(&named, &["-".into()]).stdin(pipe()).status().expect("starts").success());
    world.load();
    let again = world.command("run -q --stdin-name s3://crawl/1.jsonl.zst -").stdin(pipe()).output().expect("starts");
    assert!(again.status.success(), "{}", text(&again.stderr));
    assert!(world.ask("stats", &[]).contains("164 sightings"), "{}", world.ask("stats", &[]));
}

fn refused(output: Output, why: &str) {
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains(why), "{} does not say {why}", text(&output.stderr));
}

#[test]
fn what_does_not_belong_together_is_refused() {
    let world = World::new();
    let load = |world: &World| world.load_command().output().expect("starts");
    refused(load(&world), "No such file");
    fs::create_dir(world.path("sketches")).expect("a folder");
    refused(load(&world), "holds no sketch files");
    world.sketch(&["--number", "2/3"], &sweeps()[1..2]);
    refused(load(&world), "lacks the sketches of 2 of 3 inputs, the first of them number 1");
    world.sketch(&["--number", "1/3"], &sweeps()[..1]);
    refused(load(&world), "1 of 3 inputs, the first of them number 3");
    refused(world.sketch_command(&["--number", "1/3"], &sweeps()[1..2]).output().expect("starts"), "other sketches");
    refused(world.sketch_command(&["--number", "4/3"], &sweeps()[1..2]).output().expect("starts"), "NUMBER/OF");
    refused(
        world.sketch_command(&["--number", "1/3"], &sweeps()).output().expect("starts"),
        "--number is of one input",
    );

    let third = &sweeps()[2..];
    let with = |key: &str, value: &str, why: &str| {
        let mut command = world.sketch_command(&["--number", "3/3"], third);
        command.env(format!("LOOKALIKE__{}", key.replace('.', "__").to_uppercase()), value);
        assert!(command.status().expect("starts").success());
        refused(load(&world), why);
        fs::remove_file(world.path("sketches/sketches-0000003.parquet")).expect("removed");
    };
    with("sketch.w", "8", "other sketch rules");
    with("store.seed", &"1".repeat(64), "other seeds");
    with("limits.words_max", "100", "other limits");
    world.sketch(&["--number", "3/3"], &sweeps()[1..2]);
    refused(load(&world), "the same input");
    fs::remove_file(world.path("sketches/sketches-0000003.parquet")).expect("removed");

    world.sketch(&["--number", "3/3"], third);
    for (key, value, why) in [
        ("SKETCH__W", "8", "another rule"),
        ("STORE__SEED", &*"1".repeat(64), "another seed"),
        ("STORE__SEED", "", "another seed"),
    ] {
        refused(world.load_command().env(format!("LOOKALIKE__{key}"), value).output().expect("starts"), why);
    }
    for (path, bytes, why) in [("x.parquet", &b"PAR1"[..], "cut or damaged"), ("x.parquet", b"", "cut or damaged")] {
        fs::write(world.path("sketches").join(path), bytes).expect("written");
        refused(load(&world), why);
    }
    fs::remove_file(world.path("sketches/x.parquet")).expect("removed");
    assert!(!world.path("store").exists() && !world.path("store.backfill").exists(), "nothing is left behind");
    world.load();
}

/// A byte that changed on a disk or on the way must not become another sketch without a word.
#[test]
fn damaged_rows_are_found() {
    let world = World::new();
    world.sketch(&[], &sweeps()[..1]);
    let (name, whole) = world.sketch_files().remove(0);
    let path = world.path("sketches").join(name);
    world.load();
    let clusters = world.ask("export clusters", &[]);
    let mut n_found = 0;
    for at in (0..whole.len()).step_by(whole.len() / 40) {
        let _ = fs::remove_dir_all(world.path("store.backfill"));
        let _ = fs::remove_dir_all(world.path("store"));
        let _ = fs::remove_file(world.path("events.jsonl"));
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        fs::write(&path, &bytes).expect("written");
        let output = world.load_command().output().expect("starts");
        let told = text(&output.stderr);
        match output.status.code() {
            // A byte of Parquet's own description that nobody needs.
            Some(0) => assert_eq!(world.ask("export clusters", &[]), clusters, "byte {at}"),
            Some(1 | 2) => {
                assert!(told.contains("damaged") || told.contains("no sketch file"), "{told}");
                n_found += 1;
            }
            other => panic!("{other:?}: {told}"),
        }
    }
    assert!(n_found >= 38, "only {n_found} of 40 damages were found");
}

/// Killed at any moment, both commands go on, and the store is the one of an undisturbed run.
#[test]
fn killed_commands_go_on() {
    let undisturbed = World::new();
    undisturbed.sketch(&[], &sweeps());
    undisturbed.load();
    let world = World::new();
    let mut n_kills = 0;
    let mut until_done = |command: &dyn Fn() -> Command| {
        for n in 0..300 {
            let mut process = command().spawn().expect("the program starts");
            std::thread::sleep(Duration::from_millis(3 + 4 * n));
            if let Some(status) = process.try_wait().expect("a status") {
                assert!(status.success(), "{status}");
                return;
            }
            process.kill().expect("killed");
            process.wait().expect("ended");
            n_kills += 1;
            if world.path("store").exists() && !world.path("store.backfill/manifest.json").exists() {
                return;
            }
        }
        panic!("no run ended by itself");
    };
    until_done(&|| world.sketch_command(&[], &sweeps()));
    until_done(&|| {
        let mut command = world.load_command();
        command.env("LOOKALIKE__BACKFILL__CHECKPOINT_MS", "0");
        command
    });
    println!("killed {n_kills} times");
    assert!(n_kills > 3, "{n_kills} kills are too few to find anything");
    let whole = |world: &World| {
        let files = world.sketch_files().into_iter();
        files.filter(|(name, _)| name.ends_with(".parquet")).collect::<Vec<_>>()
    };
    assert!(whole(&undisturbed) == whole(&world), "other sketches");
    world.ask("verify", &[]);
    for question in ["export clusters", "export links --json"] {
        assert_eq!(undisturbed.ask(question, &[]), world.ask(question, &[]), "{question}");
    }
}
