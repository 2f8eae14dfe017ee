//! Text to words: lower case; maximal runs of letters and digits; one word a character in scripts without spaces.
//!
//! This is version 1 of the rule, frozen with the tables of [`unicode`], which are those of Unicode 17.0.0 whatever
//! the compiler knows. Canonically equivalent texts have the same words, and splitting the words again gives the
//! same words.
//!
//! | what | becomes |
//! |---|---|
//! | letter or digit (Alphabetic, or a number of any kind; no mark) | begins or continues a word |
//! | the same in Han, kana, Thai, Lao, Khmer, Burmese (by block; all of planes 2 and 3) | a word of its own |
//! | mark (Mn, Mc, Me) after a letter or digit | continues its word, even of one character; elsewhere dropped |
//! | letter + marks | composed (NFC): e + U+0301 is é, which is not e |
//! | default-ignorable: soft hyphen, joiners, direction and variation selectors, BOM … | dropped; the word
//! continues |
//! | U+200B zero-width space, and everything else | ends a word |
//! | case | lower, character by character, no locale; ς is σ, ẞ is ß; İ is i, ı stays ı |
//! | full-width and half-width forms | the ordinary ones: Ａ is a, ｶﾞ is ガ |
//! | conjoining jamo | the syllable |
//!
//! Composition is NFC with one additional pair: i + U+0307 is i. Thus İ, which is I + U+0307, becomes the i of its
//! lower case. Characters unknown to Unicode 17.0.0 end a word, except in planes 2 and 3.

use super::ascii;
use super::ascii_words::{self, Gathered, SEEN_BYTES, STEP_BYTES, WordBuffer};
use super::unicode::{self, CharClass};
use simdutf8::basic::from_utf8;

/// Appends the words of `text` to `out` and returns their number. A single space precedes each word unless `out` is
/// empty.
pub fn append_words(text: &str, out: &mut String) -> usize {
    let mut words = WordWriter::new(out);
    let mut rest = text;
    while !rest.is_empty() {
        let n_ascii = ascii::prefix(rest.as_bytes());
        words.append_ascii(rest.as_bytes(), n_ascii);
        rest = words.append_mixed(&rest[n_ascii..]);
    }
    words.settle();
    words.n_words
}

/// Returns the byte offset in `text` of each word that [`append_words`] finds.
pub fn word_starts(text: &str) -> Vec<usize> {
    let (mut out, mut starts) = (String::new(), Vec::new());
    let mut words = WordWriter::new(&mut out);
    for (at, c) in text.char_indices() {
        words.push(c);
        starts.resize(words.n_words, at);
    }
    starts
}

/// The state after the last character.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WordState {
    /// No word has begun, or the last one has ended.
    Outside,
    /// A letter continues the word.
    InWord,
    /// The word is one character of a script without spaces; only marks continue it.
    AfterAlone,
    /// `InWord` or `AfterAlone`, with characters waiting in the run.
    InRun,
}

/// Writes words, the last of which may be unfinished.
struct WordWriter<'a> {
    out: &'a mut String,
    n_words: usize,
    state: WordState,
    /// Characters that may combine with each other and the last one of `out`, with their combining classes.
    run: Vec<(u8, char)>,
    run_state: WordState,
    /// A buffer of [`Self::append_ascii_step`].
    gathered: WordBuffer,
}

/// Shorter runs of ASCII are processed character by character.
const ASCII_MIN: usize = 8;

impl<'a> WordWriter<'a> {
    fn new(out: &'a mut String) -> Self {
        let gathered = [b' '; _];
        WordWriter {
            out,
            n_words: 0,
            state: WordState::Outside,
            run: Vec::new(),
            run_state: WordState::Outside,
            gathered,
        }
    }

