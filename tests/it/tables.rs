//! Tables: every format holds the same rows, and other programs read them.

use crate::harness::{World, page, sweeps, text};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, RecordBatch};
use lookalike::document::FetchTime;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const DAY: &str = "2026-11-01T00:00:00Z";
const MOVED: &str = "https://docs.npm.example/html/doc/cache.html";
const KEPT: &str = "https://docs.npm.example/html/doc/cli/npm-cache.html";

type Row = Map<String, Value>;

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect(text)
}

fn of_jsonl(text: &str) -> Vec<Row> {
    text.lines().map(|line| parsed(line).as_object().expect("an object").clone()).collect()
}

/// CSV as text cells; an empty cell is null or an empty text.
fn of_csv(text: &str) -> Vec<Vec<(String, String)>> {
    let mut rows = csv::Reader::from_reader(text.as_bytes());
    let header: Vec<String> = rows.headers().expect("a header").iter().map(String::from).collect();
    let cells = |row: csv::StringRecord| header.iter().cloned().zip(row.iter().map(String::from)).collect();
    rows.records().map(|row| cells(row.expect("a row"))).collect()
}

/// The same for JSON rows.
fn as_csv(rows: &[Row], columns: &[&str]) -> Vec<Vec<(String, String)>> {
    let cell = |value: Option<&Value>| match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    rows.iter().map(|row| columns.iter().map(|name| (name.to_string(), cell(row.get(*name)))).collect()).collect()
}

fn of_parquet(path: &Path) -> Vec<Row> {
    let file = std::fs::File::open(path).expect("a file");
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).expect("Parquet").build().expect("a reader");
    reader.flat_map(|batch| of_batch(&batch.expect("a batch"))).collect()
}

fn of_batch(batch: &RecordBatch) -> Vec<Row> {
    let cell = |column: &dyn Array, at: usize| {
        if column.is_null(at) {
            Value::Null
        } else if let Some(texts) = column.as_string_opt::<i32>() {
            json!(texts.value(at))
        } else if let Some(times) = column.as_primitive_opt::<TimestampMicrosecondType>() {
            json!(FetchTime(times.value(at)).to_string())
        } else if let Some(numbers) = column.as_primitive_opt::<Int64Type>() {
            json!(numbers.value(at))
        } else if let Some(shares) = column.as_primitive_opt::<Float64Type>() {
            json!(shares.value(at))
        } else {
            json!(column.as_boolean().value(at))
        }
    };
    let columns = || batch.schema_ref().fields().iter().zip(batch.columns());
    (0..batch.num_rows())
        .map(|at| columns().map(|(field, column)| (field.name().clone(), cell(&**column, at))).collect())
        .collect()
}

/// Every table in every format, with its own columns and with all: the same rows, and what was there before stays until
/// they are whole.
#[test]
fn every_format_holds_the_same_rows() {
    let world = World::new();
    world.run(&sweeps());
    world.ask("sweep close", &["3-2017-09-01"]);
    for (table, default, all) in [
        (
            "clusters",
            "url,fetched_at,sweep,document,cluster",
            "cluster,representative,bytes,words,document,sweep,fetched_at,url",
        ),
        ("present", "url,fetched_at,sweep,document,cluster,state", "state,url,words,bytes,representative"),
        ("links", "document,to,resemblance,containment,url,to_url", "url,words,bytes,to_words,to_bytes,resemblance"),
        (
            "moves",
            "url,state,fetched_at,sweep,document,last_seen,to,to_document,to_last_seen,resemblance,evidence,score",
            "to,url",
        ),
    ] {
        for (columns, chosen) in [(default, vec![]), (all, vec!["--columns", all])] {
            let ask = |more: &[&str]| world.ask(&format!("export {table}"), &[&chosen[..], more].concat());
            let rows = of_jsonl(&ask(&["--json"]));
            assert!(rows.len() > 100, "{table}: {} rows", rows.len());
            let names: Vec<&str> = columns.split(',').collect();
            assert!(rows.iter().all(|row| row.len() == names.len()), "{:?}", rows[0]);
            let csv = ask(&[]);
            assert_eq!(csv.lines().next(), Some(columns));
            assert_eq!(of_csv(&csv), as_csv(&rows, &names), "{table}");
            let path = world.path(&format!("{table}.parquet"));
            ask(&["--out", &path.display().to_string()]);
            assert_eq!(of_parquet(&path), rows, "{table}");
            let piped =
                world.command(&format!("export {table} --format parquet")).args(&chosen).output().expect("starts");
            assert_eq!(piped.stdout, std::fs::read(&path).expect("a file"), "a pipe gets the same bytes");
            let jsonl = world.path(&format!("{table}.jsonl"));
            ask(&["--out", &jsonl.display().to_string()]);
            assert_eq!(of_jsonl(&std::fs::read_to_string(&jsonl).expect("text")), rows);
        }
    }
    let path = world.path("clusters.parquet");
    let before = std::fs::read(&path).expect("a file");
    let wrong = world.command("export clusters --columns url,size").arg("--out").arg(&path).output().expect("starts");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("no column size; there are url, "), "{}", text(&wrong.stderr));
    assert_eq!(std::fs::read(&path).expect("a file"), before);
    let out = path.display().to_string();
    world.ask("recluster --threshold 0.8", &["--out", &out]);
    assert_eq!(of_parquet(&path).len(), 646, "a row for each sighting");
    assert!(
        !std::fs::read_dir(world.path("."))
            .expect("a folder")
            .any(|file| { file.expect("a file").path().to_string_lossy().ends_with(".part") })
    );
}

