//! Byte strings behind their length, and arrays of a fixed length.

use super::varint::{decode_varint, encode_varint};

/// Appends the length as a varint, then the bytes.
pub fn encode_bytes(string: &[u8], out: &mut Vec<u8>) {
    encode_varint(string.len() as u64, out);
    out.extend_from_slice(string);
}

/// Decodes what [`encode_bytes`] appends. `None` where fewer bytes are left than the length says.
pub fn decode_bytes<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(decode_varint(bytes)?).ok()?;
    let (string, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(string)
}

/// Takes `N` bytes off the front. `None` where fewer are left.
pub fn decode_array<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (array, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*array)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_is_followed_by_what_was_written_after_it() {
        let mut bytes = Vec::new();
        encode_bytes(b"near", &mut bytes);
        encode_bytes(b"", &mut bytes);
        bytes.extend([7, 8]);
        let mut left = bytes.as_slice();
        assert_eq!(decode_bytes(&mut left), Some(&b"near"[..]));
        assert_eq!(decode_bytes(&mut left), Some(&b""[..]));
        assert_eq!(decode_array(&mut left), Some([7, 8]));
        assert_eq!(decode_array::<1>(&mut left), None);
    }

    #[test]
    fn a_length_beyond_the_end_is_rejected() {
        assert_eq!(decode_bytes(&mut &[3, 1, 2][..]), None);
        assert_eq!(decode_bytes(&mut &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0][..]), None);
    }
}
