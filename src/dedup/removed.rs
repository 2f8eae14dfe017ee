//! The list of removed records: pages that go are joined with the pages that stay, compared, and sorted back into the order
//! of the inputs.

use super::error::DedupError;
use super::keep::Kept;
use super::records::{ClusteredRecords, ReadInput};
use super::rows::{ByKept, Listed, PageName, PageSource, Why};
use crate::document::DocumentId;
use crate::extsort::{FinishedFile, MergeReader, RunFile, SortedRow, Sorter};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;

/// Pages that are compared together.
const COMPARED_TOGETHER: usize = 4096;

/// Why a record is not in the corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RemovalKind {
    /// The page that stays has the same content.
    Identical,
    /// The page that stays belongs to the same cluster.
    Near,
    /// The page is no more.
    Gone,
    /// The page is elsewhere.
    Redirected,
    /// The record is no page.
    Rejected,
}

/// The columns of the list.
pub const REMOVED_COLUMNS: [&str; 11] = [
    "source",
    "record",
    "url",
    "kind",
    "resemblance",
    "containment",
    "kept_url",
    "kept_source",
    "kept_record",
    "reason",
    "message",
];

/// A row of the list. The order of the fields is that of the [columns](REMOVED_COLUMNS).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RemovedRecord<'a> {
    /// The input, by its absolute path.
    pub source: &'a str,
    /// The record's number in the input, from 0.
    pub record: i64,
    /// The record's URL, where it has one.
    pub url: Option<&'a str>,
    /// Why it is not in the corpus.
    pub kind: RemovalKind,
    /// The estimated resemblance to the page that stays, rounded to four places.
    pub resemblance: Option<f64>,
    /// How much of the page is in the page that stays, estimated and rounded to four places; only where asked for.
    pub containment: Option<f64>,
    /// The URL of the page that stays.
    pub kept_url: Option<&'a str>,
    /// Its input. `None` where the store does not know it.
    pub kept_source: Option<&'a str>,
    /// Its number in that input.
    pub kept_record: Option<i64>,
    /// Why the record is no page, as a word that never changes.
    pub reason: Option<&'a str>,
    /// The same for people.
    pub message: Option<&'a str>,
}

/// Collects what goes, in memory up to a limit and in files beyond it.
pub(super) struct Removals<'a> {
    folder: &'a Path,
    n_bytes_max: usize,
    by_kept: Sorter<'a, ByKept>,
    listed: Sorter<'a, Listed>,
}

impl<'a> Removals<'a> {
    /// Creates an empty list that takes at most `memory` bytes, about.
    pub fn new(folder: &'a Path, memory: u64) -> Self {
        let n_bytes_max = (memory / 4).clamp(1 << 16, 1 << 30) as usize;
        Removals {
            folder,
            n_bytes_max,
            by_kept: Sorter::new(folder, "by-kept".into(), n_bytes_max, true),
            listed: Sorter::new(folder, "listed".into(), n_bytes_max, true),
        }
    }

    /// Adds a page that stays, in whose favour others go.
    pub fn add_kept(&mut self, kept: Kept, document: DocumentId, page: PageName) -> Result<(), DedupError> {
        Ok(self.by_kept.push(ByKept { kept, number: None, document, page })?)
    }

    /// Adds a page that goes.
    pub fn add_removed(
        &mut self,
        number: u64,
        document: DocumentId,
        page: PageName,
        kept: Kept,
    ) -> Result<(), DedupError> {
        Ok(self.by_kept.push(ByKept { kept, number: Some(number), document, page })?)
    }

    /// Adds a record that is no page with a content.
    pub fn add_other(&mut self, number: u64, page: PageName, why: Why) -> Result<(), DedupError> {
        Ok(self.listed.push(Listed { number, page, why })?)
    }

