//! Flags, and text that may be absent.

use super::byte_string::{decode_array, decode_bytes, encode_bytes};

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
