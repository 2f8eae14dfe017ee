//! `verify`: checks every invariant of the schema and names each row that breaks one.
//!
//! The check reads one family after the other and compares them, with at most 44 bytes of memory per document.
//! Families in different orders are compared by sums that do not depend on the order. Only documents whose sums
//! differ need look-ups.

mod clusters;
mod documents;
mod postings;
mod progress;
mod related;
mod sightings;
#[cfg(test)]
mod tests;
mod texts;

use super::open::RocksStore;
use super::rocks_error::failed;
use super::schema::cf;
use crate::document::{DocumentId, Fingerprint};
use crate::ports::StoreError;
use rocksdb::{DBIteratorWithThreadMode, IteratorMode, ReadOptions};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// One broken invariant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The column family, as named in the report.
    pub family: &'static str,
    /// The key, decoded if possible, otherwise in hexadecimal.
    pub key: String,
    /// What is wrong with the row.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.family, self.key, self.what)
    }
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Whether every invariant holds.
    pub is_sound: bool,
    /// The number of documents according to `meta`, without those that are forgotten.
    pub n_documents: u32,
    /// The number of rows read from each column family.
    pub rows: BTreeMap<&'static str, u64>,
    /// The number of findings.
    pub n_findings: u64,
    /// The first findings.
    pub findings: Vec<Finding>,
    /// What could not be checked, and why.
    pub unchecked: Vec<String>,
}

impl Report {
    /// Adds a finding. The report names the first `findings_max` and counts the rest.
    pub fn add_finding(&mut self, finding: Finding, findings_max: usize) {
        self.is_sound = false;
        self.n_findings += 1;
        if self.findings.len() < findings_max {
            self.findings.push(finding);
        }
    }
}

impl RocksStore {
    /// Checks every invariant. The report names the first `findings_max` findings and counts the rest. Unreadable
    /// data is a finding, not an error.
    pub fn check(&self, findings_max: usize) -> Report {
        // What cannot be read is a finding of the check of documents.
        let n_forgotten = self.forgotten_documents().unwrap_or_default();
        let n_documents = self.n_documents().saturating_sub(n_forgotten);
        let mut check = Check { store: self, report: Report { n_documents, ..Report::default() }, findings_max };
        check.progress();
        let expected = check.documents();
        check.sightings(expected.sighting_sums);
        check.equal(&expected.n_equal);
        check.postings(expected.postings);
        check.clusters();
        check.related();
        check.texts();
        check.counts();
        let mut report = check.report;
        report.is_sound = report.n_findings == 0;
        report
    }
}

/// A check under way.
struct Check<'s> {
    store: &'s RocksStore,
    report: Report,
    findings_max: usize,
}

impl<'s> Check<'s> {
    fn add_finding(&mut self, family: &'static str, key: impl fmt::Display, what: impl Into<String>) {
        let finding = Finding { family: reported_name(family), key: key.to_string(), what: what.into() };
        self.report.add_finding(finding, self.findings_max);
    }

    /// Starts reading a family, in the order of its keys.
    fn rows(&mut self, family: &'static str) -> Rows<'s> {
        self.report.rows.insert(reported_name(family), 0);
        let mut options = ReadOptions::default();
        options.set_readahead_size(2 << 20);
        let store = self.store;
        let rows = match store.cf(family) {
            Ok(handle) => Some(store.db.iterator_cf_opt(handle, options, IteratorMode::Start)),
            Err(error) => {
                self.add_finding(family, "", error.to_string());
                None
            }
        };
        Rows { family, rows, last: Box::default() }
    }

    /// The next row; `None` at the end of the family, or when the rest cannot be read.
    fn next(&mut self, rows: &mut Rows<'_>) -> Option<Row> {
        match rows.rows.as_mut()?.next()? {
            Ok((key, value)) => {
                *self.report.rows.entry(reported_name(rows.family)).or_default() += 1;
                rows.last.clone_from(&key);
                Some((key, value))
            }
            Err(error) => {
                rows.rows = None;
                let what = format!("the rows after this key cannot be read: {}", failed(error));
                self.add_finding(rows.family, hex(&rows.last), what);
                None
            }
        }
    }

    fn is_document(&self, document: DocumentId) -> bool {
        (1..=self.store.n_documents()).contains(&document.0)
    }

    fn n_documents(&self) -> usize {
        self.store.n_documents() as usize
    }
}

/// A key and its value.
type Row = (Box<[u8]>, Box<[u8]>);

/// A family that is being read, and the last key read.
struct Rows<'s> {
    family: &'static str,
    rows: Option<DBIteratorWithThreadMode<'s, rocksdb::DB>>,
    last: Box<[u8]>,
}

/// The name of a column family in the report: the name on disk, or a clearer one.
fn reported_name(family: &'static str) -> &'static str {
    if family == cf::SIGHTINGS_BY_DOCUMENT { "sightings-by-document" } else { family }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hex_fingerprint(fingerprint: Fingerprint) -> String {
    format!("{:032x}", fingerprint.0)
}

/// The index of a document in a vector of all documents.
fn index_of(document: DocumentId) -> usize {
    document.0 as usize - 1
}

fn unreadable(error: &StoreError) -> String {
    format!("cannot be read: {error}")
}
