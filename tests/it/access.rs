//! Who may ask the HTTP server for what, how often, and what is written down of it.

use crate::harness::server::{Response, Server, ask, connect, connect_from, response, until};
use crate::harness::{World, page, text, wait_until};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::process::{ChildStdin, Command, Stdio};

const READ: &str = "the-token-of-readers-0";
const OPERATE: &str = "the-token-of-operators-0";
const WRONG: &str = "no-token-of-the-tests";

/// A world with some pages in two sweeps, and both tokens.
fn world() -> World {
    let world = World::new().with("http.refresh_ms", 10);
    // A variable of this form is not taken for a setting.
    let world = world.with("http.read_token", "env:LOOKALIKE_READ_OF_TESTS").with("http.token", "env:OPERATE_OF_TESTS");
    let world = world.with_variable("LOOKALIKE_READ_OF_TESTS", READ).with_variable("OPERATE_OF_TESTS", OPERATE);
    let pages = [("http://a/1", "1"), ("http://a/2", "1"), ("http://a/1", "2")]
        .map(|(url, sweep)| page(url, &format!("2026-11-0{sweep}T00:00:00Z"), sweep, "one two three") + "\n");
    world.run(&[world.write("a.jsonl", pages.concat())]);
    world
}

fn writing_command(world: &World) -> Command {
    let mut command = world.run_command(&[]);
    command.args(["--stdin-name", "late", "--http-listen", "127.0.0.1:0"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A `run` that serves, and the pipe that keeps it going.
fn writing(world: &World) -> (Server, ChildStdin) {
    let mut process = writing_command(world).spawn().expect("starts");
    let pipe = process.stdin.take().expect("a pipe");
    (Server::from_process(process), pipe)
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

fn basic(token: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("anna:{token}")))
}

/// Asks from an address of this machine, so that each has its own limits.
fn ask_from(n: u8, server: &Server, method: &str, path: &str, headers: &[(&str, &str)]) -> Response {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let address = server.address;
    let host = if headers.starts_with("host:") { String::new() } else { format!("host: {address}\r\n") };
    let mut stream = connect_from([127, 0, 9, n], address);
    let head = format!("{method} {path} HTTP/1.1\r\n{host}connection: close\r\n{headers}content-length: 0\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("sent");
    response(stream)
}

/// The routes: method and path. A test in `http::routes` holds this description against the table of routes.
fn routes() -> Vec<(String, String)> {
    let document: Value = serde_json::from_str(include_str!("../../src/http/openapi.json")).expect("JSON");
    let paths = document["paths"].as_object().expect("paths").iter();
    let methods = |methods: &Value| methods.as_object().expect("methods").keys().cloned().collect::<Vec<_>>();
    paths.flat_map(|(path, of)| methods(of).into_iter().map(|method| (method.to_uppercase(), path.clone()))).collect()
}

/// Lost if this fails: what a store holds, to whoever reaches the port, or who may change it; on a route, perhaps, that came
/// later. Every route, without a token, with a wrong one, and with each of the two, as a program and as a browser shows it.
#[test]
fn every_route_asks_for_its_token() {
    let world = world();
    let (server, _pipe) = writing(&world);
    let routes = routes();
    assert!(routes.len() > 30, "{routes:?}");
    let mut open = BTreeSet::new();
    for (n, (method, path)) in routes.iter().enumerate() {
        let status = |authorization: &str| {
            let headers = [("authorization", authorization), ("accept", "application/json")];
            let headers = if authorization.is_empty() { &headers[1..] } else { &headers[..] };
            let path = path.replace("{name}", "no-such-sweep");
            let answer = ask_from(u8::try_from(n + 1).expect("few routes"), &server, method, &path, headers);
            assert!(!answer.body.contains(READ) && !answer.body.contains(OPERATE), "{method} {path} repeats a token");
            answer.status
        };
        let statuses =
            ["", &bearer(WRONG), &basic(WRONG), &bearer(READ), &basic(READ), &bearer(OPERATE), &basic(OPERATE)]
                .map(status);
        let is_refused = statuses.map(|status| [401, 403, 421, 429].contains(&status));
        if path.ends_with("/close") {
            // A browser sends a password by itself, also for a page of another site: it changes nothing.
            assert_eq!(statuses, [401, 401, 401, 403, 401, 404, 401], "{method} {path}");
        } else if is_refused == [false; 7] {
            open.insert(path.as_str());
        } else {
            assert_eq!((&statuses[..3], &is_refused[3..]), (&[401; 3][..], &[false; 4][..]), "{method} {path}");
        }
    }
    assert_eq!(open, BTreeSet::from(["/healthz", "/readyz", "/style.css", "/favicon.svg"]));
    assert_eq!(server.get("/nowhere").status, 401);
    // A browser shows a page that says what to do, and asks for the password.
    let asked = server.get("/");
    assert_eq!((asked.status, asked.header("content-type")), (401, Some("text/html; charset=utf-8")));
    assert_eq!(asked.header("www-authenticate"), Some("Basic realm=\"lookalike\", Bearer"));

    // Anybody may ask whether it is ready, and does not learn where the store is.
    let reads_only = Server::open(&world);
    drop((server, _pipe));
    fs::rename(world.path("store"), world.path("elsewhere")).expect("renamed");
    let problem = until(|| reads_only.get("/readyz").json()["problem"].as_str().map(String::from));
    assert!(!problem.contains("store"), "{problem}");
}

/// What is wrong with the settings is said before anything is served, and no secret with it.
#[test]
fn wrong_tokens_and_proxies_are_refused() {
    let world = world();
    for (key, value, message) in [
        ("OPERATE_OF_TESTS", READ, "the same secret"),
        ("LOOKALIKE_READ_OF_TESTS", "too-short", "http.read_token: env:LOOKALIKE_READ_OF_TESTS must hold 16"),
        ("LOOKALIKE__HTTP__READ_TOKEN", READ, "http.read_token must be file:PATH"),
        ("LOOKALIKE__HTTP__READ_TOKEN", "file:/no/such/file", "cannot read http.read_token"),
        ("LOOKALIKE__HTTP__TRUSTED_PROXIES", "127.0.0.1,proxy", "trusted_proxies names \"proxy\""),
        ("LOOKALIKE__HTTP__REQUESTS_PER_SECOND_MAX", "1000001", "at most 1000000"),
        ("LOOKALIKE__LOG__AUDIT_FILE", "/no/such/folder/file", "log.audit_file: cannot append to /no/such/folder/file"),
    ] {
        let output = writing_command(&world).stdin(Stdio::null()).env(key, value).output().expect("starts");
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), said.contains(message)), (Some(2), true), "{key}: {said}");
        assert!(!said.contains(READ) && !said.contains("too-short"), "{said}");
    }
}

