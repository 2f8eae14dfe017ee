//! Rabin fingerprints: residues of polynomials over GF(2) modulo a secret irreducible polynomial of degree 64
//! (Rabin 1981; Broder, "Some applications of Rabin's fingerprinting method", 1993).

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use super::carry_less::CarryLess;
#[cfg(target_arch = "x86_64")]
use super::carry_less_wide::WideCarryLess;
use super::gf2::Polynomial;
use wide::u8x64;

/// Multiplication of a residue by a constant, with eight table look-ups.
#[derive(Clone)]
struct Multiplier(Box<[[u64; 256]; 8]>);

impl Multiplier {
    fn new(polynomial: Polynomial, factor: u64) -> Self {
        let mut tables = Box::new([[0; 256]; 8]);
        for (i, table) in tables.iter_mut().enumerate() {
            for byte in 1..256_usize {
                // The product with a sum is the sum of the products.
                let lowest = byte & byte.wrapping_neg();
                table[byte] = if byte == lowest {
                    polynomial.multiply((byte as u64) << (8 * i), factor)
                } else {
                    table[lowest] ^ table[byte - lowest]
                };
            }
        }
        Multiplier(tables)
    }

    #[inline]
    fn multiply(&self, a: u64) -> u64 {
        let bytes = a.to_le_bytes();
        self.0.iter().zip(bytes).fold(0, |sum, (table, byte)| sum ^ table[usize::from(byte)])
    }
}

/// Fingerprints of byte strings, and of windows that slide over sequences of such fingerprints.
#[derive(Clone)]
pub struct Rabin {
    by_x64: Multiplier,
    out: Multiplier,
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    carry_less: Option<CarryLess>,
    #[cfg(target_arch = "x86_64")]
    wide: Option<WideCarryLess>,
    window: usize,
}

impl Rabin {
    /// Creates the tables for a polynomial and windows of `window` tokens.
    pub fn new(polynomial: Polynomial, window: usize) -> Self {
        Rabin {
            by_x64: Multiplier::new(polynomial, polynomial.power_of_x(64)),
            out: Multiplier::new(polynomial, polynomial.power_of_x(64 * window)),
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            carry_less: CarryLess::detect(polynomial, window),
            #[cfg(target_arch = "x86_64")]
            wide: WideCarryLess::detect(polynomial, window),
            window,
        }
    }

    /// The fingerprint of a byte string: the residue of a one bit followed by the string's bits. Up to seven bytes
    /// are their own residue.
    #[inline]
    pub fn token(&self, bytes: &[u8]) -> u64 {
        let (head, chunks) = bytes.as_rchunks();
        let head = head.iter().fold(1, |number, byte| number << 8 | u64::from(*byte));
        chunks.iter().fold(head, |residue, chunk| self.by_x64.multiply(residue) ^ u64::from_be_bytes(*chunk))
    }

    /// Appends the fingerprint of each word of a text whose words are separated by single spaces.
    pub fn tokens(&self, text: &str, tokens: &mut Vec<u64>) {
        let text = text.as_bytes();
        if text.is_empty() {
            return;
        }
        let mut begin = 0;
        // Long words are set aside, because the processor cannot predict which words are long, nor how many of a block.
        let mut long = [LongWord::default(); LONG_TOGETHER + BLOCK_BYTES];
        let mut n_long = 0;
        // Finding all word ends of a block first keeps the words independent of each other.
        for (block, offset) in text.as_chunks().0.iter().zip((0..).step_by(BLOCK_BYTES)) {
            let mut ends = u8x64::new(*block).simd_eq(u8x64::splat(b' ')).to_bitmask();
            while ends != 0 {
                let end = offset + ends.trailing_zeros() as usize;
                long[n_long] = LongWord { token: tokens.len(), begin, end };
                n_long += usize::from(end - begin >= 8);
                tokens.push(short_token(text, begin, end));
                begin = end + 1;
                ends &= ends - 1;
            }
            if n_long > LONG_TOGETHER {
                self.replace_long(text, &long[..std::mem::take(&mut n_long)], tokens);
            }
        }
        self.replace_long(text, &long[..n_long], tokens);
        tokens.extend(text[begin..].split(|byte| *byte == b' ').map(|word| self.token(word)));
    }

    fn replace_long(&self, text: &[u8], words: &[LongWord], tokens: &mut [u64]) {
        for LongWord { token, begin, end } in words {
            tokens[*token] = self.long_token(text, *begin, *end);
        }
    }

    /// [`Self::token`] for more than seven bytes of a text.
    #[inline]
    fn long_token(&self, text: &[u8], begin: usize, end: usize) -> u64 {
        match text[..end].last_chunk() {
            Some(last) if end - begin < 16 => {
                self.by_x64.multiply(short_token(text, begin, end - 8)) ^ u64::from_be_bytes(*last)
            }
            _ => self.token(&text[begin..end]),
        }
    }

