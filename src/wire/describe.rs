//! Describes decisions and history effects as numbered events: the one place where events get their numbers and order.

use super::event::{Event, Subject};
use super::message::Message;
use super::origin::Origin;
use super::outgoing::{Outgoing, PresentChange};
use super::rejection::Rejection;
use crate::cluster::Decision;
use crate::document::{DocumentId, Fingerprint};
use crate::history::{ClosingBatch, HistoryEffects, LatePage};

/// What became of a record.
#[derive(Clone, Copy, Debug)]
pub enum Described<'p> {
    /// It is no page that can be sketched; with the message that it was, where that is kept.
    Rejected(&'p Rejection, Option<&'p Message>),
    /// Nothing stands at the URL any more, or only a redirect.
    Absent {
        /// The page.
        subject: Subject<'p>,
        /// Where the URL redirects to.
        redirect_to: Option<&'p str>,
    },
    /// The page has a document and a cluster.
    Assigned {
        /// The page.
        subject: Subject<'p>,
        /// Where it belongs.
        decision: &'p Decision,
        /// Where the document that it was matched with was first seen.
        matched_url: Option<&'p str>,
    },
}

/// Collects the events of a batch and numbers them.
#[derive(Debug)]
pub struct EventLog {
    next_seq: u64,
    events: Vec<Outgoing>,
}

impl EventLog {
    /// An empty log whose first event gets the number `next_seq`.
    pub fn new(next_seq: u64) -> Self {
        EventLog { next_seq, events: Vec::new() }
    }

    /// How many events [`EventLog::page`] makes of a batch of `n_pages` pages.
    pub fn n_events(decisions: &[Option<Decision>], n_pages: usize, history: &HistoryEffects) -> u64 {
        let n_merges: usize = decisions.iter().flatten().map(|decision| decision.merges.len()).sum();
        (n_pages + n_merges + history.changes.len() + history.moves.len()) as u64
    }

    /// The number of the next event.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// The events, in order.
    pub fn into_events(self) -> Vec<Outgoing> {
        self.events
    }

    fn push(&mut self, key: Option<&str>, event: impl FnOnce(u64) -> Event) -> &mut Outgoing {
        let json = event(self.next_seq).to_json();
        self.events.push(Outgoing::new(self.next_seq, key.map(String::from), json));
        self.next_seq += 1;
        let last = self.events.len() - 1;
        &mut self.events[last]
    }

    /// Describes the page number `page` of a batch: its own event first, then merges, its content change, and moves.
    pub fn page(&mut self, origin: &Origin, page: usize, outcome: Described<'_>, history: &HistoryEffects) {
        let (own, subject) = match outcome {
            Described::Rejected(why, original) => {
                let own = self.push(why.url.as_deref(), |seq| Event::rejected(seq, origin, why));
                own.original = original.cloned().map(Box::new);
                return;
            }
            Described::Absent { subject, redirect_to } => {
                let event = |seq| match redirect_to {
                    Some(target) => Event::redirected(seq, origin, subject, target),
                    None => Event::gone(seq, origin, subject),
                };
                (self.push(subject.url, event), subject)
            }
            Described::Assigned { subject, decision, matched_url } => {
                let matched_url = matched_url.map(String::from);
                let event = |seq| Event::assigned(seq, origin, subject, decision, matched_url);
                (self.push(subject.url, event), subject)
            }
        };
        if let Some(late) = history.late_page(page) {
            own.change = present_change(late);
        }
        if let Described::Assigned { decision, .. } = outcome {
            for merge in &decision.merges {
                self.push(subject.url, |seq| Event::merged(seq, origin, subject, *merge));
            }
            if let Some(change) = history.change_of(page) {
                let pair = (change.previous, change.document);
                self.push(subject.url, |seq| Event::changed(seq, origin, subject, pair, change.resemblance));
            }
        }
        self.moves(origin, page, subject, history);
    }

    /// Describes a batch of a sweep that is being closed: each lost URL with its move, or at last that it is closed.
    pub fn closing(&mut self, sweep: &str, batch: &ClosingBatch) {
        let ClosingBatch { before, urls, effects } = batch;
        let source = format!("sweep {sweep}").into();
        // How many losses were reported before, so that every event has an origin of its own.
        let mut origin = Origin { source, partition: 0, offset: before.n_lost as i64 };
        let subject = Subject { url: None, fetched_at: Some(before.first), sweep: Some(sweep) };
        if urls.is_empty() {
            self.push(None, |seq| Event::sweep_closed(seq, &origin, subject, before.n_lost));
        }
        for (at, (url, sighting)) in urls.iter().zip(effects.sightings.iter().flatten()).enumerate() {
            let Some(copy) = last_copy(effects, sighting.url) else { continue };
            let subject = Subject { url: Some(url), ..subject };
            self.push(Some(url), |seq| Event::lost(seq, &origin, subject, copy));
            self.moves(&origin, at, subject, effects);
            origin.offset += 1;
        }
    }

    /// Describes the moves that a page reports.
    fn moves(&mut self, origin: &Origin, page: usize, subject: Subject<'_>, history: &HistoryEffects) {
        for found in history.moves_of(page) {
            self.push(Some(&found.from), |seq| Event::moved(seq, origin, subject, found));
        }
    }
}

fn last_copy(effects: &HistoryEffects, url: Fingerprint) -> Option<DocumentId> {
    let at = effects.states.binary_search_by_key(&url, |(url, _)| *url).ok()?;
    effects.states[at].1.copy.as_ref().map(|copy| copy.document)
}

/// What the event of a late page changes in the present state.
fn present_change(late: &LatePage) -> PresentChange {
    late.present.clone().map_or(PresentChange::Nothing, PresentChange::To)
}
