//! Replays dead letters to the topic they came from, up to the end of the dead letter topic when the replay begins.

use super::client::{LastError, N_FINAL_POLLS, SilentContext, TopicError, held_range, is_too_large, partitions_of};
use super::headers::dead_letter;
use super::offsets::{self, OffsetRange, TopicPosition};
use super::record::to_owned_message;
use super::replay_marks::{ReasonFilter, ReplayMarks};
use super::settings::{KafkaSettings, SettingsError, explain};
use crate::ports::{SinkError, StopReason};
use crate::wire::{Message, Origin, Reason};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::topic_partition_list::TopicPartitionListElem;
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientContext, Message as _, Offset, TopicPartitionList};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The headers that a replayed message gains.
pub mod replayed {
    /// The message's position when it was first rejected: `TOPIC[PARTITION]@OFFSET`.
    pub const ORIGIN: &str = "lookalike-replay-of";
    /// How often the message has been replayed, this replay included.
    pub const COUNT: &str = "lookalike-replays";
}

/// The prefix of lookalike's own headers. A replay drops them, then adds its own.
const OUR_HEADERS: &str = "lookalike-";

/// The suffix of the consumer group whose committed offsets record the progress of replays.
const GROUP_SUFFIX: &str = "-dlq-replay";

/// How long to wait for a message before checking the clock.
const POLL: Duration = Duration::from_millis(100);

/// Messages sent before the replay waits for acknowledgements and commits its progress.
const BATCH_MESSAGES: usize = 1_000;

/// Bytes of messages after which it does the same.
const BATCH_BYTES: usize = 16 << 20;

/// Selects the dead letters to replay.
#[derive(Clone, Debug)]
pub struct ReplayPlan {
    /// Where to begin; `None`: where the last replay of these reasons stopped.
    pub from: Option<TopicPosition>,
    /// The reasons to replay; empty: all but [`Reason::Poison`].
    pub reasons: Vec<Reason>,
    /// The most letters to replay.
    pub limit: Option<u64>,
    /// The most replays of one message. A message rejected after that many is skipped.
    pub replays_max: u32,
    /// Whether to count only: nothing is sent, no progress is recorded.
    pub is_dry_run: bool,
}

/// The outcome of a replay, counted in letters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReplayReport {
    /// The dead letter topic.
    pub dead_letters: String,
    /// The topic that they were replayed to.
    pub pages: String,
    /// Whether letters were only counted.
    pub dry_run: bool,
    /// Reason → letters replayed.
    pub replayed: BTreeMap<String, u64>,
    /// Letters without their value or headers, which cannot be replayed.
    pub not_whole: u64,
    /// Letters rejected after as many replays as allowed.
    pub too_often: u64,
    /// Messages that are no dead letters.
    pub foreign: u64,
    /// Whether every letter up to the end was examined; false if the limit or a signal came first.
    pub complete: bool,
}

/// Replays dead letters, and reports how many.
///
/// Each message goes to its original partition, with its original key, value, headers and time. Once the brokers
/// acknowledge a batch, the replay commits its progress for each reason. A killed replay therefore sends at most one
/// batch again.
///
/// # Errors
/// [`SinkError`] if the settings are wrong, a topic is missing, or brokers do not answer or refuse a message.
pub fn replay(settings: &KafkaSettings, plan: &ReplayPlan, shutdown: &AtomicBool) -> Result<ReplayReport, SinkError> {
    settings.check().map_err(|error| SinkError::new(error.to_string()))?;
    let mut replay = Replay::open(settings, plan)?;
    replay.read_to_the_end(shutdown)?;
    replay.flush()?;
    replay.report.complete = replay.unfinished.is_empty();
    Ok(replay.report)
}

/// The state of a partition of the dead letter topic.
struct LetterPartition {
    marks: ReplayMarks,
    /// The offset of the next letter.
    next: i64,
    /// The partition's end when the replay began.
    end: i64,
}

struct Replay<'a> {
    settings: &'a KafkaSettings,
    plan: &'a ReplayPlan,
    filter: ReasonFilter,
    /// The dead letter topic.
    topic: String,
    consumer: BaseConsumer<SilentContext>,
    producer: BaseProducer<Acknowledgements>,
    /// The partitions of the pages topic.
    page_partitions: Vec<i32>,
    partitions: BTreeMap<i32, LetterPartition>,
    unfinished: BTreeSet<i32>,
    n_messages: usize,
    n_bytes: usize,
    report: ReplayReport,
}

