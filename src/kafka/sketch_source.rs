//! Reads sketched records for the owner of a store: takes each record of the topic of pages once, in order, and stops where
//! one is missing.

use super::client::TopicError;
use super::offsets::{GapReason, OffsetRange};
use super::settings::{KafkaSettings, RecordFormat, SettingsError, Start};
use super::source::{KafkaSource, REQUEST_MAX, StartOptions};
use crate::document::Fingerprint;
use crate::intake::{Continuity, SketchHeader, SketchMessageError};
use crate::ports::{Incoming, PoisonGuard, Polled, Progress, ProgressMap, Reading, Source, SourceError, StopReason};
use crate::wire::{Limits, Message, Origin, Record};
use rdkafka::Offset;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The suffix of the consumer group whose offsets show how far the owner has come in the topic of sketches.
const GROUP_SUFFIX: &str = "-owner";

/// Sketches dropped in one poll, so that a shutdown is noticed meanwhile.
const DROPPED_MAX: usize = 1_000;

/// The sketches of a topic of pages.
///
/// Progress is that of the pages: what the store has taken of the topic of pages decides which sketch it takes next, so
/// a store goes on with sketches where it stopped with pages, and the other way round. The topic of sketches is a cache.
/// Offsets in it are committed for lag tools and to skip, at the next start, what is certainly durable.
pub struct KafkaSketchSource {
    sketches: KafkaSource,
    pages: KafkaSettings,
    topic: Arc<str>,
    rule: Fingerprint,
    partitions: BTreeMap<i32, PartitionState>,
    /// Partitions whose next record is searched for, and where the search ends. It begins at the oldest sketch: behind a
    /// hole, the sketchers may have begun again.
    searches: BTreeMap<i32, i64>,
    n_dropped: u64,
}

/// The parameters of the owner's start.
pub struct OwnerOptions<'a> {
    /// As for a source of pages; the poison guard, too, is about pages.
    pub start: StartOptions<'a>,
    /// The id of the settings under which records must have been sketched.
    pub rule: Fingerprint,
}

/// A partition of the topic of pages, as the owner knows it.
struct PartitionState {
    /// Everything below was taken.
    progress: Progress,
    /// For each record taken and not known to be durable: behind it in the pages, and behind its sketch.
    in_flight: VecDeque<(i64, i64)>,
}

/// What to do with a sketch.
enum Verdict {
    Take(SketchHeader),
    Drop,
    Search,
}

impl KafkaSketchSource {
    /// Starts each partition at the stored progress of the pages. Where the store knows nothing of them, it starts as a
    /// source of pages would.
    ///
    /// # Errors
    /// [`SourceError`] if the settings are wrong, no broker answers, a topic is missing, the two topics have different
    /// numbers of partitions, or the topic of pages is another one than before.
    pub fn open(settings: &KafkaSettings, limits: &Limits, options: &OwnerOptions<'_>) -> Result<Self, SourceError> {
        settings.check().map_err(|error| SourceError::new(error.to_string()))?;
        if settings.sketches_topic.is_empty() {
            return Err(SourceError::new(SettingsError::Empty("sketches_topic").to_string()));
        }
        let positions = page_positions(settings, limits, &options.start)?;
        let sketch_settings = KafkaSettings {
            topic: settings.sketches_topic.clone(),
            sketches_topic: String::new(),
            group: format!("{}{GROUP_SUFFIX}", settings.group),
            format: RecordFormat::Raw,
            start: Start::Earliest,
            ..settings.clone()
        };
        let nothing = ProgressMap::new();
        let start = StartOptions {
            stored: &nothing,
            since: None,
            bootstrap: true,
            accept_gap: true,
            poison_guard: Arc::new(NoGuard),
            ..options.start.clone()
        };
        // A message is read whole, whatever the limits of a page.
        let limits = Limits { body_bytes_max: usize::MAX, ..limits.clone() };
        let mut sketches = KafkaSource::unassigned(&sketch_settings, &limits, &start, None)?;
        sketches.common_partitions(settings)?;
        sketches.locate_partitions(&start)?;
        let mut source = KafkaSketchSource {
            sketches,
            pages: settings.clone(),
            topic: settings.topic.as_str().into(),
            rule: options.rule,
            partitions: positions.into_iter().map(|(partition, at)| (partition, PartitionState::new(at))).collect(),
            searches: BTreeMap::new(),
            n_dropped: 0,
        };
        source.skip_durable()?;
        source.sketches.assign_all()?;
        Ok(source)
    }

