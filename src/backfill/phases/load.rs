//! Writes every family of the store's rows as sorted tables, which a new store loads as they are.

use super::common_shingles::CommonShingles;
use super::partition::{each_indexed_document, n_index_max};
use super::posting_lists::{PostingFiles, ShingleRange, each_list, open_postings, shingle_ranges};
use crate::backfill::checkpoint::Checkpoint;
use crate::backfill::context::{Context, ROWS_PER_STOP_CHECK};
use crate::backfill::datasets::{
    Dataset, DatasetFile, EQUIVALENCES, LISTS, MISSING_URLS, MOD_POSTINGS, SIGHTINGS_BY_DOCUMENT, SIGHTINGS_BY_URL,
    SUPER_POSTINGS, TEXTS, URL_COUNTS, URLS,
};
use crate::backfill::error::{BackfillError, io_error};
use crate::backfill::ingest_state::Segment;
use crate::backfill::jobs::{EarlyJobs, Job, run_jobs};
use crate::backfill::rows::{
    EquivalenceRow, LinkRow, Posting, SightingByDocument, SightingByUrl, TextRow, UrlCount, UrlRow,
};
use crate::cluster::{ClusterRow, Clusters, EqualCluster, Link};
use crate::document::{DocumentId, FetchTime, Fingerprint};
use crate::extsort::{FinishedFile, MergeReader, SortedRow, split_points};
use crate::ports::{
    Family, HistoryCounts, LoadDocument, LoadRow, Loader, MissingUrl, StoreCounts, StoreRule, StoredSighting, Table,
};
use crate::sketch::Shingle;
use crate::sweep::{Observation, Seen, UrlState};
use std::path::PathBuf;
use std::sync::Arc;

/// Rows of a table whose rows are in memory.
const ROWS_PER_TABLE: usize = 4 << 20;

/// The families of lists.
const LIST_FAMILIES: [Family; 2] = [Family::Postings, Family::Supers];

/// The name of a family's tables in the manifest and the report.
fn table_name(family: Family) -> &'static str {
    match family {
        Family::Documents => "table-documents",
        Family::Equal => "table-equal",
        Family::Urls => "table-urls",
        Family::Sightings => "table-sightings",
        Family::SightingsByDocument => "table-standings",
        Family::States => "table-states",
        Family::MissingUrl => "table-missing-urls",
        Family::Clusters => "table-clusters",
        Family::Links => "table-links",
        Family::Postings => "table-postings",
        Family::Supers => "table-supers",
        Family::ModPostings => "table-mod-postings",
        Family::Texts => "table-texts",
    }
}

/// The name of one of a family's tables, and of the job that writes it.
fn part_name(family: Family, at: usize) -> String {
    format!("{}-{at:04}", table_name(family))
}

/// Rows between two split points: from the first, inclusive, to the second, exclusive.
type RowRange<R> = (Option<R>, Option<R>);

/// Jobs that write tables. Jobs of several families run together, so that all threads are busy where a family has one
/// table.
struct TableJobs<'a> {
    loader: &'a dyn Loader,
    jobs: Vec<Job<'a>>,
}

impl<'a> TableJobs<'a> {
    fn new(loader: &'a dyn Loader) -> Self {
        TableJobs { loader, jobs: Vec::new() }
    }