/// Lost if this fails: where the pages of a site have gone.
#[test]
fn moves_are_what_lost_answers() {
    let world = World::new();
    world.run(&sweeps());
    world.ask("sweep close", &["3-2017-09-01"]);
    let dead: Vec<Row> =
        of_jsonl(&world.ask("export present --json", &[])).into_iter().filter(|row| row["state"] != "page").collect();
    let moves = of_jsonl(&world.ask("export moves --json", &[]));
    assert_eq!(moves.len(), dead.len());
    let mut n_moved = 0;
    for (row, dead) in moves.iter().zip(&dead) {
        for column in ["url", "state", "fetched_at", "sweep"] {
            assert_eq!(row[column], dead[column]);
        }
        let lost = parsed(&world.ask("query lost --json --limit 1", &[row["url"].as_str().expect("a URL")]));
        assert_eq!(row["to"], lost["answers"].get(0).cloned().unwrap_or_default(), "{row:?}");
        if !row["to"].is_null() {
            n_moved += 1;
            let place = &lost["details"][0];
            assert_eq!((&row["to_document"], &row["score"]), (&place["document"], &place["score"]));
            assert_eq!((&row["resemblance"], &row["evidence"]), (&place["resemblance"], &place["evidence"]["kind"]));
        }
    }
    assert!(n_moved > 10 && n_moved < moves.len(), "{n_moved} of {} have moved", moves.len());
}

/// Lost if this fails: which file, and which record in it, a page came from.
#[test]
fn clusters_with_events_say_where_records_came_from() {
    let world = World::new();
    world.run(&sweeps()[1..]);
    world.run(&sweeps()[..1]);
    let events = world.path("events.jsonl").display().to_string();
    let rows = of_jsonl(&world.ask("export clusters --json", &["--events", &events]));
    assert_eq!(rows.len(), 646);
    let columns = ["url", "fetched_at", "sweep", "document", "cluster"];
    let picked = |rows: &[Row]| -> BTreeSet<String> {
        rows.iter().map(|row| columns.map(|name| row[name].to_string()).join(" ")).collect()
    };
    assert_eq!(picked(&rows), picked(&of_jsonl(&world.ask("export clusters --json", &[]))));
    let mut at: std::collections::BTreeMap<String, Vec<Value>> = Default::default();
    for path in sweeps() {
        let text = String::from_utf8(zstd::decode_all(std::fs::File::open(&path).expect("a file")).expect("zstd"));
        let pages = text.expect("text").lines().map(parsed).collect();
        at.insert(path.canonicalize().expect("a path").display().to_string(), pages);
    }
    for row in &rows {
        let page = &at[row["source"].as_str().expect("a file")][row["offset"].as_u64().expect("a number") as usize];
        assert_eq!((&row["url"], &row["fetched_at"]), (&page["url"], &page["fetched_at"]));
    }
    let csv = world.ask("export clusters", &["--events", &events, "--columns", "source,offset,words,representative"]);
    assert_eq!(csv.lines().count(), 647);
    assert!(csv.starts_with("source,offset,words,representative\n"));
    for (arguments, why) in [
        (vec!["--columns", "url,offset"], "--columns offset: the store does not keep it; name the events"),
        (vec!["--events", &events], "is an event of another store"),
    ] {
        let other = World::new();
        other.run(&[other.write("one.jsonl", page("http://a/", DAY, "1", "one"))]);
        let output = other.command("export clusters").args(arguments).output().expect("starts");
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(why), "{}", text(&output.stderr));
    }
}

