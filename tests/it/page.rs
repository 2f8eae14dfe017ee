//! The page for people, in a real browser: what it shows, that a keyboard and a screen reader suffice, and that
//! nothing crawled can take it over.

use crate::explain::bridged;
use crate::harness::browser::Browser;
use crate::harness::server::{Server, encoded};
use crate::harness::{World, page, related_sample, sweeps};
use serde_json::{Value, json};
use std::io::Write;

/// Seen in 2014, moved later to the other one.
const MOVED: &str = "https://docs.npm.example/html/doc/cache.html";
const KEPT: &str = "https://docs.npm.example/html/doc/cli/npm-cache.html";

const ENTER: &str = "\u{e007}";
const TAB: &str = "\u{e004}";
const DOWN: &str = "\u{e015}";

/// More than any page needs to be walked through.
const TABS_MAX: usize = 100;

fn sample() -> (World, Server) {
    let world = World::new();
    world.run(&sweeps());
    let server = Server::open(&world);
    (world, server)
}

/// A person types a URL, by keyboard alone; the page shows where it went, what resembles it, and how two versions
/// compare.
#[test]
fn a_lost_page_is_found_by_hand() {
    let Some(browser) = Browser::start() else { return };
    let (_world, server) = sample();
    browser.open(&format!("http://{}/", server.address));
    // The skip link, the name, the box.
    for _ in 0..3 {
        browser.press(TAB);
    }
    assert_eq!(browser.script("return document.activeElement.id"), "url");
    browser.press(&format!("{MOVED}{ENTER}"));
    browser.wait("return document.querySelector('h1').textContent", MOVED);
    assert_eq!(browser.texts("ol.found li:first-child a:not(.more)"), [KEPT]);
    assert_eq!(browser.texts("ol.found li:first-child a.more"), ["Why?", "What changed?"]);
    // The newest sweep first, the site once.
    assert_eq!(browser.texts("table.timeline thead th"), ["URL", "2017\n09-01", "2015\n08-01", "2014\n08-01"]);
    assert_eq!(browser.texts("table.timeline .site th"), ["https://docs.npm.example"]);
    assert_eq!(
        browser.texts("table.timeline tbody th bdi"),
        ["https://docs.npm.example", "/html/doc/cache.html", "/html/doc/cli/npm-cache.html"]
    );
    assert_eq!(browser.texts("table.timeline tbody th .good"), ["still here"], "in the newest sweep stands one");
    assert_eq!(browser.texts("table.timeline tbody tr:not(.site) td"), ["·", "·", "A", "C", "B", "·"]);
    assert_eq!(browser.texts("table.versions tbody th"), ["C", "B", "A"]);
    check_access(&browser);

    browser.click("table.versions tbody tr:nth-child(2) input[name=b]");
    browser.click("main form button");
    browser.wait("return document.querySelector('h1').textContent", "Two copies");
    let shares = browser.texts(".facts dd");
    assert_eq!(shares.len(), 3);
    assert!(shares.iter().all(|share| share.ends_with('%')), "{shares:?}");
    check_access(&browser);
}

/// A person follows a letter of the timeline and sees what changed; where texts are missing, the page says why and offers the
/// form for texts.
#[test]
fn what_changed_is_seen_at_a_glance() {
    let rose = |n: usize| (0..n).map(|at| format!("rose{at} ")).collect::<String>();
    let line =
        |day: &str, body: &str| page("http://a.example/roses", &format!("2026-{day}T00:00:00Z"), day, body) + "\n";
    let old = format!("{}The shop opens at nine. {}", rose(150), rose(150).replace("rose", "bush"));
    let new = old.replace("opens at nine", "closed <for> ever") + "Thank you all.";
    let world = World::new().with("store.keep_text", "canonical");
    world.run(&[world.write("pages.jsonl", line("10-01", &old) + &line("11-01", &new))]);
    let server = Server::open(&world);
    let text = server.get("/v1/text?of=http://a.example/roses&sweep=10-01").json();
    assert_eq!((&text["text"], &text["missing"]), (&json!(old), &Value::Null));
    assert_eq!(server.get("/v1/text?of=2").json()["text"], json!(new));
    assert_eq!(world.ask("query text", &["http://a.example/roses"]), format!("{new}\n"));
    for (path, status) in [
        ("/v1/text?of=3", 404),
        ("/v1/text?of=http://a.example/roses&sweep=12-01", 404),
        ("/v1/text?of=http://never.example/", 404),
        ("/v1/text", 400),
    ] {
        assert_eq!(server.get(path).status, status, "{path}");
    }

    if let Some(browser) = Browser::start() {
        browser.open(&format!("http://{}/?url=http://a.example/roses", server.address));
        check_access(&browser);
        browser.click("table.timeline a.since");
        browser.wait("return document.querySelector('h1').textContent", "Two copies");
        assert_eq!(browser.texts(".change del"), ["opens at nine."]);
        assert_eq!(browser.texts(".change ins"), ["closed <for> ever.", "Thank you all."]);
        assert_eq!(
            browser.texts("section:first-of-type .state"),
            ["2\u{a0}places: 3\u{a0}words went, 6\u{a0}words came."]
        );
        let folded = "return [...document.querySelectorAll('.change')].every(change => change.getBoundingClientRect().bottom < 900)";
        assert_eq!(browser.script(folded), true, "every change is on the first screen");
        check_access(&browser);
        browser.click("details.shared > summary");
        check_access(&browser);
    }
    // By URLs and sweeps, in either order, it is the same change.
    let url = encoded("http://a.example/roses");
    let by_sweep = server.get(&format!("/compare?a={url}&b={url}&b_sweep=10-01"));
    assert!(by_sweep.body.contains("<del>opens at nine.</del>"), "{}", by_sweep.body);

    let kept = server.get("/v1/compare?a=1&b=2&passages=true").json();
    assert_eq!(kept["texts"]["a"], json!({"from": "store", "document": 1}));

    let off = World::new();
    off.run(&[off.write("pages.jsonl", line("10-01", &old) + &line("11-01", &new))]);
    let server = Server::open(&off);
    let never = server.get("/compare?a=1&b=2");
    assert!(never.body.contains("The store keeps no texts") && never.body.contains("<textarea"), "{}", never.body);
    // The file is still there: whoever asks for it reads it again.
    assert!(never.body.contains("<button>Read the inputs for it</button>"), "{}", never.body);
    let from_inputs = server.get("/compare?a=1&b=2&inputs=true");
    assert!(from_inputs.body.contains("<del>opens at nine.</del>"), "{}", from_inputs.body);
    let compared = server.get("/v1/compare?a=1&b=2&passages=true&inputs=true").json();
    let texts = &compared["texts"];
    assert_eq!(
        (&texts["a"]["from"], &texts["a"]["offset"], &texts["b"]["offset"]),
        (&json!("input"), &json!(0), &json!(1))
    );
    assert_eq!(texts["passages"].as_array().map(Vec::len), Some(2), "{compared}");
    assert_eq!(server.get("/v1/compare?a=1&b=2").json()["texts"], Value::Null);
    let without = server.get("/v1/compare?a=1&b=2&passages=true");
    assert_eq!(without.status, 404);
    assert!(without.body.contains("With inputs=true it is looked for in the inputs."), "{}", without.body);
    // Wrong once: a file that was written anew gave the words of another page.
    std::fs::write(off.path("pages.jsonl"), line("10-01", &new) + &line("11-01", &old)).expect("written");
    assert_eq!(server.get("/v1/compare?a=1&b=2&passages=true&inputs=true").status, 404);
    std::fs::remove_file(off.path("pages.jsonl")).expect("removed");
    let gone = server.get("/compare?a=1&b=2");
    assert!(!gone.body.contains("Read the inputs"), "{}", gone.body);
    let gone = server.get("/compare?a=1&b=2&inputs=true");
    assert!(gone.body.contains("No input that is still there holds a record of it."), "{}", gone.body);
    assert_eq!(server.get("/v1/compare?a=1&b=2&passages=true&inputs=true").status, 404);
    assert_eq!(server.get("/v1/text?of=1").json()["missing"], "never-kept");
    assert_eq!(off.command("query text 1").output().expect("starts").status.code(), Some(4));
}

