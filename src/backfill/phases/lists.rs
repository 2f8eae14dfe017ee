//! Merges <shingle, document> into the list of documents of every shingle, and finds common shingles and first pairs.
//!
//! The batch must do as the stream does, which works page by page. In the stream a shingle becomes common with the
//! document that makes its list longer than the limit. Later documents are indexed by the next larger of their
//! shingles instead. Those lists grow by it and may become common in turn.
//!
//! [`common_shingles_job`] starts without common shingles and repeats three steps: count all lists, note the document
//! with which each became common, index the later documents by other shingles. A round can only make a shingle common
//! earlier. Lists only gain documents that other lists lost, and a list only loses documents behind the one that made
//! it common. The rounds therefore end, and then every document is indexed exactly as in the stream.

use super::partition::{each_indexed_document, n_index_max};
use crate::backfill::checkpoint::Checkpoint;
use crate::backfill::context::Context;
use crate::backfill::datasets::{
    COMMON_SHINGLES, COMMON_SUPER_SHINGLES, Dataset, DatasetFile, EXTRA_POSTINGS, LISTS, NEIGHBOUR_PAIRS, POSTINGS,
    REPRESENTATIVE_PAIRS, SHORTENED_INDEXES, SUPER_LISTS, SUPER_POSTINGS,
};
use crate::backfill::error::BackfillError;
use crate::backfill::ingest_state::Segment;
use crate::backfill::jobs::Job;
use crate::backfill::rows::{Pair, Posting, ShortenedIndex};
use crate::cluster::{IndexQuery, Representatives, candidates_by_representatives, first_representatives};
use crate::document::DocumentId;
use crate::extsort::{MergeReader, RunFile, split_points};
use crate::ports::StoreRule;
use crate::sketch::Shingle;
use std::collections::HashMap;
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

/// Shingle → the document that made it common.
type CommonSince = HashMap<Shingle, DocumentId>;

/// The shingles that are common, and since which document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::backfill) struct CommonShingles {
    index: CommonSince,
    supers: CommonSince,
}

impl CommonShingles {
    /// Reads what the job of [`common_shingles_job`] wrote.
    pub fn read(checkpoint: &Checkpoint) -> Result<Self, BackfillError> {
        let read = |dataset: Dataset<Posting>| {
            let mut common = CommonSince::new();
            for file in checkpoint.open_dataset(dataset)? {
                let mut rows = file.read_all();
                while let Some(row) = rows.next_row()? {
                    common.insert(row.shingle(), row.document());
                }
            }
            Ok::<_, BackfillError>(common)
        };
        Ok(CommonShingles { index: read(COMMON_SHINGLES)?, supers: read(COMMON_SUPER_SHINGLES)? })
    }

    /// Whether an index shingle was common when a document came.
    pub fn is_common_for(&self, shingle: Shingle, document: DocumentId) -> bool {
        self.index.get(&shingle).is_some_and(|since| *since < document)
    }

    /// Whether a super shingle's list was full when a document came.
    pub fn is_super_full_for(&self, shingle: Shingle, document: DocumentId) -> bool {
        self.supers.get(&shingle).is_some_and(|since| *since < document)
    }

    /// The index shingles that are common in the end, ascending.
    pub fn index_shingles(&self) -> Vec<Shingle> {
        let mut shingles: Vec<Shingle> = self.index.keys().copied().collect();
        shingles.sort_unstable();
        shingles
    }

    /// The shingles that index a document, of those that may.
    pub fn index_of(&self, document: DocumentId, candidates: &[Shingle], n_index_max: usize) -> Vec<Shingle> {
        let uncommon = candidates.iter().copied().filter(|shingle| !self.is_common_for(*shingle, document));
        uncommon.take(n_index_max).collect()
    }

    /// The representatives of every common shingle: the first documents of its list. Postings of documents that came
    /// when the shingle was common are left out, because the stream's list does not hold them.
    fn representatives(
        &self,
        context: &Context,
        postings: &PostingFiles,
        common_limit: usize,
        part_rows: u64,
    ) -> Result<HashMap<Shingle, Representatives>, BackfillError> {
        let mut all = HashMap::new();
        let find = |range| {
            let mut found = Vec::new();
            each_list(context, postings, range, |shingle, documents| {
                if self.index.contains_key(&shingle) {
                    let documents = &documents[..documents.len().min(common_limit + 1)];
                    found.push((shingle, first_representatives(documents)));
                }
                Ok(())
            })?;
            Ok(found)
        };
        context.run_parallel(shingle_ranges(postings, part_rows), find, |found| {
            all.extend(found);
            Ok(())
        })?;
        Ok(all)
    }
}

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

