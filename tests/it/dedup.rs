//! `dedup` keeps one page of each cluster, as it came, lists the others, and resumes wherever it was stopped.

use crate::harness::disk::SmallDisk;
use crate::harness::{Partition, World, page, page_key, partition_of, root, sweeps, text};
use arrow_array::builder::{Int32Builder, ListBuilder};
use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::Compression;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// A page of the sample and where it is.
#[derive(Clone)]
pub struct Page {
    /// Its file and its line in it.
    pub at: (usize, i64),
    /// The line, line feed included.
    line: Vec<u8>,
    pub json: Value,
    pub key: String,
    pub n_words: u64,
}

/// What a file holds, without its compression.
fn unpacked(path: &Path) -> Vec<u8> {
    let packed = fs::read(path).expect("a file");
    let mut bytes = Vec::new();
    if packed.starts_with(&[0x1f, 0x8b]) {
        flate2::read::MultiGzDecoder::new(&packed[..]).read_to_end(&mut bytes).expect("gzip");
    } else if packed.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let mut decoder = zstd::Decoder::new(&packed[..]).expect("zstd");
        decoder.window_log_max(27).expect("a window");
        decoder.read_to_end(&mut bytes).expect("zstd");
    } else {
        bytes = packed;
    }
    bytes
}

fn column(name: &str, field: &str) -> Vec<String> {
    let file = File::open(root().join("bench-data/exact").join(name)).expect("a file");
    let mut rows = csv::Reader::from_reader(zstd::Decoder::new(file).expect("zstd"));
    let at = rows.headers().expect("headers").iter().position(|name| name == field).expect(field);
    rows.records().map(|row| row.expect("a row")[at].to_string()).collect()
}

/// The sample, with the words that another author's program counted.
pub fn sample() -> Vec<Page> {
    let counts = column("sets.csv.zst", "url").into_iter().zip(column("sets.csv.zst", "sweep"));
    let counts: HashMap<(String, String), u64> =
        counts.zip(column("sets.csv.zst", "n_words").iter().map(|n| n.parse().expect("a number"))).collect();
    let mut pages = Vec::new();
    for (file, path) in sweeps().iter().enumerate() {
        for (at, line) in unpacked(path).split_inclusive(|byte| *byte == b'\n').enumerate() {
            let json: Value = serde_json::from_slice(line).expect("JSON");
            let field = |name: &str| json[name].as_str().expect(name).to_string();
            let n_words = counts[&(field("url"), field("sweep"))];
            let key = page_key(&field("url"), &field("fetched_at"), &field("sweep"));
            pages.push(Page { at: (file, at as i64), line: line.to_vec(), key, n_words, json });
        }
    }
    assert_eq!(pages.len(), 646);
    pages
}

fn clusters_of(partition: &Partition) -> HashMap<String, usize> {
    partition.iter().enumerate().flat_map(|(at, set)| set.iter().map(move |key| (key.clone(), at))).collect()
}

/// The plain reference: the page of each cluster that stays. Pages of clusters in `known` all go.
fn kept_by(
    pages: &[Page],
    clusters: &HashMap<String, usize>,
    keep: &str,
    known: &BTreeSet<usize>,
) -> BTreeSet<(usize, i64)> {
    let mut best: BTreeMap<usize, &Page> = BTreeMap::new();
    for page in pages.iter().filter(|page| !known.contains(&clusters[&page.key])) {
        let held = best.entry(clusters[&page.key]).or_insert(page);
        let is_better = match keep {
            "longest" => page.n_words > held.n_words,
            "newest" => page.json["fetched_at"].as_str() > held.json["fetched_at"].as_str(),
            _ => false,
        };
        if is_better {
            *held = page;
        }
    }
    best.into_values().map(|page| page.at).collect()
}

pub fn kept_of_clusters(pages: &[Page], partition: &Partition, keep: &str) -> BTreeSet<(usize, i64)> {
    kept_by(pages, &clusters_of(partition), keep, &BTreeSet::new())
}

/// The clusters of the sample in a store of its own.
pub fn backfilled(world: &World, inputs: &[PathBuf]) -> Partition {
    let output = world.command("backfill -q").args(inputs).output().expect("starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    world.partition()
}

impl World {
    fn dedup_command(&self, inputs: &[PathBuf], out: &str, arguments: &[&str]) -> Command {
        let mut command = self.command_without_store("dedup --json --memory 4");
        command.args(inputs).arg("--out").arg(self.path(out)).args(arguments);
        command
    }

    /// A run that must succeed. Returns its summary.
    fn dedup(&self, inputs: &[PathBuf], out: &str, arguments: &[&str]) -> Value {
        summary(&self.dedup_command(inputs, out, arguments).output().expect("starts"), 0)
    }
}

fn summary(output: &Output, code: i32) -> Value {
    assert_eq!(output.status.code(), Some(code), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("a summary")
}

fn refused(output: &Output, why: &str) {
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains(why), "{}", text(&output.stderr));
}

/// The files of a corpus, without its hidden folder.
pub fn tree(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.extend((!path.ends_with(".dedup")).then_some(path));
            } else {
                files.insert(path.strip_prefix(folder).expect("inside").to_path_buf(), fs::read(&path).expect("bytes"));
            }
        }
    }
    files
}

/// Checks that the outputs hold exactly these pages, with their bytes and in their order.
fn holds(out: &Path, inputs: &[PathBuf], pages: &[Page], kept: &BTreeSet<(usize, i64)>) {
    let names: Vec<_> = inputs.iter().map(|input| input.file_name().expect("a name")).collect();
    assert_eq!(tree(out).into_keys().collect::<Vec<_>>(), names, "shards in are shards out");
    for (file, name) in names.iter().enumerate() {
        let expected: Vec<u8> = pages
            .iter()
            .filter(|page| page.at.0 == file && kept.contains(&page.at))
            .flat_map(|page| page.line.clone())
            .collect();
        assert!(unpacked(&out.join(name)) == expected, "{}", name.display());
    }
}

#[test]
fn the_kept_pages_are_those_of_the_plain_reference() {
    let pages = sample();
    for (name, world) in [
        ("default", World::new as fn() -> World),
        ("exact", || World::new().with_config("exact.toml")),
        ("common shingles", || World::new().with("cluster.common_limit", 3)),
    ] {
        let world = world();
        let partition = backfilled(&world, &sweeps());
        for keep in ["longest", "newest", "first"] {
            let kept = kept_of_clusters(&pages, &partition, keep);
            let summary = world.dedup(&sweeps(), keep, &["--keep", keep]);
            holds(&world.path(keep), &sweeps(), &pages, &kept);
            assert_eq!(summary["n_kept"], kept.len(), "{name}, {keep}");
            assert_eq!(summary["n_pages"], 646);
        }
        let default = world.dedup(&sweeps(), "default", &[]);
        assert_eq!(default["n_kept"], partition.len());
        assert_eq!(tree(&world.path("default")), tree(&world.path("longest")), "the default");
    }
}

/// A quality that someone gave each page: some have none, and many are equal.
fn score(page: &Page) -> Option<f64> {
    let n = page.key.bytes().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into())) % 23;
    (n < 20).then(|| f64::from(n) / 4.0 - 2.0)
}

