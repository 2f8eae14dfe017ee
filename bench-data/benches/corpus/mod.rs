//! The texts of the benchmarks: the plain text of the pages in `bench-data`, and paragraphs in other scripts.

use lookalike::document::append_html_text;
use std::io::BufReader;
use std::path::Path;

/// The text of each page of a file of `bench-data`.
pub fn texts(name: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("bench-data").join(name);
    let file = std::fs::File::open(&path).expect("bench-data is checked in");
    let lines = zstd::decode_all(BufReader::new(file)).expect("zstd");
    let pages = serde_json::Deserializer::from_slice(&lines).into_iter::<serde_json::Value>();
    let text = |page: serde_json::Value| {
        let mut text = String::new();
        append_html_text(page["body"].as_str().expect("every page has a body"), &mut text);
        text
    };
    pages.map(|page| text(page.expect("JSON"))).collect()
}

/// English: documentation of npm and SQLAlchemy.
pub fn english() -> Vec<String> {
    texts("sweep-3-2017-09-01.jsonl.zst")
}
