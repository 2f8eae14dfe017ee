//! `audit` names the clusters that a template or a chain made, and what takes them apart.

use crate::harness::{World, page, sweeps, text};
use serde_json::Value;
use std::fs;

/// Words that no other text has.
fn words(name: &str, from: usize, to: usize) -> String {
    (from..to).map(|n| format!("{name}{n} ")).collect()
}

fn audited(world: &World, arguments: &[&str]) -> Value {
    serde_json::from_str(&world.ask("audit --json", arguments)).expect("JSON")
}

/// A world with a template, a chain of versions, and a text that stands in twelve places.
fn world() -> World {
    let mut lines = Vec::new();
    let mut add = |url: String, body: String| lines.push(page(&url, "2026-11-01T00:00:00Z", "1", &body));
    for n in 0..12 {
        // Six of a hundred words are the page's own, twice under each name.
        let own = words(&format!("own{}x", n / 2), 0, 20) + &words(&format!("version{n}x"), 0, 2);
        add(format!("http://shop/{}/item-{}.html", n % 2, n / 2), words("frame", 0, 80) + &own);
        add(format!("http://mirror-{n}/news.html"), words("news", 0, 200) + &words(&format!("mirror{n}x"), 0, 2));
    }
    for n in 0..24 {
        // Each version drops ten words at the beginning and has ten new ones at the end.
        add(format!("http://docs/{n}/guide.html"), words("guide", 10 * n, 10 * n + 100));
    }
    let world = World::new();
    world.run(&[world.write("pages.jsonl", lines.join("\n"))]);
    world
}

/// Lost if this fails: people trust a cluster of hundreds of thousands of pages that have nothing but a menu in common, or
/// throw away a sound one.
#[test]
fn templates_and_chains_are_told_from_copies() {
    let world = world();
    let audit = audited(&world, &[]);
    let found = audit["clusters"].as_array().expect("clusters");
    assert_eq!((audit["n_suspicious"].as_u64(), found.len()), (Some(2), 2), "{audit}");
    let [template, chain] = &found[..] else { panic!("two") };
    assert_eq!((&template["finding"], &chain["finding"]), (&"template".into(), &"chain".into()));
    assert_eq!((&template["n_documents"], &template["n_names"]), (&12.into(), &6.into()));
    assert_eq!((&template["other_names"], &chain["other_names"]), (&0.83.into(), &0.0.into()));
    assert_eq!((&chain["top_name"], &chain["remedy"]["kind"]), (&"guide".into(), &"star".into()));
    assert_eq!(template["remedy"]["n_parts"], 6, "{template}");

    // The remedy does what it says.
    let threshold = template["remedy"]["threshold"].as_f64().expect("a threshold").to_string();
    let out = world.path("parts.csv");
    world.ask("recluster", &["--threshold", &threshold, "--out", out.to_str().expect("a path")]);
    let rows = fs::read_to_string(out).expect("a table");
    let parts: std::collections::BTreeSet<&str> =
        rows.lines().filter(|row| row.starts_with("http://shop/")).filter_map(|row| row.rsplit(',').next()).collect();
    assert_eq!(parts.len(), 6);

    // The two that are farthest apart are in the cluster, and so far apart.
    for row in found {
        let [a, b] = [0, 1].map(|at| row["farthest"][at].to_string());
        let explained: Value = serde_json::from_str(&world.ask("explain --json", &[&a, &b])).expect("JSON");
        assert_eq!(explained["connection"], "chain");
        assert_eq!(explained["comparison"]["resemblance"], row["farthest_resemblance"]);
        // What `explain` shows of short documents may be a hundredth or two below what decided.
        let [weakest, of_all] = [&explained["weakest"]["resemblance"], &row["weakest_link"]].map(Value::as_f64);
        assert!(weakest >= of_all.map(|share| share - 0.02), "{weakest:?} {of_all:?}");
    }
    assert_eq!(audited(&world, &["--min-documents", "13"])["n_suspicious"], 1);
    let limited = audited(&world, &["--limit", "1"]);
    assert_eq!((limited["n_suspicious"].as_u64(), limited["clusters"].as_array().map(Vec::len)), (Some(2), Some(1)));
}

#[test]
fn people_and_tables_are_answered() {
    let world = world();
    // Wrong once: without a row to show, no cluster was suspicious.
    assert_eq!(world.ask("audit --limit 0", &[]), "2 more; --limit shows them\n");
    let shown = world.ask("audit --limit 1", &[]);
    for part in [
        "12 documents of 6 names; 83 % have another than \"item-0\"",
        "lookalike explain ",
        "6 parts",
        "1 more; --limit",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let csv = world.ask("audit --format csv", &[]);
    assert!(csv.starts_with("cluster,finding,n_documents,"), "{csv}");
    assert_eq!(csv.lines().count(), 3);
    let sample = World::new();
    sample.run(&sweeps());
    let shown = sample.ask("audit", &[]);
    assert!(shown.lines().count() > 0, "{}", text(shown.as_bytes()));
}
