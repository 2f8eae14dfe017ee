//! Dead letters back to the topic that they came from, up to where theirs ends when the replay begins.

use super::client::{LastError, N_LAST_WORDS, SilentContext, TopicError, partitions_of};
use super::offsets::{self, OffsetRange, TopicPosition};
use super::record::taken_over;
use super::replay_marks::{ReasonFilter, ReplayMarks};
use super::routing::dead_letter;
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

/// The headers that a replayed message has beside those that it came with.
pub mod replayed {
    /// Where the message stood when it was rejected first: `TOPIC[PARTITION]@OFFSET`.
    pub const ORIGIN: &str = "lookalike-replay-of";
    /// How often it has been replayed, this time included.
    pub const COUNT: &str = "lookalike-replays";
}

/// What the names of all our headers begin with: none of them goes back but those of the replay.
const OUR_HEADERS: &str = "lookalike-";

/// What is behind the group's name in that of the group which remembers how far letters were replayed.
const GROUP_SUFFIX: &str = "-dlq-replay";

/// How long to wait for letters before looking at the clock.
const POLL: Duration = Duration::from_millis(100);

/// Messages that are sent before acknowledgements are awaited and the marks are committed.
const BATCH_MESSAGES: usize = 1_000;

/// Bytes of messages after which the same is done.
const BATCH_BYTES: usize = 16 << 20;

/// Which dead letters are to be replayed.
#[derive(Clone, Debug)]
pub struct ReplayPlan {
    /// Where to begin; none: where the last replay of these reasons stopped.
    pub from: Option<TopicPosition>,
    /// Letters of which reasons; none: of all but [`Reason::Poison`].
    pub reasons: Vec<Reason>,
    /// How many at most.
    pub limit: Option<u64>,
    /// How often a message may be replayed in all. It is left alone once it was rejected after so many replays.
    pub replays_max: u32,
    /// Whether to count only: nothing is sent, no mark is moved.
    pub is_dry_run: bool,
}

/// What a replay did, in letters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReplayReport {
    /// The topic of dead letters.
    pub dead_letters: String,
    /// The topic that they went to.
    pub pages: String,
    /// Whether they were only counted.
    pub dry_run: bool,
    /// Reason → letters that were replayed.
    pub replayed: BTreeMap<String, u64>,
    /// Letters of which the value or the headers are missing: they cannot be replayed.
    pub not_whole: u64,
    /// Letters that were rejected after as many replays as are allowed.
    pub too_often: u64,
    /// Messages that are no dead letters.
    pub foreign: u64,
    /// Whether all letters up to the end were looked at; false where the limit or a signal came first.
    pub complete: bool,
}

/// Replays dead letters, and returns how many.
///
/// Every message goes to the partition that it came from, with key, value, headers and time as it had them. Marks of how
/// far this has come are committed, for each reason, once the brokers have acknowledged what was sent: a replay that was
/// killed sends up to a batch of messages again.
///
/// # Errors
/// [`SinkError`] where the settings are wrong, a topic is missing, brokers do not answer or refuse a message.
pub fn replay(settings: &KafkaSettings, plan: &ReplayPlan, shutdown: &AtomicBool) -> Result<ReplayReport, SinkError> {
    settings.check().map_err(|error| SinkError::new(error.to_string()))?;
    let mut replay = Replay::open(settings, plan)?;
    replay.read_to_the_end(shutdown)?;
    replay.settle()?;
    replay.report.complete = replay.unread.is_empty();
    Ok(replay.report)
}

/// A partition of the dead letters.
struct LetterPosition {
    marks: ReplayMarks,
    /// The offset to go on from.
    next: i64,
    /// Where it ended when the replay began.
    end: i64,
}

struct Replay<'a> {
    settings: &'a KafkaSettings,
    plan: &'a ReplayPlan,
    chosen: ReasonFilter,
    /// The topic of dead letters.
    topic: String,
    consumer: BaseConsumer<SilentContext>,
    producer: BaseProducer<Acknowledgements>,
    /// The partitions of the pages.
    partitions: Vec<i32>,
    places: BTreeMap<i32, LetterPosition>,
    unread: BTreeSet<i32>,
    n_messages: usize,
    n_bytes: usize,
    report: ReplayReport,
}

