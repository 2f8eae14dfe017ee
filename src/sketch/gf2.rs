//! Arithmetic on polynomials over GF(2), the field of two elements, modulo an irreducible one of degree 64.

use crate::document::Seed;

/// The irreducible modulus: x^64 + the polynomial whose coefficients are the bits of the number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Polynomial(pub(super) u64);

impl Polynomial {
    /// Returns the first irreducible polynomial of a seed's sequence; one in 64 is irreducible.
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

    /// Rabin's test for degree 64, whose only prime factor is 2: x^(2^64) = x, and x^(2^32) - x is coprime to the
    /// polynomial.
    pub fn is_irreducible(self) -> bool {
        let squared = |times: u32| (0..times).fold(2u64, |power, _| self.multiply(power, power));
        squared(64) == 2 && self.is_coprime_to(squared(32) ^ 2)
    }

    /// The product of two residues. It is slow and simple, for tables and tests.
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

    pub(super) fn times_x(self, a: u64) -> u64 {
        (a << 1) ^ if a >> 63 == 1 { self.0 } else { 0 }
    }

    /// The residue of a power of x.
    pub(super) fn power_of_x(self, exponent: usize) -> u64 {
        (0..exponent).fold(1, |power, _| self.times_x(power))
    }

    /// The quotient of x^128 by the polynomial, without its highest term x^64.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    pub(super) fn barrett_quotient(self) -> u64 {
        let step = |(quotient, rest): (u64, u64), _| (quotient << 1 | rest >> 63, self.times_x(rest));
        (0..64).fold((0, self.0), step).0
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn irreducibility() {
        // x^64 + x^4 + x^3 + x + 1 is the usual irreducible pentanomial of degree 64.
        assert!(Polynomial(0b11011).is_irreducible());
        // Without a constant term, x is a factor; x^64 + 1 = (x + 1)^64.
        assert!(!Polynomial(0b11010).is_irreducible());
        assert!(!Polynomial(1).is_irreducible());
        // The square of x^32 + x^7 + x^3 + x^2 + 1.
        assert!(!Polynomial(1 << 14 | 1 << 6 | 1 << 4 | 1).is_irreducible());
        assert!(Polynomial::from_seed(&Seed([1, 2, 3, 4])).is_irreducible());
    }

    #[test]
    fn one_polynomial_in_64_is_irreducible() {
        let seed = Seed([9, 9, 9, 9]);
        let n = (0..3200).filter(|n| Polynomial(seed.derive("p", *n)).is_irreducible()).count();
        assert!((25..80).contains(&n), "{n} of 3200");
    }
}
