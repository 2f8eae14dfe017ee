//! The Porter stemmer: English words without their endings, so that "links" and "linked" are one term.
//!
//! It is the algorithm of M. F. Porter, "An algorithm for suffix stripping", Program 14 (3), 1980, as published, with one
//! of the departures of the author's own later program: words of one or two letters stay as they are. His other two,
//! "bli" → "ble" and "logi" → "log", are left out. The stems are frozen: stored bags hold them.

/// A rule of a step: the ending that it replaces, and by what.
type Rule = (&'static str, &'static str);

/// Step 2, where the stem has a measure above 0. Of two endings that both fit, the longer one stands first, here and below.
const STEP_2: &[Rule] = &[
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("abli", "able"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
];

/// Step 3, where the stem has a measure above 0.
const STEP_3: &[Rule] =
    &[("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", ""), ("ness", "")];

/// The endings that step 4 drops where the stem has a measure above 1. "ion" also needs an s or t before it.
const STEP_4: &[&str] = &[
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism", "ate", "iti",
    "ous", "ive", "ize",
];

/// Words of at most this many letters stay as they are.
const LEN_UNCHANGED_MAX: usize = 2;

/// The stem of a lower-case word, written to `buffer`, whose old content goes. Words with anything but the letters a to z
/// come back unchanged.
pub fn stem<'b>(word: &str, buffer: &'b mut String) -> &'b str {
    buffer.clear();
    buffer.push_str(word);
    if word.len() > LEN_UNCHANGED_MAX && word.bytes().all(|b| b.is_ascii_lowercase()) {
        drop_plural(buffer);
        drop_past_and_progressive(buffer);
        if buffer.strip_suffix('y').is_some_and(has_vowel) {
            replace_end(buffer, 1, "i");
        }
        apply(STEP_2, buffer);
        apply(STEP_3, buffer);
        drop_suffix(buffer);
        drop_last_e(buffer);
        if buffer.ends_with("ll") && measure(buffer) > 1 {
            buffer.pop();
        }
    }
    buffer
}

/// Step 1a: "sses" → "ss", "ies" → "i", "s" → "".
fn drop_plural(word: &mut String) {
    if word.ends_with("sses") || word.ends_with("ies") {
        replace_end(word, 2, "");
    } else if word.ends_with('s') && !word.ends_with("ss") {
        word.pop();
    }
}

/// Step 1b: "eed" → "ee", "ed" and "ing" → "".
fn drop_past_and_progressive(word: &mut String) {
    if let Some(stem) = word.strip_suffix("eed") {
        if measure(stem) > 0 {
            word.pop();
        }
    } else if let Some(stem) = ["ed", "ing"].iter().find_map(|ending| word.strip_suffix(ending))
        && has_vowel(stem)
    {
        word.truncate(stem.len());
        tidy(word);
    }
}

/// The second half of step 1b: makes a word of what an "ed" or "ing" has left behind.
fn tidy(word: &mut String) {
    if ["at", "bl", "iz"].iter().any(|ending| word.ends_with(ending)) {
        word.push('e');
    } else if ends_with_double_consonant(word) {
        if !word.ends_with(['l', 's', 'z']) {
            word.pop();
        }
    } else if measure(word) == 1 && ends_with_short_syllable(word) {
        word.push('e');
    }
}

/// Applies the one rule whose ending the word has, where the stem has a measure above 0.
fn apply(rules: &[Rule], word: &mut String) {
    let rule = rules.iter().find_map(|(ending, by)| Some((word.strip_suffix(ending)?, ending, by)));
    if let Some((stem, ending, by)) = rule
        && measure(stem) > 0
    {
        replace_end(word, ending.len(), by);
    }
}

/// Step 4.
fn drop_suffix(word: &mut String) {
    let found = STEP_4.iter().find_map(|ending| Some((word.strip_suffix(ending)?, *ending)));
    if let Some((stem, ending)) = found
        && measure(stem) > 1
        && (ending != "ion" || stem.ends_with(['s', 't']))
    {
        word.truncate(stem.len());
    }
}

/// Step 5a.
fn drop_last_e(word: &mut String) {
    if let Some(stem) = word.strip_suffix('e') {
        let measure = measure(stem);
        if measure > 1 || measure == 1 && !ends_with_short_syllable(stem) {
            word.pop();
        }
    }
}

/// Replaces the last `len` letters.
fn replace_end(word: &mut String, len: usize, by: &str) {
    word.truncate(word.len() - len);
    word.push_str(by);
}

/// Whether each letter is a vowel: a, e, i, o, u, and a y after a consonant.
fn vowels(word: &str) -> impl Iterator<Item = bool> {
    let mut follows_consonant = false;
    word.bytes().map(move |letter| {
        let is_vowel = match letter {
            b'a' | b'e' | b'i' | b'o' | b'u' => true,
            b'y' => follows_consonant,
            _ => false,
        };
        follows_consonant = !is_vowel;
        is_vowel
    })
}

/// The m of the paper, some number of syllables: how many times a consonant follows a vowel.
fn measure(word: &str) -> usize {
    let mut follows_vowel = false;
    vowels(word).filter(|is_vowel| std::mem::replace(&mut follows_vowel, *is_vowel) && !is_vowel).count()
}

/// The paper's *v*.
fn has_vowel(word: &str) -> bool {
    vowels(word).any(|is_vowel| is_vowel)
}

/// The paper's *d.
fn ends_with_double_consonant(word: &str) -> bool {
    let twice = matches!(word.as_bytes(), [.., a, b] if a == b);
    twice && vowels(word).last() == Some(false)
}

