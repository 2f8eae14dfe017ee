//! Presets: the places of a page's parts in the records of known programs and corpora, and how to recognise these.

use super::limits::Limits;
use super::part::Part;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// Known sets of places, named for the program or corpus that has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// What the first records of an input certainly are; otherwise the JSON page.
    #[default]
    Auto,
    /// The JSON page of this program.
    Page,
    /// FineWeb and FineWeb-Edu: `text`, `url`, `date`, `dump`, `id`.
    Fineweb,
    /// C4 and mC4: `text`, `url`, `timestamp`.
    C4,
    /// The Pile: `text`, `meta`.
    ThePile,
    /// Items of Scrapy Cluster: `url`, `timestamp`, `status_code`, `response_headers`, `body`, `crawlid`.
    Scrapy,
    /// The output of Nutch's `commoncrawldump`: `url`, `timestamp`, `response/status`, `response/headers`,
    /// `response/body`.
    Nutch,
    /// No known set: every place is configured.
    Pointers,
}

/// Fields that only the JSON page has.
const OF_THE_PAGE_ALONE: [&str; 8] =
    ["fetched_at", "body_base64", "features", "gone", "redirect_to", "http_status", "content_type", "sweep"];

impl Preset {
    /// All presets.
    pub const ALL: [Preset; 8] = [
        Preset::Auto,
        Preset::Page,
        Preset::Fineweb,
        Preset::C4,
        Preset::ThePile,
        Preset::Scrapy,
        Preset::Nutch,
        Preset::Pointers,
    ];

    /// The preset's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Preset::Auto => "auto",
            Preset::Page => "page",
            Preset::Fineweb => "fineweb",
            Preset::C4 => "c4",
            Preset::ThePile => "the-pile",
            Preset::Scrapy => "scrapy",
            Preset::Nutch => "nutch",
            Preset::Pointers => "pointers",
        }
    }

    /// Whether records hold JSON pages unless they certainly hold something else.
    pub fn is_page(self) -> bool {
        matches!(self, Preset::Auto | Preset::Page)
    }

    /// The places of a part; the first one that holds something counts.
    pub(super) fn places(self, part: Part) -> &'static [&'static str] {
        match self {
            Preset::Auto | Preset::Page => page_places(part),
            Preset::Fineweb => match part {
                Part::Url => &["/url"],
                // FineWeb-Edu has no date, but the crawl's week.
                Part::FetchedAt => &["/date", "/dump"],
                Part::Sweep => &["/dump"],
                Part::Text => &["/text"],
                Part::Id => &["/id"],
                _ => &[],
            },
            Preset::C4 => match part {
                Part::Url => &["/url"],
                Part::FetchedAt => &["/timestamp"],
                Part::Text => &["/text"],
                _ => &[],
            },
            Preset::ThePile => match part {
                Part::Text => &["/text"],
                _ => &[],
            },
            Preset::Scrapy => match part {
                Part::Url => &["/url"],
                Part::FetchedAt => &["/timestamp"],
                Part::Sweep => &["/crawlid"],
                Part::ContentType => &["/response_headers/content-type"],
                Part::HttpStatus => &["/status_code"],
                Part::RedirectTo => &["/response_headers/location"],
                Part::Body => &["/body"],
                _ => &[],
            },
            Preset::Nutch => match part {
                Part::Url => &["/url"],
                Part::FetchedAt => &["/timestamp"],
                Part::ContentType => &["/response/headers/content-type"],
                Part::HttpStatus => &["/response/status"],
                Part::RedirectTo => &["/response/headers/location"],
                Part::Body => &["/response/body"],
                Part::Id => &["/key"],
                _ => &[],
            },
            Preset::Pointers => &[],
        }
    }

    /// The preset whose records certainly have these names, if they are not those of a JSON page.
    pub fn recognise(names: &BTreeSet<String>) -> Option<Preset> {
        let has = |wanted: &[&str]| wanted.iter().all(|name| names.contains(*name));
        if OF_THE_PAGE_ALONE.iter().any(|name| names.contains(*name)) {
            None
        } else if has(&["text", "url", "dump"]) {
            Some(Preset::Fineweb)
        } else if has(&["text", "url", "timestamp"]) {
            Some(Preset::C4)
        } else if has(&["text", "meta"]) && names.len() == 2 {
            Some(Preset::ThePile)
        } else if has(&["url", "body", "crawlid", "response_headers", "status_code"]) {
            Some(Preset::Scrapy)
        } else if has(&["url", "timestamp", "request", "response"]) {
            Some(Preset::Nutch)
        } else {
            None
        }
    }
}