/// Lost if this fails: a token, to a program that tries one after the other. Guesses wait, also those that are right; who shows
/// none, and other addresses, do not.
#[test]
fn guessing_a_token_is_slow() {
    let world = world();
    let server = Server::open(&world);
    let stats = |n: u8, token: &str| ask_from(n, &server, "GET", "/v1/stats", &[("authorization", &bearer(token))]);
    assert!((0..10).all(|n| stats(1, &format!("a-wrong-token-of-tests-{n}")).status == 401));
    let limited = stats(1, READ);
    assert_eq!((limited.status, &limited.json()["error"]), (429, &json!("limited")), "{}", limited.body);
    let wait: u64 = limited.header("retry-after").and_then(|wait| wait.parse().ok()).expect("seconds");
    assert!((1..=7).contains(&wait), "{wait}");
    // As a page, too.
    let page = ask_from(1, &server, "GET", "/", &[("authorization", &basic(READ))]);
    assert_eq!((page.status, page.header("content-type")), (429, Some("text/html; charset=utf-8")));
    assert!(page.header("retry-after").is_some() && page.body.contains("refused"), "{}", page.body);
    assert_eq!(ask_from(1, &server, "GET", "/v1/stats", &[]).status, 401);
    assert_eq!(ask_from(1, &server, "GET", "/healthz", &[("authorization", &bearer(WRONG))]).status, 200);
    // No proxy of ours: it cannot choose its address, nor use up what others have.
    let forged = [("authorization", bearer(READ)), ("x-forwarded-for", "192.0.2.1".into())];
    let forged = forged.each_ref().map(|(name, value)| (*name, value.as_str()));
    assert_eq!(ask_from(1, &server, "GET", "/v1/stats", &forged).status, 429);
    assert_eq!(stats(2, READ).status, 200);
    let metrics = ask_from(2, &server, "GET", "/metrics", &[("authorization", &bearer(READ))]).body;
    for line in
        ["lookalike_http_tokens_rejected_total 10", r#"lookalike_http_requests_limited_total{reason="refusals"} 3"#]
    {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

/// Lost if this fails: the limit of each client, by a header that it makes up. Behind a proxy that is trusted, the one that it
/// names is the client; otherwise who connects.
#[test]
fn a_client_has_its_rate() {
    let world = World::new().with("http.requests_per_second_max", 1).with("http.trusted_proxies", "127.0.9.1");
    world.run(&[world.write("a.jsonl", page("http://a/", "2026-11-01T00:00:00Z", "s", "one two three"))]);
    let server = Server::open(&world);
    let n_of_20 = |from: u8, client: &str| {
        let path = "/v1/url?url=http://a/";
        let answers = (0..20).map(|_| ask_from(from, &server, "GET", path, &[("x-forwarded-for", client)]));
        let answers: Vec<Response> = answers.collect();
        let limited: Vec<_> = answers.iter().filter(|answer| answer.status == 429).collect();
        assert!(limited.iter().all(|answer| answer.header("retry-after") == Some("1")));
        answers.iter().filter(|answer| answer.status == 200).count()
    };
    // Ten at once, and one for each second that the requests take.
    assert!((10..16).contains(&n_of_20(1, "192.0.2.1")));
    assert!((10..16).contains(&n_of_20(1, "192.0.2.2")));
    assert!((10..16).contains(&n_of_20(2, "192.0.2.3")), "no proxy of ours");
    assert!(n_of_20(2, "192.0.2.4") < 6, "it cannot choose its address");
    assert_eq!(ask_from(2, &server, "GET", "/nowhere", &[]).status, 429, "nor a path that is not there");
    for path in ["/healthz", "/readyz"] {
        assert!((0..20).all(|_| ask_from(2, &server, "GET", path, &[]).status == 200), "no probe is refused");
    }
}

fn audit_lines(world: &World) -> Vec<Value> {
    let lines = fs::read_to_string(world.path("audit.jsonl")).expect("a file");
    lines.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

fn words<'a>(lines: &'a [Value], field: &str) -> Vec<&'a str> {
    lines.iter().map(|line| line[field].as_str().expect("a word")).collect()
}

/// Lost if this fails: who closed a sweep over HTTP, and who was refused. A client of which nothing is believed cannot fill the
/// disk with refusals.
#[test]
fn requests_for_changes_leave_audit_lines() {
    let world = world().with("http.trusted_proxies", "127.0.9.8");
    let path = world.path("audit.jsonl").display().to_string();
    let world = world.with("log.audit_file", path);
    let (mut server, pipe) = writing(&world);
    let close = |sweep: &str, token: &str| {
        let path = format!("/v1/sweeps/{sweep}/close");
        ask_from(7, &server, "POST", &path, &[("authorization", token), ("x-forwarded-for", "192.0.2.1")]).status
    };
    assert_eq!(close("2", &bearer(READ)), 403);
    assert_eq!(close("2", &bearer(WRONG)), 401);
    assert_eq!(close("2", &bearer(OPERATE)), 200);
    assert_eq!(audit_lines(&world)[2]["outcome"], "done", "on the disk before the answer");
    assert_eq!(close("none", &bearer(OPERATE)), 404);
    assert_eq!(ask_from(7, &server, "POST", "/v1/sweeps/2/close", &[("host", "evil.example")]).status, 421);
    let of_proxy = [("authorization", bearer(OPERATE)), ("x-forwarded-for", "203.0.113.7, 192.0.2.2".into())];
    let of_proxy = of_proxy.each_ref().map(|(name, value)| (*name, value.as_str()));
    assert_eq!(ask_from(8, &server, "POST", "/v1/sweeps/2/close", &of_proxy).status, 200);
    let n_limited = (0..20).filter(|_| close("2", &bearer(WRONG)) == 429).count();
    assert!(n_limited >= 10, "{n_limited}");
    drop(pipe);
    assert!(server.process.wait().expect("ended").success());

    let lines = audit_lines(&world);
    let head = &lines[..6];
    assert_eq!(words(head, "role"), ["reader", "unknown", "operator", "operator", "none", "operator"]);
    assert_eq!(words(head, "outcome"), ["refused", "refused", "done", "failed", "refused", "done"]);
    assert_eq!(words(head, "client"), [["127.0.9.7"; 5].as_slice(), &["192.0.2.2"]].concat());
    let statuses: Vec<_> = head.iter().map(|line| line["status"].as_u64().expect("a number")).collect();
    assert_eq!(statuses, [403, 401, 200, 404, 421, 200]);
    assert_eq!(
        (&head[2]["request"], &head[2]["forwarded_for"]),
        (&json!("POST /v1/sweeps/2/close"), &json!("192.0.2.1"))
    );
    assert!(head[4].get("forwarded_for").is_none() && head.iter().all(|line| line["time"].is_string()), "{head:?}");
    assert_eq!(lines.len(), 26 - n_limited, "what is refused beyond the limit is only counted");
    let whole = serde_json::to_string(&lines).expect("text");
    assert!(![READ, OPERATE, WRONG].iter().any(|secret| whole.contains(secret)), "{whole}");
}

/// Lost once: the line about a sweep that was closed, where the client was gone before the answer; the change and the line, where
/// it was gone before the server had read the request; and the lines about requests that were refused for their host, or for want
/// of a token to read. Lost if this fails: the service, where the file cannot be written any more.
#[test]
fn a_change_is_logged_whatever_becomes_of_its_client_and_the_file() {
    let world = world().with("log.level", "error");
    let folder = world.path("trail");
    fs::create_dir(&folder).expect("made");
    let pages =
        (0..3000).map(|n| page(&format!("http://b/{n}"), "2026-11-01T00:00:00Z", "1", &format!("page {n}")) + "\n");
    world.run(&[world.write("b.jsonl", pages.collect::<String>())]);
    let log = fs::File::create(world.path("log")).expect("a file");
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let mut command = world.run_command(&[]);
    command.args(["--stdin-name", "late", "--http-listen", &port.to_string()]).stdin(Stdio::piped()).stderr(log);
    let mut process = command.env("LOOKALIKE__LOG__AUDIT_FILE", folder.join("audit.jsonl")).spawn().expect("starts");
    until(|| TcpStream::connect(port).ok());
    let (path, token) = ("/v1/sweeps/2/close", bearer(OPERATE));
    assert_eq!(ask(port, "POST", path, &[], b"").status, 401);
    assert_eq!(ask(port, "POST", path, &[("authorization", &token), ("host", "evil.example")], b"").status, 421);
    fs::remove_dir_all(&folder).expect("removed");
    let request =
        format!("POST {path} HTTP/1.1\r\nhost: {port}\r\nauthorization: {token}\r\ncontent-length: 0\r\n\r\n");
    // Many, because only a few of them are gone at the right moment.
    let n_gone = 100;
    for _ in 0..n_gone {
        connect(port).write_all(request.as_bytes()).expect("sent");
    }
    let log = || fs::read_to_string(world.path("log")).expect("text");
    let lines = until(|| {
        let lines: Vec<_> = log().lines().filter(|line| line.contains("INFO audit:")).map(String::from).collect();
        (lines.len() >= 2 + n_gone).then_some(lines)
    });
    for (line, status) in lines.iter().zip([401, 421].into_iter().chain(std::iter::repeat(200))) {
        assert!(line.ends_with(&format!("status={status}")) && line.contains(path), "{line}");
    }
    wait_until("the message", || log().contains("it lacks this line: {\"client\""));
    let metrics = ask(port, "GET", "/metrics", &[("authorization", &token)], b"");
    assert!(metrics.body.contains(&format!("lookalike_audit_lines_lost_total {n_gone}")), "{}", metrics.body);
    assert_eq!(ask(port, "POST", path, &[("authorization", &token)], b"").status, 200);
    drop(process.stdin.take());
    assert!(process.wait().expect("ended").success());
}

/// Lost if this fails: who changed a store by a command, and whether it ended; also where the command failed. Never a URL that is
/// forgotten.
#[test]
fn commands_that_change_a_store_leave_audit_lines() {
    let world = world();
    let path = world.path("audit.jsonl").display().to_string();
    let world = world.with("log.audit_file", path).with("store.keep_text", "canonical");
    let world = world.with("kafka.brokers", "127.0.0.1:1").with("kafka.connect_ms_max", 1000);
    let status = |command: &str, arguments: &[&str]| {
        let output = world.command(command).args(arguments).output().expect("starts");
        // Whoever gives the command sees what it does; standard error is for errors.
        assert!(!text(&output.stderr).contains("INFO"), "{command}: {}", text(&output.stderr));
        output.status.code()
    };
    let backup = world.path("backup").display().to_string();
    let clusters = world.path("clusters.csv").display().to_string();
    world.ask("forget --dry-run", &["http://a/2"]);
    world.ask("recluster --threshold 0.6", &["--out", &clusters]);
    world.ask("backup", &[&backup]);
    assert!(!world.path("audit.jsonl").exists(), "nothing is changed");

    assert_eq!(status("sweep close", &["1"]), Some(0));
    assert_eq!(status("sweep close", &["none"]), Some(4));
    assert_eq!(status("recluster --apply --threshold 0.6", &["--out", &clusters]), Some(0));
    assert_eq!(status("forget", &["http://a/2"]), Some(0));
    assert_eq!(status("forget --json", &["http://a/2"]), Some(4));
    assert_eq!(status("compact", &[]), Some(0));
    assert_eq!(status("restore", &[&backup]), Some(2), "the store is there");
    assert_eq!(status("topics republish assignments", &[]), Some(2), "no events go to Kafka");
    assert_eq!(status("dlq replay", &["--limit", "0"]), Some(2), "this is no command");
    assert_eq!(status("dlq replay", &[]), Some(14), "there is no broker");
    let to = world.path("new").display().to_string();
    assert_eq!(status("migrate", &["--to", &to]), Some(3), "no texts are kept");
    assert_eq!(status("related build", &[]), Some(0));

    let lines = audit_lines(&world);
    let told: Vec<_> =
        lines.chunks(2).map(|pair| (words(pair, "command"), words(pair, "outcome"), words(pair, "what"))).collect();
    for (told, (command, outcome, what)) in told.iter().zip([
        ("sweep close", "done", "sweep 1".to_string()),
        ("sweep close", "not-found", "sweep none".into()),
        ("recluster", "done", "threshold 0.6".into()),
        ("forget", "done", "1 URLs".into()),
        ("forget", "not-found", "1 URLs".into()),
        ("compact", "done", String::new()),
        ("restore", "usage", format!("from {backup}")),
        ("topics republish", "usage", "assignments".into()),
        ("dlq replay", "unreachable", String::new()),
        ("migrate", "unreadable", format!("to {to}")),
        ("related build", "done", "0 inputs".into()),
    ]) {
        assert_eq!(told, &(vec![command; 2], vec!["begun", outcome], vec![&*what; 2]));
    }
    assert_eq!(told.len(), 11, "{told:?}");
    let store = world.path("store").display().to_string();
    assert!(lines.iter().all(|line| line["uid"].is_u64() && line["time"].is_string() && line["store"] == store));
    assert!(lines.chunks(2).all(|pair| pair[0]["pid"].is_u64() && pair[0]["pid"] == pair[1]["pid"]), "{lines:?}");
    let whole = serde_json::to_string(&lines).expect("text");
    assert!(!whole.contains("http://a/2"), "{whole}");

    // The log has them at level "info".
    let mut command = world.command("compact");
    let output = command.env("LOOKALIKE__LOG__LEVEL", "info").output().expect("starts");
    assert!(text(&output.stderr).contains("INFO lookalike::audit: command=\"compact\""), "{}", text(&output.stderr));
}
