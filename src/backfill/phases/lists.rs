//! Merges <shingle, document>: the list of documents of every shingle, and what the lists say of the shingles and pairs.
//!
//! Here the batch must do as the stream does, page by page, without going page by page. A shingle is common from the
//! document on that makes its list longer than the limit; documents after that one are indexed by the next larger of
//! their shingles, whose lists grow by them and may become common in turn. [`find_common`] begins with no shingle common
//! and repeats: count all lists, note at which document each became common, index the later documents by other
//! shingles. Each round can only make shingles common earlier, because lists only grow by what is put off to them, and
//! what leaves a list comes after the document that made it common. So it ends, and where it ends every document is
//! indexed exactly as it is in the stream.

use crate::backfill::checkpoint::{Checkpoint, Segment};
use crate::backfill::context::Context;
use crate::backfill::error::BackfillError;
use crate::backfill::phases::partition::{POSTINGS, SUPERS, each_document, index_candidates, index_size, sorter};
use crate::backfill::rows::{Pair, Posting, ShortenedIndex};
use crate::cluster::{IndexQuery, Representatives, representatives_of, represented};
use crate::document::DocumentId;
use crate::extsort::{FinishedFile, MergeReader, RunFile, RunFileWriter, Sorter, split_points};
use crate::ports::StoreRule;
use crate::sketch::Shingle;
use std::collections::HashMap;
use std::sync::Arc;

/// Postings of documents that are indexed by other shingles than their smallest ones.
pub(in crate::backfill) const EXTRAS: (&str, bool) = ("extra", false);
/// Documents that are indexed by fewer.
pub(in crate::backfill) const SHORTENED: (&str, bool) = ("shortened", false);
/// The documents that made index shingles, and super shingles, common.
const COMMON: (&str, bool) = ("common", false);
const COMMON_SUPERS: (&str, bool) = ("commonsupers", false);
/// Lists of two documents or more.
pub(in crate::backfill) const LISTS: (&str, bool) = ("lists", false);
pub(in crate::backfill) const SUPER_LISTS: (&str, bool) = ("superlists", false);
/// Pairs of neighbours in a list.
pub(in crate::backfill) const NEIGHBOURS: (&str, bool) = ("neighbours", false);

/// Pairs of documents and the representatives of their common shingles.
pub(in crate::backfill) const REPRESENTED: (&str, bool) = ("represented", false);

/// Files of postings.
pub(in crate::backfill) type Postings = Vec<Arc<RunFile<Posting>>>;

/// So many parts there are of few rows as well, if their files have as many blocks. More would keep more threads busy, and
/// take more time: each part has files of its own to sync, and pairs that share shingles of several parts stand in each.
const PARTS_MIN: u64 = 4;

/// A part of the shingles: from the first of them (with it) to the second (without it).
pub(in crate::backfill) type Part = (Option<Posting>, Option<Posting>);

/// From which document on shingles are common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::backfill) struct CommonShingles {
    index: HashMap<Shingle, DocumentId>,
    supers: HashMap<Shingle, DocumentId>,
}

impl CommonShingles {
    /// Whether an index shingle was common when a document came.
    pub fn is_for(&self, shingle: Shingle, document: DocumentId) -> bool {
        self.index.get(&shingle).is_some_and(|since| *since < document)
    }

    /// Whether a super shingle's list was full when a document came.
    pub fn is_super_for(&self, shingle: Shingle, document: DocumentId) -> bool {
        self.supers.get(&shingle).is_some_and(|since| *since < document)
    }

    /// The shingles that are common in the end.
    pub fn shingles(&self) -> Vec<Shingle> {
        let mut shingles: Vec<Shingle> = self.index.keys().copied().collect();
        shingles.sort_unstable();
        shingles
    }

    /// The shingles that index a document of these candidates.
    pub fn index_of(&self, document: DocumentId, candidates: &[Shingle], index_size: usize) -> Vec<Shingle> {
        let uncommon = candidates.iter().copied().filter(|shingle| !self.is_for(*shingle, document));
        uncommon.take(index_size).collect()
    }

