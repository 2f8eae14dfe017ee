//! Whether a sketched record continues what its owner has taken: the decision that makes sketchers free to come and go.
//!
//! A sketcher reads a partition from the offset that its group has committed, and commits only what the brokers have
//! acknowledged. So its messages are one row without a hole, which begins within what is acknowledged: a sketcher that
//! dies, a partition that moves or a process that wakes up late can only repeat records. A hole means that sketched
//! records were deleted, or that offsets were committed which nobody had sketched.

/// How a message stands to what was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Continuity {
    /// It holds the next record: take it.
    Continues,
    /// It was taken before: drop it.
    Repeats,
    /// Records before it are missing. Taking it would lose them.
    Skips,
}

/// Everything below `next` was taken. The message covers the offsets from `from` up to but not including `end`.
pub(super) fn continuity(next: i64, from: i64, end: i64) -> Continuity {
    if end <= next {
        Continuity::Repeats
    } else if from <= next {
        Continuity::Continues
    } else {
        Continuity::Skips
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_covers_the_next_offset_is_taken() {
        for (next, from, end, expected) in [
            (0, 0, 1, Continuity::Continues),
            (5, 5, 6, Continuity::Continues),
            (5, 4, 5, Continuity::Repeats),
            (5, 3, 4, Continuity::Repeats),
            (5, 6, 7, Continuity::Skips),
            // Offsets without records lie between the two.
            (5, 2, 9, Continuity::Continues),
            (5, 5, 9, Continuity::Continues),
            (9, 5, 9, Continuity::Repeats),
        ] {
            assert_eq!(continuity(next, from, end), expected, "{next} {from}..{end}");
        }
    }

    /// A fault that is planted into the model.
    #[derive(Clone, Copy, PartialEq)]
    enum Fault {
        None,
        /// Offsets are committed when their records are read.
        EarlyCommit,
        /// As above, and messages do not say where their sketcher stood before.
        EarlyCommitWithoutFrom,
        /// The owner counts one too many.
        NextPlusOne,
    }

    /// What a schedule ended with.
    #[derive(Debug, PartialEq)]
    enum Ended {
        /// Every record was taken once, in order.
        Exact,
        /// The owner met a hole.
        Hole,
        /// A record was lost or taken twice, and nobody noticed.
        Wrong,
    }

    /// xorshift64: the same schedules everywhere.
    struct Random(u64);

    impl Random {
        fn below(&mut self, n: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            (self.0 % n as u64) as usize
        }
    }

    /// A message in the topic: from, offset, end.
    type Sent = (i64, i64, i64);

    /// A process that reads the partition, or still believes that it does.
    #[derive(Default)]
    struct Sketcher {
        position: i64,
        /// Read and not yet at the brokers, in order.
        in_hand: Vec<Sent>,
        /// At the brokers, and not yet known to be.
        unacknowledged: Vec<i64>,
        acknowledged: i64,
    }

    struct Model {
        random: Random,
        fault: Fault,
        /// Offsets of the pages, ascending, with holes that transactions leave.
        pages: Vec<i64>,
        committed: i64,
        /// The last one has the partition; the others are zombies.
        sketchers: Vec<Sketcher>,
        topic: Vec<Sent>,
        /// Where the owner reads the topic, and from where after a restart.
        read: usize,
        durable_read: usize,
        taken: Vec<i64>,
        n_durable: usize,
    }

    impl Model {
        fn run(random: Random, fault: Fault) -> Ended {
            let mut model = Model {
                random,
                fault,
                pages: Vec::new(),
                committed: 0,
                sketchers: vec![Sketcher::default()],
                topic: Vec::new(),
                read: 0,
                durable_read: 0,
                taken: Vec::new(),
                n_durable: 0,
            };
            let mut offset = 0;
            for _ in 0..20 {
                offset += [0, 0, 0, 1, 3][model.random.below(5)];
                model.pages.push(offset);
                offset += 1;
            }
            for _ in 0..200 {
                let hole = model.step();
                if hole {
                    return Ended::Hole;
                }
            }
            model.finish()
        }

        /// One thing happens; true where the owner meets a hole.
        fn step(&mut self) -> bool {
            let at = self.random.below(self.sketchers.len());
            match self.random.below(12) {
                0..3 => self.read_page(at),
                3..5 => self.deliver(at),
                5 => self.acknowledge(at),
                6 => self.commit(at),
                7 if self.random.below(3) == 0 => self.reassign(),
                8 if self.random.below(3) == 0 => self.kill(at),
                9 => (self.n_durable, self.durable_read) = (self.taken.len(), self.read),
                10 if self.random.below(4) == 0 => self.restart_owner(),
                _ => return self.take(),
            }
            false
        }

        fn read_page(&mut self, at: usize) {
            let has_partition = at + 1 == self.sketchers.len();
            let sketcher = &mut self.sketchers[at];
            let Some(offset) = self.pages.iter().find(|page| **page >= sketcher.position) else { return };
            let without_from = self.fault == Fault::EarlyCommitWithoutFrom;
            let from = if without_from { i64::MIN } else { sketcher.position };
            sketcher.in_hand.push((from, *offset, offset + 1));
            sketcher.position = offset + 1;
            let is_early = matches!(self.fault, Fault::EarlyCommit | Fault::EarlyCommitWithoutFrom);
            if is_early && has_partition {
                self.committed = sketcher.position;
            }
        }

        fn deliver(&mut self, at: usize) {
            let sketcher = &mut self.sketchers[at];
            if !sketcher.in_hand.is_empty() {
                let message = sketcher.in_hand.remove(0);
                sketcher.unacknowledged.push(message.2);
                self.topic.push(message);
            }
        }

        fn acknowledge(&mut self, at: usize) {
            let sketcher = &mut self.sketchers[at];
            if let Some(end) = sketcher.unacknowledged.drain(..).next_back() {
                sketcher.acknowledged = end;
            }
        }

        /// Only the member that has the partition may commit.
        fn commit(&mut self, at: usize) {
            let acknowledged = self.sketchers[at].acknowledged;
            if at + 1 == self.sketchers.len() && acknowledged > self.committed {
                self.committed = acknowledged;
            }
        }

        /// The partition moves; whoever had it may still send what it has in hand, and read on.
        fn reassign(&mut self) {
            let position = self.committed;
            self.sketchers.push(Sketcher { position, ..Sketcher::default() });
        }

        fn kill(&mut self, at: usize) {
            let had_it = at + 1 == self.sketchers.len();
            self.sketchers.remove(at);
            if had_it {
                self.reassign();
            }
        }

        fn restart_owner(&mut self) {
            self.taken.truncate(self.n_durable);
            self.read = self.durable_read;
        }

        fn take(&mut self) -> bool {
            let Some((from, offset, end)) = self.topic.get(self.read).copied() else { return false };
            let next = self.taken.last().map_or(0, |last| last + 1);
            let next = if self.fault == Fault::NextPlusOne && next > 0 { next + 1 } else { next };
            match continuity(next, from, end) {
                Continuity::Skips => return true,
                Continuity::Repeats => {}
                Continuity::Continues => self.taken.push(offset),
            }
            self.read += 1;
            false
        }

        /// One more page comes, behind which a hole shows, and everybody works until nothing is left to do.
        fn finish(mut self) -> Ended {
            self.pages.push(self.pages.last().map_or(0, |last| last + 1));
            for at in 0..self.sketchers.len() {
                for _ in 0..self.pages.len() {
                    self.read_page(at);
                }
                while !self.sketchers[at].in_hand.is_empty() {
                    self.deliver(at);
                }
            }
            while self.read < self.topic.len() {
                if self.take() {
                    return Ended::Hole;
                }
            }
            if self.taken == self.pages { Ended::Exact } else { Ended::Wrong }
        }
    }

    /// How 3,000 schedules end: exactly, with a hole, wrongly.
    fn ends(fault: Fault) -> [usize; 3] {
        let mut n = [0; 3];
        for seed in 1..=3_000u64 {
            let random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            n[Model::run(random, fault) as usize] += 1;
        }
        n
    }

    /// Lost if this fails: records, or a record twice, when sketchers die, stand still and wake up, or partitions move.
    #[test]
    fn no_schedule_loses_or_doubles_a_record() {
        assert_eq!(ends(Fault::None), [3_000, 0, 0]);
    }

    #[test]
    fn planted_faults_are_seen() {
        let [_, n_holes, n_wrong] = ends(Fault::EarlyCommit);
        assert!(n_holes > 300 && n_wrong == 0, "commits before the acknowledgement are told: {n_holes}, {n_wrong}");
        let [_, n_holes, n_wrong] = ends(Fault::EarlyCommitWithoutFrom);
        assert!(n_holes == 0 && n_wrong > 300, "without `from` they would lose records silently: {n_holes}, {n_wrong}");
        let [_, _, n_wrong] = ends(Fault::NextPlusOne);
        assert!(n_wrong > 300, "{n_wrong}");
    }
}