impl<'a> Replay<'a> {
    fn open(settings: &'a KafkaSettings, plan: &'a ReplayPlan) -> Result<Self, SinkError> {
        let settings_error = |error: SettingsError| SinkError::new(error.to_string());
        let start_error = |error: KafkaError| {
            SinkError::new(format!("cannot start the Kafka client: {}; check kafka.properties", explain(&error)))
        };
        let mut reading = settings.tail_config().map_err(settings_error)?;
        reading.set("group.id", format!("{}{GROUP_SUFFIX}", settings.group));
        let writing = settings.idempotent_config().map_err(settings_error)?;
        let topic = settings.dead_letter_topic();
        let mut replay = Replay {
            settings,
            plan,
            filter: ReasonFilter::new(&plan.reasons),
            consumer: reading.create_with_context(SilentContext).map_err(start_error)?,
            producer: writing.create_with_context(Acknowledgements::default()).map_err(start_error)?,
            page_partitions: Vec::new(),
            partitions: BTreeMap::new(),
            unfinished: BTreeSet::new(),
            n_messages: 0,
            n_bytes: 0,
            report: ReplayReport {
                dead_letters: topic.clone(),
                pages: settings.topic.clone(),
                dry_run: plan.is_dry_run,
                ..ReplayReport::default()
            },
            topic,
        };
        replay.page_partitions = replay.partitions_of(&settings.topic, "topic")?;
        replay.locate_partitions()?;
        Ok(replay)
    }

    fn partitions_of(&self, topic: &str, field: &str) -> Result<Vec<i32>, SinkError> {
        partitions_of(self.producer.client(), topic, self.settings.connect_max()).map_err(|error| {
            (0..N_FINAL_POLLS).for_each(|_| self.producer.poll(Duration::ZERO));
            let stop_reason =
                if matches!(error, TopicError::Unreachable(_)) { StopReason::Unreachable } else { StopReason::Failed };
            let last_error = &self.producer.context().last_error;
            SinkError { stop_reason, message: error.explain(topic, field, &self.settings.brokers, last_error) }
        })
    }

    /// Determines where to start each partition of the dead letter topic, and where it ends.
    fn locate_partitions(&mut self) -> Result<(), SinkError> {
        let partitions = self.partitions_of(&self.topic, "dead_letters")?;
        self.partitions = self.committed_marks(&partitions).map_err(|error| self.unreadable(&error))?;
        let from = self.requested_offsets(&partitions)?;
        for (partition, state) in &mut self.partitions {
            let held = held_range(self.consumer.client(), &self.topic, *partition, self.settings.connect_max());
            let held = held.map_err(|error| unreadable(&self.topic, &error.to_string()))?;
            state.start_at(from.get(partition).copied(), held, &self.filter);
        }
        let starts = self.partitions.iter().filter(|(_, state)| state.next < state.end);
        let starts: BTreeMap<i32, i64> = starts.map(|(partition, state)| (*partition, state.next)).collect();
        self.unfinished = starts.keys().copied().collect();
        let assigned = list_of(&self.topic, &starts).and_then(|list| self.consumer.assign(&list));
        assigned.map_err(|error| self.unreadable(&error))
    }

