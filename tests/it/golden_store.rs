//! A store that the first program of this format wrote opens, is sound, gives the same answers, and continues.
//!
//! `tests/golden/make-store.sh` creates it, again and again until the first release. A new format then gets a
//! golden store of its own, and this one stays as long as its format can be read.

use crate::harness::{World, root, text};
use std::fs;
use std::process::{Command, Stdio};

/// A world under the rule of the golden store, from before confirmations and the limit of comparisons.
fn as_made() -> World {
    World::new()
        .with("sketch.index_modulus", 25)
        .with("sketch.confirmation", false)
        .with("cluster.common_limit", 5)
        .with("cluster.comparisons_max", 0)
}

/// Unpacks the golden store of a format in a world of its own.
fn unpacked(format: u32) -> World {
    let world = as_made();
    let archive = root().join(format!("tests/golden/store-{format}.tar.gz"));
    let status = Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(world.path("")).status();
    assert!(status.expect("tar starts").success());
    world
}

fn golden(name: &str) -> String {
    fs::read_to_string(root().join("tests/golden").join(name)).expect(name)
}

/// Runs the pages of the golden store again under the same name.
fn run_again(world: &World) -> serde_json::Value {
    let pages = fs::File::open(root().join("tests/golden/pages.jsonl")).expect("pages");
    let mut command = world.command("run -q --json --stdin-name golden");
    command.arg("--events").arg(world.path("events.jsonl")).arg("-").stdin(Stdio::from(pages));
    let output = command.output().expect("the program starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("a summary")
}

#[test]
fn a_store_of_format_2_is_read() {
    let world = unpacked(2);
    let verified = world.command("verify --json").output().expect("starts");
    assert!(verified.status.success(), "{}", text(&verified.stdout));
    let report: serde_json::Value = serde_json::from_slice(&verified.stdout).expect("a report");
    let rows = report["rows"].as_object().expect("rows");
    // A closed store has no unpublished events, and its newest postings may be in runs or pending.
    let empty: Vec<&str> = rows.iter().filter(|(_, n)| **n == 0).map(|(family, _)| family.as_str()).collect();
    assert_eq!(empty, ["outbox"], "every other family has rows");
    assert_eq!(world.ask("export clusters", &[]), golden("store-2.csv"));
    let lost = world.ask("query lost", &["http://a.example/old", "--json"]);
    assert!(lost.contains("http://a.example/new"), "{lost}");
}

#[test]
fn a_store_of_format_2_goes_on() {
    let world = unpacked(2);
    fs::write(world.path("events.jsonl"), golden("events.jsonl")).expect("events");
    // As a program leaves it that keeps no counts.
    change_meta(&world, |db, meta| db.delete_cf(meta, b"counts"));
    let counted = world.ask("stats", &[]);
    assert!(counted.contains("counted just now"), "{counted}");
    assert_eq!(run_again(&world)["n_records"], 0, "it was taken in already");
    let kept = world.ask("stats", &[]);
    let numbers = |stats: &str| stats.lines().take(4).map(String::from).collect::<Vec<_>>();
    assert!(numbers(&kept) == numbers(&counted) && !kept.contains("counted just now"), "{counted}\n{kept}");
    assert!(world.ask("verify", &[]).starts_with("sound"));
    assert_eq!(world.ask("export clusters", &[]), golden("store-2.csv"));
    // A new store gives the same answers, byte for byte.
    let new = as_made();
    run_again(&new);
    assert_eq!(new.ask("export clusters", &[]), golden("store-2.csv"));
    assert_eq!(fs::read_to_string(new.path("events.jsonl")).expect("events"), golden("events.jsonl"));
}

/// What a command says that refuses a store of this format.
fn refusal(format: u32, command: &str) -> String {
    let world = unpacked(2);
    change_meta(&world, |db, meta| db.put_cf(meta, b"format", format.to_be_bytes()));
    let output = world.command(command).output().expect("starts");
    assert_eq!(output.status.code(), Some(1));
    text(&output.stderr)
}

/// A store of an unknown format is refused with advice.
#[test]
fn a_store_of_a_later_format_is_refused() {
    let told = refusal(3, "stats");
    assert!(told.contains("has format 3") && told.contains("use a newer program"), "{told}");
}

/// A store of the format before has its postings elsewhere. Without a refusal it would seem to have none, and every page would be new.
#[test]
fn a_store_of_an_earlier_format_is_refused() {
    let told = refusal(1, "run --json");
    assert!(told.contains("has format 1") && told.contains("make a new store from the pages"), "{told}");
}

/// Changes the rows that the store keeps about itself.
fn change_meta(world: &World, change: impl FnOnce(&rocksdb::DB, &rocksdb::ColumnFamily) -> Result<(), rocksdb::Error>) {
    let path = world.path("store");
    let options = rocksdb::Options::default();
    let families = rocksdb::DB::list_cf(&options, &path).expect("families");
    let db = rocksdb::DB::open_cf(&options, &path, families).expect("opens");
    change(&db, db.cf_handle("meta").expect("a family")).expect("written");
}
