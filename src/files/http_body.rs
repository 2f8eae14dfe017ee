//! HTTP bodies as archives and crawlers keep them: undoes transfer and content codings within a budget of bytes.

use crate::wire::{Limits, Reason, Rejection};
use flate2::{Decompress, FlushDecompress, Status};
use memchr::memchr;
use std::borrow::Cow;
use std::io::{self, Read};

/// The most codings of one body. Real bodies have fewer, and each costs the time of a whole body.
const CODINGS_MAX: usize = 4;
/// The largest zstd window in HTTP: 8 MiB (RFC 9659).
const ZSTD_WINDOW_LOG_MAX: u32 = 23;
/// How many bytes an inflated body grows by at a time.
const STEP_BYTES: usize = 64 << 10;

/// Why a coding could not be undone.
enum DecodeError {
    /// The output exceeds the budget.
    TooLarge,
    /// The body is damaged, or not what the header says.
    Damaged(String),
}

impl From<io::Error> for DecodeError {
    fn from(error: io::Error) -> Self {
        DecodeError::Damaged(error.to_string())
    }
}

/// Undoes the codings that a message's `content-encoding` names.
///
/// # Errors
/// A [`Rejection`] if the body exceeds the limit, or if a coding is unknown or damaged.
pub fn decode_content(body: &[u8], codings: &str, limits: &Limits) -> Result<Vec<u8>, Rejection> {
    decode_body(body, &[Cow::Borrowed(codings)], limits)
}

/// Undoes the codings of a body: the values of `Content-Encoding`, then of `Transfer-Encoding`, in the order of
/// their application. Crawlers undo codings and keep the header, so a body without signs of gzip, zstd or chunks
/// counts as decoded.
///
/// # Errors
/// [`Reason::TooLarge`] as soon as the budget is spent; [`Reason::ContentEncoding`] for unknown or damaged codings.
pub(super) fn decode_body(body: &[u8], codings: &[Cow<'_, str>], limits: &Limits) -> Result<Vec<u8>, Rejection> {
    let names: Vec<String> = codings
        .iter()
        .flat_map(|value| value.split(','))
        .map(|name| name.trim().to_ascii_lowercase())
        .filter(|name| !matches!(name.as_str(), "" | "identity" | "none"))
        .collect();
    if names.len() > CODINGS_MAX {
        let message = format!("the body has {} codings, more than {CODINGS_MAX}", names.len());
        return Err(Rejection::new(Reason::ContentEncoding, message));
    }
    let mut bytes = Cow::Borrowed(body);
    for name in names.iter().rev() {
        bytes = decode(name, bytes, limits.body_bytes_max).map_err(|wrong| rejection(name, wrong, limits))?;
    }
    if bytes.len() > limits.body_bytes_max {
        return Err(limits.body_too_large(bytes.len()));
    }
    Ok(bytes.into_owned())
}

fn rejection(name: &str, wrong: DecodeError, limits: &Limits) -> Rejection {
    let shown: String = name.chars().take(40).collect();
    match wrong {
        DecodeError::TooLarge => {
            let max = limits.body_bytes_max;
            let message = format!("the body unpacks ({shown}) to more than limits.body_bytes_max = {max} bytes");
            Rejection::new(Reason::TooLarge, message)
        }
        DecodeError::Damaged(why) => {
            Rejection::new(Reason::ContentEncoding, format!("the coding {shown:?} cannot be undone: {why}"))
        }
    }
}

fn decode<'a>(name: &str, bytes: Cow<'a, [u8]>, bytes_max: usize) -> Result<Cow<'a, [u8]>, DecodeError> {
    match name {
        "chunked" => unchunked(bytes),
        "gzip" | "x-gzip" if !bytes.starts_with(&[0x1f, 0x8b]) => Ok(bytes),
        "gzip" | "x-gzip" => gunzipped(&bytes, bytes_max).map(Cow::Owned),
        "deflate" => inflated(&bytes, bytes_max).map(Cow::Owned),
        "zstd" if !bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) => Ok(bytes),
        "zstd" => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(&*bytes)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
            within(decoder, bytes_max).map(Cow::Owned)
        }
        "br" => within(brotli::Decompressor::new(&*bytes, 4096), bytes_max).map(Cow::Owned),
        _ => Err(DecodeError::Damaged("it is not known".into())),
    }
}

