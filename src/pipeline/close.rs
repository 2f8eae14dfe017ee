//! Closing a sweep: marks the URLs that it should have seen and did not.

use super::moves::{Move, Moves};
use super::news::as_told;
use super::timeline::Timeline;
use crate::cluster::Decider;
use crate::document::{DocumentId, FetchTime, Fingerprint};
use crate::ports::{Batch, ClosedSweep, Outgoing, Sink, SinkError, Store, StoreError, StoredSighting};
use crate::sketch::Sketch;
use crate::sweep::{Observation, Seen, SweepRow, UrlState};
use crate::wire::{Event, Moved, Origin, Subject};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// URLs that are marked in one batch.
const BATCH_URLS: usize = 1024;

/// Later sightings of a host whose histories are looked at, where none of the newest ones is of the sweep.
const WITNESSES_MAX: usize = 64;

/// Why a sweep was not closed. What was marked before stays; closing it again goes on.
#[derive(Debug, thiserror::Error)]
pub enum CloseError {
    /// No page names it.
    #[error("there is no sweep {0:?}; `lookalike sweep list` shows those there are")]
    Unknown(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The sink failed.
    #[error("events cannot be published: {0}")]
    Sink(#[from] SinkError),
}

/// Closes sweeps of a store that nobody else writes to.
pub struct Closer<'a, S: Store> {
    /// The store.
    pub store: &'a mut S,
    /// Decides over the store's clusters.
    pub decider: Decider,
    /// The next event's number.
    pub next_seq: u64,
    /// Where events go; none: nobody listens, and no events are kept.
    pub sink: Option<Box<dyn Sink>>,
}

impl<S: Store> Closer<'_, S> {
    /// Marks as lost every URL that was alive before the sweep began, on a host that the sweep visited, and was not seen
    /// since it began. The mark is dated at the sweep's beginning: a page of the sweep that comes late undoes it.
    ///
    /// # Errors
    /// [`CloseError`]
    pub fn close(mut self, name: &str) -> Result<ClosedSweep, CloseError> {
        let closing = Closing::begin(&*self.store, name, self.sink.is_some())?;
        let mut closing = closing.ok_or_else(|| CloseError::Unknown(name.to_string()))?;
        let mut moves = Moves::of_store(&*self.store, self.decider.clusters())?;
        let mut has_written = false;
        while let Some(batch) = closing.next(&*self.store, &mut self.decider, &mut moves, self.next_seq)? {
            self.commit(batch)?;
            has_written = true;
        }
        if has_written {
            self.commit(Batch { next_seq: self.next_seq, ..Batch::default() })?;
        }
        Ok(closing.closed())
    }

    /// Writes a batch and lets its events go; those of the batch before are known to be out then.
    fn commit(&mut self, mut batch: Batch) -> Result<(), CloseError> {
        batch.published = if self.sink.is_some() { self.next_seq } else { batch.next_seq };
        self.next_seq = batch.next_seq;
        self.store.commit(&batch)?;
        if let Some(sink) = &mut self.sink
            && !batch.outbox.is_empty()
        {
            sink.publish(&batch.outbox)?;
        }
        Ok(())
    }
}

/// A sweep on its way to be closed, a batch at a time: whoever writes them, one after the other, closes it. Begun again
/// after any of them, it goes on from there.
pub(super) struct Closing {
    row: SweepRow,
    /// The URLs that are still to be marked, the last ones first.
    left: Vec<Fingerprint>,
    is_over: bool,
    closed: ClosedSweep,
}

impl Closing {
    /// Finds what is to be marked; none where there is no such sweep.
    pub fn begin<S: Store>(store: &S, name: &str, is_listening: bool) -> Result<Option<Self>, StoreError> {
        let Some(row) = store.sweeps(&[name])?.pop().flatten() else { return Ok(None) };
        let (mut left, n_hosts) = missed(store, name, &row)?;
        left.reverse();
        // Killed when all was done, and asked again: that is told once.
        let is_over = row.is_closed && left.is_empty();
        let n_moved = is_listening.then_some(0);
        let closed = ClosedSweep { sweep: name.to_string(), n_hosts, n_lost: left.len() as u64, n_moved };
        Ok(Some(Closing { row, left, is_over, closed }))
    }