    /// Appends the words of the ASCII that a text begins with.
    fn append_ascii(&mut self, text: &[u8], n_ascii: usize) {
        for at in (0..n_ascii).step_by(STEP_BYTES) {
            let n_bytes = STEP_BYTES.min(n_ascii - at);
            match text[at..].first_chunk() {
                Some(seen) => self.append_ascii_step(seen, n_bytes),
                None => {
                    let mut seen = [b' '; SEEN_BYTES];
                    seen[..n_bytes].copy_from_slice(&text[at..at + n_bytes]);
                    self.append_ascii_step(&seen, n_bytes);
                }
            }
        }
    }

    fn append_ascii_step(&mut self, seen: &[u8; SEEN_BYTES], n_bytes: usize) {
        self.settle();
        let Gathered { len, n_words, in_word } =
            ascii_words::gather(seen, n_bytes, self.state == WordState::InWord, &mut self.gathered);
        self.n_words += n_words;
        self.state = if in_word { WordState::InWord } else { WordState::Outside };
        let from = usize::from(self.out.is_empty() && len > 0);
        match from_utf8(&self.gathered[from..len]) {
            Ok(words) => self.out.push_str(words),
            Err(error) => unreachable!("ASCII letters and digits are not UTF-8: {error}"),
        }
    }

