//! What changed between two versions of a text: the words that went and came, in the order of the text.
//!
//! Runs of three words that stand once in both texts anchor them to each other (patience diff, after Cohen). Between two anchors the
//! least number of changes is found (Myers 1986), up to a limit; beyond it, everything there counts as changed.

use super::passages::Words;
use std::collections::HashMap;
use std::ops::Range;

/// Words of an anchor.
const ANCHOR_WORDS: usize = 3;

/// Changed words between two anchors up to which the least number of changes is looked for.
const CHANGES_MAX: usize = 400;

/// Equal words between two changes that stand alone: fewer are shown as changed, too.
const EQUAL_WORDS_MIN: usize = 3;

/// A piece of two texts: the same words in both, or other words. All pieces together are both texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its place in the old text, in bytes.
    pub old: Range<usize>,
    /// Its place in the new text, in bytes.
    pub new: Range<usize>,
    /// Words of it in the old text and in the new one.
    pub n_words: [usize; 2],
    /// Whether the words are the same. Case, punctuation and blanks may differ.
    pub is_same: bool,
}

/// Equal words of two texts: the first in each, and how many.
type Run = (usize, usize, usize);

/// The pieces of two texts, by their words as of the canonical form.
pub fn differences(old: &str, new: &str) -> Vec<Piece> {
    let mut numbers = HashMap::new();
    let (old, new) = (Words::new(old, &mut numbers), Words::new(new, &mut numbers));
    let mut runs = equal_runs(&old.numbers, &new.numbers);
    drop_short_runs(&mut runs, old.numbers.len(), new.numbers.len());
    let mut pieces = Vec::new();
    let mut done = [0, 0];
    for (in_old, in_new, n) in runs.into_iter().chain([(old.numbers.len(), new.numbers.len(), 0)]) {
        for (to, is_same) in [([in_old, in_new], false), ([in_old + n, in_new + n], true)] {
            if done != to {
                let n_words = [to[0] - done[0], to[1] - done[1]];
                let (old, new) = (old.stretch(&(done[0]..to[0])), new.stretch(&(done[1]..to[1])));
                pieces.push(Piece { old, new, n_words, is_same });
            }
            done = to;
        }
    }
    pieces
}

/// Drops runs that are too short to stand alone, but for those at the ends of both texts.
fn drop_short_runs(runs: &mut Vec<Run>, n_old: usize, n_new: usize) {
    runs.retain(|(in_old, in_new, n)| {
        let is_end = (*in_old == 0 && *in_new == 0) || (in_old + n == n_old && in_new + n == n_new);
        *n >= EQUAL_WORDS_MIN || is_end
    });
}

/// Equal runs in the order of both texts. Neighbours that touch in both are one run.
fn equal_runs(old: &[u32], new: &[u32]) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut ranges = vec![(0..old.len(), 0..new.len())];
    // The last range is the earliest one, so that runs come in their order.
    while let Some((in_old, in_new)) = ranges.pop() {
        let (a, b) = (&old[in_old.clone()], &new[in_new.clone()]);
        let n_begin = a.iter().zip(b).take_while(|(a, b)| a == b).count();
        push_run(&mut runs, (in_old.start, in_new.start, n_begin));
        let (a, b) = (&a[n_begin..], &b[n_begin..]);
        if a.is_empty() || b.is_empty() {
            continue;
        }
        let at = (in_old.start + n_begin, in_new.start + n_begin);
        let anchors = anchors(a, b);
        if anchors.is_empty() {
            shortest_script(a, b).into_iter().for_each(|(x, y, n)| push_run(&mut runs, (at.0 + x, at.1 + y, n)));
            continue;
        }
        let mut from = (0, 0);
        let mut between = Vec::new();
        for anchor in anchors.into_iter().chain([(a.len(), b.len())]) {
            between.push((at.0 + from.0..at.0 + anchor.0, at.1 + from.1..at.1 + anchor.1));
            from = anchor;
        }
        ranges.extend(between.into_iter().rev());
    }
    runs
}

