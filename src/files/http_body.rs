//! HTTP bodies as archives and crawlers keep them: transfer and content codings undone within a budget of bytes.

use crate::wire::{Limits, Reason, Rejection};
use flate2::{Decompress, FlushDecompress, Status};
use memchr::memchr;
use std::borrow::Cow;
use std::io::{self, Read};

/// Codings on top of one another that are undone; nobody needs more, and each costs a body's time.
const CODINGS_MAX: usize = 4;
/// The largest zstd window in HTTP: 8 MiB (RFC 9659).
const ZSTD_WINDOW_LOG_MAX: u32 = 23;
/// How far an inflated body grows at a time.
const STEP_BYTES: usize = 64 << 10;

/// Why a coding could not be undone.
enum DecodeError {
    /// More bytes come out than the budget.
    TooLarge,
    /// Not what the header says, or damaged.
    Damaged(String),
}

impl From<io::Error> for DecodeError {
    fn from(error: io::Error) -> Self {
        DecodeError::Damaged(error.to_string())
    }
}

/// The body of a message without the codings that its `content-encoding` names.
///
/// # Errors
/// A [`Rejection`] of a body that unpacks to more than the limit, and of codings unknown or damaged.
pub fn decode_content(body: &[u8], codings: &str, limits: &Limits) -> Result<Vec<u8>, Rejection> {
    decode_body(body, &[Cow::Borrowed(codings)], limits)
}

/// The body without its codings, which are the values of `Content-Encoding` and then `Transfer-Encoding`, in the order in
/// which they were applied. Crawlers undo codings and leave the header in place: what bears no sign of gzip, zstd or
/// chunks is taken as undone already.
///
/// # Errors
/// [`Reason::TooLarge`] as soon as the budget is spent, [`Reason::ContentEncoding`] for codings unknown or damaged.
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

/// All that a reader gives, if that is not more than the budget.
fn within(reader: impl Read, bytes_max: usize) -> Result<Vec<u8>, DecodeError> {
    let mut bytes = Vec::new();
    reader.take(bytes_max as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > bytes_max { Err(DecodeError::TooLarge) } else { Ok(bytes) }
}

/// The members of a gzip body; what follows the last one is ignored, as browsers do.
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

/// `deflate` is zlib (RFC 9110), but some servers send it bare.
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

/// The chunks' contents. A body that does not begin with a chunk is taken as it is; the closing empty chunk may be missing.
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

/// A chunk's length, and that of the line that says so.
fn chunk_line(bytes: &[u8]) -> Option<(usize, usize)> {
    let end = memchr(b'\n', bytes)?;
    let line = bytes[..end].split(|byte| *byte == b';').next()?.trim_ascii();
    // Underscores, which the parser would take, are none.
    let digits = std::str::from_utf8(line).ok().filter(|line| line.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    Some((usize::from_str_radix(digits, 16).ok()?, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::compression::tests::{gzip, zstd};
    use std::io::Write;

    const LIMITS: Limits = Limits { body_bytes_max: 1000, url_bytes_max: 100, sweep_bytes_max: 10, words_max: 100 };

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
