//! Divides what was taken in into sorted files: <shingle, document> and all else that the store keeps in another order.

use crate::backfill::checkpoint::{Checkpoint, Segment};
use crate::backfill::context::Context;
use crate::backfill::error::BackfillError;
use crate::backfill::rows::{
    DocumentRow, EquivalenceRow, Outcome, PageRow, Posting, SightingByDocument, SightingByUrl, UrlRow, Visit,
};
use crate::document::DocumentId;
use crate::extsort::{FinishedFile, RunFile, SortedRow, Sorter};
use crate::ports::StoredSighting;
use crate::sketch::{Form, Shingle, SketchRule, decode};

/// Names of the sorted files, and whether they are compressed: rows that are numbers are small already.
pub(in crate::backfill) const POSTINGS: (&str, bool) = ("postings", false);
pub(in crate::backfill) const SUPERS: (&str, bool) = ("supers", false);
pub(in crate::backfill) const MODS: (&str, bool) = ("mods", false);
pub(in crate::backfill) const EQUALS: (&str, bool) = ("equals", false);
pub(in crate::backfill) const URLS: (&str, bool) = ("urls", true);
pub(in crate::backfill) const BY_URL: (&str, bool) = ("sightings", true);
pub(in crate::backfill) const BY_DOCUMENT: (&str, bool) = ("standings", true);

/// Divides the documents of all pieces: what finds them, and what they are equal to.
pub(in crate::backfill) fn divide_documents(
    checkpoint: &mut Checkpoint,
    context: &Context,
) -> Result<(), BackfillError> {
    let rule = checkpoint.rule().sketch.clone();
    divide(checkpoint, context, "documents", |at, piece| documents_of(context, &rule, at, piece))
}

/// Divides the pages of all pieces: who stood where.
pub(in crate::backfill) fn divide_pages(checkpoint: &mut Checkpoint, context: &Context) -> Result<(), BackfillError> {
    divide(checkpoint, context, "pages", |at, piece| pages_of(context, at, piece))
}

fn divide(
    checkpoint: &mut Checkpoint,
    context: &Context,
    what: &str,
    job: impl Fn(usize, &Segment) -> Result<Vec<FinishedFile>, BackfillError> + Sync,
) -> Result<(), BackfillError> {
    let name = |at: usize| format!("divide-{what}/{at:04}");
    let pieces = checkpoint.ingested().pieces.iter().enumerate();
    let jobs =
        pieces.filter(|(at, _)| !checkpoint.is_done(&name(*at))).map(|(at, piece)| (at, piece.clone())).collect();
    context.each(
        jobs,
        |(at, piece)| Ok((name(at), job(at, &piece)?)),
        |(name, pieces)| checkpoint.record(&name, pieces),
    )
}

/// A sorter of rows of a piece, or of a part, that has all the memory that a thread may use.
pub(in crate::backfill) fn sorter<'a, R: SortedRow>(
    context: &'a Context,
    names: (&str, bool),
    at: usize,
) -> Sorter<'a, R> {
    share_of_sorter(context, names, at, 8)
}

/// A sorter that has some eighths of it.
fn share_of_sorter<'a, R: SortedRow>(
    context: &'a Context,
    (name, is_compressed): (&str, bool),
    at: usize,
    eighths: usize,
) -> Sorter<'a, R> {
    Sorter::new(&context.folder, format!("{name}-{at:04}"), context.sorter_bytes() / 8 * eighths, is_compressed)
}

/// Calls `each` with every document of a piece.
pub(in crate::backfill) fn each_document(
    context: &Context,
    piece: &Segment,
    mut each: impl FnMut(DocumentId, DocumentRow) -> Result<(), BackfillError>,
) -> Result<(), BackfillError> {
    let mut rows = RunFile::<DocumentRow>::open(&context.folder, &piece.documents, false)?.read_all();
    let mut document = piece.n_documents_before;
    while let Some(row) = rows.next()? {
        document += 1;
        if document.is_multiple_of(4096) {
            context.check()?;
        }
        each(DocumentId(document), row)?;
    }
    Ok(())
}

