//! The words of ASCII: letters and digits in lower case, a space before each word.

use super::ascii::{self, BLOCK_BYTES};

/// Letters that are copied at once.
const COPIED_BYTES: usize = 16;

/// Bytes of ASCII that pass through the buffer at once.
pub(super) const STEP_BYTES: usize = 8 * BLOCK_BYTES;

/// Bytes of text that a step reads: copying a word also reads the bytes after it.
pub(super) const SEEN_BYTES: usize = STEP_BYTES + COPIED_BYTES;

/// The words of a step. Copying also writes beyond the last one.
pub(super) type WordBuffer = [u8; STEP_BYTES + BLOCK_BYTES];

/// What a step adds to the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gathered {
    /// How many bytes.
    pub len: usize,
    /// How many words begin.
    pub n_words: usize,
    /// Whether the last word may go on.
    pub in_word: bool,
}

/// Gathers the words of the first `n_bytes`, which are ASCII and at least one. `in_word` says whether letters at the beginning
/// continue a word.
pub(super) fn gather(seen: &[u8; SEEN_BYTES], n_bytes: usize, in_word: bool, gathered: &mut WordBuffer) -> Gathered {
    instructions::gather(seen, n_bytes, in_word, gathered)
        .unwrap_or_else(|| gather_by_word(seen, n_bytes, in_word, gathered))
}

fn gather_by_word(seen: &[u8; SEEN_BYTES], n_bytes: usize, in_word: bool, gathered: &mut WordBuffer) -> Gathered {
    let mut sum = Gathered { len: 0, n_words: 0, in_word };
    // Finding all letters first depends on nothing, while the end of a loop over words is hard to predict.
    let mut masks = [0; STEP_BYTES / BLOCK_BYTES];
    let offsets = (0..n_bytes).step_by(BLOCK_BYTES);
    for ((mask, block), at) in masks.iter_mut().zip(seen.as_chunks().0).zip(offsets.clone()) {
        *mask = ascii::alphanumeric(block) & below(n_bytes - at);
    }
    for (mask, at) in masks.into_iter().zip(offsets) {
        let n_more = if sum.in_word { mask.trailing_ones() as usize } else { 0 };
        copy(seen, at, n_more, gathered, sum.len);
        sum.len += n_more;
        let letters = mask & !below(n_more);
        let mut begins = letters & !(letters << 1);
        let mut ends = !letters & letters << 1;
        sum.n_words += begins.count_ones() as usize;
        while begins != 0 {
            let begin = begins.trailing_zeros() as usize;
            let n_letters = ends.trailing_zeros() as usize - begin;
            gathered[sum.len] = b' ';
            copy(seen, at + begin, n_letters, gathered, sum.len + 1);
            sum.len += 1 + n_letters;
            begins &= begins - 1;
            ends &= ends.wrapping_sub(1);
        }
        sum.in_word = is_last_set(mask, n_bytes - at);
    }
    sum
}

/// Copies `len` letters in lower case. The next word overwrites what this writes beyond them.
#[inline]
fn copy(seen: &[u8; SEEN_BYTES], from: usize, len: usize, gathered: &mut WordBuffer, to: usize) {
    let mut done = 0;
    while let (Some(letters), Some(place)) =
        (seen[from + done..].first_chunk(), gathered[to + done..].first_chunk_mut())
    {
        // Letters become lower-case; digits stay.
        *place = (u128::from_le_bytes(*letters) | u128::from_le_bytes([b' '; COPIED_BYTES])).to_le_bytes();
        done += COPIED_BYTES;
        if done >= len {
            return;
        }
    }
}

/// A mask of the lowest `n` bits.
#[inline]
fn below(n: usize) -> u64 {
    if n < 64 { (1 << n) - 1 } else { u64::MAX }
}

/// Whether the bit of the last of `n` bytes is set, or of the block's last.
#[inline]
fn is_last_set(mask: u64, n: usize) -> bool {
    mask >> (n.min(BLOCK_BYTES) - 1) & 1 == 1
}

/// AVX-512 VBMI2, which leaves bytes out of a register: no branch depends on the words.
#[cfg(target_arch = "x86_64")]
mod instructions {
    use crate::document::ascii::BLOCK_BYTES;
    use crate::document::ascii_words::{Gathered, SEEN_BYTES, WordBuffer, below, is_last_set};
    use bytemuck::cast;
    use std::arch::x86_64::{
        __m512i, _mm512_cmple_epu8_mask, _mm512_mask_mov_epi8, _mm512_maskz_compress_epi8, _mm512_or_si512,
        _mm512_set1_epi8, _mm512_sub_epi8,
    };

