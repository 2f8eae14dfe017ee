//! What a batch does to the history of its URLs: what stands where, what changed, what moved, what is lost (Broder 1997,
//! section 1.1, "lost and found").
//!
//! ```text
//! sightings + decisions ─▶ timeline ─▶ moves ─▶ HistoryEffects
//!                          states, sweeps       what to write, what to report
//! ```
//! Nothing here reads or writes: [`History::begin`] asks a [`View`] about a batch, [`HistoryBatch::add`] follows page by
//! page, and what comes out is [`HistoryEffects`]. Pages from the stream and sweeps that are closed ([`SweepClosing`]) go the same way.

mod advance;
mod closing;
mod counts;
mod effects;
mod missing;
mod moves;
mod page_sighting;
mod positions;
mod timeline;
mod view;

pub use advance::{History, HistoryBatch};
pub use closing::{ClosedSweep, ClosingBatch, LostPage, SweepClosing};
pub use counts::HistoryCounts;
pub use effects::{ContentChange, HistoryEffects, LatePage, Move, MoveEvidence, Present};
pub use missing::MissingUrl;
pub use page_sighting::PageSighting;
pub use positions::Positions;
pub use view::{StoredSighting, View};
