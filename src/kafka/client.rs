//! What a consumer and a producer have in common: librdkafka's log, and finding a topic.

use crate::ports::StopReason;
use rdkafka::ClientContext;
use rdkafka::client::Client;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::KafkaError;
use rdkafka::types::{RDKafkaErrorCode, RDKafkaRespErr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Something not to be done more often than every so often.
#[derive(Debug)]
pub(super) struct Throttle {
    every: Duration,
    last: Option<Instant>,
}

impl Throttle {
    /// Due at once, and then every so often.
    pub(super) fn every(every: Duration) -> Self {
        Throttle { every, last: None }
    }

    /// Whether it is time; if so, the next time is counted from now.
    pub(super) fn due(&mut self) -> bool {
        let due = self.last.is_none_or(|last| last.elapsed() >= self.every);
        if due {
            self.last = Some(Instant::now());
        }
        due
    }
}

/// The last trouble that librdkafka told of: its error codes do not say which broker, offset or why, its words do. They
/// come in when the client is polled.
#[derive(Debug, Default)]
pub(super) struct LastError(Mutex<ErrorLine>);

#[derive(Debug, Default)]
struct ErrorLine {
    words: Option<String>,
    /// Whether a broker refused the name or the password, and none has told of anything else since.
    is_refusal: bool,
}

impl LastError {
    /// Passes a line of the log on and keeps it if it is trouble. Warnings are ours to give, at our own pace.
    pub(super) fn hear(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        tracing::debug!(target: "librdkafka", "{facility} {line}");
        let is_trouble = matches!(
            level,
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical | RDKafkaLogLevel::Error
        );
        if is_trouble {
            self.keep(line, None);
        }
    }

    /// Keeps the reason of an error.
    pub(super) fn hear_error(&self, error: &KafkaError, reason: &str) {
        tracing::debug!(target: "librdkafka", "{error}: {reason}");
        // That all brokers are down is said after each has said why it is.
        if error.rdkafka_error_code() != Some(RDKafkaErrorCode::AllBrokersDown) {
            self.keep(reason, Some(error.rdkafka_error_code() == Some(RDKafkaErrorCode::Authentication)));
        }
    }

    fn keep(&self, line: &str, is_refusal: Option<bool>) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.words = Some(line.to_string());
        last.is_refusal = is_refusal.unwrap_or(last.is_refusal);
    }

    /// How the program ends where no broker answers, and what to do about it.
    pub(super) fn silence(&self) -> (StopReason, &'static str) {
        if self.0.lock().unwrap_or_else(PoisonError::into_inner).is_refusal {
            let told = "the brokers refuse the name or the password; correct sasl.username, sasl.password and sasl.mechanisms \
                        in kafka.properties";
            return (StopReason::NotAuthenticated, told);
        }
        (StopReason::Unreachable, "check kafka.brokers, the network, and TLS and SASL in kafka.properties")
    }

    /// The last line, in brackets, or nothing.
    pub(super) fn told(&self) -> String {
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        last.words.as_ref().map_or_else(String::new, |line| format!(" (librdkafka: {line})"))
    }
}

/// Hears nothing: for clients that only look at something, whose trouble shows in what they return.
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

/// Why a topic's partitions cannot be told.
#[derive(Debug)]
pub(super) enum TopicError {
    /// The brokers do not have it.
    Missing,
    /// They have it, and not for us.
    Refused(RDKafkaErrorCode),
    /// No broker answered in time.
    Unreachable(String),
}

impl TopicError {
    /// The same for a person; `field` is where the topic's name is set.
    pub(super) fn explain(&self, topic: &str, field: &str, brokers: &str, trouble: &LastError) -> String {
        match self {
            TopicError::Missing => format!(
                "the brokers at {brokers} have no topic {topic:?}; create it by `lookalike topics create`, or correct kafka.{field}"
            ),
            TopicError::Refused(code) => format!(
                "the brokers at {brokers} refuse the topic {topic:?}: {code}; check kafka.{field}, and what the user in \
                 kafka.properties may do"
            ),
            TopicError::Unreachable(reason) => {
                format!("no answer from {brokers}: {reason}{}; {}", trouble.told(), trouble.silence().1)
            }
        }
    }

    /// How the program ends over it.
    pub(super) fn stop_reason(&self, trouble: &LastError) -> StopReason {
        if matches!(self, TopicError::Unreachable(_)) { trouble.silence().0 } else { StopReason::Failed }
    }
}

/// How often a client is polled to hear why it cannot go on: once for each thing it has to say.
pub(super) const N_LAST_WORDS: usize = 500;

/// How long a topic may be unknown to the brokers before it counts as missing: a new one takes a moment to get around.
const MISSING_MAX: Duration = Duration::from_secs(2);

/// The pause between two questions.
const PAUSE: Duration = Duration::from_millis(200);

/// The numbers of a topic's partitions; the brokers are asked for no longer than `within`.
pub(super) fn partitions_of<C: ClientContext>(
    client: &Client<C>,
    topic: &str,
    within: Duration,
) -> Result<Vec<i32>, TopicError> {
    let until = Instant::now() + within.min(MISSING_MAX);
    loop {
        match ask(client, topic, within) {
            Err(TopicError::Missing) if Instant::now() + PAUSE < until => std::thread::sleep(PAUSE),
            answer => return answer,
        }
    }
}

/// The offset that a partition's next message gets. A topic that was just made has no leaders for a moment.
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

fn ask<C: ClientContext>(client: &Client<C>, topic: &str, within: Duration) -> Result<Vec<i32>, TopicError> {
    let metadata =
        client.fetch_metadata(Some(topic), within).map_err(|error| TopicError::Unreachable(error.to_string()))?;
    let found = metadata.topics().iter().find(|found| found.name() == topic).ok_or(TopicError::Missing)?;
    match found.error() {
        None if found.partitions().is_empty() => Err(TopicError::Missing),
        // A topic being made has no leaders yet.
        None | Some(RDKafkaRespErr::RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE) => {
            Ok(found.partitions().iter().map(|partition| partition.id()).collect())
        }
        Some(
            RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART | RDKafkaRespErr::RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC,
        ) => Err(TopicError::Missing),
        Some(error) => Err(TopicError::Refused(error.into())),
    }
}
