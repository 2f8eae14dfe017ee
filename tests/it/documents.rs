//! The documents: links lead somewhere, what they list is what the program has, and what they show to run does run.
//!
//! `UPDATE_DOCS=1 cargo test --release --test it documents` writes the generated pages anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The longest README that a visitor reads to its end.
const README_LINES_MAX: usize = 120;

/// Folders that hold no documents of the project.
const PASSED_OVER: &[&str] = &["target", "corpus", "artifacts"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All files below a folder with this extension.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() {
            if !name.starts_with('.') && !PASSED_OVER.contains(&name.as_str()) && !name.ends_with(".store") {
                found.extend(files(&path, extension));
            }
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The lines of a page outside its code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// A line without its `code`, whose brackets and parentheses are no links.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("code")
}

/// The targets of a page's links and pictures.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(text) {
        let line = without_code(line);
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        found.extend(targets.map(|(target, _)| target.to_string()));
    }
    found
}

/// The anchors of a page's headings, as forges make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for heading in prose(text).filter(|line| line.starts_with('#')) {
        let title = heading.trim_start_matches('#').trim().to_lowercase();
        let slug: String = title
            .chars()
            .filter_map(|c| match c {
                ' ' => Some('-'),
                c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
                _ => None,
            })
            .collect();
        let numbered = (1..).map(|n| format!("{slug}-{n}"));
        let anchor = std::iter::once(slug.clone()).chain(numbered).find(|anchor| !found.contains(anchor));
        found.extend(anchor);
    }
    found
}

#[test]
fn every_link_leads_somewhere() {
    let pages = files(root(), "md");
    assert!(pages.len() > 15, "{pages:?}");
    let mut broken = Vec::new();
    for page in &pages {
        let text = fs::read_to_string(page).expect("text");
        for link in links(&text) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = link.split_once('#').map_or((link.as_str(), None), |(path, at)| (path, Some(at)));
            let target = if path.is_empty() { page.clone() } else { page.with_file_name("").join(path) };
            let is_there = target.exists()
                && anchor.is_none_or(|anchor| {
                    target.extension().is_some_and(|extension| extension == "md")
                        && anchors(&fs::read_to_string(&target).expect("text")).contains(anchor)
                });
            if !is_there {
                broken.push(format!("{}: {link}", page.strip_prefix(root()).expect("inside").display()));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
}

#[test]
fn every_page_of_docs_is_linked() {
    let pages = files(root(), "md");
    let mut linked = BTreeSet::new();
    for page in &pages {
        for link in links(&fs::read_to_string(page).expect("text")) {
            let path = link.split('#').next().unwrap_or_default();
            linked.extend(page.with_file_name("").join(path).canonicalize());
        }
    }
    let docs = root().join("docs");
    for page in pages.iter().filter(|page| page.starts_with(&docs)) {
        assert!(linked.contains(&page.canonicalize().expect("a path")), "no page links to {}", page.display());
    }
}

#[test]
fn the_readme_is_short() {
    let n_lines = read("README.md").lines().count();
    assert!(n_lines <= README_LINES_MAX, "README.md has {n_lines} lines; move some to docs/");
}

/// Where the first `#` outside of quotes begins a comment.
fn value_and_comment(line: &str) -> (&str, &str) {
    let mut is_quoted = false;
    for (at, c) in line.char_indices() {
        match c {
            '"' => is_quoted = !is_quoted,
            '#' if !is_quoted => return (line[..at].trim(), line[at + 1..].trim()),
            _ => {}
        }
    }
    (line.trim(), "")
}

/// A comment in a cell of a table: keys and the like in it are code already or are left as they are.
fn cell(comment: &str) -> String {
    comment.replace('|', "\\|").replace('<', "&lt;")
}

/// A comment as a paragraph.
fn sentence(comment: &str) -> String {
    let mut letters = comment.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    let rest = cell(letters.as_str().trim_end_matches('.'));
    format!("{first}{rest}.")
}

/// A section of config/default.toml: its name, what is said of it, and its keys, each with its default and its meaning.
struct Section {
    name: String,
    about: String,
    keys: Vec<(String, String, String)>,
}

/// docs/reference/configuration.md, from config/default.toml.
fn configuration_page() -> String {
    let mut sections: Vec<Section> = Vec::new();
    for line in read("config/default.toml").lines() {
        let (value, comment) = value_and_comment(line);
        if let Some(name) = value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            sections.push(Section { name: name.to_string(), about: comment.to_string(), keys: Vec::new() });
            continue;
        }
        let Some(Section { about, keys, .. }) = sections.last_mut() else { continue };
        if let Some((key, value)) = value.split_once('=') {
            keys.push((key.trim().to_string(), value.trim().to_string(), comment.to_string()));
        } else if !comment.is_empty() {
            let text = keys.last_mut().map_or(about, |(_, _, comment)| comment);
            *text = format!("{text} {comment}").trim().to_string();
        }
    }
    let mut page = String::from(
        "# Configuration keys\n\n\
         <!-- Generated from config/default.toml by UPDATE_DOCS=1 cargo test --no-default-features --test it documents -->\n\n\
         Every key, its default and its meaning, as in [`config/default.toml`](../../config/default.toml). The environment sets a \
         key, too:\n`LOOKALIKE__SKETCH__W=8` sets `sketch.w`. See the [guide](../guide/configuration.md) for files and profiles.\n",
    );
    for Section { name, about, keys } in sections {
        page += &format!("\n## {name}\n\n");
        if !about.is_empty() {
            page += &format!("{}\n\n", sentence(&about));
        }
        if keys.is_empty() {
            continue;
        }
        page += "| key | default | meaning |\n|---|---|---|\n";
        for (key, value, comment) in keys {
            page += &format!("| `{name}.{key}` | `{value}` | {} |\n", cell(&comment));
        }
    }
    page
}

/// Holds a generated page against what is there, or writes it where UPDATE_DOCS says so.
fn check_generated(path: &str, page: &str) {
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(root().join(path), page).expect("written");
    }
    let found = fs::read_to_string(root().join(path)).unwrap_or_default();
    let differing = found.lines().zip(page.lines()).find(|(found, wanted)| found != wanted);
    assert!(found == page, "{path} is not current: run this test with UPDATE_DOCS=1. First difference: {differing:?}");
}