    /// The representatives of every common shingle: where its list begins. Documents that came when it was common are not
    /// in the list, though they have postings here.
    fn representatives(
        &self,
        checkpoint: &Checkpoint,
        context: &Context,
    ) -> Result<HashMap<Shingle, Representatives>, BackfillError> {
        let (runs, limit) = (postings(checkpoint)?, checkpoint.rule().cluster.common_limit);
        let mut all = HashMap::new();
        let find = |part| {
            let mut found = Vec::new();
            each_list(context, &runs, part, |shingle, documents| {
                if self.index.contains_key(&shingle) {
                    found.push((shingle, representatives_of(&documents[..documents.len().min(limit + 1)])));
                }
                Ok(())
            })?;
            Ok(found)
        };
        context.each(parts(&runs, checkpoint.part_rows()), find, |found| {
            all.extend(found);
            Ok(())
        })?;
        Ok(all)
    }
}

/// Cuts files of postings into parts, no list into two.
pub(in crate::backfill) fn parts(runs: &Postings, part_rows: u64) -> Vec<Part> {
    let n_rows: u64 = runs.iter().map(|run| run.n_rows()).sum();
    let cuts = split_points(runs, part_rows.min((n_rows / PARTS_MIN).max(1)), |posting| posting.first_of_shingle());
    let froms = std::iter::once(None).chain(cuts.iter().copied().map(Some));
    froms.zip(cuts.iter().copied().map(Some).chain([None])).collect()
}

/// Calls `each` with every list of a part: a shingle and its documents, ascending.
pub(in crate::backfill) fn each_list(
    context: &Context,
    runs: &Postings,
    part: Part,
    mut each: impl FnMut(Shingle, &[DocumentId]) -> Result<(), BackfillError>,
) -> Result<(), BackfillError> {
    let mut merge = MergeReader::new(runs, part.0.as_ref(), part.1)?;
    let (mut shingle, mut documents, mut n) = (0, Vec::new(), 0u64);
    while let Some(posting) = merge.next()? {
        n += 1;
        if n.is_multiple_of(1 << 16) {
            context.check()?;
        }
        if posting.shingle() != shingle && !documents.is_empty() {
            each(shingle, &documents)?;
            documents.clear();
        }
        shingle = posting.shingle();
        documents.push(posting.document());
    }
    if documents.is_empty() { Ok(()) } else { each(shingle, &documents) }
}

/// The files of all index postings.
pub(in crate::backfill) fn postings(checkpoint: &Checkpoint) -> Result<Postings, BackfillError> {
    let mut runs = checkpoint.runs(POSTINGS.0, POSTINGS.1)?;
    runs.extend(checkpoint.runs(EXTRAS.0, EXTRAS.1)?);
    Ok(runs)
}

/// Finds what is common, and writes the postings of documents that other shingles index because of it.
pub(in crate::backfill) fn find_common(
    checkpoint: &mut Checkpoint,
    context: &Context,
) -> Result<CommonShingles, BackfillError> {
    const JOB: &str = "common";
    if checkpoint.is_done(JOB) {
        return read_common(checkpoint);
    }
    let limit = checkpoint.rule().cluster.common_limit;
    let (base, part_rows) = (checkpoint.runs(POSTINGS.0, POSTINGS.1)?, checkpoint.part_rows());
    let supers = full_lists(context, &checkpoint.runs(SUPERS.0, SUPERS.1)?, limit, part_rows)?;
    let mut common = CommonShingles { index: HashMap::new(), supers };
    let (mut runs, mut pieces) = (base.clone(), Vec::new());
    loop {
        let found = full_lists(context, &runs, limit, part_rows)?;
        if found == common.index {
            break;
        }
        common.index = found;
        pieces = put_off(checkpoint, context, &common)?;
        let extras = pieces.iter().filter(|piece| piece.name.starts_with(EXTRAS.0));
        runs.clone_from(&base);
        for piece in extras {
            runs.push(RunFile::open(&context.folder, piece, EXTRAS.1)?);
        }
    }
    for ((name, is_compressed), of) in [(COMMON, &common.index), (COMMON_SUPERS, &common.supers)] {
        let mut sorter: Sorter<'_, Posting> = sorter(context, (name, is_compressed), 0);
        of.iter().try_for_each(|(shingle, since)| sorter.push(Posting::new(*shingle, *since)))?;
        pieces.extend(sorter.finish()?);
    }
    checkpoint.record(JOB, pieces)?;
    Ok(common)
}

