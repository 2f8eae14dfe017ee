//! Recovery: killed at any moment and restarted, the program loses nothing and repeats nothing.

use crate::harness::disk::SmallDisk;
use crate::harness::failing::{Disturbance, Failure, flow};
use crate::harness::{Partition, World, check_events, ended, fold, page, sweeps, terminate, text, wait_until};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::{Duration, Instant};

/// The time before each kill, in microseconds. It grows from run to run, so that kills hit every stage. The step
/// grows too, so that the test also ends on a busy machine.
const KILL_AFTER_US: u64 = 15_000;
const KILL_STEP_US: u64 = 700;
const KILL_STEP_GROWTH_US: u64 = 5;
const KILLS_MAX: usize = 400;

fn counts(inputs: &[PathBuf], counts: &[i64]) -> BTreeMap<String, i64> {
    inputs.iter().map(|path| path.display().to_string()).zip(counts.iter().copied()).collect()
}

/// Runs and kills the program until a run ends by itself, and returns the number of kills.
pub(crate) fn kill_until_done(world: &World, inputs: &[PathBuf]) -> usize {
    for n_kills in 0..KILLS_MAX {
        let mut process = world.run_command(inputs).spawn().expect("the program starts");
        let n = n_kills as u64;
        std::thread::sleep(Duration::from_micros(KILL_AFTER_US + (KILL_STEP_US + KILL_STEP_GROWTH_US * n) * n));
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
    // Without a posting buffer, a run of postings follows every batch, and a kill may hit it.
    for (batch, posting_buffer_mib) in [(1, 1), (16, 0), (128, 0)] {
        let world =
            World::new().with("pipeline.batch_records_max", batch).with("store.posting_buffer_mib", posting_buffer_mib);
        n_kills += kill_until_done(&world, &sweeps());
        check_events(&world.events(), &counts(&sweeps(), &[164, 255, 227]));
        assert_eq!(world.partition(), unharmed.partition(), "batches of {batch}");
        assert_eq!(world.events(), unharmed.events(), "the very same events");
        assert_eq!(fold(&world.events()), unharmed.partition());
        verified(&world, "killed at any moment");
    }
    println!("killed {n_kills} times");
    assert!(n_kills > 10, "{n_kills} kills are too few to have found anything");
}

/// Lost once: a kill during the creation of a store left a folder that every later run refused.
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
fn an_interrupted_creation_is_completed_and_a_store_without_its_current_file_is_refused() {
    let world = World::new();
    fs::create_dir(world.path("store")).expect("a folder");
    for name in ["LOCK", "LOG", "IDENTITY", "MANIFEST-000001", "000001.dbtmp"] {
        world.write(&format!("store/{name}"), "half");
    }
    world.run(&sweeps()[..1]);
    fs::remove_file(world.path("store/CURRENT")).expect("removed");
    let output = world.run_command(&sweeps()).output().expect("starts");
    assert_eq!(output.status.code(), Some(1));
    assert!(
        crate::harness::text(&output.stderr).contains("holds no store"),
        "{}",
        crate::harness::text(&output.stderr)
    );
}

#[test]
fn a_torn_events_file_is_repaired() {
    let world = World::new();
    world.run(&sweeps()[..1]);
    let whole = fs::read(world.path("events.jsonl")).expect("events");
    fs::write(world.path("events.jsonl"), &whole[..whole.len() - 7]).expect("torn");
    let torn = world.run_command(&sweeps()).output().expect("starts");
    assert_eq!(torn.status.code(), Some(1), "a published event that the store has dropped cannot be repaired");

    // An event still in the store can be repaired, as after a crash between the batch and the file.
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
    assert!(crate::harness::text(&output.stderr).contains("give a new events file"));
    second.ask("stats", &[]);
}

/// SplitMix64, so that failures are reproducible.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ (x >> 31)) % n.max(1)
    }
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |value| value.parse().expect(variable))
}

fn verified(world: &World, when: &str) {
    let output = world.command("verify").output().expect("starts");
    assert!(output.status.success(), "{when}: {}", text(&output.stdout));
}

/// The results of an undisturbed run.
struct Unharmed {
    events: Vec<u8>,
    partition: Partition,
    takes: Duration,
}

impl Unharmed {
    fn of(world: &World, inputs: &[PathBuf]) -> Self {
        let begin = Instant::now();
        world.run(inputs);
        let takes = begin.elapsed();
        Unharmed { events: fs::read(world.path("events.jsonl")).expect("events"), partition: world.partition(), takes }
    }

