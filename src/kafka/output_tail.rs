//! The end of the output: which events are out there, as a reader of committed transactions sees them.

use super::client::{SilentContext, TopicError, partitions_of};
use super::settings::{KafkaSettings, explain};
use super::sink::{SEQ_HEADER, STORE_HEADER};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::{BorrowedMessage, Headers};
use rdkafka::{Message, Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How far before a partition's end the last event is looked for first: itself and the marker of its transaction.
const FIRST_LOOK: i64 = 4;

/// How much farther each next look goes: events of aborted transactions and their markers may fill the end.
const LOOK_FACTOR: i64 = 16;

/// How long to wait for messages before looking at the clock.
const POLL: Duration = Duration::from_millis(100);

/// The last event of an output, over all its partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    /// Its number.
    pub seq: u64,
    /// The id of the store that it came from.
    pub store: String,
    /// When it was sent, in milliseconds since 1970, where that is known.
    pub time_ms: Option<i64>,
}

/// Why the end of a topic cannot be told.
#[derive(Debug)]
pub(super) enum TailError {
    /// The topic itself cannot be found.
    Topic(TopicError),
    /// Its messages cannot be read.
    Unread(String),
}

impl From<KafkaError> for TailError {
    fn from(error: KafkaError) -> Self {
        TailError::Unread(error.to_string())
    }
}

/// Reads the last event of each partition of a topic; none where no partition holds one.
pub(super) fn tail_of(settings: &KafkaSettings, topic: &str, within: Duration) -> Result<Option<Tail>, TailError> {
    let until = Instant::now() + within;
    let config = settings.tail_config().map_err(|error| TailError::Unread(error.to_string()))?;
    let consumer: BaseConsumer<SilentContext> =
        config.create_with_context(SilentContext).map_err(|error| TailError::Unread(explain(&error)))?;
    let mut last: Option<Tail> = None;
    // Partition → where to begin, its oldest offset, its end.
    let mut looks: BTreeMap<i32, (i64, i64, i64)> = BTreeMap::new();
    for partition in partitions_of(consumer.client(), topic, within).map_err(TailError::Topic)? {
        let (low, high) = consumer.fetch_watermarks(topic, partition, left(until))?;
        if high > low {
            looks.insert(partition, (low.max(high - FIRST_LOOK), low, high));
        }
    }
    while !looks.is_empty() {
        let found = look(&consumer, topic, &looks, until)?;
        looks.retain(|partition, (from, low, high)| {
            let is_done = found.contains_key(partition) || *from == *low;
            *from = (*low).max(*high - (*high - *from) * LOOK_FACTOR);
            !is_done
        });
        last = last.into_iter().chain(found.into_values()).max_by_key(|tail| tail.seq);
    }
    Ok(last)
}

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now()).max(POLL)
}

/// Reads partitions from where they are to be begun to their ends; returns the last event of those that have one there.
fn look(
    consumer: &BaseConsumer<SilentContext>,
    topic: &str,
    looks: &BTreeMap<i32, (i64, i64, i64)>,
    until: Instant,
) -> Result<BTreeMap<i32, Tail>, TailError> {
    assign(consumer, topic, looks)?;
    let mut found: BTreeMap<i32, Tail> = BTreeMap::new();
    let mut unread: Vec<i32> = looks.keys().copied().collect();
    while !unread.is_empty() {
        match consumer.poll(POLL) {
            Some(Ok(message)) => {
                let partition = message.partition();
                let tail = tail_in(&message).map_err(|why| at(topic, &message, &why))?;
                if found.get(&partition).is_none_or(|last| last.seq < tail.seq) {
                    found.insert(partition, tail);
                }
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => unread.retain(|other| *other != partition),
            Some(Err(error)) if Instant::now() >= until => return Err(error.into()),
            None if Instant::now() >= until => {
                return Err(TailError::Unread(format!("the end of topic {topic:?} did not come in time")));
            }
            Some(Err(_)) | None => {}
        }
    }
    Ok(found)
}

fn assign(
    consumer: &BaseConsumer<SilentContext>,
    topic: &str,
    looks: &BTreeMap<i32, (i64, i64, i64)>,
) -> KafkaResult<()> {
    let mut list = TopicPartitionList::new();
    for (partition, (from, _, _)) in looks {
        list.add_partition_offset(topic, *partition, Offset::Offset(*from))?;
    }
    consumer.assign(&list)
}

fn at(topic: &str, message: &BorrowedMessage<'_>, why: &str) -> TailError {
    TailError::Unread(format!(
        "topic {topic:?} holds a message at partition {}, offset {} that is no event of ours: {why}; give the events a \
         topic of their own",
        message.partition(),
        message.offset()
    ))
}

/// The event's number and store; an error where the message is none.
fn tail_in<M: Message>(message: &M) -> Result<Tail, String> {
    let header = |name: &str| {
        let headers = message.headers()?;
        let found = headers.iter().find(|header| header.key == name)?;
        std::str::from_utf8(found.value?).ok().map(String::from)
    };
    match (header(SEQ_HEADER).and_then(|seq| seq.parse().ok()), header(STORE_HEADER)) {
        (Some(seq), Some(store)) => Ok(Tail { seq, store, time_ms: message.timestamp().to_millis() }),
        _ => Err(format!("it lacks the headers {SEQ_HEADER} and {STORE_HEADER}")),
    }
}
