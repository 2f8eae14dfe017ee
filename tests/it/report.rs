//! `report` counts what the tables hold, and shows it to a person on any screen.

use crate::harness::browser::Browser;
use crate::harness::{World, page, sweeps, text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

fn rows(jsonl: &str) -> Vec<Value> {
    jsonl.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn reported(world: &World, arguments: &[&str]) -> String {
    let out = world.path("report.html");
    world.ask("report", &[&["--out", out.to_str().expect("a path")], arguments].concat());
    fs::read_to_string(out).expect("a report")
}

/// The number beside a name.
fn fact(html: &str, name: &str) -> u64 {
    let (_, after) = html.split_once(&format!("<dt>{name}</dt><dd>")).expect(name);
    after.split('<').next().expect("a number").replace('\u{202f}', "").parse().expect("a number")
}

fn sample() -> World {
    let world = World::new();
    world.run(&sweeps());
    world.ask("sweep close", &["3-2017-09-01"]);
    world
}

/// Lost if this fails: what people decide by the report.
#[test]
fn the_report_counts_what_the_tables_hold() {
    let world = sample();
    let present = rows(&world.ask("export present --json", &[]));
    let moves = rows(&world.ask("export moves --json", &[]));
    for host in [None, Some("docs.npm.example")] {
        let of_host = |row: &&Value| {
            let url = row["url"].as_str().expect("a URL");
            host.is_none_or(|host| url.starts_with(&format!("https://{host}/")))
        };
        let mut clusters: BTreeMap<u64, BTreeSet<&str>> = BTreeMap::new();
        for row in present.iter().filter(of_host).filter(|row| row["state"] == "page") {
            let url = row["url"].as_str().expect("a URL");
            clusters.entry(row["cluster"].as_u64().expect("a cluster")).or_default().insert(url);
        }
        let arguments: Vec<&str> = host.into_iter().flat_map(|host| ["--host", host]).collect();
        let html = reported(&world, &arguments);
        let n_pages: usize = clusters.values().map(BTreeSet::len).sum();
        let of_several = clusters.values().filter(|urls| urls.len() > 1);
        for (name, expected) in [
            ("pages that stand", n_pages),
            ("duplicates among them", n_pages - clusters.len()),
            ("clusters of duplicates", of_several.clone().count()),
            ("URLs gone, lost or redirected", moves.iter().filter(of_host).count()),
            (
                "of which the content stands elsewhere",
                moves.iter().filter(of_host).filter(|row| !row["to"].is_null()).count(),
            ),
        ] {
            assert_eq!(fact(&html, name), expected as u64, "{name} of {host:?}");
        }
        let largest = of_several.map(BTreeSet::len).max().unwrap_or_default();
        let shown = format!("</details></td><td class=\"number\">{largest}</td>");
        assert!(largest == 0 || html.contains(&shown), "the largest cluster has {largest} pages");
    }
    assert!(fact(&reported(&world, &[]), "of which the content stands elsewhere") > 10);
}

/// Lost once: of more sweeps than a chart has room for, the newest, without a word.
#[test]
fn a_chart_of_many_sweeps_shows_the_newest_and_says_so() {
    let world = World::new();
    let mut pages = Vec::new();
    for n in 0..43 {
        let at = format!("2026-{:02}-{:02}T00:00:00Z", 1 + n / 28, 1 + n % 28);
        let words = |name: &str| (0..12).map(|word| format!("{name}{word} ")).collect::<String>();
        // Twice on the first host, so that it is the largest.
        pages.push(page("http://first/", &at, &format!("s{n:02}"), &words("first")));
        pages.push(page(&format!("http://first/{n}"), &at, &format!("s{n:02}"), &words("second")));
        pages.push(page(&format!("http://h{n:02}/"), &at, &format!("s{n:02}"), &words("third")));
    }
    world.run(&[world.write("pages.jsonl", pages.join("\n"))]);
    let chart = |by: &str| {
        let path = world.path("chart.svg");
        world.ask("changes", &["--by", by, "--svg", path.to_str().expect("a path")]);
        fs::read_to_string(path).expect("a chart")
    };
    for drawn in [chart("sweep"), reported(&world, &[])] {
        assert!(drawn.contains("The newest 40 of 43 sweeps"), "{drawn}");
        for (name, is_shown) in [("s00", false), ("s02", false), ("s03", true), ("s42", true)] {
            assert_eq!(drawn.contains(&format!("{name} births")), is_shown, "{name}");
        }
    }
    let hosts = chart("host");
    assert!(hosts.contains("The 40 hosts with most URLs, of 44"), "{hosts}");
    for (name, is_shown) in [("first", true), ("h00", true), ("h38", true), ("h39", false), ("h42", false)] {
        assert_eq!(hosts.contains(&format!("{name} births")), is_shown, "{name}");
    }
}

/// Lost if this fails: whoever can write a URL can write on the page of somebody else.
#[test]
fn no_url_becomes_markup_or_script() {
    let world = World::new();
    let text = "one two three four five six seven eight nine ten eleven twelve";
    let urls =
        ["http://a/<script>alert(1)</script>", "javascript:alert(1)", "http://a/\"onload=\"alert(1)", "http://b/&lt;"];
    let lines: Vec<String> = urls.iter().map(|url| page(url, "2026-11-01T00:00:00Z", "1", text)).collect();
    world.run(&[world.write("pages.jsonl", lines.join("\n"))]);
    let html = reported(&world, &[]);
    assert_eq!(fact(&html, "duplicates among them"), 3);
    for wrong in ["<script", "href=\"javascript", "\"onload", "<link", "<img", " src=", "@import", "url("] {
        assert!(!html.contains(wrong), "{wrong}");
    }
    assert!(html.contains("javascript:alert(1)"), "it is shown as text");
}

/// Lost if this fails: a person with a telephone, or with a dark screen.
#[test]
fn the_report_is_readable_on_any_screen() {
    let Some(browser) = Browser::start() else { return };
    let world = sample();
    reported(&world, &[]);
    let url = format!("file://{}", world.path("report.html").display());
    for (scheme, width) in [("light", 1280), ("dark", 1280), ("light", 390), ("dark", 390)] {
        browser.emulate(scheme, width);
        browser.open(&url);
        assert_eq!(browser.texts("h1"), ["This crawl: duplicates and moves"]);
        let overflow =
            browser.script("return document.documentElement.scrollWidth - document.documentElement.clientWidth");
        assert_eq!(overflow, 0, "{width} pixels");
        assert!(browser.texts("h2").len() >= 5, "{:?}", browser.texts("h2"));
        assert!(browser.script("return document.querySelectorAll('svg rect').length").as_u64() > Some(10));
    }
    browser.click("details summary");
    assert_eq!(browser.script("return document.querySelector('details').open"), true);
}

/// Lost once: on paper, all pages of a cluster but the first, because what is folded stayed folded.
#[test]
fn paper_has_every_page_of_a_cluster() {
    let Some(browser) = Browser::start() else { return };
    let world = sample();
    reported(&world, &[]);
    browser.open(&format!("file://{}", world.path("report.html").display()));
    assert_eq!(browser.script("return document.querySelectorAll('details[open]').length"), 0, "folded on the screen");
    let others = browser.script("return [...document.querySelectorAll('details li a')].map(link => link.href)");
    let others: Vec<String> = serde_json::from_value(others).expect("URLs");
    assert!(others.len() >= 5, "{others:?}");
    // The text of a PDF is compressed. The targets of its links are not, and only what is seen is a link.
    let pdf = browser.print();
    let pdf = String::from_utf8_lossy(&pdf);
    for url in &others {
        assert!(pdf.contains(&format!("/URI ({url})")), "{url}");
    }
}

#[test]
fn what_cannot_be_written_is_said() {
    let world = World::new();
    world.run(&sweeps()[..1]);
    let output = world.command("report").arg("--out").arg(world.path("no/folder.html")).output().expect("starts");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("folder.html"), "{}", text(&output.stderr));
}
