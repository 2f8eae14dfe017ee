//! Requests from other threads to close a sweep, for the one writer.

use crate::ports::{CloseFailure, ClosedSweep, ClosingPart, SweepCloser};
use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded, never};
use std::time::Duration;

/// Requests that wait for the writer; one more is refused.
const WAITING_MAX: usize = 16;

/// The outcome of a request, with the number of the next event.
type CloseResult = Result<(ClosedSweep, u64), CloseFailure>;

/// A sweep to close.
pub(super) struct CloseRequest {
    pub sweep: String,
    pub part: ClosingPart,
    pub reply: CloseReply,
}

/// Where a client waits for the outcome. Dropped without an answer, it reports that the writer has ended.
pub(super) struct CloseReply(Sender<CloseResult>);

impl CloseReply {
    pub fn send(self, result: CloseResult) {
        // A client that has stopped waiting needs no answer.
        let _ = self.0.send(result);
    }
}

/// The writer's end of the requests. Of several copies, the one that is asked gets a request.
#[derive(Clone)]
pub struct CloseRequests(Receiver<CloseRequest>);

/// No client: no request ever comes.
impl Default for CloseRequests {
    fn default() -> Self {
        CloseRequests(never())
    }
}

impl CloseRequests {
    /// The two ends: a client, and the requests for the pipeline.
    pub fn channel() -> (impl SweepCloser + 'static, CloseRequests) {
        let (requests, asked) = bounded(WAITING_MAX);
        (CloseClient(requests), CloseRequests(asked))
    }

    pub(super) fn requests(&self) -> &Receiver<CloseRequest> {
        &self.0
    }

    /// Every client is gone.
    pub(super) fn end(&mut self) {
        self.0 = never();
    }
}

struct CloseClient(Sender<CloseRequest>);

impl SweepCloser for CloseClient {
    fn close(&self, sweep: &str, part: ClosingPart, patience: Duration) -> CloseResult {
        let (reply, result) = bounded(1);
        let request = CloseRequest { sweep: sweep.to_string(), part, reply: CloseReply(reply) };
        self.0.try_send(request).map_err(|error| match error {
            TrySendError::Full(_) => CloseFailure::Busy,
            TrySendError::Disconnected(_) => CloseFailure::Ended,
        })?;
        result.recv_timeout(patience).unwrap_or_else(|error| {
            Err(match error {
                RecvTimeoutError::Timeout => CloseFailure::Late,
                RecvTimeoutError::Disconnected => CloseFailure::Ended,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_gets_a_result() {
        let (client, close_requests) = CloseRequests::channel();
        let ask = || client.close("s", ClosingPart::Rest, Duration::ZERO);
        for _ in 0..WAITING_MAX {
            assert_eq!(ask(), Err(CloseFailure::Late));
        }
        assert_eq!(ask(), Err(CloseFailure::Busy));
        let closed = ClosedSweep { sweep: "s".into(), n_hosts: 1, n_lost: 2, n_moved: None };
        std::thread::scope(|scope| {
            let waiting = close_requests.requests().iter().take(WAITING_MAX).map(|request| request.reply);
            waiting.for_each(|answer| answer.send(Err(CloseFailure::Unknown)));
            let asked = scope.spawn(|| client.close("s", ClosingPart::Rest, Duration::from_secs(60)));
            close_requests.requests().recv().expect("asked").reply.send(Ok((closed.clone(), 7)));
            assert_eq!(asked.join().expect("no panic"), Ok((closed, 7)));
            let asked = scope.spawn(|| client.close("s", ClosingPart::Rest, Duration::from_secs(60)));
            drop(close_requests.requests().recv().expect("asked"));
            assert_eq!(asked.join().expect("no panic"), Err(CloseFailure::Ended));
        });
        drop(close_requests);
        assert_eq!(ask(), Err(CloseFailure::Ended));
    }
}
