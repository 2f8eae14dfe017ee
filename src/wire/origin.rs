//! Origins: where records come from.

use std::fmt;
use std::sync::Arc;

/// Where a record came from. It identifies the record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// The absolute path of a file, or the name of a topic.
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
