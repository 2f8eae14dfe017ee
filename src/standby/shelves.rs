//! Records that were read and wait for their turn, partition by partition.

use crate::ports::Incoming;
use crate::wire::{Origin, Record, Rejection};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Why the record that the owner took cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unavailable {
    /// The topic no longer holds it.
    Gone,
    /// The topic holds a record of this offset before it, of which no event tells.
    Skipped(i64),
}

/// The waiting records of a topic.
pub(super) struct Shelves {
    topic: Arc<str>,
    bytes_max: usize,
    partitions: BTreeMap<i32, Shelf>,
}

#[derive(Default)]
struct Shelf {
    records: VecDeque<Incoming>,
    n_bytes: usize,
    /// Records below this offset were told as a gap.
    below: i64,
    /// Whether the owner's place in the partition is known. Before its first record it may have begun anywhere.
    has_begun: bool,
    is_paused: bool,
}

impl Shelves {
    /// Shelves for `topic`, whose partitions in `begun` have a place in the store. A partition is paused at `bytes_max` bytes
    /// of waiting records, and goes on at half of them.
    pub fn new(topic: Arc<str>, begun: impl Iterator<Item = i32>, bytes_max: usize) -> Self {
        let begun = begun.map(|partition| (partition, Shelf { has_begun: true, ..Shelf::default() }));
        Shelves { topic, bytes_max, partitions: begun.collect() }
    }

    /// Adds a record that was read. True if its partition is to be paused.
    pub fn add(&mut self, incoming: Incoming) -> bool {
        let shelf = self.partitions.entry(incoming.origin.partition).or_default();
        if incoming.origin.offset < shelf.below && gap_end(&incoming).is_none() {
            return false;
        }
        shelf.n_bytes += incoming.record.n_bytes();
        shelf.records.push_back(incoming);
        // Paused again with each record: reading may have begun anew, which ends a pause.
        shelf.is_paused = shelf.n_bytes >= self.bytes_max;
        shelf.is_paused
    }

    /// Takes the record of an offset, or what an event tells instead of it; none where it has not been read yet.
    ///
    /// # Errors
    /// [`Unavailable`] where it will never be read.
    pub fn take(
        &mut self,
        partition: i32,
        offset: i64,
        told: Option<&Rejection>,
    ) -> Result<Option<Incoming>, Unavailable> {
        let shelf = self.partitions.entry(partition).or_default();
        if let Some(gap) = told
            && let Some(end) = gap.gap_to
        {
            let origin = Origin { source: Arc::clone(&self.topic), partition, offset };
            shelf.pass_gap(offset, end);
            return Ok(Some(Incoming { origin, from: offset, chain: 0, record: Record::Rejected(gap.clone()) }));
        }
        while let Some(first) = shelf.records.front() {
            let at = first.origin.offset;
            match gap_end(first) {
                Some(end) if at <= offset && (end > offset || end <= at) => return Err(Unavailable::Gone),
                Some(_) => {}
                None if at == offset => break,
                None if at > offset => return Err(Unavailable::Gone),
                None if shelf.has_begun && at >= shelf.below => return Err(Unavailable::Skipped(at)),
                None => {}
            }
            shelf.pop();
        }
        let Some(mut incoming) = shelf.pop() else { return Ok(None) };
        shelf.has_begun = true;
        if let Some(told) = told {
            incoming.record = Record::Rejected(told.clone());
        }
        Ok(Some(incoming))
    }

    /// Whether a paused partition may go on now.
    pub fn should_resume(&mut self, partition: i32) -> bool {
        let bytes_max = self.bytes_max;
        let shelf = self.partitions.entry(partition).or_default();
        let resumes = shelf.is_paused && shelf.n_bytes <= bytes_max / 2;
        shelf.is_paused &= !resumes;
        resumes
    }
}

impl Shelf {
    fn pop(&mut self) -> Option<Incoming> {
        let incoming = self.records.pop_front()?;
        self.n_bytes = self.n_bytes.saturating_sub(incoming.record.n_bytes());
        Some(incoming)
    }

    /// The owner passed from `offset` to `end`. An end that is not behind it is the beginning of a new topic.
    fn pass_gap(&mut self, offset: i64, end: i64) {
        self.has_begun = true;
        self.below = if end > offset { end } else { 0 };
        while let Some(first) = self.records.front()
            && (gap_end(first).is_some() || first.origin.offset < self.below)
        {
            self.pop();
        }
    }
}

