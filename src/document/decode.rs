//! Bytes to text: finds a page's charset and decodes it. Decoding never fails; undecodable bytes are replaced.

use super::charset;
use super::page::MediaType;
use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{DecoderResult, Encoding, ISO_2022_JP, UTF_8, UTF_16BE, UTF_16LE};
use memchr::memchr_iter;
use std::borrow::Cow;

/// How many bytes of an unlabelled page the detector sees, from the first byte that is not ASCII. The detector is
/// slow, and this many bytes suffice.
const DETECTION_BYTES: usize = 16 * 1024;

/// With this many characters, valid UTF-8 cannot be text in another multi-byte charset. GBK is the likeliest to be
/// mistaken, and about one of its two-byte pairs in seven is valid UTF-8.
const SURE_CHARS: usize = 8;

/// Decodes a page. Evidence counts in this order: byte order mark, markup that is plainly UTF-16, the HTTP header's
/// label, a label in the page (HTML only), UTF-8, detection by content. A label that the bytes contradict is
/// ignored.
pub fn decode<'a>(bytes: &'a [u8], header_charset: Option<&str>, media_type: MediaType) -> Cow<'a, str> {
    match Encoding::for_bom(bytes) {
        Some((encoding, bom_len)) => decode_as(encoding, &bytes[bom_len..]),
        None => decode_as(encoding_of(bytes, header_charset, media_type), bytes),
    }
}

fn decode_as<'a>(encoding: &'static Encoding, bytes: &'a [u8]) -> Cow<'a, str> {
    if encoding != UTF_8 {
        return encoding.decode_without_bom_handling(bytes).0;
    }
    // The standard library makes the same replacements four times as fast.
    encoding
        .decode_without_bom_handling_and_without_replacement(bytes)
        .unwrap_or_else(|| String::from_utf8_lossy(bytes))
}

fn encoding_of(bytes: &[u8], header_charset: Option<&str>, media_type: MediaType) -> &'static Encoding {
    let is_markup = media_type != MediaType::PlainText;
    if let Some(encoding) = utf_16_of_markup(bytes).filter(|_| is_markup) {
        return encoding;
    }
    let header = header_charset.and_then(|label| charset::from_label(label.as_bytes()));
    let declared = || if is_markup { charset::declared(bytes) } else { None };
    match header.or_else(declared) {
        None if is_mostly_utf8(bytes) => utf_8_or_iso_2022_jp(bytes),
        None => detect(bytes),
        Some(label) if label != UTF_8 => {
            if is_contradicted(label, bytes) {
                UTF_8
            } else {
                label
            }
        }
        Some(_) if is_mostly_utf8(bytes) => utf_8_or_iso_2022_jp(bytes),
        Some(_) => declared().filter(|label| *label != UTF_8).unwrap_or_else(|| detect(bytes)),
    }
}

/// Recognises UTF-16 without a byte order mark by a tag at the beginning.
fn utf_16_of_markup(bytes: &[u8]) -> Option<&'static Encoding> {
    match bytes {
        [b'<', 0, b, 0, ..] if b.is_ascii_graphic() => Some(UTF_16LE),
        [0, b'<', 0, b, ..] if b.is_ascii_graphic() => Some(UTF_16BE),
        _ => None,
    }
}

/// Whether the bytes are UTF-8 in spite of another label. A truncated page may end within a character.
fn is_contradicted(label: &'static Encoding, bytes: &[u8]) -> bool {
    let is_cut = match std::str::from_utf8(bytes) {
        Ok(_) => false,
        Err(error) if error.error_len().is_none() => true,
        Err(_) => return false,
    };
    if charset::is_utf_16(label) {
        // In UTF-16 the blanks and line ends of any script contain a zero byte.
        return memchr::memchr(0, bytes).is_none();
    }
    let is_sure = bytes.iter().filter(|byte| begins_char(**byte)).take(SURE_CHARS).count() == SURE_CHARS;
    is_sure || (label.is_single_byte() && !is_cut)
}

/// Detects the encoding of bytes that are not UTF-8 by their content.
fn detect(bytes: &[u8]) -> &'static Encoding {
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    // The detector learns nothing from ASCII except right before the first other byte.
    let from = Encoding::ascii_valid_up_to(bytes).saturating_sub(2);
    let seen = beginning(&bytes[from..]);
    detector.feed(seen, from + seen.len() == bytes.len());
    detector.guess(None, Utf8Detection::Deny)
}

