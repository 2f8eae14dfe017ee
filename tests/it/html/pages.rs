//! Pages for tests and benchmarks of HTML: real ones from data sets, and hostile ones of one MiB.

#![allow(clippy::expect_used, reason = "a test that cannot go on fails")]

use std::io::BufRead;
use std::path::{Path, PathBuf};

/// The HTML pages of a file of zstd-compressed JSON lines.
pub(crate) fn of_file(file: &Path) -> impl Iterator<Item = String> + use<> {
    let file = std::fs::File::open(file).expect("a data set");
    let mut decoder = zstd::Decoder::new(file).expect("zstd");
    decoder.window_log_max(27).expect("a known parameter");
    let lines = std::io::BufReader::new(decoder).lines();
    lines.filter_map(|line| body(&line.expect("UTF-8")))
}

fn body(line: &str) -> Option<String> {
    let record: serde_json::Value = serde_json::from_str(line).expect("JSON");
    let is_html = record["content_type"].as_str().is_none_or(|content_type| content_type.starts_with("text/html"));
    record["body"].as_str().filter(|_| is_html).map(str::to_owned)
}

/// The first pages, up to `bytes_max` bytes together.
#[allow(dead_code, reason = "not every program reads a part only")]
pub(crate) fn up_to(bytes_max: usize, pages: impl Iterator<Item = String>) -> Vec<String> {
    let mut n_bytes = 0;
    let is_within = |page: &String| {
        n_bytes += page.len();
        n_bytes <= bytes_max
    };
    pages.take_while(is_within).collect()
}

/// The data sets in the directory that `LOOKALIKE_DATA` names: names and page files, sorted.
pub(crate) fn data_sets() -> Vec<(String, Vec<PathBuf>)> {
    let Some(root) = std::env::var_os("LOOKALIKE_DATA") else {
        println!("skipped: LOOKALIKE_DATA names no directory of data sets");
        return Vec::new();
    };
    let sets = entries(Path::new(&root)).into_iter().filter(|path| path.is_dir());
    let named =
        sets.map(|set| (name(&set).to_owned(), entries(&set).into_iter().filter(|file| holds_pages(file)).collect()));
    named.filter(|(_, files): &(_, Vec<_>)| !files.is_empty()).collect()
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let read = std::fs::read_dir(dir).expect("a directory");
    let mut paths: Vec<_> = read.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

fn holds_pages(file: &Path) -> bool {
    name(file).ends_with(".jsonl.zst") && !["lost.", "truth."].iter().any(|other| name(file).starts_with(other))
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).expect("a name in UTF-8")
}

/// A flat page and hostile ones, each about one MiB.
#[allow(dead_code, reason = "not every program that reads the pages wants the hostile ones")]
pub(crate) fn hostile() -> Vec<(&'static str, String)> {
    const LEN: usize = 1 << 20;
    let words = "some words of a page with nothing wrong in it ";
    let repeated = |head: &str, part: &str| head.to_owned() + &part.repeat(LEN / part.len());
    vec![
        ("flat", repeated("", "<p>Some words in a flat <a href=\"page\">page</a> of plain paragraphs</p>\n")),
        ("nested lists", repeated("", "<ul><li>")),
        ("nested svg", repeated("", "<svg><desc>")),
        ("nested templates", repeated("", "<template>")),
        ("unclosed quote", repeated("<a href=\"", words)),
        ("unclosed comment", repeated("<!-- ", words)),
        ("unclosed script", repeated("<script>", words)),
        ("attributes", repeated("<a ", "b ")),
        ("attributes with values", repeated("<a ", "b=c ")),
        ("equals signs", repeated("<a ", " =")),
        ("slashes", repeated("<a ", "/=")),
        ("spaces before equals signs", repeated("<a ", " a      = ")),
        ("references", repeated("", "&lt;")),
        ("numeric references", repeated("", "&#65;")),
        ("references without semicolon", repeated("", "&lt")),
        ("short unknown references", repeated("", "&ab")),
        ("unknown references", repeated("", "&abcdef")),
        ("long numeric reference", repeated("&#", "9")),
        ("<", repeated("", "<")),
        ("< and a letter", repeated("", "<a")),
        ("empty tags", repeated("", "<a>")),
        ("empty blocks", repeated("", "<p>")),
        ("open navigation", repeated("", "<nav>a")),
        ("roles", repeated("", "<div role=main>a")),
        ("links", (0..LEN / 25).map(|n| format!("<a href=/{n:06}>rose</a> ")).collect()),
        ("links over blocks", repeated("<a href=/x>", "a<p>")),
        ("names with commas", repeated("<p>", "a,")),
        ("names with dashes", repeated("", "<a-b>")),
        ("empty attributes", repeated("<a ", "b=''")),
        ("</", repeated("", "</")),
        ("</>", repeated("", "</>")),
        ("<!", repeated("", "<!>")),
        ("<!--", repeated("", "<!--")),
        ("> in a comment", repeated("<!-- ", ">")),
        ("-> in a comment", repeated("<!-- ", "->")),
        ("&", repeated("", "&")),
        ("</scrip in script", repeated("<script>", "</scrip")),
        ("</script in script", repeated("<script>", "</script")),
        ("<script in a comment in script", repeated("<script><!--", "<script>")),
        ("comments in script", repeated("<script>", "<!---->")),
        ("< in title", repeated("<title>", "<")),
        ("]] in CDATA", repeated("<svg><![CDATA[", "]]")),
        ("one word", repeated("", "a ")),
        ("digits", repeated("", "7")),
        ("accents", repeated("", "e\u{301}")),
        ("marks", repeated("a", "\u{301}")),
        ("Han", repeated("", "漢")),
        ("half-width kana", repeated("", "ｶﾞ")),
        ("İ", repeated("", "İ")),
        ("line ends", repeated("", "\r")),
        ("NUL", repeated("", "\0")),
    ]
}

/// Hostile pages that are not UTF-8, each about one MiB, without a label.
#[allow(dead_code, reason = "not every program that reads the pages wants these")]
pub(crate) fn hostile_bytes() -> Vec<(&'static str, Vec<u8>)> {
    const LEN: usize = 1 << 20;
    let repeated = |part: &[u8]| part.repeat(LEN / part.len());
    let mut state = 0_u64;
    let random = std::iter::repeat_with(|| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        state.to_be_bytes()[0]
    });
    vec![
        ("overlong UTF-8", repeated(b"\xc0\xaf")),
        ("overlong UTF-8 behind a mark", [&b"\xef\xbb\xbf"[..], &repeated(b"\xc0\xaf")].concat()),
        ("UTF-8 with a byte too few in each character", repeated(b"\xe6\xbc")),
        ("good UTF-8 and broken", repeated(b"\xc3\xa9\xc3\xa9\xc3\xa9\xff")),
        ("random bytes", random.take(LEN).collect()),
        ("unlabelled Latin-1", repeated(b"Gr\xfc\xdfe aus dem m\xfcden M\xfcnchen ")),
        ("unlabelled KOI8-R", repeated(b"\xf3\xdf\xc5\xdb\xd8 \xd6\xc5 \xc5\xdd\xa3 \xdc\xd4\xc9\xc8 ")),
        ("unlabelled Shift_JIS", repeated(b"\x82\xb1\x82\xea\x82\xcd\x93\xfa\x96\x7b\x8c\xea\x82\xc5\x82\xb7")),
        ("half-width kana in Shift_JIS", repeated(b"\xb6\xde")),
        ("ISO-2022-JP", repeated(b"\x1b$B$3$l$OF|K\\8l$G$9\x1b(B <p>")),
    ]
}
