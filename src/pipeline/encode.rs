//! Describes decided batches as events and encodes both for the store, in any number of threads.

use super::close_requests::CloseReply;
use super::decide::{Decided, DecidedPages};
use super::error::PipelineError;
use super::poison::PoisonTracker;
use super::sequencer::Ticketed;
use super::sketched_record::SketchedRecord;
use super::stats::BatchCounts;
use crate::cluster::Decision;
use crate::document::DocumentId;
use crate::history::ClosedSweep;
use crate::intake::SketchedPage;
use crate::ports::{Outgoing, ProgressMap, Store, StoreError};
use crate::wire::{Described, EventLog, Subject};
use crossbeam::channel::{Receiver, Sender};
use rustc_hash::FxHashMap;
use std::time::Duration;

/// A batch ready to be written, with what is told once it is durable.
pub(super) struct EncodedBatch<E> {
    pub encoded: E,
    pub n_records: usize,
    pub counts: BatchCounts,
    /// How long deciding took.
    pub deciding: Duration,
    pub progress: ProgressMap,
    pub outbox: Vec<Outgoing>,
    /// The number of the next event.
    pub next_seq: u64,
}

/// What is written, in order.
pub(super) enum Encoded<E> {
    /// A batch.
    Batch(Box<EncodedBatch<E>>),
    /// A sweep is closed.
    Closed(CloseReply, ClosedSweep, u64),
}

/// A batch on its way to the writer.
pub(super) type ToWrite<S> = Ticketed<Result<Encoded<<S as Store>::Encoded>, PipelineError>>;

/// Runs until no more batches come, or the writer has ended.
pub(super) fn run<S: Store>(
    store: &S,
    poison: &PoisonTracker,
    decided: &Receiver<Ticketed<Decided>>,
    out: &Sender<ToWrite<S>>,
) {
    for Ticketed { ticket, item } in decided {
        let encoded = match item {
            Decided::Pages(pages) => encode_pages(store, poison, *pages),
            Decided::Closing(batch, outbox) => {
                store.encode(&batch, &outbox).map_err(PipelineError::from).map(|encoded| EncodedBatch {
                    encoded,
                    n_records: 0,
                    counts: BatchCounts::default(),
                    deciding: Duration::ZERO,
                    progress: ProgressMap::new(),
                    outbox,
                    next_seq: batch.next_seq,
                })
            }
            Decided::Closed(reply, closed, next_seq) => {
                if out.send(Ticketed { ticket, item: Ok(Encoded::Closed(reply, closed, next_seq)) }).is_err() {
                    break;
                }
                continue;
            }
        };
        kill_point!("encoded");
        if out.send(Ticketed { ticket, item: encoded.map(|batch| Encoded::Batch(Box::new(batch))) }).is_err() {
            break;
        }
    }
}

fn encode_pages<S: Store>(
    store: &S,
    poison: &PoisonTracker,
    decided: DecidedPages,
) -> Result<EncodedBatch<S::Encoded>, PipelineError> {
    let _in_hand = poison.pick_up_single(&decided.pages);
    let outbox = match decided.first_seq {
        Some(first_seq) => describe(store, &decided, first_seq)?,
        None => Vec::new(),
    };
    let encoded = store.encode(&decided.batch, &outbox)?;
    let DecidedPages { pages, batch, counts, deciding, .. } = decided;
    Ok(EncodedBatch {
        encoded,
        n_records: pages.len(),
        counts,
        deciding,
        progress: batch.progress.clone(),
        outbox,
        next_seq: batch.next_seq,
    })
}

/// The events of a batch.
fn describe<S: Store>(store: &S, decided: &DecidedPages, first_seq: u64) -> Result<Vec<Outgoing>, PipelineError> {
    let urls = matched_urls(store, decided)?;
    let mut log = EventLog::new(first_seq);
    for (at, (page, decision)) in decided.pages.iter().zip(&decided.decisions).enumerate() {
        log.page(&page.origin, at, described(page, decision.as_ref(), &urls), &decided.history);
    }
    if log.next_seq() != decided.batch.next_seq {
        return Err(PipelineError::Miscounted {
            n_planned: decided.batch.next_seq - first_seq,
            n: log.next_seq() - first_seq,
        });
    }
    Ok(log.into_events())
}

fn described<'p>(
    page: &'p SketchedRecord,
    decision: Option<&'p Decision>,
    urls: &'p FxHashMap<DocumentId, String>,
) -> Described<'p> {
    match (&page.outcome, decision) {
        (Err(why), _) => Described::Rejected(why, page.original.as_deref()),
        (Ok(sketched), None) => {
            Described::Absent { subject: subject_of(sketched), redirect_to: sketched.redirect_to.as_deref() }
        }
        (Ok(sketched), Some(decision)) => {
            let matched_url = decision.matched.and_then(|found| urls.get(&found.document)).map(String::as_str);
            Described::Assigned { subject: subject_of(sketched), decision, matched_url }
        }
    }
}

/// Where each document that a decision matched was first seen: in flight, in this very batch, or in the store.
fn matched_urls<S: Store>(store: &S, decided: &DecidedPages) -> Result<FxHashMap<DocumentId, String>, StoreError> {
    let mut urls = decided.matched_urls.clone();
    let mut unknown = Vec::new();
    for (page, decision) in decided.pages.iter().zip(&decided.decisions) {
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

fn subject_of(page: &SketchedPage) -> Subject<'_> {
    Subject { url: Some(&page.url), fetched_at: Some(page.fetched_at), sweep: page.sweep.as_deref() }
}
