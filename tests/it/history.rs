//! Time: what stood where and when, what moved, what changed, what a closed sweep missed, in any order of arrival.

use crate::harness::server::{Server, encoded};
use crate::harness::{World, check_events, page, sweeps, text};
use lookalike::config::Config;
use lookalike::document::DocumentId;
use lookalike::ports::Snapshot;
use lookalike::sketch::SketchRule;
use lookalike::store::RocksStore;
use lookalike::wire::{Event, EventType, MoveEvidence};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// A page of the sample that moved.
const MOVED: &str = "https://docs.npm.example/html/doc/cache.html";

/// The `day`-th of a month, which is a sweep of that name.
fn time(day: u32) -> String {
    format!("2026-11-{day:02}T00:00:00Z")
}

/// Forty words: `n_own` that no other number has, the rest common to all pages.
fn body(number: u32, n_own: u32) -> String {
    (0..40).map(|n| if n < n_own { format!("own{number}x{n} ") } else { format!("all{n} ") }).collect()
}

fn seen(url: &str, day: u32, number: u32) -> String {
    page(url, &time(day), &day.to_string(), &body(number, 40))
}

fn gone(url: &str, day: u32) -> String {
    serde_json::json!({"url": url, "fetched_at": time(day), "sweep": day.to_string(), "gone": true}).to_string()
}

fn redirect(url: &str, day: u32, to: &str) -> String {
    let (time, sweep) = (time(day), day.to_string());
    serde_json::json!({"url": url, "fetched_at": time, "sweep": sweep, "http_status": 301, "redirect_to": to})
        .to_string()
}

fn lines<S: AsRef<str>>(lines: &[S]) -> String {
    lines.iter().map(|line| format!("{}\n", line.as_ref())).collect()
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect(text)
}

/// Runs over records, each list a file of its own.
fn run(world: &World, name: &str, records: &[String]) {
    let input: PathBuf = world.write(name, lines(records));
    world.run(&[input]);
}

fn moves(events: &[Event]) -> Vec<(String, String, MoveEvidence)> {
    let moved = events.iter().filter(|event| event.kind() == EventType::Moved);
    moved
        .map(|event| {
            let (from, to) = (event.from().expect("from").to_string(), event.to().expect("to").to_string());
            (from, to, event.evidence().expect("evidence"))
        })
        .collect()
}

fn close(world: &World, sweep: &str) -> Value {
    let events = world.path("events.jsonl");
    json(&world.ask("sweep close --json", &[sweep, "--events", events.to_str().expect("a path")]))
}

#[test]
fn a_move_is_one_event_whichever_end_comes_first() {
    let (old, new) = ("http://a/docs/cache", "http://a/docs/cli/cache");
    let begin = seen(old, 1, 7);
    let orders: [Vec<String>; 3] = [
        vec![gone(old, 2), seen(new, 2, 7), seen(new, 3, 7)],
        vec![seen(new, 2, 7), gone(old, 2), seen(new, 3, 7)],
        vec![seen(new, 3, 7), seen(new, 2, 7), gone(old, 2)],
    ];
    for order in orders {
        for n_together in [1, 100] {
            let world = World::new().with("pipeline.batch_records_max", n_together);
            let records: Vec<String> = [std::slice::from_ref(&begin), &order].concat();
            run(&world, "pages.jsonl", &records);
            let events = world.events();
            assert_eq!(moves(&events), [(old.into(), new.into(), MoveEvidence::Same)], "{order:?} by {n_together}");
            let source = world.path("pages.jsonl").display().to_string();
            check_events(&events, &BTreeMap::from([(source, 4)]));
            // A later run does not repeat the event.
            run(&world, "more.jsonl", &[seen(new, 4, 7), gone(old, 4)]);
            assert_eq!(moves(&world.events()).len(), 1);
        }
    }
}

#[test]
fn a_mirror_is_no_move_and_a_page_that_comes_back_can_move_again() {
    let world = World::new();
    // A mirror of the same sweep is no later place, until a later sweep sees it.
    run(&world, "1", &[seen("http://a/x", 1, 7), seen("http://b/x", 1, 7), gone("http://a/x", 2)]);
    assert_eq!(moves(&world.events()), []);
    run(&world, "2", &[seen("http://b/x", 2, 7)]);
    assert_eq!(moves(&world.events()).len(), 1);
    // It comes back, and goes again.
    run(&world, "3", &[seen("http://a/x", 3, 7), gone("http://a/x", 4), seen("http://c/x", 5, 7)]);
    let told = moves(&world.events());
    assert_eq!(told.len(), 2);
    assert_eq!(told[1].1, "http://c/x");
    // A page like no other is never found.
    run(&world, "4", &[seen("http://a/y", 5, 8), gone("http://a/y", 6), seen("http://a/z", 7, 9)]);
    assert_eq!(moves(&world.events()).len(), 2);
}

/// Lost once: a page that was alive when last seen. A mirror fetched after it counted as its new place.
#[test]
fn a_page_that_is_alive_comes_first() {
    let world = World::new();
    let at = |url: &str, day: u32, sweep: &str| page(url, &time(day), sweep, &body(7, 40));
    let answers = |url: &str| json(&world.ask("query lost --json", &[url]))["answers"].clone();
    // A crawler without sweeps comes by one page sooner than by the other.
    run(&world, "1", &[at("http://a/x", 1, ""), at("http://a/y", 2, "")]);
    assert_eq!(answers("http://a/x"), serde_json::json!(["http://a/x", "http://a/y"]));
    run(&world, "2", &[gone("http://a/x", 3)]);
    assert_eq!(answers("http://a/x"), serde_json::json!(["http://a/y"]));
    // A sweep that saw it elsewhere on the host and not here missed it; on another host it may not have been yet.
    let world = World::new();
    let answers = |url: &str| json(&world.ask("query lost --json", &[url]))["answers"].clone();
    run(&world, "1", &[at("http://a/x", 1, "1"), at("http://a/y", 2, "2"), at("http://b/x", 2, "2")]);
    assert_eq!(answers("http://a/x"), serde_json::json!(["http://b/x", "http://a/y"]));
    run(&world, "2", &[at("http://c/x", 1, "1"), at("http://a/x", 3, "3")]);
    assert_eq!(answers("http://c/x")[0], "http://c/x");
}

#[test]
fn a_move_through_other_documents_says_so_and_merges_are_followed() {
    let world = World::new().with("cluster.threshold", 0.3);
    let text = |from: u32| (from..from + 60).map(|n| format!("w{n} ")).collect::<String>();
    let at = |url: &str, day: u32, from: u32| page(url, &time(day), &day.to_string(), &text(from));
    // Far apart at first; the page between them joins their clusters.
    let records =
        [at("http://a/old", 1, 0), gone("http://a/old", 2), at("http://a/new", 3, 50), at("http://a/mid", 4, 25)];
    run(&world, "pages", &records[..3]);
    assert_eq!(moves(&world.events()), []);
    run(&world, "more", &records[3..]);
    let told = moves(&world.events());
    assert_eq!(told, [("http://a/old".into(), "http://a/mid".into(), MoveEvidence::Direct)]);
    let lost = json(&world.ask("query lost --json", &["http://a/old"]));
    let kinds: BTreeMap<&str, &str> = lost["details"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|found| (found["url"].as_str().expect("a URL"), found["evidence"]["kind"].as_str().expect("a kind")))
        .collect();
    assert_eq!(kinds, BTreeMap::from([("http://a/mid", "direct"), ("http://a/new", "chain")]));
}

#[test]
fn a_change_is_against_the_version_before_by_time() {
    let world = World::new().with("cluster.threshold", 0.2);
    let at = |day: u32, number: u32| page("http://a/", &time(day), "", &body(number, 10));
    run(&world, "pages", &[at(1, 1), at(5, 1), at(9, 3), at(7, 2), at(9, 3)]);
    let changes: Vec<(String, u32, u32)> = world
        .events()
        .iter()
        .filter(|event| event.kind() == EventType::Changed)
        .map(|event| {
            let number = |document: Option<lookalike::document::DocumentId>| document.expect("a document").0;
            let resemblance = event.resemblance().expect("a resemblance");
            // 21 shingles of 31 are those of every page: 21 / (31 + 31 - 21).
            assert!((resemblance - 21.0 / 41.0).abs() < 0.001, "{resemblance}");
            let time = event.fetched_at.expect("a time").to_string();
            (time, number(event.previous_document()), number(event.document()))
        })
        .collect();
    assert_eq!(changes, [(time(9), 1, 2), (time(7), 1, 3)]);
}

