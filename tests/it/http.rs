//! The HTTP API: the same answers as on the command line, in pages, from a store that grows; and its misuse.

use crate::harness::server::{Response, Server, ask, connect, connect_from, encoded, response, try_response, until};
use crate::harness::{World, fold, page, related_sample, sweeps, text};
use lookalike::wire::{Event, EventType};
use serde_json::{Value, json};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{ChildStdin, Command, Stdio};
use std::time::Duration;

const DAY: &str = "2026-11-21T00:00:00Z";
/// Seen in 2014, moved later.
const MOVED: &str = "https://docs.npm.example/html/doc/cache.html";
const KEPT: &str = "https://docs.npm.example/html/doc/cli/npm-cache.html";

/// A world whose store holds the shipped sample.
fn sample() -> World {
    let world = World::new();
    world.run(&sweeps());
    world
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect(text)
}

/// Rows in one order.
fn sorted(rows: &Value) -> Vec<String> {
    let mut rows: Vec<String> = rows.as_array().expect("rows").iter().map(Value::to_string).collect();
    rows.sort();
    rows
}

/// An answer without its sequence number and cursor.
fn bare(response: &Response) -> Value {
    let mut answer = response.json();
    assert_eq!(response.status, 200, "{answer}");
    let fields = answer.as_object_mut().expect("an object");
    let seq = fields.remove("seq").expect("a sequence");
    assert_eq!(response.header("lookalike-seq"), Some(seq.to_string().as_str()));
    assert!(response.header("lookalike-staleness-ms").is_some());
    fields.remove("next");
    answer
}

#[test]
fn answers_are_those_of_the_command_line() {
    let world = sample();
    let server = Server::open(&world);
    let url = encoded(MOVED);
    let answered = |question: &str, arguments: &[&str]| parsed(&world.ask(&format!("{question} --json"), arguments));
    assert_eq!(bare(&server.get(&format!("/v1/url?url={url}"))), answered("query url", &[MOVED]));
    assert_eq!(bare(&server.get(&format!("/v1/lost?url={url}"))), answered("query lost", &[MOVED]));
    assert_eq!(bare(&server.get("/v1/stats")), answered("stats", &[]));

    let many = json!({"urls": [KEPT, MOVED, "http://never/"]}).to_string();
    let many = bare(&server.post("/v1/lost", "application/json", many.as_bytes()));
    assert_eq!(many["lost"][0], answered("query lost", &[KEPT]));
    assert_eq!(many["lost"][1], answered("query lost", &[MOVED]));
    assert_eq!(many["lost"][2]["answers"], json!([]));

    let cluster = answered("query cluster", &[MOVED]);
    for of in [url.clone(), cluster["cluster"].to_string(), cluster["documents"][1].to_string()] {
        let answer = bare(&server.get(&format!("/v1/cluster?of={of}&limit=1000")));
        assert_eq!(answer["cluster"], cluster["cluster"]);
        assert_eq!(answer["n_documents"], cluster["documents"].as_array().expect("a list").len());
        assert_eq!(sorted(&answer["sightings"]), sorted(&cluster["sightings"]));
    }

    let compared = bare(&server.get(&format!("/v1/compare?a={url}&b={}", encoded(KEPT))));
    let comparison = answered("query compare", &[MOVED, KEPT]);
    for (name, value) in comparison.as_object().expect("an object") {
        assert_eq!(compared[name], *value, "{name}");
    }

    let file = world.write("like.html", "<p>npm-cache -- manipulates packages cache</p> ".repeat(3));
    let body = std::fs::read(&file).expect("read");
    let similar = bare(&server.post("/v1/similar?limit=10", "", &body));
    assert_eq!(similar["similar"], answered("query similar", &[&file.display().to_string()]));
    for likeness in similar["similar"].as_array().expect("a list") {
        check_hundredths(likeness);
    }
    let whole = zstd::decode_all(&std::fs::read(&sweeps()[0]).expect("read")[..]).expect("unpacked");
    let first = parsed(text(&whole).lines().next().expect("a line"));
    let (url, body) = (first["url"].as_str().expect("a URL"), first["body"].as_str().expect("a body"));
    let similar = bare(&server.post("/v1/similar", "text/html; charset=utf-8", body.as_bytes()));
    assert_eq!(similar["similar"][0]["resemblance"], 1.0);
    assert_eq!(similar["similar"][0]["last_seen"]["url"], url);
}

/// Lost once: a store's index shingles, and then the bits of a sketch, to a client that asked again and again. Exact
/// shares and counts of shared shingles revealed for each word of a text whether it brought a stored page nearer.
fn check_hundredths(likeness: &Value) {
    for (name, value) in likeness.as_object().expect("an object") {
        assert!(!name.contains("shingles"), "{name} counts shingles");
        if let Some(share) = value.as_f64().filter(|_| value.is_f64()) {
            assert!((share * 100.0 - (share * 100.0).round()).abs() < 1e-9, "{name} is {share}");
        }
    }
}

/// The pages that carry a text, page of rows by page: host, URL, and the whole row.
fn reuse(ask: impl Fn(&str) -> Response) -> Vec<[String; 3]> {
    let (mut rows, mut cursor) = (Vec::new(), String::new());
    loop {
        let answer = ask(&cursor);
        let next = answer.json()["next"].as_str().map(String::from);
        rows.extend(pages_of_hosts(&bare(&answer)["hosts"]));
        match next {
            None => return rows,
            Some(next) => cursor = format!("&cursor={next}"),
        }
    }
}

fn pages_of_hosts(hosts: &Value) -> Vec<[String; 3]> {
    let hosts = hosts.as_array().expect("hosts").iter();
    let of_host = |host: &Value| -> Vec<_> {
        let pages = host["pages"].as_array().expect("pages").iter();
        pages.map(|page| [&host["host"], &page["url"], page].map(Value::to_string)).collect()
    };
    hosts.flat_map(of_host).collect()
}

#[test]
fn applications_are_those_of_the_command_line() {
    let world = sample();
    let server = Server::open(&world);
    let answered = |question: &str, arguments: &[&str]| parsed(&world.ask(&format!("{question} --json"), arguments));
    let urls = [KEPT, "http://never/", MOVED, KEPT];
    let file = world.write("urls", urls.join("\n"));
    let body = json!({"urls": urls}).to_string();
    let groups = bare(&server.post("/v1/group", "application/json", body.as_bytes()));
    assert_eq!(groups["groups"], answered("query group", &[&file.display().to_string()]));
    assert_eq!(groups["groups"][0]["urls"], json!([KEPT, MOVED]));

    assert_eq!(bare(&server.get("/v1/sweeps"))["sweeps"], answered("sweep list", &[]));
    for (by, arguments) in [("", vec![]), ("?by=host", vec!["--by", "host"]), ("?by=sweep", vec!["--by", "sweep"])] {
        let mut changes = bare(&server.get(&format!("/v1/changes{by}")));
        let n_rows = changes.as_object_mut().expect("an object").remove("n_rows");
        assert_eq!(changes, answered("changes", &arguments), "{by}");
        assert_eq!(n_rows, Some(json!(changes["rows"].as_array().map(Vec::len))));
    }

    let url = encoded(MOVED);
    let mut expected = pages_of_hosts(&answered("query reuse --threshold 0.3", &[MOVED]));
    expected.sort();
    assert!(expected.len() > 1, "{expected:?}");
    for limit in [1, 2, 1000] {
        let path = format!("/v1/reuse?url={url}&threshold=0.3&limit={limit}");
        assert_eq!(reuse(|cursor| server.get(&format!("{path}{cursor}"))), expected, "{limit} a page");
    }
    let text = "<p>npm-cache -- manipulates packages cache</p> ".repeat(3);
    let file = world.write("like.html", &text);
    let mut expected = pages_of_hosts(&answered("query reuse --threshold 0", &[&file.display().to_string()]));
    expected.sort();
    let path = "/v1/reuse?threshold=0&limit=1";
    let found = reuse(|cursor| server.post(&format!("{path}{cursor}"), "text/html", text.as_bytes()));
    assert_eq!(found, expected);
}

/// The command line closes a sweep; the server's answers follow.
#[test]
fn answers_follow_a_closed_sweep() {
    let world = World::new().with("http.refresh_ms", 10);
    let pages: String = [("http://a/1", "1"), ("http://a/2", "1"), ("http://a/1", "2")]
        .map(|(url, sweep)| page(url, &format!("2026-11-0{sweep}T00:00:00Z"), sweep, "one two three") + "\n")
        .concat();
    world.run(&[world.write("a.jsonl", pages)]);
    let server = Server::open(&world);
    let sweep = |n: usize| server.get("/v1/sweeps").json()["sweeps"][n].clone();
    assert_eq!(
        (&sweep(0)["name"], &sweep(1)["is_closed"], &sweep(1)["n_pages"]),
        (&json!("1"), &json!(false), &json!(1))
    );
    world.ask("sweep close", &["2"]);
    server.wait("/v1/sweeps", |response| response.json()["sweeps"][1]["is_closed"] == true);
    assert_eq!(sweep(1)["n_lost"], 1);
    assert_eq!(server.get("/v1/url?url=http://a/2").json()["sightings"][1]["seen"], "lost");
    let second = server.get("/v1/sweeps?limit=1").json()["next"].as_str().map(String::from).expect("a cursor");
    let second = server.get(&format!("/v1/sweeps?cursor={second}")).json();
    assert_eq!((&second["sweeps"][0]["name"], &second["next"]), (&json!("2"), &Value::Null));
}

