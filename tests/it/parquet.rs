//! Parquet in: pages from tables are the pages that JSONL gives, whatever the columns are called and however they are stored.

use crate::harness::{World, page, page_key, sweeps, text};
use arrow_array::builder::{StringBuilder, StringDictionaryBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Int32Array, Int64Array, LargeStringArray, RecordBatch,
    StringArray, StructArray, TimestampMillisecondArray, TimestampNanosecondArray,
};
use arrow_schema::{DataType, Field};
use lookalike::document::FetchTime;
use parquet::arrow::ArrowWriter;
use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::WriterProperties;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;

const DAY: &str = "2026-11-01T00:00:00Z";

pub(crate) fn strings<'a>(values: impl IntoIterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

pub(crate) fn write(path: &Path, columns: Vec<(&str, ArrayRef)>, compression: Compression) -> PathBuf {
    let batch =
        RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)));
    let batch = batch.expect("a batch");
    // Several row groups, and several batches of the reader in each.
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .set_max_row_group_row_count(Some(150))
        .set_data_page_row_count_limit(40)
        .build();
    let mut writer =
        ArrowWriter::try_new(File::create(path).expect("a file"), batch.schema(), Some(properties)).expect("a writer");
    writer.write(&batch).expect("written");
    writer.close().expect("closed");
    path.to_path_buf()
}

/// The pages of the sample, as JSON.
fn sample() -> Vec<Value> {
    let lines =
        sweeps().into_iter().map(|path| zstd::decode_all(&std::fs::read(path).expect("read")[..]).expect("unpacked"));
    lines
        .flat_map(|bytes| {
            text(&bytes).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect::<Vec<_>>()
        })
        .collect()
}

fn field<'a>(pages: &'a [Value], name: &'a str) -> impl Iterator<Item = &'a str> {
    pages.iter().map(move |page| page[name].as_str().unwrap_or_default())
}

fn micros(page: &Value) -> i64 {
    page["fetched_at"].as_str().expect("a time").parse::<FetchTime>().expect("a time").0
}

/// The pages with nested, dictionary and timestamp columns, and some that are not ours.
fn table(pages: &[Value]) -> Vec<(&'static str, ArrayRef)> {
    let mut sweeps = StringDictionaryBuilder::<Int32Type>::new();
    field(pages, "sweep").for_each(|sweep| sweeps.append_value(sweep));
    let (mut url, mut language) = (StringBuilder::new(), StringBuilder::new());
    for address in field(pages, "url") {
        url.append_value(address);
        language.append_value("en");
    }
    let named = |name: &str| Arc::new(Field::new(name, DataType::Utf8, true));
    let meta: Vec<(Arc<Field>, ArrayRef)> =
        vec![(named("language"), Arc::new(language.finish())), (named("url"), Arc::new(url.finish()))];
    vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..pages.len() as i64))),
        ("meta", Arc::new(StructArray::from(meta))),
        ("dump", Arc::new(sweeps.finish())),
        (
            "date",
            Arc::new(
                TimestampNanosecondArray::from_iter_values(pages.iter().map(|page| micros(page) * 1000))
                    .with_timezone("+00:00"),
            ),
        ),
        ("content_type", strings(field(pages, "content_type"))),
        ("html", Arc::new(LargeStringArray::from_iter_values(field(pages, "body")))),
    ]
}

fn events_without_source(world: &World) -> Vec<String> {
    let events = std::fs::read_to_string(world.path("events.jsonl")).expect("events");
    events
        .lines()
        .map(|line| {
            let mut event: Value = serde_json::from_str(line).expect("JSON");
            event.as_object_mut().expect("an object").remove("source");
            event.to_string()
        })
        .collect()
}

/// `run`, `backfill` and `sketch` over the sample as Parquet do what they do over it as JSONL, with every compression.
#[test]
fn tables_give_the_pages_of_jsonl() {
    let pages = sample();
    let jsonl = World::new();
    let whole = jsonl.write("pages.jsonl", pages.iter().map(|page| format!("{page}\n")).collect::<String>());
    jsonl.run(std::slice::from_ref(&whole));
    let expected = events_without_source(&jsonl);
    for compression in [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::ZSTD(ZstdLevel::default()),
        Compression::LZ4_RAW,
        Compression::BROTLI(BrotliLevel::default()),
    ] {
        let world = World::new();
        let input = write(&world.path("pages.parquet"), table(&pages), compression);
        world.run(&[input]);
        assert_eq!(events_without_source(&world), expected, "{compression:?}");
    }
    let world = World::new();
    let input = write(&world.path("pages.parquet"), table(&pages), Compression::SNAPPY);
    world.ask("backfill -q", &[&input.display().to_string()]);
    assert_eq!(world.partition(), jsonl.partition());
    assert_eq!(world.n_events(), 0);
    world.run(std::slice::from_ref(&input));
    assert_eq!(world.partition(), jsonl.partition(), "a run after the backfill takes nothing twice");
    let sketches = |input: &Path| jsonl.ask("sketch --json", &[&input.display().to_string()]);
    assert_eq!(sketches(&input).lines().count(), pages.len());
    let without_place = |text: String| -> Vec<Value> {
        text.lines()
            .map(|line| {
                let mut line: Value = serde_json::from_str(line).expect("JSON");
                if let Some(line) = line.as_object_mut() {
                    line.remove("source");
                }
                line
            })
            .collect()
    };
    assert_eq!(without_place(sketches(&input)), without_place(sketches(&whole)));
}

