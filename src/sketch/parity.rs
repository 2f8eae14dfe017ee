//! Parity bitmaps: the most compact form for the sketches of large documents.
//!
//! Every shingle flips one of m bits, chosen by its leading bits (the "odd sketch" of Mitzenmacher, Pagh and Pham,
//! "Efficient estimation for high similarities using odd sketches", WWW 2014). Shingles that two documents share
//! cancel out, so the number of differing bits estimates how many shingles the two do not share. With the exact
//! sizes of both sets, which the sketch keeps, that gives the resemblance. A bitmap of m bits folds into the bitmap
//! of m/2 bits of the same set, so that documents of different sizes compare.

use super::shingle::Shingle;

/// Bits of the smallest bitmap, half a KiB. A small document sets few of the bits and is stored as their positions,
/// in fewer bytes than the largest document that is kept whole. A smaller minimum would therefore save little.
pub(super) const BITS_MIN: usize = 4096;

/// Bits of the largest bitmap, 512 KiB: enough for a million shingles.
pub(super) const BITS_MAX: usize = 1 << 22;

/// Bits of the finest bitmap that the leading 16 bits of shingles allow.
pub(super) const BITS_OF_TOPS: usize = 1 << 16;

/// Returns the number of bits, a power of two, for a document of `n` shingles. The standard error is then at most
/// `error` for a resemblance of one half to a document of the same size.
pub(super) fn n_bits(n: usize, error: f64) -> usize {
    let mut bits = BITS_MIN;
    while bits < BITS_MAX && resemblance_error(n as f64, n as f64, n as f64 * 2.0 / 3.0, bits as f64) > error {
        bits *= 2;
    }
    bits
}

/// The bitmap of distinct shingles of `width` bits each.
pub(super) fn bitmap(shingles: &[Shingle], width: u32, n_bits: usize) -> Vec<u64> {
    let mut words = vec![0; n_bits / 64];
    let shift = width - n_bits.ilog2();
    for shingle in shingles {
        let bit = (shingle >> shift) as usize;
        words[bit / 64] ^= 1 << (bit % 64);
    }
    words
}

/// The bitmap of `n_bits` bits of a document that is kept whole, or the finest bitmap that its 16 bits allow.
pub(super) fn bitmap_of_tops(tops: &[u16], n_bits: usize) -> Vec<u64> {
    let shingles: Vec<Shingle> = tops.iter().map(|top| Shingle::from(*top)).collect();
    bitmap(&shingles, 16, n_bits.min(BITS_OF_TOPS))
}

/// Folds a bitmap to at most `n_bits` bits.
pub(super) fn folded_to(mut words: Vec<u64>, n_bits: usize) -> Vec<u64> {
    while words.len() * 64 > n_bits {
        words = folded(&words);
    }
    words
}

/// Folds a bitmap to half as many bits: neighbouring bits become one.
fn folded(words: &[u64]) -> Vec<u64> {
    let (pairs, _) = words.as_chunks::<2>();
    pairs.iter().map(|[low, high]| halved(*low) | halved(*high) << 32).collect()
}

/// The parities of the 32 pairs of neighbouring bits.
fn halved(word: u64) -> u64 {
    let mut bits = (word ^ word >> 1) & 0x5555_5555_5555_5555;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ] {
        bits = (bits | bits >> shift) & mask;
    }
    bits
}

/// Estimates how many shingles two documents do not share. Returns the estimate and the number of bits it rests on.
pub(super) fn difference(a: &[u64], b: &[u64]) -> (f64, usize) {
    if a.len() > b.len() {
        return difference(&folded(a), b);
    }
    if b.len() > a.len() {
        return difference(a, &folded(b));
    }
    let n_bits = a.len() * 64;
    let n_unequal: u32 = a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum();
    (n_flips(n_unequal, n_bits), n_bits)
}

/// Estimates how many shingles a bitmap stands for.
pub(super) fn n_shingles(words: &[u64]) -> f64 {
    n_flips(words.iter().map(|word| word.count_ones()).sum(), words.len() * 64)
}

/// Estimates how many flips of random bits left this many of `n_bits` bits odd.
fn n_flips(n_odd: u32, n_bits: usize) -> f64 {
    let share = (2.0 * f64::from(n_odd) / n_bits as f64).min(1.0 - 1.0 / n_bits as f64);
    -0.5 * n_bits as f64 * (1.0 - share).ln()
}

/// How many of `m` bits `n` shingles leave odd on average.
pub(super) fn n_ones(n: f64, m: f64) -> f64 {
    m * (1.0 - (-2.0 * n / m).exp()) / 2.0
}

/// One standard error of the resemblance of two sets of `n_a` and `n_b` shingles that differ in `d`, from bitmaps
/// of `m` bits.
pub(super) fn resemblance_error(n_a: f64, n_b: f64, d: f64, m: f64) -> f64 {
    difference_error(d, m) * 2.0 * (n_a + n_b) / (n_a + n_b + d).powi(2)
}

/// One standard error of the estimated number of shingles in which two sets differ, if the truth is `d`, from
/// bitmaps of `m` bits.
///
/// With λ = d/m a bit is odd with probability p = (1 - e^(-2λ))/2. The number of odd bits has the variance m
/// (p(1-p) - λ e^(-4λ)): that of m independent bits, minus a term because exactly d flips were made.
pub(super) fn difference_error(d: f64, m: f64) -> f64 {
    let lambda = d / m;
    let decay = (-2.0 * lambda).exp();
    let p = (1.0 - decay) / 2.0;
    let variance = m * (p * (1.0 - p) - lambda * decay * decay).max(0.0);
    variance.sqrt() / decay
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shared_shingles_cancel_out() {
        let a = bitmap(&[1 << 39, 5 << 30, 7], 40, 512);
        let b = bitmap(&[5 << 30, 7], 40, 512);
        assert_eq!(difference(&a, &a).0, 0.0);
        assert!((difference(&a, &b).0 - 1.0).abs() < 0.01);
    }

    #[test]
    fn larger_documents_need_more_bits_and_fewer_for_a_shingle() {
        let bits: Vec<usize> = [100, 1000, 10_000, 100_000].map(|n| n_bits(n, 0.012)).into();
        assert!(bits.is_sorted(), "{bits:?}");
        assert!(bits[3] < 100_000 && bits[0] > 100, "{bits:?}");
    }

    proptest! {
        #[test]
        fn a_folded_bitmap_is_that_of_half_the_bits(
            shingles in proptest::collection::vec(0u64..1 << 40, 0..300),
            log2 in 10u32..14,
        ) {
            let n_bits = 1usize << log2;
            prop_assert_eq!(folded(&bitmap(&shingles, 40, n_bits)), bitmap(&shingles, 40, n_bits / 2));
        }
    }
}
