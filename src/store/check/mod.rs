//! Proving a store sound: every invariant of the schema, read from what is there, and what is wrong where.
//!
//! The families are read one after the other and held against each other. What must be remembered is a few numbers a
//! document, 44 bytes at most; families that lie in different orders are compared by sums that do not depend on the
//! order, and looked up one by one only where these differ.

mod clusters;
mod documents;
mod postings;
mod progress;
mod sightings;
#[cfg(test)]
mod tests;

use super::open::{RocksStore, failed};
use crate::document::{DocumentId, Fingerprint};
use crate::ports::StoreError;
use rocksdb::{DBIteratorWithThreadMode, IteratorMode, ReadOptions};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The column family.
    pub family: &'static str,
    /// The key: as it is read where it can be, hexadecimal where it cannot.
    pub key: String,
    /// What is wrong with its row.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.family, self.key, self.what)
    }
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Whether every invariant holds.
    pub is_sound: bool,
    /// How many documents the store says it has.
    pub n_documents: u32,
    /// Rows read, by column family.
    pub rows: BTreeMap<&'static str, u64>,
    /// How many things are wrong.
    pub n_findings: u64,
    /// The first of them.
    pub findings: Vec<Finding>,
}

impl RocksStore {
    /// Checks every invariant. Of what is wrong the first `findings_max` are told, the rest is counted; what cannot be
    /// read is a finding like any other.
    pub fn check(&self, findings_max: usize) -> Report {
        let mut check =
            Check { store: self, report: Report { n_documents: self.n_documents, ..Report::default() }, findings_max };
        check.progress();
        let expected = check.documents();
        check.sightings(expected.standings);
        check.equal(&expected.n_equal);
        check.postings(expected.postings);
        check.clusters();
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
    fn find(&mut self, family: &'static str, key: impl fmt::Display, what: impl Into<String>) {
        self.report.n_findings += 1;
        if self.report.findings.len() < self.findings_max {
            self.report.findings.push(Finding { family, key: key.to_string(), what: what.into() });
        }
    }

    /// The rows of a family, in the order of their keys.
    fn rows(&mut self, family: &'static str) -> Rows<'s> {
        self.report.rows.insert(family, 0);
        let mut options = ReadOptions::default();
        options.set_readahead_size(2 << 20);
        let store = self.store;
        let rows = match store.cf(family) {
            Ok(handle) => Some(store.db.iterator_cf_opt(handle, options, IteratorMode::Start)),
            Err(error) => {
                self.find(family, "", error.to_string());
                None
            }
        };
        Rows { family, rows, last: Box::default() }
    }

    /// The next row; none at the family's end, and where it cannot be read any further.
    fn next(&mut self, rows: &mut Rows<'_>) -> Option<Row> {
        match rows.rows.as_mut()?.next()? {
            Ok((key, value)) => {
                *self.report.rows.entry(rows.family).or_default() += 1;
                rows.last.clone_from(&key);
                Some((key, value))
            }
            Err(error) => {
                rows.rows = None;
                let what = format!("what comes after this key cannot be read: {}", failed(error));
                self.find(rows.family, hex(&rows.last), what);
                None
            }
        }
    }

    fn is_document(&self, document: DocumentId) -> bool {
        (1..=self.store.n_documents).contains(&document.0)
    }

    fn n_documents(&self) -> usize {
        self.store.n_documents as usize
    }
}

/// A key and its value.
type Row = (Box<[u8]>, Box<[u8]>);

/// A family that is being read.
struct Rows<'s> {
    family: &'static str,
    rows: Option<DBIteratorWithThreadMode<'s, rocksdb::DB>>,
    last: Box<[u8]>,
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn shown(fingerprint: Fingerprint) -> String {
    format!("{:032x}", fingerprint.0)
}

/// Where a document's number stands in a list of all.
fn at(document: DocumentId) -> usize {
    document.0 as usize - 1
}

fn read_failed(error: &StoreError) -> String {
    format!("cannot be read: {error}")
}
