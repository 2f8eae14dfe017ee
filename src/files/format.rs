//! The format of a decompressed stream, recognised by its first bytes.

use super::compression::peek;
use super::read_error::ReadError;
use super::stream::Stream;

/// The formats that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileFormat {
    /// One JSON page a line: any text that is not WARC.
    Jsonl,
    /// WARC and WET.
    Warc,
    /// Parquet, a page a row.
    Parquet,
}

/// The length of the longest signature.
const SIGNATURE_BYTES: usize = 16;
const BOM: &[u8] = &[0xef, 0xbb, 0xbf];

/// Signatures of formats that cannot be read, with what they are and what to do.
const UNREADABLE: &[(&[u8], &str)] = &[
    (b"filedesc://", "an ARC file; convert it to WARC, for example with `warcio recompress`"),
    (b"PK\x03\x04", "a zip or WACZ archive; unpack it and give the WARC files inside"),
    (b"PK\x05\x06", "a zip or WACZ archive; unpack it and give the WARC files inside"),
    (b"\x1f\x8b", "compressed twice; undo one gzip first"),
    (b"\x28\xb5\x2f\xfd", "compressed twice; undo one zstd first"),
    (b"\xfd7zXZ\x00", "compressed with xz; use gzip or zstd"),
    (b"BZh", "compressed with bzip2; use gzip or zstd"),
    (b"\x04\x22\x4d\x18", "compressed with lz4; use gzip or zstd"),
    (b"PARE", "an encrypted Parquet file; decrypt it"),
    (b"\xff\xfe", "text in UTF-16; JSONL must be UTF-8"),
    (b"\xfe\xff", "text in UTF-16; JSONL must be UTF-8"),
];

/// Recognises the format. Returns it with the stream, without a byte order mark.
///
/// # Errors
/// [`ReadError::Format`] for formats that cannot be read; otherwise the error of reading the first bytes.
pub(super) fn sniff(stream: Stream) -> Result<(FileFormat, Stream), ReadError> {
    let (head, mut stream) = peek(stream, SIGNATURE_BYTES)?;
    let format = format_of(&head)?;
    if head.starts_with(BOM) {
        stream.read_exact(&mut [0; BOM.len()])?;
    }
    Ok((format, stream))
}

fn format_of(head: &[u8]) -> Result<FileFormat, ReadError> {
    if let Some((_, what)) = UNREADABLE.iter().find(|(signature, _)| head.starts_with(signature)) {
        return Err(ReadError::Format(what));
    }
    if head.starts_with(b"PAR1") {
        return Ok(FileFormat::Parquet);
    }
    if head.trim_ascii_start().starts_with(b"WARC/") {
        return Ok(FileFormat::Warc);
    }
    if head.contains(&0) {
        return Err(ReadError::Format("a binary file, and neither JSONL, WARC nor Parquet"));
    }
    Ok(FileFormat::Jsonl)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn check(bytes: &[u8], expected: Result<(FileFormat, &str), &str>) {
        let found = sniff(Box::new(Cursor::new(bytes.to_vec()))).map(|(format, mut stream)| {
            let mut text = String::new();
            stream.read_to_string(&mut text).expect("text");
            (format, text)
        });
        match (found, expected) {
            (Ok((format, text)), Ok(expected)) => assert_eq!((format, text.as_str()), expected),
            (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
            (found, expected) => panic!("{:?} is not {expected:?}", found.is_ok()),
        }
    }

    #[test]
    fn formats() {
        check(b"", Ok((FileFormat::Jsonl, "")));
        check(b"{\"url\":1}\n", Ok((FileFormat::Jsonl, "{\"url\":1}\n")));
        check(b"\xef\xbb\xbf{}\n", Ok((FileFormat::Jsonl, "{}\n")));
        check(b"WARC/1.0\r\n", Ok((FileFormat::Warc, "WARC/1.0\r\n")));
        check(b"\r\nWARC/1.1\r\n", Ok((FileFormat::Warc, "\r\nWARC/1.1\r\n")));
        check(b"WARC/1.1\r\n\0", Ok((FileFormat::Warc, "WARC/1.1\r\n\0")));
        check(b"PAR1\x15\0", Ok((FileFormat::Parquet, "PAR1\x15\0")));
        check(b"filedesc://a.arc 0.0.0.0", Err("ARC"));
        check(b"PK\x03\x04\x14\x00", Err("WACZ"));
        check(&crate::files::compression::tests::gzip(b"x"), Err("twice"));
        check(b"\x7fELF\x02\x01\x01\x00\x00", Err("binary"));
        check(b"\xff\xfe{\x00", Err("UTF-16"));
    }
}
