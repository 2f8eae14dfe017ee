//! The last phase: every family of the store as sorted files, taken in by a new store as they are.

use crate::backfill::checkpoint::{Checkpoint, Segment};
use crate::backfill::context::Context;
use crate::backfill::error::{BackfillError, io_error};
use crate::backfill::phases::lists::{CommonShingles, Part, Postings, each_list, parts, postings};
use crate::backfill::phases::partition::{
    BY_DOCUMENT, BY_URL, EQUALS, MODS, SUPERS, URLS, divide_pages, each_document, index_candidates, index_size, sorter,
};
use crate::backfill::rows::{EquivalenceRow, LinkRow, Posting, SightingByDocument, SightingByUrl, UrlRow};
use crate::cluster::{ClusterRow, Clusters, Link};
use crate::document::{FetchTime, Fingerprint};
use crate::extsort::{FinishedFile, MergeReader, RunFile, SortedRow, Sorter, split_points};
use crate::ports::{Family, LoadDocument, LoadRow, Loader, MissingUrl, StoreRule, StoredSighting, Table};
use crate::sweep::{Observation, Seen, UrlState};
use std::path::PathBuf;
use std::sync::Arc;

/// Rows that are known in memory are written so many to a file.
const ROWS_A_TABLE: usize = 4 << 20;

/// URLs that are sought, sorted.
const SOUGHT: (&str, bool) = ("sought", false);

/// Tables that were written, as jobs are recorded: `table-FAMILY-…`.
fn table_name(family: Family, at: usize) -> String {
    format!("table-{family:?}-{at:04}").to_lowercase()
}

/// What is written by a job: one table, and sorted files that come of the same rows.
type Write<'a> = Box<dyn FnOnce(&Writing<'_>, &str) -> Result<Vec<FinishedFile>, BackfillError> + Send + 'a>;

/// Jobs of many families, so that all threads are busy also where each family is one table.
#[derive(Default)]
struct Jobs<'a>(Vec<(String, Write<'a>)>);

impl<'a> Jobs<'a> {
    /// A table of a family of each of some inputs.
    fn tables<T: Send + 'a>(
        &mut self,
        family: Family,
        inputs: impl IntoIterator<Item = T>,
        fill: impl Fn(&Writing<'_>, T, &mut dyn Table) -> Result<(), BackfillError> + Clone + Send + 'a,
    ) {
        for (at, input) in inputs.into_iter().enumerate() {
            let fill = fill.clone();
            let write: Write<'a> =
                Box::new(move |writing, name| writing.table(family, name, |table| fill(writing, input, table)));
            self.0.push((table_name(family, at), write));
        }
    }

    /// Tables of the rows of sorted files.
    fn merged<R: SortedRow + Sync + 'a>(
        &mut self,
        checkpoint: &Checkpoint,
        family: Family,
        (name, is_compressed): (&str, bool),
        put: impl Fn(R, &mut dyn Table) -> Result<(), BackfillError> + Clone + Send + 'a,
    ) -> Result<(), BackfillError> {
        let runs: Vec<Arc<RunFile<R>>> = checkpoint.runs(name, is_compressed)?;
        let parts = parts_between(split_points(&runs, checkpoint.part_rows(), R::clone));
        self.tables(family, parts, move |writing, (from, to), table| {
            let mut merge = MergeReader::new(&runs, from.as_ref(), to)?;
            let mut n = 0u64;
            while let Some(row) = merge.next()? {
                n += 1;
                if n.is_multiple_of(1 << 16) {
                    writing.context.check()?;
                }
                put(row, table)?;
            }
            Ok(())
        });
        Ok(())
    }

    /// Tables of lists of documents.
    fn lists(&mut self, checkpoint: &Checkpoint, family: Family, runs: Postings) {
        let limit = checkpoint.rule().cluster.common_limit;
        self.tables(family, parts(&runs, checkpoint.part_rows()), move |writing, part: Part, table| {
            each_list(writing.context, &runs, part, |shingle, documents| {
                let documents = &documents[..documents.len().min(limit + 1)];
                Ok(table.put(LoadRow::List(shingle, documents))?)
            })
        });
    }

    /// Tables of what the sightings of each URL add up to, and sorted files of what is sought.
    fn states(&mut self, checkpoint: &Checkpoint) -> Result<(), BackfillError> {
        let runs: Vec<Arc<RunFile<SightingByUrl>>> = checkpoint.runs(BY_URL.0, BY_URL.1)?;
        for (at, part) in parts_between(split_points(&runs, checkpoint.part_rows(), first_of_url)).enumerate() {
            let runs = runs.clone();
            let write: Write<'a> = Box::new(move |writing, name| write_states(writing, name, at, &runs, part));
            self.0.push((table_name(Family::States, at), write));
        }
        Ok(())
    }

    /// Does those that are not done.
    fn write(self, checkpoint: &mut Checkpoint, context: &Context, loader: &dyn Loader) -> Result<(), BackfillError> {
        let jobs = self.0.into_iter().filter(|(name, _)| !checkpoint.is_done(name)).collect();
        let writing = Writing { context, loader };
        context.each(
            jobs,
            |(name, write): (String, Write<'a>)| write(&writing, &name).map(|pieces| (name, pieces)),
            |(name, pieces)| checkpoint.record(&name, pieces),
        )
    }
}