const TOKEN: &str = "a-token-of-the-tests";

/// The options of a service that writes, and closes sweeps for requests with the token.
fn writes_and_serves(command: &mut Command) -> &mut Command {
    command
        .args(["--stdin-name", "late", "--http-listen", "127.0.0.1:0"])
        .env("LOOKALIKE__HTTP__TOKEN", "env:TOKEN_OF_TESTS");
    command.env("TOKEN_OF_TESTS", TOKEN).stdin(Stdio::piped()).stderr(Stdio::piped())
}

/// A running service, and the pipe that feeds it pages.
fn writing(world: &World) -> (Server, ChildStdin) {
    let mut process = writes_and_serves(&mut world.run_command(&[])).spawn().expect("starts");
    let pipe = process.stdin.take().expect("a pipe");
    (Server::from_process(process), pipe)
}

fn close(server: &Server, sweep: &str, headers: &[(&str, &str)]) -> Response {
    ask(server.address, "POST", &format!("/v1/sweeps/{}/close", encoded(sweep)), headers, b"")
}

fn close_trusted(server: &Server, sweep: &str) -> Response {
    close(server, sweep, &[("authorization", &format!("Bearer {TOKEN}"))])
}

/// Pages of one host on two sweeps, of which the second sees a part of the first.
fn two_sweeps(host: &str, n: usize) -> String {
    let at = |n: usize, sweep: usize, url: String| {
        let text: String = (0..30).map(|word| format!("{host}{n}x{word} ")).collect();
        page(&url, &format!("2026-11-0{sweep}T00:00:00Z"), &format!("{sweep}/of two"), &text) + "\n"
    };
    let first = (0..n).map(|n| at(n, 1, format!("http://{host}/{n}")));
    let second = (0..n)
        .step_by(2)
        .map(|n| at(n, 2, if n % 4 == 0 { format!("http://{host}/{n}") } else { format!("http://{host}/new/{n}") }));
    first.chain(second).collect()
}

/// A running service closes a sweep as the command does: the same answer, and the same events byte for byte, up to
/// those of later pages.
#[test]
fn a_running_service_closes_a_sweep_as_the_command_does() {
    let late = two_sweeps("late", 4);
    let folder = World::new();
    let input = folder.write("a.jsonl", two_sweeps("a", 1500));
    let [by_command, by_service] = [(), ()].map(|()| {
        let world = World::new().with("http.refresh_ms", 10).with("pipeline.batch_latency_ms_max", 500);
        world.run(std::slice::from_ref(&input));
        world
    });
    let mut command = by_command.command("sweep close");
    command.args(["2/of two", "--json", "--events"]).arg(by_command.path("events.jsonl"));
    let output = command.output().expect("starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let answer = parsed(&text(&output.stdout));
    let mut run = by_command.run_command(&[]);
    let mut process = run.args(["--stdin-name", "late"]).stdin(Stdio::piped()).spawn().expect("starts");
    process.stdin.take().expect("a pipe").write_all(late.as_bytes()).expect("piped");
    assert!(process.wait().expect("ended").success());

    let (mut server, mut pipe) = writing(&by_service);
    let closed = close_trusted(&server, "2/of two");
    let document = server.get("/v1/openapi.json").json();
    let described = &document["paths"]["/v1/sweeps/{name}/close"]["post"]["responses"];
    let schema = &described["200"]["content"]["application/json"]["schema"];
    assert_eq!(misfit(&document, schema, &closed.json(), ""), None, "{}", closed.body);
    assert_eq!(bare(&closed), answer);
    assert_eq!((&answer["n_lost"], &answer["n_moved"]), (&json!(1125), &json!(375)));
    let seq = closed.json()["seq"].as_u64();
    let sweeps = server.wait("/v1/sweeps", |response| response.json()["seq"].as_u64() >= seq).json();
    assert_eq!((&sweeps["sweeps"][1]["is_closed"], &sweeps["sweeps"][1]["n_lost"]), (&json!(true), &json!(1125)));
    let again = close_trusted(&server, "2/of two").json();
    assert_eq!((&again["n_lost"], again["seq"].as_u64()), (&json!(0), seq), "what is closed is closed");
    pipe.write_all(late.as_bytes()).expect("piped");
    drop(pipe);
    assert!(server.process.wait().expect("ended").success());
    let events = |world: &World| std::fs::read_to_string(world.path("events.jsonl")).expect("events");
    assert!(events(&by_service) == events(&by_command));
    by_service.ask("verify", &[]);
}

/// A sweep closed while pages of other hosts stream in: no event is missing, and the same URLs are lost as when it is
/// closed after them.
#[test]
fn a_sweep_is_closed_while_pages_stream() {
    let streamed: Vec<String> =
        (0..8).map(|n| two_sweeps(&format!("streamed{n}"), 400).replace("/of two", "")).collect();
    let world = World::new().with("http.refresh_ms", 10).with("pipeline.batch_records_max", 100);
    world.run(&[world.write("a.jsonl", two_sweeps("a", 1500))]);
    let (mut server, mut pipe) = writing(&world);
    let (closed, is_closed) = std::sync::mpsc::channel();
    let pages = &streamed;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // Half of the pages come before the sweep is closed or meanwhile, the others after.
            for (n, of_host) in pages.iter().enumerate() {
                pipe.write_all(of_host.as_bytes()).expect("piped");
                if n == pages.len() / 2 {
                    let () = is_closed.recv().expect("closed");
                }
            }
            drop(pipe);
        });
        let answer = close_trusted(&server, "2/of two");
        assert_eq!(bare(&answer)["n_lost"], 1125);
        closed.send(()).expect("somebody waits");
    });
    assert!(server.process.wait().expect("ended").success());

    let after = World::new();
    after.run(&[after.write("a.jsonl", two_sweeps("a", 1500)), after.write("b.jsonl", streamed.concat())]);
    let mut command = after.command("sweep close");
    command.args(["2/of two", "--events"]).arg(after.path("events.jsonl"));
    assert!(command.status().expect("starts").success());
    let (events, events_after) = (world.events(), after.events());
    let n_records = BTreeMap::from([("late", 8 * 600), ("a.jsonl", 2250)]);
    let n_of =
        |source: &str| events.iter().filter(|event| event.kind().is_terminal() && event.source == source).count();
    let sources: BTreeSet<&str> = events.iter().map(|event| event.source.as_str()).collect();
    for (name, n) in n_records {
        let source = sources.iter().find(|source| source.ends_with(name)).expect(name);
        assert_eq!(n_of(source), n, "{name}");
    }
    assert!(events.iter().zip(0..).all(|(event, seq)| event.seq == seq), "the sequence is dense");
    let kept = |events: &[Event]| -> BTreeSet<_> {
        let kinds = [EventType::Lost, EventType::Moved, EventType::SweepClosed];
        let kept = events.iter().filter(|event| kinds.contains(&event.kind()));
        let described = kept.map(|event| {
            let (from, to) = (event.from().map(String::from), event.to().map(String::from));
            (format!("{:?}", event.kind()), event.url.clone(), from, to)
        });
        described.collect()
    };
    assert_eq!(kept(&events), kept(&events_after));
    assert_eq!(fold(&events), world.partition());
    assert_eq!(world.partition(), after.partition());
    world.ask("verify", &[]);
}

