//! Publishes events to Kafka exactly once: each batch is one transaction, and after any doubt the sink reads the end
//! of the output.

use super::client::{LastError, N_FINAL_POLLS, TopicError, is_too_large};
use super::output_state::{self, OutputTopicState, StorePosition};
use super::output_tail::{Tail, TailError, TailReader};
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
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Advice for topics that belong to another store.
const NEW_TOPICS: &str = "name new topics in kafka.events_topic, kafka.assignments_topic and kafka.merges_topic, \
                          create them with `lookalike topics create`, and fill them with `lookalike topics republish`";

/// The pause between two polls for acknowledgements. Short, because every transaction waits for them.
const IDLE_PAUSE: Duration = Duration::from_millis(1);

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(500);

/// How long to wait for a commit; after that its outcome is unknown.
const COMMIT_MAX: Duration = Duration::from_secs(30);

/// The time limit of one attempt to end a failed transaction. librdkafka continues the attempt in the background, but
/// delivers acknowledgements only between attempts.
const ABORT_MAX: Duration = Duration::from_millis(200);

/// How long to wait for the failure that made librdkafka drop other messages.
const CAUSE_MAX: Duration = Duration::from_secs(1);

/// How long to wait for unresponsive brokers after a request to shut down.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// Publishes all events to one topic, and their changes to the present state to two compacted topics; see [`super`].
///
/// The key of an event is the URL that it is about, if any; the value is its JSON. The headers are [`SEQ_HEADER`](super::SEQ_HEADER),
/// [`STORE_HEADER`](super::STORE_HEADER) and [`VERSION_HEADER`](super::VERSION_HEADER).
///
/// A topic may have any number of partitions. Kafka orders messages within a partition and chooses the partition by
/// key, so the events of one URL are in order and those of two URLs may not be. Where the total order matters, give
/// the topic one partition, or sort by `lookalike-seq`. In each partition the numbers only rise.
///
/// A reader of committed transactions sees each event once. The transactional id derives from the store's id: a
/// process that opens the same store, or a copy of it, takes over, and the brokers fence the older process, which
/// stops. After any result but success, the sink takes a new epoch, which ends the open transaction. The end of the
/// output then tells which events to send again.
pub struct KafkaSink {
    settings: KafkaSettings,
    outputs: OutputTopics,
    store: String,
    producer: BaseProducer<Deliveries>,
    round: usize,
    /// The last event that is certainly published.
    last_published: Option<u64>,
    /// The last event that the store has dropped as published, if the events topic is empty.
    last_dropped: Option<u64>,
    /// The topics as the sink found them when it was opened.
    found: Vec<OutputTopicState>,
    /// What the store remembers of the topics.
    known: OutputNotes,
    position: StorePosition,
    /// Events whose original message is too large for the dead letter topic, and how often it is to be reduced.
    reductions: HashMap<u64, usize>,
    /// Whether a transaction may hold one dead letter only, so that each is judged for itself.
    letters_alone: bool,
    /// When the process started; no other process has written to the store since.
    started_at: SystemTime,
    shutdown: Arc<AtomicBool>,
}

/// The store whose events the sink publishes.
#[derive(Clone, Debug)]
pub struct Publishing<'a> {
    /// The store's id.
    pub store: &'a str,
    /// The number of its next event.
    pub next_seq: u64,
    /// Events below this number are published and no longer in the store.
    pub published: u64,
    /// Whether the store knows of any page.
    pub has_pages: bool,
    /// Whether a cluster may have lost its name.
    pub has_merged: bool,
    /// What the store remembers of the output topics.
    pub outputs: OutputNotes,
    /// A time since which no other process has written to the store.
    pub started_at: SystemTime,
}

/// A part of the present state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// The present of a URL.
    Stands(String, Present),
    /// A cluster that became part of another one.
    Merged(Merge),
}