/// A person sees which blocks of a page count, and why: of a page of the store, from its input, and of one that is pasted.
#[test]
fn the_blocks_of_a_page_are_shown() {
    let (_world, server) = sample();
    let of = format!("/content?of={}", encoded(KEPT));
    let offer = server.get(&of).body;
    assert!(offer.contains("<button>Read the inputs for it</button>"), "{offer}");
    let shown = server.get(&format!("{of}&inputs=true")).body;
    assert!(shown.contains("<td>yes</td><td>heading</td>") && shown.contains("<td>no</td>"), "{shown}");
    assert!(shown.contains("words count in this store. With <code>canonical.content = \"main\"</code>"), "{shown}");
    assert_eq!(server.get("/content?of=http://never.example/").status, 404);
    let Some(browser) = Browser::start() else { return };
    browser.open(&format!("http://{}/?url={}", server.address, encoded(KEPT)));
    browser.click("p.links a[href^='/content']");
    browser.wait("return document.querySelector('h1').textContent", "What counts of a page");
    browser.click("main form button");
    browser.wait("return String(document.querySelectorAll('table.blocks').length)", "1");
    check_access(&browser);
    browser.open(&format!("http://{}/content", server.address));
    browser
        .type_into("#text", "<nav><a href=/>Home</a></nav><main><p>The quick brown fox jumps over the dog, and the dog sleeps on until the sun stands high above the hills and the river.</p></main>");
    browser.click("main form button");
    browser.wait("return String(document.querySelectorAll('table.blocks').length)", "1");
    assert_eq!(
        browser.texts("table.blocks tr.counts td:last-child"),
        [
            "The quick brown fox jumps over the dog, and the dog sleeps on until the sun stands high above the hills and the river."
        ]
    );
}

/// Wrong once: "what counts" of a URL that is a number. It led to the document of that number, which is another page; and to
/// a 404 where no page was ever seen.
#[test]
fn what_counts_of_a_number_is_that_of_its_page() {
    let world = World::new();
    let day = "2026-01-01T00:00:00Z";
    let gone = json!({"url": "http://gone/", "fetched_at": day, "body": null}).to_string();
    let pages = [page("http://a/", day, "", &text_of(1, 40)), page("1", day, "", &text_of(2, 40)), gone];
    world.run(&[world.write("pages.jsonl", pages.join("\n"))]);
    let server = Server::open(&world);
    for (url, link) in [("1", "/content?of=2"), ("http://a/", "/content?of=http%3A%2F%2Fa%2F")] {
        let shown = server.get(&format!("/?url={}", encoded(url))).body;
        assert!(shown.contains(&format!("<a href=\"{link}\">what counts</a>")), "{url}: {shown}");
    }
    let never = server.get("/?url=http://gone/");
    assert!(never.status == 200 && !never.body.contains("what counts"), "{}", never.body);
}

