//! Window fingerprints by the processor's carry-less multiplication: the same residues as by tables, faster.

use super::gf2::Polynomial;
use instructions::{joined, low, pair, reduced, sum, times};

/// How many stretches of windows are computed at a time. Within a stretch each multiplication waits for the one
/// before.
const N_LANES: usize = 4;

/// With fewer windows in a lane than this, starting a lane costs more than it saves.
const LANE_WINDOWS_MIN: usize = 8;

/// What the multiplications need.
#[derive(Clone)]
pub(super) struct Constants {
    pub polynomial: u64,
    /// The quotient of x^128 by the modulus, without its highest term x^64 (Barrett's constant).
    pub quotient: u64,
    /// x to the power of 64 times the window.
    pub out: u64,
    pub window: usize,
}

impl Constants {
    pub fn new(polynomial: Polynomial, window: usize) -> Self {
        Constants {
            polynomial: polynomial.0,
            quotient: polynomial.barrett_quotient(),
            out: polynomial.power_of_x(64 * window),
            window,
        }
    }
}

/// The fast path. A value exists only where the processor has the instructions.
#[derive(Clone)]
pub(super) struct CarryLess(Constants);

/// The windows of one stretch of tokens.
struct Lane<'a> {
    tokens: &'a [u64],
    found: &'a mut [u64],
}

impl CarryLess {
    pub(super) fn detect(polynomial: Polynomial, window: usize) -> Option<Self> {
        instructions::are_available().then(|| CarryLess(Constants::new(polynomial, window)))
    }

    /// Fills the first windows of the sequence, each as `finish` maps it, and returns how many: all but a few, or
    /// none of a short sequence.
    pub(super) fn windows(&self, tokens: &[u64], finish: impl Fn(u64) -> u64, found: &mut [u64]) -> usize {
        let lane_len = found.len() / N_LANES;
        if lane_len < LANE_WINDOWS_MIN {
            return 0;
        }
        let mut chunks = found.chunks_exact_mut(lane_len);
        let lanes = std::array::from_fn(|lane| Lane {
            tokens: &tokens[lane * lane_len..(lane + 1) * lane_len + self.0.window - 1],
            found: chunks.next().unwrap_or_default(),
        });
        #[expect(unsafe_code, reason = "the instruction is known to be there only at run time")]
        // SAFETY: only `detect` creates a `CarryLess`, and only where the processor has the instructions.
        unsafe {
            self.fill(finish, lanes);
        }
        lane_len * N_LANES
    }

    #[cfg_attr(target_arch = "x86_64", target_feature(enable = "pclmulqdq"))]
    #[cfg_attr(target_arch = "aarch64", target_feature(enable = "aes"))]
    fn fill(&self, finish: impl Fn(u64) -> u64, mut lanes: [Lane<'_>; N_LANES]) {
        let Constants { polynomial, quotient, out, window } = self.0;
        let (constants, out) = (pair(polynomial, quotient), pair(0, out));
        let mut residues = [pair(0, 0); N_LANES];
        for n in 0..window - 1 {
            for (residue, lane) in residues.iter_mut().zip(&lanes) {
                *residue = reduced(joined(*residue, lane.tokens[n]), constants);
            }
        }
        // No token precedes the first window, so zero leaves it.
        let mut outgoing = [0; N_LANES];
        for n in 0..lanes[0].found.len() {
            for ((residue, outgoing), lane) in residues.iter_mut().zip(&mut outgoing).zip(&mut lanes) {
                // residue · x^64 + outgoing · x^(64 · window) + incoming, below x^128.
                let incoming = joined(*residue, lane.tokens[n + window - 1]);
                *residue = reduced(sum(incoming, times(*outgoing, out)), constants);
                *outgoing = lane.tokens[n];
                lane.found[n] = finish(low(*residue));
            }
        }
    }
}

/// PCLMULQDQ.
#[cfg(target_arch = "x86_64")]
mod instructions {
    use std::arch::x86_64::{
        __m128i, _mm_clmulepi64_si128, _mm_cvtsi128_si64, _mm_set_epi64x, _mm_unpacklo_epi64, _mm_xor_si128,
    };

    /// A polynomial below x^128, or two below x^64.
    pub(super) type Pair = __m128i;

    pub(super) fn are_available() -> bool {
        is_x86_feature_detected!("pclmulqdq")
    }

    #[target_feature(enable = "sse2")]
    pub(super) fn pair(high: u64, low: u64) -> Pair {
        _mm_set_epi64x(high.cast_signed(), low.cast_signed())
    }

    #[target_feature(enable = "sse2")]
    pub(super) fn low(pair: Pair) -> u64 {
        _mm_cvtsi128_si64(pair).cast_unsigned()
    }

    /// Joins the lower half of a pair, as the upper half, with `low`.
    #[target_feature(enable = "sse2")]
    pub(super) fn joined(high: Pair, low: u64) -> Pair {
        _mm_unpacklo_epi64(pair(0, low), high)
    }

    #[target_feature(enable = "sse2")]
    pub(super) fn sum(a: Pair, b: Pair) -> Pair {
        _mm_xor_si128(a, b)
    }

    /// The product with the lower half of a pair.
    #[target_feature(enable = "pclmulqdq")]
    pub(super) fn times(a: u64, b: Pair) -> Pair {
        _mm_clmulepi64_si128::<0x00>(pair(0, a), b)
    }

    /// The residue, in the lower half, of a polynomial below x^128; the constants are modulus and quotient.
    #[target_feature(enable = "pclmulqdq")]
    pub(super) fn reduced(dividend: Pair, constants: Pair) -> Pair {
        // The quotient is high + the upper half of high · `quotient`. It is exact, because nothing is ever carried.
        let estimate = _mm_clmulepi64_si128::<0x01>(dividend, constants);
        let quotient = _mm_xor_si128(dividend, estimate);
        let multiple = _mm_clmulepi64_si128::<0x11>(quotient, constants);
        _mm_xor_si128(dividend, multiple)
    }
}

/// PMULL.
#[cfg(target_arch = "aarch64")]
mod instructions {
    use std::arch::aarch64::vmull_p64;
    use std::arch::is_aarch64_feature_detected;

    /// A polynomial below x^128, or two below x^64.
    pub(super) type Pair = u128;

    pub(super) fn are_available() -> bool {
        is_aarch64_feature_detected!("pmull") && is_aarch64_feature_detected!("aes")
    }

    pub(super) fn pair(high: u64, low: u64) -> Pair {
        u128::from(high) << 64 | u128::from(low)
    }

    pub(super) fn low(pair: Pair) -> u64 {
        pair as u64
    }

    fn high(pair: Pair) -> u64 {
        (pair >> 64) as u64
    }

    /// Joins the lower half of a pair, as the upper half, with `low`.
    pub(super) fn joined(high: Pair, low: u64) -> Pair {
        high << 64 | u128::from(low)
    }

    pub(super) fn sum(a: Pair, b: Pair) -> Pair {
        a ^ b
    }

    /// The product with the lower half of a pair.
    #[target_feature(enable = "aes")]
    pub(super) fn times(a: u64, b: Pair) -> Pair {
        vmull_p64(a, low(b))
    }

    /// The residue, in the lower half, of a polynomial below x^128; the constants are modulus and quotient.
    #[target_feature(enable = "aes")]
    pub(super) fn reduced(dividend: Pair, constants: Pair) -> Pair {
        // The quotient is high + the upper half of high · `quotient`. It is exact, because nothing is ever carried.
        let quotient = high(dividend) ^ high(vmull_p64(high(dividend), low(constants)));
        dividend ^ vmull_p64(quotient, high(constants))
    }
}
