//! Bytes to text: which charset a page is in, and the decoding. Never fails; what cannot be decoded is replaced.

use super::MediaType;
use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};
use std::borrow::Cow;

/// How far into a page the `<meta>` prescan looks (WHATWG HTML, "prescan a byte stream": 1024 bytes; real pages put
/// it later).
const META_PRESCAN_BYTES: usize = 4096;

/// How much of an unlabelled page the detector sees: it is slow, and the beginning is enough.
const DETECTION_BYTES: usize = 64 * 1024;

/// Decodes a page. In order of trust: byte order mark, the HTTP header's label, a `<meta>` label (HTML only),
/// valid UTF-8, detection by content. A label that the bytes belie is passed over where something better is known.
pub fn decode<'a>(bytes: &'a [u8], header_charset: Option<&str>, media_type: MediaType) -> Cow<'a, str> {
    if let Some((encoding, bom_len)) = Encoding::for_bom(bytes) {
        return encoding.decode_without_bom_handling(&bytes[bom_len..]).0;
    }
    let header = header_charset.and_then(|label| Encoding::for_label(label.as_bytes()));
    let meta = || match media_type {
        MediaType::PlainText => None,
        MediaType::Html | MediaType::Unknown => meta_charset(bytes),
    };
    let labelled = header.or_else(meta);
    match (labelled, std::str::from_utf8(bytes)) {
        // An encoding of two or four bytes a unit says nothing about bytes that happen to be valid UTF-8.
        (Some(encoding), _) if encoding == UTF_16LE || encoding == UTF_16BE => {
            encoding.decode_without_bom_handling(bytes).0
        }
        // Valid UTF-8 with non-ASCII in it is UTF-8, whatever a legacy single-byte label says.
        (Some(encoding), Ok(text)) if encoding.is_single_byte() || encoding == UTF_8 => Cow::Borrowed(text),
        (Some(encoding), _) if encoding != UTF_8 => encoding.decode_without_bom_handling(bytes).0,
        (_, Ok(text)) => Cow::Borrowed(text),
        (labelled, Err(_)) => {
            let second = meta().filter(|encoding| *encoding != UTF_8 && labelled == Some(UTF_8));
            second.unwrap_or_else(|| detect(bytes, labelled)).decode_without_bom_handling(bytes).0
        }
    }
}

/// The encoding by content. A page labelled UTF-8 with a few broken bytes stays UTF-8.
fn detect(bytes: &[u8], labelled: Option<&'static Encoding>) -> &'static Encoding {
    if labelled == Some(UTF_8) && mostly_utf8(bytes) {
        return UTF_8;
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    let seen = &bytes[..bytes.len().min(DETECTION_BYTES)];
    detector.feed(seen, seen.len() == bytes.len());
    let guess = detector.guess(None, Utf8Detection::Allow);
    if guess == UTF_8 && !mostly_utf8(bytes) { WINDOWS_1252 } else { guess }
}

/// Whether at most one non-ASCII sequence in four is broken.
fn mostly_utf8(bytes: &[u8]) -> bool {
    let (mut good, mut broken) = (0usize, 0usize);
    for chunk in bytes.utf8_chunks() {
        good += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        broken += usize::from(!chunk.invalid().is_empty());
    }
    broken * 4 <= good + broken
}

/// The charset that a `<meta charset>` or `<meta http-equiv content="…charset=…">` names.
fn meta_charset(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = &bytes[..bytes.len().min(META_PRESCAN_BYTES)];
    memchr::memchr_iter(b'<', head)
        .map(|at| &head[at + 1..])
        .filter(|tag| tag.len() > 5 && tag[..4].eq_ignore_ascii_case(b"meta") && !tag[4].is_ascii_alphanumeric())
        .find_map(|tag| {
            let end = memchr::memchr(b'>', tag).unwrap_or(tag.len());
            charset_label(&tag[..end])
        })
        .and_then(Encoding::for_label)
        // A page whose bytes spell "<meta" is not in UTF-16 (WHATWG: treat as UTF-8).
        .map(|encoding| if encoding == UTF_16LE || encoding == UTF_16BE { UTF_8 } else { encoding })
}

fn charset_label(tag: &[u8]) -> Option<&[u8]> {
    let at = tag.windows(7).position(|name| name.eq_ignore_ascii_case(b"charset"))?;
    let rest = tag[at + 7..].trim_ascii_start().strip_prefix(b"=")?;
    let rest = rest.trim_ascii_start();
    let rest = rest.strip_prefix(b"\"").or(rest.strip_prefix(b"'")).unwrap_or(rest);
    let end = rest
        .iter()
        .position(|b| matches!(b, b'"' | b'\'' | b';' | b'/' | b'>') || b.is_ascii_whitespace())
        .unwrap_or(rest.len());
    Some(&rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(bytes: &[u8], label: Option<&str>) -> String {
        decode(bytes, label, MediaType::Html).into_owned()
    }

    #[test]
    fn order_of_trust() {
        assert_eq!(html(b"\xef\xbb\xbfh\xc3\xa9", Some("shift_jis")), "hé");
        assert_eq!(html(b"\xff\xfeh\0i\0", None), "hi");
        assert_eq!(html(b"h\0i\0", Some("utf-16le")), "hi");
        assert_eq!(html(b"caf\xe9", Some("iso-8859-1")), "café");
        assert_eq!(html(b"<meta charset=windows-1251>\xcf\xf0", None), "<meta charset=windows-1251>Пр");
        assert_eq!(
            html(b"<META http-equiv='x' content='text/html; charset=euc-kr'>\xc7\xd1", None),
            "<META http-equiv='x' content='text/html; charset=euc-kr'>한"
        );
        assert_eq!(html("漢字".as_bytes(), None), "漢字");
        assert_eq!(html(b"\x93\xfa\x96\x7b", Some("shift_jis")), "日本");
    }

    #[test]
    fn lying_labels_survive() {
        assert_eq!(html("naïve".as_bytes(), Some("iso-8859-1")), "naïve");
        assert_eq!(html(b"na\xefve caf\xe9 d\xe9j\xe0 vu", Some("utf-8")), "naïve café déjà vu");
        let mostly = [("é".repeat(20)).as_bytes(), b"\xff"].concat();
        assert_eq!(html(&mostly, Some("utf-8")), "é".repeat(20) + "\u{fffd}");
        assert_eq!(html(b"plain", Some("no-such-charset")), "plain");
    }

    #[test]
    fn unlabelled_japanese_is_detected() {
        let (bytes, _, _) = encoding_rs::EUC_JP.encode("これは日本語の文章です。文字コードを当ててください。");
        assert_eq!(decode(&bytes, None, MediaType::PlainText), "これは日本語の文章です。文字コードを当ててください。");
    }
}