fn push_run(runs: &mut Vec<Run>, (in_old, in_new, n): Run) {
    match runs.last_mut() {
        _ if n == 0 => {}
        Some((x, y, length)) if (*x + *length, *y + *length) == (in_old, in_new) => *length += n,
        _ => runs.push((in_old, in_new, n)),
    }
}

/// The places of runs of words that stand once in both, as many as come in one order in both texts.
fn anchors(a: &[u32], b: &[u32]) -> Vec<(usize, usize)> {
    let mut places: HashMap<&[u32], [Vec<usize>; 2]> = HashMap::new();
    for (side, words) in [a, b].into_iter().enumerate() {
        for (place, run) in words.windows(ANCHOR_WORDS).enumerate() {
            let known = &mut places.entry(run).or_default()[side];
            // Two places are as bad as any more.
            if known.len() < 2 {
                known.push(place);
            }
        }
    }
    let mut pairs: Vec<(usize, usize)> = places
        .into_values()
        .filter_map(|[in_a, in_b]| match (in_a.as_slice(), in_b.as_slice()) {
            ([in_a], [in_b]) => Some((*in_a, *in_b)),
            _ => None,
        })
        .collect();
    pairs.sort_unstable();
    longest_ascending(&pairs)
}

/// The longest subsequence of pairs, sorted by their first, whose second ascend.
fn longest_ascending(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // The pair that ends the best subsequence of each length, and the pair before each.
    let (mut ends, mut before): (Vec<usize>, Vec<Option<usize>>) = (Vec::new(), Vec::new());
    for (at, (_, place)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|end| pairs[*end].1 < *place);
        before.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        if length == ends.len() {
            ends.push(at);
        } else {
            ends[length] = at;
        }
    }
    let mut last = ends.last().copied();
    let mut chosen = Vec::with_capacity(ends.len());
    while let Some(at) = last {
        chosen.push(pairs[at]);
        last = before[at];
    }
    chosen.reverse();
    chosen
}

/// The equal runs of a shortest script of changes; none where it has more than [`CHANGES_MAX`] of them.
fn shortest_script(a: &[u32], b: &[u32]) -> Vec<Run> {
    let (n, m) = (a.len() as isize, b.len() as isize);
    let limit = (a.len() + b.len()).min(CHANGES_MAX) as isize;
    let middle = limit + 1;
    // The furthest place in `a` on each diagonal, after so many changes.
    let mut furthest = vec![0isize; 2 * middle as usize + 1];
    let mut steps: Vec<Vec<isize>> = Vec::new();
    for n_changes in 0..=limit {
        steps.push(furthest.clone());
        for diagonal in (-n_changes..=n_changes).step_by(2) {
            let mut x = best_start(&furthest, middle, diagonal, n_changes);
            while x < n && x - diagonal < m && a[x as usize] == b[(x - diagonal) as usize] {
                x += 1;
            }
            furthest[(middle + diagonal) as usize] = x;
            if x >= n && x - diagonal >= m {
                return traced(&steps, middle, n, m);
            }
        }
    }
    Vec::new()
}

/// The last place of a diagonal's neighbour from which one more change leads to the diagonal itself: a word that came, from
/// the diagonal above, or one that went, from the diagonal below.
fn place_before(furthest: &[isize], middle: isize, diagonal: isize, n_changes: isize) -> (isize, isize) {
    let at = |diagonal: isize| furthest[(middle + diagonal) as usize];
    let came = diagonal == -n_changes || (diagonal != n_changes && at(diagonal - 1) < at(diagonal + 1));
    let neighbour = if came { diagonal + 1 } else { diagonal - 1 };
    (at(neighbour), neighbour)
}

/// Where a diagonal begins after so many changes. Places outside the texts never become starts that matter, because their
/// diagonals end there.
fn best_start(furthest: &[isize], middle: isize, diagonal: isize, n_changes: isize) -> isize {
    if n_changes == 0 {
        return 0;
    }
    let (place, neighbour) = place_before(furthest, middle, diagonal, n_changes);
    // A word that went is passed in the old text.
    place + isize::from(neighbour < diagonal)
}

