//! Fields of a stored row: bytes behind a length of four bytes, or an absent field.

use super::byte_string::decode_array;

/// The length that marks an absent field.
const NO_FIELD: u32 = u32::MAX;

/// Appends the length in four bytes, the most significant first, then the bytes.
pub fn encode_field(field: Option<&[u8]>, out: &mut Vec<u8>) {
    out.extend(field.map_or(NO_FIELD, |field| field.len() as u32).to_be_bytes());
    out.extend(field.unwrap_or_default());
}

/// Decodes what [`encode_field`] appends. The outer `None` means damaged bytes, the inner `None` an absent field.
pub fn decode_field<'a>(bytes: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let length = u32::from_be_bytes(decode_array(bytes)?);
    if length == NO_FIELD {
        return Some(None);
    }
    let (field, rest) = bytes.split_at_checked(length as usize)?;
    *bytes = rest;
    Some(Some(field))
}
