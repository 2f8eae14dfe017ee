//! Estimates of resemblance and containment from two sketches (Broder, "On the resemblance …", section 3).

use super::parity;
use super::rule::Rule;
use super::sample::{Sketch, SketchForm};
use super::shingle::Shingle;
use serde::Serialize;

/// What two sketches say about their documents A and B.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// r(A, B), 0 to 1.
    pub resemblance: f64,
    /// c(A, B): how much of A is in B, 0 to 1.
    pub containment_of_first: f64,
    /// c(B, A): how much of B is in A, 0 to 1.
    pub containment_of_second: f64,
    /// One standard error of `containment_of_first`; 0 if both sketches are whole.
    pub containment_error_of_first: f64,
    /// One standard error of `containment_of_second`; 0 if both sketches are whole.
    pub containment_error_of_second: f64,
    /// One standard error of the resemblance; 0 if both sketches are whole.
    pub error: f64,
    /// How many sampled shingles of the union the resemblance rests on.
    pub n_compared: u32,
}

/// How many mod shingles two documents have, and have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModCounts {
    /// Mod shingles of the first document.
    pub n_first: u32,
    /// Mod shingles of the second document.
    pub n_second: u32,
    /// Mod shingles that both documents have.
    pub n_shared: u32,
}

/// An estimate with a larger standard error counts less some of it: one shingle found of two is no half of a text.
const ERROR_MAX: f64 = 0.05;

impl Estimate {
    /// Whether a document carries a text, wholly or in part, or the text carries the document, for a threshold from 0 to 1.
    /// The text is the first of the two. Where a share has a large standard error, it must exceed the threshold by `n_errors`
    /// of it.
    pub fn carries(&self, threshold: f64, n_errors: f64) -> bool {
        let shares = [
            (self.resemblance, self.error),
            (self.containment_of_first, self.containment_error_of_first),
            (self.containment_of_second, self.containment_error_of_second),
        ];
        shares
            .iter()
            .any(|(share, error)| *share >= threshold && (*error <= ERROR_MAX || share - n_errors * error >= threshold))
    }

    /// Replaces the estimate by that of the mod shingles of `a` and `b` where they are more accurate.
    ///
    /// Cutting or folding to a common size leaves little of the sketches of documents of very different sizes. The
    /// mod shingles look one in m of the smaller document up in the larger; the exact sizes give the containment in
    /// the other direction and the resemblance.
    pub fn refined(self, a: &Sketch, b: &Sketch, counts: ModCounts) -> Self {
        let first_is_smaller = a.n_shingles <= b.n_shingles;
        let (n_mod, known_error) = if first_is_smaller {
            (counts.n_first, self.containment_error_of_first)
        } else {
            (counts.n_second, self.containment_error_of_second)
        };
        let error = share_error(counts.n_shared as usize, n_mod as usize);
        if n_mod == 0 || error >= known_error {
            return self;
        }
        let of_smaller = (f64::from(counts.n_shared) / f64::from(n_mod)).min(1.0);
        let n_smaller = f64::from(a.n_shingles.min(b.n_shingles));
        let sizes = [a, b].map(|sketch| n_smaller / f64::from(sketch.n_shingles.max(1)));
        let [first, second] = sizes.map(|size| of_smaller * size);
        let [error_of_first, error_of_second] = sizes.map(|size| error * size);
        // The resemblance rests on the same shingles: x / (n - x) for x in common and n in the sum of both.
        let (common, common_error) = (of_smaller * n_smaller, error * n_smaller);
        let n_both = f64::from(a.n_shingles) + f64::from(b.n_shingles);
        Estimate {
            resemblance: common / (n_both - common),
            error: common_error * n_both / (n_both - common).powi(2),
            containment_of_first: first,
            containment_of_second: second,
            containment_error_of_first: error_of_first,
            containment_error_of_second: error_of_second,
            n_compared: (counts.n_first + counts.n_second).saturating_sub(counts.n_shared),
        }
    }
}

/// One standard error of a share estimated from `part` of `whole` sampled shingles, by the posterior under a
/// uniform prior. The binomial error would be 0 if all or none of a handful are found, which is usual for
/// containment.
fn share_error(part: usize, whole: usize) -> f64 {
    let (part, whole) = (part as f64, whole as f64);
    let mean = (part + 1.0) / (whole + 2.0);
    (mean * (1.0 - mean) / (whole + 3.0)).max(0.0).sqrt()
}

