//! Reads pages from a topic, each partition from the offset that the store knows.

use super::cautious::CautiousReader;
use super::client::{LastError, N_FINAL_POLLS, Throttle, TopicError, partitions_of};
use super::identity;
use super::offsets::{self, Gap, GapReason, OffsetRange, StoredPositions};
use super::record::to_owned_message;
use super::settings::{KafkaSettings, RecordFormat, explain};
use super::statistics::{StatisticsReport, parse_statistics};
use super::topic_id::{TopicId, log_topic_ids};
use super::undecodable::{self, is_undecodable};
use crate::document::{FetchTime, Page};
use crate::ports::{Incoming, PoisonGuard, Polled, Progress, ProgressMap, Reading, Source, SourceError, StopReason};
use crate::wire::{ContentDecoder, Limits, MessageFormat, Origin, Reason, Record, Rejection};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientContext, Message, Offset, TopicPartitionList};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The interval of housekeeping: commits, statistics, new partitions, a lost topic.
const HOUSEKEEPING_INTERVAL: Duration = Duration::from_secs(1);

/// The shortest interval between warnings about transient trouble.
const WARNING_INTERVAL: Duration = Duration::from_secs(5);

/// How often to retry the assignment of new partitions.
const ASSIGNMENT_INTERVAL: Duration = Duration::from_secs(10);

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(200);

/// How long one request to the brokers may hold up the stream.
const REQUEST_MAX: Duration = Duration::from_secs(2);

/// The time limit of one check whether an unknown topic is back.
const TOPIC_CHECK_MAX: Duration = Duration::from_millis(500);

/// How long brokers may not know the topic before it counts as lost. After a restart of a broker, ignorance is
/// normal.
const TOPIC_LOST_AFTER: Duration = Duration::from_secs(10);

/// Reads pages from a Kafka topic.
///
/// The source assigns partitions from the store's offsets and joins no group, so two programs on one topic both read
/// all of it. Within a partition offsets may skip: transaction markers and compacted records have offsets but are
/// never delivered.
///
/// The source stops if retention has deleted records that the store needs, or if the topic was recreated. The error
/// names the stored offset and what the broker holds. A recreated topic shows in its offsets or in a changed last
/// record; while the source runs, it shows in the topic's id. An operator may accept such a gap. The source then
/// reports the gap before anything else.
pub struct KafkaSource {
    consumer: BaseConsumer<SourceContext>,
    pub(super) settings: KafkaSettings,
    pub(super) topic: Arc<str>,
    /// The topic ids that the source's consumers have logged.
    id: Arc<TopicId>,
    format: MessageFormat,
    value_bytes_max: usize,
    /// Accepted gaps, reported before any record.
    pub(super) accepted_gaps: VecDeque<Incoming>,
    pub(super) partitions: BTreeMap<i32, PartitionState>,
    /// Set in cautious mode, after reading itself may have crashed the program.
    pub(super) cautious: Option<CautiousReader>,
    /// When the last record was sent, in milliseconds since 1970.
    last_sent_ms: Option<i64>,
    unreachable_since: Option<Instant>,
    /// Partitions of the topic that are not assigned yet.
    new_partitions: Vec<i32>,
    readings: Vec<Reading>,
    to_commit: BTreeMap<i32, i64>,
    housekeeping: Throttle,
    warnings: Throttle,
    assignment_retries: Throttle,
    /// Since when the brokers have not known the topic. Until it is back, nothing is assigned: it may come back as
    /// another topic.
    topic_unknown_since: Option<Instant>,
}

/// The parameters of a start.
pub struct StartOptions<'a> {
    /// The progress of the store.
    pub stored: &'a ProgressMap,
    /// Starts an unknown topic at the first record of this time or later.
    pub since: Option<FetchTime>,
    /// Allows a new store although the group has read the topic before.
    pub bootstrap: bool,
    /// Skips records that no longer exist, and reports each such gap.
    pub accept_gap: bool,
    /// The record of earlier crashes.
    pub poison_guard: Arc<dyn PoisonGuard>,
    /// Parses a WARC record, for [`RecordFormat::Warc`].
    pub warc: fn(&[u8], &Limits) -> Result<Page, Rejection>,
    /// Undoes content codings, for [`RecordFormat::Raw`].
    pub undo: ContentDecoder,
}

