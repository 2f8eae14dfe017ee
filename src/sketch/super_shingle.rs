//! Super shingles: shingles of the sorted sketch (Broder 1997, section 6.1). Two documents with one in common share
//! a run of consecutive sketch values and therefore probably resemble each other closely.

use super::gf2::Polynomial;
use super::rabin::Rabin;
use super::rule::SketchRule;
use super::shingle::Shingle;
use crate::document::Seed;

/// Computes the super shingles of sketches.
#[derive(Clone)]
pub struct SuperShingler {
    rabin: Rabin,
    length: usize,
    count: usize,
}

impl SuperShingler {
    /// Creates a super shingler with the rule's length and number, under a store's secret.
    pub fn new(rule: &SketchRule, seed: &Seed) -> Self {
        SuperShingler {
            rabin: Rabin::new(Polynomial::from_seed(seed), rule.super_shingle_length),
            length: rule.super_shingle_length,
            count: rule.super_shingles,
        }
    }

    /// Returns the smallest super shingles of sorted sketch values, ascending. Documents that share most of their
    /// super shingles share some of the smallest. A sketch shorter than one super shingle has none; the paper warns
    /// of super shingles for short documents.
    pub fn super_shingles(&self, values: &[Shingle]) -> Vec<Shingle> {
        let mut kept = Vec::new();
        if self.count > 0 && values.len() >= self.length {
            let mut found = Vec::new();
            self.rabin.windows(values, |fingerprint| fingerprint, &mut found);
            for shingle in found {
                // Nearly all exceed the few that are kept already.
                let is_kept = kept.len() < self.count || kept.last().is_some_and(|last| shingle < *last);
                if let (true, Err(at)) = (is_kept, kept.binary_search(&shingle)) {
                    kept.insert(at, shingle);
                    kept.truncate(self.count);
                }
            }
        }
        kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_runs_give_equal_super_shingles() {
        let make = SuperShingler::new(&SketchRule::default(), &Seed([1, 2, 3, 4]));
        let a: Vec<Shingle> = (0..100).map(|n| n * n * 1_000_003).collect();
        let mut b = a.clone();
        b[50] += 1;
        let (of_a, of_b) = (make.super_shingles(&a), make.super_shingles(&b));
        assert_eq!(of_a.len(), 4);
        assert!(of_a.iter().any(|shingle| of_b.contains(shingle)));
        assert!(make.super_shingles(&a[..7]).is_empty());
    }

    #[test]
    fn the_smallest_are_kept() {
        let of = |super_shingles, values: &[Shingle]| {
            let rule = SketchRule { super_shingles, ..SketchRule::default() };
            SuperShingler::new(&rule, &Seed([1, 2, 3, 4])).super_shingles(values)
        };
        // Repeated values, so that some windows are equal.
        for values in [(0..60).map(|n| n % 20 * 1_000_003).collect::<Vec<_>>(), (0..60).map(|n| n * n).collect()] {
            let all = of(1000, &values);
            assert!(all.is_sorted_by(|a, b| a < b) && all.len() >= 20, "{all:?}");
            for count in [0, 1, 4, 20] {
                assert_eq!(of(count, &values), all[..count]);
            }
        }
    }
}