    fn check(&self, world: &World, when: &str) {
        let events = fs::read(world.path("events.jsonl")).expect("events");
        assert!(events == self.events, "{when}: the events differ: {}", first_difference(&self.events, &events));
        assert_eq!(world.partition(), self.partition, "{when}");
        verified(world, when);
    }
}

/// The first line that two files do not have in common.
fn first_difference(wanted: &[u8], found: &[u8]) -> String {
    let lines = |bytes: &[u8]| bytes.split(|byte| *byte == b'\n').map(text).collect::<Vec<_>>();
    let (wanted, found) = (lines(wanted), lines(found));
    let at = wanted.iter().zip(&found).take_while(|(a, b)| a == b).count();
    let line = |lines: &[String]| lines.get(at).cloned().unwrap_or_else(|| "nothing".into());
    format!("line {} is\n{}\nand not\n{}", at + 1, line(&found), line(&wanted))
}

/// Kills runs at random moments, in one store after another, until there are enough kills. Each recovered store must
/// be sound, and each run that ends by itself must give the results of an undisturbed one. Half of the kills come
/// early, while the run opens the store and catches up; the others come anywhere in its first quarter. With `heard`
/// the run writes events.
fn kill_at_random(inputs: &[PathBuf], heard: bool, world: impl Fn() -> World) {
    let (n_wanted, seed) = (number("LOOKALIKE_TEST_KILLS", 12), number("LOOKALIKE_TEST_SEED", 1));
    let unharmed = Unharmed::of(&world(), inputs);
    let takes = unharmed.takes.as_micros() as u64;
    let reaches = [(2 * takes / n_wanted).max(60_000), (takes / 4).max(60_000)];
    let mut random = Random(seed);
    let (mut n_kills, mut n_stores) = (0, 0);
    while n_kills < n_wanted {
        let world = world();
        n_stores += 1;
        loop {
            let mut command = if heard { world.run_command(inputs) } else { world.run_unheard_command(inputs) };
            let mut process = command.spawn().expect("the program starts");
            let reach = reaches[random.below(2) as usize];
            std::thread::sleep(Duration::from_micros(random.below(reach)));
            if n_kills >= n_wanted {
                assert!(process.wait().expect("a status").success());
                break;
            }
            if let Some(status) = process.try_wait().expect("a status") {
                assert!(status.success(), "the run failed by itself: {status}");
                break;
            }
            process.kill().expect("killed");
            process.wait().expect("ended");
            n_kills += 1;
            if random.below(4) == 0 && world.path("store/CURRENT").exists() {
                let output = world.command("verify").output().expect("starts");
                let printed = text(&output.stdout) + &text(&output.stderr);
                // Once reported as a failure of RocksDB, which creates the column families one after the other.
                let is_unmade = printed.contains("holds no store") || printed.contains("was interrupted");
                assert!(output.status.success() || is_unmade, "seed {seed}, kill {n_kills}: {printed}");
            }
        }
        let when = format!("seed {seed}, store {n_stores}");
        if heard {
            unharmed.check(&world, &when);
        } else {
            assert_eq!(world.partition(), unharmed.partition, "{when}");
            verified(&world, &when);
        }
    }
    println!("{n_kills} kills in {n_stores} stores, an undisturbed run takes {:?}", unharmed.takes);
}

/// Generated pages for the kill tests, and the world that holds their file.
fn pages_to_kill_over(n_pages: u64) -> (World, PathBuf) {
    let folder = World::new();
    let input = folder.path("pages.jsonl");
    let file = fs::File::create(&input).expect("a file");
    let n_pages = number("LOOKALIKE_TEST_PAGES", n_pages);
    let profile = std::env::var("LOOKALIKE_TEST_PROFILE").unwrap_or_else(|_| "small".into());
    crate::generate::pages(&format!("--profile {profile} --pages {n_pages} --sweeps 3"), std::io::BufWriter::new(file))
        .expect("pages");
    (folder, std::env::var("LOOKALIKE_TEST_INPUT").map_or(input, PathBuf::from))
}

/// A world with a posting buffer so small that runs are written all the time.
fn world_to_kill_in() -> World {
    World::new().with("store.posting_buffer_mib", 1).with("pipeline.batch_records_max", 200)
}

