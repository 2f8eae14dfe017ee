//! Charset labels, and where a page declares its own.
//!
//! This follows WHATWG HTML, "prescan a byte stream to determine its encoding", with two departures that browsers
//! make too. It reads beyond 1024 bytes, and it ignores a `<meta>` inside a script, which may belong to another
//! page.

use super::tag::{Tag, is_space, quoted, split_at};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252, X_USER_DEFINED};
use memchr::{memchr, memchr_iter, memmem};

/// How many bytes of a page are searched for a label: styles and scripts often precede it.
const PRESCAN_BYTES: usize = 16 * 1024;

/// Returns the encoding of a label. Labels that the standard maps to "replacement" count as unknown. A lone U+FFFD
/// would make all such pages equal; misread text still tells them apart.
pub(super) fn from_label(label: &[u8]) -> Option<&'static Encoding> {
    Encoding::for_label_no_replacement(label).map(
        |encoding| {
            if encoding == X_USER_DEFINED { WINDOWS_1252 } else { encoding }
        },
    )
}

/// Returns the encoding that a page's `<meta>` or XML declaration names.
pub(super) fn declared(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = &bytes[..bytes.len().min(PRESCAN_BYTES)];
    let declared = in_meta(head).or_else(|| in_xml_declaration(head))?;
    // A page whose bytes spell the label in ASCII is not UTF-16 (WHATWG: treat as UTF-8).
    Some(if is_utf_16(declared) { UTF_8 } else { declared })
}

/// Whether an encoding uses two-byte units.
pub(super) fn is_utf_16(encoding: &'static Encoding) -> bool {
    encoding == UTF_16LE || encoding == UTF_16BE
}

fn in_meta(mut rest: &[u8]) -> Option<&'static Encoding> {
    loop {
        let markup = &rest[memchr(b'<', rest)? + 1..];
        rest = match markup {
            // The search starts at the first dash, because `<!-->` is a whole comment.
            [b'!', b'-', b'-', ..] => after(&markup[1..], b"-->")?,
            [b'!' | b'?', ..] => after(markup, b">")?,
            [b'/', b, ..] if b.is_ascii_alphabetic() => Tag::read(&markup[1..]).after()?,
            [b'/', ..] => after(markup, b">")?,
            [b, ..] if b.is_ascii_alphabetic() => {
                let mut tag = Tag::read(markup);
                let label = if tag.is("meta") { charset_label(&mut tag) } else { None };
                let encoding = label.and_then(from_label);
                let is_script = tag.is("script");
                // A tag whose end lies beyond the prescan is ignored: its label may be cut.
                let after_tag = tag.after()?;
                if encoding.is_some() {
                    return encoding;
                }
                if is_script { after_script(after_tag)? } else { after_tag }
            }
            _ => markup,
        };
    }
}

fn after<'h>(bytes: &'h [u8], end: &[u8]) -> Option<&'h [u8]> {
    memmem::find(bytes, end).map(|at| &bytes[at + end.len()..])
}

fn after_script(bytes: &[u8]) -> Option<&[u8]> {
    memchr_iter(b'<', bytes)
        .map(|at| &bytes[at..])
        .find(|rest| rest.get(..8).is_some_and(|tag| tag.eq_ignore_ascii_case(b"</script")))
}

/// `<?xml version="1.0" encoding="…"?>`
fn in_xml_declaration(head: &[u8]) -> Option<&'static Encoding> {
    let declaration = head.strip_prefix(b"<?xml")?;
    let declaration = &declaration[..memchr(b'>', declaration)?];
    let value = after(declaration, b"encoding")?.trim_ascii_start().strip_prefix(b"=")?.trim_ascii_start();
    from_label(quoted(value)?)
}

/// The label that a `<meta>` names. The first of several attributes with one name counts.
fn charset_label<'h>(tag: &mut Tag<'h>) -> Option<&'h [u8]> {
    let (mut charset, mut pragma, mut content) = (None, None, None);
    for (name, value) in tag {
        match name.to_ascii_lowercase().as_slice() {
            b"charset" => charset.get_or_insert(value),
            b"http-equiv" => pragma.get_or_insert(value),
            b"content" => content.get_or_insert(value),
            _ => continue,
        };
    }
    let is_content_type = pragma.is_some_and(|pragma| pragma.eq_ignore_ascii_case(b"content-type"));
    charset.or_else(|| content.filter(|_| is_content_type).and_then(label_in_content))
}

