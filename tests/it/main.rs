//! The integration tests, one module for each promise, in one binary, so that the harness compiles once.
//!
//! `cargo test --no-default-features --test it` runs those that need neither RocksDB nor Kafka, in seconds. `chaos` and
//! `failpoints` are binaries of their own: the first kills and restarts everything, the second needs the feature `failpoints`.

#![expect(clippy::expect_used, reason = "a test that cannot go on fails")]

#[cfg(feature = "service")]
#[path = "../../bench-data/generate.rs"]
#[expect(dead_code, reason = "its own main is not called")]
mod generate;
#[cfg(feature = "service")]
mod harness;

mod documents;
mod forgery;
mod golden;
mod html;
mod layout;
mod properties;

#[cfg(feature = "service")]
mod access;
#[cfg(feature = "service")]
mod audit;
#[cfg(feature = "service")]
mod backfill;
#[cfg(feature = "service")]
mod backup;
#[cfg(feature = "service")]
mod broker_errors;
#[cfg(feature = "service")]
mod cli;
#[cfg(feature = "service")]
mod cluster;
#[cfg(feature = "service")]
mod content;
#[cfg(feature = "service")]
mod counts;
#[cfg(feature = "service")]
mod dedup;
#[cfg(feature = "service")]
mod dlq;
#[cfg(feature = "service")]
mod events;
#[cfg(feature = "service")]
mod exactly_once;
#[cfg(feature = "service")]
mod explain;
#[cfg(feature = "service")]
mod families;
#[cfg(feature = "service")]
mod files;
#[cfg(feature = "service")]
mod followed_folders;
#[cfg(feature = "service")]
mod forget;
#[cfg(feature = "service")]
mod formats;
#[cfg(feature = "service")]
mod given_links;
#[cfg(feature = "service")]
mod golden_store;
#[cfg(feature = "service")]
mod history;
#[cfg(feature = "service")]
mod http;
#[cfg(feature = "service")]
mod kafka;
#[cfg(feature = "service")]
mod kept_events;
#[cfg(feature = "service")]
mod logs;
#[cfg(feature = "service")]
mod migrate;
#[cfg(feature = "service")]
mod objects;
#[cfg(feature = "service")]
mod page;
#[cfg(feature = "service")]
mod parity;
#[cfg(feature = "service")]
mod parquet;
#[cfg(feature = "service")]
mod planted;
#[cfg(feature = "service")]
mod recovery;
#[cfg(feature = "service")]
mod related;
#[cfg(feature = "service")]
mod related_files;
#[cfg(feature = "service")]
mod report;
#[cfg(feature = "service")]
mod roles;
#[cfg(feature = "service")]
mod sketch;
#[cfg(feature = "service")]
mod sketch_files;
#[cfg(feature = "service")]
mod standby;
#[cfg(feature = "service")]
mod tables;
#[cfg(feature = "service")]
mod texts;
#[cfg(feature = "service")]
mod watch;