    pub(super) fn gather(
        seen: &[u8; SEEN_BYTES],
        n_bytes: usize,
        in_word: bool,
        gathered: &mut WordBuffer,
    ) -> Option<Gathered> {
        let can = is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vbmi2")
            && is_x86_feature_detected!("popcnt");
        #[expect(unsafe_code, reason = "the instructions are known to be there only at run time")]
        // SAFETY: the processor has them.
        can.then(|| unsafe { by_block(seen, n_bytes, in_word, gathered) })
    }

    #[target_feature(enable = "avx512bw,avx512vbmi2,popcnt")]
    fn by_block(seen: &[u8; SEEN_BYTES], n_bytes: usize, in_word: bool, gathered: &mut WordBuffer) -> Gathered {
        let spaces = all(b' ');
        let mut sum = Gathered { len: 0, n_words: 0, in_word };
        for (block, at) in seen.as_chunks::<BLOCK_BYTES>().0.iter().zip((0..n_bytes).step_by(BLOCK_BYTES)) {
            let bytes: __m512i = cast(*block);
            // Letters become lower-case; digits stay.
            let lower = _mm512_or_si512(bytes, spaces);
            let letters = (are_of(lower, b'a', b'z') | are_of(bytes, b'0', b'9')) & below(n_bytes - at);
            let begins = letters & !(letters << 1 | u64::from(sum.in_word));
            // The byte before a word becomes its space. The first word may need one of its own.
            let kept = letters | begins >> 1;
            let Some(place) = gathered[sum.len..].first_chunk_mut::<{ BLOCK_BYTES + 1 }>() else { break };
            let n_before = (begins & 1) as usize;
            place[0] = b' ';
            if let Some(place) = place[n_before..].first_chunk_mut::<BLOCK_BYTES>() {
                *place = cast(_mm512_maskz_compress_epi8(kept, _mm512_mask_mov_epi8(spaces, letters, lower)));
            }
            sum.len += n_before + kept.count_ones() as usize;
            sum.n_words += begins.count_ones() as usize;
            sum.in_word = is_last_set(letters, n_bytes - at);
        }
        sum
    }

    #[target_feature(enable = "avx512bw")]
    fn all(byte: u8) -> __m512i {
        _mm512_set1_epi8(byte.cast_signed())
    }

    #[target_feature(enable = "avx512bw")]
    fn are_of(bytes: __m512i, first: u8, last: u8) -> u64 {
        _mm512_cmple_epu8_mask(_mm512_sub_epi8(bytes, all(first)), all(last - first))
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod instructions {
    use crate::document::ascii_words::{Gathered, SEEN_BYTES, WordBuffer};

    pub(super) fn gather(_: &[u8; SEEN_BYTES], _: usize, _: bool, _: &mut WordBuffer) -> Option<Gathered> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain(text: &[u8], mut in_word: bool) -> (Vec<u8>, usize, bool) {
        let (mut out, mut n_words) = (Vec::new(), 0);
        for byte in text {
            if byte.is_ascii_alphanumeric() && !in_word {
                out.push(b' ');
                n_words += 1;
            }
            in_word = byte.is_ascii_alphanumeric();
            out.extend(in_word.then(|| byte.to_ascii_lowercase()));
        }
        (out, n_words, in_word)
    }

    proptest! {
        #[test]
        fn as_byte_by_byte(
            text in proptest::collection::vec(prop_oneof![Just(b'a'), Just(b' '), 0u8..128], SEEN_BYTES),
            n_bytes in 1..=STEP_BYTES,
            in_word: bool,
        ) {
            let seen = text.first_chunk().expect("as many");
            let expected = plain(&text[..n_bytes], in_word);
            for gather in [gather, gather_by_word] {
                let mut gathered = [b'?'; _];
                let Gathered { len, n_words, in_word } = gather(seen, n_bytes, in_word, &mut gathered);
                prop_assert_eq!((gathered[..len].to_vec(), n_words, in_word), expected.clone());
            }
        }
    }

    /// The buffer has room for the longest words, and for the most.
    #[test]
    fn a_step_of_nothing_but_letters_or_of_single_ones() {
        for pattern in [b"aa", b"a ", b" a"] {
            let seen: [u8; SEEN_BYTES] = std::array::from_fn(|at| pattern[at % 2]);
            for gather in [gather, gather_by_word] {
                let mut gathered = [b'?'; _];
                let found = gather(&seen, STEP_BYTES, false, &mut gathered);
                let (expected, n_words, in_word) = plain(&seen[..STEP_BYTES], false);
                assert_eq!(&gathered[..found.len], expected);
                assert_eq!((found.n_words, found.in_word), (n_words, in_word));
            }
        }
    }
}
