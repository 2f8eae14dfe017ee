//! Pages from a topic, each partition from the offset that the store knows.

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
use crate::wire::{Limits, MessageFormat, Origin, Reason, Record, Rejection, UndoCodings};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::types::RDKafkaErrorCode;
use rdkafka::{ClientContext, Message, Offset, TopicPartitionList};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often commits go out, and new partitions and a lost topic are looked for.
const CHORES_EVERY: Duration = Duration::from_secs(1);

/// How often trouble that may pass is warned of.
const WARN_EVERY: Duration = Duration::from_secs(5);

/// How often a new partition that could not be assigned is tried again.
const ADOPT_EVERY: Duration = Duration::from_secs(10);

/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(200);

/// How long a question may hold up the stream once it flows.
const ASK_MAX: Duration = Duration::from_secs(2);

/// How long each question may take whether an unknown topic is back.
const ASK_AGAIN_MAX: Duration = Duration::from_millis(500);

/// How long a topic may be unknown to the brokers, as it is for a moment after they restart, before it is lost.
const LOST_AFTER: Duration = Duration::from_secs(10);

/// Pages from a Kafka topic.
///
/// Partitions are assigned from the store's offsets; no group is joined, so two programs on one topic both read all of
/// it. Within a partition offsets may skip: transaction markers and compacted records have one and are never seen.
///
/// The source stops, with an error that says which offset is stored and what the broker has, where retention overtook it
/// or the topic was made anew, which shows by its offsets, by the last record taken in being another one, or while it is
/// read by its id. An operator may accept such a gap; then it is the first thing that the source tells after a start.
pub struct KafkaSource {
    consumer: BaseConsumer<ConsumerWatch>,
    pub(super) settings: KafkaSettings,
    pub(super) topic: Arc<str>,
    /// What its consumers, one after the other, were told of the topic's id.
    id: Arc<TopicId>,
    format: MessageFormat,
    value_bytes_max: usize,
    /// Gaps that are told before anything else.
    pub(super) accepted: VecDeque<Incoming>,
    pub(super) partitions: BTreeMap<i32, PartitionState>,
    /// Where reading may be the death of the program.
    pub(super) wary: Option<CautiousReader>,
    /// When the last record handed out was sent, in milliseconds since 1970.
    last_sent_ms: Option<i64>,
    unreachable_since: Option<Instant>,
    /// Partitions that are there and not read yet.
    unknown: Vec<i32>,
    readings: Vec<Reading>,
    to_commit: BTreeMap<i32, i64>,
    chores: Throttle,
    warnings: Throttle,
    adoptions: Throttle,
    /// Since when the brokers do not know the topic. Nothing is assigned meanwhile: what comes back may be another one.
    unknown_since: Option<Instant>,
}

/// How to begin.
pub struct StartOptions<'a> {
    /// How far the store has come.
    pub stored: &'a ProgressMap,
    /// Begins a topic that the store knows nothing of with the first record of this time or later.
    pub since: Option<FetchTime>,
    /// Begins with a new store, although the group has been here before.
    pub bootstrap: bool,
    /// Goes on behind records that cannot be had any more, and tells of each such gap.
    pub accept_gap: bool,
    /// What earlier processes died of.
    pub care: Arc<dyn PoisonGuard>,
    /// Reads a WARC record, for [`RecordFormat::Warc`].
    pub warc: fn(&[u8], &Limits) -> Result<Page, Rejection>,
    /// Undoes content codings, for [`RecordFormat::Raw`].
    pub undo: UndoCodings,
}

/// How far a partition has been read.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartitionState {
    /// The offset of the next record.
    pub(super) next: i64,
    /// The fingerprint of the last record, where it is known.
    pub(super) chain: u64,
    /// The last high watermark heard of.
    pub(super) high: i64,
    /// How far librdkafka has come: it counts transaction markers, which are never handed out.
    passed: i64,
    /// What is already committed for lag tools.
    committed: i64,
}

impl PartitionState {
    fn from(next: i64, held: OffsetRange) -> Self {
        PartitionState { next, chain: 0, high: held.high, passed: next, committed: -1 }
    }
}