#[test]
fn every_configuration_key_is_documented() {
    check_generated("docs/reference/configuration.md", &configuration_page());
}

/// The words `lookalike_…` of a text that stand as a whole between `before` and `after`.
fn metrics_between(text: &str, before: &str, after: char) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let begin = format!("{before}lookalike_");
    let names = text.match_indices(&begin).filter_map(|(at, _)| {
        let rest = &text[at + before.len()..];
        let name = &rest[..rest.find(|c| !is_name(c))?];
        rest[name.len()..].starts_with(after).then(|| name.to_string())
    });
    names.collect()
}

#[test]
fn every_metric_is_documented() {
    let mut sources = String::new();
    for file in files(&root().join("src"), "rs") {
        sources += &fs::read_to_string(file).expect("text");
    }
    let served = metrics_between(&sources, "\"", '"');
    let documented = metrics_between(&read("docs/reference/metrics.md"), "| `", '`');
    assert!(served.len() > 20, "{served:?}");
    let missing: Vec<_> = served.difference(&documented).collect();
    let unknown: Vec<_> = documented.difference(&served).collect();
    assert!(missing.is_empty(), "docs/reference/metrics.md lacks {missing:?}");
    assert!(unknown.is_empty(), "docs/reference/metrics.md names {unknown:?}, which the program does not serve");
}

/// A metric that prose or a dashboard names must be one that exists.
#[test]
fn documents_name_metrics_that_exist() {
    let known = metrics_between(&read("docs/reference/metrics.md"), "| `", '`');
    for page in files(root(), "md") {
        if page.ends_with("CHANGELOG.md") {
            continue;
        }
        let text = fs::read_to_string(&page).expect("text");
        for after in ['`', ' ', '{', ')'] {
            for before in ["`", "(", "("] {
                for name in metrics_between(&text, before, after) {
                    assert!(known.contains(&name), "{} names {name}", page.display());
                }
            }
        }
    }
}

#[test]
fn every_exit_code_is_documented() {
    let sources: Vec<String> =
        files(&root().join("src/cli"), "rs").iter().map(|file| fs::read_to_string(file).expect("text")).collect();
    let body = sources.iter().find_map(|text| text.split_once("enum Exit {")).expect("the codes").1;
    let body = body.split_once("\n}").expect("an end").0;
    let codes: BTreeSet<u8> = body
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .filter_map(|line| line.split_once(" = "))
        .map(|(_, code)| code.trim_end_matches(',').parse().expect("a code"))
        .collect();
    let documented: BTreeSet<u8> = read("docs/reference/exit-codes.md")
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split_once(' ')?.0.parse().ok())
        .collect();
    assert!(codes.len() > 5, "{codes:?}");
    assert_eq!(codes, documented, "the program's exit codes, and those of docs/reference/exit-codes.md");
}