/// A request that may not close a sweep, or names none, gets an error that says what to do, and changes nothing.
#[test]
fn a_request_that_may_not_close_a_sweep_changes_nothing() {
    let world = World::new().with("http.refresh_ms", 10);
    world.run(&[world.write("a.jsonl", two_sweeps("a", 8))]);
    let check = |response: &Response, status: u16, word: &str, message: &str| {
        assert_eq!((response.status, &response.json()["error"]), (status, &json!(word)), "{}", response.body);
        assert!(response.body.contains(message) && !response.body.contains(TOKEN), "{}", response.body);
    };
    let reads_only = Server::open(&world);
    check(&close_trusted(&reads_only, "2/of two"), 403, "read-only", "run --http-listen");
    // Once 401, which sent the client for a token that would not have helped.
    check(&close(&reads_only, "2/of two", &[]), 403, "read-only", "run --http-listen");
    let mut untrusting = world.run_command(&[]);
    untrusting.args(["--http-listen", "127.0.0.1:0"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let untrusting = Server::from_process(untrusting.spawn().expect("starts"));
    check(&close_trusted(&untrusting, "2/of two"), 403, "no-token", "http.token");
    check(&close(&untrusting, "2/of two", &[]), 403, "no-token", "http.token");
    drop(untrusting);

    let (mut server, pipe) = writing(&world);
    let missing = close(&server, "2/of two", &[]);
    check(&missing, 401, "token", "authorization: Bearer TOKEN");
    assert_eq!(missing.header("www-authenticate"), Some("Bearer"));
    for wrong in ["Bearer a-token-of-the-test", "Bearer A-token-of-the-tests", "Basic a-token-of-the-tests", TOKEN] {
        check(&close(&server, "2/of two", &[("authorization", wrong)]), 401, "token", "http.token");
    }
    check(&close_trusted(&server, "3"), 404, "not-found", "/v1/sweeps");
    check(&close_trusted(&server, ""), 404, "not-found", "/v1/sweeps");
    assert_eq!(ask(server.address, "POST", "/v1/sweeps/2/of two/close", &[], b"").status, 400);
    assert_eq!(server.get("/v1/sweeps/2/close").header("allow"), Some("POST"));
    let not_text =
        ask(server.address, "POST", "/v1/sweeps/%ff/close", &[("authorization", &format!("Bearer {TOKEN}"))], b"");
    check(&not_text, 400, "bad-path", "UTF-8");
    drop(pipe);
    assert!(server.process.wait().expect("ended").success());
    assert!(world.events().iter().all(|event| event.kind() != EventType::Lost));
    assert!(!world.ask("sweep list --json", &[]).contains("true"), "no sweep is closed");

    for wrong in [TOKEN, "file:/no/such/file", "env:NO_SUCH_VARIABLE_OF_TESTS"] {
        let mut command = world.run_command(&[]);
        let output = writes_and_serves(&mut command).env("LOOKALIKE__HTTP__TOKEN", wrong).output().expect("starts");
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        assert!(text(&output.stderr).contains("http.token") && !text(&output.stderr).contains(TOKEN));
    }
}

/// Every answer has the shape that the OpenAPI document describes, field by field, in both directions.
#[test]
fn answers_have_the_described_shape() {
    let world = sample();
    world.run(&[world.write("gone.jsonl", json!({"url": KEPT, "fetched_at": DAY, "body": null}).to_string())]);
    let server = Server::open(&world);
    let document = server.get("/v1/openapi.json").json();
    let (moved, kept) = (encoded(MOVED), encoded(KEPT));
    let urls = json!({"urls": [MOVED, KEPT, "http://never/"]}).to_string();
    let like = "<p>npm cache cleans the cache of packages, adds to it and lists what is in it, by name</p>".repeat(2);
    for (method, path, content_type, body) in [
        ("get", format!("/v1/url?url={kept}&limit=1"), "", ""),
        ("get", format!("/v1/cluster?of={moved}&limit=1"), "", ""),
        ("get", format!("/v1/lost?url={moved}"), "", ""),
        ("post", "/v1/lost".into(), "application/json", urls.as_str()),
        ("post", "/v1/similar".into(), "text/html", like.as_str()),
        ("post", "/v1/group".into(), "application/json", urls.as_str()),
        ("get", format!("/v1/reuse?url={moved}&limit=1"), "", ""),
        ("post", "/v1/reuse?threshold=0&limit=2".into(), "text/html", like.as_str()),
        ("get", "/v1/sweeps?limit=2".into(), "", ""),
        ("get", "/v1/changes?by=host".into(), "", ""),
        ("get", format!("/v1/compare?a={moved}&b={kept}"), "", ""),
        ("get", format!("/v1/explain?a={moved}&b={kept}"), "", ""),
        ("get", "/v1/explain?a=1&b=1".into(), "", ""),
        ("get", "/v1/text?of=1".into(), "", ""),
        ("get", "/v1/stats".into(), "", ""),
        ("get", "/v1/clusters?limit=2".into(), "", ""),
        ("get", "/readyz".into(), "", ""),
        ("get", "/v1/url?url=http://never/".into(), "", ""),
        ("get", "/v1/url".into(), "", ""),
        ("post", "/v1/similar".into(), "image/png", ""),
    ] {
        check_shape(&server, &document, method, &path, content_type, body);
    }
}

/// Asks, and checks the answer against the OpenAPI document.
fn check_shape(server: &Server, document: &Value, method: &str, path: &str, content_type: &str, body: &str) {
    let answer = ask(server.address, &method.to_uppercase(), path, &[("content-type", content_type)], body.as_bytes());
    let route = path.split('?').next().expect("a path");
    let described = resolved(document, &document["paths"][route][method]["responses"][answer.status.to_string()]);
    let schema = &described["content"]["application/json"]["schema"];
    assert!(schema.is_object(), "{method} {path}: {} is not described", answer.status);
    let problem = misfit(document, schema, &answer.json(), "");
    assert_eq!(problem, None, "{method} {path}: {}", answer.body);
}

/// A part of the document, or what its reference leads to.
fn resolved<'d>(document: &'d Value, part: &'d Value) -> &'d Value {
    let Some(reference) = part["$ref"].as_str() else { return part };
    document.pointer(&reference[1..]).unwrap_or_else(|| panic!("{reference} is not there"))
}

/// The first place where a value does not fit a schema.
fn misfit(document: &Value, schema: &Value, value: &Value, place: &str) -> Option<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.strip_prefix("#").expect("a pointer");
        let target = document.pointer(name).unwrap_or_else(|| panic!("{name} is not there"));
        return misfit(document, target, value, place);
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let problems: Vec<_> = choices.iter().map(|choice| misfit(document, choice, value, place)).collect();
        return if problems.iter().filter(|problem| problem.is_none()).count() == 1 {
            None
        } else {
            problems[0].clone()
        };
    }
    let types = match &schema["type"] {
        Value::String(one) => vec![one.as_str()],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => panic!("{place}: a schema without a type: {schema}"),
    };
    let is_of = |kind: &&str| match *kind {
        "null" => value.is_null(),
        "string" => value.is_string(),
        "integer" => value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{place}: what is {other}?"),
    };
    if !types.iter().any(is_of) {
        return Some(format!("{place} is {value}, not {types:?}"));
    }
    if let Some(items) = value.as_array() {
        let each = items.iter().enumerate();
        return each.filter_map(|(at, item)| misfit(document, &schema["items"], item, &format!("{place}/{at}"))).next();
    }
    let fields = value.as_object()?;
    assert_eq!(schema["additionalProperties"], false, "{place}: {schema}");
    let described = schema["properties"].as_object().expect("properties");
    let needed = schema["required"].as_array().expect("required").iter().filter_map(Value::as_str);
    if let Some(missing) = needed.into_iter().find(|name| !fields.contains_key(*name)) {
        return Some(format!("{place}/{missing} is missing"));
    }
    fields
        .iter()
        .filter_map(|(name, value)| match described.get(name) {
            None => Some(format!("{place}/{name} is not described")),
            Some(schema) => misfit(document, schema, value, &format!("{place}/{name}")),
        })
        .next()
}

/// All rows of a list, page by page; `between` runs after each page.
fn all_pages(server: &Server, path: &str, limit: usize, mut between: impl FnMut(usize)) -> Vec<Value> {
    let (mut rows, mut cursor) = (Vec::new(), String::new());
    for n_pages in 1.. {
        let answer = server.get(&format!("{path}limit={limit}{cursor}"));
        assert_eq!(answer.status, 200, "{}", answer.body);
        let answer = answer.json();
        let page = answer["sightings"].as_array().expect("rows");
        assert!(page.len() <= limit);
        rows.extend(page.iter().cloned());
        match answer["next"].as_str() {
            None => break,
            Some(next) => cursor = format!("&cursor={next}"),
        }
        between(n_pages);
    }
    rows
}

#[test]
fn pages_are_the_whole_list() {
    let world = sample();
    let server = Server::open(&world);
    let exported: Vec<Value> = world.ask("export clusters --json", &[]).lines().map(parsed).collect();
    for limit in [7, 1000] {
        assert_eq!(all_pages(&server, "/v1/clusters?", limit, |_| {}), exported, "{limit} a page");
    }
    // And the cluster of one document at many places.
    let copies: String = (0..40)
        .map(|n| {
            page(&format!("http://copy/{}", n / 2), &format!("2026-11-{:02}T00:00:00Z", 1 + n % 2), "s", "a copy")
                + "\n"
        })
        .collect();
    world.run(&[world.write("copies.jsonl", copies)]);
    server.wait("/v1/url?url=http://copy/19", |response| response.status == 200);
    let copies = parsed(&world.ask("query cluster --json", &["http://copy/0"]));
    assert_eq!(copies["sightings"].as_array().map(Vec::len), Some(40));
    for limit in [1, 7, 39, 40] {
        let rows = Value::from(all_pages(&server, "/v1/cluster?of=http://copy/0&", limit, |_| {}));
        assert_eq!(sorted(&rows), sorted(&copies["sightings"]), "{limit} a page");
    }
    let cluster = parsed(&world.ask("query cluster --json", &[MOVED]));
    let path = format!("/v1/cluster?of={}&", encoded(MOVED));
    for limit in [1, 2, 100] {
        let rows = Value::from(all_pages(&server, &path, limit, |_| {}));
        assert_eq!(sorted(&rows), sorted(&cluster["sightings"]), "{limit} a page");
    }
}

/// While the store grows between the pages of a list, every old row comes exactly once.
#[test]
fn pages_of_a_growing_store_hold_every_old_row_once() {
    let world = World::new().with("http.refresh_ms", 10);
    let [first, rest @ ..] = &sweeps()[..] else { panic!("no sweeps") };
    world.run(std::slice::from_ref(first));
    let server = Server::open(&world);
    let key = |row: &Value| format!("{} {} {}", row["url"], row["fetched_at"], row["document"]);
    let old: BTreeSet<String> =
        world.ask("export clusters --json", &[]).lines().map(|line| key(&parsed(line))).collect();
    let mut rest = rest.iter();
    let rows = all_pages(&server, "/v1/clusters?", 40, |_| {
        if let Some(sweep) = rest.next() {
            let before = server.get("/v1/clusters?limit=1").json()["seq"].as_u64();
            world.run(std::slice::from_ref(sweep));
            server.wait("/v1/clusters?limit=1", |response| response.json()["seq"].as_u64() > before);
        }
    });
    let keys: Vec<String> = rows.iter().map(key).collect();
    let distinct: BTreeSet<String> = keys.iter().cloned().collect();
    assert_eq!(distinct.len(), keys.len(), "a row came twice");
    assert!(old.is_subset(&distinct), "a row was lost");
    assert!(distinct.len() > old.len(), "new rows come, too");
}

