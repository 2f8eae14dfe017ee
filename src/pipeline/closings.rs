//! Requests to close sweeps, from other threads to the one writer.

use crate::ports::{Closed, NotClosed, SweepCloser};
use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded, never};
use std::time::Duration;

/// Requests that wait for the writer; one more is refused.
const WAITING_MAX: usize = 16;

/// What a request comes to, and the number of the next event.
type Told = Result<(Closed, u64), NotClosed>;

/// A sweep that somebody wants closed.
pub(super) struct Request {
    pub sweep: String,
    pub answer: Answer,
}

/// Where somebody waits for what closing came to. Dropped without a word, it says that whoever writes has ended.
pub(super) struct Answer(Sender<Told>);

impl Answer {
    pub fn tell(self, told: Told) {
        // Who waited no longer misses nothing but the word.
        let _ = self.0.send(told);
    }
}

/// Where the writer finds what it is asked for.
pub struct Closings(Receiver<Request>);

/// Nobody can ask.
impl Default for Closings {
    fn default() -> Self {
        Closings(never())
    }
}

impl Closings {
    /// Two ends: who asks, and where the pipeline finds it.
    pub fn channel() -> (impl SweepCloser + 'static, Closings) {
        let (requests, asked) = bounded(WAITING_MAX);
        (Asker(requests), Closings(asked))
    }

    pub(super) fn requests(&self) -> &Receiver<Request> {
        &self.0
    }

    /// There is nobody left who could ask.
    pub(super) fn end(&mut self) {
        self.0 = never();
    }
}

struct Asker(Sender<Request>);

impl SweepCloser for Asker {
    fn close(&self, sweep: &str, patience: Duration) -> Told {
        let (answer, told) = bounded(1);
        let request = Request { sweep: sweep.to_string(), answer: Answer(answer) };
        self.0.try_send(request).map_err(|error| match error {
            TrySendError::Full(_) => NotClosed::Busy,
            TrySendError::Disconnected(_) => NotClosed::Ended,
        })?;
        told.recv_timeout(patience).unwrap_or_else(|error| {
            Err(match error {
                RecvTimeoutError::Timeout => NotClosed::Late,
                RecvTimeoutError::Disconnected => NotClosed::Ended,
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_asks_is_told_whatever_happens() {
        let (asker, closings) = Closings::channel();
        let ask = || asker.close("s", Duration::ZERO);
        for _ in 0..WAITING_MAX {
            assert_eq!(ask(), Err(NotClosed::Late));
        }
        assert_eq!(ask(), Err(NotClosed::Busy));
        let closed = Closed { sweep: "s".into(), n_hosts: 1, n_lost: 2, n_moved: None };
        std::thread::scope(|scope| {
            let waiting = closings.requests().iter().take(WAITING_MAX).map(|request| request.answer);
            waiting.for_each(|answer| answer.tell(Err(NotClosed::Unknown)));
            let asked = scope.spawn(|| asker.close("s", Duration::from_secs(60)));
            closings.requests().recv().expect("asked").answer.tell(Ok((closed.clone(), 7)));
            assert_eq!(asked.join().expect("no panic"), Ok((closed, 7)));
            let asked = scope.spawn(|| asker.close("s", Duration::from_secs(60)));
            drop(closings.requests().recv().expect("asked"));
            assert_eq!(asked.join().expect("no panic"), Err(NotClosed::Ended));
        });
        drop(closings);
        assert_eq!(ask(), Err(NotClosed::Ended));
    }
}
