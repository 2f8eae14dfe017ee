//! The bytes of a stored sketch.
//!
//! ```text
//! varint n_shingles | form, one byte | …
//! form 0, a sample:  varint n_values | varint bound's exponent or 0 | varints value[0], value[1] - value[0], …
//! form 1, whole:     n_shingles Rice-coded steps between leading bits, padded with zeros to a byte
//! form 2, parity:    log2 of the bits, one byte | the bitmap, 64-bit words, little-endian
//! form 3, parity:    log2 of the bits, one byte | varint n_ones | the zeros before each one, n_ones Rice-coded steps
//! form + 4:          the confirmation, 40 bytes | as without it
//! ```
//! Varints are LEB128. A bound that is a power of two is written as its exponent. Any other bound (under the `min`
//! rules) is the last value plus one and is written as 0. The Rice parameters follow from the counts. A bitmap is
//! written in the shorter of its two forms: it has few ones where the document is small for its bits.

use super::confirmation::{Confirmation, WORDS};
use super::rice::InvalidRice;
use super::sample::{Sketch, SketchForm};
use super::shingle::Shingle;
use super::{parity, rice};
use crate::codec::{decode_varint, encode_varint};

/// The bytes are not a sketch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are not a sketch")]
pub struct InvalidSketch;

impl From<InvalidRice> for InvalidSketch {
    fn from(_: InvalidRice) -> Self {
        InvalidSketch
    }
}

const SAMPLE: u8 = 0;
const WHOLE: u8 = 1;
const PARITY: u8 = 2;
const SPARSE_PARITY: u8 = 3;
/// Added to the form if a confirmation precedes it.
const CONFIRMED: u8 = 4;

/// The logarithm of the size of the largest bitmap. A few bytes must not make the decoder allocate more than it
/// needs.
const MAX_LOG2_BITS: u8 = parity::BITS_MAX.ilog2() as u8;

/// Appends a sketch's bytes to `out`.
pub fn encode(sketch: &Sketch, out: &mut Vec<u8>) {
    encode_varint(u64::from(sketch.n_shingles), out);
    let tag = out.len();
    out.push(0);
    if let Some(Confirmation(words)) = &sketch.confirmation {
        out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        out[tag] = CONFIRMED;
    }
    out[tag] += match &sketch.form {
        SketchForm::Sample { values, bound } => encode_sample(values, *bound, out),
        SketchForm::Whole(tops) => encode_whole(tops, out),
        SketchForm::Parity(words) => encode_parity(words, out),
    }
}

/// Decodes a sketch that fills `bytes`.
///
/// # Errors
/// [`InvalidSketch`] if the bytes end early, continue after the sketch, or do not ascend.
pub fn decode(mut bytes: &[u8]) -> Result<Sketch, InvalidSketch> {
    let n_shingles = u32::try_from(decode_number(&mut bytes)?).map_err(|_| InvalidSketch)?;
    let (tag, mut rest) = bytes.split_first().ok_or(InvalidSketch)?;
    let (confirmation, form) =
        if *tag >= CONFIRMED { (Some(decode_confirmation(&mut rest)?), tag - CONFIRMED) } else { (None, *tag) };
    let form = match form {
        SAMPLE => decode_sample(n_shingles, rest)?,
        WHOLE => decode_whole(n_shingles as usize, rest)?,
        PARITY => decode_parity(rest)?,
        SPARSE_PARITY => decode_sparse_parity(rest)?,
        _ => return Err(InvalidSketch),
    };
    Ok(Sketch { n_shingles, form, confirmation })
}

