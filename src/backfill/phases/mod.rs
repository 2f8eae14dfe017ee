//! The phases of a backfill, in the order in which they run.

pub(super) mod common_shingles;
pub(super) mod events;
pub(super) mod ingest;
pub(super) mod kept;
pub(super) mod lists;
pub(super) mod load;
pub(super) mod pair_formation;
pub(super) mod pairs;
pub(super) mod partition;
pub(super) mod posting_lists;
mod reread;