impl KafkaSource {
    /// Finds the topic's partitions and begins each where `stored` says, or where `settings.start` says if it says
    /// nothing of the topic. A partition that it does not know in a topic that it does is begun at its oldest record.
    ///
    /// # Errors
    /// [`SourceError`] where the settings are wrong, no broker answers, the topic is missing, the store is new and the
    /// group is not, or the broker no longer has what the store needs next.
    pub fn open(settings: &KafkaSettings, limits: &Limits, beginning: &StartOptions<'_>) -> Result<Self, SourceError> {
        settings.check().map_err(|error| SourceError::new(error.to_string()))?;
        let wary = CautiousReader::of(&beginning.care);
        let id = Arc::new(TopicId::new(&settings.topic));
        let consumer = consumer_of(settings, wary.is_some(), &id)?;
        let format = format_of(settings, beginning);
        let mut source = KafkaSource {
            consumer,
            topic: settings.topic.as_str().into(),
            id,
            settings: settings.clone(),
            value_bytes_max: format.value_bytes_max(limits),
            format,
            accepted: VecDeque::new(),
            wary,
            partitions: BTreeMap::new(),
            last_sent_ms: None,
            unreachable_since: None,
            unknown: Vec::new(),
            readings: Vec::new(),
            to_commit: BTreeMap::new(),
            chores: Throttle::every(CHORES_EVERY),
            warnings: Throttle::every(WARN_EVERY),
            adoptions: Throttle::every(ADOPT_EVERY),
            unknown_since: None,
        };
        source.begin(beginning)?;
        source.skip_poison_batches();
        if source.wary.is_none() {
            source.assign_all()?;
        }
        Ok(source)
    }

    /// Reads all partitions at once from now on.
    pub(super) fn begin_anew(&mut self) -> Result<(), SourceError> {
        self.consumer = consumer_of(&self.settings, false, &self.id)?;
        self.assign_all()
    }

    /// Whether a partition held more when it was last asked.
    pub(super) fn holds_more(&self, partition: i32) -> bool {
        self.partitions.get(&partition).is_some_and(|place| place.next.max(place.passed) < place.high)
    }

    /// Whether a partition holds more now.
    pub(super) fn has_grown(&mut self, partition: i32) -> bool {
        if let Ok(held) = self.held(partition, ASK_MAX) {
            self.partitions.entry(partition).and_modify(|place| place.high = held.high);
        }
        self.holds_more(partition)
    }

    /// The offset of the next record of every partition, but for those with a gap to be told first. An engine that
    /// commits these before its first record makes `start = latest` hold across a restart for partitions that nothing
    /// came from.
    pub fn positions(&self) -> ProgressMap {
        let is_whole = |partition: i32| !self.accepted.iter().any(|gap| gap.origin.partition == partition);
        let whole = self.partitions.iter().filter(|(partition, _)| is_whole(**partition));
        let position = |(partition, place): (&i32, &PartitionState)| {
            ((self.topic.to_string(), *partition), Progress { next_offset: place.next, chain: place.chain })
        };
        whole.map(position).collect()
    }

    /// Decides where each partition is begun.
    fn begin(&mut self, beginning: &StartOptions<'_>) -> Result<(), SourceError> {
        let settings = self.settings.clone();
        let stored = StoredPositions::from_progress(beginning.stored, &settings.topic);
        let until = Instant::now() + settings.connect_max();
        let partitions = partitions_of(self.consumer.client(), &self.topic, settings.connect_max())
            .map_err(|error| self.topic_lost(&error))?;
        let since = beginning.since.filter(|_| stored.0.is_empty());
        if stored.0.is_empty() && since.is_none() && !beginning.bootstrap {
            self.refuse_a_known_group(&partitions, until)?;
        }
        let mut gaps = stored.missing_partitions(&partitions);
        // Looking at the record before would fetch the one behind as well.
        let is_blind = stored.0.is_empty() || self.wary.is_some();
        let known = stored.0.iter().filter(|(partition, _)| partitions.contains(partition));
        let known = known.map(|(partition, progress)| (*partition, *progress)).collect();
        let replaced = if is_blind { Vec::new() } else { self.replaced(&known)? };
        for partition in partitions {
            let held = self
                .held(partition, until.saturating_duration_since(Instant::now()).max(ASK_MAX))
                .map_err(|error| self.topic_lost(&TopicError::Unreachable(error.to_string())))?;
            let begun = match (since, stored.start_offset(partition, settings.start, held)) {
                (Some(time), _) => Ok(self.first_since(time, partition, held, beginning.accept_gap)?),
                (None, Ok(next)) if replaced.contains(&partition) => {
                    Err(Gap { partition, next, held: Some(held), why: GapReason::Replaced })
                }
                (None, begun) => begun,
            };
            let next = begun.unwrap_or_else(|gap| {
                gaps.push(gap);
                held.low
            });
            let chain = stored.0.get(&partition).map_or(0, |progress| progress.chain);
            self.partitions.insert(partition, PartitionState { chain, ..PartitionState::from(next, held) });
        }
        if !gaps.is_empty() && !beginning.accept_gap {
            return Err(self.not_as_stored(&gaps));
        }
        self.accepted = gaps.iter().map(|gap| self.accepted(gap)).collect();
        Ok(())
    }

