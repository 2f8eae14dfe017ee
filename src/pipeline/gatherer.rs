//! Gathers sketched pages, in order of arrival, into micro-batches: full, or, where the source has no more at hand, as much as
//! came until somebody was free to look them up.

use super::close_requests::{CloseRequest, CloseRequests};
use super::poison::PoisonTracker;
use super::publisher::PublishTime;
use super::sequencer::{Sequencer, Ticketed};
use super::settings::Settings;
use super::sketched_record::{SketchedChunk, SketchedRecord};
use crate::ports::PoisonGuard;
use crossbeam::channel::{Receiver, RecvError, RecvTimeoutError, Sender, TryRecvError};
use crossbeam::select;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What is to be decided next.
pub(super) enum Next {
    /// Takes in some pages.
    Pages(Vec<SketchedRecord>),
    /// Closes a sweep.
    Close(CloseRequest),
}

/// Gathers the work of the look-ups.
pub(super) struct Gatherer {
    pages: Receiver<Ticketed<SketchedChunk>>,
    requests: CloseRequests,
    sequencer: Sequencer<SketchedChunk>,
    /// Pages in order, for the next batches.
    ready: VecDeque<SketchedRecord>,
    /// Whether the source may have had more at hand when it gave the last of them.
    has_more: bool,
    batch_records_max: usize,
    batch_latency: Duration,
    poison: Arc<PoisonTracker>,
    idle: Arc<IdleCount>,
    publish_time: Arc<PublishTime>,
}

/// How long a batch waits, at least, for more pages where it could be looked up at once and the source has no more at hand. A few
/// pages together cost less than each alone.
const COMPANY_WAIT: Duration = Duration::from_millis(4);

/// How often to ask whether somebody is free.
const IDLE_POLL: Duration = Duration::from_millis(1);

/// How many threads wait for something to look up.
#[derive(Debug, Default)]
pub(super) struct IdleCount(AtomicUsize);

impl IdleCount {
    /// Counts a thread while it waits.
    pub fn while_idle<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.0.fetch_add(1, Ordering::Relaxed);
        let received = wait();
        self.0.fetch_sub(1, Ordering::Relaxed);
        received
    }

    fn is_any(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }
}

impl Gatherer {
    /// Hands out work until no more pages come, or the look-ups have ended.
    pub fn run(mut self, out: &Sender<Ticketed<Next>>) {
        for ticket in 0.. {
            let Some(next) = self.next() else { break };
            kill_point!("gathered");
            if out.send(Ticketed { ticket, item: next }).is_err() {
                break;
            }
        }
    }

    pub fn new(
        pages: Receiver<Ticketed<SketchedChunk>>,
        requests: CloseRequests,
        settings: &Settings,
        poison: Arc<PoisonTracker>,
        idle: Arc<IdleCount>,
        publish_time: Arc<PublishTime>,
    ) -> Self {
        Gatherer {
            pages,
            requests,
            sequencer: Sequencer::new(),
            ready: VecDeque::new(),
            has_more: false,
            batch_records_max: settings.batch_records(),
            batch_latency: Duration::from_millis(settings.batch_latency_ms_max),
            poison,
            idle,
            publish_time,
        }
    }

    /// How long a batch waits for more pages where it could be looked up at once. Batches that come faster than they can be published
    /// would only wait there, each with work of its own, which slows down all stages and the brokers.
    fn company_wait(&self) -> Duration {
        let wait = if self.has_more { self.batch_latency } else { COMPANY_WAIT.max(self.publish_time.last()) };
        wait.min(self.batch_latency)
    }

