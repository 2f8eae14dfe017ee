//! Reading where reading may have killed the program: librdkafka unpacks whole batches before anybody can look at them, by
//! a factor of a thousand where somebody means harm.
//!
//! One partition is fetched from at a time, one batch after the other, and the place is noted before. A place that was
//! noted at death after death is passed over: where its batch ends is found out without unpacking it.

use super::source::KafkaSource;
use super::undecodable::packed_end;
use crate::ports::{Incoming, PoisonGuard, SourceError};
use crate::wire::{Origin, Reason, Record, Rejection};
use std::sync::Arc;

/// How a source reads warily.
pub(super) struct CautiousReader {
    pub(super) care: Arc<dyn PoisonGuard>,
    /// The partition that is fetched from.
    at: Option<i32>,
}

impl CautiousReader {
    /// None where there is no need to.
    pub(super) fn of(care: &Arc<dyn PoisonGuard>) -> Option<Self> {
        care.is_cautious().then(|| CautiousReader { care: Arc::clone(care), at: None })
    }

    /// Begins where the partitions stand now.
    pub(super) fn begin_anew(&mut self) {
        self.at = None;
    }
}

impl KafkaSource {
    /// Goes on to the next partition that holds something, or back to reading all of them at once.
    pub(super) fn go_warily(&mut self) -> Result<(), SourceError> {
        let Some(wary) = &self.wary else { return Ok(()) };
        let (care, at) = (Arc::clone(&wary.care), wary.at);
        if !care.is_cautious() {
            care.reading(None);
            self.wary = None;
            return self.begin_anew();
        }
        if at.is_some_and(|partition| self.holds_more(partition)) {
            return Ok(());
        }
        let (before, behind): (Vec<i32>, Vec<i32>) =
            self.partitions.keys().partition(|partition| at.is_some_and(|at| **partition <= at));
        let next = behind.into_iter().chain(before).find(|partition| self.has_grown(*partition));
        self.wary = Some(CautiousReader { care, at: next });
        self.note_reading();
        self.assign(next.into_iter())
    }

    /// Notes the place of the next record, where there is one.
    pub(super) fn note_reading(&self) {
        let Some(CautiousReader { care, at }) = &self.wary else { return };
        let place = at.filter(|partition| self.holds_more(*partition)).map(|partition| self.place_of(partition));
        care.reading(place.as_ref());
    }

    fn place_of(&self, partition: i32) -> Origin {
        let offset = self.partitions.get(&partition).map_or(0, |place| place.next);
        Origin { source: Arc::clone(&self.topic), partition, offset }
    }

    /// Where each partition stands at a batch that killed the program, the gap that passes over it.
    pub(super) fn skip_poison_batches(&mut self) {
        let Some(CautiousReader { care, .. }) = &self.wary else { return };
        let care = Arc::clone(care);
        for place in self.partitions.keys().map(|partition| self.place_of(*partition)).collect::<Vec<_>>() {
            if !care.is_poison(&place) {
                continue;
            }
            let high = self.partitions.get(&place.partition).map_or(0, |place| place.high);
            match packed_end(&self.settings, place.partition, place.offset, high) {
                Ok(Some(end)) => {
                    let gap = self.gap(place, end);
                    self.accepted.push_back(gap);
                }
                Ok(None) => tracing::warn!(
                    "the batch at {} of partition {} is too small to kill",
                    place.offset,
                    place.partition
                ),
                Err(why) => tracing::warn!("where the batch at {} ends cannot be told now: {why}", place.offset),
            }
        }
    }

    fn gap(&mut self, origin: Origin, end: i64) -> Incoming {
        let message = format!(
            "the program died again and again of unpacking the batch of records there; reading goes on at {end}. Give it more \
             memory, or find out who sends such batches"
        );
        tracing::error!("topic {:?}, partition {}, from {}: {message}", self.topic, origin.partition, origin.offset);
        self.partitions.entry(origin.partition).and_modify(|place| (place.next, place.chain) = (end, 0));
        let rejection = Rejection { gap_to: Some(end), ..Rejection::new(Reason::Poison, message) };
        Incoming { origin, chain: 0, record: Record::Rejected(rejection) }
    }
}
