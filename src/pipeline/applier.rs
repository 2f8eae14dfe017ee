//! The one writer: decide, advance, describe, write.
//!
//! Over a micro-batch of pages, or of URLs that a closed sweep missed, it decides where the pages belong, advances the history
//! of their URLs, describes both as events, and writes all of it in one batch.

use super::batch::{add_history, closing_batch, decided_rows};
use super::batch_view::{BatchView, SketchCache};
use super::close_requests::{CloseReply, CloseRequest};
use super::error::PipelineError;
use super::gatherer::{Gatherer, Next};
use super::gauge::StoreGauge;
use super::poison::PoisonTracker;
use super::settings::Settings;
use super::sketched_record::SketchedRecord;
use super::stats::BatchCounts;
use super::syncer::Written;
use crate::cluster::{BatchIndex, Decider, Decision, Effects};
use crate::document::{DocumentId, Fingerprint, Seed};
use crate::history::{History, HistoryEffects, PageSighting, SweepClosing};
use crate::intake::SketchedPage;
use crate::ports::{Batch, CloseFailure, PoisonGuard, Store, StoreError};
use crate::sketch::SketchedContent;
use crate::wire::{Described, EventLog, Subject};
use crossbeam::channel::Sender;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Decides and writes.
pub(super) struct Applier<'a, S: Store> {
    store: &'a mut S,
    decider: Decider,
    history: History,
    cache: SketchCache,
    next_seq: u64,
    /// Events below this number are out.
    published: Arc<AtomicU64>,
    poison: Arc<PoisonTracker>,
    gauge: StoreGauge,
}

impl<'a, S: Store> Applier<'a, S> {
    /// An applier over a store; `is_listening` says whether there is a sink.
    pub fn new(
        store: &'a mut S,
        mut decider: Decider,
        seed: Seed,
        settings: &Settings,
        (next_seq, published, is_listening): (u64, Arc<AtomicU64>, bool),
        poison: Arc<PoisonTracker>,
        gauge: StoreGauge,
    ) -> Result<Self, PipelineError> {
        let history = History::open(&*store, seed, decider.clusters(), is_listening)?;
        let cache = SketchCache::new(settings.sketch_cache_mib << 20, |sketch| sketch.n_bytes());
        Ok(Applier { store, decider, history, cache, next_seq, published, poison, gauge })
    }

    /// Runs until no more pages come, or the syncer ends.
    pub fn run(&mut self, mut gatherer: Gatherer, written: Sender<Written>) -> Result<(), PipelineError> {
        while let Some(next) = gatherer.next() {
            let batch = match next {
                Next::Pages(batch) => batch,
                Next::Close(CloseRequest { sweep, reply }) => {
                    if !self.close(&sweep, reply, &written)? {
                        break;
                    }
                    continue;
                }
            };
            kill_point!("gathered");
            let applied = self.apply(batch)?;
            kill_point!("applied");
            if written.send(applied).is_err() {
                break;
            }
            kill_point!("handed-over");
        }
        Ok(())
    }

    /// Closes a sweep, batch by batch, while pages wait. False where the syncer has ended.
    fn close(&mut self, sweep: &str, reply: CloseReply, written: &Sender<Written>) -> Result<bool, PipelineError> {
        let Some(mut closing) = SweepClosing::begin(&*self.store, sweep, &self.history)? else {
            reply.send(Err(CloseFailure::Unknown));
            return Ok(true);
        };
        while let Some(batch) = closing.next(&*self.store, &mut self.decider, &mut self.history)? {
            let mut batch = closing_batch(sweep, batch, self.next_seq, self.history.reports());
            batch.published = self.n_published(batch.next_seq);
            self.store.write(&batch)?;
            self.next_seq = batch.next_seq;
            if written.send(Written { outbox: batch.outbox, ..Written::default() }).is_err() {
                return Ok(false);
            }
        }
        let closed = (reply, closing.closed(), self.next_seq);
        Ok(written.send(Written { closed: Some(closed), ..Written::default() }).is_ok())
    }

    /// Writes how far publishing came, so that the next run need not look.
    pub fn finish(&mut self) -> Result<(), PipelineError> {
        let published = self.n_published(self.next_seq);
        let batch = Batch { next_seq: self.next_seq, published, ..Batch::default() };
        kill_point!("finishing");
        self.store.commit(&batch)?;
        kill_point!("finished");
        Ok(())
    }

    /// Decides over a batch of pages and writes what that changes.
    fn apply(&mut self, pages: Vec<SketchedRecord>) -> Result<Written, PipelineError> {
        let begin = Instant::now();
        let (batch, counts) = self.decided_batch(&pages)?;
        let deciding = begin.elapsed();
        let begin = Instant::now();
        self.store.write(&batch)?;
        self.next_seq = batch.next_seq;
        self.poison.count_written(pages.len());
        self.gauge.measure(self.decider.clusters(), &batch.rows, || self.store.n_bytes());
        Ok(Written {
            n_records: pages.len(),
            counts,
            deciding,
            writing: begin.elapsed(),
            progress: batch.progress,
            outbox: batch.outbox,
            closed: None,
        })
    }