/// `LOOKALIKE_TEST_KILLS=200 LOOKALIKE_TEST_PAGES=1000000 LOOKALIKE_TEST_PROFILE=tiny` is the long run;
/// `LOOKALIKE_TEST_INPUT=FILE` takes pages of your own.
#[test]
fn kill_9_at_random_over_generated_pages() {
    let (_folder, input) = pages_to_kill_over(6000);
    kill_at_random(&[input], true, world_to_kill_in);
}

/// Lost once: all but the first pages of a run without an output, because no recovery test had run without one.
#[test]
fn kill_9_at_random_where_nobody_listens() {
    let (_folder, input) = pages_to_kill_over(3000);
    // What pages say about others is kept, too, and checked.
    kill_at_random(&[input], false, || world_to_kill_in().with("related.on", true));
}

/// Pages of two sweeps, in groups of six. On the second sweep the first page is unchanged, the second has changed,
/// the third has moved, and the fourth is gone. It does not see the last two, although one of them has moved: closing
/// the sweep finds both lost, also the one that a third sweep has seen by then.
fn pages_that_come_and_go(n_pages: usize) -> String {
    let words = |n: usize, last: &str| (0..29).map(|word| format!("w{n}x{word} ")).collect::<String>() + last;
    let at = |url: String, day: usize, text: &str| {
        page(&url, &format!("2026-11-0{day}T00:00:00Z"), &day.to_string(), text) + "\n"
    };
    let gone = |n: usize| {
        let gone = serde_json::json!({"url": format!("http://a/{n}"), "fetched_at": "2026-11-02T00:00:00Z", "sweep": "2", "body": null});
        gone.to_string() + "\n"
    };
    let first = (0..n_pages).map(|n| at(format!("http://a/{n}"), 1, &words(n, "old")));
    let second = (0..n_pages).map(|n| match n % 6 {
        0 => at(format!("http://a/{n}"), 2, &words(n, "old")),
        1 => at(format!("http://a/{n}"), 2, &words(n, "new")),
        2 => at(format!("http://a/new/{n}"), 2, &words(n, "old")) + &gone(n),
        3 => gone(n),
        4 => at(format!("http://a/new/{n}"), 2, &words(n, "new")),
        _ => String::new(),
    });
    let third = (0..n_pages).filter(|n| n % 6 == 5).map(|n| at(format!("http://a/{n}"), 3, &words(n, "old")));
    first.chain(second).chain(third).collect()
}

fn close_command(world: &World) -> Command {
    let mut command = world.command("sweep close 2");
    command.arg("--events").arg(world.path("events.jsonl")).stdout(Stdio::null());
    command
}

/// The number of events of each kind.
fn kinds(world: &World) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for event in world.events() {
        *kinds.entry(format!("{:?}", event.kind())).or_default() += 1;
    }
    kinds
}

/// Published twice once: `sweep_closed`, when a kill hit the end of closing and the sweep was closed again.
#[test]
fn kill_9_while_pages_go_and_a_sweep_is_closed() {
    const N_PAGES: usize = 9000;
    let folder = World::new();
    let inputs = [folder.write("pages.jsonl", pages_that_come_and_go(N_PAGES))];
    let steps: [&dyn Fn(&World) -> Command; 2] = [&|world| world.run_command(&inputs), &close_command];
    let world = world_to_kill_in();
    let takes = steps.map(|step| {
        let begin = Instant::now();
        assert!(step(&world).status().expect("the program starts").success());
        begin.elapsed()
    });
    let sixth = N_PAGES / 6;
    let expected = [
        ("Assigned", N_PAGES + 5 * sixth),
        ("Changed", sixth),
        ("Gone", 2 * sixth),
        ("Lost", 2 * sixth),
        ("Merged", 0),
        ("Moved", 2 * sixth),
        ("SweepClosed", 1),
    ];
    let expected = expected.into_iter().filter(|(_, n)| *n > 0).map(|(kind, n)| (kind.to_string(), n));
    assert_eq!(kinds(&world), expected.collect());
    let unharmed = Unharmed {
        events: fs::read(world.path("events.jsonl")).expect("events"),
        partition: world.partition(),
        takes: takes[0],
    };
    let (n_wanted, seed) = (number("LOOKALIKE_TEST_KILLS", 12), number("LOOKALIKE_TEST_SEED", 1));
    let (mut random, mut n_kills) = (Random(seed), 0);
    while n_kills < n_wanted {
        let world = world_to_kill_in();
        for (step, takes) in steps.iter().zip(takes) {
            for _ in 0..1 + random.below(4) {
                let mut process = step(&world).spawn().expect("the program starts");
                std::thread::sleep(Duration::from_micros(random.below(takes.as_micros() as u64)));
                process.kill().expect("killed");
                n_kills += u64::from(!process.wait().expect("ended").success());
            }
            assert!(step(&world).status().expect("the program starts").success(), "seed {seed}, kill {n_kills}");
        }
        // Closing again publishes nothing.
        assert!(close_command(&world).status().expect("the program starts").success());
        unharmed.check(&world, &format!("seed {seed}, kill {n_kills}"));
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_file() {
            fs::copy(&path, to.join(path.file_name().expect("a name"))).expect("copied");
        }
    }
}

