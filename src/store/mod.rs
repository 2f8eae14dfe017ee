//! RocksDB, the only truth: what one micro-batch changes is written in one synced batch, or not at all.
//!
//! The bytes of every column family are described in [`schema`]. Look-ups that other processes make open the same
//! folder read-only, beside the one process that writes.

mod check;
mod column_options;
mod crash_notes;
mod disk_full;
mod folder;
mod follower;
mod links;
mod load;
mod open;
mod posting_buffer;
mod read;
mod replace_clusters;
mod reverse_lookup;
mod runs;
pub mod schema;
mod write;

pub use check::{Finding, Report};
pub use crash_notes::{CrashNoteFiles, DEATH};
pub use follower::Follower;
pub use load::RocksLoader;
pub use open::{OpenError, RocksStore, Settings};
