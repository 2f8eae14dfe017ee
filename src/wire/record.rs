//! Records: what a source yields.

use super::message::{Message, MessageFormat};
use super::rejection::Rejection;
use crate::document::{Content, Page};

/// What a source hands over for one position.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A JSON page, not yet parsed.
    Json(Vec<u8>),
    /// A page whose parts came apart already: WARC, Kafka headers.
    Page(Box<Page>),
    /// A broker's message, not yet decoded.
    Message(Box<Message>, MessageFormat),
    /// The source itself could tell that this is no page.
    Rejected(Rejection),
}

impl Record {
    /// Roughly how much memory it holds, in bytes.
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

    /// The message that it came as, where it did.
    pub fn into_message(self) -> Option<Box<Message>> {
        match self {
            Record::Message(message, _) => Some(message),
            Record::Json(_) | Record::Page(_) | Record::Rejected(_) => None,
        }
    }
}
