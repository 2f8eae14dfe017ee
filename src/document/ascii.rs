//! ASCII, 64 bytes at a time: which bytes are letters or digits, and how long a text stays ASCII.

use wide::u8x64;

/// Bytes that are examined at once.
pub(crate) const BLOCK_BYTES: usize = 64;

/// A bit for each byte, the lowest for the first: set if the byte is an ASCII letter or digit.
#[inline]
pub(super) fn alphanumeric(block: &[u8; BLOCK_BYTES]) -> u64 {
    let bytes = u8x64::new(*block);
    (are_letters(bytes) | are_of(bytes, b'0', b'9')).to_bitmask()
}

/// A bit for each byte, the lowest for the first: set if the byte is an ASCII letter.
#[inline]
pub(crate) fn alphabetic(block: &[u8; BLOCK_BYTES]) -> u64 {
    are_letters(u8x64::new(*block)).to_bitmask()
}

#[inline]
fn are_letters(bytes: u8x64) -> u8x64 {
    are_of(bytes | u8x64::splat(0x20), b'a', b'z')
}

#[inline]
fn are_of(bytes: u8x64, first: u8, last: u8) -> u8x64 {
    let from_first = bytes - u8x64::splat(first);
    from_first.min(u8x64::splat(last - first)).simd_eq(from_first)
}

/// How many bytes of ASCII a text begins with.
pub(crate) fn prefix(text: &[u8]) -> usize {
    let (blocks, _) = text.as_chunks();
    for (block, at) in blocks.iter().zip((0..).step_by(BLOCK_BYTES)) {
        let others = u8x64::new(*block).to_bitmask();
        if others != 0 {
            return at + others.trailing_zeros() as usize;
        }
    }
    let whole = blocks.len() * BLOCK_BYTES;
    whole + text[whole..].iter().take_while(|byte| byte.is_ascii()).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain(bytes: &[u8], is_set: fn(&u8) -> bool) -> u64 {
        bytes.iter().rev().fold(0, |bits, byte| bits << 1 | u64::from(is_set(byte)))
    }

    #[test]
    fn every_byte_everywhere() {
        for byte in 0..=u8::MAX {
            for at in 0..BLOCK_BYTES {
                let mut block = [b' '; BLOCK_BYTES];
                block[at] = byte;
                assert_eq!(alphanumeric(&block), plain(&block, u8::is_ascii_alphanumeric), "{byte:#x} at {at}");
                assert_eq!(alphabetic(&block), plain(&block, u8::is_ascii_alphabetic), "{byte:#x} at {at}");
            }
        }
    }

    proptest! {
        #[test]
        fn as_byte_by_byte(text in proptest::collection::vec(any::<u8>(), 0..200), n_ascii in 0usize..200) {
            for block in text.as_chunks().0 {
                prop_assert_eq!(alphanumeric(block), plain(block, u8::is_ascii_alphanumeric));
            }
            let mut mixed: Vec<u8> = text.iter().map(|byte| byte & 0x7f).collect();
            mixed.truncate(n_ascii);
            mixed.extend(&text);
            let expected = mixed.iter().take_while(|byte| byte.is_ascii()).count();
            prop_assert_eq!(prefix(&mixed), expected);
        }
    }
}
