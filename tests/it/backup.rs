//! A backup is the store at one moment, whatever is written meanwhile, and a restored store goes on from there.

use crate::harness::process::LONG;
use crate::harness::{World, ended, sample_lines, sweeps, text};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").file_name());
    let mut names: Vec<String> = names.map(|name| text(name.as_encoded_bytes())).collect();
    names.sort();
    names
}

fn lines() -> Vec<Vec<u8>> {
    sample_lines().into_iter().map(|line| (line + "\n").into_bytes()).collect()
}

/// Backups that are taken while pages stream in are each the store after some first pages, and a run over all pages goes on
/// from each to the store of a run that nobody disturbed.
#[test]
fn a_backup_of_a_store_in_use_goes_on() {
    let pages = lines().concat();
    // Small buffers, so that tables and logs change all the time.
    let world =
        || World::new().with("store.write_buffer_mib", 1).with("store.posting_buffer_mib", 1).with("store.wal_mib", 1);
    let whole = world();
    let input = whole.write("pages.jsonl", &pages);
    whole.run_unheard_command(std::slice::from_ref(&input)).status().expect("runs");

    let live = world();
    let name = input.canonicalize().expect("a path").display().to_string();
    let mut run =
        live.command("run -q").arg("--stdin-name").arg(&name).arg("-").stdin(Stdio::piped()).spawn().expect("starts");
    let mut pipe = run.stdin.take().expect("a pipe");
    let mut backups: Vec<PathBuf> = Vec::new();
    for some in lines().chunks(25) {
        pipe.write_all(&some.concat()).expect("written");
        let to = live.path(&format!("backups/{}", backups.len()));
        let until = Instant::now() + LONG;
        loop {
            std::thread::sleep(Duration::from_millis(20));
            let output = live.command("backup -q").arg(&to).output().expect("starts");
            if output.status.success() {
                break;
            }
            // The store is not made yet.
            assert!(backups.is_empty() && !to.exists() && Instant::now() < until, "{}", text(&output.stderr));
        }
        backups.push(to);
    }
    drop(pipe);
    assert!(ended(&mut run).success());
    assert!(backups.len() > 5, "{} backups are too few to find anything", backups.len());
    assert!(names(live.path("").as_path()).iter().all(|name| !name.ends_with(".part")), "nothing is left behind");

    let expected = whole.ask("export clusters", &[]);
    let mut sizes = Vec::new();
    for backup in &backups {
        let ask = |question: &str| {
            let output = live.command_on(question, backup).output().expect("starts");
            assert!(output.status.success(), "{question}: {}", text(&output.stderr));
            text(&output.stdout)
        };
        ask("verify");
        let stats: serde_json::Value = serde_json::from_str(&ask("stats --json")).expect("JSON");
        sizes.push(stats["n_sightings"].as_u64().expect("a number"));
    }
    println!("{} backups, of {sizes:?} pages", backups.len());
    assert!(sizes.is_sorted() && sizes.last() > sizes.first(), "{sizes:?}");
    for backup in backups.iter().step_by(backups.len().div_ceil(6)) {
        // What it says it has read is what it has read.
        let positions = text(&live.command_on("export positions --json", backup).output().expect("starts").stdout);
        let rows: Vec<serde_json::Value> =
            positions.lines().map(|row| serde_json::from_str(row).expect("a row")).collect();
        // None is there before the first batch.
        assert!(rows.len() <= 1, "{positions}");
        let n_read = rows.first().map_or(0, |position| {
            assert_eq!((&position["source"], &position["partition"]), (&name.as_str().into(), &0.into()));
            position["next_offset"].as_u64().expect("a number") as usize
        });
        let prefix = world();
        let first = prefix.write("pages.jsonl", lines()[..n_read].concat());
        prefix.run_unheard_command(&[first]).status().expect("runs");
        let of_backup = text(&live.command_on("export clusters", backup).output().expect("starts").stdout);
        assert_eq!(prefix.ask("export clusters", &[]), of_backup, "{n_read} records");
        let status = live.command_on("run -q", backup).arg(&input).status().expect("starts");
        assert!(status.success());
        assert_eq!(text(&live.command_on("export clusters", backup).output().expect("starts").stdout), expected);
    }
    // The store itself has not felt anything.
    assert_eq!(live.ask("export clusters", &[]), expected);
    live.ask("verify", &[]);
}

