//! Field maps: where the JSON of other crawlers holds the parts of a page.

use super::http_status::StatusMeaning;
use super::limits::Limits;
use super::page_parts::assemble_page;
use super::rejection::{Reason, Rejection};
use crate::document::{Body, Content, FetchTime, MediaType, Page};
use base64::Engine as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Known sets of places, named for the crawler that writes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// The JSON page of this program; needs no map.
    #[default]
    Page,
    /// Items of Scrapy Cluster: `url`, `timestamp`, `status_code`, `response_headers`, `body`, `crawlid`.
    Scrapy,
    /// The output of Nutch's `commoncrawldump`: `url`, `timestamp`, `response/status`, `response/headers`,
    /// `response/body`.
    Nutch,
    /// No known set: every place is configured.
    Pointers,
}

/// JSON pointers (RFC 6901) to a page's parts. An empty pointer takes the preset's. The names in objects match
/// whatever their case, because some are HTTP header names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FieldMap {
    /// Supplies the pointers that are empty.
    pub preset: Preset,
    /// The URL.
    pub url: String,
    /// The fetch time: RFC 3339, the same without a zone (UTC), 14 digits from year to second (UTC), or seconds or
    /// milliseconds since 1970. If the page has none, the message's own time counts.
    pub fetched_at: String,
    /// The sweep.
    pub sweep: String,
    /// The content type; the last element of an array counts.
    pub content_type: String,
    /// The HTTP status, a number or a string.
    pub http_status: String,
    /// The target of a redirect, for the statuses 3xx; the last element of an array counts.
    pub redirect_to: String,
    /// The body as text.
    pub body: String,
    /// The body in base64. If given without `body`, it replaces the preset's body.
    pub body_base64: String,
}

/// The pointers of a preset, in the order of the fields of [`FieldMap`].
type FieldPointers = [&'static str; 8];

/// The index of `body` among them.
const BODY: usize = 6;

impl Preset {
    fn places(self) -> FieldPointers {
        match self {
            Preset::Page => [
                "/url",
                "/fetched_at",
                "/sweep",
                "/content_type",
                "/http_status",
                "/redirect_to",
                "/body",
                "/body_base64",
            ],
            Preset::Scrapy => [
                "/url",
                "/timestamp",
                "/crawlid",
                "/response_headers/content-type",
                "/status_code",
                "/response_headers/location",
                "/body",
                "",
            ],
            Preset::Nutch => [
                "/url",
                "/timestamp",
                "",
                "/response/headers/content-type",
                "/response/status",
                "/response/headers/location",
                "/response/body",
                "",
            ],
            Preset::Pointers => [""; 8],
        }
    }
}

impl FieldMap {
    /// Whether the map has no effect.
    pub fn is_plain(&self) -> bool {
        *self == FieldMap::default()
    }

    /// Returns what is wrong with the map, if anything.
    pub fn problem(&self) -> Option<String> {
        let names = ["url", "fetched_at", "sweep", "content_type", "http_status", "redirect_to", "body", "body_base64"];
        let wrong = names.iter().zip(self.own()).find(|(_, place)| !place.is_empty() && !place.starts_with('/'));
        if let Some((name, place)) = wrong {
            return Some(format!(
                "{name} = {place:?} is not a JSON pointer: begin it with a slash, as in \"/response/url\""
            ));
        }
        let [url, _, _, _, _, _, body, body_base64] = self.places();
        if url.is_empty() {
            return Some("url is empty: name its place, such as \"/url\"".into());
        }
        (body.is_empty() && body_base64.is_empty())
            .then(|| "body and body_base64 are empty: name one of their places, such as \"/body\"".into())
    }

    fn own(&self) -> [&str; 8] {
        let FieldMap { preset: _, url, fetched_at, sweep, content_type, http_status, redirect_to, body, body_base64 } =
            self;
        [url, fetched_at, sweep, content_type, http_status, redirect_to, body, body_base64].map(String::as_str)
    }

    fn places(&self) -> [&str; 8] {
        let (own, mut preset) = (self.own(), self.preset.places());
        if !self.body_base64.is_empty() {
            preset[BODY] = "";
        }
        std::array::from_fn(|at| if own[at].is_empty() { preset[at] } else { own[at] })
    }

    /// Reads the page in a JSON object. `sent` is its time if it has none of its own.
    ///
    /// # Errors
    /// A [`Rejection`] with whatever could be read of URL, time and sweep.
    pub fn page(&self, json: &[u8], sent: Option<FetchTime>, limits: &Limits) -> Result<Page, Rejection> {
        let value: Value = serde_json::from_slice(json)
            .map_err(|error| Rejection::new(Reason::InvalidJson, format!("not JSON: {error}")))?;
        if !value.is_object() {
            return Err(Rejection::new(Reason::InvalidJson, "the message is not a JSON object"));
        }
        let places = self.places();
        let parts = places.map(|place| if place.is_empty() { None } else { find(&value, place) });
        let [url, fetched_at, sweep, content_type, http_status, redirect_to, body, body_base64] = parts;
        let url = url_of(url, places[0], limits);
        let fetched_at = time_of(fetched_at, sent);
        let sweep = sweep_of(sweep, limits);
        assemble_page(url, fetched_at, sweep, |url| match meaning_of(http_status)? {
            StatusMeaning::Gone => Ok(Content::Gone),
            StatusMeaning::Redirect => {
                limits.redirect(url, redirect_to.map(|value| text(value, "redirect")).transpose()?)
            }
            StatusMeaning::Present => content_of(content_type, body, body_base64, limits),
        })
    }
}

/// Returns the value at a pointer. A name that differs only in case matches if no other does. Null counts as
/// nothing.
fn find<'a>(value: &'a Value, pointer: &str) -> Option<&'a Value> {
    let mut at = value;
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        at = match at {
            Value::Object(map) => map
                .get(&token)
                .or_else(|| map.iter().find(|(name, _)| name.eq_ignore_ascii_case(&token)).map(|(_, value)| value))?,
            Value::Array(list) => list.get(token.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    (!at.is_null()).then_some(at)
}

/// A string, or the last one of an array.
fn text<'a>(value: &'a Value, name: &str) -> Result<&'a str, Rejection> {
    let value = value.as_array().and_then(|list| list.last()).unwrap_or(value);
    value.as_str().ok_or_else(|| Rejection::new(Reason::InvalidField, format!("the {name} is not text")))
}

