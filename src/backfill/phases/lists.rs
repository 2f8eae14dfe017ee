//! Writes the lists of documents that share a shingle, and finds the first pairs in them.
//!
//! Where a store will be loaded, the same pass over the postings writes its tables of lists: another one would merge them
//! once more.

use super::common_shingles::CommonShingles;
use super::load::ListTables;
use super::partition::{each_document_where, n_index_max};
use super::posting_lists::{PostingFiles, ShingleRange, each_list, open_postings, shingle_ranges};
use crate::backfill::checkpoint::Checkpoint;
use crate::backfill::context::Context;
use crate::backfill::datasets::{
    Dataset, DatasetFile, LISTS, NEIGHBOUR_PAIRS, POSTINGS, REPRESENTATIVE_PAIRS, SUPER_LISTS, SUPER_POSTINGS,
};
use crate::backfill::error::BackfillError;
use crate::backfill::ingest_state::Segment;
use crate::backfill::jobs::Job;
use crate::backfill::rows::{Pair, Posting};
use crate::cluster::{IndexQuery, candidates_by_representatives};
use crate::document::DocumentId;
use crate::ports::{Family, Loader};
use std::sync::Arc;

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

/// The jobs that write lists of two documents or more, and the pairs of neighbours in them; with a loader, also the store's
/// tables of lists.
pub(in crate::backfill) fn list_jobs<'a>(
    checkpoint: &Checkpoint,
    loader: Option<&'a dyn Loader>,
) -> Result<Vec<Job<'a>>, BackfillError> {
    let limit = checkpoint.rule().cluster.common_limit;
    let tables = |family| loader.map(|loader| ListTables::new(loader, family, limit));
    let index = ListSet {
        dataset: LISTS,
        files: open_postings(checkpoint)?,
        n_documents_max: limit + 1,
        is_super: false,
        tables: tables(Family::Postings),
    };
    let supers = ListSet {
        dataset: SUPER_LISTS,
        files: checkpoint.open_dataset(SUPER_POSTINGS)?,
        n_documents_max: usize::MAX,
        is_super: true,
        tables: tables(Family::Supers),
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
struct ListSet<'a> {
    dataset: Dataset<Posting>,
    files: PostingFiles,
    /// The documents of a list that count.
    n_documents_max: usize,
    is_super: bool,
    tables: Option<ListTables<'a>>,
}

impl ListSet<'_> {
    fn write_range(
        &self,
        context: &Context,
        at: usize,
        range: ShingleRange,
    ) -> Result<Vec<DatasetFile>, BackfillError> {
        let mut lists = self.dataset.create(&context.folder, format_args!("{at:04}"))?;
        let part = format!("{}-{at:04}", self.dataset.name());
        let mut pairs = NEIGHBOUR_PAIRS.sorter(&context.folder, part, context.sorter_bytes());
        let each = |shingle, documents: &[DocumentId]| {
            let documents = &documents[..documents.len().min(self.n_documents_max)];
            if documents.len() < 2 {
                return Ok(());
            }
            documents.iter().try_for_each(|document| lists.push(Posting::new(shingle, *document)).map(|_| ()))?;
            neighbours(documents, self.is_super).try_for_each(|pair| pairs.push(pair))
        };
        let mut files = match &self.tables {
            Some(tables) => tables.write(context, at, &self.files, range, each)?,
            None => each_list(context, &self.files, range, each).map(|()| Vec::new())?,
        };
        files.extend(pairs.finish()?);
        files.push(lists.finish()?);
        Ok(files)
    }
}

/// The job that pairs every document with the representatives of its common shingles.
pub(in crate::backfill) fn representative_pairs_job<'a>(
    checkpoint: &Checkpoint,
    common: &'a CommonShingles,
) -> Result<Job<'a>, BackfillError> {
    let rule = checkpoint.rule().clone();
    let (first_postings, postings) = (checkpoint.open_dataset(POSTINGS)?, open_postings(checkpoint)?);
    let (segments, n_documents) = (checkpoint.ingested().segments.clone(), checkpoint.ingested().n_documents());
    Ok(Job::new("representative-pairs", move |context| {
        if common.is_empty() || rule.cluster.ignore_common {
            return Ok(Vec::new());
        }
        let representatives = common.representatives(context, &postings, rule.cluster.common_limit)?;
        let shingles = common.index_shingles();
        // A document has other postings only where one of its first is common.
        let affected = common.documents_behind(context, &first_postings, &shingles, n_documents)?;
        let mut files = Vec::new();
        let pair = |(at, segment): (usize, &Segment)| {
            let mut pairs = context.sorter(REPRESENTATIVE_PAIRS, at);
            each_document_where(
                context,
                &rule.sketch,
                segment,
                |document| affected.contains(document),
                |document, candidates| {
                    let is_common = |shingle| common.is_common_for(shingle, document);
                    let query = IndexQuery::new(&candidates, n_index_max(&rule.sketch), &rule.cluster, is_common);
                    let of_common = query.common.iter().filter_map(|shingle| representatives.get(shingle));
                    let others = candidates_by_representatives(of_common, query.common_needed);
                    others.into_iter().try_for_each(|other| pairs.push(Pair::new(document, other, 0, true)))
                },
            )?;
            pairs.finish()
        };
        context.run_parallel(segments.iter().enumerate().collect(), pair, |written| {
            files.extend(written);
            Ok(())
        })?;
        Ok(files)
    }))
}
