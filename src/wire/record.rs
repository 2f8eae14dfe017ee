//! Records: what a source yields.

use super::fallback::{Fallback, UrlFrom, url_of_text};
use super::fields::FieldMap;
use super::json_page::parse_json_page_or;
use super::limits::Limits;
use super::message::{Message, MessageFormat};
use super::rejection::Rejection;
use crate::document::{Content, Page};
use std::sync::Arc;

/// What a source yields at one position.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A JSON page, not yet parsed.
    Json(Vec<u8>),
    /// A JSON object with a page's parts, not yet parsed.
    Mapped(Box<MappedRecord>),
    /// A page whose parts the source has read, such as a WARC record.
    Page(Box<Page>),
    /// A broker's message, not yet decoded.
    Message(Box<Message>, MessageFormat),
    /// A record that the source itself rejected.
    Rejected(Rejection),
    /// A broker's message on which the program crashes, and the rejection that says so.
    Poison(Box<Message>, Box<Rejection>),
    /// A record that another process has sketched, not yet decoded.
    Sketched(Vec<u8>),
}

impl Record {
    /// The record's approximate size in memory, in bytes.
    pub fn n_bytes(&self) -> usize {
        match self {
            Record::Json(bytes) | Record::Sketched(bytes) => bytes.len(),
            Record::Mapped(record) => record.json.len(),
            Record::Page(page) => match &page.content {
                Content::Body { body, .. } => body.as_bytes().len(),
                Content::Features(features) => features.iter().map(|feature| feature.len() + 24).sum(),
                Content::Gone => 0,
                Content::Redirect(target) => target.len(),
            },
            Record::Message(message, _) | Record::Poison(message, _) => message.n_bytes(),
            Record::Rejected(rejection) => rejection.message.len(),
        }
    }

    /// The message that the record came as, if it did.
    pub fn into_message(self) -> Option<Box<Message>> {
        match self {
            Record::Message(message, _) | Record::Poison(message, _) => Some(message),
            Record::Json(_) | Record::Mapped(_) | Record::Page(_) | Record::Rejected(_) | Record::Sketched(_) => None,
        }
    }
}

/// A JSON object with a page's parts, and how to find them.
#[derive(Clone, Debug)]
pub struct MappedRecord {
    /// The object.
    pub json: Vec<u8>,
    /// The record's number in its input, from 0.
    pub number: i64,
    /// How the input's records hold pages.
    pub layout: Arc<RecordLayout>,
}

/// Two records are equal if they hold the same object at the same number; the layout is that of their input.
impl PartialEq for MappedRecord {
    fn eq(&self, other: &Self) -> bool {
        (self.number, &self.json) == (other.number, &other.json)
    }
}

impl MappedRecord {
    /// Reads the page.
    ///
    /// # Errors
    /// A [`Rejection`] with whatever could be read of URL, time and sweep.
    pub fn page(&self, limits: &Limits) -> Result<Page, Rejection> {
        self.page_in(&self.json, limits)
    }

    /// Reads the page as if `json` were the object.
    ///
    /// # Errors
    /// As [`MappedRecord::page`].
    pub fn page_in(&self, json: &[u8], limits: &Limits) -> Result<Page, Rejection> {
        let RecordLayout { fields, fallback, url_from, .. } = &*self.layout;
        let numbered;
        let fallback = match (url_from, &fallback.url) {
            (Some(UrlFrom::Record), Some(path)) => {
                let url = Some(format!("{path}#{}", self.number));
                numbered = Fallback { url, ..fallback.clone() };
                &numbered
            }
            _ => fallback,
        };
        if self.layout.has_json_pages() {
            return parse_json_page_or(json, fallback, limits);
        }
        fields.page(json, fallback, limits)
    }
}

/// How the records of one input hold pages.
#[derive(Clone, Debug, Default)]
pub struct RecordLayout {
    /// Where the parts are.
    pub fields: FieldMap,
    /// What stands in for parts that a record lacks.
    pub fallback: Fallback,
    /// What makes the URL of a record that has none.
    pub url_from: Option<UrlFrom>,
    /// Whether the records are the rows of a table. Their cells are text, and the names of its columns are found whatever
    /// their case.
    pub is_table: bool,
}

impl RecordLayout {
    /// Whether the records are plain JSON pages.
    pub fn is_plain(&self) -> bool {
        self.has_json_pages() && self.fallback.is_empty()
    }

    /// Whether the records are JSON pages, perhaps without parts for which something stands in.
    fn has_json_pages(&self) -> bool {
        self.fields.is_plain() && !self.fallback.is_id_url && !self.is_table
    }

    /// Sets what makes the URL of a record that has none. `path` is that of the input.
    pub fn set_url_from(&mut self, from: Option<UrlFrom>, path: &str) {
        self.url_from = from;
        self.fallback.is_id_url = from == Some(UrlFrom::Id);
        self.fallback.url = from.filter(|from| *from != UrlFrom::Id).map(|_| url_of_text(path));
    }
}
