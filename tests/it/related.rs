//! Related pages: the same answers for any order, batching and way into the store; answers that follow the topics of a
//! site; whatever is kept is checked and survives.

use crate::harness::server::Server;
use crate::harness::{World, text};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A page of HTML as a line of JSON.
fn page(url: &str, fetched_at: &str, sweep: &str, body: &str) -> String {
    crate::harness::page(url, fetched_at, sweep, body).replace("text/plain", "text/html")
}

const TOPICS: [&str; 5] = ["roses", "violins", "glaciers", "bread", "chess"];
const PAGES_A_TOPIC: usize = 8;

/// URLs of a topic that redirect, and where: through another one, to a page that was never crawled, in a circle, and over one
/// URL more than are followed.
const MOVES: [(&str, &str); 11] = [
    ("first", "second"),
    ("second", "7"),
    ("once", "unseen"),
    ("round", "about"),
    ("about", "round"),
    ("far", "far-b"),
    ("far-b", "far-c"),
    ("far-c", "far-d"),
    ("far-d", "far-e"),
    ("far-e", "far-f"),
    ("far-f", "7"),
];

/// A site: for each topic some pages that link to the next ones of their topic and speak of it, and to a page that was
/// never crawled. All have a menu in common. Some links name URLs that redirect; their records come last.
fn site() -> Vec<String> {
    let mut pages = Vec::new();
    for (topic, name) in TOPICS.iter().enumerate() {
        for number in 0..PAGES_A_TOPIC {
            let word = |n: usize| format!("{name}word{n}", n = letters(n));
            let link = |n: usize| {
                let n = n % PAGES_A_TOPIC;
                let page = if n == 7 { "first".to_string() } else { n.to_string() };
                format!("{} <a href='/{name}/{page}'>about {name} {}</a> {}", word(n), word(n + 1), word(n + 2))
            };
            let body = format!(
                "<title>{name} {}</title><ul><a href=/>home</a><a href=/search>search</a></ul><p>{} {} {}</p>\
                 <p>{} <a href='/{name}/{}'>more {name} for {}</a> <a href='/{name}/round'>{name}</a> \
                 <a href='/{name}/far'>{name}</a> <a href='/{name}/far-b'>{name}</a></p><p>{} {}</p>",
                word(number),
                link(number + 1),
                link(number + 3),
                letters(topic * 100 + number),
                word(2),
                if number % 2 == 0 { "unseen" } else { "once" },
                word(3),
                word(number + 4),
                (0..30).map(|n| word((number + n) % 12) + " ").collect::<String>(),
            );
            pages
                .push(page(&format!("http://site.example/{name}/{number}"), "2026-11-01T00:00:00Z", "1", &body) + "\n");
        }
    }
    for name in TOPICS {
        pages.extend(MOVES.map(|(from, to)| moved(name, from, to, 1)));
    }
    pages
}

/// The record of a redirect.
fn moved(topic: &str, from: &str, to: &str, day: usize) -> String {
    let [from, to] = [from, to].map(|page| format!("http://site.example/{topic}/{page}"));
    let time = format!("2026-11-0{day}T00:00:00Z");
    serde_json::json!({"url": from, "fetched_at": time, "sweep": day.to_string(), "redirect_to": to}).to_string() + "\n"
}

/// Whether a URL of the site redirects.
fn is_moved(url: &str) -> bool {
    MOVES.iter().any(|(from, _)| url.ends_with(&format!("/{from}")))
}

/// A number in letters: digits are no part of words.
fn letters(n: usize) -> String {
    n.to_string().bytes().map(|digit| char::from(digit - b'0' + b'a')).collect()
}

fn world() -> World {
    // Five topics: each of their words is in a fifth of the bags. The site has more bags than a query for 20 URLs compares, so
    // that the heaviest terms lead to them.
    World::new().with("related.on", true).with("related.high_df", 0.5).with("related.verified_max", 40)
}

/// URL → its answers: URL and similarity.
fn answers(world: &World) -> BTreeMap<String, Vec<(String, String)>> {
    let mut urls: Vec<String> = site().iter().map(|line| url_of(line)).collect();
    urls.extend(TOPICS.map(|name| format!("http://site.example/{name}/unseen")));
    let list = world.write("urls.txt", urls.join("\n"));
    let list = list.to_str().expect("a path");
    let printed = world.ask("query related --json --copies --limit 20", &["--urls-from", list]);
    let answer = |line: &str| {
        let answer: Value = serde_json::from_str(line).expect("JSON");
        let related = answer["related"].as_array().expect("a list").iter();
        let pair = |page: &Value| (string(&page["url"]), page["similarity"].to_string());
        (string(&answer["of"]), related.map(pair).collect())
    };
    printed.lines().map(answer).collect()
}