    /// Adds a table for each input, the last of which may be the largest.
    fn add<T: Send + 'a>(
        &mut self,
        family: Family,
        inputs: impl IntoIterator<Item = T, IntoIter: DoubleEndedIterator + ExactSizeIterator>,
        fill: impl Fn(&Context, T, &mut dyn Table) -> Result<(), BackfillError> + Clone + Send + 'a,
    ) {
        let loader = self.loader;
        for (at, input) in inputs.into_iter().enumerate().rev() {
            let fill = fill.clone();
            self.jobs.push(Job::new(part_name(family, at), move |context| {
                write_table(context, loader, family, at, |table| fill(context, input, table))
            }));
        }
    }

    /// Adds tables of the merged rows of a data set.
    fn add_merged<R: SortedRow + Sync + 'a>(
        &mut self,
        checkpoint: &Checkpoint,
        family: Family,
        dataset: Dataset<R>,
        put: impl Fn(R, &mut dyn Table) -> Result<(), BackfillError> + Clone + Send + 'a,
    ) -> Result<(), BackfillError> {
        self.add_ranges(checkpoint, family, dataset, R::clone, move |context, loader, at, merge| {
            write_table(context, loader, family, at, |table| context.each_row(merge, |row| put(row, table)))
        })
    }

    /// Adds tables of lists of documents.
    fn add_lists(&mut self, checkpoint: &Checkpoint, family: Family, files: PostingFiles) {
        let tables = ListTables::new(self.loader, family, checkpoint.rule().cluster.common_limit);
        let files = Arc::new(files);
        for (at, range) in shingle_ranges(&files, checkpoint.part_rows()).into_iter().enumerate() {
            let files = Arc::clone(&files);
            let write = move |context: &Context| tables.write(context, at, &files, range, |_, _| Ok(()));
            self.jobs.push(Job::new(part_name(family, at), write));
        }
    }

    /// Adds jobs that each write tables of a range of a data set's rows, among them one of `family`. `floor` moves a row
    /// down to where a range may begin.
    fn add_ranges<R: SortedRow + Sync + 'a>(
        &mut self,
        checkpoint: &Checkpoint,
        family: Family,
        dataset: Dataset<R>,
        floor: impl Fn(&R) -> R,
        write: impl Fn(&Context, &dyn Loader, usize, MergeReader<R>) -> Result<Vec<DatasetFile>, BackfillError>
        + Clone
        + Send
        + 'a,
    ) -> Result<(), BackfillError> {
        let (loader, files) = (self.loader, checkpoint.open_dataset(dataset)?);
        let ranges = ranges_between(split_points(&files, checkpoint.part_rows(), floor));
        for (at, (from, to)) in ranges.enumerate() {
            let (files, write) = (files.clone(), write.clone());
            self.jobs.push(Job::new(part_name(family, at), move |context| {
                write(context, loader, at, MergeReader::new(&files, from.as_ref(), to)?)
            }));
        }
        Ok(())
    }
}

/// Writes the tables of a family of lists, each of a range of shingles.
#[derive(Clone, Copy)]
pub(super) struct ListTables<'a> {
    loader: &'a dyn Loader,
    family: Family,
    /// The documents of a list that the store holds.
    n_documents_max: usize,
}

impl<'a> ListTables<'a> {
    /// Creates the writer of a family's tables under a common limit.
    pub fn new(loader: &'a dyn Loader, family: Family, common_limit: usize) -> Self {
        ListTables { loader, family, n_documents_max: common_limit + 1 }
    }

    /// Writes table `at`, of the lists of a range, and calls `each` with every list.
    pub fn write(
        &self,
        context: &Context,
        at: usize,
        files: &PostingFiles,
        range: ShingleRange,
        mut each: impl FnMut(Shingle, &[DocumentId]) -> Result<(), BackfillError>,
    ) -> Result<Vec<DatasetFile>, BackfillError> {
        write_table(context, self.loader, self.family, at, |table| {
            each_list(context, files, range, |shingle, documents| {
                let kept = &documents[..documents.len().min(self.n_documents_max)];
                table.put(LoadRow::List(shingle, kept))?;
                each(shingle, documents)
            })
        })
    }
}

/// The ranges between split points.
fn ranges_between<R: Clone>(points: Vec<R>) -> impl Iterator<Item = RowRange<R>> {
    let tos = points.clone().into_iter().map(Some).chain([None]);
    std::iter::once(None).chain(points.into_iter().map(Some)).zip(tos)
}

/// Writes table `at` of a family. Without a row there is none.
fn write_table(
    context: &Context,
    loader: &dyn Loader,
    family: Family,
    at: usize,
    fill: impl FnOnce(&mut dyn Table) -> Result<(), BackfillError>,
) -> Result<Vec<DatasetFile>, BackfillError> {
    context.check_stop()?;
    let name = part_name(family, at);
    let path = context.folder.join(&name);
    // A killed run may have left an unfinished table.
    if path.exists() {
        std::fs::remove_file(&path).map_err(io_error(&path))?;
    }
    let mut table = loader.table(family, &path)?;
    fill(table.as_mut())?;
    let n_rows = table.finish()?;
    if n_rows == 0 {
        return Ok(Vec::new());
    }
    let n_bytes = path.metadata().map_err(io_error(&path))?.len();
    // The table's blocks have checksums, which the store verifies at every read. The file needs none of its own.
    let file = FinishedFile { name, n_bytes, n_rows, checksum: 0 };
    Ok(vec![DatasetFile { dataset: table_name(family).to_string(), file }])
}