/// Lost if this fails: the page that its owner holds for the best of a cluster. Lost once: the value of a page that was
/// repaired, or has a field beside it that cannot be read as a value.
#[test]
fn the_page_with_the_highest_value_in_a_column_stays() {
    let (world, pages) = (World::new(), sample());
    let clusters = clusters_of(&backfilled(&world, &sweeps()));
    let mut best: BTreeMap<usize, &Page> = BTreeMap::new();
    for page in &pages {
        let held = best.entry(clusters[&page.key]).or_insert(page);
        if score(page).unwrap_or(f64::NEG_INFINITY) > score(held).unwrap_or(f64::NEG_INFINITY) {
            *held = page;
        }
    }
    let expected: BTreeSet<&str> = best.values().map(|page| page.key.as_str()).collect();
    assert!(best.values().filter(|page| page.n_words > 0 && score(page).is_some()).count() > 100);
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let mut lines = String::new();
    let mut csv = csv::Writer::from_writer(Vec::new());
    csv.write_record(["url", "fetched_at", "sweep", "content_type", "body", "Score"]).expect("memory");
    for (number, page) in pages.iter().enumerate() {
        let mut json = page.json.clone();
        // As a number, as text, or not at all.
        json["meta"] = match score(page) {
            Some(score) if number % 2 == 0 => serde_json::json!({"score": score}),
            Some(score) => serde_json::json!({"score": score.to_string()}),
            None => serde_json::json!({"score": "unknown"}),
        };
        let odd = ["0", r#""\ud83d""#, "1e400", deep.as_str()][number % 4];
        lines += &format!("{json}\n").replacen(r#""meta":{"#, &format!(r#""meta":{{"odd":{odd},"#), 1);
        let field = |name: &str| page.json[name].as_str().unwrap_or_default().to_string();
        let text = score(page).map_or(String::new(), |score| score.to_string());
        let fields = ["url", "fetched_at", "sweep", "content_type", "body"].map(field);
        csv.write_record(fields.iter().chain([&text])).expect("memory");
    }
    let of_all: Vec<&Page> = pages.iter().collect();
    let scores: ArrayRef = Arc::new(Float64Array::from_iter(pages.iter().map(score)));
    let columns = [table(&of_all), vec![("rank", scores)]].concat();
    let parquet = crate::parquet::write(&world.path("pages.parquet"), columns, Compression::SNAPPY);
    let inputs = [
        (world.write("pages.jsonl", lines), "/meta/score"),
        (world.write("pages.csv", csv.into_inner().expect("memory")), "score"),
        (parquet, "rank"),
    ];
    for (number, (input, column)) in inputs.iter().enumerate() {
        let (table, store) = (world.path("table.jsonl"), world.path(&format!("store-{number}")).display().to_string());
        let mut command = world.command_without_store("cluster -q --columns url,keep,record --keep");
        let output = command.arg(column).arg("--out").arg(&table).arg(input).output().expect("starts");
        assert!(output.status.success(), "{}", text(&output.stderr));
        let rows = fs::read_to_string(&table).expect("a table");
        let rows: Vec<Value> = rows.lines().map(|row| serde_json::from_str(row).expect("a row")).collect();
        let kept = rows.iter().filter(|row| row["keep"] == true);
        let kept: BTreeSet<&str> =
            kept.map(|row| pages[row["record"].as_u64().expect("a number") as usize].key.as_str()).collect();
        assert!(kept == expected, "{}", input.display());
        for (out, arguments) in [("out", vec![]), ("held", vec!["--store", store.as_str()])] {
            let summary = world.dedup(
                std::slice::from_ref(input),
                &format!("{out}-{number}"),
                &[&["--keep", column][..], &arguments].concat(),
            );
            assert_eq!(summary["n_kept"], expected.len());
        }
        let written = world.path(&format!("out-{number}"));
        let again = world.dedup(&[written], &format!("again-{number}"), &["--keep", column]);
        assert_eq!(again["n_kept"], expected.len());
    }
}

/// Lost once: the whole run, before its clusters where the first input is empty or lacks the column, and after them where a
/// later table lacks it.
#[test]
fn inputs_without_the_column_have_no_values() {
    let world = World::new();
    let table = |name: &str, rank: Option<f64>| {
        let url = format!("http://{name}/");
        let mut columns = vec![
            ("url", crate::parquet::strings([url.as_str()])),
            ("date", crate::parquet::strings(["2026-01-01T00:00:00Z"])),
            ("text", crate::parquet::strings(["one two three"])),
        ];
        columns.extend(rank.map(|rank| ("rank", Arc::new(Float64Array::from(vec![rank])) as ArrayRef)));
        crate::parquet::write(&world.path(&format!("{name}.parquet")), columns, Compression::SNAPPY)
    };
    let inputs = [
        world.write("empty.jsonl", ""),
        table("a", None),
        table("b", Some(1.0)),
        table("c", Some(2.0)),
        table("d", None),
    ];
    let list = world.path("table.csv");
    let mut command = world.command_without_store("cluster -q --keep rank --columns url,keep --out");
    let output = command.arg(&list).args(&inputs).output().expect("starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows = "url,keep\nhttp://a/,false\nhttp://b/,false\nhttp://c/,true\nhttp://d/,false\n";
    assert_eq!(fs::read_to_string(&list).expect("a table"), rows);
    assert_eq!(world.dedup(&inputs, "out", &["--keep", "rank"])["n_kept"], 1);
    let without = [&inputs[..2], &inputs[4..]].concat();
    refused(&world.dedup_command(&without, "none", &["--keep", "rank"]).output().expect("starts"), "no column rank");
}

/// The clusters that another author's program found exactly.
fn truth(pages: &[Page]) -> Partition {
    let mut truth: HashMap<String, BTreeSet<String>> = HashMap::new();
    // Row by row, the pages of the sample in order.
    for (page, cluster) in pages.iter().zip(column("clusters.csv.zst", "cluster")) {
        truth.entry(cluster).or_default().insert(page.key.clone());
    }
    truth.into_values().collect()
}

#[test]
fn the_kept_pages_are_those_of_exact_truth() {
    let pages = sample();
    let truth = kept_of_clusters(&pages, &truth(&pages), "longest");
    for (profile, least) in [("exact.toml", 1.0), ("default.toml", 0.99)] {
        let world = World::new().with_config(profile);
        world.dedup(&sweeps(), "out", &[]);
        let mut kept = BTreeSet::new();
        for (file, path) in sweeps().iter().enumerate() {
            let lines = unpacked(&world.path("out").join(path.file_name().expect("a name")));
            for line in lines.split_inclusive(|byte| *byte == b'\n') {
                let found = pages.iter().find(|page| page.at.0 == file && page.line == line);
                kept.insert(found.expect("a page of this file").at);
            }
        }
        let f1 = 2.0 * kept.intersection(&truth).count() as f64 / (kept.len() + truth.len()) as f64;
        println!("{profile}: {} kept, {} in truth, F1 {f1:.4}", kept.len(), truth.len());
        assert!(f1 >= least, "{profile}: F1 is {f1}, should be {least} or more");
    }
}

/// A sweep of the sample as WARC: a description, and for each page a request and a response.
fn warc_records(pages: &[Page], file: usize) -> (Vec<u8>, Vec<[Vec<u8>; 2]>) {
    let record = |kind: &str, headers: &str, block: &[u8]| {
        let head = format!("WARC/1.0\r\nWARC-Type: {kind}\r\n{headers}Content-Length: {}\r\n\r\n", block.len());
        [head.as_bytes(), block, b"\r\n\r\n"].concat()
    };
    let records = pages.iter().filter(|page| page.at.0 == file).map(|page| {
        let field = |name: &str| page.json[name].as_str().expect(name);
        let headers = format!("WARC-Target-URI: {}\r\nWARC-Date: {}\r\n", field("url"), field("fetched_at"));
        let request = format!("{headers}Content-Type: application/http; msgtype=request\r\n");
        let response = format!("{headers}Content-Type: application/http; msgtype=response\r\n");
        let http = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {}; charset=utf-8\r\n\r\n{}",
            field("content_type"),
            field("body")
        );
        [record("request", &request, b"GET / HTTP/1.1\r\n\r\n"), record("response", &response, http.as_bytes())]
    });
    let info = record("warcinfo", "Content-Type: application/warc-fields\r\n", b"software: a test\r\n");
    (info, records.collect())
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

#[test]
fn every_format_and_compression_keeps_the_same_pages_as_they_came() {
    let (world, pages) = (World::new(), sample());
    let kept = kept_of_clusters(&pages, &backfilled(&world, &sweeps()), "longest");
    type Pack = fn(&[u8]) -> Vec<u8>;
    let packs: [(&str, Pack); 3] =
        [("", |bytes| bytes.to_vec()), (".gz", gzipped), (".zst", |bytes| zstd::encode_all(bytes, 1).expect("memory"))];
    for (end, pack) in packs {
        let inputs: Vec<PathBuf> = (0..3)
            .map(|file| {
                let lines: Vec<u8> =
                    pages.iter().filter(|page| page.at.0 == file).flat_map(|page| page.line.clone()).collect();
                world.write(&format!("{file}.jsonl{end}"), pack(&lines))
            })
            .collect();
        let out = format!("jsonl{end}-out");
        world.dedup(&inputs, &out, &[]);
        holds(&world.path(&out), &inputs, &pages, &kept);

        let mut inputs = Vec::new();
        let mut expected = Vec::new();
        for file in 0..3 {
            let (info, records) = warc_records(&pages, file);
            let mut packed = pack(&info);
            let mut written = vec![info];
            for (at, [request, response]) in (0..).zip(records) {
                // A gzip member, or a zstd frame, for each record, as archives have it.
                packed.extend([pack(&request), pack(&response)].concat());
                written.extend(kept.contains(&(file, at)).then_some(response));
            }
            inputs.push(world.write(&format!("{file}.warc{end}"), packed));
            expected.push(written);
        }
        let out = world.path(&format!("warc{end}-out"));
        world.dedup(&inputs, &format!("warc{end}-out"), &[]);
        for (input, records) in inputs.iter().zip(&expected) {
            let output = out.join(input.file_name().expect("a name"));
            assert!(unpacked(&output) == records.concat(), "{}", output.display());
            if end == ".gz" {
                let packed = fs::read(&output).expect("bytes");
                let mut members = packed.as_slice();
                for record in records {
                    let mut member = flate2::bufread::GzDecoder::new(members);
                    let mut bytes = Vec::new();
                    member.read_to_end(&mut bytes).expect("a member");
                    assert!(&bytes == record, "a member for each record");
                    members = member.into_inner();
                }
                assert!(members.is_empty());
            }
        }
    }
}

/// A WARC record of a capture with a digest: a response with a text, or a revisit.
fn capture(kind: &str, url: &str, time: &str, digest: &str, text: &str) -> String {
    let block = format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n{text}");
    format!(
        "WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\nWARC-Date: {time}\r\nWARC-Payload-Digest: \
         sha1:{digest}\r\nContent-Type: application/http; msgtype=response\r\nContent-Length: {}\r\n\r\n{block}\r\n\r\n",
        block.len()
    )
}

/// Words that are in no other text.
fn words(name: &str) -> String {
    (0..40).map(|n| format!("{name}{n}")).collect::<Vec<_>>().join(" ")
}

/// Lost once: the content of every page that was revisited. With `--keep newest` the revisit stayed as it came, without the
/// content, and the original went.
#[test]
fn a_revisit_does_not_stay_instead_of_its_original() {
    let (world, old, new) = (World::new(), "2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z");
    let original = capture("response", "http://a/1", old, "A", &words("a"));
    // Of this one, only the revisit is a page.
    let no_page = capture("response", "", old, "B", &words("b"));
    let revisits = ["A", "B"].map(|digest| capture("revisit", &format!("http://b/{digest}"), new, digest, ""));
    let inputs = [
        world.write("0.warc.gz", [gzipped(original.as_bytes()), gzipped(no_page.as_bytes())].concat()),
        world.write("1.warc", revisits.concat()),
    ];
    let store = world.path("corpus.store").display().to_string();
    for (out, arguments) in [("out", &[][..]), ("held", &["--store", &store])] {
        world.dedup(&inputs, out, &[&["--keep", "newest"], arguments].concat());
        let found = ["0.warc.gz", "1.warc"].map(|name| text(&unpacked(&world.path(out).join(name))));
        assert_eq!(found, [original.clone(), revisits[1].clone()], "{out}");
    }
    // Text has the content: the choice is free.
    world.dedup(&inputs, "text", &["--keep", "newest", "--format", "jsonl"]);
    assert!(unpacked(&world.path("text/0.jsonl.gz")).is_empty());
    let kept = text(&unpacked(&world.path("text/1.jsonl")));
    assert!(kept.lines().count() == 2 && kept.contains(&words("a")) && kept.contains(&words("b")), "{kept}");
    // The table goes by records as they came.
    let mut command = world.command_without_store("cluster -q --keep newest --columns url,keep");
    let output = command.arg("--out").arg(world.path("table.csv")).args(&inputs).output().expect("starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = fs::read_to_string(world.path("table.csv")).expect("a table");
    assert_eq!(table, "url,keep\nhttp://a/1,true\n,false\nhttp://b/A,false\nhttp://b/B,true\n");
}

/// Lost once: the whole corpus, where a run was killed between the output that has the original of a revisit and the one that
/// has the revisit. The next run did not read the original's file again, and ended with "is not the file that was read before".
#[test]
fn the_text_of_a_revisit_is_found_in_a_file_that_is_written_already() {
    let mut n_whole = 0;
    loop {
        // One thread: the outputs are written in their order.
        let world = World::new().with("pipeline.sketchers", 1);
        let original = capture("response", "http://a/1", "2020-01-01T00:00:00Z", "A", &words("a"));
        let revisit = capture("revisit", "http://a/1", "2021-01-01T00:00:00Z", "A", "");
        // What follows is no page, and takes a moment to read.
        let more = format!("WARC/1.0\r\nWARC-Type: metadata\r\nContent-Length: {}\r\n\r\n", 30 << 20);
        let more = [revisit.as_bytes(), more.as_bytes(), &vec![b'x'; 30 << 20], b"\r\n\r\n"].concat();
        let inputs = [world.write("0.warc", original), world.write("1.warc", more)];
        let options = ["--keep", "newest", "--format", "jsonl"];
        let mut process = world.dedup_command(&inputs, "out", &options).stdout(Stdio::null()).spawn().expect("starts");
        while !world.path("out/0.jsonl").exists() {
            assert!(process.try_wait().expect("a status").is_none_or(|status| status.success()));
            std::hint::spin_loop();
        }
        process.kill().expect("killed");
        process.wait().expect("ended");
        let is_killed_between = !world.path("out/1.jsonl").exists();
        world.dedup(&inputs, "out", &options);
        assert_eq!(fs::read(world.path("out/0.jsonl")).expect("an output"), b"");
        let kept = fs::read_to_string(world.path("out/1.jsonl")).expect("an output");
        assert!(kept.lines().count() == 1 && kept.contains(&words("a")), "{kept}");
        if is_killed_between {
            return;
        }
        n_whole += 1;
        assert!(n_whole < 20, "no run was killed between two outputs");
    }
}

/// The rows of a list of removed records.
fn removed_rows(path: &Path) -> Vec<Value> {
    fs::read_to_string(path).expect("a list").lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Every record is in the corpus or in the list, once. The list names the page that stays, and how alike the two are.
#[test]
fn every_record_is_kept_or_listed_once() {
    let (world, pages) = (World::new(), sample());
    let partition = backfilled(&world, &sweeps());
    let clusters = clusters_of(&partition);
    let kept = kept_of_clusters(&pages, &partition, "longest");
    let others = format!(
        "{}\nno page\n{}\n{}\n",
        r#"{"url":"http://gone/","fetched_at":"2026-01-01T00:00:00Z","gone":true}"#,
        r#"{"url":"http://moved/","fetched_at":"2026-01-01T00:00:00Z","redirect_to":"http://a/"}"#,
        r#"{"url":"http://late/","text":"no time"}"#
    );
    let inputs = [sweeps(), vec![world.write("others.jsonl", others)]].concat();
    let names: Vec<String> =
        inputs.iter().map(|path| path.canonicalize().expect("a path").display().to_string()).collect();
    let list = world.path("removed.jsonl");
    let summary = world.dedup(&inputs, "out", &["--removed", &list.display().to_string()]);
    let rows = removed_rows(&list);

    let mut seen = kept.clone();
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let position = |row: &Value, source: &str, record: &str| {
        let file = names.iter().position(|name| row[source] == **name).expect("an input");
        (file, row[record].as_i64().expect("a number"))
    };
    let at: HashMap<(usize, i64), &Page> = pages.iter().map(|page| (page.at, page)).collect();
    for row in &rows {
        let place = position(row, "source", "record");
        assert!(seen.insert(place), "{row} is kept or listed twice");
        let kind = row["kind"].as_str().expect("a kind");
        *counts.entry(kind.to_string()).or_default() += 1;
        if !matches!(kind, "identical" | "near") {
            assert!(row["kept_url"].is_null() && place.0 == 3, "{row}");
            assert_eq!(row["reason"].is_null(), kind != "rejected", "{row}");
            continue;
        }
        let (own, stays) = (at[&place], at[&position(row, "kept_source", "kept_record")]);
        assert!(kept.contains(&stays.at), "{row}: that page is not in the corpus");
        assert_eq!(clusters[&own.key], clusters[&stays.key], "{row}");
        assert_eq!((&row["url"], &row["kept_url"]), (&own.json["url"], &stays.json["url"]));
        let resemblance = row["resemblance"].as_f64().expect("a share");
        assert!((0.0..=1.0).contains(&resemblance) && (kind == "near" || resemblance == 1.0), "{row}");
        assert!(row["containment"].is_null(), "{row}");
    }
    assert!(rows.iter().map(|row| position(row, "source", "record")).is_sorted(), "in the order of the inputs");
    assert_eq!(seen.len(), 650);
    let expected = [("gone", 1), ("redirected", 1), ("rejected", 2)].map(|(kind, n)| (kind.to_string(), n));
    let numbers = ["identical", "near"]
        .map(|kind| (kind.to_string(), summary[format!("n_removed_{kind}")].as_u64().expect("a number")));
    assert_eq!(counts, expected.into_iter().chain(numbers).collect());
    for (name, n) in [("n_records", 650), ("n_pages", 646), ("n_gone", 1), ("n_redirected", 1), ("n_rejected", 2)] {
        assert_eq!(summary[name], n, "{name}");
    }
    assert_eq!(unpacked(&world.path("out/others.jsonl")), b"", "an input without a kept page is an empty file");

    // The same rows as CSV.
    let csv = world.path("removed.csv");
    world.dedup(&inputs, "again", &["--removed", &csv.display().to_string()]);
    let mut reader = csv::Reader::from_path(&csv).expect("CSV");
    let headers: Vec<String> = reader.headers().expect("headers").iter().map(String::from).collect();
    assert_eq!(
        headers.join(","),
        "source,record,url,kind,resemblance,containment,kept_url,kept_source,kept_record,reason,message"
    );
    for (row, cells) in rows.iter().zip(reader.records()) {
        for (name, cell) in headers.iter().zip(cells.expect("a row").iter()) {
            let shown = match &row[name] {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                Value::Number(n) if name == "resemblance" => {
                    assert_eq!(cell.parse::<f64>().expect("a number"), n.as_f64().expect("a number"));
                    continue;
                }
                other => other.to_string(),
            };
            assert_eq!(cell, shown, "{name} of {row}");
        }
    }
}

/// Lost once: the names of the columns, where nothing goes; and a device, over which the list was renamed.
#[test]
fn a_list_without_rows_has_its_header_and_a_device_stays() {
    let world = World::new();
    let input = world.write("pages.jsonl", page("http://a/", "2026-01-01T00:00:00Z", "1", &words("a")));
    let (list, device) = (world.path("removed.csv"), world.path("null"));
    std::os::unix::fs::symlink("/dev/null", &device).expect("linked");
    for (out, removed) in [("csv", &list), ("device", &device)] {
        world.dedup(std::slice::from_ref(&input), out, &["--removed", &removed.display().to_string()]);
    }
    let header = "source,record,url,kind,resemblance,containment,kept_url,kept_source,kept_record,reason,message\n";
    assert_eq!(fs::read_to_string(list).expect("a list"), header);
    assert_eq!(fs::read_link(device).expect("a link"), Path::new("/dev/null"));
}

/// Text for other programs: it holds the words of the pages, so that nothing more goes when it is deduplicated again.
#[test]
fn text_in_json_lines_holds_the_same_pages() {
    let (world, pages) = (World::new(), sample());
    let kept = kept_of_clusters(&pages, &backfilled(&world, &sweeps()), "longest");
    world.dedup(&sweeps(), "text", &["--format", "jsonl"]);
    let outputs: Vec<PathBuf> =
        sweeps().iter().map(|path| world.path("text").join(path.file_name().expect("a name"))).collect();
    let lines: Vec<Value> = outputs
        .iter()
        .flat_map(|path| {
            let lines = unpacked(path);
            lines
                .split(|b| *b == b'\n')
                .filter(|l| !l.is_empty())
                .map(|l| serde_json::from_slice(l).expect("JSON"))
                .collect::<Vec<Value>>()
        })
        .collect();
    let expected: Vec<&Page> = pages.iter().filter(|page| kept.contains(&page.at)).collect();
    assert_eq!(lines.len(), expected.len());
    for (line, page) in lines.iter().zip(expected) {
        for field in ["url", "fetched_at", "sweep"] {
            assert_eq!(line[field], page.json[field]);
        }
        let text = line["text"].as_str().expect("text");
        assert!(!text.contains("<body") && !text.contains("  ") && !text.contains("\n\n"), "{text}");
    }
    let summary = world.dedup(&outputs, "again", &[]);
    assert_eq!((&summary["n_kept"], &summary["n_pages"]), (&kept.len().into(), &kept.len().into()));
    // The words are those of the pages, so that every page has the content that it had.
    let both = [sweeps(), outputs].concat().into_iter().enumerate().map(|(at, path)| {
        let link = world.path(&format!("{at}.jsonl"));
        fs::write(&link, unpacked(&path)).expect("written");
        link
    });
    let summary = world.dedup(&both.collect::<Vec<_>>(), "both", &[]);
    assert_eq!(summary["n_kept"], kept.len());
    assert!(summary["n_removed_identical"].as_u64() >= Some(kept.len() as u64), "{summary}");
}

/// A table of pages with columns that are none of ours, one of them of lists.
fn table(pages: &[&Page]) -> Vec<(&'static str, ArrayRef)> {
    let field = |name: &'static str| {
        let values = pages.iter().map(|page| page.json[name].as_str().expect(name));
        Arc::new(StringArray::from_iter_values(values)) as ArrayRef
    };
    let scores = pages.iter().map(|page| (page.n_words % 7 != 0).then_some(page.n_words as f64 / 3.0));
    let mut tags = ListBuilder::new(Int32Builder::new());
    for page in pages {
        tags.append_value((0..page.n_words as i32 % 4).map(Some));
    }
    vec![
        ("score", Arc::new(Float64Array::from_iter(scores))),
        ("url", field("url")),
        ("fetched_at", field("fetched_at")),
        ("sweep", field("sweep")),
        ("content_type", field("content_type")),
        ("body", field("body")),
        ("tags", Arc::new(tags.finish())),
    ]
}

/// All rows of a Parquet file.
fn rows_of(path: &Path) -> RecordBatch {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).expect("a file")).expect("Parquet");
    let schema = reader.schema().clone();
    let batches: Vec<RecordBatch> =
        reader.with_batch_size(100_000).build().expect("a reader").map(|batch| batch.expect("rows")).collect();
    assert!(batches.len() <= 1, "the file holds fewer rows than a batch");
    batches.into_iter().next().unwrap_or_else(|| RecordBatch::new_empty(schema))
}

/// Lost once: Parquet became JSON lines of text, and every column that is none of ours was gone.
#[test]
fn tables_stay_tables_with_all_of_their_columns() {
    let (world, pages) = (World::new(), sample());
    let kept = kept_of_clusters(&pages, &backfilled(&world, &sweeps()), "longest");
    let of_file = |file: usize| pages.iter().filter(move |page| page.at.0 == file);
    let inputs: Vec<PathBuf> = (0..3)
        .map(|file| {
            let pages: Vec<&Page> = of_file(file).collect();
            crate::parquet::write(&world.path(&format!("{file}.parquet")), table(&pages), Compression::SNAPPY)
        })
        .collect();
    world.dedup(&inputs, "out", &[]);
    for (file, input) in inputs.iter().enumerate() {
        let expected: Vec<&Page> = of_file(file).filter(|page| kept.contains(&page.at)).collect();
        let columns = table(&expected).into_iter().map(|(name, column)| (name, column, true));
        let expected = RecordBatch::try_from_iter_with_nullable(columns).expect("rows");
        let found = rows_of(&world.path("out").join(input.file_name().expect("a name")));
        assert_eq!(found.schema().fields(), expected.schema().fields());
        assert_eq!(found.columns(), expected.columns(), "{file}");
    }
    // Nothing but what is kept is left, and it is read again.
    let outputs: Vec<PathBuf> = (0..3).map(|file| world.path("out").join(format!("{file}.parquet"))).collect();
    assert_eq!(world.dedup(&outputs, "again", &[])["n_kept"], kept.len());
}

#[test]
fn any_input_becomes_a_table_of_text() {
    let (world, pages) = (World::new(), sample());
    let kept = kept_of_clusters(&pages, &backfilled(&world, &sweeps()), "longest");
    world.dedup(&sweeps(), "text", &["--format", "jsonl"]);
    world.dedup(&sweeps(), "table", &["--format", "parquet"]);
    let mut outputs = Vec::new();
    for sweep in sweeps() {
        let name = text(sweep.file_name().expect("a name").as_encoded_bytes());
        let lines = text(&unpacked(&world.path("text").join(&name)));
        outputs.push(world.path("table").join(name.replace(".jsonl.zst", ".parquet")));
        let rows = rows_of(outputs.last().expect("an output"));
        assert_eq!(rows.num_rows(), lines.lines().count());
        for (at, line) in lines.lines().enumerate() {
            let line: Value = serde_json::from_str(line).expect("JSON");
            for name in ["url", "sweep", "text"] {
                let column = rows.column_by_name(name).expect(name).as_string::<i32>();
                assert_eq!(column.value(at), line[name].as_str().expect(name));
            }
        }
    }
    assert_eq!(world.dedup(&outputs, "again", &[])["n_kept"], kept.len());
}

/// Lost once: every page of features. The reader of tables did not know the column in which the writer puts them.
#[test]
fn a_table_of_features_is_read_again() {
    let world = World::new();
    let features = |name: &str| (0..30).map(|n| format!("{name}{n}\"\u{e9}")).collect::<Vec<_>>();
    let head = |url| serde_json::json!({"url": url, "fetched_at": "2026-01-01T00:00:00Z"});
    let lines: String = [
        ("http://a/", "features", serde_json::json!(features("a"))),
        ("http://b/", "features", serde_json::json!(features("b"))),
        ("http://c/", "text", words("c").into()),
    ]
    .into_iter()
    .map(|(url, content, value)| {
        let mut page = head(url);
        page[content] = value;
        format!("{page}\n")
    })
    .collect();
    let pages = world.write("pages.jsonl", &lines);
    assert_eq!(world.dedup(std::slice::from_ref(&pages), "table", &["--format", "parquet"])["n_kept"], 3);
    let table = world.path("table/pages.parquet");
    assert_eq!(world.dedup(std::slice::from_ref(&table), "again", &[])["n_kept"], 3);
    // The same pages, with the same contents.
    world.dedup(std::slice::from_ref(&table), "lines", &["--format", "jsonl"]);
    let parsed = |text: &str| -> Vec<Value> { text.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect() };
    assert_eq!(parsed(&fs::read_to_string(world.path("lines/pages.jsonl")).expect("lines")), parsed(&lines));
    let both = world.dedup(&[pages, table], "both", &[]);
    assert_eq!((&both["n_kept"], &both["n_removed_identical"]), (&3.into(), &3.into()), "{both}");
}

#[test]
fn another_threshold_and_containment_keep_other_pages() {
    let (world, pages) = (World::new(), sample());
    backfilled(&world, &sweeps());
    let reclustered = |arguments: &[&str]| {
        let out = world.path("out.csv").display().to_string();
        world.ask("recluster", &[&["--out", &out], arguments].concat());
        partition_of(&fs::read_to_string(&out).expect("rows"))
    };
    let strict = kept_of_clusters(&pages, &reclustered(&["--threshold", "0.9"]), "longest");
    let inside = kept_of_clusters(&pages, &reclustered(&["--threshold", "0.5", "--containment", "0.7"]), "longest");
    assert!(strict.len() > 343 && inside.len() < 343, "{} and {}", strict.len(), inside.len());
    world.dedup(&sweeps(), "strict", &["--threshold", "0.9"]);
    holds(&world.path("strict"), &sweeps(), &pages, &strict);
    let list = world.path("removed.jsonl").display().to_string();
    world.dedup(&sweeps(), "inside", &["--containment", "0.7", "--removed", &list]);
    holds(&world.path("inside"), &sweeps(), &pages, &inside);
    let shares = removed_rows(Path::new(&list)).into_iter().filter_map(|row| row["containment"].as_f64());
    let shares: Vec<f64> = shares.collect();
    assert_eq!(shares.len(), 646 - inside.len());
    assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)));

    // A store keeps its own threshold; another one counts for the run alone.
    let store = world.path("other.store").display().to_string();
    let first = &sweeps()[..1];
    world.dedup(first, "store-1", &["--store", &store]);
    world.dedup(&sweeps(), "store-2", &["--store", &store, "--threshold", "0.9", "--keep", "first"]);
    let clusters = clusters_of(&reclustered(&["--threshold", "0.9"]));
    let known = pages.iter().filter(|page| page.at.0 == 0).map(|page| clusters[&page.key]).collect();
    let rest: Vec<Page> = pages.iter().filter(|page| page.at.0 > 0).cloned().collect();
    let kept = kept_by(&rest, &clusters, "first", &known);
    holds(&world.path("store-2"), &sweeps(), &pages, &kept);
}

