//! Kept texts: each document taken in while they are kept has exactly its text, wherever the program was killed.

use crate::harness::{World, page, sample_lines, sweeps, text};
use crate::recovery::kill_until_done;
use lookalike::document::{Body, CanonicalForm, DocumentId, MediaType};
use lookalike::ports::{DocumentText, Snapshot};
use lookalike::store::{RocksStore, Settings, compress_text};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;
use std::time::Duration;

fn keeping() -> World {
    World::new().with("store.keep_text", "canonical")
}

fn opened(world: &World) -> RocksStore {
    RocksStore::open_read_only(&world.path("store"), &Settings::default()).expect("opens")
}

/// A page of the sample: its URL and sweep, and its body.
fn body_of(line: &str) -> ((String, String), Body, MediaType) {
    let page: Value = serde_json::from_str(line).expect("JSON");
    let text = |name: &str| page[name].as_str().unwrap_or_default().to_string();
    let (media_type, _) = MediaType::parse(&text("content_type")).expect("text");
    ((text("url"), text("sweep")), Body::Text(text("body")), media_type)
}

/// Each document with the sweep and the canonical form of the page that brought it: the first of the sample that an
/// unharmed run, with these settings, assigned to it.
fn expected() -> BTreeMap<u32, (String, CanonicalForm)> {
    let unharmed = World::new();
    unharmed.run(&sweeps());
    let bodies: HashMap<_, _> = sample_lines()
        .iter()
        .map(|line| body_of(line))
        .map(|(key, body, media_type)| (key, CanonicalForm::from_body(&body, media_type).expect("text")))
        .collect();
    let mut expected = BTreeMap::new();
    for event in unharmed.events() {
        if let (Some(document), Some(url), Some(sweep)) = (event.document(), &event.url, &event.sweep) {
            let form = || (sweep.clone(), bodies[&(url.clone(), sweep.clone())].clone());
            expected.entry(document.0).or_insert_with(form);
        }
    }
    assert!(expected.len() > 600, "{}", expected.len());
    expected
}

/// Checks that a store has the text of each of these documents, and no other.
fn assert_texts(world: &World, expected: &BTreeMap<u32, (String, CanonicalForm)>, is_kept: impl Fn(&str) -> bool) {
    let store = opened(world);
    assert_eq!(store.n_documents() as usize, expected.len());
    for (document, (sweep, form)) in expected {
        match store.text_of(DocumentId(*document)).expect("read") {
            DocumentText::Kept(text) if is_kept(sweep) => {
                assert_eq!(CanonicalForm::from_text(&text), *form, "document {document}");
            }
            DocumentText::NotKept if !is_kept(sweep) => {}
            other => panic!("document {document} of sweep {sweep}: {other:?}"),
        }
    }
    assert!(world.ask("verify", &[]).starts_with("sound"));
}

/// Lost if this fails: a document whose text came in the moment of a kill stays without one for ever, because its page is
/// never read again.
#[test]
fn kill_9_leaves_each_document_its_text() {
    let expected = expected();
    for batch in [1, 64] {
        let world = keeping().with("pipeline.batch_records_max", batch);
        let n_kills = kill_until_done(&world, &sweeps());
        assert!(n_kills > 2, "{n_kills} kills are too few");
        assert_texts(&world, &expected, |_| true);
    }
}

#[test]
fn texts_can_be_turned_on_and_off() {
    let expected = expected();
    let mut world = keeping();
    for (keep_text, sweep) in ["canonical", "none", "canonical"].into_iter().zip(sweeps()) {
        world = world.with("store.keep_text", keep_text);
        world.run(&[sweep]);
    }
    assert_texts(&world, &expected, |sweep| !sweep.starts_with('2'));
    // A store that never kept texts opens with and without them.
    let never = World::new();
    never.run(&sweeps()[..1]);
    assert_eq!(opened(&never).text_of(DocumentId(1)).expect("read"), DocumentText::NeverKept);
    let never = never.with("store.keep_text", "canonical");
    never.ask("query url", &["https://docs.npm.example/html/api/bin.html"]);
    assert_eq!(
        opened(&never).text_of(DocumentId(1)).expect("read"),
        DocumentText::NeverKept,
        "a question changes nothing"
    );
    never.run(&sweeps());
    assert_texts(&never, &expected, |sweep| !sweep.starts_with('1'));
}