/// The newest write-ahead log of a store, if there is one.
fn newest_log(store: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(store).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    files.filter(|path| path.extension().is_some_and(|end| end == "log")).max()
}

/// A copy of a store and its events after a kill in the middle of a run, and the newest log of that copy.
fn killed_copy(new: impl Fn() -> World, takes: Duration, random: &mut Random) -> (World, PathBuf) {
    let killed = new();
    let mut process = killed.run_command(&sweeps()).spawn().expect("the program starts");
    // On a busy machine, starting may take longer than the whole undisturbed run.
    while newest_log(&killed.path("store")).is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(takes / 8 + Duration::from_micros(random.below(takes.as_micros() as u64 / 2)));
    process.kill().expect("killed");
    process.wait().expect("ended");
    let copy = new();
    copy_folder(&killed.path("store"), &copy.path("store"));
    if killed.path("events.jsonl").exists() {
        fs::copy(killed.path("events.jsonl"), copy.path("events.jsonl")).expect("copied");
    }
    let log = newest_log(&copy.path("store")).expect("a log");
    (copy, log)
}

/// A power loss may cut the log anywhere. The store then reflects a prefix of the input. If that is less than what
/// was published, which takes a disk that lies about syncs, the program refuses to continue with that output.
#[test]
fn a_log_cut_anywhere_leaves_a_prefix() {
    let new = || World::new().with("pipeline.batch_records_max", 16);
    let unharmed = Unharmed::of(&new(), &sweeps());
    let mut random = Random(number("LOOKALIKE_TEST_SEED", 1));
    let (mut n_whole, mut n_refused) = (0, 0);
    for at in 0..number("LOOKALIKE_TEST_CUTS", 12) {
        let (cut, log) = killed_copy(new, unharmed.takes, &mut random);
        let length = fs::metadata(&log).expect("a log").len();
        // Every other cut is near the end, where a torn write ends.
        let kept = if at % 2 == 0 { random.below(length + 1) } else { length - random.below(length.min(2000) + 1) };
        fs::File::options().write(true).open(&log).expect("opened").set_len(kept).expect("cut");
        let output = cut.run_command(&sweeps()).output().expect("starts");
        if output.status.success() {
            n_whole += 1;
            unharmed.check(&cut, &format!("{kept} of {length} bytes kept"));
        } else {
            n_refused += 1;
            let stderr = text(&output.stderr);
            assert!(stderr.contains("the output holds event"), "{kept} of {length} bytes kept: {stderr}");
            fs::remove_file(cut.path("events.jsonl")).expect("removed");
            cut.run(&sweeps());
            assert_eq!(cut.partition(), unharmed.partition, "{kept} of {length} bytes kept");
            verified(&cut, "with new events");
        }
    }
    println!("{n_whole} stores went on with their events, {n_refused} were older than them");
}

/// After a flipped bit in the log, the program must report damage or lose nothing. Lost once: half of the rows,
/// silently, with RocksDB's default recovery.
#[test]
fn a_flipped_bit_in_the_log_is_reported() {
    let new = || World::new().with("pipeline.batch_records_max", 16);
    let unharmed = Unharmed::of(&new(), &sweeps());
    let mut random = Random(number("LOOKALIKE_TEST_SEED", 1));
    let mut n_reported = 0;
    for _ in 0..number("LOOKALIKE_TEST_FLIPS", 16) {
        let (world, log) = killed_copy(new, unharmed.takes, &mut random);
        let mut bytes = fs::read(&log).expect("a log");
        let at = random.below(bytes.len() as u64) as usize;
        let Some(byte) = bytes.get_mut(at) else { continue };
        *byte ^= 1 << random.below(8);
        let of = bytes.len();
        fs::write(&log, bytes).expect("written");
        let output = world.run_command(&sweeps()).output().expect("starts");
        let stderr = text(&output.stderr);
        if output.status.success() {
            unharmed.check(&world, &format!("a bit of byte {at} of {of}"));
        } else {
            n_reported += 1;
            let is_named = stderr.contains("damaged") || stderr.contains("the output holds event");
            assert!(is_named && output.status.code() == Some(1), "a bit of byte {at} of {of}: {stderr}");
        }
    }
    println!("{n_reported} stores were refused");
    assert!(n_reported > 0, "no flipped bit had an effect");
}

