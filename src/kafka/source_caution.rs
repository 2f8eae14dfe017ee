//! The source in cautious mode: how it fetches, and how it skips a batch on which the program crashes.

use super::cautious::CautiousReader;
use super::source::KafkaSource;
use super::undecodable::packed_end;
use crate::ports::{Incoming, SourceError};
use crate::wire::{Origin, Reason, Record, Rejection};
use std::sync::Arc;

impl KafkaSource {
    /// In cautious mode, moves on to the next partition that has records, or returns to reading all partitions at once.
    pub(super) fn advance_cautiously(&mut self) -> Result<(), SourceError> {
        let Some(cautious) = &self.cautious else { return Ok(()) };
        let (guard, current) = (Arc::clone(&cautious.guard), cautious.current);
        if !guard.is_cautious() {
            guard.reading(None);
            self.cautious = None;
            return self.resume_normal_reading();
        }
        if current.is_some_and(|partition| self.holds_more(partition)) {
            return Ok(());
        }
        let (before, behind): (Vec<i32>, Vec<i32>) =
            self.positions.keys().partition(|partition| current.is_some_and(|current| **partition <= current));
        let next = behind.into_iter().chain(before).find(|partition| self.has_grown(*partition));
        self.cautious = Some(CautiousReader { guard, current: next });
        self.note_reading();
        self.assign(next.into_iter())
    }

    /// Notes the position of the next record, if the current partition has one.
    pub(super) fn note_reading(&self) {
        let Some(CautiousReader { guard, current }) = &self.cautious else { return };
        let position =
            current.filter(|partition| self.holds_more(*partition)).map(|partition| self.next_origin(partition));
        guard.reading(position.as_ref());
    }

    fn next_origin(&self, partition: i32) -> Origin {
        let offset = self.positions.get(&partition).map_or(0, |state| state.next);
        Origin { source: Arc::clone(&self.topic), partition, offset }
    }

    /// Skips the batch at which a partition stands if it crashed the program, and queues the gap.
    pub(super) fn skip_poison_batches(&mut self) {
        let Some(CautiousReader { guard, .. }) = &self.cautious else { return };
        let guard = Arc::clone(guard);
        for origin in self.positions.keys().map(|partition| self.next_origin(*partition)).collect::<Vec<_>>() {
            if !guard.is_poison(&origin) {
                continue;
            }
            let Origin { partition, offset, .. } = origin;
            let high = self.positions.get(&partition).map_or(0, |state| state.high);
            match packed_end(&self.settings, partition, offset, high) {
                Ok(Some(end)) => {
                    let gap = self.skip_to(origin, end);
                    self.accepted_gaps.push_back(gap);
                }
                Ok(None) => tracing::warn!(
                    "topic {:?}, partition {partition}: the batch at {offset} is too small to exhaust memory; \
                     reading it again",
                    self.topic
                ),
                Err(why) => tracing::warn!(
                    "topic {:?}, partition {partition}: cannot find the end of the batch at {offset}: {why}; \
                     reading it again",
                    self.topic
                ),
            }
        }
    }

    fn skip_to(&mut self, origin: Origin, end: i64) -> Incoming {
        let message = format!(
            "decompressing the batch of records here crashed the program repeatedly; reading resumes at {end}. Give \
             the program more memory, or find the producer that sends such batches"
        );
        tracing::error!("topic {:?}, partition {}, from {}: {message}", self.topic, origin.partition, origin.offset);
        self.positions.entry(origin.partition).and_modify(|state| (state.next, state.chain) = (end, 0));
        let rejection = Rejection { gap_to: Some(end), ..Rejection::new(Reason::Poison, message) };
        Incoming { from: origin.offset, origin, chain: 0, record: Record::Rejected(rejection) }
    }
}
