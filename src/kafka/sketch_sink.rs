//! Sends sketched records to the owner of the store, each to the partition of its page.

use super::client::{LastError, is_too_large};
use super::settings::{KafkaSettings, SettingsError, explain};
use super::sketches_topic::common_partitions;
use crate::ports::{Acknowledged, Progress, SinkError, SketchSink, StopReason};
use crate::wire::Origin;
use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::types::RDKafkaErrorCode;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long to wait for room in the queue before looking for failures.
const ROOM_WAIT: Duration = Duration::from_millis(100);

/// A message of more bytes that has a smaller form goes alone: what follows waits for the brokers' answer, because it
/// must not overtake the smaller form. librdkafka puts nothing into a batch beside so large a message (`batch.size`), and
/// by default no topic takes less.
const ALONE_BYTES: usize = 1_000_000;

/// The pause between two polls for acknowledgements of a message that goes alone.
const IDLE_PAUSE: Duration = Duration::from_millis(1);

/// Sends sketches to [`KafkaSettings::sketches_topic`]. The producer is idempotent: within a partition no message is lost
/// before a later one, and none is doubled by a retry. Nothing is in a transaction: the owner drops what it has.
pub struct KafkaSketchSink {
    settings: KafkaSettings,
    producer: BaseProducer<Deliveries>,
}

impl KafkaSketchSink {
    /// Checks the topic.
    ///
    /// # Errors
    /// [`SinkError`] if the settings are wrong, no broker answers, or the topic is missing or has other partitions than
    /// the topic of pages.
    pub fn open(settings: &KafkaSettings) -> Result<Self, SinkError> {
        settings.check().map_err(|error| SinkError::new(error.to_string()))?;
        if settings.sketches_topic.is_empty() {
            return Err(SinkError::new(SettingsError::Empty("sketches_topic").to_string()));
        }
        let mut config = settings.idempotent_config().map_err(|error| SinkError::new(error.to_string()))?;
        config.set("queue.buffering.max.kbytes", (settings.queue_bytes_max >> 10).to_string());
        let producer: BaseProducer<Deliveries> =
            config.create_with_context(Deliveries::default()).map_err(|error| {
                SinkError::new(format!("cannot start the Kafka client: {}; check kafka.properties", explain(&error)))
            })?;
        common_partitions(producer.client(), settings).map_err(|error| {
            let last_error = &producer.context().last_error;
            SinkError { stop_reason: error.stop_reason(last_error), message: error.explain(settings, last_error) }
        })?;
        Ok(KafkaSketchSink { settings: settings.clone(), producer })
    }

    fn delivery_error(&self, origin: &Origin, n_bytes: usize, code: RDKafkaErrorCode) -> SinkError {
        let topic = &self.settings.sketches_topic;
        let suffix = self.producer.context().last_error.message_suffix();
        let (stop_reason, advice) = match code {
            RDKafkaErrorCode::MessageSizeTooLarge => (
                StopReason::Failed,
                "raise its max.message.bytes, or lower limits.words_max, limits.text_bytes_max or the size of a sketch; ".to_string(),
            ),
            RDKafkaErrorCode::MessageTimedOut => (StopReason::Unreachable, "check the brokers; ".to_string()),
            _ => (StopReason::Failed, "check the brokers and the topic; ".to_string()),
        };
        SinkError {
            stop_reason,
            message: format!(
                "the sketch of {origin} ({n_bytes} bytes) was not delivered to topic {topic:?}: {code}{suffix}; {advice}\
                 start again: what was not acknowledged is read again"
            ),
        }
    }

    /// Puts a message into the queue; waits for room there.
    fn enqueue(&self, message: &[u8], sent: Sent) -> Result<(), SinkError> {
        let partition = sent.origin.partition;
        let mut record: BaseRecord<'_, (), [u8], Box<Sent>> =
            BaseRecord::with_opaque_to(&self.settings.sketches_topic, Box::new(sent))
                .partition(partition)
                .payload(message);
        while let Err((error, refused)) = self.producer.send(record) {
            if error != KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull) {
                let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail);
                self.producer.context().state().fail(*refused.delivery_opaque, code);
                break;
            }
            self.producer.poll(ROOM_WAIT);
            self.check_failure()?;
            record = refused;
        }
        self.check_failure()
    }

    /// Waits until every message is acknowledged or refused. librdkafka gives up on each in time.
    fn settle(&self) -> Result<(), SinkError> {
        while self.producer.in_flight_count() > 0 {
            self.producer.poll(Duration::ZERO);
            self.check_failure()?;
            std::thread::sleep(IDLE_PAUSE);
        }
        self.check_failure()
    }

    fn check_failure(&self) -> Result<(), SinkError> {
        let failure = self.producer.context().state().failure.clone();
        failure.map_or(Ok(()), |(sent, code)| Err(self.delivery_error(&sent.origin, sent.n_bytes, code)))
    }
}

