//! Eight bytes at once: which of them are ASCII letters or digits.

/// The lowest bit of each of eight bytes.
const ONES: u64 = u64::from_le_bytes([1; 8]);

/// The highest bit of each byte that is an ASCII letter or digit, up to the first byte that is not ASCII. What comes after
/// that one means nothing.
#[inline]
pub(super) fn alphanumeric(bytes: u64) -> u64 {
    let lower = bytes | (ONES * 0x20);
    // The sum has a byte's highest bit where the byte is at least the character. What is not ASCII carries over, but only
    // into bytes that come after it.
    let at_least = |bytes: u64, c: u8| bytes.wrapping_add(ONES * u64::from(0x80 - c));
    let is_letter = at_least(lower, b'a') & !at_least(lower, b'z' + 1);
    let is_digit = at_least(bytes, b'0') & !at_least(bytes, b'9' + 1);
    (is_letter | is_digit) & !bytes & (ONES << 7)
}

/// The highest bits of the eight bytes as one byte, the first byte's lowest.
#[inline]
pub(super) fn gathered(bits: u64) -> u8 {
    // Multiplied by this, the lowest bits of the bytes stand in the highest byte.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    ((bits >> 7 & ONES).wrapping_mul(GATHER) >> 56) as u8
}

/// How much ASCII a text begins with.
pub(super) fn prefix(text: &[u8]) -> usize {
    const BLOCK_BYTES: usize = 64;
    let (blocks, _) = text.as_chunks::<BLOCK_BYTES>();
    let mut n = blocks.iter().take_while(|block| block.is_ascii()).count() * BLOCK_BYTES;
    while let Some(eight) = text[n..].first_chunk() {
        let others = u64::from_le_bytes(*eight) & (ONES << 7);
        if others != 0 {
            return n + others.trailing_zeros() as usize / 8;
        }
        n += 8;
    }
    n + text[n..].iter().take_while(|byte| byte.is_ascii()).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_byte() {
        for byte in 0..=u8::MAX {
            let expected = if byte.is_ascii_alphanumeric() { 0x80 } else { 0 };
            assert_eq!(alphanumeric(u64::from(byte)), expected, "{byte:#x}");
            let among = u64::from_le_bytes([b'a', b'Z', b'0', b'9', byte, 0, 0, 0]);
            assert_eq!(alphanumeric(among) & 0xff_ffff_ffff, 0x8080_8080 | expected << 32, "{byte:#x}");
        }
    }

    proptest! {
        #[test]
        fn as_byte_by_byte(text in proptest::collection::vec(any::<u8>(), 0..200), n_ascii in 0usize..200) {
            let ascii: Vec<u8> = text.iter().map(|byte| byte & 0x7f).collect();
            for eight in ascii.as_chunks::<8>().0 {
                let expected = eight.iter().rev().fold(0, |bits, byte| bits << 1 | u8::from(byte.is_ascii_alphanumeric()));
                prop_assert_eq!(gathered(alphanumeric(u64::from_le_bytes(*eight))), expected);
            }
            let mut mixed = ascii;
            mixed.truncate(n_ascii);
            mixed.extend(&text);
            let expected = mixed.iter().take_while(|byte| byte.is_ascii()).count();
            prop_assert_eq!(prefix(&mixed), expected);
        }
    }
}