/// The state of a partition.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartitionState {
    /// The offset of the next record.
    pub(super) next: i64,
    /// The fingerprint of the last record; 0 if unknown.
    pub(super) chain: u64,
    /// The last known high watermark.
    pub(super) high: i64,
    /// librdkafka's own position. It counts transaction markers, which are never delivered.
    passed: i64,
    /// The offset last committed for lag tools.
    committed: i64,
}

impl PartitionState {
    fn new(next: i64, held: OffsetRange) -> Self {
        PartitionState { next, chain: 0, high: held.high, passed: next, committed: -1 }
    }
}

impl KafkaSource {
    /// Starts each partition at the offset in `stored`. A topic unknown to `stored` starts where `settings.start`
    /// says; an unknown partition of a known topic starts at its oldest record.
    ///
    /// # Errors
    /// [`SourceError`] if the settings are wrong, no broker answers, or the topic is missing; if the store is new but
    /// the group is not; or if the broker no longer has what the store needs next.
    pub fn open(settings: &KafkaSettings, limits: &Limits, options: &StartOptions<'_>) -> Result<Self, SourceError> {
        settings.check().map_err(|error| SourceError::new(error.to_string()))?;
        let cautious = CautiousReader::new_if_needed(&options.poison_guard);
        let id = Arc::new(TopicId::new(&settings.topic));
        let consumer = create_consumer(settings, cautious.is_some(), &id)?;
        let format = message_format(settings, options);
        let mut source = KafkaSource {
            consumer,
            topic: settings.topic.as_str().into(),
            id,
            settings: settings.clone(),
            value_bytes_max: format.value_bytes_max(limits),
            format,
            accepted_gaps: VecDeque::new(),
            cautious,
            partitions: BTreeMap::new(),
            last_sent_ms: None,
            unreachable_since: None,
            new_partitions: Vec::new(),
            readings: Vec::new(),
            to_commit: BTreeMap::new(),
            housekeeping: Throttle::every(HOUSEKEEPING_INTERVAL),
            warnings: Throttle::every(WARNING_INTERVAL),
            assignment_retries: Throttle::every(ASSIGNMENT_INTERVAL),
            topic_unknown_since: None,
        };
        source.locate_partitions(options)?;
        source.skip_poison_batches();
        if source.cautious.is_none() {
            source.assign_all()?;
        }
        Ok(source)
    }

    /// Leaves cautious mode: reads all partitions at once again.
    pub(super) fn resume_normal_reading(&mut self) -> Result<(), SourceError> {
        self.consumer = create_consumer(&self.settings, false, &self.id)?;
        self.assign_all()
    }

    /// Whether a partition holds more records, by its last known high watermark.
    pub(super) fn holds_more(&self, partition: i32) -> bool {
        self.partitions.get(&partition).is_some_and(|state| state.next.max(state.passed) < state.high)
    }

    /// Whether a partition holds more records now; asks the broker.
    pub(super) fn has_grown(&mut self, partition: i32) -> bool {
        if let Ok(held) = self.held_range(partition, REQUEST_MAX) {
            self.partitions.entry(partition).and_modify(|state| state.high = held.high);
        }
        self.holds_more(partition)
    }

    /// The next offset of every partition, except those with a gap yet to be reported. An engine that commits these
    /// before its first record makes `start = latest` survive a restart, even for partitions without a record.
    pub fn positions(&self) -> ProgressMap {
        let is_whole = |partition: i32| !self.accepted_gaps.iter().any(|gap| gap.origin.partition == partition);
        let whole = self.partitions.iter().filter(|(partition, _)| is_whole(**partition));
        let position = |(partition, state): (&i32, &PartitionState)| {
            ((self.topic.to_string(), *partition), Progress { next_offset: state.next, chain: state.chain })
        };
        whole.map(position).collect()
    }