    /// The offset of a partition's first record of a time or later; behind the newest where there is none. What the broker
    /// held was asked for before, so that no record that comes meanwhile is passed over.
    fn first_since(
        &self,
        time: FetchTime,
        partition: i32,
        held: OffsetRange,
        accepts: bool,
    ) -> Result<i64, SourceError> {
        let unreachable = |error: KafkaError| self.topic_lost(&TopicError::Unreachable(error.to_string()));
        let asked = self.offsets([(partition, offsets::milliseconds(time))].into_iter()).map_err(unreachable)?;
        let found = self.consumer.offsets_for_times(asked, self.settings.connect_max()).map_err(unreachable)?;
        let found = found.elements().into_iter().find_map(|element| match (element.error(), element.offset()) {
            (Err(error), _) => Some(Err(error)),
            (Ok(()), Offset::Offset(offset)) => Some(Ok(offset)),
            (Ok(()), _) => None,
        });
        let begun = offsets::start_at_time(found.transpose().map_err(unreachable)?, held);
        let next =
            begun.or_else(
                |oldest| if accepts { Ok(oldest) } else { Err(self.perhaps_overtaken(time, partition, oldest)) },
            )?;
        tracing::info!("topic {:?}, partition {partition}: from {time} on, which is offset {next}", self.topic);
        Ok(next)
    }

    fn perhaps_overtaken(&self, time: FetchTime, partition: i32, oldest: i64) -> SourceError {
        SourceError {
            stop_reason: StopReason::Overtaken,
            message: format!(
                "topic {:?} is to be read from {time} on, and of partition {partition} the broker has deleted all records \
                 below {oldest} and holds none that is older than that: some may have been deleted that should be read. \
                 Begin with what there is by --accept-gap, or backfill what is missing",
                self.topic
            ),
        }
    }

    /// What the source tells of a gap that somebody accepted.
    fn accepted(&self, gap: &Gap) -> Incoming {
        tracing::warn!("topic {:?}: accepted: {gap}", self.topic);
        let origin = Origin { source: Arc::clone(&self.topic), partition: gap.partition, offset: gap.next };
        Incoming { origin, chain: 0, record: Record::Rejected(gap.rejection()) }
    }

    /// A new store under the name of a group that has been here: most likely the store is not where it should be.
    fn refuse_a_known_group(&self, partitions: &[i32], until: Instant) -> Result<(), SourceError> {
        let committed = self
            .committed(partitions, until)
            .map_err(|error| self.topic_lost(&TopicError::Unreachable(error.to_string())))?;
        let known = committed.elements().iter().find_map(|element| match element.offset() {
            Offset::Offset(offset) => Some((element.partition(), offset)),
            _ => None,
        });
        let Some((partition, offset)) = known else { return Ok(()) };
        Err(SourceError {
            stop_reason: StopReason::NoStore,
            message: format!(
                "the store is new, but the group {:?} has read topic {:?} before (partition {partition} up to {offset}): is \
                 the store where it was? Give --store the old one; or begin anew with this one by --bootstrap, and with new \
                 topics for what goes out (kafka.events_topic, kafka.assignments_topic, kafka.merges_topic, then \
                 `lookalike topics create`), for the events of the old store are in the others",
                self.settings.group, self.topic
            ),
        })
    }

    /// The group's offsets. Brokers that have just started do not know yet who keeps them.
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