    /// What a batch of pages changes, and its counts.
    fn decided_batch(&mut self, pages: &[SketchedRecord]) -> Result<(Batch, BatchCounts), PipelineError> {
        let poison = Arc::clone(&self.poison);
        let _in_hand = match pages {
            [page] if poison.is_cautious() => Some(poison.pick_up(&page.origin)),
            _ => None,
        };
        kill_point!("poison-to-decide", pages.iter().any(is_poison));
        let view = BatchView::new(&*self.store, &mut self.cache);
        let Decided { decisions, effects } = decide(&mut self.decider, pages, &view)?;
        kill_point!("decided");
        let counts = counts(pages, &decisions, &effects);
        let sightings: Vec<Option<PageSighting<'_>>> = pages.iter().map(sighting_of).collect();
        let advanced = self.history.advance(&view, &mut self.decider, &sightings, &decisions)?;
        view.keep_fresh();
        let (outbox, next_seq) = if self.history.reports() {
            let log = describe(&*self.store, pages, &decisions, &advanced, self.next_seq)?;
            let next_seq = log.next_seq();
            (log.into_events(), next_seq)
        } else {
            // Without a sink, still advance `seq` past the events that every page would have had.
            (Vec::new(), self.next_seq + pages.len() as u64 + counts.merged)
        };
        let mut batch = decided_rows(pages, &decisions, effects, &advanced.sightings);
        add_history(&mut batch, advanced);
        (batch.outbox, batch.next_seq) = (outbox, next_seq);
        batch.published = self.n_published(next_seq);
        Ok((batch, counts))
    }

    /// Events below this number may be forgotten: the published ones, or all without a sink.
    fn n_published(&self, next_seq: u64) -> u64 {
        if self.history.reports() { self.published.load(Ordering::Acquire) } else { next_seq }
    }
}

/// The decisions over a batch and what they change.
struct Decided {
    /// One for each page; none where no page stands.
    decisions: Vec<Option<Decision>>,
    effects: Effects,
}

/// Decides over a batch, page by page in order; each decision sees what those before it changed.
fn decide<S: Store>(
    decider: &mut Decider,
    pages: &[SketchedRecord],
    view: &BatchView<'_, S>,
) -> Result<Decided, StoreError> {
    let contents = || pages.iter().filter_map(content_of);
    let mut known = known_equals(view.store, contents())?;
    let mut effects = Effects::default();
    decider.prefetch(contents(), &mut known, view)?;
    let mut decisions = Vec::with_capacity(pages.len());
    for page in pages {
        let n_before = effects.documents.len();
        let decision =
            content_of(page).map(|content| decider.decide(content, &mut known, view, &mut effects)).transpose()?;
        view.add_fresh(&effects.documents[n_before..]);
        decisions.push(decision);
    }
    Ok(Decided { decisions, effects })
}

/// What the store knows of the equivalences of a batch's contents.
fn known_equals<'p, S: Store>(
    store: &S,
    contents: impl Iterator<Item = &'p SketchedContent>,
) -> Result<BatchIndex, StoreError> {
    let mut keys: Vec<Fingerprint> = contents.flat_map(|content| content.equivalences.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    let documents = store.equal(&keys)?;
    let equal = keys.into_iter().zip(documents).filter_map(|(key, document)| Some((key, document?))).collect();
    Ok(BatchIndex { equal, ..BatchIndex::default() })
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

/// The events of a batch.
fn describe<S: Store>(
    store: &S,
    pages: &[SketchedRecord],
    decisions: &[Option<Decision>],
    history: &HistoryEffects,
    next_seq: u64,
) -> Result<EventLog, StoreError> {
    let first_urls = matched_urls(store, pages, decisions)?;
    let mut log = EventLog::new(next_seq);
    for (at, (page, decision)) in pages.iter().zip(decisions).enumerate() {
        let outcome = match (&page.outcome, decision) {
            (Err(why), _) => Described::Rejected(why, page.original.as_deref()),
            (Ok(sketched), None) => {
                Described::Absent { subject: subject_of(sketched), redirect_to: sketched.redirect_to.as_deref() }
            }
            (Ok(sketched), Some(decision)) => {
                let matched_url = decision.matched.and_then(|found| first_urls.get(&found.document));
                let matched_url = matched_url.map(String::as_str);
                Described::Assigned { subject: subject_of(sketched), decision, matched_url }
            }
        };
        log.page(&page.origin, at, outcome, history);
    }
    Ok(log)
}

/// Where each document that a decision matched was first seen: in the store, or in this very batch.
fn matched_urls<S: Store>(
    store: &S,
    pages: &[SketchedRecord],
    decisions: &[Option<Decision>],
) -> Result<FxHashMap<DocumentId, String>, StoreError> {
    let mut urls: FxHashMap<DocumentId, String> = FxHashMap::default();
    let mut unknown = Vec::new();
    for (page, decision) in pages.iter().zip(decisions) {
        let (Ok(sketched), Some(decision)) = (&page.outcome, decision) else { continue };
        if let Some(found) = decision.matched
            && !urls.contains_key(&found.document)
        {
            unknown.push(found.document);
        }
        if decision.is_new_document() {
            urls.insert(decision.document, sketched.url.clone());
        }
    }
    unknown.sort_unstable();
    unknown.dedup();
    let found = store.first_urls(&unknown)?;
    urls.extend(unknown.into_iter().zip(found));
    Ok(urls)
}

fn content_of(page: &SketchedRecord) -> Option<&SketchedContent> {
    page.outcome.as_ref().ok()?.content.as_ref()
}

fn sighting_of(page: &SketchedRecord) -> Option<PageSighting<'_>> {
    let SketchedPage { url, fetched_at, sweep, redirect_to, .. } = page.outcome.as_ref().ok()?;
    let (sweep, redirect_to) = (sweep.as_deref(), redirect_to.as_deref());
    Some(PageSighting { url, fetched_at: *fetched_at, sweep, redirect_to })
}

fn subject_of(page: &SketchedPage) -> Subject<'_> {
    Subject { url: Some(&page.url), fetched_at: Some(page.fetched_at), sweep: page.sweep.as_deref() }
}

/// Whether a page is one that kills in the tests.
#[cfg(feature = "failpoints")]
fn is_poison(page: &SketchedRecord) -> bool {
    page.outcome.as_ref().is_ok_and(|page| page.url.contains("poison-to-decide"))
}
