//! The parts of a page, by name.

use std::str::FromStr;

/// A part of a page that a record can hold, or something that can stand in for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The URL.
    Url,
    /// When the page was fetched.
    FetchedAt,
    /// The sweep.
    Sweep,
    /// The media type, with a charset perhaps.
    ContentType,
    /// The HTTP status.
    HttpStatus,
    /// Where the URL leads.
    RedirectTo,
    /// Whether nothing is at the URL any more.
    Gone,
    /// The content as text of the content type.
    Body,
    /// The content as bytes in base64.
    BodyBase64,
    /// The content as HTML.
    Html,
    /// The content as plain text.
    Text,
    /// The content as a set of strings.
    Features,
    /// What identifies the record where it has no URL.
    Id,
}

impl Part {
    /// All parts.
    pub const ALL: [Part; 13] = [
        Part::Url,
        Part::FetchedAt,
        Part::Sweep,
        Part::ContentType,
        Part::HttpStatus,
        Part::RedirectTo,
        Part::Gone,
        Part::Body,
        Part::BodyBase64,
        Part::Html,
        Part::Text,
        Part::Features,
        Part::Id,
    ];

    /// The parts that are contents: a page has one of them.
    pub const CONTENTS: [Part; 5] = [Part::Body, Part::BodyBase64, Part::Html, Part::Text, Part::Features];

    /// The part's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Part::Url => "url",
            Part::FetchedAt => "fetched_at",
            Part::Sweep => "sweep",
            Part::ContentType => "content_type",
            Part::HttpStatus => "http_status",
            Part::RedirectTo => "redirect_to",
            Part::Gone => "gone",
            Part::Body => "body",
            Part::BodyBase64 => "body_base64",
            Part::Html => "html",
            Part::Text => "text",
            Part::Features => "features",
            Part::Id => "id",
        }
    }

    /// Whether the part is a content.
    pub fn is_content(self) -> bool {
        Part::CONTENTS.contains(&self)
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Part::ALL.map(Part::as_str).join(", ");
        let found = Part::ALL.into_iter().find(|part| part.as_str() == name);
        found.ok_or_else(|| format!("a page has no part {name:?}; its parts are {known}"))
    }
}
