//! The decisions, batch by batch: the one stage that is serial by nature. It decides where the pages belong, advances the
//! history of their URLs, and numbers the events; what it asks the store was looked up before.

use super::batch::{add_counts, add_history, closing_batch, decided_rows};
use super::batch_view::{BatchView, SketchCache};
use super::close_requests::{CloseReply, CloseRequest};
use super::error::PipelineError;
use super::gauge::StoreGauge;
use super::in_flight::InFlight;
use super::look_up::{Histories, LookedUp, Prepared, contents};
use super::poison::PoisonTracker;
use super::sequencer::{Sequencer, Ticketed};
use super::sketched_record::SketchedRecord;
use super::stats::BatchCounts;
use super::visibility::Visibility;
use crate::cluster::{BatchIndex, Decider, Decision, Effects, Relation};
use crate::document::{DocumentId, Fingerprint};
use crate::history::{ClosedSweep, History, HistoryBatch, HistoryEffects, PageSighting, SweepClosing};
use crate::intake::SketchedPage;
use crate::ports::{Batch, CloseFailure, ClosingPart, Outgoing, Store, StoreError};
use crate::wire::EventLog;
use crossbeam::channel::{Receiver, Sender};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What is to be encoded and written, in order.
pub(super) enum Decided {
    /// A batch of pages.
    Pages(Box<DecidedPages>),
    /// A batch of closing a sweep, with its events.
    Closing(Arc<Batch>, Vec<Outgoing>),
    /// What was asked of closing a sweep is done: the waiting client, the outcome, the number of the next event.
    Closed(CloseReply, ClosedSweep, u64),
}

/// A batch of pages and what was decided over it.
pub(super) struct DecidedPages {
    pub pages: Vec<SketchedRecord>,
    /// The fingerprint of each page's URL; none for a rejected record.
    pub urls: Vec<Option<Fingerprint>>,
    /// One for each page; none where no page stands.
    pub decisions: Vec<Option<Decision>>,
    /// What is written.
    pub batch: Arc<Batch>,
    /// What is reported of the history.
    pub history: HistoryEffects,
    /// The number of the batch's first event; none where no events are kept.
    pub first_seq: Option<u64>,
    /// Where documents in flight that decisions matched were first seen.
    pub matched_urls: FxHashMap<DocumentId, String>,
    pub counts: BatchCounts,
    /// How long deciding took.
    pub deciding: Duration,
}

/// Decides, batch by batch.
pub(super) struct DecideStage<'a, S: Store> {
    pub store: &'a S,
    pub decider: Decider,
    pub history: History,
    pub cache: SketchCache,
    pub next_seq: u64,
    pub poison: &'a PoisonTracker,
    pub gauge: StoreGauge,
    pub visibility: &'a Visibility,
    pub in_flight: InFlight,
    /// The closing of which a batch was asked last; none once pages came.
    pub closing: Option<SweepClosing>,
}

impl<S: Store> DecideStage<'_, S> {
    /// Runs until no more batches come, or a later stage ends. Returns the number of the next event.
    pub fn run(
        mut self,
        prepared: &Receiver<Ticketed<Result<Prepared, StoreError>>>,
        out: &Sender<Ticketed<Decided>>,
    ) -> Result<u64, PipelineError> {
        let mut sequencer = Sequencer::new();
        let mut tickets = 0..;
        let mut send =
            |decided| tickets.next().is_some_and(|ticket| out.send(Ticketed { ticket, item: decided }).is_ok());
        for ticketed in prepared {
            sequencer.push(ticketed);
            while let Some(prepared) = sequencer.pop() {
                let is_sent = match prepared? {
                    Prepared::Pages(looked_up) => {
                        self.closing = None;
                        let decided = self.decide(*looked_up)?;
                        send(Decided::Pages(Box::new(decided)))
                    }
                    Prepared::Close(request) => self.close(request, &mut send)?,
                };
                if !is_sent {
                    return Ok(self.next_seq);
                }
            }
        }
        Ok(self.next_seq)
    }

    /// Closes a sweep, or a batch of it, while pages wait. False where a later stage has ended.
    fn close(
        &mut self,
        CloseRequest { sweep, part, reply }: CloseRequest,
        send: &mut impl FnMut(Decided) -> bool,
    ) -> Result<bool, PipelineError> {
        let mut begun = self.closing.take().filter(|closing| closing.sweep() == sweep);
        if begun.is_none() {
            // Which URLs are lost is asked of all that are stored.
            if !self.visibility.wait_for(self.in_flight.n_decided()) {
                return Ok(false);
            }
            begun = SweepClosing::begin(self.store, &sweep, &self.history)?;
        }
        let Some(mut closing) = begun else {
            reply.send(Err(CloseFailure::Unknown));
            return Ok(true);
        };
        let nothing = Histories::default();
        loop {
            let view = BatchView::new(self.store, &self.in_flight, &mut self.cache, &nothing);
            let Some(step) = closing.next(&view, &mut self.decider, &mut self.history)? else { break };
            let (mut batch, events) = closing_batch(&sweep, step, self.next_seq, self.history.reports());
            add_counts(&mut batch, &self.history, self.decider.clusters());
            self.next_seq = batch.next_seq;
            let batch = Arc::new(batch);
            self.in_flight.add(Arc::clone(&batch), BatchIndex::default(), Vec::new());
            if !send(Decided::Closing(batch, events)) {
                return Ok(false);
            }
            if part == ClosingPart::Batch {
                break;
            }
        }
        let closed = closing.closed();
        self.closing = (part == ClosingPart::Batch).then_some(closing);
        Ok(send(Decided::Closed(reply, closed, self.next_seq)))
    }

    fn decide(&mut self, looked_up: LookedUp) -> Result<DecidedPages, PipelineError> {
        let begin = Instant::now();
        let LookedUp { pages, n_visible, mut index, urls, histories } = looked_up;
        let _in_hand = self.poison.pick_up_single(&pages);
        kill_point!("poison-to-decide", pages.iter().any(is_poison));
        self.in_flight.retire(n_visible);
        index.equal.reserve(3 * pages.len());
        self.in_flight.complete(&mut index, contents(&pages).map(|content| &content.equivalences));
        let next = u32::try_from(self.decider.clusters().n_documents() + 1).ok().map(DocumentId);
        index.first_recent = self.in_flight.first_document().or(next);
        let view = BatchView::new(self.store, &self.in_flight, &mut self.cache, &histories);
        let sightings: Vec<Option<PageSighting<'_>>> =
            pages.iter().zip(&urls).map(|(page, key)| sighting_of(page, *key)).collect();
        let mut history = self.history.begin(&view, &sightings)?;
        let (decisions, effects) = decide_each(&mut self.decider, &mut history, &pages, &mut index, &view)?;
        let mut history = history.into_effects(&view, &self.decider)?;
        kill_point!("decided");
        let mut counts = counts(&pages, &decisions, &effects);
        view.keep_fresh();
        let matched_urls = self.matched_in_flight(&decisions);
        let mut batch = decided_rows(&pages, &decisions, effects, &history.sightings);
        let n_events = EventLog::n_events(&decisions, pages.len(), &history);
        let first_seq = self.history.reports().then_some(self.next_seq);
        self.next_seq += n_events;
        batch.next_seq = self.next_seq;
        counts.fragments = batch.said.iter().map(|(_, said)| said.n_fragments() as u64).sum();
        add_history(&mut batch, &mut history);
        add_counts(&mut batch, &self.history, self.decider.clusters());
        let (batch, store) = (Arc::new(batch), self.store);
        self.gauge.measure(self.decider.clusters(), &batch.rows, || store.n_bytes());
        self.in_flight.add(Arc::clone(&batch), index, first_urls(&pages, &decisions));
        let deciding = begin.elapsed();
        Ok(DecidedPages { pages, urls, decisions, batch, history, first_seq, matched_urls, counts, deciding })
    }

    /// Where the documents in flight that decisions matched were first seen.
    fn matched_in_flight(&self, decisions: &[Option<Decision>]) -> FxHashMap<DocumentId, String> {
        let mut urls = FxHashMap::default();
        for found in decisions.iter().flatten().filter_map(|decision| decision.matched) {
            if let Some(url) = self.in_flight.first_url(found.document) {
                urls.entry(found.document).or_insert_with(|| url.to_string());
            }
        }
        urls
    }
}