fn string(value: &Value) -> String {
    value.as_str().expect("a string").to_string()
}

fn url_of(line: &str) -> String {
    string(&serde_json::from_str::<Value>(line).expect("JSON")["url"])
}

fn topic_of(url: &str) -> &str {
    url.split('/').nth(3).expect("a topic")
}

#[test]
fn answers_follow_the_topics() {
    let world = world();
    world.run(&[world.write("pages.jsonl", site().concat())]);
    let before = world.ask("query related http://site.example/roses/0", &[]);
    assert!(before.contains("`lookalike related build` makes them"), "{before}");
    world.ask("related build", &[]);
    let answers = answers(&world);
    assert_eq!(answers.len(), TOPICS.len() * (PAGES_A_TOPIC + 1 + MOVES.len()));
    for name in TOPICS {
        let of = |page: &str| &answers[&format!("http://site.example/{name}/{page}")];
        assert_eq!([of("first"), of("second"), of("far-b"), of("once")], [of("7"), of("7"), of("7"), of("unseen")]);
        assert!(of("round").is_empty() && of("about").is_empty(), "circles lead nowhere");
        assert!(of("far").is_empty(), "six redirects lead too far");
    }
    for (url, related) in answers.iter().filter(|(url, _)| !is_moved(url)) {
        assert!(!related.iter().any(|(other, _)| is_moved(other)), "{url}: {related:?}");
        assert!(related.len() >= 5, "{url}: {related:?}");
        assert!(related.iter().all(|(other, _)| other != url), "{url} is related to itself");
        let strangers = related.iter().take(5).filter(|(other, _)| topic_of(other) != topic_of(url)).count();
        assert_eq!(strangers, 0, "{url}: {related:?}");
    }
    // A page that was never crawled is asked about, and answers.
    let unseen = "http://site.example/chess/unseen".to_string();
    assert!(answers["http://site.example/chess/0"].iter().any(|(url, _)| *url == unseen), "{answers:#?}");
    assert!(world.ask("verify", &[]).starts_with("sound"));
}

/// Lost once: answers of a small store whose bags share light terms alone. Where all bags may be compared, all are.
#[test]
fn few_bags_are_all_compared() {
    let answers_with = |champions: u64, verified_max: u64| {
        let world = world().with("related.champions", champions).with("related.verified_max", verified_max);
        world.run(&[world.write("pages.jsonl", site().concat())]);
        world.ask("related build", &[]);
        answers(&world)
    };
    let all = answers_with(1, 128);
    assert_eq!(all, answers_with(100, 128));
    assert_ne!(all, answers_with(1, 40), "one term for each bag leads to few of them");
}

/// Batches, the order of the pages, runs on disk, and pages that are read again later: the answers are the same.
#[test]
fn answers_do_not_depend_on_how_pages_came() {
    let built = |world: World, inputs: &[PathBuf]| {
        world.run(inputs);
        world.ask("related build", &[]);
        assert!(world.ask("verify", &[]).starts_with("sound"));
        answers(&world)
    };
    let folder = World::new();
    let input = folder.write("pages.jsonl", site().concat());
    let expected = built(world(), std::slice::from_ref(&input));
    let backwards = folder.write("backwards.jsonl", site().into_iter().rev().collect::<String>());
    assert_eq!(built(world().with("pipeline.batch_records_max", 3), &[backwards]), expected);
    // A buffer that is full at once: everything is in runs.
    assert_eq!(built(world().with("store.posting_buffer_mib", 0), std::slice::from_ref(&input)), expected);
    // A store that was made without, and one that was made whole.
    for command in ["run -q", "backfill -q"] {
        let world = world().with("related.on", false);
        assert!(world.command(command).arg(&input).output().expect("starts").status.success());
        let refused = world.command("query related http://site.example/roses/0").output().expect("starts");
        assert_eq!(refused.status.code(), Some(4));
        assert!(text(&refused.stderr).contains("related.on"), "{}", text(&refused.stderr));
        world.ask("related build", &[input.to_str().expect("a path")]);
        assert!(world.ask("verify", &[]).starts_with("sound"));
        assert_eq!(answers(&world), expected, "{command}");
    }
}

/// The rows of an export or of a file, without the header, sorted.
fn sorted_rows(csv: &str) -> Vec<String> {
    let mut rows: Vec<String> = csv.lines().skip(1).map(String::from).collect();
    rows.sort();
    rows
}

