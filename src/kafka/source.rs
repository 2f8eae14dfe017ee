//! Pages from a topic, each partition from the offset that the store knows.

use super::client::{N_LAST_WORDS, Seldom, TopicError, Trouble, partitions_of};
use super::offsets::{self, Held, Stored};
use super::record::record_of;
use super::settings::{KafkaSettings, RecordFormat, explain};
use crate::ports::{Incoming, Polled, Progress, ProgressMap, Source, SourceError};
use crate::wire::{Limits, Origin};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientContext, Message, Offset, TopicPartitionList};
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often commits go out, and new partitions and a lost topic are looked for.
const CHORES_EVERY: Duration = Duration::from_secs(1);

/// How often trouble that may pass is warned of.
const WARN_EVERY: Duration = Duration::from_secs(5);

/// How often a new partition that could not be assigned is tried again.
const ADOPT_EVERY: Duration = Duration::from_secs(10);

/// How long a question may hold up the stream once it flows.
const ASK_MAX: Duration = Duration::from_secs(2);

/// How long a topic may be unknown to the brokers, as it is for a moment after they restart, before it is lost.
const LOST_AFTER: Duration = Duration::from_secs(10);

/// Pages from a Kafka topic.
///
/// Partitions are assigned from the store's offsets; no group is joined, so two programs on one topic both read all of
/// it. Within a partition offsets may skip: transaction markers and compacted records have one and are never seen.
///
/// The source stops, with an error that says which offset is stored and what the broker has, where retention overtook it
/// or the topic was made anew. A topic made anew that is already longer than the stored offset cannot be told apart.
pub struct KafkaSource {
    consumer: BaseConsumer<Watch>,
    topic: Arc<str>,
    brokers: String,
    format: RecordFormat,
    limits: Limits,
    readings: BTreeMap<i32, Reading>,
    to_commit: BTreeMap<i32, i64>,
    chores: Seldom,
    warnings: Seldom,
    unreadable: Seldom,
    adoptions: Seldom,
    unknown_since: Option<Instant>,
}

/// How far a partition has been read.
#[derive(Clone, Copy, Debug)]
struct Reading {
    /// The offset of the next record.
    next: i64,
    /// The last high watermark heard of.
    high: i64,
    /// What is already committed for lag tools.
    committed: i64,
}

impl Reading {
    fn from(next: i64, held: Held) -> Self {
        Reading { next, high: held.high, committed: -1 }
    }
}

impl KafkaSource {
    /// Finds the topic's partitions and begins each where `stored` says, or where `settings.start` says if it says
    /// nothing of the topic. A partition that it does not know in a topic that it does is begun at its oldest record.
    ///
    /// # Errors
    /// [`SourceError`] where the settings are wrong, no broker answers, the topic is missing, or the broker no longer
    /// has a stored offset.
    pub fn open(settings: &KafkaSettings, limits: Limits, stored: &ProgressMap) -> Result<Self, SourceError> {
        settings.check().map_err(|error| SourceError(error.to_string()))?;
        let consumer: BaseConsumer<Watch> = settings
            .consumer_config()
            .create_with_context(Watch::of(&settings.topic))
            .map_err(|error| SourceError(format!("Kafka's client does not start: {}", explain(&error))))?;
        let mut source = KafkaSource {
            consumer,
            topic: settings.topic.as_str().into(),
            brokers: settings.brokers.clone(),
            format: settings.format,
            limits,
            readings: BTreeMap::new(),
            to_commit: BTreeMap::new(),
            chores: Seldom::every(CHORES_EVERY),
            warnings: Seldom::every(WARN_EVERY),
            unreadable: Seldom::every(WARN_EVERY),
            adoptions: Seldom::every(ADOPT_EVERY),
            unknown_since: None,
        };
        source.readings = source.beginnings(settings, &Stored::of(stored, &settings.topic))?;
        source.assign_all()?;
        Ok(source)
    }

    /// The offset of the next record of every partition. An engine that commits these before its first record makes
    /// `start = latest` hold across a restart for partitions that nothing came from.
    pub fn positions(&self) -> ProgressMap {
        let position = |(partition, reading): (&i32, &Reading)| {
            ((self.topic.to_string(), *partition), Progress { next_offset: reading.next, chain: 0 })
        };
        self.readings.iter().map(position).collect()
    }

