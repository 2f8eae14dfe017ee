//! The last phase: every family of the store as sorted files, taken in by a new store as they are.

use super::divide::{
    BY_DOCUMENT, BY_URL, EQUALS, MODS, SUPERS, URLS, divide_pages, each_document, index_candidates, index_size, sorter,
};
use super::error::{BackfillError, io_error};
use super::lists::{Common, Part, Postings, each_list, parts, postings};
use super::means::Means;
use super::rows::{ByDocument, ByUrl, Equal, LinkRow, Posting, Url};
use super::runs::{Merge, Piece, Run, SortedRow, Sorter, cuts};
use super::work::{TakenPiece, Work};
use crate::cluster::{ClusterRow, Clusters, Link};
use crate::document::{FetchTime, Fingerprint};
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
type Write<'a> = Box<dyn FnOnce(&Writing<'_>, &str) -> Result<Vec<Piece>, BackfillError> + Send + 'a>;

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
        work: &Work,
        family: Family,
        (name, is_compressed): (&str, bool),
        put: impl Fn(R, &mut dyn Table) -> Result<(), BackfillError> + Clone + Send + 'a,
    ) -> Result<(), BackfillError> {
        let runs: Vec<Arc<Run<R>>> = work.runs(name, is_compressed)?;
        let parts = parts_between(cuts(&runs, work.part_rows(), R::clone));
        self.tables(family, parts, move |writing, (from, to), table| {
            let mut merge = Merge::new(&runs, from.as_ref(), to)?;
            let mut n = 0u64;
            while let Some(row) = merge.next()? {
                n += 1;
                if n.is_multiple_of(1 << 16) {
                    writing.means.check()?;
                }
                put(row, table)?;
            }
            Ok(())
        });
        Ok(())
    }

    /// Tables of lists of documents.
    fn lists(&mut self, work: &Work, family: Family, runs: Postings) {
        let limit = work.rule().cluster.common_limit;
        self.tables(family, parts(&runs, work.part_rows()), move |writing, part: Part, table| {
            each_list(writing.means, &runs, part, |shingle, documents| {
                let documents = &documents[..documents.len().min(limit + 1)];
                Ok(table.put(LoadRow::List(shingle, documents))?)
            })
        });
    }

    /// Tables of what the sightings of each URL add up to, and sorted files of what is sought.
    fn states(&mut self, work: &Work) -> Result<(), BackfillError> {
        let runs: Vec<Arc<Run<ByUrl>>> = work.runs(BY_URL.0, BY_URL.1)?;
        for (at, part) in parts_between(cuts(&runs, work.part_rows(), first_of_url)).enumerate() {
            let runs = runs.clone();
            let write: Write<'a> = Box::new(move |writing, name| write_states(writing, name, at, &runs, part));
            self.0.push((table_name(Family::States, at), write));
        }
        Ok(())
    }

    /// Does those that are not done.
    fn write(self, work: &mut Work, means: &Means, loader: &dyn Loader) -> Result<(), BackfillError> {
        let jobs = self.0.into_iter().filter(|(name, _)| !work.is_done(name)).collect();
        let writing = Writing { means, loader };
        means.each(
            jobs,
            |(name, write): (String, Write<'a>)| write(&writing, &name).map(|pieces| (name, pieces)),
            |(name, pieces)| work.record(&name, pieces),
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
    means: &'a Means,
    loader: &'a dyn Loader,
}

impl Writing<'_> {
    fn table(
        &self,
        family: Family,
        name: &str,
        fill: impl FnOnce(&mut dyn Table) -> Result<(), BackfillError>,
    ) -> Result<Vec<Piece>, BackfillError> {
        self.means.check()?;
        let path = self.means.folder.join(name);
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
        Ok(vec![Piece { name: name.to_string(), n_bytes, n_rows, checksum: 0 }])
    }
}

fn write_states(
    writing: &Writing<'_>,
    name: &str,
    at: usize,
    runs: &[Arc<Run<ByUrl>>],
    (from, to): (Option<ByUrl>, Option<ByUrl>),
) -> Result<Vec<Piece>, BackfillError> {
    let mut sought: Sorter<'_, MissingUrl> = sorter(writing.means, SOUGHT, at);
    let mut merge = Merge::new(runs, from.as_ref(), to)?;
    let mut pieces = writing.table(Family::States, name, |table| {
        each_history(&mut merge, |url, host, history| {
            let Some(state) = UrlState::of(history, host) else { return Ok(()) };
            table.put(LoadRow::State(url, &state))?;
            MissingUrl::from_state(url, &state).map_or(Ok(()), |now| sought.push(now))
        })
    })?;
    pieces.extend(sought.finish()?);
    Ok(pieces)
}

/// Writes all tables. The clusters and links are those of the phases before.
pub(super) fn write_tables(
    work: &mut Work,
    means: &Means,
    loader: &dyn Loader,
    common: &Common,
    clusters: &Clusters,
    links: &[LinkRow],
) -> Result<(), BackfillError> {
    {
        // In memory no longer than they are needed.
        let rows: Vec<ClusterRow> = clusters.rows().collect();
        let mut links = links.to_vec();
        links.sort_unstable();
        jobs_of_documents(work, common, &rows, &links)?.write(work, means, loader)?;
    }
    divide_pages(work, means)?;
    jobs_of_pages(work)?.write(work, means, loader)?;
    let mut jobs = Jobs::default();
    jobs.merged(work, Family::MissingUrl, SOUGHT, |row: MissingUrl, table| Ok(table.put(LoadRow::MissingUrl(&row))?))?;
    jobs.write(work, means, loader)
}

/// The tables of documents and clusters.
fn jobs_of_documents<'a>(
    work: &Work,
    common: &'a Common,
    rows: &'a [ClusterRow],
    links: &'a [LinkRow],
) -> Result<Jobs<'a>, BackfillError> {
    let mut jobs = Jobs::default();
    jobs.lists(work, Family::Postings, postings(work)?);
    jobs.lists(work, Family::Supers, work.runs(SUPERS.0, SUPERS.1)?);
    jobs.merged(work, Family::ModPostings, MODS, |posting: Posting, table| {
        Ok(table.put(LoadRow::Posting(posting.shingle(), posting.document()))?)
    })?;
    let rule = work.rule().clone();
    jobs.tables(Family::Documents, work.taken().pieces.clone(), move |writing, piece, table| {
        put_documents(writing.means, &rule, common, &piece, table)
    });
    jobs.merged(
        work,
        Family::Equal,
        EQUALS,
        |row: Equal, table| Ok(table.put(LoadRow::Equal(row.key, row.document))?),
    )?;
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
fn jobs_of_pages(work: &Work) -> Result<Jobs<'static>, BackfillError> {
    let mut jobs = Jobs::default();
    jobs.merged(work, Family::Urls, URLS, |row: Url, table| Ok(table.put(LoadRow::Url(row.key, &row.url))?))?;
    jobs.merged(work, Family::Sightings, BY_URL, |row: ByUrl, table| Ok(table.put(LoadRow::Sighting(&row.sighting))?))?;
    jobs.merged(work, Family::SightingsByDocument, BY_DOCUMENT, |row: ByDocument, table| {
        let ByDocument { document, fetched_at, url, sweep } = row;
        let moment = Observation { fetched_at, seen: Seen::Document(document), sweep };
        Ok(table.put(LoadRow::SightingByDocument(document, &StoredSighting { url, moment }))?)
    })?;
    jobs.states(work)?;
    Ok(jobs)
}

