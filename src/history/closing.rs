//! Closing a sweep: marks as lost the URLs that it should have seen and did not.

use super::advance::History;
use super::effects::{HistoryEffects, LatePage};
use super::timeline::Timeline;
use super::view::View;
use crate::cluster::Decider;
use crate::document::{DocumentId, FetchTime, Fingerprint};
use crate::sweep::{Observation, Seen, SweepRow, counted};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;
use std::cmp::Reverse;

/// URLs that one batch marks.
const BATCH_URLS: usize = 1024;

/// Later sightings of a host whose histories are read to learn whether the sweep visited it, where none of the newest ones
/// belongs to the sweep.
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

/// A URL that a sweep should have seen and did not.
pub struct LostPage {
    /// The URL.
    pub url: String,
    /// What stood there when the sweep began.
    pub document: DocumentId,
}

/// One batch on the way to closing a sweep.
pub struct ClosingBatch {
    /// The sweep as it was before the batch.
    pub before: SweepRow,
    /// The lost URLs, in the order of the effects' sightings; empty in the last batch, which closes the sweep.
    pub lost: Vec<LostPage>,
    /// What the batch changes.
    pub effects: HistoryEffects,
}

/// A sweep on its way to being closed, a batch at a time. Begun again after any batch, closing goes on from there.
pub struct SweepClosing {
    row: SweepRow,
    left: Missed,
    is_over: bool,
    closed: ClosedSweep,
}

/// The URLs that are still to be marked, each list descending, so that the first ones are last.
struct Missed {
    /// Not seen since the sweep began.
    unseen: Vec<Fingerprint>,
    /// Seen after the sweep ended, or lost on another one: only their histories say that the sweep missed them. Marked when
    /// there are no others left.
    late: Vec<Fingerprint>,
    /// Hosts that they are on.
    n_hosts: u64,
}

impl Missed {
    fn len(&self) -> usize {
        self.unseen.len() + self.late.len()
    }

    /// The URLs that the next batch marks, ascending.
    fn next_batch(&mut self) -> Vec<Fingerprint> {
        let list = if self.unseen.is_empty() { &mut self.late } else { &mut self.unseen };
        let mut batch = list.split_off(list.len().saturating_sub(BATCH_URLS));
        batch.reverse();
        batch
    }
}

impl SweepClosing {
    /// Finds the URLs to mark: alive before the sweep began, on a host that the sweep visited, and not seen until it ended.
    /// What is known of later times changes nothing of it. None where there is no such sweep.
    ///
    /// # Errors
    /// The view's own.
    pub fn begin<V: View>(view: &V, name: &str, history: &History) -> Result<Option<Self>, V::Error> {
        let Some(row) = view.sweeps(&[name])?.pop().flatten() else { return Ok(None) };
        let left = missed(view, name, &row)?;
        // Killed at the very end and asked again, it must not report the closing twice.
        let is_over = row.is_closed && left.len() == 0;
        let n_moved = history.reports().then_some(0);
        let (n_hosts, n_lost) = (left.n_hosts, left.len() as u64);
        let closed = ClosedSweep { sweep: name.to_string(), n_hosts, n_lost, n_moved };
        Ok(Some(SweepClosing { row, left, is_over, closed }))
    }

    /// The sweep.
    pub fn sweep(&self) -> &str {
        &self.closed.sweep
    }

    /// What all batches so far come to, with the URLs that are still to be marked.
    pub fn closed(&self) -> ClosedSweep {
        self.closed.clone()
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
        let keys = self.left.next_batch();
        let (lost, mut effects) = if keys.is_empty() {
            (self.is_over, self.row.is_closed) = (true, true);
            (Vec::new(), HistoryEffects::default())
        } else {
            self.mark(view, &keys, decider, history)?
        };
        effects.sweeps = vec![(self.closed.sweep.clone(), self.row)];
        Ok(Some(ClosingBatch { before, lost, effects }))
    }

