//! What the source does about once a second: commits, statistics, lag, new partitions, lost brokers, a lost topic.

use super::client::{TopicError, partitions_of};
use super::consumer::passed_markers;
use super::housekeeping::{TOPIC_CHECK_MAX, TOPIC_LOST_AFTER};
use super::positions::PartitionState;
use super::source::{KafkaSource, REQUEST_MAX};
use crate::ports::{Reading, Source, SourceError};
use rdkafka::consumer::{CommitMode, Consumer};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

impl KafkaSource {
    pub(super) fn do_housekeeping(&mut self) -> Result<(), SourceError> {
        if !self.housekeeping.interval.due() {
            return Ok(());
        }
        self.send_commits();
        self.read_statistics();
        if !self.housekeeping.new_partitions.is_empty()
            && self.housekeeping.topic_unknown_since.is_none()
            && self.housekeeping.assignment_retries.due()
        {
            std::mem::take(&mut self.housekeeping.new_partitions)
                .into_iter()
                .for_each(|partition| self.assign_new_partition(partition));
        }
        self.measure_lag();
        self.check_brokers()?;
        self.check_topic()
    }

    /// Updates the high watermarks, and notes partitions that are not assigned yet.
    pub(super) fn read_statistics(&mut self) {
        let Some(report) = self.consumer.context().take() else { return };
        if report.is_any_up {
            self.housekeeping.unreachable_since = None;
        } else {
            self.housekeeping.unreachable_since.get_or_insert_with(Instant::now);
        }
        self.housekeeping.new_partitions.clear();
        for (partition, high) in report.partitions {
            match self.positions.get_mut(&partition) {
                Some(state) => state.high = state.high.max(high),
                // The other members of a group have the others.
                None if self.membership.is_some() => {}
                None => self.housekeeping.new_partitions.push(partition),
            }
        }
        self.housekeeping.readings = report.readings;
    }

    /// Updates librdkafka's positions, and reports the age of the last record.
    fn measure_lag(&mut self) {
        for (partition, passed) in passed_markers(&self.consumer) {
            self.positions.entry(partition).and_modify(|state| state.passed = passed);
        }
        let seconds =
            if self.lag() == Some(0) { 0.0 } else { self.housekeeping.last_sent_ms.map_or(0.0, seconds_since) };
        self.housekeeping.readings.push(Reading::new("lookalike_lag_seconds", Vec::new(), seconds));
    }

    /// Stops the source if no broker has been available for `kafka.delivery_ms_max`.
    fn check_brokers(&self) -> Result<(), SourceError> {
        if self.housekeeping.unreachable_since.is_none_or(|since| since.elapsed() < self.settings.delivery_max()) {
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
                self.positions.insert(partition, state);
            }
            Err(error) => self.warn(&format!("cannot read the new partition {partition} yet: {error}")),
        }
    }

    /// Stops the source if the brokers no longer know the topic. A broker that has just started may not know it for a
    /// moment; if the topic returns unchanged, reading resumes.
    fn check_topic(&mut self) -> Result<(), SourceError> {
        let Some(since) = self.housekeeping.topic_unknown_since else { return Ok(()) };
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
            let last_read = self.positions.iter().map(|(partition, state)| (*partition, state.progress())).collect();
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
        self.housekeeping.topic_unknown_since = None;
        Ok(())
    }

    pub(super) fn send_commits(&mut self) {
        let list = match self.offsets(self.housekeeping.to_commit.iter().map(|(partition, next)| (*partition, *next))) {
            Ok(list) if list.count() > 0 => list,
            _ => return,
        };
        match self.consumer.commit(&list, CommitMode::Async) {
            Ok(()) => {
                for (partition, next) in std::mem::take(&mut self.housekeeping.to_commit) {
                    self.consumer.context().told_before().remove(&partition);
                    self.positions.entry(partition).and_modify(|state| state.committed = next);
                }
            }
            Err(error) => tracing::debug!("offsets for lag tools were not committed: {error}"),
        }
    }

    pub(super) fn warn(&mut self, problem: &str) {
        if self.housekeeping.warnings.due() {
            let suffix = self.consumer.context().last_error.message_suffix();
            tracing::warn!("reading topic {:?}: {problem}{suffix}; trying again", self.topic);
        }
    }
}

/// The age of a record, in seconds.
fn seconds_since(sent_ms: i64) -> f64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis() as i64);
    (now - sent_ms).max(0) as f64 / 1e3
}