    /// The next offset of every partition of the topic of pages.
    pub fn positions(&self) -> ProgressMap {
        let position =
            |(partition, state): (&i32, &PartitionState)| ((self.topic.to_string(), *partition), state.progress);
        self.partitions.iter().map(position).collect()
    }

    /// Moves on to where the group stands. An offset that the topic does not have counts for nothing.
    fn skip_durable(&mut self) -> Result<(), SourceError> {
        let until = Instant::now() + self.pages.connect_max();
        let partitions: Vec<i32> = self.sketches.positions.keys().copied().collect();
        let committed = self.sketches.group_offsets(&partitions, until);
        let committed =
            committed.map_err(|error| self.sketches.topic_error(&TopicError::Unreachable(error.to_string())))?;
        for element in committed.elements() {
            let Offset::Offset(offset) = element.offset() else { continue };
            if let Some(state) = self.sketches.positions.get_mut(&element.partition())
                && (state.next..=state.high).contains(&offset)
            {
                (state.next, state.passed, state.committed) = (offset, offset, offset);
            }
        }
        Ok(())
    }

    /// Decides about a sketch, and takes note of it.
    fn judge(&mut self, partition: i32, offset: i64, message: &Message) -> Result<Verdict, SourceError> {
        let bytes = message.value.as_deref().unwrap_or_default();
        let (header, rule) = SketchHeader::read(bytes, self.rule)
            .map_err(|error| self.other_sketches_error(partition, offset, error))?;
        let state = self.partitions.entry(partition).or_insert_with(|| PartitionState::new(Progress::default()));
        let (next, chain) = (state.progress.next_offset, state.progress.chain);
        match header.continuity(next) {
            Continuity::Repeats => {
                if header.next == next && chain != 0 && header.chain != 0 && header.chain != chain {
                    let sign = format!("partition {partition}: record {} has changed", header.offset);
                    return Err(replaced_error(&self.pages, &sign));
                }
                self.n_dropped += 1;
                state.pass(offset + 1);
                Ok(Verdict::Drop)
            }
            Continuity::Skips => Ok(Verdict::Search),
            Continuity::Continues => {
                rule.map_err(|error| self.other_sketches_error(partition, offset, error))?;
                Ok(Verdict::Take(header))
            }
        }
    }

    fn accept(&mut self, incoming: Incoming) -> Result<Option<Incoming>, SourceError> {
        let Origin { partition, offset, .. } = incoming.origin;
        let Record::Message(message, _) = incoming.record else {
            // Sketches that cannot be unpacked show as a hole behind them.
            return Ok(None);
        };
        match self.judge(partition, offset, &message)? {
            Verdict::Drop => {}
            Verdict::Search => self.search(partition)?,
            Verdict::Take(header) => {
                let state =
                    self.partitions.entry(partition).or_insert_with(|| PartitionState::new(Progress::default()));
                let from = state.progress.next_offset;
                state.progress = Progress { next_offset: header.next, chain: header.chain };
                state.in_flight.push_back((header.next, offset + 1));
                self.searches.remove(&partition);
                // Of a gap, a part may have been taken already.
                let origin = Origin { source: Arc::clone(&self.topic), partition, offset: header.offset.max(from) };
                let record = Record::Sketched(message.value.unwrap_or_default());
                return Ok(Some(Incoming { origin, from, chain: header.chain, record }));
            }
        }
        Ok(None)
    }