/// The neighbours and clusters of a store are those that the file engine finds in the same pages, for any order of the
/// pages. Lost once: of equally similar URLs a store took the one with the smaller fingerprint for a center.
#[test]
fn clusters_are_those_of_the_files() {
    // Ties between words are broken by the seed.
    let world = || world().with("store.seed", "0123456789abcdef".repeat(4));
    let folder = world();
    let input = folder.write("pages.jsonl", site().concat());
    let out = folder.path("related");
    let paths = [&input, &out].map(|path| path.to_str().expect("a path"));
    folder.ask("related build --quiet", &[paths[0], "--out", paths[1]]);
    let file = |name: &str| std::fs::read_to_string(out.join(name)).expect("a file");
    let (pairs, centers) = (sorted_rows(&file("neighbours.csv")), sorted_rows(&file("centers.csv")));
    let backwards = folder.write("backwards.jsonl", site().into_iter().rev().collect::<String>());
    for (input, batch) in [(&input, 1024), (&backwards, 3)] {
        let world = world().with("pipeline.batch_records_max", batch);
        world.run(std::slice::from_ref(input));
        world.ask("related build", &[]);
        let refused = world.command("export related").output().expect("starts");
        assert_eq!(refused.status.code(), Some(4));
        assert!(text(&refused.stderr).contains("related build --clusters"), "{}", text(&refused.stderr));
        world.ask("related build --clusters", &[]);
        assert!(world.ask("verify", &[]).starts_with("sound"));
        // A store keeps the ten nearest of each URL, the files all of them.
        let found = sorted_rows(&world.ask("export related", &[]));
        assert!(found.iter().all(|row| pairs.binary_search(row).is_ok()), "{found:#?}\n{pairs:#?}");
        let mut n_expected: BTreeMap<&str, usize> = BTreeMap::new();
        pairs.iter().for_each(|row| *n_expected.entry(row.split(',').next().expect("a URL")).or_default() += 1);
        assert_eq!(found.len(), n_expected.values().map(|n| n.min(&10)).sum::<usize>());
        // The files name a center for URLs that are similar to no other as well.
        let has_neighbour = |row: &&String| n_expected.contains_key(row.split(',').next().expect("a URL"));
        let expected: Vec<String> = centers.iter().filter(has_neighbour).cloned().collect();
        let found = sorted_rows(&world.ask("export centers", &[]));
        assert!(expected.len() > 30);
        assert_eq!(found, expected);
        let url = "http://site.example/roses/3";
        let printed = world.ask("query related --json --cluster --limit 100", &[url]);
        let cluster: Value = serde_json::from_str(&printed).expect("JSON");
        let center = string(&cluster["center"]);
        let members: Vec<String> = cluster["members"].as_array().expect("a list").iter().map(string).collect();
        let mut named: Vec<String> = found
            .iter()
            .filter(|row| row.ends_with(&format!(",{center}")))
            .map(|row| row.split(',').next().expect("a URL").into())
            .collect();
        named.retain(|url| *url != center);
        named.sort();
        let mut sorted = members.clone();
        sorted.sort();
        assert_eq!(sorted, named);
        assert!(center == url || members.contains(&url.to_string()), "{cluster}");
        assert!(members.iter().all(|member| topic_of(member) == "roses"), "{cluster}");
    }
}

/// Lost once: what links said of a URL that redirects stayed with it in a store, and nothing was known of where it leads,
/// while a build of the same files knew. A redirect that comes or ends after a build counts at once for the page asked about.
#[test]
fn what_is_said_of_a_moved_url_is_about_where_it_leads() {
    let world = world();
    let links: String = (0..6)
        .map(|n| {
            let body = format!("glaciersworda <a href='http://site.example/ice/old'>glaciers {}</a>", letters(n));
            page(&format!("http://h{n}.example/"), "2026-11-01T00:00:00Z", "1", &body) + "\n"
        })
        .collect();
    world.run(&[world.write("pages.jsonl", site().concat() + &links)]);
    let n_passages = |page: &str| {
        let output = world.command("query related --json").arg(format!("http://site.example/ice/{page}")).output();
        let answer = serde_json::from_str::<Value>(&text(&output.expect("starts").stdout));
        answer.map_or(0, |answer| answer["n_fragments"].as_u64().expect("a number"))
    };
    let bags_of_ice = || {
        let urls: Vec<String> = answers(&world).into_values().flatten().map(|(url, _)| url).collect();
        ["old", "new"].map(|page| urls.contains(&format!("http://site.example/ice/{page}")))
    };
    world.ask("related build", &[]);
    assert_eq!((["old", "new"].map(n_passages), bags_of_ice()), ([6, 0], [true, false]));
    for (day, to, expected) in [(2, "new", [6, 6]), (3, "elsewhere", [6, 0]), (4, "new", [6, 6])] {
        world.run(&[world.write(&format!("moved-{day}.jsonl"), moved("ice", "old", to, day))]);
        assert_eq!(["old", "new"].map(n_passages), expected, "day {day}");
        let verified = world.ask("verify", &[]);
        assert!(verified.starts_with("sound") && verified.contains("not checked: bags"), "day {day}: {verified}");
    }
    world.ask("related build", &[]);
    assert_eq!((["old", "new"].map(n_passages), bags_of_ice()), ([6, 6], [false, true]));
    let back = page("http://site.example/ice/old", "2026-11-05T00:00:00Z", "5", "glaciersworda is here again");
    world.run(&[world.write("back.jsonl", back + "\n")]);
    assert_eq!(["old", "new"].map(n_passages), [6, 0]);
    world.ask("related build", &[]);
    let verified = world.ask("verify", &[]);
    assert!(verified.starts_with("sound") && !verified.contains("not checked"), "{verified}");
    assert_eq!((["old", "new"].map(n_passages), bags_of_ice()), ([6, 0], [true, false]));
}

