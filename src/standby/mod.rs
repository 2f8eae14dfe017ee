//! The standby: a store that follows another process's events, proves that it gives the same ones, and can take over.
//!
//! ```text
//! events topic ─▶ PublishedEvents ─┬─▶ StandbySource ─▶ … the stream and its store … ─▶ ComparingSink
//! pages topic ──────────┴──────────┘ in the order that the events tell            │
//!                       └─────────────────── every byte ──────────────────────────┘
//! ```
//! Events tell the source, partition and offset of every record in one total order, and equal orders give equal bytes. So
//! the records are taken in the order of their terminal events, sweeps are closed where the events close them, and what
//! the stream would publish is compared with what is published. Nothing is published, and no offset is committed.

mod compare;
mod order;
mod published_events;
mod sequence;
mod shelves;
mod silence;
mod source;

pub use compare::{ComparingSink, ExpectedMessage, compare_outbox, difference};
pub use published_events::PublishedEvents;
pub use silence::Silence;
pub use source::StandbySource;