/// A store of many tables, with its events. Each start leaves a few tables, and without a posting buffer each batch
/// does.
fn world_of_tables() -> World {
    let world = World::new().with("store.posting_buffer_mib", 0);
    for n in 1..=sweeps().len() {
        world.run(&sweeps()[..n]);
    }
    world
}

/// The live tables of a store.
fn tables(store: &Path) -> Vec<PathBuf> {
    let options = rocksdb::Options::default();
    let families = rocksdb::DB::list_cf(&options, store).expect("families");
    let db = rocksdb::DB::open_cf_for_read_only(&options, store, families, false).expect("opened");
    db.live_files().expect("files").iter().map(|file| store.join(file.name.trim_start_matches('/'))).collect()
}

/// A copy of a world with its store and events, and the path of one file in the copy.
fn copy_with(world: &World, file: &Path) -> (World, PathBuf) {
    let copy = World::new().with("store.posting_buffer_mib", 0);
    copy_folder(&world.path("store"), &copy.path("store"));
    fs::copy(world.path("events.jsonl"), copy.path("events.jsonl")).expect("copied");
    let file = copy.path("store").join(file.file_name().expect("a name"));
    (copy, file)
}

/// Lost once: a deleted table that `run` did not need. It continued and published, and readers were told forever that
/// the store changes too fast.
#[test]
fn every_missing_file_is_reported_at_the_start() {
    let whole = world_of_tables();
    let tables = tables(&whole.path("store"));
    assert!(tables.len() > 16, "{} tables are too few: RocksDB always opens 16", tables.len());
    let manifest = fs::read_to_string(whole.path("store/CURRENT")).expect("a name");
    for file in tables.into_iter().chain([whole.path("store").join(manifest.trim_end())]) {
        let (world, file) = copy_with(&whole, &file);
        fs::remove_file(&file).expect("removed");
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        for mut command in [world.run_command(&sweeps()), world.command("stats")] {
            let output = command.output().expect("starts");
            let stderr = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{name}: {stderr}");
            assert!(stderr.contains("the store is damaged") && stderr.contains(&name), "{name}: {stderr}");
        }
    }
}

