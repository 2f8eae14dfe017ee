//! What stands in for the parts that a record lacks.

use crate::document::{FetchTime, InvalidTime};
use serde::{Deserialize, Serialize};
use std::fmt::{self, Write};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What makes the URL of a record that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UrlFrom {
    /// The record's id.
    Id,
    /// The path of its file.
    Path,
    /// The path of its file, `#`, and the record's number, from 0.
    Record,
}

impl fmt::Display for UrlFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UrlFrom::Id => "id",
            UrlFrom::Path => "path",
            UrlFrom::Record => "record",
        })
    }
}

impl FromStr for UrlFrom {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "id" => Ok(UrlFrom::Id),
            "path" => Ok(UrlFrom::Path),
            "record" => Ok(UrlFrom::Record),
            _ => Err(format!("{name:?} is not one of id, path, record")),
        }
    }
}

/// The time of a record that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeFrom {
    /// When its file was last changed.
    File,
    /// A time.
    Time(FetchTime),
}

impl fmt::Display for TimeFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TimeFrom::File => f.write_str("file-time"),
            TimeFrom::Time(time) => time.fmt(f),
        }
    }
}

impl FromStr for TimeFrom {
    type Err = InvalidTime;

    fn from_str(text: &str) -> Result<Self, InvalidTime> {
        if text == "file-time" { Ok(TimeFrom::File) } else { text.parse().map(TimeFrom::Time) }
    }
}

/// What stands in for the parts that a record lacks.
#[derive(Clone, Debug, Default)]
pub struct Fallback {
    /// The URL.
    pub url: Option<String>,
    /// Whether the record's id is its URL.
    pub is_id_url: bool,
    /// The time of the fetch.
    pub fetched_at: Option<FetchTime>,
    /// The sweep.
    pub sweep: Option<String>,
    /// Counts the records that got [`Fallback::fetched_at`].
    pub n_undated: Arc<AtomicU64>,
}

impl Fallback {
    /// Whether nothing stands in for anything.
    pub fn is_empty(&self) -> bool {
        self.url.is_none() && !self.is_id_url && self.fetched_at.is_none() && self.sweep.is_none()
    }

    /// The time of a record that has none, counted.
    pub(super) fn time(&self) -> Option<FetchTime> {
        let time = self.fetched_at?;
        self.n_undated.fetch_add(1, Relaxed);
        Some(time)
    }
}

/// Makes a URL of any text: blanks, control characters and percent signs are percent-encoded.
pub fn url_of_text(text: &str) -> String {
    let mut url = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_whitespace() || c.is_control() || c == '%' {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                let _ = write!(url, "%{byte:02X}");
            }
        } else {
            url.push(c);
        }
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_becomes_a_url_of_its_own() {
        for (text, url) in [
            ("/data/a.txt", "/data/a.txt"),
            ("/data/a b.txt", "/data/a%20b.txt"),
            ("/data/a%20b.txt", "/data/a%2520b.txt"),
            ("/été\u{a0}\n", "/été%C2%A0%0A"),
        ] {
            assert_eq!(url_of_text(text), url);
        }
    }

    #[test]
    fn words_of_the_command_line() {
        assert_eq!("file-time".parse::<TimeFrom>().expect("a time"), TimeFrom::File);
        assert_eq!("1970-01-01T00:00:00Z".parse::<TimeFrom>().expect("a time"), TimeFrom::Time(FetchTime(0)));
        assert!("yesterday".parse::<TimeFrom>().is_err());
        assert_eq!("record".parse::<UrlFrom>(), Ok(UrlFrom::Record));
        assert!("row".parse::<UrlFrom>().expect_err("unknown").contains("id, path, record"));
    }
}