/// Batch by batch against one store: a page goes if its cluster has a page of an earlier batch, or a better one of its own.
#[test]
fn batches_are_held_against_all_before_them() {
    let pages = sample();
    for keep in ["longest", "newest", "first"] {
        let world = World::new();
        let store = world.path("corpus.store").display().to_string();
        let mut all: BTreeSet<(usize, i64)> = BTreeSet::new();
        let names: Vec<String> = sweeps().iter().map(|path| path.display().to_string()).collect();
        for batch in 0..3 {
            let inputs = &sweeps()[batch..=batch];
            let (out, list) = (format!("out-{batch}"), world.path(&format!("removed-{batch}.jsonl")));
            let arguments = ["--store", &store, "--keep", keep, "--removed", &list.display().to_string()];
            let summary = world.dedup(inputs, &out, &arguments);

            // The clusters of everything up to this batch, in a store of their own.
            let clusters = clusters_of(&backfilled(&World::new(), &sweeps()[..=batch]));
            let known: BTreeSet<usize> =
                pages.iter().filter(|page| page.at.0 < batch).map(|page| clusters[&page.key]).collect();
            let own: Vec<Page> = pages.iter().filter(|page| page.at.0 == batch).cloned().collect();
            let kept = kept_by(&own, &clusters, keep, &known);
            let expected: Vec<u8> =
                own.iter().filter(|page| kept.contains(&page.at)).flat_map(|page| page.line.clone()).collect();
            let name = inputs[0].file_name().expect("a name");
            assert!(unpacked(&world.path(&out).join(name)) == expected, "{keep}, batch {batch}");
            assert_eq!((&summary["n_kept"], &summary["n_pages"]), (&kept.len().into(), &own.len().into()));
            all.extend(&kept);

            // The list names pages that are in this corpus or in an earlier one.
            let rows = removed_rows(&list);
            assert_eq!(rows.len(), own.len() - kept.len());
            for row in rows {
                let file = names.iter().position(|name| row["kept_source"] == **name).expect("an input");
                let at = (file, row["kept_record"].as_i64().expect("a number"));
                assert!(all.contains(&at), "{row}: that page is in no corpus");
                let stays = pages.iter().find(|page| page.at == at).expect("a page");
                assert_eq!(row["kept_url"], stays.json["url"]);
                let key = page_key(
                    row["url"].as_str().expect("a URL"),
                    own[0].json["fetched_at"].as_str().expect("a time"),
                    own[0].json["sweep"].as_str().expect("a sweep"),
                );
                assert_eq!(clusters[&key], clusters[&stays.key], "{row}");
            }
            if keep == "longest" {
                // Lost once: which pages are kept, where a batch came to a restored store. Its list named pages of no corpus.
                let backup = world.path(&format!("backup-{batch}"));
                for command in ["backup -q", "restore -q"] {
                    let output = world.command_on(command, Path::new(&store)).arg(&backup).output().expect("starts");
                    assert!(output.status.success(), "{command}: {}", text(&output.stderr));
                    if command == "backup -q" {
                        fs::remove_dir_all(&store).expect("removed");
                    }
                }
            }
        }
        if keep == "first" {
            // What is promised of the sum: every page that stays where all come at once, and one more for each cluster of
            // which later pages joined parts that were apart.
            let once = kept_of_clusters(&pages, &backfilled(&World::new(), &sweeps()), "first");
            assert!(once.is_subset(&all));
            println!("{} kept at once, {} batch by batch", once.len(), all.len());
        }
        // What the store has read is not read again.
        let summary = world.dedup(&sweeps(), "again", &["--store", &store]);
        assert_eq!(
            (&summary["n_kept"], &summary["n_pages"], &summary["n_read_before"]),
            (&0.into(), &0.into(), &646.into())
        );
    }
}

