//! Field maps: where a record holds the parts of a page.

use super::fallback::{Fallback, url_of_text};
use super::http_status::StatusMeaning;
use super::limits::Limits;
use super::page_parts::assemble_page;
use super::part::Part;
use super::place::place_names;
use super::preset::Preset;
use super::rejection::{Reason, Rejection};
use crate::document::{Body, Content, FetchTime, InvalidTime, MediaType, Page};
use base64::Engine as _;
use jiff::civil::Weekday;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;

/// The places of a page's parts: JSON pointers (RFC 6901), or plain names of fields or columns. An empty place takes the
/// preset's. Names match whatever their case, because some are HTTP header names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FieldMap {
    /// Supplies the places that are empty.
    pub preset: Preset,
    /// The URL.
    pub url: String,
    /// The fetch time: RFC 3339, the same without a zone (UTC), 14 digits from year to second (UTC), seconds or
    /// milliseconds since 1970, or a crawl's week (`CC-MAIN-2024-10`).
    pub fetched_at: String,
    /// The sweep.
    pub sweep: String,
    /// The content type; the last element of an array counts.
    pub content_type: String,
    /// The HTTP status, a number or a string.
    pub http_status: String,
    /// The target of a redirect; the last element of an array counts.
    pub redirect_to: String,
    /// Whether nothing is at the URL any more.
    pub gone: String,
    /// The body as text. If one of the contents is given, the preset's contents do not count.
    pub body: String,
    /// The body in base64.
    pub body_base64: String,
    /// The body as HTML.
    pub html: String,
    /// Plain text.
    pub text: String,
    /// An array of strings.
    pub features: String,
    /// What identifies a record without a URL.
    pub id: String,
}

impl FieldMap {
    /// Whether the map is the JSON page's.
    pub fn is_plain(&self) -> bool {
        self.preset.is_page() && Part::ALL.iter().all(|part| self.own(*part).is_empty())
    }

    /// Whether the first records may show which preset they follow: nothing says so already.
    pub fn may_be_recognised(&self) -> bool {
        let decided = [&[Part::Url, Part::FetchedAt][..], &Part::CONTENTS].concat();
        self.preset == Preset::Auto && decided.iter().all(|part| self.own(*part).is_empty())
    }

    /// Puts a part at a place.
    pub fn set(&mut self, part: Part, place: &str) {
        let own = match part {
            Part::Url => &mut self.url,
            Part::FetchedAt => &mut self.fetched_at,
            Part::Sweep => &mut self.sweep,
            Part::ContentType => &mut self.content_type,
            Part::HttpStatus => &mut self.http_status,
            Part::RedirectTo => &mut self.redirect_to,
            Part::Gone => &mut self.gone,
            Part::Body => &mut self.body,
            Part::BodyBase64 => &mut self.body_base64,
            Part::Html => &mut self.html,
            Part::Text => &mut self.text,
            Part::Features => &mut self.features,
            Part::Id => &mut self.id,
        };
        *own = place.to_string();
    }

    /// Returns what is wrong with the map, if anything. Without `needs_url`, something else can make the URL.
    pub fn problem(&self, needs_url: bool) -> Option<String> {
        if self.places(Part::Url).next().is_none() && needs_url && !self.lacks(Part::Url) {
            return Some("url is empty: name its place, such as \"/url\" or \"url\", or set input.url_from".into());
        }
        let has_content = Part::CONTENTS.iter().any(|part| self.places(*part).next().is_some());
        (!has_content).then(|| "body, html and text are empty: name one of their places, such as \"/body\"".into())
    }

    /// Whether no record of the preset has the part, and no other place is configured.
    pub fn lacks(&self, part: Part) -> bool {
        self.preset != Preset::Pointers && self.places(part).next().is_none()
    }