    /// Marks some URLs as lost; returns them in the order of the sightings.
    fn mark<V: View>(
        &mut self,
        view: &V,
        keys: &[Fingerprint],
        decider: &mut Decider,
        history: &mut History,
    ) -> Result<(Vec<LostPage>, HistoryEffects), V::Error> {
        let mark = mark_of(&self.closed.sweep, &self.row);
        let (states, names) = (view.states(keys)?, view.urls(keys)?);
        let mut timeline = Timeline::default();
        let (mut lost, mut late) = (Vec::with_capacity(keys.len()), Vec::new());
        for ((key, state), name) in keys.iter().zip(states).zip(names) {
            let Some(state) = state else { continue };
            let Some(marked) = timeline.mark(view, *key, state, &mark)? else { continue };
            if marked.is_late {
                late.push(LatePage { page: lost.len(), present: None });
            }
            lost.push(LostPage { url: name, document: marked.document });
        }
        let marked_keys = timeline.sightings.iter().flatten().map(|sighting| sighting.url);
        let urls: FxHashMap<Fingerprint, &str> = marked_keys.zip(lost.iter().map(|page| page.url.as_str())).collect();
        let effects = history.close(view, decider, timeline, &urls, late, &self.left.unseen)?;
        self.closed.n_moved = self.closed.n_moved.map(|n_moved| n_moved + effects.moves.len() as u64);
        self.row.n_lost += lost.len() as u64;
        Ok((lost, effects))
    }
}

/// The mark of loss that a sweep sets.
fn mark_of(name: &str, row: &SweepRow) -> Observation {
    Observation { fetched_at: row.first, seen: Seen::Lost, sweep: Some(name.to_string()) }
}

/// The URLs that a sweep should have seen and did not. Histories are read only where the state does not tell: of URLs that
/// were seen after the sweep ended or lost on another one, on hosts that the sweep visited.
fn missed<V: View>(view: &V, name: &str, row: &SweepRow) -> Result<Missed, V::Error> {
    let mut visited: FxHashSet<u64> = FxHashSet::default();
    let mut unseen: Vec<(u64, Fingerprint)> = Vec::new();
    let mut seen_since: Vec<(u64, Fingerprint)> = Vec::new();
    let mut witnesses: FxHashMap<u64, Vec<Fingerprint>> = FxHashMap::default();
    let is_of_sweep = |sweep: &Option<String>| sweep.as_deref() == Some(name);
    view.each_state(&mut |url, state| {
        let (newest, is_lost) = (&state.newest, state.newest.seen == Seen::Lost);
        let copy_is_of_sweep = state.copy.as_ref().is_some_and(|copy| is_of_sweep(&copy.sweep));
        if copy_is_of_sweep || (is_of_sweep(&newest.sweep) && !is_lost) {
            visited.insert(state.host);
        } else if newest.fetched_at >= row.first && is_lost && is_of_sweep(&newest.sweep) {
            // This sweep marked it. As a witness it tells nothing, and takes the place of one that does.
        } else if newest.fetched_at >= row.first {
            let witnesses = witnesses.entry(state.host).or_default();
            if witnesses.len() < WITNESSES_MAX {
                witnesses.push(url);
            }
            if newest.fetched_at > row.last || is_lost {
                seen_since.push((state.host, url));
            }
        } else if state.is_alive() {
            unseen.push((state.host, url));
        }
    })?;
    for (host, _) in unseen.iter().chain(&seen_since) {
        // Removed, so that a host's witnesses are read once.
        let witnesses = witnesses.remove(host).unwrap_or_default();
        if !visited.contains(host) && has_seen_any(view, &witnesses, name, row.first)? {
            visited.insert(*host);
        }
    }
    unseen.retain(|(host, _)| visited.contains(host));
    let mut late = Vec::new();
    for (host, url) in seen_since {
        if visited.contains(&host) && has_missed(&view.observations(url)?, name, row) {
            late.push((host, url));
        }
    }
    let hosts: FxHashSet<u64> = unseen.iter().chain(&late).map(|(host, _)| *host).collect();
    let descending = |missed: Vec<(u64, Fingerprint)>| {
        let mut urls: Vec<Fingerprint> = missed.into_iter().map(|(_, url)| url).collect();
        urls.sort_unstable_by_key(|url| Reverse(*url));
        urls
    };
    Ok(Missed { unseen: descending(unseen), late: descending(late), n_hosts: hosts.len() as u64 })
}

/// Whether a sweep missed the URL of a history: a page stood there when it began, and nothing was seen there until it ended.
/// Not so where it marked the URL before.
fn has_missed(history: &[Observation], name: &str, row: &SweepRow) -> bool {
    let is_known = |moment: &Observation| {
        let is_in_time = (row.first..=row.last).contains(&moment.fetched_at) && moment.seen != Seen::Lost;
        is_in_time || moment.sweep.as_deref() == Some(name)
    };
    // Another sweep that began at the same moment may have lost the URL first.
    let mark = mark_of(name, row);
    let before = counted(history).into_iter().rev().find(|moment| **moment < mark);
    before.is_some_and(|moment| moment.seen.document().is_some()) && !history.iter().any(is_known)
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
