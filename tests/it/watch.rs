//! Watches: a hook gets every event that it wants, in order, whoever fails or is killed.

use crate::harness::disk::SmallDisk;
use crate::harness::server::Server;
use crate::harness::{World, ended, sample_lines, text, wait_until};
use lookalike::wire::{Event, EventType};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_native_tls::native_tls::{Identity, TlsAcceptor};

const SECRET: &str = "a secret of the tests";

/// What a hook took.
#[derive(Clone, Debug)]
struct Delivered {
    seq: u64,
    headers: BTreeMap<String, String>,
    body: String,
}

/// A hook that takes what it is sent, but for those requests that `fails` says.
struct Hook {
    address: SocketAddr,
    delivered: Arc<Mutex<Vec<Delivered>>>,
    n_requests: Arc<AtomicU32>,
}

impl Hook {
    fn open(fails: impl Fn(u32) -> bool + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (delivered, n_requests) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicU32::new(0)));
        let (taken, n) = (Arc::clone(&delivered), Arc::clone(&n_requests));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let number = n.fetch_add(1, Ordering::Relaxed);
                let Some(request) = request(&stream) else { continue };
                match fails(number) {
                    // Some failures are a status, others a connection that ends.
                    true if number % 2 == 0 => _ = (&stream).write_all(b"HTTP/1.1 302 Found\r\nlocation: /x\r\n\r\n"),
                    true => {}
                    false => {
                        taken.lock().expect("no panic").push(request);
                        _ = (&stream).write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
                    }
                }
            }
        });
        Hook { address, delivered, n_requests }
    }

    /// One that speaks TLS, with a certificate and its key in PEM, and takes everything.
    fn open_encrypted(certificate: &Path, key: &Path) -> Self {
        let read = |path: &Path| fs::read(path).expect("a file");
        let identity = Identity::from_pkcs8(&read(certificate), &read(key)).expect("an identity");
        let acceptor = TlsAcceptor::new(identity).expect("TLS");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (delivered, n_requests) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicU32::new(0)));
        let (taken, n) = (Arc::clone(&delivered), Arc::clone(&n_requests));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                n.fetch_add(1, Ordering::Relaxed);
                let Ok(mut stream) = acceptor.accept(stream) else { continue };
                let Some(request) = request(&mut stream) else { continue };
                taken.lock().expect("no panic").push(request);
                let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
            }
        });
        Hook { address, delivered, n_requests }
    }

    fn delivered(&self) -> Vec<Delivered> {
        self.delivered.lock().expect("no panic").clone()
    }
}

/// Reads a request; none where the sender was killed within it.
fn request(stream: impl Read) -> Option<Delivered> {
    let mut reader = BufReader::new(stream);
    let (mut headers, mut line) = (BTreeMap::new(), String::new());
    reader.read_line(&mut line).ok()?;
    assert!(line.is_empty() || line == "POST /hook?a=1 HTTP/1.1\r\n", "{line}");
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        match line.trim_end().split_once(": ") {
            Some((name, value)) => _ = headers.insert(name.to_string(), value.to_string()),
            None => break,
        }
    }
    let mut body = vec![0; headers.get("content-length")?.parse().ok()?];
    reader.read_exact(&mut body).ok()?;
    Some(Delivered { seq: headers["lookalike-seq"].parse().ok()?, headers, body: text(&body) })
}

/// A world with these watches, in the words of the configuration.
fn watching(keep_events: u64, watches: &str) -> World {
    let world = World::new().with("store.keep_events", keep_events).with("pipeline.batch_latency_ms_max", 5);
    let config = world.write("watches.toml", watches);
    let world = world.with_config(config.to_str().expect("a path"));
    world.with_variable("LOOKALIKE_HOOK_SECRET", SECRET)
}

