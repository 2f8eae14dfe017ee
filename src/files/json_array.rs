//! A JSON array of pages: one record an element, in bounded memory.

use super::chain::RecordHash;
use super::read_error::ReadError;
use super::record_reader::{Advance, RecordReader};
use super::stream::{BUFFER_BYTES, Stream, fill};
use crate::wire::{Limits, Reason, Record, Rejection};
use memchr::memchr2;
use std::io::{self, BufRead, BufReader};

/// The elements of the array that a stream holds. Elements over [`Limits::json_bytes_max`] are rejected and not kept.
pub(super) struct JsonArray {
    reader: BufReader<Stream>,
    bytes_max: usize,
    /// The element; empty once it is too long.
    element: Vec<u8>,
    /// The length of the whole element.
    n_bytes: usize,
    position: Position,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    /// Before the opening bracket.
    Outside,
    /// Before the first element.
    First,
    /// Behind an element.
    Inside,
    /// Behind the closing bracket.
    Over,
}

/// Where a scan of JSON is.
#[derive(Default)]
struct Scan {
    /// Brackets and braces that are open.
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
    has_begun: bool,
}

impl JsonArray {
    pub(super) fn new(stream: Stream, limits: &Limits) -> Self {
        JsonArray {
            reader: BufReader::with_capacity(BUFFER_BYTES, stream),
            bytes_max: limits.json_bytes_max(),
            element: Vec::new(),
            n_bytes: 0,
            position: Position::Outside,
        }
    }

    /// Skips blanks and returns the byte behind them, which stays.
    fn next_byte(&mut self) -> io::Result<Option<u8>> {
        loop {
            let buffer = fill(&mut self.reader)?;
            let n_blank = buffer.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            let found = buffer.get(n_blank).copied();
            let is_over = buffer.is_empty();
            self.reader.consume(n_blank);
            if found.is_some() || is_over {
                return Ok(found);
            }
        }
    }

    /// Moves to the beginning of the next element; false at the end of the array.
    fn begin_element(&mut self) -> Result<bool, ReadError> {
        if self.position == Position::Outside {
            self.next_byte()?;
            self.reader.consume(1);
            self.position = Position::First;
        }
        if self.position == Position::Over {
            return Ok(false);
        }
        match self.next_byte()? {
            None => Err(ReadError::UnfinishedArray),
            Some(b']') => {
                self.reader.consume(1);
                self.position = Position::Over;
                match self.next_byte()? {
                    None => Ok(false),
                    Some(_) => Err(ReadError::Unusable("something follows the JSON array; remove it".into())),
                }
            }
            Some(b',') if self.position == Position::Inside => {
                self.reader.consume(1);
                self.next_byte()?;
                Ok(true)
            }
            Some(_) if self.position == Position::Inside => {
                Err(ReadError::Unusable("there is no comma between two elements of the JSON array; correct it".into()))
            }
            Some(_) => Ok(true),
        }
    }

    fn read_element(&mut self, hash: &mut RecordHash) -> Result<(), ReadError> {
        self.element.clear();
        self.n_bytes = 0;
        let mut scan = Scan::default();
        loop {
            let buffer = fill(&mut self.reader)?;
            if buffer.is_empty() {
                return Err(ReadError::UnfinishedArray);
            }
            let (n, is_over) = scan.advance(buffer);
            hash.append(&buffer[..n]);
            self.n_bytes += n;
            if self.n_bytes <= self.bytes_max {
                self.element.extend_from_slice(&buffer[..n]);
            } else {
                self.element = Vec::new();
            }
            self.reader.consume(n);
            if is_over {
                return Ok(());
            }
        }
    }
}

impl Scan {
    /// How many of the bytes belong to the element, and whether it ends there.
    fn advance(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut at = 0;
        while at < bytes.len() {
            if self.is_in_string {
                at += self.advance_in_string(&bytes[at..]);
                if !self.is_in_string && self.depth == 0 {
                    return (at, true);
                }
                continue;
            }
            match bytes[at] {
                b'"' => self.is_in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' if self.depth > 0 => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return (at + 1, true);
                    }
                }
                b',' | b']' | b'}' if self.depth == 0 => return (at, true),
                byte if self.depth == 0 && self.has_begun && byte.is_ascii_whitespace() => return (at, true),
                _ => {}
            }
            self.has_begun = true;
            at += 1;
        }
        (at, false)
    }

    /// How many of the bytes belong to the string, with its quote.
    fn advance_in_string(&mut self, bytes: &[u8]) -> usize {
        if std::mem::take(&mut self.is_escaped) {
            return 1;
        }
        match memchr2(b'"', b'\\', bytes) {
            None => bytes.len(),
            Some(at) => {
                if bytes[at] == b'"' {
                    self.is_in_string = false;
                } else {
                    self.is_escaped = true;
                }
                at + 1
            }
        }
    }
}