/// The job that finds the common shingles, and writes the postings that replace them.
pub(in crate::backfill) fn common_shingles_job(checkpoint: &Checkpoint) -> Result<Job<'static>, BackfillError> {
    let finder = CommonShingleFinder {
        postings: checkpoint.open_dataset(POSTINGS)?,
        super_postings: checkpoint.open_dataset(SUPER_POSTINGS)?,
        segments: checkpoint.ingested().segments.clone(),
        rule: checkpoint.rule().clone(),
        part_rows: checkpoint.part_rows(),
    };
    Ok(Job::new("common-shingles", move |context| finder.find(context)))
}

struct CommonShingleFinder {
    postings: PostingFiles,
    super_postings: PostingFiles,
    segments: Vec<Segment>,
    rule: StoreRule,
    part_rows: u64,
}

/// The postings that replace common shingles, and the documents that have too few shingles for it.
#[derive(Default)]
struct Replacements {
    extra_postings: Vec<DatasetFile>,
    shortened_indexes: Vec<DatasetFile>,
}

impl CommonShingleFinder {
    fn find(&self, context: &Context) -> Result<Vec<DatasetFile>, BackfillError> {
        let supers = self.full_lists(context, &self.super_postings)?;
        let mut common = CommonShingles { index: CommonSince::new(), supers };
        let (mut postings, mut replacements) = (self.postings.clone(), Replacements::default());
        loop {
            let index = self.full_lists(context, &postings)?;
            if index == common.index {
                break;
            }
            common.index = index;
            replacements = self.replace_common(context, &common)?;
            postings.clone_from(&self.postings);
            for file in &replacements.extra_postings {
                postings.push(EXTRA_POSTINGS.open(&context.folder, &file.file)?);
            }
        }
        let mut files = [replacements.extra_postings, replacements.shortened_indexes].concat();
        for (dataset, since) in [(COMMON_SHINGLES, &common.index), (COMMON_SUPER_SHINGLES, &common.supers)] {
            let mut sorter = context.sorter(dataset, 0);
            since.iter().try_for_each(|(shingle, since)| sorter.push(Posting::new(*shingle, *since)))?;
            files.extend(sorter.finish()?);
        }
        Ok(files)
    }

    /// The shingles whose lists exceed the limit, each with the document that exceeded it.
    fn full_lists(&self, context: &Context, files: &PostingFiles) -> Result<CommonSince, BackfillError> {
        let limit = self.rule.cluster.common_limit;
        let mut all = CommonSince::new();
        let count = |range| {
            let mut found = Vec::new();
            each_list(context, files, range, |shingle, documents| {
                found.extend(documents.get(limit).map(|document| (shingle, *document)));
                Ok(())
            })?;
            Ok(found)
        };
        context.run_parallel(shingle_ranges(files, self.part_rows), count, |found| {
            all.extend(found);
            Ok(())
        })?;
        Ok(all)
    }

    /// Indexes the documents that came when some of their shingles were common by others.
    fn replace_common(&self, context: &Context, common: &CommonShingles) -> Result<Replacements, BackfillError> {
        let mut all = Replacements::default();
        let replace = |(at, segment): (usize, &Segment)| self.replace_in_segment(context, common, at, segment);
        context.run_parallel(self.segments.iter().enumerate().collect(), replace, |replacements| {
            all.extra_postings.extend(replacements.extra_postings);
            all.shortened_indexes.extend(replacements.shortened_indexes);
            Ok(())
        })?;
        Ok(all)
    }

    fn replace_in_segment(
        &self,
        context: &Context,
        common: &CommonShingles,
        at: usize,
        segment: &Segment,
    ) -> Result<Replacements, BackfillError> {
        let n_max = n_index_max(&self.rule.sketch);
        let mut extra_postings = context.sorter(EXTRA_POSTINGS, at);
        let mut shortened_indexes = SHORTENED_INDEXES.create(&context.folder, format_args!("{at:04}"))?;
        each_indexed_document(context, &self.rule.sketch, segment, |document, _, candidates| {
            let smallest = &candidates[..candidates.len().min(n_max)];
            if !smallest.iter().any(|shingle| common.is_common_for(*shingle, document)) {
                return Ok(());
            }
            let index = common.index_of(document, &candidates, n_max);
            if index.len() < smallest.len() {
                shortened_indexes.push(ShortenedIndex { document, n_index: index.len() as u32 })?;
            }
            let others = index.iter().filter(|shingle| !smallest.contains(shingle));
            others.into_iter().try_for_each(|shingle| extra_postings.push(Posting::new(*shingle, document)))
        })?;
        Ok(Replacements {
            extra_postings: extra_postings.finish()?,
            shortened_indexes: vec![shortened_indexes.finish()?],
        })
    }
}