    /// What all batches come to.
    pub fn closed(self) -> ClosedSweep {
        self.closed
    }

    /// The next batch, whose events are numbered from `next_seq` on; none where all are written. The store must hold the
    /// one before.
    pub fn next<S: Store>(
        &mut self,
        store: &S,
        decider: &mut Decider,
        moves: &mut Moves,
        next_seq: u64,
    ) -> Result<Option<Batch>, StoreError> {
        if self.is_over {
            return Ok(None);
        }
        let mut batch = if self.left.is_empty() {
            self.last(next_seq)
        } else {
            let urls = self.left.split_off(self.left.len().saturating_sub(BATCH_URLS));
            self.mark(store, urls.into_iter().rev().collect(), decider, moves, next_seq)?
        };
        batch.sweeps = vec![(self.closed.sweep.clone(), self.row)];
        batch.next_seq = next_seq + batch.outbox.len() as u64;
        if self.closed.n_moved.is_none() {
            batch.outbox.clear();
        }
        Ok(Some(batch))
    }

    /// Says that the sweep is closed.
    fn last(&mut self, seq: u64) -> Batch {
        self.is_over = true;
        self.row.is_closed = true;
        let name = &self.closed.sweep;
        let subject = Subject { url: None, fetched_at: Some(self.row.first), sweep: Some(name) };
        let event = Event::sweep_closed(seq, &origin(name, &self.row), subject, self.row.n_lost);
        Batch { outbox: vec![Outgoing::new(seq, None, event.to_json())], ..Batch::default() }
    }

    /// Marks some URLs.
    fn mark<S: Store>(
        &mut self,
        store: &S,
        urls: Vec<Fingerprint>,
        decider: &mut Decider,
        moves: &mut Moves,
        next_seq: u64,
    ) -> Result<Batch, StoreError> {
        let mark = Observation { fetched_at: self.row.first, seen: Seen::Lost, sweep: Some(self.closed.sweep.clone()) };
        let states = store.states(&urls)?;
        let names = store.urls(&urls)?;
        let mut timeline = Timeline::default();
        for (url, state) in urls.iter().zip(states) {
            let Some(state) = state else { continue };
            timeline.sightings.push(Some(StoredSighting { url: *url, moment: mark.clone() }));
            timeline.states.insert(*url, UrlState { newest: mark.clone(), found: false, ..state });
        }
        let keys: HashMap<Fingerprint, &str> = urls.iter().copied().zip(names.iter().map(String::as_str)).collect();
        // What nobody hears of stays sought, to be told when somebody listens.
        let moved = match &mut self.closed.n_moved {
            Some(n_moved) => {
                let moved = moves.follow(store, decider.clusters(), &mut timeline, &[], &keys)?;
                *n_moved += moved.len() as u64;
                moved
            }
            None => Vec::new(),
        };
        let outbox = self.events(&timeline, &keys, &told(store, decider, &moved)?, next_seq);
        let mut batch = Batch { outbox, ..Batch::default() };
        timeline.write(&mut batch);
        self.row.n_lost += urls.len() as u64;
        Ok(batch)
    }

