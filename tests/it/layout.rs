//! The rooms of the house: who may import whom, and which crate is named only where. Read from the sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Module → the modules of this crate that it may name.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("codec", &[]),
    ("document", &[]),
    ("sketch", &["codec", "document"]),
    ("cluster", &["document", "sketch"]),
    ("sweep", &["document", "sketch"]),
    ("related", &["codec", "document"]),
    ("history", &["document", "sketch", "cluster", "sweep"]),
    ("wire", &["codec", "document", "cluster", "sweep", "history"]),
    ("intake", &["codec", "document", "sketch", "sweep", "related", "wire"]),
    ("ports", PURE),
    ("store", PURE_AND_PORTS),
    ("kafka", PURE_AND_PORTS),
    ("objects", &[]),
    (
        "files",
        &[
            "codec", "document", "sketch", "cluster", "sweep", "related", "history", "wire", "intake", "ports",
            "objects",
        ],
    ),
    ("pipeline", PURE_AND_PORTS),
    ("extsort", &["codec"]),
    ("backfill", &["codec", "document", "sketch", "cluster", "sweep", "related", "wire", "intake", "ports", "extsort"]),
    ("dedup", &["codec", "document", "sketch", "wire", "ports", "extsort"]),
    ("query", PURE_AND_PORTS),
    ("standby", PURE_AND_PORTS),
    ("bag_refresh", &["document", "related", "ports", "query"]),
    ("watch", PURE_AND_PORTS),
    ("http", &["document", "sketch", "cluster", "sweep", "related", "wire", "ports", "query"]),
    (
        "config",
        &[
            "document", "sketch", "cluster", "sweep", "related", "intake", "ports", "wire", "store", "kafka",
            "pipeline", "watch", "http",
        ],
    ),
    (
        "cli",
        &[
            "document",
            "sketch",
            "cluster",
            "sweep",
            "related",
            "history",
            "wire",
            "intake",
            "ports",
            "store",
            "kafka",
            "files",
            "objects",
            "pipeline",
            "backfill",
            "dedup",
            "query",
            "standby",
            "bag_refresh",
            "watch",
            "config",
            "http",
        ],
    ),
];
const PURE: &[&str] = &["codec", "document", "sketch", "cluster", "sweep", "related", "history", "wire", "intake"];
const PURE_AND_PORTS: &[&str] =
    &["codec", "document", "sketch", "cluster", "sweep", "related", "history", "wire", "intake", "ports"];

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
    ("rustix", &["cli", "backfill", "store"]),
    ("axum", &["http"]),
    ("hyper", &["watch", "http"]),
    ("hyper_util", &["watch", "http"]),
    ("http_body_util", &["watch", "http"]),
    ("tower_http", &["http"]),
    ("tokio", &["watch", "http", "cli", "objects"]),
    ("tokio_native_tls", &["watch"]),
    ("object_store", &["objects"]),
    ("futures_util", &["objects"]),
    ("fastwarc", &["files"]),
    ("flate2", &["files"]),
    ("parquet", &["files"]),
    ("arrow_array", &["files"]),
    ("arrow_cast", &["files"]),
    ("arrow_schema", &["files"]),
    ("glob", &["files"]),
    ("twox_hash", &["files"]),
    ("walkdir", &["files"]),
    ("zstd", &["extsort", "files", "store"]),
    ("toml", &["config", "cli"]),
    ("crossbeam", &["pipeline", "backfill", "files"]),
    ("memmap2", &["store"]),
    ("metrics", &["bag_refresh", "pipeline", "store", "watch", "http", "cli"]),
    ("html5gum", &["document"]),
    ("encoding_rs", &["document"]),
];

