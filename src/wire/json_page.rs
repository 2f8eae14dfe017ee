//! The JSON page: one page as one JSON object.
//!
//! ```json
//! {"url": "https://…", "fetched_at": "2026-11-21T08:00:00Z", "sweep": "2026-47", "content_type": "text/html; charset=utf-8",
//!  "http_status": 200, "body": "<!doctype html>…"}
//! ```
//! `url` and `fetched_at` are required, and one content: `body` (text), `body_base64` (bytes), `html`, `text` (plain
//! text) or `features` (an array of strings). `"body": null`, `"gone": true` and the statuses 404 and 410 mean that
//! the page no longer exists. `"redirect_to": "https://…"`, alone or with a status 3xx, means that the
//! page is there now. Unknown fields are ignored.

use super::fallback::Fallback;
use super::flat_json::{FlatValue, each_member};
use super::http_status::StatusMeaning;
use super::limits::Limits;
use super::rejection::{Reason, Rejection};
use crate::document::{Body, Content, MediaType, Page};
use base64::Engine as _;
use serde::Deserialize;

#[derive(Default, Deserialize)]
#[serde(expecting = "an object")]
struct JsonPage {
    url: Option<String>,
    fetched_at: Option<String>,
    sweep: Option<String>,
    content_type: Option<String>,
    http_status: Option<u16>,
    #[serde(default, deserialize_with = "present")]
    body: Option<Option<String>>,
    body_base64: Option<String>,
    text: Option<String>,
    html: Option<String>,
    features: Option<Features>,
    redirect_to: Option<String>,
    #[serde(default)]
    gone: bool,
}

/// The fields of a [`JsonPage`].
const FIELDS: [&str; 12] = [
    "url",
    "fetched_at",
    "sweep",
    "content_type",
    "http_status",
    "body",
    "body_base64",
    "text",
    "html",
    "features",
    "redirect_to",
    "gone",
];

impl JsonPage {
    /// Reads an object without arrays and objects in it. `None` for everything else, and where a field is repeated or of
    /// another type.
    fn from_flat(json: &[u8]) -> Option<Self> {
        let (mut page, mut seen) = (JsonPage::default(), 0u16);
        each_member(json, |name, value| {
            let Some(field) = FIELDS.iter().position(|field| *field == name) else { return Some(()) };
            let is_repeated = seen >> field & 1 == 1;
            seen |= 1 << field;
            if is_repeated { None } else { page.set(name, value) }
        })?;
        Some(page)
    }

    fn set(&mut self, field: &str, value: FlatValue<'_>) -> Option<()> {
        let text = match field {
            "url" => &mut self.url,
            "fetched_at" => &mut self.fetched_at,
            "sweep" => &mut self.sweep,
            "content_type" => &mut self.content_type,
            "body" => self.body.insert(None),
            "body_base64" => &mut self.body_base64,
            "text" => &mut self.text,
            "html" => &mut self.html,
            "redirect_to" => &mut self.redirect_to,
            _ => return self.set_other(field, value),
        };
        *text = match value {
            FlatValue::String(value) => Some(value),
            FlatValue::Null => None,
            _ => return None,
        };
        Some(())
    }

    /// [`Self::set`] for a field that is no text.
    fn set_other(&mut self, field: &str, value: FlatValue<'_>) -> Option<()> {
        match (field, value) {
            ("http_status", FlatValue::Integer(digits)) => self.http_status = Some(digits.parse().ok()?),
            ("gone", FlatValue::Bool(gone)) => self.gone = gone,
            ("http_status" | "features", FlatValue::Null) => {}
            _ => return None,
        }
        Some(())
    }
}

/// Features as parsed: their texts in one string, and where each ends. As separate strings, empty features would
/// take eight times their bytes in the record, so those are made only after the limits are checked.
struct Features {
    texts: String,
    ends: Vec<u32>,
}

impl Features {
    fn checked(&self, limits: &Limits) -> Result<Vec<String>, Rejection> {
        if self.texts.len() > limits.body_bytes_max {
            return Err(limits.body_too_large(self.texts.len()));
        }
        if self.ends.len() > limits.words_max {
            return Err(limits.too_many_words(self.ends.len()));
        }
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        Ok(begins.zip(&self.ends).map(|(from, to)| self.texts[from as usize..*to as usize].into()).collect())
    }
}

