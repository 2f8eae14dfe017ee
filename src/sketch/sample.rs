//! Sampling: which of a document's shingles its sketch keeps.
//!
//! Under the store's random permutation every rule but `mod` is a prefix of the sorted shingles, so that coarser
//! samples are found in finer ones: the smallest 16 of a sketch are the smallest 16 of the document.

use super::Shingle;
use super::confirmation::{self, Confirmation};
use super::order::Order;
use super::parity;
use super::shingle::Multiplicity;
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// How documents are sketched. A store is made with one rule and keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SketchRule {
    /// Words in a shingle.
    pub w: usize,
    /// Bits of a fingerprint, 32 to 64.
    pub bits: u32,
    /// What a repeated shingle is.
    pub multiplicity: Multiplicity,
    /// Which shingles are kept.
    #[serde(flatten)]
    pub rule: Rule,
    /// How many of the smallest kept shingles index a document; 0: all of them, as in the paper.
    pub index_size: usize,
    /// A document is also indexed by all its shingles that are 0 modulo this, so that one inside a much larger one is
    /// found, with which it shares none of the smallest; 0: it is not. Left out of what is written where it is 0.
    #[serde(default, skip_serializing_if = "is_off")]
    pub index_modulus: u64,
    /// Whether documents large enough have a [`Confirmation`], which must agree before a link is made. Left out of what is
    /// written where it is off.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub confirmation: bool,
    /// Sketch values in a super shingle.
    pub super_shingle_length: usize,
    /// Super shingles a document, at most; 0 turns them off.
    pub super_shingles: usize,
}

impl Default for SketchRule {
    fn default() -> Self {
        SketchRule {
            w: 10,
            bits: 40,
            multiplicity: Multiplicity::Set,
            rule: Rule::Parity { size: 384, error_per_mille: 16 },
            index_size: 16,
            index_modulus: 0,
            confirmation: true,
            super_shingle_length: 8,
            super_shingles: 4,
        }
    }
}

fn is_off(index_modulus: &u64) -> bool {
    *index_modulus == 0
}

/// Which shingles a sketch keeps (Broder 1997, section 4; Broder, "On the resemblance …", section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "rule")]
pub enum Rule {
    /// MOD_m: those that are 0 modulo m; one in m of any document.
    Mod {
        /// m
        modulus: u64,
    },
    /// MIN_s: the s smallest.
    Min {
        /// s
        size: usize,
    },
    /// The s smallest of those that are 0 modulo m.
    MinOfMod {
        /// s
        size: usize,
        /// m
        modulus: u64,
    },
    /// V_i: those below 2^(bits - i), with the smallest i that leaves at most `size`: between half of it and all of
    /// it. (The paper takes those that are 0 modulo 2^i; under a random permutation that is the same sample, and
    /// this one is a prefix of the sorted shingles.)
    Adaptive {
        /// The most that are kept.
        size: usize,
    },
    /// 16 bits of every shingle up to `size` of them; a parity bitmap above, with as many bits as the error demands.
    /// The default is 384 and 16: on generated sites thousands of pairs of a few hundred shingles stand near the
    /// threshold, and only whole ones tell them apart; above, less error buys hardly any accuracy for its bytes
    /// (`bench-data/accuracy.rs`).
    Parity {
        /// Documents of at most this many shingles are kept whole.
        size: usize,
        /// The standard error of a resemblance of one half between larger ones, in thousandths.
        error_per_mille: u32,
    },
    /// Every shingle: exact answers.
    All,
}

/// What is kept of a document's shingles to hold it against others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sketch {
    /// |S(D, w)|: how many distinct shingles the document has.
    pub n_shingles: u32,
    /// What is kept of them.
    pub form: Form,
    /// A second sample under another key; none where the rule has none, or the document is small.
    pub confirmation: Option<Confirmation>,
}