fn page_places(part: Part) -> &'static [&'static str] {
    match part {
        Part::Url => &["/url"],
        Part::FetchedAt => &["/fetched_at"],
        Part::Sweep => &["/sweep"],
        Part::ContentType => &["/content_type"],
        Part::HttpStatus => &["/http_status"],
        Part::RedirectTo => &["/redirect_to"],
        Part::Gone => &["/gone"],
        Part::Body => &["/body"],
        Part::BodyBase64 => &["/body_base64"],
        Part::Text => &["/text"],
        Part::Html => &["/html"],
        Part::Features => &["/features"],
        Part::Id => &["/id"],
    }
}

impl FromStr for Preset {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Preset::ALL.map(Preset::as_str).join(", ");
        let found = Preset::ALL.into_iter().find(|preset| preset.as_str() == name);
        found.ok_or_else(|| format!("unknown preset {name:?}; the presets are {known}"))
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The names of a JSON object's fields, sorted; `None` for anything but an object.
pub fn field_names(json: &[u8], limits: &Limits) -> Option<BTreeSet<String>> {
    if json.len() > limits.json_bytes_max() {
        return None;
    }
    serde_json::from_slice::<FieldNames>(json).ok().map(|names| names.0)
}

struct FieldNames(BTreeSet<String>);

impl<'de> Deserialize<'de> for FieldNames {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldNamesVisitor)
    }
}

struct FieldNamesVisitor;

impl<'de> Visitor<'de> for FieldNamesVisitor {
    type Value = FieldNames;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<FieldNames, A::Error> {
        let mut names = BTreeSet::new();
        while let Some((name, IgnoredAny)) = fields.next_entry::<String, _>()? {
            names.insert(name);
        }
        Ok(FieldNames(names))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_recognised_where_they_are_certain() {
        for (json, expected) in [
            (
                r#"{"text":"x","id":"<urn:uuid:1>","dump":"CC-MAIN-2024-10","url":"http://a/","date":"2024-03-01T00:00:00Z",
                   "file_path":"s3://a","language":"en","language_score":0.9,"token_count":1}"#,
                Some(Preset::Fineweb),
            ),
            (r#"{"text":"x","id":"1","dump":"CC-MAIN-2024-10","url":"http://a/","score":3.1}"#, Some(Preset::Fineweb)),
            (r#"{"text":"x","timestamp":"2019-04-25T12:57:54Z","url":"http://a/"}"#, Some(Preset::C4)),
            (r#"{"text":"x","meta":{"pile_set_name":"Pile-CC"}}"#, Some(Preset::ThePile)),
            (r#"{"text":"x","meta":{},"url":"http://a/"}"#, None),
            (r#"{"url":"u","crawlid":"c","status_code":200,"response_headers":{},"body":"x"}"#, Some(Preset::Scrapy)),
            (r#"{"url":"u","timestamp":"1","request":{},"response":{}}"#, Some(Preset::Nutch)),
            (r#"{"url":"http://a/","fetched_at":"2020-01-01T00:00:00Z","text":"x"}"#, None),
            (r#"{"url":"http://a/","fetched_at":"2020-01-01T00:00:00Z","text":"x","timestamp":"y","dump":"z"}"#, None),
            (r#"{"url":"http://a/","text":"x"}"#, None),
            (r#"{}"#, None),
        ] {
            let names = field_names(json.as_bytes(), &Limits::default()).expect(json);
            assert_eq!(Preset::recognise(&names), expected, "{json}");
        }
        for json in ["", "[1]", "7", "{", "{\"a\":}"] {
            assert_eq!(field_names(json.as_bytes(), &Limits::default()), None, "{json}");
        }
    }

    #[test]
    fn names_are_read_back() {
        for preset in Preset::ALL {
            assert_eq!(preset.as_str().parse(), Ok(preset));
            assert_eq!(serde_json::to_string(&preset).expect("JSON"), format!("\"{preset}\""));
        }
        assert!(Preset::from_str("c5").expect_err("unknown").contains("fineweb, c4, the-pile"));
    }
}