/// Empty once: the clusters of a sweep whose name ends with a blank, as the page itself offers it.
#[test]
fn a_sweep_is_chosen_by_its_whole_name() {
    let world = World::new();
    let of =
        |n: u32, sweep: &str| page(&format!("http://a/{n}"), "2026-01-01T00:00:00Z", sweep, &text_of(1, 40)) + "\n";
    world.run(&[world.write("pages.jsonl", of(1, " s ") + &of(2, " s ") + &of(3, "s"))]);
    let server = Server::open(&world);
    let form = server.wait("/clusters", |answer| answer.body.contains("identical</span>")).body;
    assert!(form.contains("<option value=\" s \">"), "{form}");
    let header = "cluster,pages,texts,hosts,left,url";
    for (question, n_pages) in [("sweep=%20s%20", 2), ("sweep=s&size=1", 1), ("host=%20a%20", 3)] {
        let csv = server.get(&format!("/clusters?format=csv&{question}")).body;
        assert_eq!(csv, format!("{header}\n1,{n_pages},1,1,0,http://a/1\n"), "{question}");
    }
}

/// Wrong once: "Why?" beside a place known by a redirect. It led to "They are not in one cluster": a redirect needs no links
/// between two pages.
#[test]
fn a_redirect_is_not_explained_by_links() {
    let world = World::new();
    let leads = json!({"url": "http://a/old", "fetched_at": "2026-01-02T00:00:00Z", "redirect_to": "/new"});
    let pages = [
        page("http://a/old", "2026-01-01T00:00:00Z", "", &text_of(1, 40)),
        leads.to_string(),
        page("http://a/new", "2026-01-02T00:00:00Z", "", &text_of(2, 40)),
    ];
    world.run(&[world.write("pages.jsonl", pages.join("\n"))]);
    let shown = Server::open(&world).get("/?url=http://a/old").body;
    let place = shown.split("<li>").nth(1).and_then(|rest| rest.split("</li>").next()).expect("a place");
    assert!(place.contains("by a redirect") && place.contains("What changed?") && !place.contains("Why?"), "{place}");
}

/// Two texts, one pasted as HTML and one a file: marks show what they share, and link one to the other.
#[test]
fn shared_passages_are_marked() {
    let Some(browser) = Browser::start() else { return };
    let (world, server) = sample();
    let shared = "the quick brown fox jumps over the lazy dog and then sleeps until the sun is up";
    let file = world.write("second.txt", format!("Something else. {shared}. And <b>more</b> of it."));
    browser.open(&format!("http://{}/compare", server.address));
    check_access(&browser);
    browser
        .type_into("#a_text", &format!("<p>First & only: <i>{shared}</i>!</p><script>document.title='owned'</script>"));
    browser.type_into("#b_file", &file.display().to_string());
    browser.click("form[method=post] button");
    browser.wait("return document.querySelector('h1').textContent", "Shared passages");
    assert_eq!(browser.texts("mark"), [format!("1 {shared}"), format!("1 {shared}")]);
    assert!(browser.texts(".text")[1].ends_with("And <b>more</b> of it."), "a text is shown as it is");
    browser.click("#a1 a");
    assert_eq!(browser.script("return document.querySelector(':target').id"), "b1");
    assert_eq!(browser.script("return document.scripts.length"), 0);
    check_access(&browser);
}

/// Pages about the same, with the words that both have and a page that links there; before a build, what to do.
#[test]
fn related_pages_are_shown_with_their_reason() {
    let world = related_sample().with("http.refresh_ms", 10);
    let server = Server::open(&world);
    let unbuilt = server.get("/?url=http://site/pizza");
    assert!(unbuilt.body.contains("There are none yet: <code>lookalike related build</code>"), "{}", unbuilt.body);
    world.ask("related build --quiet", &[]);
    let built = server.wait("/?url=http://site/pizza", |answer| answer.body.contains("class=\"found related\""));
    let (_, section) = built.body.split_once("<ol class=\"found related\">").expect("related pages");
    let bread = section.split("<li>").find(|item| item.starts_with("<a href=\"/?url=http%3A%2F%2Fsite%2Fbread\">"));
    let bread = bread.unwrap_or_else(|| panic!("{section}"));
    assert!(bread.contains("<bdi>dough</bdi>") && bread.contains("<meter"), "{bread}");
    assert!(bread.contains("Linked from <a href=\"/?url=http%3A%2F%2Fsite%2F\">"), "{bread}");
    assert!(!section.contains("site/copy"), "copies stand elsewhere on the page: {section}");
    let linked = server.get("/?url=http://site/focaccia");
    assert_eq!(linked.status, 200);
    assert!(linked.body.contains("never seen, but other pages link to it") && linked.body.contains("found related"));
    assert_eq!(server.get("/?url=http://site/never").status, 404);
    // Once a page, for programs, too.
    let table = server.get("/?format=csv&url=http://site/focaccia").body;
    assert_eq!(table, "url,fetched_at,sweep,seen,document,cluster,redirects_to\n");
    assert_eq!(server.get("/?format=json&url=http://site/focaccia").body, "[]");
    let (_world, other) = sample();
    assert!(!other.get(&format!("/?url={}", encoded(MOVED))).body.contains("related"), "nothing is kept for them");

    let Some(browser) = Browser::start() else { return };
    for name in ["pizza", "focaccia"] {
        browser.open(&format!("http://{}/?url=http://site/{name}", server.address));
        assert!(browser.texts("section[aria-labelledby=related] li a").contains(&"http://site/bread".to_string()));
        check_access(&browser);
    }
}