/// The last published events.
#[derive(Clone, Copy, Debug, Default)]
struct OutputEnds {
    /// The last event in any of the topics.
    last: Option<u64>,
    /// The last event in the events topic.
    of_events: Option<u64>,
}

/// Why a batch was not published.
enum Failure {
    /// Another process has taken over.
    Fenced(String),
    /// The brokers refused the batch; another attempt would fail, too.
    Refused(String),
    /// The brokers refused a dead letter. The next attempt sends less of it, or each letter for itself.
    LetterTooLarge(String),
    /// It is unknown whether the batch was published.
    Unsure(String),
}

impl KafkaSink {
    /// Checks that the output belongs to this store and is not ahead of it, then takes the output over. Once
    /// `shutdown` is set, the sink no longer waits for unresponsive brokers.
    ///
    /// # Errors
    /// [`SinkError`] if the settings are wrong, no broker answers, a topic is missing, or a topic's partitions
    /// changed. The error is [`StopReason::OldStore`] if the output belongs to another store or is ahead of this one,
    /// and [`StopReason::Fenced`] if it moved ahead after the process started. On error no other process has been
    /// fenced.
    pub fn open(
        settings: &KafkaSettings,
        publishing: &Publishing<'_>,
        shutdown: Arc<AtomicBool>,
    ) -> Result<Self, SinkError> {
        settings.check().map_err(|error| SinkError::new(error.to_string()))?;
        if settings.events_topic.is_empty() {
            return Err(SinkError::new(SettingsError::Empty("events_topic").to_string()));
        }
        let &Publishing { store, next_seq, published, has_pages, has_merged, started_at, ref outputs } = publishing;
        let mut sink = KafkaSink {
            settings: settings.clone(),
            outputs: OutputTopics::new(settings, store),
            store: store.to_string(),
            producer: create_producer(settings, store)?,
            round: 0,
            last_published: None,
            last_dropped: None,
            found: Vec::new(),
            known: outputs.clone(),
            position: StorePosition { kept_from: published, has_pages, has_merged, ..StorePosition::default() },
            reductions: HashMap::new(),
            letters_alone: false,
            started_at,
            shutdown,
        };
        sink.found = sink.find_topics()?;
        if let Some(why) = output_state::moved_keys(&sink.found, &sink.known) {
            return Err(SinkError::new(why));
        }
        sink.acquire_output(Instant::now() + settings.delivery_max(), || sink.check_tail(next_seq))?;
        // A process that was fenced just now may have published events before.
        sink.record_end(sink.check_tail(next_seq)?);
        Ok(sink)
    }

    /// Records where the output ends. An empty events topic proves nothing, and the other topics may end before the
    /// last event, so the store's own mark counts as well.
    fn record_end(&mut self, ends: OutputEnds) {
        let published = self.position.kept_from;
        self.last_published = ends.last;
        self.last_dropped = published.checked_sub(1).filter(|_| ends.of_events.is_none());
        self.position.next_unpublished = self.last_published.max(self.last_dropped).map_or(0, |last| last + 1);
        self.position.end_of_events = ends.of_events.map_or(0, |last| last + 1);
    }

    /// Checks that the events topic holds every event that other topics reflect and the store still has.
    ///
    /// # Errors
    /// [`SinkError`] with the number from which to republish events.
    pub fn check_events(&self) -> Result<(), SinkError> {
        let lost = output_state::lost_events(&self.settings.events_topic, self.position);
        lost.map_or(Ok(()), |why| Err(SinkError::new(why)))
    }

    /// What the store must remember of the topics.
    pub fn notes(&self) -> OutputNotes {
        output_state::notes(&self.found, &self.known, self.position)
    }

    /// What the operator should know of the topics: missing state, moved keys.
    pub fn warnings(&self) -> Vec<String> {
        output_state::warnings(&self.found, &self.known, &self.notes(), self.position)
    }

