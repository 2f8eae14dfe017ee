//! `backfill --links`: links that were found elsewhere give the clusters that they make, and only those that fit are taken.

use crate::harness::{World, root, sweeps, text};
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use lookalike::config::Config;
use lookalike::files::{LinkFooter, SketchFiles, link_schema};
use lookalike::ports::StoreRule;
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::KeyValue;
use serde_json::Value;
use std::collections::HashMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Output;
use std::sync::Arc;

type Link = (i64, i64, f64);

fn rule(profile: &[PathBuf]) -> StoreRule {
    Config::load_over(profile, HashMap::<String, String>::new()).expect("a configuration").rule()
}

/// A world with the sketches of the sample, and a store of the same pages with its links.
struct Sketched {
    world: World,
    rule: StoreRule,
    links: Vec<Link>,
    n_documents: u64,
}

impl Sketched {
    fn new(world: World, rule: StoreRule) -> Self {
        let mut command = world.command("backfill -q");
        assert!(command.args(sweeps()).status().expect("starts").success());
        let mut command = world.command_without_store("sketch -q");
        assert!(
            command.arg("--parquet").arg(world.path("sketches")).args(sweeps()).status().expect("starts").success()
        );
        let link = |line: &str| {
            let link: Value = serde_json::from_str(line).expect("JSON");
            let number = |name: &str| link[name].as_i64().expect("a number");
            (number("document"), number("to"), link["resemblance"].as_f64().expect("a share"))
        };
        let links = world.ask("export links --json", &[]).lines().map(link).collect();
        let n_documents =
            serde_json::from_str::<Value>(&world.ask("stats --json", &[])).expect("JSON")["n_documents"].as_u64();
        Sketched { rule, links, n_documents: n_documents.expect("a number"), world }
    }

    fn footer(&self) -> LinkFooter {
        let sketches = SketchFiles::open(&self.world.path("sketches")).expect("sketches");
        LinkFooter::new(sketches.digest().to_string(), self.rule.clone(), self.n_documents, self.links.len() as u64)
    }

    fn write(&self, links: &[Link], footer: &LinkFooter) {
        let numbers =
            |of: fn(&Link) -> i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values(links.iter().map(of))) };
        let resemblances = Float64Array::from_iter_values(links.iter().map(|link| link.2));
        let columns = vec![numbers(|link| link.0), numbers(|link| link.1), Arc::new(resemblances)];
        let batch = RecordBatch::try_new(link_schema(), columns);
        let file = File::create(self.world.path("links.parquet")).expect("a file");
        let mut writer = ArrowWriter::try_new(file, link_schema(), None).expect("a writer");
        writer.write(&batch.expect("columns")).expect("written");
        let (key, value) = footer.encode().expect("JSON");
        writer.append_key_value_metadata(KeyValue::new(key.to_string(), value));
        writer.close().expect("closed");
    }

    fn load(&self) -> Output {
        let mut command = self.world.command_on("backfill -q", &self.world.path("loaded"));
        command.arg("--from-sketches").arg(self.world.path("sketches"));
        command.arg("--links").arg(self.world.path("links.parquet")).output().expect("starts")
    }

    /// Refused with an exit code and a reason.
    fn refused(&self, code: i32, why: &str) {
        let output = self.load();
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{told}");
        assert!(told.contains(why), "{told} does not say {why}");
        assert!(!self.world.path("loaded").exists(), "{why}: a store is there");
        let work = self.world.path("loaded.backfill");
        assert!(code == 1 || !work.exists(), "{why}: a folder is left behind");
        let _ = fs::remove_dir_all(work);
    }

    fn ask_loaded(&self, question: &str) -> String {
        let output = self.world.command_on(question, &self.world.path("loaded")).output().expect("starts");
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    }
}

#[test]
fn links_give_the_store_that_the_search_for_pairs_gives() {
    let paper = root().join("config/paper-1997.toml");
    for (world, profile) in [(World::new(), vec![]), (World::new().with_config("paper-1997.toml"), vec![paper])] {
        let sketched = Sketched::new(world, rule(&profile));
        let mut links = sketched.links.clone();
        links.reverse();
        sketched.write(&links, &sketched.footer());
        let output = sketched.load();
        assert!(output.status.success(), "{}", text(&output.stderr));
        for question in ["export clusters", "export links --json", "export present --json", "sweep list"] {
            assert_eq!(sketched.world.ask(question, &[]), sketched.ask_loaded(question), "{question}");
        }
        sketched.ask_loaded("verify");
        // The stream goes on behind the inputs of the sketches.
        let events = sketched.world.path("again.jsonl");
        let mut run = sketched.world.command_on("run -q", &sketched.world.path("loaded"));
        assert!(run.arg("--events").arg(&events).args(sweeps()).status().expect("starts").success());
        assert_eq!(fs::read_to_string(events).unwrap_or_default(), "", "nothing is new");
    }
}

/// Lost if this fails: a store whose clusters nobody can explain, because its links are those of another crawl.
#[test]
fn links_that_do_not_fit_are_refused() {
    let sketched = Sketched::new(World::new(), rule(&[]));
    let (links, footer) = (sketched.links.clone(), sketched.footer());
    let n = sketched.n_documents as i64;

    sketched.refused(2, "links.parquet: No such file");
    sketched.world.write("links.parquet", "PAR1");
    sketched.refused(2, "cut or damaged");
    fs::copy(sketched.world.path("sketches/sketches-0000001.parquet"), sketched.world.path("links.parquet"))
        .expect("copied");
    sketched.refused(2, "another program wrote it");
    let mut other = footer.clone();
    other.sketches = "0".repeat(32);
    sketched.write(&links, &other);
    sketched.refused(2, "between documents of other sketches");
    let mut other = footer.clone();
    other.rule.cluster.threshold = 0.6;
    sketched.write(&links, &other);
    sketched.refused(2, "by another rule");
    let mut other = footer.clone();
    other.n_documents = 1 << 32;
    sketched.write(&links, &other);
    sketched.refused(2, "a store ends at 4294967295");

    sketched.write(&links[1..], &footer);
    sketched.refused(1, &format!("it holds {} of {} links", links.len() - 1, links.len()));
    let with = |at: usize, link: Link| {
        let mut links = links.clone();
        links[at] = link;
        sketched.write(&links, &footer);
    };
    let (later, earlier, resemblance) = links[3];
    for link in [(n + 1, earlier, resemblance), (later, 0, resemblance), (earlier, later, resemblance)] {
        with(3, link);
        sketched.refused(1, "there are no such documents, or not in this order");
    }
    for link in [(-1, earlier, resemblance), ((1 << 32) + later, earlier, resemblance)] {
        with(3, link);
        sketched.refused(1, "a row is no link");
    }
    with(3, (later, earlier, f64::from_bits(resemblance.to_bits() + 1)));
    sketched.refused(1, "the rule finds another resemblance");
    let stranger = (1..later).find(|other| links.iter().all(|link| link.0 != *other && link.1 != *other));
    with(3, (later, stranger.expect("a document without links"), resemblance));
    sketched.refused(1, "the rule finds another resemblance");
    with(3, links[4]);
    sketched.refused(1, "other links join the two already");

    sketched.write(&links, &footer);
    assert!(sketched.load().status.success());
}