/// The page shows the chain and marks its weakest link, and the form, the home page and a comparison lead to it.
#[test]
fn a_person_sees_the_chain() {
    let world = bridged();
    let server = Server::open(&world);
    let never = server.get("/explain?a=http://no/&b=1");
    assert!(never.status == 404 && never.body.contains("class=\"problem\""), "{}", never.body);
    let same = server.get("/explain?a=http://a/&b=http://copy/");
    assert!(same.body.contains("Both are the same document, number 1"), "{}", same.body);
    let apart = server.get("/explain?a=1&b=4");
    assert!(apart.body.contains("They are not in one cluster"), "{}", apart.body);
    assert!(server.get("/compare?a=1&b=2").body.contains("<a href=\"/explain?a=1&amp;b=2\">"));
    let evil = server.get(&format!("/explain?a={}&b=1", encoded("\"><script>x</script>")));
    assert!(!evil.body.contains("<script"), "{}", evil.body);

    let Some(browser) = Browser::start() else { return };
    browser.open(&format!("http://{}/explain", server.address));
    check_access(&browser);
    browser.type_into("#a", "http://a/");
    browser.type_into("#b", "2");
    browser.click("main form button");
    browser.wait("return String(document.querySelectorAll('ol.chain li').length)", "5");
    let links = browser.texts("ol.chain li.link");
    assert!(links.len() == 2 && links[0].ends_with("near, the weakest"), "{links:?}");
    assert_eq!(browser.texts("ol.chain li:not(.link) a"), ["http://a/", "http://ab/", "http://b/"]);
    check_access(&browser);
    browser.open(&format!("http://{}/?url=http://a/", server.address));
    browser.click("button[formaction='/explain']");
    browser.wait("return document.querySelector('h1').textContent", "Why are they together?");
    assert!(!browser.texts("ol.chain li.link").is_empty());
}

/// URLs and names of sweeps are foreign text: none becomes markup, script or a link elsewhere.
#[test]
fn nothing_crawled_takes_the_page_over() {
    let world = World::new();
    let day = |n: u32| format!("2026-11-{n:02}T00:00:00Z");
    let evil = "javascript:document.title='owned'//\"'><script>document.title='owned'</script><img/src=x/onerror=alert(1)>&lt;";
    let sweep = "</th></table><svg onload=\"document.title='owned'\">\u{202e}";
    let body = "words that are shared by all of these pages one two three four five six seven";
    let pages = [
        page(evil, &day(1), sweep, body),
        page("http://b/", &day(2), "s", body),
        page("http://b/", &day(3), sweep, "x"),
    ];
    world.run(&[world.write("evil.jsonl", pages.join("\n"))]);
    let server = Server::open(&world);
    for path in
        [format!("/?url={}", encoded(evil)), "/?url=http://b/".into(), "/".into(), format!("/?url={}x", encoded(evil))]
    {
        let answer = server.get(&path);
        assert!(
            !answer.body.contains("<script") && !answer.body.contains("<svg onload") && !answer.body.contains("<img/")
        );
        let policy = answer.header("content-security-policy").expect("a policy");
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    }
    let Some(browser) = Browser::start() else { return };
    browser.open(&format!("http://{}/?url={}", server.address, encoded(evil)));
    assert_eq!(browser.texts("h1"), [evil]);
    assert_eq!(browser.script("return document.title"), format!("{evil} – Lookalike"));
    assert_eq!(
        browser.script("return document.querySelectorAll('script, svg, main img, [onload], [onerror]').length"),
        0
    );
    let links = "return [...document.links].filter(link => link.className !== 'outside').map(link => new URL(link.href).origin)";
    let own = Value::from(format!("http://{}", server.address));
    let links = browser.script(links);
    assert!(links.as_array().expect("a list").iter().all(|origin| *origin == own), "{links}");
    let outside = browser
        .script("return [...document.links].filter(link => link.className === 'outside').map(l => [l.href, l.rel])");
    let archive = "https://web.archive.org/web/20261103000000/http://b/";
    assert_eq!(outside, json!([["http://b/", "noreferrer noopener"], [archive, "noreferrer noopener"]]));
    check_access(&browser);
}

/// A sweep's page, `words` long; equal numbers give equal texts.
fn text_of(number: usize, words: usize) -> String {
    (0..words).map(|n| format!("w{}", (number * 7919 + n) % 90_000)).collect::<Vec<_>>().join(" ")
}

const N_SWEEPS: usize = 200;

/// 200 sweeps of two sites, a month apart: `moves/old` is lost in the last but one, and its text stands at `moves/new`; 45
/// copies of one text, and a page that changes in each sweep.
fn many_sweeps() -> World {
    let world = World::new().with("http.refresh_ms", 10).with("http.stats_cache_ms", 0);
    let day = |n: usize| format!("20{:02}-{:02}-01T00:00:00Z", 8 + n / 12, 1 + n % 12);
    let mut pages = Vec::new();
    for n in 0..N_SWEEPS {
        let (at, name) = (day(n), format!("s{n:03}"));
        let mut see = |url: &str, text: &str| pages.push(page(url, &at, &name, text));
        let changing = format!("{} {}", text_of(1, 300), text_of(1000 + n, 3));
        see("http://moves/changing", &changing);
        see(if n < N_SWEEPS - 2 { "http://moves/old" } else { "http://moves/new" }, &text_of(2, 200));
        if n == N_SWEEPS - 1 {
            (0..45).for_each(|copy| {
                see(&format!("http://copies/a/rather/long/path/to/copy-{copy}.html"), &text_of(3, 50))
            });
        }
    }
    world.run(&[world.write("pages.jsonl", pages.join("\n"))]);
    world.ask("sweep close", &["s199"]);
    world
}

/// Once empty, without the header: the CSV of a list without rows, which tools refuse to load.
#[test]
fn tables_without_rows_have_their_header() {
    let world = World::new();
    world.run(&[world.write("pages.jsonl", page("http://a/", "2026-01-01T00:00:00Z", "", "one page like no other"))]);
    let server = Server::open(&world);
    for (path, header) in [
        (
            "/?format=csv",
            "url,state,fetched_at,sweep,document,last_seen,to,to_document,to_last_seen,resemblance,evidence,score",
        ),
        ("/?format=csv&url=no-such-word", "url,fetched_at,sweep,seen,document,cluster,redirects_to"),
        ("/clusters?format=csv&host=no-such-host", "cluster,pages,texts,hosts,left,url"),
    ] {
        let csv = server.wait(path, |answer| answer.status == 200);
        assert_eq!(csv.body, format!("{header}\n"), "{path}");
        let json = server.get(&path.replace("csv", "json"));
        assert_eq!((json.status, json.body.as_str()), (200, "[]"), "{path}");
    }
}

