//! Kafka at both ends: pages from one topic, events to another.
//!
//! ```text
//! topic ─▶ KafkaSource ─▶ … the store … ─▶ KafkaSink ─▶ events topic
//! ```
//!
//! The store alone knows how far the pages have been taken in: partitions are assigned, not subscribed to, each from the
//! offset in the store. The group's offsets in Kafka are written for lag tools and never read.
//!
//! Delivery is at least once. Every event that the store holds comes out; after a crash some may come out twice, with
//! the same `lookalike-seq`, by which a consumer can drop the repeats.

mod client;
mod offsets;
mod record;
mod settings;
mod sink;
mod source;

pub use settings::{KafkaSettings, RecordFormat, SettingsError, Start};
pub use sink::{KafkaSink, SEQ_HEADER, VERSION_HEADER};
pub use source::KafkaSource;
