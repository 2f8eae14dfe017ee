//! What a batch of pages, or one step of closing a sweep, writes.

use super::sketched_record::SketchedRecord;
use crate::cluster::{Clusters, Decision, Effects};
use crate::document::Seed;
use crate::history::{ClosingBatch, History, HistoryEffects};
use crate::ports::{Batch, Outgoing, Progress, ProgressMap, Store, StoreCounts, StoreError, StoredSighting};
use crate::wire::EventLog;
use std::mem::take;

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
    batch.documents.reserve(effects.documents.len());
    let mut new_documents = effects.documents.into_iter();
    for ((page, sighting), decision) in pages.iter().zip(sightings).zip(decisions) {
        let Some(sighting) = sighting else { continue };
        let is_new = decision.as_ref().is_some_and(Decision::is_new_document);
        let Some(document) = new_documents.by_ref().take(usize::from(is_new)).next() else { continue };
        if let Ok(page) = &page.outcome {
            batch.said.extend(page.said.clone().map(|said| (document.document, said)));
            batch.texts.extend(page.text.clone().map(|text| (document.document, text)));
        }
        batch.documents.push((document, sighting.url));
    }
    batch
}

/// Moves what is written of the history into a batch; what is reported stays.
pub(super) fn add_history(batch: &mut Batch, history: &mut HistoryEffects) {
    batch.urls = take(&mut history.new_urls);
    batch.sightings = take(&mut history.sightings).into_iter().flatten().collect();
    batch.states = take(&mut history.states);
    batch.missing = take(&mut history.missing);
    batch.no_longer_missing = take(&mut history.no_longer_missing);
    batch.sweeps = take(&mut history.sweeps);
}

/// Notes in a batch what the store adds up to after it.
pub(super) fn add_counts(batch: &mut Batch, history: &History, clusters: &mut Clusters) {
    batch.counts = Some(StoreCounts { history: history.counts(), clusters: clusters.counts() });
    batch.equal_clusters = clusters.take_changed_equal();
}

/// The history of a store and its counts, which the clusters take over, too.
pub(super) fn open_history<S: Store>(
    store: &S,
    seed: Seed,
    clusters: &mut Clusters,
    reports: bool,
) -> Result<History, StoreError> {
    let (counts, equal_clusters) = store.counts()?;
    clusters.restore_equal(equal_clusters);
    History::open(store, seed, clusters, counts.history, reports)
}

/// The batch to write for one step of closing a sweep, and its events where there is a sink.
pub(super) fn closing_batch(
    sweep: &str,
    mut closing: ClosingBatch,
    next_seq: u64,
    is_listening: bool,
) -> (Batch, Vec<Outgoing>) {
    let mut log = EventLog::new(next_seq, 0);
    log.closing(sweep, &closing);
    let mut batch = Batch { next_seq: log.next_seq(), ..Batch::default() };
    add_history(&mut batch, &mut closing.effects);
    (batch, if is_listening { log.into_events() } else { Vec::new() })
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
