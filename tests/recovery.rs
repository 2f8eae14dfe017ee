//! Killed at any moment and started again, it loses nothing and does nothing twice.

#![expect(clippy::expect_used, reason = "a test that cannot go on fails")]

mod harness;

use harness::{World, check_events, fold, sweeps};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// Kills each run after this many microseconds, one more each time, so that every stage is hit.
const KILL_AFTER_US: u64 = 15_000;
const KILL_STEP_US: u64 = 700;
const KILLS_MAX: usize = 400;

fn counts(inputs: &[PathBuf], counts: &[i64]) -> BTreeMap<String, i64> {
    inputs.iter().map(|path| path.display().to_string()).zip(counts.iter().copied()).collect()
}

/// Runs and kills until a run ends by itself; returns how often it was killed.
fn kill_until_done(world: &World, inputs: &[PathBuf]) -> usize {
    for n_kills in 0..KILLS_MAX {
        let mut process = world.run_command(inputs).spawn().expect("the program starts");
        std::thread::sleep(Duration::from_micros(KILL_AFTER_US + KILL_STEP_US * n_kills as u64));
        if let Some(status) = process.try_wait().expect("a status") {
            assert!(status.success(), "the run failed by itself: {status}");
            return n_kills;
        }
        process.kill().expect("killed");
        process.wait().expect("ended");
    }
    panic!("no run ended by itself");
}

#[test]
fn kill_9_at_any_moment() {
    let unharmed = World::new();
    unharmed.run(&sweeps());
    let mut n_kills = 0;
    // Without memory for the newest postings every batch is followed by a run of them, to be killed in.
    for (batch, delta_mib) in [(1, 1), (16, 0), (128, 0)] {
        let world = World::new().with("pipeline.batch_records_max", batch).with("store.delta_mib", delta_mib);
        n_kills += kill_until_done(&world, &sweeps());
        check_events(&world.events(), &counts(&sweeps(), &[164, 255, 227]));
        assert_eq!(world.partition(), unharmed.partition(), "batches of {batch}");
        assert_eq!(world.events(), unharmed.events(), "the very same events");
        assert_eq!(fold(&world.events()), unharmed.partition());
    }
    println!("killed {n_kills} times");
    assert!(n_kills > 10, "{n_kills} kills are too few to have found anything");
}

/// Lost once: a run that was killed while it made its store left a folder that every later run refused.
#[test]
fn kill_9_while_the_store_is_made() {
    for n_kills in 0..60 {
        let world = World::new();
        let mut process = world.run_command(&sweeps()[..1]).spawn().expect("the program starts");
        std::thread::sleep(Duration::from_micros(500 * n_kills));
        process.kill().expect("killed");
        process.wait().expect("ended");
        world.run(&sweeps()[..1]);
        check_events(&world.events(), &counts(&sweeps()[..1], &[164]));
    }
}

#[test]
fn a_making_that_was_killed_is_made_again_and_a_store_without_its_head_is_refused() {
    let world = World::new();
    fs::create_dir(world.path("store")).expect("a folder");
    for name in ["LOCK", "LOG", "IDENTITY", "MANIFEST-000001", "000001.dbtmp"] {
        world.write(&format!("store/{name}"), "half");
    }
    world.run(&sweeps()[..1]);
    fs::remove_file(world.path("store/CURRENT")).expect("removed");
    let output = world.run_command(&sweeps()).output().expect("starts");
    assert_eq!(output.status.code(), Some(1));
    assert!(harness::text(&output.stderr).contains("holds no store"), "{}", harness::text(&output.stderr));
}

#[test]
fn a_torn_events_file_is_mended() {
    let world = World::new();
    world.run(&sweeps()[..1]);
    let whole = fs::read(world.path("events.jsonl")).expect("events");
    fs::write(world.path("events.jsonl"), &whole[..whole.len() - 7]).expect("torn");
    let torn = world.run_command(&sweeps()).output().expect("starts");
    assert_eq!(torn.status.code(), Some(1), "an event that was out and is no longer in the store cannot be mended");

    // What is still in the store can: as after a crash between the batch and the file.
    let unharmed = World::new();
    unharmed.run(&sweeps());
    let world = World::new();
    fs::write(world.path("events.jsonl"), b"{\"type\":\"assi").expect("torn at the very beginning");
    world.run(&sweeps());
    assert_eq!(world.events(), unharmed.events());
}

#[test]
fn an_events_file_of_another_store_is_refused() {
    let (first, second) = (World::new(), World::new());
    first.run(&sweeps());
    second.run(&sweeps()[..1]);
    fs::copy(first.path("events.jsonl"), second.path("events.jsonl")).expect("copied");
    let output = second.run_command(&sweeps()).output().expect("starts");
    assert_eq!(output.status.code(), Some(1));
    assert!(harness::text(&output.stderr).contains("give a new events file"));
    second.ask("stats", &[]);
}