/// A link that was taken in a moment ago counts for the page that it leads to, before any build knows it.
#[test]
fn a_new_link_counts_at_once() {
    let world = world();
    world.run(&[world.write("pages.jsonl", site().concat())]);
    world.ask("related build", &[]);
    let new = "http://site.example/new";
    let unknown = world.command("query related").arg(new).output().expect("starts");
    assert_eq!(unknown.status.code(), Some(4), "{}", text(&unknown.stderr));
    let words = (0..9).map(|n| format!("glaciersword{} ", letters(n))).collect::<String>();
    let linking =
        page("http://other.example/", "2026-11-02T00:00:00Z", "2", &format!("{words}<a href='{new}'>ice</a>"));
    world.run(&[world.write("more.jsonl", linking + "\n")]);
    let answer: Value = serde_json::from_str(&world.ask("query related --json --limit 3", &[new])).expect("JSON");
    assert_eq!(answer["n_fragments"], 1);
    let related = answer["related"].as_array().expect("a list");
    assert_eq!(related.len(), 3);
    for page in related {
        assert_eq!(topic_of(&string(&page["url"])), "glaciers", "{answer}");
        assert!(!page["shared"].as_array().expect("a list").is_empty());
        assert!(!page["linked_from"].as_array().expect("a list").is_empty());
    }
}

/// Pages that came after the build answer while `run` runs, and as the next build has them, where weights do not depend on
/// other bags.
#[test]
fn a_running_service_brings_bags_up_to_date() {
    let world = world().with("related.weight", "none").with("related.low_df", 0).with("related.high_df", 1.0);
    let world = world.with("related.refresh_ms", 100);
    let (before, mut after): (Vec<_>, Vec<_>) = site()
        .into_iter()
        .enumerate()
        .partition(|(number, line)| number % PAGES_A_TOPIC < 5 && !is_moved(&url_of(line)));
    // A page that links to a moved URL brings both bags up to date, the one that goes and the one that gets its words.
    after.sort_by_key(|(_, line)| !is_moved(&url_of(line)));
    let lines = |pages: Vec<(usize, String)>| pages.into_iter().map(|(_, line)| line).collect::<String>();
    world.run(&[world.write("before.jsonl", lines(before))]);
    world.ask("related build --clusters", &[]);
    let old = answers(&world);
    let begun = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs_f64();
    let (server, mut pipe) = Server::of_run(&world);
    pipe.write_all(lines(after).as_bytes()).and_then(|()| pipe.flush()).expect("piped");
    let n_documents = TOPICS.len() * PAGES_A_TOPIC;
    let is_up_to_date = || {
        let printed = world.ask("query related --json http://site.example/roses/0", &[]);
        serde_json::from_str::<Value>(&printed).expect("JSON")["built_up_to"] == n_documents
    };
    let mut looks = 0..600;
    while !is_up_to_date() {
        assert!(looks.next().is_some(), "the bags are not brought up to date");
        std::thread::sleep(Duration::from_millis(50));
    }
    // Once nobody could tell how far the bags lagged behind the pages.
    server.wait("/metrics", |metrics| {
        let mut lines = metrics.body.lines();
        let line = lines.find(|line| line.starts_with("lookalike_related_refreshed_timestamp_seconds "));
        line.and_then(|line| line.rsplit_once(' ')?.1.parse().ok()).is_some_and(|at: f64| at >= begun)
    });
    // Killed and not ended: what was refreshed is whole.
    drop(server);
    assert!(world.ask("verify", &[]).starts_with("sound"));
    let refreshed = answers(&world);
    world.ask("related build", &[]);
    assert_eq!(refreshed, answers(&world));
    assert_ne!(refreshed, old);
}

