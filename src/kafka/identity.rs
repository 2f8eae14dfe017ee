//! Checks that a topic is still the one the store was built from: its last record read must be there, unchanged.

use super::record::to_owned_message;
use super::settings::KafkaSettings;
use super::topic_id::{TopicId, log_topic_ids};
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

/// The seed of record fingerprints. Not a secret: fingerprints guard against mistakes, not attacks.
const SEED: Seed = Seed([0x6c6f_6f6b, 0x616c_696b, 0x6b61_666b, 0x6173_6565]);

/// Bytes of a value that are hashed at each end. Every record is hashed, and only the last one read is ever compared,
/// so the cost must be small. For a large value, the two ends, the length and the time are enough.
const END_BYTES: usize = 2 << 10;

/// The fingerprint of a record; never 0, which means unknown.
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

/// Passes the topic's id from the log to a [`TopicId`].
struct IdentityContext(Arc<TopicId>);

impl ClientContext for IdentityContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        match level {
            RDKafkaLogLevel::Debug => self.0.observe(line),
            _ => tracing::debug!(target: "librdkafka", "{facility} {line}"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(target: "librdkafka", "{error}: {reason}");
    }
}

impl ConsumerContext for IdentityContext {}

/// Lists the partitions whose last record read has changed. A record that is gone, deleted or compacted, proves nothing
/// and does not count. If the topic changes during the check, `id` records it.
pub(super) fn changed_partitions(
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
    // Where the record is gone, the oldest one comes instead, which proves nothing. An error would not say of which partition.
    config.set("auto.offset.reset", "earliest");
    // An undecodable batch proves nothing and must not delay the start.
    config.set("fetch.error.backoff.ms", "10");
    log_topic_ids(&mut config);
    let consumer: BaseConsumer<IdentityContext> = config.create_with_context(IdentityContext(Arc::clone(id)))?;
    consumer.assign(&list)?;
    let mut changed = Vec::new();
    while !unread.is_empty() && Instant::now() < until {
        match consumer.poll(POLL) {
            Some(Ok(message)) => {
                let Some(progress) = unread.remove(&message.partition()) else { continue };
                let is_last = message.offset() == progress.next_offset - 1;
                if is_last && fingerprint(&to_owned_message(&message, value_bytes_max)) != progress.chain {
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
    fn ends_length_key_and_time_change_the_fingerprint() {
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
        let distinct: BTreeSet<u64> = messages.iter().map(fingerprint).collect();
        assert_eq!(distinct.len(), messages.len());
        assert_eq!(fingerprint(&messages[0]), fingerprint(&messages[0].clone()));
    }
}
