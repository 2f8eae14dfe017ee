//! The same pages in every format that can be read, and files that are not what they should be.

use crate::harness::process::Process;
use crate::harness::{Partition, World, root, text, wait_until};
use crate::parquet::{strings, write};
use lookalike::wire::{Event, EventBody};
use parquet::basic::Compression;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const DUMP: &str = "CC-MAIN-2014-35";

/// A page of the sample as plain text.
struct Sample {
    url: String,
    fetched_at: String,
    text: String,
}

/// Pages of the shipped sample, the first and the last sweep, so that there are versions.
fn sample() -> Vec<Sample> {
    let mut pages = Vec::new();
    for sweep in ["1-2014-08-01", "3-2017-09-01"] {
        let packed = fs::read(root().join(format!("bench-data/sweep-{sweep}.jsonl.zst"))).expect("a sweep");
        let lines = String::from_utf8(zstd::decode_all(&packed[..]).expect("zstd")).expect("text");
        for line in lines.lines().step_by(3) {
            let page: Value = serde_json::from_str(line).expect("a page");
            let word = |name: &str| page[name].as_str().map(String::from);
            let (Some(url), Some(fetched_at), Some(text)) = (word("url"), word("fetched_at"), word("body")) else {
                continue;
            };
            pages.push(Sample { url, fetched_at, text });
        }
    }
    assert!(pages.len() > 100);
    pages
}

fn lines(pages: &[Sample], line: impl Fn(usize, &Sample) -> Value) -> Vec<u8> {
    pages.iter().enumerate().map(|(at, page)| line(at, page).to_string() + "\n").collect::<String>().into_bytes()
}

fn jsonl(pages: &[Sample]) -> Vec<u8> {
    lines(pages, |_, page| json!({"url": page.url, "fetched_at": page.fetched_at, "text": page.text}))
}

fn fineweb(pages: &[Sample]) -> Vec<u8> {
    lines(pages, |at, page| {
        json!({"text": page.text, "id": format!("<urn:uuid:{at}>"), "dump": DUMP, "url": page.url,
            "date": page.fetched_at, "file_path": "s3://commoncrawl/a.warc.gz", "language": "en",
            "language_score": 0.97, "token_count": 17})
    })
}

fn array(pages: &[Sample]) -> Vec<u8> {
    let values: Vec<Value> =
        jsonl(pages).split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    serde_json::to_vec_pretty(&values).expect("JSON")
}

fn table(pages: &[Sample], delimiter: u8, names: [&str; 3]) -> Vec<u8> {
    let mut writer = csv::WriterBuilder::new().delimiter(delimiter).from_writer(Vec::new());
    writer.write_record(names).expect("memory");
    for page in pages {
        writer.write_record([&page.url, &page.text, &page.fetched_at]).expect("memory");
    }
    writer.into_inner().expect("memory")
}

fn warc_record(kind: &str, url: &str, date: &str, content_type: &str, block: &[u8]) -> Vec<u8> {
    let mut record = format!(
        "WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\nWARC-Date: {date}\r\nWARC-Record-ID: <urn:uuid:1>\r\n\
         Content-Type: {content_type}\r\nContent-Length: {}\r\n\r\n",
        block.len()
    )
    .into_bytes();
    record.extend(block);
    record.extend(b"\r\n\r\n");
    record
}

fn http(text: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n{text}").into_bytes()
}

/// As Common Crawl has it: a `warcinfo`, then conversions.
fn wet(pages: &[Sample]) -> Vec<u8> {
    let mut file = warc_record("warcinfo", "", "2014-09-01T00:00:00Z", "application/warc-fields", b"software: x\r\n");
    for page in pages {
        file.extend(warc_record("conversion", &page.url, &page.fetched_at, "text/plain", page.text.as_bytes()));
    }
    file
}

fn warc(pages: &[Sample], kind: &str) -> Vec<Vec<u8>> {
    let record = |page: &Sample| match kind {
        "response" => {
            warc_record(kind, &page.url, &page.fetched_at, "application/http; msgtype=response", &http(&page.text))
        }
        _ => warc_record(kind, &page.url, &page.fetched_at, "text/plain; charset=utf-8", page.text.as_bytes()),
    };
    pages.iter().map(record).collect()
}

