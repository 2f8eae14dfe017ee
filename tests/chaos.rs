//! A real broker, the real program, and every fault that can strike them; then an independent judge of the output.
//!
//! ```sh
//! LOOKALIKE_CHAOS_KILLS=1000 LOOKALIKE_TEST_KAFKA=any cargo test --release --test chaos -- --nocapture
//! ```
//! A producer sends pages with delivery reports while faults strike: the program killed, the broker killed,
//! connections cut, acknowledgements lost, a process suspended while another takes over with a copy of its store, a
//! second process, a power failure that cuts off the end of the log.
//!
//! A short run has twenty kills and one of each other fault. A longer run lasts for LOOKALIKE_CHAOS_KILLS kills or
//! LOOKALIKE_CHAOS_SECONDS, and draws its faults at random from LOOKALIKE_CHAOS_SEED. It includes full disks if the
//! test may mount a small file system (as root).
//!
//! Now and then the test waits until everything is processed, and judges. Every page has one terminal event. A reader
//! of committed transactions sees no event twice, and the numbers have no holes. The events add up to the store's
//! contents. The compacted topics hold the present state, although pages arrive late. The clusters are those that a
//! plain program finds in the pages: sets of shingles, all pairs, breadth first.

#![expect(clippy::expect_used, reason = "a test that cannot go on fails")]

#[path = "it/harness/mod.rs"]
mod harness;

use harness::broker::proxy::Proxy;
use harness::broker::{Seen, present_in_table, present_in_topics, see_all};
use harness::disk::SmallDisk;
use harness::{World, page, page_key};
use lookalike::wire::{Event, EventType};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer, ProducerContext, ThreadedProducer};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Kills of the program in a short run.
const N_KILLS: usize = 20;

/// How long faults strike between two judgements in a longer run.
const ROUND: Duration = Duration::from_secs(120);

/// How long the output may stand still while events are due, and how long any other wait may last.
const PATIENCE: Duration = Duration::from_secs(90);

const N_PARTITIONS: i32 = 3;

/// Free bytes on a small disk beside the store: less than RocksDB wants to preallocate for its log, which it would
/// otherwise go on filling.
const DISK_ROOM: u64 = 48 << 20;

/// Bytes of the disk after it has grown. RocksDB needs room to write out its memory before it resumes.
const DISK_GROWN: u64 = 4 << 30;

/// The faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    ProcessKilled,
    BrokerKilled,
    ConnectionsCut,
    AcknowledgementLost,
    Zombie,
    SecondProcess,
    LogCut,
    DiskFull,
}

/// Each fault, and its relative frequency.
const FAULTS: [(Fault, u64); 8] = [
    (Fault::DiskFull, 1),
    (Fault::ProcessKilled, 240),
    (Fault::ConnectionsCut, 8),
    (Fault::AcknowledgementLost, 12),
    (Fault::SecondProcess, 6),
    (Fault::LogCut, 10),
    (Fault::Zombie, 2),
    (Fault::BrokerKilled, 1),
];

/// A reproducible random generator.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

/// A private broker, which the test may kill.
struct Broker {
    folder: tempfile::TempDir,
    port: u16,
}

impl Broker {
    fn start() -> Self {
        let broker = Broker { folder: tempfile::tempdir().expect("a folder"), port: two_free_ports() };
        broker.script(&["start", "--port", &broker.port.to_string()]);
        broker
    }

    fn script(&self, arguments: &[&str]) {
        let script = harness::root().join("deploy/kafka-local.sh");
        let output =
            Command::new(script).args(arguments).arg("--dir").arg(self.folder.path()).output().expect("a shell");
        assert!(output.status.success(), "{arguments:?}: {}", harness::text(&output.stderr));
    }

    fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.script(&["clean"]);
    }
}

/// Finds two adjacent free ports below the range of ephemeral ports. A client that tried a dead broker's port once
/// got that port as its own, connected to itself, and kept the broker from coming back.
fn two_free_ports() -> u16 {
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let first = 20_000 + (std::process::id() % 5_000 * 2) as u16;
    (first..32_000).step_by(2).find(|first| is_free(*first) && is_free(first + 1)).expect("two free ports")
}

