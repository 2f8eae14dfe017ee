//! `explain`: the chain of links between two pages, held against a plain search over `export links`.

use crate::harness::server::{Server, encoded};
use crate::harness::{World, page, sweeps, text};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};

const DAY: &str = "2026-11-01T00:00:00Z";

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect(text)
}

/// Document → its neighbours and the resemblance of each link, from `export links`.
type Links = BTreeMap<u64, Vec<(u64, f64)>>;

fn exported_links(world: &World) -> Links {
    let mut links = Links::new();
    for line in world.ask("export links --json", &[]).lines() {
        let link = parsed(line);
        let [a, b] = ["document", "to"].map(|name| link[name].as_u64().expect("a document"));
        let resemblance = link["resemblance"].as_f64().expect("a resemblance");
        links.entry(a).or_default().push((b, resemblance));
        links.entry(b).or_default().push((a, resemblance));
    }
    links
}

/// The only way from one document to another, by depth: each step's document and its link's resemblance.
fn way(links: &Links, from: u64, to: u64, came_from: u64) -> Option<Vec<(u64, f64)>> {
    if from == to {
        return Some(Vec::new());
    }
    links.get(&from)?.iter().filter(|(next, _)| *next != came_from).find_map(|(next, resemblance)| {
        let rest = way(links, *next, to, from)?;
        Some([vec![(*next, *resemblance)], rest].concat())
    })
}

/// Document → its cluster and a URL at which it is the newest page.
fn documents(world: &World) -> BTreeMap<u64, (u64, Option<String>)> {
    let (mut documents, mut newest) = (BTreeMap::new(), HashMap::new());
    for line in world.ask("export clusters --json", &[]).lines() {
        let row = parsed(line);
        let [document, cluster] = ["document", "cluster"].map(|name| row[name].as_u64().expect("a number"));
        documents.insert(document, (cluster, None));
        let moment = (row["fetched_at"].to_string(), row["sweep"].to_string(), document);
        let seen = newest.entry(row["url"].as_str().expect("a URL").to_string()).or_insert_with(|| moment.clone());
        *seen = moment.max(seen.clone());
    }
    for (url, (_, _, document)) in newest {
        documents.entry(document).and_modify(|(_, place)| *place = Some(url));
    }
    documents
}

fn hundredths(share: f64) -> f64 {
    (share * 100.0).round() / 100.0
}

/// Explains every pair of documents of the largest clusters, and some of different clusters; returns the longest chain.
fn check_all_pairs(world: &World, server: &Server) -> usize {
    let (links, documents) = (exported_links(world), documents(world));
    let mut clusters: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    documents.iter().for_each(|(document, (cluster, _))| clusters.entry(*cluster).or_default().push(*document));
    let mut clusters: Vec<Vec<u64>> = clusters.into_values().collect();
    clusters.sort_by_key(|members| std::cmp::Reverse(members.len()));
    let mut longest = 0;
    for members in clusters.iter().take(3).filter(|members| members.len() > 1) {
        let ends = [members[0], members[members.len() / 2]];
        for (a, b) in ends.iter().flat_map(|a| members.iter().rev().take(12).map(|b| (*a, *b))) {
            let answer = explained(server, &a.to_string(), &b.to_string());
            let path = way(&links, a, b, 0).unwrap_or_else(|| panic!("no links between {a} and {b}"));
            let steps = answer["links"].as_array().expect("links");
            let found: Vec<u64> = steps.iter().map(|link| link["to"].as_u64().expect("a document")).collect();
            assert_eq!(found, path.iter().map(|(document, _)| *document).collect::<Vec<_>>(), "from {a} to {b}");
            // Wrong once: of short documents the answer revealed the bits that decide, which `compare` keeps.
            for (link, (_, resemblance)) in steps.iter().zip(&path) {
                let shown = link["resemblance"].as_f64().expect("a share");
                let of = format!("/v1/compare?a={}&b={}", link["from"], link["to"]);
                let compared = server.get(&of).json()["resemblance"].as_f64().expect("a share");
                assert_eq!(shown, hundredths(compared), "{link}");
                assert!((shown - resemblance).abs() < 0.05, "{link}: {resemblance}");
            }
            let joined: Vec<u64> = steps.iter().filter_map(|link| link["from"].as_u64()).collect();
            let starts: Vec<u64> =
                [a].into_iter().chain(path.iter().map(|(document, _)| *document)).take(path.len()).collect();
            assert_eq!(joined, starts, "from {a} to {b}");
            assert_eq!(answer["connection"], if a == b { "same-document" } else { "chain" });
            let weakest = path.iter().map(|(_, r)| *r).fold(f64::INFINITY, f64::min);
            match path.len() {
                0 => assert_eq!(answer["weakest"], Value::Null),
                _ => {
                    let at = path.iter().position(|(_, resemblance)| *resemblance == weakest).expect("a link");
                    assert_eq!(answer["weakest"], steps[at], "{answer}");
                }
            }
            longest = longest.max(path.len());
        }
    }
    let [one, other] = [clusters[0][0], clusters[1][0]];
    let apart = explained(server, &one.to_string(), &other.to_string());
    assert_eq!(
        (&apart["connection"], &apart["links"], &apart["weakest"]),
        (&json!("other-cluster"), &json!([]), &Value::Null)
    );
    assert_ne!(apart["a"]["cluster"], apart["b"]["cluster"]);
    longest
}

