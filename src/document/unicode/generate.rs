//! Generates the frozen tables from the standard library and two crates of Unicode 17, and checks that they still
//! agree.

use super::class::CharClass;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::{canonical_combining_class, compose, decompose_compatible};
use unicode_properties::{GeneralCategoryGroup, UnicodeGeneralCategory};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/document/unicode/tables.rs");

/// Mappings with fewer characters than this are listed by character.
const KIND_CHARS_MIN: usize = 8;

/// The blocks of scripts in which every letter or digit is a word.
const SPACELESS: [std::ops::RangeInclusive<char>; 18] = [
    '\u{e00}'..='\u{e7f}',     // Thai
    '\u{e80}'..='\u{eff}',     // Lao
    '\u{1000}'..='\u{109f}',   // Myanmar
    '\u{a9e0}'..='\u{a9ff}',   // Myanmar Extended-B
    '\u{aa60}'..='\u{aa7f}',   // Myanmar Extended-A
    '\u{116d0}'..='\u{116ff}', // Myanmar Extended-C
    '\u{1780}'..='\u{17ff}',   // Khmer
    '\u{3005}'..='\u{3007}',   // Han iteration mark, closing mark, zero
    '\u{3021}'..='\u{3029}',   // Hangzhou numerals
    '\u{3031}'..='\u{3035}',   // vertical kana repeat marks
    '\u{3038}'..='\u{303c}',   // Hangzhou numerals, vertical iteration mark, masu mark
    '\u{3041}'..='\u{30ff}',   // Hiragana, Katakana
    '\u{31f0}'..='\u{31ff}',   // Katakana Phonetic Extensions
    '\u{3400}'..='\u{4dbf}',   // CJK Extension A
    '\u{4e00}'..='\u{9fff}',   // CJK Unified Ideographs
    '\u{f900}'..='\u{faff}',   // CJK Compatibility Ideographs
    '\u{16fe0}'..='\u{16fff}', // Ideographic Symbols
    '\u{1aff0}'..='\u{1b16f}', // Kana Extended and Supplement
];

/// Default_Ignorable_Code_Point below U+20000, including reserved characters, without the zero-width space.
const IGNORED: [std::ops::RangeInclusive<u32>; 16] = [
    0xad..=0xad,
    0x34f..=0x34f,
    0x61c..=0x61c,
    0x115f..=0x1160,
    0x17b4..=0x17b5,
    0x180b..=0x180f,
    0x200c..=0x200f,
    0x202a..=0x202e,
    0x2060..=0x206f,
    0x3164..=0x3164,
    0xfe00..=0xfe0f,
    0xfeff..=0xfeff,
    0xffa0..=0xffa0,
    0xfff0..=0xfff8,
    0x1bca0..=0x1bca3,
    0x1d173..=0x1d17a,
];

fn is_ignored(c: char) -> bool {
    IGNORED.iter().any(|range| range.contains(&(c as u32)))
}

fn is_mark(c: char) -> bool {
    c.general_category_group() == GeneralCategoryGroup::Mark
}

/// The ordinary form of a full-width or half-width character.
fn widthless(c: char) -> char {
    let jamo = |first: u32, ordinary: u32| char::from_u32(c as u32 - first + ordinary).expect("a jamo");
    match c {
        '\u{ffa1}'..='\u{ffbe}' => jamo(0xffa1, 0x3131),
        '\u{ffc2}'..='\u{ffc7}' => jamo(0xffc2, 0x314f),
        '\u{ffca}'..='\u{ffcf}' => jamo(0xffca, 0x3155),
        '\u{ffd2}'..='\u{ffd7}' => jamo(0xffd2, 0x315b),
        '\u{ffda}'..='\u{ffdc}' => jamo(0xffda, 0x3161),
        '\u{ff01}'..='\u{ff9f}' => {
            let mut plain = c;
            decompose_compatible(c, |only| plain = only);
            plain
        }
        _ => c,
    }
}

fn lower(c: char) -> char {
    let mut mapped = c.to_lowercase();
    match (c, mapped.next(), mapped.next()) {
        ('ς', ..) => 'σ',
        (_, Some(one), None) => one,
        _ => unreachable!("{c:?} is decomposed before it is mapped"),
    }
}

/// The definition: canonical decomposition, then width and case of each character.
fn folded_decomposition(c: char) -> String {
    c.nfd().map(|part| lower(widthless(part))).collect()
}

/// The single character that a character becomes in any context, if there is one.
fn fold(c: char) -> Option<char> {
    let folded = folded_decomposition(c);
    let mut composed = folded.nfc();
    match (composed.next(), composed.next()) {
        (Some(one), None) if one.nfd().eq(folded.chars()) => Some(one),
        _ => None,
    }
}

