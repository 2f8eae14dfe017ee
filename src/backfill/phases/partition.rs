//! Partitions documents and pages into sorted files: <shingle, document>, and every other order that the store needs.

use crate::backfill::checkpoint::Checkpoint;
use crate::backfill::context::Context;
use crate::backfill::datasets::{
    DOCUMENTS, DatasetFile, EQUIVALENCES, MOD_POSTINGS, PAGES, POSTINGS, ROW_OFFSETS, SIGHTINGS_BY_DOCUMENT,
    SIGHTINGS_BY_URL, SUPER_POSTINGS, URLS,
};
use crate::backfill::error::BackfillError;
use crate::backfill::ingest_state::Segment;
use crate::backfill::jobs::Job;
use crate::backfill::rows::{
    DocumentHead, DocumentRow, EquivalenceRow, Outcome, Posting, RowOffset, SightingByDocument, SightingByUrl, UrlRow,
    Visit,
};
use crate::document::DocumentId;
use crate::extsort::Window;
use crate::ports::StoredSighting;
use crate::sketch::{Shingle, SketchForm, SketchRule, decode};

/// Rows between two looks at the stop flag.
const ROWS_PER_STOP_CHECK: u64 = 4096;

/// The jobs that partition documents by what finds them and what they equal, one for each segment.
pub(in crate::backfill) fn document_jobs(checkpoint: &Checkpoint) -> Vec<Job<'static>> {
    let rule = checkpoint.rule().sketch.clone();
    segment_jobs(checkpoint, "partition-documents", move |context, at, segment| {
        partition_documents(context, &rule, at, segment)
    })
}

/// The jobs that partition pages by URL and by document, one for each segment.
pub(in crate::backfill) fn page_jobs(checkpoint: &Checkpoint) -> Vec<Job<'static>> {
    segment_jobs(checkpoint, "partition-pages", partition_pages)
}

fn segment_jobs<'a>(
    checkpoint: &Checkpoint,
    name: &str,
    body: impl Fn(&Context, usize, &Segment) -> Result<Vec<DatasetFile>, BackfillError> + Clone + Send + 'a,
) -> Vec<Job<'a>> {
    let job = |(at, segment): (usize, &Segment)| {
        let (segment, body) = (segment.clone(), body.clone());
        Job::new(format!("{name}-{at:04}"), move |context| body(context, at, &segment))
    };
    // The last segments are the largest: no thread is left with one of them in the end.
    checkpoint.ingested().segments.iter().enumerate().rev().map(job).collect()
}

/// Calls `each` with every document of a segment.
pub(in crate::backfill) fn each_document(
    context: &Context,
    segment: &Segment,
    mut each: impl FnMut(DocumentId, DocumentRow) -> Result<(), BackfillError>,
) -> Result<(), BackfillError> {
    let mut rows = DOCUMENTS.open(&context.folder, &segment.documents)?.read_all();
    let mut document = segment.n_documents_before;
    while let Some(row) = rows.next_row()? {
        document += 1;
        if u64::from(document).is_multiple_of(ROWS_PER_STOP_CHECK) {
            context.check_stop()?;
        }
        each(DocumentId(document), row)?;
    }
    Ok(())
}

/// Calls `each` with every document of a segment and the shingles that may index it, the smallest first. The row no longer
/// has them.
pub(in crate::backfill) fn each_indexed_document(
    context: &Context,
    rule: &SketchRule,
    segment: &Segment,
    mut each: impl FnMut(DocumentId, DocumentRow, Vec<Shingle>) -> Result<(), BackfillError>,
) -> Result<(), BackfillError> {
    let path = context.folder.join(&segment.documents.name);
    each_document(context, segment, |document, mut row| {
        let candidates = index_candidates(&row.sketch, row.index.take(), rule);
        each(document, row, candidates.ok_or_else(|| BackfillError::Damaged(path.clone()))?)
    })
}

