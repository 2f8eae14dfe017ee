//! Syncs written batches, as many at once as are waiting, and releases what may leave only once durable.

use super::backpressure::Backpressure;
use super::close_requests::CloseReply;
use super::stats::{BatchCounts, Stats};
use crate::ports::{ClosedSweep, Outgoing, ProgressMap, StoreError, Syncer};
use crossbeam::channel::{Receiver, Sender};
use std::time::{Duration, Instant};

/// A batch that is written and perhaps not durable yet.
#[derive(Default)]
pub(super) struct Written {
    pub n_records: usize,
    pub counts: BatchCounts,
    /// How long deciding took.
    pub deciding: Duration,
    /// How long writing took.
    pub writing: Duration,
    pub progress: ProgressMap,
    /// Its events; empty without a sink.
    pub outbox: Vec<Outgoing>,
    /// After the last batch that closes a sweep: the waiting client, the outcome, the number of the next event.
    pub closed: Option<(CloseReply, ClosedSweep, u64)>,
}

/// Runs until no more batches come, or the publisher has ended. Returns how far each partition is durable.
pub(super) fn run(
    syncer: &dyn Syncer,
    written: &Receiver<Written>,
    committed: &Sender<ProgressMap>,
    events: &Sender<Vec<Outgoing>>,
    backpressure: &Backpressure,
    stats: &Stats,
) -> Result<ProgressMap, StoreError> {
    let mut durable = ProgressMap::new();
    while let Ok(first) = written.recv() {
        let group: Vec<Written> = std::iter::once(first).chain(written.try_iter()).collect();
        let begin = Instant::now();
        syncer.sync()?;
        stats.synced(begin.elapsed());
        for batch in group {
            if batch.n_records > 0 {
                stats.batch(batch.n_records, &batch.counts, batch.deciding, batch.writing);
            }
            backpressure.release_records(batch.n_records);
            if !batch.progress.is_empty() {
                durable.extend(batch.progress.clone());
                // Lag monitors may miss an offset before the last one; the stream must not wait for them.
                let _ = committed.try_send(batch.progress);
            }
            if let Some((reply, closed, next_seq)) = batch.closed {
                reply.send(Ok((closed, next_seq)));
            }
            if !batch.outbox.is_empty() && events.send(batch.outbox).is_err() {
                return Ok(durable);
            }
            kill_point!("released");
        }
    }
    Ok(durable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam::channel::{bounded, unbounded};
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Counts calls, and fails on demand.
    struct Counting<'a> {
        n_asked: &'a AtomicUsize,
        events: Receiver<Vec<Outgoing>>,
        fails: bool,
    }

    impl Syncer for Counting<'_> {
        fn sync(&self) -> Result<(), StoreError> {
            assert!(self.events.is_empty(), "events left before their batch was durable");
            self.n_asked.fetch_add(1, Ordering::Relaxed);
            if self.fails { Err(StoreError::Failed("fsync".into())) } else { Ok(()) }
        }
    }

    fn check(fails: bool) -> (usize, usize, u64) {
        let (written_out, written_in) = unbounded();
        let ((committed_out, _committed_in), (events_out, events_in)) = (bounded(9), unbounded());
        let backpressure = Backpressure::new(100, 100);
        for seq in 0..3 {
            backpressure.enter(5, 0);
            let batch = Written {
                n_records: 5,
                counts: BatchCounts::default(),
                deciding: Duration::ZERO,
                writing: Duration::ZERO,
                progress: ProgressMap::new(),
                outbox: vec![Outgoing::new(seq, None, vec![])],
                closed: None,
            };
            written_out.send(batch).expect("sent");
        }
        drop(written_out);
        let (n_asked, stats) = (AtomicUsize::new(0), Stats::default());
        let syncer = Counting { n_asked: &n_asked, events: events_in.clone(), fails };
        let ended = run(&syncer, &written_in, &committed_out, &events_out, &backpressure, &stats);
        assert_eq!(ended.is_err(), fails);
        (n_asked.into_inner(), events_in.len(), stats.summary().n_records)
    }

    #[test]
    fn what_came_meanwhile_is_synced_at_once_and_nothing_leaves_before() {
        assert_eq!(check(false), (1, 3, 15));
        assert_eq!(check(true), (1, 0, 0));
    }
}