/// Copies and versions of one page are one answer, and none where they are copies of the page asked about.
#[test]
fn one_cluster_answers_once() {
    let world = world();
    let mut pages = site();
    let copy = pages[0].replace("/roses/0\"", "/copy/0\"");
    assert_ne!(copy, pages[0]);
    pages.push(copy);
    world.run(&[world.write("pages.jsonl", pages.concat())]);
    world.ask("related build", &[]);
    let urls = |arguments: &[&str]| -> Vec<String> {
        let answer: Value =
            serde_json::from_str(&world.ask("query related --json --limit 30", arguments)).expect("JSON");
        answer["related"].as_array().expect("a list").iter().map(|page| string(&page["url"])).collect()
    };
    let (original, copy) = ("http://site.example/roses/0", "http://site.example/copy/0");
    assert!(!urls(&[original]).contains(&copy.to_string()));
    assert!(urls(&[original, "--copies"]).contains(&copy.to_string()));
    let of_another = urls(&["http://site.example/roses/5"]);
    let n_found = [original, copy].iter().filter(|url| of_another.contains(&url.to_string())).count();
    assert_eq!(n_found, 1, "{of_another:?}");
}

/// A million links from one host to one page are sixteen fragments to a bag, and one row where they say the same.
#[test]
fn no_host_floods_a_bag() {
    let world = world();
    let menu = "<a href='http://target.example/'>the same words</a>";
    let pages: String = (0..2000)
        .map(|n| {
            let links: String = (0..500)
                .map(|k| format!("<a href='http://target.example/'>{} spam{}</a> ", letters(n), letters(k)))
                .collect();
            page(&format!("http://flood.example/{n}"), "2026-11-01T00:00:00Z", "1", &format!("{menu}{links}")) + "\n"
        })
        .collect();
    let honest = page(
        "http://honest.example/",
        "2026-11-01T00:00:00Z",
        "1",
        "<a href='http://target.example/'>honest words</a>",
    ) + "\n";
    world.run(&[world.write("pages.jsonl", pages + &honest)]);
    let n_fragments = || {
        let printed = world.ask("query related --json http://target.example/", &[]);
        serde_json::from_str::<Value>(&printed).expect("JSON")["n_fragments"].as_u64().expect("a number")
    };
    assert_eq!(n_fragments(), 16 + 1, "sixteen of the host that floods, one of another");
    let rows = || -> Value {
        let report = world.ask("verify --json", &[]);
        serde_json::from_str::<Value>(&report).expect("JSON")["rows"]["fragments"].clone()
    };
    world.ask("related build", &[]);
    assert_eq!((n_fragments(), rows().as_u64()), (17, Some(17)), "a build leaves the rest out of the store");
}

#[test]
fn a_file_is_asked_about_and_wrong_input_is_refused() {
    let world = world();
    world.run(&[world.write("pages.jsonl", site().concat())]);
    world.ask("related build", &[]);
    let file = world.write("page.html", "<p>violinswordb violinsworde violinswordc <b>violins</b>");
    let printed = world.ask("query related --limit 2", &[file.to_str().expect("a path")]);
    assert!(printed.contains("http://site.example/violins/") && printed.contains("no page links to it"), "{printed}");
    let broken = world.write("broken.jsonl", "no page\n".repeat(3));
    let some = world.write("some.jsonl", site()[0].clone() + "no page\n");
    let summary = world.ask("related build --json", &[some.to_str().expect("a path")]);
    let summary: Value = serde_json::from_str(&summary).expect("JSON");
    assert_eq!((&summary["n_read"], &summary["n_rejected"]), (&Value::from(0), &Value::from(1)), "{summary}");
    let refused = world.command("related build").arg(&broken).output().expect("starts");
    assert_eq!(refused.status.code(), Some(3));
    assert!(text(&refused.stderr).contains("all 3 were rejected"), "{}", text(&refused.stderr));
    let other = world.with("related.window", 3);
    let refused = other.command("related build").output().expect("starts");
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("related.window is 16 there and 3 here"), "{}", text(&refused.stderr));
    let missing = World::new();
    let refused = missing.command("related build").output().expect("starts");
    assert_eq!(refused.status.code(), Some(1));
    assert!(!missing.path("store").exists(), "a build creates no store");
}
