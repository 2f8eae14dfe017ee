//! Flags, text that may be absent, and text that begins like the one before it.

use super::byte_string::{decode_array, decode_bytes, encode_bytes};
use super::varint::{decode_varint, encode_varint};

/// Appends one byte: 1 for true, 0 for false.
pub fn encode_flag(flag: bool, out: &mut Vec<u8>) {
    out.push(u8::from(flag));
}

/// Decodes what [`encode_flag`] appends.
pub fn decode_flag(bytes: &mut &[u8]) -> Option<bool> {
    match decode_array(bytes)? {
        [0] => Some(false),
        [1] => Some(true),
        _ => None,
    }
}

/// Decodes a text that [`encode_bytes`] appended.
pub fn decode_string(bytes: &mut &[u8]) -> Option<String> {
    String::from_utf8(decode_bytes(bytes)?.to_vec()).ok()
}

/// Appends how many bytes a text shares with the beginning of the one before it, then the rest.
pub fn encode_string_after(text: &str, before: &str, out: &mut Vec<u8>) {
    let n_shared = n_shared(text.as_bytes(), before.as_bytes());
    encode_varint(n_shared as u64, out);
    encode_bytes(&text.as_bytes()[n_shared..], out);
}

/// How many bytes two texts begin with in common.
fn n_shared(one: &[u8], other: &[u8]) -> usize {
    let (one_words, other_words) = (one.as_chunks::<8>().0, other.as_chunks::<8>().0);
    let whole = 8 * one_words.iter().zip(other_words).take_while(|(one, other)| one == other).count();
    whole + one[whole..].iter().zip(&other[whole..]).take_while(|(one, other)| one == other).count()
}

/// Decodes what [`encode_string_after`] appends.
pub fn decode_string_after(before: &str, bytes: &mut &[u8]) -> Option<String> {
    let shared = before.as_bytes().get(..usize::try_from(decode_varint(bytes)?).ok()?)?;
    String::from_utf8([shared, decode_bytes(bytes)?].concat()).ok()
}

/// Appends a flag, then the text; an empty one where there is none.
pub fn encode_text(text: Option<&str>, out: &mut Vec<u8>) {
    encode_flag(text.is_some(), out);
    encode_bytes(text.unwrap_or_default().as_bytes(), out);
}

/// Decodes what [`encode_text`] appends. The outer `None` means damaged bytes, the inner `None` no text.
pub fn decode_text(bytes: &mut &[u8]) -> Option<Option<String>> {
    let is_some = decode_flag(bytes)?;
    let text = decode_string(bytes)?;
    Some(is_some.then_some(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn texts_that_begin_alike_are_read_as_they_were_written(texts in proptest::collection::vec("(abcdefgh){0,3}[aä]{0,9}", 0..9)) {
            let mut row = Vec::new();
            let mut before = "";
            for text in &texts {
                encode_string_after(text, before, &mut row);
                before = text;
            }
            let (bytes, mut before) = (&mut row.as_slice(), String::new());
            for text in &texts {
                before = decode_string_after(&before, bytes).expect("a text");
                prop_assert_eq!(&before, text);
            }
            prop_assert!(bytes.is_empty());
        }
    }

    #[test]
    fn nothing_is_shared_beyond_the_text_before() {
        assert_eq!(decode_string_after("rose", &mut [5, 0].as_slice()), None);
        assert_eq!(decode_string_after("ä", &mut [1, 0].as_slice()), None);
    }
}