/// Lost if this fails: events for people who read tables.
#[test]
fn events_become_a_table() {
    let world = World::new();
    world.run(&sweeps());
    let events = world.path("events.jsonl").display().to_string();
    world.ask("sweep close", &["3-2017-09-01", "--events", &events]);
    let events = of_jsonl(&std::fs::read_to_string(world.path("events.jsonl")).expect("events"));
    let packed = world.write(
        "events.zst",
        zstd::encode_all(std::fs::File::open(world.path("events.jsonl")).expect("a file"), 3).expect("packed"),
    );
    let out = world.path("events.parquet");
    let run = |arguments: &[&Path]| {
        let mut command = world.command_without_store("export events");
        command.args(arguments).output().expect("starts")
    };
    let output = run(&[&packed, Path::new("--out"), &out]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows = of_parquet(&out);
    assert_eq!(rows.len(), events.len());
    for (row, event) in rows.iter().zip(&events) {
        let own = row.iter().filter(|(_, value)| !value.is_null());
        let said = event.iter().filter(|(_, value)| !value.is_null());
        assert_eq!(own.collect::<Vec<_>>().len(), said.clone().count(), "{row:?} {event:?}");
        said.for_each(|(name, value)| assert_eq!(&row[name], value, "{name}"));
    }
    let wrong = run(&[&world.write("no.jsonl", "{}\n")]);
    assert_eq!(wrong.status.code(), Some(1));
    assert!(text(&wrong.stderr).contains("line 1 is no event; give an events file"), "{}", text(&wrong.stderr));
}

/// What the columns say, on pages of known sizes; and one representative for each cluster.
#[test]
fn words_bytes_and_representatives() {
    let world = World::new();
    let words = |n: usize| (0..n).map(|at| format!("w{at}")).collect::<Vec<_>>().join(" ");
    let pages = [
        page("http://a/", DAY, "s", &words(40)),
        page("http://near/", DAY, "s", &words(41)),
        page("http://copy/", DAY, "s", &words(40)),
        page("http://other/", DAY, "s", "quite another text of just nine words, no more"),
        json!({"url": "http://gone/", "fetched_at": DAY, "body": null}).to_string(),
    ];
    world.run(&[world.write("pages.jsonl", pages.join("\n"))]);
    let columns = "url,words,bytes,representative,cluster";
    let mut found = of_jsonl(&world.ask("export clusters --json", &["--columns", columns]));
    found.sort_by_key(|row| row["url"].to_string());
    let row = |url: &str, words: usize, bytes: usize, is_first: bool, cluster: u32| json!({"url": url, "words": words, "bytes": bytes, "representative": is_first, "cluster": cluster});
    let size = |n: usize| words(n).len();
    assert_eq!(
        json!(found),
        json!([
            row("http://a/", 40, size(40), true, 1),
            row("http://copy/", 40, size(40), true, 1),
            row("http://near/", 41, size(41), false, 1),
            row("http://other/", 9, 46, true, 3),
        ])
    );
    let present = of_jsonl(&world.ask("export present --json", &["--columns", "url,words,representative"]));
    let gone = present.iter().find(|row| row["url"] == "http://gone/").expect("a row");
    assert_eq!((&gone["words"], &gone["representative"]), (&Value::Null, &Value::Null));
}

/// Other people's reader reads our Parquet; skipped where it is not installed.
#[test]
fn pyarrow_reads_what_is_written() {
    const READ: &str = "
import json, sys, pyarrow.parquet as pq
table = pq.read_table(sys.argv[1])
print(json.dumps({'types': [str(t) for t in table.schema.types], 'rows': table.num_rows,
  'clusters': len(set(table['cluster'].to_pylist())), 'first': table.slice(0, 1).to_pylist()[0]['url']}))";
    let is_there =
        Command::new("python3").args(["-c", "import pyarrow"]).output().is_ok_and(|found| found.status.success());
    if !is_there {
        println!("skipped: python3 has no pyarrow");
        return;
    }
    let world = World::new();
    world.run(&sweeps());
    let path = world.path("clusters.parquet");
    let out = path.display().to_string();
    world.ask("export clusters", &["--out", &out]);
    let read = Command::new("python3").args(["-c", READ, &out]).output().expect("starts");
    assert!(read.status.success(), "{}", text(&read.stderr));
    let read = parsed(&text(&read.stdout));
    let rows = of_parquet(&path);
    let clusters: BTreeSet<String> = rows.iter().map(|row| row["cluster"].to_string()).collect();
    assert_eq!(read["types"], json!(["string", "timestamp[us, tz=UTC]", "string", "int64", "int64"]));
    assert_eq!(read["rows"], rows.len());
    assert_eq!(read["clusters"], clusters.len());
    assert_eq!(read["first"], rows[0]["url"]);
}

/// The rows of an answer in CSV are those of its list in JSON.
#[test]
fn answers_have_rows() {
    let world = World::new();
    world.run(&sweeps());
    let file = world.write("urls", [KEPT, "http://never/", MOVED].join("\n")).display().to_string();
    let first = zstd::decode_all(&std::fs::read(&sweeps()[0]).expect("read")[..]).expect("unpacked");
    let first = parsed(text(&first).lines().next().expect("a line"));
    let page = world.write("like.html", first["body"].as_str().expect("a body")).display().to_string();
    for (question, arguments, list, columns) in [
        ("query url", vec![MOVED], "/sightings", "fetched_at,sweep,seen,document,cluster"),
        ("query cluster", vec![MOVED], "/sightings", "url,fetched_at,sweep,document"),
        ("query lost", vec![MOVED], "/details", "url,last_seen,sweep,document,resemblance,containment_of_a_in_b,score"),
        ("query similar", vec![page.as_str()], "", "document,cluster,resemblance,error,containment_of_a_in_b"),
        ("query compare", vec![MOVED, KEPT], "", "resemblance,error,containment_of_a_in_b,error_of_b_in_a"),
        ("explain", vec![MOVED, KEPT], "/links", "from,from_url,to,to_url,resemblance,containment,kind"),
    ] {
        let answer = parsed(&world.ask(&format!("{question} --format json"), &arguments));
        assert_eq!(answer, parsed(&world.ask(&format!("{question} --json"), &arguments)));
        let rows = match answer.pointer(list).expect("a list") {
            Value::Array(rows) => rows.iter().map(|row| row.as_object().expect("an object").clone()).collect(),
            one => vec![one.as_object().expect("an object").clone()],
        };
        assert!(!rows.is_empty(), "{question}");
        let columns: Vec<&str> = columns.split(',').collect();
        let mut found = of_csv(&world.ask(&format!("{question} --format csv"), &arguments));
        found.iter_mut().for_each(|row| row.retain(|(name, _)| columns.contains(&name.as_str())));
        assert_eq!(found, as_csv(&rows, &columns), "{question}");
    }
    let lost = of_csv(&world.ask("query lost --format csv", &["--urls-from", &file]));
    let of: Vec<&str> = lost.iter().map(|row| row[0].1.as_str()).collect();
    assert!(of.contains(&KEPT) && of.contains(&MOVED), "{of:?}");
    let never = lost.iter().find(|row| row[0].1 == "http://never/").expect("a row");
    assert!(never[1..].iter().all(|(_, cell)| cell.is_empty()), "{never:?}");
    let groups = of_csv(&world.ask("query group --format csv", &[&file]));
    let of: Vec<&str> = groups.iter().map(|row| row[1].1.as_str()).collect();
    assert_eq!(of, [KEPT, MOVED, "http://never/"]);
    assert!(groups[0][0].1 == groups[1][0].1 && groups[2][0].1.is_empty(), "{groups:?}");
    let reuse = of_csv(&world.ask("query reuse --format csv", &[MOVED]));
    assert!(reuse.iter().all(|row| row[0] == ("host".to_string(), "docs.npm.example".to_string())), "{reuse:?}");
    let both = world.command("query url --json --format csv").arg(MOVED).output().expect("starts");
    assert_eq!(both.status.code(), Some(2));
}
