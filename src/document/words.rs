//! Text to words: lower case; maximal runs of letters and digits; one word a character in scripts without spaces.

/// Appends the words of `text` to `out`, each after a single space unless `out` is empty, and returns how many.
///
/// Case is mapped character by character and without locale; a mapped character that is neither letter nor digit is
/// dropped, so that applying the rule twice changes nothing.
pub fn append_words(text: &str, out: &mut String) -> usize {
    let mut n_words = 0;
    let mut in_word = false;
    let mut begin = |out: &mut String| {
        n_words += 1;
        if !out.is_empty() {
            out.push(' ');
        }
    };
    for c in text.chars() {
        if c.is_ascii() {
            if c.is_ascii_alphanumeric() {
                if !in_word {
                    begin(out);
                }
                out.push(c.to_ascii_lowercase());
                in_word = true;
            } else {
                in_word = false;
            }
        } else if !c.is_alphanumeric() {
            in_word = false;
        } else if is_spaceless(c) {
            begin(out);
            out.push(c);
            in_word = false;
        } else {
            if !in_word {
                begin(out);
            }
            out.extend(c.to_lowercase().filter(|lower| lower.is_alphanumeric()));
            in_word = true;
        }
    }
    n_words
}

/// Whether the script is written without spaces between words, so that every character is a word: Han, kana, Thai,
/// Lao, Khmer, Burmese.
fn is_spaceless(c: char) -> bool {
    matches!(c,
        '\u{3005}'..='\u{3007}' | '\u{3021}'..='\u{3029}' | '\u{3038}'..='\u{303c}'
        | '\u{3041}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{ff66}'..='\u{ff9f}'
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{1aff0}'..='\u{1b16f}' | '\u{20000}'..='\u{3ffff}'
        | '\u{0e00}'..='\u{0eff}'
        | '\u{1000}'..='\u{109f}' | '\u{a9e0}'..='\u{a9ff}' | '\u{aa60}'..='\u{aa7f}'
        | '\u{1780}'..='\u{17ff}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(text: &str) -> (String, usize) {
        let mut out = String::new();
        let n = append_words(text, &mut out);
        (out, n)
    }

    #[test]
    fn words_of_many_scripts() {
        for (text, expected) in [
            ("A rose, is a ROSE!", "a rose is a rose"),
            ("snake_case don't 3.14", "snake case don t 3 14"),
            ("ΟΔΟΣ Ωραία", "οδοσ ωραία"),
            ("Übergröße ДОМ", "übergröße дом"),
            ("İstanbul", "istanbul"),
            ("東京タワー2024年", "東 京 タ ワ ー 2024 年"),
            ("한국어 문장", "한국어 문장"),
            ("مرحبا بالعالم", "مرحبا بالعالم"),
            ("🌹 rose 🌹", "rose"),
            (" \t\n", ""),
        ] {
            let (got, n) = words(text);
            assert_eq!(got, expected);
            assert_eq!(n, expected.split(' ').filter(|w| !w.is_empty()).count());
        }
    }

    proptest! {
        #[test]
        fn the_canonical_form_is_its_own(text in "\\PC*") {
            let (once, n) = words(&text);
            prop_assert_eq!(words(&once), (once.clone(), n));
        }
    }
}