fn decode_confirmation(bytes: &mut &[u8]) -> Result<Confirmation, InvalidSketch> {
    let (head, rest) = bytes.split_first_chunk::<{ WORDS * 8 }>().ok_or(InvalidSketch)?;
    *bytes = rest;
    let mut words = [0; WORDS];
    for (word, bytes) in words.iter_mut().zip(head.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    Ok(Confirmation(words))
}

/// Appends the sample and returns its form, as the other `encode_` functions do.
fn encode_sample(values: &[Shingle], bound: u128, out: &mut Vec<u8>) -> u8 {
    encode_varint(values.len() as u64, out);
    let exponent = if bound.is_power_of_two() { bound.trailing_zeros() } else { 0 };
    encode_varint(u64::from(exponent), out);
    let mut previous = 0;
    for value in values {
        encode_varint(value - previous, out);
        previous = *value;
    }
    SAMPLE
}

fn decode_sample(n_shingles: u32, mut bytes: &[u8]) -> Result<SketchForm, InvalidSketch> {
    let n_values = decode_number(&mut bytes)?;
    let exponent = decode_number(&mut bytes)?;
    if n_values > u64::from(n_shingles) || n_values > bytes.len() as u64 || exponent > 64 {
        return Err(InvalidSketch);
    }
    let mut values = Vec::with_capacity(n_values as usize);
    let mut previous = None;
    for _ in 0..n_values {
        let step = decode_number(&mut bytes)?;
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
    if bytes.is_empty() { Ok(SketchForm::Sample { values, bound }) } else { Err(InvalidSketch) }
}

/// The Rice parameter for `n` steps over 16 bits: the mean step is 2^16 / n.
fn rice_parameter(n: usize) -> u32 {
    16u32.saturating_sub(n.max(1).ilog2() + 1)
}

fn encode_whole(tops: &[u16], out: &mut Vec<u8>) -> u8 {
    let mut previous = 0;
    let steps = tops.iter().map(|top| u32::from(top - std::mem::replace(&mut previous, *top)));
    rice::encode(steps, rice_parameter(tops.len()), out);
    WHOLE
}

fn decode_whole(n: usize, bytes: &[u8]) -> Result<SketchForm, InvalidSketch> {
    let mut tops = Vec::with_capacity(n.min(bytes.len() * 8));
    let mut previous = 0;
    rice::decode::<InvalidSketch>(n, rice_parameter(n), u32::from(u16::MAX), bytes, |step| {
        previous += step;
        tops.push(u16::try_from(previous).map_err(|_| InvalidSketch)?);
        Ok(())
    })?;
    Ok(SketchForm::Whole(tops))
}

/// The Rice parameter for the zeros before each of `n_ones` ones among `n_bits`.
fn rice_parameter_of_zeros(n_ones: usize, n_bits: usize) -> u32 {
    let n_zeros = n_bits.saturating_sub(n_ones);
    (n_zeros / n_ones.max(1)).max(1).ilog2()
}

fn encode_parity(words: &[u64], out: &mut Vec<u8>) -> u8 {
    let n_bits = words.len() * 64;
    let n_ones = words.iter().map(|word| word.count_ones() as usize).sum();
    out.push(n_bits.ilog2() as u8);
    let (start, parameter) = (out.len(), rice_parameter_of_zeros(n_ones, n_bits));
    // Steps without a remainder take one bit for each zero and each one, no fewer than the bitmap has.
    if parameter > 0 {
        encode_varint(n_ones as u64, out);
        rice::encode(zeros_before_ones(words), parameter, out);
        if out.len() - start < n_bits / 8 {
            return SPARSE_PARITY;
        }
        out.truncate(start);
    }
    out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    PARITY
}

/// The number of zeros before each one, since the previous one.
fn zeros_before_ones(words: &[u64]) -> impl Iterator<Item = u32> {
    let ones = words.iter().zip(0u32..).flat_map(|(word, at)| {
        let mut rest = *word;
        std::iter::from_fn(move || {
            let place = (rest != 0).then(|| rest.trailing_zeros())?;
            rest &= rest - 1;
            Some(at * 64 + place)
        })
    });
    let mut next = 0;
    ones.map(move |one| one - std::mem::replace(&mut next, one + 1))
}

/// The number of words in a bitmap of 2^`log2_bits` bits.
fn n_words(log2_bits: u8) -> Result<usize, InvalidSketch> {
    if (6..=MAX_LOG2_BITS).contains(&log2_bits) { Ok(1 << (log2_bits - 6)) } else { Err(InvalidSketch) }
}

fn decode_sparse_parity(bytes: &[u8]) -> Result<SketchForm, InvalidSketch> {
    let (log2_bits, mut rest) = bytes.split_first().ok_or(InvalidSketch)?;
    let n_ones = usize::try_from(decode_number(&mut rest)?).map_err(|_| InvalidSketch)?;
    let mut words = vec![0u64; n_words(*log2_bits)?];
    let n_bits = words.len() * 64;
    let mut next = 0;
    rice::decode::<InvalidSketch>(n_ones, rice_parameter_of_zeros(n_ones, n_bits), n_bits as u32, rest, |n_zeros| {
        let at = next + n_zeros as usize;
        *words.get_mut(at / 64).ok_or(InvalidSketch)? |= 1 << (at % 64);
        next = at + 1;
        Ok(())
    })?;
    Ok(SketchForm::Parity(words))
}

fn decode_parity(bytes: &[u8]) -> Result<SketchForm, InvalidSketch> {
    let (log2, rest) = bytes.split_first().ok_or(InvalidSketch)?;
    let (words, odd) = rest.as_chunks::<8>();
    if !odd.is_empty() || words.len() != n_words(*log2)? {
        return Err(InvalidSketch);
    }
    Ok(SketchForm::Parity(words.iter().map(|word| u64::from_le_bytes(*word)).collect()))
}

fn decode_number(bytes: &mut &[u8]) -> Result<u64, InvalidSketch> {
    decode_varint(bytes).ok_or(InvalidSketch)
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

    /// Lost once: an endless run of ones overflowed the step and came back as a small one.
    #[test]
    fn a_step_over_sixteen_bits_is_rejected() {
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
            confirmation in proptest::option::of(any::<[u64; WORDS]>()),
        ) {
            let of = SketchRule { rule, bits, ..SketchRule::default() };
            let mut shingles: Vec<u64> = shingles.iter().map(|shingle| shingle >> (64 - bits)).collect();
            let sketch = Sketch { confirmation: confirmation.map(Confirmation), ..of.sketch(&mut shingles) };
            let mut bytes = Vec::new();
            encode(&sketch, &mut bytes);
            prop_assert_eq!(decode(&bytes), Ok(sketch));
        }

        #[test]
        fn any_bytes_are_a_sketch_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            if let Ok(sketch) = decode(&bytes) {
                let mut again = Vec::new();
                encode(&sketch, &mut again);
                prop_assert_eq!(decode(&again), Ok(sketch));
            }
        }
    }
}
