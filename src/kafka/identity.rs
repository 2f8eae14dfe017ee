//! Whether a topic is still the one that the store was made from: the last record taken in is there, and is the same.

use super::record::taken_over;
use super::settings::KafkaSettings;
use super::topic_id::{TopicId, tell_ids};
use crate::document::Seed;
use crate::ports::Progress;
use crate::wire::{Message, MessageFault};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::{ClientContext, Message as _, Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long to wait for messages before looking at the clock.
const POLL: Duration = Duration::from_millis(100);

/// Tells records apart that have the same offset in two topics of one name. No secret: it guards against mistakes.
const SEED: Seed = Seed([0x6c6f_6f6b, 0x616c_696b, 0x6b61_666b, 0x6173_6565]);

/// Bytes at either end of a value that are looked at. Every record is asked for its fingerprint, and only the last one taken
/// in ever needs it: of large ones the ends, the length and the time tell as much.
const END_BYTES: usize = 2 << 10;

/// The fingerprint of a record; never 0, which says that none is known.
pub(super) fn fingerprint(message: &Message) -> u64 {
    let value = message.value.as_deref().unwrap_or_default();
    let (head, tail) = value.split_at(value.len().min(END_BYTES));
    let n_bytes = match message.fault {
        Some(MessageFault::TooLarge(n_bytes)) => n_bytes,
        _ => value.len() as u64,
    };
    let parts = [
        message.key.as_deref().unwrap_or_default(),
        head,
        &tail[tail.len().saturating_sub(END_BYTES)..],
        &message.time_ms.unwrap_or(-1).to_be_bytes(),
        &n_bytes.to_be_bytes(),
    ];
    (SEED.fingerprint("record", &parts).0 as u64).max(1)
}

/// Hears of the id of the topic that is looked at.
struct IdentityContext(Arc<TopicId>);

impl ClientContext for IdentityContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        match level {
            RDKafkaLogLevel::Debug => self.0.hear(line),
            _ => tracing::debug!(target: "librdkafka", "{facility} {line}"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(target: "librdkafka", "{error}: {reason}");
    }
}

impl ConsumerContext for IdentityContext {}

/// The partitions whose last record taken in is another one now. One that cannot be read any more, because it was
/// deleted or compacted, tells nothing. What is read is of the topic of `id`, or that tells of its change.
pub(super) fn changed(
    settings: &KafkaSettings,
    id: &Arc<TopicId>,
    stored: &BTreeMap<i32, Progress>,
    value_bytes_max: usize,
    within: Duration,
) -> Result<Vec<i32>, KafkaError> {
    let until = Instant::now() + within;
    let mut list = TopicPartitionList::new();
    let mut unread: BTreeMap<i32, Progress> = BTreeMap::new();
    for (partition, progress) in stored.iter().filter(|(_, progress)| progress.chain != 0 && progress.next_offset > 0) {
        list.add_partition_offset(&settings.topic, *partition, Offset::Offset(progress.next_offset - 1))?;
        unread.insert(*partition, *progress);
    }
    let mut config = settings.tail_config().map_err(|_| KafkaError::ClientCreation("settings".into()))?;
    // A batch that cannot be unpacked tells nothing, and must not hold up the start.
    config.set("fetch.error.backoff.ms", "10");
    tell_ids(&mut config);
    let consumer: BaseConsumer<IdentityContext> = config.create_with_context(IdentityContext(Arc::clone(id)))?;
    consumer.assign(&list)?;
    let mut changed = Vec::new();
    while !unread.is_empty() && Instant::now() < until {
        match consumer.poll(POLL) {
            Some(Ok(message)) => {
                let Some(progress) = unread.remove(&message.partition()) else { continue };
                let is_last = message.offset() == progress.next_offset - 1;
                if is_last && fingerprint(&taken_over(&message, value_bytes_max)) != progress.chain {
                    changed.push(message.partition());
                }
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => drop(unread.remove(&partition)),
            Some(Err(KafkaError::MessageConsumption(_))) | None => {}
            Some(Err(error)) => return Err(error),
        }
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn whatever_differs_in_a_record_s_ends_length_key_or_time_is_told() {
        let message = |key: &str, value: Vec<u8>, time_ms| Message {
            key: Some(key.into()),
            value: Some(value),
            time_ms: Some(time_ms),
            ..Message::default()
        };
        let changed_at = |at: usize, n_bytes: usize| {
            let mut value = vec![7; n_bytes];
            value[at] = 8;
            message("a", value, 1)
        };
        let too_large = Message { fault: Some(MessageFault::TooLarge(9)), value: None, ..message("a", vec![], 1) };
        let mut messages = vec![message("b", vec![7; 9_000], 1), message("a", vec![7; 9_000], 2), too_large];
        messages.extend([0, 2, 3, 2_048, 9_000].map(|n_bytes| message("a", vec![7; n_bytes], 1)));
        messages.extend([0, 2_047, 6_952, 8_999].map(|at| changed_at(at, 9_000)));
        messages.extend([0, 2_048, 4_095].map(|at| changed_at(at, 4_096)));
        let told: BTreeSet<u64> = messages.iter().map(fingerprint).collect();
        assert_eq!(told.len(), messages.len());
        assert_eq!(fingerprint(&messages[0]), fingerprint(&messages[0].clone()));
    }
}