fn beginning(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(DETECTION_BYTES)]
}

/// ISO-2022-JP consists of ASCII bytes, so it is valid UTF-8 as well. An escape to two-byte characters and the
/// absence of errors identify it.
fn utf_8_or_iso_2022_jp(bytes: &[u8]) -> &'static Encoding {
    let seen = beginning(bytes);
    let has_escape = memchr_iter(0x1b, seen).any(|at| seen[at + 1..].starts_with(b"$"));
    if !has_escape {
        return UTF_8;
    }
    let mut decoder = ISO_2022_JP.new_decoder_without_bom_handling();
    let mut text = String::with_capacity(decoder.max_utf8_buffer_length_without_replacement(seen.len()).unwrap_or(0));
    // Not the last byte: the text may end within a character.
    let (result, _) = decoder.decode_to_string_without_replacement(seen, &mut text, false);
    if result == DecoderResult::InputEmpty && !text.is_ascii() { ISO_2022_JP } else { UTF_8 }
}

/// Whether at most one non-ASCII sequence in four is broken. Text in another charset has hardly a valid one.
fn is_mostly_utf8(bytes: &[u8]) -> bool {
    // Nearly always true, and far faster than chunk by chunk.
    if Encoding::utf8_valid_up_to(bytes) == bytes.len() {
        return true;
    }
    let (mut n_good, mut n_broken, mut n_left) = (0usize, 0usize, bytes.len());
    for chunk in bytes.utf8_chunks() {
        n_good += chunk.valid().bytes().filter(|byte| begins_char(*byte)).count();
        n_broken += usize::from(!chunk.invalid().is_empty());
        n_left -= chunk.valid().len() + chunk.invalid().len();
        // Even if the rest were valid two-byte characters, it would not be enough.
        if n_broken * 3 > n_good + n_left / 2 {
            return false;
        }
    }
    true
}