    /// Determines where each partition starts.
    fn locate_partitions(&mut self, options: &StartOptions<'_>) -> Result<(), SourceError> {
        let settings = self.settings.clone();
        let stored = StoredPositions::from_progress(options.stored, &settings.topic);
        let until = Instant::now() + settings.connect_max();
        let partitions = partitions_of(self.consumer.client(), &self.topic, settings.connect_max())
            .map_err(|error| self.topic_error(&error))?;
        let since = options.since.filter(|_| stored.0.is_empty());
        if stored.0.is_empty() && since.is_none() && !options.bootstrap {
            self.refuse_known_group(&partitions, until)?;
        }
        let mut gaps = stored.missing_partitions(&partitions);
        // Reading the previous record would also fetch the next one, which may be the hostile one.
        let skips_check = stored.0.is_empty() || self.cautious.is_some();
        let known = stored.0.iter().filter(|(partition, _)| partitions.contains(partition));
        let known = known.map(|(partition, progress)| (*partition, *progress)).collect();
        let replaced = if skips_check { Vec::new() } else { self.replaced_partitions(&known)? };
        for partition in partitions {
            let held = self
                .held_range(partition, until.saturating_duration_since(Instant::now()).max(REQUEST_MAX))
                .map_err(|error| self.topic_error(&TopicError::Unreachable(error.to_string())))?;
            let start = match (since, stored.start_offset(partition, settings.start, held)) {
                (Some(time), _) => Ok(self.first_since(time, partition, held, options.accept_gap)?),
                (None, Ok(next)) if replaced.contains(&partition) => {
                    Err(Gap { partition, next, held: Some(held), why: GapReason::Replaced })
                }
                (None, start) => start,
            };
            let next = start.unwrap_or_else(|gap| {
                gaps.push(gap);
                held.low
            });
            let chain = stored.0.get(&partition).map_or(0, |progress| progress.chain);
            self.partitions.insert(partition, PartitionState { chain, ..PartitionState::new(next, held) });
        }
        if !gaps.is_empty() && !options.accept_gap {
            return Err(self.gaps_error(&gaps));
        }
        self.accepted_gaps = gaps.iter().map(|gap| self.accept_gap(gap)).collect();
        Ok(())
    }

    /// The offset of a partition's first record of a time or later, or the partition's end. `held` was queried
    /// before, so no record that arrives in the meantime is skipped.
    fn first_since(
        &self,
        time: FetchTime,
        partition: i32,
        held: OffsetRange,
        accept_gap: bool,
    ) -> Result<i64, SourceError> {
        let unreachable = |error: KafkaError| self.topic_error(&TopicError::Unreachable(error.to_string()));
        let request = self.offsets([(partition, offsets::milliseconds(time))].into_iter()).map_err(unreachable)?;
        let found = self.consumer.offsets_for_times(request, self.settings.connect_max()).map_err(unreachable)?;
        let found = found.elements().into_iter().find_map(|element| match (element.error(), element.offset()) {
            (Err(error), _) => Some(Err(error)),
            (Ok(()), Offset::Offset(offset)) => Some(Ok(offset)),
            (Ok(()), _) => None,
        });
        let start = offsets::start_at_time(found.transpose().map_err(unreachable)?, held);
        let next =
            start.or_else(
                |oldest| if accept_gap { Ok(oldest) } else { Err(self.overtaken_error(time, partition, oldest)) },
            )?;
        tracing::info!("topic {:?}, partition {partition}: from {time} on, which is offset {next}", self.topic);
        Ok(next)
    }

    fn overtaken_error(&self, time: FetchTime, partition: i32, oldest: i64) -> SourceError {
        SourceError {
            stop_reason: StopReason::Overtaken,
            message: format!(
                "topic {:?} is to be read from {time} on, but the broker has deleted the records of partition \
                 {partition} below {oldest}, and holds none older than that time: some of the deleted records may \
                 belong to the range. Start with what is left with --accept-gap, or backfill the missing records",
                self.topic
            ),
        }
    }

    /// Logs an accepted gap, and makes its event.
    fn accept_gap(&self, gap: &Gap) -> Incoming {
        tracing::warn!("topic {:?}: accepted: {gap}", self.topic);
        let origin = Origin { source: Arc::clone(&self.topic), partition: gap.partition, offset: gap.next };
        Incoming { origin, chain: 0, record: Record::Rejected(gap.rejection()) }
    }

