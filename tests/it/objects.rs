//! Objects of stores and of the web are inputs and outputs as files are, whatever the network does.

use crate::dedup::tree;
use crate::harness::object_server::ObjectServer;
use crate::harness::{World, page, sweeps, text};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

impl World {
    fn with_store_of(self, server: &ObjectServer) -> Self {
        let variables = [
            ("AWS_ENDPOINT", server.url()),
            ("AWS_ALLOW_HTTP", "true".into()),
            ("AWS_ACCESS_KEY_ID", "key".into()),
            ("AWS_SECRET_ACCESS_KEY", "secret".into()),
            ("AWS_REGION", "us-east-1".into()),
        ];
        variables.into_iter().fold(self, |world, (name, value)| world.with_variable(name, value))
    }
}

fn name_of(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).expect("a name")
}

/// A server that has the sample in `/bucket/crawl`, and what is no part of it beside it.
fn server_with_sample() -> ObjectServer {
    let server = ObjectServer::start();
    for path in sweeps() {
        server.put(&format!("/bucket/crawl/{}", name_of(&path)), fs::read(path).expect("read"));
    }
    server.put("/bucket/crawl/.hidden.jsonl", "no page");
    server.put("/bucket/crawl/", "");
    server.put("/bucket/crawl-2/other.jsonl", "no page");
    server
}

fn ran(command: &mut Command) -> Output {
    let output = command.output().expect("starts");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    output
}

/// Lost if this fails: a page, whenever a connection breaks.
#[test]
fn objects_of_a_store_give_what_their_files_give() {
    let server = server_with_sample();
    let world = World::new().with_store_of(&server);
    let deduplicated = |inputs: &[&str], out: &str| {
        let mut command = world.command_without_store("dedup --json --memory 16");
        ran(command.args(inputs).arg("--out").arg(world.path(out)));
        tree(&world.path(out))
    };
    let local: Vec<String> = sweeps().iter().map(|path| path.display().to_string()).collect();
    let expected = deduplicated(&local.iter().map(String::as_str).collect::<Vec<_>>(), "local");
    for (fails_every, input) in [
        (0, "s3://bucket/crawl"),
        (0, "s3://bucket/crawl/"),
        (0, "s3://bucket/*/sweep-?-*.zst"),
        (3, "s3://bucket/crawl"),
        (2, "s3://bucket/crawl/sweep-*.jsonl.zst"),
    ] {
        server.fail_every(fails_every);
        let n_before = server.n_reads();
        let found = deduplicated(&[input], &format!("{fails_every}{}", input.len()));
        let names = |files: &BTreeMap<PathBuf, Vec<u8>>| {
            files.iter().map(|(path, bytes)| (name_of(path).to_string(), bytes.clone())).collect::<Vec<_>>()
        };
        assert!(names(&found) == names(&expected), "{input}, {fails_every}");
        assert!(server.n_reads() - n_before >= 6, "each object is read twice");
    }
}

/// Lost if this fails: Parquet and WACZ, which are read from any place, differ from what their files give.
#[test]
fn formats_that_are_read_from_any_place_are_read_from_the_web() {
    let (server, world) = (ObjectServer::start(), World::new());
    let table = world.path("pages.parquet");
    let mut command = world.command_without_store("dedup -q --format parquet --threshold 1");
    ran(command.arg(&sweeps()[0]).arg("--out").arg(world.path("tables")));
    fs::rename(world.path("tables").join("sweep-1-2014-08-01.parquet"), &table).expect("moved");
    server.put("/a b/pages.parquet", fs::read(&table).expect("read"));
    server.put("/site/index.html", "<title>A page</title><p>a b c");
    server.fail_every(3);
    let clustered = |input: &str| {
        let mut command = world.command_without_store("cluster -q --columns url,document,cluster,keep --out");
        ran(command.arg(world.path("table.csv")).arg(input));
        fs::read_to_string(world.path("table.csv")).expect("a table")
    };
    let expected = clustered(table.to_str().expect("a path"));
    assert!(expected.lines().count() > 50);
    assert_eq!(clustered(&format!("{}/a%20b/pages.parquet", server.url())), expected);
    assert_eq!(clustered(&format!("file://{}", table.display())), expected);
    // A page of HTML has the time of the object.
    let page = clustered(&format!("{}/site/index.html", server.url()));
    assert!(page.lines().nth(1).is_some_and(|line| line.ends_with(",1,1,true")), "{page}");
}

