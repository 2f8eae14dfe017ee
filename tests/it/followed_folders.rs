//! `run --follow`: files of a folder are taken in as they become whole, each record once.

use crate::harness::process::Process;
use crate::harness::{World, check_events, sample_lines, terminate, text, wait_until};
use lookalike::wire::EventType;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

fn follow(world: &World) -> Command {
    let mut command = world.run_command(&[world.path("crawl")]);
    command.arg("--follow");
    command
}

fn world() -> World {
    let world = World::new().with("input.follow_ms", 30).with("log.level", "info");
    fs::create_dir(world.path("crawl")).expect("made");
    world
}

/// Lost if this fails: records of files that a crawler finished while the program was killed, or some of them twice.
#[test]
fn every_record_of_a_filling_folder_is_taken_in_once() {
    const PER_FILE: usize = 15;
    let world = world();
    let lines = sample_lines();
    let mut process = Process::start(follow(&world));
    let (mut n_records, mut n_in_all) = (BTreeMap::new(), 0);
    for (number, lines) in lines.chunks_exact(PER_FILE).take(9).enumerate() {
        let path = world.path(&format!("crawl/{number}.jsonl"));
        let (first, rest) = lines.split_at(PER_FILE / 2);
        let bytes = |lines: &[String]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        if number % 3 == 1 {
            // A crawler that writes in place, and pauses for longer than a file may.
            let mut file = fs::File::create(&path).expect("made");
            file.write_all(bytes(first).as_bytes()).expect("written");
            wait_until("the first half", || world.n_events() >= n_in_all + first.len());
            file.write_all(bytes(rest).as_bytes()).expect("written");
        } else {
            // Nothing of a file with such a name may be read: it ends within a record.
            let unfinished = path.with_extension("jsonl.open");
            fs::write(&unfinished, &bytes(lines)[..99]).expect("written");
            std::thread::sleep(std::time::Duration::from_millis(100));
            fs::write(&unfinished, bytes(lines)).expect("written");
            fs::rename(&unfinished, &path).expect("renamed");
        }
        n_in_all += PER_FILE;
        n_records.insert(path.canonicalize().expect("there").display().to_string(), PER_FILE as i64);
        if number % 4 == 2 {
            std::thread::sleep(std::time::Duration::from_millis(20 * number as u64));
            process.kill();
            process = Process::start(follow(&world));
        } else {
            wait_until("the file's events", || world.n_events() >= n_in_all);
            process.check_alive();
        }
    }
    wait_until("all events", || world.n_events() >= n_in_all);
    process.stop();
    check_events(&world.events(), &n_records);
    let whole = World::new();
    whole.run(&[world.path("crawl")]);
    assert!(world.partition() == whole.partition());
}

/// Lost once: all later rows of a table that was cut within the last cell of a row when it was read. The cut row was taken for whole,
/// and the file for another one when it had grown.
#[test]
fn a_row_without_its_end_waits_for_it() {
    let world = world();
    let rows =
        |from: u32, to: u32| (from..to).map(|n| format!("http://a/{n},2026-01-01T00:00:00Z,text {n} of a\n")).collect();
    let head: String = rows(0, 2);
    let rest: String = rows(2, 5);
    let whole = format!("url,fetched_at,text\n{head}{rest}");
    let path = world.path("crawl/rows.csv");
    for n_bytes in [whole.len() - rest.len() + 3, whole.len() - 9, whole.len() - 1] {
        fs::write(&path, &whole[..n_bytes]).expect("written");
        let process = Process::start(follow(&world));
        let n_rows = whole[..n_bytes].lines().count() - 2;
        wait_until("whole rows", || world.n_events() >= n_rows);
        // Long enough to be looked at some more.
        std::thread::sleep(std::time::Duration::from_millis(200));
        process.stop();
        assert_eq!(world.n_events(), n_rows);
    }
    // What has ended in good order is whole.
    fs::write(&path, &whole).expect("written");
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(whole.replace("http://a/", "http://b/").trim_end().as_bytes()).expect("packed");
    fs::write(world.path("crawl/more.csv.gz"), encoder.finish().expect("packed")).expect("written");
    let process = Process::start(follow(&world));
    wait_until("all rows", || world.n_events() >= 10);
    process.stop();
    assert!(world.events().iter().all(|event| event.kind() == EventType::Assigned));
}

/// Lost if this fails: the hours in which a restarted process reads a year of archives again.
#[test]
fn a_file_that_was_taken_in_is_not_opened_again() {
    let world = world();
    let lines = sample_lines();
    let add = |number: usize| fs::write(world.path(&format!("crawl/{number}.jsonl")), &lines[number]).expect("written");
    (0..3).for_each(add);
    // The second start may read the last file again, whose note came too late; it notes it then.
    for number in 3..6 {
        let mut process = follow(&world).stderr(Stdio::piped()).spawn().expect("starts");
        wait_until("what is there", || world.n_events() >= number);
        add(number);
        wait_until("the new file", || world.n_events() > number);
        terminate(&process);
        assert!(process.wait().expect("ended").success());
        let said = text(&process.wait_with_output().expect("output").stderr);
        let n_read = said.matches("reading ").count();
        let allowed = if number == 3 { 4..=4 } else { 1..=2 };
        assert!(allowed.contains(&n_read) && said.contains(&format!("crawl/{number}.jsonl")), "{said}");
    }
    // A file that changed is read, and what was not there before is told.
    fs::write(world.path("crawl/0.jsonl"), &lines[9]).expect("written");
    let mut process = follow(&world).stderr(Stdio::piped()).spawn().expect("starts");
    fs::write(world.path("crawl/9.jsonl"), &lines[8]).expect("written");
    wait_until("the new file", || world.n_events() > 6);
    terminate(&process);
    assert!(process.wait().expect("ended").success());
    let said = text(&process.wait_with_output().expect("output").stderr);
    assert!(said.contains("its first 1 records differ"), "{said}");
    world.ask("verify", &[]);
}

#[test]
fn what_cannot_be_followed() {
    let world = world();
    for (path, message) in [("-", "standard input"), ("missing/", "no such file")] {
        let output = world.command("run --follow").arg(path).output().expect("the program starts");
        assert!(output.status.code() == Some(2) && text(&output.stderr).contains(message), "{output:?}");
    }
    assert!(!world.path("store").exists());
}

/// Lost once: a clean run over a folder. The store that lay in it was read as pages, each file rejected at every run.
#[test]
fn a_store_in_the_folder_that_is_read_holds_no_pages() {
    let world = World::new();
    fs::create_dir(world.path("crawl")).expect("made");
    world.write("crawl/pages.jsonl", sample_lines()[..20].join("\n") + "\n");
    let store = world.path("crawl/own.store");
    for _ in 0..2 {
        let output = world.command_on("run", &store).arg(world.path("crawl")).output().expect("starts");
        assert!(output.status.success(), "{}", text(&output.stderr));
        let stats = world.command_on("stats --json", &store).output().expect("starts");
        let stats: serde_json::Value = serde_json::from_slice(&stats.stdout).expect("JSON");
        assert_eq!((&stats["n_events"], &stats["n_sightings"]), (&20.into(), &20.into()));
    }
}
