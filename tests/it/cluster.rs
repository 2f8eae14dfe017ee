//! `cluster` writes a row for every record, with the clusters of `backfill` and the choice of `dedup`.

use crate::dedup::{backfilled, kept_of_clusters, sample};
use crate::harness::{Partition, World, ended, page, sweeps, terminate, text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

impl World {
    fn cluster_command(&self, inputs: &[PathBuf], out: &str, arguments: &[&str]) -> Command {
        let mut command = self.command_without_store("cluster --json --memory 16");
        command.args(inputs).arg("--out").arg(self.path(out)).args(arguments);
        command
    }

    /// The rows of the table of a run that must succeed.
    fn cluster(&self, inputs: &[PathBuf], out: &str, arguments: &[&str]) -> Vec<Value> {
        succeeded(&self.cluster_command(inputs, out, arguments).output().expect("starts"));
        assert!(!self.path(&format!("{out}.cluster")).exists(), "the work folder is left");
        rows(&self.path(out))
    }
}

fn succeeded(output: &Output) {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

fn rows(table: &Path) -> Vec<Value> {
    fs::read_to_string(table).expect("a table").lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// Lost if this fails: a corpus made with the column `keep` has copies, or lacks pages.
#[test]
fn every_record_has_a_row_with_the_cluster_and_the_choice_of_the_plain_reference() {
    let (world, pages) = (World::new(), sample());
    let partition = backfilled(&world, &sweeps());
    let others = format!("{}\nno page\n", r#"{"url":"http://gone/","fetched_at":"2026-01-01T00:00:00Z","gone":true}"#);
    let inputs = [sweeps(), vec![world.write("others.jsonl", others)]].concat();
    for keep in ["longest", "newest", "first"] {
        let rows = world.cluster(&inputs, &format!("{keep}.jsonl"), &["--keep", keep]);
        assert_eq!(rows.len(), pages.len() + 2);
        let kept = kept_of_clusters(&pages, &partition, keep);
        let mut found: BTreeMap<i64, BTreeSet<String>> = BTreeMap::new();
        let mut n_words_of: BTreeMap<Option<i64>, u64> = BTreeMap::new();
        for (row, page) in rows.iter().zip(&pages) {
            let source = sweeps()[page.at.0].canonicalize().expect("a path");
            assert_eq!((&row["source"], &row["record"]), (&source.to_str().into(), &page.at.1.into()));
            assert_eq!((&row["url"], &row["fetched_at"]), (&page.json["url"], &page.json["fetched_at"]));
            // Those of the page that had the text first.
            let n_words = *n_words_of.entry(row["document"].as_i64()).or_insert(page.n_words);
            let n_found = row["words"].as_u64().expect("a number");
            // The other program cuts words apart at some signs that join them here.
            assert!(n_found.abs_diff(n_words) <= n_words / 50, "{n_found} of {n_words} words");
            assert_eq!(row["keep"], kept.contains(&page.at), "{row}");
            assert_eq!(row["keep"], row["kind"] == "kept");
            found.entry(row["cluster"].as_i64().expect("a cluster")).or_default().insert(page.key.clone());
        }
        assert_eq!(found.into_values().collect::<Partition>(), partition);
        let [gone, rejected] = &rows[pages.len()..] else { panic!("two more") };
        assert_eq!((&gone["kind"], &gone["cluster"], &gone["keep"]), (&"gone".into(), &Value::Null, &false.into()));
        assert_eq!((&rejected["kind"], &rejected["reason"]), (&"rejected".into(), &"invalid-json".into()));
        assert!(rejected["message"].is_string());
    }
}

/// Lost if this fails: the table says another resemblance than the list of `dedup`.
#[test]
fn what_goes_is_what_dedup_lists() {
    let world = World::new();
    let list = world.path("removed.jsonl");
    let mut dedup = world.command_without_store("dedup --json --memory 4 --threshold 0.7");
    succeeded(
        &dedup.args(sweeps()).arg("--out").arg(world.path("out")).arg("--removed").arg(&list).output().expect("starts"),
    );
    let listed = rows(&list);
    let table = world.cluster(&sweeps(), "table.jsonl", &["--threshold", "0.7"]);
    let going: Vec<&Value> = table.iter().filter(|row| row["keep"] == false).collect();
    assert_eq!(going.len(), listed.len());
    for (row, listed) in going.iter().zip(&listed) {
        for column in ["source", "record", "url", "kind", "resemblance"] {
            assert_eq!(row[column], listed[column], "{column}");
        }
    }
    let csv = fs::read_to_string(world.path("table.jsonl")).expect("a table");
    assert_eq!(csv.lines().count(), 646);
    succeeded(&world.cluster_command(&sweeps(), "t.csv", &["--columns", "cluster,keep"]).output().expect("starts"));
    assert!(fs::read_to_string(world.path("t.csv")).expect("a table").starts_with("cluster,keep\n1,"));
}

/// Lost if this fails: hours of work, whenever a machine restarts.
#[test]
fn a_stopped_run_goes_on() {
    let world = World::new();
    let expected = world.cluster(&sweeps(), "expected.jsonl", &[]);
    let (mut n_stopped, mut delay) = (0, Duration::from_millis(5));
    loop {
        let mut process = world.cluster_command(&sweeps(), "table.jsonl", &[]).spawn().expect("starts");
        std::thread::sleep(delay);
        delay = delay * 3 / 2;
        terminate(&process);
        match ended(&mut process).code() {
            Some(0) => break,
            // Before it watched for signals, or after.
            None | Some(130) => n_stopped += 1,
            other => panic!("ended with {other:?}"),
        }
    }
    assert!(n_stopped > 0, "it was never stopped");
    assert_eq!(rows(&world.path("table.jsonl")), expected);
}

#[test]
fn a_wrong_command_leaves_nothing_behind() {
    let world = World::new();
    let missing = world.path("missing.jsonl");
    for (inputs, arguments, why) in [
        (vec![missing], &[][..], "missing.jsonl"),
        (vec!["-".into()], &[], "- is no file but a pipe or a device"),
        (sweeps(), &["--threshold", "0"], "--threshold 0: it must be over 0 and at most 1"),
        (sweeps(), &["--columns", "sorce"], "there is no column sorce; there are source, record, url"),
    ] {
        let output = world.cluster_command(&inputs, "table.csv", arguments).output().expect("starts");
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains(why), "{}", text(&output.stderr));
        assert!(!world.path("table.csv").exists() && !world.path("table.csv.cluster").exists());
    }
    let mut command = world.command_without_store("cluster --out -");
    let output = command.current_dir(world.path("")).args(sweeps()).output().expect("starts");
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(!world.path("-").exists() && !world.path("-.cluster").exists());
    let output = world.cluster_command(&[world.write("none.jsonl", "no page\n")], "none.csv", &[]).output();
    let output = output.expect("starts");
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("all 1 were rejected; "), "{}", text(&output.stderr));
    assert!(fs::read_to_string(world.path("none.csv")).expect("a table").contains("invalid-json"));
}

/// Lost once: the place of the table. A kill while the work folder was removed left half of it, which the same command took for
/// unfinished work and could not read, for ever.
#[test]
fn a_run_that_was_killed_while_it_cleans_up_can_be_repeated() {
    let world = World::new();
    let expected = world.cluster(&sweeps(), "expected.jsonl", &[]);
    let table = world.path("table.jsonl");
    let mut n_killed = 0;
    for n in 0..40 {
        let mut process =
            world.cluster_command(&sweeps(), "table.jsonl", &[]).stdout(Stdio::null()).spawn().expect("starts");
        while !table.exists() {
            assert!(process.try_wait().expect("a status").is_none_or(|status| status.success()));
            std::hint::spin_loop();
        }
        // The folder goes within a millisecond.
        std::thread::sleep(Duration::from_micros(100) * (n % 10));
        process.kill().expect("killed");
        process.wait().expect("ended");
        let left = ["table.jsonl.cluster", "table.jsonl.cluster.removed"].map(|name| world.path(name).exists());
        n_killed += u32::from(left.contains(&true));
        assert_eq!(world.cluster(&sweeps(), "table.jsonl", &[]), expected);
        assert!(!world.path("table.jsonl.cluster.removed").exists(), "what was left is removed");
        fs::remove_file(&table).expect("removed");
        if n_killed == 10 {
            return;
        }
    }
    assert!(n_killed > 0, "no run was killed while it cleaned up");
}

/// Lost if this fails: who runs the program for a summary must do without its bar.
#[test]
fn progress_is_shown_beside_a_summary_where_it_is_asked_for() {
    const N_PAGES: u32 = 800_000;
    const N_TEXTS: u32 = 100_000; // More would need more memory than the command has.
    let world = World::new().with("log.progress_seconds", 1).with("pipeline.sketchers", 1);
    // More than a second of work, whatever the machine.
    let words = |n: u32| (0..12).map(|at| format!("{:x}", n.wrapping_mul(2_654_435_761) ^ at)).collect::<Vec<_>>();
    let line = |n| page(&format!("http://a/{n}"), "2026-01-01T00:00:00Z", "1", &words(n % N_TEXTS).join(" ")) + "\n";
    let pages: String = (0..N_PAGES).map(line).collect();
    let input = world.write("pages.jsonl", pages);
    for (arguments, is_shown) in [(&["--progress"][..], true), (&[], false)] {
        let output = world.cluster_command(std::slice::from_ref(&input), "t.csv", arguments).output().expect("starts");
        succeeded(&output);
        assert_eq!(text(&output.stderr).contains("pages ("), is_shown, "{}", text(&output.stderr));
        let summary: Value = serde_json::from_slice(&output.stdout).expect("a summary");
        assert_eq!(summary["n_pages"], N_PAGES);
    }
}

/// Lost once: on a full disk the message named an input, which was whole, and not the table.
#[test]
fn a_table_that_cannot_be_written_is_named() {
    let world = World::new();
    std::os::unix::fs::symlink("/dev/full", world.path("full.csv")).expect("a link");
    let output = world.cluster_command(&sweeps(), "full.csv", &[]).output().expect("starts");
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("full.csv") && !told.contains("sweep-"), "{told}");
}
