//! The interfaces between the engines and the outside world: a source of records, a sink for events, a store.
//!
//! Adapters implement these traits. Tests use in-memory implementations.

mod control;
mod crash_notes;
mod forget;
mod input_notes;
mod input_pages;
mod kept_events;
mod load;
mod published;
mod related;
mod secret;
mod sink;
mod snapshot;
mod source;
mod stop_reason;
mod store;
mod watch_positions;
mod watched_documents;

pub use crate::history::{ClosedSweep, HistoryCounts, MissingUrl, Present, StoredSighting};
pub use crate::wire::{Outgoing, PresentChange};
pub use control::{CloseFailure, ClosingPart, SweepCloser};
pub use crash_notes::{CrashNote, CrashNotes, PoisonGuard};
pub use forget::{Forgotten, ForgottenUrl, Remainders};
pub use input_notes::{InputNotes, InputState};
pub use input_pages::{FoundPage, InputPages, IsPageOf, SoughtPage};
pub use kept_events::KeptEvents;
pub use load::{EmptyStore, Family, LoadDocument, LoadMetadata, LoadRow, Loader, Table};
pub use published::{EventReader, PublishedEvent};
pub use related::{
    BagChange, FragmentsAbout, NEIGHBOURS_MAX, Neighbours, RelatedBuild, RelatedClusters, RelatedRefresh,
    RelatedTables, RelatedView,
};
pub use secret::{HIDDEN, SecretReference};
pub use sink::{Acknowledged, OutputNote, OutputNotes, Sink, SinkError, SketchSink};
pub use snapshot::{DocumentShingles, DocumentText, LinkView, Snapshot, Snapshots, Staleness, StoredDocument};
pub use source::{Chunk, Incoming, Polled, Progress, ProgressMap, Reading, Source, SourceError, StartTimes};
pub use stop_reason::StopReason;
pub use store::{Batch, NothingToSync, Store, StoreCounts, StoreError, StoreRule, Syncer};
pub use watch_positions::WatchPositions;
pub use watched_documents::WatchedDocuments;