fn arc(pages: &[Sample], version: &str) -> Vec<Vec<u8>> {
    let head = format!("{version} Test\nURL IP-address Archive-date Content-type Archive-length\n");
    let first = format!("filedesc://a.arc 0.0.0.0 20140801000000 text/plain {}\n{head}\n", head.len());
    let mut records = vec![first.into_bytes()];
    for page in pages {
        let (block, date) = (http(&page.text), page.fetched_at.replace(['-', ':', 'T', 'Z'], ""));
        let mut record = format!("{} 192.0.2.1 {date} text/plain {}\n", page.url, block.len()).into_bytes();
        record.extend(block);
        record.push(b'\n');
        records.push(record);
    }
    records
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// One member a record, as archives have it.
fn gzip_each(records: &[Vec<u8>]) -> Vec<u8> {
    records.iter().flat_map(|record| gzip(record)).collect()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 1);
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ::bzip2::write::BzEncoder::new(Vec::new(), ::bzip2::Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

/// A zip archive of these files; the second number of each is how many bytes the directory says that it has too many.
fn zip(files: &[(&str, &[u8], bool)]) -> Vec<u8> {
    let (mut archive, mut directory) = (Vec::new(), Vec::new());
    for (name, bytes, is_deflated) in files {
        let mut crc = flate2::Crc::new();
        crc.update(bytes);
        let packed = if *is_deflated {
            let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).expect("memory");
            encoder.finish().expect("memory")
        } else {
            bytes.to_vec()
        };
        let from = archive.len() as u32;
        let mut entry = Vec::new();
        entry.extend([20_u16, 0, if *is_deflated { 8 } else { 0 }, 0, 0x21].map(u16::to_le_bytes).concat());
        entry.extend([crc.sum(), packed.len() as u32, bytes.len() as u32].map(u32::to_le_bytes).concat());
        entry.extend([name.len() as u16, 0].map(u16::to_le_bytes).concat());
        archive.extend(b"PK\x03\x04");
        archive.extend(&entry);
        archive.extend(name.as_bytes());
        archive.extend(packed);
        directory.extend(b"PK\x01\x02\x14\x00");
        directory.extend(&entry);
        directory.extend([0_u16, 0, 0].map(u16::to_le_bytes).concat());
        directory.extend([0, from].map(u32::to_le_bytes).concat());
        directory.extend(name.as_bytes());
    }
    let (n, from, n_bytes) = (files.len() as u16, archive.len() as u32, directory.len() as u32);
    archive.extend(directory);
    archive.extend(b"PK\x05\x06");
    archive.extend([0, 0, n, n].map(u16::to_le_bytes).concat());
    archive.extend([n_bytes, from].map(u32::to_le_bytes).concat());
    archive.extend([0, 0]);
    archive
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A WACZ of two WARC files, whose list says `hash` of the first, or the truth.
fn wacz(first: &[u8], second: &[u8], hash: Option<&str>, n_bytes: usize) -> Vec<u8> {
    let hash = hash.map_or_else(|| hex(first), String::from);
    let list = json!({"profile": "data-package", "wacz_version": "1.1.1", "resources": [
        {"name": "a.warc.gz", "path": "archive/a.warc.gz", "hash": format!("sha256:{hash}"), "bytes": n_bytes},
        {"name": "b.warc", "path": "archive/b.warc", "hash": format!("sha256:{}", hex(second)), "bytes": second.len()},
    ]});
    zip(&[
        ("indexes/index.cdx", b"no WARC", true),
        ("archive/b.warc", second, true),
        ("archive/a.warc.gz", first, false),
        ("datapackage.json", list.to_string().as_bytes(), true),
    ])
}

/// A run over one input, with options, and its output.
fn run(world: &World, input: &Path, options: &[&str]) -> Output {
    world.command("run").arg(input).args(["--sweep", DUMP]).args(options).output().expect("the program starts")
}

fn partition(world: &World, input: &Path, options: &[&str]) -> Partition {
    let output = run(world, input, options);
    assert!(output.status.success(), "{input:?}: {}", text(&output.stderr));
    world.partition()
}

#[test]
fn the_same_pages_in_any_format_have_equal_clusters() {
    let pages = sample();
    let half = pages.len() / 2;
    let (one, two) = (gzip_each(&warc(&pages[..half], "response")), warc(&pages[half..], "resource").concat());
    let nested = lines(
        &pages,
        |_, page| json!({"meta": {"link": [page.url], "at": page.fetched_at}, "content": page.text, "body": "unused"}),
    );
    let c4 = lines(&pages, |_, page| json!({"text": page.text, "timestamp": page.fetched_at, "url": page.url}));
    let names = ["url", "text", "fetched_at"];
    let no_options: &[&str] = &[];
    let world = World::new();
    let expected = partition(&world, &world.write("pages.jsonl", jsonl(&pages)), &[]);
    assert!(expected.iter().any(|cluster| cluster.len() > 1) && expected.len() > 10, "the sample has versions");
    for (name, bytes, options) in [
        ("pages.jsonl.xz", xz(&jsonl(&pages)), no_options),
        ("pages.jsonl.bz2", bzip2(&jsonl(&pages)), no_options),
        ("pages.json", array(&pages), no_options),
        ("pages.csv", table(&pages, b',', names), no_options),
        ("no-name-at-all", table(&pages, b';', names), no_options),
        ("pages.tsv.gz", gzip(&table(&pages, b'\t', names)), no_options),
        (
            "other.csv",
            table(&pages, b',', ["Link", "article", "seen"]),
            &["--map", "url=link,text=article", "--map", "fetched_at=seen"],
        ),
        ("fineweb.jsonl", fineweb(&pages), no_options),
        (
            "fineweb.json",
            [
                b"[".to_vec(),
                fineweb(&pages).trim_ascii_end().split(|byte| *byte == b'\n').collect::<Vec<_>>().join(&b','),
                b"]".to_vec(),
            ]
            .concat(),
            &["--fields", "fineweb"],
        ),
        ("c4.jsonl.gz", gzip(&c4), no_options),
        ("c4.csv", table(&pages, b',', ["url", "text", "timestamp"]), no_options),
        ("nested.jsonl", nested, &["--map", "url=/meta/link/0,text=content,fetched_at=/meta/at"]),
        ("pages.wet", wet(&pages), no_options),
        ("pages.wet.gz", gzip(&wet(&pages)), no_options),
        ("pages.warc.xz", xz(&warc(&pages, "response").concat()), no_options),
        ("pages.arc", arc(&pages, "1 0").concat(), no_options),
        ("pages.arc.gz", gzip_each(&arc(&pages, "1 1")), no_options),
        ("pages.wacz", wacz(&one, &two, None, one.len()), no_options),
    ] {
        let world = World::new();
        let input = world.write(name, bytes);
        assert!(partition(&world, &input, options) == expected, "{name}: other clusters than the JSONL's");
        let again = run(&world, &input, options);
        assert!(text(&again.stderr).contains("nothing new"), "{name}: {}", text(&again.stderr));
    }
}

/// The URL and the time of every page in a store that took a file in, sorted.
fn pages_of(input: &Path) -> Vec<String> {
    let world = World::new();
    assert!(run(&world, input, &[]).status.success());
    let mut rows: Vec<String> =
        world.ask("export clusters --columns url,fetched_at", &[]).lines().map(String::from).collect();
    rows.sort();
    rows
}

/// `dedup` keeps the same pages of every format, with no option but the folder to write to.
#[test]
fn dedup_keeps_the_same_pages_of_every_format() {
    let pages = sample();
    let world = World::new();
    let names = ["url", "text", "timestamp"];
    let column = |part: fn(&Sample) -> &String| strings(pages.iter().map(|page| part(page).as_str()));
    let columns = vec![
        ("url", column(|page| &page.url)),
        ("date", column(|page| &page.fetched_at)),
        ("text", column(|page| &page.text)),
    ];
    write(&world.path("fineweb.parquet"), columns, Compression::SNAPPY);
    let mut expected = None;
    for (name, bytes, output) in [
        ("pages.jsonl", jsonl(&pages), "pages.jsonl"),
        ("fineweb.jsonl.xz", xz(&fineweb(&pages)), "fineweb.jsonl.xz"),
        ("c4.csv", table(&pages, b',', names), "c4.csv"),
        ("c4.tsv.bz2", bzip2(&table(&pages, b'\t', names)), "c4.tsv.bz2"),
        ("array.json", array(&pages), "array.json"),
        ("a.warc.wet.gz", gzip(&wet(&pages)), "a.warc.wet.gz"),
        ("a.warc", warc(&pages, "response").concat(), "a.warc"),
        ("a.arc.gz", gzip_each(&arc(&pages, "1 0")), "a.jsonl.gz"),
        ("fineweb.parquet", Vec::new(), "fineweb.parquet"),
    ] {
        if !bytes.is_empty() {
            world.write(name, bytes);
        }
        let out = world.path(&format!("{name}-out"));
        let mut command = world.command_without_store("dedup --quiet");
        let done = command.arg(world.path(name)).arg("--out").arg(&out).output().expect("starts");
        assert!(done.status.success(), "{name}: {}", text(&done.stderr));
        let kept = pages_of(&out.join(output));
        assert!(kept.len() > 50 && kept.len() < pages.len(), "{name}: {}", kept.len());
        assert_eq!(*expected.get_or_insert_with(|| kept.clone()), kept, "{name}");
    }
    // Rows and elements are those of the input.
    let lines = |path: &Path| fs::read_to_string(path).expect("text");
    let (csv, kept) = (lines(&world.path("c4.csv")), lines(&world.path("c4.csv-out/c4.csv")));
    let rows = |text: &str| csv::Reader::from_reader(text.as_bytes()).into_records().flatten().collect::<Vec<_>>();
    let all = rows(&csv);
    assert!(kept.starts_with("url,text,timestamp\n") && rows(&kept).iter().all(|row| all.contains(row)));
}

/// A record of an HTTP response with a payload's digest.
fn digested(kind: &str, url: &str, time: &str, digest: &str, block: &[u8]) -> Vec<u8> {
    let record = warc_record(kind, url, time, "application/http; msgtype=response", block);
    let head = format!("WARC-Payload-Digest: sha1:{digest}\r\nWARC-Record-ID");
    String::from_utf8(record).expect("text").replace("WARC-Record-ID", &head).into_bytes()
}

/// Lost once: revisits of a page whose bytes came with an error first, as applications of one page send them for every URL; then
/// they counted as lost. Wrong once: what a revisit shows, where it was of another type than the first record with its bytes.
#[test]
fn revisits_are_of_the_capture_that_brought_a_page() {
    let words = "one two three four five six seven eight nine ten eleven twelve thirteen";
    let response = |status: &str, kind: &str, body: &str| {
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n\r\n{body}").into_bytes()
    };
    let first = |url: &str, block: &[u8]| digested("response", url, "2020-01-01T00:00:00Z", "SAME", block);
    let revisit = |url: &str, block: &[u8]| digested("revisit", url, "2021-01-01T00:00:00Z", "SAME", block);
    let markup = format!("<p>{words}</p>");
    let archive = [
        first("http://a/404", &response("404 Not Found", "text/html", &markup)),
        first("http://a/503", &response("503 Busy", "text/html", &markup)),
        first("http://a/raw", &response("200 OK", "text/plain", &markup)),
        first("http://a/page", &response("200 OK", "text/html", &markup)),
        revisit("http://a/page", &response("200 OK", "text/html", "")),
        revisit("http://a/same", b"HTTP/1.1 304 Not Modified\r\n\r\n"),
        revisit("http://a/busy", &response("503 Busy", "text/html", "")),
        revisit("http://a/image", &response("200 OK", "image/png", "")),
    ];
    let world = World::new();
    world.run(&[world.write("a.warc", archive.concat())]);
    let of = |name: &str| {
        let url = format!("http://a/{name}");
        let is_of_url = |event: &&Event| event.url.as_deref() == Some(&url);
        let shown = |event: &Event| match &event.body {
            EventBody::Assigned { document, .. } => format!("document {document}"),
            EventBody::Rejected { reason, .. } => reason.as_str().to_string(),
            EventBody::Gone {} => "gone".to_string(),
            body => format!("{body:?}"),
        };
        world.events().iter().filter(is_of_url).map(shown).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(
        ["404", "503", "raw", "page", "same", "busy", "image"].map(of),
        ["gone", "http-status", "document 1", "document 2, document 2", "document 1", "http-status", "media-type"]
    );
}

/// Wrong once: where a redirect led whose `Location` was in UTF-8, as servers send it. Lost once: one whose `Location` or whose
/// own URL had a blank.
#[test]
fn redirects_of_archives_lead_where_the_server_sends() {
    let redirect = |url: &str, to: &str| {
        let block = format!("HTTP/1.1 301 Moved\r\nLocation: {to}\r\n\r\n");
        warc_record("response", url, "2020-01-01T00:00:00Z", "application/http; msgtype=response", block.as_bytes())
    };
    let archive = [
        redirect("http://a/1", "/neu-straße"),
        redirect("http://a/2", "/new page"),
        redirect("http://a/c d/3", "f"),
        redirect("http://a/a b", "http://a/a%20b"),
    ];
    let world = World::new();
    world.run(&[world.write("a.warc", archive.concat())]);
    let targets: Vec<String> =
        world.events().iter().filter_map(|event| event.redirect_to().map(String::from)).collect();
    assert_eq!(targets, ["http://a/neu-straße", "http://a/new%20page", "http://a/c%20d/f"]);
}

#[test]
fn revisits_show_what_their_originals_show() {
    let words = "one two three four five six seven eight nine ten eleven twelve thirteen";
    let record = digested;
    let header = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n";
    let filler = record("response", "http://a/filler", "2020-01-01T00:00:00Z", "FILLER", &http(&words.repeat(500)));
    let original = record("response", "http://a/1", "2020-01-01T00:00:00Z", "SAME", &http(words));
    let empty = record(
        "response",
        "http://a/moved",
        "2020-01-01T00:00:00Z",
        "EMPTY",
        b"HTTP/1.1 301 X\r\nLocation: /1\r\n\r\n",
    );
    let revisits = [
        record("revisit", "http://a/1", "2021-01-01T00:00:00Z", "SAME", header.as_bytes()),
        record("revisit", "http://b/2", "2021-01-01T00:00:00Z", "SAME", b""),
        record("revisit", "http://b/moved", "2021-01-01T00:00:00Z", "EMPTY", b"HTTP/1.1 301 X\r\nLocation: /2\r\n\r\n"),
        record("revisit", "http://b/empty", "2021-01-01T00:00:00Z", "EMPTY", header.as_bytes()),
        record("revisit", "http://b/unknown", "2021-01-01T00:00:00Z", "OTHER", header.as_bytes()),
    ];
    let first = [filler, original, empty];
    let (plain, packed) = (first.concat(), gzip_each(&first));
    for (name, first, is_found) in [
        ("0.warc", plain.clone(), true),
        ("0.warc.gz", packed.clone(), true),
        ("0.wacz", wacz(&packed, b"", None, packed.len()), true),
        ("0.warc.bz2", bzip2(&plain), false),
        ("2.warc", plain, false),
    ] {
        let world = World::new();
        let folder = world.path("crawl");
        fs::create_dir(&folder).expect("made");
        fs::write(folder.join(name), first).expect("written");
        fs::write(folder.join("1.warc"), revisits.concat()).expect("written");
        let output = run(&world, &folder, &[]);
        let summary = text(&output.stderr);
        let n_rejected = if is_found { 2 } else { 4 };
        assert!(output.status.success() && summary.contains(&format!("{n_rejected} revisit")), "{name}: {summary}");
        let sightings = world.ask("export clusters", &[]);
        assert_eq!(sightings.contains("http://b/2,2021"), is_found, "{name}: {sightings}");
        let lost = world.ask("query url", &["http://b/moved"]);
        assert!(lost.contains("http://b/2"), "{name}: {lost}");
        // Killed or grown, the same revisits are found: the index is made of records that were read before, too.
        let more = record("revisit", "http://c/3", "2022-01-01T00:00:00Z", "SAME", header.as_bytes());
        fs::write(folder.join("1.warc"), [&revisits.concat()[..], &more].concat()).expect("written");
        run(&world, &folder, &[]);
        assert_eq!(world.ask("export clusters", &[]).contains("http://c/3,2022"), is_found, "{name}");
    }
}

/// Lost if this fails: revisits of what a process before took in, because its files are not read again.
#[test]
fn revisits_find_originals_in_files_that_were_followed_before() {
    let record = |kind: &str, url: &str, block: &[u8]| {
        let record = warc_record(kind, url, "2020-01-01T00:00:00Z", "application/http; msgtype=response", block);
        String::from_utf8(record)
            .expect("text")
            .replace("WARC-Record-ID", "WARC-Payload-Digest: sha1:A\r\nWARC-Record-ID")
    };
    let world = World::new().with("input.follow_ms", 30);
    let folder = world.path("crawl");
    fs::create_dir(&folder).expect("made");
    let words = (0..40).map(|word| format!("word{word} ")).collect::<String>();
    for (number, (kind, block)) in
        [("response", http(&words)), ("revisit", Vec::new()), ("revisit", Vec::new())].iter().enumerate()
    {
        let mut command = world.run_command(std::slice::from_ref(&folder));
        command.arg("--follow");
        let process = Process::start(command);
        fs::write(folder.join(format!("{number}.warc")), record(kind, &format!("http://a/{number}"), block))
            .expect("written");
        wait_until("the page", || world.n_events() > number);
        process.stop();
    }
    assert!(
        world.events().iter().all(|event| matches!(event.body, EventBody::Assigned { .. })),
        "{:?}",
        world.events()
    );
}

/// The batch reads them as the stream does.
#[test]
fn backfill_reads_what_run_reads() {
    let pages = sample();
    let (ran, filled) = (World::new(), World::new());
    let input = ran.write("pages.csv", table(&pages, b',', ["link", "text", "timestamp"]));
    let options = ["--fields", "c4", "--map", "url=link"];
    let expected = partition(&ran, &input, &options);
    filled.ask("backfill -q", &[&[input.to_str().expect("a path"), "--sweep", DUMP], &options[..]].concat());
    assert!(filled.partition() == expected);
    assert!(text(&run(&filled, &input, &options).stderr).contains("nothing new"));
}

#[test]
fn a_grown_file_yields_what_is_new() {
    let pages = sample();
    let (some, names) = (&pages[..20], ["url", "text", "fetched_at"]);
    let arc_of = |pages: &[Sample]| gzip_each(&arc(pages, "1 1"));
    for (name, before, after) in [
        ("pages.csv", table(some, b',', names), table(&pages[..30], b',', names)),
        ("pages.json", array(some), array(&pages[..30])),
        ("pages.arc.gz", arc_of(some), arc_of(&pages[..30])),
        ("fineweb.jsonl", fineweb(some), fineweb(&pages[..30])),
    ] {
        let world = World::new();
        run(&world, &world.write(name, before), &[]);
        let output = run(&world, &world.write(name, &after), &[]);
        assert!(text(&output.stderr).contains("10 records in"), "{name}: {}", text(&output.stderr));
        let whole = World::new();
        assert!(partition(&whole, &whole.write(name, after), &[]) == world.partition(), "{name}");
        let replaced = run(&world, &world.write(name, jsonl(&pages[5..40])), &[]);
        assert!(
            text(&replaced.stderr).contains("not the file that was read before"),
            "{name}: {}",
            text(&replaced.stderr)
        );
    }
}

#[test]
fn what_is_recognised_is_said_once() {
    let world = World::new();
    let pages = &sample()[..10];
    let folder = world.path("corpus");
    fs::create_dir(&folder).expect("made");
    for name in ["0.jsonl", "1.jsonl"] {
        fs::write(folder.join(name), fineweb(pages)).expect("written");
    }
    let output = run(&world, &folder, &[]);
    let said = text(&output.stderr);
    assert_eq!(said.matches("--fields fineweb").count(), 1, "{said}");
    assert!(said.contains("0.jsonl") && said.contains("--fields page for none"), "{said}");
    let world = World::new();
    let output = run(&world, &folder, &["--fields", "fineweb"]);
    assert!(output.status.success() && !text(&output.stderr).contains("--fields"), "{}", text(&output.stderr));
    let output = run(&World::new(), &folder, &["--fields", "page"]);
    assert_eq!(output.status.code(), Some(3));
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(said.contains("input.fields.fetched_at (--map) names its place"), "{said}");
}

#[test]
fn files_of_a_folder_are_pages_at_their_paths() {
    let world = World::new();
    let folder = world.path("site");
    fs::create_dir_all(folder.join("sub dir")).expect("made");
    let words = "one two three four five six seven eight nine ten eleven twelve thirteen";
    fs::write(folder.join("a.txt"), words).expect("written");
    fs::write(folder.join("sub dir/b.html"), format!("<p>{}", words.replace(' ', " <b></b>"))).expect("written");
    fs::write(folder.join("c.md.gz"), gzip(format!("# Another\n{}", words.to_uppercase()).as_bytes()))
        .expect("written");
    fs::write(folder.join("index"), format!("<!DOCTYPE html><title>x</title>{words}")).expect("written");
    let output = world.command("run -q").arg(&folder).output().expect("the program starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let path = folder.canonicalize().expect("a folder").display().to_string();
    let rows = world.ask("export clusters", &[]);
    for name in ["a.txt", "sub%20dir/b.html", "c.md.gz", "index"] {
        assert!(rows.contains(&format!("{path}/{name},")), "{name} in {rows}");
    }
    let cluster = world.ask("query cluster", &[&format!("{path}/a.txt")]);
    assert!(cluster.contains("sub%20dir/b.html"), "equal words: {cluster}");
    let year = text(
        &Command::new("date")
            .args(["-u", "-r"])
            .arg(folder.join("a.txt"))
            .arg("+%Y-%m-%dT%H:%M")
            .output()
            .expect("date")
            .stdout,
    );
    assert!(rows.contains(&format!("{path}/a.txt,{}", year.trim())), "{rows}");
}

#[test]
fn records_without_url_or_time_get_them() {
    let pile: String =
        (0..3).map(|at| format!("{{\"text\":\"text {at}\",\"meta\":{{\"pile_set_name\":\"x\"}}}}\n")).collect();
    let ids: String = (0..3).map(|at| format!("{{\"id\":\"doc {at}\",\"text\":\"text {at}\"}}\n")).collect();
    let rows = "doc,text\n1,one\n2,two\n";
    for (name, bytes, options, expected) in [
        ("pile.jsonl", &pile, &[][..], "/pile.jsonl#2,20"),
        ("pile.jsonl", &pile, &["--url-from", "path"], "/pile.jsonl,20"),
        (
            "ids.jsonl",
            &ids,
            &["--url-from", "id", "--fetched-at", "2020-01-01T00:00:00Z"],
            "doc%202,2020-01-01T00:00:00Z",
        ),
        ("ids.jsonl", &ids, &["--url-from", "record", "--fetched-at", "file-time"], "/ids.jsonl#2,20"),
        ("rows.csv", &rows.to_string(), &["--url-from", "record", "--fetched-at", "file-time"], "/rows.csv#1,20"),
        (
            "rows.csv",
            &rows.to_string(),
            &["--url-from", "id", "--map", "id=doc", "--fetched-at", "file-time"],
            "\n2,20",
        ),
    ] {
        let world = World::new();
        let input = world.write(name, bytes);
        let output = run(&world, &input, options);
        assert!(output.status.success(), "{name} {options:?}: {}", text(&output.stderr));
        let rows = world.ask("export clusters", &[]);
        assert!(rows.contains(expected), "{name} {options:?}: {rows}");
    }
}

/// Lost once: every row of a table with a status or a `gone`, and silently the URL, the time and the sweep of columns whose
/// names had capitals, unless some option moved a part elsewhere.
#[test]
fn the_cells_of_a_table_are_text() {
    let rows = "URL,Fetched_At,Sweep,http_status,gone,redirect_to,text\n\
                http://a/0,2026-01-01T00:00:00,s,200,,,a text\n\
                http://a/1,2026-01-01 00:00:00,s,404,,,\n\
                http://a/2,1767225600,s,301,,http://a/0,\n\
                http://a/3,1767225600000,s,,true,,\n\
                http://a/4,20260101000000,s,,1,,\n\
                http://a/5,2026-01-01T00:00:00Z,s,,0,,another text\n";
    let options: [&[&str]; 4] = [
        &[],
        &["--map", "sweep=sweep"],
        &["--url-from", "record", "--fetched-at", "2020-01-01T00:00:00Z"],
        &["--fields", "page"],
    ];
    for options in options {
        let world = World::new();
        let input = world.write("rows.csv", rows);
        let output = world.run_command(&[input]).args(options).output().expect("starts");
        assert!(output.status.success(), "{options:?}: {}", text(&output.stderr));
        let lines = world.events().into_iter().map(|event| serde_json::to_value(event).expect("JSON"));
        let seen: Vec<String> = lines
            .map(|event| {
                [&event["type"], &event["url"], &event["fetched_at"], &event["sweep"]].map(Value::to_string).join(" ")
            })
            .collect();
        let expected = ["assigned", "gone", "redirected", "gone", "gone", "assigned"].into_iter().enumerate();
        let expected: Vec<String> =
            expected.map(|(n, kind)| format!(r#""{kind}" "http://a/{n}" "2026-01-01T00:00:00Z" "s""#)).collect();
        assert_eq!(seen, expected, "{options:?}");
    }
}

/// Exit code and a part of what is said on standard error for an input that cannot be what it should be.
#[test]
fn wrong_inputs_are_told_clearly() {
    let pages = &sample()[..20];
    let (one, two) = (gzip_each(&warc(&pages[..10], "response")), warc(&pages[10..], "resource").concat());
    let good = wacz(&one, &two, None, one.len());
    let mut flipped = good.clone();
    let at = good.windows(8).position(|window| window == &one[..8]).expect("inside") + one.len() - 5;
    flipped[at] ^= 1;
    let packed = xz(&jsonl(pages));
    let names = ["url", "text", "fetched_at"];
    let cut = |bytes: Vec<u8>| bytes[..bytes.len() * 2 / 3].to_vec();
    let none: &[&str] = &[];
    for (name, bytes, options, code, expected) in [
        ("cut.jsonl.xz", cut(packed), none, 3, "truncated or damaged"),
        ("cut.jsonl.bz2", cut(bzip2(&jsonl(pages))), none, 3, "truncated or damaged"),
        (
            "link.csv",
            table(pages, b',', ["link", "text", "fetched_at"]),
            none,
            3,
            "no column holds the URL of a page; the columns are link, text, fetched_at; name it with --map url=COLUMN",
        ),
        ("undated.csv", table(pages, b',', ["url", "text", "seen"]), none, 3, "no column holds the fetch time"),
        ("map.csv", table(pages, b',', names), &["--map", "url=address"], 3, "no column is named \"address\" for url"),
        ("cut.csv", cut(table(pages, b',', names)), none, 3, "the last row is incomplete"),
        ("cut.json", cut(array(pages)), none, 3, "the JSON array is cut off"),
        ("map.jsonl", jsonl(pages), &["--map", "url=/meta/url"], 3, "no URL at /meta/url"),
        (
            "pages.jsonl",
            jsonl(pages),
            &["--fields", "c5"],
            2,
            "unknown preset \"c5\"; the presets are auto, page, fineweb",
        ),
        ("pages.jsonl", jsonl(pages), &["--map", "link=x"], 2, "a page has no part \"link\""),
        ("pages.jsonl", jsonl(pages), &["--map", "url"], 2, "write PART=PLACE"),
        ("pages.jsonl", jsonl(pages), &["--fields", "pointers"], 2, "input.fields.url is empty"),
        ("pages.jsonl", jsonl(pages), &["--url-from", "row"], 2, "id, path, record"),
        ("pages.jsonl", jsonl(pages), &["--fetched-at", "soon"], 2, "not an RFC 3339 time"),
        (
            "lies.wacz",
            wacz(&one, &two, Some(&hex(b"other")), one.len()),
            none,
            3,
            "another checksum (SHA-256) than datapackage.json says",
        ),
        ("lies.wacz", wacz(&one, &two, None, one.len() + 1), none, 3, "archive/a.warc.gz has"),
        ("lies.wacz", flipped, none, 3, "truncated or damaged"),
        ("lies.wacz", cut(good.clone()), none, 3, "directory cannot be read"),
        (
            "missing.wacz",
            zip(&[("datapackage.json", br#"{"resources":[{"path":"archive/a.warc"}]}"#, false)]),
            none,
            3,
            "archive/a.warc is not in it",
        ),
        ("no.wacz", zip(&[("readme", b"no WARC", false)]), none, 3, "zip archive without WARC files"),
        ("cut.arc", cut(arc(pages, "1 0").concat()), none, 3, "run again once the file has grown"),
    ] {
        let world = World::new();
        let output = run(&world, &world.write(name, bytes), options);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.code() == Some(code) && said.contains(expected), "{name}: {:?}: {said}", output.status);
    }
    let world = World::new();
    for (input, options, expected) in
        [(good, none, "save it to a file"), (jsonl(pages), &["--fetched-at", "file-time"], "no file time")]
    {
        let mut command = world.command("run -");
        let mut child = command.args(options).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
        // The program may stop reading before the end.
        let _ = child.stdin.take().expect("a pipe").write_all(&input);
        let output = child.wait_with_output().expect("ended");
        assert_eq!(output.status.code(), Some(3));
        assert!(text(&output.stderr).contains(expected), "{}", text(&output.stderr));
    }
}

/// Every command that reads pages takes the same options.
#[test]
fn sketch_and_related_read_mapped_pages() {
    let world = World::new();
    let pages = &sample()[..30];
    let names = ["link", "article", "seen"];
    let input = world.write("pages.csv", table(pages, b',', names));
    let input: &str = input.to_str().expect("a path");
    let map = ["--map", "url=link,html=article,fetched_at=seen"];
    let plain = lines(pages, |_, page| json!({"url": page.url, "fetched_at": page.fetched_at, "html": page.text}));
    let plain: PathBuf = world.write("plain.jsonl", plain);
    // Without a store, which would have to exist.
    let sketch = || Command::new(env!("CARGO_BIN_EXE_lookalike"));
    let sketches = sketch().args(["sketch", "--json"]).arg(input).args(map).output().expect("the program starts");
    let expected = sketch().args(["sketch", "--json"]).arg(&plain).output().expect("the program starts");
    assert!(sketches.status.success() && text(&sketches.stdout).lines().count() == 30, "{}", text(&sketches.stderr));
    assert_eq!(text(&sketches.stdout), text(&expected.stdout));
    let build = |input: &str, out: &str, map: &[&str]| {
        let out = world.path(out);
        world.ask("related build -q", &[&[input, "--out", out.to_str().expect("a path")], map].concat());
        fs::read_to_string(out.join("neighbours.csv")).expect("rows")
    };
    assert_eq!(build(input, "one", &map), build(plain.to_str().expect("a path"), "two", &[]));
}
