//! Properties that hold for any input: each function takes bytes and panics where its promise is broken.
//!
//! The fuzz targets call them with a fuzzer's inputs, `tests/it/properties.rs` with those of a fixed generator.

use lookalike::document::{self, Content, MediaType, append_html_text, append_words};
use lookalike::sketch::{self, Multiplicity, Rule, SketchForm, SketchRule};
use lookalike::wire::{Limits, parse_json_page};
use std::borrow::Cow;

/// Labels that a page may have; the empty label means none.
const LABELS: [&str; 24] = [
    "",
    "utf-8",
    "utf-16",
    "utf-16be",
    "utf-16le",
    "iso-8859-1",
    "windows-1250",
    "windows-1251",
    "windows-1253",
    "windows-1256",
    "windows-874",
    "koi8-r",
    "macintosh",
    "shift_jis",
    "euc-jp",
    "iso-2022-jp",
    "euc-kr",
    "gb18030",
    "gbk",
    "big5",
    "x-user-defined",
    "iso-2022-kr",
    "hz-gb-2312",
    "no-such-charset",
];

/// Takes the first byte, which selects a variant, so that the rest can be a real file.
fn choice(data: &[u8]) -> (usize, &[u8]) {
    data.split_first().map_or((0, data), |(first, rest)| (usize::from(*first), rest))
}

/// Bytes to text: the output is at most linear, and valid UTF-8 comes back unchanged unless something contradicts
/// it.
pub fn decode(data: &[u8]) {
    let (choice, bytes) = choice(data);
    let label = Some(LABELS[choice % LABELS.len()]).filter(|label| !label.is_empty());
    let media_type = [MediaType::PlainText, MediaType::Html, MediaType::Unknown][choice / LABELS.len() % 3];
    let text = document::decode(bytes, label, media_type);
    // The worst case is U+FFFD for every byte.
    assert!(text.len() <= 3 * bytes.len() + 4, "{} bytes of {}", text.len(), bytes.len());
    assert_eq!(text, document::decode(bytes, label, media_type));

    let unlabelled = document::decode(bytes, None, MediaType::PlainText);
    // A U+0000 may mean UTF-16, an escape ISO-2022-JP.
    if let Some(utf8) = std::str::from_utf8(bytes).ok().filter(|utf8| !utf8.contains(['\0', '\u{1b}'])) {
        assert_eq!(unlabelled, utf8.strip_prefix('\u{feff}').unwrap_or(utf8));
        assert!(matches!(unlabelled, Cow::Borrowed(_)), "valid UTF-8 is not copied");
        for single_byte in ["utf-8", "iso-8859-1", "windows-1251", "koi8-r"] {
            assert_eq!(document::decode(bytes, Some(single_byte), media_type), unlabelled, "{single_byte}");
        }
    }
    // A byte order mark outweighs any label.
    let marked = [b"\xef\xbb\xbf", unlabelled.as_bytes()].concat();
    assert_eq!(document::decode(&marked, label, media_type), unlabelled);
}

fn text_of(html: &str) -> String {
    let mut out = String::new();
    append_html_text(html, &mut out);
    out
}

/// HTML to text: the output is at most linear, only appends, and contains nothing from inside a tag.
pub fn html(data: &[u8]) {
    let html = String::from_utf8_lossy(data);
    let text = text_of(&html);
    // A U+0000 in raw text becomes U+FFFD.
    assert!(text.len() <= 3 * html.len(), "{} bytes of {}", text.len(), html.len());
    assert!(!text.contains('\0'));

    let mut appended = String::from("before");
    append_html_text(&html, &mut appended);
    assert_eq!(appended.strip_prefix("before"), Some(text.as_str()));
    // No space follows a space.
    let mut appended = String::from("before ");
    append_html_text(&html, &mut appended);
    let after = appended.strip_prefix("before ");
    assert!(after == Some(&text) || after == text.strip_prefix(' '), "{after:?} after a space, else {text:?}");

    unclosed_tags_are_no_text(&html);
}

fn unclosed_tags_are_no_text(html: &str) {
    let cut = (0..=html.len() / 2).rev().find(|at| html.is_char_boundary(*at)).unwrap_or(0);
    let (text, inside) = html.split_at(cut);
    let (text, inside) = (text.replace('<', ""), inside.replace('>', ""));
    let expected = text_of(&text);
    if !text.contains(['&', '\r', '\0']) {
        assert_eq!(expected, text);
    }
    for opening in ["<b ", "</p ", "<a title=\"", "<!--", "<script x='", "<plaintext "] {
        assert_eq!(text_of(&format!("{text}{opening}{inside}")), expected, "{opening}");
    }
}

fn words_of(text: &str) -> (String, usize) {
    let mut out = String::new();
    let n_words = append_words(text, &mut out);
    (out, n_words)
}