/// Calls `each` with every wanted document of a segment and the shingles that may index it, the smallest first. The rows of
/// other documents are not read.
pub(in crate::backfill) fn each_document_where(
    context: &Context,
    rule: &SketchRule,
    segment: &Segment,
    is_wanted: impl Fn(DocumentId) -> bool,
    mut each: impl FnMut(DocumentId, Vec<Shingle>) -> Result<(), BackfillError>,
) -> Result<(), BackfillError> {
    let file = DOCUMENTS.open(&context.folder, &segment.documents)?;
    let mut offsets = ROW_OFFSETS.open(&context.folder, &segment.row_offsets)?.read_all();
    let (mut document, mut next) = (segment.n_documents_before, offsets.next_row()?);
    let mut window = Window::ahead();
    while let Some(RowOffset { offset, .. }) = next {
        (document, next) = (document + 1, offsets.next_row()?);
        if u64::from(document).is_multiple_of(ROWS_PER_STOP_CHECK) {
            context.check_stop()?;
        }
        if is_wanted(DocumentId(document)) {
            let (begin, end) = (u64::from(offset), next.map_or(file.end_of_rows(), |next| u64::from(next.offset)));
            let mut row = window.read(&file, begin, end)?;
            let head = DocumentHead::decode(&mut row);
            let candidates = head.and_then(|head| index_candidates(head.sketch, head.index, rule));
            each(DocumentId(document), candidates.ok_or_else(|| BackfillError::Damaged(file.path().to_path_buf()))?)?;
        }
    }
    Ok(())
}

/// The shingles that may index a document, the smallest first, or `None` where its sketch cannot be decoded.
fn index_candidates(sketch: &[u8], index: Option<Vec<Shingle>>, rule: &SketchRule) -> Option<Vec<Shingle>> {
    if index.is_some() {
        return index;
    }
    let SketchForm::Sample { mut values, .. } = decode(sketch).ok()?.form else { return None };
    values.truncate(rule.index_candidates());
    Some(values)
}

/// How many shingles index a document at most.
pub(in crate::backfill) fn n_index_max(rule: &SketchRule) -> usize {
    if rule.index_size == 0 { usize::MAX } else { rule.index_size }
}

fn partition_documents(
    context: &Context,
    rule: &SketchRule,
    at: usize,
    segment: &Segment,
) -> Result<Vec<DatasetFile>, BackfillError> {
    let mut postings = context.sorter_with_eighths(POSTINGS, at, 5);
    let mut supers = context.sorter_with_eighths(SUPER_POSTINGS, at, 1);
    let mut mods = context.sorter_with_eighths(MOD_POSTINGS, at, 1);
    let mut equivalences = context.sorter_with_eighths(EQUIVALENCES, at, 1);
    each_indexed_document(context, rule, segment, |document, row, index| {
        index.iter().take(n_index_max(rule)).try_for_each(|shingle| postings.push(Posting::new(*shingle, document)))?;
        row.super_shingles.iter().try_for_each(|shingle| supers.push(Posting::new(*shingle, document)))?;
        row.mod_shingles.iter().try_for_each(|shingle| mods.push(Posting::new(*shingle, document)))?;
        row.equivalences.keys().try_for_each(|key| equivalences.push(EquivalenceRow { key, document }))
    })?;
    Ok([postings.finish()?, supers.finish()?, mods.finish()?, equivalences.finish()?].concat())
}

/// Calls `each` with every visit of a segment. Rejected records are none.
fn each_visit(
    context: &Context,
    segment: &Segment,
    mut each: impl FnMut(Visit) -> Result<(), BackfillError>,
) -> Result<(), BackfillError> {
    let mut rows = PAGES.open(&context.folder, &segment.pages)?.read_all();
    let mut n_rows = 0u64;
    while let Some(row) = rows.next_row()? {
        n_rows += 1;
        if n_rows.is_multiple_of(ROWS_PER_STOP_CHECK) {
            context.check_stop()?;
        }
        if let Outcome::Page(visit) = row.outcome {
            each(visit)?;
        }
    }
    Ok(())
}

fn partition_pages(context: &Context, at: usize, segment: &Segment) -> Result<Vec<DatasetFile>, BackfillError> {
    let mut urls = context.sorter_with_eighths(URLS, at, 2);
    let mut by_url = context.sorter_with_eighths(SIGHTINGS_BY_URL, at, 3);
    let mut by_document = context.sorter_with_eighths(SIGHTINGS_BY_DOCUMENT, at, 3);
    each_visit(context, segment, |visit| {
        let Visit { url, key, host, observation, .. } = visit;
        if let Some(document) = observation.seen.document() {
            let (fetched_at, sweep) = (observation.fetched_at, observation.sweep.clone());
            by_document.push(SightingByDocument { document, fetched_at, url: key, sweep })?;
        }
        by_url.push(SightingByUrl { sighting: StoredSighting { url: key, moment: observation }, host })?;
        urls.push(UrlRow { key, url })
    })?;
    Ok([urls.finish()?, by_url.finish()?, by_document.finish()?].concat())
}
