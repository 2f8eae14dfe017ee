//! The passages that two texts share, word for word.

use crate::document::{CanonicalForm, word_starts};
use serde::Serialize;
use std::collections::HashMap;
use std::ops::Range;

/// What two texts A and B share, in runs of at least w words.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SharedPassages {
    /// |S(A)|: the distinct shingles of A.
    pub n_shingles_of_a: usize,
    /// |S(B)|
    pub n_shingles_of_b: usize,
    /// |S(A) ∩ S(B)|
    pub n_shingles_shared: usize,
    /// The shared passages of A, in order.
    pub passages_of_a: Vec<Passage>,
    /// The shared passages of B, in order.
    pub passages_of_b: Vec<Passage>,
}

/// A run of words of one text, all of it covered by shingles of the other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Passage {
    /// Its place, in bytes of the text.
    pub range: Range<usize>,
    /// Words in it.
    pub n_words: usize,
    /// The number of the other text's passage that holds its first shingle.
    pub counterpart: usize,
}

impl SharedPassages {
    /// r(A, B), exactly; 0 where neither has a shingle.
    pub fn resemblance(&self) -> f64 {
        ratio(self.n_shingles_shared, self.n_shingles_of_a + self.n_shingles_of_b - self.n_shingles_shared)
    }

    /// How much of A is in B, exactly.
    pub fn containment_of_a_in_b(&self) -> f64 {
        ratio(self.n_shingles_shared, self.n_shingles_of_a)
    }

    /// How much of B is in A, exactly.
    pub fn containment_of_b_in_a(&self) -> f64 {
        ratio(self.n_shingles_shared, self.n_shingles_of_b)
    }
}

fn ratio(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Finds what two plain texts share, by their shingles of `w` words. Words are compared, not fingerprints.
pub fn shared_passages(a: &str, b: &str, w: usize) -> SharedPassages {
    let mut numbers = HashMap::new();
    let (a, b) = (Words::new(a, &mut numbers), Words::new(b, &mut numbers));
    let (places_in_a, places_in_b) = (a.first_places(w), b.first_places(w));
    let (runs_of_a, runs_of_b) = (a.shared_runs(w, &places_in_b), b.shared_runs(w, &places_in_a));
    SharedPassages {
        n_shingles_of_a: places_in_a.len(),
        n_shingles_of_b: places_in_b.len(),
        n_shingles_shared: places_in_a.keys().filter(|shingle| places_in_b.contains_key(*shingle)).count(),
        passages_of_a: passages(&a, w, &runs_of_a, &runs_of_b, &places_in_b),
        passages_of_b: passages(&b, w, &runs_of_b, &runs_of_a, &places_in_a),
    }
}

/// The first position of each shingle, in words.
type FirstPositions<'t> = HashMap<&'t [u32], usize>;

/// A text's words, as numbers that are equal for equal words.
pub(super) struct Words<'t> {
    text: &'t str,
    starts: Vec<usize>,
    pub numbers: Vec<u32>,
}

impl<'t> Words<'t> {
    pub fn new(text: &'t str, known: &mut HashMap<String, u32>) -> Self {
        let form = CanonicalForm::from_text(text);
        let number = |word: &str| {
            let next = known.len() as u32;
            *known.entry(word.to_string()).or_insert(next)
        };
        Words { text, starts: word_starts(text), numbers: form.words().map(number).collect() }
    }

    fn first_places(&self, w: usize) -> FirstPositions<'_> {
        let mut places = HashMap::new();
        for (place, shingle) in self.numbers.windows(w).enumerate() {
            places.entry(shingle).or_insert(place);
        }
        places
    }

    /// The longest runs of words that shingles of the other text cover.
    fn shared_runs(&self, w: usize, others: &FirstPositions<'_>) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        for (place, shingle) in self.numbers.windows(w).enumerate() {
            if others.contains_key(shingle) {
                match runs.last_mut() {
                    Some(run) if place <= run.end => run.end = place + w,
                    _ => runs.push(place..place + w),
                }
            }
        }
        runs
    }

    /// The bytes from the first letter of some words to that of the next word. What stands before the first word of the text
    /// belongs to that word.
    pub fn stretch(&self, words: &Range<usize>) -> Range<usize> {
        let at = |word: usize| match word {
            0 if words.end > 0 => 0,
            word => self.starts.get(word).copied().unwrap_or(self.text.len()),
        };
        at(words.start)..at(words.end)
    }

    /// The bytes of a run, from the first letter of its first word to the last letter of its last.
    fn bytes(&self, words: &Range<usize>) -> Range<usize> {
        let start = self.starts[words.start];
        let end = self.starts.get(words.end).copied().unwrap_or(self.text.len());
        let passage = &self.text[start..end];
        start..start + passage.trim_end_matches(|c: char| !c.is_alphanumeric()).len()
    }
}

