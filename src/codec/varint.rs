//! LEB128: unsigned integers in seven bits a byte, the lowest bits first. The top bit announces another byte.

/// Appends a number.
#[inline]
pub fn encode_varint(number: u64, out: &mut Vec<u8>) {
    if number < 0x80 {
        out.push(number as u8);
        return;
    }
    let n_bits = u64::BITS - number.leading_zeros();
    let n_bytes = n_bits.div_ceil(7) as usize;
    if n_bytes > size_of::<u64>() {
        encode_byte_by_byte(number, out);
        return;
    }
    // The reverse of decoding, for the same reason.
    let halves = number & 0x0fff_ffff | (number & 0x00ff_ffff_f000_0000) << 4;
    let fourteens = halves & 0x0000_3fff_0000_3fff | (halves & 0x0fff_c000_0fff_c000) << 2;
    let sevens = fourteens & 0x007f_007f_007f_007f | (fourteens & 0x3f80_3f80_3f80_3f80) << 1;
    let announced = 0x8080_8080_8080_8080 & ((1 << (8 * (n_bytes - 1))) - 1);
    let n_before = out.len();
    out.extend_from_slice(&(sevens | announced).to_le_bytes());
    out.truncate(n_before + n_bytes);
}

/// Appends a number of nine or ten bytes.
fn encode_byte_by_byte(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Decodes a number. `None` where the bytes end early or the number exceeds 64 bits.
#[inline]
pub fn decode_varint(bytes: &mut &[u8]) -> Option<u64> {
    if let Some((first, rest)) = bytes.split_first().filter(|(first, _)| **first < 0x80) {
        *bytes = rest;
        return Some(u64::from(*first));
    }
    // How many bytes the number has is hard to predict, so that it is decoded without a branch for each of them.
    let word = u64::from_le_bytes(*bytes.first_chunk().unwrap_or(&[0xff; 8]));
    let ends = !word & 0x8080_8080_8080_8080;
    if ends == 0 {
        return decode_byte_by_byte(bytes);
    }
    *bytes = &bytes[ends.trailing_zeros() as usize / 8 + 1..];
    let sevens = word & (ends ^ (ends - 1)) & 0x7f7f_7f7f_7f7f_7f7f;
    let fourteens = sevens & 0x007f_007f_007f_007f | (sevens & 0x7f00_7f00_7f00_7f00) >> 1;
    let halves = fourteens & 0x0000_3fff_0000_3fff | (fourteens & 0x3fff_0000_3fff_0000) >> 2;
    Some(halves & 0x0fff_ffff | (halves & 0x0fff_ffff_0000_0000) >> 4)
}

/// Decodes a number of nine or ten bytes, or one near the end of the bytes.
fn decode_byte_by_byte(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..63).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Some(number);
        }
    }
    // Nine bytes hold 63 bits: the tenth has room for one more and nothing else.
    let (last, rest) = bytes.split_first()?;
    *bytes = rest;
    (*last <= 1).then_some(number | u64::from(*last) << 63)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_largest_number_takes_ten_bytes() {
        let mut bytes = Vec::new();
        encode_varint(u64::MAX, &mut bytes);
        assert_eq!(bytes, [[0xff; 9].as_slice(), &[1]].concat());
        assert_eq!(decode_varint(&mut &bytes[..]), Some(u64::MAX));
    }

    /// Lost once: two of three decoders dropped the bits above the 64th, so that damaged bytes decoded to a small
    /// number.
    #[test]
    fn a_number_over_64_bits_is_rejected() {
        for last in [2, 0x7f, 0x80, 0x81, 0xff] {
            let bytes = [[0xff; 9].as_slice(), &[last, 0]].concat();
            assert_eq!(decode_varint(&mut &bytes[..]), None, "last byte {last:#x}");
        }
    }

    #[test]
    fn bytes_that_end_early_are_rejected() {
        for bytes in [&[][..], &[0x80], &[0xff; 9]] {
            assert_eq!(decode_varint(&mut &*bytes), None, "{bytes:?}");
        }
    }

    /// The bytes must stay the same: stores have them.
    #[test]
    fn numbers_of_each_length_are_encoded_as_byte_by_byte() {
        for shift in 0..u64::BITS {
            for number in [1 << shift, (1 << shift) - 1, u64::MAX >> shift, 0x1234_5678_9abc_def0 >> shift] {
                let (mut bytes, mut expected) = (vec![7], vec![7]);
                encode_varint(number, &mut bytes);
                encode_byte_by_byte(number, &mut expected);
                assert_eq!(bytes, expected, "{number:#x}");
            }
        }
    }

    proptest! {
        #[test]
        fn round_trip(number: u64, shift in 0u32..64, rest: Vec<u8>) {
            let number = number >> shift;
            let mut bytes = Vec::new();
            encode_varint(number, &mut bytes);
            bytes.extend(&rest);
            let mut left = bytes.as_slice();
            prop_assert_eq!(decode_varint(&mut left), Some(number));
            prop_assert_eq!(left, rest.as_slice());
        }
    }
}