#[test]
fn closing_a_sweep_marks_what_it_should_have_seen() {
    let world = World::new();
    let first = ["http://a/stays", "http://a/moves", "http://a/goes", "http://b/x", "http://a/dies"];
    let mut records: Vec<String> = first.iter().zip(1..).map(|(url, n)| seen(url, 1, n)).collect();
    records.extend([seen("http://a/stays", 2, 1), seen("http://a/moved", 2, 2), gone("http://a/dies", 2)]);
    run(&world, "pages", &records);
    let n_before = world.events().len();
    let closed = close(&world, "2");
    assert_eq!((&closed["n_lost"], &closed["n_hosts"], &closed["n_moved"]), (&2.into(), &1.into(), &1.into()));
    let events = world.events();
    let lost: BTreeSet<&str> = events[n_before..]
        .iter()
        .filter(|event| event.kind() == EventType::Lost)
        .map(|event| event.url.as_deref().expect("a URL"))
        .collect();
    assert_eq!(lost, BTreeSet::from(["http://a/goes", "http://a/moves"]), "b was not visited");
    assert_eq!(moves(&events), [("http://a/moves".into(), "http://a/moved".into(), MoveEvidence::Same)]);
    let end = events.last().expect("an event");
    assert_eq!((end.kind(), end.n_lost()), (EventType::SweepClosed, Some(2)));
    assert!(events.iter().enumerate().all(|(number, event)| event.seq == number as u64));
    assert_eq!(json(&world.ask("query lost --json", &["http://a/goes"]))["answers"], serde_json::json!([]));
    assert_eq!(json(&world.ask("query lost --json", &["http://b/x"]))["answers"][0], "http://b/x");
    let list = json(&world.ask("sweep list --json", &[]));
    assert_eq!((&list[1]["name"], &list[1]["is_closed"], &list[1]["n_lost"]), (&"2".into(), &true.into(), &2.into()));

    // Closed again it finds nothing new; a page of the sweep that comes late undoes its mark.
    assert_eq!(close(&world, "2")["n_lost"], 0);
    run(&world, "late", &[seen("http://a/goes", 2, 3)]);
    assert_eq!(json(&world.ask("query lost --json", &["http://a/goes"]))["answers"][0], "http://a/goes");
    let verify = world.command("verify").output().expect("starts");
    assert!(verify.status.success(), "{}{}", text(&verify.stdout), text(&verify.stderr));
    let output = world.command("sweep close").arg("nonesuch").output().expect("starts");
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
}

/// Once wrong: the shells of scripts have no words, so that all were one document. Each that vanished was said to have moved
/// to another one; and so it was with pages of fewer words than a shingle.
#[test]
fn pages_without_shingles_are_no_evidence_of_a_move() {
    let w = SketchRule::default().w;
    for n_words in [0, 1, w - 1, w] {
        let (few, is_short) = (&"script ".repeat(n_words), n_words < w);
        let at = |url: &str, day: u32| page(url, &time(day), &day.to_string(), few);
        for n_together in [1, 100] {
            let world = World::new().with("pipeline.batch_records_max", n_together);
            // One is gone before another is seen, one after; one leads elsewhere, and says so itself.
            let records = [
                at("http://a/x", 1),
                at("http://a/y", 1),
                gone("http://a/x", 2),
                at("http://a/z", 3),
                at("http://b/z", 3),
                gone("http://a/y", 4),
                redirect("http://a/z", 4, "http://a/elsewhere"),
                seen("http://a/elsewhere", 4, 7),
            ];
            run(&world, "pages", &records);
            assert_eq!(moves(&world.events()).is_empty(), is_short, "{few:?} by {n_together}");
            let lost = |url: &str| json(&world.ask("query lost --json", &[url]));
            for url in ["http://a/x", "http://a/y"] {
                let lost = lost(url);
                assert_eq!(lost["answers"].as_array().is_some_and(Vec::is_empty), is_short, "{few:?}: {lost}");
                let former = lost["former_places"].as_array().expect("a list");
                assert!(former.is_empty() || !is_short, "{few:?}: {lost}");
            }
            assert_eq!(lost("http://a/z")["answers"][0], "http://a/elsewhere");
            let changes = json(&world.ask("changes --json", &[]));
            let n = |name: &str| changes["all"][name].as_u64().unwrap_or_else(|| panic!("{name}: {changes}"));
            let n_moved = n("n_moved_within") + n("n_moved_between") + n("n_moved_then_lost");
            assert_eq!(n_moved, if is_short { 1 } else { 3 }, "{few:?}: {changes}");
            // What a closed sweep misses has not moved either.
            run(&world, "more", &[at("http://b/new", 5)]);
            let closed = close(&world, "5");
            assert_eq!((&closed["n_lost"], closed["n_moved"] == 0), (&1.into(), is_short), "{few:?}: {closed}");
            let verify = world.command("verify").output().expect("starts");
            assert!(verify.status.success(), "{}{}", text(&verify.stdout), text(&verify.stderr));
        }
    }
}

/// Reported once: a move to a page that the same closing marked as lost too, in a later batch.
#[test]
fn a_lost_page_has_not_moved_to_one_that_is_lost_as_well() {
    let pages = |place: &str, day: u32| (0..700).map(|n| seen(&format!("http://a/{place}/{n}"), day, n)).collect();
    let records: [Vec<String>; 3] = [pages("first", 1), pages("second", 2), vec![seen("http://a/", 3, 999)]];
    let world = World::new();
    run(&world, "pages.jsonl", &records.concat());
    let closed = close(&world, "3");
    assert_eq!((&closed["n_lost"], &closed["n_moved"]), (&1400.into(), &0.into()), "{closed}");
    assert_eq!(moves(&world.events()), []);
}

/// A sweep closed after the next one began still visited the hosts that were seen again since.
#[test]
fn a_sweep_closed_late_knows_the_hosts_it_visited() {
    let world = World::new();
    run(
        &world,
        "pages",
        &[
            seen("http://a/1", 1, 1),
            seen("http://a/2", 1, 2),
            seen("http://a/1", 2, 1),
            seen("http://a/1", 3, 1),
            gone("http://a/1", 4),
            seen("http://c/1", 1, 5),
            seen("http://c/2", 3, 6),
        ],
    );
    let closed = close(&world, "2");
    assert_eq!(closed["n_lost"], 1, "c was not visited on it");
    let history = json(&world.ask("query url --json", &["http://a/2"]));
    assert_eq!(history["sightings"][1]["seen"], "lost");
}

/// Lost once: every URL that was left, where a sweep was closed again after the next one had begun. Only a few newer sightings of
/// a host are asked whether the sweep visited it, and the URLs that it had marked itself took their places.
#[test]
fn a_sweep_closed_again_marks_what_is_left() {
    let world = World::new();
    let mut pages: Vec<String> = (0..300).map(|n| seen(&format!("http://a/{n}"), 1, n)).collect();
    pages.extend([seen("http://a/0", 2, 0), seen("http://a/0", 3, 0)]);
    run(&world, "pages", &pages);
    assert_eq!(close(&world, "2")["n_lost"], 299);
    run(&world, "late", &[seen("http://a/late", 1, 999)]);
    assert_eq!(close(&world, "2")["n_lost"], 1);
    assert_eq!(close(&world, "2")["n_lost"], 0);
}

/// The sample, each sweep closed in turn: every URL that a sweep lacks is lost, and every URL whose exact cluster
/// reaches the last sweep is found there.
#[test]
fn the_sample_swept_and_closed() {
    let world = World::new();
    let names = ["1-2014-08-01", "2-2015-08-01", "3-2017-09-01"];
    let mut urls_of: Vec<BTreeSet<String>> = Vec::new();
    for (sweep, name) in sweeps().iter().zip(names) {
        world.run(std::slice::from_ref(sweep));
        let closed = close(&world, name);
        let csv = world.ask("export clusters", &[]);
        let mut rows = csv::Reader::from_reader(csv.as_bytes());
        let rows = rows.records().map(|row| row.expect("a row")).filter(|row| &row[2] == name);
        let urls: BTreeSet<String> = rows.map(|row| row[0].to_string()).collect();
        let missing = urls_of.last().map_or(0, |before| before.difference(&urls).count());
        // Lost on one sweep, a URL is not lost again on the next.
        assert_eq!(closed["n_lost"], missing, "{name}");
        urls_of.push(urls);
    }
    let moved = moves(&world.events());
    let sources: BTreeSet<&String> = moved.iter().map(|(from, ..)| from).collect();
    assert_eq!(sources.len(), moved.len(), "one event for each");
    let truth = std::fs::read_to_string(crate::harness::root().join("bench-data/lost.jsonl")).expect("the truth");
    for lost in truth.lines().map(json) {
        let url = lost["url"].as_str().expect("a URL").to_string();
        match lost["status"].as_str() {
            Some("alive-in-cluster") => assert!(sources.contains(&url), "{url} moved"),
            Some("gone") => assert!(!sources.contains(&url), "{url} did not move"),
            _ => {}
        }
    }
}