/// A store that `run` made has kept no pages by name: the first page of a cluster counts.
#[test]
fn any_store_can_be_held_against() {
    let world = World::new();
    world.run(&sweeps()[..2]);
    let store = world.path("store").display().to_string();
    let list = world.path("removed.jsonl").display().to_string();
    let summary = world.dedup(&sweeps()[2..], "out", &["--store", &store, "--removed", &list]);
    assert_eq!(summary["n_pages"], 227);
    world.ask("verify", &[]);
    let clusters = clusters_of(&world.partition());
    let pages = sample();
    let known = pages.iter().filter(|page| page.at.0 < 2).map(|page| clusters[&page.key]).collect();
    let own: Vec<Page> = pages.iter().filter(|page| page.at.0 == 2).cloned().collect();
    assert_eq!(summary["n_kept"], kept_by(&own, &clusters, "longest", &known).len());
    let urls: BTreeSet<&str> = pages.iter().filter_map(|page| page.json["url"].as_str()).collect();
    for row in removed_rows(Path::new(&list)) {
        assert!(urls.contains(row["kept_url"].as_str().expect("a URL")), "{row}");
        assert_eq!(row["kept_source"].is_null(), row["kept_record"].is_null(), "{row}");
    }
}

/// Kills runs after longer and longer times, until one ends by itself. Returns the kills.
fn kill_until_done(mut command: impl FnMut() -> Command, first: Duration, step: Duration) -> u32 {
    for n_kills in 0..400 {
        let mut command = command();
        command.env("LOOKALIKE__BACKFILL__CHECKPOINT_MS", if n_kills % 2 == 0 { "0" } else { "20" });
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("starts");
        std::thread::sleep(first + step * n_kills);
        if let Some(status) = process.try_wait().expect("a status") {
            let mut told = String::new();
            process.stderr.take().expect("a pipe").read_to_string(&mut told).expect("text");
            assert!(status.success(), "the run failed by itself: {status}: {told}");
            return n_kills;
        }
        process.kill().expect("killed");
        process.wait().expect("ended");
    }
    panic!("no run ended by itself");
}