/// Walks back from the end and collects the equal runs.
fn traced(steps: &[Vec<isize>], middle: isize, n: isize, m: isize) -> Vec<Run> {
    let (mut runs, mut x, mut y) = (Vec::new(), n, m);
    for (n_changes, furthest) in steps.iter().enumerate().rev() {
        let (n_changes, diagonal) = (n_changes as isize, x - y);
        let begin = best_start(furthest, middle, diagonal, n_changes);
        if x > begin {
            runs.push((begin as usize, (begin - diagonal) as usize, (x - begin) as usize));
        }
        if n_changes > 0 {
            let (place, neighbour) = place_before(furthest, middle, diagonal, n_changes);
            (x, y) = (place, place - neighbour);
        }
    }
    runs.reverse();
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The pieces, with the words that went in brackets and those that came in braces.
    fn shown(old: &str, new: &str) -> String {
        let mut text = String::new();
        for piece in differences(old, new) {
            if piece.is_same {
                text += &new[piece.new];
            } else {
                text += &format!("[{}]{{{}}}", &old[piece.old], &new[piece.new]);
            }
        }
        text
    }

    #[test]
    fn changes_stand_in_the_order_of_the_text() {
        for (old, new, expected) in [
            ("one two three four", "One two, three four", "One two, three four"),
            ("a b c d e f g h", "a b c x e f g h", "a b c [d ]{x }e f g h"),
            ("a b c d e f g", "a b c d e f g, h", "a b c d e f g, []{h}"),
            ("", "a b", "[]{a b}"),
            ("a b", "", "[a b]{}"),
            ("", "", ""),
            ("p q r s t u v", "s t u v p q r", "[p q r ]{}s t u v []{p q r}"),
            // A word between two changes does not stand alone.
            ("a b c 1 the 2 d e f", "a b c 3 the 4 d e f", "a b c [1 the 2 ]{3 the 4 }d e f"),
        ] {
            assert_eq!(shown(old, new).replace(['\n'], " "), expected, "{old:?} to {new:?}");
        }
    }

    #[test]
    fn large_texts_with_nothing_in_common_take_little_time() {
        let words = |from: usize| (from..from + 100_000).map(|n| format!("w{} ", n % 5_000 + from)).collect::<String>();
        let pieces = differences(&words(0), &words(1_000_000));
        assert_eq!(pieces.len(), 1);
        let pieces = differences(&words(0), &words(1));
        assert!(pieces.iter().any(|piece| piece.is_same));
    }

    proptest! {
        /// Both texts can be put together from the pieces, and equal pieces have equal words.
        #[test]
        fn the_pieces_are_both_texts(a in "[abcd]([ ,.][abcd]){0,40}[.]?", b in "([abcd][ ,.]){0,40}") {
            let pieces = differences(&a, &b);
            for (text, of) in [(&a, (|piece| &piece.old) as fn(&Piece) -> &Range<usize>), (&b, |piece| &piece.new)] {
                let joined: String = pieces.iter().map(|piece| &text[of(piece).clone()]).collect();
                prop_assert_eq!(&joined, text);
            }
            for piece in pieces {
                let words = |text: &str| crate::document::CanonicalForm::from_text(text);
                let (old, new) = (words(&a[piece.old.clone()]), words(&b[piece.new.clone()]));
                prop_assert_eq!([old.n_words(), new.n_words()], piece.n_words);
                if piece.is_same {
                    prop_assert_eq!(old, new);
                }
            }
        }

        /// Short texts get a shortest script, before short runs are dropped.
        #[test]
        fn the_script_is_a_shortest_one(a in prop::collection::vec(0u32..3, 0..12), b in prop::collection::vec(0u32..3, 0..12)) {
            let mut common = vec![vec![0usize; b.len() + 1]; a.len() + 1];
            for (i, x) in a.iter().enumerate() {
                for (j, y) in b.iter().enumerate() {
                    common[i + 1][j + 1] = if x == y { common[i][j] + 1 } else { common[i][j + 1].max(common[i + 1][j]) };
                }
            }
            let runs = shortest_script(&a, &b);
            prop_assert!(runs.iter().all(|(x, y, n)| a[*x..x + n] == b[*y..y + n]));
            prop_assert_eq!(runs.iter().map(|(_, _, n)| n).sum::<usize>(), common[a.len()][b.len()]);
        }
    }
}