/// The shingles that may index a document, the smallest first; none where its sketch cannot be read.
pub(in crate::backfill) fn index_candidates(row: &DocumentRow, rule: &SketchRule) -> Option<Vec<Shingle>> {
    if let Some(index) = &row.index {
        return Some(index.clone());
    }
    let Form::Sample { mut values, .. } = decode(&row.sketch).ok()?.form else { return None };
    values.truncate(rule.index_candidates());
    Some(values)
}

/// How many shingles index a document at most.
pub(in crate::backfill) fn index_size(rule: &SketchRule) -> usize {
    if rule.index_size == 0 { usize::MAX } else { rule.index_size }
}

fn documents_of(
    context: &Context,
    rule: &SketchRule,
    at: usize,
    piece: &Segment,
) -> Result<Vec<FinishedFile>, BackfillError> {
    let mut postings: Sorter<'_, Posting> = share_of_sorter(context, POSTINGS, at, 5);
    let mut supers: Sorter<'_, Posting> = share_of_sorter(context, SUPERS, at, 1);
    let mut mods: Sorter<'_, Posting> = share_of_sorter(context, MODS, at, 1);
    let mut equals: Sorter<'_, EquivalenceRow> = share_of_sorter(context, EQUALS, at, 1);
    let path = context.folder.join(&piece.documents.name);
    each_document(context, piece, |document, row| {
        let index = index_candidates(&row, rule).ok_or_else(|| BackfillError::Damaged(path.clone()))?;
        index.iter().take(index_size(rule)).try_for_each(|shingle| postings.push(Posting::new(*shingle, document)))?;
        row.super_shingles.iter().try_for_each(|shingle| supers.push(Posting::new(*shingle, document)))?;
        row.mod_shingles.iter().try_for_each(|shingle| mods.push(Posting::new(*shingle, document)))?;
        Ok(row.equivalences.keys().try_for_each(|key| equals.push(EquivalenceRow { key, document }))?)
    })?;
    Ok([postings.finish()?, supers.finish()?, mods.finish()?, equals.finish()?].concat())
}

/// Calls `each` with every page of a piece that is one.
fn each_page(
    context: &Context,
    piece: &Segment,
    mut each: impl FnMut(Visit) -> Result<(), BackfillError>,
) -> Result<(), BackfillError> {
    let mut rows = RunFile::<PageRow>::open(&context.folder, &piece.pages, true)?.read_all();
    let mut n = 0u64;
    while let Some(row) = rows.next()? {
        n += 1;
        if n.is_multiple_of(4096) {
            context.check()?;
        }
        if let Outcome::Page(visit) = row.outcome {
            each(visit)?;
        }
    }
    Ok(())
}

fn pages_of(context: &Context, at: usize, piece: &Segment) -> Result<Vec<FinishedFile>, BackfillError> {
    let mut urls: Sorter<'_, UrlRow> = share_of_sorter(context, URLS, at, 2);
    let mut by_url: Sorter<'_, SightingByUrl> = share_of_sorter(context, BY_URL, at, 3);
    let mut by_document: Sorter<'_, SightingByDocument> = share_of_sorter(context, BY_DOCUMENT, at, 3);
    each_page(context, piece, |visit| {
        let Visit { url, key, host, moment, .. } = visit;
        if let Some(document) = moment.seen.document() {
            let (fetched_at, sweep) = (moment.fetched_at, moment.sweep.clone());
            by_document.push(SightingByDocument { document, fetched_at, url: key, sweep })?;
        }
        by_url.push(SightingByUrl { sighting: StoredSighting { url: key, moment }, host })?;
        Ok(urls.push(UrlRow { key, url })?)
    })?;
    Ok([urls.finish()?, by_url.finish()?, by_document.finish()?].concat())
}
