//! Publishes the events of a backfill: one for each record, in the order of arrival, with the page's final cluster.
//!
//! One thread reads the records, all threads compose their events, and one publishes them in order.

use crate::backfill::context::Context;
use crate::backfill::datasets::PAGES;
use crate::backfill::error::BackfillError;
use crate::backfill::ingest_state::IngestState;
use crate::backfill::rows::{LinkRow, Outcome, PageRow, Visit};
use crate::backfill::sketching::in_order;
use crate::cluster::{Decision, Match, Relation};
use crate::document::{ClusterId, DocumentId};
use crate::ports::{Outgoing, Sink, SinkError, StoreError};
use crate::sweep::{Observation, Seen};
use crate::wire::{Event, Origin, Subject};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Events that the sink gets at once, at least.
const BATCH_EVENTS: usize = 1 << 14;

/// Records whose events a thread composes at a time.
const CHUNK_RECORDS: usize = 1 << 10;

/// A record, and the number of its event.
struct Numbered {
    seq: u64,
    origin: Origin,
    outcome: Outcome,
}

/// Publishes the events that the sink does not have yet. A mark of loss is no record and has none. `cluster_of` holds the cluster
/// of every document.
///
/// A document that is not the first of its cluster is near it. There are no merges, because no cluster had another
/// name in an earlier event.
pub(in crate::backfill) fn publish(
    context: &Context,
    ingested: &IngestState,
    cluster_of: &[ClusterId],
    links: &[LinkRow],
    sink: &mut dyn Sink,
) -> Result<(), BackfillError> {
    let failed = |error: SinkError| StoreError::Failed(format!("cannot publish events: {error}"));
    let first = sink.last_seq().map_err(failed)?.map_or(0, |last| last + 1);
    let best = best_matches(links);
    let compose = |Numbered { seq, origin, outcome }| {
        let (key, event) = event(seq, &origin, &outcome, cluster_of, &best);
        Outgoing::new(seq, key, event.to_json())
    };
    let compose = &compose;
    let mut batch = Vec::new();
    let (published, read) = in_order(
        context,
        |send| read_records(context, ingested, first, send),
        || |records: Vec<Numbered>| records.into_iter().map(compose).collect::<Vec<_>>(),
        |events| {
            batch.extend(events);
            if batch.len() >= BATCH_EVENTS {
                context.check_stop()?;
                sink.publish(&batch).map_err(failed)?;
                batch.clear();
            }
            Ok::<_, BackfillError>(())
        },
    );
    published?;
    let n_records = read?;
    if first > n_records {
        return Err(StoreError::Failed(format!(
            "the output holds event {}, and the crawl has {n_records} records: the events are another store's; put the file \
             aside, and start again",
            first - 1
        ))
        .into());
    }
    Ok(sink.publish(&batch).map_err(failed)?)
}

/// Sends the records from number `first` on, some at a time, until `send` returns false. Returns how many there are, as far as it
/// has read.
fn read_records(
    context: &Context,
    ingested: &IngestState,
    first: u64,
    send: &dyn Fn(Vec<Numbered>) -> bool,
) -> Result<u64, BackfillError> {
    let sources: Vec<Arc<str>> = ingested.sources.iter().map(|name| Arc::from(name.as_str())).collect();
    let (mut seq, mut chunk) = (0, Vec::with_capacity(CHUNK_RECORDS));
    for segment in &ingested.segments {
        let pages = PAGES.open(&context.folder, &segment.pages)?;
        let mut rows = pages.read_all();
        while let Some(PageRow { source, partition, offset, outcome, .. }) = rows.next_row()? {
            if matches!(&outcome, Outcome::Page(Visit { observation: Observation { seen: Seen::Lost, .. }, .. })) {
                continue;
            }
            if seq >= first {
                let source = sources.get(source as usize).ok_or_else(|| BackfillError::Damaged(pages.path().into()))?;
                let origin = Origin { source: Arc::clone(source), partition, offset };
                chunk.push(Numbered { seq, origin, outcome });
            }
            seq += 1;
            if chunk.len() == CHUNK_RECORDS && !send(std::mem::replace(&mut chunk, Vec::with_capacity(CHUNK_RECORDS))) {
                return Ok(seq);
            }
        }
    }
    send(chunk);
    Ok(seq)
}

/// The closest earlier document of each later one.
fn best_matches(links: &[LinkRow]) -> FxHashMap<DocumentId, Match> {
    let mut best: FxHashMap<DocumentId, Match> = FxHashMap::default();
    for link in links {
        let found = Match { document: link.earlier, resemblance: link.resemblance };
        let known = best.entry(link.later).or_insert(found);
        if found.resemblance > known.resemblance {
            *known = found;
        }
    }
    best
}

/// The event of a record, and the key under which it is published.
fn event(
    seq: u64,
    origin: &Origin,
    outcome: &Outcome,
    cluster_of: &[ClusterId],
    best: &FxHashMap<DocumentId, Match>,
) -> (Option<String>, Event) {
    let visit = match outcome {
        Outcome::Rejected(why) => return (why.url.clone(), Event::rejected(seq, origin, why)),
        Outcome::Page(visit) => visit,
    };
    let Observation { fetched_at, seen, sweep } = &visit.observation;
    let subject = Subject { url: Some(&visit.url), fetched_at: Some(*fetched_at), sweep: sweep.as_deref() };
    let key = Some(visit.url.clone());
    let (document, relation) = match (seen, visit.relation) {
        (Seen::Document(document), Some(relation)) => (*document, relation),
        (Seen::Redirect(target), _) => return (key, Event::redirected(seq, origin, subject, target)),
        _ => return (key, Event::gone(seq, origin, subject)),
    };
    let cluster = cluster_of[document.0 as usize - 1];
    let (relation, matched) = match relation {
        Relation::New if cluster == ClusterId(document.0) => (Relation::New, None),
        Relation::New => (Relation::Near, best.get(&document).copied()),
        equal => (equal, Some(Match { document, resemblance: 1.0 })),
    };
    let decision = Decision { document, cluster, relation, matched, merges: Vec::new() };
    (key, Event::assigned(seq, origin, subject, &decision, None))
}
