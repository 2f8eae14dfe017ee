//! CSV and TSV with a header line: one record a row, in bounded memory.

use super::chain::RecordHash;
use super::read_error::ReadError;
use super::record_reader::{Advance, RecordReader};
use super::stream::{BUFFER_BYTES, Stream, fill};
use crate::wire::{Limits, Reason, Record, Rejection};
use csv_core::ReadRecordResult;
use serde_json::{Map, Value};
use std::io::{BufRead, BufReader};

/// The most columns of a table.
const COLUMNS_MAX: usize = 10_000;

/// The rows of a stream, as JSON objects with the names of the columns. Empty cells are left out. Rows over
/// [`Limits::json_bytes_max`] are rejected and not kept.
pub(super) struct Table {
    reader: BufReader<Stream>,
    parser: csv_core::Reader,
    bytes_max: usize,
    /// Whether the row has no line end behind it.
    ends_with_file: bool,
    columns: Vec<String>,
    /// The cells of the row, one after the other, and where each ends.
    cells: Vec<u8>,
    ends: Vec<usize>,
    n_cells: usize,
    is_too_long: bool,
    /// Whether the bytes of the next row are kept, and those of the current one, as far as they are not too long.
    keeps_bytes: bool,
    bytes: Vec<u8>,
    /// The header as it came, until it is taken, and how it ends.
    header: Vec<u8>,
    line_end: &'static [u8],
}

/// How a row ended.
#[derive(PartialEq, Eq)]
enum RowEnd {
    Newline,
    /// The file ended behind it.
    File,
    /// The file ended inside of it.
    Cut,
    /// There is no row.
    None,
}

impl Table {
    /// Reads the header.
    ///
    /// # Errors
    /// [`ReadError`] if there is none.
    pub(super) fn open(stream: Stream, delimiter: u8, limits: &Limits) -> Result<Self, ReadError> {
        let mut table = Table {
            reader: BufReader::with_capacity(BUFFER_BYTES, stream),
            parser: csv_core::ReaderBuilder::new().delimiter(delimiter).build(),
            bytes_max: limits.json_bytes_max(),
            ends_with_file: false,
            columns: Vec::new(),
            cells: vec![0; 4096],
            ends: vec![0; 64],
            n_cells: 0,
            is_too_long: false,
            keeps_bytes: true,
            bytes: Vec::new(),
            header: Vec::new(),
            line_end: b"\n",
        };
        let end = table.read_row(&mut RecordHash::after(0))?;
        if end == RowEnd::Cut || table.is_too_long {
            return Err(ReadError::Unusable("the table's header line is too long or cut off; correct it".into()));
        }
        table.keeps_bytes = false;
        table.header = std::mem::take(&mut table.bytes);
        table.line_end = if table.header.ends_with(b"\r") { b"\r\n" } else { b"\n" };
        let name = |cell: &[u8]| std::str::from_utf8(cell).map(|name| name.trim().to_string());
        let columns: Result<_, _> = table.row().map(name).collect();
        table.columns = columns.map_err(|_| ReadError::Unusable("the table's header is not UTF-8".into()))?;
        Ok(table)
    }

    fn read_row(&mut self, hash: &mut RecordHash) -> Result<RowEnd, ReadError> {
        let (mut n_bytes, mut n_out, mut n_ends, mut has_begun) = (0, 0, 0, false);
        self.is_too_long = false;
        self.bytes.clear();
        loop {
            let buffer = fill(&mut self.reader)?;
            let is_at_end = buffer.is_empty();
            // A line end closes the last row, unless the file ends within quotes.
            let input = if is_at_end { &b"\n"[..] } else { buffer };
            let (result, n_read, n_written, n_ended) =
                self.parser.read_record(input, &mut self.cells[n_out..], &mut self.ends[n_ends..]);
            if !is_at_end {
                if self.keeps_bytes && n_bytes <= self.bytes_max {
                    self.bytes.extend_from_slice(&input[..n_read]);
                }
                let pieces = input[..n_read].split(|byte| matches!(byte, b'\n' | b'\r'));
                for piece in pieces.filter(|piece| !piece.is_empty()) {
                    has_begun = true;
                    hash.append(piece);
                }
                self.reader.consume(n_read);
                n_bytes += n_read;
            }
            (n_out, n_ends) = (n_out + n_written, n_ends + n_ended);
            if n_bytes > self.bytes_max {
                self.is_too_long = true;
                n_out = 0;
            }
            match result {
                ReadRecordResult::Record => {
                    self.n_cells = n_ends;
                    return Ok(if is_at_end { RowEnd::File } else { RowEnd::Newline });
                }
                ReadRecordResult::InputEmpty if is_at_end => {
                    return Ok(if has_begun { RowEnd::Cut } else { RowEnd::None });
                }
                ReadRecordResult::End => return Ok(RowEnd::None),
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull if self.cells.len() > self.bytes_max => {
                    self.is_too_long = true;
                    n_out = 0;
                }
                ReadRecordResult::OutputFull => self.cells.resize(self.cells.len() * 2, 0),
                ReadRecordResult::OutputEndsFull if n_ends >= COLUMNS_MAX => {
                    self.is_too_long = true;
                    n_ends = 0;
                }
                ReadRecordResult::OutputEndsFull => self.ends.resize(self.ends.len() * 2, 0),
            }
        }
    }

