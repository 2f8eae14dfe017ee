//! Turns records into sketched pages or rejections, in parallel and without I/O.

use super::gate::Gate;
use super::ingest::Work;
use super::sequencer::Ticketed;
use super::stats::Stats;
use crate::intake::{RecordSketcher, SketchedPage};
use crate::ports::Incoming;
use crate::sketch::Sketcher;
use crate::sweep::SweepCut;
use crate::wire::{Limits, Message, Origin, Rejection};
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
    /// Of a rejected message, the message.
    pub original: Option<Box<Message>>,
}

impl Prepared {
    /// Where its partition goes on after it.
    pub fn next_offset(&self) -> i64 {
        let gap_to = self.outcome.as_ref().err().and_then(|rejection| rejection.gap_to);
        gap_to.unwrap_or(self.origin.offset + 1)
    }
}

/// Runs until there is no more work or nobody wants it.
#[expect(clippy::too_many_arguments, reason = "called once, where the stream is wired")]
pub(super) fn run(
    fresh: Sketcher,
    limits: &Limits,
    sweep_cut: SweepCut,
    work: &Receiver<Work>,
    out: &Sender<Ticketed<Vec<Prepared>>>,
    keep_originals: bool,
    gate: &Gate,
    stats: &Stats,
) {
    let mut sketcher = RecordSketcher::new(fresh, limits.clone(), sweep_cut);
    let sketch_seconds = stats.sketch_seconds();
    for Work { ticket, records, n_bytes } in work {
        let prepare = |incoming: Incoming| {
            let begin = Instant::now();
            let outcome = sketcher.sketch(&incoming.record);
            let original = if keep_originals && outcome.is_err() { incoming.record.into_message() } else { None };
            sketch_seconds.record(begin.elapsed());
            kill_point!("sketched");
            Prepared { origin: incoming.origin, chain: incoming.chain, outcome, original }
        };
        let item = records.into_iter().map(prepare).collect();
        gate.release_bytes(n_bytes);
        if out.send(Ticketed { ticket, item }).is_err() {
            break;
        }
    }
}
