//! Finds the shingles that become common, as in the stream, and the postings that replace them.
//!
//! The batch must do as the stream does, which works page by page. In the stream a shingle becomes common with the
//! document that makes its list longer than the limit. Later documents are indexed by the next larger of their
//! shingles instead. Those lists grow by it and may become common in turn.
//!
//! [`common_shingles_job`] counts the long lists once and notes the document with which each became common. It then repeats
//! two steps: index the later documents by other shingles, and count the lists that grew by it. A round can only make a
//! shingle common earlier. Lists only gain documents that other lists lost, and a list only loses documents behind the one
//! that made it common, where nothing looks. The rounds therefore end, and then every document is indexed exactly as in the
//! stream.

use super::partition::{each_document_where, n_index_max};
use super::posting_lists::{PostingFiles, each_list, each_long_list, each_posting_of, lists_of, shingle_ranges};
use crate::backfill::checkpoint::Checkpoint;
use crate::backfill::context::Context;
use crate::backfill::datasets::{
    COMMON_SHINGLES, COMMON_SUPER_SHINGLES, Dataset, DatasetFile, DatasetWriter, EXTRA_POSTINGS, POSTINGS,
    SHORTENED_INDEXES, SUPER_POSTINGS,
};
use crate::backfill::error::BackfillError;
use crate::backfill::ingest_state::Segment;
use crate::backfill::jobs::Job;
use crate::backfill::rows::{Posting, ShortenedIndex};
use crate::cluster::{REPRESENTATIVES_MAX, Representatives};
use crate::document::DocumentId;
use crate::extsort::RunFile;
use crate::ports::StoreRule;
use crate::sketch::Shingle;
use rustc_hash::FxHashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Shingle → the document that made it common.
type CommonSince = FxHashMap<Shingle, DocumentId>;

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
            let mut common = CommonSince::default();
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

    /// Whether no index shingle is common.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
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
        self.earlier_than(&CommonShingles::default())
    }

    /// The shingles that index a document, of those that may.
    pub fn index_of(&self, document: DocumentId, candidates: &[Shingle], n_index_max: usize) -> Vec<Shingle> {
        let uncommon = candidates.iter().copied().filter(|shingle| !self.is_common_for(*shingle, document));
        uncommon.take(n_index_max).collect()
    }

    /// The common index shingles that are not so in `before`, or only since a later document, ascending.
    fn earlier_than(&self, before: &CommonShingles) -> Vec<Shingle> {
        let changed = self.index.iter().filter(|(shingle, since)| before.index.get(shingle) != Some(since));
        let mut shingles: Vec<Shingle> = changed.map(|(shingle, _)| *shingle).collect();
        shingles.sort_unstable();
        shingles
    }

    /// The representatives of every common shingle: the first documents of its list. Postings of documents that came
    /// when the shingle was common are left out, because the stream's list does not hold them.
    pub fn representatives(
        &self,
        context: &Context,
        postings: &PostingFiles,
        common_limit: usize,
    ) -> Result<FxHashMap<Shingle, Representatives>, BackfillError> {
        let lists = lists_of(context, postings, &self.index_shingles(), REPRESENTATIVES_MAX.min(common_limit + 1))?;
        Ok(lists.into_iter().map(|(shingle, documents)| (shingle, documents.into())).collect())
    }

    /// The documents of some postings that came when one of some shingles was common. The shingles ascend.
    pub fn documents_behind(
        &self,
        context: &Context,
        postings: &PostingFiles,
        shingles: &[Shingle],
        n_documents: u32,
    ) -> Result<DocumentSet, BackfillError> {
        let documents = DocumentSet((0..=n_documents).map(|_| AtomicBool::new(false)).collect());
        let mark = |file: &Arc<RunFile<Posting>>| {
            each_posting_of(context, file, shingles, |posting| {
                if self.is_common_for(posting.shingle(), posting.document()) {
                    documents.0[posting.document().0 as usize].store(true, Relaxed);
                }
            })
        };
        context.run_parallel(postings.iter().collect(), mark, Ok)?;
        Ok(documents)
    }
}

/// Some of all documents, by their numbers.
pub(in crate::backfill) struct DocumentSet(Vec<AtomicBool>);

impl DocumentSet {
    /// Whether a document is in the set.
    pub fn contains(&self, document: DocumentId) -> bool {
        self.0[document.0 as usize].load(Relaxed)
    }
}

/// The job that finds the common shingles, and writes the postings that replace them.
pub(in crate::backfill) fn common_shingles_job(checkpoint: &Checkpoint) -> Result<Job<'static>, BackfillError> {
    let finder = CommonShingleFinder {
        postings: checkpoint.open_dataset(POSTINGS)?,
        super_postings: checkpoint.open_dataset(SUPER_POSTINGS)?,
        segments: checkpoint.ingested().segments.clone(),
        n_documents: checkpoint.ingested().n_documents(),
        rule: checkpoint.rule().clone(),
        part_rows: checkpoint.part_rows(),
    };
    Ok(Job::new("common-shingles", move |context| finder.find(context)))
}

struct CommonShingleFinder {
    postings: PostingFiles,
    super_postings: PostingFiles,
    segments: Vec<Segment>,
    n_documents: u32,
    rule: StoreRule,
    part_rows: u64,
}

/// What a count of the long lists found.
#[derive(Default)]
struct ListCounts {
    /// The shingles whose lists exceed the limit, each with the document that exceeded it.
    since: CommonSince,
    /// The length of every list that exceeds half of the limit.
    lengths: FxHashMap<Shingle, usize>,
}

