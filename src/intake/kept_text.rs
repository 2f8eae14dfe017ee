//! The text of a document as a store keeps it.

use crate::document::{Content, Page};
use crate::sketch::Sketcher;
use std::sync::Arc;

/// The largest text that a store can keep, in bytes. A damaged row must not ask for all memory.
pub const TEXT_BYTES_LIMIT: usize = 256 << 20;

/// The text of a document as a store keeps it: the length of the text (4 bytes, big-endian), and the text, compressed. A text over
/// the limit leaves only its length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptText(Arc<[u8]>);

/// How texts are kept.
#[derive(Clone, Copy, Debug)]
pub struct TextRule {
    /// Bytes of a text, at most: `limits.text_bytes_max`. Of a longer one only the length is kept.
    pub bytes_max: usize,
    /// Compresses a text, as the store unpacks it again. `None` where that fails.
    pub compress: fn(&str) -> Option<Vec<u8>>,
}

impl KeptText {
    /// The row of a text of `n_bytes`, compressed; empty where it is left out.
    pub fn new(n_bytes: usize, compressed: &[u8]) -> Self {
        let length = u32::try_from(n_bytes).unwrap_or(u32::MAX).to_be_bytes();
        KeptText([&length, compressed].concat().into())
    }

    /// The row of a text by a rule; `None` where it cannot be compressed.
    pub fn of(text: &str, rule: TextRule) -> Option<Self> {
        let n_bytes = text.len();
        if n_bytes > rule.bytes_max {
            return Some(KeptText::new(n_bytes, &[]));
        }
        (rule.compress)(text).map(|compressed| KeptText::new(n_bytes, &compressed))
    }

    /// A row of a store; `None` where it is none.
    pub fn from_row(row: &[u8]) -> Option<Self> {
        let is_row = row.len() >= size_of::<u32>();
        is_row.then(|| KeptText(row.into())).filter(|text| !text.is_there() || text.n_bytes() <= TEXT_BYTES_LIMIT)
    }

    /// The bytes of the row.
    pub fn as_row(&self) -> &[u8] {
        &self.0
    }

    /// Bytes of the text.
    pub fn n_bytes(&self) -> usize {
        self.0.first_chunk().map_or(0, |length| u32::from_be_bytes(*length) as usize)
    }

    /// Whether the text is there, and not only its length.
    pub fn is_there(&self) -> bool {
        !self.compressed().is_empty()
    }

    /// The text as it was compressed.
    pub fn compressed(&self) -> &[u8] {
        self.0.get(size_of::<u32>()..).unwrap_or_default()
    }
}

/// Makes the rows of texts with a buffer that it reuses.
#[derive(Clone, Debug)]
pub(super) struct TextKeeper {
    rule: TextRule,
    buffer: String,
}

impl TextKeeper {
    pub fn new(rule: TextRule) -> Self {
        TextKeeper { rule, buffer: String::new() }
    }

    /// The row of the page that `sketcher` sketched last, or found to be known.
    pub fn keep(&mut self, sketcher: &Sketcher, page: &Page) -> Option<KeptText> {
        if !matches!(page.content, Content::Body { .. }) {
            return None;
        }
        self.buffer.clear();
        sketcher.append_text(page, &mut self.buffer);
        KeptText::of(&self.buffer, self.rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_keeps_the_length_and_the_text() {
        let text = KeptText::new(3, b"abc");
        assert_eq!((text.n_bytes(), text.is_there(), text.compressed()), (3, true, &b"abc"[..]));
        assert_eq!(KeptText::from_row(text.as_row()), Some(text));
        let too_long = KeptText::new(5 << 30, b"");
        assert_eq!((too_long.n_bytes(), too_long.is_there()), (u32::MAX as usize, false));
        assert_eq!(KeptText::from_row(too_long.as_row()), Some(too_long));
        for damaged in [&b"abc"[..], b"\xff\xff\xff\xffx"] {
            assert_eq!(KeptText::from_row(damaged), None);
        }
    }
}
