//! The end of the output: the last events published, as a reader of committed transactions sees them.

use super::client::{SilentContext, TopicError, held_range, partitions_of};
use super::headers::{SEQ_HEADER, STORE_HEADER};
use super::offsets::OffsetRange;
use super::settings::{KafkaSettings, explain};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::{BorrowedMessage, Headers};
use rdkafka::{Message, Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The size of the first window before a partition's end, in offsets: room for an event and its transaction marker.
const FIRST_WINDOW: i64 = 4;

/// The size of the second one, at least: the events of a batch that was aborted fill the end of a partition after most kills.
const SECOND_WINDOW: i64 = 4_096;

/// The growth of each further window: more batches may have been aborted.
const WINDOW_FACTOR: i64 = 16;

/// How long to wait for a message before checking the clock.
const POLL: Duration = Duration::from_millis(100);

/// The last event of an output topic, over all its partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    /// The event's number.
    pub seq: u64,
    /// The id of the store that published it.
    pub store: String,
    /// When it was sent, in milliseconds since 1970, if known.
    pub time_ms: Option<i64>,
}

/// Why the end of a topic cannot be read.
#[derive(Debug)]
pub(super) enum TailError {
    /// The topic's partitions cannot be listed.
    Topic(TopicError),
    /// The topic's messages cannot be read.
    Unread(String),
}

impl From<KafkaError> for TailError {
    fn from(error: KafkaError) -> Self {
        TailError::Unread(error.to_string())
    }
}

/// Reads the ends of topics.
pub(super) struct TailReader {
    consumer: BaseConsumer<SilentContext>,
    /// How long reading one topic may take.
    within: Duration,
}

impl TailReader {
    /// Starts a client, which may read one topic after the other.
    ///
    /// # Errors
    /// What is wrong with the settings.
    pub fn new(settings: &KafkaSettings) -> Result<Self, String> {
        let config = settings.tail_config().map_err(|error| error.to_string())?;
        let consumer = config.create_with_context(SilentContext).map_err(|error| explain(&error))?;
        Ok(TailReader { consumer, within: settings.connect_max() })
    }

    /// Reads the last event of a topic; `None` if no partition holds one.
    ///
    /// # Errors
    /// [`TailError`] if that cannot be read, or is no event.
    pub fn tail_of(&self, topic: &str) -> Result<Option<Tail>, TailError> {
        let TailReader { consumer, within } = self;
        let until = Instant::now() + *within;
        let mut last: Option<Tail> = None;
        // Partition → start of the window, the oldest offset, the end.
        let mut windows: BTreeMap<i32, (i64, i64, i64)> = BTreeMap::new();
        for partition in partitions_of(consumer.client(), topic, *within).map_err(TailError::Topic)? {
            let OffsetRange { low, high } = held_range(consumer.client(), topic, partition, time_left(until))?;
            if high > low {
                windows.insert(partition, (low.max(high - FIRST_WINDOW), low, high));
            }
        }
        while !windows.is_empty() {
            let found = read_window(consumer, topic, &windows, until)?;
            windows.retain(|partition, (from, low, high)| {
                let is_done = found.contains_key(partition) || *from == *low;
                *from = (*low).max(*high - ((*high - *from) * WINDOW_FACTOR).max(SECOND_WINDOW));
                !is_done
            });
            last = last.into_iter().chain(found.into_values()).max_by_key(|tail| tail.seq);
        }
        Ok(last)
    }
}

fn time_left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now()).max(POLL)
}

/// Reads each partition's window to its end, and returns the last event of each window that holds one.
fn read_window(
    consumer: &BaseConsumer<SilentContext>,
    topic: &str,
    windows: &BTreeMap<i32, (i64, i64, i64)>,
    until: Instant,
) -> Result<BTreeMap<i32, Tail>, TailError> {
    assign(consumer, topic, windows)?;
    let mut found: BTreeMap<i32, Tail> = BTreeMap::new();
    let mut unread: Vec<i32> = windows.keys().copied().collect();
    while !unread.is_empty() {
        match consumer.poll(POLL) {
            Some(Ok(message)) => {
                let partition = message.partition();
                let tail = decode_tail(&message).map_err(|why| foreign_message(topic, &message, &why))?;
                if found.get(&partition).is_none_or(|last| last.seq < tail.seq) {
                    found.insert(partition, tail);
                }
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => unread.retain(|other| *other != partition),
            Some(Err(error)) if Instant::now() >= until => return Err(error.into()),
            None if Instant::now() >= until => {
                return Err(TailError::Unread(format!("timed out reading the end of topic {topic:?}")));
            }
            Some(Err(_)) | None => {}
        }
    }
    Ok(found)
}

/// Reads these windows from now on. What librdkafka has fetched of another topic or window is dropped, the end of a partition included.
fn assign(
    consumer: &BaseConsumer<SilentContext>,
    topic: &str,
    windows: &BTreeMap<i32, (i64, i64, i64)>,
) -> KafkaResult<()> {
    let mut list = TopicPartitionList::new();
    for (partition, (from, _, _)) in windows {
        list.add_partition_offset(topic, *partition, Offset::Offset(*from))?;
    }
    consumer.assign(&list)
}

fn foreign_message(topic: &str, message: &BorrowedMessage<'_>, why: &str) -> TailError {
    TailError::Unread(format!(
        "topic {topic:?} holds a message at partition {}, offset {} that is no event of ours: {why}; use a topic \
         that holds nothing but lookalike events",
        message.partition(),
        message.offset()
    ))
}

/// Decodes an event's number and store from the headers of its message.
fn decode_tail<M: Message>(message: &M) -> Result<Tail, String> {
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
