//! Turns records into sketched pages or rejections, in parallel and without I/O.

use super::gate::Gate;
use super::ingest::Work;
use super::sequencer::Ticketed;
use super::stats::Stats;
use crate::intake::{RecordSketcher, SketchedPage};
use crate::sketch::Sketcher;
use crate::sweep::SweepCut;
use crate::wire::{Limits, Origin, Rejection};
use crossbeam::channel::{Receiver, Sender};
use std::time::Instant;

/// A record that only waits for its turn.
pub(super) struct Prepared {
    /// Where it came from.
    pub origin: Origin,
    /// The progress of its partition after it.
    pub chain: u64,
    /// The page, sketched, or why it is none.
    pub outcome: Result<SketchedPage, Rejection>,
}

/// Runs until there is no more work or nobody wants it.
pub(super) fn run(
    fresh: Sketcher,
    limits: &Limits,
    sweep_cut: SweepCut,
    work: &Receiver<Work>,
    out: &Sender<Ticketed<Prepared>>,
    gate: &Gate,
    stats: &Stats,
) {
    let mut sketcher = RecordSketcher::new(fresh, limits.clone(), sweep_cut);
    for Work { ticket, incoming, n_bytes } in work {
        let begin = Instant::now();
        let outcome = sketcher.sketch(incoming.record);
        stats.sketched(begin.elapsed());
        gate.release_bytes(n_bytes);
        kill_point!("sketched");
        let item = Prepared { origin: incoming.origin, chain: incoming.chain, outcome };
        if out.send(Ticketed { ticket, item }).is_err() {
            break;
        }
    }
}
