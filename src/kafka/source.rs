//! Reads pages from a topic, each partition from the offset that the store knows.

use super::cautious::CautiousReader;
use super::client::{TopicError, held_range, set_paused};
use super::consumer::{ReadingMode, SourceContext, create_consumer};
use super::housekeeping::Housekeeping;
use super::identity;
use super::offsets::OffsetRange;
use super::positions::{PartitionState, Positions};
use super::record::to_owned_message;
use super::settings::{KafkaSettings, RecordFormat};
use super::topic_id::TopicId;
use super::tries::EarlierReaders;
use crate::document::{FetchTime, Page};
use crate::ports::{Incoming, PoisonGuard, Polled, Progress, ProgressMap, Reading, Source, SourceError};
use crate::wire::{ContentDecoder, FieldMap, Limits, MessageFormat, Origin, Record, Rejection};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaResult;
use rdkafka::{Message, Offset, TopicPartitionList};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The pause between two attempts.
pub(super) const PAUSE: Duration = Duration::from_millis(200);

/// How long one request to the brokers may hold up the stream.
pub(super) const REQUEST_MAX: Duration = Duration::from_secs(2);

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
    pub(super) consumer: BaseConsumer<SourceContext>,
    pub(super) settings: KafkaSettings,
    pub(super) topic: Arc<str>,
    /// The topic ids that the source's consumers have logged.
    pub(super) id: Arc<TopicId>,
    format: MessageFormat,
    pub(super) value_bytes_max: usize,
    /// Accepted gaps, reported before any record.
    pub(super) accepted_gaps: VecDeque<Incoming>,
    pub(super) positions: Positions,
    /// Set in cautious mode, after reading itself may have crashed the program.
    pub(super) cautious: Option<CautiousReader>,
    pub(super) housekeeping: Housekeeping,
    /// Set where the consumer group gives the partitions.
    pub(super) membership: Option<Membership>,
    /// Set where a record is to be rejected on which one member after the other crashes.
    pub(super) earlier: Option<EarlierReaders>,
}

/// What a member of the consumer group must know when it is given partitions.
pub(super) struct Membership {
    /// Whether records that no longer exist are skipped, and reported as gaps.
    pub(super) accept_gap: bool,
    /// The partitions of the topic of sketches.
    pub(super) n_partitions: usize,
}

/// The parameters of a start.
#[derive(Clone)]
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
    /// Where a JSON value holds the parts of a page, for [`RecordFormat::Json`].
    pub fields: &'a FieldMap,
    /// Parses a WARC record, for [`RecordFormat::Warc`].
    pub warc: fn(&[u8], &Limits) -> Result<Page, Rejection>,
    /// Undoes content codings, for [`RecordFormat::Raw`].
    pub undo: ContentDecoder,
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
        let mut source = Self::unassigned(settings, limits, options, None)?;
        source.locate_partitions(options)?;
        source.skip_poison_batches();
        if source.cautious.is_none() {
            source.assign_all()?;
        }
        Ok(source)
    }

    /// A source that reads nothing yet.
    pub(super) fn unassigned(
        settings: &KafkaSettings,
        limits: &Limits,
        options: &StartOptions<'_>,
        membership: Option<Membership>,
    ) -> Result<Self, SourceError> {
        let cautious = CautiousReader::new_if_needed(&options.poison_guard);
        let mode = match (&membership, &cautious) {
            (Some(_), _) => ReadingMode::Member,
            (None, Some(_)) => ReadingMode::Cautious,
            (None, None) => ReadingMode::Normal,
        };
        let id = Arc::new(TopicId::new(&settings.topic));
        let consumer = create_consumer(settings, mode, &id)?;
        let format = message_format(settings, options);
        Ok(KafkaSource {
            consumer,
            topic: settings.topic.as_str().into(),
            id,
            settings: settings.clone(),
            value_bytes_max: format.value_bytes_max(limits),
            format,
            accepted_gaps: VecDeque::new(),
            cautious,
            positions: Positions::new(),
            housekeeping: Housekeeping::new(),
            membership,
            earlier: None,
        })
    }

    /// Leaves cautious mode: reads all partitions at once again.
    pub(super) fn resume_normal_reading(&mut self) -> Result<(), SourceError> {
        self.consumer = create_consumer(&self.settings, ReadingMode::Normal, &self.id)?;
        self.assign_all()
    }

    /// Whether a partition holds more records, by its last known high watermark.
    pub(super) fn holds_more(&self, partition: i32) -> bool {
        self.positions.get(&partition).is_some_and(PartitionState::holds_more)
    }

    /// Whether a partition holds more records now; asks the broker.
    pub(super) fn has_grown(&mut self, partition: i32) -> bool {
        if let Ok(held) = self.held_range(partition, REQUEST_MAX) {
            self.positions.entry(partition).and_modify(|state| state.high = held.high);
        }
        self.holds_more(partition)
    }

    /// The next offset of every partition, except those with a gap yet to be reported. An engine that commits these
    /// before its first record makes `start = latest` survive a restart, even for partitions without a record.
    pub fn positions(&self) -> ProgressMap {
        let is_whole = |partition: i32| !self.accepted_gaps.iter().any(|gap| gap.origin.partition == partition);
        let whole = self.positions.iter().filter(|(partition, _)| is_whole(**partition));
        let position =
            |(partition, state): (&i32, &PartitionState)| ((self.topic.to_string(), *partition), state.progress());
        whole.map(position).collect()
    }

    /// The partitions whose last record read has changed.
    pub(super) fn replaced_partitions(&self, last_read: &BTreeMap<i32, Progress>) -> Result<Vec<i32>, SourceError> {
        identity::changed_partitions(
            &self.settings,
            &self.id,
            last_read,
            self.value_bytes_max,
            self.settings.connect_max(),
        )
        .map_err(|error| self.topic_error(&TopicError::Unreachable(error.to_string())))
    }

    /// The offsets that the brokers hold.
    pub(super) fn held_range(&self, partition: i32, within: Duration) -> KafkaResult<OffsetRange> {
        held_range(self.consumer.client(), &self.topic, partition, within)
    }

    pub(super) fn assign_all(&self) -> Result<(), SourceError> {
        self.assign(self.positions.keys().copied())
    }

    /// Assigns these partitions, each from its present offset.
    pub(super) fn assign(&self, partitions: impl Iterator<Item = i32>) -> Result<(), SourceError> {
        let positions = partitions.filter_map(|partition| Some((partition, self.positions.get(&partition)?.next)));
        let assigned = self.offsets(positions).and_then(|list| self.consumer.assign(&list));
        assigned.map_err(|error| {
            SourceError::new(format!("cannot read topic {:?}: {error}; check the brokers and start again", self.topic))
        })
    }

    pub(super) fn offsets(&self, offsets: impl Iterator<Item = (i32, i64)>) -> KafkaResult<TopicPartitionList> {
        let mut list = TopicPartitionList::new();
        for (partition, offset) in offsets {
            list.add_partition_offset(&self.topic, partition, Offset::Offset(offset))?;
        }
        Ok(list)
    }
}

