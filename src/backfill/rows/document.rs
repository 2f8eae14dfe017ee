//! Documents, as the first phase leaves them.

use crate::codec::{
    decode_array, decode_bytes, decode_flag, decode_numbers, decode_varint, encode_bytes, encode_flag, encode_numbers,
    encode_varint,
};
use crate::document::{DocumentId, Fingerprint};
use crate::extsort::Row;
use crate::intake::KeptText;
use crate::sketch::{Equivalences, Shingle};

/// A document as the first phase leaves it. Its id is its position among all documents.
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentRow {
    /// The fingerprints that an equal content has.
    pub equivalences: Equivalences,
    /// The fingerprint of the URL that brought the document.
    pub first_url: Fingerprint,
    /// Words in the canonical form.
    pub n_words: u32,
    /// Bytes of the page that brought the document.
    pub n_bytes: u64,
    /// The sketch as [`crate::sketch::encode`] writes it.
    pub sketch: Vec<u8>,
    /// The shingles that may index the document, where the sketch does not begin with them.
    pub index: Option<Vec<Shingle>>,
    /// The super shingles, ascending.
    pub super_shingles: Vec<Shingle>,
    /// The mod shingles, ascending.
    pub mod_shingles: Vec<Shingle>,
}

impl Row for DocumentRow {
    fn encode(&self, _: Option<&Self>, out: &mut Vec<u8>) {
        encode_bytes(&self.sketch, out);
        self.equivalences.encode(out);
        out.extend(self.first_url.0.to_le_bytes());
        encode_varint(u64::from(self.n_words), out);
        encode_varint(self.n_bytes, out);
        encode_flag(self.index.is_some(), out);
        encode_numbers(self.index.as_deref().unwrap_or_default(), out);
        encode_numbers(&self.super_shingles, out);
        encode_numbers(&self.mod_shingles, out);
    }

    fn decode(_: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        let DocumentHead { sketch, equivalences, first_url, n_words, n_bytes, index } = DocumentHead::decode(bytes)?;
        Some(DocumentRow {
            equivalences,
            first_url,
            n_words,
            n_bytes,
            sketch: sketch.to_vec(),
            index,
            super_shingles: decode_numbers(bytes)?,
            mod_shingles: decode_numbers(bytes)?,
        })
    }
}

/// A document's row up to the shingles that may index it.
pub struct DocumentHead<'a> {
    /// The sketch as [`crate::sketch::encode`] writes it.
    pub sketch: &'a [u8],
    equivalences: Equivalences,
    first_url: Fingerprint,
    n_words: u32,
    n_bytes: u64,
    /// The shingles that may index the document, where the sketch does not begin with them.
    pub index: Option<Vec<Shingle>>,
}

impl<'a> DocumentHead<'a> {
    /// Decodes it and leaves the rest of the row in `bytes`.
    pub fn decode(bytes: &mut &'a [u8]) -> Option<Self> {
        let sketch = decode_bytes(bytes)?;
        let equivalences = Equivalences::decode(bytes)?;
        let first_url = Fingerprint(u128::from_le_bytes(decode_array(bytes)?));
        let n_words = u32::try_from(decode_varint(bytes)?).ok()?;
        let n_bytes = decode_varint(bytes)?;
        let has_index = decode_flag(bytes)?;
        let index = decode_numbers(bytes)?;
        Some(DocumentHead { sketch, equivalences, first_url, n_words, n_bytes, index: has_index.then_some(index) })
    }
}

/// The sketch in the bytes of a document's row. It comes first, so that a reader can stop behind it.
pub fn sketch_bytes(mut row: &[u8]) -> Option<&[u8]> {
    decode_bytes(&mut row)
}

/// Where a document's row begins in its file, and how many shingles index the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowOffset {
    /// Bytes from the start of the file.
    pub offset: u32,
    /// Index shingles, if none is common.
    pub n_index: u32,
}

impl Row for RowOffset {
    fn encode(&self, previous: Option<&Self>, out: &mut Vec<u8>) {
        encode_varint(u64::from(self.offset - previous.map_or(0, |previous| previous.offset)), out);
        encode_varint(u64::from(self.n_index), out);
    }

    fn decode(previous: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        let step = u32::try_from(decode_varint(bytes)?).ok()?;
        let offset = previous.map_or(0, |previous| previous.offset).checked_add(step)?;
        Some(RowOffset { offset, n_index: u32::try_from(decode_varint(bytes)?).ok()? })
    }
}

/// The text of a document.
#[derive(Clone, Debug, PartialEq)]
pub struct TextRow {
    /// The document.
    pub document: DocumentId,
    /// Its text.
    pub text: KeptText,
}

impl Row for TextRow {
    fn encode(&self, _: Option<&Self>, out: &mut Vec<u8>) {
        encode_varint(u64::from(self.document.0), out);
        encode_bytes(self.text.as_row(), out);
    }

    fn decode(_: Option<&Self>, bytes: &mut &[u8]) -> Option<Self> {
        let document = DocumentId(u32::try_from(decode_varint(bytes)?).ok()?);
        Some(TextRow { document, text: KeptText::from_row(decode_bytes(bytes)?)? })
    }
}