/// A message that was sent.
#[derive(Clone, Debug)]
enum Sent {
    /// A page: its URL, time and words.
    Page(String, String, String),
    /// A mark that a URL is gone since a time.
    Gone(String, String),
    /// A message that is no page.
    Rubbish,
}

/// The confirmed messages, by partition and offset.
type Ledger = Arc<Mutex<BTreeMap<(i32, i64), Sent>>>;

struct Confirmed(Ledger);

impl rdkafka::ClientContext for Confirmed {
    fn error(&self, _: rdkafka::error::KafkaError, _: &str) {}
}

impl ProducerContext for Confirmed {
    type DeliveryOpaque = Box<Sent>;

    fn delivery(&self, result: &DeliveryResult<'_>, sent: Self::DeliveryOpaque) {
        let message = result.as_ref().map_err(|(error, _)| error).expect("a page delivered, if late");
        let place = (rdkafka::Message::partition(message), rdkafka::Message::offset(message));
        let earlier = self.0.lock().expect("no panic").insert(place, *sent);
        assert!(earlier.is_none(), "the broker gave {place:?} twice");
    }
}

/// Sends pages of a few families until `stop` is set: some equal, some slightly changed, and some messages that are
/// no pages.
fn produce(brokers: &str, topic: &str, ledger: &Ledger, stop: &AtomicBool) {
    let producer: ThreadedProducer<Confirmed> = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("enable.idempotence", "true")
        .set("message.timeout.ms", "0")
        .create_with_context(Confirmed(Arc::clone(ledger)))
        .expect("a producer");
    let mut n = ledger.lock().expect("no panic").len() as u64;
    let mut dice = Dice(0x5eed + n);
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..5 {
            n += 1;
            let (value, sent) = made(&mut dice, n);
            let record = BaseRecord::with_opaque_to(topic, Box::new(sent))
                .partition((n % N_PARTITIONS as u64) as i32)
                .key("k")
                .payload(&value);
            producer.send(record).map_err(|(error, _)| error).expect("queued");
        }
        // A longer run sends no more than is processed between kills; the judge would otherwise wait longer than
        // faults strike.
        std::thread::sleep(Duration::from_millis(if is_long() { 40 } else { 10 }));
    }
    producer.flush(PATIENCE).expect("all delivered");
}

fn made(dice: &mut Dice, n: u64) -> (String, Sent) {
    if dice.roll(25) == 0 {
        return (format!("no page {n}"), Sent::Rubbish);
    }
    // Three in a hundred are late records of a known URL, and two in a hundred are newer ones; half of them are
    // marks.
    let (mut url, mut time) = (format!("http://{n}/"), "2026-11-21T08:00:00Z".to_string());
    let late = dice.roll(100);
    if late < 5 && n > 10 {
        url = format!("http://{}/", 1 + dice.roll(n - 1));
        let (year, second) = (if late < 3 { 2025 } else { 2027 }, n % 86_400);
        let (day, hour, minute, second) = (1 + n / 86_400, second / 3600, second / 60 % 60, second % 60);
        time = format!("{year}-01-{day:02}T{hour:02}:{minute:02}:{second:02}Z");
        if dice.roll(2) == 0 {
            let gone = serde_json::json!({"url": url, "fetched_at": time, "sweep": "s", "http_status": 404});
            return (gone.to_string(), Sent::Gone(url, time));
        }
    }
    // Forty words of a family, a few of them replaced: resemblances on both sides of the threshold. The number of
    // families grows with the pages, so that the judge need not compare all with all.
    let family = dice.roll(60 + n / 100);
    let mut words: Vec<String> = (0..40).map(|at| format!("w{family}x{at}")).collect();
    for _ in 0..dice.roll(4) {
        let at = dice.roll(40) as usize;
        words[at] = format!("v{}", dice.roll(9));
    }
    let text = words.join(" ");
    (page(&url, &time, "s", &text), Sent::Page(url, time, text))
}

/// The fetch time of each URL's present page, from the sent messages alone.
fn standing(ledger: &Ledger) -> BTreeMap<String, String> {
    let mut newest: BTreeMap<String, (String, bool)> = BTreeMap::new();
    for sent in ledger.lock().expect("no panic").values() {
        let (url, time, stands) = match sent {
            Sent::Page(url, time, _) => (url, time, true),
            Sent::Gone(url, time) => (url, time, false),
            Sent::Rubbish => continue,
        };
        // All times of one URL differ, and their texts sort like the times.
        let sighting = (time.clone(), stands);
        let known = newest.entry(url.clone()).or_insert_with(|| sighting.clone());
        *known = sighting.max(known.clone());
    }
    newest.into_iter().filter(|(_, (_, stands))| *stands).map(|(url, (time, _))| (url, time)).collect()
}