    fn find_topics(&self) -> Result<Vec<OutputTopicState>, SinkError> {
        let within = self.settings.connect_max();
        let fetch = |(topic, field)| {
            OutputTopicState::fetch(self.producer.client(), topic, field, within)
                .map_err(|error| self.topic_error(topic, field, &error))
        };
        self.outputs.topics().map(fetch).collect()
    }

    fn topic_error(&self, topic: &str, field: &str, error: &TopicError) -> SinkError {
        (0..N_FINAL_POLLS).for_each(|_| self.producer.poll(Duration::ZERO));
        let last_error = &self.producer.context().last_error;
        SinkError {
            stop_reason: error.stop_reason(last_error),
            message: error.explain(topic, field, &self.settings.brokers, last_error),
        }
    }

    /// The last published events.
    ///
    /// # Errors
    /// [`SinkError`] if the output is not this store's own past.
    fn check_tail(&self, next_seq: u64) -> Result<OutputEnds, SinkError> {
        let (last, of_events) = self.read_tail()?;
        let Some(Tail { seq, store, time_ms }) = last else { return Ok(OutputEnds::default()) };
        let topic = &self.settings.events_topic;
        if store != self.store {
            return Err(SinkError {
                stop_reason: StopReason::OldStore,
                message: format!(
                    "topic {topic:?} holds events of another store ({store}; this one is {}): use the store that \
                     wrote them, or {NEW_TOPICS}",
                    self.store
                ),
            });
        }
        if seq >= next_seq {
            let started_at_ms =
                self.started_at.duration_since(UNIX_EPOCH).map_or(0, |started_at| started_at.as_millis());
            if time_ms.is_some_and(|time| u128::try_from(time).is_ok_and(|time| time > started_at_ms)) {
                return Err(self.fenced_error(&format!(
                    "event {seq} was published after this process started, and its store lacks it"
                )));
            }
            return Err(SinkError {
                stop_reason: StopReason::OldStore,
                message: format!(
                    "topic {topic:?} holds events up to {seq}, the store only knows those before {next_seq}: it is an \
                     older copy. Use the newest store. If that one is lost, `lookalike follow --once` brings this one up \
                     to date from the topics; then start again. Where the topics no longer have its pages, replay: \
                     {NEW_TOPICS}, and start with this store; it publishes the events of what it reads there"
                ),
            });
        }
        Ok(OutputEnds { last: Some(seq), of_events: of_events.map(|tail| tail.seq) })
    }

    /// The last event in any topic that shows what is published, and the last one in the events topic.
    fn read_tail(&self) -> Result<(Option<Tail>, Option<Tail>), SinkError> {
        let unread = |why| SinkError {
            stop_reason: StopReason::Unreachable,
            message: format!("cannot read the end of the output: {why}"),
        };
        let reader = TailReader::new(&self.settings).map_err(unread)?;
        let (mut last, mut of_events) = (None, None);
        for (topic, field) in self.outputs.tail_topics() {
            let tail = reader.tail_of(topic).map_err(|error| match error {
                TailError::Topic(error) => self.topic_error(topic, field, &error),
                TailError::Unread(why) => unread(why),
            })?;
            if topic == self.settings.events_topic {
                of_events.clone_from(&tail);
            }
            last = last.into_iter().chain(tail).max_by_key(|tail: &Tail| tail.seq);
        }
        Ok((last, of_events))
    }

