//! Looks characters up in the frozen tables.

use super::class::CharClass;
use super::tables::{COMBINING_CLASSES, COMPOSITIONS, DECOMPOSITIONS, KINDS, RANGES, SPECIAL};

/// From here the plane alone decides: planes 2 and 3 are Han, assigned or not.
const PLANE_2: u32 = 0x20000;

/// The index in `KINDS` of every character below plane 2.
static KIND_OF: [u8; PLANE_2 as usize] = kind_of();

const fn kind_of() -> [u8; PLANE_2 as usize] {
    let mut kinds = [0; PLANE_2 as usize];
    let mut n = 0;
    while n < RANGES.len() {
        let (first, last, step, kind) = RANGES[n];
        let mut c = first;
        while c <= last {
            kinds[c as usize] = kind;
            c += step as u32;
        }
        n += 1;
    }
    kinds
}

/// Returns the class of a character, and its lower-case form of ordinary width.
#[inline]
pub(in crate::document) fn class_and_fold(c: char) -> (CharClass, char) {
    let code = u32::from(c);
    if code < PLANE_2 {
        let (class, delta) = KINDS[usize::from(KIND_OF[code as usize])];
        (class, char::from_u32(code.wrapping_add_signed(delta)).unwrap_or(c))
    } else {
        (class_of_high_planes(c), c)
    }
}

#[cold]
fn class_of_high_planes(c: char) -> CharClass {
    match c {
        '\u{2f800}'..='\u{2fa1f}' if special(c).is_some() => CharClass::Special,
        '\u{2fffe}'..='\u{2ffff}' | '\u{3fffe}'..='\u{3ffff}' => CharClass::Separator,
        '\u{20000}'..='\u{3ffff}' => CharClass::Alone,
        '\u{e0000}'..='\u{e0fff}' => CharClass::Ignored,
        _ => CharClass::Separator,
    }
}

/// Returns the folded, decomposed form of a character of class `Special`.
pub(in crate::document) fn special(c: char) -> Option<&'static str> {
    let block = (u32::from(c) / SPECIAL_BLOCK) as usize;
    let entries = match SPECIAL_BEFORE.get(block..=block + 1) {
        Some([begin, end]) => &SPECIAL[usize::from(*begin)..usize::from(*end)],
        _ => &SPECIAL[..],
    };
    entries.binary_search_by_key(&c, |entry| entry.0).ok().map(|at| entries[at].1)
}

/// How many characters share an entry of [`SPECIAL_BEFORE`].
const SPECIAL_BLOCK: u32 = 64;

/// How many entries of `SPECIAL` precede each block below plane 2.
static SPECIAL_BEFORE: [u16; (PLANE_2 / SPECIAL_BLOCK) as usize + 1] = special_before();

const fn special_before() -> [u16; (PLANE_2 / SPECIAL_BLOCK) as usize + 1] {
    let mut before = [0; (PLANE_2 / SPECIAL_BLOCK) as usize + 1];
    let (mut block, mut n) = (0, 0);
    while block < before.len() {
        while n < SPECIAL.len() && (SPECIAL[n].0 as u32) < block as u32 * SPECIAL_BLOCK {
            n += 1;
        }
        before[block] = n as u16;
        block += 1;
    }
    before
}

/// Characters below, Latin to kana, are found without a search.
const SOON_FOUND: u32 = 0x3100;

/// The combining classes of the characters below `SOON_FOUND`.
static CLASSES: [u8; SOON_FOUND as usize] = classes();

const fn classes() -> [u8; SOON_FOUND as usize] {
    let mut classes = [0; SOON_FOUND as usize];
    let mut n = 0;
    while n < COMBINING_CLASSES.len() && COMBINING_CLASSES[n].1 < SOON_FOUND {
        let (first, last, class) = COMBINING_CLASSES[n];
        let mut c = first;
        while c <= last {
            classes[c as usize] = class;
            c += 1;
        }
        n += 1;
    }
    classes
}

/// Returns the canonical combining class.
pub(in crate::document) fn combining_class(c: char) -> u8 {
    let code = u32::from(c);
    if let Some(class) = CLASSES.get(code as usize) {
        return *class;
    }
    let after = COMBINING_CLASSES.partition_point(|range| range.0 <= code);
    match after.checked_sub(1).map(|at| COMBINING_CLASSES[at]) {
        Some((_, last, class)) if code <= last => class,
        _ => 0,
    }
}

/// A table with three characters an entry, sorted by the first, and the number of entries before each character
/// below `SOON_FOUND`.
struct TriplesByFirst {
    entries: &'static [(char, char, char)],
    before: [u16; SOON_FOUND as usize + 1],
}

static COMPOSED: TriplesByFirst = TriplesByFirst::new(&COMPOSITIONS);
static DECOMPOSED: TriplesByFirst = TriplesByFirst::new(&DECOMPOSITIONS);

impl TriplesByFirst {
    const fn new(entries: &'static [(char, char, char)]) -> Self {
        let mut before = [0; SOON_FOUND as usize + 1];
        let (mut c, mut n) = (0, 0);
        while c <= SOON_FOUND {
            while n < entries.len() && (entries[n].0 as u32) < c {
                n += 1;
            }
            before[c as usize] = n as u16;
            c += 1;
        }
        TriplesByFirst { entries, before }
    }

    /// The entries that begin with `first`, or all if they must be searched.
    fn starting_with(&self, first: char) -> &'static [(char, char, char)] {
        let code = u32::from(first) as usize;
        match self.before.get(code..=code + 1) {
            Some([begin, end]) => &self.entries[usize::from(*begin)..usize::from(*end)],
            _ => self.entries,
        }
    }
}

/// Returns the composite that is canonically equivalent to two folded characters.
pub(in crate::document) fn compose(first: char, second: char) -> Option<char> {
    compose_hangul(first, second).or_else(|| {
        let entries = COMPOSED.starting_with(first);
        entries.binary_search_by_key(&(first, second), |entry| (entry.0, entry.1)).ok().map(|at| entries[at].2)
    })
}

/// Returns the two characters that compose a folded character. Hangul is left out: it has no marks to reorder.
pub(in crate::document) fn decompose(c: char) -> Option<(char, char)> {
    if c.is_ascii() {
        return None;
    }
    let entries = DECOMPOSED.starting_with(c);
    entries.binary_search_by_key(&c, |entry| entry.0).ok().map(|at| (entries[at].1, entries[at].2))
}

/// The Unicode Standard, section 3.12, "Hangul Syllable Composition".
fn compose_hangul(first: char, second: char) -> Option<char> {
    const N_VOWELS: u32 = 21;
    const N_TAILS: u32 = 28;
    let (a, b) = (u32::from(first), u32::from(second));
    let composite = match (first, second) {
        ('\u{1100}'..='\u{1112}', '\u{1161}'..='\u{1175}') => {
            0xac00 + ((a - 0x1100) * N_VOWELS + (b - 0x1161)) * N_TAILS
        }
        ('\u{ac00}'..='\u{d7a3}', '\u{11a8}'..='\u{11c2}') if (a - 0xac00).is_multiple_of(N_TAILS) => a + b - 0x11a7,
        _ => return None,
    };
    char::from_u32(composite)
}
