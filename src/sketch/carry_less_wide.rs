//! Window fingerprints by the carry-less multiplications of AVX-512, of eight stretches of windows at a time.

use super::carry_less::Constants;
use super::gf2::Polynomial;
use std::arch::x86_64::{
    __m512i, _mm512_clmulepi64_epi128, _mm512_set4_epi64, _mm512_setzero_si512, _mm512_unpackhi_epi64,
    _mm512_unpacklo_epi64, _mm512_xor_si512,
};

/// How many stretches, or lanes, there are: as many as a register has numbers.
const N_LANES: usize = 8;

/// A number of each lane.
type Row = [u64; N_LANES];

/// The widest path. A value exists only where the processor has the instructions.
#[derive(Clone)]
pub(super) struct WideCarryLess(Constants);

impl WideCarryLess {
    pub(super) fn detect(polynomial: Polynomial, window: usize) -> Option<Self> {
        let is_available = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("vpclmulqdq");
        is_available.then(|| WideCarryLess(Constants::new(polynomial, window)))
    }

    /// Fills the first windows of the sequence, each as `finish` maps it, and returns how many: a multiple of the lanes squared.
    pub(super) fn windows(&self, tokens: &[u64], finish: impl Fn(u64) -> u64, found: &mut [u64]) -> usize {
        let lane_len = found.len() / N_LANES / N_LANES * N_LANES;
        if lane_len > 0 {
            #[expect(unsafe_code, reason = "the instructions are known to be there only at run time")]
            // SAFETY: only `detect` creates a `WideCarryLess`, and only where the processor has the instructions.
            unsafe {
                self.fill(tokens, finish, lane_len, found);
            }
        }
        lane_len * N_LANES
    }

    #[target_feature(enable = "avx512f,avx512dq,vpclmulqdq")]
    fn fill(&self, tokens: &[u64], finish: impl Fn(u64) -> u64, lane_len: usize, found: &mut [u64]) {
        let mut residues = _mm512_setzero_si512();
        // No token precedes the first window, so zero leaves it.
        let mut outgoing = [0; N_LANES];
        for n in 0..self.0.window - 1 {
            let incoming = std::array::from_fn(|lane| tokens[lane * lane_len + n]);
            residues = self.rolled(residues, incoming, outgoing);
        }
        for begin in (0..lane_len).step_by(N_LANES) {
            let square = |from: usize| transposed(&std::array::from_fn(|lane| row(&tokens[lane * lane_len + from..])));
            let mut residues_of_lanes = [[0; N_LANES]; N_LANES];
            let steps = square(begin + self.0.window - 1).into_iter().zip(square(begin));
            for ((incoming, next_outgoing), of_step) in steps.zip(&mut residues_of_lanes) {
                residues = self.rolled(residues, incoming, outgoing);
                outgoing = next_outgoing;
                *of_step = bytemuck::cast(residues);
            }
            residues_of_lanes.as_flattened_mut().iter_mut().for_each(|residue| *residue = finish(*residue));
            for (lane, residues) in transposed(&residues_of_lanes).iter().enumerate() {
                found[lane * lane_len + begin..][..N_LANES].copy_from_slice(residues);
            }
        }
    }

    /// The next window's residue in each lane: residue · x^64 + outgoing · x^(64 · window) + incoming.
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    fn rolled(&self, residues: __m512i, incoming: Row, outgoing: Row) -> __m512i {
        let out = broadcast(0, self.0.out);
        let (incoming, outgoing): (__m512i, __m512i) = (bytemuck::cast(incoming), bytemuck::cast(outgoing));
        // A product takes the room of two lanes, so that even and odd ones are computed apart.
        let even = _mm512_xor_si512(
            _mm512_unpacklo_epi64(incoming, residues),
            _mm512_clmulepi64_epi128::<0x00>(outgoing, out),
        );
        let odd = _mm512_xor_si512(
            _mm512_unpackhi_epi64(incoming, residues),
            _mm512_clmulepi64_epi128::<0x01>(outgoing, out),
        );
        _mm512_unpacklo_epi64(self.reduced(even), self.reduced(odd))
    }

    /// The residues, in the lower halves, of polynomials below x^128.
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    fn reduced(&self, dividends: __m512i) -> __m512i {
        let constants = broadcast(self.0.polynomial, self.0.quotient);
        let estimates = _mm512_clmulepi64_epi128::<0x01>(dividends, constants);
        let quotients = _mm512_xor_si512(dividends, estimates);
        let multiples = _mm512_clmulepi64_epi128::<0x11>(quotients, constants);
        _mm512_xor_si512(dividends, multiples)
    }
}

/// The same pair four times.
#[target_feature(enable = "avx512f")]
fn broadcast(high: u64, low: u64) -> __m512i {
    let (high, low) = (high.cast_signed(), low.cast_signed());
    _mm512_set4_epi64(high, low, high, low)
}

/// The first numbers of a lane's rest.
fn row(rest: &[u64]) -> Row {
    rest.first_chunk().copied().unwrap_or_default()
}

fn transposed(square: &[Row; N_LANES]) -> [Row; N_LANES] {
    std::array::from_fn(|column| square.map(|row| row[column]))
}
