//! Records that kill the program: finds the record that every crash has in common, and rejects it.
//!
//! A running process leaves a note that it runs. The next process finds it and asks how the last one ended. It crashed if it
//! left a second note while it aborted or received a fatal signal, or if the kernel has killed a process for memory since it
//! began. Otherwise something outside ended it, and that is no crash, whatever record was in hand.
//!
//! Crashes count together within a *window*: the records that may have been in flight at the first of them. After the first
//! crash the stream is *careful* until it is past the window: the sketchers pick up one record at a time, noting each before
//! and clearing the note after. A record noted at two crashes, after three in all, is rejected as [`Reason::Poison`]. A
//! crash that leaves no record noted makes the stream *cautious* as well: batches hold one record, which is noted while it is
//! decided, and the source fetches no further ahead than it must.
//!
//! A note is a write to a file in the page cache. It survives the process, not the machine, and costs microseconds, paid only
//! after a crash.

use super::sketched_record::SketchedRecord;
use crate::ports::{CrashNote, CrashNotes, PoisonGuard, ProgressMap};
use crate::wire::{Origin, Reason, Rejection};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Crashes after which a record or a place is skipped.
const CRASHES_MAX: u32 = 3;

/// Crashes at which one record was noted: once could be a coincidence.
const NOTED_MIN: u32 = 2;

/// Crashes at which one place was being fetched. A fetch takes longer than a record, so that an unrelated crash is more likely
/// to fall into it.
const FETCHED_MIN: u32 = 3;

/// Noted records that are remembered.
const NOTED_MAX: usize = 4;

/// Characters of a record's name in a note; of a longer name only the end is kept.
const NAME_MAX: usize = 200;

/// What the machine tells about the processes on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// An id that changes with each boot.
    pub boot: String,
    /// Processes that the kernel has killed for memory since then.
    pub n_killed_for_memory: u64,
}

/// The crashes so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct CrashHistory {
    /// Whether a stream is running, or was when its process ended.
    running: bool,
    /// The machine when the process began.
    machine: Option<Machine>,
    /// Crashes in this window.
    n_deaths: u32,
    /// Records that were taken in at the first of them.
    begun_at: u64,
    /// What was noted at recent crashes, and at how many of them.
    noted: Vec<(String, u32)>,
    /// Whether a crash after the first left nothing noted.
    is_unexplained: bool,
}

/// Tracks which records and places the program crashes on.
pub struct PoisonTracker {
    notes: Option<Box<dyn CrashNotes>>,
    past: CrashHistory,
    careful: AtomicBool,
    /// Records until the window is passed.
    n_left: AtomicI64,
    /// Held by the sketcher that has a record in hand, so that only one has.
    turn: Mutex<()>,
    /// Whether the outcome of the run is written.
    is_over: AtomicBool,
}

/// A run that ends with an error did not crash; earlier crashes still count. A panic is a crash.
impl Drop for PoisonTracker {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.record_crash();
        }
        if !self.is_over.load(Ordering::Relaxed) {
            let past = if self.is_careful() { self.past.clone() } else { CrashHistory::default() };
            self.write(&CrashHistory { running: false, ..past });
        }
    }
}

/// A record in hand: noted until this is dropped.
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
        Self::new(None, CrashHistory::default(), 0)
    }
}