    /// Takes a new epoch of the transactional id. The brokers then fence any other producer with this id, and abort
    /// its open transaction or complete its commit.
    ///
    /// Each attempt first runs `check`, which checks that the output is still this store's own past. Without that
    /// check, a process that was suspended would fence its successor.
    fn acquire_output<T>(&self, until: Instant, check: impl Fn() -> Result<T, SinkError>) -> Result<(), SinkError> {
        loop {
            check()?;
            let error = match self.producer.init_transactions(self.settings.connect_max()) {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            let is_retriable = matches!(&error, KafkaError::Transaction(error) if error.is_retriable());
            if !is_retriable || Instant::now() >= until || self.is_shutdown_due(until) {
                let stop_reason = if is_retriable { StopReason::Unreachable } else { StopReason::Failed };
                return Err(self.delivery_error(stop_reason, &format!("cannot start transactions: {error}")));
            }
            tracing::warn!("cannot take over the output yet: {error}; trying again");
            std::thread::sleep(PAUSE);
        }
    }

    /// Whether a shutdown was requested and the grace period is over.
    fn is_shutdown_due(&self, until: Instant) -> bool {
        let start = until.checked_sub(self.settings.delivery_max()).unwrap_or(until);
        self.shutdown.load(Ordering::Relaxed) && start.elapsed() >= SHUTDOWN_GRACE
    }

    /// Publishes events in one transaction.
    fn try_publish(&mut self, events: &[Outgoing]) -> Result<(), Failure> {
        self.transact(events, |sink, event| {
            let n_reductions = sink.reductions.get(&event.seq).copied().unwrap_or(0);
            (event.seq, sink.outputs.messages(event, n_reductions))
        })
    }

    /// Sends the messages of `items`, each with the number of its event, in one transaction.
    fn transact<T>(
        &mut self,
        items: &[T],
        messages_of: impl Fn(&Self, &T) -> (u64, Vec<OutputMessage>),
    ) -> Result<(), Failure> {
        self.round = self.round.wrapping_add(1);
        self.producer.context().begin(self.round);
        self.producer.begin_transaction().map_err(|error| self.classify_error(&error))?;
        let mut n_sent = 0;
        for item in items {
            let (seq, messages) = messages_of(self, item);
            for message in messages {
                self.send(seq, message)?;
                n_sent += 1;
            }
        }
        self.await_deliveries(n_sent)?;
        self.producer.commit_transaction(COMMIT_MAX).map_err(|error| self.classify_error(&error))
    }

    /// Writes parts of the present state in one transaction, whatever the topics hold. The messages carry the number
    /// of the last event, the one before `next_seq`, so every event of the store must be published first. Repeating
    /// the call is harmless.
    ///
    /// # Errors
    /// As for [`Sink::publish`].
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
                Err(Failure::Fenced(why)) => return Err(self.fenced_error(&why)),
                Err(Failure::Refused(why)) => return Err(self.delivery_error(StopReason::Failed, &why)),
                Err(Failure::LetterTooLarge(why) | Failure::Unsure(why)) => why,
            };
            tracing::warn!("writing the present state: {why}; trying again");
            if self.is_shutdown_due(until) || Instant::now() >= until {
                return Err(self.delivery_error(StopReason::Unreachable, &why));
            }
            self.reacquire(next_seq, until)?;
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
                    self.poll_deliveries();
                    record = refused;
                }
                Err((KafkaError::MessageProduction(RDKafkaErrorCode::MessageSizeTooLarge), _)) if is_dead_letter => {
                    return Err(self.reduce_letters(&[seq], format!("the dead letter of event {seq} is too large")));
                }
                Err((error, _)) => return Err(self.classify_error(&error)),
            }
        }
    }

    /// Polls for acknowledgements, and sleeps for a moment if there are none. `BaseProducer::poll` with a timeout
    /// would always use all of it, whatever arrives, and spin through its last millisecond.
    fn poll_deliveries(&self) {
        let n_before = self.producer.context().n_done();
        self.producer.poll(Duration::ZERO);
        if self.producer.context().n_done() == n_before {
            std::thread::sleep(IDLE_PAUSE);
        }
    }

    /// Waits until every message of this round is accounted for, or one has failed. After a failure the transaction
    /// is lost, and librdkafka would hold the other messages until they time out.
    fn await_deliveries(&mut self, n_sent: usize) -> Result<(), Failure> {
        // librdkafka gives up on each message by itself; the factor covers a librdkafka that does not.
        if !self.poll_until(n_sent, self.settings.message_timeout() * 2, |failures| !failures.is_empty()) {
            return Err(Failure::Unsure("the brokers neither confirmed nor refused the messages".into()));
        }
        // librdkafka may report the messages that it drops before the one because of which it does.
        self.poll_until(n_sent, CAUSE_MAX, |failures| !failures.iter().all(FailedDelivery::is_dropped));
        let failures = self.producer.context().failures();
        let Some(cause) = failures.iter().find(|failure| !failure.is_dropped()).or(failures.first()) else {
            return Ok(());
        };
        let too_large = failures.iter().filter(|failure| failure.is_large_letter()).map(|failure| failure.seq);
        let too_large: Vec<u64> = too_large.collect();
        let why = cause.to_string();
        Err(if too_large.is_empty() {
            self.classify_code(cause.code, why)
        } else {
            self.reduce_letters(&too_large, why)
        })
    }

    /// Polls until all messages are acknowledged or `is_enough` says so of the failures. Returns whether either came
    /// true within `time_max`.
    fn poll_until(&self, n_sent: usize, time_max: Duration, is_enough: fn(&[FailedDelivery]) -> bool) -> bool {
        let until = Instant::now() + time_max;
        let context = self.producer.context();
        while context.n_done() < n_sent && !is_enough(&context.failures()) {
            if Instant::now() >= until {
                return false;
            }
            self.poll_deliveries();
        }
        true
    }

    /// Takes note of dead letters that the brokers refused as too large. The brokers judge whole batches: one that was
    /// alone goes with less of its original next time; several may fit one by one.
    fn reduce_letters(&mut self, seqs: &[u64], why: String) -> Failure {
        match seqs {
            [seq] => *self.reductions.entry(*seq).or_default() += 1,
            _ => self.letters_alone = true,
        }
        Failure::LetterTooLarge(why)
    }

    /// The events of the next transaction: all, or those up to the first dead letter.
    fn next_part<'a>(&self, events: &'a [Outgoing]) -> &'a [Outgoing] {
        let first_letter = events.iter().position(|event| event.original.is_some()).filter(|_| self.letters_alone);
        &events[..first_letter.map_or(events.len(), |at| at + 1)]
    }

    fn classify_error(&self, error: &KafkaError) -> Failure {
        let code = match error {
            KafkaError::Transaction(error) => error.code(),
            KafkaError::MessageProduction(code) => *code,
            _ => RDKafkaErrorCode::Fail,
        };
        self.classify_code(code, error.to_string())
    }

    fn classify_code(&self, code: RDKafkaErrorCode, why: String) -> Failure {
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

    /// Makes the old producer end its transaction, by commit or abort, to learn whether it was fenced. A new producer
    /// would fence the process that did it.
    fn end_transaction(&self, until: Instant, next_seq: u64) -> Result<(), SinkError> {
        let mut is_committing = false;
        loop {
            let ended = if is_committing {
                self.producer.commit_transaction(ABORT_MAX)
            } else {
                self.producer.abort_transaction(ABORT_MAX)
            };
            let Err(error) = ended else { return Ok(()) };
            let why = match self.classify_error(&error) {
                Failure::Fenced(why) => return Err(self.fenced_error(&why)),
                Failure::Refused(why) | Failure::LetterTooLarge(why) | Failure::Unsure(why) => why,
            };
            match error {
                KafkaError::Transaction(error) if error.is_retriable() => {
                    is_committing |= error.code() == RDKafkaErrorCode::Conflict;
                }
                _ if is_committing => is_committing = false,
                // There is no transaction, or none that this producer can end.
                _ => return Ok(()),
            }
            if self.is_shutdown_due(until) || Instant::now() >= until {
                return Err(self.final_error(&why, until, next_seq));
            }
            self.producer.poll(IDLE_PAUSE);
        }
    }

    /// The error after the last attempt. A process that was suspended for longer than the attempts may take must
    /// first learn whether another process has gone on.
    fn final_error(&self, why: &str, until: Instant, next_seq: u64) -> SinkError {
        if !self.is_shutdown_due(until)
            && let Err(error) = self.read_until(until, next_seq)
            && error.stop_reason == StopReason::Fenced
        {
            return error;
        }
        self.delivery_error(StopReason::Unreachable, why)
    }

    /// Takes a new epoch after a failure, and returns how many of the events are published.
    fn recover(&mut self, events: &[Outgoing], until: Instant) -> Result<usize, SinkError> {
        let (Some(first), Some(last)) = (events.first(), events.last()) else { return Ok(0) };
        let out = self.reacquire(last.seq + 1, until)?;
        if out < self.last_published {
            let confirmed = self.last_published.unwrap_or_default();
            let end = out.map_or_else(|| "no event".to_string(), |out| format!("event {out}"));
            let why =
                format!("events up to {confirmed} were confirmed, but the output ends at {end}: the brokers lost some");
            return Err(self.delivery_error(StopReason::Failed, &why));
        }
        self.last_published = out;
        let n_out = out.map_or(0, |out| (out + 1).saturating_sub(first.seq));
        Ok(usize::try_from(n_out).unwrap_or(usize::MAX).min(events.len()))
    }

    /// Ends the open transaction by taking a new epoch, and returns the last published event, which must be below
    /// `next_seq`.
    fn reacquire(&mut self, next_seq: u64, until: Instant) -> Result<Option<u64>, SinkError> {
        self.end_transaction(until, next_seq)?;
        self.producer = create_producer(&self.settings, &self.store)?;
        let check = || self.read_until(until, next_seq);
        self.acquire_output(until, check)?;
        check()
    }

    /// Reads the end of the output, retrying until `until`. An end at `next_seq` or above reveals another writer.
    fn read_until(&self, until: Instant, next_seq: u64) -> Result<Option<u64>, SinkError> {
        loop {
            match self.check_tail(next_seq) {
                Err(SinkError { stop_reason: StopReason::OldStore, message }) => {
                    return Err(self.fenced_error(&message));
                }
                Err(SinkError { stop_reason: StopReason::Unreachable, .. })
                    if Instant::now() < until && !self.is_shutdown_due(until) =>
                {
                    std::thread::sleep(PAUSE);
                }
                answer => return answer.map(|ends| ends.last),
            }
        }
    }

    fn fenced_error(&self, why: &str) -> SinkError {
        SinkError {
            stop_reason: StopReason::Fenced,
            message: format!(
                "another process publishes the events of this store, or this one was suspended for so long that the \
                 brokers gave it up ({why}). Make sure that only one process runs; if none does, start again: nothing \
                 is lost"
            ),
        }
    }

    fn delivery_error(&self, stop_reason: StopReason, why: &str) -> SinkError {
        let last_error = &self.producer.context().last_error;
        let (stop_reason, advice) = if stop_reason == StopReason::Unreachable {
            last_error.diagnose_unreachable()
        } else {
            (stop_reason, "check the brokers")
        };
        let (suffix, topic) = (last_error.message_suffix(), &self.settings.events_topic);
        SinkError {
            stop_reason,
            message: format!(
                "cannot deliver events to topic {topic:?}: {why}{suffix}; {advice}, and start again: nothing is lost"
            ),
        }
    }
}