/// Text to words: lower case, single spaces, a correct count; splitting the words again gives the same words.
pub fn words(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (words, n_words) = words_of(&text);
    assert_eq!(words_of(&words), (words.clone(), n_words), "words of words");
    let split: Vec<&str> = if words.is_empty() { Vec::new() } else { words.split(' ').collect() };
    assert_eq!(split.len(), n_words);
    assert!(split.iter().all(|word| !word.is_empty()), "a space too many in {words:?}");
    assert!(!words.contains(|c: char| c.is_ascii_uppercase() || c.is_control()), "{words:?}");
    // The worst are characters that decompose into three of their size.
    assert!(words.len() <= 4 * text.len(), "{} bytes of {}", words.len(), text.len());

    let mut appended = String::from("before");
    assert_eq!(append_words(&text, &mut appended), n_words);
    let space = if n_words == 0 { "" } else { " " };
    assert_eq!(appended, format!("before{space}{words}"));
}

/// The rule that the first bytes select.
fn rule_of(choice: usize, size: usize) -> Rule {
    match choice % 6 {
        0 => Rule::All,
        1 => Rule::Mod { modulus: size as u64 },
        2 => Rule::Min { size },
        3 => Rule::MinOfMod { size, modulus: 3 },
        4 => Rule::Adaptive { size },
        _ => Rule::Parity { size, error_per_mille: 20 },
    }
}

/// Stored sketches: decoding gives what was encoded, and bytes that decode at all decode to the same sketch again.
pub fn sketch_codec(data: &[u8]) {
    if let Ok(sketch) = sketch::decode(data) {
        let mut again = Vec::new();
        sketch::encode(&sketch, &mut again);
        assert_eq!(sketch::decode(&again), Ok(sketch));
    }
    let (choice, rest) = choice(data);
    let (size, rest) = self::choice(rest);
    let bits = 32 + (choice / 6 % 33) as u32;
    let rule = SketchRule {
        bits,
        multiplicity: Multiplicity::Set,
        rule: rule_of(choice, size.max(1)),
        ..SketchRule::default()
    };
    let (numbers, _) = rest.as_chunks::<8>();
    let mut shingles: Vec<u64> = numbers.iter().map(|bytes| u64::from_le_bytes(*bytes) >> (64 - bits)).collect();
    let sketch = rule.sketch(&mut shingles);
    if let SketchForm::Sample { values, bound } = &sketch.form {
        assert!(values.iter().all(|value| u128::from(*value) < *bound));
    }
    let mut bytes = Vec::new();
    sketch::encode(&sketch, &mut bytes);
    assert_eq!(sketch::decode(&bytes), Ok(sketch));
    assert!(sketch::decode(&bytes[..bytes.len() - 1]).is_err(), "cut short");
    bytes.push(0);
    assert!(sketch::decode(&bytes).is_err(), "gone on");
}

/// Small enough for a fuzzer to reach them.
const LIMITS: Limits =
    Limits { body_bytes_max: 64, url_bytes_max: 24, sweep_bytes_max: 8, words_max: 100, text_bytes_max: 64 };

/// The longest message of a rejection: it goes into an event and a log.
const MESSAGE_BYTES_MAX: usize = 1024;

/// JSON pages: an accepted page keeps the limits; a rejected one gets a short reason.
pub fn page_json(data: &[u8]) {
    match parse_json_page(data, &LIMITS) {
        Ok(page) => {
            assert!(data.trim_ascii_start().starts_with(b"{"), "a page is an object");
            assert!((1..=LIMITS.url_bytes_max).contains(&page.url.len()), "{:?}", page.url);
            assert!(!page.url.contains(|c: char| c.is_control() || c.is_whitespace()), "{:?}", page.url);
            let is_sweep = |sweep: &String| (1..=LIMITS.sweep_bytes_max).contains(&sweep.len());
            assert!(page.sweep.as_ref().is_none_or(is_sweep), "{:?}", page.sweep);
            assert_eq!(page.fetched_at.to_string().parse(), Ok(page.fetched_at));
            assert!(n_bytes_of(&page.content) <= LIMITS.body_bytes_max);
        }
        Err(rejection) => {
            assert!((1..=MESSAGE_BYTES_MAX).contains(&rejection.message.len()), "{}", rejection.message);
            assert!(rejection.url.is_none_or(|url| url.len() <= LIMITS.url_bytes_max));
            assert!(rejection.sweep.is_none_or(|sweep| sweep.len() <= LIMITS.sweep_bytes_max));
        }
    }
}

fn n_bytes_of(content: &Content) -> usize {
    match content {
        Content::Body { body, .. } => body.as_bytes().len(),
        Content::Features(features) => features.iter().map(String::len).sum(),
        Content::Gone => 0,
        Content::Redirect(target) => target.len(),
    }
}
