//! Records that kill the program: what it was at when it died is noted, and what it died of again and again is passed over.
//!
//! A process that ends without a word leaves a note behind that it was running. It died, of some record perhaps, if it noted
//! that as well, as it aborts or does what the processor refuses; or if the kernel has killed somebody since it began
//! because memory had run out. Otherwise it was killed from outside or the power went, whatever it had in hand: then it is
//! as if it had not ended.
//!
//! Deaths count together while the stream gets no further
//! than what may have been under way at the first of them; all that they could be due to lies in that window. After the
//! first one the stream goes on *carefully* until it is past the window: records are taken up one at a time, each noted
//! before and struck off after. The record that was noted at two deaths, the third one at the latest, is passed over, and
//! its event says so. Where a death leaves no record noted, the stream becomes *wary*: batches are of one record, which is
//! noted too while it is decided on, and the source reads no further ahead than it must.
//!
//! A note is a write to a file in the page cache: it survives the process, not the machine, and costs microseconds, which
//! are only paid after a death.

use crate::ports::{CrashNote, CrashNotes, PoisonGuard, ProgressMap};
use crate::wire::{Origin, Reason, Rejection};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Deaths after which something is passed over.
const TRIES_MAX: u32 = 3;

/// Deaths at which one and the same record was noted: one could be a coincidence.
const NOTED_MIN: u32 = 2;

/// Deaths at which one and the same place was being fetched from: it takes longer than a record, so that another death is
/// more likely to fall into it.
const FETCHED_MIN: u32 = 3;

/// Records remembered that were noted at a death.
const NOTED_MAX: usize = 4;

/// Characters of a record's name, of whose source only the end is kept then: a note has little room.
const NAME_MAX: usize = 200;

/// What the machine tells of the processes on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Another one after each start.
    pub boot: String,
    /// How many processes it has killed since then because memory had run out.
    pub n_killed_for_memory: u64,
}

/// What is known of earlier deaths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct CrashHistory {
    /// Whether a stream is running, or was when its process ended.
    running: bool,
    /// The machine as its process began.
    machine: Option<Machine>,
    /// Deaths in this window.
    n_deaths: u32,
    /// How many records had been taken in at the first of them.
    begun_at: u64,
    /// What was noted at the last ones, and at how many of these deaths.
    noted: Vec<(String, u32)>,
    /// Whether one after the first left nothing noted.
    is_unexplained: bool,
}

/// The tries of a stream.
pub struct PoisonTracker {
    notes: Option<Box<dyn CrashNotes>>,
    past: CrashHistory,
    careful: AtomicBool,
    /// Records until the window is passed.
    n_left: AtomicI64,
    /// Only one record is taken up at a time.
    turn: Mutex<()>,
    /// What came of it is written.
    is_over: AtomicBool,
}

/// Whoever ends in good order, although it could not go on, did not die; the deaths before still count. Whoever panics does
/// not end in good order.
impl Drop for PoisonTracker {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.died();
        }
        if !self.is_over.load(Ordering::Relaxed) {
            let past = if self.is_careful() { self.past.clone() } else { CrashHistory::default() };
            self.write(&CrashHistory { running: false, ..past });
        }
    }
}

/// While it lives, a record is noted as being taken up.
pub(super) struct InHand<'a>(&'a PoisonTracker, Option<MutexGuard<'a, ()>>);

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        if self.1.is_some() && !std::thread::panicking() {
            self.0.note(CrashNote::Taken, b"");
        }
    }
}

impl Default for PoisonTracker {
    fn default() -> Self {
        Self::of(None, CrashHistory::default(), 0)
    }
}

impl PoisonTracker {
    /// Looks at what the last process left; `progress` is how far the store has come, `window` how many records may be
    /// under way at once, `machine` what can be seen from here. Whoever calls this has [`CrashNote::Death`] written from now on.
    pub fn begin(
        notes: Option<Box<dyn CrashNotes>>,
        progress: &ProgressMap,
        window: usize,
        machine: Option<Machine>,
    ) -> Self {
        let read = |note| notes.as_ref().and_then(|notes| notes.read(note).ok()).unwrap_or_default();
        let (past, mut noted) = (read(CrashNote::CrashHistory), read(CrashNote::Taken));
        if noted.is_empty() {
            noted = read(CrashNote::Reading);
        }
        // Written by another version, or cut short as the power went: as if there were nothing.
        let past: CrashHistory = serde_json::from_slice(&past).unwrap_or_default();
        let noted = String::from_utf8_lossy(&noted).into_owned();
        let has_died = past.running && (!read(CrashNote::Death).is_empty() || has_killed(&past.machine, &machine));
        let past = if has_died { with_death(past, &noted, n_taken(progress), window as u64) } else { past };
        let n_passed = n_taken(progress).saturating_sub(past.begun_at);
        let past = CrashHistory { running: true, machine, ..past };
        let tries = Self::of(notes, past, window as i64 - n_passed as i64);
        if tries.is_careful() {
            let n_deaths = tries.past.n_deaths;
            tracing::warn!(
                "the program died {n_deaths} times hereabouts: records are taken up one at a time until this place is passed"
            );
        }
        // Whoever is killed between these is not to have died twice.
        [CrashNote::Death, CrashNote::Taken, CrashNote::Reading].into_iter().for_each(|note| tries.note(note, b""));
        tries.write(&tries.past);
        tries
    }