/// The producer of a store's events.
pub(super) fn create_producer(settings: &KafkaSettings, store: &str) -> Result<BaseProducer<Deliveries>, SinkError> {
    let config = settings.producer_config(store).map_err(|error| SinkError::new(error.to_string()))?;
    config.create_with_context(Deliveries::default()).map_err(|error| {
        SinkError::new(format!("cannot start the Kafka client: {}; check kafka.properties", explain(&error)))
    })
}

impl Sink for KafkaSink {
    fn last_seq(&mut self) -> Result<Option<u64>, SinkError> {
        Ok(self.last_published.max(self.last_dropped))
    }

    fn publish(&mut self, events: &[Outgoing]) -> Result<(), SinkError> {
        let mut until = Instant::now() + self.settings.delivery_max();
        let mut rest = events;
        loop {
            let part = self.next_part(rest);
            let Some(last) = part.last() else { break };
            let why = match self.try_publish(part) {
                Ok(()) => {
                    self.last_published = Some(last.seq);
                    rest = &rest[part.len()..];
                    until = Instant::now() + self.settings.delivery_max();
                    continue;
                }
                Err(Failure::Fenced(why)) => return Err(self.fenced_error(&why)),
                Err(Failure::Refused(why)) => return Err(self.delivery_error(StopReason::Failed, &why)),
                Err(Failure::LetterTooLarge(why)) => {
                    // The brokers answer, and a letter can be reduced a few times only.
                    until = Instant::now() + self.settings.delivery_max();
                    why
                }
                Err(Failure::Unsure(why)) => why,
            };
            tracing::warn!("publishing events from {}: {why}; checking what is published", part[0].seq);
            if self.is_shutdown_due(until) || Instant::now() >= until {
                return Err(self.final_error(&why, until, last.seq + 1));
            }
            let n_out = self.recover(part, until)?;
            rest = &rest[n_out..];
        }
        self.reductions.clear();
        self.letters_alone = false;
        Ok(())
    }

