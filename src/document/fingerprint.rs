//! Keyed fingerprints of contents, and the secret seed of all random choices of a store.

use highway::{HighwayHash, HighwayHasher, Key};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A store's secret. With it one can make pages whose fingerprints collide, so it is never logged or sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub [u64; 4]);

impl Seed {
    /// Returns the `n`-th secret number for a purpose.
    pub fn derive(&self, purpose: &str, n: u64) -> u64 {
        let mut hasher = HighwayHasher::new(Key(self.0));
        hasher.append(purpose.as_bytes());
        hasher.append(&[0]);
        hasher.append(&n.to_le_bytes());
        hasher.finalize64()
    }

    /// Returns the fingerprint of some parts for a purpose. The lengths keep the parts apart. Different parts have
    /// equal fingerprints with probability 2^-128.
    pub fn fingerprint(&self, purpose: &str, parts: &[&[u8]]) -> Fingerprint {
        let mut hasher = HighwayHasher::new(Key(self.0));
        for part in std::iter::once(purpose.as_bytes()).chain(parts.iter().copied()) {
            hasher.append(part);
            hasher.append(&(part.len() as u64).to_le_bytes());
        }
        let [low, high] = hasher.finalize128();
        Fingerprint::from_halves(high, low)
    }
}

/// Numbers that are hashed at once.
const NUMBERS_MAX: usize = 64;

impl Seed {
    /// Returns the fingerprint of a sequence of numbers for a purpose.
    pub fn fingerprint_numbers(&self, purpose: &str, numbers: &[u64]) -> Fingerprint {
        let mut hasher = HighwayHasher::new(Key(self.0));
        hasher.append(purpose.as_bytes());
        hasher.append(&[0]);
        // Hashing by the block is faster: a call costs more than eight bytes do.
        let mut block = [0; NUMBERS_MAX * 8];
        for numbers in numbers.chunks(NUMBERS_MAX) {
            for (place, number) in block.as_chunks_mut().0.iter_mut().zip(numbers) {
                *place = number.to_le_bytes();
            }
            hasher.append(&block[..numbers.len() * 8]);
        }
        let [low, high] = hasher.finalize128();
        Fingerprint::from_halves(high, low)
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(secret)")
    }
}

/// A seed is written as 64 hexadecimal digits.
impl FromStr for Seed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "a seed is 64 hexadecimal digits".to_string();
        if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut words = [0; 4];
        for (i, word) in words.iter_mut().enumerate() {
            *word = u64::from_str_radix(&text[i * 16..(i + 1) * 16], 16).map_err(|_| wrong())?;
        }
        Ok(Seed(words))
    }
}

/// A keyed 128-bit fingerprint (HighwayHash).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub u128);

impl Fingerprint {
    /// The fingerprint with these 64 bits above and below.
    pub fn from_halves(high: u64, low: u64) -> Self {
        Fingerprint((u128::from(high) << 64) | u128::from(low))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Serialize for Fingerprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{self:?}"))
    }
}

impl<'de> Deserialize<'de> for Fingerprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        u128::from_str_radix(&text, 16).map(Fingerprint).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_vectors() {
        let seed = Seed([1, 2, 3, 4]);
        assert_eq!(seed.derive("test", 0), seed.derive("test", 0));
        assert_ne!(seed.derive("test", 0), seed.derive("test", 1));
        assert_ne!(seed.derive("test", 0), seed.derive("tes", 0));
        assert_eq!(format!("{:?}", seed.fingerprint("raw", &[b"a", b"bc"])), GOLDEN);
    }

    const GOLDEN: &str = "ca562ebc65a319f59e7f60eca3c53575";

    #[test]
    fn parts_are_kept_apart() {
        let seed = Seed([1, 2, 3, 4]);
        assert_ne!(seed.fingerprint("x", &[b"ab", b"c"]), seed.fingerprint("x", &[b"a", b"bc"]));
    }

    #[test]
    fn seeds_are_hexadecimal_and_secret() {
        let text = "0000000000000001000000000000000200000000000000030000000000000004";
        assert_eq!(text.parse(), Ok(Seed([1, 2, 3, 4])));
        assert!("1234".parse::<Seed>().is_err());
        assert_eq!(format!("{:?}", Seed([1, 2, 3, 4])), "Seed(secret)");
    }
}
