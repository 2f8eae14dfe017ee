//! The records of a topic in the order in which its owner took them.

use super::order::{Step, step};
use super::published_events::{Answer, PublishedEvents};
use super::shelves::{Shelves, Unavailable};
use crate::ports::{
    CloseFailure, ClosingPart, Incoming, Polled, Progress, ProgressMap, PublishedEvent, Reading, Source, SourceError,
    StopReason, SweepCloser,
};
use crate::wire::Rejection;
use std::sync::Arc;
use std::time::Duration;

/// Records read or events passed in one poll, so that a shutdown is noticed meanwhile.
const STEPS_MAX: usize = 1_000;

/// How long closing a sweep may take. It ends with the stream in any case.
const CLOSE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Reads pages in the order that published events tell, and closes sweeps where they do.
pub struct StandbySource {
    pages: Box<dyn Source>,
    topic: Arc<str>,
    published: Arc<PublishedEvents>,
    shelves: Shelves,
    /// The number of the next event to go by.
    next: u64,
    /// The record to be taken next, and the event that tells it.
    wanted: Option<(Wanted, Arc<PublishedEvent>)>,
    closer: Box<dyn SweepCloser>,
}

struct Wanted {
    partition: i32,
    offset: i64,
    told: Option<Rejection>,
}

impl StandbySource {
    /// Goes by the events from `next_seq` on. `pages` reads `topic` from `stored` on; a partition waits once `bytes_max` bytes of
    /// its records came too early.
    pub fn new(
        pages: Box<dyn Source>,
        (topic, stored): (&str, &ProgressMap),
        published: Arc<PublishedEvents>,
        next_seq: u64,
        closer: Box<dyn SweepCloser>,
        bytes_max: usize,
    ) -> Self {
        let is_known = |(source, at): (&String, &Progress)| source == topic && at.next_offset >= 0;
        let begun = stored.iter().filter(|((source, _), at)| is_known((source, *at)));
        let shelves = Shelves::new(topic.into(), begun.map(|((_, partition), _)| *partition), bytes_max);
        StandbySource { pages, topic: topic.into(), published, shelves, next: next_seq, wanted: None, closer }
    }

    /// Takes the record that is wanted; none where it has not been read.
    fn take(&mut self) -> Result<Option<Incoming>, SourceError> {
        let Some((Wanted { partition, offset, told }, event)) = &self.wanted else { return Ok(None) };
        let taken = self
            .shelves
            .take(*partition, *offset, told.as_ref())
            .map_err(|why| self.unavailable((*partition, *offset), event.seq, &why))?;
        if taken.is_some() {
            if self.shelves.should_resume(*partition) {
                self.pages.pause(*partition, false);
            }
            self.wanted = None;
        }
        Ok(taken)
    }

    /// Reads a record; false where none came.
    fn read(&mut self, timeout: Duration) -> Result<Option<Polled>, SourceError> {
        match self.pages.poll(timeout).map_err(of_a_standby)? {
            Polled::Record(incoming) => {
                let partition = incoming.origin.partition;
                if self.shelves.add(incoming) {
                    self.pages.pause(partition, true);
                }
                Ok(None)
            }
            other => Ok(Some(other)),
        }
    }

    /// Goes on to the next event; true where there is none yet.
    fn advance(&mut self, event: Arc<PublishedEvent>, timeout: Duration) -> Result<bool, SourceError> {
        let step = step(&event, &self.topic).map_err(|why| not_followed(&event, &why))?;
        match step {
            Step::Follows => {}
            Step::Take { partition, offset, told } => {
                self.wanted = Some((Wanted { partition, offset, told }, event));
            }
            // A batch at a time, so that this store never has more of the closing than its owner published. The owner may die, and
            // take pages before it goes on.
            Step::Close { sweep } => {
                // What came before must be decided before.
                if !self.published.is_compared(event.seq, timeout) {
                    return Ok(true);
                }
                let Some(next_seq) = self.close_batch(&sweep, &event)? else { return Ok(true) };
                // The batch gives these events. They may be compared already, and are not kept then.
                self.next = next_seq;
                return Ok(false);
            }
        }
        self.next += 1;
        Ok(false)
    }

    /// Closes the next batch of a sweep, to which an event belongs. Returns the number behind its events; none where the stream
    /// is ending.
    fn close_batch(&self, sweep: &str, event: &PublishedEvent) -> Result<Option<u64>, SourceError> {
        match self.closer.close(sweep, ClosingPart::Batch, CLOSE_MAX) {
            Ok((_, next_seq)) if next_seq > event.seq => Ok(Some(next_seq)),
            Ok(_) => Err(SourceError {
                stop_reason: StopReason::Diverged,
                message: format!(
                    "event {} (in {}) tells of closing the sweep {sweep:?}, of which nothing is left to close here: this store is \
                     not from the past of the owner's. Keep both stores, report it, and start from a newer backup of the owner's \
                     store",
                    event.seq, event.place
                ),
            }),
            // The stream says why.
            Err(CloseFailure::Ended) => Ok(None),
            Err(why) => Err(not_followed(event, &format!("the sweep {sweep:?} cannot be closed here: {why:?}"))),
        }
    }