/// Writes tables of the sightings and the state of each URL, and sorts the URLs that miss a page.
fn write_histories(
    context: &Context,
    loader: &dyn Loader,
    at: usize,
    merge: MergeReader<SightingByUrl>,
) -> Result<Vec<DatasetFile>, BackfillError> {
    let mut missing_urls = context.sorter(MISSING_URLS, at);
    let mut written = Vec::new();
    let sightings = write_table(context, loader, Family::Sightings, at, |sightings| {
        written = write_table(context, loader, Family::States, at, |states| {
            let put = |sighting: &StoredSighting| Ok(sightings.put(LoadRow::Sighting(sighting))?);
            each_history(context, merge, put, |url, host, history| {
                let Some(state) = UrlState::from_history(history, host) else { return Ok(()) };
                states.put(LoadRow::State(url, &state))?;
                MissingUrl::from_state(url, &state).map_or(Ok(()), |missing| missing_urls.push(missing))
            })
        })?;
        Ok(())
    })?;
    written.extend(sightings);
    written.extend(missing_urls.finish()?);
    Ok(written)
}

/// Writes a table of the sightings of each document, and counts the URLs of each.
fn write_standings(
    context: &Context,
    loader: &dyn Loader,
    at: usize,
    merge: MergeReader<SightingByDocument>,
) -> Result<Vec<DatasetFile>, BackfillError> {
    let mut url_counts = URL_COUNTS.create(&context.folder, format_args!("{at:04}"))?;
    let mut written = write_table(context, loader, Family::SightingsByDocument, at, |table| {
        let (mut current, mut urls) = (None, Vec::new());
        let mut end = |document: Option<DocumentId>, urls: &mut Vec<Fingerprint>| {
            urls.sort_unstable();
            urls.dedup();
            let n_urls = urls.len() as u32;
            urls.clear();
            let counted = document.filter(|_| n_urls > 1).map(|document| UrlCount { document, n_urls });
            counted.map_or(Ok(()), |counted| url_counts.push(counted).map(|_| ()))
        };
        context.each_row(merge, |SightingByDocument { document, fetched_at, url, sweep }| {
            if current != Some(document) {
                end(current.replace(document), &mut urls)?;
            }
            urls.push(url);
            let moment = Observation { fetched_at, seen: Seen::Document(document), sweep };
            Ok(table.put(LoadRow::SightingByDocument(document, &StoredSighting { url, moment }))?)
        })?;
        end(current, &mut urls)
    })?;
    written.push(url_counts.finish()?);
    Ok(written)
}

/// The jobs that write tables which no pair of documents changes.
pub(in crate::backfill) fn early_table_jobs<'a>(
    checkpoint: &Checkpoint,
    loader: &'a dyn Loader,
    common: &Arc<CommonShingles>,
) -> Result<Vec<Job<'a>>, BackfillError> {
    // The jobs of pages are few and long in a small batch, and begin first.
    let mut jobs = page_table_jobs(checkpoint, loader)?;
    jobs.extend(document_table_jobs(checkpoint, loader, common)?);
    Ok(jobs)
}

/// Writes all tables but those that the jobs of [`super::lists`] wrote: what is left of the early ones, and all others.
pub(in crate::backfill) fn write_tables<'a>(
    checkpoint: &mut Checkpoint,
    context: &Context,
    loader: &'a dyn Loader,
    early: EarlyJobs<'_, 'a>,
    clusters: &Clusters,
    links: &[LinkRow],
) -> Result<(), BackfillError> {
    let context = &context.with_waiting_threads();
    {
        let rows: Vec<ClusterRow> = clusters.rows().collect();
        let mut links = links.to_vec();
        links.sort_unstable();
        let mut jobs: Vec<Job<'_>> = early.take_left();
        jobs.extend(cluster_table_jobs(loader, &rows, &links));
        if !has_lists(checkpoint) {
            jobs.extend(list_table_jobs(checkpoint, loader)?);
        }
        run_jobs(jobs, checkpoint, context)?;
    }
    early.join(checkpoint)?;
    run_jobs(missing_url_table_jobs(checkpoint, loader)?, checkpoint, context)
}

/// Whether the lists are written, and their tables with them: wherever links were not given.
fn has_lists(checkpoint: &Checkpoint) -> bool {
    checkpoint.files_of(LISTS.name()).next().is_some()
}

/// The jobs that write the tables of lists.
fn list_table_jobs<'a>(checkpoint: &Checkpoint, loader: &'a dyn Loader) -> Result<Vec<Job<'a>>, BackfillError> {
    let mut tables = TableJobs::new(loader);
    tables.add_lists(checkpoint, Family::Postings, open_postings(checkpoint)?);
    tables.add_lists(checkpoint, Family::Supers, checkpoint.open_dataset(SUPER_POSTINGS)?);
    Ok(tables.jobs)
}