fn is_hangul_syllable(c: char) -> bool {
    ('\u{ac00}'..='\u{d7a3}').contains(&c)
}

/// (first, second) → composite, of folded characters; Hangul syllables are computed instead.
fn compositions() -> BTreeMap<(char, char), char> {
    let folded = |c: char| fold(c) == Some(c);
    let pair = |c: char| {
        let mut parts: Vec<char> = c.nfd().collect();
        let second = parts.pop()?;
        let mut first = parts.into_iter().nfc();
        match (first.next(), first.next()) {
            (Some(first), None) if compose(first, second) == Some(c) => Some((first, second)),
            _ => None,
        }
    };
    let all = (char::MIN..='\u{2fffd}').filter(|c| !is_hangul_syllable(*c));
    let all = all.filter_map(|c| pair(c).map(|pair| (pair, c)));
    let mut found: BTreeMap<_, _> = all.filter(|((a, b), c)| [*a, *b, *c].into_iter().all(folded)).collect();
    // The dot of a lower-cased İ is the one that an i has anyway.
    assert_eq!(found.insert(('i', '\u{307}'), 'i'), None);
    found
}

fn is_second(c: char, seconds: &BTreeSet<char>) -> bool {
    seconds.contains(&c) || ('\u{1161}'..='\u{1175}').contains(&c) || ('\u{11a8}'..='\u{11c2}').contains(&c)
}