impl<'de> Deserialize<'de> for Features {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(FeaturesVisitor)
    }
}

struct FeaturesVisitor;

impl<'de> serde::de::Visitor<'de> for FeaturesVisitor {
    type Value = Features;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an array of strings")
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut elements: A) -> Result<Features, A::Error> {
        let mut features = Features { texts: String::new(), ends: Vec::new() };
        while let Some(feature) = elements.next_element::<String>()? {
            features.texts.push_str(&feature);
            features.ends.push(u32::try_from(features.texts.len()).map_err(serde::de::Error::custom)?);
        }
        Ok(features)
    }
}

/// The only field read from a page that failed to parse.
#[derive(Deserialize)]
struct JsonUrl {
    url: Option<String>,
}

/// Distinguishes `"body": null` from a missing body.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Option<String>>, D::Error> {
    Option::<String>::deserialize(deserializer).map(Some)
}

/// Parses a JSON page.
///
/// # Errors
/// A [`Rejection`] that says what is wrong, with URL, time and sweep if they could be read.
pub fn parse_json_page(json: &[u8], limits: &Limits) -> Result<Page, Rejection> {
    parse_json_page_or(json, &Fallback::default(), limits)
}

/// Parses a JSON page. `fallback` stands in for parts that it lacks, but for an id.
///
/// # Errors
/// As [`parse_json_page`].
pub(super) fn parse_json_page_or(json: &[u8], fallback: &Fallback, limits: &Limits) -> Result<Page, Rejection> {
    let mut parsed = match JsonPage::from_flat(json) {
        Some(parsed) => parsed,
        None => serde_json::from_slice(json).map_err(|error| rejection_of(json, &error, limits))?,
    };
    if !is_object(json) {
        // serde accepts an array of the fields in their order.
        return Err(Rejection::new(Reason::InvalidJson, "not a JSON page: it is not an object"));
    }
    parsed.url = parsed.url.or_else(|| fallback.url.clone());
    parsed.sweep = parsed.sweep.filter(|sweep| !sweep.is_empty()).or_else(|| fallback.sweep.clone());
    let mut known = Rejection::new(Reason::InvalidJson, "");
    known.url = parsed.url.clone().filter(|url| limits.is_shown(url));
    known.sweep = parsed.sweep.clone().filter(|sweep| sweep.len() <= limits.sweep_bytes_max);
    known.fetched_at = parsed.fetched_at.as_deref().map_or(fallback.fetched_at, |time| time.parse().ok());
    validated(parsed, fallback, limits).map_err(|wrong| Rejection {
        reason: wrong.reason,
        message: wrong.message,
        ..known
    })
}

fn validated(parsed: JsonPage, fallback: &Fallback, limits: &Limits) -> Result<Page, Rejection> {
    let missing = |field, else_from: &str| {
        let message = format!("the page has no {field:?}; input.fields.{field} (--map) names its place, {else_from}");
        Rejection::new(Reason::MissingField, message)
    };
    let url = parsed.url.clone().ok_or_else(|| missing("url", "input.url_from (--url-from record) makes one"))?;
    limits.check_url(&url)?;
    let fetched_at = match parsed.fetched_at.as_deref() {
        Some(time) => time
            .parse()
            .map_err(|error: crate::document::InvalidTime| Rejection::new(Reason::InvalidTime, error.to_string()))?,
        None => {
            fallback.time().ok_or_else(|| missing("fetched_at", "input.fetched_at (--fetched-at file-time) a time"))?
        }
    };
    let sweep = parsed.sweep.clone();
    limits.check_sweep(sweep.as_deref())?;
    Ok(Page { url, fetched_at, sweep, content: content_of(parsed, limits)? })
}