    /// Looks for the next record among all sketches of a partition.
    fn search(&mut self, partition: i32) -> Result<(), SourceError> {
        if self.searches.contains_key(&partition) {
            return Ok(());
        }
        let held = self
            .sketches
            .held_range(partition, REQUEST_MAX)
            .map_err(|error| self.sketches.topic_error(&TopicError::Unreachable(error.to_string())))?;
        self.searches.insert(partition, held.high);
        let OffsetRange { low, high } = held;
        let topic = &self.sketches.topic;
        tracing::info!("topic {topic:?}, partition {partition}: the next page is not there; searching {low}..{high}");
        self.restart(partition, held)
    }

    /// Reads a partition from its oldest sketch.
    fn restart(&mut self, partition: i32, held: OffsetRange) -> Result<(), SourceError> {
        self.sketches.positions.entry(partition).and_modify(|state| (state.next, state.passed) = (held.low, held.low));
        self.sketches.assign_all()
    }

    /// Stops where a search has ended without the record.
    fn check_searches(&self) -> Result<(), SourceError> {
        for (partition, until) in &self.searches {
            let read = self.sketches.positions.get(partition).map_or(0, |sketches| sketches.next.max(sketches.passed));
            if read >= *until {
                let next = self.partitions.get(partition).map_or(0, |state| state.progress.next_offset);
                return Err(self.hole_error(*partition, next));
            }
        }
        Ok(())
    }

    /// Reads on from the oldest sketch where sketches were deleted before they were read. Whether a record is missing
    /// shows there.
    fn recover(&mut self, error: SourceError) -> Result<(), SourceError> {
        match error.stop_reason {
            StopReason::Overtaken => {
                let partitions: Vec<i32> = self.sketches.positions.keys().copied().collect();
                for partition in partitions {
                    let next = self.sketches.positions.get(&partition).map_or(0, |state| state.next);
                    match self.sketches.held_range(partition, REQUEST_MAX) {
                        Ok(held) if next < held.low => self.restart(partition, held)?,
                        Ok(_) => {}
                        Err(error) => {
                            return Err(self.sketches.topic_error(&TopicError::Unreachable(error.to_string())));
                        }
                    }
                }
                Ok(())
            }
            StopReason::Replaced => Err(SourceError::new(format!(
                "topic {:?} was deleted and created again while it was read; start again: nothing is lost",
                self.sketches.topic
            ))),
            _ => Err(error),
        }
    }

    fn hole_error(&self, partition: i32, next: i64) -> SourceError {
        let KafkaSettings { brokers, group, topic, sketches_topic, .. } = &self.pages;
        SourceError {
            stop_reason: StopReason::Hole,
            message: format!(
                "topic {sketches_topic:?}, partition {partition}: the sketches go on behind page {next}, and its own is not \
                 there: sketches were deleted before they were read, or the group {group:?} was moved ahead. Nothing is \
                 lost. Stop the sketchers, rewind their group to offset {next} of that partition with\n  \
                 kafka-consumer-groups.sh --bootstrap-server {brokers} --group {group} --topic {topic}:{partition} \
                 --reset-offsets --to-offset {next} --execute\nand start the sketchers, then the owner. `lookalike run` \
                 without --role on this store reads the pages themselves"
            ),
        }
    }

    fn other_sketches_error(&self, partition: i32, offset: i64, error: SketchMessageError) -> SourceError {
        let next = self.partitions.get(&partition).map_or(0, |state| state.progress.next_offset);
        let KafkaSettings { group, topic, sketches_topic, .. } = &self.pages;
        SourceError {
            stop_reason: StopReason::OtherSketches,
            message: format!(
                "topic {sketches_topic:?}, partition {partition}: message {offset} cannot be taken: {error}. Nothing is \
                 lost; the next page is {next}. Give sketchers and owner the same program and the same settings: \
                 store.seed, [canonical], [sketch], [limits], [input], [related] and kafka.format. Then stop the sketchers, \
                 delete topic {sketches_topic:?} and create it again (`lookalike topics create --sketches`), rewind the \
                 group {group:?} to offset {next} of {topic}:{partition}, and start them and the owner"
            ),
        }
    }
}

impl PartitionState {
    fn new(progress: Progress) -> Self {
        PartitionState { progress, in_flight: VecDeque::new() }
    }

