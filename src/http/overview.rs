//! The overview of the whole store: counted beside the requests and kept, so that no page waits for a scan.

use crate::ports::{Snapshot, Snapshots, StoreError};
use crate::query::{self, By, Changes, LostSearch, Overview};
use crate::sweep::Ranking;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a page waits for the first count, and for one that should be done at once.
const WAIT: Duration = Duration::from_secs(1);

/// A count that took no longer is waited for again.
const QUICK: Duration = Duration::from_millis(50);

/// At most one part in this many of the time goes into counting.
const COUNTING_SHARE: u32 = 10;

/// Sightings of a store whose sweeps are counted; those of a larger one are for `lookalike changes`.
pub(super) const CHANGES_SIGHTINGS_MAX: usize = 1_000_000;

/// A count of the whole store.
#[derive(Debug)]
pub(super) struct Counted {
    pub overview: Arc<Overview>,
    /// How pages change, sweep by sweep; none while that is being counted, or where the store is too large.
    pub changes: Option<Changes>,
    /// When its moment of the store was the newest.
    pub at: Instant,
}

/// Keeps the newest count. A count under way ends with this value.
#[derive(Default)]
pub(super) struct OverviewCache(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    has_changed: Condvar,
    /// The server ends.
    is_over: AtomicBool,
}

#[derive(Default)]
struct State {
    newest: Option<Arc<Counted>>,
    is_counting: bool,
    /// How long the last count took, and when it ended.
    last: Option<(Duration, Instant)>,
}

impl OverviewCache {
    /// The newest count, which may be of an earlier moment than the snapshots; none before the first one is done. Counts
    /// anew beside the requests where the store has changed, at most once in `interval_ms`.
    pub fn newest<V: Snapshots>(&self, snapshots: &V, ranking: &Ranking, interval_ms: u64) -> Option<Arc<Counted>> {
        let snapshot = snapshots.snapshot();
        let mut state = self.0.state();
        let seq = state.newest.as_ref().map(|newest| newest.overview.seq);
        let is_due = state.last.is_none_or(|(took, ended)| {
            seq != Some(snapshot.next_seq())
                && ended.elapsed() >= Duration::from_millis(interval_ms).max(took * (COUNTING_SHARE - 1))
        });
        if is_due && !state.is_counting {
            state.is_counting = true;
            let (shared, search) = (Arc::clone(&self.0), LostSearch { ranking: ranking.clone(), limit: 1 });
            tokio::runtime::Handle::current().spawn_blocking(move || shared.count(&*snapshot, &search));
        }
        let is_quick = state.last.is_some_and(|(took, _)| took <= QUICK);
        if state.is_counting && (state.newest.is_none() || is_quick) {
            let waits =
                |state: &mut State| state.is_counting && state.newest.as_ref().map(|new| new.overview.seq) == seq;
            let waited = self.0.has_changed.wait_timeout_while(state, WAIT, waits);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.newest.clone()
    }
}

impl Drop for OverviewCache {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts what takes little first, and then the sweeps.
    fn count(&self, snapshot: &impl Snapshot, search: &LostSearch) {
        let begin = Instant::now();
        if let Err(error) = self.try_count(snapshot, search, begin) {
            tracing::error!("cannot count the store: {error}");
        }
        let mut state = self.state();
        (state.is_counting, state.last) = (false, Some((begin.elapsed(), Instant::now())));
        self.has_changed.notify_all();
    }

    fn try_count(&self, snapshot: &impl Snapshot, search: &LostSearch, at: Instant) -> Result<(), StoreError> {
        let goes_on = || !self.is_over.load(Ordering::Relaxed);
        let Some(overview) = query::overview(snapshot, search, &goes_on)? else { return Ok(()) };
        let overview = Arc::new(overview);
        let earlier = self.state().newest.as_ref().and_then(|newest| newest.changes.clone());
        self.keep(Counted { overview: Arc::clone(&overview), changes: earlier, at });
        let changes = query::changes_within(snapshot, By::Sweep, search, CHANGES_SIGHTINGS_MAX, &goes_on)?;
        self.keep(Counted { overview, changes, at });
        Ok(())
    }

    fn keep(&self, counted: Counted) {
        self.state().newest = Some(Arc::new(counted));
        self.has_changed.notify_all();
    }
}