    /// The partitions that hold another record than the one last taken in.
    fn replaced(&self, taken: &BTreeMap<i32, Progress>) -> Result<Vec<i32>, SourceError> {
        identity::changed_partitions(&self.settings, &self.id, taken, self.value_bytes_max, self.settings.connect_max())
            .map_err(|error| self.topic_lost(&TopicError::Unreachable(error.to_string())))
    }

    fn held(&self, partition: i32, within: Duration) -> KafkaResult<OffsetRange> {
        let (low, high) = self.consumer.fetch_watermarks(&self.topic, partition, within)?;
        Ok(OffsetRange { low, high })
    }

    fn assign_all(&self) -> Result<(), SourceError> {
        self.assign(self.partitions.keys().copied())
    }

    /// Reads these partitions, each from where it stands.
    pub(super) fn assign(&self, partitions: impl Iterator<Item = i32>) -> Result<(), SourceError> {
        let places = partitions.filter_map(|partition| Some((partition, self.partitions.get(&partition)?.next)));
        let assigned = self.offsets(places).and_then(|list| self.consumer.assign(&list));
        assigned.map_err(|error| SourceError::new(format!("the topic {:?} cannot be assigned: {error}", self.topic)))
    }

    fn offsets(&self, offsets: impl Iterator<Item = (i32, i64)>) -> KafkaResult<TopicPartitionList> {
        let mut list = TopicPartitionList::new();
        for (partition, offset) in offsets {
            list.add_partition_offset(&self.topic, partition, Offset::Offset(offset))?;
        }
        Ok(list)
    }

    fn do_chores(&mut self) -> Result<(), SourceError> {
        if !self.chores.due() {
            return Ok(());
        }
        self.send_commits();
        self.take_in_statistics();
        if !self.unknown.is_empty() && self.unknown_since.is_none() && self.adoptions.due() {
            std::mem::take(&mut self.unknown).into_iter().for_each(|partition| self.adopt(partition));
        }
        self.measure_lag();
        self.look_for_lost_brokers()?;
        self.look_for_lost_topic()
    }

    /// Updates the high watermarks, and notes the partitions that are not read yet.
    fn take_in_statistics(&mut self) {
        let Some(told) = self.consumer.context().take() else { return };
        if told.is_any_up {
            self.unreachable_since = None;
        } else {
            self.unreachable_since.get_or_insert_with(Instant::now);
        }
        self.unknown.clear();
        for (partition, high) in told.partitions {
            match self.partitions.get_mut(&partition) {
                Some(place) => place.high = place.high.max(high),
                None => self.unknown.push(partition),
            }
        }
        self.readings = told.readings;
    }

    /// Learns of passed transaction markers, and says how old the last record is.
    fn measure_lag(&mut self) {
        for (partition, passed) in passed_markers(&self.consumer) {
            self.partitions.entry(partition).and_modify(|place| place.passed = passed);
        }
        let seconds = if self.lag() == Some(0) { 0.0 } else { self.last_sent_ms.map_or(0.0, seconds_since) };
        self.readings.push(Reading::new("lookalike_lag_seconds", Vec::new(), seconds));
    }

    /// Brokers may be away for a while; for how long is the operator's choice.
    fn look_for_lost_brokers(&self) -> Result<(), SourceError> {
        if self.unreachable_since.is_none_or(|since| since.elapsed() < self.settings.delivery_max()) {
            return Ok(());
        }
        let last_error = &self.consumer.context().last_error;
        let (stop_reason, advice) = last_error.diagnose_unreachable();
        Err(SourceError {
            stop_reason,
            message: format!(
                "no broker of {} was there for {} s{}; {advice}, and start again: nothing is lost. How long to wait is set \
                 by kafka.delivery_ms_max",
                self.settings.brokers,
                self.settings.delivery_max().as_secs(),
                last_error.message_suffix()
            ),
        })
    }

    /// Begins to read a partition that was added to the topic.
    fn adopt(&mut self, partition: i32) {
        let adopted = self.held(partition, ASK_MAX).and_then(|held| {
            let list = self.offsets([(partition, held.low)].into_iter())?;
            self.consumer.incremental_assign(&list)?;
            Ok(PartitionState::from(held.low, held))
        });
        match adopted {
            Ok(place) => {
                tracing::info!("topic {:?} has a new partition {partition}, read from {}", self.topic, place.next);
                self.partitions.insert(partition, place);
            }
            Err(error) => self.warn(&format!("the new partition {partition} cannot be read yet: {error}")),
        }
    }