    /// The places of a part; the first one that holds something counts.
    pub fn places(&self, part: Part) -> impl Iterator<Item = &str> {
        let own = self.own(part);
        let is_replaced = !own.is_empty() || (part.is_content() && self.has_own_content());
        let presets: &[&str] = if is_replaced { &[] } else { self.preset.places(part) };
        Some(own).filter(|own| !own.is_empty()).into_iter().chain(presets.iter().copied())
    }

    /// The place that is configured for a part, besides those of the preset.
    pub fn own_place(&self, part: Part) -> Option<&str> {
        Some(self.own(part)).filter(|own| !own.is_empty())
    }

    /// What a table lacks whose columns have these names: its page would have no URL, time or content.
    ///
    /// # Errors
    /// A text that names the columns that are there.
    pub fn check_columns(&self, columns: &[String], fallback: &Fallback) -> Result<(), String> {
        let has = |place: &str| columns.iter().filter(|column| is_column(place, column)).count();
        let shown = || columns.iter().take(20).map(String::as_str).collect::<Vec<_>>().join(", ");
        for part in Part::ALL {
            let own = self.own(part);
            if !own.is_empty() && has(own) == 0 {
                return Err(format!("no column is named {own:?} for {}; the columns are {}", part.as_str(), shown()));
            }
            if let Some(place) = self.places(part).find(|place| has(place) > 1) {
                return Err(format!("two columns are named {:?}; rename one of them", first_token(place)));
            }
        }
        let is_there = |part: Part| self.places(part).any(|place| has(place) > 0);
        let missing = |part: &str, help: &str| {
            Err(format!("no column holds the {part} of a page; the columns are {}; {help}", shown()))
        };
        if !is_there(Part::Url) && fallback.url.is_none() && !(fallback.is_id_url && is_there(Part::Id)) {
            return missing("URL", "name it with --map url=COLUMN, or give --url-from record");
        }
        if !is_there(Part::FetchedAt) && fallback.fetched_at.is_none() {
            return missing(
                "fetch time",
                "name it with --map fetched_at=COLUMN, or give --fetched-at TIME or file-time",
            );
        }
        let contents = [Part::Gone, Part::RedirectTo].into_iter().chain(Part::CONTENTS);
        if !contents.into_iter().any(is_there) {
            return missing("content", "name it with --map text=COLUMN, html=COLUMN or body=COLUMN");
        }
        Ok(())
    }

    /// Whether a column of this name holds a part.
    pub fn names_column(&self, column: &str) -> bool {
        Part::ALL.iter().any(|part| self.places(*part).any(|place| is_column(place, column)))
    }

    fn own(&self, part: Part) -> &str {
        match part {
            Part::Url => &self.url,
            Part::FetchedAt => &self.fetched_at,
            Part::Sweep => &self.sweep,
            Part::ContentType => &self.content_type,
            Part::HttpStatus => &self.http_status,
            Part::RedirectTo => &self.redirect_to,
            Part::Gone => &self.gone,
            Part::Body => &self.body,
            Part::BodyBase64 => &self.body_base64,
            Part::Html => &self.html,
            Part::Text => &self.text,
            Part::Features => &self.features,
            Part::Id => &self.id,
        }
    }

    fn has_own_content(&self) -> bool {
        Part::CONTENTS.iter().any(|part| !self.own(*part).is_empty())
    }

    /// Reads the page in a JSON object. `fallback` stands in for parts that it lacks.
    ///
    /// # Errors
    /// A [`Rejection`] with whatever could be read of URL, time and sweep.
    pub fn page(&self, json: &[u8], fallback: &Fallback, limits: &Limits) -> Result<Page, Rejection> {
        let mut source = serde_json::Deserializer::from_slice(json);
        let record = Selection(self).deserialize(&mut source).and_then(|record| source.end().map(|()| record));
        let record = record.map_err(|error| match error.classify() {
            serde_json::error::Category::Data => Rejection::new(Reason::InvalidJson, "the record is not a JSON object"),
            _ => Rejection::new(Reason::InvalidJson, format!("not JSON: {error}")),
        })?;
        let url = self.url_in(&record, fallback, limits);
        let fetched_at = time_of(self.find(&record, Part::FetchedAt), fallback);
        let sweep =
            sweep_of(self.find(&record, Part::Sweep), limits).map(|sweep| sweep.or_else(|| fallback.sweep.clone()));
        assemble_page(url, fetched_at, sweep, |url| self.content(&record, url, limits))
    }