/// The clusters of texts, found by a plain program: shingles of 10 words, all pairs, at least half of the shingles
/// shared.
fn judged(texts: &BTreeMap<String, String>) -> harness::Partition {
    let mut by_text: BTreeMap<&str, Vec<&String>> = BTreeMap::new();
    texts.iter().for_each(|(key, text)| by_text.entry(text).or_default().push(key));
    let distinct: Vec<(&str, Vec<&String>)> = by_text.into_iter().collect();
    let words: Vec<Vec<&str>> = distinct.iter().map(|(text, _)| text.split(' ').collect()).collect();
    let sets: Vec<BTreeSet<&[&str]>> = words.iter().map(|words| words.windows(10).collect()).collect();
    let mut holders: HashMap<&[&str], Vec<usize>> = HashMap::new();
    for (at, set) in sets.iter().enumerate() {
        set.iter().for_each(|shingle| holders.entry(*shingle).or_default().push(at));
    }
    let mut cluster_of = vec![usize::MAX; sets.len()];
    for begin in 0..sets.len() {
        let mut queue = VecDeque::from([begin]);
        while let Some(at) = queue.pop_front() {
            if cluster_of[at] != usize::MAX {
                continue;
            }
            cluster_of[at] = begin;
            let others: BTreeSet<usize> = sets[at].iter().flat_map(|shingle| &holders[shingle]).copied().collect();
            queue.extend(others.into_iter().filter(|other| {
                let n_both = sets[at].intersection(&sets[*other]).count();
                2 * n_both >= sets[at].len() + sets[*other].len() - n_both
            }));
        }
    }
    let mut clusters: BTreeMap<usize, BTreeSet<String>> = BTreeMap::new();
    for ((_, keys), cluster) in distinct.iter().zip(cluster_of) {
        clusters.entry(cluster).or_default().extend(keys.iter().map(|key| (*key).clone()));
    }
    clusters.into_values().collect()
}

/// Reads the events in committed transactions; fails if they break a promise.
fn read_events(address: &str, topic: &str, ledger: &Ledger) -> Result<Vec<Event>, String> {
    let mut seen = see_all(address, topic);
    for pair in seen.windows(2).filter(|pair| pair[0].partition == pair[1].partition) {
        if pair[0].seq() >= pair[1].seq() {
            return Err(format!(
                "in partition {} event {} follows {}",
                pair[0].partition,
                pair[1].seq(),
                pair[0].seq()
            ));
        }
    }
    seen.sort_by_key(Seen::seq);
    if let Some((at, seen)) = seen.iter().enumerate().find(|(at, seen)| seen.seq() != *at as u64) {
        return Err(format!("event {at} is missing or there twice: {} stands in its place", seen.seq()));
    }
    let events: Vec<Event> = seen.iter().map(|seen| serde_json::from_str(seen.text()).expect("an event")).collect();
    let ledger = ledger.lock().expect("no panic");
    let mut terminal: BTreeSet<(i32, i64)> = BTreeSet::new();
    for event in events.iter().filter(|event| event.kind().is_terminal()) {
        let place = (event.partition, event.offset);
        let sent = ledger.get(&place).ok_or_else(|| format!("{place:?} was never sent"))?;
        if !terminal.insert(place) {
            return Err(format!("{place:?} has two terminal events"));
        }
        let is_right = match (sent, event.kind()) {
            (Sent::Page(url, ..), EventType::Assigned) | (Sent::Gone(url, _), EventType::Gone) => {
                event.url.as_ref() == Some(url)
            }
            (Sent::Rubbish, EventType::Rejected) => true,
            _ => false,
        };
        if !is_right {
            return Err(format!("{place:?} is told as {event:?}, and was {sent:?}"));
        }
    }
    if terminal.len() < ledger.len() {
        return Err(format!("{} of {} records have no event", ledger.len() - terminal.len(), ledger.len()));
    }
    Ok(events)
}

