//! Related pages on the command line: a build, its rows, its table, its samples and its scores.

use crate::harness::{World, text};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Output;

const DAY: &str = "2026-11-21T00:00:00Z";

fn page(url: &str, body: &str) -> String {
    serde_json::json!({"url": url, "fetched_at": DAY, "content_type": "text/html", "body": body}).to_string() + "\n"
}

/// Six pages of two topics, and one of none. Each links to those of its topic.
fn pages() -> String {
    let topics = [
        ("roses", ["pruning", "hybrid", "thorns"], "garden rose petals blossom shrub fragrance trellis"),
        ("engines", ["piston", "turbine", "throttle"], "motor crankshaft cylinder exhaust gearbox ignition torque"),
    ];
    let mut lines = String::new();
    for (topic, names, words) in topics {
        let links: String =
            names.iter().map(|name| format!("{words} <a href=/{topic}/{name}>{topic} {name}</a> {words} ")).collect();
        for name in names {
            let body = format!("<title>{topic} {name}</title><p>{words} {links}");
            lines += &page(&format!("http://a.example/{topic}/{name}"), &body);
        }
    }
    lines + &page("http://b.example/", "unlike anything else whatsoever")
}

fn build(world: &World, input: &Path, arguments: &[&str]) -> Output {
    let mut command = world.command("related build");
    command.arg(input).arg("--out").arg(world.path("related")).args(arguments);
    command.output().expect("the program starts")
}

/// A world in which frequent terms count, because there are few URLs.
fn world() -> World {
    World::new().with("related.high_df", 0.9)
}

fn rows(path: PathBuf) -> Vec<Vec<String>> {
    let mut rows = csv::Reader::from_path(path).expect("a file");
    rows.records().map(|row| row.expect("a row").iter().map(String::from).collect()).collect()
}

#[test]
fn pages_of_one_topic_are_related() {
    let world = world();
    let input = world.write("pages.jsonl", pages());
    let output = build(&world, &input, &["--bags", "--nearest", "1"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("7 pages of 1 file in "), "{}", text(&output.stderr));

    let neighbours = rows(world.path("related/neighbours.csv"));
    assert_eq!(neighbours.len(), 2 * 3, "the nearest of each: {neighbours:?}");
    let topic = |url: &str| url.split('/').nth(3).map(String::from);
    for row in &neighbours {
        assert_eq!(topic(&row[0]), topic(&row[1]));
        assert!(row[2].parse::<f64>().is_ok_and(|similarity| (0.2..=1.0).contains(&similarity)), "{row:?}");
    }
    let centers = rows(world.path("related/centers.csv"));
    let distinct: BTreeSet<&String> = centers.iter().map(|row| &row[1]).collect();
    let expected = ["http://a.example/engines/piston", "http://a.example/roses/hybrid"];
    assert_eq!(centers.len(), 6, "{centers:?}");
    assert_eq!(distinct.into_iter().collect::<Vec<_>>(), expected);
    let bags = std::fs::read_to_string(world.path("related/bags.jsonl")).expect("bags");
    for line in bags.lines() {
        let bag: Value = serde_json::from_str(line).expect("JSON");
        let weights = bag["bag"].as_object().expect("a bag").values();
        assert_eq!(weights.map(|weight| weight.as_u64().expect("a weight")).sum::<u64>(), 100, "{line}");
        // Terms were written as numbers once, which say nothing to people.
        let (own, other) = if line.contains("/roses/") { ("petals", "piston") } else { ("crankshaft", "petals") };
        assert!(bag["bag"][own].is_u64() && bag["bag"][other].is_null(), "{line}");
    }

    let out = world.path("related");
    let table = world.ask("related table", &[out.to_str().expect("text")]);
    for part in ["CENTER", "277.7", "7 pages describe 6 URLs", "the largest of 3"] {
        assert!(table.contains(part), "{table}");
    }
    let report: Value =
        serde_json::from_str(&world.ask("related table --json", &[out.to_str().expect("text")])).expect("JSON");
    assert_eq!((&report["sizes"]["pairs"], &report["sizes"]["largest"]), (&6.into(), &3.into()));
    let sampled = world.ask("related sample", &[out.to_str().expect("text"), "--n", "2"]);
    let shown: Vec<&str> = sampled.lines().filter(|line| !line.starts_with(' ')).collect();
    assert_eq!(shown, ["http://a.example/engines/piston", "http://a.example/roses/hybrid"], "{sampled}");
    assert_eq!(sampled.lines().count(), 2 * 3, "{sampled}");
}

#[test]
fn classes_score_a_build() {
    let world = world();
    let input = world.write("pages.jsonl", pages());
    assert!(build(&world, &input, &["-q"]).status.success());
    let classes: String = rows(world.path("related/centers.csv"))
        .iter()
        .map(|row| format!("{},{}\n", row[0], row[0].split('/').nth(3).expect("a topic")))
        .collect();
    let classes = world.write("classes.csv", format!("url,class\n{classes}"));
    let queries = world.write("queries.txt", "http://a.example/roses/thorns\nhttp://nowhere.example/\n");
    let arguments = |more: &[&str]| {
        let mut arguments = vec![world.path("related").display().to_string(), "--classes".into()];
        arguments.push(classes.display().to_string());
        arguments.extend(more.iter().map(ToString::to_string));
        arguments
    };
    let ask = |more: &[&str]| {
        let arguments = arguments(more);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        serde_json::from_str::<Value>(&world.ask("related evaluate --json", &arguments)).expect("JSON")
    };
    let scores = ask(&[]);
    let expected = serde_json::json!({"queries": 6, "coverage": 1.0, "P@10": 0.2, "sibling_D": 1.0, "gamma": 1.0});
    assert_eq!(scores, expected);
    assert_eq!(ask(&["--queries", queries.to_str().expect("text")])["queries"], 1);
}

#[test]
fn wrong_usage_changes_nothing() {
    let world = world();
    let input = world.write("pages.jsonl", pages());
    let missing = build(&world, &world.path("missing.jsonl"), &[]);
    assert_eq!(missing.status.code(), Some(2), "{}", text(&missing.stderr));
    assert!(!world.path("related").exists());
    let out = world.path("related");
    let unbuilt = world.command("related table").arg(&out).output().expect("starts");
    assert_eq!(unbuilt.status.code(), Some(2));
    assert!(text(&unbuilt.stderr).contains("holds no finished build"), "{}", text(&unbuilt.stderr));
    assert!(build(&world, &input, &["--json"]).status.success());
    assert!(out.join("neighbours.jsonl").exists());
    let again = build(&world, &input, &[]);
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("holds a finished build"), "{}", text(&again.stderr));
    let mut command = world.command("related build");
    command.arg(world.write("bad.jsonl", "{}\n")).arg("--out").arg(world.path("other"));
    let rejected = command.output().expect("starts");
    assert_eq!(rejected.status.code(), Some(3), "{}", text(&rejected.stderr));
}
