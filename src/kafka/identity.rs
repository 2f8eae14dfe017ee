//! Whether a topic is still the one that the store was made from: the last record taken in is there, and is the same.

use super::client::Quiet;
use super::record::taken_over;
use super::settings::KafkaSettings;
use crate::document::Seed;
use crate::ports::Progress;
use crate::wire::{Fault, Message};
use rdkafka::Message as _;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::{Offset, TopicPartitionList};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long to wait for messages before looking at the clock.
const POLL: Duration = Duration::from_millis(100);

/// Tells records apart that have the same offset in two topics of one name. No secret: it guards against mistakes.
const SEED: Seed = Seed([0x6c6f_6f6b, 0x616c_696b, 0x6b61_666b, 0x6173_6565]);

/// The fingerprint of a record; never 0, which says that none is known.
pub(super) fn fingerprint(message: &Message) -> u64 {
    let n_bytes_left = match message.fault {
        Some(Fault::TooLarge(n_bytes)) => n_bytes,
        _ => 0,
    };
    let parts = [
        message.key.as_deref().unwrap_or_default(),
        message.value.as_deref().unwrap_or_default(),
        &message.time_ms.unwrap_or(-1).to_be_bytes(),
        &n_bytes_left.to_be_bytes(),
    ];
    (SEED.fingerprint("record", &parts).0 as u64).max(1)
}

/// The partitions whose last record taken in is another one now. One that cannot be read any more, because it was
/// deleted or compacted, tells nothing.
pub(super) fn changed(
    settings: &KafkaSettings,
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
    let consumer: BaseConsumer<Quiet> = config.create_with_context(Quiet)?;
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
