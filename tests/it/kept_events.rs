//! The events that a store keeps: which they are, and that `/v1/events` gives each of them once, byte by byte.

use crate::harness::server::{Response, Server, ask, connect, until};
use crate::harness::{World, ended, page, sample_lines, terminate, text};
use lookalike::wire::Event;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The lines of a world's events file.
fn lines(world: &World) -> Vec<String> {
    let file = fs::read_to_string(world.path("events.jsonl")).expect("events");
    file.lines().map(String::from).collect()
}

/// A world whose store keeps this many events.
fn keeping(n: u64) -> World {
    World::new().with("http.refresh_ms", 10).with("store.keep_events", n)
}

/// The number of the first event that a server has, and the events from there on, by pages.
fn kept(server: &Server) -> (u64, Vec<String>) {
    let ask = |from: u64| {
        let accept = [("accept", "application/json")];
        ask(server.address, "GET", &format!("/v1/events?limit=7&from={from}"), &accept, b"")
    };
    let first = match ask(0) {
        gone if gone.status == 410 => gone.json()["kept_from"].as_u64().expect("a number"),
        _ => 0,
    };
    let (mut events, mut from) = (Vec::new(), first);
    loop {
        let page = ask(from);
        assert_eq!(page.status, 200, "{}", page.body);
        let (head, list) = page.body.split_once("\"events\":[").expect("a list");
        let n_before = events.len();
        let list = list.strip_suffix("]}").expect("an end");
        events.extend(list.split_inclusive("},").map(|event| event.trim_end_matches(',').to_string()));
        let head: Value = serde_json::from_str(&format!("{}}}", head.trim_end_matches(','))).expect("JSON");
        from = head["next_from"].as_u64().expect("a number");
        assert!(events.len() <= n_before + 7);
        if from == head["seq"].as_u64().expect("a number") {
            return (first, events);
        }
    }
}

/// Messages of a stream: `id`, `event`, `data`. It ends at the end of the connection.
struct Messages {
    reader: BufReader<TcpStream>,
    /// The last id that came, with or without a message.
    last_id: Option<u64>,
}