    /// The cells of the row.
    fn row(&self) -> impl Iterator<Item = &[u8]> {
        let ends = &self.ends[..self.n_cells];
        let begins = std::iter::once(0).chain(ends.iter().copied());
        begins.zip(ends).map(|(from, to)| self.cells.get(from..*to).unwrap_or_default())
    }

    fn object(&self) -> Result<Vec<u8>, Rejection> {
        let invalid = |message: String| Rejection::new(Reason::InvalidField, message);
        if self.is_too_long {
            let max = self.bytes_max;
            let message = format!("the row has over {max} bytes; raise limits.body_bytes_max to take such pages");
            return Err(Rejection::new(Reason::TooLarge, message));
        }
        if self.n_cells != self.columns.len() {
            return Err(invalid(format!("the row has {} cells, the header {}", self.n_cells, self.columns.len())));
        }
        let mut object = Map::new();
        for (column, cell) in self.columns.iter().zip(self.row()).filter(|(_, cell)| !cell.is_empty()) {
            let cell = std::str::from_utf8(cell)
                .map_err(|_| invalid(format!("the cell in column {column:?} is not UTF-8; convert the file")))?;
            object.insert(column.clone(), Value::from(cell));
        }
        serde_json::to_vec(&object).map_err(|error| invalid(error.to_string()))
    }
}

impl RecordReader for Table {
    fn advance(&mut self, chain: u64) -> Result<Advance, ReadError> {
        let mut hash = RecordHash::after(chain);
        let end = self.read_row(&mut hash)?;
        self.ends_with_file = end == RowEnd::File;
        match end {
            RowEnd::None => Ok(Advance::End),
            RowEnd::Cut => Err(ReadError::UnfinishedRow),
            RowEnd::File if self.n_cells < self.columns.len() => Err(ReadError::UnfinishedRow),
            RowEnd::Newline | RowEnd::File => Ok(Advance::Record(hash.finish())),
        }
    }

    fn may_be_cut(&self) -> bool {
        self.ends_with_file
    }

    fn keep_bytes(&mut self, next: bool) {
        self.keeps_bytes = next;
    }

    fn take_bytes(&mut self, is_wanted: bool, out: &mut Vec<Vec<u8>>) {
        let header = std::mem::take(&mut self.header);
        let row = if is_wanted { std::mem::take(&mut self.bytes) } else { Vec::new() };
        for bytes in [header, row] {
            // A row is read without the line feed behind its carriage return, which then begins the next one.
            let bytes = trim_line_ends(&bytes);
            if !bytes.is_empty() {
                out.push([bytes, self.line_end].concat());
            }
        }
    }

    fn decode(&mut self) -> Record {
        self.object().map_or_else(Record::Rejected, Record::Json)
    }

    fn columns(&self) -> Option<&[String]> {
        Some(&self.columns)
    }
}

fn trim_line_ends(mut bytes: &[u8]) -> &[u8] {
    while let [b'\r' | b'\n', rest @ ..] | [rest @ .., b'\r' | b'\n'] = bytes {
        bytes = rest;
    }
    bytes
}

/// The delimiter of a line that can be the header of a table with pages: two names or more, one of which holds a part of
/// a page.
pub(super) fn header_delimiter(line: &[u8], names_column: impl Fn(&str) -> bool) -> Option<u8> {
    let line = std::str::from_utf8(line).ok()?.trim();
    let delimiter = delimiter_of(line.as_bytes())?;
    let cells = || line.split(char::from(delimiter)).map(|cell| cell.trim().trim_matches('"'));
    let is_name = |cell: &str| {
        cell.len() <= 64 && cell.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ' | ':' | '/'))
    };
    (cells().count() >= 2 && cells().all(is_name) && cells().any(names_column)).then_some(delimiter)
}

