//! Events to Kafka, each exactly once: one transaction for a batch, and a look at the end of the output whenever it is
//! not certain what is there.

use super::client::{LastError, N_FINAL_POLLS, TopicError};
use super::output_state::{self, OutputTopicState, StorePosition};
use super::output_tail::{Tail, TailError, tail_of};
use super::routing::{OutputMessage, OutputTopics};
use super::settings::{KafkaSettings, SettingsError, explain};
use super::statistics::parse_statistics;
use crate::cluster::Merge;
use crate::ports::{Outgoing, OutputNotes, Present, Reading, Sink, SinkError, StopReason};
use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::types::RDKafkaErrorCode;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The header that holds an event's sequence number, in decimal.
pub const SEQ_HEADER: &str = "lookalike-seq";

/// The header that holds the id of the store that the event came from. It and the sequence number are the event's id.
pub const STORE_HEADER: &str = "lookalike-store";

/// The header that holds the version of the event format ([`crate::wire::WIRE_VERSION`]), in decimal.
pub const VERSION_HEADER: &str = "lookalike-version";

/// What to do where the topics are not this store's.
const NEW_TOPICS: &str = "name new topics in kafka.events_topic, kafka.assignments_topic and kafka.merges_topic, make them \
                          by `lookalike topics create`, give them the present state by `lookalike topics republish`";

/// How long to wait for acknowledgements before looking again; every transaction waits for them.
const MOMENT: Duration = Duration::from_millis(1);

/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(500);

/// How long a transaction's end may be waited for; after that nobody knows how it ended.
const COMMIT_MAX: Duration = Duration::from_secs(30);

/// How long one try to end a transaction that went wrong may take; librdkafka goes on with it behind our back, but for
/// deliveries, which are heard of between two tries.
const ABORT_MAX: Duration = Duration::from_millis(200);

/// How long brokers that do not answer are waited for once the program was told to end.
const DRAIN_MAX: Duration = Duration::from_secs(5);

/// Events to Kafka topics: all of them to one, and what they change in the present state to two compacted ones; see
/// [`super`]. Key of an event: the URL that it is about, if there is one; value: its JSON; headers [`SEQ_HEADER`],
/// [`STORE_HEADER`] and [`VERSION_HEADER`].
///
/// A topic may have any number of partitions. Kafka's order is that of a partition and events go where their key sends
/// them, so those of one URL are in order and those of two may not be; give the topic one partition, or sort by
/// `lookalike-seq`, where the whole order matters. In each partition the numbers only ever rise.
///
/// Who reads committed transactions sees each event once. The transactional id is made of the store's id: whoever opens
/// the same store, or a copy of it, takes over, and the older one is fenced and stops. After anything but a clear yes a
/// new epoch is taken, which ends whatever was under way, and the end of the output tells what is to be sent again.
pub struct KafkaSink {
    settings: KafkaSettings,
    outputs: OutputTopics,
    store: String,
    producer: BaseProducer<Deliveries>,
    round: usize,
    /// The last event that is certainly out.
    tail: Option<u64>,
    /// The last one that the store knows to be out, where the topic of events holds none.
    forgotten: Option<u64>,
    /// The topics, as they were found when it was opened.
    found: Vec<OutputTopicState>,
    /// What the store knew of them.
    known: OutputNotes,
    standpoint: StorePosition,
    /// Events whose original is too large for the dead letter topic.
    without_value: HashSet<u64>,
    /// When the process began: the store is its own since then.
    begun: SystemTime,
    shutdown: Arc<AtomicBool>,
}

/// The store whose events go out.
#[derive(Clone, Debug)]
pub struct Publishing<'a> {
    /// Its id.
    pub store: &'a str,
    /// The number of its next event.
    pub next_seq: u64,
    /// Events below this number are out, and no longer in the store.
    pub published: u64,
    /// Whether it knows of any page.
    pub has_pages: bool,
    /// Whether a cluster may have lost its name.
    pub has_merged: bool,
    /// What it remembers of the topics that it publishes to.
    pub outputs: OutputNotes,
    /// A moment since which nobody else has written to it.
    pub begun: SystemTime,
}

/// A part of the present state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// What stands at a URL.
    Stands(String, Present),
    /// A cluster that is part of another one.
    Merged(Merge),
}

/// The last events that are out.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    /// In all topics that tell.
    last: Option<u64>,
    /// In the topic of events alone.
    of_events: Option<u64>,
}