/// Lost once: the place of a page that had moved and was then lost there, too. Its answer was "nothing like it",
/// and no count of `changes` had it, while its `moved` event was out.
#[test]
fn a_page_that_moved_and_was_lost_there_says_both() {
    let world = World::new();
    for (sweep, name) in sweeps().iter().zip(["1-2014-08-01", "2-2015-08-01", "3-2017-09-01"]) {
        world.run(std::slice::from_ref(sweep));
        close(&world, name);
    }
    let (old, new) =
        ("https://docs.npm.example/html/api/config.html", "https://docs.npm.example/html/doc/api/npm-config.html");
    let moved = moves(&world.events());
    assert!(moved.iter().any(|(from, to, _)| from == old && to == new), "{moved:?}");
    let lost = json(&world.ask("query lost --json", &[old]));
    assert_eq!(lost["answers"], serde_json::json!([]));
    let place = &lost["former_places"][0];
    assert_eq!((&place["url"], &place["sweep"]), (&new.into(), &"2-2015-08-01".into()), "{lost}");
    assert_eq!((&place["newest"]["seen"], &place["newest"]["sweep"]), (&"lost".into(), &"3-2017-09-01".into()));
    let told = world.ask("query lost", &[old]);
    assert!(told.contains(&format!("was at     {new}")) && told.contains("on 2015-08-01"), "{told}");
    assert!(told.contains("lost there in 3-2017-09-01") && !told.contains("nothing like it"), "{told}");

    // What the events say, `query lost` and `changes` say, too.
    let froms: Vec<String> = moved.iter().map(|(from, ..)| from.clone()).collect();
    let asked = world.write("urls", lines(&froms));
    let answers = world.ask("query lost --json", &["--urls-from", asked.to_str().expect("a path")]);
    let (mut n_found, mut n_former) = (0, 0);
    for answer in answers.lines().map(json) {
        let stands = answer["details"].as_array().is_some_and(|places| !places.is_empty());
        let stood = answer["former_places"].as_array().is_some_and(|places| !places.is_empty());
        assert!(stands || stood, "{answer}");
        (n_found, n_former) = (n_found + usize::from(stands), n_former + usize::from(!stands));
    }
    let all = &json(&world.ask("changes --json", &[]))["all"];
    let n = |name: &str| all[name].as_u64().expect(name) as usize;
    assert_eq!((n("n_moved_within") + n("n_moved_between"), n("n_moved_then_lost")), (n_found, n_former));
    assert_eq!(moved.len(), n_found + n_former);
    assert!(n_former > 10, "{n_former}");
    assert!(world.ask("changes", &[]).contains("`moved` events"), "the difference to the events is explained");

    let alive = world.ask("query lost", &["https://docs.npm.example/html/doc/cli/npm-cache.html"]);
    assert!(alive.contains("still here"), "{alive}");
}

/// Lost once: where nine pages of git's manual went. Their text in another format moved with them or had stood beside them all
/// the time, and came first by a hundredth of resemblance.
#[test]
fn a_page_moves_to_a_new_url_of_its_format() {
    let world = World::new();
    let urls = ["doc.txt", "doc.ants", "doc.html", "doc.rest"].map(|name| format!("http://a/{name}"));
    let [text, beside, html, new] = &urls;
    let records = [seen(text, 1, 7), seen(beside, 1, 7), gone(text, 2)];
    run(&world, "pages", &[records.to_vec(), [beside, html, new].map(|url| seen(url, 2, 7)).to_vec()].concat());
    assert_eq!(json(&world.ask("query lost --json", &[text]))["answers"], serde_json::json!([new, html, beside]));
}

/// A place that is gone, leads elsewhere or has another page by now is a former place, too; the latest comes first.
#[test]
fn former_places_say_what_ended_them() {
    let world = World::new();
    run(
        &world,
        "pages",
        &[
            seen("http://a/x", 1, 7),
            gone("http://a/x", 2),
            seen("http://a/gone", 2, 7),
            gone("http://a/gone", 5),
            seen("http://a/other", 3, 7),
            seen("http://a/other", 5, 8),
            seen("http://a/leads", 4, 7),
            redirect("http://a/leads", 5, "http://a/leads2"),
            gone("http://a/leads2", 5),
        ],
    );
    let lost = json(&world.ask("query lost --json", &["http://a/x"]));
    let former: Vec<(&str, &str)> = lost["former_places"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|place| (place["url"].as_str().expect("a URL"), place["newest"]["seen"].as_str().expect("a word")))
        .collect();
    assert_eq!(
        former,
        [("http://a/leads", "redirect"), ("http://a/other", "page"), ("http://a/gone", "gone")],
        "{lost}"
    );
    let told = world.ask("query lost", &["http://a/x"]);
    for end in ["gone there on 2026-11-05", "redirected to http://a/leads2", "is there since 2026-11-05"] {
        assert!(told.contains(end), "{end}: {told}");
    }
}

/// The history as plain lists, to compare with.
#[derive(Clone, Debug)]
struct Plain {
    url: String,
    day: u32,
    /// None: gone.
    number: Option<u32>,
}

/// Random numbers below a limit, the same for the same seed.
fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |n| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    }
}

/// A small world of pages that stay, change, go and move; the same for the same seed.
fn plain_history(seed: u64) -> Vec<Plain> {
    let mut below = random(seed);
    let mut history = Vec::new();
    for day in 1..=6 {
        for url in 0..8 {
            let number = match below(6) {
                0 => continue,
                1 => None,
                _ => Some(below(5) as u32),
            };
            history.push(Plain { url: format!("http://a/{url}"), day, number });
        }
    }
    history
}

/// What `query url` must answer: by time, with a number for each content.
fn plain_url(history: &[Plain], url: &str) -> Vec<(String, Option<u32>)> {
    let mut of_url: Vec<&Plain> = history.iter().filter(|plain| plain.url == url).collect();
    of_url.sort_by_key(|plain| plain.day);
    of_url.into_iter().map(|plain| (time(plain.day), plain.number)).collect()
}

/// Where a URL's last content was seen later and still stands, or the URL itself. Clusters play no part: here
/// contents are equal or have nothing in common.
fn plain_lost(history: &[Plain], url: &str) -> BTreeSet<String> {
    let newest = |url: &str| history.iter().filter(|plain| plain.url == url).max_by_key(|plain| plain.day);
    let copies = history.iter().filter(|plain| plain.url == url && plain.number.is_some());
    let Some(copy) = copies.max_by_key(|plain| plain.day) else { return BTreeSet::new() };
    let urls: BTreeSet<&String> = history.iter().map(|plain| &plain.url).collect();
    let mut places: BTreeSet<String> = urls
        .into_iter()
        .filter(|other| *other != url)
        .filter(|other| newest(other).is_some_and(|place| place.number == copy.number && place.day > copy.day))
        .cloned()
        .collect();
    if places.is_empty() && newest(url).is_some_and(|newest| newest.number.is_some()) {
        places.insert(url.to_string());
    }
    places
}

