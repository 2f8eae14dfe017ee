//! Events to a topic, acknowledged one by one.

use super::client::{N_LAST_WORDS, Trouble, partitions_of};
use super::settings::{KafkaSettings, SettingsError, explain};
use crate::ports::{Outgoing, Sink, SinkError};
use crate::wire::WIRE_VERSION;
use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::types::RDKafkaErrorCode;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The header that holds an event's sequence number, in decimal.
pub const SEQ_HEADER: &str = "lookalike-seq";

/// The header that holds the version of the event format ([`WIRE_VERSION`]), in decimal.
pub const VERSION_HEADER: &str = "lookalike-version";

/// How long to wait for acknowledgements before looking again.
const POLL: Duration = Duration::from_millis(100);

/// Events to a Kafka topic: key the URL, if there is one, value the event's JSON, headers [`SEQ_HEADER`] and
/// [`VERSION_HEADER`].
///
/// The topic may have any number of partitions. Kafka's order is that of a partition and events go where their key
/// sends them, so those of one URL are in order and those of two may not be; give the topic one partition, or sort by
/// `lookalike-seq`, where the whole order matters. A `merged` event has the key of the page that caused it.
///
/// Delivery is at least once: an event whose publication was cut short is published again, with the same sequence number
/// and the same bytes. A consumer can drop an event whose number it has seen; remembering only the highest is not enough,
/// because an event that failed may come again behind later ones that did not.
pub struct KafkaSink {
    producer: BaseProducer<Deliveries>,
    topic: String,
    delivery_max: Duration,
    round: usize,
}

impl KafkaSink {
    /// Starts a producer and finds the topic.
    ///
    /// # Errors
    /// [`SinkError`] where the settings are wrong, no broker answers or the topic is missing.
    pub fn open(settings: &KafkaSettings) -> Result<Self, SinkError> {
        settings.check().map_err(|error| SinkError(error.to_string()))?;
        if settings.events_topic.is_empty() {
            return Err(SinkError(SettingsError::Empty("events_topic").to_string()));
        }
        let producer: BaseProducer<Deliveries> = settings
            .producer_config()
            .create_with_context(Deliveries::default())
            .map_err(|error| SinkError(format!("Kafka's client does not start: {}", explain(&error))))?;
        let topic = settings.events_topic.clone();
        partitions_of(producer.client(), &topic, settings.connect_max()).map_err(|error| {
            (0..N_LAST_WORDS).for_each(|_| producer.poll(Duration::ZERO));
            SinkError(error.explain(&topic, "events_topic", &settings.brokers, &producer.context().trouble))
        })?;
        Ok(KafkaSink { producer, topic, delivery_max: settings.delivery_max(), round: 0 })
    }

    fn send(&self, event: &Outgoing) -> Result<(), KafkaError> {
        let (seq, version) = (event.seq.to_string(), WIRE_VERSION.to_string());
        let headers = OwnedHeaders::new_with_capacity(2)
            .insert(Header { key: SEQ_HEADER, value: Some(&seq) })
            .insert(Header { key: VERSION_HEADER, value: Some(&version) });
        let record: BaseRecord<'_, str, [u8], usize> =
            BaseRecord::with_opaque_to(&self.topic, self.round).payload(&event.json[..]).headers(headers);
        let mut record = match &event.key {
            Some(key) => record.key(key),
            None => record,
        };
        loop {
            match self.producer.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), refused)) => {
                    self.producer.poll(POLL);
                    record = refused;
                }
                Err((error, _)) => return Err(error),
            }
        }
    }

    /// Waits until every one of this round's events is accounted for.
    fn await_deliveries(&self, n_sent: usize) -> Result<(), SinkError> {
        // librdkafka gives up by itself after `delivery_ms_max`; twice that is for a librdkafka that does not.
        let until = Instant::now() + self.delivery_max * 2;
        while self.producer.context().n_done() < n_sent {
            if Instant::now() >= until {
                return Err(self.failed("deliveries are neither confirmed nor refused"));
            }
            self.producer.poll(POLL);
        }
        match self.producer.context().failure() {
            Some(failure) => Err(self.failed(&failure)),
            None => Ok(()),
        }
    }

    fn failed(&self, why: &str) -> SinkError {
        let fatal = self.producer.client().fatal_error();
        let why = fatal.map_or_else(|| why.to_string(), |(code, reason)| format!("{why}; {code}: {reason}"));
        let told = self.producer.context().trouble.told();
        SinkError(format!(
            "events were not delivered to topic {:?}: {why}{told}; check the brokers and start again: nothing is lost",
            self.topic
        ))
    }
}

impl Sink for KafkaSink {
    /// Nothing: what is out there is not read back yet, which is why delivery is at least once.
    fn last_seq(&mut self) -> Result<Option<u64>, SinkError> {
        Ok(None)
    }

    fn publish(&mut self, events: &[Outgoing]) -> Result<(), SinkError> {
        self.round = self.round.wrapping_add(1);
        self.producer.context().begin(self.round);
        let mut n_sent = 0;
        let mut refused = None;
        for event in events {
            match self.send(event) {
                Ok(()) => n_sent += 1,
                Err(error) => {
                    refused = Some(format!("event {}: {error}", event.seq));
                    break;
                }
            }
        }
        // Whatever was sent is waited for, so that none of it is still on its way when the caller tries again.
        self.await_deliveries(n_sent)?;
        refused.map_or(Ok(()), |why| Err(self.failed(&why)))
    }
}

/// Counts the deliveries of one round of publishing.
#[derive(Default)]
struct Deliveries {
    trouble: Trouble,
    tally: Mutex<Tally>,
}

#[derive(Default)]
struct Tally {
    round: usize,
    n_done: usize,
    failure: Option<String>,
}

impl Deliveries {
    fn begin(&self, round: usize) {
        *self.tally.lock().unwrap_or_else(PoisonError::into_inner) = Tally { round, ..Tally::default() };
    }

    fn n_done(&self) -> usize {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).n_done
    }

    fn failure(&self) -> Option<String> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).failure.clone()
    }
}

impl ClientContext for Deliveries {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        self.trouble.hear(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.trouble.hear_error(&error, reason);
    }
}

impl ProducerContext for Deliveries {
    /// The round that an event was sent in; what a given-up round still brings in is not counted for the next.
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, round: usize) {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        if tally.round != round {
            return;
        }
        tally.n_done += 1;
        if let Err((error, _)) = result {
            tally.failure.get_or_insert_with(|| error.to_string());
        }
    }
}