#[test]
fn a_killed_run_ends_with_the_same_bytes() {
    let undisturbed = World::new();
    let list = |world: &World| world.path("removed.csv").display().to_string();
    let mut n_kills = 0;
    for (name, arguments) in
        [("alone", &[][..]), ("text", &["--format", "jsonl"]), ("inside", &["--containment", "0.8"])]
    {
        let arguments = |world: &World| {
            [arguments, &["--removed", &list(world)]].concat().into_iter().map(String::from).collect::<Vec<_>>()
        };
        let strings = arguments(&undisturbed);
        undisturbed.dedup(&sweeps(), name, &strings.iter().map(String::as_str).collect::<Vec<_>>());
        for (first, step) in [(3, 6), (41, 11)] {
            let world = World::new();
            let strings = arguments(&world);
            let strings: Vec<&str> = strings.iter().map(String::as_str).collect();
            let (first, step) = (Duration::from_millis(first), Duration::from_millis(step));
            n_kills += kill_until_done(|| world.dedup_command(&sweeps(), name, &strings), first, step);
            assert!(tree(&world.path(name)) == tree(&undisturbed.path(name)), "{name}");
            assert!(fs::read(list(&world)).expect("a list") == fs::read(list(&undisturbed)).expect("a list"), "{name}");
            let left: BTreeSet<_> = fs::read_dir(world.path(name).join(".dedup"))
                .expect("a folder")
                .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
                .collect();
            assert_eq!(left, ["lock", "manifest.json"].map(String::from).into());
        }
    }
    println!("killed {n_kills} times");
    assert!(n_kills > 10, "{n_kills} kills are too few to find anything");
}

