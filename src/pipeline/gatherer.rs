//! Gathers sketched pages, in order of arrival, into micro-batches: full, or as much as came until somebody was free to look
//! them up.

use super::close_requests::{CloseRequest, CloseRequests};
use super::poison::PoisonTracker;
use super::sequencer::{Sequencer, Ticketed};
use super::settings::Settings;
use super::sketched_record::SketchedRecord;
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
    pages: Receiver<Ticketed<Vec<SketchedRecord>>>,
    requests: CloseRequests,
    sequencer: Sequencer<Vec<SketchedRecord>>,
    /// Pages in order, for the next batches.
    ready: VecDeque<SketchedRecord>,
    batch_records_max: usize,
    batch_latency: Duration,
    poison: Arc<PoisonTracker>,
    idle: Arc<IdleCount>,
}

/// How long a batch waits for more pages where it could be looked up at once. A few pages together cost less than each alone.
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
        pages: Receiver<Ticketed<Vec<SketchedRecord>>>,
        requests: CloseRequests,
        settings: &Settings,
        poison: Arc<PoisonTracker>,
        idle: Arc<IdleCount>,
    ) -> Self {
        Gatherer {
            pages,
            requests,
            sequencer: Sequencer::new(),
            ready: VecDeque::new(),
            batch_records_max: settings.batch_records_max,
            batch_latency: Duration::from_millis(settings.batch_latency_ms_max),
            poison,
            idle,
        }
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
            while let Some(sketched) = self.sequencer.pop() {
                self.ready.extend(sketched);
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
                let company_wait = COMPANY_WAIT.min(self.batch_latency);
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
