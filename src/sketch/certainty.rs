//! The accuracy of estimates before any document is seen: what a rule keeps, and how far an estimate may be off.
//!
//! A sample of s shingles of the union contains a shingle of both documents with probability r each time. The
//! number of such shingles is therefore binomial (Broder, "On the resemblance and containment of documents",
//! section 4.2). Sampling without replacement makes the real error a little smaller, by the share of the union that
//! is sampled.

use super::parity;
use super::rule::Rule;

/// What a rule keeps of a document, on average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleSize {
    /// This many shingles, or 16 bits of each.
    Shingles(usize),
    /// A parity bitmap of this many bits.
    Bits(usize),
}

/// The evidence behind an estimated resemblance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EstimateBasis {
    /// All shingles of both documents: the estimate is exact.
    Whole,
    /// A sample of the union.
    Sample {
        /// s: how many shingles the sample has, on average.
        n_compared: usize,
    },
    /// Two parity bitmaps.
    Bitmaps {
        /// Shingles of each document.
        n_shingles: usize,
        /// Bits of each bitmap.
        n_bits: usize,
    },
}

impl Rule {
    /// Returns what the rule keeps of a document of `n` shingles.
    pub fn kept(self, n: usize) -> SampleSize {
        match self {
            Rule::All => SampleSize::Shingles(n),
            Rule::Mod { modulus } => SampleSize::Shingles(part(n as f64, modulus)),
            Rule::Min { size } => SampleSize::Shingles(n.min(size)),
            Rule::MinOfMod { size, modulus } => SampleSize::Shingles(part(n as f64, modulus).min(size)),
            Rule::Adaptive { size } => SampleSize::Shingles(part(n as f64, adaptive_modulus(n, size))),
            Rule::Parity { size, .. } if n <= size => SampleSize::Shingles(n),
            Rule::Parity { error_per_mille, .. } => {
                SampleSize::Bits(parity::n_bits(n, f64::from(error_per_mille) / 1000.0))
            }
        }
    }

    /// Returns the evidence about two documents of `n` shingles each whose resemblance is `r`.
    pub fn evidence(self, n: usize, r: f64) -> EstimateBasis {
        let union = 2.0 * n as f64 / (1.0 + r);
        let (modulus, most) = match self {
            Rule::All => (1, usize::MAX),
            Rule::Mod { modulus } => (modulus, usize::MAX),
            Rule::Min { size } => (1, size),
            Rule::MinOfMod { size, modulus } => (modulus, size),
            Rule::Adaptive { size } => (adaptive_modulus(n, size), usize::MAX),
            Rule::Parity { .. } => match self.kept(n) {
                SampleSize::Shingles(_) => (1, usize::MAX),
                SampleSize::Bits(n_bits) => return EstimateBasis::Bitmaps { n_shingles: n, n_bits },
            },
        };
        let n_found = part(union, modulus);
        if modulus == 1 && n_found <= most {
            return EstimateBasis::Whole;
        }
        EstimateBasis::Sample { n_compared: n_found.min(most) }
    }
}

/// One in `modulus` of `n` shingles.
fn part(n: f64, modulus: u64) -> usize {
    (n / modulus as f64).round() as usize
}

/// 2^i with the smallest i that leaves at most `size` of `n` shingles.
fn adaptive_modulus(n: usize, size: usize) -> u64 {
    n.div_ceil(size.max(1)).next_power_of_two() as u64
}

impl EstimateBasis {
    /// One standard error of the estimate if the true resemblance is `r`.
    pub fn standard_error(self, r: f64) -> f64 {
        match self {
            EstimateBasis::Whole => 0.0,
            // An empty sample always estimates 0.
            EstimateBasis::Sample { n_compared: 0 } => r,
            EstimateBasis::Sample { n_compared } => (r * (1.0 - r) / n_compared as f64).sqrt(),
            EstimateBasis::Bitmaps { n_shingles, n_bits } => {
                let n = n_shingles as f64;
                let difference = 2.0 * n * (1.0 - r) / (1.0 + r);
                parity::resemblance_error(n, n, difference, n_bits as f64)
            }
        }
    }

