//! Publishes the events of a backfill: one for each record, in the order of arrival, with the page's final cluster.

use crate::backfill::checkpoint::Checkpoint;
use crate::backfill::context::Context;
use crate::backfill::datasets::PAGES;
use crate::backfill::error::BackfillError;
use crate::backfill::rows::{LinkRow, Outcome, Visit};
use crate::cluster::{Clusters, Decision, Match, Relation};
use crate::document::{ClusterId, DocumentId};
use crate::ports::{Outgoing, Sink, SinkError, StoreError};
use crate::sweep::{Observation, Seen};
use crate::wire::{Event, Origin, Subject};
use std::collections::HashMap;
use std::sync::Arc;

/// Events that the sink gets at once.
const BATCH_EVENTS: usize = 1 << 14;

/// Publishes the events that the sink does not have yet. A mark of loss is no record and has none.
///
/// A document that is not the first of its cluster is near it. There are no merges, because no cluster had another
/// name in an earlier event.
pub(in crate::backfill) fn publish(
    checkpoint: &Checkpoint,
    context: &Context,
    clusters: &mut Clusters,
    links: &[LinkRow],
    sink: &mut dyn Sink,
) -> Result<(), BackfillError> {
    let failed = |error: SinkError| StoreError::Failed(format!("cannot publish events: {error}"));
    let first = sink.last_seq().map_err(failed)?.map_or(0, |last| last + 1);
    let best = best_matches(links);
    let sources: Vec<Arc<str>> = checkpoint.ingested().sources.iter().map(|name| Arc::from(name.as_str())).collect();
    let (mut seq, mut events) = (0, Vec::new());
    for segment in &checkpoint.ingested().segments {
        let pages = PAGES.open(&context.folder, &segment.pages)?;
        let mut rows = pages.read_all();
        while let Some(row) = rows.next_row()? {
            if let Outcome::Page(Visit { observation: Observation { seen: Seen::Lost, .. }, .. }) = &row.outcome {
                continue;
            }
            let source = sources.get(row.source as usize).ok_or_else(|| BackfillError::Damaged(pages.path().into()))?;
            let origin = Origin { source: Arc::clone(source), partition: row.partition, offset: row.offset };
            if seq >= first {
                let (key, event) = event(seq, &origin, &row.outcome, clusters, &best);
                events.push(Outgoing::new(seq, key, event.to_json()));
            }
            seq += 1;
            if events.len() == BATCH_EVENTS {
                context.check_stop()?;
                sink.publish(&events).map_err(failed)?;
                events.clear();
            }
        }
    }
    if first > seq {
        return Err(StoreError::Failed(format!(
            "the output holds event {}, and the crawl has {seq} records: the events are another store's; put the file aside, \
             and start again",
            first - 1
        ))
        .into());
    }
    Ok(sink.publish(&events).map_err(failed)?)
}

/// The closest earlier document of each later one.
fn best_matches(links: &[LinkRow]) -> HashMap<DocumentId, Match> {
    let mut best: HashMap<DocumentId, Match> = HashMap::new();
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
    clusters: &mut Clusters,
    best: &HashMap<DocumentId, Match>,
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
    let cluster = clusters.cluster_of(document);
    let (relation, matched) = match relation {
        Relation::New if cluster == ClusterId(document.0) => (Relation::New, None),
        Relation::New => (Relation::Near, best.get(&document).copied()),
        equal => (equal, Some(Match { document, resemblance: 1.0 })),
    };
    let decision = Decision { document, cluster, relation, matched, merges: Vec::new() };
    (key, Event::assigned(seq, origin, subject, &decision, None))
}