impl<'a> Replay<'a> {
    fn open(settings: &'a KafkaSettings, plan: &'a ReplayPlan) -> Result<Self, SinkError> {
        let wrong = |error: SettingsError| SinkError::new(error.to_string());
        let started = |error: KafkaError| SinkError::new(format!("Kafka's client does not start: {}", explain(&error)));
        let mut reading = settings.tail_config().map_err(wrong)?;
        reading.set("group.id", format!("{}{GROUP_SUFFIX}", settings.group));
        let writing = settings.replay_config().map_err(wrong)?;
        let topic = settings.dead_letter_topic();
        let mut replay = Replay {
            settings,
            plan,
            chosen: ReasonFilter::new(&plan.reasons),
            consumer: reading.create_with_context(SilentContext).map_err(started)?,
            producer: writing.create_with_context(Acknowledgements::default()).map_err(started)?,
            partitions: Vec::new(),
            places: BTreeMap::new(),
            unread: BTreeSet::new(),
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
        replay.partitions = replay.partitions_of(&settings.topic, "topic")?;
        replay.find_places()?;
        Ok(replay)
    }

    fn partitions_of(&self, topic: &str, field: &str) -> Result<Vec<i32>, SinkError> {
        partitions_of(self.producer.client(), topic, self.settings.connect_max()).map_err(|error| {
            (0..N_LAST_WORDS).for_each(|_| self.producer.poll(Duration::ZERO));
            let stop_reason =
                if matches!(error, TopicError::Unreachable(_)) { StopReason::Unreachable } else { StopReason::Failed };
            let trouble = &self.producer.context().trouble;
            SinkError { stop_reason, message: error.explain(topic, field, &self.settings.brokers, trouble) }
        })
    }

    /// Finds where each partition of the dead letters is to be read from, and where it ends.
    fn find_places(&mut self) -> Result<(), SinkError> {
        let partitions = self.partitions_of(&self.topic, "dead_letters")?;
        self.places = self.committed(&partitions).map_err(|error| self.unreadable(&error))?;
        let from = self.from(&partitions)?;
        for (partition, place) in &mut self.places {
            let held = self.consumer.fetch_watermarks(&self.topic, *partition, self.settings.connect_max());
            let (low, high) = held.map_err(|error| unreadable(&self.topic, &error.to_string()))?;
            place.begin(from.get(partition).copied(), OffsetRange { low, high }, &self.chosen);
        }
        let begun = self.places.iter().filter(|(_, place)| place.next < place.end);
        let begun: BTreeMap<i32, i64> = begun.map(|(partition, place)| (*partition, place.next)).collect();
        self.unread = begun.keys().copied().collect();
        let assigned = list_of(&self.topic, &begun).and_then(|list| self.consumer.assign(&list));
        assigned.map_err(|error| self.unreadable(&error))
    }

    /// How far earlier replays have come.
    fn committed(&self, partitions: &[i32]) -> KafkaResult<BTreeMap<i32, LetterPosition>> {
        let mut asked = TopicPartitionList::new();
        for partition in partitions {
            asked.add_partition(&self.topic, *partition);
        }
        let found = self.consumer.committed_offsets(asked, self.settings.connect_max())?;
        let place = |element: TopicPartitionListElem<'_>| -> KafkaResult<(i32, LetterPosition)> {
            element.error()?;
            let marks = match element.offset() {
                Offset::Offset(offset) => ReplayMarks::read(offset, element.metadata()),
                _ => ReplayMarks::default(),
            };
            Ok((element.partition(), LetterPosition { marks, next: 0, end: 0 }))
        };
        found.elements().into_iter().map(place).collect()
    }