/// Lost if this fails: a page that came twice at once was sketched out of order, and its document has no text.
#[test]
fn repeated_pages_leave_one_text() {
    let words = |n: usize| (0..80).map(|at| format!("word{} ", n * 31 + at)).collect::<String>();
    let line = |at: usize| page(&format!("http://a.example/{at}"), "2026-11-01T00:00:00Z", "1", &words(at / 16));
    let world = keeping().with("pipeline.sketchers", 4);
    world.run(&[world.write("pages.jsonl", (0..3200).map(|at| line(at) + "\n").collect::<String>())]);
    let store = opened(&world);
    assert_eq!(store.n_documents(), 200);
    for document in 1..=200 {
        let DocumentText::Kept(text) = store.text_of(DocumentId(document)).expect("read") else { panic!("{document}") };
        assert_eq!(text, words(document as usize - 1));
    }
}

#[test]
fn a_long_text_leaves_its_length() {
    let world = keeping().with("limits.text_bytes_max", 1000);
    let bodies = ["rose ".repeat(200), "daisy".repeat(201)];
    let lines: String = bodies
        .iter()
        .enumerate()
        .map(|(at, body)| page(&format!("http://a.example/{at}"), "2026-11-01T00:00:00Z", "1", body) + "\n")
        .collect();
    world.run(&[world.write("pages.jsonl", lines)]);
    let store = opened(&world);
    assert_eq!(store.text_of(DocumentId(1)).expect("read"), DocumentText::Kept(bodies[0].clone()));
    assert_eq!(store.text_of(DocumentId(2)).expect("read"), DocumentText::TooLong(1005));
    assert_eq!(store.text_of(DocumentId(3)).expect("read"), DocumentText::NotKept);
    assert!(world.ask("verify", &[]).starts_with("sound"));
    let stats: Value = serde_json::from_str(&world.ask("stats --json", &[])).expect("JSON");
    assert!(stats["n_bytes_of_texts"].as_u64().is_some_and(|n_bytes| n_bytes > 0), "{stats}");
}

/// The backfill leaves the texts of the stream, also when it is killed again and again.
#[test]
fn a_backfill_leaves_the_same_texts() {
    let expected = expected();
    let loaded = keeping();
    let mut n_kills = 0;
    loop {
        let mut command = loaded.command("backfill -q --memory 2");
        let mut process =
            command.args(sweeps()).env("LOOKALIKE__BACKFILL__CHECKPOINT_MS", "0").spawn().expect("starts");
        std::thread::sleep(Duration::from_millis(20 + 8 * n_kills));
        if let Some(status) = process.try_wait().expect("a status") {
            // A kill may have come between its last step and its end: the store is there, and nothing is left to do.
            assert!(status.success() || (n_kills > 0 && status.code() == Some(2)), "{status}");
            break;
        }
        process.kill().expect("killed");
        process.wait().expect("ended");
        n_kills += 1;
        assert!(n_kills < 400, "no backfill ended by itself");
    }
    assert!(n_kills > 2, "{n_kills} kills are too few");
    assert_texts(&loaded, &expected, |_| true);
    // What was begun without texts does not go on with them.
    let world = World::new();
    let mut process = world.command("backfill -q").args(sweeps()).spawn().expect("starts");
    while !world.path("store.backfill").exists() && process.try_wait().expect("a status").is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    process.kill().expect("killed");
    process.wait().expect("ended");
    if world.path("store.backfill").join("manifest.json").exists() {
        let output = world.with("store.keep_text", "canonical").command("backfill -q").args(sweeps()).output();
        let output = output.expect("starts");
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("store.keep_text"), "{}", text(&output.stderr));
    }
}