    /// A topic that the brokers do not know may be a broker that just came up; only if it stays away is it lost. If it
    /// comes back as it was it is read on.
    fn look_for_lost_topic(&mut self) -> Result<(), SourceError> {
        let Some(since) = self.unknown_since else { return Ok(()) };
        match partitions_of(self.consumer.client(), &self.topic, ASK_AGAIN_MAX) {
            Err(error @ (TopicError::Missing | TopicError::Refused(_))) if since.elapsed() >= LOST_AFTER => {
                Err(self.topic_lost(&error))
            }
            Err(_) => Ok(()),
            Ok(_) => self.read_again(),
        }
    }

    /// Reads a topic on that was away for a while, unless the last records taken in are other ones.
    fn read_again(&mut self) -> Result<(), SourceError> {
        if let Some(wary) = &mut self.wary {
            wary.begin_anew();
        } else {
            let taken = |place: &PartitionState| Progress { next_offset: place.next, chain: place.chain };
            let taken = self.partitions.iter().map(|(partition, place)| (*partition, taken(place))).collect();
            let replaced = match self.replaced(&taken) {
                Ok(replaced) => replaced,
                Err(error) => {
                    self.warn(&error.to_string());
                    return Ok(());
                }
            };
            if !replaced.is_empty() {
                return Err(self.made_anew(&format!("the last records of partitions {replaced:?} are other ones")));
            }
            self.assign_all()?;
        }
        self.unknown_since = None;
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
                    self.partitions.entry(partition).and_modify(|place| place.committed = next);
                }
            }
            Err(error) => tracing::debug!("offsets for lag tools were not committed: {error}"),
        }
    }

    /// What an error means: the end, a part that cannot be read, or patience.
    fn judge(&mut self, error: &KafkaError) -> Result<Polled, SourceError> {
        let code = match error {
            KafkaError::MessageConsumption(code) => *code,
            KafkaError::MessageConsumptionFatal(code) => {
                return Err(SourceError::new(format!("Kafka's client gave up: {code}; restart to go on")));
            }
            other => return Ok(self.wait_out(&other.to_string())),
        };
        match code {
            RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange => Err(self.out_of_range()),
            RDKafkaErrorCode::TopicAuthorizationFailed => Err(self.topic_lost(&TopicError::Refused(code))),
            RDKafkaErrorCode::UnknownTopicOrPartition
            | RDKafkaErrorCode::UnknownTopic
            | RDKafkaErrorCode::UnknownPartition => {
                self.unknown_since.get_or_insert_with(Instant::now);
                if let Err(error) = self.consumer.unassign() {
                    return Err(SourceError::new(format!("the topic {:?} cannot be let go: {error}", self.topic)));
                }
                Ok(self.wait_out("the brokers do not know the topic just now"))
            }
            code if is_undecodable(code) => self.pass_over(code),
            passing => Ok(self.wait_out(&passing.to_string())),
        }
    }

    fn wait_out(&mut self, problem: &str) -> Polled {
        self.warn(problem);
        Polled::Idle
    }

    fn warn(&mut self, problem: &str) {
        if self.warnings.due() {
            let told = self.consumer.context().last_error.message_suffix();
            tracing::warn!("reading topic {:?}: {problem}{told}; going on", self.topic);
        }
    }

    /// Finds the batch that cannot be unpacked, tells of it, and reads on behind it. Every partition is begun anew where
    /// it stands: librdkafka itself may have passed over something.
    fn pass_over(&mut self, code: RDKafkaErrorCode) -> Result<Polled, SourceError> {
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
            self.partitions.entry(origin.partition).and_modify(|place| (place.next, place.chain) = (*end, 0));
        }
        match &mut self.wary {
            Some(wary) => wary.begin_anew(),
            None => self.assign_all()?,
        }
        Ok(found.map_or_else(|| self.wait_out(&format!("a batch that cannot be unpacked: {code}")), Polled::Record))
    }

    fn find_undecodable(&mut self) -> Option<Incoming> {
        let places: Vec<(i32, i64)> =
            self.partitions.iter().map(|(partition, place)| (*partition, place.next)).collect();
        for (partition, next) in places {
            let batch = self
                .held(partition, ASK_MAX)
                .map_err(|error| error.to_string())
                .and_then(|held| undecodable::batch_at(&self.settings, partition, next, held.high));
            match batch {
                Ok(None) => {}
                Ok(Some(undecodable::Batch { end, why })) => {
                    let message = format!(
                        "a batch of records cannot be unpacked ({why}), reading goes on at {end}; where it is too large raise \
                         kafka.fetch_bytes_max, where it is damaged look at the brokers' disks"
                    );
                    let rejection = Rejection { gap_to: Some(end), ..Rejection::new(Reason::Undecodable, message) };
                    let origin = Origin { source: Arc::clone(&self.topic), partition, offset: next };
                    return Some(Incoming { origin, chain: 0, record: Record::Rejected(rejection) });
                }
                Err(why) => self.warn(&format!("looking for a batch that cannot be unpacked: {why}")),
            }
        }
        None
    }

    fn out_of_range(&self) -> SourceError {
        let gap = |(partition, place): (&i32, &PartitionState)| {
            offsets::check_held(*partition, place.next, self.held(*partition, ASK_MAX).ok()?).err()
        };
        let gaps: Vec<Gap> = self.partitions.iter().filter_map(gap).collect();
        if gaps.is_empty() {
            let told = self.consumer.context().last_error.message_suffix();
            return SourceError::new(format!(
                "the broker refused an offset of topic {:?} and takes it now{told}; start again",
                self.topic
            ));
        }
        self.not_as_stored(&gaps)
    }

    fn not_as_stored(&self, gaps: &[Gap]) -> SourceError {
        let wrong = gaps.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let halts = || gaps.iter().map(Gap::stop_reason);
        SourceError {
            stop_reason: halts()
                .find(|stop_reason| *stop_reason == StopReason::Replaced)
                .or_else(|| halts().next())
                .unwrap_or(StopReason::Failed),
            message: format!(
                "topic {:?} does not go on where the store stopped. {wrong}. Bring back the topic that the store was made \
                 from, or go on without those records by --accept-gap: an event will say exactly which they were. A longer \
                 retention.ms keeps records from being deleted before they are read",
                self.topic
            ),
        }
    }

    /// The topic was made anew while it was read: nothing of the new one was taken.
    fn made_anew(&self, sign: &str) -> SourceError {
        let places = self.partitions.iter().map_while(|(partition, place)| {
            let OffsetRange { low, high } = self.held(*partition, ASK_MAX).ok()?;
            Some(format!("; partition {partition}: the next offset is {}, the broker has {low}..{high}", place.next))
        });
        let message = format!(
            "topic {:?} was made anew while it was read: {sign}{}. Nothing of the new one was taken in. Bring back the topic \
             that the store was made from, or start again with --accept-gap: an event will say exactly which records are \
             missing, and the new topic is read from its beginning",
            self.topic,
            places.collect::<String>()
        );
        SourceError { stop_reason: StopReason::Replaced, message }
    }

    fn topic_lost(&self, error: &TopicError) -> SourceError {
        for _ in 0..N_FINAL_POLLS {
            // Only errors can come: there is nothing assigned, or nothing will be read any more.
            drop(self.consumer.poll(Duration::ZERO));
        }
        let last_error = &self.consumer.context().last_error;
        let message = error.explain(&self.topic, "topic", &self.settings.brokers, last_error);
        SourceError { stop_reason: error.stop_reason(last_error), message }
    }
}