/// The byte ranges of a table's index and footer. In RocksDB's format 5 the footer is the last 53 bytes: the kind of
/// checksum, offset and length of the metaindex and of the index (as varints), and a magic number.
fn index_and_footer(table: &[u8]) -> [std::ops::Range<usize>; 2] {
    let footer = table.len() - 53;
    let mut bytes = table[footer + 1..].iter();
    let mut varint = || {
        let (mut value, mut shift) = (0, 0);
        for byte in bytes.by_ref() {
            value |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
        value
    };
    let [_, _, offset, length] = [(); 4].map(|()| varint());
    [offset..offset + length, footer..table.len()]
}

/// Flips one bit in the index or footer, which every look-up in a table reads first. The start must report it, unless
/// it changes nothing.
#[test]
fn a_flipped_bit_in_a_table_is_reported() {
    let whole = world_of_tables();
    let unharmed = Unharmed {
        events: fs::read(whole.path("events.jsonl")).expect("events"),
        partition: whole.partition(),
        takes: Duration::ZERO,
    };
    let mut random = Random(number("LOOKALIKE_TEST_SEED", 1));
    let (mut n_reported, mut n_same) = (0, 0);
    for table in tables(&whole.path("store")) {
        let bytes = fs::read(&table).expect("a table");
        for place in index_and_footer(&bytes) {
            let (world, table) = copy_with(&whole, &table);
            let at = place.start + random.below(place.len() as u64) as usize;
            let mut bytes = bytes.clone();
            bytes[at] ^= 1 << random.below(8);
            fs::write(&table, bytes).expect("written");
            let when = format!("a bit of byte {at}, in {place:?} of {}", table.display());
            let output = world.run_command(&sweeps()).output().expect("starts");
            if output.status.success() {
                n_same += 1;
                unharmed.check(&world, &when);
            } else {
                n_reported += 1;
                let stderr = text(&output.stderr);
                assert!(output.status.code() == Some(1) && stderr.contains("damaged"), "{when}: {stderr}");
            }
        }
    }
    println!("{n_reported} stores were refused, {n_same} were the same");
    assert!(n_reported > n_same, "{n_reported} of {}", n_reported + n_same);
}

/// Lost once: all pages ingested after a user had deleted the store's folder. Their events were published, and the
/// exit code was 0.
#[test]
fn a_store_deleted_during_a_run_is_reported() {
    for comes_more in [true, false] {
        let world = World::new();
        let line = |n: u32| page(&format!("http://a/{n}"), "2026-11-01T00:00:00Z", "s", "one two three") + "\n";
        let mut command = world.run_command(&[]);
        let mut process = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
        let mut pipe = process.stdin.take().expect("a pipe");
        pipe.write_all(line(1).as_bytes()).expect("piped");
        wait_until("an event", || world.n_events() == 1);
        fs::remove_dir_all(world.path("store")).expect("removed");
        if comes_more {
            pipe.write_all(line(2).as_bytes()).expect("piped");
        }
        // With more input the program notices at the next batch, otherwise when the input ends.
        let _pipe = comes_more.then_some(pipe);
        let status = ended(&mut process);
        let stderr = text(&process.wait_with_output().expect("ended").stderr);
        assert!(status.code() == Some(1) && stderr.contains("deleted, moved or replaced"), "{status}: {stderr}");
        assert_eq!(world.n_events(), 1, "what is not durable is not published");
    }
}

/// Fails the n-th call to the store, for every n of a small run. Durable data stays, and the next run gives the
/// results of an undisturbed one.
#[test]
fn every_call_to_the_store_may_fail() {
    let input = sweeps()[..1].to_vec();
    let (undisturbed, n_calls) = flow(&World::new(), &input, Disturbance::default());
    undisturbed.expect("nothing fails");
    let unharmed = Unharmed::of(&World::new().with("pipeline.batch_records_max", 40), &input);
    assert!(n_calls > 30, "{n_calls} calls are too few to mean anything");
    for failure in [Failure::Before, Failure::After] {
        for n in 0..n_calls {
            let world = World::new();
            let (failed, n_made) =
                flow(&world, &input, Disturbance { at: Some((n, failure)), ..Disturbance::default() });
            // What is asked twice depends on how far the stages before it are.
            match failed {
                Err(error) => assert!(error.to_string().contains("planted"), "call {n}: {error}"),
                Ok(_) => assert!(n_made <= n, "call {n} of {n_made} did not fail"),
            }
            flow(&world, &input, Disturbance::default()).0.expect("nothing fails");
            let events = fs::read(world.path("events.jsonl")).expect("events");
            assert!(events == unharmed.events, "{failure:?} call {n}: the events differ");
            if n % 7 == 0 {
                unharmed.check(&world, &format!("{failure:?} call {n}"));
            }
        }
    }
}

/// A run that waits for room on a full disk.
struct WaitingRun {
    world: World,
    disk: SmallDisk,
    /// The file that fills the disk.
    ballast: PathBuf,
    process: Child,
    /// What it writes to standard error after it has said that the disk is full.
    lines: Lines<BufReader<ChildStderr>>,
}

impl WaitingRun {
    /// Starts one; `None`, with the reason printed, where the machine has no small disk to fill.
    fn new(posting_buffer_mib: u64) -> Option<Self> {
        let world =
            World::new().with("pipeline.batch_records_max", 16).with("store.posting_buffer_mib", posting_buffer_mib);
        let Some(disk) = SmallDisk::mounted_on(world.path("store"), 160 << 20) else {
            println!("skipped: only root may mount a small disk");
            return None;
        };
        world.run(&sweeps()[..1]);
        let ballast = disk.fill_but(500 << 10);
        let mut process = world.run_command(&sweeps()).stderr(Stdio::piped()).spawn().expect("the program starts");
        let mut lines = BufReader::new(process.stderr.take().expect("standard error")).lines();
        let report = lines.by_ref().map(|line| line.expect("text")).find(|line| line.contains("the disk is full"));
        assert!(report.is_some(), "the program ended before the disk was full");
        Some(WaitingRun { world, disk, ballast, process, lines })
    }
}

/// Whatever the stages wait for, and however many threads they have, the events are the same bytes.
#[test]
fn any_timing_gives_the_same_events() {
    let unharmed = Unharmed::of(&World::new(), &sweeps());
    for (seed, threads, batch) in [(1, 1, 13), (2, 2, 13), (3, 3, 64), (4, 8, 7), (5, 4, 1), (6, 8, 1024)] {
        let world = World::new();
        let disturbance = Disturbance { delays: Some(seed), threads, batch, ..Disturbance::default() };
        flow(&world, &sweeps(), disturbance).0.expect("nothing fails");
        unharmed.check(&world, &format!("{disturbance:?}"));
    }
}

#[test]
fn a_run_waits_while_the_disk_is_full() {
    let unharmed = World::new();
    unharmed.run(&sweeps());
    for posting_buffer_mib in [192, 0] {
        let Some(waiting) = WaitingRun::new(posting_buffer_mib) else { return };
        let WaitingRun { world, disk, ballast, mut process, lines } = waiting;
        world.ask("stats", &[]);
        assert!(process.try_wait().expect("a status").is_none(), "it waits");
        fs::remove_file(ballast).expect("removed");
        let rest: Vec<String> = lines.map(|line| line.expect("text")).collect();
        assert!(rest.iter().any(|line| line.contains("the disk has free space again")), "{rest:?}");
        assert!(process.wait().expect("a status").success(), "{rest:?}");
        assert_eq!(world.events(), unharmed.events());
        world.ask("verify", &[]);
        drop(disk);
    }
}

/// Lost once: a SIGTERM that arrived while a write waited for disk space.
#[test]
fn a_wait_for_disk_space_ends_at_sigterm() {
    let unharmed = World::new();
    unharmed.run(&sweeps());
    for posting_buffer_mib in [192, 0] {
        let Some(waiting) = WaitingRun::new(posting_buffer_mib) else { return };
        let WaitingRun { world, disk, ballast, mut process, lines } = waiting;
        terminate(&process);
        assert_eq!(ended(&mut process).code(), Some(130));
        let last = lines.last().expect("a last word").expect("text");
        assert!(last.contains("free some space and run again"), "{last}");
        fs::remove_file(ballast).expect("removed");
        world.run(&sweeps());
        assert_eq!(world.events(), unharmed.events());
        world.ask("verify", &[]);
        drop(disk);
    }
}

/// The peak memory of a process, in MiB, sampled until it ends.
fn peak_memory(process: &mut std::process::Child) -> u64 {
    let status = format!("/proc/{}/status", process.id());
    let mut most = 0;
    while process.try_wait().expect("a status").is_none() {
        let contents = fs::read_to_string(&status).unwrap_or_default();
        let line = contents.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        most = most.max(kib.unwrap_or(0) >> 10);
        std::thread::sleep(Duration::from_millis(2));
    }
    most
}

/// Every large buffer has a limit in the configuration. With all limits small, a process ingests two hundred
/// megabytes of pages in little more memory than the sum of the limits and its own baseline.
#[test]
fn memory_stays_within_the_limits() {
    let small = [
        ("store.block_cache_mib", 8),
        ("store.write_buffer_mib", 16),
        ("store.posting_buffer_mib", 8),
        ("pipeline.sketch_cache_mib", 4),
        ("pipeline.repeat_cache_mib", 4),
        ("pipeline.in_flight_mib_max", 8),
        ("pipeline.in_flight_records_max", 2048),
        ("pipeline.batch_records_max", 128),
    ];
    let sum: u64 = small[..6].iter().map(|(_, mib)| *mib).sum();
    let world = small.iter().fold(World::new(), |world, (name, value)| world.with(name, *value));
    let input = world.path("pages.jsonl");
    let file = std::io::BufWriter::new(fs::File::create(&input).expect("a file"));
    crate::generate::pages("--profile news --pages 1500 --sweeps 2", file).expect("pages");
    let mut process = world.run_command(&[input]).spawn().expect("the program starts");
    let most = peak_memory(&mut process);
    assert!(process.wait().expect("a status").success());
    println!("peak {most} MiB, limits {sum} MiB");
    assert!(most > 0 && most < sum + 80, "peak {most} MiB, although the limits are {sum} MiB and the baseline is 80");
    verified(&world, "with little memory");
}
