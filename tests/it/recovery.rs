//! Killed at any moment and started again, it loses nothing and does nothing twice.

use crate::harness::disk::SmallDisk;
use crate::harness::failing::{Failure, flow};
use crate::harness::{Partition, World, check_events, ended, fold, page, sweeps, terminate, text, wait_until};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Kills each run after this many microseconds, some more each time, so that every stage is hit; the steps grow, so that
/// a busy machine comes to an end, too.
const KILL_AFTER_US: u64 = 15_000;
const KILL_STEP_US: u64 = 700;
const KILL_STEP_GROWTH_US: u64 = 5;
const KILLS_MAX: usize = 400;

fn counts(inputs: &[PathBuf], counts: &[i64]) -> BTreeMap<String, i64> {
    inputs.iter().map(|path| path.display().to_string()).zip(counts.iter().copied()).collect()
}

/// Runs and kills until a run ends by itself; returns how often it was killed.
fn kill_until_done(world: &World, inputs: &[PathBuf]) -> usize {
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
    // Without memory for the newest postings every batch is followed by a run of them, to be killed in.
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
    assert!(
        crate::harness::text(&output.stderr).contains("holds no store"),
        "{}",
        crate::harness::text(&output.stderr)
    );
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
    assert!(crate::harness::text(&output.stderr).contains("give a new events file"));
    second.ask("stats", &[]);
}

/// SplitMix64, so that a failure can be had again.
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

/// What a run that nobody disturbs comes to.
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
        assert!(fs::read(world.path("events.jsonl")).expect("events") == self.events, "{when}: the events differ");
        assert_eq!(world.partition(), self.partition, "{when}");
        verified(world, when);
    }
}

/// Kills at random moments, in one store after the other until there were enough of them. Each recovered store is sound,
/// and each run that ends by itself has come to what an undisturbed one comes to. Half of the kills come early, when a
/// run opens the store and catches up, the others anywhere in its first quarter. With `heard` there are events.
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
                let told = text(&output.stdout) + &text(&output.stderr);
                // Told as a failure of RocksDB once: it makes the families of rows one after the other.
                let is_unmade = told.contains("holds no store") || told.contains("was not made to its end");
                assert!(output.status.success() || is_unmade, "seed {seed}, kill {n_kills}: {told}");
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

/// The pages that are to be killed over, in a world of their own.
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

/// So little memory for postings that runs are made all the time.
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

/// Lost once: all but the first pages of a run without an output, which no test of recovery ever had.
#[test]
fn kill_9_at_random_where_nobody_listens() {
    let (_folder, input) = pages_to_kill_over(3000);
    kill_at_random(&[input], false, world_to_kill_in);
}

/// Pages of two sweeps: of each six one stays, one changes, one is gone and elsewhere, one gone for good; two more are not
/// seen again, one of which is elsewhere. That these two are lost is known when the second sweep is closed.
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
    first.chain(second).collect()
}

fn close_command(world: &World) -> Command {
    let mut command = world.command("sweep close 2");
    command.arg("--events").arg(world.path("events.jsonl")).stdout(Stdio::null());
    command
}

/// How many events of each kind there are.
fn kinds(world: &World) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for event in world.events() {
        *kinds.entry(format!("{:?}", event.kind())).or_default() += 1;
    }
    kinds
}

/// Told twice once: that a sweep is closed, where it was killed with all done and closed again.
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
    let told = [
        ("Assigned", N_PAGES + 4 * sixth),
        ("Changed", sixth),
        ("Gone", 2 * sixth),
        ("Lost", 2 * sixth),
        ("Merged", 0),
        ("Moved", 2 * sixth),
        ("SweepClosed", 1),
    ];
    let told = told.into_iter().filter(|(_, n)| *n > 0).map(|(kind, n)| (kind.to_string(), n));
    assert_eq!(kinds(&world), told.collect());
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
        // Closed once more, nothing is left to tell.
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

/// The newest write-ahead log of a store, once there is one.
fn newest_log(store: &Path) -> Option<PathBuf> {
    let files = fs::read_dir(store).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    files.filter(|path| path.extension().is_some_and(|end| end == "log")).max()
}

/// A store that was killed in the middle of a run, copied with its events, and the copy's newest log.
fn killed_copy(new: impl Fn() -> World, takes: Duration, random: &mut Random) -> (World, PathBuf) {
    let killed = new();
    let mut process = killed.run_command(&sweeps()).spawn().expect("the program starts");
    // On a busy machine it may take longer to begin than it took to end before.
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

/// Power is lost: the log ends anywhere. The store is then the effect of some prefix of the input. Where that is less
/// than what was published, which no honest disk does, the program refuses to go on with that output.
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
            let told = text(&output.stderr);
            assert!(told.contains("the output holds event"), "{kept} of {length} bytes kept: {told}");
            fs::remove_file(cut.path("events.jsonl")).expect("removed");
            cut.run(&sweeps());
            assert_eq!(cut.partition(), unharmed.partition, "{kept} of {length} bytes kept");
            verified(&cut, "with new events");
        }
    }
    println!("{n_whole} stores went on with their events, {n_refused} were older than them");
}