    /// Where the plan says that partitions begin.
    fn from(&self, partitions: &[i32]) -> Result<BTreeMap<i32, i64>, SinkError> {
        let time = match &self.plan.from {
            None => return Ok(BTreeMap::new()),
            Some(TopicPosition::Time(time)) => *time,
            Some(TopicPosition::Offsets(offsets)) => {
                let strange = offsets.keys().find(|partition| !partitions.contains(partition));
                return strange.map_or_else(
                    || Ok(offsets.clone()),
                    |partition| {
                        Err(SinkError::new(format!(
                            "topic {:?} has no partition {partition}: correct --from",
                            self.topic
                        )))
                    },
                );
            }
        };
        let times = partitions.iter().map(|partition| (*partition, offsets::milliseconds(time))).collect();
        let asked = list_of(&self.topic, &times).map_err(|error| self.unreadable(&error))?;
        let found = self.consumer.offsets_for_times(asked, self.settings.connect_max());
        let found = found.map_err(|error| self.unreadable(&error))?;
        let offset = |element: TopicPartitionListElem<'_>| -> Result<(i32, i64), SinkError> {
            element.error().map_err(|error| self.unreadable(&error))?;
            // Where no letter is of that time or later there is nothing to read.
            let offset = if let Offset::Offset(offset) = element.offset() { offset } else { i64::MAX };
            Ok((element.partition(), offset))
        };
        found.elements().into_iter().map(offset).collect()
    }

    fn read_to_the_end(&mut self, shutdown: &AtomicBool) -> Result<(), SinkError> {
        let mut last_heard = Instant::now();
        let mut trouble = "no answer".to_string();
        while !self.unread.is_empty() && !self.is_full() && !shutdown.load(Ordering::Relaxed) {
            let polled = self.consumer.poll(POLL).map(|polled| {
                polled.map(|message| (message.partition(), message.offset(), taken_over(&message, usize::MAX)))
            });
            match polled {
                Some(Ok((partition, offset, message))) => {
                    self.take(partition, offset, message)?;
                    last_heard = Instant::now();
                }
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    self.unread.remove(&partition);
                }
                Some(Err(error)) => trouble = error.to_string(),
                None => {}
            }
            if last_heard.elapsed() > self.settings.delivery_max() {
                return Err(unreadable(&self.topic, &trouble));
            }
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.plan.limit.is_some_and(|limit| self.report.replayed.values().sum::<u64>() >= limit)
    }

    /// Takes a message of the dead letters; those that came after the replay began are left.
    fn take(&mut self, partition: i32, offset: i64, message: Message) -> Result<(), SinkError> {
        let Some(place) = self.places.get_mut(&partition).filter(|place| offset < place.end) else {
            self.unread.remove(&partition);
            return Ok(());
        };
        place.next = offset + 1;
        if place.next >= place.end {
            self.unread.remove(&partition);
        }
        let Some(letter) = DeadLetter::of(&message) else {
            self.report.foreign += 1;
            return Ok(());
        };
        if !self.chosen.includes(&letter.reason) || offset < place.marks.of(&letter.reason) {
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

    fn send(&mut self, letter: &DeadLetter, message: &Message, place: (i32, i64)) -> Result<(), SinkError> {
        let mut record: BaseRecord<'_, [u8], [u8], Box<(i32, i64)>> =
            BaseRecord::with_opaque_to(&self.settings.topic, Box::new(place)).headers(letter.headers(message));
        record.key = message.key.as_deref();
        record.payload = message.value.as_deref();
        record.timestamp = message.time_ms.filter(|time| *time >= 0);
        record.partition = Some(letter.origin.partition)
            .filter(|partition| *letter.origin.source == *self.settings.topic && self.partitions.contains(partition));
        while let Err((error, refused)) = self.producer.send(record) {
            if error != KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull) {
                return Err(self.refused(place, error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail)));
            }
            self.producer.poll(POLL);
            record = refused;
        }
        self.n_messages += 1;
        self.n_bytes += message.n_bytes();
        if self.n_messages >= BATCH_MESSAGES || self.n_bytes >= BATCH_BYTES { self.settle() } else { Ok(()) }
    }

    /// Waits until everything that was sent is acknowledged, and commits how far that is.
    fn settle(&mut self) -> Result<(), SinkError> {
        if self.plan.is_dry_run {
            return Ok(());
        }
        // librdkafka gives each message up by itself in half that time.
        let flushed = self.producer.flush(self.settings.delivery_max() * 2);
        if let Some((place, code)) = self.producer.context().failure() {
            return Err(self.refused(place, code));
        }
        flushed.map_err(|error| self.failed(StopReason::Unreachable, &error.to_string()))?;
        (self.n_messages, self.n_bytes) = (0, 0);
        self.commit().map_err(|error| {
            let what = "replayed messages were acknowledged, and how far they go could not be committed";
            self.failed(StopReason::Unreachable, &format!("{what}: {error}"))
        })
    }

    fn commit(&mut self) -> KafkaResult<()> {
        let mut list = TopicPartitionList::new();
        for (partition, place) in &mut self.places {
            place.marks.advance(&self.chosen, place.next);
            let (offset, metadata) = place.marks.to_commit();
            let mut element = list.add_partition(&self.topic, *partition);
            element.set_offset(Offset::Offset(offset))?;
            element.set_metadata(metadata);
        }
        self.consumer.commit(&list, CommitMode::Sync)
    }

    /// The error of a letter that does not arrive.
    fn refused(&self, (partition, offset): (i32, i64), code: RDKafkaErrorCode) -> SinkError {
        let why = format!("the letter at partition {partition}, offset {offset}: {code}");
        match code {
            RDKafkaErrorCode::MessageSizeTooLarge | RDKafkaErrorCode::InvalidMessageSize => SinkError::new(format!(
                "{why}; raise max.message.bytes of topic {:?} and replay again, or pass it over by --from {partition}={}",
                self.settings.topic,
                offset + 1
            )),
            RDKafkaErrorCode::MessageTimedOut | RDKafkaErrorCode::AllBrokersDown => {
                self.failed(StopReason::Unreachable, &why)
            }
            _ => self.failed(StopReason::Failed, &why),
        }
    }

    fn failed(&self, stop_reason: StopReason, why: &str) -> SinkError {
        let told = self.producer.context().trouble.told();
        let topic = &self.settings.topic;
        SinkError {
            stop_reason,
            message: format!(
                "dead letters were not replayed to topic {topic:?}: {why}{told}; check the brokers and replay again: it goes \
                 on where this one stopped, and a page that comes twice does no harm"
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
        message: format!(
            "the dead letters in topic {topic:?} cannot be read: {why}; check the brokers and replay again"
        ),
    }
}

fn list_of(topic: &str, offsets: &BTreeMap<i32, i64>) -> KafkaResult<TopicPartitionList> {
    let mut list = TopicPartitionList::new();
    for (partition, offset) in offsets {
        list.add_partition_offset(topic, *partition, Offset::Offset(*offset))?;
    }
    Ok(list)
}

impl LetterPosition {
    /// Decides where to begin, given where the plan says and what the broker holds.
    fn begin(&mut self, from: Option<i64>, held: OffsetRange, chosen: &ReasonFilter) {
        if self.marks.last() > held.high {
            // They were made in a topic that was there before this one.
            self.marks = ReplayMarks::default();
        }
        if let Some(from) = from {
            self.marks.set(chosen, from.min(held.high));
        }
        self.next = self.marks.first(chosen).max(held.low);
        self.end = held.high;
    }
}

/// What a dead letter says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DeadLetter {
    reason: String,
    /// Where the message stood that was rejected.
    origin: Origin,
    /// Where it stood when it was rejected first.
    first_origin: String,
    n_replays: u32,
    is_whole: bool,
}

