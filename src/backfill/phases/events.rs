//! The events of a backfill: one for each record in the order of arrival, with the cluster that its page has in the end.

use crate::backfill::checkpoint::Checkpoint;
use crate::backfill::context::Context;
use crate::backfill::error::BackfillError;
use crate::backfill::rows::{LinkRow, Outcome, PageRow};
use crate::cluster::{Clusters, Decision, Match, Relation};
use crate::document::{ClusterId, DocumentId};
use crate::extsort::RunFile;
use crate::ports::{Outgoing, Sink, StoreError};
use crate::sweep::{Observation, Seen};
use crate::wire::{Event, Origin, Subject};
use std::collections::HashMap;
use std::sync::Arc;

/// Events handed to the sink at once.
const EVENTS_AT_ONCE: usize = 1 << 14;

/// Publishes the events that are not yet out. A document that is not the first of its cluster is near it; there are no
/// merges, because no cluster was ever told of under another name.
pub(in crate::backfill) fn publish(
    checkpoint: &Checkpoint,
    context: &Context,
    clusters: &mut Clusters,
    links: &[LinkRow],
    sink: &mut dyn Sink,
) -> Result<(), BackfillError> {
    let failed = |error: crate::ports::SinkError| StoreError::Failed(format!("events cannot be published: {error}"));
    let first = sink.last_seq().map_err(failed)?.map_or(0, |last| last + 1);
    let mut best: HashMap<DocumentId, Match> = HashMap::new();
    for link in links {
        let found = Match { document: link.earlier, resemblance: link.resemblance };
        let known = best.entry(link.later).or_insert(found);
        if found.resemblance > known.resemblance {
            *known = found;
        }
    }
    let sources: Vec<Arc<str>> = checkpoint.ingested().sources.iter().map(|name| Arc::from(name.as_str())).collect();
    let (mut seq, mut events) = (0, Vec::new());
    for piece in &checkpoint.ingested().pieces {
        let run: Arc<RunFile<PageRow>> = RunFile::open(&context.folder, &piece.pages, true)?;
        let mut rows = run.read_all();
        while let Some(row) = rows.next()? {
            let source = sources.get(row.source as usize).ok_or_else(|| BackfillError::Damaged(run.path().into()))?;
            let origin = Origin { source: Arc::clone(source), partition: row.partition, offset: row.offset };
            if seq >= first {
                let (key, event) = event(seq, &origin, &row.outcome, clusters, &best);
                events.push(Outgoing::new(seq, key, event.to_json()));
            }
            seq += 1;
            if events.len() == EVENTS_AT_ONCE {
                context.check()?;
                sink.publish(&events).map_err(failed)?;
                events.clear();
            }
        }
    }
    Ok(sink.publish(&events).map_err(failed)?)
}

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
    let Observation { fetched_at, seen, sweep } = &visit.moment;
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