/// Whether a file of a folder holds these bytes.
fn holds(folder: &Path, wanted: &[u8]) -> bool {
    let files = fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").path());
    let mut files = files.filter(|file| file.is_file()).map(|file| fs::read(file).expect("a file"));
    files.any(|bytes| bytes.windows(wanted.len()).any(|part| part == wanted))
}

/// Lost if this fails: somebody who must delete a page finds its text in the store or in a file of it.
#[test]
fn a_forgotten_document_leaves_no_text() {
    let world = keeping();
    let body = |n: usize| (0..90).map(|at| format!("takedown{} ", n * 1000 + at * at)).collect::<String>();
    let line = |url: &str, n: usize| page(url, "2026-11-01T00:00:00Z", "1", &body(n)) + "\n";
    let lines = [line("http://a.example/1", 1), line("http://a.example/2", 2), line("http://b.example/2", 2)].concat();
    world.run(&[world.write("pages.jsonl", lines)]);
    let packed = [1, 2].map(|n| compress_text(&body(n)).expect("compressed"));
    world.ask("compact", &[]);
    assert!(packed.iter().all(|packed| holds(&world.path("store"), packed)), "the test must be able to find them");
    let backup = world.path("backup");
    world.ask("backup", &[backup.to_str().expect("a path")]);
    assert!(world.command_on("verify", &backup).output().expect("starts").status.success());

    world.ask("forget", &["--host", "a.example"]);
    assert_eq!(opened(&world).text_of(DocumentId(1)).expect("read"), DocumentText::NotKept);
    let kept = DocumentText::Kept(body(2));
    assert_eq!(opened(&world).text_of(DocumentId(2)).expect("read"), kept, "it still stands at another URL");
    world.run(&[world.write("more.jsonl", line("http://c.example/", 3))]);
    world.ask("compact", &[]);
    assert!(!holds(&world.path("store"), &packed[0]));
    assert!(holds(&world.path("store"), &packed[1]));
    assert!(world.ask("verify", &[]).starts_with("sound"));

    let restored = World::new();
    let output = restored.command("restore").arg(&backup).output().expect("starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(opened(&restored).text_of(DocumentId(1)).expect("read"), DocumentText::Kept(body(1)));
}

/// What two versions share is found in kept texts, in the inputs' records where none are kept, and in files.
#[test]
fn shared_passages_come_from_wherever_the_text_is() {
    let words = |from: u32, n: u32| (from..from + n).map(|n| format!("word{n}")).collect::<Vec<_>>().join(" ");
    let (old, new) = ([words(0, 40), words(900, 30)].join(" "), [words(500, 25), words(0, 40)].join(" "));
    let line = |sweep: &str, body: &str| page("http://a.example/", &format!("2026-11-0{sweep}T00:00:00Z"), sweep, body);
    let pages = [line("1", &old), line("2", &new)].join("\n") + "\n";
    let (kept, plain) = (keeping(), World::new());
    let compare = |world: &World, more: &[&str]| {
        let mut command = world.command("query compare --passages --json http://a.example/ http://a.example/");
        command.args(["--a-sweep", "1", "--b-sweep", "2"]).args(more).output().expect("starts")
    };
    let answer = |world: &World, from: &str, more: &[&str]| -> Value {
        let output = compare(world, more);
        let answer: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
        assert_eq!((answer["a"]["from"].as_str(), answer["b"]["from"].as_str()), (Some(from), Some(from)), "{answer}");
        let passages = answer["passages"].as_array().expect("passages").clone();
        assert_eq!(passages.len(), 1, "{answer}");
        assert_eq!((&passages[0]["n_words"], &passages[0]["text"]), (&40.into(), &words(0, 40).into()));
        assert_eq!((&passages[0]["a_begin"], &passages[0]["b_begin"]), (&0.into(), &(words(500, 25).len() + 1).into()));
        answer
    };
    for world in [&kept, &plain] {
        world.run(&[world.write("pages.jsonl", &pages)]);
    }
    let of_store = answer(&kept, "store", &[]);
    let of_inputs = answer(&plain, "input", &[]);
    assert_eq!(of_store["resemblance"], of_inputs["resemblance"]);
    assert_eq!((&of_inputs["a"]["offset"], &of_inputs["b"]["offset"]), (&0.into(), &1.into()));
    // The file went elsewhere.
    let moved = plain.path("moved.jsonl");
    fs::rename(plain.path("pages.jsonl"), &moved).expect("moved");
    let output = compare(&plain, &[]);
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stdout));
    assert!(text(&output.stderr).contains("--from"), "{}", text(&output.stderr));
    answer(&plain, "input", &["--from", moved.to_str().expect("a path")]);
    // Files need no store.
    let nowhere = World::new();
    let files = [("old.txt", &old), ("new.txt", &new)].map(|(name, body)| nowhere.write(name, body));
    let table = nowhere.ask("query compare --passages", &files.each_ref().map(|file| file.to_str().expect("a path")));
    assert!(table.contains("1 passages of A, 40 words") && table.contains("word0 word1"), "{table}");
    assert!(!nowhere.path("store").exists());
}