/// Any order of arrival and any batching gives the answers of the plain lists.
#[test]
fn the_order_of_arrival_does_not_matter() {
    for seed in 0..4_u64 {
        let history = plain_history(seed);
        let mut arrival = history.clone();
        // From in order to thoroughly mixed.
        let n = arrival.len();
        for at in 0..n {
            arrival.swap(at, (at * 7 * seed as usize + seed as usize) % n);
        }
        let world = World::new().with("pipeline.batch_records_max", [1, 5, 1000][seed as usize % 3]);
        let records: Vec<String> = arrival
            .iter()
            .map(|plain| match plain.number {
                Some(number) => seen(&plain.url, plain.day, number),
                None => gone(&plain.url, plain.day),
            })
            .collect();
        run(&world, "pages", &records);
        let number_of: BTreeMap<u64, u32> = world
            .events()
            .iter()
            .filter_map(|event| {
                let at = history.iter().find(|plain| {
                    Some(&plain.url) == event.url.as_ref()
                        && event.fetched_at.map(|at| at.to_string()) == Some(time(plain.day))
                })?;
                (event.kind() == EventType::Assigned).then_some((u64::from(event.document()?.0), at.number?))
            })
            .collect();
        let urls: BTreeSet<&String> = history.iter().map(|plain| &plain.url).collect();
        let asked = world.write("urls", lines(&urls.iter().collect::<Vec<_>>()));
        let answers = world.ask("query lost --json", &["--urls-from", asked.to_str().expect("a path")]);
        for (url, answer) in urls.iter().zip(answers.lines().map(json)) {
            let found: BTreeSet<String> = answer["answers"]
                .as_array()
                .expect("a list")
                .iter()
                .map(|url| url.as_str().expect("a URL").into())
                .collect();
            assert_eq!(found, plain_lost(&history, url), "seed {seed}, {url}: {answer}");
            let told = json(&world.ask("query url --json", &[url]));
            let told: Vec<(String, Option<u32>)> = told["sightings"]
                .as_array()
                .expect("a list")
                .iter()
                .map(|sighting| {
                    let time = sighting["fetched_at"].as_str().expect("a time").to_string();
                    (time, sighting["document"].as_u64().map(|document| number_of[&document]))
                })
                .collect();
            assert_eq!(told, plain_url(&history, url), "seed {seed}, {url}");
        }
        let verify = world.command("verify").output().expect("starts");
        assert!(verify.status.success(), "{}{}", text(&verify.stdout), text(&verify.stderr));
    }
}

/// What was found at a URL one day.
#[derive(Clone, Debug, PartialEq)]
enum Found {
    Page(u32),
    Gone,
    Redirect(String),
}

/// Lost once: where a move was said to lead depended on which pages shared a batch, and so on the timing of the run.
#[test]
fn however_pages_are_batched_the_events_are_the_same() {
    let mut n_moves = 0;
    for seed in 0..8 {
        let mut below = random(seed);
        let mut records = Vec::new();
        for day in 2..=7 {
            for _ in 0..60 {
                // Some pages come late; contents are equal, near, or have nothing in common.
                let (url, day) = (format!("http://a/{}/{}", below(3), below(20)), day - u32::from(below(4) == 0));
                records.push(match below(5) {
                    0 => gone(&url, day),
                    1 => redirect(&url, day, "http://a/1/1"),
                    _ => page(&url, &time(day), &day.to_string(), &body(below(8) as u32, [4, 40][below(2) as usize])),
                });
            }
        }
        let folder = World::new();
        let input = [folder.write("pages.jsonl", lines(&records))];
        let events_of = |batch: usize| {
            let world = World::new().with("pipeline.batch_records_max", batch);
            world.run(&input);
            world.events()
        };
        let one_by_one = events_of(1);
        n_moves += moves(&one_by_one).len();
        for batch in [7, 50, 1000] {
            let events = events_of(batch);
            for (event, wanted) in events.iter().zip(&one_by_one) {
                assert_eq!(event, wanted, "seed {seed}, batches of {batch}");
            }
            assert_eq!(events.len(), one_by_one.len(), "seed {seed}, batches of {batch}");
        }
    }
    assert!(n_moves > 200, "{n_moves} moves are too few to mean anything");
}

/// A record of the model: when it was fetched, in hours, by which sweep, and what it found.
#[derive(Clone, Debug)]
struct Fetched {
    url: String,
    hour: u32,
    sweep: Option<u32>,
    found: Found,
}

impl Fetched {
    fn time(&self) -> String {
        format!("2026-11-{:02}T{:02}:00:00Z", self.hour / 24, self.hour % 24)
    }

    fn record(&self) -> String {
        let (time, sweep) = (self.time(), self.sweep.map(|sweep| sweep.to_string()).unwrap_or_default());
        match &self.found {
            Found::Page(number) => page(&self.url, &time, &sweep, &body(*number, 40)),
            Found::Gone => {
                serde_json::json!({"url": self.url, "fetched_at": time, "sweep": sweep, "gone": true}).to_string()
            }
            Found::Redirect(to) => serde_json::json!({
                "url": self.url, "fetched_at": time, "sweep": sweep, "http_status": 301, "redirect_to": to
            })
            .to_string(),
        }
    }
}

/// Five daily sweeps over two hosts, which see some URLs from midnight to three, and visits of nobody's sweep at noon.
fn world_of_sweeps(seed: u64) -> Vec<Fetched> {
    let mut below = random(seed);
    let mut records = Vec::new();
    for day in 1..=5 {
        let visits_b = below(3) > 0;
        for n in 0..12 {
            let url = format!("http://{}/{n}", if n < 8 { "a" } else { "b" });
            for (sweep, hour, odds) in [(Some(day), below(4) as u32, 3), (None, 12, 8)] {
                if below(odds) != 0 || (n >= 8 && sweep.is_some() && !visits_b) {
                    continue;
                }
                let found = match below(8) {
                    0 => Found::Gone,
                    1 => Found::Redirect("http://a/0".into()),
                    _ => Found::Page(below(6) as u32),
                };
                // Rejected: it leads nowhere.
                if n > 0 || !matches!(found, Found::Redirect(_)) {
                    records.push(Fetched { url: url.clone(), hour: day * 24 + hour, sweep, found });
                }
            }
        }
    }
    records
}

/// The history of each URL in plain lists, with a mark where a sweep that was closed when it ended missed the URL: the
/// time, what was found, and by which sweep.
fn plain_sweeps(records: &[Fetched]) -> BTreeMap<String, Vec<(String, String, String)>> {
    let sweep_of = |fetched: &Fetched| fetched.sweep.map(|sweep| sweep.to_string()).unwrap_or_default();
    let mut histories: BTreeMap<String, Vec<(u32, String, String)>> = BTreeMap::new();
    for fetched in records {
        let found = match &fetched.found {
            Found::Page(_) => "page",
            Found::Gone => "gone",
            Found::Redirect(_) => "redirect",
        };
        histories.entry(fetched.url.clone()).or_default().push((fetched.hour, found.into(), sweep_of(fetched)));
    }
    histories.values_mut().for_each(|history| history.sort());
    for sweep in 1..=5 {
        let of_sweep = || records.iter().filter(move |fetched| fetched.sweep == Some(sweep));
        let hours = of_sweep().map(|fetched| fetched.hour);
        let (Some(first), Some(last)) = (hours.clone().min(), hours.max()) else { continue };
        let hosts: BTreeSet<&str> = of_sweep().map(|fetched| &fetched.url[..8]).collect();
        for (_, history) in histories.iter_mut().filter(|(url, _)| hosts.contains(&url[..8])) {
            let n_before = history.iter().filter(|(hour, ..)| *hour < first).count();
            let stood = n_before > 0 && history[n_before - 1].1 == "page";
            if stood && !history.iter().any(|(hour, ..)| (first..=last).contains(hour)) {
                history.insert(n_before, (first, "lost".into(), sweep.to_string()));
            }
        }
    }
    let told = |(hour, found, sweep): (u32, String, String)| {
        when(format!("2026-11-{:02}T{:02}:00:00Z", hour / 24, hour % 24), found, sweep)
    };
    histories.into_iter().map(|(url, history)| (url, history.into_iter().map(told).collect())).collect()
}

/// A sighting. Of a mark of loss only the day: it is dated at the first page of its sweep that is known when that is closed.
fn when(mut time: String, found: String, sweep: String) -> (String, String, String) {
    time.truncate(if found == "lost" { 10 } else { time.len() });
    (time, found, sweep)
}

/// A sighting in an answer.
fn seen_at(moment: &Value) -> (String, String, String) {
    let [time, found, sweep] = ["fetched_at", "seen", "sweep"].map(|name| moment[name].as_str().unwrap_or_default());
    when(time.into(), found.into(), sweep.into())
}

/// What `query lost` answers for each URL, without the numbers of documents, which follow the order of arrival.
fn places(world: &World, urls: &[&String]) -> Vec<Value> {
    let asked = world.write("urls", lines(urls));
    let answers = world.ask("query lost --json", &["--urls-from", asked.to_str().expect("a path")]);
    let place = |answer: Value| {
        let former = answer["former_places"].as_array().expect("a list").iter();
        let former: Vec<Value> =
            former.map(|place| serde_json::json!([place["url"], seen_at(&place["newest"])])).collect();
        serde_json::json!([answer["url"], seen_at(&answer["newest"]), answer["answers"], former])
    };
    answers.lines().map(json).map(place).collect()
}