/// Wrong once: the alarm left out 2, 19 and 20, and said that 14 waits.
#[test]
fn all_say_which_exit_codes_wait_for_an_operator() {
    let service = read("deploy/lookalike.service");
    assert!(service.contains("\nRestartPreventExitStatus=2 10 11 12 13 15 16 17 18 19 20\n"), "{service}");
    for page in ["deploy/compose/alerts.yaml", "docs/reference/exit-codes.md"] {
        assert!(read(page).contains("2, 10 to 13 and 15 to 20"), "{page}");
    }
}

/// The commands of a page that are marked to be run, each with the line on which it begins.
fn marked_to_run(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((_, line)) = lines.next() {
        if line.trim() != "<!-- run -->" {
            continue;
        }
        let (at, fence) = lines.next().expect("a block behind <!-- run -->");
        assert_eq!(fence.trim(), "```sh", "line {}: what is marked to be run is a block of sh", at + 1);
        let commands = lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != "```");
        found.push((at + 2, commands.collect::<Vec<_>>().join("\n")));
    }
    found
}

#[test]
fn some_blocks_are_marked_to_be_run() {
    let marked: BTreeMap<PathBuf, usize> = files(root(), "md")
        .into_iter()
        .map(|page| (page.clone(), marked_to_run(&fs::read_to_string(page).expect("text")).len()))
        .filter(|(_, n_blocks)| *n_blocks > 0)
        .collect();
    assert!(marked.contains_key(&root().join("README.md")), "{marked:?}");
    assert!(marked.len() > 3, "{marked:?}");
}

#[cfg(feature = "service")]
mod with_the_program {
    use super::*;
    use std::process::{Command, Stdio};
    use tempfile::TempDir;

    /// What the blocks may use of the repository.
    const LENT: &[&str] = &["bench-data", "config", "deploy", "README.md"];

    /// A folder in which the program is found by its name, with what the blocks use.
    fn workplace() -> TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let link = |from: &Path, to: &str| std::os::unix::fs::symlink(from, folder.path().join(to)).expect("a link");
        for name in LENT {
            link(&root().join(name), name);
        }
        fs::create_dir(folder.path().join("bin")).expect("a folder");
        link(Path::new(env!("CARGO_BIN_EXE_lookalike")), "bin/lookalike");
        folder
    }

    fn shell(folder: &Path, commands: &str) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("bash");
        command.args(["-euo", "pipefail", "-c", commands]).current_dir(folder).stdin(Stdio::null());
        command.env("PATH", format!("{}:{path}", folder.join("bin").display())).env_remove("COLUMNS");
        command
    }

    /// The blocks of a page follow on each other in one folder, as a reader types them.
    #[test]
    fn what_is_marked_to_be_run_runs() {
        for page in files(root(), "md") {
            let folder = workplace();
            for (line, commands) in marked_to_run(&fs::read_to_string(&page).expect("text")) {
                let output = shell(folder.path(), &commands).output().expect("bash");
                let told = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{}, line {line}: {}\n{told}", page.display(), output.status);
            }
        }
    }

    /// `--help` of a command and of all below it, each under its name.
    fn help_of(folder: &Path, command: &str, page: &mut String) {
        let output = shell(folder, &format!("{command} --help")).output().expect("bash");
        assert!(output.status.success(), "{command} --help");
        let text = String::from_utf8(output.stdout).expect("text");
        let text: Vec<&str> = text.lines().map(str::trim_end).collect();
        *page += &format!("\n## {command}\n\n```text\n{}\n```\n", text.join("\n").trim_end());
        let commands = text.iter().skip_while(|line| **line != "Commands:").skip(1).take_while(|line| !line.is_empty());
        // A description that goes on in the next line is indented further than the names.
        let names = commands.filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
        for name in names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help") {
            help_of(folder, &format!("{command} {name}"), page);
        }
    }

    #[test]
    fn the_command_line_is_documented() {
        let folder = workplace();
        let mut page = String::from(
            "# Command line\n\n\
             <!-- Generated from --help by UPDATE_DOCS=1 cargo test --release --test it documents -->\n\n\
             What `--help` prints for every command. [Exit codes](exit-codes.md) has all codes in one table.\n",
        );
        help_of(folder.path(), "lookalike", &mut page);
        check_generated("docs/reference/cli.md", &page);
    }
}