fn read_common(checkpoint: &Checkpoint) -> Result<CommonShingles, BackfillError> {
    let read = |(name, is_compressed): (&str, bool)| {
        let mut found = HashMap::new();
        for run in checkpoint.runs::<Posting>(name, is_compressed)? {
            let mut rows = run.read_all();
            while let Some(row) = rows.next()? {
                found.insert(row.shingle(), row.document());
            }
        }
        Ok::<_, BackfillError>(found)
    };
    Ok(CommonShingles { index: read(COMMON)?, supers: read(COMMON_SUPERS)? })
}

/// The shingles whose lists are longer than the limit, each with the document that made it so.
fn full_lists(
    context: &Context,
    runs: &Postings,
    limit: usize,
    part_rows: u64,
) -> Result<HashMap<Shingle, DocumentId>, BackfillError> {
    let mut all = HashMap::new();
    let count = |part| {
        let mut found = Vec::new();
        each_list(context, runs, part, |shingle, documents| {
            found.extend(documents.get(limit).map(|document| (shingle, *document)));
            Ok(())
        })?;
        Ok(found)
    };
    context.each(parts(runs, part_rows), count, |found| {
        all.extend(found);
        Ok(())
    })?;
    Ok(all)
}

/// Indexes the documents that came after some of their shingles were common by others.
fn put_off(
    checkpoint: &Checkpoint,
    context: &Context,
    common: &CommonShingles,
) -> Result<Vec<FinishedFile>, BackfillError> {
    let mut pieces = Vec::new();
    let jobs = checkpoint.ingested().pieces.iter().cloned().enumerate().collect();
    let job = |(at, piece): (usize, Segment)| put_off_piece(context, checkpoint.rule(), common, at, &piece);
    context.each(jobs, job, |written| {
        pieces.extend(written);
        Ok(())
    })?;
    Ok(pieces)
}

fn put_off_piece(
    context: &Context,
    rule: &StoreRule,
    common: &CommonShingles,
    at: usize,
    piece: &Segment,
) -> Result<Vec<FinishedFile>, BackfillError> {
    let size = index_size(&rule.sketch);
    let mut extras: Sorter<'_, Posting> = sorter(context, EXTRAS, at);
    let mut shortened = RunFileWriter::create(&context.folder, &format!("{}-{at:04}", SHORTENED.0), SHORTENED.1)?;
    each_document(context, piece, |document, row| {
        let damaged = || BackfillError::Damaged(context.folder.join(&piece.documents.name));
        let candidates = index_candidates(&row, &rule.sketch).ok_or_else(damaged)?;
        let smallest = &candidates[..candidates.len().min(size)];
        if !smallest.iter().any(|shingle| common.is_for(*shingle, document)) {
            return Ok(());
        }
        let index = common.index_of(document, &candidates, size);
        if index.len() < smallest.len() {
            shortened.push(ShortenedIndex { document, n_index: index.len() as u32 })?;
        }
        let others = index.iter().filter(|shingle| !smallest.contains(shingle));
        Ok(others.into_iter().try_for_each(|shingle| extras.push(Posting::new(*shingle, document)))?)
    })?;
    let mut pieces = extras.finish()?;
    pieces.push(shortened.finish()?);
    Ok(pieces)
}

/// The pairs of neighbours in a list.
///
/// They are decided before all other pairs: a family of pages is one cluster after as many comparisons as it has pages,
/// and none of its other pairs, which are as many as the square of its pages, is ever formed. In a list of index shingles
/// a document's neighbour is the one before it; of super shingles it is the first, because only the first of a long list
/// nominate.
pub(in crate::backfill) fn neighbours(documents: &[DocumentId], is_super: bool) -> impl Iterator<Item = Pair> {
    documents.windows(2).map(move |two| match is_super {
        true => Pair::new(two[1], documents[0], 0, true),
        false => Pair::new(two[1], two[0], 1, false),
    })
}