/// Where the sightings of a sighting's URL begin.
fn first_of_url(row: &ByUrl) -> ByUrl {
    let moment = Observation { fetched_at: FetchTime(i64::MIN), seen: Seen::Lost, sweep: None };
    ByUrl { sighting: StoredSighting { url: row.sighting.url, moment }, host: row.host }
}

/// Calls `each` with every URL, its host and its sightings.
fn each_history(
    merge: &mut Merge<ByUrl>,
    mut each: impl FnMut(Fingerprint, u64, &[Observation]) -> Result<(), BackfillError>,
) -> Result<(), BackfillError> {
    let mut url: Option<(Fingerprint, u64)> = None;
    let mut history = Vec::new();
    while let Some(ByUrl { sighting, host }) = merge.next()? {
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
    means: &Means,
    rule: &StoreRule,
    common: &Common,
    piece: &TakenPiece,
    table: &mut dyn Table,
) -> Result<(), BackfillError> {
    let path = means.folder.join(&piece.documents.name);
    each_document(means, piece, |document, row| {
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
pub(super) fn tables(work: &Work) -> Vec<(Family, Vec<PathBuf>)> {
    let of = |family: Family| {
        let name = format!("table-{family:?}-").to_lowercase();
        (family, work.pieces(&name).map(|piece| work.folder().join(&piece.name)).collect())
    };
    Family::ALL.into_iter().map(of).collect()
}
