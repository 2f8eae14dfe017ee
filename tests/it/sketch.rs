//! `lookalike sketch`: pages sketched without a store, and the stated cost of a rule.

use crate::harness::{World, page, root, sweeps, text};
use lookalike::sketch::{SketchForm, decode};
use serde_json::Value;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const DAY: &str = "2026-11-21T00:00:00Z";

/// The command `sketch` without a store.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lookalike"));
    command.arg("sketch").args(arguments).stdin(Stdio::null());
    command
}

fn output(arguments: &[&str], inputs: &[PathBuf]) -> Output {
    command(arguments).args(inputs).output().expect("the program starts")
}

fn lines(bytes: &[u8]) -> Vec<Value> {
    text(bytes).lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn sketches(arguments: &[&str], inputs: &[PathBuf]) -> Vec<Value> {
    let output = output(&[&["--json"], arguments].concat(), inputs);
    assert!(output.status.success(), "{}", text(&output.stderr));
    lines(&output.stdout)
}

fn words(n: usize) -> String {
    (0..n).map(|n| format!("word{n} ")).collect()
}

fn config(name: &str) -> String {
    root().join("config").join(name).display().to_string()
}

#[test]
fn every_page_of_the_sample_has_a_line_and_its_bytes_are_its_sketch() {
    let forms = |arguments: &[&str]| {
        let pages = sketches(arguments, &sweeps());
        assert_eq!(pages.len(), 646);
        for page in &pages {
            let bytes = bytes_of(&page["encoded"]);
            let sketch = decode(&bytes).expect("a sketch");
            assert_eq!(
                (page["n_encoded_bytes"].as_u64(), page["n_shingles"].as_u64()),
                (Some(bytes.len() as u64), Some(sketch.n_shingles.into()))
            );
            let shown = match &sketch.form {
                SketchForm::Sample { values, .. } => serde_json::json!(hex(values, 10)),
                SketchForm::Whole(tops) => serde_json::json!(hex(tops, 4)),
                SketchForm::Parity(words) => {
                    Value::from(hex(words.iter().flat_map(|word| word.to_le_bytes()), 2).concat())
                }
            };
            assert_eq!(if page["form"] == "parity" { &page["bits"] } else { &page["values"] }, &shown);
        }
        let mut forms: Vec<String> = pages.iter().map(|page| page["form"].to_string()).collect();
        forms.sort();
        forms.dedup();
        forms
    };
    assert_eq!(forms(&[]), ["\"parity\"", "\"whole\""]);
    assert_eq!(forms(&["--config", &config("accurate.toml")]), ["\"sample\""]);
    let shown = text(&output(&[], &sweeps()).stdout);
    assert_eq!(shown.lines().count(), 1 + 646);
}

/// The pages themselves give the sum of the bodies' bytes.
#[test]
fn timing_counts_all_pages() {
    let n_bytes: usize = sweeps()
        .iter()
        .flat_map(|path| lines(&zstd::decode_all(std::fs::File::open(path).expect("a sweep")).expect("zstd")))
        .map(|page| page["body"].as_str().expect("a body").len())
        .sum();
    let [timing] = &sketches(&["--time"], &sweeps())[..] else { panic!("one object") };
    assert_eq!(timing["n_pages"], 646);
    assert_eq!(timing["n_bytes"], n_bytes);
    assert_eq!(timing["n_others"], 0);
    let seconds = |name: &str| timing[name].as_f64().expect("seconds");
    assert!(0.0 < seconds("sketching_seconds") && seconds("sketching_seconds") < seconds("seconds"), "{timing}");
    let shown = text(&output(&["--time"], &sweeps()).stdout).to_string();
    assert!(shown.starts_with("646 pages") && shown.lines().count() == 3, "{shown}");
}

fn hex<T: std::fmt::LowerHex>(numbers: impl IntoIterator<Item = T>, width: usize) -> Vec<String> {
    numbers.into_iter().map(|number| format!("{number:0width$x}")).collect()
}

fn bytes_of(hex: &Value) -> Vec<u8> {
    let hex = hex.as_str().expect("text");
    (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hexadecimal")).collect()
}

#[test]
fn the_seed_is_public_unless_configured_or_the_store_s() {
    let world = World::new();
    let input = world.write("pages.jsonl", page("http://a/", DAY, "s", &words(30)) + "\n");
    let inputs = std::slice::from_ref(&input);
    let open = sketches(&[], inputs);
    let zeros = command(&["--json"]).args(inputs).env("LOOKALIKE__STORE__SEED", "0".repeat(64)).output();
    assert_eq!(lines(&zeros.expect("starts").stdout), open);

    let of_world = |arguments: &[&str]| lines(world.ask("sketch --json", arguments).as_bytes());
    let missing = world.command("sketch").arg(&input).output().expect("starts");
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("there is no store"), "{}", text(&missing.stderr));
    world.run(inputs);
    // A named store ignores the rule in the configuration.
    let of_store = of_world(&["--config", &config("accurate.toml"), input.to_str().expect("a path")]);
    let seeded = command(&["--json"]).args(inputs).env("LOOKALIKE__STORE__SEED", format!("{:064x}", 7)).output();
    assert_eq!(lines(&seeded.expect("starts").stdout), of_store);
    assert_ne!(of_store[0]["values"], open[0]["values"]);
    assert_eq!(of_store[0]["form"], "whole");
    assert!(!of_store[0].to_string().contains(&format!("{:064x}", 7)), "the seed is secret");
}

#[test]
fn rejected_and_unreadable_records_are_reported() {
    let world = World::new();
    let features: Vec<String> = (0..30).map(|n| format!("f{n}")).collect();
    let records = [
        page("http://a/", DAY, "s", &words(30)),
        serde_json::json!({"url": "http://f/", "fetched_at": DAY, "features": features}).to_string(),
        serde_json::json!({"url": "http://g/", "fetched_at": DAY, "body": null}).to_string(),
        serde_json::json!({"url": "http://b/", "fetched_at": DAY, "http_status": 500, "body": "x"}).to_string(),
        "{".into(),
        page("http://s/", DAY, "s", "too short"),
    ];
    let input = world.write("pages.jsonl", records.map(|record| record + "\n").concat());
    let found = sketches(&[], std::slice::from_ref(&input));
    assert_eq!(
        (&found[0]["n_words"], &found[0]["n_shingles"], &found[0]["n_kept"]),
        (&30.into(), &21.into(), &21.into())
    );
    assert_eq!((&found[1]["url"], &found[1]["n_shingles"]), (&"http://f/".into(), &30.into()));
    assert_eq!(found[2], serde_json::json!({"url": "http://g/", "gone": true}));
    assert_eq!((&found[3]["url"], &found[3]["rejected"]), (&"http://b/".into(), &"http-status".into()));
    assert_eq!(
        (&found[4]["url"], &found[4]["rejected"], &found[4]["offset"]),
        (&Value::Null, &"invalid-json".into(), &4.into())
    );
    assert_eq!((&found[5]["n_shingles"], &found[5]["equivalences"]["shingle"]), (&0.into(), &Value::Null));

    let shown = output(&[], &[world.write("cut.gz", [0x1f, 0x8b, 8, 0]), input.clone()]);
    assert_eq!(shown.status.code(), Some(3));
    assert!(text(&shown.stderr).contains("cut.gz"), "{}", text(&shown.stderr));
    let shown = text(&shown.stdout);
    assert_eq!(shown.lines().count(), 7, "{shown}");
    assert!(shown.contains("rejected  http-status: HTTP status 500 brings no page  http://b/"), "{shown}");
    assert!(shown.contains(&format!("{}: record 4", input.display())), "{shown}");
}

#[test]
fn a_file_or_a_pipe_can_be_one_page() {
    let world = World::new();
    let html = world.write("a.html", format!("<!doctype html><title>x</title><p>{}", words(30)));
    let text_of_it = world.write("a.txt", format!("x {}", words(30)));
    let binary = world.write("b.txt", [1, 2, 3, 4]);
    let found = sketches(&["--page"], &[html.clone(), text_of_it, binary]);
    assert_eq!(found[0]["url"], html.display().to_string());
    assert_eq!(found[0]["equivalences"]["lexical"], found[1]["equivalences"]["lexical"]);
    assert_ne!(found[0]["equivalences"]["identical"], found[1]["equivalences"]["identical"]);
    assert_eq!(found[2]["rejected"], "not-text");

    let mut limited = command(&["--page", "--json"]);
    limited.env("LOOKALIKE__LIMITS__BODY_BYTES_MAX", "1000");
    let large = limited.arg(world.write("large.txt", words(1000))).output().expect("starts");
    assert_eq!(large.status.code(), Some(0));
    assert_eq!(lines(&large.stdout)[0]["rejected"], "too-large");
    assert_eq!(output(&["--page"], &[world.path("missing")]).status.code(), Some(2));

    let mut process =
        command(&["--page", "--json"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
    process.stdin.take().expect("a pipe").write_all(words(100).as_bytes()).expect("piped");
    let piped = lines(&process.wait_with_output().expect("ended").stdout);
    assert_eq!(piped[0]["n_words"], 100);
}

#[test]
fn a_rule_is_explained() {
    let explain = |name: &str| {
        let found = sketches(&["--explain", "--config", &config(name)], &[]);
        assert_eq!(found.len(), 1);
        found[0].clone()
    };
    let at = |explained: &Value, n: usize, r: f64| -> Value {
        let find = |list: &Value, key: &str, value: Value| {
            list.as_array().expect("a list").iter().find(|one| one[key] == value).expect("it is there").clone()
        };
        find(&find(&explained["sizes"], "n_shingles", n.into())["at"], "resemblance", r.into())
    };
    let paper = explain("paper-1997.toml");
    assert_eq!(paper["sizes"].as_array().map(Vec::len), Some(7));
    assert_eq!(paper["sizes"][3]["shingles_kept"], 40);
    // The union has 2000 / 1.6 shingles, of which one in 25 is compared.
    let likely = at(&paper, 1000, 0.6);
    assert_eq!(likely["n_compared"], 50);
    let error = likely["standard_error"].as_f64().expect("a number");
    assert!((error - (0.6f64 * 0.4 / 50.0).sqrt()).abs() < 1e-12, "{error}");
    // Sums over C(50, k) 0.6^k 0.4^(50-k), in exact fractions.
    for (key, expected) in [("wrong_side", 0.05734376054220036), ("within_epsilon", 0.5291412455702259)] {
        let found = likely[key].as_f64().expect("a number");
        assert!((found - expected).abs() < 1e-9, "{key}: {found}");
    }
    assert_eq!(at(&explain("exact.toml"), 20_000, 0.45)["wrong_side"], 0.0);
    assert_eq!(explain("default.toml")["sizes"][5]["bits_kept"], 8192);
    let accurate = explain("accurate.toml");
    assert_eq!(at(&accurate, 2000, 0.45)["within_epsilon"], 1.0);
    assert_eq!(accurate["sizes"][5]["shingles_kept"], 2500);

    let shown = text(&output(&["--explain", "--config", &config("paper-1997.toml")], &[]).stdout);
    let row = shown.lines().find(|line| line.starts_with("    1000 ")).expect("a row");
    assert!(row.contains("40 shingles") && row.contains("5.73 %"), "{shown}");
    let refused = output(&["--explain"], &[Path::new("pages.jsonl").to_path_buf()]);
    assert_eq!(refused.status.code(), Some(2));
}
