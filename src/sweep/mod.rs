//! Time: which page was where and when, and where a lost one went (Broder 1997, section 1.1, "lost and found").

mod cut;
mod lost;
mod selection;
mod sighting;
mod state;

pub use cut::{SweepCut, SweepRow};
pub use lost::{Evidence, PlaceScores, Ranking, documents_between, looks_like_html, path_likeness, site_likeness};
pub use selection::Selection;
pub use sighting::{Observation, Seen, Sighting};
pub use state::{LastCopy, UrlState, counted};
