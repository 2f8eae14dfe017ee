//! Divides what was taken in into sorted files: <shingle, document> and all else that the store keeps in another order.

use super::error::BackfillError;
use super::means::Means;
use super::rows::{ByDocument, ByUrl, DocumentRow, Equal, Outcome, PageRow, Posting, Url, Visit};
use super::runs::{Piece, Run, SortedRow, Sorter};
use super::work::{TakenPiece, Work};
use crate::document::DocumentId;
use crate::ports::StoredSighting;
use crate::sketch::{Form, Shingle, SketchRule, decode};
use crate::sweep::Moment;

/// Names of the sorted files, and whether they are compressed: rows that are numbers are small already.
pub(super) const POSTINGS: (&str, bool) = ("postings", false);
pub(super) const SUPERS: (&str, bool) = ("supers", false);
pub(super) const MODS: (&str, bool) = ("mods", false);
pub(super) const EQUALS: (&str, bool) = ("equals", false);
pub(super) const URLS: (&str, bool) = ("urls", true);
pub(super) const BY_URL: (&str, bool) = ("sightings", true);
pub(super) const BY_DOCUMENT: (&str, bool) = ("standings", true);

/// What is divided at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    /// What finds documents: their shingles.
    Shingles,
    /// What they are equal to.
    Equivalences,
    /// Who stood where.
    Sightings,
}

/// Divides all pieces.
pub(super) fn divide(work: &mut Work, means: &Means, share: Share) -> Result<(), BackfillError> {
    let rule = work.rule().sketch.clone();
    let name = |at: usize| format!("divide-{share:?}/{at:04}").to_lowercase();
    let pieces = work.taken().pieces.iter().enumerate();
    let jobs = pieces.filter(|(at, _)| !work.is_done(&name(*at))).map(|(at, piece)| (at, piece.clone())).collect();
    means.each(
        jobs,
        |(at, piece)| {
            let pieces = match share {
                Share::Shingles => divide_shingles(means, &rule, at, &piece),
                Share::Equivalences => divide_equivalences(means, at, &piece),
                Share::Sightings => divide_sightings(means, at, &piece),
            };
            Ok((name(at), pieces?))
        },
        |(name, pieces)| work.record(&name, pieces),
    )
}

pub(super) fn sorter<'a, R: SortedRow>(
    means: &'a Means,
    (name, is_compressed): (&str, bool),
    at: usize,
) -> Sorter<'a, R> {
    Sorter::new(&means.folder, format!("{name}-{at:04}"), means.sorter_bytes(), is_compressed)
}

/// Calls `each` with every document of a piece.
pub(super) fn each_document(
    means: &Means,
    piece: &TakenPiece,
    mut each: impl FnMut(DocumentId, DocumentRow) -> Result<(), BackfillError>,
) -> Result<(), BackfillError> {
    let mut rows = Run::<DocumentRow>::open(&means.folder, &piece.documents, false)?.read_all();
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

fn divide_shingles(
    means: &Means,
    rule: &SketchRule,
    at: usize,
    piece: &TakenPiece,
) -> Result<Vec<Piece>, BackfillError> {
    let mut pieces = Vec::new();
    let mut postings: Sorter<'_, Posting> = sorter(means, POSTINGS, at);
    let path = means.folder.join(&piece.documents.name);
    each_document(means, piece, |document, row| {
        let index = index_candidates(&row, rule).ok_or_else(|| BackfillError::Damaged(path.clone()))?;
        index.iter().take(index_size(rule)).try_for_each(|shingle| postings.push(Posting::new(*shingle, document)))
    })?;
    pieces.extend(postings.finish()?);
    // A pass for each, so that each has the memory to itself; reading costs next to nothing beside sorting.
    if rule.super_shingles > 0 {
        let mut supers: Sorter<'_, Posting> = sorter(means, SUPERS, at);
        each_document(means, piece, |document, row| {
            row.super_shingles.iter().try_for_each(|shingle| supers.push(Posting::new(*shingle, document)))
        })?;
        pieces.extend(supers.finish()?);
    }
    if rule.index_modulus > 0 {
        let mut mods: Sorter<'_, Posting> = sorter(means, MODS, at);
        each_document(means, piece, |document, row| {
            row.mod_shingles.iter().try_for_each(|shingle| mods.push(Posting::new(*shingle, document)))
        })?;
        pieces.extend(mods.finish()?);
    }
    Ok(pieces)
}

fn divide_equivalences(means: &Means, at: usize, piece: &TakenPiece) -> Result<Vec<Piece>, BackfillError> {
    let mut equals: Sorter<'_, Equal> = sorter(means, EQUALS, at);
    each_document(means, piece, |document, row| {
        row.equivalences.keys().try_for_each(|key| equals.push(Equal { key, document }))
    })?;
    equals.finish()
}

/// Calls `each` with every page of a piece that is one.
fn each_page(
    means: &Means,
    piece: &TakenPiece,
    mut each: impl FnMut(Visit) -> Result<(), BackfillError>,
) -> Result<(), BackfillError> {
    let mut rows = Run::<PageRow>::open(&means.folder, &piece.pages, true)?.read_all();
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

fn divide_sightings(means: &Means, at: usize, piece: &TakenPiece) -> Result<Vec<Piece>, BackfillError> {
    let mut pieces = Vec::new();
    let mut urls: Sorter<'_, Url> = sorter(means, URLS, at);
    each_page(means, piece, |visit| urls.push(Url { key: visit.key, url: visit.url }))?;
    pieces.extend(urls.finish()?);
    let mut by_url: Sorter<'_, ByUrl> = sorter(means, BY_URL, at);
    each_page(means, piece, |visit| {
        by_url.push(ByUrl { sighting: StoredSighting { url: visit.key, moment: visit.moment }, host: visit.host })
    })?;
    pieces.extend(by_url.finish()?);
    let mut by_document: Sorter<'_, ByDocument> = sorter(means, BY_DOCUMENT, at);
    each_page(means, piece, |visit| {
        let Moment { fetched_at, seen, sweep } = visit.moment;
        let standing = seen.document().map(|document| ByDocument { document, fetched_at, url: visit.key, sweep });
        standing.map_or(Ok(()), |standing| by_document.push(standing))
    })?;
    pieces.extend(by_document.finish()?);
    Ok(pieces)
}
