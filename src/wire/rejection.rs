//! Rejections: why a record is not a page, as an event and a log show it.

use crate::document::{FetchTime, Page};
use serde::{Deserialize, Serialize};

/// Why a record was rejected, as a word that does not change between versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Not a JSON object.
    InvalidJson,
    /// `url`, `fetched_at` or the content is not there.
    MissingField,
    /// A field has another type or more than one content field is there.
    InvalidField,
    /// Empty, too long, or with control characters or blanks in it.
    InvalidUrl,
    /// No time that can be read.
    InvalidTime,
    /// A time farther ahead of the clock than may be.
    FutureTime,
    /// An HTTP status that brings no page.
    HttpStatus,
    /// A content type that holds no text.
    MediaType,
    /// More bytes, after decompression, or more words than the limit.
    TooLarge,
    /// Bytes that are no text in any charset.
    NotText,
    /// A WARC revisit: it names an earlier capture and has no body of its own.
    Revisit,
    /// A part of a WARC record that was written in several.
    Segmented,
    /// What an archive keeps under a URL that no page has: the crawler's log, say.
    NoPage,
    /// The content encoding (gzip, br, …) cannot be undone.
    ContentEncoding,
    /// The page made the program fail: a fault of ours, worth a report.
    Internal,
    /// The process died each time that it took the record up.
    Poison,
    /// A gap: the records were deleted before they were read.
    Overtaken,
    /// A gap: the topic was made anew.
    Replaced,
    /// A gap: records that cannot be unpacked.
    Undecodable,
}

impl Reason {
    /// Every reason there is.
    pub const ALL: [Reason; 19] = [
        Reason::InvalidJson,
        Reason::MissingField,
        Reason::InvalidField,
        Reason::InvalidUrl,
        Reason::InvalidTime,
        Reason::FutureTime,
        Reason::HttpStatus,
        Reason::MediaType,
        Reason::TooLarge,
        Reason::NotText,
        Reason::Revisit,
        Reason::Segmented,
        Reason::NoPage,
        Reason::ContentEncoding,
        Reason::Internal,
        Reason::Poison,
        Reason::Overtaken,
        Reason::Replaced,
        Reason::Undecodable,
    ];

    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::InvalidJson => "invalid-json",
            Reason::MissingField => "missing-field",
            Reason::InvalidField => "invalid-field",
            Reason::InvalidUrl => "invalid-url",
            Reason::InvalidTime => "invalid-time",
            Reason::FutureTime => "future-time",
            Reason::HttpStatus => "http-status",
            Reason::MediaType => "media-type",
            Reason::TooLarge => "too-large",
            Reason::NotText => "not-text",
            Reason::Revisit => "revisit",
            Reason::Segmented => "segmented",
            Reason::NoPage => "no-page",
            Reason::ContentEncoding => "content-encoding",
            Reason::Internal => "internal",
            Reason::Poison => "poison",
            Reason::Overtaken => "overtaken",
            Reason::Replaced => "replaced",
            Reason::Undecodable => "undecodable",
        }
    }
}

/// The longest message of a rejection: it goes into an event and a log.
pub(super) const MESSAGE_BYTES_MAX: usize = 1024;

/// Stands where a message was cut.
pub(super) const ELLIPSIS: &str = "…";

/// A record that is no page, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Why, as a word.
    pub reason: Reason,
    /// Why, for a person, with what to do.
    pub message: String,
    /// What could be read of the record's URL.
    pub url: Option<String>,
    /// What could be read of its time.
    pub fetched_at: Option<FetchTime>,
    /// What could be read of its sweep.
    pub sweep: Option<String>,
    /// Of a gap, the offset where reading goes on: what lies before it is not there to be judged one by one.
    pub gap_to: Option<i64>,
}

impl Rejection {
    /// A rejection of a record of which nothing could be read. Of a long message, which quotes the record, the beginning
    /// is kept.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if message.len() > MESSAGE_BYTES_MAX {
            let longest = MESSAGE_BYTES_MAX - ELLIPSIS.len();
            message.truncate((0..=longest).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0));
            message.push_str(ELLIPSIS);
        }
        Rejection { reason, message, url: None, fetched_at: None, sweep: None, gap_to: None }
    }

    /// The rejection of a content type that holds no text.
    pub fn no_text(content_type: &str) -> Self {
        let shown: String = content_type.chars().take(100).collect();
        Rejection::new(Reason::MediaType, format!("the content type {shown:?} holds no text"))
    }

    /// The same, with what a page says of itself.
    pub fn about(mut self, page: &Page) -> Self {
        self.url = Some(page.url.clone());
        self.fetched_at = Some(page.fetched_at);
        self.sweep.clone_from(&page.sweep);
        self
    }
}