    /// The progress of earlier replays.
    fn committed_marks(&self, partitions: &[i32]) -> KafkaResult<BTreeMap<i32, LetterPartition>> {
        let mut request = TopicPartitionList::new();
        for partition in partitions {
            request.add_partition(&self.topic, *partition);
        }
        let found = self.consumer.committed_offsets(request, self.settings.connect_max())?;
        let state = |element: TopicPartitionListElem<'_>| -> KafkaResult<(i32, LetterPartition)> {
            element.error()?;
            let marks = match element.offset() {
                Offset::Offset(offset) => ReplayMarks::decode(offset, element.metadata()),
                _ => ReplayMarks::default(),
            };
            Ok((element.partition(), LetterPartition { marks, next: 0, end: 0 }))
        };
        found.elements().into_iter().map(state).collect()
    }

    /// The offsets that the plan asks for.
    fn requested_offsets(&self, partitions: &[i32]) -> Result<BTreeMap<i32, i64>, SinkError> {
        let time = match &self.plan.from {
            None => return Ok(BTreeMap::new()),
            Some(TopicPosition::Time(time)) => *time,
            Some(TopicPosition::Offsets(offsets)) => {
                let unknown = offsets.keys().find(|partition| !partitions.contains(partition));
                return unknown.map_or_else(
                    || Ok(offsets.clone()),
                    |partition| {
                        Err(SinkError {
                            stop_reason: StopReason::Usage,
                            message: format!("topic {:?} has no partition {partition}; correct --from", self.topic),
                        })
                    },
                );
            }
        };
        let times = partitions.iter().map(|partition| (*partition, offsets::milliseconds(time))).collect();
        let request = list_of(&self.topic, &times).map_err(|error| self.unreadable(&error))?;
        let found = self.consumer.offsets_for_times(request, self.settings.connect_max());
        let found = found.map_err(|error| self.unreadable(&error))?;
        let offset = |element: TopicPartitionListElem<'_>| -> Result<(i32, i64), SinkError> {
            element.error().map_err(|error| self.unreadable(&error))?;
            // Without a letter of that time or later, there is nothing to read.
            let offset = if let Offset::Offset(offset) = element.offset() { offset } else { i64::MAX };
            Ok((element.partition(), offset))
        };
        found.elements().into_iter().map(offset).collect()
    }

    fn read_to_the_end(&mut self, shutdown: &AtomicBool) -> Result<(), SinkError> {
        let mut last_message_at = Instant::now();
        let mut last_problem = "no answer".to_string();
        while !self.unfinished.is_empty() && !self.is_full() && !shutdown.load(Ordering::Relaxed) {
            let polled = self.consumer.poll(POLL).map(|polled| {
                polled.map(|message| (message.partition(), message.offset(), to_owned_message(&message, usize::MAX)))
            });
            match polled {
                Some(Ok((partition, offset, message))) => {
                    self.accept(partition, offset, message)?;
                    last_message_at = Instant::now();
                }
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    self.unfinished.remove(&partition);
                }
                Some(Err(error)) => last_problem = error.to_string(),
                None => {}
            }
            if last_message_at.elapsed() > self.settings.delivery_max() {
                return Err(unreadable(&self.topic, &last_problem));
            }
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.plan.limit.is_some_and(|limit| self.report.replayed.values().sum::<u64>() >= limit)
    }

    /// Handles one message of the dead letter topic; ignores messages that arrived after the replay began.
    fn accept(&mut self, partition: i32, offset: i64, message: Message) -> Result<(), SinkError> {
        let Some(state) = self.partitions.get_mut(&partition).filter(|state| offset < state.end) else {
            self.unfinished.remove(&partition);
            return Ok(());
        };
        state.next = offset + 1;
        if state.next >= state.end {
            self.unfinished.remove(&partition);
        }
        let Some(letter) = DeadLetter::decode(&message) else {
            self.report.foreign += 1;
            return Ok(());
        };
        if !self.filter.includes(&letter.reason) || offset < state.marks.mark_of(&letter.reason) {
            return Ok(());
        }
        if !letter.is_whole {
            self.report.not_whole += 1;
        } else if letter.n_replays >= self.plan.replays_max {
            self.report.too_often += 1;
        } else {
            if !self.plan.is_dry_run {
                self.send(&letter, &message, (partition, offset))?;
            }
            *self.report.replayed.entry(letter.reason).or_default() += 1;
        }
        Ok(())
    }

    fn send(&mut self, letter: &DeadLetter, message: &Message, position: (i32, i64)) -> Result<(), SinkError> {
        let mut record: BaseRecord<'_, [u8], [u8], Box<(i32, i64)>> =
            BaseRecord::with_opaque_to(&self.settings.topic, Box::new(position)).headers(letter.headers(message));
        record.key = message.key.as_deref();
        record.payload = message.value.as_deref();
        record.timestamp = message.time_ms.filter(|time| *time >= 0);
        record.partition = Some(letter.origin.partition).filter(|partition| {
            *letter.origin.source == *self.settings.topic && self.page_partitions.contains(partition)
        });
        while let Err((error, refused)) = self.producer.send(record) {
            if error != KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull) {
                return Err(self.delivery_error(position, error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail)));
            }
            self.producer.poll(POLL);
            record = refused;
        }
        self.n_messages += 1;
        self.n_bytes += message.n_bytes();
        if self.n_messages >= BATCH_MESSAGES || self.n_bytes >= BATCH_BYTES { self.flush() } else { Ok(()) }
    }

    /// Waits for the acknowledgement of everything sent, then commits the progress.
    fn flush(&mut self) -> Result<(), SinkError> {
        if self.plan.is_dry_run {
            return Ok(());
        }
        // librdkafka gives up on each message in half that time.
        let flushed = self.producer.flush(self.settings.delivery_max() * 2);
        if let Some((position, code)) = self.producer.context().failure() {
            return Err(self.delivery_error(position, code));
        }
        flushed.map_err(|error| self.replay_error(StopReason::Unreachable, &error.to_string()))?;
        (self.n_messages, self.n_bytes) = (0, 0);
        self.commit().map_err(|error| {
            let what = "the brokers acknowledged the replayed messages, but the progress could not be committed";
            self.replay_error(StopReason::Unreachable, &format!("{what}: {error}"))
        })
    }

    fn commit(&mut self) -> KafkaResult<()> {
        let mut list = TopicPartitionList::new();
        for (partition, state) in &mut self.partitions {
            state.marks.advance(&self.filter, state.next);
            let (offset, metadata) = state.marks.encode();
            let mut element = list.add_partition(&self.topic, *partition);
            element.set_offset(Offset::Offset(offset))?;
            element.set_metadata(metadata);
        }
        self.consumer.commit(&list, CommitMode::Sync)
    }

    /// The error of a letter that was not delivered.
    fn delivery_error(&self, (partition, offset): (i32, i64), code: RDKafkaErrorCode) -> SinkError {
        let why = format!("the dead letter at partition {partition}, offset {offset}: {code}");
        match code {
            code if is_too_large(code) => SinkError::new(format!(
                "{why}; raise max.message.bytes of topic {:?} and replay again, or skip the letter with --from \
                 {partition}={}",
                self.settings.topic,
                offset + 1
            )),
            RDKafkaErrorCode::MessageTimedOut | RDKafkaErrorCode::AllBrokersDown => {
                self.replay_error(StopReason::Unreachable, &why)
            }
            _ => self.replay_error(StopReason::Failed, &why),
        }
    }

    fn replay_error(&self, stop_reason: StopReason, why: &str) -> SinkError {
        let suffix = self.producer.context().last_error.message_suffix();
        let topic = &self.settings.topic;
        SinkError {
            stop_reason,
            message: format!(
                "dead letters were not replayed to topic {topic:?}: {why}{suffix}; check the brokers and replay again: \
                 the replay resumes where this one stopped, and a page that arrives twice does no harm"
            ),
        }
    }

    fn unreadable(&self, error: &KafkaError) -> SinkError {
        unreadable(&self.topic, &error.to_string())
    }
}