/// The answer over HTTP.
fn explained(server: &Server, a: &str, b: &str) -> Value {
    let response = server.get(&format!("/v1/explain?a={}&b={}", encoded(a), encoded(b)));
    let mut answer = response.json();
    assert_eq!(response.status, 200, "{answer}");
    answer.as_object_mut().expect("an object").remove("seq");
    answer
}

/// The chains of a store that a stream filled, and of its clusters by other rules: stars among them, whose links are not
/// those of the stream, and clusters by containment.
#[test]
fn chains_are_those_of_the_exported_links() {
    let world = World::new();
    world.run(&sweeps());
    let server = Server::open(&world);
    assert!(check_all_pairs(&world, &server) > 3, "the sample has no long chain");
    drop(server);
    let out = world.path("out.csv").display().to_string();
    for rule in [
        ["--threshold", "0.5", "--policy", "star"],
        ["--threshold", "0.4", "--policy", "greedy"],
        ["--threshold", "0.3", "--containment", "0.8"],
    ] {
        world.ask("recluster --apply", &[&["--out", &out], &rule[..]].concat());
        let server = Server::open(&world);
        let longest = check_all_pairs(&world, &server);
        assert!(rule[3] != "star" || (1..=2).contains(&longest), "{rule:?}: a chain of {longest} links in a star");
    }
}

/// Wrong once: of short documents the answer revealed the bits that decide, which `compare` keeps.
#[test]
fn places_of_lost_pages_are_compared_as_everywhere() {
    let world = World::new();
    world.run(&sweeps());
    let server = Server::open(&world);
    let urls: BTreeSet<String> = documents(&world).into_values().filter_map(|(_, url)| url).collect();
    let list = world.write("urls", urls.iter().map(|url| format!("{url}\n")).collect::<String>());
    let mut n_compared = 0;
    for answer in world.ask("query lost --json", &["--urls-from", list.to_str().expect("a path")]).lines().map(parsed) {
        let copy = &answer["last_seen"]["document"];
        for place in answer["details"].as_array().expect("places") {
            let (Some(shown), false) = (place["resemblance"].as_f64(), place["document"] == *copy) else { continue };
            let compared = server.get(&format!("/v1/compare?a={copy}&b={}", place["document"])).json();
            assert_eq!(shown, hundredths(compared["resemblance"].as_f64().expect("a share")), "{place}");
            assert_eq!(place["error"], compared["error"], "{place}");
            n_compared += 1;
        }
    }
    assert!(n_compared > 20, "{n_compared} places are too few");
}

