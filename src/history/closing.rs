//! Closing a sweep: marks as lost the URLs that it should have seen and did not.

use super::advance::History;
use super::effects::HistoryEffects;
use super::timeline::Timeline;
use super::view::{StoredSighting, View};
use crate::cluster::Decider;
use crate::document::{FetchTime, Fingerprint};
use crate::sweep::{Observation, Seen, SweepRow, UrlState};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;

/// URLs that one batch marks.
const BATCH_URLS: usize = 1024;

/// Later sightings of a host whose histories are read, where none of the newest ones belongs to the sweep.
const WITNESSES_MAX: usize = 64;

/// What closing a sweep did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClosedSweep {
    /// The sweep.
    pub sweep: String,
    /// Hosts that it visited and that have URLs it did not see.
    pub n_hosts: u64,
    /// URLs that were marked as lost.
    pub n_lost: u64,
    /// Of these, the URLs whose content is known to stand elsewhere; none without a sink.
    pub n_moved: Option<u64>,
}

/// One batch on the way to closing a sweep.
pub struct ClosingBatch {
    /// The sweep as it was before the batch.
    pub before: SweepRow,
    /// The lost URLs, in the order of the effects' sightings; empty in the last batch, which closes the sweep.
    pub urls: Vec<String>,
    /// What the batch changes.
    pub effects: HistoryEffects,
}

/// A sweep on its way to being closed, a batch at a time. Begun again after any batch, closing goes on from there.
pub struct SweepClosing {
    row: SweepRow,
    /// The URLs that are still to be marked, descending, so that the first ones are last.
    left: Vec<Fingerprint>,
    is_over: bool,
    closed: ClosedSweep,
}

impl SweepClosing {
    /// Finds the URLs to mark: alive before the sweep began, on a host that the sweep visited, and not seen since. None where
    /// there is no such sweep.
    ///
    /// # Errors
    /// The view's own.
    pub fn begin<V: View>(view: &V, name: &str, history: &History) -> Result<Option<Self>, V::Error> {
        let Some(row) = view.sweeps(&[name])?.pop().flatten() else { return Ok(None) };
        let (mut left, n_hosts) = missed(view, name, &row)?;
        left.reverse();
        // Killed at the very end and asked again, it must not report the closing twice.
        let is_over = row.is_closed && left.is_empty();
        let n_moved = history.reports().then_some(0);
        let closed = ClosedSweep { sweep: name.to_string(), n_hosts, n_lost: left.len() as u64, n_moved };
        Ok(Some(SweepClosing { row, left, is_over, closed }))
    }

    /// What all batches come to.
    pub fn closed(self) -> ClosedSweep {
        self.closed
    }

    /// The next batch; none after the last. The view must show what the batch before wrote.
    ///
    /// # Errors
    /// The view's own.
    pub fn next<V: View>(
        &mut self,
        view: &V,
        decider: &mut Decider,
        history: &mut History,
    ) -> Result<Option<ClosingBatch>, V::Error> {
        if self.is_over {
            return Ok(None);
        }
        let before = self.row;
        let (urls, mut effects) = if self.left.is_empty() {
            (self.is_over, self.row.is_closed) = (true, true);
            (Vec::new(), HistoryEffects::default())
        } else {
            let keys = self.left.split_off(self.left.len().saturating_sub(BATCH_URLS));
            self.mark(view, keys.into_iter().rev().collect(), decider, history)?
        };
        effects.sweeps = vec![(self.closed.sweep.clone(), self.row)];
        Ok(Some(ClosingBatch { before, urls, effects }))
    }

    /// Marks some URLs as lost; returns their names in the order of the sightings.
    fn mark<V: View>(
        &mut self,
        view: &V,
        keys: Vec<Fingerprint>,
        decider: &mut Decider,
        history: &mut History,
    ) -> Result<(Vec<String>, HistoryEffects), V::Error> {
        let mark = Observation { fetched_at: self.row.first, seen: Seen::Lost, sweep: Some(self.closed.sweep.clone()) };
        let (states, names) = (view.states(&keys)?, view.urls(&keys)?);
        let mut timeline = Timeline::default();
        let mut marked = Vec::with_capacity(keys.len());
        for ((key, state), name) in keys.iter().zip(states).zip(names) {
            let Some(state) = state else { continue };
            timeline.sightings.push(Some(StoredSighting { url: *key, moment: mark.clone() }));
            timeline.states.insert(*key, UrlState { newest: mark.clone(), found: false, ..state });
            marked.push(name);
        }
        let marked_keys = timeline.sightings.iter().flatten().map(|sighting| sighting.url);
        let urls: FxHashMap<Fingerprint, &str> = marked_keys.zip(marked.iter().map(String::as_str)).collect();
        let effects = history.close(view, decider, timeline, &urls, &self.left)?;
        self.closed.n_moved = self.closed.n_moved.map(|n_moved| n_moved + effects.moves.len() as u64);
        self.row.n_lost += keys.len() as u64;
        Ok((marked, effects))
    }
}

/// The URLs that a sweep should have seen and did not, by fingerprint, and on how many hosts.
fn missed<V: View>(view: &V, name: &str, row: &SweepRow) -> Result<(Vec<Fingerprint>, u64), V::Error> {
    let mut visited: FxHashSet<u64> = FxHashSet::default();
    let mut unseen: Vec<(u64, Fingerprint)> = Vec::new();
    let mut witnesses: FxHashMap<u64, Vec<Fingerprint>> = FxHashMap::default();
    let is_of_sweep = |sweep: &Option<String>| sweep.as_deref() == Some(name);
    view.each_state(&mut |url, state| {
        let copy_is_of_sweep = state.copy.as_ref().is_some_and(|copy| is_of_sweep(&copy.sweep));
        if copy_is_of_sweep || (is_of_sweep(&state.newest.sweep) && state.newest.seen != Seen::Lost) {
            visited.insert(state.host);
        } else if state.newest.fetched_at >= row.first {
            let witnesses = witnesses.entry(state.host).or_default();
            if witnesses.len() < WITNESSES_MAX {
                witnesses.push(url);
            }
        } else if state.is_alive() {
            unseen.push((state.host, url));
        }
    })?;
    let mut hosts = FxHashSet::default();
    for (host, _) in &unseen {
        // Removed, so that a host's witnesses are read once.
        let witnesses = witnesses.remove(host).unwrap_or_default();
        if visited.contains(host) || has_seen_any(view, &witnesses, name, row.first)? {
            hosts.insert(*host);
            visited.insert(*host);
        }
    }
    let mut lost: Vec<Fingerprint> =
        unseen.into_iter().filter(|(host, _)| hosts.contains(host)).map(|(_, url)| url).collect();
    lost.sort_unstable();
    Ok((lost, hosts.len() as u64))
}

/// Whether a sweep saw any of some URLs that were seen again since.
fn has_seen_any<V: View>(view: &V, urls: &[Fingerprint], name: &str, first: FetchTime) -> Result<bool, V::Error> {
    for url in urls {
        let is_of_sweep = |moment: &Observation| {
            moment.fetched_at >= first && moment.sweep.as_deref() == Some(name) && moment.seen != Seen::Lost
        };
        if view.observations(*url)?.iter().any(is_of_sweep) {
            return Ok(true);
        }
    }
    Ok(false)
}
