//! What an error of the consumer means: the end of the source, an undecodable batch, or a wait.

use super::client::{N_FINAL_POLLS, TopicError};
use super::offsets::{self, Gap, OffsetRange};
use super::positions::PartitionState;
use super::source::{KafkaSource, REQUEST_MAX};
use super::undecodable::{self, is_undecodable};
use crate::ports::{Incoming, Polled, SourceError, StopReason};
use crate::wire::{Origin, Reason, Record, Rejection};
use rdkafka::consumer::Consumer;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

impl KafkaSource {
    /// Decides what an error means: the end of the source, an undecodable batch, or a wait.
    pub(super) fn classify_error(&mut self, error: &KafkaError) -> Result<Polled, SourceError> {
        let code = match error {
            KafkaError::MessageConsumption(code) => *code,
            // A supervisor that started it again would shut the other one out.
            KafkaError::MessageConsumptionFatal(RDKafkaErrorCode::FencedInstanceId) => {
                return Err(SourceError {
                    stop_reason: StopReason::Fenced,
                    message: format!(
                        "another sketcher has the name kafka.member = {:?} and has taken this one's place. Leave that process \
                         alone, and give each sketcher a name of its own",
                        self.settings.member
                    ),
                });
            }
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
                self.housekeeping.topic_unknown_since.get_or_insert_with(Instant::now);
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
            self.positions.entry(origin.partition).and_modify(|state| (state.next, state.chain) = (*end, 0));
        }
        match &mut self.cautious {
            Some(cautious) => cautious.reset(),
            None => self.assign_all()?,
        }
        Ok(found.map_or_else(|| self.wait_out(&format!("cannot decode a batch: {code}")), Polled::Record))
    }

    fn find_undecodable(&mut self) -> Option<Incoming> {
        let positions: Vec<(i32, i64)> =
            self.positions.iter().map(|(partition, state)| (*partition, state.next)).collect();
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
                    return Some(Incoming { origin, from: next, chain: 0, record: Record::Rejected(rejection) });
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
        let gaps: Vec<Gap> = self.positions.iter().filter_map(gap).collect();
        if gaps.is_empty() {
            let suffix = self.consumer.context().last_error.message_suffix();
            return SourceError::new(format!(
                "the broker refused an offset of topic {:?}, but accepts it now{suffix}; start again: nothing is lost",
                self.topic
            ));
        }
        self.gaps_error(&gaps)
    }

    /// The error of a topic that was recreated while the source ran. No record of the new topic has been accepted.
    pub(super) fn recreated_error(&self, sign: &str) -> SourceError {
        let positions = self.positions.iter().map_while(|(partition, state)| {
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

    pub(super) fn gaps_error(&self, gaps: &[Gap]) -> SourceError {
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

    pub(super) fn topic_error(&self, error: &TopicError) -> SourceError {
        for _ in 0..N_FINAL_POLLS {
            // Only errors can arrive: nothing is assigned, or nothing more will be read.
            drop(self.consumer.poll(Duration::ZERO));
        }
        let last_error = &self.consumer.context().last_error;
        let message = error.explain(&self.topic, "topic", &self.settings.brokers, last_error);
        SourceError { stop_reason: error.stop_reason(last_error), message }
    }
}
