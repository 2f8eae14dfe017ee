//! Batches that librdkafka cannot decode: which partition holds one, and where it ends.
//!
//! librdkafka stops at such a batch for ever or, if its checksum is wrong, skips it. In both cases its error names no
//! partition. So a separate consumer probes every partition at the position of the stream. The text of the error
//! names the batch's first offset, which is the same from every offset within the batch and differs behind it. A
//! search for that change finds the end.

use super::settings::{KafkaSettings, explain};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientConfig, ClientContext, Offset, TopicPartitionList};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time limit of one probe: librdkafka decodes a batch before it reports that the batch does not fit.
const PROBE_MAX: Duration = Duration::from_secs(10);

/// How long to wait for a message before checking the clock.
const POLL: Duration = Duration::from_millis(100);

/// What a probe finds at an offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Probe {
    /// A message, or the partition's end.
    Readable,
    /// A batch that cannot be decoded.
    Undecodable {
        /// The batch's first offset; in `packed_end`, its size, which identifies it just as well.
        base: i64,
        /// librdkafka's description of the fault.
        why: String,
    },
}

/// A batch that cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    /// One past the batch's last offset.
    pub end: i64,
    /// librdkafka's description of the fault.
    pub why: String,
}

/// Whether an error code means that a batch cannot be decoded.
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

/// The batch at `next` if it cannot be decoded; `high` is the partition's end.
///
/// # Errors
/// A text that says why the answer is unknown for now.
pub(super) fn batch_at(
    settings: &KafkaSettings,
    partition: i32,
    next: i64,
    high: i64,
) -> Result<Option<Batch>, String> {
    find_end(|offset| probe(settings, partition, offset), next, high)
}

/// Probes at `next`, then in growing steps until a probe lands behind the batch, then bisects to the exact end.
fn find_end(
    mut probe: impl FnMut(i64) -> Result<Probe, String>,
    next: i64,
    high: i64,
) -> Result<Option<Batch>, String> {
    if next >= high {
        return Ok(None);
    }
    let Probe::Undecodable { base, why } = probe(next)? else { return Ok(None) };
    // `last` is inside the batch, `end` behind it.
    let (mut last, mut end, mut step) = (next, high, 1);
    while last + step < end {
        if is_same_batch(base, &probe(last + step)?) {
            (last, step) = (last + step, step * 2);
        } else {
            end = last + step;
        }
    }
    while end - last > 1 {
        let middle = last + (end - last) / 2;
        if is_same_batch(base, &probe(middle)?) { last = middle } else { end = middle }
    }
    Ok(Some(Batch { end, why }))
}

/// The number of offsets that are probed one by one before the steps grow.
const ONE_BY_ONE_MAX: i64 = 1000;

/// Compressed batches up to this many bytes are harmless: they decompress to a thousand times as much at most.
const PACKED_MAX: usize = 64 << 10;

/// The offset behind the batch at `next`, found without decompressing it; `None` if the batch is too small to exhaust
/// memory. `high` is the partition's end.
///
/// The compressed size distinguishes one batch from the next. Behind the first thousand offsets only samples are
/// probed, so adjacent, very long batches may count as one.
///
/// # Errors
/// A text that says why the answer is unknown for now.
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
    let probe = |offset| {
        let size = packed_size(settings, partition, offset)?;
        Ok(size.map_or(Probe::Readable, |base| Probe::Undecodable { base, why: String::new() }))
    };
    Ok(find_end(probe, last, high)?.map(|batch| batch.end))
}

/// The size of the response that holds the batch at an offset; `None` if it is small. librdkafka names the size as it
/// rejects the response.
fn packed_size(settings: &KafkaSettings, partition: i32, offset: i64) -> Result<Option<i64>, String> {
    let mut config = settings.tail_config().map_err(|error| error.to_string())?;
    let (batch_max, response_max) = (PACKED_MAX.to_string(), (PACKED_MAX + 512).to_string());
    config
        .set("message.max.bytes", &batch_max)
        .set("fetch.max.bytes", &batch_max)
        .set("receive.message.max.bytes", response_max);
    match run_probe(config, settings, partition, offset, |text| number_after(text, "Invalid response size "))? {
        Answer::Number(size, _) => Ok(Some(size)),
        Answer::Readable => Ok(None),
    }
}

