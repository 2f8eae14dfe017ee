//! Confirmations: a second, small sample under a key of its own, which must agree before a link is made.
//!
//! Whoever may ask how much a text resembles a stored page learns, question by question, what the page's sketch is made
//! of, and can write other words that fall on the same places. So no answer and no event depends on the confirmation but
//! the link itself: what is learnt of the sketch is worth nothing without it.
//!
//! It is one permutation's smallest value in each of 160 bins (Li, Owen and Zhang, "One permutation hashing", NIPS 2012),
//! each value cut to one of three symbols (as in "b-bit minwise hashing", Li and König, WWW 2010), 40 bytes a document.
//! Of two documents the shingle that is smallest in a bin of both is shared with the probability of their resemblance.
//! An empty bin has a symbol of its own, so that documents with few shingles need no filling up.

use super::shingle::Shingle;
use crate::document::Seed;

/// Bins of a confirmation.
const BINS: usize = 160;

/// Symbols that a bin's smallest value is cut to; beside them there is one for an empty bin.
const SYMBOLS: u32 = 3;

/// Documents of this many shingles or fewer have none. They are kept whole or nearly so, and what they could resemble by a
/// half and has a bitmap is larger than twice of this: see [`super::rule::Rule::Parity`].
pub(super) const SHINGLES_MIN: usize = 192;

/// A link is refused where the confirmation is this many standard errors under the resemblance that it takes.
const ERRORS: f64 = 3.0;

/// Words of 64 bits in a confirmation.
pub(super) const WORDS: usize = BINS * 2 / 64;

/// The symbols of all bins, two bits each: 0 for an empty bin, else 1 to 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmation(pub(super) [u64; WORDS]);

impl Confirmation {
    /// How much two documents resemble each other, as their confirmations tell, and the bins that tell it.
    fn resemblance(&self, other: &Self) -> (f64, f64) {
        let (mut either, mut both, mut equal) = (0, 0, 0);
        for (a, b) in self.0.iter().zip(other.0) {
            let (in_a, in_b) = (occupied(*a), occupied(b));
            either += (in_a | in_b).count_ones();
            both += (in_a & in_b).count_ones();
            equal += (in_a & in_b & !occupied(a ^ b)).count_ones();
        }
        // Of the bins in which different shingles are smallest one in three has equal symbols.
        let symbols = f64::from(SYMBOLS);
        let shared = (symbols * f64::from(equal) - f64::from(both)) / (symbols - 1.0);
        let n_bins = f64::from(either);
        (shared / n_bins.max(1.0), n_bins)
    }

    /// Whether two documents may resemble each other by `least` or more: false where it is all but certain (one in a
    /// thousand) that they do not.
    pub fn allows(&self, other: &Self, least: f64) -> bool {
        let (resemblance, n_bins) = self.resemblance(other);
        // The bins that are shared, and the accidents among those that are not.
        let variance = (least * (1.0 - least) + (1.0 - least) / (f64::from(SYMBOLS) - 1.0)) / n_bins.max(1.0);
        resemblance >= least - ERRORS * variance.sqrt()
    }
}

/// One bit, the lower of the two, for each bin that is not empty.
fn occupied(symbols: u64) -> u64 {
    (symbols | symbols >> 1) & 0x5555_5555_5555_5555
}

/// Makes confirmations under a store's secret.
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

    /// The confirmation of a document's shingles, in whatever order and number they are given.
    pub fn confirmation(&self, shingles: &[Shingle]) -> Confirmation {
        // The largest value, not the smallest: 0 is left for an empty bin.
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

    /// The confirmations of two documents of `n` shingles, `shared` of them common.
    fn of(seed: u64, n: u64, shared: u64) -> [Confirmation; 2] {
        let seed = Seed([seed, 0, 0, 1]);
        let number = |i| seed.derive("n", i) >> 24;
        let confirmer = ConfirmationSketcher::new(&seed);
        let confirmation = |range: std::ops::Range<u64>| confirmer.confirmation(&range.map(number).collect::<Vec<_>>());
        [confirmation(0..n), confirmation(n - shared..2 * n - shared)]
    }

    /// Known sets, many keys: the mean is the truth, also of documents with few shingles for the bins.
    #[test]
    fn the_resemblance_is_unbiased() {
        for (n, shared) in [(200, 133), (1500, 1000), (1500, 150), (20_000, 13_333)] {
            let truth = shared as f64 / (2 * n - shared) as f64;
            let rounds = 200;
            let mean = (0..rounds).map(|seed| {
                let [a, b] = of(seed, n, shared);
                a.resemblance(&b).0 / rounds as f64
            });
            let mean: f64 = mean.sum();
            assert!((mean - truth).abs() < 0.015, "{n}, {shared}: mean {mean}, truth {truth}");
        }
    }

    /// At the threshold next to none are refused; far below it none are allowed.
    #[test]
    fn what_resembles_is_allowed_and_nothing_else() {
        let n_allowed = |n, shared| {
            let allowed = (0..500).filter(|seed| {
                let [a, b] = of(*seed, n, shared);
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
    fn repeated_shingles_count_once_and_their_order_not() {
        let confirmer = ConfirmationSketcher::new(&Seed([9, 9, 9, 9]));
        let shingles: Vec<Shingle> = (0..300).map(|n| n << 30).collect();
        let twice: Vec<Shingle> = shingles.iter().rev().chain(&shingles).copied().collect();
        assert_eq!(confirmer.confirmation(&shingles), confirmer.confirmation(&twice));
        assert_eq!(confirmer.confirmation(&[]), Confirmation([0; WORDS]));
    }
}