/// Stops the producer, even when the test panics.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Chaos {
    broker: Broker,
    proxy: Proxy,
    world: World,
    ledger: Ledger,
    dice: Dice,
    store: usize,
    /// Faults that must still strike.
    to_come: Vec<Fault>,
    struck: BTreeMap<Fault, usize>,
    /// How long the program took to resume after a full disk had room again.
    resumed: Vec<Duration>,
}

impl Chaos {
    fn new() -> Self {
        let broker = Broker::start();
        let proxy = Proxy::start(broker.port);
        let world = World::new()
            .with_config("exact.toml")
            .with_config("kafka.toml")
            .with("kafka.brokers", format!("127.0.0.1:{}", proxy.port))
            .with("pipeline.batch_records_max", 32)
            .with("pipeline.in_flight_records_max", 512)
            .with("metrics.listen", "")
            .with("log.level", "warn");
        let made = world
            .command(&format!("topics create --partitions {N_PARTITIONS} --output-partitions 2 --replication 1"))
            .output()
            .expect("starts");
        assert!(made.status.success(), "{}", harness::text(&made.stderr));
        let seed = std::env::var("LOOKALIKE_CHAOS_SEED").map_or(7, |seed| seed.parse().expect("a number"));
        let mut chaos = Chaos {
            broker,
            proxy,
            world,
            ledger: Arc::default(),
            dice: Dice(seed),
            store: 0,
            to_come: Vec::new(),
            struck: BTreeMap::new(),
            resumed: Vec::new(),
        };
        chaos.to_come.extend([Fault::ProcessKilled; N_KILLS]);
        chaos.to_come.extend(FAULTS.iter().map(|(fault, _)| *fault).filter(|fault| *fault != Fault::DiskFull));
        if is_long() && SmallDisk::mounted_on(chaos.disk(), 1 << 20).is_some() {
            chaos.to_come.push(Fault::DiskFull);
        }
        chaos
    }

    fn store(&self) -> PathBuf {
        self.world.path(&format!("store-{}", self.store))
    }

    /// The mount point of the small disk.
    fn disk(&self) -> PathBuf {
        self.world.path("disk")
    }

    fn start(&self) -> Child {
        self.start_on(&self.store())
    }

    fn start_on(&self, store: &Path) -> Child {
        let mut command = self.world.command_on("run -q", store);
        let log = std::fs::File::options().create(true).append(true).open(self.world.path("log")).expect("a log");
        command.stderr(log).spawn().expect("starts")
    }

    /// Waits for a random time. The program publishes after about a second: faults strike before that and, in a
    /// longer run, after.
    fn pause(&mut self) {
        let longest_ms = if is_long() && self.dice.roll(2) == 0 { 2_000 } else { 800 };
        std::thread::sleep(Duration::from_millis(self.dice.roll(longest_ms)));
    }

    /// Whether enough faults have struck.
    fn is_enough(&self, begin: Instant) -> bool {
        let n_kills = self.struck.get(&Fault::ProcessKilled).copied().unwrap_or_default();
        let n_seconds = begin.elapsed().as_secs() as usize;
        n_kills >= wanted("LOOKALIKE_CHAOS_KILLS") && n_seconds >= wanted("LOOKALIKE_CHAOS_SECONDS")
    }

    fn next_fault(&mut self) -> Fault {
        if !self.to_come.is_empty() {
            let at = self.dice.roll(self.to_come.len() as u64) as usize;
            return self.to_come.swap_remove(at);
        }
        let mut at = self.dice.roll(FAULTS.iter().map(|(_, weight)| weight).sum());
        let found = FAULTS.iter().find(|(_, weight)| {
            let is_it = at < *weight;
            at = at.saturating_sub(*weight);
            is_it
        });
        match found.expect("a fault").0 {
            // A disk that could not be mounted at the beginning cannot be mounted now.
            Fault::DiskFull if !self.struck.contains_key(&Fault::DiskFull) => Fault::ProcessKilled,
            fault => fault,
        }
    }