/// The jobs that write the tables of documents.
fn document_table_jobs<'a>(
    checkpoint: &Checkpoint,
    loader: &'a dyn Loader,
    common: &Arc<CommonShingles>,
) -> Result<Vec<Job<'a>>, BackfillError> {
    let mut tables = TableJobs::new(loader);
    tables.add_merged(checkpoint, Family::Equal, EQUIVALENCES, |row: EquivalenceRow, table| {
        Ok(table.put(LoadRow::Equal(row.key, row.document))?)
    })?;
    tables.add_merged(checkpoint, Family::ModPostings, MOD_POSTINGS, |posting: Posting, table| {
        Ok(table.put(LoadRow::Posting(posting.shingle(), posting.document()))?)
    })?;
    let (rule, common) = (checkpoint.rule().clone(), Arc::clone(common));
    tables.add(Family::Documents, checkpoint.ingested().segments.clone(), move |context, segment, table| {
        put_documents(context, &rule, &common, &segment, table)
    });
    tables.add(Family::Texts, checkpoint.ingested().segments.clone(), put_texts);
    Ok(tables.jobs)
}

/// The jobs that write the tables of clusters.
fn cluster_table_jobs<'a>(loader: &'a dyn Loader, rows: &'a [ClusterRow], links: &'a [LinkRow]) -> Vec<Job<'a>> {
    let mut tables = TableJobs::new(loader);
    tables.add(Family::Clusters, rows.chunks(ROWS_PER_TABLE), |_, rows: &[ClusterRow], table| {
        rows.iter().try_for_each(|row| Ok(table.put(LoadRow::Cluster(row))?))
    });
    tables.add(Family::Links, links.chunks(ROWS_PER_TABLE), |_, links: &[LinkRow], table| {
        links.iter().try_for_each(|link| {
            let link = Link { document: link.later, to: link.earlier, resemblance: link.resemblance };
            Ok(table.put(LoadRow::Link(&link))?)
        })
    });
    tables.jobs
}

/// The jobs that write the tables of URLs and sightings.
fn page_table_jobs<'a>(checkpoint: &Checkpoint, loader: &'a dyn Loader) -> Result<Vec<Job<'a>>, BackfillError> {
    let mut tables = TableJobs::new(loader);
    tables.add_merged(checkpoint, Family::Urls, URLS, |row: UrlRow, table| {
        Ok(table.put(LoadRow::Url(row.key, &row.url))?)
    })?;
    tables.add_ranges(
        checkpoint,
        Family::SightingsByDocument,
        SIGHTINGS_BY_DOCUMENT,
        first_of_document,
        write_standings,
    )?;
    tables.add_ranges(checkpoint, Family::States, SIGHTINGS_BY_URL, first_of_url, write_histories)?;
    Ok(tables.jobs)
}

/// The jobs that write the tables of URLs that miss a page. The jobs of [`page_table_jobs`] have sorted their rows.
fn missing_url_table_jobs<'a>(checkpoint: &Checkpoint, loader: &'a dyn Loader) -> Result<Vec<Job<'a>>, BackfillError> {
    let mut tables = TableJobs::new(loader);
    tables.add_merged(checkpoint, Family::MissingUrl, MISSING_URLS, |row: MissingUrl, table| {
        Ok(table.put(LoadRow::MissingUrl(&row))?)
    })?;
    Ok(tables.jobs)
}

/// The first row that the sightings of a URL can have.
fn first_of_url(row: &SightingByUrl) -> SightingByUrl {
    let moment = Observation { fetched_at: FetchTime(i64::MIN), seen: Seen::Lost, sweep: None };
    SightingByUrl { sighting: StoredSighting { url: row.sighting.url, moment }, host: row.host }
}

/// The first row that the sightings of a document can have.
fn first_of_document(row: &SightingByDocument) -> SightingByDocument {
    let SightingByDocument { document, .. } = *row;
    SightingByDocument { document, fetched_at: FetchTime(i64::MIN), url: Fingerprint(0), sweep: None }
}

/// Calls `each` with every sighting, and `end` with every URL, its host and its sightings.
fn each_history(
    context: &Context,
    merge: MergeReader<SightingByUrl>,
    mut each: impl FnMut(&StoredSighting) -> Result<(), BackfillError>,
    mut end: impl FnMut(Fingerprint, u64, &[Observation]) -> Result<(), BackfillError>,
) -> Result<(), BackfillError> {
    let mut current: Option<(Fingerprint, u64)> = None;
    let mut history = Vec::new();
    context.each_row(merge, |SightingByUrl { sighting, host }| {
        each(&sighting)?;
        if let Some((url, host)) = current.filter(|(url, _)| *url != sighting.url) {
            end(url, host, &history)?;
            history.clear();
        }
        current = Some((sighting.url, host));
        history.push(sighting.moment);
        Ok(())
    })?;
    current.map_or(Ok(()), |(url, host)| end(url, host, &history))
}

