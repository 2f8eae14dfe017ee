//! Sampling: from a document's shingles to its sketch.
//!
//! Under the store's random permutation every rule but `mod` keeps a prefix of the sorted shingles, so that finer
//! samples contain coarser ones: the smallest 16 of a sketch are the smallest 16 of the document.

use super::confirmation::Confirmation;
use super::parity;
use super::rule::{Rule, SketchRule};
use super::shingle::Shingle;
use super::sort::ShingleSorter;
use std::ops::RangeInclusive;

/// What is kept of a document's shingles, for comparison with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sketch {
    /// |S(D, w)|: how many distinct shingles the document has.
    pub n_shingles: u32,
    /// The shingles that are kept, in the form that the rule chose.
    pub form: SketchForm,
    /// A second sample under another key; `None` if the rule or the small size of the document excludes it.
    pub confirmation: Option<Confirmation>,
}

/// The forms of a sketch. Sketches of one rule compare with each other, whatever their forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SketchForm {
    /// A sample of the shingles.
    Sample {
        /// The kept shingles, ascending, each once.
        values: Vec<Shingle>,
        /// Below this value the sample is complete.
        bound: u128,
    },
    /// The leading 16 bits of every shingle, ascending; different shingles may repeat them.
    Whole(Vec<u16>),
    /// A parity bitmap of all shingles, 64 bits a word; the number of words is a power of two.
    Parity(Vec<u64>),
}

impl Sketch {
    /// Whether nothing was left out, so that comparisons with other whole sketches are exact.
    pub fn is_whole(&self) -> bool {
        match &self.form {
            SketchForm::Sample { values, .. } => values.len() == self.n_shingles as usize,
            SketchForm::Whole(_) => true,
            SketchForm::Parity(_) => false,
        }
    }

    /// Whether the confirmations of two documents allow a resemblance of `least` or more; true if one has none.
    pub fn confirms(&self, other: &Self, least: f64) -> bool {
        let confirmations = self.confirmation.as_ref().zip(other.confirmation.as_ref());
        confirmations.is_none_or(|(own, other)| own.allows(other, least))
    }

    /// Ascending ranges of `bits`-bit numbers, each of which contains at least one of the document's shingles.
    /// Shingles that the sketch left out are missing, as are pairs that fell on one bit of a parity bitmap.
    pub fn ranges(&self, bits: u32) -> Vec<RangeInclusive<Shingle>> {
        let mut ranges: Vec<RangeInclusive<Shingle>> = match &self.form {
            SketchForm::Sample { values, .. } => values.iter().map(|value| *value..=*value).collect(),
            SketchForm::Whole(tops) => tops.iter().map(|top| beginning_with(u64::from(*top), 16, bits)).collect(),
            SketchForm::Parity(words) => {
                let n_bits = words.len() * 64;
                let ones = (0..n_bits).filter(|bit| words[bit / 64] >> (bit % 64) & 1 == 1);
                ones.map(|bit| beginning_with(bit as u64, n_bits.ilog2(), bits)).collect()
            }
        };
        ranges.dedup();
        ranges
    }

    /// The sketch's size in memory, in bytes.
    pub fn n_bytes(&self) -> usize {
        size_of::<Sketch>()
            + match &self.form {
                SketchForm::Sample { values, .. } => size_of_val(values.as_slice()),
                SketchForm::Whole(tops) => size_of_val(tops.as_slice()),
                SketchForm::Parity(words) => size_of_val(words.as_slice()),
            }
    }
}

/// The range of `bits`-bit shingles that begin with `leading`.
fn beginning_with(leading: u64, n_leading: u32, bits: u32) -> RangeInclusive<Shingle> {
    let first = leading << (bits - n_leading);
    first..=first | ((1 << (bits - n_leading)) - 1)
}

impl SketchRule {
    /// Creates the sketch of a document's shingles without its confirmation, which needs the store's secret. Sorts
    /// `shingles` and thins them to those that may index the document.
    pub fn sketch(&self, shingles: &mut Vec<Shingle>) -> Sketch {
        self.sketch_with(shingles, &mut ShingleSorter::default())
    }

    /// [`Self::sketch`] with a sorter that is reused.
    pub(super) fn sketch_with(&self, shingles: &mut Vec<Shingle>, sorter: &mut ShingleSorter) -> Sketch {
        sorter.sort_distinct(shingles, self.bits);
        let n_shingles = u32::try_from(shingles.len()).unwrap_or(u32::MAX);
        let form = match self.rule {
            Rule::Parity { size, .. } if shingles.len() <= size => {
                SketchForm::Whole(shingles.iter().map(|shingle| (shingle >> (self.bits - 16)) as u16).collect())
            }
            Rule::Parity { error_per_mille, .. } => {
                let n_bits = parity::n_bits(shingles.len(), f64::from(error_per_mille) / 1000.0);
                SketchForm::Parity(parity::bitmap(shingles, self.bits, n_bits))
            }
            _ => {
                let bound = self.thin(shingles);
                SketchForm::Sample { values: shingles.clone(), bound }
            }
        };
        Sketch { n_shingles, form, confirmation: None }
    }

    /// Thins sorted shingles to the sample and returns the value below which it is complete.
    fn thin(&self, shingles: &mut Vec<Shingle>) -> u128 {
        let mut bound = 1u128 << self.bits;
        if let Rule::Mod { modulus } | Rule::MinOfMod { modulus, .. } = self.rule {
            shingles.retain(|shingle| shingle % modulus == 0);
        }
        match self.rule {
            Rule::Min { size } | Rule::MinOfMod { size, .. } => {
                if shingles.len() > size {
                    shingles.truncate(size);
                    bound = u128::from(shingles[size - 1]) + 1;
                }
            }
            Rule::Adaptive { size } => {
                while shingles.len() > size {
                    bound /= 2;
                    shingles.truncate(shingles.partition_point(|shingle| u128::from(*shingle) < bound));
                }
            }
            Rule::Mod { .. } | Rule::Parity { .. } | Rule::All => {}
        }
        bound
    }