/// The forms of a sketch. Sketches of one rule compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// A sample of the shingles.
    Sample {
        /// The kept shingles, ascending, each once.
        values: Vec<Shingle>,
        /// The rule kept all that it might have kept below this value.
        bound: u128,
    },
    /// The leading 16 bits of every shingle, ascending; equal ones of different shingles are repeated.
    Whole(Vec<u16>),
    /// A parity bitmap of all shingles, 64 bits a word; a power of two of them.
    Parity(Vec<u64>),
}

impl Sketch {
    /// Whether nothing was left out, so that what it tells of another such one is exact.
    pub fn is_whole(&self) -> bool {
        match &self.form {
            Form::Sample { values, .. } => values.len() == self.n_shingles as usize,
            Form::Whole(_) => true,
            Form::Parity(_) => false,
        }
    }

    /// Whether the confirmations of two documents allow that they resemble each other by `least` or more. True where one
    /// of them has none.
    pub fn confirms(&self, other: &Self, least: f64) -> bool {
        let confirmations = self.confirmation.as_ref().zip(other.confirmation.as_ref());
        confirmations.is_none_or(|(own, other)| own.allows(other, least))
    }

    /// Where the shingles of `bits` bits lie that it was made of: ranges that ascend, each with one of them or more. What
    /// it has left out is missing, and so are shingles that fell on one bit of a parity bitmap in pairs.
    pub fn ranges(&self, bits: u32) -> Vec<RangeInclusive<Shingle>> {
        let mut ranges: Vec<RangeInclusive<Shingle>> = match &self.form {
            Form::Sample { values, .. } => values.iter().map(|value| *value..=*value).collect(),
            Form::Whole(tops) => tops.iter().map(|top| beginning_with(u64::from(*top), 16, bits)).collect(),
            Form::Parity(words) => {
                let n_bits = words.len() * 64;
                let ones = (0..n_bits).filter(|bit| words[bit / 64] >> (bit % 64) & 1 == 1);
                ones.map(|bit| beginning_with(bit as u64, n_bits.ilog2(), bits)).collect()
            }
        };
        ranges.dedup();
        ranges
    }

    /// The bytes of memory that it holds.
    pub fn n_bytes(&self) -> usize {
        size_of::<Sketch>()
            + match &self.form {
                Form::Sample { values, .. } => size_of_val(values.as_slice()),
                Form::Whole(tops) => size_of_val(tops.as_slice()),
                Form::Parity(words) => size_of_val(words.as_slice()),
            }
    }
}

/// The shingles of `bits` bits of which these are the leading ones.
fn beginning_with(leading: u64, n_leading: u32, bits: u32) -> RangeInclusive<Shingle> {
    let first = leading << (bits - n_leading);
    first..=first | ((1 << (bits - n_leading)) - 1)
}

impl SketchRule {
    /// Whether a document of so many shingles has a confirmation. Where every shingle is kept there is nothing to confirm.
    pub(super) fn is_confirmed(&self, n_shingles: usize) -> bool {
        self.confirmation && n_shingles > confirmation::SHINGLES_MIN && self.rule != Rule::All
    }

    /// Makes the sketch of a document's shingles, without its confirmation, which takes the store's secret. `shingles` is
    /// sorted and thinned in place to those that may index it.
    pub fn sketch(&self, shingles: &mut Vec<Shingle>) -> Sketch {
        self.sketch_with(shingles, &mut Order::default())
    }

    /// [`Self::sketch`] with buffers that are kept.
    pub(super) fn sketch_with(&self, shingles: &mut Vec<Shingle>, order: &mut Order) -> Sketch {
        order.sort_distinct(shingles, self.bits);
        let n_shingles = u32::try_from(shingles.len()).unwrap_or(u32::MAX);
        let form = match self.rule {
            Rule::Parity { size, .. } if shingles.len() <= size => {
                Form::Whole(shingles.iter().map(|shingle| (shingle >> (self.bits - 16)) as u16).collect())
            }
            Rule::Parity { error_per_mille, .. } => {
                let n_bits = parity::n_bits(shingles.len(), f64::from(error_per_mille) / 1000.0);
                Form::Parity(parity::bitmap(shingles, self.bits, n_bits))
            }
            _ => {
                let bound = self.thin(shingles);
                Form::Sample { values: shingles.clone(), bound }
            }
        };
        Sketch { n_shingles, form, confirmation: None }
    }