/// The parts that some cuts make.
fn parts_between<R: Clone>(cuts: Vec<R>) -> impl Iterator<Item = (Option<R>, Option<R>)> {
    let tos = cuts.clone().into_iter().map(Some).chain([None]);
    std::iter::once(None).chain(cuts.into_iter().map(Some)).zip(tos)
}

/// What writes a table.
struct Writing<'a> {
    context: &'a Context,
    loader: &'a dyn Loader,
}

impl Writing<'_> {
    fn table(
        &self,
        family: Family,
        name: &str,
        fill: impl FnOnce(&mut dyn Table) -> Result<(), BackfillError>,
    ) -> Result<Vec<FinishedFile>, BackfillError> {
        self.context.check()?;
        let path = self.context.folder.join(name);
        // A table that was not finished may be there.
        if path.exists() {
            std::fs::remove_file(&path).map_err(io_error(&path))?;
        }
        let mut table = self.loader.table(family, &path)?;
        fill(table.as_mut())?;
        let n_rows = table.finish()?;
        if n_rows == 0 {
            return Ok(Vec::new());
        }
        let n_bytes = path.metadata().map_err(io_error(&path))?.len();
        // Its blocks have checksums of their own, which the store looks at whenever it reads one.
        Ok(vec![FinishedFile { name: name.to_string(), n_bytes, n_rows, checksum: 0 }])
    }
}

fn write_states(
    writing: &Writing<'_>,
    name: &str,
    at: usize,
    runs: &[Arc<RunFile<SightingByUrl>>],
    (from, to): (Option<SightingByUrl>, Option<SightingByUrl>),
) -> Result<Vec<FinishedFile>, BackfillError> {
    let mut sought: Sorter<'_, MissingUrl> = sorter(writing.context, SOUGHT, at);
    let mut merge = MergeReader::new(runs, from.as_ref(), to)?;
    let mut pieces = writing.table(Family::States, name, |table| {
        each_history(&mut merge, |url, host, history| {
            let Some(state) = UrlState::of(history, host) else { return Ok(()) };
            table.put(LoadRow::State(url, &state))?;
            Ok(MissingUrl::of(url, &state).map_or(Ok(()), |now| sought.push(now))?)
        })
    })?;
    pieces.extend(sought.finish()?);
    Ok(pieces)
}

/// Writes all tables. The clusters and links are those of the phases before.
pub(in crate::backfill) fn write_tables(
    checkpoint: &mut Checkpoint,
    context: &Context,
    loader: &dyn Loader,
    common: &CommonShingles,
    clusters: &Clusters,
    links: &[LinkRow],
) -> Result<(), BackfillError> {
    {
        // In memory no longer than they are needed.
        let rows: Vec<ClusterRow> = clusters.rows().collect();
        let mut links = links.to_vec();
        links.sort_unstable();
        jobs_of_documents(checkpoint, common, &rows, &links)?.write(checkpoint, context, loader)?;
    }
    divide_pages(checkpoint, context)?;
    jobs_of_pages(checkpoint)?.write(checkpoint, context, loader)?;
    let mut jobs = Jobs::default();
    jobs.merged(checkpoint, Family::MissingUrl, SOUGHT, |row: MissingUrl, table| {
        Ok(table.put(LoadRow::MissingUrl(&row))?)
    })?;
    jobs.write(checkpoint, context, loader)
}