    /// Refuses a new store if the group has read the topic before: most likely the old store is missing.
    fn refuse_known_group(&self, partitions: &[i32], until: Instant) -> Result<(), SourceError> {
        let committed = self
            .committed(partitions, until)
            .map_err(|error| self.topic_error(&TopicError::Unreachable(error.to_string())))?;
        let known = committed.elements().iter().find_map(|element| match element.offset() {
            Offset::Offset(offset) => Some((element.partition(), offset)),
            _ => None,
        });
        let Some((partition, offset)) = known else { return Ok(()) };
        Err(SourceError {
            stop_reason: StopReason::NoStore,
            message: format!(
                "the store is new, but the group {:?} has read topic {:?} before (partition {partition} up to \
                 {offset}). If the store has moved, give its path to --store. To start over with a new store, use \
                 --bootstrap, and new output topics (kafka.events_topic, kafka.assignments_topic, kafka.merges_topic, \
                 then `lookalike topics create`): the present ones hold events of the old store",
                self.settings.group, self.topic
            ),
        })
    }

    /// The group's committed offsets. Retries, because brokers that have just started do not know the group's
    /// coordinator.
    fn committed(&self, partitions: &[i32], until: Instant) -> KafkaResult<TopicPartitionList> {
        let mut list = TopicPartitionList::new();
        for partition in partitions {
            list.add_partition(&self.topic, *partition);
        }
        loop {
            match self.consumer.committed_offsets(list.clone(), self.settings.connect_max()) {
                Err(_) if Instant::now() < until => std::thread::sleep(PAUSE),
                answer => return answer,
            }
        }
    }

    /// The partitions whose last record read has changed.
    fn replaced_partitions(&self, last_read: &BTreeMap<i32, Progress>) -> Result<Vec<i32>, SourceError> {
        identity::changed_partitions(
            &self.settings,
            &self.id,
            last_read,
            self.value_bytes_max,
            self.settings.connect_max(),
        )
        .map_err(|error| self.topic_error(&TopicError::Unreachable(error.to_string())))
    }

    fn held_range(&self, partition: i32, within: Duration) -> KafkaResult<OffsetRange> {
        let (low, high) = self.consumer.fetch_watermarks(&self.topic, partition, within)?;
        Ok(OffsetRange { low, high })
    }

    fn assign_all(&self) -> Result<(), SourceError> {
        self.assign(self.partitions.keys().copied())
    }

    /// Assigns these partitions, each from its present offset.
    pub(super) fn assign(&self, partitions: impl Iterator<Item = i32>) -> Result<(), SourceError> {
        let positions = partitions.filter_map(|partition| Some((partition, self.partitions.get(&partition)?.next)));
        let assigned = self.offsets(positions).and_then(|list| self.consumer.assign(&list));
        assigned.map_err(|error| {
            SourceError::new(format!("cannot read topic {:?}: {error}; check the brokers and start again", self.topic))
        })
    }

    fn offsets(&self, offsets: impl Iterator<Item = (i32, i64)>) -> KafkaResult<TopicPartitionList> {
        let mut list = TopicPartitionList::new();
        for (partition, offset) in offsets {
            list.add_partition_offset(&self.topic, partition, Offset::Offset(offset))?;
        }
        Ok(list)
    }

    fn do_housekeeping(&mut self) -> Result<(), SourceError> {
        if !self.housekeeping.due() {
            return Ok(());
        }
        self.send_commits();
        self.read_statistics();
        if !self.new_partitions.is_empty() && self.topic_unknown_since.is_none() && self.assignment_retries.due() {
            std::mem::take(&mut self.new_partitions)
                .into_iter()
                .for_each(|partition| self.assign_new_partition(partition));
        }
        self.measure_lag();
        self.check_brokers()?;
        self.check_topic()
    }