impl RecordReader for JsonArray {
    fn advance(&mut self, chain: u64) -> Result<Advance, ReadError> {
        if !self.begin_element()? {
            return Ok(Advance::End);
        }
        let mut hash = RecordHash::after(chain);
        self.read_element(&mut hash)?;
        self.position = Position::Inside;
        Ok(Advance::Record(hash.finish()))
    }

    fn take_bytes(&mut self, is_wanted: bool, out: &mut Vec<Vec<u8>>) {
        if is_wanted {
            out.push(std::mem::take(&mut self.element));
        }
    }

    fn decode(&mut self) -> Record {
        let (n, max) = (self.n_bytes, self.bytes_max);
        if n <= max {
            return Record::Json(std::mem::replace(&mut self.element, Vec::with_capacity(n + n / 8)));
        }
        let message = format!("the element has {n} bytes, over {max}; raise limits.body_bytes_max to take such pages");
        Record::Rejected(Rejection::new(Reason::TooLarge, message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// Yields a few bytes at a time.
    struct SmallReads(io::Cursor<Vec<u8>>, usize);

    impl io::Read for SmallReads {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let n = out.len().min(self.1);
            self.0.read(&mut out[..n])
        }
    }

    fn elements(text: &str, n_at_once: usize) -> (Vec<String>, Result<u64, String>) {
        let stream = SmallReads(io::Cursor::new(text.as_bytes().to_vec()), n_at_once);
        let mut array = JsonArray::new(Box::new(stream), &Limits { body_bytes_max: 10, ..Limits::default() });
        let (mut found, mut chain) = (Vec::new(), 0);
        loop {
            match array.advance(chain) {
                Ok(Advance::Record(after)) => chain = after,
                Ok(Advance::End) => return (found, Ok(chain)),
                Ok(Advance::Gap(text)) => panic!("{text}"),
                Err(error) => return (found, Err(error.to_string())),
            }
            found.push(match array.decode() {
                Record::Json(json) => String::from_utf8(json).expect("text"),
                Record::Rejected(rejection) => rejection.reason.as_str().into(),
                other => panic!("{other:?}"),
            });
        }
    }

    #[test]
    fn elements_are_read_one_by_one() {
        for (text, expected) in [
            ("[]", &[][..]),
            (" [ ] \n", &[]),
            ("[{}]", &["{}"]),
            ("[\n {\"a\": \"]},\\\"\\\\\"} ,\n{\"b\":[1,{}]}\n]\n", &["{\"a\": \"]},\\\"\\\\\"}", "{\"b\":[1,{}]}"]),
            ("[1 , \"a,]\",true,null]", &["1", "\"a,]\"", "true", "null"]),
            ("[{},,{}]", &["{}", "", "{}"]),
        ] {
            for n in [1, 2, 7, 4096] {
                let (found, end) = elements(text, n);
                assert_eq!(found, expected, "{text} by {n}");
                assert!(end.is_ok(), "{text}: {end:?}");
            }
        }
        let long = "x".repeat(200_000);
        let (found, end) = elements(&format!("[{{\"a\":\"{long}\"}},{{}}]"), 4096);
        assert_eq!(found, ["too-large", "{}"]);
        assert!(end.is_ok());
    }

    #[test]
    fn broken_arrays_are_errors() {
        for (text, n_found, expected) in [
            ("[", 0, "cut off"),
            ("[{}", 1, "cut off"),
            ("[{},", 1, "cut off"),
            ("[{},{\"a\":", 1, "cut off"),
            ("[{},\"abc", 1, "cut off"),
            ("[{}{}]", 1, "no comma"),
            ("[{}] {}", 1, "something follows"),
        ] {
            let (found, end) = elements(text, 3);
            assert_eq!(found.len(), n_found, "{text}");
            let end = end.expect_err(text);
            assert!(end.contains(expected), "{text}: {end}");
        }
    }

    #[test]
    fn the_chain_depends_on_the_elements_alone() {
        let chain = |text: &str| elements(text, 5).1.expect("an array");
        assert_eq!(chain("[{\"a\":1},{}]"), chain(" [ {\"a\":1} ,\n {} ] \n"));
        assert_ne!(chain("[{\"a\":1},{}]"), chain("[{\"a\":2},{}]"));
    }

    proptest::proptest! {
        #[test]
        fn any_array_is_split_as_serde_splits_it(
            texts in proptest::collection::vec("[a-z\\\\\"{}\\[\\],: \u{e9}]{0,6}", 0..6), n in 1_usize..20
        ) {
            let values: Vec<Value> = texts.iter().map(|text| serde_json::json!({text.as_str(): [text, 1, null]})).collect();
            let (found, end) = elements(&serde_json::to_string_pretty(&values).expect("JSON"), n);
            let found: Vec<Value> = found.iter().map(|text| serde_json::from_str(text).expect("JSON")).collect();
            proptest::prop_assert_eq!(found, values);
            proptest::prop_assert!(end.is_ok());
        }
    }
}