/// The label in `text/html; charset=…` (WHATWG HTML, "extracting a character encoding from a meta element").
fn label_in_content(content: &[u8]) -> Option<&[u8]> {
    let starts = |at: &usize| content[*at..].get(..7).is_some_and(|name| name.eq_ignore_ascii_case(b"charset"));
    let value = (0..content.len())
        .filter(starts)
        .find_map(|at| content[at + 7..].trim_ascii_start().strip_prefix(b"="))?
        .trim_ascii_start();
    match value.first()? {
        b'"' | b'\'' => quoted(value),
        _ => Some(split_at(value, |b| is_space(b) || b == b';').0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use encoding_rs::{BIG5, EUC_KR, GBK, ISO_8859_15, KOI8_R, WINDOWS_1251};

    #[test]
    fn what_a_page_declares() {
        for (page, expected) in [
            ("<meta charset=windows-1251>", Some(WINDOWS_1251)),
            ("<META CHARSET = 'Windows-1251' />", Some(WINDOWS_1251)),
            ("<meta/charset=\"euc-kr\"/>", Some(EUC_KR)),
            ("<meta http-equiv=Content-Type content='text/html; charset=big5'>", Some(BIG5)),
            ("<meta content='text/html;CHARSET = \"big5\"' http-equiv='content-type'>", Some(BIG5)),
            ("<meta content='charset charset=gb2312;x' http-equiv='content-type'>", Some(GBK)),
            ("<meta charset=koi8-r charset=big5>", Some(KOI8_R)),
            ("<!doctype html><html lang=ru><title>a<b</title><meta charset=koi8-r>", Some(KOI8_R)),
            ("<?xml version='1.0' encoding='koi8-r'?><html>", Some(KOI8_R)),
            ("<?xml version=\"1.0\" encoding = \"big5\"?><meta charset=koi8-r>", Some(KOI8_R)),
            // Only real declarations count.
            ("<meta name=description content='how charset=big5 is written'>", None),
            ("<meta content='text/html; charset=big5'>", None),
            ("<meta http-equiv=refresh content='0; url=/?charset=big5'>", None),
            ("<metadata charset=big5>", None),
            ("<meta-x charset=big5>", None),
            ("<a title='<meta charset=big5>'>", None),
            ("< meta charset=big5>", None),
            ("", None),
            // Unknown labels are skipped.
            ("<meta charset=klingon><meta charset=koi8-r>", Some(KOI8_R)),
            ("<meta charset=><meta charset=koi8-r>", Some(KOI8_R)),
            ("<meta charset=iso-2022-kr><meta charset=koi8-r>", Some(KOI8_R)),
            // Comments and scripts are skipped.
            ("<!-- <meta charset=big5> --><meta charset=koi8-r>", Some(KOI8_R)),
            ("<!--><meta charset=koi8-r>", Some(KOI8_R)),
            ("<!-- <meta charset=big5>", None),
            ("<script>w('<meta charset=big5>')</SCRIPT ><meta charset=koi8-r>", Some(KOI8_R)),
            ("<script>w('<meta charset=big5>')", None),
            ("<script src='>'>'<meta charset=big5>'</script>", None),
            // The bytes contradict the label.
            ("<meta charset=utf-16>", Some(UTF_8)),
            ("<meta charset=utf-16be>", Some(UTF_8)),
            ("<?xml encoding='utf-16le'?>", Some(UTF_8)),
            ("<meta charset=x-user-defined>", Some(WINDOWS_1252)),
        ] {
            assert_eq!(declared(page.as_bytes()), expected, "{page}");
        }
    }

    /// Lost once: a label cut at the end of the prescan counted as a shorter one.
    #[test]
    fn truncated_labels_are_ignored() {
        let tag = "<meta charset=iso-8859-15>";
        let head = |n_bytes_seen: usize| " ".repeat(PRESCAN_BYTES - n_bytes_seen) + tag;
        assert_eq!(declared(head(tag.len()).as_bytes()), Some(ISO_8859_15));
        for n_bytes_seen in 0..tag.len() {
            assert_eq!(declared(head(n_bytes_seen).as_bytes()), None, "{}", &tag[..n_bytes_seen]);
        }
    }
}
