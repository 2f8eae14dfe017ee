//! The memory and threads of a store.

use crate::related::RelatedRule;
use serde::{Deserialize, Serialize};

/// The memory and threads that RocksDB may use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// MiB of decompressed blocks kept in memory.
    pub block_cache_mib: usize,
    /// MiB of all write buffers together, at which they are flushed.
    pub write_buffer_mib: usize,
    /// MiB of write-ahead log, at which its contents are flushed. Opening a store reads the log.
    pub wal_mib: usize,
    /// MiB of postings in memory, including those being written to a run. At the limit, writing waits.
    pub posting_buffer_mib: usize,
    /// MiB of the filter of keys, at most; 0: none.
    pub key_filter_mib: usize,
    /// Threads for flushes and compactions.
    pub background_threads: i32,
    /// Events that stay after they were published: at least this many of the newest. 0: none.
    pub keep_events: u64,
    /// The rule under which pages are read for related pages; none where they are not.
    pub related: Option<RelatedRule>,
    /// Whether the texts of documents are kept. A store that once kept some keeps those.
    pub keeps_texts: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            block_cache_mib: 128,
            write_buffer_mib: 128,
            wal_mib: 64,
            posting_buffer_mib: 160,
            key_filter_mib: 128,
            background_threads: 3,
            keep_events: 0,
            related: None,
            keeps_texts: false,
        }
    }
}
