//! Watches: the kept events that somebody wants to hear of, each sent to a web hook.
//!
//! ```text
//! kept events ─▶ filter ─▶ POST, until it succeeds ─▶ position, in the store
//! ```
//! Every watch has a thread and a position of its own. The position is noted after the hook has said yes, so a killed program
//! sends an event again rather than never. Nothing else waits for a hook.

mod backoff;
mod delivery;
mod post;
mod settings;
mod signature;
mod wanted;

pub use delivery::{ReadText, Watches};
pub use settings::{WatchSettings, problem};