/// The paper's *o: consonant, vowel, consonant, and the last one is not w, x or y.
fn ends_with_short_syllable(word: &str) -> bool {
    let mut last = [true; 3];
    for is_vowel in vowels(word) {
        last = [last[1], last[2], is_vowel];
    }
    last == [false, true, false] && !word.ends_with(['w', 'x', 'y'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(words: &[(&str, &str)]) {
        let mut buffer = "left over".to_string();
        for (word, expected) in words {
            assert_eq!(stem(word, &mut buffer), *expected, "{word}");
        }
    }

    /// Applies one step alone, as the tables of the paper do.
    #[track_caller]
    fn check_step(step: impl Fn(&mut String), words: &[(&str, &str)]) {
        for (word, expected) in words {
            let mut found = (*word).to_string();
            step(&mut found);
            assert_eq!(found, *expected, "{word}");
        }
    }

    #[test]
    fn measures_of_the_paper() {
        for (expected, words) in [
            (0, &["tr", "ee", "tree", "y", "by"][..]),
            (1, &["trouble", "oats", "trees", "ivy"]),
            (2, &["troubles", "private", "oaten", "orrery"]),
        ] {
            for word in words {
                assert_eq!(measure(word), expected, "{word}");
            }
        }
    }

    #[test]
    fn step_1_of_the_paper() {
        check_step(drop_plural, &[("caresses", "caress"), ("ponies", "poni"), ("ties", "ti"), ("caress", "caress")]);
        check_step(drop_plural, &[("cats", "cat")]);
        check_step(
            drop_past_and_progressive,
            &[
                ("feed", "feed"),
                ("agreed", "agree"),
                ("plastered", "plaster"),
                ("bled", "bled"),
                ("motoring", "motor"),
                ("sing", "sing"),
                ("conflated", "conflate"),
                ("troubled", "trouble"),
                ("sized", "size"),
                ("hopping", "hop"),
                ("tanned", "tan"),
                ("falling", "fall"),
                ("hissing", "hiss"),
                ("fizzed", "fizz"),
                ("failing", "fail"),
                ("filing", "file"),
            ],
        );
        check(&[("happy", "happi"), ("sky", "sky")]);
    }

    #[test]
    fn steps_2_and_3_of_the_paper() {
        check_step(
            |word| apply(STEP_2, word),
            &[
                ("relational", "relate"),
                ("conditional", "condition"),
                ("rational", "rational"),
                ("valenci", "valence"),
                ("hesitanci", "hesitance"),
                ("digitizer", "digitize"),
                ("conformabli", "conformable"),
                ("radicalli", "radical"),
                ("differentli", "different"),
                ("vileli", "vile"),
                ("analogousli", "analogous"),
                ("vietnamization", "vietnamize"),
                ("predication", "predicate"),
                ("operator", "operate"),
                ("feudalism", "feudal"),
                ("decisiveness", "decisive"),
                ("hopefulness", "hopeful"),
                ("callousness", "callous"),
                ("formaliti", "formal"),
                ("sensitiviti", "sensitive"),
                ("sensibiliti", "sensible"),
            ],
        );
        check_step(
            |word| apply(STEP_3, word),
            &[
                ("triplicate", "triplic"),
                ("formative", "form"),
                ("formalize", "formal"),
                ("electriciti", "electric"),
                ("electrical", "electric"),
                ("hopeful", "hope"),
                ("goodness", "good"),
            ],
        );
    }

    #[test]
    fn steps_4_and_5_of_the_paper() {
        check_step(
            drop_suffix,
            &[
                ("revival", "reviv"),
                ("allowance", "allow"),
                ("inference", "infer"),
                ("airliner", "airlin"),
                ("gyroscopic", "gyroscop"),
                ("adjustable", "adjust"),
                ("defensible", "defens"),
                ("irritant", "irrit"),
                ("replacement", "replac"),
                ("adjustment", "adjust"),
                ("dependent", "depend"),
                ("adoption", "adopt"),
                ("homologou", "homolog"),
                ("communism", "commun"),
                ("activate", "activ"),
                ("angulariti", "angular"),
                ("homologous", "homolog"),
                ("effective", "effect"),
                ("bowdlerize", "bowdler"),
            ],
        );
        check_step(drop_last_e, &[("probate", "probat"), ("rate", "rate"), ("cease", "ceas")]);
        check(&[("controlling", "control"), ("rolling", "roll")]);
    }

    #[test]
    fn words_through_all_steps() {
        check(&[
            ("generalizations", "gener"),
            ("oscillators", "oscil"),
            ("possibly", "possibli"),
            ("geology", "geologi"),
        ]);
    }

    #[test]
    fn short_and_foreign_words_are_unchanged() {
        for word in ["", "s", "is", "js", "Cats", "cafés", "x86s", "naïves", "rock's"] {
            check(&[(word, word)]);
        }
    }

    /// A golden list: common words with the stems that two independent programs agree on.
    #[test]
    fn stems_are_frozen() {
        let lines = include_str!("../../tests/golden/porter.txt").lines();
        let pairs: Vec<(&str, &str)> = lines.map(|line| line.split_once(' ').expect("two words")).collect();
        assert!(pairs.len() >= 400, "{}", pairs.len());
        check(&pairs);
    }

    proptest::proptest! {
        #[test]
        fn any_text_has_a_stem(word in "[a-z]{0,12}|\\PC{0,8}") {
            let mut buffer = String::new();
            let stem = stem(&word, &mut buffer);
            proptest::prop_assert!(stem.len() <= word.len());
        }
    }
}
