//! From counted words to bags: which terms count, and how much.

use super::bag::{Bag, Term};
use super::porter;
use super::rule::{BagKind, RelatedRule, Stemmer, Weight};
use crate::document::Seed;
use rustc_hash::FxHashMap;
use std::cmp::Ordering;

/// Terms with their frequencies in what is known about one URL.
pub type TermCounts = FxHashMap<Term, u32>;

/// Turns words into terms.
#[derive(Clone, Debug)]
pub struct TermReader {
    stemmer: Stemmer,
    keys: [u64; 2],
    stem: String,
}

impl TermReader {
    /// Creates a reader for a rule's stemmer and a store's secret.
    pub fn new(stemmer: Stemmer, seed: &Seed) -> Self {
        let keys = [0, 1].map(|n| seed.derive("related-term", n) | 1);
        TermReader { stemmer, keys, stem: String::new() }
    }

    /// The term of a word.
    pub fn term(&mut self, word: &str) -> Term {
        match self.stemmer {
            Stemmer::None => Term(hash(word, self.keys)),
            Stemmer::Porter => Term(hash(porter::stem(word, &mut self.stem), self.keys)),
        }
    }

    /// Counts the terms of words.
    pub fn count<'w>(&mut self, words: impl Iterator<Item = &'w str>, counts: &mut TermCounts) {
        self.count_new(words, counts, |_, _| {});
    }

    /// Counts the terms of words, and gives each term that was not counted yet with its word.
    pub fn count_new<'w>(
        &mut self,
        words: impl Iterator<Item = &'w str>,
        counts: &mut TermCounts,
        mut new: impl FnMut(Term, &'w str),
    ) {
        for word in words.filter(|word| !word.is_empty()) {
            let term = self.term(word);
            let n = counts.entry(term).or_default();
            if *n == 0 {
                new(term, word);
            }
            *n += 1;
        }
    }
}

/// 32 bits of a keyed hash: eight bytes at a time, folded products. One cannot make words of one term without the keys.
fn hash(word: &str, [key, odd]: [u64; 2]) -> u32 {
    let fold = |state: u64| {
        let product = u128::from(state) * u128::from(odd);
        (product as u64) ^ (product >> 64) as u64
    };
    let (chunks, rest) = word.as_bytes().as_chunks::<8>();
    let mut state = chunks.iter().fold(key, |state, chunk| fold(state ^ u64::from_le_bytes(*chunk)));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    state = fold(state ^ u64::from_le_bytes(last));
    (fold(state ^ word.len() as u64) >> 32) as u32
}

/// How many bags hold each term: N and df of section 2. Before a store's first build nothing is known, and terms are
/// weighed by their frequency alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frequencies {
    /// N: the bags that are not empty.
    pub n_bags: u64,
    /// df: the bags with a term.
    pub n_with: FxHashMap<Term, u32>,
}

impl Frequencies {
    /// Counts a bag with these terms.
    pub fn add(&mut self, counts: &TermCounts) {
        self.n_bags += u64::from(!counts.is_empty());
        for term in counts.keys() {
            *self.n_with.entry(*term).or_default() += 1;
        }
    }

    /// The weight of one occurrence of a term; `None` where the rule leaves the term out.
    pub fn weight(&self, term: Term, rule: &RelatedRule) -> Option<f64> {
        weight(self.n_bags, self.n_with.get(&term).copied().unwrap_or(0), rule)
    }
}

/// The weight of one occurrence of a term that `n_with` of `n_bags` bags hold; `None` where the rule leaves it out.
pub fn weight(n_bags: u64, n_with: u32, rule: &RelatedRule) -> Option<f64> {
    if n_bags == 0 {
        return Some(1.0);
    }
    let is_kept = n_with >= rule.low_df && f64::from(n_with) <= rule.high_df * n_bags as f64;
    let weight = match rule.weight {
        Weight::None => 1.0,
        Weight::Idf => (n_bags as f64 / f64::from(n_with.max(1))).ln(),
    };
    (is_kept && weight > 0.0).then_some(weight)
}

/// What is known about a URL, with the frequencies that weigh it.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a, F> {
    /// The counted terms.
    pub counts: &'a TermCounts,
    /// Term → weight of one occurrence, if it counts.
    pub weight: F,
}

/// Makes the bag of a URL from its content and from what links say about it.
///
/// Each source is scaled to its share of the rule's mass. Then weights become whole numbers of the same sum: the parts
/// behind the point that are largest are rounded up, the smallest term first among equals.
pub fn bag<F, G>(content: Source<'_, F>, anchors: Source<'_, G>, rule: &RelatedRule) -> Bag
where
    F: Fn(Term) -> Option<f64>,
    G: Fn(Term) -> Option<f64>,
{
    let content = if rule.bags == BagKind::Anchors { Vec::new() } else { weighed(content) };
    let anchors = if rule.bags == BagKind::Content { Vec::new() } else { weighed(anchors) };
    let mut mixed: FxHashMap<Term, f64> = FxHashMap::default();
    for part in [content, anchors] {
        // In the order of the terms: sums of floating-point numbers depend on it.
        let sum: f64 = part.iter().map(|(_, weight)| weight).sum();
        for (term, weight) in part {
            *mixed.entry(term).or_default() += weight / sum;
        }
    }
    let mut mixed: Vec<(Term, f64)> = mixed.into_iter().collect();
    mixed.sort_unstable_by_key(|(term, _)| *term);
    whole(&mixed, rule.mass)
}

/// The terms that count, in their order.
fn weighed<F: Fn(Term) -> Option<f64>>(source: Source<'_, F>) -> Vec<(Term, f64)> {
    let weigh = |(term, n): (&Term, &u32)| Some((*term, f64::from(*n) * (source.weight)(*term)?));
    let mut weights: Vec<(Term, f64)> = source.counts.iter().filter_map(weigh).collect();
    weights.sort_unstable_by_key(|(term, _)| *term);
    weights
}