    fn readings(&mut self) -> Vec<Reading> {
        // The client reports only while it is polled.
        self.producer.poll(Duration::ZERO);
        self.producer.context().take_readings()
    }

    fn wants_originals(&self) -> bool {
        self.outputs.has_dead_letters()
    }
}

/// The context of a message in flight.
pub(super) struct Sent {
    /// The round of the message. Late acknowledgements of an abandoned round do not count for the next one.
    round: usize,
    seq: u64,
    is_dead_letter: bool,
}

/// Counts the acknowledgements of one round.
#[derive(Default)]
pub(super) struct Deliveries {
    last_error: LastError,
    tally: Mutex<RoundTally>,
    readings: Mutex<Vec<Reading>>,
}

#[derive(Default)]
struct RoundTally {
    round: usize,
    n_done: usize,
    failures: Vec<FailedDelivery>,
}

/// A message that the brokers did not take.
#[derive(Clone, Copy)]
struct FailedDelivery {
    /// The event that the message is about.
    seq: u64,
    is_dead_letter: bool,
    code: RDKafkaErrorCode,
}

impl FailedDelivery {
    /// Whether librdkafka dropped the message because something else had failed.
    fn is_dropped(&self) -> bool {
        matches!(self.code, RDKafkaErrorCode::PurgeQueue | RDKafkaErrorCode::PurgeInflight)
    }

    /// Whether the message is a dead letter that is too large for its topic.
    fn is_large_letter(&self) -> bool {
        self.is_dead_letter && is_too_large(self.code)
    }
}

impl fmt::Display for FailedDelivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.is_dead_letter { "the dead letter of event" } else { "event" };
        write!(f, "{what} {}: {}", self.seq, self.code)
    }
}

impl Deliveries {
    fn begin(&self, round: usize) {
        *self.tally.lock().unwrap_or_else(PoisonError::into_inner) = RoundTally { round, ..RoundTally::default() };
    }

    fn take_readings(&self) -> Vec<Reading> {
        std::mem::take(&mut *self.readings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn n_done(&self) -> usize {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner).n_done
    }

    fn failures(&self) -> Vec<FailedDelivery> {
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
        if let Some(report) = parse_statistics(statistics, "") {
            *self.readings.lock().unwrap_or_else(PoisonError::into_inner) = report.readings;
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
            tally.failures.push(FailedDelivery { seq: sent.seq, is_dead_letter: sent.is_dead_letter, code });
        }
    }
}
