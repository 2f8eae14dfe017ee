//! The format of a decompressed stream, recognised by its first bytes; the name decides only what these leave open.
//!
//! A further format needs a variant of [`FileFormat`], its signature in [`format_of`], a
//! [`RecordReader`](super::record_reader::RecordReader), and an arm in `source::open`.

use super::compression::{is_bzip2, peek};
use super::page_file::{last_ending, media_type_of};
use super::read_error::ReadError;
use super::stream::Stream;
use super::table::{delimiter_of, header_delimiter};
use crate::document::MediaType;

/// The formats that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileFormat {
    /// One JSON object a line: any text that is nothing else.
    Jsonl,
    /// An array of JSON objects.
    JsonArray,
    /// CSV and TSV with a header line, and their delimiter.
    Table(u8),
    /// One page: HTML or plain text.
    Page(MediaType),
    /// WARC and WET.
    Warc,
    /// ARC.
    Arc,
    /// A zip archive: WACZ.
    Zip,
    /// Parquet, a page a row.
    Parquet,
}

impl FileFormat {
    /// Whether records can be written as they came.
    pub(super) fn can_stay_same(self) -> bool {
        !matches!(self, FileFormat::Arc | FileFormat::Zip)
    }
}

/// A stream whose format is known.
pub(super) struct Sniffed {
    pub(super) format: FileFormat,
    /// Whether a byte order mark was taken from its beginning.
    pub(super) had_mark: bool,
    pub(super) stream: Stream,
}

/// The length of the longest signature.
const SIGNATURE_BYTES: usize = 16;
/// The longest header line of a table.
const HEADER_LINE_BYTES_MAX: usize = 64 << 10;
/// The byte order mark, which may begin text in UTF-8.
pub(super) const BOM: &[u8] = &[0xef, 0xbb, 0xbf];

/// Signatures of formats that cannot be read, with what they are and what to do.
const UNREADABLE: &[(&[u8], &str)] = &[
    (b"\x1f\x8b", "compressed twice; undo one gzip first"),
    (b"\x28\xb5\x2f\xfd", "compressed twice; undo one zstd first"),
    (b"\xfd7zXZ\x00", "compressed twice; undo one xz first"),
    (b"\x04\x22\x4d\x18", "compressed with lz4; use gzip, zstd, xz or bzip2"),
    (b"PARE", "an encrypted Parquet file; decrypt it"),
    (UTF_16[0], "text in UTF-16; convert it to UTF-8"),
    (UTF_16[1], "text in UTF-16; convert it to UTF-8"),
];

/// The byte order marks of UTF-16.
const UTF_16: [&[u8]; 2] = [b"\xff\xfe", b"\xfe\xff"];

/// How the names of files end that belong to pages and are none.
const BESIDE_PAGES: [&str; 3] = ["css", "js", "mjs"];

/// How a WARC file begins, in capitals or not.
const WARC: &[u8] = b"WARC/";

/// How HTML begins, in lower case.
const HTML: [&[u8]; 5] = [b"<!doctype html", b"<html", b"<head", b"<body", b"<!--"];

/// Recognises the format. Returns it with the stream, without a byte order mark. `names_column` says which names of
/// columns hold a part of a page.
///
/// # Errors
/// [`ReadError::Format`] for formats that cannot be read; otherwise the error of reading the first bytes.
pub(super) fn sniff(stream: Stream, name: &str, names_column: impl Fn(&str) -> bool) -> Result<Sniffed, ReadError> {
    let (mut head, mut stream) = peek(stream, SIGNATURE_BYTES)?;
    if may_be_header(&head) {
        // A table says what it is in its first line.
        let mut n = head.len();
        while head.len() >= n && !head.contains(&b'\n') && n < HEADER_LINE_BYTES_MAX {
            n = head.len() + 4096;
            (head, stream) = peek(stream, n)?;
        }
    }
    let format = format_of(&head, name, names_column)?;
    let had_mark = head.starts_with(BOM);
    if had_mark {
        stream.read_exact(&mut [0; BOM.len()])?;
    }
    Ok(Sniffed { format, had_mark, stream })
}

/// Whether the first byte may begin the name of a column.
fn may_be_header(head: &[u8]) -> bool {
    let head = head.strip_prefix(BOM).unwrap_or(head);
    head.first().is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'"' | b'_'))
}