impl Source for KafkaSource {
    fn poll(&mut self, timeout: Duration) -> Result<Polled, SourceError> {
        if let Some(gap) = self.accepted_gaps.pop_front() {
            return Ok(Polled::Record(gap));
        }
        self.follow_group()?;
        self.do_housekeeping()?;
        self.advance_cautiously()?;
        if self.waits_for_record_in_hand(timeout) {
            return Ok(Polled::Idle);
        }
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
                let mut from = offset;
                if let Some(state) = self.positions.get_mut(&partition) {
                    from = state.next;
                    (state.next, state.chain) = (offset + 1, chain);
                }
                self.note_reading();
                self.housekeeping.last_sent_ms = owned.time_ms;
                let origin = Origin { source: Arc::clone(&self.topic), partition, offset };
                let record = match self.take_in_hand(&origin, from) {
                    Some(poison) => Record::Poison(Box::new(owned), Box::new(poison)),
                    None => Record::Message(Box::new(owned), self.format.clone()),
                };
                return Ok(Polled::Record(Incoming { origin, from, chain, record }));
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
            let is_new = self.positions.get(partition).is_some_and(|state| match self.membership {
                // What an earlier assignment sent may be acknowledged late.
                Some(_) => state.committed < progress.next_offset,
                None => state.committed != progress.next_offset,
            });
            if source.as_str() == &*self.topic && is_new {
                self.housekeeping.to_commit.insert(*partition, progress.next_offset);
            }
        }
    }

    fn pause(&mut self, partition: i32, is_paused: bool) {
        set_paused(&self.consumer, &self.topic, partition, is_paused);
    }

    /// The offsets between the last record delivered and the high watermarks, up to a second old; transaction markers
    /// count. An open transaction counts as lag until it ends.
    fn lag(&mut self) -> Option<u64> {
        self.read_statistics();
        Some(self.positions.values().map(PartitionState::lag).sum())
    }

    fn readings(&mut self) -> Vec<Reading> {
        std::mem::take(&mut self.housekeeping.readings)
    }
}

/// The message format that the settings select.
fn message_format(settings: &KafkaSettings, options: &StartOptions<'_>) -> MessageFormat {
    match settings.format {
        RecordFormat::Raw => MessageFormat::Raw(options.undo),
        RecordFormat::Json if options.fields.is_plain() => MessageFormat::Json,
        RecordFormat::Json => MessageFormat::Mapped(Arc::new(options.fields.clone())),
        RecordFormat::Warc => MessageFormat::Warc(options.warc),
    }
}

impl Drop for KafkaSource {
    fn drop(&mut self) {
        self.send_commits();
    }
}