    fn beginnings(&self, settings: &KafkaSettings, stored: &Stored) -> Result<BTreeMap<i32, Reading>, SourceError> {
        let until = Instant::now() + settings.connect_max();
        let partitions = partitions_of(self.consumer.client(), &self.topic, settings.connect_max())
            .map_err(|error| self.topic_lost(&error))?;
        if let Some(partition) = stored.beyond(&partitions) {
            let n = partitions.len();
            return Err(
                self.not_as_stored(&format!("partition {partition}: the store knows it, the topic has only {n}"))
            );
        }
        let mut readings = BTreeMap::new();
        let mut out_of_range = Vec::new();
        for partition in partitions {
            let held = self
                .held(partition, until.saturating_duration_since(Instant::now()).max(ASK_MAX))
                .map_err(|error| self.topic_lost(&TopicError::Unreachable(error.to_string())))?;
            match stored.begin(partition, settings.start, held) {
                Ok(next) => drop(readings.insert(partition, Reading::from(next, held))),
                Err(wrong) => out_of_range.push(wrong.to_string()),
            }
        }
        if out_of_range.is_empty() { Ok(readings) } else { Err(self.not_as_stored(&out_of_range.join("; "))) }
    }

    fn held(&self, partition: i32, within: Duration) -> KafkaResult<Held> {
        let (low, high) = self.consumer.fetch_watermarks(&self.topic, partition, within)?;
        Ok(Held { low, high })
    }

    fn assign_all(&self) -> Result<(), SourceError> {
        let assigned = self
            .offsets(self.readings.iter().map(|(partition, reading)| (*partition, reading.next)))
            .and_then(|list| self.consumer.assign(&list));
        assigned.map_err(|error| SourceError(format!("the topic {:?} cannot be assigned: {error}", self.topic)))
    }

    fn offsets(&self, offsets: impl Iterator<Item = (i32, i64)>) -> KafkaResult<TopicPartitionList> {
        let mut list = TopicPartitionList::new();
        for (partition, offset) in offsets {
            list.add_partition_offset(&self.topic, partition, Offset::Offset(offset))?;
        }
        Ok(list)
    }

    fn do_chores(&mut self) -> Result<(), SourceError> {
        if !self.chores.due() {
            return Ok(());
        }
        self.send_commits();
        let unknown = self.take_in_statistics();
        if !unknown.is_empty() && self.adoptions.due() {
            unknown.into_iter().for_each(|partition| self.adopt(partition));
        }
        self.look_for_lost_topic()
    }

    /// Updates the high watermarks; returns the partitions that are not read yet.
    fn take_in_statistics(&mut self) -> Vec<i32> {
        let mut unknown = Vec::new();
        for (partition, high) in self.consumer.context().take() {
            match self.readings.get_mut(&partition) {
                Some(reading) => reading.high = reading.high.max(high),
                None => unknown.push(partition),
            }
        }
        unknown
    }

    /// Begins to read a partition that was added to the topic.
    fn adopt(&mut self, partition: i32) {
        let adopted = self.held(partition, ASK_MAX).and_then(|held| {
            let list = self.offsets([(partition, held.low)].into_iter())?;
            self.consumer.incremental_assign(&list)?;
            Ok(Reading::from(held.low, held))
        });
        match adopted {
            Ok(reading) => {
                tracing::info!("topic {:?} has a new partition {partition}, read from {}", self.topic, reading.next);
                self.readings.insert(partition, reading);
            }
            Err(error) => self.warn(&format!("the new partition {partition} cannot be read yet: {error}")),
        }
    }

    /// A topic that the brokers do not know may be a broker that just came up; only if it stays away is it lost.
    fn look_for_lost_topic(&mut self) -> Result<(), SourceError> {
        if self.unknown_since.is_none_or(|since| since.elapsed() < LOST_AFTER) {
            return Ok(());
        }
        match partitions_of(self.consumer.client(), &self.topic, ASK_MAX) {
            Err(error @ (TopicError::Missing | TopicError::Refused(_))) => Err(self.topic_lost(&error)),
            Err(TopicError::Unreachable(_)) => Ok(()),
            Ok(_) => {
                self.unknown_since = None;
                Ok(())
            }
        }
    }

