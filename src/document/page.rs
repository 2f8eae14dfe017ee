//! Pages as crawlers send them: URL, time, sweep, content.

use jiff::{SignedDuration, civil::DateTime, fmt::temporal::DateTimeParser};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A page as a crawler saw it.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The page's address: an opaque key, never normalised.
    pub url: String,
    /// When the crawler saw it.
    pub fetched_at: FetchTime,
    /// The crawler's name for the dated crawl that saw the page.
    pub sweep: Option<String>,
    /// What the crawler found.
    pub content: Content,
}

/// What the crawler found at a URL.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Text or markup.
    Body {
        /// How to read it.
        media_type: MediaType,
        /// The bytes or the text.
        body: Body,
    },
    /// The caller's own features instead of text: a set, sketched as shingles are.
    Features(Vec<String>),
    /// The page no longer exists (null body, 404, 410).
    Gone,
    /// The page is at this URL now (a 3xx status with a target).
    Redirect(String),
}

/// A page's body, before or after charset decoding.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// The bytes as received.
    Bytes {
        /// The bytes, without content encodings such as gzip.
        bytes: Vec<u8>,
        /// The charset label of the HTTP header, if any.
        charset: Option<String>,
    },
    /// Text that the sender decoded.
    Text(String),
}

impl Body {
    /// The bytes of the body, or of its text in UTF-8.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Body::Bytes { bytes, .. } => bytes,
            Body::Text(text) => text.as_bytes(),
        }
    }
}

/// How to read a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MediaType {
    /// `text/html` and `application/xhtml+xml`.
    Html,
    /// Every other `text/…` type.
    PlainText,
    /// No label, or one that only says "text": HTML if it looks like markup.
    Unknown,
}

impl MediaType {
    /// Parses a `Content-Type` value into media type and charset; `None` for a type that is not text.
    ///
    /// Servers separate the type from its parameters by commas, colons or blanks, and send types twice. The first
    /// type and the first charset count.
    pub fn parse(content_type: &str) -> Option<(MediaType, Option<String>)> {
        let content_type = content_type.trim_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '\''));
        let is_end = |c: char| matches!(c, ';' | ',' | ':') || c.is_whitespace();
        let (essence, parameters) = content_type.split_at(content_type.find(is_end).unwrap_or(content_type.len()));
        let media_type = match essence.to_ascii_lowercase().as_str() {
            "text/html" | "application/xhtml+xml" => MediaType::Html,
            "" | "text/" | "text/*" => MediaType::Unknown,
            misspelt if misspelt.starts_with("text/htm") => MediaType::Unknown,
            "text/css" | "text/javascript" | "text/xml" => return None,
            text if text.starts_with("text/") => MediaType::PlainText,
            _ => return None,
        };
        let charset = parameters.trim_start_matches(is_end).split([';', ',']).find_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            let label = value.trim().trim_matches(['"', '\'']).split_whitespace().next()?;
            name.trim().eq_ignore_ascii_case("charset").then(|| label.to_string())
        });
        Some((media_type, charset))
    }

    /// Returns this type, or guesses an unknown one from the text.
    pub(super) fn or_sniffed(self, text: &str) -> MediaType {
        if self != MediaType::Unknown {
            return self;
        }
        let start = text.trim_start().as_bytes();
        let markup = start.first() == Some(&b'<')
            && start.get(1).is_some_and(|b| b.is_ascii_alphabetic() || matches!(b, b'!' | b'?' | b'/'));
        if markup { MediaType::Html } else { MediaType::PlainText }
    }
}

/// How many characters at a body's beginning decide whether it is text.
const JUDGED_CHARS: usize = 4096;

/// A text has at most one bad character among so many.
const BAD_SHARE: usize = 5;

/// Returns why a decoded body is not text, judging by its beginning.
pub(super) fn binary_sign(text: &str) -> Option<&'static str> {
    if text.trim_start().starts_with("%PDF-") {
        return Some("it is a PDF");
    }
    let bytes_of = |n_bytes_each: usize| &text.as_bytes()[..text.len().min(JUDGED_CHARS * n_bytes_each)];
    // The characters that are judged have a byte each, as most do, or at most four.
    let beginning = if bytes_of(1).is_ascii() { bytes_of(1) } else { bytes_of(4) };
    let (blocks, rest) = beginning.as_chunks::<64>();
    let count = |bytes: &[u8]| bytes.iter().fold(0u8, |n, byte| n + u8::from(may_be_bad(*byte)));
    let bad_max: usize = blocks.iter().map(|block| usize::from(count(block))).sum::<usize>() + usize::from(count(rest));
    // Of the characters that are judged, there is at least one for each four of these bytes.
    if bad_max * BAD_SHARE <= beginning.len() / 4 {
        return None;
    }
    let (mut n, mut bad) = (0usize, 0usize);
    for c in text.chars().take(JUDGED_CHARS) {
        n += 1;
        let control = c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{c}' | '\u{1b}' | '\u{85}');
        bad += usize::from(control || c == char::REPLACEMENT_CHARACTER);
    }
    (bad * BAD_SHARE > n).then_some("more than a fifth of its beginning is control characters or undecodable bytes")
}

