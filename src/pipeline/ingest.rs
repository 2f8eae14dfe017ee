//! Polls the source and hands records to the sketchers, numbered in order of arrival.

use super::backpressure::Backpressure;
use super::error::PipelineError;
use super::stats::Stats;
use crate::ports::{Incoming, Polled, ProgressMap, Source};
use crossbeam::channel::{Receiver, Sender};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long one poll may keep the thread from noticing a shutdown.
const POLL_TIMEOUT: Duration = Duration::from_millis(100);

/// Records handed over together: waking a thread for each record would cost more than the work on it.
const CHUNK_RECORDS_MAX: usize = 64;

/// Bytes handed over together: few, so that sketchers share large pages and find them in the processor's caches.
const CHUNK_BYTES_MAX: usize = 128 << 10;

/// Records for one sketcher.
#[derive(Default)]
pub(super) struct Chunk {
    /// The chunk's number in order of arrival, dense from 0.
    pub ticket: u64,
    /// The records, in order.
    pub records: Vec<Incoming>,
    /// The bytes that they hold in [`Backpressure`].
    pub n_bytes: usize,
    /// Whether the source may have more at hand.
    pub has_more: bool,
}

impl Chunk {
    fn is_full(&self) -> bool {
        self.records.len() >= CHUNK_RECORDS_MAX || self.n_bytes >= CHUNK_BYTES_MAX
    }
}

/// Runs until the source ends or the shutdown is set.
///
/// # Errors
/// Those of the source; [`PipelineError::CutOff`] where another stage ended first.
pub(super) fn run(
    source: &mut dyn Source,
    out: &Sender<Chunk>,
    committed: &Receiver<ProgressMap>,
    backpressure: &Backpressure,
    shutdown: &AtomicBool,
    stats: &Stats,
) -> Result<(), PipelineError> {
    let mut ticket = 0;
    let mut had_more = false;
    while !shutdown.load(Ordering::Relaxed) {
        if backpressure.is_closed() {
            return Err(PipelineError::CutOff);
        }
        for progress in committed.try_iter() {
            source.committed(&progress);
        }
        if let Some(lag) = source.lag() {
            stats.set_lag(lag);
        }
        stats.readings(source.readings());
        let mut work = Chunk { ticket, ..Chunk::default() };
        let goes_on = fill(&mut work, source, had_more, stats);
        // A chunk without records tells that those before were the last at hand.
        if !work.records.is_empty() || (had_more && !work.has_more) {
            had_more = work.has_more;
            stats.records_read(work.records.len(), work.n_bytes);
            if !backpressure.enter(work.records.len(), work.n_bytes) || out.send(work).is_err() {
                return Err(PipelineError::CutOff);
            }
            ticket += 1;
        }
        if !goes_on? {
            break;
        }
    }
    Ok(())
}

/// Takes the records that the source has at hand, waiting only for the first, and not after a chunk that `had_more`; false where
/// none will come.
fn fill(work: &mut Chunk, source: &mut dyn Source, had_more: bool, stats: &Stats) -> Result<bool, PipelineError> {
    while !work.is_full() {
        let timeout = if work.records.is_empty() && !had_more { POLL_TIMEOUT } else { Duration::ZERO };
        match source.poll(timeout)? {
            Polled::Idle => return Ok(true),
            Polled::End => return Ok(false),
            Polled::Unreadable(what) => stats.unreadable(what),
            Polled::Record(incoming) => {
                work.n_bytes += incoming.record.n_bytes();
                work.records.push(incoming);
                kill_point!("record-read");
            }
        }
    }
    work.has_more = true;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::SourceError;
    use crate::wire::{Origin, Record};
    use crossbeam::channel::{bounded, unbounded};

    /// Records at hand, then nothing, then the end.
    struct AtHand {
        n_records: i64,
        was_idle: bool,
    }

    impl Source for AtHand {
        fn poll(&mut self, _: Duration) -> Result<Polled, SourceError> {
            if self.n_records > 0 {
                self.n_records -= 1;
                let origin = Origin { source: "pages".into(), partition: 0, offset: self.n_records };
                let record = Record::Json(b"{}".to_vec());
                return Ok(Polled::Record(Incoming { origin, from: 0, chain: 0, record }));
            }
            Ok(if std::mem::replace(&mut self.was_idle, true) { Polled::End } else { Polled::Idle })
        }
    }

    /// The records of each chunk, and whether there may be more.
    fn chunks(n_records: i64) -> Vec<(usize, bool)> {
        let ((out, chunks), (_committed, committed)) = (unbounded(), bounded(1));
        let mut source = AtHand { n_records, was_idle: false };
        let backpressure = Backpressure::new(1000, 1000);
        run(&mut source, &out, &committed, &backpressure, &AtomicBool::new(false), &Stats::default()).expect("runs");
        chunks.try_iter().map(|chunk| (chunk.records.len(), chunk.has_more)).collect()
    }

    /// The last pages at hand must not wait for more, also where they fill a chunk.
    #[test]
    fn chunks_tell_whether_the_source_has_more() {
        let full = CHUNK_RECORDS_MAX;
        assert_eq!(chunks(3), [(3, false)]);
        assert_eq!(chunks(full as i64 + 3), [(full, true), (3, false)]);
        assert_eq!(chunks(full as i64), [(full, true), (0, false)]);
    }
}