/// Lost if this fails: pages that came later, or all pages a second time.
#[test]
fn an_object_that_has_grown_yields_what_is_new() {
    let server = ObjectServer::start();
    let world = World::new().with_store_of(&server);
    let pages = ["a", "b", "c"].map(|name| page(&format!("http://{name}/"), "2026-11-01T00:00:00Z", "1", name) + "\n");
    let input = PathBuf::from("s3://bucket/pages.jsonl");
    for (n_pages, n_events) in [(1, 1), (1, 1), (3, 3)] {
        server.put("/bucket/pages.jsonl", pages[..n_pages].concat());
        world.run(std::slice::from_ref(&input));
        assert_eq!(world.n_events(), n_events);
    }
    assert_eq!(world.events()[0].source, "s3://bucket/pages.jsonl");
    server.put("/bucket/pages.jsonl", pages[1].clone());
    let output = world.run_command(&[input]).output().expect("starts");
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("not the file that was read before"), "{}", text(&output.stderr));
}

/// Lost if this fails: a table that was written for hours, or half of it under its name.
#[test]
fn tables_become_objects() {
    let server = ObjectServer::start();
    let world = World::new().with_store_of(&server);
    world.run(&sweeps());
    let local = world.path("clusters.parquet");
    for out in [local.to_str().expect("a path"), "s3://bucket/tables/clusters.parquet"] {
        ran(world.command("export clusters").args(["--out", out]));
    }
    assert!(server.get("/bucket/tables/clusters.parquet") == Some(fs::read(local).expect("read")));
    // One that is uploaded in parts.
    let events = fs::read(world.path("events.jsonl")).expect("read");
    let many = world.write("many.jsonl", events.repeat(80));
    let local = world.path("events.csv");
    for out in [local.to_str().expect("a path"), "s3://bucket/events.csv"] {
        ran(world.command_without_store("export events").arg(&many).args(["--out", out]));
    }
    let expected = fs::read(local).expect("read");
    assert!(expected.len() > 9 << 20, "{} bytes are one part", expected.len());
    assert!(server.get("/bucket/events.csv") == Some(expected));
    let mut command = world.command_without_store("cluster -q");
    command.current_dir(world.path("")).args(sweeps()).args(["--out", "s3://bucket/clusters.csv"]);
    ran(&mut command);
    assert!(server.get("/bucket/clusters.csv").is_some_and(|table| table.starts_with(b"source,record,url")));
}

/// Lost once: `--out s3://bucket/clean` made a folder of the name `s3:`.
#[test]
fn what_grows_piece_by_piece_stays_on_this_machine() {
    let world = World::new();
    for (command, inputs) in
        [("dedup --out", &sweeps()[..1]), ("sketch --parquet", &sweeps()[..1]), ("report --out", &[])]
    {
        let mut command = world.command_without_store(command);
        command.current_dir(world.path("")).arg("s3://bucket/out").args(inputs);
        let output = command.output().expect("starts");
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("must be on this machine"), "{}", text(&output.stderr));
        assert_eq!(fs::read_dir(world.path("")).expect("a folder").count(), 0);
    }
}

#[test]
fn what_cannot_be_read_is_said() {
    let server = server_with_sample();
    let world = World::new().with_store_of(&server);
    for (input, why) in [
        ("s3://bucket/missing", "no such object, and none below it"),
        ("s3://bucket/missing/*.jsonl", "no object matches this pattern"),
        ("s3://bucket/[", "at character"),
        ("ftp://host/pages.jsonl", "ftp:// is not known"),
        (&format!("{}/missing.jsonl", server.url()), "no such object"),
        (&format!("{}/pages.jsonl?a=b", server.url()), "a URL with a query"),
        ("s3:///pages.jsonl", "names no bucket"),
    ] {
        let output = world.command_without_store("cluster --out").arg(world.path("t.csv")).arg(input).output();
        let output = output.expect("starts");
        assert_eq!(output.status.code(), Some(2), "{input}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(why), "{input}: {}", text(&output.stderr));
        assert!(!world.path("t.csv.cluster").exists(), "{input} leaves something behind");
    }
}