fn content_of(parsed: JsonPage, limits: &Limits) -> Result<Content, Rejection> {
    let meaning = match parsed.http_status {
        Some(status) => StatusMeaning::from_status(status)?,
        None if parsed.redirect_to.is_some() => StatusMeaning::Redirect,
        None => StatusMeaning::Present,
    };
    match meaning {
        StatusMeaning::Gone => return Ok(Content::Gone),
        _ if parsed.gone => return Ok(Content::Gone),
        StatusMeaning::Redirect => {
            return limits.redirect(parsed.url.as_deref().unwrap_or_default(), parsed.redirect_to.as_deref());
        }
        StatusMeaning::Present => {}
    }
    let JsonPage { body, body_base64, html, text, features, .. } = &parsed;
    let n_contents = [body.is_some(), body_base64.is_some(), html.is_some(), text.is_some(), features.is_some()];
    let (reason, how_many) = match n_contents.into_iter().filter(|is_there| *is_there).count() {
        1 => (None, ""),
        0 => (Some(Reason::MissingField), "none"),
        _ => (Some(Reason::InvalidField), "more than one"),
    };
    if let Some(reason) = reason {
        let names = "\"body\", \"body_base64\", \"html\", \"text\", \"features\"";
        return Err(Rejection::new(reason, format!("the page has {how_many} of {names}")));
    }
    if let Some(features) = parsed.features {
        return features.checked(limits).map(Content::Features);
    }
    let (label_type, charset) = match &parsed.content_type {
        Some(content_type) => MediaType::parse(content_type).ok_or_else(|| Rejection::no_text(content_type))?,
        None => (MediaType::Unknown, None),
    };
    let (media_type, body) = match (parsed.body, parsed.body_base64, parsed.html, parsed.text) {
        (Some(None), ..) => return Ok(Content::Gone),
        (Some(Some(text)), ..) => (label_type, Body::Text(text)),
        (_, _, Some(html), _) => (MediaType::Html, Body::Text(html)),
        (_, Some(encoded), ..) => {
            let bytes = base64::engine::general_purpose::STANDARD
                .decode(encoded)
                .map_err(|error| Rejection::new(Reason::InvalidField, format!("body_base64: {error}")))?;
            (label_type, Body::Bytes { bytes, charset })
        }
        (_, _, _, text) => (MediaType::PlainText, Body::Text(text.unwrap_or_default())),
    };
    let n_bytes = body.as_bytes().len();
    if n_bytes > limits.body_bytes_max {
        return Err(limits.body_too_large(n_bytes));
    }
    Ok(Content::Body { media_type, body })
}

/// Distinguishes broken JSON from JSON of the wrong shape.
fn rejection_of(json: &[u8], error: &serde_json::Error, limits: &Limits) -> Rejection {
    if error.classify() != serde_json::error::Category::Data || !is_object(json) {
        // The reader's word for a misspelt `null` or a word without quotes.
        let why = error.to_string().replace("expected ident", "a word without quotes");
        return Rejection::new(Reason::InvalidJson, format!("not a JSON page: {why}"));
    }
    let mut rejection = Rejection::new(Reason::InvalidField, format!("the JSON page: {error}"));
    // Other fields are skipped: as values they would take many times their bytes.
    let page: Option<JsonUrl> = serde_json::from_slice(json).ok();
    rejection.url = page.and_then(|page| page.url).filter(|url| limits.is_shown(url));
    rejection
}