    /// Lets one fault strike; returns the process that runs afterwards.
    fn strike(&mut self, mut process: Child) -> Child {
        self.pause();
        let fault = self.next_fault();
        let process = match fault {
            Fault::ProcessKilled => {
                kill(&mut process);
                self.start()
            }
            Fault::BrokerKilled => {
                self.broker.script(&["kill"]);
                self.broker.script(&["start"]);
                process
            }
            Fault::ConnectionsCut => {
                self.proxy.cut_all();
                process
            }
            Fault::AcknowledgementLost => {
                self.proxy.n_to_lose.store(1, Ordering::SeqCst);
                process
            }
            Fault::Zombie => self.take_over(process),
            Fault::SecondProcess => {
                let second = self.world.command_on("run -q", &self.store()).output().expect("starts");
                assert_eq!(second.status.code(), Some(1), "a second process is refused");
                process
            }
            Fault::LogCut => self.cut_log(process),
            Fault::DiskFull => self.fill_disk(process),
        };
        *self.struck.entry(fault).or_default() += 1;
        self.revived(process)
    }

    /// Restarts a process that stopped by itself, as a supervisor does, if its exit code allows it.
    fn revived(&self, mut process: Child) -> Child {
        match process.try_wait().expect("a status") {
            None => process,
            Some(status) => {
                let is_passing = matches!(status.code(), Some(1 | 13 | 14));
                assert!(is_passing, "the program ended by itself with {status}");
                self.start()
            }
        }
    }

    /// The end of the output, transaction markers included.
    fn output_end(&self) -> i64 {
        let consumer: BaseConsumer =
            ClientConfig::new().set("bootstrap.servers", self.broker.address()).create().expect("a consumer");
        let high = |partition| consumer.fetch_watermarks("lookalike.events.v1", partition, PATIENCE);
        (0..2).map(|partition| high(partition).expect("watermarks").1).sum()
    }

    /// Waits until a process has taken over, which shows in the output, and returns its exit code if it stops
    /// instead. The ends of other transactions make the output grow, too, so it must grow three times.
    fn taken_over(&self, process: &mut Child) -> Option<i32> {
        let (mut end, mut n_grown, until) = (self.output_end(), 0, Instant::now() + PATIENCE);
        while n_grown < 3 {
            if let Some(status) = process.try_wait().expect("a status") {
                return status.code();
            }
            assert!(Instant::now() < until, "the new owner publishes nothing");
            std::thread::sleep(Duration::from_millis(20));
            let now = self.output_end();
            n_grown += usize::from(now != end);
            end = now;
        }
        None
    }

