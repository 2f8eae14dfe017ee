//! The rooms of the house: who may import whom, and which crate is named only where. Read from the sources.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Module → the modules of this crate that it may name.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("document", &[]),
    ("sketch", &["document"]),
    ("cluster", &["document", "sketch"]),
    ("sweep", &["document", "sketch"]),
    ("wire", &["document", "cluster", "sweep"]),
    ("intake", &["document", "sketch", "sweep", "wire"]),
    ("ports", PURE),
    ("store", PURE_AND_PORTS),
    ("kafka", PURE_AND_PORTS),
    ("files", PURE_AND_PORTS),
    ("pipeline", PURE_AND_PORTS),
    ("backfill", PURE_AND_PORTS),
    ("query", PURE_AND_PORTS),
    ("http", &["document", "sketch", "cluster", "sweep", "wire", "ports", "query"]),
    ("config", &["document", "sketch", "cluster", "sweep", "ports", "wire", "store", "kafka", "pipeline", "http"]),
    (
        "cli",
        &[
            "document", "sketch", "cluster", "sweep", "wire", "intake", "ports", "store", "kafka", "files", "pipeline",
            "backfill", "query", "config", "http",
        ],
    ),
];
const PURE: &[&str] = &["document", "sketch", "cluster", "sweep", "wire", "intake"];
const PURE_AND_PORTS: &[&str] = &["document", "sketch", "cluster", "sweep", "wire", "intake", "ports"];

/// Crate → the modules that may name it.
const ONLY_IN: &[(&str, &[&str])] = &[
    ("rocksdb", &["store"]),
    ("rdkafka", &["kafka"]),
    ("clap", &["cli"]),
    ("clap_complete", &["cli"]),
    ("clap_mangen", &["cli"]),
    ("anyhow", &["cli"]),
    ("indicatif", &["cli"]),
    ("libc", &["cli"]),
    ("rustix", &["cli", "backfill"]),
    ("axum", &["http"]),
    ("hyper", &["http"]),
    ("hyper_util", &["http"]),
    ("http_body_util", &["http"]),
    ("tokio", &["http", "cli"]),
    ("fastwarc", &["files"]),
    ("flate2", &["files"]),
    ("glob", &["files"]),
    ("walkdir", &["files"]),
    ("zstd", &["files", "backfill"]),
    ("toml", &["config", "cli"]),
    ("crossbeam", &["pipeline", "backfill", "files"]),
    ("metrics", &["pipeline", "store", "http", "cli"]),
    ("html5gum", &["document"]),
    ("encoding_rs", &["document"]),
];

/// A panel whose metric has another name by now is empty, and nobody knows why.
#[test]
fn what_the_dashboards_show_is_told() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dashboard = fs::read_to_string(root.join("deploy/compose/dashboard.json")).expect("a dashboard");
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let names: BTreeSet<&str> = dashboard
        .match_indices("lookalike_")
        .map(|(at, _)| dashboard[at..].split(|c| !is_name(c)).next().expect("a name"))
        .collect();
    assert!(names.len() > 5, "{names:?}");
    let mut sources = String::new();
    for room in ["cli", "http", "kafka", "pipeline", "store"] {
        for file in
            fs::read_dir(root.join("src").join(room)).expect("a folder").map(|file| file.expect("a file").path())
        {
            if file.is_file() {
                sources += &fs::read_to_string(file).expect("text");
            }
        }
    }
    for name in names {
        let name = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        assert!(sources.contains(&format!("\"{name}\"")), "the dashboard shows {name}, which nobody tells");
    }
}

/// What no pure room may name: I/O, threads, clocks, logs.
const NOT_PURE: &[&str] = &["std::fs", "std::io", "std::net", "std::thread", "std::time", "std::env", "tracing"];

struct Source {
    path: PathBuf,
    module: String,
    text: String,
}

fn sources() -> Vec<Source> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    walk(&root, &mut paths);
    paths.sort();
    let source = |path: PathBuf| {
        let inside = path.strip_prefix(&root).expect("inside");
        let first = inside.components().next().expect("a name").as_os_str().to_string_lossy().into_owned();
        let module = first.trim_end_matches(".rs").to_string();
        let text = fs::read_to_string(&path).expect("text");
        Source { path, module, text }
    };
    let sources: Vec<Source> = paths.into_iter().map(source).collect();
    let only_for_tests: BTreeSet<PathBuf> = sources.iter().flat_map(test_modules).collect();
    let is_for_tests =
        |path: &Path| only_for_tests.iter().any(|test| path.starts_with(test) || path.with_extension("") == *test);
    sources.into_iter().filter(|source| !is_for_tests(&source.path)).collect()
}

