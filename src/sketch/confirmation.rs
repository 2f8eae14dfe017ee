//! Confirmations: a second, small sample under its own key, which must agree before two documents are linked.
//!
//! A client who may ask how much a text resembles a stored page can learn the page's sketch question by question,
//! and then write other words with the same sketch. So no answer and no event depends on the confirmation, only the
//! link itself. Knowledge of the sketch is worthless without it.
//!
//! A confirmation holds one permutation's smallest value in each of 160 bins (Li, Owen and Zhang, "One permutation
//! hashing", NIPS 2012). Each value is reduced to one of three symbols (as in "b-bit minwise hashing", Li and
//! König, WWW 2010), which makes 40 bytes a document. Where two documents both fill a bin, they share its smallest
//! shingle with the probability of their resemblance. An empty bin has a symbol of its own, so that documents with
//! few shingles need no padding.

use super::shingle::Shingle;
use crate::document::Seed;
use std::cmp::Reverse;

/// Bins of a confirmation.
const BINS: usize = 160;

/// Symbols for a bin's smallest value; an empty bin has another one.
const SYMBOLS: u32 = 3;

/// Documents with this many shingles or fewer have no confirmation. Their sketches are whole or nearly so, and a
/// document with a bitmap ([`super::rule::Rule::Parity`]) is more than twice as large and cannot resemble them by a
/// half.
pub(super) const SHINGLES_MIN: usize = 192;

/// A link is refused if the confirmation lies this many standard errors below the required resemblance.
const ERRORS: f64 = 3.0;

/// 64-bit words in a confirmation.
pub(super) const WORDS: usize = BINS * 2 / 64;

/// The symbols of all bins, two bits each: 0 for an empty bin, otherwise 1 to 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmation(pub(super) [u64; WORDS]);

impl Confirmation {
    /// The confirmation of what several documents have in common: the most popular symbol of each bin, the smaller of
    /// two equally popular ones.
    pub(super) fn popular(members: &[Confirmation]) -> Self {
        let symbol_at = |bin: usize, member: &Confirmation| (member.0[bin / 32] >> (2 * (bin % 32)) & 3) as usize;
        let mut words = [0; WORDS];
        for bin in 0..BINS {
            let mut counts = [0usize; 4];
            members.iter().for_each(|member| counts[symbol_at(bin, member)] += 1);
            let symbol = (0..4).max_by_key(|symbol| (counts[*symbol as usize], Reverse(*symbol)));
            words[bin / 32] |= symbol.unwrap_or(0) << (2 * (bin % 32));
        }
        Confirmation(words)
    }

    /// Estimates the resemblance of two documents. Returns it with the number of bins that the estimate rests on.
    fn resemblance(&self, other: &Self) -> (f64, f64) {
        let (mut either, mut both, mut equal) = (0, 0, 0);
        for (a, b) in self.0.iter().zip(other.0) {
            let (in_a, in_b) = (occupied(*a), occupied(b));
            either += (in_a | in_b).count_ones();
            both += (in_a & in_b).count_ones();
            equal += (in_a & in_b & !occupied(a ^ b)).count_ones();
        }
        // Different shingles still get equal symbols in one bin of three.
        let symbols = f64::from(SYMBOLS);
        let shared = (symbols * f64::from(equal) - f64::from(both)) / (symbols - 1.0);
        let n_bins = f64::from(either);
        (shared / n_bins.max(1.0), n_bins)
    }

    /// Returns whether two documents may resemble each other by `least` or more: false if that is all but excluded
    /// (one in a thousand).
    pub fn allows(&self, other: &Self, least: f64) -> bool {
        let (resemblance, n_bins) = self.resemblance(other);
        // The variance of the shared bins and of accidental agreement in the others.
        let variance = (least * (1.0 - least) + (1.0 - least) / (f64::from(SYMBOLS) - 1.0)) / n_bins.max(1.0);
        resemblance >= least - ERRORS * variance.sqrt()
    }
}

