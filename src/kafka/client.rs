//! What consumers and producers share: librdkafka's log and errors, rate limits, and topic metadata.

use super::offsets::OffsetRange;
use crate::ports::StopReason;
use rdkafka::client::Client;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::types::{RDKafkaErrorCode, RDKafkaRespErr};
use rdkafka::{ClientContext, TopicPartitionList};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Stops fetching a partition, or goes on.
pub(super) fn set_paused<C: ConsumerContext>(consumer: &BaseConsumer<C>, topic: &str, partition: i32, is_paused: bool) {
    let mut list = TopicPartitionList::new();
    list.add_partition(topic, partition);
    let changed = if is_paused { consumer.pause(&list) } else { consumer.resume(&list) };
    if let Err(error) = changed {
        tracing::debug!("topic {topic:?}, partition {partition} is not paused or resumed: {error}");
    }
}

/// Limits an action to once per interval.
#[derive(Debug)]
pub(super) struct Throttle {
    every: Duration,
    last: Option<Instant>,
}

impl Throttle {
    /// Creates a throttle whose action is due at once.
    pub(super) fn every(every: Duration) -> Self {
        Throttle { every, last: None }
    }

    /// Whether the action is due; if so, starts the next interval.
    pub(super) fn due(&mut self) -> bool {
        let due = self.last.is_none_or(|last| last.elapsed() >= self.every);
        if due {
            self.last = Some(Instant::now());
        }
        due
    }
}

/// The last error that librdkafka logged or reported.
///
/// An error code does not name the broker, the offset or the cause; this text does. librdkafka delivers it while the
/// client is polled.
#[derive(Debug, Default)]
pub(super) struct LastError(Mutex<ErrorLine>);

#[derive(Debug, Default)]
struct ErrorLine {
    line: Option<String>,
    /// Whether a broker rejected the credentials, and no other error has followed.
    is_auth_error: bool,
}

impl LastError {
    /// Forwards a log line to the debug log and keeps it if it is an error. Callers log warnings, throttled.
    pub(super) fn record_log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        tracing::debug!(target: "librdkafka", "{facility} {line}");
        let is_error = matches!(
            level,
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical | RDKafkaLogLevel::Error
        );
        if is_error {
            self.keep(line, None);
        }
    }

    /// Keeps the reason of an error.
    pub(super) fn record_error(&self, error: &KafkaError, reason: &str) {
        tracing::debug!(target: "librdkafka", "{error}: {reason}");
        // `AllBrokersDown` follows an error of each broker, which names the cause.
        if error.rdkafka_error_code() != Some(RDKafkaErrorCode::AllBrokersDown) {
            self.keep(reason, Some(error.rdkafka_error_code() == Some(RDKafkaErrorCode::Authentication)));
        }
    }

    fn keep(&self, line: &str, is_auth_error: Option<bool>) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.line = Some(line.to_string());
        last.is_auth_error = is_auth_error.unwrap_or(last.is_auth_error);
    }

    /// The stop reason when no broker answers, and what to do about it.
    pub(super) fn diagnose_unreachable(&self) -> (StopReason, &'static str) {
        if self.0.lock().unwrap_or_else(PoisonError::into_inner).is_auth_error {
            let advice = "the brokers reject the user name or password; correct sasl.username, sasl.password and \
                          sasl.mechanisms in kafka.properties";
            return (StopReason::NotAuthenticated, advice);
        }
        (StopReason::Unreachable, "check kafka.brokers, the network, and TLS and SASL in kafka.properties")
    }

    /// The last error as a suffix for a message: in brackets, or empty.
    pub(super) fn message_suffix(&self) -> String {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.line.as_ref().map_or_else(String::new, |line| format!(" (librdkafka: {line})"))
    }
}

/// Logs at debug level only: for short-lived clients whose return values carry their errors.
pub(super) struct SilentContext;

impl ClientContext for SilentContext {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, line: &str) {
        tracing::debug!(target: "librdkafka", "{facility} {line}");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(target: "librdkafka", "{error}: {reason}");
    }
}

impl ConsumerContext for SilentContext {}

/// Why the partitions of a topic cannot be listed.
#[derive(Debug)]
pub(super) enum TopicError {
    /// The brokers do not have the topic.
    Missing,
    /// The brokers deny access to the topic.
    Refused(RDKafkaErrorCode),
    /// No broker answered in time.
    Unreachable(String),
}

