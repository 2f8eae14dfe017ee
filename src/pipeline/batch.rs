//! What a batch of pages, or one step of closing a sweep, writes.

use super::sketched_record::SketchedRecord;
use crate::cluster::{Decision, Effects};
use crate::history::{ClosingBatch, HistoryEffects};
use crate::ports::{Batch, Progress, ProgressMap, StoredSighting};
use crate::wire::EventLog;

/// The rows that the decisions over a batch change, and how far it takes the sources. `sightings` are the pages' own.
pub(super) fn decided_rows(
    pages: &[SketchedRecord],
    decisions: &[Option<Decision>],
    effects: Effects,
    sightings: &[Option<StoredSighting>],
) -> Batch {
    let mut batch = Batch { links: effects.links, common: effects.common, ..Batch::default() };
    batch.rows = effects.rows.into_values().collect();
    batch.rows.sort_unstable_by_key(|row| row.document);
    batch.progress = progress_after(pages);
    let mut new_documents = effects.documents.into_iter();
    for (sighting, decision) in sightings.iter().zip(decisions) {
        let Some(sighting) = sighting else { continue };
        if decision.as_ref().is_some_and(Decision::is_new_document) {
            batch.documents.extend(new_documents.next().map(|document| (document, sighting.url)));
        }
    }
    batch
}

/// Adds what changes in the history to a batch.
pub(super) fn add_history(batch: &mut Batch, history: HistoryEffects) {
    batch.urls = history.new_urls;
    batch.sightings = history.sightings.into_iter().flatten().collect();
    batch.states = history.states;
    batch.missing = history.missing;
    batch.no_longer_missing = history.no_longer_missing;
    batch.sweeps = history.sweeps;
}

/// The batch to write for one step of closing a sweep; it keeps its events where there is a sink.
pub(super) fn closing_batch(sweep: &str, closing: ClosingBatch, next_seq: u64, is_listening: bool) -> Batch {
    let mut log = EventLog::new(next_seq);
    log.closing(sweep, &closing);
    let mut batch = Batch { next_seq: log.next_seq(), ..Batch::default() };
    add_history(&mut batch, closing.effects);
    if is_listening {
        batch.outbox = log.into_events();
    }
    batch
}

/// How far some pages take their partitions: the last page of each counts.
fn progress_after(pages: &[SketchedRecord]) -> ProgressMap {
    let mut progress = ProgressMap::new();
    let of_one_partition = |a: &SketchedRecord, b: &SketchedRecord| {
        a.origin.partition == b.origin.partition && a.origin.source == b.origin.source
    };
    for pages in pages.chunk_by(of_one_partition) {
        let Some(last @ SketchedRecord { origin, chain, .. }) = pages.last() else { continue };
        let after = Progress { next_offset: last.next_offset(), chain: *chain };
        progress.insert((origin.source.to_string(), origin.partition), after);
    }
    progress
}
