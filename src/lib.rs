//! Lookalike watches a web crawl and keeps, for every page, the answer to one question: *where else is this?*
//!
//! It is the system of Broder, Glassman, Manasse and Zweig, "Syntactic Clustering of the Web" (1997), as a stream:
//!
//! ```text
//! source ─▶ canonicalise ─▶ sketch ─▶ match ─▶ cluster ─▶ store (one atomic batch) ─▶ publish
//! files,    document        sketch    cluster              store                      files,
//! kafka                                                                               kafka
//! ```
//!
//! 1. A [`document::Page`] becomes a [`document::CanonicalForm`]: its words, without markup and case.
//! 2. Every run of w words, a shingle, becomes a fingerprint. A sample of the fingerprints is the
//!    [`sketch::Sketch`].
//! 3. [`cluster::Decider::decide`], a pure function, finds the document that equals the page or the documents that
//!    resemble it, and joins their clusters.
//! 4. [`history::HistoryBatch::add`], the second pure function, finds what changed, what moved and what is lost.
//! 5. `pipeline` writes the changes, the source's offsets and the outgoing events in one batch.
//! 6. `backfill` does the same for a whole crawl at once, by sorting and merging (`extsort`). `pipeline` continues from
//!    its store.
//! 7. `dedup` chooses the page of each cluster that stays in a corpus; `files` writes what stays.
//! 8. `query` answers questions from a read-only view of the store.
//!
//! Read the modules in this order. [`codec`], [`document`], [`sketch`], [`cluster`], [`sweep`], [`history`], [`wire`] and
//! [`intake`] are pure: no I/O, no clock, no threads. [`ports`] states what an engine needs of the world. The adapters `store`,
//! `kafka` and `files` implement the ports; `objects` reads object stores for `files`. The engines `pipeline`, `backfill`,
//! `dedup`, `query` and `standby` use the ports; neither side knows the other. `http` serves the answers of `query`, and `cli` wires everything together.

/// A point at which the recovery tests kill the program. It expands to nothing without the feature `failpoints`.
#[cfg(feature = "service")]
macro_rules! kill_point {
    ($name:literal) => {
        #[cfg(feature = "failpoints")]
        fail::fail_point!($name, |_| std::process::abort())
    };
    ($name:literal, $when:expr) => {
        #[cfg(feature = "failpoints")]
        fail::fail_point!($name, $when, |how| crate::pipeline::crash_test::die(how.as_deref()))
    };
}

pub mod codec;
pub mod document;
pub mod sketch;

pub mod cluster;
pub mod sweep;

pub mod related;

pub mod history;

pub mod wire;

pub mod intake;

pub mod ports;

#[cfg(feature = "object-store")]
pub mod objects;

#[cfg(feature = "service")]
pub mod files;
#[cfg(feature = "service")]
pub mod kafka;
#[cfg(feature = "service")]
pub mod store;

#[cfg(feature = "service")]
pub mod extsort;

#[cfg(feature = "service")]
pub mod backfill;
#[cfg(feature = "service")]
pub mod bag_refresh;
#[cfg(feature = "service")]
pub mod dedup;
#[cfg(feature = "service")]
pub mod pipeline;
#[cfg(feature = "service")]
pub mod query;
#[cfg(feature = "service")]
pub mod standby;

#[cfg(feature = "service")]
pub mod watch;

#[cfg(feature = "service")]
pub mod http;

#[cfg(feature = "service")]
pub mod cli;
#[cfg(feature = "service")]
pub mod config;
