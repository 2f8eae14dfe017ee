//! What changed between two texts, in the order of the newer one: what went is struck out, what came is underlined.

use super::html::Html;
use crate::document::word_starts;
use crate::query::{Piece, differences};

/// Changes that links lead to.
const LINKS_MAX: usize = 60;

/// Words that stand open at either end of a long passage that two texts share, and the fewest that are folded away.
const OPEN_WORDS: usize = 20;
const FOLDED_WORDS_MIN: usize = 40;

/// Shows both texts as one, from the older to the newer. What stayed the same is folded away but for the words around changes.
pub(super) fn what_changed(html: &mut Html, names: [String; 2], [old, new]: [&str; 2]) {
    let pieces = differences(old, new);
    let changed: Vec<&Piece> = pieces.iter().filter(|piece| !piece.is_same).collect();
    let n_words = |side: usize| changed.iter().map(|piece| piece.n_words[side] as u64).sum::<u64>();
    html.raw("<p class=\"state\">");
    if changed.is_empty() {
        html.raw("No word changed.</p>");
    } else {
        html.count(changed.len() as u64, "place", "places").raw(": <del>").count(n_words(0), "word", "words");
        html.raw(" went</del>, <ins>").count(n_words(1), "word", "words").raw(" came</ins>.</p>");
    }
    html.raw("<p class=\"note\">From ").text(&names[0]).raw(" to ").text(&names[1]);
    html.raw(". Case, marks and blanks do not count.</p>");
    if changed.len() > 1 {
        html.raw("<nav class=\"places\" aria-label=\"Places that changed\">");
        for number in 1..=changed.len().min(LINKS_MAX) {
            html.raw("<a href=\"#change-").text(number).raw("\">").text(number).raw("</a> ");
        }
        if changed.len() > LINKS_MAX {
            html.raw("<span class=\"note\">and ").text(changed.len() - LINKS_MAX).raw(" more</span>");
        }
        html.raw("</nav>");
    }
    html.raw("<div class=\"texts\"><div class=\"text\" tabindex=\"0\" role=\"region\" aria-label=\"Both texts\">");
    let mut number = 0;
    for piece in &pieces {
        if piece.is_same {
            folded(html, &new[piece.new.clone()]);
            continue;
        }
        number += 1;
        // The end of a text has no blank that would part it from what the other one has more.
        let is_parted = new[..piece.new.start].chars().next_back().is_none_or(char::is_whitespace);
        html.raw(if is_parted { "" } else { " " }).raw("<span class=\"change\" id=\"change-").text(number).raw("\">");
        for (name, text) in [("del", &old[piece.old.clone()]), ("ins", &new[piece.new.clone()])] {
            let words = text.trim_end();
            if !words.is_empty() {
                html.raw("<").raw(name).raw(">").text(words).raw("</").raw(name).raw(">");
                html.text(if words.len() < text.len() { &text[words.len()..] } else { " " });
            }
        }
        html.raw("</span>");
    }
    html.raw("</div></div>");
}

/// A passage; only its ends stand open where it is long.
pub(super) fn folded(html: &mut Html, passage: &str) {
    let starts = word_starts(passage);
    let n_folded = starts.len().saturating_sub(2 * OPEN_WORDS);
    if n_folded < FOLDED_WORDS_MIN {
        html.text(passage);
        return;
    }
    let (from, to) = (starts[OPEN_WORDS], starts[starts.len() - OPEN_WORDS]);
    html.text(&passage[..from]).raw("<details><summary>").count(n_folded as u64, "word", "words");
    html.raw(" the same</summary>").text(&passage[from..to]).raw("</details>").text(&passage[to..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lost once: the end of the older text stuck to the last word that both have.
    #[test]
    fn what_one_text_has_more_is_parted_from_the_last_word_of_both() {
        for (old, new, shown) in [
            (
                "one two three four five",
                "one two three",
                "three <span class=\"change\" id=\"change-1\"><del>four five</del> </span>",
            ),
            (
                "one two three",
                "one two three four",
                "three <span class=\"change\" id=\"change-1\"><ins>four</ins> </span>",
            ),
        ] {
            let mut html = Html::default();
            what_changed(&mut html, ["a".into(), "b".into()], [old, new]);
            let html = html.into_string();
            assert!(html.contains(shown), "{html}");
        }
    }

    #[test]
    fn only_the_middle_of_a_long_passage_is_folded() {
        let words = |n: usize| (0..n).map(|n| format!("w{n}")).collect::<Vec<_>>().join(" ");
        let shown = |text: &str| {
            let mut html = Html::default();
            folded(&mut html, text);
            html.into_string()
        };
        let short = words(2 * OPEN_WORDS + FOLDED_WORDS_MIN - 1);
        assert_eq!(shown(&short), short);
        let long = words(2 * OPEN_WORDS + FOLDED_WORDS_MIN);
        let html = shown(&long);
        let (before, rest) = html.split_once("<details><summary>").expect("folded");
        let (_, rest) = rest.split_once("</summary>").expect("a summary");
        let (middle, after) = rest.split_once("</details>").expect("an end");
        assert_eq!([before, middle, after].concat(), long, "no word is lost");
        assert_eq!(middle.split_whitespace().count(), FOLDED_WORDS_MIN);
    }
}