    fn of(notes: Option<Box<dyn CrashNotes>>, past: CrashHistory, n_left: i64) -> Self {
        let careful = AtomicBool::new(past.n_deaths > 0);
        let is_over = AtomicBool::new(notes.is_none());
        PoisonTracker { notes, careful, past, n_left: AtomicI64::new(n_left), turn: Mutex::new(()), is_over }
    }

    /// Whether records are taken up one at a time.
    fn is_careful(&self) -> bool {
        self.careful.load(Ordering::Relaxed)
    }

    /// At how many deaths this was noted.
    fn n_noted(&self, name: &str) -> u32 {
        self.past.noted.iter().find(|(noted, _)| noted == name).map_or(0, |(_, n)| *n)
    }

    /// The stream came to its end: nobody died of anything.
    pub(super) fn done(&self) {
        self.write(&CrashHistory::default());
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Part of the program died, and the rest only ends because of that.
    pub(super) fn died(&self) {
        self.note(CrashNote::Death, b"+");
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Notes that a record is taken up, where there is need to.
    pub(super) fn take_up(&self, origin: &Origin) -> InHand<'_> {
        // Where somebody panicked in his turn, the record that he had in hand stays noted, whoever still runs beside.
        let turn = self.is_careful().then(|| self.turn.lock().ok()).flatten();
        if turn.is_some() {
            self.note(CrashNote::Taken, name_of(origin).as_bytes());
        }
        InHand(self, turn)
    }

    /// Why a record is not taken up any more.
    pub(super) fn passed_over(&self, origin: &Origin) -> Option<Rejection> {
        if self.past.n_deaths < TRIES_MAX || !self.is_careful() {
            return None;
        }
        let n = Some(self.n_noted(&name_of(origin))).filter(|n| *n >= NOTED_MIN)?;
        tracing::error!("passed over: the program died of {}, offset {}", origin.source, origin.offset);
        let message = format!(
            "the program died {} times hereabouts, {n} times with this record in hand; please report it with the record",
            self.past.n_deaths
        );
        Some(Rejection::new(Reason::Poison, message))
    }

    /// So many records more are written.
    pub(super) fn written(&self, n_records: usize) {
        if self.is_careful() && self.n_left.fetch_sub(n_records as i64, Ordering::Relaxed) <= n_records as i64 {
            tracing::info!("the place where the program died is passed");
            self.careful.store(false, Ordering::Relaxed);
            self.write(&CrashHistory { running: true, machine: self.past.machine.clone(), ..CrashHistory::default() });
        }
    }

    fn write(&self, past: &CrashHistory) {
        let bytes = serde_json::to_vec(past).unwrap_or_default();
        self.note(CrashNote::CrashHistory, if *past == CrashHistory::default() { b"" } else { &bytes });
    }

    /// Whoever cannot make a note goes on without: the stream matters more.
    fn note(&self, note: CrashNote, bytes: &[u8]) {
        if let Some(Err(error)) = self.notes.as_ref().map(|notes| notes.write(note, bytes)) {
            tracing::warn!("what is being done cannot be noted: {error}");
        }
    }
}

impl PoisonGuard for PoisonTracker {
    /// A death left no record noted, so that it may be due to anything between the source and the store.
    fn is_cautious(&self) -> bool {
        self.is_careful() && self.past.is_unexplained
    }

    fn reading(&self, place: Option<&Origin>) {
        self.note(CrashNote::Reading, place.map(fetched).unwrap_or_default().as_bytes());
    }