fn put_documents(
    context: &Context,
    rule: &StoreRule,
    common: &CommonShingles,
    segment: &Segment,
    table: &mut dyn Table,
) -> Result<(), BackfillError> {
    each_indexed_document(context, &rule.sketch, segment, |document, row, candidates| {
        let mut super_shingles = row.super_shingles;
        super_shingles.retain(|shingle| !common.is_super_full_for(*shingle, document));
        let loaded = LoadDocument {
            document,
            first_url: row.first_url,
            index: &common.index_of(document, &candidates, n_index_max(&rule.sketch)),
            super_shingles: &super_shingles,
            mod_shingles: &row.mod_shingles,
            n_words: row.n_words,
            n_bytes: row.n_bytes,
            sketch: &row.sketch,
        };
        Ok(table.put(LoadRow::Document(&loaded))?)
    })
}

fn put_texts(context: &Context, segment: Segment, table: &mut dyn Table) -> Result<(), BackfillError> {
    let mut rows = TEXTS.open(&context.folder, &segment.texts)?.read_all();
    while let Some(TextRow { document, text }) = rows.next_row()? {
        if u64::from(document.0).is_multiple_of(ROWS_PER_STOP_CHECK) {
            context.check_stop()?;
        }
        table.put(LoadRow::Text(document, &text))?;
    }
    Ok(())
}

/// The tables of some families.
pub(in crate::backfill) type FamilyTables = Vec<(Family, Vec<PathBuf>)>;

/// The tables that are ingested as soon as the lists are written: those of lists, where the filter that they get takes little of
/// the memory that the phases after that need.
pub(in crate::backfill) fn first_tables(checkpoint: &Checkpoint, context: &Context) -> FamilyTables {
    let come_first = lists_come_first(checkpoint, context);
    tables(checkpoint, |family| come_first && LIST_FAMILIES.contains(&family))
}

/// The tables of all families, without those of [`first_tables`].
pub(in crate::backfill) fn other_tables(checkpoint: &Checkpoint, context: &Context) -> FamilyTables {
    let come_first = lists_come_first(checkpoint, context);
    tables(checkpoint, |family| !(come_first && LIST_FAMILIES.contains(&family)))
}

fn lists_come_first(checkpoint: &Checkpoint, context: &Context) -> bool {
    let n_bytes = |family| checkpoint.files_of(table_name(family)).map(|file| file.n_bytes).sum::<u64>();
    has_lists(checkpoint) && LIST_FAMILIES.map(n_bytes).into_iter().sum::<u64>() <= context.memory / 16
}

fn tables(checkpoint: &Checkpoint, is_wanted: impl Fn(Family) -> bool) -> FamilyTables {
    let tables_of = |family: Family| {
        let files = checkpoint.files_of(table_name(family));
        (family, files.map(|file| checkpoint.folder().join(&file.name)).collect())
    };
    Family::ALL.into_iter().filter(|family| is_wanted(*family)).map(tables_of).collect()
}

/// What the tables add up to, and the documents that stand alone at several URLs, which `clusters` then knows.
pub(in crate::backfill) fn counts(
    checkpoint: &Checkpoint,
    clusters: &mut Clusters,
) -> Result<(StoreCounts, Vec<EqualCluster>), BackfillError> {
    let n_rows = |family: Family| checkpoint.files_of(table_name(family)).map(|file| file.n_rows).sum::<u64>();
    let n_sightings = n_rows(Family::SightingsByDocument);
    let n_gone = n_rows(Family::Sightings) - n_sightings;
    let history = HistoryCounts { n_urls: n_rows(Family::States), n_sightings, n_gone };
    let mut alone = Vec::new();
    for file in checkpoint.open_dataset(URL_COUNTS)? {
        let mut rows = file.read_all();
        while let Some(UrlCount { document, n_urls }) = rows.next_row()? {
            if clusters.size_of(document) == 1 {
                alone.push(EqualCluster { document, n_urls });
            }
        }
    }
    clusters.restore_equal(alone.iter().copied());
    Ok((StoreCounts { history, clusters: clusters.counts() }, alone))
}
