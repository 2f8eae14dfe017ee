//! Unescapes the text of JSON strings 64 bytes at a time, on processors that can leave bytes out of a register (AVX-512
//! VBMI2): there without any branch that depends on the text. Pages have an escape every few dozen bytes, and a processor
//! that follows each of them spends most of its time on wrong guesses.

/// What each character after a backslash means; 0 for one that means nothing by itself.
pub(super) const ESCAPES: [u8; 128] = {
    let mut meanings = [0; 128];
    let (kinds, bytes) = (b"\"\\/bfnrt", b"\"\\/\x08\x0c\n\r\t");
    let mut at = 0;
    while at < kinds.len() {
        meanings[kinds[at] as usize] = bytes[at];
        at += 1;
    }
    meanings
};

/// Unescapes whole blocks from the beginning of `text` into `out`. Ends before a block with a quote, a control character or
/// an escape other than `\"`, `\\`, `\/`, `\b`, `\f`, `\n`, `\r` and `\t`, and where less than a block is left of either.
/// Returns how many bytes were read and written; none on other processors.
pub(super) fn unescape_blocks(text: &[u8], out: &mut [u8]) -> (usize, usize) {
    instructions::unescape_blocks(text, out)
}

#[cfg(target_arch = "x86_64")]
mod instructions {
    use crate::wire::unescape::{ESCAPES, escapes};
    use bytemuck::cast;
    use std::arch::x86_64::*;

    pub(super) fn unescape_blocks(text: &[u8], out: &mut [u8]) -> (usize, usize) {
        let can = is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vbmi")
            && is_x86_feature_detected!("avx512vbmi2")
            && is_x86_feature_detected!("popcnt");
        if !can {
            return (0, 0);
        }
        #[expect(unsafe_code, reason = "the instructions are known to be there only at run time")]
        // SAFETY: the processor has them.
        unsafe {
            blocks(text, out)
        }
    }

    #[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
    fn blocks(text: &[u8], out: &mut [u8]) -> (usize, usize) {
        let meanings: [__m512i; 2] = cast(ESCAPES);
        let (mut n_read, mut n_written) = (0, 0);
        // Whether the last byte before the block is a backslash that escapes the first one. Reading on from that backslash
        // would make each block wait for the one before.
        let mut first_is_escaped = 0;
        while let Some(block) = text[n_read..].first_chunk::<64>()
            && let Some(out) = out[n_written..].first_chunk_mut::<64>()
        {
            let bytes = cast(*block);
            let equal_to = |byte: u8| _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(byte.cast_signed()));
            let (escaping, escaped) = escapes(equal_to(b'\\'), first_is_escaped);
            // Looks up the low seven bits of each byte. What has an eighth means nothing either.
            let meaning = _mm512_permutex2var_epi8(meanings[0], bytes, meanings[1]);
            let means_nothing = _mm512_testn_epi8_mask(meaning, meaning) | _mm512_movepi8_mask(bytes);
            let controls = _mm512_cmplt_epu8_mask(bytes, _mm512_set1_epi8(b' '.cast_signed()));
            if (equal_to(b'"') & !escaped | controls | means_nothing & escaped) != 0 {
                break;
            }
            let unescaped = _mm512_mask_mov_epi8(bytes, escaped, meaning);
            *out = cast(_mm512_maskz_compress_epi8(!escaping, unescaped));
            n_written += (!escaping).count_ones() as usize;
            n_read += block.len();
            first_is_escaped = escaping >> 63;
        }
        // What the last backslash means is still to be read.
        (n_read - first_is_escaped as usize, n_written)
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod instructions {
    pub(super) fn unescape_blocks(_: &[u8], _: &mut [u8]) -> (usize, usize) {
        (0, 0)
    }
}

/// The backslashes of a block that escape the byte behind them, and the bytes that are escaped. `first_is_escaped` is 1 if the byte
/// before the block escapes its first. After Langdale and Lemire, "Parsing Gigabytes of JSON per Second" (2019), section 3.1.1: in a
/// run of backslashes every second one is escaped, and so is the byte after a run of odd length. Taking all backslashes from what
/// is behind them borrows a bit through each run, and so tells where it began: at an even or at an odd place.
#[cfg(any(test, target_arch = "x86_64"))]
fn escapes(backslashes: u64, first_is_escaped: u64) -> (u64, u64) {
    const ODD: u64 = 0xaaaa_aaaa_aaaa_aaaa;
    let unescaped_first = backslashes & !first_is_escaped;
    let escaping_or_escaped = (unescaped_first << 1 | ODD).wrapping_sub(unescaped_first) ^ ODD;
    (escaping_or_escaped & backslashes, escaping_or_escaped ^ (backslashes | first_is_escaped))
}

#[cfg(test)]
mod tests {
    use super::escapes;
    use proptest::prelude::*;

    fn one_by_one(backslashes: u64, first_is_escaped: u64) -> (u64, u64) {
        let (mut escaping, mut escaped, mut is_escaped) = (0, 0, first_is_escaped == 1);
        for at in 0..64 {
            escaped |= u64::from(is_escaped) << at;
            is_escaped = !is_escaped && backslashes >> at & 1 == 1;
            escaping |= u64::from(is_escaped) << at;
        }
        (escaping, escaped)
    }

    proptest! {
        #[test]
        fn runs_of_backslashes_escape_every_second_byte(one in any::<u64>(), other in any::<u64>(), first in 0_u64..2) {
            for backslashes in [one, one & other, one | other, !0, 0, !0 << 63, one & !1 << 62] {
                prop_assert_eq!(escapes(backslashes, first), one_by_one(backslashes, first), "{:x}", backslashes);
            }
        }
    }
}
