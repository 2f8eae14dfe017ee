//! Stop words: what stands on any page and says nothing about it.

use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};
use std::ops::Range;
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
        ShortWord::new(word.as_bytes()).is_some_and(|word| self.contains_short(word))
    }

    /// [`Self::contains`] for a word of at most 16 bytes. No stop word is longer.
    pub fn contains_short(self, word: ShortWord) -> bool {
        match self {
            StopWords::Short => SHORT.contains(&word),
            StopWords::Paper => PAPER.contains(&word),
        }
    }
}

/// The bytes of a short word, followed by zeros. It is compared and hashed as one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ShortWord(u128);

impl ShortWord {
    /// The longest words.
    pub const BYTES_MAX: usize = 16;

    /// A word; `None` where it is too long.
    pub fn new(word: &[u8]) -> Option<Self> {
        let mut bytes = [0; Self::BYTES_MAX];
        bytes.get_mut(..word.len())?.copy_from_slice(word);
        Some(ShortWord(u128::from_le_bytes(bytes)))
    }

    /// The word of ASCII letters at a place of a text, in lower case; `None` where it is too long.
    pub fn lower(text: &[u8], place: Range<usize>) -> Option<Self> {
        let n_over = Self::BYTES_MAX.checked_sub(place.len())?;
        // A fixed number of bytes is read in one step.
        let Some(bytes) = text.get(place.start..).and_then(<[u8]>::first_chunk) else {
            return ShortWord::new(&text.get(place)?.to_ascii_lowercase());
        };
        let within = u128::MAX.checked_shr(8 * n_over as u32).unwrap_or(0);
        Some(ShortWord((u128::from_le_bytes(*bytes) | LOWER) & within))
    }

    /// Its bytes, and the zeros behind them.
    pub fn bytes(self) -> [u8; Self::BYTES_MAX] {
        self.0.to_le_bytes()
    }
}

/// The bit in which a lower-case letter of ASCII differs from its capital, in every byte.
const LOWER: u128 = u128::from_le_bytes([0x20; 16]);

static SHORT: LazyLock<FxHashSet<ShortWord>> = LazyLock::new(|| words(SHORT_LINES));
static PAPER: LazyLock<FxHashSet<ShortWord>> = LazyLock::new(|| words(PAPER_LINES));

fn words(lines: &str) -> FxHashSet<ShortWord> {
    lines.lines().filter_map(|word| ShortWord::new(word.as_bytes())).collect()
}

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
            assert_eq!(super::words(lines).len(), n);
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