    fn unavailable(&self, (partition, offset): (i32, i64), seq: u64, why: &Unavailable) -> SourceError {
        let topic = &self.topic;
        let place = format!("event {seq} tells of topic {topic:?}, partition {partition}, offset {offset}");
        match why {
            Unavailable::Gone => SourceError {
                stop_reason: StopReason::NotFollowed,
                message: format!(
                    "{place}, which the topic no longer holds. Start from a newer backup of the owner's store; a longer \
                     retention.ms gives a standby more time"
                ),
            },
            Unavailable::Skipped(skipped) => SourceError {
                stop_reason: StopReason::Diverged,
                message: format!(
                    "{place}, but no event tells of offset {skipped} before it, which the topic holds: the owner left a \
                     record out, or this store is not from its past. Keep both stores, report it, and start from a newer \
                     backup of the owner's store"
                ),
            },
        }
    }
}

/// Only an owner accepts gaps; events tell of those that it accepted.
fn of_a_standby(error: SourceError) -> SourceError {
    match error.stop_reason {
        StopReason::Overtaken | StopReason::Replaced => SourceError {
            stop_reason: StopReason::NotFollowed,
            message: format!(
                "{}. That is for the owner. A standby that is started again goes by the gap of which the events tell; \
                 where they need what is gone, start from a newer backup of the owner's store",
                error.message
            ),
        },
        _ => error,
    }
}

fn not_followed(event: &PublishedEvent, why: &str) -> SourceError {
    SourceError {
        stop_reason: StopReason::NotFollowed,
        message: format!(
            "event {} (in {}) cannot be followed: {why}. Start from a backup of the owner's store that was made after it",
            event.seq, event.place
        ),
    }
}

impl Source for StandbySource {
    fn poll(&mut self, timeout: Duration) -> Result<Polled, SourceError> {
        for _ in 0..STEPS_MAX {
            if self.wanted.is_some() {
                if let Some(incoming) = self.take()? {
                    return Ok(Polled::Record(incoming));
                }
                if let Some(polled) = self.read(timeout)? {
                    return Ok(polled);
                }
                continue;
            }
            let is_waiting = match self.published.event(self.next, timeout)? {
                Answer::End => return Ok(Polled::End),
                Answer::Event(event) => self.advance(event, timeout)?,
                Answer::Unknown { .. } => true,
            };
            if is_waiting {
                // Reads ahead, and keeps the connection in good order.
                let read = self.read(Duration::ZERO)?;
                return Ok(read.filter(|polled| matches!(polled, Polled::Unreadable(_))).unwrap_or(Polled::Idle));
            }
        }
        Ok(Polled::Idle)
    }

