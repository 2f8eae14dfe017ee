//! The tokenizer and the words of whole pages against html5lib-tests.
//!
//! `LOOKALIKE_HTML5LIB_TESTS` names a checkout of <https://github.com/html5lib/html5lib-tests>; the tests of pages
//! need one from before its tree-construction tests were moved.

use super::element::{Element, ElementRole};
use super::name::TagName;
use super::scanner::{self, ContentModel, TokenSink};
use crate::document::append_words;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Collects the text that the tokenizer alone yields; no tag changes how the following text is read.
struct AllText<'o>(&'o mut String);

impl TokenSink for AllText<'_> {
    fn text(&mut self, text: &str) {
        self.0.push_str(text);
    }

    fn start_tag(&mut self, _: TagName, _: bool, _: std::ops::Range<usize>) -> ContentModel {
        ContentModel::Data
    }

    fn end_tag(&mut self, _: TagName) {}

    fn nul(&self) -> &'static str {
        "\0"
    }

    fn in_foreign_content(&self) -> bool {
        false
    }
}

#[derive(Default)]
struct Tally {
    n_equal: usize,
    n_undefined: usize,
    unequal: Vec<String>,
}

#[test]
fn text_is_that_of_html5lib_tests() {
    let Some(root) = std::env::var_os("LOOKALIKE_HTML5LIB_TESTS") else {
        println!("skipped: LOOKALIKE_HTML5LIB_TESTS names no checkout of html5lib-tests");
        return;
    };
    let mut tally = Tally::default();
    for file in test_files(&Path::new(&root).join("tokenizer"), "test") {
        let text = std::fs::read_to_string(&file).expect("a readable file");
        let suite: Value = serde_json::from_str(&replace_lone_surrogates(&text)).expect("JSON");
        // The only other key, `xmlViolationTests`, concerns output that must be XML.
        for case in suite["tests"].as_array().into_iter().flatten() {
            check(case, &mut tally);
        }
    }
    println!("{} equal, {} undefined, {} unequal", tally.n_equal, tally.n_undefined, tally.unequal.len());
    assert!(tally.n_equal > 6000 && tally.unequal.is_empty(), "{:#?}", tally.unequal);
}

fn test_files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.filter(|path| path.extension().is_some_and(|found| found == extension)).collect()
}

fn check(case: &Value, tally: &mut Tally) {
    let doubly_escaped = case["doubleEscaped"] == true;
    let string = |value: &Value| {
        let text = value.as_str().expect("a string");
        if doubly_escaped { unescape(text) } else { Some(text.to_owned()) }
    };
    let expected = characters(&case["output"]).iter().map(string).collect::<Option<String>>();
    let (Some(input), Some(expected)) = (string(&case["input"]), expected) else {
        tally.n_undefined += 1;
        return;
    };
    if input.contains(SURROGATE) {
        tally.n_undefined += 1;
        return;
    }
    for content in initial_contents(case) {
        let mut text = String::new();
        scanner::scan(&input, content, AllText(&mut text));
        if text == expected {
            tally.n_equal += 1;
        } else {
            let description = &case["description"];
            tally.unequal.push(format!("{description} {content:?} {input:?}: {expected:?}, not {text:?}"));
        }
    }
}

/// The strings of the `["Character", string]` tokens.
fn characters(output: &Value) -> Vec<Value> {
    let tokens = output.as_array().expect("tokens").iter();
    tokens.filter(|token| token[0] == "Character").map(|token| token[1].clone()).collect()
}

fn initial_contents(case: &Value) -> Vec<ContentModel> {
    let name: &'static str = case["lastStartTag"].as_str().unwrap_or("none").to_owned().leak();
    let Some(states) = case["initialStates"].as_array() else { return vec![ContentModel::Data] };
    let content = |state: &Value| match state.as_str().expect("a state's name") {
        "Data state" => ContentModel::Data,
        "RCDATA state" => ContentModel::Rcdata(name),
        "RAWTEXT state" => ContentModel::Rawtext(name),
        "Script data state" => ContentModel::Script(name),
        "CDATA section state" => ContentModel::Cdata,
        "PLAINTEXT state" => ContentModel::Plaintext,
        state => panic!("an unknown initial state: {state}"),
    };
    states.iter().map(content).collect()
}

/// Stands for a lone surrogate, which no Rust string can contain: a private character that no test uses.
const SURROGATE: char = '\u{10abcd}';

