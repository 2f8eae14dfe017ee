//! Lists of 64-bit numbers of which any is as likely as any other: eight bytes each are as short as a varint, and read at once.

use super::varint::{decode_varint, encode_varint};

/// Appends how many numbers there are as a varint, then each, little-endian.
pub fn encode_numbers(numbers: &[u64], out: &mut Vec<u8>) {
    encode_varint(numbers.len() as u64, out);
    out.reserve(size_of_val(numbers));
    for number in numbers {
        out.extend_from_slice(&number.to_le_bytes());
    }
}

/// Decodes what [`encode_numbers`] appends. `None` where fewer numbers are left than there should be.
pub fn decode_numbers(bytes: &mut &[u8]) -> Option<Vec<u64>> {
    let n = usize::try_from(decode_varint(bytes)?).ok()?;
    let (numbers, rest) = bytes.split_at_checked(n.checked_mul(size_of::<u64>())?)?;
    *bytes = rest;
    Some(numbers.as_chunks().0.iter().map(|number| u64::from_le_bytes(*number)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_followed_by_what_was_written_after_them() {
        let numbers = [7, 0, u64::MAX];
        let mut bytes = Vec::new();
        encode_numbers(&numbers, &mut bytes);
        encode_numbers(&[], &mut bytes);
        assert_eq!(bytes.len(), 1 + 3 * 8 + 1);
        let mut left = bytes.as_slice();
        assert_eq!(decode_numbers(&mut left), Some(numbers.to_vec()));
        assert_eq!(decode_numbers(&mut left), Some(Vec::new()));
        assert_eq!(decode_numbers(&mut left), None);
    }

    #[test]
    fn more_numbers_than_there_are_bytes_are_rejected() {
        assert_eq!(decode_numbers(&mut &[2, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1][..]), None);
        // So many that their bytes exceed 64 bits.
        assert_eq!(decode_numbers(&mut &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0][..]), None);
    }
}
