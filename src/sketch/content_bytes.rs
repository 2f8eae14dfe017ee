//! The bytes of a sketched content, wherever it goes before it is a document of a store.

use super::codec::{decode, encode};
use super::shingle::Shingle;
use super::sketcher::{Equivalences, SketchedContent};
use crate::codec::{decode_array, decode_bytes, decode_flag, decode_varint, encode_bytes, encode_flag, encode_varint};
use crate::document::Fingerprint;
use std::sync::Arc;

/// Appends ascending shingles: their number, then the step to each, as varints.
fn encode_shingles(shingles: &[Shingle], out: &mut Vec<u8>) {
    encode_varint(shingles.len() as u64, out);
    let mut previous = 0;
    for shingle in shingles {
        encode_varint(shingle - previous, out);
        previous = *shingle;
    }
}

/// Decodes what [`encode_shingles`] appends.
fn decode_shingles(bytes: &mut &[u8]) -> Option<Vec<Shingle>> {
    let n = decode_varint(bytes)? as usize;
    let mut shingles = Vec::with_capacity(n.min(bytes.len()));
    let mut previous: Shingle = 0;
    for _ in 0..n {
        previous = previous.checked_add(decode_varint(bytes)?)?;
        shingles.push(previous);
    }
    Some(shingles)
}

impl Equivalences {
    /// Appends the three fingerprints, each a flag and 16 bytes, little-endian.
    pub fn encode(&self, out: &mut Vec<u8>) {
        for key in [Some(self.identical), Some(self.lexical), self.shingle] {
            encode_flag(key.is_some(), out);
            out.extend(key.map_or(0, |key| key.0).to_le_bytes());
        }
    }

    /// Decodes what [`Self::encode`] appends.
    pub fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let mut key = || {
            let is_some = decode_flag(bytes)?;
            let key = Fingerprint(u128::from_le_bytes(decode_array(bytes)?));
            Some(is_some.then_some(key))
        };
        Some(Equivalences { identical: key()??, lexical: key()??, shingle: key()? })
    }
}

impl SketchedContent {
    /// Appends the sketch as [`encode`] writes it, behind its length; the equivalences; words and bytes as varints; the
    /// index shingles, super shingles and mod shingles.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut sketch = Vec::new();
        encode(&self.sketch, &mut sketch);
        encode_bytes(&sketch, out);
        self.equivalences.encode(out);
        encode_varint(u64::from(self.n_words), out);
        encode_varint(self.n_bytes, out);
        for shingles in [&self.index, &self.super_shingles, &self.mod_shingles] {
            encode_shingles(shingles, out);
        }
    }

    /// Decodes what [`Self::encode`] appends; `None` where the bytes are damaged.
    pub fn decode(bytes: &mut &[u8]) -> Option<Self> {
        let sketch = Arc::new(decode(decode_bytes(bytes)?).ok()?);
        let equivalences = Equivalences::decode(bytes)?;
        let n_words = u32::try_from(decode_varint(bytes)?).ok()?;
        let n_bytes = decode_varint(bytes)?;
        let (index, super_shingles) = (decode_shingles(bytes)?, decode_shingles(bytes)?);
        let mod_shingles = decode_shingles(bytes)?;
        Some(SketchedContent { equivalences, sketch, index, mod_shingles, super_shingles, n_words, n_bytes })
    }
}