/// Why a batch was not published.
enum Failure {
    /// Somebody else has taken over.
    Fenced(String),
    /// A second try would end as this one did.
    Refused(String),
    /// It may be out or not.
    Unsure(String),
}

impl KafkaSink {
    /// Finds the topics, makes sure that the output belongs to this store and is not ahead of it, and takes it over. When
    /// `shutdown` is set, brokers that do not answer are no longer waited for.
    ///
    /// # Errors
    /// [`SinkError`] where the settings are wrong, no broker answers, a topic is missing or has other partitions than the
    /// store knows, or the output is another store's, ahead of this one ([`StopReason::OldStore`]), or has become so since the
    /// process began ([`StopReason::Fenced`]). Then nobody has been fenced.
    pub fn open(
        settings: &KafkaSettings,
        publishing: &Publishing<'_>,
        shutdown: Arc<AtomicBool>,
    ) -> Result<Self, SinkError> {
        settings.check().map_err(|error| SinkError::new(error.to_string()))?;
        if settings.events_topic.is_empty() {
            return Err(SinkError::new(SettingsError::Empty("events_topic").to_string()));
        }
        let &Publishing { store, next_seq, published, has_pages, has_merged, begun, ref outputs } = publishing;
        let mut sink = KafkaSink {
            settings: settings.clone(),
            outputs: OutputTopics::new(settings, store),
            store: store.to_string(),
            producer: producer_of(settings, store)?,
            round: 0,
            tail: None,
            forgotten: None,
            found: Vec::new(),
            known: outputs.clone(),
            standpoint: StorePosition { kept_from: published, has_pages, has_merged, ..StorePosition::default() },
            without_value: HashSet::new(),
            begun,
            shutdown,
        };
        sink.found = sink.find_topics()?;
        if let Some(why) = output_state::moved_keys(&sink.found, &sink.known) {
            return Err(SinkError::new(why));
        }
        sink.take_over(Instant::now() + settings.delivery_max(), || sink.check_tail(next_seq))?;
        // Whoever was fenced may have published something in the meantime.
        sink.place(sink.check_tail(next_seq)?);
        Ok(sink)
    }

    /// Notes where the output ends. Where the events themselves are gone, what else tells of them may end before the last.
    fn place(&mut self, ends: Ends) {
        let published = self.standpoint.kept_from;
        self.tail = ends.last;
        self.forgotten = published.checked_sub(1).filter(|_| ends.of_events.is_none());
        self.standpoint.next_unpublished = self.tail.max(self.forgotten).map_or(0, |last| last + 1);
        self.standpoint.end_of_events = ends.of_events.map_or(0, |last| last + 1);
    }

    /// Makes sure that the topic of events has all that others tell of, as far as the store still has it.
    ///
    /// # Errors
    /// [`SinkError`], with the number from which on they are to be republished.
    pub fn check_events(&self) -> Result<(), SinkError> {
        let lost = output_state::lost_events(&self.settings.events_topic, self.standpoint);
        lost.map_or(Ok(()), |why| Err(SinkError::new(why)))
    }

    /// What the store is to remember of the topics.
    pub fn notes(&self) -> OutputNotes {
        output_state::notes(&self.found, &self.known, self.standpoint)
    }

    /// What somebody should know of the topics: that some of the state is missing, or that keys moved.
    pub fn warnings(&self) -> Vec<String> {
        output_state::warnings(&self.found, &self.known, &self.notes(), self.standpoint)
    }

    fn find_topics(&self) -> Result<Vec<OutputTopicState>, SinkError> {
        let within = self.settings.connect_max();
        let look = |(topic, field)| {
            OutputTopicState::fetch(self.producer.client(), topic, field, within)
                .map_err(|error| self.topic_lost(topic, field, &error))
        };
        self.outputs.topics().map(look).collect()
    }

    fn topic_lost(&self, topic: &str, field: &str, error: &TopicError) -> SinkError {
        (0..N_FINAL_POLLS).for_each(|_| self.producer.poll(Duration::ZERO));
        let last_error = &self.producer.context().last_error;
        SinkError {
            stop_reason: error.stop_reason(last_error),
            message: error.explain(topic, field, &self.settings.brokers, last_error),
        }
    }

