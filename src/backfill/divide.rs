//! Divides what was taken in into sorted files: <shingle, document> and all else that the store keeps in another order.

use super::error::BackfillError;
use super::means::Means;
use super::rows::{ByDocument, ByUrl, DocumentRow, Equal, Outcome, PageRow, Posting, Url, Visit};
use super::work::{TakenPiece, Work};
use crate::document::DocumentId;
use crate::extsort::{FinishedFile, RunFile, SortedRow, Sorter};
use crate::ports::StoredSighting;
use crate::sketch::{Form, Shingle, SketchRule, decode};

/// Names of the sorted files, and whether they are compressed: rows that are numbers are small already.
pub(super) const POSTINGS: (&str, bool) = ("postings", false);
pub(super) const SUPERS: (&str, bool) = ("supers", false);
pub(super) const MODS: (&str, bool) = ("mods", false);
pub(super) const EQUALS: (&str, bool) = ("equals", false);
pub(super) const URLS: (&str, bool) = ("urls", true);
pub(super) const BY_URL: (&str, bool) = ("sightings", true);
pub(super) const BY_DOCUMENT: (&str, bool) = ("standings", true);

/// Divides the documents of all pieces: what finds them, and what they are equal to.
pub(super) fn divide_documents(work: &mut Work, means: &Means) -> Result<(), BackfillError> {
    let rule = work.rule().sketch.clone();
    divide(work, means, "documents", |at, piece| documents_of(means, &rule, at, piece))
}

/// Divides the pages of all pieces: who stood where.
pub(super) fn divide_pages(work: &mut Work, means: &Means) -> Result<(), BackfillError> {
    divide(work, means, "pages", |at, piece| pages_of(means, at, piece))
}

fn divide(
    work: &mut Work,
    means: &Means,
    what: &str,
    job: impl Fn(usize, &TakenPiece) -> Result<Vec<FinishedFile>, BackfillError> + Sync,
) -> Result<(), BackfillError> {
    let name = |at: usize| format!("divide-{what}/{at:04}");
    let pieces = work.taken().pieces.iter().enumerate();
    let jobs = pieces.filter(|(at, _)| !work.is_done(&name(*at))).map(|(at, piece)| (at, piece.clone())).collect();
    means.each(jobs, |(at, piece)| Ok((name(at), job(at, &piece)?)), |(name, pieces)| work.record(&name, pieces))
}

/// A sorter of rows of a piece, or of a part, that has all the memory that a thread may use.
pub(super) fn sorter<'a, R: SortedRow>(means: &'a Means, names: (&str, bool), at: usize) -> Sorter<'a, R> {
    share_of_sorter(means, names, at, 8)
}

/// A sorter that has some eighths of it.
fn share_of_sorter<'a, R: SortedRow>(
    means: &'a Means,
    (name, is_compressed): (&str, bool),
    at: usize,
    eighths: usize,
) -> Sorter<'a, R> {
    Sorter::new(&means.folder, format!("{name}-{at:04}"), means.sorter_bytes() / 8 * eighths, is_compressed)
}

/// Calls `each` with every document of a piece.
pub(super) fn each_document(
    means: &Means,
    piece: &TakenPiece,
    mut each: impl FnMut(DocumentId, DocumentRow) -> Result<(), BackfillError>,
) -> Result<(), BackfillError> {
    let mut rows = RunFile::<DocumentRow>::open(&means.folder, &piece.documents, false)?.read_all();
    let mut document = piece.n_documents_before;
    while let Some(row) = rows.next()? {
        document += 1;
        if document.is_multiple_of(4096) {
            means.check()?;
        }
        each(DocumentId(document), row)?;
    }
    Ok(())
}

/// The shingles that may index a document, the smallest first; none where its sketch cannot be read.
pub(super) fn index_candidates(row: &DocumentRow, rule: &SketchRule) -> Option<Vec<Shingle>> {
    if let Some(index) = &row.index {
        return Some(index.clone());
    }
    let Form::Sample { mut values, .. } = decode(&row.sketch).ok()?.form else { return None };
    values.truncate(rule.index_candidates());
    Some(values)
}

/// How many shingles index a document at most.
pub(super) fn index_size(rule: &SketchRule) -> usize {
    if rule.index_size == 0 { usize::MAX } else { rule.index_size }
}

fn documents_of(
    means: &Means,
    rule: &SketchRule,
    at: usize,
    piece: &TakenPiece,
) -> Result<Vec<FinishedFile>, BackfillError> {
    let mut postings: Sorter<'_, Posting> = share_of_sorter(means, POSTINGS, at, 5);
    let mut supers: Sorter<'_, Posting> = share_of_sorter(means, SUPERS, at, 1);
    let mut mods: Sorter<'_, Posting> = share_of_sorter(means, MODS, at, 1);
    let mut equals: Sorter<'_, Equal> = share_of_sorter(means, EQUALS, at, 1);
    let path = means.folder.join(&piece.documents.name);
    each_document(means, piece, |document, row| {
        let index = index_candidates(&row, rule).ok_or_else(|| BackfillError::Damaged(path.clone()))?;
        index.iter().take(index_size(rule)).try_for_each(|shingle| postings.push(Posting::new(*shingle, document)))?;
        row.super_shingles.iter().try_for_each(|shingle| supers.push(Posting::new(*shingle, document)))?;
        row.mod_shingles.iter().try_for_each(|shingle| mods.push(Posting::new(*shingle, document)))?;
        Ok(row.equivalences.keys().try_for_each(|key| equals.push(Equal { key, document }))?)
    })?;
    Ok([postings.finish()?, supers.finish()?, mods.finish()?, equals.finish()?].concat())
}

/// Calls `each` with every page of a piece that is one.
fn each_page(
    means: &Means,
    piece: &TakenPiece,
    mut each: impl FnMut(Visit) -> Result<(), BackfillError>,
) -> Result<(), BackfillError> {
    let mut rows = RunFile::<PageRow>::open(&means.folder, &piece.pages, true)?.read_all();
    let mut n = 0u64;
    while let Some(row) = rows.next()? {
        n += 1;
        if n.is_multiple_of(4096) {
            means.check()?;
        }
        if let Outcome::Page(visit) = row.outcome {
            each(visit)?;
        }
    }
    Ok(())
}

fn pages_of(means: &Means, at: usize, piece: &TakenPiece) -> Result<Vec<FinishedFile>, BackfillError> {
    let mut urls: Sorter<'_, Url> = share_of_sorter(means, URLS, at, 2);
    let mut by_url: Sorter<'_, ByUrl> = share_of_sorter(means, BY_URL, at, 3);
    let mut by_document: Sorter<'_, ByDocument> = share_of_sorter(means, BY_DOCUMENT, at, 3);
    each_page(means, piece, |visit| {
        let Visit { url, key, host, moment, .. } = visit;
        if let Some(document) = moment.seen.document() {
            let (fetched_at, sweep) = (moment.fetched_at, moment.sweep.clone());
            by_document.push(ByDocument { document, fetched_at, url: key, sweep })?;
        }
        by_url.push(ByUrl { sighting: StoredSighting { url: key, moment }, host })?;
        Ok(urls.push(Url { key, url })?)
    })?;
    Ok([urls.finish()?, by_url.finish()?, by_document.finish()?].concat())
}