/// Whether a UTF-8 byte is or begins a character that counts against a text; a few others match too. It has no
/// branches, so that most texts are checked many bytes at a time.
fn may_be_bad(byte: u8) -> bool {
    let is_space = (byte == b'\t') | (byte == b'\n') | (byte == b'\r');
    // C2 begins the control characters above ASCII, EF the replacement character.
    ((byte < b' ') & !is_space) | (byte == 0x7f) | (byte == 0xc2) | (byte == 0xef)
}

/// A moment, in microseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FetchTime(pub i64);

/// Where moments are counted from.
const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// Offsets from UTC are shorter.
const OFFSET_END: SignedDuration = SignedDuration::from_hours(24);

/// The text is not a moment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an RFC 3339 time such as 2026-11-21T08:00:00Z, nor 14 digits such as 20261121080000")]
pub struct InvalidTime(pub String);

/// Accepts RFC 3339, or 14 digits from year to second in UTC as in archives.
impl FromStr for FetchTime {
    type Err = InvalidTime;

    fn from_str(text: &str) -> Result<Self, InvalidTime> {
        let written = rfc3339_from_digits(text);
        let time = time_from_rfc3339(written.as_deref().unwrap_or(text));
        time.ok_or_else(|| InvalidTime(text.chars().take(64).collect()))
    }
}

impl FetchTime {
    /// Its date and time of day in UTC; none beyond the year 9999.
    pub fn in_utc(self) -> Option<DateTime> {
        EPOCH.checked_add(SignedDuration::from_micros(self.0)).ok()
    }
}

/// Reads an RFC 3339 time. Unlike [`jiff::Timestamp`], which ends a day before the year 9999 does and has offsets of up to 25
/// hours, it holds what RFC 3339 can write, and no more.
fn time_from_rfc3339(text: &str) -> Option<FetchTime> {
    let pieces = DateTimeParser::new().parse_pieces(text).ok()?;
    let offset = SignedDuration::from_secs(pieces.to_numeric_offset()?.seconds().into());
    let local = pieces.date().to_datetime(pieces.time()?);
    let utc = local.checked_sub(offset).ok().filter(|_| offset.abs() < OFFSET_END)?;
    i64::try_from(utc.duration_since(EPOCH).as_micros()).ok().map(FetchTime)
}

/// Rewrites 14 digits as RFC 3339.
fn rfc3339_from_digits(text: &str) -> Option<String> {
    let is_it = text.len() == 14 && text.bytes().all(|byte| byte.is_ascii_digit());
    let part = |from: usize| &text[from..from + 2];
    is_it.then(|| format!("{}-{}-{}T{}:{}:{}Z", &text[..4], part(4), part(6), part(8), part(10), part(12)))
}

impl fmt::Display for FetchTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.in_utc() {
            Some(time) => write!(f, "{time}Z"),
            None => write!(f, "{} us", self.0),
        }
    }
}

