//! The store in RocksDB: one process writes atomic batches, any number of processes read.
//!
//! [`schema`] describes the bytes of every column family. Readers open the same folder read-only.

mod background;
mod backup;
mod bloom;
mod champions;
mod check;
mod cluster_tree;
mod column_options;
mod counts;
mod crash_notes;
mod db;
mod disk_full;
mod folder;
mod follower;
mod forget;
mod fragment;
mod input_notes;
mod keeping;
mod kept_events;
mod key_filter;
mod key_filter_file;
mod links;
mod load;
mod open;
mod posting_buffer;
mod posting_runs;
mod read;
mod read_ahead;
mod related;
mod replace_clusters;
mod reverse_lookup;
mod rocks_error;
mod runs;
pub mod schema;
mod scratch_folder;
mod settings;
mod texts;
mod url_cursor;
mod write;

pub use backup::{BackedUp, BackupError, back_up, restore};
pub use check::{Finding, Report};
pub use crash_notes::{CrashNoteFiles, DEATH};
pub use follower::{Follower, FollowerEvents};
pub use input_notes::StoredInputNotes;
pub use kept_events::WriterEvents;
pub use load::RocksLoader;
pub use open::{OpenError, RocksStore, holds_store};
pub use scratch_folder::ScratchFolder;
pub use settings::Settings;
pub use texts::compress_text;