    /// The probability that the estimate lies within `r` ± `epsilon`: Broder's p(s, r, ε), or the normal
    /// approximation for bitmaps.
    pub fn within(self, r: f64, epsilon: f64) -> f64 {
        match self {
            EstimateBasis::Whole => 1.0,
            EstimateBasis::Sample { n_compared } => sample_within(n_compared, r, epsilon),
            EstimateBasis::Bitmaps { .. } => {
                let error = self.standard_error(r);
                if error == 0.0 { 1.0 } else { 1.0 - 2.0 * normal_tail(epsilon / error) }
            }
        }
    }

    /// The probability that the estimate and the true resemblance `r` lie on different sides of the threshold.
    pub fn wrong_side(self, r: f64, threshold: f64) -> f64 {
        match self {
            EstimateBasis::Whole => 0.0,
            EstimateBasis::Sample { n_compared } => sample_wrong_side(n_compared, r, threshold),
            EstimateBasis::Bitmaps { .. } => {
                let error = self.standard_error(r);
                if error == 0.0 { 0.0 } else { normal_tail((threshold - r).abs() / error) }
            }
        }
    }
}

/// Broder's p(s, r, ε): the sum of C(s,k) r^k (1-r)^(s-k) over s(r-ε) ≤ k ≤ s(r+ε). An empty sample estimates 0.
pub fn sample_within(s: usize, r: f64, epsilon: f64) -> f64 {
    if s == 0 {
        return f64::from(u8::from(r <= epsilon));
    }
    // The bounds are decimals. Where they stand for a whole number, rounding must not exclude it.
    const ROUNDING: f64 = 1e-9;
    let n = s as f64;
    let from = (n * (r - epsilon) - ROUNDING).ceil().max(0.0) as usize;
    let to = (n * (r + epsilon) + ROUNDING).floor().min(n) as usize;
    let terms = binomial(s, r);
    total(terms.get(from..=to).unwrap_or_default())
}

/// The probability that the estimate from a sample of `s` and the true resemblance `r` lie on different sides of
/// the threshold. An empty sample estimates 0.
pub fn sample_wrong_side(s: usize, r: f64, threshold: f64) -> f64 {
    let is_alike = |k: usize| k as f64 / s.max(1) as f64 >= threshold;
    let terms = binomial(s, r);
    let wrong = terms.iter().enumerate().filter(|(k, _)| is_alike(*k) != (r >= threshold));
    // Summing the wrong side itself, not 1 minus the right one, keeps the digits of small probabilities.
    total(wrong.map(|(_, term)| term))
}

/// The sum of probabilities, starting at 0; `Iterator::sum` starts at -0.
fn total<'a>(terms: impl IntoIterator<Item = &'a f64>) -> f64 {
    terms.into_iter().fold(0.0, |sum: f64, term| sum + term).min(1.0)
}

/// C(n,k) p^k (1-p)^(n-k) for each k from 0 to n. It adds logarithms, because the factors overflow long before n
/// does.
fn binomial(n: usize, p: f64) -> Vec<f64> {
    let mut ln_factorial = vec![0.0; n + 1];
    for k in 1..=n {
        ln_factorial[k] = ln_factorial[k - 1] + (k as f64).ln();
    }
    let ln_power = |base: f64, exponent: usize| if exponent == 0 { 0.0 } else { base.ln() * exponent as f64 };
    let term = |k: usize| {
        let ln_choices = ln_factorial[n] - ln_factorial[k] - ln_factorial[n - k];
        (ln_choices + ln_power(p, k) + ln_power(1.0 - p, n - k)).exp()
    };
    (0..=n).map(term).collect()
}