    /// The last event that is out; refuses an output that is not this store's past.
    fn check_tail(&self, next_seq: u64) -> Result<Ends, SinkError> {
        let (last, of_events) = self.read_tail()?;
        let Some(Tail { seq, store, time_ms }) = last else { return Ok(Ends::default()) };
        let topic = &self.settings.events_topic;
        if store != self.store {
            return Err(SinkError {
                stop_reason: StopReason::OldStore,
                message: format!(
                    "topic {topic:?} holds events of another store ({store}; this one is {}): give the store that wrote \
                     them, or {NEW_TOPICS}",
                    self.store
                ),
            });
        }
        if seq >= next_seq {
            let begun_ms = self.begun.duration_since(UNIX_EPOCH).map_or(0, |begun| begun.as_millis());
            if time_ms.is_some_and(|time| u128::try_from(time).is_ok_and(|time| time > begun_ms)) {
                return Err(self.fenced(&format!("event {seq} went out since this one began, and is not in its store")));
            }
            return Err(SinkError {
                stop_reason: StopReason::OldStore,
                message: format!(
                    "topic {topic:?} holds events up to {seq}, the store only knows those before {next_seq}: it is an \
                     older copy. Give the newest store. If that is lost, replay: {NEW_TOPICS} and start with this store; \
                     what it lacks is taken in again from the input and published there"
                ),
            });
        }
        Ok(Ends { last: Some(seq), of_events: of_events.map(|tail| tail.seq) })
    }

    /// The last event in any topic that tells, and the last one in that of events.
    fn read_tail(&self) -> Result<(Option<Tail>, Option<Tail>), SinkError> {
        let (mut last, mut of_events) = (None, None);
        for (topic, field) in self.outputs.tail_topics() {
            let tail = tail_of(&self.settings, topic, self.settings.connect_max()).map_err(|error| match error {
                TailError::Topic(error) => self.topic_lost(topic, field, &error),
                TailError::Unread(why) => SinkError {
                    stop_reason: StopReason::Unreachable,
                    message: format!("the end of the output cannot be read: {why}"),
                },
            })?;
            if topic == self.settings.events_topic {
                of_events.clone_from(&tail);
            }
            last = last.into_iter().chain(tail).max_by_key(|tail: &Tail| tail.seq);
        }
        Ok((last, of_events))
    }

    /// Takes a new epoch of the transactional id: any other producer that has it is fenced, and what it had under way
    /// is aborted, or committed if it had come that far. Each time it looks first whether the output is still this store's
    /// past: a process that stood still meanwhile would fence whoever took over from it.
    fn take_over<T>(&self, until: Instant, look: impl Fn() -> Result<T, SinkError>) -> Result<(), SinkError> {
        loop {
            look()?;
            let error = match self.producer.init_transactions(self.settings.connect_max()) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let is_retriable = matches!(&error, KafkaError::Transaction(error) if error.is_retriable());
            if !is_retriable || Instant::now() >= until || self.must_end(until) {
                let stop_reason = if is_retriable { StopReason::Unreachable } else { StopReason::Failed };
                return Err(self.failed(stop_reason, &format!("no transactions: {error}")));
            }
            tracing::warn!("the output cannot be taken over yet: {error}; trying again");
            std::thread::sleep(PAUSE);
        }
    }

    /// Whether the program was told to end and has waited long enough.
    fn must_end(&self, until: Instant) -> bool {
        let begin = until.checked_sub(self.settings.delivery_max()).unwrap_or(until);
        self.shutdown.load(Ordering::Relaxed) && begin.elapsed() >= DRAIN_MAX
    }

    /// Publishes events in one transaction.
    fn try_publish(&mut self, events: &[Outgoing]) -> Result<(), Failure> {
        self.transact(events, |sink, event| {
            (event.seq, sink.outputs.messages(event, sink.without_value.contains(&event.seq)))
        })
    }

    /// Sends the messages of some items, each with an event's number, in one transaction.
    fn transact<T>(
        &mut self,
        items: &[T],
        messages_of: impl Fn(&Self, &T) -> (u64, Vec<OutputMessage>),
    ) -> Result<(), Failure> {
        self.round = self.round.wrapping_add(1);
        self.producer.context().begin(self.round);
        self.producer.begin_transaction().map_err(|error| self.failure(&error))?;
        let mut n_sent = 0;
        for item in items {
            let (seq, messages) = messages_of(self, item);
            for message in messages {
                self.send(seq, message)?;
                n_sent += 1;
            }
        }
        self.await_deliveries(n_sent)?;
        self.producer.commit_transaction(COMMIT_MAX).map_err(|error| self.failure(&error))
    }

