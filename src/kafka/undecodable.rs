//! Batches that librdkafka cannot unpack: which partition holds one, and how far it goes.
//!
//! librdkafka stops at such a batch for ever, or, where its checksum is wrong, passes over it; either way its error names
//! no partition. So every partition is read again where the stream stands, by a consumer of its own. What the batch's
//! first offset is, librdkafka says in words; that it is the same from everywhere within the batch, and another one
//! behind it, gives the end.

use super::settings::{KafkaSettings, explain};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientConfig, ClientContext, Offset, TopicPartitionList};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long the answer to one look may take: what does not fit is unpacked before that is known.
const LOOK_MAX: Duration = Duration::from_secs(10);

/// How long to wait for messages before looking at the clock.
const POLL: Duration = Duration::from_millis(100);

/// What there is at an offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// A message, or the partition's end.
    Readable,
    /// A batch that cannot be unpacked.
    Undecodable {
        /// Its first offset.
        base: i64,
        /// What librdkafka says of it.
        why: String,
    },
}

/// A batch that cannot be unpacked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    /// The offset behind its last one.
    pub end: i64,
    /// What librdkafka says of it.
    pub why: String,
}

/// Whether a code says that a batch cannot be unpacked.
pub(super) fn is_undecodable(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::BadMessage
            | RDKafkaErrorCode::BadCompression
            | RDKafkaErrorCode::InvalidMessage
            | RDKafkaErrorCode::MessageSizeTooLarge
            | RDKafkaErrorCode::NotImplemented
            | RDKafkaErrorCode::CriticalSystemResource
    )
}

/// The batch at `next`, if it cannot be unpacked; `high` is the partition's end.
///
/// # Errors
/// A text that says why it cannot be told now.
pub(super) fn batch_at(
    settings: &KafkaSettings,
    partition: i32,
    next: i64,
    high: i64,
) -> Result<Option<Batch>, String> {
    extent(|offset| look(settings, partition, offset), next, high)
}

/// Looks at `next`, and from there on farther and farther until it is behind the batch; then for the exact place.
fn extent(mut look: impl FnMut(i64) -> Result<Probe, String>, next: i64, high: i64) -> Result<Option<Batch>, String> {
    if next >= high {
        return Ok(None);
    }
    let Probe::Undecodable { base, why } = look(next)? else { return Ok(None) };
    // `last` is an offset of the batch, `end` is behind it.
    let (mut last, mut end, mut step) = (next, high, 1);
    while last + step < end {
        if is_of(base, &look(last + step)?) {
            (last, step) = (last + step, step * 2);
        } else {
            end = last + step;
        }
    }
    while end - last > 1 {
        let middle = last + (end - last) / 2;
        if is_of(base, &look(middle)?) { last = middle } else { end = middle }
    }
    Ok(Some(Batch { end, why }))
}

/// How many offsets are looked at one by one before the steps grow.
const ONE_BY_ONE_MAX: i64 = 1000;

/// Bytes of a packed batch up to which it is read in full to tell its size: it unpacks to a thousand times as much at most.
const PACKED_MAX: usize = 64 << 10;

/// The offset behind the batch at `next`, found without unpacking it; none where it is too small to kill by its size.
/// `high` is the partition's end. Batches are told from each other by their packed sizes, those behind the first thousand
/// offsets only by looking here and there, so that of very long ones next to each other several may count as one.
///
/// # Errors
/// A text that says why it cannot be told now.
pub(super) fn packed_end(
    settings: &KafkaSettings,
    partition: i32,
    next: i64,
    high: i64,
) -> Result<Option<i64>, String> {
    let mut last = next;
    let Some(size) = packed_size(settings, partition, next)? else { return Ok(None) };
    while last + 1 < high && last + 1 < next + ONE_BY_ONE_MAX {
        if packed_size(settings, partition, last + 1)? != Some(size) {
            return Ok(Some(last + 1));
        }
        last += 1;
    }
    let look = |offset| {
        let size = packed_size(settings, partition, offset)?;
        Ok(size.map_or(Probe::Readable, |base| Probe::Undecodable { base, why: String::new() }))
    };
    Ok(extent(look, last, high)?.map(|batch| batch.end))
}

/// The size of the answer that holds the batch at an offset, told by librdkafka as it refuses it; none where it is small.
fn packed_size(settings: &KafkaSettings, partition: i32, offset: i64) -> Result<Option<i64>, String> {
    let mut config = settings.tail_config().map_err(|error| error.to_string())?;
    let (most, answer) = (PACKED_MAX.to_string(), (PACKED_MAX + 512).to_string());
    config.set("message.max.bytes", &most).set("fetch.max.bytes", &most).set("receive.message.max.bytes", answer);
    match asked(config, settings, partition, offset, |words| number_after(words, "Invalid response size "))? {
        ProbeContext::Told(size, _) => Ok(Some(size)),
        ProbeContext::Readable => Ok(None),
    }
}

fn is_of(batch: i64, found: &Probe) -> bool {
    matches!(found, Probe::Undecodable { base, .. } if *base == batch)
}

