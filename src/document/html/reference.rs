//! Character references in text: named, decimal and hexadecimal, with and without a semicolon.
//!
//! WHATWG HTML, sections 13.2.5.72 to 13.2.5.80. The rules for attributes differ and are not needed.

use crate::document::entities;

/// What a character reference stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CharacterReference {
    /// A named reference: one or two characters.
    Named(&'static str),
    /// A numeric reference.
    Numeric(char),
}

/// Whether the byte after an `&` can begin a reference. This rules out most lone `&`.
pub(super) fn can_begin_with(byte: u8) -> bool {
    byte == b'#' || byte.is_ascii_alphabetic()
}

/// Decodes the reference whose `&` precedes `rest`. Returns it with its length in `rest`; `None` if the `&` is
/// text.
pub(super) fn decode(rest: &[u8]) -> Option<(CharacterReference, usize)> {
    match rest.first()? {
        b'#' => numeric(&rest[1..]).map(|(c, len)| (CharacterReference::Numeric(c), len + 1)),
        _ => named(rest).map(|(text, len)| (CharacterReference::Named(text), len)),
    }
}

/// The longest name in the table that `rest` begins with. A semicolon only ends a name, so the match is either the
/// whole run of letters and digits or a short name that needs no semicolon.
fn named(rest: &[u8]) -> Option<(&'static str, usize)> {
    let seen = &rest[..rest.len().min(entities::NAME_LEN_MAX + 1)];
    let n_alphanumeric = seen.iter().position(|b| !b.is_ascii_alphanumeric()).unwrap_or(seen.len());
    if seen.get(n_alphanumeric) == Some(&b';')
        && let Some(text) = entities::terminated(&seen[..n_alphanumeric])
    {
        return Some((text, n_alphanumeric + 1));
    }
    entities::longest_bare(&seen[..n_alphanumeric])
}

fn numeric(rest: &[u8]) -> Option<(char, usize)> {
    let (radix, prefix) = if matches!(rest.first(), Some(b'x' | b'X')) { (16, 1) } else { (10, 0) };
    let digits = &rest[prefix..];
    let mut code = 0_u32;
    let mut n_digits = 0;
    while let Some(digit) = digits.get(n_digits).and_then(|b| char::from(*b).to_digit(radix)) {
        code = code.saturating_mul(radix).saturating_add(digit);
        n_digits += 1;
    }
    if n_digits == 0 {
        return None;
    }
    let n_semicolons = usize::from(digits.get(n_digits) == Some(&b';'));
    Some((character(code), prefix + n_digits + n_semicolons))
}

/// The character of a number: windows-1252 between 0x80 and 0x9f, U+FFFD for invalid numbers.
fn character(code: u32) -> char {
    match code {
        0 => char::REPLACEMENT_CHARACTER,
        0x80..=0x9f => WINDOWS_1252[code as usize - 0x80],
        _ => char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER),
    }
}

/// What pages mean by the numbers from 0x80 (WHATWG HTML, "numeric character reference end state").
const WINDOWS_1252: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}', '\u{90}', '‘', '’',
    '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references() {
        for (rest, expected) in [
            ("amp;x", Some(("&", 4))),
            ("ampx", Some(("&", 3))),
            ("notin;", Some(("∉", 6))),
            ("notit;", Some(("¬", 3))),
            ("notin", Some(("¬", 3))),
            ("CounterClockwiseContourIntegral;", Some(("∳", 32))),
            ("NotEqualTilde;", Some(("≂̸", 14))),
            ("hellip", None),
            ("nosuch;", None),
            ("a;", None),
            (";", None),
            ("", None),
            (" amp;", None),
            ("#65;", Some(("A", 4))),
            ("#65B", Some(("A", 3))),
            ("#x41;", Some(("A", 5))),
            ("#X4ag", Some(("J", 4))),
            ("#x", None),
            ("#;", None),
            ("#0;", Some(("\u{fffd}", 3))),
            ("#150;", Some(("–", 5))),
            ("#xd800;", Some(("\u{fffd}", 7))),
            ("#x110000;", Some(("\u{fffd}", 9))),
            ("#99999999999999999999;", Some(("\u{fffd}", 22))),
        ] {
            let decoded = decode(rest.as_bytes()).map(|(decoded, len)| match decoded {
                CharacterReference::Named(text) => (text.to_owned(), len),
                CharacterReference::Numeric(c) => (c.to_string(), len),
            });
            assert_eq!(decoded, expected.map(|(text, len)| (text.to_owned(), len)), "&{rest}");
        }
    }
}