/// The URLs at which a page stands, to a consumer of the events: the newest record, unless a later sweep lost the URL, and
/// no record of that sweep came since (deploy/consumer.py).
fn present_by_events(events: &[Event]) -> BTreeSet<String> {
    let mut newest: BTreeMap<String, (String, u8)> = BTreeMap::new();
    let mut lost: BTreeMap<(String, String), String> = BTreeMap::new();
    for event in events {
        let rank = match event.kind() {
            EventType::Assigned => 2,
            EventType::Redirected => 1,
            EventType::Gone | EventType::Lost => 0,
            _ => continue,
        };
        let (url, time) = (event.url.clone().expect("a URL"), event.fetched_at.expect("a time").to_string());
        let key = (url.clone(), event.sweep.clone().unwrap_or_default());
        if event.kind() == EventType::Lost {
            lost.insert(key, time);
            continue;
        }
        lost.remove(&key);
        let known = newest.entry(url).or_default();
        *known = known.clone().max((time, rank));
    }
    let is_lost = |url: &String, seen: &String| lost.iter().any(|((other, _), time)| other == url && time > seen);
    let stands = newest.iter().filter(|(url, (time, rank))| *rank == 2 && !is_lost(url, time));
    stands.map(|(url, _)| url.clone()).collect()
}

/// Lost once: what a sweep missed, where a newer sweep had seen or marked it before the older one was closed; and a redirect
/// of before a mark, where it came after the mark.
#[test]
fn the_order_of_closing_does_not_matter() {
    let mut n_marks = 0;
    for seed in 0..5 {
        let records = world_of_sweeps(seed);
        let expected = plain_sweeps(&records);
        let urls: Vec<&String> = expected.keys().collect();
        n_marks += expected.values().flatten().filter(|(_, found, _)| found == "lost").count();
        let mut below = random(seed + 100);
        let mut shuffled = records.clone();
        let mut sweeps: Vec<u32> = (1..=5).filter(|day| records.iter().any(|at| at.sweep == Some(*day))).collect();
        let in_order = sweeps.clone();
        (1..shuffled.len()).for_each(|at| shuffled.swap(at, below(at as u64 + 1) as usize));
        (1..sweeps.len()).for_each(|at| sweeps.swap(at, below(at as u64 + 1) as usize));
        let as_json = |records: &[Fetched]| records.iter().map(Fetched::record).collect::<Vec<_>>();
        let worlds = [1, 7, 1000].map(|batch| World::new().with("pipeline.batch_records_max", batch));
        // Each sweep is closed when it has ended, and what comes later is of later times.
        for sweep in &in_order {
            let (from, end, to) = (sweep * 24, sweep * 24 + 4, (sweep + 1) * 24);
            let between = |from: u32, to: u32| {
                let hours = from..to;
                as_json(&records.iter().filter(|at| hours.contains(&at.hour)).cloned().collect::<Vec<_>>())
            };
            run(&worlds[0], &format!("{sweep}-a"), &between(from, end));
            close(&worlds[0], &sweep.to_string());
            run(&worlds[0], &format!("{sweep}-b"), &between(end, to));
        }
        // All pages are there in some order, and then sweeps are closed in some order.
        run(&worlds[1], "pages", &as_json(&shuffled));
        sweeps.iter().for_each(|sweep| _ = close(&worlds[1], &sweep.to_string()));
        // Pages come after sweeps were closed. Then all of these are closed again.
        let n_part = shuffled.len().div_ceil(4);
        for (n, part) in shuffled.chunks(n_part).enumerate() {
            run(&worlds[2], &format!("pages-{n}"), &as_json(part));
            let arrived = &shuffled[..n * n_part + part.len()];
            for sweep in sweeps.iter().skip(n).filter(|sweep| arrived.iter().any(|at| at.sweep == Some(**sweep))) {
                close(&worlds[2], &sweep.to_string());
            }
        }
        sweeps.iter().rev().for_each(|sweep| _ = close(&worlds[2], &sweep.to_string()));

        let answers = worlds.each_ref().map(|world| places(world, &urls));
        for (way, world) in worlds.iter().enumerate() {
            assert_eq!(answers[way], answers[0], "seed {seed}, way {way}");
            for (url, history) in &expected {
                let told = json(&world.ask("query url --json", &[url]));
                let told = told["sightings"].as_array().expect("a list").iter().map(seen_at);
                assert_eq!(told.collect::<Vec<_>>(), *history, "seed {seed}, way {way}, {url}");
            }
            let stand =
                expected.iter().filter(|(_, history)| history.last().is_some_and(|(_, found, _)| found == "page"));
            let stand: BTreeSet<String> = stand.map(|(url, _)| url.clone()).collect();
            assert_eq!(present_by_events(&world.events()), stand, "seed {seed}, way {way}");
            // Closed again, every sweep has nothing left to mark, and tells nothing.
            let n_events = world.events().len();
            sweeps.iter().for_each(|sweep| assert_eq!(close(world, &sweep.to_string())["n_lost"], 0, "seed {seed}"));
            assert_eq!(world.events().len(), n_events, "seed {seed}, way {way}");
            let verify = world.command("verify").output().expect("starts");
            assert!(verify.status.success(), "{}{}", text(&verify.stdout), text(&verify.stderr));
        }
    }
    assert!(n_marks > 30, "{n_marks} marks are too few to mean anything");
}

/// Lost once: what an older sweep had missed, once a newer one had seen or marked it.
#[test]
fn a_sweep_closed_after_a_newer_one_marks_what_it_missed() {
    let world = World::new();
    let [stays, back, away, elsewhere] =
        ["http://a/stays", "http://a/back", "http://a/away", "http://a/new"].map(String::from);
    let first = [seen(&stays, 1, 1), seen(&back, 1, 2), seen(&away, 1, 3)];
    let second = [seen(&stays, 2, 1), seen(&elsewhere, 2, 3)];
    let third = [seen(&stays, 3, 1), seen(&back, 3, 4), seen(&elsewhere, 3, 3)];
    run(&world, "pages", &[&first[..], &second, &third].concat());
    assert_eq!(close(&world, "3")["n_lost"], 1);
    let n_events = world.events().len();
    let closed = close(&world, "2");
    assert_eq!((&closed["n_lost"], &closed["n_hosts"], &closed["n_moved"]), (&2.into(), &1.into(), &0.into()));
    let events = world.events();
    // Each with what stood there then. The move was told when the newer sweep was closed.
    let lost = events[n_events..].iter().filter(|event| event.kind() == EventType::Lost);
    let lost: BTreeSet<(String, u32)> =
        lost.map(|event| (event.url.clone().expect("a URL"), event.document().expect("a document").0)).collect();
    assert_eq!(lost, BTreeSet::from([(back.clone(), 2), (away.clone(), 3)]));
    assert_eq!(events.len(), n_events + 3, "and that the sweep is closed");
    assert_eq!(moves(&events), [(away.clone(), elsewhere.clone(), MoveEvidence::Same)]);

    let answer = |url: &String| json(&world.ask("query lost --json", &[url]));
    assert_eq!(answer(&back)["answers"][0], serde_json::json!(back));
    assert_eq!(answer(&away)["newest"]["sweep"], "2", "the mark of the newer sweep does not count");
    // A page of the older sweep takes its mark back, and the one of the newer sweep counts.
    run(&world, "late", &[seen(&away, 2, 3)]);
    assert_eq!(answer(&away)["newest"]["sweep"], "3");
    assert_eq!(moves(&world.events()).len(), 1, "that loss was told");
    let verify = world.command("verify").output().expect("starts");
    assert!(verify.status.success(), "{}{}", text(&verify.stdout), text(&verify.stderr));
}

