//! ARC 1.0 and 1.1, the format before WARC: a line of header before each record.
//!
//! ```text
//! filedesc://crawl.arc 0.0.0.0 20050101000000 text/plain 77     the file's own record, which names the fields
//! http://a.example/ 192.0.2.1 20050101000001 text/html 4053     URL, address, date, media type, length
//! ```

use super::archive_record::{
    ArchiveDefaults, ArchiveRecord, HEADER_BYTES_MAX, RecordHeader, block_bytes_max, saturated,
};
use super::chain::RecordHash;
use super::read_error::ReadError;
use super::record_reader::{Advance, RecordReader};
use super::stream::{BUFFER_BYTES, Stream, fill};
use super::warc_date;
use crate::document::FetchTime;
use crate::wire::{Limits, Reason, Record, Rejection};
use memchr::memchr;
use std::io::{self, BufRead, BufReader};

/// Digits of a date, at least: a day.
const DATE_DIGITS_MIN: usize = 8;
/// Digits of a date, at most: a second, and what some writers add.
const DATE_DIGITS_MAX: usize = 17;

/// The records of a stream, but for the file's own.
pub(super) struct ArcRecords {
    reader: BufReader<Stream>,
    limits: Limits,
    defaults: ArchiveDefaults,
    last_time: Option<FetchTime>,
    /// The header line.
    line: Vec<u8>,
    record: ArchiveRecord,
    fault: Option<Rejection>,
    /// A header that was read while the end of the record before was checked, or a gap was reported.
    opened: Option<RecordHeader>,
    /// Bytes that were read and belong to no record.
    n_skipped: usize,
}

/// What a line is.
enum Line {
    Header(RecordHeader),
    Other(usize),
    End,
    /// The file ended within it.
    Cut,
}

impl ArcRecords {
    pub(super) fn new(stream: Stream, limits: &Limits, defaults: ArchiveDefaults) -> Self {
        ArcRecords {
            reader: BufReader::with_capacity(BUFFER_BYTES, stream),
            limits: limits.clone(),
            defaults,
            last_time: None,
            line: Vec::new(),
            record: ArchiveRecord::default(),
            fault: None,
            opened: None,
            n_skipped: 0,
        }
    }

    /// Reads a line that is not blank.
    fn read_line(&mut self) -> io::Result<Line> {
        loop {
            self.line.clear();
            let mut n_bytes = 0;
            let ended = loop {
                let buffer = fill(&mut self.reader)?;
                if buffer.is_empty() {
                    break false;
                }
                let (n, ended) = memchr(b'\n', buffer).map_or((buffer.len(), false), |at| (at + 1, true));
                let n_kept = n.min(HEADER_BYTES_MAX.saturating_sub(self.line.len()));
                self.line.extend_from_slice(&buffer[..n_kept]);
                self.reader.consume(n);
                n_bytes += n;
                if ended {
                    break true;
                }
            };
            let is_blank = self.line.iter().all(|byte| matches!(byte, b'\r' | b'\n' | b' ' | 0));
            match (is_blank, ended) {
                (true, false) => return Ok(Line::End),
                (true, true) => {}
                (false, false) => return Ok(Line::Cut),
                (false, true) => return Ok(header_of(&self.line).map_or(Line::Other(n_bytes), Line::Header)),
            }
        }
    }

    /// The next header; an error, or a text about skipped bytes, if something else comes before it.
    fn open(&mut self) -> Result<Result<Option<RecordHeader>, String>, ReadError> {
        if let Some(header) = self.opened.take() {
            return Ok(Ok(Some(header)));
        }
        let mut n_skipped = std::mem::take(&mut self.n_skipped);
        loop {
            let header = match self.read_line()? {
                Line::Header(header) => Some(header),
                Line::Other(n) => {
                    n_skipped += n;
                    continue;
                }
                Line::Cut => return Err(ReadError::UnfinishedHeader),
                Line::End => None,
            };
            if n_skipped == 0 {
                return Ok(Ok(header));
            }
            self.opened = header;
            return Ok(Err(format!(
                "{n_skipped} bytes belong to no ARC record and were skipped; a length before them is wrong"
            )));
        }
    }

    fn read_block(&mut self, is_kept: bool, hash: &mut RecordHash) -> Result<(), ReadError> {
        let declared = self.record.header.n_bytes.unwrap_or_default();
        let n_kept_max = if is_kept { block_bytes_max(&self.limits) } else { 0 };
        self.record.block.clear();
        let mut n_bytes = 0;
        while n_bytes < declared {
            let buffer = fill(&mut self.reader)?;
            if buffer.is_empty() {
                return Err(ReadError::UnfinishedRecord { n_bytes, declared });
            }
            let n = buffer.len().min(saturated(declared - n_bytes));
            hash.append(&buffer[..n]);
            self.record.block.extend_from_slice(&buffer[..n.min(n_kept_max - self.record.block.len())]);
            self.reader.consume(n);
            n_bytes += n as u64;
        }
        Ok(())
    }

