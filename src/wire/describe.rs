//! Describes decisions and history effects as numbered events: the one place where events get their numbers and order.

use super::event::{Event, Subject};
use super::message::Message;
use super::origin::Origin;
use super::outgoing::{Outgoing, PresentChange};
use super::rejection::Rejection;
use crate::cluster::Decision;
use crate::history::{ClosingBatch, HistoryEffects, LatePage, LostPage};

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
    /// An empty log whose first event gets the number `next_seq`, with room for `n_events`.
    pub fn new(next_seq: u64, n_events: usize) -> Self {
        EventLog { next_seq, events: Vec::with_capacity(n_events) }
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
        let ClosingBatch { before, lost, effects } = batch;
        let source = format!("sweep {sweep}").into();
        // How many losses were reported before, so that every event has an origin of its own.
        let mut origin = Origin { source, partition: 0, offset: before.n_lost as i64 };
        let subject = Subject { url: None, fetched_at: Some(before.first), sweep: Some(sweep) };
        if lost.is_empty() {
            self.push(None, |seq| Event::sweep_closed(seq, &origin, subject, before.n_lost));
        }
        for (at, LostPage { url, document }) in lost.iter().enumerate() {
            let subject = Subject { url: Some(url), ..subject };
            let own = self.push(Some(url), |seq| Event::lost(seq, &origin, subject, *document));
            if let Some(late) = effects.late_page(at) {
                own.change = present_change(late);
            }
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

/// What the event of a late page changes in the present state.
fn present_change(late: &LatePage) -> PresentChange {
    late.present.clone().map_or(PresentChange::Nothing, PresentChange::To)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{DocumentId, FetchTime};
    use crate::sweep::SweepRow;

    /// Lost if this fails: in the compacted topic, the page that a newer sweep saw at a URL which an older one lost.
    #[test]
    fn a_late_loss_changes_nothing_that_stands() {
        let lost = ["http://a/lost", "http://a/back"].map(|url| LostPage { url: url.into(), document: DocumentId(1) });
        let late = vec![LatePage { page: 1, present: None }];
        let effects = HistoryEffects { late, ..HistoryEffects::default() };
        let mut log = EventLog::new(0, 0);
        log.closing("s", &ClosingBatch { before: SweepRow::begun(FetchTime(0)), lost: lost.into(), effects });
        let changes: Vec<PresentChange> = log.into_events().into_iter().map(|event| event.change).collect();
        assert_eq!(changes, [PresentChange::AsTold, PresentChange::Nothing]);
    }
}
