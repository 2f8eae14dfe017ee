//! The consumer of the source, and what librdkafka reports to it.

use super::client::LastError;
use super::settings::{KafkaSettings, explain};
use super::statistics::{StatisticsReport, parse_statistics};
use super::topic_id::{TopicId, log_topic_ids};
use super::tries::Tries;
use crate::ports::SourceError;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{ClientContext, Offset, TopicPartitionList};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How a consumer reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadingMode {
    /// The partitions that it assigns itself, all at once.
    Normal,
    /// The same, one batch after the other: each may crash the program.
    Cautious,
    /// The partitions that the consumer group gives it.
    Member,
}

/// A change of what the consumer group gives to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GroupChange {
    /// These partitions, and no others. They are not read before the source has assigned them.
    Assigned(Vec<i32>),
    /// No partition.
    Revoked,
}

/// Creates a consumer of the configured topic.
pub(super) fn create_consumer(
    settings: &KafkaSettings,
    mode: ReadingMode,
    id: &Arc<TopicId>,
) -> Result<BaseConsumer<SourceContext>, SourceError> {
    let config = match mode {
        ReadingMode::Normal => settings.reader_config(),
        ReadingMode::Cautious => settings.cautious_config(),
        ReadingMode::Member => settings.member_config(),
    };
    let mut config = config.map_err(|error| SourceError::new(error.to_string()))?;
    log_topic_ids(&mut config);
    config.create_with_context(SourceContext::new(&settings.topic, id)).map_err(|error| {
        SourceError::new(format!("cannot start the Kafka client: {}; check kafka.properties", explain(&error)))
    })
}

/// Commits offsets of the group with what they tell about its readers, and waits until the brokers have them.
pub(super) fn commit_tries<C: ConsumerContext>(
    consumer: &BaseConsumer<C>,
    topic: &str,
    tries: &BTreeMap<i32, (i64, Tries)>,
) -> KafkaResult<()> {
    if tries.is_empty() {
        return Ok(());
    }
    let mut list = TopicPartitionList::new();
    for (partition, (offset, tries)) in tries {
        let mut element = list.add_partition(topic, *partition);
        element.set_offset(Offset::Offset(*offset))?;
        element.set_metadata(tries.metadata());
    }
    consumer.commit(&list, CommitMode::Sync)
}

/// librdkafka's own positions. They count transaction markers, which are never delivered.
pub(super) fn passed_markers(consumer: &BaseConsumer<SourceContext>) -> HashMap<i32, i64> {
    let Ok(positions) = consumer.position() else { return HashMap::new() };
    positions
        .elements()
        .iter()
        .filter_map(|element| match element.offset() {
            Offset::Offset(offset) => Some((element.partition(), offset)),
            _ => None,
        })
        .collect()
}

/// Receives librdkafka's callbacks: its log, which also names the topic's id, and its statistics.
pub(super) struct SourceContext {
    topic: String,
    id: Arc<TopicId>,
    pub(super) last_error: LastError,
    latest: Mutex<Option<StatisticsReport>>,
    group_changes: Mutex<VecDeque<GroupChange>>,
    /// The metadata of the group's offsets before this member replaced it.
    told_before: Mutex<BTreeMap<i32, (i64, Tries)>>,
}

impl SourceContext {
    fn new(topic: &str, id: &Arc<TopicId>) -> Self {
        SourceContext {
            topic: topic.into(),
            id: Arc::clone(id),
            last_error: LastError::default(),
            latest: Mutex::default(),
            group_changes: Mutex::default(),
            told_before: Mutex::default(),
        }
    }

    /// The metadata of the group's offsets before this member replaced it. The member restores it when the group takes the
    /// partitions away or when it ends in good order, unless there was progress: no member crashed.
    pub(super) fn told_before(&self) -> MutexGuard<'_, BTreeMap<i32, (i64, Tries)>> {
        self.told_before.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next change of the group that the source does not know of.
    pub(super) fn take_group_change(&self) -> Option<GroupChange> {
        self.group_changes.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Takes the last report, if there is a new one.
    pub(super) fn take(&self) -> Option<StatisticsReport> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl ClientContext for SourceContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        match level {
            RDKafkaLogLevel::Debug => self.id.observe(line),
            level => self.last_error.record_log(level, facility, line),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.last_error.record_error(&error, reason);
    }

    fn stats_raw(&self, statistics: &[u8]) {
        if let Some(report) = parse_statistics(statistics, &self.topic) {
            *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
        }
    }
}

impl ConsumerContext for SourceContext {
    /// Notes what the group gives; the source decides where to start and assigns it. What the group takes away is let go at
    /// once: a consumer that is being closed waits for that.
    fn rebalance(&self, consumer: &BaseConsumer<Self>, event: RDKafkaRespErr, partitions: &mut TopicPartitionList) {
        let change = if event == RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS {
            GroupChange::Assigned(partitions.elements().iter().map(|element| element.partition()).collect())
        } else {
            let told_before = std::mem::take(&mut *self.told_before());
            if let Err(error) = commit_tries(consumer, &self.topic, &told_before) {
                tracing::debug!("what this member noted of partitions that the group takes away stays: {error}");
            }
            if let Err(error) = consumer.unassign() {
                tracing::warn!("cannot let go of partitions: {error}");
            }
            GroupChange::Revoked
        };
        self.group_changes.lock().unwrap_or_else(PoisonError::into_inner).push_back(change);
    }

    fn commit_callback(&self, result: KafkaResult<()>, _: &TopicPartitionList) {
        if let Err(error) = result {
            tracing::debug!("offsets for lag tools were not committed: {error}");
        }
    }
}
