//! The last phase: every family of the store as sorted files, taken in by a new store as they are.

use super::divide::{
    self, BY_DOCUMENT, BY_URL, EQUALS, MODS, SUPERS, Share, URLS, each_document, index_candidates, index_size, sorter,
};
use super::error::{BackfillError, io_error};
use super::lists::{Common, Part, Postings, each_list, parts, postings};
use super::means::Means;
use super::rows::{ByDocument, ByUrl, Equal, LinkRow, Posting, Url};
use super::runs::{Merge, Piece, Run, SortedRow, Sorter, cuts};
use super::work::{TakenPiece, Work};
use crate::cluster::{ClusterRow, Clusters, Link, NewDocument};
use crate::document::{FetchTime, Fingerprint};
use crate::ports::{Family, LoadRow, Loader, Sought, StoreRule, StoredSighting, Table};
use crate::sketch::decode;
use crate::sweep::{Moment, Seen, UrlState};
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

/// Writes one table.
struct Writing<'a> {
    means: &'a Means,
    loader: &'a dyn Loader,
}

impl Writing<'_> {
    fn table(
        &self,
        family: Family,
        at: usize,
        fill: impl FnOnce(&mut dyn Table) -> Result<(), BackfillError>,
    ) -> Result<(String, Vec<Piece>), BackfillError> {
        self.means.check()?;
        let name = table_name(family, at);
        let path = self.means.folder.join(&name);
        // A table that was not finished may be there.
        if path.exists() {
            std::fs::remove_file(&path).map_err(io_error(&path))?;
        }
        let mut table = self.loader.table(family, &path)?;
        fill(table.as_mut())?;
        let n_rows = table.finish()?;
        if n_rows == 0 {
            return Ok((name, Vec::new()));
        }
        let n_bytes = path.metadata().map_err(io_error(&path))?.len();
        // Finished, it is durable. Its blocks have checksums of their own, which the store looks at whenever it reads one.
        let piece = Piece { name: name.clone(), n_bytes, n_rows, checksum: 0 };
        Ok((name, vec![piece]))
    }

    /// Writes tables of a family, one for each job, unless they are written.
    fn tables<J: Send>(
        &self,
        work: &mut Work,
        family: Family,
        jobs: Vec<J>,
        fill: impl Fn(J, &mut dyn Table) -> Result<(), BackfillError> + Sync,
    ) -> Result<(), BackfillError> {
        let jobs = jobs.into_iter().enumerate().filter(|(at, _)| !work.is_done(&table_name(family, *at))).collect();
        self.means.each(
            jobs,
            |(at, job)| self.table(family, at, |table| fill(job, table)),
            |(name, pieces)| work.record(&name, pieces),
        )
    }

    /// Writes tables of the rows of sorted files.
    fn merged<R: SortedRow + Sync>(
        &self,
        work: &mut Work,
        family: Family,
        (name, is_compressed): (&str, bool),
        put: impl Fn(R, &mut dyn Table) -> Result<(), BackfillError> + Sync,
    ) -> Result<(), BackfillError> {
        let runs: Vec<Arc<Run<R>>> = work.runs(name, is_compressed)?;
        let cuts = cuts(&runs, work.part_rows(), R::clone);
        let froms = std::iter::once(None).chain(cuts.iter().cloned().map(Some));
        let parts: Vec<(Option<R>, Option<R>)> = froms.zip(cuts.iter().cloned().map(Some).chain([None])).collect();
        self.tables(work, family, parts, |(from, to), table| {
            let mut merge = Merge::new(&runs, from.as_ref(), to)?;
            let mut n = 0u64;
            while let Some(row) = merge.next()? {
                n += 1;
                if n.is_multiple_of(1 << 16) {
                    self.means.check()?;
                }
                put(row, table)?;
            }
            Ok(())
        })
    }

    /// Writes tables of what the sightings of each URL add up to, and sorted files of what is sought.
    fn states(&self, work: &mut Work) -> Result<(), BackfillError> {
        let family = Family::States;
        let runs: Vec<Arc<Run<ByUrl>>> = work.runs(BY_URL.0, BY_URL.1)?;
        let cuts = cuts(&runs, work.part_rows(), first_of_url);
        let froms = std::iter::once(None).chain(cuts.iter().cloned().map(Some));
        let parts = froms.zip(cuts.iter().cloned().map(Some).chain([None])).enumerate();
        let parts = parts.filter(|(at, _)| !work.is_done(&table_name(family, *at))).collect();
        self.means.each(
            parts,
            |(at, (from, to))| {
                let mut sought: Sorter<'_, Sought> = sorter(self.means, SOUGHT, at);
                let mut merge = Merge::new(&runs, from.as_ref(), to)?;
                let (name, mut pieces) = self.table(family, at, |table| {
                    each_history(&mut merge, |url, host, history| {
                        let Some(state) = UrlState::of(history, host) else { return Ok(()) };
                        table.put(LoadRow::State(url, &state))?;
                        Sought::of(url, &state).map_or(Ok(()), |now| sought.push(now))
                    })
                })?;
                pieces.extend(sought.finish()?);
                Ok((name, pieces))
            },
            |(name, pieces)| work.record(&name, pieces),
        )
    }

    /// Writes tables of lists of documents.
    fn lists(&self, work: &mut Work, family: Family, runs: &Postings) -> Result<(), BackfillError> {
        let limit = work.rule().cluster.common_limit;
        let parts: Vec<Part> = parts(runs, work.part_rows());
        self.tables(work, family, parts, |part, table| {
            each_list(self.means, runs, part, |shingle, documents| {
                let documents = &documents[..documents.len().min(limit + 1)];
                Ok(table.put(LoadRow::List(shingle, documents))?)
            })
        })
    }
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
    let writing = Writing { means, loader };
    let rule = work.rule().clone();
    writing.lists(work, Family::Postings, &postings(work)?)?;
    writing.lists(work, Family::Supers, &work.runs(SUPERS.0, SUPERS.1)?)?;
    if rule.sketch.index_modulus > 0 {
        writing.merged(work, Family::ModPostings, MODS, |posting: Posting, table| {
            Ok(table.put(LoadRow::Posting(posting.shingle(), posting.document()))?)
        })?;
    }
    let pieces = work.taken().pieces.clone();
    writing
        .tables(work, Family::Documents, pieces, |piece, table| put_documents(means, &rule, common, &piece, table))?;
    divide::divide(work, means, Share::Equivalences)?;
    writing.merged(work, Family::Equal, EQUALS, |row: Equal, table| {
        Ok(table.put(LoadRow::Equal(row.key, row.document))?)
    })?;
    divide::divide(work, means, Share::Sightings)?;
    writing.merged(work, Family::Urls, URLS, |row: Url, table| Ok(table.put(LoadRow::Url(row.key, &row.url))?))?;
    writing.merged(work, Family::Sightings, BY_URL, |row: ByUrl, table| {
        Ok(table.put(LoadRow::Sighting(&row.sighting))?)
    })?;
    writing.merged(work, Family::Standings, BY_DOCUMENT, |row: ByDocument, table| {
        let ByDocument { document, fetched_at, url, sweep } = row;
        let moment = Moment { fetched_at, seen: Seen::Document(document), sweep };
        Ok(table.put(LoadRow::Standing(document, &StoredSighting { url, moment }))?)
    })?;
    writing.states(work)?;
    writing.merged(work, Family::Sought, SOUGHT, |row: Sought, table| Ok(table.put(LoadRow::Sought(&row))?))?;
    let rows: Vec<ClusterRow> = clusters.rows().collect();
    writing.tables(work, Family::Clusters, rows.chunks(ROWS_A_TABLE).collect(), |rows: &[ClusterRow], table| {
        rows.iter().try_for_each(|row| Ok(table.put(LoadRow::Cluster(row))?))
    })?;
    let mut links = links.to_vec();
    links.sort_unstable();
    writing.tables(work, Family::Links, links.chunks(ROWS_A_TABLE).collect(), |links: &[LinkRow], table| {
        links.iter().try_for_each(|link| {
            let link = Link { document: link.later, to: link.earlier, resemblance: link.resemblance };
            Ok(table.put(LoadRow::Link(&link))?)
        })
    })
}

