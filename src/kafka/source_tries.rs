//! The source of a member of the group where members die: it finds the record on which they crash, and rejects it.
//!
//! A member has no store to keep notes in, and another member, perhaps on another machine, reads on after its death. So the
//! notes are the metadata of the group's offsets. A member that is given a partition notes that it begins. Its first progress
//! replaces the note; a member that lets the partition go in good order takes the note back. Two members that began at one
//! place and got nowhere make the next one careful: it has one record in hand at a time, of all its partitions, and notes that
//! record before. A record that was noted by three such members is rejected.
//!
//! Unlike `run`, a member cannot distinguish a crash from a kill. A record that is in hand for milliseconds is not
//! the one in hand at three random kills.

use super::consumer::commit_tries;
use super::positions::PartitionState;
use super::source::KafkaSource;
use super::tries::Tries;
use crate::wire::{Origin, Reason, Rejection};
use rdkafka::consumer::Consumer;
use std::collections::BTreeMap;
use std::time::Duration;

/// How often to look whether the record in hand is acknowledged.
const LOOK: Duration = Duration::from_millis(1);

impl KafkaSource {
    /// Notes in the group's offsets that this member starts on its partitions. `told` is the metadata of the group's offsets.
    pub(super) fn note_beginnings(&mut self, told: &BTreeMap<i32, Tries>) {
        let Some(earlier) = &mut self.earlier else { return };
        let (mut begun, mut told_before) = (BTreeMap::new(), BTreeMap::new());
        // A gap that is yet to be reported must be found again.
        let has_gap = |partition: i32| self.accepted_gaps.iter().any(|gap| gap.origin.partition == partition);
        let waiting = self.positions.iter().filter(|(partition, at)| at.holds_more() && !has_gap(**partition));
        for (partition, PartitionState { next, high, .. }) in waiting {
            let before = told.get(partition).copied().unwrap_or_default();
            let ends = next.saturating_add(earlier.in_hand_max as i64).min(*high);
            let tries = before.begun(*next, ends);
            if tries.is_careful(*next) {
                tracing::warn!(
                    "topic {:?}, partition {partition}: others that began at {next} got nowhere; one record is read at a \
                     time until all is well",
                    self.topic
                );
                earlier.tries.insert(*partition, tries);
            } else {
                begun.insert(*partition, (*next, tries));
                told_before.insert(*partition, (*next, before));
            }
        }
        earlier.is_careful = !earlier.tries.is_empty();
        match commit_tries(&self.consumer, &self.topic, &begun) {
            Ok(()) => *self.consumer.context().told_before() = told_before,
            Err(error) => tracing::debug!("the beginning is not noted: {error}"),
        }
    }

    /// Whether the next record must wait, because the one in hand must be the only one. Waits a moment where it must.
    pub(super) fn waits_for_record_in_hand(&mut self, timeout: Duration) -> bool {
        let Some(earlier) = self.earlier.as_mut().filter(|earlier| earlier.is_careful) else { return false };
        if let Some((partition, next)) = earlier.in_hand {
            let acknowledged = self.housekeeping.to_commit.get(&partition).copied();
            let acknowledged = acknowledged.max(self.positions.get(&partition).map(|at| at.committed));
            if acknowledged.is_some_and(|acknowledged| acknowledged < next) {
                std::thread::sleep(timeout.min(LOOK));
                return true;
            }
            earlier.in_hand = None;
        }
        let is_left = |(partition, tries): (&i32, &Tries)| {
            self.positions.get(partition).is_some_and(|at| tries.is_careful(at.next.max(at.passed)))
        };
        earlier.is_careful = earlier.tries.iter().any(is_left);
        if !earlier.is_careful {
            tracing::info!("past the place where others got nowhere");
            earlier.clear();
        }
        false
    }

    /// Notes the record as being in hand, where that is needed. Returns why it is rejected, if it has been in hand too often.
    /// `from` is where its partition stood before it.
    pub(super) fn take_in_hand(&mut self, record: &Origin, from: i64) -> Option<Rejection> {
        let earlier = self.earlier.as_mut().filter(|earlier| earlier.is_careful)?;
        let (partition, offset) = (record.partition, record.offset);
        let tries = earlier.tries.get(&partition).copied().unwrap_or_default();
        earlier.in_hand = Some((partition, offset + 1));
        earlier.tries.insert(partition, tries.passed());
        if let Some(n) = tries.poison() {
            tracing::error!("skipped {}, partition {partition}, offset {offset}: sketchers crash on it", record.source);
            let message = format!(
                "{n} sketchers ended while they had this record alone in hand; please report it with the record"
            );
            return Some(Rejection::new(Reason::Poison, message));
        }
        let note = BTreeMap::from([(partition, (from, tries.taken()))]);
        match commit_tries(&self.consumer, &self.topic, &note) {
            Ok(()) => {
                self.housekeeping.to_commit.remove(&partition);
                self.consumer.context().told_before().insert(partition, (from, tries));
                self.positions.entry(partition).and_modify(|at| at.committed = at.committed.max(from));
            }
            Err(error) => tracing::debug!("the record in hand is not noted: {error}"),
        }
        None
    }
}
