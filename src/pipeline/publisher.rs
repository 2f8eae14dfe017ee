//! Publishes events after the batch that holds them is durable.

use super::stats::Stats;
use crate::ports::{Outgoing, Sink, SinkError, Store, StoreError};
use crossbeam::channel::{Receiver, RecvTimeoutError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Events handed to a sink at once while catching up.
const RECOVERY_CHUNK: usize = 4096;

/// Waiting events are published together up to this many.
const TOGETHER_MIN: usize = 4096;

/// How long metrics of the output may stand still while nothing is published.
const IDLE_MAX: Duration = Duration::from_secs(1);

/// Why publishing cannot resume where it stopped.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The output is ahead of the store.
    #[error(
        "the output holds event {tail}, but the store's next is {next_seq}: the store is an older copy, or the output is another store's; give a new events file, or new topics, or the store that wrote this output"
    )]
    Ahead {
        /// The last event in the output.
        tail: u64,
        /// The store's next event.
        next_seq: u64,
    },
    /// The output lacks events that the store no longer has.
    #[error(
        "the output ends at event {tail}, but the store no longer has events {} to {}: a run or `sweep close` since then had another output, or none; give a new events file, beside which `lookalike export present` shows where every URL stands, or new topics and `lookalike topics republish`", .tail + 1, .published - 1
    )]
    Behind {
        /// The last event in the output.
        tail: u64,
        /// Events below this number are no longer in the store.
        published: u64,
    },
    /// The sink failed.
    #[error("events cannot be published")]
    Sink(#[from] SinkError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Resumes publishing where the last run stopped: publishes what is durable in the store and missing in the output.
///
/// # Errors
/// [`PublishError`] where the output does not belong to the store, or one of them fails.
pub fn recover<S: Store>(store: &S, sink: &mut dyn Sink, published: u64, next_seq: u64) -> Result<(), PublishError> {
    let mut from = match sink.last_seq()? {
        None => published,
        Some(tail) if tail >= next_seq => return Err(PublishError::Ahead { tail, next_seq }),
        Some(tail) if tail + 1 < published => return Err(PublishError::Behind { tail, published }),
        Some(tail) => tail + 1,
    };
    while from < next_seq {
        let events = store.outbox(from, RECOVERY_CHUNK)?;
        let Some(last) = events.last() else { break };
        from = last.seq + 1;
        kill_point!("catching-up");
        sink.publish(&events)?;
        kill_point!("caught-up");
    }
    Ok(())
}

/// How long the last events took to be published.
#[derive(Debug, Default)]
pub(super) struct PublishTime {
    nanoseconds: AtomicU64,
}

impl PublishTime {
    /// Zero as long as nothing was published.
    pub fn last(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed))
    }

    pub fn note(&self, took: Duration) {
        self.nanoseconds.store(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// Publishes in order and reports how far it is.
pub(super) struct Publisher {
    sink: Option<Box<dyn Sink>>,
    published: Arc<AtomicU64>,
    time: Arc<PublishTime>,
}

impl Publisher {
    pub fn new(sink: Option<Box<dyn Sink>>, next_seq: u64) -> Self {
        Publisher { sink, published: Arc::new(AtomicU64::new(next_seq)), time: Arc::default() }
    }

    /// Events below this number are out.
    pub fn published(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.published)
    }

    /// Tells how long publishing takes, while it runs.
    pub fn time(&self) -> Arc<PublishTime> {
        Arc::clone(&self.time)
    }

    pub fn is_listening(&self) -> bool {
        self.sink.is_some()
    }

    pub fn wants_originals(&self) -> bool {
        self.sink.as_ref().is_some_and(|sink| sink.wants_originals())
    }

    /// Runs until no more batches come.
    pub fn run(self, batches: &Receiver<Vec<Outgoing>>, stats: &Stats) -> Result<(), SinkError> {
        let Some(mut sink) = self.sink else {
            // A stage that ends early ends the stream: without a sink, this one still runs to the end.
            batches.iter().for_each(drop);
            return Ok(());
        };
        loop {
            let mut events = match batches.recv_timeout(IDLE_MAX) {
                Ok(events) => events,
                Err(RecvTimeoutError::Timeout) => {
                    stats.readings(sink.readings());
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            // A transaction takes its time, however much is in it: whatever waits goes along.
            while events.len() < TOGETHER_MIN
                && let Ok(more) = batches.try_recv()
            {
                events.extend(more);
            }
            if let Some(last) = events.last() {
                kill_point!("before-publish");
                let begin = Instant::now();
                sink.publish(&events)?;
                self.time.note(begin.elapsed());
                kill_point!("after-publish");
                self.published.store(last.seq + 1, Ordering::Release);
                stats.readings(sink.readings());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::memory_store::MemoryStore;
    use crate::ports::Reading;
    use crossbeam::channel::{Sender, unbounded};

    struct Output(Vec<u64>);

    impl Sink for Output {
        fn last_seq(&mut self) -> Result<Option<u64>, SinkError> {
            Ok(self.0.last().copied())
        }

        fn publish(&mut self, events: &[Outgoing]) -> Result<(), SinkError> {
            self.0.extend(events.iter().map(|event| event.seq));
            Ok(())
        }
    }

    fn store() -> MemoryStore {
        let outbox = (5..9).map(|seq| Outgoing::new(seq, None, vec![])).collect();
        MemoryStore::of_events(outbox)
    }

    /// Reports that a publication has begun, and blocks until it may go on.
    struct Slow {
        begun: Sender<usize>,
        goes_on: Receiver<()>,
    }

    impl Sink for Slow {
        fn last_seq(&mut self) -> Result<Option<u64>, SinkError> {
            Ok(None)
        }

        fn publish(&mut self, events: &[Outgoing]) -> Result<(), SinkError> {
            self.begun.send(events.len()).expect("somebody listens");
            self.goes_on.recv().expect("somebody speaks");
            Ok(())
        }
    }

    /// Lost once: time. Every small batch had a transaction of its own, so that after a pause the backlog went out at the pace of
    /// transactions, for many minutes on a busy machine.
    #[test]
    fn what_waits_goes_out_together() {
        let ((sent, batches), (begun, n_published), (go_on, goes_on)) = (unbounded(), unbounded(), unbounded());
        let publisher = Publisher::new(Some(Box::new(Slow { begun, goes_on })), 0);
        let (out, time) = (publisher.published(), publisher.time());
        let feed = sent.clone();
        let send = move |seq| feed.send(vec![Outgoing::new(seq, None, vec![])]).expect("sent");
        std::thread::scope(|scope| {
            let publishing = scope.spawn(|| publisher.run(&batches, &Stats::default()));
            send(0);
            assert_eq!(n_published.recv(), Ok(1));
            (1..10).for_each(&send);
            go_on.send(()).and_then(|()| go_on.send(())).expect("told");
            assert_eq!(n_published.recv(), Ok(9));
            drop((sent, send));
            publishing.join().expect("no panic").expect("published");
        });
        assert_eq!(out.load(Ordering::Relaxed), 10);
        assert!(!time.last().is_zero(), "the time that publishing took was not noted");
    }

    /// Reports each time that it is asked for metrics.
    struct Metered(Sender<()>);

    impl Sink for Metered {
        fn last_seq(&mut self) -> Result<Option<u64>, SinkError> {
            Ok(None)
        }

        fn publish(&mut self, _: &[Outgoing]) -> Result<(), SinkError> {
            Ok(())
        }

        fn readings(&mut self) -> Vec<Reading> {
            self.0.send(()).expect("somebody listens");
            Vec::new()
        }
    }

    /// Wrong once: the metrics of the output stood still while no page came, so that brokers that had gone still looked well.
    #[test]
    fn metrics_go_on_while_nothing_is_published() {
        let ((sent, batches), (asked, n_asked)) = (unbounded(), unbounded());
        let publisher = Publisher::new(Some(Box::new(Metered(asked))), 0);
        std::thread::scope(|scope| {
            let publishing = scope.spawn(|| publisher.run(&batches, &Stats::default()));
            assert_eq!(n_asked.recv(), Ok(()));
            drop(sent);
            publishing.join().expect("no panic").expect("published");
        });
    }

    #[test]
    fn what_is_durable_and_not_out_goes_out() {
        for (tail, expected) in [(vec![4], vec![4, 5, 6, 7, 8]), (vec![6], vec![6, 7, 8]), (vec![], vec![5, 6, 7, 8])] {
            let mut output = Output(tail);
            recover(&store(), &mut output, 5, 9).expect("recovers");
            assert_eq!(output.0, expected);
        }
    }

    #[test]
    fn an_output_that_is_not_the_stores_is_refused() {
        let recovered = |tail| recover(&store(), &mut Output(vec![tail]), 5, 9);
        assert!(matches!(recovered(9), Err(PublishError::Ahead { tail: 9, next_seq: 9 })));
        assert!(matches!(recovered(3), Err(PublishError::Behind { tail: 3, published: 5 })));
    }
}
