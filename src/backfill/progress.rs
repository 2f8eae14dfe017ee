//! How far a backfill is, for displays that read it while the phases run.

use super::usage::{Meter, Phase, Usage};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// The phase under way and its counters. Any thread may read it at any time.
#[derive(Debug, Default)]
pub struct PhaseProgress {
    phase: Mutex<Option<(PhaseName, Meter)>>,
    n_done: AtomicU64,
    n_total: AtomicU64,
}

/// A phase of any work as displays name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseName {
    /// The name.
    pub name: &'static str,
    /// Whether the phase reads the input and counts pages.
    pub reads_pages: bool,
}

impl From<Phase> for PhaseName {
    fn from(phase: Phase) -> Self {
        PhaseName { name: phase.paper().0, reads_pages: phase == Phase::Sketching }
    }
}

/// A reading of [`PhaseProgress`].
#[derive(Clone, Copy, Debug)]
pub struct ProgressSnapshot {
    /// The phase.
    pub phase: PhaseName,
    /// What the present step has done: pages in the first phase, jobs or pairs in the others.
    pub n_done: u64,
    /// What the present step has to do, as far as it is known. 0 means unknown.
    pub n_total: u64,
    /// What the phase took so far. The bytes it wrote are not counted yet.
    pub usage: Usage,
}

impl PhaseProgress {
    /// The phase under way, or `None` before the first one.
    pub fn snapshot(&self) -> Option<ProgressSnapshot> {
        let phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        let (phase, meter) = phase.as_ref()?;
        let (n_done, n_total) = (self.n_done.load(Relaxed), self.n_total.load(Relaxed));
        Some(ProgressSnapshot { phase: *phase, n_done, n_total, usage: meter.elapsed() })
    }

    /// Begins a phase, or the next step of the phase under way.
    pub fn begin(&self, phase: impl Into<PhaseName>, n_total: u64) {
        let phase = phase.into();
        let mut current = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        match &*current {
            Some((current, _)) if *current == phase => {}
            _ => *current = Some((phase, Meter::start())),
        }
        self.n_done.store(0, Relaxed);
        self.n_total.store(n_total, Relaxed);
    }

    /// Adds to what the step has to do.
    pub(super) fn add_total(&self, n: u64) {
        self.n_total.fetch_add(n, Relaxed);
    }

    /// Adds to what the step has done.
    pub fn advance(&self, n: u64) {
        self.n_done.fetch_add(n, Relaxed);
    }
}
