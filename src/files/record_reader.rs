//! Record readers: every format yields records one by one.

use super::read_error::ReadError;
use crate::wire::Record;

/// Reads the records of a file.
pub(super) trait RecordReader: Send {
    /// Moves to the next record, whose chained fingerprint continues `chain`.
    ///
    /// # Errors
    /// [`ReadError`] if the file cannot be read any further; the reader must not be used again.
    fn advance(&mut self, chain: u64) -> Result<Advance, ReadError>;

    /// Decodes the current record; to be called once at most. It is separate from [`RecordReader::advance`],
    /// because records that are skipped need no decoding.
    fn decode(&mut self) -> Record;

    /// Whether the current record is a revisit: it has no content of its own, but refers to that of another record.
    fn is_revisit(&self) -> bool {
        false
    }

    /// Whether the current record may be the beginning of a longer one, where the file is still written.
    fn may_be_cut(&self) -> bool {
        false
    }

    /// The names of the columns, if the file is a table. Its records are JSON objects with these names.
    fn columns(&self) -> Option<&[String]> {
        None
    }

    /// Keeps the bytes of the next record or passes over them; to be called before every [`RecordReader::advance`] by
    /// callers of [`RecordReader::take_bytes`]. Readers that hold the current record anyway do nothing.
    fn keep_bytes(&mut self, _next: bool) {}

    /// Appends bytes as they came, one item for each record of the file: what must go with any record, such as a
    /// description of the file, and the current record if it `is_wanted`, as [`RecordReader::keep_bytes`] was told. Only for
    /// formats with [`FileFormat::has_record_bytes`](super::format::FileFormat::has_record_bytes).
    fn take_bytes(&mut self, _is_wanted: bool, _out: &mut Vec<Vec<u8>>) {}
}

/// Where the reader has moved.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Advance {
    /// To a record; this is the chained fingerprint after it.
    Record(u64),
    /// Past something that is not a record; the text says what.
    Gap(String),
    /// To the end of the file.
    End,
}