fn unreadable(topic: &str, why: &str) -> SinkError {
    SinkError {
        stop_reason: StopReason::Unreachable,
        message: format!("cannot read the dead letters in topic {topic:?}: {why}; check the brokers and replay again"),
    }
}

fn list_of(topic: &str, offsets: &BTreeMap<i32, i64>) -> KafkaResult<TopicPartitionList> {
    let mut list = TopicPartitionList::new();
    for (partition, offset) in offsets {
        list.add_partition_offset(topic, *partition, Offset::Offset(*offset))?;
    }
    Ok(list)
}

impl LetterPartition {
    /// Determines where to start, from the plan's offset and what the broker holds.
    fn start_at(&mut self, from: Option<i64>, held: OffsetRange, filter: &ReasonFilter) {
        if self.marks.highest() > held.high {
            // The marks belong to an earlier topic of this name.
            self.marks = ReplayMarks::default();
        }
        if let Some(from) = from {
            self.marks.set(filter, from.min(held.high));
        }
        self.next = self.marks.lowest(filter).max(held.low);
        self.end = held.high;
    }
}

/// The contents of a dead letter's headers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DeadLetter {
    reason: String,
    /// The position of the rejected message.
    origin: Origin,
    /// Its position when it was first rejected.
    first_origin: String,
    n_replays: u32,
    is_whole: bool,
}