    /// The first of a part's places that holds something. Null counts as nothing.
    fn find<'r>(&self, record: &'r Value, part: Part) -> Option<&'r Value> {
        self.places(part).filter_map(|place| value_at(record, place)).find(|value| !value.is_null())
    }

    fn url_in(&self, record: &Value, fallback: &Fallback, limits: &Limits) -> Result<String, Rejection> {
        let id = |value: &Value| match value {
            Value::Number(number) => Ok(number.to_string()),
            value => text(value, "id").map(url_of_text),
        };
        let own = self.find(record, Part::Url).map(|value| text(value, "URL").map(String::from));
        let by_id = || self.find(record, Part::Id).filter(|_| fallback.is_id_url).map(id);
        let url = own.or_else(by_id).or_else(|| fallback.url.clone().map(Ok)).unwrap_or_else(|| {
            let places: Vec<&str> = self.places(Part::Url).collect();
            let message = match places.as_slice() {
                [] => "the record has no place for a URL; input.url_from (--url-from record) makes one".to_string(),
                places => {
                    format!("there is no URL at {}; input.fields.url (--map) names its place", places.join(" or "))
                }
            };
            Err(Rejection::new(Reason::MissingField, message))
        })?;
        limits.check_url(&url)?;
        Ok(url)
    }

    fn content(&self, record: &Value, url: &str, limits: &Limits) -> Result<Content, Rejection> {
        let redirect_to = self.find(record, Part::RedirectTo);
        let meaning = match self.find(record, Part::HttpStatus) {
            Some(status) => meaning_of(status)?,
            None if redirect_to.is_some() => StatusMeaning::Redirect,
            None => StatusMeaning::Present,
        };
        if meaning == StatusMeaning::Gone || is_true(self.find(record, Part::Gone))? {
            return Ok(Content::Gone);
        }
        if meaning == StatusMeaning::Redirect {
            return limits.redirect(url, redirect_to.map(|value| header(value, "redirect")).transpose()?);
        }
        let contents = Part::CONTENTS.into_iter().filter_map(|part| Some((part, self.find(record, part)?)));
        match contents.collect::<Vec<_>>().as_slice() {
            [(part, value)] => content_of(*part, value, self.find(record, Part::ContentType), limits),
            // The JSON page's `"body": null`.
            [] if self.preset.is_page() && self.places(Part::Body).any(|place| value_at(record, place).is_some()) => {
                Ok(Content::Gone)
            }
            [] => {
                let places: Vec<&str> = Part::CONTENTS.iter().flat_map(|part| self.places(*part)).collect();
                let message = format!("the page has no content: nothing is at {}", places.join(", "));
                Err(Rejection::new(Reason::MissingField, message))
            }
            several => {
                let names: Vec<&str> = several.iter().map(|(part, _)| part.as_str()).collect();
                let message = format!("the page has more than one content: {}", names.join(" and "));
                Err(Rejection::new(Reason::InvalidField, message))
            }
        }
    }
}

/// Parses the fields that a map names, and skips the others: as values they would take many times their bytes.
struct Selection<'m>(&'m FieldMap);

impl<'de> DeserializeSeed<'de> for Selection<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Selection<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let wanted: BTreeSet<String> =
            Part::ALL.iter().flat_map(|part| self.0.places(*part)).map(first_token).collect();
        let mut selected = serde_json::Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            if wanted.iter().any(|wanted| wanted.eq_ignore_ascii_case(&name)) {
                selected.insert(name, fields.next_value()?);
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        Ok(Value::Object(selected))
    }
}