/// The probability that a standard normal number exceeds `x` ≥ 0.
fn normal_tail(x: f64) -> f64 {
    /// Both the series and the continued fraction reach full precision here.
    const MEETING_POINT: f64 = 3.0;
    let density = (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt();
    if x > MEETING_POINT {
        // Laplace's continued fraction, from the inside out.
        return density / (1..=60).rev().fold(x, |inner, k| x + f64::from(k) / inner);
    }
    let (mut term, mut sum) = (x, 0.0);
    for k in 1..=60 {
        sum += term;
        term *= x * x / f64::from(2 * k + 1);
    }
    0.5 - density * sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Seed;
    use crate::sketch::{SketchRule, compare};

    fn check(found: f64, expected: f64) {
        assert!((found - expected).abs() <= 1e-9 * expected.max(1e-9), "{found:e} is not {expected:e}");
    }

    #[test]
    fn terms_sum_to_one() {
        for n in [0, 1, 7, 100, 3333, 40_000] {
            for p in [0.0, 1e-6, 0.1, 0.5, 0.9, 1.0] {
                let sum: f64 = binomial(n, p).iter().sum();
                assert!((sum - 1.0).abs() < 1e-8, "n = {n}, p = {p}: {sum}");
            }
        }
    }

    /// Computed with exact fractions.
    #[test]
    fn known_values() {
        check(sample_within(10, 0.9, 0.1), 0.9298091736);
        check(sample_within(100, 0.5, 0.1), 0.9647997997822951);
        check(sample_within(100, 0.55, 0.05), 0.7311697457572557);
        check(sample_within(400, 0.4, 0.05), 0.963726944612059);
        check(sample_within(1000, 0.5, 0.05), 0.9986082584055779);
        check(sample_within(3333, 0.5, 0.01), 0.7470525147395409);
        check(sample_wrong_side(3, 0.6, 0.5), 0.352);
        check(sample_wrong_side(85, 0.4, 0.5), 0.030862654713228806);
        check(sample_wrong_side(100, 0.55, 0.5), 0.13457621318805238);
        check(sample_wrong_side(100, 0.45, 0.5), 0.1827281846861452);
        check(sample_wrong_side(1000, 0.45, 0.5), 0.0008465492166192585);
        check(sample_wrong_side(3333, 0.4, 0.5), 9.581643823655681e-32);
        check(normal_tail(0.0), 0.5);
        check(normal_tail(0.5), 0.3085375387259869);
        check(normal_tail(1.0), 0.15865525393145707);
        check(normal_tail(2.9), 0.0018658133003840384);
        check(normal_tail(3.1), 0.0009676032132183562);
        check(normal_tail(6.0), 9.865876450377012e-10);
        check(normal_tail(12.0), 1.776482112077702e-33);
    }

    #[test]
    fn larger_samples_are_more_accurate() {
        for r in [0.4, 0.45, 0.55, 0.6] {
            let sizes = [20, 40, 80, 160, 320, 640, 1280, 2560, 5120];
            for pair in sizes.windows(2) {
                let (less, more) = (pair[0], pair[1]);
                assert!(sample_within(more, r, 0.05) > sample_within(less, r, 0.05), "s = {more}, r = {r}");
                assert!(sample_wrong_side(more, r, 0.5) < sample_wrong_side(less, r, 0.5), "s = {more}, r = {r}");
            }
        }
    }

    #[test]
    fn an_empty_sample_counts_as_unlike() {
        assert_eq!(sample_wrong_side(0, 0.9, 0.5), 1.0);
        assert_eq!(sample_wrong_side(0, 0.1, 0.5), 0.0);
        let evidence = Rule::Mod { modulus: 1000 }.evidence(50, 0.6);
        assert_eq!(evidence, EstimateBasis::Sample { n_compared: 0 });
        assert_eq!((evidence.standard_error(0.6), evidence.within(0.6, 0.05)), (0.6, 0.0));
    }

    #[test]
    fn sizes_and_bases_of_all_rules() {
        let parity = Rule::Parity { size: 256, error_per_mille: 12 };
        for (rule, n, kept, evidence) in [
            (Rule::All, 20_000, SampleSize::Shingles(20_000), EstimateBasis::Whole),
            (Rule::Mod { modulus: 25 }, 1500, SampleSize::Shingles(60), EstimateBasis::Sample { n_compared: 80 }),
            (Rule::Mod { modulus: 1 }, 1500, SampleSize::Shingles(1500), EstimateBasis::Whole),
            (Rule::Min { size: 100 }, 1500, SampleSize::Shingles(100), EstimateBasis::Sample { n_compared: 100 }),
            (Rule::Min { size: 100 }, 60, SampleSize::Shingles(60), EstimateBasis::Whole),
            // A `min` rule compares the s smallest of the union even where both documents are kept whole.
            (Rule::Min { size: 100 }, 90, SampleSize::Shingles(90), EstimateBasis::Sample { n_compared: 100 }),
            (
                Rule::MinOfMod { size: 100, modulus: 5 },
                300,
                SampleSize::Shingles(60),
                EstimateBasis::Sample { n_compared: 80 },
            ),
            (
                Rule::MinOfMod { size: 100, modulus: 5 },
                900,
                SampleSize::Shingles(100),
                EstimateBasis::Sample { n_compared: 100 },
            ),
            (Rule::Adaptive { size: 4096 }, 4096, SampleSize::Shingles(4096), EstimateBasis::Whole),
            (
                Rule::Adaptive { size: 4096 },
                4098,
                SampleSize::Shingles(2049),
                EstimateBasis::Sample { n_compared: 2732 },
            ),
            (
                Rule::Adaptive { size: 4096 },
                24_000,
                SampleSize::Shingles(3000),
                EstimateBasis::Sample { n_compared: 4000 },
            ),
            (parity, 256, SampleSize::Shingles(256), EstimateBasis::Whole),
            (parity, 3000, SampleSize::Bits(8192), EstimateBasis::Bitmaps { n_shingles: 3000, n_bits: 8192 }),
        ] {
            assert_eq!((rule.kept(n), rule.evidence(n, 0.5)), (kept, evidence), "{rule:?} of {n}");
        }
    }

    #[test]
    fn bitmaps_keep_the_demanded_error() {
        let evidence = Rule::Parity { size: 256, error_per_mille: 12 }.evidence(5000, 0.5);
        let error = evidence.standard_error(0.5);
        assert!(error <= 0.012, "{error}");
        check(evidence.within(0.5, error), 0.682_689_492_137_086);
        check(evidence.wrong_side(0.5, 0.5 + 2.0 * error), 0.022_750_131_948_179_2);
        assert_eq!((evidence.within(1.0, 0.05), evidence.wrong_side(1.0, 0.5)), (1.0, 0.0));
    }

    /// Known sets, many permutations: as many estimates land on the wrong side as predicted.
    #[test]
    fn sketches_err_as_predicted() {
        for (rule, n, shared, threshold) in [
            (Rule::Mod { modulus: 25 }, 1450, 900, 0.5),
            (Rule::Min { size: 100 }, 1450, 900, 0.5),
            (Rule::Adaptive { size: 200 }, 3100, 2200, 0.5),
            (Rule::Parity { size: 256, error_per_mille: 40 }, 2900, 1800, 0.5),
        ] {
            let truth = shared as f64 / (2 * n - shared) as f64;
            let of = SketchRule { rule, ..SketchRule::default() };
            let rounds = 600;
            let is_wrong = |round: &u64| {
                let number = |i| Seed([*round, 0, 0, 0]).derive("n", i) >> 24;
                let (mut a, mut b): (Vec<u64>, Vec<u64>) =
                    ((0..n).map(number).collect(), (n - shared..2 * n - shared).map(number).collect());
                let found = compare(&of.sketch(&mut a), &of.sketch(&mut b), rule).resemblance;
                (found >= threshold) != (truth >= threshold)
            };
            let share = (0..rounds).filter(is_wrong).count() as f64 / rounds as f64;
            let foretold = rule.evidence(n as usize, truth).wrong_side(truth, threshold);
            let deviation = (foretold * (1.0 - foretold) / rounds as f64).sqrt();
            assert!((share - foretold).abs() < 4.0 * deviation, "{rule:?}: {share}, foretold {foretold}");
        }
    }
}