    /// Writes parts of the present state in one transaction, whatever the topics hold of them. Every event of the store must
    /// be out: they are told as of the last one, before `next_seq`. Written twice, they are what they were.
    ///
    /// # Errors
    /// [`SinkError`], as of [`Sink::publish`].
    pub fn republish(&mut self, facts: &[Fact], next_seq: u64) -> Result<(), SinkError> {
        let until = Instant::now() + self.settings.delivery_max();
        let seq = next_seq.saturating_sub(1);
        let message_of = |sink: &Self, fact: &Fact| match fact {
            Fact::Stands(url, present) => sink.outputs.present(url, present, seq),
            Fact::Merged(Merge { loser, winner }) => sink.outputs.merge(*loser, Some(*winner), seq),
        };
        loop {
            let written = self.transact(facts, |sink, fact| (seq, message_of(sink, fact).into_iter().collect()));
            let why = match written {
                Ok(()) => return Ok(()),
                Err(Failure::Fenced(why)) => return Err(self.fenced(&why)),
                Err(Failure::Refused(why)) => return Err(self.failed(StopReason::Failed, &why)),
                Err(Failure::Unsure(why)) => why,
            };
            tracing::warn!("writing the present state: {why}; trying again");
            if self.must_end(until) || Instant::now() >= until {
                return Err(self.failed(StopReason::Unreachable, &why));
            }
            self.retake(next_seq, until)?;
        }
    }