/// The name of the field or column that a place begins with, or is.
fn first_token(place: &str) -> String {
    place_names(place).swap_remove(0)
}

/// Whether a place means the column of this name: a table has no deeper levels.
fn is_column(place: &str, column: &str) -> bool {
    matches!(place_names(place).as_slice(), [name] if name.eq_ignore_ascii_case(column))
}

/// The value at a place of a record. A name that differs only in case matches if no other does.
fn value_at<'a>(value: &'a Value, place: &str) -> Option<&'a Value> {
    place_names(place).iter().try_fold(value, |at, token| child(at, token))
}

fn child<'a>(value: &'a Value, token: &str) -> Option<&'a Value> {
    match value {
        Value::Object(map) => map
            .get(token)
            .or_else(|| map.iter().find(|(name, _)| name.eq_ignore_ascii_case(token)).map(|(_, value)| value)),
        Value::Array(list) => list.get(token.parse::<usize>().ok()?),
        _ => None,
    }
}

/// A header's value: a string, or the last one of an array.
fn header<'a>(value: &'a Value, name: &str) -> Result<&'a str, Rejection> {
    text(value.as_array().and_then(|list| list.last()).unwrap_or(value), name)
}

fn text<'a>(value: &'a Value, name: &str) -> Result<&'a str, Rejection> {
    value.as_str().ok_or_else(|| Rejection::new(Reason::InvalidField, format!("the {name} is not text")))
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

/// Numbers of 8 digits are days, such as 20260101, and no times: as seconds they would lie before 1974.
const DAYS: std::ops::Range<f64> = 1e7..1e8;

/// The time that a number of 14 digits writes, such as 20261121080000; none for other numbers.
pub fn time_of_digits(number: f64) -> Option<Result<FetchTime, InvalidTime>> {
    DATES.contains(&number).then(|| format!("{number}").parse())
}

/// The time that a text means in a record of any map; none where it is no time.
pub fn time_of_text(text: &str) -> Option<FetchTime> {
    time_of(Some(&Value::from(text)), &Fallback::default()).ok()
}

fn time_of(value: Option<&Value>, fallback: &Fallback) -> Result<FetchTime, Rejection> {
    let invalid = |why: String| Rejection::new(Reason::InvalidTime, format!("the fetch time: {why}"));
    let Some(value) = value else {
        let message = "the record has no fetch time; input.fields.fetched_at (--map) names its place, input.fetched_at \
             (--fetched-at file-time) a time";
        return fallback.time().ok_or_else(|| Rejection::new(Reason::MissingField, message));
    };
    let number = value.as_f64().or_else(|| value.as_str()?.trim().parse::<f64>().ok());
    if let Some(date) = number.and_then(time_of_digits) {
        return date.map_err(|error| invalid(error.to_string()));
    }
    if let Some(day) = number.filter(|number| DAYS.contains(number)) {
        return Err(invalid(format!("{day} is a day and no time; write it as 2026-01-01T00:00:00Z")));
    }
    if let Some(number) = number {
        let seconds = if number.abs() < MILLISECONDS_FROM { number } else { number / 1e3 };
        let time = jiff::SignedDuration::try_from_secs_f64(seconds).ok();
        let time = time.and_then(|time| i64::try_from(time.as_micros()).ok()).map(FetchTime);
        return time
            .filter(|time| time.in_utc().is_some())
            .ok_or_else(|| invalid(format!("{number} is not a time up to the year 9999")));
    }
    let written = text(value, "time of the fetch")?;
    let zoned = written.parse::<FetchTime>();
    zoned.or_else(|error| {
        let other = crawl_week(written).or_else(|| format!("{written}Z").parse().ok());
        other.ok_or_else(|| invalid(error.to_string()))
    })
}