fn url_of(value: Option<&Value>, place: &str, limits: &Limits) -> Result<String, Rejection> {
    let missing = || Rejection::new(Reason::MissingField, format!("there is no URL at {place}"));
    let url = text(value.ok_or_else(missing)?, "URL")?;
    limits.check_url(url)?;
    Ok(url.to_string())
}

fn sweep_of(value: Option<&Value>, limits: &Limits) -> Result<Option<String>, Rejection> {
    let sweep = value.map(|value| text(value, "sweep")).transpose()?.filter(|sweep| !sweep.is_empty());
    limits.check_sweep(sweep)?;
    Ok(sweep.map(String::from))
}

/// Numbers from here are milliseconds: as seconds they would lie beyond the year 5000.
const MILLISECONDS_FROM: f64 = 1e11;

/// Numbers of 14 digits are dates: as milliseconds they would lie beyond the year 2286.
const DATES: std::ops::Range<f64> = 1e13..1e14;

fn time_of(value: Option<&Value>, sent: Option<FetchTime>) -> Result<FetchTime, Rejection> {
    let invalid = |why: String| Rejection::new(Reason::InvalidTime, format!("the fetch time: {why}"));
    let Some(value) = value else {
        return sent
            .ok_or_else(|| Rejection::new(Reason::MissingField, "neither the page nor its message has a fetch time"));
    };
    let number = value.as_f64().or_else(|| value.as_str()?.trim().parse::<f64>().ok());
    if let Some(date) = number.filter(|number| DATES.contains(number)) {
        return format!("{date}").parse().map_err(|error: crate::document::InvalidTime| invalid(error.to_string()));
    }
    if let Some(number) = number {
        let seconds = if number.abs() < MILLISECONDS_FROM { number } else { number / 1e3 };
        let time = jiff::SignedDuration::try_from_secs_f64(seconds).ok().map(jiff::Timestamp::from_duration);
        return match time {
            Some(Ok(time)) => Ok(FetchTime(time.as_microsecond())),
            _ => Err(invalid(format!("{number} is not a time since 1970"))),
        };
    }
    let written = text(value, "time of the fetch")?;
    let zoned = written.parse::<FetchTime>();
    zoned.or_else(|error| format!("{written}Z").parse().map_err(|_| invalid(error.to_string())))
}

