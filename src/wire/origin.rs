//! Where a record came from.

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
