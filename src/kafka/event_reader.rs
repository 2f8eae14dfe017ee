//! Reads the events of a topic from a number on, as whoever follows their owner does.

use super::client::{LastError, SilentContext, Throttle, TopicError, held_range, partitions_of, set_paused};
use super::headers::SEQ_HEADER;
use super::offsets::OffsetRange;
use super::record::to_owned_message;
use super::settings::{KafkaSettings, explain};
use crate::ports::{EventReader, PublishedEvent, SourceError, StopReason};
use crate::wire::{Message as WireMessage, Origin};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::{Message, Offset, TopicPartitionList};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The size of the first window before a partition's end, in offsets.
const FIRST_WINDOW: i64 = 4096;

/// The growth of each further window.
const WINDOW_FACTOR: i64 = 8;

/// How long a broker may wait for events before it answers, in milliseconds.
const FETCH_MS_MAX: &str = "100";

/// How often to ask how much is unread.
const MEASURE_INTERVAL: Duration = Duration::from_secs(1);

/// How long one question how much is unread may take.
const MEASURE_MAX: Duration = Duration::from_millis(500);

/// Reads events of committed transactions.
pub struct KafkaEventReader {
    consumer: BaseConsumer<SilentContext>,
    settings: KafkaSettings,
    topic: Arc<str>,
    /// Partition → the offset behind the last event returned.
    positions: BTreeMap<i32, i64>,
    at_end: BTreeSet<i32>,
    n_unread: u64,
    measurements: Throttle,
    failing_since: Option<Instant>,
}

impl KafkaEventReader {
    /// Reads from event `seq` on; a few earlier ones may come, too.
    ///
    /// # Errors
    /// [`SourceError`] if the topic is missing or no broker answers.
    pub fn open(settings: &KafkaSettings, seq: u64) -> Result<Self, SourceError> {
        let mut config = settings.tail_config().map_err(|error| SourceError::new(error.to_string()))?;
        config.set("fetch.wait.max.ms", FETCH_MS_MAX);
        let consumer: BaseConsumer<SilentContext> = config.create_with_context(SilentContext).map_err(|error| {
            SourceError::new(format!("cannot start the Kafka client: {}; check kafka.properties", explain(&error)))
        })?;
        let mut reader = KafkaEventReader {
            consumer,
            settings: settings.clone(),
            topic: settings.events_topic.as_str().into(),
            positions: BTreeMap::new(),
            at_end: BTreeSet::new(),
            n_unread: 0,
            measurements: Throttle::every(MEASURE_INTERVAL),
            failing_since: None,
        };
        reader.positions = reader.locate(seq)?;
        reader.assign()?;
        Ok(reader)
    }

    /// Where to begin in each partition: at its beginning, or where the events are not yet past `seq`.
    fn locate(&mut self, seq: u64) -> Result<BTreeMap<i32, i64>, SourceError> {
        let within = self.settings.connect_max();
        let partitions =
            partitions_of(self.consumer.client(), &self.topic, within).map_err(|error| self.topic_error(&error))?;
        let mut starts = BTreeMap::new();
        for partition in partitions {
            let OffsetRange { low, high } = held_range(self.consumer.client(), &self.topic, partition, within)
                .map_err(|error| self.topic_error(&TopicError::Unreachable(error.to_string())))?;
            let mut window = FIRST_WINDOW;
            let start = loop {
                let start = low.max(high - window);
                if start == low || self.first_at(partition, start)?.is_some_and(|first| first <= seq) {
                    break start;
                }
                window = window.saturating_mul(WINDOW_FACTOR);
            };
            starts.insert(partition, start);
        }
        Ok(starts)
    }

    /// The number of the first event of a partition from an offset on; none where there is no more.
    fn first_at(&mut self, partition: i32, offset: i64) -> Result<Option<u64>, SourceError> {
        self.positions = BTreeMap::from([(partition, offset)]);
        self.assign()?;
        let until = Instant::now() + self.settings.connect_max();
        loop {
            if let Some(event) = self.poll(MEASURE_MAX)? {
                return Ok(Some(event.seq));
            }
            if self.is_at_end() {
                return Ok(None);
            }
            if Instant::now() >= until {
                return Err(self.topic_error(&TopicError::Unreachable("timed out reading events".into())));
            }
        }
    }