    /// Updates the high watermarks, and notes partitions that are not assigned yet.
    fn read_statistics(&mut self) {
        let Some(report) = self.consumer.context().take() else { return };
        if report.is_any_up {
            self.unreachable_since = None;
        } else {
            self.unreachable_since.get_or_insert_with(Instant::now);
        }
        self.new_partitions.clear();
        for (partition, high) in report.partitions {
            match self.partitions.get_mut(&partition) {
                Some(state) => state.high = state.high.max(high),
                None => self.new_partitions.push(partition),
            }
        }
        self.readings = report.readings;
    }

    /// Updates librdkafka's positions, and reports the age of the last record.
    fn measure_lag(&mut self) {
        for (partition, passed) in passed_markers(&self.consumer) {
            self.partitions.entry(partition).and_modify(|state| state.passed = passed);
        }
        let seconds = if self.lag() == Some(0) { 0.0 } else { self.last_sent_ms.map_or(0.0, seconds_since) };
        self.readings.push(Reading::new("lookalike_lag_seconds", Vec::new(), seconds));
    }

    /// Stops the source if no broker has been available for `kafka.delivery_ms_max`.
    fn check_brokers(&self) -> Result<(), SourceError> {
        if self.unreachable_since.is_none_or(|since| since.elapsed() < self.settings.delivery_max()) {
            return Ok(());
        }
        let last_error = &self.consumer.context().last_error;
        let (stop_reason, advice) = last_error.diagnose_unreachable();
        Err(SourceError {
            stop_reason,
            message: format!(
                "no broker of {} was available for {} s{}; {advice}, and start again: nothing is lost. \
                 kafka.delivery_ms_max sets how long to wait",
                self.settings.brokers,
                self.settings.delivery_max().as_secs(),
                last_error.message_suffix()
            ),
        })
    }

    /// Assigns a partition that was added to the topic, from its oldest record.
    fn assign_new_partition(&mut self, partition: i32) {
        let assigned = self.held_range(partition, REQUEST_MAX).and_then(|held| {
            let list = self.offsets([(partition, held.low)].into_iter())?;
            self.consumer.incremental_assign(&list)?;
            Ok(PartitionState::new(held.low, held))
        });
        match assigned {
            Ok(state) => {
                tracing::info!(
                    "topic {:?} has a new partition {partition}; reading it from offset {}",
                    self.topic,
                    state.next
                );
                self.partitions.insert(partition, state);
            }
            Err(error) => self.warn(&format!("cannot read the new partition {partition} yet: {error}")),
        }
    }

    /// Stops the source if the brokers no longer know the topic. A broker that has just started may not know it for a
    /// moment; if the topic returns unchanged, reading resumes.
    fn check_topic(&mut self) -> Result<(), SourceError> {
        let Some(since) = self.topic_unknown_since else { return Ok(()) };
        match partitions_of(self.consumer.client(), &self.topic, TOPIC_CHECK_MAX) {
            Err(error @ (TopicError::Missing | TopicError::Refused(_))) if since.elapsed() >= TOPIC_LOST_AFTER => {
                Err(self.topic_error(&error))
            }
            Err(_) => Ok(()),
            Ok(_) => self.read_again(),
        }
    }

    /// Resumes reading of a topic that is back, unless its last records have changed.
    fn read_again(&mut self) -> Result<(), SourceError> {
        if let Some(cautious) = &mut self.cautious {
            cautious.reset();
        } else {
            let progress = |state: &PartitionState| Progress { next_offset: state.next, chain: state.chain };
            let last_read = self.partitions.iter().map(|(partition, state)| (*partition, progress(state))).collect();
            let replaced = match self.replaced_partitions(&last_read) {
                Ok(replaced) => replaced,
                Err(error) => {
                    self.warn(&error.to_string());
                    return Ok(());
                }
            };
            if !replaced.is_empty() {
                return Err(self.recreated_error(&format!("the last records of partitions {replaced:?} have changed")));
            }
            self.assign_all()?;
        }
        self.topic_unknown_since = None;
        Ok(())
    }

