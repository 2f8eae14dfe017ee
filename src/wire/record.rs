//! Records: what a source yields.

use super::message::{Message, MessageFormat};
use super::rejection::Rejection;
use crate::document::{Content, Page};

/// What a source yields at one position.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A JSON page, not yet parsed.
    Json(Vec<u8>),
    /// A page whose parts the source has read, such as a WARC record.
    Page(Box<Page>),
    /// A broker's message, not yet decoded.
    Message(Box<Message>, MessageFormat),
    /// A record that the source itself rejected.
    Rejected(Rejection),
}

impl Record {
    /// The record's approximate size in memory, in bytes.
    pub fn n_bytes(&self) -> usize {
        match self {
            Record::Json(bytes) => bytes.len(),
            Record::Page(page) => match &page.content {
                Content::Body { body, .. } => body.as_bytes().len(),
                Content::Features(features) => features.iter().map(|feature| feature.len() + 24).sum(),
                Content::Gone => 0,
                Content::Redirect(target) => target.len(),
            },
            Record::Message(message, _) => message.n_bytes(),
            Record::Rejected(rejection) => rejection.message.len(),
        }
    }

    /// The message that the record came as, if it did.
    pub fn into_message(self) -> Option<Box<Message>> {
        match self {
            Record::Message(message, _) => Some(message),
            Record::Json(_) | Record::Page(_) | Record::Rejected(_) => None,
        }
    }
}
