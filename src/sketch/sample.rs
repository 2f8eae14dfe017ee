//! Sampling: which of a document's shingles its sketch keeps.
//!
//! Under the store's random permutation every rule but `mod` is a prefix of the sorted shingles, so that coarser
//! samples are found in finer ones: the smallest 16 of a sketch are the smallest 16 of the document.

use super::Shingle;
use super::shingle::Multiplicity;
use serde::{Deserialize, Serialize};

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
            rule: Rule::Adaptive { size: 4096 },
            super_shingle_length: 8,
            super_shingles: 4,
        }
    }
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
    /// Every shingle: exact answers.
    All,
}

/// A document's sample of its shingles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sketch {
    /// The kept shingles, ascending, each once.
    pub values: Vec<Shingle>,
    /// The rule kept all that it might have kept below this value.
    pub bound: u128,
    /// |S(D, w)|: how many distinct shingles the document has.
    pub n_shingles: u32,
}

impl Sketch {
    /// Whether the sketch is the whole set S(D, w).
    pub fn is_whole(&self) -> bool {
        self.values.len() == self.n_shingles as usize
    }
}

impl SketchRule {
    /// Takes the sample of a document's shingles. `shingles` is sorted and thinned in place.
    pub fn sample(&self, shingles: &mut Vec<Shingle>) -> Sketch {
        shingles.sort_unstable();
        shingles.dedup();
        let n_shingles = u32::try_from(shingles.len()).unwrap_or(u32::MAX);
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
            Rule::Mod { .. } | Rule::All => {}
        }
        Sketch { values: shingles.as_slice().into(), bound, n_shingles }
    }

    /// What is wrong with the rule, if anything.
    pub fn problem(&self) -> Option<String> {
        let size = match self.rule {
            Rule::Min { size } | Rule::MinOfMod { size, .. } | Rule::Adaptive { size } => size,
            Rule::Mod { .. } | Rule::All => 1,
        };
        let modulus = match self.rule {
            Rule::Mod { modulus } | Rule::MinOfMod { modulus, .. } => modulus,
            _ => 1,
        };
        match self {
            _ if !(1..=64).contains(&self.w) => Some(format!("w is {}, must be 1 to 64 words", self.w)),
            _ if !(32..=64).contains(&self.bits) => Some(format!("bits is {}, must be 32 to 64", self.bits)),
            _ if size == 0 => Some("size is 0, must be at least 1 shingle".into()),
            _ if modulus == 0 => Some("modulus is 0, must be at least 1".into()),
            _ if self.super_shingle_length == 0 => Some("super_shingle_length is 0, must be at least 1".into()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample(rule: Rule, shingles: &[Shingle]) -> Sketch {
        SketchRule { rule, ..SketchRule::default() }.sample(&mut shingles.to_vec())
    }

    const TOP: u64 = 1 << 40;

    #[test]
    fn each_rule_keeps_what_it_says() {
        let shingles = [TOP / 2, 75, 50, TOP - 2, 3, 50];
        let kept = |rule| sample(rule, &shingles).values;
        assert_eq!(kept(Rule::All), [3, 50, 75, TOP / 2, TOP - 2]);
        assert_eq!(kept(Rule::Mod { modulus: 25 }), [50, 75]);
        assert_eq!(kept(Rule::Min { size: 2 }), [3, 50]);
        assert_eq!(kept(Rule::MinOfMod { size: 1, modulus: 25 }), [50]);
        assert_eq!(kept(Rule::Adaptive { size: 4 }), [3, 50, 75]);
        assert_eq!(sample(Rule::Adaptive { size: 4 }, &shingles).bound, u128::from(TOP / 2));
        assert_eq!(sample(Rule::Min { size: 2 }, &shingles).bound, 51);
        assert_eq!(sample(Rule::All, &shingles).n_shingles, 5);
    }

    proptest! {
        #[test]
        fn adaptive_keeps_every_value_below_its_bound(
            shingles in proptest::collection::vec(0..TOP, 0..400), size in 1usize..100,
        ) {
            let whole = sample(Rule::All, &shingles);
            let sketch = sample(Rule::Adaptive { size }, &shingles);
            prop_assert!(sketch.values.len() <= size);
            let below: Vec<_> = whole.values.iter().copied().filter(|v| u128::from(*v) < sketch.bound).collect();
            prop_assert_eq!(sketch.values, below);
            if sketch.bound < u128::from(TOP) {
                let twice = whole.values.iter().filter(|v| u128::from(**v) < sketch.bound * 2).count();
                prop_assert!(twice > size);
            }
        }
    }
}