/// Lost once: the whole table, a 500, where a page had moved through other documents or URLs: what is between had fields of
/// its own. The rows are those of `export moves`.
#[test]
fn moves_are_a_table_for_programs() {
    let world = World::new().with("cluster.threshold", 0.3);
    let day = |n: u32| format!("2026-11-{n:02}T00:00:00Z");
    let (a, b) = (text_of(1, 90), text_of(2, 100));
    let leads = |from: &str, to: &str| json!({"url": from, "fetched_at": day(4), "redirect_to": to}).to_string();
    let gone = |url: &str, n: u32| json!({"url": url, "fetched_at": day(n), "body": null}).to_string();
    let pages = [
        page("http://a/", &day(1), "1", &a),
        page("http://ab/", &day(1), "1", &format!("{a} {b}")),
        page("http://b/", &day(5), "5", &b),
        gone("http://a/", 2),
        gone("http://ab/", 3),
        page("http://old/", &day(1), "1", &text_of(3, 40)),
        leads("http://old/", "http://between/"),
        leads("http://between/", "http://new/"),
        page("http://new/", &day(5), "5", &text_of(4, 40)),
    ];
    world.run(&[world.write("pages.jsonl", pages.join("\n"))]);
    let server = Server::open(&world);
    let sorted = |mut rows: Vec<String>| {
        rows.sort();
        rows
    };
    let csv = server.wait("/?format=csv", |answer| answer.status == 200).body;
    let lines = |csv: &str| sorted(csv.lines().map(String::from).collect());
    assert_eq!(lines(&csv), lines(&world.ask("export moves", &[])));
    let json = server.get("/?format=json").json();
    let rows = json.as_array().expect("rows");
    let exported = world.ask("export moves --json", &[]);
    let exported = exported.lines().map(|line| serde_json::from_str::<Value>(line).expect(line).to_string());
    assert_eq!(sorted(rows.iter().map(Value::to_string).collect()), sorted(exported.collect()));
    let known_by = |url: &str| rows.iter().find(|row| row["url"] == url).map(|row| &row["evidence"]);
    assert_eq!(known_by("http://a/"), Some(&json!("chain")));
    assert_eq!(known_by("http://old/"), Some(&json!("redirect")));
}

/// Wrong once: `/clusters` without a host, where some URLs have none. It had the clusters of these alone, and `/` a link
/// without a name to nowhere. Lost once: that `/reuse` showed only 50 of them.
#[test]
fn urls_without_a_host_hide_no_others() {
    let world = World::new();
    let of = |url: String, text: &str| page(&url, "2026-01-01T00:00:00Z", "", text) + "\n";
    let pages: String = (1..4).map(|n| of(format!("http://a/{n}"), &text_of(1, 40))).collect();
    let ids: String = (10..61).map(|n| of(format!("id-{n}"), &text_of(2, 40))).collect();
    world.run(&[world.write("pages.jsonl", pages + &ids)]);
    let server = Server::open(&world);
    let header = "cluster,pages,texts,hosts,left,url";
    let all = format!("{header}\n2,51,1,1,0,id-10\n1,3,1,1,0,http://a/1\n");
    let csv = server.wait("/clusters?format=csv", |answer| answer.status == 200);
    assert_eq!(csv.body, all);
    assert_eq!(server.get("/clusters?format=csv&host=&sweep=").body, all, "as the form sends it");
    assert_eq!(server.get("/clusters?format=csv&host=a").body, format!("{header}\n1,3,1,1,0,http://a/1\n"));
    let form = server.get("/clusters").body;
    assert!(form.contains("<option value=\"a\">") && !form.contains("<option value=\"\">"), "{form}");
    let home = server.get("/").body;
    assert!(home.contains("URLs without a host</th><td class=\"number\">51</td><td></td></tr>"), "{home}");
    assert!(!home.contains("href=\"/?url=\""), "{home}");
    let copies = server.get("/reuse?url=id-10").body;
    let note = "URLs without a host</th><td colspan=\"3\" class=\"note\">51&nbsp;pages, 50 shown</td>";
    assert!(copies.contains(note), "{copies}");
}

/// What is shown is there for programs, too: a cluster over the sweeps, and the URLs that a search finds.
#[test]
fn timelines_and_searches_are_tables_for_programs() {
    let (_world, server) = sample();
    let csv = server.get(&format!("/?format=csv&url={}", encoded(MOVED)));
    assert_eq!(csv.header("content-type"), Some("text/csv; charset=utf-8"));
    let lines: Vec<&str> = csv.body.lines().collect();
    assert_eq!(lines[0], "url,fetched_at,sweep,seen,document,cluster,redirects_to");
    assert!(lines[1].starts_with(&format!("{MOVED},2014-08-01")), "{}", lines[1]);
    assert!(lines.iter().any(|line| line.starts_with(KEPT)), "the other URL of its cluster is in it: {}", csv.body);
    let json = server.get(&format!("/?format=json&url={}", encoded(MOVED))).json();
    assert_eq!(json.as_array().map(Vec::len), Some(lines.len() - 1));
    let found = server.get("/?format=json&url=npm-cache").json();
    assert!(found.as_array().expect("rows").iter().any(|row| row["url"] == KEPT && row["seen"] == "page"), "{found}");
    // Once a page, with 200, whatever format was asked for.
    let text = encoded(&text_of(1, 10));
    assert_eq!(server.get(&format!("/?url={text}")).status, 200);
    for format in ["csv", "json"] {
        assert_eq!(server.get(&format!("/?format={format}&url={text}")).status, 400, "{format}");
    }
    for wanted in ["npm-cache", "", &encoded(MOVED), &text] {
        assert_eq!(server.get(&format!("/?format=xml&url={wanted}")).status, 400, "{wanted}");
    }
}