impl DeadLetter {
    /// Decodes the headers; `None` if the message is no dead letter.
    fn decode(message: &Message) -> Option<Self> {
        // Our headers come last, behind any of the same name in the original.
        let header = |name: &str| {
            let found = message.headers.iter().rev().find(|(other, _)| other == name)?;
            std::str::from_utf8(found.1.as_deref()?).ok()
        };
        let origin = Origin {
            source: header(dead_letter::SOURCE)?.into(),
            partition: header(dead_letter::PARTITION)?.parse().ok()?,
            offset: header(dead_letter::OFFSET)?.parse().ok()?,
        };
        Some(DeadLetter {
            reason: header(dead_letter::REASON)?.to_string(),
            first_origin: header(replayed::ORIGIN).map_or_else(|| origin.to_string(), String::from),
            origin,
            n_replays: header(replayed::COUNT).and_then(|count| count.parse().ok()).unwrap_or(0),
            is_whole: header(dead_letter::LEFT_OUT).is_none() && message.fault.is_none(),
        })
    }

    /// The headers of the replayed message: the original ones, and those of the replay.
    fn headers(&self, message: &Message) -> OwnedHeaders {
        let count = (self.n_replays + 1).to_string();
        let own = message.headers.iter().filter(|(name, _)| !name.starts_with(OUR_HEADERS));
        own.fold(OwnedHeaders::new(), |headers, (key, value)| headers.insert(Header { key, value: value.as_deref() }))
            .insert(Header { key: replayed::ORIGIN, value: Some(&self.first_origin) })
            .insert(Header { key: replayed::COUNT, value: Some(&count) })
    }
}

/// Keeps the first delivery failure: the letter's position, and the error.
#[derive(Default)]
struct Acknowledgements {
    last_error: LastError,
    failure: Mutex<Option<((i32, i64), RDKafkaErrorCode)>>,
}

impl Acknowledgements {
    fn failure(&self) -> Option<((i32, i64), RDKafkaErrorCode)> {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientContext for Acknowledgements {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        self.last_error.record_log(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.last_error.record_error(&error, reason);
    }
}

impl ProducerContext for Acknowledgements {
    type DeliveryOpaque = Box<(i32, i64)>;

    fn delivery(&self, result: &DeliveryResult<'_>, position: Box<(i32, i64)>) {
        if let Err((error, _)) = result {
            let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail);
            self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert((*position, code));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(headers: &[(&str, &str)]) -> Message {
        let headers = headers.iter().map(|(name, value)| ((*name).to_string(), Some(value.as_bytes().to_vec())));
        Message { headers: headers.collect(), ..Message::default() }
    }

    const OURS: [(&str, &str); 4] = [
        (dead_letter::SOURCE, "pages"),
        (dead_letter::PARTITION, "3"),
        (dead_letter::OFFSET, "17"),
        (dead_letter::REASON, "media-type"),
    ];

    #[test]
    fn a_letter_holds_its_origin() {
        let decoded = DeadLetter::decode(&letter(&OURS)).expect("a letter");
        assert_eq!((decoded.reason.as_str(), decoded.first_origin.as_str()), ("media-type", "pages[3]@17"));
        assert_eq!((decoded.origin.partition, decoded.n_replays, decoded.is_whole), (3, 0, true));
        let again = [&[(replayed::ORIGIN, "pages[3]@5"), (replayed::COUNT, "2")], &OURS[..]].concat();
        let again = DeadLetter::decode(&letter(&again)).expect("a letter");
        assert_eq!((again.first_origin.as_str(), again.n_replays), ("pages[3]@5", 2));
        let cut = [&OURS[..], &[(dead_letter::LEFT_OUT, "value")]].concat();
        assert!(!DeadLetter::decode(&letter(&cut)).expect("a letter").is_whole);
        for at in 0..OURS.len() {
            let mut without = OURS.to_vec();
            without.remove(at);
            assert_eq!(DeadLetter::decode(&letter(&without)), None);
        }
    }

    #[test]
    fn a_partition_starts_at_its_mark_or_where_the_plan_says() {
        let held = OffsetRange { low: 10, high: 20 };
        let all = ReasonFilter::new(&[]);
        for (mark, from, next) in [
            (0, None, 10),
            (15, None, 15),
            (20, None, 20),
            // The topic was recreated.
            (21, None, 10),
            (15, Some(12), 12),
            (12, Some(15), 15),
            (12, Some(i64::MAX), 20),
            (15, Some(0), 10),
        ] {
            let mut state = LetterPartition { marks: ReplayMarks::decode(mark, ""), next: 0, end: 0 };
            state.start_at(from, held, &all);
            assert_eq!((state.next, state.end), (next, 20), "{mark}, {from:?}");
        }
    }
}