    /// Suspends the process, lets another go on with a copy of its store, and wakes the first.
    fn take_over(&mut self, mut zombie: Child) -> Child {
        signal(&zombie, "STOP");
        let from = self.store();
        self.store += 1;
        copy(&from, &self.store());
        let mut owner = self.start();
        assert_eq!(self.taken_over(&mut owner), None, "the new owner goes on");
        signal(&zombie, "CONT");
        let until = Instant::now() + PATIENCE;
        loop {
            // The zombie is fenced if it has published before. If it had just started, it finds that the output has
            // moved on, or that the group has read a topic unknown to its store.
            if let Some(status) = zombie.try_wait().expect("a status") {
                assert!(matches!(status.code(), Some(13 | 15)), "the zombie ended with {status}");
                drop(std::fs::remove_dir_all(from));
                return owner;
            }
            // A zombie suspended between its check of the output and its takeover takes over now, and fences the
            // owner.
            if let Some(status) = owner.try_wait().expect("a status") {
                assert_eq!(status.code(), Some(13), "the new owner ended with {status}");
                return self.after_the_owner(zombie);
            }
            assert!(Instant::now() < until, "both go on");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The zombie has fenced the new owner. It goes on if the owner has published nothing; otherwise it finds the
    /// output ahead of its store, and stops, too.
    fn after_the_owner(&mut self, mut zombie: Child) -> Child {
        let Some(code) = self.taken_over(&mut zombie) else {
            drop(std::fs::remove_dir_all(self.store()));
            self.store -= 1;
            return zombie;
        };
        assert_eq!(code, 13, "the zombie ended with {code}");
        drop(std::fs::remove_dir_all(self.world.path(&format!("store-{}", self.store - 1))));
        self.start()
    }

    /// Cuts off the end of the log, as a power failure does to data that is not synced yet. An honest disk loses no
    /// more than that. If published events are missing, the program refuses the store.
    fn cut_log(&mut self, mut process: Child) -> Child {
        kill(&mut process);
        let cut = self.world.path(&format!("store-{}", self.store + 1));
        copy(&self.store(), &cut);
        let logs = std::fs::read_dir(&cut).expect("a folder").map(|entry| entry.expect("an entry").path());
        let log = logs.filter(|path| path.extension().is_some_and(|end| end == "log")).max();
        if let Some(log) = log {
            let length = std::fs::metadata(&log).expect("a log").len();
            let kept = length - self.dice.roll(length.min(3_000) + 1);
            std::fs::File::options().write(true).open(&log).expect("opened").set_len(kept).expect("cut");
        }
        let mut owner = self.start_on(&cut);
        match self.taken_over(&mut owner) {
            None => {
                drop(std::fs::remove_dir_all(self.store()));
                self.store += 1;
                owner
            }
            Some(12) => {
                drop(std::fs::remove_dir_all(cut));
                self.start()
            }
            Some(code) => panic!("a store with a cut log ended with {code}"),
        }
    }

    /// Waits until nothing more is published; returns the end of the output.
    fn come_to_rest(&self, process: &mut Child) -> i64 {
        let until = Instant::now() + PATIENCE;
        loop {
            let end = self.output_end();
            std::thread::sleep(Duration::from_millis(1_500));
            assert_eq!(process.try_wait().expect("a status"), None, "a full disk is waited out");
            if self.output_end() == end {
                return end;
            }
            assert!(Instant::now() < until, "it publishes although the disk is full");
        }
    }

    /// Fills the disk while the program runs, then makes room.
    fn fill_disk(&mut self, mut process: Child) -> Child {
        kill(&mut process);
        let disk = SmallDisk::mounted_on(self.disk(), bytes_of(&self.store()) + DISK_ROOM).expect("a small disk");
        let store = disk.path().join("store");
        copy(&self.store(), &store);
        let mut owner = self.start_on(&store);
        assert_eq!(self.taken_over(&mut owner), None, "it goes on there");
        disk.fill_but(0);
        let full = self.come_to_rest(&mut owner);
        let stats = self.world.command_on("stats", &store).output().expect("starts");
        assert!(stats.status.success(), "questions are answered: {}", harness::text(&stats.stderr));
        disk.resize(DISK_GROWN);
        let begin = Instant::now();
        while self.output_end() == full {
            assert_eq!(owner.try_wait().expect("a status"), None, "a full disk is waited out");
            assert!(begin.elapsed() < Duration::from_secs(10), "it goes on within ten seconds");
            std::thread::sleep(Duration::from_millis(50));
        }
        self.resumed.push(begin.elapsed());
        kill(&mut owner);
        drop(std::fs::remove_dir_all(self.store()));
        self.store += 1;
        copy(&store, &self.store());
        self.start()
    }

    /// Waits until every message has its events, stops the process, and judges the output.
    fn judge(&self, mut process: Child) -> usize {
        let (mut end, mut grown) = (self.output_end(), Instant::now());
        let events = loop {
            process = self.revived(process);
            let begin = Instant::now();
            match read_events(&self.broker.address(), "lookalike.events.v1", &self.ledger) {
                Ok(events) => break events,
                Err(why) => assert!(grown.elapsed() < PATIENCE && why.contains("have no event"), "{why}"),
            }
            if self.output_end() != end {
                (end, grown) = (self.output_end(), Instant::now());
            }
            // Repeated reading of the whole output must not keep the machine busy.
            std::thread::sleep(begin.elapsed().max(Duration::from_millis(100)));
        };
        let begin = Instant::now();
        signal(&process, "TERM");
        assert_eq!(process.wait().expect("ended").code(), Some(0), "it ends in good order");
        assert!(begin.elapsed() < Duration::from_secs(10), "and soon");
        let world = &self.world;
        let verified = world.command_on("verify", &self.store()).output().expect("starts");
        assert!(verified.status.success(), "verify: {}", harness::text(&verified.stdout));
        let texts = |sent: &Sent| match sent {
            Sent::Page(url, time, text) => Some((page_key(url, time, "s"), text.clone())),
            Sent::Gone(..) | Sent::Rubbish => None,
        };
        let texts = self.ledger.lock().expect("no panic").values().filter_map(texts).collect();
        let truth = judged(&texts);
        assert_eq!(harness::fold(&events), truth, "the events add up to what a plain program finds");
        let csv = world.command_on("export clusters", &self.store()).output().expect("starts").stdout;
        assert_eq!(harness::partition_of(&harness::text(&csv)), truth, "and so does the store");
        self.judge_present();
        let is_rubbish = |sent: &&Sent| matches!(sent, Sent::Rubbish);
        let n_rejected = self.ledger.lock().expect("no panic").values().filter(is_rubbish).count();
        assert_eq!(see_all(&self.broker.address(), "pages.dlq").len(), n_rejected, "each dead letter once");
        events.len()
    }

    /// The compacted topics must agree with the store: the present of a URL is the page fetched last, not the one
    /// received last.
    fn judge_present(&self) {
        let told = present_in_topics(&self.broker.address(), "lookalike.assignments.v1", "lookalike.merges.v1");
        let table = self.world.command_on("export present", &self.store()).output().expect("starts").stdout;
        assert!(told == present_in_table(&harness::text(&table)), "the compacted topics tell the present state");
        let times: BTreeMap<String, String> = told.into_iter().map(|(url, [time, ..])| (url, time)).collect();
        assert!(times == standing(&self.ledger), "and what stands is what was fetched last");
    }

    fn report(&self, begin: Instant, n_events: usize) {
        println!(
            "{:>5} s: {} records, {n_events} events, {:?}, {} ends of transactions unheard, {:?} to go on after a full \
             disk: nothing lost, nothing twice, nothing otherwise",
            begin.elapsed().as_secs(),
            self.ledger.lock().expect("no panic").len(),
            self.struck,
            self.proxy.n_lost.load(Ordering::SeqCst),
            self.resumed,
        );
    }
}

impl Drop for Chaos {
    /// Prints the program's last log lines if the test failed.
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = std::fs::read_to_string(self.world.path("log")).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            println!("{}", lines[lines.len().saturating_sub(30)..].join("\n"));
        }
    }
}