    /// Thins sorted shingles to the sample, and says below what value it is complete.
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

    /// How many shingles index a document, at most.
    pub fn n_index(&self) -> usize {
        if self.index_size == 0 { usize::MAX } else { self.index_size }
    }

    /// How many shingles a document hands over to be indexed by: more than index it, for those that are common.
    pub fn index_candidates(&self) -> usize {
        if self.index_size == 0 { usize::MAX } else { self.index_size * 4 }
    }

    /// The mod shingles of a document: those of all its shingles, in whatever order and number they are given, that are
    /// 0 modulo `index_modulus`, ascending. They are taken before the sketch is thinned: one in m of any document is
    /// what makes those of very different sizes comparable.
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

    /// What is wrong with the rule, if anything.
    pub fn problem(&self) -> Option<String> {
        let size = match self.rule {
            Rule::Min { size } | Rule::MinOfMod { size, .. } | Rule::Adaptive { size } => size,
            Rule::Mod { .. } | Rule::Parity { .. } | Rule::All => 1,
        };
        let is_parity = matches!(self.rule, Rule::Parity { .. });
        let parity_size = if let Rule::Parity { size, .. } = self.rule { size } else { 0 };
        let modulus = match self.rule {
            Rule::Mod { modulus } | Rule::MinOfMod { modulus, .. } => modulus,
            _ => 1,
        };
        match self {
            _ if !(1..=64).contains(&self.w) => Some(format!("w is {}, must be 1 to 64 words", self.w)),
            _ if !(32..=64).contains(&self.bits) => Some(format!("bits is {}, must be 32 to 64", self.bits)),
            _ if size == 0 => Some("size is 0, must be at least 1 shingle".into()),
            _ if modulus == 0 => Some("modulus is 0, must be at least 1".into()),
            _ if is_parity && self.index_size == 0 => {
                Some("index_size is 0, which needs a rule that keeps whole shingles; \"parity\" does not".into())
            }
            Self { rule: Rule::Parity { size: 1025.., .. }, .. } => {
                Some(format!("size is {parity_size}, must be at most 1024: 16 bits do not keep more shingles apart"))
            }
            Self { rule: Rule::Parity { error_per_mille: 0, .. }, .. } => {
                Some("error_per_mille is 0, must be at least 1; rule = \"all\" makes no error".into())
            }
            _ if self.super_shingle_length == 0 => Some("super_shingle_length is 0, must be at least 1".into()),
            _ => None,
        }
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
            Form::Sample { values, bound } => (values, bound, sketch.n_shingles),
            other => panic!("{other:?} is no sample"),
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
    fn mod_shingles_are_one_in_m_of_all_and_not_of_the_sketch() {
        let mut shingles = vec![75, TOP - 2, 50, 3, 50, 625];
        let rule = |index_modulus| SketchRule { rule: Rule::Min { size: 1 }, index_modulus, ..SketchRule::default() };
        assert_eq!(rule(25).mod_shingles(&shingles), [50, 75, 625]);
        assert!(rule(0).mod_shingles(&shingles).is_empty());
        assert_eq!(rule(25).sketch(&mut shingles), rule(0).sketch(&mut vec![75, TOP - 2, 50, 3, 625]));
    }

    proptest! {
        /// Every shingle is in one of the ranges, unless a bitmap has lost it with another one, and each range has one.
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

    /// Stores that were made before there was a mod index hold rules that do not name it.
    #[test]
    fn a_rule_without_a_mod_index_is_written_as_it_always_was() -> Result<(), serde_json::Error> {
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