/// Wrong once: the first record of a URL and a time was taken for the document, whatever its words. Other pages were compared,
/// and the answer said that it was exact.
#[test]
fn a_record_with_other_words_is_no_page_of_the_document() {
    let words = |from: u32, n: u32| (from..from + n).map(|n| format!("word{n}")).collect::<Vec<_>>().join(" ");
    let line = |day: u32, body: &str| page("http://a.example/", &format!("2026-11-0{day}T00:00:00Z"), "1", body) + "\n";
    let world = World::new();
    let pages = world
        .write("pages.jsonl", [line(1, &words(0, 40)), line(1, &words(500, 60)), line(2, &words(500, 50))].concat());
    world.run(std::slice::from_ref(&pages));
    let compare = |a: &str| world.command("query compare --passages --json").args([a, "3"]).output().expect("starts");
    for (document, offset, n_shared, containment) in [("1", 0, 0, 0.0), ("2", 1, 1, 41.0 / 51.0)] {
        let output = compare(document);
        let answer: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(&output.stderr)));
        assert_eq!((&answer["a"]["offset"], &answer["b"]["offset"]), (&offset.into(), &2.into()), "{answer}");
        assert_eq!(answer["passages"].as_array().map(Vec::len), Some(n_shared), "{answer}");
        assert_eq!(answer["containment_of_a_in_b"].as_f64(), Some(containment), "{answer}");
    }
    // The file was written anew since, with another text in the record of document 1.
    fs::write(&pages, [line(1, &words(900, 40)), line(1, &words(500, 60)), line(2, &words(500, 50))].concat())
        .expect("written");
    let output = compare("1");
    assert_eq!(output.status.code(), Some(4), "{}", text(&output.stdout));
    assert!(text(&output.stderr).contains("there is no text of document 1."), "{}", text(&output.stderr));
    assert_eq!(compare("2").status.code(), Some(0));
}

/// Wrong once: control characters of crawled pages reached the terminal, where they paint, move the cursor and ring.
#[test]
fn text_for_people_has_no_control_characters() {
    let body = (0..20).map(|n| format!("rose{n} \u{1b}[31m \u{7} ")).collect::<String>();
    let world = keeping();
    world.run(&[world.write("pages.jsonl", page("http://a.example/", "2026-11-01T00:00:00Z", "1", &body) + "\n")]);
    let table = world.ask("query compare --passages", &["1", "1"]);
    assert!(table.contains("rose0 \u{fffd}[31m \u{fffd} rose1") && !table.contains('\u{1b}'), "{table}");
    let file = world.write("page.html", format!("<p>{body}"));
    let blocks = world.ask("sketch --page --explain", &[file.to_str().expect("a path")]);
    assert!(blocks.contains("rose0 \u{fffd}[31m") && !blocks.contains('\u{1b}'), "{blocks}");
    // A program gets the text as it is.
    assert_eq!(world.ask("query text", &["1"]), format!("{body}\n"));
    let missing = world.command("query url").arg("http://\u{1b}[31m/").output().expect("starts");
    assert!(text(&missing.stderr).contains("http://\u{fffd}[31m/"), "{}", text(&missing.stderr));
}