/// Reads everything, unless it exceeds the budget.
fn within(reader: impl Read, bytes_max: usize) -> Result<Vec<u8>, DecodeError> {
    let mut bytes = Vec::new();
    reader.take((bytes_max as u64).saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() > bytes_max { Err(DecodeError::TooLarge) } else { Ok(bytes) }
}

/// Decompresses all members of a gzip body. Whatever follows the last one is ignored, as browsers do.
fn gunzipped(bytes: &[u8], bytes_max: usize) -> Result<Vec<u8>, DecodeError> {
    let mut unpacked = Vec::new();
    let mut rest = bytes;
    while rest.starts_with(&[0x1f, 0x8b]) {
        let mut decoder = flate2::bufread::GzDecoder::new(rest);
        let left = bytes_max - unpacked.len();
        unpacked.extend(within(&mut decoder, left)?);
        rest = decoder.into_inner();
    }
    Ok(unpacked)
}

/// `deflate` is zlib (RFC 9110), but some servers send it without the zlib header.
fn inflated(bytes: &[u8], bytes_max: usize) -> Result<Vec<u8>, DecodeError> {
    let is_zlib = matches!(bytes, [a, b, ..] if a & 0x0f == 8 && u16::from_be_bytes([*a, *b]) % 31 == 0);
    let mut inflater = Decompress::new(is_zlib);
    let mut unpacked = Vec::new();
    loop {
        unpacked.reserve(STEP_BYTES);
        let (n_in, n_out) = (inflater.total_in(), inflater.total_out());
        let rest = &bytes[usize::try_from(n_in).unwrap_or(usize::MAX).min(bytes.len())..];
        let status = inflater
            .decompress_vec(rest, &mut unpacked, FlushDecompress::None)
            .map_err(|error| DecodeError::Damaged(error.to_string()))?;
        if unpacked.len() > bytes_max {
            return Err(DecodeError::TooLarge);
        }
        if status == Status::StreamEnd {
            return Ok(unpacked);
        }
        if (inflater.total_in(), inflater.total_out()) == (n_in, n_out) {
            return Err(DecodeError::Damaged("it is cut short".into()));
        }
    }
}

/// Joins the chunks' contents. A body that does not begin with a chunk is returned unchanged; the final empty chunk
/// may be missing.
fn unchunked(bytes: Cow<'_, [u8]>) -> Result<Cow<'_, [u8]>, DecodeError> {
    if chunk_line(&bytes).is_none() {
        return Ok(bytes);
    }
    let mut contents = Vec::with_capacity(bytes.len());
    let mut rest = &*bytes;
    while !rest.is_empty() {
        let (n_bytes, n_line) = chunk_line(rest).ok_or_else(|| DecodeError::Damaged("a chunk has no length".into()))?;
        if n_bytes == 0 {
            break;
        }
        let chunk = rest[n_line..]
            .get(..n_bytes)
            .ok_or_else(|| DecodeError::Damaged(format!("it is cut short in a chunk of {n_bytes} bytes")))?;
        contents.extend_from_slice(chunk);
        rest = &rest[n_line + n_bytes..];
        rest = rest.strip_prefix(b"\r\n").or_else(|| rest.strip_prefix(b"\n")).unwrap_or(rest);
    }
    Ok(Cow::Owned(contents))
}

/// A chunk's length, and the length of the line that states it.
fn chunk_line(bytes: &[u8]) -> Option<(usize, usize)> {
    let end = memchr(b'\n', bytes)?;
    let line = bytes[..end].split(|byte| *byte == b';').next()?.trim_ascii();
    // The parser would accept underscores.
    let digits = std::str::from_utf8(line).ok().filter(|line| line.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    Some((usize::from_str_radix(digits, 16).ok()?, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::compression::tests::{gzip, zstd};
    use std::io::Write;

    const LIMITS: Limits =
        Limits { body_bytes_max: 1000, url_bytes_max: 100, sweep_bytes_max: 10, words_max: 100, text_bytes_max: 100 };

    fn zlib(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).expect("memory");
        encoder.finish().expect("memory")
    }

    fn bare(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).expect("memory");
        encoder.finish().expect("memory")
    }

    fn br(bytes: &[u8]) -> Vec<u8> {
        let mut packed = Vec::new();
        brotli::CompressorWriter::new(&mut packed, 4096, 5, 20).write_all(bytes).expect("memory");
        packed
    }

    fn packings(bytes: &[u8]) -> [(&'static str, Vec<u8>); 5] {
        [
            ("gzip", gzip(bytes)),
            ("deflate", zlib(bytes)),
            ("deflate", bare(bytes)),
            ("br", br(bytes)),
            ("zstd", zstd(bytes)),
        ]
    }

    fn check(codings: &[&str], body: &[u8], expected: Result<&[u8], Reason>) {
        let values: Vec<Cow<'_, str>> = codings.iter().map(|value| Cow::Borrowed(*value)).collect();
        let found = decode_body(body, &values, &LIMITS);
        assert_eq!(
            found.as_deref().map_err(|rejection| rejection.reason),
            expected.as_ref().map(|bytes| *bytes).map_err(|reason| *reason),
            "{codings:?}"
        );
    }

    #[test]
    fn codings_are_undone() {
        let chunked: &[u8] = b"4;name=value\r\nWiki\r\n0A\r\npedia in\r\n\r\nb\nchunks.1234\n0\r\n\r\n";
        for (codings, body, expected) in [
            (&[][..], b"x".to_vec(), &b"x"[..]),
            (&["identity", ""], b"x".to_vec(), b"x"),
            (&["gzip"], gzip(b"x"), b"x"),
            (&["X-GZIP"], [gzip(b"x"), gzip(b"y"), b"rest".to_vec()].concat(), b"xy"),
            (&["gzip"], b"plain already".to_vec(), b"plain already"),
            (&["deflate"], zlib(b"x"), b"x"),
            (&["deflate"], bare(b"x"), b"x"),
            (&["br"], br(b"x"), b"x"),
            (&["zstd"], zstd(b"x"), b"x"),
            (&["deflate, gzip"], gzip(&zlib(b"x")), b"x"),
            (&["deflate", "gzip"], gzip(&zlib(b"x")), b"x"),
            (&["chunked"], chunked.to_vec(), b"Wikipedia in\r\nchunks.1234"),
            (&["chunked"], b"1\r\nx\r\n".to_vec(), b"x"),
            (&["chunked"], b"<html>plain already".to_vec(), b"<html>plain already"),
            (&["gzip", "chunked"], [b"15\r\n".to_vec(), gzip(b"x"), b"\r\n0\r\n\r\n".to_vec()].concat(), b"x"),
        ] {
            check(codings, &body, Ok(expected));
        }
        let all = vec![b'x'; LIMITS.body_bytes_max];
        for (coding, packed) in packings(&all) {
            check(&[coding], &packed, Ok(&all));
        }
    }

    #[test]
    fn what_cannot_be_undone_is_rejected() {
        let text: Vec<u8> = (0..200_u8).collect();
        for (coding, packed) in packings(&text) {
            check(&[coding], &packed[..packed.len() - 9], Err(Reason::ContentEncoding));
        }
        for (codings, body) in [
            (&["chunked"][..], &b"5\r\nabc"[..]),
            (&["chunked"], b"1\r\nx\r\nnonsense\r\n"),
            (&["chunked"], b"ffffffffffffffff\r\nx"),
            (&["sdch"], b"x"),
            (&["gzip,gzip,gzip,gzip,gzip"], b"x"),
            (&["deflate"], b"neither zlib nor deflate"),
            (&["br"], b"<html>no brotli at all</html>"),
        ] {
            check(codings, body, Err(Reason::ContentEncoding));
        }
    }

    #[test]
    fn bombs_stop_at_the_budget() {
        let zeros = vec![0; 64 << 20];
        for (coding, packed) in packings(&zeros) {
            check(&[coding], &packed, Err(Reason::TooLarge));
        }
        check(&["gzip"], &[gzip(&zeros[..600]), gzip(&zeros[..600])].concat(), Err(Reason::TooLarge));
        check(&[], &zeros[..1001], Err(Reason::TooLarge));
    }
}
