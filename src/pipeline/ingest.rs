//! Takes records off the source and hands them on, numbered in the order of arrival.

use super::PipelineError;
use super::gate::Gate;
use super::stats::Stats;
use crate::ports::{Incoming, Polled, ProgressMap, Source};
use crossbeam::channel::{Receiver, Sender};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long a source may keep the thread from noticing a shutdown.
const POLL_TIMEOUT: Duration = Duration::from_millis(100);

/// A record on its way to a sketcher.
pub(super) struct Work {
    /// Its place in the order of arrival, dense from 0.
    pub ticket: u64,
    /// What it is.
    pub incoming: Incoming,
    /// What it holds at the gate.
    pub n_bytes: usize,
}

/// Runs until the source ends, the shutdown is set or the gate is closed.
pub(super) fn run(
    mut source: Box<dyn Source>,
    out: &Sender<Work>,
    committed: &Receiver<ProgressMap>,
    gate: &Gate,
    shutdown: &AtomicBool,
    stats: &Stats,
) -> Result<(), PipelineError> {
    let mut ticket = 0;
    while !shutdown.load(Ordering::Relaxed) {
        for progress in committed.try_iter() {
            source.committed(&progress);
        }
        if let Some(lag) = source.lag() {
            stats.set_lag(lag);
        }
        match source.poll(POLL_TIMEOUT)? {
            Polled::Idle => {}
            Polled::End => break,
            Polled::Unreadable(what) => stats.unreadable(what),
            Polled::Record(incoming) => {
                let n_bytes = incoming.record.n_bytes();
                stats.record_read(n_bytes);
                kill_point!("record-read");
                let work = Work { ticket, incoming, n_bytes };
                if !gate.enter(n_bytes) || out.send(work).is_err() {
                    break;
                }
                ticket += 1;
            }
        }
    }
    Ok(())
}