/// Pages a – ab – b: the first and the last share nothing but a neighbour.
pub fn bridged() -> World {
    let world = World::new().with("cluster.threshold", 0.3);
    let words = |name: &str, n: u32| (0..n).map(|at| format!("{name}{at} ")).collect::<String>();
    let pages = [
        page("http://a/", DAY, "s", &words("a", 40)),
        page("http://b/", DAY, "s", &words("b", 60)),
        page("http://ab/", DAY, "s", &(words("a", 40) + &words("b", 60))),
        page("http://c/", DAY, "s", &words("c", 40)),
        page("http://copy/", DAY, "s", &words("a", 40)),
        page("http://short/", DAY, "s", "three words only"),
        json!({"url": "http://gone/", "fetched_at": DAY, "body": null}).to_string(),
    ];
    world.run(&[world.write("pages.jsonl", pages.join("\n"))]);
    world
}

#[test]
fn the_command_names_the_weakest_link_first() {
    let world = bridged();
    let answer = parsed(&world.ask("explain --json", &["http://a/", "http://b/"]));
    assert_eq!(answer["connection"], "chain");
    let steps: Vec<_> =
        answer["links"].as_array().expect("links").iter().map(|link| (&link["from"], &link["to"])).collect();
    assert_eq!(steps, [(&json!(1), &json!(3)), (&json!(3), &json!(2))]);
    assert_eq!(answer["weakest"], answer["links"][0]);
    assert_eq!(answer["links"][0]["kind"], "near");
    assert_eq!(
        (&answer["links"][0]["from_url"], &answer["links"][0]["to_url"]),
        (&json!("http://a/"), &json!("http://ab/"))
    );
    let direct = parsed(&world.ask("query compare --json", &["http://a/", "http://b/"]));
    assert_eq!(answer["comparison"], direct);
    assert!(direct["resemblance"].as_f64().expect("a share") < 0.05, "{direct}");
    let server = Server::open(&world);
    assert_eq!(explained(&server, "http://a/", "http://b/"), answer);
    let by_number = parsed(&world.ask("explain --json", &["1", "2"]));
    assert_eq!(by_number["links"][1], answer["links"][1]);
    assert_eq!(by_number["a"]["url"], "http://copy/", "a number is shown where it was last seen");

    let shown = world.ask("explain", &["http://a/", "http://b/"]);
    let first = shown.lines().next().expect("a line");
    assert!(
        first.starts_with("in cluster 1 by 2 links; the weakest, ") && first.ends_with("between documents 1 and 3"),
        "{shown}"
    );
    assert_eq!(shown.lines().filter(|line| line.contains("document ")).count(), 3, "{shown}");

    let same = world.ask("explain", &["http://a/", "http://copy/"]);
    assert!(same.starts_with("the same document, 1: ") && same.contains("http://copy/"), "{same}");
    let apart = world.ask("explain", &["http://a/", "http://c/"]);
    assert!(apart.starts_with("not in one cluster: A is in cluster 1, B in cluster 4"), "{apart}");
    let short = world.ask("explain", &["http://a/", "http://short/"]);
    assert!(short.contains("directly: nothing to compare"), "{short}");
    for (name, advice) in [
        ("http://no/", "was never seen"),
        ("http://gone/", "no page was ever seen"),
        ("99", "no document 99"),
        ("0", "no document 0"),
    ] {
        let output = world.command("explain").args(["http://a/", name]).output().expect("starts");
        assert_eq!(output.status.code(), Some(4), "{name}");
        assert!(text(&output.stderr).contains(advice), "{name}: {}", text(&output.stderr));
        let refused = server.get(&format!("/v1/explain?a={}&b=1", encoded(name)));
        assert_eq!(refused.status, 404, "{}", refused.body);
        assert!(refused.body.contains(advice), "{name}: {}", refused.body);
    }
    assert_eq!(server.get("/v1/explain?a=1").status, 400);
}