impl PoisonTracker {
    /// Reads what the last process left. `progress` is how far the store has come, `window` how many records may be in flight
    /// at once. The caller must write [`CrashNote::Death`] when the process receives a fatal signal.
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
        // Another version wrote it, or a power cut truncated it: the same as no note.
        let past: CrashHistory = serde_json::from_slice(&past).unwrap_or_default();
        let noted = String::from_utf8_lossy(&noted).into_owned();
        let has_crashed = past.running && (!read(CrashNote::Death).is_empty() || has_killed(&past.machine, &machine));
        let past = if has_crashed { with_crash(past, &noted, n_taken(progress), window as u64) } else { past };
        let n_passed = n_taken(progress).saturating_sub(past.begun_at);
        let past = CrashHistory { running: true, machine, ..past };
        let poison = Self::new(notes, past, window as i64 - n_passed as i64);
        if poison.is_careful() {
            let n_deaths = poison.past.n_deaths;
            tracing::warn!(
                "the program crashed {n_deaths} times near here: it picks up one record at a time until it is past this place"
            );
        }
        // A kill between these writes must not count as a second crash.
        [CrashNote::Death, CrashNote::Taken, CrashNote::Reading].into_iter().for_each(|note| poison.note(note, b""));
        poison.write(&poison.past);
        poison
    }

    fn new(notes: Option<Box<dyn CrashNotes>>, past: CrashHistory, n_left: i64) -> Self {
        let careful = AtomicBool::new(past.n_deaths > 0);
        let is_over = AtomicBool::new(notes.is_none());
        PoisonTracker { notes, careful, past, n_left: AtomicI64::new(n_left), turn: Mutex::new(()), is_over }
    }

    /// Whether sketchers pick up one record at a time.
    fn is_careful(&self) -> bool {
        self.careful.load(Ordering::Relaxed)
    }

    /// At how many crashes a name was noted.
    fn n_noted(&self, name: &str) -> u32 {
        self.past.noted.iter().find(|(noted, _)| noted == name).map_or(0, |(_, n)| *n)
    }

    /// The stream ended well.
    pub(super) fn finish(&self) {
        self.write(&CrashHistory::default());
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// A stage panicked; the rest of the program ends because of that.
    pub(super) fn record_crash(&self) {
        self.note(CrashNote::Death, b"+");
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Notes a record as being in hand, where that is needed.
    pub(super) fn pick_up(&self, origin: &Origin) -> InHand<'_> {
        // A poisoned lock means that a sketcher panicked with its record in hand: that record must stay noted.
        let turn = self.is_careful().then(|| self.turn.lock().ok()).flatten();
        if turn.is_some() {
            self.note(CrashNote::Taken, name_of(origin).as_bytes());
        }
        InHand(self, turn)
    }

    /// Notes the record of a batch of one as being in hand, where batches are of one because of crashes.
    pub(super) fn pick_up_single(&self, pages: &[SketchedRecord]) -> Option<InHand<'_>> {
        match pages {
            [page] if self.is_cautious() => Some(self.pick_up(&page.origin)),
            _ => None,
        }
    }

    /// Why a record is skipped; none where it is not.
    pub(super) fn poison_rejection(&self, origin: &Origin) -> Option<Rejection> {
        if self.past.n_deaths < CRASHES_MAX || !self.is_careful() {
            return None;
        }
        let n = Some(self.n_noted(&name_of(origin))).filter(|n| *n >= NOTED_MIN)?;
        tracing::error!("skipped {}, offset {}: the program crashes on it", origin.source, origin.offset);
        let message = format!(
            "the program crashed {} times near here, {n} times with this record in hand; please report it with the record",
            self.past.n_deaths
        );
        Some(Rejection::new(Reason::Poison, message))
    }

    /// Counts records that are written.
    pub(super) fn count_written(&self, n_records: usize) {
        if self.is_careful() && self.n_left.fetch_sub(n_records as i64, Ordering::Relaxed) <= n_records as i64 {
            tracing::info!("past the place where the program crashed");
            self.careful.store(false, Ordering::Relaxed);
            self.write(&CrashHistory { running: true, machine: self.past.machine.clone(), ..CrashHistory::default() });
        }
    }

    fn write(&self, past: &CrashHistory) {
        let bytes = serde_json::to_vec(past).unwrap_or_default();
        self.note(CrashNote::CrashHistory, if *past == CrashHistory::default() { b"" } else { &bytes });
    }

    /// Writes a note. The stream goes on without it where that fails.
    fn note(&self, note: CrashNote, bytes: &[u8]) {
        if let Some(Err(error)) = self.notes.as_ref().map(|notes| notes.write(note, bytes)) {
            tracing::warn!("cannot write the note of the record in hand: {error}");
        }
    }
}