/// The tables of documents and clusters.
fn jobs_of_documents<'a>(
    checkpoint: &Checkpoint,
    common: &'a CommonShingles,
    rows: &'a [ClusterRow],
    links: &'a [LinkRow],
) -> Result<Jobs<'a>, BackfillError> {
    let mut jobs = Jobs::default();
    jobs.lists(checkpoint, Family::Postings, postings(checkpoint)?);
    jobs.lists(checkpoint, Family::Supers, checkpoint.runs(SUPERS.0, SUPERS.1)?);
    jobs.merged(checkpoint, Family::ModPostings, MODS, |posting: Posting, table| {
        Ok(table.put(LoadRow::Posting(posting.shingle(), posting.document()))?)
    })?;
    let rule = checkpoint.rule().clone();
    jobs.tables(Family::Documents, checkpoint.ingested().pieces.clone(), move |writing, piece, table| {
        put_documents(writing.context, &rule, common, &piece, table)
    });
    jobs.merged(checkpoint, Family::Equal, EQUALS, |row: EquivalenceRow, table| {
        Ok(table.put(LoadRow::Equal(row.key, row.document))?)
    })?;
    jobs.tables(Family::Clusters, rows.chunks(ROWS_A_TABLE), |_, rows: &[ClusterRow], table| {
        rows.iter().try_for_each(|row| Ok(table.put(LoadRow::Cluster(row))?))
    });
    jobs.tables(Family::Links, links.chunks(ROWS_A_TABLE), |_, links: &[LinkRow], table| {
        links.iter().try_for_each(|link| {
            let link = Link { document: link.later, to: link.earlier, resemblance: link.resemblance };
            Ok(table.put(LoadRow::Link(&link))?)
        })
    });
    Ok(jobs)
}

/// The tables of what stood where.
fn jobs_of_pages(checkpoint: &Checkpoint) -> Result<Jobs<'static>, BackfillError> {
    let mut jobs = Jobs::default();
    jobs.merged(checkpoint, Family::Urls, URLS, |row: UrlRow, table| Ok(table.put(LoadRow::Url(row.key, &row.url))?))?;
    jobs.merged(checkpoint, Family::Sightings, BY_URL, |row: SightingByUrl, table| {
        Ok(table.put(LoadRow::Sighting(&row.sighting))?)
    })?;
    jobs.merged(checkpoint, Family::Standings, BY_DOCUMENT, |row: SightingByDocument, table| {
        let SightingByDocument { document, fetched_at, url, sweep } = row;
        let moment = Observation { fetched_at, seen: Seen::Document(document), sweep };
        Ok(table.put(LoadRow::Standing(document, &StoredSighting { url, moment }))?)
    })?;
    jobs.states(checkpoint)?;
    Ok(jobs)
}

/// Where the sightings of a sighting's URL begin.
fn first_of_url(row: &SightingByUrl) -> SightingByUrl {
    let moment = Observation { fetched_at: FetchTime(i64::MIN), seen: Seen::Lost, sweep: None };
    SightingByUrl { sighting: StoredSighting { url: row.sighting.url, moment }, host: row.host }
}

/// Calls `each` with every URL, its host and its sightings.
fn each_history(
    merge: &mut MergeReader<SightingByUrl>,
    mut each: impl FnMut(Fingerprint, u64, &[Observation]) -> Result<(), BackfillError>,
) -> Result<(), BackfillError> {
    let mut url: Option<(Fingerprint, u64)> = None;
    let mut history = Vec::new();
    while let Some(SightingByUrl { sighting, host }) = merge.next()? {
        if let Some((url, host)) = url.filter(|(url, _)| *url != sighting.url) {
            each(url, host, &history)?;
            history.clear();
        }
        url = Some((sighting.url, host));
        history.push(sighting.moment);
    }
    url.map_or(Ok(()), |(url, host)| each(url, host, &history))
}

fn put_documents(
    context: &Context,
    rule: &StoreRule,
    common: &CommonShingles,
    piece: &Segment,
    table: &mut dyn Table,
) -> Result<(), BackfillError> {
    let path = context.folder.join(&piece.documents.name);
    each_document(context, piece, |document, row| {
        let candidates = index_candidates(&row, &rule.sketch).ok_or_else(|| BackfillError::Damaged(path.clone()))?;
        let mut super_shingles = row.super_shingles;
        super_shingles.retain(|shingle| !common.is_super_for(*shingle, document));
        let loaded = LoadDocument {
            document,
            first_url: row.first_url,
            index: &common.index_of(document, &candidates, index_size(&rule.sketch)),
            super_shingles: &super_shingles,
            mod_shingles: &row.mod_shingles,
            n_words: row.n_words,
            n_bytes: row.n_bytes,
            sketch: &row.sketch,
        };
        Ok(table.put(LoadRow::Document(&loaded))?)
    })
}

/// The tables that were written, family by family.
pub(in crate::backfill) fn tables(checkpoint: &Checkpoint) -> Vec<(Family, Vec<PathBuf>)> {
    let of = |family: Family| {
        let name = format!("table-{family:?}").to_lowercase();
        (family, checkpoint.pieces(&name).map(|piece| checkpoint.folder().join(&piece.name)).collect())
    };
    Family::ALL.into_iter().map(of).collect()
}