/// Scales weights to whole numbers that sum to `mass`, by largest remainders.
fn whole(weights: &[(Term, f64)], mass: u8) -> Bag {
    let sum: f64 = weights.iter().map(|(_, weight)| weight).sum();
    let scaled = weights.iter().map(|(term, weight)| (*term, weight * f64::from(mass) / sum));
    let mut parts: Vec<(Term, u8, f64)> =
        scaled.map(|(term, weight)| (term, weight as u8, weight - weight.floor())).collect();
    let floor: u32 = parts.iter().map(|(_, weight, _)| u32::from(*weight)).sum();
    let n_up = u32::from(mass).saturating_sub(floor) as usize;
    let larger = |a: &(Term, u8, f64), b: &(Term, u8, f64)| -> Ordering { b.2.total_cmp(&a.2).then(a.0.cmp(&b.0)) };
    parts.sort_unstable_by(larger);
    let up = |(at, (term, weight, _)): (usize, (Term, u8, f64))| (term, weight + u8::from(at < n_up));
    Bag::new(parts.into_iter().enumerate().map(up).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(words: &str) -> TermCounts {
        let mut counts = TermCounts::default();
        reader().count(words.split(' '), &mut counts);
        counts
    }

    fn reader() -> TermReader {
        TermReader::new(Stemmer::None, &Seed([1, 2, 3, 4]))
    }

    fn weights_of(bag: &Bag, words: &[&str]) -> Vec<u8> {
        words.iter().map(|word| bag.weight(reader().term(word))).collect()
    }

    fn of(content: &str, anchors: &str, rule: &RelatedRule, frequencies: &Frequencies) -> Bag {
        let weight = |term| frequencies.weight(term, rule);
        bag(Source { counts: &counts(content), weight }, Source { counts: &counts(anchors), weight }, rule)
    }

    #[test]
    fn half_of_the_mass_comes_from_each_source() {
        let (rule, none) = (RelatedRule::default(), Frequencies::default());
        let words = ["rose", "bush", "red"];
        assert_eq!(weights_of(&of("rose rose bush rose", "rose red", &rule, &none), &words), [63, 12, 25]);
        assert_eq!(weights_of(&of("rose rose bush rose", "", &rule, &none), &words), [75, 25, 0]);
        assert_eq!(weights_of(&of("", "rose red", &rule, &none), &words), [50, 0, 50]);
        let content = RelatedRule { bags: BagKind::Content, ..rule.clone() };
        assert_eq!(weights_of(&of("rose bush", "red", &content, &none), &words), [50, 50, 0]);
        let anchors = RelatedRule { bags: BagKind::Anchors, ..rule };
        assert_eq!(weights_of(&of("rose bush", "red", &anchors, &none), &words), [0, 0, 100]);
    }

    /// The smallest term is rounded up, whatever the order in which words came: 100 is 34 + 33 + 33.
    #[test]
    fn of_equal_parts_behind_the_point_that_of_the_smallest_term_is_rounded_up() {
        let thirds = |order: [u32; 3]| {
            let counts: TermCounts = order.into_iter().map(|term| (Term(term), 1)).collect();
            let weight = |_| Some(1.0);
            let none = TermCounts::default();
            bag(Source { counts: &none, weight }, Source { counts: &counts, weight }, &RelatedRule::default())
        };
        for order in [[3, 5, 9], [9, 5, 3], [5, 9, 3]] {
            assert_eq!(thirds(order).weights(), [(Term(3), 34), (Term(5), 33), (Term(9), 33)]);
        }
    }

    #[test]
    fn rare_and_frequent_terms_are_left_out_and_others_weighed() {
        let mut frequencies = Frequencies::default();
        for n in 0..100 {
            let often = if n < 11 { "often" } else { "" };
            let some = if n < 10 { "some" } else { "" };
            let few = if n < 2 { "few" } else { "" };
            let one = if n == 0 { "one" } else { "" };
            frequencies.add(&counts(&format!("{often} {some} {few} {one} x")));
        }
        let rule = RelatedRule::default();
        let bag = of("often some some few one", "", &rule, &frequencies);
        // 2 ln 10 = 4.605 against ln 50 = 3.912.
        assert_eq!(weights_of(&bag, &["often", "some", "few", "one"]), [0, 54, 46, 0]);
        let flat = RelatedRule { weight: Weight::None, ..rule };
        assert_eq!(weights_of(&of("some few few few", "", &flat, &frequencies), &["some", "few"]), [25, 75]);
    }

    #[test]
    fn porter_joins_the_forms_of_a_word() {
        let mut reader = TermReader::new(Stemmer::Porter, &Seed([1, 2, 3, 4]));
        assert_eq!(reader.term("connections"), reader.term("connected"));
        assert_ne!(reader.term("connections"), reader.term("relations"));
    }

    proptest! {
        #[test]
        fn weights_sum_to_the_mass(words in "([a-h]{1,2} ){0,60}", more in "([a-h]{1,2} ){0,60}", mass in 1u8..=255) {
            let rule = RelatedRule { mass, ..RelatedRule::default() };
            let bag = of(&words, &more, &rule, &Frequencies::default());
            let sum = if words.is_empty() && more.is_empty() { 0 } else { u32::from(mass) };
            prop_assert_eq!(bag.mass(), sum);
        }

        #[test]
        fn terms_are_those_of_their_words(word in "[a-zé]{0,30}", other in "[a-zé]{0,30}") {
            let mut reader = reader();
            prop_assert_eq!(reader.term(&word) == reader.term(&other), word == other);
        }
    }
}