/// The delimiter that a header line has most of.
pub(super) fn delimiter_of(line: &[u8]) -> Option<u8> {
    let count = |delimiter: u8| memchr::memchr_iter(delimiter, line).count();
    b"\t,;".iter().copied().max_by_key(|delimiter| count(*delimiter)).filter(|delimiter| count(*delimiter) > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn rows(text: &[u8], delimiter: u8) -> (Vec<String>, Result<u64, String>) {
        let limits = Limits { body_bytes_max: 10, url_bytes_max: 10, ..Limits::default() };
        let mut table = match Table::open(Box::new(Cursor::new(text.to_vec())), delimiter, &limits) {
            Ok(table) => table,
            Err(error) => return (Vec::new(), Err(error.to_string())),
        };
        let (mut found, mut chain) = (Vec::new(), 0);
        loop {
            match table.advance(chain) {
                Ok(Advance::Record(after)) => chain = after,
                Ok(Advance::End) => return (found, Ok(chain)),
                Ok(Advance::Gap(text)) => panic!("{text}"),
                Err(error) => return (found, Err(error.to_string())),
            }
            found.push(match table.decode() {
                Record::Json(json) => String::from_utf8(json).expect("text"),
                Record::Rejected(rejection) => rejection.reason.as_str().into(),
                other => panic!("{other:?}"),
            });
        }
    }

    #[test]
    fn rows_are_objects() {
        let one = r#"{"text":"t","url":"u"}"#;
        for (text, expected) in [
            ("url,text\nu,t\n", &[one][..]),
            ("url, text \r\nu,t\r\n\r\nu,t\r\n", &[one, one]),
            ("url,text\nu,t", &[one]),
            ("url,text\n", &[]),
            ("url,text", &[]),
            ("url,text\nu,\"a, \"\"b\"\"\nc\"\n", &[r#"{"text":"a, \"b\"\nc","url":"u"}"#]),
            ("url,text\nu,\n,t\n", &[r#"{"url":"u"}"#, r#"{"text":"t"}"#]),
            ("url,text\nu\nu,t,x\nu,t\n", &["invalid-field", "invalid-field", one]),
        ] {
            let (found, end) = rows(text.as_bytes(), b',');
            assert_eq!(found, expected, "{text}");
            assert!(end.is_ok(), "{text}: {end:?}");
        }
        assert_eq!(rows(b"url\ttext\nu\tt\n", b'\t').0, [one]);
        assert_eq!(rows(b"url,text\nu,\xe9\nu,t\n", b',').0, ["invalid-field", one]);
    }

    #[test]
    fn long_rows_are_rejected_and_the_next_one_is_read() {
        let long = format!("url,text\nu,\"{}\"\nu,t\n", "x".repeat(400_000));
        assert_eq!(rows(long.as_bytes(), b',').0, ["too-large", r#"{"text":"t","url":"u"}"#]);
        let wide = format!("url,text\nu,{}\nu,t\n", ",".repeat(50_000));
        assert_eq!(rows(wide.as_bytes(), b',').0, ["too-large", r#"{"text":"t","url":"u"}"#]);
    }

    #[test]
    fn a_cut_row_is_an_error() {
        for text in ["url,text\nu,t\nu", "url,text\nu,t\nu,\"t", "url,text\nu,t\nu,\"t\n\nx"] {
            let (found, end) = rows(text.as_bytes(), b',');
            assert_eq!(found.len(), 1, "{text}");
            assert!(end.expect_err(text).contains("incomplete"), "{text}");
        }
    }

    #[test]
    fn the_chain_ignores_line_ends() {
        let chain = |text: &str| rows(text.as_bytes(), b',').1.expect("a table");
        assert_eq!(chain("url,text\nu,t\nv,w\n"), chain("url,text\r\nu,t\r\n\r\nv,w"));
        assert_ne!(chain("url,text\nu,t\n"), chain("url,text\nu,w\n"));
    }

    #[test]
    fn headers_are_recognised() {
        let delimiter = |line: &str| header_delimiter(line.as_bytes(), |name| matches!(name, "url" | "text"));
        for (line, expected) in [
            ("url,text,date", Some(b',')),
            ("\"url\";\"text\"\r", Some(b';')),
            ("id\tURL path\turl", Some(b'\t')),
            ("url", None),
            ("one, two", None),
            ("some prose, in which a url, and a text, are named; and more!", None),
            ("", None),
        ] {
            assert_eq!(delimiter(line), expected, "{line}");
        }
    }
}
