//! Lookalike watches a crawl go by and keeps, for every page, the answer to one question: *where else is this?*
//!
//! It is the system of Broder, Glassman, Manasse and Zweig, "Syntactic Clustering of the Web" (1997), as a stream:
//!
//! ```text
//! source ─▶ canonicalise ─▶ sketch ─▶ match ─▶ cluster ─▶ store (one atomic batch) ─▶ publish
//! files,    document        sketch    cluster              store                      files,
//! kafka                                                                               kafka
//! ```
//!
//! 1. A [`document::Page`] becomes a [`document::CanonicalForm`]: its words, markup and case gone.
//! 2. Its shingles (w words in a row) become fingerprints, and a sample of these its [`sketch::Sketch`].
//! 3. [`cluster::Decider::decide`] finds the document that the page equals, or the ones it resembles, and joins their
//!    clusters: one pure function.
//! 4. `pipeline` writes what that changes, with the source's offsets and the outgoing events, in one batch.
//! 5. `backfill` does the same for a whole crawl at once, by sorting and merging (`extsort`), and leaves a store that
//!    `pipeline` goes on from.
//! 6. `query` answers from a read-only view of the store.
//!
//! Reading order: the pure rooms ([`codec`], [`document`], [`sketch`], [`cluster`], [`sweep`], [`wire`], [`intake`])
//! do no I/O, know no clock and no threads. [`ports`] is what an engine needs of the world; the adapters (`store`, `kafka`,
//! `files`) provide it and know only it; the engines (`pipeline`, `backfill`, `query`) know only it, too. `http` serves
//! what `query` answers. `cli` puts them together.

/// A point at which the tests of recovery kill the program; nothing at all without the feature `failpoints`.
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

pub mod wire;

pub mod intake;

pub mod ports;

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
pub mod pipeline;
#[cfg(feature = "service")]
pub mod query;

#[cfg(feature = "service")]
pub mod http;

#[cfg(feature = "service")]
pub mod cli;
#[cfg(feature = "service")]
pub mod config;
