//! RocksDB, the only truth: what one micro-batch changes is written in one synced batch, or not at all.
//!
//! The bytes of every column family are described in [`schema`]. Look-ups that other processes make open the same
//! folder read-only, beside the one process that writes.

mod anew;
mod check;
mod delta;
mod families;
mod follow;
mod found_by;
mod home;
mod links;
mod load;
mod notes;
mod open;
mod read;
mod room;
mod runs;
pub mod schema;
mod write;

pub use check::{Finding, Report};
pub use follow::Follower;
pub use load::RocksLoader;
pub use notes::{DEATH, NoteFiles};
pub use open::{OpenError, RocksStore, Settings};