fn failed(output: Output, code: i32, why: &str) {
    assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains(why), "{} does not say {why}", text(&output.stderr));
}

#[test]
fn a_backup_is_restored_once_it_is_checked() {
    let world = World::new();
    let to = world.path("backup");
    failed(world.command("backup").arg(&to).output().expect("starts"), 2, "no store");
    assert!(world.command("backfill -q").args(sweeps()).status().expect("starts").success());
    let clusters = world.ask("export clusters", &[]);
    let json = world.ask("backup --json", &[&to.display().to_string()]);
    let made: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert!(
        made["n_bytes_shared"].as_u64() > Some(0) && made["n_bytes_shared"].as_u64() < made["n_bytes"].as_u64(),
        "{made}"
    );
    failed(world.command("backup").arg(&to).output().expect("starts"), 2, "is there already");
    failed(world.command("restore").arg(&to).output().expect("starts"), 2, "is there already");

    fs::remove_dir_all(world.path("store")).expect("removed");
    // Restored once: whatever else lay in the folder.
    let others = ["notes.txt", "kept.log", "table.sst", "MANIFEST-old"];
    others.iter().for_each(|name| fs::write(to.join(name), "no part of the backup").expect("written"));
    world.ask("restore -q", &[&to.display().to_string()]);
    let restored = names(&world.path("store"));
    assert!(others.iter().all(|other| !restored.iter().any(|name| name == other)), "{restored:?}");
    assert_eq!(world.ask("export clusters", &[]), clusters);
    world.run(&sweeps());
    assert_eq!(world.ask("export clusters", &[]), clusters, "it goes on where the backup ended");

    // A damaged backup does not become a store.
    fs::remove_dir_all(world.path("store")).expect("removed");
    let tables = names(&to).into_iter().filter(|name| name.ends_with(".sst"));
    let table = tables.map(|name| to.join(name)).max_by_key(|table| table.metadata().expect("a file").len());
    let table = table.expect("a table");
    let mut bytes = fs::read(&table).expect("bytes");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x55;
    fs::remove_file(&table).expect("removed");
    fs::write(&table, bytes).expect("written");
    let output = world.command("restore").arg(&to).output().expect("starts");
    assert!(matches!(output.status.code(), Some(1 | 5)), "{}", text(&output.stderr));
    assert!(!world.path("store").exists(), "nothing was restored");
}

/// Lost if this fails: a backup or a restored store that looks whole and is not, because the machine stopped while it was
/// copied.
#[test]
fn a_killed_copy_is_whole_or_not_there() {
    let world = World::new();
    world.run_unheard_command(&sweeps()).status().expect("runs");
    let clusters = world.ask("export clusters", &[]);
    let (backup, restored) = (world.path("backup"), world.path("restored"));
    for (command, store, to) in [("backup -q", "store", &backup), ("restore -q", "restored", &restored)] {
        let store = world.path(store);
        let (mut n_kills, mut delay) = (0, Duration::from_millis(1));
        loop {
            let mut process = world.command_on(command, &store).arg(&backup).spawn().expect("starts");
            std::thread::sleep(delay);
            let has_ended = process.try_wait().expect("a status").is_some();
            let _ = process.kill();
            process.wait().expect("ended");
            if to.exists() {
                let asked = world.command_on("verify", to).output().expect("starts");
                assert!(asked.status.success(), "{command}: {}", text(&asked.stderr));
                let asked = world.command_on("export clusters", to).output().expect("starts");
                assert_eq!(text(&asked.stdout), clusters, "{command}");
                if has_ended {
                    break;
                }
                fs::remove_dir_all(to).expect("removed");
            } else {
                assert!(!has_ended, "{command} ended without its copy");
            }
            n_kills += 1;
            delay += delay / 4;
            assert!(n_kills < 100, "{command} never ended by itself");
        }
        assert!(n_kills > 3, "{command}: {n_kills} kills are too few");
    }
    assert!(names(&world.path("")).iter().all(|name| !name.ends_with(".part")), "nothing is left behind");
    world.ask("verify", &[]);
}