    /// Appends the words of `text` up to the next ASCII and returns the rest.
    fn append_mixed<'t>(&mut self, text: &'t str) -> &'t str {
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            self.push(c);
            let soon = || chars.as_str().as_bytes().first_chunk::<ASCII_MIN>();
            if c.is_ascii() && soon().is_some_and(|soon| soon.is_ascii()) {
                break;
            }
        }
        chars.as_str()
    }

    #[inline]
    fn push(&mut self, c: char) {
        let (class, folded) = unicode::class_and_fold(c);
        match class {
            CharClass::Letter => self.push_letter(folded),
            CharClass::Alone => {
                self.settle();
                self.begin();
                self.out.push(folded);
                self.state = WordState::AfterAlone;
            }
            CharClass::Separator => {
                self.settle();
                self.state = WordState::Outside;
            }
            CharClass::Mark if self.state != WordState::Outside => {
                self.settle();
                self.out.push(folded);
            }
            CharClass::Combining if self.state != WordState::Outside => self.push_to_run(folded),
            CharClass::Joining => self.push_joining(folded),
            CharClass::Special => self.push_special(c),
            CharClass::Ignored | CharClass::Mark | CharClass::Combining => {}
        }
    }

    fn push_special(&mut self, c: char) {
        if c == 'İ' {
            // The only special character that is frequent in ordinary texts.
            self.push_letter('i');
            self.push_to_run('\u{307}');
        } else {
            unicode::special(c).into_iter().flat_map(str::chars).for_each(|part| self.push(part));
        }
    }

    #[inline]
    fn push_letter(&mut self, letter: char) {
        if self.state != WordState::InWord {
            self.settle();
            if self.state != WordState::InWord {
                self.begin();
                self.state = WordState::InWord;
            }
        }
        self.out.push(letter);
    }

    fn begin(&mut self) {
        self.n_words += 1;
        if !self.out.is_empty() {
            self.out.push(' ');
        }
    }

    fn push_joining(&mut self, letter: char) {
        match (self.state, self.run_state) {
            (WordState::InWord, _) | (WordState::InRun, WordState::InWord) => self.push_to_run(letter),
            _ => self.push_letter(letter),
        }
    }

    fn push_to_run(&mut self, c: char) {
        if self.state != WordState::InRun {
            self.run_state = self.state;
            self.state = WordState::InRun;
        }
        self.run.push((unicode::combining_class(c), c));
    }

    /// Writes the run, if any.
    #[inline]
    fn settle(&mut self) {
        if self.state == WordState::InRun {
            self.state = self.run_state;
            if !self.write_run_of_one() {
                self.write_run();
            }
        }
    }

    /// Writes a run of one character that needs no reordering, because the character before it is not a composite.
    /// That is nearly always the case; otherwise returns false.
    fn write_run_of_one(&mut self) -> bool {
        let (&[(_, c)], Some(starter)) = (&self.run[..], self.out.chars().next_back()) else { return false };
        if unicode::decompose(starter).is_some() {
            return false;
        }
        self.run.clear();
        match unicode::compose(starter, c) {
            Some(composite) => {
                self.out.truncate(self.out.len() - starter.len_utf8());
                self.out.push(composite);
            }
            None => self.out.push(c),
        }
        true
    }

    /// Puts the run and the character before it into canonical order and composes them (The Unicode Standard,
    /// section 3.11). The character before is a starter: all others go into the run.
    #[cold]
    fn write_run(&mut self) {
        let mut starter = self.out.pop();
        while let Some((first, second)) = starter.and_then(unicode::decompose) {
            self.run.insert(0, (unicode::combining_class(second), second));
            starter = Some(first);
        }
        for marks in self.run.split_mut(|(class, _)| *class == 0) {
            marks.sort_by_key(|(class, _)| *class);
        }
        let mut pending = starter;
        let mut kept = String::new();
        let mut last_class = None;
        for (class, c) in self.run.drain(..) {
            let is_blocked = last_class.is_some_and(|last| last >= class);
            let composite = pending.filter(|_| !is_blocked).and_then(|first| unicode::compose(first, c));
            if composite.is_some() {
                pending = composite;
            } else if class == 0 {
                self.out.extend(pending.replace(c));
                self.out.push_str(&kept);
                kept.clear();
                last_class = None;
            } else {
                kept.push(c);
                last_class = Some(class);
            }
        }
        self.out.extend(pending);
        self.out.push_str(&kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use unicode_normalization::UnicodeNormalization;

    fn words(text: &str) -> (String, usize) {
        let mut out = String::new();
        let n = append_words(text, &mut out);
        (out, n)
    }

    fn check(vectors: &[(&str, &str)]) {
        for (text, expected) in vectors {
            let (got, n) = words(text);
            assert_eq!(got, *expected, "{text} gives {}", got.escape_unicode());
            assert_eq!(n, expected.split(' ').filter(|word| !word.is_empty()).count(), "{text}");
        }
    }

    /// There are as many starts as words, in order, and the text at each start begins with that word.
    fn check_starts(text: &str) {
        let (all, n) = words(text);
        let starts = word_starts(text);
        assert_eq!(starts.len(), n, "{text:?}");
        assert!(starts.is_sorted(), "{text:?}");
        for (start, word) in starts.iter().zip(all.split(' ')) {
            let (rest, _) = words(&text[*start..]);
            assert!(rest.starts_with(word), "{text:?} from {start}: {rest:?}");
        }
    }

    #[test]
    fn word_starts_match_the_words() {
        for text in [
            "",
            " ",
            "A rose, is",
            "東京 2024年",
            "e\u{301}a \u{301}b",
            "ﷺ x",
            "한국 \u{1112}\u{1161}\u{11ab} ｶﾞx",
            "½a",
        ] {
            check_starts(text);
        }
    }

    #[test]
    fn alphabets() {
        check(&[
            ("A rose, is a ROSE!", "a rose is a rose"),
            ("snake_case don't 3.14", "snake case don t 3 14"),
            (" \t\n", ""),
            ("Übergröße STRASSE GROẞ ſ ﬁn Æ Ǆ ǅ", "übergröße strasse groß ſ ﬁn æ ǆ ǆ"),
            ("m² ½ Ⅷ Ⓐ 1ª", "m² ½ ⅷ ⓐ 1ª"),
            ("ΟΔΟΣ οδός Ωραία ᾈ µ μ \u{2126}", "οδοσ οδόσ ωραία ᾀ µ μ ω"),
            ("ДОМ ёЁ Їжак Ѐ Ꙁ", "дом ёё їжак ѐ ꙁ"),
            ("İstanbul ISPARTA ısı", "istanbul isparta ısı"),
            ("ᲗᲑᲘᲚᲘᲡᲘ თბილისი Ⴀ", "თბილისი თბილისი ⴀ"),
            ("ᏣᎳᎩ ꮳꮃꭹ Ᏸ", "ꮳꮃꭹ ꮳꮃꭹ ᏸ"),
            ("Հայ 𐐀𐐨 𞤀", "հայ 𐐨𐐨 𞤢"),
            ("K\u{212a} Å\u{212b}", "kk åå"),
        ]);
    }

    #[test]
    fn vowel_signs_stay_in_their_words() {
        check(&[
            ("مرحبا بالعالم", "مرحبا بالعالم"),
            ("مُحَمَّد ١٢٣", "مُحَمَّد ١٢٣"),
            ("שָׁלוֹם עולם", "שָׁלוֹם עולם"),
            ("हिन्दी में, क्षत्रिय।", "हिन्दी में क्षत्रिय"),
            // The composite of ka and nukta is excluded from composition; na and nukta have one.
            ("\u{958} \u{929} \u{928}\u{93c}", "\u{915}\u{93c} \u{929} \u{929}"),
            ("বাংলা தமிழ் മലയാളം", "বাংলা தமிழ் മലയാളം"),
        ]);
    }

    #[test]
    fn scripts_without_spaces() {
        check(&[
            ("東京タワー2024年", "東 京 タ ワ ー 2024 年"),
            ("漢\u{20000}字\u{30000}abc", "漢 \u{20000} 字 \u{30000} abc"),
            ("\u{f900} \u{2f800} \u{8c48}", "\u{8c48} \u{4e3d} \u{8c48}"),
            ("葛\u{e0100}城 〇々〻", "葛 城 〇 々 〻"),
            ("ｶﾞｷﾞ ﾊﾟｰ が か\u{3099} ゝヾ", "ガ ギ パ ー が が ゝ ヾ"),
            ("สวัสดี ที่ ๒๕", "ส วั ส ดี ที่ ๒ ๕"),
            ("ສະບາຍດີ", "ສ ະ ບ າ ຍ ດີ"),
            ("សួស្តី", "សួ ស្ តី"),
            ("မြန်မာ ဥ\u{102e}", "မြ န် မာ ဦ"),
            ("中文abc字1", "中 文 abc 字 1"),
        ]);
    }

    #[test]
    fn hangul() {
        check(&[
            ("한국어 문장", "한국어 문장"),
            ("\u{1112}\u{1161}\u{11ab}\u{1100}\u{116e}\u{11a8} 하\u{11ab}", "한국 한"),
            ("\u{1161}\u{11a8} \u{1112}\u{200b}\u{1161}", "\u{1161}\u{11a8} \u{1112} \u{1161}"),
            ("漢\u{1161}", "漢 \u{1161}"),
            ("ﾡﾢ ㄱ \u{3164}한\u{3164}", "ㄱㄲ ㄱ 한"),
        ]);
    }

    #[test]
    fn marks() {
        check(&[
            ("cafe\u{301} café CAFE\u{301} cafe", "café café café cafe"),
            ("\u{301}a \u{301} b", "a b"),
            // In canonical order the dot below comes first and composes first.
            ("a\u{301}\u{323} á\u{323} ạ\u{301} a\u{323}\u{301}", "ạ\u{301} ạ\u{301} ạ\u{301} ạ\u{301}"),
            ("e\u{302}\u{301} ê\u{301} ế Ế", "ế ế ế ế"),
            ("I\u{307} İ\u{323} I\u{307}\u{323} i\u{307}\u{301}", "i ị\u{307} ị\u{307} í"),
            ("ά \u{1f71} \u{3b1}\u{301}", "ά ά ά"),
            ("и\u{306} й Й", "й й й"),
            ("q\u{344}x\u{308}\u{301}", "q\u{308}\u{301}\u{1e8d}\u{301}"),
            ("- \u{301}\u{338}x", "x"),
        ]);
    }

    #[test]
    fn what_is_invisible() {
        check(&[
            ("co\u{ad}operate wo\u{2060}rd \u{feff}bom a\u{fe0f}b", "cooperate word bom ab"),
            ("می\u{200c}خواهم ක්\u{200d}ෂ", "میخواهم ක්ෂ"),
            ("ze\u{200b}ro n\u{a0}b ide\u{3000}o", "ze ro n b ide o"),
            ("e\u{34f}\u{301}\u{200e} a\u{200f}b", "é ab"),
            ("🌹 rose 🌹 👩\u{200d}🔬x 👍🏽 🇩🇪 1\u{fe0f}\u{20e3}", "rose x 1\u{20e3}"),
            ("Ａｂｃ１２３！ｄ", "abc123 d"),
            ("bro\u{fffd}ken \u{e000} \u{10ffff}", "bro ken"),
        ]);
    }

    #[test]
    fn words_are_appended() {
        let mut out = String::from("one");
        assert_eq!(append_words("Two, three", &mut out), 2);
        assert_eq!(append_words("\u{301}", &mut out), 0);
        assert_eq!(append_words(&"A ".repeat(40), &mut out), 40);
        assert_eq!(out, format!("one two three{}", " a".repeat(40)));
    }

    /// Every character, next to characters that combine with many others.
    #[test]
    fn every_character_alone_and_combined() {
        for c in char::MIN..=char::MAX {
            for text in [format!("{c}"), format!("a{c}\u{301}\u{323}b"), format!("\u{1100}{c}\u{1161}")] {
                let (once, n) = words(&text);
                assert_eq!(words(&once), (once.clone(), n), "{}", text.escape_unicode());
                let decomposed: String = text.nfd().collect();
                assert_eq!(words(&decomposed), (once, n), "{}", text.escape_unicode());
            }
        }
    }

    /// Text of all planes, with many marks, jamo and characters that combine with them.
    fn any_text() -> impl Strategy<Value = String> {
        let c = prop_oneof![
            any::<char>(),
            proptest::char::range('\0', '\u{17f}'),
            proptest::char::range('\u{300}', '\u{345}'),
            proptest::char::range('\u{900}', '\u{dff}'),
            proptest::char::range('\u{e00}', '\u{11ff}'),
            proptest::char::range('\u{1e00}', '\u{206f}'),
            proptest::char::range('\u{3040}', '\u{30ff}'),
            proptest::char::range('\u{fb00}', '\u{ffff}'),
            proptest::char::range('\u{11000}', '\u{16fff}'),
            proptest::sample::select(vec![' ', 'i', 'I', 'İ', '\u{307}', '\u{323}', '\u{34f}', 'か', '\u{3099}', '가']),
        ];
        proptest::collection::vec(c, 0..60).prop_map(String::from_iter)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn the_canonical_form_is_its_own(text in any_text()) {
            let (once, n) = words(&text);
            prop_assert_eq!(words(&once), (once.clone(), n));
            prop_assert_eq!(once.split(' ').filter(|word| !word.is_empty()).count(), n);
        }

        #[test]
        fn canonically_equivalent_texts_have_the_same_words(text in any_text()) {
            let expected = words(&text);
            prop_assert_eq!(words(&text.nfd().collect::<String>()), expected.clone());
            prop_assert_eq!(words(&text.nfc().collect::<String>()), expected);
        }

        #[test]
        fn the_ascii_path_agrees_with_the_general_one(
            text in proptest::string::string_regex(
                "([ -~]{0,700}|[a-zA-Z0-9]{55,75}|[é\u{301}漢]|[a-z]{7,9}é|( [A-Z]{1,20}){20}){0,6}",
            ).expect("a pattern"),
        ) {
            let mut slow = String::new();
            let mut by_char = WordWriter::new(&mut slow);
            text.chars().for_each(|c| by_char.push(c));
            by_char.settle();
            let n = by_char.n_words;
            prop_assert_eq!(words(&text), (slow, n));
        }
    }
}