/// Lost once: the rest of a cluster, and of the pages that carry a text, where their URL got another page between two parts of
/// the list. The later parts were of that page.
#[test]
fn lists_about_a_url_go_on_with_the_page_they_began_with() {
    let world = World::new().with("http.refresh_ms", 10);
    let words = |name: &str| (0..40).map(|n| format!("{name}{n} ")).collect::<String>();
    let old = ["http://a/1", "http://a/2", "http://b/1", "http://b/2", "http://b/3"];
    let others = ["http://a/3", "http://c/1", "http://d/1", "http://e/1"];
    let of = |urls: &[&str], name: &str| -> String {
        urls.iter().map(|url| page(url, DAY, "s", &words(name)) + "\n").collect()
    };
    world.run(&[world.write("pages.jsonl", of(&old, "old") + &of(&others, "other"))]);
    let server = Server::open(&world);
    let change = |url: &str| {
        let name = format!("{}.jsonl", encoded(url));
        world.run(&[world.write(&name, page(url, "2026-11-22T00:00:00Z", "t", &words("other")))]);
        let has_changed = |answer: &Response| answer.json()["sightings"].as_array().map(Vec::len) == Some(2);
        server.wait(&format!("/v1/url?url={url}"), has_changed);
    };
    let rows = all_pages(&server, "/v1/cluster?of=http://a/1&", 2, |n_pages| {
        if n_pages == 1 {
            change("http://a/1");
        }
    });
    let mut urls: Vec<&str> = rows.iter().map(|row| row["url"].as_str().expect("a URL")).collect();
    urls.sort_unstable();
    assert_eq!(urls, old);
    assert_eq!(server.get("/v1/cluster?of=http://a/1").json()["cluster"], 2, "a new list is of the new page");

    let is_changed = Cell::new(false);
    let rows = reuse(|cursor| {
        if !cursor.is_empty() && !is_changed.replace(true) {
            change("http://a/2");
        }
        server.get(&format!("/v1/reuse?url=http://a/2&limit=2{cursor}"))
    });
    let urls: Vec<Value> = rows.iter().map(|[_, url, _]| parsed(url)).collect();
    assert_eq!(urls, old);
}

/// Answers follow a store that another process writes.
#[test]
fn it_follows_a_store_that_is_written_to() {
    let world = World::new().with("http.refresh_ms", 10);
    world.run(&[world.write("a.jsonl", page("http://a/", DAY, "s", &"one two ".repeat(20)))]);
    let server = Server::open(&world);
    assert_eq!(server.said, [""; 0], "on this machine alone there is nothing to warn of");
    assert_eq!(server.get("/v1/url?url=http://b/").status, 404);

    let mut writer = world.run_command(&[]).stdin(Stdio::piped()).spawn().expect("starts");
    let mut pipe = writer.stdin.take().expect("a pipe");
    for n in 0..3 {
        let line = page(&format!("http://b/{n}"), DAY, "s", &format!("page {n} ").repeat(20)) + "\n";
        pipe.write_all(line.as_bytes()).expect("piped");
        let seen = server.wait(&format!("/v1/url?url=http://b/{n}"), |response| response.status == 200);
        assert_eq!(seen.json()["sightings"][0]["seen"], "page");
        let similar = server.post("/v1/similar", "text/plain", format!("page {n} ").repeat(20).as_bytes());
        assert_eq!(similar.json()["similar"][0]["last_seen"]["url"], format!("http://b/{n}"), "{}", similar.body);
    }
    let ready = server.wait("/readyz", |response| response.json()["staleness_ms"].as_u64() < Some(1000));
    assert_eq!((ready.status, &ready.json()["ready"]), (200, &Value::Bool(true)));
    drop(pipe);
    assert!(writer.wait().expect("ended").success());
}

/// A store is removed, or replaced by another: the server answers from its last snapshot, and says how old that is.
#[test]
fn a_store_that_is_removed_shows_in_readyz() {
    let world = World::new().with("http.refresh_ms", 10).with("http.staleness_ms_max", 300);
    world.run(&[world.write("a.jsonl", page("http://a/", DAY, "s", "one two three"))]);
    let server = Server::open(&world);
    std::fs::rename(world.path("store"), world.path("elsewhere")).expect("renamed");
    let is_gone = |response: &Response| response.status == 503 && response.body.contains("no store");
    assert_eq!(server.wait("/readyz", is_gone).json()["ready"], false);
    assert_eq!(server.get("/v1/url?url=http://a/").status, 200, "the view that is open goes on");
    let other = World::new().with("store.seed", format!("{:064x}", 8));
    other.run(&[other.write("a.jsonl", page("http://a/", DAY, "s", "four"))]);
    std::fs::rename(other.path("store"), world.path("store")).expect("renamed");
    let is_replaced = |response: &Response| response.body.contains("another store now");
    assert_eq!(server.wait("/readyz", is_replaced).status, 503);
    std::fs::rename(world.path("store"), world.path("other")).expect("renamed");
    std::fs::rename(world.path("elsewhere"), world.path("store")).expect("renamed");
    assert_eq!(server.wait("/readyz", |response| response.status == 200).json()["problem"], Value::Null);
}

#[test]
fn run_can_serve_itself() {
    let world = World::new().with("http.refresh_ms", 10);
    let mut command = world.run_command(&[]);
    command.args(["--http-listen", "127.0.0.1:0"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().expect("starts");
    let mut pipe = process.stdin.take().expect("a pipe");
    let mut server = Server::from_process(process);
    let line = page("http://a/", DAY, "s", "one two three") + "\n";
    pipe.write_all(line.as_bytes()).expect("piped");
    server.wait("/v1/url?url=http://a/", |response| response.status == 200);
    let metrics = server.get("/metrics").body;
    for name in ["lookalike_pages_total", r#"lookalike_http_requests_total{route="/v1/url",status="200"}"#] {
        assert!(metrics.contains(name), "{metrics}");
    }
    drop(pipe);
    assert!(server.process.wait().expect("ended").success());
}

#[test]
fn it_ends_at_a_signal_and_answers_what_was_asked() {
    let world = World::new();
    world.run(&[world.write("a.jsonl", page("http://a/", DAY, "s", "one two three"))]);
    let mut server = Server::open(&world);
    let mut slow = server.connect();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n").expect("sent");
    server.get("/healthz");
    let id = server.process.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &id]).status().expect("kill").success());
    until(|| std::net::TcpStream::connect(server.address).is_err().then_some(()));
    let _ = slow.write_all(b"\r\n");
    assert_eq!(server.process.wait().expect("ended").code(), Some(0));
}