/// Begins a stream. HTTP/1.0 gets it without chunks.
fn follow(address: SocketAddr, parameters: &str, headers: &str) -> Result<Messages, String> {
    let mut stream = connect(address);
    let head = format!("GET /v1/events{parameters} HTTP/1.0\r\nhost: localhost\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).map_err(|error| error.to_string())?;
    let mut reader = BufReader::new(stream);
    let mut answer = String::new();
    while !answer.ends_with("\r\n\r\n") {
        if reader.read_line(&mut answer).map_err(|error| error.to_string())? == 0 {
            return Err("no answer".into());
        }
    }
    let is_stream = answer.contains(" 200 ") && answer.contains("content-type: text/event-stream\r\n");
    if is_stream { Ok(Messages { reader, last_id: None }) } else { Err(answer) }
}

impl Iterator for Messages {
    type Item = (u64, String, String);

    fn next(&mut self) -> Option<Self::Item> {
        let (mut kind, mut data) = (None, None);
        loop {
            let mut line = String::new();
            let n_read = self.reader.read_line(&mut line).unwrap_or(0);
            if n_read == 0 || !line.ends_with('\n') {
                return None;
            }
            match line.trim_end_matches('\n').split_once(": ") {
                Some(("id", id)) => self.last_id = Some(id.parse().expect("a number")),
                Some(("event", text)) => kind = Some(text.to_string()),
                Some(("data", text)) => data = Some(text.to_string()),
                _ if line == "\n" => {
                    if let (Some(kind), Some(data)) = (kind.take(), data.take()) {
                        return Some((self.last_id.expect("an id"), kind, data));
                    }
                }
                _ => assert!(line.starts_with(':'), "{line}"),
            }
        }
    }
}

/// Lost if this fails: an event that a program waited for, without a word; or one that it takes twice.
#[test]
fn over_kills_a_stream_gives_every_event_once() {
    let world = keeping(1_000_000).with("pipeline.batch_latency_ms_max", 5);
    let pages: String = sample_lines().iter().map(|line| format!("{line}\n")).collect();
    let mut got: Vec<(u64, String, String)> = Vec::new();
    for n_wanted in [3usize, 100, 101, 600, usize::MAX] {
        let (mut server, mut pipe) = Server::of_run(&world);
        let fed = pages.clone();
        let feeder = std::thread::spawn(move || {
            let written = pipe.write_all(fed.as_bytes());
            // The stream stays open until the reader has all: the end of the input ends the program.
            written.map(|()| pipe)
        });
        let last = got.last().map_or(String::new(), |(id, ..)| format!("last-event-id: {id}\r\n"));
        let messages = follow(server.address, "?from=0", &last).expect("a stream");
        if n_wanted < usize::MAX {
            got.extend(messages.take(n_wanted.saturating_sub(got.len())));
            server.process.kill().expect("killed");
            let _ = feeder.join();
            continue;
        }
        drop(feeder.join().expect("no panic").expect("fed"));
        got.extend(messages);
        assert!(ended(&mut server.process).success(), "a stream to its end keeps no process");
    }
    let (ids, data): (Vec<u64>, Vec<String>) = got.iter().map(|(id, _, data)| (*id, data.clone())).unzip();
    assert_eq!(ids, (0..ids.len() as u64).collect::<Vec<_>>());
    assert!(data == lines(&world), "the events are those of the file, byte by byte");
    for (_, kind, data) in &got {
        assert!(data.starts_with(&format!("{{\"type\":\"{kind}\",")), "{kind}: {data}");
    }
    world.ask("verify", &[]);
}

/// Lost if this fails: the disk, where more is kept than is asked for; or events that are to be there.
#[test]
fn the_newest_are_kept_as_many_as_are_wanted() {
    let all = sample_lines();
    let folder = World::new();
    let parts: Vec<_> = all
        .chunks(100)
        .take(5)
        .enumerate()
        .map(|(n, part)| folder.write(&format!("{n}.jsonl"), part.join("\n")))
        .collect();
    let mut world = World::new().with("http.refresh_ms", 10);
    let mut n_before = 0;
    // What a lower number let go does not come back with a higher one.
    for (part, (wanted, expected)) in
        parts.iter().zip([(0, None), (30, Some(30)), (1000, None), (5, Some(5)), (0, Some(0))])
    {
        world = world.with("store.keep_events", wanted);
        world.run(std::slice::from_ref(part));
        assert!(world.ask("verify", &[]).starts_with("sound"));
        let lines = lines(&world);
        let expected = expected.unwrap_or(if wanted == 0 { 0 } else { 30 + lines.len() - n_before });
        let server = Server::open(&world);
        if expected == 0 {
            let refused = server.get("/v1/events");
            assert_eq!((refused.status, &refused.json()["error"]), (404, &json!("no-events")), "{}", refused.body);
            assert!(refused.body.contains("store.keep_events"), "{}", refused.body);
        } else {
            let (first, events) = kept(&server);
            assert_eq!((first as usize, events.len()), (lines.len() - expected, expected));
            assert!(events == lines[lines.len() - expected..]);
            let copy = world.path(&format!("backup{wanted}"));
            world.ask("backup", &[copy.to_str().expect("a path")]);
            let mut process = world.command_on("serve --listen 127.0.0.1:0", &copy);
            let of_copy = Server::from_process(process.stderr(Stdio::piped()).spawn().expect("starts"));
            assert_eq!(kept(&of_copy), (first, events));
        }
        n_before = lines.len();
    }
}

/// A store without any other output has the same events.
#[test]
fn without_an_output_events_are_kept() {
    let (kept_only, told) = (keeping(1_000_000), World::new());
    let input = told.write("pages.jsonl", sample_lines().join("\n"));
    told.run(std::slice::from_ref(&input));
    let output = kept_only.run_unheard_command(std::slice::from_ref(&input)).output().expect("starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(kept_only.ask("verify", &[]).starts_with("sound"));
    assert!(kept(&Server::open(&kept_only)) == (0, lines(&told)));
    assert!(!kept_only.path("events.jsonl").exists());
}

/// Lost if this fails: the promise that a URL is forgotten, to which kept events do not hold.
#[test]
fn what_is_forgotten_is_in_no_kept_event() {
    let world = keeping(1_000_000);
    world.run(&[world.write("pages.jsonl", sample_lines().join("\n"))]);
    let before = lines(&world);
    let of = |line: &String| serde_json::from_str::<Event>(line).expect("an event");
    // One that other events name, too.
    let named = before.iter().map(of).find_map(|event| event.urls().nth(1).map(String::from)).expect("a match");
    let names = |line: &String| of(line).urls().any(|url| url == named);
    assert!(before.iter().filter(|line| names(line)).count() > 2);

    world.ask("forget", &[&named]);
    assert!(world.ask("verify", &[]).starts_with("sound"));
    let n_before = before.len();
    let rest: Vec<String> = before.into_iter().filter(|line| !names(line)).collect();
    let (_, events) = kept(&Server::open(&world));
    let (old, new) = events.split_at(rest.len());
    assert!(old == rest, "every other event is there as before");
    assert!(new.iter().all(|line| of(line).seq >= n_before as u64) && new.iter().any(names), "{new:?}");

    let more = page("http://b.example/", "2026-11-02T00:00:00Z", "2", "some other words");
    world.run(&[world.write("more.jsonl", more)]);
    world.ask("compact", &[]);
    assert!(world.ask("verify", &[]).starts_with("sound"));
    let (_, events) = kept(&Server::open(&world));
    assert!(!events.iter().any(names) && events.len() > rest.len());
    // Streams pass over it.
    let server = Server::open(&world);
    let messages: Vec<_> =
        follow(server.address, "?from=0", "").expect("a stream").take(events.len()).map(|(_, _, data)| data).collect();
    assert!(messages == events);
    let files = fs::read_dir(world.path("store")).expect("a folder").map(|file| file.expect("a file").path());
    for file in files.filter(|file| file.is_file()) {
        let bytes = fs::read(&file).expect("read");
        // Redirects of other pages stay; this one has none.
        let found = memchr::memmem::find(&bytes, named.as_bytes()).is_some();
        assert!(!found, "{} holds what is forgotten", file.display());
    }
}

/// Lost if this fails: events that somebody filters for, or the connection of somebody who filters out all.
#[test]
fn filters_let_through_what_they_say() {
    let world = keeping(1_000_000);
    world.run(&[world.write("pages.jsonl", sample_lines().join("\n"))]);
    let server = Server::open(&world);
    let all: Vec<(String, Event)> =
        lines(&world).into_iter().map(|line| (line.clone(), serde_json::from_str(&line).expect("an event"))).collect();
    let merged = all.iter().find_map(|(_, event)| event.winner()).expect("a merge");
    let members: Value =
        serde_json::from_str(&world.ask("query cluster --json", &[&merged.to_string()])).expect("JSON");
    let members: Vec<u64> = members["documents"].as_array().expect("a list").iter().filter_map(Value::as_u64).collect();
    let about =
        |event: &Event| event.document().map(|document| document.0).or(event.cluster().map(|cluster| cluster.0));
    let is_member = |event: &Event| about(event).is_some_and(|number| members.contains(&u64::from(number)));
    let is_of = |event: &Event, names: &[&str]| {
        let kind = serde_json::to_value(event.kind()).expect("JSON");
        names.contains(&kind.as_str().expect("a name"))
    };
    type Wanted<'a> = Box<dyn Fn(&Event) -> bool + 'a>;
    let cluster = format!("&cluster={}", members.last().expect("a member"));
    let cases: [(&str, Wanted); 5] = [
        ("", Box::new(|_| true)),
        ("&type=moved,merged", Box::new(|event| is_of(event, &["moved", "merged"]))),
        (
            "&host=docs.npm.example&type=changed",
            Box::new(|event| {
                is_of(event, &["changed"])
                    && event.url.as_deref().is_some_and(|url| url.contains("//docs.npm.example/"))
            }),
        ),
        (&cluster, Box::new(is_member)),
        ("&host=never.example", Box::new(|_| false)),
    ];
    for (parameters, is_wanted) in cases {
        let expected: Vec<&String> = all.iter().filter(|(_, event)| is_wanted(event)).map(|(line, _)| line).collect();
        let messages = follow(server.address, &format!("?from=0{parameters}"), "").expect("a stream");
        let messages: Vec<String> = messages.take(expected.len()).map(|(_, _, data)| data).collect();
        assert!(messages.iter().eq(expected), "{parameters}: {} events", messages.len());
        assert!(!messages.is_empty() || parameters.contains("never"), "{parameters} shows something");
    }
}

/// What is asked wrongly, or too late, gets an error that says what to do.
#[test]
fn wrong_requests_get_their_errors() {
    let world = keeping(50).with("http.streams_max", 2);
    world.run(&[world.write("pages.jsonl", sample_lines()[..200].join("\n"))]);
    let n = lines(&world).len() as u64;
    let server = Server::open(&world);
    let check = |response: Response, status: u16, word: &str, message: &str| {
        assert_eq!((response.status, &response.json()["error"]), (status, &json!(word)), "{}", response.body);
        assert!(response.body.contains(message), "{}", response.body);
        response.json()
    };
    let gone = check(server.get("/v1/events?from=7"), 410, "not-kept", "export present");
    assert_eq!(gone["kept_from"], n - 50);
    let last = |id: &str| ask(server.address, "GET", &format!("/v1/events?from={n}"), &[("last-event-id", id)], b"");
    check(last("3"), 410, "not-kept", &format!("the first one that is there is {}", n - 50));
    check(last("x"), 400, "bad-parameter", "last-event-id");
    check(server.get(&format!("/v1/events?from={}", n + 1)), 409, "ahead", &n.to_string());
    check(server.get("/v1/events?from=-1"), 400, "bad-parameter", "from");
    check(server.get("/v1/events?type=moved,gnoe"), 400, "bad-parameter", "gnoe");
    check(server.get("/v1/events?cluster=x"), 400, "bad-parameter", "cluster");
    // Wrong once: a stream without events, since no cluster is 0.
    check(server.get("/v1/events?cluster=0"), 400, "bad-parameter", "1 or more");
    // And since no URL is on a host that is written as a URL.
    check(server.get("/v1/events?host=a.example,https://b.example/c"), 400, "bad-parameter", "b.example");
    check(server.get("/v1/events?limit=3"), 400, "bad-parameter", "accept");
    check(server.get("/v1/events?since=3"), 400, "unknown-parameter", "since");

    // Streams have places of their own.
    let streams = [(), ()].map(|()| follow(server.address, "", "").expect("a stream"));
    check(server.get("/v1/events"), 503, "busy", "http.streams_max");
    assert_eq!(server.get("/v1/stats").status, 200);
    drop(streams);
    until(|| follow(server.address, "", "").ok());
}

/// A page that comes while nothing else does is told at once, also by another process; a stream is not closed for silence.
#[test]
fn a_quiet_stream_stays_open() {
    let world = keeping(100).with("http.idle_ms_max", 300).with("pipeline.batch_latency_ms_max", 5);
    let (mut server, mut pipe) = Server::of_run(&world);
    let reader = Server::open(&world);
    let mut streams = [server.address, reader.address].map(|address| follow(address, "", "").expect("a stream"));
    for n in 0..3 {
        std::thread::sleep(Duration::from_millis(700));
        let line = page(&format!("http://a/{n}"), "2026-11-02T00:00:00Z", "", &format!("text number {n}"));
        writeln!(pipe, "{line}").expect("piped");
        for stream in &mut streams {
            assert_eq!(stream.next().expect("an event").0, n);
        }
    }
    assert_eq!(server.get("/metrics").body.matches("lookalike_http_event_streams 1").count(), 1);
    drop(pipe);
    assert!(ended(&mut server.process).success());
    let [of_run, _] = &mut streams;
    assert!(of_run.next().is_none(), "the stream ended with the program");
}

/// Lost if this fails: memory for every client that does not read, or its connection for ever.
#[test]
fn a_client_that_does_not_read_costs_little() {
    let world = keeping(1_000_000).with("http.response_write_ms_max", 500);
    let n = 60_000u64;
    world.run_command(&[world.write("wrong.jsonl", "{\"x\":1}\n".repeat(n as usize))]).output().expect("ran");
    let lines = lines(&world);
    assert_eq!(lines.len() as u64, n);
    let mut server = Server::open(&world);
    let n_bytes = lines.iter().map(String::len).sum::<usize>() as u64;
    let before = server.memory_peak();
    let slow: Vec<_> = (0..20).map(|_| follow(server.address, "?from=0", "").expect("a stream")).collect();
    server.wait("/metrics", |response| response.body.contains("lookalike_http_event_streams 0"));
    assert_eq!(server.get("/v1/stats").status, 200);
    let grown = server.memory_peak() - before;
    assert!(grown < 20 * n_bytes / 4, "{grown} bytes for 20 streams of {n_bytes} bytes");
    // What had come is whole, and the rest comes to a client that goes on.
    let stream = slow.into_iter().next().expect("one");
    let mut got: Vec<_> = stream.collect();
    assert!(got.len() < lines.len(), "it was cut off");
    let last = format!("last-event-id: {}\r\n", got.last().expect("some").0);
    let rest = follow(server.address, "", &last).expect("a stream");
    got.extend(rest.take(lines.len() - got.len()));
    assert!(got.iter().map(|(_, _, data)| data).eq(&lines));
    terminate(&server.process);
    assert!(ended(&mut server.process).success());
}

/// A stream ends as a whole answer does when the server is told to stop, and holds up nothing.
#[test]
fn a_stream_ends_with_the_server() {
    let world = keeping(100);
    world.run(&[world.write("pages.jsonl", sample_lines()[..20].join("\n"))]);
    let mut server = Server::open(&world);
    let mut stream = connect(server.address);
    stream.write_all(b"GET /v1/events?from=0 HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("sent");
    let begin = Instant::now();
    let mut first = [0; 4096];
    assert!(stream.read(&mut first).expect("read") > 0);
    terminate(&server.process);
    let mut rest = String::new();
    stream.read_to_string(&mut rest).expect("read");
    assert!(rest.ends_with("0\r\n\r\n"), "the last chunk came: {rest}");
    assert!(ended(&mut server.process).success());
    assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
}
