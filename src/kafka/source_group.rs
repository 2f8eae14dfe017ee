//! The source as a member of a consumer group: it reads the partitions that the group gives it, from where the group stands.

use super::client::TopicError;
use super::consumer::GroupChange;
use super::offsets::{Gap, GapReason, StoredPositions};
use super::positions::PartitionState;
use super::settings::KafkaSettings;
use super::sketches_topic::{common_partitions, unequal};
use super::source::{KafkaSource, Membership, REQUEST_MAX, StartOptions};
use super::tries::{EarlierReaders, Tries};
use crate::ports::{Progress, SourceError, StopReason};
use crate::wire::Limits;
use rdkafka::Offset;
use rdkafka::consumer::Consumer;
use std::collections::BTreeMap;
use std::time::Instant;

impl KafkaSource {
    /// Joins the group. Each partition that the group gives is read from the offset that the group has committed; a topic
    /// without one starts where `settings.start` says. Of `options`, `stored`, `since` and `bootstrap` do not count. A record on
    /// which one member after the other crashes is rejected, unless `in_hand_max`, the records that a member may have in hand,
    /// is none.
    ///
    /// # Errors
    /// [`SourceError`] if the settings are wrong, no broker answers, or a topic is missing or has other partitions than
    /// the topic of sketches.
    pub fn join(
        settings: &KafkaSettings,
        limits: &Limits,
        options: &StartOptions<'_>,
        in_hand_max: Option<usize>,
    ) -> Result<Self, SourceError> {
        settings.check().map_err(|error| SourceError::new(error.to_string()))?;
        let membership = Membership { accept_gap: options.accept_gap, n_partitions: 0 };
        let mut source = Self::unassigned(settings, limits, options, Some(membership))?;
        let n_partitions = source.common_partitions(settings)?.len();
        source.membership = Some(Membership { accept_gap: options.accept_gap, n_partitions });
        source.earlier = in_hand_max.map(EarlierReaders::new);
        source.consumer.subscribe(&[&settings.topic]).map_err(|error| {
            SourceError::new(format!("cannot join the group {:?}: {error}; check kafka.group", settings.group))
        })?;
        Ok(source)
    }

    /// The partitions that the topics of pages and of sketches have, which must be the same.
    pub(super) fn common_partitions(&self, settings: &KafkaSettings) -> Result<Vec<i32>, SourceError> {
        common_partitions(self.consumer.client(), settings).map_err(|error| {
            let last_error = &self.consumer.context().last_error;
            SourceError { stop_reason: error.stop_reason(last_error), message: error.explain(settings, last_error) }
        })
    }

    /// Follows what the group gives and takes. What was read of a partition before it was taken away goes on its way; it
    /// is read again by its next reader, from the last acknowledged record.
    pub(super) fn follow_group(&mut self) -> Result<(), SourceError> {
        let Some(Membership { accept_gap, n_partitions }) = self.membership else { return Ok(()) };
        while let Some(change) = self.consumer.context().take_group_change() {
            self.positions.clear();
            self.accepted_gaps.clear();
            self.housekeeping.to_commit.clear();
            self.earlier.iter_mut().for_each(EarlierReaders::clear);
            let GroupChange::Assigned(partitions) = change else { continue };
            tracing::info!("the group {:?} gives partitions {partitions:?}", self.settings.group);
            if let Some(partition) = partitions.iter().find(|partition| **partition as usize >= n_partitions) {
                return Err(SourceError::new(unequal(&self.settings, *partition as usize + 1, n_partitions)));
            }
            self.locate_assigned(&partitions, accept_gap)?;
            self.assign_all()?;
        }
        Ok(())
    }

    /// Determines where each given partition starts.
    fn locate_assigned(&mut self, partitions: &[i32], accept_gap: bool) -> Result<(), SourceError> {
        let until = Instant::now() + self.settings.delivery_max();
        let unreachable =
            |source: &Self, error: &dyn ToString| source.topic_error(&TopicError::Unreachable(error.to_string()));
        let n_partitions = self.membership.as_ref().map_or(0, |membership| membership.n_partitions);
        let all: Vec<i32> = (0..n_partitions as i32).collect();
        let committed = self.group_offsets(&all, until).map_err(|error| unreachable(self, &error))?;
        let tries: BTreeMap<i32, Tries> =
            committed.elements().iter().map(|at| (at.partition(), Tries::of_metadata(at.metadata()))).collect();
        let committed: BTreeMap<i32, Progress> = committed
            .elements()
            .iter()
            .filter_map(|element| match element.offset() {
                Offset::Offset(next_offset) => Some((element.partition(), Progress { next_offset, chain: 0 })),
                _ => None,
            })
            .collect();
        let committed = StoredPositions(committed);
        let mut gaps = Vec::new();
        for partition in partitions {
            let within = until.saturating_duration_since(Instant::now()).max(REQUEST_MAX);
            let held = self.held_range(*partition, within).map_err(|error| unreachable(self, &error))?;
            let start = committed.start_offset(*partition, self.settings.start, held);
            let next = start.unwrap_or_else(|gap| {
                gaps.push(gap);
                held.low
            });
            let state = PartitionState { committed: next, ..PartitionState::new(next, held) };
            self.positions.insert(*partition, state);
        }
        if gaps.iter().any(|gap| !accept_gap || gap.why == GapReason::Replaced) {
            return Err(self.group_gaps_error(&gaps));
        }
        self.accepted_gaps = gaps.iter().map(|gap| self.accept_gap(gap)).collect();
        self.note_beginnings(&tries);
        Ok(())
    }

    fn group_gaps_error(&self, gaps: &[Gap]) -> SourceError {
        let (group, topic) = (&self.settings.group, &self.topic);
        let wrong = gaps.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        if gaps.iter().any(|gap| gap.why == GapReason::Replaced) {
            return SourceError {
                stop_reason: StopReason::Replaced,
                message: format!(
                    "topic {topic:?} is another one than the group {group:?} has read. {wrong}. Restore the topic. If it is \
                     to stay as it is, delete and create topic {:?} too, and run `lookalike run --accept-gap` without \
                     --role once on the store",
                    self.settings.sketches_topic
                ),
            };
        }
        SourceError {
            stop_reason: StopReason::Overtaken,
            message: format!(
                "topic {topic:?} no longer has what the group {group:?} is to read next. {wrong}. Skip those records with \
                 --accept-gap: an event will report exactly which ones. A longer retention.ms keeps records from being \
                 deleted before they are read"
            ),
        }
    }
}