fn is_object(json: &[u8]) -> bool {
    json.trim_ascii_start().starts_with(b"{")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::rejection::{ELLIPSIS, MESSAGE_BYTES_MAX};

    fn parse(json: &str) -> Result<Page, Rejection> {
        parse_json_page(
            json.as_bytes(),
            &Limits { body_bytes_max: 100, url_bytes_max: 20, sweep_bytes_max: 8, words_max: 100, text_bytes_max: 100 },
        )
    }

    fn content(fields: &str) -> Content {
        parse(&format!(r#"{{"url":"http://a/","fetched_at":"2020-01-01T00:00:00Z",{fields}}}"#))
            .expect("a page")
            .content
    }

    fn text_body(media_type: MediaType, text: &str) -> Content {
        Content::Body { media_type, body: Body::Text(text.into()) }
    }

    #[test]
    fn pages() {
        assert_eq!(content(r#""body":"x""#), text_body(MediaType::Unknown, "x"));
        assert_eq!(content(r#""content_type":"text/html","body":"x""#), text_body(MediaType::Html, "x"));
        assert_eq!(content(r#""content_type":"text/html","text":"x""#), text_body(MediaType::PlainText, "x"));
        assert_eq!(content(r#""features":["a","b"]"#), Content::Features(vec!["a".into(), "b".into()]));
        assert_eq!(content(r#""features":["","é",""]"#), Content::Features(vec!["".into(), "é".into(), "".into()]));
        assert_eq!(content(r#""features":[]"#), Content::Features(vec![]));
        assert_eq!(
            content(r#""content_type":"text/html;charset=latin1","body_base64":"6Q==""#),
            Content::Body {
                media_type: MediaType::Html,
                body: Body::Bytes { bytes: vec![0xe9], charset: Some("latin1".into()) },
            }
        );
        for gone in [r#""body":null"#, r#""gone":true"#, r#""http_status":404,"body":"x""#, r#""http_status":410"#] {
            assert_eq!(content(gone), Content::Gone, "{gone}");
        }
        for redirect in [
            r#""redirect_to":"http://b/","body":null"#,
            r#""http_status":301,"redirect_to":"http://b/","body":"moved""#,
            r#""http_status":308,"redirect_to":"//b/#part""#,
        ] {
            assert_eq!(content(redirect), Content::Redirect("http://b/".into()), "{redirect}");
        }
        assert_eq!(content(r#""http_status":200,"redirect_to":"/b","text":"x""#), text_body(MediaType::PlainText, "x"));
        assert_eq!(content(r#""http_status":200,"extra":{"deep":[1]},"body":"x""#), text_body(MediaType::Unknown, "x"));
    }

    #[test]
    fn rejections() {
        let long = "x".repeat(101);
        let page = |fields: &str| format!(r#"{{"url":"http://a/","fetched_at":"2020-01-01T00:00:00Z",{fields}}}"#);
        for (json, reason) in [
            ("", Reason::InvalidJson),
            ("{", Reason::InvalidJson),
            ("[1]", Reason::InvalidJson),
            ("null", Reason::InvalidJson),
            ("{}", Reason::MissingField),
            (r#"{"url":7}"#, Reason::InvalidField),
            (r#"{"url":"http://a/","body":"x"}"#, Reason::MissingField),
            (r#"{"url":"","fetched_at":"2020-01-01T00:00:00Z","body":"x"}"#, Reason::InvalidUrl),
            (r#"{"url":"http://a b","fetched_at":"2020-01-01T00:00:00Z","body":"x"}"#, Reason::InvalidUrl),
            (
                r#"{"url":"http://aaaaaaaaaaaaaaaaa/","fetched_at":"2020-01-01T00:00:00Z","body":"x"}"#,
                Reason::InvalidUrl,
            ),
            (r#"{"url":"http://a/","fetched_at":"soon","body":"x"}"#, Reason::InvalidTime),
            (r#"{"url":"http://a/","fetched_at":"2020-01-01T00:00:00Z"}"#, Reason::MissingField),
            (&page(r#""body":"x","text":"y""#), Reason::InvalidField),
            (&page(r#""body_base64":"?""#), Reason::InvalidField),
            (&page(r#""body":7"#), Reason::InvalidField),
            (&page(r#""features":[1]"#), Reason::InvalidField),
            (&page(r#""http_status":99999999,"body":"x""#), Reason::InvalidField),
            (&page(r#""http_status":500,"body":"x""#), Reason::HttpStatus),
            (&page(r#""http_status":301,"body":"x""#), Reason::HttpStatus),
            (&page(r#""http_status":304,"redirect_to":"http://b/""#), Reason::HttpStatus),
            (&page(r#""http_status":301,"redirect_to":" ""#), Reason::HttpStatus),
            (&page(r#""http_status":301,"redirect_to":".""#), Reason::HttpStatus),
            (&page(r#""http_status":301,"redirect_to":"/a b""#), Reason::InvalidUrl),
            (&page(r#""http_status":301,"redirect_to":"/aaaaaaaaaaaaaaaaaaaaa""#), Reason::InvalidUrl),
            (&page(r#""redirect_to":7"#), Reason::InvalidField),
            (&page(r#""content_type":"image/png","body":"x""#), Reason::MediaType),
            (&page(r#""sweep":"much too long","body":"x""#), Reason::InvalidField),
            (&page(&format!(r#""body":"{long}""#)), Reason::TooLarge),
            (&page(&format!(r#""features":["{long}"]"#)), Reason::TooLarge),
            (&page(&format!(r#""features":[{}""]"#, r#""","#.repeat(100))), Reason::TooLarge),
            (&page(r#""body":"\ud800""#), Reason::InvalidJson),
        ] {
            let rejection = parse(json).expect_err(json);
            assert_eq!(rejection.reason, reason, "{json}: {}", rejection.message);
            assert!(!rejection.message.is_empty());
        }
    }

    #[test]
    fn a_rejection_has_the_parts_that_could_be_read() {
        let rejection =
            parse(r#"{"url":"http://a/","fetched_at":"2020-01-01T00:00:00Z","sweep":"s"}"#).expect_err("no body");
        assert_eq!(rejection.url.as_deref(), Some("http://a/"));
        assert_eq!(rejection.sweep.as_deref(), Some("s"));
        assert!(rejection.fetched_at.is_some());
        let rejection = parse(r#"{"url":"http://a/","fetched_at":7}"#).expect_err("a number for a time");
        assert_eq!(rejection.url.as_deref(), Some("http://a/"));
    }

    /// Lost once: the message quoted a field of the wrong type in full, megabytes of it, into the event and the
    /// log.
    #[test]
    fn messages_are_short() {
        for filler in ["x", "é", "\u{10ffff}", "\\u0001"] {
            let page = format!(r#"{{"url":"http://a/","http_status":"{}"}}"#, filler.repeat(100_000));
            let rejection = parse(&page).expect_err("a text for a number");
            assert_eq!(rejection.reason, Reason::InvalidField);
            assert!(
                rejection.message.len() <= MESSAGE_BYTES_MAX && rejection.message.ends_with(ELLIPSIS),
                "{}",
                rejection.message
            );
            assert_eq!(rejection.url.as_deref(), Some("http://a/"));
        }
    }

    /// Lost once: when another field was wrong, the rejection showed part of a URL over the limit.
    #[test]
    fn a_rejection_has_no_url_over_the_limit() {
        let page = |url: &str| format!(r#"{{"url":"{url}","fetched_at":7}}"#);
        assert_eq!(
            parse(&page("http://a/aaaaaaaaaaa")).expect_err("a number for a time").url.map(|url| url.len()),
            Some(20)
        );
        assert_eq!(parse(&page("http://a/aaaaaaaaaaaa")).expect_err("a number for a time").url, None);
    }

    /// Lost once: an array of values in the order of the struct's fields counted as a page.
    #[test]
    fn an_array_is_not_a_page() {
        let array = r#"["http://a/","2020-01-01T00:00:00Z",null,null,null,"x",null,null,null,null,null,false]"#;
        assert_eq!(parse(array).expect_err("an array").reason, Reason::InvalidJson);
        assert_eq!(parse(&format!(" {array}")).expect_err("an array").url, None);
    }

    /// A flat page is what the general parser makes of it.
    #[test]
    fn flat_pages_are_those_of_the_general_parser() {
        let values = ["null", "true", "false", "0", "200", "-0", "65536", "1.5", r#""""#, r#""a\u00e9""#, "[]", "{}"];
        let parts = |page: JsonPage| {
            let JsonPage { url, fetched_at, sweep, content_type, http_status, body, body_base64, text, html, .. } =
                &page;
            let texts = [url, fetched_at, sweep, content_type, body_base64, text, html, &page.redirect_to];
            let n_features = page.features.as_ref().map(|features| features.ends.len());
            format!("{texts:?} {http_status:?} {body:?} {n_features:?} {}", page.gone)
        };
        let mut n_flat = 0;
        for one in FIELDS.iter().chain(&["other"]) {
            for (other, value) in FIELDS.iter().flat_map(|other| values.map(|value| (other, value))) {
                let json = format!(r#"{{"{one}":"x", "{other}":{value}}}"#);
                let Some(flat) = JsonPage::from_flat(json.as_bytes()) else { continue };
                let general = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{json}: {error}"));
                assert_eq!(parts(flat), parts(general), "{json}");
                n_flat += 1;
            }
        }
        assert!(n_flat > 300, "{n_flat}");
    }

    #[test]
    fn deep_json_is_skipped_without_recursion() {
        let deep = format!(r#"{{"url":"http://a/","x":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(parse(&deep).expect_err("deep").reason, Reason::MissingField);
    }
}