/// The Monday of the week that Common Crawl names a crawl for: `CC-MAIN-2024-10`.
fn crawl_week(name: &str) -> Option<FetchTime> {
    let (year, week) = name.strip_prefix("CC-MAIN-")?.split_once('-')?;
    let week = jiff::civil::ISOWeekDate::new(year.parse().ok()?, week.parse().ok()?, Weekday::Monday).ok()?;
    format!("{}T00:00:00Z", week.date()).parse().ok()
}

/// Whether a value says yes.
fn is_true(value: Option<&Value>) -> Result<bool, Rejection> {
    match value {
        None | Some(Value::Bool(false)) => Ok(false),
        Some(Value::Bool(true)) => Ok(true),
        // The cell of a table.
        Some(Value::String(word)) if ["true", "1"].contains(&word.to_ascii_lowercase().as_str()) => Ok(true),
        Some(Value::String(word)) if ["false", "0", ""].contains(&word.to_ascii_lowercase().as_str()) => Ok(false),
        Some(_) => Err(Rejection::new(Reason::InvalidField, "\"gone\" is neither true nor false")),
    }
}

fn meaning_of(value: &Value) -> Result<StatusMeaning, Rejection> {
    let number = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok());
    let status = number
        .and_then(|number| u16::try_from(number).ok())
        .ok_or_else(|| Rejection::new(Reason::InvalidField, "the HTTP status is not a number such as 200"))?;
    StatusMeaning::from_status(status)
}

/// The content at a part's place.
fn content_of(part: Part, value: &Value, content_type: Option<&Value>, limits: &Limits) -> Result<Content, Rejection> {
    if part == Part::Features {
        return features_of(value, limits);
    }
    let (label_type, charset) = match content_type.map(|value| header(value, "content type")).transpose()? {
        Some(content_type) => MediaType::parse(content_type).ok_or_else(|| Rejection::no_text(content_type))?,
        None => (MediaType::Unknown, None),
    };
    let written = text(value, part.as_str())?;
    let (media_type, body) = match part {
        Part::BodyBase64 => {
            let bytes = base64::engine::general_purpose::STANDARD
                .decode(written)
                .map_err(|error| Rejection::new(Reason::InvalidField, format!("the body is not base64: {error}")))?;
            (label_type, Body::Bytes { bytes, charset })
        }
        Part::Text => (MediaType::PlainText, Body::Text(written.to_string())),
        Part::Html => (MediaType::Html, Body::Text(written.to_string())),
        _ => (label_type, Body::Text(written.to_string())),
    };
    let n_bytes = body.as_bytes().len();
    if n_bytes > limits.body_bytes_max {
        return Err(limits.body_too_large(n_bytes));
    }
    Ok(Content::Body { media_type, body })
}