    fn send_commits(&mut self) {
        let list = match self.offsets(self.to_commit.iter().map(|(partition, next)| (*partition, *next))) {
            Ok(list) if list.count() > 0 => list,
            _ => return,
        };
        match self.consumer.commit(&list, CommitMode::Async) {
            Ok(()) => {
                for (partition, next) in std::mem::take(&mut self.to_commit) {
                    self.readings.entry(partition).and_modify(|reading| reading.committed = next);
                }
            }
            Err(error) => tracing::debug!("offsets for lag tools were not committed: {error}"),
        }
    }

    /// What an error means: the end, a part that cannot be read, or patience.
    fn judge(&mut self, error: &KafkaError) -> Result<Polled, SourceError> {
        let code = match error {
            KafkaError::MessageConsumption(code) => *code,
            KafkaError::MessageConsumptionFatal(code) => {
                return Err(SourceError(format!("Kafka's client gave up: {code}; restart to go on")));
            }
            other => return Ok(self.wait_out(&other.to_string())),
        };
        match code {
            RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange => Err(self.out_of_range()),
            RDKafkaErrorCode::TopicAuthorizationFailed => Err(self.topic_lost(&TopicError::Refused(code))),
            RDKafkaErrorCode::UnknownTopicOrPartition
            | RDKafkaErrorCode::UnknownTopic
            | RDKafkaErrorCode::UnknownPartition => {
                self.unknown_since.get_or_insert_with(Instant::now);
                Ok(self.wait_out("the brokers do not know the topic just now"))
            }
            RDKafkaErrorCode::BadMessage
            | RDKafkaErrorCode::BadCompression
            | RDKafkaErrorCode::InvalidMessage
            | RDKafkaErrorCode::MessageSizeTooLarge => Ok(self.pass_over(code)),
            passing => Ok(self.wait_out(&passing.to_string())),
        }
    }

    fn wait_out(&mut self, trouble: &str) -> Polled {
        self.warn(trouble);
        Polled::Idle
    }

    fn warn(&mut self, trouble: &str) {
        if self.warnings.due() {
            let told = self.consumer.context().trouble.told();
            tracing::warn!("reading topic {:?}: {trouble}{told}; going on", self.topic);
        }
    }

    fn pass_over(&mut self, code: RDKafkaErrorCode) -> Polled {
        if !self.unreadable.due() {
            return Polled::Idle;
        }
        let at: Vec<String> =
            self.readings.iter().map(|(partition, reading)| format!("{partition}@{}", reading.next)).collect();
        Polled::Unreadable(format!(
            "topic {:?}, a batch of records in one of the partitions, now at {}: {code}{}; where it is too large raise \
             kafka.fetch_bytes_max, where it is damaged look at the broker's disks",
            self.topic,
            at.join(", "),
            self.consumer.context().trouble.told()
        ))
    }

    fn out_of_range(&self) -> SourceError {
        let wrong: Vec<String> = self
            .readings
            .iter()
            .filter_map(|(partition, reading)| {
                let held = self.held(*partition, ASK_MAX).ok()?;
                offsets::check(*partition, reading.next, held).err().map(|wrong| wrong.to_string())
            })
            .collect();
        if wrong.is_empty() {
            let told = self.consumer.context().trouble.told();
            return self.not_as_stored(&format!("the broker refused an offset{told}"));
        }
        self.not_as_stored(&wrong.join("; "))
    }

    fn not_as_stored(&self, wrong: &str) -> SourceError {
        SourceError(format!(
            "topic {:?} does not go on where the store stopped. {wrong}. Bring back the topic that the store was made \
             from, or start with a new store; a longer retention.ms keeps this from happening again",
            self.topic
        ))
    }

    fn topic_lost(&self, error: &TopicError) -> SourceError {
        for _ in 0..N_LAST_WORDS {
            // Only errors can come: there is nothing assigned, or nothing will be read any more.
            drop(self.consumer.poll(Duration::ZERO));
        }
        SourceError(error.explain(&self.topic, "topic", &self.brokers, &self.consumer.context().trouble))
    }
}

impl Source for KafkaSource {
    fn poll(&mut self, timeout: Duration) -> Result<Polled, SourceError> {
        self.do_chores()?;
        let error = match self.consumer.poll(timeout) {
            None => return Ok(Polled::Idle),
            Some(Err(error)) => error,
            Some(Ok(message)) => {
                let (partition, offset) = (message.partition(), message.offset());
                if let Some(reading) = self.readings.get_mut(&partition) {
                    reading.next = offset + 1;
                }
                self.unknown_since = None;
                let origin = Origin { source: Arc::clone(&self.topic), partition, offset };
                let record = record_of(&message, self.format, &self.limits);
                return Ok(Polled::Record(Incoming { origin, chain: 0, record }));
            }
        };
        self.judge(&error)
    }