/// Writes the lists of two documents or more, and the pairs of neighbours in them.
pub(in crate::backfill) fn form_lists(checkpoint: &mut Checkpoint, context: &Context) -> Result<(), BackfillError> {
    let (limit, part_rows) = (checkpoint.rule().cluster.common_limit, checkpoint.part_rows());
    for (names, runs) in [(LISTS, postings(checkpoint)?), (SUPER_LISTS, checkpoint.runs(SUPERS.0, SUPERS.1)?)] {
        let is_super = names == SUPER_LISTS;
        let job = |at: usize| format!("{}/{at:04}", names.0);
        let parts = parts(&runs, part_rows).into_iter().enumerate();
        let parts = parts.filter(|(at, _)| !checkpoint.is_done(&job(*at))).collect();
        context.each(
            parts,
            |(at, part)| {
                let mut lists = RunFileWriter::create(&context.folder, &format!("{}-{at:04}", names.0), names.1)?;
                let (name, is_compressed) = NEIGHBOURS;
                let name = format!("{name}-{}-{at:04}", names.0);
                let mut pairs = Sorter::new(&context.folder, name, context.sorter_bytes(), is_compressed);
                each_list(context, &runs, part, |shingle, documents| {
                    let documents = if is_super { documents } else { &documents[..documents.len().min(limit + 1)] };
                    if documents.len() < 2 {
                        return Ok(());
                    }
                    documents
                        .iter()
                        .try_for_each(|document| lists.push(Posting::new(shingle, *document)).map(|_| ()))?;
                    Ok(neighbours(documents, is_super).try_for_each(|pair| pairs.push(pair))?)
                })?;
                let mut pieces = pairs.finish()?;
                pieces.push(lists.finish()?);
                Ok((job(at), pieces))
            },
            |(job, pieces)| checkpoint.record(&job, pieces),
        )?;
    }
    Ok(())
}

/// Writes the pairs of documents and representatives, which are worked out for each document on its own.
pub(in crate::backfill) fn form_represented(
    checkpoint: &mut Checkpoint,
    context: &Context,
    common: &CommonShingles,
) -> Result<(), BackfillError> {
    const JOB: &str = "represented";
    if checkpoint.is_done(JOB) {
        return Ok(());
    }
    let mut pieces = Vec::new();
    if !common.index.is_empty() && !checkpoint.rule().cluster.ignore_common {
        let representatives = common.representatives(checkpoint, context)?;
        let jobs = checkpoint.ingested().pieces.iter().cloned().enumerate().collect();
        let rule = checkpoint.rule();
        let job = |(at, piece): (usize, Segment)| represent_piece(context, rule, common, &representatives, at, &piece);
        context.each(jobs, job, |written| {
            pieces.extend(written);
            Ok(())
        })?;
    }
    checkpoint.record(JOB, pieces)
}

fn represent_piece(
    context: &Context,
    rule: &StoreRule,
    common: &CommonShingles,
    representatives: &HashMap<Shingle, Representatives>,
    at: usize,
    piece: &Segment,
) -> Result<Vec<FinishedFile>, BackfillError> {
    let size = index_size(&rule.sketch);
    let mut pairs: Sorter<'_, Pair> = sorter(context, REPRESENTED, at);
    each_document(context, piece, |document, row| {
        let damaged = || BackfillError::Damaged(context.folder.join(&piece.documents.name));
        let candidates = index_candidates(&row, &rule.sketch).ok_or_else(damaged)?;
        let asked = IndexQuery::of(&candidates, size, &rule.cluster, |shingle| common.is_for(shingle, document));
        let common = asked.common.iter().filter_map(|shingle| representatives.get(shingle));
        let others = represented(common, asked.common_needed);
        Ok(others.into_iter().try_for_each(|other| pairs.push(Pair::new(document, other, 0, true)))?)
    })?;
    Ok(pairs.finish()?)
}