fn features_of(value: &Value, limits: &Limits) -> Result<Content, Rejection> {
    let no_strings = || Rejection::new(Reason::InvalidField, "the features are not an array of strings");
    let list = value.as_array().ok_or_else(no_strings)?;
    let features: Option<Vec<String>> = list.iter().map(|feature| feature.as_str().map(String::from)).collect();
    let features = features.ok_or_else(no_strings)?;
    let n_bytes = features.iter().map(String::len).sum();
    if n_bytes > limits.body_bytes_max {
        return Err(limits.body_too_large(n_bytes));
    }
    if features.len() > limits.words_max {
        return Err(limits.too_many_words(features.len()));
    }
    Ok(Content::Features(features))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent() -> Fallback {
        Fallback { fetched_at: Some(FetchTime(7)), ..Fallback::default() }
    }

    fn limits() -> Limits {
        Limits { body_bytes_max: 100, ..Limits::default() }
    }

    fn page(preset: Preset, json: &str) -> Result<Page, Rejection> {
        FieldMap { preset, ..FieldMap::default() }.page(json.as_bytes(), &sent(), &limits())
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
        assert_eq!(fields.problem(true), None);
        let page = fields.page(br#"{"a/b":["http://a/"],"c~":{"d":"b25l"}}"#, &sent(), &limits()).expect("a page");
        assert_eq!((page.url.as_str(), page.fetched_at), ("http://a/", FetchTime(7)));
        let Content::Body { body, .. } = page.content else { panic!("no body") };
        assert_eq!(body.as_bytes(), b"one");
    }

    /// Scrapy Cluster can send its bodies in base64 at the same place; only the map tells the two apart.
    #[test]
    fn base64_takes_the_place_of_the_preset_s_body() {
        let fields = FieldMap { preset: Preset::Scrapy, body_base64: "/body".into(), ..FieldMap::default() };
        assert_eq!(fields.problem(true), None);
        let page = fields.page(br#"{"url":"http://a/","body":"PHA+b25l"}"#, &sent(), &limits()).expect("a page");
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
            ("253402214400000", Ok("9999-12-31T00:00:00Z")),
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
            // Lost once: every page whose text is a list, and ends as another one's; the last string alone counted.
            (r#"{"url":"u","body":["one","The end."]}"#, Reason::InvalidField),
            (r#"{"url":"u","text":["one","The end."]}"#, Reason::InvalidField),
            (r#"{"url":"u","html":["one","The end."]}"#, Reason::InvalidField),
            (r#"{"url":"u","body_base64":["b25l","b25l"]}"#, Reason::InvalidField),
            (r#"{"url":["v"],"body":"x"}"#, Reason::InvalidField),
            (r#"{"url":"u","body":"x","sweep":["s"]}"#, Reason::InvalidField),
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
        assert!(pointers.problem(true).expect("no URL").contains("url is empty"));
        assert!(pointers.problem(false).expect("no body").contains("body"));
        let url = FieldMap { url: "/u".into(), ..pointers };
        assert!(url.problem(true).expect("no body").contains("body"));
        for preset in Preset::ALL.into_iter().filter(|preset| *preset != Preset::Pointers) {
            assert_eq!(FieldMap { preset, ..FieldMap::default() }.problem(true), None);
        }
    }

    #[test]
    fn corpora() {
        let text = |text: &str| Content::Body { media_type: MediaType::PlainText, body: Body::Text(text.into()) };
        let fineweb = r#"{"text":"one","id":"<urn:uuid:1>","dump":"CC-MAIN-2024-10","url":"http://a/","date":"2024-03-05T01:02:03Z"}"#;
        let found = page(Preset::Fineweb, fineweb).expect("a page");
        assert_eq!((found.url.as_str(), found.sweep.as_deref()), ("http://a/", Some("CC-MAIN-2024-10")));
        assert_eq!((found.fetched_at.to_string().as_str(), found.content), ("2024-03-05T01:02:03Z", text("one")));
        let edu = fineweb.replace(r#""date":"2024-03-05T01:02:03Z""#, r#""score":3"#);
        let found = page(Preset::Fineweb, &edu).expect("a page");
        assert_eq!(found.fetched_at.to_string(), "2024-03-04T00:00:00Z", "Monday of the tenth week");
        let c4 = r#"{"text":"one","timestamp":"2019-04-25T12:57:54Z","url":"http://a/"}"#;
        assert_eq!(page(Preset::C4, c4).expect("a page").content, text("one"));
        let pile = r#"{"text":"one","meta":{"pile_set_name":"Pile-CC"}}"#;
        assert_eq!(page(Preset::ThePile, pile).expect_err("no URL").reason, Reason::MissingField);
        let fields = FieldMap { preset: Preset::ThePile, ..FieldMap::default() };
        assert!(fields.lacks(Part::Url) && fields.lacks(Part::FetchedAt) && !fields.lacks(Part::Text));
        let named = Fallback { url: Some("/f#0".into()), fetched_at: Some(FetchTime(3)), ..Fallback::default() };
        let found = fields.page(pile.as_bytes(), &named, &limits()).expect("a page");
        assert_eq!((found.url.as_str(), found.fetched_at), ("/f#0", FetchTime(3)));
        assert_eq!(named.n_undated.load(std::sync::atomic::Ordering::Relaxed), 1);
    }

    #[test]
    fn plain_names_and_ids() {
        let fields = FieldMap { text: "content".into(), url: "link/to".into(), ..FieldMap::default() };
        let json = br#"{"link/to":"http://a/","Content":"one","body":"another","fetched_at":1700000000}"#;
        let found = fields.page(json, &Fallback::default(), &limits()).expect("a page");
        assert_eq!(found.url, "http://a/");
        assert!(matches!(found.content, Content::Body { media_type: MediaType::PlainText, .. }));
        let by_id = Fallback { is_id_url: true, ..sent() };
        for (id, url) in [("\"a b\"", "a%20b"), ("17", "17")] {
            let json = format!(r#"{{"id":{id},"text":"one"}}"#);
            assert_eq!(FieldMap::default().page(json.as_bytes(), &by_id, &limits()).expect("a page").url, url);
        }
        let message =
            FieldMap::default().page(br#"{"id":1,"text":"x"}"#, &sent(), &limits()).expect_err("no URL").message;
        assert!(message.contains("/url") && message.contains("input.fields.url"), "{message}");
    }

    #[test]
    fn columns_are_checked() {
        let named = |url: &str| FieldMap { url: url.into(), ..FieldMap::default() };
        let check = |fields: &FieldMap, columns: &str, fallback: &Fallback| {
            fields.check_columns(&columns.split(',').map(String::from).collect::<Vec<_>>(), fallback)
        };
        let (none, dated) = (Fallback::default(), sent());
        assert_eq!(check(&named(""), "url,fetched_at,text", &none), Ok(()));
        assert_eq!(check(&named("/Link"), "link,text", &dated), Ok(()));
        // Refused once: a name with a slash, escaped as in RFC 6901.
        assert_eq!(check(&named("/the~1link~0"), "the/link~,text", &dated), Ok(()));
        for (fields, columns, fallback, expected) in [
            (named(""), "link,fetched_at,text", &none, "the URL of a page; the columns are link, fetched_at, text"),
            (named("address"), "url,text", &dated, "no column is named \"address\" for url"),
            (named("/the/link"), "the/link,text", &dated, "no column is named \"/the/link\" for url"),
            (named(""), "url,text", &none, "fetch time"),
            (named(""), "url,content", &dated, "the content of a page"),
            (named(""), "url,text,URL", &dated, "two columns are named \"url\""),
        ] {
            let found = check(&fields, columns, fallback).expect_err(columns);
            assert!(found.contains(expected), "{found}");
        }
    }

    /// The parser of JSON pages and a map that changes nothing read the same pages.
    #[test]
    fn the_map_of_the_json_page_reads_json_pages() {
        let head = r#""url":"http://a/","fetched_at":"2020-01-01T00:00:00Z""#;
        for fields in [
            r#""body":"x""#,
            r#""content_type":"text/html; charset=latin1","body_base64":"6Q==""#,
            r#""text":"x","content_type":"text/html""#,
            r#""html":"<p>x""#,
            r#""features":["a","b"]"#,
            r#""body":null"#,
            r#""gone":true"#,
            r#""gone":false,"text":"x""#,
            r#""http_status":404,"body":"x""#,
            r#""http_status":301,"redirect_to":"/b""#,
            r#""redirect_to":"http://b/","body":null"#,
            r#""body":"x","text":"y""#,
            r#""x":1"#,
            r#""features":[1]"#,
            r#""http_status":500,"body":"x""#,
            r#""content_type":"image/png","body":"x""#,
            r#""sweep":"s","body":"x""#,
            r#""sweep":"","body":"x""#,
        ] {
            let json = format!("{{{head},{fields}}}");
            let by_map = page(Preset::Page, &json).map_err(|rejection| rejection.reason);
            let by_parser =
                crate::wire::parse_json_page(json.as_bytes(), &limits()).map_err(|rejection| rejection.reason);
            assert_eq!(by_map, by_parser, "{fields}");
        }
    }
}