impl Serialize for FetchTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for FetchTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_of_bad_characters_is_binary() {
        let padded = |beginning: &str| format!("{beginning}{}", "ä".repeat(96));
        for bad in (0..=char::MAX as u32).filter_map(char::from_u32) {
            let counts = matches!(bad, '\0'..='\u{8}' | '\u{b}' | '\u{e}'..='\u{1a}' | '\u{1c}'..='\u{1f}' | '\u{7f}')
                || matches!(bad, '\u{80}'..='\u{84}' | '\u{86}'..='\u{9f}' | '\u{fffd}');
            let text: String = ["aaaa", &bad.to_string()].concat();
            assert_eq!(binary_sign(&text[1..]).is_some(), counts, "{bad:?}");
            assert_eq!(binary_sign(&text), None, "{bad:?}");
        }
        assert_eq!(binary_sign(&padded(&"\0".repeat(24))), None);
        assert!(binary_sign(&padded(&"\0".repeat(25))).is_some());
        assert_eq!(binary_sign(&format!("{}{}", "a".repeat(JUDGED_CHARS), "\0".repeat(99_999))), None);
        // Characters of one to four bytes count alike.
        for good in ["a", "ä", "字", "😀"] {
            for n_good in [40, JUDGED_CHARS * 4 / 5 - 1, JUDGED_CHARS * 4 / 5] {
                let text = |n_bad| format!("{}{}", "\0".repeat(n_bad), good.repeat(n_good));
                assert_eq!(binary_sign(&text(n_good / 4)), None, "{n_good} {good}");
                assert!(binary_sign(&text(n_good / 4 + 1)).is_some(), "{n_good} {good}");
            }
        }
    }

    #[test]
    fn content_types() {
        let html = |charset: Option<&str>| Some((MediaType::Html, charset.map(String::from)));
        for (value, expected) in [
            ("text/html", html(None)),
            ("Text/HTML; Charset=\"utf-8\"", html(Some("utf-8"))),
            ("application/xhtml+xml;charset=euc-kr", html(Some("euc-kr"))),
            ("text/plain; format=flowed", Some((MediaType::PlainText, None))),
            ("text/markdown", Some((MediaType::PlainText, None))),
            ("", Some((MediaType::Unknown, None))),
            ("application/pdf", None),
            ("image/png", None),
        ] {
            assert_eq!(MediaType::parse(value), expected, "{value}");
        }
    }

    /// Lost once: a comma or a blank after `text/html` made the page plain text, with its scripts and styles as
    /// words.
    #[test]
    fn malformed_content_types_are_read() {
        for (value, media_type, charset) in [
            ("text/html, text/html", MediaType::Html, None),
            ("text/html,text/html;charset=utf-8", MediaType::Html, Some("utf-8")),
            ("text/html; charset=utf-8, text/html; charset=koi8-r", MediaType::Html, Some("utf-8")),
            ("text/html charset=utf-8", MediaType::Html, Some("utf-8")),
            ("text/html\tcharset = \"utf-8\" ", MediaType::Html, Some("utf-8")),
            ("text/html,charset=utf-8", MediaType::Html, Some("utf-8")),
            ("text/html:charset=iso_8859-1:1987", MediaType::Html, Some("iso_8859-1:1987")),
            ("text/html:;charset='utf-8", MediaType::Html, Some("utf-8")),
            ("text/html;;charset=utf-8 charset=utf-8", MediaType::Html, Some("utf-8")),
            ("text/html; charset=; charset=utf-8", MediaType::Html, Some("utf-8")),
            ("text/html charset", MediaType::Html, None),
            ("text/plain, text/html", MediaType::PlainText, None),
            ("\"text/html; charset=utf-8\"", MediaType::Html, Some("utf-8")),
            ("text/*", MediaType::Unknown, None),
            ("text/htm", MediaType::Unknown, None),
            ("text/html/charset=utf-8", MediaType::Unknown, None),
            ("text/; charset=utf-8", MediaType::Unknown, Some("utf-8")),
            (", text/html", MediaType::Unknown, None),
            ("; charset=utf-8", MediaType::Unknown, Some("utf-8")),
        ] {
            assert_eq!(MediaType::parse(value), Some((media_type, charset.map(String::from))), "{value}");
        }
        for value in ["text/css, text/css", "text/javascript charset=utf-8", "image/png, text/html", "html"] {
            assert_eq!(MediaType::parse(value), None, "{value}");
        }
    }

    #[test]
    fn times_round_trip_in_utc() {
        for (text, shown) in [
            ("2014-08-01T00:00:00Z", "2014-08-01T00:00:00Z"),
            ("2014-08-01T02:00:00.25+02:00", "2014-08-01T00:00:00.25Z"),
            ("1969-12-31T23:59:59Z", "1969-12-31T23:59:59Z"),
            ("20240131235959", "2024-01-31T23:59:59Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
            ("9999-12-31T23:59:59-00:00", "9999-12-31T23:59:59Z"),
            ("2014-08-01T00:00:00+23:59", "2014-07-31T00:01:00Z"),
        ] {
            assert_eq!(text.parse::<FetchTime>().expect(text).to_string(), shown);
        }
        for text in
            ["", "yesterday", "2014-13-01T00:00:00Z", "2014-08-01", "20141301000000", "2014080100000", "٥٥٥٥٥٥٥"]
        {
            assert!(text.parse::<FetchTime>().is_err(), "{text}");
        }
    }

    /// Lost once: the last day of the year 9999, by which dumps say "never", as no time at all; and that no clock is 25 hours
    /// ahead of UTC.
    #[test]
    fn times_are_those_of_rfc_3339() {
        for text in ["9999-12-31T00:00:00Z", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59.999999Z"] {
            assert_eq!(text.parse::<FetchTime>().expect(text).to_string(), text);
        }
        for text in [
            "2014-08-01T00:00:00+24:00",
            "2014-08-01T00:00:00+25:00",
            "2014-08-01T00:00:00-25:59",
            "9999-12-31T23:59:59-00:01",
            "2014-08-01T00:00:00",
        ] {
            assert!(text.parse::<FetchTime>().is_err(), "{text}");
        }
        assert_eq!(FetchTime(i64::MAX).to_string(), format!("{} us", i64::MAX));
    }
}
