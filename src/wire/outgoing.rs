//! An event on its way out.

use super::message::Message;
use crate::history::Present;

/// An event on its way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Its number.
    pub seq: u64,
    /// The URL that the event is about: the page's, or the missing URL of a `moved` event.
    pub key: Option<String>,
    /// Its bytes: one line of JSON without the line feed.
    pub json: Vec<u8>,
    /// The original of a rejected message, for a sink that keeps dead letters.
    pub original: Option<Box<Message>>,
    /// What it changes in the present state of its URL.
    pub change: PresentChange,
}

impl Outgoing {
    /// An event without an original, which changes the present state as it says.
    pub fn new(seq: u64, key: Option<String>, json: Vec<u8>) -> Self {
        Outgoing { seq, key, json, original: None, change: PresentChange::AsTold }
    }
}

/// What an event changes in the present state of its URL. A page that comes late, after a newer one, is reported like any
/// other, while the URL keeps what stands there. So is a loss on a sweep that is closed late.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum PresentChange {
    /// What the event itself says: nearly always.
    #[default]
    AsTold,
    /// Nothing: its page or its loss comes late.
    Nothing,
    /// Its page comes late and undoes a mark of loss: this stands there now.
    To(Present),
}
