//! WARC and WET: the records that show what was at a URL, as pages.

use super::archive_record::{
    ArchiveDefaults, ArchiveRecord, HEADER_BYTES_MAX, QUIRKS, RecordHeader, block_bytes_max, saturated,
};
use super::chain::RecordHash;
use super::compression::{DamagedStream, IdleDecoders, decompressed};
use super::input_file::InputFile;
use super::originals::Location;
use super::read_error::ReadError;
use super::record_reader::{Advance, RecordReader};
use super::stream::{Stream, fill};
use super::warc_stream::WarcStream;
use crate::document::{Content, FetchTime, Page};
use crate::wire::{Limits, Reason, Record, Rejection};
use fastwarc::stream_io::bufread::LimitedBufReader;
use fastwarc::stream_io::traits::WarcRead;
use fastwarc::warc::record::WarcRecord;
use std::io::{self, BufRead, Cursor, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The input records of a stream: `response`, `resource`, `conversion` and `revisit`.
pub(super) struct WarcRecords {
    /// `None` after an error, which ends the file.
    reader: Option<Box<dyn WarcRead>>,
    limits: Limits,
    defaults: ArchiveDefaults,
    /// The time of the last record of any kind that has one, such as the request, the response or the `warcinfo`
    /// before.
    last_time: Option<FetchTime>,
    /// Where the last readable record ended, if something else than a record may follow.
    gap_from: Option<u64>,
    /// Whether a rejected record announced the gap that follows.
    gap_is_known: bool,
    /// A record whose header is read, kept while the gap before it is reported.
    opened: Option<Box<WarcRecord>>,
    record: ArchiveRecord,
    /// What is wrong with the record as a whole.
    fault: Option<Rejection>,
    /// Where the stream is, if its records can be read again.
    location: Option<Location>,
    /// `Some` once bytes are kept.
    bytes: Option<KeptBytes>,
}

/// The bytes of records as they came.
struct KeptBytes {
    /// Switches the stream's copy on and off.
    switch: Arc<AtomicBool>,
    /// Whether the next input record is wanted.
    is_wanted: bool,
    /// The stream's position where its copy begins.
    from: u64,
    records: Vec<Vec<u8>>,
}

impl WarcRecords {
    pub(super) fn new(stream: Stream, limits: &Limits, defaults: ArchiveDefaults) -> Self {
        WarcRecords {
            reader: Some(Box::new(WarcStream::new(stream))),
            limits: limits.clone(),
            defaults,
            last_time: None,
            gap_from: None,
            gap_is_known: false,
            opened: None,
            record: ArchiveRecord::default(),
            fault: None,
            location: None,
            bytes: None,
        }
    }

    /// Keeps the places of records that revisits may refer to.
    #[must_use]
    pub(super) fn at(mut self, location: Option<Location>) -> Self {
        self.location = location;
        self
    }

    /// Notes the place of a record that revisits may refer to.
    fn note_original(&self, position: u64) {
        let digest = self.record.header.payload_digest.as_ref();
        let Some((location, digest)) = self.location.as_ref().zip(digest) else { return };
        if let Some(place) = location.place(position).filter(|_| self.record.may_be_original()) {
            self.defaults.originals.insert(digest, place);
        }
    }

    /// The content of the capture that the current record revisits; `None` if it is not known.
    fn original(&self) -> Option<Result<Content, Rejection>> {
        let digest = self.record.header.payload_digest.as_deref()?;
        let place = self.defaults.originals.get(digest)?;
        let mut file = InputFile::open(&place.path).ok()?;
        file.seek(SeekFrom::Start(place.from)).ok()?;
        let mut stream = decompressed(Box::new(file), &IdleDecoders::default()).ok()?;
        io::copy(&mut (&mut stream).take(place.n_skipped), &mut io::sink()).ok()?;
        let mut records = WarcRecords::new(stream, &self.limits, ArchiveDefaults::default());
        let is_there = matches!(records.advance(0), Ok(Advance::Record(_)))
            && records.fault.is_none()
            && records.record.header.payload_digest.as_deref() == Some(digest);
        let http_type = self.record.http_type();
        is_there.then(|| records.record.content_as(http_type.as_deref(), &self.limits))
    }

    /// Reads the next record's header; reports a gap before it first.
    fn open(&mut self) -> Result<NextRecord, ReadError> {
        if let Some(record) = self.opened.take() {
            return Ok(NextRecord::Record(record));
        }
        let mut reader = self.reader.take().ok_or_else(|| io::Error::other("the file was given up"))?;
        is_before_record(&mut *reader)?;
        if let (Some(bytes), Some(stream)) = (&mut self.bytes, as_stream(&mut *reader)) {
            stream.restart_copy();
            bytes.from = stream.stream_position()?;
            bytes.switch.store(true, Relaxed);
        }
        let gap_from = self.gap_from.take().unwrap_or(reader.stream_position()?);
        let mut record = Box::new(WarcRecord::new());
        record.attach_reader(reader);
        let found = match record.parse_warc_headers_with_opts(QUIRKS, HEADER_BYTES_MAX) {
            Ok(n_bytes) => n_bytes > 0,
            // The header is broken, but the stream is not: look for the next one after it.
            Err(error) if error.kind() == io::ErrorKind::InvalidData && !DamagedStream::caused(&error) => {
                self.reader = record.detach_reader();
                self.gap_from = Some(gap_from);
                return Ok(NextRecord::BrokenHeader);
            }
            Err(error) => return Err(error.into()),
        };
        let n_gap = if found { record.stream_pos() } else { position_of(&mut record)? } - gap_from;
        let is_known = std::mem::take(&mut self.gap_is_known);
        if n_gap > 0 && !is_known {
            let text = format!(
                "{n_gap} bytes belong to no WARC record and were skipped; a Content-Length before them is wrong"
            );
            self.keep(found, record);
            return Ok(NextRecord::Gap(text));
        }
        if found {
            return Ok(NextRecord::Record(record));
        }
        self.keep(found, record);
        Ok(NextRecord::End)
    }

    /// Keeps a record, or the end of the stream, for the next call.
    fn keep(&mut self, is_record: bool, mut record: Box<WarcRecord>) {
        if is_record {
            self.opened = Some(record);
        } else {
            self.reader = record.detach_reader();
        }
    }

    /// Reads a record's content. Returns false if the record ends in the wrong place.
    fn read_block(&mut self, mut record: Box<WarcRecord>, hash: &mut RecordHash) -> Result<bool, ReadError> {
        self.record.block.clear();
        let declared = self.record.header.n_bytes.unwrap_or_default();
        let n_kept_max = if self.record.header.is_input() { block_bytes_max(&self.limits) } else { 0 };
        let record_from = record.stream_pos();
        let keeps_bytes = self.keeps_bytes(declared);
        if !record.is_frozen() {
            let reader = record.reader_mut().ok_or_else(|| io::Error::other("the record has no content"))?;
            reader.reset_limit();
            if declared == 0 && is_at_end(reader)? {
                return Err(ReadError::UnfinishedHeader);
            }
            let mut n_bytes = 0;
            while n_bytes < declared {
                let buffer = fill(reader)?;
                if buffer.is_empty() {
                    return Err(ReadError::UnfinishedRecord { n_bytes, declared });
                }
                let n = buffer.len().min(saturated(declared - n_bytes));
                hash.append(&buffer[..n]);
                self.record.block.extend_from_slice(&buffer[..n.min(n_kept_max - self.record.block.len())]);
                reader.consume(n);
                n_bytes += n as u64;
            }
        }
        let mut reader = record.detach_reader().ok_or_else(|| io::Error::other("the record has no stream"))?;
        // A stream that fails here fails again at the next record.
        let is_readable = skip_blank_bytes(&mut *reader).is_ok();
        if let (true, Some(bytes), Some(stream)) = (keeps_bytes, &mut self.bytes, as_stream(&mut *reader)) {
            let mut copy = stream.take_copy();
            copy.drain(..copy.len().min(saturated(record_from - bytes.from)));
            bytes.records.push(copy);
        }
        let ends_well =
            self.record.header.n_bytes.is_some() && (!is_readable || is_before_record(&mut *reader).unwrap_or(true));
        self.reader = Some(reader);
        Ok(ends_well)
    }

    /// Whether the bytes of the record with the current header are kept. Switches the copy of other records off, which may
    /// be of any size.
    fn keeps_bytes(&self, n_bytes: u64) -> bool {
        let Some(bytes) = &self.bytes else { return false };
        let is_wanted = match self.record.header.kind.as_str() {
            "warcinfo" => true,
            _ => self.record.header.is_input() && bytes.is_wanted,
        };
        let keeps = is_wanted && n_bytes <= block_bytes_max(&self.limits) as u64;
        bytes.switch.store(keeps, Relaxed);
        keeps
    }

    /// Creates the rejection of a record with a wrong length.
    fn wrong_length(&self) -> Rejection {
        let message = match self.record.header.n_bytes {
            None => "the WARC record has no Content-Length; everything up to the next record is skipped".into(),
            Some(declared) => format!(
                "the WARC record's Content-Length is {declared}, but no record ends there; everything up to the next \
                 record is skipped"
            ),
        };
        Rejection::new(Reason::InvalidField, message)
    }
}

impl RecordReader for WarcRecords {
    fn advance(&mut self, chain: u64) -> Result<Advance, ReadError> {
        loop {
            let record = match self.open()? {
                NextRecord::Record(record) => record,
                NextRecord::Gap(text) => return Ok(Advance::Gap(text)),
                NextRecord::BrokenHeader => continue,
                NextRecord::End => return Ok(Advance::End),
            };
            let position = record.stream_pos();
            self.record.header = RecordHeader::from_warc(record.headers());
            self.last_time = self.record.header.time.or(self.last_time);
            let mut hash = RecordHash::after(chain);
            for (name, value) in record.headers().items_bytes() {
                [&*name, b":", &*value, b"\n"].into_iter().for_each(|piece| hash.append(piece));
            }
            let is_input = self.record.header.is_input();
            let ends_well = self.read_block(record, &mut hash)?;
            if ends_well {
                self.note_original(position);
            }
            if is_input {
                self.fault = (!ends_well).then(|| self.wrong_length());
                self.gap_is_known = !ends_well;
                return Ok(Advance::Record(hash.finish()));
            }
        }
    }

    fn decode(&mut self) -> Record {
        self.record.original = if self.is_revisit() { self.original() } else { None };
        self.record.decode(self.fault.take(), self.last_time, &self.defaults, &self.limits)
    }

    fn is_revisit(&self) -> bool {
        self.record.header.kind == "revisit"
    }

    fn keep_bytes(&mut self, next: bool) {
        if let Some(bytes) = &mut self.bytes {
            bytes.is_wanted = next;
        } else if let Some(stream) = self.reader.as_mut().and_then(|reader| as_stream(&mut **reader)) {
            let switch = stream.copy_switch();
            self.bytes = Some(KeptBytes { switch, is_wanted: next, from: 0, records: Vec::new() });
        }
    }

    fn take_bytes(&mut self, _is_wanted: bool, out: &mut Vec<Vec<u8>>) {
        if let Some(bytes) = &mut self.bytes {
            out.append(&mut bytes.records);
        }
    }
}

/// Reads the page in a message that holds one WARC record, plain, gzip or zstd. A description of the file
/// (`warcinfo`) may precede it.
///
/// # Errors
/// A [`Rejection`] of anything else.
pub fn parse_warc_page(bytes: &[u8], limits: &Limits) -> Result<Page, Rejection> {
    let no_record =
        |why: String| Rejection::new(Reason::InvalidField, format!("the message is not a WARC record: {why}"));
    let stream = decompressed(Box::new(Cursor::new(bytes.to_vec())), &IdleDecoders::default());
    let stream = stream.map_err(|error| no_record(error.to_string()))?;
    let mut records = WarcRecords::new(stream, limits, ArchiveDefaults::default());
    let mut page = None;
    loop {
        match records.advance(0).map_err(|error| no_record(error.message_text()))? {
            Advance::Gap(text) => return Err(no_record(text)),
            Advance::End => return page.unwrap_or_else(|| Err(no_record("it holds no response".into()))),
            Advance::Record(_) if page.is_some() => return Err(no_record("it holds more than one".into())),
            Advance::Record(_) => {
                page = Some(match records.decode() {
                    Record::Page(page) => Ok(*page),
                    Record::Rejected(rejection) => Err(rejection),
                    Record::Json(_)
                    | Record::Mapped(_)
                    | Record::Message(..)
                    | Record::Poison(..)
                    | Record::Sketched(_) => Err(no_record("it is JSON".into())),
                });
            }
        }
    }
}

/// What follows in the stream.
enum NextRecord {
    Record(Box<WarcRecord>),
    Gap(String),
    /// A broken header; the next one may follow.
    BrokenHeader,
    End,
}

/// Line ends follow even an empty record. If nothing follows, the header may be truncated.
fn is_at_end(reader: &mut LimitedBufReader) -> io::Result<bool> {
    Ok(fill(reader)?.is_empty())
}

fn position_of(record: &mut WarcRecord) -> io::Result<u64> {
    record.reader_mut().map_or(Ok(0), |reader| reader.real_stream_position())
}

/// Skips line ends, and the zeros that pad archives.
fn skip_blank_bytes(reader: &mut dyn WarcRead) -> io::Result<()> {
    loop {
        let buffer = fill(reader)?;
        let n_blank = buffer.iter().take_while(|byte| matches!(byte, b'\r' | b'\n' | 0)).count();
        let is_over = n_blank < buffer.len() || buffer.is_empty();
        reader.consume(n_blank);
        if is_over {
            return Ok(());
        }
    }
}

/// Skips blank bytes and returns whether a record or the end of the stream follows. A stream that fails here fails
/// again at the next record.
fn is_before_record(reader: &mut dyn WarcRead) -> io::Result<bool> {
    skip_blank_bytes(reader)?;
    as_stream(reader).map_or(Ok(true), WarcStream::is_before_record)
}

fn as_stream(reader: &mut dyn WarcRead) -> Option<&mut WarcStream> {
    reader.as_any_mut().downcast_mut()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Body;
    use crate::files::compression::tests::gzip;
    use std::sync::atomic::Ordering::Relaxed;

    const LIMITS: Limits =
        Limits { body_bytes_max: 1000, url_bytes_max: 40, sweep_bytes_max: 10, words_max: 100, text_bytes_max: 100 };
    const HTTP: &str = "application/http; msgtype=response";

    fn record(kind: &str, content_type: &str, block: &[u8]) -> Vec<u8> {
        with_length(kind, content_type, &block.len().to_string(), block)
    }

    fn with_length(kind: &str, content_type: &str, length: &str, block: &[u8]) -> Vec<u8> {
        let head = format!(
            "WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: http://a/{kind}\r\nWARC-Date: 2020-01-01T00:00:00Z\r\n\
             Content-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n"
        );
        [head.as_bytes(), block, b"\r\n\r\n"].concat()
    }

    fn http(head: &str, body: &[u8]) -> Vec<u8> {
        record("response", HTTP, &[head.replace('\n', "\r\n").as_bytes(), b"\r\n\r\n", body].concat())
    }

    /// A file in which one page must still be found after `before`.
    fn followed(before: &[u8]) -> Vec<u8> {
        [before, http("HTTP/1.1 200 OK\nContent-Type: text/plain", b"the next").as_slice()].concat()
    }

    /// Lost once: the advice for a truncated message was to wait until the file has grown, or to fetch it again.
    #[test]
    fn errors_of_messages_do_not_mention_files() {
        let whole = http("HTTP/1.1 200 OK\nContent-Type: text/plain", b"some body");
        assert!(parse_warc_page(&whole, &LIMITS).is_ok());
        let packed = gzip(&whole);
        for cut in [&whole[..whole.len() - 8], &whole[..30], &packed[..packed.len() / 2], b"{}", b""] {
            let rejection = parse_warc_page(cut, &LIMITS).expect_err("cut short");
            assert_eq!(rejection.reason, Reason::InvalidField);
            assert!(!rejection.message.contains("file"), "{}", rejection.message);
        }
    }

    fn records_of(bytes: &[u8], defaults: ArchiveDefaults) -> WarcRecords {
        WarcRecords::new(Box::new(Cursor::new(bytes.to_vec())), &LIMITS, defaults)
    }

    /// What is read, in short: contents of pages, reasons of rejections, `gap`, and the final error.
    fn read(bytes: &[u8]) -> Vec<String> {
        let mut records = records_of(bytes, ArchiveDefaults { sweep: Some("s".into()), ..ArchiveDefaults::default() });
        let mut outcomes = Vec::new();
        let mut chain = 0;
        loop {
            outcomes.push(match records.advance(chain) {
                Ok(Advance::Record(after)) => {
                    chain = after;
                    shown(records.decode())
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

    /// The outcome of each step, for files of which nothing can be expected.
    fn read_any(bytes: &[u8]) -> Vec<bool> {
        let mut records = records_of(bytes, ArchiveDefaults::default());
        let mut outcomes = Vec::new();
        loop {
            match records.advance(0) {
                Ok(Advance::Record(_)) => outcomes.push(matches!(records.decode(), Record::Page(_))),
                Ok(Advance::Gap(_)) => outcomes.push(false),
                Ok(Advance::End) | Err(_) => return outcomes,
            }
        }
    }

    fn shown(record: Record) -> String {
        match record {
            Record::Json(_) | Record::Mapped(_) | Record::Message(..) | Record::Poison(..) | Record::Sketched(_) => {
                panic!("no WARC")
            }
            Record::Rejected(rejection) => {
                assert!(!rejection.message.is_empty());
                rejection.reason.as_str().into()
            }
            Record::Page(page) => {
                assert!(page.url.starts_with("http://a/"));
                assert_eq!(page.sweep.as_deref(), Some("s"));
                match page.content {
                    Content::Gone => "gone".into(),
                    Content::Redirect(target) => format!("to {target}"),
                    Content::Features(_) => panic!("features"),
                    Content::Body { media_type, body: Body::Text(_) } => panic!("text as {media_type:?}"),
                    Content::Body { media_type, body: Body::Bytes { bytes, charset } } => {
                        let charset = charset.map(|charset| format!(" {charset}")).unwrap_or_default();
                        format!("{media_type:?}{charset}: {}", String::from_utf8_lossy(&bytes))
                    }
                }
            }
        }
    }

    #[test]
    fn responses() {
        let ok = "HTTP/1.1 200 OK\nContent-Type: text/html";
        for (head, body, expected) in [
            (ok, b"<p>x".to_vec(), "Html: <p>x"),
            ("HTTP/1.1 200 \nContent-Type: text/html; charset=latin1", b"x".to_vec(), "Html latin1: x"),
            ("HTTP/2 200\ncontent-type: text/plain", b"x".to_vec(), "PlainText: x"),
            ("HTTP/1.1 200 OK\nServer: s", b"x".to_vec(), "Unknown: x"),
            (ok, b"".to_vec(), "Html: "),
            (&format!("{ok}\nContent-Encoding: gzip"), gzip(b"x"), "Html: x"),
            (&format!("{ok}\nTransfer-Encoding: chunked"), b"1\r\nx\r\n0\r\n\r\n".to_vec(), "Html: x"),
            (&format!("{ok}\nContent-Encoding: gzip"), gzip(&vec![0; 10 << 20]), "too-large"),
            (&format!("{ok}\nContent-Encoding: gzip"), gzip(b"xyz")[..20].to_vec(), "content-encoding"),
            (&format!("{ok}\nContent-Encoding: rot13"), b"x".to_vec(), "content-encoding"),
            (ok, vec![b'x'; 1001], "too-large"),
            (ok, vec![b'x'; 1 << 20], "too-large"),
            ("HTTP/1.1 404 Not Found\nContent-Type: text/html", b"none".to_vec(), "gone"),
            ("HTTP/1.1 410 Gone", b"".to_vec(), "gone"),
            ("HTTP/1.1 301 Moved\nLocation: /b", b"".to_vec(), "to http://a/b"),
            ("HTTP/1.1 302 Found\nlocation: https://b/c?d#e", b"<p>x".to_vec(), "to https://b/c?d"),
            ("HTTP/1.1 301 Moved", b"".to_vec(), "http-status"),
            ("HTTP/1.1 304 Not Modified\nLocation: /b", b"".to_vec(), "http-status"),
            ("HTTP/1.1 500 Error\nContent-Type: text/html", b"x".to_vec(), "http-status"),
            ("HTTP/1.1 200 OK\nContent-Type: image/png", b"\x89PNG".to_vec(), "media-type"),
            ("nothing like HTTP", b"x".to_vec(), "http-status"),
        ] {
            assert_eq!(read(&followed(&http(head, &body))), [expected, "PlainText: the next"], "{head}");
        }
    }

    #[test]
    fn kinds_of_records() {
        for (kind, content_type, expected) in [
            ("resource", "text/html; charset=utf-8", Some("Html utf-8: x")),
            ("resource", "image/png", Some("media-type")),
            ("resource", "text/dns", Some("media-type")),
            ("response", "text/dns", Some("media-type")),
            ("conversion", "text/plain", Some("PlainText utf-8: x")),
            ("conversion", "", Some("PlainText utf-8: x")),
            ("revisit", HTTP, Some("revisit")),
            ("warcinfo", "application/warc-fields", None),
            ("request", "application/http; msgtype=request", None),
            ("metadata", "text/plain", None),
            ("continuation", "text/plain", None),
            ("of a later standard", "text/plain", None),
        ] {
            let expected: Vec<&str> = expected.into_iter().chain(["PlainText: the next"]).collect();
            assert_eq!(read(&followed(&record(kind, content_type, b"x"))), expected, "{kind} {content_type}");
        }
    }

    #[test]
    fn odd_headers_are_accepted_or_rejected() {
        let page = String::from_utf8(record("resource", "text/plain", b"x")).expect("text");
        for (from, to, expected) in [
            ("http://a/resource", "<http://a/resource>", "PlainText: x"),
            ("\r\n", "\n", "PlainText: x"),
            ("WARC/1.0", "WARC/1.1", "PlainText: x"),
            ("WARC/1.0", "warc/1.0", "PlainText: x"),
            ("WARC-Type", "warc-type", "PlainText: x"),
            ("Content-Length", "content-length", "PlainText: x"),
            ("http://a/resource", "http://a/b c", "PlainText: x"),
            ("http://a/resource", "http://a/b\tc", "invalid-url"),
            ("http://a/resource", "", "invalid-url"),
            ("WARC-Target-URI", "Other", "invalid-url"),
            ("http://a/resource", &format!("http://a/{}", "b".repeat(40)), "invalid-url"),
            ("2020-01-01T00:00:00Z", "2020", "PlainText: x"),
            ("2020-01-01T00:00:00Z", "soon", "invalid-time"),
            ("WARC-Date", "Other", "invalid-time"),
            ("Content-Length", "Other", "invalid-field"),
            ("Content-Length: 1", "Content-Length: one", "invalid-field"),
            ("Content-Length: 1", "Content-Length: -1", "invalid-field"),
            ("Content-Length: 1", "Content-Length: 99999999999999999999999", "invalid-field"),
        ] {
            let page = page.replace(from, to);
            assert_eq!(read(&followed(page.as_bytes())), [expected, "PlainText: the next"], "{from} {to}");
        }
    }

    /// Lost once: logs that wget and others keep in their archives became pages of sites, and changed at every
    /// crawl.
    #[test]
    fn resources_are_pages_only_at_page_urls() {
        for (url, expected) in [
            ("https://a/b", "PlainText: x"),
            ("HTTP://a/b", "PlainText: x"),
            ("ftp://a/b", "PlainText: x"),
            ("file:///a/b", "PlainText: x"),
            ("metadata://gnu.org/wget/wget.log", "no-page"),
            ("urn:X-wpull:log", "no-page"),
            ("screenshot:http://a/b", "no-page"),
            ("a/b", "no-page"),
        ] {
            for kind in ["resource", "conversion"] {
                let record = String::from_utf8(record(kind, "text/plain; charset=utf-8", b"x")).expect("text");
                let record = record.replace(&format!("http://a/{kind}"), url);
                let mut records = records_of(record.as_bytes(), ArchiveDefaults::default());
                assert!(matches!(records.advance(0), Ok(Advance::Record(_))));
                match records.decode() {
                    Record::Page(page) => assert_eq!((page.url.as_str(), expected), (url, "PlainText: x")),
                    Record::Rejected(rejection) => assert_eq!(rejection.reason.as_str(), expected, "{url}"),
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    /// Lost once: the first segment of a record passed for the whole page, and the others were silently skipped.
    #[test]
    fn segments_are_not_pages() {
        let whole = String::from_utf8(http("HTTP/1.1 200 OK\nContent-Type: text/plain", b"x")).expect("text");
        let first = whole.replace("WARC-Type", "WARC-Segment-Number: 1\r\nWARC-Type");
        let second = String::from_utf8(record("continuation", "", b"y")).expect("text");
        let second = second.replace("WARC-Type", "WARC-Segment-Number: 2\r\nWARC-Type");
        assert_eq!(read(&followed((first + &second).as_bytes())), ["segmented", "PlainText: the next"]);
    }

    /// Lost once: a page with a broken date was rejected, although the record before it had the time of the fetch.
    #[test]
    fn a_page_without_a_time_gets_that_of_the_record_before() {
        let dated = |kind: &str, date: &str| {
            let record = String::from_utf8(record(kind, "text/plain", b"x")).expect("text");
            record.replace("2020-01-01T00:00:00Z", date)
        };
        let file = [
            dated("resource", "soon"),
            dated("warcinfo", "2020-02"),
            dated("resource", ""),
            dated("request", "2020-03-01T00:00:00Z"),
            dated("resource", "2020-03-32T00:00:00Z"),
            dated("resource", "2020-04-01T00:00:00Z"),
            dated("resource", "soon").replace("WARC-Date", "Other"),
        ];
        let times = |fetched_at: Option<&str>| {
            let fetched_at = fetched_at.map(|time| time.parse().expect("a time"));
            let mut records =
                records_of(file.concat().as_bytes(), ArchiveDefaults { fetched_at, ..ArchiveDefaults::default() });
            let mut times = Vec::new();
            while let Ok(Advance::Record(_)) = records.advance(0) {
                times.push(match records.decode() {
                    Record::Page(page) => page.fetched_at.to_string()[..10].to_string(),
                    Record::Rejected(rejection) => rejection.reason.as_str().into(),
                    other => panic!("{other:?}"),
                });
            }
            (times, records.defaults.n_undated.load(Relaxed))
        };
        let (found, n_undated) = times(None);
        assert_eq!(found, ["invalid-time", "2020-02-01", "2020-03-01", "2020-04-01", "2020-04-01"]);
        assert_eq!(n_undated, 3);
        let (found, n_undated) = times(Some("2019-01-01T00:00:00Z"));
        assert_eq!((found[0].as_str(), found[1].as_str(), n_undated), ("2019-01-01", "2020-02-01", 4));
    }

    #[test]
    fn a_rejection_has_url_and_time() {
        let bytes = record("revisit", HTTP, b"");
        let mut records = records_of(&bytes, ArchiveDefaults::default());
        assert!(matches!(records.advance(0), Ok(Advance::Record(_))));
        let Record::Rejected(rejection) = records.decode() else { panic!("not rejected") };
        assert_eq!(rejection.url.as_deref(), Some("http://a/revisit"));
        assert_eq!(rejection.fetched_at, "2020-01-01T00:00:00Z".parse().ok());
    }

    #[test]
    fn wrong_lengths() {
        let text = b"some text\r\nof a few lines\r\n";
        let resource = |length: &str| with_length("resource", "text/plain", length, text);
        let request = |length: &str| with_length("request", "text/plain", length, text);
        for (bytes, expected) in [
            (resource("10"), &["invalid-field", "PlainText: the next"][..]),
            (resource("60"), &["invalid-field"]),
            (request("10"), &["gap", "PlainText: the next"]),
            (resource("18446744073709551615"), &["error"]),
            (resource("1000000"), &["error"]),
            (request("1000000"), &["error"]),
        ] {
            let mut outcomes = read(&followed(&bytes));
            outcomes
                .iter_mut()
                .filter(|text| text.starts_with("error: the file ends"))
                .for_each(|text| text.truncate(5));
            assert_eq!(outcomes, expected);
        }
    }

    #[test]
    fn bytes_outside_of_records_are_reported_once() {
        let page = followed(b"");
        let long = format!("WARC/1.0\r\nX: {}\r\n\r\n", "x".repeat(2 * HEADER_BYTES_MAX));
        for (between, expected) in [
            (&b"\r\n\r\n\0\0\0"[..], &["PlainText: the next", "PlainText: the next"][..]),
            (b"rubbish\r\nand more\r\n", &["invalid-field", "PlainText: the next"]),
            (b"WARC/7.7\r\nnot known\r\n", &["PlainText: the next", "gap", "PlainText: the next"]),
            (long.as_bytes(), &["PlainText: the next", "gap", "PlainText: the next"]),
        ] {
            assert_eq!(read(&[&page, between, &page].concat()), expected);
        }
        assert_eq!(read(&[&page, &b"WARC/7.7"[..]].concat()), ["PlainText: the next", "gap"]);
    }

    /// A file that is still being written must neither lose its last record nor yield half of it.
    #[test]
    fn a_cut_is_an_error_or_the_end_of_a_record() {
        let first = http("HTTP/1.1 200 OK\nContent-Type: text/plain", b"first");
        let bytes = [first.clone(), record("revisit", HTTP, b"")].concat();
        for cut in first.len()..bytes.len() {
            let outcomes = read(&bytes[..cut]);
            assert_eq!(outcomes[0], "PlainText: first");
            match outcomes.get(1).map(String::as_str) {
                None => assert_eq!(cut, first.len()),
                Some("revisit") => assert!(cut > bytes.len() - 4, "{cut}"),
                Some(text) => assert!(text.starts_with("error") || text == "gap", "{cut}: {text}"),
            }
        }
        for cut in 60..first.len() - 4 {
            assert!(read(&first[..cut]).last().is_some_and(|text| text.starts_with("error")), "{cut}");
        }
    }

    proptest::proptest! {
        /// Reading ends whatever is broken, and invents nothing.
        #[test]
        fn broken_files_end(breaks in proptest::collection::vec((0..2000_usize, proptest::num::u8::ANY), 0..20)) {
            let request = record("request", HTTP, b"GET / HTTP/1.0\r\n\r\n");
            let chunked = "HTTP/1.1 200 OK\nContent-Type: text/plain\nTransfer-Encoding: chunked";
            let mut bytes = [followed(&request), http(chunked, b"3\r\nabc\r\n0\r\n\r\n"), followed(&request)].concat();
            for (at, byte) in breaks {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            proptest::prop_assert!(read_any(&bytes).len() <= 10);
        }
    }

    #[test]
    fn a_damaged_stream_ends_the_file_with_an_error() {
        let packed = [gzip(&followed(b"")), gzip(&followed(b""))].concat();
        let cut = packed[..packed.len() - 20].to_vec();
        let stream = decompressed(Box::new(Cursor::new(cut)), &IdleDecoders::default());
        let mut records = WarcRecords::new(stream.expect("gzip"), &LIMITS, ArchiveDefaults::default());
        assert!(matches!(records.advance(0), Ok(Advance::Record(_))));
        assert!(matches!(records.advance(0), Err(ReadError::Io(_))));
    }
}
