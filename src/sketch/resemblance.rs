//! Estimates of resemblance and containment from two sketches (Broder, "On the resemblance …", section 3).

use super::{Rule, Sketch};
use serde::Serialize;

/// What two sketches say of their documents.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// r(A, B), 0 to 1.
    pub resemblance: f64,
    /// c(A, B), how much of A is in B, 0 to 1.
    pub containment_of_first: f64,
    /// c(B, A), how much of B is in A, 0 to 1.
    pub containment_of_second: f64,
    /// One standard error of the resemblance; 0 where both sketches are whole.
    pub error: f64,
    /// How many sampled shingles the resemblance rests on: of the union of both.
    pub n_compared: u32,
}

/// How many values two ascending slices share, and how many their union has.
struct Overlap {
    common: usize,
    union: usize,
}

impl Overlap {
    /// Of the first `most` values of the union.
    fn of(a: &[u64], b: &[u64], most: usize) -> Self {
        let (mut i, mut j, mut common, mut union) = (0, 0, 0, 0);
        while i < a.len() && j < b.len() && union < most {
            let (x, y) = (a[i], b[j]);
            common += usize::from(x == y);
            i += usize::from(x <= y);
            j += usize::from(y <= x);
            union += 1;
        }
        Overlap { common, union: most.min(union + (a.len() - i) + (b.len() - j)) }
    }

    fn ratio(&self) -> f64 {
        ratio(self.common, self.union)
    }
}

fn ratio(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The estimate for two sketches of one rule.
///
/// Both are cut to the smaller of their bounds, below which each is complete. For the `min` rules the resemblance is
/// that of the s smallest of the union, as in the paper, which makes it unbiased.
pub fn compare(a: &Sketch, b: &Sketch, rule: Rule) -> Estimate {
    let bound = a.bound.min(b.bound);
    let cut = |sketch: &Sketch| sketch.values.partition_point(|value| u128::from(*value) < bound);
    let (a_values, b_values) = (&a.values[..cut(a)], &b.values[..cut(b)]);
    let all = Overlap::of(a_values, b_values, usize::MAX);
    let (resemblance, n_compared) = match rule {
        Rule::Min { size } | Rule::MinOfMod { size, .. } => {
            let first = Overlap::of(a_values, b_values, size);
            (first.ratio(), first.union)
        }
        _ => (all.ratio(), all.union),
    };
    let exact = a.is_whole() && b.is_whole();
    let variance = resemblance * (1.0 - resemblance) / n_compared.max(1) as f64;
    Estimate {
        resemblance,
        containment_of_first: ratio(all.common, a_values.len()),
        containment_of_second: ratio(all.common, b_values.len()),
        error: if exact { 0.0 } else { variance.sqrt() },
        n_compared: n_compared as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Seed;
    use crate::sketch::SketchRule;

    /// Two sets of `n` numbers each, `shared` of them common, spread over 40 bits by a seed.
    fn sets(seed: u64, n: u64, shared: u64) -> [Vec<u64>; 2] {
        let seed = Seed([seed, 0, 0, 0]);
        let number = |i| seed.derive("n", i) >> 24;
        [(0..n).map(number).collect(), (n - shared..2 * n - shared).map(number).collect()]
    }

    /// Known sets, many permutations: the mean of the estimates is the truth.
    #[test]
    fn estimates_are_unbiased() {
        let (n, shared) = (1500u64, 1000u64);
        let truth = shared as f64 / (2 * n - shared) as f64;
        for rule in [
            Rule::All,
            Rule::Mod { modulus: 25 },
            Rule::Min { size: 100 },
            Rule::MinOfMod { size: 40, modulus: 5 },
            Rule::Adaptive { size: 200 },
        ] {
            let of = SketchRule { rule, ..SketchRule::default() };
            let (mut r, mut c, mut within) = (0.0, 0.0, 0);
            let rounds = 400;
            for seed in 0..rounds {
                let [mut a, mut b] = sets(seed, n, shared);
                let estimate = compare(&of.sample(&mut a), &of.sample(&mut b), rule);
                r += estimate.resemblance / rounds as f64;
                c += estimate.containment_of_first / rounds as f64;
                within += usize::from((estimate.resemblance - truth).abs() <= 2.0 * estimate.error + 1e-12);
            }
            assert!((r - truth).abs() < 0.01, "{rule:?}: mean resemblance {r}, truth {truth}");
            assert!((c - 2.0 / 3.0).abs() < 0.01, "{rule:?}: mean containment {c}");
            assert!(within > 360, "{rule:?}: {within} of 400 within two standard errors");
        }
    }

    #[test]
    fn whole_sketches_are_exact() {
        let of = SketchRule::default();
        let estimate = compare(&of.sample(&mut vec![1, 2, 3, 4]), &of.sample(&mut vec![3, 4, 5]), of.rule);
        assert_eq!(estimate.resemblance, 0.4);
        assert_eq!(estimate.containment_of_first, 0.5);
        assert_eq!(estimate.containment_of_second, 2.0 / 3.0);
        assert_eq!((estimate.error, estimate.n_compared), (0.0, 5));
    }

    #[test]
    fn empty_sketches_resemble_nothing() {
        let of = SketchRule::default();
        let empty = of.sample(&mut Vec::new());
        assert_eq!(compare(&empty, &empty, of.rule).resemblance, 0.0);
    }
}
