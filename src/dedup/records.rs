//! What was clustered: the records of the inputs in their order, their documents and clusters.

use super::error::DedupError;
use crate::document::{DocumentId, FetchTime};
use crate::ports::Progress;
use crate::sketch::Estimate;
use crate::wire::Rejection;
use serde::{Deserialize, Serialize};

/// An input and how far it was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadInput {
    /// The name under which records name it: the absolute path.
    pub name: String,
    /// Its records.
    pub n_records: i64,
    /// The chained fingerprint after the last record.
    pub chain: u64,
}

impl ReadInput {
    /// How far the input was read, as a source resumes.
    pub fn progress(&self) -> Progress {
        Progress { next_offset: self.n_records, chain: self.chain }
    }
}

/// What a record is.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A page with a content.
    Page {
        /// The content.
        document: DocumentId,
        /// When the page was fetched.
        fetched_at: FetchTime,
    },
    /// A page that is no more.
    Gone,
    /// A page that is elsewhere.
    Redirected,
    /// No page.
    Rejected(Box<Rejection>),
}

/// A record of the inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusteredRecord {
    /// The position of its input in [`ClusteredRecords::inputs`].
    pub input: u32,
    /// Its number in the input.
    pub offset: i64,
    /// Its URL, where it has one.
    pub url: Option<String>,
    /// What it is.
    pub outcome: Outcome,
}

/// Counts of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// All records.
    pub n_records: u64,
    /// Pages with a content.
    pub n_pages: u64,
    /// Pages that stay.
    pub n_kept: u64,
    /// Pages that go because another one has the same content.
    pub n_removed_identical: u64,
    /// Pages that go because another one of their cluster stays.
    pub n_removed_near: u64,
    /// Records of pages that are no more.
    pub n_gone: u64,
    /// Records of pages that are elsewhere.
    pub n_redirected: u64,
    /// Records that are no pages.
    pub n_rejected: u64,
    /// Records that the store had read before: what became of them was decided then.
    pub n_read_before: u64,
}

/// The rejected records of one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectedRecords {
    /// How many.
    pub n: u64,
    /// The input of the first one.
    pub source: String,
    /// Its number in the input.
    pub offset: i64,
    /// What is wrong with it.
    pub message: String,
}

/// Records with their clusters. Documents are numbered from 1.
pub trait ClusteredRecords {
    /// The inputs.
    fn inputs(&self) -> &[ReadInput];

    /// The cluster of every document, in the order of their ids, named by one of its documents.
    fn clusters(&self) -> &[DocumentId];

    /// The words of every document, in the order of their ids. Documents of no record may have any number.
    ///
    /// # Errors
    /// [`DedupError::Records`], as for every method here.
    fn n_words(&self) -> Result<Vec<u32>, DedupError>;

    /// Calls `each` with every record, in the order of the inputs.
    ///
    /// # Errors
    /// [`DedupError::Records`], or the error of `each`.
    fn each_record(&self, each: &mut dyn FnMut(ClusteredRecord) -> Result<(), DedupError>) -> Result<(), DedupError>;

    /// Compares documents: the first of each pair with the second.
    ///
    /// # Errors
    /// [`DedupError::Records`]
    fn compare(&mut self, pairs: &[(DocumentId, DocumentId)]) -> Result<Vec<Estimate>, DedupError>;

    /// Where documents were first seen. Asked of documents from before these records alone.
    ///
    /// # Errors
    /// [`DedupError::Records`]
    fn first_urls(&self, documents: &[DocumentId]) -> Result<Vec<String>, DedupError>;
}