    fn is_poison(&self, place: &Origin) -> bool {
        self.is_careful() && self.n_noted(&fetched(place)) >= FETCHED_MIN
    }
}

/// Whether the kernel has killed somebody for memory since then: whoever it was, it may have been this program.
fn has_killed(before: &Option<Machine>, now: &Option<Machine>) -> bool {
    let pair = before.as_ref().zip(now.as_ref());
    pair.is_some_and(|(before, now)| before.boot == now.boot && before.n_killed_for_memory < now.n_killed_for_memory)
}

/// The past with one more death, which begins a window of its own where the one before is passed.
fn with_death(mut past: CrashHistory, noted: &str, n_taken: u64, window: u64) -> CrashHistory {
    if past.n_deaths == 0 || n_taken.saturating_sub(past.begun_at) >= window {
        past = CrashHistory { begun_at: n_taken, ..CrashHistory::default() };
    }
    past.n_deaths += 1;
    past.is_unexplained |= noted.is_empty() && past.n_deaths > 1;
    if !noted.is_empty() {
        remember(&mut past.noted, noted);
    }
    past
}

/// Counts a name and puts it last; the ones that were not noted for longest are forgotten.
fn remember(noted: &mut Vec<(String, u32)>, name: &str) {
    let n = noted.iter().position(|(other, _)| other == name).map_or(0, |at| noted.remove(at).1);
    noted.push((name.to_string(), n + 1));
    noted.drain(..noted.len().saturating_sub(NOTED_MAX));
}

/// How many records a store has taken in: only differences mean something, for offsets need not begin at 0.
fn n_taken(progress: &ProgressMap) -> u64 {
    progress.values().map(|at| u64::try_from(at.next_offset).unwrap_or(0)).sum()
}

/// The name of a place that is fetched from in a note.
fn fetched(place: &Origin) -> String {
    format!("fetching {}", name_of(place))
}

/// A record's name in a note.
fn name_of(origin: &Origin) -> String {
    let mut name: Vec<char> = format!("{} {} {}", origin.source, origin.partition, origin.offset).chars().collect();
    name.drain(..name.len().saturating_sub(NAME_MAX));
    name.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::{Progress, StoreError};
    use std::collections::HashMap;
    use std::sync::Arc;

    /// Notes as they outlive a process.
    #[derive(Clone, Default)]
    struct Memory(Arc<Mutex<HashMap<CrashNote, Vec<u8>>>>);

    impl CrashNotes for Memory {
        fn read(&self, note: CrashNote) -> Result<Vec<u8>, StoreError> {
            Ok(self.0.lock().expect("no panic").get(&note).cloned().unwrap_or_default())
        }

        fn write(&self, note: CrashNote, bytes: &[u8]) -> Result<(), StoreError> {
            self.0.lock().expect("no panic").insert(note, bytes.to_vec());
            Ok(())
        }
    }

    const WINDOW: usize = 10;

    fn origin(offset: i64) -> Origin {
        Origin { source: "pages".into(), partition: 1, offset }
    }

    fn at(next_offset: i64) -> ProgressMap {
        ProgressMap::from([(("pages".into(), 1), Progress { next_offset, chain: 0 })])
    }

    fn machine(n_killed_for_memory: u64) -> Option<Machine> {
        Some(Machine { boot: "today".into(), n_killed_for_memory })
    }

    /// A process that begins at an offset and is killed with a record in hand, or with none; what it knew of those before.
    fn killed(notes: &Memory, from: i64, in_hand: Option<i64>, machine: Option<Machine>) -> PoisonTracker {
        let tries = PoisonTracker::begin(Some(Box::new(notes.clone())), &at(from), WINDOW, machine);
        tries.is_over.store(true, Ordering::Relaxed);
        let died_of = in_hand.map(|offset| tries.take_up(&origin(offset)));
        let left = notes.clone().read(CrashNote::Taken).expect("read");
        drop(died_of);
        tries.note(CrashNote::Taken, &left);
        tries
    }

    /// The same, but it dies by its own hand.
    fn lived(notes: &Memory, from: i64, in_hand: Option<i64>) -> PoisonTracker {
        let tries = killed(notes, from, in_hand, None);
        tries.died();
        tries
    }

    #[test]
    fn a_record_in_hand_at_two_deaths_of_three_is_passed_over() {
        let notes = Memory::default();
        for _ in 0..3 {
            let tries = lived(&notes, 5, Some(8));
            assert_eq!(tries.passed_over(&origin(8)), None);
        }
        let tries = lived(&notes, 5, None);
        assert_eq!(tries.passed_over(&origin(8)).map(|why| why.reason), Some(Reason::Poison));
        assert_eq!(tries.passed_over(&origin(7)), None);
        assert!(!tries.is_cautious(), "the record is known");
        tries.written(9);
        assert!(tries.is_careful());
        tries.written(1);
        assert!(!tries.is_careful(), "it is passed");
        let tries = lived(&notes, 15, None);
        assert_eq!((tries.past.n_deaths, tries.passed_over(&origin(8))), (1, None), "a new window has begun");
    }

    #[test]
    fn who_is_killed_with_other_records_in_hand_loses_none() {
        let notes = Memory::default();
        for offset in [5, 6, 7, 8, 9, 10] {
            let tries = lived(&notes, 5, Some(offset));
            assert!((0..20).all(|offset| tries.passed_over(&origin(offset)).is_none()));
        }
    }

    /// Lost once: a good page, which was in hand whenever somebody killed the program in one place.
    #[test]
    fn who_is_killed_from_outside_did_not_die() {
        let notes = Memory::default();
        lived(&notes, 5, Some(8));
        for _ in 0..5 {
            let tries = killed(&notes, 5, Some(8), None);
            assert!(tries.past.n_deaths == 1 && tries.passed_over(&origin(8)).is_none());
        }
        let notes = Memory::default();
        for n in 0..5 {
            assert!(!killed(&notes, 5, Some(8), machine(7)).is_careful(), "after {n} kills");
        }
    }

    #[test]
    fn who_is_killed_where_memory_ran_out_died() {
        let notes = Memory::default();
        for (n_killed, n_deaths) in [(7, 0), (8, 1), (8, 1), (10, 2)] {
            assert_eq!(killed(&notes, 5, Some(8), machine(n_killed)).past.n_deaths, n_deaths);
        }
        // The machine was started again, or is another one.
        let other = machine(99).map(|machine| Machine { boot: "tomorrow".into(), ..machine });
        assert_eq!(killed(&notes, 5, Some(8), other).past.n_deaths, 2);
        assert_eq!(killed(&notes, 5, Some(8), None).past.n_deaths, 2);
    }

    #[test]
    fn who_panics_dies_and_the_record_in_hand_stays_noted() {
        let notes = Memory::default();
        lived(&notes, 5, Some(6));
        let tries = PoisonTracker::begin(Some(Box::new(notes.clone())), &at(5), WINDOW, None);
        let panicked = std::thread::spawn(move || {
            let in_hand = || {
                let _taken_up = tries.take_up(&origin(8));
                panic!("as it should");
            };
            std::thread::scope(|scope| assert!(scope.spawn(in_hand).join().is_err()));
            drop(tries.take_up(&origin(9)));
            panic!("and so does the rest");
        });
        assert!(panicked.join().is_err());
        assert_eq!(notes.read(CrashNote::Taken).expect("read"), b"pages 1 8");
        assert_eq!(lived(&notes, 5, None).past.n_deaths, 2);
    }

    #[test]
    fn deaths_with_nothing_in_hand_make_wary() {
        let notes = Memory::default();
        for n in 0..3 {
            assert_eq!(lived(&notes, 5, None).is_cautious(), n > 1, "after {n} deaths");
        }
    }

    #[test]
    fn a_place_that_was_fetched_from_at_three_deaths_is_poison() {
        let notes = Memory::default();
        for n in 0..6 {
            let tries = lived(&notes, 5, None);
            assert_eq!((tries.is_cautious(), tries.is_poison(&origin(5))), (n > 1, n > 4), "after {n} deaths");
            tries.reading(Some(&origin(5)).filter(|_| tries.is_cautious()));
            assert!(!tries.is_poison(&origin(6)) && tries.passed_over(&origin(5)).is_none());
        }
    }

    #[test]
    fn an_end_in_good_order_is_no_death() {
        let notes = Memory::default();
        lived(&notes, 5, None).done();
        assert!(!lived(&notes, 5, None).is_careful());
        let tries = PoisonTracker::begin(Some(Box::new(notes.clone())), &at(5), WINDOW, None);
        assert!(tries.is_careful());
        // It could not go on, and said so: the death before it still counts.
        drop(tries);
        assert_eq!(lived(&notes, 5, None).past.n_deaths, 1);
    }

    #[test]
    fn notes_that_cannot_be_read_are_none() {
        let notes = Memory::default();
        notes.write(CrashNote::CrashHistory, b"\0\0\0").expect("written");
        assert!(!PoisonTracker::begin(Some(Box::new(notes)), &at(5), WINDOW, None).is_careful());
    }
}