    fn send_commits(&mut self) {
        let list = match self.offsets(self.to_commit.iter().map(|(partition, next)| (*partition, *next))) {
            Ok(list) if list.count() > 0 => list,
            _ => return,
        };
        match self.consumer.commit(&list, CommitMode::Async) {
            Ok(()) => {
                for (partition, next) in std::mem::take(&mut self.to_commit) {
                    self.partitions.entry(partition).and_modify(|state| state.committed = next);
                }
            }
            Err(error) => tracing::debug!("offsets for lag tools were not committed: {error}"),
        }
    }

    /// Decides what an error means: the end of the source, an undecodable batch, or a wait.
    fn classify_error(&mut self, error: &KafkaError) -> Result<Polled, SourceError> {
        let code = match error {
            KafkaError::MessageConsumption(code) => *code,
            KafkaError::MessageConsumptionFatal(code) => {
                return Err(SourceError::new(format!("the Kafka client failed: {code}; start again: nothing is lost")));
            }
            other => return Ok(self.wait_out(&other.to_string())),
        };
        match code {
            RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange => Err(self.out_of_range()),
            RDKafkaErrorCode::TopicAuthorizationFailed => Err(self.topic_error(&TopicError::Refused(code))),
            RDKafkaErrorCode::UnknownTopicOrPartition
            | RDKafkaErrorCode::UnknownTopic
            | RDKafkaErrorCode::UnknownPartition => {
                self.topic_unknown_since.get_or_insert_with(Instant::now);
                if let Err(error) = self.consumer.unassign() {
                    return Err(SourceError::new(format!(
                        "cannot stop reading topic {:?}: {error}; start again: nothing is lost",
                        self.topic
                    )));
                }
                Ok(self.wait_out("the brokers do not know the topic at the moment"))
            }
            code if is_undecodable(code) => self.skip_undecodable_batch(code),
            transient => Ok(self.wait_out(&transient.to_string())),
        }
    }

    fn wait_out(&mut self, problem: &str) -> Polled {
        self.warn(problem);
        Polled::Idle
    }

    fn warn(&mut self, problem: &str) {
        if self.warnings.due() {
            let suffix = self.consumer.context().last_error.message_suffix();
            tracing::warn!("reading topic {:?}: {problem}{suffix}; trying again", self.topic);
        }
    }

    /// Finds the undecodable batch, reports it as a gap, and resumes behind it. All partitions are assigned again
    /// from their present offsets, because librdkafka itself may have skipped records.
    fn skip_undecodable_batch(&mut self, code: RDKafkaErrorCode) -> Result<Polled, SourceError> {
        let found = self.find_undecodable();
        if let Some(Incoming {
            origin, record: Record::Rejected(Rejection { gap_to: Some(end), message, .. }), ..
        }) = &found
        {
            tracing::error!(
                "topic {:?}, partition {}, from {}: {message}",
                self.topic,
                origin.partition,
                origin.offset
            );
            self.partitions.entry(origin.partition).and_modify(|state| (state.next, state.chain) = (*end, 0));
        }
        match &mut self.cautious {
            Some(cautious) => cautious.reset(),
            None => self.assign_all()?,
        }
        Ok(found.map_or_else(|| self.wait_out(&format!("cannot decode a batch: {code}")), Polled::Record))
    }

    fn find_undecodable(&mut self) -> Option<Incoming> {
        let positions: Vec<(i32, i64)> =
            self.partitions.iter().map(|(partition, state)| (*partition, state.next)).collect();
        for (partition, next) in positions {
            let batch = self
                .held_range(partition, REQUEST_MAX)
                .map_err(|error| error.to_string())
                .and_then(|held| undecodable::batch_at(&self.settings, partition, next, held.high));
            match batch {
                Ok(None) => {}
                Ok(Some(undecodable::Batch { end, why })) => {
                    let message = format!(
                        "cannot decode a batch of records ({why}); reading resumes at {end}. If the batch is too \
                         large, raise kafka.fetch_bytes_max; if it is damaged, check the brokers' disks"
                    );
                    let rejection = Rejection { gap_to: Some(end), ..Rejection::new(Reason::Undecodable, message) };
                    let origin = Origin { source: Arc::clone(&self.topic), partition, offset: next };
                    return Some(Incoming { origin, chain: 0, record: Record::Rejected(rejection) });
                }
                Err(why) => self.warn(&format!("searching for an undecodable batch: {why}")),
            }
        }
        None
    }

