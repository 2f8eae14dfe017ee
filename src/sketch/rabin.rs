//! Rabin fingerprints: residues of polynomials over GF(2) modulo a secret irreducible polynomial of degree 64
//! (Rabin 1981; Broder, "Some applications of Rabin's fingerprinting method", 1993).

use crate::document::Seed;

/// x^64 + the polynomial whose coefficients are the bits of the number; irreducible.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Polynomial(u64);

impl Polynomial {
    /// The polynomial that a seed chooses: the first irreducible one of its sequence (one in 64 is).
    pub fn from_seed(seed: &Seed) -> Self {
        let mut n = 0;
        loop {
            let candidate = Polynomial(seed.derive("polynomial", n) | 1);
            if candidate.is_irreducible() {
                return candidate;
            }
            n += 1;
        }
    }

    /// Rabin's test for degree 64, whose only prime factor is 2: x^(2^64) = x, and x^(2^32) - x is coprime to it.
    pub fn is_irreducible(self) -> bool {
        let squared = |times: u32| (0..times).fold(2u64, |power, _| self.multiply(power, power));
        squared(64) == 2 && self.is_coprime_to(squared(32) ^ 2)
    }

    /// The product of two residues. Slow and plain: for making tables and for tests.
    pub fn multiply(self, a: u64, b: u64) -> u64 {
        let mut product = 0;
        for bit in (0..64).rev() {
            product = self.times_x(product);
            if b >> bit & 1 == 1 {
                product ^= a;
            }
        }
        product
    }

    fn times_x(self, a: u64) -> u64 {
        (a << 1) ^ if a >> 63 == 1 { self.0 } else { 0 }
    }

    /// x to a power, as a residue.
    fn power_of_x(self, exponent: usize) -> u64 {
        (0..exponent).fold(1, |power, _| self.times_x(power))
    }

    fn is_coprime_to(self, other: u64) -> bool {
        let remainder = |a: u128, b: u128| {
            let mut a = a;
            while a != 0 && a.ilog2() >= b.ilog2() {
                a ^= b << (a.ilog2() - b.ilog2());
            }
            a
        };
        let (mut a, mut b) = (1u128 << 64 | u128::from(self.0), u128::from(other));
        while b != 0 {
            (a, b) = (b, remainder(a, b));
        }
        a == 1
    }
}

/// Multiplication of a residue by a fixed one, by eight table look-ups.
#[derive(Clone)]
struct Multiplier(Box<[[u64; 256]; 8]>);

impl Multiplier {
    fn new(polynomial: Polynomial, factor: u64) -> Self {
        let mut tables = Box::new([[0; 256]; 8]);
        for (i, table) in tables.iter_mut().enumerate() {
            for (byte, entry) in table.iter_mut().enumerate() {
                *entry = polynomial.multiply((byte as u64) << (8 * i), factor);
            }
        }
        Multiplier(tables)
    }

    #[inline]
    fn of(&self, a: u64) -> u64 {
        let bytes = a.to_le_bytes();
        self.0.iter().zip(bytes).fold(0, |sum, (table, byte)| sum ^ table[usize::from(byte)])
    }
}

/// Fingerprints of byte strings and of sliding windows over sequences of such fingerprints.
#[derive(Clone)]
pub struct Rabin {
    append: Box<[u64; 256]>,
    by_x64: Multiplier,
    out: Multiplier,
    window: usize,
}

impl Rabin {
    /// Tables for a polynomial and windows of `window` tokens.
    pub fn new(polynomial: Polynomial, window: usize) -> Self {
        let x64 = polynomial.power_of_x(64);
        let mut append = Box::new([0; 256]);
        for (byte, entry) in append.iter_mut().enumerate() {
            *entry = polynomial.multiply(byte as u64, x64);
        }
        Rabin {
            append,
            by_x64: Multiplier::new(polynomial, x64),
            out: Multiplier::new(polynomial, polynomial.power_of_x(64 * window)),
            window,
        }
    }

    /// The fingerprint of a byte string: the residue of a one bit followed by its bits.
    #[inline]
    pub fn token(&self, bytes: &[u8]) -> u64 {
        bytes.iter().fold(1, |residue, byte| (residue << 8 | u64::from(*byte)) ^ self.append[(residue >> 56) as usize])
    }

    /// The fingerprint of a whole sequence of tokens.
    pub fn sequence(&self, tokens: &[u64]) -> u64 {
        tokens.iter().fold(0, |residue, token| self.by_x64.of(residue) ^ token)
    }

    /// Calls `found` with the fingerprint of every window of the sequence, at a constant cost a token.
    pub fn windows(&self, tokens: &[u64], mut found: impl FnMut(u64)) {
        if tokens.len() < self.window {
            return;
        }
        let mut residue = self.sequence(&tokens[..self.window]);
        found(residue);
        for (incoming, outgoing) in tokens[self.window..].iter().zip(tokens) {
            residue = self.by_x64.of(residue) ^ self.out.of(*outgoing) ^ incoming;
            found(residue);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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

    #[test]
    fn irreducibility() {
        // x^64 + x^4 + x^3 + x + 1 is the usual irreducible pentanomial of degree 64.
        assert!(Polynomial(0b11011).is_irreducible());
        // Without a constant term it is divisible by x; x^64 + 1 = (x + 1)^64.
        assert!(!Polynomial(0b11010).is_irreducible());
        assert!(!Polynomial(1).is_irreducible());
        // The square of x^32 + x^7 + x^3 + x^2 + 1.
        assert!(!Polynomial(1 << 14 | 1 << 6 | 1 << 4 | 1).is_irreducible());
        assert!(polynomial().is_irreducible());
    }

    #[test]
    fn one_polynomial_in_64_is_irreducible() {
        let seed = Seed([9, 9, 9, 9]);
        let n = (0..3200).filter(|n| Polynomial(seed.derive("p", *n)).is_irreducible()).count();
        assert!((25..80).contains(&n), "{n} of 3200");
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
        fn windows_are_residues(
            tokens in proptest::collection::vec(any::<u64>(), 0..20),
            window in 1usize..6,
        ) {
            let rabin = Rabin::new(polynomial(), window);
            let mut found = Vec::new();
            rabin.windows(&tokens, |residue| found.push(residue));
            let expected: Vec<u64> = tokens
                .windows(window)
                .map(|tokens| slow_residue(polynomial(), tokens.iter().flat_map(|token| bits(*token))))
                .collect();
            prop_assert_eq!(found, expected);
        }
    }
}