fn passages(
    words: &Words<'_>,
    w: usize,
    runs: &[Range<usize>],
    runs_of_other: &[Range<usize>],
    places_in_other: &FirstPositions<'_>,
) -> Vec<Passage> {
    let passage = |run: &Range<usize>| {
        let place = places_in_other.get(&words.numbers[run.start..run.start + w]).copied().unwrap_or(0);
        let counterpart = runs_of_other.partition_point(|run| run.end <= place);
        Passage { range: words.bytes(run), n_words: run.len(), counterpart }
    };
    runs.iter().map(passage).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn texts<'t>(text: &'t str, passages: &[Passage]) -> Vec<&'t str> {
        passages.iter().map(|passage| &text[passage.range.clone()]).collect()
    }

    #[test]
    fn what_is_shared_is_found_in_both() {
        let a = "First words of A. The QUICK brown fox jumps! Then other things; at last a rose is a rose.";
        let b = "“A rose is a rose”, it says. «the quick, brown fox jumps over»";
        let shared = shared_passages(a, b, 3);
        assert_eq!(texts(a, &shared.passages_of_a), ["The QUICK brown fox jumps", "a rose is a rose"]);
        assert_eq!(texts(b, &shared.passages_of_b), ["A rose is a rose", "the quick, brown fox jumps"]);
        let counterparts =
            |passages: &[Passage]| passages.iter().map(|passage| passage.counterpart).collect::<Vec<_>>();
        assert_eq!(counterparts(&shared.passages_of_a), [1, 0]);
        assert_eq!(counterparts(&shared.passages_of_b), [1, 0]);
        assert_eq!(shared.passages_of_a[0].n_words, 5);
    }

    #[test]
    fn scripts_without_spaces_are_marked_by_the_character() {
        let (a, b) = ("今日は東京に行きます。", "明日も東京に行きます");
        let shared = shared_passages(a, b, 4);
        assert_eq!(texts(a, &shared.passages_of_a), ["東京に行きます"]);
        assert_eq!(texts(b, &shared.passages_of_b), ["東京に行きます"]);
    }

    #[test]
    fn short_and_empty_texts_share_nothing() {
        for (a, b) in [("", ""), ("a b", "a b"), ("a b c", "")] {
            let shared = shared_passages(a, b, 3);
            assert_eq!((shared.passages_of_a, shared.passages_of_b.len()), (vec![], 0), "{a} {b}");
        }
        assert_eq!(shared_passages("", "", 3).resemblance(), 0.0);
    }

    proptest! {
        /// The definition, word by word: a word is in a passage if a shingle over it stands in the other text.
        #[test]
        fn passages_are_the_definition(
            a in prop::collection::vec(0u8..4, 0..30),
            b in prop::collection::vec(0u8..4, 0..30),
            w in 1usize..5,
        ) {
            let text = |words: &[u8]| words.iter().map(|word| format!("w{word}")).collect::<Vec<_>>().join(", ");
            let shared = shared_passages(&text(&a), &text(&b), w);
            for (words, others, passages, n_others) in [
                (&a, &b, &shared.passages_of_a, shared.passages_of_b.len()),
                (&b, &a, &shared.passages_of_b, shared.passages_of_a.len()),
            ] {
                let is_shared = |at: usize| {
                    words.get(at..at + w).is_some_and(|shingle| others.windows(w).any(|other| other == shingle))
                };
                let covered: Vec<bool> =
                    (0..words.len()).map(|at| (0..w).any(|back| at >= back && is_shared(at - back))).collect();
                // Every word takes two bytes, and two more where another one follows.
                let mut marked = vec![false; words.len()];
                for passage in passages {
                    prop_assert_eq!(passage.range.start % 4, 0);
                    let first = passage.range.start / 4;
                    prop_assert_eq!(passage.range.len(), 4 * passage.n_words - 2);
                    marked[first..first + passage.n_words].fill(true);
                    prop_assert!(passage.counterpart < n_others);
                }
                prop_assert_eq!(marked, covered);
            }
            let set = |words: &[u8]| words.windows(w).map(<[u8]>::to_vec).collect::<HashSet<_>>();
            let (a, b) = (set(&a), set(&b));
            prop_assert_eq!(shared.n_shingles_shared, a.intersection(&b).count());
            prop_assert_eq!((shared.n_shingles_of_a, shared.n_shingles_of_b), (a.len(), b.len()));
        }
    }
}