impl DeadLetter {
    /// None where a message is no dead letter.
    fn of(message: &Message) -> Option<Self> {
        // Ours come last, whatever headers a message had.
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

    /// The headers of the replayed message: its own, and that it is one.
    fn headers(&self, message: &Message) -> OwnedHeaders {
        let count = (self.n_replays + 1).to_string();
        let own = message.headers.iter().filter(|(name, _)| !name.starts_with(OUR_HEADERS));
        own.fold(OwnedHeaders::new(), |headers, (key, value)| headers.insert(Header { key, value: value.as_deref() }))
            .insert(Header { key: replayed::ORIGIN, value: Some(&self.first_origin) })
            .insert(Header { key: replayed::COUNT, value: Some(&count) })
    }
}

/// Keeps the first message that was not delivered: the place of its letter, and why.
#[derive(Default)]
struct Acknowledgements {
    trouble: LastError,
    failure: Mutex<Option<((i32, i64), RDKafkaErrorCode)>>,
}

impl Acknowledgements {
    fn failure(&self) -> Option<((i32, i64), RDKafkaErrorCode)> {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientContext for Acknowledgements {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        self.trouble.hear(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.trouble.hear_error(&error, reason);
    }
}

impl ProducerContext for Acknowledgements {
    type DeliveryOpaque = Box<(i32, i64)>;

    fn delivery(&self, result: &DeliveryResult<'_>, place: Box<(i32, i64)>) {
        if let Err((error, _)) = result {
            let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail);
            self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert((*place, code));
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
    fn a_letter_tells_where_it_came_from() {
        let told = DeadLetter::of(&letter(&OURS)).expect("a letter");
        assert_eq!((told.reason.as_str(), told.first_origin.as_str()), ("media-type", "pages[3]@17"));
        assert_eq!((told.origin.partition, told.n_replays, told.is_whole), (3, 0, true));
        let again = [&[(replayed::ORIGIN, "pages[3]@5"), (replayed::COUNT, "2")], &OURS[..]].concat();
        let again = DeadLetter::of(&letter(&again)).expect("a letter");
        assert_eq!((again.first_origin.as_str(), again.n_replays), ("pages[3]@5", 2));
        let cut = [&OURS[..], &[(dead_letter::LEFT_OUT, "value")]].concat();
        assert!(!DeadLetter::of(&letter(&cut)).expect("a letter").is_whole);
        for at in 0..OURS.len() {
            let mut without = OURS.to_vec();
            without.remove(at);
            assert_eq!(DeadLetter::of(&letter(&without)), None);
        }
    }

    #[test]
    fn a_partition_begins_where_the_last_replay_stopped_or_where_it_is_told() {
        let held = OffsetRange { low: 10, high: 20 };
        let all = ReasonFilter::new(&[]);
        for (mark, from, next) in [
            (0, None, 10),
            (15, None, 15),
            (20, None, 20),
            // The topic is another one.
            (21, None, 10),
            (15, Some(12), 12),
            (12, Some(15), 15),
            (12, Some(i64::MAX), 20),
            (15, Some(0), 10),
        ] {
            let mut place = LetterPosition { marks: ReplayMarks::read(mark, ""), next: 0, end: 0 };
            place.begin(from, held, &all);
            assert_eq!((place.next, place.end), (next, 20), "{mark}, {from:?}");
        }
    }
}