/// Decides over a batch, page by page in order; each page sees what those before it changed, in the clusters and in the
/// history.
fn decide_each<S: Store>(
    decider: &mut Decider,
    history: &mut HistoryBatch<'_, '_>,
    pages: &[SketchedRecord],
    index: &mut BatchIndex,
    view: &BatchView<'_, S>,
) -> Result<(Vec<Option<Decision>>, Effects), StoreError> {
    let mut effects = Effects { documents: Vec::with_capacity(pages.len()), ..Effects::default() };
    let mut decisions = Vec::with_capacity(pages.len());
    for page in pages {
        let n_before = effects.documents.len();
        let decision = match (page.stored, page.content()) {
            (Some(document), _) => Some(decider.equal_to(document, Relation::Identical)),
            (None, Some(content)) => Some(decider.decide(content, index, view, &mut effects)?),
            (None, None) => None,
        };
        view.add_fresh(&effects.documents[n_before..]);
        history.add(view, decider.clusters(), decision.as_ref())?;
        decisions.push(decision);
    }
    Ok((decisions, effects))
}

fn counts(pages: &[SketchedRecord], decisions: &[Option<Decision>], effects: &Effects) -> BatchCounts {
    let decided = || decisions.iter().flatten();
    let mut counts = BatchCounts {
        merged: decided().map(|decision| decision.merges.len() as u64).sum(),
        compared: effects.n_compared,
        limited: effects.n_limited,
        ..BatchCounts::default()
    };
    for decision in decided() {
        *counts.relations.entry(decision.relation).or_default() += 1;
    }
    for page in pages {
        if let Err(rejection) = &page.outcome {
            counts.reject(&page.origin, rejection);
        }
    }
    counts.gone = (pages.len() - decided().count()) as u64 - counts.n_rejected();
    counts
}

/// The URLs of the new documents, in their order.
fn first_urls(pages: &[SketchedRecord], decisions: &[Option<Decision>]) -> Vec<String> {
    let new =
        pages.iter().zip(decisions).filter(|(_, decision)| decision.as_ref().is_some_and(Decision::is_new_document));
    new.filter_map(|(page, _)| Some(page.outcome.as_ref().ok()?.url.clone())).collect()
}

fn sighting_of(page: &SketchedRecord, key: Option<Fingerprint>) -> Option<PageSighting<'_>> {
    let SketchedPage { url, fetched_at, sweep, redirect_to, .. } = page.outcome.as_ref().ok()?;
    let (sweep, redirect_to) = (sweep.as_deref(), redirect_to.as_deref());
    Some(PageSighting { url, key: key?, fetched_at: *fetched_at, sweep, redirect_to })
}

/// Whether a page is one that kills in the tests.
#[cfg(feature = "failpoints")]
fn is_poison(page: &SketchedRecord) -> bool {
    page.outcome.as_ref().is_ok_and(|page| page.url.contains("poison-to-decide"))
}
