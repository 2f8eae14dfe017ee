//! The heartbeat of a store's owner, by which a standby notices its death.
//!
//! A beat is an offset commit, without a transaction, of a group that has no members: for partition 0 of the topic of
//! events, the offset is the owner's generation and the metadata its beats so far. Each owner has a higher generation than
//! those before, so one that wakes up late notices that another took over, even while nothing is to be published.

use super::client::SilentContext;
use super::settings::{KafkaSettings, explain};
use crate::ports::SinkError;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::{Offset, TopicPartitionList};
use std::time::Duration;

/// What is appended to `kafka.group` for the heartbeat's group.
const GROUP_SUFFIX: &str = "-heartbeat";

/// How long the client may wait before it connects again: an owner must be heard again soon after its broker is back.
const RECONNECT_MS_MAX: &str = "1000";

/// How long one look at the heartbeat may take.
const READ_MAX: Duration = Duration::from_millis(1_000);

/// The last beat of an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    /// Which owner in turn it was, from 1.
    pub generation: i64,
    /// What it wrote, which changes with each beat.
    pub text: String,
}

/// Reads and writes the heartbeat of the owner of the store behind a topic of events.
pub struct KafkaHeartbeat {
    consumer: BaseConsumer<SilentContext>,
    topic: String,
}

impl KafkaHeartbeat {
    /// Connects to the brokers when it is used first.
    ///
    /// # Errors
    /// [`SinkError`] if the settings are wrong.
    pub fn open(settings: &KafkaSettings) -> Result<Self, SinkError> {
        let mut config = settings.consumer_config().map_err(|error| SinkError::new(error.to_string()))?;
        config
            .set("group.id", format!("{}{GROUP_SUFFIX}", settings.group))
            .set("reconnect.backoff.max.ms", RECONNECT_MS_MAX)
            .set("statistics.interval.ms", "0");
        let consumer = config
            .create_with_context(SilentContext)
            .map_err(|error| SinkError::new(format!("cannot start the Kafka client: {}", explain(&error))))?;
        Ok(KafkaHeartbeat { consumer, topic: settings.events_topic.clone() })
    }

    /// The last beat; none if no owner ever beat.
    ///
    /// # Errors
    /// The brokers do not tell.
    pub fn read(&self) -> Result<Option<Beat>, SinkError> {
        let mut list = TopicPartitionList::new();
        list.add_partition(&self.topic, 0);
        let found =
            self.consumer.committed_offsets(list, READ_MAX).map_err(|error| SinkError::new(error.to_string()))?;
        Ok(found.elements().iter().find_map(|element| match element.offset() {
            Offset::Offset(generation) => Some(Beat { generation, text: element.metadata().to_string() }),
            _ => None,
        }))
    }

    /// Replaces the last beat.
    ///
    /// # Errors
    /// The brokers refuse it, or do not answer.
    pub fn write(&self, beat: &Beat) -> Result<(), SinkError> {
        let written = || -> KafkaResult<()> {
            let mut list = TopicPartitionList::new();
            let mut element = list.add_partition(&self.topic, 0);
            element.set_offset(Offset::Offset(beat.generation))?;
            element.set_metadata(&beat.text);
            self.consumer.commit(&list, CommitMode::Sync)
        };
        written().map_err(|error| SinkError::new(error.to_string()))
    }
}