impl Source for KafkaSource {
    fn poll(&mut self, timeout: Duration) -> Result<Polled, SourceError> {
        if let Some(gap) = self.accepted.pop_front() {
            return Ok(Polled::Record(gap));
        }
        self.do_chores()?;
        self.go_warily()?;
        let polled = self.consumer.poll(timeout);
        if let Some((was, is)) = self.id.change() {
            return Err(self.made_anew(&format!("its id was {was} and is {is}")));
        }
        let error = match polled {
            None => return Ok(Polled::Idle),
            Some(Err(error)) => error,
            Some(Ok(message)) => {
                let (partition, offset) = (message.partition(), message.offset());
                let taken = to_owned_message(&message, self.value_bytes_max);
                let chain = identity::fingerprint(&taken);
                if let Some(place) = self.partitions.get_mut(&partition) {
                    (place.next, place.chain) = (offset + 1, chain);
                }
                self.note_reading();
                self.last_sent_ms = taken.time_ms;
                let origin = Origin { source: Arc::clone(&self.topic), partition, offset };
                let record = Record::Message(Box::new(taken), self.format.clone());
                return Ok(Polled::Record(Incoming { origin, chain, record }));
            }
        };
        if let Some(wary) = &self.wary {
            // Whatever may happen while brokers are away is not this batch's doing.
            wary.care.reading(None);
        }
        self.judge(&error)
    }