    /// Whether a line end follows, as behind every record, or the end of the file; or a header, because some writers
    /// count the line end.
    fn ends_well(&mut self) -> io::Result<bool> {
        let buffer = fill(&mut self.reader)?;
        if buffer.first().is_none_or(|byte| matches!(byte, b'\r' | b'\n')) {
            return Ok(true);
        }
        match self.read_line()? {
            Line::Header(header) => self.opened = Some(header),
            Line::Other(n) => self.n_skipped = n,
            Line::Cut => self.n_skipped = self.line.len(),
            Line::End => {}
        }
        Ok(self.n_skipped == 0)
    }
}

impl RecordReader for ArcRecords {
    fn advance(&mut self, chain: u64) -> Result<Advance, ReadError> {
        loop {
            let header = match self.open()? {
                Ok(Some(header)) => header,
                Ok(None) => return Ok(Advance::End),
                Err(gap) => return Ok(Advance::Gap(gap)),
            };
            self.record.header = header;
            self.last_time = self.record.header.time.or(self.last_time);
            let mut hash = RecordHash::after(chain);
            hash.append(&self.line);
            let is_input = self.record.header.is_input();
            self.read_block(is_input, &mut hash)?;
            if !is_input {
                continue;
            }
            if self.record.block.starts_with(b"HTTP/") {
                self.record.header.content_type = Some("application/http".into());
            }
            self.fault = (!self.ends_well()?).then(|| {
                let declared = self.record.header.n_bytes.unwrap_or_default();
                let message = format!(
                    "the ARC record's length is {declared}, but no record ends there; everything up to the next record is \
                     skipped"
                );
                Rejection::new(Reason::InvalidField, message)
            });
            return Ok(Advance::Record(hash.finish()));
        }
    }

    fn decode(&mut self) -> Record {
        self.record.decode(self.fault.take(), self.last_time, &self.defaults, &self.limits)
    }
}

/// The header in a line, if it is one: a URL, which may hold blanks, an address, a date, a media type, which may hold
/// blanks, further fields in version 2, and a length.
fn header_of(line: &[u8]) -> Option<RecordHeader> {
    let line = String::from_utf8_lossy(line.trim_ascii_end());
    let words: Vec<&str> = line.split(' ').collect();
    let n_bytes = words.last()?.parse().ok()?;
    let is_date = |word: &str| {
        (DATE_DIGITS_MIN..=DATE_DIGITS_MAX).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_digit())
    };
    // The address stands between URL and date.
    let at = (2..words.len() - 1).find(|at| is_date(words[*at]) && is_address(words[at - 1]))?;
    let (url, date) = (words[..at - 1].join(" "), words[at]);
    if !url.contains(':') {
        return None;
    }
    let is_file = url.starts_with("filedesc:");
    Some(RecordHeader {
        kind: if is_file { "warcinfo" } else { "response" }.into(),
        url: Some(url),
        date: Some(date.to_string()),
        time: time_of(date),
        content_type: Some(words[at + 1..words.len() - 1].join(" ")),
        n_bytes: Some(n_bytes),
        is_segment: false,
        payload_digest: None,
    })
}

fn is_address(word: &str) -> bool {
    word.parse::<std::net::IpAddr>().is_ok() || matches!(word, "-" | "0" | "unknown")
}

