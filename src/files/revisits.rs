//! Which records are revisits: as they came, they have no content of their own, which `dedup --keep newest` goes by.

use super::format::FileFormat;
use super::read_error::ReadError;
use super::record_reader::Advance;
use super::source::{FileSource, OpenRecords, ReadSettings, open_again};
use crate::ports::SourceError;
use std::path::Path;

/// Calls `each` with whether a record is a revisit, for each of the first `n_records` records of a WARC file in their order,
/// until it returns false. Other formats have no revisits, or none that can be copied as they came, and are not read.
///
/// # Errors
/// [`SourceError`] where the input cannot be read as `source` does.
pub fn read_revisits(
    source: &FileSource,
    input: &Path,
    n_records: i64,
    each: &mut dyn FnMut(bool) -> bool,
) -> Result<(), SourceError> {
    let read = try_read(source.settings(), input, n_records, each);
    read.map_err(|error| SourceError::new(format!("{}: {error}", input.display())))
}

fn try_read(
    settings: &ReadSettings,
    input: &Path,
    n_records: i64,
    each: &mut dyn FnMut(bool) -> bool,
) -> Result<(), ReadError> {
    let (OpenRecords { mut records, format, .. }, _) = open_again(input, settings)?;
    if format != FileFormat::Warc {
        return Ok(());
    }
    let mut n = 0;
    while n < n_records {
        match records.advance(0)? {
            Advance::Record(_) => n += 1,
            Advance::Gap(_) => continue,
            Advance::End => break,
        }
        if !each(records.is_revisit()) {
            break;
        }
    }
    Ok(())
}
