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
use std::slice;
use std::sync::Arc;

/// Open files of postings.
pub(in crate::backfill) type PostingFiles = Vec<Arc<RunFile<Posting>>>;

/// Parts of a merge, at least, where its files have as many blocks. More parts would keep more threads busy and still
/// take longer: each part syncs files of its own, and a pair that shares shingles of several parts is written in
/// each.
const PARTS_MIN: u64 = 4;

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
    let (mut shingle, mut documents) = (0, Vec::new());
    context.each_row(MergeReader::new(files, range.0.as_ref(), range.1)?, |posting| {
        if posting.shingle() != shingle && !documents.is_empty() {
            each(shingle, &documents)?;
            documents.clear();
        }
        shingle = posting.shingle();
        documents.push(posting.document());
        Ok(())
    })?;
    if documents.is_empty() { Ok(()) } else { each(shingle, &documents) }
}

/// Calls `each` with every list of a range that has more than `n_min` documents.
///
/// Such lists are rare, so the files are not merged: a list that long has at least its share of documents in some file. All
/// lists that do are held in memory together, at most the postings of the range.
pub(in crate::backfill) fn each_long_list(
    context: &Context,
    files: &PostingFiles,
    range: ShingleRange,
    n_min: usize,
    mut each: impl FnMut(Shingle, &[DocumentId]),
) -> Result<(), BackfillError> {
    let share = n_min / files.len().max(1) + 1;
    let mut shingles = Vec::new();
    for file in files {
        let (mut shingle, mut n_documents) = (0, 0);
        context.each_row(MergeReader::new(slice::from_ref(file), range.0.as_ref(), range.1)?, |posting| {
            n_documents = if posting.shingle() == shingle { n_documents + 1 } else { 1 };
            shingle = posting.shingle();
            if n_documents == share {
                shingles.push(shingle);
            }
            Ok(())
        })?;
    }
    shingles.sort_unstable();
    shingles.dedup();
    let mut postings = Vec::new();
    for file in files {
        each_posting_of(context, file, &shingles, |posting| postings.push(posting))?;
    }
    postings.sort_unstable();
    for list in postings.chunk_by(|a, b| a.shingle() == b.shingle()).filter(|list| list.len() > n_min) {
        let documents: Vec<DocumentId> = list.iter().map(|posting| posting.document()).collect();
        each(list[0].shingle(), &documents);
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backfill::tests::{open_checkpoint, rule};
    use crate::cluster::MatchRule;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Lost if this fails: a common shingle that the stream knows, wherever its postings lie.
        #[test]
        fn long_lists_are_found_without_merging(
            postings in prop::collection::vec((0u64..12, 1u32..200, 0usize..5), 0..600),
            n_min in 0usize..40,
            part_rows in 1u64..600,
        ) {
            let folder = tempfile::tempdir().expect("a folder");
            let (_checkpoint, context) = open_checkpoint(folder.path(), &rule(0, MatchRule::default()), 1 << 20);
            let mut lists: BTreeMap<Shingle, BTreeSet<DocumentId>> = BTreeMap::new();
            let mut parts = vec![BTreeSet::new(); 5];
            for (shingle, document, part) in postings {
                let document = DocumentId(document);
                if lists.entry(shingle).or_default().insert(document) {
                    parts[part].insert(Posting::new(shingle, document));
                }
            }
            let write = |(at, part): (usize, BTreeSet<Posting>)| {
                let mut writer = POSTINGS.create(&context.folder, at).expect("created");
                for posting in part {
                    writer.push(posting).expect("written");
                }
                POSTINGS.open(&context.folder, &writer.finish().expect("finished").file).expect("opens")
            };
            let files: PostingFiles = parts.into_iter().enumerate().map(write).collect();
            let mut found = BTreeMap::new();
            for range in shingle_ranges(&files, part_rows) {
                let add = |shingle, documents: &[DocumentId]| {
                    assert!(found.insert(shingle, documents.iter().copied().collect::<BTreeSet<_>>()).is_none());
                };
                each_long_list(&context, &files, range, n_min, add).expect("read");
            }
            lists.retain(|_, documents| documents.len() > n_min);
            prop_assert_eq!(found, lists);
        }
    }
}