/// Lost if this fails: a panel or an alarm whose metric has another name by now is silent, and nobody knows why.
#[test]
fn what_the_dashboards_and_alarms_name_is_told() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = String::new();
    for room in ["bag_refresh", "cli", "http", "kafka", "pipeline", "standby", "store", "watch"] {
        for file in
            fs::read_dir(root.join("src").join(room)).expect("a folder").map(|file| file.expect("a file").path())
        {
            if file.is_file() {
                sources += &fs::read_to_string(file).expect("text");
            }
        }
    }
    for shown in ["dashboard.json", "alerts.yaml"] {
        let text = fs::read_to_string(root.join("deploy/compose").join(shown)).expect(shown);
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let names: BTreeSet<&str> = text
            .match_indices("lookalike_")
            .map(|(at, _)| text[at..].split(|c| !is_name(c)).next().expect("a name"))
            .collect();
        assert!(names.len() > 5, "{names:?}");
        for name in names {
            let name = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
            assert!(sources.contains(&format!("\"{name}\"")), "{shown} names {name}, which nobody tells");
        }
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

/// How many lines a function may have, its signature and braces included.
const FUNCTION_LINES_MAX: usize = 70;

#[test]
fn functions_are_short() {
    for source in sources() {
        for (name, n_lines) in functions(&source) {
            let path = source.path.display();
            assert!(
                n_lines <= FUNCTION_LINES_MAX,
                "{path}: `{name}` has {n_lines} lines, more than {FUNCTION_LINES_MAX}"
            );
        }
    }
}

/// The functions of a file and their lines. rustfmt puts the closing brace under the signature's first letter.
fn functions(source: &Source) -> Vec<(String, usize)> {
    let lines: Vec<&str> = source.text.lines().take_while(|line| line.trim() != "#[cfg(test)]").collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some((before, rest)) = line.split_once("fn ") else { continue };
        let is_signature = before.split_whitespace().all(|word| {
            matches!(word, "pub" | "pub(super)" | "pub(crate)" | "const" | "async" | "unsafe" | "extern" | "\"C\"")
        });
        if !is_signature || line.trim_end().ends_with(';') || line.trim_end().ends_with('}') {
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let end =
            lines[at..].iter().position(|line| **line == format!("{indent}}}") || **line == format!("{indent}}};"));
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        found.extend(end.map(|end| (name, end + 1)));
    }
    found
}

/// A circle of files cannot be read from any end. `mod.rs` counts: it declares and re-exports its children, so no child may
/// import from it.
#[test]
fn files_import_each_other_in_no_circle() {
    let sources = sources();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let modules: BTreeMap<Vec<String>, &Source> =
        sources.iter().map(|source| (module_path(&source.path, &root), source)).collect();
    let imports: BTreeMap<&[String], BTreeSet<&[String]>> =
        modules.iter().map(|(module, source)| (module.as_slice(), imported_files(module, source, &modules))).collect();
    let mut done: BTreeSet<&[String]> = BTreeSet::new();
    for module in imports.keys() {
        let circle = circle_from(module, &imports, &mut Vec::new(), &mut done);
        assert_eq!(circle, None, "these files import each other");
    }
}

/// `src/store/check/mod.rs` → `["store", "check"]`.
fn module_path(path: &Path, root: &Path) -> Vec<String> {
    let inside = path.strip_prefix(root).expect("inside").with_extension("");
    let mut parts: Vec<String> = inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if parts.last().is_some_and(|last| last == "mod" || last == "lib") {
        parts.pop();
    }
    parts
}

/// The other files of its room that a file imports from.
fn imported_files<'m>(
    module: &[String],
    source: &Source,
    modules: &'m BTreeMap<Vec<String>, &Source>,
) -> BTreeSet<&'m [String]> {
    let Some(room) = module.first() else { return BTreeSet::new() };
    let children = modules.keys().filter(|other| other.len() == module.len() + 1 && other.starts_with(module));
    // What `mod.rs` re-exports or uses of its children.
    let mut found: BTreeSet<&[String]> = children
        .filter(|child| {
            let name = format!("{}::", child.last().expect("a name"));
            code(source).any(|line| names_path(line, &name))
        })
        .map(Vec::as_slice)
        .collect();
    for path in paths(source) {
        let absolute: Vec<String> = match path.first().map(String::as_str) {
            Some("crate") => path[1..].to_vec(),
            Some("super") => {
                let n_up = path.iter().take_while(|part| *part == "super").count();
                let Some(base) = module.len().checked_sub(n_up) else { continue };
                [&module[..base], &path[n_up..]].concat()
            }
            _ => continue,
        };
        if absolute.first() != Some(room) {
            continue;
        }
        let target = (1..=absolute.len()).rev().find_map(|n| modules.get_key_value(&absolute[..n]));
        found.extend(target.map(|(target, _)| target.as_slice()).filter(|target| *target != module));
    }
    found
}