    /// Calls `list` with every record, in the order of the inputs.
    pub fn finish(
        self,
        records: &mut dyn ClusteredRecords,
        with_containment: bool,
        check_stop: &dyn Fn() -> Result<(), DedupError>,
        list: &mut dyn FnMut(&RemovedRecord<'_>) -> Result<(), DedupError>,
    ) -> Result<(), DedupError> {
        let Removals { folder, n_bytes_max, by_kept, listed } = self;
        let mut listed_files = listed.finish()?;
        let joined = Sorter::new(folder, "joined".into(), n_bytes_max, true);
        listed_files.extend(join(folder, &by_kept.finish()?, records, joined, check_stop)?);
        let mut rows = merge::<Listed>(folder, &listed_files)?;
        let mut n_rows = 0usize;
        while let Some(row) = rows.next_row()? {
            n_rows += 1;
            if n_rows.is_multiple_of(COMPARED_TOGETHER) {
                check_stop()?;
            }
            list(&record_of(&row, records.inputs(), with_containment))?;
        }
        Ok(())
    }
}

fn merge<R: SortedRow>(folder: &Path, files: &[FinishedFile]) -> Result<MergeReader<R>, DedupError> {
    let files: Vec<Arc<RunFile<R>>> =
        files.iter().map(|file| RunFile::open(folder, file, true)).collect::<Result<_, _>>()?;
    Ok(MergeReader::new(&files, None, None)?)
}

/// Joins the pages that go with those that stay.
fn join(
    folder: &Path,
    by_kept: &[FinishedFile],
    records: &mut dyn ClusteredRecords,
    mut joined: Sorter<'_, Listed>,
    check_stop: &dyn Fn() -> Result<(), DedupError>,
) -> Result<Vec<FinishedFile>, DedupError> {
    let mut rows = merge::<ByKept>(folder, by_kept)?;
    let (mut stays, mut together): (Option<ByKept>, Vec<(ByKept, Arc<ByKept>)>) = (None, Vec::new());
    let mut shared: Option<Arc<ByKept>> = None;
    loop {
        let row = rows.next_row()?;
        let is_end = row.is_none();
        if let Some(row) = row {
            match (row.number, &shared) {
                (None, _) => {
                    shared = None;
                    stays = Some(row);
                }
                (Some(_), Some(kept)) if kept.kept == row.kept => together.push((row, Arc::clone(kept))),
                (Some(_), _) => {
                    let kept = stays.take().filter(|kept| kept.kept == row.kept);
                    let kept = Arc::new(kept.unwrap_or_else(|| unknown(&row)));
                    shared = Some(Arc::clone(&kept));
                    together.push((row, kept));
                }
            }
        }
        if together.len() == COMPARED_TOGETHER || is_end {
            check_stop()?;
            compared(&mut together, records)?.into_iter().try_for_each(|row| joined.push(row))?;
        }
        if is_end {
            return Ok(joined.finish()?);
        }
    }
}

/// The page that stays, where nothing about it is recorded.
fn unknown(row: &ByKept) -> ByKept {
    let document = if let Kept::Known(document) = row.kept { document } else { row.document };
    let page = PageName { url: None, source: PageSource::Unknown, offset: 0 };
    ByKept { kept: row.kept, number: None, document, page }
}

/// Compares pages that go with those that stay.
fn compared(
    together: &mut Vec<(ByKept, Arc<ByKept>)>,
    records: &mut dyn ClusteredRecords,
) -> Result<Vec<Listed>, DedupError> {
    let differs = |row: &ByKept, kept: &ByKept| row.document != kept.document;
    let pairs: Vec<(DocumentId, DocumentId)> = together
        .iter()
        .filter(|(row, kept)| differs(row, kept))
        .map(|(row, kept)| (row.document, kept.document))
        .collect();
    let mut estimates = records.compare(&pairs)?.into_iter();
    let mut listed = Vec::with_capacity(together.len());
    for (row, kept) in together.drain(..) {
        let estimate = if differs(&row, &kept) { estimates.next() } else { None };
        let (resemblance, containment) =
            estimate.map_or((1.0, 1.0), |estimate| (estimate.resemblance, estimate.containment_of_first));
        let why = Why::Removed {
            is_identical: row.document == kept.document,
            resemblance,
            containment,
            kept: kept.page.clone(),
        };
        listed.push(Listed { number: row.number.unwrap_or_default(), page: row.page, why });
    }
    Ok(listed)
}

fn record_of<'a>(row: &'a Listed, inputs: &'a [ReadInput], with_containment: bool) -> RemovedRecord<'a> {
    let mut record = RemovedRecord {
        source: source_of(&row.page, inputs).unwrap_or_default(),
        record: row.page.offset,
        url: row.page.url.as_deref(),
        kind: RemovalKind::Gone,
        resemblance: None,
        containment: None,
        kept_url: None,
        kept_source: None,
        kept_record: None,
        reason: None,
        message: None,
    };
    match &row.why {
        Why::Removed { is_identical, resemblance, containment, kept } => {
            record.kind = if *is_identical { RemovalKind::Identical } else { RemovalKind::Near };
            record.resemblance = Some(rounded(*resemblance));
            record.containment = with_containment.then(|| rounded(*containment));
            record.kept_url = kept.url.as_deref();
            record.kept_source = source_of(kept, inputs);
            record.kept_record = record.kept_source.map(|_| kept.offset);
        }
        Why::Gone => {}
        Why::Redirected => record.kind = RemovalKind::Redirected,
        Why::Rejected { reason, message } => {
            record.kind = RemovalKind::Rejected;
            (record.reason, record.message) = (Some(reason.as_str()), Some(message.as_str()));
        }
    }
    record
}

fn source_of<'a>(page: &'a PageName, inputs: &'a [ReadInput]) -> Option<&'a str> {
    match &page.source {
        PageSource::Input(input) => inputs.get(*input as usize).map(|input| input.name.as_str()),
        PageSource::Named(name) => Some(name),
        PageSource::Unknown => None,
    }
}

fn rounded(share: f64) -> f64 {
    (share * 10_000.0).round() / 10_000.0
}
