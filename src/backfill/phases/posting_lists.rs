//! The postings in sorted files, read as lists: a shingle and the documents that have it.

use crate::backfill::checkpoint::Checkpoint;
use crate::backfill::context::Context;
use crate::backfill::datasets::{EXTRA_POSTINGS, POSTINGS};
use crate::backfill::error::BackfillError;
use crate::backfill::rows::Posting;
use crate::document::DocumentId;
use crate::extsort::{MergeReader, RunFile, split_points};
use crate::sketch::Shingle;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Open files of postings.
pub(in crate::backfill) type PostingFiles = Vec<Arc<RunFile<Posting>>>;

/// Parts of a merge, at least, where its files have as many blocks. More parts would keep more threads busy and still
/// take longer: each part syncs files of its own, and a pair that shares shingles of several parts is written in
/// each.
const PARTS_MIN: u64 = 4;

/// Rows between two looks at the stop flag.
const ROWS_PER_STOP_CHECK: u64 = 1 << 16;

/// A range of shingles: from the first posting, inclusive, to the second, exclusive.
pub(in crate::backfill) type ShingleRange = (Option<Posting>, Option<Posting>);

/// Splits files of postings into ranges of whole lists.
pub(in crate::backfill) fn shingle_ranges(files: &PostingFiles, part_rows: u64) -> Vec<ShingleRange> {
    let n_rows: u64 = files.iter().map(|file| file.n_rows()).sum();
    let part_rows = part_rows.min((n_rows / PARTS_MIN).max(1));
    let points = split_points(files, part_rows, |posting| posting.first_of_shingle());
    let froms = std::iter::once(None).chain(points.iter().copied().map(Some));
    froms.zip(points.iter().copied().map(Some).chain([None])).collect()
}

/// Calls `each` with every list of a range: a shingle and its documents, ascending.
pub(in crate::backfill) fn each_list(
    context: &Context,
    files: &PostingFiles,
    range: ShingleRange,
    mut each: impl FnMut(Shingle, &[DocumentId]) -> Result<(), BackfillError>,
) -> Result<(), BackfillError> {
    let mut merge = MergeReader::new(files, range.0.as_ref(), range.1)?;
    let (mut shingle, mut documents, mut n_rows) = (0, Vec::new(), 0u64);
    while let Some(posting) = merge.next_row()? {
        n_rows += 1;
        if n_rows.is_multiple_of(ROWS_PER_STOP_CHECK) {
            context.check_stop()?;
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

/// Opens all index postings: the first ones and those that replace common shingles.
pub(in crate::backfill) fn open_postings(checkpoint: &Checkpoint) -> Result<PostingFiles, BackfillError> {
    let mut files = checkpoint.open_dataset(POSTINGS)?;
    files.extend(checkpoint.open_dataset(EXTRA_POSTINGS)?);
    Ok(files)
}

/// Calls `each` with every posting of some shingles in a file. The shingles ascend; blocks without them are not read.
pub(in crate::backfill) fn each_posting_of(
    context: &Context,
    file: &Arc<RunFile<Posting>>,
    shingles: &[Shingle],
    mut each: impl FnMut(Posting),
) -> Result<(), BackfillError> {
    let mut rows = file.read_all();
    let mut next = None;
    for shingle in shingles {
        let first = Posting::new(*shingle, DocumentId(0));
        if next.is_none_or(|posting| posting < first) {
            context.check_stop()?;
            rows.skip_to(&first);
            next = rows.next_row()?;
            while next.is_some_and(|posting| posting < first) {
                next = rows.next_row()?;
            }
        }
        while let Some(posting) = next.filter(|posting| posting.shingle() == *shingle) {
            each(posting);
            next = rows.next_row()?;
        }
    }
    Ok(())
}

/// The first documents of the lists of some shingles, which ascend: at most `n_max` of each. Shingles without a list are
/// left out.
pub(in crate::backfill) fn lists_of(
    context: &Context,
    files: &PostingFiles,
    shingles: &[Shingle],
    n_max: usize,
) -> Result<BTreeMap<Shingle, Vec<DocumentId>>, BackfillError> {
    let mut lists: BTreeMap<Shingle, Vec<DocumentId>> = BTreeMap::new();
    let read = |file: &Arc<RunFile<Posting>>| {
        let mut of_file: BTreeMap<Shingle, Vec<DocumentId>> = BTreeMap::new();
        each_posting_of(context, file, shingles, |posting| {
            let list = of_file.entry(posting.shingle()).or_default();
            if list.len() < n_max {
                list.push(posting.document());
            }
        })?;
        Ok(of_file)
    };
    context.run_parallel(files.iter().collect(), read, |of_file| {
        for (shingle, documents) in of_file {
            lists.entry(shingle).or_default().extend(documents);
        }
        Ok(())
    })?;
    for documents in lists.values_mut() {
        documents.sort_unstable();
        documents.truncate(n_max);
    }
    Ok(lists)
}