    fn out_of_range(&self) -> SourceError {
        let gap = |(partition, state): (&i32, &PartitionState)| {
            offsets::check_held(*partition, state.next, self.held_range(*partition, REQUEST_MAX).ok()?).err()
        };
        let gaps: Vec<Gap> = self.partitions.iter().filter_map(gap).collect();
        if gaps.is_empty() {
            let suffix = self.consumer.context().last_error.message_suffix();
            return SourceError::new(format!(
                "the broker refused an offset of topic {:?}, but accepts it now{suffix}; start again: nothing is lost",
                self.topic
            ));
        }
        self.gaps_error(&gaps)
    }

    fn gaps_error(&self, gaps: &[Gap]) -> SourceError {
        let wrong = gaps.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let stop_reasons = || gaps.iter().map(Gap::stop_reason);
        SourceError {
            stop_reason: stop_reasons()
                .find(|stop_reason| *stop_reason == StopReason::Replaced)
                .or_else(|| stop_reasons().next())
                .unwrap_or(StopReason::Failed),
            message: format!(
                "topic {:?} does not continue where the store stopped. {wrong}. Restore the topic that the store was \
                 built from, or skip those records with --accept-gap: an event will report exactly which ones. A \
                 longer retention.ms keeps records from being deleted before they are read",
                self.topic
            ),
        }
    }

    /// The error of a topic that was recreated while the source ran. No record of the new topic has been accepted.
    fn recreated_error(&self, sign: &str) -> SourceError {
        let positions = self.partitions.iter().map_while(|(partition, state)| {
            let OffsetRange { low, high } = self.held_range(*partition, REQUEST_MAX).ok()?;
            Some(format!("; partition {partition}: the next offset is {}, the broker has {low}..{high}", state.next))
        });
        let message = format!(
            "topic {:?} was recreated while it was being read: {sign}{}. No record of the new topic was accepted. \
             Restore the topic that the store was built from, or start again with --accept-gap: an event will report \
             exactly which records are missing, and the new topic is read from its beginning",
            self.topic,
            positions.collect::<String>()
        );
        SourceError { stop_reason: StopReason::Replaced, message }
    }

    fn topic_error(&self, error: &TopicError) -> SourceError {
        for _ in 0..N_FINAL_POLLS {
            // Only errors can arrive: nothing is assigned, or nothing more will be read.
            drop(self.consumer.poll(Duration::ZERO));
        }
        let last_error = &self.consumer.context().last_error;
        let message = error.explain(&self.topic, "topic", &self.settings.brokers, last_error);
        SourceError { stop_reason: error.stop_reason(last_error), message }
    }
}

impl Source for KafkaSource {
    fn poll(&mut self, timeout: Duration) -> Result<Polled, SourceError> {
        if let Some(gap) = self.accepted_gaps.pop_front() {
            return Ok(Polled::Record(gap));
        }
        self.do_housekeeping()?;
        self.advance_cautiously()?;
        let polled = self.consumer.poll(timeout);
        if let Some((was, is)) = self.id.change() {
            return Err(self.recreated_error(&format!("its id was {was} and is {is}")));
        }
        let error = match polled {
            None => return Ok(Polled::Idle),
            Some(Err(error)) => error,
            Some(Ok(message)) => {
                let (partition, offset) = (message.partition(), message.offset());
                let owned = to_owned_message(&message, self.value_bytes_max);
                let chain = identity::fingerprint(&owned);
                if let Some(state) = self.partitions.get_mut(&partition) {
                    (state.next, state.chain) = (offset + 1, chain);
                }
                self.note_reading();
                self.last_sent_ms = owned.time_ms;
                let origin = Origin { source: Arc::clone(&self.topic), partition, offset };
                let record = Record::Message(Box::new(owned), self.format.clone());
                return Ok(Polled::Record(Incoming { origin, chain, record }));
            }
        };
        if let Some(cautious) = &self.cautious {
            // A crash while brokers are away is not this batch's fault.
            cautious.guard.reading(None);
        }
        self.classify_error(&error)
    }