fn meaning_of(status: Option<&Value>) -> Result<StatusMeaning, Rejection> {
    let Some(value) = status else { return Ok(StatusMeaning::Present) };
    let number = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok());
    let status = number
        .and_then(|number| u16::try_from(number).ok())
        .ok_or_else(|| Rejection::new(Reason::InvalidField, "the HTTP status is not a number such as 200"))?;
    StatusMeaning::from_status(status)
}

fn content_of(
    content_type: Option<&Value>,
    body: Option<&Value>,
    body_base64: Option<&Value>,
    limits: &Limits,
) -> Result<Content, Rejection> {
    let (media_type, charset) = match content_type.map(|value| text(value, "content type")).transpose()? {
        Some(content_type) => MediaType::parse(content_type).ok_or_else(|| Rejection::no_text(content_type))?,
        None => (MediaType::Unknown, None),
    };
    let body = match (body, body_base64) {
        (Some(body), _) => Body::Text(text(body, "body")?.to_string()),
        (None, Some(body)) => {
            let bytes = base64::engine::general_purpose::STANDARD
                .decode(text(body, "body")?)
                .map_err(|error| Rejection::new(Reason::InvalidField, format!("the body is not base64: {error}")))?;
            Body::Bytes { bytes, charset }
        }
        (None, None) => return Err(Rejection::new(Reason::MissingField, "the page has no body")),
    };
    let n_bytes = body.as_bytes().len();
    if n_bytes > limits.body_bytes_max {
        return Err(limits.body_too_large(n_bytes));
    }
    Ok(Content::Body { media_type, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENT: Option<FetchTime> = Some(FetchTime(7));

    fn limits() -> Limits {
        Limits { body_bytes_max: 100, ..Limits::default() }
    }

    fn page(preset: Preset, json: &str) -> Result<Page, Rejection> {
        FieldMap { preset, ..FieldMap::default() }.page(json.as_bytes(), SENT, &limits())
    }

    #[test]
    fn items_of_scrapy_cluster() {
        let json = r#"{"appid":"a","crawlid":"week-47","url":"http://a/","response_url":"http://a/x","status_code":200,
            "timestamp":"2026-11-21T08:00:00.250000","encoding":"utf-8","attrs":null,
            "response_headers":{"Content-Type":["text/html; charset=utf-8"],"Server":["x"]},"body":"<p>one"}"#;
        let body = Body::Text("<p>one".into());
        assert_eq!(
            page(Preset::Scrapy, json).expect("a page"),
            Page {
                url: "http://a/".into(),
                fetched_at: "2026-11-21T08:00:00.25Z".parse().expect("a time"),
                sweep: Some("week-47".into()),
                content: Content::Body { media_type: MediaType::Html, body },
            }
        );
    }

    #[test]
    fn dumps_of_nutch() {
        let json = r#"{"url":"http://a/","timestamp":"1411623696000","method":"GET","request":{"method":"GET"},
            "response":{"status":"200","headers":{"content-type":"text/plain","Date":"x"},"body":"one"},"key":"a","imported":1}"#;
        let nutch = page(Preset::Nutch, json).expect("a page");
        assert_eq!(nutch.fetched_at, "2014-09-25T05:41:36Z".parse().expect("a time"));
        let body = Body::Text("one".into());
        assert_eq!(nutch.content, Content::Body { media_type: MediaType::PlainText, body });
        let gone = json.replace("\"200\"", "\"404\"");
        assert_eq!(page(Preset::Nutch, &gone).expect("a page").content, Content::Gone);
        let moved = json.replace("\"200\"", "301").replace("\"Date\":\"x\"", "\"Location\":\"/b\"");
        assert_eq!(page(Preset::Nutch, &moved).expect("a page").content, Content::Redirect("http://a/b".into()));
    }

    #[test]
    fn pointers_override_and_escape() {
        let fields = FieldMap {
            preset: Preset::Pointers,
            url: "/a~1b/0".into(),
            body_base64: "/c~0/d".into(),
            ..FieldMap::default()
        };
        assert_eq!(fields.problem(), None);
        let page = fields.page(br#"{"a/b":["http://a/"],"c~":{"d":"b25l"}}"#, SENT, &limits()).expect("a page");
        assert_eq!((page.url.as_str(), page.fetched_at), ("http://a/", FetchTime(7)));
        let Content::Body { body, .. } = page.content else { panic!("no body") };
        assert_eq!(body.as_bytes(), b"one");
    }

    /// Scrapy Cluster can send its bodies in base64 at the same place; only the map tells the two apart.
    #[test]
    fn base64_takes_the_place_of_the_preset_s_body() {
        let fields = FieldMap { preset: Preset::Scrapy, body_base64: "/body".into(), ..FieldMap::default() };
        assert_eq!(fields.problem(), None);
        let page = fields.page(br#"{"url":"http://a/","body":"PHA+b25l"}"#, SENT, &limits()).expect("a page");
        let body = Body::Bytes { bytes: b"<p>one".to_vec(), charset: None };
        assert_eq!(page.content, Content::Body { media_type: MediaType::Unknown, body });
    }

    /// Lost once: a date in 14 digits was read as milliseconds, so that a page fetched in 2024 stayed its URL's
    /// newest until 2611.
    #[test]
    fn times_in_every_form() {
        for (time, expected) in [
            (r#""2026-11-21T08:00:00+01:00""#, Ok("2026-11-21T07:00:00Z")),
            (r#""2026-11-21T08:00:00""#, Ok("2026-11-21T08:00:00Z")),
            ("1700000000", Ok("2023-11-14T22:13:20Z")),
            ("1700000000000", Ok("2023-11-14T22:13:20Z")),
            (r#""1700000000.5""#, Ok("2023-11-14T22:13:20.5Z")),
            ("9999999999999", Ok("2286-11-20T17:46:39.999Z")),
            ("20240131235959", Ok("2024-01-31T23:59:59Z")),
            (r#""20240131235959""#, Ok("2024-01-31T23:59:59Z")),
            ("20241331235959", Err(Reason::InvalidTime)),
            ("20240131235959.5", Err(Reason::InvalidTime)),
            ("1700000000000000", Err(Reason::InvalidTime)),
            ("1e300", Err(Reason::InvalidTime)),
            (r#""soon""#, Err(Reason::InvalidTime)),
            ("{}", Err(Reason::InvalidField)),
        ] {
            let json = format!(r#"{{"url":"u","fetched_at":{time},"body":"x"}}"#);
            let found = page(Preset::Page, &json).map(|page| page.fetched_at).map_err(|rejection| rejection.reason);
            assert_eq!(found, expected.map(|time| time.parse().expect("a time")), "{time}");
        }
    }

    #[test]
    fn rejections_have_the_parts_that_could_be_read() {
        for (json, reason) in [
            ("[", Reason::InvalidJson),
            ("[1]", Reason::InvalidJson),
            (r#"{"body":"x"}"#, Reason::MissingField),
            (r#"{"url":7,"body":"x"}"#, Reason::InvalidField),
            (r#"{"url":"u v","body":"x"}"#, Reason::InvalidUrl),
            (r#"{"url":"u"}"#, Reason::MissingField),
            (r#"{"url":"u","body":[]}"#, Reason::InvalidField),
            (r#"{"url":"u","body_base64":"?"}"#, Reason::InvalidField),
            (r#"{"url":"u","body":"x","http_status":"ok"}"#, Reason::InvalidField),
            (r#"{"url":"u","body":"x","http_status":503}"#, Reason::HttpStatus),
            (r#"{"url":"u","body":"x","content_type":"image/png"}"#, Reason::MediaType),
        ] {
            let rejection = page(Preset::Page, json).expect_err(json);
            assert_eq!(rejection.reason, reason, "{json}: {}", rejection.message);
            assert_eq!(rejection.url.is_some(), json.contains(r#""u""#), "{json}");
        }
        let long = format!(r#"{{"url":"u","body":"{}"}}"#, "x".repeat(101));
        assert_eq!(page(Preset::Page, &long).expect_err("long").reason, Reason::TooLarge);
        let empty_and_deep = [r#"{"url":"#.repeat(5000), String::new()];
        assert!(empty_and_deep.iter().all(|json| page(Preset::Page, json).is_err()));
    }

    #[test]
    fn impossible_maps_are_reported() {
        let pointers = FieldMap { preset: Preset::Pointers, ..FieldMap::default() };
        assert!(pointers.problem().expect("no URL").contains("url is empty"));
        let url = FieldMap { url: "/u".into(), ..pointers };
        assert!(url.problem().expect("no body").contains("body"));
        let wrong = FieldMap { url: "u".into(), ..FieldMap::default() };
        assert!(wrong.problem().expect("no pointer").contains("slash"));
        for preset in [Preset::Page, Preset::Scrapy, Preset::Nutch] {
            assert_eq!(FieldMap { preset, ..FieldMap::default() }.problem(), None);
        }
    }
}