    /// The distinct shingles that are 0 modulo `index_modulus`, ascending. `shingles` are all of the document's, in
    /// any order: one in m of any document makes documents of very different sizes comparable.
    pub fn mod_shingles(&self, shingles: &[Shingle]) -> Vec<Shingle> {
        if self.index_modulus == 0 {
            return Vec::new();
        }
        let mut found: Vec<Shingle> =
            shingles.iter().copied().filter(|shingle| shingle % self.index_modulus == 0).collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The values that a rule keeps, their bound and the size of the set.
    fn sample(rule: Rule, shingles: &[Shingle]) -> (Vec<Shingle>, u128, u32) {
        let sketch = SketchRule { rule, ..SketchRule::default() }.sketch(&mut shingles.to_vec());
        match sketch.form {
            SketchForm::Sample { values, bound } => (values, bound, sketch.n_shingles),
            other => panic!("{other:?} is not a sample"),
        }
    }

    const TOP: u64 = 1 << 40;

    #[test]
    fn each_rule_keeps_what_it_says() {
        let shingles = [TOP / 2, 75, 50, TOP - 2, 3, 50];
        let kept = |rule| sample(rule, &shingles).0;
        assert_eq!(kept(Rule::All), [3, 50, 75, TOP / 2, TOP - 2]);
        assert_eq!(kept(Rule::Mod { modulus: 25 }), [50, 75]);
        assert_eq!(kept(Rule::Min { size: 2 }), [3, 50]);
        assert_eq!(kept(Rule::MinOfMod { size: 1, modulus: 25 }), [50]);
        assert_eq!(kept(Rule::Adaptive { size: 4 }), [3, 50, 75]);
        assert_eq!(sample(Rule::Adaptive { size: 4 }, &shingles).1, u128::from(TOP / 2));
        assert_eq!(sample(Rule::Min { size: 2 }, &shingles).1, 51);
        assert_eq!(sample(Rule::All, &shingles).2, 5);
    }

    #[test]
    fn mod_shingles_come_from_all_shingles() {
        let mut shingles = vec![75, TOP - 2, 50, 3, 50, 625];
        let rule = |index_modulus| SketchRule { rule: Rule::Min { size: 1 }, index_modulus, ..SketchRule::default() };
        assert_eq!(rule(25).mod_shingles(&shingles), [50, 75, 625]);
        assert!(rule(0).mod_shingles(&shingles).is_empty());
        assert_eq!(rule(25).sketch(&mut shingles), rule(0).sketch(&mut vec![75, TOP - 2, 50, 3, 625]));
    }

    proptest! {
        /// Every shingle is in a range, unless a bitmap lost it together with another one, and each range has a
        /// shingle.
        #[test]
        fn the_ranges_hold_the_shingles(
            shingles in prop::collection::hash_set(0..TOP, 1..3000),
            size in 100usize..1000,
        ) {
            for rule in [Rule::Parity { size, error_per_mille: 16 }, Rule::All] {
                let mut all: Vec<Shingle> = shingles.iter().copied().collect();
                let ranges = SketchRule { rule, ..SketchRule::default() }.sketch(&mut all).ranges(40);
                prop_assert!(ranges.is_sorted_by(|a, b| a.end() < b.start()));
                let up_to = |end: Shingle| all.partition_point(|shingle| *shingle <= end);
                let in_range =
                    |range: &RangeInclusive<Shingle>| up_to(*range.end()) - range.start().checked_sub(1).map_or(0, up_to);
                prop_assert!(ranges.iter().all(|range| in_range(range) > 0));
                let n_found: usize = ranges.iter().map(in_range).sum();
                let is_bitmap = matches!(rule, Rule::Parity { .. }) && shingles.len() > size;
                prop_assert!(n_found == shingles.len() || is_bitmap);
                prop_assert!(n_found * 2 > shingles.len(), "{} of {}", n_found, shingles.len());
            }
        }
    }

    /// Stores from before the mod index hold rules that do not name it.
    #[test]
    fn a_rule_without_a_mod_index_keeps_its_bytes() -> Result<(), serde_json::Error> {
        let off = serde_json::to_string(&SketchRule::default())?;
        assert!(!off.contains("index_modulus"), "{off}");
        assert_eq!(serde_json::from_str::<SketchRule>(&off)?, SketchRule::default());
        let on = SketchRule { index_modulus: 25, ..SketchRule::default() };
        assert_eq!(serde_json::from_str::<SketchRule>(&serde_json::to_string(&on)?)?, on);
        Ok(())
    }

    proptest! {
        #[test]
        fn adaptive_keeps_every_value_below_its_bound(
            shingles in proptest::collection::vec(0..TOP, 0..400), size in 1usize..100,
        ) {
            let (whole, ..) = sample(Rule::All, &shingles);
            let (values, bound, _) = sample(Rule::Adaptive { size }, &shingles);
            prop_assert!(values.len() <= size);
            let below: Vec<_> = whole.iter().copied().filter(|v| u128::from(*v) < bound).collect();
            prop_assert_eq!(values, below);
            if bound < u128::from(TOP) {
                let twice = whole.iter().filter(|v| u128::from(**v) < bound * 2).count();
                prop_assert!(twice > size);
            }
        }
    }
}
