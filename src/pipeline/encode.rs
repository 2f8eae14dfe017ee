//! Describes decided batches as events and encodes both for the store, in any number of threads.

use super::decide::{Decided, DecidedPages};
use super::error::PipelineError;
use super::poison::PoisonTracker;
use super::sequencer::Ticketed;
use super::sketched_record::SketchedRecord;
use super::syncer::Written;
use crate::cluster::Decision;
use crate::document::{DocumentId, Fingerprint};
use crate::intake::SketchedPage;
use crate::ports::{Outgoing, Store, StoreError};
use crate::wire::{Described, EventLog, Subject};
use crossbeam::channel::{Receiver, Sender};
use rustc_hash::FxHashMap;
use std::mem::take;

/// A batch on its way to the writer.
pub(super) struct EncodedBatch<E> {
    /// What is written, and the number of the next event; none where a sweep is closed and all of it is written.
    pub rows: Option<(E, u64)>,
    /// What the stages after the writer pass on.
    pub outcome: Written,
}

/// A batch on its way to the writer, or why there is none.
pub(super) type ToWrite<S> = Ticketed<Result<EncodedBatch<<S as Store>::Encoded>, PipelineError>>;

/// Runs until no more batches come, or the writer has ended.
pub(super) fn run<S: Store>(
    store: &S,
    poison: &PoisonTracker,
    decided: &Receiver<Ticketed<Decided>>,
    out: &Sender<ToWrite<S>>,
) {
    for Ticketed { ticket, item } in decided {
        let encoded = encode(store, poison, item);
        kill_point!("encoded");
        if out.send(Ticketed { ticket, item: encoded }).is_err() {
            break;
        }
    }
}

fn encode<S: Store>(
    store: &S,
    poison: &PoisonTracker,
    decided: Decided,
) -> Result<EncodedBatch<S::Encoded>, PipelineError> {
    match decided {
        Decided::Pages(pages) => encode_pages(store, poison, *pages),
        Decided::Closing(batch, outbox) => {
            let rows = Some((store.encode(&batch, &outbox)?, batch.next_seq));
            Ok(EncodedBatch { rows, outcome: Written { outbox, ..Written::default() } })
        }
        Decided::Closed(reply, closed, next_seq) => {
            let outcome = Written { closed: Some((reply, closed, next_seq)), ..Written::default() };
            Ok(EncodedBatch { rows: None, outcome })
        }
    }
}

fn encode_pages<S: Store>(
    store: &S,
    poison: &PoisonTracker,
    mut decided: DecidedPages,
) -> Result<EncodedBatch<S::Encoded>, PipelineError> {
    let _in_hand = poison.pick_up_single(&decided.pages);
    let outbox = match decided.first_seq {
        Some(first_seq) => describe(store, &mut decided, first_seq)?,
        None => Vec::new(),
    };
    let DecidedPages { pages, batch, counts, deciding, .. } = decided;
    let rows = Some((store.encode(&batch, &outbox)?, batch.next_seq));
    let (n_records, progress) = (pages.len(), batch.progress.clone());
    let outcome = Written { n_records, counts, deciding, progress, outbox, ..Written::default() };
    Ok(EncodedBatch { rows, outcome })
}

/// The events of a batch.
fn describe<S: Store>(store: &S, decided: &mut DecidedPages, first_seq: u64) -> Result<Vec<Outgoing>, PipelineError> {
    let urls = matched_urls(store, decided)?;
    let mut log = EventLog::new(first_seq, (decided.batch.next_seq - first_seq) as usize);
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
fn matched_urls<S: Store>(store: &S, decided: &mut DecidedPages) -> Result<FxHashMap<DocumentId, String>, StoreError> {
    let mut urls = take(&mut decided.matched_urls);
    let mut stored = Vec::new();
    for ((page, key), decision) in decided.pages.iter().zip(&decided.urls).zip(&decided.decisions) {
        let (Ok(sketched), Some(decision)) = (&page.outcome, decision) else { continue };
        if let Some(found) = decision.matched
            && !urls.contains_key(&found.document)
        {
            stored.push((found.document, *key, &sketched.url));
        }
        if decision.is_new_document() {
            urls.insert(decision.document, sketched.url.clone());
        }
    }
    stored.sort_unstable();
    stored.dedup_by_key(|(document, ..)| *document);
    let documents: Vec<DocumentId> = stored.iter().map(|(document, ..)| *document).collect();
    let mut elsewhere = Vec::new();
    for ((document, key, url), first) in stored.into_iter().zip(store.first_url_keys(&documents)?) {
        // A page that comes again mostly matches what stood at its own URL.
        if key == Some(first) {
            urls.insert(document, url.clone());
        } else {
            elsewhere.push((document, first));
        }
    }
    let keys: Vec<Fingerprint> = elsewhere.iter().map(|(_, first)| *first).collect();
    urls.extend(elsewhere.iter().map(|(document, _)| *document).zip(store.urls(&keys)?));
    Ok(urls)
}

fn subject_of(page: &SketchedPage) -> Subject<'_> {
    Subject { url: Some(&page.url), fetched_at: Some(page.fetched_at), sweep: page.sweep.as_deref() }
}
