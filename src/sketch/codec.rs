//! The bytes of a stored sketch.
//!
//! ```text
//! varint n_shingles | form, one byte | …
//! form 0, a sample:  varint n_values | varint bound's exponent or 0 | varints value[0], value[1] - value[0], …
//! form 1, whole:     n_shingles Rice-coded steps between leading bits, padded with zeros to a byte
//! form 2, parity:    log2 of the bits, one byte | the bitmap, 64-bit words, little-endian
//! ```
//! Varints are LEB128. A bound that is a power of two is written as its exponent; another one (the `min` rules) is the
//! last value plus one and is written as 0. The Rice parameter k follows from n_shingles: a step is its quotient by 2^k
//! in ones, a zero, and k bits of remainder; bits fill each byte from the lowest.

use super::{Form, Shingle, Sketch};

/// Bytes that are no sketch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are no sketch")]
pub struct InvalidSketch;

const SAMPLE: u8 = 0;
const WHOLE: u8 = 1;
const PARITY: u8 = 2;

/// Appends a sketch's bytes to `out`.
pub fn encode(sketch: &Sketch, out: &mut Vec<u8>) {
    put(out, u64::from(sketch.n_shingles));
    match &sketch.form {
        Form::Sample { values, bound } => {
            out.push(SAMPLE);
            encode_sample(values, *bound, out);
        }
        Form::Whole(tops) => {
            out.push(WHOLE);
            encode_whole(tops, out);
        }
        Form::Parity(words) => {
            out.push(PARITY);
            out.push((words.len() * 64).ilog2() as u8);
            out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        }
    }
}

/// Reads a sketch that fills `bytes`.
///
/// # Errors
/// [`InvalidSketch`] where the bytes end early, go on, or do not ascend.
pub fn decode(mut bytes: &[u8]) -> Result<Sketch, InvalidSketch> {
    let n_shingles = u32::try_from(take(&mut bytes)?).map_err(|_| InvalidSketch)?;
    let (form, rest) = bytes.split_first().ok_or(InvalidSketch)?;
    let form = match *form {
        SAMPLE => decode_sample(n_shingles, rest)?,
        WHOLE => decode_whole(n_shingles as usize, rest)?,
        PARITY => decode_parity(rest)?,
        _ => return Err(InvalidSketch),
    };
    Ok(Sketch { n_shingles, form })
}

fn encode_sample(values: &[Shingle], bound: u128, out: &mut Vec<u8>) {
    put(out, values.len() as u64);
    let exponent = if bound.is_power_of_two() { bound.trailing_zeros() } else { 0 };
    put(out, u64::from(exponent));
    let mut previous = 0;
    for value in values {
        put(out, value - previous);
        previous = *value;
    }
}

fn decode_sample(n_shingles: u32, mut bytes: &[u8]) -> Result<Form, InvalidSketch> {
    let n_values = take(&mut bytes)?;
    let exponent = take(&mut bytes)?;
    if n_values > u64::from(n_shingles) || n_values > bytes.len() as u64 || exponent > 64 {
        return Err(InvalidSketch);
    }
    let mut values = Vec::with_capacity(n_values as usize);
    let mut previous = None;
    for _ in 0..n_values {
        let step = take(&mut bytes)?;
        let value = match previous {
            None => step,
            Some(_) if step == 0 => return Err(InvalidSketch),
            Some(previous) => step.checked_add(previous).ok_or(InvalidSketch)?,
        };
        values.push(value);
        previous = Some(value);
    }
    let bound = match (exponent, previous) {
        (0, Some(last)) => u128::from(last) + 1,
        (exponent, _) => 1u128 << exponent,
    };
    if bytes.is_empty() { Ok(Form::Sample { values, bound }) } else { Err(InvalidSketch) }
}

/// The Rice parameter for `n` steps over 16 bits: the mean step is 2^16 / n.
fn rice_parameter(n: usize) -> u32 {
    16u32.saturating_sub(n.max(1).ilog2() + 1)
}