/// Lost once: which of two sweeps that began at the same moment had lost a URL. Closing the second one wrote another state
/// than the URL's sightings give, and told the move again.
#[test]
fn of_two_sweeps_that_begin_at_one_moment_the_first_loses_a_url() {
    let world = World::new();
    let of_sweep = |url: &str, sweep: &str, number| page(url, &time(2), sweep, &body(number, 40));
    let records = [
        seen("http://a/old", 1, 7),
        of_sweep("http://a/x", "x", 1),
        of_sweep("http://a/y", "y", 2),
        seen("http://a/new", 3, 7),
    ];
    run(&world, "pages", &records);
    assert_eq!([close(&world, "x"), close(&world, "y")].map(|closed| closed["n_lost"].as_u64()), [Some(1), Some(0)]);
    assert_eq!(json(&world.ask("query lost --json", &["http://a/old"]))["newest"]["sweep"], "x");
    assert_eq!(moves(&world.events()).len(), 1);
    let verify = world.command("verify").output().expect("starts");
    assert!(verify.status.success(), "{}{}", text(&verify.stdout), text(&verify.stderr));
}

/// Told twice once: a move, where an older copy of the same page came after it.
#[test]
fn an_older_copy_of_the_same_page_tells_no_second_move() {
    let (old, new) = ("http://a/old", "http://a/new");
    for (late, n_moves) in [
        (vec![seen(old, 2, 7)], 1),
        // Another page was lost there.
        (vec![seen(old, 2, 8), seen("http://a/other", 5, 8)], 2),
        // It was gone before, came back, and went again.
        (vec![gone(old, 2), seen(old, 1, 7)], 1),
        (vec![gone(old, 6), seen(old, 5, 7), seen(new, 7, 7)], 2),
    ] {
        let world = World::new();
        run(&world, "pages", &[seen(old, 1, 7), gone(old, 3), seen(new, 4, 7)]);
        assert_eq!(moves(&world.events()).len(), 1);
        run(&world, "late", &late);
        assert_eq!(moves(&world.events()).len(), n_moves, "{late:?}");
    }
}

/// What stood where, day by day, in a small world whose pages move and leave redirects behind, some in circles,
/// some to URLs that were never seen; the same for the same seed.
fn world_of_redirects(seed: u64) -> BTreeMap<String, BTreeMap<u32, Found>> {
    let mut state = seed;
    let mut below = move |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    let url = |n: u64| format!("http://a/{n}");
    let mut history: BTreeMap<String, BTreeMap<u32, Found>> = BTreeMap::new();
    for day in 1..=5 {
        for n in 0..10 {
            let found = match below(8) {
                0 | 1 => continue,
                2 => Found::Gone,
                // Two of them are never seen.
                3..=5 => match below(12) {
                    // Rejected: it leads nowhere.
                    to if to == n => continue,
                    to => Found::Redirect(url(to)),
                },
                _ => Found::Page(below(4) as u32),
            };
            history.entry(url(n)).or_default().insert(day, found);
        }
    }
    history
}

/// The way of a walker who follows redirects one by one: each URL once, in a circle none twice.
fn walk(history: &BTreeMap<String, BTreeMap<u32, Found>>, from: &str) -> Vec<String> {
    let mut way = vec![from.to_string()];
    while let Some(Found::Redirect(to)) = way.last().and_then(|at| history.get(at)?.values().last()) {
        // The first one and twenty more, the limit.
        if way.contains(to) || way.len() == 21 {
            break;
        }
        way.push(to.clone());
    }
    way
}

/// The way of a URL's redirects, if it leads anywhere, and all places of its content.
///
/// These are the end of its redirects, unless that is gone or a circle; every place where the last page on that way
/// was seen on a later day and still stands, or where redirects from such a place end; without any, the URL itself.
fn plain_found(history: &BTreeMap<String, BTreeMap<u32, Found>>, url: &str) -> (Option<Vec<String>>, BTreeSet<String>) {
    let newest = |url: &str| history.get(url).and_then(|days| days.iter().last());
    let page = |url: &str| match newest(url) {
        Some((day, Found::Page(number))) => Some((*day, *number)),
        _ => None,
    };
    let way = walk(history, url);
    let end = way.last().expect("a way has an end");
    let leads = way.len() > 1 && (page(end).is_some() || newest(end).is_none());
    let mut found: BTreeSet<String> = leads.then(|| end.clone()).into_iter().collect();
    let pages = |url: &String| -> Vec<(u32, u32)> {
        let days = history.get(url).into_iter().flatten();
        days.filter_map(|(day, found)| if let Found::Page(number) = found { Some((*day, *number)) } else { None })
            .collect()
    };
    let Some((seen, copy)) = way.iter().rev().find_map(|url| pages(url).last().copied()) else {
        return (leads.then_some(way), found);
    };
    let mut places = BTreeSet::new();
    for other in history.keys().filter(|other| pages(other).iter().any(|(_, number)| *number == copy)) {
        let end = walk(history, other).pop().expect("a way has an end");
        let stands = page(&end).filter(|(_, number)| end != *other || *number == copy);
        if end != url && stands.is_some_and(|(day, _)| day > seen) {
            places.insert(end);
        }
    }
    if places.is_empty() && page(url).is_some() {
        places.insert(url.to_string());
    }
    found.extend(places);
    (leads.then_some(way), found)
}

/// Chains of redirects, circles among them, and pages that are gone at their ends or have moved on: the answers are
/// those of a walk over the plain lists.
#[test]
fn redirects_lead_where_a_plain_walk_leads() {
    let (mut n_led, mut n_circles, mut n_chains) = (0, 0, 0);
    for seed in 0..12_u64 {
        let history = world_of_redirects(seed);
        let mut records: Vec<String> = Vec::new();
        for (url, days) in &history {
            records.extend(days.iter().map(|(day, found)| match found {
                Found::Page(number) => seen(url, *day, *number),
                Found::Gone => gone(url, *day),
                Found::Redirect(to) => redirect(url, *day, to),
            }));
        }
        let n = records.len();
        (0..n).for_each(|at| records.swap(at, (at * 5 + seed as usize) % n));
        let world = World::new().with("pipeline.batch_records_max", [1, 7, 1000][seed as usize % 3]);
        run(&world, "pages", &records);
        let urls: Vec<&String> = history.keys().collect();
        let asked = world.write("urls", lines(&urls));
        let answers = world.ask("query lost --json", &["--urls-from", asked.to_str().expect("a path")]);
        for (url, answer) in urls.iter().zip(answers.lines().map(json)) {
            let (way, expected) = plain_found(&history, url);
            let answers: Vec<&str> =
                answer["answers"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
            let found: BTreeSet<String> = answers.iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "seed {seed}, {url}: {answer}");
            assert_eq!(found.len(), answers.len(), "each once: {answer}");
            if let Some(way) = way {
                let evidence = &answer["details"][0]["evidence"];
                assert_eq!(answers.first().copied(), way.last().map(String::as_str), "seed {seed}, {url}: {answer}");
                assert_eq!(evidence["through"], serde_json::json!(way[1..way.len() - 1]), "seed {seed}, {url}");
                n_led += 1;
                n_chains += usize::from(way.len() > 2);
            } else if walk(&history, url).len() > 1 {
                n_circles += 1;
            }
        }
    }
    assert!(n_led > 20 && n_circles > 10 && n_chains > 5, "{n_led} led, {n_circles} led nowhere, {n_chains} by chains");
}

/// Lost once: a place behind many URLs that redirect to one, the end of a long chain of redirects, and, where one place was asked
/// for, the one that succeeds the page.
#[test]
fn a_short_list_of_places_begins_as_a_long_one() {
    let world = World::new();
    let mut records = vec![seen("http://a/lost", 1, 7), gone("http://a/lost", 2)];
    for n in 0..12 {
        let (old, link) = (format!("http://a/old{n}"), format!("http://c/{n}"));
        records.push(seen(&old, 1, 7));
        records.push(redirect(&old, 2, "http://a/target"));
        records.push(redirect(&link, 1, &format!("http://c/{}", n + 1)));
    }
    records.extend(["http://a/target", "http://b/far/away"].map(|url| seen(url, 2, 7)));
    records.push(seen("http://c/12", 1, 8));
    records.extend(["http://d/hooks.txt", "http://d/githooks.aaa"].map(|url| seen(url, 1, 9)));
    records.extend(["http://d/githooks.aaa", "http://d/githooks.zzz"].map(|url| seen(url, 2, 9)));
    records.push(gone("http://d/hooks.txt", 2));
    run(&world, "pages", &records);
    let answers =
        |url: &str, limit: &str| json(&world.ask("query lost --json", &[url, "--limit", limit]))["answers"].clone();
    for (url, expected) in [
        ("http://a/lost", vec!["http://a/target", "http://b/far/away"]),
        ("http://c/0", vec!["http://c/12"]),
        ("http://d/hooks.txt", vec!["http://d/githooks.zzz", "http://d/githooks.aaa"]),
    ] {
        assert_eq!(answers(url, "10"), serde_json::json!(expected));
        assert_eq!(answers(url, "1"), serde_json::json!(expected[..1]));
    }
    let moves = world.ask("export moves", &[]);
    assert!(moves.lines().any(|row| row.contains("hooks.txt") && row.contains("githooks.zzz")), "{moves}");
}

