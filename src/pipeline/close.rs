//! Closing a sweep: marks the URLs that it should have seen and did not.

use super::moves::{Move, Moves};
use super::news::as_told;
use super::timeline::Timeline;
use crate::cluster::Decider;
use crate::document::{DocumentId, FetchTime, Fingerprint};
use crate::ports::{Batch, Outgoing, Sink, SinkError, Store, StoreError, StoredSighting};
use crate::sketch::Sketch;
use crate::sweep::{Moment, Seen, SweepRow, UrlState};
use crate::wire::{Event, Origin, Subject};
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// URLs that are marked in one batch.
const BATCH_URLS: usize = 1024;

/// Later sightings of a host whose histories are looked at, where none of the newest ones is of the sweep.
const WITNESSES_MAX: usize = 64;

/// What closing a sweep did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Closed {
    /// The sweep.
    pub sweep: String,
    /// Hosts that it visited and that have URLs it did not see.
    pub n_hosts: u64,
    /// URLs that were marked as lost.
    pub n_lost: u64,
    /// Of them, those whose content is known to stand elsewhere; none where nobody listens to events.
    pub n_moved: Option<u64>,
}

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
    pub fn close(mut self, name: &str) -> Result<Closed, CloseError> {
        let row = self.store.sweeps(&[name])?.pop().flatten();
        let mut row = row.ok_or_else(|| CloseError::Unknown(name.to_string()))?;
        let (lost, n_hosts) = missed(&*self.store, name, &row)?;
        let mut moves = Moves::of_store(&*self.store, self.decider.clusters())?;
        let mut closed = Closed { sweep: name.to_string(), n_hosts, n_lost: lost.len() as u64, n_moved: None };
        if self.sink.is_some() {
            closed.n_moved = Some(0);
        }
        // Killed when all was done, and asked again: that is told once.
        if row.is_closed && lost.is_empty() {
            return Ok(closed);
        }
        for urls in lost.chunks(BATCH_URLS) {
            let n_moved = self.mark(name, &mut row, urls, &mut moves)?;
            closed.n_moved = closed.n_moved.map(|n| n + n_moved);
        }
        row.is_closed = true;
        let origin = origin(name, &row);
        let subject = Subject { url: None, fetched_at: Some(row.first), sweep: Some(name) };
        let event = Event::sweep_closed(self.next_seq, &origin, subject, row.n_lost);
        let outbox = vec![Outgoing { seq: self.next_seq, key: None, json: event.to_json(), original: None }];
        self.commit(Batch { sweeps: vec![(name.to_string(), row)], outbox, ..Batch::default() })?;
        self.commit(Batch::default())?;
        Ok(closed)
    }

    /// Marks some URLs. Tells how many moved.
    fn mark(
        &mut self,
        name: &str,
        row: &mut SweepRow,
        urls: &[Fingerprint],
        moves: &mut Moves,
    ) -> Result<u64, CloseError> {
        let mark = Moment { fetched_at: row.first, seen: Seen::Lost, sweep: Some(name.to_string()) };
        let states = self.store.states(urls)?;
        let names = self.store.urls(urls)?;
        let mut timeline = Timeline::default();
        for (url, state) in urls.iter().zip(states) {
            let Some(state) = state else { continue };
            timeline.sightings.push(Some(StoredSighting { url: *url, moment: mark.clone() }));
            timeline.states.insert(*url, UrlState { newest: mark.clone(), found: false, ..state });
        }
        let keys: HashMap<Fingerprint, &str> = urls.iter().copied().zip(names.iter().map(String::as_str)).collect();
        // What nobody hears of stays sought, to be told when somebody listens.
        let moved = match self.sink {
            Some(_) => moves.follow(&*self.store, self.decider.clusters(), &mut timeline, &[], &keys)?,
            None => Vec::new(),
        };
        let mut batch = Batch { outbox: self.events(name, row, &timeline, &keys, &moved)?, ..Batch::default() };
        timeline.write(&mut batch);
        row.n_lost += urls.len() as u64;
        batch.sweeps = vec![(name.to_string(), *row)];
        self.commit(batch)?;
        Ok(moved.len() as u64)
    }

    /// A `lost` event for each URL, and a `moved` one behind it where it was found.
    fn events(
        &self,
        name: &str,
        row: &SweepRow,
        timeline: &Timeline,
        names: &HashMap<Fingerprint, &str>,
        moved: &[Move],
    ) -> Result<Vec<Outgoing>, StoreError> {
        let resemblances = self.resemblances(moved)?;
        let mut origin = origin(name, row);
        let mut events: Vec<Outgoing> = Vec::new();
        for sighting in timeline.sightings.iter().flatten() {
            let copy = timeline.states.get(&sighting.url).and_then(|state| state.copy.as_ref());
            let (Some(url), Some(copy)) = (names.get(&sighting.url), copy) else { continue };
            let subject = Subject { url: Some(*url), fetched_at: Some(sighting.moment.fetched_at), sweep: Some(name) };
            let next = self.next_seq + events.len() as u64;
            let event = Event::lost(next, &origin, subject, copy.document);
            events.push(Outgoing { seq: next, key: Some(url.to_string()), json: event.to_json(), original: None });
            for (found, resemblance) in moved.iter().zip(&resemblances).filter(|(found, _)| found.from == *url) {
                let told = as_told(found, *resemblance, self.decider.threshold());
                let event = Event::moved(next + 1, &origin, subject, told);
                events.push(Outgoing {
                    seq: next + 1,
                    key: Some(url.to_string()),
                    json: event.to_json(),
                    original: None,
                });
            }
            origin.offset += 1;
        }
        Ok(events)
    }

    fn resemblances(&self, moved: &[Move]) -> Result<Vec<f64>, StoreError> {
        let documents = |of: fn(&Move) -> DocumentId| moved.iter().map(of).collect::<Vec<_>>();
        let from = self.store.sketches(&documents(|found| found.from_document))?;
        let to = self.store.sketches(&documents(|found| found.to_document))?;
        let sketches = from.iter().zip(&to);
        let resemblance = |(found, (a, b)): (&Move, (&Arc<Sketch>, &Arc<Sketch>))| {
            if found.from_document == found.to_document { 1.0 } else { self.decider.resemblance(a, b) }
        };
        Ok(moved.iter().zip(sketches).map(resemblance).collect())
    }

    /// Writes a batch and lets its events go; those of the batch before are known to be out then.
    fn commit(&mut self, mut batch: Batch) -> Result<(), CloseError> {
        batch.published = self.next_seq;
        self.next_seq += batch.outbox.len() as u64;
        batch.next_seq = self.next_seq;
        if self.sink.is_none() {
            batch.outbox.clear();
            batch.published = self.next_seq;
        }
        self.store.commit(&batch)?;
        if let Some(sink) = &mut self.sink
            && !batch.outbox.is_empty()
        {
            sink.publish(&batch.outbox)?;
        }
        Ok(())
    }
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
        let of_sweep = |moment: &Moment| {
            moment.fetched_at >= first && moment.sweep.as_deref() == Some(name) && moment.seen != Seen::Lost
        };
        if store.history(*url)?.iter().any(of_sweep) {
            return Ok(true);
        }
    }
    Ok(false)
}
