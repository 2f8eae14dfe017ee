//! What a process does to an output that another one writes to: looks at it, compares with it, takes it away.

use super::event_reader::KafkaEventReader;
use super::output_tail::{TailError, TailReader};
use super::routing::OutputTopics;
use super::settings::KafkaSettings;
use super::sink::create_producer;
use crate::ports::{EventReader, Outgoing, SinkError, SourceError, StopReason};
use crate::wire::Message;
use rdkafka::message::Headers;
use rdkafka::producer::Producer;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// How long one poll for events may take.
const POLL: Duration = Duration::from_millis(100);

/// The last event of a topic of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastEvent {
    /// Its number.
    pub seq: u64,
    /// The id of the store that published it.
    pub store: String,
}

/// Looks for the last event of the topic of events; none where it is empty.
///
/// # Errors
/// [`SinkError`] if the topic is missing or cannot be read.
pub fn last_event(settings: &KafkaSettings) -> Result<Option<LastEvent>, SinkError> {
    settings.check().map_err(|error| SinkError::new(error.to_string()))?;
    let topic = &settings.events_topic;
    let reader = TailReader::new(settings).map_err(TailError::Unread);
    let found = reader.and_then(|reader| reader.tail_of(topic)).map_err(|error| match error {
        TailError::Topic(error) => {
            let last_error = super::client::LastError::default();
            SinkError {
                stop_reason: error.stop_reason(&last_error),
                message: error.explain(topic, "events_topic", &settings.brokers, &last_error),
            }
        }
        TailError::Unread(why) => SinkError {
            stop_reason: StopReason::Unreachable,
            message: format!("cannot read the end of topic {topic:?}: {why}"),
        },
    })?;
    Ok(found.map(|tail| LastEvent { seq: tail.seq, store: tail.store }))
}

/// Takes the output away from whoever publishes the events of a store: the brokers abort its open transaction, and it can
/// commit no other. Its last event is then the last one.
///
/// # Errors
/// [`SinkError`] if the brokers do not answer, or `shutdown` is set.
pub fn fence(settings: &KafkaSettings, store: &str, shutdown: &AtomicBool) -> Result<(), SinkError> {
    let producer = create_producer(settings, store)?;
    let until = Instant::now() + settings.delivery_max();
    loop {
        let Err(error) = producer.init_transactions(settings.connect_max()) else { return Ok(()) };
        if Instant::now() >= until || shutdown.load(Ordering::Relaxed) {
            return Err(SinkError {
                stop_reason: StopReason::Unreachable,
                message: format!("cannot take over the output: {error}; check the brokers and start again"),
            });
        }
        std::thread::sleep(PAUSE);
    }
}

/// How the message of an event of a store looks in the topic of events.
pub fn event_messages(settings: &KafkaSettings, store: &str) -> impl Fn(&Outgoing) -> Message + Send + use<> {
    let outputs = OutputTopics::new(settings, store);
    move |event| {
        let sent = outputs.event_message(event);
        let header =
            |header: rdkafka::message::Header<'_, &[u8]>| (header.key.to_string(), header.value.map(<[u8]>::to_vec));
        Message {
            key: sent.key,
            value: sent.value,
            headers: sent.headers.iter().map(header).collect(),
            ..Message::default()
        }
    }
}

/// Compares events that a store is about to pass over as published with what the topic holds. `events` come in order;
/// those that the topic lacks do not count. `difference` compares two messages.
///
/// # Errors
/// [`SinkError`], [`StopReason::Diverged`] where one differs: another process took over from a copy of this store, and
/// decided otherwise.
pub fn check_published(
    settings: &KafkaSettings,
    store: &str,
    events: &[Outgoing],
    difference: impl Fn(&Message, &Message) -> Option<String>,
) -> Result<(), SinkError> {
    // Nearly always there is none, and nothing to ask the brokers for.
    let Some(first) = events.first() else { return Ok(()) };
    let Some(last) = last_event(settings)? else { return Ok(()) };
    if last.seq < first.seq || last.store != store {
        return Ok(());
    }
    let unread = |error: SourceError| SinkError { stop_reason: error.stop_reason, message: error.message };
    let mut reader = KafkaEventReader::open(settings, first.seq).map_err(unread)?;
    let expected = event_messages(settings, store);
    while !reader.is_at_end() {
        let Some(published) = reader.poll(POLL).map_err(unread)? else { continue };
        let Ok(at) = events.binary_search_by_key(&published.seq, |event| event.seq) else { continue };
        if let Some(why) = difference(&expected(&events[at]), &published.message) {
            return Err(SinkError {
                stop_reason: StopReason::Diverged,
                message: format!(
                    "this store has other events than topic {:?}: event {} (in {}): {why}. Another process took over from a \
                     copy of this store and went on otherwise, before this one could publish. Do not use this store: \
                     restore a backup, and `lookalike follow --once` brings it up to date",
                    settings.events_topic, published.seq, published.place
                ),
            });
        }
    }
    Ok(())
}