    /// Notes the offsets for the group's lag; they go to Kafka about once a second, from [`Source::poll`], and when the
    /// source is dropped.
    fn committed(&mut self, progress: &ProgressMap) {
        for ((source, partition), progress) in progress {
            let is_news = self.readings.get(partition).is_some_and(|reading| reading.committed != progress.next_offset);
            if source.as_str() == &*self.topic && is_news {
                self.to_commit.insert(*partition, progress.next_offset);
            }
        }
    }

    /// Records and transaction markers between what was handed out and the high watermarks, which are up to a second
    /// old. An open transaction counts as lag until it ends.
    fn lag(&mut self) -> Option<u64> {
        let _ = self.take_in_statistics();
        let passed = passed_markers(&self.consumer);
        let behind = |(partition, reading): (&i32, &Reading)| {
            let next = passed.get(partition).map_or(reading.next, |passed| reading.next.max(*passed));
            u64::try_from(reading.high - next).unwrap_or(0)
        };
        Some(self.readings.iter().map(behind).sum())
    }
}

impl Drop for KafkaSource {
    fn drop(&mut self) {
        self.send_commits();
    }
}

/// librdkafka's own positions: they count transaction markers, which are never handed out.
fn passed_markers(consumer: &BaseConsumer<Watch>) -> HashMap<i32, i64> {
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

/// Listens to librdkafka: its log, and its statistics for the partitions there are and their high watermarks.
struct Watch {
    topic: String,
    trouble: Trouble,
    latest: Mutex<Vec<(i32, i64)>>,
}

impl Watch {
    fn of(topic: &str) -> Self {
        Watch { topic: topic.into(), trouble: Trouble::default(), latest: Mutex::default() }
    }

    /// Partitions and high watermarks, if there is news.
    fn take(&self) -> Vec<(i32, i64)> {
        std::mem::take(&mut self.latest.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What is read of librdkafka's statistics (its STATISTICS.md).
#[derive(Deserialize)]
struct Statistics {
    topics: HashMap<String, TopicStatistics>,
}

#[derive(Deserialize)]
struct TopicStatistics {
    partitions: HashMap<i32, PartitionStatistics>,
}

#[derive(Deserialize)]
struct PartitionStatistics {
    /// Negative until known.
    hi_offset: i64,
    /// Not in the topic's metadata.
    unknown: bool,
}

fn partitions_in(statistics: &[u8], topic: &str) -> Vec<(i32, i64)> {
    let Ok(mut statistics) = serde_json::from_slice::<Statistics>(statistics) else { return Vec::new() };
    let Some(topic) = statistics.topics.remove(topic) else { return Vec::new() };
    // Partition -1 holds what has no partition yet.
    let known = topic.partitions.into_iter().filter(|(partition, found)| *partition >= 0 && !found.unknown);
    let mut partitions: Vec<(i32, i64)> = known.map(|(partition, found)| (partition, found.hi_offset)).collect();
    partitions.sort_unstable();
    partitions
}

impl ClientContext for Watch {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        self.trouble.hear(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.trouble.hear_error(&error, reason);
    }

    fn stats_raw(&self, statistics: &[u8]) {
        let partitions = partitions_in(statistics, &self.topic);
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = partitions;
    }
}

impl ConsumerContext for Watch {
    fn commit_callback(&self, result: KafkaResult<()>, _: &TopicPartitionList) {
        if let Err(error) = result {
            tracing::debug!("offsets for lag tools were not committed: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_tell_partitions_and_watermarks() {
        let json = br#"{"name":"x","topics":{"other":{"partitions":{"0":{"hi_offset":5,"unknown":false}}},
            "t":{"topic":"t","partitions":{
                "-1":{"hi_offset":-1001,"unknown":false}, "1":{"hi_offset":-1001,"unknown":false},
                "0":{"hi_offset":9,"unknown":false,"lo_offset":1}, "7":{"hi_offset":1,"unknown":true}}}}}"#;
        assert_eq!(partitions_in(json, "t"), [(0, 9), (1, -1001)]);
        assert!(partitions_in(json, "none").is_empty());
        assert!(partitions_in(b"{", "t").is_empty());
    }
}