/// Reads a partition from an offset on until it is known what is there.
fn look(settings: &KafkaSettings, partition: i32, offset: i64) -> Result<Probe, String> {
    let config = settings.tail_config().map_err(|error| error.to_string())?;
    Ok(match asked(config, settings, partition, offset, base_in)? {
        ProbeContext::Told(base, why) => Probe::Undecodable { base, why },
        ProbeContext::Readable => Probe::Readable,
    })
}

/// What a consumer of its own finds at an offset.
enum ProbeContext {
    /// A message, or the partition's end.
    Readable,
    /// What there is to tell in librdkafka's words, and these.
    Told(i64, String),
}

fn asked(
    mut config: ClientConfig,
    settings: &KafkaSettings,
    partition: i32,
    offset: i64,
    parse_statistics: impl Fn(&str) -> Option<i64>,
) -> Result<ProbeContext, String> {
    // One batch is enough.
    config.set("fetch.message.max.bytes", "1024");
    let consumer: BaseConsumer<LastWords> =
        config.create_with_context(LastWords::default()).map_err(|error| explain(&error))?;
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(&settings.topic, partition, Offset::Offset(offset)).map_err(|error| error.to_string())?;
    consumer.assign(&list).map_err(|error| error.to_string())?;
    let until = Instant::now() + LOOK_MAX;
    while Instant::now() < until {
        match consumer.poll(POLL) {
            Some(Ok(_) | Err(KafkaError::PartitionEOF(_))) => return Ok(ProbeContext::Readable),
            Some(Err(KafkaError::MessageConsumption(code))) if is_undecodable(code) => {
                let why = consumer.context().take();
                let told = parse_statistics(&why).ok_or_else(|| format!("librdkafka does not say which: {why}"))?;
                return Ok(ProbeContext::Told(told, why));
            }
            Some(Err(_)) | None => {}
        }
    }
    Err(format!("partition {partition} did not answer in {} s", LOOK_MAX.as_secs()))
}

/// The offset that librdkafka's words name: "… of message at 12 of 345 bytes failed", "MessageSet at offset 12 …".
fn base_in(words: &str) -> Option<i64> {
    number_after(words, " at offset ").or_else(|| number_after(words, " at "))
}

/// The number that follows some words.
fn number_after(words: &str, before: &str) -> Option<i64> {
    let (_, rest) = words.split_once(before)?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Keeps the words of the last error.
#[derive(Default)]
struct LastWords(Mutex<String>);

impl LastWords {
    fn take(&self) -> String {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ClientContext for LastWords {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, line: &str) {
        tracing::debug!(target: "librdkafka", "{facility} {line}");
    }

    fn error(&self, _: KafkaError, reason: &str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = reason.to_string();
    }
}

impl ConsumerContext for LastWords {}

#[cfg(test)]
mod tests {
    use super::*;

    /// A partition as the ends of its batches and whether each can be read; tells how many looks were needed.
    fn told(batches: &[(i64, bool)], next: i64) -> (Option<i64>, usize) {
        let mut n_looks = 0;
        let high = batches.last().map_or(0, |(end, _)| *end);
        let look = |offset: i64| {
            n_looks += 1;
            assert!((next..high).contains(&offset), "{offset} is asked for");
            let at = batches.iter().position(|(end, _)| offset < *end).expect("an offset of the partition");
            let base = if at == 0 { 0 } else { batches[at - 1].0 };
            Ok(if batches[at].1 { Probe::Readable } else { Probe::Undecodable { base, why: "w".into() } })
        };
        let found = extent(look, next, high).expect("an answer");
        (found.map(|batch| batch.end), n_looks)
    }

    #[test]
    fn a_batch_ends_where_the_next_one_begins() {
        for n in 1..40 {
            for behind in [&[][..], &[(1, true)], &[(1, false), (1, true)], &[(7, true)], &[(300, false)]] {
                for next in 0..n {
                    let mut batches = vec![(n, false)];
                    for (length, is_readable) in behind {
                        batches.push((batches[batches.len() - 1].0 + length, *is_readable));
                    }
                    assert_eq!(told(&batches, next).0, Some(n), "{batches:?} from {next}");
                }
            }
        }
        assert_eq!(told(&[(5, true), (9, false)], 2).0, None);
        assert_eq!(told(&[(5, true)], 5).0, None);
        let (end, n_looks) = told(&[(1000, false), (1_000_000, true)], 0);
        assert!(end == Some(1000) && n_looks < 25, "{n_looks} looks");
    }

    #[test]
    fn the_offset_is_in_librdkafkas_words() {
        let compressed =
            "Decompression (codec 0x4) of message at 12 of 345 bytes failed: Local: Invalid compressed data";
        assert_eq!(base_in(compressed), Some(12));
        assert_eq!(
            base_in("MessageSet at offset 7 (345 bytes) failed CRC32C check (original 0x1 != calculated 0x2)"),
            Some(7)
        );
        assert_eq!(base_in("Fetch from broker 1 failed"), None);
        let refused = "127.0.0.1:9092/1: Receive failed: Invalid response size 204800 (0..66048): increase receive.message.max.bytes";
        assert_eq!(number_after(refused, "Invalid response size "), Some(204_800));
    }
}
