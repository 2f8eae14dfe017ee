//! The intermediate data sets: each is declared once, with its row type, its name and its compression.
//!
//! The manifest names the data set of every file. Readers ask it for the files of a data set, and no reader guesses
//! from file names.

use super::error::BackfillError;
use super::rows::{
    DocumentRange, DocumentRow, EquivalenceRow, LinkRow, PageRow, Pair, Posting, RowOffset, ShortenedIndex,
    SightingByDocument, SightingByUrl, TextRow, UrlCount, UrlRow,
};
use crate::extsort::{FinishedFile, Row, RunFile, RunFileWriter, SortedRow, Sorter};
use crate::ports::MissingUrl;
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

/// The records of the input, in the order of arrival.
pub(super) const PAGES: Dataset<PageRow> = Dataset::compressed("pages");
/// The documents, in the order of their ids. Sketches are read from these files at any offset.
pub(super) const DOCUMENTS: Dataset<DocumentRow> = Dataset::plain("documents");
/// Where each row of [`DOCUMENTS`] begins.
pub(super) const ROW_OFFSETS: Dataset<RowOffset> = Dataset::plain("row-offsets");

/// The texts of documents, each compressed, in the order of their ids.
pub(super) const TEXTS: Dataset<TextRow> = Dataset::plain("texts");

/// <shingle, document> of index shingles, as if no shingle were common.
pub(super) const POSTINGS: Dataset<Posting> = Dataset::plain("postings");
/// <super shingle, document>.
pub(super) const SUPER_POSTINGS: Dataset<Posting> = Dataset::plain("super-postings");
/// <mod shingle, document>.
pub(super) const MOD_POSTINGS: Dataset<Posting> = Dataset::plain("mod-postings");
/// Equivalence fingerprints and their documents.
pub(super) const EQUIVALENCES: Dataset<EquivalenceRow> = Dataset::plain("equivalences");

/// Index shingles that are common, each with the document that made it so.
pub(super) const COMMON_SHINGLES: Dataset<Posting> = Dataset::plain("common-shingles");
/// Super shingles whose lists are full, each with the document that filled it.
pub(super) const COMMON_SUPER_SHINGLES: Dataset<Posting> = Dataset::plain("common-super-shingles");
/// Postings under larger shingles, of documents whose smallest shingles are common.
pub(super) const EXTRA_POSTINGS: Dataset<Posting> = Dataset::plain("extra-postings");
/// Documents that too many common shingles leave with a shorter index.
pub(super) const SHORTENED_INDEXES: Dataset<ShortenedIndex> = Dataset::plain("shortened-indexes");

/// Lists of two documents or more under one index shingle.
pub(super) const LISTS: Dataset<Posting> = Dataset::plain("lists");
/// Lists of two documents or more under one super shingle.
pub(super) const SUPER_LISTS: Dataset<Posting> = Dataset::plain("super-lists");
/// The lists under one index shingle whose documents are in several clusters once neighbours are decided.
pub(super) const MIXED_LISTS: Dataset<Posting> = Dataset::plain("mixed-lists");
/// The lists under one super shingle whose documents are in several clusters once neighbours are decided.
pub(super) const MIXED_SUPER_LISTS: Dataset<Posting> = Dataset::plain("mixed-super-lists");
/// Pairs of neighbours in a list.
pub(super) const NEIGHBOUR_PAIRS: Dataset<Pair> = Dataset::plain("neighbour-pairs");
/// Pairs of a document and a representative of one of its common shingles.
pub(super) const REPRESENTATIVE_PAIRS: Dataset<Pair> = Dataset::plain("representative-pairs");
/// Ranges of documents whose pairs fit in memory.
pub(super) const PAIR_RANGES: Dataset<DocumentRange> = Dataset::plain("pair-ranges");
/// Verified links that joined two clusters.
pub(super) const LINKS: Dataset<LinkRow> = Dataset::plain("links");