/// One bit, the lower of the two, for each bin that is not empty.
fn occupied(symbols: u64) -> u64 {
    (symbols | symbols >> 1) & 0x5555_5555_5555_5555
}

/// Computes confirmations under a store's secret.
#[derive(Clone)]
pub(super) struct ConfirmationSketcher {
    key: u64,
    odd: [u64; 2],
}

impl ConfirmationSketcher {
    pub fn new(seed: &Seed) -> Self {
        ConfirmationSketcher {
            key: seed.derive("confirmation", 0),
            odd: [1, 2].map(|n| seed.derive("confirmation", n) | 1),
        }
    }

    /// Computes the confirmation of a document's shingles. Their order and repetitions do not matter.
    pub fn confirmation(&self, shingles: &[Shingle]) -> Confirmation {
        // Keeps the largest value instead of the smallest, so that 0 can mark an empty bin.
        let mut largest = [0u32; BINS];
        for shingle in shingles {
            let mixed = (shingle ^ self.key).wrapping_mul(self.odd[0]);
            let mixed = (mixed ^ mixed >> 32).wrapping_mul(self.odd[1]);
            let bin = (((mixed >> 32) * BINS as u64) >> 32) as usize;
            let value = (mixed ^ mixed >> 32) as u32 | 1;
            largest[bin] = largest[bin].max(value);
        }
        let mut words = [0; WORDS];
        for (bin, value) in largest.iter().enumerate() {
            let symbol = if *value == 0 { 0 } else { 1 + value % SYMBOLS };
            words[bin / 32] |= u64::from(symbol) << (2 * (bin % 32));
        }
        Confirmation(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The confirmations of two documents of `n` shingles, `shared` of them in common.
    fn confirmations(seed: u64, n: u64, shared: u64) -> [Confirmation; 2] {
        let seed = Seed([seed, 0, 0, 1]);
        let number = |i| seed.derive("n", i) >> 24;
        let confirmer = ConfirmationSketcher::new(&seed);
        let confirmation = |range: std::ops::Range<u64>| confirmer.confirmation(&range.map(number).collect::<Vec<_>>());
        [confirmation(0..n), confirmation(n - shared..2 * n - shared)]
    }

    /// Known sets, many keys: the mean is the truth, even with few shingles for the bins.
    #[test]
    fn the_resemblance_is_unbiased() {
        for (n, shared) in [(200, 133), (1500, 1000), (1500, 150), (20_000, 13_333)] {
            let truth = shared as f64 / (2 * n - shared) as f64;
            let rounds = 200;
            let mean = (0..rounds).map(|seed| {
                let [a, b] = confirmations(seed, n, shared);
                a.resemblance(&b).0 / rounds as f64
            });
            let mean: f64 = mean.sum();
            assert!((mean - truth).abs() < 0.015, "{n}, {shared}: mean {mean}, truth {truth}");
        }
    }

    /// At the threshold almost none are refused; far below it none are allowed.
    #[test]
    fn only_resembling_documents_are_allowed() {
        let n_allowed = |n, shared| {
            let allowed = (0..500).filter(|seed| {
                let [a, b] = confirmations(*seed, n, shared);
                a.allows(&b, 0.5)
            });
            allowed.count()
        };
        for n in [200, 1500] {
            assert!(n_allowed(n, n * 2 / 3) >= 496, "of {n} shingles at one half");
            assert_eq!(n_allowed(n, n * 4 / 5), 500, "of {n} shingles at two thirds");
            assert_eq!(n_allowed(n, n / 10), 0, "of {n} shingles at a twentieth");
        }
    }

    #[test]
    fn repetitions_and_order_do_not_matter() {
        let confirmer = ConfirmationSketcher::new(&Seed([9, 9, 9, 9]));
        let shingles: Vec<Shingle> = (0..300).map(|n| n << 30).collect();
        let twice: Vec<Shingle> = shingles.iter().rev().chain(&shingles).copied().collect();
        assert_eq!(confirmer.confirmation(&shingles), confirmer.confirmation(&twice));
        assert_eq!(confirmer.confirmation(&[]), Confirmation([0; WORDS]));
    }
}