/// The pairs of neighbours in a list.
///
/// Neighbours are decided before all other pairs. A family of pages becomes one cluster after as many comparisons as
/// it has pages, and its other pairs, which number the square of its pages, are never formed. In a list of index
/// shingles a document's neighbour is the one before it. In a list of super shingles it is the first one, because
/// only the first documents of a long list nominate.
pub(in crate::backfill) fn neighbours(documents: &[DocumentId], is_super: bool) -> impl Iterator<Item = Pair> {
    documents.windows(2).map(move |two| match is_super {
        true => Pair::new(two[1], documents[0], 0, true),
        false => Pair::new(two[1], two[0], 1, false),
    })
}

/// The jobs that write lists of two documents or more, and the pairs of neighbours in them.
pub(in crate::backfill) fn list_jobs(checkpoint: &Checkpoint) -> Result<Vec<Job<'static>>, BackfillError> {
    let limit = checkpoint.rule().cluster.common_limit;
    let index =
        ListSet { dataset: LISTS, files: open_postings(checkpoint)?, n_documents_max: limit + 1, is_super: false };
    let supers = ListSet {
        dataset: SUPER_LISTS,
        files: checkpoint.open_dataset(SUPER_POSTINGS)?,
        n_documents_max: usize::MAX,
        is_super: true,
    };
    let mut jobs = Vec::new();
    for set in [index, supers].map(Arc::new) {
        for (at, range) in shingle_ranges(&set.files, checkpoint.part_rows()).into_iter().enumerate() {
            let set = Arc::clone(&set);
            let name = format!("{}-{at:04}", set.dataset.name());
            jobs.push(Job::new(name, move |context| set.write_range(context, at, range)));
        }
    }
    Ok(jobs)
}

/// All lists of one kind of shingles.
struct ListSet {
    dataset: Dataset<Posting>,
    files: PostingFiles,
    /// The documents of a list that count.
    n_documents_max: usize,
    is_super: bool,
}

impl ListSet {
    fn write_range(
        &self,
        context: &Context,
        at: usize,
        range: ShingleRange,
    ) -> Result<Vec<DatasetFile>, BackfillError> {
        let mut lists = self.dataset.create(&context.folder, format_args!("{at:04}"))?;
        let part = format!("{}-{at:04}", self.dataset.name());
        let mut pairs = NEIGHBOUR_PAIRS.sorter(&context.folder, part, context.sorter_bytes());
        each_list(context, &self.files, range, |shingle, documents| {
            let documents = &documents[..documents.len().min(self.n_documents_max)];
            if documents.len() < 2 {
                return Ok(());
            }
            documents.iter().try_for_each(|document| lists.push(Posting::new(shingle, *document)).map(|_| ()))?;
            neighbours(documents, self.is_super).try_for_each(|pair| pairs.push(pair))
        })?;
        let mut files = pairs.finish()?;
        files.push(lists.finish()?);
        Ok(files)
    }
}

/// The job that pairs every document with the representatives of its common shingles.
pub(in crate::backfill) fn representative_pairs_job<'a>(
    checkpoint: &Checkpoint,
    common: &'a CommonShingles,
) -> Result<Job<'a>, BackfillError> {
    let (rule, part_rows) = (checkpoint.rule().clone(), checkpoint.part_rows());
    let (postings, segments) = (open_postings(checkpoint)?, checkpoint.ingested().segments.clone());
    Ok(Job::new("representative-pairs", move |context| {
        if common.index.is_empty() || rule.cluster.ignore_common {
            return Ok(Vec::new());
        }
        let representatives = common.representatives(context, &postings, rule.cluster.common_limit, part_rows)?;
        let mut files = Vec::new();
        let pair = |(at, segment): (usize, &Segment)| {
            pair_with_representatives(context, &rule, common, &representatives, at, segment)
        };
        context.run_parallel(segments.iter().enumerate().collect(), pair, |written| {
            files.extend(written);
            Ok(())
        })?;
        Ok(files)
    }))
}

fn pair_with_representatives(
    context: &Context,
    rule: &StoreRule,
    common: &CommonShingles,
    representatives: &HashMap<Shingle, Representatives>,
    at: usize,
    segment: &Segment,
) -> Result<Vec<DatasetFile>, BackfillError> {
    let n_max = n_index_max(&rule.sketch);
    let mut pairs = context.sorter(REPRESENTATIVE_PAIRS, at);
    each_indexed_document(context, &rule.sketch, segment, |document, _, candidates| {
        let is_common = |shingle| common.is_common_for(shingle, document);
        let query = IndexQuery::new(&candidates, n_max, &rule.cluster, is_common);
        let of_common = query.common.iter().filter_map(|shingle| representatives.get(shingle));
        let others = candidates_by_representatives(of_common, query.common_needed);
        others.into_iter().try_for_each(|other| pairs.push(Pair::new(document, other, 0, true)))
    })?;
    pairs.finish()
}
