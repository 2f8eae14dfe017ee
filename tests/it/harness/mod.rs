//! The harness of the integration tests: runs the real program on a temporary store and reads what it wrote.

#![allow(dead_code, reason = "each test binary uses a part")]

pub mod broker;
pub mod browser;
pub mod disk;
pub mod failing;
pub mod object_server;
pub mod process;
pub mod schema;
pub mod server;

use lookalike::wire::{Event, EventType};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A temporary folder with a store, and the settings for every run of the program on it.
pub struct World {
    folder: TempDir,
    variables: Vec<(String, String)>,
    configs: Vec<PathBuf>,
}

/// Clusters as sets of page keys (URL, time, sweep).
pub type Partition = BTreeSet<BTreeSet<String>>;

impl World {
    /// An empty world. The seed is fixed, so that sketches are reproducible, and the clock does not matter.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let world = World { folder, variables: Vec::new(), configs: Vec::new() };
        world.with("store.seed", format!("{:064x}", 7)).with("input.future_days_max", 0)
    }

    pub fn with(mut self, key: &str, value: impl ToString) -> Self {
        self.variables.push((format!("LOOKALIKE__{}", key.replace('.', "__").to_uppercase()), value.to_string()));
        self
    }

    /// Sets a variable of the environment.
    pub fn with_variable(mut self, name: &str, value: impl ToString) -> Self {
        self.variables.push((name.into(), value.to_string()));
        self
    }

    pub fn with_config(mut self, name: &str) -> Self {
        self.configs.push(root().join("config").join(name));
        self
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).expect("written");
        path
    }

    /// A subcommand on this world's store.
    pub fn command(&self, subcommand: &str) -> Command {
        self.command_on(subcommand, &self.path("store"))
    }

    /// A subcommand on another store, with the settings of this world.
    pub fn command_on(&self, subcommand: &str, store: &Path) -> Command {
        let mut command = self.command_without_store(subcommand);
        command.arg("--store").arg(store);
        command
    }

    /// A subcommand with the settings of this world, and no store named.
    pub fn command_without_store(&self, subcommand: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lookalike"));
        command.args(subcommand.split(' '));
        for config in &self.configs {
            command.arg("--config").arg(config);
        }
        command.envs(self.variables.iter().cloned()).stdin(Stdio::null());
        command
    }

    /// `run` over these inputs, with events in `events.jsonl`.
    pub fn run_command(&self, inputs: &[PathBuf]) -> Command {
        let mut command = self.command("run -q");
        command.arg("--events").arg(self.path("events.jsonl")).args(inputs);
        command
    }

    /// `run` over these inputs, without events.
    pub fn run_unheard_command(&self, inputs: &[PathBuf]) -> Command {
        let mut command = self.command("run -q");
        command.args(inputs);
        command
    }

    pub fn run(&self, inputs: &[PathBuf]) -> Output {
        let output = self.run_command(inputs).output().expect("the program starts");
        assert!(output.status.success(), "{}", text(&output.stderr));
        output
    }

    /// The standard output of a subcommand that must succeed.
    pub fn ask(&self, subcommand: &str, arguments: &[&str]) -> String {
        let output = self.command(subcommand).args(arguments).output().expect("the program starts");
        assert!(output.status.success(), "{subcommand}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// The number of published events.
    pub fn n_events(&self) -> usize {
        fs::read(self.path("events.jsonl")).map_or(0, |events| events.iter().filter(|byte| **byte == b'\n').count())
    }

    pub fn events(&self) -> Vec<Event> {
        read_events(&self.path("events.jsonl"))
    }

    /// The clusters in the output of `export clusters`.
    pub fn partition(&self) -> Partition {
        partition_of(&self.ask("export clusters", &[]))
    }
}

/// The clusters in a CSV table of `export clusters`.
pub fn partition_of(csv: &str) -> Partition {
    let mut clusters: HashMap<String, BTreeSet<String>> = HashMap::new();
    let mut rows = csv::Reader::from_reader(csv.as_bytes());
    assert_eq!(rows.headers().expect("a header"), &["url", "fetched_at", "sweep", "document", "cluster"][..]);
    for row in rows.records() {
        let row = row.expect("a row");
        clusters.entry(row[4].to_string()).or_default().insert(page_key(&row[0], &row[1], &row[2]));
    }
    clusters.into_values().collect()
}

pub fn page_key(url: &str, fetched_at: &str, sweep: &str) -> String {
    format!("{url} {fetched_at} {sweep}")
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The timeout of every wait: whatever takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a condition holds.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what}: timed out");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for a process to end by itself, and returns its status.
pub fn ended(process: &mut Child) -> ExitStatus {
    let begin = Instant::now();
    loop {
        if let Some(status) = process.try_wait().expect("a status") {
            return status;
        }
        if begin.elapsed() > PATIENCE {
            process.kill().expect("killed");
            panic!("it did not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends SIGTERM, as a supervisor does.
pub fn terminate(process: &Child) {
    let id = process.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill").success());
}

pub fn read_events(path: &Path) -> Vec<Event> {
    let lines = fs::read_to_string(path).expect("an events file");
    lines.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

/// The project's folder.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The pages of the shipped sample, a line each.
pub fn sample_lines() -> Vec<String> {
    let unpacked = |path: PathBuf| {
        let mut decoder = zstd::Decoder::new(fs::File::open(path).expect("a file")).expect("zstd");
        decoder.window_log_max(27).expect("a window");
        let mut text = String::new();
        decoder.read_to_string(&mut text).expect("text");
        text
    };
    sweeps().into_iter().flat_map(|path| unpacked(path).lines().map(String::from).collect::<Vec<_>>()).collect()
}

/// The three sweeps of the shipped sample.
pub fn sweeps() -> Vec<PathBuf> {
    ["1-2014-08-01", "2-2015-08-01", "3-2017-09-01"]
        .iter()
        .map(|sweep| root().join(format!("bench-data/sweep-{sweep}.jsonl.zst")))
        .collect()
}

/// A page in the JSONL format.
pub fn page(url: &str, fetched_at: &str, sweep: &str, body: &str) -> String {
    serde_json::json!({"url": url, "fetched_at": fetched_at, "sweep": sweep, "content_type": "text/plain", "body": body})
        .to_string()
}

/// Records of every kind: pages that are new, equal, changed and moved, what is no JSON, a redirect, a page that is gone, and one of a
/// type that is not read.
pub fn records_of_every_kind() -> Vec<String> {
    let words: String = (0..60).map(|at| format!("word{at} ")).collect();
    let record = |url: &str, rest: &str| format!(r#"{{"url":"{url}","fetched_at":"2026-01-02T00:00:00Z",{rest}}}"#);
    vec![
        page("http://a/1", "2026-01-01T00:00:00Z", "s", &words),
        page("http://a/2", "2026-01-01T00:00:00Z", "s", &words),
        "no JSON".into(),
        page("http://a/1", "2026-01-02T00:00:00Z", "t", &words.replace("word1 ", "other ")),
        record("http://a/2", r#""redirect_to":"http://a/3""#),
        record("http://a/1", r#""gone":true"#),
        record("http://a/4", r#""content_type":"image/png","body":"x""#),
        page("http://a/3", "2026-01-02T00:00:00Z", "t", &words),
    ]
}

/// A page of HTML in the JSONL format.
fn html_page(url: &str, fetched_at: &str, body: &str) -> String {
    serde_json::json!({"url": url, "fetched_at": fetched_at, "content_type": "text/html", "body": body}).to_string()
}

/// A world whose store holds a small site about baking and about stars, read for related pages. `/` links to each
/// page, and to `/focaccia`, where none was taken in; `/copy` is a copy of `/pizza`.
pub fn related_sample() -> World {
    related_sample_without(&[])
}

/// The same without some of its pages.
pub fn related_sample_without(left_out: &[&str]) -> World {
    let pizza = "<title>Pizza</title><p>Knead dough from flour, yeast and water. Add tomatoes, basil and mozzarella to \
                 the dough and bake the pizza in a hot oven until the crust browns.</p>";
    let bread = "<title>Bread</title><p>Knead dough from rye flour, yeast and salt. Proof the dough overnight and bake \
                 the bread in a hot oven until the crust sounds hollow.</p>";
    let planets = "<title>Planets</title><p>Saturn, Jupiter and Mars orbit the sun. A telescope shows the rings and \
                   moons of these planets in clear nights.</p>";
    let comets = "<title>Comets</title><p>Comets orbit the sun on long ellipses. A small telescope shows their tails \
                  in clear nights far from any city.</p>";
    let index = "<p>Our recipes: <a href=/pizza>baking pizza with yeast dough</a></p>\
                 <p>Also <a href=/bread>baking bread with rye flour</a></p>\
                 <p>And <a href=/focaccia>baking focaccia, flat bread from yeast dough</a></p>\
                 <p>At night: <a href=/planets>planets through a telescope</a></p>\
                 <p>Then <a href=/comets>comets through a telescope</a></p>";
    let pages = [("", index), ("pizza", pizza), ("bread", bread), ("planets", planets), ("comets", comets)];
    let pages = pages.into_iter().chain([("copy", pizza)]).filter(|(name, _)| !left_out.contains(name));
    let lines = pages.map(|(name, body)| html_page(&format!("http://site/{name}"), "2026-11-21T00:00:00Z", body));
    // In a few pages every word is frequent.
    let world = World::new().with("related.on", true).with("related.low_df", 1).with("related.high_df", 1.0);
    world.run(&[world.write("related.jsonl", lines.collect::<Vec<_>>().join("\n"))]);
    world
}

/// Checks what a consumer may rely on: dense sequence numbers from 0, one terminal event for each of the `n_records`
/// of each source, each loser merged once, and winners smaller than losers.
pub fn check_events(events: &[Event], n_records: &BTreeMap<String, i64>) {
    let mut terminal: BTreeMap<String, BTreeSet<i64>> = BTreeMap::new();
    let mut losers = BTreeSet::new();
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event.seq, number as u64, "the sequence is dense");
        if event.kind().is_terminal() {
            let is_first = terminal.entry(event.source.clone()).or_default().insert(event.offset);
            assert!(is_first, "{}@{} has two terminal events", event.source, event.offset);
        }
        if event.kind() == EventType::Merged {
            let (loser, winner) = (event.loser().expect("a loser"), event.winner().expect("a winner"));
            assert!(winner < loser && losers.insert(loser), "{loser} is merged twice or upwards");
        }
        if event.kind() == EventType::Split {
            losers.remove(&event.cluster().expect("a cluster"));
        }
    }
    let counted: BTreeMap<String, i64> =
        terminal.into_iter().map(|(source, offsets)| (source, offsets.len() as i64)).collect();
    assert_eq!(&counted, n_records);
}

/// Computes the clusters from the events alone.
pub fn fold(events: &[Event]) -> Partition {
    let mut winners = HashMap::new();
    let mut cluster_of = HashMap::new();
    for event in events {
        match event.kind() {
            EventType::Merged => {
                winners.insert(event.loser().expect("a loser"), event.winner().expect("a winner"));
            }
            EventType::Assigned => {
                let key = page_key(
                    event.url.as_deref().expect("a URL"),
                    &event.fetched_at.expect("a time").to_string(),
                    event.sweep.as_deref().unwrap_or(""),
                );
                cluster_of.insert((key, event.document()), event.cluster().expect("a cluster"));
            }
            EventType::Split => {
                winners.remove(&event.cluster().expect("a cluster"));
            }
            EventType::Reassigned => {
                let of_document = cluster_of.iter_mut().filter(|((_, document), _)| *document == event.document());
                of_document.for_each(|(_, cluster)| *cluster = event.cluster().expect("a cluster"));
            }
            _ => {}
        }
    }
    let mut clusters: HashMap<_, BTreeSet<String>> = HashMap::new();
    for ((key, _), mut cluster) in cluster_of {
        while let Some(winner) = winners.get(&cluster) {
            cluster = *winner;
        }
        clusters.entry(cluster).or_default().insert(key);
    }
    clusters.into_values().collect()
}