fn format_of(head: &[u8], name: &str, names_column: impl Fn(&str) -> bool) -> Result<FileFormat, ReadError> {
    let named = media_type_of(name);
    // What is one page is decoded as such, and its charset found.
    let is_page = named.is_some() && UTF_16.iter().any(|mark| head.starts_with(mark));
    if let Some((_, what)) = UNREADABLE.iter().find(|(signature, _)| head.starts_with(signature) && !is_page) {
        return Err(ReadError::Format(what));
    }
    if is_bzip2(head) {
        return Err(ReadError::Format("compressed twice; undo one bzip2 first"));
    }
    if head.starts_with(b"PK\x03\x04") || head.starts_with(b"PK\x05\x06") {
        return Ok(FileFormat::Zip);
    }
    if head.starts_with(b"PAR1") {
        return Ok(FileFormat::Parquet);
    }
    let text = head.strip_prefix(BOM).unwrap_or(head).trim_ascii_start();
    if text.get(..WARC.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(WARC)) {
        return Ok(FileFormat::Warc);
    }
    if text.starts_with(b"filedesc:") {
        return Ok(FileFormat::Arc);
    }
    let second = text.get(1..).unwrap_or_default().trim_ascii_start().first();
    match (text.first(), second) {
        // Text may begin with a bracket, too.
        (None, _) => Ok(FileFormat::Jsonl),
        (Some(b'{'), Some(b'"' | b'}')) => Ok(FileFormat::Jsonl),
        (Some(b'['), Some(b'{' | b']')) => Ok(FileFormat::JsonArray),
        (Some(b'<'), _) => markup(text, named),
        (Some(_), _) if last_ending(name).is_some_and(|end| BESIDE_PAGES.contains(&end)) => {
            Err(ReadError::Format("a style sheet or a script, which is no page"))
        }
        (Some(_), _) => match (named, table(text, name, names_column)) {
            (Some(media_type), _) => Ok(FileFormat::Page(media_type)),
            (None, Some(table)) => Ok(table),
            (None, None) if head.contains(&0) => {
                Err(ReadError::Format("a binary file, none of the formats that hold pages"))
            }
            (None, None) => Ok(FileFormat::Jsonl),
        },
    }
}

fn markup(text: &[u8], named: Option<MediaType>) -> Result<FileFormat, ReadError> {
    let is_html = HTML.iter().any(|begin| text.len() >= begin.len() && text[..begin.len()].eq_ignore_ascii_case(begin));
    match named {
        Some(media_type) => Ok(FileFormat::Page(media_type)),
        None if is_html => Ok(FileFormat::Page(MediaType::Html)),
        None => {
            Err(ReadError::Format("markup but not an HTML page; to read it as one, give it a name that ends in .html"))
        }
    }
}