    fn assign(&mut self) -> Result<(), SourceError> {
        self.at_end.clear();
        let mut list = TopicPartitionList::new();
        let added = self.positions.iter().try_for_each(|(partition, offset)| {
            list.add_partition_offset(&self.topic, *partition, Offset::Offset(*offset))
        });
        added.and_then(|()| self.consumer.assign(&list)).map_err(|error| {
            SourceError::new(format!("cannot read topic {:?}: {error}; check the brokers and start again", self.topic))
        })
    }

    fn topic_error(&self, error: &TopicError) -> SourceError {
        let last_error = LastError::default();
        SourceError {
            stop_reason: error.stop_reason(&last_error),
            message: error.explain(&self.topic, "events_topic", &self.settings.brokers, &last_error),
        }
    }

    fn decode(&self, message: &rdkafka::message::BorrowedMessage<'_>) -> Result<PublishedEvent, SourceError> {
        let place =
            Origin { source: Arc::clone(&self.topic), partition: message.partition(), offset: message.offset() };
        let message = to_owned_message(message, usize::MAX);
        let seq = header(&message, SEQ_HEADER).and_then(|seq| seq.parse().ok()).ok_or_else(|| {
            SourceError::new(format!(
                "{place} is no event of ours: it lacks the header {SEQ_HEADER}; use a topic that holds nothing but \
                 lookalike events"
            ))
        })?;
        Ok(PublishedEvent { place, seq, message })
    }

    /// Waits out an error of the brokers, for as long as the program may.
    fn wait_out(&mut self, error: &KafkaError) -> Result<(), SourceError> {
        let since = *self.failing_since.get_or_insert_with(Instant::now);
        if since.elapsed() < self.settings.delivery_max() {
            tracing::debug!("reading topic {:?}: {error}; trying again", self.topic);
            return Ok(());
        }
        Err(SourceError {
            stop_reason: StopReason::Unreachable,
            message: format!(
                "topic {:?} could not be read for {} s: {error}; check the brokers and start again",
                self.topic,
                since.elapsed().as_secs()
            ),
        })
    }
}

/// The last header of a name, as text.
fn header<'m>(message: &'m WireMessage, name: &str) -> Option<&'m str> {
    let (_, value) = message.headers.iter().rev().find(|(other, _)| other == name)?;
    std::str::from_utf8(value.as_deref()?).ok()
}

impl EventReader for KafkaEventReader {
    fn poll(&mut self, timeout: Duration) -> Result<Option<PublishedEvent>, SourceError> {
        match self.consumer.poll(timeout) {
            None => Ok(None),
            Some(Ok(message)) => {
                let event = self.decode(&message)?;
                drop(message);
                self.failing_since = None;
                self.at_end.remove(&event.place.partition);
                self.positions.insert(event.place.partition, event.place.offset + 1);
                Ok(Some(event))
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                self.failing_since = None;
                self.at_end.insert(partition);
                Ok(None)
            }
            Some(Err(error)) => self.wait_out(&error).map(|()| None),
        }
    }

    fn is_at_end(&self) -> bool {
        self.positions.keys().all(|partition| self.at_end.contains(partition))
    }

    fn n_unread(&mut self) -> u64 {
        if self.is_at_end() {
            self.n_unread = 0;
        } else if self.measurements.due() {
            let high = |partition: &i32| self.consumer.fetch_watermarks(&self.topic, *partition, MEASURE_MAX);
            let unread = self.positions.iter().filter_map(|(partition, position)| {
                high(partition).ok().map(|(_, high)| u64::try_from(high - position).unwrap_or(0))
            });
            self.n_unread = unread.sum();
        }
        self.n_unread
    }

    fn pause(&mut self, partition: i32, is_paused: bool) {
        set_paused(&self.consumer, &self.topic, partition, is_paused);
    }

    fn n_partitions(&self) -> usize {
        self.positions.len()
    }
}