/// Replaces JSON's `\ud800`, which serde_json rejects. Pairs stay, and so do doubly escaped ones.
fn replace_lone_surrogates(json: &str) -> String {
    let mut out = String::new();
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let len = match (surrogate(rest), rest.get(6..).and_then(surrogate)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(_), _) => {
                out.push(SURROGATE);
                rest = &rest[6..];
                continue;
            }
            _ => 2,
        };
        out.push_str(&rest[..len]);
        rest = &rest[len..];
    }
    out + rest
}

fn surrogate(escape: &str) -> Option<u32> {
    let digits = escape.strip_prefix("\\u")?.get(..4)?;
    u32::from_str_radix(digits, 16).ok().filter(|code| (0xd800..=0xdfff).contains(code))
}

/// Undoes the second escape of `doubleEscaped` cases; `None` if it is a surrogate's.
fn unescape(text: &str) -> Option<String> {
    let mut parts = text.split("\\u");
    let mut out = parts.next()?.to_owned();
    for part in parts {
        let (digits, rest) = part.split_at_checked(4)?;
        out.push(char::from_u32(u32::from_str_radix(digits, 16).ok()?)?);
        out.push_str(rest);
    }
    Some(out)
}

/// How many pages have other words than their tree, all for the reasons that [`super::text`] gives.
const N_OTHERWISE_MAX: usize = 26;

#[test]
fn words_are_those_of_the_trees_of_html5lib_tests() {
    let folder = std::env::var_os("LOOKALIKE_HTML5LIB_TESTS").map(|root| Path::new(&root).join("tree-construction"));
    let mut files = folder.map(|folder| test_files(&folder, "dat")).unwrap_or_default();
    if files.is_empty() {
        println!("skipped: LOOKALIKE_HTML5LIB_TESTS names no checkout of html5lib-tests with tree-construction");
        return;
    }
    files.sort();
    let (mut n_pages, mut otherwise) = (0, Vec::new());
    for file in files {
        let bytes = std::fs::read(&file).expect("a readable file");
        for case in String::from_utf8_lossy(&bytes).split("\n\n#data\n") {
            let Some((page, expected)) = page_and_words(case.strip_prefix("#data\n").unwrap_or(case)) else { continue };
            let mut text = String::new();
            super::text::append_text(page, &mut text);
            let found = words(&text);
            n_pages += usize::from(!expected.is_empty());
            if found != expected {
                let file = file.file_name().unwrap_or_default().display();
                otherwise.push(format!("{file}: {page:?}: {expected:?}, not {found:?}"));
            }
        }
    }
    println!("{n_pages} pages with words, {} read otherwise", otherwise.len());
    assert!(n_pages > 600 && otherwise.len() <= N_OTHERWISE_MAX, "{otherwise:#?}");
}

fn words(text: &str) -> String {
    let mut words = String::new();
    append_words(text, &mut words);
    words
}

/// The page of a test and the words that a reader sees in its tree; `None` for fragments, and for tests that need
/// scripts.
fn page_and_words(case: &str) -> Option<(&str, String)> {
    let (page, rest) = case.split_once("\n#errors")?;
    let (settings, tree) = rest.split_once("#document\n")?;
    let is_page = !settings.contains("#document-fragment") && !settings.contains("#script-off");
    is_page.then(|| (page, words(&text_of_tree(tree))))
}

/// The text that a reader sees of a tree. Each line of the tree is a node, indented by two for each ancestor.
fn text_of_tree(tree: &str) -> String {
    let mut text = String::new();
    // The ancestors of the current line.
    let mut open: Vec<&Element> = Vec::new();
    for line in tree.split("\n| ").map(|line| line.strip_prefix("| ").unwrap_or(line).trim_end_matches('\n')) {
        let node = line.trim_start_matches(' ');
        while open.len() > (line.len() - node.len()) / 2 {
            separate(open.pop(), &mut text);
        }
        if let Some(quoted) = node.strip_prefix('"') {
            if !open.iter().any(|element| matches!(element.role, ElementRole::Unseen | ElementRole::Template)) {
                text.push_str(quoted.strip_suffix('"').unwrap_or(quoted));
            }
        } else if let Some(tag) = node.strip_prefix('<').filter(|tag| !tag.starts_with('!')) {
            let name = tag.trim_end_matches('>').rsplit(' ').next().unwrap_or_default();
            let element = Element::by_name(TagName::from_bytes(name.as_bytes()));
            separate(Some(element), &mut text);
            open.push(element);
        } else if node == "content" {
            open.push(Element::by_name(TagName::from_bytes(b"template")));
        }
    }
    text
}

fn separate(element: Option<&Element>, text: &mut String) {
    if element.is_some_and(|element| element.separates) {
        text.push(' ');
    }
}