/// How many values two ascending slices share, and how many their union has.
struct Overlap {
    common: usize,
    union: usize,
}

impl Overlap {
    /// Counts within the first `most` values of the union.
    fn count<T: Ord>(a: &[T], b: &[T], most: usize) -> Self {
        Self::count_within(a, b, most, usize::MAX).0
    }

    /// Counts within the first `most` values of the union, and says whether it came to the end: it stops when more than
    /// `differing_max` values are in one slice alone.
    fn count_within<T: Ord>(a: &[T], b: &[T], most: usize, differing_max: usize) -> (Self, bool) {
        let (mut i, mut j, mut common, mut union) = (0, 0, 0, 0);
        while i < a.len() && j < b.len() && union < most && union - common <= differing_max {
            let (x, y) = (&a[i], &b[j]);
            common += usize::from(x == y);
            i += usize::from(x <= y);
            j += usize::from(y <= x);
            union += 1;
        }
        let is_whole = union - common <= differing_max;
        (Overlap { common, union: most.min(union + (a.len() - i) + (b.len() - j)) }, is_whole)
    }

    fn ratio(&self) -> f64 {
        ratio(self.common, self.union)
    }
}

fn ratio(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Returns [`compare`] as it may be published: documents that are kept whole count by their bitmaps alone. The
/// remaining bits of their shingles decide about links and must not be learned from answers. For larger documents
/// the [`Confirmation`](super::confirmation::Confirmation) has that part.
pub fn compare_redacted(a: &Sketch, b: &Sketch, rule: Rule) -> Estimate {
    match (&a.form, &b.form) {
        (SketchForm::Whole(a_tops), SketchForm::Whole(b_tops)) => {
            let [a_words, b_words] = [a_tops, b_tops].map(|tops| parity::bitmap_of_tops(tops, parity::BITS_MIN));
            from_bitmaps(a, b, &a_words, &b_words)
        }
        _ => compare(a, b, rule),
    }
}

/// Estimates from two sketches of one rule. Sketches of different rules say nothing about each other.
pub fn compare(a: &Sketch, b: &Sketch, rule: Rule) -> Estimate {
    match (&a.form, &b.form) {
        (
            SketchForm::Sample { values: a_values, bound: a_bound },
            SketchForm::Sample { values: b_values, bound: b_bound },
        ) => {
            let exact = a.is_whole() && b.is_whole();
            from_samples((a_values, *a_bound), (b_values, *b_bound), exact, rule)
        }
        (SketchForm::Whole(a_tops), SketchForm::Whole(b_tops)) => {
            let all = Overlap::count(a_tops, b_tops, usize::MAX);
            from_common(a, b, all.common as f64, 0.0, 0.0)
        }
        (SketchForm::Parity(a_words), SketchForm::Parity(b_words)) => from_bitmaps(a, b, a_words, b_words),
        (SketchForm::Whole(tops), SketchForm::Parity(words)) => {
            from_bitmaps(a, b, &parity::bitmap_of_tops(tops, words.len() * 64), words)
        }
        (SketchForm::Parity(words), SketchForm::Whole(tops)) => {
            from_bitmaps(a, b, words, &parity::bitmap_of_tops(tops, words.len() * 64))
        }
        _ => from_common(a, b, 0.0, 1.0, f64::INFINITY),
    }
}

/// Returns [`compare`], or `None` where the resemblance is below `least`. Stops as soon as that is sure: most documents
/// that share a few shingles share few.
pub fn compare_down_to(a: &Sketch, b: &Sketch, rule: Rule, least: f64) -> Option<Estimate> {
    let estimate = match (&a.form, &b.form) {
        (SketchForm::Whole(a_tops), SketchForm::Whole(b_tops)) => {
            // x in common of n in the sum of both: x / (n - x) is at least t if n - 2x is at most n (1 - t) / (1 + t).
            let differing = (f64::from(a.n_shingles) + f64::from(b.n_shingles)) * (1.0 - least) / (1.0 + least);
            let differing = differing.ceil() as usize;
            if a_tops.len().abs_diff(b_tops.len()) > differing {
                return None;
            }
            let (all, is_whole) = Overlap::count_within(a_tops, b_tops, usize::MAX, differing);
            is_whole.then(|| from_common(a, b, all.common as f64, 0.0, 0.0))
        }
        _ => Some(compare(a, b, rule)),
    };
    estimate.filter(|estimate| estimate.resemblance >= least)
}

/// Cuts both samples to the smaller of their bounds, below which each is complete. For the `min` rules the
/// resemblance is that of the s smallest of the union, as in the paper, which makes it unbiased.
fn from_samples(a: (&[Shingle], u128), b: (&[Shingle], u128), exact: bool, rule: Rule) -> Estimate {
    let bound = a.1.min(b.1);
    let cut = |values: &[Shingle]| values.partition_point(|value| u128::from(*value) < bound);
    let (a_values, b_values) = (&a.0[..cut(a.0)], &b.0[..cut(b.0)]);
    let all = Overlap::count(a_values, b_values, usize::MAX);
    let (resemblance, n_compared) = match rule {
        Rule::Min { size } | Rule::MinOfMod { size, .. } => {
            let first = Overlap::count(a_values, b_values, size);
            (first.ratio(), first.union)
        }
        _ => (all.ratio(), all.union),
    };
    let variance = resemblance * (1.0 - resemblance) / n_compared.max(1) as f64;
    let containment_error = |n: usize| if exact { 0.0 } else { share_error(all.common, n) };
    Estimate {
        resemblance,
        containment_of_first: ratio(all.common, a_values.len()),
        containment_of_second: ratio(all.common, b_values.len()),
        containment_error_of_first: containment_error(a_values.len()),
        containment_error_of_second: containment_error(b_values.len()),
        // A `min` rule may look at only part of the union of two whole sketches.
        error: if exact && n_compared == all.union { 0.0 } else { variance.sqrt() },
        n_compared: n_compared as u32,
    }
}

fn from_bitmaps(a: &Sketch, b: &Sketch, a_words: &[u64], b_words: &[u64]) -> Estimate {
    let (n_a, n_b) = (f64::from(a.n_shingles), f64::from(b.n_shingles));
    let (difference, n_bits) = parity::difference(a_words, b_words);
    let common = ((n_a + n_b - difference) / 2.0).clamp(0.0, n_a.min(n_b));
    let difference = n_a + n_b - 2.0 * common;
    // A bitmap that a much larger document has filled says nothing; its error is unbounded.
    let error = parity::resemblance_error(n_a, n_b, difference, n_bits as f64).min(1.0);
    from_common(a, b, common, error, parity::difference_error(difference, n_bits as f64) / 2.0)
}

/// Derives the estimate from the number of shingles in common, with the errors of the resemblance and of that
/// number.
fn from_common(a: &Sketch, b: &Sketch, common: f64, error: f64, common_error: f64) -> Estimate {
    let (n_a, n_b) = (f64::from(a.n_shingles), f64::from(b.n_shingles));
    let share = |whole: f64| if whole == 0.0 { 0.0 } else { common / whole };
    let containment_error = |whole: f64| if whole == 0.0 { 0.0 } else { (common_error / whole).min(1.0) };
    let union = n_a + n_b - common;
    Estimate {
        resemblance: share(union),
        containment_of_first: share(n_a),
        containment_of_second: share(n_b),
        containment_error_of_first: containment_error(n_a),
        containment_error_of_second: containment_error(n_b),
        error,
        n_compared: union.round() as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Seed;
    use crate::sketch::SketchRule;

    /// Two sets of `n` numbers each, `shared` of them in common, spread over 40 bits by a seed.
    fn sets(seed: u64, n: u64, shared: u64) -> [Vec<u64>; 2] {
        let seed = Seed([seed, 0, 0, 0]);
        let number = |i| seed.derive("n", i) >> 24;
        [(0..n).map(number).collect(), (n - shared..2 * n - shared).map(number).collect()]
    }

    /// Known sets, many permutations: the mean of the estimates is the truth.
    #[test]
    fn estimates_are_unbiased() {
        for (rule, n, shared) in [
            (Rule::All, 1500, 1000),
            (Rule::Mod { modulus: 25 }, 1500, 1000),
            (Rule::Min { size: 100 }, 1500, 1000),
            (Rule::MinOfMod { size: 40, modulus: 5 }, 1500, 1000),
            (Rule::Adaptive { size: 200 }, 1500, 1000),
            (Rule::Parity { size: 256, error_per_mille: 20 }, 1500, 1000),
            (Rule::Parity { size: 256, error_per_mille: 5 }, 300, 200),
        ] {
            let truth = shared as f64 / (2 * n - shared) as f64;
            let of = SketchRule { rule, ..SketchRule::default() };
            let (mut r, mut c, mut within) = (0.0, 0.0, 0);
            let rounds = 400;
            for seed in 0..rounds {
                let [mut a, mut b] = sets(seed, n, shared);
                let estimate = compare(&of.sketch(&mut a), &of.sketch(&mut b), rule);
                r += estimate.resemblance / rounds as f64;
                c += estimate.containment_of_first / rounds as f64;
                within += usize::from((estimate.resemblance - truth).abs() <= 2.0 * estimate.error + 1e-12);
            }
            assert!((r - truth).abs() < 0.01, "{rule:?}: mean resemblance {r}, truth {truth}");
            assert!((c - 2.0 / 3.0).abs() < 0.01, "{rule:?}: mean containment {c}");
            assert!(within > 360, "{rule:?}: {within} of 400 within two standard errors");
        }
    }

    /// A document kept whole against one kept as a bitmap, and bitmaps of different sizes against each other.
    #[test]
    fn forms_of_one_rule_compare() {
        let of = SketchRule { rule: Rule::Parity { size: 256, error_per_mille: 15 }, ..SketchRule::default() };
        let seed = Seed([3, 0, 0, 0]);
        let set = |range: std::ops::Range<u64>| of.sketch(&mut range.map(|i| seed.derive("n", i) >> 24).collect());
        for (a, b, r) in [
            (0..250, 0..300, 250.0 / 300.0),
            (0..250, 50..350, 200.0 / 350.0),
            (0..3000, 0..5000, 0.6),
            (0..1000, 0..9000, 1.0 / 9.0),
            (0..100, 50..150, 1.0 / 3.0),
        ] {
            let estimate = compare(&set(a.clone()), &set(b.clone()), of.rule);
            let off = (estimate.resemblance - r).abs();
            assert!(off <= 3.0 * estimate.error + 1e-9, "{a:?} {b:?}: {estimate:?}, truth {r}");
            let other = compare(&set(b), &set(a), of.rule);
            assert_eq!(estimate.resemblance, other.resemblance);
            assert_eq!(estimate.containment_of_first, other.containment_of_second);
        }
    }

    /// The estimates between a document of 500 shingles and one of 49,500 that share `inside`, in both directions.
    fn inside(rule: Rule, seed: u64, inside: u64) -> [Estimate; 2] {
        let of = SketchRule { rule, index_modulus: 25, ..SketchRule::default() };
        let set = |range: std::ops::Range<u64>| -> Vec<u64> {
            range.map(|i| Seed([seed, 0, 0, 0]).derive("n", i) >> 24).collect()
        };
        let (mut small, mut large) = (set(inside..500 + inside), set(500..50_000));
        let (of_small, of_large) = (of.mod_shingles(&small), of.mod_shingles(&large));
        let shared = of_small.iter().filter(|shingle| of_large.contains(shingle)).count() as u32;
        let (first, second) = (of_small.len() as u32, of_large.len() as u32);
        let (a, b) = (of.sketch(&mut small), of.sketch(&mut large));
        [
            compare(&a, &b, rule).refined(&a, &b, ModCounts { n_first: first, n_second: second, n_shared: shared }),
            compare(&b, &a, rule).refined(&b, &a, ModCounts { n_first: second, n_second: first, n_shared: shared }),
        ]
    }

    /// A page inside another that is a hundred times as large: the sketches cannot tell, one shingle in 25 can.
    #[test]
    fn mod_counts_give_containment_at_all_sizes() {
        for rule in [Rule::Parity { size: 256, error_per_mille: 12 }, Rule::Adaptive { size: 128 }] {
            for n in [500, 400, 100] {
                let truth = n as f64 / 500.0;
                let (mut mean, mut within) = (0.0, 0);
                for seed in 0..50 {
                    let [there, back] = inside(rule, seed, n);
                    let (c, error) = (there.containment_of_first, there.containment_error_of_first);
                    mean += c / 50.0;
                    within += usize::from((c - truth).abs() <= 2.0 * error);
                    assert_eq!((back.containment_of_second, back.containment_error_of_second), (c, error));
                    assert!((there.containment_of_second - c * 500.0 / 49_500.0).abs() < 1e-12);
                    let r = n as f64 / (50_000.0 - n as f64);
                    assert!((there.resemblance - r).abs() <= 5.0 * there.error, "{there:?}, truth {r}");
                    assert!(there.error < 0.02, "{there:?}");
                }
                assert!((mean - truth).abs() < 0.04, "{rule:?}: mean {mean}, truth {truth}");
                assert!(within >= 45, "{rule:?}, {truth}: {within} of 50 within two standard errors");
            }
        }
    }

    #[test]
    fn mod_counts_leave_exact_estimates_alone() {
        let of = SketchRule { rule: Rule::All, ..SketchRule::default() };
        let (a, b) = (of.sketch(&mut vec![1, 2, 3, 4]), of.sketch(&mut vec![3, 4, 5]));
        let exact = compare(&a, &b, of.rule);
        assert_eq!(exact.refined(&a, &b, ModCounts { n_first: 4, n_second: 3, n_shared: 3 }), exact);
        assert_eq!((exact.containment_error_of_first, exact.containment_error_of_second), (0.0, 0.0));
    }

    /// Lost once: with one standard error for all callers, a watch for a text of twelve words posted pages that have none of
    /// them; with four, `query reuse` missed nine of twelve pages that carry a text of eighty words.
    #[test]
    fn an_inaccurate_share_counts_less_as_many_standard_errors_as_asked() {
        let of = |share, error| Estimate {
            resemblance: 0.0,
            error: 0.0,
            containment_of_first: share,
            containment_error_of_first: error,
            containment_of_second: 0.0,
            containment_error_of_second: 0.0,
            n_compared: 1,
        };
        for (share, error, by_one, by_four) in [
            (1.0, 0.43, true, false),
            (1.0, 0.15, true, false),
            (1.0, 0.12, true, true),
            (0.6, 0.15, false, false),
            (0.6, 0.05, true, true),
            (0.4, 0.0, false, false),
        ] {
            let carried = [1.0, 4.0].map(|n_errors| of(share, error).carries(0.5, n_errors));
            assert_eq!(carried, [by_one, by_four], "{share} ± {error}");
        }
    }

    #[test]
    fn whole_sketches_are_exact() {
        let of = SketchRule { rule: Rule::All, ..SketchRule::default() };
        let estimate = compare(&of.sketch(&mut vec![1, 2, 3, 4]), &of.sketch(&mut vec![3, 4, 5]), of.rule);
        assert_eq!(estimate.resemblance, 0.4);
        assert_eq!(estimate.containment_of_first, 0.5);
        assert_eq!(estimate.containment_of_second, 2.0 / 3.0);
        assert_eq!((estimate.error, estimate.n_compared), (0.0, 5));
    }

    /// Stopping early must lose no document that resembles enough, on the boundary above all.
    #[test]
    fn a_comparison_stops_only_below_what_is_asked() {
        let mut n_stopped = 0;
        for rule in [Rule::All, SketchRule::default().rule, Rule::Min { size: 64 }] {
            let of = SketchRule { rule, ..SketchRule::default() };
            for (seed, n, shared) in (0..=60).map(|at| (at, 60 + at % 3, at.min(60))) {
                let [a, b] = sets(seed, n, shared).map(|mut set| of.sketch(&mut set));
                let full = compare(&a, &b, rule);
                for least in [0.01, 0.25, 1.0 / 3.0, 0.5, full.resemblance, full.resemblance + 1e-9, 0.98, 1.0] {
                    let least = least.clamp(0.001, 1.0);
                    let expected = (full.resemblance >= least).then_some(full);
                    assert_eq!(compare_down_to(&a, &b, rule, least), expected, "{rule:?}, {shared} of {n}, {least}");
                    n_stopped += usize::from(expected.is_none());
                }
            }
        }
        assert!(n_stopped > 100);
    }

    #[test]
    fn empty_sketches_resemble_nothing() {
        let of = SketchRule::default();
        let empty = of.sketch(&mut Vec::new());
        assert_eq!(compare(&empty, &empty, of.rule).resemblance, 0.0);
    }
}