/// Whether the byte begins a multi-byte character of UTF-8.
fn begins_char(byte: u8) -> bool {
    byte >= 0xc0
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
            html(b"<META http-equiv='Content-Type' content='text/html; charset=euc-kr'>\xc7\xd1", None),
            "<META http-equiv='Content-Type' content='text/html; charset=euc-kr'>한"
        );
        assert_eq!(html("漢字".as_bytes(), None), "漢字");
        assert_eq!(html(b"\x93\xfa\x96\x7b", Some("shift_jis")), "日本");
    }

    #[test]
    fn contradicted_labels_are_ignored() {
        assert_eq!(html("naïve".as_bytes(), Some("iso-8859-1")), "naïve");
        assert_eq!(html(b"na\xefve caf\xe9 d\xe9j\xe0 vu", Some("utf-8")), "naïve café déjà vu");
        let mostly = [("é".repeat(20)).as_bytes(), b"\xff"].concat();
        assert_eq!(html(&mostly, Some("utf-8")), "é".repeat(20) + "\u{fffd}");
        assert_eq!(html(b"plain", Some("no-such-charset")), "plain");
    }

    /// Charsets, a text in each, and whether the content alone identifies the charset.
    const TEXTS: [(&str, &str, bool); 17] = [
        ("iso-2022-jp", "これは日本語の文章です。文字コードを当ててください。", true),
        ("windows-1250", "Příliš žluťoučký kůň úpěl ďábelské ódy, řekl starý žid a šel dál.", true),
        ("windows-1251", "Съешь же ещё этих мягких французских булок, да выпей чаю.", true),
        ("windows-1252", "Der Bär über den Straßen fraß früh müde Käfer und größere Äpfel.", true),
        ("windows-1253", "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία, είπε ο γέρος στο χωριό.", true),
        ("windows-1256", "هذا نص عربي طويل بما يكفي لمعرفة ترميزه من محتواه فقط دون أي علامة", true),
        ("koi8-r", "Съешь же ещё этих мягких французских булок, да выпей чаю.", true),
        ("shift_jis", "これは日本語の文章です。文字コードを当ててください。", true),
        ("euc-jp", "これは日本語の文章です。文字コードを当ててください。", true),
        ("euc-kr", "이것은 한국어 문장입니다. 문자 코드를 맞춰 보세요.", true),
        ("gb18030", "这是一个中文句子，请猜一猜它用的是什么编码。", true),
        ("big5", "這是一個中文句子，請猜一猜它用的是什麼編碼。", true),
        ("utf-8", "這是一個中文句子，請猜一猜它用的是什麼編碼。", true),
        // As plain text this is valid UTF-8: without a label nothing shows that it is not ASCII with control
        // characters.
        ("iso-2022-jp", "これは日本語の文章です。", false),
        // Characters beyond GBK take four bytes.
        ("gb18030", "中文𠀀€ḿ", false),
        ("utf-16le", "Straße 漢字", false),
        ("utf-16be", "Straße 漢字", false),
    ];

    fn encoded(label: &str, text: &str) -> Vec<u8> {
        match label {
            "utf-16le" => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            "utf-16be" => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
            _ => {
                let encoding = Encoding::for_label(label.as_bytes()).expect(label);
                let (bytes, _, has_unmappable) = encoding.encode(text);
                assert!(!has_unmappable, "{label} has not all of {text}");
                bytes.into_owned()
            }
        }
    }

    #[test]
    fn the_header_names_the_charset() {
        for (label, text, _) in TEXTS {
            for media_type in [MediaType::Html, MediaType::PlainText, MediaType::Unknown] {
                assert_eq!(decode(&encoded(label, text), Some(label), media_type), text, "{label}");
            }
        }
    }

    #[test]
    fn the_page_names_the_charset() {
        for (label, text, _) in TEXTS {
            for page in [
                format!("<!doctype html><meta charset={label}><p>{text}"),
                format!("<html><head><META HTTP-EQUIV=\"Content-Type\" CONTENT=\"text/html; charset={label}\">{text}"),
                format!("<?xml version=\"1.0\" encoding=\"{label}\"?><html>{text}"),
                // After a head longer than the standard examines, and after unknown labels.
                format!(
                    "<!-- <meta charset=big5> --><script>'<meta charset=koi8-r>'</script><style>{}</style>\
                     <meta charset=klingon><meta charset={label}>{text}",
                    "p{}".repeat(3000)
                ),
            ] {
                assert_eq!(html(&encoded(label, &page), None), page, "{label}");
            }
        }
    }

    #[test]
    fn byte_order_marks_determine_the_charset() {
        for (label, text, _) in TEXTS.into_iter().filter(|(label, ..)| label.starts_with("utf")) {
            let marked = encoded(label, &format!("\u{feff}{text}"));
            for header in [None, Some(label), Some("iso-8859-1"), Some("shift_jis"), Some("utf-8")] {
                assert_eq!(html(&marked, header), text, "{label} under {header:?}");
            }
        }
    }

    #[test]
    fn content_determines_the_charset() {
        for (label, text, _) in TEXTS.into_iter().filter(|(.., is_told)| *is_told) {
            let bytes = encoded(label, text);
            assert_eq!(decode(&bytes, None, MediaType::PlainText), text, "{label}");
            assert_eq!(decode(&bytes, Some("klingon"), MediaType::PlainText), text, "{label}");
            assert_eq!(decode(&bytes, Some("utf-8"), MediaType::PlainText), text, "{label} as UTF-8");
            let page = format!("<html><title>x</title><p class=\"y\">{text}</p>");
            assert_eq!(html(&encoded(label, &page), None), page, "{label}");
            // A wrong label, too far into the page to be seen.
            if label != "iso-2022-jp" {
                let page = format!("<!--{}--><meta charset=windows-1257>{text}", "-".repeat(20_000));
                assert_eq!(html(&encoded(label, &page), None), page, "{label}");
            }
        }
    }

    /// Lost once: one wrong label, in the header or the page, turned a UTF-8 page into letters of another script.
    #[test]
    fn utf_8_is_known_under_any_label() {
        for text in
            ["<p>Съешь же ещё этих мягких булок", "<p>這是一個中文句子", "<p>Größe, Straße, müde, Bär, fräße, höhö"]
        {
            for label in ["iso-8859-1", "windows-1251", "koi8-r", "gb2312", "big5", "euc-kr", "shift_jis", "utf-16"] {
                assert_eq!(html(text.as_bytes(), Some(label)), text, "{label}");
                let page = format!("<meta charset={label}>{text}");
                assert_eq!(html(page.as_bytes(), None), page, "{label}");
            }
        }
    }

    /// Lost once: the detector saw only the ASCII head of a page, however long it was.
    #[test]
    fn the_charset_is_detected_after_a_long_head() {
        for (label, text, _) in TEXTS.into_iter().filter(|(label, _, is_told)| *is_told && *label != "iso-2022-jp") {
            let page = format!("<style>{}</style>{text}", "p{}\n".repeat(DETECTION_BYTES));
            assert!(html(&encoded(label, &page), None) == page, "{label}");
        }
    }

    /// Lost once: unlabelled ISO-2022-JP was read as ASCII, its characters as pairs of signs and some as tags. A
    /// page with escapes is not necessarily ISO-2022-JP.
    #[test]
    fn escapes_identify_iso_2022_jp() {
        for text in ["\u{1b}[31mred\u{1b}[0m and ESC$", "\u{1b}$B and then ä", "\u{1b}$Bodd \u{1b}(B", "\u{1b}$B"] {
            assert_eq!(html(text.as_bytes(), None), text);
        }
        let page = encoded("iso-2022-jp", "<p>日本語の文章");
        for label in [None, Some("klingon"), Some("utf-8")] {
            assert_eq!(html(&page, label), "<p>日本語の文章");
        }
    }

    proptest::proptest! {
        #[test]
        fn mostly_is_three_in_four(bytes in proptest::collection::vec(
            proptest::sample::select(vec![&b"a"[..], b"\xc3\xa9", b"\xe6\xbc\xa2", b"\xff", b"\xe6\xbc"]), 0..40)
        ) {
            let bytes = bytes.concat();
            let text = String::from_utf8_lossy(&bytes);
            let n_broken = text.matches('\u{fffd}').count();
            let n_others = text.chars().filter(|c| !c.is_ascii()).count();
            proptest::prop_assert_eq!(is_mostly_utf8(&bytes), n_broken * 4 <= n_others);
            proptest::prop_assert_eq!(decode_as(UTF_8, &bytes), UTF_8.decode_without_bom_handling(&bytes).0);
        }
    }

    /// Lost once: a UTF-8 page that the crawler cut within a character was read as windows-1252.
    #[test]
    fn utf_8_cut_within_a_character_is_utf_8() {
        let text = "Größe, Straße, müde, Bär, fräße, höhöhö";
        let cut = &text.as_bytes()[..text.len() - 1];
        for label in [None, Some("utf-8"), Some("iso-8859-1"), Some("gbk")] {
            assert_eq!(html(cut, label), "Größe, Straße, müde, Bär, fräße, höhöh\u{fffd}", "{label:?}");
        }
        assert_eq!(html(b"caf\xe9", Some("iso-8859-1")), "café");
    }

    /// Lost once: the header said UTF-8, but a few broken bytes and a wrong `<meta>` changed the charset of the
    /// whole page.
    #[test]
    fn a_few_broken_bytes_do_not_make_the_second_label_right() {
        let page = [b"<meta charset=windows-1251>".as_slice(), "Größe, Straße, müde".as_bytes(), b"\xff"].concat();
        let expected = "<meta charset=windows-1251>Größe, Straße, müde\u{fffd}";
        assert_eq!(html(&page, Some("utf-8")), expected);
        let page = encoded("windows-1251", "<meta charset=windows-1251>Съешь ещё");
        assert_eq!(html(&page, Some("utf-8")), "<meta charset=windows-1251>Съешь ещё");
    }

    /// Lost once: a label that the standard has abandoned, such as iso-2022-kr, reduced every page to one U+FFFD.
    #[test]
    fn abandoned_charsets_are_unknown() {
        for label in ["iso-2022-kr", "hz-gb-2312", "replacement"] {
            assert_eq!(html(b"<p>A rose", Some(label)), "<p>A rose");
            assert_eq!(html("<p>漢字".as_bytes(), Some(label)), "<p>漢字");
        }
    }

    #[test]
    fn markup_identifies_utf_16_without_a_mark() {
        for label in ["utf-16le", "utf-16be"] {
            for header in [None, Some("utf-16"), Some("utf-8"), Some("iso-8859-1")] {
                assert_eq!(html(&encoded(label, "<!doctype html>漢字"), header), "<!doctype html>漢字", "{label}");
            }
        }
    }
}