/// Inside `run` the first page says how fast pages come in, and which clusters became one last.
#[test]
fn the_first_page_of_a_run_shows_its_pace_and_merges() {
    let world = World::new().with("http.refresh_ms", 10).with("http.stats_cache_ms", 0).with("store.keep_events", 1000);
    let world = world.with("cluster.threshold", 0.4);
    let [a, b] = [text_of(1, 200), text_of(2, 200)];
    let both = |n: usize| format!("{} {}", text_of(1, n), text_of(2, 400 - n));
    let texts = [a, b, both(200)];
    let line = |(n, text): (usize, &String)| page(&format!("http://h/{n}"), "2026-01-01T00:00:00Z", "1", text) + "\n";
    let lines: String = texts.iter().enumerate().map(line).collect();
    let (server, mut pipe) = Server::of_run(&world);
    pipe.write_all(lines.as_bytes()).expect("written");
    let body = server.wait("/", |answer| answer.body.contains("This process has taken in 3")).body;
    assert!(body.contains("Cluster 2 joined 1"), "{body}");
    assert!(body.contains("/explain?a=2&amp;b=1"), "{body}");
}

/// A person finds everything from the first page: the largest clusters of a host, where a dead page went, and the pages
/// that a text was copied to.
#[test]
fn the_store_is_explored_from_its_first_page() {
    let world = many_sweeps();
    let server = Server::open(&world);
    let Some(browser) = Browser::start() else { return };
    let home = format!("http://{}/", server.address);
    server.wait("/", |answer| answer.body.contains("<rect"));
    browser.open(&home);
    assert_eq!(browser.texts(".facts dd")[0], "47 of 48 URLs seen");
    assert_eq!(browser.texts("section[aria-labelledby=largest] td"), ["45", "identical", "1"]);
    let sweeps = browser.texts("section[aria-labelledby=sweeps] tbody tr:first-child > *");
    assert_eq!(sweeps, ["s199", "2024-08-01", "47", "45", "1", "", "1", "1"]);
    assert_eq!(browser.texts("section[aria-labelledby=moves] .moves a"), ["http://moves/old", "/new"]);
    assert_eq!(browser.texts(".pace").len(), 0, "a process that takes no pages in has no pace");
    check_access(&browser);

    browser.click("a[href='/clusters?host=copies']");
    browser.wait("return document.querySelector('h1').textContent", "Clusters");
    assert_eq!(browser.texts("table.clusters tbody td"), ["45", "identical", "1"]);
    check_access(&browser);
    for (question, n_rows) in [
        ("host=moves", 0),
        ("size=46", 0),
        ("kind=near", 0),
        ("kind=identical&size=45", 1),
        ("sweep=s199", 1),
        ("sweep=s", 0),
        // Both or neither: a cluster on the host of which the sweep saw nothing does not count.
        ("host=copies&sweep=s199", 1),
        ("host=copies&sweep=s198", 0),
        ("sort=texts", 1),
        ("sort=hosts&kind=moved", 1),
        ("kind=moved", 1),
        ("kind=moved&host=copies", 0),
    ] {
        let answer = server.get(&format!("/clusters?{question}"));
        assert_eq!(answer.body.matches("<tr><th scope=\"row\">").count(), n_rows, "{question}");
    }
    let moves = server.get("/?format=csv").body;
    assert!(moves.starts_with("url,state,fetched_at,sweep,document,last_seen,to,"), "{moves}");
    assert!(moves.contains("\nhttp://moves/old,lost,"), "{moves}");
    let csv = server.get("/clusters?format=csv");
    assert_eq!(csv.header("content-type"), Some("text/csv; charset=utf-8"));
    assert!(
        csv.body.starts_with("cluster,pages,texts,hosts,left,url\n") && csv.body.lines().count() == 2,
        "{}",
        csv.body
    );
    let json = server.get("/clusters?kind=moved&format=json").json();
    assert_eq!(
        (&json[0]["pages"], &json[0]["left"], &json[0]["url"]),
        (&1.into(), &1.into(), &"http://moves/new".into())
    );
    for wrong in ["size=x", "kind=x", "sort=x", "format=x", "cursor=x"] {
        assert!([400, 404].contains(&server.get(&format!("/clusters?{wrong}")).status), "{wrong}");
    }

    browser.open(&home);
    browser.type_into("#url", &format!("MOVES{ENTER}"));
    browser.wait("return document.querySelector('h1').textContent", "URLs with “MOVES”");
    let found = browser.texts("table.list tbody th a");
    assert_eq!(found, ["http://moves/changing", "http://moves/new", "http://moves/old"]);
    check_access(&browser);

    browser.open(&home);
    browser.type_into("#text", &text_of(3, 40));
    browser.click("form[action='/reuse'] button");
    browser.wait("return document.querySelector('h1').textContent", "Pages that hold a text");
    assert_eq!(browser.texts("table.list tbody .site"), ["http://copies\t45\u{a0}pages"]);
    assert_eq!(browser.script("return document.querySelectorAll('table.list tbody tr:not(.site)').length"), 45);
    check_access(&browser);
    let by_box = server.get(&format!("/?url={}", encoded(&text_of(3, 40))));
    assert!(by_box.body.contains("45&nbsp;pages hold half of it"), "{}", by_box.body);
}