#[test]
fn what_cannot_be_served_is_said() {
    let world = World::new();
    let serve = |address: &str| {
        let output = world.command("serve").args(["--listen", address]).output().expect("starts");
        (output.status.code(), text(&output.stderr))
    };
    let (code, said) = serve("127.0.0.1:0");
    assert!(code == Some(1) && said.contains("there is no store"), "{said}");
    let (code, said) = serve("here");
    assert!(code == Some(2) && said.contains("http.listen"), "{said}");
    world.run(&[world.write("a.jsonl", page("http://a/", DAY, "s", "one"))]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let (code, said) = serve(&taken.local_addr().expect("an address").to_string());
    assert!(code == Some(1) && said.contains("--listen"), "{said}");
    let process = world.command("serve --listen 0.0.0.0:0").stderr(Stdio::piped()).spawn().expect("starts");
    let server = Server::from_process(process);
    assert!(server.said.concat().contains("other machines can reach"), "{:?}", server.said);
    assert_eq!(ask(([127, 0, 0, 1], server.address.port()).into(), "GET", "/healthz", &[], b"").status, 200);
}

/// Wrong requests, each with its status and error word.
#[test]
fn wrong_requests_get_their_errors() {
    let world = sample().with("http.rows_max", 50).with("limits.words_max", 100).with("limits.body_bytes_max", 10_000);
    let server = Server::open(&world);
    let first = server.get("/v1/clusters?limit=1").json();
    let cursor = first["next"].as_str().expect("a cursor");
    let long = "x".repeat(9000);
    let many = json!({"urls": vec!["http://a/"; 51]}).to_string();
    let with_many_places = json!({"urls": vec!["http://a/"; 50]}).to_string();
    let wordy = "a ".repeat(101);
    for (method, path, content_type, body, status, error) in [
        ("GET", "/v1/url", "", "", 400, "missing-parameter"),
        ("GET", "/v1/url?url=", "", "", 400, "missing-parameter"),
        ("GET", "/v1/url?url=http://never/", "", "", 404, "not-found"),
        ("GET", &format!("/v1/url?url={long}"), "", "", 404, "not-found"),
        ("GET", "/v1/url?url=a&url=b", "", "", 400, "bad-parameter"),
        ("GET", "/v1/url?uri=a", "", "", 400, "unknown-parameter"),
        ("GET", &format!("/v1/url?url={}&limit=0", encoded(MOVED)), "", "", 400, "bad-parameter"),
        ("GET", &format!("/v1/url?url={}&limit=51", encoded(MOVED)), "", "", 400, "bad-parameter"),
        ("GET", &format!("/v1/url?url={}&limit=-1", encoded(MOVED)), "", "", 400, "bad-parameter"),
        ("GET", &format!("/v1/url?url={}&cursor={cursor}", encoded(MOVED)), "", "", 404, "unknown-cursor"),
        ("GET", &format!("/v1/clusters?cursor={cursor}x"), "", "", 404, "unknown-cursor"),
        ("GET", "/v1/clusters?cursor=", "", "", 400, "bad-cursor"),
        ("GET", &format!("/v1/clusters?cursor={long}"), "", "", 404, "unknown-cursor"),
        ("GET", "/v1/clusters?cursor=%25", "", "", 400, "bad-cursor"),
        ("GET", "/v1/cluster?of=0", "", "", 404, "not-found"),
        ("GET", "/v1/cluster?of=4294967295", "", "", 404, "not-found"),
        ("GET", "/v1/cluster?of=99999999999999999999", "", "", 404, "not-found"),
        ("GET", &format!("/v1/compare?a={}&b=x", encoded(MOVED)), "", "", 404, "not-found"),
        ("POST", "/v1/reuse", "text/plain", "", 422, "nothing-to-compare"),
        ("POST", "/v1/similar", "text/html", "", 422, "nothing-to-compare"),
        ("POST", "/v1/similar", "text/html", "<p>— … —</p>", 422, "nothing-to-compare"),
        ("GET", "/v1/reuse?threshold=1", "", "", 400, "missing-parameter"),
        ("GET", "/v1/reuse?url=http://never/", "", "", 404, "not-found"),
        ("GET", &format!("/v1/reuse?url={}&threshold=1.1", encoded(MOVED)), "", "", 400, "bad-parameter"),
        ("GET", &format!("/v1/reuse?url={}&threshold=NaN", encoded(MOVED)), "", "", 400, "bad-parameter"),
        ("GET", &format!("/v1/reuse?url={}&cursor={cursor}", encoded(MOVED)), "", "", 404, "unknown-cursor"),
        ("POST", "/v1/reuse", "text/plain", &wordy, 422, "no-sketch"),
        ("POST", "/v1/group", "application/json", &many, 400, "bad-body"),
        ("GET", "/v1/group", "", "", 405, "no-method"),
        ("GET", "/v1/changes?by=day", "", "", 400, "bad-parameter"),
        ("GET", &format!("/v1/sweeps?cursor={cursor}"), "", "", 404, "unknown-cursor"),
        ("DELETE", "/v1/sweeps", "", "", 405, "no-method"),
        ("POST", "/v1/lost", "application/json", "{", 400, "bad-body"),
        ("POST", "/v1/lost", "application/json", r#"{"urls":[7]}"#, 400, "bad-body"),
        ("POST", "/v1/lost", "application/json", r#"{"urls":[],"more":1}"#, 400, "bad-body"),
        ("POST", "/v1/lost", "application/json", &many, 400, "bad-body"),
        ("POST", "/v1/lost?limit=11", "application/json", &with_many_places, 400, "bad-parameter"),
        ("POST", "/v1/similar", "image/png", "x", 415, "media-type"),
        ("POST", "/v1/similar", "application/x-www-form-urlencoded", "x", 415, "media-type"),
        ("POST", "/v1/similar", "text/plain", &wordy, 422, "no-sketch"),
        ("POST", "/v1/similar", "text/plain", "%PDF-1.4", 422, "no-sketch"),
        ("POST", "/v1/similar", "text/plain", &"x".repeat(10_001), 413, "too-large"),
        ("POST", "/v1/url", "", "", 405, "no-method"),
        ("PUT", "/v1/lost", "", "", 405, "no-method"),
        ("DELETE", "/v1/clusters", "", "", 405, "no-method"),
        ("BREW", "/v1/stats", "", "", 405, "no-method"),
        ("GET", "/v1/", "", "", 404, "no-route"),
        ("GET", "/../../etc/passwd", "", "", 404, "no-route"),
        ("GET", "/v1/url/", "", "", 404, "no-route"),
        ("POST", "/v1/sweeps/close", "", "", 404, "no-route"),
    ] {
        let answer = ask(server.address, method, path, &[("content-type", content_type)], body.as_bytes());
        let body = answer.json();
        assert_eq!((answer.status, body["error"].as_str()), (status, Some(error)), "{method} {path:.80}: {body}");
        let message = body["message"].as_str().expect("a message");
        assert!((20..400).contains(&message.len()), "{method} {path:.80}: {message}");
        assert_eq!(answer.header("content-type"), Some("application/json"));
        assert_eq!(answer.header("allow").is_some(), status == 405);
    }
    assert_eq!(server.get("/healthz").body, "ok\n");
}

/// Wrong once: the answer to a compressed body, a 200. It was about the compressed bytes, read as a text.
#[test]
fn a_compressed_body_is_refused() {
    let world = World::new();
    let body = "one two ".repeat(20);
    world.run(&[world.write("a.jsonl", page("http://a/", DAY, "s", &body))]);
    let server = Server::open(&world);
    let document = server.get("/v1/openapi.json").json();
    let send = |path: &str, encoding: &str| {
        let headers = [("content-type", "text/plain"), ("content-encoding", encoding)];
        ask(server.address, "POST", path, &headers, body.as_bytes())
    };
    for path in ["/v1/similar", "/v1/reuse", "/v1/related", "/v1/lost", "/v1/group"] {
        let answer = send(path, "gzip");
        let message = "the body has content-encoding gzip; send it without one, as it is";
        assert_eq!(answer.status, 415, "{path}");
        assert_eq!(answer.json(), json!({"error": "content-encoding", "message": message}), "{path}");
    }
    for path in ["/reuse", "/compare", "/content"] {
        let answer = send(path, "br, gzip");
        assert!(answer.status == 415 && answer.body.contains("content-encoding br, gzip"), "{path}: {}", answer.body);
    }
    for (path, methods) in document["paths"].as_object().expect("paths") {
        let has_body = methods["post"]["requestBody"].is_object();
        assert_eq!(methods["post"]["responses"]["415"].is_object(), has_body, "{path} is described");
    }
    for encoding in ["identity", "Identity", ""] {
        assert_eq!(send("/v1/similar", encoding).status, 200, "{encoding:?}");
    }
}

/// Bytes that are no HTTP, or too many of them, get a 4xx or a closed connection.
#[test]
fn absurd_requests_get_a_4xx() {
    let world = World::new().with("http.request_head_bytes_max", 200_000);
    world.run(&[world.write("a.jsonl", page("http://a/", DAY, "s", "one"))]);
    let server = Server::open(&world);
    let many_headers: String = (0..2000).map(|n| format!("x-{n}: y\r\n")).collect();
    for (what, request) in [
        ("a huge URL", format!("GET /v1/url?url={} HTTP/1.1\r\nhost: localhost\r\n\r\n", "x".repeat(1 << 20))),
        ("a huge header", format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "x".repeat(1 << 20))),
        ("many headers", format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\n{many_headers}\r\n")),
        ("no HTTP", "\u{16}\u{3}\u{1}\u{2}\u{0}\u{1}\u{0}\u{1}\u{fc}\r\n\r\n".into()),
        ("HTTP/2 without asking", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".into()),
        ("a length that is none", "POST /v1/lost HTTP/1.1\r\nhost: localhost\r\ncontent-length: -1\r\n\r\n".into()),
        (
            "two lengths",
            "POST /v1/lost HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nxx".into(),
        ),
        (
            "a chunk that lies",
            "POST /v1/lost HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\n"
                .into(),
        ),
        (
            "a length of 1 GB",
            "POST /v1/similar HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1073741824\r\n\r\n".into(),
        ),
    ] {
        let mut stream = server.connect();
        let _ = stream.write_all(request.as_bytes());
        let answer = try_response(stream);
        assert!(answer.as_ref().is_none_or(|answer| (400..500).contains(&answer.status)), "{what}: {answer:?}");
        assert_eq!(server.get("/healthz").status, 200, "after {what}");
    }
    // Wrong once, in the documents: it was said to be 431, with a text.
    for (n_bytes, status) in [(65_534, 404), (65_535, 414)] {
        let path = "/v1/url?url=";
        let answer = server.get(&format!("{path}{}", "x".repeat(n_bytes - path.len())));
        assert_eq!((answer.status, answer.body.is_empty()), (status, status == 414), "{n_bytes} bytes");
    }
}

/// A body of a gigabyte, with and without a length, gets its 413 early and takes no memory.
#[test]
fn huge_bodies_take_no_memory() {
    const CHUNK: usize = 1 << 20;
    let world = World::new();
    world.run(&[world.write("a.jsonl", page("http://a/", DAY, "s", "one"))]);
    let server = Server::open(&world);
    server.post("/v1/similar", "text/plain", b"one two three");
    let before = server.memory_peak();
    let senders: Vec<_> = (0..4)
        .map(|_| {
            let mut stream = server.connect();
            std::thread::spawn(move || {
                let head = "POST /v1/similar HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
                stream.write_all(head.as_bytes()).expect("sent");
                let chunk = [format!("{CHUNK:x}\r\n").as_bytes(), &[b'x'; CHUNK], b"\r\n"].concat();
                let n_sent = (0..1024).take_while(|_| stream.write_all(&chunk).is_ok()).count();
                (n_sent, try_response(stream))
            })
        })
        .collect();
    for sender in senders {
        let (n_sent, answer) = sender.join().expect("sent");
        assert!(n_sent < 64, "{n_sent} MiB were taken of a body that is too large");
        assert!(answer.is_none_or(|answer| answer.status == 413));
    }
    let taken = server.memory_peak() - before;
    assert!(taken < 128 << 20, "{} MiB for four bodies of at most 8", taken >> 20);
    assert_eq!(server.get("/healthz").status, 200);
}

/// Slow clients of every kind are disconnected, and others get their answers meanwhile.
#[test]
fn slow_clients_are_disconnected_and_others_unharmed() {
    let world = World::new()
        .with("http.request_head_ms_max", 300)
        .with("http.idle_ms_max", 300)
        .with("http.request_body_ms_max", 300)
        .with("http.response_write_ms_max", 300)
        .with("http.connections_max", 100);
    let (url, sweep) = ("http://a/".to_string() + &"x".repeat(2000), "s".repeat(200));
    let pages: String = (0..1000)
        .map(|n| page(&url, &format!("2026-01-01T00:{:02}:{:02}Z", n / 60, n % 60), &sweep, "one two three") + "\n")
        .collect();
    world.run(&[world.write("a.jsonl", pages)]);
    let server = Server::open(&world);
    let begun = |request: &str| {
        let mut stream = server.connect();
        stream.write_all(request.as_bytes()).expect("sent");
        stream
    };
    let ask_for_much = "GET /v1/cluster?of=1&limit=1000 HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut slow: Vec<_> = Vec::new();
    for _ in 0..20 {
        slow.push(("no head", begun("")));
        slow.push(("half a head", begun("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-slow: ")));
        slow.push(("half a body", begun("POST /v1/lost HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{")));
        slow.push(("unread answers", begun(&ask_for_much.repeat(20))));
    }
    for _ in 0..20 {
        assert_eq!(server.get("/v1/url?url=http://never/").status, 404);
    }
    for (what, mut stream) in slow {
        if what == "half a head" {
            // A byte now and then is not enough.
            until(|| {
                std::thread::sleep(Duration::from_millis(20));
                stream.write_all(b"x").is_err().then_some(())
            });
            continue;
        }
        if what == "unread answers" {
            until(|| server.get("/metrics").body.contains("lookalike_http_connections 1\n").then_some(()));
        }
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        match what {
            "half a body" => assert!(text(&rest).starts_with("HTTP/1.1 408"), "{}", text(&rest)),
            "unread answers" => {
                let whole = text(&rest).matches("HTTP/1.1 200").count();
                assert!(whole < 20, "the server kept all answers for a client that does not read");
            }
            _ => assert!(rest.is_empty() || text(&rest).starts_with("HTTP/1.1 408"), "{what}: {}", text(&rest)),
        }
    }
}

/// A large request is cut off in time, gives its turn back, and keeps no small one waiting.
#[test]
fn large_requests_keep_no_small_one_waiting() {
    let world =
        World::new().with("http.requests_max", 1).with("http.response_ms_max", 500).with("http.rows_max", 100_000);
    // Each of the first thousand can have moved to each of the second.
    let a_copy = |n: usize| {
        let (day, sweep) = if n < 1000 { ("2025-11-21T00:00:00Z", "first") } else { (DAY, "second") };
        page(&format!("http://copy/{n}"), day, sweep, "a copy of one text that has as many words as a shingle and more")
            + "\n"
    };
    world.run(&[world.write("a.jsonl", (0..2000).map(a_copy).collect::<String>())]);
    let server = Server::open(&world);
    let asked = |n_urls: usize| {
        let urls: Vec<String> = (0..n_urls).map(|n| format!("http://copy/{}", n % 1000)).collect();
        server.post("/v1/lost", "application/json", json!({"urls": urls}).to_string().as_bytes())
    };
    std::thread::scope(|scope| {
        let much = scope.spawn(|| asked(50_000));
        while !much.is_finished() {
            assert_eq!(server.get("/v1/lost?url=http://copy/7").status, 200);
        }
        let much = much.join().expect("an answer");
        assert_eq!((much.status, much.json()["error"].as_str()), (504, Some("slow-answer")), "{:.200}", much.body);
    });
    until(|| (asked(1).status == 200).then_some(()));
}

/// A connection with a running request, whose body has not come yet.
fn busy(mut stream: TcpStream) -> TcpStream {
    let head = "POST /v1/lost HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 100\r\n\r\n";
    stream.write_all(head.as_bytes()).expect("sent");
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 100");
    stream
}

/// Whether a connection gets an answer; the server may close it meanwhile.
fn is_answered(mut stream: TcpStream) -> bool {
    let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    try_response(stream).is_some_and(|answer| answer.status == 200)
}

/// One connection more than there are slots gets 503 at once; the next one after a slot is free is served.
#[test]
fn one_connection_too_many_gets_503() {
    let world = World::new().with("http.connections_max", 3).with("http.request_body_ms_max", 600_000);
    world.run(&[world.write("a.jsonl", page("http://a/", DAY, "s", "one"))]);
    let server = Server::open(&world);
    let held = [(); 3].map(|()| busy(server.connect()));
    let answer = response(connect(server.address));
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));
    drop(held);
    until(|| is_answered(server.connect()).then_some(()));
}

/// Lost once: the server, to one client that held all its connections idle and renewed each as soon as it was closed.
#[test]
fn idle_connections_hold_no_slot() {
    let world = World::new().with("http.connections_max", 3).with("http.idle_ms_max", 600_000);
    world.run(&[world.write("a.jsonl", page("http://a/", DAY, "s", "one"))]);
    let server = Server::open(&world);
    let mut held: Vec<_> = (0..3).map(|_| server.connect()).collect();
    // One of them has been answered before.
    held[1].write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("sent");
    held[1].read_exact(&mut [0; 15]).expect("an answer");
    until(|| is_answered(server.connect()).then_some(()));
    let mut rest = Vec::new();
    let _ = held[0].read_to_end(&mut rest);
    assert!(rest.is_empty(), "the one that was idle longest gave way");
    let counted = "lookalike_http_connections_closed_total{why=\"crowded\"}";
    assert!(server.get("/metrics").body.contains(counted));

    let world = world.with("http.idle_ms_max", 200);
    let server = Server::open(&world);
    let mut idle = server.connect();
    assert_eq!(idle.read(&mut [0; 1]).ok(), Some(0), "closed before a first request");
    let counted = "lookalike_http_connections_closed_total{why=\"idle\"} 1";
    assert!(server.get("/metrics").body.contains(counted), "{}", server.get("/metrics").body);
}

/// One address has its share of the connections, and others have the rest.
#[test]
fn one_address_leaves_slots_to_others() {
    let world = World::new().with("http.connections_per_address_max", 2).with("http.request_body_ms_max", 600_000);
    world.run(&[world.write("a.jsonl", page("http://a/", DAY, "s", "one"))]);
    let server = Server::open(&world);
    let connect_from = |last: u8| connect_from([127, 0, 0, last], server.address);
    let held = [(); 2].map(|()| busy(connect_from(2)));
    assert_eq!(response(connect_from(2)).status, 503);
    assert_eq!(server.get("/healthz").status, 200);
    assert!(server.get("/metrics").body.contains("lookalike_http_connections_rejected_total 1"));
    drop(held);
    until(|| is_answered(connect_from(2)).then_some(()));
}

/// Lost once: the whole store, to any web site that pointed its name at this machine (DNS rebinding): the server
/// answered to any name.
#[test]
fn requests_under_other_names_get_421() {
    let world = World::new().with("http.hosts", "archive.example, crawl");
    world.run(&[world.write("a.jsonl", page("http://a/", DAY, "s", "one"))]);
    let server = Server::open(&world);
    let get = |target: &str, hosts: &[&str]| {
        let hosts: String = hosts.iter().map(|host| format!("host: {host}\r\n")).collect();
        let mut stream = server.connect();
        stream
            .write_all(format!("GET {target} HTTP/1.1\r\n{hosts}connection: close\r\n\r\n").as_bytes())
            .expect("sent");
        response(stream)
    };
    for path in ["/", "/v1/stats", "/v1/clusters", "/metrics", "/healthz", "/nothing"] {
        for hosts in [&["evil.example"][..], &["evil.example:8080"], &["localhost", "evil.example"]] {
            let answer = get(path, hosts);
            assert_eq!((answer.status, &answer.json()["error"]), (421, &json!("host")), "{path} {hosts:?}");
            assert!(answer.body.contains("http.hosts") && answer.body.contains("evil.example"), "{}", answer.body);
        }
        assert_eq!(get(&format!("http://evil.example{path}"), &["localhost"]).status, 421, "{path}");
    }
    for host in [server.address.to_string().as_str(), "localhost:1", "[::1]", "Archive.example:443", "crawl"] {
        assert_eq!(get("/v1/stats", &[host]).status, 200, "{host}");
    }
    assert_eq!(get("/v1/stats", &[]).status, 200, "no browser leaves it out");
    assert_eq!(ask(server.address, "POST", "/v1/lost", &[("host", "evil.example")], b"{}").status, 421);
}

/// A request from a page of another site changes nothing, even with the token.
#[test]
fn a_page_of_another_site_changes_nothing() {
    let world = World::new();
    world.run(&[world.write("a.jsonl", two_sweeps("a", 8))]);
    let (server, _pipe) = writing(&world);
    let token = format!("Bearer {TOKEN}");
    let close = |origin: &str| close(&server, "2/of two", &[("authorization", &token), ("origin", origin)]);
    for other in ["http://evil.example", "null", "http://localhost:1"] {
        let refused = close(other);
        assert_eq!((refused.status, &refused.json()["error"]), (403, &json!("origin")), "{other}");
    }
    assert_eq!(close(&format!("http://{}", server.address)).json()["n_lost"], 6);
}

/// Lost once: an hour, to http instead of https. A near miss was only "never seen".
#[test]
fn a_near_miss_names_the_urls_that_are_there() {
    let world = World::new();
    let urls = ["http://a.example/x", "https://b.example/y/", "http://www.c.example/"];
    let pages: String = urls.iter().map(|url| page(url, DAY, "s", "one two three") + "\n").collect();
    world.run(&[world.write("a.jsonl", pages)]);
    let server = Server::open(&world);
    for (missed, expected) in [
        ("https://a.example/x", urls[0]),
        ("http://a.example/x/", urls[0]),
        ("http://a.example/x#part", urls[0]),
        ("HTTP://A.Example/x", urls[0]),
        ("a.example/x", urls[0]),
        ("http://b.example/y#part", urls[1]),
        ("https://c.example", urls[2]),
    ] {
        for path in ["/v1/url?url=", "/v1/lost?url=", "/v1/reuse?url=", "/v1/compare?b=x&a="] {
            let answer = server.get(&format!("{path}{}", encoded(missed)));
            let body = answer.json();
            assert_eq!((answer.status, &body["near_urls"]), (404, &json!([expected])), "{path}{missed}: {body}");
            assert!(body["message"].as_str().is_some_and(|message| message.contains(expected)), "{body}");
        }
        let page = server.get(&format!("/?url={}", encoded(missed)));
        // What is a part of a URL that was seen finds it.
        let status = if expected.contains(&missed.to_lowercase()) { 200 } else { 404 };
        assert!(
            page.status == status
                && page.body.contains(&format!("/?url={}", expected.replace(':', "%3A").replace('/', "%2F"))),
            "{}",
            page.body
        );
        for question in ["query url", "query lost", "query reuse"] {
            let output = world.command(question).arg(missed).output().expect("starts");
            assert_eq!(output.status.code(), Some(4), "{question} {missed}");
            assert!(text(&output.stderr).contains(expected), "{question} {missed}: {}", text(&output.stderr));
        }
    }
    assert_eq!(server.get("/v1/url?url=http://d.example/").json()["near_urls"], Value::Null);
}

/// Wrong once: "was never seen", about a URL at which only redirects were seen, or nothing.
#[test]
fn urls_without_a_page_are_not_called_unseen() {
    let world = World::new();
    let (leads, gone) = ("http://a/leads", "http://a/gone");
    let pages = [
        json!({"url": leads, "fetched_at": DAY, "redirect_to": "http://a/"}).to_string(),
        json!({"url": gone, "fetched_at": DAY, "body": null}).to_string(),
        page("http://a/", DAY, "s", &"one two ".repeat(20)),
    ];
    world.run(&[world.write("a.jsonl", pages.join("\n"))]);
    let server = Server::open(&world);
    for url in [leads, gone] {
        let expected = format!("no page was ever seen at {url}, only redirects or none; ");
        for path in ["/v1/text?of=", "/v1/compare?b=1&a=", "/v1/reuse?url="] {
            let answer = server.get(&format!("{path}{url}"));
            let message = format!("{expected}/v1/url shows them");
            assert_eq!((answer.status, answer.json()["message"].as_str()), (404, Some(&*message)), "{path}{url}");
        }
        let page = server.get(&format!("/reuse?url={url}"));
        assert!(page.status == 404 && page.body.contains(&expected), "{url}: {}", page.body);
        for question in ["query text", "query reuse", "query compare http://a/"] {
            let output = world.command(question).arg(url).output().expect("starts");
            assert_eq!(output.status.code(), Some(4), "{question} {url}");
            let said = text(&output.stderr);
            assert!(said.contains(&format!("{expected}`query url` shows them")), "{question} {url}: {said}");
        }
    }
}

/// Lost once: the truth about empty pages. A page without words was 100 % like every other such page, and 0 %
/// exactly in comparisons.
#[test]
fn pages_without_words_have_nothing_to_compare() {
    let world = World::new();
    let (empty, short, long) = ("http://a/empty", "http://a/short", "http://a/long");
    let words = "one two three four five six seven eight nine ten eleven twelve";
    let pages = [page(empty, DAY, "s", "— … —"), page(short, DAY, "s", "one two"), page(long, DAY, "s", words)];
    world.run(&[world.write("a.jsonl", pages.join("\n"))]);
    let server = Server::open(&world);
    let check = |answer: &Response, about: &str| {
        assert_eq!((answer.status, &answer.json()["error"]), (422, &json!("nothing-to-compare")), "{}", answer.body);
        assert!(answer.body.contains(about), "{}", answer.body);
    };
    for body in ["", " ", "— … —", "<p></p>"] {
        for route in ["/v1/similar", "/v1/reuse"] {
            check(&server.post(route, "text/html", body.as_bytes()), "no words");
        }
    }
    check(&server.get(&format!("/v1/compare?a={empty}&b={long}")), "a has 0 words");
    check(&server.get(&format!("/v1/compare?a={long}&b={short}")), "b has 2 words");
    check(&server.get(&format!("/v1/reuse?url={empty}")), "no words");
    assert_eq!(server.get(&format!("/v1/reuse?url={short}")).status, 200, "short pages can be equal");
    // Once undocumented: a text of fewer words than a shingle finds the pages that equal it, and no others.
    let same = world.write("same.txt", "One, two!").display().to_string();
    let found: Value = serde_json::from_str(&world.ask("query similar --json", &[&same])).expect("JSON");
    assert_eq!((found[0]["last_seen"]["url"].as_str(), &found[1]), (Some(short), &Value::Null), "{found}");
    let file = world.write("empty.html", "<html></html>").display().to_string();
    for (question, arguments) in [
        ("query similar", vec![file.as_str()]),
        ("query reuse", vec![&file]),
        ("query reuse", vec![empty]),
        ("query compare", vec![&file, &file]),
        ("query compare", vec![&file, long]),
        ("query compare", vec![long, short]),
    ] {
        let output = world.command(question).args(&arguments).output().expect("starts");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(4), "{question} {arguments:?}: {said}");
        assert!(said.contains("nothing to compare"), "{question} {arguments:?}: {said}");
    }
}

/// A client that has an answer gets 304 until the store changes, and a client that takes gzip gets it.
#[test]
fn unchanged_answers_are_304_and_gzip_is_served() {
    let world = World::new().with("http.refresh_ms", 10).with("http.stats_cache_ms", 0);
    let words = "one two three four five six seven eight nine ten eleven twelve ".repeat(50);
    world.run(&[world.write("a.jsonl", page("http://a/", DAY, "s", &words))]);
    let server = Server::open(&world);
    let ask_with = |path: &str, tag: &str| ask(server.address, "GET", path, &[("if-none-match", tag)], b"");
    let paths = ["/v1/url?url=http://a/", "/v1/sweeps", "/v1/cluster?of=1", "/v1/changes", "/v1/stats"];
    let tags = paths.map(|path| {
        let answer = server.get(path);
        assert_eq!(answer.header("cache-control"), Some("private, no-cache"), "{path}");
        let tag = answer.header("etag").expect("a tag").to_string();
        assert!(tag.starts_with('"'), "{tag} is strong");
        let again = ask_with(path, &format!("\"other\", {tag}"));
        assert_eq!((again.status, again.body.as_str(), again.header("etag")), (304, "", Some(tag.as_str())), "{path}");
        assert_eq!(ask_with(path, "\"other\"").status, 200);
        tag
    });
    let distinct: BTreeSet<&String> = tags.iter().collect();
    assert_eq!(distinct.len(), tags.len(), "a tag for each question");
    assert_eq!(server.get("/v1/url?url=http://b/").header("etag"), None, "an error has none");
    for path in ["/healthz", "/readyz", "/metrics", "/", "/?url=http://a/"] {
        let answer = server.get(path);
        assert_eq!((answer.header("cache-control"), answer.header("etag")), (Some("no-store"), None), "{path}");
    }
    for (path, content_type) in [("/style.css", "text/css; charset=utf-8"), ("/favicon.svg", "image/svg+xml")] {
        let answer = server.get(path);
        assert_eq!((answer.status, answer.header("content-type")), (200, Some(content_type)));
        assert_eq!(answer.header("cache-control"), Some("public, max-age=3600"));
        assert_eq!(ask_with(path, answer.header("etag").expect("a tag")).status, 304);
    }
    assert!(server.get("/").body.contains("href=\"/favicon.svg\""));

    // HTTP/1.0 gets the body in one part, to the end of the connection.
    let mut stream = server.connect();
    stream
        .write_all(b"GET /v1/openapi.json HTTP/1.0\r\nhost: localhost\r\naccept-encoding: gzip\r\n\r\n")
        .expect("sent");
    let mut whole = Vec::new();
    stream.read_to_end(&mut whole).expect("read");
    let end = whole.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
    let (head, body) = (text(&whole[..end]).to_lowercase(), &whole[end + 4..]);
    assert!(head.contains("content-encoding: gzip") && head.contains("vary: accept-encoding"), "{head}");
    let mut unpacked = String::new();
    flate2::read::GzDecoder::new(body).read_to_string(&mut unpacked).expect("gzip");
    assert_eq!(unpacked, server.get("/v1/openapi.json").body);
    assert!(body.len() * 4 < unpacked.len(), "{} of {} bytes", body.len(), unpacked.len());
    let tag = head.lines().find_map(|line| line.strip_prefix("etag: ")).expect("a tag");
    assert!(tag.ends_with("-gzip\"") && ask_with("/v1/openapi.json", tag).status == 304, "{tag}");

    world.run(&[world.write("b.jsonl", page("http://a/", "2026-11-22T00:00:00Z", "t", "other words"))]);
    for (path, tag) in paths.iter().zip(&tags) {
        until(|| (ask_with(path, tag).status == 200).then_some(()));
    }
}

/// The URLs of related pages, best first.
fn related_urls(answer: &Value) -> Vec<&str> {
    let pages = answer["related"].as_array().expect("a list").iter();
    pages.map(|page| page["url"].as_str().expect("a URL")).collect()
}

/// Related pages are those of the command line, for a URL that was taken in, one that is only linked to, and a text.
#[test]
fn related_pages_are_those_of_the_command_line() {
    let world = related_sample();
    world.ask("related build --quiet --clusters", &[]);
    let server = Server::open(&world);
    let answered = |arguments: &[&str]| parsed(&world.ask("query related --json", arguments));
    let pizza = bare(&server.get("/v1/related?url=http://site/pizza"));
    assert_eq!(pizza, answered(&["http://site/pizza"]));
    let urls = related_urls(&pizza);
    assert!(urls.contains(&"http://site/bread") && !urls.contains(&"http://site/copy"), "{pizza}");
    let bread = &pizza["related"][urls.iter().position(|url| *url == "http://site/bread").expect("there")];
    assert_eq!(bread["linked_from"], json!(["http://site/"]));
    assert!(bread["shared"].as_array().expect("a list").iter().any(|shared| shared["word"] == "dough"), "{bread}");
    let copies = bare(&server.get("/v1/related?url=http://site/pizza&copies=true&limit=1000"));
    assert_eq!(copies, answered(&["http://site/pizza", "--copies", "--limit", "1000"]));
    assert!(related_urls(&copies).contains(&"http://site/copy"), "{copies}");
    assert_eq!(bare(&server.get("/v1/related?url=http://site/pizza&copies=false")), pizza);
    let one = bare(&server.get("/v1/related?url=http://site/pizza&limit=1"));
    assert_eq!(
        one["related"].as_array().expect("a list").as_slice(),
        &pizza["related"].as_array().expect("a list")[..1]
    );
    let linked = bare(&server.get("/v1/related?url=http://site/focaccia"));
    assert_eq!(linked, answered(&["http://site/focaccia"]));
    assert!(related_urls(&linked)[..2].contains(&"http://site/bread"), "{linked}");

    let cluster = bare(&server.get("/v1/related/cluster?url=http://site/pizza&limit=1000"));
    assert_eq!(cluster, answered(&["--cluster", "http://site/pizza", "--limit", "1000"]));
    assert!(cluster["nearest"].as_array().expect("a list").iter().any(|near| near["url"] == "http://site/copy"));

    let text = "<p>a telescope for planets, comets and moons</p>";
    let file = world.write("text.html", text).display().to_string();
    let mut of_file = answered(&[&file, "--limit", "3"]);
    of_file.as_object_mut().expect("an object").remove("of");
    let of_text = bare(&server.post("/v1/related?limit=3", "text/html; charset=utf-8", text.as_bytes()));
    assert_eq!(of_text, of_file);
    let best = BTreeSet::from_iter(related_urls(&of_text).into_iter().take(2));
    assert_eq!(best, BTreeSet::from(["http://site/comets", "http://site/planets"]), "{of_text}");

    let document = server.get("/v1/openapi.json").json();
    for (method, path, body) in [
        ("get", "/v1/related?url=http://site/pizza&copies=true", ""),
        ("get", "/v1/related?url=http://site/focaccia", ""),
        ("get", "/v1/related?url=http://never/", ""),
        ("get", "/v1/related/cluster?url=http://site/pizza", ""),
        ("get", "/v1/related/cluster?url=http://never/", ""),
        ("post", "/v1/related", text),
        ("post", "/v1/related", "the and of"),
    ] {
        check_shape(&server, &document, method, path, "text/html", body);
    }
}

/// A build adds no event, and yet a client's answer is old after it.
#[test]
fn a_build_of_related_pages_makes_answers_old() {
    let world = related_sample().with("http.refresh_ms", 10);
    let server = Server::open(&world);
    let path = "/v1/related?url=http://site/pizza";
    let unbuilt = server.get(path);
    assert_eq!(bare(&unbuilt)["built_up_to"], Value::Null);
    assert_eq!(bare(&unbuilt)["related"], json!([]));
    let ask_with = |tag: &str| ask(server.address, "GET", path, &[("if-none-match", tag)], b"");
    let tag = unbuilt.header("etag").expect("a tag");
    assert_eq!((ask_with(tag).status, unbuilt.header("cache-control")), (304, Some("private, no-cache")));
    world.ask("related build --quiet", &[]);
    let built = until(|| Some(ask_with(tag)).filter(|answer| answer.status == 200));
    assert_eq!(built.header("lookalike-seq"), unbuilt.header("lookalike-seq"));
    assert!(!related_urls(&built.json()).is_empty(), "{}", built.body);
    assert_eq!(ask_with(built.header("etag").expect("a tag")).status, 304);
}

/// What cannot be answered about related pages is said, with what to do.
#[test]
fn wrong_questions_about_related_pages_get_their_errors() {
    let world = related_sample().with("limits.words_max", 100).with("http.rows_max", 50);
    world.ask("related build --quiet", &[]);
    let server = Server::open(&world);
    let of = "/v1/related?url=http://site/pizza";
    let wordy = "pizza ".repeat(101);
    for (method, path, content_type, body, status, error) in [
        ("GET", "/v1/related", "", &b""[..], 400, "missing-parameter"),
        ("GET", "/v1/related?url=", "", b"", 400, "missing-parameter"),
        ("GET", "/v1/related?url=http://never/", "", b"", 404, "not-found"),
        ("GET", "/v1/related?url=%FF%00%FE", "", b"", 404, "not-found"),
        ("GET", &format!("{of}&limit=0"), "", b"", 400, "bad-parameter"),
        ("GET", &format!("{of}&limit=51"), "", b"", 400, "bad-parameter"),
        ("GET", &format!("{of}&limit=99999999999999999999999"), "", b"", 400, "bad-parameter"),
        ("GET", &format!("{of}&copies=1"), "", b"", 400, "bad-parameter"),
        ("GET", &format!("{of}&copies="), "", b"", 400, "bad-parameter"),
        ("GET", &format!("{of}&cursor=x"), "", b"", 400, "unknown-parameter"),
        ("POST", "/v1/related", "text/html", b"", 422, "nothing-to-compare"),
        ("POST", "/v1/related", "text/html", b"<p> -- </p>", 422, "nothing-to-compare"),
        ("POST", "/v1/related", "text/plain", b"the and of", 422, "nothing-to-compare"),
        ("POST", "/v1/related", "text/plain", b"\xff\xfe\xff\x00\x01", 422, "no-sketch"),
        ("POST", "/v1/related", "text/plain", b"%PDF-1.4", 422, "no-sketch"),
        ("POST", "/v1/related", "text/plain", wordy.as_bytes(), 422, "no-sketch"),
        ("POST", "/v1/related", "image/png", b"x", 415, "media-type"),
        ("POST", "/v1/related?limit=51", "text/plain", b"pizza", 400, "bad-parameter"),
        ("POST", "/v1/related?url=http://site/pizza", "text/plain", b"pizza", 400, "unknown-parameter"),
    ] {
        let answer = ask(server.address, method, path, &[("content-type", content_type)], body);
        let told = answer.json();
        assert_eq!((answer.status, told["error"].as_str()), (status, Some(error)), "{method} {path}: {told}");
        let message = told["message"].as_str().expect("a message");
        assert!((20..400).contains(&message.len()), "{method} {path}: {message}");
    }
    let near = server.get("/v1/related?url=https://site/pizza/");
    assert_eq!((near.status, &near.json()["near_urls"][0]), (404, &json!("http://site/pizza")), "{}", near.body);
    // Bytes of another charset are read as every page's are.
    let latin = server.post("/v1/related", "text/plain", b"pizza caf\xe9 oven");
    assert!(related_urls(&bare(&latin)).contains(&"http://site/pizza"), "{}", latin.body);
}

/// A store that keeps nothing for related pages says so.
#[test]
fn a_store_without_related_pages_says_what_to_do() {
    let world = sample();
    let server = Server::open(&world);
    let get = server.get(&format!("/v1/related?url={}", encoded(MOVED)));
    let post = server.post("/v1/related", "text/plain", b"npm cache");
    for answer in [get, post] {
        let told = answer.json();
        let message = told["message"].as_str().expect("a message");
        assert_eq!((answer.status, told["error"].as_str()), (404, Some("not-found")));
        assert!(message.contains("related.on = true") && message.contains("lookalike related build"), "{message}");
    }
}