/// The table that the first line or the name shows.
fn table(text: &[u8], name: &str, names_column: impl Fn(&str) -> bool) -> Option<FileFormat> {
    let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    if line.contains(&0) {
        return None;
    }
    let ending = last_ending(name).unwrap_or_default().to_ascii_lowercase();
    let delimiter = match ending.as_str() {
        "csv" => delimiter_of(line).or(Some(b',')),
        "tsv" | "tab" => Some(b'\t'),
        _ => header_delimiter(line, names_column),
    };
    delimiter.map(FileFormat::Table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn check(name: &str, bytes: &[u8], expected: Result<(FileFormat, &str), &str>) {
        let stream = Box::new(Cursor::new(bytes.to_vec()));
        let found = sniff(stream, name, |column| column == "url").map(|Sniffed { format, mut stream, .. }| {
            let mut text = String::new();
            stream.read_to_string(&mut text).expect("text");
            (format, text)
        });
        match (found, expected) {
            (Ok((format, text)), Ok(expected)) => assert_eq!((format, text.as_str()), expected),
            (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
            (found, expected) => panic!("{:?} is not {expected:?}", found.map(|(format, _)| format)),
        }
    }

    #[test]
    fn formats() {
        use FileFormat::{Arc, JsonArray, Jsonl, Table, Warc};
        check("a", b"", Ok((Jsonl, "")));
        check("a", b"{\"url\":1}\n", Ok((Jsonl, "{\"url\":1}\n")));
        check("a", b"\xef\xbb\xbf{}\n", Ok((Jsonl, "{}\n")));
        check("a", b"rubbish", Ok((Jsonl, "rubbish")));
        check("a", b"[1]\n", Ok((Jsonl, "[1]\n")));
        check("a", b"[\n {\"a\":1}]", Ok((JsonArray, "[\n {\"a\":1}]")));
        check("a", b"[]", Ok((JsonArray, "[]")));
        check("a", b"WARC/1.0\r\n", Ok((Warc, "WARC/1.0\r\n")));
        check("a", b"\r\nWARC/1.1\r\n", Ok((Warc, "\r\nWARC/1.1\r\n")));
        check("a", b"WARC/1.1\r\n\0", Ok((Warc, "WARC/1.1\r\n\0")));
        // Lost once: a whole archive, which was read as JSON lines.
        check("a", b"warc/1.0\r\n", Ok((Warc, "warc/1.0\r\n")));
        // Lost once: all records of a file with one such byte near its beginning.
        check("a", b"{\"url\":1}\n\0", Ok((Jsonl, "{\"url\":1}\n\0")));
        check("a", b"[{\"url\":\0}]", Ok((JsonArray, "[{\"url\":\0}]")));
        check("a", b"url,text\na,\0\n", Ok((Table(b','), "url,text\na,\0\n")));
        check("a.csv", b"a\0b,c\n", Err("binary"));
        check("a", b"filedesc://a.arc 0.0.0.0", Ok((Arc, "filedesc://a.arc 0.0.0.0")));
        check("a", b"url,text\na,b\n", Ok((Table(b','), "url,text\na,b\n")));
        check("a", b"\xef\xbb\xbfurl,text\na,b\n", Ok((Table(b','), "url,text\na,b\n")));
        check("a.csv", b"a;b\n", Ok((Table(b';'), "a;b\n")));
        check("a.tsv.gz", b"a,b\n", Ok((Table(b'\t'), "a,b\n")));
        let wide = format!("url,{}\n1\n", "column,".repeat(2000) + "last");
        check("a", wide.as_bytes(), Ok((Table(b','), &wide)));
        check("a", &crate::files::compression::tests::gzip(b"x"), Err("twice"));
        check("a", &crate::files::compression::tests::bzip2(b"x"), Err("twice"));
        check("a", b"PAR1\x15\0", Ok((FileFormat::Parquet, "PAR1\x15\0")));
        check("a", b"PARE", Err("encrypted"));
        check("a", b"\x7fELF\x02\x01\x01\x00\x00", Err("binary"));
        check("a", b"\xff\xfe{\x00", Err("UTF-16"));
    }

    #[test]
    fn pages() {
        let (html, text) = (FileFormat::Page(MediaType::Html), FileFormat::Page(MediaType::PlainText));
        check("a", b" <!DOCTYPE html><p>x", Ok((html, " <!DOCTYPE html><p>x")));
        check("a.htm", b"<p>x", Ok((html, "<p>x")));
        check("a.md", b"# x", Ok((text, "# x")));
        check("a.txt.xz", b"url,text\n", Ok((text, "url,text\n")));
        check("a.md", b"[a](b)", Ok((text, "[a](b)")));
        check("a.txt", b"{\"url\":1}", Ok((FileFormat::Jsonl, "{\"url\":1}")));
        // Refused once, although pages in UTF-16 are read from everywhere else.
        let utf_16 = b"\xff\xfe<\0p\0>\0x\0";
        assert_eq!(format_of(utf_16, "a.html", |_| false).expect("a format"), html);
        check("a.html", b"<p>\0x", Ok((html, "<p>\0x")));
        check("a.txt", b"x\0", Ok((text, "x\0")));
        check("a.svg", b"<svg>", Err("not an HTML page"));
        check("a.css", b"body { color: red }", Err("style sheet"));
        check("pages.js", b"{\"url\":1}", Ok((FileFormat::Jsonl, "{\"url\":1}")));
    }

    /// Zip archives are bytes; only their signature matters here.
    #[test]
    fn zip_archives() {
        for head in [&b"PK\x03\x04\x14\x00"[..], b"PK\x05\x06\x00\x00"] {
            assert_eq!(format_of(head, "a", |_| false).expect("a format"), FileFormat::Zip);
        }
    }
}
