//! The bytes of a stored sketch.
//!
//! ```text
//! varint n_shingles | varint n_values | varint bound's exponent or 0 | value[0] | value[1] - value[0] | …
//! ```
//! All numbers are LEB128 varints. A bound that is a power of two is written as its exponent; another one (the `min`
//! rules) is the last value plus one and is written as 0.

use super::Sketch;

/// Bytes that are no sketch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are no sketch")]
pub struct InvalidSketch;

/// Appends a sketch's bytes to `out`.
pub fn encode(sketch: &Sketch, out: &mut Vec<u8>) {
    put(out, u64::from(sketch.n_shingles));
    put(out, sketch.values.len() as u64);
    let exponent = if sketch.bound.is_power_of_two() { sketch.bound.trailing_zeros() } else { 0 };
    put(out, u64::from(exponent));
    let mut previous = 0;
    for value in &sketch.values {
        put(out, value - previous);
        previous = *value;
    }
}

/// Reads a sketch that fills `bytes`.
///
/// # Errors
/// [`InvalidSketch`] where the bytes end early, go on, or do not ascend.
pub fn decode(mut bytes: &[u8]) -> Result<Sketch, InvalidSketch> {
    let n_shingles = u32::try_from(take(&mut bytes)?).map_err(|_| InvalidSketch)?;
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
    if bytes.is_empty() { Ok(Sketch { values, bound, n_shingles }) } else { Err(InvalidSketch) }
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
        ]
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
            let sketch = of.sample(&mut shingles);
            let mut bytes = Vec::new();
            encode(&sketch, &mut bytes);
            prop_assert_eq!(decode(&bytes), Ok(sketch));
        }

        #[test]
        fn any_bytes_are_a_sketch_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(sketch) = decode(&bytes) {
                prop_assert!(sketch.values.is_sorted());
            }
        }
    }
}