    /// A sketch was dropped: with everything before it, it may be skipped after a restart.
    fn pass(&mut self, behind: i64) {
        match self.in_flight.back_mut() {
            Some((_, last)) => *last = behind.max(*last),
            None => self.in_flight.push_back((self.progress.next_offset, behind)),
        }
    }

    /// What may be skipped of the sketches once the store holds the pages below `next`.
    fn durable(&mut self, next: i64) -> Option<i64> {
        let mut behind = None;
        while let Some((_, sketch)) = self.in_flight.front().copied().filter(|(page, _)| *page <= next) {
            self.in_flight.pop_front();
            behind = Some(sketch);
        }
        behind
    }
}

impl Source for KafkaSketchSource {
    fn poll(&mut self, timeout: Duration) -> Result<Polled, SourceError> {
        for _ in 0..DROPPED_MAX {
            let polled = match self.sketches.poll(timeout) {
                Ok(Polled::Record(incoming)) => self.accept(incoming)?.map(Polled::Record),
                Ok(other) => Some(other),
                Err(error) => self.recover(error).map(|()| None)?,
            };
            self.check_searches()?;
            if let Some(polled) = polled {
                return Ok(polled);
            }
        }
        Ok(Polled::Idle)
    }

    fn committed(&mut self, progress: &ProgressMap) {
        let mut durable = ProgressMap::new();
        for ((_, partition), at) in progress.iter().filter(|((source, _), _)| *source == *self.topic) {
            let behind = self.partitions.get_mut(partition).and_then(|state| state.durable(at.next_offset));
            if let Some(next_offset) = behind {
                durable.insert((self.sketches.topic.to_string(), *partition), Progress { next_offset, chain: 0 });
            }
        }
        self.sketches.committed(&durable);
    }

    fn pause(&mut self, partition: i32, is_paused: bool) {
        self.sketches.pause(partition, is_paused);
    }

    fn lag(&mut self) -> Option<u64> {
        self.sketches.lag()
    }

    fn readings(&mut self) -> Vec<Reading> {
        let mut readings = self.sketches.readings();
        readings.push(Reading::new("lookalike_sketches_dropped", Vec::new(), self.n_dropped as f64));
        readings
    }
}

/// Where each partition of the pages goes on.
fn page_positions(
    settings: &KafkaSettings,
    limits: &Limits,
    options: &StartOptions<'_>,
) -> Result<BTreeMap<i32, Progress>, SourceError> {
    let options =
        StartOptions { bootstrap: true, accept_gap: true, poison_guard: Arc::new(NoGuard), ..options.clone() };
    let mut pages = KafkaSource::unassigned(settings, limits, &options, None)?;
    let gaps = pages.find_starts(&options)?;
    // Pages may be deleted once they are sketched, and before the owner takes their sketches: that is no gap here.
    if let Some(gap) = gaps.iter().find(|gap| gap.why == GapReason::Replaced) {
        return Err(replaced_error(settings, &gap.to_string()));
    }
    let position = |(partition, state): (&i32, &super::positions::PartitionState)| {
        let stored = options.stored.get(&(settings.topic.clone(), *partition)).copied();
        (*partition, stored.unwrap_or(state.progress()))
    };
    Ok(pages.positions.iter().map(position).collect())
}

fn replaced_error(settings: &KafkaSettings, sign: &str) -> SourceError {
    let KafkaSettings { topic, sketches_topic, .. } = settings;
    SourceError {
        stop_reason: StopReason::Replaced,
        message: format!(
            "topic {topic:?} is another one than the store has read: {sign}. Restore the topic. If it is to stay as it is, \
             delete and create topic {sketches_topic:?} too, and run `lookalike run --accept-gap` without --role once on \
             the store"
        ),
    }
}

/// Sketches are small: no batch of them exhausts memory.
struct NoGuard;

impl PoisonGuard for NoGuard {
    fn is_cautious(&self) -> bool {
        false
    }

    fn reading(&self, _: Option<&Origin>) {}

    fn is_poison(&self, _: &Origin) -> bool {
        false
    }
}