/// A date of 14 digits, of less or of more.
fn time_of(date: &str) -> Option<FetchTime> {
    let part = |from: usize, to: usize| date.get(from..to);
    let mut text = format!("{}-{}-{}", part(0, 4)?, part(4, 6)?, part(6, 8)?);
    for (mark, from) in [('T', 8), (':', 10), (':', 12)] {
        if let Some(digits) = part(from, from + 2) {
            text.push(mark);
            text.push_str(digits);
        }
    }
    warc_date::read(&text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{Body, Content};

    const LIMITS: Limits =
        Limits { body_bytes_max: 1000, url_bytes_max: 60, sweep_bytes_max: 10, words_max: 100, text_bytes_max: 100 };
    const HEAD: &str = "1 0 Test\nURL IP-address Archive-date Content-type Archive-length\n";

    fn record(url: &str, content_type: &str, block: &str) -> String {
        format!("{url} 192.0.2.1 20050102030405 {content_type} {}\n{block}\n", block.len())
    }

    fn file(records: &[String]) -> String {
        let head = format!("filedesc://a.arc 0.0.0.0 20050101000000 text/plain {}\n{HEAD}\n", HEAD.len());
        head + &records.concat()
    }

    fn read(text: &str) -> Vec<String> {
        let stream = Box::new(io::Cursor::new(text.as_bytes().to_vec()));
        let mut records = ArcRecords::new(stream, &LIMITS, ArchiveDefaults::default());
        let (mut outcomes, mut chain) = (Vec::new(), 0);
        loop {
            outcomes.push(match records.advance(chain) {
                Ok(Advance::Record(after)) => {
                    assert_ne!(std::mem::replace(&mut chain, after), after);
                    match records.decode() {
                        Record::Rejected(rejection) => rejection.reason.as_str().into(),
                        Record::Page(page) => match page.content {
                            Content::Body { media_type, body: Body::Bytes { bytes, .. } } => {
                                let text = String::from_utf8_lossy(&bytes).into_owned();
                                format!("{} {} {media_type:?}: {text}", page.url, page.fetched_at)
                            }
                            other => format!("{} {other:?}", page.url),
                        },
                        other => panic!("{other:?}"),
                    }
                }
                Ok(Advance::Gap(_)) => "gap".into(),
                Ok(Advance::End) => return outcomes,
                Err(error) => {
                    outcomes.push(format!("error: {error}"));
                    return outcomes;
                }
            });
        }
    }

    #[test]
    fn records_of_every_kind() {
        let http = |head: &str, body: &str| format!("HTTP/1.1 {head}\r\n\r\n{body}");
        let outcomes = read(&file(&[
            record("http://a/1", "text/html", &http("200 OK\r\nContent-Type: text/html", "<p>x")),
            record("http://a/2", "text/html", &http("404 Not Found", "none")),
            record("http://a/3", "no-type", &http("301 Moved\r\nLocation: /1", "")),
            record("dns:a", "text/dns", "20050102030405\na. 60 IN A 192.0.2.1\n"),
            record("http://a/b c", "text/html", &http("200 OK", "x")),
            record("http://a/4", "text/html; charset=utf-8", "<p>no header"),
            record("http://a/5", "image/png", &http("200 OK\r\nContent-Type: image/png", "x")),
        ]));
        let time = "2005-01-02T03:04:05Z";
        let expected = [
            format!("http://a/1 {time} Html: <p>x"),
            "http://a/2 Gone".into(),
            "http://a/3 Redirect(\"http://a/1\")".into(),
            "media-type".into(),
            format!("http://a/b%20c {time} Unknown: x"),
            format!("http://a/4 {time} Html: <p>no header"),
            "media-type".into(),
        ];
        assert_eq!(outcomes, expected);
    }

    #[test]
    fn headers_of_both_versions() {
        for (line, expected) in [
            ("http://a/ 192.0.2.1 20050102030405 text/html 17", Some(("2005-01-02T03:04:05Z", "text/html", 17))),
            ("http://a/ 2001:db8::1 20050102 text/html 17\r", Some(("2005-01-02T00:00:00Z", "text/html", 17))),
            (
                "http://a/ 0 20050102030405123 text/html; charset=x 0",
                Some(("2005-01-02T03:04:05Z", "text/html; charset=x", 0)),
            ),
            (
                "http://a/ 192.0.2.1 19961001000000 text/html 200 checksum - 1234 a.arc 17",
                Some(("1996-10-01T00:00:00Z", "text/html 200 checksum - 1234 a.arc", 17)),
            ),
            ("http://a/ 192.0.2.1 yesterday text/html 17", None),
            ("http://a/ 192.0.2.1 20050102030405 text/html -1", None),
            ("URL IP-address Archive-date Content-type Archive-length", None),
            ("17", None),
            ("", None),
        ] {
            let header = header_of(line.as_bytes());
            let found = header.as_ref().map(|header| {
                let time = header.time.expect("a time").to_string();
                (time, header.content_type.clone().expect("a type"), header.n_bytes.expect("a length"))
            });
            let expected = expected.map(|(time, kind, n)| (time.to_string(), kind.to_string(), n));
            assert_eq!(found, expected, "{line}");
        }
    }

    /// Heritrix's test files have no line end behind a record.
    #[test]
    fn records_may_follow_each_other_directly() {
        let page = |n: usize| record(&format!("http://a/{n}"), "text/plain", "x").trim_end().to_string();
        assert_eq!(read(&file(&[page(1), page(2)])).len(), 2);
    }

    #[test]
    fn wrong_lengths_and_cuts() {
        let page = record("http://a/1", "text/plain", "some text");
        let next = record("http://a/2", "text/plain", "x");
        let time = "2005-01-02T03:04:05Z";
        let shorter = page.replace(" 9\n", " 4\n");
        let after = format!("http://a/2 {time} PlainText: x");
        assert_eq!(read(&file(&[shorter, next.clone()])), ["invalid-field".to_string(), "gap".into(), after.clone()]);
        let whole = file(&[page, next]);
        for cut in 10..whole.len() - 1 {
            if !whole.is_char_boundary(cut) {
                continue;
            }
            let outcomes = read(&whole[..cut]);
            assert!(outcomes.len() <= 2, "{cut}: {outcomes:?}");
            let is_at_end_of_record = whole[..cut].ends_with('\n') || whole[..cut].ends_with("some text");
            let is_error = outcomes.last().is_some_and(|last| last.starts_with("error"));
            assert!(is_error || is_at_end_of_record, "{cut}: {outcomes:?}");
        }
        assert_eq!(read(&whole).last(), Some(&after));
    }
}