/// The bytes of all files below a directory.
fn bytes_of(folder: &Path) -> u64 {
    let used = Command::new("du").args(["-s", "--apparent-size", "-B1"]).arg(folder).output().expect("du").stdout;
    harness::text(&used).split_whitespace().next().expect("a number").parse().expect("a number")
}

fn kill(process: &mut Child) {
    process.kill().expect("killed");
    process.wait().expect("ended");
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(copied.expect("cp").success());
}

fn signal(process: &Child, name: &str) {
    let sent = Command::new("kill").arg(format!("-{name}")).arg(process.id().to_string()).status();
    assert!(sent.expect("kill").success());
}

/// A number from the environment; 0 if it is not set.
fn wanted(name: &str) -> usize {
    std::env::var(name).map_or(0, |text| text.parse().expect("a number"))
}

fn is_long() -> bool {
    wanted("LOOKALIKE_CHAOS_KILLS") + wanted("LOOKALIKE_CHAOS_SECONDS") > 0
}

#[test]
fn whatever_strikes_nothing_is_lost_and_nothing_is_there_twice() {
    if std::env::var("LOOKALIKE_TEST_KAFKA").is_err() {
        eprintln!("skipped: LOOKALIKE_TEST_KAFKA is not set, so that there may be no Java for a broker");
        return;
    }
    let begin = Instant::now();
    let mut chaos = Chaos::new();
    let mut process = chaos.start();
    let mut is_judged = false;
    while !is_judged || !chaos.is_enough(begin) {
        let (stop, ledger) = (AtomicBool::new(false), Arc::clone(&chaos.ledger));
        let address = chaos.broker.address();
        process = std::thread::scope(|scope| {
            let _ending = Ending(&stop);
            let sending = scope.spawn(|| produce(&address, "pages", &ledger, &stop));
            let round = Instant::now();
            while !chaos.to_come.is_empty() || (round.elapsed() < ROUND && !chaos.is_enough(begin)) {
                process = chaos.strike(process);
            }
            stop.store(true, Ordering::Relaxed);
            sending.join().expect("no panic");
            process
        });
        let n_events = chaos.judge(process);
        is_judged = true;
        chaos.report(begin, n_events);
        process = chaos.start();
    }
    kill(&mut process);
}