/// One bit of the log turns over. Whatever the program then says, it must say something, or nothing may be missing: with
/// RocksDB's own default half of the rows were gone once without a word.
#[test]
fn a_bit_that_turns_over_in_the_log_is_told() {
    let new = || World::new().with("pipeline.batch_records_max", 16);
    let unharmed = Unharmed::of(&new(), &sweeps());
    let mut random = Random(number("LOOKALIKE_TEST_SEED", 1));
    let mut n_told = 0;
    for _ in 0..number("LOOKALIKE_TEST_FLIPS", 16) {
        let (world, log) = killed_copy(new, unharmed.takes, &mut random);
        let mut bytes = fs::read(&log).expect("a log");
        let at = random.below(bytes.len() as u64) as usize;
        let Some(byte) = bytes.get_mut(at) else { continue };
        *byte ^= 1 << random.below(8);
        let of = bytes.len();
        fs::write(&log, bytes).expect("written");
        let output = world.run_command(&sweeps()).output().expect("starts");
        let told = text(&output.stderr);
        if output.status.success() {
            unharmed.check(&world, &format!("a bit of byte {at} of {of}"));
        } else {
            n_told += 1;
            let is_named = told.contains("damaged") || told.contains("the output holds event");
            assert!(is_named && output.status.code() == Some(1), "a bit of byte {at} of {of}: {told}");
        }
    }
    println!("{n_told} stores were refused");
    assert!(n_told > 0, "no bit was of any importance");
}

/// A store of many tables, with its events: each start leaves a few, and without memory for postings each batch does.
fn world_of_tables() -> World {
    let world = World::new().with("store.posting_buffer_mib", 0);
    for n in 1..=sweeps().len() {
        world.run(&sweeps()[..n]);
    }
    world
}

/// The tables that a store consists of.
fn tables(store: &Path) -> Vec<PathBuf> {
    let options = rocksdb::Options::default();
    let families = rocksdb::DB::list_cf(&options, store).expect("families");
    let db = rocksdb::DB::open_cf_for_read_only(&options, store, families, false).expect("opened");
    db.live_files().expect("files").iter().map(|file| store.join(file.name.trim_start_matches('/'))).collect()
}

/// A copy of a world with its store and events, and the place of one of its files there.
fn copy_with(world: &World, file: &Path) -> (World, PathBuf) {
    let copy = World::new().with("store.posting_buffer_mib", 0);
    copy_folder(&world.path("store"), &copy.path("store"));
    fs::copy(world.path("events.jsonl"), copy.path("events.jsonl")).expect("copied");
    let file = copy.path("store").join(file.file_name().expect("a name"));
    (copy, file)
}

/// Lost once: a table that was gone and that `run` had no need of. It went on over it and published, and whoever read was
/// told for ever that the store changes too fast.
#[test]
fn every_missing_file_is_told_at_the_start() {
    let whole = world_of_tables();
    let tables = tables(&whole.path("store"));
    assert!(tables.len() > 16, "RocksDB opens 16 of them in any case, there are {}", tables.len());
    let manifest = fs::read_to_string(whole.path("store/CURRENT")).expect("a name");
    for file in tables.into_iter().chain([whole.path("store").join(manifest.trim_end())]) {
        let (world, file) = copy_with(&whole, &file);
        fs::remove_file(&file).expect("removed");
        let name = file.file_name().expect("a name").to_string_lossy().into_owned();
        for mut command in [world.run_command(&sweeps()), world.command("stats")] {
            let output = command.output().expect("starts");
            let told = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{name}: {told}");
            assert!(told.contains("the store is damaged") && told.contains(&name), "{name}: {told}");
        }
    }
}

/// Where a table's index is, and its footer: of RocksDB's format 5, the last 53 bytes, which are the kind of checksum, the
/// places of the list of other blocks and of the index (offset and length, as varints), and a magic number.
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

/// One bit turns over in what every look-up in a table begins with. It is told at the start, or was of no importance.
#[test]
fn a_bit_that_turns_over_in_a_table_is_told() {
    let whole = world_of_tables();
    let unharmed = Unharmed {
        events: fs::read(whole.path("events.jsonl")).expect("events"),
        partition: whole.partition(),
        takes: Duration::ZERO,
    };
    let mut random = Random(number("LOOKALIKE_TEST_SEED", 1));
    let (mut n_told, mut n_same) = (0, 0);
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
                n_told += 1;
                let told = text(&output.stderr);
                assert!(output.status.code() == Some(1) && told.contains("damaged"), "{when}: {told}");
            }
        }
    }
    println!("{n_told} stores were refused, {n_same} were the same");
    assert!(n_told > n_same, "{n_told} of {}", n_told + n_same);
}

