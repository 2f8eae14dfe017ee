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
    use crate::wire::unescape::{ESCAPES, escaped};
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
        while let Some(block) = text[n_read..].first_chunk::<64>()
            && let Some(out) = out[n_written..].first_chunk_mut::<64>()
        {
            let bytes = cast(*block);
            let equal_to = |byte: u8| _mm512_cmpeq_epi8_mask(bytes, _mm512_set1_epi8(byte.cast_signed()));
            let backslashes = equal_to(b'\\');
            let escaped = escaped(backslashes);
            // Looks up the low seven bits of each byte. What has an eighth means nothing either.
            let meaning = _mm512_permutex2var_epi8(meanings[0], bytes, meanings[1]);
            let means_nothing = _mm512_testn_epi8_mask(meaning, meaning) | _mm512_movepi8_mask(bytes);
            let controls = _mm512_cmplt_epu8_mask(bytes, _mm512_set1_epi8(b' '.cast_signed()));
            if (equal_to(b'"') & !escaped | controls | means_nothing & escaped) != 0 {
                break;
            }
            let escaping = backslashes & !escaped;
            let unescaped = _mm512_mask_mov_epi8(bytes, escaped, meaning);
            *out = cast(_mm512_maskz_compress_epi8(!escaping, unescaped));
            n_written += (!escaping).count_ones() as usize;
            // The character of the last escape may be the first one after the block.
            n_read += block.len() - (escaping >> 63) as usize;
        }
        (n_read, n_written)
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod instructions {
    pub(super) fn unescape_blocks(_: &[u8], _: &mut [u8]) -> (usize, usize) {
        (0, 0)
    }
}

/// The bytes that a backslash escapes, if the byte before the first is none that does. Langdale and Lemire, "Parsing Gigabytes
/// of JSON per Second" (2019), section 3.1.1: in a run of backslashes every second one is escaped, and so is the byte after a
/// run of odd length. Adding the beginnings of runs to all backslashes carries a bit to the end of each run.
#[cfg(any(test, target_arch = "x86_64"))]
fn escaped(backslashes: u64) -> u64 {
    const EVEN: u64 = 0x5555_5555_5555_5555;
    let after_backslash = backslashes << 1;
    let odd_beginnings = backslashes & !after_backslash & !EVEN;
    let from_even_places = odd_beginnings.wrapping_add(backslashes);
    (EVEN ^ (from_even_places << 1)) & after_backslash
}

#[cfg(test)]
mod tests {
    use super::escaped;
    use proptest::prelude::*;

    fn escaped_one_by_one(backslashes: u64) -> u64 {
        let (mut found, mut is_escaped) = (0, false);
        for at in 0..64 {
            found |= u64::from(is_escaped) << at;
            is_escaped = !is_escaped && backslashes >> at & 1 == 1;
        }
        found
    }

    proptest! {
        #[test]
        fn runs_of_backslashes_escape_every_second_byte(one in any::<u64>(), other in any::<u64>()) {
            for backslashes in [one, one & other, one | other, !0, 0, !0 << 63, one & !1 << 62] {
                prop_assert_eq!(escaped(backslashes), escaped_one_by_one(backslashes), "{:x}", backslashes);
            }
        }
    }
}