/// The modules that a file declares for its tests alone, as paths without an extension.
fn test_modules(source: &Source) -> Vec<PathBuf> {
    let is_root = source.path.file_stem().is_some_and(|stem| stem == "mod" || stem == "lib");
    let folder = if is_root { source.path.with_file_name("") } else { source.path.with_extension("") };
    let declared = source.text.split("#[cfg(test)]\nmod ").skip(1);
    declared.filter_map(|rest| rest.split_once(';')).map(|(name, _)| folder.join(name)).collect()
}

/// The lines that are code, up to the file's tests.
fn code(source: &Source) -> impl Iterator<Item = &str> {
    let lines = source.text.lines().take_while(|line| line.trim() != "#[cfg(test)]");
    lines.filter(|line| !line.trim_start().starts_with("//"))
}

/// The names that follow `crate::` in the code.
fn imports(source: &Source) -> BTreeSet<String> {
    let text = code(source).collect::<Vec<_>>().join("\n");
    let name = |rest: &str| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let mut names = BTreeSet::new();
    for rest in text.split("crate::").skip(1) {
        if let Some(list) = rest.strip_prefix('{') {
            let mut depth = 1;
            let mut at_start = true;
            for (at, c) in list.char_indices() {
                match c {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    _ => {}
                }
                if depth == 0 {
                    break;
                }
                if at_start && c.is_alphabetic() {
                    names.insert(name(&list[at..]));
                }
                at_start = depth == 1 && (c == ',' || (at_start && c.is_whitespace()));
            }
            names.insert(name(list.trim_start()));
        } else {
            names.insert(name(rest));
        }
    }
    names
}

fn names_crate(source: &Source, name: &str) -> bool {
    let path = format!("{name}::");
    code(source).any(|line| {
        line.match_indices(&path).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':')
        })
    })
}

#[test]
fn every_room_imports_only_what_it_may() {
    for source in sources() {
        if matches!(source.module.as_str(), "lib" | "main") {
            continue;
        }
        let (_, allowed) = MAY_IMPORT
            .iter()
            .find(|(module, _)| *module == source.module)
            .unwrap_or_else(|| panic!("{} is in no room that this test knows", source.path.display()));
        for name in imports(&source) {
            let ok = name == source.module || allowed.contains(&name.as_str());
            assert!(ok, "{} imports `{name}`, but `{}` may not", source.path.display(), source.module);
        }
    }
}

#[test]
fn crates_are_named_only_where_they_belong() {
    for source in sources() {
        for (name, modules) in ONLY_IN {
            let ok = modules.contains(&source.module.as_str()) || !names_crate(&source, name);
            assert!(ok, "{} names the crate `{name}`, which belongs in {modules:?}", source.path.display());
        }
    }
}

#[test]
fn the_pure_rooms_are_pure() {
    for source in sources().iter().filter(|source| PURE.contains(&source.module.as_str())) {
        for name in NOT_PURE {
            let named = code(source).any(|line| line.contains(name));
            assert!(!named, "{} names `{name}`", source.path.display());
        }
    }
}

#[test]
fn every_file_says_what_it_is_for() {
    for source in sources() {
        assert!(source.text.starts_with("//! "), "{} does not begin with a sentence", source.path.display());
    }
}

/// The test itself: it must see what it forbids.
#[test]
fn imports_are_seen_in_every_form() {
    let text =
        "use crate::store::A;\nuse crate::{kafka, wire::{B, C}, files::D};\nfn f() { crate::query::g() }\n// crate::no";
    let source = Source { path: "x.rs".into(), module: "document".into(), text: text.into() };
    let seen: Vec<String> = imports(&source).into_iter().collect();
    assert_eq!(seen, ["files", "kafka", "query", "store", "wire"]);
    assert!(names_crate(&Source { text: "use rocksdb::DB;".into(), ..source }, "rocksdb"));
}
