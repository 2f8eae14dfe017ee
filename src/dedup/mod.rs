//! Deduplication: which page of each cluster stays in the corpus, and the list of those that go, and why.
//!
//! ```text
//! clustered records ─▶ choose (one page for each cluster) ─▶ decide ─▶ kept set: a bit a record
//!   of a batch, or                                             └─────▶ removed records, joined with the kept pages
//!   of a store's newest records                                        and sorted by position
//! ```
//! Nothing here reads or writes pages. [`ClusteredRecords`] says what was clustered; the kept set names the records that
//! the second pass over the inputs writes. A [`Corpus`] is the folder of the output: it remembers how far the work is.

mod corpus;
mod decide;
mod error;
mod keep;
mod kept_log;
mod record_set;
mod records;
mod removed;
mod rows;

pub use corpus::{Begun, Corpus, CorpusSpec, Decided, Finished};
pub use decide::{Decision, KnownPages, List, Workspace, decide};
pub use error::DedupError;
pub use keep::{Candidate, Chooser, ColumnValues, Keep, Kept, Preference};
pub use kept_log::KeptLog;
pub use record_set::RecordSet;
pub use records::{ClusteredRecord, ClusteredRecords, Counts, Outcome, ReadInput, RejectedRecords};
pub use removed::{REMOVED_COLUMNS, RemovalKind, RemovedRecord};