#[test]
fn killed_batches_end_with_the_same_bytes() {
    let (undisturbed, world) = (World::new(), World::new());
    let mut n_kills = 0;
    for batch in 0..3 {
        let inputs = &sweeps()[batch..=batch];
        let arguments = |world: &World| {
            let path = |name: &str| world.path(name).display().to_string();
            ["--store".into(), path("corpus.store"), "--removed".into(), path(&format!("removed-{batch}.jsonl"))]
        };
        let out = format!("out-{batch}");
        let strings = arguments(&undisturbed);
        undisturbed.dedup(inputs, &out, &strings.each_ref().map(String::as_str));
        let strings = arguments(&world);
        let strings = strings.each_ref().map(String::as_str);
        n_kills += kill_until_done(
            || world.dedup_command(inputs, &out, &strings),
            Duration::from_millis(5),
            Duration::from_millis(13),
        );
        assert!(tree(&world.path(&out)) == tree(&undisturbed.path(&out)), "batch {batch}");
        let list = |world: &World| fs::read(world.path(&format!("removed-{batch}.jsonl"))).expect("a list");
        assert!(list(&world) == list(&undisturbed), "batch {batch}");
    }
    println!("killed {n_kills} times");
    assert!(n_kills > 5, "{n_kills} kills are too few to find anything");
}