/// Lost if this fails: the columns that tell where a page is now, cut off at the edge of the screen.
#[test]
fn the_newest_sweeps_are_in_sight() {
    let world = many_sweeps();
    let server = Server::open(&world);
    let Some(browser) = Browser::start() else { return };
    browser.open(&format!("http://{}/?url=http://moves/changing", server.address));
    assert_eq!(browser.texts("table.timeline thead th").len(), 25);
    for width in [1280, 390] {
        browser.emulate("dark", width);
        let seen = "const box = document.querySelector('.scroll'); box.scrollLeft = arguments[0] ?? 0;\
                    return [...document.querySelectorAll('table.timeline thead th')]\
                    .map(th => th.getBoundingClientRect()).filter(r => r.left >= 0 && r.right <= innerWidth).length";
        assert!(browser.script(seen).as_u64() >= Some(4), "{width} pixels show the URL and three sweeps");
        let scrolled = "const box = document.querySelector('.scroll'); box.scrollLeft = 9999;\
                        const url = document.querySelector('table.timeline tbody tr.own th').getBoundingClientRect();\
                        return url.left >= 0 && url.right <= innerWidth";
        assert_eq!(browser.script(scrolled), true, "the URL stays in sight at {width} pixels");
    }
    browser.emulate("light", 1280);
    check_access(&browser);
    browser.click("nav[aria-label=sweeps] a");
    browser.wait("return document.querySelector('nav[aria-label=sweeps] span').innerText", "25–48 of 200 sweeps");
    assert_eq!(browser.texts("nav[aria-label=sweeps] a"), ["Newer sweeps", "Older sweeps"]);
    let oldest = server.get("/?url=http://moves/changing&sweeps_from=192").body;
    assert!(oldest.contains("193–200 of 200 ") && !oldest.contains("Older sweeps"), "{oldest}");
    assert!(oldest.contains("title=\"s000, from 2008-01-01T00:00:00Z\""), "{oldest}");

    let copies = server.get("/?url=http://copies/a/rather/long/path/to/copy-7.html&urls_from=40");
    assert!(copies.body.contains("41–45 of 45 URLs"), "{}", copies.body);
    assert_eq!(server.get("/?url=http://moves/old&urls_from=x").status, 400);
    let old = server.get("/?url=http://moves/old").body;
    assert!(old.contains("lost in sweep s199") && !old.contains("Still here"), "{old}");
}

/// The keyboard reaches the search, the filters and the links, in the order in which they are seen.
#[test]
fn a_keyboard_suffices() {
    let world = many_sweeps();
    let server = Server::open(&world);
    let Some(browser) = Browser::start() else { return };
    server.wait("/clusters", |answer| answer.body.contains("identical"));
    browser.open(&format!("http://{}/clusters", server.address));
    let focused = "const e = document.activeElement; return e.id || e.className || e.innerText";
    let mut reached = Vec::new();
    for _ in 0..17 {
        browser.press(TAB);
        reached.push(browser.script(focused).as_str().expect("a name").to_string());
    }
    let nav = ["Clusters", "Copies of a text", "Compare", "Explain"];
    let expected = [
        &["skip", "name", "url", "Find"][..],
        &nav,
        &["host", "sweep", "size", "kind", "sort", "Show", "As CSV", "As JSON"],
    ]
    .concat();
    assert_eq!(reached[..expected.len()], expected);
    assert!(reached[expected.len()].starts_with("http://copies/"), "{reached:?}");
}

/// Presses Tab until the focus is on an element `e` of which this is true.
fn tab_to(browser: &Browser, is_wanted: &str) {
    let reached = (0..TABS_MAX).any(|_| {
        browser.press(TAB);
        browser.script(&format!("const e = document.activeElement; return {is_wanted}")) == true
    });
    assert!(reached, "Tab does not lead to an element with {is_wanted}");
}

/// Two versions are chosen among all of a cluster, and compared, without a mouse.
#[test]
fn a_keyboard_chooses_two_versions() {
    let (_world, server) = sample();
    let Some(browser) = Browser::start() else { return };
    browser.open(&format!("http://{}/?url={}", server.address, encoded(MOVED)));
    let versions = browser.script("return [...document.querySelectorAll('table.versions [name=a]')].map(e => e.value)");
    let versions: Vec<String> = serde_json::from_value(versions).expect("numbers of documents");
    assert_eq!(versions.len(), 3);
    // The newest as the first, the oldest as the second. Keys move within a group of buttons, and begin anew at its end.
    for (name, wanted) in [("a", &versions[0]), ("b", &versions[2])] {
        tab_to(&browser, &format!("e.name === '{name}' && e.checked"));
        let chosen = || browser.script("return document.activeElement.value");
        for _ in (0..versions.len()).take_while(|_| chosen() != *wanted) {
            browser.press(DOWN);
        }
        assert_eq!(chosen(), *wanted, "the keys choose among the versions");
    }
    tab_to(&browser, "e.innerText === 'What changed?' && e.tagName === 'BUTTON'");
    browser.press(ENTER);
    browser.wait("return document.querySelector('h1').textContent", "Two copies");
    let asked = format!("?a={}&b={}", versions[0], versions[2]);
    assert_eq!(browser.script("return location.search"), asked);
    check_access(&browser);
}

/// From the first page to the chain between two pages without a mouse.
#[test]
fn a_keyboard_explains() {
    let world = bridged();
    let server = Server::open(&world);
    let Some(browser) = Browser::start() else { return };
    browser.open(&format!("http://{}/", server.address));
    tab_to(&browser, "e.innerText === 'Explain'");
    browser.press(ENTER);
    browser.wait("return document.querySelector('h1').textContent", "Why are they together?");
    tab_to(&browser, "e.id === 'a'");
    browser.press(&format!("http://a/{TAB}2{ENTER}"));
    browser.wait("return String(document.querySelectorAll('ol.chain li').length)", "5");
    tab_to(&browser, "e.closest('ol.chain') && e.innerText === 'http://ab/'");
    browser.press(ENTER);
    browser.wait("return document.querySelector('h1').textContent", "http://ab/");
}

