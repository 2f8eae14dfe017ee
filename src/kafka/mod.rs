//! Kafka at both ends: reads pages from one topic; writes events, the present state and dead letters to others.
//!
//! ```text
//! pages ─▶ KafkaSource ─▶ … the store … ─▶ KafkaSink ─▶ events, assignments, merges, pages.dlq
//! ```
//!
//! The store alone records how far the input has been read. The source assigns partitions itself, each from the
//! offset in the store, and joins no group. It commits the group's offsets to Kafka for lag tools. It reads them back
//! only to notice that a store is missing.
//!
//! The output alone records what has been published. Each batch of events is one transaction, so a reader of committed
//! transactions sees the whole batch or nothing. After every start and every failure the sink reads the last events
//! in the output and resumes behind them: no event is lost, and none appears twice.
//!
//! **A consumer's rule.** Read with `isolation.level=read_committed`. For each partition, store the highest
//! `lookalike-seq` together with the state derived from the events, and drop every event that is not above it. In
//! normal operation this drops nothing. It makes repeats harmless when the consumer reads events again, or when brokers
//! lose confirmed events and an operator replays them.
//!
//! **The present state** is in two compacted topics. `assignments` maps each URL to the document and cluster of its
//! newest page by fetch time; a null value means that the URL has no page. `merges` maps each cluster that lost its
//! name to the cluster it joined. To find a page's current cluster, start at its assignment and follow `merges`. A page
//! that arrives late and is not the newest changes nothing. [`KafkaSink::republish`] rewrites the whole state under the
//! number of the last event: the last message of a key counts.
//!
//! A key must stay in its partition, or two partitions hold a state for it. The store therefore remembers how many
//! partitions each of its topics has, and whether publishing to a topic began too late for it to be complete.

mod cautious;
mod client;
mod consumer;
mod event_reader;
mod headers;
mod heartbeat;
mod housekeeping;
mod identity;
mod offsets;
mod output_state;
mod output_tail;
mod positions;
mod record;
mod replay;
mod replay_marks;
mod routing;
mod settings;
mod sink;
mod sketch_sink;
mod sketch_source;
mod sketches_topic;
mod source;
mod source_caution;
mod source_errors;
mod source_group;
mod source_housekeeping;
mod source_start;
mod source_tries;
mod statistics;
mod takeover;
mod topic_id;
mod topics;
mod tries;
mod undecodable;

pub use event_reader::KafkaEventReader;
pub use headers::{SEQ_HEADER, STORE_HEADER, VERSION_HEADER, dead_letter};
pub use heartbeat::{Beat, KafkaHeartbeat};
pub use offsets::{ParsePositionError, TopicPosition};
pub use replay::{ReplayPlan, ReplayReport, replay, replayed};
pub use settings::{KafkaSettings, RecordFormat, SettingsError, Start};
pub use sink::{Fact, KafkaSink, Publishing};
pub use sketch_sink::KafkaSketchSink;
pub use sketch_source::{KafkaSketchSource, OwnerOptions};
pub use source::{KafkaSource, StartOptions};
pub use takeover::{LastEvent, check_published, event_messages, fence, last_event};
pub use topics::{TopicOutcome, TopicPlan, create_topics};