/// Where reading went on, if this is a gap that the source itself met.
fn gap_end(incoming: &Incoming) -> Option<i64> {
    match &incoming.record {
        Record::Rejected(rejection) => rejection.gap_to,
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Reason;

    fn record(partition: i32, offset: i64) -> Incoming {
        let origin = Origin { source: "pages".into(), partition, offset };
        Incoming { origin, from: offset, chain: 1, record: Record::Json(vec![0; 10]) }
    }

    fn gap(offset: i64, end: i64) -> Incoming {
        Incoming { record: Record::Rejected(told_gap(end)), ..record(0, offset) }
    }

    fn told_gap(end: i64) -> Rejection {
        Rejection { gap_to: Some(end), ..Rejection::new(Reason::Overtaken, "as told") }
    }

    fn shelves(read: impl IntoIterator<Item = Incoming>) -> Shelves {
        let mut shelves = Shelves::new("pages".into(), [0].into_iter(), 40);
        for incoming in read {
            shelves.add(incoming);
        }
        shelves
    }

    fn offset(taken: Result<Option<Incoming>, Unavailable>) -> Option<i64> {
        taken.expect("it is there").map(|incoming| incoming.origin.offset)
    }

    #[test]
    fn records_are_taken_in_any_order_of_partitions() {
        let mut shelves = shelves([record(0, 5), record(0, 6), record(1, 9)]);
        assert_eq!(offset(shelves.take(1, 9, None)), Some(9));
        assert_eq!(offset(shelves.take(0, 5, None)), Some(5));
        assert_eq!(offset(shelves.take(1, 10, None)), None, "not read yet");
        assert_eq!(offset(shelves.take(0, 6, None)), Some(6));
    }

    #[test]
    fn an_unknown_partition_begins_where_the_owner_began() {
        assert_eq!(offset(shelves([record(7, 1), record(7, 2), record(7, 3)]).take(7, 3, None)), Some(3));
    }

    /// Lost if this fails: records that the owner left out, or took and nobody can read again.
    #[test]
    fn what_does_not_fit_is_told() {
        let taken = shelves([record(0, 5), record(0, 6)]).take(0, 6, None);
        assert_eq!(taken.expect_err("left out"), Unavailable::Skipped(5));
        assert_eq!(shelves([record(0, 7)]).take(0, 6, None).expect_err("deleted"), Unavailable::Gone);
        assert_eq!(shelves([gap(5, 8)]).take(0, 6, None).expect_err("deleted"), Unavailable::Gone);
        assert_eq!(shelves([gap(5, 0)]).take(0, 6, None).expect_err("another topic"), Unavailable::Gone);
    }

    #[test]
    fn told_gaps_are_passed() {
        let mut known = shelves([gap(5, 7), record(0, 7), record(0, 8)]);
        let taken = known.take(0, 5, Some(&told_gap(8))).expect("a gap").expect("at once");
        assert_eq!((taken.origin.offset, taken.record), (5, Record::Rejected(told_gap(8))));
        assert_eq!(offset(known.take(0, 8, None)), Some(8));
        let mut unread = shelves([]);
        assert_eq!(offset(unread.take(0, 5, Some(&told_gap(8)))), Some(5));
        assert!(!unread.add(record(0, 6)));
        unread.add(record(0, 8));
        assert_eq!(offset(unread.take(0, 8, None)), Some(8));
        let mut replaced = shelves([gap(5, 0), record(0, 0)]);
        assert_eq!(offset(replaced.take(0, 5, Some(&told_gap(0)))), Some(5));
        assert_eq!(offset(replaced.take(0, 0, None)), Some(0));
    }

    #[test]
    fn a_told_rejection_stands_for_its_record() {
        let told = Rejection::new(Reason::Poison, "as told");
        let taken = shelves([record(0, 5)]).take(0, 5, Some(&told)).expect("it is there").expect("read");
        assert_eq!((taken.chain, taken.record), (1, Record::Rejected(told)));
    }

    #[test]
    fn a_partition_with_much_waiting_is_paused() {
        let mut shelves = shelves([record(0, 1), record(0, 2), record(0, 3)]);
        assert!(shelves.add(record(0, 4)));
        assert_eq!(offset(shelves.take(0, 1, None)), Some(1));
        assert!(!shelves.should_resume(0));
        assert_eq!(offset(shelves.take(0, 2, None)), Some(2));
        assert!(shelves.should_resume(0) && !shelves.should_resume(0));
    }
}