/// A file of HTML on the disk of a person leads to the pages that hold its text.
#[test]
fn a_file_finds_its_copies() {
    let world = many_sweeps();
    let server = Server::open(&world);
    let Some(browser) = Browser::start() else { return };
    let file = world.write("saved.html", format!("<!doctype html><title>Saved</title><p>{}</p>", text_of(3, 40)));
    browser.open(&format!("http://{}/reuse", server.address));
    browser.type_into("#file", &file.display().to_string());
    browser.click("form[action='/reuse'] button");
    let n_rows = "return String(document.querySelectorAll('table.list tbody tr:not(.site)').length)";
    browser.wait(n_rows, "45");
    assert_eq!(browser.texts("table.list tbody .site"), ["http://copies\t45\u{a0}pages"]);
    check_access(&browser);
    // A file counts where both are given.
    browser.type_into("#text", &text_of(2, 40));
    browser.type_into("#file", &file.display().to_string());
    browser.click("form[action='/reuse'] button");
    browser.wait("return document.querySelector('#text').value", "");
    browser.wait(n_rows, "45");
}

/// Without pages the first page says how to get some.
#[test]
fn an_empty_store_says_how_to_fill_it() {
    let world = World::new();
    world.run(&[world.write("none.jsonl", "")]);
    let server = Server::open(&world);
    let answer = server.get("/");
    assert!(answer.status == 200 && answer.body.contains("lookalike backfill"), "{}", answer.body);
}

/// An error is a page, too.
#[test]
fn errors_are_pages() {
    let (_world, server) = sample();
    for (path, status) in [
        ("/?url=http://never/", 404),
        ("/?uri=x", 400),
        ("/compare?a=1&b=x", 404),
        ("/compare?a=1&b=99999999", 404),
        ("/compare?b=0", 404),
    ] {
        let answer = server.get(path);
        assert_eq!(answer.status, status, "{path}");
        assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"));
        assert!(answer.body.contains("class=\"problem\""), "{}", answer.body);
    }
    for (content_type, body, status) in [
        ("text/plain", "x", 400),
        ("multipart/form-data", "x", 400),
        ("multipart/form-data; boundary=b", "x", 400),
        ("multipart/form-data; boundary=b", "--b\r\ncontent-disposition: form-data; name=c\r\n\r\nx\r\n--b--\r\n", 400),
        (
            "multipart/form-data; boundary=b",
            "--b\r\ncontent-disposition: form-data; name=a_text\r\n\r\nx\r\n--b--\r\n",
            400,
        ),
    ] {
        let answer = server.post("/compare", content_type, body.as_bytes());
        assert_eq!(answer.status, status, "{content_type} {body}");
        assert!(answer.body.contains("class=\"problem\""), "{}", answer.body);
    }
}

/// Refused once: forms over 2 MiB, with a message that named the fields they had.
#[test]
fn a_form_may_be_as_large_as_a_page() {
    let (_world, server) = sample();
    let part =
        |name: &str, value: &str| format!("--b\r\ncontent-disposition: form-data; name={name}\r\n\r\n{value}\r\n");
    let body = part("text", "") + &part("file", &"word ".repeat(600_000)) + "--b--\r\n";
    let answer = server.post("/reuse", "multipart/form-data; boundary=b", body.as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.body);
}

/// What a keyboard, a screen reader and weak eyes need: in light and dark, on a wide and a narrow screen.
fn check_access(browser: &Browser) {
    for (scheme, width) in [("light", 1280), ("dark", 1280), ("light", 390), ("dark", 360)] {
        browser.emulate(scheme, width);
        let problems = browser.script(ACCESS);
        assert_eq!(problems, json!([]), "{scheme}, {width} pixels wide");
    }
    browser.emulate("light", 1280);
}

/// Lists every problem of the page.
const ACCESS: &str = r#"
const problems = [];
const say = (what, element) => problems.push(what + ': ' + (element ? element.outerHTML.slice(0, 120) : ''));
if (!document.documentElement.lang) say('no language');
if (document.querySelectorAll('h1').length !== 1) say('not one h1');
let level = 0;
for (const heading of document.querySelectorAll('h1, h2, h3, h4')) {
  const own = Number(heading.tagName[1]);
  if (own > level + 1) say('a level is left out', heading);
  level = own;
}
for (const input of document.querySelectorAll('input, select, textarea'))
  if (input.type !== 'hidden' && !input.labels.length && !input.ariaLabel) say('no label', input);
for (const button of document.querySelectorAll('button, a'))
  if (!button.textContent.trim() && !button.ariaLabel) say('no name', button);
for (const th of document.querySelectorAll('th')) if (!th.scope) say('no scope', th);
for (const part of document.querySelectorAll('section')) {
  const name = part.getAttribute('aria-labelledby');
  if (name ? !document.getElementById(name) : !part.ariaLabel) say('no name', part);
}
if (!document.querySelector('main')) say('no main part');
if (document.documentElement.scrollWidth > innerWidth) say('wider than the screen: ' + document.documentElement.scrollWidth);
const numbers = colour => colour.match(/[\d.]+/g).map(Number);
const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
const ground = element => {
  for (; element; element = element.parentElement) {
    const [r, g, b, a] = numbers(getComputedStyle(element).backgroundColor);
    if (a === undefined || a === 1) return [r, g, b];
  }
  return matchMedia('(prefers-color-scheme: dark)').matches ? [0, 0, 0] : [255, 255, 255];
};
for (const element of document.body.querySelectorAll('*')) {
  const says = [...element.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
  if (!says) continue;
  const [one, other] = [light(numbers(getComputedStyle(element).color)), light(ground(element))].sort((a, b) => b - a);
  const contrast = (one + 0.05) / (other + 0.05);
  if (contrast < 4.5) say('contrast ' + contrast.toFixed(2), element);
}
return problems;
"#;
