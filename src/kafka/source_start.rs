//! Where the source starts: at the store's offsets, at a time, or behind an accepted gap.

use super::client::{TopicError, partitions_of};
use super::offsets::{self, Gap, GapReason, OffsetRange, StoredPositions};
use super::positions::PartitionState;
use super::source::{KafkaSource, PAUSE, REQUEST_MAX, StartOptions};
use crate::document::FetchTime;
use crate::ports::{Incoming, SourceError, StopReason};
use crate::wire::{Origin, Record};
use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::{Offset, TopicPartitionList};
use std::sync::Arc;
use std::time::Instant;

impl KafkaSource {
    /// Determines where each partition starts. A gap is refused or accepted.
    pub(super) fn locate_partitions(&mut self, options: &StartOptions<'_>) -> Result<(), SourceError> {
        let gaps = self.find_starts(options)?;
        if !gaps.is_empty() && !options.accept_gap {
            return Err(self.gaps_error(&gaps));
        }
        self.accepted_gaps = gaps.iter().map(|gap| self.accept_gap(gap)).collect();
        Ok(())
    }

    /// Determines where each partition starts, and which records the store needs next that the broker no longer has.
    pub(super) fn find_starts(&mut self, options: &StartOptions<'_>) -> Result<Vec<Gap>, SourceError> {
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
            self.positions.insert(partition, PartitionState { chain, ..PartitionState::new(next, held) });
        }
        Ok(gaps)
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
    pub(super) fn accept_gap(&self, gap: &Gap) -> Incoming {
        tracing::warn!("topic {:?}: accepted: {gap}", self.topic);
        let origin = Origin { source: Arc::clone(&self.topic), partition: gap.partition, offset: gap.next };
        Incoming { origin, from: gap.next, chain: 0, record: Record::Rejected(gap.rejection()) }
    }

    /// Refuses a new store if the group has read the topic before: most likely the old store is missing.
    fn refuse_known_group(&self, partitions: &[i32], until: Instant) -> Result<(), SourceError> {
        let committed = self
            .group_offsets(partitions, until)
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
                 {offset}). If the store has moved, give its path to --store. If it is lost, remove the new one, which \
                 is empty, and restore a backup. To start over with a new store, use --bootstrap, and new output \
                 topics (kafka.events_topic, kafka.assignments_topic, kafka.merges_topic, then `lookalike topics \
                 create`): the present ones hold events of the old store",
                self.settings.group, self.topic
            ),
        })
    }

    /// The group's committed offsets. Retries, because brokers that have just started do not know the group's
    /// coordinator.
    pub(super) fn group_offsets(&self, partitions: &[i32], until: Instant) -> KafkaResult<TopicPartitionList> {
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
}
