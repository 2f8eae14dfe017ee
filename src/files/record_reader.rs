//! What every format reads as: records, one after the other.

use super::read_error::ReadError;
use crate::wire::Record;

/// What a file holds, record by record.
pub(super) trait RecordReader: Send {
    /// Reads the next record, whose chained fingerprint follows on `chain`.
    ///
    /// # Errors
    /// [`ReadError`] where the file cannot be read any further; it is then not to be asked again.
    fn advance(&mut self, chain: u64) -> Result<Advance, ReadError>;

    /// The record that was read last, once. Apart from [`RecordReader::advance`] because records that are only passed over
    /// need not be decoded.
    fn decode(&mut self) -> Record;
}

/// Where reading on has led.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Advance {
    /// To a record, with the chained fingerprint after it.
    Record(u64),
    /// Past something that is no record; the text says what.
    Gap(String),
    /// To the end of the file.
    End,
}