fn names_path(line: &str, path: &str) -> bool {
    line.match_indices(path)
        .any(|(at, _)| !line[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':'))
}

/// Every path of a file that begins with `crate` or `super`, with braces expanded.
fn paths(source: &Source) -> Vec<Vec<String>> {
    let text = code(source).collect::<Vec<_>>().join("\n");
    let mut found = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in text.match_indices(start) {
            let before = &text[..at];
            let is_inside = before.chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':');
            // `pub(in crate::room)` says who may look, and imports nothing.
            if !is_inside && !before.ends_with("(in ") {
                expand(&text[at..], &mut Vec::new(), &mut found);
            }
        }
    }
    found
}

/// Expands the path, or the list of paths, at the beginning of a text; returns what is behind it.
fn expand<'t>(text: &'t str, before: &mut Vec<String>, found: &mut Vec<Vec<String>>) -> &'t str {
    let mut rest = text.trim_start();
    if let Some(list) = rest.strip_prefix('{') {
        rest = list;
        loop {
            rest = rest.trim_start_matches([',', ' ', '\n']);
            match rest.strip_prefix('}') {
                Some(behind) => return behind,
                None if rest.is_empty() => return rest,
                None => {
                    let next = expand(rest, before, found);
                    // Whatever is not a name ends the list: `as`, a macro's tokens.
                    rest = if next.len() == rest.len() { "" } else { next.trim_start_matches(" as _") };
                }
            }
        }
    }
    let n = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
    let (name, behind) = rest.split_at(n);
    before.push(name.to_string());
    let behind = match behind.strip_prefix("::") {
        Some(inner) => expand(inner, before, found),
        None => {
            found.push(before.clone());
            behind
        }
    };
    before.pop();
    behind
}

/// A circle that can be reached from a module, as the names on it.
fn circle_from<'m>(
    module: &'m [String],
    imports: &BTreeMap<&'m [String], BTreeSet<&'m [String]>>,
    way: &mut Vec<&'m [String]>,
    done: &mut BTreeSet<&'m [String]>,
) -> Option<Vec<String>> {
    if let Some(at) = way.iter().position(|other| *other == module) {
        return Some(way[at..].iter().map(|module| module.join("/")).collect());
    }
    if !done.insert(module) {
        return None;
    }
    way.push(module);
    let circle = imports[module].iter().find_map(|next| circle_from(next, imports, way, done));
    way.pop();
    circle
}

#[test]
fn circles_are_seen() {
    let source = |path: &str, text: &str| Source { path: path.into(), module: "a".into(), text: text.into() };
    let files = [
        source("src/a/mod.rs", "mod b;\nmod c;\npub use b::B;"),
        source("src/a/b.rs", "use super::{c::C, d};"),
        source("src/a/c.rs", "use crate::a::b::{self, B};"),
    ];
    let root = Path::new("src");
    let modules: BTreeMap<Vec<String>, &Source> =
        files.iter().map(|source| (module_path(&source.path, root), source)).collect();
    let imports: BTreeMap<&[String], BTreeSet<&[String]>> =
        modules.iter().map(|(module, source)| (module.as_slice(), imported_files(module, source, &modules))).collect();
    let begin = vec!["a".to_string(), "c".to_string()];
    let circle = circle_from(&begin, &imports, &mut Vec::new(), &mut BTreeSet::new());
    assert_eq!(circle.map(|circle| circle.len()), Some(2), "b and c");
    let long = source("src/a/b.rs", &format!("pub fn long() {{\n{}}}\nfn short() {{\n}}\n", "    x();\n".repeat(80)));
    assert_eq!(functions(&long), [("long".to_string(), 82), ("short".to_string(), 2)]);
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