fn is_same_batch(batch: i64, found: &Probe) -> bool {
    matches!(found, Probe::Undecodable { base, .. } if *base == batch)
}

/// Probes one offset.
fn probe(settings: &KafkaSettings, partition: i32, offset: i64) -> Result<Probe, String> {
    let config = settings.tail_config().map_err(|error| error.to_string())?;
    Ok(match run_probe(config, settings, partition, offset, base_in)? {
        Answer::Number(base, why) => Probe::Undecodable { base, why },
        Answer::Readable => Probe::Readable,
    })
}

/// The outcome of a probe, with the number sought.
enum Answer {
    /// A message, or the partition's end.
    Readable,
    /// The number parsed from librdkafka's error text, and the text.
    Number(i64, String),
}

fn run_probe(
    mut config: ClientConfig,
    settings: &KafkaSettings,
    partition: i32,
    offset: i64,
    parse_number: impl Fn(&str) -> Option<i64>,
) -> Result<Answer, String> {
    // A small limit makes the broker return one batch.
    config.set("fetch.message.max.bytes", "1024");
    let consumer: BaseConsumer<LastErrorText> =
        config.create_with_context(LastErrorText::default()).map_err(|error| explain(&error))?;
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(&settings.topic, partition, Offset::Offset(offset)).map_err(|error| error.to_string())?;
    consumer.assign(&list).map_err(|error| error.to_string())?;
    let until = Instant::now() + PROBE_MAX;
    while Instant::now() < until {
        match consumer.poll(POLL) {
            Some(Ok(_) | Err(KafkaError::PartitionEOF(_))) => return Ok(Answer::Readable),
            Some(Err(KafkaError::MessageConsumption(code))) if is_undecodable(code) => {
                let why = consumer.context().take();
                let number = parse_number(&why).ok_or_else(|| format!("librdkafka's error names no number: {why}"))?;
                return Ok(Answer::Number(number, why));
            }
            Some(Err(_)) | None => {}
        }
    }
    Err(format!("partition {partition} did not respond within {} s", PROBE_MAX.as_secs()))
}

/// The offset that an error text names: "… of message at 12 of 345 bytes failed", "MessageSet at offset 12 …".
fn base_in(text: &str) -> Option<i64> {
    number_after(text, " at offset ").or_else(|| number_after(text, " at "))
}

/// The number that follows `before` in `text`.
fn number_after(text: &str, before: &str) -> Option<i64> {
    let (_, rest) = text.split_once(before)?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Keeps the text of the last error.
#[derive(Default)]
struct LastErrorText(Mutex<String>);

impl LastErrorText {
    fn take(&self) -> String {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl ClientContext for LastErrorText {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, line: &str) {
        tracing::debug!(target: "librdkafka", "{facility} {line}");
    }

    fn error(&self, _: KafkaError, reason: &str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = reason.to_string();
    }
}

impl ConsumerContext for LastErrorText {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches a partition given as the ends of its batches and whether each is readable; also returns the number of
    /// probes.
    fn search(batches: &[(i64, bool)], next: i64) -> (Option<i64>, usize) {
        let mut n_probes = 0;
        let high = batches.last().map_or(0, |(end, _)| *end);
        let probe = |offset: i64| {
            n_probes += 1;
            assert!((next..high).contains(&offset), "{offset} is probed");
            let at = batches.iter().position(|(end, _)| offset < *end).expect("an offset of the partition");
            let base = if at == 0 { 0 } else { batches[at - 1].0 };
            Ok(if batches[at].1 { Probe::Readable } else { Probe::Undecodable { base, why: "w".into() } })
        };
        let found = find_end(probe, next, high).expect("an answer");
        (found.map(|batch| batch.end), n_probes)
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
                    assert_eq!(search(&batches, next).0, Some(n), "{batches:?} from {next}");
                }
            }
        }
        assert_eq!(search(&[(5, true), (9, false)], 2).0, None);
        assert_eq!(search(&[(5, true)], 5).0, None);
        let (end, n_probes) = search(&[(1000, false), (1_000_000, true)], 0);
        assert!(end == Some(1000) && n_probes < 25, "{n_probes} probes");
    }

    #[test]
    fn the_offset_is_parsed_from_the_error_text() {
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
