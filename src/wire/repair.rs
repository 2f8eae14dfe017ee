//! Repairs JSON that is correct except for what some writers put into it.

use memchr::memchr;
use std::ops::Range;

const BOM: &[u8] = &[0xef, 0xbb, 0xbf];

/// UTF-16 code units that mean nothing alone: the first and the second half of a surrogate pair.
const FIRST_HALVES: Range<u16> = 0xd800..0xdc00;
const SECOND_HALVES: Range<u16> = 0xdc00..0xe000;

/// The length of an escape such as `\ud800`.
const ESCAPE_BYTES: usize = 6;

/// Removes a byte order mark and replaces each lone half of a surrogate pair by U+FFFD; Python's `json.dumps`
/// writes such halves for bytes that were not UTF-8. Returns `None` if the JSON has neither.
pub fn repaired(json: &[u8]) -> Option<Vec<u8>> {
    let without_bom = json.strip_prefix(BOM);
    let mut repaired = without_bom.unwrap_or(json).to_vec();
    let mut is_repaired = without_bom.is_some();
    let mut at = 0;
    while let Some(found) = memchr(b'\\', &repaired[at..]) {
        at += found;
        let unit = escaped(&repaired[at..]);
        let next = repaired.get(at + ESCAPE_BYTES..).and_then(escaped);
        at += match unit {
            None => 2,
            Some(unit) if FIRST_HALVES.contains(&unit) && next.is_some_and(|next| SECOND_HALVES.contains(&next)) => {
                2 * ESCAPE_BYTES
            }
            Some(unit) if FIRST_HALVES.contains(&unit) || SECOND_HALVES.contains(&unit) => {
                repaired[at..at + ESCAPE_BYTES].copy_from_slice(b"\\ufffd");
                is_repaired = true;
                ESCAPE_BYTES
            }
            Some(_) => ESCAPE_BYTES,
        };
        at = at.min(repaired.len());
    }
    is_repaired.then_some(repaired)
}

/// The code unit of the escape that begins here.
fn escaped(json: &[u8]) -> Option<u16> {
    let digits = json.strip_prefix(b"\\u")?.get(..4)?;
    let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
    u16::from_str_radix(std::str::from_utf8(digits).ok().filter(|_| is_hex)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lone_halves_and_marks_are_repaired() {
        for (json, expected) in [
            (r#"{"a":"\ud800"}"#, Some(r#"{"a":"\ufffd"}"#)),
            (r#""\uDC80\udc81x""#, Some(r#""\ufffd\ufffdx""#)),
            (r#""\ud83d\ude00\ud83d""#, Some(r#""\ud83d\ude00\ufffd""#)),
            (r#""\ud83d\ud83d\ude00""#, Some(r#""\ufffd\ud83d\ude00""#)),
            (r#""\ud83d\n""#, Some(r#""\ufffd\n""#)),
            ("\u{feff}{}", Some("{}")),
            (r#""\\ud800""#, None),
            (r#""\\\ud800""#, Some(r#""\\\ufffd""#)),
            (r#""\ud83d\ude00 \u00e9 é \" ""#, None),
            (r#""\ud8"#, None),
            (r#""\ud+00""#, None),
            ("\"\\", None),
            ("\u{feff}", Some("")),
            ("", None),
        ] {
            let found = repaired(json.as_bytes()).map(|json| String::from_utf8(json).expect("text"));
            assert_eq!(found.as_deref(), expected, "{json}");
        }
    }
}
