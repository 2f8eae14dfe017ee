//! Rice coding of small steps between ascending numbers (R. F. Rice, "Some practical universal noiseless coding
//! techniques", 1979).
//!
//! A step is its quotient by 2^k in unary (ones and a final zero), then k bits of remainder. Bits fill each byte
//! from the lowest; zeros fill the last byte.

/// The bytes are not a sequence of Rice-coded steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InvalidRice;

/// Appends steps with the parameter `k`.
pub(super) fn encode(steps: impl Iterator<Item = u32>, k: u32, out: &mut Vec<u8>) {
    let (mut bits, mut n_bits) = (0u64, 0);
    // At most 32 bits; they fit beside the fewer than 32 that wait.
    let mut push = |value: u64, n: u32| {
        bits |= value << n_bits;
        n_bits += n;
        if n_bits >= 32 {
            out.extend_from_slice(&(bits as u32).to_le_bytes());
            bits >>= 32;
            n_bits -= 32;
        }
    };
    for step in steps {
        let mut quotient = step >> k;
        while quotient + k >= 32 {
            let part = quotient.min(16);
            push((1 << part) - 1, part);
            quotient -= part;
        }
        let remainder = u64::from(step) & ((1 << k) - 1);
        push(remainder << (quotient + 1) | ((1 << quotient) - 1), quotient + 1 + k);
    }
    out.extend_from_slice(&bits.to_le_bytes()[..n_bits.div_ceil(8) as usize]);
}

/// Decodes `n` steps with the parameter `k`, each at most `most`, that fill `bytes`, and passes each to `accept`.
///
/// # Errors
/// [`InvalidRice`] if the bytes are not that, and whatever `accept` returns.
pub(super) fn decode<E: From<InvalidRice>>(
    n: usize,
    k: u32,
    most: u32,
    bytes: &[u8],
    mut accept: impl FnMut(u32) -> Result<(), E>,
) -> Result<(), E> {
    if n > bytes.len() * 8 {
        return Err(InvalidRice.into());
    }
    let mut reader = BitReader { bytes, at: 0 };
    let mut n_left = n;
    while n_left > 0 {
        // Most steps are short, and a word shows several.
        let (mut shown, mut n_shown) = (reader.shown(), SHOWN);
        let n_before = n_left;
        while n_left > 0 {
            let ones = shown.trailing_ones();
            let length = ones + 1 + k;
            if length > n_shown {
                break;
            }
            let step = joined(u64::from(ones), shown >> (ones + 1), k);
            if step > u64::from(most) {
                return Err(InvalidRice.into());
            }
            accept(step as u32)?;
            shown >>= length;
            n_shown -= length;
            reader.at += length as usize;
            n_left -= 1;
        }
        if n_left == n_before {
            accept(reader.step(k, most).ok_or(InvalidRice)?)?;
            n_left -= 1;
        }
    }
    if reader.is_at_end() { Ok(()) } else { Err(InvalidRice.into()) }
}

/// The step whose remainder is the lowest `k` bits of `bits`.
fn joined(quotient: u64, bits: u64, k: u32) -> u64 {
    quotient << k | bits & ((1 << k) - 1)
}

/// Reads bits in order; zeros follow the last one.
struct BitReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// How many of the next bits [`BitReader::shown`] shows at least.
const SHOWN: u32 = 57;

impl BitReader<'_> {
    fn shown(&self) -> u64 {
        let rest = self.bytes.get(self.at / 8..).unwrap_or_default();
        let next = match rest.first_chunk() {
            Some(chunk) => u64::from_le_bytes(*chunk),
            None => rest.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte)),
        };
        next >> (self.at % 8)
    }

    /// The next step; `None` if it exceeds `most` or the bits end.
    fn step(&mut self, k: u32, most: u32) -> Option<u32> {
        let mut quotient = 0;
        let mut shown = self.shown();
        let mut ones = shown.trailing_ones();
        while ones + 1 + k > SHOWN {
            // Skips only part of the ones, so that whatever follows them is shown at once.
            let part = ones.min(SHOWN - 1 - k);
            quotient += u64::from(part);
            self.at += part as usize;
            if quotient << k > u64::from(most) {
                return None;
            }
            shown = self.shown();
            ones = shown.trailing_ones();
        }
        quotient += u64::from(ones);
        self.at += (ones + 1 + k) as usize;
        let step = joined(quotient, shown >> (ones + 1), k);
        let is_there = self.at <= self.bytes.len() * 8 && step <= u64::from(most);
        is_there.then_some(step as u32)
    }

    /// Whether only the zeros that fill the last byte follow.
    fn is_at_end(&self) -> bool {
        self.at.div_ceil(8) == self.bytes.len() && self.shown() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(n: usize, k: u32, most: u32, bytes: &[u8]) -> Result<Vec<u32>, InvalidRice> {
        let mut steps = Vec::new();
        decode(n, k, most, bytes, |step| {
            steps.push(step);
            Ok(())
        })?;
        Ok(steps)
    }

    #[test]
    fn known_bytes() {
        let mut bytes = Vec::new();
        // 5 = 1 · 4 + 1: 10 then 10 (the lowest bit first); 0: 0 then 00; 15 = 3 · 4 + 3: 1110 then 11.
        encode([5, 0, 15].into_iter(), 2, &mut bytes);
        assert_eq!(bytes, [0b1000_0101, 0b0001_1011]);
        assert_eq!(decoded(3, 2, 15, &bytes), Ok(vec![5, 0, 15]));
    }

    #[test]
    fn other_bytes_are_rejected() {
        let bytes = [0b1000_0101, 0b0001_1011];
        for (n, most, bytes) in [
            (3, 14, &bytes[..]),
            (3, 15, &bytes[..1]),
            (2, 15, &bytes[..]),
            (5, 15, &bytes[..]),
            (3, 15, &[bytes[0], bytes[1] | 0x20]),
            (3, 15, &[bytes[0], bytes[1], 0]),
            (1, u32::MAX, &[0xff; 3]),
            (25, u32::MAX, &[0; 3]),
        ] {
            assert_eq!(decoded(n, 2, most, bytes), Err(InvalidRice), "{n} of {most}: {bytes:?}");
        }
        assert_eq!(decoded(0, 0, 0, &[]), Ok(vec![]));
    }

    proptest! {
        #[test]
        fn round_trip(k in 0u32..=22, steps in proptest::collection::vec((0u32..300, any::<u32>()), 0..100)) {
            let steps: Vec<u32> = steps.iter().map(|(q, r)| q << k | r & ((1 << k) - 1)).collect();
            let mut bytes = Vec::new();
            encode(steps.iter().copied(), k, &mut bytes);
            prop_assert_eq!(decoded(steps.len(), k, u32::MAX, &bytes), Ok(steps));
        }
    }
}