    fn send(&mut self, seq: u64, message: OutputMessage) -> Result<(), Failure> {
        let OutputMessage { topic, key, value, headers, time_ms, is_dead_letter } = message;
        let sent = Sent { round: self.round, seq, is_dead_letter };
        let mut record: BaseRecord<'_, [u8], [u8], Box<Sent>> =
            BaseRecord::with_opaque_to(&topic, Box::new(sent)).headers(headers);
        record.key = key.as_deref();
        record.payload = value.as_deref();
        record.timestamp = time_ms;
        loop {
            match self.producer.send(record) {
                Ok(()) => return Ok(()),
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), refused)) => {
                    self.hear();
                    record = refused;
                }
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::MessageSizeTooLarge), _)) if is_dead_letter => {
                    self.without_value.insert(seq);
                    return Err(Failure::Unsure(format!("the original of event {seq} is too large")));
                }
                Err((error, _)) => return Err(self.failure(&error)),
            }
        }
    }

    /// Hears of deliveries, or waits a moment where there is nothing to hear. `BaseProducer::poll` takes all the time that it
    /// is given, whatever comes meanwhile, and spins through the last millisecond of it.
    fn hear(&self) {
        let n_before = self.producer.context().n_done();
        self.producer.poll(Duration::ZERO);
        if self.producer.context().n_done() == n_before {
            std::thread::sleep(MOMENT);
        }
    }

    /// Waits until every one of this round's messages is accounted for, or one was not delivered: then the transaction is
    /// lost, and librdkafka would hold the others back until their time is over.
    fn await_deliveries(&mut self, n_sent: usize) -> Result<(), Failure> {
        // librdkafka gives each up by itself; twice that time is for a librdkafka that does not.
        let until = Instant::now() + self.settings.message_timeout() * 2;
        while self.producer.context().n_done() < n_sent && self.producer.context().failures().is_empty() {
            if Instant::now() >= until {
                return Err(Failure::Unsure("deliveries are neither confirmed nor refused".into()));
            }
            self.hear();
        }
        let failures = self.producer.context().failures();
        let Some((first, code, _)) = failures.first() else { return Ok(()) };
        let why = format!("event {first}: {code}");
        let too_large = failures.iter().filter(|(_, code, is_dead_letter)| {
            *is_dead_letter
                && matches!(code, RDKafkaErrorCode::MessageSizeTooLarge | RDKafkaErrorCode::InvalidMessageSize)
        });
        let n_before = self.without_value.len();
        self.without_value.extend(too_large.map(|(seq, _, _)| *seq));
        if self.without_value.len() > n_before {
            return Err(Failure::Unsure(why));
        }
        Err(self.failure_of(*code, why))
    }

    fn failure(&self, error: &KafkaError) -> Failure {
        let code = match error {
            KafkaError::Transaction(error) => error.code(),
            KafkaError::MessageProduction(code) => *code,
            _ => RDKafkaErrorCode::Fail,
        };
        self.failure_of(code, error.to_string())
    }

    fn failure_of(&self, code: RDKafkaErrorCode, why: String) -> Failure {
        let fatal = self.producer.client().fatal_error();
        let why = fatal.as_ref().map_or_else(|| why.clone(), |(code, reason)| format!("{why}; {code}: {reason}"));
        let is_fencing = |code: RDKafkaErrorCode| {
            matches!(
                code,
                RDKafkaErrorCode::Fenced | RDKafkaErrorCode::ProducerFenced | RDKafkaErrorCode::InvalidProducerEpoch
            )
        };
        if is_fencing(code) || fatal.is_some_and(|(code, _)| is_fencing(code)) {
            return Failure::Fenced(why);
        }
        match code {
            RDKafkaErrorCode::TopicAuthorizationFailed
            | RDKafkaErrorCode::TransactionalIdAuthorizationFailed
            | RDKafkaErrorCode::ClusterAuthorizationFailed
            | RDKafkaErrorCode::MessageSizeTooLarge => Failure::Refused(why),
            _ => Failure::Unsure(why),
        }
    }

    /// Has the old producer end its transaction, however, and so learn whether it was fenced: a new one would fence whoever
    /// did it.
    fn end_transaction(&self, until: Instant, next_seq: u64) -> Result<(), SinkError> {
        let mut is_committing = false;
        loop {
            let ended = if is_committing {
                self.producer.commit_transaction(ABORT_MAX)
            } else {
                self.producer.abort_transaction(ABORT_MAX)
            };
            let Err(error) = ended else { return Ok(()) };
            let why = match self.failure(&error) {
                Failure::Fenced(why) => return Err(self.fenced(&why)),
                Failure::Refused(why) | Failure::Unsure(why) => why,
            };
            match error {
                KafkaError::Transaction(error) if error.is_retriable() => {
                    is_committing |= error.code() == RDKafkaErrorCode::Conflict;
                }
                _ if is_committing => is_committing = false,
                // There is none, or none that this producer could end.
                _ => return Ok(()),
            }
            if self.must_end(until) || Instant::now() >= until {
                return Err(self.given_up(&why, until, next_seq));
            }
            self.producer.poll(MOMENT);
        }
    }

    /// The end of all tries. A process that stood still for longer than they may take does not know yet whether another one
    /// has gone on.
    fn given_up(&self, why: &str, until: Instant, next_seq: u64) -> SinkError {
        if !self.must_end(until)
            && let Err(error) = self.read_until(until, next_seq)
            && error.stop_reason == StopReason::Fenced
        {
            return error;
        }
        self.failed(StopReason::Unreachable, why)
    }

    /// Takes a new epoch after something went wrong, and returns how many of the events are out.
    fn recover(&mut self, events: &[Outgoing], until: Instant) -> Result<usize, SinkError> {
        let (Some(first), Some(last)) = (events.first(), events.last()) else { return Ok(0) };
        let out = self.retake(last.seq + 1, until)?;
        if out < self.tail {
            return Err(self.failed(
                StopReason::Failed,
                &format!(
                    "events up to {:?} were confirmed, the topic ends at {out:?}: the brokers lost some",
                    self.tail
                ),
            ));
        }
        self.tail = out;
        let n_out = out.map_or(0, |out| (out + 1).saturating_sub(first.seq));
        Ok(usize::try_from(n_out).unwrap_or(usize::MAX).min(events.len()))
    }

    /// Ends what is under way by taking a new epoch, and tells the last event that is out; `next_seq` is not yet.
    fn retake(&mut self, next_seq: u64, until: Instant) -> Result<Option<u64>, SinkError> {
        self.end_transaction(until, next_seq)?;
        self.producer = producer_of(&self.settings, &self.store)?;
        let look = || self.read_until(until, next_seq);
        self.take_over(until, look)?;
        look()
    }

    /// The end of the output, asked for until it is told. One that holds `next_seq` or more tells of another writer.
    fn read_until(&self, until: Instant, next_seq: u64) -> Result<Option<u64>, SinkError> {
        loop {
            match self.check_tail(next_seq) {
                Err(SinkError { stop_reason: StopReason::OldStore, message }) => return Err(self.fenced(&message)),
                Err(SinkError { stop_reason: StopReason::Unreachable, .. })
                    if Instant::now() < until && !self.must_end(until) =>
                {
                    std::thread::sleep(PAUSE);
                }
                told => return told.map(|ends| ends.last),
            }
        }
    }

    fn fenced(&self, why: &str) -> SinkError {
        SinkError {
            stop_reason: StopReason::Fenced,
            message: format!(
                "another process publishes the events of this store, or this one stood still for so long that the brokers \
                 gave it up ({why}). See that only one runs; if none does, start again: nothing is lost"
            ),
        }
    }

    fn failed(&self, stop_reason: StopReason, why: &str) -> SinkError {
        let last_error = &self.producer.context().last_error;
        let (stop_reason, advice) = if stop_reason == StopReason::Unreachable {
            last_error.diagnose_unreachable()
        } else {
            (stop_reason, "check the brokers")
        };
        let (told, topic) = (last_error.message_suffix(), &self.settings.events_topic);
        SinkError {
            stop_reason,
            message: format!(
                "events were not delivered to topic {topic:?}: {why}{told}; {advice}, and start again: nothing is lost"
            ),
        }
    }
}