/// The postings that replace common shingles, and the documents that have too few shingles for it.
#[derive(Default)]
struct Replacements {
    extra_postings: Vec<DatasetFile>,
    shortened_indexes: Vec<DatasetFile>,
}

impl CommonShingleFinder {
    fn find(&self, context: &Context) -> Result<Vec<DatasetFile>, BackfillError> {
        let supers = self.count_lists(context, &self.super_postings)?.since;
        let ListCounts { since: index, lengths } = self.count_lists(context, &self.postings)?;
        let (mut before, mut common) = (CommonShingles::default(), CommonShingles { index, supers });
        let (mut extra_postings, mut shortened_indexes) = (Vec::new(), Vec::new());
        let mut extra = PostingFiles::new();
        for round in 0.. {
            let changed = common.earlier_than(&before);
            if changed.is_empty() {
                break;
            }
            let postings = [self.postings.as_slice(), &extra].concat();
            let affected = common.documents_behind(context, &postings, &changed, self.n_documents)?;
            let replacements = self.replace_common(context, round, [&before, &common], &affected)?;
            for file in &replacements.extra_postings {
                extra.push(EXTRA_POSTINGS.open(&context.folder, &file.file)?);
            }
            extra_postings.extend(replacements.extra_postings);
            shortened_indexes.extend(replacements.shortened_indexes);
            before.index.clone_from(&common.index);
            common.index.extend(self.since_with(context, &lengths, &extra)?);
        }
        let mut files = [extra_postings, shortened_indexes].concat();
        for (dataset, since) in [(COMMON_SHINGLES, &common.index), (COMMON_SUPER_SHINGLES, &common.supers)] {
            let mut sorter = context.sorter(dataset, 0);
            since.iter().try_for_each(|(shingle, since)| sorter.push(Posting::new(*shingle, *since)))?;
            files.extend(sorter.finish()?);
        }
        Ok(files)
    }

    /// Counts the documents of long lists.
    fn count_lists(&self, context: &Context, files: &PostingFiles) -> Result<ListCounts, BackfillError> {
        let limit = self.rule.cluster.common_limit;
        let mut all = ListCounts::default();
        let count = |range| {
            let mut long = Vec::new();
            each_long_list(context, files, range, limit / 2, |shingle, documents| {
                long.push((shingle, documents.len(), documents.get(limit).copied()));
            })?;
            Ok(long)
        };
        context.run_parallel(shingle_ranges(files, self.part_rows), count, |long| {
            for (shingle, length, since) in long {
                all.lengths.insert(shingle, length);
                all.since.extend(since.map(|since| (shingle, since)));
            }
            Ok(())
        })?;
        Ok(all)
    }

    /// The shingles whose lists exceed the limit with extra postings, each with the document that exceeds it. `lengths` are
    /// those of [`ListCounts`].
    fn since_with(
        &self,
        context: &Context,
        lengths: &FxHashMap<Shingle, usize>,
        extra: &PostingFiles,
    ) -> Result<CommonSince, BackfillError> {
        let limit = self.rule.cluster.common_limit;
        let mut grown = Vec::new();
        let may_exceed = |range| {
            let mut found = Vec::new();
            each_list(context, extra, range, |shingle, documents| {
                let length = lengths.get(&shingle).copied().unwrap_or(limit / 2);
                found.extend((length + documents.len() > limit).then_some(shingle));
                Ok(())
            })?;
            Ok(found)
        };
        context.run_parallel(shingle_ranges(extra, self.part_rows), may_exceed, |found| {
            grown.extend(found);
            Ok(())
        })?;
        grown.sort_unstable();
        let files = [self.postings.as_slice(), extra].concat();
        let lists = lists_of(context, &files, &grown, limit + 1)?;
        Ok(lists.into_iter().filter_map(|(shingle, list)| Some((shingle, *list.get(limit)?))).collect())
    }

    /// Indexes the documents that came when some of their shingles were common by others, beside those that index them
    /// since the round before.
    fn replace_common(
        &self,
        context: &Context,
        round: u32,
        [before, now]: [&CommonShingles; 2],
        affected: &DocumentSet,
    ) -> Result<Replacements, BackfillError> {
        let mut all = Replacements::default();
        let replace = |(at, segment): (usize, &Segment)| {
            self.replace_in_segment(context, format!("{round}-{at:04}"), [before, now], affected, segment)
        };
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
        part: String,
        [before, now]: [&CommonShingles; 2],
        affected: &DocumentSet,
        segment: &Segment,
    ) -> Result<Replacements, BackfillError> {
        let n_max = n_index_max(&self.rule.sketch);
        let mut extra_postings = EXTRA_POSTINGS.sorter(&context.folder, &part, context.sorter_bytes());
        let mut shortened_indexes = None;
        each_document_where(
            context,
            &self.rule.sketch,
            segment,
            |document| affected.contains(document),
            |document, candidates| {
                let [before, now] = [before, now].map(|common| common.index_of(document, &candidates, n_max));
                if now.len() < before.len() {
                    let writer = match &mut shortened_indexes {
                        Some(writer) => writer,
                        none => none.insert(SHORTENED_INDEXES.create(&context.folder, &part)?),
                    };
                    writer.push(ShortenedIndex { document, n_index: now.len() as u32 })?;
                }
                let others = now.iter().filter(|shingle| !before.contains(shingle));
                others.into_iter().try_for_each(|shingle| extra_postings.push(Posting::new(*shingle, document)))
            },
        )?;
        Ok(Replacements {
            extra_postings: extra_postings.finish()?,
            shortened_indexes: shortened_indexes.map(DatasetWriter::finish).transpose()?.into_iter().collect(),
        })
    }
}