#[test]
fn how_pages_change_is_counted() {
    let world = World::new().with("cluster.threshold", 0.2);
    let at = |url: &str, day: u32, number: u32| page(url, &time(day), &day.to_string(), &body(number, 10));
    let records = [
        at("http://a/same", 1, 1),
        at("http://a/same", 2, 1),
        at("http://a/changes", 1, 2),
        at("http://a/changes", 2, 3),
        seen("http://a/moves", 1, 5),
        gone("http://a/moves", 2),
        seen("http://a/moved", 2, 5),
        seen("http://a/leaves", 1, 6),
        gone("http://a/leaves", 3),
        seen("http://b/left", 2, 6),
        seen("http://b/dies", 1, 7),
        gone("http://b/dies", 3),
    ];
    run(&world, "pages", &records);
    let chart = world.path("chart.svg");
    let svg = ["--by", "sweep", "--svg", chart.to_str().expect("a path")];
    let changes = json(&world.ask("changes --json", &svg));
    let all = &changes["all"];
    let counts = ["urls", "pages", "revisits", "changes", "births", "deaths", "moved_within", "moved_between"]
        .map(|count| format!("n_{count}"));
    assert_eq!(counts.each_ref().map(|count| all[count].as_u64().expect(count)), [7, 9, 2, 1, 7, 3, 1, 1]);
    // 21 shingles of 31 are those of every page.
    assert_eq!(all["n_changes_by_resemblance"], serde_json::json!([0, 0, 0, 0, 0, 1, 0, 0, 0, 0]));
    assert_eq!(all["median_life_days"], 2.0);
    let by =
        |row: &str| changes["rows"].as_array().expect("a list").iter().map(|at| at[row].clone()).collect::<Vec<_>>();
    assert_eq!(by("name"), ["1", "2", "3"]);
    assert_eq!(
        (by("n_births"), by("n_deaths")),
        (vec![5.into(), 2.into(), 0.into()], vec![0.into(), 1.into(), 2.into()])
    );
    let svg = std::fs::read_to_string(chart).expect("a chart");
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && svg.contains("3 deaths: 2"), "{svg}");
    let csv = world.ask("changes --format csv --by host", &[]);
    let rows: Vec<Vec<String>> = csv::Reader::from_reader(csv.as_bytes())
        .records()
        .map(|row| row.expect("a row").iter().map(String::from).collect())
        .collect();
    let shown: Vec<[&str; 3]> = rows.iter().map(|row| [&*row[0], &*row[1], &*row[8]]).collect();
    assert_eq!(shown, [["", "7", "1"], ["a", "5", "1"], ["b", "2", "0"]]);
    assert!(world.ask("changes", &[]).contains("50– 60 %         1"));
}

#[test]
fn results_are_grouped_and_reuse_of_a_text_is_listed() {
    let world = World::new();
    let words = |range: std::ops::Range<u32>| range.map(|n| format!("w{n} ")).collect::<String>();
    let at = |url: &str, day: u32, text: &str| page(url, &time(day), "", text);
    let records = [
        at("http://a/whole", 1, &words(0..200)),
        at("http://a/whole", 2, &words(0..201)),
        at("http://b/copy", 1, &words(0..200)),
        at("http://b/copy", 2, &words(900..990)),
        at("http://c/half", 1, &words(0..100)),
        at("http://c/other", 1, &words(500..600)),
        at("http://d/near", 1, &words(0..198)),
        gone("http://e/gone", 2),
    ];
    run(&world, "pages", &records);
    let urls =
        ["http://c/other", "http://a/whole", "http://nowhere/", "http://c/half", "http://d/near", "http://a/whole"];
    let ranked = world.write("ranked", lines(&urls));
    let groups = json(&world.ask("query group --json", &[ranked.to_str().expect("a path")]));
    // Wrong once: a URL was "never seen" that was seen gone or as a redirect.
    let seen = world.write("seen", lines(&["http://e/gone", "http://nowhere/"]));
    let table = world.ask("query group", &[seen.to_str().expect("a path")]);
    assert_eq!(table, "http://e/gone  no page\nhttp://nowhere/  no page\n");
    let grouped: Vec<&Value> = groups.as_array().expect("a list").iter().map(|group| &group["urls"]).collect();
    let half = json(&world.ask("query compare --json", &["http://a/whole", "http://c/half"]));
    // 91 shingles of 192.
    assert!((half["resemblance"].as_f64().expect("a number") - 91.0 / 192.0).abs() < 0.03);
    let expected = [vec![urls[0]], vec![urls[1], urls[4]], vec![urls[2]], vec![urls[3]]];
    assert_eq!(
        grouped,
        expected.iter().map(|urls| serde_json::json!(urls)).collect::<Vec<_>>().iter().collect::<Vec<_>>()
    );

    let text = world.write("text.txt", words(0..200));
    let found = json(&world.ask("query reuse --json", &[text.to_str().expect("a path"), "--threshold", "0.9"]));
    let found: Vec<(&str, &str, bool)> = found
        .as_array()
        .expect("a list")
        .iter()
        .flat_map(|host| host["pages"].as_array().expect("a list"))
        .map(|carrier| {
            let text = |field: &str| carrier[field].as_str().expect("text");
            (text("url"), text("fetched_at"), carrier["stands"].as_bool().expect("whether it stands"))
        })
        .collect();
    let day = [time(1), time(2)];
    // The half is in the text as a whole; the copy is no more.
    assert_eq!(
        found,
        [
            ("http://a/whole", &*day[1], true),
            ("http://b/copy", &*day[0], false),
            ("http://c/half", &*day[0], true),
            ("http://d/near", &*day[0], true)
        ]
    );
    let of_url = world.ask("query reuse", &["http://a/whole"]);
    assert!(of_url.contains("http://b/copy") && of_url.contains("no more") && !of_url.contains("http://c/other"));
    let output = world.command("query reuse").arg("http://nowhere/").output().expect("starts");
    assert_eq!(output.status.code(), Some(4));
}

/// Lost once: all reuse of a URL's text outside its cluster.
///
/// The pages: a copy of a text, half of it, the text inside a much larger page, a paragraph of it, and others. The
/// copy, the half and the paragraph share their smallest shingles with the text and are always found; the larger
/// page needs mod shingles.
#[test]
fn quotations_are_found_in_other_clusters() {
    let words = |range: std::ops::Range<u32>| range.map(|n| format!("w{n} ")).collect::<String>();
    let (copy, half, large, paragraph) = ("http://a/copy", "http://b/half", "http://c/large", "http://d/paragraph");
    let at = |url: &str, text: String| page(url, &time(1), "", &text);
    let records = [
        at(copy, words(0..400)),
        at(half, words(0..260) + &words(1000..1150)),
        at(large, words(2000..5000) + &words(0..400) + &words(5000..8000)),
        at(paragraph, words(100..180)),
        at("http://e/other", words(9000..9400)),
        at("http://f/little", words(9500..9900) + &words(390..400)),
    ];
    for modulus in [0, 25] {
        let world = World::new().with("sketch.index_modulus", modulus);
        run(&world, "pages", &records);
        let reuse = |of: &str| -> BTreeSet<String> {
            let found = json(&world.ask("query reuse --json", &[of]));
            let hosts = found.as_array().expect("hosts").iter();
            let pages = hosts.flat_map(|host| host["pages"].as_array().expect("pages"));
            pages.map(|page| page["url"].as_str().expect("a URL").to_string()).collect()
        };
        let text = |name: &str, text: String| world.write(name, text).display().to_string();
        for of in [copy, paragraph, &text("all", words(0..400)), &text("part", words(100..180))] {
            let mut expected = BTreeSet::from([copy, half, paragraph].map(String::from));
            if modulus > 0 {
                expected.insert(large.into());
            }
            assert_eq!(reuse(of), expected, "{of} {modulus}");
        }
        assert_eq!(reuse("http://e/other").len(), 1);
        let clusters = world.partition();
        assert_eq!(clusters.len(), 6, "each is a cluster of its own: {clusters:?}");
    }
}