/// The class of a character that folds to itself.
fn class(c: char, seconds: &BTreeSet<char>) -> CharClass {
    let is_word = c.is_alphanumeric() && !is_mark(c);
    let is_spaceless = SPACELESS.iter().any(|block| block.contains(&c));
    match (is_second(c, seconds), is_word) {
        _ if is_ignored(c) => CharClass::Ignored,
        (second, _) if is_mark(c) => {
            if second || canonical_combining_class(c) != 0 {
                CharClass::Combining
            } else {
                CharClass::Mark
            }
        }
        (_, false) => CharClass::Separator,
        (false, true) if is_spaceless => CharClass::Alone,
        (false, true) => CharClass::Letter,
        (true, true) => {
            assert!(!is_spaceless, "{c:?} would be a word and a part of one");
            CharClass::Joining
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Kind(CharClass, i32);

fn kind(c: char, seconds: &BTreeSet<char>) -> Kind {
    match fold(c) {
        _ if is_ignored(c) => Kind(CharClass::Ignored, 0),
        _ if is_hangul_syllable(c) => Kind(CharClass::Letter, 0),
        Some(folded) => match class(folded, seconds) {
            class @ (CharClass::Separator | CharClass::Ignored) => Kind(class, 0),
            class => Kind(class, folded as i32 - c as i32),
        },
        None => Kind(CharClass::Special, 0),
    }
}

/// Writes a list in lines of at most 120 characters.
fn lines(out: &mut String, items: impl Iterator<Item = String>) {
    let mut line = String::from("   ");
    for item in items {
        if line.len() + item.len() + 2 > 120 {
            writeln!(out, "{line}").expect("a string");
            line = String::from("   ");
        }
        write!(line, " {item},").expect("a string");
    }
    writeln!(out, "{line}\n];").expect("a string");
}

/// Runs of equal kinds at a step of one or two.
fn ranges(kinds: &BTreeMap<u32, u8>) -> Vec<(u32, u32, u32, u8)> {
    let mut left = kinds.clone();
    let mut found = Vec::new();
    while let Some((&first, &kind)) = left.first_key_value() {
        let end =
            |step: u32| (first..).step_by(step as usize).take_while(|c| left.get(c) == Some(&kind)).count() as u32;
        let (ones, twos) = (end(1), end(2));
        let (step, count) = if ones > 1 || twos < 3 { (1, ones) } else { (2, twos) };
        for n in 0..count {
            left.remove(&(first + n * step));
        }
        found.push((first, first + (count - 1) * step, step, kind));
    }
    found
}

fn tables() -> String {
    let compositions = compositions();
    let seconds: BTreeSet<char> = compositions.keys().map(|(_, second)| *second).collect();
    let all: BTreeMap<char, Kind> = (char::MIN..'\u{20000}').map(|c| (c, kind(c, &seconds))).collect();
    let mut counts: BTreeMap<Kind, usize> = BTreeMap::new();
    all.values().for_each(|kind| *counts.entry(*kind).or_default() += 1);
    let is_listed = |kind: &Kind| kind.1 == 0 || counts[kind] >= KIND_CHARS_MIN;
    let mut kinds: Vec<Kind> = counts.keys().copied().filter(is_listed).collect();
    kinds.sort_by_key(|kind| (*kind != Kind(CharClass::Separator, 0), *kind));
    let kind_of = |kind: Kind| {
        let kind = if is_listed(&kind) { kind } else { Kind(CharClass::Special, 0) };
        u8::try_from(kinds.iter().position(|known| *known == kind).expect("listed")).expect("few kinds")
    };
    let runs = ranges(&all.iter().map(|(c, kind)| (*c as u32, kind_of(*kind))).filter(|(_, kind)| *kind > 0).collect());
    let below = all.iter().filter(|(_, kind)| kind.0 == CharClass::Special || !is_listed(kind)).map(|(c, _)| *c);
    let above = ('\u{20000}'..='\u{3ffff}').filter(|c| fold(*c) != Some(*c));

    let mut out = String::from(
        "//! The tables, made by `generate` from Unicode 17.0.0. Frozen with version 1 of the canonical form.\n\n\
         use super::class::CharClass::{self, *};\n\n\
         /// The class of a character and the number that folds it. The first entry is for characters in no range.\n",
    );
    writeln!(out, "#[rustfmt::skip]\npub(super) const KINDS: [(CharClass, i32); {}] = [", kinds.len())
        .expect("a string");
    lines(&mut out, kinds.iter().map(|kind| format!("({:?}, {})", kind.0, kind.1)));
    out += "\n/// (first, last, step, kind) of the characters below U+20000.\n#[rustfmt::skip]\n";
    writeln!(out, "pub(super) static RANGES: [(u32, u32, u8, u8); {}] = [", runs.len()).expect("a string");
    lines(&mut out, runs.iter().map(|(a, b, step, kind)| format!("({a:#x}, {b:#x}, {step}, {kind})")));
    let special: Vec<char> = below.chain(above).collect();
    out += "\n/// What the characters of class `Special` become, ascending.\n#[rustfmt::skip]\n";
    writeln!(out, "pub(super) static SPECIAL: [(char, &str); {}] = [", special.len()).expect("a string");
    let escape = |text: &str| text.chars().map(|c| c.escape_unicode().to_string()).collect::<String>();
    lines(
        &mut out,
        special.iter().map(|c| format!("('{}', \"{}\")", c.escape_unicode(), escape(&folded_decomposition(*c)))),
    );
    let classes = (char::MIN..'\u{20000}').filter(|c| canonical_combining_class(*c) != 0);
    let classes: BTreeMap<u32, u8> = classes.map(|c| (c as u32, canonical_combining_class(c))).collect();
    let mut runs: Vec<(u32, u32, u8)> = Vec::new();
    for (c, class) in classes {
        match runs.last_mut() {
            Some(last) if last.1 + 1 == c && last.2 == class => last.1 = c,
            _ => runs.push((c, c, class)),
        }
    }
    out += "\n/// (first, last, canonical combining class) of the characters where it is not 0, ascending.\n#[rustfmt::skip]\n";
    writeln!(out, "pub(super) static COMBINING_CLASSES: [(u32, u32, u8); {}] = [", runs.len()).expect("a string");
    lines(&mut out, runs.iter().map(|(a, b, class)| format!("({a:#x}, {b:#x}, {class})")));
    let triple = |((a, b), c): (&(char, char), &char)| {
        format!("('{}', '{}', '{}')", a.escape_unicode(), b.escape_unicode(), c.escape_unicode())
    };
    out += "\n/// (first, second, composite), ascending.\n#[rustfmt::skip]\n";
    writeln!(out, "pub(super) static COMPOSITIONS: [(char, char, char); {}] = [", compositions.len())
        .expect("a string");
    lines(&mut out, compositions.iter().map(triple));
    let apart: BTreeMap<char, (char, char)> =
        compositions.iter().filter(|(pair, c)| pair.0 != **c).map(|(pair, c)| (*c, *pair)).collect();
    out += "\n/// (composite, first, second), ascending.\n#[rustfmt::skip]\n";
    writeln!(out, "pub(super) static DECOMPOSITIONS: [(char, char, char); {}] = [", apart.len()).expect("a string");
    let triple = |(c, (a, b)): (&char, &(char, char))| {
        format!("('{}', '{}', '{}')", c.escape_unicode(), a.escape_unicode(), b.escape_unicode())
    };
    lines(&mut out, apart.iter().map(triple));
    out
}

/// Only compares under Unicode 17: later versions know more characters, which must not change any page's words.
#[test]
fn the_tables_are_those_of_unicode_17() {
    assert_eq!(unicode_normalization::UNICODE_VERSION, (17, 0, 0));
    assert_eq!(unicode_properties::UNICODE_VERSION, (17, 0, 0));
    if char::UNICODE_VERSION == (17, 0, 0) {
        assert!(tables() == include_str!("tables.rs"), "regenerate with `cargo test write_the_tables -- --ignored`");
    }
}

#[test]
#[ignore = "writes the tables; only for a new version of the canonical form"]
fn write_the_tables() {
    std::fs::write(PATH, tables()).expect("written");
}
