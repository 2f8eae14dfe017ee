//! Sketch rules: which shingles a store keeps of a document, and which of them index it.

use super::confirmation;
use super::shingle::Multiplicity;
use serde::{Deserialize, Serialize};

/// How documents are sketched. A store keeps the rule it was created with.
///
/// The serde names are part of the store's format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SketchRule {
    /// Words in a shingle.
    #[serde(rename = "w")]
    pub w: usize,
    /// Bits of a fingerprint, 32 to 64.
    #[serde(rename = "bits")]
    pub bits: u32,
    /// How repeated shingles count.
    #[serde(rename = "multiplicity")]
    pub multiplicity: Multiplicity,
    /// Which shingles a sketch keeps.
    #[serde(flatten)]
    pub rule: Rule,
    /// How many of the smallest kept shingles index a document; 0 means all, as in the paper.
    #[serde(rename = "index_size")]
    pub index_size: usize,
    /// If not 0, all shingles that are 0 modulo this also index the document. They find a document inside a much
    /// larger one, with which it shares none of the smallest shingles. 0 is not written.
    #[serde(rename = "index_modulus", default, skip_serializing_if = "is_off")]
    pub index_modulus: u64,
    /// Whether large documents have a [`Confirmation`](confirmation::Confirmation), which must agree before a link
    /// is made. False is not written.
    #[serde(rename = "confirmation", default, skip_serializing_if = "std::ops::Not::not")]
    pub confirmation: bool,
    /// Sketch values in a super shingle.
    #[serde(rename = "super_shingle_length")]
    pub super_shingle_length: usize,
    /// The most super shingles of a document; 0 turns them off.
    #[serde(rename = "super_shingles")]
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
#[serde(tag = "rule")]
pub enum Rule {
    /// MOD_m: shingles that are 0 modulo m, one in m of any document.
    #[serde(rename = "mod")]
    Mod {
        /// m
        #[serde(rename = "modulus")]
        modulus: u64,
    },
    /// MIN_s: the s smallest shingles.
    #[serde(rename = "min")]
    Min {
        /// s
        #[serde(rename = "size")]
        size: usize,
    },
    /// The s smallest of the shingles that are 0 modulo m.
    #[serde(rename = "min-of-mod")]
    MinOfMod {
        /// s
        #[serde(rename = "size")]
        size: usize,
        /// m
        #[serde(rename = "modulus")]
        modulus: u64,
    },
    /// V_i: shingles below 2^(bits - i), with the smallest i that leaves at most `size`: between half of `size` and
    /// all of it. The paper takes shingles that are 0 modulo 2^i. Under a random permutation that is an equivalent
    /// sample, and this one is a prefix of the sorted shingles.
    #[serde(rename = "adaptive")]
    Adaptive {
        /// The most shingles that are kept.
        #[serde(rename = "size")]
        size: usize,
    },
    /// 16 bits of every shingle up to `size` shingles; above, a parity bitmap with as many bits as the error
    /// demands.
    ///
    /// The default is 384 and 16. On generated sites thousands of pairs of a few hundred shingles lie near the
    /// threshold, and only whole sketches tell them apart. Above 384, a smaller error costs bytes and gains hardly
    /// any accuracy (`bench-data/accuracy.rs`).
    #[serde(rename = "parity")]
    Parity {
        /// Documents of at most this many shingles are kept whole.
        #[serde(rename = "size")]
        size: usize,
        /// The standard error of a resemblance of one half between larger documents, in thousandths.
        #[serde(rename = "error_per_mille")]
        error_per_mille: u32,
    },
    /// Every shingle: exact answers.
    #[serde(rename = "all")]
    All,
}

impl SketchRule {
    /// Whether a document of `n_shingles` has a confirmation. A rule that keeps every shingle has nothing to
    /// confirm.
    pub(super) fn is_confirmed(&self, n_shingles: usize) -> bool {
        self.confirmation && n_shingles > confirmation::SHINGLES_MIN && self.rule != Rule::All
    }

    /// How many shingles index a document, at most.
    pub fn n_index(&self) -> usize {
        if self.index_size == 0 { usize::MAX } else { self.index_size }
    }

    /// How many of a document's smallest shingles are candidates for indexing it: more than index it, because
    /// common ones do not.
    pub fn index_candidates(&self) -> usize {
        self.n_index().saturating_mul(4)
    }

    /// Returns what is wrong with the rule, if anything.
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
