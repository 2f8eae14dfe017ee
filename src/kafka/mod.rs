//! Kafka at both ends: pages from one topic; events, what they change in the present state, and dead letters to others.
//!
//! ```text
//! pages ─▶ KafkaSource ─▶ … the store … ─▶ KafkaSink ─▶ events, assignments, merges, pages.dlq
//! ```
//!
//! The store alone knows how far the pages have been taken in: partitions are assigned, not subscribed to, each from the
//! offset in the store. The group's offsets in Kafka are written for lag tools and read only to notice that a store is
//! missing.
//!
//! The output alone knows what is out. Each batch of events goes out in one transaction, so that who reads committed
//! transactions sees all of it or nothing, and after every start and every trouble the last events in the output tell
//! where to go on: none is lost, and none appears twice.
//!
//! **A consumer's rule.** Read with `isolation.level=read_committed`, remember for each partition the highest
//! `lookalike-seq`, together with what was made of the events, and drop whatever is not above it. In order, this drops
//! nothing; it makes repeats harmless where the consumer itself reads again, or brokers lost what they had confirmed and
//! an operator replayed it.
//!
//! **The present state** is in two compacted topics: `assignments` says for each URL the document and cluster of the page
//! that stands there by the time of fetching (nothing: none does), `merges` for each cluster that lost its name the one
//! that it became part of. A page's cluster now is found by following `merges` from the one in its assignment. A page that
//! comes late changes nothing there. Written anew ([`KafkaSink::republish`]), all of it has the number of the last event:
//! the last message of a key counts.
//!
//! A key must stay in its partition, or two partitions hold a state of it: the store remembers how many partitions each
//! of its topics has, and whether one was begun too late to hold everything.

mod cautious;
mod client;
mod identity;
mod offsets;
mod output_state;
mod output_tail;
mod record;
mod replay;
mod replay_marks;
mod routing;
mod settings;
mod sink;
mod source;
mod statistics;
mod topic_id;
mod topics;
mod undecodable;

pub use offsets::{NoPosition, TopicPosition};
pub use replay::{ReplayPlan, ReplayReport, replay, replayed};
pub use routing::dead_letter;
pub use settings::{KafkaSettings, RecordFormat, SettingsError, Start};
pub use sink::{Fact, KafkaSink, Publishing, SEQ_HEADER, STORE_HEADER, VERSION_HEADER};
pub use source::{KafkaSource, StartOptions};
pub use topics::{TopicMade, TopicPlan, create_topics};