fn producer_of(settings: &KafkaSettings, store: &str) -> Result<BaseProducer<Deliveries>, SinkError> {
    let config = settings.producer_config(store).map_err(|error| SinkError::new(error.to_string()))?;
    config.create_with_context(Deliveries::default()).map_err(|error| {
        SinkError::new(format!("cannot start the Kafka client: {}; check kafka.properties", explain(&error)))
    })
}

impl Sink for KafkaSink {
    fn last_seq(&mut self) -> Result<Option<u64>, SinkError> {
        Ok(self.tail.max(self.forgotten))
    }

    fn publish(&mut self, events: &[Outgoing]) -> Result<(), SinkError> {
        let until = Instant::now() + self.settings.delivery_max();
        let mut rest = events;
        while let Some(last) = rest.last() {
            let why = match self.try_publish(rest) {
                Ok(()) => {
                    self.tail = Some(last.seq);
                    break;
                }
                Err(Failure::Fenced(why)) => return Err(self.fenced(&why)),
                Err(Failure::Refused(why)) => return Err(self.failed(StopReason::Failed, &why)),
                Err(Failure::Unsure(why)) => why,
            };
            tracing::warn!("publishing events from {}: {why}; looking at what is out", rest[0].seq);
            if self.must_end(until) || Instant::now() >= until {
                return Err(self.given_up(&why, until, last.seq + 1));
            }
            let n_out = self.recover(rest, until)?;
            rest = &rest[n_out..];
        }
        self.without_value.clear();
        Ok(())
    }

    fn readings(&mut self) -> Vec<Reading> {
        self.producer.context().take_readings()
    }

    fn wants_originals(&self) -> bool {
        self.outputs.has_dead_letters()
    }
}

/// What a message was sent as.
struct Sent {
    /// The round that it was sent in; what a given-up round still brings in is not counted for the next.
    round: usize,
    seq: u64,
    is_dead_letter: bool,
}

/// Counts the deliveries of one round of publishing.
#[derive(Default)]
struct Deliveries {
    last_error: LastError,
    tally: Mutex<Tally>,
    readings: Mutex<Vec<Reading>>,
}

#[derive(Default)]
struct Tally {
    round: usize,
    n_done: usize,
    failures: Vec<(u64, RDKafkaErrorCode, bool)>,
}

impl Deliveries {
    fn begin(&self, round: usize) {
        *self.tally.lock().unwrap_or_else(PoisonError::into_inner) = Tally { round, ..Tally::default() };
    }

    fn take_readings(&self) -> Vec<Reading> {
        std::mem::take(&mut *self.readings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn n_done(&self) -> usize {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).n_done
    }

    /// The messages that were not delivered: event, why, and whether it was its dead letter.
    fn failures(&self) -> Vec<(u64, RDKafkaErrorCode, bool)> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).failures.clone()
    }
}

impl ClientContext for Deliveries {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        self.last_error.record_log(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.last_error.record_error(&error, reason);
    }

    fn stats_raw(&self, statistics: &[u8]) {
        if let Some(told) = parse_statistics(statistics, "") {
            *self.readings.lock().unwrap_or_else(PoisonError::into_inner) = told.readings;
        }
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = Box<Sent>;

    fn delivery(&self, result: &DeliveryResult<'_>, sent: Box<Sent>) {
        let mut tally = self.tally.lock().unwrap_or_else(PoisonError::into_inner);
        if tally.round != sent.round {
            return;
        }
        tally.n_done += 1;
        if let Err((error, _)) = result {
            let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Fail);
            tally.failures.push((sent.seq, code, sent.is_dead_letter));
        }
    }
}