    /// The next micro-batch, or a sweep to close before it; none at the end.
    fn next(&mut self) -> Option<Next> {
        let mut begun = None;
        match self.requests.requests().try_recv() {
            Ok(request) => return Some(Next::Close(request)),
            Err(TryRecvError::Disconnected) => self.requests.end(),
            Err(TryRecvError::Empty) => {}
        }
        loop {
            while let Some(chunk) = self.sequencer.pop() {
                self.ready.extend(chunk.records);
                self.has_more = chunk.has_more;
            }
            let n_max = if self.poison.is_cautious() { 1 } else { self.batch_records_max };
            if self.ready.len() >= n_max {
                return Some(Next::Pages(self.ready.drain(..n_max).collect()));
            }
            let received = if self.ready.is_empty() {
                select! {
                    recv(self.pages) -> received => received.map_err(|RecvError| RecvTimeoutError::Disconnected),
                    recv(self.requests.requests()) -> request => {
                        match request {
                            Ok(request) => return Some(Next::Close(request)),
                            Err(RecvError) => self.requests.end(),
                        }
                        continue;
                    }
                }
            } else {
                let waited = begun.get_or_insert_with(Instant::now).elapsed();
                let company_wait = self.company_wait();
                if waited >= self.batch_latency || (waited >= company_wait && self.idle.is_any()) {
                    return Some(Next::Pages(self.ready.drain(..).collect()));
                }
                let more = if waited < company_wait { company_wait - waited } else { IDLE_POLL };
                self.pages.recv_timeout(more)
            };
            match received {
                Ok(ticketed) => self.sequencer.push(ticketed),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) if self.ready.is_empty() => return None,
                Err(RecvTimeoutError::Disconnected) => return Some(Next::Pages(self.ready.drain(..).collect())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Origin, Reason, Rejection};
    use crossbeam::channel::{bounded, unbounded};

    fn chunk(ticket: u64, n_records: i64, has_more: bool) -> Ticketed<SketchedChunk> {
        let record = |offset| SketchedRecord {
            origin: Origin { source: "pages".into(), partition: 0, offset },
            from: offset,
            chain: 0,
            outcome: Err(Rejection::new(Reason::InvalidJson, "no page")),
            stored: None,
            original: None,
        };
        Ticketed { ticket, item: SketchedChunk { records: (0..n_records).map(record).collect(), has_more } }
    }

    /// The sizes of the batches that are made of three records and, a while later, five, while a look-up is free. No batch
    /// waits for less than an hour to be full.
    fn batches(settings: Settings, has_more: bool, publish_time: Duration) -> Vec<usize> {
        let settings = Settings { batch_latency_ms_max: 3_600_000, ..settings };
        let ((pages_out, pages_in), (work_out, work_in)) = (unbounded(), bounded(0));
        let idle = Arc::<IdleCount>::default();
        let time = Arc::<PublishTime>::default();
        time.note(publish_time);
        let (requests, poison) = (CloseRequests::default(), Arc::default());
        let gatherer = Gatherer::new(pages_in, requests, &settings, poison, Arc::clone(&idle), time);
        let (looked_up, sizes) = unbounded();
        std::thread::scope(|scope| {
            scope.spawn(move || gatherer.run(&work_out));
            scope.spawn(move || {
                while let Ok(Ticketed { item: Next::Pages(pages), .. }) = idle.while_idle(|| work_in.recv()) {
                    looked_up.send(pages.len()).expect("somebody counts");
                }
            });
            let mut batches = Vec::new();
            for (ticket, n_records) in [(0, 3), (1, 5)] {
                pages_out.send(chunk(ticket, n_records, has_more)).expect("sent");
                if has_more || publish_time > COMPANY_WAIT {
                    // Time in which a batch would go that does not wait.
                    std::thread::sleep(10 * COMPANY_WAIT);
                } else {
                    batches.push(sizes.recv().expect("a batch"));
                }
            }
            drop(pages_out);
            batches.extend(sizes);
            batches
        })
    }

    /// Lost once: a fifth of the pace of real pages on one core. However many pages waited, a batch went after four
    /// milliseconds, with fifty of them.
    #[test]
    fn a_batch_is_full_while_the_source_has_more() {
        assert_eq!(batches(Settings { batch_records_max: 8, ..Settings::default() }, true, Duration::ZERO), [8]);
        assert_eq!(batches(Settings { batch_records_max: 6, ..Settings::default() }, true, Duration::ZERO), [6, 2]);
    }

    #[test]
    fn a_batch_goes_soon_where_the_source_has_no_more() {
        assert_eq!(batches(Settings::default(), false, Duration::ZERO), [3, 5]);
    }

    /// Lost once: a third of the latency over Kafka. While a transaction took twenty milliseconds, four batches of a few pages each
    /// came to wait for it, and each was work for every stage.
    #[test]
    fn a_batch_waits_as_long_as_the_last_events_took_to_be_published() {
        assert_eq!(batches(Settings::default(), false, Duration::from_secs(3_600)), [8]);
    }

    /// A batch as large as the stream would wait for records that wait for it.
    #[test]
    fn a_batch_leaves_room_in_the_stream() {
        assert_eq!(
            batches(Settings { in_flight_records_max: 16, ..Settings::default() }, true, Duration::ZERO),
            [4, 4]
        );
    }
}