    /// Queues the offsets for the group's lag. [`Source::poll`] commits them to Kafka about once a second; a drop
    /// commits the rest.
    fn committed(&mut self, progress: &ProgressMap) {
        for ((source, partition), progress) in progress {
            let is_new = self.partitions.get(partition).is_some_and(|state| state.committed != progress.next_offset);
            if source.as_str() == &*self.topic && is_new {
                self.to_commit.insert(*partition, progress.next_offset);
            }
        }
    }

    /// The offsets between the last record delivered and the high watermarks, up to a second old; transaction markers
    /// count. An open transaction counts as lag until it ends.
    fn lag(&mut self) -> Option<u64> {
        self.read_statistics();
        let behind = |state: &PartitionState| u64::try_from(state.high - state.next.max(state.passed)).unwrap_or(0);
        Some(self.partitions.values().map(behind).sum())
    }

    fn readings(&mut self) -> Vec<Reading> {
        std::mem::take(&mut self.readings)
    }
}

/// The age of a record, in seconds.
fn seconds_since(sent_ms: i64) -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis() as i64);
    (now - sent_ms).max(0) as f64 / 1e3
}

/// Creates a consumer of the configured topic.
fn create_consumer(
    settings: &KafkaSettings,
    is_cautious: bool,
    id: &Arc<TopicId>,
) -> Result<BaseConsumer<SourceContext>, SourceError> {
    let config = if is_cautious { settings.cautious_config() } else { settings.consumer_config() };
    let mut config = config.map_err(|error| SourceError::new(error.to_string()))?;
    log_topic_ids(&mut config);
    config.create_with_context(SourceContext::new(&settings.topic, id)).map_err(|error| {
        SourceError::new(format!("cannot start the Kafka client: {}; check kafka.properties", explain(&error)))
    })
}

/// The message format that the settings select.
fn message_format(settings: &KafkaSettings, options: &StartOptions<'_>) -> MessageFormat {
    match settings.format {
        RecordFormat::Raw => MessageFormat::Raw(options.undo),
        RecordFormat::Json if settings.fields.is_plain() => MessageFormat::Json,
        RecordFormat::Json => MessageFormat::Mapped(Arc::new(settings.fields.clone())),
        RecordFormat::Warc => MessageFormat::Warc(options.warc),
    }
}

impl Drop for KafkaSource {
    fn drop(&mut self) {
        self.send_commits();
    }
}

/// librdkafka's own positions. They count transaction markers, which are never delivered.
fn passed_markers(consumer: &BaseConsumer<SourceContext>) -> HashMap<i32, i64> {
    let Ok(positions) = consumer.position() else { return HashMap::new() };
    positions
        .elements()
        .iter()
        .filter_map(|element| match element.offset() {
            Offset::Offset(offset) => Some((element.partition(), offset)),
            _ => None,
        })
        .collect()
}

/// Receives librdkafka's callbacks: its log, which also names the topic's id, and its statistics.
struct SourceContext {
    topic: String,
    id: Arc<TopicId>,
    last_error: LastError,
    latest: Mutex<Option<StatisticsReport>>,
}

impl SourceContext {
    fn new(topic: &str, id: &Arc<TopicId>) -> Self {
        SourceContext {
            topic: topic.into(),
            id: Arc::clone(id),
            last_error: LastError::default(),
            latest: Mutex::default(),
        }
    }

    /// Takes the last report, if there is a new one.
    fn take(&self) -> Option<StatisticsReport> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl ClientContext for SourceContext {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        match level {
            RDKafkaLogLevel::Debug => self.id.observe(line),
            level => self.last_error.record_log(level, facility, line),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.last_error.record_error(&error, reason);
    }

    fn stats_raw(&self, statistics: &[u8]) {
        if let Some(report) = parse_statistics(statistics, &self.topic) {
            *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
        }
    }
}

impl ConsumerContext for SourceContext {
    fn commit_callback(&self, result: KafkaResult<()>, _: &TopicPartitionList) {
        if let Err(error) = result {
            tracing::debug!("offsets for lag tools were not committed: {error}");
        }
    }
}