#[test]
fn a_full_disk_is_reported_and_with_more_space_it_resumes() {
    let undisturbed = World::new();
    let list = undisturbed.path("removed.jsonl").display().to_string();
    undisturbed.dedup(&sweeps(), "out", &["--removed", &list]);
    let (world, mut n_bytes) = (World::new(), 64 << 10);
    let Some(disk) = SmallDisk::mounted_on(world.path("disk"), n_bytes) else {
        println!("skipped: only root may mount a small disk");
        return;
    };
    let list = world.path("disk/removed.jsonl").display().to_string();
    let mut n_full = 0;
    loop {
        let mut command = world.dedup_command(&sweeps(), "disk/out", &["--removed", &list]);
        let output = command.env("LOOKALIKE__BACKFILL__CHECKPOINT_MS", "0").output().expect("starts");
        if output.status.success() {
            break;
        }
        let told = text(&output.stderr);
        assert!(told.contains("the disk is full"), "with {n_bytes} bytes: {}: {told}", output.status);
        n_full += 1;
        n_bytes += n_bytes / 8;
        disk.resize(n_bytes);
    }
    println!("full {n_full} times, at last with {n_bytes} bytes");
    assert!(n_full > 5, "the disk was full {n_full} times, too few to find anything");
    assert!(tree(&world.path("disk/out")) == tree(&undisturbed.path("out")));
    let read = |world: &World, name: &str| fs::read(world.path(name)).expect("a list");
    assert!(read(&world, "disk/removed.jsonl") == read(&undisturbed, "removed.jsonl"));
}

#[test]
fn wrong_use_is_refused_and_leaves_nothing() {
    let world = World::new();
    let run = |inputs: &[PathBuf], out: &str, arguments: &[&str]| {
        world.dedup_command(inputs, out, arguments).output().expect("starts")
    };
    let first = &sweeps()[..1];
    refused(&run(&[world.path("missing.jsonl")], "out", &[]), "no such file");
    refused(&run(&["-".into()], "out", &[]), "");
    refused(&run(first, "out", &["--threshold", "0"]), "--threshold");
    refused(&run(first, "out", &["--containment", "2"]), "--containment");
    refused(&run(first, "out", &["--keep", "shortest"]), "--keep shortest: of the first 1000 records");
    let warc = world.write("a.warc", "WARC/1.0\r\n\r\n");
    refused(&run(&[warc], "out", &["--keep", "score"]), "records of this format have no column score");
    let pages = sample();
    let parquet = crate::parquet::write(&world.path("a.parquet"), table(&[&pages[0]]), Compression::SNAPPY);
    refused(&run(&[parquet], "out", &["--keep", "rank"]), "there is no column rank; the file has ");
    let nowhere = world.path("nowhere/removed.csv").display().to_string();
    refused(&run(first, "out", &["--removed", &nowhere]), "is no folder");
    let folder = world.path("").display().to_string();
    refused(&run(first, "out", &["--removed", &folder]), "this is a folder");
    refused(&run(first, "out", &["--removed", "-"]), "--removed -: this cannot go to standard output");
    let star = world.dedup_command(first, "out", &[]).env("LOOKALIKE__CLUSTER__POLICY", "star").output();
    refused(&star.expect("starts"), "star");
    for name in ["a", "b"] {
        fs::create_dir(world.path(name)).expect("made");
        world.write(&format!("{name}/pages.jsonl"), page("http://a/", "2026-01-01T00:00:00Z", "1", "some words"));
    }
    let same_name = [world.path("a/pages.jsonl"), world.path("b/pages.jsonl")];
    refused(&run(&same_name, "out", &[]), "would both be written to pages.jsonl");
    let list = world.path("out/pages.jsonl").display().to_string();
    refused(&run(&same_name[..1], "out", &["--removed", &list]), "--removed names the output");
    assert!(!world.path("out").exists(), "nothing is left");
    refused(&run(first, "a", &[]), "not empty");
    assert_eq!(tree(&world.path("a")).len(), 1, "nothing is left");

    // A finished folder says so, and stays as it is; other inputs or options are refused.
    let summary = world.dedup(first, "out", &[]);
    let before = tree(&world.path("out"));
    assert_eq!(world.dedup(first, "out", &[]), summary);
    assert_eq!(tree(&world.path("out")), before);
    refused(&run(&sweeps()[1..2], "out", &[]), "other inputs");
    refused(&run(first, "out", &["--keep", "first"]), "another --keep");
    refused(&run(first, "out", &["--threshold", "0.8"]), "other rules");
    refused(&run(first, "out", &["--format", "jsonl"]), "another --format");
}