impl SketchSink for KafkaSketchSink {
    fn send(&mut self, origin: &Origin, next: i64, forms: &mut dyn Iterator<Item = Vec<u8>>) -> Result<(), SinkError> {
        let mut forms = forms.peekable();
        while let Some(message) = forms.next() {
            let is_alone = message.len() > ALONE_BYTES && forms.peek().is_some();
            let sent = Sent { origin: origin.clone(), next, n_bytes: message.len(), is_alone };
            if is_alone {
                self.settle()?;
            }
            self.enqueue(&message, sent)?;
            if is_alone {
                self.settle()?;
            }
            if !std::mem::take(&mut self.producer.context().state().is_refused) {
                break;
            }
            tracing::warn!("the message of {origin} has {} bytes, too many for the topic; sending less", message.len());
        }
        Ok(())
    }

    fn acknowledged(&mut self, wait: Duration) -> Result<Acknowledged, SinkError> {
        let n_records = || self.producer.context().state().acknowledged.n_records;
        let mut n_before = 0;
        self.producer.poll(wait);
        // A poll that does not wait takes the acknowledgements of one batch. Others may be there.
        while n_records() > n_before {
            n_before = n_records();
            self.producer.poll(Duration::ZERO);
        }
        self.check_failure()?;
        Ok(std::mem::take(&mut self.producer.context().state().acknowledged))
    }
}

/// A message on its way.
#[derive(Clone, Debug)]
struct Sent {
    origin: Origin,
    next: i64,
    n_bytes: usize,
    /// Whether nothing else is under way, and a smaller form can be sent where this one is refused.
    is_alone: bool,
}

/// What became of the messages.
#[derive(Default)]
struct Deliveries {
    last_error: LastError,
    state: Mutex<DeliveryState>,
}

#[derive(Default)]
struct DeliveryState {
    acknowledged: Acknowledged,
    /// The first message that could not be delivered. What comes after it in its partition does not count.
    failure: Option<(Sent, RDKafkaErrorCode)>,
    /// Whether the last message that went alone was refused as too large.
    is_refused: bool,
}

impl DeliveryState {
    fn fail(&mut self, sent: Sent, code: RDKafkaErrorCode) {
        if sent.is_alone && is_too_large(code) {
            self.is_refused = true;
        } else {
            self.failure.get_or_insert((sent, code));
        }
    }
}

impl Deliveries {
    fn state(&self) -> MutexGuard<'_, DeliveryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientContext for Deliveries {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        self.last_error.record_log(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.last_error.record_error(&error, reason);
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = Box<Sent>;

    fn delivery(&self, result: &DeliveryResult<'_>, sent: Box<Sent>) {
        let mut state = self.state();
        match result {
            Ok(_) if state.failure.is_none() => {
                state.acknowledged.n_records += 1;
                let Sent { origin, next, .. } = *sent;
                let progress = Progress { next_offset: next, chain: 0 };
                state.acknowledged.progress.insert((origin.source.to_string(), origin.partition), progress);
            }
            Ok(_) => {}
            Err((error, _)) => {
                state.fail(*sent, error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdkafka::mocking::MockCluster;

    /// Lost once: two thirds of a sketcher's pace, after a minute of pages that came in small batches. Each look took the
    /// acknowledgements of one batch, and more came than were taken, until all records that may be in flight waited for theirs.
    #[test]
    fn one_look_takes_all_acknowledgements_that_are_there() {
        const PARTITIONS: i32 = 4;
        let cluster = MockCluster::new(1).expect("a mock cluster");
        let settings = KafkaSettings { brokers: cluster.bootstrap_servers(), ..KafkaSettings::default() };
        for topic in [&settings.topic, &settings.sketches_topic] {
            cluster.create_topic(topic, PARTITIONS, 1).expect("a topic");
        }
        let mut sink = KafkaSketchSink::open(&settings).expect("opened");
        for partition in 0..PARTITIONS {
            let origin = Origin { source: settings.topic.as_str().into(), partition, offset: 0 };
            sink.send(&origin, 1, &mut std::iter::once(vec![0; 100])).expect("queued");
        }
        // Nothing but a look tells whether they are there.
        std::thread::sleep(Duration::from_secs(2));
        let Acknowledged { n_records, progress } = sink.acknowledged(Duration::ZERO).expect("no failure");
        assert_eq!((n_records, progress.len()), (4, 4));
    }
}
