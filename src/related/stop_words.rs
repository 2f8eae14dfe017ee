//! Stop words: what stands on any page and says nothing about it.

use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

/// A list of English stop words, lower case and unstemmed. Contractions stand in it without what follows the
/// apostrophe, as words are cut there: "isn" and "ll".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopWords {
    /// 176 function words, and words of navigation such as "click", "home" and "copyright".
    #[default]
    Short,
    /// 762 words, as many as the paper has (Haveliwala, Gionis and Indyk 2000, section 2.1): some 300 function words,
    /// and the rest chosen from the most frequent words of web pages. The paper does not print its list.
    Paper,
}

impl StopWords {
    /// Whether a lower-case word is on the list.
    pub fn contains(self, word: &str) -> bool {
        match self {
            StopWords::Short => SHORT.contains(word),
            StopWords::Paper => PAPER.contains(word),
        }
    }
}

static SHORT: LazyLock<FxHashSet<&str>> = LazyLock::new(|| SHORT_LINES.lines().collect());
static PAPER: LazyLock<FxHashSet<&str>> = LazyLock::new(|| PAPER_LINES.lines().collect());

const SHORT_LINES: &str = include_str!("stop_words_short.txt");
const PAPER_LINES: &str = include_str!("stop_words.txt");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted_and_distinct() {
        for (lines, n) in [(SHORT_LINES, 176), (PAPER_LINES, 762)] {
            let words: Vec<&str> = lines.lines().collect();
            assert_eq!(words.len(), n);
            assert!(words.is_sorted_by(|a, b| a < b));
            assert!(words.iter().all(|word| !word.is_empty() && word.bytes().all(|b| b.is_ascii_lowercase())));
        }
    }

    #[test]
    fn the_short_list_is_part_of_the_long_one() {
        assert_eq!(SHORT_LINES.lines().find(|word| !StopWords::Paper.contains(word)), None);
    }

    #[test]
    fn navigation_stops_and_topics_do_not() {
        for (word, is_short, is_paper) in [
            ("the", true, true),
            ("click", true, true),
            ("copyright", true, true),
            ("monday", false, true),
            ("webmaster", false, true),
            ("database", false, false),
            ("The", false, false),
            ("", false, false),
        ] {
            assert_eq!(
                (StopWords::Short.contains(word), StopWords::Paper.contains(word)),
                (is_short, is_paper),
                "{word}"
            );
        }
    }
}