impl TopicError {
    /// Formats the error as a message with advice; `field` is the setting that names the topic.
    pub(super) fn explain(&self, topic: &str, field: &str, brokers: &str, last_error: &LastError) -> String {
        match self {
            TopicError::Missing => format!(
                "the brokers at {brokers} have no topic {topic:?}; create it with `lookalike topics create`, or \
                 correct kafka.{field}"
            ),
            TopicError::Refused(code) => format!(
                "the brokers at {brokers} deny access to topic {topic:?}: {code}; check kafka.{field}, and the \
                 permissions of the user in kafka.properties"
            ),
            TopicError::Unreachable(reason) => {
                format!(
                    "no answer from {brokers}: {reason}{}; {}",
                    last_error.message_suffix(),
                    last_error.diagnose_unreachable().1
                )
            }
        }
    }

    /// Why the program stops on this error.
    pub(super) fn stop_reason(&self, last_error: &LastError) -> StopReason {
        if matches!(self, TopicError::Unreachable(_)) {
            last_error.diagnose_unreachable().0
        } else {
            StopReason::Failed
        }
    }
}

/// How often to poll a failing client for its last errors: each poll delivers one.
pub(super) const N_FINAL_POLLS: usize = 500;

/// How long brokers may not know a topic before it counts as missing: metadata of a new topic takes a moment to spread.
const MISSING_MAX: Duration = Duration::from_secs(2);

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(200);

/// Lists the partitions of a topic; each request to the brokers takes at most `within`.
pub(super) fn partitions_of<C: ClientContext>(
    client: &Client<C>,
    topic: &str,
    within: Duration,
) -> Result<Vec<i32>, TopicError> {
    let until = Instant::now() + within.min(MISSING_MAX);
    loop {
        match fetch_partitions(client, topic, within) {
            Err(TopicError::Missing) if Instant::now() + PAUSE < until => std::thread::sleep(PAUSE),
            answer => return answer,
        }
    }
}

/// The offsets that the brokers hold of a partition. Waits for a leader: a topic that was just created, or whose broker went
/// away, has none for a moment.
pub(super) fn held_range<C: ClientContext>(
    client: &Client<C>,
    topic: &str,
    partition: i32,
    within: Duration,
) -> KafkaResult<OffsetRange> {
    let until = Instant::now() + within;
    loop {
        match client.fetch_watermarks(topic, partition, within) {
            Ok((low, high)) => return Ok(OffsetRange { low, high }),
            Err(error) if lacks_leader(&error) && Instant::now() + PAUSE < until => std::thread::sleep(PAUSE),
            Err(error) => return Err(error),
        }
    }
}

/// Whether the brokers know no leader of a partition yet, or the client does not know the partition yet.
fn lacks_leader(error: &KafkaError) -> bool {
    use RDKafkaErrorCode::{LeaderNotAvailable, NotLeaderForPartition, UnknownPartition};
    matches!(error.rdkafka_error_code(), Some(LeaderNotAvailable | NotLeaderForPartition | UnknownPartition))
}

/// The offset that a partition's next message will get. Retries, because a new topic has no leaders for a moment.
pub(super) fn end_of<C: ClientContext>(
    client: &Client<C>,
    topic: &str,
    partition: i32,
    within: Duration,
) -> Result<i64, TopicError> {
    let until = Instant::now() + within;
    loop {
        match client.fetch_watermarks(topic, partition, within) {
            Ok((_, end)) => return Ok(end),
            Err(_) if Instant::now() < until => std::thread::sleep(PAUSE),
            Err(error) => return Err(TopicError::Unreachable(error.to_string())),
        }
    }
}

fn fetch_partitions<C: ClientContext>(
    client: &Client<C>,
    topic: &str,
    within: Duration,
) -> Result<Vec<i32>, TopicError> {
    let metadata =
        client.fetch_metadata(Some(topic), within).map_err(|error| TopicError::Unreachable(error.to_string()))?;
    let found = metadata.topics().iter().find(|found| found.name() == topic).ok_or(TopicError::Missing)?;
    match found.error() {
        None if found.partitions().is_empty() => Err(TopicError::Missing),
        // A topic under creation has no leaders yet.
        None | Some(RDKafkaRespErr::RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE) => {
            Ok(found.partitions().iter().map(|partition| partition.id()).collect())
        }
        Some(
            RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART | RDKafkaRespErr::RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC,
        ) => Err(TopicError::Missing),
        Some(error) => Err(TopicError::Refused(error.into())),
    }
}

/// Whether a message was refused because of its size, by librdkafka or by the brokers.
pub(super) fn is_too_large(code: RDKafkaErrorCode) -> bool {
    matches!(code, RDKafkaErrorCode::MessageSizeTooLarge | RDKafkaErrorCode::InvalidMessageSize)
}