fn encode_whole(tops: &[u16], out: &mut Vec<u8>) {
    let k = rice_parameter(tops.len());
    let (mut bits, mut n_bits) = (0u64, 0);
    let mut push = |value: u64, n: u32| {
        bits |= value << n_bits;
        n_bits += n;
        while n_bits >= 8 {
            out.push(bits as u8);
            bits >>= 8;
            n_bits -= 8;
        }
    };
    let mut previous = 0;
    for top in tops {
        let step = u64::from(top - previous);
        previous = *top;
        for _ in 0..step >> k {
            push(1, 1);
        }
        push(0, 1);
        push(step & ((1 << k) - 1), k);
    }
    push(0, 7);
}

fn decode_whole(n: usize, bytes: &[u8]) -> Result<Form, InvalidSketch> {
    if n > bytes.len() * 8 {
        return Err(InvalidSketch);
    }
    let k = rice_parameter(n);
    let mut at = 0;
    let mut bit = || {
        let bit = bytes.get(at / 8).map(|byte| byte >> (at % 8) & 1);
        at += 1;
        bit.ok_or(InvalidSketch)
    };
    let mut tops = Vec::with_capacity(n);
    let mut previous = 0u32;
    for _ in 0..n {
        let mut step = 0u32;
        while bit()? == 1 {
            step += 1 << k;
            if step > u32::from(u16::MAX) {
                return Err(InvalidSketch);
            }
        }
        for place in 0..k {
            step |= u32::from(bit()?) << place;
        }
        previous = previous.checked_add(step).ok_or(InvalidSketch)?;
        tops.push(u16::try_from(previous).map_err(|_| InvalidSketch)?);
    }
    let is_padded = (at..bytes.len() * 8).all(|at| bytes[at / 8] >> (at % 8) & 1 == 0);
    if at.div_ceil(8) == bytes.len() && is_padded { Ok(Form::Whole(tops)) } else { Err(InvalidSketch) }
}

fn decode_parity(bytes: &[u8]) -> Result<Form, InvalidSketch> {
    let (log2, rest) = bytes.split_first().ok_or(InvalidSketch)?;
    let (words, odd) = rest.as_chunks::<8>();
    if !odd.is_empty() || !(6..=32).contains(log2) || words.len() as u64 * 64 != 1 << log2 {
        return Err(InvalidSketch);
    }
    Ok(Form::Parity(words.iter().map(|word| u64::from_le_bytes(*word)).collect()))
}

fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn take(bytes: &mut &[u8]) -> Result<u64, InvalidSketch> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or(InvalidSketch)?;
        *bytes = rest;
        let low = u64::from(byte & 0x7f);
        if low << shift >> shift != low {
            return Err(InvalidSketch);
        }
        number |= low << shift;
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(InvalidSketch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sketch::{Rule, SketchRule};
    use proptest::prelude::*;

    fn any_rule() -> impl Strategy<Value = Rule> {
        prop_oneof![
            Just(Rule::All),
            (1u64..30).prop_map(|modulus| Rule::Mod { modulus }),
            (1usize..40).prop_map(|size| Rule::Min { size }),
            (1usize..40).prop_map(|size| Rule::Adaptive { size }),
            (0usize..200).prop_map(|size| Rule::Parity { size, error_per_mille: 20 }),
        ]
    }

    /// Lost once: a step of ones without end overflowed, and came back as a small one.
    #[test]
    fn a_step_over_sixteen_bits_is_no_step() {
        for n_ones in [1 << 14, (1 << 17) / 8] {
            let bytes = [vec![1, WHOLE], vec![0xff; n_ones], vec![0; 2]].concat();
            assert_eq!(decode(&bytes), Err(InvalidSketch), "{n_ones} bytes");
        }
    }

    proptest! {
        #[test]
        fn round_trip(
            rule in any_rule(),
            bits in 32u32..=64,
            shingles in proptest::collection::vec(any::<u64>(), 0..200),
        ) {
            let of = SketchRule { rule, bits, ..SketchRule::default() };
            let mut shingles: Vec<u64> = shingles.iter().map(|shingle| shingle >> (64 - bits)).collect();
            let sketch = of.sketch(&mut shingles);
            let mut bytes = Vec::new();
            encode(&sketch, &mut bytes);
            prop_assert_eq!(decode(&bytes), Ok(sketch));
        }

        #[test]
        fn any_bytes_are_a_sketch_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(sketch) = decode(&bytes) {
                let mut again = Vec::new();
                encode(&sketch, &mut again);
                prop_assert_eq!(decode(&again), Ok(sketch));
            }
        }
    }
}
