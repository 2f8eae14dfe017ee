//! The published events between the thread that reads them, the source that goes by them and the sink that compares.

use super::sequence::Sequence;
use crate::ports::{EventReader, PublishedEvent, SourceError, StopReason};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Events read ahead of the comparison, at most.
const AHEAD_MAX: usize = 100_000;

/// How long a missing event may take to show after the others are read: partitions show a transaction one after the other.
const MISSING_AFTER: Duration = Duration::from_secs(10);

/// How long one poll of the reader may keep it from noticing the end.
const POLL: Duration = Duration::from_millis(50);

/// Published events, in order, from the first that is not compared yet.
pub struct PublishedEvents {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// In order, without a hole.
    events: VecDeque<Arc<PublishedEvent>>,
    /// The number of the first of them, which is compared next.
    next: u64,
    /// The number behind the last event to follow, once that is known.
    end: Option<u64>,
    n_unread: u64,
    is_at_end: bool,
    failure: Option<(StopReason, String)>,
}

/// What is known of an event.
pub(super) enum Answer {
    /// It.
    Event(Arc<PublishedEvent>),
    /// Nothing yet; whether all that is published was read.
    Unknown { is_at_end: bool },
    /// It is behind the last event to follow.
    End,
}

impl PublishedEvents {
    /// Events from this number on.
    pub fn from(next: u64) -> Self {
        let state = State { events: VecDeque::new(), next, end: None, n_unread: 0, is_at_end: false, failure: None };
        PublishedEvents { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows the events below `end`, and no others.
    pub fn set_end(&self, end: u64) {
        self.lock().end = Some(end);
        self.changed.notify_all();
    }

    /// Ends the following with an error.
    pub fn fail(&self, error: SourceError) {
        self.lock().failure.get_or_insert((error.stop_reason, error.message));
        self.changed.notify_all();
    }

    /// The number of the event to be compared next.
    pub fn next(&self) -> u64 {
        self.lock().next
    }

    /// The events that are published and not compared, as far as known.
    pub fn lag(&self) -> u64 {
        let state = self.lock();
        state.events.len() as u64 + state.n_unread
    }

    /// Reads events until `stop` is set, or reading fails.
    pub fn read(&self, reader: &mut dyn EventReader, stop: &AtomicBool) {
        if let Err(error) = self.try_read(reader, stop) {
            self.fail(error);
        }
    }

    fn try_read(&self, reader: &mut dyn EventReader, stop: &AtomicBool) -> Result<(), SourceError> {
        let mut sequence = Sequence::from(self.next());
        let mut missing_since: Option<(u64, Instant)> = None;
        while !stop.load(Ordering::Relaxed) {
            if !self.has_room() {
                continue;
            }
            if let Some(event) = reader.poll(POLL)? {
                sequence.push(event);
            }
            let (is_at_end, n_unread) = (reader.is_at_end(), reader.n_unread());
            let mut state = self.lock();
            state.events.extend(std::iter::from_fn(|| sequence.pop()).map(Arc::new));
            (state.is_at_end, state.n_unread) = (is_at_end, n_unread);
            drop(state);
            self.changed.notify_all();
            sequence.pauses().into_iter().for_each(|(partition, is_paused)| reader.pause(partition, is_paused));
            match (sequence.missing(reader.n_partitions(), reader.is_at_end()), missing_since) {
                (None, _) => missing_since = None,
                (Some(seq), Some((known, since))) if seq == known => {
                    if since.elapsed() >= MISSING_AFTER {
                        return Err(missing(seq));
                    }
                }
                (Some(seq), _) => missing_since = Some((seq, Instant::now())),
            }
        }
        Ok(())
    }

    /// Waits for room for more events; false where none comes soon.
    fn has_room(&self) -> bool {
        let state = self.lock();
        let is_full = |state: &mut State| state.events.len() >= AHEAD_MAX;
        let waited = self.changed.wait_timeout_while(state, POLL, is_full).unwrap_or_else(PoisonError::into_inner);
        !waited.1.timed_out()
    }

    /// The event of a number that is not compared yet; waits at most `timeout` for it.
    pub(super) fn event(&self, seq: u64, timeout: Duration) -> Result<Answer, SourceError> {
        let is_unknown = |state: &mut State| {
            state.failure.is_none() && state.end.is_none_or(|end| seq < end) && state.at(seq).is_none()
        };
        let state = self.changed.wait_timeout_while(self.lock(), timeout, is_unknown);
        let state = state.unwrap_or_else(PoisonError::into_inner).0;
        if let Some((stop_reason, message)) = &state.failure {
            return Err(SourceError { stop_reason: *stop_reason, message: message.clone() });
        }
        if state.end.is_some_and(|end| seq >= end) {
            return Ok(Answer::End);
        }
        Ok(state
            .at(seq)
            .map_or(Answer::Unknown { is_at_end: state.is_at_end }, |event| Answer::Event(Arc::clone(event))))
    }

    /// Notes that every event below `next` is compared.
    pub(super) fn compared(&self, next: u64) {
        let mut state = self.lock();
        let n = usize::try_from(next.saturating_sub(state.next)).unwrap_or(usize::MAX).min(state.events.len());
        state.events.drain(..n);
        state.next = next;
        drop(state);
        self.changed.notify_all();
    }

    /// Whether every event below `seq` is compared; waits at most `timeout` for that.
    pub(super) fn is_compared(&self, seq: u64, timeout: Duration) -> bool {
        let is_behind = |state: &mut State| state.failure.is_none() && state.next < seq;
        let state = self.changed.wait_timeout_while(self.lock(), timeout, is_behind);
        state.unwrap_or_else(PoisonError::into_inner).0.next >= seq
    }
}

impl State {
    fn at(&self, seq: u64) -> Option<&Arc<PublishedEvent>> {
        self.events.get(usize::try_from(seq.checked_sub(self.next)?).ok()?)
    }
}

fn missing(seq: u64) -> SourceError {
    SourceError {
        stop_reason: StopReason::NotFollowed,
        message: format!(
            "the topic of events does not hold event {seq}, which this store needs next: retention may have deleted it. \
             Start from a newer backup of the owner's store"
        ),
    }
}