/// HMAC-SHA256 as RFC 2104 has it, for a key of less than a block.
fn hmac(key: &[u8], body: &[u8]) -> String {
    let padded = |with: u8| {
        let mut block = [with; 64];
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
        block
    };
    let inner = Sha256::digest([&padded(0x36)[..], body].concat());
    let outer = Sha256::digest([&padded(0x5c)[..], &inner].concat());
    outer.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Lost if this fails: an event that a hook waits for, for ever; or the pages, while a hook is down.
#[test]
fn over_failures_and_kills_a_hook_gets_every_event_in_order() {
    // About one request in five fails.
    let hook = Hook::open(|number| number.wrapping_mul(2_654_435_761) >> 16 & 7 < 2);
    let address = hook.address;
    let world = watching(
        1_000_000,
        &format!(
            "[[watch]]\nname = \"changes\"\nurl = \"http://{address}/hook?a=1\"\ntypes = [\"changed\", \"merged\"]\n\
             hosts = [\"docs.npm.example\"]\nsecret = \"env:LOOKALIKE_HOOK_SECRET\"\n\
             [[watch]]\nname = \"dead\"\nurl = \"http://127.0.0.1:9/\"\n"
        ),
    );
    let pages: String = sample_lines().iter().map(|line| format!("{line}\n")).collect();
    for n_wanted in [1usize, 3, 6, 12] {
        let (mut server, mut pipe) = Server::of_run(&world);
        let fed = pages.clone();
        let feeder = std::thread::spawn(move || pipe.write_all(fed.as_bytes()).map(|()| pipe));
        wait_until("deliveries", || hook.delivered().len() >= n_wanted);
        server.process.kill().expect("killed");
        let _ = feeder.join();
    }
    let (mut server, mut pipe) = Server::of_run(&world);
    pipe.write_all(pages.as_bytes()).expect("fed");
    wait_until("the events", || world.n_events() > 600);
    let expected = || -> Vec<String> {
        let lines = fs::read_to_string(world.path("events.jsonl")).expect("events");
        let is_wanted = |line: &&str| {
            let event: Event = serde_json::from_str(line).expect("an event");
            let kind = serde_json::to_value(event.kind()).expect("JSON");
            (kind == "changed" || kind == "merged")
                && event.url.as_deref().is_some_and(|url| url.contains("//docs.npm.example/"))
        };
        lines.lines().filter(is_wanted).map(String::from).collect()
    };
    let body_of_last = || hook.delivered().last().map(|last| last.body.clone());
    wait_until("all deliveries", || {
        server.get("/metrics").body.contains("lookalike_webhook_lag_events{watch=\"changes\"} 0\n")
            && body_of_last() == expected().last().cloned()
    });
    let metrics = server.get("/metrics").body;
    assert!(metrics.contains("lookalike_webhook_failed_total{watch=\"dead\"}"), "{metrics}");
    drop(pipe);
    assert!(ended(&mut server.process).success(), "no hook stops the program");

    let mut delivered = hook.delivered();
    assert!(delivered.is_sorted_by_key(|one| one.seq), "they come in order");
    for one in &delivered {
        assert_eq!(one.headers["lookalike-delivery"], format!("changes/{}", one.seq));
        assert_eq!(
            one.headers["lookalike-signature"],
            format!("sha256={}", hmac(SECRET.as_bytes(), one.body.as_bytes()))
        );
        assert!(one.body.contains(&format!(",\"seq\":{},", one.seq)));
    }
    let n_delivered = delivered.len();
    delivered.dedup_by_key(|one| one.seq);
    assert!(delivered.iter().map(|one| &one.body).eq(&expected()));
    assert!(n_delivered - delivered.len() <= 4, "one again for each kill, at most");
    assert!(hook.n_requests.load(Ordering::Relaxed) as usize > n_delivered, "some failed");
    world.ask("verify", &[]);
}

/// Lost once: all events from a full disk on, until the next start. The watch ended when it could not note its position.
#[test]
fn a_watch_outlives_a_full_disk() {
    let hook = Hook::open(|_| {
        std::thread::sleep(Duration::from_millis(5));
        false
    });
    let world =
        watching(1_000_000, &format!("[[watch]]\nname = \"all\"\nurl = \"http://{}/hook?a=1\"\n", hook.address))
            .with("pipeline.batch_records_max", 16)
            .with("store.posting_buffer_mib", 0);
    let Some(disk) = SmallDisk::mounted_on(world.path("store"), 160 << 20) else {
        return println!("skipped: only root may mount a small disk");
    };
    world.run(&[world.write("first.jsonl", sample_lines()[..1].join("\n") + "\n")]);
    let ballast = disk.fill_but(500 << 10);
    let (mut server, mut pipe) = Server::of_run(&world);
    let pages: String = sample_lines().iter().map(|line| format!("{line}\n")).collect();
    let feeder = std::thread::spawn(move || pipe.write_all(pages.as_bytes()).map(|()| pipe));
    wait_until("a full disk", || server.get("/metrics").body.contains("lookalike_disk_full 1\n"));
    let n_durable = world.n_events();
    wait_until("deliveries", || hook.delivered().len() >= n_durable);
    fs::remove_file(ballast).expect("removed");
    let pipe = feeder.join().expect("no panic").expect("fed");
    wait_until("all deliveries", || {
        world.n_events() > 600
            && server.get("/metrics").body.contains("lookalike_webhook_lag_events{watch=\"all\"} 0\n")
    });
    drop(pipe);
    assert!(ended(&mut server.process).success());
    let mut numbers: Vec<u64> = hook.delivered().iter().map(|one| one.seq).collect();
    numbers.dedup();
    assert!(numbers.into_iter().eq(0..world.n_events() as u64), "every event, in order");
    drop(disk);
}

/// Lost if this fails: that a hook which was down for too long has missed something.
#[test]
fn what_is_not_kept_any_more_is_counted() {
    let is_down = Arc::new(AtomicU32::new(1));
    let down = Arc::clone(&is_down);
    let hook = Hook::open(move |_| down.load(Ordering::Relaxed) == 1);
    let watch = format!("[[watch]]\nname = \"all\"\nurl = \"http://{}/hook?a=1\"\n", hook.address);
    let world = watching(20, &watch);
    let (mut server, mut pipe) = Server::of_run(&world);
    let lines = sample_lines();
    writeln!(pipe, "{}", lines[0]).expect("fed");
    wait_until("a failure", || hook.n_requests.load(Ordering::Relaxed) > 0);
    for line in &lines[1..] {
        writeln!(pipe, "{line}").expect("fed");
    }
    wait_until("the events", || world.n_events() >= lines.len());
    is_down.store(0, Ordering::Relaxed);
    let last = || world.events().last().map(|event| event.seq);
    wait_until("the last one", || hook.delivered().last().map(|one| one.seq) == last());
    let metrics = server.get("/metrics").body;
    let n_skipped: u64 = metrics
        .lines()
        .find_map(|line| line.strip_prefix("lookalike_webhook_skipped_total{watch=\"all\"} "))
        .map_or(0, |n| n.parse().expect("a number"));
    drop(pipe);
    assert!(ended(&mut server.process).success());
    let delivered = hook.delivered();
    assert!(delivered.is_sorted_by(|a, b| a.seq < b.seq));
    assert!(n_skipped > 0);
    assert_eq!(delivered.len() as u64 + n_skipped, last().expect("events") + 1, "each is delivered or counted");
}

/// Lost if this fails: events to whoever stands between, or the events of an encrypted hook.
#[test]
fn an_encrypted_hook_is_trusted_by_its_certificate() {
    let world = World::new();
    let (certificate, key) = (world.path("hook.pem"), world.path("hook.key"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=hook"])
        .args(["-addext", "subjectAltName=IP:127.0.0.1", "-out"])
        .arg(&certificate)
        .arg("-keyout")
        .arg(&key)
        .output()
        .expect("openssl");
    assert!(made.status.success(), "{}", text(&made.stderr));
    let hook = Hook::open_encrypted(&certificate, &key);
    let config = world.path("watches.toml");
    let name = |host: &str| {
        let watch = format!("[[watch]]\nname = \"it\"\nurl = \"https://{host}:{}/hook?a=1\"\n", hook.address.port());
        fs::write(&config, watch).expect("written");
    };
    name("127.0.0.1");
    let world = world.with("store.keep_events", 1_000_000).with_config(config.to_str().expect("a path"));
    let lines = sample_lines();
    let feed = |world: &World, lines: &[String]| {
        let (server, mut pipe) = Server::of_run(world);
        lines.iter().for_each(|line| writeln!(pipe, "{line}").expect("fed"));
        (server, pipe)
    };
    // Nobody vouches for it.
    let (mut server, pipe) = feed(&world, &lines[..3]);
    let refused = || server.get("/metrics").body.contains("lookalike_webhook_failed_total{watch=\"it\"}");
    wait_until("a refusal", || hook.n_requests.load(Ordering::Relaxed) > 0 && refused());
    drop(pipe);
    assert!(ended(&mut server.process).success());
    assert!(hook.delivered().is_empty());
    // The certificate is known, and is for another host.
    let world = world.with_variable("SSL_CERT_FILE", certificate.to_str().expect("a path"));
    let n_before = hook.n_requests.load(Ordering::Relaxed);
    name("localhost");
    let (mut server, pipe) = feed(&world, &lines[..3]);
    wait_until("another refusal", || hook.n_requests.load(Ordering::Relaxed) > n_before);
    drop(pipe);
    assert!(ended(&mut server.process).success());
    assert!(hook.delivered().is_empty());
    name("127.0.0.1");
    let (mut server, pipe) = feed(&world, &lines);
    wait_until("the events", || world.n_events() >= lines.len());
    let all = || world.events().iter().map(|event| event.seq).collect::<BTreeSet<u64>>();
    let taken = || hook.delivered().iter().map(|one| one.seq).collect::<BTreeSet<u64>>();
    wait_until("all deliveries", || taken() == all());
    drop(pipe);
    assert!(ended(&mut server.process).success());
}

/// Feeds lines to a world with one watch, and returns the lines of events that its hook took.
fn taken(watch: &str, texts: &[(&str, &str)], lines: &[String]) -> (World, Vec<String>) {
    let hook = Hook::open(|_| false);
    let head = format!("[[watch]]\nname = \"it\"\nurl = \"http://{}/hook?a=1\"\n", hook.address);
    let world = World::new();
    let mut settings = head + watch;
    for (name, text) in texts {
        let path = world.write(name, text);
        settings = settings.replace(name, path.to_str().expect("a path"));
    }
    let config = world.write("watches.toml", settings);
    let world = world.with("store.keep_events", 1_000_000).with_config(config.to_str().expect("a path"));
    let (mut server, mut pipe) = Server::of_run(&world);
    for line in lines {
        writeln!(pipe, "{line}").expect("fed");
    }
    wait_until("the events", || world.n_events() >= lines.len());
    wait_until("the hook", || server.get("/metrics").body.contains("lookalike_webhook_lag_events{watch=\"it\"} 0\n"));
    drop(pipe);
    assert!(ended(&mut server.process).success());
    let delivered = hook.delivered().into_iter().map(|one| one.body).collect();
    (world, delivered)
}

/// Lost if this fails: that a page carries the text somebody watches for, or peace from pages that do not.
#[test]
fn a_watch_on_a_text_hears_of_the_pages_that_carry_it() {
    let lines = sample_lines();
    let page: serde_json::Value = serde_json::from_str(&lines[0]).expect("JSON");
    let text = page["body"].as_str().expect("a body");
    let (world, delivered) = taken("texts = [\"text.html\"]\ntypes = [\"assigned\"]\n", &[("text.html", text)], &lines);
    let urls: BTreeSet<String> =
        delivered.iter().filter_map(|line| serde_json::from_str::<Event>(line).expect("an event").url).collect();
    // The store's index answers the same question in another way.
    let path = world.path("text.html");
    let answer = world.ask("query reuse --json", &[path.to_str().expect("a path")]);
    let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
    let hosts = answer.as_array().expect("hosts").iter();
    let pages = hosts.flat_map(|host| host["pages"].as_array().expect("pages"));
    let expected: BTreeSet<String> = pages.map(|page| page["url"].as_str().expect("a URL").to_string()).collect();
    assert!(expected.len() > 1, "{expected:?}");
    assert_eq!(urls, expected);
}

/// Lost if this fails: a cluster that is watched loses its watch when it gets another name.
#[test]
fn a_watch_on_a_cluster_follows_it_through_mergers() {
    let words = |from: usize, to: usize| (from..to).map(|n| format!("word{n}")).collect::<Vec<_>>().join(" ");
    let line = |n: usize, text: &str| {
        serde_json::json!({"url": format!("http://a.example/{n}"), "fetched_at": "2026-01-01T00:00:00Z", "text": text})
            .to_string()
    };
    // The second is watched. The third is another text, the fourth is like the first two, which are not alike by themselves.
    let texts = [words(0, 120), words(80, 200), words(1000, 1100), words(0, 200), words(0, 119)];
    let lines: Vec<String> = texts.iter().enumerate().map(|(n, text)| line(n + 1, text)).collect();
    let (world, delivered) = taken("clusters = [2]\ntypes = [\"assigned\"]\n", &[], &lines);
    let urls: Vec<_> = delivered
        .iter()
        .filter_map(|line| serde_json::from_str::<Event>(line).expect("an event").url)
        .map(|url| url.trim_start_matches("http://a.example/").to_string())
        .collect();
    assert!(world.events().iter().any(|event| event.kind() == EventType::Merged), "they were merged");
    assert!(!urls.contains(&"3".to_string()), "{urls:?}");
    assert!(urls.ends_with(&["2", "4", "5"].map(String::from)), "{urls:?}");
}

/// A watch without kept events is refused, and what else is wrong with one.
#[test]
fn wrong_watches_are_refused() {
    let check = |keep_events: u64, watch: &str, word: &str| {
        let world = watching(keep_events, &format!("[[watch]]\n{watch}"));
        let output = world.run_command(&[world.write("pages.jsonl", "")]).output().expect("starts");
        assert_eq!(output.status.code(), Some(2), "{watch}");
        assert!(text(&output.stderr).contains(word), "{}", text(&output.stderr));
        assert!(!world.path("store").exists());
    };
    check(0, "name = \"a\"\nurl = \"http://a/\"", "store.keep_events");
    check(1, "name = \"a\"\nurl = \"https://u@a/\"", "without a user");
    check(1, "name = \"a\"\nurl = \"http://a/\"\ntypes = [\"gnoe\"]", "gnoe");
    check(1, "name = \"a\"\nurl = \"http://a/\"\nsecret = \"bare\"", "env:NAME");
    check(1, "name = \"a\"\nurl = \"http://a/\"\nthreshold = 2", "from 0 to 1");
    check(1, "name = \"a\"", "url");
}
