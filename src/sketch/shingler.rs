//! The shingler: from words to the fingerprints of all windows of w words, under a secret permutation.

use super::gf2::Polynomial;
use super::rabin::Rabin;
use super::rule::SketchRule;
use super::shingle::{Multiplicity, Shingle};
use crate::document::Seed;

/// Turns word sequences into shingle fingerprints.
#[derive(Clone)]
pub struct Shingler {
    rabin: Rabin,
    permutation: Permutation,
    multiplicity: Multiplicity,
    bits: u32,
    tokens: Vec<u64>,
}

impl Shingler {
    /// Creates a shingler for a rule's w, bits and multiplicity, under a store's secret.
    pub fn new(rule: &SketchRule, seed: &Seed) -> Self {
        Shingler {
            rabin: Rabin::new(Polynomial::from_seed(seed), rule.w),
            permutation: Permutation::new(seed),
            multiplicity: rule.multiplicity,
            bits: rule.bits,
            tokens: Vec::new(),
        }
    }

    /// Appends the shingle fingerprints of words joined by single spaces to `out`, in the order of the text. Under
    /// [`Multiplicity::Set`] repetitions remain; sampling drops them.
    pub fn shingle_words(&mut self, words: &str, out: &mut Vec<Shingle>) {
        self.tokens.clear();
        self.rabin.tokens(words, &mut self.tokens);
        let finish = |fingerprint| self.permutation.permute(fingerprint) >> (64 - self.bits);
        match self.multiplicity {
            Multiplicity::Set => self.rabin.windows(&self.tokens, finish, out),
            Multiplicity::Labelled => {
                let before = out.len();
                self.rabin.windows(&self.tokens, |fingerprint| fingerprint, out);
                label_occurrences(&mut out[before..]);
                out[before..].iter_mut().for_each(|fingerprint| *fingerprint = finish(*fingerprint));
            }
        }
    }

    /// Appends a fingerprint for each feature of a page that has features instead of a body.
    pub fn shingle_features<'a>(&self, features: impl Iterator<Item = &'a str>, out: &mut Vec<Shingle>) {
        let shift = 64 - self.bits;
        out.extend(features.map(|feature| self.permutation.permute(self.rabin.token(feature.as_bytes())) >> shift));
    }
}

/// Makes the n-th occurrence of a fingerprint differ from the others. The order is lost.
fn label_occurrences(fingerprints: &mut [u64]) {
    fingerprints.sort_unstable();
    let mut previous = None;
    let mut occurrence = 0u64;
    for fingerprint in fingerprints {
        occurrence = if previous == Some(*fingerprint) { occurrence + 1 } else { 0 };
        previous = Some(*fingerprint);
        // 2^64 divided by the golden ratio: it spreads the occurrences over the whole range.
        *fingerprint ^= occurrence.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// A secret bijection of 64-bit numbers that behaves like a random permutation, as Broder 1997, section 4, demands.
#[derive(Clone)]
struct Permutation {
    key: u64,
    odd: [u64; 3],
}

impl Permutation {
    fn new(seed: &Seed) -> Self {
        Permutation { key: seed.derive("permutation", 0), odd: [1, 2, 3].map(|n| seed.derive("permutation", n) | 1) }
    }

    #[inline]
    fn permute(&self, number: u64) -> u64 {
        self.odd.iter().fold(number ^ self.key, |mixed, odd| {
            let mixed = (mixed ^ mixed >> 32).wrapping_mul(*odd);
            mixed ^ mixed >> 29
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sketch::{Rule, compare};
    use std::collections::BTreeSet;

    fn rule(w: usize, multiplicity: Multiplicity) -> SketchRule {
        SketchRule { w, multiplicity, rule: Rule::All, ..SketchRule::default() }
    }

    fn shingles(text: &str, w: usize, multiplicity: Multiplicity) -> Vec<Shingle> {
        let mut out = Vec::new();
        Shingler::new(&rule(w, multiplicity), &Seed([5, 6, 7, 8])).shingle_words(text, &mut out);
        out
    }

    /// Broder 1997, section 3: the 4-shingling of (a,rose,is,a,rose,is,a,rose) is {(a,rose,is,a), (rose,is,a,rose),
    /// (is,a,rose,is)}.
    #[test]
    fn a_rose_is_a_rose_is_a_rose() {
        let all = shingles("a rose is a rose is a rose", 4, Multiplicity::Set);
        let one = |text| shingles(text, 4, Multiplicity::Set)[0];
        let expected = [one("a rose is a"), one("rose is a rose"), one("is a rose is")];
        assert_eq!(all.len(), 5);
        assert_eq!(BTreeSet::from_iter(all), BTreeSet::from(expected));
    }

    /// Broder, "On the resemblance and containment of documents", section 2: A = "a rose is a rose is a rose", B =
    /// "a rose is a flower which is a rose". Option A: 70, 50, 30 % for sizes 1, 2, 3; option B: 60, 50, 42.85 %.
    #[test]
    fn a_rose_is_a_flower_which_is_a_rose() {
        for (multiplicity, expected) in
            [(Multiplicity::Labelled, [0.70, 0.50, 0.30]), (Multiplicity::Set, [0.60, 0.50, 0.4285])]
        {
            for (w, expected) in (1..).zip(expected) {
                let sketch = |text| rule(w, multiplicity).sketch(&mut shingles(text, w, multiplicity));
                let a = sketch("a rose is a rose is a rose");
                let b = sketch("a rose is a flower which is a rose");
                let r = compare(&a, &b, Rule::All).resemblance;
                assert!((r - expected).abs() < 1e-4, "{multiplicity:?} w = {w}: {r}");
            }
        }
    }

    #[test]
    fn too_few_words_give_no_shingle() {
        assert!(shingles("one two three", 4, Multiplicity::Set).is_empty());
    }

    #[test]
    fn golden_vectors() {
        let found = shingles("a rose is a rose", 4, Multiplicity::Set);
        assert_eq!(found, [442_280_766_028, 986_827_873_709]);
        let long = "resemblance of documents, internationalisation: Веб-страница";
        assert_eq!(
            shingles(long, 2, Multiplicity::Set),
            [842_254_355_667, 532_015_880_322, 282_872_619_683, 896_885_101_255]
        );
    }
}