impl PoisonGuard for PoisonTracker {
    /// A crash left no record noted: anything between source and store may be the cause.
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

/// Whether the kernel has killed a process for memory in between. It may have been this one.
fn has_killed(before: &Option<Machine>, now: &Option<Machine>) -> bool {
    let pair = before.as_ref().zip(now.as_ref());
    pair.is_some_and(|(before, now)| before.boot == now.boot && before.n_killed_for_memory < now.n_killed_for_memory)
}

/// The history with one more crash, which begins a new window where the last one is passed.
fn with_crash(mut past: CrashHistory, noted: &str, n_taken: u64, window: u64) -> CrashHistory {
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

/// Counts a name and moves it to the end; the names noted longest ago are forgotten.
fn remember(noted: &mut Vec<(String, u32)>, name: &str) {
    let n = noted.iter().position(|(other, _)| other == name).map_or(0, |at| noted.remove(at).1);
    noted.push((name.to_string(), n + 1));
    noted.drain(..noted.len().saturating_sub(NOTED_MAX));
}

/// Records that a store has taken in. Only differences mean anything: offsets need not begin at 0.
fn n_taken(progress: &ProgressMap) -> u64 {
    progress.values().map(|at| u64::try_from(at.next_offset).unwrap_or(0)).sum()
}

/// The name of a fetched place in a note.
fn fetched(place: &Origin) -> String {
    format!("fetching {}", name_of(place))
}

/// The name of a record in a note.
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

    /// Notes that outlive a process.
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

    /// A process that begins at an offset and is killed from outside, with a record in hand or with none; what it read of earlier ones.
    fn killed(notes: &Memory, from: i64, in_hand: Option<i64>, machine: Option<Machine>) -> PoisonTracker {
        let poison = PoisonTracker::begin(Some(Box::new(notes.clone())), &at(from), WINDOW, machine);
        poison.is_over.store(true, Ordering::Relaxed);
        let died_of = in_hand.map(|offset| poison.pick_up(&origin(offset)));
        let left = notes.clone().read(CrashNote::Taken).expect("read");
        drop(died_of);
        poison.note(CrashNote::Taken, &left);
        poison
    }

    /// The same, but the process crashes.
    fn lived(notes: &Memory, from: i64, in_hand: Option<i64>) -> PoisonTracker {
        let poison = killed(notes, from, in_hand, None);
        poison.record_crash();
        poison
    }

    #[test]
    fn a_record_in_hand_at_two_deaths_of_three_is_passed_over() {
        let notes = Memory::default();
        for _ in 0..3 {
            let poison = lived(&notes, 5, Some(8));
            assert_eq!(poison.poison_rejection(&origin(8)), None);
        }
        let poison = lived(&notes, 5, None);
        assert_eq!(poison.poison_rejection(&origin(8)).map(|why| why.reason), Some(Reason::Poison));
        assert_eq!(poison.poison_rejection(&origin(7)), None);
        assert!(!poison.is_cautious(), "the record is known");
        poison.count_written(9);
        assert!(poison.is_careful());
        poison.count_written(1);
        assert!(!poison.is_careful(), "it is passed");
        let poison = lived(&notes, 15, None);
        assert_eq!((poison.past.n_deaths, poison.poison_rejection(&origin(8))), (1, None), "a new window has begun");
    }

    #[test]
    fn who_is_killed_with_other_records_in_hand_loses_none() {
        let notes = Memory::default();
        for offset in [5, 6, 7, 8, 9, 10] {
            let poison = lived(&notes, 5, Some(offset));
            assert!((0..20).all(|offset| poison.poison_rejection(&origin(offset)).is_none()));
        }
    }

    /// Lost once: a good page that was in hand whenever an operator killed the program at one place.
    #[test]
    fn who_is_killed_from_outside_did_not_die() {
        let notes = Memory::default();
        lived(&notes, 5, Some(8));
        for _ in 0..5 {
            let poison = killed(&notes, 5, Some(8), None);
            assert!(poison.past.n_deaths == 1 && poison.poison_rejection(&origin(8)).is_none());
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
        // The machine was rebooted, or is another one.
        let other = machine(99).map(|machine| Machine { boot: "tomorrow".into(), ..machine });
        assert_eq!(killed(&notes, 5, Some(8), other).past.n_deaths, 2);
        assert_eq!(killed(&notes, 5, Some(8), None).past.n_deaths, 2);
    }

    #[test]
    fn who_panics_dies_and_the_record_in_hand_stays_noted() {
        let notes = Memory::default();
        lived(&notes, 5, Some(6));
        let poison = PoisonTracker::begin(Some(Box::new(notes.clone())), &at(5), WINDOW, None);
        let panicked = std::thread::spawn(move || {
            let in_hand = || {
                let _in_hand = poison.pick_up(&origin(8));
                panic!("as it should");
            };
            std::thread::scope(|scope| assert!(scope.spawn(in_hand).join().is_err()));
            drop(poison.pick_up(&origin(9)));
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
            let poison = lived(&notes, 5, None);
            assert_eq!((poison.is_cautious(), poison.is_poison(&origin(5))), (n > 1, n > 4), "after {n} deaths");
            poison.reading(Some(&origin(5)).filter(|_| poison.is_cautious()));
            assert!(!poison.is_poison(&origin(6)) && poison.poison_rejection(&origin(5)).is_none());
        }
    }

    #[test]
    fn an_end_in_good_order_is_no_death() {
        let notes = Memory::default();
        lived(&notes, 5, None).finish();
        assert!(!lived(&notes, 5, None).is_careful());
        let poison = PoisonTracker::begin(Some(Box::new(notes.clone())), &at(5), WINDOW, None);
        assert!(poison.is_careful());
        // The run ended with an error: the crash before it still counts.
        drop(poison);
        assert_eq!(lived(&notes, 5, None).past.n_deaths, 1);
    }

    #[test]
    fn notes_that_cannot_be_read_are_none() {
        let notes = Memory::default();
        notes.write(CrashNote::CrashHistory, b"\0\0\0").expect("written");
        assert!(!PoisonTracker::begin(Some(Box::new(notes)), &at(5), WINDOW, None).is_careful());
    }
}