    /// Notes the offsets for the group's lag; they go to Kafka about once a second, from [`Source::poll`], and when the
    /// source is dropped.
    fn committed(&mut self, progress: &ProgressMap) {
        for ((source, partition), progress) in progress {
            let is_news = self.partitions.get(partition).is_some_and(|place| place.committed != progress.next_offset);
            if source.as_str() == &*self.topic && is_news {
                self.to_commit.insert(*partition, progress.next_offset);
            }
        }
    }

    /// Records and transaction markers between what was handed out and the high watermarks, as of up to a second
    /// ago. An open transaction counts as lag until it ends.
    fn lag(&mut self) -> Option<u64> {
        self.take_in_statistics();
        let behind = |place: &PartitionState| u64::try_from(place.high - place.next.max(place.passed)).unwrap_or(0);
        Some(self.partitions.values().map(behind).sum())
    }

    fn readings(&mut self) -> Vec<Reading> {
        std::mem::take(&mut self.readings)
    }
}

/// How long ago a record was sent that has just been taken, in seconds.
fn seconds_since(sent_ms: i64) -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis() as i64);
    (now - sent_ms).max(0) as f64 / 1e3
}

/// A consumer of the settings' topic.
fn consumer_of(
    settings: &KafkaSettings,
    is_cautious: bool,
    id: &Arc<TopicId>,
) -> Result<BaseConsumer<ConsumerWatch>, SourceError> {
    let config = if is_cautious { settings.cautious_config() } else { settings.consumer_config() };
    let mut config = config.map_err(|error| SourceError::new(error.to_string()))?;
    log_topic_ids(&mut config);
    config.create_with_context(ConsumerWatch::of(&settings.topic, id)).map_err(|error| {
        SourceError::new(format!("cannot start the Kafka client: {}; check kafka.properties", explain(&error)))
    })
}

/// How pages stand in the messages.
fn format_of(settings: &KafkaSettings, beginning: &StartOptions<'_>) -> MessageFormat {
    match settings.format {
        RecordFormat::Raw => MessageFormat::Raw(beginning.undo),
        RecordFormat::Json if settings.fields.is_plain() => MessageFormat::Json,
        RecordFormat::Json => MessageFormat::Mapped(Arc::new(settings.fields.clone())),
        RecordFormat::Warc => MessageFormat::Warc(beginning.warc),
    }
}

impl Drop for KafkaSource {
    fn drop(&mut self) {
        self.send_commits();
    }
}

/// librdkafka's own positions: they count transaction markers, which are never handed out.
fn passed_markers(consumer: &BaseConsumer<ConsumerWatch>) -> HashMap<i32, i64> {
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

/// Listens to librdkafka: its log, for the topic's id too, and its statistics for the partitions there are and their high
/// watermarks.
struct ConsumerWatch {
    topic: String,
    id: Arc<TopicId>,
    last_error: LastError,
    latest: Mutex<Option<StatisticsReport>>,
}

impl ConsumerWatch {
    fn of(topic: &str, id: &Arc<TopicId>) -> Self {
        ConsumerWatch {
            topic: topic.into(),
            id: Arc::clone(id),
            last_error: LastError::default(),
            latest: Mutex::default(),
        }
    }

    /// The last report, if there is news.
    fn take(&self) -> Option<StatisticsReport> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl ClientContext for ConsumerWatch {
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
        if let Some(told) = parse_statistics(statistics, &self.topic) {
            *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(told);
        }
    }
}

impl ConsumerContext for ConsumerWatch {
    fn commit_callback(&self, result: KafkaResult<()>, _: &TopicPartitionList) {
        if let Err(error) = result {
            tracing::debug!("offsets for lag tools were not committed: {error}");
        }
    }
}