    /// Appends the fingerprint of every window of the sequence, in order, each as `finish` maps it. The cost per
    /// token is constant.
    pub fn windows(&self, tokens: &[u64], finish: impl Fn(u64) -> u64, found: &mut Vec<u64>) {
        let before = found.len();
        found.resize(before + (tokens.len() + 1).saturating_sub(self.window), 0);
        let (mut tokens, mut found) = (tokens, &mut found[before..]);
        // Each path leaves some windows of the end to the next.
        #[cfg(target_arch = "x86_64")]
        if let Some(wide) = &self.wide {
            let n_found = wide.windows(tokens, &finish, found);
            (tokens, found) = (&tokens[n_found..], &mut found[n_found..]);
        }
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        if let Some(carry_less) = &self.carry_less {
            let n_found = carry_less.windows(tokens, &finish, found);
            (tokens, found) = (&tokens[n_found..], &mut found[n_found..]);
        }
        self.windows_by_tables(tokens, finish, found);
    }

    fn windows_by_tables(&self, tokens: &[u64], finish: impl Fn(u64) -> u64, found: &mut [u64]) {
        let Some((first, others)) = found.split_first_mut() else { return };
        let mut residue = tokens[..self.window].iter().fold(0, |residue, token| self.by_x64.multiply(residue) ^ token);
        *first = finish(residue);
        for ((incoming, outgoing), found) in tokens[self.window..].iter().zip(tokens).zip(others) {
            residue = self.by_x64.multiply(residue) ^ self.out.multiply(*outgoing) ^ incoming;
            *found = finish(residue);
        }
    }
}

/// [`Rabin::token`] for up to seven bytes of a text, read together with the eight bytes before their end.
#[inline]
fn short_token(text: &[u8], begin: usize, end: usize) -> u64 {
    let mark = 1 << (8 * (end - begin) % 64);
    match text[..end].last_chunk() {
        Some(last) => mark | u64::from_be_bytes(*last) & (mark - 1),
        None => text[begin..end].iter().fold(1, |number, byte| number << 8 | u64::from(*byte)),
    }
}

/// Bytes that are searched for spaces at once.
const BLOCK_BYTES: usize = 64;

/// How many long words are set aside before their fingerprints are computed.
const LONG_TOGETHER: usize = 96;

/// A word of more than seven bytes, and which token is to be its fingerprint.
#[derive(Clone, Copy, Default)]
struct LongWord {
    token: usize,
    begin: usize,
    end: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Seed;
    use proptest::prelude::*;

    fn polynomial() -> Polynomial {
        Polynomial::from_seed(&Seed([1, 2, 3, 4]))
    }

    /// The residue of a polynomial given as bits, highest first, by long division.
    fn slow_residue(polynomial: Polynomial, bits: impl Iterator<Item = bool>) -> u64 {
        bits.fold(0, |residue, bit| polynomial.times_x(residue) ^ u64::from(bit))
    }

    fn bits(number: u64) -> impl Iterator<Item = bool> {
        (0..64).rev().map(move |bit| number >> bit & 1 == 1)
    }

    proptest! {
        #[test]
        fn tokens_are_residues(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let rabin = Rabin::new(polynomial(), 3);
            let stream = std::iter::once(true)
                .chain(bytes.iter().flat_map(|byte| bits(u64::from(*byte)).skip(56)));
            prop_assert_eq!(rabin.token(&bytes), slow_residue(polynomial(), stream));
        }

        #[test]
        fn tokens_of_a_text_are_those_of_its_words(text in "[a-zé ]{0,60}( [a-zé]{1,20}){0,20}") {
            let rabin = Rabin::new(polynomial(), 3);
            let mut found = Vec::new();
            rabin.tokens(&text, &mut found);
            let words = text.split(' ').filter(|_| !text.is_empty());
            prop_assert_eq!(found, words.map(|word| rabin.token(word.as_bytes())).collect::<Vec<_>>());
        }

        /// More long words than are set aside at a time.
        #[test]
        fn many_long_words_are_replaced_in_their_places(lens in proptest::collection::vec(1usize..30, 100..600)) {
            let rabin = Rabin::new(polynomial(), 3);
            let words: Vec<String> = lens.iter().zip(0..).map(|(len, n)| format!("{n:0len$}")).collect();
            let mut found = Vec::new();
            rabin.tokens(&words.join(" "), &mut found);
            prop_assert_eq!(found, words.iter().map(|word| rabin.token(word.as_bytes())).collect::<Vec<_>>());
        }

        #[test]
        fn windows_are_residues(
            seed in any::<[u64; 4]>(),
            tokens in proptest::collection::vec(any::<u64>(), 0..300),
            window in 1usize..12,
        ) {
            let polynomial = Polynomial::from_seed(&Seed(seed));
            #[cfg_attr(not(target_arch = "x86_64"), expect(unused_mut, reason = "there is no wide path"))]
            let mut rabin = Rabin::new(polynomial, window);
            let residue = |tokens: &[u64]| slow_residue(polynomial, tokens.iter().flat_map(|token| bits(*token)));
            let expected: Vec<u64> = tokens.windows(window).map(residue).collect();
            let mut found = Vec::new();
            rabin.windows(&tokens, |residue| residue, &mut found);
            prop_assert_eq!(&found, &expected);
            #[cfg(target_arch = "x86_64")]
            {
                rabin.wide = None;
                found.clear();
                rabin.windows(&tokens, |residue| residue, &mut found);
                prop_assert_eq!(&found, &expected);
            }
            let mut by_tables = vec![0; expected.len()];
            rabin.windows_by_tables(&tokens, |residue| residue, &mut by_tables);
            prop_assert_eq!(by_tables, expected);
        }
    }
}