/// Where the sightings of a sighting's URL begin.
fn first_of_url(row: &ByUrl) -> ByUrl {
    let moment = Moment { fetched_at: FetchTime(i64::MIN), seen: Seen::Lost, sweep: None };
    ByUrl { sighting: StoredSighting { url: row.sighting.url, moment }, host: row.host }
}

/// Calls `each` with every URL, its host and its sightings.
fn each_history(
    merge: &mut Merge<ByUrl>,
    mut each: impl FnMut(Fingerprint, u64, &[Moment]) -> Result<(), BackfillError>,
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
    let damaged = || BackfillError::Damaged(path.clone());
    each_document(means, piece, |document, row| {
        let candidates = index_candidates(&row, &rule.sketch).ok_or_else(damaged)?;
        let mut super_shingles = row.super_shingles;
        super_shingles.retain(|shingle| !common.is_super_for(*shingle, document));
        let new = NewDocument {
            document,
            equivalences: row.equivalences,
            sketch: Arc::new(decode(&row.sketch).map_err(|_| damaged())?),
            index: common.index_of(document, &candidates, index_size(&rule.sketch)),
            super_shingles,
            mod_shingles: row.mod_shingles,
            n_words: row.n_words,
            n_bytes: row.n_bytes,
        };
        Ok(table.put(LoadRow::Document(&new, row.first_url))?)
    })
}

/// The tables that were written, family by family.
pub(super) fn tables(work: &Work) -> Vec<(Family, Vec<PathBuf>)> {
    let of = |family: Family| {
        let name = format!("table-{family:?}").to_lowercase();
        (family, work.pieces(&name).map(|piece| work.folder().join(&piece.name)).collect())
    };
    Family::ALL.into_iter().map(of).collect()
}