/// The shingles that find a document are the same whether the store kept them whole or reads them back from its
/// lists.
#[test]
fn what_finds_a_document_is_read_back() {
    let new = || World::new().with("sketch.index_modulus", 25);
    let (written_down, in_lists) = (new(), new());
    written_down.run(&sweeps());
    let output = in_lists.command("backfill -q").args(sweeps()).output().expect("starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let settings = || Config::load(&[]).expect("the default").store_settings();
    let [a, b] = [&written_down, &in_lists]
        .map(|world| RocksStore::open_read_only(&world.path("store"), &settings()).expect("opens"));
    let n_documents = a.n_documents();
    assert_eq!(n_documents, 635);
    let (mut n_found, mut n_all) = (0, 0);
    for document in (1..=n_documents).map(DocumentId) {
        let [read, read_back] = [&a, &b].map(|view| view.document_shingles(document).expect("read"));
        assert_eq!(read, read_back, "{document}");
        let stored = b.document(document).expect("read").expect("a document");
        let n_of = [stored.n_index_shingles, stored.n_mod_shingles].map(|n| n as usize);
        if stored.sketch.n_shingles <= 384 {
            assert_eq!([read.index.len(), read.mod_shingles.len()], n_of, "{document} is kept whole");
        }
        n_found += read.index.len() + read.mod_shingles.len();
        n_all += n_of.iter().sum::<usize>();
    }
    assert!(n_all > 40_000 && n_found * 3 > n_all * 2, "{n_found} of {n_all}");
}

/// Pages that go, redirect, come back and come late, beside the sample's sweeps of their time.
fn comings_and_goings() -> [Vec<String>; 2] {
    let missing = |url: &str, day: u32, status: u32| {
        serde_json::json!({"url": url, "fetched_at": time(day), "sweep": day.to_string(), "http_status": status, "body": "no"})
            .to_string()
    };
    let near = |url: &str, day: u32| page(url, &time(day), &day.to_string(), &body(9, 12));
    let first = vec![
        seen("http://a/1", 1, 1),
        seen("http://a/2", 1, 2),
        seen("http://a/3", 1, 3),
        seen("http://b/1", 2, 1),
        near("http://a/4", 1),
        missing("http://a/2", 2, 404),
        redirect("http://a/3", 2, "/5"),
    ];
    let rest = vec![
        seen("http://a/5", 3, 3),
        seen("http://c/2", 3, 2),
        missing("http://a/1", 3, 410),
        seen("http://a/1", 4, 1),
        gone("http://a/1", 5),
        page("http://d/4", &time(4), "4", &body(8, 12)),
        // Late, of a sweep that is over, and of a time between two that are known.
        seen("http://a/4", 2, 4),
        seen("http://a/late", 1, 7),
    ];
    [first, rest]
}

/// An answer without what depends on the way to it: the number of events, the bytes on disk, and the documents of a
/// chain, because a batch may find other links of a cluster than the stream.
fn comparable(mut answer: Value) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for field in ["seq", "n_events", "n_bytes_on_disk", "through", "next"] {
                    fields.remove(field);
                }
                fields.values_mut().for_each(strip);
            }
            Value::Array(values) => values.iter_mut().for_each(strip),
            _ => {}
        }
    }
    strip(&mut answer);
    answer
}

/// Checks that two worlds answer every question alike, over HTTP and on the command line.
fn check_alike(worlds: &[World; 2], urls: &BTreeSet<String>, texts: &[String]) {
    let servers = worlds.each_ref().map(Server::open);
    let ask = |what: &str, ask: &dyn Fn(&Server) -> crate::harness::server::Response| {
        let answers = servers.each_ref().map(|server| {
            let answer = ask(server);
            assert!([200, 404].contains(&answer.status), "{what}: {}", answer.body);
            comparable(answer.json())
        });
        assert_eq!(answers[0], answers[1], "{what}");
    };
    for url in urls.iter().map(|url| encoded(url)) {
        for path in [
            format!("/v1/url?url={url}"),
            format!("/v1/lost?url={url}"),
            format!("/v1/cluster?of={url}"),
            format!("/v1/reuse?url={url}&threshold=0.3"),
        ] {
            ask(&path, &|server| server.get(&path));
        }
    }
    for path in ["sweeps", "changes", "changes?by=host", "changes?by=sweep", "stats", "clusters?limit=1000"] {
        ask(path, &|server| server.get(&format!("/v1/{path}")));
    }
    let ranked = serde_json::json!({ "urls": urls }).to_string();
    ask("group", &|server| server.post("/v1/group", "application/json", ranked.as_bytes()));
    ask("lost", &|server| server.post("/v1/lost", "application/json", ranked.as_bytes()));
    for text in texts {
        ask("similar", &|server| server.post("/v1/similar?limit=20", "text/html", text.as_bytes()));
        ask("reuse", &|server| server.post("/v1/reuse?threshold=0.3", "text/html", text.as_bytes()));
    }
    let list = worlds.each_ref().map(|world| world.write("urls", lines(&urls.iter().collect::<Vec<_>>())));
    let file = worlds.each_ref().map(|world| world.write("text.html", &texts[0]));
    let url = MOVED;
    for (question, argument) in [
        ("url", None),
        ("cluster", None),
        ("lost", None),
        ("reuse", None),
        ("lost", Some(&list)),
        ("group", Some(&list)),
        ("similar", Some(&file)),
        ("reuse", Some(&file)),
    ] {
        let answers = [0, 1].map(|at| {
            let argument = argument.map_or(url.to_string(), |files| files[at].display().to_string());
            let flag = (question == "lost" && argument != url).then_some("--urls-from");
            let arguments: Vec<&str> = flag.into_iter().chain([argument.as_str()]).collect();
            let answer = worlds[at].ask(&format!("query {question} --json"), &arguments);
            answer.lines().map(|line| comparable(json(line))).collect::<Vec<_>>()
        });
        assert_eq!(answers[0], answers[1], "{question}");
    }
    for question in ["sweep list", "changes", "changes --by host", "changes --by sweep", "changes --format csv"] {
        let answers = worlds.each_ref().map(|world| world.ask(question, &[]));
        assert_eq!(answers[0], answers[1], "{question}");
    }
}

/// A batch of the first sweeps and a stream of the rest give the same answers as a stream of all, also once a sweep
/// is closed.
#[test]
fn a_batch_and_then_a_stream_answer_as_a_stream() {
    for modulus in [0, 25] {
        let worlds = [(); 2].map(|()| World::new().with("sketch.index_modulus", modulus));
        let [first, rest] = comings_and_goings();
        let folder = World::new();
        let (first, rest) = (folder.write("first.jsonl", lines(&first)), folder.write("rest.jsonl", lines(&rest)));
        let [one, two, three] = &sweeps()[..] else { panic!("three sweeps") };
        let (begun, all) = ([one, two, &first], [one, two, &first, three, &rest].map(PathBuf::clone));
        worlds[0].run(&all);
        let output = worlds[1].command("backfill -q").args(begun).output().expect("starts");
        assert!(output.status.success(), "{}", text(&output.stderr));
        // The stream skips what the batch has read.
        worlds[1].run(&all);
        let exported = worlds[0].ask("export clusters", &[]);
        let mut rows = csv::Reader::from_reader(exported.as_bytes());
        let urls: BTreeSet<String> = rows.records().map(|row| row.expect("a row")[0].to_string()).collect();
        // All of ours, and of the sample's 371 every twelfth.
        let all = urls.into_iter().enumerate().filter(|(n, url)| n % 12 == 0 || !url.contains("docs."));
        let urls: BTreeSet<String> = all.map(|(_, url)| url).chain(["http://never/".into(), MOVED.into()]).collect();
        let texts =
            [&body(1, 40), &body(9, 12), "<p>npm install installs a package and any packages that it depends on"];
        let mut texts: Vec<String> = texts.into_iter().map(String::from).collect();
        let whole = zstd::decode_all(&std::fs::read(three).expect("read")[..]).expect("unpacked");
        texts.extend(text(&whole).lines().step_by(40).map(|line| json(line)["body"].as_str().expect("a body").into()));
        check_alike(&worlds, &urls, &texts);
        let n_lost = worlds.each_ref().map(|world| close(world, "3-2017-09-01")["n_lost"].clone());
        assert!(n_lost[0].as_u64() > Some(50), "{n_lost:?}");
        assert_eq!(n_lost[0], n_lost[1]);
        check_alike(&worlds, &urls, &texts);
        for world in &worlds {
            world.ask("verify", &[]);
        }
    }
}
