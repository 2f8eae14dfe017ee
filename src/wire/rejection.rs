//! Rejections: why a record is not a page, as an event and a log show it.

use crate::codec::{
    decode_array, decode_bytes, decode_flag, decode_string, decode_text, encode_bytes, encode_flag, encode_text,
};
use crate::document::{FetchTime, Page};
use serde::{Deserialize, Serialize};

/// Why a record was rejected, as a word that never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// Not a JSON object.
    InvalidJson,
    /// `url`, `fetched_at` or the content is missing.
    MissingField,
    /// A field has another type, or the page has more than one content.
    InvalidField,
    /// The URL is empty, too long, or contains control characters or blanks.
    InvalidUrl,
    /// The time cannot be read.
    InvalidTime,
    /// The time is too far ahead of the clock.
    FutureTime,
    /// The HTTP status says nothing about the page.
    HttpStatus,
    /// The content type is not text.
    MediaType,
    /// The body has too many bytes after decompression, or too many words.
    TooLarge,
    /// The bytes are not text in any charset.
    NotText,
    /// A WARC revisit: it refers to an earlier capture and has no body of its own.
    Revisit,
    /// One of several segments of a WARC record.
    Segmented,
    /// An archive's own resource, such as the crawler's log, under a URL that no page has.
    NoPage,
    /// The content encoding (gzip, br, …) cannot be undone.
    ContentEncoding,
    /// The page made the program fail: a bug worth reporting.
    Internal,
    /// The process died every time it tried the record.
    Poison,
    /// A gap: the records were deleted before they were read.
    Overtaken,
    /// A gap: the topic was recreated.
    Replaced,
    /// A gap: the records cannot be decompressed.
    Undecodable,
}

impl Reason {
    /// All reasons.
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

    /// The reason's word.
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

/// Marks where a message was cut.
pub(super) const ELLIPSIS: &str = "…";

/// A record that is not a page, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Why, as a word.
    pub reason: Reason,
    /// Why, for people, and what to do.
    pub message: String,
    /// The record's URL, if it could be read.
    pub url: Option<String>,
    /// The record's time, if it could be read.
    pub fetched_at: Option<FetchTime>,
    /// The record's sweep, if it could be read.
    pub sweep: Option<String>,
    /// For a gap, the offset where reading continues. The records before it do not exist and are not judged one by
    /// one.
    pub gap_to: Option<i64>,
}

impl Rejection {
    /// Creates a rejection of a record of which nothing could be read. A long message, which quotes the record, is
    /// cut.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        let mut message = message.into();
        if message.len() > MESSAGE_BYTES_MAX {
            let longest = MESSAGE_BYTES_MAX - ELLIPSIS.len();
            message.truncate((0..=longest).rev().find(|at| message.is_char_boundary(*at)).unwrap_or(0));
            message.push_str(ELLIPSIS);
        }
        Rejection { reason, message, url: None, fetched_at: None, sweep: None, gap_to: None }
    }

    /// Creates the rejection of a content type that is not text.
    pub fn no_text(content_type: &str) -> Self {
        let shown: String = content_type.chars().take(100).collect();
        Rejection::new(Reason::MediaType, format!("the content type {shown:?} holds no text"))
    }

    /// Adds URL, time and sweep of a page.
    pub fn about(mut self, page: &Page) -> Self {
        self.url = Some(page.url.clone());
        self.fetched_at = Some(page.fetched_at);
        self.sweep.clone_from(&page.sweep);
        self
    }

    /// Appends everything but [`Self::gap_to`]: reason and message, then URL, time (8 bytes, little-endian) and sweep,
    /// each behind a flag.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode_bytes(self.reason.as_str().as_bytes(), out);
        encode_bytes(self.message.as_bytes(), out);
        encode_text(self.url.as_deref(), out);
        encode_flag(self.fetched_at.is_some(), out);
        out.extend(self.fetched_at.map_or(0, |time| time.0).to_le_bytes());
        encode_text(self.sweep.as_deref(), out);
    }

    /// Decodes what [`Self::encode`] appends; `None` where the bytes are damaged.
    pub fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let name = decode_bytes(bytes)?;
        let reason = Reason::ALL.into_iter().find(|reason| reason.as_str().as_bytes() == name)?;
        let message = decode_string(bytes)?;
        let url = decode_text(bytes)?;
        let has_time = decode_flag(bytes)?;
        let time = FetchTime(i64::from_le_bytes(decode_array(bytes)?));
        let sweep = decode_text(bytes)?;
        Some(Rejection { reason, message, url, fetched_at: has_time.then_some(time), sweep, gap_to: None })
    }
}
