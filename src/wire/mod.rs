//! The bytes that other people see: records in, events out. Versioned; a change that a reader could trip over makes a
//! new version.

mod describe;
mod event;
mod fields;
mod message;
mod outgoing;
mod record;
mod repair;

pub use crate::history::MoveEvidence;
pub use describe::{Described, EventLog};
pub use event::{Event, EventType, Moved, Subject, WIRE_VERSION};
pub use fields::{FieldMap, Preset};
pub use message::{Message, MessageFault, MessageFormat, UndoCodings};
pub use outgoing::{Outgoing, PresentChange};
pub use record::{Limits, Reason, Record, Rejection, StatusMeaning, page_of_json, status_meaning};
pub use repair::mended;

use std::fmt;
use std::sync::Arc;

/// Where a record came from: the one name that it has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// A file's absolute path, or a topic's name.
    pub source: Arc<str>,
    /// The topic's partition; 0 for a file.
    pub partition: i32,
    /// The record's number in the partition or the file, from 0.
    pub offset: i64,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]@{}", self.source, self.partition, self.offset)
    }
}