    fn readings(&mut self) -> Vec<Reading> {
        let mut readings = self.pages.readings();
        readings.push(Reading::new("lookalike_standby_lag_events", Vec::new(), self.published.lag() as f64));
        readings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::{ClosedSweep, EventReader};
    use crate::wire::{Message, Origin, Record};
    use std::collections::VecDeque;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicBool;

    /// Records in the order of another reader.
    struct Pages(VecDeque<(i32, i64)>);

    impl Source for Pages {
        fn poll(&mut self, _: Duration) -> Result<Polled, SourceError> {
            let Some((partition, offset)) = self.0.pop_front() else { return Ok(Polled::Idle) };
            let origin = Origin { source: "pages".into(), partition, offset };
            Ok(Polled::Record(Incoming { origin, from: offset, chain: 0, record: Record::Json(Vec::new()) }))
        }
    }

    /// Events, a message each, until they end.
    struct Events(VecDeque<PublishedEvent>, Arc<AtomicBool>);

    impl EventReader for Events {
        fn poll(&mut self, _: Duration) -> Result<Option<PublishedEvent>, SourceError> {
            self.1.store(self.0.len() <= 1, std::sync::atomic::Ordering::Relaxed);
            Ok(self.0.pop_front())
        }

        fn is_at_end(&self) -> bool {
            self.0.is_empty()
        }

        fn n_unread(&mut self) -> u64 {
            self.0.len() as u64
        }

        fn pause(&mut self, _: i32, _: bool) {}

        fn n_partitions(&self) -> usize {
            1
        }
    }

    /// The sweeps of which a batch was closed, each with the event where it began.
    type Closed = Arc<Mutex<Vec<(u64, String)>>>;

    /// Notes what is closed: a batch has two events.
    struct Closer(Arc<PublishedEvents>, Closed);

    impl SweepCloser for Closer {
        fn close(&self, sweep: &str, part: ClosingPart, _: Duration) -> Result<(ClosedSweep, u64), CloseFailure> {
            assert_eq!(part, ClosingPart::Batch);
            let next = self.0.next();
            self.1.lock().expect("a list").push((next, sweep.to_string()));
            Ok((ClosedSweep { sweep: sweep.to_string(), n_hosts: 0, n_lost: 0, n_moved: None }, next + 2))
        }
    }

    fn event(seq: u64, kind: &str, source: &str, partition: i32, offset: i64, rest: &str) -> PublishedEvent {
        let json = format!(
            r#"{{"type":"{kind}","seq":{seq},"source":"{source}","partition":{partition},"offset":{offset},"url":null,"fetched_at":null,"sweep":null{rest}}}"#
        );
        let place = Origin { source: "events".into(), partition: 0, offset: seq as i64 };
        PublishedEvent { place, seq, message: Message { value: Some(json.into()), ..Message::default() } }
    }

    fn standby(pages: &[(i32, i64)], events: Vec<PublishedEvent>) -> (StandbySource, Arc<PublishedEvents>, Closed) {
        let (published, stop) = (Arc::new(PublishedEvents::from(0)), Arc::new(AtomicBool::new(false)));
        published.set_end(events.len() as u64);
        published.read(&mut Events(events.into(), Arc::clone(&stop)), &stop);
        let closed = Arc::default();
        let closer = Box::new(Closer(Arc::clone(&published), Arc::clone(&closed)));
        let pages = Box::new(Pages(pages.iter().copied().collect()));
        let source =
            StandbySource::new(pages, ("pages", &ProgressMap::new()), Arc::clone(&published), 0, closer, 1 << 20);
        (source, published, closed)
    }

    /// Polls to the end.
    fn taken(source: &mut StandbySource) -> Result<Vec<(i32, i64)>, SourceError> {
        let mut taken = Vec::new();
        loop {
            match source.poll(Duration::ZERO)? {
                Polled::Record(incoming) => taken.push((incoming.origin.partition, incoming.origin.offset)),
                _ => return Ok(taken),
            }
        }
    }

    #[test]
    fn records_come_in_the_order_of_the_events() {
        let merged = r#","cluster":1,"loser":2,"winner":1"#;
        let events = vec![
            event(0, "gone", "pages", 1, 4, ""),
            event(1, "merged", "pages", 1, 4, merged),
            event(2, "gone", "pages", 0, 7, ""),
            event(3, "gone", "pages", 1, 5, ""),
        ];
        let (mut source, ..) = standby(&[(0, 7), (0, 8), (1, 4), (1, 5), (1, 6)], events);
        assert_eq!(taken(&mut source).expect("in order"), [(1, 4), (0, 7), (1, 5)]);
        assert!(matches!(source.poll(Duration::ZERO), Ok(Polled::End)));
    }

    /// Lost if this fails: the URLs that a sweep lost, which depend on what came before its end. Lost once: the standby, whose
    /// store had the whole closing, where its owner died within it and took a page before it went on.
    #[test]
    fn a_sweep_is_closed_batch_by_batch_once_everything_before_is_compared() {
        let lost = |seq, offset| event(seq, "lost", "sweep s", 0, offset, r#","document":1"#);
        let events = vec![
            event(0, "gone", "pages", 0, 0, ""),
            lost(1, 0),
            lost(2, 1),
            event(3, "gone", "pages", 0, 1, ""),
            lost(4, 0),
            event(5, "sweep-closed", "sweep s", 0, 1, r#","n_lost":1"#),
            event(6, "gone", "pages", 0, 2, ""),
        ];
        let (mut source, published, closed) = standby(&[(0, 0), (0, 1), (0, 2)], events);
        let closed = || closed.lock().expect("a list").clone();
        assert_eq!(taken(&mut source).expect("in order"), [(0, 0)]);
        assert_eq!(closed(), [], "the page before is not decided");
        published.compared(1);
        assert_eq!(taken(&mut source).expect("in order"), [(0, 1)]);
        assert_eq!(closed(), [(1, "s".to_string())]);
        published.compared(4);
        assert_eq!(taken(&mut source).expect("in order"), [(0, 2)]);
        assert_eq!(closed(), [(1, "s".to_string()), (4, "s".to_string())]);
    }

    #[test]
    fn a_record_that_no_event_tells_of_is_noticed() {
        let events = vec![event(0, "gone", "pages", 0, 0, ""), event(1, "gone", "pages", 0, 2, "")];
        let (mut source, ..) = standby(&[(0, 0), (0, 1), (0, 2)], events);
        let error = taken(&mut source).expect_err("one was left out");
        assert_eq!(error.stop_reason, StopReason::Diverged);
        assert!(error.message.contains("event 1") && error.message.contains("offset 1"), "{}", error.message);
    }
}
