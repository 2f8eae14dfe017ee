//! Gathers sketched pages, in order of arrival, into micro-batches: full, or as much as came in time.

use super::close_requests::{CloseRequest, CloseRequests};
use super::poison::PoisonTracker;
use super::sequencer::{Sequencer, Ticketed};
use super::settings::Settings;
use super::sketched_record::SketchedRecord;
use crate::ports::PoisonGuard;
use crossbeam::channel::{Receiver, RecvError, RecvTimeoutError, TryRecvError};
use crossbeam::select;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What the applier does next.
pub(super) enum Next {
    /// Takes in some pages.
    Pages(Vec<SketchedRecord>),
    /// Closes a sweep.
    Close(CloseRequest),
}

/// Gathers the applier's work.
pub(super) struct Gatherer {
    pages: Receiver<Ticketed<Vec<SketchedRecord>>>,
    requests: CloseRequests,
    sequencer: Sequencer<Vec<SketchedRecord>>,
    /// Pages in order, for the next batches.
    ready: VecDeque<SketchedRecord>,
    batch_records_max: usize,
    batch_latency: Duration,
    poison: Arc<PoisonTracker>,
}

impl Gatherer {
    pub fn new(
        pages: Receiver<Ticketed<Vec<SketchedRecord>>>,
        requests: CloseRequests,
        settings: &Settings,
        poison: Arc<PoisonTracker>,
    ) -> Self {
        Gatherer {
            pages,
            requests,
            sequencer: Sequencer::new(),
            ready: VecDeque::new(),
            batch_records_max: settings.batch_records_max,
            batch_latency: Duration::from_millis(settings.batch_latency_ms_max),
            poison,
        }
    }

    /// The next micro-batch, or a sweep to close before it; none at the end.
    pub fn next(&mut self) -> Option<Next> {
        let mut deadline = None;
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
                self.pages.recv_deadline(*deadline.get_or_insert_with(|| Instant::now() + self.batch_latency))
            };
            match received {
                Ok(ticketed) => self.sequencer.push(ticketed),
                Err(_) if self.ready.is_empty() => return None,
                Err(_) => return Some(Next::Pages(self.ready.drain(..).collect())),
            }
        }
    }
}