/// A folder keeps its paths, and hidden files are passed over: a corpus can be read again as it is.
#[test]
fn a_folder_keeps_its_paths() {
    let (world, pages) = (World::new(), sample());
    for (file, name) in ["in/a/pages.jsonl", "in/b/pages.jsonl", "in/c.jsonl"].iter().enumerate() {
        fs::create_dir_all(world.path(name).parent().expect("a folder")).expect("made");
        let lines: Vec<u8> = pages.iter().filter(|page| page.at.0 == file).flat_map(|page| page.line.clone()).collect();
        world.write(name, lines);
    }
    let summary = world.dedup(&[world.path("in")], "out", &[]);
    let names: Vec<PathBuf> = tree(&world.path("out")).into_keys().collect();
    assert_eq!(names, ["a/pages.jsonl", "b/pages.jsonl", "c.jsonl"].map(PathBuf::from));
    let again = world.dedup(&[world.path("out")], "again", &[]);
    assert_eq!((&again["n_pages"], &again["n_kept"]), (&summary["n_kept"], &summary["n_kept"]));
    assert_eq!(tree(&world.path("again")), tree(&world.path("out")), "a clean corpus stays as it is");
}

/// Lost once: every run but the first, where the corpus lies in the folder that is read. What an earlier run, or a killed one,
/// had written counted as further inputs, with which nothing could be resumed.
#[test]
fn a_corpus_in_the_folder_that_is_read_is_no_input() {
    let (world, pages) = (World::new(), sample());
    fs::create_dir(world.path("in")).expect("made");
    for file in 0..2 {
        let lines: Vec<u8> = pages.iter().filter(|page| page.at.0 == file).flat_map(|page| page.line.clone()).collect();
        world.write(&format!("in/{file}.jsonl"), lines);
    }
    let run = |arguments: &[&str]| {
        let mut command = world.command_without_store("dedup --json --memory 4 . --out clean");
        command.current_dir(world.path("in")).args(arguments).output().expect("starts")
    };
    refused(&run(&["--removed", "removed.jsonl"]), "--removed removed.jsonl is among the inputs that . names");
    assert_eq!(tree(&world.path("in")).len(), 2, "nothing is left");
    let list = ["--removed", "clean/removed.jsonl"];
    let first = summary(&run(&list), 0);
    assert_eq!((&first["n_inputs"], &first["n_pages"]), (&2.into(), &419.into()));
    let written = tree(&world.path("in/clean"));
    assert_eq!(written.len(), 3);
    assert_eq!(summary(&run(&list), 0), first);
    // As a kill leaves it after the first output.
    fs::remove_dir_all(world.path("in/clean")).expect("removed");
    let mut process = {
        let mut command = world.command_without_store("dedup -q --memory 4 . --out clean");
        command.current_dir(world.path("in")).args(list).spawn().expect("starts")
    };
    while !world.path("in/clean/0.jsonl").exists() {
        assert!(process.try_wait().expect("a status").is_none_or(|status| status.success()));
        std::hint::spin_loop();
    }
    process.kill().expect("killed");
    process.wait().expect("ended");
    assert_eq!(summary(&run(&list), 0)["n_inputs"], 2);
    assert_eq!(tree(&world.path("in/clean")).len(), 3);
    refused(
        &world.dedup_command(&[world.path("in/clean")], "in/clean", &[]).output().expect("starts"),
        "holds all inputs",
    );
}

#[test]
fn what_can_be_read_of_a_cut_off_input_is_deduplicated() {
    let (world, pages) = (World::new(), sample());
    let lines: Vec<u8> = pages.iter().filter(|page| page.at.0 == 0).flat_map(|page| page.line.clone()).collect();
    let packed = gzipped(&lines);
    let cut = world.write("cut.jsonl.gz", &packed[..packed.len() / 2]);
    let program = world.write("old", "\x7fELF\x02\x01\x01\0\0");
    let inputs = [cut, program, sweeps()[1].clone()];
    let list = world.path("removed.jsonl").display().to_string();
    let output = world.dedup_command(&inputs, "out", &["--removed", &list]).output().expect("starts");
    let summary = summary(&output, 3);
    assert_eq!(summary["unreadable"].as_array().expect("a list").len(), 2, "{summary}");
    let kept = unpacked(&world.path("out/cut.jsonl.gz"));
    let whole: BTreeSet<&[u8]> = lines.split_inclusive(|byte| *byte == b'\n').collect();
    assert!(kept.split_inclusive(|byte| *byte == b'\n').all(|line| whole.contains(line)));
    let n_kept = |name: &str| unpacked(&world.path("out").join(name)).iter().filter(|byte| **byte == b'\n').count();
    let n_read = summary["n_pages"].as_u64().expect("a number") - 255;
    assert!(n_read > 10 && n_read < 164, "{n_read}");
    let n_kept = n_kept("cut.jsonl.gz") + n_kept("sweep-2-2015-08-01.jsonl.zst");
    assert_eq!(summary["n_kept"], n_kept);
    assert_eq!(removed_rows(Path::new(&list)).len() as u64, n_read + 255 - n_kept as u64);
    assert!(!world.path("out/old").exists(), "nothing of it could be read");

    let none = world.write("none.jsonl", "no page\nnor this\n");
    let output = world.dedup_command(&[none], "none", &[]).output().expect("starts");
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("no record was accepted"), "{}", text(&output.stderr));
    assert!(tree(&world.path("none")).is_empty());
}

/// Once lost: the way out for a corpus of texts alone. Its records were rejected without a reason, and the folder that was
/// begun refused the corrected command.
#[test]
fn records_of_texts_alone_are_refused_with_the_cure_and_the_cure_works() {
    let world = World::new();
    let line =
        |n: usize| serde_json::json!({"text": format!("a text of number {n} and its own words {n}")}).to_string();
    let input = world.write("texts.jsonl", format!("{}\n{}\n{}\n", line(1), line(2), line(1)));
    let run =
        |options: &[&str]| world.dedup_command(std::slice::from_ref(&input), "out", options).output().expect("starts");
    let mut options: Vec<&str> = Vec::new();
    for (cure, value) in [("--url-from", "record"), ("--fetched-at", "file-time")] {
        let refused = run(&options);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(3), "{said}");
        let first = format!("3 missing-field, first record 0 of {}: ", input.display());
        assert!(said.contains(&first) && said.contains(&format!("{cure} {value}")), "{said}");
        assert!(tree(&world.path("out")).is_empty());
        options.extend([cure, value]);
    }
    let found = summary(&run(&options), 0);
    assert_eq!((&found["n_kept"], &found["n_removed_identical"]), (&2.into(), &1.into()), "{found}");

    // Where only some are rejected, the summary says why.
    let mixed = world.write("mixed.jsonl", format!("{}\n{{\n", line(1)));
    let found = summary(&world.dedup_command(&[mixed], "mixed", &options).output().expect("starts"), 0);
    let rejected = &found["rejected"]["invalid-json"];
    assert_eq!((&rejected["n"], &rejected["offset"]), (&1.into(), &1.into()), "{found}");
}