/// URLs under their fingerprints.
pub(super) const URLS: Dataset<UrlRow> = Dataset::compressed("urls");
/// Sightings, URL by URL.
pub(super) const SIGHTINGS_BY_URL: Dataset<SightingByUrl> = Dataset::compressed("sightings-by-url");
/// Sightings, document by document.
pub(super) const SIGHTINGS_BY_DOCUMENT: Dataset<SightingByDocument> = Dataset::compressed("sightings-by-document");
/// The documents that several URLs carried.
pub(super) const URL_COUNTS: Dataset<UrlCount> = Dataset::plain("url-counts");
/// URLs at which a document stood last, for the search for lost pages.
pub(super) const MISSING_URLS: Dataset<MissingUrl> = Dataset::plain("missing-urls");

/// Run files of one row type. Compression is for rows of text; rows of numbers are small as they are.
pub(super) struct Dataset<R> {
    name: &'static str,
    is_compressed: bool,
    row: PhantomData<fn() -> R>,
}

impl<R> Clone for Dataset<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Dataset<R> {}

impl<R> Dataset<R> {
    pub const fn plain(name: &'static str) -> Self {
        Dataset { name, is_compressed: false, row: PhantomData }
    }

    pub const fn compressed(name: &'static str) -> Self {
        Dataset { name, is_compressed: true, row: PhantomData }
    }

    /// The name in the manifest and the report.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// The name of a file of a part.
    fn file_name(self, part: impl Display) -> String {
        format!("{}-{part}", self.name)
    }

    fn file(self, file: FinishedFile) -> DatasetFile {
        DatasetFile { dataset: self.name.to_string(), file }
    }
}

impl<R: Row> Dataset<R> {
    /// Creates a file for a part.
    pub fn create(self, folder: &Path, part: impl Display) -> Result<DatasetWriter<R>, BackfillError> {
        let writer = RunFileWriter::create(folder, &self.file_name(part), self.is_compressed)?;
        Ok(DatasetWriter { dataset: self, writer })
    }

    /// Opens a finished file.
    pub fn open(self, folder: &Path, file: &FinishedFile) -> Result<Arc<RunFile<R>>, BackfillError> {
        Ok(RunFile::open(folder, file, self.is_compressed)?)
    }
}

impl<R: SortedRow> Dataset<R> {
    /// Creates a sorter for a part that holds at most `n_bytes_max` of rows.
    pub fn sorter(self, folder: &Path, part: impl Display, n_bytes_max: usize) -> DatasetSorter<'_, R> {
        let sorter = Sorter::new(folder, self.file_name(part), n_bytes_max, self.is_compressed);
        DatasetSorter { dataset: self, sorter }
    }
}

/// A finished file and the data set that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DatasetFile {
    /// The data set's name.
    pub dataset: String,
    /// The file.
    pub file: FinishedFile,
}

/// Writes a file of a data set.
pub(super) struct DatasetWriter<R> {
    dataset: Dataset<R>,
    writer: RunFileWriter<R>,
}

impl<R: Row> DatasetWriter<R> {
    /// Appends a row. Returns the offset at which it begins, which is meaningful in files that are not compressed.
    pub fn push(&mut self, row: R) -> Result<u64, BackfillError> {
        Ok(self.writer.push(row)?)
    }

    /// Bytes of rows so far.
    pub fn n_bytes(&self) -> u64 {
        self.writer.n_bytes()
    }

    /// Ends the file.
    pub fn finish(self) -> Result<DatasetFile, BackfillError> {
        Ok(self.dataset.file(self.writer.finish()?))
    }
}

/// Sorts rows into files of a data set.
pub(super) struct DatasetSorter<'a, R> {
    dataset: Dataset<R>,
    sorter: Sorter<'a, R>,
}

impl<R: SortedRow> DatasetSorter<'_, R> {
    /// Adds a row.
    pub fn push(&mut self, row: R) -> Result<(), BackfillError> {
        Ok(self.sorter.push(row)?)
    }

    /// Writes the last rows and returns all files.
    pub fn finish(self) -> Result<Vec<DatasetFile>, BackfillError> {
        let DatasetSorter { dataset, sorter } = self;
        Ok(sorter.finish()?.into_iter().map(|file| dataset.file(file)).collect())
    }
}
