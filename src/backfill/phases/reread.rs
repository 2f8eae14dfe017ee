//! The first phase over pages that an older store had before: their records are read again from its inputs.
//!
//! A record counts where the older store has its sighting, so that what it forgot, or took in later, stays out. What the
//! inputs lack follows from what the store keeps, see [`super::kept`].

use super::ingest::{IngestWriter, SketchWorker, VisitContent, VisitRecord};
use crate::backfill::checkpoint::Checkpoint;
use crate::backfill::context::Context;
use crate::backfill::datasets::PAGES;
use crate::backfill::dedup::KnownBodies;
use crate::backfill::error::BackfillError;
use crate::backfill::rows::{Outcome, PageRow};
use crate::backfill::sketching::{PageInput, in_order, read_chunks};
use crate::document::{FetchTime, Fingerprint, Seed, url_key};
use crate::intake::RecordSketcher;
use crate::ports::{Chunk, Incoming, Snapshot, StoreError};
use rustc_hash::FxHashSet;
use std::sync::RwLock;

/// Sightings whose records were read: 16 bytes and some room each.
pub(super) struct RereadSightings {
    seed: Seed,
    keys: FxHashSet<Fingerprint>,
}

impl RereadSightings {
    /// Whether a page of this URL, time and sweep was read.
    pub fn contains(&self, url: &str, fetched_at: FetchTime, sweep: Option<&str>) -> bool {
        self.keys.contains(&self.key(url_key(&self.seed, url), fetched_at, sweep))
    }

    fn key(&self, url: Fingerprint, fetched_at: FetchTime, sweep: Option<&str>) -> Fingerprint {
        let parts = [&url.0.to_be_bytes()[..], &fetched_at.0.to_be_bytes(), sweep.unwrap_or("").as_bytes()];
        self.seed.fingerprint("sighting", &parts)
    }
}

/// Ingests the pages of the inputs that the older store has seen.
///
/// # Errors
/// [`BackfillError`]
pub(super) fn reread(
    checkpoint: &mut Checkpoint,
    context: &Context,
    input: PageInput,
    store: &(dyn Snapshot + Send + Sync),
) -> Result<(), BackfillError> {
    let (seed, rule) = (checkpoint.seed()?, checkpoint.rule().clone());
    let PageInput { source, limits, sweep_cut, future, texts } = input;
    let known_bodies = RwLock::new(KnownBodies::within(context));
    let worker = || {
        let sketcher = RecordSketcher::new(rule.sketcher(&seed), limits.clone(), sweep_cut, future).with_texts(texts);
        let mut worker = SketchWorker { sketcher, rule: &rule.sketch, seed, known: &known_bodies };
        move |chunk: Chunk<Incoming>| -> Result<Chunk<VisitRecord>, StoreError> {
            let records = match chunk {
                Chunk::Records(records) => records,
                Chunk::Unreadable(what) => return Ok(Chunk::Unreadable(what)),
            };
            let mut seen = Vec::with_capacity(records.len());
            for record in records {
                let record = worker.sketch(record);
                if has_seen(store, &record)? {
                    seen.push(record);
                }
            }
            Ok(Chunk::Records(seen))
        }
    };
    let mut writer = IngestWriter::resume(checkpoint, context, &known_bodies)?;
    let read = |send: &dyn Fn(Chunk<Incoming>) -> bool| read_chunks(source, context, send);
    let (written, reached_end) = in_order(context, read, worker, |chunk| writer.take(chunk?, checkpoint));
    written?;
    // More follows: what the inputs lack.
    writer.finish(checkpoint, reached_end.map(|_| false))?;
    context.check_stop()
}

/// Whether the store has the sighting of a record's page. Sightings of no page come from the store itself.
fn has_seen(store: &(dyn Snapshot + Send + Sync), record: &VisitRecord) -> Result<bool, StoreError> {
    let Ok((visit, content)) = &record.outcome else { return Ok(false) };
    if matches!(content, VisitContent::None) {
        return Ok(false);
    }
    let sightings = store.sightings_of_url(&visit.url)?;
    Ok(sightings.iter().any(|sighting| {
        let seen = &sighting.moment;
        seen.seen.document().is_some()
            && (seen.fetched_at, &seen.sweep) == (visit.observation.fetched_at, &visit.observation.sweep)
    }))
}

/// The sightings whose records are ingested.
///
/// # Errors
/// [`BackfillError`]
pub(super) fn ingested_sightings(checkpoint: &Checkpoint) -> Result<RereadSightings, BackfillError> {
    let mut sightings = RereadSightings { seed: checkpoint.seed()?, keys: FxHashSet::default() };
    for segment in &checkpoint.ingested().segments {
        let mut rows = PAGES.open(checkpoint.folder(), &segment.pages)?.read_all();
        while let Some(PageRow { outcome, .. }) = rows.next_row()? {
            let Outcome::Page(visit) = outcome else { continue };
            let key = sightings.key(visit.key, visit.observation.fetched_at, visit.observation.sweep.as_deref());
            sightings.keys.insert(key);
        }
    }
    Ok(sightings)
}
