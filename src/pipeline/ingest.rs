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
        let goes_on = fill(&mut work, source, stats);
        if !work.records.is_empty() {
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

/// Takes the records that the source has at hand, waiting only for the first; false where none will come.
fn fill(work: &mut Chunk, source: &mut dyn Source, stats: &Stats) -> Result<bool, PipelineError> {
    while !work.is_full() {
        let timeout = if work.records.is_empty() { POLL_TIMEOUT } else { Duration::ZERO };
        match source.poll(timeout)? {
            Polled::Idle => break,
            Polled::End => return Ok(false),
            Polled::Unreadable(what) => stats.unreadable(what),
            Polled::Record(incoming) => {
                work.n_bytes += incoming.record.n_bytes();
                work.records.push(incoming);
                kill_point!("record-read");
            }
        }
    }
    Ok(true)
}