    /// A `lost` event for each URL, and a `moved` one behind it where it was found.
    fn events(
        &self,
        timeline: &Timeline,
        names: &HashMap<Fingerprint, &str>,
        moved: &[(&str, Moved<'_>)],
        next_seq: u64,
    ) -> Vec<Outgoing> {
        let name = &self.closed.sweep;
        let mut origin = origin(name, &self.row);
        let mut events: Vec<Outgoing> = Vec::new();
        for sighting in timeline.sightings.iter().flatten() {
            let copy = timeline.states.get(&sighting.url).and_then(|state| state.copy.as_ref());
            let (Some(url), Some(copy)) = (names.get(&sighting.url), copy) else { continue };
            let subject = Subject { url: Some(*url), fetched_at: Some(sighting.moment.fetched_at), sweep: Some(name) };
            let mut push = |make: &dyn Fn(u64) -> Event| {
                let seq = next_seq + events.len() as u64;
                events.push(Outgoing::new(seq, Some(url.to_string()), make(seq).to_json()));
            };
            push(&|seq| Event::lost(seq, &origin, subject, copy.document));
            for (_, moved) in moved.iter().filter(|(from, _)| from == url) {
                push(&|seq| Event::moved(seq, &origin, subject, *moved));
            }
            origin.offset += 1;
        }
        events
    }
}

/// Moves as their events tell them, each with the URL that is lost.
fn told<'m, S: Store>(
    store: &S,
    decider: &Decider,
    moved: &'m [Move],
) -> Result<Vec<(&'m str, Moved<'m>)>, StoreError> {
    let documents = |of: fn(&Move) -> DocumentId| moved.iter().map(of).collect::<Vec<_>>();
    let from = store.sketches(&documents(|found| found.from_document))?;
    let to = store.sketches(&documents(|found| found.to_document))?;
    let sketches = from.iter().zip(&to);
    let told = |(found, (a, b)): (&'m Move, (&Arc<Sketch>, &Arc<Sketch>))| {
        let is_same = found.from_document == found.to_document;
        let resemblance = if is_same { 1.0 } else { decider.resemblance(a, b) };
        (found.from.as_str(), as_told(found, resemblance, decider.threshold()))
    };
    Ok(moved.iter().zip(sketches).map(told).collect())
}

/// The name of what closing a sweep tells: the sweep, and how many of its losses were told before.
fn origin(name: &str, row: &SweepRow) -> Origin {
    Origin { source: format!("sweep {name}").into(), partition: 0, offset: row.n_lost as i64 }
}

/// The URLs that a sweep should have seen and did not, by fingerprint, and on how many hosts.
fn missed<S: Store>(store: &S, name: &str, row: &SweepRow) -> Result<(Vec<Fingerprint>, u64), StoreError> {
    let mut visited: HashSet<u64> = HashSet::new();
    let mut unseen: Vec<(u64, Fingerprint)> = Vec::new();
    let mut witnesses: HashMap<u64, Vec<Fingerprint>> = HashMap::new();
    let is_of_sweep = |sweep: &Option<String>| sweep.as_deref() == Some(name);
    store.each_state(&mut |url, state| {
        let of_copy = state.copy.as_ref().is_some_and(|copy| is_of_sweep(&copy.sweep));
        if of_copy || (is_of_sweep(&state.newest.sweep) && state.newest.seen != Seen::Lost) {
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
    let mut hosts = HashSet::new();
    for (host, _) in &unseen {
        // Looked at once for each host.
        let witnesses = witnesses.remove(host).unwrap_or_default();
        if visited.contains(host) || saw(store, &witnesses, name, row.first)? {
            hosts.insert(*host);
            visited.insert(*host);
        }
    }
    let mut lost: Vec<Fingerprint> =
        unseen.into_iter().filter(|(host, _)| hosts.contains(host)).map(|(_, url)| url).collect();
    lost.sort_unstable();
    Ok((lost, hosts.len() as u64))
}

/// Whether a sweep saw one of some URLs that were seen again since.
fn saw<S: Store>(store: &S, urls: &[Fingerprint], name: &str, first: FetchTime) -> Result<bool, StoreError> {
    for url in urls {
        let of_sweep = |moment: &Observation| {
            moment.fetched_at >= first && moment.sweep.as_deref() == Some(name) && moment.seen != Seen::Lost
        };
        if store.history(*url)?.iter().any(of_sweep) {
            return Ok(true);
        }
    }
    Ok(false)
}
