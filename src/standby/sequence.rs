//! Restores the total order of events that were read from several partitions.

use crate::ports::PublishedEvent;
use std::collections::BTreeMap;

/// Events of one partition that wait for events of others, until it is paused; it goes on at half of them.
const EARLY_MAX: usize = 50_000;

/// Events in the order of their numbers, which are dense.
#[derive(Debug)]
pub(super) struct Sequence {
    next: u64,
    early: BTreeMap<u64, PublishedEvent>,
    /// For each partition, how many of its events wait, and whether it is paused.
    waiting: BTreeMap<i32, (usize, bool)>,
}

impl Sequence {
    /// Events from this number on.
    pub fn from(next: u64) -> Self {
        Sequence { next, early: BTreeMap::new(), waiting: BTreeMap::new() }
    }

    /// Adds an event; one that was in order before counts for nothing.
    pub fn push(&mut self, event: PublishedEvent) {
        if event.seq >= self.next {
            self.waiting.entry(event.place.partition).or_default().0 += 1;
            self.early.insert(event.seq, event);
        }
    }

    /// The next event, if it has come.
    pub fn pop(&mut self) -> Option<PublishedEvent> {
        let event = self.early.remove(&self.next)?;
        self.next += 1;
        if let Some((n, _)) = self.waiting.get_mut(&event.place.partition) {
            *n = n.saturating_sub(1);
        }
        Some(event)
    }

    /// The number of the next event, if the output does not hold it: the numbers of a partition rise, and every one of the
    /// `n_partitions` goes on behind it, or all of them are read to their ends.
    pub fn missing(&self, n_partitions: usize, is_at_end: bool) -> Option<u64> {
        let n_beyond = self.waiting.values().filter(|(n, _)| *n > 0).count();
        let is_missing = !self.early.is_empty() && !self.early.contains_key(&self.next);
        (is_missing && (is_at_end || n_beyond >= n_partitions)).then_some(self.next)
    }

    /// The partitions to be paused (true) or resumed (false) now.
    pub fn pauses(&mut self) -> Vec<(i32, bool)> {
        let mut changes = Vec::new();
        for (partition, (n, is_paused)) in &mut self.waiting {
            let should_pause = if *is_paused { *n > EARLY_MAX / 2 } else { *n >= EARLY_MAX };
            if should_pause != *is_paused {
                *is_paused = should_pause;
                changes.push((*partition, should_pause));
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Message, Origin};

    fn event(seq: u64, partition: i32) -> PublishedEvent {
        let place = Origin { source: "events".into(), partition, offset: 0 };
        PublishedEvent { place, seq, message: Message::default() }
    }

    fn popped(sequence: &mut Sequence) -> Vec<u64> {
        std::iter::from_fn(|| sequence.pop()).map(|event| event.seq).collect()
    }

    #[test]
    fn partitions_merge_into_one_order() {
        let mut sequence = Sequence::from(5);
        for (seq, partition) in [(3, 0), (6, 0), (8, 0)] {
            sequence.push(event(seq, partition));
        }
        assert_eq!(popped(&mut sequence), [0; 0]);
        assert_eq!(sequence.missing(2, false), None, "partition 1 may hold it");
        for (seq, partition) in [(5, 1), (7, 1)] {
            sequence.push(event(seq, partition));
        }
        assert_eq!(popped(&mut sequence), [5, 6, 7, 8]);
        assert_eq!(sequence.missing(2, true), None, "nothing is there");
    }

    #[test]
    fn a_missing_event_is_noticed() {
        let mut sequence = Sequence::from(5);
        sequence.push(event(7, 0));
        assert_eq!(sequence.missing(1, false), Some(5), "the only partition is beyond it");
        assert_eq!(sequence.missing(2, false), None);
        assert_eq!(sequence.missing(2, true), Some(5), "all are read");
        sequence.push(event(9, 1));
        assert_eq!(sequence.missing(2, false), Some(5), "both are beyond it");
    }

    #[test]
    fn a_partition_far_ahead_is_paused_until_the_others_come() {
        let mut sequence = Sequence::from(0);
        let n = EARLY_MAX as u64;
        (0..n).for_each(|at| sequence.push(event(1 + at, 0)));
        assert_eq!(sequence.pauses(), [(0, true)]);
        assert_eq!(sequence.pauses(), []);
        sequence.push(event(0, 1));
        assert_eq!(popped(&mut sequence).len() as u64, n + 1);
        assert_eq!(sequence.pauses(), [(0, false)]);
    }
}