fn urls(world: &World) -> BTreeSet<String> {
    world.partition().into_iter().flatten().collect()
}

fn run(world: &World, arguments: &[&str]) -> Output {
    world.command("run -q").args(arguments).output().expect("starts")
}

/// The columns of known data sets, and the forms that dates and texts have in them.
#[test]
fn columns_by_the_habits_of_the_field() {
    let body = |n: usize| format!("some words of the page number {n} and a few more of them");
    let bodies: Vec<String> = (0..3).map(body).collect();
    let addresses = ["http://a/", "http://b/", "http://c/"];
    let texts = || strings(bodies.iter().map(String::as_str));
    let url = || strings(addresses);
    let day = |n: i32| 20_000 + n;
    let ms = |n: i32| i64::from(day(n)) * 86_400_000;
    let times: Vec<String> = (0..3).map(|n| FetchTime(ms(n) * 1000).to_string()).collect();
    let dated = || strings(times.iter().map(String::as_str));
    let as_bytes = |text: &[&'static [u8]]| -> ArrayRef { Arc::new(BinaryArray::from_iter_values(text)) };
    for (name, columns, sweep) in [
        (
            "fineweb",
            vec![
                ("text", texts()),
                ("id", url()),
                ("dump", strings(["CC-1"; 3])),
                ("url", url()),
                ("date", dated()),
                ("language_score", Arc::new(Int32Array::from(vec![1, 2, 3]))),
            ],
            "CC-1",
        ),
        (
            "c4",
            vec![
                ("text", texts()),
                ("timestamp", Arc::new(TimestampMillisecondArray::from_iter_values((0..3).map(ms))) as ArrayRef),
                ("url", url()),
            ],
            "",
        ),
        (
            "days",
            vec![
                ("content", texts()),
                ("crawl_date", Arc::new(Date32Array::from_iter_values((0..3).map(day))) as ArrayRef),
                ("URL", url()),
            ],
            "",
        ),
        (
            "bytes",
            vec![
                ("html", as_bytes(&[b"<p>one page of bytes</p>", b"another \xe9t\xe9 page", b"a third one"])),
                ("content_type", strings(["text/html", "text/html; charset=latin1", "text/plain"])),
                ("fetched_at", dated()),
                ("url", as_bytes(&[b"http://a/", b"http://b/", b"http://c/"])),
            ],
            "",
        ),
    ] {
        let world = World::new();
        let input = write(&world.path(&format!("{name}.parquet")), columns, Compression::SNAPPY);
        world.run(&[input]);
        let expected = addresses.iter().zip(&times).map(|(url, time)| page_key(url, time, sweep)).collect();
        assert_eq!(urls(&world), expected, "{name}");
    }
    // Without dates, as the command line says.
    let world = World::new();
    let input = write(&world.path("undated.parquet"), vec![("url", url()), ("text", texts())], Compression::SNAPPY);
    let path = input.display().to_string();
    let refused = run(&world, &[&path]);
    assert_eq!(refused.status.code(), Some(3));
    assert!(
        text(&refused.stderr).contains("or give --fetched-at; the file has url, text"),
        "{}",
        text(&refused.stderr)
    );
    let taken = run(&world, &[&path, "--fetched-at", DAY, "--sweep", "x"]);
    assert!(taken.status.success(), "{}", text(&taken.stderr));
    assert_eq!(urls(&world), addresses.iter().map(|url| page_key(url, DAY, "x")).collect());
}

/// What `dedup` writes of an input as pages of text.
fn texts(world: &World, input: &Path, arguments: &[&str]) -> String {
    let out = input.with_extension("out");
    let mut command = world.command_without_store("dedup -q --format jsonl");
    let output = command.arg("--out").arg(&out).args(arguments).arg(input).output().expect("starts");
    assert!(output.status.success(), "{}", text(&output.stderr));
    std::fs::read_to_string(out.join(input.with_extension("jsonl").file_name().expect("a name"))).expect("pages")
}

/// Wrong once: the comments and attributes of a column `html` counted as words. Lost once: text that is not UTF-8, rows
/// of FineWeb-Edu, FineWeb with another column as its URL, and what `--map` says of `gone` and `body_base64`.
#[test]
fn columns_give_the_pages_of_json_with_their_fields() {
    let bytes = |pages: [&'static [u8]; 2]| -> ArrayRef { Arc::new(BinaryArray::from_iter_values(pages)) };
    let url = || ("url", strings(["http://a/", "http://b/"]));
    let dated = || ("fetched_at", strings([DAY; 2]));
    let of_type = |content_type: &'static str| ("content_type", strings([content_type; 2]));
    let dump = || ("dump", strings(["CC-MAIN-2024-10"; 2]));
    let both = |name: &str, contents: [&str; 2]| {
        let page = |url: &str, content: &str| json!({"url": url, "fetched_at": DAY, name: content});
        vec![page("http://a/", contents[0]), page("http://b/", contents[1])]
    };
    let marked = ["one <!-- no --> two &amp; three", "<p title='no'>four"];
    let words = || ("text", strings(["one two", "three four"]));
    let swept = |url: &str, text: &str, time: &str| json!({"url": url, "fetched_at": time, "sweep": "CC-MAIN-2024-10", "text": text});
    let week = "2024-03-04T00:00:00Z";
    for (number, (arguments, columns, pages)) in [
        (vec![], vec![url(), dated(), of_type("text/plain"), ("html", strings(marked))], both("html", marked)),
        (
            vec![],
            vec![
                url(),
                dated(),
                of_type("text/plain; charset=latin1"),
                ("html", bytes([b"<p>un \xe9t\xe9", b"<!-- no -->une ann\xe9e"])),
            ],
            both("html", ["<p>un été", "<!-- no -->une année"]),
        ),
        (
            vec![],
            vec![
                url(),
                dated(),
                of_type("text/html; charset=windows-1251"),
                ("text", bytes([b"\xef\xf0\xe8\xe2\xe5\xf2 <b>", b"two words"])),
            ],
            both("text", ["привет <b>", "two words"]),
        ),
        (
            vec!["--map", "gone=deleted"],
            vec![url(), dated(), words(), ("deleted", Arc::new(BooleanArray::from(vec![false, true])))],
            vec![json!({"url": "http://a/", "fetched_at": DAY, "text": "one two"})],
        ),
        (
            vec!["--map", "body_base64=/packed~1body"],
            vec![url(), dated(), ("packed/body", strings(["b25lIHR3bw==", "dGhyZWU="]))],
            both("body", ["one two", "three"]),
        ),
        (
            vec!["--fields", "fineweb"],
            vec![url(), dump(), words()],
            vec![swept("http://a/", "one two", week), swept("http://b/", "three four", week)],
        ),
        (
            vec![],
            vec![url(), dump(), words()],
            vec![swept("http://a/", "one two", week), swept("http://b/", "three four", week)],
        ),
        (
            vec!["--map", "url=id"],
            vec![url(), dump(), words(), ("id", strings(["urn:1", "urn:2"])), ("date", strings([DAY; 2]))],
            vec![swept("urn:1", "one two", DAY), swept("urn:2", "three four", DAY)],
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let world = World::new();
        let lines = world.write("json.jsonl", pages.iter().map(|page| format!("{page}\n")).collect::<String>());
        let table = write(&world.path("table.parquet"), columns, Compression::SNAPPY);
        assert_eq!(texts(&world, &table, &arguments), texts(&world, &lines, &[]), "{number}");
    }
}

/// A null is a missing field, but for a body, where it says that the page is gone; statuses and redirects count.
#[test]
fn nulls_statuses_and_redirects() {
    let world = World::new();
    let columns: Vec<(&str, ArrayRef)> = vec![
        (
            "url",
            Arc::new(StringArray::from(vec![
                Some("http://a/"),
                None,
                Some("http://c/"),
                Some("http://d/"),
                Some("http://e/"),
            ])),
        ),
        ("fetched_at", strings([DAY; 5])),
        ("http_status", Arc::new(Int32Array::from(vec![Some(200), Some(200), Some(404), Some(301), None]))),
        ("redirect_to", Arc::new(StringArray::from(vec![None, None, None, Some("http://a/"), None]))),
        (
            "body",
            Arc::new(StringArray::from(vec![
                Some("words of the page"),
                Some("lost words"),
                Some("not found"),
                None,
                None,
            ])),
        ),
    ];
    let input = write(&world.path("pages.parquet"), columns, Compression::SNAPPY);
    world.run(&[input]);
    let events = world.events();
    assert_eq!(events.len(), 5);
    let present = world.ask("export present", &[]);
    for (url, state) in [("http://a/", "page"), ("http://c/", "gone"), ("http://d/", "redirect"), ("http://e/", "gone")]
    {
        assert!(present.lines().any(|line| line.starts_with(url) && line.ends_with(state)), "{url}: {present}");
    }
    let rejected = std::fs::read_to_string(world.path("events.jsonl")).expect("events");
    assert!(
        rejected.lines().nth(1).is_some_and(|line| line.contains("missing-field") && line.contains("\"offset\":1")),
        "{rejected}"
    );
}

/// Read again, a file yields what is new; another file of its name is refused.
#[test]
fn a_table_is_read_on_from_where_it_was() {
    let pages = sample();
    let world = World::new();
    let path = world.path("pages.parquet");
    for n in [100, 100, 345, pages.len()] {
        world.run(&[write(&path, table(&pages[..n]), Compression::SNAPPY)]);
        assert_eq!(
            urls(&world).len(),
            pages[..n].iter().map(Value::to_string).collect::<BTreeSet<_>>().len(),
            "{n} rows"
        );
    }
    // Other row groups and another compression are the same records.
    let n_events = world.n_events();
    world.run(&[write(&path, table(&pages), Compression::ZSTD(ZstdLevel::default()))]);
    assert_eq!(world.n_events(), n_events);
    let mut others = pages.clone();
    others[3]["body"] = "other words".into();
    for (pages, problem) in [(&others[..], "records differ"), (&pages[..50], "only 50 of the")] {
        let refused = run(&world, &[&write(&path, table(pages), Compression::SNAPPY).display().to_string()]);
        assert_eq!(refused.status.code(), Some(3));
        assert!(text(&refused.stderr).contains(problem), "{}", text(&refused.stderr));
    }
}

/// A file that is cut or damaged anywhere is reported, with what to do, and the other inputs are read.
#[test]
fn damaged_tables_are_reported() {
    let pages = &sample()[..120];
    let world = World::new();
    let path = write(&world.path("whole.parquet"), table(pages), Compression::SNAPPY);
    let whole = std::fs::read(&path).expect("bytes");
    let other = world.write("other.jsonl", page("http://other/", DAY, "s", "a page of its own words"));
    let damaged = world.path("damaged.parquet").display().to_string();
    for cut in [4, 5, 11, whole.len() / 2, whole.len() - 9, whole.len() - 1] {
        std::fs::write(&damaged, &whole[..cut]).expect("written");
        let output = run(&world, &[&damaged, &other.display().to_string()]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "cut at {cut}: {said}");
        assert!(said.contains("cut or damaged") && said.contains("fetch it again"), "cut at {cut}: {said}");
    }
    for at in (0..40).map(|n| (n * 7919 + 13) % whole.len()) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x5a;
        std::fs::write(&damaged, &bytes).expect("written");
        let world = World::new();
        let output = run(&world, &[&damaged]);
        let code = output.status.code();
        assert!(matches!(code, Some(0 | 1 | 3)), "byte {at}: {code:?} {}", text(&output.stderr));
        assert!(!text(&output.stderr).contains("panicked"), "byte {at}: {}", text(&output.stderr));
    }
    let packed = world.path("packed.parquet.zst");
    std::fs::write(&packed, zstd::encode_all(&whole[..], 1).expect("packed")).expect("written");
    let output = run(&world, &[&packed.display().to_string()]);
    assert!(text(&output.stderr).contains("compressed as a whole"), "{}", text(&output.stderr));
    let mut piped = world.command("run -q -");
    piped.stdin(File::open(&path).expect("a file"));
    let output = piped.output().expect("starts");
    assert!(text(&output.stderr).contains("give the file"), "{}", text(&output.stderr));
}

/// Columns of lists are not pages' fields, and a type that is none of a field is named.
#[test]
fn wrong_columns_are_named() {
    let world = World::new();
    let numbers = || -> ArrayRef { Arc::new(Int64Array::from(vec![1, 2])) };
    let two = || strings(["http://a/", "http://b/"]);
    let lists: ArrayRef =
        Arc::new(arrow_array::ListArray::from_iter_primitive::<arrow_array::types::Int64Type, _, _>(vec![
            Some(vec![Some(1)]),
            None,
        ]));
    for (columns, problem) in [
        (vec![("url", numbers()), ("text", two()), ("date", two())], "column url has the type Int64, not text"),
        (vec![("url", two()), ("text", two()), ("date", numbers())], "column date has the type Int64, not a timestamp"),
        (vec![("url", two()), ("text", lists), ("date", two())], "no column holds the content"),
        (vec![("address", two())], "no column holds the URL: name one of url, uri"),
    ] {
        let input = write(&world.path("wrong.parquet"), columns, Compression::SNAPPY);
        let output = run(&world, &[&input.display().to_string()]);
        assert_eq!(output.status.code(), Some(3));
        assert!(text(&output.stderr).contains(problem), "{}", text(&output.stderr));
    }
}
