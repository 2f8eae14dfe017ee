//! Clustered inputs, however they were clustered.

use crate::dedup::{Begun, ClusteredRecords, KeptLog};

/// The inputs, read and clustered.
pub(in crate::cli) struct Clustered {
    pub records: Box<dyn ClusteredRecords>,
    /// What was there before them, where there is a store.
    pub known: Option<Known>,
    /// Parts of the inputs that could not be read, and why.
    pub unreadable: Vec<String>,
    /// Records that the store had read before.
    pub n_read_before: u64,
}

/// What a store held before.
pub(in crate::cli) struct Known {
    pub log: KeptLog,
    pub begun: Begun,
}