/// Lost once: all pages that were taken in after somebody had deleted the store's folder. They were published, and the
/// exit code was 0.
#[test]
fn a_store_that_is_deleted_under_a_run_is_told() {
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
        // Where more comes, it ends by itself.
        let _pipe = comes_more.then_some(pipe);
        let status = ended(&mut process);
        let told = text(&process.wait_with_output().expect("ended").stderr);
        assert!(status.code() == Some(1) && told.contains("deleted, moved or replaced"), "{status}: {told}");
        assert_eq!(world.n_events(), 1, "what is not durable is not published");
    }
}

/// A store whose n-th call fails, for every n that a small run makes: what was durable stays, and the next run comes to
/// what an undisturbed one comes to.
#[test]
fn every_call_to_the_store_may_fail() {
    let input = sweeps()[..1].to_vec();
    let (undisturbed, n_calls) = flow(&World::new(), &input, None);
    undisturbed.expect("nothing fails");
    let unharmed = Unharmed::of(&World::new().with("pipeline.batch_records_max", 40), &input);
    assert!(n_calls > 30, "{n_calls} calls are too few to mean anything");
    for failure in [Failure::Before, Failure::After] {
        for n in 0..n_calls {
            let world = World::new();
            let (failed, _) = flow(&world, &input, Some((n, failure)));
            let error = failed.expect_err("a call failed").to_string();
            assert!(error.contains("planted"), "call {n}: {error}");
            flow(&world, &input, None).0.expect("nothing fails");
            let events = fs::read(world.path("events.jsonl")).expect("events");
            assert!(events == unharmed.events, "{failure:?} call {n}: the events differ");
            if n % 7 == 0 {
                unharmed.check(&world, &format!("{failure:?} call {n}"));
            }
        }
    }
}

#[test]
fn a_full_disk_is_waited_for() {
    let unharmed = World::new();
    unharmed.run(&sweeps());
    for posting_buffer_mib in [192, 0] {
        let world =
            World::new().with("pipeline.batch_records_max", 16).with("store.posting_buffer_mib", posting_buffer_mib);
        let Some(disk) = SmallDisk::mounted_on(world.path("store"), 160 << 20) else {
            println!("skipped: only root may mount a small disk");
            return;
        };
        world.run(&sweeps()[..1]);
        let ballast = disk.fill_but(500 << 10);
        let mut command = world.run_command(&sweeps());
        let mut process = command.stderr(Stdio::piped()).spawn().expect("the program starts");
        let mut lines = BufReader::new(process.stderr.take().expect("standard error")).lines();
        let told = lines.by_ref().map(|line| line.expect("text")).find(|line| line.contains("the disk is full"));
        assert!(told.is_some(), "the program ended before the disk was full");
        world.ask("stats", &[]);
        assert!(process.try_wait().expect("a status").is_none(), "it waits");
        fs::remove_file(ballast).expect("removed");
        let rest: Vec<String> = lines.map(|line| line.expect("text")).collect();
        assert!(rest.iter().any(|line| line.contains("there is room on the disk again")), "{rest:?}");
        assert!(process.wait().expect("a status").success(), "{rest:?}");
        assert_eq!(world.events(), unharmed.events());
        world.ask("verify", &[]);
        drop(disk);
    }
}

/// Lost once: SIGTERM, for as long as writing waited for room on the disk.
#[test]
fn a_full_disk_is_no_reason_to_stay() {
    let unharmed = World::new();
    unharmed.run(&sweeps());
    for posting_buffer_mib in [192, 0] {
        let world =
            World::new().with("pipeline.batch_records_max", 16).with("store.posting_buffer_mib", posting_buffer_mib);
        let Some(disk) = SmallDisk::mounted_on(world.path("store"), 160 << 20) else {
            println!("skipped: only root may mount a small disk");
            return;
        };
        world.run(&sweeps()[..1]);
        let ballast = disk.fill_but(500 << 10);
        let mut process = world.run_command(&sweeps()).stderr(Stdio::piped()).spawn().expect("the program starts");
        let mut lines = BufReader::new(process.stderr.take().expect("standard error")).lines();
        let told = lines.by_ref().map(|line| line.expect("text")).find(|line| line.contains("the disk is full"));
        assert!(told.is_some(), "the program ended before the disk was full");
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

/// What a process took of memory at most, in MiB, looked at until it ends.
fn watched(process: &mut std::process::Child) -> u64 {
    let status = format!("/proc/{}/status", process.id());
    let mut most = 0;
    while process.try_wait().expect("a status").is_none() {
        let told = fs::read_to_string(&status).unwrap_or_default();
        let line = told.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        most = most.max(kib.unwrap_or(0) >> 10);
        std::thread::sleep(Duration::from_millis(2));
    }
    most
}

/// Every memory has a limit with a name: with all of them small, two hundred megabytes of pages pass through a process
/// that takes little more than their sum and itself.
#[test]
fn memory_keeps_to_its_limits() {
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
    let most = watched(&mut process);
    assert!(process.wait().expect("a status").success());
    println!("{most} MiB at most, of limits of {sum} MiB");
    assert!(most > 0 && most < sum + 80, "{most} MiB were taken, where the limits are {sum} MiB and the program 80");
    verified(&world, "with little memory");
}
